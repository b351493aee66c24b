//! The simulated providers, driven by frames and a virtual clock through its public face. Every item of what a
//! faithful simulator has to do is a named test.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the whole crate is a test; clippy exempts only the test functions themselves"
)]

mod answers;
mod calls;
mod demo;
mod dialogue;
mod faults;
mod hostile;
mod interactions;
mod profiles;
mod realtime;
mod recordings;
mod responses;
mod resumption;
mod scripts;
mod setup;
mod speech;
mod text;
