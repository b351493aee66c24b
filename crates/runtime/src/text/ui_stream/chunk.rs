//! The pieces of the stream, as JSON. Knows nothing of a turn.

use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use windlass_contract::arguments::Arguments;

#[derive(Serialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub(super) enum Chunk<'a> {
    Start {
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<&'a str>,
    },
    StartStep,
    FinishStep,
    TextStart {
        id: &'a str,
    },
    TextEnd {
        id: &'a str,
    },
    ToolInputAvailable {
        tool_call_id: &'a str,
        tool_name: &'a str,
        input: Cow<'a, Arguments>,
        dynamic: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    ToolOutputAvailable {
        tool_call_id: &'a str,
        output: &'a Value,
        dynamic: bool,
        /// Whether this is a piece of the result, before the whole.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        preliminary: bool,
    },
    ToolOutputDenied {
        tool_call_id: &'a str,
    },
    ToolApprovalRequest {
        approval_id: &'a str,
        tool_call_id: &'a str,
    },
    ToolOutputError {
        tool_call_id: &'a str,
        error_text: String,
        dynamic: bool,
    },
    SourceUrl {
        source_id: &'a str,
        url: &'a str,
        title: &'a str,
    },
    SourceDocument {
        source_id: &'a str,
        media_type: &'a str,
        title: &'a str,
    },
    File {
        url: &'a str,
        media_type: &'a str,
    },
    Error {
        error_text: &'a str,
    },
    Abort,
    Finish {
        finish_reason: &'a str,
        message_metadata: Value,
    },
}

/// Adds a piece as an event.
pub(super) fn write_event(bytes: &mut Vec<u8>, chunk: &impl Serialize) {
    bytes.extend_from_slice(b"data: ");
    serde_json::to_writer(&mut *bytes, chunk)
        .expect("chunks hold no map with keys other than strings, and memory takes them");
    bytes.extend_from_slice(b"\n\n");
}
