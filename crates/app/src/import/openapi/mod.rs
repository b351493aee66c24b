//! OpenAPI 3.0 and 3.1 descriptions as tool directories: one tool for each operation that was chosen. Pure: a document in,
//! directories out. What a description says is taken as untrusted text.

mod operation;
mod schema;
#[cfg(test)]
mod tests;

use super::{LeftOut, ToolDirectory};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// No import writes more tools at once: the most that OpenAI takes in one request.
const TOOLS_MAX: usize = 128;
/// The members of a path that are operations.
/// Source: <https://spec.openapis.org/oas/v3.1.0#path-item-object>
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// A description that cannot be imported at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DocumentError {
    #[error("it is neither JSON nor YAML: {0}")]
    Syntax(String),
    #[error("it is no OpenAPI description: the field `openapi` is missing")]
    NotOpenapi,
    #[error("it is OpenAPI {0}; 3.0 and 3.1 can be imported, so convert it first")]
    Version(String),
    #[error(
        "it names no server with a whole address ({0}); say the address with --base-url https://…"
    )]
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

/// What of a description becomes tools. Both lists empty: everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// Operation ids as the description has them, or ids of tools.
    pub(crate) only: Vec<String>,
    pub(crate) tags: Vec<String>,
    /// In place of the server that the description names.
    pub(crate) base_url: Option<String>,
}

/// What an import would write.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    pub(crate) tools: Vec<ToolDirectory>,
    pub(crate) left_out: Vec<LeftOut>,
    /// The description's title, by which a later import knows its own tools.
    pub(crate) source: String,
    /// Every operation that the description has, chosen or not.
    pub(crate) origins: Vec<String>,
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
        let name = match self.operation_id() {
            Some(id) => snake_case(id),
            None => snake_case(&format!("{} {}", self.method, self.path)),
        };
        match name.bytes().next() {
            Some(first) if first.is_ascii_lowercase() => name,
            _ => cut(&format!("call_{name}"), ID_CHARACTERS_MAX),
        }
    }
}

const ID_CHARACTERS_MAX: usize = 63;

/// Small letters, digits and single underscores.
fn snake_case(name: &str) -> String {
    let mut made = String::new();
    let mut before: Option<char> = None;
    for character in name.chars() {
        if character.is_ascii_alphanumeric() {
            let begins_word = character.is_ascii_uppercase()
                && before
                    .is_some_and(|before| before.is_ascii_lowercase() || before.is_ascii_digit());
            if begins_word {
                made.push('_');
            }
            made.push(character.to_ascii_lowercase());
        } else if !made.is_empty() && !made.ends_with('_') {
            made.push('_');
        }
        before = Some(character);
    }
    cut(&made, ID_CHARACTERS_MAX)
}

fn cut(name: &str, characters_max: usize) -> String {
    let name: String = name.chars().take(characters_max).collect();
    name.trim_end_matches('_').to_owned()
}

/// Reads a description as JSON or YAML.
pub(crate) fn parse(text: &str) -> Result<Value, DocumentError> {
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
pub(crate) fn import(document: &Value, choice: &Choice) -> Result<Imported, DocumentError> {
    check_version(document)?;
    let operations = operations(document)?;
    let title = document.pointer("/info/title").and_then(Value::as_str);
    let mut imported = Imported {
        source: one_line(title.unwrap_or("untitled"), 200),
        origins: operations.iter().map(Operation::origin).collect(),
        ..Imported::default()
    };
    let chosen = chosen(operations, choice)?;
    let server = server(document, choice)?;
    let mut taken = BTreeSet::new();
    for operation in chosen {
        let id = unique(operation.tool_id(), &mut taken);
        match operation::tool(document, &server, &operation, &id) {
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
                some_ids(&all),
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

fn unique(id: String, taken: &mut BTreeSet<String>) -> String {
    let mut number = 1;
    let mut candidate = id.clone();
    while !taken.insert(candidate.clone()) {
        number += 1;
        let ending = format!("_{number}");
        candidate = format!("{}{ending}", cut(&id, ID_CHARACTERS_MAX - ending.len()));
    }
    candidate
}

/// The address that paths are appended to, without a slash at its end.
fn server(document: &Value, choice: &Choice) -> Result<String, DocumentError> {
    let url = match &choice.base_url {
        Some(url) => url.clone(),
        None => {
            let server = document.pointer("/servers/0");
            let url = server
                .and_then(|server| server.get("url"))
                .and_then(Value::as_str);
            filled_in(url.unwrap_or_default(), server)
        }
    };
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    let is_whole = host.is_some_and(|host| !host.is_empty() && !host.contains('@'));
    let has_more = url.contains(['{', '}', '?', '#']) || url.chars().any(char::is_whitespace);
    if !is_whole || has_more {
        let shown = match url.as_str() {
            "" => "it has none".to_owned(),
            url => format!(
                "it has {}",
                url.escape_debug().take(200).collect::<String>()
            ),
        };
        return Err(DocumentError::Server(shown));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// A server's address with the defaults of its variables.
fn filled_in(url: &str, server: Option<&Value>) -> String {
    let variables = server
        .and_then(|server| server.get("variables"))
        .and_then(Value::as_object);
    let mut url = url.to_owned();
    for (name, variable) in variables.into_iter().flatten() {
        if let Some(default) = variable.get("default").and_then(Value::as_str) {
            url = url.replace(&format!("{{{name}}}"), default);
        }
    }
    url
}

/// What a reference within the document leads to.
fn resolve<'d>(document: &'d Value, reference: &str) -> Result<&'d Value, String> {
    let Some(pointer) = reference.strip_prefix('#') else {
        return Err(format!(
            "it refers to another file ({}); bundle the description into one file first",
            brief(reference)
        ));
    };
    document
        .pointer(&pointer.replace("%7B", "{").replace("%7D", "}"))
        .ok_or_else(|| format!("{} leads nowhere", brief(reference)))
}

/// The value itself, or what its `$ref` leads to.
fn followed<'d>(document: &'d Value, value: &'d Value) -> Result<&'d Value, String> {
    const STEPS_MAX: usize = 16;
    let mut value = value;
    for _ in 0..STEPS_MAX {
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => value = resolve(document, reference)?,
            None => return Ok(value),
        }
    }
    Err("its references go round in a circle".to_owned())
}

/// Text of a description in one line, and no longer than so many characters.
fn one_line(text: &str, characters_max: usize) -> String {
    let words: Vec<&str> = text
        .split(|character: char| character.is_whitespace() || character.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    match line.char_indices().nth(characters_max) {
        None => line,
        Some(_) => {
            let kept: String = line
                .chars()
                .take(characters_max.saturating_sub(1))
                .collect();
            format!("{}…", kept.trim_end())
        }
    }
}

pub(super) fn brief(text: &str) -> String {
    one_line(text, 80)
}
