//! Text conversations: one session of the core, its log, and the requests that a turn makes of a model until there are words
//! for the user. Knows neither HTTP's server side nor configuration files; the caller that begins
//! the session decides who may talk, and how an answer is written down.

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
use windlass_provider::answer::AnswerLimits;
use windlass_provider::failure::Failure;
use windlass_provider::log;
use windlass_session::client::{ClientUpdate, ConfirmationQuestion, ErrorCode, MessageKey};
use windlass_session::event::SessionEvent;
use windlass_session::model::Usage;
use windlass_store::QuestionNumber;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::CallNumber;
use windlass_tool::input::SentInput;
use windlass_tool::sensitive::Sensitive;

/// What is the same for every text session.
#[derive(Clone, Debug)]
pub struct TextSettings {
    /// The first is asked; each of the others where those before it fail. Without any, a turn ends once what the user has
    /// said to a request for consent is carried out.
    pub models: Vec<Arc<TextModel>>,
    /// Summarises what the window leaves out; `None` where that is just left out.
    pub summary_model: Option<Arc<TextModel>>,
    pub limits: TextLimits,
}

/// Limits of text sessions. The defaults are the documented ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLimits {
    /// Tokens of the conversation that go to the model, at four characters each.
    pub history_tokens_max: u64,
    /// How often one model is asked again after a failure that may pass.
    pub request_retries_max: u32,
    /// The first wait before another try; it doubles.
    pub retry_wait: Duration,
    /// The longest wait; a server that asks for more is given up.
    pub retry_wait_max: Duration,
    /// Requests of one turn. The last one is made without tools.
    pub requests_max: u32,
    /// How long a turn may take.
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

/// What a user says in one turn.
#[derive(Clone, Debug, Default)]
pub struct UserInput {
    pub text: Sensitive<String>,
    pub images: Vec<log::Image>,
    /// By what the message is known when it comes again; `None` where its client gives messages no ids.
    pub message: Option<MessageKey>,
    /// Answers to questions that come with it, and were given before it was said.
    pub consents: Vec<Consent>,
}

/// The user's answer to a confirmation request.
#[derive(Clone, Debug)]
pub struct Consent {
    /// As the client showed it. What is no token of the conversation's counts for nothing.
    pub token: Sensitive<String>,
    pub approved: bool,
    /// Why the user denies it, as they wrote it.
    pub reason: Option<Sensitive<String>>,
    /// Whether an approval is to stand for calls with the same values.
    pub remember: bool,
    /// What the user gives the service of a tool that asks for it.
    pub input: Option<SentInput>,
}

/// What a turn is begun with.
#[derive(Clone, Debug)]
pub enum TurnInput {
    User(UserInput),
    /// The user's last message is to be answered once more.
    Again(UserInput),
    /// A message in the place of an earlier one, which the user took back with everything after it.
    Edited(UserInput),
    /// The user's answers to confirmation requests, in the order of the calls.
    Confirm(Vec<Consent>),
}

impl TurnInput {
    /// What the user says with it; nothing where a question is answered.
    pub fn said(&self) -> Option<&UserInput> {
        match self {
            Self::User(said) | Self::Again(said) | Self::Edited(said) => Some(said),
            Self::Confirm(_) => None,
        }
    }
}

/// Who writes down what happens in a turn, in its order.
pub trait TurnSink: Send {
    /// A request to the model begins.
    fn step(&mut self);

    fn client(&mut self, update: &ClientUpdate);

    /// What came of an answer that the turn gives to a question.
    fn confirmed(&mut self, _confirmed: &Confirmed<'_>) {}

    fn event(&mut self, event: &SessionEvent);

    /// The user is asked whether a call may run; the answer has to bring the token.
    fn asks(&mut self, question: &ConfirmationQuestion, token: &Sensitive<String>);

    /// The model's provider failed, and nobody else answers in its place. [`Self::failed`] follows.
    fn provider_failed(&mut self, _failure: &Failure) {}

    /// Something went wrong; what was said before stays said.
    fn failed(&mut self, code: ErrorCode, message: &str);

    /// Nothing follows.
    fn finished(&mut self, end: &TurnEnd);

    /// What was written so far may go out. Called whenever the turn is about to wait.
    fn flush(&mut self);
}

/// Writes nothing down: nobody waits for what happens between turns.
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

/// What came of the user's answer to a question.
#[derive(Clone, Copy, Debug)]
pub struct Confirmed<'a> {
    /// The question, and whether it was approved; `None` where the token is of no question of the conversation.
    pub answer: Option<(QuestionNumber, bool)>,
    /// The call that the question is about; `None` where the answer was to no question of the conversation.
    pub call: Option<CallNumber>,
    pub response: &'a Arc<ToolResponse>,
    /// The answer was not taken, and the question waits for it still.
    pub is_open: bool,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    pub reason: FinishReason,
    /// Of all its requests.
    pub usage: Usage,
    pub turn: u64,
    /// The message with which the client goes on by voice.
    pub voice_session_start: Option<serde_json::Value>,
    /// A model has heard in it what came of changes or questions.
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
