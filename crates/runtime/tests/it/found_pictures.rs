//! Pictures that calls brought back and that lie on this server: what becomes of a turn while one of them is read.

use crate::support::text_server::{Chat, Place, TextServer, calls, text};
use crate::support::tools::tool;
use crate::support::{StillCapabilities, shared};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Notify;
use windlass_contract::handler::{
    ASSETS, Blocks, Capabilities, CapabilityFuture, ContentPart, Execution, Knowledge,
    KnowledgeReader, Success,
};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Tool;
use windlass_provider::profile;
use windlass_runtime::subscriber::{SessionIdentity, Subscriber};
use windlass_runtime::text::{FinishReason, ModelOptions, Protocol, TextModel};
use windlass_runtime::transport::http::{HttpClient, HttpLimits};
use windlass_session::event::SessionEvent;
use windlass_session::limits::Limits;

/// A world whose disk has no picture and takes its time to say so.
struct SlowDisk {
    /// It is asked for one.
    asked: Arc<Notify>,
    /// It answers.
    answers: Arc<Notify>,
}

impl Capabilities for SlowDisk {
    fn now_unix_ms(&self) -> u64 {
        StillCapabilities.now_unix_ms()
    }

    fn knowledge(&self) -> Arc<dyn Knowledge> {
        StillCapabilities.knowledge()
    }

    fn blocks(&self) -> Arc<dyn Blocks> {
        StillCapabilities.blocks()
    }

    fn picture(
        &self,
        _: &str,
        _: &KnowledgeReader,
        _: usize,
    ) -> CapabilityFuture<Option<Arc<[u8]>>> {
        self.asked.notify_one();
        let answers = self.answers.clone();
        Box::pin(async move {
            answers.notified().await;
            None
        })
    }
}

fn seeing_model(url: &str) -> Arc<TextModel> {
    let client = HttpClient::new(url, Vec::new(), HttpLimits::default()).unwrap();
    let mut profile = profile::openai_chat(url, "fake").profile;
    profile.model.vision = true;
    let protocol = Protocol::Openai { profile };
    Arc::new(TextModel::new(
        "fake",
        protocol,
        client,
        ModelOptions::default(),
    ))
}

/// Brings a picture that lies on this server.
fn show() -> Tool {
    tool("show", |_| {
        let image = ContentPart::Image {
            mime_type: "image/png".to_owned(),
            url: format!("{ASSETS}photo"),
        };
        Execution::Ready(Ok(Success {
            content: vec![image],
            ..Success::new(json!({"shown": true}))
        }))
    })
}

#[tokio::test]
async fn a_turn_that_is_given_up_while_a_picture_is_read_ends_as_any_other() {
    let replies = vec![
        calls(&[("call_one_00001", "show", json!({}))]),
        text("Here again."),
    ];
    let server = TextServer::start(replies).await;
    let asked = Arc::new(Notify::new());
    let disk = SlowDisk {
        asked: asked.clone(),
        answers: Arc::default(),
    };
    let place = Place {
        capabilities: Arc::new(disk),
        ..Place::usual(shared(Vec::new()))
    };
    let mut chat = Chat::at(place, vec![seeing_model(&server.url)], vec![show()]);
    // The listener leaves while the picture is read: such a future must not be polled again.
    let mut leaves = std::pin::pin!(async move { asked.notified().await });
    let written = chat.say_until("Show it to me.", leaves.as_mut()).await;
    assert_eq!(written.end.reason, FinishReason::Cancelled);
    assert_eq!(server.seen().len(), 1, "nobody waits for another answer");
    assert_eq!(chat.say("And now?").await.words(), "Here again.");
    let messages = server.seen()[1]["messages"].to_string();
    assert!(messages.contains("interrupted"), "{messages}");
}

/// Lets the disk answer once the model is taken for silent.
struct Waker(Arc<Notify>);

impl Subscriber for Waker {
    fn event(&self, _: &SessionIdentity, _: u64, event: &SessionEvent) {
        if let SessionEvent::ProviderSilentAfterResult { .. } = event {
            self.0.notify_one();
        }
    }
}

#[tokio::test]
async fn what_the_model_is_told_while_a_picture_is_read_is_in_that_request_and_asks_for_no_other() {
    let replies = vec![
        calls(&[("call_one_00001", "show", json!({}))]),
        text("There you are."),
    ];
    let server = TextServer::start(replies).await;
    let answers = Arc::new(Notify::new());
    let disk = SlowDisk {
        asked: Arc::default(),
        answers: answers.clone(),
    };
    let place = Place {
        capabilities: Arc::new(disk),
        limits: Limits {
            result_silence_seconds: 0,
            result_nudges_max: 1,
            ..Limits::of(Mode::Text)
        },
        shared: shared(vec![Arc::new(Waker(answers))]),
    };
    let mut chat = Chat::at(place, vec![seeing_model(&server.url)], vec![show()]);
    let written = chat.say("Show it to me.").await;
    assert_eq!(written.words(), "There you are.");
    let seen = server.seen();
    assert!(seen[1]["messages"].to_string().contains("Please go on."));
    assert_eq!(seen.len(), 2, "{seen:?}");
}
