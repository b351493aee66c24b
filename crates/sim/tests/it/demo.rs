//! The demo model over the wire: calls, words and sound as a client gets them.

use crate::dialogue::{Dialogue, Do, LIVE, gemini, output, setup_with, text};
use serde_json::{Value, json};
use std::path::Path;
use windlass_sim::demo::SUGGESTIONS;
use windlass_sim::gemini_live::Server;
use windlass_sim::runner::Options;

fn begun(behavior: &str) -> Dialogue {
    let mut dialogue = Dialogue::connect(Server::new(Options::demo()), &gemini()).unwrap();
    let property = |name: &str| json!({"type": "OBJECT", "required": [name], "properties": {name: {"type": "STRING"}}});
    let tool = |name: &str, parameters: Value| json!({"name": name, "behavior": behavior, "parameters": parameters});
    let tools = json!([{"functionDeclarations": [tool("kb_search", property("query")), tool("kb_get", property("id"))]}]);
    dialogue.act(&Do::Send(setup_with(
        LIVE,
        json!({"tools": tools, "outputAudioTranscription": {}, "inputAudioTranscription": {}}),
    )));
    dialogue
}

#[test]
fn a_question_is_answered_through_two_calls_in_under_five_seconds_of_sound() {
    let mut dialogue = begun("BLOCKING");
    dialogue.act(&text("Who designed the ship Fram?"));
    let hits = json!({"status": "ok", "data": {"results": [{"id": "person:colin_archer", "title": "Colin Archer"}]}});
    dialogue.act(&Do::Answer(0, output(hits)));
    let record = json!({"status": "ok", "data": {"title": "Colin Archer", "full_text": "Colin Archer designed the ship Fram. He built her."}});
    dialogue.act(&Do::Answer(1, output(record)));
    dialogue.act(&Do::WaitMs(5_000));
    assert_eq!(
        dialogue.lines,
        [
            "ready",
            "call kb_search {\"query\":\"designed ship Fram\"}",
            "call kb_get {\"id\":\"person:colin_archer\"}",
            "says: Colin Archer designed the ship Fram. He built her. That is from “Colin Archer”.",
            "generated",
            "turn over",
        ]
    );
}

#[test]
fn a_search_that_does_not_block_is_bridged_and_voiced_later() {
    let mut dialogue = begun("NON_BLOCKING");
    dialogue.act(&text("Who designed the ship Fram?"));
    dialogue.act(&Do::WaitMs(5_000));
    assert_eq!(
        dialogue.lines[2..],
        [
            "says: One moment, I am looking that up.",
            "generated",
            "turn over"
        ]
    );
    dialogue.act(&Do::Answer(0, output(json!({"data": {"results": []}}))));
    dialogue.act(&Do::WaitMs(5_000));
    assert!(
        dialogue.lines[5].starts_with("says: I do not know"),
        "{:?}",
        dialogue.lines
    );
}

#[test]
fn speech_is_answered_with_what_the_demo_cannot_do() {
    let mut dialogue = begun("BLOCKING");
    dialogue.act(&Do::SpeakMs(500));
    dialogue.act(&Do::WaitMs(5_000));
    assert!(
        dialogue.lines[1].starts_with("hears: (speech"),
        "{:?}",
        dialogue.lines
    );
    assert!(
        dialogue.lines[2].contains("cannot recognise speech"),
        "{:?}",
        dialogue.lines
    );
}

#[test]
fn braces_in_a_record_are_said_as_they_are() {
    let mut dialogue = begun("BLOCKING");
    dialogue.act(&text("Who designed the ship Fram?"));
    dialogue.act(&Do::Answer(
        0,
        output(json!({"results": [{"id": "x", "title": "Fram"}]})),
    ));
    dialogue.act(&Do::Answer(
        1,
        output(json!({"title": "Fram", "full_text": "A {heard} designed ship."})),
    ));
    dialogue.act(&Do::WaitMs(5_000));
    assert!(
        dialogue.lines[3].starts_with("says: A {heard} designed ship."),
        "{:?}",
        dialogue.lines
    );
}

#[test]
fn the_instruction_says_by_voice_too_when_a_tool_is_meant() {
    let mut dialogue = Dialogue::connect(Server::new(Options::demo()), &gemini()).unwrap();
    let parameters = json!({"type": "OBJECT", "required": ["order"], "properties": {"order": {"type": "STRING"}}});
    let tools = json!([{"functionDeclarations": [{"name": "lookup_order", "behavior": "BLOCKING", "parameters": parameters}]}]);
    let guide = "Call lookup_order when the user asks \"Where is order A-1001?\".";
    dialogue.act(&Do::Send(setup_with(
        LIVE,
        json!({"tools": tools, "systemInstruction": {"parts": [{"text": guide}]}, "outputAudioTranscription": {}}),
    )));
    dialogue.act(&text("Where is order B-2?"));
    dialogue.act(&Do::Answer(
        0,
        output(json!({"status": "ok", "data": {"at": "sea"}})),
    ));
    dialogue.act(&Do::WaitMs(5_000));
    assert_eq!(
        dialogue.lines[1..3],
        [
            "call lookup_order {\"order\":\"B-2\"}",
            "says: lookup_order answered: at: sea."
        ]
    );
}

/// A record of the repository's own knowledge base, as `kb_get` would return it.
fn record(path: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../kb/public")
        .join(path);
    let text = std::fs::read_to_string(path).unwrap();
    let mut parts = text.splitn(3, "---\n");
    let heading = parts.nth(1).unwrap();
    let title = heading
        .lines()
        .find_map(|line| line.strip_prefix("title: "))
        .unwrap();
    json!({"title": title.trim_matches('"'), "full_text": parts.next().unwrap()})
}

#[test]
fn every_suggestion_is_answered_by_the_record_that_a_search_finds_for_it() {
    let expected = [
        ("doc/ship_fram.md", "Colin Archer"),
        ("project/south_pole_expedition.md", "14 December 1911"),
        ("doc/hull.md", "60 to 70 centimetres"),
        ("project/first_voyage.md", "Otto Sverdrup"),
        ("link/fram_museum.md", "Bygdøy in Oslo"),
    ];
    for (question, (path, fact)) in SUGGESTIONS.into_iter().zip(expected) {
        let mut dialogue = begun("BLOCKING");
        dialogue.act(&text(question));
        dialogue.act(&Do::Answer(
            0,
            output(json!({"results": [{"id": path, "title": "x"}]})),
        ));
        dialogue.act(&Do::Answer(1, output(record(path))));
        dialogue.act(&Do::WaitMs(5_000));
        assert!(
            dialogue.lines[3].contains(fact),
            "{question} {:?}",
            dialogue.lines
        );
        assert!(
            dialogue.lines[3].contains("That is from"),
            "{question} {:?}",
            dialogue.lines
        );
        assert_eq!(dialogue.lines.last().unwrap(), "turn over");
    }
}
