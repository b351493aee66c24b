//! Tools that the provider runs itself, over the simulators: what they found is cited, is external content, and goes back as it
//! came; and a model that does not take them is refused at the start.

use crate::chat::{approval, chunks, words};
use crate::support::change::{Changes, write_tool};
use crate::support::config;
use crate::support::http::post;
use crate::support::program::{Running, command};
use crate::support::voice_client::VoiceClient;
use serde_json::json;
use std::fs;
use std::path::Path;
use windlass_app::server::{Setup, start};

const PAGE: &str = "https://fram.example/ship";

/// The model searches, and does what it has read.
fn script(act: &str) -> String {
    format!(
        "exchanges:\n- when: any\n  do:\n  - search: {{query: the Fram, pages: [{{url: '{PAGE}', title: Fram}}]}}\n{act}"
    )
}

fn simulator(folder: &Path, service: &str, script: &str) -> Running {
    fs::write(folder.join("script.yaml"), script).unwrap();
    let mut command = command(folder);
    Running::start(command.args(["sim", service, "--script", "script.yaml"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_provider_found_is_cited_and_changes_nothing_without_an_approval() {
    let folder = tempfile::tempdir().unwrap();
    let act = "  - say: Let me see.\n  - call: {name: change, args: {what: it}}\n  - expect_response\n  - say: Changed.\n";
    let mut simulator = simulator(folder.path(), "gemini", &script(act));
    let url = format!("http://{}", simulator.address());
    let tools = folder.path().join("tools");
    write_tool(&tools, json!({}));
    let changes = Changes::new();
    let mut handlers = windlass_handlers::builtin();
    handlers.extend(changes.handlers());
    let keys = [
        ("folders.tools", tools.to_str().unwrap()),
        ("text.provider", "gemini"),
        ("text.url", url.as_str()),
        ("text.api_key", "k"),
        ("text.provider_tools", "google_search"),
    ];
    let server = start(Setup {
        config: config(&folder.path().join("data"), &keys),
        handlers,
        watch: false,
    })
    .await
    .unwrap();
    let address = server.address().to_string();
    let ask = |body: serde_json::Value| post(&address, "/api/chat", body.to_string().as_bytes());
    let asked = ask(json!({"id": "c", "message": "Who built it?"}));
    let shown = chunks(&asked);
    let request = shown
        .iter()
        .find(|chunk| chunk["type"] == "tool-approval-request")
        .unwrap_or_else(|| panic!("{}", asked.body));
    assert_eq!(changes.made(), [] as [String; 0]);
    // The service takes the conversation back only with the parts and signatures of its own tools.
    let yes = [approval(request["approvalId"].as_str().unwrap(), true)];
    let answer = ask(json!({"id": "c", "messages": yes}));
    assert!(words(&answer).ends_with("Changed."), "{}", answer.body);
    assert_eq!(changes.made(), ["it"]);
    let sources: Vec<_> = shown
        .iter()
        .chain(&chunks(&answer))
        .filter(|chunk| chunk["type"] == "source-url")
        .map(|chunk| (chunk["url"].clone(), chunk["title"].clone()))
        .collect();
    assert!(
        sources.contains(&(json!(PAGE), json!("Fram"))),
        "{sources:?}"
    );
    server.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spoken_answer_cites_what_the_provider_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut simulator = simulator(
        folder.path(),
        "gemini-live",
        &script("  - say: Colin Archer.\n"),
    );
    let url = format!("ws://{}", simulator.address());
    let keys = [
        ("provider.kind", "gemini-live"),
        ("provider.url", url.as_str()),
        ("provider.provider_tools", "google_search"),
    ];
    let server = start(Setup {
        config: config(&folder.path().join("data"), &keys),
        handlers: windlass_handlers::builtin(),
        watch: false,
    })
    .await
    .unwrap();
    let address = server.address().to_string();
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    client.say("Who built the Fram?").await;
    loop {
        let transcript = client.expect("transcript").await;
        if transcript["role"] == "assistant" && transcript["final"] == true {
            let cited = json!([{"id": PAGE, "title": "Fram", "url": PAGE}]);
            assert_eq!(transcript["citations"], cited, "{transcript}");
            break;
        }
    }
    server.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_takes_no_such_tool_is_refused_at_the_start() {
    let nobody = "http://127.0.0.1:1";
    for (keys, expected) in [
        (
            vec![
                ("text.provider", "gemini"),
                ("text.url", nobody),
                ("text.model", "gemini-2.5-flash"),
                ("text.provider_tools", "google_search"),
            ],
            "text.provider_tools: the model \\\"gemini-2.5-flash\\\" does not take google_search beside functions; it takes none",
        ),
        (
            vec![
                ("text.provider", "gemini"),
                ("text.url", nobody),
                ("text.provider_tools", "web_search"),
            ],
            "does not take web_search beside functions; it takes google_search and code_execution",
        ),
        (
            vec![
                ("text.provider", "openai"),
                ("text.url", nobody),
                ("text.provider_tools", "web_search"),
            ],
            "does not take web_search",
        ),
        (
            vec![
                ("provider.kind", "gemini-live"),
                ("provider.url", "ws://127.0.0.1:1"),
                ("provider.provider_tools", "code_execution"),
            ],
            "provider.provider_tools: the model \\\"gemini-3.8-live\\\" does not take code_execution",
        ),
        (
            vec![
                ("provider.kind", "openai-realtime"),
                ("provider.url", "ws://127.0.0.1:1"),
                ("provider.provider_tools", "google_search"),
            ],
            "does not take google_search",
        ),
    ] {
        let data = tempfile::tempdir().unwrap();
        let started = start(Setup {
            config: config(data.path(), &keys),
            handlers: windlass_handlers::builtin(),
            watch: false,
        });
        let failure = started.await.err().map(|failure| format!("{failure:?}"));
        let failure = failure.unwrap_or_default();
        assert!(failure.contains(expected), "{failure}");
    }
}
