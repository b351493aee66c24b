//! Messages of MCP clients, as they come: JSON-RPC 2.0, one at a time. Whatever the bytes are, what comes out is a message or the error
//! that answers them. Knows no method and no connection.

use super::reply::{Failure, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR};
use serde_json::{Map, Value};
use windlass_contract::json;

/// The revision without sessions.
pub(crate) const STATELESS: &str = "2026-07-28";
/// Revisions that begin with a handshake, the newest first. 2025-03-26 is left out: it has batches, which are not taken here.
pub(crate) const HANDSHAKES: [&str; 2] = ["2025-11-25", "2025-06-18"];
/// Members of `_meta` in a request of the stateless revision.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The member by which a client names a change that it may ask for again.
const KEY: &str = "dev.windlass/idempotency-key";
/// The extension by which a call is answered with the handle of a task.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Bytes of an id, of a token of progress, and of a key.
const NAME_BYTES_MAX: usize = 256;
/// Bytes of a method's name.
const METHOD_BYTES_MAX: usize = 128;

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    Request(Request),
    Notification(Notification),
    /// The answer to something that this server has asked.
    Answer(Answer),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
    pub(crate) meta: Meta,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notification {
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) id: RequestId,
    /// `None` where the client answers with an error.
    pub(crate) result: Option<Map<String, Value>>,
}

/// The client's id of its request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RequestId {
    Number(i64),
    Text(String),
}

/// The `_meta` of a request, beside its parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Meta {
    pub(crate) version: Option<String>,
    /// `None` if the client does not name its capabilities.
    pub(crate) capabilities: Option<ClientCapabilities>,
    pub(crate) progress: Option<RequestId>,
    pub(crate) key: Option<String>,
}

/// The capabilities of a client that this server uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientCapabilities {
    pub(crate) elicitation: Elicitation,
    /// Whether it takes the handle of a task in place of a result.
    pub(crate) tasks: bool,
}

/// In which ways a client can ask its user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elicitation {
    pub(crate) form: bool,
    pub(crate) url: bool,
}

impl RequestId {
    pub(crate) fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => number.as_i64().map(Self::Number),
            Value::String(text) if text.len() <= NAME_BYTES_MAX => Some(Self::Text(text.clone())),
            _ => None,
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Number(number) => (*number).into(),
            Self::Text(text) => text.as_str().into(),
        }
    }
}

impl ClientCapabilities {
    /// Reads what a request of the stateless revision says of its client.
    fn of(capabilities: &Value) -> Self {
        let extensions = capabilities.get("extensions");
        let tasks = extensions.and_then(|extensions| extensions.get(TASKS));
        Self {
            elicitation: Elicitation::of(capabilities),
            tasks: tasks.is_some_and(Value::is_object),
        }
    }
}

impl From<Elicitation> for ClientCapabilities {
    /// The capabilities of a client with a handshake: it does not know the extension.
    fn from(elicitation: Elicitation) -> Self {
        Self {
            elicitation,
            tasks: false,
        }
    }
}

impl Elicitation {
    /// Reads the capabilities of a client. An empty `elicitation` means forms.
    pub(crate) fn of(capabilities: &Value) -> Self {
        match capabilities.get("elicitation") {
            Some(Value::Object(ways)) if ways.is_empty() => Self {
                form: true,
                url: false,
            },
            Some(Value::Object(ways)) => Self {
                form: ways.get("form").is_some_and(Value::is_object),
                url: ways.get("url").is_some_and(Value::is_object),
            },
            _ => Self::default(),
        }
    }
}

impl Meta {
    fn read(params: &Map<String, Value>) -> Result<Self, &'static str> {
        let meta = match params.get("_meta") {
            None => return Ok(Self::default()),
            Some(Value::Object(meta)) => meta,
            Some(_) => return Err("_meta is no object"),
        };
        let version = match meta.get(VERSION) {
            None => None,
            Some(Value::String(version)) if version.len() <= NAME_BYTES_MAX => {
                Some(version.clone())
            }
            Some(_) => return Err("the version of the protocol in _meta is no short text"),
        };
        let progress = match meta.get("progressToken") {
            None => None,
            Some(token) => Some(
                RequestId::read(token)
                    .ok_or("progressToken is no whole number and no short text")?,
            ),
        };
        let capabilities = match meta.get(CAPABILITIES) {
            None => None,
            Some(capabilities @ Value::Object(_)) => Some(ClientCapabilities::of(capabilities)),
            Some(_) => return Err("the client's capabilities in _meta are no object"),
        };
        let key = match meta.get(KEY) {
            None => None,
            Some(Value::String(key)) if (1..=NAME_BYTES_MAX).contains(&key.len()) => {
                Some(key.clone())
            }
            Some(_) => return Err("dev.windlass/idempotency-key must have 1 to 256 bytes"),
        };
        Ok(Self {
            version,
            capabilities,
            progress,
            key,
        })
    }
}

impl Request {
    /// The capabilities of the client of a stateless request. Each such request has to name them.
    ///
    /// # Errors
    ///
    /// The answer to a client that does not name them.
    pub(crate) fn declared(&self) -> Result<ClientCapabilities, Failure> {
        self.meta.capabilities.ok_or_else(|| {
            Failure::params("_meta has to name io.modelcontextprotocol/clientCapabilities")
        })
    }
}

/// Reads a message.
///
/// # Errors
///
/// The answer to a client whose message cannot be read as one.
pub(crate) fn read(bytes: &[u8]) -> Result<Message, Failure> {
    let message = match json::parse(bytes) {
        Ok(Value::Object(message)) => message,
        Ok(Value::Array(_)) => {
            return Err(Failure::new(
                INVALID_REQUEST,
                "send one message at a time: batches are not taken",
            ));
        }
        Ok(_) => return Err(Failure::new(INVALID_REQUEST, "a message is an object")),
        Err(error) => {
            let problem = format!("the message is no JSON: {error}");
            return Err(Failure::new(PARSE_ERROR, problem));
        }
    };
    read_object(message)
}

fn read_object(mut message: Map<String, Value>) -> Result<Message, Failure> {
    let id = match message.get("id") {
        None => None,
        Some(id) => Some(RequestId::read(id).ok_or_else(|| {
            Failure::new(
                INVALID_REQUEST,
                "an id is a whole number, or a text of at most 256 bytes",
            )
        })?),
    };
    let refuse = |code, problem: &str| Failure {
        id: id.clone(),
        ..Failure::new(code, problem)
    };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(refuse(INVALID_REQUEST, "jsonrpc must be \"2.0\""));
    }
    let method = match message.remove("method") {
        None => return read_answer(message, id),
        Some(Value::String(method)) if method.len() <= METHOD_BYTES_MAX => method,
        Some(_) => return Err(refuse(INVALID_REQUEST, "method is no short text")),
    };
    let params = match message.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err(refuse(INVALID_PARAMS, "params is no object")),
    };
    let Some(id) = id else {
        return Ok(Message::Notification(Notification { method, params }));
    };
    let meta = Meta::read(&params).map_err(|problem| Failure {
        id: Some(id.clone()),
        ..Failure::new(INVALID_PARAMS, problem)
    })?;
    Ok(Message::Request(Request {
        id,
        method,
        params,
        meta,
    }))
}

fn read_answer(mut message: Map<String, Value>, id: Option<RequestId>) -> Result<Message, Failure> {
    let none = || {
        Failure::new(
            INVALID_REQUEST,
            "the message has no method and answers nothing",
        )
    };
    let id = id.ok_or_else(none)?;
    let result = match (message.remove("result"), message.contains_key("error")) {
        (Some(Value::Object(result)), false) => Some(result),
        (None, true) => None,
        _ => return Err(none()),
    };
    Ok(Message::Answer(Answer { id, result }))
}

/// Whether some client could mean this by it: for the fuzzer, and for programs that check a message beforehand.
pub(crate) fn understands(bytes: &[u8]) -> bool {
    read(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let read = match read(text.as_bytes()) {
            Ok(Message::Request(request)) => {
                format!(
                    "{:?} {} {}",
                    request.id,
                    request.method,
                    request.params.len()
                )
            }
            Ok(Message::Notification(said)) => format!("says {}", said.method),
            Ok(Message::Answer(answer)) => {
                format!("answers {:?} {}", answer.id, answer.result.is_some())
            }
            Err(failure) => format!("{} {:?}", failure.code, failure.id),
        };
        assert_eq!(read, expected, "{text}");
    }

    #[test]
    fn a_message_is_read_or_answered_with_the_error_of_the_protocol() {
        for (text, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
                "Number(1) ping 0",
            ),
            (
                r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":1}}"#,
                "Text(\"a\") ping 1",
            ),
            (r#"{"jsonrpc":"2.0","method":"m"}"#, "says m"),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
                "answers Number(1) true",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#,
                "answers Number(1) false",
            ),
            ("{", "-32700 None"),
            (
                r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
                "-32700 None",
            ),
            ("[]", "-32600 None"),
            ("1", "-32600 None"),
            (r#"{"id":1,"method":"m"}"#, "-32600 Some(Number(1))"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, "-32600 None"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":2}"#,
                "-32600 Some(Number(1))",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[]}"#,
                "-32602 Some(Number(1))",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":1}}"#,
                "-32602 Some(Number(1))",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":1}}}"#,
                "-32602 Some(Number(1))",
            ),
            (r#"{"jsonrpc":"2.0","id":1}"#, "-32600 None"),
            (r#"{"jsonrpc":"2.0","result":{}}"#, "-32600 None"),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
                "-32600 None",
            ),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn a_client_says_whether_it_takes_tasks() {
        for (capabilities, expected) in [
            (r#"{}"#, false),
            (r#"{"tasks":{}}"#, false),
            (r#"{"extensions":{}}"#, false),
            (r#"{"extensions":[]}"#, false),
            (
                r#"{"extensions":{"io.modelcontextprotocol/tasks":true}}"#,
                false,
            ),
            (
                r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
                true,
            ),
        ] {
            let value: Value = serde_json::from_str(capabilities).unwrap();
            assert_eq!(
                ClientCapabilities::of(&value).tasks,
                expected,
                "{capabilities}"
            );
        }
    }

    #[test]
    fn a_client_says_in_which_ways_it_can_ask() {
        for (capabilities, form, url) in [
            (r#"{}"#, false, false),
            (r#"{"elicitation":true}"#, false, false),
            (r#"{"elicitation":{}}"#, true, false),
            (r#"{"elicitation":{"form":{}}}"#, true, false),
            (r#"{"elicitation":{"url":{}}}"#, false, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true, true),
        ] {
            let value: Value = serde_json::from_str(capabilities).unwrap();
            assert_eq!(
                Elicitation::of(&value),
                Elicitation { form, url },
                "{capabilities}"
            );
        }
    }
}
