//! Gemini by Interactions: whole conversations with the program over the simulator, what the service sees of a request, and
//! protocols that a provider does not speak.

use crate::chat::{chunks, words};
use crate::support::http::{HttpAnswer, post};
use crate::support::model_server::read_request;
use crate::support::program::{Running, command, folders, run};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

const SCRIPT: &str = "exchanges:
- when: {text: built}
  do:
  - search: {query: the Fram, pages: [{url: 'https://fram.example/ship', title: Fram}]}
  - say: Let me look.
  - call: {name: kb_search, args: {query: Fram}}
  - expect_response
  - think: It was Archer.
  - say: 'He did: {result.output.status}.'
- when: any
  do:
  - say: You are welcome.
";

const MODEL: &str = "gemini-3.5-flash";

fn configure(folder: &Path, url: &str, text: &str, transport: &str) {
    let configuration = format!(
        "[text]\nprovider = \"gemini\"\nurl = \"{url}\"\napi_key = \"k\"\nmodel = \"{MODEL}\"\n{text}\n\
         [models.\"{MODEL}\"]\ntransport = \"{transport}\"\n"
    );
    fs::write(folder.join("windlass.toml"), configuration).unwrap();
}

fn serve(folder: &Path) -> Running {
    let mut command = command(folder);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--provider", "demo"])
        .args(folders(&folder.join("data")));
    Running::start(&mut command)
}

fn ask(address: &str, message: &str) -> HttpAnswer {
    let body = json!({"id": "c", "message": message}).to_string();
    post(address, "/api/chat", body.as_bytes())
}

#[test]
fn a_conversation_goes_back_as_the_service_wants_it_turn_after_turn() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("script.yaml"), SCRIPT).unwrap();
    let arguments = ["sim", "gemini", "--script", "script.yaml"];
    let mut simulator = Running::start(command(folder.path()).args(arguments));
    let url = format!("http://{}", simulator.address());
    let tools = "provider_tools = [\"google_search\"]\nthinking_level = \"low\"";
    configure(folder.path(), &url, tools, "interactions");
    let mut server = serve(folder.path());
    let address = server.address();
    for _ in 0..2 {
        // The simulator refuses a history without the thoughts and the results of searches that it gave.
        let answer = ask(&address, "Who built it?");
        assert_eq!(
            words(&answer),
            "Let me look.He did: success.",
            "{}",
            answer.body
        );
        let cited: Vec<Value> = chunks(&answer)
            .into_iter()
            .filter(|chunk| chunk["type"] == "source-url")
            .map(|chunk| chunk["url"].clone())
            .collect();
        assert!(
            cited.contains(&json!("https://fram.example/ship")),
            "{}",
            answer.body
        );
        assert!(!answer.body.contains("It was Archer."), "{}", answer.body);
    }
    // What is left of a conversation after a restart has no thoughts, and is taken all the same.
    server.signal("-TERM");
    server.end();
    let mut server = serve(folder.path());
    let address = server.address();
    assert_eq!(words(&ask(&address, "Thanks.")), "You are welcome.");
    assert_eq!(
        words(&ask(&address, "Who built it?")),
        "Let me look.He did: success."
    );
}

#[test]
fn the_service_is_asked_for_the_revision_that_is_read_and_may_refuse_words() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let service = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (head, body) = read_request(&mut reader).unwrap();
        let refusal = json!({"error": {"message": "no", "code": "content_blocked"}}).to_string();
        let length = refusal.len();
        let answer =
            format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {length}\r\n\r\n{refusal}");
        stream.write_all(answer.as_bytes()).unwrap();
        (
            head.to_lowercase(),
            serde_json::from_slice::<Value>(&body).unwrap(),
        )
    });
    configure(folder.path(), &url, "", "interactions");
    let mut server = serve(folder.path());
    let address = server.address();
    let answer = ask(&address, "Say it.");
    let finish: Vec<Value> = chunks(&answer)
        .into_iter()
        .filter(|chunk| chunk["type"] == "finish")
        .map(|chunk| chunk["finishReason"].clone())
        .collect();
    assert_eq!(finish, ["content-filter"], "{}", answer.body);
    let (head, body) = service.join().unwrap();
    assert!(head.starts_with("post /v1beta/interactions http"), "{head}");
    for header in ["api-revision: 2026-05-20\r\n", "x-goog-api-key: k\r\n"] {
        assert!(head.contains(header), "{head}");
    }
    assert_eq!(
        (&body["model"], &body["store"]),
        (&json!(MODEL), &json!(false))
    );
}

#[test]
fn a_protocol_that_the_provider_does_not_speak_is_named_at_the_start() {
    let vertex = "[provider.vertex]\nlocation = \"global\"\nproject = \"p\"\naccess_token = \"t\"";
    for (text, transport, expected) in [
        (
            "",
            "responses",
            "models.\"gemini-3.5-flash\".transport is responses, which the text provider gemini does not speak: it speaks \
             generate_content and interactions",
        ),
        (
            vertex,
            "interactions",
            "models.\"gemini-3.5-flash\".transport is interactions, which Windlass does not speak to Vertex AI: leave it \
             out, or leave provider.vertex out and set a key of the Gemini API",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        configure(folder.path(), "http://127.0.0.1:1", text, transport);
        let mut command = command(folder.path());
        let ended = run(command
            .args(["serve", "--listen", "127.0.0.1:0", "--provider", "demo"])
            .args(folders(&folder.path().join("data"))));
        assert_eq!(ended.code, 1, "{:?}", ended.problems);
        assert!(
            ended.problems.iter().any(|line| line.contains(expected)),
            "{:?}",
            ended.problems
        );
    }
}
