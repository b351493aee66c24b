//! The contract between a tool's code and the runtime: the inputs of a handler, its access to the outside world, and its answers. A
//! handler never sees a socket, a provider, a confirmation token or another session.

mod calendar;
mod cancellation;
mod connections;
mod failure;
mod form;
mod handover;
mod http;
mod images;
mod judged;
mod knowledge;
mod memory;
mod mending;
mod message;
mod page;
mod pictures;
mod response;
mod search;
mod service;
mod state;
mod tasks;

use crate::arguments::Arguments;
pub use crate::content::ContentPart;
use crate::data::Data;
use crate::envelope::{self, Outcome, RESPONSE_VERSION, ToolResponse};
use crate::error::{CallError, ErrorType};
use crate::id::{CallRef, ClientId, ConversationId, EffectId, SessionId, ToolId, UserId};
use crate::input::InputFacts;
use crate::intent::Intent;
use crate::kind::{Mode, Scheduling};
pub use crate::number::Numbers;
use crate::rights::Rights;
pub use calendar::{
    Availability, AvailabilityRequest, CalendarChange, CalendarChangeKind, CalendarError,
    CalendarEvent, CalendarRange, Calendars, EventList, EventsRequest, FreeSlot, LinkTrouble,
};
pub use cancellation::Cancellation;
pub use connections::{
    CONNECT_PATH, ConnectInvitation, ConnectionError, Connections, TokenRequest, invitation,
    no_connections,
};
pub use failure::{Cause, Failure, Report};
pub use form::{ContextForm, downstream_key};
pub use handover::{Handover, HandoverError, Handovers, NewHandover, Urgency, no_handovers};
pub use http::{
    AnswerWatcher, FetchError, Http, HttpAnswer, HttpRequest, IDEMPOTENCY_KEY, IncompleteBody,
    Redirects, RunWrites,
};
pub use images::{AspectRatio, GeneratedImages, ImageRequest, Images};
pub use judged::judged;
pub use knowledge::{
    Facets, GetRequest, Hit, Knowledge, KnowledgeError, KnowledgeReader, Record, SearchAnswer,
    SearchRequest, Snippet,
};
pub use memory::{CallMemory, CallsRequest, EarlierCall, MemoryUnavailable, WantedCalls};
pub use mending::{Glance, Mended, glance, mend};
pub use message::{HandlerMessage, ReplyNumber};
pub use page::Page;
pub use pictures::{may_hold_pictures, picture_type, take_pictures};
pub use response::{noted, read_response};
pub use search::{Freshness, WebResult, WebSearch, WebSearchAnswer, WebSearchRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
pub use service::ServiceError;
pub use state::{StateValues, is_state_key};
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
pub use tasks::{
    ListedTasks, TaskAsker, TaskCancel, TaskFacts, TaskList, TaskState, Tasks, TasksUnavailable,
    ToldProgress, no_tasks,
};

/// A tool's code.
pub trait Handler: Send + Sync {
    /// Runs one attempt of one admitted call. Arguments are validated, with defaults applied.
    fn execute(&self, invocation: Invocation) -> Execution;

    /// The lookup for outcomes of this tool's effects, if there is one: mostly the handler itself.
    fn outcome_lookup(&self) -> Option<&dyn OutcomeLookup> {
        None
    }

    /// The reader of the messages by which the tool's service reports the end of accepted changes.
    fn callbacks(&self) -> Option<&dyn Callbacks> {
        None
    }

    /// The numbers of the handler's language. A call with a number that would change is refused, and nothing runs.
    fn numbers(&self) -> Numbers {
        Numbers::Exact
    }

    /// Where attempts run; whether an attempt promises to hold no thread, so that it may run on one that moves audio.
    fn placement(&self) -> Placement {
        Placement::Apart
    }

    /// The arguments that the handler reads, as a JSON Schema. Only `type`, `enum`, `required`, `properties` and `items` of it count. The
    /// compiler refuses a tool's schema that allows more. `None` accepts every schema.
    fn reads(&self) -> Option<Value> {
        None
    }

    /// Loads data in advance that the first call would have to load, if that takes long. A server runs it on a thread of its own once it
    /// listens and the tool is on. A call that comes earlier waits for its end.
    fn preparation(&self) -> Option<fn()> {
        None
    }

    /// The version of the response contract that the handler speaks: this program's, or the previous one.
    fn response_version(&self) -> &str {
        RESPONSE_VERSION
    }
}

/// Finds out the outcomes of a tool's effects.
pub trait OutcomeLookup: Send + Sync {
    /// The outcome of an effect that an attempt of this tool started. Called when the attempt's end is unknown; changes nothing.
    fn look_up(&self, invocation: LookupInvocation) -> Lookup;
}

/// Reads messages by which a service reports the end of an accepted change.
pub trait Callbacks: Send + Sync {
    /// The result that the message reports for this effect.
    ///
    /// # Errors
    ///
    /// The message is not the service's, or not about this effect.
    fn read(
        &self,
        effect_id: &EffectId,
        message: &Callback<'_>,
    ) -> Result<HandlerResult, CallbackRefused>;
}

/// A message that claims to be from a tool's service.
pub struct Callback<'a> {
    /// The values of `webhook-id`, `webhook-timestamp` and `webhook-signature`; empty if a header is missing.
    pub signature: [&'a str; 3],
    pub body: &'a [u8],
    pub now_unix_ms: u64,
}

/// The reason why a callback is refused. The text is for the service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackRefused {
    #[error("{0}")]
    Unsigned(String),
    #[error("{0}")]
    Unfit(String),
}

/// Where an attempt runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// At once, on the session's own thread: for handlers that always return within microseconds, and whose futures, if any, wait without
    /// computing. A handler that breaks this keeps the thread.
    Inline,
    /// On the session's own thread, which only waits for another process or service: for handlers whose futures wait without computing.
    /// The number at a time is limited for a tool, a session and a tenant; further attempts wait for their turn.
    Elsewhere,
    /// On threads for handlers: for all other handlers. They may compute, read files or wait. A handler that holds a thread beyond its
    /// time loses it.
    Apart,
}

/// An attempt's answer: ready, or to be awaited.
pub enum Execution {
    Ready(HandlerResult),
    Pending(HandlerFuture),
}

pub type HandlerResult = Result<Success, Failure>;
pub type HandlerFuture = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;
pub type CapabilityFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The input of a lookup.
pub struct LookupInvocation {
    pub effect_id: EffectId,
    /// The arguments of the attempt.
    pub arguments: Arc<Arguments>,
    pub context: Context,
}

/// A lookup's answer: ready, or to be awaited.
pub enum Lookup {
    Found(Finding),
    Pending(CapabilityFuture<Finding>),
}

/// The known outcome of an effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It has happened; the success is the one that the call would have returned.
    Happened(Box<Success>),
    /// It has not happened and will not happen.
    NotHappened,
    Unknown,
}

/// The input of one attempt.
pub struct Invocation {
    pub arguments: Arc<Arguments>,
    pub context: Context,
}

/// The user of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub client_id: ClientId,
    pub session_id: SessionId,
    pub user_id: UserId,
    pub conversation_id: ConversationId,
    pub rights: Rights,
}

impl Caller {
    /// The caller as a reader of the knowledge base.
    pub fn reader(&self) -> KnowledgeReader {
        KnowledgeReader {
            user_id: self.user_id.clone(),
            rights: self.rights.clone(),
        }
    }
}

/// The shared context of all calls of a session.
pub struct SessionContext {
    pub caller: Caller,
    pub mode: Mode,
    /// The version of the registry that the session began with.
    pub registry_version: Arc<str>,
    pub capabilities: Arc<dyn Capabilities>,
    pub outbox: Arc<dyn Outbox>,
}

/// The caller, the session, and the attempt's access to the outside world. It derefs to its [`SessionContext`].
#[derive(Clone)]
pub struct Context {
    pub of_session: Arc<SessionContext>,
    pub call: CallRef,
    pub turn: u64,
    pub tool: ToolFacts,
    pub session: SessionFacts,
    /// Set for tools that write, or that work in the background. Outside APIs that take an idempotency key get one derived from it.
    pub effect_id: Option<EffectId>,
    /// The requests of the attempt so far that may change something.
    pub writes: RunWrites,
    /// Milliseconds since the Unix epoch when the session stops waiting for the attempt.
    pub deadline_unix_ms: u64,
    pub cancellation: Cancellation,
}

impl Deref for Context {
    type Target = SessionContext;

    fn deref(&self) -> &SessionContext {
        &self.of_session
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFacts {
    pub id: ToolId,
    pub version: Arc<str>,
    pub idempotent: bool,
    /// Whether the tool declares that it changes something outside.
    pub writes: bool,
}

/// A read-only picture of the session at the moment of admission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFacts {
    pub is_active: bool,
    pub is_model_generating: bool,
    pub pending_end_voice_session: bool,
    /// The values that handlers keep for the conversation.
    pub values: StateValues,
    /// The questions that the user may be asked, and the answers.
    pub input: InputFacts,
}

/// The messages of a running call. They pass through the session core in the order of sending.
pub trait Outbox: Send + Sync {
    /// `Err` where the session is over, its queue is full, or the message is too long for it.
    fn send(&self, call: CallRef, message: HandlerMessage) -> Result<(), OutboxClosed>;

    /// Whether a message would be accepted now.
    fn is_open(&self) -> bool;

    /// Runs another tool on behalf of a call and gives its answer. `Err` as for a message, and where the session ends before the answer.
    /// The request is sent when this is called, so that calls run in the order in which they were made.
    fn call_tool(
        &self,
        _call: CallRef,
        _tool: Arc<str>,
        _arguments: Value,
    ) -> CapabilityFuture<Result<ToolResponse, OutboxClosed>> {
        Box::pin(std::future::ready(Err(OutboxClosed)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the session does not take this message: it is over, too much waits, or the message is too long"
)]
pub struct OutboxClosed;

/// An event of a tool's own. The handler that emits it and the program that subscribes to it share the type, so that the
/// compiler holds them together.
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct OrderPlaced { order: u64 }
///
/// impl windlass_contract::handler::CustomEvent for OrderPlaced {
///     const NAME: &'static str = "order_placed";
/// }
/// ```
pub trait CustomEvent: Serialize + DeserializeOwned {
    /// The name in `events.emit`; two types with one name would read each other's payloads.
    const NAME: &'static str;
}

/// The reason why a tool's own event was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    #[error("event {0} has a part that JSON cannot hold, such as a map whose keys are no strings")]
    NoJson(&'static str),
    #[error(transparent)]
    Closed(#[from] OutboxClosed),
}

impl Context {
    /// Sends one object with a `type` field to the client.
    pub fn send_message(&self, message: Value) -> Result<(), OutboxClosed> {
        self.outbox.send(self.call, HandlerMessage::Client(message))
    }

    /// Whether the attempt may change something outside; it needs an effect for that.
    pub fn may_change(&self) -> bool {
        self.tool.writes && self.effect_id.is_some()
    }

    /// Whether a message to the client would be accepted now; for tools that must not act without telling the client.
    pub fn can_send(&self) -> bool {
        self.outbox.is_open()
    }

    /// A value that a handler of the conversation has set, as of the call's admission.
    pub fn state(&self, key: &str) -> Option<&Value> {
        self.session.values.get(key)
    }

    /// Marks the answer of this call as external content, also where its tool's `reach` is internal. To be called before the result.
    ///
    /// # Errors
    ///
    /// The session was not told. Such content must not be used then.
    pub fn mark_external(&self) -> Result<(), OutboxClosed> {
        self.outbox.send(self.call, HandlerMessage::External)
    }

    pub fn audit(&self, event: impl Into<String>, data: Value) -> Result<(), OutboxClosed> {
        self.outbox.send(
            self.call,
            HandlerMessage::Audit {
                event: event.into(),
                data,
            },
        )
    }

    pub fn emit(&self, name: impl Into<String>, payload: Value) -> Result<(), OutboxClosed> {
        self.outbox.send(
            self.call,
            HandlerMessage::Emit {
                name: name.into(),
                payload,
            },
        )
    }

    /// [`Self::emit`] of a typed event, for subscribers to the same type.
    pub fn emit_event<E: CustomEvent>(&self, event: &E) -> Result<(), EmitError> {
        let payload = serde_json::to_value(event).map_err(|_| EmitError::NoJson(E::NAME))?;
        Ok(self.emit(E::NAME, payload)?)
    }

    pub fn progress(
        &self,
        message: impl Into<String>,
        fraction: Option<f64>,
    ) -> Result<(), OutboxClosed> {
        self.outbox.send(
            self.call,
            HandlerMessage::Progress {
                message: message.into(),
                fraction,
            },
        )
    }

    /// Shows the client a piece of the result before the call has ended. The model reads only the result, which has to be whole.
    ///
    /// # Errors
    ///
    /// The session does not accept the piece: it is over, or its queue is full. The run can go on without it.
    pub fn output(&self, piece: impl Into<Value>) -> Result<(), OutboxClosed> {
        let message = HandlerMessage::Output(piece.into());
        self.outbox.send(self.call, message)
    }

    /// Calls another tool on behalf of this call, with an object of arguments. The answer is the whole response, with refusals and
    /// failures as values, and never an error of another kind. The call is handled like every call (`docs/tools.md`, "Calling other
    /// tools"). The request is sent at once; the future only waits.
    pub fn call_tool(
        &self,
        tool: impl Into<Arc<str>>,
        arguments: Value,
    ) -> CapabilityFuture<ToolResponse> {
        let tool = tool.into();
        let answer = self.outbox.call_tool(self.call, tool.clone(), arguments);
        let of_session = self.of_session.clone();
        let parent = self.call.call;
        Box::pin(async move {
            answer.await.unwrap_or_else(|OutboxClosed| {
                let message = format!(
                    "{tool} was not run: the session is over, too much waits, or the arguments are too long"
                );
                let now_unix_ms = of_session.capabilities.now_unix_ms();
                let version = of_session.registry_version.clone();
                let mut meta = envelope::meta_without_tool(tool, version, now_unix_ms);
                meta.parent_call_id = Some(parent.to_string());
                ToolResponse {
                    outcome: Outcome::Failure(CallError::new(ErrorType::Cancelled, message).into()),
                    intents: Vec::new(),
                    meta,
                }
            })
        })
    }
}

/// The capabilities that are the same for every session: clock, knowledge base, blocks, calendars, pictures,
/// web search, other hosts.
pub trait Capabilities: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_unix_ms(&self) -> u64;
    fn knowledge(&self) -> Arc<dyn Knowledge>;
    fn blocks(&self) -> Arc<dyn Blocks>;

    /// The user's local date and hour.
    fn local_time(&self) -> LocalTime {
        LocalTime {
            zone: None,
            now: envelope::rfc3339(self.now_unix_ms()),
        }
    }

    /// The user's page, as the client reports it; `None` where it has reported none.
    fn page(&self) -> Option<Page> {
        None
    }

    /// Requests to other hosts. By default there are none.
    fn http(&self) -> Arc<dyn Http> {
        Arc::new(http::NoHttp)
    }

    /// The calendars. By default there are none.
    fn calendars(&self) -> Arc<dyn Calendars> {
        Arc::new(calendar::NoCalendars)
    }

    /// The accounts that users have connected. By default none are kept.
    fn connections(&self) -> Arc<dyn Connections> {
        no_connections()
    }

    /// Tickets that hand conversations over to people. By default none are kept.
    fn handovers(&self) -> Arc<dyn Handovers> {
        no_handovers()
    }

    /// Earlier calls of conversations. By default none are kept.
    fn memory(&self) -> Arc<dyn CallMemory> {
        Arc::new(memory::NoMemory)
    }

    /// Calls in the background. By default none are kept.
    fn tasks(&self) -> Arc<dyn Tasks> {
        no_tasks()
    }

    /// The service that makes pictures. By default there is none.
    fn images(&self) -> Arc<dyn Images> {
        Arc::new(images::NoImages)
    }

    /// The service that searches the web. By default there is none.
    fn web_search(&self) -> Arc<dyn WebSearch> {
        Arc::new(search::NoWebSearch)
    }

    /// Keeps a picture from a call's result, so that it can be shown to clients and to models that see. Returns its address, which begins
    /// with [`PICTURES`]; `None` where it is not kept.
    fn keep_picture(&self, _data: Arc<[u8]>) -> CapabilityFuture<Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// The same on the caller's thread, which blocks on the disk.
    fn keep_picture_here(&self, _data: &[u8]) -> Option<String> {
        None
    }

    /// The bytes of a picture on this server, by the address of a content part that begins with [`ASSETS`] or [`PICTURES`], for models
    /// that see. `None` where the user may not read it, it is missing, or it is longer than `bytes_max`.
    fn picture(
        &self,
        _address: &str,
        _reader: &KnowledgeReader,
        _bytes_max: usize,
    ) -> CapabilityFuture<Option<Arc<[u8]>>> {
        Box::pin(std::future::ready(None))
    }

    /// Whether this conversation has a voice session now.
    fn is_in_voice(&self, _conversation: &ConversationId) -> bool {
        false
    }
}

/// The local date and hour, as handlers read them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LocalTime {
    /// The user's zone by its name in the IANA data; `None` where it is unknown.
    pub zone: Option<String>,
    /// RFC 3339 with the offset of that zone, or of the server's.
    pub now: String,
}

/// The beginning of the addresses of the knowledge base's files on this server; the record's id follows.
pub const ASSETS: &str = "/assets/";

/// The beginning of the addresses of pictures from calls; the digest of the picture follows.
pub const PICTURES: &str = "/pictures/";

/// Users who are blocked until a time.
pub trait Blocks: Send + Sync {
    /// Adds blocks; an existing block of a user is extended to the later time. All of them are durable when it returns `Ok`; none is kept
    /// where it fails, or where the process ends before.
    fn block_all(&self, blocks: &[Block]) -> Result<(), BlocksUnavailable>;

    /// The same for one user.
    fn block(&self, block: Block) -> Result<(), BlocksUnavailable> {
        self.block_all(std::slice::from_ref(&block))
    }

    /// The block in force at `now_unix_ms`, if any.
    fn blocked(
        &self,
        user_id: &UserId,
        now_unix_ms: u64,
    ) -> Result<Option<Block>, BlocksUnavailable>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub user_id: UserId,
    pub until_unix_ms: u64,
    pub farewell_message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store of blocks does not answer: {0}")]
pub struct BlocksUnavailable(pub String);

/// The result of a call that worked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Success {
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "even_null_data"
    )]
    pub data: Option<Data>,
    pub content: Vec<ContentPart>,
    pub intents: Vec<Intent>,
    /// Overrides the tool's own scheduling for this result.
    pub scheduling: Option<Scheduling>,
    /// For a change that a service has accepted: the time until which the service reports its end, in milliseconds since the Unix epoch.
    /// The ledger gets the report from the handler's [`Callbacks`]. Without an effect it has no meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_until_unix_ms: Option<u64>,
    /// The lost parts of an answer whose call worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Box<Loss>>,
}

/// A part of a successful answer that could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Words for the model and the client.
    pub words: String,
    /// How the answer breaks the contract, for the log. A change that was made stays made; a call that only reads has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breach: Option<String>,
}

impl Loss {
    /// A loss where a part was replaced and the rest is kept.
    pub fn replaced(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            breach: None,
        }
    }

    pub fn breach(problem: impl Into<String>) -> Self {
        Self {
            words: "it worked, and details of its result could not be kept".to_owned(),
            breach: Some(problem.into()),
        }
    }
}

/// A null that is present counts as a value.
fn even_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn even_null_data<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Data>, D::Error> {
    Data::deserialize(deserializer).map(Some)
}

impl Success {
    /// A success with data, from a tree of values.
    pub fn new(data: impl Into<Data>) -> Self {
        Self {
            data: Some(data.into()),
            ..Self::default()
        }
    }

    /// Adds a loss.
    #[must_use]
    pub fn with_loss(mut self, loss: Loss) -> Self {
        let loss = match self.loss.take() {
            None => loss,
            Some(before) => Loss {
                words: match before.words == loss.words {
                    true => before.words,
                    false => format!("{}, and {}", before.words, loss.words),
                },
                breach: before.breach.or(loss.breach),
            },
        };
        self.loss = Some(Box::new(loss));
        self
    }

    /// A success with a serializable type as data. It costs least, because only its text is made. Fails, as a broken handler does, where
    /// JSON cannot hold it.
    pub fn of(data: &impl Serialize) -> Result<Self, Failure> {
        Data::of(data).map(Self::new).map_err(|error| Failure {
            cause: Cause::Broken(format!("the result is no JSON: {error}")),
            intents: Vec::new(),
        })
    }
}
