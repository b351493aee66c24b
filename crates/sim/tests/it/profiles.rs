//! What differs from model to model in the frames themselves.

use crate::dialogue::{
    AT_ONCE, Dialogue, Do, EXTENDED, FLASH, LIVE, NATIVE, ON_VERTEX, check, check_setup, content,
    gemini, output, scripted, setup_of, setup_with, text, vertex,
};
use serde_json::{Value, json};

const SAY: &str = "settings: {speed: 0, await_playback: false}\nexchanges:\n- when: any\n  do:\n  - say: \"Hello there, my friend.\"\n";
const CALL: &str = "settings: {speed: 0, await_playback: false}\nexchanges:\n- when: any\n  do:\n  - call: {name: lookup, args: {n: a}}\n  - expect_response\n  - say: ok\n";

fn frames(script: &str, model: &str, steps: &[Do]) -> Vec<Value> {
    let upgrade = if model.starts_with("publishers") {
        vertex()
    } else {
        gemini()
    };
    let mut dialogue = Dialogue::connect(scripted(script), &upgrade).unwrap();
    dialogue.act(&Do::Send(setup_of(model)));
    for step in steps {
        dialogue.act(step);
    }
    dialogue
        .frames
        .iter()
        .map(|frame| serde_json::from_slice(frame).unwrap())
        .collect()
}

fn counted(frames: &[Value], pointer: &str) -> usize {
    frames
        .iter()
        .filter(|frame| frame.pointer(pointer).is_some())
        .count()
}

#[test]
fn the_2_5_model_thinks_first_and_puts_one_thing_in_a_frame() {
    check(
        SAY,
        NATIVE,
        &[text("hi")],
        &[
            "ready",
            "thinks",
            "says: Hello there, my friend.",
            "generated",
            "turn over",
        ],
    );
    for frame in frames(SAY, NATIVE, &[text("hi")]) {
        let content = frame["serverContent"]
            .as_object()
            .map_or(0, serde_json::Map::len);
        assert!(content <= 1, "{frame}");
    }
}

#[test]
fn the_3_1_model_bundles_words_with_sound() {
    let received = frames(SAY, FLASH, &[text("hi")]);
    let both = received.iter().filter(|frame| {
        frame.pointer("/serverContent/modelTurn").is_some()
            && frame
                .pointer("/serverContent/outputTranscription")
                .is_some()
    });
    assert_eq!(
        both.count(),
        counted(&received, "/serverContent/outputTranscription")
    );
    let apart = frames(SAY, LIVE, &[text("hi")]);
    assert!(counted(&apart, "/serverContent/outputTranscription/text") > 1);
}

#[test]
fn the_3_1_model_takes_content_only_as_announced_history_and_no_media_chunks() {
    let argument = "closed 1007 Request contains an invalid argument.";
    check(SAY, FLASH, &[content("hi")], &["ready", argument]);
    let chunk = Do::Send(
        json!({"realtimeInput": {"mediaChunks": [{"data": "AAAAAA==", "mimeType": "audio/pcm"}]}}),
    );
    let refusal =
        "closed 1007 realtime_input.media_chunks is deprecated. Use audio, video, or text instead.";
    for (model, expected) in [
        (FLASH, &["ready", refusal][..]),
        (LIVE, &["ready", refusal]),
        (NATIVE, &["ready"]),
    ] {
        check(SAY, model, std::slice::from_ref(&chunk), expected);
    }
    let seeded = setup_with(
        FLASH,
        json!({"historyConfig": {"initialHistoryInClientContent": true}, "outputAudioTranscription": {}}),
    );
    let history = |complete: bool| {
        Do::Send(
            json!({"clientContent": {"turns": [{"role": "user", "parts": [{"text": "I am Nora"}]}, {"role": "model", "parts": [{"text": "Hi"}]}], "turnComplete": complete}}),
        )
    };
    let script = format!("{AT_ONCE}exchanges:\n- when: any\n  do:\n  - say: \"{{remembered}}\"\n");
    check_setup(
        &script,
        &gemini(),
        &seeded,
        &[history(false), history(true), text("go"), content("x")],
        &[
            "ready",
            "says: I am Nora; I am Nora",
            "generated",
            "turn over",
            argument,
        ],
    );
}

#[test]
fn calls_block_by_the_rules_of_the_model() {
    // A call that blocks keeps its turn open; one that does not ends it.
    for (model, tool, blocks) in [
        (NATIVE, "lookup", true),
        (NATIVE, "report", false),
        (NATIVE, "either", true),
        (FLASH, "lookup", true),
        (FLASH, "report", true),
        (FLASH, "either", true),
        (LIVE, "lookup", true),
        (LIVE, "report", false),
        (LIVE, "either", false),
    ] {
        let script = CALL.replace("lookup", tool);
        let call = format!("call {tool} {{\"n\":\"a\"}}");
        let expected = if blocks {
            vec!["ready", &call]
        } else {
            vec!["ready", &call, "turn over"]
        };
        check(&script, model, &[text("hi")], &expected);
    }
}

#[test]
fn extended_thinking_says_whether_more_is_to_come() {
    let setup = setup_with(
        EXTENDED,
        json!({"outputAudioTranscription": {}, "tools": [{"functionDeclarations": [{"name": "lookup"}]}]}),
    );
    let script = CALL.replace("- expect", "- say: wait\n  - expect");
    check_setup(
        &script,
        &gemini(),
        &setup,
        &[text("hi"), Do::Answer(0, output(json!(1)))],
        &[
            "ready",
            "call lookup {\"n\":\"a\"}",
            "says: wait",
            "generated",
            "turn over IN_PROGRESS",
            "says: ok",
            "generated",
            "turn over IDLE",
        ],
    );
}

#[test]
fn extended_thinking_refuses_scheduling_unless_told_otherwise() {
    let setup = setup_with(
        EXTENDED,
        json!({"outputAudioTranscription": {}, "tools": [{"functionDeclarations": [{"name": "lookup"}]}]}),
    );
    let mut answer = output(json!(1));
    answer["scheduling"] = json!("WHEN_IDLE");
    let begin = [
        "ready",
        "call lookup {\"n\":\"a\"}",
        "turn over IN_PROGRESS",
    ];
    let steps = [text("hi"), Do::Answer(0, answer)];
    check_setup(
        CALL,
        &gemini(),
        &setup,
        &steps,
        &[
            &begin[..],
            &["closed 1007 Function response scheduling is not supported for this model"],
        ]
        .concat(),
    );
    check_setup(
        &CALL.replace("speed: 0", "refuse_scheduling: false, speed: 0"),
        &gemini(),
        &setup,
        &steps,
        &[&begin[..], &["says: ok", "generated", "turn over IDLE"]].concat(),
    );
}

#[test]
fn extended_thinking_abandons_a_call_after_an_interim_result_and_dislikes_a_missing_name() {
    let setup = setup_with(
        EXTENDED,
        json!({"outputAudioTranscription": {}, "tools": [{"functionDeclarations": [{"name": "lookup"}]}]}),
    );
    let begin = [
        "ready",
        "call lookup {\"n\":\"a\"}",
        "turn over IN_PROGRESS",
    ];
    let mut interim = output(json!("half"));
    interim["willContinue"] = json!(true);
    check_setup(
        CALL,
        &gemini(),
        &setup,
        &[
            text("hi"),
            Do::Answer(0, interim),
            Do::Answer(0, output(json!(1))),
        ],
        &begin,
    );
    let script = CALL.replace("say: ok", "say: \"{result.error}\"");
    let mut dialogue = Dialogue::connect(scripted(&script), &gemini()).unwrap();
    dialogue.act(&Do::Send(setup));
    dialogue.act(&text("hi"));
    let id = dialogue.calls[0]["id"].clone();
    dialogue.act(&Do::Send(
        json!({"toolResponse": {"functionResponses": [{"id": id, "response": {"output": 1}}]}}),
    ));
    assert_eq!(dialogue.lines[3], "says: The system failed.");
}

#[test]
fn vertex_names_things_its_own_way() {
    let received = frames(CALL, ON_VERTEX, &[text("hi")]);
    assert!(received[0]["setupComplete"]["sessionId"].is_string());
    let call = &received[1]["toolCall"]["functionCalls"][0];
    assert!(call.get("id").is_none(), "{call}");
    let received = frames(SAY, ON_VERTEX, &[text("hi")]);
    assert_eq!(
        received[1],
        json!({"serverContent": {"outputTranscription": {}}})
    );
    let turns: Vec<&Value> = received
        .iter()
        .filter_map(|frame| frame.pointer("/serverContent/modelTurn"))
        .collect();
    assert!(
        turns.iter().all(|turn| turn["role"] == "model"
            && turn["parts"][0]["inlineData"]["mimeType"] == "audio/pcm")
    );
    assert_eq!(
        counted(&received, "/serverContent/outputTranscription/finished"),
        1
    );
    let usage = &received.last().unwrap()["usageMetadata"];
    assert!(
        usage["candidatesTokenCount"].as_u64() > Some(0) && usage["trafficType"] == "ON_DEMAND",
        "{usage}"
    );
    // A result without an id belongs to the call of that name.
    check(
        CALL,
        ON_VERTEX,
        &[text("hi"), Do::Answer(0, output(json!(1)))],
        &[
            "ready 00000000-0000-4000-8000-000000000001",
            "call lookup {\"n\":\"a\"}",
            "says: ok",
            "generated",
            "turn over",
        ],
    );
}

#[test]
fn the_gemini_api_gives_ids_of_up_to_twenty_digits_and_no_role() {
    let received = frames(CALL, LIVE, &[text("hi"), Do::Answer(0, output(json!(1)))]);
    let id = received[1]["toolCall"]["functionCalls"][0]["id"]
        .as_str()
        .unwrap();
    let digits = id.strip_prefix("function-call-").unwrap();
    assert!(
        digits.len() <= 20 && digits.bytes().all(|digit| digit.is_ascii_digit()),
        "{id}"
    );
    let turns: Vec<&Value> = received
        .iter()
        .filter_map(|frame| frame.pointer("/serverContent/modelTurn"))
        .collect();
    assert!(!turns.is_empty() && turns.iter().all(|turn| turn.get("role").is_none()));
    assert_eq!(
        turns[0]["parts"][0]["inlineData"]["mimeType"],
        "audio/pcm;rate=24000"
    );
    assert!(received.last().unwrap()["usageMetadata"]["responseTokenCount"].is_u64());
}

#[test]
fn the_2_5_model_loses_arguments_that_were_declared_as_json_schema() {
    let setup = |model| {
        setup_with(
            model,
            json!({"tools": [{"functionDeclarations": [{"name": "lookup", "parametersJsonSchema": {"type": "object"}, "behavior": "BLOCKING"}]}]}),
        )
    };
    check_setup(
        CALL,
        &gemini(),
        &setup(NATIVE),
        &[text("hi")],
        &["ready", "call lookup {}"],
    );
    check_setup(
        CALL,
        &gemini(),
        &setup(LIVE),
        &[text("hi")],
        &["ready", "call lookup {\"n\":\"a\"}"],
    );
}

#[test]
fn a_script_may_choose_the_rules_whatever_the_model_is_called() {
    let script = SAY.replace("speed: 0", "profile: 2.5-native, speed: 0");
    check(
        &script,
        "models/anything",
        &[text("hi")],
        &[
            "ready",
            "thinks",
            "says: Hello there, my friend.",
            "generated",
            "turn over",
        ],
    );
}
