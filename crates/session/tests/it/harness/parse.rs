//! Reads the input lines of scripts.

use serde_json::{Value, json};
use std::time::Duration;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    Cause, ContentPart, Failure, Finding, HandlerMessage, HandlerResult, ReplyNumber, Report,
    Success,
};
use windlass_contract::id::{CallNumber, CallRef};
use windlass_contract::kind::Scheduling;
use windlass_contract::sensitive::Sensitive;
use windlass_session::client::{CancelWay, ClientEvent, MessageKey};
use windlass_session::io::Input;
use windlass_session::model::{
    ArgumentsProblem, ConnectionEvent, IncomingCall, LostReason, ModelEvent, RequestEvent, Usage,
};
use windlass_store::standing_number;

pub(crate) fn parse(line: &str) -> Input {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let model = Input::Model;
    match word {
        "connected" => Input::Connection(ConnectionEvent::Connected {
            generation: rest.parse().unwrap(),
            resumed: false,
        }),
        "requests" => Input::Request(RequestEvent::Sent {
            number: rest.parse().unwrap(),
        }),
        "ended" => Input::Request(RequestEvent::Ended),
        "given_up" => Input::Request(RequestEvent::GivenUp),
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
        "spoke" => model(ModelEvent::SpeechEnded),
        "transcribed" => model(ModelEvent::InputTranscribed {
            text: rest.to_owned().into(),
        }),
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
        "counts" => model(ModelEvent::Usage(usage(rest))),
        "counts_of" => {
            let (name, total) = rest.split_once(' ').unwrap();
            model(ModelEvent::UsageOf {
                model: name.into(),
                context_tokens_max: 1_000,
                usage: usage(total),
            })
        }
        _ => parse_other(word, rest),
    }
}

fn usage(total_tokens: &str) -> Usage {
    Usage {
        total_tokens: total_tokens.parse().unwrap(),
        ..Usage::default()
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
        "cancels" => {
            let (call, way) = match rest.strip_suffix(" by http") {
                Some(call) => (call, CancelWay::Http),
                None => (rest, CancelWay::Socket),
            };
            Input::Client(ClientEvent::Cancel {
                call: CallNumber(call.parse().unwrap()),
                way,
            })
        }
        "revokes" => Input::Client(ClientEvent::Revoke {
            approval: standing_number(rest).unwrap(),
        }),
        "microphone" => Input::Client(ClientEvent::MicrophoneOpened),
        "spoken" => Input::Client(ClientEvent::TurnComplete),
        "played" => Input::Client(ClientEvent::PlaybackDone),
        "stop" => Input::Client(ClientEvent::Stop),
        "gone" => Input::Client(ClientEvent::Lost),
        "back" => Input::Client(ClientEvent::Connected),
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
        "outputs" => {
            let (call, piece) = rest.split_once(' ').unwrap();
            Input::HandlerMessage {
                call: parse_ref(call),
                message: HandlerMessage::Output(serde_json::from_str(piece).unwrap()),
            }
        }
        "notes" => {
            let (call, event) = rest.split_once(' ').unwrap();
            Input::HandlerMessage {
                call: parse_ref(call),
                message: HandlerMessage::Audit {
                    event: event.to_owned(),
                    data: Value::Null,
                },
            }
        }
        "external" => Input::HandlerMessage {
            call: parse_ref(rest),
            message: HandlerMessage::External,
        },
        "asks" => {
            let mut parts = rest.splitn(4, ' ');
            let mut part = || parts.next().unwrap();
            let (call, reply, tool) = (part(), part(), part());
            let message = HandlerMessage::CallTool {
                reply: ReplyNumber(reply.strip_prefix('#').unwrap().parse().unwrap()),
                tool: tool.into(),
                arguments: Sensitive(serde_json::from_str(part()).unwrap()),
            };
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
    let arguments = windlass_contract::json::parse(arguments.as_bytes())
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
        // Until an hour after every script's beginning.
        "accepted" => Ok(Success {
            accepted_until_unix_ms: Some(1_795_003_600_000),
            ..Success::new(json!({"status": "accepted"}))
        }),
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
        "busy" => Err(Report {
            retry_after_ms: Some(25_000),
            ..Report::new(FailureKind::RateLimit, "it failed")
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
