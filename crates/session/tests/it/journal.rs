//! What the core is given comes back from a journal as it was: each kind of input, and each kind of result.

use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Cause, ContentPart, Failure, HandlerMessage, Report, Success};
use windlass_contract::id::{CallNumber, CallRef, EffectId, SessionId, ToolId, UserId};
use windlass_contract::input::SentInput;
use windlass_contract::intent::Intent;
use windlass_contract::kind::{Mode, Scheduling};
use windlass_contract::sensitive::Sensitive;
use windlass_session::client::{ClientEvent, MessageKey};
use windlass_session::io::{Input, News, RateDecision, StandingNews, StoreProblem};
use windlass_session::log_text::TicketReply;
use windlass_session::model::{
    ArgumentsProblem, ConnectionEvent, IncomingCall, LostReason, ModelEvent, TurnEndReason, Usage,
};
use windlass_session::saved::Began;
use windlass_store::command::{Refusal, Reply, Run};
use windlass_store::log::LegRequest;
use windlass_store::{
    Attempt, AttemptNumber, AttemptOutcome, Certainty, Earlier, Effect, EffectKey, EffectState,
    EntryNumber, Hazards, LookupState, Nonce, OwnerId, Question, QuestionNumber, QuestionState,
    StandingApproval, StandingChange, StandingEnd, StandingEvent, StandingScope,
};

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

fn effect() -> Effect {
    Effect {
        effect_id: EffectId::new("e-1"),
        key: EffectKey([9; 32]),
        near: EffectKey([9; 32]),
        key_spec: Arc::default(),
        tool: ToolId::parse("send").unwrap(),
        tool_version: "1.0.0".to_owned(),
        arguments: Sensitive("{}".to_owned()),
        state: EffectState::Unknown,
        attempts: vec![Attempt {
            number: AttemptNumber(1),
            nonce: Nonce([1; 16]),
            owner: OwnerId("p-1".to_owned()),
            lease_end_unix_ms: 1_700_000_010_000,
            question: Some(QuestionNumber(3)),
            tool_version: None,
            standing: Some(QuestionNumber(3)),
            outcome: Some(AttemptOutcome::Unknown),
        }],
        receipt: Some(Sensitive("{}".to_owned())),
        parent: None,
        leg: SessionId::new("s-1"),
        generation: 2,
        onset: Some(EntryNumber(4)),
        first_entry: EntryNumber(5),
        last_entry: EntryNumber(6),
        is_heard: false,
        lookup: LookupState::NONE,
        task: None,
        is_audited: false,
        intent: Sensitive("{}".to_owned()),
        begun_at_unix_ms: 1_700_000_000_000,
        changed_at_unix_ms: 1_700_000_000_000,
    }
}

fn question() -> Question {
    Question {
        number: QuestionNumber(3),
        key: EffectKey([9; 32]),
        near: EffectKey([9; 32]),
        tool: ToolId::parse("send").unwrap(),
        tool_version: "1.0.0".to_owned(),
        handler_hash: None,
        arguments: Sensitive("{}".to_owned()),
        preview: Sensitive("Send?".to_owned()),
        hazards: Hazards {
            earlier: vec![Earlier {
                effect_id: EffectId::new("e-1"),
                certainty: Certainty::MayHaveHappened,
                at_unix_ms: 1_700_000_000_000,
                arguments: Sensitive("{}".to_owned()),
            }],
            external_content: true,
        },
        because: Some("the condition holds: true".to_owned()),
        clock: None,
        mode: Mode::Voice,
        user_id: UserId::new("u-1"),
        leg: SessionId::new("s-1"),
        call: 3,
        generation: 2,
        onset: Some(EntryNumber(4)),
        nonce: Nonce([2; 16]),
        state: QuestionState::Open,
        reason: None,
        effect_id: None,
        last_entry: EntryNumber(6),
        is_heard: true,
        input: None,
        asked_at_unix_ms: 1_700_000_000_000,
        expires_at_unix_ms: 1_700_000_300_000,
    }
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
        loss: None,
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
        accepted_until_unix_ms: None,
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
    check(vec![Input::HandlerMessage {
        call: call(),
        message: HandlerMessage::Progress {
            message: "half".to_owned(),
            fraction: Some(0.5),
        },
    }]);
}

fn standing() -> StandingApproval {
    StandingApproval {
        question: QuestionNumber(3),
        tool: ToolId::parse("order").unwrap(),
        tool_version: "1.0.0".to_owned(),
        handler_hash: Some("1".to_owned()),
        values: Sensitive(r#"{"/what":"tea"}"#.to_owned()),
        scope: StandingScope::Session(SessionId::new("s-1")),
        given_at_unix_ms: 1,
        expires_at_unix_ms: 2,
    }
}

#[test]
fn what_the_ledger_and_the_limits_answer_comes_back() {
    let decided = [
        Ok(Box::new(Reply::Conflict)),
        Ok(Box::new(Reply::Run(Box::new(Run {
            effect_id: Some(EffectId::new("e-1")),
            attempt: AttemptNumber(2),
            lease_end_unix_ms: 1_700_000_000_000,
            question: Some(question()),
            standing: Some(Box::new(standing())),
        })))),
        Ok(Box::new(Reply::Replay(Box::new(effect())))),
        Ok(Box::new(Reply::Denied(Box::new(question())))),
        Ok(Box::new(Reply::Refused(Refusal::NobodyToAsk))),
        Err(StoreProblem {
            problem: "the disk is full".to_owned(),
        }),
    ];
    let decided = decided.into_iter().map(|reply| Input::Decided {
        call: call().call,
        reply,
    });
    check(decided.collect());
    check(vec![
        Input::Recorded {
            call: call().call,
            reply: Ok(Box::new(Reply::Recorded(Box::new(effect())))),
        },
        Input::News(vec![
            News::Effect(Box::new(effect())),
            News::Question(Box::new(question())),
            News::Asked(LegRequest {
                leg: SessionId::new("s-1"),
                question: QuestionNumber(3),
                is_rejected: false,
                intents: vec![Intent::SuppressAudio { value: true }],
            }),
            News::TicketReply(Box::new(TicketReply {
                ticket: "tk1".to_owned(),
                author: Some("Maya".to_owned()),
                text: Sensitive("It is on its way.".to_owned()),
            })),
            News::Standing(Box::new(StandingNews {
                standing: vec![standing()],
                own: vec![StandingChange {
                    question: QuestionNumber(3),
                    tool: ToolId::parse("order").unwrap(),
                    event: StandingEvent::Ended(StandingEnd::Expired),
                }],
            })),
        ]),
        Input::Began(Box::new(Began {
            questions: vec![question()],
            unheard: vec![effect()],
            unheard_questions: vec![question()],
            standing: vec![standing()],
            ..Began::default()
        })),
        Input::Answered {
            question: Some(Box::new(question())),
            approved: true,
            reason: None,
            remember: true,
            input: Some(Box::new(SentInput {
                content: Some(Sensitive(json!({"k": {"name": "Ada"}}))),
                is_cancelled: false,
            })),
        },
        Input::Answered {
            question: None,
            approved: false,
            reason: Some(Sensitive("too dear".to_owned())),
            remember: false,
            input: None,
        },
        Input::RateChecked {
            call: CallNumber(1),
            decision: RateDecision::Refused {
                retry_after: Duration::from_millis(1_500),
            },
        },
    ]);
}
