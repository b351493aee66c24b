//! Tool directories made of a team's existing descriptions. Owns the files of a tool and the rules of a second import into the folder;
//! knows no command line.

pub(crate) mod folder;
pub(crate) mod mcp;
pub(crate) mod mcp_resource;
pub(crate) mod node;
pub(crate) mod openapi;
pub(crate) mod remark;
mod schema;
pub(crate) mod tools;
pub(crate) mod words;

use remark::Remark;
use serde_json::Value;

/// A tool directory that is not written yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolDirectory {
    /// The tool's id; the directory has its name with hyphens.
    pub(crate) id: String,
    /// The source of the tool, for people: `POST /orders`.
    pub(crate) origin: String,
    pub(crate) schema: Value,
    pub(crate) code: Code,
    pub(crate) guide: String,
    /// The source's definition, where it may change under a tool.
    pub(crate) definition: Option<Value>,
    /// The secrets that its requests need.
    pub(crate) secrets: Vec<String>,
    /// The parts that could not be taken over as they were, for the author to read.
    pub(crate) notes: Vec<String>,
    /// What else is said of it, once for all tools.
    pub(crate) remarks: Vec<Remark>,
}

impl ToolDirectory {
    pub(crate) fn name(&self) -> String {
        self.id.replace('_', "-")
    }
}

/// The code behind a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Code {
    /// A `handler.json`.
    Declared(Value),
    /// The beginning of a `handler.js`, which is its author's from then on.
    Script(String),
}

/// The tools that an import would write, and the refused ones.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    pub(crate) tools: Vec<ToolDirectory>,
    pub(crate) left_out: Vec<LeftOut>,
    /// The source's title, by which a later import knows its own tools.
    pub(crate) source: String,
    /// Every operation or tool that the source has, chosen or not.
    pub(crate) origins: Vec<String>,
}

/// A part of the source that became no tool, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) origin: String,
    pub(crate) reason: String,
}
