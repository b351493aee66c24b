//! Servers that are killed at the very moment at which a user has read that the no counts: no later server takes a yes with the
//! same token. And a store that another process holds while the user says no.

use super::process::{CONFIRMED, Process};
use super::shop::Shop;
use crate::chat::{approval, question, user};
use crate::chat_lasting::until_chunk;
use crate::support::held_store::HeldStore;
use crate::support::http;
use crate::support::live_model::{Models, Peer};
use crate::support::model_server::{ModelServer, Says};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How often a server is killed in one test.
const ROUNDS: usize = 16;
/// How long what must come may take; only a broken server takes that long.
const STORED_WITHIN: Duration = Duration::from_secs(60);
const DECLINED: &str = "CONFIRMATION_DECLINED";

/// A question that was put to Ada by voice.
struct OpenRequest {
    client: VoiceClient,
    /// Stays in the session for as long as the user does.
    _model: Peer,
    conversation: String,
    resume: Value,
    token: Value,
}

async fn ask_by_voice(address: &str, models: &mut Models, conversation: String) -> OpenRequest {
    let mut client = VoiceClient::connect(address, &[]).await.unwrap();
    let start = json!({ "type": "start", "conversationId": conversation });
    client.send(start).await;
    let started = client.expect("started").await;
    let mut model = models.next().await;
    let item = json!({ "item": conversation });
    model.call("call-0001", CONFIRMED, item).await;
    let question = client.expect("confirmation_request").await;
    OpenRequest {
        client,
        _model: model,
        conversation,
        resume: started["resumeToken"].clone(),
        token: question["token"].clone(),
    }
}

/// Answers on the session's socket; the response.
async fn click(client: &mut VoiceClient, token: &Value, approved: bool) -> Value {
    let click = json!({ "type": "confirm", "token": token, "approved": approved });
    client.send(click).await;
    client.expect("confirmation_result").await["response"].clone()
}

/// The same without a socket.
fn post(address: &str, conversation: &str, token: &Value, approved: bool) -> Value {
    let body = json!({ "conversationId": conversation, "token": token, "approved": approved });
    let body = body.to_string();
    let answer = http::post(address, "/api/confirm", body.as_bytes());
    serde_json::from_str::<Value>(&answer.body).unwrap()["response"].clone()
}

fn is_no(response: &Value) -> bool {
    response["error"]["type"] == DECLINED
}

/// What a response says of whether the store has it; nothing where that is so.
fn recorded(response: &Value) -> Value {
    response["meta"]["recorded"].clone()
}

/// Whether this is the user's no, and the store is said to have it.
fn is_stored_no(response: &Value) -> bool {
    is_no(response) && recorded(response).is_null()
}

/// The client comes back, is not asked again, and says yes to what was declined.
async fn yes_in_a_later_session(address: &str, models: &mut Models, asked: &OpenRequest) -> Value {
    let mut client = VoiceClient::connect(address, &[]).await.unwrap();
    let resume = json!({ "type": "start", "resume": asked.resume });
    client.send(resume).await;
    // Nobody waits for a session to be saved, so that one that was killed early may not be known.
    if client.started_or_refused().await.is_none() {
        client = VoiceClient::connect(address, &[]).await.unwrap();
        let start = json!({ "type": "start", "conversationId": asked.conversation });
        client.send(start).await;
        client.expect("started").await;
    }
    let _model = models.next().await;
    let yes = json!({ "type": "confirm", "token": asked.token, "approved": true });
    client.send(yes).await;
    let before = client.all_until("confirmation_result").await;
    let asks = |message: &&Value| message["type"] == "confirmation_request";
    assert_eq!(before.iter().find(asks), None);
    let again = click(&mut client, &asked.token, true).await;
    client.send(json!({ "type": "stop" })).await;
    client.expect_close().await;
    again
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_that_was_told_by_voice_outlives_every_kill() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::open();
    let mut models = Models::open().await;
    let mut process = Process::start(folder.path(), &models.url, &shop.address);
    for round in 0..ROUNDS {
        let conversation = format!("round-{round}");
        let mut asked = ask_by_voice(&process.address, &mut models, conversation).await;
        let told = match round % 2 {
            0 => click(&mut asked.client, &asked.token, false).await,
            _ => post(&process.address, &asked.conversation, &asked.token, false),
        };
        process.kill();
        assert!(is_stored_no(&told), "{round}: {told}");

        process = Process::start(folder.path(), &models.url, &shop.address);
        let by_post = || post(&process.address, &asked.conversation, &asked.token, true);
        if round % 4 < 2 {
            let told = by_post();
            assert!(is_no(&told), "{round}: {told}");
        }
        let told = yes_in_a_later_session(&process.address, &mut models, &asked).await;
        assert!(is_no(&told), "{round}: {told}");
        let told = by_post();
        assert!(is_no(&told), "{round}: {told}");
    }
    assert_eq!(shop.keys(), Vec::<String>::new());
}

/// Orders where the user wants it.
fn orders(last: &Value) -> Says {
    match last["content"].to_string().contains("Order tea.") {
        true => Says::Calls(CONFIRMED, json!({ "item": "tea" })),
        false => Says::Words("So be it."),
    }
}

fn ask_by_text(address: &str, conversation: &str) -> Value {
    let body = json!({ "id": conversation, "messages": [user("a", "Order tea.")] });
    let body = body.to_string();
    let asked = http::post(address, "/api/chat", body.as_bytes());
    question(&asked)["token"].clone()
}

/// The user's answer as the chat's next message.
fn message(conversation: &str, token: &Value, approved: bool) -> Value {
    let approval = approval(token.as_str().unwrap(), approved);
    json!({ "id": conversation, "messages": [approval] })
}

/// Says no in the chat, and reads until the call is denied; the connection is open still.
fn deny(address: &str, conversation: &str, token: &Value) -> TcpStream {
    let is_denied = |chunk: &Value| chunk["type"] == "tool-output-denied";
    until_chunk(address, &message(conversation, token, false), is_denied).0
}

/// A yes on both ways counts as little as any.
fn check_declined_by_text(address: &str, conversation: &str, token: &Value) {
    let body = message(conversation, token, true).to_string();
    let streamed = http::post(address, "/api/chat", body.as_bytes());
    assert!(
        streamed.body.contains("tool-output-denied"),
        "{}",
        streamed.body
    );
    let told = post(address, conversation, token, true);
    assert!(is_no(&told), "{told}");
}

#[test]
fn a_no_that_was_told_by_text_outlives_every_kill() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::open();
    let model = ModelServer::start(orders);
    let mut process = Process::start_to_chat(folder.path(), &model.url, &shop.address);
    for round in 0..ROUNDS {
        let conversation = format!("round-{round}");
        let token = ask_by_text(&process.address, &conversation);
        if round % 2 == 0 {
            let told = post(&process.address, &conversation, &token, false);
            process.kill();
            assert!(is_stored_no(&told), "{round}: {told}");
        } else {
            let listening = deny(&process.address, &conversation, &token);
            process.kill();
            drop(listening);
        }

        process = Process::start_to_chat(folder.path(), &model.url, &shop.address);
        check_declined_by_text(&process.address, &conversation, &token);
    }
    assert_eq!(shop.keys(), Vec::<String>::new());
}

/// How the user says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Socket,
    PostByVoice,
    PostByText,
    Message,
}

async fn check_kept_from_the_store(way: Way) {
    let folder = tempfile::tempdir().unwrap();
    let (folder, shop) = (folder.path(), Shop::open());
    let (mut models, text_model) = (Models::open().await, ModelServer::start(orders));
    let (by_voice, by_text) = (models.url.clone(), text_model.url.clone());
    let start = || Process::start_impatient(folder, &by_voice, &by_text, &shop.address);
    let mut process = start();
    let address = process.address.clone();
    let mut by_voice = None;
    let token = match way {
        Way::Socket | Way::PostByVoice => {
            let asked = ask_by_voice(&address, &mut models, "c".to_owned()).await;
            by_voice.insert(asked).token.clone()
        }
        Way::PostByText | Way::Message => ask_by_text(&address, "c"),
    };
    let begun = Instant::now();
    let held = HeldStore::take(&folder.join("data"));
    let mut say_no = async || match way {
        Way::Socket => {
            let asked = by_voice.as_mut().unwrap();
            click(&mut asked.client, &token, false).await.to_string()
        }
        Way::PostByVoice | Way::PostByText => {
            let body = json!({ "conversationId": "c", "token": token, "approved": false });
            http::post(&address, "/api/confirm", body.to_string().as_bytes()).body
        }
        Way::Message => {
            let no = message("c", &token, false).to_string();
            http::post(&address, "/api/chat", no.as_bytes()).body
        }
    };
    // Nobody is told that a no counts which no disk has.
    let told = say_no().await;
    assert!(!told.contains(DECLINED), "{told}");
    assert!(!told.contains("tool-output-denied"), "{told}");
    held.let_go();
    loop {
        let told = say_no().await;
        if told.contains(DECLINED) || told.contains("tool-output-denied") {
            break;
        }
        assert!(begun.elapsed() < STORED_WITHIN, "{told}");
    }
    process.kill();

    let process = start();
    let told = post(&process.address, "c", &token, true);
    assert!(is_stored_no(&told), "{told}");
    if let Some(asked) = &by_voice {
        let told = yes_in_a_later_session(&process.address, &mut models, asked).await;
        assert!(is_stored_no(&told), "{told}");
    }
    assert_eq!(shop.keys(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_on_a_socket_is_told_as_not_stored_while_another_process_has_the_store() {
    check_kept_from_the_store(Way::Socket).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_over_http_is_told_as_not_stored_while_another_process_has_the_store() {
    for way in [Way::PostByVoice, Way::PostByText] {
        check_kept_from_the_store(way).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_in_a_chat_is_told_as_not_stored_while_another_process_has_the_store() {
    check_kept_from_the_store(Way::Message).await;
}
