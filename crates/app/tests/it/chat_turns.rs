//! Turns of a chat over real sockets: who gets one, who gets that of another, what becomes of it when its client leaves, and
//! what pages of other origins may read.

use crate::chat::{chat, chat_with, chunks, echo, question, user, words};
use crate::support::change::{Changes, write_tool};
use crate::support::http::{HttpAnswer, get, post, post_with, request};
use crate::support::model_server::{Gate, ModelServer, Says};
use crate::support::program;
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

/// How long what must come may take; only a broken server takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn the_same_message_twice_at_once_has_one_turn() {
    let chat = chat(echo, &[]).await;
    for round in 0..20 {
        let body = json!({"id": format!("c-{round}"), "messages": [user("a", "Who?")]}).to_string();
        let before = chat.model.seen().len();
        let both = Arc::new(Barrier::new(2));
        let askers: Vec<_> = (0..2)
            .map(|_| {
                let (both, address, body) = (both.clone(), chat.address.clone(), body.clone());
                std::thread::spawn(move || {
                    both.wait();
                    post(&address, "/api/chat", body.as_bytes())
                })
            })
            .collect();
        let answers: Vec<HttpAnswer> = askers
            .into_iter()
            .map(|asker| asker.join().unwrap())
            .collect();
        assert_eq!(answers[0].body, answers[1].body);
        assert_eq!(words(&answers[0]), "It is me.");
        assert_eq!(chat.model.seen().len(), before + 1, "round {round}");
    }
}

/// Asks for consent, and goes on only when the gate is open.
fn slow_after_consent(gate: Arc<Gate>) -> impl Fn(&Value) -> Says + Send + Sync {
    move |last| match last["content"].to_string().contains("approved") {
        true => Says::Waits(gate.clone(), "There you are."),
        false => echo(last),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_voice_session_asks_can_be_answered_over_http_by_its_client() {
    let tools = tempfile::tempdir().unwrap();
    let asked = json!({"requiresConfirmation": true, "allowedModes": ["voice"]});
    write_tool(tools.path(), asked);
    let changes = Changes::new();
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_with(echo, &keys, changes.handlers()).await;
    // The client's id comes with the answer to any first request.
    let origin = format!("http://{}", chat.address);
    let hello = json!({"message": "Hello."}).to_string();
    let met = post_with(
        &chat.address,
        "/api/chat",
        &[("Origin", &origin)],
        hello.as_bytes(),
    );
    let cookie = met.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let mine = [("Cookie", cookie.as_str())];
    let mut client = VoiceClient::connect(&chat.address, &mine).await.unwrap();
    client
        .send(json!({"type": "start", "conversationId": "v"}))
        .await;
    client.expect("started").await;
    client.say("call change {\"what\": \"one\"}").await;
    let token = client.expect("confirmation_request").await["token"].clone();
    let confirm = |headers: &[(&str, &str)], token: &Value| {
        let body = json!({"conversationId": "v", "token": token, "approved": true}).to_string();
        post_with(&chat.address, "/api/confirm", headers, body.as_bytes())
    };
    let met = post_with(
        &chat.address,
        "/api/chat",
        &[("Origin", &origin)],
        hello.as_bytes(),
    );
    let stranger = met.header("set-cookie").unwrap();
    let theirs = [("Cookie", stranger.split(';').next().unwrap())];
    assert_eq!(confirm(&theirs, &token).status, 410, "somebody else");
    assert_eq!(confirm(&mine, &json!("made-up")).status, 410);
    assert_eq!(confirm(&[], &json!("made-up")).status, 410);
    let confirmed = || {
        let done = confirm(&mine, &token);
        let said: Value = serde_json::from_str(&done.body).unwrap();
        assert_eq!((done.status, &said["ok"]), (200, &json!(true)), "{said}");
        said["response"].clone()
    };
    let first = confirmed();
    let told = client.expect("confirmation_result").await;
    assert_eq!((&told["ok"], &told["response"]), (&json!(true), &first));
    // Clicks elsewhere are not told to a client that knows what came of it; its own click is answered.
    assert_eq!(confirmed(), first);
    assert_eq!(confirmed(), first);
    client
        .send(json!({"type": "confirm", "token": token, "approved": true}))
        .await;
    assert_eq!(client.expect("confirmation_result").await, told);
    client.send(json!({"type": "stop"})).await;
    let rest = client.all_until("session_complete").await;
    let results = rest
        .iter()
        .filter(|message| message["type"] == "confirmation_result");
    assert_eq!(results.count(), 0, "{rest:?}");
    assert_eq!(changes.made(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_refused_can_be_sent_again() {
    let gate = Arc::new(Gate::default());
    let keys = [("tools.start_voice_session.requires_confirmation", "true")];
    let chat = chat(slow_after_consent(gate.clone()), &keys).await;
    let asked = chat.ask(&json!({"id": "c", "message": "Talk."}));
    let token = question(&asked)["token"].clone();
    let body = json!({"conversationId": "c", "token": token, "approved": true}).to_string();
    let confirmed = post(&chat.address, "/api/confirm", body.as_bytes());
    assert_eq!(confirmed.status, 200, "{}", confirmed.body);
    // The model has yet to say something about it, so that the session is taken.
    let message = json!({"id": "c", "messages": [user("a", "Who?")]});
    let refused = chat.ask(&message);
    let last = chunks(&refused).pop().unwrap();
    assert_eq!(last["type"], "finish", "{}", refused.body);
    assert!(
        refused.body.contains("is being answered"),
        "{}",
        refused.body
    );
    gate.open();
    assert_eq!(words(&chat.ask(&message)), "It is me.");
}

/// Changes something, once its gate is open, and tells when it begins.
struct SlowChange {
    gate: Arc<Gate>,
    begun: watch::Sender<bool>,
}

impl Handler for SlowChange {
    fn execute(&self, _: Invocation) -> Execution {
        let gate = self.gate.clone();
        self.begun.send_replace(true);
        Execution::Pending(Box::pin(async move {
            tokio::task::spawn_blocking(move || gate.pass())
                .await
                .expect("the gate opens");
            Ok(Success::new(json!({"changed": true})))
        }))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_has_begun_ends_although_its_client_has_left() {
    let tools = tempfile::tempdir().unwrap();
    let folder = tools.path().join("slow-change");
    std::fs::create_dir(&folder).unwrap();
    let schema = json!({
        "toolId": "slow_change", "version": "1.0.0", "description": "Changes something, slowly.",
        "category": "action", "sideEffects": "writes", "idempotent": false, "requiresConfirmation": false,
        "allowedModes": ["text"], "latencyBudgetMs": 1000, "timeoutMs": 60_000,
        "parameters": {"type": "object", "properties": {}, "additionalProperties": false}
    });
    std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    std::fs::write(
        folder.join("guide.md"),
        "# Slow change\n\nChanges something, slowly.\n",
    )
    .unwrap();
    let gate = Arc::new(Gate::default());
    let (begun, mut has_begun) = watch::channel(false);
    let handler: Arc<dyn Handler> = Arc::new(SlowChange {
        gate: gate.clone(),
        begun,
    });
    let handlers = BTreeMap::from([(ToolId::parse("slow_change").unwrap(), handler)]);
    let rule = |last: &Value| match last["content"].to_string().contains("Change.") {
        true => Says::Calls("slow_change", json!({})),
        false => Says::Words("Done."),
    };
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_with(rule, &keys, handlers).await;
    // The client stays until the call runs, and leaves.
    let body = json!({"id": "c", "message": "Change."});
    let stream = chat.read_until(&body, "tool-input-available");
    has_begun.wait_for(|has_begun| *has_begun).await.unwrap();
    drop(stream);
    gate.open();
    let audit = chat.data.path().join("audit.jsonl");
    let begun = Instant::now();
    loop {
        let lines = std::fs::read_to_string(&audit).unwrap_or_default();
        if lines.contains("slow_change") {
            assert!(lines.contains("\"ok\":true"), "{lines}");
            break;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "nobody looked after the call: {lines}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A page of a foreign origin reads why, and never with its credentials.
/// Also by a page whose request came with credentials. Nothing of a client is in the answer.
fn assert_readable_refusal(answer: &HttpAnswer) {
    let origin = Some("https://evil.example");
    assert_eq!(answer.header("access-control-allow-origin"), origin);
    assert_eq!(
        answer.header("access-control-allow-credentials"),
        Some("true")
    );
    assert_eq!(answer.header("set-cookie"), None);
    assert_eq!(answer.header("x-windlass-client"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_allowed_origins_may_read_every_text_endpoint() {
    let friend = "https://friend.example";
    let chat = chat(
        echo,
        &[
            ("server.allowed_origins", friend),
            ("text.request_bytes_max", "100000"),
        ],
    )
    .await;
    let completion = json!({"messages": [{"role": "user", "content": "Who?"}]}).to_string();
    let message = json!({"message": "Who?"}).to_string();
    let long = "x".repeat(200_000);
    for (path, body, status) in [
        ("/v1/chat/completions", completion.as_str(), 200),
        ("/v1/chat/completions", "{}", 400),
        ("/v1/chat/completions", long.as_str(), 413),
        ("/api/chat", message.as_str(), 200),
        ("/api/chat", long.as_str(), 413),
        ("/api/confirm", "{}", 400),
    ] {
        let answer = post_with(&chat.address, path, &[("Origin", friend)], body.as_bytes());
        assert_eq!(answer.status, status, "{path}");
        let allowed = answer.header("access-control-allow-origin");
        assert_eq!(allowed, Some(friend), "{path} {status}");
        let stranger = [("Origin", "https://evil.example")];
        let answer = post_with(&chat.address, path, &stranger, body.as_bytes());
        assert_eq!(answer.status, 403, "{path}");
        assert_readable_refusal(&answer);
        assert!(answer.body.contains("server.allowed_origins"), "{path}");
    }
    for path in [
        "/v1/chat/completions",
        "/v1/models",
        "/api/chat",
        "/api/confirm",
    ] {
        let wished = "authorization,x-stainless-os";
        let headers = |origin| {
            [
                ("Origin", origin),
                ("Access-Control-Request-Method", "POST"),
                ("Access-Control-Request-Headers", wished),
            ]
        };
        let answer = request(&chat.address, "OPTIONS", path, &headers(friend));
        assert_eq!(answer.status, 204, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(friend));
        assert_eq!(answer.header("access-control-allow-headers"), Some(wished));
        let answer = request(
            &chat.address,
            "OPTIONS",
            path,
            &headers("https://evil.example"),
        );
        assert_readable_refusal(&answer);
        assert_eq!(answer.header("access-control-allow-headers"), Some(wished));
    }
    let models = request(&chat.address, "GET", "/v1/models", &[("Origin", friend)]);
    assert_eq!(models.header("access-control-allow-origin"), Some(friend));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_read_up_to_its_limit_and_no_further() {
    const MOST: usize = 6 << 20;
    let chat = chat(echo, &[]).await;
    let body = |bytes: usize| {
        let frame = json!({"message": "Who?", "padding": ""}).to_string();
        let padding = "x".repeat(bytes - frame.len());
        json!({"message": "Who?", "padding": padding}).to_string()
    };
    for (bytes, status) in [(MOST, 200), (MOST + 1, 413), (10_000_000, 413)] {
        let body = body(bytes);
        assert_eq!(body.len(), bytes);
        let answer = post(&chat.address, "/api/chat", body.as_bytes());
        assert_eq!(answer.status, status, "{bytes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_models_profile_can_be_that_of_another_server() {
    for (like, is_asked) in [("openrouter.ai", true), ("api.mistral.ai", false)] {
        let keys = [("text.model", "mine"), ("models.mine.like", like)];
        let chat = chat(echo, &keys).await;
        assert_eq!(words(&chat.ask(&json!({"message": "Who?"}))), "It is me.");
        let seen = chat.model.seen().pop().unwrap();
        assert_eq!(seen.get("stream_options").is_some(), is_asked, "{seen}");
    }
}

#[test]
fn a_terminal_gets_one_answer_or_one_after_the_other() {
    let model = ModelServer::start(echo);
    let data = tempfile::tempdir().unwrap();
    let chat = |message: &[&str], lines: &'static str| {
        let mut command = program::command(data.path());
        command
            .arg("chat")
            .args(program::folders(data.path()))
            .args(["--text-provider-url", &model.url])
            .args(message);
        if !lines.is_empty() {
            std::fs::write(data.path().join("lines"), lines).unwrap();
            command.stdin(std::fs::File::open(data.path().join("lines")).unwrap());
        }
        program::run(&mut command)
    };
    let one = chat(&["Search."], "");
    assert_eq!(one.code, 0, "{:?}", one.problems);
    assert!(one.output.starts_with("Found.\n"), "{}", one.output);
    assert_eq!(one.problems, ["  (Searching for Fram)"]);
    assert!(
        one.output.contains("  [The polar ship Fram"),
        "{}",
        one.output
    );
    let both = chat(&[], "Who?\n\nHello.\n");
    assert_eq!((both.code, both.output.as_str()), (0, "It is me.\nYes.\n"));
    assert!(
        model.seen().last().unwrap()["messages"]
            .to_string()
            .contains("It is me.")
    );
}

#[test]
fn a_terminal_asks_every_question_that_an_approval_leads_to() {
    let model = ModelServer::start(|last| {
        let said = last["content"].to_string();
        let search = |query: &str| Says::Calls("kb_search", json!({ "query": query }));
        match said {
            said if said.contains("Search.") => search("Fram"),
            said if said.contains("approved")
                && said.contains("Fram")
                && !said.contains("Gjøa") =>
            {
                search("Gjøa")
            }
            said if said.contains("approved") || said.contains("said no") => {
                Says::Words("All is said.")
            }
            _ => Says::Words("Wait for it."),
        }
    });
    let data = tempfile::tempdir().unwrap();
    std::fs::write(
        data.path().join("windlass.toml"),
        "[tools.kb_search]\nrequires_confirmation = true\n",
    )
    .unwrap();
    let run = |message: &[&str], lines: &str| {
        std::fs::write(data.path().join("lines"), lines).unwrap();
        let mut command = program::command(data.path());
        command
            .arg("chat")
            .args(program::folders(data.path()))
            .args(["--text-provider-url", &model.url])
            .args(message)
            .stdin(std::fs::File::open(data.path().join("lines")).unwrap());
        program::run(&mut command)
    };
    for (message, lines) in [
        (vec![], "Search.\nyes\nyes\n"),
        (vec!["Search."], "yes\nyes\n"),
    ] {
        let run = run(&message, lines);
        assert_eq!(run.code, 0, "{:?}", run.problems);
        let said = run.problems.join("\n");
        let questions = said.matches("may the agent do this?").count();
        assert_eq!(questions, 2, "{said}");
        assert!(run.output.contains("All is said."), "{}", run.output);
    }
    // Nobody answers: what was asked is declined, and the program ends.
    let alone = run(&["Search."], "");
    assert_eq!(alone.code, 0, "{:?}", alone.problems);
    let said = alone.problems.join("\n");
    assert_eq!(said.matches("may the agent").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chats_context_and_spent_budgets_are_in_the_metrics() {
    let rule = |last: &Value| match last["content"].to_string().contains("BUDGET_EXCEEDED") {
        true => Says::Words("That is all."),
        false => Says::Calls("kb_search", json!({"query": "Fram"})),
    };
    let chat = chat(rule, &[("text.limits.turn.retrieval_calls_max", "1")]).await;
    let answer = chat.ask(&json!({"message": "Search."}));
    assert_eq!(words(&answer), "That is all.");
    let metrics: Value = serde_json::from_str(&get(&chat.address, "/metrics").body).unwrap();
    let context = &metrics["context"];
    for part in ["sessionInitTokens", "systemPromptTokens", "toolDeclTokens"] {
        assert!(context[part].as_u64().unwrap() > 100, "{part} in {context}");
    }
    let search = &metrics["tools"]["kb_search"];
    assert_eq!(search["budgetViolations"], 1, "{search}");
    let stats: Value = serde_json::from_str(&get(&chat.address, "/api/tools/stats").body).unwrap();
    let mut search = stats["kb_search"].clone();
    for time in ["avgDuration", "p50", "p95", "p99"] {
        assert!(search[time].take().is_u64(), "{time} in {stats}");
    }
    assert_eq!(
        search,
        json!({
            "calls": 2, "errors": 1, "errorsByType": {"BUDGET_EXCEEDED": 1}, "successRate": 0.5, "budgetViolations": 1,
            "avgDuration": null, "p50": null, "p95": null, "p99": null,
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_nobody_knows_is_refused() {
    let chat = chat(echo, &[]).await;
    for (trigger, status) in [("submit-message", 200), ("resubmit", 400)] {
        let body = json!({"id": "c", "trigger": trigger, "messages": [user("a", "Who?")]});
        assert_eq!(chat.ask(&body).status, status, "{trigger}");
        let short = json!({"id": "d", "trigger": trigger, "message": "Who?"});
        let answer = chat.ask(&short);
        assert_eq!(answer.status, status, "{trigger}");
        let names_them = answer
            .body
            .contains("neither submit-message nor regenerate-message");
        assert_eq!(names_them, status == 400, "{}", answer.body);
    }
}
