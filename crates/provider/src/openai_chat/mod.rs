//! Chat Completions as OpenAI and the servers compatible with it speak it: one request per answer, its body from a window
//! of the conversation's log, its stream or body back into events and an answer. Does no IO and decides nothing: which
//! request is tried again is the driver's.
//!
//! A driver makes the body with [`encode_request`], posts it to `{base}/chat/completions` and, where the status is 200,
//! feeds what comes to a [`Decoder`]. Another status goes through [`failure`].

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

/// Reads an answer whose status says that the request failed. The body may be anything.
pub fn failure(head: &ResponseHead<'_>, body: &[u8]) -> Failure {
    Failure::of_response(head, body, RetryRule::Openai)
}
