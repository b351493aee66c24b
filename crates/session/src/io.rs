//! The core's one input and its one list of outputs. The driver performs every output and answers those that ask.

use crate::client::{ClientEvent, ClientUpdate};
use crate::event::{EndReason, SessionEvent};
use crate::log_text::{KeptState, TicketReply};
use crate::model::{ConnectionEvent, ModelCommand, ModelEvent, RequestEvent};
pub use crate::policy::{AdmittedCall, EffectRun};
use crate::saved::Began;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::handler::{HandlerMessage, HandlerResult, ReplyNumber};
use windlass_contract::id::{CallNumber, CallRef, EffectId, ToolId};
use windlass_contract::input::SentInput;
use windlass_contract::kind::RateLimit;
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{
    ApprovalAnswer, Record, Reply, Request, TaskProgress, WithdrawnQuestion,
};
use windlass_store::log::LegRequest;
use windlass_store::{
    AttemptNumber, Effect, LegNumber, NewEntry, Nonce, Question, QuestionNumber, StandingApproval,
    StandingChange,
};

/// An input of a session. Inputs come one at a time, each with its time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    Model(ModelEvent),
    /// The connection to a live model comes or goes.
    Connection(ConnectionEvent),
    /// A request to a text model begins or ends.
    Request(RequestEvent),
    Client(ClientEvent),
    /// The state of the conversation at the session's beginning: open approval requests, results that no model has heard, and, if the
    /// session goes on in another process, its saved state. Given once, before anything else; not given if there is nothing.
    Began(Box<Began>),
    /// The user answers an approval request. The driver has found it by its token; `None` if the token is unknown, forged or another
    /// user's.
    Answered {
        question: Option<Box<Question>>,
        approved: bool,
        /// The reason of a denial, as [`windlass_store::denial_reason`] keeps it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Sensitive<String>>,
        /// With an approval: the user wants it to stand for calls with the same values. The tool and the ledger decide whether it does.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        remember: bool,
        /// The user's input for the service of a tool that asks for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Box<SentInput>>,
    },
    /// The answer to [`Output::Request`] and [`Output::Answer`]. A driver that was answered
    /// [`Reply::LookUp`] asks the handler, has its finding stored, and asks again before it tells the core.
    Decided {
        call: CallNumber,
        reply: Result<Box<Reply>, StoreProblem>,
    },
    /// The answer to [`Output::Record`].
    Recorded {
        call: CallNumber,
        reply: Result<Box<Reply>, StoreProblem>,
    },
    /// News of the conversation's log that this session has not caused itself.
    News(Vec<News>),
    /// The answer to [`Output::CheckRate`].
    RateChecked {
        call: CallNumber,
        decision: RateDecision,
    },
    /// An attempt has ended.
    CallFinished {
        call: CallRef,
        result: HandlerResult,
    },
    /// A running attempt sends a message.
    HandlerMessage {
        call: CallRef,
        message: HandlerMessage,
    },
    /// The server is shutting down: tell the client, let started writes end.
    Shutdown,
    /// The time of the session's next deadline has come.
    Tick,
}

/// News of an effect or an approval request, with the rows as they are by then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// An effect began, or its known outcome has changed.
    Effect(Box<Effect>),
    /// A request of this session was answered, or closed.
    Question(Box<Question>),
    /// An approved run of another session has intents for this session.
    Asked(LegRequest),
    /// A person has answered a ticket of the conversation.
    TicketReply(Box<TicketReply>),
    /// An entry about the values that handlers keep for the conversation, from any session: the log's order is the order of the changes.
    /// With the number of the entry if it is the session's own.
    State {
        kept: Box<KeptState>,
        own: Option<LegNumber>,
    },
    /// The user wants a task of this session stopped.
    CancelRequested(EffectId),
    /// A standing approval was given, used or ended, in any session.
    Standing(Box<StandingNews>),
}

/// The log's news of standing approvals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StandingNews {
    /// The standing approvals of the conversation, as they are by then.
    pub standing: Vec<StandingApproval>,
    /// The changes by commands of this session.
    pub own: Vec<StandingChange>,
}

/// The reason why the store has not answered, for the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the store does not answer: {problem}")]
pub struct StoreProblem {
    pub problem: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateDecision {
    Allowed,
    Refused { retry_after: Duration },
}

/// The driver's orders, in this sequence. Large and rare contents are boxed, because every output is moved several times.
#[derive(Debug)]
pub enum Output {
    /// Write entries into the log of the conversation.
    Append(Vec<NewEntry>),
    /// The model is given external content: store that the conversation has some, before any later request. Given once.
    Taint,
    /// Ask the ledger to decide about a call, and answer with [`Input::Decided`].
    Request {
        call: CallNumber,
        request: Box<Request>,
    },
    /// The user's answer to an approval request. The driver adds the token that was shown, and answers with [`Input::Decided`].
    Answer {
        call: CallNumber,
        question: QuestionNumber,
        answer: Box<AnswerRequest>,
    },
    /// A request or an answer is not waited for any more: an effect that it began counts as not begun.
    Abandon {
        nonce: Nonce,
        effect_id: EffectId,
        /// The approval request that the answer was for.
        question: Option<QuestionNumber>,
    },
    /// Store how an attempt ended, and answer with [`Input::Recorded`]. If the store does not take it, the driver tries until it does,
    /// and asks the store nothing else about the conversation before.
    Record {
        call: CallNumber,
        record: Box<Record>,
    },
    /// These approval requests are not wanted any more.
    Withdraw(Vec<WithdrawnQuestion>),
    /// The user revokes this standing approval: it ends before any later request.
    Revoke(QuestionNumber),
    /// The model has heard how these ended.
    Heard {
        effects: Vec<EffectId>,
        questions: Vec<QuestionNumber>,
    },
    /// Ask the user's limit whether a call may run now, and answer with [`Input::RateChecked`].
    CheckRate {
        call: CallNumber,
        tool: ToolId,
        limit: RateLimit,
        charge: RateCharge,
    },
    /// Keep a task's progress.
    Progress(Box<TaskProgress>),
    /// Keep that the user wants a task stopped.
    CancelTask(EffectId),
    /// Run the handler. No other output leads to one.
    StartCall(AdmittedCall),
    /// Tell the attempt that its result is not waited for. With `drop`, stop it; otherwise let it run to its end.
    AbortCall {
        call: CallRef,
        drop: bool,
    },
    /// Give a handler the answer of a tool that it called with [`HandlerMessage::CallTool`]. Each such message has one.
    AnswerHandler {
        reply: ReplyNumber,
        response: Sensitive<Arc<ToolResponse>>,
    },
    /// Close the provider's connection if there is one, and open the next, which takes up the session by this handle or begins it
    /// afresh. The first connection of a session is opened without this output. The result comes as [`Input::Connection`].
    Connect {
        generation: u64,
        handle: Option<Sensitive<String>>,
        /// Whether history is sent first. Some providers have to be told in the setup.
        history_follows: bool,
    },
    SendModel(ModelCommand),
    SendClient(ClientUpdate),
    /// Throw away audio that was not played, and audio that still arrives, until [`Output::AcceptAudio`].
    DiscardAudio,
    /// A new answer may be heard again.
    AcceptAudio,
    /// From now on the model's audio goes, or does not go, to the client.
    SuppressAudio(bool),
    /// Hold the microphone back, or let it through.
    HoldMicrophone(bool),
    Event(SessionEvent),
    /// The session is over for its client and its provider, which no later output concerns. Its tasks still run: feed the core on until
    /// [`Output::Close`]. Only by voice.
    Part(EndReason),
    /// The session is over. No further output follows.
    Close(EndReason),
}

impl Input {
    /// Whether this input makes the session worth saving: typed text may wait for the provider.
    pub fn brings_words(&self) -> bool {
        matches!(self, Self::Client(ClientEvent::Text { .. }))
    }
}

impl Output {
    /// Whether this output makes the session worth saving: something was said or changed, a turn has ended, or the session's state has
    /// changed. Several such outputs in one step are worth one save.
    pub fn is_worth_saving(&self) -> bool {
        let event = match self {
            Self::Event(event) => event,
            Self::SendClient(ClientUpdate::ConfirmationResult { .. }) => return true,
            _ => return false,
        };
        matches!(
            event,
            SessionEvent::TurnEnded { .. }
                | SessionEvent::Transcript { .. }
                | SessionEvent::ConfirmationRequested { .. }
                | SessionEvent::IntentApplied { .. }
        ) || matches!(event, SessionEvent::CallFinished(record) if record.effect_id.is_some())
    }
}

/// An answer without its token.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerRequest {
    pub nonce: Nonce,
    pub effect_id: EffectId,
    pub verdict: windlass_store::command::AnswerVerdict,
    /// The failed attempt that this approval began, if it is tried again.
    pub again: Option<AttemptNumber>,
}

impl AnswerRequest {
    /// The command, with the token that the user showed.
    pub fn with_token(self, token: windlass_store::Token) -> ApprovalAnswer {
        ApprovalAnswer {
            nonce: self.nonce,
            effect_id: self.effect_id,
            token,
            verdict: self.verdict,
            again: self.again,
        }
    }
}

/// Whether the check uses up a part of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateCharge {
    /// The call runs next.
    Charge,
    /// Only ask: the call may end without a run.
    Peek,
    /// The call has begun after its check: no answer is awaited.
    Note,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_small_enough_to_be_moved_often() {
        assert!(size_of::<Output>() <= 96, "{} bytes", size_of::<Output>());
        assert!(size_of::<Input>() <= 104, "{} bytes", size_of::<Input>());
    }
}
