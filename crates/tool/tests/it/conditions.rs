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
        expect![[r#"
            tools/some-tool/schema.json:7:5: error: at column 1 of the condition: the configuration lists no value `closed` (list it under [condition_values] in windlass.toml, as in closed = true)
            tools/some-tool/schema.json:7:5: error: at column 18 of the condition: the arguments are not known before there is a call (leave args out here; requiresConfirmation may name them)
            tools/some-tool/schema.json:7:5: error: at column 49 of the condition: a text has no order (compare it with == or !=, or compare numbers)
            tools/some-tool/schema.json:38:5: error: at column 1 of the condition: there is no argument `args.amuont` (did you mean `amount`?)
            tools/some-tool/schema.json:38:5: error: at column 34 of the condition: a number is compared with a text, which it never is (compare values of one kind; a text stands in quotes, and a number does not)"#]],
    );
    check(
        json!({
            "/availability": {"condition": "user.isAuthenticated and mode == 'voice'", "otherwise": ""},
            "/requiresConfirmation": {"condition": "args.amount = 100"},
        }),
        expect![[r#"
            tools/some-tool/schema.json:7:5: error: at column 22 of the condition: nobody expects `and` here (write && for and)
            tools/some-tool/schema.json:8:5: error: `otherwise` is no text that people can read (say in 1 to 500 characters what would make the tool available)
            tools/some-tool/schema.json:39:5: error: at column 13 of the condition: `=` means nothing here (write == to compare)"#]],
    );
    check(
        json!({
            "/availability": {"condition": format!("mode == '{}'", "x".repeat(10_000))},
            "/requiresConfirmation": {"condition": format!("{}true{}", "(".repeat(1_000), ")".repeat(1_000))},
        }),
        expect![[r#"
            tools/some-tool/schema.json:7:5: error: at column 1 of the condition: the condition is 10010 bytes long, and 4000 are the limit (shorten it, or let the handler decide the rest)
            tools/some-tool/schema.json:38:5: error: at column 33 of the condition: brackets and ! stand more than 32 deep in one another (write it flatter: && binds more than ||)"#]],
    );
    check(
        json!({"/availability": "user.isAuthenticated", "/requiresConfirmation": {"when": "true"}}),
        expect![[r#"
            tools/some-tool/schema.json:6:3: error: `availability` is a string, not an object (write {"condition": "user.isAuthenticated", "otherwise": "Sign in first."})
            tools/some-tool/schema.json:35:3: error: `requiresConfirmation` has no member `when` (write true, false, or {"condition": "args.amount > 100"})"#]],
    );
    check(
        json!({"/availability": {"if": "true"}, "/requiresConfirmation": {}}),
        expect![[r#"
            tools/some-tool/schema.json:6:3: error: `availability` has no member `if` (write {"condition": "user.isAuthenticated", "otherwise": "Sign in first."})
            tools/some-tool/schema.json:37:3: error: `requiresConfirmation` has no text `condition` (write true, false, or {"condition": "args.amount > 100"})"#]],
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
