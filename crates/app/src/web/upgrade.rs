//! The server's side of an upgrade to WebSocket: the request's headers, and the answer. Knows nothing of who may connect.

use super::patience::PatientStream;
use axum::body::Body;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The protocol of voice sessions.
const PROTOCOL: &str = "windlass";

/// The value of the header that accepts the upgrade; `Err` names the part that the request lacks.
pub(crate) fn accept(headers: &HeaderMap) -> Result<HeaderValue, &'static str> {
    if !has_token(headers, &UPGRADE, "websocket") || !has_token(headers, &CONNECTION, "upgrade") {
        return Err("this address speaks WebSocket; ask for an upgrade");
    }
    if headers
        .get(SEC_WEBSOCKET_VERSION)
        .is_none_or(|version| version != "13")
    {
        return Err("only version 13 of WebSocket is spoken here");
    }
    let key = headers
        .get(SEC_WEBSOCKET_KEY)
        .filter(|key| key.len() == 24)
        .ok_or("the request has no Sec-WebSocket-Key, or not one of 24 characters")?;
    HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
        .map_err(|_| "the request's Sec-WebSocket-Key cannot be answered")
}

/// The protocol that is spoken, where the client offers it. A browser that offers some has to be answered with one of them.
pub(crate) fn protocol(headers: &HeaderMap) -> Option<HeaderValue> {
    has_token(headers, &SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
        .then(|| HeaderValue::from_static(PROTOCOL))
}

fn has_token(headers: &HeaderMap, name: &http::HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|value| value.trim().eq_ignore_ascii_case(token))
}

/// The answer with which the connection stops being HTTP.
pub(crate) fn switching(accept: HeaderValue) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    response
}

/// The socket beneath a request, once the answer has changed the protocol, and the bytes that were read of it already; `None` where the
/// connection ended before.
pub(crate) async fn socket(upgrading: OnUpgrade) -> Option<(TcpStream, Vec<u8>)> {
    let upgraded = upgrading.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<PatientStream>>().ok()?;
    let stream = parts.io.into_inner().into_inner();
    Some((stream, parts.read_buf.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [(&str, &str); 4] = [
        ("upgrade", "WebSocket"),
        ("connection", "keep-alive, Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    fn accepted(headers: &[(&'static str, &'static str)]) -> Result<HeaderValue, &'static str> {
        accept(
            &headers
                .iter()
                .map(|(name, value)| {
                    (
                        http::HeaderName::from_static(name),
                        HeaderValue::from_static(value),
                    )
                })
                .collect(),
        )
    }

    #[test]
    fn an_upgrade_needs_all_its_headers() {
        // The example of RFC 6455, section 1.3.
        assert_eq!(accepted(&GOOD).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        for (missing, header) in GOOD.iter().enumerate() {
            let mut headers = GOOD.to_vec();
            headers.remove(missing);
            assert!(accepted(&headers).is_err(), "without {header:?}");
        }
    }
}
