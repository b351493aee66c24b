//! Calls that handlers make: the gates, the ledger, what is in doubt, and what ends with a parent.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn a_handler_that_calls_a_tool_is_given_its_whole_answer() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 search {"query":"Fram"}
            client: ModelGenerating
            call-1 clamped top_k 5 to 3
            start call-1 search {"query":"Fram","top_k":3}
            > asks 1 #1 look {"text":"a"}
            call-2 look asked for by call-1
            start call-2 look {"text":"a"}
            > returns 2 {"seen":"a"}
            call-2 finished
            to call-1 #1: ok {"seen":"a"}
            > returns 1 {"results":[1]}
            call-1 finished
            to model: function-call-1 ok quoted {"results":[1]}
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 2 retrieval 1 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "go"
            s-1: call-1 search {"query":"Fram","top_k":3} brought {"data":{"results":[1]}}
        "#]],
    );
}

#[test]
fn changes_of_a_handler_are_the_ledgers_with_their_parent_and_count() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > asks 1 #1 look {}
            call-2 look asked for by call-1
            start call-2 look {}
            > returns 2 {"seen":1}
            call-2 finished
            to call-1 #1: ok {"seen":1}
            > asks 1 #2 post {"text":"b"}
            call-3 post asked for by call-1
            request call-3 post
            start call-3 post (effect-2) {"text":"b"}
            > asks 1 #3 post {"text":"b"}
            call-4 post asked for by call-1
            request call-4 post
            start call-4 post (effect-3) {"text":"b"}
            > returns 4 {"posted":2}
            record effect-3 Succeeded
            call-4 finished
            to call-1 #3: ok {"posted":2}
            > returns 3 {"posted":1}
            record effect-2 Succeeded
            call-3 finished
            to call-1 #2: ok {"posted":1}
            > returns 1 {"written":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"written":1}
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 4 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > log
            s-1: begins by text
            s-1: the user begins
            s-1: User said "go"
            s-1: effect-1 of write Running, attempt 1
            s-1: effect-2 of post Running, attempt 1
            s-1: effect-3 of post Running, attempt 1
            s-1: effect-3 of post Done, attempt 1
            s-1: effect-2 of post Done, attempt 1
            s-1: effect-1 of write Done, attempt 1
            s-1: call-1 write {"text":"a"} brought {"data":{"written":1}}
        "#]],
    );
}

#[test]
fn an_attempt_that_follows_finds_the_changes_of_the_one_before() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 upsert {"text":"a"}
            client: ModelGenerating
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > asks 1 #1 look {}
            call-2 look asked for by call-1
            start call-2 look {}
            > returns 2 {"seen":1}
            call-2 finished
            to call-1 #1: ok {"seen":1}
            > asks 1 #2 post {"text":"b"}
            call-3 post asked for by call-1
            request call-3 post
            start call-3 post (effect-2) {"text":"b"}
            > returns 3 {"posted":1}
            record effect-2 Succeeded
            call-3 finished
            to call-1 #2: ok {"posted":1}
            > returns 1 clean_transient
            record effect-1 Failed
            call-1 attempt 2 in 285 ms
            > wait 500
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > asks 1/2 #3 post {"text":"b"}
            call-4 post asked for by call-1
            request call-4 post
            call-4 is a repeat: SameEffectFinished
            to call-1 #3: ok again {"posted":1}
            > asks 1/2 #4 post {"text":"c"}
            call-5 post asked for by call-1
            request call-5 post
            start call-5 post (effect-3) {"text":"c"}
            > returns 5 {"posted":2}
            record effect-3 Succeeded
            call-5 finished
            to call-1 #4: ok {"posted":2}
            > returns 1/2 clean_transient
            record effect-1 Failed
            call-1 attempt 3 in 630 ms
            > wait 1000
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > asks 1/3 #5 post {"text":"b"}
            call-6 post asked for by call-1
            request call-6 post
            call-6 is a repeat: SameEffectFinished
            to call-1 #5: ok again {"posted":1}
            > asks 1/3 #6 post {"text":"other"}
            call-7 post asked for by call-1
            request call-7 post
            call-7 rejected Conflict
            to call-1 #6: CONFLICT post was called with other arguments by an earlier attempt of the same call
            > returns 1/3 {"done":1}
            record effect-1 Succeeded
            call-1 finished
            call-1 took 1500 ms, over Tool 500
            to model: function-call-1 ok {"done":1}
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 4 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_change_in_doubt_puts_its_parent_in_doubt() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 upsert {"text":"a"}
            client: ModelGenerating
            request call-1 upsert
            start call-1 upsert (effect-1) {"text":"a"}
            > asks 1 #1 post {"text":"b"}
            call-2 post asked for by call-1
            request call-2 post
            start call-2 post (effect-2) {"text":"b"}
            > returns 2 broken
            record effect-2 Unknown
            call-2 problem: panicked at secret
            call-2 finished OutcomeUnknown
            to call-1 #1: OUTCOME_UNKNOWN post was started, and how it ended is not known
            > returns 1 {"done":1}
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN upsert was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text again
            turn 2 started
            > calls function-call-2 upsert {"text":"a"}
            client: ModelGenerating
            request call-3 upsert
            call-3 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED upsert was begun before, at 2026-11-18T11:06:40.000Z with {"text":"a"}, and nobody knows whether it happened. The user is being asked whether to do it again
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-1 {"text":"a"} warned "This was begun before, at 2026-11-18T11:06:40.000Z, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > confirm token-1
            answer question-1 yes as call-3
            call-3 Approved
            start call-3 upsert (effect-1) {"text":"a"}
            > asks 3 #2 post {"text":"b"}
            call-4 post asked for by call-3
            request call-4 post
            call-4 is a repeat: SameEffectFinished
            to call-3 #2: OUTCOME_UNKNOWN again post was started, and how it ended is not known, at 2026-11-18T11:06:40.000Z with {"text":"b"}
            > returns 3 permanent
            record effect-1 Unknown
            call-3 finished OutcomeUnknown
            client: confirmation result call-3 OUTCOME_UNKNOWN upsert was started, and how it ended is not known
        "#]],
    );
}

#[test]
fn a_change_that_is_not_awaited_leaves_its_parent_in_doubt() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > asks 1 #1 post {"text":"b"}
            call-2 post asked for by call-1
            request call-2 post
            start call-2 post (effect-2) {"text":"b"}
            > asks 1 #2 look {}
            call-3 look asked for by call-1
            start call-3 look {}
            > returns 1 {"done":1}
            abort call-3
            call-3 cancelled
            to call-1 #2: CANCELLED look was taken back
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > returns 2 {"posted":1}
            record effect-2 Succeeded
            call-2 finished
            to call-1 #1: ok {"posted":1}
        "#]],
    );
}

#[test]
fn what_a_handler_may_not_call_is_refused_before_it_runs() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {}
            client: ModelGenerating
            start call-1 look {}
            > asks 1 #1 lok {}
            call-2 lok asked for by call-1
            call-2 rejected NotFound
            to call-1 #1: NOT_FOUND there is no tool "lok"
            > asks 1 #2 text_only {"wrong":1}
            call-3 text_only asked for by call-1
            call-3 rejected Validation
            to call-1 #2: VALIDATION /wrong: there is no argument named `wrong`
            > asks 1 #3 text_only []
            call-4 text_only asked for by call-1
            call-4 rejected Validation
            to call-1 #3: VALIDATION the arguments are no JSON object
            > asks 1 #4 peek {}
            call-5 peek asked for by call-1
            call-5 rejected Permanent
            to call-1 #4: PERMANENT look may not call peek, which runs only after the user has confirmed it: a model has to call it
            > asks 1 #5 search {"query":"a"}
            call-6 search asked for by call-1
            call-6 rejected Permanent
            to call-1 #5: PERMANENT look may not call search, which does more than look says of itself: sideEffects of look has to say as much
            > asks 1 #6 post {}
            call-7 post asked for by call-1
            call-7 rejected Permanent
            to call-1 #6: PERMANENT look may not call post, which does more than look says of itself: sideEffects of look has to say as much
            > asks 1 #7 look {"text":"itself"}
            call-8 look asked for by call-1
            call-8 rejected Permanent
            to call-1 #7: PERMANENT look may not call look, on whose behalf it runs: that would not end
            > returns 1 {"done":1}
            call-1 finished
            to model: function-call-1 ok {"done":1}
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 8 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn calls_stand_no_more_than_three_below_one_another() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 write {}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {}
            > asks 1 #1 post {}
            call-2 post asked for by call-1
            request call-2 post
            start call-2 post (effect-2) {}
            > asks 2 #2 upsert {}
            call-3 upsert asked for by call-2
            request call-3 upsert
            start call-3 upsert (effect-3) {}
            > asks 3 #3 book {"about":"x"}
            call-4 book asked for by call-3
            request call-4 book
            start call-4 book (effect-4) {"about":"x"}
            > asks 4 #4 look {}
            call-5 look asked for by call-4
            call-5 rejected Permanent
            to call-4 #4: PERMANENT book may not call look: no more than 3 calls stand below one another
            > asks 4 #5 post {}
            call-6 post asked for by call-4
            call-6 rejected Permanent
            to call-4 #5: PERMANENT book may not call post, on whose behalf it runs: that would not end
            > asks 4 #6 write {}
            call-7 write asked for by call-4
            call-7 rejected Permanent
            to call-4 #6: PERMANENT book may not call write, on whose behalf it runs: that would not end
            > returns 4 {"n":4}
            record effect-4 Succeeded
            call-4 finished
            to call-3 #3: ok {"n":4}
            > returns 3 {"n":3}
            record effect-3 Succeeded
            call-3 finished
            to call-2 #2: ok {"n":3}
            > returns 2 {"n":2}
            record effect-2 Succeeded
            call-2 finished
            to call-1 #1: ok {"n":2}
            > returns 1 {"n":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"n":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn calls_of_handlers_charge_the_turn_of_their_parent() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > asks 1 #1 search {"query":"a","top_k":9}
            call-2 search asked for by call-1
            call-2 clamped top_k 9 to 3
            start call-2 search {"query":"a","top_k":3}
            > returns 2 {"results":[]}
            call-2 finished
            to call-1 #1: ok {"results":[]}
            > asks 1 #2 search {"query":"b"}
            call-3 search asked for by call-1
            call-3 clamped top_k 5 to 3
            start call-3 search {"query":"b","top_k":3}
            > returns 3 {"results":[]}
            call-3 finished
            to call-1 #2: ok {"results":[]}
            > asks 1 #3 look {}
            call-4 look asked for by call-1
            call-4 rejected BudgetExceeded
            to call-1 #3: BUDGET_EXCEEDED no more than 3 tool calls in one voice turn
            > asks 1 #4 post {}
            call-5 post asked for by call-1
            request call-5 post
            call-5 rejected BudgetExceeded
            to call-1 #4: BUDGET_EXCEEDED no more than 3 tool calls in one voice turn
            > returns 1 {"done":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok quoted {"done":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {}
            call-6 rejected BudgetExceeded
            to model: function-call-2 BUDGET_EXCEEDED no more than 3 tool calls in one voice turn
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 5 retrieval 2 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn what_the_user_approved_calls_tools_outside_of_budgets() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 pay {"text":"a"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay a"
            > calls function-call-2 look {"text":"1"} + function-call-3 look {"text":"2"}
            start call-2 look {"text":"1"}
            start call-3 look {"text":"2"}
            > returns 2 {"n":1}
            call-2 finished
            > returns 3 {"n":1}
            call-3 finished
            to model: function-call-2 ok {"n":1} + function-call-3 ok {"n":1}
            client: ToolsComplete { tool_count: 2 }
            > done
            turn 1 ended: calls 3 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 pay (effect-1) {"text":"a"}
            > asks 1 #1 post {}
            call-4 post asked for by call-1
            request call-4 post
            start call-4 post (effect-2) {}
            > returns 4 {"n":1}
            record effect-2 Succeeded
            call-4 finished
            to call-1 #1: ok {"n":1}
            > asks 1 #2 pay {"text":"a"}
            call-5 pay asked for by call-1
            call-5 rejected Permanent
            to call-1 #2: PERMANENT pay may not call pay, on whose behalf it runs: that would not end
            > asks 1 #3 limited_pay {}
            call-6 limited_pay asked for by call-1
            call-6 rejected Permanent
            to call-1 #3: PERMANENT pay may not call limited_pay, which runs only after the user has confirmed it: a model has to call it
            > returns 1 {"paid":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":1},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn calls_of_a_call_that_was_taken_back_end_but_for_begun_changes() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > asks 1 #1 post {}
            call-2 post asked for by call-1
            request call-2 post
            start call-2 post (effect-2) {}
            > asks 1 #2 look {}
            call-3 look asked for by call-1
            start call-3 look {}
            > cancel function-call-1
            abort call-3
            call-3 cancelled
            to call-1 #2: CANCELLED look was taken back
            > asks 1 #3 look {}
            to call-1 #3: CANCELLED look was not run: nobody waits any more for the call that asks
            > asks 1 #4 send {}
            to call-1 #4: CANCELLED send was not run: nobody waits any more for the call that asks
            > returns 2 {"posted":1}
            record effect-2 Succeeded
            call-2 finished
            to call-1 #1: ok {"posted":1}
            > returns 1 {"done":1}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_read_that_is_dropped_takes_its_calls_along() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 search {"query":"a"}
            client: ModelGenerating
            start call-1 search {"query":"a","top_k":5}
            > asks 1 #1 look {}
            call-2 look asked for by call-1
            start call-2 look {}
            > asks 2 #2 text_only {}
            call-3 text_only asked for by call-2
            start call-3 text_only {}
            > interrupt
            discard audio
            client: Interrupted
            abort call-3
            call-3 cancelled
            to call-2 #2: CANCELLED text_only was taken back
            abort call-2
            call-2 cancelled
            to call-1 #1: CANCELLED look was taken back
            abort call-1
            call-1 cancelled
            to model: function-call-1 CANCELLED search was taken back
            client: ToolsComplete { tool_count: 1 }
            turn 1 ended: calls 3 retrieval 1 refusals 0 repeats 0 interrupted
        "#]],
    );
}

#[test]
fn a_change_goes_on_with_its_calls_when_the_user_interrupts() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 write {}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {}
            > asks 1 #1 cancellable {}
            call-2 cancellable asked for by call-1
            start call-2 cancellable {}
            > interrupt
            discard audio
            client: Interrupted
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0 interrupted
            > returns 2 {"seen":1}
            call-2 finished
            to call-1 #1: ok {"seen":1}
            > asks 1 #2 post {}
            call-3 post asked for by call-1
            request call-3 post
            start call-3 post (effect-2) {}
            > returns 3 {"posted":1}
            record effect-2 Succeeded
            call-3 finished
            to call-1 #2: ok {"posted":1}
            > returns 1 {"done":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"done":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_parent_that_is_too_late_is_not_let_call_anything() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > asks 1 #1 post {}
            call-2 post asked for by call-1
            request call-2 post
            start call-2 post (effect-2) {}
            > asks 1 #2 look {}
            call-3 look asked for by call-1
            start call-3 look {}
            > wait 5000
            abort call-3
            call-3 cancelled
            call-3 took 5000 ms, over Tool 500
            to call-1 #2: CANCELLED look was taken back
            abort call-1 (let it end)
            record effect-1 Unknown
            abort call-2 (let it end)
            record effect-2 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 5000 ms, over Tool 500
            call-1 took 5000 ms, over Turn 1500
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            call-2 finished OutcomeUnknown
            call-2 took 5000 ms, over Tool 500
            to call-1 #1: OUTCOME_UNKNOWN post was started, and how it ended is not known
            > asks 1 #3 look {}
            to call-1 #3: CANCELLED look was not run: nobody waits any more for the call that asks
            > returns 2 {"posted":1}
            call-2 returned late
            call-2 settled effect-2: true
            record effect-2 Succeeded
            > returns 1 {"done":1}
            call-1 returned late
        "#]],
    );
}

#[test]
fn a_late_success_does_not_hide_a_change_in_doubt() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > asks 1 #1 post {}
            call-2 post asked for by call-1
            request call-2 post
            start call-2 post (effect-2) {}
            > returns 2 broken
            record effect-2 Unknown
            call-2 problem: panicked at secret
            call-2 finished OutcomeUnknown
            to call-1 #1: OUTCOME_UNKNOWN post was started, and how it ended is not known
            > wait 5000
            abort call-1 (let it end)
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 5000 ms, over Tool 500
            call-1 took 5000 ms, over Turn 1500
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {"done":1}
            call-1 returned late
        "#]],
    );
}

#[test]
fn what_others_wrote_stays_that_in_the_answer_of_a_parent() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > asks 1 #1 search {"query":"a"}
            call-2 search asked for by call-1
            call-2 clamped top_k 5 to 3
            start call-2 search {"query":"a","top_k":3}
            > returns 2 {"results":[{"id":"a","title":"A"}]}
            call-2 finished
            to call-1 #1: ok {"results":[{"id":"a","title":"A"}]}
            > returns 1 {"summary":"a"}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok quoted {"summary":"a"}
            client: ToolsComplete { tool_count: 1 }
            > says So.
            client: Assistant piece "So."
            > done
            client: Assistant said "So." citing a
            heard effect-1
            turn 1 ended: calls 2 retrieval 1 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text more
            turn 2 started
            to model: text "more"
            > calls function-call-2 post {"text":"b"}
            client: ModelGenerating
            request call-3 post
            call-3 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED post runs only after the user has confirmed it, because this conversation holds text that others wrote
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-1 {"text":"b"} because "text that others wrote is in the conversation"
        "#]],
    );
}

#[test]
fn what_a_capability_brings_in_marks_the_call_whether_it_works_or_fails() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {}
            client: ModelGenerating
            start call-1 look {}
            > external 1
            > returns 1 {"x":1}
            call-1 finished
            to model: function-call-1 ok quoted {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 post {"text":"a"}
            request call-2 post
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED post runs only after the user has confirmed it, because this conversation holds text that others wrote
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-1 {"text":"a"} because "text that others wrote is in the conversation"
        "#]],
    );
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 look {}
            client: ModelGenerating
            start call-1 look {}
            > external 1
            > returns 1 permanent
            call-1 finished Permanent
            to model: function-call-1 PERMANENT it failed
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 post {"text":"a"}
            request call-2 post
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED post runs only after the user has confirmed it, because this conversation holds text that others wrote
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-1 {"text":"a"} because "text that others wrote is in the conversation"
        "#]],
    );
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > asks 1 #1 search {"query":"a"}
            call-2 search asked for by call-1
            start call-2 search {"query":"a","top_k":5}
            > returns 2 permanent
            call-2 finished Permanent
            to call-1 #1: PERMANENT it failed
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok quoted {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 post {"text":"a"}
            request call-3 post
            call-3 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED post runs only after the user has confirmed it, because this conversation holds text that others wrote
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-1 {"text":"a"} because "text that others wrote is in the conversation"
        "#]],
    );
}

#[test]
fn a_child_waits_for_the_user_limit_like_any_call() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > asks 1 #1 limited {}
            call-2 limited asked for by call-1
            check rate call-2 limited
            start call-2 limited {}
            > returns 2 {"n":1}
            call-2 finished
            to call-1 #1: ok {"n":1}
            > rate 2000
            > asks 1 #2 limited {"text":"more"}
            call-3 limited asked for by call-1
            check rate call-3 limited
            call-3 rejected RateLimit
            to call-1 #2: RATE_LIMIT limited was called too often by this user
            > asks 1 #3 limited_write {}
            call-4 limited_write asked for by call-1
            check rate call-4 limited_write (free)
            request call-4 limited_write
            call-4 rejected RateLimit
            to call-1 #3: RATE_LIMIT limited_write was called too often by this user
            > returns 1 {"done":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"done":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_handler_calls_no_more_tools_than_it_may() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 pay {"text":"a"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay a"
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 pay (effect-1) {"text":"a"}
            > asks 1 #1 nothing {}
            call-2 nothing asked for by call-1
            call-2 rejected NotFound
            to call-1 #1: NOT_FOUND there is no tool "nothing"
            > asks 1 #2 nothing {}
            call-3 nothing asked for by call-1
            call-3 rejected NotFound
            to call-1 #2: NOT_FOUND there is no tool "nothing"
            > asks 1 #3 nothing {}
            call-4 nothing asked for by call-1
            call-4 rejected NotFound
            to call-1 #3: NOT_FOUND there is no tool "nothing"
            > asks 1 #4 nothing {}
            call-5 nothing asked for by call-1
            call-5 rejected NotFound
            to call-1 #4: NOT_FOUND there is no tool "nothing"
            > asks 1 #5 nothing {}
            call-6 nothing asked for by call-1
            call-6 rejected NotFound
            to call-1 #5: NOT_FOUND there is no tool "nothing"
            > asks 1 #6 nothing {}
            call-7 nothing asked for by call-1
            call-7 rejected NotFound
            to call-1 #6: NOT_FOUND there is no tool "nothing"
            > asks 1 #7 nothing {}
            call-8 nothing asked for by call-1
            call-8 rejected NotFound
            to call-1 #7: NOT_FOUND there is no tool "nothing"
            > asks 1 #8 nothing {}
            call-9 nothing asked for by call-1
            call-9 rejected NotFound
            to call-1 #8: NOT_FOUND there is no tool "nothing"
            > asks 1 #9 nothing {}
            call-10 nothing asked for by call-1
            call-10 rejected NotFound
            to call-1 #9: NOT_FOUND there is no tool "nothing"
            > asks 1 #10 nothing {}
            call-11 nothing asked for by call-1
            call-11 rejected NotFound
            to call-1 #10: NOT_FOUND there is no tool "nothing"
            > asks 1 #11 nothing {}
            call-12 nothing asked for by call-1
            call-12 rejected NotFound
            to call-1 #11: NOT_FOUND there is no tool "nothing"
            > asks 1 #12 nothing {}
            call-13 nothing asked for by call-1
            call-13 rejected NotFound
            to call-1 #12: NOT_FOUND there is no tool "nothing"
            > asks 1 #13 nothing {}
            call-14 nothing asked for by call-1
            call-14 rejected NotFound
            to call-1 #13: NOT_FOUND there is no tool "nothing"
            > asks 1 #14 nothing {}
            call-15 nothing asked for by call-1
            call-15 rejected NotFound
            to call-1 #14: NOT_FOUND there is no tool "nothing"
            > asks 1 #15 nothing {}
            call-16 nothing asked for by call-1
            call-16 rejected NotFound
            to call-1 #15: NOT_FOUND there is no tool "nothing"
            > asks 1 #16 nothing {}
            call-17 nothing asked for by call-1
            call-17 rejected NotFound
            to call-1 #16: NOT_FOUND there is no tool "nothing"
            > asks 1 #17 nothing {}
            to call-1 #17: BUDGET_EXCEEDED pay calls no more than 16 tools
            > returns 1 {"paid":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
        "#]],
    );
}

#[test]
fn a_process_that_was_killed_leaves_changes_that_the_next_attempt_finds() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 send {"text":"a"}
            client: ModelGenerating
            request call-1 send
            start call-1 send (effect-1) {"text":"a"}
            > asks 1 #1 post {"text":"b"}
            call-2 post asked for by call-1
            request call-2 post
            start call-2 post (effect-2) {"text":"b"}
            > returns 2 {"posted":1}
            record effect-2 Succeeded
            call-2 finished
            to call-1 #1: ok {"posted":1}
            > killed
            > connected 1
            > ready
            to model: text "go"
            > lookup finds nothing happened
            > calls function-call-2 send {"text":"a"}
            client: ModelGenerating
            request call-4 send
            look up effect-1 of send
            call-4 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED send was begun before, at 2026-11-18T11:06:40.000Z with {"text":"a"}, and nobody knows whether it happened. The user is being asked whether to do it again
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-4 token-1 {"text":"a"} warned "This was begun before, at 2026-11-18T11:06:40.000Z, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > done
            turn 1 ended: calls 3 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: late send OUTCOME_UNKNOWN send was started, and how it ended is not known
            > confirm token-1
            answer question-1 yes as call-4
            call-4 Approved
            start call-4 send (effect-1) {"text":"a"}
            > asks 4 #1 post {"text":"b"}
            call-5 post asked for by call-4
            request call-5 post
            call-5 is a repeat: SameEffectFinished
            to call-4 #1: ok again {"posted":1}
            > asks 4 #2 look {}
            call-6 look asked for by call-4
            start call-6 look {}
            > returns 6 {"seen":1}
            call-6 finished
            to call-4 #2: ok {"seen":1}
            > returns 4 {"sent":1}
            record effect-1 Succeeded
            call-4 finished
            client: confirmation result call-4 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of send, and it has run. Its result: {\"data\":{\"sent\":1},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn intents_of_a_call_that_a_handler_makes_are_carried_out() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {}
            > asks 1 #1 post {}
            call-2 post asked for by call-1
            request call-2 post
            start call-2 post (effect-2) {}
            > returns 2 {"intents":[{"type":"SET_PENDING_MESSAGE","message":"later"}]}
            record effect-2 Succeeded
            call-2 finished
            call-2 applied SET_PENDING_MESSAGE
            to call-1 #1: ok {"intents":[{"message":"later","type":"SET_PENDING_MESSAGE"}]}
            > returns 1 {"done":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"done":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_child_that_failed_and_may_be_tried_again_is() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 upsert {}
            client: ModelGenerating
            request call-1 upsert
            start call-1 upsert (effect-1) {}
            > asks 1 #1 look {}
            call-2 look asked for by call-1
            start call-2 look {}
            > returns 2 transient
            call-2 attempt 2 in 351 ms
            > wait 400
            start call-2 look {}
            > returns 2/2 {"seen":1}
            call-2 finished
            to call-1 #1: ok {"seen":1}
            > returns 1 {"done":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"done":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn the_session_ends_with_its_changes_and_nothing_more() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {}
            > asks 1 #1 post {}
            call-2 post asked for by call-1
            request call-2 post
            start call-2 post (effect-2) {}
            > asks 1 #2 look {}
            call-3 look asked for by call-1
            start call-3 look {}
            > stop
            turn 1 ended: calls 3 retrieval 0 refusals 0 repeats 0 interrupted
            abort call-3
            call-3 cancelled
            to call-1 #2: CANCELLED look was taken back
            client: session complete, 1 transcripts
            > asks 1 #3 book {"about":"x"}
            to call-1 #3: CANCELLED book was not run: nobody waits any more for the call that asks
            > returns 2 {"posted":1}
            record effect-2 Succeeded
            call-2 finished
            to call-1 #1: ok {"posted":1}
            > returns 1 {"done":1}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 1 }
            client: Stopped
            session ended: Stopped
            close Stopped
        "#]],
    );
}
