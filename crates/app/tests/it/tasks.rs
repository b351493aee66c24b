//! Background work over HTTP: a call is accepted at once and goes on beside turns, sessions and processes; its user sees how far it is,
//! stops it, and is told how it ended; everybody else finds nothing.

use crate::support::http::{HttpAnswer, get, post, post_with, request};
use crate::support::model_server::{Gate, ModelServer, Says, read_request};
use crate::support::program::{Running, command};
use crate::support::root;
use crate::voice::cookie;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use windlass_runtime::declared::SigningKey;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const HOUR_MS: u64 = 60 * 60 * 1_000;
/// Between two looks at a task: an address may ask only so often.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Http,
    Script,
    Process,
    Webhook,
}

fn now_unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// A service that answers once it may, and what it was asked for.
pub(crate) struct Service {
    port: u16,
    pub(crate) gate: Arc<Gate>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Service {
    /// With `accepts` it answers at once that it has taken the work on.
    fn start(accepts: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (gate, asked) = (Arc::<Gate>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (own, noted) = (gate.clone(), asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (gate, asked) = (own.clone(), noted.clone());
                thread::spawn(move || serve(stream, accepts, &gate, &asked));
            }
        });
        Self { port, gate, asked }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn serve(stream: TcpStream, accepts: bool, gate: &Gate, asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut writer = stream.try_clone().unwrap();
    let (head, body) = read_request(&mut BufReader::new(stream))?;
    let path = head.split(' ').nth(1).unwrap_or_default();
    let what = path.trim_start_matches('/').to_owned();
    let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
    let what = sent["args"]["what"].as_str().map_or(what, str::to_owned);
    asked.lock().unwrap().push(what);
    let (status, body) = match accepts {
        true => (202, json!({"until": now_unix_ms() + HOUR_MS})),
        false => {
            gate.pass();
            (200, json!({"rows": 7}))
        }
    };
    let body = body.to_string();
    // The client may be gone.
    let _ = write!(
        writer,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    Some(())
}

/// A server with the background tool `export` and the built-in tools about tasks. Its model calls what the user says: `export a`,
/// `get ID`, `list`, `cancel ID`.
pub(crate) struct Studio {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) service: Service,
    model: ModelServer,
    server: Option<Running>,
    pub(crate) address: String,
}

fn said(message: &Value) -> Says {
    let text = message["content"].as_str().unwrap_or_default();
    // An end that is told with it may follow.
    let mut words = text.split_whitespace();
    let (word, rest) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    match (message["role"].as_str(), word) {
        (Some("user"), "export") => Says::Calls("export", json!({ "what": rest })),
        (Some("user"), "get") => Says::Calls("get_task", json!({ "task_id": rest })),
        (Some("user"), "list") => Says::Calls("list_tasks", json!({})),
        (Some("user"), "cancel") => Says::Calls("cancel_task", json!({ "task_id": rest })),
        _ => Says::Words("Well."),
    }
}

impl Studio {
    pub(crate) fn open(kind: Kind, changes: Value, settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("tools/export");
        fs::create_dir_all(&directory).unwrap();
        let mut schema = json!({
            "toolId": "export", "version": "1.0.0", "description": "Exports all there is.", "category": "action",
            "sideEffects": "writes", "idempotent": false, "requiresConfirmation": false, "behavior": "background",
            "allowedModes": ["text"], "latencyBudgetMs": 1_000,
            "parameters": {"type": "object", "additionalProperties": false, "required": ["what"], "properties": {
                "what": {"type": "string", "maxLength": 100},
            }},
        });
        for (name, value) in changes.as_object().unwrap() {
            schema[name] = value.clone();
        }
        fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
        fs::write(directory.join("guide.md"), "# Export\n\nExports all.\n").unwrap();
        for tool in ["get-task", "list-tasks", "cancel-task"] {
            let to = folder.path().join("tools").join(tool);
            fs::create_dir_all(&to).unwrap();
            for file in ["schema.json", "guide.md"] {
                let from = root().join("tools/_optional").join(tool).join(file);
                fs::copy(from, to.join(file)).unwrap();
            }
        }
        let service = Service::start(kind == Kind::Webhook);
        let url = service.url();
        let (name, handler) = match kind {
            Kind::Http => (
                "handler.json",
                json!({"kind": "http", "method": "POST", "url": format!("{url}/{{what}}"), "body": {}})
                    .to_string(),
            ),
            Kind::Webhook => (
                "handler.json",
                json!({"kind": "webhook", "url": url, "secret": "{secret:HOOK}"}).to_string(),
            ),
            Kind::Process => {
                fs::write(directory.join("worker.mjs"), worker(&url)).unwrap();
                (
                    "handler.json",
                    json!({"kind": "process", "command": ["node", "worker.mjs"], "concurrency": 4}).to_string(),
                )
            }
            Kind::Script => (
                "handler.js",
                format!(
                    "export async function execute({{ args, context }}) {{
                        context.progress('half way', 0.5);
                        const answer = await context.http.fetch(`{url}/${{args.what}}`);
                        return {{ ok: true, data: await answer.json() }};
                    }}"
                ),
            ),
        };
        fs::write(directory.join(name), handler).unwrap();
        let port = service.port;
        let settings = format!(
            "[handlers]\nprocesses = true\nallow_fetch = [\"127.0.0.1:{port}\"]\n[secrets.HOOK]\nhosts = [\"127.0.0.1:{port}\"]\n{settings}"
        );
        fs::write(folder.path().join("windlass.toml"), settings).unwrap();
        let mut studio = Self {
            folder,
            service,
            model: ModelServer::start(said),
            server: None,
            address: String::new(),
        };
        studio.serve();
        studio
    }

    pub(crate) fn serve(&mut self) {
        let mut server = command(self.folder.path());
        server
            .args(["serve", "--listen", "127.0.0.1:0", "--tools", "tools"])
            .args(["--data", "data", "--text-provider-url", &self.model.url])
            .env("WINDLASS_SECRET_HOOK", SECRET);
        let server = self.server.insert(Running::start(&mut server));
        self.address = server.address();
    }

    pub(crate) fn kill(&mut self) {
        self.server.take().unwrap().kill();
    }

    fn say(&self, message: &str) -> String {
        say_in(&self.address, "talk", message, &[])
    }

    /// What the model has read of the call that it made last.
    pub(crate) fn result(&self) -> Value {
        let seen = self.model.seen();
        let reads = seen.last().unwrap()["messages"].as_array().unwrap().clone();
        let mut results = reads.iter().rev().filter(|read| read["role"] == "tool");
        let content = results.next().unwrap()["content"].as_str().unwrap();
        serde_json::from_str(content).unwrap()
    }

    /// Has a task begun, and gives its id.
    fn begin(&self, what: &str) -> String {
        self.say(&format!("export {what}"));
        let result = self.result();
        let data = &result["data"];
        assert_eq!(
            (&data["status"], &data["state"]),
            (&json!("accepted"), &json!("running")),
            "{result}"
        );
        data["backgroundTaskId"].as_str().unwrap().to_owned()
    }

    /// What has ended is told with the next message, which the model then reads first.
    fn hear_of_ends(&self) {
        self.say("hello");
    }

    fn task(&self, id: &str) -> Value {
        let path = format!("/api/tasks/{id}?conversationId=talk");
        json_of(&get(&self.address, &path))
    }

    fn until_state(&self, id: &str, state: &str) -> Value {
        loop {
            let task = self.task(id);
            if task["state"] == state {
                return task;
            }
            thread::sleep(LOOK_PAUSE);
        }
    }
}

/// A process that asks the service and says how far it is.
fn worker(url: &str) -> String {
    format!(
        "import {{ createInterface }} from 'node:readline';
        const say = (message) => process.stdout.write(`${{JSON.stringify(message)}}\\n`);
        createInterface({{ input: process.stdin }}).on('line', async (line) => {{
            const {{ id, method, params }} = JSON.parse(line);
            if (method !== 'execute') return;
            say({{ method: 'progress', params: {{ call: id, message: 'half way', fraction: 0.5 }} }});
            const answer = await fetch(`{url}/${{params.args.what}}`, {{ method: 'POST', body: '{{}}' }});
            say({{ id, result: {{ ok: true, data: await answer.json() }} }});
        }});"
    )
}

fn json_of(answer: &HttpAnswer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("no JSON: {}", answer.body))
}

pub(crate) fn say_in(
    address: &str,
    conversation: &str,
    message: &str,
    headers: &[(&str, &str)],
) -> String {
    let body = json!({"id": conversation, "message": message}).to_string();
    let answer = post_with(address, "/api/chat", headers, body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

#[test]
fn every_kind_of_handler_works_in_the_background_says_how_far_it_is_and_is_told_once() {
    for kind in [Kind::Http, Kind::Script, Kind::Process] {
        let studio = Studio::open(kind, json!({}), "");
        let id = studio.begin("a");
        assert_eq!(studio.task(&id)["state"], "running", "{kind:?}");
        if kind != Kind::Http {
            while studio.task(&id)["progress"]["message"] != "half way" {
                thread::sleep(LOOK_PAUSE);
            }
            studio.say(&format!("get {id}"));
            let told = studio.result()["data"]["task"].clone();
            assert_eq!(told["progress"]["message"], "half way", "{kind:?} {told}");
            assert_eq!(told["progress"]["fraction"], json!(0.5), "{kind:?} {told}");
        }
        // Asked for again it is at work, and does not run again.
        assert_eq!(studio.begin("a"), id, "{kind:?}");
        studio.service.gate.open();
        let ended = studio.until_state(&id, "done");
        assert_eq!(ended["response"]["data"], json!({"rows": 7}), "{kind:?}");
        studio.say("hello");
        let reads = json!(studio.model.seen().last().unwrap()["messages"]).to_string();
        let (before, _) = reads.split_once("hello").unwrap();
        assert!(before.contains("rows"), "{kind:?}: {reads}");
        studio.say("list");
        let listed = studio.result()["data"].clone();
        assert_eq!(listed["tasks"][0]["state"], "done", "{kind:?}: {listed}");
        assert_eq!(studio.service.asked(), ["a"], "{kind:?}");
    }
}

#[test]
fn another_client_finds_no_task_and_stops_none() {
    let studio = Studio::open(Kind::Http, json!({}), "");
    let [ada, eve] = [cookie(&studio.address), cookie(&studio.address)];
    say_in(&studio.address, "hers", "export a", &[("Cookie", &ada)]);
    let id = studio.result()["data"]["backgroundTaskId"].clone();
    let id = id.as_str().unwrap();
    let ask = |method: &str, path: &str, cookie: &str| {
        request(&studio.address, method, path, &[("Cookie", cookie)])
    };
    let listed = json_of(&ask("GET", "/api/tasks", &ada));
    assert_eq!(listed["tasks"][0]["taskId"], id, "{listed}");
    assert_eq!(json_of(&ask("GET", "/api/tasks", &eve))["tasks"], json!([]));
    let one = format!("/api/tasks/{id}");
    assert_eq!(ask("GET", &one, &ada).status, 200);
    let unknown = ask("GET", "/api/tasks/none", &eve);
    for (method, path) in [
        ("GET", one.clone()),
        ("GET", format!("{one}?conversationId=hers")),
        ("POST", format!("{one}/cancel")),
        ("GET", "/api/tasks/..%2F..%2Fetc".to_owned()),
    ] {
        let refused = ask(method, &path, &eve);
        assert_eq!(refused.status, 404, "{method} {path}: {}", refused.body);
        assert_eq!(refused.body, unknown.body, "{method} {path}");
    }
    let hers = ask("GET", "/api/tasks?conversationId=hers", &eve);
    assert_eq!(hers.status, 404, "{}", hers.body);
    // Nor does the other's model.
    for message in [format!("get {id}"), format!("cancel {id}")] {
        say_in(&studio.address, "theirs", &message, &[("Cookie", &eve)]);
        let told = studio.result();
        assert_eq!(told["error"]["type"], "NOT_FOUND", "{message}: {told}");
    }
    say_in(&studio.address, "theirs", "list", &[("Cookie", &eve)]);
    assert_eq!(studio.result()["data"]["tasks"], json!([]));
    // Her own finds it from another conversation.
    say_in(&studio.address, "her other", "list", &[("Cookie", &ada)]);
    let told = studio.result()["data"].clone();
    assert_eq!(told["tasks"][0]["task_id"], id, "{told}");
    assert_eq!(json_of(&ask("GET", &one, &ada))["state"], "running");
    studio.service.gate.open();
}

#[test]
fn a_list_that_cannot_be_made_is_refused_with_what_is_wrong() {
    let studio = Studio::open(Kind::Http, json!({}), "");
    for (query, problem) in [
        ("limit=0", "limit must be 1 to 100"),
        ("limit=x", "limit must be a whole number"),
        ("state=done", "state is neither running nor all"),
        ("cursor=x", "cursor must be"),
    ] {
        let refused = get(&studio.address, &format!("/api/tasks?{query}"));
        assert_eq!(refused.status, 400, "{query}: {}", refused.body);
        assert!(refused.body.contains(problem), "{query}: {}", refused.body);
    }
}

#[test]
fn so_many_tasks_of_a_user_run_at_a_time() {
    let studio = Studio::open(Kind::Http, json!({}), "[tasks]\nrunning_of_user_max = 2\n");
    let [first, second] = ["a", "b"].map(|what| studio.begin(what));
    studio.say("export c");
    let refused = studio.result();
    assert_eq!(refused["error"]["type"], "BUDGET_EXCEEDED", "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("2 tasks of this user run already"),
        "{message}"
    );
    studio.service.gate.open();
    for id in [&first, &second] {
        studio.until_state(id, "done");
    }
    studio.hear_of_ends();
    studio.begin("c");
    while studio.service.asked().len() < 3 {
        thread::yield_now();
    }
}

#[test]
fn what_changes_nothing_stops_when_it_is_cancelled_and_what_writes_goes_on() {
    let reads = json!({"sideEffects": "read_only", "category": "utility", "idempotent": true});
    let studio = Studio::open(Kind::Script, reads, "");
    let [first, second] = ["a", "b"].map(|what| studio.begin(what));
    while studio.service.asked().len() < 2 {
        thread::yield_now();
    }
    let path = format!("/api/tasks/{first}/cancel?conversationId=talk");
    let cancelled = post(&studio.address, &path, b"");
    assert_eq!(cancelled.status, 200, "{}", cancelled.body);
    assert_eq!(json_of(&cancelled)["outcome"], "stopping");
    let ended = studio.until_state(&first, "not_done");
    assert_eq!(ended["response"]["error"]["type"], "CANCELLED", "{ended}");
    assert!(ended["cancelRequestedAt"].is_string(), "{ended}");
    let late = post(&studio.address, &path, b"");
    assert_eq!(
        (late.status, &json_of(&late)["outcome"]),
        (409, &json!("ended"))
    );
    studio.hear_of_ends();
    studio.say(&format!("cancel {second}"));
    let stopping = studio.result();
    assert_eq!(stopping["data"]["outcome"], "stopping", "{stopping}");
    studio.until_state(&second, "not_done");
    studio.service.gate.open();

    let studio = Studio::open(Kind::Script, json!({}), "");
    let id = studio.begin("a");
    studio.say(&format!("cancel {id}"));
    assert_eq!(studio.result()["data"]["outcome"], "stopping");
    studio.service.gate.open();
    let ended = studio.until_state(&id, "done");
    assert!(ended["cancelRequestedAt"].is_string(), "{ended}");
}

pub(crate) fn call_back(address: &str, id: &str, body: &Value) -> HttpAnswer {
    let body = body.to_string();
    let at = now_unix_ms() / 1_000;
    let key = SigningKey::parse(SECRET).unwrap();
    post_with(
        address,
        &format!("/api/effects/{id}/result"),
        &[
            ("webhook-id", "msg_1"),
            ("webhook-timestamp", &at.to_string()),
            ("webhook-signature", &key.sign("msg_1", at, body.as_bytes())),
        ],
        body.as_bytes(),
    )
}

#[test]
fn a_callback_that_comes_after_its_task_was_cancelled_counts_and_is_told() {
    let studio = Studio::open(Kind::Webhook, json!({}), "");
    let id = studio.begin("a");
    studio.say(&format!("cancel {id}"));
    assert_eq!(studio.result()["data"]["outcome"], "given_up");
    assert_eq!(studio.task(&id)["state"], "unknown");
    let done = json!({"effectId": id, "ok": true, "data": {"rows": 7}});
    assert_eq!(call_back(&studio.address, &id, &done).status, 200);
    assert_eq!(studio.task(&id)["state"], "done");
    studio.say("hello");
    let reads = json!(studio.model.seen().last().unwrap()["messages"]).to_string();
    let (before, _) = reads.split_once("hello").unwrap();
    assert!(before.contains("rows"), "{reads}");
}

#[test]
fn after_a_kill_a_service_still_has_its_task_and_nobody_knows_of_any_other() {
    let mut accepting = Studio::open(Kind::Webhook, json!({}), "");
    let id = accepting.begin("a");
    accepting.kill();
    accepting.serve();
    assert_eq!(accepting.task(&id)["state"], "running");
    let done = json!({"effectId": id, "ok": true, "data": {"rows": 7}});
    assert_eq!(call_back(&accepting.address, &id, &done).status, 200);
    accepting.say("hello");
    let reads = json!(accepting.model.seen().last().unwrap()["messages"]).to_string();
    assert!(reads.contains("rows"), "{reads}");

    let mut waiting = Studio::open(Kind::Http, json!({}), "");
    let id = waiting.begin("a");
    waiting.kill();
    waiting.serve();
    waiting.until_state(&id, "unknown");
    waiting.say("hello");
    let reads = json!(waiting.model.seen().last().unwrap()["messages"]).to_string();
    assert!(reads.contains("OUTCOME_UNKNOWN"), "{reads}");
    // Nothing begins a second time unasked.
    waiting.say("export a");
    assert_eq!(waiting.result()["error"]["type"], "CONFIRMATION_REQUIRED");
    assert_eq!(waiting.service.asked(), ["a"]);

    let reads = json!({"sideEffects": "read_only", "category": "utility", "idempotent": true});
    let mut reading = Studio::open(Kind::Http, reads, "");
    let id = reading.begin("a");
    reading.kill();
    reading.serve();
    reading.until_state(&id, "unknown");
    reading.say("hello");
    let reads = json!(reading.model.seen().last().unwrap()["messages"]).to_string();
    assert!(reads.contains("has changed nothing"), "{reads}");
    let again = reading.begin("a");
    assert_ne!(again, id);
}

/// Kills with tasks that run, at moments that the seed chooses.
const KILLS: u64 = 12;

#[test]
fn no_kill_begins_a_task_twice_or_loses_one_that_was_accepted() {
    let mut studio = Studio::open(Kind::Http, json!({}), "");
    studio.service.gate.open();
    let mut accepted: Vec<String> = Vec::new();
    for round in 0..KILLS {
        for one in 0..3 {
            accepted.push(studio.begin(&format!("{round}-{one}")));
        }
        // Some have ended by then, some run, and some have just begun.
        for _ in 0..round * 7 % 5 {
            studio.task(&accepted[0]);
        }
        studio.kill();
        studio.serve();
        for id in &accepted {
            let task = studio.task(id);
            let state = task["state"].as_str().unwrap_or_default();
            assert!(
                matches!(state, "done" | "unknown"),
                "round {round}: {id} is {task}"
            );
        }
    }
    let mut asked = studio.service.asked();
    let all = asked.len();
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked.len(), all, "{asked:?}");
}

/// Takes what is posted, with a failure first; what was taken, each with its signature's parts.
fn hook() -> (u16, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, taken) = channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let mut writer = stream.try_clone().unwrap();
            let Some((head, body)) = read_request(&mut BufReader::new(stream)) else {
                continue;
            };
            let status = if number == 0 { 500 } else { 204 };
            let _ = write!(
                writer,
                "HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            let body: Value = serde_json::from_slice(&body).unwrap();
            if sender.send((head, body)).is_err() {
                return;
            }
        }
    });
    (port, taken)
}

#[test]
fn each_end_is_posted_to_the_webhook_until_it_is_taken() {
    let (port, taken) = hook();
    let settings = format!(
        "[tasks]\nwebhook = \"http://127.0.0.1:{port}/hook\"\nwebhook_secret = \"{SECRET}\"\n"
    );
    let studio = Studio::open(Kind::Webhook, json!({}), &settings);
    let id = studio.begin("a");
    studio.say(&format!("cancel {id}"));
    let (_, refused) = taken.recv().unwrap();
    let (head, unknown) = taken.recv().unwrap();
    assert_eq!(refused["data"], unknown["data"]);
    assert_eq!(unknown["type"], "task.ended");
    assert_eq!(
        (&unknown["data"]["taskId"], &unknown["data"]["state"]),
        (&json!(id), &json!("unknown"))
    );
    let head = head.to_ascii_lowercase();
    assert!(head.contains("webhook-signature: v1,"), "{head}");
    assert!(
        head.contains(&format!("webhook-id: msg_{id}_1_unknown")),
        "{head}"
    );
    let done = json!({"effectId": id, "ok": true, "data": {"rows": 7}});
    assert_eq!(call_back(&studio.address, &id, &done).status, 200);
    let (_, told) = taken.recv().unwrap();
    assert_eq!(told["data"]["state"], "done");
    assert_eq!(told["data"]["response"]["data"], json!({"rows": 7}));
    assert_eq!(told["data"]["conversationId"], "talk");
}
