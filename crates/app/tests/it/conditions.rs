//! Tools that are offered under a condition, and calls that ask under one: a real server, by chat and by voice, and what its audit says.

use crate::access::{key, with};
use crate::chat::chat_with;
use crate::support::change::{Changes, write_tool};
use crate::support::http::post_with;
use crate::support::model_server::Says;
use crate::support::program::{command, run};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;

const OFFERED: &str = "context.user.isAuthenticated && config.region === 'north'";
const ASKED: &str = "args.what == 'two' || !('staff' in roles)";

/// Changes what the user wants changed.
fn rule(last: &Value) -> Says {
    let said = last["content"].to_string();
    if last["role"] != "user" {
        return Says::Words("So it is.");
    }
    let what = if said.contains("Change two.") {
        "two"
    } else {
        "one"
    };
    Says::Calls("change", json!({ "what": what }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_for_those_for_whom_its_condition_holds_and_asks_as_its_condition_says() {
    let tools = tempfile::tempdir().unwrap();
    write_tool(
        tools.path(),
        json!({
            "allowedModes": ["text", "voice"],
            "availability": {"condition": OFFERED, "otherwise": "Sign in first."},
            "requiresConfirmation": {"condition": ASKED},
        }),
    );
    let changes = Changes::new();
    let keys = [
        ("folders.tools", tools.path().to_str().unwrap()),
        ("condition_values.region", "north"),
    ];
    let chat = chat_with(rule, &keys, changes.handlers()).await;
    let data = chat.data.path();
    let guest = key(data, &["guest", "--user", "gus"]);
    let staff = key(data, &["staff", "--user", "ada", "--role", "staff"]);
    let (guest, staff) = (with(&guest), with(&staff));
    let ask = |headers: &[(&str, &str)], id: &str, message: &str| {
        let body = json!({"id": id, "message": message}).to_string();
        loop {
            let answer = post_with(&chat.address, "/api/chat", headers, body.as_bytes());
            // Keys count a moment after they were made.
            if answer.status != 401 {
                return answer;
            }
        }
    };
    for (headers, id, message, expected) in [
        (&[][..], "nobody", "Change one.", "MODE_RESTRICTED"),
        (&guest, "guest", "Change one.", "CONFIRMATION_REQUIRED"),
        (&staff, "staff", "Change one.", "\\\"done\\\":true"),
        (&staff, "careful", "Change two.", "CONFIRMATION_REQUIRED"),
    ] {
        let requests = chat.model.seen().len();
        ask(headers, id, message);
        let seen = chat.model.seen();
        let first = &seen[requests];
        let is_offered = id != "nobody";
        assert_eq!(
            first["tools"].to_string().contains("\"change\""),
            is_offered,
            "{id}"
        );
        let instruction = first["messages"][0]["content"].to_string();
        assert_eq!(
            instruction.contains("## change\\n"),
            is_offered,
            "{id} {instruction}"
        );
        let told = seen[requests + 1]["messages"].to_string();
        assert!(told.contains(expected), "{id} {told}");
        assert_eq!(told.contains("Sign in first."), !is_offered, "{id} {told}");
    }
    assert_eq!(changes.made(), ["one"]);

    for (headers, is_offered) in [(&[][..], false), (&staff, true)] {
        let mut client = VoiceClient::connect(&chat.address, headers).await.unwrap();
        client.send(json!({"type": "start"})).await;
        let started = client.expect("started").await;
        let is_named = started["tools"].to_string().contains("\"change\"");
        assert_eq!(is_named, is_offered, "{started}");
    }

    let data = chat.close().await;
    let audit = fs::read_to_string(data.path().join("audit.jsonl")).unwrap();
    let lines = audit
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_change: Vec<(String, String)> = lines
        .filter(|line| line["toolId"] == "change")
        .map(|line| {
            let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            (word("errorType"), word("consent"))
        })
        .collect();
    let because = |holds: &str| format!("the condition {holds}: {ASKED}");
    assert_eq!(
        of_change,
        [
            ("MODE_RESTRICTED".to_owned(), String::new()),
            ("CONFIRMATION_REQUIRED".to_owned(), because("holds")),
            (String::new(), because("does not hold")),
            ("CONFIRMATION_REQUIRED".to_owned(), because("holds")),
        ]
    );
}

/// A tool that a script runs, in a folder that has its own `tools` and `kb`.
fn folder_with_gated_tool() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("tools/gated");
    fs::create_dir_all(&directory).unwrap();
    fs::create_dir_all(folder.path().join("kb")).unwrap();
    let schema = json!({
        "description": "Moves money.", "sideEffects": "writes",
        "availability": {"condition": "user.isAuthenticated && config.open", "otherwise": "Sign in first."},
        "requiresConfirmation": {"condition": "args.amount > config.limit"},
        "parameters": {
            "type": "object", "additionalProperties": false, "required": ["amount"],
            "properties": {"amount": {"type": "number"}},
        },
    });
    let guide = "# Move money\n\nMoves money.\n\n## Examples\n\n```json\n{\"amount\": 20}\n```\n\n```json\n{\"amount\": 500}\n```\n";
    let script = "export async function execute({ args }) { return { ok: true, data: { moved: args.amount } }; }\n";
    for (file, text) in [
        ("schema.json", schema.to_string().as_str()),
        ("guide.md", guide),
        ("handler.js", script),
    ] {
        fs::write(directory.join(file), text).unwrap();
    }
    let settings = "[condition_values]\nopen = true\nlimit = 100\n";
    fs::write(folder.path().join("windlass.toml"), settings).unwrap();
    folder
}

#[test]
fn the_command_line_judges_conditions_as_every_session_does() {
    let folder = folder_with_gated_tool();
    let checked = run(command(folder.path()).arg("check"));
    assert_eq!(checked.code, 0, "{:?}", checked.problems);
    for line in [
        "gated: the examples of its guide come to",
        "  {\"amount\":20}: does not ask",
        "  {\"amount\":500}: asks",
    ] {
        assert!(
            checked.output.lines().any(|said| said == line),
            "{}",
            checked.output
        );
    }
    let called = |arguments: &[&str]| {
        let done = run(command(folder.path())
            .arg("call")
            .arg("gated")
            .args(arguments));
        let response: Value = serde_json::from_str(&done.output).unwrap();
        (done.code, response)
    };
    let (code, refused) = called(&[r#"{"amount": 20}"#]);
    assert_eq!(
        (code, &refused["error"]["type"]),
        (1, &json!("MODE_RESTRICTED"))
    );
    assert_eq!(refused["error"]["details"]["code"], "NOT_AVAILABLE");
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .ends_with("Sign in first."),
        "{refused}"
    );
    let (code, small) = called(&[r#"{"amount": 20}"#, "--user", "user:ada"]);
    assert_eq!((code, &small["data"]["moved"]), (0, &json!(20)), "{small}");
    let (code, large) = called(&[r#"{"amount": 500}"#, "--user", "user:ada"]);
    assert_eq!(
        (code, &large["error"]["type"]),
        (1, &json!("CONFIRMATION_REQUIRED")),
        "{large}"
    );
}

#[test]
fn another_kind_of_value_in_the_configuration_is_an_error_of_the_tool_that_reads_it() {
    let folder = folder_with_gated_tool();
    for (settings, problem) in [
        (
            "[condition_values]\nopen = true\nlimit = \"many\"\n",
            "at column 15 of the condition: a text has no order",
        ),
        (
            "[condition_values]\nlimit = 100\n",
            "the configuration lists no value `open`",
        ),
    ] {
        fs::write(folder.path().join("windlass.toml"), settings).unwrap();
        let called = run(command(folder.path()).args(["call", "gated", "{\"amount\": 1}"]));
        assert_eq!(called.code, 1);
        let said = called.problems.join("\n") + &called.output;
        assert!(said.contains(problem), "{said}");
    }
}
