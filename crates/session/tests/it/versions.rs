//! Versions of a tool beside each other: a session has one, and what was asked for or done with another one stays what it was.

use crate::harness::check;
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn an_approval_runs_the_version_that_was_shown() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            > calls function-call-1 pay {"text":"10"}
            > says Please.
            > done
            > killed, other versions
            > connected 1
            > ready
            > confirm token-1
            > returns 1 {"paid":10}
            > stored
        "#]],
    );
}

#[test]
fn an_approval_of_a_version_that_is_gone_runs_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > killed, other versions
            > connected 1
            > ready
            > text pay
            > calls function-call-1 pay {"text":"10"}
            > says Please.
            > done
            > killed, first versions
            > connected 1
            > ready
            > confirm token-1
            > confirm token-1
        "#]],
    );
}

#[test]
fn what_one_version_has_done_another_one_does_not_do_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            > calls function-call-1 write {"text":"a"}
            > returns 1 {"written":1}
            > killed, other versions
            > connected 1
            > ready
            > calls function-call-2 write {"text":"a"}
            > calls function-call-3 write {"text":"b"}
            > returns 3 {"written":1}
        "#]],
    );
}

#[test]
fn a_change_of_another_version_in_doubt_is_asked_about() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            > calls function-call-1 write {"text":"a"}
            > killed, other versions
            > connected 1
            > ready
            > calls function-call-2 write {"text":"a"}
            > confirm token-1
            > returns 3 {"written":1}
        "#]],
    );
}
