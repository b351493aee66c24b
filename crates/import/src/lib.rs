//! Tool directories made of a team's existing descriptions: OpenAPI documents, lists of tools, tools of MCP servers, Node sources. Only
//! `folder` touches files. Knows no command line and no network.

pub mod folder;
pub mod mcp;
pub mod mcp_resource;
pub mod node;
pub mod openapi;
pub mod remark;
mod schema;
pub mod tools;
pub mod words;

use remark::Remark;
use serde_json::Value;

/// A tool directory that is not written yet.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDirectory {
    /// The tool's id; the directory has its name with hyphens.
    pub id: String,
    /// The source of the tool, for people: `POST /orders`.
    pub origin: String,
    pub schema: Value,
    pub code: Code,
    pub guide: String,
    /// The source's definition, where it may change under a tool.
    pub definition: Option<Value>,
    /// The secrets that its requests need.
    pub secrets: Vec<String>,
    /// The parts that could not be taken over as they were, for the author to read.
    pub notes: Vec<String>,
    /// What else is said of it, once for all tools.
    pub remarks: Vec<Remark>,
}

impl ToolDirectory {
    pub fn name(&self) -> String {
        self.id.replace('_', "-")
    }
}

/// The code behind a tool.
#[derive(Clone, Debug, PartialEq)]
pub enum Code {
    /// A `handler.json`.
    Declared(Value),
    /// The beginning of a `handler.js`, which is its author's from then on.
    Script(String),
}

/// The tools that an import would write, and the refused ones.
#[derive(Debug, Default)]
pub struct Imported {
    pub tools: Vec<ToolDirectory>,
    pub left_out: Vec<LeftOut>,
    /// The source's title, by which a later import knows its own tools.
    pub source: String,
    /// Every operation or tool that the source has, chosen or not.
    pub origins: Vec<String>,
}

/// A part of the source that became no tool, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub origin: String,
    pub reason: String,
}
