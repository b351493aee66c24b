//! Streams of Chat Completions, as OpenAI sends them and as compatible servers do.

use super::chat_calls::check_calls;
use super::{OPENAI, decode_chat, decode_chat_from, pieces_of, stream_of, words};
use serde_json::{Value, json};
use windlass_provider::answer::{AnswerLimits, Ending};
use windlass_provider::failure::FailureClass;
use windlass_provider::log::{Entry, Opaque, Route};
use windlass_provider::openai_chat::decode_whole;
use windlass_provider::profile;
use windlass_session::model::{ModelEvent, TurnEndReason, Usage};

pub(super) fn chunk(delta: Value) -> Value {
    json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

pub(super) fn finish(reason: &str) -> Value {
    json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

pub(super) fn calls(entries: Value) -> Value {
    chunk(json!({ "tool_calls": entries }))
}

#[test]
fn an_answer_ends_as_its_server_says_and_calls_run_only_after_a_good_end() {
    let text = chunk(json!({"role": "assistant", "content": "Hello"}));
    let call =
        calls(json!([{"index": 0, "id": "call_1", "function": {"name": "f", "arguments": "{}"}}]));
    let blocked = Ending::Blocked {
        reason: "content_filter".to_owned(),
    };
    for (what, messages, tail, ending, calls) in [
        (
            "stop",
            vec![&text, &finish("stop")],
            "data: [DONE]\n\n",
            Ending::Complete,
            0,
        ),
        (
            "stop after calls",
            vec![&call, &finish("stop")],
            "data: [DONE]\n\n",
            Ending::Complete,
            1,
        ),
        (
            "function_call",
            vec![&call, &finish("function_call")],
            "",
            Ending::Complete,
            1,
        ),
        (
            "a reason of its own",
            vec![&call, &finish("eos")],
            "",
            Ending::Complete,
            1,
        ),
        (
            "no end mark",
            vec![&text, &call, &finish("tool_calls")],
            "",
            Ending::Complete,
            1,
        ),
        (
            "an empty reason, then another",
            vec![&finish(""), &call, &finish("tool_calls")],
            "",
            Ending::Complete,
            1,
        ),
        (
            "an empty reason only",
            vec![&call, &finish("")],
            "",
            Ending::Cut,
            0,
        ),
        (
            "length",
            vec![&text, &call, &finish("length")],
            "data: [DONE]\n\n",
            Ending::CallCut,
            0,
        ),
        (
            "filter",
            vec![&text, &call, &finish("content_filter")],
            "",
            blocked,
            0,
        ),
        (
            "no reason, words only",
            vec![&text],
            "data: [DONE]\n\n",
            Ending::Complete,
            0,
        ),
        (
            "no reason, a call",
            vec![&text, &call],
            "data: [DONE]\n\n",
            Ending::Cut,
            0,
        ),
        ("no reason and no end mark", vec![&text], "", Ending::Cut, 0),
        (
            "role only",
            vec![&chunk(json!({"role": "assistant"}))],
            "",
            Ending::Cut,
            0,
        ),
        (
            "only the end mark",
            vec![],
            "data: [DONE]\n\n",
            Ending::Cut,
            0,
        ),
        ("nothing", vec![], "", Ending::Cut, 0),
        (
            "comments",
            vec![],
            ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n",
            Ending::Cut,
            0,
        ),
    ] {
        let messages: Vec<Value> = messages.into_iter().cloned().collect();
        let stream = stream_of(&messages) + tail;
        let (events, answer) = decode_chat(stream.as_bytes());
        assert_eq!(answer.ending, ending, "{what}");
        assert_eq!(answer.calls.len(), calls, "{what}");
        let said = messages.contains(&text);
        assert_eq!(answer.passed_on, said, "{what}");
        assert_eq!(words(&events), if said { "Hello" } else { "" }, "{what}");
        assert_eq!(answer.is_empty(), !said && calls == 0, "{what}");
    }
}

#[test]
fn an_error_in_the_middle_of_a_stream_ends_it_with_its_class() {
    let text = stream_of(&[chunk(json!({"content": "Hel"}))]);
    for (what, error, class, status, retryable) in [
        (
            "openai",
            r#"data: {"error":{"message":"The server had an error","type":"server_error","code":null}}"#,
            FailureClass::ServerFault,
            None,
            true,
        ),
        (
            "openrouter, with choices",
            r#"data: {"id":"x","error":{"code":429,"message":"Slow down"},"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"error"}]}"#,
            FailureClass::RateLimited,
            Some(429),
            true,
        ),
        (
            "a named event",
            "event: error\ndata: {\"message\":\"overloaded\"}",
            FailureClass::Overloaded,
            None,
            true,
        ),
        (
            "a named event with words only",
            "event: error\ndata: it broke",
            FailureClass::ServerFault,
            None,
            true,
        ),
        (
            "ollama",
            r#"data: {"error":"model runner has stopped"}"#,
            FailureClass::ServerFault,
            None,
            true,
        ),
        (
            "without the form of an event",
            r#"{"error":{"message":"Bad key","code":"invalid_api_key"}}"#,
            FailureClass::Auth,
            None,
            false,
        ),
        (
            "gemini's list",
            r#"data: [{"error":{"code":503,"message":"Busy","status":"UNAVAILABLE"}}]"#,
            FailureClass::Overloaded,
            Some(503),
            true,
        ),
        (
            "mistral",
            r#"data: {"object":"error","message":"Too long: maximum context length is 10","type":"invalid_request_error"}"#,
            FailureClass::ContextTooLong,
            None,
            false,
        ),
    ] {
        let stream = format!("{text}{error}\n\n{text}data: [DONE]\n\n");
        let (events, answer) = decode_chat(stream.as_bytes());
        let Ending::Failed(failure) = &answer.ending else {
            panic!("{what}: {:?}", answer.ending);
        };
        assert_eq!(
            (failure.class, failure.status, failure.retryable),
            (class, status, retryable),
            "{what}"
        );
        assert_eq!(words(&events), "Hel", "{what}");
        assert!(answer.passed_on, "{what}");
    }
    let (_, answer) = decode_chat(stream_of(&[finish("error")]).as_bytes());
    assert!(answer.ending.is_worth_another_try());
}

#[test]
fn what_is_no_stream_of_the_protocol_says_so_without_its_content() {
    for body in [
        "<html><body>hunter2</body></html>",
        "hunter2",
        "data: hunter2\n\n",
        "data: {\"choices\": \"hunter2\"}\n\n",
        "data: [\"hunter2\"]\n\n",
        "data: \"hunter2\n\n",
    ] {
        let (events, answer) = decode_chat(body.as_bytes());
        let Ending::Failed(failure) = &answer.ending else {
            panic!("{body}: {answer:?}");
        };
        assert_eq!(failure.class, FailureClass::Protocol, "{body}");
        let [ModelEvent::Malformed { problem }] = &events[..] else {
            panic!("{body}: {events:?}");
        };
        assert!(
            !format!("{problem} {failure}").contains("hunter2"),
            "{body}"
        );
    }
}

#[test]
fn a_piece_that_cannot_be_read_spoils_calls_and_leaves_words() {
    let broken = "data: {\"choices\":[{\"delta\":{\"cont\n\n";
    let text = stream_of(&[chunk(json!({"content": "Hello"}))]);
    let call = stream_of(&[calls(
        json!([{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]),
    )]);
    let end = stream_of(&[finish("stop")]);
    let (events, answer) = decode_chat(format!("{text}{broken}{end}").as_bytes());
    assert_eq!(answer.ending, Ending::Complete);
    assert_eq!(words(&events), "Hello");
    let (_, answer) = decode_chat(format!("{call}{broken}{broken}{end}").as_bytes());
    assert!(answer.calls.is_empty());
    assert!(answer.ending.is_worth_another_try(), "{:?}", answer.ending);
}

#[test]
fn words_come_in_every_form() {
    let messages = [
        chunk(json!({"role": "assistant", "content": ""})),
        chunk(json!({"content": "żó"})),
        chunk(json!({"content": "\"\\\n"})),
        chunk(json!({"reasoning_content": "hidden"})),
        chunk(json!({"reasoning": "hidden"})),
        chunk(
            json!({"content": [{"type": "thinking", "thinking": "hidden"}, {"type": "text", "text": "łw"}]}),
        ),
        chunk(json!({"refusal": " I cannot."})),
        json!({"choices": [{"index": 1, "delta": {"content": "hidden"}}]}),
        json!({"choices": [{"delta": {"content": " End"}}], "obfuscation": "x", "provider": "y"}),
        json!({"choices": []}),
        json!({"choices": null}),
        json!({}),
        finish("stop"),
    ];
    let (events, answer) = decode_chat(stream_of(&messages).as_bytes());
    assert_eq!(words(&events), "żó\"\\\nłw I cannot. End");
    assert_eq!(pieces_of(&answer), ["text żó\"\\\nłw I cannot. End"]);
    assert_eq!(answer.opaque, None);
}

#[test]
fn usage_is_read_from_the_last_chunk_that_has_it() {
    let (_, answer) = decode_chat(
        stream_of(&[
            json!({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}], "usage": null}),
            json!({"choices": [], "usage": {"prompt_tokens": 1}}),
            json!({"choices": [], "usage": {"prompt_tokens": 90, "completion_tokens": 50, "total_tokens": 140,
                "prompt_tokens_details": {"cached_tokens": 64}, "completion_tokens_details": {"reasoning_tokens": 20}}}),
        ])
        .as_bytes(),
    );
    let usage = Usage {
        prompt_tokens: 90,
        response_tokens: 30,
        thoughts_tokens: 20,
        tool_use_tokens: 0,
        cached_tokens: 64,
        total_tokens: 140,
        ..Usage::default()
    };
    assert_eq!(answer.usage, Some(usage));
    assert_eq!(
        answer.closing_events(),
        [
            ModelEvent::Usage(usage),
            ModelEvent::GenerationComplete,
            ModelEvent::TurnComplete {
                idle: true,
                reason: None,
                unplayed: std::time::Duration::ZERO
            }
        ]
    );
    let (_, cut) = decode_chat(b"");
    assert!(matches!(
        &cut.closing_events()[..],
        [
            _,
            ModelEvent::TurnComplete {
                reason: Some(TurnEndReason::Other(_)),
                ..
            }
        ]
    ));
}

#[test]
fn what_the_server_wants_back_is_kept() {
    let signed = json!({"google": {"thought_signature": "QUJD"}});
    let messages = [
        chunk(json!({"reasoning_content": "Let me "})),
        chunk(json!({"reasoning_content": "see."})),
        chunk(json!({"extra_content": {"google": {"thought": true}}})),
        calls(
            json!([{"index": 0, "id": "call_1", "type": "function", "extra_content": signed,
            "function": {"name": "f", "arguments": "{}"}}]),
        ),
        finish("tool_calls"),
    ];
    let stream = stream_of(&messages);
    let (_, answer) = decode_chat(stream.as_bytes());
    let entries = answer.entries(&Route::new("here"));
    let [
        Entry::AnswerStarted(_),
        Entry::Call(call),
        Entry::AnswerOpaque(Opaque::Fields(fields)),
    ] = &entries[..]
    else {
        panic!("{entries:?}");
    };
    let Some(Opaque::Fields(own)) = &call.opaque else {
        panic!("{call:?}");
    };
    assert_eq!(json!(own.expose()), json!({"extra_content": signed}));
    assert_eq!(
        json!(fields.expose()),
        json!({"extra_content": {"google": {"thought": true}}})
    );
    let (_, answer) = decode_chat_from(stream.as_bytes(), "https://api.deepseek.com");
    let Some(Opaque::Fields(fields)) = &answer.opaque else {
        panic!("{answer:?}");
    };
    assert_eq!(fields.expose()["reasoning_content"], "Let me see.");
    assert!(!format!("{answer:?}").contains("Let me"));
}

#[test]
fn a_whole_answer_reads_like_a_stream() {
    let body = json!({"id": "c", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls",
        "message": {"role": "assistant", "content": "Wait.", "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]}}],
        "usage": {"prompt_tokens": 3}});
    let profile = profile::openai_chat(OPENAI, "m").profile;
    let whole = |body: &[u8]| {
        let mut events = Vec::new();
        let answer = decode_whole(body, &profile, 0, AnswerLimits::default(), &mut events);
        (events, answer)
    };
    let (events, answer) = whole(body.to_string().as_bytes());
    assert_eq!(words(&events), "Wait.");
    check_calls("whole", &answer, &[("call_1", "f", json!({"a": 1}))]);
    assert_eq!(answer.usage.unwrap().prompt_tokens, 3);
    // Some servers answer so although a stream was asked for.
    let (events, streamed) = decode_chat(format!("{body:#}").as_bytes());
    assert_eq!(
        (words(&events).as_str(), &streamed.calls),
        ("Wait.", &answer.calls)
    );

    let (_, answer) = whole(br#"{"error":{"message":"no","code":"model_not_found"}}"#);
    assert!(matches!(answer.ending, Ending::Failed(_)));
    let (_, answer) = whole(b"<html>");
    assert!(matches!(answer.ending, Ending::Failed(_)));
}

#[test]
fn plain_chunks_say_the_same_as_those_with_something_unknown_beside() {
    let messages = [
        chunk(json!({"role": "assistant", "content": "", "refusal": null})),
        chunk(json!({"content": "żó\u{1F422} "})),
        chunk(json!({"content": "\"\\\n\u{7}"})),
        calls(json!([{"index": 0, "id": "call_1", "type": "function",
            "function": {"name": "f", "arguments": ""}}])),
        calls(json!([{"index": 0, "function": {"arguments": "{\"a\\n\": "}}])),
        calls(json!([{"index": 0, "function": {"arguments": "\"ł\"}"}}])),
        // A piece of a call that never began.
        calls(json!([{"index": 3, "function": {"arguments": "{}"}}])),
        chunk(json!({"content": null, "tool_calls": null})),
        finish("tool_calls"),
    ];
    let unknown: Vec<Value> = messages
        .iter()
        .map(|message| {
            let mut message = message.clone();
            message["unknown"] = json!({"nested": [1]});
            message
        })
        .collect();
    let told = |messages: &[Value]| {
        let (events, answer) = decode_chat(stream_of(messages).as_bytes());
        let calls = format!("{:?} {:?}", answer.calls, answer.ending);
        (events.len(), words(&events), pieces_of(&answer), calls)
    };
    let plain = told(&messages);
    assert_eq!(plain.1, "żó\u{1F422} \"\\\n\u{7}");
    assert_eq!(plain, told(&unknown));
}

#[test]
fn reasoning_details_of_openrouter_go_back_as_they_came() {
    const OPENROUTER: &str = "https://openrouter.ai/api/v1";
    let delta =
        |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let call = json!([{"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]);
    let stream = stream_of(&[
        delta(
            json!({"content": "", "reasoning": "Hm", "reasoning_details": [{"type": "reasoning.text", "text": "H", "format": "google-gemini-v1", "index": 0}]}),
        ),
        delta(
            json!({"content": "", "reasoning_details": [{"type": "reasoning.text", "text": "m", "index": 0, "signature": null}]}),
        ),
        delta(json!({"content": null, "tool_calls": call})),
        delta(
            json!({"content": "", "reasoning_details": [{"type": "reasoning.encrypted", "data": "AbC=", "id": "c1", "format": "google-gemini-v1", "index": 0}]}),
        ),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ]) + "data: [DONE]\n\n";
    let (_, answer) = decode_chat_from(stream.as_bytes(), OPENROUTER);
    let route = super::chat_route();
    let mut entries = vec![super::user("Look.")];
    entries.extend(answer.entries(&route));
    let log = super::log_of(entries);
    let tools = windlass_provider::openai_chat::DeclaredTools::default();
    let request = super::chat_request(&log, &route, &tools);
    let body = super::chat_body(&request, &super::chat_profile(OPENROUTER));
    let expected = json!([
        {"type": "reasoning.text", "text": "Hm", "format": "google-gemini-v1", "index": 0},
        {"type": "reasoning.encrypted", "data": "AbC=", "id": "c1", "format": "google-gemini-v1", "index": 0}
    ]);
    assert_eq!(body["messages"][2]["reasoning_details"], expected);
    // Servers that do not know the field are not sent it.
    let body = super::chat_body(&request, &super::chat_profile("http://127.0.0.1/v1"));
    assert_eq!(body["messages"][2].get("reasoning_details"), None);
}

#[test]
fn a_whole_message_beside_an_empty_delta_keeps_its_words() {
    for delta in [
        json!({}),
        json!({"content": "", "role": "assistant"}),
        json!({"content": null, "tool_calls": []}),
    ] {
        let chunk = json!({"choices": [{"index": 0, "delta": delta, "message": {"role": "assistant", "content": "All of it."},
            "finish_reason": "stop"}]});
        let (events, answer) = decode_chat((stream_of(&[chunk]) + "data: [DONE]\n\n").as_bytes());
        assert_eq!(words(&events), "All of it.");
        assert_eq!(answer.ending, Ending::Complete);
    }
}

#[test]
fn a_line_with_a_picture_is_read_within_its_limit() {
    let chunk = |bytes: usize| {
        let picture = json!([{"type": "image_url", "image_url": {"url": "x".repeat(bytes)}}]);
        json!({"choices": [{"index": 0, "delta": {"content": "Here.", "images": picture}, "finish_reason": "stop"}]})
    };
    let (events, answer) = decode_chat(stream_of(&[chunk(5 << 20)]).as_bytes());
    assert_eq!(
        (words(&events).as_str(), answer.ending),
        ("Here.", Ending::Complete)
    );
    let (_, answer) = decode_chat(stream_of(&[chunk(17 << 20)]).as_bytes());
    assert!(matches!(answer.ending, Ending::Failed(_)));
}

#[test]
fn a_message_that_repeats_what_was_said_is_not_said_again() {
    let both = |piece: &str, whole: &str| {
        json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "finish_reason": null,
            "delta": {"role": "assistant", "content": piece}, "message": {"role": "assistant", "content": whole}}]})
    };
    let whole = |reason: &str, message: Value| {
        json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": reason,
            "delta": {"role": "assistant", "content": ""}, "message": message}]})
    };
    let said = json!({"role": "assistant", "content": "Paris is it."});
    for messages in [
        vec![
            both("Paris ", "Paris "),
            both("is it.", "Paris is it."),
            whole("stop", said.clone()),
        ],
        vec![
            chunk(json!({"content": "Paris is it."})),
            whole("stop", said.clone()),
        ],
        vec![both("", ""), whole("stop", said)],
    ] {
        let (events, answer) = decode_chat(stream_of(&messages).as_bytes());
        assert_eq!(words(&events), "Paris is it.", "{messages:?}");
        assert_eq!(answer.ending, Ending::Complete);
    }
    // What only the message has is read.
    let call = json!([{"id": "call_1", "function": {"name": "look", "arguments": "{}"}}]);
    let message = json!({"content": "Let me look.", "tool_calls": call});
    let messages = [
        chunk(json!({"content": "Let me look."})),
        whole("tool_calls", message),
    ];
    let (events, answer) = decode_chat(stream_of(&messages).as_bytes());
    assert_eq!(words(&events), "Let me look.");
    assert_eq!(answer.calls.len(), 1);
}

#[test]
fn a_function_call_without_a_name_is_none() {
    let empty = json!({"name": "", "arguments": ""});
    let messages = [
        chunk(json!({"content": "Hel", "function_call": empty})),
        chunk(json!({"content": "lo.", "function_call": {"name": null, "arguments": "{}"}})),
        chunk(json!({"content": null, "function_call": empty})),
        finish("stop"),
    ];
    let (events, answer) = decode_chat(stream_of(&messages).as_bytes());
    assert_eq!(words(&events), "Hello.");
    assert_eq!((answer.calls.len(), answer.ending), (0, Ending::Complete));
    // One beside a call of the other form is none of its pieces.
    let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let messages = [
        chunk(json!({"tool_calls": [call]})),
        chunk(json!({"function_call": {"name": null, "arguments": "{}"}})),
        finish("tool_calls"),
    ];
    let (_, answer) = decode_chat(stream_of(&messages).as_bytes());
    assert_eq!(
        answer.calls[0].arguments.as_ref().unwrap().to_value(),
        json!({})
    );
    // A call that has begun goes on without its name.
    let messages = [
        chunk(json!({"function_call": {"name": "look", "arguments": ""}})),
        chunk(json!({"function_call": {"name": "", "arguments": "{\"q\":1}"}})),
        finish("function_call"),
    ];
    let (_, answer) = decode_chat(stream_of(&messages).as_bytes());
    assert_eq!(answer.calls.len(), 1);
    assert_eq!(
        answer.calls[0].arguments.as_ref().unwrap().to_value(),
        json!({"q": 1})
    );
}
