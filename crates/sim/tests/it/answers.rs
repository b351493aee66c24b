//! How an answer goes out: its frames, its pace, its end.

use crate::dialogue::{
    AT_ONCE, Dialogue, Do, LIVE, check, content, gemini, scripted, setup_of, setup_with, text,
};
use serde_json::{Value, json};

const LONG: &str = "word and another word, so that it takes its time to be said, all of it, to the very end of the sentence";

#[test]
fn an_answer_ends_with_generation_complete_then_turn_complete_with_usage_in_one_frame() {
    let mut dialogue = Dialogue::connect(scripted(AT_ONCE), &gemini()).unwrap();
    dialogue.act(&Do::Send(setup_of(LIVE)));
    dialogue.act(&content("hi"));
    assert_eq!(
        dialogue.lines,
        [
            "ready",
            "says: The script has no answer to this.",
            "generated",
            "turn over"
        ]
    );
    let last: Value = serde_json::from_slice(dialogue.frames.last().unwrap()).unwrap();
    assert_eq!(last["serverContent"], json!({"turnComplete": true}));
    let usage = &last["usageMetadata"];
    assert_eq!(
        usage["totalTokenCount"].as_u64(),
        Some(
            usage["promptTokenCount"].as_u64().unwrap()
                + usage["responseTokenCount"].as_u64().unwrap()
        )
    );
}

#[test]
fn words_are_sent_only_where_transcription_was_asked_for() {
    let mut dialogue = Dialogue::connect(scripted(AT_ONCE), &gemini()).unwrap();
    dialogue.act(&Do::Send(setup_with(LIVE, json!({}))));
    dialogue.act(&text("hi"));
    dialogue.act(&Do::SpeakMs(400));
    assert_eq!(
        dialogue.lines,
        [
            "ready",
            "audio",
            "generated",
            "turn over",
            "audio",
            "generated",
            "turn over"
        ]
    );
}

#[test]
fn audio_comes_faster_than_real_time_and_the_turn_ends_when_it_would_have_been_played() {
    let script = format!("exchanges:\n- when: any\n  do:\n  - say: {LONG}\n");
    let mut dialogue = Dialogue::connect(scripted(&script), &gemini()).unwrap();
    dialogue.act(&Do::Send(setup_of(LIVE)));
    dialogue.act(&text("hi"));
    let (begun, mut generated, mut over) = (dialogue.now, None, None);
    while over.is_none() {
        dialogue.act(&Do::WaitMs(5));
        let seen = |line: &str| {
            dialogue
                .lines
                .iter()
                .any(|other| other == line)
                .then_some(dialogue.now)
        };
        generated = generated.or(seen("generated"));
        over = seen("turn over");
    }
    let audio_ms = dialogue
        .frames
        .iter()
        .filter(|frame| String::from_utf8_lossy(frame).contains("inlineData"))
        .count() as u64
        * 40;
    let generated_ms = generated.unwrap().since(begun).as_millis() as u64;
    let over_ms = over.unwrap().since(begun).as_millis() as u64;
    assert!((1_000..5_000).contains(&audio_ms), "{audio_ms}");
    assert!(
        generated_ms.abs_diff(audio_ms / 4) < 60,
        "{generated_ms} of {audio_ms}"
    );
    assert!(over_ms.abs_diff(audio_ms) < 60, "{over_ms} of {audio_ms}");
}

#[test]
fn every_frame_is_small_and_in_camel_case() {
    fn keys(value: &Value) -> Vec<String> {
        match value {
            Value::Object(map) => map
                .iter()
                .flat_map(|(key, inner)| [vec![key.clone()], keys(inner)].concat())
                .collect(),
            Value::Array(items) => items.iter().flat_map(keys).collect(),
            _ => Vec::new(),
        }
    }
    let script = format!(
        "{AT_ONCE}exchanges:\n- when: any\n  do:\n  - think: hm\n  - audio_ms: 60000\n  - say: {LONG}\n  - go_away_ms: 50000\n"
    );
    let mut dialogue = Dialogue::connect(scripted(&script), &gemini()).unwrap();
    let mut setup = setup_of(LIVE);
    setup["setup"]["sessionResumption"] = json!({});
    dialogue.act(&Do::Send(setup));
    dialogue.act(&text("hi"));
    assert!(dialogue.frames.len() > 1_500);
    for frame in &dialogue.frames {
        assert!(frame.len() < 8_192);
        let value: Value = serde_json::from_slice(frame).unwrap();
        assert!(keys(&value).iter().all(|key| !key.contains('_')), "{value}");
        assert!(!String::from_utf8_lossy(frame).contains("null"), "{value}");
    }
}

#[test]
fn typed_input_interrupts_what_is_being_said() {
    let script = format!(
        "exchanges:\n- when: {{text: first}}\n  do:\n  - say: {LONG}\n- when: any\n  do:\n  - say: second\n"
    );
    for second in [text("next"), content("next")] {
        check(
            &script,
            LIVE,
            &[text("first"), Do::WaitMs(15), second, Do::WaitMs(2_000)],
            &[
                "ready",
                "says: word",
                "interrupted",
                "turn over",
                "says: second",
                "generated",
                "turn over",
            ],
        );
    }
}

#[test]
fn an_answer_is_interrupted_while_it_is_only_played_any_more() {
    let script = format!(
        "settings: {{speed: 0}}\nexchanges:\n- when: {{text: first}}\n  do:\n  - say: {LONG}\n- when: any\n  do:\n  - say: second\n"
    );
    let first = format!("says: {LONG}");
    check(
        &script,
        LIVE,
        &[
            text("first"),
            Do::WaitMs(100),
            text("next"),
            Do::WaitMs(2_000),
        ],
        &[
            "ready",
            &first,
            "generated",
            "interrupted",
            "turn over",
            "says: second",
            "generated",
            "turn over",
        ],
    );
}

#[test]
fn content_without_turn_complete_waits_for_it() {
    let script = format!(
        "{AT_ONCE}exchanges:\n- when: any\n  do:\n  - say: \"{{heard}} after {{remembered}}\"\n"
    );
    let part = |words: &str, complete: bool| {
        Do::Send(
            json!({"clientContent": {"turns": [{"role": "user", "parts": [{"text": words}]}], "turnComplete": complete}}),
        )
    };
    check(
        &script,
        LIVE,
        &[
            part("one", false),
            part("two", false),
            Do::Send(json!({"clientContent": {"turnComplete": true}})),
        ],
        &["ready", "says: two after one", "generated", "turn over"],
    );
}

#[test]
fn content_that_was_followed_by_other_input_is_history_only() {
    let script = format!("{AT_ONCE}exchanges:\n- when: any\n  do:\n  - say: \"to {{heard}}.\"\n");
    let seed = json!({"clientContent": {"turns": [{"role": "user", "parts": [{"text": "old"}]}], "turnComplete": false}});
    let go = json!({"clientContent": {"turnComplete": true}});
    let end = ["generated", "turn over"];
    check(
        &script,
        LIVE,
        &[Do::Send(seed), text("new"), Do::Send(go)],
        &[&["ready", "says: to new."][..], &end, &["says: to ."], &end].concat(),
    );
}
