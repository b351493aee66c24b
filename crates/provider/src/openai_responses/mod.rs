//! OpenAI's Responses over HTTP: one request per answer, its body from a window of the conversation's log, its stream or body
//! back into events and an answer. Nothing is stored at the service: the log holds the data that it wants back unread (reasoning,
//! its own tools' items). Does no IO and decides nothing.
//!
//! A driver makes the body with [`encode_request`] and posts it to `{base}/responses`. A body of status 200 goes to a
//! [`Decoder`]. Another status goes through [`openai_chat::failure`], because refusals are the same.
//!
//! [`openai_chat::failure`]: crate::openai_chat::failure

mod decode;
mod request;
mod tools;

pub use decode::{Decoder, decode_whole};
pub use request::{Request, encode_request};
pub use tools::DeclaredTools;
