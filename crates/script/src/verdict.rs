//! The judge's verdict on a handler: a vocabulary, which also goes over the line to the host.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A reason why a file is no handler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flaw {
    /// The path from the folder of the tools.
    pub file: String,
    /// The line, from 1; `None` if no single line is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    pub message: String,
    pub cure: String,
}

/// The engine's verdict on a handler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The handler's files, its entry among them.
    pub used: BTreeSet<String>,
    /// The flaws; empty if the handler can run.
    pub flaws: Vec<Flaw>,
    /// The version of the response contract that the handler declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_version: Option<String>,
}
