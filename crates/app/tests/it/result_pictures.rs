//! Pictures that tools bring back in base64: a model that sees is shown them, clients are told where they are, and nobody reads base64.

use crate::support::http::{get, post};
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

/// A picture in base64, in lines of its own length so that no part of it is said by chance.
const PICTURE: &str =
    "iVBORw0KGgoQUVSTUVWXWFlaQUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2w=";

/// What a tool brings back: a data URI, a block of MCP in the data and one beside it, a broken picture, and one that is none.
fn answer() -> Value {
    let uri = |mime_type: &str, base64: &str| format!("data:{mime_type};base64,{base64}");
    json!({
        "ok": true,
        "data": {
            "chart": uri("image/png", PICTURE),
            "broken": uri("image/png", &format!("@{PICTURE}")),
            "drawing": uri("image/svg+xml", "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4="),
            "liar": uri("image/png", &"QUJD".repeat(30)),
            "content": [{"type": "text", "text": "Here."}, {"type": "image", "data": PICTURE, "mimeType": "image/png"}],
        },
        "content": [{"type": "image", "data": PICTURE, "mimeType": "image/png"}],
    })
}

/// A service that answers every request so.
fn service() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut read = Vec::new();
            while !String::from_utf8_lossy(&read).contains("\r\n\r\n{") {
                let mut piece = [0; 4_096];
                let count = stream.read(&mut piece).unwrap_or(0);
                read.extend_from_slice(&piece[..count]);
                if count == 0 {
                    break;
                }
            }
            let body = answer().to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    port
}

/// The same answer by each kind of handler.
fn write_tools(folder: &Path, port: u16) {
    let script = format!(
        "export async function execute() {{ return {}; }}\n",
        answer()
    );
    let program = format!(
        r#"while read -r line; do id=${{line#*\"id\":}}; id=${{id%%,*}}
            printf '{{"id":%s,"result":%s}}\n' "$id" '{}'; done"#,
        answer()
    );
    let process = json!({"kind": "process", "command": ["sh", "-c", program]});
    let url = format!("http://127.0.0.1:{port}/");
    let webhook = json!({"kind": "webhook", "url": url, "secret": "{secret:HOOK}"});
    for (id, file, text) in [
        ("by_script", "handler.js", script),
        ("by_process", "handler.json", process.to_string()),
        ("by_webhook", "handler.json", webhook.to_string()),
    ] {
        let schema = json!({
            "toolId": id, "version": "1.0.0", "description": "Draws a chart.", "category": "utility",
            "sideEffects": "none", "idempotent": true, "requiresConfirmation": false,
            "allowedModes": ["text", "voice"], "latencyBudgetMs": 100, "timeoutMs": 5_000,
            "parameters": {"type": "object", "additionalProperties": false, "properties": {}},
        });
        let directory = folder.join("tools").join(id.replace('_', "-"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
        fs::write(directory.join("guide.md"), "# Chart\n\nDraws a chart.\n").unwrap();
        fs::write(directory.join(file), text).unwrap();
    }
    fs::create_dir_all(folder.join("kb")).unwrap();
    let settings = format!(
        "[handlers]\nprocesses = true\n\n[secrets.HOOK]\nhosts = [\"127.0.0.1:{port}\"]\n\n[models.seer]\nvision = true\n"
    );
    fs::write(folder.join("windlass.toml"), settings).unwrap();
}

const SHOWN: &str = "[picture image/png, 1 kB, shown to the user]";

/// The addresses of pictures in a text, with their signatures.
fn addresses(text: &str) -> Vec<String> {
    let begun = text.split("/pictures/").skip(1);
    let mut found: Vec<String> = begun
        .map(|rest| {
            let end = rest.find(['"', '\\']).unwrap();
            format!("/pictures/{}", &rest[..end])
        })
        .collect();
    found.dedup();
    found
}

#[test]
fn a_picture_in_a_result_is_a_picture_for_model_and_client_through_every_kind_of_handler() {
    let folder = tempfile::tempdir().unwrap();
    write_tools(folder.path(), service());
    let model = ModelServer::start(|last| {
        let said = last["content"].to_string();
        let wanted = ["by_script", "by_process", "by_webhook"];
        match wanted.into_iter().find(|tool| said.contains(tool)) {
            Some(tool) if last["role"] == "user" => Says::Calls(tool, json!({})),
            _ => Says::Words("There it is."),
        }
    });
    for model_name in ["seer", "blind"] {
        let mut server = command(folder.path());
        server
            .args(["serve", "--listen", "127.0.0.1:0", "--tools", "tools"])
            .args(["--kb", "kb", "--data", "data", "--text-provider-url"])
            .args([&model.url, "--text-model", model_name])
            .env(
                "WINDLASS_SECRET_HOOK",
                "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            );
        let mut server = Running::start(&mut server);
        let address = server.address();
        for tool in ["by_script", "by_process", "by_webhook"] {
            let body = json!({"message": format!("Call {tool}.")}).to_string();
            let answer = post(&address, "/api/chat", body.as_bytes());
            assert_eq!(answer.status, 200, "{}", answer.body);
            let stream = &answer.body;
            assert!(!stream.contains(&PICTURE[..40]), "{tool}: {stream}");
            let shown = addresses(stream);
            assert!(!shown.is_empty(), "{tool}: {stream}");
            let picture = get(&address, &shown[0]);
            assert_eq!(picture.status, 200);
            assert_eq!(picture.header("content-type"), Some("image/png"));
            // Who is not known here needs the signature, and that of the picture.
            let (bare, query) = shown[0].split_once('?').unwrap();
            let forged = query.replacen("until=1", "until=2", 1);
            for unsigned in [bare.to_owned(), format!("{bare}?{forged}")] {
                assert_eq!(get(&address, &unsigned).status, 404, "{unsigned}");
            }

            let seen = model.seen().pop().unwrap()["messages"].clone();
            let messages = seen.as_array().unwrap();
            let read = messages.iter().find(|message| message["role"] == "tool");
            let read = read.unwrap()["content"].to_string();
            assert!(read.contains(SHOWN), "{tool}: {read}");
            assert_eq!(read.matches("not shown]").count(), 3, "{tool}: {read}");
            assert!(
                !read.contains("base64") && !read.contains("iVBOR"),
                "{read}"
            );
            // The picture itself is a part of its own, where the model sees.
            let whole = seen.to_string();
            let is_seen = whole.contains(&format!("data:image/png;base64,{PICTURE}"));
            assert_eq!(is_seen, model_name == "seer", "{tool}: {whole}");
        }
        for nowhere in [&"0".repeat(64), "../windlass.db", "..%2fclient.key"] {
            let refused = get(&address, &format!("/pictures/{nowhere}"));
            assert_eq!(refused.status, 404, "{nowhere}");
        }
    }
}
