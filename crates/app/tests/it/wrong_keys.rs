//! A wrong key and a missing one are told apart, with every provider, and neither is asked for again.

use crate::chat::chunks;
use crate::support::config;
use crate::support::http::post;
use crate::support::program::{Running, command};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use windlass_app::server::{Server, Setup, start};

/// As long as a real one, and the simulators refuse it.
const WRONG: &str = "bad-0123456789abcdef";

async fn serve(folder: &std::path::Path, keys: &[(&'static str, &str)]) -> Server {
    start(Setup {
        config: config(&folder.join("data"), keys),
        handlers: windlass_handlers::builtin(),
        watch: false,
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn by_text_a_wrong_key_is_told_from_a_missing_one() {
    for (service, path, provider) in [("gemini", "", "gemini"), ("openai", "/v1", "openai")] {
        let folder = tempfile::tempdir().unwrap();
        let mut simulator = Running::start(command(folder.path()).args(["sim", service]));
        let url = format!("http://{}{path}", simulator.address());
        for (key, expected) in [
            (Some(WRONG), "the model's provider refused the server's key"),
            (
                None,
                "no key was sent to the model's provider; set text.api_key, or the variable that text.api_key_env names",
            ),
        ] {
            let mut keys = vec![("text.provider", provider), ("text.url", url.as_str())];
            keys.extend(key.map(|key| ("text.api_key", key)));
            let server = serve(folder.path(), &keys).await;
            let body = json!({"id": "c", "message": "Hello."}).to_string();
            let answer = post(&server.address().to_string(), "/api/chat", body.as_bytes());
            let chunks = chunks(&answer);
            let errors = chunks.iter().filter(|chunk| chunk["type"] == "error");
            let errors: Vec<&Value> = errors.map(|chunk| &chunk["errorText"]).collect();
            assert_eq!(errors, [&json!(expected)], "{service} {key:?}");
            server.shut_down().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn by_voice_a_wrong_key_is_told_from_a_missing_one() {
    for (service, kind) in [
        ("gemini-live", "gemini-live"),
        ("openai-realtime", "openai-realtime"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("script.yaml"),
            "settings: {upgrade_status: 401}\n",
        )
        .unwrap();
        let mut command = command(folder.path());
        let mut simulator =
            Running::start(command.args(["sim", service, "--script", "script.yaml"]));
        let url = format!("ws://{}", simulator.address());
        for (key, expected) in [
            (Some(WRONG), "the model's provider refused the server's key"),
            (
                None,
                "no key was sent to the model's provider; set provider.api_key, or its variable",
            ),
        ] {
            let mut keys = vec![("provider.kind", kind), ("provider.url", url.as_str())];
            keys.extend(key.map(|key| ("provider.api_key", key)));
            let server = serve(folder.path(), &keys).await;
            let address = server.address().to_string();
            let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
            let error = client.expect("error").await;
            assert_eq!(error["code"], "provider_auth", "{error}");
            assert_eq!(error["message"], expected, "{service} {key:?}");
            drop(client);
            server.shut_down().await;
        }
    }
}
