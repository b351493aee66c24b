//! From model commands to a client's frames. Knows the shapes that each family of models accepts; decides nothing.

use super::answer;
use serde::Serialize;
use std::sync::Arc;
use windlass_session::model::{
    HistoryEntry, HistoryInput, ModelCommand, ModelProfile, ModelToolResponse, Role, TextInput,
};

/// A message of ours; exactly one key.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ClientMessage<'a> {
    ClientContent(ClientContent<'a>),
    RealtimeInput(RealtimeInput<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClientContent<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    turns: Vec<Turn<'a>>,
    turn_complete: bool,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    parts: [TextPart<'a>; 1],
}

#[derive(Serialize)]
struct TextPart<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum RealtimeInput<'a> {
    Text(&'a str),
    AudioStreamEnd(bool),
}

/// Sent before earlier conversation.
const HISTORY_OPENING: &str = "What follows is the earlier conversation, as context only. Do not answer it again and do not repeat what was done in it.";
/// Sent after it if the seed must end with the user's turn.
const HISTORY_CLOSING: &str =
    "That was the earlier conversation. Say nothing now; wait for what comes next.";
/// Replaces the pending request if the history holds none.
const HISTORY_GO_ON: &str = "Please go on from where the conversation was.";
/// Sent before results whose calls this connection does not know. Reported to work with 2.5 and 3.1 models:
/// <https://github.com/pipecat-ai/pipecat/pull/5497>.
const LATE_OPENING: &str = "This is no message of the user. The connection was changed while these tool calls of yours were running, and here are their results. Do not make the calls again; tell the user what they came to.";

pub(super) fn encode(command: &ModelCommand, profile: &ModelProfile, frames: &mut Vec<Vec<u8>>) {
    match command {
        ModelCommand::ToolResponses(responses) => {
            if !responses.is_empty() {
                frames.push(answer::tool_responses(responses, profile));
            }
        }
        ModelCommand::LateResults(responses) => {
            if !responses.is_empty() {
                frames.push(user_text(&late_results(responses), profile));
            }
        }
        ModelCommand::UserText(text) | ModelCommand::Notice(text) => {
            frames.push(user_text(text.expose(), profile));
        }
        ModelCommand::History {
            entries,
            answer_now,
        } => history(entries, *answer_now, profile, frames),
        ModelCommand::Image { mime_type, data } => frames.push(image(mime_type, data.expose())),
        ModelCommand::AudioEnded => frames.push(text_of(&ClientMessage::RealtimeInput(
            RealtimeInput::AudioStreamEnd(true),
        ))),
        // No message of this protocol waits for an event of the service.
        ModelCommand::Resynchronize => {}
    }
}

fn text_of(message: &ClientMessage<'_>) -> Vec<u8> {
    let mut frame = Vec::with_capacity(256);
    serde_json::to_writer(&mut frame, message).expect("strings and JSON values always serialize");
    frame
}

/// Results as text, a line each.
fn late_results(responses: &[ModelToolResponse]) -> String {
    let mut text = LATE_OPENING.to_owned();
    for response in responses {
        text.push('\n');
        text.push_str(&response.name);
        text.push_str(": ");
        text.push_str(&answer::body(response));
    }
    text
}

fn user_text(text: &str, profile: &ModelProfile) -> Vec<u8> {
    match profile.text_input {
        TextInput::RealtimeInput => {
            text_of(&ClientMessage::RealtimeInput(RealtimeInput::Text(text)))
        }
        TextInput::ClientContent => content(vec![turn(Role::User, text)], true),
    }
}

fn turn(role: Role, text: &str) -> Turn<'_> {
    Turn {
        role: match role {
            Role::User => "user",
            Role::Assistant => "model",
        },
        parts: [TextPart { text }],
    }
}

fn content(turns: Vec<Turn<'_>>, turn_complete: bool) -> Vec<u8> {
    text_of(&ClientMessage::ClientContent(ClientContent {
        turns,
        turn_complete,
    }))
}

/// Earlier conversation, and the request to be answered at once, if there is one: the user's last words in it.
///
/// The seed ends with a turn of the user unless it must be complete, because 2.5 models refuse another end. A seed that was
/// announced in the setup is always complete, because the service waits for that and starts no answer by it.
fn history(
    entries: &[HistoryEntry],
    answer_now: bool,
    profile: &ModelProfile,
    frames: &mut Vec<Vec<u8>>,
) {
    let (earlier, pending) = split_pending(entries, answer_now);
    let mut turns = Vec::with_capacity(earlier.len() + 2);
    if !earlier.is_empty() {
        turns.push(turn(Role::User, HISTORY_OPENING));
        turns.extend(
            earlier
                .iter()
                .map(|entry| turn(entry.role, entry.text.expose())),
        );
    }
    match profile.history {
        HistoryInput::InitialClientContent => {
            frames.push(content(turns, true));
            frames.extend(pending.map(|text| user_text(text, profile)));
        }
        HistoryInput::ClientContent => match (pending, profile.text_input) {
            (Some(text), TextInput::ClientContent) => {
                turns.push(turn(Role::User, text));
                frames.push(content(turns, true));
            }
            (pending, TextInput::ClientContent | TextInput::RealtimeInput) => {
                if !turns.is_empty() {
                    turns.push(turn(Role::User, HISTORY_CLOSING));
                    frames.push(content(turns, false));
                }
                frames.extend(pending.map(|text| user_text(text, profile)));
            }
        },
    }
}

fn split_pending(entries: &[HistoryEntry], answer_now: bool) -> (&[HistoryEntry], Option<&str>) {
    match entries {
        _ if !answer_now => (entries, None),
        [earlier @ .., last] if last.role == Role::User => (earlier, Some(last.text.expose())),
        _ => (entries, Some(HISTORY_GO_ON)),
    }
}

fn image(mime_type: &str, data: &Arc<[u8]>) -> Vec<u8> {
    const BEFORE: &[u8] = br#"{"realtimeInput":{"video":{"data":""#;
    let encoded_length = base64_simd::STANDARD.encoded_length(data.len());
    let mut frame = Vec::with_capacity(BEFORE.len() + encoded_length + mime_type.len() + 24);
    frame.extend_from_slice(BEFORE);
    base64_simd::STANDARD.encode_append(data, &mut frame);
    frame.extend_from_slice(br#"","mimeType":"#);
    serde_json::to_writer(&mut frame, mime_type).expect("a string always serializes");
    frame.extend_from_slice(b"}}}");
    frame
}
