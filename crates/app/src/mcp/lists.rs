//! Lists and reads for MCP clients: the tools that a caller may use, their guides as prompts, and the knowledge base as resources. The
//! caller sees only permitted items, in one order. Changes nothing.

use super::calls::is_for_programs;
use super::reply::{Failure, Revision, members};
use super::{McpHost, Peer};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use windlass_contract::handler::{GetRequest, Knowledge, KnowledgeError, KnowledgeReader, Record};
use windlass_contract::kind::Reach;
use windlass_contract::registry::Tool;
use windlass_runtime::caller::Caller;

/// The prefix of the records' addresses.
const RECORDS: &str = "windlass://kb/";
/// Resources of one page of the list.
const PAGE: usize = 100;
/// Characters of a record's text that are read at a time.
const RECORD_CHARACTERS_MAX: usize = 262_144;

impl McpHost {
    /// The tools that a caller may use, by their ids.
    fn offered(&self, peer: &Peer) -> Vec<Arc<Tool>> {
        let offer = self.chat.offer(&peer.caller);
        let tools = offer.tools.offered().filter(|tool| is_for_programs(tool));
        let mut tools: Vec<Arc<Tool>> = tools.cloned().collect();
        tools.sort_by(|one, other| one.id.cmp(&other.id));
        tools
    }

    pub(super) fn list_tools(
        &self,
        peer: &Peer,
        revision: Revision,
        params: &Map<String, Value>,
    ) -> Result<Value, Failure> {
        expect_first_page(params)?;
        let tools = self.offered(peer);
        let listed: Vec<Value> = tools.iter().map(|tool| tool_json(tool, revision)).collect();
        let result = members(json!({"tools": listed}));
        Ok(revision.cacheable(result, self.list_ttl_ms))
    }

    pub(super) fn list_prompts(
        &self,
        peer: &Peer,
        revision: Revision,
        params: &Map<String, Value>,
    ) -> Result<Value, Failure> {
        expect_first_page(params)?;
        let tools = self.offered(peer);
        let prompt = |tool: &Arc<Tool>| {
            json!({
                "name": tool.id.as_str(),
                "title": format!("How to use {}", tool.id),
                "description": tool.summary,
            })
        };
        let listed: Vec<Value> = tools.iter().map(prompt).collect();
        let result = members(json!({"prompts": listed}));
        Ok(revision.cacheable(result, self.list_ttl_ms))
    }

    pub(super) fn prompt(
        &self,
        peer: &Peer,
        revision: Revision,
        params: &Map<String, Value>,
    ) -> Result<Value, Failure> {
        let name = text_of(params, "name")?;
        let offer = self.chat.offer(&peer.caller);
        let mut tools = offer.tools.offered().filter(|tool| is_for_programs(tool));
        let tool = tools.find(|tool| tool.id.as_str() == name);
        let tool = tool.ok_or_else(|| Failure::params("there is no prompt of this name"))?;
        let result = json!({
            "description": tool.summary,
            "messages": [
                {"role": "user", "content": {"type": "text", "text": tool.documentation}},
            ],
        });
        Ok(revision.complete(members(result)))
    }

    pub(super) fn list_resources(
        &self,
        peer: &Peer,
        revision: Revision,
        params: &Map<String, Value>,
    ) -> Result<Value, Failure> {
        let after = match params.get("cursor") {
            None => None,
            Some(Value::String(cursor)) => Some(cursor.as_str()),
            Some(_) => return Err(Failure::params("cursor is no text")),
        };
        let reader = self.reader(&peer.caller);
        // One more than a page says whether another one follows.
        let mut records = self.knowledge.listed(&reader, after, PAGE + 1);
        let has_more = records.len() > PAGE;
        records.truncate(PAGE);
        let next = records.last().map(|record| record.id.clone());
        let listed: Vec<Value> = records.iter().map(|record| resource_json(record)).collect();
        let mut result = members(json!({"resources": listed}));
        if let Some(next) = next.filter(|_| has_more) {
            result.insert("nextCursor".to_owned(), next.into());
        }
        Ok(revision.cacheable(result, self.list_ttl_ms))
    }

    pub(super) fn list_templates(
        &self,
        revision: Revision,
        params: &Map<String, Value>,
    ) -> Result<Value, Failure> {
        expect_first_page(params)?;
        let result = members(json!({"resourceTemplates": [{
            "uriTemplate": format!("{RECORDS}{{id}}"),
            "name": "record",
            "title": "A record of the knowledge base",
            "description": "By the id that kb_search gives",
            "mimeType": "text/markdown",
        }]}));
        Ok(revision.cacheable(result, self.list_ttl_ms))
    }

    pub(super) async fn read_resource(
        &self,
        peer: &Peer,
        revision: Revision,
        params: &Map<String, Value>,
    ) -> Result<Value, Failure> {
        let uri = text_of(params, "uri")?;
        // One answer for what is not there and for what the caller may not read.
        let unknown = || {
            Failure::params("there is no resource of this address").with_data(json!({"uri": uri}))
        };
        let id = uri
            .strip_prefix(RECORDS)
            .and_then(decoded)
            .ok_or_else(unknown)?;
        let found = self.knowledge.get(GetRequest {
            id,
            namespace: None,
            reader: self.reader(&peer.caller),
        });
        let record = match found.await {
            Ok(Ok(record)) => record,
            Ok(Err(_))
            | Err(KnowledgeError::UnknownNamespace { .. } | KnowledgeError::InvalidFilter(_)) => {
                return Err(unknown());
            }
            Err(KnowledgeError::Unavailable(_)) => return Err(Failure::internal()),
        };
        let text: String = record.body.chars().take(RECORD_CHARACTERS_MAX).collect();
        let result = members(json!({"contents": [{
            "uri": uri, "mimeType": "text/markdown", "text": format!("# {}\n\n{text}", record.title),
            "_meta": {"dev.windlass/external": true},
        }]}));
        Ok(revision.cacheable(result, self.list_ttl_ms))
    }

    pub(super) fn reader(&self, caller: &Caller) -> KnowledgeReader {
        let (user_id, _) = self.chat.capabilities.of_user(caller, None);
        KnowledgeReader {
            user_id,
            rights: caller.rights.clone(),
        }
    }
}

/// Lists that fit one page have no other.
fn expect_first_page(params: &Map<String, Value>) -> Result<(), Failure> {
    match params.get("cursor") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(Failure::params("there is no such page of this list")),
    }
}

fn text_of<'a>(params: &'a Map<String, Value>, name: &str) -> Result<&'a str, Failure> {
    let text = params.get(name).and_then(Value::as_str);
    text.ok_or_else(|| Failure::params(format!("{name} is missing, or no text")))
}

fn tool_json(tool: &Tool, revision: Revision) -> Value {
    let mut shown = json!({
        "name": tool.id.as_str(),
        "description": tool.description,
        "inputSchema": tool.parameters.schema(),
        "annotations": {
            "readOnlyHint": !tool.writes(),
            // The tool's author does not say whether its effect can be undone.
            "destructiveHint": tool.writes(),
            "idempotentHint": tool.idempotent,
            "openWorldHint": tool.reach == Reach::External,
        },
    });
    let schema = tool.response.as_ref().map(|response| response.schema());
    let is_object = |schema: &&Value| schema.get("type").and_then(Value::as_str) == Some("object");
    if let Some(schema) =
        schema.filter(|schema| revision == Revision::Stateless || is_object(schema))
    {
        shown["outputSchema"] = schema.clone();
    }
    shown
}

fn resource_json(record: &Record) -> Value {
    json!({
        "uri": format!("{RECORDS}{}", encoded(&record.id)),
        "name": record.id,
        "title": record.title,
        "mimeType": "text/markdown",
    })
}

/// A segment of an address.
fn encoded(id: &str) -> String {
    let mut address = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                address.push(char::from(byte));
            }
            _ => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                // A sign before a digit would be read, too.
                let are_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                bytes.push(
                    are_digits
                        .then(|| u8::from_str_radix(digits, 16).ok())
                        .flatten()?,
                );
            }
            b'/' | b'?' | b'#' => return None,
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_segment_of_an_address() {
        for id in ["fram", "a b/c", "Straße#1", "%2F"] {
            assert_eq!(decoded(&encoded(id)).as_deref(), Some(id));
        }
        for none in ["a/b", "%", "%2", "%zz", "%+1", "%ff"] {
            assert_eq!(decoded(none), None, "{none}");
        }
    }
}
