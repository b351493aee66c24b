//! Approvals that meet another way to the same change: lookups, runs, and questions that another session had asked.

use crate::harness::{check, check_from_the_beginning, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_session::limits::Limits;
use windlass_tool::kind::Mode;

#[test]
fn a_lookup_that_ends_after_the_user_approved_joins_what_runs() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger unknown effect-9 limited_pay {"text":"10"}
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 limited_pay {"text":"10"}
            client: ModelGenerating
            look up effect-9 of limited_pay
            check rate call-1 limited_pay (free)
            propose call-1 limited_pay
            call-1 rejected OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN limited_pay was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Run limited_pay" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > rate 1000
            > confirm token-1
            call-1 Approved
            check rate call-1 limited_pay
            call-1 finished RateLimit
            client: confirmation result call-1 RATE_LIMIT limited_pay was called too often by this user
            > rate -
            > lookup finds no answer
            > calls function-call-2 limited_pay {"text":"10"}
            look up effect-9 of limited_pay
            > confirm token-1
            call-1 Approved
            check rate call-1 limited_pay
            reserve call-1 limited_pay as effect-9 with token-1
            start call-1 limited_pay (effect-9) {"text":"10"}
            > found 2 nothing happened
            > returns 1 {"x":1}
            record effect-9 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            call-2 is a repeat: SameEffectRunning
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_yes_to_what_has_proved_to_be_done_begins_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger unknown effect-9 limited_pay {"text":"10"}
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 limited_pay {"text":"10"}
            client: ModelGenerating
            look up effect-9 of limited_pay
            check rate call-1 limited_pay (free)
            propose call-1 limited_pay
            call-1 rejected OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN limited_pay was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Run limited_pay" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > rate 1000
            > confirm token-1
            call-1 Approved
            check rate call-1 limited_pay
            call-1 finished RateLimit
            client: confirmation result call-1 RATE_LIMIT limited_pay was called too often by this user
            > rate -
            > lookup finds it happened {"x":1}
            > calls function-call-2 limited_pay {"text":"10"}
            look up effect-9 of limited_pay
            record effect-9 Succeeded
            call-2 settled effect-9: true
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > confirm token-1
            call-1 Approved
            call-1 finished
            withdraw token-1
            client: confirmation result call-1 ok
            > confirm token-1
            client: confirmation result call-1 ok
        "#]],
    );
}

#[test]
fn a_yes_to_what_runs_by_another_right_waits_for_that() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger unknown effect-9 limited_write {"text":"a"}
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 limited_write {"text":"a"}
            client: ModelGenerating
            look up effect-9 of limited_write
            check rate call-1 limited_write (free)
            propose call-1 limited_write
            call-1 rejected OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN limited_write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Run limited_write" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > rate 1000
            > confirm token-1
            call-1 Approved
            check rate call-1 limited_write
            call-1 finished RateLimit
            client: confirmation result call-1 RATE_LIMIT limited_write was called too often by this user
            > rate -
            > lookup finds nothing happened
            > calls function-call-2 limited_write {"text":"a"}
            look up effect-9 of limited_write
            record effect-9 Failed
            call-2 settled effect-9: false
            check rate call-2 limited_write
            reserve call-2 limited_write as effect-9
            start call-2 limited_write (effect-9) {"text":"a"}
            > confirm token-1
            withdraw token-1
            call-1 Withdrawn
            await effect-9 for call-1
            > returns 2 {"x":1}
            record effect-9 Succeeded
            call-2 finished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > awaited 1 succeeded effect-9 limited_write {"text":"a"}
            client: confirmation result call-1 ok
        "#]],
    );
}

#[test]
fn a_no_to_a_question_whose_time_is_up_is_stored() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > wait 301000
            provider silent after a result
            client: error provider_silent: the model has said nothing for 30 seconds
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            call-1 Expired
            call-1 rejected ConfirmationExpired
            client: confirmation result call-1 CONFIRMATION_EXPIRED the user did not answer in time
            > decline token-1
            declined token-1
            call-1 Refused
            client: confirmation result call-1 CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > confirm token-1
            call-1 Refused
            client: confirmation result call-1 CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
        "#]],
    );
}

#[test]
fn a_no_to_another_sessions_question_whose_time_is_up_is_stored() {
    check(
        Mode::Voice,
        expect![[r#"
            > wait 10000
            > store has open 7 5 effect-9 pay 1.0.0 {"text":"10"}
            > decline token-7
            find token-7
            declined token-7
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > confirm token-7
            find token-7
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
        "#]],
    );
}

#[test]
fn a_found_question_waits_until_it_is_known_what_was_begun_before() {
    check_from_the_beginning(
        Mode::Voice,
        expect![[r#"
            > connected 1
            > ready
            > store has open 7 200 effect-9 pay 1.0.0 {"text":"10"}
            > confirm token-7
            find token-7
            nothing Refused
            client: confirmation result  TRANSIENT whether this approval counts cannot be told, because the store does not answer; send it again
            > ledger unknown effect-9 pay {"text":"10"}
            > confirm token-7
            find token-7
            call-1 Approved
            reserve call-1 pay as effect-9 with token-7
            start call-1 pay (effect-9) {"text":"10"}
        "#]],
    );
}

#[test]
fn what_runs_approved_leaves_no_place_for_another_sessions_question() {
    check_with(
        Mode::Voice,
        |config| {
            config.limits = Arc::new(Limits {
                open_confirmations_max: 1,
                ..(*config.limits).clone()
            });
        },
        expect![[r#"
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            start call-1 pay (effect-1) {"text":"10"}
            > store has open 7 200 effect-9 post 1.0.0 {"text":"b"}
            > confirm token-7
            find token-7
            withdraw token-7
            call-2 Withdrawn
            client: confirmation result call-2 CONFIRMATION_REQUIRED post cannot be asked for now: too many questions wait for the user already
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > confirm token-7
            client: confirmation result call-2 CONFIRMATION_REQUIRED post cannot be asked for now: too many questions wait for the user already
        "#]],
    );
}
