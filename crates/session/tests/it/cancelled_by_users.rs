//! Calls that the user stops: what changes nothing stops and the model reads that, what has begun to change something goes on, and
//! every request has an answer.

use crate::harness::{check, check_with};
use expect_test::{Expect, expect};
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::limits::Limits;
use windlass_session::model::{CallSupport, ModelProfile};

/// A model that waits for every call, for two seconds of the five that each may take.
fn check_waiting(mode: Mode, script: Expect) {
    check_with(
        mode,
        |config| {
            config.limits = Arc::new(Limits {
                result_wait_ms: 2_000,
                ..Limits::of(mode)
            });
            config.profile = Arc::new(ModelProfile {
                calls: CallSupport::BlockingOnly,
                ..(*config.profile).clone()
            });
        },
        script,
    );
}

#[test]
fn a_call_that_changes_nothing_stops_and_the_model_reads_who_stopped_it() {
    check(
        Mode::Text,
        expect![[r#"
            > text look
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > cancels 1 by http
            the user cancels call-1 by http: stopped
            abort call-1
            call-1 cancelled
            to model: function-call-1 CANCELLED the user stopped look before it had ended
            client: ToolsComplete { tool_count: 1 }
            client: cancel result call-1 stopped
            > cancels 1 by http
            client: cancel result call-1 ended
            > returns 1 {"seen":1}
            call-1 returned late
            > cancels 1 by http
            client: cancel result call-1 ended
        "#]],
    );
}

#[test]
fn a_change_that_has_begun_goes_on_and_is_not_tried_again() {
    check(
        Mode::Text,
        expect![[r#"
            > text order it
            turn 1 started
            > calls function-call-1 upsert {"text":"a"}
            client: ModelGenerating
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > cancels 1 by http
            the user cancels call-1 by http: runs_on
            client: cancel result call-1 runs_on
            > cancels 1 by http
            client: cancel result call-1 already_cancelled
            > returns 1 clean_transient
            record effect-1 Failed
            call-1 finished Transient
            to model: function-call-1 TRANSIENT it failed
            client: ToolsComplete { tool_count: 1 }
            > cancels 1 by http
            client: cancel result call-1 ended
        "#]],
    );
}

#[test]
fn a_change_that_has_begun_is_told_of_as_ever() {
    check(
        Mode::Voice,
        expect![[r#"
            > text order it
            turn 1 started
            to model: text "order it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > cancels 1
            the user cancels call-1 by socket: runs_on
            client: cancel result call-1 runs_on
            > returns 1 {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"ordered":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_change_that_has_not_begun_does_not_begin() {
    check(
        Mode::Voice,
        expect![[r#"
            > text order both
            turn 1 started
            to model: text "order both"
            > calls function-call-1 write {"text":"a"} + function-call-2 write {"text":"b"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > cancels 2
            the user cancels call-2 by socket: stopped
            call-2 cancelled
            client: cancel result call-2 stopped
            > returns 1 {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"ordered":1} + function-call-2 CANCELLED the user stopped write before it had ended
            client: ToolsComplete { tool_count: 2 }
            > store slow
            > calls function-call-3 write {"text":"c"}
            request call-3 write
            > cancels 3
            the user cancels call-3 by socket: stopped
            client: cancel result call-3 stopped
            > store up
            record effect-2 Failed
            call-3 cancelled
            to model: function-call-3 CANCELLED the user stopped write before it had ended
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_change_that_waits_for_its_next_attempt_is_given_up() {
    check(
        Mode::Text,
        expect![[r#"
            > text order it
            turn 1 started
            > calls function-call-1 upsert {"text":"a"}
            client: ModelGenerating
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > returns 1 clean_transient
            record effect-1 Failed
            call-1 attempt 2 in 285 ms
            > cancels 1 by http
            the user cancels call-1 by http: stopped
            call-1 cancelled
            to model: function-call-1 CANCELLED the user stopped upsert before it had ended
            client: ToolsComplete { tool_count: 1 }
            client: cancel result call-1 stopped
            > wait 60000
            provider silent after a result
        "#]],
    );
}

#[test]
fn a_call_that_waits_for_the_same_change_of_another_goes_on() {
    check(
        Mode::Text,
        expect![[r#"
            > text order it
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > text again
            > calls function-call-2 write {"text":"a"}
            request call-2 write
            call-2 is a repeat: SameEffectRunning
            > cancels 2 by http
            the user cancels call-2 by http: runs_on
            client: cancel result call-2 runs_on
            > returns 1 {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"ordered":1}
            client: ToolsComplete { tool_count: 1 }
            request call-2 write
            to model: function-call-2 ok {"ordered":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_was_said_to_be_at_work_stops_too_and_its_end_is_told() {
    check_waiting(
        Mode::Voice,
        expect![[r#"
            > text look
            turn 1 started
            to model: text "look"
            > calls function-call-1 background {"text":"a"}
            client: ModelGenerating
            start call-1 background {"text":"a"}
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            call-1 took 2000 ms, over Turn 1500
            to model: function-call-1 ok {"note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > says It is at work.
            client: Assistant piece "It is at work."
            > done
            client: Assistant said "It is at work."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > cancels 1
            the user cancels call-1 by socket: stopped
            abort call-1
            call-1 has ended Cancelled
            client: cancel result call-1 stopped
            to model: late background CANCELLED the user stopped background before it had ended
            > cancels 1
            client: cancel result call-1 ended
        "#]],
    );
}

#[test]
fn a_change_at_work_goes_on_when_it_is_cancelled_after_its_turn() {
    check_waiting(
        Mode::Text,
        expect![[r#"
            > text export it
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > shutdown
            client: error shutting_down: the server is shutting down
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            client: session complete, 1 transcripts
            > cancels 1 by http
            the user cancels call-1 by http: runs_on
            client: cancel result call-1 runs_on
            > cancels 2 by http
            client: cancel result call-2 unknown
            > returns 1 {"rows":7}
            record effect-1 Succeeded
            call-1 has ended
            session ended: Shutdown
            close Shutdown
        "#]],
    );
}

#[test]
fn what_the_user_approved_stops_where_it_changes_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > text peek
            turn 1 started
            to model: text "peek"
            > calls function-call-1 peek {"text":"a"}
            client: ModelGenerating
            request call-1 peek
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED peek runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"text":"a"}
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 peek {"text":"a"}
            > cancels 1
            the user cancels call-1 by socket: stopped
            abort call-1
            call-1 cancelled
            client: confirmation result call-1 CANCELLED the user stopped peek before it had ended
            client: cancel result call-1 stopped
        "#]],
    );
}

#[test]
fn a_call_that_a_handler_may_not_make_has_ended_when_its_parent_is_stopped() {
    check(
        Mode::Text,
        expect![[r#"
            > text look
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > asks 1 #1 look {"text":"b"}
            call-2 look asked for by call-1
            call-2 rejected Permanent
            to call-1 #1: PERMANENT look may not call look, on whose behalf it runs: that would not end
            > cancels 2 by http
            client: cancel result call-2 ended
            > asks 1 #2 look {"text":"c"}
            call-3 look asked for by call-1
            call-3 rejected Permanent
            to call-1 #2: PERMANENT look may not call look, on whose behalf it runs: that would not end
            > cancels 1 by http
            the user cancels call-1 by http: stopped
            abort call-1
            call-1 cancelled
            to model: function-call-1 CANCELLED the user stopped look before it had ended
            client: ToolsComplete { tool_count: 1 }
            client: cancel result call-1 stopped
            > cancels 3 by http
            client: cancel result call-3 ended
        "#]],
    );
}

#[test]
fn what_is_no_call_is_said_to_be_none() {
    check(
        Mode::Voice,
        expect![[r#"
            > text look
            turn 1 started
            to model: text "look"
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > cancels 0
            client: cancel result call-0 unknown
            > cancels 2
            client: cancel result call-2 unknown
            > cancels 18446744073709551615
            client: cancel result call-18446744073709551615 unknown
            > returns 1 {"seen":1}
            call-1 finished
            to model: function-call-1 ok {"seen":1}
            client: ToolsComplete { tool_count: 1 }
            > cancels 1
            client: cancel result call-1 ended
        "#]],
    );
}

#[test]
fn a_call_that_waits_for_a_change_that_fails_does_not_begin_once_it_is_stopped() {
    check(
        Mode::Text,
        expect![[r#"
            > text order it
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > text again
            > calls function-call-2 write {"text":"a"}
            request call-2 write
            call-2 is a repeat: SameEffectRunning
            > cancels 2 by http
            the user cancels call-2 by http: runs_on
            client: cancel result call-2 runs_on
            > returns 1 permanent
            record effect-1 Failed
            call-1 finished Permanent
            to model: function-call-1 PERMANENT it failed
            client: ToolsComplete { tool_count: 1 }
            request call-2 write
            call-2 cancelled
            to model: function-call-2 CANCELLED the user stopped write before it had ended
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_retry_about_which_the_user_would_be_asked_is_asked_about_no_more_once_it_is_stopped() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 upsert {"text":"a"} + function-call-2 search {"query":"q"}
            client: ModelGenerating
            request call-1 upsert
            start call-2 search {"query":"q","top_k":5}
            start call-1 upsert (effect-1) {"text":"a"}
            > returns 1 busy
            record effect-1 Failed
            call-1 attempt 2 in 25000 ms
            > returns 2 {"x":1}
            call-2 finished
            > store slow
            > wait 25000
            request call-1 upsert
            > cancels 1 by http
            the user cancels call-1 by http: stopped
            client: cancel result call-1 stopped
            > store up
            withdraw question-1
            call-1 cancelled
            to model: function-call-1 CANCELLED the user stopped upsert before it had ended + function-call-2 ok quoted {"x":1}
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn a_call_of_a_handler_is_stopped_with_its_parent_alone() {
    check(
        Mode::Text,
        expect![[r#"
            > text look
            turn 1 started
            > calls function-call-1 look {"text":"a"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            > asks 1 #1 cancellable {"text":"b"}
            call-2 cancellable asked for by call-1
            start call-2 cancellable {"text":"b"}
            > cancels 2 by http
            client: cancel result call-2 unknown
            > cancels 1 by http
            the user cancels call-1 by http: stopped
            abort call-2
            call-2 cancelled
            to call-1 #1: CANCELLED cancellable was taken back
            abort call-1
            call-1 cancelled
            to model: function-call-1 CANCELLED the user stopped look before it had ended
            client: ToolsComplete { tool_count: 1 }
            client: cancel result call-1 stopped
        "#]],
    );
}
