//! Background work: a call is answered by the id of its task as soon as it has begun, the task goes on whoever is there, and its end is told
//! to whoever is there by then.

use crate::harness::check;
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn by_voice_a_task_is_accepted_at_once_and_its_end_is_told_when_nobody_speaks() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears export it
            > calls function-call-1 export {"text":"a"}
            > progress 1 reading
            > progress 1 sorting
            > wait 1000
            > progress 1 writing
            > task 1
            > says It is on its way.
            > done
            > returns 1 {"rows":7}
            > audio
            > says It is done.
            > done
            > log
        "#]],
    );
}

#[test]
fn by_text_a_task_goes_on_beside_the_turns_and_the_next_session_is_told() {
    check(
        Mode::Text,
        expect![[r#"
            > text export it
            > calls function-call-1 export {"text":"a"}
            > requests 2
            > says It is on its way.
            > ended
            > shutdown
            > opens later by text
            > returns 1 {"rows":7}
            > later: text and now?
            > log
        "#]],
    );
}

#[test]
fn a_conversation_that_comes_back_later_is_told_what_became_of_its_tasks() {
    check(
        Mode::Voice,
        expect![[r#"
            > text export it
            > calls function-call-1 export {"text":"a"} + function-call-2 crawl {"text":"b"}
            > done
            > stop
            > returns 1 {"rows":7}
            > returns 2 {"pages":3}
            > wait 172800000
            > opens days by voice
        "#]],
    );
}

#[test]
fn tasks_of_one_message_do_not_wait_for_each_other_and_hold_up_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > text do it all
            > calls function-call-1 export {"text":"a"} + function-call-2 export {"text":"b"} + function-call-3 write {"text":"c"}
            > returns 3 {"n":1}
            > returns 2 {"rows":2}
            > returns 1 {"rows":1}
        "#]],
    );
}

#[test]
fn what_is_at_work_is_not_begun_again_whether_or_not_it_changes_something() {
    check(
        Mode::Voice,
        expect![[r#"
            > text both
            > calls function-call-1 export {"text":"a"} + function-call-2 crawl {"text":"b"}
            > done
            > text again
            > calls function-call-3 export {"text":"a"} + function-call-4 crawl {"text":"b"}
            > wait 0
            > returns 2 {"pages":3}
            > done
            > text once more
            > calls function-call-5 crawl {"text":"b"}
        "#]],
    );
}

#[test]
fn an_approved_task_is_accepted_at_once_as_well() {
    check(
        Mode::Voice,
        expect![[r#"
            > text migrate
            > calls function-call-1 migrate {"text":"a"}
            > done
            > confirm token-1
            > returns 1 {"moved":7}
        "#]],
    );
}

#[test]
fn a_task_that_changes_nothing_is_stopped_by_its_call_and_ends_cancelled() {
    check(
        Mode::Voice,
        expect![[r#"
            > text crawl
            > calls function-call-1 crawl {"text":"a"}
            > done
            > cancels 1
            > task 1
            > cancels 1
        "#]],
    );
}

#[test]
fn a_task_that_is_cancelled_by_its_id_is_stopped_by_the_session_that_runs_it() {
    check(
        Mode::Text,
        expect![[r#"
            > text both
            > calls function-call-1 crawl {"text":"a"} + function-call-2 export {"text":"b"}
            > requests 2
            > says They are on their way.
            > ended
            > shutdown
            > opens later by text
            > task 1 cancelled
            > task 2 cancelled
            > task 2 cancelled
            > returns 2 {"rows":7}
            > task 1 cancelled
            > task 2
        "#]],
    );
}

#[test]
fn what_a_service_has_is_given_up_when_it_is_cancelled_and_a_late_callback_counts_all_the_same() {
    check(
        Mode::Voice,
        expect![[r#"
            > text export
            > calls function-call-1 export {"text":"a"}
            > returns 1 accepted
            > done
            > task 1
            > task 1 cancelled
            > audio
            > says It was given up.
            > done
            > task 1 brought {"rows":7}
            > audio
            > says It happened after all.
            > done
            > task 1 brought {"rows":7}
            > task 1 cancelled
        "#]],
    );
}

#[test]
fn a_callback_that_says_that_a_cancelled_task_failed_counts_as_well() {
    check(
        Mode::Voice,
        expect![[r#"
            > text export
            > calls function-call-1 export {"text":"a"}
            > returns 1 accepted
            > done
            > task 1 cancelled
            > task 1 failed
            > task 1
        "#]],
    );
}

#[test]
fn after_a_kill_nobody_knows_of_a_task_that_ran_and_a_service_still_has_the_other() {
    check(
        Mode::Voice,
        expect![[r#"
            > text all three
            > calls function-call-1 export {"text":"a"} + function-call-2 crawl {"text":"b"} + function-call-3 export {"text":"c"}
            > returns 3 accepted
            > done
            > killed
            > connected 1
            > ready
            > task 3 brought {"rows":7}
            > done
            > text again
            > calls function-call-4 crawl {"text":"b"} + function-call-5 export {"text":"a"}
        "#]],
    );
}

#[test]
fn a_task_ends_at_its_time() {
    check(
        Mode::Voice,
        expect![[r#"
            > text both
            > calls function-call-1 export {"text":"a"} + function-call-2 crawl {"text":"b"}
            > done
            > wait 3599999
            > wait 1
            > returns 1 {"rows":7}
        "#]],
    );
}

#[test]
fn no_more_tasks_begin_than_may_run() {
    check(
        Mode::Text,
        expect![[r#"
            > text many
            > calls function-call-1 export {"text":"1"} + function-call-2 export {"text":"2"} + function-call-3 export {"text":"3"} + function-call-4 export {"text":"4"} + function-call-5 export {"text":"5"} + function-call-6 export {"text":"6"} + function-call-7 export {"text":"7"}
            > returns 3 {"rows":3}
            > requests 2
            > calls function-call-8 export {"text":"8"}
        "#]],
    );
}

#[test]
fn a_voice_session_that_stops_parts_from_its_client_and_waits_for_its_tasks() {
    check(
        Mode::Voice,
        expect![[r#"
            > text both
            > calls function-call-1 export {"text":"a"}
            > done
            > stop
            > returns 1 {"rows":7}
        "#]],
    );
}

#[test]
fn a_change_is_waited_for_before_a_session_parts_from_its_client() {
    check(
        Mode::Voice,
        expect![[r#"
            > text both
            > calls function-call-1 export {"text":"a"} + function-call-2 write {"text":"b"}
            > stop
            > returns 2 {"done":true}
            > returns 1 {"rows":7}
        "#]],
    );
}
