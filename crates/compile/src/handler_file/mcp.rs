//! Handlers of the kinds `mcp` and `mcp_resource`: the MCP server and the tool that a call goes to, with the definition by which that tool
//! was imported, and the server whose resources and prompts are read. Knows neither a server's place nor how to speak to it: only the
//! configuration has that.

use super::read::HandlerFileReader;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::fmt;
use windlass_contract::json;
use windlass_contract::wording::brief;

const MCP: [&str; 6] = [
    "kind",
    "server",
    "tool",
    "definition",
    "reviewed",
    "timeoutMs",
];
const MCP_RESOURCE: [&str; 3] = ["kind", "server", "timeoutMs"];
/// The most bytes of the name that a server gives a tool.
const NAME_BYTES_MAX: usize = 1_024;
/// Members of a definition that change nothing for calls and models.
const LEFT_OUT: [&str; 2] = ["_meta", "icons"];

/// The content of a `handler.json` of kind `mcp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpHandler {
    /// The server's name in the configuration.
    pub server: String,
    /// The tool's name at the server.
    pub tool: String,
    pub definition: DefinitionHash,
    /// Milliseconds.
    pub timeout_ms: Option<u64>,
}

/// A `handler.json` of kind `mcp_resource`: its tool lists and reads the resources and prompts of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpResourceHandler {
    /// The server's name in the configuration.
    pub server: String,
    /// Milliseconds.
    pub timeout_ms: Option<u64>,
}

/// The features of a server, as it lists them for an import.
#[derive(Debug, Default)]
pub struct Offering {
    /// The tools' definitions.
    pub definitions: Vec<Map<String, Value>>,
    pub resources: bool,
    pub prompts: bool,
}

/// The SHA-256 of a tool's definition as its server lists it, over canonical JSON and without members that serve only pictures and tags.
/// All other members count, unknown ones among them.
#[derive(Clone, PartialEq, Eq)]
pub struct DefinitionHash(String);

impl DefinitionHash {
    pub fn of(definition: &Map<String, Value>) -> Self {
        let members = definition.iter();
        let counted: Map<String, Value> = members
            .filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut text = Vec::new();
        json::write_canonical(&Value::Object(counted), &mut text);
        Self(json::hex(&Sha256::digest(&text)))
    }

    /// 64 digits of base 16, in small letters.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let fits = text.len() == 64 && text.bytes().all(is_digit);
        fits.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for DefinitionHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl HandlerFileReader<'_, '_, '_> {
    pub(super) fn mcp(&mut self, object: &Map<String, Value>) -> Option<McpHandler> {
        self.unknown(object, &MCP, "");
        let server = self.mcp_server(object);
        let tool = self.required_text(object, "", "tool", "\"tool\": \"read_file\"");
        let is_name = |name: &String| !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        if tool.as_ref().is_some_and(|name| !is_name(name)) {
            self.report.error(
                "/tool",
                "`tool` is no name of a tool",
                "write it as its server does; `windlass mcp import` does that",
            );
        }
        let example = "the 64 digits that `windlass mcp import` writes";
        let definition = self.required_text(object, "", "definition", example);
        let hash = definition.as_deref().and_then(DefinitionHash::parse);
        if definition.is_some() && hash.is_none() {
            self.report.error(
                "/definition",
                "`definition` is no hash of a definition",
                "import the tool again: `windlass mcp diff --accept` writes it",
            );
        }
        let reviewed = match object.get("reviewed") {
            None => false,
            Some(Value::Bool(reviewed)) => *reviewed,
            Some(other) => {
                self.wrong("/reviewed", "reviewed", other, "true or false");
                false
            }
        };
        if self.judged.writes && !reviewed && !self.judged.always_asks {
            self.report.error(
                if object.contains_key("reviewed") { "/reviewed" } else { "" },
                "this tool of another's server may change something, nobody has reviewed it, and not every call of it asks the user",
                "read what it does, then write \"reviewed\": true here; or write \"requiresConfirmation\": true in schema.json",
            );
        }
        let timeout_ms = self.timeout(object, "");
        Some(McpHandler {
            server: server?,
            tool: tool.filter(is_name)?,
            definition: hash?,
            timeout_ms,
        })
    }
}

impl HandlerFileReader<'_, '_, '_> {
    pub(super) fn mcp_resource(
        &mut self,
        object: &Map<String, Value>,
    ) -> Option<McpResourceHandler> {
        self.unknown(object, &MCP_RESOURCE, "");
        let server = self.mcp_server(object);
        if self.judged.writes {
            self.report.error(
                "/kind",
                "a handler of kind `mcp_resource` reads, and this tool says that it writes",
                "write \"sideEffects\": \"read_only\" in schema.json",
            );
        }
        let timeout_ms = self.timeout(object, "");
        Some(McpResourceHandler {
            server: server?,
            timeout_ms,
        })
    }

    fn mcp_server(&mut self, object: &Map<String, Value>) -> Option<String> {
        let server = self.required_text(object, "", "server", "\"server\": \"files\"");
        if let Some(name) = &server
            && !self.judged.permissions.mcp_servers.contains(name)
        {
            let name = brief(name);
            self.report.error(
                "/server",
                format!("there is no MCP server `{name}`"),
                format!("add it to the configuration as [mcp.{name}] with `url` or `command`, or import the tool again"),
            );
        }
        server
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hash(definition: Value) -> DefinitionHash {
        let Value::Object(definition) = definition else {
            panic!("a definition is an object")
        };
        DefinitionHash::of(&definition)
    }

    #[test]
    fn a_definition_is_the_same_however_it_is_written_and_other_by_any_word() {
        let pinned = hash(
            json!({"name": "a", "description": "Reads.", "inputSchema": {"type": "object", "maximum": 10}}),
        );
        for (same, definition) in [
            (
                true,
                json!({"inputSchema": {"maximum": 10, "type": "object"}, "description": "Reads.", "name": "a"}),
            ),
            (
                true,
                json!({"name": "a", "description": "Reads.", "inputSchema": {"type": "object", "maximum": 10},
                    "_meta": {"at": 1}, "icons": []}),
            ),
            (
                false,
                json!({"name": "a", "description": "Reads!", "inputSchema": {"type": "object", "maximum": 10}}),
            ),
            (
                false,
                json!({"name": "a", "description": "Reads.", "inputSchema": {"type": "object", "maximum": 11}}),
            ),
            (
                false,
                json!({"name": "a", "description": "Reads.", "inputSchema": {"type": "object", "maximum": 10}, "unheardOf": 1}),
            ),
            (
                false,
                json!({"name": "a", "description": "Reads.", "inputSchema": {"type": "object", "maximum": 10},
                    "annotations": {"readOnlyHint": true}}),
            ),
        ] {
            assert_eq!(hash(definition.clone()) == pinned, same, "{definition}");
        }
        assert_eq!(DefinitionHash::parse(pinned.as_str()), Some(pinned));
        assert_eq!(DefinitionHash::parse("abc"), None);
        assert_eq!(DefinitionHash::parse(&"G".repeat(64)), None);
    }
}
