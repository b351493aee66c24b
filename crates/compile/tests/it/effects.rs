//! `effectKey` and `repeatable`: what an author is told, what the artifact and the registry hold, and which calls mean the
//! same effect.

use crate::fixture::{Folder, GUIDE, manifest, manifest_with};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_compile::artifact::{Artifact, Loaders, write_artifact};
use windlass_compile::compile_embedded;
use windlass_contract::arguments::Arguments;
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;
use windlass_contract::registry::Tool;

struct Silent;

impl Handler for Silent {
    fn execute(&self, _: Invocation) -> Execution {
        Execution::Ready(Ok(Success::default()))
    }
}

/// The changes, and a tool that writes.
fn writes(mut changes: Value) -> Value {
    let fields = changes.as_object_mut().unwrap();
    fields
        .entry("/sideEffects")
        .or_insert_with(|| json!("writes"));
    manifest_with(changes)
}

fn problems(changes: Value) -> String {
    let folder = Folder::new();
    folder.tool("some-tool", &writes(changes));
    folder.problems()
}

fn check(changes: Value, expected: Expect) {
    expected.assert_eq(&problems(changes));
}

fn check_key(effect_key: Value, expected: Expect) {
    check(json!({"/effectKey": effect_key}), expected);
}

#[test]
fn an_effect_key_is_a_list_that_names_something() {
    check_key(
        json!("/title"),
        expect![[
            r#"tools/some-tool/schema.json:8:3: error: `effectKey` is not a list of strings (write JSON pointers to required arguments, such as ["/title"])"#
        ]],
    );
    check_key(
        json!([1]),
        expect![[
            r#"tools/some-tool/schema.json:8:3: error: `effectKey` is not a list of strings (write JSON pointers to required arguments, such as ["/title"])"#
        ]],
    );
    check_key(
        json!([]),
        expect![
            "tools/some-tool/schema.json:8:3: error: `effectKey` is empty (name the arguments that say which effect is meant, or leave it out, so that all of them do)"
        ],
    );
}

#[test]
fn an_effect_key_names_arguments() {
    check_key(
        json!(["/titel"]),
        expect![[
            r#"tools/some-tool/schema.json:9:5: error: `/titel` names no argument (did you mean "/title"?)"#
        ]],
    );
    check_key(
        json!(["/nothing_like_it"]),
        expect![[
            r#"tools/some-tool/schema.json:9:5: error: `/nothing_like_it` names no argument (name a required argument of `parameters`, such as "/title")"#
        ]],
    );
    check_key(
        json!(["/ti~1~0tle"]),
        expect![[
            r#"tools/some-tool/schema.json:9:5: error: `/ti~1~0tle` names no argument (did you mean "/title"?)"#
        ]],
    );
    check_key(
        json!(["/"]),
        expect![[
            r#"tools/some-tool/schema.json:9:5: error: `/` names no argument (name a required argument of `parameters`, such as "/title")"#
        ]],
    );
}

#[test]
fn an_effect_key_names_required_arguments() {
    check_key(
        json!(["/title", "/attendees"]),
        expect![
            "tools/some-tool/schema.json:10:5: error: `/attendees` names an optional argument, which calls may leave out (add it to `required` of the parameters, or take it off the list)"
        ],
    );
    // What is said behind a reference or in an `allOf` counts as well.
    check(
        json!({
            "/effectKey": ["/title", "/room"],
            "/parameters/$defs": {"roomy": {"required": ["room"], "properties": {"room": {"type": "integer"}}}},
            "/parameters/$ref": "#/$defs/roomy",
        }),
        expect![""],
    );
}

#[test]
fn an_effect_key_names_whole_arguments() {
    check_key(
        json!(["/attendees/0"]),
        expect![[
            r#"tools/some-tool/schema.json:9:5: error: `/attendees/0` points into the argument `attendees` (name the whole argument: "/attendees")"#
        ]],
    );
    check_key(
        json!(["/title/length"]),
        expect![[
            r#"tools/some-tool/schema.json:9:5: error: `/title/length` points into the argument `title` (name the whole argument: "/title")"#
        ]],
    );
}

#[test]
fn an_effect_key_is_made_of_json_pointers() {
    check_key(
        json!(["title"]),
        expect![[
            r#"tools/some-tool/schema.json:9:5: error: `title` is not a JSON pointer to an argument (write a slash and the argument's name, such as "/title", with ~1 for a slash and ~0 for a tilde in the name)"#
        ]],
    );
    check_key(
        json!([""]),
        expect![[
            r#"tools/some-tool/schema.json:9:5: error: `` is not a JSON pointer to an argument (write a slash and the argument's name, such as "/title", with ~1 for a slash and ~0 for a tilde in the name)"#
        ]],
    );
    check_key(
        json!(["/ti~tle"]),
        expect![[
            r#"tools/some-tool/schema.json:9:5: error: `/ti~tle` is not a JSON pointer to an argument (write a slash and the argument's name, such as "/title", with ~1 for a slash and ~0 for a tilde in the name)"#
        ]],
    );
    check_key(
        json!(["/title~"]),
        expect![[
            r#"tools/some-tool/schema.json:9:5: error: `/title~` is not a JSON pointer to an argument (write a slash and the argument's name, such as "/title", with ~1 for a slash and ~0 for a tilde in the name)"#
        ]],
    );
}

#[test]
fn an_effect_key_names_an_argument_once() {
    check_key(
        json!(["/title", "/title"]),
        expect!["tools/some-tool/schema.json:10:5: error: `/title` is there twice (write it once)"],
    );
}

#[test]
fn only_a_tool_that_writes_has_effects() {
    check(
        json!({"/sideEffects": "none", "/effectKey": ["/title"], "/repeatable": true}),
        expect![[r#"
            tools/some-tool/schema.json:8:3: error: `effectKey` means nothing for a tool that does not write (remove it, or write "sideEffects": "writes")
            tools/some-tool/schema.json:33:3: error: `repeatable` means nothing for a tool that does not write (remove it, or write "sideEffects": "writes")"#]],
    );
    check(
        json!({"/sideEffects": "read_only", "/repeatable": false}),
        expect![[
            r#"tools/some-tool/schema.json:30:3: error: `repeatable` means nothing for a tool that does not write (remove it, or write "sideEffects": "writes")"#
        ]],
    );
}

#[test]
fn a_tool_that_asks_the_user_is_not_repeatable() {
    check(
        json!({"/repeatable": true, "/requiresConfirmation": true}),
        expect![[
            r#"tools/some-tool/schema.json:30:3: error: a tool that asks the user before each call cannot be repeatable (remove it, or write "requiresConfirmation": false)"#
        ]],
    );
    check(
        json!({"/repeatable": false, "/requiresConfirmation": true}),
        expect![""],
    );
    check(
        json!({"/repeatable": "yes"}),
        expect![
            "tools/some-tool/schema.json:30:3: error: `repeatable` is a string, not a boolean (write true or false)"
        ],
    );
}

#[test]
fn one_wrong_name_in_an_effect_key_hides_nothing_about_the_others() {
    check(
        json!({
            "/sideEffects": "none", "/effectKey": ["title", "/titel", "/attendees", "/attendees/*", "/titel"],
        }),
        expect![[r#"
            tools/some-tool/schema.json:8:3: error: `effectKey` means nothing for a tool that does not write (remove it, or write "sideEffects": "writes")
            tools/some-tool/schema.json:9:5: error: `title` is not a JSON pointer to an argument (write a slash and the argument's name, such as "/title", with ~1 for a slash and ~0 for a tilde in the name)
            tools/some-tool/schema.json:10:5: error: `/titel` names no argument (did you mean "/title"?)
            tools/some-tool/schema.json:11:5: error: `/attendees` names an optional argument, which calls may leave out (add it to `required` of the parameters, or take it off the list)
            tools/some-tool/schema.json:12:5: error: `/attendees/*` points into the argument `attendees` (name the whole argument: "/attendees")
            tools/some-tool/schema.json:13:5: error: `/titel` is there twice (write it once)"#]],
    );
    // Without parameters that can be read, the pointers alone are judged.
    check(
        json!({"/parameters": [], "/effectKey": ["title", "/titel"]}),
        expect![[r#"
            tools/some-tool/schema.json:9:5: error: `title` is not a JSON pointer to an argument (write a slash and the argument's name, such as "/title", with ~1 for a slash and ~0 for a tilde in the name)
            tools/some-tool/schema.json:14:3: error: `parameters` is an array, not an object (write a JSON Schema with "type": "object" and "additionalProperties": false)"#]],
    );
}

#[test]
fn both_fields_together_are_allowed() {
    check(
        json!({"/effectKey": ["/title"], "/repeatable": true}),
        expect![""],
    );
}

#[test]
fn free_text_of_a_tool_that_writes_unasked_is_warned_about() {
    check(
        json!({}),
        expect![[
            r#"tools/some-tool/schema.json:20:7: warning: the argument `title` takes free text, so the same change in other words counts as another one (name in `effectKey` the arguments that say which effect is meant; or write "repeatable": true where twice harms nobody, false where other words mean another effect)"#
        ]],
    );
    for silent in [
        json!({"/requiresConfirmation": true}),
        json!({"/sideEffects": "read_only"}),
        json!({"/effectKey": ["/title"]}),
        json!({"/repeatable": true}),
        json!({"/repeatable": false}),
    ] {
        assert_eq!(problems(silent.clone()), "", "{silent}");
    }
}

#[test]
fn free_text_is_a_string_that_nothing_narrows() {
    let text = json!({"type": "string", "maxLength": 10});
    for (schema, is_free) in [
        (text.clone(), true),
        (json!({"type": ["string", "null"]}), true),
        (json!({"$ref": "#/$defs/text"}), true),
        (json!({"allOf": [{"$ref": "#/$defs/text"}]}), true),
        (json!({"anyOf": [{"type": "null"}, text]}), true),
        (
            json!({"type": "string", "oneOf": [{"enum": ["a"]}, {"minLength": 2}]}),
            true,
        ),
        (json!({"type": "array", "items": text}), true),
        (
            json!({"type": "array", "prefixItems": [{"type": "integer"}, text]}),
            true,
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": text}}}),
            true,
        ),
        (
            json!({"type": "object", "additionalProperties": text}),
            true,
        ),
        (json!({"type": "string", "enum": ["a", "b"]}), false),
        (json!({"const": "a"}), false),
        (json!({"type": "string", "format": "date"}), false),
        (json!({"type": "string", "pattern": "^[a-z]+$"}), false),
        (
            json!({"$ref": "#/$defs/text", "pattern": "^[a-z]+$"}),
            false,
        ),
        (
            json!({"type": "string", "anyOf": [{"enum": ["a"]}, {"format": "date"}]}),
            false,
        ),
        (json!({"type": "integer"}), false),
        (json!({"type": "array", "items": {"enum": ["a"]}}), false),
        // Nobody has said that it is a string.
        (json!({}), false),
    ] {
        let found = problems(json!({
            "/parameters/properties": {"p": schema}, "/parameters/required": null,
            "/parameters/$defs": {"text": text},
        }));
        assert_eq!(
            found.contains("takes free text"),
            is_free,
            "{schema}: {found}"
        );
        assert!(is_free || found.is_empty(), "{schema}: {found}");
    }
}

#[test]
fn the_programs_steering_tools_are_not_warned_about() {
    for (id, is_built_in, warnings) in [
        ("start_voice_session", true, 0),
        ("end_voice_session", true, 0),
        ("end_voice_session", false, 1),
        ("ignore_user", true, 1),
    ] {
        let mut folder = Folder::new();
        let mut tool = manifest(id);
        tool["sideEffects"] = json!("writes");
        let directory = id.replace('_', "-");
        folder.tool(&directory, &tool);
        if is_built_in {
            folder.build_in(id);
            std::fs::remove_file(folder.tools().join(&directory).join("handler.js")).unwrap();
        }
        let found = folder.problems().matches("takes free text").count();
        assert_eq!(found, warnings, "{id} {is_built_in}");
    }
}

/// The tool after it was written to an artifact and read back, and its line there.
fn written_and_read(changes: Value) -> (Arc<Tool>, Value) {
    let id = ToolId::parse("some_tool").unwrap();
    let mut folder = Folder::new();
    folder.build_in("some_tool");
    folder.tool("some-tool", &writes(changes));
    std::fs::remove_file(folder.tools().join("some-tool/handler.js")).unwrap();
    let artifact = folder.compile().artifact.unwrap();
    write_artifact(&artifact, &folder.artifact()).unwrap();
    let text = std::fs::read(folder.artifact()).unwrap();
    let file: Value = serde_json::from_slice(&text).unwrap();
    let loaded = Artifact::load(&folder.artifact()).unwrap();
    assert_eq!(loaded.version(), artifact.version());
    assert_eq!(loaded.to_json(), artifact.to_json());
    let handlers = BTreeMap::from([(id, Arc::new(Silent) as Arc<dyn Handler>)]);
    let registry = loaded
        .into_registry(&handlers, Loaders::default(), &BTreeMap::new())
        .unwrap();
    let tool = registry.get("some_tool").unwrap().clone();
    (tool, file["tools"][0].clone())
}

#[test]
fn both_fields_come_back_from_an_artifact() {
    let required = json!(["title", "room"]);
    let (tool, line) = written_and_read(json!({
        "/effectKey": ["/title", "/room"], "/repeatable": true, "/parameters/required": required,
        "/parameters/properties/room": {"type": "integer"},
    }));
    assert_eq!(line["effectKey"], json!(["/room", "/title"]));
    assert_eq!(line["repeatable"], json!(true));
    let key: Vec<&str> = tool.effect_key.iter().map(|name| &**name).collect();
    assert_eq!((key, tool.repeatable), (vec!["room", "title"], true));
}

#[test]
fn an_artifact_says_nothing_of_fields_that_change_nothing() {
    for changes in [json!({}), json!({"/repeatable": false})] {
        let (tool, line) = written_and_read(changes);
        assert_eq!(
            (line.get("effectKey"), line.get("repeatable")),
            (None, None)
        );
        assert!(tool.effect_key.is_empty() && !tool.repeatable);
    }
}

fn version(changes: Value) -> String {
    let folder = Folder::new();
    folder.tool("some-tool", &writes(changes));
    folder.compile().artifact.unwrap().version().to_owned()
}

#[test]
fn the_order_of_an_effect_key_changes_no_version() {
    let with = |effect_key: Value| {
        version(json!({"/effectKey": effect_key, "/parameters/required": ["attendees", "title"]}))
    };
    assert_eq!(
        with(json!(["/title", "/attendees"])),
        with(json!(["/attendees", "/title"]))
    );
    assert_eq!(version(json!({})), version(json!({"/repeatable": false})));
}

/// Each call's arguments, and what of them says which effect is meant.
fn check_effects(changes: Value, calls: &[(Value, &str)]) {
    let schema = writes(changes).to_string();
    let tool = compile_embedded(&schema, GUIDE, Arc::new(Silent)).unwrap();
    for (arguments, expected) in calls {
        let mut arguments = Arguments::from(arguments.as_object().unwrap().clone());
        assert_eq!(
            tool.effect_arguments(&arguments),
            *expected,
            "{arguments:?}"
        );
        tool.parameters.apply_defaults(&mut arguments);
        assert_eq!(
            tool.effect_arguments(&arguments),
            *expected,
            "{arguments:?}"
        );
    }
}

#[test]
fn all_arguments_say_which_effect_is_meant_but_those_that_are_as_declared() {
    check_effects(
        json!({
            "/parameters/$defs": {"size": {"type": "number", "default": 3}},
            "/parameters/properties": {
                "title": {"type": "string"},
                "count": {"$ref": "#/$defs/size"},
                "ratio": {"type": "number", "default": 0.5},
                "options": {
                    "type": "object", "default": {},
                    "properties": {"loud": {"type": "boolean", "default": false}, "name": {"type": "string"}},
                },
            },
        }),
        &[
            (json!({"title": "x"}), r#"{"title":"x"}"#),
            (
                json!({"title": "x", "count": 3, "ratio": 0.5}),
                r#"{"title":"x"}"#,
            ),
            (
                json!({"title": "x", "count": 3.0, "ratio": 5e-1}),
                r#"{"title":"x"}"#,
            ),
            (
                json!({"title": "x", "count": 4}),
                r#"{"count":4,"title":"x"}"#,
            ),
            (json!({"title": "x", "options": {}}), r#"{"title":"x"}"#),
            (
                json!({"title": "x", "options": {"loud": false}}),
                r#"{"title":"x"}"#,
            ),
            (
                json!({"title": "x", "options": {"name": "y"}}),
                r#"{"options":{"loud":false,"name":"y"},"title":"x"}"#,
            ),
            (
                json!({"ratio": 1e21, "title": "\u{1F600}\n"}),
                "{\"ratio\":1e+21,\"title\":\"\u{1F600}\"}",
            ),
            (json!({"count": 3}), "{}"),
            (json!({}), "{}"),
        ],
    );
}

#[test]
fn an_effect_key_alone_says_which_effect_is_meant() {
    check_effects(
        json!({
            "/effectKey": ["/title", "/room"], "/parameters/required": ["title", "room"],
            "/parameters/properties": {
                "title": {"type": "string", "default": "x"},
                "room": {"type": "integer"},
                "note": {"type": "string"},
                "count": {"type": "integer", "default": 1},
            },
        }),
        &[
            (
                json!({"room": 1, "title": "x"}),
                r#"{"room":1,"title":"x"}"#,
            ),
            (
                json!({"title": "x", "room": 1, "note": "in other words", "count": 5}),
                r#"{"room":1,"title":"x"}"#,
            ),
            (
                json!({"room": 2, "title": "X"}),
                r#"{"room":2,"title":"X"}"#,
            ),
            // A required argument with a default may be left out all the same.
            (json!({"room": 1}), r#"{"room":1,"title":"x"}"#),
        ],
    );
}
