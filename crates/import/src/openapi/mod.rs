//! OpenAPI 3.0 and 3.1 descriptions as tool directories: one tool for each operation that was chosen. Pure: a document in, directories
//! out. A description's text is untrusted.

mod body;
mod operation;
#[cfg(test)]
mod sent;
mod server;
mod style;
#[cfg(test)]
mod tests;

use super::words::{one_line, tool_id, unique};
use super::{Imported, LeftOut};
use serde_json::{Map, Value};
use server::Servers;
use std::collections::BTreeSet;

/// No import writes more tools at once: the most that OpenAI takes in one request.
const TOOLS_MAX: usize = 128;
/// The members of a path that are operations.
/// Source: <https://spec.openapis.org/oas/v3.1.0#path-item-object>
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// A description that cannot be imported at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("it is neither JSON nor YAML: {0}")]
    Syntax(String),
    #[error("it is no OpenAPI description: the field `openapi` is missing")]
    NotOpenapi,
    #[error("it is OpenAPI {0}; 3.0 and 3.1 can be imported, so convert it first")]
    Version(String),
    #[error("it names no server with a whole address ({0})")]
    Server(String),
    #[error("it holds no operation")]
    Empty,
    #[error(
        "it holds {0} operations, and {TOOLS_MAX} can be imported at once; choose with --only or --tag"
    )]
    TooMany(usize),
    #[error("there is no operation {0}; {1}")]
    Unknown(String, String),
}

/// The operations of a description that become tools. Both lists empty: all.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Operation ids as the description has them, or ids of tools.
    pub only: Vec<String>,
    pub tags: Vec<String>,
    /// In place of the server that the description names.
    pub base_url: Option<String>,
}

/// An operation and where it stands.
#[derive(Clone, Copy)]
struct Operation<'d> {
    path: &'d str,
    method: &'static str,
    /// The path's own members. Its parameters count for every method.
    item: &'d Map<String, Value>,
    value: &'d Map<String, Value>,
}

impl Operation<'_> {
    fn origin(&self) -> String {
        format!("{} {}", self.method.to_ascii_uppercase(), self.path)
    }

    fn operation_id(&self) -> Option<&str> {
        self.value.get("operationId").and_then(Value::as_str)
    }

    fn has_tag(&self, tags: &[String]) -> bool {
        let own = self.value.get("tags").and_then(Value::as_array);
        own.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .any(|own| tags.iter().any(|tag| tag.eq_ignore_ascii_case(own)))
    }

    /// The tool's id before it is made unique.
    fn tool_id(&self) -> String {
        match self.operation_id() {
            Some(id) => tool_id(id),
            None => tool_id(&format!("{} {}", self.method, self.path)),
        }
    }
}

/// Reads a description as JSON or YAML.
pub fn parse(text: &str) -> Result<Value, DocumentError> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text)
            .map_err(|error| DocumentError::Syntax(error.to_string()));
    }
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| DocumentError::Syntax(error.to_string().replace('\n', " ")))
}

/// Makes tools of the operations that were chosen. An operation that cannot be a tool is left out with its reason.
pub fn import(document: &Value, choice: &Choice) -> Result<Imported, DocumentError> {
    check_version(document)?;
    let operations = operations(document)?;
    let title = document.pointer("/info/title").and_then(Value::as_str);
    let mut imported = Imported {
        source: one_line(title.unwrap_or("untitled"), 200),
        origins: operations.iter().map(Operation::origin).collect(),
        ..Imported::default()
    };
    let chosen = chosen(operations, choice)?;
    let servers = Servers::of(document, choice.base_url.as_deref())?;
    let mut taken = BTreeSet::new();
    for operation in chosen {
        let id = unique(operation.tool_id(), &mut taken);
        let address = servers.address_of(&operation)?;
        let tool = address.and_then(|address| operation::tool(document, address, &operation, &id));
        match tool {
            Ok(tool) => imported.tools.push(tool),
            Err(reason) => imported.left_out.push(LeftOut {
                origin: operation.origin(),
                reason,
            }),
        }
    }
    Ok(imported)
}

fn check_version(document: &Value) -> Result<(), DocumentError> {
    if let Some(version) = document.get("swagger") {
        let version = version
            .as_str()
            .map_or_else(|| version.to_string(), str::to_owned);
        return Err(DocumentError::Version(version));
    }
    let version = match document.get("openapi") {
        Some(Value::String(version)) => version.clone(),
        Some(other) => other.to_string(),
        None => return Err(DocumentError::NotOpenapi),
    };
    let is_known = ["3.0", "3.1"].iter().any(|known| {
        let rest = version.strip_prefix(known);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    match is_known {
        true => Ok(()),
        false => Err(DocumentError::Version(version)),
    }
}

/// All operations, in the order of paths and methods.
fn operations(document: &Value) -> Result<Vec<Operation<'_>>, DocumentError> {
    let paths = document.get("paths").and_then(Value::as_object);
    let mut all = Vec::new();
    for (path, item) in paths.into_iter().flatten() {
        let Some(item) = item.as_object() else {
            continue;
        };
        for method in METHODS {
            if let Some(value) = item.get(method).and_then(Value::as_object) {
                all.push(Operation {
                    path,
                    method,
                    item,
                    value,
                });
            }
        }
    }
    match all.is_empty() {
        true => Err(DocumentError::Empty),
        false => Ok(all),
    }
}

fn chosen<'d>(
    mut all: Vec<Operation<'d>>,
    choice: &Choice,
) -> Result<Vec<Operation<'d>>, DocumentError> {
    let is_named = |operation: &Operation<'_>, name: &str| {
        operation.operation_id() == Some(name) || operation.tool_id() == name
    };
    for name in &choice.only {
        if !all.iter().any(|operation| is_named(operation, name)) {
            return Err(DocumentError::Unknown(name.clone(), some_ids(&all)));
        }
    }
    for tag in &choice.tags {
        if !all
            .iter()
            .any(|operation| operation.has_tag(std::slice::from_ref(tag)))
        {
            return Err(DocumentError::Unknown(
                format!("with the tag {tag}"),
                all_tags(&all),
            ));
        }
    }
    all.retain(|operation| {
        let is_named = choice.only.iter().any(|name| is_named(operation, name));
        let is_everything = choice.only.is_empty() && choice.tags.is_empty();
        is_everything || is_named || operation.has_tag(&choice.tags)
    });
    match all.len() {
        count if count > TOOLS_MAX => Err(DocumentError::TooMany(count)),
        _ => Ok(all),
    }
}

fn some_ids(operations: &[Operation<'_>]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = operations
        .iter()
        .take(SHOWN)
        .map(Operation::tool_id)
        .collect();
    let more = match operations.len() {
        count if count > SHOWN => format!(" and {} others", count - SHOWN),
        _ => String::new(),
    };
    format!("there are {}{more}", shown.join(", "))
}

/// The existing tags, for a user who has mistyped one.
fn all_tags(operations: &[Operation<'_>]) -> String {
    const SHOWN: usize = 60;
    let lists = operations
        .iter()
        .filter_map(|operation| operation.value.get("tags")?.as_array());
    let tags: BTreeSet<String> = lists
        .flatten()
        .filter_map(Value::as_str)
        .map(super::words::brief)
        .collect();
    let more = match tags.len() {
        0 => return "no operation has a tag".to_owned(),
        count if count > SHOWN => format!(" and {} others", count - SHOWN),
        _ => String::new(),
    };
    let tags: Vec<String> = tags.into_iter().take(SHOWN).collect();
    format!("the tags are {}{more}", tags.join(", "))
}
