//! The server side of Gemini Live (`BidiGenerateContent`) as a pure state machine: frames and time in, frames out.
//! Knows no socket and no clock, and shares no wire type with our codec.

pub(crate) mod activity;
mod address;
mod answering;
mod calls;
mod declarations;
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
pub(crate) mod speech;
mod turn;
pub(crate) mod voice;
mod wire;

pub use address::{Rejection, Upgrade};
pub use declarations::Declaration;
pub use profile::Family;
pub use server::{ConnectionId, Input, Options, Output, Server};
