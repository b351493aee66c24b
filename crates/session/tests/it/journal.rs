//! What the core is given comes back from a journal as it was: each kind of input, and each kind of result.

use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_session::client::{ClientEvent, MessageKey};
use windlass_session::io::{
    Begun, Input, LedgerEntry, OutcomeState, Proposed, RateDecision, Remembered, Reservation,
    ReservationError, ReservationRefusal, Wish,
};
use windlass_session::model::{
    ArgumentsProblem, ConnectionEvent, IncomingCall, LostReason, ModelEvent, TurnEndReason, Usage,
};
use windlass_tool::envelope::{Meta, Outcome, ToolResponse, meta_without_tool};
use windlass_tool::error::FailureKind;
use windlass_tool::handler::{
    Cause, ContentPart, Failure, Finding, HandlerMessage, Report, Success,
};
use windlass_tool::id::{CallNumber, CallRef, EffectId, ToolId};
use windlass_tool::intent::Intent;
use windlass_tool::kind::Scheduling;
use windlass_tool::sensitive::Sensitive;

fn check(inputs: Vec<Input>) {
    for input in inputs {
        let text = serde_json::to_string(&input).unwrap();
        let read: Input = serde_json::from_str(&text).unwrap();
        // The debug form says all but what is sensitive, and the second text that, too.
        assert_eq!(format!("{read:?}"), format!("{input:?}"), "{text}");
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}

fn call() -> CallRef {
    CallRef {
        call: CallNumber(3),
        attempt: 2,
    }
}

fn response() -> Arc<ToolResponse> {
    Arc::new(ToolResponse {
        outcome: Outcome::Success {
            data: Some(json!({"n": 1}).into()),
            content: Vec::new(),
        },
        intents: Vec::new(),
        meta: Meta {
            recorded: Some(false),
            ..meta_without_tool("send", "1.0.00000000".into(), 1_700_000_000_000)
        },
    })
}

#[test]
fn what_models_and_clients_say_comes_back() {
    let text = || Sensitive("words".to_owned());
    let calls = vec![
        IncomingCall {
            id: Some("id".into()),
            name: Some("send".into()),
            arguments: Ok(json!({"a": [1, null]}).as_object().unwrap().clone().into()),
        },
        IncomingCall {
            id: None,
            name: None,
            arguments: Err(ArgumentsProblem("no JSON".to_owned())),
        },
    ];
    check(
        [
            ModelEvent::Ready {
                provider_session_id: Some("p".to_owned()),
            },
            ModelEvent::Calls(calls),
            ModelEvent::CallsCancelled(vec!["id".into()]),
            ModelEvent::SpeechStarted,
            ModelEvent::OutputTranscript {
                text: text(),
                finished: true,
            },
            ModelEvent::TurnComplete {
                idle: false,
                reason: Some(TurnEndReason::Other("odd".to_owned())),
                unplayed: Duration::from_micros(1_234_567),
            },
            ModelEvent::ResumptionUpdate {
                handle: Some(text()),
            },
            ModelEvent::Usage(Usage::default()),
        ]
        .into_iter()
        .map(Input::Model)
        .collect(),
    );
    check(vec![
        Input::Client(ClientEvent::Text {
            text: text(),
            message: None,
        }),
        Input::Client(ClientEvent::Text {
            text: text(),
            message: Some(MessageKey::of("m-1")),
        }),
        Input::Client(ClientEvent::Confirm {
            token_hash: [7; 32],
            approved: true,
        }),
        Input::Connection(ConnectionEvent::Connected {
            generation: 2,
            resumed: true,
        }),
        Input::Connection(ConnectionEvent::Lost {
            generation: 2,
            reason: LostReason::Closed {
                code: 1011,
                reason: "gone".to_owned(),
            },
        }),
        Input::Shutdown,
        Input::Tick,
    ]);
}

#[test]
fn what_handlers_bring_comes_back() {
    let success = |data| Success {
        data,
        content: vec![ContentPart::Image {
            mime_type: "image/png".to_owned(),
            url: "https://example.org".to_owned(),
        }],
        intents: vec![
            Intent::SuppressAudio { value: true },
            Intent::Unknown(json!({"type": "FORMAT_DISK"})),
        ],
        scheduling: Some(Scheduling::WhenIdle),
    };
    let failure = |cause| Failure {
        cause,
        intents: Vec::new(),
    };
    let report = Report {
        details: Some(Value::Null),
        retry_after_ms: Some(5),
        ..Report::new(FailureKind::RateLimit, "slow down")
    };
    let results = [
        Ok(success(None)),
        Ok(success(Some(Value::Null.into()))),
        Ok(success(Some(json!({"list": ["x"]}).into()))),
        Err(failure(Cause::Broken("it broke".to_owned()))),
        Err(failure(Cause::Reported(Box::new(report)))),
    ];
    let finished = results.into_iter().map(|result| Input::CallFinished {
        call: call(),
        result,
    });
    check(finished.collect());
    let findings = [
        Finding::Happened(Box::new(Success::new(json!(1)))),
        Finding::NotHappened,
        Finding::Unknown,
    ];
    let looked_up = findings.into_iter().map(|finding| Input::LookedUp {
        call: call().call,
        finding,
    });
    check(looked_up.collect());
    check(vec![Input::HandlerMessage {
        call: call(),
        message: HandlerMessage::Progress {
            message: "half".to_owned(),
            fraction: Some(0.5),
        },
    }]);
}

#[test]
fn what_the_store_and_the_limits_answer_comes_back() {
    let unavailable = || ReservationError {
        problem: "the disk is full".to_owned(),
    };
    let refusals = [
        ReservationRefusal::Unavailable(unavailable()),
        ReservationRefusal::GrantUnknown,
        ReservationRefusal::GrantConsumed(Some(response())),
        ReservationRefusal::GrantConsumed(None),
        ReservationRefusal::Open(EffectId::new("e-1")),
        ReservationRefusal::Done(Some(response())),
        ReservationRefusal::Full,
    ];
    let outcomes = refusals
        .into_iter()
        .map(Err)
        .chain([Ok(Begun::first(EffectId::new("e-1")))]);
    let reserved = outcomes.map(|outcome| {
        Input::Reserved(Reservation {
            call: CallNumber(1),
            outcome,
        })
    });
    check(reserved.collect());
    let entry = |response| LedgerEntry {
        fingerprint: [9; 32],
        effect_id: EffectId::new("e-1"),
        tool: ToolId::parse("send").unwrap(),
        state: OutcomeState::Unknown,
        response,
        is_answered: true,
        is_under_way: false,
        reserved_at_unix_ms: 1_700_000_000_000,
        wish: Wish {
            input: 3,
            message: Some(MessageKey::of("m-1")),
            line: Some(1_700_000_000_000),
        },
    };
    check(vec![
        Input::Ledger(Ok(Remembered {
            effects: vec![entry(None), entry(Some(response()))],
            has_read: true,
        })),
        Input::Ledger(Err(ReservationError {
            problem: "down".to_owned(),
        })),
        Input::Proposed {
            call: CallNumber(1),
            outcome: Ok(Proposed {
                effect_id: EffectId::new("e-1"),
                token_hash: [1; 32],
                expires_at_unix_ms: 5,
            }),
        },
        Input::Proposed {
            call: CallNumber(1),
            outcome: Err(ReservationRefusal::Unavailable(unavailable())),
        },
        Input::RateChecked {
            call: CallNumber(1),
            decision: RateDecision::Refused {
                retry_after: Duration::from_millis(1_500),
            },
        },
    ]);
}
