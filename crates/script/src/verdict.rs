//! What the judge says of a handler: a vocabulary, which also goes over the line to the host.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What keeps a file from being a handler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flaw {
    /// From the folder of the tools.
    pub file: String,
    /// From 1; where one line is to blame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    pub message: String,
    pub cure: String,
}

/// What the engine says of a handler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The files that it is made of, its entry among them.
    pub used: BTreeSet<String>,
    /// Empty where it can run.
    pub flaws: Vec<Flaw>,
    /// The version of the response contract that it says it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_version: Option<String>,
}
