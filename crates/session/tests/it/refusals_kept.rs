//! A no to a question that an earlier session asked stays one, whatever the store and the same wish are doing.

use crate::harness::check;
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn a_no_counts_though_the_same_wish_is_running_by_another_right() {
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
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            start call-1 pay (effect-1) {"text":"10"}
            > store has open 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > decline token-7
            find token-7
            declined token-7
            call-2 Declined
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
            > confirm token-7
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > confirm token-7
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}

#[test]
fn a_no_that_the_store_could_not_be_asked_about_is_not_turned_into_a_yes() {
    check(
        Mode::Text,
        expect![[r#"
            > store has open 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > store down
            > decline token-7
            find token-7
            declined token-7
            nothing Refused
            client: confirmation result  TRANSIENT whether this approval counts cannot be told, because the store does not answer; send it again
            > store up
            > confirm token-7
            find token-7
            declined token-7
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run and said no. It has not run. Do not call it again unless the user asks for it."
            > confirm token-7
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
        "#]],
    );
}
