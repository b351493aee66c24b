//! The contract of a tool: handlers and what they are given, the registry, arguments and their validation, results, errors, conditions and
//! rights. Knows no file, no provider connection, no session and no clock.

pub mod arguments;
mod cap;
pub mod characters;
pub mod condition;
pub mod content;
pub mod data;
pub mod depth;
pub mod effect_key;
pub mod envelope;
pub mod error;
pub mod excess;
pub mod handler;
pub mod id;
pub mod input;
pub mod intent;
pub mod json;
pub mod kind;
pub mod number;
pub mod private;
pub mod reference;
pub mod registry;
pub mod remember;
pub mod retry_after;
pub mod rights;
pub mod rollout;
pub mod sensitive;
pub mod sensitive_arguments;
pub mod template;
pub mod tightening;
pub mod validate;
pub mod version;
pub mod wording;
