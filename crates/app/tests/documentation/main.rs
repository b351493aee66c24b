//! What the documents say is so: their examples run, their messages are those of the protocol, their tables are those of the
//! code. Knows the documents; how things work is tested where they are.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod book;
mod commands;
mod documents;
mod examples;
mod protocol;
mod settings;
mod tables;
mod tools;
