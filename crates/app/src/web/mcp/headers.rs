//! The headers of a message, and whether they say the same as its body: who stands between client and server may have gone by them. Pure.

use crate::mcp::message::{ClientCapabilities, Request, STATELESS};
use crate::mcp::reply::{Failure, HEADER_MISMATCH};
use crate::mcp::unsupported;
use base64_simd::STANDARD;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use serde_json::Value;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The value of a header that may be there once.
pub(super) fn only<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h str>, &'static str> {
    const ODD: &str = "a header is there more than once, or cannot be read";
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value
            .to_str()
            .map(|value| Some(value.trim()))
            .map_err(|_| ODD),
        (Some(_), Some(_)) => Err(ODD),
    }
}

/// The version of the protocol that the head names.
pub(super) fn version(headers: &HeaderMap) -> Result<Option<&str>, &'static str> {
    only(headers, &VERSION)
}

/// Whether the head declares a body of JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let kind = only(headers, &CONTENT_TYPE)
        .ok()
        .flatten()
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// Whether the client reads a stream of events.
pub(super) fn takes_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|kind| kind.split(';').next().unwrap_or_default().trim())
        .any(|kind| kind.eq_ignore_ascii_case("text/event-stream"))
}

/// Judges the head of a request of the stateless revision by its body, and the required parts of the body. `version` is the version in the
/// head. Returns what the client can do.
pub(super) fn check(
    headers: &HeaderMap,
    version: Option<&str>,
    request: &Request,
) -> Result<ClientCapabilities, Failure> {
    let mismatch = |what: &str| Failure::new(HEADER_MISMATCH, what);
    let said = request.meta.version.as_deref().ok_or_else(|| {
        Failure::params("_meta has to name io.modelcontextprotocol/protocolVersion")
    })?;
    if version != Some(said) {
        return Err(mismatch(
            "MCP-Protocol-Version has to name the version that _meta names",
        ));
    }
    if said != STATELESS {
        return Err(unsupported(said));
    }
    let client = request.declared()?;
    let method = only(headers, &METHOD).map_err(mismatch)?;
    if method != Some(request.method.as_str()) {
        return Err(mismatch("Mcp-Method has to name the method of the body"));
    }
    let named = match request.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return Ok(client),
    };
    let named = request.params.get(named).and_then(Value::as_str);
    let name = only(headers, &NAME).map_err(mismatch)?.map(decoded);
    let is_same = match (name, named) {
        (Some(Some(name)), Some(named)) => name == named,
        // If the body names nothing, the method itself reports the missing name.
        (None, None) => true,
        _ => false,
    };
    match is_same {
        true => Ok(client),
        false => Err(mismatch("Mcp-Name has to name what the body names")),
    }
}

/// The meaning of a value: text that a header cannot carry comes in base64.
fn decoded(value: &str) -> Option<String> {
    let encoded = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        None => Some(value.to_owned()),
        Some(encoded) => {
            let bytes = STANDARD.decode_to_vec(encoded.as_bytes()).ok()?;
            String::from_utf8(bytes).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::message::{Message, read};
    use http::HeaderValue;

    const SAYS_VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    const SAYS_CAPABILITIES: &str = r#""io.modelcontextprotocol/clientCapabilities":{}"#;

    fn check_head(head: &[(&'static str, &str)], method: &str, params: &str) -> Option<i32> {
        let meta = format!("{SAYS_VERSION},{SAYS_CAPABILITIES}");
        check_request(head, method, &format!(r#"{params}"_meta":{{{meta}}}"#))
    }

    fn check_request(head: &[(&'static str, &str)], method: &str, params: &str) -> Option<i32> {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#);
        let body = match method {
            "old" => body.replace(STATELESS, "1900-01-01"),
            _ => body,
        };
        let Ok(Message::Request(request)) = read(body.as_bytes()) else {
            panic!("{body} is no request");
        };
        let mut headers = HeaderMap::new();
        for (name, value) in head {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let version = version(&headers).unwrap_or_default();
        check(&headers, version, &request)
            .err()
            .map(|failure| failure.code)
    }

    #[test]
    fn a_request_says_what_its_client_speaks_and_can() {
        let head = [
            ("mcp-protocol-version", STATELESS),
            ("mcp-method", "tools/list"),
        ];
        let capabilities = |value: &str| SAYS_CAPABILITIES.replace("{}", value);
        for (params, expected) in [
            (String::new(), Some(-32602)),
            (r#""_meta":{}"#.to_owned(), Some(-32602)),
            (format!(r#""_meta":{{{SAYS_CAPABILITIES}}}"#), Some(-32602)),
            (format!(r#""_meta":{{{SAYS_VERSION}}}"#), Some(-32602)),
            (
                format!(r#""_meta":{{{SAYS_VERSION},{SAYS_CAPABILITIES}}}"#),
                None,
            ),
            (
                format!(
                    r#""_meta":{{{SAYS_VERSION},{}}}"#,
                    capabilities(r#"{"elicitation":{}}"#)
                ),
                None,
            ),
        ] {
            assert_eq!(
                check_request(&head, "tools/list", &params),
                expected,
                "{params}"
            );
        }
        // A request without `_meta` is refused for that, before its head is judged.
        assert_eq!(check_request(&head[..1], "tools/list", ""), Some(-32602));
    }

    #[test]
    fn a_head_says_what_the_body_says_or_the_request_is_refused() {
        let version = ("mcp-protocol-version", STATELESS);
        let call = ("mcp-method", "tools/call");
        let named = r#""name":"say","#;
        let (get, task) = (("mcp-method", "tasks/get"), r#""taskId":"e-1","#);
        for (head, method, params, expected) in [
            (&[version, ("mcp-method", "ping")][..], "ping", "", None),
            (&[("mcp-method", "ping")], "ping", "", Some(-32020)),
            (&[version], "ping", "", Some(-32020)),
            (&[version, ("mcp-method", "Ping")], "ping", "", Some(-32020)),
            (
                &[
                    ("mcp-protocol-version", "2025-11-25"),
                    ("mcp-method", "ping"),
                ],
                "ping",
                "",
                Some(-32020),
            ),
            (
                &[
                    ("mcp-protocol-version", "1900-01-01"),
                    ("mcp-method", "old"),
                ],
                "old",
                "",
                Some(-32022),
            ),
            (
                &[version, call, ("mcp-name", "say")],
                "tools/call",
                named,
                None,
            ),
            (&[version, call], "tools/call", named, Some(-32020)),
            (
                &[version, call, ("mcp-name", "pay")],
                "tools/call",
                named,
                Some(-32020),
            ),
            (
                &[version, call, ("mcp-name", "say"), ("mcp-name", "say")],
                "tools/call",
                named,
                Some(-32020),
            ),
            (
                &[version, call, ("mcp-name", "=?base64?c2F5?=")],
                "tools/call",
                named,
                None,
            ),
            (
                &[version, call, ("mcp-name", "=?base64?%%?=")],
                "tools/call",
                named,
                Some(-32020),
            ),
            (&[version, call], "tools/call", "", None),
            (
                &[version, get, ("mcp-name", "e-1")],
                "tasks/get",
                task,
                None,
            ),
            (&[version, get], "tasks/get", task, Some(-32020)),
            (
                &[version, get, ("mcp-name", "e-2")],
                "tasks/get",
                task,
                Some(-32020),
            ),
        ] {
            assert_eq!(
                check_head(head, method, params),
                expected,
                "{head:?} {params}"
            );
        }
    }
}
