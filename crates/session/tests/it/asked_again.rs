//! Wishes that come again while, or after, the user was asked about them.

use crate::harness::check;
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn d3_a_call_that_waits_for_the_user_is_asked_once() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > calls function-call-2 pay {"text":"10"}
            call-2 is a repeat: SameEffectAsked
            to model: function-call-2 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            start call-1 pay (effect-1) {"text":"10"}
            > calls function-call-3 pay {"text":"10"}
            > returns 1 {"paid":10}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            call-3 is a repeat: SameEffectRunning
            to model: function-call-3 ok {"paid":10}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d4_an_answer_that_the_model_asks_for_again_is_not_told_twice() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > says Please
            client: Assistant piece "Please"
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            start call-1 pay (effect-1) {"text":"10"}
            > returns 1 {"paid":10}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > calls function-call-2 pay {"text":"10"}
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"paid":10}
            client: ToolsComplete { tool_count: 1 }
            > done
            client: Assistant said "Please"
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 1
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn d5_a_second_wish_is_asked_for_with_a_word_about_the_first() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            start call-1 pay (effect-1) {"text":"10"}
            > returns 1 {"paid":10}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
            > says Paid.
            client: Assistant piece "Paid."
            > done
            client: ModelGenerating
            client: Assistant said "Paid."
            client: TurnComplete { turn: 1 }
            > text again
            turn 2 started
            to model: text "again"
            > calls function-call-2 pay {"text":"10"}
            answered effect-1
            client: ModelGenerating
            propose call-2 pay
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Pay 10" warned "The same was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
            > done
            turn 2 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 2 }
            > confirm token-2
            call-2 Approved
            reserve call-2 pay as effect-2 with token-2
            start call-2 pay (effect-2) {"text":"10"}
            > returns 2 {"paid":10}
            record effect-2 Succeeded
            call-2 finished
            client: confirmation result call-2 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn what_may_have_happened_runs_again_only_with_a_grant_that_says_so() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write
            turn 1 started
            to model: text "write"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 5000
            abort call-1 (let it end)
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 5000 ms, over Tool 500
            call-1 took 5000 ms, over Turn 1500
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > calls function-call-2 write {"text":"a"}
            answered effect-1
            client: ModelGenerating
            look up effect-1 of write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > done
            client: TurnComplete { turn: 1 }
            > text again
            turn 2 started
            to model: text "again"
            > calls function-call-3 write {"text":"a"}
            answered effect-1
            client: ModelGenerating
            look up effect-1 of write
            propose call-3 write
            call-3 rejected OutcomeUnknown
            to model: function-call-3 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 "Run write" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > done
            turn 2 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 2 }
            > confirm token-1
            call-3 Approved
            reserve call-3 write as effect-1 with token-1
            start call-3 write (effect-1) {"text":"a"}
            > returns 3 {"x":1}
            record effect-1 Succeeded
            call-3 finished
            client: confirmation result call-3 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of write, and it has run. Its result: {\"data\":{\"x\":1},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn whoever_asks_while_the_approved_run_goes_on_joins_it_whatever_came_of_the_first() {
    check(
        Mode::Text,
        expect![[r#"
            > text write
            turn 1 started
            to model: text "write"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 5000
            abort call-1 (let it end)
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 5000 ms, over Tool 500
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > says I do not know.
            answered effect-1
            client: Assistant piece "I do not know."
            > generated
            > done
            client: Assistant said "I do not know."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text try again
            turn 2 started
            to model: text "try again"
            > lookup finds no idea
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            look up effect-1 of write
            propose call-2 write
            call-2 rejected OutcomeUnknown
            to model: function-call-2 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Run write" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > confirm token-1
            call-2 Approved
            reserve call-2 write as effect-1 with token-1
            start call-2 write (effect-1) {"text":"a"}
            > returns 1 {"id":1}
            call-1 returned late
            record effect-1 Succeeded
            call-1 settled effect-1: true
            > says One moment.
            client: Assistant piece "One moment."
            > generated
            > done
            client: Assistant said "One moment."
            turn 2 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 2 }
            > text and once more
            turn 3 started
            to model: text "and once more"
            > calls function-call-3 write {"text":"a"}
            client: ModelGenerating
            > returns 2 {"id":2}
            record effect-1 Succeeded
            call-2 finished
            client: confirmation result call-2 ok
            call-3 is a repeat: SameEffectRunning
            to model: function-call-3 ok {"id":2}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_proves_done_while_the_store_takes_the_approval_is_not_done_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write
            turn 1 started
            to model: text "write"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 5000
            abort call-1 (let it end)
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 5000 ms, over Tool 500
            call-1 took 5000 ms, over Turn 1500
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > says I do not know.
            answered effect-1
            client: Assistant piece "I do not know."
            > generated
            > done
            client: Assistant said "I do not know."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text try again
            turn 2 started
            to model: text "try again"
            > lookup finds no idea
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            look up effect-1 of write
            propose call-2 write
            call-2 rejected OutcomeUnknown
            to model: function-call-2 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Run write" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > store slow
            > confirm token-1
            call-2 Approved
            reserve call-2 write as effect-1 with token-1
            > returns 1 {"id":1}
            call-1 returned late
            record effect-1 Succeeded
            call-1 settled effect-1: true
            > store up
            > reserved 2 effect-1
            record effect-1 Succeeded
            call-2 finished
            client: confirmation result call-2 ok
            > wait 1000
        "#]],
    );
}

#[test]
fn a_question_that_waits_is_put_again_in_a_later_turn_by_text() {
    check(
        Mode::Text,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > calls function-call-2 pay {"text":"10"}
            call-2 is a repeat: SameEffectAsked
            to model: function-call-2 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 1
            client: TurnComplete { turn: 1 }
            > text and now
            turn 2 started
            to model: text "and now"
            > calls function-call-3 pay {"text":"10"}
            client: ModelGenerating
            propose call-3 pay in place of token-1
            call-1 Withdrawn
            call-3 rejected ConfirmationRequired
            to model: function-call-3 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 "Pay 10"
            > calls function-call-4 pay {"text":"10"}
            call-4 is a repeat: SameEffectAsked
            to model: function-call-4 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            > confirm token-1
            find token-1
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > confirm token-2
            call-3 Approved
            reserve call-3 pay as effect-1 with token-2
            start call-3 pay (effect-1) {"text":"10"}
            > returns 3 {"paid":10}
            record effect-1 Succeeded
            call-3 finished
            client: confirmation result call-3 ok
        "#]],
    );
}
