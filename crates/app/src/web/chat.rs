//! `POST /api/chat`: one turn of a text conversation as the AI SDK's UI message stream. Knows the headers and statuses of that; the
//! conversation has the content.

use super::access as signing_in;
use super::bodies::{self, Unread};
use super::client::{MintedClient, client, showing, standing};
use super::patience::WhileAnswering;
use super::peer::Peer;
use super::voice::later;
use super::{ServerState, exceeded, typed};
use crate::access::Purpose;
use crate::chat::asker::Asker;
use crate::chat::conversation::{Confirmation, Message};
use crate::chat::record::TurnReader;
use crate::chat::request;
use crate::chat::{Answering, ChatRefusal, GivenAnswer};
use crate::clock::UserZone;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Request, State as Extract};
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_TYPE, HeaderName, ORIGIN, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use windlass_contract::error::ErrorType;
use windlass_contract::handler::Block;
use windlass_contract::id::ConversationId;
use windlass_contract::json::hex;
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::caller::Caller;
use windlass_runtime::client_protocol::sent_input;
use windlass_runtime::ids;
use windlass_runtime::metrics::Metrics;
use windlass_runtime::shares::{Exceeded, Held, Holding, Standing, Used};
use windlass_runtime::text::{TurnMemory, ui_stream};
use windlass_session::client::ErrorCode;

/// The conversation, for clients that let the server choose its id.
const CONVERSATION_HEADER: HeaderName = HeaderName::from_static("x-windlass-conversation");

/// The name of a request that a client may send again.
const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// Bytes of such a key.
const KEY_BYTES_MAX: usize = 256;

/// Bytes of one of this server's own refusals.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// The common part of all requests to text endpoints.
pub(super) struct Entrance {
    pub(super) caller: Caller,
    pub(super) body: Bytes,
    /// The client's idempotency key, and the hash of the request's body.
    pub(super) key: Option<Message>,
    minted: Option<MintedClient>,
    standing: Standing,
    /// A connection of the caller's shares, until the answer is out.
    connection: Option<Holding>,
    /// The body's bytes of the shares, until the body is no longer needed.
    _body_bytes: Option<Holding>,
}

/// Answers a turn.
pub(super) async fn chat(
    Extract(state): Extract<Arc<ServerState>>,
    entrance: Entrance,
) -> Response<Body> {
    let response = match answer(&state, &entrance).await {
        Ok(answering) => stream_of(answering),
        Err(refused) => refused,
    };
    entrance.finish(response)
}

async fn answer(state: &ServerState, entrance: &Entrance) -> Result<Answering, Response<Body>> {
    let host = state.speaking_chat().ok_or_else(no_text_model)?;
    let refuse = |problem: &str| error(StatusCode::BAD_REQUEST, "bad_message", problem);
    let wanted = request::parse(&entrance.body, state.picture_limits)
        .map_err(|problem| refuse(&problem.to_string()))?;
    let key = entrance.key.clone();
    if key.is_some() && wanted.conversation.is_none() {
        return Err(refuse(
            "a request with an Idempotency-Key must name its conversation: set id",
        ));
    }
    entrance.charge_turn().map_err(exceeded)?;
    let asker = entrance.asker(&state.metrics).map_err(exceeded)?;
    let answering = host.chat(asker, wanted, key).await;
    let answering = answering.map_err(|refusal| refused(&refusal))?;
    // The turn begins first, so that its first bytes travel with the head of the answer.
    tokio::task::yield_now().await;
    Ok(answering)
}

/// The answer of a server without a model for text.
pub(super) fn no_text_model() -> Response<Body> {
    error(
        StatusCode::SERVICE_UNAVAILABLE,
        "provider_unavailable",
        "no model for text is configured: set GEMINI_API_KEY or OPENAI_API_KEY, or text.url",
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostedAnswer {
    conversation_id: String,
    token: Sensitive<String>,
    approved: bool,
    /// The reason of a denial.
    #[serde(default)]
    reason: Option<Sensitive<String>>,
    /// Whether an approval covers later calls with the same values.
    #[serde(default)]
    remember: bool,
    /// The user's input for the service of a tool that asks for it.
    #[serde(default)]
    content: Option<Sensitive<Value>>,
    /// On an answer that is not a yes: the user did not want to decide.
    #[serde(default)]
    cancelled: bool,
    /// The user for whom a program speaks that vouches for users.
    #[serde(default)]
    user_id: Option<String>,
    /// The user's time zone, by its name.
    #[serde(default)]
    time_zone: Option<String>,
}

impl PostedAnswer {
    /// Reads a body, with the zone that it names.
    fn read(body: &[u8]) -> Result<(Self, Option<UserZone>), String> {
        let said: Self = crate::body::object(body).map_err(|problem| {
            format!("the body is no answer to a request for approval: {problem}")
        })?;
        let zone = said.time_zone.as_deref().map_or(Ok(None), UserZone::parse);
        let zone = zone.map_err(|problem| format!("timeZone: {problem}"))?;
        Ok((said, zone))
    }
}

/// Whether a body answers an approval request.
pub(crate) fn understands_answer(body: &[u8]) -> bool {
    PostedAnswer::read(body).is_ok()
}

/// `POST /api/confirm`: the user's answer to a request for consent, for clients that have no stream to send it on.
pub(super) async fn confirm(
    Extract(state): Extract<Arc<ServerState>>,
    entrance: Result<Entrance, Response<Body>>,
) -> Response<Body> {
    let entrance = match entrance {
        Ok(entrance) => entrance,
        Err(refused) => return as_confirmation(refused).await,
    };
    let response = match PostedAnswer::read(&entrance.body) {
        Err(problem) => {
            as_confirmation(error(StatusCode::BAD_REQUEST, "bad_message", &problem)).await
        }
        Ok(said) => match consent(&state, &entrance, said).await {
            Ok((confirmation, standing)) => confirmed(&confirmation, standing),
            Err(ChatRefusal::Blocked(block)) => {
                let code = ErrorCode::Blocked.as_str();
                let farewell = &block.farewell_message;
                as_confirmation(error(StatusCode::FORBIDDEN, code, farewell)).await
            }
            Err(ChatRefusal::Unknown) => confirmed(&state.chat.nothing_confirmed(), None),
            Err(refusal) => as_confirmation(refused(&refusal)).await,
        },
    };
    entrance.finish(response)
}

async fn consent(
    state: &ServerState,
    entrance: &Entrance,
    (said, zone): (PostedAnswer, Option<UserZone>),
) -> Result<(Confirmation, Option<Vec<Value>>), ChatRefusal> {
    let PostedAnswer {
        conversation_id,
        token,
        approved,
        reason,
        remember,
        content,
        cancelled,
        user_id,
        time_zone: _,
    } = said;
    let given = GivenAnswer {
        conversation: ConversationId::new(conversation_id),
        token,
        approved,
        reason,
        remember,
        input: sent_input(content, cancelled),
        key: entrance.key.clone(),
        user: user_id,
        zone,
    };
    let id = given.conversation.clone();
    let caller = entrance.caller.speaking_for(given.user.as_deref());
    let confirmation = state.chat.confirm(&entrance.caller, given).await?;
    let standing = match remember {
        true => Some(state.chat.standing_approvals(&caller, &id).await),
        false => None,
    };
    Ok((confirmation, standing))
}

/// The status is that of the call's error, where it has one. `standing` are the current standing approvals, for a client that asked for
/// one.
fn confirmed(confirmation: &Confirmation, standing: Option<Vec<Value>>) -> Response<Body> {
    let response = &confirmation.response;
    let error_type = response.error_type();
    let status = error_type.map_or(200, |error| error.facts().http_status);
    let error = response
        .error()
        .map(|error| json!({"code": error.error_type.code(), "message": error.message}));
    let mut body = json!({"ok": response.is_ok(), "response": response, "error": error});
    if let Some(asked) = &confirmation.asked_anew {
        body["question"] = asked.clone();
    }
    if let Some(standing) = standing {
        body["standingApprovals"] = standing.into();
    }
    let mut answer = typed("application/json", body.to_string());
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    answer
}

/// An error in the form of every answer to a confirmation.
async fn as_confirmation(refused: Response<Body>) -> Response<Body> {
    let (head, body) = refused.into_parts();
    let bytes = to_bytes(body, REFUSAL_BYTES_MAX).await.unwrap_or_default();
    let body = match serde_json::from_slice::<Map<String, Value>>(&bytes) {
        Ok(mut fields) => {
            fields.insert("ok".to_owned(), false.into());
            fields.insert("response".to_owned(), Value::Null);
            Body::from(Value::Object(fields).to_string())
        }
        Err(_) => Body::from(bytes),
    };
    Response::from_parts(head, body)
}

/// Accepts a request: from a page that may ask, while the server is up, of a size that is read.
impl FromRequest<Arc<ServerState>> for Entrance {
    type Rejection = Response<Body>;

    async fn from_request(
        request: Request,
        state: &Arc<ServerState>,
    ) -> Result<Self, Self::Rejection> {
        let (head, body) = request.into_parts();
        // A page that may not ask was refused before.
        let is_secure = match head.headers.contains_key(ORIGIN) {
            true => state.origin_rule.check(&head.headers).unwrap_or(false),
            false => false,
        };
        if state.is_draining() {
            return Err(later(error(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::ShuttingDown.as_str(),
                "the server is shutting down",
            )));
        }
        let caller = client(state, showing(&head, Purpose::Text), is_secure).await;
        let (caller, minted) = caller.map_err(|no_caller| signing_in::refused(&no_caller))?;
        let peer: Option<&Peer> = head.extensions.get();
        let standing = standing(state, peer, &caller);
        let served = standing.with_the_address_charged();
        served.take(Used::Requests, 1).map_err(exceeded)?;
        let connection = served.hold(Held::Connections, 1).map_err(exceeded)?;
        let mut body_bytes = standing.hold(Held::BodyBytes, 0).map_err(exceeded)?;
        let body = bodies::read(body, state.request_bytes_max, &mut body_bytes).await;
        let body = body.map_err(unread)?;
        let key = key_of(&head.headers, &body)
            .map_err(|problem| error(StatusCode::BAD_REQUEST, "bad_message", problem))?;
        Ok(Self {
            caller,
            body,
            key,
            minted,
            standing,
            connection,
            _body_bytes: body_bytes,
        })
    }
}

impl Entrance {
    /// One message more that a model is to answer.
    pub(super) fn charge_turn(&self) -> Result<(), Exceeded> {
        self.standing.take(Used::Turns, 1)
    }

    /// The caller of a turn, with memory for it, if there is room.
    pub(super) fn asker(&self, metrics: &Metrics) -> Result<Asker, Exceeded> {
        let memory = TurnMemory::of_request(&self.standing, self.body.len());
        let memory = memory.inspect_err(|share| metrics.refused("turn_memory", share.party));
        Ok(Asker {
            caller: self.caller.clone(),
            beginner: self.standing.beginner(),
            memory: memory?,
        })
    }

    /// Adds the headers that every answer carries.
    pub(super) fn finish(self, mut response: Response<Body>) -> Response<Body> {
        if let Some(connection) = self.connection {
            let held = WhileAnswering::hold(connection);
            response.extensions_mut().insert(held);
        }
        if let Some(minted) = self.minted {
            minted.give(response.headers_mut());
        }
        response
    }
}

fn unread(unread: Unread) -> Response<Body> {
    let (status, code) = match unread {
        Unread::TooLongOrCut(_) => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
        Unread::TooSlow(_) => (StatusCode::REQUEST_TIMEOUT, "too_slow"),
        Unread::Exceeded(share) => return exceeded(share),
    };
    error(status, code, &unread.to_string())
}

/// A client's idempotency key as a message of its conversation: its id is the hash of the key, its content the hash of the body.
fn key_of(headers: &HeaderMap, body: &[u8]) -> Result<Option<Message>, &'static str> {
    let Some(key) = headers.get(KEY_HEADER) else {
        return Ok(None);
    };
    let key = key.as_bytes();
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err("an Idempotency-Key must have 1 to 256 bytes");
    }
    Ok(Some(Message {
        id: format!("idempotency:{}", hex(&ids::digest(key))),
        content: Some(ids::digest(body)),
    }))
}

/// The stream of a turn, under the headers of the AI SDK.
pub(super) fn stream_of(answering: Answering) -> Response<Body> {
    let mut response = events(answering.reader);
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(answering.conversation.as_str()) {
        headers.insert(CONVERSATION_HEADER, id);
    }
    for (name, value) in ui_stream::HEADERS {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    response
}

/// The output of a turn, as the turn writes it.
pub(super) fn events(reader: TurnReader) -> Response<Body> {
    let pieces = stream::unfold(reader, |mut reader| async move {
        let piece = reader.next().await?;
        Some((Ok::<_, Infallible>(piece), reader))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    headers.insert(CONTENT_TYPE, kind);
    for (name, value) in ui_stream::UNBUFFERED {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    response
}

pub(super) fn refused(refusal: &ChatRefusal) -> Response<Body> {
    match refusal {
        ChatRefusal::Blocked(block) => blocked(block),
        ChatRefusal::Foreign => error(
            StatusCode::FORBIDDEN,
            "foreign_conversation",
            "this conversation belongs to another client or user; begin one with an id of its own",
        ),
        ChatRefusal::KeyReused => error(
            StatusCode::CONFLICT,
            "idempotency_key_reused",
            "this Idempotency-Key came before with another request; use one key for one request",
        ),
        ChatRefusal::Busy => error(
            StatusCode::CONFLICT,
            "busy",
            "another message of this conversation is being answered; wait for it, or stop it",
        ),
        ChatRefusal::Unknown => error(
            StatusCode::GONE,
            ErrorType::ConfirmationExpired.code(),
            "no request for approval is open in this conversation",
        ),
        ChatRefusal::Crowded(problem) => crowded(error(
            StatusCode::TOO_MANY_REQUESTS,
            ErrorCode::TooManyConversations.as_str(),
            problem,
        )),
        ChatRefusal::Internal => error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the server cannot answer now",
        ),
    }
}

/// A refusal that holds until an older conversation is forgotten.
pub(super) fn crowded(mut response: Response<Body>) -> Response<Body> {
    let seconds = HeaderValue::from(crate::crowding::RETRY_SECONDS);
    response.headers_mut().insert(RETRY_AFTER, seconds);
    response
}

/// A user who is not served reads why, and until when.
fn blocked(block: &Block) -> Response<Body> {
    let now = crate::clock::now_unix_ms();
    let timeout = json!({
        "durationSeconds": block.until_unix_ms.saturating_sub(now).div_ceil(1_000),
        "timeoutUntil": block.until_unix_ms,
        "farewellMessage": block.farewell_message,
    });
    let bytes = ui_stream::notice("timeout", &timeout, &block.farewell_message);
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    headers.insert(CONTENT_TYPE, kind);
    for (name, value) in ui_stream::HEADERS {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    response
}

/// An error before any answer, in the form of every error of this server's text endpoints.
pub(super) fn error(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    let body = json!({"error": {"code": code, "message": message}}).to_string();
    let mut response = typed("application/json", body);
    *response.status_mut() = status;
    response
}
