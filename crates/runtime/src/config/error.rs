//! What can be wrong with a configuration, each in one line that names the key, the cause and the cure.

use super::layers::Origin;
use std::path::PathBuf;

/// Why there is no configuration. Never shows a secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the configuration {} cannot be read: {cause}; name another file with --config", .path.display())]
    Unreadable {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error("the configuration {} is over {bytes_max} bytes long; it is meant to be written by hand", .path.display())]
    TooLong { path: PathBuf, bytes_max: u64 },
    #[error("the configuration {} is no UTF-8 text; save it as such", .path.display())]
    NotText { path: PathBuf },
    #[error("{}:{line}:{column}: {problem}", .path.display())]
    Syntax {
        path: PathBuf,
        line: usize,
        column: usize,
        problem: String,
    },
    #[error("there is no key {key} ({origin}); {}", known(.nearest.as_deref()))]
    UnknownKey {
        key: String,
        origin: Origin,
        /// `None` where none is like it.
        nearest: Option<String>,
    },
    #[error(
        "there is no setting for the environment variable {name}; {}", known(.nearest.as_deref())
    )]
    UnknownVariable {
        name: String,
        /// `None` where none is like it.
        nearest: Option<String>,
    },
    #[error("the environment variable {name} is no UTF-8 text; set it anew or remove it")]
    VariableNotText { name: String },
    #[error(transparent)]
    BadValue(Box<BadValue>),
    #[error(
        "{key} names no tool; ids have small letters, digits and underscores, as in tools.kb_search"
    )]
    BadTool { key: String },
    #[error(
        "{key} names no namespace that a record can have; names have at most {bytes_max} small letters, digits and \
         underscores and begin with a letter, as in knowledge.namespaces.staff"
    )]
    BadNamespace { key: String, bytes_max: usize },
    #[error("{key} is half a limit; set both calls and window_ms in it")]
    HalfRateLimit { key: String },
}

fn known(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("the nearest one is {nearest}"),
        None => "docs/configuration.md lists those that there are".to_owned(),
    }
}

/// A value that its key refuses.
#[derive(Debug, thiserror::Error)]
#[error("{key} has the value {value} ({origin}), which {cause}; {cure}")]
pub struct BadValue {
    pub key: String,
    /// As TOML; `…` in place of a secret.
    pub value: String,
    pub origin: Origin,
    pub cause: String,
    pub cure: String,
}
