//! Services that make the knowledge base's vectors: what they are asked, and what is said where they cannot be.

use crate::knowledge::{json_of, place};
use crate::support::model_server::Gate;
use crate::support::program::{command, run};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A service that speaks OpenAI's embeddings protocol: it is busy once, then gives each text a vector of the words in it.
pub(crate) struct EmbeddingService {
    pub(crate) address: String,
    /// The heads of all requests.
    heads: Arc<Mutex<Vec<String>>>,
    held: Arc<Mutex<Option<Arc<Held>>>>,
}

/// Requests with a text that wait until they may be answered.
pub(crate) struct Held {
    text: &'static str,
    /// One has come.
    pub(crate) came: Gate,
    pub(crate) may_go: Gate,
}

impl Held {
    pub(crate) fn new(text: &'static str) -> Arc<Self> {
        Arc::new(Self {
            text,
            came: Gate::default(),
            may_go: Gate::default(),
        })
    }
}

impl EmbeddingService {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let heads = Arc::new(Mutex::new(Vec::new()));
        let held: Arc<Mutex<Option<Arc<Held>>>> = Arc::default();
        let (told, holds) = (heads.clone(), held.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (heads, held) = (told.clone(), holds.clone());
                std::thread::spawn(
                    move || while answer(stream.as_ref().unwrap(), &heads, &held) {},
                );
            }
        });
        Self {
            address,
            heads,
            held,
        }
    }

    /// Such requests wait from now on.
    pub(crate) fn hold(&self, held: &Arc<Held>) {
        *self.held.lock().unwrap() = Some(held.clone());
    }
}

/// Answers one request; `false` where the client has gone.
fn answer(
    mut stream: &TcpStream,
    heads: &Mutex<Vec<String>>,
    held: &Mutex<Option<Arc<Held>>>,
) -> bool {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return false;
        }
    }
    let length = head
        .lines()
        .find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length: ")?
                .parse()
                .ok()
        })
        .unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let is_first = {
        let mut heads = heads.lock().unwrap();
        heads.push(head);
        heads.len() == 1
    };
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let held = held.lock().unwrap().clone();
    if let Some(held) = held.filter(|held| asked["input"].to_string().contains(held.text)) {
        held.came.open();
        held.may_go.pass();
    }
    let dimension = asked["dimensions"].as_u64().unwrap();
    let data: Vec<Value> = asked["input"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let mut vector = vec![0.0; usize::try_from(dimension).unwrap()];
            for word in text
                .as_str()
                .unwrap()
                .split(|sign: char| !sign.is_alphanumeric())
            {
                let place = word
                    .to_lowercase()
                    .bytes()
                    .fold(7_usize, |sum, byte| sum * 31 % 65_521 + usize::from(byte));
                let size = vector.len();
                vector[place % size] = 1.0;
            }
            json!({"index": index, "embedding": vector})
        })
        .collect();
    let (status, body) = match is_first {
        true => ("429 Too Many Requests", "slow down".to_owned()),
        false => ("200 OK", json!({"data": data}).to_string()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).is_ok()
}

#[test]
fn a_service_makes_the_vectors_and_is_asked_for_each_text_once() {
    let folder = place(None);
    let service = EmbeddingService::start();
    let kb = |arguments: &[&str]| {
        run(command(folder.path())
            .arg("kb")
            .args(arguments)
            .args(["--data", "data", "--embedder", "openai"])
            .env("WINDLASS_KNOWLEDGE_EMBEDDER_KEY", "sk-secret")
            .env("WINDLASS_KNOWLEDGE_EMBEDDER_URL", &service.address))
    };
    let stats = json_of(&kb(&["stats", "--format", "json"]));
    assert_eq!(
        (&stats["retrieval"], &stats["model"]),
        (&json!("lexical"), &Value::Null)
    );
    let first = json_of(&kb(&["index", "--format", "json"]));
    assert_eq!(
        (&first["passages"], &first["embedded"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(first["model"], "text-embedding-3-small");
    let again = json_of(&kb(&["index", "--format", "json"]));
    assert_eq!(
        (&again["passages"], &again["embedded"]),
        (&json!(1), &json!(0))
    );
    let found = json_of(&kb(&["search", "greenheart", "--format", "json"]));
    assert_eq!(
        (&found["retrieval"], &found["model"]),
        (&json!("hybrid"), &json!("text-embedding-3-small"))
    );
    let heads = service.heads.lock().unwrap();
    // A refusal, the passage, the question.
    assert_eq!(heads.len(), 3, "{heads:?}");
    for head in heads.iter() {
        assert!(
            head.starts_with("POST /v1/embeddings HTTP/1.1\r\n"),
            "{head}"
        );
        assert!(
            head.contains("authorization: Bearer sk-secret\r\n"),
            "{head}"
        );
    }
}

#[test]
fn a_service_without_key_or_that_is_not_there_is_said() {
    let folder = place(None);
    let run_with = |url: Option<&str>| {
        let mut command = command(folder.path());
        command.args(["kb", "index", "--data", "data", "--embedder", "gemini"]);
        if let Some(url) = url {
            command.env("WINDLASS_KNOWLEDGE_EMBEDDER_URL", url);
        }
        run(&mut command)
    };
    let run = run_with(None);
    assert_eq!(run.code, 1);
    assert!(
        run.problems[0].contains("needs a key: set GEMINI_API_KEY"),
        "{:?}",
        run.problems
    );
    let address = "postgres://ada@127.0.0.1:1/base";
    let moved = crate::support::program::run(
        command(folder.path())
            .args(["kb", "move", "--data", "data", "--embedder", "gemini"])
            .args(["--to", address]),
    );
    assert_eq!(moved.code, 1);
    assert!(
        moved.problems[0].contains("needs a key: set GEMINI_API_KEY"),
        "{:?}",
        moved.problems
    );
    let search = |format: &str| {
        let mut command = command(folder.path());
        command.args(["kb", "search", "oak", "--data", "data", "--embedder"]);
        command
            .args(["gemini", "--format", format])
            .output()
            .unwrap()
    };
    let found = search("json");
    let answer: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert!(found.status.success());
    assert_eq!(answer["degraded"], "dense_unavailable");
    assert_eq!(answer["results"][0]["id"], "doc:hull");
    assert!(
        answer["results"][0].get("last_updated").is_some(),
        "{answer}"
    );
    let said = String::from_utf8_lossy(&found.stderr);
    assert!(said.contains("needs a key: set GEMINI_API_KEY"), "{said}");
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let run = run_with(Some(&format!("http://{nobody}/v1beta")));
    assert_eq!(run.code, 1);
    assert!(
        run.problems[0].contains("the embedding service does not answer: 127.0.0.1"),
        "{:?}",
        run.problems
    );
}
