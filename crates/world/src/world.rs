//! The world itself: virtual time, what is due, and one step after another. Who does what in a step is in the files of
//! those who do it; what must hold is in `rules`.

use crate::agenda::Agenda;
use crate::count::{Counts, Fault, State};
use crate::lane::{Lane, Watch};
use crate::outside::Outside;
use crate::prove::{Digest, Journal};
use crate::random::Random;
use crate::rules::Rule;
use crate::unstored::Unstored;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_session::client::ClientEvent;
use windlass_session::io::{
    Continued, Input, LedgerEntry, OutcomeState, Output, Remembered, TokenHash,
};
use windlass_session::model::{ConnectionEvent, LostReason, ModelEvent};
use windlass_session::session::{Session, SessionConfig};
use windlass_session::snapshot::{Restored, brings_words, is_worth_saving};
use windlass_session::time::Timestamp;
use windlass_session::under_way::UnderWay;
use windlass_store::{EffectState, MemoryStore};
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::{CallNumber, EffectId};
use windlass_tool::sensitive::Sensitive;

/// Milliseconds since the Unix epoch at which every world begins: 2026-11-20.
const BEGINNING_UNIX_MS: i64 = 1_795_132_800_000;

/// One world in so many is compared.
const COMPARED_EVERY: u64 = 50;

/// One world that is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Things that somebody does; what follows from them is not counted.
    pub steps: u32,
    /// Whether everything that happens is written down.
    pub is_traced: bool,
    /// Whether it is run twice, and each session of it once more from its journal, and what comes out is compared.
    pub is_compared: bool,
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<windlass_session::planted::PlantedBug>,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        Self {
            seed,
            steps: 120,
            is_traced: false,
            is_compared: seed.is_multiple_of(COMPARED_EVERY),
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }
}

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    pub what: String,
}

/// What came of a world.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub violation: Option<Violation>,
    pub trace: Vec<String>,
    pub counts: Counts,
    /// Of all outputs, where the world is compared.
    pub digest: Option<u64>,
}

/// How the store behaves at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreMood {
    Up,
    Slow,
    /// It says that it cannot.
    Down,
    /// It does what it is asked, and its answer comes far too late, or never.
    Silent,
    Full,
}

/// What the user was asked, as the client and the rules know it.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) lane: usize,
    pub(crate) effect_id: EffectId,
    pub(crate) fingerprint: [u8; 32],
    pub(crate) arguments: String,
    pub(crate) expires_at_unix_ms: u64,
    pub(crate) asked_us: u64,
    /// Whatever the clock is set to.
    pub(crate) valid_until_us: u64,
    /// It said that the change may have happened before.
    pub(crate) is_warned: bool,
    pub(crate) is_approved: bool,
    pub(crate) is_used: bool,
    /// Another token has taken the place of its own.
    pub(crate) is_replaced: bool,
    /// The process is dead in which it was asked.
    pub(crate) is_left_behind: bool,
    /// Nobody may approve it any more.
    pub(crate) refusal: Option<Refusal>,
}

/// Why a question was closed without a yes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) problem: &'static str,
    /// The store knows of it, so that it holds after a crash, too.
    pub(crate) is_stored: bool,
}

/// What a session is told of those before it.
pub(crate) enum Past {
    Unknown,
    /// By voice.
    Restored(Box<Restored>),
    /// By text.
    Inherited(Remembered, Continued),
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) now_us: u64,
    pub(crate) wall_offset_ms: i64,
    pub(crate) agenda: Agenda,
    /// The seats, and behind them the sessions that were left while a change ran.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) seats: usize,
    pub(crate) under_way: UnderWay,
    /// Who waits for another session's change, in which place and session.
    pub(crate) awaited: Vec<(usize, u32, CallNumber, EffectId)>,
    pub(crate) store: MemoryStore,
    pub(crate) mood: StoreMood,
    pub(crate) unstored: Unstored,
    /// Which sessions have read what others wrote, by home and number.
    pub(crate) readers: BTreeSet<(usize, u32)>,
    /// Answers as the store keeps them, read back.
    pub(crate) responses: BTreeMap<EffectId, Arc<ToolResponse>>,
    pub(crate) outside: Outside,
    pub(crate) questions: BTreeMap<TokenHash, Question>,
    /// When the outside service was last asked for an effect.
    pub(crate) requested_us: BTreeMap<EffectId, u64>,
    pub(crate) is_reloaded: bool,
    /// Nothing goes wrong any more.
    pub(crate) is_calm: bool,
    pub(crate) last_id: u64,
    pub(crate) report: Report,
    is_traced: bool,
    digest: Option<Digest>,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<windlass_session::planted::PlantedBug>,
}

impl World {
    pub(crate) fn live(&mut self, steps: u32) {
        for _ in 0..steps {
            if self.is_broken() {
                break;
            }
            self.step();
            self.report.counts.steps += 1;
        }
        if !self.is_broken() {
            self.settle();
        }
        self.report.digest = self.digest.as_ref().map(Digest::sum);
    }

    pub(crate) fn new(plan: &Plan) -> Self {
        let mut random = Random::new(plan.seed);
        let shares_user = random.one_in(2);
        let seats = 1 + random.index(2);
        let lanes = (0..seats)
            .map(|index| Lane::new(index, shares_user, &mut random))
            .collect();
        Self {
            random,
            now_us: 0,
            wall_offset_ms: 0,
            agenda: Agenda::default(),
            lanes,
            seats,
            #[cfg(not(feature = "planted-bugs"))]
            under_way: UnderWay::default(),
            #[cfg(feature = "planted-bugs")]
            under_way: UnderWay::with_bug(plan.planted_bug),
            awaited: Vec::new(),
            store: MemoryStore::new(),
            mood: StoreMood::Up,
            unstored: Unstored::default(),
            readers: BTreeSet::new(),
            responses: BTreeMap::new(),
            outside: Outside::default(),
            questions: BTreeMap::new(),
            requested_us: BTreeMap::new(),
            is_reloaded: false,
            is_calm: false,
            last_id: 0,
            report: Report::default(),
            is_traced: plan.is_traced,
            digest: plan.is_compared.then(Digest::default),
            #[cfg(feature = "planted-bugs")]
            planted_bug: plan.planted_bug,
        }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.report.violation.is_some()
    }

    pub(crate) fn broken(&mut self, rule: Rule, what: impl Into<String>) {
        let what = what.into();
        self.trace(|| format!("BROKEN {rule}: {what}"));
        self.report
            .violation
            .get_or_insert(Violation { rule, what });
    }

    pub(crate) fn trace(&mut self, line: impl FnOnce() -> String) {
        if self.is_traced {
            let line: String = line().chars().take(4_000).collect();
            let now_ms = self.now_us / 1_000;
            self.report.trace.push(format!("{now_ms:>9} ms {line}"));
        }
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        self.trace(|| format!("FAULT {fault:?}"));
        self.report.counts.fault(fault);
    }

    pub(crate) fn unix_ms(&self) -> u64 {
        let now_ms = i64::try_from(self.now_us / 1_000).unwrap_or(i64::MAX);
        u64::try_from(BEGINNING_UNIX_MS + now_ms + self.wall_offset_ms).unwrap_or(0)
    }

    pub(crate) fn mint(&mut self, kind: &str) -> String {
        self.last_id += 1;
        format!("{kind}-{}", self.last_id)
    }

    /// Begins a session of a conversation, with what the ledger knows.
    pub(crate) fn begin(&mut self, index: usize) {
        self.begin_with(index, Watch::default(), Past::Unknown);
    }

    /// The same for one that may take another's place.
    pub(crate) fn begin_with(&mut self, index: usize, watch: Watch, past: Past) {
        if !self.lanes[index].watch.has_unrecorded && self.mood == StoreMood::Up {
            self.one_end_per_start(index);
        }
        self.a_replay_gives_the_same_outputs(index);
        let (now_us, unix_ms) = (self.now_us, self.unix_ms());
        let registry = self.tools_of_now();
        let lane = &mut self.lanes[index];
        lane.number += 1;
        lane.started_us = now_us;
        lane.generation = 0;
        lane.is_connected = false;
        lane.connected_us = None;
        lane.watch = watch;
        lane.minted.clear();
        lane.is_client_here = true;
        lane.saved = None;
        lane.ended = None;
        let before = match &past {
            Past::Restored(restored) => Some(&restored.snapshot),
            Past::Unknown | Past::Inherited(..) => None,
        };
        let pending_request = before.and_then(|before| before.pending_request.clone());
        let number = lane.number;
        let config = SessionConfig {
            session_id: lane.session_id(),
            user_id: lane.user.clone(),
            conversation_id: lane.conversation.clone(),
            mode: lane.mode,
            registry,
            limits: lane.limits.clone(),
            profile: lane.profile.clone(),
            started_unix_ms: unix_ms,
            history: before.map_or_else(Vec::new, |before| before.history.clone()),
            pending_request: pending_request.map(Sensitive::into_inner),
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        };
        let mut outputs = Vec::new();
        let journaled = self.digest.is_some().then(|| config.clone());
        lane.membership = Some(self.under_way.join(&lane.conversation));
        lane.session = Some(Session::new(config, &mut outputs));
        lane.journal = journaled.map(|config| Journal::begin(&config, &outputs));
        self.trace(|| format!("lane {index} begins session {number}"));
        for output in outputs {
            // Its driver has read the ledger already.
            let is_read = matches!((&past, &output), (Past::Inherited(..), Output::ReadLedger));
            if !is_read {
                self.take_output(index, output);
            }
        }
        self.tell_past(index, past);
        self.connect(index, 1, Ok(false));
    }

    fn tell_past(&mut self, index: usize, past: Past) {
        match past {
            Past::Unknown => {}
            Past::Restored(restored) => {
                self.feed(index, Input::Restored(restored));
                self.open_questions_are_taken_up(index);
                self.feed(index, Input::Client(ClientEvent::Connected));
            }
            Past::Inherited(remembered, continued) => {
                self.feed(index, Input::Ledger(Ok(remembered)));
                self.feed(index, Input::Continued(continued));
                self.open_questions_are_taken_up(index);
            }
        }
    }

    /// The provider takes a connection, or is heard to refuse it.
    pub(crate) fn connect(
        &mut self,
        index: usize,
        generation: u64,
        outcome: Result<bool, LostReason>,
    ) {
        match outcome {
            Ok(resumed) => {
                let lane = &mut self.lanes[index];
                lane.generation = generation;
                lane.is_connected = true;
                lane.connected_us = Some(self.now_us);
                lane.watch.refused_resumes = 0;
                let connected = ConnectionEvent::Connected {
                    generation,
                    resumed,
                };
                self.feed(index, Input::Connection(connected));
                let ready = ModelEvent::Ready {
                    provider_session_id: None,
                };
                self.feed(index, Input::Model(ready));
                self.is_sent_away(index);
            }
            Err(reason) => {
                self.note_refused(index, &reason);
                let lost = ConnectionEvent::Lost { generation, reason };
                self.feed(index, Input::Connection(lost));
            }
        }
    }

    /// What a driver gives the core at the start: the conversation's effects, those without an outcome as unknown.
    pub(crate) fn ledger_of(&self, effects: Vec<windlass_store::Effect>) -> Vec<LedgerEntry> {
        effects
            .into_iter()
            .map(|effect| LedgerEntry {
                is_under_way: effect.state.is_open() && !self.under_way.is_free(&effect.effect_id),
                fingerprint: effect.fingerprint,
                state: match effect.state {
                    EffectState::Reserved | EffectState::Unknown => OutcomeState::Unknown,
                    EffectState::Succeeded => OutcomeState::Succeeded,
                    EffectState::Failed => OutcomeState::Failed,
                },
                response: effect
                    .response
                    .and_then(|_| self.responses.get(&effect.effect_id).cloned()),
                effect_id: effect.effect_id,
                tool: effect.tool,
                is_answered: effect.is_answered,
                reserved_at_unix_ms: effect.reserved_at_unix_ms,
                wish: serde_json::from_str(effect.intent.expose()).unwrap_or_default(),
            })
            .collect()
    }

    /// Gives one session one input, holds what it says against the rules, and obeys it.
    pub(crate) fn feed(&mut self, index: usize, input: Input) {
        let now = Timestamp(self.now_us.saturating_sub(self.lanes[index].started_us));
        if self.lanes[index].session.is_none() || self.is_broken() {
            return;
        }
        if self.lanes[index].hears_news_before(&input) {
            self.report.counts.state(State::ChangedElsewhere);
            self.feed(index, Input::ChangedElsewhere);
        }
        self.trace(|| format!("lane {index} < {input:?}"));
        self.before_input(index, &input);
        let mut outputs = Vec::new();
        let lane = &mut self.lanes[index];
        let is_typed = brings_words(&input);
        let journaled = lane.journal.is_some().then(|| input.clone());
        if let Some(session) = &mut lane.session {
            session.handle(now, input, &mut outputs);
        }
        if let (Some(journal), Some(input)) = (&mut lane.journal, journaled) {
            journal.step(now, input, &outputs);
        }
        self.outputs_are_bounded(outputs.len());
        let is_news = is_typed || outputs.iter().any(is_worth_saving);
        for output in outputs {
            self.take_output(index, output);
            let lane = &mut self.lanes[index];
            match &mut lane.crash_in {
                Some(0) => return self.crash(index),
                Some(left) => *left -= 1,
                None => {}
            }
        }
        if is_news {
            self.save(index);
        }
        self.after_input(index);
    }

    fn take_output(&mut self, index: usize, output: Output) {
        self.trace(|| format!("lane {index}   > {}", describe(&output)));
        if let Some(digest) = &mut self.digest {
            digest.take(index, &output);
        }
        self.on_output(index, &output);
        if !self.is_broken() {
            self.obey(index, output);
        }
    }

    /// Lets everything happen that is due until a moment, in its order.
    pub(crate) fn advance(&mut self, until_us: u64) {
        while !self.is_broken() {
            self.answer_awaited();
            let deadline = (0..self.lanes.len())
                .filter_map(|index| Some((self.deadline_us(index)?, index)))
                .min();
            let entry_us = self.agenda.next_us();
            match (entry_us, deadline) {
                (Some(at_us), deadline)
                    if at_us <= until_us && deadline.is_none_or(|(due, _)| at_us <= due) =>
                {
                    self.now_us = self.now_us.max(at_us);
                    if let Some(due) = self.agenda.take() {
                        self.happen(due);
                    }
                }
                (_, Some((at_us, index))) if at_us <= until_us => {
                    self.now_us = self.now_us.max(at_us);
                    self.feed(index, Input::Tick);
                    self.a_tick_makes_progress(index, at_us);
                }
                _ => break,
            }
        }
        self.now_us = self.now_us.max(until_us);
    }

    pub(crate) fn deadline_us(&self, index: usize) -> Option<u64> {
        let lane = &self.lanes[index];
        let deadline = lane.session.as_ref()?.next_deadline()?;
        Some(lane.started_us.saturating_add(deadline.0))
    }
}

/// An output in one line.
fn describe(output: &Output) -> String {
    match output {
        Output::StartCall(call) => format!(
            "StartCall({} {} {} {:?})",
            call.call().call,
            call.tool().id,
            call.arguments().to_value(),
            call.effect_id()
        ),
        Output::Reserve(request) => format!(
            "Reserve({} {} effect {:?} fingerprint {:02x}{:02x} grant {:?})",
            request.call,
            request.tool,
            request.effect_id,
            request.fingerprint[0],
            request.fingerprint[1],
            request.grant.map(|hash| hash[0])
        ),
        other => format!("{other:?}"),
    }
}

/// The JSON form of an answer, as a driver stores it.
pub(crate) fn written(response: &ToolResponse) -> Option<Sensitive<String>> {
    serde_json::to_string(response).ok().map(Sensitive)
}
