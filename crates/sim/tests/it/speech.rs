//! Spoken input: detected in PCM or marked by the client, transcribed, and interrupting.

use crate::dialogue::{
    Dialogue, Do, LIVE, ON_VERTEX, check, check_setup, gemini, scripted, setup_of, text, vertex,
};
use serde_json::{Value, json};

const SCRIPT: &str = "settings: {speed: 0, await_playback: false}\nexchanges:\n- when: {speech: \"What time is it?\"}\n  do:\n  - say: noon\n";
const SLOW: &str = "exchanges:\n- when: {text: story}\n  do:\n  - say: once upon a time there was a ship that went into the ice and came back after three years\n\
    - when: {text: call}\n  do:\n  - call: {name: lookup}\n  - expect_response\n  - say: never\n\
    - when: {speech: hey}\n  do:\n  - say: yes\n";
const ANSWER: [&str; 4] = [
    "hears: What time is it?",
    "says: noon",
    "generated",
    "turn over",
];

fn with_input(model: &str, config: Value) -> Value {
    let mut setup = setup_of(model);
    setup["setup"]["realtimeInputConfig"] = config;
    setup
}

#[test]
fn speech_is_transcribed_and_answered_when_it_has_ended() {
    check(
        SCRIPT,
        LIVE,
        &[Do::SpeakMs(500)],
        &[&["ready"][..], &ANSWER].concat(),
    );
    check(
        SCRIPT,
        LIVE,
        &[Do::SpeakMs(500), Do::SpeakMs(500)],
        &[&["ready"][..], &ANSWER, &ANSWER].concat(),
    );
    let mut dialogue = Dialogue::connect(scripted(SCRIPT), &gemini()).unwrap();
    dialogue.act(&Do::Send(setup_of(LIVE)));
    dialogue.play(6_000, 900);
    assert_eq!(dialogue.lines, ["ready"]);
    dialogue.act(&Do::Send(
        json!({"realtimeInput": {"audioStreamEnd": true}}),
    ));
    assert_eq!(dialogue.lines[1..], ANSWER);
}

#[test]
fn the_clients_padding_and_silence_count() {
    let patient = with_input(
        LIVE,
        json!({"automaticActivityDetection": {"silenceDurationMs": 2000, "prefixPaddingMs": 40}}),
    );
    check_setup(SCRIPT, &gemini(), &patient, &[Do::SpeakMs(500)], &["ready"]);
    let demanding = with_input(
        LIVE,
        json!({"automaticActivityDetection": {"prefixPaddingMs": "800"}}),
    );
    check_setup(
        SCRIPT,
        &gemini(),
        &demanding,
        &[Do::SpeakMs(500)],
        &["ready"],
    );
    check_setup(
        SCRIPT,
        &gemini(),
        &demanding,
        &[Do::SpeakMs(1_000)],
        &[&["ready"][..], &ANSWER].concat(),
    );
}

#[test]
fn speech_that_nobody_wrote_down_is_transcribed_as_such() {
    check(
        "settings: {speed: 0, await_playback: false}\nexchanges:\n- when: any\n  do:\n  - say: hm\n",
        LIVE,
        &[Do::SpeakMs(500)],
        &[
            "ready",
            "hears: (speech)",
            "says: hm",
            "generated",
            "turn over",
        ],
    );
}

#[test]
fn barge_in_interrupts_the_answer_and_ends_its_turn() {
    let mut dialogue = Dialogue::connect(scripted(SLOW), &gemini()).unwrap();
    dialogue.act(&Do::Send(setup_of(LIVE)));
    dialogue.act(&text("story"));
    dialogue.act(&Do::SpeakMs(500));
    dialogue.act(&Do::WaitMs(3_000));
    let lines: Vec<&str> = dialogue.lines.iter().map(String::as_str).collect();
    assert!(lines[1].starts_with("says: once upon"));
    let cut = lines
        .iter()
        .position(|line| *line == "interrupted")
        .unwrap();
    assert_eq!(
        lines[cut..],
        [
            "interrupted",
            "turn over",
            "hears: hey",
            "says: yes",
            "generated",
            "turn over"
        ]
    );
}

#[test]
fn speech_takes_a_blocking_call_back() {
    check(
        SLOW,
        LIVE,
        &[text("call"), Do::SpeakMs(500), Do::WaitMs(3_000)],
        &[
            "ready",
            "call lookup {}",
            "cancelled 0",
            "interrupted",
            "turn over",
            "hears: hey",
            "says: yes",
            "generated",
            "turn over",
        ],
    );
}

#[test]
fn without_interruption_speech_waits_its_turn() {
    let quiet = with_input(LIVE, json!({"activityHandling": "NO_INTERRUPTION"}));
    let mut dialogue = Dialogue::connect(scripted(SLOW), &gemini()).unwrap();
    dialogue.act(&Do::Send(quiet));
    dialogue.act(&text("story"));
    dialogue.act(&Do::SpeakMs(500));
    dialogue.act(&Do::WaitMs(9_000));
    assert!(
        dialogue.lines[1].ends_with("after three years"),
        "{:?}",
        dialogue.lines
    );
    assert_eq!(
        dialogue.lines[2..],
        [
            "generated",
            "turn over",
            "hears: hey",
            "says: yes",
            "generated",
            "turn over"
        ]
    );
}

#[test]
fn in_manual_mode_the_client_marks_speech() {
    let manual = with_input(
        LIVE,
        json!({"automaticActivityDetection": {"disabled": true}}),
    );
    let mark = |name: &str| Do::Send(json!({"realtimeInput": {name: {}}}));
    let argument = "closed 1007 Request contains an invalid argument.";
    check_setup(
        SCRIPT,
        &gemini(),
        &manual,
        &[mark("activityStart"), Do::SpeakMs(100), mark("activityEnd")],
        &[&["ready"][..], &ANSWER].concat(),
    );
    check_setup(
        SCRIPT,
        &gemini(),
        &manual,
        &[Do::SpeakMs(100)],
        &["ready", argument],
    );
    check_setup(
        SCRIPT,
        &gemini(),
        &manual,
        &[Do::Send(json!({"realtimeInput": {"audioStreamEnd": true}}))],
        &["ready", argument],
    );
    // The start of activity interrupts, as detected speech does.
    check_setup(
        SLOW,
        &gemini(),
        &manual,
        &[text("call"), mark("activityStart")],
        &[
            "ready",
            "call lookup {}",
            "cancelled 0",
            "interrupted",
            "turn over",
        ],
    );
}

#[test]
fn activity_is_signalled_where_it_was_asked_for() {
    let mut setup = setup_of(ON_VERTEX);
    setup["setup"]["explicitVadSignal"] = json!(true);
    // By default Vertex waits longer for the end than the Gemini API does.
    setup["setup"]["realtimeInputConfig"] =
        json!({"automaticActivityDetection": {"endOfSpeechSensitivity": "END_SENSITIVITY_HIGH"}});
    check_setup(
        SCRIPT,
        &vertex(),
        &setup,
        &[Do::SpeakMs(500)],
        &[
            &[
                "ready 00000000-0000-4000-8000-000000000001",
                "ACTIVITY_START",
                "ACTIVITY_END",
            ][..],
            &ANSWER,
        ]
        .concat(),
    );
}
