//! The server side of OpenAI Realtime as a pure state machine: events and time in, events out. Knows no socket and no clock,
//! and shares no wire type with our codec.

mod audio;
mod config;
mod items;
mod requests;
mod responding;
mod server;

pub use server::Server;
