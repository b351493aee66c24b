//! The pure core of a session: turns, the call pipeline, policies and state. One input goes in, outputs come out at
//! once; time, randomness and ids are inputs. Knows no socket, no provider's wire format, no thread and no clock.

/// Whether this session has a bug planted. Without the feature none has, and nothing is left of the question.
#[cfg(feature = "planted-bugs")]
macro_rules! has_bug {
    ($session:expr, $bug:ident) => {
        $session.config.planted_bug == Some(crate::planted::PlantedBug::$bug)
    };
}
#[cfg(not(feature = "planted-bugs"))]
macro_rules! has_bug {
    ($session:expr, $bug:ident) => {
        false
    };
}

mod calls;
pub mod client;
mod confirmations;
mod connection;
mod deadlines;
pub mod event;
pub mod facts;
mod hash;
mod inherited;
pub mod io;
pub mod journal;
pub mod limits;
pub mod model;
pub mod news;
#[cfg(feature = "planted-bugs")]
pub mod planted;
mod policy;
pub mod session;
pub mod snapshot;
mod state;
pub mod time;
mod transcript;
mod turn;
pub mod under_way;
