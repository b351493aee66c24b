//! The pure core of a session: turns, the call pipeline, policies and state. One input goes in, outputs come out at
//! once; time, randomness and ids are inputs. Knows no socket, no provider's wire format, no thread and no clock.

mod answers;
mod approvals;
mod calls;
pub mod client;
mod config;
pub mod context;
mod deadlines;
mod dialogue;
mod ending;
pub mod event;
pub mod facts;
mod hash;
pub mod io;
pub mod journal;
mod ledger;
pub mod limits;
mod link;
pub mod log_text;
pub mod model;
mod policy;
mod projection;
pub mod saved;
pub mod session;
mod speech;
mod standing;
mod state;
mod step;
pub mod time;
mod turn;
mod values;
mod values_apart;

pub use ledger::{CallbackFacts, called_back};
pub use policy::{RememberOffer, names_delivery};
pub use values_apart::{SetApart, ValuesApart, keeps_values};
