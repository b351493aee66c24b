//! Reads the input lines of scripts.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use windlass_session::client::{ClientEvent, MessageKey};
use windlass_session::io::{
    AnsweredQuestion, Begun, Continued, FoundQuestion, Input, LedgerEntry, OpenQuestion,
    OutcomeState, Proposed, Remembered, Reservation, Spared, Wish,
};
use windlass_session::model::{
    ArgumentsProblem, ConnectionEvent, IncomingCall, LostReason, ModelEvent,
};
use windlass_tool::envelope::{Outcome, ToolResponse, meta_without_tool};
use windlass_tool::error::FailureKind;
use windlass_tool::handler::{
    Cause, ContentPart, Failure, Finding, HandlerMessage, HandlerResult, Report, Success,
};
use windlass_tool::id::{CallNumber, CallRef, EffectId, ToolId};
use windlass_tool::kind::Scheduling;

pub(crate) fn parse(line: &str) -> Input {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let model = Input::Model;
    match word {
        "connected" => Input::Connection(ConnectionEvent::Connected {
            generation: rest.parse().unwrap(),
            resumed: false,
        }),
        "lost" => Input::Connection(ConnectionEvent::Lost {
            generation: rest.parse().unwrap(),
            reason: LostReason::Closed {
                code: 1011,
                reason: "Internal error".to_owned(),
            },
        }),
        "drops" => Input::Connection(ConnectionEvent::Lost {
            generation: rest.parse().unwrap(),
            reason: LostReason::Dropped {
                problem: "the connection ended".to_owned(),
            },
        }),
        "unreachable" => Input::Connection(ConnectionEvent::Lost {
            generation: rest.parse().unwrap(),
            reason: LostReason::Network {
                problem: "connection refused".to_owned(),
            },
        }),
        "resumed" => Input::Connection(ConnectionEvent::Connected {
            generation: rest.parse().unwrap(),
            resumed: true,
        }),
        "refused" => {
            let (generation, code) = rest.split_once(' ').unwrap();
            Input::Connection(ConnectionEvent::Lost {
                generation: generation.parse().unwrap(),
                reason: LostReason::Closed {
                    code: code.parse().unwrap(),
                    reason: "refused".to_owned(),
                },
            })
        }
        "goaway" => model(ModelEvent::GoAway {
            time_left: rest.parse().ok().map(Duration::from_millis),
        }),
        "handle" => model(ModelEvent::ResumptionUpdate {
            handle: Some(rest.to_owned())
                .filter(|text| text != "-")
                .map(Into::into),
        }),
        "unauthorized" => Input::Connection(ConnectionEvent::Lost {
            generation: rest.parse().unwrap(),
            reason: LostReason::Unauthorized,
        }),
        "ready" => model(ModelEvent::Ready {
            provider_session_id: None,
        }),
        "calls" => model(ModelEvent::Calls(
            rest.split(" + ").map(parse_call).collect(),
        )),
        "cancel" => model(ModelEvent::CallsCancelled(
            rest.split(' ').map(Into::into).collect(),
        )),
        "hears" => model(ModelEvent::InputTranscript {
            text: rest.to_owned().into(),
            finished: false,
        }),
        "speech" => model(ModelEvent::SpeechStarted),
        "says" => model(ModelEvent::OutputTranscript {
            text: rest.to_owned().into(),
            finished: false,
        }),
        "audio" => model(ModelEvent::AudioStarted),
        "unplayed" => model(ModelEvent::Unplayed(Duration::from_millis(
            rest.parse().unwrap(),
        ))),
        "generated" => model(ModelEvent::GenerationComplete),
        "done" => model(ModelEvent::TurnComplete {
            idle: true,
            reason: None,
            unplayed: Duration::from_millis(rest.parse().unwrap_or(0)),
        }),
        "busy" => model(ModelEvent::TurnComplete {
            idle: false,
            reason: None,
            unplayed: Duration::ZERO,
        }),
        "interrupted" => model(ModelEvent::Interrupted),
        _ => parse_other(word, rest),
    }
}

fn parse_other(word: &str, rest: &str) -> Input {
    match word {
        "text" => Input::Client(ClientEvent::Text {
            text: rest.to_owned().into(),
            message: None,
        }),
        "sends" => {
            let (id, text) = rest.split_once(' ').unwrap();
            Input::Client(ClientEvent::Text {
                text: text.to_owned().into(),
                message: Some(MessageKey::of(id)),
            })
        }
        "interrupt" => Input::Client(ClientEvent::Interrupt),
        "microphone" => Input::Client(ClientEvent::MicrophoneOpened),
        "spoken" => Input::Client(ClientEvent::TurnComplete),
        "played" => Input::Client(ClientEvent::PlaybackDone),
        "stop" => Input::Client(ClientEvent::Stop),
        "gone" => Input::Client(ClientEvent::Lost),
        "back" => Input::Client(ClientEvent::Connected),
        "confirm" | "decline" => Input::Client(ClientEvent::Confirm {
            token_hash: [rest.strip_prefix("token-").unwrap().parse().unwrap(); 32],
            approved: word == "confirm",
        }),
        "reserved" => {
            let (call, effect_id) = rest.split_once(' ').unwrap();
            let again = effect_id.strip_suffix(" again");
            Input::Reserved(Reservation {
                call: CallNumber(call.parse().unwrap()),
                outcome: Ok(Begun {
                    effect_id: EffectId::new(again.unwrap_or(effect_id)),
                    may_be_done: again.is_some(),
                }),
            })
        }
        "recorded" | "unrecorded" => {
            let (effect_id, state) = rest.split_once(" as ").unwrap();
            Input::Recorded {
                effect_id: EffectId::new(effect_id),
                state: parse_state(state).0,
                stored: word == "recorded",
            }
        }
        "stored" => Input::Declined {
            token_hash: [rest.strip_prefix("no to token-").unwrap().parse().unwrap(); 32],
            stored: true,
        },
        "proposed" => {
            let (call, token) = rest.split_once(" token-").unwrap();
            Input::Proposed {
                call: CallNumber(call.parse().unwrap()),
                outcome: Ok(Proposed {
                    effect_id: EffectId::new("effect-1"),
                    token_hash: [token.parse().unwrap(); 32],
                    expires_at_unix_ms: 1_795_000_060_000,
                }),
            }
        }
        "found" => {
            let (call, finding) = rest.split_once(' ').unwrap();
            Input::LookedUp {
                call: CallNumber(call.parse().unwrap()),
                finding: parse_finding(finding).unwrap(),
            }
        }
        "awaited" => {
            let (call, entry) = rest.split_once(' ').unwrap();
            Input::EffectAwaited {
                call: CallNumber(call.parse().unwrap()),
                entry: (entry != "nothing").then(|| Box::new(ledger_entry(entry))),
            }
        }
        "elsewhere" => {
            let (call, reason) = rest.split_once(' ').unwrap();
            Input::LookupSpared {
                call: CallNumber(call.parse().unwrap()),
                reason: match reason {
                    "under way" => Spared::UnderWay,
                    entry => Spared::Settled(Box::new(ledger_entry(entry))),
                },
            }
        }
        "ledger" => Input::Ledger(Ok(match rest {
            "read" => Remembered {
                has_read: true,
                ..Remembered::default()
            },
            entry => Remembered {
                effects: vec![ledger_entry(entry)],
                has_read: false,
            },
        })),
        "continued" => Input::Continued(continued(rest)),
        "approved" => Input::Continued(approved(rest)),
        "declined" => Input::Continued(Continued {
            last_call: CallNumber(9),
            questions: Vec::new(),
            approved: Vec::new(),
            declined: vec![parse_approval(rest, Some(CallNumber(3)))],
        }),
        "shutdown" => Input::Shutdown,
        "returns" => {
            let (call, result) = rest.split_once(' ').unwrap();
            Input::CallFinished {
                call: parse_ref(call),
                result: parse_result(result),
            }
        }
        "message" => {
            let (call, message) = rest.split_once(' ').unwrap();
            let message = HandlerMessage::Client(serde_json::from_str(message).unwrap());
            Input::HandlerMessage {
                call: parse_ref(call),
                message,
            }
        }
        "progress" => {
            let (call, message) = rest.split_once(' ').unwrap();
            let message = HandlerMessage::Progress {
                message: message.to_owned(),
                fraction: Some(0.5),
            };
            Input::HandlerMessage {
                call: parse_ref(call),
                message,
            }
        }
        other => panic!("no such input: {other}"),
    }
}

/// What a lookup finds: `it happened {data}`, `nothing happened`, `no answer`, or anything else for not knowing.
pub(crate) fn parse_finding(text: &str) -> Option<Finding> {
    match text.split_once('{') {
        Some((_, data)) => {
            let data: Value = serde_json::from_str(&format!("{{{data}")).unwrap();
            Some(Finding::Happened(Box::new(Success::new(data))))
        }
        None if text == "nothing happened" => Some(Finding::NotHappened),
        None if text == "no answer" => None,
        None => Some(Finding::Unknown),
    }
}

/// `STATE EFFECT TOOL ARGUMENTS`, of user u-1, answered or not, with its answer or without. `STATE:ID` where it was asked
/// for in a message of this id.
fn ledger_entry(text: &str) -> LedgerEntry {
    let mut words = text.splitn(4, ' ');
    let (state, effect, tool) = (
        words.next().unwrap(),
        words.next().unwrap(),
        words.next().unwrap(),
    );
    let arguments: Value = serde_json::from_str(words.next().unwrap()).unwrap();
    let (state, message) = match state.split_once(':') {
        Some((state, id)) => (state, Some(MessageKey::of(id))),
        None => (state, None),
    };
    let is_kept = matches!(state, "succeeded" | "unheard" | "undone");
    let is_under_way = state == "running";
    let (state, is_answered) = parse_state(state);
    let fingerprint = fingerprint(tool, &arguments);
    let response = is_kept.then(|| kept_response(tool));
    LedgerEntry {
        fingerprint,
        effect_id: EffectId::new(effect),
        tool: ToolId::parse(tool).unwrap(),
        state,
        response,
        is_answered,
        is_under_way,
        reserved_at_unix_ms: 0,
        wish: Wish {
            input: 1,
            message,
            line: None,
        },
    }
}

/// Of user u-1.
fn fingerprint(tool: &str, arguments: &Value) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in [tool, "1.0.0", "u-1"] {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    hasher.update(windlass_tool::json::canonical(arguments));
    hasher.finalize().into()
}

/// `CALL TOKEN SECONDS EFFECT TOOL VERSION ARGUMENTS`: one question that has so many seconds left.
fn continued(text: &str) -> Continued {
    let words: Vec<&str> = text.splitn(7, ' ').collect();
    let [call, token, seconds, effect, tool, version, arguments] = words[..] else {
        panic!("no question: {text}");
    };
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    let call = CallNumber(call.parse().unwrap());
    let seconds: u64 = seconds.parse().unwrap();
    Continued {
        last_call: CallNumber(call.0 + 1),
        questions: vec![OpenQuestion {
            call,
            token_hash: [token.parse().unwrap(); 32],
            effect_id: EffectId::new(effect),
            tool: ToolId::parse(tool).unwrap(),
            tool_version: version.into(),
            fingerprint: fingerprint(tool, &arguments),
            arguments: windlass_tool::sensitive::Sensitive(Arc::new(
                arguments.as_object().unwrap().clone().into(),
            )),
            expires_at_unix_ms: 1_795_000_000_000 + seconds * 1_000,
        }],
        approved: Vec::new(),
        declined: Vec::new(),
    }
}

/// `CALL TOKEN SECONDS EFFECT TOOL [kept]`: one approval that was used, with what came of it or without.
fn approved(text: &str) -> Continued {
    let (call, rest) = text.split_once(' ').unwrap();
    let call = CallNumber(call.parse().unwrap());
    Continued {
        last_call: call,
        questions: Vec::new(),
        approved: vec![parse_approval(rest, Some(call))],
        declined: Vec::new(),
    }
}

/// A question of another session: `TOKEN SECONDS EFFECT TOOL [kept]` where it was approved, the same behind `declined`, or
/// `open TOKEN SECONDS EFFECT TOOL VERSION ARGUMENTS`.
pub(crate) fn parse_found(text: &str) -> FoundQuestion {
    if let Some(open) = text.strip_prefix("open ") {
        let question = continued(&format!("0 {open}")).questions.remove(0);
        return FoundQuestion::Open(question);
    }
    match text.strip_prefix("declined ") {
        Some(declined) => FoundQuestion::Declined(parse_approval(declined, None)),
        None => FoundQuestion::Approved(parse_approval(text, None)),
    }
}

/// `TOKEN SECONDS EFFECT TOOL [kept]`
fn parse_approval(text: &str, call: Option<CallNumber>) -> AnsweredQuestion {
    let words: Vec<&str> = text.split(' ').collect();
    let seconds: u64 = words[1].parse().unwrap();
    let tool = words[3];
    AnsweredQuestion {
        call,
        token_hash: [words[0].parse().unwrap(); 32],
        effect_id: EffectId::new(words[2]),
        tool: ToolId::parse(tool).unwrap(),
        response: words.get(4).map(|_| kept_response(tool)),
        expires_at_unix_ms: 1_795_000_000_000 + seconds * 1_000,
    }
}

fn kept_response(tool: &str) -> Arc<ToolResponse> {
    Arc::new(ToolResponse {
        outcome: Outcome::Success {
            data: Some(json!({ "kept": true }).into()),
            content: vec![],
        },
        intents: vec![],
        meta: meta_without_tool(tool, "1.0.test0000".into(), 1_795_000_000_000),
    })
}

fn parse_ref(text: &str) -> CallRef {
    let (call, attempt) = text.split_once('/').unwrap_or((text, "1"));
    CallRef {
        call: CallNumber(call.parse().unwrap()),
        attempt: attempt.parse().unwrap(),
    }
}

/// `id name {arguments}`, where `-` stands for no id or no name.
fn parse_call(text: &str) -> IncomingCall {
    let mut parts = text.splitn(3, ' ');
    let mut part = || parts.next().filter(|part| *part != "-");
    let (id, name, arguments) = (part(), part(), part().unwrap_or("{}"));
    let arguments = windlass_tool::json::parse(arguments.as_bytes())
        .map_err(|error| ArgumentsProblem(error.to_string()))
        .map(|value| value.as_object().unwrap().clone().into());
    IncomingCall {
        id: id.map(Into::into),
        name: name.map(Into::into),
        arguments,
    }
}

fn parse_result(text: &str) -> HandlerResult {
    let failure = |kind| Err(Failure::new(kind, "it failed"));
    if let Some(message) = text.strip_prefix("permanent ") {
        return Err(Failure::new(FailureKind::Permanent, message));
    }
    match text {
        "nothing" => Ok(Success::default()),
        "broken" => Err(Failure {
            cause: Cause::Broken("panicked at secret".to_owned()),
            intents: vec![],
        }),
        "transient" => failure(FailureKind::Transient),
        "clean_transient" => Err(Report {
            partial_side_effects: Some(false),
            ..Report::new(FailureKind::Transient, "it failed")
        }
        .into()),
        "once" => Err(Report {
            max_retries: Some(1),
            retry_after_ms: Some(2_000),
            ..Report::new(FailureKind::Transient, "it failed")
        }
        .into()),
        "permanent" => failure(FailureKind::Permanent),
        json => {
            let (scheduling, json) = match json.split_once(" {") {
                Some((scheduling, _)) if !json.starts_with('{') => {
                    (parse_scheduling(scheduling), &json[scheduling.len() + 1..])
                }
                Some(_) | None => (None, json),
            };
            let value: Value = serde_json::from_str(json).unwrap();
            let intents = value.get("intents").cloned().unwrap_or(json!([]));
            let addresses = value["pictures"].as_array().into_iter().flatten();
            let pictures = addresses.map(|url| ContentPart::Image {
                mime_type: "image/png".to_owned(),
                url: url.as_str().unwrap().to_owned(),
            });
            let pictures = pictures.collect();
            let mut success = Success::new(value);
            success.intents = serde_json::from_value(intents).unwrap();
            success.content = pictures;
            success.scheduling = scheduling;
            Ok(success)
        }
    }
}

fn parse_scheduling(word: &str) -> Option<Scheduling> {
    Some(match word {
        "Interrupt" => Scheduling::Interrupt,
        "Silent" => Scheduling::Silent,
        other => panic!("nobody speaks {other}"),
    })
}

/// How an effect ended, and whether a model was told.
fn parse_state(word: &str) -> (OutcomeState, bool) {
    match word {
        "succeeded" => (OutcomeState::Succeeded, true),
        "unheard" | "unkept" => (OutcomeState::Succeeded, false),
        "failed" => (OutcomeState::Failed, true),
        "undone" => (OutcomeState::Failed, false),
        "unknown" => (OutcomeState::Unknown, true),
        "doubtful" | "running" => (OutcomeState::Unknown, false),
        other => panic!("no such state: {other}"),
    }
}
