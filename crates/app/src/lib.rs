//! The `windlass` program as a library: command line, server, voice endpoint, page and demo provider. Puts the other crates
//! together; knows no policy of a session and no provider's protocol.

mod cli;
mod clock;
mod failure;
mod logging;
mod printer;
mod provider;
pub mod server;
mod simulator;
mod toolbox;
mod voice_host;
mod watch;
mod web;
mod world;

pub use cli::main;
pub use failure::Failure;
