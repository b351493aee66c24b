//! Every kind of handler shows pieces of its result before its end, and is stopped by its user: each to the same effect.

use super::surroundings::Dropped;
use super::watched::Watched;
use super::{Backend, KINDS, Kind, say, shown};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Execution, Failure, Invocation, Success};
use windlass_contract::id::CallNumber;
use windlass_contract::kind::Mode;
use windlass_session::client::{CancelOutcome, CancelWay, ClientEvent, ClientUpdate};

/// What the tool does for the texts that show pieces; `None` for every other.
pub(super) fn in_rust(invocation: &Invocation, never: &Dropped) -> Option<Execution> {
    let context = invocation.context.clone();
    let text = invocation.arguments.get("text").unwrap_or_default();
    let text = text.as_str()?.to_owned();
    let done = || Execution::Ready(Ok(Success::new(json!({ "said": text }))));
    // A session that takes no piece runs the tool all the same.
    let show = |piece: Value| {
        let _ = context.output(piece);
    };
    Some(match text.as_str() {
        "pieces" => {
            show("one".into());
            show(json!({ "two": 2 }));
            done()
        }
        "begun" => {
            show("one".into());
            never.never()
        }
        "failing" => {
            show("one".into());
            Execution::Ready(Err(Failure::new(FailureKind::Conflict, "taken")))
        }
        "endless" => Execution::Pending(Box::pin(async move {
            loop {
                let _ = context.output("one");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })),
        "huge" => {
            show("x".repeat(50 << 20).into());
            done()
        }
        "after" => {
            let late = context.clone();
            std::thread::spawn(move || late.output("late"));
            done()
        }
        _ => return None,
    })
}

/// The same of a program, as cases of its `case`.
pub(super) const IN_A_SHELL: &str = r#"*'"pieces"'*) piece '"one"'; piece '{"two":2}'; said pieces;;
                *'"begun"'*) piece '"one"';;
                *'"failing"'*) piece '"one"'; printf '{"id":%s,"result":{"ok":false,"error":{"type":"CONFLICT","message":"taken"}}}\n' $id;;
                *'"endless"'*) n=0; while [ $n -lt 3000 ]; do piece '"one"'; n=$((n+1)); done;;
                *'"huge"'*) n=0; while [ $n -lt 50 ]; do piece "\"$(head -c 1000000 /dev/zero | tr '\0' x)\""; n=$((n+1)); done; said huge;;
                *'"after"'*) said after; piece '"late"';;"#;

/// The body of a service's answer in pieces; `None` for what it answers as a whole.
pub(super) fn in_a_stream(text: &str, kind: Kind) -> Option<String> {
    let done = |text: &str| match kind {
        Kind::Webhook => json!({"ok": true, "data": {"said": text}}),
        _ => json!({ "said": text }),
    };
    let taken = json!({"ok": false, "error": {"type": "CONFLICT", "message": "taken"}});
    let lines = |pieces: &[Value], last: &Value| {
        let all = pieces.iter().chain([last]);
        all.map(|line| format!("{line}\n")).collect::<String>()
    };
    if !matches!(kind, Kind::Http | Kind::Webhook) {
        return None;
    }
    Some(match text {
        "pieces" => lines(&["one".into(), json!({ "two": 2 })], &done(text)),
        // That the first is not the last, the second says.
        "begun" => lines(&["one".into()], &"two".into()),
        "failing" => lines(&["one".into(), "two".into()], &taken),
        "cut" => {
            let whole = lines(&["one".into()], &done(text));
            whole[..whole.len() - 3].to_owned()
        }
        "silent" => String::new(),
        "endless" | "huge" => String::new(),
        // Whatever comes last is the answer.
        "after" => lines(&[], &done(text)) + "\n\n",
        _ => return None,
    })
}

/// Sends it: what fails breaks off, and what is endless goes on until nobody reads it.
pub(super) async fn send(mut stream: TcpStream, body: &str, text: &str, gone: &Dropped) {
    let length = match text {
        "failing" => format!("Content-Length: {}\r\n", body.len() + 100),
        _ => String::new(),
    };
    let head = format!(
        "HTTP/1.1 200 X\r\nContent-Type: application/x-ndjson\r\n{length}Connection: close\r\n\r\n"
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
    match text {
        "begun" => {
            let _ = stream.read(&mut [0; 1]).await;
            drop(gone.never());
        }
        "endless" => while stream.write_all(b"\"one\"\n").await.is_ok() {},
        "huge" => {
            let line = format!("\"{}\"\n", "x".repeat(1_000_000));
            while stream.write_all(line.as_bytes()).await.is_ok() {}
        }
        _ => {}
    }
}

/// What a client was shown of one call, what came of its wish to have that stopped, and how the call ended.
#[derive(Debug, PartialEq)]
struct Seen {
    pieces: Vec<Value>,
    stopped: Option<CancelOutcome>,
    answer: String,
}

/// Runs one call; with `stops`, its user wants it stopped once the first piece is seen.
async fn watch(backend: &Backend, changes: Value, text: &str, stops: bool) -> (Seen, Watched) {
    let mut request = backend.request(Mode::Text, &changes);
    // One attempt, so that its pieces can be counted.
    let mut limits = (*request.session.limits).clone();
    limits.turn.retries_max = 0;
    request.session.limits = Arc::new(limits);
    let mut session = Watched::begin(request);
    let (mut pieces, mut stopped) = (Vec::new(), None);
    let watch = |update: &ClientUpdate| match update {
        ClientUpdate::ToolOutput { call, data, .. } => {
            pieces.push(data.expose().clone());
            (stops && pieces.len() == 1).then_some(ClientEvent::Cancel {
                call: *call,
                way: CancelWay::Http,
            })
        }
        ClientUpdate::CancelResult { call, outcome } => {
            assert_eq!(*call, CallNumber(1));
            stopped = Some(*outcome);
            None
        }
        _ => None,
    };
    let answer = session.call(say("call-00001", text), watch).await;
    let answer = shown(&answer);
    let seen = Seen {
        pieces,
        stopped,
        answer,
    };
    (seen, session)
}

#[tokio::test]
async fn pieces_of_every_kind_are_seen_before_the_one_result() {
    for kind in KINDS.iter().copied() {
        let backend = Backend::new(kind).await;
        let (seen, session) = watch(&backend, json!({}), "pieces", false).await;
        let expected = Seen {
            pieces: vec!["one".into(), json!({ "two": 2 })],
            stopped: None,
            answer: "{\"said\":\"pieces\"}".to_owned(),
        };
        assert_eq!(seen, expected, "{kind:?}");
        session.end().await;
    }
}

#[tokio::test]
async fn a_call_of_every_kind_stops_when_its_user_wants_that() {
    for kind in KINDS.iter().copied() {
        let backend = Backend::new(kind).await;
        let (seen, session) = watch(&backend, json!({}), "begun", true).await;
        let expected = Seen {
            pieces: vec!["one".into()],
            stopped: Some(CancelOutcome::Stopped),
            answer: "CANCELLED".to_owned(),
        };
        assert_eq!(seen, expected, "{kind:?}");
        // A script may be stopped before its request has left: nobody outside has heard of it then.
        let is_heard_of = matches!(kind, Kind::Rust | Kind::Http | Kind::Webhook);
        while is_heard_of && backend.ended_early() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        session.end().await;
    }
}

#[tokio::test]
async fn a_change_of_every_kind_goes_on_when_its_user_wants_it_stopped() {
    for kind in KINDS.iter().copied() {
        let backend = Backend::new(kind).await;
        let changes = json!({"sideEffects": "writes"});
        let (seen, session) = watch(&backend, changes, "pieces", true).await;
        let stopped = Some(CancelOutcome::RunsOn);
        let answer = "{\"said\":\"pieces\"}";
        assert_eq!(
            (seen.stopped, seen.answer.as_str()),
            (stopped, answer),
            "{kind:?}"
        );
        assert_eq!((backend.runs(), backend.ended_early()), (1, 0), "{kind:?}");
        session.end().await;
    }
}

#[tokio::test]
async fn a_change_whose_pieces_break_off_is_not_taken_for_done() {
    for kind in [Kind::Http, Kind::Webhook] {
        for (side_effects, expected) in [("writes", "OUTCOME_UNKNOWN"), ("none", "TRANSIENT")] {
            // Before its length was sent, within its last piece, and before its first one.
            for text in ["failing", "cut", "silent"] {
                let backend = Backend::new(kind).await;
                let changes = json!({"sideEffects": side_effects, "idempotent": false});
                let (seen, session) = watch(&backend, changes, text, false).await;
                assert_eq!(seen.answer, expected, "{kind:?}, {side_effects}, {text}");
                assert_eq!(backend.runs(), 1, "{kind:?}, {side_effects}, {text}");
                session.end().await;
            }
        }
    }
}

#[tokio::test]
async fn pieces_that_end_badly_harm_nobody() {
    for kind in KINDS.iter().copied() {
        let is_service = matches!(kind, Kind::Http | Kind::Webhook);
        let quick = json!({"timeoutMs": 1_000});
        let quick_once = json!({"timeoutMs": 1_000, "idempotent": false});
        for (text, changes, expected) in [
            // A service cannot say in the middle of its answer that it fails: it breaks off.
            (
                "failing",
                &quick_once,
                if is_service { "TRANSIENT" } else { "CONFLICT" },
            ),
            ("endless", &quick_once, "TRANSIENT"),
            // What a service sends is its answer, and is over its limit as a whole.
            (
                "huge",
                &json!({"idempotent": false}),
                if is_service {
                    "TRANSIENT"
                } else {
                    "{\"said\":\"huge\"}"
                },
            ),
            ("after", &quick, "{\"said\":\"after\"}"),
        ] {
            let backend = Backend::new(kind).await;
            let (seen, session) = watch(&backend, changes.clone(), text, false).await;
            assert_eq!(seen.answer, expected, "{kind:?}, {text}");
            let most = match text {
                "failing" => 2,
                // Those of a second and of the next one's beginning.
                "endless" => 300,
                // One in Rust may come before its result is taken.
                "after" => 1,
                _ => 0,
            };
            assert!(
                seen.pieces.len() <= most,
                "{kind:?}, {text}: {:?}",
                seen.pieces.len()
            );
            let is_shown = matches!(text, "failing" | "endless");
            assert!(!is_shown || !seen.pieces.is_empty(), "{kind:?}, {text}");
            session.end().await;
        }
    }
}
