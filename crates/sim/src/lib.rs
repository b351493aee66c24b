//! Provider servers as pure state machines, with scripts and a demo model to drive them. Knows no socket, no clock and none of our
//! codecs: server and codec share only the protocol, so that they cannot share a mistake.

pub mod declaration;
pub mod demo;
mod family;
pub mod gemini_live;
pub mod openai_realtime;
mod pieces;
pub mod runner;
pub mod script;
mod sound;
mod template;
pub mod text;
