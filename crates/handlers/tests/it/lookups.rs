//! What the built-in tools that write find out about an effect whose outcome is unknown (`docs/policies.md`, "Unknown outcomes").

use crate::bench::{Bench, NOW_UNIX_MS, schema};
use serde_json::{Value, json};
use windlass_contract::handler::{Block, Finding};
use windlass_contract::id::{ToolId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::registry::STEERING_TOOLS;

fn block_for(seconds: u64) -> Value {
    json!({"duration_seconds": seconds, "farewell_message": "Enough."})
}

#[test]
fn every_built_in_tool_with_an_effect_finds_out_what_became_of_it() {
    let handlers = windlass_handlers::builtin();
    let has_effects = |tool: &&ToolId| {
        schema(tool.as_str())["sideEffects"] == "writes" && !STEERING_TOOLS.contains(&tool.as_str())
    };
    let tools: Vec<&ToolId> = handlers.keys().filter(has_effects).collect();
    assert!(!tools.is_empty());
    for tool in tools {
        assert!(handlers[tool].outcome_lookup().is_some(), "{tool}");
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
