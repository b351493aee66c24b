//! The server side of Gemini Live (`BidiGenerateContent`) as a pure state machine: frames and time in, frames out.
//! Knows no socket and no clock, and shares no wire type with our codec.

mod address;
mod answering;
mod calls;
mod context;
mod declarations;
mod ears;
mod fields;
mod frames;
mod listening;
mod memory;
mod profile;
mod program;
mod refusal;
mod server;
mod session;
mod setup;
mod speech;
mod turn;
mod wire;

pub use crate::family::Family;
pub use server::Server;
