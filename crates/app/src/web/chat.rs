//! `POST /api/chat`: one turn of a text conversation as the AI SDK's UI message stream. Knows the headers and statuses of
//! that; what is said is the conversation's.

use super::client::client;
use super::voice::later;
use super::{State, typed};
use crate::chat::record::TurnReader;
use crate::chat::request::{self, Answer, ChatRequest, Wish};
use crate::chat::{Answering, ChatRefusal, asking};
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::extract::State as Extract;
use bytes::Bytes;
use futures_util::stream;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, CONTENT_TYPE, HeaderName, ORIGIN, SET_COOKIE, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use windlass_runtime::caller::Caller;
use windlass_runtime::ids;
use windlass_runtime::text::ui_stream;
use windlass_runtime::voice::Refusal;
use windlass_session::client::ErrorCode;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::error::ErrorType;
use windlass_tool::handler::Block;
use windlass_tool::id::ConversationId;
use windlass_tool::sensitive::Sensitive;

/// The conversation, for clients that let the server choose its id.
const CONVERSATION_HEADER: HeaderName = HeaderName::from_static("x-windlass-conversation");

/// Bytes of one of this server's own refusals.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// What a request to a text endpoint has in common with every other.
pub(super) struct Entrance {
    pub(super) caller: Caller,
    pub(super) body: Bytes,
    cookie: Option<HeaderValue>,
    origin: Option<HeaderValue>,
}

/// Answers a turn.
pub(super) async fn chat(Extract(state): Extract<Arc<State>>, request: Request) -> Response<Body> {
    let entrance = match Entrance::of(&state, request).await {
        Ok(entrance) => entrance,
        Err(refused) => return refused,
    };
    let response = match answer(&state, &entrance).await {
        Ok(answering) => stream_of(answering),
        Err(refused) => refused,
    };
    entrance.finish(response)
}

async fn answer(state: &State, entrance: &Entrance) -> Result<Answering, Response<Body>> {
    let host = state.speaking_chat().ok_or_else(no_text_model)?;
    let wanted = request::parse(&entrance.body, state.picture_limits)
        .map_err(|problem| error(StatusCode::BAD_REQUEST, "bad_message", &problem.to_string()))?;
    confirm_by_voice(state, &entrance.caller, &wanted).await;
    let answering = host.chat(&entrance.caller, wanted).await;
    let answering = answering.map_err(|refusal| refused(&refusal))?;
    // The turn begins first, so that what it says at once travels with the head of the answer.
    tokio::task::yield_now().await;
    Ok(answering)
}

/// Gives the answers to questions to the session by voice where that has asked: the turn then finds what came of them.
async fn confirm_by_voice(state: &State, caller: &Caller, wanted: &ChatRequest) {
    let (Wish::Answer, Some(id)) = (&wanted.wish, &wanted.conversation) else {
        return;
    };
    let id = ConversationId::new(id.as_str());
    let named = wanted.user.as_deref();
    for Answer { token, approved } in &wanted.answers {
        let hash = ids::token_hash(token.expose());
        if asking(&state.conversations, caller, &id, &hash)
            .await
            .is_ok()
            && let Ok(Some(answered)) = state.voice.confirm(caller, named, &id, hash, *approved)
        {
            // Without an answer it is the turn's to find out.
            let _ = answered.await;
        }
    }
}

/// What is answered where no model speaks by text.
pub(super) fn no_text_model() -> Response<Body> {
    error(
        StatusCode::SERVICE_UNAVAILABLE,
        "provider_unavailable",
        "no model for text is configured: set GEMINI_API_KEY or OPENAI_API_KEY, or text.url",
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Confirmation {
    conversation_id: String,
    token: Sensitive<String>,
    approved: bool,
}

/// `POST /api/confirm`: the user's answer to a request for consent, for clients that have no stream to send it on.
pub(super) async fn confirm(
    Extract(state): Extract<Arc<State>>,
    request: Request,
) -> Response<Body> {
    let entrance = match Entrance::of(&state, request).await {
        Ok(entrance) => entrance,
        Err(refused) => return as_confirmation(refused).await,
    };
    let response = match crate::body::object::<Confirmation>(&entrance.body) {
        Err(problem) => {
            let problem = format!("the body is no answer to a request for approval: {problem}");
            as_confirmation(error(StatusCode::BAD_REQUEST, "bad_message", &problem)).await
        }
        Ok(said) => match consent(&state, &entrance.caller, said).await {
            Ok(response) => confirmed(&response),
            Err(NoConsent::Blocked { farewell }) => {
                let code = ErrorCode::Blocked.as_str();
                as_confirmation(error(StatusCode::FORBIDDEN, code, &farewell)).await
            }
            Err(NoConsent::Refused(ChatRefusal::Unknown)) => confirmed(&state.chat.not_valid()),
            Err(NoConsent::Refused(refusal)) => as_confirmation(refused(&refusal)).await,
        },
    };
    entrance.finish(response)
}

/// Why an answer to a request for consent counts for nothing.
enum NoConsent {
    /// The user who was asked, or the one who answers, is not served.
    Blocked {
        farewell: String,
    },
    Refused(ChatRefusal),
}

impl From<ChatRefusal> for NoConsent {
    fn from(refusal: ChatRefusal) -> Self {
        match refusal {
            ChatRefusal::Blocked(Block {
                farewell_message: farewell,
                ..
            }) => Self::Blocked { farewell },
            refusal => Self::Refused(refusal),
        }
    }
}

impl From<Refusal> for NoConsent {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Blocked {
                farewell_message: farewell,
                ..
            } => Self::Blocked { farewell },
            // The host has said in the log what is wrong.
            Refusal::Error { .. } => Self::Refused(ChatRefusal::Internal),
        }
    }
}

/// The answer goes to whichever session of the conversation has asked: the one by voice that runs, or the one by text.
async fn consent(
    state: &State,
    caller: &Caller,
    said: Confirmation,
) -> Result<Arc<ToolResponse>, NoConsent> {
    let Confirmation {
        conversation_id,
        token,
        approved,
    } = said;
    let hash = ids::token_hash(token.expose());
    let id = ConversationId::new(conversation_id);
    // Whoever shows a token that is not theirs to show learns nothing, not even who is blocked.
    asking(&state.conversations, caller, &id, &hash).await?;
    if let Some(answered) = state.voice.confirm(caller, None, &id, hash, approved)?
        && let Ok(response) = answered.await
    {
        return Ok(response);
    }
    let response = state.chat.confirm(caller, &id, hash, approved);
    Ok(response.await?)
}

/// The status is that of the call's error, where it has one.
fn confirmed(response: &ToolResponse) -> Response<Body> {
    let error_type = response.error_type();
    let status = error_type.map_or(200, |error| error.facts().http_status);
    let error = response
        .error()
        .map(|error| json!({"code": error.error_type.code(), "message": error.message}));
    let body = json!({"ok": response.is_ok(), "response": response, "error": error});
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

impl Entrance {
    /// Lets a request in: from a page that may ask, while the server is up, of a size that is read.
    pub(super) async fn of(state: &Arc<State>, request: Request) -> Result<Self, Response<Body>> {
        let (head, body) = request.into_parts();
        let origin = head.headers.get(ORIGIN).cloned();
        let is_secure = match &origin {
            // What has no origin is no page of somebody else's.
            None => false,
            Some(_) => state.origin_rule.check(&head.headers).map_err(|refused| {
                error(
                    StatusCode::FORBIDDEN,
                    "foreign_origin",
                    &refused.to_string(),
                )
            })?,
        };
        let entered = Self::enter(state, &head.headers, body, origin.clone(), is_secure).await;
        entered.map_err(|mut refused| {
            if let Some(origin) = origin {
                allow(origin, refused.headers_mut());
            }
            refused
        })
    }

    async fn enter(
        state: &Arc<State>,
        headers: &HeaderMap,
        body: Body,
        origin: Option<HeaderValue>,
        is_secure: bool,
    ) -> Result<Self, Response<Body>> {
        if state.is_draining() {
            return Err(later(error(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::ShuttingDown.as_str(),
                "the server is shutting down",
            )));
        }
        let (caller, cookie) = client(state, headers, is_secure).map_err(|problem| {
            tracing::error!(%problem, "no client id could be minted");
            error(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "the server cannot tell clients apart now",
            )
        })?;
        let body = to_bytes(body, state.request_bytes_max).await.map_err(|_| {
            let problem = format!(
                "the body is longer than {} bytes, or was cut off",
                state.request_bytes_max
            );
            error(StatusCode::PAYLOAD_TOO_LARGE, "too_large", &problem)
        })?;
        Ok(Self {
            caller,
            body,
            cookie,
            origin,
        })
    }

    /// Adds what every answer carries.
    pub(super) fn finish(self, mut response: Response<Body>) -> Response<Body> {
        let headers = response.headers_mut();
        if let Some(cookie) = self.cookie {
            headers.insert(SET_COOKIE, cookie);
        }
        if let Some(origin) = self.origin {
            allow(origin, headers);
        }
        response
    }
}

/// The page of this origin may read the answer.
pub(super) fn allow(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let yes = HeaderValue::from_static("true");
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
    let exposed = HeaderValue::from_static("x-windlass-conversation");
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    headers.insert(VARY, HeaderValue::from_static("Origin"));
}

/// What a browser asks before it lets a page of another origin post here.
pub(super) async fn preflight(
    Extract(state): Extract<Arc<State>>,
    method: Method,
    headers: HeaderMap,
) -> Response<Body> {
    if method != Method::OPTIONS {
        return error(
            StatusCode::METHOD_NOT_ALLOWED,
            "bad_message",
            "this address does not know this method",
        );
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let Some(origin) = headers.get(ORIGIN).cloned() else {
        return response;
    };
    if state.origin_rule.check(&headers).is_err() {
        return response;
    }
    // A page that may ask at all may send what headers it likes: the SDKs have many of their own.
    let usual = HeaderValue::from_static("content-type, authorization");
    let wished = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let answered = response.headers_mut();
    allow(origin, answered);
    answered.insert(ACCESS_CONTROL_ALLOW_HEADERS, wished.unwrap_or(usual));
    let methods = HeaderValue::from_static("GET, POST");
    answered.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    answered.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

fn stream_of(answering: Answering) -> Response<Body> {
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

/// What a turn writes, as it writes it.
pub(super) fn events(reader: TurnReader) -> Response<Body> {
    let pieces = stream::unfold(reader, |mut reader| async move {
        let piece = reader.next().await?;
        Some((Ok::<_, Infallible>(piece), reader))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn refused(refusal: &ChatRefusal) -> Response<Body> {
    match refusal {
        ChatRefusal::Blocked(block) => blocked(block),
        ChatRefusal::Foreign => error(
            StatusCode::FORBIDDEN,
            "foreign_conversation",
            "this conversation belongs to another client; begin one with an id of its own",
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
        ChatRefusal::Internal => error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the server cannot answer now",
        ),
    }
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
