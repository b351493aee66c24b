//! Numbers through every kind of handler: each reaches it, and comes back from it, with the digits that were written, or nothing
//! runs.

use super::surroundings::{Engine, RealTime, Trusting, fetch_limits, session_config, shared};
use super::{SECRET, shown};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use windlass_compile::artifact::Loaders;
use windlass_compile::handler_file::{BoundSecret, Permissions};
use windlass_compile::{Source, compile};
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::{ClientId, SessionId, ToolId};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_runtime::declared::DeclaredHandlers;
use windlass_runtime::direct::{DirectRequest, DirectSession, call_asking};
use windlass_runtime::fetch::SystemResolver;
use windlass_runtime::worker::WorkerLimits;
use windlass_session::model::IncomingCall;

/// A number, and whether a double gives it back, whether it is an integer with plain digits.
const NUMBERS: [(&str, bool, bool); 9] = [
    ("2512292042121000001", false, true),
    ("2512292042121000000", true, true),
    ("9007199254740993", false, true),
    ("18446744073709551616", false, true),
    ("0.1000000000000000055511151231257827", false, false),
    ("1000", true, true),
    ("1000.0", true, false),
    ("1e+3", true, false),
    ("-0", true, true),
];

/// Says what it was given, and gives the number back.
fn echo(seen: &str) -> String {
    format!("{{\"seen\":{seen:?},\"number\":{seen}}}")
}

/// The number of JSON text that holds one.
fn amount_in(text: &str) -> &str {
    let (_, rest) = text.split_once("\"amount\":").unwrap();
    rest.split([',', '}']).next().unwrap()
}

struct InRust(Arc<AtomicUsize>);

impl Handler for InRust {
    fn execute(&self, invocation: Invocation) -> Execution {
        self.0.fetch_add(1, Ordering::SeqCst);
        let data: Value =
            serde_json::from_str(&echo(amount_in(&invocation.arguments.to_text()))).unwrap();
        Execution::Ready(Ok(Success::new(data)))
    }
}

/// Books a table, each time that it runs.
struct Booking(Arc<AtomicUsize>);

impl Handler for Booking {
    fn execute(&self, invocation: Invocation) -> Execution {
        self.0.fetch_add(1, Ordering::SeqCst);
        let given = invocation.arguments.to_value();
        Execution::Ready(Ok(Success::new(json!({ "booked": given }))))
    }
}

/// Has the tool run that its argument names, with its amount.
struct Outer;

impl Handler for Outer {
    fn execute(&self, invocation: Invocation) -> Execution {
        let tool = invocation.arguments.get("tool").unwrap_or_default();
        let amount = invocation.arguments.get("amount").unwrap_or_default();
        Execution::Pending(Box::pin(async move {
            let tool = tool.as_str().unwrap_or_default().to_owned();
            let answer = invocation
                .context
                .call_tool(tool, json!({ "amount": amount }))
                .await;
            Ok(Success::new(
                json!({"inner": answer.is_ok(), "shown": shown(&answer)}),
            ))
        }))
    }
}

const SCRIPT: &str = "export async function execute({ args }) {
  return { ok: true, data: { seen: String(args.amount), number: args.amount } };
}";

/// A program of a language that keeps every digit.
const PROCESS: &str = r#"while read -r line; do id=${line#*\"id\":}; id=${id%%,*}; n=${line#*\"amount\":}; n=${n%%[,\}]*}
  printf '{"id":%s,"result":{"ok":true,"data":{"seen":"%s","number":%s}}}\n' $id "$n" "$n"; done"#;

async fn serve(mut stream: TcpStream) {
    let mut read = Vec::new();
    let (head, body) = loop {
        if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
            return;
        }
        let whole = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = whole.split_once("\r\n\r\n")
            && serde_json::from_str::<Value>(body).is_ok()
        {
            break (head.to_owned(), body.to_owned());
        }
    };
    let amount = amount_in(&body);
    let data = echo(amount);
    let body = match head.starts_with("POST /hook") {
        true => format!("{{\"ok\":true,\"data\":{data}}}"),
        // The address has the same digits as the body.
        false => {
            let encoded = amount.replace('+', "%2B");
            let is_same = head.starts_with(&format!("POST /pay/{encoded}?amount={encoded} "));
            assert!(is_same, "{head}");
            data
        }
    };
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

struct Shop {
    _folder: tempfile::TempDir,
    registry: Arc<Registry>,
    url: String,
    runs: Arc<AtomicUsize>,
}

impl Shop {
    async fn open() -> Self {
        Self::open_with("1.0.0", &Value::Null).await
    }

    /// With this version of the tool that books, and this key.
    async fn open_with(version: &str, effect_key: &Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://127.0.0.1:{}/",
            listener.local_addr().unwrap().port()
        );
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let process = |numbers: Option<&str>| {
            let mut file = json!({"kind": "process", "command": ["sh", "-c", PROCESS]});
            if let Some(numbers) = numbers {
                file["numbers"] = numbers.into();
            }
            ("handler.json", file.to_string())
        };
        let tools = folder.path().join("tools");
        for (name, code) in [
            ("in-rust", None),
            ("asked", None),
            ("outer", None),
            ("book", None),
            ("in-script", Some(("handler.js", SCRIPT.to_owned()))),
            ("by-http", Some(("handler.json", json!({
                "kind": "http", "method": "POST", "url": format!("{url}pay/{{amount}}"),
                "query": {"amount": "{amount}"}, "body": {"inside": [{"amount": "{amount}"}]},
            }).to_string()))),
            ("by-webhook", Some(("handler.json", json!({
                "kind": "webhook", "url": format!("{url}hook"), "secret": "{secret:HOOK}",
            }).to_string()))),
            ("by-process", Some(process(None))),
            ("by-python", Some(process(Some("integers")))),
            ("by-node", Some(process(Some("doubles")))),
        ] {
            let directory = tools.join(name);
            std::fs::create_dir_all(&directory).unwrap();
            let (is_asked, writes) = (name == "asked", ["asked", "book", "in-rust"].contains(&name));
            let mut schema = json!({
                "toolId": name.replace('-', "_"), "version": "1.0.0", "category": "utility",
                "idempotent": !writes, "latencyBudgetMs": 1_000, "description": "Pays.", "sideEffects": if writes { "writes" } else { "none" },
                "requiresConfirmation": is_asked, "allowedModes": ["text"],
                "parameters": {"type": "object", "additionalProperties": false, "required": ["amount"],
                    "properties": {"amount": {"type": "number"}}},
            });
            if name == "outer" {
                schema["parameters"]["properties"]["tool"] = json!({"type": "string"});
            }
            if name == "book" {
                schema["parameters"] = json!({
                    "type": "object", "additionalProperties": false, "required": ["at", "for"],
                    "properties": {
                        "at": {"type": "string", "format": "date-time"}, "for": {"type": "string"},
                    },
                });
                schema["version"] = version.into();
                if !effect_key.is_null() {
                    schema["effectKey"] = effect_key.clone();
                }
            }
            if is_asked {
                schema["confirmation"] = json!({"preview": "Pay {amount}"});
            }
            std::fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
            std::fs::write(directory.join("guide.md"), "# Pay\n\nPays.\n").unwrap();
            if let Some((file, text)) = code {
                std::fs::write(directory.join(file), text).unwrap();
            }
        }
        let builtin =
            ["asked", "book", "in_rust", "outer"].map(|id| (ToolId::parse(id).unwrap(), None));
        let artifact = folder.path().join("tool_registry.json");
        let hosts: BTreeSet<String> = url
            .split('/')
            .nth(2)
            .map(str::to_owned)
            .into_iter()
            .collect();
        let compilation = compile(&Source {
            tools: &tools,
            artifact: &artifact,
            builtin: &BTreeMap::from(builtin),
            build_timestamp: "2026-11-20T12:00:00Z",
            vocabularies: &BTreeMap::new(),
            values: windlass_contract::condition::Values::none(),
            permissions: &Permissions {
                processes: true,
                secrets: BTreeMap::from([("HOOK".to_owned(), hosts.clone())]),
                ..Permissions::default()
            },
            judge: Some(&Trusting),
        });
        let compiled = compilation.artifact;
        let compiled = compiled.unwrap_or_else(|| panic!("{:?}", compilation.problems));
        let declared = DeclaredHandlers {
            folder: folder.path().to_path_buf(),
            processes: true,
            secrets: BTreeMap::from([(
                "HOOK".to_owned(),
                BoundSecret {
                    value: SECRET.to_owned().into(),
                    hosts,
                },
            )]),
            variables: BTreeMap::new(),
            granted: BTreeMap::new(),
            connections: BTreeMap::new(),
            connection_hosts: BTreeMap::new(),
            unlogged: Vec::new(),
            fetch: fetch_limits(),
            worker: WorkerLimits::default(),
            resolver: Arc::new(SystemResolver),
            mcp: windlass_runtime::mcp::McpServers::default(),
        };
        let engine = Engine::default();
        let loaders = Loaders {
            scripts: Some(&engine),
            files: Some(&declared),
        };
        let runs = Arc::<AtomicUsize>::default();
        let in_rust: Arc<dyn Handler> = Arc::new(InRust(runs.clone()));
        let booking: Arc<dyn Handler> = Arc::new(Booking(runs.clone()));
        let outer: Arc<dyn Handler> = Arc::new(Outer);
        let handlers = [
            ("asked", &in_rust),
            ("in_rust", &in_rust),
            ("outer", &outer),
            ("book", &booking),
        ];
        let handlers = handlers.map(|(id, handler)| (ToolId::parse(id).unwrap(), handler.clone()));
        let handlers = BTreeMap::from(handlers);
        let registry = compiled.into_registry(&handlers, loaders, &BTreeMap::new());
        Self {
            _folder: folder,
            registry: Arc::new(registry.unwrap()),
            url,
            runs,
        }
    }

    fn request(&self) -> DirectRequest {
        DirectRequest {
            session: session_config(Mode::Text, self.registry.clone()),
            client_id: ClientId::new("shell"),
            capabilities: Arc::new(RealTime::with_a_way_to(&self.url)),
            shared: shared(),
        }
    }
}

fn call(id: usize, tool: &str, arguments: &str) -> IncomingCall {
    IncomingCall {
        id: Some(format!("call-{id:05}").into()),
        name: Some(tool.into()),
        arguments: Ok(serde_json::from_str(arguments).unwrap()),
    }
}

#[tokio::test]
async fn each_kind_of_handler_gets_and_gives_the_digits_that_were_written() {
    let shop = Shop::open().await;
    let mut id = 0;
    for (written, by_doubles, is_integer) in NUMBERS {
        // In a turn of its own, so that no budget and no earlier effect stands in the way.
        for (tool, is_kept) in [
            ("in_rust", true),
            ("by_http", true),
            ("by_webhook", true),
            ("by_process", true),
            ("by_python", by_doubles || is_integer),
            ("by_node", by_doubles),
        ] {
            let mut session = DirectSession::begin(shop.request());
            session.user_says("pay");
            id += 1;
            let arguments = format!("{{\"amount\":{written}}}");
            let response = session.call(call(id, tool, &arguments)).await;
            let what = format!("{tool}, {written}: {response:?}");
            match is_kept {
                true => {
                    // The model reads a projection of this.
                    let text = serde_json::to_string(&response).unwrap();
                    assert!(text.contains(&format!("\"seen\":\"{written}\"")), "{what}");
                    assert!(text.contains(&format!("\"number\":{written}")), "{what}");
                }
                false => refused(&shown(&response), &format!("{response:?}")),
            }
            // The same through a tool that calls it.
            id += 1;
            let arguments = format!("{{\"amount\":{written},\"tool\":{tool:?}}}");
            let response = session.call(call(id, "outer", &arguments)).await;
            if tool != "in_rust" {
                let text = serde_json::to_string(&response).unwrap();
                assert!(text.contains(&format!("\"inner\":{is_kept}")), "{text}");
                let escaped = format!("\\\"number\\\":{written}");
                assert_eq!(text.contains(&escaped), is_kept, "{text}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_approved_is_shown_and_run_digit_for_digit() {
    let shop = Shop::open().await;
    for (id, (written, ..)) in NUMBERS.into_iter().enumerate() {
        let preview = Mutex::new(String::new());
        let arguments = format!("{{\"amount\":{written}}}");
        let response = call_asking(shop.request(), call(id, "asked", &arguments), &|question| {
            assert_eq!(question.arguments.expose().to_text(), arguments);
            let words = question.preview.as_ref().unwrap();
            preview.lock().unwrap().clone_from(words.expose());
            true
        })
        .await;
        assert_eq!(*preview.lock().unwrap(), format!("Pay {written}"));
        let text = serde_json::to_string(&response).unwrap();
        assert!(text.contains(&format!("\"seen\":\"{written}\"")), "{text}");
    }
}

fn refused(kind: &str, whole: &str) {
    assert_eq!(kind, "VALIDATION", "{whole}");
    assert!(
        whole.contains("declare the argument as a string"),
        "{whole}"
    );
}

#[tokio::test]
async fn a_script_runs_with_no_other_number_than_was_written() {
    let shop = Shop::open().await;
    for (id, (written, is_kept, _)) in NUMBERS.into_iter().enumerate() {
        let mut session = DirectSession::begin(shop.request());
        session.user_says("pay");
        let arguments = format!("{{\"amount\":{written}}}");
        let response = session.call(call(id, "in_script", &arguments)).await;
        match is_kept {
            true => {
                let value: f64 = written.parse().unwrap();
                let seen = serde_json::to_value(&response).unwrap();
                assert_eq!(seen["data"]["number"].as_f64(), Some(value), "{response:?}");
            }
            false => refused(&shown(&response), &format!("{response:?}")),
        }
    }
}

#[tokio::test]
async fn numbers_beyond_every_measure_are_refused_in_words() {
    let shop = Shop::open().await;
    let million = "7".repeat(1_000_000);
    for (id, (written, expected)) in [
        ("1e400", "\"seen\":\"1e+400\""),
        ("1e-400", "\"seen\":\"1e-400\""),
        ("1e1001", "the exponent of a number is at most 1000"),
        ("1e999999999999", "the exponent of a number is at most 1000"),
        (million.as_str(), "a number has at most 200 characters"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut session = DirectSession::begin(shop.request());
        session.user_says("pay");
        let arguments = format!("{{\"amount\":{written}}}");
        let response = session.call(call(id, "by_process", &arguments)).await;
        let text = serde_json::to_string(&response).unwrap();
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn neighbours_are_two_changes_and_spellings_of_one_number_are_one() {
    let shop = Shop::open().await;
    let mut session = DirectSession::begin(shop.request());
    session.user_says("pay");
    for (id, (written, runs)) in [
        ("2512292042121000001", 1),
        ("2512292042121000002", 2),
        ("2512292042121000001", 2),
        ("1e3", 3),
        ("1000", 3),
        ("1000.0", 3),
        ("0.1", 4),
        ("0.1000000000000000055511151231257827", 5),
    ]
    .into_iter()
    .enumerate()
    {
        session.user_says("and");
        let arguments = format!("{{\"amount\":{written}}}");
        session.call(call(id, "in_rust", &arguments)).await;
        assert_eq!(shop.runs.load(Ordering::SeqCst), runs, "{written}");
    }
    session.end().await;
}

#[tokio::test]
async fn one_booking_is_made_however_the_model_spells_it() {
    let shop = Shop::open().await;
    let mut session = DirectSession::begin(shop.request());
    session.user_says("a table");
    for (id, (at, name, runs, expected)) in [
        ("2026-12-01T10:00:00Z", "Café", 1, ""),
        ("2026-12-01T10:00:00+00:00", "Café", 1, ""),
        ("2026-12-01T10:00:00.000Z", "Café", 1, ""),
        ("2026-12-01T11:00:00+01:00", "Café", 1, ""),
        ("2026-12-01T10:00:00Z", "Cafe\u{301}", 1, ""),
        ("2026-12-01T10:00:00Z", "Café ", 1, ""),
        // Only a person can tell.
        ("2026-12-01T10:00:00Z", "cafe", 1, "CONFIRMATION_REQUIRED"),
        ("2026-12-01T12:00:00Z", "Café", 2, ""),
    ]
    .into_iter()
    .enumerate()
    {
        let arguments = json!({"at": at, "for": name}).to_string();
        let response = session.call(call(id, "book", &arguments)).await;
        let what = format!("{at} {name}: {response:?}");
        assert_eq!(shop.runs.load(Ordering::SeqCst), runs, "{what}");
        match expected {
            "" => assert!(response.is_ok(), "{what}"),
            _ => assert_eq!(shown(&response), expected, "{what}"),
        }
    }
    session.end().await;
}

#[tokio::test]
async fn tools_that_are_exchanged_recognise_what_was_done() {
    let (before, after) = (
        Shop::open().await,
        Shop::open_with("2.0.0", &json!(["/at"])).await,
    );
    let shared = shared();
    let mut bookings = Vec::new();
    for (id, (shop, arguments)) in [
        (&before, json!({"at": "2026-12-01T10:00:00Z", "for": "Ada"})),
        (&after, json!({"at": "2026-12-01T10:00:00Z", "for": "Ada"})),
        (
            &after,
            json!({"at": "2026-12-01T11:00:00+01:00", "for": "Ada Lovelace"}),
        ),
        (&after, json!({"at": "2026-12-02T10:00:00Z", "for": "Ada"})),
    ]
    .into_iter()
    .enumerate()
    {
        let mut request = shop.request();
        request.session.session_id = SessionId::new(format!("s-{id}"));
        request.shared = shared.clone();
        let mut session = DirectSession::begin(request);
        session.call(call(id, "book", &arguments.to_string())).await;
        session.end().await;
        let runs = [&before, &after].map(|shop| shop.runs.load(Ordering::SeqCst));
        bookings.push(runs.iter().sum::<usize>());
    }
    assert_eq!(bookings, [1, 1, 1, 2]);
}
