//! A stream of events that are damaged by chance: whatever came, the next answer's call is read and goes back.

use super::{decode_chat, decode_gemini, decode_interactions, stream_of};
use crate::mutation::Mutations;
use serde_json::{Value, json};
use windlass_provider::answer::{AnswerLimits, Ending, ModelAnswer};
use windlass_provider::openai_responses;
use windlass_session::model::ModelEvent;

/// Events of one stream. A session has many, and each may be damaged.
const EVENTS: usize = 20;
/// What one event may have the core hear: a damaged one may hold several others.
const HEARD_MAX: usize = 50 * EVENTS;

type Decode = fn(&[u8]) -> (Vec<ModelEvent>, ModelAnswer);

fn decode_responses(stream: &[u8]) -> (Vec<ModelEvent>, ModelAnswer) {
    let mut events = Vec::new();
    let mut decoder = openai_responses::Decoder::new(7, AnswerLimits::default());
    decoder.push(stream, &mut events);
    let answer = decoder.finish(&mut events);
    (events, answer)
}

/// A hundred thousand damaged events, and now and then a sound answer with a call.
fn check(messages: &[Value], call: &[Value], decode: Decode) {
    let mut mutations = Mutations::of(messages);
    let call = stream_of(call);
    let mut ended = [0_u32; 2];
    for number in 0..100_000 / EVENTS {
        let mut stream = Vec::new();
        for _ in 0..EVENTS {
            stream.extend_from_slice(b"data: ");
            stream.extend_from_slice(&mutations.next());
            stream.extend_from_slice(b"\n\n");
        }
        let (events, answer) = decode(&stream);
        assert!(events.len() < HEARD_MAX, "{}", events.len());
        // Calls run only behind an end that was whole.
        assert!(answer.calls.is_empty() || answer.ending == Ending::Complete);
        ended[usize::from(answer.ending == Ending::Complete)] += 1;
        if number % 25 == 0 {
            let (_, answer) = decode(call.as_bytes());
            assert_eq!((answer.calls.len(), &answer.ending), (1, &Ending::Complete));
        }
    }
    assert!(ended.iter().all(|count| *count > 100), "{ended:?}");
}

#[test]
fn chat_completions_survive_a_hundred_thousand_damaged_events() {
    let choice = |delta: Value, reason: Value| {
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": null})
    };
    let call = |part: Value| json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": part}]});
    let messages = [
        choice(json!({"role": "assistant", "content": ""}), Value::Null),
        choice(json!({"content": "Let me see."}), Value::Null),
        choice(
            json!({"reasoning_content": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]}),
            Value::Null,
        ),
        choice(
            call(json!({"name": "look", "arguments": "{\"q\""})),
            Value::Null,
        ),
        choice(
            json!({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
            Value::Null,
        ),
        choice(json!({}), json!("tool_calls")),
        json!({"id": "c", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
            "prompt_tokens_details": {"cached_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 1}}}),
    ];
    let whole = [
        choice(
            call(json!({"name": "look", "arguments": "{\"q\":1}"})),
            Value::Null,
        ),
        choice(json!({}), json!("tool_calls")),
    ];
    check(&messages, &whole, decode_chat);
}

#[test]
fn gemini_survives_a_hundred_thousand_damaged_events() {
    let chunk = |parts: Value, reason: Value| {
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason, "index": 0,
        "groundingMetadata": {"webSearchQueries": ["q"], "groundingChunks": [{"web": {"uri": "https://e.example", "title": "E"}}]}}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": "4", "totalTokenCount": 7}, "modelVersion": "g", "responseId": "r"})
    };
    let call = json!({"functionCall": {"id": "c1", "name": "look", "args": {"q": 1}}, "thoughtSignature": "QUJD"});
    let messages = [
        chunk(json!([{"text": "Let me see."}]), Value::Null),
        chunk(json!([{"text": "Hm.", "thought": true}]), Value::Null),
        chunk(
            json!([{"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "s1", "args": {}}, "thoughtSignature": "QQ=="}]),
            Value::Null,
        ),
        chunk(
            json!([{"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "s1", "response": {}}, "thoughtSignature": "QQ=="}]),
            Value::Null,
        ),
        chunk(
            json!([{"executableCode": {"language": "PYTHON", "code": "1"}}, {"codeExecutionResult": {"outcome": "OUTCOME_OK"}}]),
            Value::Null,
        ),
        chunk(json!([call]), Value::Null),
        chunk(json!([{"text": ""}]), json!("STOP")),
        json!({"promptFeedback": {"blockReason": "SAFETY"}}),
    ];
    check(
        &messages,
        &[chunk(json!([call]), json!("STOP"))],
        decode_gemini,
    );
}

#[test]
fn responses_survive_a_hundred_thousand_damaged_events() {
    let done = |item: &Value| json!({"type": "response.output_item.done", "sequence_number": 1, "output_index": 0, "item": item});
    let call = json!({"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "look", "arguments": "{\"q\":1}"});
    let ended = json!({"type": "response.completed", "response": {"id": "r", "object": "response", "status": "completed", "output": [call],
        "usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 2}, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 13}}});
    let messages = [
        json!({"type": "response.created", "response": {"id": "r", "object": "response", "status": "in_progress", "output": []}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "msg_1", "type": "message", "content": []}}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "Let me see."}),
        done(
            &json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see.",
            "annotations": [{"type": "url_citation", "url": "https://e.example", "title": "E"}]}]}),
        ),
        done(
            &json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA="}),
        ),
        done(
            &json!({"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}),
        ),
        done(&call),
        ended.clone(),
    ];
    check(&messages, &[done(&call), ended], decode_responses);
}

#[test]
fn interactions_survive_a_hundred_thousand_damaged_events() {
    let event = |kind: &str, mut event: Value| {
        event["event_type"] = json!(kind);
        event
    };
    let start =
        |index: u64, step: Value| event("step.start", json!({"index": index, "step": step}));
    let delta =
        |index: u64, delta: Value| event("step.delta", json!({"index": index, "delta": delta}));
    let call = start(
        2,
        json!({"type": "function_call", "id": "c1", "name": "look", "arguments": {}}),
    );
    let arguments = delta(
        2,
        json!({"type": "arguments_delta", "arguments": "{\"q\":1}"}),
    );
    let ended = event(
        "interaction.completed",
        json!({"interaction": {"id": "", "status": "requires_action", "object": "interaction",
            "usage": {"total_input_tokens": 3, "total_output_tokens": "4", "total_tokens": 7}}}),
    );
    let messages = [
        event(
            "interaction.created",
            json!({"interaction": {"id": "", "status": "in_progress"}}),
        ),
        start(0, json!({"type": "thought"})),
        delta(0, json!({"type": "thought_signature", "signature": "QUJD"})),
        start(
            1,
            json!({"type": "google_search_call", "id": "s1", "signature": ""}),
        ),
        delta(
            1,
            json!({"type": "google_search_call", "arguments": {"queries": ["q"]}, "signature": "QQ=="}),
        ),
        start(
            3,
            json!({"type": "model_output", "content": [{"type": "text", "text": "Let me see."}]}),
        ),
        delta(
            3,
            json!({"type": "text_annotation_delta", "annotations": [{"type": "url_citation", "url": "https://e.example", "title": "E"}]}),
        ),
        event("step.stop", json!({"index": 3})),
        call.clone(),
        arguments.clone(),
        ended.clone(),
    ];
    check(&messages, &[call, arguments, ended], decode_interactions);
}
