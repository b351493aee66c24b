//! Recorded sessions: run again they give what they gave; what must not be recorded is not.

use crate::support::tools::{echo, ready, registry, tool};
use crate::support::{StillCapabilities, session_config, shared};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use windlass_contract::envelope::{Outcome, ToolResponse, meta_without_tool};
use windlass_contract::id::{CallNumber, ClientId, EffectId, SessionId, ToolId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::registry::{Registry, Tool};
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::direct::{DirectRequest, DirectSession};
use windlass_runtime::journal::{Journal, JournalSettings, RecordedSession};
use windlass_session::io::{Input, News};
use windlass_session::journal::{Line, Replay};
use windlass_session::model::IncomingCall;
use windlass_session::saved::Began;
use windlass_session::time::Timestamp;
use windlass_store::command::{OpenQuestion, Reply};
use windlass_store::{
    Attempt, AttemptNumber, AttemptOutcome, Effect, EffectKey, EffectState, EntryNumber, Hazards,
    LookupState, Nonce, OwnerId, Question, QuestionNumber, QuestionState, Token,
};

fn tools() -> Arc<Registry> {
    let scoring = Tool {
        sensitive: Vec::new(),
        ..tool("scoring", |_| {
            ready(json!({ "score": 0.1 + 0.2, "third": 1.0 / 3.0, "tiny": 5e-324 }))
        })
    };
    // It says what it must not, everywhere.
    let telling = tool("telling", |invocation| {
        let Value::String(pin) = invocation.arguments.to_value()["pin"].take() else {
            return ready(json!({}));
        };
        let context = &invocation.context;
        context.audit("told", json!({ "pin": pin })).unwrap();
        context
            .send_message(json!({ "type": "told", "text": format!("It is {pin}.") }))
            .unwrap();
        ready(json!({ "told": [format!("not {pin}")] }))
    });
    registry(vec![echo(), scoring, telling])
}

fn start(folder: &Path, file_bytes_max: u64, files_max: usize) -> Arc<Journal> {
    let journal = Journal::start(JournalSettings {
        folder: folder.to_owned(),
        file_bytes_max,
        files_max,
    });
    Arc::new(journal.unwrap())
}

/// A session that makes these calls, a turn each.
async fn record(journal: &Arc<Journal>, session: &str, calls: &[(&str, Value)]) {
    let mut config = session_config(Mode::Voice, tools());
    config.session_id = SessionId::new(session);
    let mut shared = shared(Vec::new());
    shared.journal = Some(journal.clone());
    let mut direct = DirectSession::begin(DirectRequest {
        session: config,
        client_id: ClientId::new("shell"),
        capabilities: Arc::new(StillCapabilities),
        shared,
    });
    for (index, (name, arguments)) in calls.iter().enumerate() {
        direct.user_says("and now?");
        direct
            .call(IncomingCall {
                id: Some(format!("delivery-{index}").into()),
                name: Some((*name).into()),
                arguments: Ok(arguments.as_object().unwrap().clone().into()),
            })
            .await;
        direct.turn_ends();
    }
    direct.end().await;
}

fn path(folder: &Path, session: &str) -> std::path::PathBuf {
    folder.join(format!("{session}.journal.jsonl"))
}

fn lines(path: &Path) -> Vec<Line> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Runs a journal again and compares every step: how many inputs there were, or which of them gave something else.
fn replay(lines: Vec<Line>, registry: Arc<Registry>) -> Result<usize, usize> {
    let mut lines = lines.into_iter();
    let Some(Line::Header(header)) = lines.next() else {
        panic!("a journal begins with its header");
    };
    let (mut session, outputs) = Replay::begin(header.session, registry);
    assert_eq!(outputs, header.outputs);
    let mut inputs = 0;
    for line in lines {
        let Line::Step(step) = line else {
            panic!("{line:?}");
        };
        inputs += 1;
        if session.step(step.at, step.input) != step.outputs {
            return Err(inputs);
        }
    }
    Ok(inputs)
}

#[tokio::test(start_paused = true)]
async fn a_recorded_session_gives_the_same_when_it_is_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let journal = start(folder.path(), 1_000_000, 10);
    let calls = [
        ("echo", json!({ "text": "tea" })),
        ("scoring", json!({})),
        ("nothing_like_it", json!({})),
        ("scoring", json!({ "text": 1 })),
    ];
    Box::pin(record(&journal, "s-1", &calls)).await;
    journal.close();
    let inputs = replay(lines(&path(folder.path(), "s-1")), tools());
    assert!(inputs.is_ok_and(|inputs| inputs > 12), "{inputs:?}");
}

#[tokio::test(start_paused = true)]
async fn another_core_or_other_tools_show_as_a_difference() {
    let folder = tempfile::tempdir().unwrap();
    let journal = start(folder.path(), 1_000_000, 10);
    Box::pin(record(
        &journal,
        "s-1",
        &[("echo", json!({ "text": "tea" }))],
    ))
    .await;
    journal.close();
    let lines = lines(&path(folder.path(), "s-1"));
    let other = registry(Vec::new());
    assert!(replay(lines, other).is_err());
}

#[tokio::test(start_paused = true)]
async fn sensitive_arguments_are_left_out_and_the_journal_is_partial_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let journal = start(folder.path(), 1_000_000, 10);
    let calls = [
        ("scoring", json!({})),
        ("echo", json!({ "text": "tea", "pin": "98765" })),
    ];
    Box::pin(record(&journal, "s-1", &calls)).await;
    journal.close();
    let path = path(folder.path(), "s-1");
    assert!(!fs::read_to_string(&path).unwrap().contains("98765"));
    let lines = lines(&path);
    let partial = lines
        .iter()
        .position(|line| matches!(line, Line::Partial { tool } if tool == "echo"))
        .unwrap();
    assert!(replay(lines[..partial].to_vec(), tools()).is_ok_and(|inputs| inputs > 3));
    for line in &lines[partial + 1..] {
        assert!(matches!(line, Line::Step(step) if step.outputs.is_empty()));
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_left_out_stands_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let journal = start(folder.path(), 1_000_000, 10);
    let calls = [
        ("telling", json!({ "pin": "98701" })),
        // Nobody can say what of these is what.
        ("telling", json!({ "pn": "98702" })),
        ("telling", json!({ "text": 1, "pin": ["98703"] })),
        ("teling", json!({ "pin": "98704" })),
    ];
    for (index, call) in calls.iter().enumerate() {
        Box::pin(record(
            &journal,
            &format!("s-{index}"),
            std::slice::from_ref(call),
        ))
        .await;
    }
    journal.close();
    for index in 0..calls.len() {
        let text = fs::read_to_string(path(folder.path(), &format!("s-{index}"))).unwrap();
        assert!(!text.contains("987"), "{text}");
        assert!(text.contains("partial"), "{text}");
        let has_call = text.contains("call_finished");
        assert_eq!(has_call, index == 0, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_words_and_other_arguments_show_as_a_difference() {
    let folder = tempfile::tempdir().unwrap();
    let journal = start(folder.path(), 1_000_000, 10);
    Box::pin(record(
        &journal,
        "s-1",
        &[("echo", json!({ "text": "tea" }))],
    ))
    .await;
    journal.close();
    let text = fs::read_to_string(path(folder.path(), "s-1")).unwrap();
    for (said, other) in [("and now?", "and then?"), ("\"tea\"", "\"sea\"")] {
        assert!(text.contains(said), "{text}");
        let changed = text.replace(said, other);
        let lines = changed.lines();
        let lines = lines.map(|line| serde_json::from_str(line).unwrap());
        assert!(replay(lines.collect(), tools()).is_err(), "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn journals_are_bounded_in_size_and_in_number() {
    let folder = tempfile::tempdir().unwrap();
    let journal = start(folder.path(), 6_000, 2);
    let calls: Vec<_> = (0..20)
        .map(|number| ("echo", json!({ "text": number.to_string() })))
        .collect();
    for session in ["s-1", "s-2", "s-3"] {
        Box::pin(record(&journal, session, &calls)).await;
    }
    journal.close();
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(files.len(), 2);
    let mut lines = lines(&path(folder.path(), "s-3"));
    assert!(matches!(lines.pop(), Some(Line::Full)));
    assert!(fs::metadata(path(folder.path(), "s-3")).unwrap().len() <= 6_007);
    assert!(replay(lines, tools()).is_ok_and(|inputs| inputs > 1));
}

/// What the journal of a session shows that is given these inputs.
fn shown(inputs: impl FnOnce(&RecordedSession) -> Vec<Input>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let journal = start(folder.path(), 1_000_000, 10);
    let mut config = session_config(Mode::Voice, tools());
    config.session_id = SessionId::new("s-1");
    let mut outputs = Vec::new();
    let mut session = RecordedSession::begin(config, Some(&journal), &mut outputs);
    for input in inputs(&session) {
        session.handle(Timestamp::default(), input, &mut outputs);
    }
    drop(session);
    journal.close();
    fs::read_to_string(path(folder.path(), "s-1")).unwrap()
}

const WITH_PIN: &str = r#"{"pin":"98705"}"#;

fn telling() -> ToolId {
    ToolId::parse("telling").unwrap()
}

/// An effect as the ledger has it, which tells what must not be told.
fn effect() -> Effect {
    let response = ToolResponse {
        outcome: Outcome::Success {
            data: Some(json!({ "told": ["not 98705"] }).into()),
            content: Vec::new(),
        },
        intents: Vec::new(),
        meta: meta_without_tool("telling", "1.0.test0000".into(), 1),
    };
    Effect {
        effect_id: EffectId::new("effect-1"),
        key: EffectKey([0; 32]),
        near: EffectKey([0; 32]),
        key_spec: Arc::default(),
        tool: telling(),
        tool_version: "1.0.0".to_owned(),
        arguments: Sensitive(WITH_PIN.to_owned()),
        state: EffectState::Done,
        attempts: vec![Attempt {
            number: AttemptNumber(1),
            nonce: Nonce([0; 16]),
            owner: OwnerId("p-1".to_owned()),
            lease_end_unix_ms: 1,
            question: None,
            tool_version: None,
            standing: None,
            outcome: Some(AttemptOutcome::Succeeded),
        }],
        receipt: Some(Sensitive(serde_json::to_string(&response).unwrap())),
        parent: None,
        leg: SessionId::new("s-0"),
        generation: 1,
        onset: None,
        first_entry: EntryNumber(1),
        last_entry: EntryNumber(2),
        is_heard: false,
        lookup: LookupState::NONE,
        task: None,
        is_audited: true,
        intent: Sensitive("{}".to_owned()),
        begun_at_unix_ms: 1,
        changed_at_unix_ms: 2,
    }
}

fn question() -> Question {
    let (key, nonce) = (vec![0; 32], vec![0; 16]);
    let question = json!({
        "number": 1, "key": key, "near": key, "tool": "telling", "tool_version": "1.0.0", "handler_hash": null,
        "arguments": WITH_PIN, "preview": "Tell 98705?", "reason": "98705 is wrong", "hazards": Hazards::default(), "mode": Mode::Voice,
        "user_id": UserId::new("ada"), "leg": SessionId::new("s-0"), "call": 1, "nonce": nonce,
        "generation": 1, "onset": null, "state": QuestionState::Open, "effect_id": null, "last_entry": 1, "is_heard": true,
        "asked_at_unix_ms": 1, "expires_at_unix_ms": u64::MAX,
    });
    serde_json::from_value(question).unwrap()
}

#[test]
fn what_the_ledger_says_of_a_call_holds_nothing_that_was_left_out_of_it() {
    let call = CallNumber(1);
    let decided = |reply| Input::Decided {
        call,
        reply: Ok(Box::new(reply)),
    };
    let asked = OpenQuestion {
        question: question(),
        token: Token::parse("1.00000000000000000000000000000000").unwrap(),
        is_repeated: false,
        replaced: Vec::new(),
    };
    assert_eq!(asked.question.number, QuestionNumber(1));
    let began = Began {
        questions: vec![question()],
        unheard: vec![effect()],
        unheard_questions: vec![question()],
        ..Began::default()
    };
    let news = vec![
        News::Effect(Box::new(effect())),
        News::Question(Box::new(question())),
    ];
    let recorded = Input::Recorded {
        call,
        reply: Ok(Box::new(Reply::Recorded(Box::new(effect())))),
    };
    let answered = Input::Answered {
        question: Some(Box::new(question())),
        approved: false,
        reason: Some(Sensitive("98705 is wrong".to_owned())),
        remember: false,
        input: None,
    };
    for (kind, input) in [
        ("decided", decided(Reply::Replay(Box::new(effect())))),
        ("decided", decided(Reply::Ask(Box::new(asked)))),
        ("recorded", recorded),
        ("answered", answered),
        ("news", Input::News(news)),
        ("began", Input::Began(Box::new(began))),
    ] {
        let text = shown(|_| vec![input]);
        assert!(text.contains(&format!("\"{kind}\"")), "{text}");
        assert!(text.contains("partial"), "{text}");
        assert!(!text.contains("98705"), "{text}");
    }
}

#[test]
fn words_that_waited_in_a_session_before_are_left_out() {
    let text = shown(|session| {
        let mut saved = serde_json::to_value(session.saved()).unwrap();
        saved["pending_message"] = json!("It is 98706.");
        saved["pending_end"] = json!({
            "after": "farewell_spoken", "reason": "98707", "closing_message": "98708", "text_response": "98709"
        });
        let began = Began {
            saved: Some(serde_json::from_value(saved).unwrap()),
            ..Began::default()
        };
        vec![Input::Began(Box::new(began))]
    });
    assert!(text.contains("\"began\""), "{text}");
    assert!(text.contains("farewell_spoken"), "{text}");
    assert!(text.contains("partial"), "{text}");
    assert!(!text.contains("987"), "{text}");
}
