//! Lists of tool definitions as other programs have them, as tool directories: those of MCP servers, of the chat interfaces of model
//! vendors, and of the AI SDK. A definition has a tool's arguments but no code, so its author writes the code.

use super::remark::Remark;
use super::schema::{Converter, Need, merged};
use super::words::{one_line, plain, tool_id, unique};
use super::{Code, Imported, LeftOut, ToolDirectory};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const DESCRIPTION_CHARACTERS_MAX: usize = 1_024;
const SUMMARY_CHARACTERS_MAX: usize = 240;
/// No list has more tools.
pub(super) const TOOLS_MAX: usize = 512;
/// Members under which a list stands inside a file.
const AROUND: [&str; 6] = [
    "tools",
    "functions",
    "result",
    "data",
    "functionDeclarations",
    "function_declarations",
];
/// Members that have the schema of a tool's arguments.
/// Sources: <https://modelcontextprotocol.io/specification/2025-06-18/server/tools>,
/// <https://platform.openai.com/docs/api-reference/chat/create>, <https://ai-sdk.dev/docs/reference/ai-sdk-core/tool>.
const SCHEMAS: [&str; 8] = [
    "inputSchema",
    "input_schema",
    "parameters",
    "parametersJsonSchema",
    "parameters_json_schema",
    "jsonSchema",
    "schema",
    // Inside the schema of Amazon Bedrock's `toolSpec`.
    "json",
];
/// The keywords that OpenAI refuses at the top of a tool's parameters.
const NOT_AT_THE_TOP: [&str; 9] = [
    "allOf", "anyOf", "oneOf", "not", "enum", "const", "if", "then", "else",
];

/// A file that holds no definitions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    #[error("it is not JSON: {0}")]
    Syntax(String),
    #[error("it is an OpenAPI description; import it with `windlass import openapi`")]
    Openapi,
    #[error(
        "it holds no tool definitions: write a list of objects with a name, a description and a schema, as MCP's tools/list, OpenAI or the AI SDK have them"
    )]
    Empty,
    #[error("it holds {0} tools, and {TOOLS_MAX} can be imported at once; choose with --only")]
    TooMany(usize),
    #[error("there is no tool {0}; there are {1}")]
    Unknown(String, String),
}

/// One definition as it stands in the file.
pub(super) struct Definition<'d> {
    pub(super) name: String,
    pub(super) value: &'d Map<String, Value>,
}

/// Makes tools of the definitions of a file; of all where none is named.
pub fn import(text: &str, file: &str, only: &[String]) -> Result<Imported, ListError> {
    let document: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| ListError::Syntax(error.to_string()))?;
    if ["openapi", "swagger"]
        .iter()
        .any(|name| document.get(*name).is_some())
    {
        return Err(ListError::Openapi);
    }
    let mut definitions = Vec::new();
    gather(&document, None, 0, &mut definitions);
    if definitions.is_empty() {
        return Err(ListError::Empty);
    }
    let mut imported = Imported {
        source: one_line(file, 200),
        origins: definitions
            .iter()
            .map(|definition| one_line(&definition.name, 200))
            .collect(),
        ..Imported::default()
    };
    let is_named = |definition: &Definition<'_>, name: &str| {
        definition.name == name || tool_id(&definition.name) == name
    };
    for name in only {
        if !definitions
            .iter()
            .any(|definition| is_named(definition, name))
        {
            return Err(ListError::Unknown(name.clone(), some_names(&definitions)));
        }
    }
    definitions
        .retain(|definition| only.is_empty() || only.iter().any(|name| is_named(definition, name)));
    if definitions.len() > TOOLS_MAX {
        return Err(ListError::TooMany(definitions.len()));
    }
    let mut taken = BTreeSet::new();
    for definition in &definitions {
        let id = unique(tool_id(&definition.name), &mut taken);
        match tool(definition, &id) {
            Ok(tool) => imported.tools.push(tool),
            Err(reason) => imported.left_out.push(LeftOut {
                origin: one_line(&definition.name, 200),
                reason,
            }),
        }
    }
    Ok(imported)
}

fn some_names(definitions: &[Definition<'_>]) -> String {
    some(
        definitions
            .iter()
            .map(|definition| definition.name.as_str()),
    )
}

/// The first of these names, and how many others there are.
pub(super) fn some<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    const SHOWN: usize = 20;
    let count = names.len();
    let shown: Vec<String> = names.take(SHOWN).map(|name| one_line(name, 80)).collect();
    match count {
        count if count > SHOWN => format!("{} and {} others", shown.join(", "), count - SHOWN),
        _ => shown.join(", "),
    }
}

/// Finds definitions in lists, under the names that lists have, and as the members of an object of tools.
fn gather<'d>(value: &'d Value, key: Option<&str>, depth: usize, found: &mut Vec<Definition<'d>>) {
    const DEPTH_MAX: usize = 6;
    if depth > DEPTH_MAX {
        return;
    }
    let object = match value {
        Value::Array(items) => {
            for item in items {
                gather(item, None, depth + 1, found);
            }
            return;
        }
        Value::Object(object) => object,
        _ => return,
    };
    for wrapper in ["function", "toolSpec"] {
        if let Some(inner @ Value::Object(_)) = object.get(wrapper) {
            return gather(inner, key, depth + 1, found);
        }
    }
    let name = object.get("name").and_then(Value::as_str).or(key);
    let is_definition = object.get("description").is_some_and(Value::is_string)
        || SCHEMAS
            .iter()
            .any(|member| object.get(*member).is_some_and(Value::is_object));
    if let Some(name) = name.filter(|name| is_definition && !name.is_empty()) {
        found.push(Definition {
            name: name.to_owned(),
            value: object,
        });
        return;
    }
    let lists: Vec<&Value> = AROUND.iter().filter_map(|name| object.get(*name)).collect();
    for list in &lists {
        gather(list, None, depth + 1, found);
    }
    if lists.is_empty() {
        // The AI SDK names each tool by its member.
        for (name, value) in object {
            gather(value, Some(name), depth + 1, found);
        }
    }
}

/// The tool of a definition, whose code its author is to write.
pub(super) fn tool(definition: &Definition<'_>, id: &str) -> Result<ToolDirectory, String> {
    let mut notes = Vec::new();
    let parameters = parameters(definition.value, &mut notes)?;
    let text = ["description", "title"]
        .iter()
        .find_map(|name| definition.value.get(*name).and_then(Value::as_str))
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .unwrap_or(&definition.name);
    let description = one_line(text, DESCRIPTION_CHARACTERS_MAX);
    if description.ends_with('…') && !text.ends_with('…') {
        notes.push(format!(
            "the description is cut to {DESCRIPTION_CHARACTERS_MAX} characters; all of it is in guide.md"
        ));
    }
    let is_renamed = definition.name != id;
    let hint = |name: &str| {
        let hints = definition.value.get("annotations");
        hints.and_then(|hints| hints.get(name)?.as_bool())
    };
    let writes = hint("readOnlyHint") != Some(true);
    Ok(ToolDirectory {
        id: id.to_owned(),
        origin: one_line(&definition.name, 200),
        schema: json!({
            "toolId": id,
            "version": "1.0.0",
            "description": description,
            "category": if writes { "action" } else { "retrieval" },
            "sideEffects": if writes { "writes" } else { "read_only" },
            "idempotent": !writes || hint("idempotentHint") == Some(true),
            // Holds until the author has reviewed the tool.
            "requiresConfirmation": writes,
            "allowedModes": ["text", "voice"],
            "latencyBudgetMs": 1_500,
            "reach": "external",
            "parameters": parameters,
        }),
        guide: guide(id, text, writes),
        code: Code::Script(script(id)),
        definition: None,
        secrets: Vec::new(),
        notes,
        remarks: is_renamed
            .then_some(Remark::CalledOtherwise)
            .into_iter()
            .collect(),
    })
}

/// The arguments: an object that names all of them.
fn parameters(definition: &Map<String, Value>, notes: &mut Vec<String>) -> Result<Value, String> {
    let mut schema = SCHEMAS.iter().find_map(|name| definition.get(*name));
    // The AI SDK wraps a schema.
    while let Some(inner) = schema
        .filter(|schema| schema.get("type").is_none() && schema.get("properties").is_none())
        .and_then(|schema| {
            ["jsonSchema", "json"]
                .iter()
                .find_map(|name| schema.get(*name))
        })
    {
        schema = Some(inner);
    }
    let empty = json!({});
    let schema = schema.filter(|schema| schema.is_object()).unwrap_or(&empty);
    let mut converter = Converter::new(schema);
    let mut made = match merged(converter.convert(schema, Need::Required, None)?) {
        Value::Object(made) => made,
        _ => Map::new(),
    };
    notes.append(&mut converter.notes());
    for keyword in NOT_AT_THE_TOP {
        if made.remove(keyword).is_some() {
            notes.push(format!(
                "`{keyword}` at the top of the arguments is left out, because OpenAI refuses it there; check it in the handler"
            ));
        }
    }
    if made
        .get("additionalProperties")
        .is_some_and(|others| others != &Value::Bool(false))
    {
        notes.push("arguments of other names are refused".to_owned());
    }
    made.insert("type".to_owned(), "object".into());
    made.insert("additionalProperties".to_owned(), false.into());
    made.entry("properties").or_insert_with(|| json!({}));
    Ok(Value::Object(made))
}

fn guide(id: &str, text: &str, writes: bool) -> String {
    let summary = one_line(&plain(text), SUMMARY_CHARACTERS_MAX);
    let mut guide = format!("# {id}\n\n{summary}\n");
    if summary.ends_with('…') {
        // In one line, so that nothing of it makes a heading.
        let whole = one_line(&plain(text), usize::MAX);
        guide.push_str(&format!("\n## Description\n\n{whole}\n"));
    }
    if writes {
        guide.push_str(
            "\n## Watch Out\n\nIt may change something. The user is asked before it runs.\n",
        );
    }
    guide
}

/// A handler that names the missing code, and changes nothing until the code is written.
fn script(id: &str) -> String {
    let name = id.replace('_', "-");
    format!(
        "import {{ ErrorType, ToolError }} from '../error-types.js';\n\n\
         // A list of tools says what {id} takes, and not what it does: that is written here, such as\n\
         //   return {{ ok: true, data: {{ … }} }};\n\
         export async function execute({{ args, context }}) {{\n\
         \x20 throw new ToolError(ErrorType.PERMANENT, '{id} has no code yet: write it in {name}/handler.js');\n\
         }}\n"
    )
}
