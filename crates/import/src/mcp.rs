//! The tools that an MCP server lists, as tool directories. The model reads the server's words as they were at the import, and the
//! server's hints are guesses: a tool that may change something asks the user until its author has reviewed it. Knows no connection.

use super::mcp_resource::{self, resource_tool};
use super::remark::Remark;
use super::tools::{Definition, TOOLS_MAX, some, tool};
use super::words::{one_line, tool_id, unique};
use super::{Code, Imported, LeftOut, ToolDirectory};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use windlass_compile::handler_file::DefinitionHash;
use windlass_compile::handler_file::Offering;
use windlass_contract::characters::is_unsafe_to_show;

/// Milliseconds of one call: servers reach over networks, and start programs.
const TIMEOUT_MS: u64 = 30_000;
/// Bytes of a definition: a longer one is no tool that a model could read.
const DEFINITION_BYTES_MAX: usize = 256 * 1024;
/// Words by which a description speaks to the model rather than of the tool, and which no plain sentence of a tool has. Each is a
/// reason to look, and proves nothing.
const ORDERS: [&str; 24] = [
    "<important",
    "<system>",
    "ignore previous",
    "ignore all previous",
    "ignore your instructions",
    "disregard previous",
    "previous instructions",
    "prior instructions",
    "your system prompt",
    "do not tell",
    "don't tell",
    "do not mention",
    "don't mention",
    "without telling",
    "before using any tool",
    "before using any other tool",
    "before calling any tool",
    "before calling any other tool",
    "instead of any other tool",
    "instead of all other tools",
    "you must always call",
    "you must always use",
    "you must call this",
    "you must use this",
];

/// The tools to import from a server.
pub struct Choice<'a> {
    /// The server's name in the configuration.
    pub server: &'a str,
    /// Tools by their names there or their ids here; all where none is named.
    pub only: &'a [String],
    /// Stands before every id.
    pub prefix: Option<&'a str>,
    /// The id of the tool that reads the server's resources and prompts.
    pub resource_id: &'a str,
    /// Whether an id is taken by a built-in tool.
    pub built_in: &'a dyn Fn(&str) -> bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum McpImportError {
    #[error("it lists no tools, and offers neither resources nor prompts")]
    Empty,
    #[error("it lists {0} tools, and {TOOLS_MAX} can be imported at once; choose with --only")]
    TooMany(usize),
    #[error("there is no tool {0}; there are {1}")]
    Unknown(String, String),
}

/// How imported tools know their server again.
pub fn source(server: &str) -> String {
    format!("MCP server {server}")
}

/// Makes tools of a server's list.
pub fn import(offering: &Offering, choice: &Choice<'_>) -> Result<Imported, McpImportError> {
    let named: Vec<(&str, &Map<String, Value>)> = offering
        .definitions
        .iter()
        .filter_map(|definition| Some((definition.get("name")?.as_str()?, definition)))
        .filter(|(name, _)| !name.is_empty())
        .collect();
    let reads = offering.resources || offering.prompts;
    if named.is_empty() && !reads {
        return Err(McpImportError::Empty);
    }
    let id_of = |name: &str| match choice.prefix {
        Some(prefix) => tool_id(&format!("{prefix}_{name}")),
        None => tool_id(name),
    };
    let is_chosen = |name: &str| {
        let only = choice.only;
        let names = |wanted: &String| wanted == name || *wanted == id_of(name);
        only.is_empty() || only.iter().any(names)
    };
    for wanted in choice.only {
        let mut names = named.iter();
        let is_there = names.any(|(name, _)| wanted == name || *wanted == id_of(name))
            || (reads && is_resource_tool(wanted, choice));
        if !is_there {
            let mut names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
            names.extend(reads.then_some(mcp_resource::ID));
            let names = some(names.into_iter());
            return Err(McpImportError::Unknown(one_line(wanted, 80), names));
        }
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, _) in &named {
        *counts.entry(name).or_default() += 1;
    }
    let chosen: Vec<_> = named.iter().filter(|(name, _)| is_chosen(name)).collect();
    if chosen.len() > TOOLS_MAX {
        return Err(McpImportError::TooMany(chosen.len()));
    }
    let mut imported = Imported {
        source: source(choice.server),
        origins: named.iter().map(|(name, _)| one_line(name, 200)).collect(),
        ..Imported::default()
    };
    let mut taken = BTreeSet::new();
    for (name, definition) in chosen {
        let made = if counts.get(name).is_some_and(|count| *count > 1) {
            Err("the server lists two tools of this name, and nobody can tell which one a call would run".to_owned())
        } else {
            let id = unique(id_of(name), &mut taken);
            match (choice.built_in)(&id) {
                true => Err(format!(
                    "{id} is a tool that is built in; import it under another name with --prefix"
                )),
                false => tool_of(choice.server, definition, &id),
            }
        };
        match made {
            Ok(tool) => imported.tools.push(tool),
            Err(reason) => {
                let origin = one_line(name, 200);
                let left_out = LeftOut { origin, reason };
                if !imported.left_out.contains(&left_out) {
                    imported.left_out.push(left_out);
                }
            }
        }
    }
    // Without hints all tools ask, and a count says it.
    let gives_hints = named.iter().any(|(_, definition)| gives_hints(definition));
    for tool in imported.tools.iter_mut().filter(|_| !gives_hints) {
        tool.remarks.push(Remark::AsksWithoutHints);
    }
    if reads {
        imported.origins.push(mcp_resource::ORIGIN.to_owned());
    }
    let mut only = choice.only.iter();
    let is_chosen = choice.only.is_empty() || only.any(|wanted| is_resource_tool(wanted, choice));
    let id = unique(choice.resource_id.to_owned(), &mut taken);
    if is_chosen && let Some(tool) = resource_tool(choice, offering, &id) {
        imported.tools.push(tool);
    }
    Ok(imported)
}

/// Whether the tool is meant that reads resources and prompts.
fn is_resource_tool(wanted: &str, choice: &Choice<'_>) -> bool {
    wanted == mcp_resource::ID || wanted == choice.resource_id
}

/// Whether the server says of a tool what it does.
fn gives_hints(definition: &Map<String, Value>) -> bool {
    let annotations = definition.get("annotations").and_then(Value::as_object);
    annotations.is_some_and(|annotations| {
        let mut members = annotations.iter();
        members.any(|(name, hint)| name.ends_with("Hint") && hint.is_boolean())
    })
}

/// One tool of a server under this id.
pub fn tool_of(
    server: &str,
    definition: &Map<String, Value>,
    id: &str,
) -> Result<ToolDirectory, String> {
    let name = definition.get("name").and_then(Value::as_str);
    let name = name.filter(|name| !name.is_empty() && name.len() <= 1_024);
    let name = name.ok_or("its name is longer than 1,024 bytes")?;
    let whole = Value::Object(definition.clone());
    if whole.to_string().len() > DEFINITION_BYTES_MAX {
        return Err(format!(
            "its definition is longer than {DEFINITION_BYTES_MAX} bytes"
        ));
    }
    let execution = definition.get("execution");
    if execution.is_some_and(|execution| execution["taskSupport"] == "required") {
        return Err(
            "it runs only as a task of the protocol (`taskSupport` is `required`), and no such task can be begun here"
                .to_owned(),
        );
    }
    let mut seen = definition.clone();
    let mut hidden = 0;
    for value in seen.values_mut() {
        take_hidden_out(value, &mut hidden);
    }
    let described = Definition {
        name: name.to_owned(),
        value: &seen,
    };
    let mut made = tool(&described, id)?;
    let hash = DefinitionHash::of(definition);
    made.code = Code::Declared(json!({
        "kind": "mcp",
        "server": server,
        "tool": name,
        "definition": hash.as_str(),
        "reviewed": false,
    }));
    made.schema["timeoutMs"] = TIMEOUT_MS.into();
    made.definition = Some(whole);
    if hidden > 0 {
        made.notes.push(format!(
            "{hidden} characters that nobody sees are taken out of its description; ask why they were there"
        ));
    }
    let words = seen.get("description").and_then(Value::as_str);
    let words = one_line(words.unwrap_or_default(), usize::MAX).to_lowercase();
    if let Some(order) = ORDERS.iter().find(|order| words.contains(**order)) {
        made.notes.push(format!(
            "its description speaks to the model (\"{order}\"); read it, and rewrite description and guide.md where it says more than what the tool does"
        ));
    }
    let hint = |name: &str| definition.get("annotations")?.get(name)?.as_bool();
    if hint("readOnlyHint") == Some(true) {
        made.remarks.push(Remark::RunsWithoutAsking);
    }
    Ok(made)
}

/// Removes from every text the characters that could hide or reorder the rest of it.
fn take_hidden_out(value: &mut Value, count: &mut usize) {
    match value {
        Value::String(text) => {
            let hides = |character: char| {
                is_unsafe_to_show(character) && !matches!(character, '\n' | '\r' | '\t')
            };
            let found = text.chars().filter(|character| hides(*character)).count();
            if found > 0 {
                text.retain(|character| !hides(character));
                *count += found;
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| take_hidden_out(item, count)),
        // Names of arguments stay as the server knows them.
        Value::Object(members) => members.iter_mut().for_each(|(name, member)| {
            if !matches!(name.as_str(), "enum" | "const" | "default") {
                take_hidden_out(member, count);
            }
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
