//! Gemini's `generateContent` and `streamGenerateContent`: one request per answer, its body from a window of the
//! conversation's log, its stream or body back into events and an answer. Does no IO and decides nothing: which request is
//! tried again is the driver's.
//!
//! A driver makes the body with [`encode_request`] and posts it to the path that [`path`] gives. A body of status 200 goes to a
//! [`Decoder`]. Another status goes through [`failure`]. The resource name of a model, the version and the headers with the key
//! are those of [`gemini_live::address`](crate::gemini_live::address).

mod call;
mod decode;
mod request;
mod tools;

pub use decode::{Decoder, decode_whole};
pub(crate) use request::Args;
pub use request::{Request, encode_request};
pub use tools::DeclaredTools;

use crate::failure::{Failure, ResponseHead, RetryRule};
use crate::request::Delivery;

/// The path of a request below the version, as in `https://generativelanguage.googleapis.com/v1beta/{path}`, for a
/// model's resource name: `models/…`, or `projects/…` on Vertex.
pub fn path(model_name: &str, delivery: Delivery) -> String {
    match delivery {
        Delivery::Stream => format!("{model_name}:streamGenerateContent?alt=sse"),
        Delivery::Whole => format!("{model_name}:generateContent"),
    }
}

/// Reads the answer of a failed request, by its status. The body may be anything.
pub fn failure(head: &ResponseHead<'_>, body: &[u8]) -> Failure {
    Failure::of_response(head, body, RetryRule::Gemini)
}
