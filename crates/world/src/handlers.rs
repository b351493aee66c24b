//! The handlers of this world: each attempt works, fails, panics, hangs, comes late or answers twice. None lies: what a
//! handler reports as certain is so.

use crate::agenda::{Act, Due};
use crate::count::{Fault, State};
use crate::lane::{Running, Stage};
use crate::outside::Standing;
use crate::tools;
use crate::world::World;
use serde_json::json;
use windlass_session::io::{AdmittedCall, EffectLookup, Input};
use windlass_session::under_way::Claim;
use windlass_tool::error::FailureKind;
use windlass_tool::handler::{
    Cause, Failure, Finding, HandlerMessage, HandlerResult, Report, Success,
};
use windlass_tool::id::{CallRef, EffectId};
use windlass_tool::intent::{EndAfter, Intent};
use windlass_tool::kind::Reach;

/// How an attempt goes, chosen when it begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Conduct {
    Works,
    FailsForSure,
    FailsTransiently,
    Breaks,
    BreaksAfterwards,
    Hangs,
    ComesLate,
    AnswersTwice,
}

/// Bytes of a result that is far too long.
const HUGE_BYTES: usize = 50 * 1024 * 1024;

impl World {
    pub(crate) fn start(&mut self, index: usize, call: &AdmittedCall) {
        let now_us = self.now_us;
        let number = self.lanes[index].number;
        let writes = call.tool().writes();
        let effect_id = call.effect_id();
        let claim = effect_id.and_then(|effect_id| self.lanes[index].claims.get(effect_id));
        let run = Running {
            effect_id: effect_id.cloned(),
            writes,
            reads: call.tool().reach == Reach::External,
            claim: claim.cloned(),
            has_returned: false,
            will_request: false,
            started_us: now_us,
        };
        let lane = &mut self.lanes[index];
        lane.running.insert((number, call.call()), run);
        if let Some(effect_id) = call.effect_id() {
            lane.watch.stages.insert(effect_id.clone(), Stage::Started);
        }
        let conduct = self.conduct();
        let request_us = self.random.below(2_000) * 1_000;
        let return_us = request_us + self.random.below(1_500) * 1_000;
        if let Some(effect_id) = call.effect_id().filter(|_| writes).cloned() {
            self.request(index, call.call(), conduct, request_us, effect_id);
        }
        self.plan_return(index, call.call(), conduct, return_us);
    }

    fn conduct(&mut self) -> Conduct {
        if self.is_calm {
            return Conduct::Works;
        }
        match self.random.below(20) {
            0..=9 => Conduct::Works,
            10 | 11 => Conduct::FailsForSure,
            12 | 13 => Conduct::FailsTransiently,
            14 => Conduct::Breaks,
            15 => Conduct::BreaksAfterwards,
            16 => Conduct::Hangs,
            17 | 18 => Conduct::ComesLate,
            _ => Conduct::AnswersTwice,
        }
    }

    /// When, if at all, the attempt asks the outside service, and whether that does it.
    fn request(
        &mut self,
        index: usize,
        call: CallRef,
        conduct: Conduct,
        after_us: u64,
        effect_id: EffectId,
    ) {
        let commits = match conduct {
            Conduct::Works | Conduct::AnswersTwice | Conduct::ComesLate => true,
            Conduct::FailsForSure => false,
            Conduct::FailsTransiently | Conduct::Hangs => self.random.one_in(2),
            Conduct::Breaks => return,
            Conduct::BreaksAfterwards => {
                self.fault(Fault::CommittedThenFailed);
                true
            }
        };
        if conduct == Conduct::Hangs && self.random.one_in(2) {
            return;
        }
        let number = self.lanes[index].number;
        if let Some(run) = self.lanes[index].running.get_mut(&(number, call)) {
            run.will_request = true;
        }
        self.plan(index, call, after_us, Act::Request { effect_id, commits });
    }

    fn plan(&mut self, index: usize, call: CallRef, after_us: u64, act: Act) {
        let session = self.lanes[index].number;
        let due = Due::Act {
            lane: index,
            session,
            call,
            act,
        };
        self.agenda.enter(self.now_us + after_us, due);
    }

    fn plan_return(&mut self, index: usize, call: CallRef, conduct: Conduct, after_us: u64) {
        let result = match conduct {
            Conduct::Works | Conduct::ComesLate | Conduct::AnswersTwice => {
                self.success(index, call)
            }
            Conduct::FailsForSure => self.certain_failure(),
            Conduct::FailsTransiently => {
                Err(Failure::new(FailureKind::Transient, "the network failed"))
            }
            Conduct::Breaks | Conduct::BreaksAfterwards => {
                self.fault(Fault::HandlerPanicked);
                broken()
            }
            Conduct::Hangs => return self.fault(Fault::HandlerHung),
        };
        let after_us = match conduct {
            Conduct::ComesLate => {
                self.fault(Fault::HandlerLate);
                5_100_000 + self.random.below(20_000_000)
            }
            _ => after_us,
        };
        if conduct == Conduct::AnswersTwice {
            self.fault(Fault::HandlerTwice);
            self.plan(index, call, after_us, Act::Return(result.clone()));
        }
        if self.random.one_in(8) {
            let message = self.message();
            let when_us = self.random.below(4_000_000);
            if when_us > after_us {
                self.fault(Fault::HandlerTalksLate);
            }
            self.plan(index, call, when_us, Act::Say(message));
        }
        self.plan(index, call, after_us, Act::Return(result));
    }

    fn message(&mut self) -> HandlerMessage {
        match self.random.below(4) {
            0 => HandlerMessage::Client(json!({ "type": "own" })),
            1 => HandlerMessage::Client(json!({ "type": "confirmation_request" })),
            2 => HandlerMessage::Emit {
                name: "named".to_owned(),
                payload: json!(1),
            },
            _ => HandlerMessage::Progress {
                message: "half".to_owned(),
                fraction: Some(0.5),
            },
        }
    }

    fn success(&mut self, index: usize, call: CallRef) -> HandlerResult {
        self.last_id += 1;
        let number = self.last_id;
        let mut success = match self.random.below(6) {
            0 => Success::default(),
            1 => Success::new(json!({ "results": [] })),
            _ => Success::new(json!({ tools::TAG: number })),
        };
        if !self.is_calm && self.random.one_in(3_000) {
            self.fault(Fault::HandlerHuge);
            success = Success::new(json!({ "text": "x".repeat(HUGE_BYTES) }));
        }
        if !self.is_calm && self.random.one_in(6) {
            let intent = match self.random.below(12) {
                0..=4 => Intent::SetPendingMessage {
                    message: self.mint("pending"),
                },
                5 | 6 => Intent::SuppressAudio { value: true },
                7..=9 => Intent::Unknown(json!({ "type": "REBOOT" })),
                _ => Intent::EndVoiceSession {
                    after: *self.random.pick(&[
                        EndAfter::CurrentTurn,
                        EndAfter::FarewellSpoken,
                        EndAfter::Immediate,
                    ]),
                    reason: None,
                    closing_message: None,
                    text_response: None,
                },
            };
            success.intents.push(intent);
        }
        let facts = self.lanes[index].call(call.call);
        facts.intents_brought = facts.intents_brought.max(success.intents.len());
        Ok(success)
    }

    fn certain_failure(&mut self) -> HandlerResult {
        let kind = *self.random.pick(&[
            FailureKind::Permanent,
            FailureKind::Transient,
            FailureKind::Transient,
            FailureKind::Conflict,
        ]);
        self.last_id += 1;
        let mut message = format!("it was refused #{}", self.last_id);
        if !self.is_calm && self.random.one_in(1_000) {
            self.fault(Fault::HandlerHuge);
            message.push_str(&" at length".repeat(HUGE_BYTES / 10));
        }
        let report = Report {
            partial_side_effects: Some(false),
            ..Report::new(kind, message)
        };
        Err(report.into())
    }

    /// A result comes in: the session hears of it if it lives.
    pub(crate) fn return_result(
        &mut self,
        index: usize,
        session: u32,
        call: CallRef,
        result: HandlerResult,
    ) {
        let lane = &mut self.lanes[index];
        let is_present = lane.number == session && lane.is_live();
        let overtakes = lane.running.iter().any(|(key, run)| {
            let is_before = key.1.call < call.call && run.started_us <= self.now_us;
            key.0 == session && is_before && !run.has_returned
        });
        let run = lane.running.get_mut(&(session, call));
        let (effect_id, claim) = run.map_or((None, None), |run| {
            run.has_returned = true;
            (run.effect_id.clone(), run.claim.take())
        });
        if is_certain_failure(&result)
            && is_present
            && let Some(effect_id) = effect_id
        {
            self.outside.disclaim(&effect_id);
        }
        if overtakes {
            self.fault(Fault::AnsweredOutOfOrder);
        }
        if is_present {
            self.feed(index, Input::CallFinished { call, result });
        }
        // What the session has made of it, the store has heard by now.
        drop(claim);
    }

    /// A handler is asked what became of an effect. It says what the outside service knows now, or that it does not know.
    pub(crate) fn ask_handler(&mut self, index: usize, lookup: &EffectLookup, claim: Claim) {
        self.lanes[index].lookups.insert(lookup.call(), claim);
        let effect_id = lookup.effect_id();
        let known = self.outside.known(effect_id);
        let is_in_flight = self.lanes.iter().any(|lane| lane.is_in_flight(effect_id));
        self.last_id += 1;
        let finding = if self.random.one_in(3) {
            Finding::Unknown
        } else if known.is_done {
            Finding::Happened(Box::new(Success::new(json!({ tools::TAG: self.last_id }))))
        } else {
            Finding::NotHappened
        };
        self.report.counts.state(match finding {
            Finding::Unknown => State::LookedUpUnknown,
            Finding::Happened(_) => State::LookedUpHappened,
            Finding::NotHappened => State::LookedUpNotHappened,
        });
        if finding == Finding::NotHappened && known.standing == Standing::MayBeDone && !is_in_flight
        {
            self.outside.disclaim(effect_id);
        }
        let after_us = match self.random.below(8) {
            0 if !self.is_calm => return,
            1 => 7_000_000,
            _ => self.random.below(900) * 1_000,
        };
        let call = lookup.call();
        self.answer(index, after_us, Input::LookedUp { call, finding });
    }
}

fn broken() -> HandlerResult {
    Err(Failure {
        cause: Cause::Broken("it panicked".to_owned()),
        intents: Vec::new(),
    })
}

fn is_certain_failure(result: &HandlerResult) -> bool {
    match result {
        Err(Failure {
            cause: Cause::Reported(report),
            ..
        }) => report.partial_side_effects == Some(false),
        Ok(_) | Err(_) => false,
    }
}
