//! The worker as its host meets it: lines in, lines out.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod bad_input;
mod judgement;
mod reference;
mod surroundings;
mod typescript;
mod worker;
