//! The core under scripts: lines of input in, lines of output out.
#![allow(clippy::unwrap_used)]

mod budgets;
mod duplicates;
mod endings;
mod faults;
mod harness;
mod pipeline;
mod random;
mod turns;
