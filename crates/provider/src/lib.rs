//! The codecs of the model providers' wire protocols: frames become model events, model commands become frames. Knows no
//! policy, no session state, no socket and no clock.

pub mod answer;
mod arguments;
mod base64;
pub mod failure;
pub mod gemini_interactions;
pub mod gemini_live;
pub mod gemini_text;
pub mod gpt_live;
pub mod log;
mod message;
pub mod openai_chat;
pub mod openai_realtime;
pub mod openai_responses;
pub mod profile;
mod projection;
pub mod prose;
pub mod provider_tools;
pub mod request;
mod spelling;
pub mod sse;
