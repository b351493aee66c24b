//! Conversations that outlast their process: the program is killed or told to end, started again on the same data, and goes
//! on where it was.

use crate::chat::{approval, chat, chunks, echo, question, user, words};
use crate::support::http::{HttpAnswer, get, post, post_with};
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command, folders};
use crate::support::voice_client::VoiceClient;
use crate::voice::cookie;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The two ways in which a server goes.
const ENDS: [&str; 2] = ["-KILL", "-TERM"];
/// How long what must come may take; only a broken server takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

struct Process {
    running: Running,
    address: String,
}

fn serve(folder: &Path, model: &ModelServer) -> Process {
    let mut command = command(folder);
    command
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(folders(&folder.join("data")))
        .args(["--text-provider-url", &model.url]);
    let mut running = Running::start(&mut command);
    let address = running.address();
    Process { running, address }
}

impl Process {
    fn ask(&self, body: &Value) -> HttpAnswer {
        post(&self.address, "/api/chat", body.to_string().as_bytes())
    }

    fn confirm(&self, conversation: &str, token: &Value) -> HttpAnswer {
        let body = json!({"conversationId": conversation, "token": token, "approved": true});
        post(&self.address, "/api/confirm", body.to_string().as_bytes())
    }

    /// Waits until all that was to be written before this is on the disk: a conversation that a client names begins once the
    /// store has it, and the store takes one thing after the other.
    fn settle(&self) {
        static SETTLED: AtomicUsize = AtomicUsize::new(0);
        let id = format!("settled-{}", SETTLED.fetch_add(1, Ordering::Relaxed));
        let body = json!({"id": id, "message": "Hello."});
        assert_eq!(self.ask(&body).status, 200);
    }

    fn end(self, signal: &str) {
        self.settle();
        self.running.signal(signal);
        self.running.end();
    }
}

fn require_consent(folder: &Path, tool: &str) {
    let text = format!("[tools.{tool}]\nrequires_confirmation = true\n");
    std::fs::write(folder.join("windlass.toml"), text).unwrap();
}

#[test]
fn a_conversation_goes_on_and_a_known_message_is_not_answered_anew() {
    for signal in ENDS {
        let folder = tempfile::tempdir().unwrap();
        let model = ModelServer::start(echo);
        let server = serve(folder.path(), &model);
        let first = json!({"id": "c", "messages": [user("a", "Who?")]});
        let answer = server.ask(&first);
        assert_eq!(words(&answer), "It is me.");
        assert_eq!(
            words(&server.ask(&json!({"id": "c", "messages": [user("b", "Search.")]}))),
            "Found."
        );
        server.end(signal);

        let server = serve(folder.path(), &model);
        let requests = model.seen().len();
        let again = server.ask(&first);
        assert_eq!(again.body, answer.body, "{signal}");
        assert_eq!(model.seen().len(), requests, "{signal}");
        let edited = json!({"id": "c", "messages": [user("a", "Search.")]});
        assert_eq!(words(&server.ask(&edited)), "Found.", "{signal}");
        // What the client says of the past counts for nothing where the server knows it.
        let next = server.ask(&json!({"id": "c", "messages": [
            user("z", "I was never said"), user("d", "And then?")
        ]}));
        assert_eq!(words(&next), "Yes.");
        let told = model.seen().pop().unwrap()["messages"].to_string();
        for said in ["Who?", "It is me.", "Search.", "Found."] {
            assert!(told.contains(said), "{signal}: {said} in {told}");
        }
        assert!(!told.contains("never said"));
        server.end("-KILL");
    }
}

#[test]
fn what_the_user_was_asked_can_be_answered_after_a_restart() {
    for signal in ENDS {
        let folder = tempfile::tempdir().unwrap();
        require_consent(folder.path(), "start_voice_session");
        let model = ModelServer::start(echo);
        let server = serve(folder.path(), &model);
        let asked = server.ask(&json!({"id": "c", "messages": [user("a", "Talk.")]}));
        let request = question(&asked);
        let token = request["token"].as_str().unwrap().to_owned();
        server.end(signal);

        let data = folder.path().join("data");
        for file in std::fs::read_dir(&data).unwrap().flatten() {
            if file.file_type().unwrap().is_file() {
                let bytes = std::fs::read(file.path()).unwrap();
                let found = bytes
                    .windows(token.len())
                    .any(|part| part == token.as_bytes());
                assert!(!found, "the token is in {:?}", file.path());
            }
        }
        let server = serve(folder.path(), &model);
        let forged = server.ask(&json!({"id": "c", "messages": [approval("made-up", true)]}));
        assert!(forged.body.contains("not valid"), "{}", forged.body);
        let messages = [approval(&token, true)];
        let other = server.ask(&json!({"id": "c", "userId": "bob", "messages": messages}));
        assert!(other.body.contains("not valid"), "{}", other.body);
        let elsewhere = server.ask(&json!({"id": "d", "messages": [approval(&token, true)]}));
        assert!(elsewhere.body.contains("not valid"), "{}", elsewhere.body);
        let answer = server.ask(&json!({"id": "c", "messages": [approval(&token, true)]}));
        let done = chunks(&answer)
            .into_iter()
            .find(|chunk| chunk["type"] == "tool-output-available")
            .unwrap_or_else(|| panic!("{signal}: {}", answer.body));
        assert_eq!(done["toolCallId"], request["toolCallId"]);
        assert!(answer.body.contains("data-voice-session-start"));
        // It runs once, and a second approval gets the same answer.
        let again = server.confirm("c", &json!(token));
        assert_eq!(again.status, 200, "{}", again.body);
        let recorded = |answer: &HttpAnswer| {
            let body: Value = serde_json::from_str(&answer.body).unwrap();
            body["response"]["data"].clone()
        };
        server.end(signal);
        let server = serve(folder.path(), &model);
        let requests = model.seen().len();
        let much_later = server.confirm("c", &json!(token));
        assert_eq!(much_later.status, 200, "{}", much_later.body);
        assert_eq!(recorded(&much_later), recorded(&again));
        assert_eq!(model.seen().len(), requests, "nothing ran");
        server.end("-KILL");
    }
}

/// Asks, and reads of the answer no more than the first part of a kind.
pub(crate) fn until_chunk(
    address: &str,
    body: &Value,
    is_wanted: impl Fn(&Value) -> bool,
) -> (TcpStream, Value) {
    until_chunk_to(address, "", body, is_wanted)
}

/// The same for the client of a cookie.
fn until_chunk_to(
    address: &str,
    cookie: &str,
    body: &Value,
    is_wanted: impl Fn(&Value) -> bool,
) -> (TcpStream, Value) {
    let (mut stream, body) = (TcpStream::connect(address).unwrap(), body.to_string());
    let head = format!(
        "POST /api/chat HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\nCookie: {cookie}\r\n",
        body.len()
    );
    write!(stream, "{head}\r\n{body}").unwrap();
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut chunks = lines.filter_map(|line| {
        serde_json::from_str::<Value>(line.unwrap().strip_prefix("data: ")?).ok()
    });
    let found = chunks.find(is_wanted);
    (stream, found.expect("the answer ends before"))
}

/// The same for the question to the user that is in it: its token and the id of its call.
fn until_question(address: &str, body: &Value) -> (TcpStream, String, Value) {
    let is_question = |chunk: &Value| chunk["type"] == "tool-approval-request";
    let (stream, asked) = until_chunk(address, body, is_question);
    let token = asked["approvalId"].as_str().unwrap().to_owned();
    (stream, token, asked["toolCallId"].clone())
}

#[test]
fn a_question_can_be_answered_though_its_turn_never_came_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    require_consent(folder.path(), "start_voice_session");
    let model = ModelServer::start(|last: &Value| match last["role"] == "tool" {
        true => Says::Hangs("You will be"),
        false => echo(last),
    });
    let server = serve(folder.path(), &model);
    let wish = json!({"id": "c", "messages": [user("a", "Talk.")]});
    let (_listening, token, call) = until_question(&server.address, &wish);
    server.running.signal("-KILL");
    server.running.end();

    let server = serve(folder.path(), &model);
    let answer = server.ask(&json!({"id": "c", "messages": [approval(&token, true)]}));
    let done = chunks(&answer)
        .into_iter()
        .find(|chunk| chunk["type"] == "tool-output-available");
    let done = done.unwrap_or_else(|| panic!("{}", answer.body));
    assert_eq!(done["toolCallId"], call);
    let next = server.ask(&json!({"id": "c", "messages": [user("b", "Who?")]}));
    assert_eq!(words(&next), "It is me.");
    let told = model.seen().pop().unwrap()["messages"].to_string();
    assert!(told.contains("Talk."), "{told}");
    server.end("-KILL");
}

#[test]
fn a_conversation_of_a_browser_stays_that_browsers() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::start(echo);
    let server = serve(folder.path(), &model);
    let body = json!({"id": "c", "messages": [user("a", "Who?")]}).to_string();
    let origin = format!("http://{}", server.address);
    let mine = post_with(
        &server.address,
        "/api/chat",
        &[("Origin", &origin)],
        body.as_bytes(),
    );
    let cookie = mine.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    server.end("-KILL");
    let server = serve(folder.path(), &model);
    for (headers, status) in [(vec![], 403), (vec![("Cookie", cookie.as_str())], 200)] {
        let answer = post_with(&server.address, "/api/chat", &headers, body.as_bytes());
        assert_eq!(answer.status, status, "{headers:?}");
    }
    server.end("-KILL");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_by_voice_is_known_after_a_restart_and_to_its_client_alone() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::start(echo);
    let start = |folder: &Path| {
        let mut command = command(folder);
        command
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--text-provider",
                "openai",
            ])
            .args(folders(&folder.join("data")))
            .args(["--text-provider-url", &model.url]);
        let mut running = Running::start(&mut command);
        let address = running.address();
        Process { running, address }
    };
    let server = start(folder.path());
    // The client's id comes with the answer to any first request.
    let origin = format!("http://{}", server.address);
    let hello = json!({"message": "Hello."}).to_string();
    let met = post_with(
        &server.address,
        "/api/chat",
        &[("Origin", &origin)],
        hello.as_bytes(),
    );
    let cookie = met.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let headers = [("Cookie", cookie.as_str())];
    let mut client = VoiceClient::connect(&server.address, &headers)
        .await
        .unwrap();
    client
        .send(json!({"type": "start", "conversationId": "v"}))
        .await;
    client.expect("started").await;
    client.say("Who designed the ship Fram?").await;
    client.expect("turn_complete").await;
    server.end("-KILL");

    let server = start(folder.path());
    let body = json!({"id": "v", "messages": [user("a", "Where were we?")]}).to_string();
    let stranger = post(&server.address, "/api/chat", body.as_bytes());
    assert_eq!(stranger.status, 403, "{}", stranger.body);
    let mine = post_with(&server.address, "/api/chat", &headers, body.as_bytes());
    assert_eq!(mine.status, 200, "{}", mine.body);
    let told = model.seen().pop().unwrap()["messages"].to_string();
    assert!(told.contains("Who designed the ship Fram?"), "{told}");
    server.end("-KILL");
}

/// Shows a token; what `started` says, and the client that heard it.
async fn resume(server: &Process, cookie: &str, token: &Value) -> Option<(VoiceClient, Value)> {
    let headers = [("Cookie", cookie)];
    let connected = VoiceClient::connect(&server.address, &headers).await;
    let mut client = connected.unwrap();
    client.send(json!({"type": "start", "resume": token})).await;
    let started = client.started_or_refused().await;
    started.map(|started| (client, started))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_honoured_by_the_server_that_follows_one_that_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::start(echo);
    let server = serve(folder.path(), &model);
    let cookie = cookie(&server.address);
    let headers = [("Cookie", cookie.as_str())];
    let connected = VoiceClient::connect(&server.address, &headers).await;
    let mut client = connected.unwrap();
    client.send(json!({"type": "start"})).await;
    let begun = client.expect("started").await;
    let token = &begun["resumeToken"];
    let (_client, answer) = resume(&server, &cookie, token).await.unwrap();
    assert_eq!(answer["resumeToken"], *token);
    server.settle();
    server.running.signal("-KILL");
    server.running.end();

    let server = serve(folder.path(), &model);
    let resumed = resume(&server, &cookie, token).await;
    let (_client, started) = resumed.expect("the token is refused");
    assert_eq!(started["conversationId"], begun["conversationId"]);
    assert_eq!(started["sessionId"], begun["sessionId"]);
    server.running.signal("-KILL");
    server.running.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_conversation_leaves_memory_by_itself_and_is_known_as_long_as_its_changes() {
    let chat = chat(echo, &[("text.conversation_idle_seconds", "1")]).await;
    let body = json!({"id": "c", "messages": [user("a", "Who?")]});
    assert_eq!(words(&chat.ask(&body)), "It is me.");
    let sessions = || -> Value {
        let metrics = get(&chat.address, "/metrics").body;
        serde_json::from_str::<Value>(&metrics).unwrap()["loopDetection"]["activeSessions"].clone()
    };
    let begun = Instant::now();
    while sessions() != json!(0) {
        assert!(begun.elapsed() < PATIENCE, "it is still held");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let requests = chat.model.seen().len();
    chat.ask(&json!({"id": "c", "messages": [user("b", "And?")]}));
    let told = chat.model.seen()[requests]["messages"].to_string();
    assert!(told.contains("It is me."), "{told}");
}

/// The effects that the audit has lines of, each once.
fn effects_of(folder: &Path, tool: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(folder.join("data").join("audit.jsonl")).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line["toolId"] == tool)
        .filter_map(|line| line["effectId"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn a_change_whose_answer_was_cut_off_by_a_kill_stays_made() {
    let block = || {
        let block = json!({"duration_seconds": 30, "farewell_message": "Bye."});
        Says::Calls("ignore_user", block)
    };
    let begins = move |last: &Value| match last["role"] == "tool" {
        true => Says::Hangs("I have"),
        false if last["content"].to_string().contains("Block me.") => block(),
        false => Says::Words("Yes."),
    };
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::start(begins);
    let server = serve(folder.path(), &model);
    let of = |user_id: &str, message: Value| json!({"id": "c", "userId": user_id, "messages": [message]});
    let cookie = cookie(&server.address);
    let ask = |server: &Process, body: &Value| {
        let headers = [("Cookie", cookie.as_str())];
        let body = body.to_string();
        post_with(&server.address, "/api/chat", &headers, body.as_bytes())
    };
    ask(&server, &of("ada", user("a", "Hello.")));
    let wish = of("ada", user("b", "Block me."));
    let is_wanted = |chunk: &Value| chunk["delta"] == "I have";
    let _listening = until_chunk_to(&server.address, &cookie, &wish, is_wanted);
    server.end("-KILL");

    let server = serve(folder.path(), &model);
    // The block holds, and nobody gets around it in another name.
    for name in ["ada", "bob"] {
        let again = ask(&server, &of(name, user("b", "Block me.")));
        assert!(again.body.contains("data-timeout"), "{}", again.body);
    }
    server.end("-TERM");
    let effects = effects_of(folder.path(), "ignore_user");
    assert_eq!(effects.len(), 1, "{effects:?}");
}
