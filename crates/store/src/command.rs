//! What sessions ask of the ledger, and what they are answered. Data alone: every rule is in `decide`.

use crate::Hash;
use crate::effect::{AttemptOutcome, Effect};
use crate::id::{
    AttemptNumber, EntryNumber, Epoch, LegNumber, LegRef, Nonce, QuestionNumber, Token,
};
use crate::leg::{Conversation, Leg, Presented};
use crate::log::{EffectState, LegRequest, NewEntry};
use crate::party::{Beginner, PartyKind};
use crate::question::Question;
use crate::standing::{NewStanding, StandingApproval};
use crate::task::Progress;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use windlass_tool::condition::LocalClock;
use windlass_tool::effect_key::KeySpec;
use windlass_tool::id::{ClientId, EffectId, SessionId, ToolId};
use windlass_tool::kind::Mode;
use windlass_tool::sensitive::Sensitive;

/// One thing that is asked, within one conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Begins the conversation, or goes on with it. No other command begins one.
    Open(Beginner),
    /// A leg begins. One of the same name gives way, but one of the same token: this command has come before.
    Attach(Box<NewLeg>),
    /// A client comes back: the leg is taken over with the next epoch, and everything that it needs is read.
    Resume(Presented),
    /// What the leg needs to go on after its process ended.
    Save {
        leg: LegRef,
        body: Sensitive<Vec<u8>>,
        expires_in_ms: u64,
    },
    /// The leg is over. A conversation in which nothing was said or done is over with its last one.
    Leave(LegRef),
    /// Nobody can come back to the conversation: it goes, unless it holds an effect or an open request, or somebody is in it.
    Discard,
    Append {
        leg: LegRef,
        entries: Vec<NewEntry>,
    },
    /// A model of the conversation is given external content.
    Taint,
    Request(Box<Request>),
    Answer(Box<ApprovalAnswer>),
    /// Nobody waits for this request or answer any more: what it began has not begun, and it is refused if it comes later.
    Abandon {
        nonce: Nonce,
        /// The effect that it may have begun.
        effect_id: EffectId,
        /// The question whose approval it was. It is open again.
        question: Option<QuestionNumber>,
    },
    /// The user wants to be asked again: the standing approval that was given with this request ends.
    Revoke {
        question: QuestionNumber,
        /// The session whose client says so.
        leg: Option<SessionId>,
    },
    /// Nobody asks any more.
    Withdraw {
        leg: LegRef,
        questions: Vec<WithdrawnQuestion>,
    },
    Record(Box<Record>),
    /// What the handler found when it was asked about an unknown effect.
    Found(Box<Found>),
    /// The service that has an effect says how it ended.
    CalledBack(Box<CalledBack>),
    /// Commits attempts whose lease is over, or whose process is dead, as unknown.
    Settle,
    /// A handler is about to be asked about an unknown effect; the sweep asks for it.
    LookUp {
        effect_id: EffectId,
    },
    /// A running attempt at a task says how far it is.
    Progress(Box<TaskProgress>),
    /// The user wants no more of a task. Where an attempt of this process runs, the conversation's sessions learn of it; where a
    /// service has it, nobody waits for that any more.
    CancelTask {
        effect_id: EffectId,
    },
    /// Whoever is told of the ends of tasks has taken these ends.
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
    /// The user wants nothing to be left of what was said. What was done stays known for as long as it would be, so that a change
    /// which is asked for again is recognised; approval requests that wait are withdrawn. Not while a session of this process is live.
    Erase,
}

impl Command {
    /// Whether a conversation that is not there begins with it.
    pub(crate) fn may_begin(&self) -> bool {
        matches!(self, Self::Open(_))
    }
}

/// An approval request that its asker takes back. It stays where it was asked for again since.
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
    /// With the name of the leg it tells this command from every other one: a client's token is drawn for one leg.
    pub resume_token: Hash,
    pub expires_in_ms: u64,
}

/// What a request says of the tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolFacts {
    pub id: ToolId,
    pub version: String,
    pub handler_hash: Option<String>,
    pub writes: bool,
    /// Nobody waits for its end, so that its calls are tasks.
    pub is_background: bool,
    /// Its results hold what others wrote.
    pub is_external: bool,
    pub idempotent: bool,
    pub repeatable: bool,
    pub has_lookup: bool,
    /// How the arguments are compared that say which effect is meant.
    pub key_spec: Arc<KeySpec>,
}

impl ToolFacts {
    /// Whether a run that has happened, or may have, is something to warn of.
    pub(crate) fn has_hazards(&self) -> bool {
        self.writes || !self.is_background
    }
}

/// A model, or a handler, wants a tool run.
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
    /// The arguments that say which effect is meant, in the form in which two requests are compared.
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
    /// Why, in words for people, where not every call of the tool does.
    pub because: Option<String>,
    /// The user's clock, of a tool that is available by it.
    pub clock: Option<LocalClock>,
    /// The values by which an approval that was given before may cover it, as canonical JSON; `None` where none may.
    pub standing_values: Option<Sensitive<String>>,
    /// It runs without consent although a model of the conversation has read external content.
    pub ignores_external_content: bool,
    /// The leg has a client who can be asked.
    pub can_ask: bool,
    pub mode: Mode,
    pub preview: Sensitive<String>,
    /// How long the attempt may hold its lease.
    pub lease_ms: u64,
    /// How long a question waits for its answer.
    pub question_ms: u64,
    /// What the audit is to know of the intention, as JSON.
    pub intent: Sensitive<String>,
}

/// Whose request it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOrigin {
    /// A provider message.
    Model { delivery: String, generation: u64 },
    /// A handler that runs for another effect, and which of its calls.
    Handler { parent: EffectId, ordinal: u32 },
}

/// The user answers a question.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalAnswer {
    pub nonce: Nonce,
    /// The id of a new effect, if this begins one.
    pub effect_id: EffectId,
    pub token: Token,
    pub verdict: AnswerVerdict,
    /// The attempt that this approval began, that has failed for certain, and that the same approval has tried again.
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

/// What an approved run is bound to now.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// As the registry has it; `None` where it has it no more, or the arguments do not satisfy it.
    pub tool: Option<ToolFacts>,
    /// The rate limit lets it run.
    pub may_run: bool,
    /// The user wants it to stand for the calls that follow, and the tool lets them.
    pub remember: Option<NewStanding>,
    pub lease_ms: u64,
    pub question_ms: u64,
    pub intent: Sensitive<String>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub effect_id: EffectId,
    pub attempt: AttemptNumber,
    pub outcome: AttemptOutcome,
    /// Of a task whose attempt failed: milliseconds within which its session tries again. The task is at work until then.
    pub next_attempt_ms: Option<u64>,
    /// The answer as JSON. One that is longer than the store keeps is left out.
    pub receipt: Option<Sensitive<String>>,
    /// Intents of a run that no leg of its own has.
    pub asks: Option<LegRequest>,
    /// What the attempt keeps for the conversation, written once, whether or not its leg may still speak.
    pub values: Option<ValuesEntry>,
}

/// What handlers keep for the conversation from an outcome on: an entry of the log that is written with it. One that is longer than the
/// store keeps is left out, and so is one of a conversation that its user has deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesEntry {
    /// The leg that says it, and the leg's own number of the entry; `None` where no session does.
    pub by: Option<(SessionId, LegNumber)>,
    /// In the form of the sessions.
    pub said: Sensitive<String>,
}

impl Record {
    /// The key of the entry that says what the attempt wants of a session.
    pub(crate) fn asked_key(&self) -> String {
        format!("asked:{}:{}", self.effect_id, self.attempt.0)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub effect_id: EffectId,
    /// When the handler was asked, by the ledger's clock.
    pub began_unix_ms: u64,
    pub finding: FoundState,
    pub receipt: Option<Sensitive<String>>,
    /// Written where the finding is news.
    pub values: Option<ValuesEntry>,
}

/// How far an attempt at a task is.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskProgress {
    pub effect_id: EffectId,
    pub attempt: AttemptNumber,
    /// Its time is the ledger's.
    pub progress: Progress,
}

/// An end of a task that was told: a later end of the same task is another one.
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

/// How the newest attempt at an effect ended, as its service tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct CalledBack {
    pub effect_id: EffectId,
    pub outcome: AttemptOutcome,
    /// The answer as JSON. One that is longer than the store keeps is left out.
    pub receipt: Option<Sensitive<String>>,
    /// Written where the end is news.
    pub values: Option<ValuesEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FoundState {
    Happened,
    NotHappened,
    Unknown,
}

/// What a command is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Done,
    /// The conversation is another user's.
    Foreign,
    /// It would be a new one, and this party has as many as it may have.
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
    /// The attempt begins, and it is the asker's.
    Run(Box<Run>),
    /// The user is asked.
    Ask(Box<OpenQuestion>),
    /// An attempt is running; its end is told in the log.
    Attach(Box<Effect>),
    /// It ended as its receipt says, or a service has taken it on, and nothing further is done.
    Replay(Box<Effect>),
    /// Its handler is to be asked what became of it; then the same request is judged again.
    LookUp {
        effect: Box<Effect>,
        now_unix_ms: u64,
    },
    /// How it ended is not known, and nobody can be asked.
    Unknown(Box<Effect>),
    /// The user said no; said again, nothing else is known of it.
    Denied(Box<Question>),
    /// The token is unknown, forged, another's, or its question is not open any more.
    Expired,
    /// The tool is not the one that the user approved.
    Changed(Box<Question>),
    /// The question was approved, and its tool has no effect to tell of.
    Answered,
    /// One delivery came with two sets of arguments.
    Conflict,
    Refused(Refusal),
    /// The effect as the record left it.
    Recorded(Box<Effect>),
    /// The end of the effect was told before, its service had time until now, or it is no more to be cancelled: nothing has
    /// changed.
    TooLate(Box<Effect>),
    /// There is no such effect, no such attempt, no such standing approval, or no such conversation.
    Missing,
    /// It stood until now.
    Revoked(Box<StandingApproval>),
    /// A session of the conversation is live.
    InUse,
    /// Effects that were committed as unknown.
    Settled(Vec<Effect>),
}

/// What a leg needs to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    pub leg: Leg,
    pub conversation: Conversation,
    pub log: Vec<crate::log::Entry>,
    /// Those that wait for their answer, each with its token.
    pub questions: Vec<OpenQuestion>,
    /// Effects whose end no model has heard, and answered questions.
    pub unheard: Vec<Effect>,
    pub unheard_questions: Vec<Question>,
}

/// An attempt that the asker may start, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// `None` of a tool without side effects that is waited for.
    pub effect_id: Option<EffectId>,
    pub attempt: AttemptNumber,
    pub lease_end_unix_ms: u64,
    /// The approved question.
    pub question: Option<Question>,
    /// Of a request, the standing approval that covers it; of an answer, the one that was given with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Box<StandingApproval>>,
}

/// A question that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenQuestion {
    pub question: Question,
    pub token: Token,
    /// It was open before.
    pub is_repeated: bool,
    /// Those that were open, and in whose place this one was put.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<QuestionNumber>,
}

/// Why neither anything runs nor anybody is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// It would run, or ask, and budgets, rate limit or loop guard do not let it.
    NotAllowed,
    /// It needs the user's consent, and the leg has no client.
    NobodyToAsk,
    /// It needs the user's consent, and a nested call asks nobody.
    NestedConsent,
    /// The conversation has as many effects as are kept of one.
    Full,
    /// So many tasks of this user, or of this tenant, run already.
    TooManyTasks { of: PartyKind, most: usize },
    /// The conversation has as many open questions as it may have.
    TooManyQuestions,
    /// Arguments or preview are longer than the store keeps.
    TooLong,
    /// It was given up before it came.
    Abandoned,
}
