//! What a client of MCP sends to a server over HTTP, in the revision without sessions, and what it reads. Knows no rule that is tested.

use super::http::{HttpAnswer, post_with};
use serde_json::{Value, json};

pub(crate) const STATELESS: &str = "2026-07-28";
pub(crate) const EVENTS: &str = "application/json, text/event-stream";

pub(crate) type Headers<'a> = &'a [(&'a str, &'a str)];

/// A request of the stateless revision. `capabilities` are those of the client.
pub(crate) fn message(id: u64, method: &str, mut params: Value, capabilities: &Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = STATELESS.into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// The message in an answer, whether it came as a stream or not.
pub(crate) fn read(answer: &HttpAnswer) -> Value {
    let last = answer
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .next_back();
    let text = last.unwrap_or(&answer.body);
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{} {}", answer.status, answer.body))
}

pub(crate) fn post(address: &str, headers: Headers<'_>, body: &Value) -> HttpAnswer {
    let usual = [("Content-Type", "application/json"), ("Accept", EVENTS)];
    let headers = [&usual, headers].concat();
    post_with(address, "/mcp", &headers, body.to_string().as_bytes())
}

/// Sends a request of the stateless revision under the headers that belong to it.
pub(crate) fn send(address: &str, headers: Headers<'_>, body: &Value) -> HttpAnswer {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (method, params) = (text(&body["method"]), &body["params"]);
    let name = match method.as_str() {
        "resources/read" => text(&params["uri"]),
        "tasks/get" | "tasks/update" | "tasks/cancel" => text(&params["taskId"]),
        _ => text(&params["name"]),
    };
    let mut own = vec![
        ("MCP-Protocol-Version", STATELESS),
        ("Mcp-Method", &*method),
    ];
    own.extend((!name.is_empty()).then_some(("Mcp-Name", &*name)));
    post(address, &[&own, headers].concat(), body)
}
