//! Approvals that stand for further calls, in the chat and over real sockets: who gives one, what it covers, who ends it, and what is
//! written down.

use crate::chat::{Chat, chat_in, chunks, user, words};
use crate::support::http::{HttpAnswer, post_with, request};
use crate::support::model_server::Says;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use windlass_app::server::Handlers;
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

/// How often the tool `archive` has run.
struct Filing(Arc<AtomicUsize>);

impl Handler for Filing {
    fn execute(&self, _: Invocation) -> Execution {
        let filed = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        Execution::Ready(Ok(Success::new(json!({ "filed": filed }))))
    }
}

struct Scene {
    chat: Chat,
    filed: Arc<AtomicUsize>,
    _tools: tempfile::TempDir,
    mine: String,
    messages: usize,
}

async fn scene(keys: &[(&'static str, &str)]) -> Scene {
    let tools = tempfile::tempdir().unwrap();
    let folder = tools.path().join("archive");
    std::fs::create_dir(&folder).unwrap();
    let schema = json!({
        "version": "1.0.0", "description": "Files a document.", "sideEffects": "writes",
        "remember": {"scope": "session", "arguments": ["/folder"], "minutes": 10},
        "parameters": {
            "type": "object", "additionalProperties": false, "required": ["folder", "name"],
            "properties": {
                "folder": {"type": "string", "maxLength": 40},
                "name": {"type": "string", "maxLength": 40}
            }
        }
    });
    std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    std::fs::write(folder.join("guide.md"), "# Archive\n\nFiles a document.\n").unwrap();
    // The user says what is filed, and where: "File NAME in FOLDER."
    let rule = |last: &Value| {
        let said = last["content"].as_str().unwrap_or_default();
        let wish = said.rsplit_once("File ").and_then(|(_, wish)| {
            let (name, folder) = wish.split_once(" in ")?;
            Some(json!({"name": name, "folder": folder.split('.').next()?}))
        });
        match wish {
            Some(arguments) if last["role"] == "user" => Says::Calls("archive", arguments),
            _ => Says::Words("Very well."),
        }
    };
    let filed = Arc::new(AtomicUsize::new(0));
    let handler: Arc<dyn Handler> = Arc::new(Filing(filed.clone()));
    let handlers: Handlers = BTreeMap::from([(ToolId::parse("archive").unwrap(), handler)]);
    let mut all = vec![("folders.tools", tools.path().to_str().unwrap())];
    all.extend_from_slice(keys);
    let chat = chat_in(tempfile::tempdir().unwrap(), rule, &all, handlers).await;
    let mine = cookie(&chat.address);
    Scene {
        chat,
        filed,
        _tools: tools,
        mine,
        messages: 0,
    }
}

/// The id that the server gives to a browser that has none.
fn cookie(address: &str) -> String {
    let origin = format!("http://{address}");
    let hello = json!({"message": "Hello."}).to_string();
    let met = post_with(
        address,
        "/api/chat",
        &[("Origin", &origin)],
        hello.as_bytes(),
    );
    let cookie = met.header("set-cookie").unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

impl Scene {
    fn post(&self, path: &str, cookie: &str, body: &Value) -> HttpAnswer {
        let headers = [("Cookie", cookie)];
        post_with(
            &self.chat.address,
            path,
            &headers,
            body.to_string().as_bytes(),
        )
    }

    fn say(&mut self, text: &str) -> Vec<Value> {
        self.messages += 1;
        let message = user(&format!("m-{}", self.messages), text);
        let answer = self.post(
            "/api/chat",
            &self.mine.clone(),
            &json!({"id": "c", "messages": [message]}),
        );
        assert_eq!(answer.status, 200, "{}", answer.body);
        chunks(&answer)
    }

    /// What a message brings: the approval request that it leads to, if it does.
    fn asked(&mut self, text: &str) -> Option<Value> {
        let said = self.say(text);
        let found = said
            .iter()
            .find(|chunk| chunk["type"] == "data-confirmation-request");
        found.map(|chunk| chunk["data"].clone())
    }

    /// Answers as the AI SDK does, with one member more.
    fn approve(&self, request: &Value, remember: bool) -> HttpAnswer {
        let part = json!({
            "type": "dynamic-tool", "toolName": "archive", "toolCallId": request["toolCallId"],
            "state": "approval-responded", "input": {},
            "approval": {"id": request["token"], "approved": true, "remember": remember},
        });
        let message = json!({"id": "approval", "role": "assistant", "parts": [part]});
        self.post(
            "/api/chat",
            &self.mine,
            &json!({"id": "c", "messages": [message]}),
        )
    }

    fn revoke(&self, cookie: &str, body: &Value) -> (u16, Value) {
        let answer = self.post("/api/revoke", cookie, body);
        (answer.status, serde_json::from_str(&answer.body).unwrap())
    }

    fn standing(&self) -> Value {
        let headers = [("Cookie", self.mine.as_str())];
        let read = request(&self.chat.address, "GET", "/api/conversations/c", &headers);
        let read: Value = serde_json::from_str(&read.body).unwrap();
        read["standingApprovals"].clone()
    }

    fn filed(&self) -> usize {
        self.filed.load(Ordering::SeqCst)
    }
}

fn approval(id: &str) -> Value {
    json!({"conversationId": "c", "approvalId": id})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_that_is_remembered_covers_later_turns_until_its_user_revokes_it() {
    let mut scene = scene(&[]).await;
    let asked = scene.asked("File a in Reports.").unwrap();
    assert_eq!(
        asked["remember"],
        json!({"scope": "session", "arguments": {"/folder": "Reports"}, "minutes": 10})
    );
    let answer = scene.approve(&asked, true);
    assert_eq!(words(&answer), "Very well.", "{}", answer.body);
    let told = chunks(&answer);
    let told = told
        .iter()
        .find(|chunk| chunk["type"] == "data-standing-approvals");
    let told = &told.unwrap()["data"]["approvals"];
    assert_eq!(
        (&told[0]["approvalId"], &told[0]["arguments"]),
        (&json!("approval-1"), &json!({"/folder": "Reports"}))
    );
    assert_eq!(scene.asked("File b in Reports."), None);
    assert_eq!(scene.filed(), 2);
    // Another folder, another spelling, and what was done before are asked about.
    for text in [
        "File c in Taxes.",
        "File c in reports.",
        "File a in Reports.",
    ] {
        assert!(scene.asked(text).is_some(), "{text}");
    }
    assert_eq!(scene.filed(), 2);
    assert_eq!(scene.standing(), *told);

    // Only its user ends it.
    let theirs = cookie(&scene.chat.address);
    for (cookie, body) in [
        (&theirs, approval("approval-1")),
        (&scene.mine, approval("approval-2")),
        (
            &scene.mine,
            json!({"conversationId": "d", "approvalId": "approval-1"}),
        ),
    ] {
        let (status, said) = scene.revoke(cookie, &body);
        assert_eq!(
            (status, &said["error"]["code"]),
            (404, &json!("unknown_approval")),
            "{body}"
        );
    }
    for body in [
        approval("1"),
        approval("approval-01"),
        json!({"approvalId": "approval-1"}),
        json!([]),
    ] {
        let (status, said) = scene.revoke(&scene.mine, &body);
        assert_eq!(
            (status, &said["error"]["code"]),
            (400, &json!("bad_message")),
            "{body}"
        );
    }
    assert_eq!(scene.asked("File d in Reports."), None);
    let revoked = scene.revoke(&scene.mine, &approval("approval-1"));
    assert_eq!(revoked, (200, json!({"ok": true, "standingApprovals": []})));
    let (status, _) = scene.revoke(&scene.mine, &approval("approval-1"));
    assert_eq!(status, 404);
    assert!(scene.asked("File e in Reports.").is_some());
    assert_eq!((scene.filed(), scene.standing()), (3, json!([])));

    let data = scene.chat.close().await;
    let audit = std::fs::read_to_string(data.path().join("audit.jsonl")).unwrap();
    let lines: Vec<Value> = audit
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of_standing: Vec<(&Value, &Value, &Value)> = lines
        .iter()
        .filter(|line| line["event"] == "tool_standing_approval")
        .map(|line| (&line["change"], &line["reason"], &line["way"]))
        .collect();
    assert_eq!(
        of_standing,
        [
            (&json!("given"), &Value::Null, &Value::Null),
            (&json!("ended"), &json!("revoked"), &json!("http")),
        ]
    );
    let covered = lines.iter().filter(|line| {
        let consent = line["consent"].as_str().unwrap_or_default();
        consent.starts_with("covered by the standing approval approval-1")
    });
    assert_eq!(covered.count(), 2);
    assert!(!audit.contains("Reports"), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_without_a_stream_is_remembered_where_it_says_so() {
    let mut scene = scene(&[]).await;
    let asked = scene.asked("File a in Reports.").unwrap();
    let body = json!({
        "conversationId": "c", "token": asked["token"], "approved": true, "remember": true,
    });
    let said: Value =
        serde_json::from_str(&scene.post("/api/confirm", &scene.mine, &body).body).unwrap();
    assert_eq!(said["ok"], true, "{said}");
    assert_eq!(
        said["standingApprovals"][0]["approvalId"], "approval-1",
        "{said}"
    );
    // The same answer gives nothing anew once it was revoked.
    scene.revoke(&scene.mine, &approval("approval-1"));
    let again: Value =
        serde_json::from_str(&scene.post("/api/confirm", &scene.mine, &body).body).unwrap();
    assert_eq!(again["standingApprovals"], json!([]), "{again}");
    assert!(scene.asked("File b in Reports.").is_some());
    assert_eq!(scene.filed(), 1);
    scene.chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_have_every_call_asked_about() {
    for key in [
        ("tools.archive.remember", "false"),
        ("tools.archive.requires_confirmation", "true"),
        ("text.limits.standing_approval_minutes", "0"),
    ] {
        let mut scene = scene(&[key]).await;
        let asked = scene.asked("File a in Reports.").unwrap();
        assert!(asked["remember"].is_null(), "{key:?}");
        let answer = scene.approve(&asked, true);
        assert_eq!(words(&answer), "Very well.", "{}", answer.body);
        assert_eq!(scene.standing(), json!([]), "{key:?}");
        assert!(scene.asked("File b in Reports.").is_some(), "{key:?}");
        assert_eq!(scene.filed(), 1);
        scene.chat.close().await;
    }
}
