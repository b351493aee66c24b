//! What the built-in tools that write find out about an effect of which nobody knows how it ended (`docs/policies.md`, "Unknown outcomes").

use crate::bench::{Bench, NOW_UNIX_MS, effect_id, schema};
use serde_json::{Value, json};
use windlass_tool::handler::{Block, Finding};
use windlass_tool::id::UserId;
use windlass_tool::kind::Mode;

/// Arguments for each built-in tool that writes, and a mode in which it may be called.
fn writing() -> [(&'static str, Mode, Value); 3] {
    let end = json!({"reason": "goodbye", "closing_message": "Bye.", "text_response": ""});
    let pending = json!({"pending_request": "the Fram"});
    [
        ("end_voice_session", Mode::Voice, end),
        ("ignore_user", Mode::Text, block_for(60)),
        ("start_voice_session", Mode::Text, pending),
    ]
}

fn block_for(seconds: u64) -> Value {
    json!({"duration_seconds": seconds, "farewell_message": "Enough."})
}

#[test]
fn every_built_in_tool_that_writes_finds_out_or_hands_its_key_on() {
    let handlers = windlass_handlers::builtin();
    let writes = handlers.keys().map(|id| id.as_str());
    let writes: Vec<&str> = writes
        .filter(|tool| schema(tool)["sideEffects"] == "writes")
        .collect();
    assert_eq!(writes, writing().map(|(tool, ..)| tool));
    for (tool, mode, arguments) in writing() {
        let never = Bench::new(mode).look_up(tool, arguments.clone());
        let bench = Bench::new(mode);
        bench.succeed(tool, arguments);
        let messages = Value::from(bench.client_messages()).to_string();
        let has_key = messages.contains(effect_id().as_str());
        assert!(
            has_key || never == Finding::NotHappened,
            "{tool}: {never:?}"
        );
    }
}

#[test]
fn a_block_that_stands_has_happened_and_one_that_would_stand_has_not() {
    let done = Bench::new(Mode::Voice);
    let success = done.succeed("ignore_user", block_for(60));
    let Finding::Happened(found) = done.look_up("ignore_user", block_for(60)) else {
        panic!("it stands");
    };
    assert_eq!(found.data, success.data);
    assert_eq!(found.intents, [], "what a lookup brings is not done again");

    let never = Bench::new(Mode::Voice);
    assert_eq!(
        never.look_up("ignore_user", block_for(60)),
        Finding::NotHappened
    );
    // A block of another call that ends sooner is not this one's.
    never.fakes.blocks.lock().unwrap().push(Block {
        user_id: UserId::new("user"),
        until_unix_ms: NOW_UNIX_MS + 59_000,
        farewell_message: String::new(),
    });
    assert_eq!(
        never.look_up("ignore_user", block_for(60)),
        Finding::NotHappened
    );
}

#[test]
fn of_a_block_that_would_be_over_nobody_knows_whether_it_was() {
    let bench = Bench::new(Mode::Text);
    *bench.fakes.elapsed_ms.lock().unwrap() = 59_999;
    assert_eq!(
        bench.look_up("ignore_user", block_for(60)),
        Finding::NotHappened
    );
    *bench.fakes.elapsed_ms.lock().unwrap() = 60_000;
    assert_eq!(
        bench.look_up("ignore_user", block_for(60)),
        Finding::Unknown
    );
    *bench.fakes.elapsed_ms.lock().unwrap() = 0;
    *bench.fakes.blocks_fail.lock().unwrap() = true;
    assert_eq!(
        bench.look_up("ignore_user", block_for(60)),
        Finding::Unknown
    );
}

#[test]
fn a_session_knows_whether_it_is_to_end() {
    let [(tool, mode, arguments), ..] = writing();
    let mut bench = Bench::new(mode);
    assert_eq!(bench.look_up(tool, arguments.clone()), Finding::NotHappened);
    bench.session_is_ending = true;
    let success = bench.succeed(tool, arguments.clone());
    let Finding::Happened(found) = bench.look_up(tool, arguments) else {
        panic!("its end was asked for");
    };
    assert_eq!((found.data, found.intents), (success.data, Vec::new()));
}
