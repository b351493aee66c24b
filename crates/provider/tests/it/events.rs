//! What each message of the service says, in both spellings.

use crate::{Said, codec, decode, encode, to_snake_case};
use serde_json::{Value, json};
use std::time::Duration;
use windlass_session::model::{ModelCommand, ModelEvent, TurnEndReason, Usage};

pub(crate) const MODEL: &str = "gemini-2.5-flash-native-audio-preview-12-2025";

/// Frames of one connection in order, and what they say together, in either spelling.
pub(crate) fn check(frames: &[Value], expected: &[Said]) {
    for frames in [
        frames.to_vec(),
        frames.iter().map(to_snake_case).collect::<Vec<_>>(),
    ] {
        let mut codec = codec(MODEL);
        let said: Vec<Said> = frames
            .iter()
            .flat_map(|frame| decode(&mut codec, frame.to_string().as_bytes()))
            .collect();
        assert_eq!(said, expected, "{frames:?}");
    }
}

pub(crate) fn event(event: ModelEvent) -> Said {
    Said::Event(event)
}

pub(crate) fn turn_complete(idle: bool, reason: Option<TurnEndReason>) -> Said {
    event(ModelEvent::TurnComplete {
        idle,
        reason,
        unplayed: Duration::ZERO,
    })
}

fn output(text: &str, finished: bool) -> Said {
    event(ModelEvent::OutputTranscript {
        text: text.to_owned().into(),
        finished,
    })
}

fn input(text: &str, finished: bool) -> Said {
    event(ModelEvent::InputTranscript {
        text: text.to_owned().into(),
        finished,
    })
}

fn audio(data: &str) -> Value {
    json!({"serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": data}}]}}})
}

#[test]
fn the_setup_answer_makes_the_session_ready() {
    for (message, id) in [
        (json!({}), None),
        (json!({"sessionId": "s-1"}), Some("s-1")),
        (
            json!({"sessionId": "", "voiceConsentSignature": {"signature": "x"}}),
            None,
        ),
    ] {
        check(
            &[json!({"setupComplete": message})],
            &[event(ModelEvent::Ready {
                provider_session_id: id.map(str::to_owned),
            })],
        );
    }
}

#[test]
fn transcripts_come_in_pieces_and_empty_ones_say_nothing() {
    check(
        &[
            json!({"serverContent": {"inputTranscription": {"text": " Hello"}}}),
            json!({"serverContent": {"outputTranscription": {}}}),
            json!({"serverContent": {"outputTranscription": {"text": ""}}}),
            json!({"serverContent": {"outputTranscription": {"text": "Good", "languageCode": "en", "words": [{"x": 1}]}}}),
            json!({"serverContent": {"outputTranscription": {"finished": true}}}),
            json!({"serverContent": {"interimInputTranscription": {"text": "Hel"}}}),
            json!({"serverContent": {}}),
            json!({"serverContent": null}),
        ],
        &[
            input(" Hello", false),
            output("Good", false),
            output("", true),
        ],
    );
}

#[test]
fn the_first_audio_of_a_run_is_announced_and_only_that() {
    check(
        &[
            audio("AAEC/w=="),
            audio("AAE="),
            json!({"serverContent": {"generationComplete": true}}),
            json!({"serverContent": {"turnComplete": true}}),
            audio("AwQ="),
            json!({"serverContent": {"interrupted": true}}),
            // Late audio of an interrupted answer is no new run.
            audio("BQY="),
            json!({"serverContent": {"turnComplete": true}}),
            audio("Bwg="),
        ],
        &[
            event(ModelEvent::AudioStarted),
            Said::Audio(vec![0, 1, 2, 255]),
            Said::Audio(vec![0, 1]),
            event(ModelEvent::GenerationComplete),
            turn_complete(true, None),
            event(ModelEvent::AudioStarted),
            Said::Audio(vec![3, 4]),
            event(ModelEvent::Interrupted),
            Said::Audio(vec![5, 6]),
            turn_complete(true, None),
            event(ModelEvent::AudioStarted),
            Said::Audio(vec![7, 8]),
        ],
    );
}

#[test]
fn what_we_send_for_an_answer_begins_a_new_run_of_audio() {
    let mut codec = codec(MODEL);
    let frame = audio("AAE=").to_string();
    assert_eq!(decode(&mut codec, frame.as_bytes()).len(), 2);
    assert_eq!(decode(&mut codec, frame.as_bytes()).len(), 1);
    encode(
        &mut codec,
        &ModelCommand::UserText("hello".to_owned().into()),
    );
    assert_eq!(decode(&mut codec, frame.as_bytes()).len(), 2);
    encode(&mut codec, &ModelCommand::AudioEnded);
    assert_eq!(decode(&mut codec, frame.as_bytes()).len(), 1);
}

#[test]
fn audio_is_read_in_every_form_that_protobuf_allows() {
    let frames = [
        r#"{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000","data":"+/+/+w=="}}]}}}"#,
        "{\n \"serverContent\": {\n \"modelTurn\": { \"parts\": [ { \"inlineData\": { \"mimeType\": \"audio/pcm\", \"data\": \"-_-_-w\" } } ] } } }\n",
        r#"{"serverContent":{"modelTurn":{"role":"model","parts":[{"inlineData":{"data":"\u002b\/+/+w\u003d\u003d","mimeType":"audio/pcm; rate=24000"}}]}}}"#,
        r#"{"server_content":{"model_turn":{"parts":[{"inline_data":{"mime_type":"audio/pcm","data":"+/+/+w=="}}]}}}"#,
    ];
    for frame in frames {
        assert_eq!(
            decode(&mut codec(MODEL), frame.as_bytes()),
            [
                event(ModelEvent::AudioStarted),
                Said::Audio(vec![0xfb, 0xff, 0xbf, 0xfb])
            ],
            "{frame}"
        );
    }
}

#[test]
fn half_a_sample_is_left_out_and_nothing_is_not_audio() {
    check(
        &[audio(""), audio("AA=="), audio("AAEC")],
        &[event(ModelEvent::AudioStarted), Said::Audio(vec![0, 1])],
    );
}

#[test]
fn audio_that_cannot_be_played_is_said_and_not_passed_on() {
    let mut codec = codec(MODEL);
    assert_eq!(
        decode(&mut codec, audio("A*==").to_string().as_bytes()),
        [event(ModelEvent::Malformed {
            problem: "the audio of the model is no base64".to_owned()
        })]
    );
    let frame = json!({"serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm;rate=16000", "data": "AAE="}}]}}});
    assert_eq!(
        decode(&mut codec, frame.to_string().as_bytes()),
        [event(ModelEvent::Unknown {
            fields: vec![
                "serverContent.modelTurn.parts.inlineData.mimeType=audio/pcm;rate=16000".to_owned()
            ]
        })]
    );
}

#[test]
fn a_message_may_say_several_things_and_each_comes_in_its_order() {
    check(
        &[json!({
            "usageMetadata": {"totalTokenCount": 3},
            "serverContent": {
                "turnComplete": true,
                "generationComplete": true,
                "outputTranscription": {"text": "b"},
                "modelTurn": {"parts": [
                    {"text": "thinking", "thought": true},
                    {"text": "a"},
                    {"inlineData": {"mimeType": "audio/pcm", "data": "AAE="}},
                    {"executableCode": {"code": "x", "language": "PYTHON"}},
                    {"codeExecutionResult": {"outcome": "OUTCOME_OK"}, "thoughtSignature": "QQ=="}
                ]},
                "inputTranscription": {"text": "q"},
                "groundingMetadata": {"anything": [1]},
                "urlContextMetadata": {}
            }
        })],
        &[
            input("q", false),
            event(ModelEvent::OutputText {
                text: "a".to_owned().into(),
            }),
            event(ModelEvent::AudioStarted),
            Said::Audio(vec![0, 1]),
            event(ModelEvent::ExternalContent {
                sources: Vec::new().into(),
            }),
            output("b", false),
            event(ModelEvent::GenerationComplete),
            event(ModelEvent::Usage(Usage {
                total_tokens: 3,
                ..Usage::default()
            })),
            turn_complete(true, None),
        ],
    );
}

#[test]
fn words_that_interrupt_belong_behind_the_interruption() {
    check(
        &[
            json!({"serverContent": {"inputTranscription": {"text": "stop"}, "interrupted": true, "outputTranscription": {"text": "and"}}}),
        ],
        &[
            output("and", false),
            event(ModelEvent::Interrupted),
            input("stop", false),
        ],
    );
}

#[test]
fn idleness_is_what_the_status_says_or_else_the_turn_end() {
    for (content, expected) in [
        (
            json!({"turnComplete": true}),
            vec![turn_complete(true, None)],
        ),
        (
            json!({"turnComplete": true, "interactionStatus": "IDLE"}),
            vec![turn_complete(true, None)],
        ),
        (
            json!({"turnComplete": true, "interactionStatus": "REQUIRES_ACTION"}),
            vec![turn_complete(true, None)],
        ),
        (
            json!({"turnComplete": true, "interactionStatus": "INTERACTION_STATUS_UNSPECIFIED"}),
            vec![turn_complete(true, None)],
        ),
        (
            json!({"turnComplete": true, "interactionStatus": "IN_PROGRESS"}),
            vec![turn_complete(false, None)],
        ),
        (
            json!({"interactionStatus": "IDLE"}),
            vec![turn_complete(true, None)],
        ),
        (json!({"interactionStatus": "IN_PROGRESS"}), vec![]),
        (json!({"turnComplete": false}), vec![]),
        (
            json!({"turnComplete": true, "interactionStatus": "NAPPING"}),
            vec![
                event(ModelEvent::Unknown {
                    fields: vec!["serverContent.interactionStatus=NAPPING".to_owned()],
                }),
                turn_complete(false, None),
            ],
        ),
    ] {
        check(&[json!({"serverContent": content})], &expected);
    }
}

#[test]
fn a_turn_end_says_why() {
    for (reason, expected) in [
        (
            "MALFORMED_FUNCTION_CALL",
            Some(TurnEndReason::MalformedCall),
        ),
        ("NEED_MORE_INPUT", Some(TurnEndReason::NeedsMoreInput)),
        ("RESPONSE_REJECTED", Some(TurnEndReason::Blocked)),
        ("GENERATED_AUDIO_SAFETY", Some(TurnEndReason::Blocked)),
        (
            "MAX_REGENERATION_REACHED",
            Some(TurnEndReason::Other("MAX_REGENERATION_REACHED".to_owned())),
        ),
        ("TURN_COMPLETE_REASON_UNSPECIFIED", None),
    ] {
        check(
            &[json!({"serverContent": {"turnComplete": true, "turnCompleteReason": reason}})],
            &[turn_complete(true, expected)],
        );
    }
    check(
        &[
            json!({"serverContent": {"waitingForInput": true}}),
            json!({"serverContent": {"turnComplete": true}}),
            json!({"serverContent": {"turnComplete": true}}),
        ],
        &[
            turn_complete(true, Some(TurnEndReason::NeedsMoreInput)),
            turn_complete(true, None),
        ],
    );
}

#[test]
fn the_remaining_messages_say_what_they_are() {
    for (message, expected) in [
        (
            json!({"toolCallCancellation": {"ids": ["c1", "", "c2"]}}),
            vec![event(ModelEvent::CallsCancelled(vec![
                "c1".into(),
                "c2".into(),
            ]))],
        ),
        (json!({"toolCallCancellation": {}}), vec![]),
        (json!({"toolCall": {}}), vec![]),
        (
            json!({"voiceActivity": {"type": "ACTIVITY_START", "audioOffset": "1.2s"}}),
            vec![event(ModelEvent::SpeechStarted)],
        ),
        (
            json!({"voiceActivity": {"voiceActivityType": "ACTIVITY_END"}}),
            vec![event(ModelEvent::SpeechEnded)],
        ),
        (
            json!({"voiceActivity": {"type": "TYPE_UNSPECIFIED"}}),
            vec![],
        ),
        (
            json!({"voiceActivityDetectionSignal": {"vadSignalType": "VAD_SIGNAL_TYPE_SOS"}}),
            vec![event(ModelEvent::SpeechStarted)],
        ),
        (
            json!({"voiceActivityDetectionSignal": {"vadSignalType": "VAD_SIGNAL_TYPE_EOS"}}),
            vec![event(ModelEvent::SpeechEnded)],
        ),
        (json!({}), vec![]),
    ] {
        check(&[message], &expected);
    }
}

#[test]
fn go_away_says_how_much_time_is_left() {
    for (time_left, expected) in [
        (json!("50s"), Some(Duration::from_secs(50))),
        (json!("9.5s"), Some(Duration::from_millis(9_500))),
        (json!("0s"), Some(Duration::ZERO)),
        (json!("-3s"), None),
        (json!("soon"), None),
        (json!("NaNs"), None),
        (json!("1e300s"), None),
        (json!(null), None),
    ] {
        check(
            &[json!({"goAway": {"timeLeft": time_left}})],
            &[event(ModelEvent::GoAway {
                time_left: expected,
            })],
        );
    }
}

#[test]
fn a_handle_counts_only_while_the_session_can_be_resumed() {
    for (update, handle) in [
        (
            json!({"newHandle": "h-1", "resumable": true, "lastConsumedClientMessageIndex": "17"}),
            Some("h-1"),
        ),
        (json!({"newHandle": "h-1", "resumable": false}), None),
        (json!({"newHandle": "h-1"}), None),
        (json!({"newHandle": "", "resumable": true}), None),
        (json!({}), None),
    ] {
        check(
            &[json!({"sessionResumptionUpdate": update})],
            &[event(ModelEvent::ResumptionUpdate {
                handle: handle.map(|handle| handle.to_owned().into()),
            })],
        );
    }
}

#[test]
fn tokens_are_counted_under_either_backends_names() {
    let usage = Usage {
        prompt_tokens: 1_131,
        response_tokens: 26,
        thoughts_tokens: 24,
        tool_use_tokens: 5,
        cached_tokens: 7,
        total_tokens: 1_157,
        ..Usage::default()
    };
    for message in [
        json!({"promptTokenCount": 1131, "responseTokenCount": 26, "totalTokenCount": 1157, "thoughtsTokenCount": 24,
            "toolUsePromptTokenCount": 5, "cachedContentTokenCount": 7, "serviceTier": "x",
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1131}],
            "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 26}]}),
        json!({"promptTokenCount": "1131", "candidatesTokenCount": "26", "totalTokenCount": 1157.0, "thoughtsTokenCount": 24,
            "toolUsePromptTokenCount": "5", "cachedContentTokenCount": 7, "trafficType": "ON_DEMAND",
            "candidatesTokensDetails": [], "toolUsePromptTokensDetails": [], "cacheTokensDetails": []}),
    ] {
        check(
            &[json!({"usageMetadata": message})],
            &[event(ModelEvent::Usage(usage))],
        );
    }
    check(
        &[
            json!({"usageMetadata": {"totalTokenCount": -1, "promptTokenCount": "many", "responseTokenCount": null}}),
        ],
        &[
            event(ModelEvent::Unknown {
                fields: vec!["usageMetadata.promptTokenCount".to_owned()],
            }),
            event(ModelEvent::Usage(Usage::default())),
        ],
    );
}
