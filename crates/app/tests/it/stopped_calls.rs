//! Calls that a user stops in the chat, over real sockets: who may, what stops, what goes on, and who learns of it.

use crate::chat::{Chat, chat_in, chunks, user, words};
use crate::support::http::{HttpAnswer, post_with};
use crate::support::model_server::Says;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use tokio::sync::watch;
use windlass_app::server::Handlers;
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

/// Runs of the tool `work`: each shows a piece, and ends once it may.
struct Work {
    begun: watch::Sender<usize>,
    may_end: watch::Sender<bool>,
    ended: AtomicUsize,
}

struct Slow(Arc<Work>);

impl Handler for Slow {
    fn execute(&self, invocation: Invocation) -> Execution {
        let work = self.0.clone();
        invocation.context.output("I have begun.").unwrap();
        work.begun.send_modify(|begun| *begun += 1);
        Execution::Pending(Box::pin(async move {
            let mut may_end = work.may_end.subscribe();
            may_end.wait_for(|may_end| *may_end).await.unwrap();
            work.ended.fetch_add(1, Ordering::SeqCst);
            Ok(Success::new(json!({ "rows": 7 })))
        }))
    }
}

struct Scene {
    chat: Chat,
    work: Arc<Work>,
    tools: tempfile::TempDir,
    mine: String,
}

fn handlers(work: &Arc<Work>) -> Handlers {
    let handler: Arc<dyn Handler> = Arc::new(Slow(work.clone()));
    BTreeMap::from([(ToolId::parse("work").unwrap(), handler)])
}

async fn serve(data: tempfile::TempDir, tools: &tempfile::TempDir, work: &Arc<Work>) -> Chat {
    let rule = |last: &Value| match last["content"].as_str() {
        Some("Work.") => Says::Calls("work", json!({})),
        _ => Says::Words("Very well."),
    };
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    chat_in(data, rule, &keys, handlers(work)).await
}

async fn scene(side_effects: &str) -> Scene {
    let tools = tempfile::tempdir().unwrap();
    let folder = tools.path().join("work");
    std::fs::create_dir(&folder).unwrap();
    let schema = json!({
        "toolId": "work", "version": "1.0.0", "description": "Works.",
        "category": "utility", "sideEffects": side_effects, "idempotent": false, "requiresConfirmation": false,
        "allowedModes": ["text"], "latencyBudgetMs": 1000, "timeoutMs": 60000,
        "parameters": {"type": "object", "properties": {}, "additionalProperties": false}
    });
    std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    std::fs::write(folder.join("guide.md"), "# Work\n\nWorks.\n").unwrap();
    let work = Arc::new(Work {
        begun: watch::Sender::new(0),
        may_end: watch::Sender::new(false),
        ended: AtomicUsize::new(0),
    });
    let chat = serve(tempfile::tempdir().unwrap(), &tools, &work).await;
    let mine = cookie(&chat.address);
    Scene {
        chat,
        work,
        tools,
        mine,
    }
}

/// The id that the server gives to a browser that has none.
fn cookie(address: &str) -> String {
    let origin = format!("http://{address}");
    let hello = json!({"message": "Hello."}).to_string();
    let met = post_with(
        address,
        "/api/chat",
        &[("Origin", &origin)],
        hello.as_bytes(),
    );
    let cookie = met.header("set-cookie").unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

/// Has the tool called; the answer comes once that has ended.
fn ask(address: &str, cookie: &str) -> JoinHandle<HttpAnswer> {
    let (address, cookie) = (address.to_owned(), cookie.to_owned());
    let body = json!({"id": "c", "messages": [user("a", "Work.")]}).to_string();
    thread::spawn(move || {
        post_with(
            &address,
            "/api/chat",
            &[("Cookie", &cookie)],
            body.as_bytes(),
        )
    })
}

impl Scene {
    async fn until_begun(&self) {
        let mut begun = self.work.begun.subscribe();
        begun.wait_for(|begun| *begun > 0).await.unwrap();
    }

    /// The status of an answer to a request to stop a call, and what it says.
    fn cancel(&self, cookie: &str, body: &Value) -> (u16, Value) {
        let headers = [("Cookie", cookie)];
        let body = body.to_string();
        let answer = post_with(&self.chat.address, "/api/cancel", &headers, body.as_bytes());
        (answer.status, serde_json::from_str(&answer.body).unwrap())
    }
}

fn call(id: &str) -> Value {
    json!({"conversationId": "c", "callId": id})
}

fn refusal(outcome: &str) -> (bool, Value, Value) {
    (false, outcome.into(), format!("call_{outcome}").into())
}

fn told(said: &Value) -> (bool, Value, Value) {
    let ok = said["ok"].as_bool().unwrap();
    (ok, said["outcome"].clone(), said["error"]["code"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_changes_nothing_stops_for_its_user_and_for_nobody_else() {
    let scene = scene("none").await;
    let answer = ask(&scene.chat.address, &scene.mine);
    scene.until_begun().await;
    let theirs = cookie(&scene.chat.address);
    let elsewhere = json!({"conversationId": "d", "callId": "call-1"});
    for (cookie, body) in [
        (&theirs, &call("call-1")),
        (&scene.mine, &elsewhere),
        (&scene.mine, &call("call-2")),
        (&scene.mine, &call("call-18446744073709551615")),
    ] {
        let (status, said) = scene.cancel(cookie, body);
        assert_eq!((status, told(&said)), (404, refusal("unknown")), "{body}");
    }
    for body in [
        call("1"),
        json!({"callId": "call-1"}),
        json!([]),
        json!({"conversationId": "", "callId": "call-1"}),
    ] {
        let (status, said) = scene.cancel(&scene.mine, &body);
        assert_eq!(
            (status, &said["error"]["code"]),
            (400, &json!("bad_message")),
            "{body}"
        );
    }
    let (status, said) = scene.cancel(&scene.mine, &call("call-1"));
    assert_eq!(
        (status, told(&said)),
        (200, (true, json!("stopped"), Value::Null))
    );
    let answer = answer.join().unwrap();
    assert_eq!(words(&answer), "Very well.");
    let said = chunks(&answer);
    let of_call = said.iter().filter(|chunk| chunk["toolCallId"] == "call-1");
    let kinds: Vec<&str> = of_call
        .clone()
        .map(|chunk| chunk["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "tool-input-available",
            "tool-output-available",
            "tool-output-error"
        ]
    );
    let piece = of_call.clone().nth(1).unwrap();
    assert_eq!(
        (&piece["preliminary"], &piece["output"]),
        (&json!(true), &json!("I have begun."))
    );
    let seen = scene.chat.model.seen();
    let read = seen.last().unwrap()["messages"].to_string();
    assert!(
        read.contains("CANCELLED") && read.contains("the user stopped work"),
        "{read}"
    );
    // Whether the session of its turn is asked, or the log.
    let (status, said) = scene.cancel(&scene.mine, &call("call-1"));
    assert_eq!((status, told(&said)), (409, refusal("ended")));
    assert_eq!(scene.work.ended.load(Ordering::SeqCst), 0);
    let Scene {
        chat,
        work,
        tools,
        mine,
    } = scene;
    let data = chat.close().await;
    let audit = std::fs::read_to_string(data.path().join("audit.jsonl")).unwrap();
    let lines = audit
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_call: Vec<Value> = lines.filter(|line| line["callId"] == "call-1").collect();
    let events: Vec<&Value> = of_call.iter().map(|line| &line["event"]).collect();
    assert_eq!(events, ["tool_cancel_requested", "tool_cancellation"]);
    let line = &of_call[0];
    assert_eq!(
        (&line["way"], &line["outcome"]),
        (&json!("http"), &json!("stopped"))
    );
    assert_eq!(
        (&line["userId"], &line["toolId"]),
        (&of_call[1]["userId"], &json!("work"))
    );
    // The log has the answer, and no piece.
    let chat = serve(data, &tools, &work).await;
    let again = ask(&chat.address, &mine).join().unwrap();
    assert_eq!(words(&again), "Very well.");
    assert!(!again.body.contains("preliminary"), "{}", again.body);
    assert_eq!(*work.begun.borrow(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_has_begun_goes_on_and_its_outcome_is_told() {
    let scene = scene("writes").await;
    let answer = ask(&scene.chat.address, &scene.mine);
    scene.until_begun().await;
    for outcome in ["runs_on", "already_cancelled"] {
        let (status, said) = scene.cancel(&scene.mine, &call("call-1"));
        assert_eq!((status, told(&said)), (409, refusal(outcome)));
    }
    scene.work.may_end.send_replace(true);
    let answer = answer.join().unwrap();
    let said = chunks(&answer);
    let result = said
        .iter()
        .rfind(|chunk| chunk["type"] == "tool-output-available");
    assert_eq!(result.unwrap()["output"], json!({ "rows": 7 }));
    assert_eq!(scene.work.ended.load(Ordering::SeqCst), 1);
}
