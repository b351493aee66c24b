//! Changes that an earlier process made and of which it wrote no line: the next one finds them in the ledger and writes them
//! down before anything else, once.

use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use windlass_runtime::audit::{Audit, AuditSettings, AuditedArguments, files_of, verify};
use windlass_runtime::subscriber::{SessionIdentity, Subscriber};
use windlass_session::event::{CallRecord, SessionEvent};
use windlass_store::{MemoryStore, Outcome, OutcomeState, Reserve, Store, StoreLimits};
use windlass_tool::envelope::ToolResponse;
use windlass_tool::error::ErrorType;
use windlass_tool::id::{
    CallNumber, ClientId, ConversationId, EffectId, SessionId, ToolId, UserId,
};
use windlass_tool::kind::Mode;
use windlass_tool::sensitive::Sensitive;

const NOW: u64 = 1_700_000_000_000;
const MINUTE: u64 = 60_000;

struct Bench {
    folder: tempfile::TempDir,
    store: MemoryStore,
    file_bytes_max: u64,
}

fn bench() -> Bench {
    Bench {
        folder: tempfile::tempdir().unwrap(),
        store: MemoryStore::new(),
        file_bytes_max: 1_000_000,
    }
}

impl Bench {
    fn path(&self) -> PathBuf {
        self.folder.path().join("kept/audit.jsonl")
    }

    fn reserve(&self, effect: &str, at: u64) {
        let store: &dyn Store = &self.store;
        let request = Reserve {
            effect_id: EffectId::new(effect),
            conversation_id: ConversationId::new("c"),
            user_id: UserId::new("ada"),
            tool: ToolId::parse("pay").unwrap(),
            tool_version: "1.0.0".to_owned(),
            fingerprint: [effect.as_bytes()[0]; 32],
            grant: None,
            read_by_none_but: None,
            intent: Sensitive("{\"turn\":1}".to_owned()),
            now_unix_ms: at,
        };
        store.ask(|tables| tables.reserve(&request)).unwrap();
    }

    fn record(&self, effect: &str, state: OutcomeState, at: u64) {
        let store: &dyn Store = &self.store;
        let outcome = Outcome {
            effect_id: EffectId::new(effect),
            state,
            response: None,
            now_unix_ms: at,
        };
        store.ask(|tables| tables.record(&outcome)).unwrap();
    }

    fn made(&self, effect: &str, state: OutcomeState, at: u64) {
        self.reserve(effect, at);
        self.record(effect, state, at + 1);
    }

    /// Opens the audit as the next process does.
    fn open(&self) -> Audit {
        let settings = AuditSettings {
            path: self.path(),
            arguments: AuditedArguments::Hash,
            file_bytes_max: self.file_bytes_max,
        };
        Audit::open_after(settings, &self.store, &|| NOW + 60 * MINUTE).unwrap()
    }

    /// The effects of the lines that one more process writes first, with what these say; the next one has nothing to add.
    fn added(&self) -> Vec<String> {
        let before = self.lines().len();
        self.open().close();
        let lines = self.lines();
        self.open().close();
        assert_eq!(self.lines().len(), lines.len(), "they are written once");
        verify(&files_of(&self.path()).unwrap()).unwrap();
        lines[before..].iter().map(said).collect()
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

fn said(line: &Value) -> String {
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(line["event"], "tool_outcome_settled", "{line}");
    assert_eq!(line["writtenAfterwards"], true, "{line}");
    assert_eq!(
        text("toolId") + &text("userId") + &text("conversationId"),
        "payadac"
    );
    assert_eq!(line["intent"]["turn"], 1, "{line}");
    format!("{} {}", text("effectId"), text("state"))
}

fn identity() -> SessionIdentity {
    SessionIdentity {
        client_id: ClientId::new("client"),
        session_id: SessionId::new("s"),
        user_id: UserId::new("ada"),
        conversation_id: ConversationId::new("c"),
        mode: Mode::Voice,
    }
}

/// The line of a call that ended.
fn tell(audit: &Audit, effect: &str, error: Option<ErrorType>, at: u64) {
    let identity = identity();
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
    audit.event(&identity, at, &event);
}

#[test]
fn what_was_done_and_not_written_down_is_written_by_the_next_process() {
    let bench = bench();
    bench.made("done", OutcomeState::Succeeded, NOW);
    bench.made("failed", OutcomeState::Failed, NOW + 1);
    bench.made("lost", OutcomeState::Unknown, NOW + 2);
    bench.reserve("reserved", NOW + 3);
    // Not even a folder is left of the audit.
    assert!(!bench.path().parent().unwrap().exists());
    assert_eq!(
        bench.added(),
        ["done succeeded", "failed failed", "lost unknown"]
    );
    bench.record("lost", OutcomeState::Succeeded, NOW + 9);
    assert_eq!(bench.added(), ["lost succeeded"]);
}

#[test]
fn an_effect_whose_line_is_there_gets_no_second_one() {
    let bench = bench();
    let outcomes = [
        ("a", OutcomeState::Succeeded, None),
        ("b", OutcomeState::Failed, Some(ErrorType::Permanent)),
        ("c", OutcomeState::Unknown, Some(ErrorType::OutcomeUnknown)),
    ];
    let audit = bench.open();
    for (effect, state, error) in outcomes {
        bench.made(effect, state, NOW);
        tell(&audit, effect, error, NOW + 2);
    }
    audit.close();
    assert_eq!(bench.added(), Vec::<String>::new());
}

#[test]
fn what_is_known_late_to_have_happened_is_a_line_when_it_is_known_and_none_afterwards() {
    let bench = bench();
    let audit = bench.open();
    let outcomes = [
        ("a", OutcomeState::Succeeded, true),
        ("b", OutcomeState::Failed, false),
    ];
    for (effect, state, succeeded) in outcomes {
        bench.made(effect, OutcomeState::Unknown, NOW);
        tell(&audit, effect, Some(ErrorType::OutcomeUnknown), NOW + 2);
        bench.record(effect, state, NOW + 9);
        let settled = SessionEvent::EffectSettled {
            call: CallNumber(1),
            tool: ToolId::parse("pay").unwrap(),
            effect_id: EffectId::new(effect),
            succeeded,
        };
        audit.event(&identity(), NOW + 10, &settled);
    }
    audit.close();
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
    // It may have been tried again.
    assert_eq!(bench.added(), ["b failed"]);
}

#[test]
fn a_line_about_something_else_is_not_the_effects_end() {
    let bench = bench();
    let audit = bench.open();
    // It was asked for, and then done.
    tell(&audit, "asked", Some(ErrorType::ConfirmationRequired), NOW);
    bench.made("asked", OutcomeState::Succeeded, NOW);
    // A first attempt failed, and so did a second one.
    bench.made("twice", OutcomeState::Failed, NOW + 1);
    tell(&audit, "twice", Some(ErrorType::Permanent), NOW + 3);
    bench.made("twice", OutcomeState::Failed, NOW + 10);
    // It was unknown, and is known now.
    bench.made("known", OutcomeState::Unknown, NOW + 11);
    tell(&audit, "known", Some(ErrorType::OutcomeUnknown), NOW + 12);
    bench.record("known", OutcomeState::Succeeded, NOW + 13);
    audit.close();
    let added = ["asked succeeded", "twice failed", "known succeeded"];
    assert_eq!(bench.added(), added);
}

#[test]
fn lines_in_full_files_count_and_those_that_were_put_away_are_not_missed() {
    let bench = Bench {
        file_bytes_max: 2_000,
        ..bench()
    };
    let audit = bench.open();
    for number in 0..30 {
        let (effect, at) = (format!("{number:02}"), NOW + number * MINUTE);
        bench.made(&effect, OutcomeState::Succeeded, at);
        // The disk lost a line in the middle.
        if number != 20 {
            tell(&audit, &effect, None, at + 2);
        }
    }
    audit.close();
    let files = files_of(&bench.path()).unwrap();
    assert!(files.len() > 5, "{files:?}");
    for path in &files[..3] {
        fs::remove_file(path).unwrap();
    }
    bench.made("late", OutcomeState::Succeeded, NOW + 31 * MINUTE);
    assert_eq!(bench.added(), ["20 succeeded", "late succeeded"]);
}

#[test]
fn more_effects_than_the_ledger_tells_at_once_are_all_looked_at() {
    let limits = StoreLimits {
        effects_max: 2_000,
        ..StoreLimits::default()
    };
    let bench = Bench {
        store: MemoryStore::with_limits(limits),
        ..bench()
    };
    for number in 0..1_203_u64 {
        bench.made(
            &format!("{number:04}"),
            OutcomeState::Succeeded,
            NOW + number / 7,
        );
    }
    let added = bench.added();
    assert_eq!(added.len(), 1_203);
    assert_eq!(
        (&*added[0], &*added[1_202]),
        ("0000 succeeded", "1202 succeeded")
    );
}
