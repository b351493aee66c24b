//! Sessions that go on where an earlier one of their conversation ended: its open questions are theirs.

use crate::harness::{Bench, check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_session::limits::Limits;
use windlass_tool::kind::Mode;

#[test]
fn a_question_of_an_earlier_session_runs_once_when_it_is_approved() {
    check(
        Mode::Text,
        expect![[r#"
            > continued 3 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > confirm token-7
            call-3 Approved
            reserve call-3 pay as effect-9 with token-7
            start call-3 pay (effect-9) {"text":"10"}
            > returns 3 {"paid":10}
            record effect-9 Succeeded
            call-3 finished
            client: confirmation result call-3 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
            > confirm token-7
            client: confirmation result call-3 ok
            > text And now?
            turn 1 started
            to model: text "And now?"
            > calls function-call-1 pay {"text":"11"}
            answered effect-9
            client: ModelGenerating
            propose call-5 pay
            call-5 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-5 "Pay 11"
        "#]],
    );
}

#[test]
fn a_no_of_an_earlier_session_is_a_no_whatever_is_clicked_now() {
    check(
        Mode::Text,
        expect![[r#"
            > declined 7 60 effect-9 pay
            > confirm token-7
            client: confirmation result call-3 CONFIRMATION_DECLINED the user was asked and said no
            > decline token-7
            client: confirmation result call-3 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn what_others_wrote_in_an_earlier_session_asks_for_consent_in_this_one() {
    check(
        Mode::Text,
        expect![[r#"
            > ledger read
            > text write
            turn 1 started
            to model: text "write"
            > calls function-call-1 write {"text":"10"}
            client: ModelGenerating
            propose call-1 write
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED write runs only after the user has confirmed it, because this conversation holds text that others wrote
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Run write"
        "#]],
    );
}

#[test]
fn a_model_that_asks_again_by_voice_gets_no_second_question() {
    check(
        Mode::Voice,
        expect![[r#"
            > continued 3 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            call-5 is a repeat: SameEffectAsked
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            > decline token-7
            declined token-7
            call-3 Declined
            call-3 rejected ConfirmationDeclined
            client: confirmation result call-3 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn a_model_that_asks_again_by_text_has_the_question_put_in_place_of_the_earlier_one() {
    check(
        Mode::Text,
        expect![[r#"
            > continued 3 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-5 pay in place of token-7
            call-3 Withdrawn
            call-5 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-5 "Pay 10"
            > decline token-7
            find token-7
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > decline token-1
            declined token-1
            call-5 Declined
            call-5 rejected ConfirmationDeclined
            client: confirmation result call-5 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn a_question_ends_at_its_own_time() {
    check(
        Mode::Text,
        expect![[r#"
            > continued 3 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > wait 60000
            call-3 Expired
            call-3 rejected ConfirmationExpired
            client: confirmation result call-3 CONFIRMATION_EXPIRED the user did not answer in time
            > confirm token-7
            call-3 Refused
            client: confirmation result call-3 CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
        "#]],
    );
}

#[test]
fn what_cannot_be_approved_any_more_is_not_taken_up() {
    check(
        Mode::Text,
        expect![[r#"
            > continued 3 7 0 effect-9 pay 1.0.0 {"text":"10"}
            > confirm token-7
            find token-7
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > continued 3 7 60 effect-9 pay 0.9.0 {"text":"10"}
            withdraw token-7
            call-3 Withdrawn
            > confirm token-7
            client: confirmation result call-3 CONFIRMATION_EXPIRED pay has changed since you were asked, so that this approval does not count; ask for it again
            > continued 3 7 60 effect-9 gone 1.0.0 {"text":"10"}
            > confirm token-7
            client: confirmation result call-3 CONFIRMATION_EXPIRED pay has changed since you were asked, so that this approval does not count; ask for it again
        "#]],
    );
}

#[test]
fn a_question_about_what_may_have_happened_says_so_again() {
    check(
        Mode::Text,
        expect![[r#"
            > ledger unknown effect-9 pay {"text":"10"}
            > continued 3 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > back
            propose call-3 pay in place of token-7
            client: confirm call-3 "Pay 10" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
        "#]],
    );
}

#[test]
fn a_token_that_was_used_before_the_restart_gets_the_recorded_answer() {
    check(
        Mode::Text,
        expect![[r#"
            > approved 3 7 60 effect-9 pay kept
            > confirm token-7
            client: confirmation result call-3 ok
            > approved 4 8 60 effect-8 pay
            > confirm token-8
            await effect-8 for call-4
            > awaited 4 nothing
            client: confirmation result call-4 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            > approved 5 9 0 effect-7 pay kept
            > confirm token-9
            find token-9
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > wait 60000
            > confirm token-7
            call-3 Refused
            client: confirmation result call-3 CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
        "#]],
    );
}

#[test]
fn an_approval_that_is_used_elsewhere_gets_the_same_answer_there_and_here() {
    check(
        Mode::Text,
        expect![[r#"
            > approved 3 7 60 effect-9 pay
            > confirm token-7
            await effect-9 for call-3
            > confirm token-7
            > awaited 3 succeeded effect-9 pay {"text":"10"}
            client: confirmation result call-3 ok
            client: confirmation result call-3 ok
            > confirm token-7
            client: confirmation result call-3 ok
        "#]],
    );
}

#[test]
fn what_takes_too_long_elsewhere_is_said_to_run_and_can_be_asked_for_again() {
    check(
        Mode::Text,
        expect![[r#"
            > approved 3 7 60 effect-9 pay
            > confirm token-7
            await effect-9 for call-3
            > wait 5000
            client: confirmation result call-3 OUTCOME_UNKNOWN pay was approved before and is still under way; ask again in a moment
            > awaited 3 unknown effect-9 pay {"text":"10"}
            > confirm token-7
            await effect-9 for call-3
            > awaited 3 unknown effect-9 pay {"text":"10"}
            client: confirmation result call-3 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            > confirm token-7
            await effect-9 for call-3
            > awaited 3 nothing
            client: confirmation result call-3 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            > confirm token-7
            await effect-9 for call-3
            > awaited 3 failed effect-9 pay {"text":"10"}
            client: confirmation result call-3 CANCELLED pay was not done
        "#]],
    );
}

#[test]
fn whoever_waits_for_a_change_made_elsewhere_hears_of_it_before_the_session_ends() {
    check(
        Mode::Text,
        expect![[r#"
            > approved 3 7 60 effect-9 pay
            > confirm token-7
            await effect-9 for call-3
            > confirm token-7
            > stop
            client: confirmation result call-3 OUTCOME_UNKNOWN pay was approved before and is still under way; ask again in a moment
            client: confirmation result call-3 OUTCOME_UNKNOWN pay was approved before and is still under way; ask again in a moment
            client: session complete, 0 transcripts
            client: Stopped
            session ended: Stopped
            close Stopped
        "#]],
    );
}

#[test]
fn a_token_that_another_session_has_used_gets_the_recorded_answer_in_one_begun_anew() {
    check(
        Mode::Voice,
        expect![[r#"
            > store has 7 60 effect-9 pay kept
            > confirm token-7
            find token-7
            client: confirmation result call-1 ok
            > confirm token-7
            client: confirmation result call-1 ok
            > confirm token-8
            find token-8
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > store has 9 60 effect-8 pay
            > decline token-9
            find token-9
            await effect-8 for call-2
            > awaited 2 succeeded effect-8 pay {"text":"10"}
            client: confirmation result call-2 ok
            > confirm token-9
            client: confirmation result call-2 ok
            > store has 5 0 effect-5 pay kept
            > confirm token-5
            find token-5
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > calls function-call-1 pay {"text":"10"}
            turn 1 started
            client: ModelGenerating
            propose call-3 pay
            call-3 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 "Pay 10"
        "#]],
    );
}

#[test]
fn nobody_waits_for_a_store_that_cannot_say_whether_a_token_was_used() {
    check(
        Mode::Voice,
        expect![[r#"
            > store down
            > confirm token-7
            find token-7
            nothing Refused
            client: confirmation result  TRANSIENT whether this approval counts cannot be told, because the store does not answer; send it again
            > store up
            > finding hangs
            > confirm token-7
            find token-7
            > confirm token-7
            > wait 5000
            nothing Refused
            client: confirmation result  TRANSIENT whether this approval counts cannot be told, because the store does not answer; send it again
            nothing Refused
            client: confirmation result  TRANSIENT whether this approval counts cannot be told, because the store does not answer; send it again
            > confirm token-7
            find token-7
            > stop
            nothing Refused
            client: confirmation result  TRANSIENT whether this approval counts cannot be told, because the store does not answer; send it again
            client: session complete, 0 transcripts
            client: Stopped
            session ended: Stopped
            close Stopped
        "#]],
    );
}

#[test]
fn no_more_tokens_are_looked_for_at_once_than_a_limit() {
    let (mut bench, _) = Bench::with(Mode::Voice, |_| {});
    bench.line("finding hangs");
    let sought: Vec<String> = (1..=17)
        .map(|token| bench.line(&format!("confirm token-{token}")))
        .collect();
    assert!(
        sought[..16]
            .iter()
            .all(|lines| lines.starts_with("find token-"))
    );
    assert!(
        sought[16].contains("CONFIRMATION_EXPIRED"),
        "{}",
        sought[16]
    );
}

#[test]
fn a_question_for_which_there_is_no_room_any_more_is_closed_with_that_reason() {
    check_with(
        Mode::Text,
        |config| {
            config.limits = Arc::new(Limits {
                open_confirmations_max: 1,
                ..Limits::of(Mode::Text)
            });
        },
        expect![[r#"
            > continued 3 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > continued 5 8 60 effect-8 pay 1.0.0 {"text":"11"}
            withdraw token-8
            call-5 Withdrawn
            > confirm token-8
            client: confirmation result call-5 CONFIRMATION_REQUIRED pay cannot be asked for now: too many questions wait for the user already
            > confirm token-7
            call-3 Approved
            reserve call-3 pay as effect-9 with token-7
            start call-3 pay (effect-9) {"text":"10"}
        "#]],
    );
}

#[test]
fn a_question_that_a_session_which_is_gone_has_asked_is_answered_in_one_begun_anew() {
    check(
        Mode::Voice,
        expect![[r#"
            > store has open 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > confirm token-7
            find token-7
            call-1 Approved
            reserve call-1 pay as effect-9 with token-7
            start call-1 pay (effect-9) {"text":"10"}
            > confirm token-7
            > returns 1 {"paid":10}
            record effect-9 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":10},\"status\":\"success\"}"
            > confirm token-7
            client: confirmation result call-1 ok
            > store has open 8 60 effect-8 pay 1.0.0 {"text":"20"}
            > decline token-8
            find token-8
            declined token-8
            call-2 Declined
            call-2 rejected ConfirmationDeclined
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run and said no. It has not run. Do not call it again unless the user asks for it."
            > confirm token-8
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
            > store has open 9 60 effect-7 pay 2.0.0 {"text":"30"}
            > confirm token-9
            find token-9
            withdraw token-9
            call-3 Withdrawn
            client: confirmation result call-3 CONFIRMATION_EXPIRED pay has changed since you were asked, so that this approval does not count; ask for it again
            > store has open 10 0 effect-6 pay 1.0.0 {"text":"40"}
            > confirm token-10
            find token-10
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > store has declined 11 60 effect-5 pay
            > confirm token-11
            find token-11
            client: confirmation result call-5 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn a_question_of_a_session_that_is_gone_takes_the_place_of_the_same_one_here() {
    check(
        Mode::Text,
        expect![[r#"
            > calls function-call-1 pay {"text":"10"}
            turn 1 started
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > store has open 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > confirm token-7
            find token-7
            withdraw token-1
            call-1 Withdrawn
            call-1 rejected Cancelled
            client: confirmation result call-1 CANCELLED the call was taken back
            call-2 Approved
            reserve call-2 pay as effect-9 with token-7
            start call-2 pay (effect-9) {"text":"10"}
            > confirm token-1
            client: confirmation result call-1 CANCELLED the call was taken back
            > store has open 8 60 effect-8 pay 1.0.0 {"text":"10"}
            > confirm token-8
            find token-8
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > returns 2 {"paid":10}
            record effect-9 Succeeded
            call-2 finished
            client: confirmation result call-2 ok
        "#]],
    );
}
