//! Conditions in a `schema.json`: what their authors are told, what the examples of guides come to, and what a configuration changes.

use crate::fixture::{Folder, GUIDE, manifest_with};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use windlass_compile::{Configured, Source, Vocabulary, configured, is_current};
use windlass_contract::condition::Values;
use windlass_contract::id::ToolId;
use windlass_contract::kind::Mode;
use windlass_contract::rights::Role;
use windlass_contract::tightening::Tightening;

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
fn a_word_that_the_schema_does_not_have_is_an_error_that_names_those_it_has() {
    let with_plans = |condition: &str| {
        json!({
            "/parameters/properties/plan": {"type": "string", "enum": ["basic", "premium"]},
            "/parameters/properties/level": {"enum": [1, 2.5]},
            "/parameters/properties/form": {"const": "short"},
            "/parameters/properties/tags": {"type": "array", "items": {"enum": ["new", "old"]}},
            "/parameters/properties/either": {"$ref": "#/$defs/either"},
            "/parameters/$defs": {"either": {"type": ["string", "null"], "enum": ["left", "right", null]}},
            "/parameters/required": ["title", "amount", "plan", "level", "form", "tags", "either"],
            "/requiresConfirmation": {"condition": condition},
        })
    };
    check(
        with_plans(
            "args.plan == \"premum\" || args.plan in ('basic', 'free') || args.level != 3 || args.form == 'long' || 'odd' in args.tags || args.either == 'up'",
        ),
        expect![[r#"
            tools/some-tool/schema.json:81:5: error: at column 102 of the condition: it is never "odd" (did you mean "old"?)
            tools/some-tool/schema.json:81:5: error: at column 139 of the condition: it is never "up" (it is one of left, right)
            tools/some-tool/schema.json:81:5: error: at column 14 of the condition: it is never "premum" (did you mean "premium"?)
            tools/some-tool/schema.json:81:5: error: at column 39 of the condition: it is never "free" (it is one of basic, premium)
            tools/some-tool/schema.json:81:5: error: at column 74 of the condition: it is never 3 (it is one of 1, 2.5)
            tools/some-tool/schema.json:81:5: error: at column 92 of the condition: it is never "long" (it is one of short)"#]],
    );
    check(
        with_plans(
            "args.plan == 'premium' || args.level >= 2 || args.level == 2.50 || 'old' in args.tags || args.either != 'left'",
        ),
        expect![""],
    );
}

/// The words of the knowledge base that is served take the place of an enum, and nobody knows them when tools are compiled.
#[test]
fn a_word_of_a_vocabulary_is_no_error() {
    let mut folder = folder(json!({
        "/parameters/properties/kind": {"type": "string", "enum": ["faq"]},
        "/parameters/required": ["title", "amount", "kind"],
        "/requiresConfirmation": {"condition": "args.kind == 'recipe'"},
    }));
    let problems = folder.problems();
    assert!(problems.contains("it is never \"recipe\""), "{problems}");
    let vocabulary = Vocabulary {
        pointer: "/properties/kind",
        values: vec!["recipe".to_owned()],
        default: None,
    };
    let tool = ToolId::parse("some_tool").unwrap();
    folder.vocabularies.insert(tool, vec![vocabulary]);
    assert_eq!(folder.problems(), "");
}

#[test]
fn what_leads_astray_is_no_cure() {
    check(
        json!({
            "/parameters/properties/guests": {"type": "array", "items": {"type": "string"}},
            "/parameters/properties/top-k": {"type": "integer"},
            "/parameters/required": ["title", "amount", "guests", "top-k"],
            "/availability": {"condition": "arguments.title == 'x'"},
            "/requiresConfirmation": {"condition": "args.guests > 3 || args[\"top-k\"] > 3"},
        }),
        expect![[r#"
            tools/some-tool/schema.json:7:5: error: at column 1 of the condition: there is no `arguments.title` (the names are user.isAuthenticated, user.id, tenant, roles, mode, time.hour, time.weekday, config.NAME; texts stand in quotes)
            tools/some-tool/schema.json:49:5: error: at column 1 of the condition: a list of texts is compared as if it were one value (write args.guests.length for how many it has, or a number, in and args.guests)"#]],
    );
    check(
        json!({
            "/availability": {"condition": "args == 1"},
            "/requiresConfirmation": {"condition": "args.amount > 1 && context.args.top-k > 3"},
        }),
        expect![[r#"
            tools/some-tool/schema.json:7:5: error: at column 1 of the condition: there is no `args` (leave args out: availability is judged before there is a call)
            tools/some-tool/schema.json:38:5: error: at column 36 of the condition: nobody expects `-` here (conditions compare, and do not reckon; a name with a hyphen is written args["top-k"])"#]],
    );
    check(
        json!({
            "/availability": {"condition": "config.top-k > 3"},
            "/requiresConfirmation": {"condition": "args.amount - 3 > 1"},
        }),
        expect![[r#"
            tools/some-tool/schema.json:7:5: error: at column 11 of the condition: nobody expects `-` here (names under [condition_values] have letters, digits and _ alone)
            tools/some-tool/schema.json:38:5: error: at column 13 of the condition: nobody expects `-` here (conditions compare, and do not reckon: write the value itself)"#]],
    );
}

#[test]
fn a_condition_that_decides_nothing_is_warned_of() {
    check(
        json!({
            "/availability": {"condition": "mode != 'text' || mode != 'voice'"},
            "/requiresConfirmation": {"condition": "args.amount > 10 && args.amount < 5"},
        }),
        expect![[r#"
            tools/some-tool/schema.json:7:5: warning: the condition always holds, so that the tool is withheld from nobody (leave `availability` out, or mend the condition)
            tools/some-tool/schema.json:38:5: warning: the condition never holds, so that no call asks by it (write false, or mend the condition)"#]],
    );
    check(
        json!({
            "/allowedModes": ["voice"],
            "/availability": {"condition": "mode == 'text'"},
            "/requiresConfirmation": {"condition": "mode == 'voice' && args.amount > 1"},
        }),
        expect![[r#"
            tools/some-tool/schema.json:6:5: warning: the condition reads `mode`, and the tool is for voice alone, so that it never holds (leave `mode` out of the condition, or allow the other mode, too)
            tools/some-tool/schema.json:37:5: warning: the condition reads `mode`, and the tool is for voice alone (leave `mode` out of the condition, or allow the other mode, too)"#]],
    );
}

#[test]
fn an_author_says_why_the_user_is_asked() {
    check(
        json!({"/requiresConfirmation": {"condition": "args.amount > 1", "because": "More than one is dear."}}),
        expect![""],
    );
    check(
        json!({"/requiresConfirmation": {"condition": "args.amount > 1", "because": " "}}),
        expect![[r#"
            tools/some-tool/schema.json:35:5: error: `because` is no text that people can read (say in 1 to 500 characters why the user is asked)"#]],
    );
}

const EXAMPLES: &str = "## Examples\n\n```json\n{\"title\": \"a\", \"amount\": 101}\n```\n\n```json\n{\"title\": \"b\", \"amount\": 100}\n```\n";

fn in_configuration(changes: Value, tightening: Tightening) -> Configured {
    let folder = folder(changes);
    folder.file("some-tool/guide.md", format!("{GUIDE}\n{EXAMPLES}"));
    let tool = ToolId::parse("some_tool").unwrap();
    let tightenings = BTreeMap::from([(tool, tightening)]);
    let compilation = folder.compile();
    let artifact = compilation
        .artifact
        .unwrap_or_else(|| panic!("{:?}", compilation.problems));
    configured(&artifact, &folder.values, &tightenings)
}

/// What the examples come to for those who have not signed in, and for those who have.
fn outcomes(condition: &str, tightening: Tightening, expected: [[&str; 2]; 2]) {
    let changes = json!({"/requiresConfirmation": {"condition": condition}});
    let configured = in_configuration(changes, tightening);
    let examples = configured.consents.values().next().unwrap();
    let found: Vec<[&str; 2]> = examples
        .iter()
        .filter(|one| one.arguments["amount"].is_number())
        .map(|one| [&*one.anonymous, &*one.signed_in])
        .collect();
    assert_eq!(found, expected, "{condition}");
}

#[test]
fn the_examples_of_a_guide_are_judged_as_far_as_anybody_knows() {
    let none = Tightening::default;
    let asks = ["asks", "asks"];
    outcomes(
        "args.amount > config.limit || !user.isAuthenticated",
        none(),
        [asks, ["asks", "does not ask"]],
    );
    outcomes(
        "user.id in ('user:ada', 'user:eve') && args.amount > 100",
        none(),
        [["depends on user.id"; 2], ["does not ask"; 2]],
    );
    outcomes(
        "args.amount > 100 || time.hour < 9 || !('staff' in roles)",
        none(),
        [asks, ["asks", "depends on roles and time.hour"]],
    );
    outcomes(
        "mode == 'voice' && tenant == 'acme' || time.weekday == 'sunday'",
        none(),
        [["depends on mode and tenant and time.weekday"; 2]; 2],
    );
}

#[test]
fn the_examples_of_a_guide_are_judged_as_the_configuration_has_the_tool() {
    let staff = || Some([Role::parse("staff").unwrap()].into());
    let condition = "mode == 'voice' || args.amount > 100";
    for (condition, tightening, expected) in [
        (
            condition,
            Tightening {
                requires_confirmation: Some(true),
                ..Tightening::default()
            },
            [["asks, because the configuration says so"; 2]; 2],
        ),
        (
            condition,
            Tightening {
                allowed_modes: Some(vec![Mode::Text]),
                ..Tightening::default()
            },
            [["asks"; 2], ["does not ask"; 2]],
        ),
        (
            "!('staff' in roles) && args.amount > 100",
            Tightening {
                roles: staff(),
                ..Tightening::default()
            },
            [["is refused", "does not ask"]; 2],
        ),
        (
            "args.amount > 100",
            Tightening {
                requires_auth: Some(true),
                ..Tightening::default()
            },
            [["is refused", "asks"], ["is refused", "does not ask"]],
        ),
    ] {
        outcomes(condition, tightening, expected);
    }
}

#[test]
fn what_a_configuration_may_not_say_of_a_tool_is_told_when_it_is_checked() {
    let said = |changes: Value, tightening: Tightening| {
        let configured = in_configuration(changes, tightening);
        let lines = configured.problems.iter().map(ToString::to_string);
        lines.collect::<Vec<_>>().join("\n")
    };
    let condition = || json!({"/requiresConfirmation": {"condition": "mode == 'voice'"}});
    let looser = Tightening {
        requires_confirmation: Some(false),
        ..Tightening::default()
    };
    expect![[r#"[tools.some_tool] of the configuration: error: the configuration would loosen the tool some_tool: requires_confirmation is true in its schema.json (it may only make a tool stricter)"#]]
        .assert_eq(&said(condition(), looser));
    let by_text = Tightening {
        allowed_modes: Some(vec![Mode::Text]),
        ..Tightening::default()
    };
    expect![[r#"[tools.some_tool] of the configuration: warning: requiresConfirmation: the condition reads `mode`, and the tool is for text alone, so that it never holds (leave `mode` out of the condition, or allow the other mode, too)"#]]
        .assert_eq(&said(condition(), by_text));
    let folder = folder(json!({}));
    let other = BTreeMap::from([(ToolId::parse("some_tol").unwrap(), Tightening::default())]);
    let artifact = folder.compile().artifact.unwrap();
    let problems = configured(&artifact, &folder.values, &other).problems;
    expect![[r#"[tools.some_tol] of the configuration: error: the configuration speaks of the tool some_tol, which does not exist (did you mean some_tool?)"#]]
        .assert_eq(&problems[0].to_string());
}

#[test]
fn sensitive_arguments_are_no_part_of_what_is_told_of_examples() {
    let configured = in_configuration(
        json!({
            "/sensitive": ["/title"],
            "/requiresConfirmation": {"condition": "args.title == 'a'"},
        }),
        Tightening::default(),
    );
    let examples = configured.consents.values().next().unwrap();
    let shown: Vec<String> = examples
        .iter()
        .map(|one| one.arguments.to_string())
        .collect();
    assert!(
        shown.iter().any(|one| one.contains("101"))
            && !shown.iter().any(|one| one.contains("title")),
        "{shown:?}"
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
