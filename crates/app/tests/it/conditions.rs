//! Tools that are offered under a condition, and calls that ask under one: a real server, by chat and by voice, and what its audit says.

use crate::access::{key, with};
use crate::chat::{chat_with, chunks, question};
use crate::support::change::{Changes, write_tool};
use crate::support::config;
use crate::support::http::{get, post, post_with};
use crate::support::model_server::Says;
use crate::support::program::{command, run};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use windlass_app::server::{Setup, start};
use windlass_contract::condition::LocalClock;
use windlass_contract::id::ToolId;

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

#[tokio::test(flavor = "multi_thread")]
async fn external_content_is_a_reason_to_ask_only_where_the_tool_has_none() {
    const OTHERS: &str = "text that others wrote is in the conversation";
    for (asks, expected) in [
        (json!(true), Value::Null),
        (json!(false), json!(OTHERS)),
        (
            json!({"condition": "args.what == 'one'", "because": "It is one."}),
            json!("It is one."),
        ),
        (json!({"condition": "args.what == 'two'"}), json!(OTHERS)),
    ] {
        let tools = tempfile::tempdir().unwrap();
        write_tool(tools.path(), json!({ "requiresConfirmation": asks }));
        let look = tools.path().join("look");
        fs::create_dir(&look).unwrap();
        let schema = json!({
            "toolId": "look", "version": "1.0.0", "description": "Looks.", "category": "retrieval",
            "sideEffects": "read_only", "reach": "external", "allowedModes": ["text"],
            "parameters": {"type": "object", "properties": {}, "additionalProperties": false},
        });
        fs::write(look.join("schema.json"), schema.to_string()).unwrap();
        fs::write(look.join("guide.md"), "# look\n\nLooks.\n").unwrap();
        let changes = Changes::new();
        let keys = [("folders.tools", tools.path().to_str().unwrap())];
        let looks_first = |last: &Value| match last["content"].to_string().contains("Look.") {
            true => Says::Calls("look", json!({})),
            false => rule(last),
        };
        let mut handlers = changes.handlers();
        let handler = handlers.values().next().unwrap().clone();
        handlers.insert(ToolId::parse("look").unwrap(), handler);
        let chat = chat_with(looks_first, &keys, handlers).await;
        chat.ask(&json!({"id": "c", "message": "Look."}));
        let asked = question(&chat.ask(&json!({"id": "c", "message": "Change one."})));
        assert_eq!(asked["because"], expected, "{asks}");
        let listed = get(&chat.address, "/api/conversations/c");
        let listed: Value = serde_json::from_str(&listed.body).unwrap();
        assert_eq!(listed["questions"][0]["because"], expected, "{asks}");
    }
}

/// 14 hours before UTC, where the servers of tests are not.
const FAR_ZONE: &str = "Pacific/Kiritimati";

/// A condition that holds now and for an hour more in [`FAR_ZONE`], and nowhere near.
fn holds_far_away() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let clock = LocalClock::new([(0, 14 * 3_600)]);
    let hour = clock.at(now.as_millis().try_into().unwrap()).hour;
    format!("time.hour in ({hour}, {})", (hour + 1) % 24)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_judged_by_the_clock_of_the_session_that_asked() {
    let tools = tempfile::tempdir().unwrap();
    write_tool(
        tools.path(),
        json!({
            "availability": {"condition": holds_far_away()},
            "requiresConfirmation": {"condition": "args.what != 'three'", "because": "It is one of two."},
        }),
    );
    let changes = Changes::new();
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_with(rule, &keys, changes.handlers()).await;
    let ask = |id: &str, zone: Option<&str>| {
        let mut body = json!({"id": id, "message": "Change one."});
        body["timeZone"] = zone.into();
        chat.ask(&body)
    };
    let nearby = ask("near", None);
    assert!(nearby.body.contains("MODE_RESTRICTED"), "{}", nearby.body);
    let asked = question(&ask("far", Some(FAR_ZONE)));
    assert_eq!(asked["because"], "It is one of two.");
    let listed = get(&chat.address, "/api/conversations/far");
    let listed: Value = serde_json::from_str(&listed.body).unwrap();
    assert_eq!(listed["questions"][0]["because"], "It is one of two.");
    let confirm = |zone: Value| {
        let body = json!({
            "conversationId": "far", "token": asked["token"], "approved": true, "timeZone": zone
        });
        post(&chat.address, "/api/confirm", body.to_string().as_bytes())
    };
    let refused = confirm(json!("Atlantis/Poseidonis"));
    assert!(
        refused.status == 400 && refused.body.contains("timeZone: there is no time zone"),
        "{}",
        refused.body
    );
    assert_eq!(changes.made(), [""; 0]);
    let confirmed = confirm(Value::Null);
    assert_eq!(confirmed.status, 200, "{}", confirmed.body);
    assert_eq!(changes.made(), ["one"]);
    let data = chat.close().await;
    let audit = fs::read_to_string(data.path().join("audit.jsonl")).unwrap();
    let consents: Vec<Value> = audit
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["toolId"] == "change")
        .map(|line| line["consent"].clone())
        .collect();
    assert_eq!(
        consents,
        [
            Value::Null,
            json!("the condition holds: args.what != 'three'"),
            json!("It is one of two."),
            // What was approved runs, and is not asked about.
            Value::Null,
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_call_is_shown_with_what_the_model_wrote() {
    let tools = tempfile::tempdir().unwrap();
    write_tool(
        tools.path(),
        json!({"availability": {"condition": "user.isAuthenticated"}}),
    );
    let changes = Changes::new();
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_with(
        |last| match last["role"] == "user" {
            true if last["content"].to_string().contains("Fly.") => {
                Says::Calls("fly", json!({"to": "the moon"}))
            }
            true => Says::Calls("change", json!({"what": "one"})),
            false => Says::Words("It cannot be done."),
        },
        &keys,
        changes.handlers(),
    )
    .await;
    for (words, input) in [
        ("Change one.", json!({"what": "one"})),
        ("Fly.", json!({"to": "the moon"})),
    ] {
        let answer = chat.ask(&json!({"id": words, "message": words}));
        let call = chunks(&answer)
            .into_iter()
            .find(|chunk| chunk["type"] == "tool-input-available");
        assert_eq!(call.unwrap()["input"], input, "{}", answer.body);
    }
    write_secret_tool(tools.path());
    let secret = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_with(
        |last| match last["role"] == "user" {
            true => Says::Calls("change", json!({"waht": "purloined-4711"})),
            false => Says::Words("It cannot be done."),
        },
        &secret,
        changes.handlers(),
    )
    .await;
    let answer = chat.ask(&json!({"id": "secret", "message": "Change it."}));
    assert!(!answer.body.contains("purloined-4711"), "{}", answer.body);
}

/// The same tool with an argument that nobody else is to see.
fn write_secret_tool(tools: &Path) {
    write_tool(tools, json!({"sensitive": ["/what"]}));
}

/// A tool that is for writing alone by its condition is one all the same: what is typed is answered in writing.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_for_writing_alone_also_by_its_condition() {
    for (fields, typed) in [
        (
            json!({"allowedModes": ["text"], "availability": {"condition": "user.isAuthenticated"}}),
            true,
        ),
        (
            json!({"allowedModes": ["text", "voice"], "availability": {"condition": "mode == 'text' && user.isAuthenticated"}}),
            true,
        ),
        (
            json!({"allowedModes": ["text", "voice"], "availability": {"condition": "user.isAuthenticated"}}),
            false,
        ),
        (
            json!({"allowedModes": ["text", "voice"], "availability": {"condition": "mode == 'voice'"}}),
            false,
        ),
    ] {
        let tools = tempfile::tempdir().unwrap();
        write_tool(tools.path(), fields.clone());
        let data = tempfile::tempdir().unwrap();
        let keys = [("folders.tools", tools.path().to_str().unwrap())];
        let server = start(Setup {
            config: config(data.path(), &keys),
            handlers: Changes::new().handlers(),
            watch: false,
        })
        .await
        .unwrap();
        let info = get(&server.address().to_string(), "/api/info");
        let info: Value = serde_json::from_str(&info.body).unwrap();
        assert_eq!(info["text"]["typed"], typed, "{fields} {info}");
        server.shut_down().await;
    }
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
        "  {\"amount\":20}: is not available if the user has not signed in, else does not ask",
        "  {\"amount\":500}: is not available if the user has not signed in, else asks",
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
fn a_check_judges_by_what_the_configuration_says_of_a_tool() {
    let folder = folder_with_gated_tool();
    let values = fs::read_to_string(folder.path().join("windlass.toml")).unwrap();
    for (table, code, line) in [
        (
            "[tools.gated]\nrequires_confirmation = true\n",
            0,
            "  {\"amount\":20}: is not available if the user has not signed in, else asks, because the configuration says so",
        ),
        (
            "[tools.gated]\nrequires_auth = true\n",
            0,
            "  {\"amount\":20}: is refused if the user has not signed in, else does not ask",
        ),
        (
            "[tools.gated]\nrequires_confirmation = false\n",
            1,
            "requires_confirmation is true in its schema.json (it may only make a tool stricter)",
        ),
        (
            "[tools.gatd]\nrequires_confirmation = true\n",
            1,
            "the configuration speaks of the tool gatd, which does not exist (did you mean gated?)",
        ),
    ] {
        fs::write(
            folder.path().join("windlass.toml"),
            format!("{values}{table}"),
        )
        .unwrap();
        let checked = run(command(folder.path()).arg("check"));
        let said = checked.problems.join("\n") + &checked.output;
        assert_eq!(checked.code, code, "{table} {said}");
        assert!(said.contains(line), "{table} {said}");
    }
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
