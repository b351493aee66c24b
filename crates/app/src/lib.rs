//! The `windlass` program as a library: command line, server, voice endpoint, page and demo provider. Puts the other crates
//! together; knows no policy of a session and no provider's protocol.

mod access;
pub mod adapters;
mod backup;
pub mod bodies;
mod body;
mod calendar_service;
mod calendars;
mod capabilities;
mod chat;
mod cli;
mod clock;
mod connections;
mod crowding;
mod doctor;
mod failure;
mod handovers;
mod knowledge;
mod live_tools;
mod logging;
mod mcp;
mod memory;
mod printer;
mod project;
mod provider;
mod records;
mod script;
pub mod server;
mod services;
mod sessions;
mod signed_pictures;
mod simulator;
mod suggestions;
mod tasks;
mod text_provider;
mod text_simulator;
mod toolbox;
mod unset;
mod users;
mod voice_host;
mod watch;
mod web;

pub use access::cost::Entrance;
pub use cli::main;
pub use failure::Failure;
