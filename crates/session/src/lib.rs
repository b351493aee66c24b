//! The pure core of a session: turns, the call pipeline, policies and state. One input goes in, outputs come out at
//! once; time, randomness and ids are inputs. Knows no socket, no provider's wire format, no thread and no clock.

mod approvals;
mod calls;
pub mod client;
mod deadlines;
pub mod event;
pub mod facts;
mod hash;
pub mod io;
pub mod journal;
pub mod limits;
mod link;
pub mod model;
mod policy;
pub mod said;
pub mod saved;
pub mod session;
mod speech;
mod state;
pub mod time;
mod turn;
