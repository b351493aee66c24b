//! Content of the protocol's messages: revisions, `_meta`, and a server's notifications while it works. Knows no connection.

use crate::worker::wire::{METHOD_NOT_FOUND, RpcError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_contract::characters::steers;
use windlass_contract::handler::Context;

/// The revision without sessions.
pub(super) const STATELESS: &str = "2026-07-28";
/// The revision that is asked for in a handshake.
pub(super) const HANDSHAKE: &str = "2025-11-25";
/// Revisions that a server may answer to [`HANDSHAKE`]: for lists and calls of tools they are the same.
pub(super) const HANDSHAKES: [&str; 4] = [HANDSHAKE, "2025-06-18", "2025-03-26", "2024-11-05"];

/// Characters of a server's text about its progress.
const PROGRESS_CHARACTERS_MAX: usize = 200;

/// Errors of the protocol that say that a request was not carried out: it could not be read, or was none that the server takes.
pub(super) const UNSUPPORTED_VERSION: i32 = -32022;
const NOT_CARRIED_OUT: [i32; 7] = [
    -32700,
    -32600,
    -32601,
    -32602, // JSON-RPC
    -32020,
    -32021, // headers, capabilities
    UNSUPPORTED_VERSION,
];

/// Reads an object of the protocol. A list in its place is none, though serde would take its items for the members.
pub(super) fn object<T: for<'de> Deserialize<'de>>(text: &RawValue) -> Option<T> {
    let text = text.get();
    text.trim_start()
        .starts_with('{')
        .then(|| serde_json::from_str(text).ok())
        .flatten()
}

pub(super) fn is_not_carried_out(code: i32) -> bool {
    NOT_CARRIED_OUT.contains(&code)
}

/// Whether an error is one that only servers of the stateless revision have.
pub(super) fn is_of_stateless(code: i32) -> bool {
    (-32022..=-32020).contains(&code)
}

/// How a server is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Revision {
    /// Each request says everything that it needs.
    Stateless,
    /// After a handshake that settled on this version.
    Handshake(&'static str),
}

impl Revision {
    pub(super) fn version(&self) -> &'static str {
        match self {
            Self::Stateless => STATELESS,
            Self::Handshake(version) => version,
        }
    }

    pub(super) fn meta(&self) -> Meta<'static> {
        match self {
            Self::Stateless => Meta {
                version: Some(STATELESS),
                client: Some(CLIENT),
                capabilities: Some(Capabilities::default()),
                ..Meta::default()
            },
            Self::Handshake(_) => Meta::default(),
        }
    }
}

/// The answer to a server's request: a ping succeeds, and questions to the user are cancelled.
pub(super) fn served(method: &str) -> Result<Value, RpcError> {
    match method {
        "ping" => Ok(json!(Nothing {})),
        // A running call cannot wait as long as a person needs for an answer.
        "elicitation/create" => Ok(json!({ "action": "cancel" })),
        _ => Err(RpcError::new(
            METHOD_NOT_FOUND,
            "this client does not serve that",
        )),
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ClientInfo {
    name: &'static str,
    version: &'static str,
}

pub(super) const CLIENT: ClientInfo = ClientInfo {
    name: "windlass",
    version: env!("CARGO_PKG_VERSION"),
};

/// An empty object: this client can do nothing for a server.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Nothing {}

/// The services that this client offers a server in the course of a request.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Capabilities {
    #[serde(skip_serializing_if = "Option::is_none")]
    elicitation: Option<Elicitation>,
}

/// Its questions to the user, in both forms.
#[derive(Clone, Copy, Debug, Serialize)]
struct Elicitation {
    form: Nothing,
    url: Nothing,
}

impl Capabilities {
    /// With somebody who can be asked.
    pub(super) fn asking() -> Self {
        Self {
            elicitation: Some(Elicitation {
                form: Nothing {},
                url: Nothing {},
            }),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Meta<'a> {
    #[serde(
        rename = "io.modelcontextprotocol/protocolVersion",
        skip_serializing_if = "Option::is_none"
    )]
    version: Option<&'static str>,
    #[serde(
        rename = "io.modelcontextprotocol/clientInfo",
        skip_serializing_if = "Option::is_none"
    )]
    client: Option<ClientInfo>,
    #[serde(
        rename = "io.modelcontextprotocol/clientCapabilities",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) capabilities: Option<Capabilities>,
    #[serde(rename = "progressToken", skip_serializing_if = "Option::is_none")]
    pub(super) progress_token: Option<u64>,
    /// By which a server recognises a change that is asked for again.
    #[serde(
        rename = "dev.windlass/idempotency-key",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) key: Option<&'a str>,
}

/// A server's notification while it works.
pub(super) enum Told {
    Progress(Progress),
    /// The server's list of tools has changed.
    ToolsChanged,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress {
    /// The id of the request.
    progress_token: u64,
    progress: f64,
    #[serde(default)]
    total: Option<f64>,
    #[serde(default)]
    message: Option<String>,
}

/// Reads a notification; `None` of one that means nothing here.
pub(super) fn told(method: &str, params: &RawValue) -> Option<Told> {
    match method {
        "notifications/progress" => object(params).map(Told::Progress),
        "notifications/tools/list_changed" => Some(Told::ToolsChanged),
        _ => None,
    }
}

impl Progress {
    /// The request that it is of.
    pub(super) fn request(&self) -> u64 {
        self.progress_token
    }

    /// Tells the client of the call. Its words are the server's, and no model reads them.
    pub(super) fn tell(&self, context: &Context) {
        let total = self.total.filter(|total| *total > 0.0);
        let fraction = total.map(|total| (self.progress / total).clamp(0.0, 1.0));
        let words = self.message.as_deref().unwrap_or_default();
        let words: String = words
            .chars()
            .filter(|character| !steers(*character))
            .take(PROGRESS_CHARACTERS_MAX)
            .collect();
        let words = match (words.is_empty(), total) {
            (false, _) => words,
            (true, Some(total)) => format!("{} of {total}", self.progress),
            (true, None) => self.progress.to_string(),
        };
        // The call goes on without it.
        let _ = context.progress(words, fraction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(meta: &Meta<'_>, expected: &str) {
        let text = serde_json::to_string(meta).expect("it is JSON");
        assert_eq!(text.replace(env!("CARGO_PKG_VERSION"), "VERSION"), expected);
    }

    #[test]
    fn requests_without_a_session_say_everything_and_others_what_is_new() {
        let mut meta = Revision::Handshake(HANDSHAKE).meta();
        check(&meta, "{}");
        meta.progress_token = Some(7);
        meta.key = Some("k");
        check(
            &meta,
            r#"{"progressToken":7,"dev.windlass/idempotency-key":"k"}"#,
        );
        check(
            &Revision::Stateless.meta(),
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"windlass","version":"VERSION"},"io.modelcontextprotocol/clientCapabilities":{}}"#,
        );
    }

    #[test]
    fn of_what_a_server_tells_little_means_anything() {
        for (method, params, means) in [
            (
                "notifications/progress",
                r#"{"progressToken":3,"progress":1}"#,
                true,
            ),
            (
                "notifications/progress",
                r#"{"progressToken":3,"progress":0.5,"total":2,"message":"half"}"#,
                true,
            ),
            (
                "notifications/progress",
                r#"{"progressToken":"3","progress":1}"#,
                false,
            ),
            ("notifications/progress", "null", false),
            ("notifications/tools/list_changed", "null", true),
            (
                "notifications/message",
                r#"{"level":"info","data":"x"}"#,
                false,
            ),
        ] {
            let params: Box<RawValue> = serde_json::from_str(params).expect("it is JSON");
            assert_eq!(told(method, &params).is_some(), means, "{method} {params}");
        }
    }
}
