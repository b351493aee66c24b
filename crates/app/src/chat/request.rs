//! The requests of a chat client: the body of `useChat`, and the short form `{"message": "…"}`. Takes only the parts that the server
//! does not know better itself: the last message of the user, answers to approval requests, and the older text of a conversation that
//! the server does not know. Knows no conversation.

use super::picture::{PictureLimits, Pictures};
use crate::body::BadRequest;
use crate::clock::UserZone;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_contract::handler::Page;
use windlass_contract::input::SentInput;
use windlass_contract::json;
use windlass_contract::sensitive::Sensitive;
use windlass_provider::log::Image;
use windlass_runtime::client_protocol::sent_input;
use windlass_runtime::text::UserInput;
use windlass_session::client::MessageKey;
use windlass_session::model::{HistoryEntry, Role};

/// Bytes of an id that a client gives.
const ID_BYTES_MAX: usize = 128;
/// Messages of a body that are looked at, the newest first.
const MESSAGES_MAX: usize = 1_000;
/// Bytes of older text that seed a conversation.
const SEED_BYTES_MAX: usize = 64 * 1024;
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// The most answers to approval requests that are taken of one body: the newest.
const ANSWERS_MAX: usize = 64;

/// A client's request.
#[derive(Clone, Debug)]
pub(crate) struct ChatRequest {
    /// `None` where the client leaves it to the server.
    pub(crate) conversation: Option<String>,
    pub(crate) user: Option<String>,
    /// The user's time zone, from the client.
    pub(crate) zone: Option<UserZone>,
    /// The page that the user is on, as the client says.
    pub(crate) page: Option<Page>,
    /// The user's answers to requests for approval, in their order.
    pub(crate) answers: Vec<ApprovalAnswer>,
    pub(crate) kind: RequestKind,
    /// The conversation before the request, as the client has it.
    pub(crate) earlier: Vec<HistoryEntry>,
    /// The pictures that the user showed before it.
    pub(crate) pictures: Vec<(MessageKey, Vec<Image>)>,
    /// The client may leave and come back to the answer.
    pub(crate) is_resumable: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum RequestKind {
    Say {
        /// The client's id of the message, by which a repeat is known.
        message: Option<String>,
        /// The hash of its text and pictures: a client that edits a message keeps its id.
        content: [u8; 32],
        input: UserInput,
        /// The user wants another answer to a message that had one.
        again: bool,
    },
    /// Nothing but the answers to requests for approval.
    Answer,
}

/// The answer to a request for approval; whether it is one of ours is seen by its token.
#[derive(Clone, Debug)]
pub(crate) struct ApprovalAnswer {
    pub(crate) token: Sensitive<String>,
    pub(crate) approved: bool,
    pub(crate) reason: Option<Sensitive<String>>,
    /// Whether an approval covers later calls with the same values.
    pub(crate) remember: bool,
    /// The user's input for the service of a tool that asks for it.
    pub(crate) input: Option<SentInput>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    user_id: Option<String>,
    #[serde(default)]
    time_zone: Option<String>,
    #[serde(default)]
    page: Option<Page>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    messages: Vec<Message>,
    #[serde(default)]
    trigger: Option<String>,
    #[serde(default)]
    resumable: bool,
}

#[derive(Deserialize)]
#[serde(expecting = "a message")]
struct Message {
    #[serde(default)]
    id: Option<String>,
    role: String,
    #[serde(default)]
    parts: Vec<Value>,
    /// The form before parts.
    #[serde(default)]
    content: Option<String>,
}

/// Reads a body.
///
/// # Errors
///
/// It is no JSON of this form, or holds nothing to answer.
pub(crate) fn parse(body: &[u8], limits: PictureLimits) -> Result<ChatRequest, BadRequest> {
    let refuse = |problem: &str| BadRequest(problem.to_owned());
    let body: Body = crate::body::object(body)
        .map_err(|problem| BadRequest(format!("the body is not what useChat sends: {problem}")))?;
    for id in [&body.id, &body.user_id].into_iter().flatten() {
        check_id(id)?;
    }
    for message in &body.messages {
        if !matches!(message.role.as_str(), "user" | "assistant" | "system") {
            return Err(refuse(
                "a message has a role that is none of user, assistant and system",
            ));
        }
    }
    let zone = body.time_zone.as_deref().map_or(Ok(None), UserZone::parse);
    let zone = zone.map_err(|problem| BadRequest(format!("timeZone: {problem}")))?;
    let page = body.page.clone().map_or(Ok(None), Page::checked);
    let page = page.map_err(BadRequest)?;
    let (kind, last) = kind(&body, limits)?;
    Ok(ChatRequest {
        answers: answers(&body.messages[..last]),
        earlier: earlier(&body.messages[..last]),
        pictures: earlier_pictures(&body.messages[..last], limits),
        is_resumable: body.resumable,
        conversation: body.id,
        user: body.user_id,
        zone,
        page,
        kind,
    })
}

/// Whether an id that a client gives is one.
pub(crate) fn check_id(id: &str) -> Result<(), BadRequest> {
    if id.is_empty() || id.len() > ID_BYTES_MAX || id.chars().any(char::is_control) {
        return Err(BadRequest(format!(
            "an id must have 1 to {ID_BYTES_MAX} bytes and no control characters"
        )));
    }
    Ok(())
}

/// The request, and the position of its message: the earlier conversation ends there.
fn kind(body: &Body, limits: PictureLimits) -> Result<(RequestKind, usize), BadRequest> {
    let again = match body.trigger.as_deref() {
        None | Some("submit-message") => false,
        Some("regenerate-message") => true,
        Some(_) => {
            return Err(BadRequest(
                "the trigger is neither submit-message nor regenerate-message".to_owned(),
            ));
        }
    };
    if let Some(text) = &body.message {
        let input = UserInput {
            text: Sensitive(checked(text)?.to_owned()),
            ..UserInput::default()
        };
        let kind = RequestKind::Say {
            message: None,
            content: json::hash(&json!(text)),
            input,
            again: false,
        };
        return Ok((kind, body.messages.len()));
    }
    if let Some(last) = body.messages.last()
        && last.role == "assistant"
        && !again
    {
        if !last.parts.iter().any(|part| approval(part).is_some()) {
            return Err(BadRequest(
                "the last message is the assistant's and holds no answer to a request for approval"
                    .to_owned(),
            ));
        }
        return Ok((RequestKind::Answer, body.messages.len()));
    }
    let at = body
        .messages
        .iter()
        .rposition(|message| message.role == "user")
        .ok_or_else(|| BadRequest("there is no message of the user to answer".to_owned()))?;
    let message = &body.messages[at];
    let id = message
        .id
        .clone()
        .filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX);
    let content = content_of(message);
    let input = UserInput {
        message: id.as_deref().map(|id| key_of(id, &content)),
        ..input_of(message, limits)?
    };
    let kind = RequestKind::Say {
        message: id,
        content,
        input,
        again,
    };
    Ok((kind, at))
}

/// The key of a message. An edited message is a request of its own.
fn key_of(id: &str, content: &[u8; 32]) -> MessageKey {
    MessageKey::of(&format!("{id} {}", json::hex(content)))
}

/// Pictures that the user showed earlier, the newest that fit into one message. The log does not keep them, so the client has to send
/// them again.
fn earlier_pictures(messages: &[Message], limits: PictureLimits) -> Vec<(MessageKey, Vec<Image>)> {
    let (mut number, mut bytes) = (0, 0);
    let mut shown = Vec::new();
    for message in messages.iter().rev().filter(|one| one.role == "user") {
        let Some(id) = &message.id else { continue };
        let mut pictures = Pictures::new(limits);
        for part in &message.parts {
            let is_file = part.get("type").and_then(Value::as_str) == Some("file");
            if let Some(url) = part.get("url").and_then(Value::as_str).filter(|_| is_file) {
                // A picture that was refused when it was new is not shown later either.
                drop(pictures.take(url));
            }
        }
        let images = pictures.into_images();
        number += images.len();
        bytes += images
            .iter()
            .map(|one| one.data.expose().len())
            .sum::<usize>();
        if number > limits.images_max || bytes > limits.bytes_max {
            break;
        }
        if !images.is_empty() {
            shown.push((key_of(id, &content_of(message)), images));
        }
    }
    shown
}

/// The user's answers since their last message. Older answers came with a later message.
fn answers(messages: &[Message]) -> Vec<ApprovalAnswer> {
    let since = messages.iter().rposition(|message| message.role == "user");
    let messages = &messages[since.map_or(0, |at| at + 1)..];
    let of_assistant = messages
        .iter()
        .filter(|message| message.role == "assistant");
    let parts = of_assistant.flat_map(|message| &message.parts);
    let mut answers: Vec<ApprovalAnswer> = parts.filter_map(approval).collect();
    answers.drain(..answers.len().saturating_sub(ANSWERS_MAX));
    answers
}

fn approval(part: &Value) -> Option<ApprovalAnswer> {
    if part.get("state")?.as_str()? != "approval-responded" {
        return None;
    }
    let approval = part.get("approval")?;
    Some(ApprovalAnswer {
        token: Sensitive(approval.get("id")?.as_str()?.to_owned()),
        approved: approval.get("approved")?.as_bool()?,
        reason: approval
            .get("reason")
            .and_then(Value::as_str)
            .map(|reason| Sensitive(reason.to_owned())),
        remember: approval.get("remember") == Some(&Value::Bool(true)),
        input: sent_input(
            approval.get("content").cloned().map(Sensitive),
            approval.get("cancelled") == Some(&Value::Bool(true)),
        ),
    })
}

fn checked(text: &str) -> Result<&str, BadRequest> {
    if text.trim().is_empty() {
        return Err(BadRequest("the message is empty".to_owned()));
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(BadRequest(format!(
            "a message may have at most {TEXT_BYTES_MAX} bytes"
        )));
    }
    Ok(text)
}

fn text_of(message: &Message) -> String {
    let mut text = message.content.clone().unwrap_or_default();
    for part in &message.parts {
        if part.get("type").and_then(Value::as_str) == Some("text")
            && let Some(words) = part.get("text").and_then(Value::as_str)
        {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(words);
        }
    }
    text
}

fn content_of(message: &Message) -> [u8; 32] {
    let files = message.parts.iter().filter_map(|part| part.get("url"));
    json::hash(&json!([text_of(message), files.collect::<Vec<_>>()]))
}

fn input_of(message: &Message, limits: PictureLimits) -> Result<UserInput, BadRequest> {
    let text = text_of(message);
    let mut pictures = Pictures::new(limits);
    for part in &message.parts {
        if part.get("type").and_then(Value::as_str) == Some("file") {
            let url = part.get("url").and_then(Value::as_str);
            pictures.take(url.unwrap_or_default())?;
        }
    }
    let text = match checked(&text) {
        Ok(text) => text.to_owned(),
        Err(_) if !pictures.is_empty() && text.trim().is_empty() => "(a picture)".to_owned(),
        Err(problem) => return Err(problem),
    };
    Ok(UserInput {
        text: Sensitive(text),
        images: pictures.into_images(),
        message: None,
        consents: Vec::new(),
    })
}

/// The text of older messages, the newest that fit. Parts of tools are left out: this server knows its calls itself, and others cannot
/// be believed.
fn earlier(messages: &[Message]) -> Vec<HistoryEntry> {
    let mut entries = Vec::new();
    let mut bytes = 0;
    for message in messages.iter().rev().take(MESSAGES_MAX) {
        let role = match message.role.as_str() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            // A system text of a client is no system text of this server.
            _ => continue,
        };
        let text = text_of(message);
        bytes += text.len();
        if bytes > SEED_BYTES_MAX {
            break;
        }
        if !text.trim().is_empty() {
            entries.push(HistoryEntry {
                role,
                text: Sensitive(text),
            });
        }
    }
    entries.reverse();
    entries
}
