//! Outcomes that the store has not taken: they are said to be unrecorded and tried again, and no change starts before they are
//! stored.

use crate::harness::check;
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn an_outcome_that_is_not_stored_in_time_is_said_so_and_no_change_starts_until_it_is() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > recording hangs
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            > wait 500
            effect-1 not recorded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"b"}
            record effect-1 Succeeded
            > recording works
            > wait 1000
            record effect-1 Succeeded
            all outcomes recorded
            reserve call-2 write
            start call-2 write (effect-2) {"text":"b"}
            > text again
            to model: text "again"
            > calls function-call-4 write {"text":"c"}
            reserve call-3 write
            start call-3 write (effect-3) {"text":"c"}
        "#]],
    );
}

#[test]
fn a_change_that_waits_for_an_outcome_to_be_stored_runs_as_soon_as_it_is() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > recording fails
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            effect-1 not recorded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > recording works
            > calls function-call-2 write {"text":"b"} + function-call-3 write {"text":"c"}
            record effect-1 Succeeded
            all outcomes recorded
            reserve call-2 write
            start call-2 write (effect-2) {"text":"b"}
            > returns 2 {"x":2}
            record effect-2 Succeeded
            call-2 finished
            reserve call-3 write
            start call-3 write (effect-3) {"text":"c"}
            > returns 3 {"x":3}
            record effect-3 Succeeded
            call-3 finished
            to model: function-call-2 ok {"x":2} + function-call-3 ok {"x":3}
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn a_change_waits_for_one_more_try_to_store_an_outcome() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > recording fails
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            effect-1 not recorded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"b"} + function-call-3 write {"text":"c"}
            record effect-1 Succeeded
            call-2 finished Transient
            record effect-1 Succeeded
            call-3 finished Transient
            to model: function-call-2 TRANSIENT write was not started: the store does not answer + function-call-3 TRANSIENT write was not started: the store does not answer
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn a_change_waits_no_longer_for_an_outcome_to_be_stored_than_for_the_store() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > recording hangs
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            > wait 500
            effect-1 not recorded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"b"}
            record effect-1 Succeeded
            > calls function-call-3 write {"text":"c"}
            record effect-1 Succeeded
            > cancel function-call-3
            call-3 cancelled
            client: ToolsComplete { tool_count: 1 }
            > wait 5000
            record effect-1 Succeeded
            call-2 finished Transient
            to model: function-call-2 TRANSIENT write was not started: the store does not answer
            client: ToolsComplete { tool_count: 1 }
            > recording works
            > wait 1000
            record effect-1 Succeeded
            all outcomes recorded
        "#]],
    );
}

#[test]
fn an_outcome_that_was_never_stored_is_tried_once_more_at_the_end() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > recording fails
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            effect-1 not recorded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > stop
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            client: session complete, 1 transcripts
            record effect-1 Succeeded
            client: Stopped
            session ended: Stopped
            close Stopped
        "#]],
    );
}
