//! Chats that rest between their turns, by a clock that is moved on: what falls due then is neither forgotten nor taken for
//! something else.

use crate::support::text_server::{Chat, Reply, TextServer, Written, calls, model, text, yes};
use crate::support::tools::tool;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use windlass_runtime::text::{TurnEnd, TurnInput, TurnSink};
use windlass_session::client::{ClientUpdate, ConfirmationQuestion, ErrorCode};
use windlass_session::event::SessionEvent;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::handler::{Execution, Success};
use windlass_tool::id::CallNumber;
use windlass_tool::kind::SideEffects;
use windlass_tool::registry::Tool;
use windlass_tool::sensitive::Sensitive;

/// Moves the clock on. While sockets are read it stands where it is.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

/// Takes half a minute, of which nobody has to wait for a moment.
fn order() -> Tool {
    Tool {
        side_effects: SideEffects::Writes,
        idempotent: false,
        requires_confirmation: true,
        timeout_ms: 60_000,
        ..tool("order", |invocation| {
            let ordered = json!({ "ordered": invocation.arguments.get("text") });
            Execution::Pending(Box::pin(async move {
                tokio::time::pause();
                tokio::time::sleep(Duration::from_secs(30)).await;
                tokio::time::resume();
                Ok(Success::new(ordered))
            }))
        })
    }
}

fn wants(tool: &str, text: &str) -> Reply {
    calls(&[("call_one_00001", tool, json!({ "text": text }))])
}

fn token(asked: &Written) -> String {
    let question = asked.of_type("tool-approval-request").next().unwrap();
    question["approvalId"].as_str().unwrap().to_owned()
}

/// A chat in which the user was asked two things, 100 seconds apart, and the token of the second question.
async fn asked_twice() -> (Chat, String) {
    let server = TextServer::start(vec![
        wants("order", "tea"),
        text("You are asked about tea."),
        wants("order", "rum"),
        text("You are asked about rum."),
        text("It is ordered."),
    ])
    .await;
    let mut chat = Chat::new(vec![model(&server.url, "fake")], vec![order()]);
    chat.say("Order tea.").await;
    pass(100).await;
    let asked = chat.say("Order rum.").await;
    (chat, token(&asked))
}

/// The calls of which a message shows an end, with the ends.
fn ends(written: &Written) -> Vec<(&str, &str)> {
    let chunks = written.chunks.iter();
    let ends = chunks.filter(|chunk| chunk["type"].as_str().unwrap().starts_with("tool-output"));
    ends.map(|chunk| {
        let text = |key: &str| chunk[key].as_str().unwrap();
        (text("toolCallId"), text("type"))
    })
    .collect()
}

/// Until the first question has run out, and until just before that.
const RESTS: [u64; 2] = [210, 190];

#[tokio::test]
async fn the_end_of_another_question_is_not_the_answer_to_the_one_that_was_approved() {
    for rest in RESTS {
        let (mut chat, token) = asked_twice().await;
        pass(rest).await;
        let approved = chat.approve(&token).await;
        assert_eq!(approved.words(), "It is ordered.", "{rest}");
        let expected = [
            ("call-1", "tool-output-error"),
            ("call-2", "tool-output-available"),
        ];
        assert_eq!(ends(&approved), expected, "{rest}");
    }
}

/// Who waits for what comes of an answer, and reads nothing else.
#[derive(Default)]
struct Waiting(Vec<(Option<CallNumber>, bool)>);

impl TurnSink for Waiting {
    fn step(&mut self) {}
    fn client(&mut self, _: &ClientUpdate) {}
    fn confirmed(&mut self, call: Option<CallNumber>, response: &Arc<ToolResponse>) {
        self.0.push((call, response.is_ok()));
    }
    fn event(&mut self, _: &SessionEvent) {}
    fn asks(&mut self, _: &ConfirmationQuestion, _: &Sensitive<String>) {}
    fn failed(&mut self, _: ErrorCode, _: &str) {}
    fn finished(&mut self, _: &TurnEnd) {}
    fn flush(&mut self) {}
}

#[tokio::test]
async fn who_waits_for_an_answer_hears_of_no_other_question() {
    for rest in RESTS {
        let (mut chat, token) = asked_twice().await;
        pass(rest).await;
        let mut waiting = Waiting::default();
        let mut never = std::pin::pin!(std::future::pending());
        let input = TurnInput::Confirm(vec![yes(&token)]);
        let turn = chat
            .session
            .turn(input, "Be brief.", &mut waiting, never.as_mut());
        turn.await;
        assert_eq!(waiting.0, [(Some(CallNumber(2)), true)], "{rest}");
    }
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_told_so_once_and_in_words() {
    let server = TextServer::start(vec![wants("order", "tea"), text("You are asked.")]).await;
    let mut chat = Chat::new(vec![model(&server.url, "fake")], vec![order()]);
    let asked = chat.say("Order tea.").await;
    pass(310).await;
    let token = token(&asked);
    let approved = chat.approve(&token).await;
    assert!(!chat.session.asks(&yes(&token).token_hash));
    assert_eq!(ends(&approved), [("call-1", "tool-output-error")]);
    assert_eq!(
        approved.words(),
        "This was answered before. Nothing more was done."
    );
}
