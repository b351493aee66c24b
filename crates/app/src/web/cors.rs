//! Pages of other origins: the requests that they may send, and the parts of answers that a browser lets them read. Knows no route;
//! another module decides which origins may ask at all.

use axum::body::Body;
use axum::extract::Request;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

const METHODS: &str = "GET, POST, PATCH, DELETE";
/// The headers that a page may send if it does not ask for a header by name.
const SENT_HEADERS: &str = "content-type, authorization, idempotency-key, x-windlass-client";
/// The headers of an answer that it may read, beside those that every page may.
const READ_HEADERS: &str =
    "x-windlass-conversation, x-windlass-client, mcp-session-id, retry-after, content-disposition";

/// Lets the page of this origin read an answer. A refused page may read the refusal, too: it says nothing of a client.
pub(super) fn share(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    for (name, value) in [
        (ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
        (ACCESS_CONTROL_EXPOSE_HEADERS, READ_HEADERS),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.append(VARY, HeaderValue::from_static("Origin"));
}

/// Whether a browser asks for a page before that may send its request.
pub(super) fn is_preflight(request: &Request) -> bool {
    let headers = request.headers();
    request.method() == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// A page may send any headers: the SDKs have many of their own.
pub(super) fn preflight(asked: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let wanted = asked.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let usual = HeaderValue::from_static(SENT_HEADERS);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.unwrap_or(usual));
    let methods = HeaderValue::from_static(METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}
