//! The compiler of tools: from directories with a manifest, a guide and a handler file to one artifact, and from the artifact to a registry
//! that sessions use. Knows no session, no connection and no clock; it reads files, and runs no handler.

pub mod artifact;
mod dialect;
mod guide;
pub mod handler_file;
mod manifest;
pub mod problem;
pub mod program;
pub mod published;
mod script_calls;
mod tools;

pub use tools::*;
