//! What a tool is: its directory, the registry compiled from it, its arguments' validation, and the contract between a
//! handler and the runtime. Knows no provider connection, no session and no clock; only [`compile`] reads files.

pub mod envelope;
pub mod error;
pub mod handler;
pub mod id;
pub mod intent;
pub mod json;
pub mod kind;
pub mod registry;
pub mod sensitive;
pub mod validate;
