//! `/api/conversations`: the list of a client's conversations, a search, pages, an export, renaming and deleting; and
//! `/api/chat/{id}/stream`, where a client takes a running answer up. Knows statuses and query parameters; the chat has the content.

use super::ServerState;
use super::chat::{error, stream_of};
use super::ledger::answered;
use super::owner::{OwnersQuery, OwnersRequest, bad};
use crate::chat::reading::{ListCursor, ListRequest, NotDeleted, PageRequest};
use crate::chat::{ChatRefusal, request};
use axum::body::Body;
use axum::extract::{Path, State as Extract};
use http::header::CONTENT_DISPOSITION;
use http::{HeaderValue, Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use windlass_contract::id::ConversationId;
use windlass_store::EntryNumber;

/// Conversations of a list, and messages of a page: where the client says nothing, and at most.
const LISTED: usize = 20;
const LISTED_MAX: usize = 100;
const MESSAGES: usize = 50;
const MESSAGES_MAX: usize = 200;
/// Characters of a search text.
const SEARCHED_CHARACTERS_MAX: usize = 200;
const TITLE_CHARACTERS_MAX: usize = 200;
/// Characters of an id in the name of a file.
const FILE_CHARACTERS_MAX: usize = 64;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    limit: Option<usize>,
    cursor: Option<String>,
    q: Option<String>,
    /// The user for whom a program speaks that vouches for users.
    user_id: Option<String>,
}

impl OwnersQuery for Asked {
    const PROBLEM: &str = "limit must be a whole number";

    fn user_id(&self) -> Option<&str> {
        self.user_id.as_deref()
    }
}

type Reading = OwnersRequest<Asked>;

/// The id of a path, as far as it can be one.
fn id_of(id: &str) -> Option<ConversationId> {
    request::check_id(id).ok().map(|()| ConversationId::new(id))
}

fn shown(shown: Result<Value, ChatRefusal>) -> Response<Body> {
    answered(
        shown,
        "unknown_conversation",
        "there is no such conversation",
    )
}

/// `GET /api/conversations`.
pub(super) async fn list(
    Extract(state): Extract<Arc<ServerState>>,
    reading: Reading,
) -> Response<Body> {
    let response = match wanted(&reading.asked) {
        Ok(wanted) => shown(state.chat.list(&reading.caller, wanted).await),
        Err(problem) => bad(&problem),
    };
    reading.entrance.finish(response)
}

fn wanted(asked: &Asked) -> Result<ListRequest, String> {
    let searched = asked.q.as_deref().unwrap_or_default();
    if searched.chars().count() > SEARCHED_CHARACTERS_MAX {
        return Err(format!(
            "q may have at most {SEARCHED_CHARACTERS_MAX} characters"
        ));
    }
    let words = searched.to_lowercase();
    Ok(ListRequest {
        conversations_max: limit(asked, LISTED, LISTED_MAX)?,
        behind: match asked.cursor.as_deref() {
            Some(cursor) => Some(ListCursor::parse(cursor).ok_or(NO_CURSOR)?),
            None => None,
        },
        words: words.split_whitespace().map(str::to_owned).collect(),
    })
}

const NO_CURSOR: &str = "cursor must be the next of an earlier answer";

fn limit(asked: &Asked, usual: usize, most: usize) -> Result<usize, String> {
    match asked.limit {
        None => Ok(usual),
        Some(limit) if (1..=most).contains(&limit) => Ok(limit),
        Some(_) => Err(format!("limit must be 1 to {most}")),
    }
}

/// `GET /api/conversations/{id}`.
pub(super) async fn read(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    reading: Reading,
) -> Response<Body> {
    let response = match (page(&reading.asked), id_of(&id)) {
        (Ok(page), Some(id)) => shown(state.chat.conversation(&reading.caller, &id, page).await),
        (Err(problem), _) => bad(&problem),
        (Ok(_), None) => shown(Err(ChatRefusal::Unknown)),
    };
    reading.entrance.finish(response)
}

fn page(asked: &Asked) -> Result<PageRequest, String> {
    let before = asked.cursor.as_deref().map(str::parse);
    Ok(PageRequest {
        messages_max: limit(asked, MESSAGES, MESSAGES_MAX)?,
        before: match before {
            Some(number) => Some(EntryNumber(number.map_err(|_| NO_CURSOR)?)),
            None => None,
        },
    })
}

/// `GET /api/conversations/{id}/export`.
pub(super) async fn export(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    reading: Reading,
) -> Response<Body> {
    let exported = match id_of(&id) {
        Some(id) => state.chat.export(&reading.caller, &id).await,
        None => Err(ChatRefusal::Unknown),
    };
    let is_file = exported.is_ok();
    let mut response = shown(exported);
    if is_file && let Some(name) = file_name(&id) {
        response.headers_mut().insert(CONTENT_DISPOSITION, name);
    }
    reading.entrance.finish(response)
}

/// The header with a file name of letters, digits and dashes alone, whatever id the client has chosen.
fn file_name(id: &str) -> Option<HeaderValue> {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let id: String = id
        .chars()
        .filter(is_plain)
        .take(FILE_CHARACTERS_MAX)
        .collect();
    HeaderValue::from_str(&format!("attachment; filename=\"conversation-{id}.json\"")).ok()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTitle {
    title: String,
}

/// Whether a body gives a title.
pub(crate) fn understands_title(body: &[u8]) -> bool {
    new_title(body).is_ok()
}

fn new_title(body: &[u8]) -> Result<String, String> {
    let NewTitle { title } = crate::body::object(body)
        .map_err(|problem| format!("the body gives no title: {problem}"))?;
    let title = title.trim();
    let characters = title.chars().count();
    if !(1..=TITLE_CHARACTERS_MAX).contains(&characters) || title.chars().any(char::is_control) {
        return Err(format!(
            "a title must have 1 to {TITLE_CHARACTERS_MAX} characters and no control characters"
        ));
    }
    Ok(title.to_owned())
}

/// `PATCH /api/conversations/{id}`.
pub(super) async fn rename(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    reading: Reading,
) -> Response<Body> {
    let response = match (new_title(&reading.entrance.body), id_of(&id)) {
        (Ok(title), Some(id)) => shown(state.chat.rename(&reading.caller, &id, title).await),
        (Err(problem), _) => bad(&problem),
        (Ok(_), None) => shown(Err(ChatRefusal::Unknown)),
    };
    reading.entrance.finish(response)
}

/// `DELETE /api/conversations/{id}`.
pub(super) async fn delete(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    reading: Reading,
) -> Response<Body> {
    let deleted = match id_of(&id) {
        Some(id) => state.chat.delete(&reading.caller, &id).await,
        None => Err(NotDeleted::Refused(ChatRefusal::Unknown)),
    };
    let response = match deleted {
        Ok(()) => nothing(),
        Err(NotDeleted::InUse) => error(
            StatusCode::CONFLICT,
            "busy",
            "an answer is being written in this conversation, or a voice session is live; stop it, and delete then",
        ),
        Err(NotDeleted::Refused(refusal)) => shown(Err(refusal)),
    };
    reading.entrance.finish(response)
}

fn nothing() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// `GET /api/chat/{id}/stream`: the answer that is being written, from its beginning. Status 204 means that there is none, whether or
/// not the conversation is the caller's.
pub(super) async fn stream(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    reading: Reading,
) -> Response<Body> {
    let running = id_of(&id).and_then(|id| state.chat.running(&reading.caller, &id));
    let response = running.map_or_else(nothing, stream_of);
    reading.entrance.finish(response)
}

/// `DELETE /api/chat/{id}/stream`: gives the answer up that is being written.
pub(super) async fn stop(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    reading: Reading,
) -> Response<Body> {
    if let Some(id) = id_of(&id) {
        state.chat.stop(&reading.caller, &id);
    }
    reading.entrance.finish(nothing())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_short_and_can_be_seen() {
        for (body, title) in [
            (r#"{"title": " Tea "}"#, Some("Tea")),
            (r#"{"title": ""}"#, None),
            (r#"{"title": " "}"#, None),
            (r#"{"title": "a\u0000b"}"#, None),
            (r#"{"title": 1}"#, None),
            (r#"{"title": "a", "id": "b"}"#, None),
            (r#"{}"#, None),
            ("", None),
        ] {
            let read = new_title(body.as_bytes()).ok();
            assert_eq!(read.as_deref(), title, "{body}");
        }
        let long = format!(r#"{{"title": "{}"}}"#, "ä".repeat(201));
        assert!(new_title(long.as_bytes()).is_err());
    }

    #[test]
    fn a_file_is_named_by_harmless_characters() {
        for (id, name) in [
            ("c-1_a", "attachment; filename=\"conversation-c-1_a.json\""),
            ("../\"\r\nx", "attachment; filename=\"conversation-x.json\""),
            ("é", "attachment; filename=\"conversation-.json\""),
        ] {
            assert_eq!(file_name(id).unwrap(), name);
        }
    }
}
