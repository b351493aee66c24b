//! The words that the program has for a parameter: they stand in place of the schema's own, in what sessions are told of it.

use crate::fixture::{Folder, GUIDE, HANDLER, manifest_with};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use windlass_compile::Vocabulary;
use windlass_compile::artifact::write_artifact;
use windlass_contract::id::ToolId;

/// An example of the guide may use the words of the file; sessions are told the program's.
#[test]
fn the_programs_words_stand_in_place_of_a_schemas_own() {
    let schema = r#"{"type": "object", "additionalProperties": false, "properties": {
        "kind": {"type": "string", "enum": ["ship", "person"], "default": "ship"},
        "free": {"type": "string"}}}"#;
    let vocabulary = |pointer, values: &[&str], default: Option<&str>| Vocabulary {
        pointer,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        default: default.map(str::to_owned),
    };
    for (vocabulary, property) in [
        (
            vocabulary("/properties/kind", &["bird", "fish"], Some("fish")),
            r#"{"type":"string","enum":["bird","fish"],"default":"fish"}"#,
        ),
        // The same words in another order change nothing.
        (
            vocabulary("/properties/kind", &["person", "ship"], Some("ship")),
            r#"{"type":"string","enum":["ship","person"],"default":"ship"}"#,
        ),
        (
            vocabulary("/properties/kind", &[], Some("fish")),
            r#"{"type":"string","enum":["ship","person"],"default":"ship"}"#,
        ),
        (
            vocabulary("/properties/free", &["bird"], None),
            r#"{"type":"string","enum":["ship","person"],"default":"ship"}"#,
        ),
        (
            vocabulary("/properties/none/enum", &["bird"], None),
            r#"{"type":"string","enum":["ship","person"],"default":"ship"}"#,
        ),
    ] {
        let mut folder = Folder::new();
        let parameters: Value = serde_json::from_str(schema).unwrap();
        folder.tool(
            "some-tool",
            &manifest_with(json!({"/parameters": parameters})),
        );
        folder.file(
            "some-tool/guide.md",
            format!("{GUIDE}\n## Examples\n\n```json\n{{\"kind\": \"ship\"}}\n```\n"),
        );
        let plain = folder.compile().artifact.unwrap();
        folder.vocabularies = BTreeMap::from([(
            ToolId::parse("some_tool").unwrap(),
            vec![vocabulary.clone()],
        )]);
        let compilation = folder.compile();
        let artifact = compilation
            .artifact
            .unwrap_or_else(|| panic!("{:?}", compilation.problems));
        write_artifact(&artifact, &folder.artifact()).unwrap();
        let written = std::fs::read(folder.artifact()).unwrap();
        let written: Value = serde_json::from_slice(&written).unwrap();
        let tool = &written["tools"][0];
        let expected: Value = serde_json::from_str(property).unwrap();
        assert_eq!(
            tool["jsonSchema"]["properties"]["kind"], expected,
            "{vocabulary:?}"
        );
        let declared =
            &tool["providerSchemas"]["openai"]["function"]["parameters"]["properties"]["kind"];
        assert_eq!(declared["enum"], expected["enum"], "{vocabulary:?}");
        let is_plain = expected["default"] == "ship";
        assert_eq!(artifact.version() == plain.version(), is_plain);
        // Models copy examples.
        let guide = tool["documentation"].to_string();
        assert_eq!(guide.contains("json"), is_plain, "{guide}");
    }
}

/// What was never an example of arguments cannot become untrue by the program's words.
#[test]
fn responses_and_blocks_that_are_no_json_stay_whatever_the_programs_words_are() {
    let parameters = json!({"type": "object", "additionalProperties": false, "properties": {
        "kind": {"type": "string", "enum": ["ship", "person"]}}});
    let blocks = [
        ("Response:", r#"{"ok": true, "kind": "ship"}"#, true),
        ("In short:", r#"{"kind": "ship", ...}"#, true),
        ("Arguments:", r#"{"kind": "ship"}"#, false),
    ];
    let examples: String = blocks
        .iter()
        .map(|(words, block, _)| format!("{words}\n\n```json\n{block}\n```\n\n"))
        .collect();
    let sections = "## Summary\nDoes it.\n## Preconditions\n## Postconditions\n## Invariants\n## Failure Modes\n## Common Mistakes\n## Examples\n";
    let mut folder = Folder::new();
    folder
        .file(
            "some-tool/schema.json",
            manifest_with(json!({"/parameters": parameters})).to_string(),
        )
        .file("some-tool/handler.js", HANDLER)
        .file("some-tool/doc_summary.md", "Does it.\n")
        .file(
            "some-tool/doc.md",
            format!("# A tool\n\n{sections}\n{examples}"),
        );
    folder.vocabularies = BTreeMap::from([(
        ToolId::parse("some_tool").unwrap(),
        vec![Vocabulary {
            pointer: "/properties/kind",
            values: vec!["bird".to_owned()],
            default: None,
        }],
    )]);
    let compilation = folder.compile();
    let artifact = compilation
        .artifact
        .unwrap_or_else(|| panic!("{:?}", compilation.problems));
    write_artifact(&artifact, &folder.artifact()).unwrap();
    let written: Value =
        serde_json::from_slice(&std::fs::read(folder.artifact()).unwrap()).unwrap();
    let guide = written["tools"][0]["documentation"].as_str().unwrap();
    for (words, block, stays) in blocks {
        assert_eq!(guide.contains(words), stays, "{guide}");
        // The arguments alone stand in no other block.
        assert_eq!(guide.contains(&format!("\n{block}\n")), stays, "{guide}");
    }
}
