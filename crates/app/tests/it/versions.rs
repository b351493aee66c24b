//! Versions of a tool beside each other, in the real program: who gets which, what an approval runs, what is counted, and what becomes
//! of a version that goes.

use crate::access::{key, with};
use crate::chat::chunks;
use crate::code_changed::Service;
use crate::support::http::{HttpAnswer, post_with, request};
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Run, Running, command, run};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Ada is given the version beside the current one.
const FOR_ADA: &str = "[tools.pay.versions.\"2.0.0\"]\nusers = [\"user:ada\"]\n";

/// A tool that asks its user, and another version of it that asks another service.
struct Scene {
    folder: tempfile::TempDir,
    model: ModelServer,
    first: Service,
    second: Service,
    ada: String,
    bob: String,
    server: Option<Running>,
    address: String,
    watch: bool,
}

/// Writes one version of the tool into a folder.
fn write_version(folder: &Path, version: &str, service: &Service) {
    fs::create_dir_all(folder).unwrap();
    let schema = json!({
        "toolId": "pay", "version": version, "description": "Pays.", "category": "action", "sideEffects": "writes",
        "idempotent": false, "requiresConfirmation": true, "allowedModes": ["text", "voice"], "latencyBudgetMs": 3_000,
        "parameters": {"type": "object", "additionalProperties": false, "properties": {}},
    });
    let url = format!("http://127.0.0.1:{}/pay", service.port);
    let handler = json!({"kind": "http", "method": "POST", "url": url, "body": {}});
    fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    fs::write(folder.join("guide.md"), "# Pay\n\nPays.\n").unwrap();
    fs::write(folder.join("handler.json"), handler.to_string()).unwrap();
}

impl Scene {
    fn open(rules: &str, watch: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (Service::open(), Service::open());
        let pay = folder.path().join("tools/pay");
        write_version(&pay, "1.0.0", &first);
        write_version(&pay.join("versions/2.0.0"), "2.0.0", &second);
        let model = ModelServer::start(|message| match message["role"].as_str() {
            Some("user") => Says::Calls("pay", json!({})),
            _ => Says::Words("Well."),
        });
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        let mut scene = Self {
            ada: key(&data, &["ada", "--user", "ada"]),
            bob: key(&data, &["bob", "--user", "bob"]),
            folder,
            model,
            first,
            second,
            server: None,
            address: String::new(),
            watch,
        };
        scene.start(rules);
        scene
    }

    fn rule(&self, rules: &str) {
        let text = format!("[journal]\nenabled = true\n{rules}");
        fs::write(self.folder.path().join("windlass.toml"), text).unwrap();
    }

    fn start(&mut self, rules: &str) {
        self.rule(rules);
        let mut server = command(self.folder.path());
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--tools", "tools"];
        server
            .args(arguments)
            .args(["--data", "data"])
            .args(["--text-provider-url", &self.model.url]);
        for service in [&self.first, &self.second] {
            server.args(["--allow-fetch", &format!("127.0.0.1:{}", service.port)]);
        }
        if self.watch {
            server.arg("--watch");
        }
        let mut server = Running::start(&mut server);
        self.address = server.address();
        self.server = Some(server);
    }

    /// Another server goes on with the same data.
    fn restart(&mut self, rules: &str) {
        self.server.take().unwrap().kill();
        self.start(rules);
    }

    fn remove_version(&self) {
        fs::remove_dir_all(self.folder.path().join("tools/pay/versions")).unwrap();
    }

    fn post(&self, shown: &str, path: &str, body: &Value) -> HttpAnswer {
        loop {
            let body = body.to_string();
            let answer = post_with(&self.address, path, &with(shown), body.as_bytes());
            // Keys count a moment after they were made.
            if answer.status != 401 {
                return answer;
            }
        }
    }

    /// Has the user asked, in a conversation of their own; the token.
    fn asked(&self, shown: &str, conversation: &str) -> Value {
        let answer = self.post(
            shown,
            "/api/chat",
            &json!({"id": conversation, "message": "pay"}),
        );
        let chunks = chunks(&answer);
        let mut asked = chunks
            .iter()
            .filter(|chunk| chunk["type"] == "tool-approval-request");
        let asked = asked.next().unwrap_or_else(|| panic!("{chunks:?}"));
        asked["approvalId"].clone()
    }

    fn approve(&self, shown: &str, conversation: &str, token: &Value) -> Value {
        let yes = json!({"conversationId": conversation, "token": token, "approved": true});
        let answer = self.post(shown, "/api/confirm", &yes);
        let said: Value = serde_json::from_str(&answer.body).unwrap();
        said["response"].clone()
    }

    /// How often each version was run.
    fn runs(&self) -> (usize, usize) {
        (self.first.asked(), self.second.asked())
    }

    /// What an operator reads of the tools.
    fn figures(&self, path: &str) -> String {
        request(&self.address, "GET", path, &with(&self.ada)).body
    }

    fn run(&self, arguments: &[&str]) -> Run {
        run(command(self.folder.path()).args(arguments))
    }
}

#[test]
fn each_user_has_the_version_of_the_rules_and_everything_names_it() {
    let mut scene = Scene::open(FOR_ADA, false);
    for (shown, conversation, version, runs) in [
        (&scene.ada, "of-ada", "2.0.0", (0, 1)),
        (&scene.bob, "of-bob", "1.0.0", (1, 1)),
    ] {
        let token = scene.asked(shown, conversation);
        let response = scene.approve(shown, conversation, &token);
        assert_eq!(response["ok"], true, "{response}");
        assert_eq!(response["meta"]["toolVersion"], version, "{response}");
        assert_eq!(scene.runs(), runs);
    }

    let listed = scene.run(&["tools"]).output;
    let versions = "versions 1.0.0 for everybody else; 2.0.0 for 1 user";
    assert!(listed.contains(versions), "{listed}");

    let figures = scene.figures("/api/tools/stats?by=version");
    let figures: Value = serde_json::from_str(&figures).unwrap();
    for version in ["1.0.0", "2.0.0"] {
        let of_version = &figures["tools"]["pay"]["versions"][version];
        let counted =
            ["calls", "succeeded", "refused", "asked", "users"].map(|name| &of_version[name]);
        assert_eq!(counted, [1, 1, 0, 1, 1], "{figures}");
    }
    let differences = &figures["tools"]["pay"]["differences"][0];
    assert_eq!(differences["version"], "2.0.0");
    assert_eq!(differences["successRate"]["verdict"], "nothing_yet");
    assert_eq!(differences["fewUsers"], true);
    let by_tool = scene.figures("/api/tools/stats");
    let by_tool: Value = serde_json::from_str(&by_tool).unwrap();
    assert_eq!(by_tool["pay"]["calls"], 2);
    let path = "/api/tools/stats?by=user";
    let other = request(&scene.address, "GET", path, &with(&scene.ada));
    assert_eq!(other.status, 400);

    let key = scene.ada.strip_prefix("Bearer ").unwrap();
    fs::write(scene.folder.path().join("key.txt"), key).unwrap();
    let place = ["--listen", &scene.address, "--key-file", "key.txt"];
    let compared = scene.run(&[&["tools", "compare", "pay"], &place[..]].concat());
    assert_eq!(compared.code, 0, "{:?}", compared.problems);
    assert!(
        compared.output.contains("2.0.0 beside 1.0.0"),
        "{}",
        compared.output
    );
    assert!(
        compared.output.contains("says nothing yet"),
        "{}",
        compared.output
    );
    let saved = scene.folder.path().join("figures.json");
    fs::write(&saved, figures.to_string()).unwrap();
    let again = scene.run(&["tools", "compare", "pay", "--from", "figures.json"]);
    assert_eq!(again.output, compared.output);
    for (name, from) in [
        ("book", "figures.json"),
        ("pay", "windlass.toml"),
        ("pay", "nowhere"),
    ] {
        let refused = scene.run(&["tools", "compare", name, "--from", from]);
        assert_ne!(refused.code, 0, "{name} {from}: {}", refused.output);
    }

    scene.server.take().unwrap().kill();
    let data = scene.folder.path().join("data");
    let audit = fs::read_to_string(data.join("audit.jsonl")).unwrap();
    let lines = audit
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let named: Vec<(String, String)> = lines
        .filter(|line| line["event"] == "tool_execution")
        .map(|line| {
            let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            (word("userId"), word("toolVersion"))
        })
        .collect();
    let expected = [("user:ada", "2.0.0"), ("user:bob", "1.0.0")];
    assert_eq!(
        named,
        expected.map(|(user, version)| (user.to_owned(), version.to_owned()))
    );
    // Each session is replayed with its versions, whatever the rules are by now.
    scene.rule("");
    for journal in fs::read_dir(data.join("journal")).unwrap() {
        let journal = journal.unwrap().path();
        let replayed = scene.run(&[
            "replay",
            "--tools",
            "tools",
            "--data",
            "data",
            journal.to_str().unwrap(),
        ]);
        assert_eq!(
            replayed.code, 0,
            "{} {:?}",
            replayed.output, replayed.problems
        );
    }
}

#[test]
fn an_approval_runs_the_version_that_was_shown_whatever_the_rules_are_by_then() {
    let mut scene = Scene::open(FOR_ADA, false);
    let token = scene.asked(&scene.ada, "talk");
    scene.restart("");
    let response = scene.approve(&scene.ada, "talk", &token);
    assert_eq!(response["meta"]["toolVersion"], "2.0.0", "{response}");
    assert_eq!(scene.runs(), (0, 1));
    // What is asked for from now on has the version of the rules; the same change is known, and is asked about once more.
    let token = scene.asked(&scene.ada, "talk");
    let response = scene.approve(&scene.ada, "talk", &token);
    assert_eq!(response["meta"]["toolVersion"], "1.0.0", "{response}");
    assert_eq!(scene.runs(), (1, 1));
}

#[test]
fn a_version_that_is_gone_is_not_run_with_an_old_approval() {
    let mut scene = Scene::open(FOR_ADA, false);
    let token = scene.asked(&scene.ada, "talk");
    scene.server.take().unwrap().kill();
    scene.remove_version();
    scene.start("");
    for _ in 0..2 {
        let response = scene.approve(&scene.ada, "talk", &token);
        assert_eq!(
            response["error"]["type"], "CONFIRMATION_EXPIRED",
            "{response}"
        );
    }
    assert_eq!(scene.runs(), (0, 0));
}

/// A version that somebody takes away while the server serves it, and a session has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_the_rules_name_stays_until_they_do_not() {
    let scene = Scene::open(FOR_ADA, true);
    // Until the key counts.
    scene.asked(&scene.ada, "before");
    let mut client = VoiceClient::connect(&scene.address, &with(&scene.ada))
        .await
        .unwrap();
    client
        .send(json!({"type": "start", "conversationId": "talk"}))
        .await;
    client.expect("started").await;
    client.say("call pay {}").await;
    let token = client.expect("confirmation_request").await["token"].clone();
    scene.remove_version();
    let server = scene.server.as_ref().unwrap();
    let lines = server.log_until("the tools stay as they were");
    let said = lines.last().unwrap();
    assert!(
        said.contains("speaks of version 2.0.0 of the tool pay"),
        "{said}"
    );
    let yes = json!({"type": "confirm", "token": token, "approved": true});
    client.send(yes).await;
    let said = client.expect("confirmation_result").await;
    assert_eq!(said["response"]["meta"]["toolVersion"], "2.0.0", "{said}");
    assert_eq!(scene.runs(), (0, 1));
    // So do those that begin after it.
    let token = scene.asked(&scene.ada, "after");
    let response = scene.approve(&scene.ada, "after", &token);
    assert_eq!(response["meta"]["toolVersion"], "2.0.0", "{response}");
}

#[test]
fn rules_for_versions_that_there_are_not_are_errors() {
    let mut scene = Scene::open("", false);
    scene.server.take().unwrap().kill();
    scene.rule(FOR_ADA);
    assert_eq!(scene.run(&["check"]).code, 0);
    for (rules, expected) in [
        (
            "[tools.pay]\nversion = \"3.0.0\"\n",
            "speaks of version 3.0.0 of the tool pay, which does not exist; there is 1.0.0, 2.0.0",
        ),
        (
            "[tools.pay.versions.\"1.0.0\"]\npercent = 50\n",
            "does not make 100",
        ),
        (
            "[tools.pay.versions.v2]\npercent = 50\n",
            "\"v2\" is not a semantic version",
        ),
    ] {
        scene.rule(rules);
        for command in [&["check"][..], &["call", "pay", "{}"]] {
            let refused = scene.run(command);
            let said = refused.problems.join("\n") + &refused.output;
            assert_ne!(refused.code, 0, "{rules}: {said}");
            assert!(said.contains(expected), "{rules}: {said}");
        }
    }
}
