//! Session slots: each is one leg of a conversation as its people see it, whatever session it has at the time; and those sessions,
//! which may live on when their people have left.

use crate::clock::ProcessClock;
use crate::executor::{Attempt, AttemptRun, WorldExecutor};
use crate::intents::IntentId;
use crate::prove::Journal;
use crate::random::Random;
use crate::tools;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use windlass_driver::Driver;
use windlass_session::io::Input;
use windlass_session::limits::Limits;
use windlass_session::model::{AnswerBatching, CallSupport, ModelProfile};
use windlass_session::session::Session;
use windlass_store::AttemptNumber;
use windlass_tool::arguments::Arguments;
use windlass_tool::handler::ReplyNumber;
use windlass_tool::id::{CallNumber, CallRef, SessionId};
use windlass_tool::kind::Mode;

/// What a model is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persona {
    Ordinary,
    /// Asks for the same over and over.
    Loops,
    /// Asks for what there is not.
    Inventive,
}

/// A call that a model has made, as the model and the judge remember it.
#[derive(Clone, Debug)]
pub(crate) struct PastCall {
    pub(crate) id: Option<Arc<str>>,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Arguments,
    pub(crate) intent: IntentId,
    /// In which session of its slot.
    pub(crate) session: u32,
    pub(crate) leg: Option<SessionId>,
    pub(crate) generation: u64,
    /// How often the user had begun to speak.
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
    /// The session that its people talk to.
    pub(crate) live: Option<usize>,
    /// Counts the sessions that it has had.
    pub(crate) number: u32,
    /// The newest session's; one that is taken over keeps it.
    pub(crate) leg: Option<SessionId>,
    /// By voice: the session that can be resumed.
    pub(crate) resumable: Option<SessionId>,
    pub(crate) past: Vec<PastCall>,
    /// How often the user has begun to speak.
    pub(crate) onsets: u64,
    /// What the user has asked for, and the model has not done.
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

/// The default limits, roomy or ones that are soon reached.
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

/// One session, with what carries it.
pub(crate) struct Live {
    pub(crate) slot: usize,
    pub(crate) process: usize,
    /// Which of those that were in its place.
    pub(crate) process_life: u32,
    pub(crate) session: Session,
    pub(crate) driver: Driver<WorldExecutor>,
    pub(crate) inputs: VecDeque<Input>,
    pub(crate) started_us: u64,
    /// Its process's.
    pub(crate) clock: ProcessClock,
    pub(crate) generation: u64,
    /// The newest connection that was asked for.
    pub(crate) opening: u64,
    pub(crate) is_connected: bool,
    /// It was taken over, or its client has left it.
    pub(crate) is_left: bool,
    /// Its client's socket is.
    pub(crate) is_client_gone: bool,
    /// The ledger takes nothing more of it.
    pub(crate) is_superseded: bool,
    pub(crate) is_closed: bool,
    pub(crate) running: BTreeMap<CallRef, Attempt>,
    /// Calls of handlers that wait for their answers, each by whom and as the how manieth.
    pub(crate) asked: BTreeMap<ReplyNumber, (CallRef, u32)>,
    /// Attempts that have asked for all their parts at once.
    pub(crate) all_at_once: BTreeSet<CallRef>,
    pub(crate) last_reply: u64,
    /// What each call ran with last.
    pub(crate) runs: BTreeMap<CallNumber, AttemptRun>,
    pub(crate) fates: BTreeMap<CallRef, PlannedFate>,
    /// Where the world is compared.
    pub(crate) journal: Option<Journal>,
    pub(crate) facts: SessionFacts,
}

/// What becomes of the request of an attempt, once it has left.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlannedFate {
    Lost,
    LandsAfter {
        us: u64,
    },
    /// Its service accepts it, for so long.
    Accepted {
        until_us: u64,
    },
}

/// What the judge has seen of one session.
#[derive(Default)]
pub(crate) struct SessionFacts {
    /// By connection and provider's id: how often it was asked under, and answered.
    pub(crate) places: BTreeMap<(u64, Arc<str>), DeliveryCount>,
    pub(crate) calls: BTreeMap<CallNumber, CallEnds>,
    /// A new answer of the model has begun, and nothing came since that takes calls back.
    pub(crate) is_unbroken: bool,
    /// Under which ids was asked in it.
    pub(crate) unbroken: BTreeSet<Arc<str>>,
    /// Over but for what was begun: nobody hears the model.
    pub(crate) is_draining: bool,
    /// How often the client has answered, and was told what came of it.
    pub(crate) clicks: usize,
    pub(crate) results: usize,
    /// How often the client was shown a question: each may be closed without it.
    pub(crate) shown: usize,
    /// What it began with, and may tell of.
    pub(crate) began_with: usize,
    /// Approved attempts that the log told it to have failed.
    pub(crate) failed_approvals: usize,
    /// Calls that were accepted, and whose end the session has heard.
    /// With whether it was told to be in doubt.
    pub(crate) settled: BTreeMap<(CallNumber, Option<AttemptNumber>), bool>,
    /// The last call before the model was given external content.
    pub(crate) tainted_after: Option<CallNumber>,
    /// The ledger was asked for a taint.
    pub(crate) has_said_taint: bool,
}

/// What was said of a call, by its number, as the client knows it: an approval runs under that of its question.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallEnds {
    /// A message has asked for it.
    pub(crate) is_requested: bool,
    /// Answers of its user's that were given to the ledger. Each may have an end of its own.
    pub(crate) answers: u32,
    /// Questions to the user about it.
    pub(crate) asked: u32,
    pub(crate) starts: u32,
    pub(crate) ends: u32,
    /// Answered from what was known.
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
