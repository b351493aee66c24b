//! The codecs of the model providers' wire protocols: frames become model events, model commands become frames. Knows no
//! policy, no session state, no socket and no clock.

pub mod answer;
mod arguments;
pub mod failure;
pub mod gemini_live;
pub mod gemini_text;
pub mod log;
pub mod openai_chat;
mod projection;
pub mod request;
pub mod sse;
