//! Streams that were cut anywhere, damaged anyhow, or never end.

use super::prefixes::Random;
use super::{OPENAI, chat_profile, stream_of};
use serde_json::{Value, json};
use windlass_provider::answer::{AnswerLimits, Ending, ModelAnswer};
use windlass_provider::{gemini_interactions, gemini_text, openai_chat};
use windlass_session::model::ModelEvent;

fn chat_answer() -> Vec<u8> {
    let chunk = |delta: Value, reason: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let messages = [
        chunk(json!({"role": "assistant", "content": ""}), Value::Null),
        chunk(json!({"content": "żółw \"🐢\"\n"}), Value::Null),
        chunk(
            json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{\"a\":"}}]}),
            Value::Null,
        ),
        chunk(
            json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"ż\"}"}}]}),
            Value::Null,
        ),
        chunk(json!({}), json!("tool_calls")),
        json!({"choices": [], "usage": {"prompt_tokens": 5}}),
    ];
    let stream = stream_of(&messages) + ": bye\n\ndata: [DONE]\n\n";
    stream.replace("\n\ndata", "\r\n\r\ndata").into_bytes()
}

fn gemini_answer() -> Vec<u8> {
    let messages = [
        json!({"candidates": [{"content": {"parts": [{"text": "żółw \"🐢\"\n"}]}}]}),
        json!({"candidates": [{"content": {"parts": [
            {"functionCall": {"name": "f", "args": {"a": "ż"}}, "thoughtSignature": "QUJD"}]}}]}),
        json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 5}}),
    ];
    stream_of(&messages).into_bytes()
}

fn chat(pieces: &[&[u8]], limits: AnswerLimits) -> (Vec<ModelEvent>, ModelAnswer) {
    let mut events = Vec::new();
    let mut decoder = openai_chat::Decoder::new(&chat_profile(OPENAI), 0, limits);
    for piece in pieces {
        decoder.push(piece, &mut events);
    }
    let answer = decoder.finish(&mut events);
    (events, answer)
}

fn gemini(pieces: &[&[u8]], limits: AnswerLimits) -> (Vec<ModelEvent>, ModelAnswer) {
    let mut events = Vec::new();
    let mut decoder = gemini_text::Decoder::new(limits);
    for piece in pieces {
        decoder.push(piece, &mut events);
    }
    let answer = decoder.finish(&mut events);
    (events, answer)
}

fn interactions_answer() -> Vec<u8> {
    let messages = [
        json!({"event_type": "step.start", "index": 0, "step": {"type": "thought"}}),
        json!({"event_type": "step.delta", "index": 0, "delta": {"type": "thought_signature", "signature": "QUJD"}}),
        json!({"event_type": "step.start", "index": 1, "step": {"type": "model_output"}}),
        json!({"event_type": "step.delta", "index": 1, "delta": {"type": "text", "text": "żółw \"🐢\"\n"}}),
        json!({"event_type": "step.start", "index": 2, "step": {"type": "function_call", "id": "c1", "name": "f", "arguments": {}}}),
        json!({"event_type": "step.delta", "index": 2, "delta": {"type": "arguments_delta", "arguments": "{\"a\":"}}),
        json!({"event_type": "step.delta", "index": 2, "delta": {"type": "arguments_delta", "arguments": "\"ż\"}"}}),
        json!({"event_type": "interaction.completed", "interaction": {"status": "requires_action", "usage": {"total_input_tokens": 5}}}),
    ];
    (stream_of(&messages) + "event: done\ndata: [DONE]\n\n").into_bytes()
}

fn interactions(pieces: &[&[u8]], limits: AnswerLimits) -> (Vec<ModelEvent>, ModelAnswer) {
    let mut events = Vec::new();
    let mut decoder = gemini_interactions::Decoder::new(0, limits);
    for piece in pieces {
        decoder.push(piece, &mut events);
    }
    let answer = decoder.finish(&mut events);
    (events, answer)
}

type Decode = fn(&[&[u8]], AnswerLimits) -> (Vec<ModelEvent>, ModelAnswer);

fn each() -> [(Decode, Vec<u8>); 3] {
    [
        (chat, chat_answer()),
        (gemini, gemini_answer()),
        (interactions, interactions_answer()),
    ]
}

#[test]
fn every_way_to_cut_a_stream_into_pieces_gives_the_same() {
    for (decode, stream) in each() {
        let whole = decode(&[&stream], AnswerLimits::default());
        assert_eq!(whole.1.ending, Ending::Complete);
        assert_eq!(whole.1.calls.len(), 1);
        for cut in 0..=stream.len() {
            let (first, second) = stream.split_at(cut);
            assert_eq!(
                decode(&[first, second], AnswerLimits::default()),
                whole,
                "cut at {cut}"
            );
        }
        for size in [1, 2, 3, 7] {
            let pieces: Vec<&[u8]> = stream.chunks(size).collect();
            assert_eq!(
                decode(&pieces, AnswerLimits::default()),
                whole,
                "pieces of {size}"
            );
        }
    }
}

#[test]
fn a_stream_that_breaks_off_gives_no_call() {
    for (decode, stream) in each() {
        let whole = decode(&[&stream], AnswerLimits::default());
        let mut complete = 0;
        for end in 0..stream.len() {
            let (_, answer) = decode(&[&stream[..end]], AnswerLimits::default());
            if answer.ending == Ending::Complete {
                complete += 1;
                assert_eq!(answer.calls, whole.1.calls, "broken off at {end}");
            } else {
                assert!(answer.calls.is_empty(), "broken off at {end}");
                assert!(
                    answer.ending.is_worth_another_try() || answer.is_empty(),
                    "{end}"
                );
            }
        }
        assert!(complete > 0 && complete < stream.len() / 2);
    }
}

#[test]
fn no_damage_is_fatal() {
    let mut random = Random(42);
    for (decode, stream) in each() {
        for _ in 0..3_000 {
            let mut damaged = stream.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(damaged.len());
                match random.below(4) {
                    0 => damaged[at] = u8::try_from(random.below(256)).unwrap(),
                    1 => {
                        damaged.remove(at);
                    }
                    2 => damaged.insert(at, b"{}[]\",:\n\r\x00\xff0"[random.below(12)]),
                    _ => {
                        let end = (at + random.below(40)).min(damaged.len());
                        let copy = damaged[at..end].to_vec();
                        damaged.splice(at..at, copy);
                    }
                }
            }
            let at = random.below(damaged.len());
            let pieces = damaged.split_at(at);
            let whole = decode(&[&damaged], AnswerLimits::default());
            assert_eq!(
                decode(&[pieces.0, pieces.1], AnswerLimits::default()),
                whole
            );
        }
    }
}

#[test]
fn nesting_without_end_is_no_crash() {
    for (decode, _) in each() {
        for open in [
            "[",
            "{\"a\":",
            "{\"choices\":[{\"delta\":{\"tool_calls\":[",
            "{\"error\":[",
            "{\"event_type\":\"step.start\",\"step\":{\"type\":\"x\",\"y\":",
        ] {
            let deep = format!("data: {}\n\n", open.repeat(50_000));
            let (_, answer) = decode(&[deep.as_bytes()], AnswerLimits::default());
            assert!(
                matches!(answer.ending, Ending::Failed(_) | Ending::Cut),
                "{open}"
            );
        }
    }
    let arguments = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let call = format!(
        r#"data: {{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"name":"f","args":{{"a":{arguments}}}}}}}]}},"finishReason":"STOP"}}]}}"#
    );
    let (_, answer) = gemini(&[call.as_bytes()], AnswerLimits::default());
    assert!(answer.calls[0].arguments.is_err());
}

#[test]
fn what_never_ends_is_ended() {
    let limits = AnswerLimits {
        line_bytes_max: 16 << 20,
        stream_bytes_max: 20_000,
        text_bytes_max: 1_000,
        calls_max: 8,
        arguments_bytes_max: 1_000,
    };
    let text = json!({"choices": [{"delta": {"content": "xxxxxxxxxx"}}]});
    let letters = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "xxxxxxxxxx"}}]}}]});
    let calls =
        |id: usize| json!({"choices": [{"delta": {"tool_calls": [{"id": format!("c{id}")}]}}]});
    let fields = |id: usize| json!({"choices": [{"delta": {"tool_calls": [{"index": 0, format!("f{id}"): 1}]}}]});
    let gemini_text = json!({"candidates": [{"content": {"parts": [{"text": "xxxxxxxxxx"}]}}]});
    let signatures = json!({"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": "xxxxxxxxxx"}]}}]});
    let gemini_call =
        json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}}]});
    let long_call = json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"a": "x".repeat(1_000)}}}]}}]});
    let step = |step: Value| json!({"event_type": "step.start", "step": step});
    let delta = |delta: Value| json!({"event_type": "step.delta", "delta": delta});
    let begun = |kind: &str, piece: Value| {
        let mut events = vec![step(json!({"type": kind, "name": "f"}))];
        events.resize(200, delta(piece));
        events
    };
    let event = |message: Value| format!("data: {message}\n\n");
    let events = |messages: Vec<Value>| messages.into_iter().map(event).collect();
    let table: Vec<(&str, Decode, Vec<String>)> = vec![
        ("words", chat, vec![event(text); 200]),
        ("letters of arguments", chat, vec![event(letters); 200]),
        ("calls", chat, (0..200).map(|id| event(calls(id))).collect()),
        (
            "fields of a call",
            chat,
            (0..200).map(|id| event(fields(id))).collect(),
        ),
        ("comments", chat, vec![": keep alive\n\n".to_owned(); 5_000]),
        ("one line", chat, vec!["data: xxxxxxxxxx".repeat(10); 500]),
        ("words", gemini, vec![event(gemini_text); 200]),
        ("signatures", gemini, vec![event(signatures); 200]),
        ("calls", gemini, vec![event(gemini_call); 200]),
        ("a long call", gemini, vec![event(long_call)]),
        (
            "comments",
            gemini,
            vec![": keep alive\n\n".to_owned(); 5_000],
        ),
        (
            "words",
            interactions,
            events(begun(
                "model_output",
                json!({"type": "text", "text": "xxxxxxxxxx"}),
            )),
        ),
        (
            "summaries",
            interactions,
            events(begun(
                "thought",
                json!({"type": "thought_summary", "content": {"type": "text", "text": "x"}}),
            )),
        ),
        (
            "letters of arguments",
            interactions,
            events(begun(
                "function_call",
                json!({"type": "arguments_delta", "arguments": "xxxxxxxxxx"}),
            )),
        ),
        (
            "calls",
            interactions,
            events(vec![step(json!({"type": "function_call"})); 200]),
        ),
        (
            "steps of an unknown type",
            interactions,
            events(vec![step(json!({"type": "x"})); 200]),
        ),
        (
            "comments",
            interactions,
            vec![": keep alive\n\n".to_owned(); 5_000],
        ),
    ];
    for (what, decode, pieces) in table {
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
        let (events, answer) = decode(&pieces, limits);
        let Ending::Failed(failure) = &answer.ending else {
            panic!("{what}: {:?}", answer.ending);
        };
        assert!(!failure.retryable, "{what}");
        assert!(answer.calls.is_empty() && events.len() <= 101, "{what}");
    }
}
