//! Tools that are offered under a condition, and calls that ask under one: a real server, by chat and by voice, and what its audit says.

use crate::access::{key, with};
use crate::chat::chat_with;
use crate::support::change::{Changes, write_tool};
use crate::support::http::post_with;
use crate::support::model_server::Says;
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};

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
    let audit = std::fs::read_to_string(data.path().join("audit.jsonl")).unwrap();
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
