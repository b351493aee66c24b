//! Versions of a tool beside each other: a session has one, and what was asked for or done with another one stays what it was.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn an_approval_runs_the_version_that_was_shown() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 10"
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > killed, other versions
            client: confirm call-1 token-1 "Pay 10"
            > connected 1
            > ready
            to model: history "pay / Please confirm."
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 pay (effect-1) {"text":"10"}
            > returns 1 {"paid":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":1},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn an_approval_of_a_version_that_is_gone_runs_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 10"
            > says Please.
            client: Assistant piece "Please."
            > done
            client: Assistant said "Please."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > killed, first versions gone
            client: confirm call-1 token-1 "Pay 10"
            > connected 1
            > ready
            to model: history "pay / Please."
            > confirm token-1
            answer question-1 yes as call-2
            call-1 Refused
            client: confirmation result call-1 CONFIRMATION_EXPIRED pay has changed since you were asked, so that this approval does not count; ask for it again
            > confirm token-1
            answer question-1 yes as call-3
            call-1 Refused
            client: confirmation result call-1 CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
        "#]],
    );
}

#[test]
fn what_one_version_has_done_another_one_does_not_do_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"written":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"written":1}
            client: ToolsComplete { tool_count: 1 }
            > killed, other versions
            > connected 1
            > ready
            to model: text "write it"
            > calls other-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-3 write
            call-3 is a repeat: SameEffectFinished
            to model: other-call-1 ok {"written":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_change_of_another_version_in_doubt_is_asked_about_and_then_made_by_the_one_at_hand() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > killed, other versions
            > connected 1
            > ready
            to model: text "write it"
            > calls other-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            call-2 rejected ConfirmationRequired
            to model: other-call-1 CONFIRMATION_REQUIRED write was begun before, at 2026-11-18T11:06:40.000Z with {"text":"a"}, and nobody knows whether it happened. The user is being asked whether to do it again
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-1 {"text":"a"} warned "This was begun before, at 2026-11-18T11:06:40.000Z, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > confirm token-1
            answer question-1 yes as call-2
            call-2 Approved
            start call-2 write@2.0.0 (effect-1) {"text":"a"}
        "#]],
    );
}
