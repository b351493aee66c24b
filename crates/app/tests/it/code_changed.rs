//! An approval is good for the code that was there when the user was asked, in the real program: another address under the same
//! version runs nothing, in the chat, over HTTP, by voice, after a restart and after tools were read again.

use crate::chat::chunks;
use crate::support::http::post;
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A service that counts what it is asked.
pub(crate) struct Service {
    pub(crate) port: u16,
    asked: Arc<AtomicUsize>,
}

impl Service {
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::<AtomicUsize>::default();
        let count = asked.clone();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut line, mut length) = (String::new(), 0);
                while reader.read_line(&mut line).unwrap() > 2 {
                    if let Some((name, value)) = line.split_once(':')
                        && name.eq_ignore_ascii_case("content-length")
                    {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                reader.read_exact(&mut vec![0; length]).unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let head =
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
                let _ = write!(stream, "{head}Content-Length: 2\r\n\r\n{{}}");
            }
        });
        Self { port, asked }
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Writes the tool, or the same version of it with another address.
fn write_tool(folder: &Path, service: &Service) {
    let directory = folder.join("tools/pay");
    fs::create_dir_all(&directory).unwrap();
    let schema = json!({
        "toolId": "pay", "version": "1.0.0", "description": "Pays.", "category": "action", "sideEffects": "writes",
        "idempotent": false, "requiresConfirmation": true, "allowedModes": ["text", "voice"], "latencyBudgetMs": 3_000,
        "parameters": {"type": "object", "additionalProperties": false, "properties": {}},
    });
    let url = format!("http://127.0.0.1:{}/pay", service.port);
    let handler = json!({"kind": "http", "method": "POST", "url": url, "body": {}});
    fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
    fs::write(directory.join("guide.md"), "# Pay\n\nPays.\n").unwrap();
    fs::write(directory.join("handler.json"), handler.to_string()).unwrap();
}

struct Scene {
    folder: tempfile::TempDir,
    model: ModelServer,
    asked_about: Service,
    changed: Service,
    server: Option<Running>,
    address: String,
    watch: bool,
}

impl Scene {
    fn open(watch: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let asked_about = Service::open();
        write_tool(folder.path(), &asked_about);
        let model = ModelServer::start(|message| match message["role"].as_str() {
            Some("user") => Says::Calls("pay", json!({})),
            _ => Says::Words("Well."),
        });
        let mut scene = Self {
            folder,
            model,
            asked_about,
            changed: Service::open(),
            server: None,
            address: String::new(),
            watch,
        };
        scene.start();
        scene
    }

    fn start(&mut self) {
        let mut server = command(self.folder.path());
        let arguments = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--tools",
            "tools",
            "--data",
            "data",
        ];
        server
            .args(arguments)
            .args(["--text-provider-url", &self.model.url]);
        for service in [&self.asked_about, &self.changed] {
            server.args(["--allow-fetch", &format!("127.0.0.1:{}", service.port)]);
        }
        if self.watch {
            server.arg("--watch");
        }
        let mut server = Running::start(&mut server);
        self.address = server.address();
        self.server = Some(server);
    }

    /// Another address under the same version, which the server knows of from now on.
    fn change(&mut self) {
        if self.watch {
            write_tool(self.folder.path(), &self.changed);
            self.server
                .as_ref()
                .unwrap()
                .expect_log("new sessions have new tools");
            return;
        }
        self.server.take().unwrap().kill();
        write_tool(self.folder.path(), &self.changed);
        self.start();
    }

    fn asked_by_text(&self) -> Value {
        let body = json!({"id": "talk", "message": "pay"}).to_string();
        let chunks = chunks(&post(&self.address, "/api/chat", body.as_bytes()));
        let mut asked = chunks
            .iter()
            .filter(|chunk| chunk["type"] == "tool-approval-request");
        let asked = asked.next().unwrap_or_else(|| panic!("{chunks:?}"));
        asked["approvalId"].clone()
    }

    fn approve(&self, token: &Value) -> Value {
        let yes = json!({"conversationId": "talk", "token": token, "approved": true});
        let answer = post(&self.address, "/api/confirm", yes.to_string().as_bytes());
        serde_json::from_str(&answer.body).unwrap()
    }
}

fn has_changed(response: &Value) -> bool {
    let error = &response["error"];
    error["type"] == "CONFIRMATION_EXPIRED" && error["message"].to_string().contains("has changed")
}

#[test]
fn another_address_under_one_version_is_not_what_was_approved() {
    for watch in [false, true] {
        let mut scene = Scene::open(watch);
        let token = scene.asked_by_text();
        scene.change();
        for _ in 0..2 {
            let said = scene.approve(&token);
            assert!(
                has_changed(&said["response"]) || scene.changed.asked() == 0,
                "{said}"
            );
        }
        assert_eq!(scene.changed.asked(), 0);
        if !watch {
            assert_eq!(scene.asked_about.asked(), 0);
            // The user is asked about what is there now.
            let token = scene.asked_by_text();
            let said = scene.approve(&token);
            assert_eq!(said["response"]["ok"], true, "{said}");
            assert_eq!((scene.asked_about.asked(), scene.changed.asked()), (0, 1));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_is_it_where_the_user_was_asked_by_voice() {
    let mut scene = Scene::open(false);
    let start = json!({"type": "start", "conversationId": "talk"});
    let (mut client, started) = VoiceClient::start(&scene.address, start).await;
    client.say("call pay {}").await;
    let token = client.expect("confirmation_request").await["token"].clone();
    scene.change();
    let resume = json!({"type": "start", "resume": started["resumeToken"]});
    let (mut client, _) = VoiceClient::start(&scene.address, resume).await;
    client
        .send(json!({"type": "confirm", "token": token, "approved": true}))
        .await;
    let said = client.expect("confirmation_result").await;
    assert!(has_changed(&said["response"]), "{said}");
    assert_eq!((scene.asked_about.asked(), scene.changed.asked()), (0, 0));
}
