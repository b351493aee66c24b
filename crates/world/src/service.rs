//! Services that accept a change for later: they do it at any time, or never, and report its end once, twice, late, before their
//! acceptance is known, or never. Their first report is true.

use crate::agenda::{Due, ServiceCall};
use crate::count::Fault;
use crate::judge::Rule;
use crate::outside::RequestFate;
use crate::tools::Offer;
use crate::world::World;
use std::sync::Arc;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::Failure;
use windlass_contract::kind::Mode;
use windlass_driver::Ledger;
use windlass_session::limits::Limits;
use windlass_session::{CallbackFacts, called_back};
use windlass_store::command::{Command, Reply};
use windlass_store::{AttemptOutcome, EffectState, EntryNumber};

/// Entries of a log that are read; more than any world has.
const LOG_ENTRIES_MAX: usize = 100_000;
/// The number of times that a service sends a message again that was not taken.
const TRIES: u32 = 5;

/// The way in which a service ends an accepted change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServiceConduct {
    Succeeds,
    Fails,
    /// It does not know itself.
    EndsInDoubt,
    /// It says nothing.
    Forgets,
}

impl World {
    /// A service takes a request on until then.
    pub(crate) fn accept(&mut self, request: usize, until_us: u64) {
        self.outside.requests[request].is_accepted = true;
        let conduct = match self.random.below(10) {
            0..=4 => ServiceConduct::Succeeds,
            5..=7 => ServiceConduct::Fails,
            8 => ServiceConduct::EndsInDoubt,
            _ => ServiceConduct::Forgets,
        };
        let takes_us = match self.random.below(4) {
            0 => self.random.below(1_500) * 1_000,
            1 => until_us.saturating_sub(self.now_us) + self.random.below(100_000) * 1_000,
            _ => self
                .random
                .below(until_us.saturating_sub(self.now_us).max(1)),
        };
        let ends_us = self.now_us + takes_us;
        let is_done = match conduct {
            ServiceConduct::Succeeds => true,
            ServiceConduct::Fails => false,
            ServiceConduct::EndsInDoubt | ServiceConduct::Forgets => self.random.one_in(2),
        };
        match is_done {
            true => self.agenda.enter(ends_us, Due::Land { request }),
            false => self.outside.requests[request].fate = RequestFate::Lost,
        }
        let result = match conduct {
            ServiceConduct::Succeeds => self.success(),
            ServiceConduct::Fails => self.certain_failure(),
            ServiceConduct::EndsInDoubt => {
                Err(Failure::new(FailureKind::Transient, "the service is lost"))
            }
            ServiceConduct::Forgets => return self.fault(Fault::NeverCalledBack),
        };
        let call = ServiceCall {
            request,
            result,
            tries_left: TRIES,
        };
        let tells_us = ends_us + self.random.below(3) * 1_000_000;
        self.fault_if(tells_us >= until_us, Fault::CalledBackLate);
        self.agenda.enter(tells_us, Due::CallBack(call.clone()));
        if self.random.one_in(2) {
            self.fault(Fault::CalledBackTwice);
            let again_us = tells_us + self.random.below(60_000) * 1_000;
            self.agenda.enter(again_us, Due::CallBack(call));
        }
    }

    /// A service sends its message to a process that serves.
    pub(crate) fn call_back(&mut self, call: ServiceCall) {
        let serving = self.serving();
        if serving.is_empty() {
            return self.call_again(call);
        }
        let process = *self.random.pick(&serving);
        let ledger = self.processes[process].ledger.clone();
        let effect_id = self.outside.requests[call.request].effect_id.clone();
        let Ok(known) = ledger.store().effect_of_any(&effect_id) else {
            return self.call_again(call);
        };
        let registry = Offer::of(self.edition).registry();
        let known = known.and_then(|(of, effect)| {
            let tool = registry.of_record(effect.tool.as_str(), &effect.tool_version)?;
            Some((tool, of, effect))
        });
        let Some((tool, of, effect)) = known else {
            let what = format!("{effect_id} was accepted, and the ledger does not have it");
            return self.broken(Rule::TheLedgerTellsTheTruth, what);
        };
        let attempt = effect.newest_attempt();
        let is_early = effect.state == EffectState::Running && attempt.outcome.is_none();
        self.fault_if(is_early, Fault::CalledBackBeforeAccepted);
        let log = match ledger.store().entries(&of, EntryNumber(0), LOG_ENTRIES_MAX) {
            Ok(log) => log,
            Err(_) => return self.call_again(call),
        };
        let facts = CallbackFacts {
            effect: &effect,
            tool,
            registry: &registry,
            limits: &Arc::new(Limits::of(Mode::Text)),
            log: &log,
            now_unix_ms: ledger.store().now_unix_ms(),
        };
        let (command, _, _) = called_back(&facts, call.result.clone());
        let replies = self.apply(process, &of, Command::CalledBack(Box::new(command)));
        self.processes[process].calling_back.push((call, replies));
        self.plan_commit(process);
    }

    /// The message was not taken.
    pub(crate) fn call_again(&mut self, call: ServiceCall) {
        self.fault(Fault::CallbackNotTaken);
        if let Some(tries_left) = call.tries_left.checked_sub(1) {
            let call = ServiceCall { tries_left, ..call };
            let pause_us = (1_000 + self.random.below(20_000)) * 1_000;
            self.agenda
                .enter(self.now_us + pause_us, Due::CallBack(call));
        }
    }

    pub(crate) fn is_called_back(&mut self, call: ServiceCall, reply: Option<Reply>) {
        match reply {
            Some(Reply::Recorded(effect)) => {
                self.trace(|| format!("CALLED BACK {call:?}: {effect:?}"));
                let attempt = effect.newest_attempt();
                let is_end = match attempt.outcome {
                    Some(AttemptOutcome::Succeeded | AttemptOutcome::Failed) => true,
                    Some(
                        AttemptOutcome::Unknown
                        | AttemptOutcome::Accepted { .. }
                        | AttemptOutcome::Asked { .. },
                    )
                    | None => false,
                };
                self.judge_called_back(&effect, is_end);
            }
            // The message need not be sent again.
            Some(Reply::TooLate(effect)) => self.judge_too_late(&call, &effect),
            Some(reply) => {
                let what = format!("{call:?} is answered {reply:?}");
                self.broken(Rule::TheLedgerTellsTheTruth, what);
            }
            None => self.call_again(call),
        }
    }
}
