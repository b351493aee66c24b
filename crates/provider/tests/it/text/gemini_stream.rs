//! Streams of `streamGenerateContent`.

use super::{calls_of, decode_gemini, pieces_of, stream_of, words};
use serde_json::{Value, json};
use windlass_provider::answer::{AnswerLimits, AnswerPiece, Ending, ModelAnswer};
use windlass_provider::failure::FailureClass;
use windlass_provider::gemini_text::decode_whole;
use windlass_provider::log::Opaque;
use windlass_session::model::{ModelEvent, Usage};

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], "modelVersion": "g", "responseId": "r"})
}

fn ended(parts: Value, reason: &str) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason, "index": 0}]})
}

/// The signature of each piece, in order.
fn signatures(answer: &ModelAnswer) -> Vec<Option<String>> {
    answer
        .pieces
        .iter()
        .map(|piece| {
            let opaque = match piece {
                AnswerPiece::Text(text) => &text.opaque,
                AnswerPiece::Call(call) => &call.opaque,
            };
            opaque.as_ref().map(|opaque| match opaque {
                Opaque::ThoughtSignature(signature) => signature.expose().to_string(),
                Opaque::Fields(_) => "fields".to_owned(),
                Opaque::Item(_) => "item".to_owned(),
            })
        })
        .collect()
}

#[test]
fn words_add_up_and_signed_parts_stay_as_they_came() {
    let (events, answer) = decode_gemini(
        stream_of(&[
            parts(json!([{"text": "It is"}])),
            parts(json!([{"text": "(thinking)", "thought": true}])),
            parts(json!([{"text": " twelve"}, {"text": "."}])),
            parts(json!([{"text": " Good day.", "thoughtSignature": "QUJD"}])),
            parts(json!([{"text": " Bye."}])),
            ended(json!([{"text": "", "thought_signature": "REVG"}]), "STOP"),
        ])
        .as_bytes(),
    );
    assert_eq!(words(&events), "It is twelve. Good day. Bye.");
    assert_eq!(
        pieces_of(&answer),
        [
            "text It is twelve.",
            "text  Good day.",
            "text  Bye.",
            "text "
        ]
    );
    let signed = |text: &str| Some(text.to_owned());
    assert_eq!(
        signatures(&answer),
        [None, signed("QUJD"), None, signed("REVG")]
    );
    assert_eq!(answer.ending, Ending::Complete);
    assert!(!format!("{answer:?}").contains("QUJD"));
}

#[test]
fn parallel_calls_make_one_answer_in_whichever_chunks_they_come() {
    let first = json!({"functionCall": {"id": "call_41", "name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "QUJD"});
    let second = json!({"function_call": {"name": "weather", "args": {"city": "Rome"}}});
    for messages in [
        vec![ended(json!([first, second]), "STOP")],
        vec![parts(json!([first])), ended(json!([second]), "STOP")],
        vec![
            parts(json!([first])),
            parts(json!([second])),
            ended(json!([]), "STOP"),
            json!({"usageMetadata": {"promptTokenCount": 1}}),
        ],
    ] {
        let (events, answer) = decode_gemini(stream_of(&messages).as_bytes());
        assert!(events.is_empty());
        let name = || Some("weather".to_owned());
        assert_eq!(
            calls_of(&answer),
            [
                (Some("call_41".to_owned()), name(), json!({"city": "Oslo"})),
                (None, name(), json!({"city": "Rome"})),
            ]
        );
        assert_eq!(signatures(&answer), [Some("QUJD".to_owned()), None]);
        assert_eq!(
            answer.closing_events().last(),
            Some(&ModelEvent::Calls(answer.calls.clone()))
        );
    }
}

#[test]
fn a_call_that_is_wrong_is_a_call_with_a_problem() {
    for (call, id, name, outcome) in [
        (json!({"name": "f"}), None, Some("f"), json!({})),
        (
            json!({"name": "f", "args": null}),
            None,
            Some("f"),
            json!({}),
        ),
        (
            json!({"name": "f", "args": "{\"a\":1}"}),
            None,
            Some("f"),
            json!({"a": 1}),
        ),
        (
            json!({"name": "f", "args": [1]}),
            None,
            Some("f"),
            json!("must be a JSON object"),
        ),
        (
            json!({"id": "", "name": "", "args": {}}),
            None,
            None,
            json!({}),
        ),
        (json!({"id": 7, "name": 8}), None, None, json!({})),
        (
            json!({"name": "f", "willContinue": true}),
            None,
            Some("f"),
            json!("in pieces"),
        ),
        (
            json!({"name": "f", "partialArgs": []}),
            None,
            Some("f"),
            json!("in pieces"),
        ),
        (json!("f"), None, None, json!("no JSON object")),
        (json!([]), None, None, json!({})),
    ] {
        let (_, answer) =
            decode_gemini(stream_of(&[ended(json!([{"functionCall": call}]), "STOP")]).as_bytes());
        let calls = calls_of(&answer);
        assert_eq!(calls.len(), 1, "{call}");
        assert_eq!(
            (calls[0].0.as_deref(), calls[0].1.as_deref()),
            (id, name),
            "{call}"
        );
        match (&calls[0].2, &outcome) {
            (Value::String(problem), Value::String(part)) => {
                assert!(problem.contains(part.as_str()), "{call}: {problem}");
            }
            (arguments, expected) => assert_eq!(arguments, expected, "{call}"),
        }
    }
    let twice = r#"data: {"candidates":[{"content":{"parts":[{"functionCall":{"id":"c","name":"f","args":{},"args":{}}}]},"finishReason":"STOP"}]}"#;
    let (_, answer) = decode_gemini(twice.as_bytes());
    let calls = calls_of(&answer);
    assert_eq!(
        (calls[0].0.as_deref(), calls[0].1.as_deref()),
        (Some("c"), Some("f"))
    );
    assert!(answer.calls[0].arguments.is_err());
}

#[test]
fn every_reason_to_finish_has_its_ending_and_calls_run_only_after_stop() {
    let stopped = |reason: &str| Ending::Stopped {
        reason: reason.to_owned(),
    };
    let blocked = |reason: &str| Ending::Blocked {
        reason: reason.to_owned(),
    };
    for (reason, ending) in [
        ("STOP", Ending::Complete),
        ("MAX_TOKENS", Ending::CallCut),
        ("SAFETY", blocked("SAFETY")),
        ("RECITATION", blocked("RECITATION")),
        ("LANGUAGE", blocked("LANGUAGE")),
        ("OTHER", stopped("OTHER")),
        ("BLOCKLIST", blocked("BLOCKLIST")),
        ("PROHIBITED_CONTENT", blocked("PROHIBITED_CONTENT")),
        ("SPII", blocked("SPII")),
        ("MALFORMED_FUNCTION_CALL", Ending::MalformedCall),
        ("UNEXPECTED_TOOL_CALL", Ending::UndeclaredCall),
        ("TOO_MANY_TOOL_CALLS", stopped("TOO_MANY_TOOL_CALLS")),
        ("CONTINUATION", stopped("CONTINUATION")),
        ("ESCALATION", stopped("ESCALATION")),
        ("PUP_LIMITED_DISABLED", stopped("PUP_LIMITED_DISABLED")),
        ("MODEL_ARMOR", blocked("MODEL_ARMOR")),
        ("IMAGE_SAFETY", blocked("IMAGE_SAFETY")),
        (
            "IMAGE_PROHIBITED_CONTENT",
            blocked("IMAGE_PROHIBITED_CONTENT"),
        ),
        ("IMAGE_OTHER", blocked("IMAGE_OTHER")),
        ("IMAGE_RECITATION", blocked("IMAGE_RECITATION")),
        ("NO_IMAGE", stopped("NO_IMAGE")),
        ("FINISH_REASON_UNSPECIFIED", Ending::Cut),
        ("", Ending::Cut),
        ("SOMETHING\nNEW", stopped("SOMETHING NEW")),
    ] {
        let call = json!({"functionCall": {"name": "f", "args": {}}});
        let (events, answer) = decode_gemini(
            stream_of(&[
                parts(json!([{"text": "Hello"}, call])),
                ended(json!([]), reason),
            ])
            .as_bytes(),
        );
        assert_eq!(answer.ending, ending, "{reason}");
        assert_eq!(words(&events), "Hello", "{reason}");
        let runs = usize::from(reason == "STOP");
        assert_eq!(answer.calls.len(), runs, "{reason}");
        assert_eq!(pieces_of(&answer).len(), 1 + runs, "{reason}");
    }
    for (reason, again) in [
        ("MALFORMED_RESPONSE", true),
        ("MISSING_THOUGHT_SIGNATURE", false),
    ] {
        let (_, answer) = decode_gemini(stream_of(&[ended(json!([]), reason)]).as_bytes());
        assert!(matches!(answer.ending, Ending::Failed(_)), "{reason}");
        assert_eq!(answer.ending.is_worth_another_try(), again, "{reason}");
    }
}

#[test]
fn a_malformed_call_is_neither_shown_nor_run_and_comes_with_a_correction() {
    let leaked = ended(
        json!([{"text": "print(default_api.weather(city='Os"}]),
        "MALFORMED_FUNCTION_CALL",
    );
    let without_content = json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "x", "index": 0}]});
    for message in [leaked, without_content] {
        let (events, answer) = decode_gemini(stream_of(&[message]).as_bytes());
        assert!(events.is_empty());
        assert!(answer.is_empty() && answer.pieces.is_empty());
        assert!(answer.ending.is_worth_another_try());
        assert!(answer.ending.correction().is_some());
    }
}

#[test]
fn an_error_in_the_stream_ends_it_in_every_form_in_which_it_comes() {
    let error = json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    let text = stream_of(&[parts(json!([{"text": "Hel"}]))]);
    for tail in [
        format!("data: {error}\n\n"),
        format!("{error}"),
        format!("{error:#}\n"),
        format!("[{error}]"),
        format!("event: error\ndata: {error}\n\n"),
    ] {
        let (events, answer) = decode_gemini(format!("{text}{tail}").as_bytes());
        let Ending::Failed(failure) = &answer.ending else {
            panic!("{tail}: {answer:?}");
        };
        assert_eq!(
            (failure.class, failure.status, failure.retryable),
            (FailureClass::Overloaded, Some(503), true)
        );
        assert_eq!((words(&events).as_str(), answer.passed_on), ("Hel", true));
    }
}

#[test]
fn a_prompt_that_is_blocked_says_why() {
    for (message, ending) in [
        (
            json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}),
            Ending::Blocked {
                reason: "SAFETY".to_owned(),
            },
        ),
        (
            json!({"prompt_feedback": {"block_reason": "OTHER"}}),
            Ending::Blocked {
                reason: "OTHER".to_owned(),
            },
        ),
        (
            json!({"promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}}),
            Ending::Cut,
        ),
        (json!({"promptFeedback": {}}), Ending::Cut),
        (json!({}), Ending::Cut),
    ] {
        let (_, answer) = decode_gemini(stream_of(&[message]).as_bytes());
        assert_eq!(answer.ending, ending);
    }
}

#[test]
fn the_last_sums_count() {
    let (_, answer) = decode_gemini(
        stream_of(&[
            json!({"usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}}),
            json!({"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": "6", "thoughtsTokenCount": 20,
                "cachedContentTokenCount": 4, "toolUsePromptTokenCount": 2, "totalTokenCount": 35}}),
            ended(json!([{"text": "x"}]), "STOP"),
        ])
        .as_bytes(),
    );
    assert_eq!(
        answer.usage,
        Some(Usage {
            prompt_tokens: 9,
            response_tokens: 6,
            thoughts_tokens: 20,
            tool_use_tokens: 2,
            cached_tokens: 4,
            total_tokens: 35,
            ..Usage::default()
        })
    );
}

#[test]
fn what_is_no_stream_of_the_protocol_says_so_without_its_content() {
    for body in [
        "<html>hunter2</html>",
        "data: hunter2\n\n",
        "data: {\"candidates\": \"hunter2\"}\n\n",
        "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": [\"hunter2\"]}]}}]}\n\n",
        "hunter2: x",
    ] {
        let (events, answer) = decode_gemini(body.as_bytes());
        let Ending::Failed(failure) = &answer.ending else {
            panic!("{body}: {answer:?}");
        };
        let [ModelEvent::Malformed { problem }] = &events[..] else {
            panic!("{body}: {events:?}");
        };
        assert!(
            !format!("{problem} {failure}").contains("hunter2"),
            "{body}"
        );
    }
    // A stream that ends with another protocol's mark is a good one.
    let stream = stream_of(&[ended(json!([{"text": "x"}]), "STOP")]) + "data: [DONE]\n\n";
    assert_eq!(decode_gemini(stream.as_bytes()).1.ending, Ending::Complete);
}

#[test]
fn a_whole_answer_reads_like_a_stream() {
    let body = ended(
        json!([{"text": "Wait."}, {"functionCall": {"name": "f", "args": {"a": 1}}}]),
        "STOP",
    );
    let mut events = Vec::new();
    let answer = decode_whole(
        body.to_string().as_bytes(),
        AnswerLimits::default(),
        &mut events,
    );
    assert_eq!(words(&events), "Wait.");
    assert_eq!(
        calls_of(&answer),
        [(None, Some("f".to_owned()), json!({"a": 1}))]
    );
}
