//! One conversation over every provider's protocol: the same calls, refusals, intents and audit lines, whichever model asks.

use crate::support::peers::{Live, Peer, Setting, Stage, call, turn_end};
use crate::support::text_server::{
    Chat, Reply, TextServer, calls, gemini_model, gemini_model_by, limits, model, text,
};
use crate::support::tools::{echo, registry, tool};
use crate::support::{StillCapabilities, session_config, shared};
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_contract::handler::{Execution, Success};
use windlass_contract::id::ClientId;
use windlass_contract::intent::Intent;
use windlass_contract::kind::{Mode, SideEffects};
use windlass_contract::registry::Tool;
use windlass_provider::profile::TextTransport;
use windlass_runtime::audit::{Audit, AuditedArguments};
use windlass_runtime::direct::{DirectRequest, DirectSession};
use windlass_runtime::subscriber::Subscriber;
use windlass_session::model::IncomingCall;

/// What the model asks for in each turn, one call a message, before it has words.
fn script() -> Vec<(&'static str, Vec<(&'static str, Value)>)> {
    vec![
        (
            "What does it say?",
            vec![
                ("echo", json!({"text": "a", "pin": "1234"})),
                ("ecco", json!({})),
            ],
        ),
        (
            "Change it.",
            vec![
                ("change", json!({"text": "b"})),
                ("echo", json!({"loud": true})),
                ("pay", json!({})),
            ],
        ),
        ("Thank you.", vec![]),
    ]
}

const WORDS: &str = "Done.";

fn tools() -> Vec<Tool> {
    let change = |_| {
        let mut success = Success::new(json!({"changed": true}));
        success.intents.push(Intent::SuppressAudio { value: false });
        Execution::Ready(Ok(success))
    };
    vec![
        echo(),
        Tool {
            side_effects: SideEffects::Writes,
            ..tool("change", change)
        },
        Tool {
            side_effects: SideEffects::Writes,
            requires_confirmation: true,
            ..tool("pay", |_| Execution::Ready(Ok(Success::new(json!({})))))
        },
    ]
}

fn id(turn: usize, number: usize) -> String {
    format!("call_turn{turn}_number{number}")
}

/// The audit's lines without what belongs to one run: times, ids of this session, and which mode it had.
fn comparable(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let fields = line.as_object_mut().unwrap();
            for own in [
                "timestamp",
                "durationMs",
                "mode",
                "effectId",
                "hash",
                "previousHash",
            ] {
                fields.remove(own);
            }
            // The provider's own id is a part of it.
            fields.remove("idempotencyKey");
            line
        })
        .collect()
}

async fn run(path: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let audit = Arc::new(Audit::open(&file, AuditedArguments::Visible).unwrap());
    let watching: Arc<dyn Subscriber> = audit.clone();
    match path {
        "direct" => Box::pin(direct(watching)).await,
        "gemini" | "interactions" | "openai" => Box::pin(by_text(path, watching)).await,
        "gemini-live" => by_voice(Live::Gemini, watching).await,
        "openai-realtime" => by_voice(Live::Openai, watching).await,
        _ => unreachable!(),
    }
    audit.close();
    comparable(&file)
}

async fn direct(watching: Arc<dyn Subscriber>) {
    let mut session = DirectSession::begin(DirectRequest {
        session: session_config(Mode::Text, registry(tools())),
        client_id: ClientId::new("client"),
        capabilities: Arc::new(StillCapabilities),
        shared: shared(vec![watching]),
    });
    for (turn, (said, asked)) in script().into_iter().enumerate() {
        session.user_says(said);
        for (number, (name, arguments)) in asked.into_iter().enumerate() {
            let call = IncomingCall {
                id: Some(id(turn, number).into()),
                name: Some(name.into()),
                arguments: Ok(arguments.as_object().unwrap().clone().into()),
            };
            session.call(call).await;
        }
        session.turn_ends();
    }
    session.end().await;
}

async fn by_text(path: &str, watching: Arc<dyn Subscriber>) {
    let mut replies = Vec::new();
    for (turn, (_, asked)) in script().into_iter().enumerate() {
        for (number, (name, arguments)) in asked.into_iter().enumerate() {
            let id = id(turn, number);
            replies.push(match path {
                "interactions" => interaction(
                    "requires_action",
                    &json!({"type": "function_call", "id": id, "name": name, "arguments": arguments}),
                ),
                "gemini" => gemini_part(
                    &json!({"functionCall": {"id": id, "name": name, "args": arguments}}),
                ),
                _ => calls(&[(&id, name, arguments)]),
            });
        }
        replies.push(match path {
            "interactions" => interaction(
                "completed",
                &json!({"type": "model_output", "content": [{"type": "text", "text": WORDS}]}),
            ),
            "gemini" => gemini_part(&json!({"text": WORDS})),
            _ => text(WORDS),
        });
    }
    let server = TextServer::start(replies).await;
    let model = match path {
        "gemini" => gemini_model(&server.url, "gemini-3.5-flash"),
        "interactions" => {
            gemini_model_by(&server.url, "gemini-3.5-flash", TextTransport::Interactions)
        }
        _ => model(&server.url, "fake"),
    };
    let mut chat = Chat::with(vec![model], tools(), limits(), vec![watching]);
    for (said, _) in script() {
        let written = chat.say(said).await;
        assert_eq!(
            (written.words().as_str(), written.errors().len()),
            (WORDS, 0)
        );
    }
    chat.session.end().await;
}

fn gemini_part(part: &Value) -> Reply {
    Reply::Stream(vec![json!({
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}]
    })])
}

fn interaction(status: &str, step: &Value) -> Reply {
    Reply::Stream(vec![
        json!({"event_type": "step.start", "index": 0, "step": step}),
        json!({"event_type": "step.stop", "index": 0}),
        json!({"event_type": "interaction.completed", "interaction": {"id": "", "status": status}}),
    ])
}

async fn by_voice(live: Live, watching: Arc<dyn Subscriber>) {
    let mut stage = Stage::set(Setting {
        tools: tools(),
        live,
        watched_by: Some(watching),
        ..Setting::default()
    })
    .await;
    stage.start().await;
    let mut provider = stage.provider().await;
    match live {
        Live::Gemini => {
            provider.until("setup").await;
            provider.send(json!({"setupComplete": {}})).await;
        }
        Live::Openai => {
            provider.until("session.update").await;
            provider
                .send(event(
                    "session.updated",
                    json!({"session": {"id": "sess_1"}}),
                ))
                .await;
        }
    }
    for (turn, (said, asked)) in script().into_iter().enumerate() {
        stage
            .client
            .send(json!({"type": "text", "text": said}))
            .await;
        for (number, (name, arguments)) in asked.into_iter().enumerate() {
            let id = id(turn, number);
            match live {
                Live::Gemini => {
                    if number == 0 {
                        provider.next().await;
                    }
                    provider.send(call(&id, name, arguments)).await;
                    provider.until("toolResponse").await;
                }
                Live::Openai => respond(
                    &mut provider,
                    &json!({
                        "id": format!("item_{id}"), "type": "function_call", "status": "completed",
                        "call_id": id, "name": name, "arguments": arguments.to_string(),
                    }),
                )
                .await,
            }
        }
        match live {
            Live::Gemini => {
                let words = json!({"outputTranscription": {"text": WORDS}});
                provider.send(json!({"serverContent": words})).await;
                provider.send(turn_end()).await;
            }
            Live::Openai => respond(
                &mut provider,
                &json!({
                    "id": format!("item_words{turn}"), "type": "message", "status": "completed",
                    "role": "assistant", "content": [{"type": "output_audio", "transcript": WORDS}],
                }),
            )
            .await,
        }
        stage.client.until("turn_complete").await;
    }
    stage.client.send(json!({"type": "stop"})).await;
    stage.client.until("stopped").await;
    drop(stage.client);
    stage.served.await.unwrap();
}

fn event(kind: &str, mut fields: Value) -> Value {
    fields["type"] = kind.into();
    fields["event_id"] = "event_1".into();
    fields
}

/// One response of OpenAI Realtime, to the request that comes next.
async fn respond(provider: &mut Peer, item: &Value) {
    provider.until("response.create").await;
    let id = format!("resp_{}", item["id"].as_str().unwrap());
    let created = json!({"response": {"id": id, "object": "realtime.response", "status": "in_progress", "output": []}});
    provider.send(event("response.created", created)).await;
    if item["type"] == "message" {
        let words = json!({"response_id": id, "item_id": item["id"], "output_index": 0, "content_index": 0, "delta": WORDS});
        provider
            .send(event("response.output_audio_transcript.delta", words))
            .await;
    }
    let done = json!({"response_id": id, "output_index": 0, "item": item});
    provider
        .send(event("response.output_item.done", done))
        .await;
    let done = json!({"response": {"id": id, "object": "realtime.response", "status": "completed", "output": [item]}});
    provider.send(event("response.done", done)).await;
}

#[tokio::test]
async fn one_conversation_is_the_same_over_every_providers_protocol() {
    let expected = Box::pin(run("direct")).await;
    let outcomes: Vec<Value> = expected
        .iter()
        .filter(|line| line.get("ok").is_some())
        .map(|line| json!([line["turn"], line["toolId"], line["ok"], line["errorType"]]))
        .collect();
    assert_eq!(
        json!(outcomes),
        json!([
            [1, "echo", true, null],
            [1, "ecco", false, "NOT_FOUND"],
            [2, "change", true, null],
            [2, "echo", false, "VALIDATION"],
            [2, "pay", false, "CONFIRMATION_REQUIRED"],
        ])
    );
    for path in [
        "gemini",
        "interactions",
        "openai",
        "gemini-live",
        "openai-realtime",
    ] {
        assert_eq!(Box::pin(run(path)).await, expected, "{path}");
    }
}
