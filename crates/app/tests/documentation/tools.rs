//! Tool directories in documents compile.

use crate::documents::{Block, blocks_in, documents};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use windlass_compile::handler_file::Permissions;
use windlass_compile::{Source, compile};
use windlass_contract::id::ToolId;

/// The id of a block that is a whole `schema.json`.
fn tool_id(block: &Block) -> Option<ToolId> {
    let schema: Value = serde_json::from_str(&block.text).ok()?;
    schema.get("parameters")?;
    ToolId::parse(schema.get("toolId")?.as_str()?)
}

#[test]
fn every_schema_of_a_tool_in_a_document_compiles() {
    let mut compiled = 0;
    for file in documents() {
        for block in blocks_in(&file, "json") {
            let Some(id) = tool_id(&block) else {
                continue;
            };
            let folder = tempfile::tempdir().unwrap();
            let directory = folder.path().join(id.as_str().replace('_', "-"));
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("schema.json"), &block.text).unwrap();
            fs::write(directory.join("guide.md"), "# A tool\n\nDoes its work.\n").unwrap();
            let compilation = compile(&Source {
                tools: folder.path(),
                artifact: &folder.path().join("tool_registry.json"),
                builtin: &BTreeMap::from([(id, None)]),
                build_timestamp: "2026-11-20T12:00:00Z",
                vocabularies: &BTreeMap::new(),
                values: windlass_contract::condition::Values::none(),
                permissions: &Permissions::default(),
                judge: None,
            });
            let problems: Vec<String> = compilation
                .problems
                .iter()
                .map(ToString::to_string)
                .collect();
            assert!(
                compilation.artifact.is_some(),
                "{}: {}",
                block.place,
                problems.join("\n")
            );
            compiled += 1;
        }
    }
    assert!(compiled > 0, "no document has a tool");
}
