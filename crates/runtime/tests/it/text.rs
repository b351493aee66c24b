//! Text sessions against a server over real sockets: what the user gets, whatever the server does.

use crate::support::text_server::{
    Chat, Place, Reply, TextServer, calls, delta, finish, limits, model, model_with, refusal, text,
};
use crate::support::tools::{Dropped, echo, tool};
use crate::support::{Recorder, ledger_over, memory_store, shared_over};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use windlass_contract::handler::{Execution, Success};
use windlass_contract::kind::{Mode, SideEffects};
use windlass_contract::registry::Tool;
use windlass_provider::answer::AnswerLimits;
use windlass_runtime::text::{FinishReason, TextLimits, TextSettings};
use windlass_runtime::transport::http::HttpLimits;
use windlass_session::limits::Limits;

async fn chat(replies: Vec<Reply>, tools: Vec<Tool>) -> (Chat, TextServer) {
    let server = TextServer::start(replies).await;
    let chat = Chat::new(vec![model(&server.url, "fake")], tools);
    (chat, server)
}

fn types(chunks: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = chunks
        .iter()
        .map(|chunk| chunk["type"].as_str().unwrap())
        .collect();
    types.dedup();
    types
}

#[tokio::test]
async fn a_turn_chains_calls_until_there_are_words() {
    let replies = vec![
        calls(&[
            (
                "call_one_00001",
                "echo",
                json!({"text": "a", "pin": "1234"}),
            ),
            ("call_two_00001", "nothing", json!({})),
        ]),
        calls(&[("call_one_00001", "echo", json!({"text": "b"}))]),
        text("It said a and b."),
        text("Yes."),
    ];
    let (mut chat, server) = chat(replies, vec![echo()]).await;
    let written = chat.say("What does it say?").await;
    assert_eq!(written.words(), "It said a and b.");
    assert_eq!(written.end.reason, FinishReason::Stop);
    assert_eq!(written.end.usage.prompt_tokens, 30);
    assert_eq!(
        types(&written.chunks),
        [
            "start",
            "start-step",
            "tool-input-available",
            "tool-output-error",
            "tool-output-available",
            "finish-step",
            "start-step",
            "tool-input-available",
            "tool-output-available",
            "finish-step",
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "finish-step",
            "finish"
        ]
    );
    let shown: Vec<_> = written.of_type("tool-input-available").collect();
    assert_eq!(
        shown[0]["input"],
        json!({"text": "a"}),
        "no secret is shown"
    );
    assert_eq!(shown[0]["title"], "Echoing a");
    assert_eq!(chat.say("Sure?").await.words(), "Yes.");

    let seen = server.seen();
    let roles = |body: &Value| -> Vec<String> {
        let messages = body["messages"].as_array().unwrap().iter();
        messages
            .map(|message| message["role"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        roles(&seen[2]),
        [
            "system",
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant",
            "tool"
        ]
    );
    assert_eq!(roles(&seen[3]).last().unwrap(), "user");
    assert_eq!(roles(&seen[3]).len(), 9);
    // A second one is opened at most, in case the first should not be free in time.
    assert!(server.connections() <= 2, "connections are used again");
}

#[tokio::test]
async fn what_a_model_sends_together_reaches_the_user_together() {
    let word = |number: u32| delta(json!({"content": format!("word{number} ")}));
    let words: Vec<Value> = (0..60).map(word).chain([finish("stop")]).collect();
    let (mut chat, _server) = chat(vec![Reply::Together(words)], Vec::new()).await;
    let written = chat.say("Many words, please.").await;
    assert_eq!(written.of_type("text-delta").count(), 60);
    // It may come in a few packets.
    assert!(written.pieces < 15, "{} pieces", written.pieces);
}

#[tokio::test]
async fn a_turn_never_ends_without_words() {
    let silent = || Reply::Stream(vec![finish("stop")]);
    let preface = |words: &str| {
        let call = json!({"index": 0, "id": "call_one_00001", "type": "function",
            "function": {"name": "echo", "arguments": "{}"}});
        let chunk = delta(json!({"content": words, "tool_calls": [call]}));
        Reply::Stream(vec![chunk, finish("tool_calls")])
    };
    let canned = "I could not put an answer together. Please ask again, perhaps in other words.";
    for (replies, words) in [
        (vec![silent(), text("Here I am.")], "Here I am."),
        (vec![silent()], canned),
        (
            vec![calls(&[("call_one_00001", "echo", json!({}))]), silent()],
            canned,
        ),
        // Neither blanks nor what is said before a call answer anybody, and blanks alone are not said.
        (vec![text(" "), text("Here I am.")], "Here I am."),
        (vec![preface(" "), silent()], canned),
        (
            vec![preface("Let me see."), silent(), text("Here I am.")],
            "Let me see.Here I am.",
        ),
    ] {
        let (mut chat, server) = chat(replies.clone(), vec![echo()]).await;
        let written = chat.say("Hello?").await;
        assert_eq!(written.words(), words, "{replies:?}");
        assert_eq!(written.errors(), Vec::<&str>::new());
        let mut seen = server.seen();
        // An answer that held nothing was paid for, too.
        assert_eq!(written.end.usage.prompt_tokens, 10 * seen.len() as u64);
        assert_eq!(seen.pop().unwrap().get("tools"), None);
    }
}

#[tokio::test]
async fn a_model_that_only_calls_is_asked_for_words_alone() {
    let replies = vec![calls(&[("call_one_00001", "echo", json!({}))])];
    let (mut chat, server) = chat(replies, vec![echo()]).await;
    let written = chat.say("Go on.").await;
    let seen = server.seen();
    assert!(seen.len() <= 12, "{} requests", seen.len());
    assert_eq!(seen.last().unwrap().get("tools"), None);
    assert!(written.words().starts_with("I could not"));
    assert_eq!(seen[1].get("tool_choice"), None);
}

#[tokio::test]
async fn whatever_the_server_does_the_user_gets_words_or_one_error() {
    let good = || text("All is well.");
    let html = || Reply::Refusal {
        status: 200,
        headers: "Content-Type: text/html\r\n",
        body: "<!doctype html>\n<html><body>Sign in</body></html>\n".to_owned(),
    };
    let event = |value: Value| format!("data: {value}\n\n").into_bytes();
    let half = {
        let mut bytes = event(delta(json!({"content": "good"})));
        bytes.extend_from_slice(b"data: {\"choices\":[{\"delta\":{\"content\":\"\xc3\"}}]}\n\n");
        bytes.extend(event(finish("stop")));
        bytes
    };
    let call = |index: u32, id: &str, arguments: &str| {
        delta(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": "echo", "arguments": arguments}}]}),
        )
    };
    let two_with_one_index = Reply::Stream(vec![
        call(0, "call_one_00001", "{\"text\":\"a\"}"),
        call(0, "call_two_00001", "{\"text\":\"b\"}"),
        finish("tool_calls"),
    ]);
    let never_json = Reply::Stream(vec![
        call(0, "call_one_00001", "{\"text\":"),
        finish("tool_calls"),
    ]);
    let unknown_tool = calls(&[("call_one_00001", "no_such_tool", json!({}))]);
    let mid_error = {
        let mut bytes = event(delta(json!({"content": "So "})));
        bytes.extend(event(
            json!({"error": {"message": "overloaded", "code": 503}}),
        ));
        bytes
    };
    for (name, replies, words, error, requests) in [
        (
            "400",
            vec![refusal(400, "")],
            "",
            "the model's provider refused the request",
            1,
        ),
        (
            "401",
            vec![refusal(401, "")],
            "",
            "no key was sent to the model's provider; set text.api_key, or the variable that text.api_key_env names",
            1,
        ),
        (
            "403",
            vec![refusal(403, "")],
            "",
            "no key was sent to the model's provider; set text.api_key, or the variable that text.api_key_env names",
            1,
        ),
        (
            "404",
            vec![refusal(404, "")],
            "",
            "the model's provider knows no such model or address",
            1,
        ),
        (
            "429 once",
            vec![refusal(429, ""), good()],
            "All is well.",
            "",
            2,
        ),
        (
            "429 with a wait",
            vec![refusal(429, "retry-after-ms: 5\r\n"), good()],
            "All is well.",
            "",
            2,
        ),
        (
            "429 with too long a wait",
            vec![refusal(429, "retry-after: 60\r\n")],
            "",
            "the model's provider has too much to do now; please ask again in a moment",
            1,
        ),
        (
            "500 twice",
            vec![refusal(500, ""), refusal(500, ""), good()],
            "All is well.",
            "",
            3,
        ),
        (
            "503 for good",
            vec![refusal(503, "")],
            "",
            "the model's provider has too much to do now; please ask again in a moment",
            3,
        ),
        (
            "a page",
            vec![html()],
            "",
            "the model's provider sent something that is no answer",
            1,
        ),
        (
            "cut before a word",
            vec![Reply::Broken(b": hi\n\n".to_vec()), good()],
            "All is well.",
            "",
            2,
        ),
        (
            "cut after words",
            vec![Reply::Broken(event(delta(json!({"content": "So "}))))],
            "So ",
            "the model's answer was cut off; please ask again",
            1,
        ),
        (
            "no end mark",
            vec![Reply::Raw(event(delta(json!({"content": "So "}))))],
            "So ",
            "the model's answer was cut off; please ask again",
            1,
        ),
        (
            "hanging",
            vec![Reply::Hanging(b": hi\n\n".to_vec()), good()],
            "All is well.",
            "",
            2,
        ),
        (
            "endless",
            vec![Reply::Endless(event(delta(json!({"content": ""}))))],
            "",
            "the model's provider sent something that is no answer",
            1,
        ),
        ("half a letter", vec![Reply::Raw(half)], "good", "", 1),
        (
            "an error in the middle",
            vec![Reply::Raw(mid_error)],
            "So ",
            "the model's provider has too much to do now; please ask again in a moment",
            1,
        ),
        (
            "two calls with one index",
            vec![two_with_one_index, good()],
            "All is well.",
            "",
            2,
        ),
        (
            "arguments that are no JSON",
            vec![never_json, good()],
            "All is well.",
            "",
            2,
        ),
        (
            "a tool that does not exist",
            vec![unknown_tool, good()],
            "All is well.",
            "",
            2,
        ),
    ] {
        let server = TextServer::start(replies).await;
        let limits = TextLimits {
            answer: AnswerLimits {
                stream_bytes_max: 64 * 1024,
                ..AnswerLimits::default()
            },
            ..limits()
        };
        let mut chat = Chat::with(
            vec![model(&server.url, "fake")],
            vec![echo()],
            limits,
            Vec::new(),
        );
        let written = chat.say("How is it?").await;
        assert_eq!(written.words(), words, "{name}");
        let errors = written.errors();
        assert_eq!(errors.first().copied().unwrap_or(""), error, "{name}");
        assert!(errors.len() <= 1, "{name}");
        assert_eq!(server.seen().len(), requests, "{name}");
    }
}

#[tokio::test]
async fn the_next_model_is_asked_where_the_first_fails() {
    let broken = TextServer::start(vec![refusal(404, "")]).await;
    let good = TextServer::start(vec![text("From the second.")]).await;
    let models = vec![model(&broken.url, "first"), model(&good.url, "second")];
    let mut chat = Chat::new(models, vec![echo()]);
    let written = chat.say("Hello?").await;
    assert_eq!(
        (written.words().as_str(), written.errors().len()),
        ("From the second.", 0)
    );
    assert_eq!(good.seen()[0]["model"], "second");
    let nobody = model("http://127.0.0.1:1/v1", "nobody");
    let mut chat = Chat::new(vec![nobody, model(&good.url, "second")], vec![echo()]);
    assert_eq!(chat.say("Hello?").await.words(), "From the second.");
}

#[tokio::test]
async fn a_turn_that_is_given_up_drops_its_request_and_its_reads() {
    let dropped = Dropped::default();
    let never = dropped.clone();
    let tools = || vec![echo()];
    let recorder = Arc::new(Recorder::default());
    let hanging =
        Reply::Hanging(format!("data: {}\n\n", delta(json!({"content": "So "}))).into_bytes());
    let (mut talking, server) = chat(vec![hanging, text("Here again.")], tools()).await;
    let mut soon = std::pin::pin!(tokio::time::sleep(Duration::from_millis(50)));
    let written = talking.say_until("Hello?", soon.as_mut()).await;
    assert_eq!(written.end.reason, FinishReason::Cancelled);
    assert_eq!(written.words(), "So ");
    assert_eq!(talking.say("Once more?").await.words(), "Here again.");
    let messages = server.seen().pop().unwrap()["messages"].to_string();
    assert!(
        messages.contains("So ") && messages.contains("interrupted"),
        "{messages}"
    );

    let server = TextServer::start(vec![
        calls(&[("call_one_00001", "never", json!({}))]),
        text("Here again."),
    ])
    .await;
    let mut waiting = Chat::with(
        vec![model(&server.url, "fake")],
        vec![tool("never", move |_| never.never())],
        limits(),
        vec![recorder.clone()],
    );
    let mut soon = std::pin::pin!(tokio::time::sleep(Duration::from_millis(50)));
    let written = waiting.say_until("Look it up.", soon.as_mut()).await;
    assert_eq!(written.end.reason, FinishReason::Cancelled);
    assert!(recorder.saw("CallCancelled"));
    assert_eq!(waiting.say("And now?").await.words(), "Here again.");
    assert_eq!(dropped.count(), 1);
}

#[tokio::test]
async fn a_refusal_whose_body_never_comes_holds_no_turn() {
    let server = TextServer::start(vec![Reply::StalledRefusal]).await;
    let model = model_with(&server.url, "fake", HttpLimits::default());
    let mut chat = Chat::new(vec![model], vec![]);
    let seen = server.clone();
    let mut soon = std::pin::pin!(async move {
        while seen.seen().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let written = chat.say_until("Hello?", soon.as_mut()).await;
    assert_eq!(written.end.reason, FinishReason::Cancelled);

    let server = TextServer::start(vec![Reply::StalledRefusal]).await;
    let model = model_with(&server.url, "fake", HttpLimits::default());
    let limits = TextLimits {
        turn_timeout: Duration::from_millis(50),
        ..limits()
    };
    let mut chat = Chat::with(vec![model], vec![], limits, Vec::new());
    let written = chat.say("Hello?").await;
    let told = "the answer took too long and was given up; please ask again";
    assert_eq!(written.errors(), [told]);
}

fn has(body: &Value, text: &str) -> bool {
    body["messages"].to_string().contains(text)
}

#[tokio::test]
async fn what_the_window_leaves_out_is_summarised_beside_the_turns() {
    let long = |word: &str| format!("{word} {}", "x".repeat(1_000));
    for (summary, is_told) in [
        (text("They spoke of ships."), true),
        (refusal(500, ""), false),
    ] {
        let server = TextServer::start(vec![text(&long("Noted."))]).await;
        let cheap = TextServer::start(vec![summary]).await;
        let limits = TextLimits {
            history_tokens_max: 800,
            ..limits()
        };
        let mut chat = Chat::summarised(
            vec![model(&server.url, "dear")],
            Some(model(&cheap.url, "cheap")),
            vec![echo()],
            limits,
            Vec::new(),
        );
        let begun = std::time::Instant::now();
        chat.say(&long("First.")).await;
        loop {
            let written = chat.say(&long("Next.")).await;
            assert_eq!(written.errors(), Vec::<&str>::new());
            let asked = server.seen().pop().unwrap();
            assert!(asked["messages"].as_array().unwrap().len() <= 4);
            if has(&asked, "They spoke of ships.") {
                break;
            }
            if !is_told && cheap.seen().len() > 1 {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60));
            tokio::task::yield_now().await;
        }
        let seen = cheap.seen();
        assert!(has(&seen[0], "First.") && has(&seen[0], "Write the notes"));
        assert!(seen[0].get("tools").is_none(), "it is given no tools");
        if is_told {
            // The next one goes on from the one before.
            while cheap.seen().len() < 2 {
                chat.say(&long("More.")).await;
                assert!(begun.elapsed() < Duration::from_secs(60));
            }
            let second = &cheap.seen()[1];
            assert!(has(second, "They spoke of ships.") && !has(second, "First."));
        }
    }
}

#[tokio::test]
async fn a_model_whose_window_is_the_limit_summarises_before_it_is_full() {
    let long = |word: &str| format!("{word} {}", "x".repeat(1_000));
    let server = TextServer::start(vec![text(&long("Noted."))]).await;
    let mut small = Arc::into_inner(model(&server.url, "small")).unwrap();
    // Nearly all of it is kept for instruction and answer.
    Arc::make_mut(&mut small.profile).context_tokens_max = 5_600;
    let mut chat = Chat::with(vec![Arc::new(small)], vec![echo()], limits(), Vec::new());
    let is_summary = |asked: &Value| has(asked, "Write the notes");
    let begun = std::time::Instant::now();
    for word in ["First.", "Second.", "Third."] {
        chat.say(&long(word)).await;
    }
    while !server.seen().iter().any(is_summary) {
        chat.say("More.").await;
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    let seen = server.seen();
    // Three turns have gone out whole, and the summary is of the oldest.
    assert!(
        seen[..3]
            .iter()
            .all(|asked| has(asked, "First.") && !is_summary(asked))
    );
    let summary = seen.iter().find(|asked| is_summary(asked)).unwrap();
    assert!(
        has(summary, "First.") && summary.get("tools").is_none(),
        "{summary}"
    );
}

#[tokio::test]
async fn a_summary_stands_for_what_it_summarises_in_the_next_session() {
    let long = |word: &str| format!("{word} {}", "x".repeat(1_000));
    let server = TextServer::start(vec![text(&long("Noted."))]).await;
    let cheap = TextServer::start(vec![text("They spoke of ships.")]).await;
    let limits = TextLimits {
        history_tokens_max: 800,
        ..limits()
    };
    let settings = TextSettings {
        models: vec![model(&server.url, "dear")],
        summary_model: Some(model(&cheap.url, "cheap")),
        limits,
    };
    let ledger = ledger_over(memory_store());
    let mut first = Chat::begin(
        settings,
        vec![echo()],
        shared_over(ledger.clone(), Vec::new()),
    );
    first.say(&long("First.")).await;
    let begun = std::time::Instant::now();
    while !has(&server.seen().pop().unwrap(), "They spoke of ships.") {
        first.say(&long("Next.")).await;
        assert!(begun.elapsed() < Duration::from_secs(60));
        tokio::task::yield_now().await;
    }
    first.session.suspend(std::future::ready(())).await;

    let models = vec![model(&server.url, "dear")];
    let mut next = Chat::going_on(ledger, models, vec![echo()]);
    next.say("Where were we?").await;
    let told = server.seen().pop().unwrap();
    assert!(has(&told, "They spoke of ships."), "{told}");
    assert!(!has(&told, "First."), "{told}");
    assert!(has(&told, "Next."), "{told}");
}

#[tokio::test]
async fn the_next_session_knows_what_was_said_and_done() {
    let replies = vec![
        calls(&[("call_one_00001", "echo", json!({"text": "a"}))]),
        text("It said a."),
        text("Yes."),
    ];
    let server = TextServer::start(replies).await;
    let ledger = ledger_over(memory_store());
    let models = vec![model(&server.url, "fake")];
    let mut first = Chat::over(ledger.clone(), models.clone(), vec![echo()]);
    assert_eq!(first.say("What does it say?").await.words(), "It said a.");
    first.session.suspend(std::future::ready(())).await;
    let mut next = Chat::going_on(ledger, models, vec![echo()]);
    assert_eq!(next.say("Sure?").await.words(), "Yes.");
    let told = server.seen().pop().unwrap();
    for said in ["What does it say?", "It said a.", "Sure?"] {
        assert!(has(&told, said), "{said}: {told}");
    }
    // The call and its result are where they were.
    let roles = told["messages"].as_array().unwrap().iter();
    let roles: Vec<&str> = roles.map(|one| one["role"].as_str().unwrap()).collect();
    let expected = ["system", "user", "assistant", "tool", "assistant", "user"];
    assert_eq!(roles, expected, "{told}");
}

/// Orders once it is let.
fn order(may_end: &Arc<Semaphore>, orders: &Arc<AtomicUsize>) -> Tool {
    let (may_end, orders) = (may_end.clone(), orders.clone());
    Tool {
        side_effects: SideEffects::Writes,
        idempotent: false,
        timeout_ms: 60_000,
        ..tool("order", move |_| {
            let number = orders.fetch_add(1, Ordering::SeqCst) + 1;
            let may_end = may_end.clone();
            Execution::Pending(Box::pin(async move {
                may_end.acquire().await.unwrap().forget();
                Ok(Success::new(json!({ "order": number })))
            }))
        })
    }
}

#[tokio::test]
async fn a_change_that_is_asked_for_anew_while_it_runs_is_made_once_and_its_end_is_read() {
    let orders = Arc::new(AtomicUsize::new(0));
    let may_end = Arc::new(Semaphore::new(0));
    let tools = || vec![order(&may_end, &orders)];
    let asks = || calls(&[("call_one_00001", "order", json!({ "text": "tea" }))]);
    let server = TextServer::start(vec![asks(), asks(), text("It is ordered.")]).await;
    let ledger = ledger_over(memory_store());
    let models = vec![model(&server.url, "fake")];
    let mut first = Chat::over(ledger.clone(), models.clone(), tools());
    let has_begun = async {
        while orders.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let mut has_begun = std::pin::pin!(has_begun);
    let written = first.say_as("a", "Order tea.", has_begun.as_mut()).await;
    assert_eq!(written.end.reason, FinishReason::Cancelled);
    let ending = tokio::spawn(first.session.suspend(std::future::ready(())));
    // The client types its message again, under another id.
    let mut next = Chat::going_on(ledger, models, tools());
    let asked_again = async {
        while server.seen().len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        may_end.add_permits(1);
    };
    let mut never = std::pin::pin!(std::future::pending());
    let (written, ()) = tokio::join!(next.say_as("b", "Order tea.", never.as_mut()), asked_again);
    assert_eq!(written.words(), "It is ordered.");
    let told = server.seen().pop().unwrap();
    let result = told["messages"].as_array().unwrap().last().unwrap();
    let result = result["content"].as_str().unwrap();
    assert!(result.contains(r#""data":{"order":1}"#), "{result}");
    assert_eq!(orders.load(Ordering::SeqCst), 1);
    ending.await.unwrap();
}

#[tokio::test]
async fn a_turn_that_is_taken_up_has_what_is_left_of_its_budgets() {
    let echoes = |text: &str| calls(&[("call_one_00001", "echo", json!({ "text": text }))]);
    let hanging =
        Reply::Hanging(format!("data: {}\n\n", delta(json!({"content": "So "}))).into_bytes());
    let replies = vec![
        echoes("a"),
        echoes("b"),
        hanging,
        echoes("c"),
        text("That is all."),
    ];
    let server = TextServer::start(replies).await;
    let ledger = ledger_over(memory_store());
    let models = vec![model(&server.url, "fake")];
    let place = || {
        let mut limits = Limits::of(Mode::Text);
        limits.turn.calls_max = 2;
        Place {
            limits,
            ..Place::usual(shared_over(ledger.clone(), Vec::new()))
        }
    };
    let mut first = Chat::at(place(), models.clone(), vec![echo()]);
    let mut soon = std::pin::pin!(tokio::time::sleep(Duration::from_millis(200)));
    let written = first.say_as("a", "What does it say?", soon.as_mut()).await;
    assert_eq!(written.end.reason, FinishReason::Cancelled);
    // As after a crash: nobody has ended the session.
    drop(first);
    let mut next = Chat::going_on_at(place(), models, vec![echo()]);
    let mut never = std::pin::pin!(std::future::pending());
    let written = next.say_as("a", "What does it say?", never.as_mut()).await;
    assert_eq!(written.words(), "That is all.");
    let ends = written.of_type("tool-output-error");
    let ends: Vec<&str> = ends.filter_map(|end| end["errorText"].as_str()).collect();
    assert!(
        ends.len() == 1 && ends[0].starts_with("BUDGET_EXCEEDED"),
        "{ends:?}"
    );
    let told = server.seen().pop().unwrap();
    assert_eq!(
        told.to_string().matches("What does it say?").count(),
        1,
        "{told}"
    );
}

#[tokio::test]
async fn thoughts_are_no_answer_and_what_others_wrote_stays_as_it_is() {
    let thought = |words: &str| {
        let pieces = words.split_inclusive(' ');
        let pieces = pieces.map(|piece| delta(json!({ "content": piece })));
        Reply::Together(pieces.chain([finish("stop")]).collect())
    };
    let replies = vec![
        calls(&[(
            "call_one_00001",
            "echo",
            json!({"text": "<think>a</think>b"}),
        )]),
        thought("<think> Who is it? I do not"),
        thought("<think> Maud, I think. </think> It is Maud."),
    ];
    let (mut chat, server) = chat(replies, vec![echo()]).await;
    let written = chat.say("What is <think>this</think>?").await;
    assert_eq!(written.words(), "It is Maud.");
    let seen = server.seen();
    assert_eq!(
        seen.len(),
        3,
        "an answer of thoughts alone is asked for again"
    );
    let last = seen[2]["messages"].to_string();
    assert!(last.contains("What is <think>this</think>?"), "{last}");
    assert!(last.contains("<think>a</think>b"), "{last}");
    assert!(!last.contains("Who is it?"), "{last}");
}

#[tokio::test]
async fn a_call_written_as_prose_is_told_of_once_and_its_claim_is_not_the_last_word() {
    let prose = "<tool_call>{\"name\": \"echo\", \"arguments\": {\"text\": \"a\"}}</tool_call>\n<tool_response>{\"ok\": true}</tool_response>\nIt is done.";
    let replies = vec![
        text(prose),
        calls(&[("call_one_00001", "echo", json!({"text": "a"}))]),
        text("It said a."),
    ];
    let (mut said, server) = chat(replies, vec![echo()]).await;
    let written = said.say("Echo a.").await;
    assert_eq!(written.words(), "It said a.");
    let told = server.seen()[1]["messages"].to_string();
    assert!(told.contains("It was not carried out"), "{told}");
    assert!(!told.contains("tool_response"), "{told}");

    let replies = vec![text(prose), text(prose), text("Yes.")];
    let (mut said, server) = chat(replies, vec![echo()]).await;
    let written = said.say("Echo a.").await;
    let words = written.words();
    assert!(
        words.trim().starts_with("I could not carry that out"),
        "{words}"
    );
    assert_eq!(server.seen().len(), 2);
    assert_eq!(written.of_type("tool-input-available").count(), 0);
}

#[tokio::test]
async fn a_call_that_the_length_limit_cut_off_is_told_so_and_not_run() {
    let cut = json!([{"index": 0, "id": "call_one_00001", "function": {"name": "echo", "arguments": "{\"text\": \"a"}}]);
    let replies = vec![
        Reply::Together(vec![delta(json!({ "tool_calls": cut })), finish("length")]),
        text("It was too long."),
    ];
    let (mut said, server) = chat(replies, vec![echo()]).await;
    let written = said.say("Echo much.").await;
    assert_eq!(written.words(), "It was too long.");
    assert_eq!(written.of_type("tool-input-available").count(), 0);
    let told = server.seen()[1]["messages"].to_string();
    assert!(told.contains("reached the limit of its length"), "{told}");
}
