//! What a tool is: its directory, the registry compiled from it, its arguments' validation, and the contract between a
//! handler and the runtime. Knows no provider connection, no session and no clock; only the compiler and the artifact
//! read files.

pub mod arguments;
pub mod artifact;
mod cap;
pub mod characters;
pub mod compile;
pub mod condition;
pub mod content;
pub mod data;
pub mod depth;
mod dialect;
pub mod effect_key;
pub mod envelope;
pub mod error;
pub mod excess;
mod guide;
pub mod handler;
pub mod handler_file;
pub mod id;
pub mod input;
pub mod intent;
pub mod json;
pub mod kind;
mod manifest;
pub mod number;
pub mod private;
pub mod problem;
pub mod program;
pub mod published;
mod reference;
pub mod registry;
pub mod remember;
pub mod retry_after;
pub mod rights;
pub mod rollout;
mod script_calls;
pub mod sensitive;
mod sensitive_arguments;
pub mod template;
pub mod validate;
pub mod version;
pub mod wording;
