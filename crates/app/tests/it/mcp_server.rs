//! This project's tools for MCP clients: both revisions over HTTP, each call once however often it comes, approvals that only their own
//! person gives, and messages as bad as they can be. Real sockets.

use crate::access::key;
use crate::support::change::{Changes, write_tool};
use crate::support::config;
use crate::support::http::{HttpAnswer, post_with, request};
use crate::support::mcp_client::{self, EVENTS, Headers, STATELESS, message, read};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Barrier};
use std::thread;
use windlass_app::server::{self, Server, Setup};
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

/// A server with the tool `change`, which writes down what it has changed.
pub(crate) struct Scene {
    pub(crate) address: String,
    pub(crate) changes: Arc<Changes>,
    data: tempfile::TempDir,
    _tools: tempfile::TempDir,
    _server: Server,
}

/// `tool` is more of the tool's `schema.json`, `keys` of the configuration, and `before` is done before the server starts.
pub(crate) async fn scene_with<T>(
    tool: Value,
    keys: &[(&'static str, &str)],
    before: impl FnOnce(&std::path::Path) -> T,
) -> (Scene, T) {
    let (data, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_tool(tools.path(), tool);
    let made = before(data.path());
    let changes = Changes::new();
    let folder = tools.path().display().to_string();
    let usual = [
        ("folders.tools", folder.as_str()),
        ("mcp_server.enabled", "true"),
        ("mcp_server.assume_external_content", "false"),
    ];
    let keys: Vec<_> = usual.iter().chain(keys).copied().collect();
    let server = server::start(Setup {
        config: config(data.path(), &keys),
        handlers: changes.handlers(),
        watch: false,
    });
    let server = server.await.unwrap();
    let scene = Scene {
        address: server.address().to_string(),
        changes,
        data,
        _tools: tools,
        _server: server,
    };
    (scene, made)
}

pub(crate) async fn scene(tool: Value, keys: &[(&'static str, &str)]) -> Scene {
    scene_with(tool, keys, |_| ()).await.0
}

pub(crate) fn consent() -> Value {
    json!({"requiresConfirmation": true, "confirmation": {"preview": "Change {what}"}})
}

pub(crate) fn forms() -> Value {
    json!({"elicitation": {"form": {}}})
}

impl Scene {
    fn post(&self, headers: Headers<'_>, body: &Value) -> HttpAnswer {
        mcp_client::post(&self.address, headers, body)
    }

    /// Sends a request of the stateless revision under the headers that belong to it.
    pub(crate) fn send(&self, headers: Headers<'_>, body: &Value) -> HttpAnswer {
        mcp_client::send(&self.address, headers, body)
    }

    pub(crate) fn ask(&self, method: &str, params: Value) -> Value {
        read(&self.send(&[], &message(1, method, params, &json!({}))))
    }

    /// The result of a call of `change`, by a client with these capabilities.
    pub(crate) fn change(
        &self,
        headers: Headers<'_>,
        params: Value,
        capabilities: &Value,
    ) -> Value {
        let mut whole = json!({"name": "change"});
        whole
            .as_object_mut()
            .unwrap()
            .extend(params.as_object().unwrap().clone());
        let answer = read(&self.send(headers, &message(7, "tools/call", whole, capabilities)));
        match answer.get("result") {
            Some(result) => result.clone(),
            None => answer,
        }
    }

    fn calls(&self, what: &str) -> Value {
        self.change(&[], json!({"arguments": {"what": what}}), &json!({}))
    }
}

/// Sends a call of `change` over a connection of its own, whose answer is read by hand.
fn stream(address: &str, id: u64, what: &str) -> TcpStream {
    let params = json!({"name": "change", "arguments": {"what": what}});
    let body = message(id, "tools/call", params, &json!({})).to_string();
    let mut client = TcpStream::connect(address).unwrap();
    write!(
        client,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: {EVENTS}\r\n\
         MCP-Protocol-Version: {STATELESS}\r\nMcp-Method: tools/call\r\nMcp-Name: change\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len(),
    )
    .unwrap();
    client
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{result}"))
}

pub(crate) fn code(result: &Value) -> &Value {
    &result["_meta"]["dev.windlass/error"]["code"]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_sessions_discovers_lists_and_calls() {
    let scene = scene(json!({}), &[]).await;
    let discovered = scene.ask("server/discover", json!({}))["result"].clone();
    assert_eq!(discovered["resultType"], "complete");
    assert_eq!(discovered["supportedVersions"][0], STATELESS);
    let listed = scene.ask("tools/list", json!({}))["result"].clone();
    for result in [&discovered, &listed] {
        let info = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(info["name"], "windlass", "{result}");
    }
    assert_eq!(listed["tools"][0]["name"], "change");
    assert_eq!(listed["tools"][0]["annotations"]["readOnlyHint"], false);
    assert_eq!(listed["tools"][0]["inputSchema"]["type"], "object");
    assert_eq!(listed["cacheScope"], "private");
    assert_eq!(listed["ttlMs"], 60_000);
    assert_eq!(listed, scene.ask("tools/list", json!({}))["result"]);
    let result = scene.calls("one");
    assert_eq!(result["structuredContent"], json!({"done": true}));
    assert_eq!(result["resultType"], "complete");
    assert_eq!(scene.changes.made(), ["one"]);
    let prompts = scene.ask("prompts/list", json!({}))["result"]["prompts"].clone();
    assert_eq!(prompts[0]["name"], "change");
    let prompt = scene.ask("prompts/get", json!({"name": "change"}))["result"].clone();
    assert!(
        prompt["messages"][0]["content"]["text"]
            .as_str()
            .unwrap()
            .contains("# Change")
    );
    let listed = scene.ask("resources/list", json!({}))["result"].clone();
    let uri = listed["resources"][0]["uri"].as_str().unwrap().to_owned();
    let record = scene.ask("resources/read", json!({"uri": uri}))["result"].clone();
    assert_eq!(record["contents"][0]["uri"], uri.as_str());
    let none = scene.ask("resources/read", json!({"uri": "windlass://kb/none"}));
    assert_eq!(none["error"]["code"], -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_asked_for_again_is_made_once() {
    let scene = scene(json!({}), &[]).await;
    assert_eq!(
        scene.calls("one")["_meta"].get("dev.windlass/replayed"),
        None
    );
    let again = scene.calls("one");
    assert_eq!(again["structuredContent"], json!({"done": true}));
    assert_eq!(again["_meta"]["dev.windlass/replayed"], true);
    assert!(
        again["content"]
            .to_string()
            .contains("Nothing further was done"),
        "{again}"
    );
    let keyed = |key: &str, what: &str| {
        let meta = json!({"dev.windlass/idempotency-key": key});
        let params = json!({"arguments": {"what": what}, "_meta": meta});
        scene.change(&[], params, &json!({}))
    };
    // A key of its own says that it is meant.
    assert_eq!(
        keyed("a", "one")["structuredContent"],
        json!({"done": true})
    );
    assert_eq!(keyed("a", "one")["_meta"]["dev.windlass/replayed"], true);
    assert_eq!(code(&keyed("a", "two")), "CONFLICT");
    assert_eq!(scene.changes.made(), ["one", "one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_calls_of_one_change_while_it_runs_are_one() {
    let scene = Arc::new(scene(json!({}), &[]).await);
    scene.changes.hold();
    let calling: Vec<_> = (0..10_u64)
        .map(|id| {
            let scene = scene.clone();
            tokio::task::spawn_blocking(move || {
                let params = json!({"name": "change", "arguments": {"what": "one"}});
                read(&scene.send(&[], &message(id, "tools/call", params, &json!({}))))
            })
        })
        .collect();
    scene.changes.until_begun(1).await;
    scene.changes.let_go();
    for (id, call) in calling.into_iter().enumerate() {
        let answer = call.await.unwrap();
        assert_eq!(answer["id"], id);
        assert_eq!(
            answer["result"]["structuredContent"],
            json!({"done": true}),
            "{answer}"
        );
    }
    assert_eq!(scene.changes.made(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_stream_does_not_tear_a_change_in_half() {
    let scene = scene(json!({}), &[]).await;
    scene.changes.hold();
    let client = stream(&scene.address, 1, "one");
    scene.changes.until_begun(1).await;
    drop(client);
    let scene = Arc::new(scene);
    let again = {
        let scene = scene.clone();
        tokio::task::spawn_blocking(move || scene.calls("one"))
    };
    scene.changes.let_go();
    assert_eq!(
        again.await.unwrap()["structuredContent"],
        json!({"done": true})
    );
    assert_eq!(scene.changes.made(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_cut_anywhere_is_one_change() {
    let keys = [
        ("shares.user.requests_per_minute_max", "100000"),
        ("shares.address.requests_per_minute_max", "100000"),
    ];
    let scene = scene(json!({}), &keys).await;
    let mut wanted = Vec::new();
    for number in 0..200_usize {
        let what = format!("n{number}");
        let mut client = stream(&scene.address, 1, &what);
        // A whole answer ends before the last of these.
        let mut beginning = vec![0; number * 5];
        let _ = client.read_exact(&mut beginning);
        drop(client);
        let result = scene.calls(&what);
        assert_eq!(
            result["structuredContent"],
            json!({"done": true}),
            "{what} {result}"
        );
        wanted.push(what);
    }
    let mut made = scene.changes.made();
    made.sort();
    wanted.sort();
    assert_eq!(made, wanted);
}

/// A tool that only reads, for ever, and says when it begins and when nobody waits for it any more.
struct Look(tokio::sync::watch::Sender<&'static str>);

struct Dropped(tokio::sync::watch::Sender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send_replace("dropped");
    }
}

impl Handler for Look {
    fn execute(&self, _: Invocation) -> Execution {
        let said = self.0.clone();
        Execution::Pending(Box::pin(async move {
            said.send_replace("begun");
            let _dropped = Dropped(said);
            std::future::pending().await
        }))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_stream_stops_a_call_that_only_reads() {
    let (data, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let look = json!({"toolId": "look", "description": "Looks.", "sideEffects": "read_only", "allowedModes": ["text"], "parameters": {"type": "object", "properties": {}, "additionalProperties": false}});
    let folder = tools.path().join("look");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("schema.json"), look.to_string()).unwrap();
    std::fs::write(folder.join("guide.md"), "# Look\n\nLooks.\n").unwrap();
    let said = tokio::sync::watch::Sender::new("");
    let handler: Arc<dyn Handler> = Arc::new(Look(said.clone()));
    let place = tools.path().display().to_string();
    let keys = [
        ("folders.tools", place.as_str()),
        ("mcp_server.enabled", "true"),
    ];
    let server = server::start(Setup {
        config: config(data.path(), &keys),
        handlers: BTreeMap::from([(ToolId::parse("look").unwrap(), handler)]),
        watch: false,
    });
    let server = server.await.unwrap();
    let address = server.address().to_string();
    let until = async |wanted: &'static str| {
        let mut said = said.subscribe();
        let heard = said.wait_for(|said| *said == wanted);
        let heard = tokio::time::timeout(std::time::Duration::from_secs(60), heard).await;
        heard.expect("it was never said").unwrap();
    };
    for accept in [EVENTS, "application/json"] {
        let params = json!({"name": "look", "arguments": {}});
        let body = message(1, "tools/call", params, &json!({})).to_string();
        let mut client = TcpStream::connect(&address).unwrap();
        write!(
            client,
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: {accept}\r\n\
             MCP-Protocol-Version: {STATELESS}\r\nMcp-Method: tools/call\r\nMcp-Name: look\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len(),
        )
        .unwrap();
        until("begun").await;
        drop(client);
        until("dropped").await;
    }
}

/// What a client that has forms sends back.
pub(crate) fn answered(result: &Value, what: &str, answer: Value) -> Value {
    json!({
        "arguments": {"what": what},
        "requestState": result["requestState"],
        "inputResponses": {"approval": answer},
    })
}

pub(crate) fn yes() -> Value {
    json!({"action": "accept", "content": {"approve": true}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_approves_by_the_clients_form_and_once() {
    let scene = scene(consent(), &[]).await;
    let asked = scene.change(&[], json!({"arguments": {"what": "one"}}), &forms());
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let shown = &asked["inputRequests"]["approval"]["params"];
    assert_eq!(shown["mode"], "form");
    assert!(
        shown["message"].as_str().unwrap().contains("Change one"),
        "{shown}"
    );
    assert_eq!(scene.changes.made(), [""; 0]);
    // What is no answer is asked for again, and what is no yes does nothing.
    let none = scene.change(
        &[],
        json!({"arguments": {"what": "one"}, "requestState": asked["requestState"]}),
        &forms(),
    );
    assert_eq!(none["resultType"], "input_required");
    for answer in [
        json!({"action": "cancel"}),
        json!({"action": "accept", "content": {"approve": "yes"}}),
    ] {
        let result = scene.change(&[], answered(&asked, "one", answer), &forms());
        assert_eq!(code(&result), "CONFIRMATION_REQUIRED", "{result}");
    }
    let done = scene.change(&[], answered(&asked, "one", yes()), &forms());
    assert_eq!(done["structuredContent"], json!({"done": true}), "{done}");
    for _ in 0..3 {
        let again = scene.change(&[], answered(&asked, "one", yes()), &forms());
        assert_eq!(again["structuredContent"], json!({"done": true}), "{again}");
    }
    assert_eq!(scene.changes.made(), ["one"]);
    let asked = scene.change(&[], json!({"arguments": {"what": "two"}}), &forms());
    let no = json!({"action": "decline"});
    let denied = scene.change(&[], answered(&asked, "two", no), &forms());
    assert_eq!(code(&denied), "CONFIRMATION_DECLINED", "{denied}");
    let after = scene.change(&[], answered(&asked, "two", yes()), &forms());
    assert_eq!(code(&after), "CONFIRMATION_DECLINED", "{after}");
    assert_eq!(scene.changes.made(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_was_changed_or_is_somebody_elses_approves_nothing() {
    let keys =
        |data: &std::path::Path| ["ada", "eve"].map(|name| key(data, &[name, "--user", name]));
    let (scene, [ada, eve]) = scene_with(consent(), &[], keys).await;
    let (ada, eve) = ([("Authorization", &*ada)], [("Authorization", &*eve)]);
    let asked = scene.change(&ada, json!({"arguments": {"what": "one"}}), &forms());
    let state = asked["requestState"].as_str().unwrap();
    let (shown, signature) = state.rsplit_once('.').unwrap();
    let expired = {
        let (start, _) = shown.rsplit_once('.').unwrap();
        format!("{start}.1.{signature}")
    };
    let zeros = format!("{shown}.{}", "0".repeat(signature.len()));
    for (headers, state, what) in [
        (&eve, state, "one"),
        (&ada, state, "two"),
        (&ada, &expired, "one"),
        (&ada, &zeros, "one"),
        (&ada, "", "one"),
    ] {
        let mut params = answered(&asked, what, yes());
        params["requestState"] = state.into();
        let answer = scene.change(headers, params, &forms());
        assert_eq!(answer["error"]["code"], -32602, "{what} {state} {answer}");
    }
    // The same call of somebody else is a call of their own.
    let other = scene.change(&eve, json!({"arguments": {"what": "one"}}), &forms());
    assert_eq!(other["resultType"], "input_required");
    assert_ne!(other["requestState"], state);
    assert_eq!(scene.changes.made(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_asked_by_the_client_approves_on_the_page() {
    let keys =
        |data: &std::path::Path| ["ada", "eve"].map(|name| key(data, &[name, "--user", name]));
    let rules = [("mcp_server.approvals", "page")];
    let (scene, [ada, eve]) = scene_with(consent(), &rules, keys).await;
    let (ada, eve) = ([("Authorization", &*ada)], [("Authorization", &*eve)]);
    // The operator lets the page alone ask, whatever the client can do.
    let told = scene.change(&ada, json!({"arguments": {"what": "one"}}), &forms());
    assert_eq!(code(&told), "CONFIRMATION_REQUIRED", "{told}");
    let url = told["_meta"]["dev.windlass/error"]["details"]["approveAt"]
        .as_str()
        .unwrap();
    assert!(text(&told).contains(url));
    let path = url.split_once(&scene.address).unwrap().1;
    assert_eq!(request(&scene.address, "GET", path, &[]).status, 401);
    assert_eq!(request(&scene.address, "GET", path, &eve).status, 404);
    let shown = request(&scene.address, "GET", path, &ada);
    assert!(shown.body.contains("Change one"), "{}", shown.body);
    assert!(
        shown
            .header("content-security-policy")
            .unwrap()
            .contains("form-action 'self'")
    );
    let token = shown.body.split_once("name=\"token\" value=\"").unwrap().1;
    let token = token.split_once('"').unwrap().0;
    let form = format!("token={token}&approved=yes");
    let foreign = [ada[0], ("Origin", "https://evil.example")];
    assert_eq!(
        post_with(&scene.address, path, &foreign, form.as_bytes()).status,
        403
    );
    assert_eq!(
        post_with(&scene.address, path, &eve, form.as_bytes()).status,
        404
    );
    assert_eq!(scene.changes.made(), [""; 0]);
    let given = post_with(&scene.address, path, &ada, form.as_bytes());
    assert!(given.body.contains("has run"), "{}", given.body);
    let again = scene.change(&ada, json!({"arguments": {"what": "one"}}), &json!({}));
    assert_eq!(again["structuredContent"], json!({"done": true}), "{again}");
    assert_eq!(scene.changes.made(), ["one"]);
}

/// A session of a client that begins with a handshake.
fn begin(scene: &Scene, capabilities: Value) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let answer = scene.post(&[], &body);
    assert_eq!(read(&answer)["result"]["protocolVersion"], "2025-11-25");
    let session = answer.header("mcp-session-id").unwrap().to_owned();
    let said = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(
        scene.post(&[("Mcp-Session-Id", &session)], &said).status,
        202
    );
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_a_session_is_asked_on_the_stream_of_its_call() {
    let scene = scene(consent(), &[]).await;
    let session = begin(&scene, json!({"elicitation": {}}));
    let own = [
        ("Mcp-Session-Id", session.as_str()),
        ("MCP-Protocol-Version", "2025-11-25"),
    ];
    let params = json!({"name": "change", "arguments": {"what": "one"}});
    let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
    let body = call.to_string();
    let mut client = TcpStream::connect(&scene.address).unwrap();
    write!(
        client,
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: {EVENTS}\r\n\
         Mcp-Session-Id: {session}\r\nContent-Length: {}\r\n\r\n{body}",
        scene.address,
        body.len(),
    )
    .unwrap();
    let mut heard = String::new();
    let mut piece = [0; 4_096];
    while !heard.contains("elicitation/create") {
        let read = client.read(&mut piece).unwrap();
        assert_ne!(read, 0, "{heard}");
        heard.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    let asked = heard
        .lines()
        .find_map(|line| line.strip_prefix("data: "))
        .unwrap();
    let asked: Value = serde_json::from_str(asked).unwrap();
    assert_eq!(asked["params"].get("mode"), None);
    let foreign = json!({"jsonrpc": "2.0", "id": "windlass-99", "result": yes()});
    assert_eq!(scene.post(&own, &foreign).status, 400);
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": yes()});
    assert_eq!(scene.post(&own, &answer).status, 202);
    client.read_to_string(&mut heard).unwrap();
    assert!(
        heard.contains("\"structuredContent\":{\"done\":true}"),
        "{heard}"
    );
    assert_eq!(scene.changes.made(), ["one"]);
    let ended = request(&scene.address, "DELETE", "/mcp", &own);
    assert_eq!(ended.status, 204);
    let gone = scene.post(&own, &json!({"jsonrpc": "2.0", "id": 6, "method": "ping"}));
    assert_eq!(gone.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_messages_are_refused_in_the_protocols_own_words() {
    let scene = scene(json!({}), &[("mcp_server.message_bytes_max", "2048")]).await;
    let refused = |headers: Headers<'_>, body: &Value| {
        let answer = scene.post(headers, body);
        (answer.status, read(&answer)["error"]["code"].clone())
    };
    let list = message(1, "tools/list", json!({}), &json!({}));
    let call = message(1, "tools/call", json!({"name": "change"}), &json!({}));
    let version = ("MCP-Protocol-Version", STATELESS);
    let method = ("Mcp-Method", "tools/call");
    for (headers, body, expected) in [
        (&[][..], &json!([]), (400, -32600)),
        (
            &[],
            &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
            (400, -32600),
        ),
        (&[], &list, (400, -32020)),
        (
            &[version, ("Mcp-Method", "tools/call")],
            &list,
            (400, -32020),
        ),
        (&[version, method], &call, (400, -32020)),
        (
            &[version, method, ("Mcp-Name", "other")],
            &call,
            (400, -32020),
        ),
        (
            &[
                ("MCP-Protocol-Version", "2025-11-25"),
                ("Mcp-Method", "tools/list"),
            ],
            &list,
            (400, -32020),
        ),
    ] {
        assert_eq!(
            refused(headers, body),
            (expected.0, expected.1.into()),
            "{headers:?} {body}"
        );
    }
    // What the revision without sessions has given up is as unknown as anything else.
    for method in ["no/such", "ping", "initialize", "logging/setLevel"] {
        let unknown = scene.send(&[], &message(1, method, json!({}), &json!({})));
        assert_eq!(
            (unknown.status, &read(&unknown)["error"]["code"]),
            (404, &(-32601).into()),
            "{method}"
        );
    }
    // Each of its requests says which version it is of, and what its client can.
    for missing in ["protocolVersion", "clientCapabilities", ""] {
        let mut body = list.clone();
        match missing {
            "" => body["params"] = json!({}),
            name => {
                let meta = body["params"]["_meta"].as_object_mut().unwrap();
                meta.remove(&format!("io.modelcontextprotocol/{name}"));
            }
        }
        let answer = refused(&[version, ("Mcp-Method", "tools/list")], &body);
        assert_eq!(answer, (400, (-32602).into()), "{missing} {body}");
    }
    for params in [
        json!({"name": "no_such"}),
        json!({"name": "change", "arguments": []}),
        json!({"name": "describe_tool"}),
        json!({}),
    ] {
        assert_eq!(
            scene.ask("tools/call", params.clone())["error"]["code"],
            -32602,
            "{params}"
        );
    }
    // Arguments that the schema refuses are for the model to mend.
    let wrong = scene.change(&[], json!({"arguments": {"what": 1}}), &json!({}));
    assert_eq!(
        (&wrong["isError"], code(&wrong)),
        (&true.into(), &"VALIDATION".into())
    );
    let long =
        json!({"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"long": "x".repeat(4_096)}});
    assert_eq!(scene.post(&[], &long).status, 413);
    let body = list.to_string();
    let plain = [("Content-Type", "text/plain")];
    assert_eq!(
        post_with(&scene.address, "/mcp", &plain, body.as_bytes()).status,
        415
    );
    for foreign in [("Origin", "https://evil.example"), ("Origin", "null")] {
        assert_eq!(scene.send(&[foreign], &list).status, 403);
    }
    let rebound = [
        ("Host", "evil.example"),
        ("Content-Type", "application/json"),
    ];
    assert_eq!(
        request(&scene.address, "POST", "/mcp", &rebound).status,
        421
    );
    assert_eq!(request(&scene.address, "GET", "/mcp", &[]).status, 405);
    assert_eq!(scene.changes.made(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_open_streams_leave_room_for_everybody_else() {
    let keys = [
        ("mcp_server.calls_max", "20"),
        ("shares.address.connections_max", "2000"),
        ("shares.user.connections_max", "2000"),
        ("shares.user.requests_per_minute_max", "100000"),
        ("server.shutdown_seconds", "1"),
    ];
    let scene = scene(json!({}), &keys).await;
    scene.changes.hold();
    let mut open = Vec::new();
    let mut refused = 0;
    for number in 0..1_000 {
        let mut client = stream(&scene.address, number, &format!("n{number}"));
        let mut head = [0; 12];
        client.read_exact(&mut head).unwrap();
        match &head {
            b"HTTP/1.1 200" => open.push(client),
            b"HTTP/1.1 503" => refused += 1,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    assert_eq!((open.len(), refused), (20, 980));
    // Everything else is answered meanwhile.
    assert_eq!(
        scene.ask("tools/list", json!({}))["result"]["tools"][0]["name"],
        "change"
    );
    scene.changes.let_go();
    for mut client in open {
        let mut heard = String::new();
        let mut piece = [0; 4_096];
        while !heard.contains("structuredContent") {
            let read = client.read(&mut piece).unwrap();
            assert_ne!(read, 0, "{heard}");
            heard.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
    }
    assert_eq!(scene.changes.made().len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_comes_in_without_showing_who_they_are_and_nothing_is_there_unless_it_is_wanted() {
    let (scene, ada) =
        scene_with(json!({}), &[], |data| key(data, &["ada", "--user", "ada"])).await;
    let list = message(1, "tools/list", json!({}), &json!({}));
    for shown in ["", "Bearer wlk_00", "Bearer x.y.z"] {
        let answer = match shown {
            "" => scene.send(&[], &list),
            shown => scene.send(&[("Authorization", shown)], &list),
        };
        assert_eq!(answer.status, 401, "{shown}");
        assert!(
            answer
                .header("www-authenticate")
                .unwrap()
                .starts_with("Bearer")
        );
    }
    assert_eq!(scene.send(&[("Authorization", &ada)], &list).status, 200);
    // A browser that is signed in on the page is no client of this protocol.
    let signed_in = post_with(
        &scene.address,
        "/api/session",
        &[("Authorization", &ada)],
        b"{}",
    );
    let cookie = signed_in
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(scene.send(&[("Cookie", &cookie)], &list).status, 401);
    assert!(scene.data.path().join("access_keys.json").exists());
    let off = [("mcp_server.enabled", "false")];
    let off = scene_with(json!({}), &off, |_| ()).await.0;
    assert_eq!(off.send(&[], &list).status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_may_have_read_anything_changes_nothing_unasked() {
    let scene = scene(json!({}), &[("mcp_server.assume_external_content", "true")]).await;
    let asked = scene.change(&[], json!({"arguments": {"what": "one"}}), &forms());
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let done = scene.change(&[], answered(&asked, "one", yes()), &forms());
    assert_eq!(done["structuredContent"], json!({"done": true}), "{done}");
    assert_eq!(scene.changes.made(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_wanted_again_later_is_asked_about() {
    let scene = scene(json!({}), &[("mcp_server.repeat_seconds", "0")]).await;
    scene.calls("one");
    let asked = scene.change(&[], json!({"arguments": {"what": "one"}}), &forms());
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let shown = asked["inputRequests"]["approval"]["params"]["message"]
        .as_str()
        .unwrap();
    assert!(
        shown.starts_with("May this call run?\nLook twice: "),
        "{shown}"
    );
    let done = scene.change(&[], answered(&asked, "one", yes()), &forms());
    assert_eq!(done["structuredContent"], json!({"done": true}), "{done}");
    assert_eq!(scene.changes.made(), ["one", "one"]);
}

impl Scene {
    /// Approves on the page what waits there, as whoever is at the machine.
    fn approve(&self, url: &str) {
        let path = url.split_once(&self.address).unwrap().1;
        let shown = request(&self.address, "GET", path, &[]);
        let token = shown.body.split_once("name=\"token\" value=\"");
        let token = token.unwrap_or_else(|| panic!("nothing waits: {}", shown.body));
        let token = token.1.split_once('"').unwrap().0;
        let form = format!("token={token}&approved=yes");
        let given = post_with(&self.address, path, &[], form.as_bytes());
        assert!(given.body.contains("has run"), "{}", given.body);
    }
}

/// Where a person approves a call that was not made.
fn page_of(told: &Value) -> String {
    assert_eq!(code(told), "CONFIRMATION_REQUIRED", "{told}");
    let url = &told["_meta"]["dev.windlass/error"]["details"]["approveAt"];
    url.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_approved_is_told_and_makes_no_further_call() {
    let external = ("mcp_server.assume_external_content", "true");
    let read = json!({"sideEffects": "read_only", "requiresConfirmation": true, "confirmation": {"preview": "Look at {what}"}});
    for (tool, keys) in [
        (json!({"repeatable": true}), vec![external]),
        (read, vec![]),
        (consent(), vec![]),
    ] {
        let scene = scene(tool.clone(), &keys).await;
        let done = json!({"done": true});
        // Who opens the page comes back with the state of its request, as often as it likes.
        let links = json!({"elicitation": {"url": {}}});
        let asked = scene.change(&[], json!({"arguments": {"what": "one"}}), &links);
        let url = &asked["inputRequests"]["approval"]["params"]["url"];
        scene.approve(url.as_str().unwrap_or_else(|| panic!("{tool} {asked}")));
        let opened = answered(&asked, "one", json!({"action": "accept"}));
        for _ in 0..3 {
            let told = scene.change(&[], opened.clone(), &links);
            assert_eq!(told["structuredContent"], done, "{tool} {told}");
        }
        assert_eq!(scene.changes.made(), ["one"], "{tool}");
        // Who cannot be sent there sends the same call.
        let told = scene.change(&[], json!({"arguments": {"what": "two"}}), &json!({}));
        scene.approve(&page_of(&told));
        assert_eq!(scene.calls("two")["structuredContent"], done, "{tool}");
        assert_eq!(scene.changes.made(), ["one", "two"], "{tool}");
        // The same with a key, which is for one call.
        let meta = json!({"dev.windlass/idempotency-key": "k"});
        let keyed = json!({"arguments": {"what": "three"}, "_meta": meta});
        let told = scene.change(&[], keyed.clone(), &json!({}));
        scene.approve(&page_of(&told));
        for _ in 0..3 {
            let told = scene.change(&[], keyed.clone(), &json!({}));
            assert_eq!(told["structuredContent"], done, "{tool} {told}");
        }
        // A form is answered once, too.
        let asked = scene.change(&[], json!({"arguments": {"what": "four"}}), &forms());
        for _ in 0..3 {
            let told = scene.change(&[], answered(&asked, "four", yes()), &forms());
            assert_eq!(told["structuredContent"], done, "{tool} {told}");
        }
        assert_eq!(
            scene.changes.made(),
            ["one", "two", "three", "four"],
            "{tool}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_of_a_call_that_may_be_repeated_is_for_one_call() {
    let external = ("mcp_server.assume_external_content", "true");
    let scene = scene(json!({"repeatable": true}), &[external]).await;
    for made in [1, 2] {
        scene.approve(&page_of(&scene.calls("one")));
        assert_eq!(
            scene.calls("one")["structuredContent"],
            json!({"done": true})
        );
        assert_eq!(scene.changes.made().len(), made);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_of_several_calls_at_once_is_for_one_of_them() {
    let scene = Arc::new(scene(json!({}), &[]).await);
    for round in 1..=10_usize {
        let together = Arc::new(Barrier::new(8));
        let calling: Vec<_> = (0..8)
            .map(|number| {
                let (scene, together) = (scene.clone(), together.clone());
                thread::spawn(move || {
                    let meta = json!({"dev.windlass/idempotency-key": format!("k{round}")});
                    let arguments = json!({"what": format!("{round}-{number}")});
                    together.wait();
                    let params = json!({"arguments": arguments, "_meta": meta});
                    scene.change(&[], params, &json!({}))
                })
            })
            .collect();
        let results = calling.into_iter().map(|call| call.join().unwrap());
        let done = results.filter(|result| match result.get("structuredContent") {
            Some(_) => true,
            None => {
                assert_eq!(code(result), "CONFLICT", "{result}");
                false
            }
        });
        assert_eq!(done.count(), 1);
        assert_eq!(scene.changes.made().len(), round);
    }
}

/// A tool that changes something and has much to say of it.
struct Tell;

impl Handler for Tell {
    fn execute(&self, _: Invocation) -> Execution {
        let rows: Vec<String> = (0..500).map(|row| format!("row number {row}")).collect();
        Execution::Pending(Box::pin(async move {
            Ok(Success::new(json!({ "rows": rows })))
        }))
    }
}

/// The results of one call of it and of the same once more.
async fn told_twice(receipt_bytes_max: &str) -> [Value; 2] {
    let (data, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rows = json!({"type": "array", "items": {"type": "string"}});
    let declared = json!({"type": "object", "properties": {"rows": rows}, "required": ["rows"]});
    write_tool(tools.path(), json!({"responseSchema": declared}));
    let folder = tools.path().display().to_string();
    let keys = [
        ("folders.tools", folder.as_str()),
        ("mcp_server.enabled", "true"),
        ("mcp_server.assume_external_content", "false"),
        ("text.limits.projection_characters_max", "1000"),
        ("store.receipt_bytes_max", receipt_bytes_max),
    ];
    let tell: Arc<dyn Handler> = Arc::new(Tell);
    let server = server::start(Setup {
        config: config(data.path(), &keys),
        handlers: BTreeMap::from([(ToolId::parse("change").unwrap(), tell)]),
        watch: false,
    });
    let server = server.await.unwrap();
    let scene = Scene {
        address: server.address().to_string(),
        changes: Changes::new(),
        data,
        _tools: tools,
        _server: server,
    };
    [scene.calls("one"), scene.calls("one")]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_comes_again_gets_the_whole_result_again() {
    let [first, again] = told_twice("262144").await;
    assert_eq!(first["structuredContent"]["rows"][499], "row number 499");
    assert_eq!(again["_meta"]["dev.windlass/replayed"], true);
    assert_eq!(again["structuredContent"], first["structuredContent"]);
    assert!(text(&again).len() < 1_000, "a model reads the beginning");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_kept_of_a_result_is_no_structured_content() {
    let [first, again] = told_twice("1000").await;
    assert_eq!(first["structuredContent"]["rows"][499], "row number 499");
    assert_eq!(again["_meta"]["dev.windlass/replayed"], true);
    assert_eq!(again.get("structuredContent"), None, "{again}");
}
