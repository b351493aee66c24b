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
    check(
        by(json!(["/foldr"])),
        json!({}),
        expect![[r#"
            tools/some-tool/schema.json:43:7: error: `/foldr` names no argument (did you mean "/folder"?)"#]],
    );
    check(
        by(json!(["folder"])),
        json!({}),
        expect![[r#"
            tools/some-tool/schema.json:43:7: error: `folder` is not a JSON pointer to an argument (write a slash and the argument's name, such as "/folder", with ~1 for a slash and ~0 for a tilde in the name)"#]],
    );
    check(
        by(json!(["/to/shelf"])),
        json!({}),
        expect![[r#"
            tools/some-tool/schema.json:43:7: error: `/to/shelf` points into the argument `to`, and whole values are compared (name the whole argument: "/to")"#]],
    );
    check(
        by(json!(["/note"])),
        json!({}),
        expect![[r#"
            tools/some-tool/schema.json:43:7: error: `/note` names an optional argument, which calls may leave out (add it to `required` of the parameters, give it a default, or take it off the list)"#]],
    );
    check(
        by(json!(["/folder", "/folder"])),
        json!({}),
        expect![[r#"
            tools/some-tool/schema.json:44:7: error: `/folder` is there twice (write it once)"#]],
    );
}

#[test]
fn what_nobody_may_see_is_nothing_to_agree_to() {
    check(
        by(json!(["/folder", "/copies"])),
        json!({"/sensitive": ["/folder"]}),
        expect![[r#"
            tools/some-tool/schema.json:43:7: error: `/folder` is sensitive, so that nobody could be shown what was agreed to (take it off this list, or off the list `sensitive`)"#]],
    );
}

#[test]
fn what_the_condition_reads_has_to_be_the_same() {
    check(
        by(json!(["/folder"])),
        json!({"/requiresConfirmation": {"condition": "args.copies > 3 && args.folder != 'x'"}}),
        expect![[r#"
            tools/some-tool/schema.json:42:5: error: the condition of `requiresConfirmation` reads the argument `copies`, which may differ from call to call (add "/copies" to the list)"#]],
    );
}

#[test]
fn a_tool_whose_user_is_not_asked_remembers_nothing() {
    check(
        by(json!(["/folder"])),
        json!({"/requiresConfirmation": false}),
        expect![[r#"
            tools/some-tool/schema.json:41:3: error: `remember` means nothing for a tool that asks nobody (remove it, or write "requiresConfirmation": true)"#]],
    );
    check(
        by(json!(["/folder"])),
        json!({"/permissions": {"approverRoles": ["manager"]}}),
        expect![[r#"
            tools/some-tool/schema.json:46:3: error: `remember` and `approverRoles` exclude each other: another person approves each call (remove one of them)"#]],
    );
}

#[test]
fn its_members_are_few_and_have_limits() {
    let many: Vec<String> = (0..9).map(|number| format!("/a{number}")).collect();
    check(
        by(json!([])),
        json!({}),
        expect![[r#"
            tools/some-tool/schema.json:42:5: error: `remember` names 0 arguments (name 1 to 8: a yes holds for calls in which they are the same)"#]],
    );
    check(
        by(json!(many)),
        json!({}),
        expect![[r#"
            tools/some-tool/schema.json:42:5: error: `remember` names 9 arguments (name 1 to 8: a yes holds for calls in which they are the same)"#]],
    );
    for minutes in [0, 1_441] {
        check(
            json!({"scope": "session", "arguments": ["/folder"], "minutes": minutes}),
            json!({}),
            expect![[r#"
            tools/some-tool/schema.json:45:5: error: `minutes` is no number of minutes for which a user could be taken at their word (write 1 to 1440, or leave it out)"#]],
        );
    }
    check(
        json!({"scope": "forever", "arguments": ["/folder"]}),
        json!({}),
        expect![[r#"
            tools/some-tool/schema.json:41:3: error: `remember` does not say what may be remembered: unknown variant `forever`, expected `session` (write {"scope": "session", "arguments": ["/folder"]} with the arguments whose values have to be the same, and "minutes" where a session is too long)"#]],
    );
    check(
        json!({"scope": "session", "arguments": ["/folder"], "untilRevoked": true}),
        json!({}),
        expect![[r#"
            tools/some-tool/schema.json:41:3: error: `remember` does not say what may be remembered: unknown field `untilRevoked`, expected one of `scope`, `arguments`, `minutes` (write {"scope": "session", "arguments": ["/folder"]} with the arguments whose values have to be the same, and "minutes" where a session is too long)"#]],
    );
    check(
        json!({"scope": "session"}),
        json!({}),
        expect![[r#"
            tools/some-tool/schema.json:41:3: error: `remember` does not say what may be remembered: missing field `arguments` (write {"scope": "session", "arguments": ["/folder"]} with the arguments whose values have to be the same, and "minutes" where a session is too long)"#]],
    );
    check(
        json!(true),
        json!({}),
        expect![[r#"
            tools/some-tool/schema.json:41:3: error: `remember` does not say what may be remembered: invalid type: boolean `true`, expected struct Remember (write {"scope": "session", "arguments": ["/folder"]} with the arguments whose values have to be the same, and "minutes" where a session is too long)"#]],
    );
}
