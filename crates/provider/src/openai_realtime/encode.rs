//! From model commands to a client's events. Knows the shapes that the service accepts; decides nothing.

use crate::profile::RealtimeForm;
use crate::projection::Reading;
use serde::Serialize;
use std::sync::Arc;
use windlass_session::model::{HistoryEntry, ModelToolResponse, Role};

/// Prefix of our items' ids, to recognize their acknowledgements.
pub(super) const ITEM_ID_PREFIX: &str = "wl_item_";
/// Prefix of the names of our requests for a response, to recognize errors about them.
pub(super) const REQUEST_ID_PREFIX: &str = "wl_response_";

/// Sent before results whose calls this connection does not know.
const LATE_OPENING: &str = "The connection was changed while these tool calls of yours were running, and here are their results. Do not make the calls again; tell the user what they came to.";
/// Precedes the earlier conversation.
const HISTORY_OPENING: &str = "What follows is the earlier conversation, as context only. Do not answer it again and do not repeat what was done in it. The conversation is spoken: keep answering aloud.";

#[derive(Serialize)]
struct ItemCreate<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    item: Item<'a>,
}

#[derive(Serialize)]
struct Item<'a> {
    id: String,
    #[serde(flatten)]
    body: Body<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Body<'a> {
    Message {
        role: &'static str,
        content: [Content<'a>; 1],
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: &'a str,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    InputText {
        text: &'a str,
    },
    OutputText {
        text: &'a str,
    },
    /// Text for servers that speak as the beta did.
    Text {
        text: &'a str,
    },
    InputImage {
        image_url: &'a str,
    },
}

fn item(number: u64, body: Body<'_>) -> Vec<u8> {
    event(&ItemCreate {
        kind: "conversation.item.create",
        item: Item {
            id: format!("{ITEM_ID_PREFIX}{number}"),
            body,
        },
    })
}

fn event(event: &impl Serialize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(256);
    serde_json::to_writer(&mut frame, event).expect("strings always serialize");
    frame
}

fn message(number: u64, role: &'static str, content: Content<'_>) -> Vec<u8> {
    item(
        number,
        Body::Message {
            role,
            content: [content],
        },
    )
}

pub(super) fn user_text(number: u64, text: &str) -> Vec<u8> {
    message(number, "user", Content::InputText { text })
}

pub(super) fn history_opening(number: u64) -> Vec<u8> {
    let text = HISTORY_OPENING;
    message(number, "system", Content::InputText { text })
}

/// One entry of the earlier conversation. The model's words go back as text, because the service takes no audio of its own
/// (<https://github.com/openai/openai-agents-js/issues/963>).
pub(super) fn history_entry(number: u64, entry: &HistoryEntry, form: RealtimeForm) -> Vec<u8> {
    let text = entry.text.expose().as_str();
    match (entry.role, form) {
        (Role::User, _) => message(number, "user", Content::InputText { text }),
        (Role::Assistant, RealtimeForm::VoiceLive) => {
            message(number, "assistant", Content::Text { text })
        }
        (Role::Assistant, RealtimeForm::Openai | RealtimeForm::Xai | RealtimeForm::VoiceLiveV1) => {
            message(number, "assistant", Content::OutputText { text })
        }
    }
}

pub(super) fn image(number: u64, mime_type: &str, data: &Arc<[u8]>) -> Vec<u8> {
    let mut url = format!("data:{mime_type};base64,");
    base64_simd::STANDARD.encode_append(data.as_ref(), &mut url);
    message(number, "user", Content::InputImage { image_url: &url })
}

/// `None` if the call had no id: the service takes no answer without one.
pub(super) fn tool_response(number: u64, response: &ModelToolResponse) -> Option<Vec<u8>> {
    let call_id = response.id.as_deref()?;
    let output = Reading::of(&response.name, &response.projection).openai();
    Some(item(
        number,
        Body::FunctionCallOutput {
            call_id,
            output: &output,
        },
    ))
}

/// Results of calls that this connection does not know, a line each; the service takes outputs of its own calls only.
pub(super) fn late_results(number: u64, responses: &[ModelToolResponse]) -> Vec<u8> {
    let mut text = LATE_OPENING.to_owned();
    for response in responses {
        text.push('\n');
        text.push_str(&response.name);
        text.push_str(": ");
        text.push_str(&Reading::of(&response.name, &response.projection).openai());
    }
    message(number, "system", Content::InputText { text: &text })
}

pub(super) fn response_create(number: u64) -> Vec<u8> {
    #[derive(Serialize)]
    struct ResponseCreate {
        #[serde(rename = "type")]
        kind: &'static str,
        event_id: String,
    }
    event(&ResponseCreate {
        kind: "response.create",
        event_id: format!("{REQUEST_ID_PREFIX}{number}"),
    })
}

/// An empty id cancels the active response. xAI knows no other form.
pub(super) fn response_cancel(id: &str, form: RealtimeForm) -> Vec<u8> {
    #[derive(Serialize)]
    struct ResponseCancel<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(skip_serializing_if = "str::is_empty")]
        response_id: &'a str,
    }
    event(&ResponseCancel {
        kind: "response.cancel",
        response_id: match form {
            RealtimeForm::Xai => "",
            RealtimeForm::Openai | RealtimeForm::VoiceLive | RealtimeForm::VoiceLiveV1 => id,
        },
    })
}

pub(super) fn truncate(item_id: &str, audio_end_ms: u64) -> Vec<u8> {
    #[derive(Serialize)]
    struct Truncate<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        item_id: &'a str,
        content_index: u32,
        audio_end_ms: u64,
    }
    event(&Truncate {
        kind: "conversation.item.truncate",
        item_id,
        content_index: 0,
        audio_end_ms,
    })
}
