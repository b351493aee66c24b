//! The pure core of a session: turns, the call pipeline, policies and state. One input goes in, outputs come out at
//! once; time, randomness and ids are inputs. Knows no socket, no provider's wire format, no thread and no clock.

mod calls;
pub mod client;
mod deadlines;
pub mod event;
pub mod io;
pub mod limits;
pub mod model;
mod policy;
pub mod session;
mod state;
pub mod time;
mod transcript;
mod turn;
