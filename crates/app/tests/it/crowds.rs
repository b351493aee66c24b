//! Floods of conversations: they cost their sender its own share, and nobody else anything.

use crate::chat::{Chat, chat_with};
use crate::floods::{From, head, said, status};
use crate::support::change::{Changes, write_tool};
use crate::support::http::request;
use crate::support::model_server::Says;
use crate::support::voice_client::VoiceClient;
use rusqlite::Connection;
use serde_json::{Value, json};

/// Whose voice clients are, which have no address of their own here.
const ATTACKER: From = 1;
const VICTIM: From = 3;

fn rule(last: &Value) -> Says {
    let said = last["content"].to_string();
    match last["role"] != "tool" && said.contains("Order") {
        true => Says::Calls("change", json!({"what": "tea"})),
        false => Says::Words("Yes."),
    }
}

/// What is answered to a body that somebody posts.
async fn post(chat: &Chat, from: From, path: &str, body: &Value) -> String {
    let body = body.to_string();
    let text = format!("{}{body}", head(path, body.len()));
    said(&chat.address, from, &text).await
}

/// What is answered to a message in a conversation.
async fn say(chat: &Chat, from: From, conversation: &str, words: &str) -> String {
    let body = json!({"id": conversation, "message": words});
    post(chat, from, "/api/chat", &body).await
}

fn token(answer: &str) -> String {
    let (_, rest) = answer.split_once("\"approvalId\":\"").expect(answer);
    rest.split('"').next().unwrap().to_owned()
}

/// Bytes of the database, and its conversations.
fn stored(chat: &Chat) -> (u64, i64) {
    let path = chat.data.path().join("data").join("windlass.db");
    let path = match path.exists() {
        true => path,
        false => chat.data.path().join("windlass.db"),
    };
    let file = Connection::open(&path).unwrap();
    let count = "SELECT count(*) FROM conversations";
    let conversations = file.query_row(count, [], |row| row.get(0)).unwrap();
    (std::fs::metadata(path).unwrap().len(), conversations)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_conversations_is_refused_with_the_reason_and_forgets_nothing_of_others() {
    let tools = tempfile::tempdir().unwrap();
    write_tool(tools.path(), json!({}));
    let changes = Changes::new();
    let keys = [
        ("folders.tools", tools.path().to_str().unwrap()),
        ("shares.address.conversations_max", "30"),
        ("shares.address.turns_per_minute_max", "100000"),
    ];
    let chat = chat_with(rule, &keys, changes.handlers()).await;
    say(&chat, VICTIM, "done", "Order tea.").await;
    say(&chat, VICTIM, "asks", "Order tea.").await;
    assert_eq!(changes.made().len(), 2);
    let asked = token(&say(&chat, VICTIM, "asks", "Order tea again.").await);

    // Sessions that leave nothing take no place.
    for _ in 0..100 {
        let (mut client, _) = VoiceClient::start(&chat.address, json!({"type": "start"})).await;
        client.send(json!({"type": "stop"})).await;
        client.expect("stopped").await;
    }
    // Answers to what nobody was asked begin nothing, and completions leave nothing.
    for number in 0..40 {
        let id = format!("answered-{number}");
        let answer = json!({"id": id, "messages": [crate::chat::approval("1.00", true)]});
        assert_eq!(
            status(&post(&chat, ATTACKER, "/api/chat", &answer).await),
            "200"
        );
        let completion = json!({"messages": [{"role": "user", "content": "Who?"}]});
        let answer = post(&chat, ATTACKER, "/v1/chat/completions", &completion).await;
        assert_eq!(status(&answer), "200", "{answer}");
    }
    // What they had of the store is given back once they have ended.
    while stored(&chat).1 > 2 {
        tokio::task::yield_now().await;
    }
    let mut refused = Vec::new();
    for number in 0..60 {
        let answer = say(&chat, ATTACKER, &format!("spoken-{number}"), "Hello.").await;
        match status(&answer) {
            "200" => {}
            _ => refused.push(answer),
        }
    }
    assert_eq!(refused.len(), 30);
    for answer in &refused {
        assert_eq!(status(answer), "429", "{answer}");
        assert!(answer.contains("\"too_many_conversations\""), "{answer}");
        assert!(answer.contains("this address has as many"), "{answer}");
        assert!(
            answer.to_lowercase().contains("retry-after: 3600"),
            "{answer}"
        );
    }
    // By every other way in, too, and with an id that the server makes.
    let answer = post(&chat, ATTACKER, "/api/chat", &json!({"message": "Hello."})).await;
    assert_eq!(status(&answer), "429", "{answer}");
    let completion = json!({"messages": [{"role": "user", "content": "Who?"}]});
    let answer = post(&chat, ATTACKER, "/v1/chat/completions", &completion).await;
    assert_eq!(status(&answer), "429", "{answer}");
    assert!(answer.contains("\"too_many_conversations\""), "{answer}");
    assert!(
        answer.to_lowercase().contains("x-should-retry: false"),
        "{answer}"
    );
    for start in [
        json!({"type": "start"}),
        json!({"type": "start", "conversationId": "voice"}),
    ] {
        let mut client = VoiceClient::connect(&chat.address, &[]).await.unwrap();
        client.send(start).await;
        let answer = client.answer_to_start().await;
        assert_eq!(answer["code"], "too_many_conversations", "{answer}");
        assert_eq!(client.expect_close().await, 1008);
    }
    // What it has goes on.
    assert_eq!(
        status(&say(&chat, ATTACKER, "spoken-1", "And?").await),
        "200"
    );
    let metrics = request(&chat.address, "GET", "/metrics", &[]);
    let metrics: Value = serde_json::from_str(&metrics.body).unwrap();
    assert_eq!(metrics["refused"]["conversations"]["address"], 34);

    // The victim's are as they were.
    let again = say(&chat, VICTIM, "done", "Order tea once more.").await;
    token(&again);
    assert_eq!(changes.made().len(), 2, "what was done is recognised");
    let answer = json!({"conversationId": "asks", "token": asked, "approved": true});
    let answer = post(&chat, VICTIM, "/api/confirm", &answer).await;
    assert_eq!(status(&answer), "200", "{answer}");
    assert_eq!(changes.made().len(), 3);
    let (bytes, conversations) = stored(&chat);
    assert_eq!(conversations, 32);
    assert!(bytes < 4 << 20, "{bytes}");
}
