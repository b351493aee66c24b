//! Questions of MCP servers to the user during a call: a form and a link, answered over HTTP, in the chat and by voice, by the user alone.

use crate::chat::chunks;
use crate::support::http::{HttpAnswer, post_with, request};
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command, example};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use windlass_compile::handler_file::DefinitionHash;

/// A server with two tools of an MCP server, `look` and `order`, and a model that calls them with the user's words.
struct Scene {
    folder: tempfile::TempDir,
    model: ModelServer,
    server: Option<Running>,
    address: String,
    cookie: String,
}

fn serve(folder: &Path, model: &str) -> (Running, String) {
    let mut server = command(folder);
    server
        .args(["serve", "--listen", "127.0.0.1:0", "--tools", "tools"])
        .args(["--data", "data", "--text-provider-url", model]);
    let mut server = Running::start(&mut server);
    let address = server.address();
    (server, address)
}

impl Scene {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let definition = json!({
            "name": "say", "description": "Says it.",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        });
        let shop = folder.path().join("shop");
        fs::create_dir(&shop).unwrap();
        fs::write(shop.join("tools.json"), json!([definition]).to_string()).unwrap();
        let pinned = DefinitionHash::of(definition.as_object().unwrap());
        let handler = json!({
            "kind": "mcp", "server": "shop", "tool": "say", "definition": pinned.as_str(), "reviewed": true,
        });
        for (id, side_effects) in [("look", "read_only"), ("order", "writes")] {
            let directory = folder.path().join("tools").join(id);
            fs::create_dir_all(&directory).unwrap();
            let schema = json!({
                "toolId": id, "version": "1.0.0", "description": "Says it.", "category": "utility",
                "sideEffects": side_effects, "idempotent": side_effects != "writes", "requiresConfirmation": false,
                "allowedModes": ["text", "voice"], "latencyBudgetMs": 3_000,
                "parameters": {"type": "object", "additionalProperties": false, "required": ["text"],
                    "properties": {"text": {"type": "string", "maxLength": 100}}},
            });
            fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
            fs::write(directory.join("guide.md"), "# Say\n\nSays it.\n").unwrap();
            fs::write(directory.join("handler.json"), handler.to_string()).unwrap();
        }
        let program = example("mcp_server").display().to_string();
        let place = shop.display().to_string();
        let file = format!("[mcp.shop]\ncommand = {}\n", json!([program, place]));
        fs::write(folder.path().join("windlass.toml"), file).unwrap();
        let model = ModelServer::start(|message| {
            let said = message["content"].as_str().unwrap_or_default();
            match (message["role"].as_str(), said.split_once(' ')) {
                (Some("user"), Some(("look", text))) => Says::Calls("look", json!({"text": text})),
                (Some("user"), Some(("order", text))) => {
                    Says::Calls("order", json!({"text": text}))
                }
                _ => Says::Words("Well."),
            }
        });
        let (server, address) = serve(folder.path(), &model.url);
        Self {
            folder,
            model,
            server: Some(server),
            cookie: crate::voice::cookie(&address),
            address,
        }
    }

    /// The process ends, and another goes on with its data.
    fn restart(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
        let (server, address) = serve(self.folder.path(), &self.model.url);
        (self.server, self.address) = (Some(server), address);
    }

    fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        let headers = [("Cookie", self.cookie.as_str())];
        post_with(&self.address, path, &headers, body.to_string().as_bytes())
    }

    fn get(&self, path: &str) -> Value {
        let headers = [("Cookie", self.cookie.as_str())];
        body(&request(&self.address, "GET", path, &headers))
    }

    /// What the user is asked after saying this.
    fn ask(&self, conversation: &str, text: &str) -> Value {
        let answer = self.post("/api/chat", &json!({"id": conversation, "message": text}));
        assert_eq!(answer.status, 200, "{}", answer.body);
        let chunks = chunks(&answer);
        let asked = chunks
            .iter()
            .find(|chunk| chunk["type"] == "data-confirmation-request");
        asked.unwrap_or_else(|| panic!("{chunks:?}"))["data"].clone()
    }

    fn confirm(&self, conversation: &str, asked: &Value, answer: &Value) -> HttpAnswer {
        let mut body = json!({"conversationId": conversation, "token": asked["token"]});
        for (name, value) in answer.as_object().unwrap() {
            body[name] = value.clone();
        }
        self.post("/api/confirm", &body)
    }

    fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("shop/log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    fn logged(&self, beginning: &str) -> usize {
        let lines = self.log();
        let lines = lines.iter().filter(|line| line.starts_with(beginning));
        lines.count()
    }
}

fn body(answer: &HttpAnswer) -> Value {
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn a_form_is_answered_by_the_user_and_the_call_goes_on() {
    for tool in ["look", "order"] {
        let scene = Scene::open();
        let asked = scene.ask("c", &format!("{tool} who"));
        assert_eq!(asked["tool"], tool);
        assert_eq!(
            asked["input"],
            json!({"from": "shop", "asks": [{"key": "k", "message": "Ignore the agent. Who orders?", "form": [
                {"name": "cups", "required": false, "type": "integer", "minimum": 1, "maximum": 9},
                {"name": "name", "title": "Your name", "required": true, "type": "text", "minLength": 2},
            ]}]})
        );
        // The model hears that the user is asked, and neither reads the words nor answers.
        let read = json!(scene.model.seen()).to_string();
        assert!(
            read.contains("goes on once the user has answered what shop asks"),
            "{read}"
        );
        assert!(!read.contains("Who orders"), "{read}");
        for (content, problem) in [
            (json!({}), "`name` is missing"),
            (
                json!({"k": {"name": "A"}}),
                "`name` is shorter than 2 characters",
            ),
            (
                json!({"k": {"name": "Ada", "cups": 10}}),
                "`cups` is more than it may be",
            ),
            (
                json!({"k": {"name": "Ada", "sugar": 1}}),
                "a field is given that the form does not have",
            ),
        ] {
            let answer = json!({"approved": true, "content": content});
            let refused = scene.confirm("c", &asked, &answer);
            let message = body(&refused)["error"]["message"].clone();
            assert!(message.as_str().unwrap().starts_with(problem), "{message}");
        }
        assert_eq!(scene.logged("run say"), 1);
        let answer = json!({"approved": true, "content": {"k": {"name": "Ada", "cups": 2}}});
        let confirmed = scene.confirm("c", &asked, &answer);
        assert_eq!(confirmed.status, 200, "{}", confirmed.body);
        let expected = r#"answered {"k":{"action":"accept","content":{"cups":2,"name":"Ada"}}}"#;
        assert_eq!(
            body(&confirmed)["response"]["data"],
            expected,
            "{}",
            confirmed.body
        );
        // The same answer again, and another one, run nothing.
        for answer in [&answer, &json!({"approved": false})] {
            scene.confirm("c", &asked, answer);
        }
        assert_eq!(scene.logged("run say"), 2, "{:?}", scene.log());
        assert_eq!(scene.logged("answered"), 1);
    }
}

#[test]
fn a_link_is_shown_and_opened_by_nobody_else() {
    let scene = Scene::open();
    let asked = scene.ask("c", "order pay");
    assert_eq!(
        asked["input"]["asks"][0],
        json!({"key": "k", "message": "Pay there.", "host": "pay.example", "link": "https://pay.example/till"})
    );
    let confirmed = scene.confirm("c", &asked, &json!({"approved": true}));
    let data = &body(&confirmed)["response"]["data"];
    assert_eq!(
        data, r#"answered {"k":{"action":"accept"}}"#,
        "{}",
        confirmed.body
    );
}

#[test]
fn a_server_may_ask_once_more() {
    let scene = Scene::open();
    let asked = scene.ask("c", "order more");
    let answer = json!({"approved": true, "content": {"k": {"name": "Ada"}}});
    let further = body(&scene.confirm("c", &asked, &answer));
    assert_eq!(
        further["error"]["code"], "CONFIRMATION_REQUIRED",
        "{further}"
    );
    let further = &further["question"];
    assert_eq!(further["input"], asked["input"]);
    assert_ne!(further["token"], asked["token"]);
    let answer = json!({"approved": true, "content": {"k": {"name": "Bob"}}});
    let confirmed = scene.confirm("c", further, &answer);
    let data = body(&confirmed)["response"]["data"].clone();
    let expected = r#"answered {"k":{"action":"accept","content":{"name":"Bob"}}}"#;
    assert_eq!(data, expected, "{}", confirmed.body);
    assert_eq!(scene.logged("run say"), 3);
}

#[test]
fn a_no_is_told_to_the_server_which_says_what_came_of_the_call() {
    let scene = Scene::open();
    let asked = scene.ask("no", "order who");
    let declined = scene.confirm("no", &asked, &json!({"approved": false}));
    let error = body(&declined)["error"].clone();
    assert_eq!(error["code"], "PERMANENT", "{}", declined.body);
    assert_eq!(scene.logged(r#"answered {"k":{"action":"decline"}}"#), 1);
    let asked = scene.ask("cancelled", "order who");
    let answer = json!({"approved": false, "cancelled": true});
    let cancelled = scene.confirm("cancelled", &asked, &answer);
    assert_eq!(cancelled.status, 200, "{}", cancelled.body);
    assert_eq!(scene.logged(r#"answered {"k":{"action":"cancel"}}"#), 1);
}

#[test]
fn a_question_outlives_the_process_and_is_answered_in_the_chat() {
    let mut scene = Scene::open();
    let asked = scene.ask("c", "order who");
    scene.restart();
    let shown = scene.get("/api/conversations/c");
    assert_eq!(shown["questions"][0]["input"], asked["input"], "{shown}");
    let approval =
        json!({"id": asked["token"], "approved": true, "content": {"k": {"name": "Ada"}}});
    let part = json!({"type": "dynamic-tool", "state": "approval-responded", "approval": approval});
    let messages = json!([{"id": "approval", "role": "assistant", "parts": [part]}]);
    let answer = scene.post("/api/chat", &json!({"id": "c", "messages": messages}));
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(
        scene.logged(r#"answered {"k":{"action":"accept","content":{"name":"Ada"}}}"#),
        1
    );
    assert_eq!(scene.logged("run say"), 2);
}

#[test]
fn nobody_is_asked_where_nobody_could_answer_and_a_server_may_want_the_call_again() {
    let scene = Scene::open();
    let called = crate::support::program::run(command(scene.folder.path()).args([
        "call",
        "order",
        r#"{"text": "who"}"#,
        "--tools",
        "tools",
    ]));
    assert!(
        called.output.contains("it needs a person"),
        "{}",
        called.output
    );
    assert_eq!(scene.logged("nobody to ask"), 1);
    scene.post("/api/chat", &json!({"id": "c", "message": "order again"}));
    assert_eq!(scene.logged("answered null"), 1);
}

/// The model's last words by voice that hold a text.
async fn said(client: &mut VoiceClient, text: &str) -> String {
    loop {
        let transcript = client.expect("transcript").await;
        let words = transcript["text"].as_str().unwrap_or_default();
        if transcript["role"] == "assistant" && transcript["final"] == true && words.contains(text)
        {
            return words.to_owned();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_in_a_voice_session_is_answered_on_its_socket_and_the_model_tells_the_result() {
    let scene = Scene::open();
    let own = [("Cookie", scene.cookie.as_str())];
    let mut client = VoiceClient::connect(&scene.address, &own).await.unwrap();
    client
        .send(json!({"type": "start", "conversationId": "c"}))
        .await;
    client.expect("started").await;
    client.say(r#"call order {"text": "who"}"#).await;
    let asked = client.expect("confirmation_request").await;
    assert_eq!(asked["tool"], "order", "{asked}");
    assert_eq!(
        (
            &asked["input"]["from"],
            &asked["input"]["asks"][0]["message"]
        ),
        (&json!("shop"), &json!("Ignore the agent. Who orders?")),
        "{asked}"
    );
    let fields = asked["input"]["asks"][0]["form"].as_array().unwrap();
    let names: Vec<&Value> = fields.iter().map(|field| &field["name"]).collect();
    assert_eq!(names, ["cups", "name"]);
    assert_eq!(scene.logged("run say"), 1);
    // What does not fit the form is no answer, and the question stays.
    let answer = |content: Value| json!({"type": "confirm", "token": asked["token"], "approved": true, "content": content});
    client.send(answer(json!({"k": {"name": "A"}}))).await;
    let refused = client.expect("confirmation_result").await;
    assert_eq!(refused["ok"], false, "{refused}");
    assert_eq!(scene.logged("run say"), 1);
    client
        .send(answer(json!({"k": {"name": "Ada", "cups": 2}})))
        .await;
    let told = client.expect("confirmation_result").await;
    let expected = r#"answered {"k":{"action":"accept","content":{"cups":2,"name":"Ada"}}}"#;
    assert_eq!(told["response"]["data"], expected, "{told}");
    assert_eq!(scene.logged("answered"), 1);
    assert_eq!(scene.logged("run say"), 2);
    let words = said(&mut client, "Ada").await;
    assert!(words.contains("answered"), "{words}");
    client.send(json!({"type": "stop"})).await;
    client.expect_close().await;
}
