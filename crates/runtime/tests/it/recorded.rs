//! Sessions that were recorded with the real service, played to a running voice session: it runs the tool, answers in the
//! recorded shape, and the client hears of everything.

use crate::support::peers::{Peer, Setting, Stage, binary};
use crate::support::tools::{ready, tool};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use windlass_contract::registry::Tool;
use windlass_contract::validate::Validator;

/// The tool that the recorded model calls.
fn record_reading() -> Tool {
    let parameters = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["zqx_measurement"],
        "properties": {
            "zqx_measurement": { "type": "integer" },
            "qbf_note": { "type": ["string", "null"] }
        }
    });
    Tool {
        parameters: Validator::compile(&parameters).unwrap(),
        ..tool("record_reading", |invocation| {
            let measured = invocation.arguments.get("zqx_measurement");
            ready(json!({ "recorded": measured }))
        })
    }
}

fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/realtime");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: no recorded sessions at {}", folder.display());
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("google-")
        })
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} holds no session", folder.display());
    paths
}

/// What one recording made happen.
#[derive(Debug, Default, PartialEq)]
struct Played {
    calls: usize,
    answers: usize,
    spoken: bool,
}

/// Does on our side what the recorded client did, and waits until the provider has it.
async fn send(sent: &Value, stage: &mut Stage, provider: &mut Peer, played: &mut Played) {
    let content = sent.get("client_content").or(sent.get("clientContent"));
    let response = sent.get("tool_response").or(sent.get("toolResponse"));
    let input = sent.get("realtime_input").or(sent.get("realtimeInput"));
    if let Some(turns) = content.and_then(|content| content["turns"].as_array()) {
        let last = turns
            .last()
            .map_or(&Value::Null, |turn| &turn["parts"][0]["text"]);
        stage
            .client
            .send(json!({ "type": "text", "text": last }))
            .await;
        provider.until("realtimeInput").await;
    } else if let Some(response) = response {
        let recorded = &response["functionResponses"][0];
        let ours = provider.until("toolResponse").await;
        let ours = &ours["toolResponse"]["functionResponses"][0];
        assert_eq!(
            (&ours["id"], &ours["name"]),
            (&recorded["id"], &recorded["name"])
        );
        assert!(ours["response"]["output"].is_object(), "{ours}");
        assert_eq!(ours["response"]["output"]["data"], json!({ "recorded": 5 }));
        let shape = |value: &Value| {
            value
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(shape(ours), shape(recorded));
        played.answers += 1;
    } else if input.is_some_and(|input| input.get("audio").is_some()) {
        stage.client.send_raw(binary(640)).await;
        provider.until("realtimeInput").await;
    }
}

async fn play(path: &Path) -> Played {
    let text = std::fs::read_to_string(path).unwrap();
    let recording: Value = serde_saphyr::from_str(&text).unwrap();
    let mut stage = Stage::set(Setting {
        tools: vec![record_reading()],
        ..Setting::default()
    })
    .await;
    stage.start().await;
    let mut provider = stage.provider().await;
    provider.until("setup").await;
    let mut played = Played::default();
    for interaction in recording["interactions"].as_array().unwrap() {
        let data = &interaction["data"];
        match interaction["direction"].as_str() {
            Some("received") => {
                played.calls += usize::from(data.get("toolCall").is_some());
                provider.send(data.clone()).await;
            }
            Some("sent") => send(data, &mut stage, &mut provider, &mut played).await,
            _ => {}
        }
    }
    loop {
        let message = stage.client.next().await;
        assert_ne!(
            message,
            Value::Null,
            "{}: the session ended",
            path.display()
        );
        assert_ne!(message["type"], "error", "{}: {message}", path.display());
        played.spoken |= message["pcm"].is_u64();
        if message["type"] == "turn_complete" {
            return played;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_sessions_run_the_tool_and_are_answered_in_the_recorded_shape() {
    for path in recordings() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let played = play(&path).await;
        let calls = usize::from(name.contains("tool_call"));
        let expected = Played {
            calls,
            answers: calls,
            spoken: true,
        };
        assert_eq!(played, expected, "{name}");
    }
}
