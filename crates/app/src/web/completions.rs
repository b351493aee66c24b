//! `POST /v1/chat/completions` and `GET /v1/models`: any program that speaks OpenAI's protocol gets an answer of this server, whose
//! tools run here. Each request is a session of its own, and each idempotency key one turn. Knows that protocol's requests and
//! statuses.

use super::access::refused as refused_entry;
use super::chat::{Entrance, crowded, events, no_text_model};
use super::client::{known, showing};
use super::once::{Answers, Asked, Found};
use super::{ServerState, exceeded, typed};
use crate::access::Purpose;
use crate::chat::asker::Asker;
use crate::chat::conversation::Message as KeyMessage;
use crate::chat::picture::{PictureLimits, Pictures};
use crate::chat::record::{TurnRecord, TurnWriter};
use crate::chat::single::Completion;
use crate::chat::{ChatHost, ChatRefusal, request};
use crate::clock::{self, UserZone};
use axum::body::Body;
use axum::extract::State as Extract;
use axum::extract::{Path, Request};
use http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use windlass_contract::id::{ClientId, ConversationId};
use windlass_contract::json::hex;
use windlass_contract::sensitive::Sensitive;
use windlass_provider::log::Image;
use windlass_runtime::caller::{Acquaintance, Caller};
use windlass_runtime::ids;
use windlass_runtime::shares::Exceeded;
use windlass_runtime::text::UserInput;
use windlass_runtime::text::completions::{
    ChunkStream, Envelope, Failed, Whole, error_body, failed_stream,
};
use windlass_runtime::text::ui_stream::Outlet;
use windlass_session::client::ErrorCode;
use windlass_session::model::{HistoryEntry, Role};

#[derive(Deserialize)]
struct Wanted {
    #[serde(default)]
    model: Option<String>,
    messages: Vec<Message>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    n: Option<u64>,
    /// The user's name, where the calling program knows it.
    #[serde(default)]
    user: Option<String>,
    /// The user's time zone: no member of this protocol, and sent as an extra one.
    #[serde(default)]
    time_zone: Option<String>,
    /// Fields that need tools of the calling program, or a form of the answer: refused rather than ignored in silence.
    #[serde(default)]
    tools: Value,
    #[serde(default)]
    tool_choice: Value,
    #[serde(default)]
    functions: Value,
    #[serde(default)]
    function_call: Value,
    #[serde(default)]
    response_format: Value,
}

#[derive(Deserialize)]
#[serde(expecting = "an object of options")]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
#[serde(expecting = "a message")]
struct Message {
    role: String,
    #[serde(default)]
    content: Value,
}

/// A request that has been read.
#[derive(Default)]
struct CompletionRequest {
    user: Option<String>,
    zone: Option<UserZone>,
    instructions: String,
    history: Vec<HistoryEntry>,
    input: UserInput,
}

/// Answers a request.
pub(super) async fn complete(
    Extract(state): Extract<Arc<ServerState>>,
    entrance: Result<Entrance, Response<Body>>,
) -> Response<Body> {
    let entrance = match entrance {
        Ok(entrance) => entrance,
        Err(refused) => return in_their_form(&refused),
    };
    let response = answer(&state, &entrance).await;
    entrance.finish(response)
}

async fn answer(state: &ServerState, entrance: &Entrance) -> Response<Body> {
    let Some(host) = state.speaking_chat().cloned() else {
        return in_their_form(&no_text_model());
    };
    let wanted = crate::body::object::<Wanted>(&entrance.body)
        .map_err(|error| format!("the body is no request of this protocol: {error}"));
    let read =
        wanted.and_then(|wanted| read(&wanted, state.picture_limits).map(|asked| (wanted, asked)));
    let (wanted, asked) = match read {
        Ok(read) => read,
        Err(problem) => return failure(StatusCode::BAD_REQUEST, ErrorCode::BadMessage, &problem),
    };
    let Ok(id) = ids::message_id() else {
        let problem = "the server cannot answer now";
        return failure(
            StatusCode::INTERNAL_SERVER_ERROR,
            ErrorCode::Internal,
            problem,
        );
    };
    if let Err(share) = entrance.charge_turn() {
        return in_their_form(&exceeded(share));
    }
    if let Err(refusal) = host.check_user(&entrance.caller, asked.user.as_deref()) {
        return refused(&refusal);
    }
    let envelope = Envelope {
        id: format!("chatcmpl-{}", id.trim_start_matches("m-")),
        created_unix_seconds: clock::now_unix_ms() / 1_000,
        model: wanted
            .model
            .unwrap_or_else(|| state.info.text.model.clone()),
    };
    let asker = match entrance.asker(&state.metrics) {
        Ok(asker) => asker,
        Err(share) => return full(share),
    };
    let usage = wanted
        .stream_options
        .and_then(|options| options.include_usage);
    let turn = CompletionTurn {
        host,
        asker,
        conversation: None,
        asked,
        envelope,
        is_streamed: wanted.stream == Some(true),
        includes_usage: usage == Some(true),
    };
    match &entrance.key {
        Some(key) => once(&state.completions, key, turn).await,
        None => turn.answer().await,
    }
}

/// A turn that is to be run.
struct CompletionTurn {
    host: Arc<ChatHost>,
    asker: Asker,
    conversation: Option<ConversationId>,
    asked: CompletionRequest,
    envelope: Envelope,
    is_streamed: bool,
    includes_usage: bool,
}

impl CompletionTurn {
    async fn answer(self) -> Response<Body> {
        match self.is_streamed {
            true => streamed(self).await,
            false => whole(self).await,
        }
    }
}

/// The one turn of an idempotency key. The key names its conversation, so after a restart, which forgets the answer, the second turn
/// knows the changes of the first.
async fn once(answers: &Answers, key: &KeyMessage, mut turn: CompletionTurn) -> Response<Body> {
    let is_known = turn.asker.caller.acquaintance == Acquaintance::Shown;
    let parts = [
        turn.asker.caller.tenant.as_str(),
        if is_known {
            turn.asker.caller.client_id.as_str()
        } else {
            ""
        },
        turn.asked.user.as_deref().unwrap_or_default(),
        &key.id,
    ];
    let name = ids::digest(json!(parts).to_string().as_bytes());
    let id = format!("once-{}", hex(&name[..16]));
    if !is_known {
        // Each request of such a caller has a client of its own, to whom the changes of another request are unknown.
        turn.asker.caller = Caller::unproven(ClientId::new(id.as_str()), Acquaintance::Passing);
    }
    turn.conversation = Some(ConversationId::new(id));
    let body = key.content.unwrap_or_default();
    let reading = match answers.find(Asked { name, body }) {
        Found::Known(reading) => reading,
        Found::New(writing) => {
            let reading = writing.reading();
            tokio::spawn(async move { writing.write(turn.answer().await).await });
            reading
        }
        Found::Reused => {
            let problem = "this Idempotency-Key came before with another request; use one key for one request";
            return failure(StatusCode::CONFLICT, ErrorCode::BadMessage, problem);
        }
    };
    let response = reading.response().await;
    response.unwrap_or_else(|| refused(&ChatRefusal::Internal))
}

/// The only model, under its own name.
pub(super) async fn models(
    Extract(state): Extract<Arc<ServerState>>,
    request: Request,
) -> Response<Body> {
    let (head, _) = request.into_parts();
    if let Err(no_caller) = known(&state, showing(&head, Purpose::Text)).await {
        return in_their_form(&refused_entry(&no_caller));
    }
    let list = json!({"object": "list", "data": [model_object(&state)]});
    typed("application/json", list.to_string())
}

/// The same model, asked for by name.
pub(super) async fn model(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    request: Request,
) -> Response<Body> {
    let (head, _) = request.into_parts();
    if let Err(no_caller) = known(&state, showing(&head, Purpose::Text)).await {
        return in_their_form(&refused_entry(&no_caller));
    }
    let model = model_object(&state);
    match model["id"] == *id {
        true => typed("application/json", model.to_string()),
        false => {
            let problem = "there is no model of this name; GET /v1/models names the one there is";
            failure(StatusCode::NOT_FOUND, ErrorCode::BadMessage, problem)
        }
    }
}

/// Programs put the id into addresses and command lines, where a space is trouble.
fn model_object(state: &ServerState) -> Value {
    let id = state.info.text.model.replace(char::is_whitespace, "-");
    json!({"id": id, "object": "model", "created": 0, "owned_by": "windlass"})
}

/// How long the answer's head waits for the model's first word, which may be a refusal with a status of its own. Then it goes
/// out in any case: who is between takes a connection for dead that says nothing.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// Tells that something was written to a turn's record.
struct Opening {
    writer: TurnWriter,
    opened: Option<oneshot::Sender<Option<Response<Body>>>>,
}

impl Outlet for Opening {
    fn send(&mut self, bytes: &mut Vec<u8>) {
        self.writer.send(bytes);
        if let Some(opened) = self.opened.take() {
            // The client may have left.
            let _ = opened.send(None);
        }
    }
}

async fn streamed(turn: CompletionTurn) -> Response<Body> {
    let CompletionTurn {
        host,
        asker,
        conversation,
        asked,
        envelope,
        includes_usage,
        ..
    } = turn;
    let (record, writer) = TurnRecord::new();
    let reader = record.reader();
    let (opened, head) = oneshot::channel();
    tokio::spawn(async move {
        let outlet = Opening {
            writer,
            opened: Some(opened),
        };
        let mut sink = ChunkStream::new(outlet, envelope, includes_usage);
        let mut abandoned = std::pin::pin!(record.abandoned(Duration::ZERO));
        let CompletionRequest {
            user,
            zone,
            instructions,
            history,
            input,
        } = asked;
        let cancelled = abandoned.as_mut();
        let completion = Completion {
            asker,
            conversation,
            named: user.as_deref(),
            zone,
            history,
            input,
            instructions: &instructions,
        };
        let outcome = host.complete(completion, &mut sink, cancelled).await;
        let (mut outlet, failed) = sink.into_parts();
        let (response, late) = match (&outcome, &failed) {
            (Err(refusal), _) => (refused(refusal), Vec::new()),
            (Ok(_), Some(failed)) => (failed_response(failed), failed_stream(failed)),
            (Ok(_), None) => return,
        };
        let opened = outlet.opened.take();
        if let Some(opened) = opened
            && opened.send(Some(response)).is_err()
        {
            outlet.writer.send(&mut { late });
        }
    });
    match tokio::time::timeout(HEAD_PATIENCE, head).await {
        Ok(Ok(Some(response))) => response,
        Ok(Ok(None) | Err(_)) | Err(_) => events(reader),
    }
}

/// The turn has a task of its own, as a streamed one has: a client that leaves gives up the answer, but not the turn's calls.
async fn whole(turn: CompletionTurn) -> Response<Body> {
    let CompletionTurn {
        host,
        asker,
        conversation,
        asked,
        envelope,
        ..
    } = turn;
    let (mut answer, answered) = oneshot::channel();
    tokio::spawn(async move {
        let mut sink = Whole::default();
        let CompletionRequest {
            user,
            zone,
            instructions,
            history,
            input,
        } = asked;
        let completion = Completion {
            asker,
            conversation,
            named: user.as_deref(),
            zone,
            history,
            input,
            instructions: &instructions,
        };
        let outcome = {
            let mut abandoned = std::pin::pin!(answer.closed());
            let cancelled = abandoned.as_mut();
            host.complete(completion, &mut sink, cancelled).await
        };
        // The caller may have left.
        let _ = answer.send(match outcome {
            Ok(_) => whole_of(sink, &envelope),
            Err(refusal) => refused(&refusal),
        });
    });
    let answered = answered.await;
    // The task answers unless it broke.
    answered.unwrap_or_else(|_| refused(&ChatRefusal::Internal))
}

fn whole_of(sink: Whole, envelope: &Envelope) -> Response<Body> {
    match sink.body(envelope) {
        Ok(body) => typed("application/json", body.to_string()),
        Err(failed) => failed_response(&failed),
    }
}

/// A refusal of the model's provider keeps its status, and says whether and when asking again may help.
fn failed_response(failed: &Failed) -> Response<Body> {
    let mut response = typed("application/json", failed.body.to_string());
    let of_code = match failed.code {
        ErrorCode::TooLarge => StatusCode::BAD_REQUEST,
        _ => StatusCode::BAD_GATEWAY,
    };
    *response.status_mut() = failed
        .provider
        .and_then(|provider| StatusCode::from_u16(provider.status).ok())
        .unwrap_or(of_code);
    let headers = response.headers_mut();
    if failed
        .provider
        .is_some_and(|provider| provider.is_permanent)
    {
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    if let Some(wait) = failed.provider.and_then(|provider| provider.retry_after) {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The retry header of OpenAI's own clients.
const SHOULD_RETRY: &str = "x-should-retry";

/// Refuses requests for things that this server does not do.
fn check_wishes(wanted: &Wanted) -> Result<(), String> {
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if !is_empty(&wanted.tools) || !is_empty(&wanted.functions) {
        return Err(
            "tools run in this server, so that it takes none of the request's: leave tools out"
                .to_owned(),
        );
    }
    let is_auto = |value: &Value| value.is_null() || value == "auto";
    if !is_auto(&wanted.tool_choice) || !is_auto(&wanted.function_call) {
        return Err(
            "the model chooses among the server's own tools: leave tool_choice out, or set it to auto"
                .to_owned(),
        );
    }
    let format = &wanted.response_format;
    if !format.is_null() && format["type"] != "text" {
        return Err(
            "this server answers in words: leave response_format out, or set its type to text"
                .to_owned(),
        );
    }
    Ok(())
}

/// Whether a body is a request that gets an answer.
pub(crate) fn understands(body: &[u8], limits: PictureLimits) -> bool {
    let wanted = crate::body::object::<Wanted>(body);
    wanted.is_ok_and(|wanted| read(&wanted, limits).is_ok())
}

fn read(wanted: &Wanted, limits: PictureLimits) -> Result<CompletionRequest, String> {
    check_wishes(wanted)?;
    if wanted.n.is_some_and(|answers| answers > 1) {
        return Err("this server gives one answer to a request; leave n out".to_owned());
    }
    let last = wanted
        .messages
        .iter()
        .rposition(|message| message.role == "user")
        .ok_or("there is no message of the user to answer")?;
    let zone = wanted
        .time_zone
        .as_deref()
        .map_or(Ok(None), UserZone::parse);
    let mut asked = CompletionRequest {
        zone: zone.map_err(|problem| format!("time_zone: {problem}"))?,
        user: wanted.user.clone().filter(|user| !user.is_empty()),
        ..CompletionRequest::default()
    };
    if let Some(user) = &asked.user {
        request::check_id(user).map_err(|problem| problem.to_string())?;
    }
    for (at, message) in wanted.messages.iter().enumerate() {
        let text = text_of(&message.content)?;
        match message.role.as_str() {
            "system" | "developer" => {
                asked.instructions.push_str(&text);
                asked.instructions.push('\n');
            }
            "user" if at == last => {
                asked.input.images = images_of(&message.content, limits)?;
                if text.trim().is_empty() && asked.input.images.is_empty() {
                    return Err("the user's last message is empty".to_owned());
                }
                asked.input.text = Sensitive(if text.trim().is_empty() {
                    "(a picture)".to_owned()
                } else {
                    text
                });
            }
            "user" => asked.remember(Role::User, text),
            // The user's last message is answered: text after it would come before it.
            "assistant" if at > last => {}
            "assistant" => asked.remember(Role::Assistant, text),
            // Tools run in this server, so results in a request cannot be told from made-up ones.
            "tool" | "function" => {}
            _ => return Err("a message has a role that this protocol does not know".to_owned()),
        }
    }
    Ok(asked)
}

impl CompletionRequest {
    fn remember(&mut self, role: Role, text: String) {
        if !text.trim().is_empty() {
            let text = Sensitive(text);
            self.history.push(HistoryEntry { role, text });
        }
    }
}

fn text_of(content: &Value) -> Result<String, String> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let texts = parts
                .iter()
                .filter(|part| part.get("type").and_then(Value::as_str) == Some("text"))
                .filter_map(|part| part.get("text")?.as_str());
            Ok(texts.collect::<Vec<_>>().join("\n"))
        }
        _ => Err("a message's content is neither text nor a list of parts".to_owned()),
    }
}

fn images_of(content: &Value, limits: PictureLimits) -> Result<Vec<Image>, String> {
    let mut pictures = Pictures::new(limits);
    for part in content.as_array().map_or(&[][..], Vec::as_slice) {
        if part.get("type").and_then(Value::as_str) == Some("image_url") {
            let url = part.pointer("/image_url/url").and_then(Value::as_str);
            let taken = pictures.take(url.unwrap_or_default());
            taken.map_err(|problem| problem.to_string())?;
        }
    }
    Ok(pictures.into_images())
}

fn refused(refusal: &ChatRefusal) -> Response<Body> {
    match refusal {
        ChatRefusal::Blocked(block) => failure(
            StatusCode::FORBIDDEN,
            ErrorCode::Blocked,
            &block.farewell_message,
        ),
        ChatRefusal::Crowded(problem) => {
            let code = ErrorCode::TooManyConversations;
            let mut response = crowded(failure(StatusCode::TOO_MANY_REQUESTS, code, problem));
            // Nothing is forgotten as soon as clients ask again by themselves.
            let headers = response.headers_mut();
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            response
        }
        ChatRefusal::Foreign
        | ChatRefusal::Busy
        | ChatRefusal::KeyReused
        | ChatRefusal::Unknown
        | ChatRefusal::Internal => failure(
            StatusCode::INTERNAL_SERVER_ERROR,
            ErrorCode::Internal,
            "the server cannot answer now",
        ),
    }
}

/// A refusal at the entrance, with a body that clients of this protocol can read.
fn in_their_form(refused: &Response<Body>) -> Response<Body> {
    let status = refused.status();
    let (code, message) = match status {
        StatusCode::PAYLOAD_TOO_LARGE => (ErrorCode::TooLarge, "the request is too long"),
        StatusCode::REQUEST_TIMEOUT => (ErrorCode::BadMessage, "the request came too slowly"),
        StatusCode::TOO_MANY_REQUESTS => (
            ErrorCode::Overloaded,
            "a share of this server is used up; come back when Retry-After says",
        ),
        StatusCode::UNAUTHORIZED => (
            ErrorCode::Unauthorized,
            "this API key or token does not count here; make a key with `windlass keys add`",
        ),
        StatusCode::FORBIDDEN => (
            ErrorCode::BadMessage,
            "pages of this origin may not ask here; add it to server.allowed_origins",
        ),
        _ => (
            ErrorCode::ProviderUnavailable,
            "no model answers here now: the server is shutting down, or has none for text",
        ),
    };
    let mut response = failure(status, code, message);
    for name in [WWW_AUTHENTICATE, RETRY_AFTER] {
        if let Some(value) = refused.headers().get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// The server or a party has no memory for one more turn.
fn full(share: Exceeded) -> Response<Body> {
    let refused = exceeded(share);
    let mut response = failure(refused.status(), ErrorCode::Overloaded, &share.to_string());
    if let Some(seconds) = refused.headers().get(RETRY_AFTER) {
        response.headers_mut().insert(RETRY_AFTER, seconds.clone());
    }
    response
}

fn failure(status: StatusCode, code: ErrorCode, message: &str) -> Response<Body> {
    let mut response = typed("application/json", error_body(code, message).to_string());
    *response.status_mut() = status;
    response
}
