//! Webhooks that answer later: a service accepts a change, the model hears that it is at work, and a signed message tells how it ended.

use crate::support::http::{HttpAnswer, get, post, post_with};
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};
use windlass_runtime::declared::SigningKey;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const HOUR_MS: u64 = 60 * 60 * 1_000;

fn now_unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// What a service does with an order, which it is given by its effect's id: the status and body of its answer.
type Rule = Arc<dyn Fn(&str) -> (u16, Value) + Send + Sync>;

/// A service of the studio's.
struct Service {
    port: u16,
    /// The effects that it has been asked for.
    orders: Receiver<String>,
}

impl Service {
    fn start(rule: Rule) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, orders) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (rule, sender) = (rule.clone(), sender.clone());
                thread::spawn(move || serve(stream, &rule, &sender));
            }
        });
        Self { port, orders }
    }

    /// One that accepts every order for an hour.
    fn accepting() -> Self {
        Self::start(Arc::new(|_| {
            (202, json!({"until": now_unix_ms() + HOUR_MS}))
        }))
    }
}

fn serve(mut stream: TcpStream, rule: &Rule, orders: &Sender<String>) {
    let (mut read, mut piece) = (Vec::new(), [0; 4096]);
    let order = loop {
        let count = stream.read(&mut piece).unwrap();
        assert_ne!(count, 0, "the request is cut off");
        read.extend_from_slice(&piece[..count]);
        let whole = String::from_utf8_lossy(&read);
        let body = whole.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        if let Ok(order) = serde_json::from_str::<Value>(body) {
            break order;
        }
    };
    let effect = order["context"]["effectId"].as_str().unwrap_or("none");
    let (status, body) = rule(effect);
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close",
        body.len()
    );
    orders.send(effect.to_owned()).unwrap();
    stream
        .write_all(format!("{head}\r\n\r\n{body}").as_bytes())
        .unwrap();
}

/// A server with the tool `order`, whose model calls it whenever the user says "order".
struct Studio {
    folder: tempfile::TempDir,
    model: ModelServer,
    server: Option<Running>,
    address: String,
}

impl Studio {
    fn open(service: &Service, side_effects: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("tools/order");
        fs::create_dir_all(&directory).unwrap();
        let schema = json!({
            "toolId": "order", "version": "1.0.0", "description": "Orders a table.", "category": "action",
            "sideEffects": side_effects, "idempotent": false, "requiresConfirmation": false,
            "allowedModes": ["text", "voice"], "latencyBudgetMs": 1_000, "timeoutMs": 5_000,
            "parameters": {"type": "object", "additionalProperties": false, "properties": {}},
        });
        fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
        fs::write(directory.join("guide.md"), "# Order\n\nOrders a table.\n").unwrap();
        let url = format!("http://127.0.0.1:{}/", service.port);
        let hook = json!({"kind": "webhook", "url": url, "secret": "{secret:HOOK}"});
        fs::write(directory.join("handler.json"), hook.to_string()).unwrap();
        let hosts = format!("[secrets.HOOK]\nhosts = [\"127.0.0.1:{}\"]\n", service.port);
        fs::write(folder.path().join("windlass.toml"), hosts).unwrap();
        let model = ModelServer::start(|message| match message["role"].as_str() {
            Some("user") if message["content"].as_str() == Some("order") => {
                Says::Calls("order", json!({}))
            }
            _ => Says::Words("Well."),
        });
        let mut studio = Self {
            folder,
            model,
            server: None,
            address: String::new(),
        };
        studio.serve();
        studio
    }

    fn serve(&mut self) {
        let mut server = command(self.folder.path());
        server
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--tools",
                "tools",
                "--data",
                "data",
            ])
            .args(["--text-provider-url", &self.model.url])
            .env("WINDLASS_SECRET_HOOK", SECRET);
        let server = self.server.insert(Running::start(&mut server));
        self.address = server.address();
    }

    fn kill(&mut self) {
        self.server.take().unwrap().kill();
    }

    fn say(&self, message: &str) {
        self.say_in("talk", message);
    }

    fn say_in(&self, conversation: &str, message: &str) {
        let body = json!({"id": conversation, "message": message}).to_string();
        let answer = post(&self.address, "/api/chat", body.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.body);
    }

    /// All that the model has read since the server began.
    fn model_reads(&self) -> String {
        self.model.seen().last().unwrap()["messages"].to_string()
    }

    fn state(&self, effect: &str) -> String {
        self.state_in("talk", effect)
    }

    fn state_in(&self, conversation: &str, effect: &str) -> String {
        let path = format!("/api/effects/{effect}?conversationId={conversation}");
        let body: Value = serde_json::from_str(&get(&self.address, &path).body).unwrap();
        body["state"].as_str().unwrap_or_default().to_owned()
    }

    fn call_back(&self, of: &str, secret: &str, body: &Value) -> HttpAnswer {
        call_back(&self.address, of, (secret, now_unix_ms() / 1_000), body)
    }
}

fn call_back(address: &str, of: &str, signed: (&str, u64), body: &Value) -> HttpAnswer {
    call_back_with(address, of, signed, &body.to_string())
}

fn call_back_with(address: &str, of: &str, (secret, at): (&str, u64), body: &str) -> HttpAnswer {
    let signature = SigningKey::parse(secret)
        .unwrap()
        .sign("msg_1", at, body.as_bytes());
    post_with(
        address,
        &format!("/api/effects/{of}/result"),
        &[
            ("webhook-id", "msg_1"),
            ("webhook-timestamp", &at.to_string()),
            ("webhook-signature", &signature),
        ],
        body.as_bytes(),
    )
}

fn booked(effect: &str, table: &str) -> Value {
    json!({"effectId": effect, "ok": true, "data": {"table": table}})
}

fn check(answer: &HttpAnswer, status: u16, part: &str) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert!(answer.body.contains(part), "{}", answer.body);
}

#[test]
fn the_end_of_an_accepted_change_is_the_one_signed_message_about_it() {
    let service = Service::accepting();
    let studio = Studio::open(&service, "writes");
    studio.say("order");
    let effect = service.orders.recv().unwrap();
    let reads = studio.model_reads();
    assert!(
        reads.contains("accepted") && reads.contains(&effect),
        "{reads}"
    );
    assert_eq!(studio.state(&effect), "running");
    // Asked again, the model reads the same, and nothing further is ordered.
    studio.say("order");
    assert!(service.orders.try_recv().is_err());
    let good = booked(&effect, "by the window");
    let old = now_unix_ms() / 1_000 - 3_600;
    let path = format!("/api/effects/{effect}/result");
    check(
        &post(&studio.address, &path, good.to_string().as_bytes()),
        401,
        "missing",
    );
    check(
        &studio.call_back(&effect, OTHER_SECRET, &good),
        401,
        "the signature is another one",
    );
    check(
        &call_back(&studio.address, &effect, (SECRET, old), &good),
        401,
        "too old",
    );
    check(
        &studio.call_back(&effect, SECRET, &booked("another", "x")),
        400,
        "not the effect of the address",
    );
    check(
        &studio.call_back(&effect, SECRET, &json!({"ok": true})),
        400,
        "not the effect of the address",
    );
    check(
        &studio.call_back(&effect, SECRET, &json!({"effectId": effect})),
        400,
        "no `ok`",
    );
    check(
        &studio.call_back("none", SECRET, &booked("none", "x")),
        404,
        "unknown_effect",
    );
    check(&studio.call_back("../../etc", SECRET, &good), 404, "");
    assert_eq!(studio.state(&effect), "running");
    check(
        &studio.call_back(&effect, SECRET, &good),
        200,
        "\"recorded\":true",
    );
    assert_eq!(studio.state(&effect), "done");
    check(
        &studio.call_back(&effect, SECRET, &good),
        200,
        "\"recorded\":false",
    );
    let failed =
        json!({"effectId": effect, "ok": false, "error": {"type": "CONFLICT", "message": "full"}});
    check(
        &studio.call_back(&effect, SECRET, &failed),
        200,
        "\"state\":\"done\"",
    );
    studio.say("hello");
    let reads = studio.model_reads();
    assert!(reads.contains("by the window"), "{reads}");
    assert!(service.orders.try_recv().is_err());
}

#[test]
fn an_accepted_change_that_was_made_is_done_whatever_its_result_holds() {
    let service = Service::accepting();
    let studio = Studio::open(&service, "writes");
    for (index, data) in [
        "\"\\ud83d\"",
        "\"\\u0000\"",
        "NaN",
        &format!("\"{}\"", "x".repeat(500_000)),
    ]
    .into_iter()
    .enumerate()
    {
        let conversation = format!("talk-{index}");
        studio.say_in(&conversation, "order");
        let effect = service.orders.recv().unwrap();
        let body = format!(r#"{{"effectId":"{effect}","ok":true,"data":{data}}}"#);
        let signed = (SECRET, now_unix_ms() / 1_000);
        let answer = call_back_with(&studio.address, &effect, signed, &body);
        check(&answer, 200, "\"recorded\":true");
        assert_eq!(studio.state_in(&conversation, &effect), "done");
    }
}

#[test]
fn an_accepted_change_outlives_the_process_that_asked_for_it() {
    let service = Service::accepting();
    let mut studio = Studio::open(&service, "writes");
    studio.say("order");
    let effect = service.orders.recv().unwrap();
    studio.kill();
    studio.serve();
    assert_eq!(studio.state(&effect), "running");
    let failed = json!({"effectId": effect, "ok": false, "error": {"type": "CONFLICT", "message": "all tables are taken"}});
    check(
        &studio.call_back(&effect, SECRET, &failed),
        200,
        "\"recorded\":true",
    );
    assert_eq!(studio.state(&effect), "not_done");
    studio.say("hello");
    let reads = studio.model_reads();
    assert!(reads.contains("all tables are taken"), "{reads}");
    assert!(service.orders.try_recv().is_err());
}

#[test]
fn a_message_that_overtakes_the_acceptance_counts() {
    let address = Arc::<Mutex<String>>::default();
    let told = address.clone();
    let service = Service::start(Arc::new(move |effect| {
        let address = told.lock().unwrap().clone();
        let at = now_unix_ms() / 1_000;
        let answer = call_back(&address, effect, (SECRET, at), &booked(effect, "at once"));
        check(&answer, 200, "\"recorded\":true");
        (202, json!({"until": now_unix_ms() + HOUR_MS}))
    }));
    let studio = Studio::open(&service, "writes");
    address.lock().unwrap().clone_from(&studio.address);
    studio.say("order");
    let effect = service.orders.recv().unwrap();
    let reads = studio.model_reads();
    assert!(
        reads.contains("at once") && !reads.contains("accepted"),
        "{reads}"
    );
    assert_eq!(studio.state(&effect), "done");
}

#[test]
fn after_the_time_that_the_service_took_only_a_success_counts() {
    let until = now_unix_ms() + 1_500;
    let service = Service::start(Arc::new(move |_| (202, json!({ "until": until }))));
    let studio = Studio::open(&service, "writes");
    studio.say("order");
    let effect = service.orders.recv().unwrap();
    while now_unix_ms() <= until {
        thread::yield_now();
    }
    let failed = json!({"effectId": effect, "ok": false, "error": {"type": "PERMANENT", "message": "no table"}});
    let late = studio.call_back(&effect, SECRET, &failed);
    check(&late, 410, "too_late");
    assert_eq!(studio.state(&effect), "unknown");
    let late = studio.call_back(&effect, SECRET, &booked(&effect, "by the window"));
    check(&late, 200, "done");
    assert_eq!(studio.state(&effect), "done");
}

#[test]
fn only_a_change_is_accepted_and_only_until_a_time_to_come() {
    for (side_effects, promise, error) in [
        (
            "read_only",
            json!({"until": now_unix_ms() + HOUR_MS}),
            "INTERNAL",
        ),
        ("writes", json!({"until": 1}), "OUTCOME_UNKNOWN"),
        ("writes", json!({"until": "soon"}), "OUTCOME_UNKNOWN"),
        ("writes", json!([]), "OUTCOME_UNKNOWN"),
    ] {
        let answer = promise.clone();
        let service = Service::start(Arc::new(move |_| (202, answer.clone())));
        let studio = Studio::open(&service, side_effects);
        studio.say("order");
        let reads = studio.model_reads();
        assert!(reads.contains(error), "{promise}: {reads}");
    }
}
