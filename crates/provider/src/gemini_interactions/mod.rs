//! Gemini's Interactions over HTTP: one request per answer, its body from a window of the conversation's log, its stream or body
//! back into events and an answer. Nothing is stored at the service: the log is the conversation, and holds the data that the
//! service wants back unread (thoughts, its own tools' steps). Does no IO and decides nothing.
//!
//! A driver makes the body with [`encode_request`] and posts it to [`PATH`] below the version, as in
//! `https://generativelanguage.googleapis.com/v1beta/interactions`, with the header [`REVISION`]. A body of status 200 goes to a
//! [`Decoder`]. Another status goes through [`gemini_text::failure`] and [`blocked`].
//!
//! The facts are of <https://ai.google.dev/gemini-api/docs/interactions-overview>, its pages on streaming, thinking, function
//! calling and errors, and of the types in google-genai 3.4.0.
//!
//! [`gemini_text::failure`]: crate::gemini_text::failure

mod decode;
mod request;
mod step;
mod tools;

pub use decode::{Decoder, decode_whole};
pub use request::{Request, encode_request};
pub use tools::DeclaredTools;

use crate::answer::Ending;
use crate::failure::Failure;

/// The path of every request below the version.
pub const PATH: &str = "/interactions";
/// The header that asks for the revision whose shapes this codec speaks, and its value.
pub const REVISION: (&str, &str) = ("api-revision", "2026-05-20");

/// The error code for words that the service refuses to read or to show.
const CONTENT_BLOCKED: &str = "content_blocked";

/// The ending of a failure in which the service refused the words, not the request.
pub fn blocked(failure: &Failure) -> Option<Ending> {
    let code = failure.code.as_deref()?;
    (code == CONTENT_BLOCKED).then(|| Ending::Blocked {
        reason: code.to_owned(),
    })
}
