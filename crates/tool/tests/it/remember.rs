//! `remember` in a `schema.json`: what its authors are told, and what is said of it to people.

use crate::fixture::{Folder, manifest_with};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

/// A tool that asks about filing, and the fields that change.
fn folder(remember: Value, changes: Value) -> Folder {
    let mut all = json!({
        "/requiresConfirmation": true,
        "/remember": remember,
        "/parameters/required": ["folder", "name"],
        "/parameters/properties": {
            "folder": {"type": "string"},
            "name": {"type": "string"},
            "note": {"type": "string"},
            "copies": {"type": "integer", "default": 1},
            "to": {"type": "object", "properties": {"shelf": {"type": "string"}}},
        },
    });
    let more = changes.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(more);
    let folder = Folder::new();
    folder.tool("some-tool", &manifest_with(all));
    folder
}

fn check(remember: Value, changes: Value, expected: Expect) {
    expected.assert_eq(&folder(remember, changes).problems());
}

fn by(arguments: Value) -> Value {
    json!({"scope": "session", "arguments": arguments})
}

#[test]
fn arguments_that_every_call_has_may_be_remembered_by() {
    check(by(json!(["/folder", "/copies"])), json!({}), expect![""]);
    check(
        json!({"scope": "session", "arguments": ["/name"], "minutes": 1_440}),
        json!({"/requiresConfirmation": {"condition": "args.name != 'x' || !user.isAuthenticated"}}),
        expect![""],
    );
}

#[test]
fn what_is_remembered_is_told_to_whoever_builds() {
    let remember = json!({"scope": "session", "arguments": ["/name", "/folder"], "minutes": 30});
    let artifact = folder(remember, json!({})).compile().artifact.unwrap();
    let told: Vec<(&str, String)> = artifact
        .remembers()
        .map(|(tool, words)| (tool.as_str(), words))
        .collect();
    assert_eq!(
        told,
        [(
            "some_tool",
            "calls with the same folder and name, until the session ends or for 30 minutes"
                .to_owned()
        )]
    );
}

#[test]
fn pointers_name_whole_arguments_that_every_call_has() {
    check(by(json!(["/foldr"])), json!({}), expect![[r#""#]]);
    check(by(json!(["folder"])), json!({}), expect![[r#""#]]);
    check(by(json!(["/to/shelf"])), json!({}), expect![[r#""#]]);
    check(by(json!(["/note"])), json!({}), expect![[r#""#]]);
    check(
        by(json!(["/folder", "/folder"])),
        json!({}),
        expect![[r#""#]],
    );
}

#[test]
fn what_nobody_may_see_is_nothing_to_agree_to() {
    check(
        by(json!(["/folder", "/copies"])),
        json!({"/sensitive": ["/folder"]}),
        expect![[r#""#]],
    );
}

#[test]
fn what_the_condition_reads_has_to_be_the_same() {
    check(
        by(json!(["/folder"])),
        json!({"/requiresConfirmation": {"condition": "args.copies > 3 && args.folder != 'x'"}}),
        expect![[r#""#]],
    );
}

#[test]
fn a_tool_whose_user_is_not_asked_remembers_nothing() {
    check(
        by(json!(["/folder"])),
        json!({"/requiresConfirmation": false}),
        expect![[r#""#]],
    );
    check(
        by(json!(["/folder"])),
        json!({"/permissions": {"approverRoles": ["manager"]}}),
        expect![[r#""#]],
    );
}

#[test]
fn its_members_are_few_and_have_limits() {
    let many: Vec<String> = (0..9).map(|number| format!("/a{number}")).collect();
    check(by(json!([])), json!({}), expect![[r#""#]]);
    check(by(json!(many)), json!({}), expect![[r#""#]]);
    for minutes in [0, 1_441] {
        check(
            json!({"scope": "session", "arguments": ["/folder"], "minutes": minutes}),
            json!({}),
            expect![[r#""#]],
        );
    }
    check(
        json!({"scope": "forever", "arguments": ["/folder"]}),
        json!({}),
        expect![[r#""#]],
    );
    check(
        json!({"scope": "session", "arguments": ["/folder"], "untilRevoked": true}),
        json!({}),
        expect![[r#""#]],
    );
    check(json!({"scope": "session"}), json!({}), expect![[r#""#]]);
    check(json!(true), json!({}), expect![[r#""#]]);
}
