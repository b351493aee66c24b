//! The vocabulary between the core and a provider's codec: a model's output and calls, the commands to it, and the abilities of one
//! model id. Codecs translate it to and from wire formats; audio never passes here.

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::arguments::Arguments;
use windlass_contract::envelope::Projection;
use windlass_contract::kind::{Behavior, Scheduling};
use windlass_contract::sensitive::Sensitive;

/// An event of a provider's connection. One wire message may decode into several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelEvent {
    /// The provider accepted the setup; input may flow.
    Ready {
        provider_session_id: Option<String>,
    },
    /// The calls of one provider message, in its order.
    Calls(Vec<IncomingCall>),
    /// The provider took calls back, by its ids.
    CallsCancelled(Vec<Arc<str>>),
    /// The provider heard the user begin to speak.
    SpeechStarted,
    SpeechEnded,
    /// A piece of the user's words. The pieces add up.
    InputTranscript {
        text: Sensitive<String>,
        finished: bool,
    },
    /// A whole utterance of the user, written down after the fact. It begins nothing, because the model heard the speech itself.
    InputTranscribed {
        text: Sensitive<String>,
    },
    /// A piece of the model's spoken words. The pieces add up.
    OutputTranscript {
        text: Sensitive<String>,
        finished: bool,
    },
    /// A piece of the model's written text. The pieces add up.
    OutputText {
        text: Sensitive<String>,
    },
    /// The first audio of a run of audio frames; the frames themselves pass beside the core.
    AudioStarted,
    /// The model has produced all of its answer.
    GenerationComplete,
    /// The time of the model's speech so far that the user has not heard yet, as the audio pump estimates. It comes with the end of an
    /// answer, so that a farewell is heard to its end although the provider goes before its turn is over.
    Unplayed(Duration),
    /// The provider's turn is over.
    TurnComplete {
        /// Whether the provider says that it is idle. If it says nothing, a turn's end is idle.
        idle: bool,
        reason: Option<TurnEndReason>,
        /// The time of the turn's audio that the user has not heard yet, as the audio pump estimates.
        unplayed: Duration,
    },
    /// The user spoke into the answer. Audio that was not played is void.
    Interrupted,
    /// The provider's own tools gave the model external content to read, from these sources if it names them.
    ExternalContent {
        sources: Sensitive<Vec<Citation>>,
    },
    /// The connection will end in this time.
    GoAway {
        time_left: Option<Duration>,
    },
    /// A handle with which the session can be resumed; `None` while it cannot.
    ResumptionUpdate {
        handle: Option<Sensitive<String>>,
    },
    Usage(Usage),
    /// The usage of a model other than the session's own, which answered in its place or did a part of the work.
    UsageOf {
        model: Arc<str>,
        /// Tokens that its window holds.
        context_tokens_max: u64,
        usage: Usage,
    },
    /// Something that is no valid message of the protocol. The text names the trouble, never the content.
    Malformed {
        problem: String,
    },
    /// Fields that the codec does not know, by path; recorded so that a changed protocol is noticed.
    Unknown {
        fields: Vec<String>,
    },
}

/// The name of a call for which the provider named no tool, in its answer too.
pub const UNNAMED: &str = "unnamed";

/// One tool request as a provider delivered it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncomingCall {
    /// The provider's id; never invented here.
    pub id: Option<Arc<str>>,
    /// `None` if the provider named no tool.
    pub name: Option<Arc<str>>,
    pub arguments: Result<Arguments, ArgumentsProblem>,
}

/// Why a call's arguments are no JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentsProblem(pub String);

/// Why a provider ended a turn, if the answer is not simply complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEndReason {
    /// The model wrote a call that the provider could not read.
    MalformedCall,
    /// The provider refuses to show the output.
    Blocked,
    NeedsMoreInput,
    Other(String),
}

/// The usage of one exchange, as the provider counts it: in tokens, or in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub prompt_tokens: u64,
    pub response_tokens: u64,
    pub thoughts_tokens: u64,
    pub tool_use_tokens: u64,
    pub cached_tokens: u64,
    pub total_tokens: u64,
    /// Seconds of speech, in either direction, if the provider counts by time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seconds: u64,
}

impl Usage {
    /// All tokens that the model read. The provider counts those from its own tools separately, and bills them as input.
    pub fn input_tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.tool_use_tokens)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A command of the core to the model, which the codec encodes.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelCommand {
    /// Answers to calls, each at most once per provider id and connection. They travel in one message.
    ToolResponses(Vec<ModelToolResponse>),
    /// Results of calls whose connection is gone, as text, because this connection does not know the calls. Begins an
    /// answer.
    LateResults(Vec<ModelToolResponse>),
    /// Text that the user typed, or that stands for it; begins an answer.
    UserText(Sensitive<String>),
    /// A notice about a call that the model has had its answer to, in words that say that they are not the user's. Sent while nobody
    /// speaks; begins an answer.
    Notice(Sensitive<String>),
    /// Earlier conversation, sent before anything else, behind a marker that it is context only.
    History {
        entries: Vec<HistoryEntry>,
        answer_now: bool,
    },
    /// A frame for models that see.
    Image {
        mime_type: String,
        data: Sensitive<Arc<[u8]>>,
    },
    /// The microphone stopped.
    AudioEnded,
    /// Nothing was heard of an answer for the watch time: the running answer may be lost, and the next input is to get its own answer.
    Resynchronize,
}

/// One answer as the model reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelToolResponse {
    /// The provider's own id; `None` if it gave none.
    pub id: Option<Arc<str>>,
    pub name: Arc<str>,
    pub projection: Projection,
    /// Only if the call was non-blocking and the model profile honours it.
    pub scheduling: Option<Scheduling>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    pub role: Role,
    pub text: Sensitive<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
}

/// The abilities of one model id. A table in configuration with built-in rows; every decision that depends on the model is taken from
/// here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct ModelProfile {
    pub calls: CallSupport,
    /// Whether `scheduling` may be sent with a result of a non-blocking call.
    pub scheduling: bool,
    /// The declaration form that the model reads best.
    pub declaration: DeclarationForm,
    pub answers: AnswerBatching,
    pub text_input: TextInput,
    pub history: HistoryInput,
    /// Whether the session can be resumed on a new connection.
    pub resumption: bool,
    /// Whether microphone audio is held back while a blocking call is open, because it would cancel the call or close
    /// the connection.
    pub hold_microphone: bool,
    pub thinking: Thinking,
    /// Whether the model takes images.
    pub vision: bool,
    /// Tokens the model's window holds.
    pub context_tokens_max: u64,
}

/// The kinds of calls that a model makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallSupport {
    /// Every call blocks, whatever is declared, and `behavior` must not be sent.
    BlockingOnly,
    /// Both; `behavior` is always sent, because models differ in their default.
    Both,
    /// No call blocks, whatever is declared.
    NonBlockingOnly,
}

impl CallSupport {
    /// Whether the model waits for the result of a tool that is declared so.
    pub fn blocks(self, behavior: Behavior) -> bool {
        match self {
            Self::BlockingOnly => true,
            Self::NonBlockingOnly => false,
            // A call that is answered as soon as it has begun is waited for.
            Self::Both => behavior != Behavior::NonBlocking,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclarationForm {
    GeminiNative,
    GeminiJson,
    Openai,
    OpenaiRealtime,
}

/// How the answers to the calls of one provider message travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerBatching {
    /// One message when the last is ready.
    Together,
    /// Each as it is ready.
    AsReady,
}

/// How typed text reaches a live model in mid-session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextInput {
    RealtimeInput,
    ClientContent,
}

/// How earlier conversation reaches a live model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryInput {
    /// As content before the first input; allowed for the whole session.
    ClientContent,
    /// As content before the first input, announced in the setup.
    InitialClientContent,
}

/// How thinking is configured in the setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// Nothing may be sent.
    Omit,
    Level,
    Budget,
}

/// The state of a request to a model that answers it as a whole, like a text model. One request runs at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestEvent {
    /// The request is sent, with the whole conversation so far. Calls of its answer are known by this number beside their ids, which
    /// some servers restart in each answer. The number grows.
    Sent { number: u64 },
    /// No request is under way, and none follows before something is said.
    Ended,
    /// The answer is not waited for any more.
    GivenUp,
}

/// The state of the provider's connection. A generation number names one connection, from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionEvent {
    Connected { generation: u64, resumed: bool },
    Lost { generation: u64, reason: LostReason },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostReason {
    /// The provider closed with this code.
    Closed { code: u16, reason: String },
    /// The connection could not be made: the provider has read nothing.
    Network { problem: String },
    /// The connection cannot be made: the provider's certificate is not believed, or a proxy refuses the way.
    NoWay { problem: String },
    /// The connection broke without a close, after the provider had taken it and while the setup was sent, or later.
    Dropped { problem: String },
    /// The provider refused the key.
    Unauthorized,
    /// The provider wants a key, and was sent none.
    NoKey,
    /// The provider refused the upgrade with this HTTP status.
    Refused { status: u16 },
    /// No `setupComplete` in time.
    SetupTimeout,
    /// The message in its place could not be read.
    SetupUnreadable,
}

/// An utterance with its time and its speaker. A session leaves these to its successor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptEntry {
    pub role: Role,
    pub text: Sensitive<String>,
    pub at: Timestamp,
    pub turn: u64,
}

/// A record that an answer rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Citation {
    pub id: String,
    pub title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}
