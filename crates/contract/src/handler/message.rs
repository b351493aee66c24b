//! The messages of a handler before it ends, and their size.

use crate::depth::{dismantle, is_too_deep};
use crate::sensitive::Sensitive;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandlerMessage {
    /// `messaging.send`: an object with a `type`, for the client.
    Client(Value),
    /// `audit.log`: a line of the handler's own in the audit.
    Audit { event: String, data: Value },
    /// `events.emit`: for subscribers of the session.
    Emit { name: String, payload: Value },
    /// `progress`: for the client. No model reads it.
    Progress {
        message: String,
        fraction: Option<f64>,
    },
    /// `output`: a piece of the call's later result, for the client. No model reads it.
    Output(Value),
    /// A capability gave the call external content. The call's result counts as external content.
    External,
    /// `callTool`: another tool is to run on behalf of the call. The handler waits for its answer under this number.
    CallTool {
        reply: ReplyNumber,
        tool: Arc<str>,
        arguments: Sensitive<Value>,
    },
}

/// The number of an answer that a handler waits for, unique in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReplyNumber(pub u64);

impl HandlerMessage {
    /// The message, where it is not nested too deep.
    pub fn into_shallow(self) -> Option<Self> {
        let value = match &self {
            Self::Client(value)
            | Self::Output(value)
            | Self::Audit { data: value, .. }
            | Self::Emit { payload: value, .. } => value,
            Self::CallTool { arguments, .. } => arguments.expose(),
            Self::Progress { .. } | Self::External => return Some(self),
        };
        if !is_too_deep(value) {
            return Some(self);
        }
        match self {
            Self::Client(value)
            | Self::Output(value)
            | Self::Audit { data: value, .. }
            | Self::Emit { payload: value, .. }
            | Self::CallTool {
                arguments: Sensitive(value),
                ..
            } => dismantle(value),
            Self::Progress { .. } | Self::External => {}
        }
        None
    }

    /// The bytes that the message takes in memory, approximately.
    pub fn bytes(&self) -> usize {
        let inside = match self {
            Self::Client(value) | Self::Output(value) => value_bytes(value),
            Self::Audit { event: name, data }
            | Self::Emit {
                name,
                payload: data,
            } => name.len() + value_bytes(data),
            Self::Progress { message, .. } => message.len(),
            Self::External => 0,
            Self::CallTool {
                tool, arguments, ..
            } => tool.len() + value_bytes(arguments.expose()),
        };
        size_of::<Self>() + inside
    }
}

fn value_bytes(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(map) => map
            .iter()
            .map(|(key, item)| size_of::<String>() + key.len() + value_bytes(item))
            .sum(),
    };
    size_of::<Value>() + inside
}
