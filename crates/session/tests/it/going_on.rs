//! Answers that go out while the model is in the middle of a message, or after its turn was ended for it: what it makes of them is
//! of the turn that asked, and begins none.

use crate::harness::check_with;
use expect_test::{Expect, expect};
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::limits::{Limits, TurnLimits};

/// A session whose turns are ended at the first refusal.
fn check(script: Expect) {
    check_with(
        Mode::Voice,
        |config| {
            let turn = TurnLimits {
                refusals_max: 1,
                ..config.limits.turn.clone()
            };
            config.limits = Arc::new(Limits {
                turn,
                ..(*config.limits).clone()
            });
        },
        script,
    );
}

#[test]
fn a_model_that_was_answered_in_the_middle_of_a_message_goes_on_with_its_turn_after_it() {
    check(expect![[r#"
        > microphone
        > text look
        turn 1 started
        to model: text "look"
        > calls function-call-1 slow {}
        client: ModelGenerating
        start call-1 slow {}
        > audio
        > calls function-call-2 nosuch {}
        call-2 rejected NotFound
        to model: function-call-2 NOT_FOUND there is no tool "nosuch"
        client: ToolsComplete { tool_count: 1 }
        client: error tool_loop: the model called tools over and over
        turn 1 ended: calls 2 retrieval 0 refusals 1 repeats 0 wound up
        client: TurnComplete { turn: 1 }
        > returns 1 {"found":1}
        call-1 finished
        to model: function-call-1 Interrupt ok {"found":1}
        client: ToolsComplete { tool_count: 1 }
        > audio
        client: ModelGenerating
        > done
        client: TurnComplete { turn: 1 }
        > audio
        client: ModelGenerating
        > done
        client: TurnComplete { turn: 1 }
        > audio
        client: ModelGenerating
    "#]]);
}

#[test]
fn a_model_that_was_stopped_in_an_older_turn_earns_no_new_one_by_going_on() {
    check(expect![[r#"
        > microphone
        > text look
        turn 1 started
        to model: text "look"
        > calls function-call-1 slow {}
        client: ModelGenerating
        start call-1 slow {}
        > done
        turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
        client: TurnComplete { turn: 1 }
        > text and now?
        turn 2 started
        to model: text "and now?"
        > says Soon.
        client: ModelGenerating
        client: Assistant piece "Soon."
        > generated
        > done
        client: Assistant said "Soon."
        turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
        client: TurnComplete { turn: 2 }
        > returns 1 {"found":1}
        call-1 finished
        to model: function-call-1 Interrupt ok {"found":1}
        client: ToolsComplete { tool_count: 1 }
        > calls function-call-2 nosuch {}
        client: ModelGenerating
        call-2 rejected NotFound
        to model: function-call-2 NOT_FOUND there is no tool "nosuch"
        client: ToolsComplete { tool_count: 1 }
        client: error tool_loop: the model called tools over and over
        client: TurnComplete { turn: 1 }
        > audio
        client: ModelGenerating
    "#]]);
}

#[test]
fn words_that_trail_a_message_are_not_taken_for_what_the_model_makes_of_an_answer() {
    check(expect![[r#"
        > microphone
        > text look
        turn 1 started
        to model: text "look"
        > calls function-call-1 slow {}
        client: ModelGenerating
        start call-1 slow {}
        > calls function-call-2 nosuch {}
        call-2 rejected NotFound
        to model: function-call-2 NOT_FOUND there is no tool "nosuch"
        client: ToolsComplete { tool_count: 1 }
        client: error tool_loop: the model called tools over and over
        turn 1 ended: calls 2 retrieval 0 refusals 1 repeats 0 wound up
        client: TurnComplete { turn: 1 }
        > returns 1 {"found":1}
        call-1 finished
        to model: function-call-1 Interrupt ok {"found":1}
        client: ToolsComplete { tool_count: 1 }
        > says The rest.
        client: Assistant piece "The rest."
        > done
        client: ModelGenerating
        client: Assistant said "The rest."
        client: TurnComplete { turn: 1 }
        > audio
        client: ModelGenerating
    "#]]);
}
