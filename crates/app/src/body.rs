//! Reads the JSON object that a request's body has to be, and names the problem of another body. Knows no field.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Why a body is of no use. The text is for the client's developer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadRequest(pub(crate) String);

/// Reads a body.
///
/// # Errors
///
/// The body is no such object. The text says what it is instead, for the client's developer.
pub(crate) fn object<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    let said = |error: serde_json::Error| error.to_string();
    match body.trim_ascii_start().first() {
        None => Err("it is empty".to_owned()),
        Some(b'{') => serde_json::from_slice(body).map_err(said),
        // A list would pass for an object whose fields come in their order.
        Some(_) => match serde_json::from_slice::<IgnoredAny>(body) {
            Ok(_) => Err("it is JSON, but no object".to_owned()),
            Err(error) => Err(said(error)),
        },
    }
}
