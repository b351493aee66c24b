//! Work that takes longer than its model waits: it is said to be at work, goes on beside the turns, runs once, and is told when it ends.

use crate::support::http::{get, post};
use crate::support::model_server::{Gate, ModelServer, Says};
use crate::support::program::{Running, command};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Http,
    Script,
    Process,
}

/// A service that answers once it may, and how often it was asked.
struct Service {
    port: u16,
    gate: Arc<Gate>,
    asked: Arc<AtomicUsize>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (gate, asked) = (Arc::<Gate>::default(), Arc::<AtomicUsize>::default());
        let (own, counted) = (gate.clone(), asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (gate, asked) = (own.clone(), counted.clone());
                thread::spawn(move || serve(stream, &gate, &asked));
            }
        });
        Self { port, gate, asked }
    }
}

fn serve(mut stream: TcpStream, gate: &Gate, asked: &AtomicUsize) {
    let (mut read, mut piece) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&read).contains("\r\n\r\n") {
        let count = stream.read(&mut piece).unwrap();
        assert_ne!(count, 0, "the request is cut off");
        read.extend_from_slice(&piece[..count]);
    }
    asked.fetch_add(1, Ordering::SeqCst);
    gate.pass();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10";
    // The client may be gone.
    let _ =
        stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n{{\"rows\":7}}").as_bytes());
}

/// A server with the tool `export`, which its model calls whenever the user says "export".
struct Studio {
    kind: Kind,
    folder: tempfile::TempDir,
    service: Service,
    model: ModelServer,
    server: Option<Running>,
    address: String,
}

impl Studio {
    fn open(kind: Kind, schema: Value) -> Self {
        Self::open_with(kind, schema, |_| Says::Words("Well."))
    }

    /// `answers` says what the model makes of a result.
    fn open_with(
        kind: Kind,
        changes: Value,
        answers: impl Fn(&Value) -> Says + Send + Sync + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("tools/export");
        fs::create_dir_all(&directory).unwrap();
        let mut schema = json!({
            "toolId": "export", "version": "1.0.0", "description": "Exports all there is.", "category": "action",
            "sideEffects": "writes", "idempotent": false, "requiresConfirmation": false,
            "allowedModes": ["text"], "latencyBudgetMs": 1_000, "timeoutMs": 600_000,
            "parameters": {"type": "object", "additionalProperties": false, "properties": {}},
        });
        for (name, value) in changes.as_object().unwrap() {
            schema[name] = value.clone();
        }
        fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
        fs::write(directory.join("guide.md"), "# Export\n\nExports all.\n").unwrap();
        let service = Service::start();
        let url = format!("http://127.0.0.1:{}/", service.port);
        let (log, fifo) = (folder.path().join("log"), folder.path().join("fifo"));
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let program = format!(
            r#"while read -r line; do id=${{line#*\"id\":}}; id=${{id%%,*}}
                case $line in *'"cancel"'*) continue;; esac
                echo run >> '{}'
                printf '{{"method":"progress","params":{{"call":%s,"message":"half way"}}}}\n' $id
                read -r rows < '{}'
                printf '{{"id":%s,"result":{{"ok":true,"data":{{"rows":%s}}}}}}\n' $id $rows; done"#,
            log.display(),
            fifo.display()
        );
        let (name, handler) = match kind {
            Kind::Http => (
                "handler.json",
                json!({"kind": "http", "method": "POST", "url": url, "body": {}}).to_string(),
            ),
            Kind::Process => (
                "handler.json",
                json!({"kind": "process", "command": ["sh", "-c", program]}).to_string(),
            ),
            Kind::Script => (
                "handler.js",
                format!(
                    "export async function execute({{ context }}) {{
                        context.progress('half way');
                        const answer = await context.http.fetch('{url}', {{ method: 'POST', body: '{{}}' }});
                        return {{ ok: true, data: await answer.json() }};
                    }}"
                ),
            ),
        };
        fs::write(directory.join(name), handler).unwrap();
        let settings = format!(
            "[handlers]\nprocesses = true\nallow_fetch = [\"127.0.0.1:{}\"]\n[text.limits]\nresult_wait_ms = 300\n",
            service.port
        );
        fs::write(folder.path().join("windlass.toml"), settings).unwrap();
        let model = ModelServer::start(move |message| match message["role"].as_str() {
            Some("user") if message["content"].as_str() == Some("export") => {
                Says::Calls("export", json!({}))
            }
            Some("tool") => answers(message),
            _ => Says::Words("Well."),
        });
        let mut studio = Self {
            kind,
            folder,
            service,
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
            .args(["serve", "--listen", "127.0.0.1:0", "--tools", "tools"])
            .args(["--data", "data", "--text-provider-url", &self.model.url]);
        let server = self.server.insert(Running::start(&mut server));
        self.address = server.address();
    }

    /// What the stream of the answer holds.
    fn say(&self, message: &str) -> String {
        say(&self.address, message)
    }

    fn runs(&self) -> usize {
        match self.kind {
            Kind::Process => {
                let log = fs::read_to_string(self.folder.path().join("log"));
                log.unwrap_or_default().lines().count()
            }
            Kind::Http | Kind::Script => self.service.asked.load(Ordering::SeqCst),
        }
    }

    fn release(&self) {
        match self.kind {
            Kind::Process => {
                let fifo: PathBuf = self.folder.path().join("fifo");
                fs::write(fifo, "7\n").unwrap();
            }
            Kind::Http | Kind::Script => self.service.gate.open(),
        }
    }

    /// All that the model was asked with last.
    fn model_reads(&self) -> Vec<Value> {
        let seen = self.model.seen();
        seen.last().unwrap()["messages"].as_array().unwrap().clone()
    }

    /// The result of a call that the model has read last.
    fn last_result(&self) -> Value {
        let reads = self.model_reads();
        let mut results = reads.iter().rev().filter(|read| read["role"] == "tool");
        let content = results.next().unwrap()["content"].as_str().unwrap();
        serde_json::from_str(content).unwrap()
    }

    /// The effect that is at work, by what the model has read.
    fn at_work(&self) -> String {
        let data = self.last_result()["data"].clone();
        assert_eq!(
            (&data["status"], &data["state"]),
            (&json!("accepted"), &json!("running")),
            "{data}"
        );
        data["backgroundTaskId"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    fn state(&self, effect: &str) -> String {
        let path = format!("/api/effects/{effect}?conversationId=talk");
        let body: Value = serde_json::from_str(&get(&self.address, &path).body).unwrap();
        body["state"].as_str().unwrap_or_default().to_owned()
    }

    fn until_state(&self, effect: &str, state: &str) {
        while self.state(effect) != state {
            thread::yield_now();
        }
    }
}

fn say(address: &str, message: &str) -> String {
    let body = json!({"id": "talk", "message": message}).to_string();
    let answer = post(address, "/api/chat", body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

fn text(reads: &[Value]) -> String {
    reads.iter().map(Value::to_string).collect()
}

#[test]
fn every_kind_of_handler_goes_on_beside_the_turns_runs_once_and_is_told_first() {
    for kind in [Kind::Http, Kind::Script, Kind::Process] {
        let studio = Studio::open(kind, json!({}));
        let stream = studio.say("export");
        assert!(stream.contains("running"), "{kind:?}: {stream}");
        if kind != Kind::Http {
            assert!(stream.contains("half way"), "{kind:?}: {stream}");
        }
        let effect = studio.at_work();
        assert_eq!(studio.state(&effect), "running", "{kind:?}");
        // Asked for again it is at work, and does not run again.
        studio.say("export");
        assert_eq!(studio.at_work(), effect, "{kind:?}");
        studio.release();
        studio.until_state(&effect, "done");
        studio.say("hello");
        let reads = text(&studio.model_reads());
        let (before, _) = reads.split_once("hello").unwrap();
        assert!(before.contains("rows"), "{kind:?}: {reads}");
        assert_eq!(studio.runs(), 1, "{kind:?}");
    }
}

#[test]
fn what_ends_within_its_turn_reaches_client_and_model_at_once() {
    let gate = Arc::<Gate>::default();
    let own = gate.clone();
    let studio = Studio::open_with(Kind::Http, json!({}), move |_| {
        Says::Waits(own.clone(), "It is on its way.")
    });
    let address = studio.address.clone();
    let talk = thread::spawn(move || say(&address, "export"));
    while !studio
        .model
        .seen()
        .iter()
        .any(|asked| asked["messages"].to_string().contains("still running"))
    {
        thread::yield_now();
    }
    let effect = studio.at_work();
    studio.release();
    studio.until_state(&effect, "done");
    gate.open();
    let stream = talk.join().unwrap();
    let ends = stream.matches("\"tool-output-available\"").count();
    assert!(ends == 2 && stream.contains("\"rows\":7"), "{stream}");
    assert!(text(&studio.model_reads()).contains("rows"));
    // The model has heard of it: it is not told again.
    studio.say("hello");
    let told = text(&studio.model_reads()).matches("rows").count();
    assert_eq!(told, 0, "{:?}", studio.model_reads());
}

#[test]
fn a_process_that_ends_in_the_middle_leaves_it_in_doubt_and_nothing_runs_twice() {
    let mut studio = Studio::open(Kind::Http, json!({}));
    studio.say("export");
    let effect = studio.at_work();
    studio.server.take().unwrap().kill();
    studio.serve();
    studio.until_state(&effect, "unknown");
    studio.say("hello");
    assert!(text(&studio.model_reads()).contains("OUTCOME_UNKNOWN"));
    studio.say("export");
    assert_eq!(
        studio.last_result()["error"]["type"],
        "CONFIRMATION_REQUIRED"
    );
    assert_eq!(studio.runs(), 1);
}

#[test]
fn an_approval_is_answered_while_its_call_is_at_work() {
    let studio = Studio::open(Kind::Http, json!({"requiresConfirmation": true}));
    let stream = studio.say("export");
    let (_, token) = stream.split_once("\"token\":\"").unwrap();
    let token = token.split('"').next().unwrap();
    let approve = json!({"conversationId": "talk", "token": token, "approved": true}).to_string();
    for _ in 0..2 {
        let answer = post(&studio.address, "/api/confirm", approve.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert!(answer.body.contains("\"running\""), "{}", answer.body);
    }
    studio.release();
    loop {
        let answer = post(&studio.address, "/api/confirm", approve.as_bytes());
        if answer.body.contains("rows") {
            break;
        }
        assert!(answer.body.contains("\"running\""), "{}", answer.body);
    }
    studio.say("hello");
    // The model hears of it in the turn of an answer that came after the end, or in the next one.
    let seen = studio.model.seen();
    let has_heard = |asked: &Value| asked["messages"].to_string().contains("rows");
    assert!(seen.iter().any(has_heard), "{seen:?}");
    assert_eq!(studio.runs(), 1);
}

#[test]
fn a_look_up_that_its_model_need_not_wait_for_goes_on_too() {
    let changes = json!({
        "sideEffects": "read_only", "category": "utility", "idempotent": true, "behavior": "non_blocking",
    });
    let studio = Studio::open(Kind::Http, changes);
    studio.say("export");
    assert_eq!(studio.at_work(), "", "it changes nothing");
    studio.release();
    while !text(&studio.model_reads()).contains("rows") {
        studio.say("hello");
    }
    assert_eq!(studio.runs(), 1);
}
