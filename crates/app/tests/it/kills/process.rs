//! The server that is killed, as a process: this test binary, started again, with a tool that orders at the shop.

use super::shop;
use crate::support::config;
use crate::support::held_store::database;
use crate::support::program::{command, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use windlass_app::server::{Setup, start};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    Execution, Failure, Finding, Handler, Invocation, Lookup, LookupInvocation, OutcomeLookup,
    Placement, Success,
};
use windlass_contract::id::ToolId;

/// The header in which a proxy would say who has signed in.
pub(super) const USER_HEADER: &str = "X-Test-User";
/// What the server is told: its folder, its model's address, its shop's.
const FOLDER: &str = "WINDLASS_TEST_KILLED_FOLDER";
const MODEL: &str = "WINDLASS_TEST_KILLED_MODEL";
const SHOP: &str = "WINDLASS_TEST_KILLED_SHOP";
/// The address of its model for text, where it has one.
const TEXT_MODEL: &str = "WINDLASS_TEST_KILLED_TEXT_MODEL";
/// How long it waits for the store, in milliseconds, where that is what is tested.
const STORE_PATIENCE: &str = "WINDLASS_TEST_KILLED_STORE_PATIENCE";
/// How long an order may take, in milliseconds, where that is what is tested.
const ORDER_TIMEOUT: &str = "WINDLASS_TEST_KILLED_ORDER_TIMEOUT";
/// Its tools are offered over MCP.
const PROGRAMS: &str = "WINDLASS_TEST_KILLED_PROGRAMS";

/// How long the sweep may take; only a broken server takes that long.
const AUDITED_WITHIN: Duration = Duration::from_secs(60);

/// The tools that order: one that just does, one for which the user is asked, and one whose orders can be looked up.
pub(super) const PLAIN: &str = "order";
pub(super) const CONFIRMED: &str = "order_confirmed";
pub(super) const TRACKED: &str = "order_tracked";
/// The same as the last, of a shop that knows its keys, so that ordering twice under one is ordering once.
pub(super) const KEYED: &str = "order_keyed";
const TOOLS: [&str; 4] = [PLAIN, CONFIRMED, TRACKED, KEYED];

pub(super) struct Process {
    child: Child,
    pub(super) address: String,
}

impl Process {
    /// Starts a server over a folder and waits until it listens.
    pub(super) fn start(folder: &Path, model: &str, shop: &str) -> Self {
        Self::start_with(folder, &[(MODEL, model), (SHOP, shop)])
    }

    /// The same of one whose leases are short and whose orders wait for [`open_way`]; `None` if it does not start.
    pub(super) fn start_hasty(folder: &Path, model: &str, shop: &str) -> Option<Self> {
        let told = [(MODEL, model), (SHOP, shop), (ORDER_TIMEOUT, "1000")];
        Self::try_start(folder, &told)
    }

    /// The same of one that chats.
    pub(super) fn start_to_chat(folder: &Path, text_model: &str, shop: &str) -> Self {
        Self::start_with(folder, &[(TEXT_MODEL, text_model), (SHOP, shop)])
    }

    /// The same of one that talks and chats.
    pub(super) fn start_for_both(folder: &Path, model: &str, text_model: &str, shop: &str) -> Self {
        let told = [(MODEL, model), (TEXT_MODEL, text_model), (SHOP, shop)];
        Self::start_with(folder, &told)
    }

    /// The same of one that talks and chats, and waits for the store no longer than a moment.
    pub(super) fn start_impatient(
        folder: &Path,
        model: &str,
        text_model: &str,
        shop: &str,
    ) -> Self {
        let told = [
            (MODEL, model),
            (TEXT_MODEL, text_model),
            (SHOP, shop),
            (STORE_PATIENCE, "50"),
        ];
        Self::start_with(folder, &told)
    }

    /// The same of one whose tools other programs use, and whose orders take no minute.
    pub(super) fn start_for_programs(folder: &Path, shop: &str) -> Self {
        open_way(folder);
        // Until that is over, an order that is not to be found may still come.
        let told = [(PROGRAMS, "true"), (SHOP, shop), (ORDER_TIMEOUT, "5000")];
        Self::start_with(folder, &told)
    }

    fn start_with(folder: &Path, told: &[(&str, &str)]) -> Self {
        Self::try_start(folder, told).expect("the server starts")
    }

    fn try_start(folder: &Path, told: &[(&str, &str)]) -> Option<Self> {
        let arguments = [
            "kills::process::server_that_is_killed",
            "--exact",
            "--nocapture",
        ];
        let child = Command::new(std::env::current_exe().unwrap())
            .args(arguments)
            .env(FOLDER, folder)
            .envs(told.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut process = Self {
            child,
            address: String::new(),
        };
        let output = BufReader::new(process.child.stdout.take().unwrap());
        let mut lines = output.lines().map_while(Result::ok);
        process.address =
            lines.find_map(|line| Some(line.strip_prefix("listens at ")?.to_owned()))?;
        Some(process)
    }

    /// Nothing of it moves until it goes on.
    pub(super) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    pub(super) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGKILL, and nothing of it lives on.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It is gone already, but where a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How the ledger has a conversation's one change; `None` where it has none.
pub(super) fn standing(folder: &Path, conversation: &str) -> Option<String> {
    let database = database(&folder.join("data"));
    let mut effects = database
        .prepare("SELECT state FROM effects WHERE conversation_id = ?1")
        .unwrap();
    let states = effects.query_map([conversation], |row| row.get(0)).unwrap();
    let states: Vec<String> = states.map(Result::unwrap).collect();
    assert!(states.len() <= 1, "{states:?}");
    states.into_iter().next()
}

/// Waits until the audit says of every order how it ended, or that nobody knows: the server's sweep writes what is missing.
pub(super) async fn until_audited(folder: &Path, orders: &[String]) {
    let audited = async {
        loop {
            let lines = lines(folder);
            let is_told = |effect: &String| {
                let mut of_it = lines.iter().filter(|line| line["effectId"] == **effect);
                of_it.any(|line| verdict(line).is_some())
            };
            if orders.iter().all(is_told) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let audited = tokio::time::timeout(AUDITED_WITHIN, audited).await;
    audited.expect("the audit never has a line of every order");
}

/// The audit's lines that are whole.
fn lines(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("data").join("audit.jsonl")).unwrap();
    let lines = text.lines().map(serde_json::from_str);
    lines.map_while(Result::ok).collect()
}

/// The audit of all servers together is one unbroken chain, and says of every order how it ended, the same each time, or that
/// nobody knows. A server that is killed once a line is written, and before the ledger knows of it, has the next one write it again.
/// Returns how many ends a later server had to write down.
pub(super) fn verify_audit(folder: &Path, orders: &[String]) -> usize {
    let audit = folder.join("data").join("audit.jsonl");
    let verified = run(command(folder).args(["audit", "verify"]).arg(&audit));
    assert_eq!(
        verified.code, 0,
        "{} {:?}",
        verified.output, verified.problems
    );
    let lines = lines(folder);
    for effect in orders {
        let of_it = lines.iter().filter(|line| line["effectId"] == **effect);
        let mut verdicts: Vec<_> = of_it.clone().filter_map(verdict).collect();
        let told = verdicts.len();
        verdicts.retain(|verdict| *verdict != "unknown");
        verdicts.dedup();
        assert!(
            told > 0 && verdicts.len() <= 1,
            "{effect}: {:?}",
            of_it.collect::<Vec<_>>()
        );
    }
    let is_late = |line: &&Value| line["writtenAfterwards"] == true;
    lines.iter().filter(is_late).count()
}

/// What a line says of how its effect ended, if it does.
fn verdict(line: &Value) -> Option<&str> {
    match line["event"].as_str()? {
        "tool_outcome_settled" => line["state"].as_str(),
        "tool_outcome_unknown" => Some("unknown"),
        _ if line["errorType"] == "OUTCOME_UNKNOWN" => Some("unknown"),
        "tool_execution" if line["ok"] == true => Some("succeeded"),
        "tool_execution" => Some("failed"),
        _ => None,
    }
}

/// Orders as [`Order`] does, and asks the shop afterwards where nobody knows what became of it.
struct Tracked(Order);

impl Handler for Tracked {
    fn execute(&self, invocation: Invocation) -> Execution {
        self.0.execute(invocation)
    }

    fn outcome_lookup(&self) -> Option<&dyn OutcomeLookup> {
        Some(self)
    }

    fn placement(&self) -> Placement {
        self.0.placement()
    }
}

impl OutcomeLookup for Tracked {
    fn look_up(&self, invocation: LookupInvocation) -> Lookup {
        let found = shop::find(&self.0.shop, invocation.effect_id.as_str());
        Lookup::Found(match found {
            Ok(Some(receipt)) => {
                let success = Success::new(json!({ "receipt": receipt }));
                Finding::Happened(Box::new(success))
            }
            Ok(None) => Finding::NotHappened,
            Err(_) => Finding::Unknown,
        })
    }
}

/// Orders an item, with the effect's own key.
struct Order {
    shop: String,
    /// Where it writes down that it has begun, and that it has ended.
    notes: PathBuf,
    /// An order leaves only once the way is open, so that a server is stopped before or after it for certain.
    waits: bool,
}

/// While a folder has this file, the orders of hasty servers leave.
const OPEN: &str = "open";

/// Lets the orders of hasty servers leave.
pub(super) fn open_way(folder: &Path) {
    fs::write(folder.join(OPEN), "").unwrap();
}

/// Holds the orders of hasty servers back.
pub(super) fn close_way(folder: &Path) {
    fs::remove_file(folder.join(OPEN)).unwrap();
}

/// Whether an order was ever begun. It may have ended since.
pub(super) fn has_begun(folder: &Path) -> bool {
    let mut notes = fs::read_dir(folder).unwrap();
    notes.any(|note| {
        let name = note.unwrap().file_name();
        name.to_str().unwrap().starts_with("began-")
    })
}

/// Orders that a process has begun and not ended.
pub(super) fn under_way(folder: &Path) -> usize {
    let names = fs::read_dir(folder).unwrap();
    let names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let count = |kind: &str| names.iter().filter(|name| name.starts_with(kind)).count();
    count("began-") - count("ended-")
}

impl Handler for Order {
    fn execute(&self, invocation: Invocation) -> Execution {
        let item = invocation.arguments.get("item").unwrap_or_default();
        let item = item.as_str().unwrap_or_default();
        let effect_id = invocation.context.effect_id.expect("a change has an id");
        let process = std::process::id();
        let note = |what: &str| {
            let name = format!("{what}-{effect_id}-{process}");
            fs::write(self.notes.join(name), "").unwrap();
        };
        note("began");
        while self.waits && !self.notes.join(OPEN).exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let ordered = shop::order(&self.shop, effect_id.as_str(), item);
        note("ended");
        Execution::Ready(match ordered {
            Ok(receipt) => Ok(Success::new(json!({ "receipt": receipt }))),
            Err(error) => Err(Failure::new(FailureKind::Transient, error.to_string())),
        })
    }

    fn placement(&self) -> Placement {
        Placement::Apart
    }
}

fn write_tools(folder: &Path) {
    for tool in TOOLS {
        write_tool(folder, tool);
    }
    fs::create_dir_all(folder.join("kb")).unwrap();
    fs::write(folder.join("kb/fram.md"), "# Fram\n\nA ship.\n").unwrap();
}

fn write_tool(folder: &Path, id: &str) {
    let timeout_ms = std::env::var(ORDER_TIMEOUT).map_or(60_000, |ms| ms.parse().unwrap());
    let tool = folder.join("tools").join(id.replace('_', "-"));
    fs::create_dir_all(&tool).unwrap();
    let schema = json!({
        "toolId": id, "version": "1.0.0", "description": "Orders an item.", "category": "action",
        "sideEffects": "writes", "idempotent": id == KEYED, "requiresConfirmation": id == CONFIRMED,
        "allowedModes": ["voice", "text"], "latencyBudgetMs": timeout_ms.min(1_000),
        "timeoutMs": timeout_ms,
        "parameters": {
            "type": "object", "additionalProperties": false, "required": ["item"],
            "properties": { "item": { "type": "string", "description": "What is ordered" } }
        }
    });
    fs::write(tool.join("schema.json"), schema.to_string()).unwrap();
    fs::write(tool.join("guide.md"), "# Order\n\nOrders an item.\n").unwrap();
}

/// The server. Runs as a test of its own only in the process that another test starts; alone it has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn server_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let shop = std::env::var(SHOP).unwrap();
    let model = std::env::var(MODEL).ok();
    let text_model = std::env::var(TEXT_MODEL).ok();
    write_tools(folder);
    let path = |name: &str| folder.join(name).display().to_string();
    let (tools, kb) = (path("tools"), path("kb"));
    // A slow disk is not what most tests are about: what was not stored in time is told all the same.
    let patience = std::env::var(STORE_PATIENCE).unwrap_or_else(|_| "60000".to_owned());
    let mut keys = vec![
        ("folders.tools", tools.as_str()),
        ("folders.knowledge", kb.as_str()),
        ("server.user_header", USER_HEADER),
        ("voice.limits.record_timeout_ms", patience.as_str()),
        ("text.limits.record_timeout_ms", patience.as_str()),
        ("voice.limits.reserve_timeout_ms", patience.as_str()),
        // The shop has taken an order, or never will, once its server is dead.
        ("store.landing_ms", "0"),
    ];
    if std::env::var_os(PROGRAMS).is_some() {
        keys.extend([
            ("mcp_server.enabled", "true"),
            ("mcp_server.assume_external_content", "false"),
        ]);
    }
    if let Some(model) = &model {
        keys.extend([("provider.kind", "gemini-live"), ("provider.url", model)]);
    }
    if let Some(model) = &text_model {
        keys.extend([("text.provider", "openai"), ("text.url", model)]);
    }
    let mut handlers = windlass_handlers::builtin();
    for tool in TOOLS {
        let order = Order {
            shop: shop.clone(),
            notes: folder.to_owned(),
            waits: std::env::var_os(ORDER_TIMEOUT).is_some(),
        };
        let handler: Arc<dyn Handler> = match tool {
            TRACKED | KEYED => Arc::new(Tracked(order)),
            _ => Arc::new(order),
        };
        handlers.insert(ToolId::parse(tool).unwrap(), handler);
    }
    let server = start(Setup {
        config: config(&folder.join("data"), &keys),
        handlers,
        watch: false,
    })
    .await
    .unwrap();
    let mut output = std::io::stdout();
    writeln!(output, "\nlistens at {}", server.address()).unwrap();
    output.flush().unwrap();
    // It ends when it is killed.
    std::future::pending::<()>().await;
}
