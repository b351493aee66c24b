//! GPT-Live, played by a test: what it hands over, a text model does with the session's tools, and the user is asked on the client's
//! channel.

use crate::support::change::{Changes, write_tool};
use crate::support::config;
use crate::support::model_server::{ModelServer, Says};
use crate::support::provider_peer::{Peer, Provider};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_app::server::{Server, Setup, start};

/// The next event of this kind; the microphone's are passed over.
async fn expect(peer: &mut Peer, kind: &str) -> Value {
    loop {
        let event = peer.until(&["type"]).await;
        if event["type"] == kind {
            return event;
        }
    }
}

/// Changes what it is told to, and says what it reads of the results.
fn mind(last: &Value) -> Says {
    let content = last["content"].to_string();
    match last["role"].as_str() {
        Some("tool") if content.contains("CONFIRMATION_REQUIRED") => {
            Says::Words("Please approve it first.")
        }
        Some("tool") => Says::Words("It is done."),
        _ if content.contains("handed over") => Says::Calls("change", json!({"what": "it"})),
        _ => Says::Words("It is changed."),
    }
}

fn delta(kind: &str, text: &str) -> Value {
    json!({"type": format!("session.{kind}.delta"), "event_id": "e", "delta": text, "start_ms": 0, "end_ms": 1})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_voice_hands_over_is_done_with_the_sessions_tools_and_the_users_consent() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    write_tool(
        &tools,
        json!({"allowedModes": ["voice"], "requiresConfirmation": true}),
    );
    let changes = Changes::new();
    let mut handlers = windlass_handlers::builtin();
    handlers.extend(changes.handlers());
    let (provider, model) = (Provider::open().await, ModelServer::start(mind));
    let keys = [
        ("folders.tools", tools.to_str().unwrap()),
        ("provider.kind", "gpt-live"),
        ("provider.url", provider.url.as_str()),
        ("provider.api_key", "k"),
        ("text.provider", "openai"),
        ("text.url", model.url.as_str()),
    ];
    let server = start(Setup {
        config: config(&folder.path().join("data"), &keys),
        handlers,
        watch: false,
    })
    .await
    .unwrap();
    let address = server.address().to_string();
    let started =
        tokio::spawn(async move { VoiceClient::start(&address, json!({"type": "start"})).await });
    let mut peer = provider.accept().await;
    assert_eq!(peer.target, "/v1/live/sessions");
    assert_eq!(peer.headers["authorization"], "Bearer k");
    let setup = expect(&mut peer, "session.start").await;
    assert_eq!(setup["session"]["model"], "gpt-live-1");
    assert_eq!(setup["session"]["delegation"], json!({"type": "client"}));
    assert_eq!(setup["session"].as_object().unwrap().len(), 4, "{setup}");
    peer.send(&json!({"type": "session.started", "event_id": "e", "session": {"id": "live_1"}}))
        .await;
    let (mut client, _) = started.await.unwrap();

    peer.send(&delta("input_transcript", "Change it.")).await;
    peer.send(&delta("output_transcript", "I am on it.")).await;
    peer.send(
        &json!({"type": "session.delegation.created", "event_id": "e", "offset_ms": 1,
        "delegation": {"id": "dlg_1", "target": "client", "type": "delegation"}}),
    )
    .await;
    let progress = expect(&mut peer, "session.thinking.append").await;
    assert_eq!(progress["delegation_id"], "dlg_1");
    assert!(
        progress["content"].as_str().unwrap().contains("change"),
        "{progress}"
    );
    // The user is asked where the user is, and nothing is done before.
    let question = client.expect("confirmation_request").await;
    let told = expect(&mut peer, "session.commentary.append").await;
    assert_eq!(
        (&told["content"], &told["delegation_id"]),
        (&json!("Please approve it first."), &json!("dlg_1"))
    );
    assert_eq!(changes.made(), [] as [String; 0]);
    peer.send(&delta("output_transcript", "Please approve it first."))
        .await;
    client
        .send(json!({"type": "confirm", "token": question["token"], "approved": true}))
        .await;
    // What came of it is told without a task of the service's.
    let told = expect(&mut peer, "session.commentary.append").await;
    assert_eq!(
        (&told["content"], &told["delegation_id"]),
        (&json!("It is changed."), &Value::Null)
    );
    assert_eq!(changes.made(), ["it"]);
    // The answer that asked for the approval was over before.
    client.expect("turn_complete").await;

    // Where the service says nothing more, the answer is over.
    peer.send(&json!({"type": "session.output_audio.delta", "delta": "AAAAAAAA"}))
        .await;
    peer.send(&delta("output_transcript", " It is changed."))
        .await;
    client.expect("turn_complete").await;
    // What was said stands before what is to be done.
    let first = model.seen()[0].clone();
    let messages = first["messages"].as_array().unwrap();
    let said = messages
        .iter()
        .map(|message| message["content"].to_string());
    let said = said.collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("Change it.") && said.contains("I am on it."),
        "{said}"
    );
    assert_eq!(first["tools"][0]["function"]["name"], "change");
    // The service ends the session, and the next connection is told what was said.
    peer.send(&json!({"type": "session.closed", "event_id": "e", "reason": "expired", "usage": {"seconds": 9}, "session": {"id": "live_1"}}))
        .await;
    let mut next = provider.accept().await;
    expect(&mut next, "session.start").await;
    next.send(&json!({"type": "session.started", "event_id": "e", "session": {"id": "live_2"}}))
        .await;
    let earlier = expect(&mut next, "session.thinking.append").await;
    assert!(
        earlier["content"].as_str().unwrap().contains("Change it."),
        "{earlier}"
    );
    server.shut_down().await;
}

/// A voice session whose model behind the voice makes the same change in each task, under this id.
async fn begin(id: &'static str, changes: &Arc<Changes>) -> (Talk, Peer) {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    write_tool(
        &tools,
        json!({"allowedModes": ["voice"], "repeatable": true}),
    );
    let mut handlers = windlass_handlers::builtin();
    handlers.extend(changes.handlers());
    let mind = move |last: &Value| match last["role"].as_str() {
        Some("tool") => Says::Words("It is done."),
        _ => Says::CallsAs(id, "change", json!({"what": "it"})),
    };
    let (provider, model) = (Provider::open().await, ModelServer::start(mind));
    let keys = [
        ("folders.tools", tools.to_str().unwrap()),
        ("provider.kind", "gpt-live"),
        ("provider.url", provider.url.as_str()),
        ("provider.api_key", "k"),
        ("text.provider", "openai"),
        ("text.url", model.url.as_str()),
    ];
    let server = start(Setup {
        config: config(&folder.path().join("data"), &keys),
        handlers,
        watch: false,
    })
    .await
    .unwrap();
    let address = server.address().to_string();
    let started =
        tokio::spawn(async move { VoiceClient::start(&address, json!({"type": "start"})).await });
    let mut peer = provider.accept().await;
    begins(&mut peer, "live_1").await;
    let (client, _) = started.await.unwrap();
    let talk = Talk {
        _folder: folder,
        _model: model,
        _client: client,
        _provider: provider,
        server,
    };
    (talk, peer)
}

/// The parts of a session.
struct Talk {
    _folder: tempfile::TempDir,
    _model: ModelServer,
    _client: VoiceClient,
    _provider: Provider,
    server: Server,
}

async fn begins(peer: &mut Peer, id: &str) {
    expect(peer, "session.start").await;
    peer.send(&json!({"type": "session.started", "event_id": "e", "session": {"id": id}}))
        .await;
}

/// The user says something, and the voice hands it over; what it is told in the end.
async fn hand_over(peer: &mut Peer, words: &str, task: &str) -> Value {
    peer.send(&delta("input_transcript", words)).await;
    peer.send(
        &json!({"type": "session.delegation.created", "event_id": "e", "offset_ms": 1,
        "delegation": {"id": task, "target": "client", "type": "delegation"}}),
    )
    .await;
    let mut told = expect(peer, "session.commentary.append").await;
    assert_eq!(told["delegation_id"], task);
    told["content"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_gets_no_answer_leaves_no_task_waiting() {
    let changes = Changes::new();
    let (talk, mut peer) = Box::pin(begin("call_same_for_ever", &changes)).await;
    // A second call under an id that has had its answer is given none.
    for (words, task) in [
        ("Change it.", "dlg_1"),
        ("Again.", "dlg_2"),
        ("And again.", "dlg_3"),
    ] {
        assert_eq!(hand_over(&mut peer, words, task).await, "It is done.");
    }
    assert_eq!(changes.made(), ["it"]);
    talk.server.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_text_model_the_server_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [
        ("provider.kind", "gpt-live"),
        ("provider.url", "ws://127.0.0.1:1"),
    ];
    let started = start(Setup {
        config: config(folder.path(), &keys),
        handlers: windlass_handlers::builtin(),
        watch: false,
    });
    let failure = started.await.err().map(|failure| format!("{failure:?}"));
    assert!(
        failure
            .unwrap_or_default()
            .contains("set text.provider, and its key")
    );
}
