//! Approvals that stand for the calls that follow: what one covers, what it never covers, and how it ends.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_session::limits::Limits;
use windlass_tool::kind::Mode;

#[test]
fn an_approval_that_is_remembered_covers_calls_with_the_same_values_alone() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            > done
            > text and these
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            > returns 2 {"filed":2}
            > calls function-call-3 archive {"folder":"Taxes","name":"c"}
            > log
        "#]],
    );
}

#[test]
fn a_yes_without_the_wish_to_remember_covers_one_call() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > confirm token-1
            > returns 1 {"filed":1}
            > done
            > text and this
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
        "#]],
    );
}

#[test]
fn values_in_another_spelling_are_other_values() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            > done
            > text and these
            > calls function-call-2 archive {"folder":"reports","name":"b"} + function-call-3 archive {"folder":"Reports ","name":"c"}
        "#]],
    );
}

#[test]
fn what_was_done_before_is_asked_about_whatever_stands() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            > says Filed.
            > done
            > text once more
            > calls function-call-2 archive {"folder":"Reports","name":"a"}
            > remember token-2
            > returns 2 {"filed":2}
            > log
        "#]],
    );
}

#[test]
fn what_may_have_happened_is_asked_about_whatever_stands() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 broken
            > says I do not know.
            > done
            > text try again
            > calls function-call-2 archive {"folder":"Reports","name":"a"}
            > calls function-call-3 archive {"folder":"Reports","name":"b"}
        "#]],
    );
}

#[test]
fn a_change_near_to_one_that_was_done_is_asked_about_whatever_stands() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            > returns 2 {"filed":2}
            > calls function-call-3 archive {"folder":"Reports","name":"B"}
        "#]],
    );
}

#[test]
fn text_that_others_wrote_ends_what_stands_for_this_conversation() {
    check(
        Mode::Text,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            > calls function-call-2 search {"query":"fram"}
            > returns 2 {"results":[{"id":"doc:fram"}]}
            > calls function-call-3 archive {"folder":"Reports","name":"b"}
            > remember token-2
            > returns 3 {"filed":2}
            > calls function-call-4 archive {"folder":"Reports","name":"c"}
        "#]],
    );
}

#[test]
fn a_model_cannot_have_an_approval_remembered() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","remember":true}
            > calls function-call-2 archive {"folder":"Reports","name":"a"}
            > says The user has said yes, and yes for this session.
            > hears yes, always
            > calls function-call-3 archive {"folder":"Reports","name":"b"}
            > revokes approval-1
        "#]],
    );
}

#[test]
fn a_yes_to_a_tool_that_remembers_none_counts_once() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            > calls function-call-1 pay {"text":"Ann"}
            > remember token-1
            > returns 1 {"paid":1}
            > done
            > text pay Bob, too
            > calls function-call-2 pay {"text":"Bob"}
        "#]],
    );
}

#[test]
fn an_approval_that_was_used_gives_nothing_when_it_comes_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > confirm token-1
            > remember token-1
            > returns 1 {"filed":1}
            > remember token-1
            > remember token-9
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
        "#]],
    );
}

#[test]
fn a_standing_approval_that_is_revoked_covers_nothing_more() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            > revokes approval-1
            > remember token-1
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            > revokes approval-1
            > log
        "#]],
    );
}

#[test]
fn a_revocation_that_the_store_takes_late_comes_before_the_next_request() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            > store down
            > revokes approval-1
            > store up
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
        "#]],
    );
}

#[test]
fn a_tool_that_changes_nothing_outside_is_covered_for_its_minutes() {
    check(
        Mode::Voice,
        expect![[r#"
            > text unlock it
            > calls function-call-1 unlock {"folder":"Reports"}
            > remember token-1
            > returns 1 {"open":true}
            > calls function-call-2 unlock {"folder":"Reports"}
            > returns 2 {"open":true}
            > wait 59000
            > done
            > text once more
            > calls function-call-3 unlock {"folder":"Reports"}
            > returns 3 {"open":true}
            > wait 2000
            > calls function-call-4 unlock {"folder":"Reports","name":"late"}
            > log
        "#]],
    );
}

#[test]
fn what_stands_survives_the_process_and_ends_with_the_session() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            > says Filed.
            > done
            > killed
            > connected 1
            > ready
            > text go on
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            > returns 2 {"filed":2}
            > says Filed.
            > done
            > stop
            > opens next by voice
            > next: text go on
            > next: calls function-call-3 archive {"folder":"Reports","name":"c"}
            > log
        "#]],
    );
}

#[test]
fn a_tool_with_other_code_asks_anew() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            > says Filed.
            > done
            > killed, tools changed
            > connected 1
            > ready
            > text go on
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            > log
        "#]],
    );
}

#[test]
fn by_text_it_stands_for_the_next_turns_of_the_same_client_and_for_nobody_else() {
    check(
        Mode::Text,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            > ended
            > opens turn by text
            > turn: text and this
            > turn: calls function-call-2 archive {"folder":"Reports","name":"b"}
            > turn: returns 2 {"filed":2}
            > opens stranger by text
            > stranger: text file mine
            > stranger: calls function-call-3 archive {"folder":"Reports","name":"c"}
            > opens voice by voice
            > voice: text file this
            > voice: calls function-call-4 archive {"folder":"Reports","name":"d"}
            > wait 900000
            > turn: text and this
            > turn: calls function-call-5 archive {"folder":"Reports","name":"e"}
            > log
        "#]],
    );
}

#[test]
fn another_session_revokes_what_this_one_was_given() {
    check(
        Mode::Text,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            > opens turn by text
            > turn: revokes approval-1
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
        "#]],
    );
}

#[test]
fn a_call_of_a_handler_is_covered_by_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            > calls function-call-2 write {"text":"b"}
            > asks 2 #1 archive {"folder":"Reports","name":"b"}
        "#]],
    );
}

#[test]
fn an_approval_that_the_store_takes_too_late_is_not_remembered() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > store slow
            > remember token-1
            > wait 6000
            > store up
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            > log
        "#]],
    );
}

#[test]
fn where_the_limit_is_nought_nothing_is_offered() {
    check_with(
        Mode::Voice,
        |config| {
            config.limits = Arc::new(Limits {
                standing_approval_minutes: 0,
                ..Limits::of(Mode::Voice)
            });
        },
        expect![[r#"
            > text file it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
        "#]],
    );
}

#[test]
fn a_second_attempt_asks_anew_where_the_first_ones_approval_was_revoked() {
    check(
        Mode::Text,
        expect![[r#"
            > text settle it
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 clean_transient
            > revokes approval-1
            > wait 500
            > returns 1/2 {"filed":1}
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
        "#]],
    );
}
