//! Every kind of handler through the whole pipeline: each comes to the same answer, whatever its code is and wherever it runs.

mod digits;
mod mcp;
mod pieces;
mod surroundings;
mod watched;

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use surroundings::{Dropped, Engine, RealTime, Trusting, fetch_limits, session_config, shared};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use windlass_compile::artifact::Loaders;
use windlass_compile::handler_file::{BoundSecret, Permissions};
use windlass_compile::{Source, compile};
use windlass_contract::envelope::ToolResponse;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Execution, Failure, Handler, Invocation, Success};
use windlass_contract::id::{ClientId, ToolId};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_runtime::declared::DeclaredHandlers;
use windlass_runtime::direct::{DirectRequest, DirectSession, call_asking};
use windlass_runtime::fetch::SystemResolver;
use windlass_runtime::worker::WorkerLimits;
use windlass_session::model::IncomingCall;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Rust,
    JavaScript,
    #[cfg(feature = "typescript")]
    TypeScript,
    Http,
    Webhook,
    Process,
}

const KINDS: &[Kind] = &[
    Kind::Rust,
    Kind::JavaScript,
    #[cfg(feature = "typescript")]
    Kind::TypeScript,
    Kind::Http,
    Kind::Webhook,
    Kind::Process,
];
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A tool's code, whichever it is: it says its `text` again, but for `conflict`, `crash` and `hang`, and counts its runs.
struct Backend {
    kind: Kind,
    folder: tempfile::TempDir,
    runs: Arc<AtomicUsize>,
    dropped: Dropped,
    port: u16,
}

struct InRust(Arc<AtomicUsize>, Dropped);

impl Handler for InRust {
    fn execute(&self, invocation: Invocation) -> Execution {
        self.0.fetch_add(1, Ordering::SeqCst);
        let text = invocation.arguments.get("text").unwrap_or_default();
        if let Some(shown) = pieces::in_rust(&invocation, &self.1) {
            return shown;
        }
        match text.as_str() {
            Some("conflict") => Execution::Ready(Err(Failure::new(FailureKind::Conflict, "taken"))),
            Some("crash") => panic!("it crashes"),
            Some("hang") => self.1.never(),
            _ => Execution::Ready(Ok(Success::new(json!({ "said": text })))),
        }
    }
}

/// A script that asks the same service as the kinds over HTTP.
const SCRIPT: &str = "import { ToolError } from '../error-types.js';
const said = (text: string) => ({ ok: true, data: { said: text } });
const pause = () => new Promise((resolve) => setTimeout(resolve, 1));
const pieces: Record<string, any> = {
  async *pieces() { yield 'one'; yield { two: 2 }; return said('pieces'); },
  async *begun({ http }: any) { yield 'one'; await http.fetch('URL', { method: 'POST', body: '{\"text\":\"hang\"}' }); },
  *failing() { yield 'one'; throw new ToolError('CONFLICT', 'taken'); },
  async *endless() { for (;;) { yield 'one'; await pause(); } },
  async huge({ output }: any) { for (let n = 0; n < 50; n++) output('x'.repeat(1e6)); return said('huge'); },
  after({ output }: any) { setTimeout(() => output('late'), 1); return said('after'); },
};
export async function execute({ args, context }) {
  const options = { method: 'POST', body: JSON.stringify(args) };
  const answer = await context.http.fetch('URL', options).catch(() => { throw 'it crashes'; });
  if (pieces[args.text]) return pieces[args.text](context);
  if (answer.status === 409) throw new ToolError('CONFLICT', 'taken');
  const odd: Record<string, unknown> = { half: '\\ud83d', nul: '\\0', nan: NaN, large: 'x'.repeat(2 << 20) };
  if (args.text in odd) return { ok: true, data: { said: odd[args.text] } };
  return { ok: true, data: await answer.json() };
}
";

/// The value of `said` in the JSON of the kinds that write it themselves.
fn odd(text: &str) -> Option<String> {
    match text {
        "half" => Some("\"\\ud83d\"".to_owned()),
        "nul" => Some("\"\\u0000\"".to_owned()),
        "nan" => Some("NaN".to_owned()),
        "large" => Some(format!("\"{}\"", "x".repeat(2_000))),
        _ => None,
    }
}

/// A web service; for a webhook it speaks ToolResponses.
async fn serve(mut stream: TcpStream, kind: Kind, runs: Arc<AtomicUsize>, gone: Dropped) {
    let mut read = Vec::new();
    let text = loop {
        if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
            return;
        }
        let whole = String::from_utf8_lossy(&read).into_owned();
        let Some((_, body)) = whole.split_once("\r\n\r\n") else {
            continue;
        };
        if let Ok(body) = serde_json::from_str::<Value>(body) {
            let args = if kind == Kind::Webhook {
                &body["args"]
            } else {
                &body
            };
            break args["text"].as_str().unwrap_or_default().to_owned();
        }
    };
    runs.fetch_add(1, Ordering::SeqCst);
    let (status, body) = match (text.as_str(), kind) {
        ("hang", _) => {
            let _ = stream.read(&mut [0; 1]).await;
            drop(gone.never());
            return;
        }
        ("crash", _) => return,
        ("conflict", Kind::Webhook) => (
            200,
            json!({"ok": false, "error": {"type": "CONFLICT", "message": "taken"}}),
        ),
        ("conflict", _) => (409, json!({"message": "taken"})),
        (text, _) if text.parse::<u16>().is_ok() => (text.parse().unwrap(), json!({})),
        (text, Kind::Webhook) => (200, json!({"ok": true, "data": {"said": text}})),
        (text, _) => (200, json!({ "said": text })),
    };
    if let Some(body) = pieces::in_a_stream(&text, kind) {
        return pieces::send(stream, &body, &text, &gone).await;
    }
    let mut body = body.to_string();
    match (odd(&text), kind) {
        (Some(odd), Kind::Http) => body = format!(r#"{{"said":{odd}}}"#),
        (Some(odd), Kind::Webhook) => {
            body = format!(r#"{{"ok":true,"data":{{"said":{odd}}}}}"#);
        }
        _ => {}
    }
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

impl Backend {
    async fn new(kind: Kind) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (runs, dropped) = (Arc::<AtomicUsize>::default(), Dropped::default());
        let (counted, gone) = (runs.clone(), dropped.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, kind, counted.clone(), gone.clone()));
            }
        });
        Self {
            kind,
            folder: tempfile::tempdir().unwrap(),
            runs,
            dropped,
            port,
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn logged(&self, word: &str) -> usize {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().filter(|line| *line == word).count()
    }

    fn runs(&self) -> usize {
        match self.kind {
            Kind::Process => self.logged("run"),
            _ => self.runs.load(Ordering::SeqCst),
        }
    }

    /// Runs that learnt that nobody waits for them.
    fn ended_early(&self) -> usize {
        match self.kind {
            Kind::Process => self.logged("cancel"),
            _ => self.dropped.count(),
        }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// The file of the tool's directory that holds its code, or says where it is.
    fn file(&self) -> Option<(&'static str, String)> {
        let url = self.url();
        let script = format!(
            r#"piece() {{ printf '{{"method":"output","params":{{"call":%s,"data":%s}}}}\n' $id "$1"; }}
                said() {{ printf '{{"id":%s,"result":{{"ok":true,"data":{{"said":"%s"}}}}}}\n' $id $1; }}
                while read -r line; do id=${{line#*\"id\":}}; id=${{id%%,*}}; case $line in
                *cancel*) echo cancel >> '{0}'; continue;; esac
                echo run >> '{0}'; case $line in
                *'"hang"'*) ;;
                *'"crash"'*) exit 1;;
                *'"half"'*) printf '{{"id":%s,"result":{{"ok":true,"data":{{"said":"\\ud83d"}}}}}}\n' $id;;
                *'"nul"'*) printf '{{"id":%s,"result":{{"ok":true,"data":{{"said":"\\u0000"}}}}}}\n' $id;;
                *'"nan"'*) printf '{{"id":%s,"result":{{"ok":true,"data":{{"said":NaN}}}}}}\n' $id;;
                *'"large"'*) printf '{{"id":%s,"result":{{"ok":true,"data":"' $id; head -c 9000000 /dev/zero | tr '\0' x; printf '"}}}}\n';;
                {pieces}
                *'"conflict"'*) printf '{{"id":%s,"result":{{"ok":false,"error":{{"type":"CONFLICT","message":"taken"}}}}}}\n' $id;;
                *) printf '{{"id":%s,"result":{{"ok":true,"data":{{"said":"tea"}}}}}}\n' $id;; esac; done"#,
            self.log().display(),
            pieces = pieces::IN_A_SHELL,
        );
        let declared = match self.kind {
            Kind::Rust => return None,
            Kind::JavaScript => {
                let types = [
                    ": Record<string, unknown>",
                    ": Record<string, any>",
                    ": any",
                    ": string",
                ];
                let plain = types
                    .iter()
                    .fold(SCRIPT.to_owned(), |script, typed| script.replace(typed, ""));
                return Some(("handler.js", plain.replace("URL", &url)));
            }
            #[cfg(feature = "typescript")]
            Kind::TypeScript => {
                let typed =
                    SCRIPT.replace("{ args, context }", "{ args, context }: Invocation<Said>");
                let declared = format!("type Said = {{ text: string }};\n{typed}");
                return Some(("handler.ts", declared.replace("URL", &url)));
            }
            Kind::Http => json!({
                "kind": "http", "method": "POST", "url": url, "body": {"text": "{text}"}
            }),
            Kind::Webhook => json!({"kind": "webhook", "url": url, "secret": "{secret:HOOK}"}),
            Kind::Process => json!({"kind": "process", "command": ["sh", "-c", script]}),
        };
        Some(("handler.json", declared.to_string()))
    }

    fn registry(&self, changes: &Value) -> Arc<Registry> {
        let mut schema = json!({
            "toolId": "say", "version": "1.0.0", "description": "Says it.", "category": "utility",
            "sideEffects": "none", "idempotent": true, "requiresConfirmation": false,
            "allowedModes": ["text"], "latencyBudgetMs": 100, "timeoutMs": 5_000,
            "parameters": {"type": "object", "additionalProperties": false, "required": ["text"],
                "properties": {"text": {"type": "string", "enum": ["tea", "conflict", "crash", "hang", "half", "nul", "nan", "large",
                        "pieces", "begun", "failing", "cut", "silent", "endless", "huge", "after",
                        "303", "308", "408", "425", "499", "418", "503", "404", "405", "413", "501"]}}}
        });
        for (name, value) in changes.as_object().unwrap() {
            schema[name] = value.clone();
        }
        let tools = self.folder.path().join("tools");
        let directory = tools.join("say");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("schema.json"), schema.to_string()).unwrap();
        std::fs::write(directory.join("guide.md"), "# Say\n\nSays it.\n").unwrap();
        if let Some((name, text)) = self.file() {
            std::fs::write(directory.join(name), text).unwrap();
        }
        let id = ToolId::parse("say").unwrap();
        let artifact = self.folder.path().join("tool_registry.json");
        let hosts = BTreeSet::from([format!("127.0.0.1:{}", self.port)]);
        let compilation = compile(&Source {
            tools: &tools,
            artifact: &artifact,
            builtin: &BTreeMap::from([(id.clone(), None)]),
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
            folder: self.folder.path().to_path_buf(),
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
        let rust: Arc<dyn Handler> = Arc::new(InRust(self.runs.clone(), self.dropped.clone()));
        let handlers = BTreeMap::from([(id, rust)]);
        let registry = compiled.into_registry(&handlers, loaders, &BTreeMap::new());
        Arc::new(registry.unwrap())
    }

    fn request(&self, mode: Mode, changes: &Value) -> DirectRequest {
        DirectRequest {
            session: session_config(mode, self.registry(changes)),
            client_id: ClientId::new("shell"),
            capabilities: Arc::new(RealTime::with_a_way_to(&self.url())),
            shared: shared(),
        }
    }
}

fn say(id: &str, text: &str) -> IncomingCall {
    IncomingCall {
        id: Some(id.into()),
        name: Some("say".into()),
        arguments: Ok(serde_json::from_value(json!({ "text": text })).unwrap()),
    }
}

/// The data, or the type of error.
fn shown(response: &ToolResponse) -> String {
    let form = serde_json::to_value(response).unwrap();
    match form["error"]["type"].as_str() {
        Some(error) => error.to_owned(),
        None => form["data"].to_string(),
    }
}

#[tokio::test]
async fn every_kind_of_handler_comes_to_the_same() {
    let writes = json!({"sideEffects": "writes"});
    let quick = json!({"timeoutMs": 1_000});
    let quick_writes = json!({"sideEffects": "writes", "timeoutMs": 1_000});
    for kind in KINDS.iter().copied() {
        // No one who reads an INTERNAL could do anything about it; a service that hangs up may answer the next time.
        let crashed = match kind {
            Kind::Http | Kind::Webhook => "TRANSIENT",
            _ => "INTERNAL",
        };
        for (name, mode, changes, text, expected, runs) in [
            (
                "success",
                Mode::Text,
                &json!({}),
                "tea",
                "{\"said\":\"tea\"}",
                1,
            ),
            (
                "validation",
                Mode::Text,
                &json!({}),
                "coffee",
                "VALIDATION",
                0,
            ),
            ("mode", Mode::Voice, &json!({}), "tea", "MODE_RESTRICTED", 0),
            ("failure", Mode::Text, &json!({}), "conflict", "CONFLICT", 1),
            (
                "failed change",
                Mode::Text,
                &writes,
                "conflict",
                "CONFLICT",
                1,
            ),
            ("timeout", Mode::Text, &quick, "hang", "TRANSIENT", 1),
            (
                "change that times out",
                Mode::Text,
                &quick_writes,
                "hang",
                "OUTCOME_UNKNOWN",
                1,
            ),
            (
                "crash",
                Mode::Text,
                &json!({"idempotent": false}),
                "crash",
                crashed,
                1,
            ),
            (
                "crashed change",
                Mode::Text,
                &writes,
                "crash",
                "OUTCOME_UNKNOWN",
                1,
            ),
        ] {
            let backend = Backend::new(kind).await;
            let mut request = backend.request(mode, changes);
            // One attempt, so that runs can be counted.
            let mut limits = (*request.session.limits).clone();
            limits.turn.retries_max = 0;
            request.session.limits = Arc::new(limits);
            let mut session = DirectSession::begin(request);
            session.user_says("say it");
            let response = session.call(say("call-00001", text)).await;
            assert_eq!(shown(&response), expected, "{kind:?}, {name}: {response:?}");
            assert_eq!(backend.runs(), runs, "{kind:?}, {name}");
            drop(session);
        }
    }
}

#[tokio::test]
async fn a_change_is_made_once_however_often_it_is_asked_for() {
    for kind in KINDS.iter().copied() {
        let backend = Backend::new(kind).await;
        let changes = json!({"sideEffects": "writes"});
        let mut session = DirectSession::begin(backend.request(Mode::Text, &changes));
        session.user_says("say it");
        let first = session.call(say("call-00001", "tea")).await;
        let second = session.call(say("call-00002", "tea")).await;
        assert_eq!(shown(&first), "{\"said\":\"tea\"}", "{kind:?}");
        assert!(second.is_ok(), "{kind:?}: {second:?}");
        assert_eq!(backend.runs(), 1, "{kind:?}");
        session.end().await;
    }
}

#[tokio::test]
async fn a_change_that_was_made_is_done_whatever_its_result_holds() {
    for kind in KINDS.iter().copied() {
        for (text, expected) in [
            ("half", "{\"said\":\"\u{fffd}\"}"),
            ("nul", "{\"said\":\"\\u0000\"}"),
            ("nan", "{\"said\":null}"),
            ("large", "null"),
        ] {
            let backend = Backend::new(kind).await;
            let changes = json!({"sideEffects": "writes"});
            let mut session = DirectSession::begin(backend.request(Mode::Text, &changes));
            session.user_says("say it");
            let first = session.call(say("call-00001", text)).await;
            let second = session.call(say("call-00002", text)).await;
            // The ledger has it as done: asked for again, it is not made again.
            for response in [&first, &second] {
                assert!(response.is_ok(), "{kind:?}, {text}: {response:?}");
            }
            assert_eq!(backend.runs(), 1, "{kind:?}, {text}");
            let meta = serde_json::to_value(&first).unwrap()["meta"].take();
            let is_said = meta["cut"].is_string();
            match (kind, text) {
                // It has such texts in memory, and no JSON of its own.
                (Kind::Rust, _) => {}
                _ => {
                    assert_eq!(shown(&first), expected, "{kind:?}");
                    // The language's own JSON has null for such a number.
                    let is_own = text == "nan"
                        && !matches!(kind, Kind::Http | Kind::Webhook | Kind::Process);
                    assert_eq!(
                        is_said,
                        text != "nul" && !is_own,
                        "{kind:?}, {text}: {meta}"
                    );
                }
            }
            session.end().await;
        }
    }
}

#[tokio::test]
async fn only_an_answer_that_proves_it_leaves_a_change_undone() {
    for kind in [Kind::Http, Kind::Webhook] {
        for (status, expected) in [
            ("303", "OUTCOME_UNKNOWN"),
            ("308", "OUTCOME_UNKNOWN"),
            ("408", "OUTCOME_UNKNOWN"),
            ("425", "OUTCOME_UNKNOWN"),
            ("499", "OUTCOME_UNKNOWN"),
            ("418", "OUTCOME_UNKNOWN"),
            ("503", "OUTCOME_UNKNOWN"),
            ("404", "NOT_FOUND"),
            ("405", "PERMANENT"),
            ("413", "PERMANENT"),
            ("501", "PERMANENT"),
        ] {
            let backend = Backend::new(kind).await;
            let changes = json!({"sideEffects": "writes"});
            let mut session = DirectSession::begin(backend.request(Mode::Text, &changes));
            session.user_says("say it");
            let first = session.call(say("call-00001", status)).await;
            assert_eq!(shown(&first), expected, "{kind:?}, {status}");
            // Asked again, nothing is sent where it may have been done.
            session.user_says("say it again");
            drop(session.call(say("call-00002", status)).await);
            let runs = if expected == "OUTCOME_UNKNOWN" { 1 } else { 2 };
            assert_eq!(backend.runs(), runs, "{kind:?}, {status}");
            session.end().await;
        }
    }
}

#[tokio::test]
async fn a_change_that_needs_consent_runs_when_the_user_approves() {
    for kind in KINDS.iter().copied() {
        let changes = json!({"sideEffects": "writes", "requiresConfirmation": true});
        for (approves, expected, runs) in [
            (true, "{\"said\":\"tea\"}", 1),
            (false, "CONFIRMATION_DECLINED", 0),
        ] {
            let backend = Backend::new(kind).await;
            let request = backend.request(Mode::Text, &changes);
            let response = call_asking(request, say("call-00001", "tea"), &|_| approves).await;
            assert_eq!(shown(&response), expected, "{kind:?}");
            assert_eq!(backend.runs(), runs, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_call_that_is_taken_back_ends_wherever_it_runs() {
    for kind in KINDS.iter().copied() {
        let backend = Backend::new(kind).await;
        let request = backend.request(Mode::Text, &json!({}));
        // With the last of the tools its process would be ended, and could not say what it was told.
        let _tools = request.session.registry.clone();
        let mut session = DirectSession::begin(request);
        session.user_says("say it");
        {
            let call = session.call(say("call-00001", "hang"));
            tokio::pin!(call);
            while backend.runs() == 0 {
                tokio::select! {
                    response = &mut call => panic!("{kind:?}: {response:?}"),
                    () = tokio::time::sleep(Duration::from_millis(5)) => {}
                }
            }
        }
        session.end().await;
        while backend.ended_early() == 0 {
            tokio::task::yield_now().await;
        }
    }
}
