//! The server's messages as JSON bytes: lowerCamelCase, unset fields left out, always below 1 MiB. Knows forms and the profile's
//! spellings, not when a message is sent.

use super::profile::Profile;
use crate::script::FRAME_BYTES_MAX;
use crate::sound::voice::RATE_HZ;
use serde_json::{Map, Value, json};

pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

pub(crate) fn setup_complete(session_id: Option<String>) -> Vec<u8> {
    let body = match session_id {
        Some(session_id) => json!({ "sessionId": session_id }),
        None => json!({}),
    };
    bytes(&json!({ "setupComplete": body }))
}

pub(crate) fn content(body: Value) -> Vec<u8> {
    bytes(&json!({ "serverContent": body }))
}

/// A model turn with these parts, beside the other members of the same frame.
pub(crate) fn model_turn(
    profile: &Profile,
    parts: Vec<Value>,
    beside: Map<String, Value>,
) -> Vec<u8> {
    let mut body = beside;
    let turn = if profile.vertex {
        json!({ "role": "model", "parts": parts })
    } else {
        json!({ "parts": parts })
    };
    body.insert("modelTurn".to_owned(), turn);
    content(Value::Object(body))
}

pub(crate) fn audio_part(profile: &Profile, pcm: &[u8]) -> Value {
    let data = base64_simd::STANDARD.encode_to_string(pcm);
    json!({ "inlineData": { "mimeType": profile.audio_mime_type(), "data": data } })
}

pub(crate) fn transcription(field: &str, text: &str) -> Map<String, Value> {
    Map::from_iter([(field.to_owned(), json!({ "text": text }))])
}

pub(crate) fn tool_call(calls: Vec<Value>) -> Vec<u8> {
    bytes(&json!({ "toolCall": { "functionCalls": calls } }))
}

pub(crate) fn cancellation(ids: &[String]) -> Vec<u8> {
    bytes(&json!({ "toolCallCancellation": { "ids": ids } }))
}

/// The `goAway` message. Its time is a protobuf duration: seconds, with a fraction if needed.
pub(crate) fn go_away(milliseconds: u64) -> Vec<u8> {
    let (seconds, rest) = (milliseconds / 1_000, milliseconds % 1_000);
    let time_left = match rest {
        0 => format!("{seconds}s"),
        rest => format!("{seconds}.{rest:03}s"),
    };
    bytes(&json!({ "goAway": { "timeLeft": time_left } }))
}

/// A handle, or none: unset fields are left out.
pub(crate) fn resumption(handle: Option<&str>) -> Vec<u8> {
    let body = match handle {
        Some(handle) => json!({ "newHandle": handle, "resumable": true }),
        None => json!({}),
    };
    bytes(&json!({ "sessionResumptionUpdate": body }))
}

pub(crate) fn voice_activity(kind: &str, offset_ms: u64) -> Vec<u8> {
    let offset = format!("{}.{:03}s", offset_ms / 1_000, offset_ms % 1_000);
    bytes(&json!({ "voiceActivity": { "type": kind, "audioOffset": offset } }))
}

/// Tokens of one turn. Text counts four characters a token, audio the service's 25 tokens a second.
pub(crate) struct Tally {
    pub(crate) prompt_characters: usize,
    pub(crate) audio_ms: u64,
    pub(crate) thought_characters: usize,
}

pub(crate) fn turn_complete(profile: &Profile, tally: &Tally, idle: bool) -> Vec<u8> {
    let mut body = json!({ "turnComplete": true });
    if profile.interaction_status {
        let status = if idle { "IDLE" } else { "IN_PROGRESS" };
        body["interactionStatus"] = Value::from(status);
    }
    bytes(&json!({ "serverContent": body, "usageMetadata": usage(profile, tally) }))
}

fn usage(profile: &Profile, tally: &Tally) -> Value {
    let prompt = tally.prompt_characters.div_ceil(4).max(1) as u64;
    let response = tally.audio_ms * 25 / 1_000;
    let (count, details) = if profile.vertex {
        ("candidatesTokenCount", "candidatesTokensDetails")
    } else {
        ("responseTokenCount", "responseTokensDetails")
    };
    let mut usage = json!({
        "promptTokenCount": prompt,
        "totalTokenCount": prompt + response,
        "promptTokensDetails": [{ "modality": "TEXT", "tokenCount": prompt }],
    });
    if response > 0 {
        usage[count] = Value::from(response);
        usage[details] = json!([{ "modality": "AUDIO", "tokenCount": response }]);
    }
    if tally.thought_characters > 0 {
        usage["thoughtsTokenCount"] = Value::from(tally.thought_characters.div_ceil(4));
    }
    if profile.vertex {
        usage["trafficType"] = Value::from("ON_DEMAND");
    }
    usage
}

pub(crate) fn milliseconds_of(samples: usize) -> u64 {
    samples as u64 * 1_000 / RATE_HZ
}

/// Whether a frame is short enough to be sent.
pub(crate) fn fits(frame: &[u8]) -> bool {
    frame.len() <= FRAME_BYTES_MAX
}
