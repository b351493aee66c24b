//! Tool calls: blocking and not, one and many, answered, taken back and forgotten.

use crate::dialogue::{
    AT_ONCE, Dialogue, Do, LIVE, NATIVE, check, gemini, output, scripted, setup_of, text,
};
use serde_json::{Value, json};

fn script(actions: &str) -> String {
    let lines: String = actions
        .lines()
        .map(|line| format!("  - {}\n", line.trim()))
        .collect();
    format!(
        "{AT_ONCE}exchanges:\n- when: {{text: go}}\n  do:\n{lines}- when: any\n  do:\n  - say: \"other {{heard}}\"\n"
    )
}

fn scheduled(value: Value, scheduling: &str) -> Value {
    let mut answer = output(value);
    answer["scheduling"] = Value::from(scheduling);
    answer
}

const LOOKUP: &str = "call lookup {\"n\":\"a\"}";
const REPORT: &str = "call report {}";

#[test]
fn a_blocking_call_holds_the_turn_until_its_result() {
    let script = script(
        "call: {name: lookup, args: {n: a}}\nexpect_response\nsay: \"it is {result.output.n}\"",
    );
    check(
        &script,
        LIVE,
        &[text("go"), Do::WaitMs(60_000)],
        &["ready", LOOKUP],
    );
    check(
        &script,
        LIVE,
        &[text("go"), Do::Answer(0, output(json!({"n": 5})))],
        &["ready", LOOKUP, "says: it is 5", "generated", "turn over"],
    );
}

#[test]
fn calls_of_one_message_and_of_several_are_all_waited_for() {
    for calls in [
        "calls: [{name: lookup, args: {n: a}}, {name: lookup, args: {n: b}}]",
        "call: {name: lookup, args: {n: a}}\ncall: {name: lookup, args: {n: b}}",
    ] {
        let script = script(&format!("{calls}\nexpect_response\nsay: both"));
        let asked = ["ready", LOOKUP, "call lookup {\"n\":\"b\"}"];
        check(
            &script,
            LIVE,
            &[text("go"), Do::Answer(1, output(json!(1)))],
            &asked,
        );
        let end = ["says: both", "generated", "turn over"];
        check(
            &script,
            LIVE,
            &[
                text("go"),
                Do::Answer(1, output(json!(1))),
                Do::Answer(0, output(json!(2))),
            ],
            &[&asked[..], &end].concat(),
        );
    }
}

#[test]
fn a_call_that_does_not_block_lets_the_conversation_go_on() {
    let script =
        script("call: {name: report}\nsay: wait\nexpect_response\nsay: \"report {result.output}\"");
    let asked = ["ready", REPORT, "says: wait", "generated", "turn over"];
    let other = ["says: other hm", "generated", "turn over"];
    let voiced = ["says: report done", "generated", "turn over"];
    for answer in [
        output(json!("done")),
        scheduled(json!("done"), "WHEN_IDLE"),
        scheduled(json!("done"), "INTERRUPT"),
    ] {
        check(
            &script,
            LIVE,
            &[text("go"), text("hm"), Do::Answer(0, answer)],
            &[&asked[..], &other, &voiced].concat(),
        );
    }
    check(
        &script,
        LIVE,
        &[
            text("go"),
            Do::Answer(0, scheduled(json!("done"), "SILENT")),
            text("hm"),
        ],
        &[&asked[..], &other].concat(),
    );
}

#[test]
fn when_idle_waits_for_the_turn_and_interrupt_does_not() {
    let script = "exchanges:\n- when: {text: go}\n  do:\n  - call: {name: report}\n  - expect_response\n  - say: \"report\"\n\
        - when: any\n  do:\n  - say: one two three four five six seven eight nine ten\n";
    let begin = ["ready", REPORT, "turn over"];
    let speaking = [text("go"), text("hm"), Do::WaitMs(100)];
    let voiced = ["says: report", "generated", "turn over"];
    for (scheduling, middle) in [
        (
            "WHEN_IDLE",
            &[
                "says: one two three four five six seven eight nine ten",
                "generated",
                "turn over",
            ][..],
        ),
        (
            "INTERRUPT",
            &[
                "says: one two three four five six",
                "interrupted",
                "turn over",
            ],
        ),
    ] {
        let mut steps = speaking.to_vec();
        steps.extend([
            Do::Answer(0, scheduled(json!(1), scheduling)),
            Do::WaitMs(9_000),
        ]);
        check(
            script,
            LIVE,
            &steps,
            &[&begin[..], middle, &voiced].concat(),
        );
    }
}

#[test]
fn a_quick_result_cuts_the_filler_only_where_it_says_interrupt() {
    let script = "exchanges:\n- when: any\n  do:\n  - call: {name: report}\n  - say: please wait a moment for this\n  - expect_response\n  - say: \"report\"\n";
    let filler = "says: please wait a moment for this";
    let voiced = ["says: report", "generated", "turn over"];
    for (scheduling, middle) in [
        ("WHEN_IDLE", &[filler, "generated", "turn over"][..]),
        ("INTERRUPT", &["says: please", "interrupted", "turn over"]),
    ] {
        check(
            script,
            LIVE,
            &[
                text("go"),
                Do::WaitMs(15),
                Do::Answer(0, scheduled(json!(1), scheduling)),
                Do::WaitMs(9_000),
            ],
            &[&["ready", REPORT][..], middle, &voiced].concat(),
        );
    }
    check(
        script,
        LIVE,
        &[
            text("go"),
            Do::WaitMs(15),
            Do::Answer(0, scheduled(json!(1), "SILENT")),
            Do::WaitMs(9_000),
        ],
        &["ready", REPORT, filler, "generated", "turn over"],
    );
}

#[test]
fn an_interrupting_result_waits_for_a_user_who_speaks_except_on_2_5() {
    let script = script("call: {name: report}\nexpect_response\nsay: report");
    for (model, talks_over) in [(LIVE, false), (NATIVE, true)] {
        let mut dialogue = Dialogue::connect(scripted(&script), &gemini()).unwrap();
        dialogue.act(&Do::Send(setup_of(model)));
        dialogue.act(&text("go"));
        dialogue.play(6_000, 400);
        dialogue.lines.clear();
        dialogue.act(&Do::Answer(0, scheduled(json!(1), "INTERRUPT")));
        assert_eq!(
            dialogue.lines.iter().any(|line| line == "says: report"),
            talks_over,
            "{model}"
        );
        dialogue.play(3, 800);
        assert!(
            dialogue.lines.iter().any(|line| line == "says: report"),
            "{model} {:?}",
            dialogue.lines
        );
    }
}

#[test]
fn an_interim_result_keeps_the_call_open() {
    let script = script("call: {name: report}\nexpect_response\nsay: \"{result.output}\"");
    let mut interim = output(json!("half"));
    interim["willContinue"] = json!(true);
    check(
        &script,
        LIVE,
        &[
            text("go"),
            Do::Answer(0, interim),
            Do::Answer(0, output(json!("whole"))),
        ],
        &[
            "ready",
            REPORT,
            "turn over",
            "says: whole",
            "generated",
            "turn over",
        ],
    );
}

#[test]
fn new_input_takes_blocking_calls_back_and_leaves_the_others() {
    let blocking = script("call: {name: lookup, args: {n: a}}\nexpect_response\nsay: never");
    let end = [
        "interrupted",
        "turn over",
        "says: other hm",
        "generated",
        "turn over",
    ];
    check(
        &blocking,
        LIVE,
        &[text("go"), text("hm")],
        &[&["ready", LOOKUP, "cancelled 0"][..], &end].concat(),
    );
    // A result that comes too late is overlooked.
    check(
        &blocking,
        LIVE,
        &[text("go"), text("hm"), Do::Answer(0, output(json!(1)))],
        &[&["ready", LOOKUP, "cancelled 0"][..], &end].concat(),
    );
}

#[test]
fn a_script_takes_calls_back_and_asks_again_under_a_new_id() {
    let script = script(
        "call: {name: lookup, args: {n: a}}\ncancel\ncall: {name: lookup, args: {n: a}}\nexpect_response\nsay: \"{result.output}\"",
    );
    let mut dialogue = Dialogue::connect(scripted(&script), &gemini()).unwrap();
    dialogue.act(&Do::Send(setup_of(LIVE)));
    dialogue.act(&text("go"));
    assert_eq!(dialogue.lines, ["ready", LOOKUP, "cancelled 0", LOOKUP]);
    assert_ne!(dialogue.calls[0]["id"], dialogue.calls[1]["id"]);
    dialogue.act(&Do::Answer(0, output(json!("late"))));
    assert_eq!(dialogue.lines.len(), 4);
    dialogue.act(&Do::Answer(1, output(json!("fresh"))));
    assert_eq!(dialogue.lines[4], "says: fresh");
}

#[test]
fn a_result_for_no_open_call_closes_or_is_overlooked_as_the_script_says() {
    let calls = script("call: {name: lookup, args: {n: a}}\nexpect_response\nsay: ok");
    let entity = "closed 1008 Requested entity was not found.";
    let done = ["ready", LOOKUP, "says: ok", "generated", "turn over"];
    let twice = [
        text("go"),
        Do::Answer(0, output(json!(1))),
        Do::Answer(0, output(json!(1))),
    ];
    check(&calls, LIVE, &twice, &[&done[..], &[entity]].concat());
    let lenient = calls.replace("speed: 0", "speed: 0, unknown_response: ignore");
    check(&lenient, LIVE, &twice, &done);
    let strict = calls.replace("speed: 0", "speed: 0, cancelled_response: close");
    check(
        &strict,
        LIVE,
        &[text("go"), text("hm"), Do::Answer(0, output(json!(1)))],
        &[
            "ready",
            LOOKUP,
            "cancelled 0",
            "interrupted",
            "turn over",
            "says: other hm",
            "generated",
            "turn over",
            entity,
        ],
    );
}

#[test]
fn a_result_has_to_be_well_formed() {
    let calls = script("call: {name: lookup, args: {n: a}}\nexpect_response\nsay: ok");
    for (fields, reason) in [
        (json!({}), "Request contains an invalid argument."),
        (
            json!({"response": "text"}),
            "Invalid value at 'tool_response.function_responses[0].response' (google.protobuf.Struct)",
        ),
        (
            json!({"response": [1]}),
            "Invalid value at 'tool_response.function_responses[0].response' (google.protobuf.Struct)",
        ),
        (
            json!({"response": {}, "scheduling": "INTERRUPTED"}),
            "Invalid value at 'tool_response.function_responses[0].scheduling' (TYPE_ENUM)",
        ),
        (
            json!({"response": {}, "status": 1}),
            "Invalid JSON payload received. Unknown name \"status\" at 'tool_response.function_responses[0]': Cannot find field.",
        ),
    ] {
        check(
            &calls,
            LIVE,
            &[text("go"), Do::Answer(0, fields)],
            &["ready", LOOKUP, &format!("closed 1007 {reason}")],
        );
    }
    let unnamed = json!({"toolResponse": {"functionResponses": [{"id": "x", "response": {}}]}});
    check(
        &calls,
        LIVE,
        &[text("go"), Do::Send(unnamed)],
        &[
            "ready",
            LOOKUP,
            "closed 1007 Request contains an invalid argument.",
        ],
    );
}

#[test]
fn arguments_come_in_whatever_shape_the_script_gives_them() {
    for (args, shown) in [
        ("\"{{\\\"n\\\": 1}}\"", "\"{\\\"n\\\": 1}\""),
        ("null", "null"),
        ("[1]", "[1]"),
        ("5", "5"),
    ] {
        check(
            &script(&format!("call: {{name: lookup, args: {args}}}")),
            LIVE,
            &[text("go")],
            &["ready", &format!("call lookup {shown}")],
        );
    }
    let chained = script(
        "call: {name: lookup, args: {n: a}}\nexpect_response\ncall: {name: lookup, args: {n: \"{result.output.next}\"}}",
    );
    check(
        &chained,
        LIVE,
        &[text("go"), Do::Answer(0, output(json!({"next": 7})))],
        &["ready", LOOKUP, "call lookup {\"n\":7}"],
    );
}
