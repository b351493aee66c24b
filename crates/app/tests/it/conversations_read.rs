//! A client's conversations over real sockets: their list, a search, pages, renaming, deleting, an export, and running answers that
//! are taken up again.

use crate::chat::{Chat, chat, chat_with, chunks, question, user, words};
use crate::support::change::{Changes, write_tool};
use crate::support::http::{HttpAnswer, post_with, request};
use crate::support::model_server::{Gate, Says};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// A browser at a server.
struct Browser<'a> {
    chat: &'a Chat,
    cookie: String,
}

impl<'a> Browser<'a> {
    fn new(chat: &'a Chat) -> Self {
        Self {
            cookie: crate::voice::cookie(&chat.address),
            chat,
        }
    }

    fn headers(&self) -> [(&'static str, &str); 1] {
        [("Cookie", self.cookie.as_str())]
    }

    fn say(&self, conversation: &str, id: &str, text: &str) -> HttpAnswer {
        self.post(&json!({"id": conversation, "messages": [user(id, text)]}))
    }

    fn post(&self, body: &Value) -> HttpAnswer {
        let body = body.to_string();
        let (address, headers) = (&self.chat.address, self.headers());
        post_with(address, "/api/chat", &headers, body.as_bytes())
    }

    fn send(&self, method: &str, path: &str) -> HttpAnswer {
        request(&self.chat.address, method, path, &self.headers())
    }

    fn get(&self, path: &str) -> Value {
        let answer = self.send("GET", path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    fn rename(&self, path: &str, body: &str) -> HttpAnswer {
        let length = body.len().to_string();
        let mut stream = TcpStream::connect(&self.chat.address).unwrap();
        write!(
            stream,
            "PATCH {path} HTTP/1.1\r\nConnection: close\r\nHost: {}\r\nCookie: {}\r\nContent-Length: {length}\r\n\r\n{body}",
            self.chat.address, self.cookie
        )
        .unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        HttpAnswer::parse(&bytes)
    }

    /// Posts, and reads until the answer holds a text. Dropping the socket is leaving.
    fn leave_after(&self, body: &Value, text: &str) {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.chat.address).unwrap();
        write!(
            stream,
            "POST /api/chat HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nContent-Length: {}\r\n\r\n{body}",
            self.chat.address,
            self.cookie,
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
    }
}

fn ids(list: &Value) -> Vec<&str> {
    let conversations = list["conversations"].as_array().unwrap().iter();
    conversations
        .map(|one| one["id"].as_str().unwrap())
        .collect()
}

fn yes(_: &Value) -> Says {
    Says::Words("Yes, gladly.")
}

fn code(answer: &HttpAnswer) -> (u16, String) {
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let code = body["error"]["code"].as_str().unwrap_or_default();
    (answer.status, code.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_lists_searches_and_renames_its_own_conversations() {
    let chat = chat(yes, &[]).await;
    let (ada, eve) = (Browser::new(&chat), Browser::new(&chat));
    assert_eq!(
        ada.get("/api/conversations"),
        json!({"conversations": [], "next": null})
    );
    for (id, text) in [
        ("a", "Order tea."),
        ("b", "Sail the Fram."),
        ("c", "Order wine."),
    ] {
        assert_eq!(words(&ada.say(id, "m", text)), "Yes, gladly.");
    }
    eve.say("e", "m", "Order tea, too.");
    let list = ada.get("/api/conversations");
    assert_eq!(ids(&list), ["c", "b", "a"]);
    assert_eq!(list["next"], Value::Null);
    let newest = &list["conversations"][0];
    assert_eq!(newest["title"], "Order wine.");
    assert_eq!(newest["messages"], 2);
    assert!(newest["createdAt"].as_str().unwrap() <= newest["updatedAt"].as_str().unwrap());
    assert_eq!(ids(&eve.get("/api/conversations")), ["e"]);

    // Page after page.
    let first = ada.get("/api/conversations?limit=2");
    assert_eq!(ids(&first), ["c", "b"]);
    let cursor = first["next"].as_str().unwrap();
    let second = ada.get(&format!("/api/conversations?limit=2&cursor={cursor}"));
    assert_eq!((ids(&second), &second["next"]), (vec!["a"], &Value::Null));

    for (q, found) in [
        ("order", vec!["c", "a"]),
        ("ORDER%20tea", vec!["a"]),
        ("gladly", vec!["c", "b", "a"]),
        ("order+fram", vec![]),
        ("nothing", vec![]),
    ] {
        let list = ada.get(&format!("/api/conversations?q={q}"));
        assert_eq!(ids(&list), found, "{q}");
    }

    let renamed = ada.rename("/api/conversations/b", r#"{"title": " My ship "}"#);
    let body: Value = serde_json::from_str(&renamed.body).unwrap();
    assert_eq!((renamed.status, &body["title"]), (200, &json!("My ship")));
    let list = ada.get("/api/conversations?q=my%20ship");
    assert_eq!(list["conversations"][0]["title"], "My ship");
    assert_eq!(ada.get("/api/conversations/b")["title"], "My ship");

    for (path, what) in [
        ("/api/conversations?limit=0", "limit"),
        ("/api/conversations?limit=101", "limit"),
        ("/api/conversations?limit=x", "limit"),
        ("/api/conversations?cursor=x", "cursor"),
        ("/api/conversations/a?limit=201", "limit"),
        ("/api/conversations/a?cursor=x", "cursor"),
    ] {
        let answer = ada.send("GET", path);
        assert_eq!(code(&answer), (400, "bad_message".to_owned()), "{path}");
        assert!(answer.body.contains(what), "{}", answer.body);
    }
    let long = format!("/api/conversations?q={}", "x".repeat(201));
    assert_eq!(ada.send("GET", &long).status, 400);
    for body in [
        "",
        "[]",
        "{}",
        r#"{"title": ""}"#,
        r#"{"title": "a", "x": 1}"#,
    ] {
        let refused = ada.rename("/api/conversations/b", body);
        assert_eq!(code(&refused), (400, "bad_message".to_owned()), "{body}");
    }
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_anothers_is_as_if_it_were_not_there() {
    let chat = chat(yes, &[]).await;
    let (ada, eve) = (Browser::new(&chat), Browser::new(&chat));
    ada.say("a", "m", "Hello.");
    let nobody = Browser {
        chat: &chat,
        cookie: String::new(),
    };
    for stranger in [&eve, &nobody] {
        for (method, end) in [("GET", ""), ("DELETE", ""), ("GET", "/export")] {
            let [theirs, none] = ["a", "z"].map(|id| {
                let answer = stranger.send(method, &format!("/api/conversations/{id}{end}"));
                (code(&answer), answer.body)
            });
            assert_eq!(theirs, none, "{method} {end}");
            assert_eq!(theirs.0, (404, "unknown_conversation".to_owned()));
        }
        let title = r#"{"title": "Mine"}"#;
        assert_eq!(stranger.rename("/api/conversations/a", title).status, 404);
        assert_eq!(stranger.send("GET", "/api/chat/a/stream").status, 204);
    }
    assert_eq!(ada.get("/api/conversations/a")["title"], "Hello.");
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_conversation_is_read_back_page_by_page() {
    let chat = chat(yes, &[]).await;
    let ada = Browser::new(&chat);
    for number in 0..30 {
        ada.say("c", &format!("m-{number}"), &format!("Message {number}."));
    }
    let mut ids = Vec::new();
    let mut cursor = String::new();
    let mut pages = 0;
    loop {
        let page = ada.get(&format!("/api/conversations/c?limit=7{cursor}"));
        let messages = page["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 6, "{page}");
        let page_ids: Vec<String> = messages
            .iter()
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect();
        ids.splice(0..0, page_ids);
        pages += 1;
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(pages, 10);
    let users: Vec<&String> = ids.iter().filter(|id| id.starts_with("m-")).collect();
    let expected: Vec<String> = (0..30).map(|number| format!("m-{number}")).collect();
    assert_eq!(users, expected.iter().collect::<Vec<_>>());
    assert_eq!(ids.len(), 60);

    let export = ada.send("GET", "/api/conversations/c/export");
    assert_eq!(
        export.header("content-disposition"),
        Some("attachment; filename=\"conversation-c.json\"")
    );
    let exported: Value = serde_json::from_str(&export.body).unwrap();
    assert_eq!(exported["complete"], true);
    let whole = ada.get("/api/conversations/c?limit=200");
    assert_eq!(exported["messages"], whole["messages"]);
    assert_eq!(whole["next"], Value::Null);
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_conversation_is_gone_and_its_changes_are_known() {
    let rule = |last: &Value| match last["content"].to_string() {
        said if last["role"] == "user" && said.contains("Change it.") => {
            Says::Calls("change", json!({ "what": "one" }))
        }
        _ => Says::Words("So it is."),
    };
    let tools = tempfile::tempdir().unwrap();
    write_tool(tools.path(), json!({"requiresConfirmation": true}));
    let changes = Changes::new();
    let keys = [("folders.tools", tools.path().to_str().unwrap())];
    let chat = chat_with(rule, &keys, changes.handlers()).await;
    let ada = Browser::new(&chat);
    let confirm = |token: &Value| {
        let body = json!({"conversationId": "c", "token": token, "approved": true});
        let (body, headers) = (body.to_string(), ada.headers());
        post_with(&chat.address, "/api/confirm", &headers, body.as_bytes())
    };
    let asked = question(&ada.say("c", "a", "Change it."));
    assert_eq!(confirm(&asked["token"]).status, 200);
    assert_eq!(changes.made(), ["one"]);
    let open = question(&ada.say("c", "b", "Change it."));

    assert_eq!(ada.send("DELETE", "/api/conversations/c").status, 204);
    for path in ["/api/conversations/c", "/api/conversations/c/export"] {
        assert_eq!(ada.send("GET", path).status, 404);
    }
    assert_eq!(ada.send("DELETE", "/api/conversations/c").status, 404);
    assert_eq!(ids(&ada.get("/api/conversations")), Vec::<&str>::new());
    // The request that was open is withdrawn.
    assert_eq!(confirm(&open["token"]).status, 410);
    assert_eq!(changes.made(), ["one"]);
    // The conversation stays its client's.
    let eve = Browser::new(&chat);
    assert_eq!(eve.say("c", "x", "Hello.").status, 403);

    // The same message, sent again, is a new one to the model; its change is asked about, and what was done is named.
    let again = question(&ada.say("c", "a", "Change it."));
    assert!(again["warning"].is_string(), "{again}");
    assert_eq!(changes.made(), ["one"]);
    let shown = ada.get("/api/conversations/c");
    assert_eq!(shown["messages"].as_array().unwrap().len(), 2, "{shown}");
    let seen = chat.model.seen().pop().unwrap()["messages"].to_string();
    assert_eq!(seen.matches("Change it.").count(), 1, "{seen}");
    chat.close().await;
}

/// A model whose first words come at once and whose end waits for a gate.
fn waits(gate: &Arc<Gate>) -> impl Fn(&Value) -> Says + Send + Sync + 'static {
    let gate = gate.clone();
    move |last: &Value| match last["content"].to_string().contains("Wait.") {
        true => Says::Waits(gate.clone(), "At last."),
        false => Says::Words("Yes."),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumable_answer_is_taken_up_from_its_beginning_by_its_client_alone() {
    let gate = Arc::new(Gate::default());
    let chat = chat(waits(&gate), &[]).await;
    let (ada, eve) = (Browser::new(&chat), Browser::new(&chat));
    assert_eq!(ada.send("GET", "/api/chat/c/stream").status, 204);
    ada.say("c", "a", "Hello.");
    assert_eq!(ada.send("GET", "/api/chat/c/stream").status, 204);
    let body = json!({"id": "c", "resumable": true, "messages": [user("b", "Wait.")]});
    ada.leave_after(&body, "start-step");
    let shown = ada.get("/api/conversations/c");
    assert_eq!(shown["running"], true);
    let roles: Vec<&Value> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["role"])
        .collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert_eq!(eve.send("GET", "/api/chat/c/stream").status, 204);
    assert_eq!(
        code(&ada.send("DELETE", "/api/conversations/c")),
        (409, "busy".to_owned())
    );

    let mut stream = TcpStream::connect(&chat.address).unwrap();
    write!(
        stream,
        "GET /api/chat/c/stream HTTP/1.1\r\nConnection: close\r\nHost: {}\r\nCookie: {}\r\n\r\n",
        chat.address, ada.cookie
    )
    .unwrap();
    let mut first = [0; 1];
    stream.read_exact(&mut first).unwrap();
    gate.open();
    let mut bytes = first.to_vec();
    stream.read_to_end(&mut bytes).unwrap();
    let answer = HttpAnswer::parse(&bytes);
    assert_eq!(answer.header("x-vercel-ai-ui-message-stream"), Some("v1"));
    assert_eq!(chunks(&answer)[0]["type"], "start");
    assert_eq!(words(&answer), "At last.");
    let shown = ada.get("/api/conversations/c");
    assert_eq!(
        (
            &shown["running"],
            shown["messages"].as_array().unwrap().len()
        ),
        (&json!(false), 4)
    );
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumable_answer_ends_when_it_is_stopped_or_nobody_comes_back() {
    for stops in [true, false] {
        let hangs = |last: &Value| match last["content"].to_string().contains("Wait.") {
            true => Says::Hangs("One moment"),
            false => Says::Words("Yes."),
        };
        let keys = [("text.resume_seconds", if stops { "3600" } else { "1" })];
        let chat = chat(hangs, &keys).await;
        let ada = Browser::new(&chat);
        let body = json!({"id": "c", "resumable": true, "messages": [user("b", "Wait.")]});
        ada.leave_after(&body, "One moment");
        if stops {
            assert_eq!(ada.send("GET", "/api/conversations/c").status, 200);
            assert_eq!(ada.send("DELETE", "/api/chat/c/stream").status, 204);
        }
        // It is over as soon as its turn has ended; a further message is answered then.
        while ada.get("/api/conversations/c")["running"] == true {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(ada.send("GET", "/api/chat/c/stream").status, 204);
        assert_eq!(words(&ada.say("c", "d", "Hello.")), "Yes.");
        chat.close().await;
    }
}
