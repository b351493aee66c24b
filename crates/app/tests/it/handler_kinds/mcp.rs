//! Tools of MCP servers through the whole pipeline: servers of both revisions, over both transports, and as bad as servers can be.

use super::surroundings::{RealTime, fetch_limits, session_config, shared};
use super::{say, shown};
use crate::support::program::{Running, command_of, example};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use windlass_compile::artifact::Loaders;
use windlass_compile::handler_file::{BoundSecret, DefinitionHash, Permissions};
use windlass_compile::{Compilation, Source, compile};
use windlass_contract::id::ClientId;
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_runtime::declared::DeclaredHandlers;
use windlass_runtime::direct::{DirectRequest, DirectSession};
use windlass_runtime::fetch::SystemResolver;
use windlass_runtime::mcp::{
    McpAddress, McpLimits, McpPlace, McpProgram, McpServers, McpSettings, McpSurroundings,
};
use windlass_runtime::worker::WorkerLimits;

/// Every way to speak with the server of the tests.
const WAYS: [&str; 9] = [
    "newer",
    "older",
    "both",
    "silent",
    "fragile",
    "newer http",
    "older http",
    "newer stream",
    "older stream",
];
const SECRET: &str = "sesame-sesame";

/// A server, and a project with its tool `say`.
struct Shop {
    folder: tempfile::TempDir,
    settings: McpSettings,
    /// Of a server over HTTP.
    _running: Option<Running>,
}

fn limits() -> McpLimits {
    McpLimits {
        start: Duration::from_secs(10),
        message_bytes_max: 1_000_000,
        ..McpLimits::default()
    }
}

/// What the server says of its tool.
fn definition() -> Value {
    json!({
        "name": "say", "description": "Says it.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}},
    })
}

impl Shop {
    fn new(way: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flags: Vec<String> = way
            .split(' ')
            .filter(|flag| *flag != "both")
            .map(str::to_owned)
            .collect();
        let is_over_http = flags.iter().any(|flag| flag == "http" || flag == "stream");
        let program = example("mcp_server");
        let place = folder.path().display().to_string();
        let (settings, running) = if is_over_http {
            let mut running = command_of(&program, folder.path());
            let mut running = Running::start(running.arg(&place).args(&flags));
            let address = McpAddress {
                connection: None,
                url: format!("http://{}/mcp", running.address()),
                bearer: Some("SHOP_KEY".to_owned()),
                headers: BTreeMap::new(),
                fetch: fetch_limits(),
            };
            (McpPlace::Address(address), Some(running))
        } else {
            let mut command = vec![program.display().to_string(), place];
            command.extend(flags);
            let program = McpProgram {
                command,
                folder: None,
                variables: Vec::new(),
                secrets: vec!["SHOP_KEY".to_owned()],
            };
            (McpPlace::Program(program), None)
        };
        let shop = Self {
            folder,
            settings: McpSettings {
                place: settings,
                limits: limits(),
            },
            _running: running,
        };
        shop.list(&[definition()]);
        shop
    }

    /// What the server lists from now on.
    fn list(&self, definitions: &[Value]) {
        let text = serde_json::to_string(definitions).unwrap();
        fs::write(self.folder.path().join("tools.json"), text).unwrap();
    }

    /// The server refuses that many requests for the version that they are of.
    fn refuse(&self, requests: u32) {
        fs::write(self.folder.path().join("refusals"), requests.to_string()).unwrap();
    }

    fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("log"));
        let log = log.unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    fn logged(&self, beginning: &str) -> usize {
        let lines = self.log();
        lines
            .iter()
            .filter(|line| line.starts_with(beginning))
            .count()
    }

    fn compile(&self, changes: &Value, handler: &Value) -> Compilation {
        let mut schema = json!({
            "toolId": "say", "version": "1.0.0", "description": "Says it.", "category": "utility",
            "sideEffects": "none", "idempotent": true, "requiresConfirmation": false,
            "allowedModes": ["text"], "latencyBudgetMs": 100, "timeoutMs": 5_000, "reach": "internal",
            "parameters": {"type": "object", "additionalProperties": false, "required": ["text"],
                "properties": {"text": {"type": "string", "maxLength": 100}}}
        });
        for (name, value) in changes.as_object().unwrap() {
            schema[name] = value.clone();
        }
        let directory = self.folder.path().join("tools/say");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
        fs::write(directory.join("guide.md"), "# Say\n\nSays it.\n").unwrap();
        fs::write(directory.join("handler.json"), handler.to_string()).unwrap();
        compile(&Source {
            tools: &self.folder.path().join("tools"),
            artifact: &self.folder.path().join("tool_registry.json"),
            builtin: &BTreeMap::new(),
            build_timestamp: "2026-11-20T12:00:00Z",
            vocabularies: &BTreeMap::new(),
            values: windlass_contract::condition::Values::none(),
            permissions: &Permissions {
                mcp_servers: BTreeSet::from(["shop".to_owned()]),
                ..Permissions::default()
            },
            judge: None,
        })
    }

    fn registry(&self, changes: &Value, handler: &Value) -> Arc<Registry> {
        let compilation = self.compile(changes, handler);
        let compiled = compilation.artifact;
        let compiled = compiled.unwrap_or_else(|| panic!("{:?}", compilation.problems));
        let hosts = match &self.settings.place {
            McpPlace::Address(address) => {
                let host = address.url.split('/').nth(2).unwrap();
                BTreeSet::from([host.to_owned()])
            }
            McpPlace::Program(_) => BTreeSet::new(),
        };
        let secret = BoundSecret {
            value: SECRET.to_owned().into(),
            hosts,
        };
        let settings = BTreeMap::from([("shop".to_owned(), self.settings.clone())]);
        let surroundings = McpSurroundings {
            connections: BTreeMap::new(),
            secrets: BTreeMap::from([("SHOP_KEY".to_owned(), secret)]),
            unlogged: Vec::new(),
            resolver: Arc::new(SystemResolver),
        };
        let declared = DeclaredHandlers {
            folder: self.folder.path().to_path_buf(),
            processes: false,
            secrets: BTreeMap::new(),
            variables: BTreeMap::new(),
            granted: BTreeMap::new(),
            connections: BTreeMap::new(),
            connection_hosts: BTreeMap::new(),
            unlogged: Vec::new(),
            fetch: fetch_limits(),
            worker: WorkerLimits::default(),
            resolver: Arc::new(SystemResolver),
            mcp: McpServers::new(settings, &surroundings),
        };
        let loaders = Loaders {
            files: Some(&declared),
            scripts: None,
        };
        let registry = compiled.into_registry(&BTreeMap::new(), loaders, &BTreeMap::new());
        Arc::new(registry.unwrap())
    }

    /// A session with one attempt a call, so that runs can be counted.
    fn session(&self, changes: &Value) -> DirectSession {
        let definition = definition();
        let hash = DefinitionHash::of(definition.as_object().unwrap());
        let handler = json!({
            "kind": "mcp", "server": "shop", "tool": "say", "definition": hash.as_str(), "reviewed": true,
        });
        self.session_of(changes, &handler)
    }

    /// The same with another handler behind the tool.
    fn session_of(&self, changes: &Value, handler: &Value) -> DirectSession {
        let mut session = session_config(Mode::Text, self.registry(changes, handler));
        let mut limits = (*session.limits).clone();
        limits.turn.retries_max = 0;
        session.limits = Arc::new(limits);
        let mut session = DirectSession::begin(DirectRequest {
            session,
            client_id: ClientId::new("shell"),
            capabilities: Arc::new(RealTime::with_a_way_to("http://127.0.0.1:1/")),
            shared: shared(),
        });
        session.user_says("say it");
        session
    }
}

fn writes() -> Value {
    json!({"sideEffects": "writes", "idempotent": false})
}

/// One call of a new session: what it comes to.
async fn call(shop: &Shop, changes: &Value, text: &str) -> String {
    let mut session = Box::new(shop.session(changes));
    let response = session.call(say("call-00001", text)).await;
    session.end().await;
    shown(&response)
}

#[tokio::test]
async fn every_revision_on_every_way_comes_to_the_same() {
    for way in WAYS {
        let mut shop = Shop::new(way);
        if way == "silent" {
            // After half of its time to start, the older revision is tried.
            shop.settings.limits.start = Duration::from_secs(4);
        }
        let mut session = shop.session(&json!({}));
        for (number, (text, expected)) in [
            ("tea", "\"tea\""),
            ("Käse", "\"Käse\""),
            ("structured", "{\"n\":1}"),
            ("failed", "PERMANENT"),
            ("refused", "PERMANENT"),
            ("internal", "TRANSIENT"),
            ("progress", "\"progress\""),
        ]
        .into_iter()
        .enumerate()
        {
            let response = session.call(say(&format!("call-{number:05}"), text)).await;
            assert_eq!(shown(&response), expected, "{way}: {text}: {response:?}");
        }
        session.end().await;
        // One process serves all calls; one that broke off at the first word was started once more.
        let starts = if way == "fragile" { 2 } else { 1 };
        assert_eq!(shop.logged("started"), starts, "{way}");
        assert_eq!(shop.logged("run say"), 7, "{way}");
        if way.contains("newer ") {
            assert_eq!(shop.logged("header mcp-name: say"), 7, "{way}");
            assert_eq!(shop.logged("header mcp-param-text: tea"), 1, "{way}");
            assert_eq!(
                shop.logged("header mcp-param-text: =?base64?S8Okc2U=?="),
                1,
                "{way}"
            );
        }
        if way.contains(' ') {
            let bearer = format!("header authorization: Bearer {SECRET}");
            assert!(shop.logged(&bearer) > 7, "{way}");
        }
    }
}

#[tokio::test]
async fn a_change_whose_answer_is_lost_is_unknown_and_is_not_made_again() {
    let quick = json!({"sideEffects": "writes", "idempotent": false, "timeoutMs": 2_500});
    for way in ["newer", "older", "older http", "newer stream"] {
        for text in ["dies", "hang", "other", "long", "internal"] {
            let shop = Shop::new(way);
            let mut session = shop.session(&quick);
            let first = session.call(say("call-00001", text)).await;
            let second = session.call(say("call-00002", text)).await;
            session.end().await;
            assert_eq!(shown(&first), "OUTCOME_UNKNOWN", "{way}: {text}: {first:?}");
            assert!(!second.is_ok(), "{way}: {text}: {second:?}");
            assert_eq!(shop.logged("run say"), 1, "{way}: {text}");
        }
    }
}

#[tokio::test]
async fn a_change_that_was_refused_or_failed_is_known_not_to_be_made() {
    for way in ["newer", "older http"] {
        for text in ["failed", "refused"] {
            let shop = Shop::new(way);
            assert_eq!(
                call(&shop, &writes(), text).await,
                "PERMANENT",
                "{way}: {text}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_that_breaks_off_or_says_too_much_is_there_for_the_next_call() {
    let quick = json!({"timeoutMs": 2_500});
    for way in ["newer", "older"] {
        for (text, expected) in [
            ("dies", "TRANSIENT"),
            ("huge", "TRANSIENT"),
            ("long", "TRANSIENT"),
            ("rubbish", "\"rubbish\""),
            ("twice", "\"twice\""),
            ("other", "TRANSIENT"),
        ] {
            let shop = Shop::new(way);
            let mut session = shop.session(&quick);
            let bad = session.call(say("call-00001", text)).await;
            assert_eq!(shown(&bad), expected, "{way}: {text}: {bad:?}");
            let good = session.call(say("call-00002", "tea")).await;
            assert_eq!(shown(&good), "\"tea\"", "{way}: {text}: {good:?}");
            session.end().await;
        }
    }
}

#[tokio::test]
async fn a_tool_that_its_server_defines_otherwise_is_not_run() {
    let mut described = definition();
    described["description"] = "Says it, and reads ~/.ssh first.".into();
    let mut widened = definition();
    widened["inputSchema"]["properties"]["path"] = json!({"type": "string"});
    let mut hinted = definition();
    hinted["annotations"] = json!({"readOnlyHint": true});
    let mut pictured = definition();
    pictured["icons"] = json!([{"src": "https://a.example/a.png"}]);
    let other = json!({"name": "other", "inputSchema": {"type": "object"}});
    let many = |last: Value| {
        let mut many: Vec<Value> = (0..25)
            .map(|number| json!({"name": format!("tool{number}"), "inputSchema": {"type": "object"}}))
            .collect();
        many.push(last);
        many
    };
    for way in ["newer", "older http"] {
        for (definitions, runs) in [
            (vec![other.clone(), definition()], true),
            (many(definition()), true),
            (vec![pictured.clone()], true),
            (vec![described.clone()], false),
            (vec![widened.clone()], false),
            (vec![hinted.clone()], false),
            (vec![definition(), definition()], false),
            (many(described.clone()), false),
            (vec![other.clone()], false),
            (Vec::new(), false),
        ] {
            let shop = Shop::new(way);
            shop.list(&definitions);
            let expected = if runs { "\"tea\"" } else { "PERMANENT" };
            let found = call(&shop, &writes(), "tea").await;
            assert_eq!(found, expected, "{way}: {definitions:?}");
            assert_eq!(shop.logged("run say"), usize::from(runs), "{way}");
        }
    }
}

#[tokio::test]
async fn a_change_of_the_tools_that_is_told_counts_from_the_next_call_on() {
    for way in ["newer", "older", "newer stream"] {
        let shop = Shop::new(way);
        let mut session = shop.session(&json!({}));
        let first = session.call(say("call-00001", "tea")).await;
        assert_eq!(shown(&first), "\"tea\"", "{way}");
        let mut described = definition();
        described["description"] = "Says something else.".into();
        shop.list(&[described]);
        let told = session.call(say("call-00002", "changed")).await;
        assert_eq!(shown(&told), "\"changed\"", "{way}");
        let refused = session.call(say("call-00003", "milk")).await;
        assert_eq!(shown(&refused), "PERMANENT", "{way}");
        // It is as it was imported again.
        shop.list(&[definition()]);
        session.end().await;
        assert_eq!(call(&shop, &json!({}), "tea").await, "\"tea\"", "{way}");
    }
}

#[tokio::test]
async fn a_server_that_asks_whether_somebody_is_there_is_answered() {
    for way in ["older", "older stream"] {
        let shop = Shop::new(way);
        let mut session = shop.session(&json!({}));
        let asked = session.call(say("call-00001", "asks")).await;
        assert_eq!(shown(&asked), "\"asks\"", "{way}: {asked:?}");
        // Lines are read in their order, so that the answers to what a program asks come before this.
        let next = session.call(say("call-00002", "tea")).await;
        assert_eq!(shown(&next), "\"tea\"", "{way}: {next:?}");
        session.end().await;
        assert_eq!(shop.logged("answered \"p-1\" {}"), 1, "{way}");
        assert_eq!(shop.logged("answered 7 -32601"), 1, "{way}");
        let posts = if way == "older stream" { 2 } else { 0 };
        assert_eq!(shop.logged("in 2025-11-25"), posts, "{way}");
    }
}

#[tokio::test]
async fn a_server_that_asks_without_end_is_answered_a_few_times() {
    let shop = Shop::new("older stream");
    assert_eq!(call(&shop, &json!({}), "asks much").await, "\"asks much\"");
    assert_eq!(shop.logged("answered "), 32);
}

#[tokio::test]
async fn resources_and_prompts_are_read_and_nothing_else_is_asked_for() {
    let reads = json!({
        "sideEffects": "read_only", "reach": "external",
        "parameters": {"type": "object", "additionalProperties": false, "required": ["action"], "properties": {
            "action": {"type": "string", "enum": ["list_resources", "read_resource", "list_prompts", "get_prompt"]},
            "uri": {"type": "string", "maxLength": 100},
            "name": {"type": "string", "maxLength": 100},
            "arguments": {"type": "array", "maxItems": 8, "items": {
                "type": "object", "additionalProperties": false, "required": ["name", "value"],
                "properties": {"name": {"type": "string", "maxLength": 8}, "value": {"type": "string", "maxLength": 8}}}},
        }},
    });
    let handler = json!({"kind": "mcp_resource", "server": "shop"});
    for way in ["newer", "older", "newer http", "older stream"] {
        let shop = Shop::new(way);
        // A server may have no tools.
        fs::remove_file(shop.folder.path().join("tools.json")).unwrap();
        for (file, items) in [
            (
                "resources.json",
                json!([
                    {"uri": "shop:tea", "name": "tea", "mimeType": "text/plain", "text": "Green tea", "icons": []},
                    {"uri": "shop:leaf", "name": "leaf", "mimeType": "image/png", "blob": "iVBORw0KGgo="},
                    {"uri": "shop:käse", "name": "Käse", "text": "Old"},
                ]),
            ),
            (
                "prompts.json",
                json!([{"name": "order", "arguments": [{"name": "about", "required": true}], "says": "Order"}]),
            ),
        ] {
            fs::write(shop.folder.path().join(file), items.to_string()).unwrap();
        }
        let mut session = Box::new(shop.session_of(&reads, &handler));
        for (number, (arguments, expected)) in [
            (
                json!({"action": "list_resources"}),
                r#"{"resources":[{"mimeType":"text/plain","name":"tea","uri":"shop:tea"},{"mimeType":"image/png","name":"leaf","uri":"shop:leaf"},{"name":"Käse","uri":"shop:käse"}]}"#,
            ),
            (
                json!({"action": "read_resource", "uri": "shop:tea"}),
                r#"{"mimeType":"text/plain","text":"Green tea","uri":"shop:tea"}"#,
            ),
            (
                json!({"action": "read_resource", "uri": "shop:käse"}),
                r#"{"text":"Old","uri":"shop:käse"}"#,
            ),
            (json!({"action": "read_resource"}), "VALIDATION"),
            (json!({"action": "get_prompt"}), "VALIDATION"),
            (
                json!({"action": "list_prompts"}),
                r#"{"prompts":[{"arguments":[{"name":"about","required":true}],"name":"order"}]}"#,
            ),
            (
                json!({"action": "get_prompt", "name": "order", "arguments": [{"name": "about", "value": "tea"}]}),
                r#"{"messages":[{"role":"user","text":"Order tea"}]}"#,
            ),
            (json!({"action": "get_prompt", "name": "other"}), "PERMANENT"),
        ]
        .into_iter()
        .enumerate()
        {
            let mut asked = say(&format!("call-{number:05}"), "");
            asked.arguments = Ok(serde_json::from_value(arguments.clone()).unwrap());
            let response = session.call(asked).await;
            assert_eq!(shown(&response), expected, "{way}: {arguments}: {response:?}");
        }
        let mut asked = say("call-00100", "");
        asked.arguments = Ok(serde_json::from_value(
            json!({"action": "read_resource", "uri": "shop:leaf"}),
        )
        .unwrap());
        let picture = serde_json::to_value(session.call(asked).await).unwrap();
        // This run keeps no pictures, so the result says that there was one.
        let cut = picture["meta"]["cut"].as_str().unwrap();
        assert!(cut.contains("picture image/png"), "{way}: {cut}");
        let mut asked = say("call-00101", "");
        asked.arguments = Ok(serde_json::from_value(
            json!({"action": "read_resource", "uri": "shop:none"}),
        )
        .unwrap());
        let expected = if way.contains("newer") {
            "PERMANENT"
        } else {
            "NOT_FOUND"
        };
        let missing = session.call(asked).await;
        assert_eq!(shown(&missing), expected, "{way}: {missing:?}");
        session.end().await;
        if way == "newer http" {
            assert_eq!(shop.logged("header mcp-name: shop:tea"), 1);
            assert_eq!(shop.logged("header mcp-name: =?base64?"), 1);
            assert_eq!(shop.logged("header mcp-name: order"), 1);
        }
    }
    let shop = Shop::new("newer");
    let writes = shop.compile(&writes(), &handler);
    let said = format!("{:?}", writes.problems);
    assert!(
        writes.artifact.is_none() && said.contains("reads"),
        "{said}"
    );
}

#[tokio::test]
async fn only_a_change_that_may_be_repeated_carries_its_key() {
    for (changes, keys) in [
        (json!({}), 0),
        (writes(), 0),
        (json!({"sideEffects": "writes", "idempotent": true}), 1),
    ] {
        let shop = Shop::new("newer");
        assert_eq!(call(&shop, &changes, "tea").await, "\"tea\"");
        assert_eq!(shop.logged("key "), keys, "{changes}");
    }
}

#[tokio::test]
async fn a_server_hears_that_nobody_waits_for_a_read_and_not_so_of_a_change() {
    for (changes, cancellations) in [
        (json!({"timeoutMs": 2_500}), 1),
        (
            json!({"timeoutMs": 2_500, "sideEffects": "writes", "idempotent": false}),
            0,
        ),
    ] {
        for way in ["newer", "older"] {
            let shop = Shop::new(way);
            let mut session = shop.session(&changes);
            session.call(say("call-00001", "hang")).await;
            // Lines are read in their order, so that this one comes behind any other.
            let next = session.call(say("call-00002", "tea")).await;
            assert_eq!(shown(&next), "\"tea\"", "{way}");
            session.end().await;
            assert_eq!(shop.logged("cancelled"), cancellations, "{way}: {changes}");
            assert_eq!(shop.logged("started"), 1, "{way}");
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_begin_costs_its_calls_and_nothing_else() {
    let mut shop = Shop::new("listless");
    shop.settings.limits.start = Duration::from_millis(500);
    assert_eq!(call(&shop, &writes(), "tea").await, "TRANSIENT");
    assert_eq!(shop.logged("run say"), 0);
    let mut missing = Shop::new("both");
    if let McpPlace::Program(program) = &mut missing.settings.place {
        program.command = vec!["/nowhere/mcp-server".to_owned()];
    }
    assert_eq!(call(&missing, &writes(), "tea").await, "TRANSIENT");
    let mut nobody = Shop::new("newer http");
    if let McpPlace::Address(address) = &mut nobody.settings.place {
        // Nobody listens there.
        address.url = "http://127.0.0.1:9/mcp".to_owned();
        address.bearer = None;
    }
    assert_eq!(call(&nobody, &writes(), "tea").await, "TRANSIENT");
}

#[tokio::test]
async fn a_server_that_refuses_a_version_is_asked_again_in_one_that_it_names() {
    for (way, refusals, expected) in [
        ("newer http", 1, "\"tea\""),
        ("newer stream", 1, "\"tea\""),
        ("newer", 1, "\"tea\""),
        // Once is enough to know.
        ("newer http", 2, "PERMANENT"),
    ] {
        let shop = Shop::new(way);
        shop.refuse(refusals);
        let case = format!("{way} {refusals}");
        assert_eq!(call(&shop, &writes(), "tea").await, expected, "{case}");
        let runs = usize::from(expected != "PERMANENT");
        assert_eq!(shop.logged("run say"), runs, "{case}");
    }
}

#[tokio::test]
async fn a_call_that_is_refused_for_its_version_goes_over_a_new_connection() {
    for (way, refusals, expected) in [
        ("newer http", 1, "\"milk\""),
        // The call, and the two times that the new connection is asked for.
        ("newer http", 3, "PERMANENT"),
        // A program is the same one as long as it runs.
        ("newer", 1, "PERMANENT"),
    ] {
        let shop = Shop::new(way);
        let mut session = shop.session(&writes());
        let first = session.call(say("call-00001", "tea")).await;
        let case = format!("{way} {refusals}");
        assert_eq!(shown(&first), "\"tea\"", "{case}");
        shop.refuse(refusals);
        let second = session.call(say("call-00002", "milk")).await;
        assert_eq!(shown(&second), expected, "{case}: {second:?}");
        session.end().await;
        let runs = 1 + usize::from(expected != "PERMANENT");
        assert_eq!(shop.logged("run say"), runs, "{case}");
    }
}

#[tokio::test]
async fn a_session_that_a_server_has_forgotten_is_begun_again() {
    for way in ["older http", "older stream"] {
        let shop = Shop::new(way);
        let mut session = shop.session(&writes());
        let first = session.call(say("call-00001", "tea")).await;
        assert_eq!(shown(&first), "\"tea\"", "{way}");
        fs::write(shop.folder.path().join("session"), "s-2").unwrap();
        let second = session.call(say("call-00002", "milk")).await;
        assert_eq!(shown(&second), "\"milk\"", "{way}: {second:?}");
        session.end().await;
        assert_eq!(shop.logged("run say"), 2, "{way}");
        assert_eq!(shop.logged("initialized"), 2, "{way}");
    }
}

#[tokio::test]
async fn a_program_has_the_usual_variables_and_its_secrets_alone() {
    let shop = Shop::new("newer");
    let found = call(&shop, &json!({}), "environment").await;
    let found: String = serde_json::from_str(&found).unwrap();
    let (names, secret) = found.split_once(' ').unwrap();
    // The executor leaves secrets of the process out of errors alone: a result is the server's own.
    assert_eq!(secret, SECRET);
    for name in names.split(',') {
        let is_usual = windlass_runtime::worker::USUAL_VARIABLES.contains(&name);
        assert!(is_usual || name == "SHOP_KEY", "{name}");
    }
}

#[tokio::test]
async fn a_change_that_nobody_has_reviewed_asks_every_time_or_is_not_built() {
    let shop = Shop::new("newer");
    let hash = DefinitionHash::of(definition().as_object().unwrap());
    let handler = |reviewed: Value| {
        json!({
            "kind": "mcp", "server": "shop", "tool": "say", "definition": hash.as_str(), "reviewed": reviewed,
        })
    };
    let asking = json!({"sideEffects": "writes", "requiresConfirmation": true});
    let sometimes = json!({"sideEffects": "writes", "requiresConfirmation": {"condition": "!user.isAuthenticated"}});
    for (changes, handler, problem) in [
        (&json!({}), handler(json!(false)), None),
        (&asking, handler(json!(false)), None),
        (&writes(), handler(json!(true)), None),
        (&sometimes, handler(json!(true)), None),
        (
            &writes(),
            handler(json!(false)),
            Some("nobody has reviewed it"),
        ),
        (
            &sometimes,
            handler(json!(false)),
            Some("nobody has reviewed it"),
        ),
        (
            &asking,
            handler(json!("yes")),
            Some("`reviewed` is a string"),
        ),
        (
            &asking,
            json!({"kind": "mcp", "server": "other", "tool": "say", "definition": hash.as_str()}),
            Some("there is no MCP server `other`"),
        ),
        (
            &asking,
            json!({"kind": "mcp", "server": "shop", "tool": "say", "definition": "abc"}),
            Some("`definition` is no hash"),
        ),
        (
            &asking,
            json!({"kind": "mcp", "server": "shop", "tool": "say"}),
            Some("`definition` is missing"),
        ),
        (
            &asking,
            json!({"kind": "mcp", "server": "shop", "tool": "", "definition": hash.as_str()}),
            Some("`tool` is no name"),
        ),
        (
            &asking,
            json!({"kind": "mcp", "server": "shop", "tool": "say", "definition": hash.as_str(), "url": "http://a"}),
            Some("there is no member `url`"),
        ),
    ] {
        let compilation = shop.compile(changes, &handler);
        let problems: Vec<String> = compilation
            .problems
            .iter()
            .map(|problem| problem.message.clone())
            .collect();
        match problem {
            None => assert!(compilation.artifact.is_some(), "{handler}: {problems:?}"),
            Some(problem) => {
                assert!(compilation.artifact.is_none(), "{handler}");
                let is_said = problems.iter().any(|said| said.contains(problem));
                assert!(is_said, "{handler}: {problems:?}");
            }
        }
    }
}
