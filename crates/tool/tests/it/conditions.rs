//! Conditions in a `schema.json`: what their authors are told, what the examples of guides come to, and what a configuration changes.

use crate::fixture::{Folder, GUIDE, manifest_with};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use windlass_tool::compile::{Source, is_current};
use windlass_tool::condition::Values;

fn values() -> Values {
    Values::new([
        ("open".to_owned(), json!(true)),
        ("limit".to_owned(), json!(100)),
    ])
}

/// A tool with an amount, and the fields that change.
fn folder(changes: Value) -> Folder {
    let mut all = json!({
        "/parameters/properties/amount": {"type": "number"},
        "/parameters/required": ["title", "amount"],
    });
    let more = changes.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(more);
    let mut folder = Folder::new();
    folder.values = values();
    folder.tool("some-tool", &manifest_with(all));
    folder
}

fn check(changes: Value, expected: Expect) {
    expected.assert_eq(&folder(changes).problems());
}

#[test]
fn conditions_that_the_documents_write_are_taken_as_they_are() {
    check(
        json!({
            "/availability": {
                "condition": "context.user.isAuthenticated && context.mode === 'voice'",
                "otherwise": "Sign in, and call again by voice.",
            },
            "/requiresConfirmation": {"condition": "args.amount > 100 || !user.isAuthenticated"},
        }),
        expect![""],
    );
    check(
        json!({
            "/availability": {"condition": "config.open && time.hour >= 9 && time.weekday in ('monday', 'friday')"},
            "/requiresConfirmation": {"condition": "args.amount > config.limit && !('staff' in roles)"},
        }),
        expect![""],
    );
}

#[test]
fn what_is_wrong_with_a_condition_is_said_with_its_column_and_a_cure() {
    check(
        json!({
            "/availability": {"condition": "config.closed || args.amount > 1 || time.hour > 'nine'"},
            "/requiresConfirmation": {"condition": "args.amuont > 100 || args.amount == 'ten'"},
        }),
        expect![[""]],
    );
    check(
        json!({
            "/availability": {"condition": "user.isAuthenticated and mode == 'voice'", "otherwise": ""},
            "/requiresConfirmation": {"condition": "args.amount = 100"},
        }),
        expect![[""]],
    );
    check(
        json!({
            "/availability": {"condition": format!("mode == '{}'", "x".repeat(10_000))},
            "/requiresConfirmation": {"condition": format!("{}true{}", "(".repeat(1_000), ")".repeat(1_000))},
        }),
        expect![[""]],
    );
    check(
        json!({"/availability": "user.isAuthenticated", "/requiresConfirmation": {"when": "true"}}),
        expect![[""]],
    );
    check(
        json!({"/availability": {"if": "true"}, "/requiresConfirmation": {}}),
        expect![[""]],
    );
}

#[test]
fn the_examples_of_a_guide_are_judged() {
    let folder = folder(json!({
        "/requiresConfirmation": {"condition": "args.amount > config.limit || !user.isAuthenticated"},
    }));
    let examples = "## Examples\n\n```json\n{\"title\": \"a\", \"amount\": 101}\n```\n\n```json\n{\"title\": \"b\", \"amount\": 100}\n```\n";
    folder.file("some-tool/guide.md", format!("{GUIDE}\n{examples}"));
    let compilation = folder.compile();
    let (tool, found) = compilation.consents.first_key_value().unwrap();
    assert_eq!(tool.as_str(), "some_tool");
    let found: Vec<(&Value, &str, &str)> = found
        .iter()
        .map(|one| (&one.arguments["amount"], &*one.anonymous, &*one.signed_in))
        .filter(|(amount, _, _)| !amount.is_null())
        .collect();
    assert_eq!(
        found,
        [
            (&json!(101), "asks", "asks"),
            (&json!(100), "asks", "does not ask")
        ]
    );
}

#[test]
fn another_kind_of_value_has_the_tools_built_again() {
    let mut folder = folder(json!({"/availability": {"condition": "config.open"}}));
    let artifact = folder.compile().artifact.unwrap();
    let is_current_with = |folder: &Folder| {
        is_current(
            &artifact,
            &Source {
                tools: &folder.tools(),
                artifact: &folder.artifact(),
                builtin: &folder.builtin,
                build_timestamp: "",
                vocabularies: &folder.vocabularies,
                permissions: &folder.permissions,
                values: &folder.values,
                judge: Some(&crate::fixture::Judge),
            },
        )
    };
    assert!(is_current_with(&folder));
    folder.values = Values::new([
        ("open".to_owned(), json!(false)),
        ("limit".to_owned(), json!(7)),
    ]);
    assert!(is_current_with(&folder), "what a value is changes no tool");
    folder.values = Values::new([
        ("open".to_owned(), json!("yes")),
        ("limit".to_owned(), json!(7)),
    ]);
    assert!(!is_current_with(&folder));
    let problems = folder.problems();
    assert!(
        problems
            .contains("at column 1 of the condition: a text stands where true or false is needed"),
        "{problems}"
    );
}
