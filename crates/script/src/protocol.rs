//! The lines between host and worker: JSON-RPC 2.0, a message a line. Reads the host's messages and writes the worker's; does no
//! IO.

use crate::modules::Modules;
use crate::verdict::Verdict;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;

/// An id as the host wrote it. The worker writes it back unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HostId(String);

impl HostId {
    /// The id of a message that belongs to no call.
    pub(crate) fn none() -> Self {
        Self("null".to_owned())
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A message of the host.
#[derive(Debug)]
pub(crate) enum HostMessage<'a> {
    Load {
        id: HostId,
        load: Load<'a>,
    },
    Judge {
        id: HostId,
        load: Load<'a>,
    },
    Execute {
        id: HostId,
        execute: Execute<'a>,
    },
    Cancel {
        id: HostId,
    },
    Answer {
        id: u64,
        answer: HostAnswer,
    },
    /// A request with an unknown method.
    Unknown {
        id: HostId,
        method: String,
    },
    /// A notification with an unknown method: nothing to do.
    Ignored,
}

/// A tool's sources. `tool` is the host's name for this version of them.
#[derive(Debug, Deserialize)]
pub(crate) struct Load<'a> {
    pub(crate) tool: Cow<'a, str>,
    pub(crate) entry: String,
    pub(crate) modules: Modules,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Execute<'a> {
    pub(crate) tool: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) args: &'a RawValue,
    #[serde(borrow)]
    pub(crate) context: &'a RawValue,
}

/// The host's answer to a request of a call, as JSON text.
#[derive(Debug)]
pub(crate) struct HostAnswer {
    pub(crate) succeeded: bool,
    pub(crate) json: String,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<RpcError<'a>>,
}

#[derive(Deserialize)]
struct RpcError<'a> {
    message: Cow<'a, str>,
    #[serde(default)]
    data: Value,
}

#[derive(Deserialize)]
struct Cancel<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
}

/// Reads one line. `Err` says why it is no line of the protocol.
pub(crate) fn read(line: &str) -> Result<HostMessage<'_>, serde_json::Error> {
    let line: Line<'_> = serde_json::from_str(line)?;
    let host_id = |id: &RawValue| HostId(id.get().to_owned());
    let params = line.params.map_or("null", RawValue::get);
    Ok(match (line.method.as_deref(), line.id) {
        (Some("execute"), Some(id)) => HostMessage::Execute {
            id: host_id(id),
            execute: serde_json::from_str(params)?,
        },
        (Some("load"), Some(id)) => HostMessage::Load {
            id: host_id(id),
            load: serde_json::from_str(params)?,
        },
        (Some("judge"), Some(id)) => HostMessage::Judge {
            id: host_id(id),
            load: serde_json::from_str(params)?,
        },
        (Some("$/cancel"), None) => HostMessage::Cancel {
            id: host_id(serde_json::from_str::<Cancel<'_>>(params)?.id),
        },
        (Some(method), Some(id)) => HostMessage::Unknown {
            id: host_id(id),
            method: method.to_owned(),
        },
        (Some(_), None) | (None, None) => HostMessage::Ignored,
        (None, Some(id)) => HostMessage::Answer {
            id: serde_json::from_str(id.get())?,
            answer: match line.error {
                None => HostAnswer {
                    succeeded: true,
                    json: line.result.map_or("null", RawValue::get).to_owned(),
                },
                Some(error) => HostAnswer {
                    succeeded: false,
                    json: failure(&error),
                },
            },
        },
    })
}

/// An error as the script catches it: the message, and the facts that came with it.
fn failure(error: &RpcError<'_>) -> String {
    let mut object = match &error.data {
        Value::Object(facts) => facts.clone(),
        _ => serde_json::Map::new(),
    };
    object.insert("message".to_owned(), json!(error.message));
    Value::Object(object).to_string()
}

/// The reason why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallFault {
    /// The handler broke, and the message says where.
    Broken,
    /// The call was stopped: by its deadline, or because it computed too long.
    Stopped,
    /// The worker does not have the tool, or no room for another call.
    Refused,
}

impl CallFault {
    fn code(self) -> i32 {
        match self {
            Self::Broken => -32_000,
            Self::Stopped => -32_001,
            Self::Refused => -32_002,
        }
    }
}

const METHOD_NOT_FOUND: i32 = -32_601;

/// A request of a call, or without an id a notification. The parameters are an object's JSON text, into which the call's id is
/// written.
pub(crate) fn of_call(id: Option<u64>, method: &str, call: &HostId, parameters: &str) -> String {
    let members = parameters.trim_start().strip_prefix('{').unwrap_or("}");
    let comma = match members.trim_start().starts_with('}') {
        true => "",
        false => ",",
    };
    let id = id.map_or_else(String::new, |id| format!("\"id\":{id},"));
    let method = Value::from(method);
    format!(
        "{{\"jsonrpc\":\"2.0\",{id}\"method\":{method},\"params\":{{\"call\":{call}{comma}{members}}}\n"
    )
}

/// The answer to a call. `response` is JSON text.
pub(crate) fn answered(id: &HostId, response: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{response}}}\n")
}

pub(crate) fn refused(id: &HostId, fault: CallFault, message: &str) -> String {
    error_line(id, fault.code(), message)
}

pub(crate) fn unknown_method(id: &HostId, method: &str) -> String {
    error_line(
        id,
        METHOD_NOT_FOUND,
        &format!("there is no method {method}"),
    )
}

fn error_line(id: &HostId, code: i32, message: &str) -> String {
    let error = json!({"code": code, "message": message});
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}\n")
}

pub(crate) fn verdict(id: &HostId, verdict: &Verdict) -> String {
    let verdict = serde_json::to_string(verdict).expect("a verdict is plain JSON");
    answered(id, &verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_its_call_beside_what_the_script_says() {
        let call = HostId("7".to_owned());
        assert_eq!(
            of_call(Some(9), "kb.get", &call, r#"{"id":"a"}"#),
            "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"kb.get\",\"params\":{\"call\":7,\"id\":\"a\"}}\n"
        );
        assert_eq!(
            of_call(None, "progress", &call, "{}"),
            "{\"jsonrpc\":\"2.0\",\"method\":\"progress\",\"params\":{\"call\":7}}\n"
        );
        assert_eq!(
            of_call(None, "progress", &call, "[1]"),
            "{\"jsonrpc\":\"2.0\",\"method\":\"progress\",\"params\":{\"call\":7}}\n"
        );
    }

    #[test]
    fn lines_that_are_none_of_the_protocol_are_refused() {
        for line in [
            "",
            "x",
            "[]",
            r#"{"id":1,"method":"execute"}"#,
            r#"{"id":"x","result":1}"#,
        ] {
            assert!(read(line).is_err(), "{line}");
        }
        assert!(matches!(
            read(r#"{"method":"other"}"#),
            Ok(HostMessage::Ignored)
        ));
        assert!(matches!(
            read(r#"{"id":1,"method":"other"}"#),
            Ok(HostMessage::Unknown { .. })
        ));
    }
}
