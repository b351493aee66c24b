//! Where the user is: what the model reads of date and hour on each way in, and zones that do not exist.

use crate::chat::{chat, user};
use crate::support::http::{post, post_with};
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command, run};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn instruction(asked: &Value) -> String {
    asked["messages"][0]["content"].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_reads_the_hour_where_the_user_is_or_that_it_is_the_servers() {
    let chat = chat(|_| Says::Words("Hello."), &[]).await;
    let long = "Europe/".repeat(2_000);
    let hello = [json!({"role": "user", "content": "Hello."})];
    for (path, member) in [
        ("/api/chat", "timeZone"),
        ("/v1/chat/completions", "time_zone"),
    ] {
        for (zone, expected) in [
            (
                json!("Asia/Tokyo"),
                "Asia/Tokyo, UTC+09:00; the user's time zone",
            ),
            (
                json!(""),
                "; the server's time zone; the user's is not known",
            ),
            (
                Value::Null,
                "; the server's time zone; the user's is not known",
            ),
        ] {
            let mut body = match path {
                "/api/chat" => json!({"messages": [user("u", "Hello.")]}),
                _ => json!({"model": "any", "messages": hello}),
            };
            body[member] = zone;
            let answer = post(&chat.address, path, body.to_string().as_bytes());
            assert_eq!(answer.status, 200, "{}", answer.body);
            let seen = chat.model.seen();
            let read = instruction(seen.last().unwrap());
            assert!(read.contains(expected), "{path} {body}: {read}");
        }
        for zone in ["Europe/Atlantis", "../../etc/passwd", long.as_str()] {
            let mut body = json!({"model": "any", "messages": [user("u", "Hello.")]});
            if path != "/api/chat" {
                body["messages"] = json!(hello);
            }
            body[member] = json!(zone);
            let asked_before = chat.model.seen().len();
            let answer = post(&chat.address, path, body.to_string().as_bytes());
            let expected = format!("{member}: there is no time zone ");
            assert_eq!(answer.status, 400, "{}", answer.body);
            assert!(
                answer.body.contains(&expected) && answer.body.len() < 1_000,
                "{}",
                answer.body
            );
            assert_eq!(chat.model.seen().len(), asked_before);
        }
    }
    for zone in ["Europe/Atlantis", "../../etc/passwd"] {
        let mut client = VoiceClient::connect(&chat.address, &[]).await.unwrap();
        client
            .send(json!({"type": "start", "timeZone": zone}))
            .await;
        let refusal = client.expect("error").await;
        assert_eq!(refusal["code"], "bad_message");
        let said = refusal["message"].as_str().unwrap();
        assert!(
            said.starts_with("timeZone: there is no time zone "),
            "{said}"
        );
    }
    let start = json!({"type": "start", "timeZone": "Asia/Tokyo"});
    let (_client, started) = VoiceClient::start(&chat.address, start).await;
    assert_eq!(started["type"], "started");
}

/// Tools that say what they know of the time.
fn write_tools(folder: &Path) {
    let script = "export async function execute({ context }) {
  return { ok: true, data: { js: context.time, frozen: Object.isFrozen(context.time) } };
}
";
    // It says the whole line again, with what it was given.
    let program = r#"while read -r line; do id=${line#*\"id\":}; id=${id%%,*}
        printf '{"id":%s,"result":{"ok":true,"data":%s}}\n' "$id" "$line"; done"#;
    let process = json!({"kind": "process", "command": ["sh", "-c", program]}).to_string();
    for (id, file, text) in [
        ("by_script", "handler.js", script),
        ("by_process", "handler.json", process.as_str()),
    ] {
        let schema = json!({
            "toolId": id, "version": "1.0.0", "description": "Says the time.", "category": "utility",
            "sideEffects": "none", "idempotent": true, "requiresConfirmation": false, "allowedModes": ["text"],
            "latencyBudgetMs": 100, "timeoutMs": 5_000,
            "parameters": {"type": "object", "additionalProperties": false, "properties": {}},
        });
        let directory = folder.join("tools").join(id.replace('_', "-"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
        fs::write(directory.join("guide.md"), "# Time\n\nSays the time.\n").unwrap();
        fs::write(directory.join(file), text).unwrap();
    }
    let settings = "[handlers]\nprocesses = true\n\n[access]\nauth = \"required\"\n";
    fs::write(folder.join("windlass.toml"), settings).unwrap();
}

#[test]
fn a_handler_reads_the_zone_that_the_client_says_or_else_that_of_its_ticket() {
    let folder = tempfile::tempdir().unwrap();
    write_tools(folder.path());
    fs::create_dir_all(folder.path().join("kb")).unwrap();
    let model = ModelServer::start(|last| match last["role"].as_str() {
        Some("user") if last["content"].to_string().contains("script") => {
            Says::Calls("by_script", json!({}))
        }
        Some("user") => Says::Calls("by_process", json!({})),
        _ => Says::Words("Well."),
    });
    let mut keys = command(folder.path());
    let key = run(keys.args(["keys", "add", "shop", "--data", "data"]));
    let key = format!("Bearer {}", key.output.trim());
    let mut server = command(folder.path());
    server
        .args(["serve", "--listen", "127.0.0.1:0", "--tools", "tools"])
        .args(["--kb", "kb", "--data", "data", "--text-provider-url"])
        .arg(&model.url);
    let mut server = Running::start(&mut server);
    let address = server.address();
    let with = |key: &str, path: &str, body: &Value| {
        let shown = [("Authorization", key)];
        post_with(&address, path, &shown, body.to_string().as_bytes())
    };
    for (ticket_zone, said, zone) in [
        (None, None, json!(null)),
        (Some("Asia/Tokyo"), None, json!("Asia/Tokyo")),
        (None, Some("Europe/Oslo"), json!("Europe/Oslo")),
        (
            Some("Asia/Tokyo"),
            Some("Europe/Oslo"),
            json!("Europe/Oslo"),
        ),
    ] {
        for kind in ["script", "process"] {
            let wanted = json!({"user": "ada", "timeZone": ticket_zone});
            let given = with(&key, "/api/tickets", &wanted);
            assert_eq!(given.status, 200, "{}", given.body);
            let ticket: Value = serde_json::from_str(&given.body).unwrap();
            let ticket = format!("Bearer {}", ticket["ticket"].as_str().unwrap());
            let mut body = json!({"messages": [user("u", &format!("By {kind}."))]});
            body["timeZone"] = json!(said);
            let answer = with(&ticket, "/api/chat", &body);
            assert_eq!(answer.status, 200, "{}", answer.body);
            let seen = model.seen().pop().unwrap();
            let read = seen["messages"].as_array().unwrap().last().unwrap()["content"].clone();
            let read: Value = serde_json::from_str(read.as_str().unwrap()).unwrap();
            let time = match kind {
                "script" => &read["data"]["js"],
                _ => &read["data"]["params"]["context"]["time"],
            };
            assert_eq!(time["zone"], zone, "{read}");
            let offsets: &[&str] = match zone.as_str() {
                Some("Asia/Tokyo") => &["+09:00"],
                Some(_) => &["+01:00", "+02:00"],
                None => &["+", "-"],
            };
            let (_, clock) = time["now"].as_str().unwrap().split_once('T').unwrap();
            let has_one = offsets.iter().any(|offset| clock.contains(offset));
            assert!(has_one, "{time}");
            if kind == "script" {
                assert_eq!(read["data"]["frozen"], true);
            }
        }
    }
    for zone in ["Europe/Atlantis", "../../etc/passwd"] {
        let refused = with(&key, "/api/tickets", &json!({"timeZone": zone}));
        assert_eq!(refused.status, 400, "{}", refused.body);
        assert!(refused.body.contains("timeZone: there is no time zone"));
    }
}
