//! The core's one way in and its one list out. The driver performs every output and answers those that ask.

use crate::client::{ClientEvent, ClientUpdate};
use crate::event::{EndReason, SessionEvent};
use crate::model::{ConnectionEvent, ModelCommand, ModelEvent, RequestEvent};
pub use crate::policy::{AdmittedCall, EffectRun};
use crate::said::{KeptState, TicketReply};
use crate::saved::Began;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use windlass_store::command::{
    ApprovalAnswer, Record, Reply, Request, TaskProgress, WithdrawnQuestion,
};
use windlass_store::log::LegRequest;
use windlass_store::{
    AttemptNumber, Effect, LegNumber, NewEntry, Nonce, Question, QuestionNumber, StandingApproval,
    StandingChange,
};
use windlass_tool::envelope::ToolResponse;
use windlass_tool::handler::{HandlerMessage, HandlerResult, ReplyNumber};
use windlass_tool::id::{CallNumber, CallRef, EffectId, ToolId};
use windlass_tool::input::SentInput;
use windlass_tool::kind::RateLimit;
use windlass_tool::sensitive::Sensitive;

/// What happens to a session, one thing at a time, each with its time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    Model(ModelEvent),
    /// The connection to a live model comes or goes.
    Connection(ConnectionEvent),
    /// A request to a text model begins or ends.
    Request(RequestEvent),
    Client(ClientEvent),
    /// What the conversation already has: open questions, results that no model has heard, and, where the session goes on in
    /// another process, what it had left. Given once, before anything else; not at all where there is nothing.
    Began(Box<Began>),
    /// The user answers a question. The driver has found it by its token; `None` where the token is unknown, forged or another's.
    Answered {
        question: Option<Box<Question>>,
        approved: bool,
        /// Of a denial, as [`windlass_store::denial_reason`] keeps it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Sensitive<String>>,
        /// Of an approval: the user wants it to stand for calls with the same values. Whether it does, the tool and the ledger say.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        remember: bool,
        /// What the user gives the service of a tool that asks for it.
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
    /// What the log of the conversation says that this session has not caused itself.
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
    /// A running attempt says something.
    HandlerMessage {
        call: CallRef,
        message: HandlerMessage,
    },
    /// The server is shutting down: tell the client, let started writes end.
    Shutdown,
    /// A deadline of the session's next deadline has come.
    Tick,
}

/// Something that has become known of an effect or a question, with the rows as they are by then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// An effect began, or is known to have ended in another way than before.
    Effect(Box<Effect>),
    /// A question that this session asked was answered, or closed.
    Question(Box<Question>),
    /// A run that no session of its own had wants something of this one.
    Asked(LegRequest),
    /// A person has answered a ticket of the conversation.
    TicketReply(Box<TicketReply>),
    /// An entry about what handlers keep for the conversation, of whichever session: the log's order is the order in which they
    /// changed. With the number of the entry where it is the session's own.
    State {
        kept: Box<KeptState>,
        own: Option<LegNumber>,
    },
    /// The user wants no more of a task that this session runs.
    CancelRequested(EffectId),
    /// A standing approval was given, used or ended, by whichever session.
    Standing(Box<StandingNews>),
}

/// What the log says of standing approvals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StandingNews {
    /// Those of the conversation, as they are by then.
    pub standing: Vec<StandingApproval>,
    /// What commands of this session have changed.
    pub own: Vec<StandingChange>,
}

/// Why the store has not answered. For the log.
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

/// What the driver is to do, in this order. What is large and rare is boxed, because every output is moved several times.
#[derive(Debug)]
pub enum Output {
    /// Write entries into the log of the conversation.
    Append(Vec<NewEntry>),
    /// The model is given external content: store that of the conversation, before any later request. Said once.
    Taint,
    /// Ask the ledger what becomes of a call, and answer with [`Input::Decided`].
    Request {
        call: CallNumber,
        request: Box<Request>,
    },
    /// The user's answer to a question. The driver adds the token that was shown, and answers with [`Input::Decided`].
    Answer {
        call: CallNumber,
        question: QuestionNumber,
        answer: Box<AnswerRequest>,
    },
    /// Nobody waits for a request or an answer any more: what it began has not begun.
    Abandon {
        nonce: Nonce,
        effect_id: EffectId,
        /// The approval request that the answer was for.
        question: Option<QuestionNumber>,
    },
    /// Store how an attempt ended, and answer with [`Input::Recorded`]. Where the store does not take it, it is tried again until
    /// it does, and nothing of the conversation is asked of the store before it.
    Record {
        call: CallNumber,
        record: Box<Record>,
    },
    /// Nobody asks these any more.
    Withdraw(Vec<WithdrawnQuestion>),
    /// The user wants to be asked again: this standing approval ends, before any later request.
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
    /// Keep how far a task is.
    Progress(Box<TaskProgress>),
    /// Keep that the user wants no more of a task.
    CancelTask(EffectId),
    /// Run the handler. There is no other way to one.
    StartCall(AdmittedCall),
    /// Tell the attempt that nobody waits for it. With `drop`, stop it; else let it run to its end.
    AbortCall {
        call: CallRef,
        drop: bool,
    },
    /// Give a handler the answer of a tool that it called with [`HandlerMessage::CallTool`]. Each such message has one.
    AnswerHandler {
        reply: ReplyNumber,
        response: Sensitive<Arc<ToolResponse>>,
    },
    /// Close the provider's connection if there is one, and open the next, which takes up the session by this handle or
    /// begins it afresh. The first connection of a session is opened without being asked for. What becomes of it comes as
    /// [`Input::Connection`].
    Connect {
        generation: u64,
        handle: Option<Sensitive<String>>,
        /// Whether history will be the first that is sent; some providers have to be told in the setup.
        history_follows: bool,
    },
    SendModel(ModelCommand),
    SendClient(ClientUpdate),
    /// Throw away audio that was not played, and what still arrives, until [`Output::AcceptAudio`].
    DiscardAudio,
    /// A new answer may be heard again.
    AcceptAudio,
    /// From now on audio of the model goes, or does not go, to the client.
    SuppressAudio(bool),
    /// Hold the microphone back, or let it through.
    HoldMicrophone(bool),
    Event(SessionEvent),
    /// The session is over for its client and its provider, which nothing that follows concerns. Tasks that it has begun still run:
    /// the rest is to be fed on until [`Output::Close`]. Only by voice.
    Part(EndReason),
    /// The session is over. No further output follows.
    Close(EndReason),
}

impl Input {
    /// Whether a session is worth saving anew after this: what is typed may wait for the provider.
    pub fn brings_words(&self) -> bool {
        matches!(self, Self::Client(ClientEvent::Text { .. }))
    }
}

impl Output {
    /// Whether a session is worth saving anew after this: something was said or changed, a turn has ended, or the session's
    /// state has changed. Several of them in one step are worth one save.
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
    /// The attempt that this approval began, that has failed, and that is tried again.
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

/// Whether asking the limit uses up a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateCharge {
    /// The call runs next.
    Charge,
    /// Only ask: the call may come to something else than a run.
    Peek,
    /// The call has begun, after it was asked for: nobody waits for an answer.
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
