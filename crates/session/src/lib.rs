//! The pure core of a session: turns, the call pipeline, policies and state. One input goes in, outputs come out at
//! once; time, randomness and ids are inputs. Knows no socket, no provider's wire format, no thread and no clock.

pub mod client;
pub mod event;
pub mod io;
pub mod limits;
pub mod model;
pub mod session;
pub mod time;
