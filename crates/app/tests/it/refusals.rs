//! Ways in which a confirmation counts for nothing, each with the right conversation and the real server: what is shown
//! on the session's socket and what is posted to `/api/confirm` is refused alike. And fifty clicks at one instant.

use crate::support::config;
use crate::support::held_store::database;
use crate::support::http::{HttpAnswer, post_with};
use crate::support::live_model::{Models, Peer};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};
use windlass_app::server::{Server, Setup, start};
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

const USER_HEADER: &str = "X-Test-User";
/// A token that nobody was given.
const MADE_UP: &str = "0123456789abcdef0123456789abcdef";

/// Where a token is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Socket,
    Http,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Forged,
    Truncated,
    Expired,
    ConsumedAndThenOfAnother,
    OtherConversation,
    OtherUser,
    ChangedArguments,
    ChangedToolVersion,
    Declined,
    InsideArguments,
    AfterTheEnd,
    BeforeTheRequest,
}

/// What was ordered, and with which tool.
type Orders = Arc<Mutex<Vec<String>>>;

struct Order {
    tool: &'static str,
    orders: Orders,
}

impl Handler for Order {
    fn execute(&self, invocation: Invocation) -> Execution {
        let item = invocation.arguments.get("item").unwrap_or_default();
        let item = item.as_str().unwrap_or_default();
        let mut orders = self.orders.lock().unwrap();
        orders.push(format!("{} {item}", self.tool));
        Execution::Ready(Ok(Success::new(json!({ "receipt": orders.len() }))))
    }
}

fn write_tool(folder: &Path, tool: &str) {
    let folder = folder.join("tools").join(tool);
    fs::create_dir_all(&folder).unwrap();
    let schema = json!({
        "toolId": tool, "version": "1.0.0", "description": "Orders an item.", "category": "action",
        "sideEffects": "writes", "idempotent": false, "requiresConfirmation": true,
        "allowedModes": ["voice"], "latencyBudgetMs": 1_000,
        "parameters": {
            "type": "object", "additionalProperties": false, "required": ["item"],
            "properties": { "item": { "type": "string", "description": "What is ordered" } }
        }
    });
    fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    fs::write(folder.join("guide.md"), "# Order\n\nOrders an item.\n").unwrap();
}

/// A voice session of Ada's in which she is asked whether tea may be ordered.
struct Desk {
    folder: tempfile::TempDir,
    orders: Orders,
    models: Models,
    server: Server,
    client: VoiceClient,
    peer: Peer,
    resume: String,
    token: String,
}

async fn serve(folder: &Path, orders: &Orders, models: &Models, valid_seconds: &str) -> Server {
    write_tool(folder, "order");
    write_tool(folder, "send");
    fs::create_dir_all(folder.join("kb")).unwrap();
    fs::write(folder.join("kb/fram.md"), "# Fram\n\nA ship.\n").unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let (tools, kb) = (path("tools"), path("kb"));
    let keys = [
        ("folders.tools", tools.as_str()),
        ("folders.knowledge", kb.as_str()),
        ("provider.kind", "gemini-live"),
        ("provider.url", models.url.as_str()),
        ("server.user_header", USER_HEADER),
        ("voice.limits.confirmation_seconds", valid_seconds),
    ];
    let mut handlers = windlass_handlers::builtin();
    for tool in ["order", "send"] {
        let orders = orders.clone();
        let id = ToolId::parse(tool).unwrap();
        handlers.insert(id, Arc::new(Order { tool, orders }));
    }
    start(Setup {
        config: config(&folder.join("data"), &keys),
        handlers,
        watch: false,
    })
    .await
    .unwrap()
}

/// A session of a user's, in a conversation of this id or as `start` says.
async fn session(
    server: &Server,
    models: &mut Models,
    user: &str,
    start: Value,
) -> (VoiceClient, Peer, Value) {
    let address = server.address().to_string();
    let headers = [(USER_HEADER, user)];
    let mut client = VoiceClient::connect(&address, &headers).await.unwrap();
    client.send(start).await;
    let started = client.expect("started").await;
    (client, models.next().await, started)
}

impl Desk {
    async fn open(valid_seconds: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let orders = Orders::default();
        let mut models = Models::open().await;
        let server = serve(folder.path(), &orders, &models, valid_seconds).await;
        let start = json!({"type": "start", "conversationId": "c"});
        let (mut client, mut peer, started) = session(&server, &mut models, "ada", start).await;
        peer.call("call-00001", "order", json!({"item": "tea"}))
            .await;
        let question = client.expect("confirmation_request").await;
        Self {
            folder,
            orders,
            models,
            server,
            client,
            peer,
            resume: started["resumeToken"].as_str().unwrap().to_owned(),
            token: question["token"].as_str().unwrap().to_owned(),
        }
    }

    async fn answer(&mut self, approved: bool) -> Value {
        let answer = json!({"type": "confirm", "token": self.token, "approved": approved});
        self.client.send(answer).await;
        code(&self.client.expect("confirmation_result").await)
    }

    /// What comes of showing a token: "ok", or the type of the error.
    async fn show(&mut self, channel: Channel, shown: &Shown) -> Value {
        let Shown {
            user,
            conversation,
            token,
        } = shown;
        let confirm = json!({"type": "confirm", "token": token, "approved": true});
        match channel {
            Channel::Http => {
                let body =
                    json!({"conversationId": conversation, "token": token, "approved": true});
                let answer = post(&self.server.address().to_string(), user, &body);
                let said: Value = serde_json::from_str(&answer.body).unwrap();
                assert_eq!(said["ok"], answer.status == 200, "{said}");
                match said["ok"].as_bool() {
                    Some(true) => json!("ok"),
                    _ => said["error"]["code"].clone(),
                }
            }
            Channel::Socket if (*user, *conversation) == ("ada", "c") => {
                self.client.send(confirm).await;
                code(&self.client.expect("confirmation_result").await)
            }
            Channel::Socket => {
                let start = json!({"type": "start", "conversationId": conversation});
                let (mut client, _peer, _) =
                    session(&self.server, &mut self.models, user, start).await;
                client.send(confirm).await;
                code(&client.expect("confirmation_result").await)
            }
        }
    }

    /// Changes what the store has of the question: as if it had been asked before the tools were others.
    fn rewrite(&self, field: &str, value: &str) {
        let database = database(&self.folder.path().join("data"));
        let update = format!("UPDATE questions SET body = json_set(body, '$.{field}', ?1)");
        assert_eq!(database.execute(&update, [value]).unwrap(), 1);
    }
}

fn post(address: &str, user: &str, body: &Value) -> HttpAnswer {
    let headers = [(USER_HEADER, user)];
    post_with(
        address,
        "/api/confirm",
        &headers,
        body.to_string().as_bytes(),
    )
}

/// Who shows what, and where they say it belongs.
struct Shown {
    user: &'static str,
    conversation: &'static str,
    token: String,
}

fn code(result: &Value) -> Value {
    match result["ok"].as_bool() {
        Some(true) => json!("ok"),
        _ => result["response"]["error"]["type"].clone(),
    }
}

/// Goes as far as the token, shows it, and compares what it is told and what was ordered by then.
async fn check(case: Case, expected: &str, ordered: &[&str]) {
    for channel in [Channel::Socket, Channel::Http] {
        let valid_seconds = match case {
            Case::Expired => "1",
            _ => "300",
        };
        let mut desk = Box::pin(Desk::open(valid_seconds)).await;
        let mut shown = Shown {
            user: "ada",
            conversation: "c",
            token: desk.token.clone(),
        };
        arrange(case, &mut desk, &mut shown).await;
        let told = desk.show(channel, &shown).await;
        assert_eq!(told, expected, "{case:?} {channel:?}");
        assert_eq!(
            *desk.orders.lock().unwrap(),
            ordered,
            "{case:?} {channel:?}"
        );
    }
}

async fn arrange(case: Case, desk: &mut Desk, shown: &mut Shown) {
    match case {
        Case::Forged => shown.token = MADE_UP.to_owned(),
        Case::Truncated => shown.token.truncate(31),
        Case::Expired => {
            desk.client.expect("confirmation_result").await;
        }
        Case::ConsumedAndThenOfAnother => {
            assert_eq!(desk.answer(true).await, "ok");
            (shown.user, shown.conversation) = ("eve", "eves");
        }
        Case::OtherConversation => shown.conversation = "another",
        Case::OtherUser => (shown.user, shown.conversation) = ("eve", "eves"),
        Case::ChangedArguments => desk.rewrite("arguments", "{\"item\":\"a ship\"}"),
        Case::ChangedToolVersion => desk.rewrite("tool_version", "0.9.0"),
        Case::Declined => assert_eq!(desk.answer(false).await, "CONFIRMATION_DECLINED"),
        Case::InsideArguments => {
            // The model has seen it, and tries it under any name that could be meant.
            let arguments = json!({"item": "tea", "confirmation_token": desk.token, "token": desk.token,
                "confirmed": true});
            desk.peer.call("call-00002", "order", arguments).await;
            let answer = desk.peer.answer("call-00002").await;
            assert_eq!(answer["error"]["type"], "VALIDATION", "{answer}");
            let arguments = json!({"args": {"token": shown.token}}).to_string();
            shown.token = arguments;
        }
        Case::AfterTheEnd => {
            desk.client.send(json!({"type": "stop"})).await;
            desk.client.expect_close().await;
            let start = json!({"type": "start", "conversationId": "c"});
            let begun = session(&desk.server, &mut desk.models, "ada", start).await;
            (desk.client, desk.peer, _) = begun;
        }
        Case::BeforeTheRequest => {
            // Of the question that will be the next one, with the proof that belongs to the first.
            let (_, proof) = desk.token.split_once('.').unwrap();
            shown.token = format!("2.{proof}");
        }
    }
}

/// A test for each case: its name, what the caller with the token is told, and what was ordered by then.
macro_rules! tokens {
    ($($name:ident: $case:ident => $expected:literal, $ordered:expr;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                check(Case::$case, $expected, &$ordered).await;
            }
        )*
    };
}

tokens! {
    refused_a_forged_token: Forged => "CONFIRMATION_EXPIRED", [];
    refused_a_truncated_token: Truncated => "CONFIRMATION_EXPIRED", [];
    refused_an_expired_token: Expired => "CONFIRMATION_EXPIRED", [];
    refused_a_consumed_token_in_other_hands: ConsumedAndThenOfAnother => "CONFIRMATION_EXPIRED", ["order tea"];
    refused_a_token_of_another_conversation: OtherConversation => "CONFIRMATION_EXPIRED", [];
    refused_a_token_of_another_user: OtherUser => "CONFIRMATION_EXPIRED", [];
    refused_a_token_for_changed_arguments: ChangedArguments => "CONFIRMATION_EXPIRED", [];
    refused_a_token_for_a_changed_tool_version: ChangedToolVersion => "CONFIRMATION_EXPIRED", [];
    refused_a_declined_token: Declined => "CONFIRMATION_DECLINED", [];
    refused_a_token_inside_arguments: InsideArguments => "CONFIRMATION_EXPIRED", [];
    refused_a_token_before_the_request: BeforeTheRequest => "CONFIRMATION_EXPIRED", [];
    taken_from_the_next_session_of_the_conversation: AfterTheEnd => "ok", ["order tea"];
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_comes_back_is_asked_again_with_the_same_token() {
    let mut desk = Box::pin(Desk::open("300")).await;
    let start = json!({"type": "start", "resume": desk.resume});
    let address = desk.server.address().to_string();
    let signed_in = [(USER_HEADER, "ada")];
    desk.client = VoiceClient::connect(&address, &signed_in).await.unwrap();
    desk.client.send(start).await;
    desk.client.expect("started").await;
    let question = desk.client.expect("confirmation_request").await;
    assert_eq!(question["token"], desk.token);
    assert_eq!(desk.answer(true).await, "ok");
    assert_eq!(*desk.orders.lock().unwrap(), ["order tea"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_clicks_at_one_instant_are_one_effect_and_fifty_equal_answers() {
    let desk = Box::pin(Desk::open("300")).await;
    let body = json!({"conversationId": "c", "token": desk.token, "approved": true});
    let address = desk.server.address().to_string();
    let start = Barrier::new(50);
    let answers: Vec<(u16, String)> = std::thread::scope(|scope| {
        let clicks: Vec<_> = (0..50)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let answer = post(&address, "ada", &body);
                    (answer.status, answer.body)
                })
            })
            .collect();
        let answers = clicks.into_iter().map(|click| click.join().unwrap());
        answers.collect()
    });
    assert_eq!(answers[0].0, 200, "{}", answers[0].1);
    let said: Value = serde_json::from_str(&answers[0].1).unwrap();
    assert_eq!(said["response"]["data"]["receipt"], 1, "{said}");
    for answer in &answers {
        assert_eq!(answer, &answers[0]);
    }
    assert_eq!(*desk.orders.lock().unwrap(), ["order tea"]);
}
