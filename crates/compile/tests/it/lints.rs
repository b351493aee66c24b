//! Rules that hold together: each is checked on what can be read, whatever else is wrong with the tool.

use crate::fixture::{Folder, GUIDE, manifest, manifest_with};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

fn check(changes: Value, expected: Expect) {
    let folder = Folder::new();
    folder.tool("some-tool", &manifest_with(changes));
    expected.assert_eq(&folder.problems());
}

#[test]
fn a_field_that_cannot_be_read_hides_nothing_about_the_others() {
    let folder = Folder::new();
    let wrong = manifest_with(json!({
        "/version": "x", "/sideEffects": "writes", "/onInterrupt": "cancel", "/requiresConfirmation": true,
        "/parameters/properties/confirmed": {"type": "boolean"}, "/status": "For {titel}",
        "/parameters/properties/not-a-name": {"type": "string"},
    }));
    let guide = format!("{GUIDE}\n## Examples\n\n```json\n{{\"title\": 5}}\n```\n");
    folder
        .tool("some-tool", &wrong)
        .file("some-tool/guide.md", guide);
    expect![[r#"
        tools/some-tool/schema.json:10:3: error: a tool that writes cannot be cancelled half-way (write "finish", or leave it out)
        tools/some-tool/schema.json:21:7: error: the parameter `confirmed` looks like a confirmation, and only the user can confirm (remove it or give it another name; the user is asked by the runtime, and the handler runs only after a yes)
        tools/some-tool/schema.json:39:3: error: the template names `titel`, which is no parameter (put names of parameters in braces, such as {title}, or {attendees.length} for how many there are)
        tools/some-tool/schema.json:41:3: error: `version` is `x`, which is no semantic version (write a semantic version such as 1.0.0)
        tools/some-tool/guide.md:8:2: error: the example breaks the tool's parameters at /title: must be a string (correct the example or the parameters; models copy what they read here)"#]].assert_eq(&folder.problems());

    check(
        json!({
            "/latencyBudgetMs": 0, "/category": "retrieval", "/idempotent": false,
            "/parameters/properties/top_k": {"type": "integer"},
            "/parameters/properties/tree": {"$ref": "#/$defs/tree"},
            "/parameters/$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}}},
        }),
        expect![[r#"
            tools/some-tool/schema.json:8:3: error: a retrieval tool has to be idempotent (write true, or choose another category)
            tools/some-tool/schema.json:9:3: error: `latencyBudgetMs` is 0, not a positive integer (write a whole number of milliseconds above 0)
            tools/some-tool/schema.json:34:7: error: a retrieval tool's `top_k` needs a default (add one, such as "default": 5)
            tools/some-tool/schema.json:38:9: error: the schema refers to itself through `#/$defs/tree`, which Gemini's native schema cannot express (unroll it to the depth that you need)"#]],
    );
}

#[test]
fn one_wrong_schema_hides_nothing_about_the_others() {
    check(
        json!({
            "/parameters/properties/a": {"type": "strng", "default": 5},
            "/parameters/properties/b": {"type": "string", "maxLength": "5"},
            "/parameters/properties/c": {"type": "integer", "minimum": 1, "default": 0},
            "/parameters/properties/d": {"$ref": "#/$defs/small", "default": 4},
            "/parameters/$defs": {"small": {"type": "integer", "maximum": 3}},
            "/parameters/properties/e": {"type": "string", "maxLenght": 2, "default": 7},
        }),
        expect![[r#"
            tools/some-tool/schema.json:21:9: error: there is no type `strng` (did you mean `string`?)
            tools/some-tool/schema.json:31:9: error: this is not JSON Schema 2020-12: must be an integer: write it without quotes (correct the keyword's value)
            tools/some-tool/schema.json:35:9: error: the default breaks its own schema: must be 1 or more (correct the default or the schema)
            tools/some-tool/schema.json:41:9: error: the default breaks its own schema: must be 3 or less (correct the default or the schema)
            tools/some-tool/schema.json:44:9: error: the default breaks its own schema: must be a string (correct the default or the schema)
            tools/some-tool/schema.json:45:9: error: JSON Schema has no keyword `maxLenght` (did you mean `maxLength`?)"#]],
    );
}

#[test]
fn inherited_defaults_count_and_satisfy_what_narrows_them() {
    let with = |top_k: Value| {
        json!({
            "/category": "retrieval", "/parameters/properties/top_k": top_k,
            "/parameters/$defs": {"k": {"type": "integer", "minimum": 1, "default": 2}, "plain": {"type": "integer"}},
        })
    };
    check(with(json!({"$ref": "#/$defs/k"})), expect![[r#""#]]);
    check(
        with(json!({"$ref": "#/$defs/plain", "default": 4})),
        expect![[r#""#]],
    );
    check(
        with(json!({"$ref": "#/$defs/plain"})),
        expect![[
            r#"tools/some-tool/schema.json:34:7: error: a retrieval tool's `top_k` needs a default (add one, such as "default": 5)"#
        ]],
    );
    check(
        with(json!({"$ref": "#/$defs/k", "minimum": 5})),
        expect![[r#"
        tools/some-tool/schema.json:34:7: error: the default breaks its own schema: must be 5 or more (correct the default or the schema)
        tools/some-tool/schema.json:36:9: error: `top_k` may not go below 5, but voice clamps it to 3 (write a minimum of 3 or less)"#]],
    );
}

#[test]
fn a_status_that_shows_what_is_sensitive_is_warned_about() {
    check(
        json!({
            "/sensitive": ["/title", "/attendees/*"],
            "/status": "{title} with {attendees.0}, {attendees}, {attendees.length}, {title.length}",
            "/confirmation": {"preview": "Create {title}"},
        }),
        expect![[r#"
            tools/some-tool/schema.json:39:3: warning: the status shows `/attendees/0`, which is sensitive (leave it out of the phrase, or take it off the list `sensitive`)
            tools/some-tool/schema.json:39:3: warning: the status shows `/attendees`, which is sensitive (leave it out of the phrase, or take it off the list `sensitive`)
            tools/some-tool/schema.json:39:3: warning: the status shows `/title`, which is sensitive (leave it out of the phrase, or take it off the list `sensitive`)"#]],
    );
}

#[test]
fn tools_of_the_program_that_need_no_consent_are_not_warned_about() {
    for (id, is_built_in, warnings) in [
        ("ignore_user", true, 0),
        ("ignore_user", false, 1),
        ("some_tool", true, 1),
    ] {
        let mut folder = Folder::new();
        let mut tool = manifest(id);
        tool["category"] = json!("action");
        tool["sideEffects"] = json!("writes");
        let directory = id.replace('_', "-");
        folder.tool(&directory, &tool);
        if is_built_in {
            folder.build_in(id);
            std::fs::remove_file(folder.tools().join(&directory).join("handler.js")).unwrap();
        }
        let problems = folder.problems();
        let found = problems.matches("without asking the user").count();
        assert_eq!(found, warnings, "{id} {is_built_in}: {problems}");
    }
}

#[test]
fn what_is_allowed_beside_the_properties_counts_for_no_schema() {
    let properties: serde_json::Map<String, Value> =
        (0..1_999).map(|n| (format!("p{n}"), json!({}))).collect();
    check(
        json!({"/parameters": {"type": "object", "additionalProperties": false, "properties": properties}}),
        expect![[r#""#]],
    );
}

#[test]
fn the_programs_own_id_is_taken() {
    let folder = Folder::new();
    folder.tool("describe-tool", &manifest("describe_tool"));
    expect!["tools/describe-tool/schema.json:32:3: error: `describe_tool` is the program's own tool, which returns the guides of the others (give the tool another id and directory)"].assert_eq(&folder.problems());
}
