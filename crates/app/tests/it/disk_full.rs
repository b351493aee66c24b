//! A disk that is full, as the server's process finds it: chats go on, nothing that changes the world starts, and when there is
//! space again all is as before. The limit on the size of files stands for the disk; other processes do not feel it.

use crate::chat::{chunks, question, words};
use crate::support::http::{HttpAnswer, get, post};
use crate::support::program::{Running, command, folders};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) struct Process {
    pub(crate) running: Running,
    address: String,
}

/// The demo's server as a shell starts it, which outlives the signal that a write past the limit sends.
pub(crate) fn serve(folder: &Path, line: &str) -> Process {
    let program = command(folder);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("trap '' XFSZ; {line}"), "sh"])
        .arg(program.get_program())
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(["--provider", "demo", "--text-provider", "demo"])
        .args(folders(&folder.join("data")))
        .current_dir(folder);
    for (name, value) in program.get_envs() {
        assert!(value.is_none(), "{name:?}");
        shell.env_remove(name);
    }
    let mut running = Running::start(&mut shell);
    let address = running.address();
    Process { running, address }
}

impl Process {
    /// No file takes a byte more than this.
    fn limit(&self, bytes: Option<u64>) {
        let id = Pid::from_raw(self.running.id().cast_signed());
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        prlimit(id, Resource::Fsize, limit).unwrap();
    }

    pub(crate) fn say(&self, conversation: &str, message: &str) -> HttpAnswer {
        let body = json!({"id": conversation, "message": message});
        post(&self.address, "/api/chat", body.to_string().as_bytes())
    }

    pub(crate) fn say_as(&self, user: &str, conversation: &str, message: &str) -> HttpAnswer {
        let body = json!({"id": conversation, "userId": user, "message": message});
        post(&self.address, "/api/chat", body.to_string().as_bytes())
    }

    fn confirm(&self, conversation: &str, token: &Value) -> (u16, Value) {
        let body = json!({"conversationId": conversation, "token": token, "approved": true});
        let answer = post(&self.address, "/api/confirm", body.to_string().as_bytes());
        (answer.status, serde_json::from_str(&answer.body).unwrap())
    }
}

/// How long what must come may take; only a broken program takes that long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Has the demo's model call a tool that writes, and one that reads.
const CHANGE: &str = "call start_voice_session {\"pending_request\": \"the Fram\"}";
pub(crate) const SEARCH: &str = "call kb_search {\"query\": \"Fram\"}";

#[test]
fn a_full_disk_stops_changes_and_no_chat() {
    let folder = tempfile::tempdir().unwrap();
    let consent = "[tools.start_voice_session]\nrequires_confirmation = true\n";
    std::fs::write(folder.path().join("windlass.toml"), consent).unwrap();
    let server = serve(folder.path(), "exec \"$@\"");
    let questions: Vec<Value> = (0..4)
        .map(|round| question(&server.say(&format!("asked-{round}"), CHANGE)))
        .collect();
    assert_eq!(server.say("known", "hello").status, 200);

    server.limit(Some(1));
    for (round, asked) in questions.iter().enumerate() {
        let (old, new) = (format!("asked-{round}"), format!("new-{round}"));
        for conversation in ["known", new.as_str(), old.as_str()] {
            let answer = server.say(conversation, "hello");
            assert_eq!(answer.status, 200, "{conversation}: {}", answer.body);
            assert!(!words(&answer).is_empty(), "{}", answer.body);
        }
        // What only reads runs.
        let searched = server.say(&new, SEARCH);
        assert!(is_done(&searched), "{}", searched.body);
        // What changes something does not: neither with consent, nor so that anybody is asked for it.
        let (status, refused) = server.confirm(&old, &asked["token"]);
        let code = &refused["error"]["code"];
        assert_eq!((status, code), (503, &json!("TRANSIENT")), "{refused}");
        let unasked = server.say(&new, CHANGE);
        assert!(unasked.body.contains("TRANSIENT"), "{}", unasked.body);
    }
    assert_eq!(get(&server.address, "/ready").status, 200);

    server.limit(None);
    // Within a moment the server sees that there is space again.
    let begun = Instant::now();
    loop {
        let asked = question(&server.say("known", CHANGE));
        let (status, done) = server.confirm("known", &asked["token"]);
        if status == 200 {
            assert_eq!(done["ok"], true, "{done}");
            break;
        }
        assert_eq!(status, 503, "{done}");
        assert!(begun.elapsed() < PATIENCE, "{done}");
    }
    server.running.signal("-TERM");
    let (code, log) = server.running.end();
    assert_eq!(code, Some(0));
    assert!(log.contains("the store's disk is full"), "{log}");
}

#[test]
fn a_log_on_the_full_disk_ends_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), "exec \"$@\" 2>server.log");
    server.limit(Some(1));
    for conversation in ["a", "b", "c"] {
        let answer = server.say(conversation, "hello");
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    server.limit(None);
    assert_eq!(server.say("a", "hello").status, 200);
    server.running.signal("-TERM");
    let (code, _) = server.running.end();
    assert_eq!(code, Some(0));
    let log = std::fs::read_to_string(folder.path().join("server.log")).unwrap();
    for line in log.lines() {
        let is_known = LINES_OF_THE_LOG.iter().any(|known| line.contains(known));
        assert!(is_known, "{line}");
    }
    assert!(log.ends_with(" ended\n"), "{log}");
}

/// What the start and the end say, and the store where it had something to keep meanwhile; above all, of nothing that broke.
const LINES_OF_THE_LOG: [&str; 9] = [
    "knowledge base read",
    "tools built",
    "there is no prompts folder",
    "built-in prompts stand for",
    "the demo model, rules without AI",
    "the store's disk is full",
    "the store is back and has what waited",
    "shutting down",
    " ended",
];

pub(crate) fn is_done(answer: &HttpAnswer) -> bool {
    chunks(answer)
        .iter()
        .any(|chunk| chunk["type"] == "tool-output-available")
}
