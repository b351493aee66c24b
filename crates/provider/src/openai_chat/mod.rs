//! Chat Completions of OpenAI and compatible servers: one request per answer, its body from a window of the conversation's log,
//! its stream or body back into events and an answer. Does no IO and decides nothing: retries are the driver's.
//!
//! A driver makes the body with [`encode_request`] and posts it to `{base}/chat/completions`. A body of status 200 goes to a
//! [`Decoder`]. Another status goes through [`failure`].

mod accumulate;
mod decode;
mod plain_chunk;
mod request;
mod tools;

pub use decode::{Decoder, decode_whole};
pub use request::{CacheRetention, PromptCache, ReasoningEffort, Request, encode_request};
pub(crate) use request::{UNSEEN, data_url};
pub use tools::DeclaredTools;

use crate::failure::{Failure, ResponseHead, RetryRule};

/// Reads the answer of a failed request, by its status. The body may be anything.
pub fn failure(head: &ResponseHead<'_>, body: &[u8]) -> Failure {
    Failure::of_response(head, body, RetryRule::Openai)
}
