//! The vocabulary between the core and a client: the inputs of the user's program and the updates to it. The endpoint maps it to the
//! messages of the voice protocol and to the chat stream.

pub use crate::model::Citation;
use crate::model::{Role, TranscriptEntry};
use crate::policy::{ConsentReason, RememberOffer, confirm};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::envelope::{ToolResponse, rfc3339};
use windlass_contract::id::{CallNumber, ToolId};
use windlass_contract::input::InputRequest;
use windlass_contract::registry::Tool;
use windlass_contract::sensitive::Sensitive;
use windlass_store::{Certainty, Earlier, Question, QuestionNumber, StandingApproval};

/// The key by which a client's message is known when it comes again: the first 64 bits of the SHA-256 of the client's id of it, within
/// one conversation. Written as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct MessageKey(u64);

impl MessageKey {
    pub fn of(id: &str) -> Self {
        let hash: [u8; 32] = Sha256::digest(id.as_bytes()).into();
        let first = hash.first_chunk().copied().unwrap_or_default();
        Self(u64::from_be_bytes(first))
    }
}

impl From<MessageKey> for String {
    fn from(key: MessageKey) -> Self {
        format!("{:016x}", key.0)
    }
}

impl TryFrom<String> for MessageKey {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        u64::from_str_radix(&text, 16).map(Self)
    }
}

/// A client's input to the core. Audio passes beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientEvent {
    Text {
        text: Sensitive<String>,
        /// The key by which the client knows the message when it sends it again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageKey>,
    },
    Image {
        mime_type: String,
        data: Sensitive<Arc<[u8]>>,
    },
    /// The user can speak from now on: audio came for the first time. The audio itself bypasses the core.
    MicrophoneOpened,
    /// The user has finished speaking and wants an answer.
    TurnComplete,
    /// Stop speaking.
    Interrupt,
    /// Stop one call.
    Cancel {
        call: CallNumber,
        way: CancelWay,
    },
    /// The user wants to be asked again about the calls that this standing approval covers.
    Revoke {
        approval: QuestionNumber,
    },
    /// Everything received has been played.
    PlaybackDone,
    /// End the session now.
    Stop,
    Connected,
    Lost,
}

/// The way by which a user wants a call stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelWay {
    /// `cancel` on the socket of a session by voice.
    Socket,
    /// `POST /api/cancel`.
    Http,
    /// The task was cancelled by its id: by the model, or by `POST /api/tasks/{id}/cancel`.
    Task,
}

impl CancelWay {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Http => "http",
            Self::Task => "task",
        }
    }
}

/// The way by which a user revokes a standing approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RevokeWay {
    /// `revoke` on the socket of a session by voice.
    Socket,
    /// `POST /api/revoke`.
    Http,
}

impl RevokeWay {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Http => "http",
        }
    }
}

/// The outcome of a user's request to stop a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelOutcome {
    /// The call is stopped, and changes nothing.
    Stopped,
    /// The call's effect has begun and goes on: its end is told. It is not tried again if it fails.
    RunsOn,
    /// The stop was requested before, and the call goes on.
    AlreadyCancelled,
    /// The call has ended, perhaps because it was stopped.
    Ended,
    /// There is no such call, or a handler asked for it.
    Unknown,
}

impl CancelOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::RunsOn => "runs_on",
            Self::AlreadyCancelled => "already_cancelled",
            Self::Ended => "ended",
            Self::Unknown => "unknown",
        }
    }

    /// The same for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Stopped => "the call is stopped",
            Self::RunsOn => "what the call changes has begun and goes on; how it ends is told",
            Self::AlreadyCancelled => "the call was to be stopped before; how it ends is told",
            Self::Ended => "the call has ended",
            Self::Unknown => "there is no such call",
        }
    }
}

/// An update to the client. Shapes on the wire are the endpoint's.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientUpdate {
    Transcript {
        role: Role,
        text: Sensitive<String>,
        is_final: bool,
        citations: Vec<Citation>,
        images: Vec<Image>,
    },
    ModelGenerating,
    /// The audio that was not played is void. The pump has already thrown it away.
    Interrupted,
    TurnComplete {
        turn: u64,
    },
    /// All calls of one provider message are settled.
    ToolsComplete {
        tool_count: usize,
    },
    /// An approval request for the user. The driver adds the token, which it alone knows.
    ConfirmationRequest(Box<ConfirmationQuestion>),
    /// The result of an approval request: once for each answer of the client's, and once if it was answered another way or closed.
    ConfirmationResult {
        /// `None` if no approval request has the token.
        call: Option<CallNumber>,
        response: Sensitive<Arc<ToolResponse>>,
    },
    /// The approvals that stand for calls of this session: all of them, after each change, and after [`ClientEvent::Revoke`].
    StandingApprovals(Vec<StandingApproval>),
    /// The outcome of [`ClientEvent::Cancel`]: once for each.
    CancelResult {
        call: CallNumber,
        outcome: CancelOutcome,
    },
    /// A piece of a running call's output.
    ToolOutput {
        call: CallNumber,
        /// From 1, one more with each piece that the call's handler gave. A gap shows that pieces were left out.
        sequence: u32,
        data: Sensitive<Value>,
    },
    EndVoiceSession {
        reason: String,
        closing_message: Option<String>,
        text_response: Option<String>,
    },
    SessionComplete {
        transcripts: Vec<TranscriptEntry>,
    },
    Stopped,
    /// The provider is gone, and this connection is tried next, counted from 1.
    Reconnecting {
        attempt: u32,
    },
    /// The provider is back.
    Reconnected,
    Error {
        code: ErrorCode,
        message: String,
        details: Option<Value>,
    },
    /// A message of the server's own that a built-in tool sends: an object with a `type`.
    Message(Value),
    /// A message of a handler: an object with a `type` of its own, which may be spelt as one of the server's.
    Custom(Value),
}

/// The approval request that the user sees before a call runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfirmationQuestion {
    pub call: CallNumber,
    pub question: QuestionNumber,
    pub tool: ToolId,
    /// All the arguments that the call will run with.
    pub arguments: Sensitive<Arc<Arguments>>,
    /// The tool's template over the arguments, made safe to show; `None` if the tool has none. Then the user decides by the arguments.
    pub preview: Option<Sensitive<String>>,
    /// A warning for the user before answering: the effect was done before, or may have been.
    pub warning: Option<String>,
    /// The reason for asking about this call, if the tool does not ask about every call.
    pub because: Option<String>,
    /// The approval that the user can have remembered; `None` if the next call of this kind asks again.
    pub remember: Option<RememberOffer>,
    /// The questions of the tool's service, if this is no request for consent: forms and links, [as clients show them].
    ///
    /// [as clients show them]: windlass_contract::input::InputRequest::shown
    pub input: Option<Sensitive<Value>>,
    pub expires_at_unix_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
}

/// The meaning of an `error` message to the client, as a code that programs can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The message is no JSON, or not of a known form.
    BadMessage,
    /// The message's type is unknown.
    UnknownType,
    /// The token of a lost session is unknown, used up, expired, or somebody else's.
    ResumeRefused,
    /// Something other than `start` came first.
    NotStarted,
    /// A second `start`, or a second voice session of the conversation.
    #[serde(rename = "SESSION_ACTIVE")]
    SessionActive,
    /// The conversation is another client's.
    ForeignConversation,
    /// A message is over its limit.
    TooLarge,
    /// Audio that is no whole number of samples.
    BadAudio,
    /// More audio than real time allows.
    AudioOverflow,
    /// The provider refused the key.
    ProviderAuth,
    /// The provider cannot be reached or ended the session.
    ProviderUnavailable,
    /// The provider said nothing for too long.
    ProviderSilent,
    /// The model called tools over and over; the turn was ended.
    ToolLoop,
    /// The model does not take this kind of input.
    Unsupported,
    /// The caller's credentials do not count, or not any more.
    Unauthorized,
    /// The user is blocked until a time.
    Blocked,
    /// The server is shutting down.
    ShuttingDown,
    /// More than the server takes at a time.
    Overloaded,
    /// The client, its address or its tenant has as many conversations as its share.
    TooManyConversations,
    Internal,
}

impl ErrorCode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadMessage => "bad_message",
            Self::UnknownType => "unknown_type",
            Self::ResumeRefused => "resume_refused",
            Self::NotStarted => "not_started",
            Self::SessionActive => "SESSION_ACTIVE",
            Self::ForeignConversation => "foreign_conversation",
            Self::TooLarge => "too_large",
            Self::BadAudio => "bad_audio",
            Self::AudioOverflow => "audio_overflow",
            Self::ProviderAuth => "provider_auth",
            Self::ProviderUnavailable => "provider_unavailable",
            Self::ProviderSilent => "provider_silent",
            Self::ToolLoop => "tool_loop",
            Self::Unsupported => "unsupported",
            Self::Unauthorized => "unauthorized",
            Self::Blocked => "blocked",
            Self::ShuttingDown => "shutting_down",
            Self::Overloaded => "overloaded",
            Self::TooManyConversations => "too_many_conversations",
            Self::Internal => "internal",
        }
    }
}
/// The reason, in an error's details, that an approval request ended unanswered: another one took its place.
pub(crate) const REPLACED: &str = "replaced";

/// Whether an approval request ended because another one took its place.
pub fn is_replaced(response: &ToolResponse) -> bool {
    let details = response.error().and_then(|error| error.details.as_ref());
    details.is_some_and(|details| details["reason"] == REPLACED)
}

/// The number of earlier effects that one warning names, newest first.
const WARNINGS_MAX: usize = 3;

/// The warning to show with an approval request: each earlier effect that it names, with its arguments if they differ.
pub fn warning(question: &Question) -> Option<String> {
    let newest = question.hazards.earlier.iter().rev();
    let sentences: Vec<String> = newest
        .take(WARNINGS_MAX)
        .map(|earlier| warning_of(earlier, question))
        .collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// The questions of the tool's service, as clients show them; `None` for a request for consent.
pub fn input(question: &Question) -> Option<Sensitive<Value>> {
    let asked = asked_input(question)?;
    Some(Sensitive(asked.expose().shown()))
}

/// The questions of the tool's service, in the form of the tools.
pub fn asked_input(question: &Question) -> Option<Sensitive<InputRequest>> {
    let input = question.input.as_ref()?;
    let asked = serde_json::from_str(input.asked.expose()).ok();
    asked.map(Sensitive)
}

/// The reason for asking the user about this call, in the words of the tool's author if there are any. `tool` is the one that was asked
/// about, if it is still there. `None` if it asks about every call, or if the [warning] says it.
pub fn because_of(question: &Question, tool: Option<&Tool>) -> Option<String> {
    match tool {
        Some(tool) if tool.asks_about_every_call() => question.because.clone(),
        Some(_) | None => because(question),
    }
}

/// The same by the request alone, which does not know whether its tool asks about every call.
pub fn because(question: &Question) -> Option<String> {
    if question.because.is_some() {
        return question.because.clone();
    }
    let hazards = &question.hazards;
    let is_of_others = hazards.external_content && hazards.earlier.is_empty();
    is_of_others.then(|| ConsentReason::ExternalContent.to_string())
}

fn warning_of(earlier: &Earlier, question: &Question) -> String {
    let mut when = rfc3339(earlier.at_unix_ms);
    if earlier.arguments.expose() != question.arguments.expose() {
        when = format!("{when}, with {}", confirm::shown(&earlier.arguments));
    }
    match earlier.certainty {
        Certainty::Done => {
            format!("This was done before, at {when}. If you approve it, it is done once more.")
        }
        Certainty::MayHaveHappened => format!(
            "This was begun before, at {when}, and nobody knows whether it happened. If you approve it, it may happen a second time."
        ),
    }
}
