//! What a provider sees at its end of a TCP connection: recorded sessions of the real service played to a whole server, and how
//! each kind of credentials and each setting of a model arrive.

use crate::support::config;
use crate::support::provider_peer::{Peer, Provider};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_app::server::{Handlers, Server, Setup, start};
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

async fn serve(data: &Path, keys: &[(&'static str, &str)], handlers: Handlers) -> (Server, String) {
    let setup = Setup {
        config: config(data, keys),
        handlers,
        watch: false,
    };
    let server = start(setup).await.unwrap();
    let address = server.address().to_string();
    (server, address)
}

/// The tool that the recorded model calls.
struct RecordReading;

impl Handler for RecordReading {
    fn execute(&self, invocation: Invocation) -> Execution {
        let measured = invocation.arguments.get("zqx_measurement");
        Execution::Ready(Ok(Success::new(json!({ "recorded": measured }))))
    }
}

fn write_tool(tools: &Path) {
    let tool = tools.join("record-reading");
    fs::create_dir_all(&tool).unwrap();
    let schema = json!({
        "toolId": "record_reading", "version": "1.0.0", "description": "Records a reading.", "category": "utility",
        "sideEffects": "none", "idempotent": true, "requiresConfirmation": false,
        "allowedModes": ["voice"], "latencyBudgetMs": 1_000,
        "parameters": {
            "type": "object", "additionalProperties": false, "required": ["zqx_measurement"],
            "properties": {
                "zqx_measurement": { "type": "integer", "description": "What was measured" },
                "qbf_note": { "type": ["string", "null"], "description": "A remark" }
            }
        }
    });
    fs::write(tool.join("schema.json"), schema.to_string()).unwrap();
    fs::write(tool.join("guide.md"), "# Record\n\nRecords a reading.\n").unwrap();
}

#[expect(clippy::print_stdout, reason = "a test says why it looks at nothing")]
fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/realtime");
    let Ok(entries) = fs::read_dir(&folder) else {
        println!("skipped: no recorded sessions at {}", folder.display());
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("google-")
    });
    paths.sort();
    assert!(!paths.is_empty(), "{} holds no session", folder.display());
    paths
}

/// Does on our side what the recorded client did, and waits until the provider has it.
async fn follow(sent: &Value, client: &mut VoiceClient, provider: &mut Peer) -> bool {
    let content = sent.get("client_content").or(sent.get("clientContent"));
    let response = sent.get("tool_response").or(sent.get("toolResponse"));
    if let Some(turns) = content.and_then(|content| content["turns"].as_array()) {
        let text = turns.last().unwrap()["parts"][0]["text"].as_str().unwrap();
        client.say(text).await;
        let heard = provider.until(&["realtimeInput", "clientContent"]).await;
        let quoted = json!(text).to_string();
        assert!(heard.to_string().contains(&quoted), "{heard}");
    } else if let Some(response) = response {
        let recorded = &response["functionResponses"][0];
        let ours = provider.until(&["toolResponse"]).await;
        let ours = &ours["toolResponse"]["functionResponses"][0];
        for field in ["id", "name"] {
            assert_eq!(ours[field], recorded[field]);
        }
        assert_eq!(ours["response"]["output"]["data"], json!({ "recorded": 5 }));
        return true;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_sessions_are_played_to_a_server_with_a_compiled_tool_and_a_handler_of_its_own() {
    for path in recordings() {
        let folder = tempfile::tempdir().unwrap();
        let tools = folder.path().join("tools");
        write_tool(&tools);
        let provider = Provider::open().await;
        let mut handlers = windlass_handlers::builtin();
        let id = ToolId::parse("record_reading").unwrap();
        handlers.insert(id, Arc::new(RecordReading));
        let keys = [
            ("folders.tools", tools.to_str().unwrap()),
            ("provider.kind", "gemini-live"),
            ("provider.url", provider.url.as_str()),
        ];
        let (_server, address) = serve(&folder.path().join("data"), &keys, handlers).await;
        let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
        let mut peer = provider.accept().await;
        let setup = peer.until(&["setup"]).await;
        let declared = &setup["setup"]["tools"][0]["functionDeclarations"][0];
        assert_eq!(declared["name"], "record_reading");

        let text = fs::read_to_string(&path).unwrap();
        let recording: Value = serde_saphyr::from_str(&text).unwrap();
        let mut answers = 0;
        for interaction in recording["interactions"].as_array().unwrap() {
            let data = &interaction["data"];
            match interaction["direction"].as_str() {
                Some("received") => peer.send(data).await,
                Some("sent") => {
                    answers += usize::from(follow(data, &mut client, &mut peer).await);
                }
                _ => {}
            }
        }
        let name = path.file_name().unwrap().to_string_lossy();
        let calls = usize::from(name.contains("tool_call"));
        assert_eq!(answers, calls, "{name}");
        for _ in 0..calls {
            let finished = client.expect("tool_call_finished").await;
            assert_eq!(finished["ok"], true, "{name}: {finished}");
        }
        client.expect("turn_complete").await;
        assert!(client.audio_bytes > 0, "{name}");
    }
}

/// A configuration, and what the provider sees of it.
struct Case {
    keys: &'static [(&'static str, &'static str)],
    target: &'static str,
    headers: &'static [(&'static str, &'static str)],
    /// JSON pointers into the setup, and what is there.
    setup: &'static [(&'static str, &'static str)],
}

const DEVELOPER: &str =
    "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent";
const CONSTRAINED: &str =
    "/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContentConstrained";
const VERTEX: &str = "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent";
/// Those that carry credentials.
const CREDENTIALS: [&str; 3] = ["authorization", "x-goog-api-key", "x-goog-user-project"];

const CASES: [Case; 6] = [
    Case {
        keys: &[
            ("provider.api_key", "key-1"),
            ("voice.name", "Kore"),
            ("voice.language", "de-DE"),
        ],
        target: DEVELOPER,
        headers: &[("x-goog-api-key", "key-1")],
        setup: &[
            (
                "/setup/generationConfig/speechConfig/voiceConfig/prebuiltVoiceConfig/voiceName",
                "Kore",
            ),
            ("/setup/generationConfig/speechConfig/languageCode", "de-DE"),
            ("/setup/generationConfig/responseModalities/0", "AUDIO"),
        ],
    },
    Case {
        keys: &[
            ("provider.ephemeral_token", "auth_tokens/abc"),
            ("provider.model", "gemini-3.8-live"),
        ],
        target: CONSTRAINED,
        headers: &[("authorization", "Token auth_tokens/abc")],
        setup: &[("/setup/model", "models/gemini-3.8-live")],
    },
    // As Google's own libraries take it.
    Case {
        keys: &[("provider.api_key", "auth_tokens/abc")],
        target: CONSTRAINED,
        headers: &[("authorization", "Token auth_tokens/abc")],
        setup: &[],
    },
    Case {
        keys: &[
            ("provider.vertex.location", "europe-west4"),
            ("provider.vertex.project", "p-1"),
            ("provider.vertex.access_token", "ya29.x"),
            ("provider.vertex.quota_project", "p-2"),
            ("provider.model", "gemini-live-2.5-flash-native-audio"),
        ],
        target: VERTEX,
        headers: &[
            ("authorization", "Bearer ya29.x"),
            ("x-goog-user-project", "p-2"),
        ],
        setup: &[(
            "/setup/model",
            "projects/p-1/locations/europe-west4/publishers/google/models/gemini-live-2.5-flash-native-audio",
        )],
    },
    // Express mode.
    Case {
        keys: &[
            ("provider.vertex.location", "global"),
            ("provider.api_key", "key-1"),
            ("provider.model", "gemini-live-2.5-flash-native-audio"),
        ],
        target: VERTEX,
        headers: &[("x-goog-api-key", "key-1")],
        setup: &[(
            "/setup/model",
            "publishers/google/models/gemini-live-2.5-flash-native-audio",
        )],
    },
    Case {
        keys: &[
            ("provider.kind", "openai-realtime"),
            ("provider.api_key", "sk-1"),
            ("provider.model", "gpt-realtime-2.1"),
            ("voice.name", "marin"),
        ],
        target: "/v1/realtime?model=gpt-realtime-2.1",
        headers: &[("authorization", "Bearer sk-1")],
        setup: &[
            ("/type", "session.update"),
            ("/session/audio/output/voice", "marin"),
        ],
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn credentials_and_settings_arrive_as_each_service_wants_them() {
    for case in CASES {
        let folder = tempfile::tempdir().unwrap();
        let provider = Provider::open().await;
        let url = match case.target.starts_with("/v1/") {
            true => format!("{}/v1", provider.url),
            false => provider.url.clone(),
        };
        let usual = [("provider.kind", "gemini-live"), ("provider.url", &*url)];
        let mut keys = case.keys.to_vec();
        for (key, value) in usual {
            if keys.iter().all(|(own, _)| *own != key) {
                keys.push((key, value));
            }
        }
        let data = folder.path().join("data");
        let (_server, address) = serve(&data, &keys, windlass_handlers::builtin()).await;
        let mut client = VoiceClient::connect(&address, &[]).await.unwrap();
        client.send(json!({"type": "start"})).await;
        let mut peer = provider.accept().await;
        assert_eq!(peer.target, case.target, "{:?}", case.keys);
        for name in CREDENTIALS {
            let expected = case.headers.iter().find(|(own, _)| *own == name);
            let sent = peer.headers.get(name).map(|value| value.to_str().unwrap());
            assert_eq!(sent, expected.map(|(_, value)| *value), "{:?}", case.keys);
        }
        if case.target.starts_with("/v1/") {
            let created = json!({"type": "session.created", "session": {"id": "s"}});
            peer.send(&created).await;
        }
        let setup = peer.until(&["setup", "session"]).await;
        for (pointer, expected) in case.setup {
            let found = setup.pointer(pointer).and_then(Value::as_str);
            assert_eq!(found, Some(*expected), "{pointer} in {setup}");
        }
    }
}
