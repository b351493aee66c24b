//! Session slots: each is one leg of a conversation as its people see it, with any session that it has at the time; and those sessions,
//! which may live on when their people have left.

use crate::clock::ProcessClock;
use crate::executor::{Attempt, AttemptRun, WorldExecutor};
use crate::intents::IntentId;
use crate::prove::Journal;
use crate::random::Random;
use crate::tools;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::handler::ReplyNumber;
use windlass_contract::id::{CallNumber, CallRef, SessionId};
use windlass_contract::kind::Mode;
use windlass_driver::Driver;
use windlass_session::io::Input;
use windlass_session::limits::Limits;
use windlass_session::model::{AnswerBatching, CallSupport, ModelProfile};
use windlass_session::session::Session;
use windlass_store::AttemptNumber;

/// The character of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persona {
    Ordinary,
    /// Asks for the same over and over.
    Loops,
    /// Asks for tools that do not exist.
    Inventive,
}

/// A call that a model has made, as the model and the judge remember it.
#[derive(Clone, Debug)]
pub(crate) struct PastCall {
    pub(crate) id: Option<Arc<str>>,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Arguments,
    pub(crate) intent: IntentId,
    /// The session of its slot.
    pub(crate) session: u32,
    pub(crate) leg: Option<SessionId>,
    pub(crate) generation: u64,
    /// The number of times that the user had begun to speak.
    pub(crate) onsets: u64,
    pub(crate) is_answered: bool,
}

pub(crate) struct Slot {
    pub(crate) conversation: usize,
    pub(crate) mode: Mode,
    pub(crate) profile: Arc<ModelProfile>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) persona: Persona,
    pub(crate) can_ask: bool,
    /// The client also shows what services ask.
    pub(crate) can_ask_input: bool,
    /// The session that its people talk to.
    pub(crate) live: Option<usize>,
    /// The number of sessions that it has had.
    pub(crate) number: u32,
    /// The leg of the newest session; a session that is taken over keeps it.
    pub(crate) leg: Option<SessionId>,
    /// By voice: the session that can be resumed.
    pub(crate) resumable: Option<SessionId>,
    pub(crate) past: Vec<PastCall>,
    /// The number of times that the user has begun to speak.
    pub(crate) onsets: u64,
    /// The user's request that the model has not carried out.
    pub(crate) wanted: Option<IntentId>,
}

impl Slot {
    pub(crate) fn new(conversation: usize, mode: Mode, random: &mut Random) -> Self {
        let calls = *random.pick(&[
            CallSupport::Both,
            CallSupport::Both,
            CallSupport::BlockingOnly,
            CallSupport::NonBlockingOnly,
        ]);
        let answers = *random.pick(&[AnswerBatching::Together, AnswerBatching::AsReady]);
        let persona = *random.pick(&[
            Persona::Ordinary,
            Persona::Ordinary,
            Persona::Ordinary,
            Persona::Loops,
            Persona::Inventive,
        ]);
        Self {
            conversation,
            mode,
            profile: Arc::new(tools::profile(calls, answers, !random.one_in(4))),
            limits: Arc::new(limits(mode, random)),
            persona,
            can_ask: !random.one_in(8),
            can_ask_input: !random.one_in(4),
            live: None,
            number: 0,
            leg: None,
            resumable: None,
            past: Vec::new(),
            onsets: 0,
            wanted: None,
        }
    }
}

/// The default limits, either roomy ones or tight ones.
fn limits(mode: Mode, random: &mut Random) -> Limits {
    let mut limits = Limits::of(mode);
    // Budgets are tested elsewhere; here they would keep most calls from the ledger.
    if !random.one_in(4) {
        limits.turn.calls_max = 40;
        limits.turn.repeats_max = 40;
        limits.turn.refusals_max = 40;
    }
    if random.one_in(2) {
        return limits;
    }
    Limits {
        open_confirmations_max: 1 + random.index(3),
        open_calls_max: 2 + random.index(8),
        calls_per_message_max: 2 + random.index(8),
        recorded_responses_max: 2 + random.index(8),
        transcript_characters_max: 20 + random.index(40),
        trail_entries_max: 1 + random.index(8),
        citations_max: 1,
        confirmation_seconds: 20 + random.below(300),
        ..limits
    }
}

/// One session, with its driver and its surroundings.
pub(crate) struct Live {
    pub(crate) slot: usize,
    pub(crate) process: usize,
    /// The ordinal of its process among those in the same place.
    pub(crate) process_life: u32,
    pub(crate) session: Session,
    pub(crate) driver: Driver<WorldExecutor>,
    pub(crate) inputs: VecDeque<Input>,
    pub(crate) started_us: u64,
    /// The clock of its process.
    pub(crate) clock: ProcessClock,
    pub(crate) generation: u64,
    /// The newest connection that was asked for.
    pub(crate) opening: u64,
    pub(crate) is_connected: bool,
    /// It was taken over, or its client has left it.
    pub(crate) is_left: bool,
    /// The socket of its client is gone.
    pub(crate) is_client_gone: bool,
    /// The ledger takes no more commands of it.
    pub(crate) is_superseded: bool,
    pub(crate) is_closed: bool,
    pub(crate) running: BTreeMap<CallRef, Attempt>,
    /// Calls of handlers that wait for their answers, each with its caller and its ordinal.
    pub(crate) asked: BTreeMap<ReplyNumber, (CallRef, u32)>,
    /// Attempts that have asked for all their parts at once.
    pub(crate) all_at_once: BTreeSet<CallRef>,
    pub(crate) last_reply: u64,
    /// The latest run of each call.
    pub(crate) runs: BTreeMap<CallNumber, AttemptRun>,
    pub(crate) fates: BTreeMap<CallRef, PlannedFate>,
    /// Present if the world is compared.
    pub(crate) journal: Option<Journal>,
    pub(crate) facts: SessionFacts,
}

/// The fate of an attempt's request, once it has left.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlannedFate {
    Lost,
    LandsAfter {
        us: u64,
    },
    /// Its service accepts it until this time.
    Accepted {
        until_us: u64,
    },
}

/// The judge's observations of one session.
#[derive(Default)]
pub(crate) struct SessionFacts {
    /// By connection and provider's id: the numbers of calls and answers under it.
    pub(crate) places: BTreeMap<(u64, Arc<str>), DeliveryCount>,
    pub(crate) calls: BTreeMap<CallNumber, CallEnds>,
    /// A new answer of the model has begun, and nothing that takes calls back came since.
    pub(crate) is_unbroken: bool,
    /// The ids of calls in it.
    pub(crate) unbroken: BTreeSet<Arc<str>>,
    /// Over except for started work: the model is not heard any more.
    pub(crate) is_draining: bool,
    /// The number of the client's answers, and of the results that it was told.
    pub(crate) clicks: usize,
    pub(crate) results: usize,
    /// The number of approval requests that the client was shown: each may be closed without it.
    pub(crate) shown: usize,
    /// The number of things that it began with, and may tell of.
    pub(crate) began_with: usize,
    /// Approved attempts that the log told it to have failed.
    pub(crate) failed_approvals: usize,
    /// Accepted calls whose end the session has heard, with whether it was told to be in doubt.
    pub(crate) settled: BTreeMap<(CallNumber, Option<AttemptNumber>), bool>,
    /// The last call before the model was given external content.
    pub(crate) tainted_after: Option<CallNumber>,
    /// The ledger was asked for a taint.
    pub(crate) has_said_taint: bool,
}

/// The reports about a call, by its number, as the client knows it: an approval runs under the number of its request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallEnds {
    /// A message has asked for it.
    pub(crate) is_requested: bool,
    /// Answers of its user's that were given to the ledger. Each may have an end of its own.
    pub(crate) answers: u32,
    /// Approval requests to the user about it.
    pub(crate) asked: u32,
    pub(crate) starts: u32,
    pub(crate) ends: u32,
    /// Answered from the record.
    pub(crate) deduplicated: u32,
    /// The user wanted it stopped, and that was accepted.
    pub(crate) is_stopped: bool,
}

impl CallEnds {
    pub(crate) fn is_open(&self) -> bool {
        (self.is_requested && self.ends + self.deduplicated == 0) || self.ends < self.starts
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeliveryCount {
    pub(crate) asked: u32,
    pub(crate) answers: u32,
    pub(crate) is_cancelled: bool,
    /// The id does not say which delivery it is.
    pub(crate) names_many: bool,
}

impl Live {
    pub(crate) fn is_over(&self) -> bool {
        self.is_closed || self.session.is_over()
    }
}
