//! Changes of whose end no session has written a line: the sweep finds them in the ledger, and each gets its line, once.

use crate::support::ledger::{LEASE_MS, attach, batch, commit, conversation, record, request};
use crate::support::{StillCapabilities, store_settings};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::error::ErrorType;
use windlass_contract::id::{CallNumber, ClientId, EffectId, SessionId, ToolId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_driver::{DirectLedger, Ledger, Sweep};
use windlass_runtime::audit::{Audit, AuditedArguments, files_of, verify};
use windlass_runtime::subscriber::{SessionIdentity, Subscriber};
use windlass_runtime::sweeper::Sweeper;
use windlass_session::event::{CallRecord, SessionEvent};
use windlass_session::limits::Limits;
use windlass_store::{AttemptOutcome, MemoryStore, OwnerId, Store, StoreLimits, StoreSettings};

const NOW: u64 = 1_700_000_000_000;

struct Bench {
    folder: tempfile::TempDir,
    memory: MemoryStore,
    clock: Arc<AtomicU64>,
}

/// A process, which has the audit and the ledger for itself.
struct Process {
    store: Arc<dyn Store>,
    audit: Arc<Audit>,
    sweeper: Sweeper,
    sweep: Sweep,
}

fn settings(clock: &Arc<AtomicU64>, process: &str) -> StoreSettings {
    let clock = clock.clone();
    StoreSettings {
        owner: OwnerId(process.to_owned()),
        clock: Arc::new(move || clock.load(Ordering::SeqCst)),
        limits: StoreLimits {
            effects_max: 10_000,
            ..StoreLimits::default()
        },
        ..store_settings(1)
    }
}

fn bench() -> Bench {
    let clock = Arc::new(AtomicU64::new(NOW));
    let bench = Bench {
        folder: tempfile::tempdir().unwrap(),
        memory: MemoryStore::new(settings(&clock, "p-1")),
        clock,
    };
    let store: Arc<dyn Store> = Arc::new(bench.memory.clone());
    commit(&store, attach("c"));
    bench
}

impl Bench {
    fn path(&self) -> PathBuf {
        self.folder.path().join("kept/audit.jsonl")
    }

    fn process(&self, name: &str) -> Process {
        let settings = settings(&self.clock, name);
        let store: Arc<dyn Store> = Arc::new(self.memory.for_another_process(settings));
        let ledger: Arc<dyn Ledger> = Arc::new(DirectLedger::new(store.clone()));
        let audit = Arc::new(Audit::open(&self.path(), AuditedArguments::Hash).unwrap());
        audit.tells(&ledger);
        let registry = Arc::new(Registry::new("1.0.test", None, Vec::new()));
        let sweeper = Sweeper {
            threads: Default::default(),
            ledger: ledger.clone(),
            capabilities: Arc::new(StillCapabilities),
            audit: Some(audit.clone()),
            registry: Arc::new(move || registry.clone()),
            limits: Arc::new(Limits::of(Mode::Text)),
            user_of: Arc::new(|conversation| UserId::new(format!("user {}", conversation.user_id))),
        };
        Process {
            sweep: Sweep::new(ledger.clone()),
            store,

            audit,
            sweeper,
        }
    }

    /// The effects of the lines that one more process writes first, with what these say; the next one has nothing to add.
    async fn added(&self) -> Vec<String> {
        let before = self.lines().len();
        for _ in 0..2 {
            let mut next = self.process("p-next");
            next.round().await;
            next.audit.close();
        }
        let lines = self.lines();
        verify(&files_of(&self.path()).unwrap()).unwrap();
        let added = lines[before..].iter().map(said).collect();
        let mut next = self.process("p-next");
        next.round().await;
        next.audit.close();
        assert_eq!(self.lines().len(), lines.len(), "they are written once");
        added
    }

    fn lines(&self) -> Vec<Value> {
        let files = files_of(&self.path()).unwrap_or_default();
        let texts = files.iter().map(|path| fs::read_to_string(path).unwrap());
        let texts: String = texts.collect();
        texts
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl Process {
    async fn round(&mut self) {
        self.sweeper.round(&mut self.sweep).await;
    }

    fn begun(&self, effect: &str) {
        commit(&self.store, batch("c", request(effect)));
    }

    fn ended(&self, effect: &str, attempt: u32, outcome: AttemptOutcome) {
        commit(&self.store, batch("c", record(effect, attempt, outcome)));
    }

    fn made(&self, effect: &str, outcome: AttemptOutcome) {
        self.begun(effect);
        self.ended(effect, 1, outcome);
    }

    /// The line of a call that ended.
    fn tell(&self, effect: &str, error: Option<ErrorType>) {
        let mut response = json!({ "ok": error.is_none(), "meta": {
            "toolId": "pay", "registryVersion": "1.0.0", "responseSchemaVersion": "1.0.0", "durationMs": 1,
            "timestamp": "2023-11-14T22:13:20.000Z"
        } });
        if let Some(error) = error {
            response["error"] = json!({ "type": error, "message": "a test", "retryable": false });
        }
        let response: ToolResponse = serde_json::from_value(response).unwrap();
        let mut record = CallRecord::of_unknown_tool(CallNumber(1), "pay", Arc::new(response));
        record.effect_id = Some(EffectId::new(effect));
        let event = match error {
            Some(ErrorType::ConfirmationRequired) => SessionEvent::CallRejected(record),
            Some(_) | None => SessionEvent::CallFinished(record),
        };
        self.audit.event(&identity(), NOW, &event);
    }
}

fn said(line: &Value) -> String {
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(line["writtenAfterwards"], true, "{line}");
    assert_eq!(
        text("toolId") + &text("userId") + &text("conversationId"),
        "payuser adac"
    );
    assert_eq!(line["intent"]["turn"], 1, "{line}");
    assert!(line["reservedAt"].is_string() && line["changedAt"].is_string());
    let is_unknown = line["state"] == "unknown";
    let event = match is_unknown {
        true => "tool_outcome_unknown",
        false => "tool_outcome_settled",
    };
    assert_eq!(line["event"], event, "{line}");
    format!("{} {}", text("effectId"), text("state"))
}

fn identity() -> SessionIdentity {
    let of = conversation("c");
    SessionIdentity {
        client_id: ClientId::new("client"),
        session_id: SessionId::new("s"),
        user_id: UserId::new("ada"),
        tenant: windlass_contract::id::TenantId::default(),
        rights: windlass_contract::rights::Rights::Anonymous,
        conversation_id: of.conversation_id.clone(),
        mode: Mode::Voice,
        ledger: Some(of),
    }
}

#[tokio::test]
async fn what_was_done_and_not_written_down_is_written_by_the_next_process() {
    let bench = bench();
    let process = bench.process("p-1");
    process.made("done", AttemptOutcome::Succeeded);
    process.made("failed", AttemptOutcome::Failed);
    process.made("lost", AttemptOutcome::Unknown);
    process.begun("running");
    assert_eq!(
        bench.added().await,
        [
            "running unknown",
            "done succeeded",
            "failed failed",
            "lost unknown"
        ]
    );
    process.ended("lost", 1, AttemptOutcome::Succeeded);
    assert_eq!(bench.added().await, ["lost succeeded"]);
}

#[tokio::test]
async fn a_lease_that_is_over_is_a_line_when_it_is_swept() {
    let bench = bench();
    let mut process = bench.process("p-1");
    process.begun("a");
    process.round().await;
    bench.clock.fetch_add(LEASE_MS, Ordering::SeqCst);
    process.round().await;
    process.round().await;
    process.audit.close();
    let said: Vec<String> = bench.lines().iter().map(said).collect();
    assert_eq!(said, ["a unknown"]);
}

#[tokio::test]
async fn a_session_has_half_a_minute_for_its_line() {
    let bench = bench();
    let mut process = bench.process("p-1");
    process.round().await;
    process.made("a", AttemptOutcome::Succeeded);
    process.round().await;
    bench.clock.fetch_add(29_999, Ordering::SeqCst);
    process.round().await;
    assert!(bench.lines().is_empty());
    bench.clock.fetch_add(1, Ordering::SeqCst);
    process.round().await;
    process.audit.close();
    assert_eq!(bench.lines().len(), 1);
}

#[tokio::test]
async fn an_effect_whose_line_is_there_gets_no_second_one() {
    let bench = bench();
    let process = bench.process("p-1");
    for (effect, outcome, error) in [
        ("a", AttemptOutcome::Succeeded, None),
        ("b", AttemptOutcome::Failed, Some(ErrorType::Permanent)),
        (
            "c",
            AttemptOutcome::Unknown,
            Some(ErrorType::OutcomeUnknown),
        ),
    ] {
        process.made(effect, outcome);
        process.tell(effect, error);
    }
    process.audit.close();
    assert_eq!(bench.added().await, Vec::<String>::new());
}

#[tokio::test]
async fn what_is_known_late_to_have_happened_is_a_line_when_it_is_known_and_none_afterwards() {
    let bench = bench();
    let process = bench.process("p-1");
    for (effect, outcome, succeeded) in [
        ("a", AttemptOutcome::Succeeded, true),
        ("b", AttemptOutcome::Failed, false),
    ] {
        process.made(effect, AttemptOutcome::Unknown);
        process.tell(effect, Some(ErrorType::OutcomeUnknown));
        process.ended(effect, 1, outcome);
        let settled = SessionEvent::EffectSettled {
            call: CallNumber(1),
            tool: ToolId::parse("pay").unwrap(),
            version: "1.0.0".into(),
            effect_id: EffectId::new(effect),
            succeeded,
        };
        process.audit.event(&identity(), NOW + 10, &settled);
    }
    process.audit.close();
    let lines = bench.lines();
    let settled = lines
        .iter()
        .filter(|line| line["event"] == "tool_outcome_settled");
    let said: Vec<String> = settled
        .map(|line| {
            assert_eq!(line["sessionId"], "s", "{line}");
            assert!(line["writtenAfterwards"].is_null(), "{line}");
            format!(
                "{} {} {}",
                line["sequence"], line["effectId"], line["state"]
            )
        })
        .collect();
    assert_eq!(said, [r#"2 "a" "succeeded""#]);
}

#[tokio::test]
async fn a_line_about_something_else_is_not_the_effects_end() {
    let bench = bench();
    let process = bench.process("p-1");
    // It was asked for, and then done.
    process.tell("asked", Some(ErrorType::ConfirmationRequired));
    process.made("asked", AttemptOutcome::Succeeded);
    // It was unknown when its line was written, and is known now.
    process.made("known", AttemptOutcome::Unknown);
    process.tell("known", Some(ErrorType::OutcomeUnknown));
    process.audit.close();
    process.ended("known", 1, AttemptOutcome::Succeeded);
    assert_eq!(bench.added().await, ["asked succeeded", "known succeeded"]);
}

#[tokio::test]
async fn more_effects_than_one_round_lists_are_all_written() {
    let bench = bench();
    let mut process = bench.process("p-1");
    for number in 0..600 {
        process.made(&format!("{number:03}"), AttemptOutcome::Succeeded);
    }
    for left in [344, 88, 0] {
        process.round().await;
        // The ledger is told once lines are written.
        while process.store.unaudited(1_000).unwrap().len() > left {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        bench.clock.fetch_add(30_000, Ordering::SeqCst);
    }
    process.audit.close();
    let mut said: Vec<String> = bench.lines().iter().map(said).collect();
    said.sort();
    said.dedup();
    assert_eq!(said.len(), 600);
    assert_eq!(bench.lines().len(), 600);
}
