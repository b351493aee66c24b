//! Text conversations: one session of the core, its log, and the requests that a turn makes of a model until there are words for
//! the user. Knows neither HTTP's server side nor configuration files; the caller that begins the session decides who may talk,
//! and in which format an answer is written.

mod ask;
pub mod completions;
pub(crate) mod delegate;
mod found_pictures;
mod memory;
mod model;
mod once;
mod past;
mod patience;
mod rest;
mod session;
mod stopping;
mod summary;
mod turn;
pub mod ui_stream;

pub use memory::TurnMemory;
pub use model::{ModelOptions, Protocol, TextModel, TextTools};
pub use past::{Past, SHOWN};
pub use session::{TextRequest, TextSession};
pub use stopping::{CallStopper, StopAnswer};

use std::sync::Arc;
use std::time::Duration;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::id::CallNumber;
use windlass_contract::input::SentInput;
use windlass_contract::sensitive::Sensitive;
use windlass_provider::answer::AnswerLimits;
use windlass_provider::failure::Failure;
use windlass_provider::log;
use windlass_session::client::{ClientUpdate, ConfirmationQuestion, ErrorCode, MessageKey};
use windlass_session::event::SessionEvent;
use windlass_session::model::Usage;
use windlass_store::QuestionNumber;

/// Settings that all text sessions share.
#[derive(Clone, Debug)]
pub struct TextSettings {
    /// The first model is asked; each of the others if those before it fail. Without any model, a turn ends once the user's
    /// answers to approval requests are carried out.
    pub models: Vec<Arc<TextModel>>,
    /// The model that summarises the turns outside the window; `None` if they are just left out.
    pub summary_model: Option<Arc<TextModel>>,
    pub limits: TextLimits,
}

/// Limits of text sessions. The defaults are the documented ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLimits {
    /// Tokens of the conversation that go to the model, at four characters each.
    pub history_tokens_max: u64,
    /// Retries of one model after a failure that may pass.
    pub request_retries_max: u32,
    /// The first wait before a retry; it doubles with each.
    pub retry_wait: Duration,
    /// The longest wait; a server that asks for more is given up.
    pub retry_wait_max: Duration,
    /// Requests of one turn. The last one is made without tools.
    pub requests_max: u32,
    /// The time of a turn.
    pub turn_timeout: Duration,
    pub answer: AnswerLimits,
    pub log: log::Limits,
}

impl Default for TextLimits {
    fn default() -> Self {
        Self {
            history_tokens_max: 32_000,
            request_retries_max: 2,
            retry_wait: Duration::from_millis(300),
            retry_wait_max: Duration::from_secs(10),
            requests_max: 24,
            turn_timeout: Duration::from_secs(300),
            answer: AnswerLimits::default(),
            log: log::Limits {
                bytes_max: 4 << 20,
                turns_max: 200,
                image_bytes_max: 3 << 20,
                ..log::Limits::default()
            },
        }
    }
}

/// A user's message in one turn.
#[derive(Clone, Debug, Default)]
pub struct UserInput {
    pub text: Sensitive<String>,
    pub images: Vec<log::Image>,
    /// The key by which a repeated message is recognised; `None` for a client without message ids.
    pub message: Option<MessageKey>,
    /// Answers to approval requests that come with the message, and were given before it.
    pub consents: Vec<Consent>,
}

/// The user's answer to an approval request.
#[derive(Clone, Debug)]
pub struct Consent {
    /// The token as the client sent it. A token of no request of the conversation counts for nothing.
    pub token: Sensitive<String>,
    pub approved: bool,
    /// The user's reason for a denial, as they wrote it.
    pub reason: Option<Sensitive<String>>,
    /// Whether an approval is to stand for calls with the same values.
    pub remember: bool,
    /// The user's input for the service of a tool that asks for it.
    pub input: Option<SentInput>,
}

/// The input that begins a turn.
#[derive(Clone, Debug)]
pub enum TurnInput {
    User(UserInput),
    /// The user's last message, to be answered once more.
    Again(UserInput),
    /// A message that replaces an earlier one, which the user took back with everything after it.
    Edited(UserInput),
    /// The user's answers to confirmation requests, in the order of the calls.
    Confirm(Vec<Consent>),
}

impl TurnInput {
    /// The user's message; `None` for answers to approval requests.
    pub fn said(&self) -> Option<&UserInput> {
        match self {
            Self::User(said) | Self::Again(said) | Self::Edited(said) => Some(said),
            Self::Confirm(_) => None,
        }
    }
}

/// Writes down the events of a turn, in their order.
pub trait TurnSink: Send {
    /// A request to the model begins.
    fn step(&mut self);

    fn client(&mut self, update: &ClientUpdate);

    /// The outcome of an answer to an approval request.
    fn confirmed(&mut self, _confirmed: &Confirmed<'_>) {}

    fn event(&mut self, event: &SessionEvent);

    /// The user is asked whether a call may run; the answer has to bring the token.
    fn asks(&mut self, question: &ConfirmationQuestion, token: &Sensitive<String>);

    /// The model's provider failed, and no other model answers in its place. [`Self::failed`] follows.
    fn provider_failed(&mut self, _failure: &Failure) {}

    /// Something failed; earlier words stay.
    fn failed(&mut self, code: ErrorCode, message: &str);

    /// The turn is over; nothing follows.
    fn finished(&mut self, end: &TurnEnd);

    /// Earlier output may be sent. Called whenever the turn is about to wait.
    fn flush(&mut self);
}

/// Writes nothing down: events between turns have no receiver.
struct Nobody;

impl TurnSink for Nobody {
    fn step(&mut self) {}
    fn client(&mut self, _update: &ClientUpdate) {}
    fn event(&mut self, _event: &SessionEvent) {}
    fn asks(&mut self, _question: &ConfirmationQuestion, _token: &Sensitive<String>) {}
    fn failed(&mut self, _code: ErrorCode, _message: &str) {}
    fn finished(&mut self, _end: &TurnEnd) {}
    fn flush(&mut self) {}
}

/// The outcome of the user's answer to an approval request.
#[derive(Clone, Copy, Debug)]
pub struct Confirmed<'a> {
    /// The request, and whether it was approved; `None` if the token is of no request of the conversation.
    pub answer: Option<(QuestionNumber, bool)>,
    /// The call of the request; `None` if the token is of no request of the conversation.
    pub call: Option<CallNumber>,
    pub response: &'a Arc<ToolResponse>,
    /// Whether the answer was not taken, so that the request is still open.
    pub is_open: bool,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    pub reason: FinishReason,
    /// The usage of all requests of the turn.
    pub usage: Usage,
    pub turn: u64,
    /// The message with which the client goes on by voice.
    pub voice_session_start: Option<serde_json::Value>,
    /// Whether a model acknowledged outcomes of changes or of approval requests in the turn.
    pub has_heard: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    Stop,
    /// The limit of tokens cut the answer off.
    Length,
    /// The provider refuses to show the answer.
    Blocked,
    Cancelled,
    Failed,
}
