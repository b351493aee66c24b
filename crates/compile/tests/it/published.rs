//! The schemas that editors are given, against the compiler: the fixture holds them to every directory of every test, and here are the
//! files that they have to refuse.

use crate::fixture::{Folder, accepted_by_editors, manifest, manifest_with};
use serde_json::{Value, json};
use std::path::Path;
use windlass_compile::handler_file::Permissions;
use windlass_compile::published;
use windlass_compile::{Builtin, Source, Vocabularies, compile};
use windlass_contract::validate::Validator;

fn schema(text: &str) -> Validator {
    Validator::compile(&serde_json::from_str(text).unwrap()).unwrap()
}

#[test]
fn a_missing_field_is_missing_for_the_compiler_and_for_the_schema() {
    let schema = schema(published::TOOL);
    let whole = manifest("some_tool");
    for name in whole.as_object().unwrap().keys() {
        let pointer = format!("/{name}");
        let without = manifest_with(json!({pointer: Value::Null}));
        let folder = Folder::new();
        folder.tool("some-tool", &without);
        let is_missed = folder
            .problems()
            .contains(&format!("the field `{name}` is missing"));
        assert_eq!(!schema.is_valid(&without), is_missed, "{name}");
    }
    // What has a default is no mistake in an editor.
    let short = json!({
        "description": "Does it.", "sideEffects": "writes",
        "parameters": {"type": "object", "additionalProperties": false},
    });
    assert!(schema.is_valid(&short));
}

#[test]
fn what_no_compiler_takes_an_editor_marks() {
    let tool = schema(published::TOOL);
    for changes in [
        json!({"/toolId": "Some-Tool"}),
        json!({"/version": "1"}),
        json!({"/description": ""}),
        json!({"/category": "magic"}),
        json!({"/sideEffects": 1}),
        json!({"/allowedModes": []}),
        json!({"/allowedModes": ["text", "text"]}),
        json!({"/latencyBudgetMs": 0}),
        json!({"/parameters": []}),
        json!({"/parameters/additionalProperties": true}),
        json!({"/parameters/properties/title": {"type": "strng"}}),
        json!({"/timeoutMs": 86_400_001}),
        json!({"/confirmation": {"prevue": "x"}}),
        json!({"/rateLimit": {"calls": 0, "windowMs": 1}}),
        json!({"/permissions": {"roles": []}}),
        json!({"/availability": {}}),
        json!({"/availability": {"condition": 1}}),
        json!({"/availability": {"condition": "true", "else": "x"}}),
        json!({"/requiresConfirmation": {"condition": "true", "preview": "x"}}),
        json!({"/requiresConfirmation": "args.amount > 1"}),
        json!({"/effectKey": []}),
        json!({"/catgory": "action"}),
        json!({"/$schema": 1}),
    ] {
        let file = manifest_with(changes.clone());
        assert!(!tool.is_valid(&file), "{changes}");
        let folder = Folder::new();
        folder.tool("some-tool", &file);
        assert!(folder.problems().contains("schema.json"), "{changes}");
    }
    let handler = schema(published::HANDLER);
    for text in [
        r#"{"kind": "soap"}"#,
        r#"{"kind": "http", "method": "FETCH", "url": "https://a.example/"}"#,
        r#"{"kind": "http", "method": "GET", "url": "ftp://a.example/"}"#,
        r#"{"kind": "http", "method": "GET", "url": "https://a.example/", "querry": {}}"#,
        r#"{"kind": "http", "method": "GET", "url": "https://a.example/", "query": {"a": {"value": "{title}", "style": "comma"}}}"#,
        r#"{"kind": "http", "method": "GET", "url": "https://a.example/", "errors": {"200": "NOT_FOUND"}}"#,
        r#"{"kind": "webhook", "url": "https://a.example/", "secret": "open"}"#,
        r#"{"kind": "mcp", "server": "shop", "tool": "say", "definition": "abc"}"#,
        r#"{"kind": "mcp", "server": "shop", "tool": "say"}"#,
        r#"{"kind": "mcp_resource"}"#,
        r#"{"kind": "mcp_resource", "server": "shop", "tool": "say"}"#,
        r#"{"kind": "process", "command": []}"#,
        r#"{"kind": "process", "command": ["node"], "concurrency": 65}"#,
    ] {
        assert!(
            !handler.is_valid(&serde_json::from_str(text).unwrap()),
            "{text}"
        );
    }
}

#[test]
fn a_file_may_say_which_schema_its_editor_is_to_read() {
    let named = manifest_with(json!({"/$schema": "../tool.schema.json"}));
    let plain = manifest("some_tool");
    let versions = [named, plain].map(|schema| {
        let folder = Folder::new();
        folder
            .tool("some-tool", &schema)
            .file(
                "other/schema.json",
                manifest_with(json!({"/toolId": "other"})).to_string(),
            )
            .file("other/guide.md", crate::fixture::GUIDE)
            .file(
                "other/handler.json",
                r#"{"$schema": "x", "kind": "http", "method": "GET", "url": "https://a.example/{title}"}"#,
            );
        assert_eq!(folder.problems(), "");
        folder.compile().artifact.unwrap().version().to_owned()
    });
    assert_eq!(versions[0], versions[1], "it changes no tool");
}

/// The tools that come with the program, and those of the examples.
#[test]
fn the_schemas_take_the_tools_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in ["tools", "examples/tools"] {
        let tools = root.join(folder);
        let names = std::fs::read_dir(&tools).unwrap().flatten();
        let ids = names.filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().replace('-', "_");
            windlass_contract::id::ToolId::parse(&name)
        });
        let builtin: Builtin = ids.map(|id| (id, None)).collect();
        assert!(!builtin.is_empty(), "{folder}");
        let compilation = compile(&Source {
            tools: &tools,
            artifact: Path::new("tool_registry.json"),
            builtin: &builtin,
            build_timestamp: "",
            vocabularies: &Vocabularies::new(),
            values: windlass_contract::condition::Values::none(),
            permissions: &Permissions::default(),
            judge: None,
        });
        assert!(compilation.artifact.is_some(), "{:?}", compilation.problems);
        accepted_by_editors(&tools, &compilation.problems);
    }
}
