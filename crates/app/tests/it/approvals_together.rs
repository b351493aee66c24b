//! Several answers to requests for approval in one body of `useChat`, and answers that stand before a new message, over real
//! sockets.

use crate::chat::{Chat, chat_with, chunks, user, words};
use crate::support::http::HttpAnswer;
use crate::support::model_server::Says;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

/// How long what must come may take; only a broken server takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes down what it changed.
struct Change(Arc<Mutex<Vec<String>>>);

impl Handler for Change {
    fn execute(&self, invocation: Invocation) -> Execution {
        let arguments: Value = serde_json::to_value(&*invocation.arguments).unwrap();
        let what = arguments["what"].as_str().unwrap().to_owned();
        self.0.lock().unwrap().push(what);
        Execution::Ready(Ok(Success::new(json!({ "done": true }))))
    }
}

struct Scene {
    chat: Chat,
    changed: Arc<Mutex<Vec<String>>>,
    /// The tokens of the two questions, in their order.
    tokens: Vec<String>,
    _tools: tempfile::TempDir,
}

/// A chat whose model has asked for two changes. Each needs the user's approval.
async fn scene() -> Scene {
    scene_with(json!({})).await
}

/// The same with more fields in the schema of the tool.
async fn scene_with(more: Value) -> Scene {
    let requests = AtomicUsize::new(0);
    let rule = move |_: &Value| match requests.fetch_add(1, Ordering::SeqCst) {
        0 => Says::Calls("change", json!({ "what": "one" })),
        1 => Says::Calls("change", json!({ "what": "two" })),
        _ => Says::Words("So it is."),
    };
    let tools = tempfile::tempdir().unwrap();
    let folder = tools.path().join("change");
    std::fs::create_dir(&folder).unwrap();
    let mut schema = json!({
        "toolId": "change", "version": "1.0.0", "description": "Changes something.",
        "category": "action", "sideEffects": "writes", "idempotent": false, "requiresConfirmation": true,
        "allowedModes": ["text"], "latencyBudgetMs": 1000,
        "parameters": {"type": "object", "properties": {"what": {"type": "string"}}, "additionalProperties": false}
    });
    let more = more.as_object().unwrap().clone();
    schema.as_object_mut().unwrap().extend(more);
    std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    std::fs::write(folder.join("guide.md"), "# Change\n\nChanges something.\n").unwrap();
    let changed = Arc::new(Mutex::new(Vec::new()));
    let handler: Arc<dyn Handler> = Arc::new(Change(changed.clone()));
    let handlers = BTreeMap::from([(ToolId::parse("change").unwrap(), handler)]);
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_with(rule, &keys, handlers).await;
    let asked = chat.ask(&json!({"id": "c", "messages": [user("a", "Change both.")]}));
    let tokens = chunks(&asked)
        .iter()
        .filter(|chunk| chunk["type"] == "tool-approval-request")
        .map(|chunk| chunk["approvalId"].as_str().unwrap().to_owned())
        .collect();
    Scene {
        chat,
        changed,
        tokens,
        _tools: tools,
    }
}

impl Scene {
    /// The assistant's message with these answers in its parts.
    fn answered(&self, answers: [Option<bool>; 2]) -> Value {
        let part = |(number, approved): (usize, bool)| {
            json!({"type": "dynamic-tool", "toolName": "change", "toolCallId": format!("call-{}", number + 1),
                "state": "approval-responded", "input": {},
                "approval": {"id": self.tokens[number], "approved": approved}})
        };
        let answers = answers.into_iter().enumerate();
        let parts = answers
            .filter_map(|(number, approved)| approved.map(|approved| part((number, approved))));
        json!({"id": "m", "role": "assistant", "parts": parts.collect::<Vec<_>>()})
    }

    fn ask(&self, messages: &[Value]) -> HttpAnswer {
        self.chat.ask(&json!({"id": "c", "messages": messages}))
    }

    fn changed(&self) -> Vec<String> {
        self.changed.lock().unwrap().clone()
    }
}

/// The types of the parts that say how calls ended, and whose they are.
fn ends(answer: &HttpAnswer) -> Vec<(String, String)> {
    let text = |chunk: &Value, key: &str| chunk[key].as_str().unwrap_or_default().to_owned();
    let chunks = chunks(answer);
    let ends = chunks
        .iter()
        .filter(|chunk| text(chunk, "type").starts_with("tool-output"));
    ends.map(|chunk| (text(chunk, "toolCallId"), text(chunk, "type")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_of_a_message_counts() {
    for (answers, changed) in [
        ([Some(true), Some(true)], &["one", "two"][..]),
        ([Some(true), Some(false)], &["one"]),
        ([Some(false), Some(true)], &["two"]),
        ([Some(false), Some(false)], &[]),
    ] {
        let scene = scene().await;
        assert_eq!(scene.tokens.len(), 2);
        let asked = user("a", "Change both.");
        let answer = scene.ask(&[asked.clone(), scene.answered(answers)]);
        assert_eq!(scene.changed(), changed);
        let end = |approved: Option<bool>| match approved {
            Some(true) => "tool-output-available".to_owned(),
            _ => "tool-output-denied".to_owned(),
        };
        let expected = [
            ("call-1".to_owned(), end(answers[0])),
            ("call-2".to_owned(), end(answers[1])),
        ];
        assert_eq!(ends(&answer), expected);
        assert_eq!(words(&answer), "So it is.");
        // Once more, both or one of them: nothing runs again, and nothing is an error.
        for again in [answers, [answers[0], None]] {
            let again = scene.ask(&[asked.clone(), scene.answered(again)]);
            assert!(!again.body.contains("\"type\":\"error\""), "{}", again.body);
            assert_eq!(scene.changed(), changed);
        }
        scene.chat.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_stand_before_a_new_message_count_before_it_is_said() {
    let scene = scene().await;
    let before = [
        user("a", "Change both."),
        scene.answered([Some(true), Some(false)]),
    ];
    let said = [&before[..], &[user("b", "And now?")]].concat();
    let answer = scene.ask(&said);
    assert_eq!(scene.changed(), ["one"]);
    assert_eq!(words(&answer), "So it is.");
    // The client's message begins here, so that each end has its beginning in it.
    let chunks = chunks(&answer);
    for (call, _) in ends(&answer) {
        let begins =
            |chunk: &&Value| chunk["type"] == "tool-input-available" && chunk["toolCallId"] == call;
        assert_eq!(chunks.iter().filter(begins).count(), 1, "{call}");
    }
    let told = scene.chat.model.seen().pop().unwrap()["messages"].to_string();
    let (approved, no, now) = (
        told.find("approved"),
        told.find("said no"),
        told.find("And now?"),
    );
    assert!(
        approved.is_some() && approved < now && no.is_some() && no < now,
        "{told}"
    );

    // A yes behind the no counts for nothing, wherever it is said.
    let mut turned = said.clone();
    turned[1] = scene.answered([Some(true), Some(true)]);
    turned.push(
        json!({"id": "n", "role": "assistant", "parts": [{"type": "text", "text": "So it is."}]}),
    );
    turned.push(user("d", "Really?"));
    let answer = scene.ask(&turned);
    assert!(
        !answer.body.contains("\"type\":\"error\""),
        "{}",
        answer.body
    );
    assert_eq!(scene.changed(), ["one"]);
    scene.chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_not_taken_counts_when_its_message_comes_again() {
    let scene = scene_with(json!({"rateLimit": {"calls": 1, "windowMs": 2000}})).await;
    let said = [
        user("a", "Change both."),
        scene.answered([Some(true), Some(true)]),
    ];
    let first = scene.ask(&said);
    assert_eq!(scene.changed()[..1], ["one"]);
    let begun = Instant::now();
    while scene.changed().len() < 2 {
        assert!(
            begun.elapsed() < PATIENCE,
            "{} is heard for ever",
            first.body
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
        scene.ask(&said);
    }
    assert_eq!(scene.changed(), ["one", "two"]);
    // Now that both were taken, it is known what came of them.
    let requests = scene.chat.model.seen().len();
    let again = scene.ask(&said);
    assert!(!again.body.contains("RATE_LIMIT"), "{}", again.body);
    assert_eq!(scene.changed(), ["one", "two"]);
    assert_eq!(scene.chat.model.seen().len(), requests);
    scene.chat.close().await;
}
