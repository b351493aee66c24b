//! A core, its driver and a ledger together: what a model, a user and a handler see.
#![allow(clippy::unwrap_used)]

mod bench;
mod flows;
mod ledger;
mod scripted;
