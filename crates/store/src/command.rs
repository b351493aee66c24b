//! The commands of sessions to the ledger, and its replies. Data alone: every rule is in `decide`.

use crate::Hash;
use crate::effect::{AttemptOutcome, Effect};
use crate::id::{
    AttemptNumber, EntryNumber, Epoch, LegNumber, LegRef, Nonce, QuestionNumber, Token,
};
use crate::leg::{Conversation, Leg, Presented};
use crate::log::{EffectState, LegRequest, NewEntry};
use crate::party::{Beginner, PartyKind};
use crate::question::{Question, QuestionInput};
use crate::standing::{NewStanding, StandingApproval};
use crate::task::Progress;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use windlass_contract::condition::LocalClock;
use windlass_contract::effect_key::KeySpec;
use windlass_contract::id::{ClientId, EffectId, SessionId, ToolId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;

/// One command within one conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Begins the conversation, or goes on with it. No other command begins one.
    Open(Beginner),
    /// A leg begins. It replaces a leg of the same name, unless that one has the same token: then this command has come before.
    Attach(Box<NewLeg>),
    /// A client comes back: the leg is taken over with the next epoch, and everything that it needs is read.
    Resume(Presented),
    /// Saves the state that the leg needs to go on after its process ended.
    Save {
        leg: LegRef,
        body: Sensitive<Vec<u8>>,
        expires_in_ms: u64,
    },
    /// The leg is over. A conversation without an entry is over with its last leg.
    Leave(LegRef),
    /// No client can come back to the conversation: it is deleted, unless it holds an effect or an open approval request, or a session
    /// is in it.
    Discard,
    Append {
        leg: LegRef,
        entries: Vec<NewEntry>,
    },
    /// A model of the conversation is given external content.
    Taint,
    Request(Box<Request>),
    Answer(Box<ApprovalAnswer>),
    /// This request or answer is not waited for any more: an effect that it began counts as not begun, and it is refused if it comes
    /// later.
    Abandon {
        nonce: Nonce,
        /// The effect that it may have begun.
        effect_id: EffectId,
        /// The approval request whose answer it was. It is open again.
        question: Option<QuestionNumber>,
    },
    /// The user wants to be asked again: the standing approval that was given with this approval request ends.
    Revoke {
        question: QuestionNumber,
        /// The session whose client revokes it.
        leg: Option<SessionId>,
    },
    /// These approval requests are not wanted any more.
    Withdraw {
        leg: LegRef,
        questions: Vec<WithdrawnQuestion>,
    },
    Record(Box<Record>),
    /// The handler's finding about an unknown effect.
    Found(Box<Found>),
    /// The service that has an effect reports how it ended.
    CalledBack(Box<CalledBack>),
    /// Commits attempts as unknown whose lease is over, or whose process is dead.
    Settle,
    /// A handler is about to be asked about an unknown effect, on behalf of the sweep.
    LookUp {
        effect_id: EffectId,
    },
    /// A running attempt at a task reports its progress.
    Progress(Box<TaskProgress>),
    /// The user wants a task stopped. If an attempt of this process runs, the conversation's sessions learn of it; if a service has it,
    /// its end is not waited for any more.
    CancelTask {
        effect_id: EffectId,
    },
    /// The recipient of the ends of tasks has taken these ends.
    TasksSent(Vec<SentTask>),
    /// A model has heard how these ended.
    Heard {
        effects: Vec<EffectId>,
        questions: Vec<QuestionNumber>,
    },
    /// The audit has a line of each.
    Audited(Vec<EffectId>),
    /// The user gives the conversation a name.
    Rename(Sensitive<String>),
    /// The user deletes the words of the conversation. Effects stay known for their usual time, so that a repeated one is recognised;
    /// waiting approval requests are withdrawn. Refused while a session of this process is live.
    Erase,
}

impl Command {
    /// Whether a missing conversation begins with it.
    pub(crate) fn may_begin(&self) -> bool {
        matches!(self, Self::Open(_))
    }
}

/// An approval request that its asker takes back. It stays if it was asked for again since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithdrawnQuestion {
    pub question: QuestionNumber,
    /// Its newest entry, as the asker knows it.
    pub last_entry: EntryNumber,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLeg {
    pub leg: SessionId,
    pub mode: Mode,
    pub client_id: ClientId,
    /// The name of the leg and this token tell this command from every other one: a client's token is drawn for one leg.
    pub resume_token: Hash,
    pub expires_in_ms: u64,
}

/// The facts of the tool in a request.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolFacts {
    pub id: ToolId,
    pub version: String,
    pub handler_hash: Option<String>,
    pub writes: bool,
    /// Its end is not waited for, so that its calls are tasks.
    pub is_background: bool,
    /// Its results hold external content.
    pub is_external: bool,
    pub idempotent: bool,
    pub repeatable: bool,
    pub has_lookup: bool,
    /// The way in which the arguments that identify the effect are compared.
    pub key_spec: Arc<KeySpec>,
}

impl ToolFacts {
    /// Whether an earlier run, or a possible one, needs a warning.
    pub(crate) fn has_hazards(&self) -> bool {
        self.writes || !self.is_background
    }
}

/// A model, or a handler, asks for a tool to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub nonce: Nonce,
    /// The id of a new effect, if this begins one.
    pub effect_id: EffectId,
    pub leg: LegRef,
    /// The call's number, as the leg's client knows it.
    pub call: u64,
    pub tool: ToolFacts,
    /// JSON with sorted names, numbers and texts as they were written.
    pub arguments: Sensitive<String>,
    /// The arguments that identify the effect, in the form in which two requests are compared.
    pub effect_arguments: Sensitive<String>,
    /// The same without regard to case, width and accents.
    pub near_arguments: Sensitive<String>,
    pub origin: RequestOrigin,
    /// The onset of the user turn that the request belongs to, by the leg's own number; `None` before the first.
    pub onset: Option<LegNumber>,
    /// Budgets, rate limit and loop guard let it run.
    pub may_run: bool,
    /// The tool, or the configuration, demands the user's consent.
    pub needs_consent: bool,
    /// The reason, in words for people, if not every call of the tool does.
    pub because: Option<String>,
    /// The user's clock, for a tool that is available by it.
    pub clock: Option<LocalClock>,
    /// The values by which an earlier approval may cover the request, as canonical JSON; `None` if none may.
    pub standing_values: Option<Sensitive<String>>,
    /// The call runs without consent although a model of the conversation has read external content.
    pub ignores_external_content: bool,
    /// The leg has a client who can be asked.
    pub can_ask: bool,
    pub mode: Mode,
    pub preview: Sensitive<String>,
    /// Milliseconds that the attempt may hold its lease.
    pub lease_ms: u64,
    /// Milliseconds that an approval request waits for its answer.
    pub question_ms: u64,
    /// The audit's facts about the intention, as JSON.
    pub intent: Sensitive<String>,
    /// It runs already, and wants to know this of the user before it goes on.
    pub input: Option<Box<QuestionInput>>,
}

/// The origin of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOrigin {
    /// A provider message.
    Model { delivery: String, generation: u64 },
    /// A handler that runs for another effect, and the ordinal of the call.
    Handler { parent: EffectId, ordinal: u32 },
}

/// The user answers an approval request.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalAnswer {
    pub nonce: Nonce,
    /// The id of a new effect, if this begins one.
    pub effect_id: EffectId,
    pub token: Token,
    pub verdict: AnswerVerdict,
    /// The attempt that this approval began and that has failed for certain, if the same approval has tried again.
    pub again: Option<AttemptNumber>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AnswerVerdict {
    /// The reason as [`crate::denial_reason`] keeps it.
    Denied {
        reason: Option<Sensitive<String>>,
    },
    Approved(Box<Approval>),
}

/// The facts by which an approved call may run now.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// The tool in the registry; `None` if the registry has it no more, or the arguments do not satisfy it.
    pub tool: Option<ToolFacts>,
    /// The rate limit lets it run.
    pub may_run: bool,
    /// The user wants the approval to stand for later calls, and the tool allows that.
    pub remember: Option<NewStanding>,
    pub lease_ms: u64,
    pub question_ms: u64,
    pub intent: Sensitive<String>,
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub effect_id: EffectId,
    pub attempt: AttemptNumber,
    pub outcome: AttemptOutcome,
    /// For a task whose attempt failed: milliseconds within which its session tries again. The task is at work until then.
    pub next_attempt_ms: Option<u64>,
    /// The answer as JSON. It is left out if it is longer than the store keeps.
    pub receipt: Option<Sensitive<String>>,
    /// Intents of a run for the leg that asked, if that is another one.
    pub asks: Option<LegRequest>,
    /// The values that the attempt keeps for the conversation, written once, whether or not its leg may still speak.
    pub values: Option<ValuesEntry>,
}

/// The values that handlers keep for the conversation from an outcome on: an entry of the log that is written with it. It is left out if
/// it is longer than the store keeps, or if the user has deleted the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesEntry {
    /// The leg that writes it, and the leg's own number of the entry; `None` if no session does.
    pub by: Option<(SessionId, LegNumber)>,
    /// The text in the form of the sessions.
    pub said: Sensitive<String>,
}

impl Record {
    /// The key of the entry with the attempt's intents for a session.
    pub(crate) fn asked_key(&self) -> String {
        format!("asked:{}:{}", self.effect_id, self.attempt.0)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub effect_id: EffectId,
    /// The time when the handler was asked, by the ledger's clock.
    pub began_unix_ms: u64,
    pub finding: FoundState,
    pub receipt: Option<Sensitive<String>>,
    /// Written if the finding is news.
    pub values: Option<ValuesEntry>,
}

/// The progress of an attempt at a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskProgress {
    pub effect_id: EffectId,
    pub attempt: AttemptNumber,
    /// Its time is that of the ledger.
    pub progress: Progress,
}

/// An end of a task that was told. A later end of the same task is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentTask {
    pub effect_id: EffectId,
    pub state: EffectState,
    pub changed_at_unix_ms: u64,
}

impl SentTask {
    pub fn of(effect: &Effect) -> Self {
        Self {
            effect_id: effect.effect_id.clone(),
            state: effect.state,
            changed_at_unix_ms: effect.changed_at_unix_ms,
        }
    }
}

/// The end of the newest attempt at an effect, as its service reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct CalledBack {
    pub effect_id: EffectId,
    pub outcome: AttemptOutcome,
    /// The answer as JSON. It is left out if it is longer than the store keeps.
    pub receipt: Option<Sensitive<String>>,
    /// Written if the end is news.
    pub values: Option<ValuesEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FoundState {
    Happened,
    NotHappened,
    Unknown,
}

/// The reply to a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Done,
    /// The conversation is another user's.
    Foreign,
    /// The conversation would be a new one, and this party has as many as it may have.
    Crowded(PartyKind),
    /// The leg was taken over, or is over: this session does not speak for it any more.
    Gone,
    Opened(Box<Conversation>),
    Attached {
        epoch: Epoch,
    },
    Resumed(Box<Resumed>),
    /// No leg has this token, its time is up, or it is another client's or user's.
    NotResumed,
    /// The log's numbers of the entries, in their order.
    Appended(Vec<EntryNumber>),
    /// An entry is longer than the store keeps. Nothing was appended.
    EntryTooLong,
    /// The attempt begins, and belongs to the asker.
    Run(Box<Run>),
    /// The user is to be asked.
    Ask(Box<OpenQuestion>),
    /// An attempt is running; its end is told in the log.
    Attach(Box<Effect>),
    /// The effect ended as its receipt says, or a service has taken it on. Nothing further is done.
    Replay(Box<Effect>),
    /// The handler is to be asked about the effect's outcome; then the same request is judged again.
    LookUp {
        effect: Box<Effect>,
        now_unix_ms: u64,
    },
    /// The effect's outcome is not known, and its handler cannot be asked.
    Unknown(Box<Effect>),
    /// The user has denied it. The denial is repeated, because nothing newer is known.
    Denied(Box<Question>),
    /// The token is unknown, forged or another user's, or its approval request is not open any more.
    Expired,
    /// The tool is not the one that the user approved.
    Changed(Box<Question>),
    /// The approval request was approved, and its tool has no effect to report.
    Answered,
    /// One delivery came with two sets of arguments.
    Conflict,
    Refused(Refusal),
    /// The effect as the record left it.
    Recorded(Box<Effect>),
    /// The end of the effect was told before, its service's time is over, or the task cannot be cancelled any more: nothing has changed.
    TooLate(Box<Effect>),
    /// There is no such effect, no such attempt, no such standing approval, or no such conversation.
    Missing,
    /// The approval stood until now.
    Revoked(Box<StandingApproval>),
    /// A session of the conversation is live.
    InUse,
    /// Effects that were committed as unknown.
    Settled(Vec<Effect>),
}

/// The state that a leg needs to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    pub leg: Leg,
    pub conversation: Conversation,
    pub log: Vec<crate::log::Entry>,
    /// The approval requests that wait for their answer, each with its token.
    pub questions: Vec<OpenQuestion>,
    /// Effects whose end no model has heard, and answered approval requests.
    pub unheard: Vec<Effect>,
    pub unheard_questions: Vec<Question>,
}

/// An attempt that the asker may start, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// `None` for a tool without side effects that is waited for.
    pub effect_id: Option<EffectId>,
    pub attempt: AttemptNumber,
    pub lease_end_unix_ms: u64,
    /// The approved request.
    pub question: Option<Question>,
    /// For a request, the standing approval that covers it; for an answer, the standing approval that was given with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Box<StandingApproval>>,
}

/// An open approval request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenQuestion {
    pub question: Question,
    pub token: Token,
    /// It was open before.
    pub is_repeated: bool,
    /// The open approval requests that this one replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<QuestionNumber>,
}

/// The reason why nothing runs and the user is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// It would run, or ask, but budgets, rate limit or loop guard do not let it.
    NotAllowed,
    /// It needs the user's consent, and the leg has no client.
    NobodyToAsk,
    /// It needs the user's consent, and a nested call asks no user.
    NestedConsent,
    /// The conversation has as many effects as the store keeps of one.
    Full,
    /// So many tasks of this user, or of this tenant, run already.
    TooManyTasks { of: PartyKind, most: usize },
    /// The conversation has as many open approval requests as it may have.
    TooManyQuestions,
    /// Arguments or preview are longer than the store keeps.
    TooLong,
    /// The request was given up before it came.
    Abandoned,
}
