//! The frame that answers calls, written as text in one go, because it is written for every call. Knows the shape that the
//! service reads; the projection has settled the contents of a result.

use crate::projection::{key_of, note};
use serde_json::Value;
use windlass_contract::envelope::ProjectionBody;
use windlass_contract::json::write_string as write_text;
use windlass_contract::kind::Scheduling;
use windlass_session::model::{ModelProfile, ModelToolResponse};

/// A response without a name is taken for a failed call.
const NAMELESS: &str = "unnamed_tool";
/// Room for most answers, so that they are not moved while they grow.
const FRAME_BYTES: usize = 1_024;

pub(super) fn tool_responses(responses: &[ModelToolResponse], profile: &ModelProfile) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_BYTES);
    frame.extend_from_slice(br#"{"toolResponse":{"functionResponses":["#);
    for (index, response) in responses.iter().enumerate() {
        if index > 0 {
            frame.push(b',');
        }
        write_response(response, profile, &mut frame);
    }
    frame.extend_from_slice(b"]}}");
    frame
}

/// The JSON of one result that the model reads.
pub(super) fn body(response: &ModelToolResponse) -> String {
    let mut bytes = vec![b'{'];
    write_body(&response.projection.body, &mut bytes);
    bytes.push(b'}');
    String::from_utf8(bytes).expect("JSON that is written from text is text")
}

fn write_response(response: &ModelToolResponse, profile: &ModelProfile, frame: &mut Vec<u8>) {
    frame.push(b'{');
    if let Some(id) = &response.id {
        frame.extend_from_slice(br#""id":"#);
        write_text(id, frame);
        frame.push(b',');
    }
    frame.extend_from_slice(br#""name":"#);
    let name = if response.name.is_empty() {
        NAMELESS
    } else {
        &response.name
    };
    write_text(name, frame);
    frame.extend_from_slice(br#","response":{"#);
    write_body(&response.projection.body, frame);
    frame.push(b'}');
    if let Some(scheduling) = response.scheduling.filter(|_| profile.scheduling) {
        frame.extend_from_slice(br#","scheduling":"#);
        write_text(scheduling_name(scheduling), frame);
    }
    frame.push(b'}');
}

/// The JSON that the model reads: the service takes `output` for a result and `error` for a failure. Pictures stay with the
/// client: whether Live models take them in a result is not known.
fn write_body(body: &ProjectionBody, frame: &mut Vec<u8>) {
    match body {
        ProjectionBody::Success {
            data,
            content: _,
            cut,
            quoted,
        } => {
            frame.extend_from_slice(br#""output":{"status":"success""#);
            if let Some(data) = data {
                frame.extend_from_slice(br#","data":"#);
                match data.bytes_without_dollars() {
                    Some(bytes) => frame.extend_from_slice(bytes),
                    None => write_data(data, frame),
                }
            }
            if let Some(note) = note(cut.as_deref(), *quoted && data.is_some()) {
                frame.extend_from_slice(br#","note":"#);
                write_text(&note, frame);
            }
        }
        ProjectionBody::Failure {
            error_type,
            message,
            retryable,
            suggestion,
        } => {
            frame.extend_from_slice(br#""error":{"type":"#);
            write_text(error_type.code(), frame);
            frame.extend_from_slice(br#","message":"#);
            write_text(message, frame);
            frame.extend_from_slice(if *retryable {
                br#","retryable":true,"suggestion":"#
            } else {
                br#","retryable":false,"suggestion":"#
            });
            write_text(suggestion, frame);
        }
    }
    frame.push(b'}');
}

fn scheduling_name(scheduling: Scheduling) -> &'static str {
    match scheduling {
        Scheduling::Interrupt => "INTERRUPT",
        Scheduling::WhenIdle => "WHEN_IDLE",
        Scheduling::Silent => "SILENT",
    }
}

/// A value with the keys `$ref` and `$defs` under other names: the service has taken them for its own references inside
/// responses, and refused the message.
fn write_data(value: &Value, frame: &mut Vec<u8>) {
    match value {
        Value::String(text) => write_text(text, frame),
        Value::Array(items) => {
            frame.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    frame.push(b',');
                }
                write_data(item, frame);
            }
            frame.push(b']');
        }
        Value::Object(map) => {
            frame.push(b'{');
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    frame.push(b',');
                }
                write_text(&key_of(key, map), frame);
                frame.push(b':');
                write_data(item, frame);
            }
            frame.push(b'}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            serde_json::to_writer(frame, value).expect("a scalar always serializes into memory");
        }
    }
}
