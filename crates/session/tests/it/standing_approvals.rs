//! Approvals that stand for the calls that follow: what one covers, what it never covers, and how it ends.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::limits::Limits;

#[test]
fn an_approval_that_is_remembered_covers_calls_with_the_same_values_alone() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            > text and these
            turn 2 started
            to model: text "and these"
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            heard effect-1, question-1
            client: ModelGenerating
            request call-2 archive
            start call-2 archive (effect-2) {"folder":"Reports","name":"b"}
            > returns 2 {"filed":2}
            record effect-2 Succeeded
            call-2 finished, covered by approval-1
            to model: function-call-2 ok {"filed":2}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 archive {"folder":"Taxes","name":"c"}
            request call-3 archive
            call-3 rejected ConfirmationRequired
            to model: function-call-3 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-2 {"folder":"Taxes","name":"c"}, may stand for {"/folder":"Taxes"} for 60 minutes
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "file it"
            s-1: question-1 about archive Open
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"message":"archive runs only after the user has confirmed it"}
            s-1: effect-1 of archive Running, attempt 1
            s-1: question-1 about archive Approved
            s-1: approval-1 for archive given
            s-1: effect-1 of archive Done, attempt 1
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"data":{"filed":1}}
            s-1: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            s-1: the user begins
            s-1: User said "and these"
            s-1: effect-2 of archive Running, attempt 1
            s-1: approval-1 for archive used by effect-2
            s-1: effect-2 of archive Done, attempt 1
            s-1: call-2 archive {"folder":"Reports","name":"b"} brought {"data":{"filed":2}}
            s-1: question-2 about archive Open
            s-1: call-3 archive {"folder":"Taxes","name":"c"} brought {"message":"archive runs only after the user has confirmed it"}
        "#]],
    );
}

#[test]
fn a_yes_without_the_wish_to_remember_covers_one_call() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            > text and this
            turn 2 started
            to model: text "and this"
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            heard effect-1, question-1
            client: ModelGenerating
            request call-2 archive
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-2 {"folder":"Reports","name":"b"}, may stand for {"/folder":"Reports"} for 60 minutes
        "#]],
    );
}

#[test]
fn values_in_another_spelling_are_other_values() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            > text and these
            turn 2 started
            to model: text "and these"
            > calls function-call-2 archive {"folder":"reports","name":"b"} + function-call-3 archive {"folder":"Reports ","name":"c"}
            heard effect-1, question-1
            client: ModelGenerating
            request call-2 archive
            call-2 rejected ConfirmationRequired
            request call-3 archive
            client: confirm call-2 token-2 {"folder":"reports","name":"b"}, may stand for {"/folder":"reports"} for 60 minutes
            call-3 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it + function-call-3 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 2 }
            client: confirm call-3 token-3 {"folder":"Reports ","name":"c"}, may stand for {"/folder":"Reports "} for 60 minutes
        "#]],
    );
}

#[test]
fn what_was_done_before_is_asked_about_whatever_stands() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > says Filed.
            client: Assistant piece "Filed."
            > done
            client: Assistant said "Filed."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            > text once more
            turn 2 started
            to model: text "once more"
            > calls function-call-2 archive {"folder":"Reports","name":"a"}
            heard effect-1, question-1
            client: ModelGenerating
            request call-2 archive
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive was done before, at 2026-11-18T11:06:40.000Z with {"folder":"Reports","name":"a"}. It was not done again: the user is being asked whether to do it once more
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-2 {"folder":"Reports","name":"a"} warned "This was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
            > remember token-2
            answer question-2 yes as call-2
            call-2 Approved
            start call-2 archive (effect-2) {"folder":"Reports","name":"a"}
            > returns 2 {"filed":2}
            record effect-2 Succeeded
            call-2 finished
            client: confirmation result call-2 ok
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "file it"
            s-1: question-1 about archive Open
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"message":"archive runs only after the user has confirmed it"}
            s-1: effect-1 of archive Running, attempt 1
            s-1: question-1 about archive Approved
            s-1: approval-1 for archive given
            s-1: effect-1 of archive Done, attempt 1
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"data":{"filed":1}}
            s-1: Assistant said "Filed."
            s-1: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            s-1: the user begins
            s-1: User said "once more"
            s-1: question-2 about archive Open
            s-1: call-2 archive {"folder":"Reports","name":"a"} brought {"message":"archive was done before, at 2026-11-18T11:06:40.000Z with {\"folder\":\"Reports\",\"name\":\"a\"}. It was not done again: the user is being asked whether to do it once more"}
            s-1: effect-2 of archive Running, attempt 1
            s-1: question-2 about archive Approved
            s-1: effect-2 of archive Done, attempt 1
            s-1: call-2 archive {"folder":"Reports","name":"a"} brought {"data":{"filed":2}}
        "#]],
    );
}

#[test]
fn what_may_have_happened_is_asked_about_whatever_stands() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 broken
            record effect-1 Unknown
            call-1 problem: panicked at secret
            call-1 finished OutcomeUnknown
            client: confirmation result call-1 OUTCOME_UNKNOWN archive was started, and how it ended is not known
            > says I do not know.
            client: Assistant piece "I do not know."
            > done
            client: Assistant said "I do not know."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of archive, and nobody knows whether it has happened: {\"error\":{\"message\":\"archive was started, and how it ended is not known\",\"suggestion\":\"It may or may not have happened. Say so, and do not try again.\",\"type\":\"OUTCOME_UNKNOWN\"}}"
            > text try again
            turn 2 started
            to model: text "try again"
            > calls function-call-2 archive {"folder":"Reports","name":"a"}
            heard effect-1, question-1
            client: ModelGenerating
            request call-2 archive
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive was begun before, at 2026-11-18T11:06:40.000Z with {"folder":"Reports","name":"a"}, and nobody knows whether it happened. The user is being asked whether to do it again
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-2 {"folder":"Reports","name":"a"} warned "This was begun before, at 2026-11-18T11:06:40.000Z, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > calls function-call-3 archive {"folder":"Reports","name":"b"}
            request call-3 archive
            start call-3 archive (effect-2) {"folder":"Reports","name":"b"}
        "#]],
    );
}

#[test]
fn a_change_near_to_one_that_was_done_is_asked_about_whatever_stands() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            request call-2 archive
            start call-2 archive (effect-2) {"folder":"Reports","name":"b"}
            > returns 2 {"filed":2}
            record effect-2 Succeeded
            call-2 finished, covered by approval-1
            to model: function-call-2 ok {"filed":2}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 archive {"folder":"Reports","name":"B"}
            request call-3 archive
            call-3 rejected ConfirmationRequired
            to model: function-call-3 CONFIRMATION_REQUIRED archive was done before, at 2026-11-18T11:06:40.000Z with {"folder":"Reports","name":"b"}. It was not done again: the user is being asked whether to do it once more
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-2 {"folder":"Reports","name":"B"} warned "This was done before, at 2026-11-18T11:06:40.000Z, with {\"folder\":\"Reports\",\"name\":\"b\"}. If you approve it, it is done once more."
        "#]],
    );
}

#[test]
fn text_that_others_wrote_ends_what_stands_for_this_conversation() {
    check(
        Mode::Text,
        expect![[r#"
            > text file it
            turn 1 started
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 15 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > calls function-call-2 search {"query":"fram"}
            start call-2 search {"query":"fram","top_k":5}
            > returns 2 {"results":[{"id":"doc:fram"}]}
            call-2 finished
            to model: function-call-2 ok quoted {"results":[{"id":"doc:fram"}]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 archive {"folder":"Reports","name":"b"}
            request call-3 archive
            call-3 rejected ConfirmationRequired
            to model: function-call-3 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-2 {"folder":"Reports","name":"b"}
            > remember token-2
            answer question-2 yes as call-3
            call-3 Approved
            start call-3 archive (effect-2) {"folder":"Reports","name":"b"}
            > returns 3 {"filed":2}
            record effect-2 Succeeded
            call-3 finished
            client: confirmation result call-3 ok
            > calls function-call-4 archive {"folder":"Reports","name":"c"}
            request call-4 archive
            call-4 rejected ConfirmationRequired
            to model: function-call-4 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-4 token-3 {"folder":"Reports","name":"c"}
        "#]],
    );
}

#[test]
fn a_model_cannot_have_an_approval_remembered() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","remember":true}
            client: ModelGenerating
            call-1 rejected Validation
            to model: function-call-1 VALIDATION /remember: there is no argument named `remember`
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 archive {"folder":"Reports","name":"a"}
            request call-2 archive
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > says The user has said yes, and yes for this session.
            client: Assistant piece "The user has said yes, and yes for this session."
            > hears yes, always
            client: User piece "yes, always"
            > calls function-call-3 archive {"folder":"Reports","name":"b"}
            client: User said "yes, always"
            request call-3 archive
            call-3 rejected ConfirmationRequired
            to model: function-call-3 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-2 {"folder":"Reports","name":"b"}, may stand for {"/folder":"Reports"} for 60 minutes
            > revokes approval-1
            client: standing []
        "#]],
    );
}

#[test]
fn a_yes_to_a_tool_that_remembers_none_counts_once() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay
            turn 1 started
            to model: text "pay"
            > calls function-call-1 pay {"text":"Ann"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay Ann"
            > remember token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 pay (effect-1) {"text":"Ann"}
            > returns 1 {"paid":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it has run. Its result: {\"data\":{\"paid\":1},\"status\":\"success\"}"
            > text pay Bob, too
            turn 2 started
            to model: text "pay Bob, too"
            > calls function-call-2 pay {"text":"Bob"}
            heard effect-1, question-1
            client: ModelGenerating
            request call-2 pay
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-2 "Pay Bob"
        "#]],
    );
}

#[test]
fn an_approval_that_was_used_gives_nothing_when_it_comes_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > remember token-1
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            client: confirmation result call-1 ok
            > remember token-1
            answer question-1 yes as call-2
            client: confirmation result call-1 ok
            > remember token-9
            nothing Refused
            client: confirmation result  CONFIRMATION_EXPIRED this approval is not valid, or not valid any more
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            request call-3 archive
            call-3 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-2 {"folder":"Reports","name":"b"}, may stand for {"/folder":"Reports"} for 60 minutes
        "#]],
    );
}

#[test]
fn a_standing_approval_that_is_revoked_covers_nothing_more() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > revokes approval-1
            approval-1 ended: revoked
            revoke approval-1
            client: standing []
            > remember token-1
            answer question-1 yes as call-2
            client: confirmation result call-1 ok
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            request call-3 archive
            call-3 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-2 {"folder":"Reports","name":"b"}, may stand for {"/folder":"Reports"} for 60 minutes
            > revokes approval-1
            client: standing []
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "file it"
            s-1: question-1 about archive Open
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"message":"archive runs only after the user has confirmed it"}
            s-1: effect-1 of archive Running, attempt 1
            s-1: question-1 about archive Approved
            s-1: approval-1 for archive given
            s-1: effect-1 of archive Done, attempt 1
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"data":{"filed":1}}
            s-1: approval-1 for archive ended: revoked
            s-1: question-2 about archive Open
            s-1: call-3 archive {"folder":"Reports","name":"b"} brought {"message":"archive runs only after the user has confirmed it"}
        "#]],
    );
}

#[test]
fn a_revocation_that_the_store_takes_late_comes_before_the_next_request() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > store down
            > revokes approval-1
            approval-1 ended: revoked
            revoke approval-1
            client: standing []
            > store up
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            request call-2 archive
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-2 {"folder":"Reports","name":"b"}, may stand for {"/folder":"Reports"} for 60 minutes
        "#]],
    );
}

#[test]
fn a_tool_that_changes_nothing_outside_is_covered_for_its_minutes() {
    check(
        Mode::Voice,
        expect![[r#"
            > text unlock it
            turn 1 started
            to model: text "unlock it"
            > calls function-call-1 unlock {"folder":"Reports"}
            client: ModelGenerating
            request call-1 unlock
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED unlock runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports"}, may stand for {"/folder":"Reports"} for 1 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for unlock, given with call-1
            client: standing [approval-1 unlock {"/folder":"Reports"}]
            call-1 Approved
            start call-1 unlock {"folder":"Reports"}
            > returns 1 {"open":true}
            call-1 finished
            client: confirmation result call-1 ok
            > calls function-call-2 unlock {"folder":"Reports"}
            request call-2 unlock
            start call-2 unlock {"folder":"Reports"}
            > returns 2 {"open":true}
            call-2 finished, covered by approval-1
            to model: function-call-2 ok {"open":true}
            client: ToolsComplete { tool_count: 1 }
            > wait 59000
            provider silent after a result
            client: error provider_silent: the model has said nothing for 30 seconds
            turn 1 ended: calls 2 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of unlock, and it has run. Its result: {\"data\":{\"open\":true},\"status\":\"success\"}"
            to model: resynchronize
            > done
            > text once more
            turn 2 started
            to model: text "once more"
            > calls function-call-3 unlock {"folder":"Reports"}
            heard question-1
            client: ModelGenerating
            request call-3 unlock
            start call-3 unlock {"folder":"Reports"}
            > returns 3 {"open":true}
            call-3 finished, covered by approval-1
            to model: function-call-3 ok {"open":true}
            client: ToolsComplete { tool_count: 1 }
            > wait 2000
            approval-1 ended: expired
            client: standing []
            > calls function-call-4 unlock {"folder":"Reports","name":"late"}
            request call-4 unlock
            call-4 rejected ConfirmationRequired
            to model: function-call-4 CONFIRMATION_REQUIRED unlock runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-4 token-2 {"folder":"Reports","name":"late"}, may stand for {"/folder":"Reports"} for 1 minutes
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "unlock it"
            s-1: question-1 about unlock Open
            s-1: call-1 unlock {"folder":"Reports"} brought {"message":"unlock runs only after the user has confirmed it"}
            s-1: question-1 about unlock Approved
            s-1: approval-1 for unlock given
            s-1: call-1 unlock {"folder":"Reports"} brought {"data":{"open":true}}
            s-1: approval-1 for unlock used
            s-1: call-2 unlock {"folder":"Reports"} brought {"data":{"open":true}}
            s-1: notice "(A message of the system, not of the user.) The user approved the call of unlock, and it has run. Its result: {\"data\":{\"open\":true},\"status\":\"success\"}"
            s-1: the user begins
            s-1: User said "once more"
            s-1: approval-1 for unlock used
            s-1: call-3 unlock {"folder":"Reports"} brought {"data":{"open":true}}
            s-1: approval-1 for unlock ended: expired
            s-1: question-2 about unlock Open
            s-1: call-4 unlock {"folder":"Reports","name":"late"} brought {"message":"unlock runs only after the user has confirmed it"}
        "#]],
    );
}

#[test]
fn what_stands_survives_the_process_and_ends_with_the_session() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > says Filed.
            client: Assistant piece "Filed."
            > done
            client: Assistant said "Filed."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            > killed
            client: confirmation result call-1 ok
            > connected 1
            > ready
            to model: history "file it / Filed."
            to model: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            > text go on
            turn 2 started
            to model: text "go on"
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            heard effect-1, question-1
            client: ModelGenerating
            request call-2 archive
            start call-2 archive (effect-2) {"folder":"Reports","name":"b"}
            > returns 2 {"filed":2}
            record effect-2 Succeeded
            call-2 finished, covered by approval-1
            to model: function-call-2 ok {"filed":2}
            client: ToolsComplete { tool_count: 1 }
            > says Filed.
            client: Assistant piece "Filed."
            > done
            client: Assistant said "Filed."
            heard effect-2
            turn 2 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            > stop
            approval-1 ended: session_ended
            client: session complete, 2 transcripts
            client: Stopped
            session ended: Stopped
            close Stopped
            > opens next by voice
            > next: text go on
            next: turn 1 started
            next: to model: text "go on"
            > next: calls function-call-3 archive {"folder":"Reports","name":"c"}
            next: client: ModelGenerating
            next: request call-3 archive
            next: call-3 rejected ConfirmationRequired
            next: to model: function-call-3 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            next: client: ToolsComplete { tool_count: 1 }
            next: client: confirm call-3 token-2 {"folder":"Reports","name":"c"}, may stand for {"/folder":"Reports"} for 60 minutes
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "file it"
            s-1: question-1 about archive Open
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"message":"archive runs only after the user has confirmed it"}
            s-1: effect-1 of archive Running, attempt 1
            s-1: question-1 about archive Approved
            s-1: approval-1 for archive given
            s-1: effect-1 of archive Done, attempt 1
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"data":{"filed":1}}
            s-1: Assistant said "Filed."
            s-1: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            s-1: begins by voice
            s-1: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            s-1: the user begins
            s-1: User said "go on"
            s-1: effect-2 of archive Running, attempt 1
            s-1: approval-1 for archive used by effect-2
            s-1: effect-2 of archive Done, attempt 1
            s-1: call-2 archive {"folder":"Reports","name":"b"} brought {"data":{"filed":2}}
            s-1: Assistant said "Filed."
            s-1: approval-1 for archive ended: session_ended
            s-1: is over
            next: begins by voice
            next: the user begins
            next: User said "go on"
            next: question-2 about archive Open
            next: call-3 archive {"folder":"Reports","name":"c"} brought {"message":"archive runs only after the user has confirmed it"}
        "#]],
    );
}

#[test]
fn a_tool_with_other_code_asks_anew() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > says Filed.
            client: Assistant piece "Filed."
            > done
            client: Assistant said "Filed."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            > killed, tools changed
            client: confirmation result call-1 ok
            > connected 1
            > ready
            to model: history "file it / Filed."
            to model: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            > text go on
            turn 2 started
            to model: text "go on"
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            heard effect-1, question-1
            client: ModelGenerating
            request call-2 archive
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-2 {"folder":"Reports","name":"b"}, may stand for {"/folder":"Reports"} for 60 minutes
            approval-1 ended: tool_changed
            client: standing []
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "file it"
            s-1: question-1 about archive Open
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"message":"archive runs only after the user has confirmed it"}
            s-1: effect-1 of archive Running, attempt 1
            s-1: question-1 about archive Approved
            s-1: approval-1 for archive given
            s-1: effect-1 of archive Done, attempt 1
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"data":{"filed":1}}
            s-1: Assistant said "Filed."
            s-1: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            s-1: begins by voice
            s-1: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            s-1: the user begins
            s-1: User said "go on"
            s-1: approval-1 for archive ended: tool_changed
            s-1: question-2 about archive Open
            s-1: call-2 archive {"folder":"Reports","name":"b"} brought {"message":"archive runs only after the user has confirmed it"}
        "#]],
    );
}

#[test]
fn by_text_it_stands_for_the_next_turns_of_the_same_client_and_for_nobody_else() {
    check(
        Mode::Text,
        expect![[r#"
            > text file it
            turn 1 started
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 15 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > ended
            > opens turn by text
            > turn: text and this
            turn: turn 1 started
            > turn: calls function-call-2 archive {"folder":"Reports","name":"b"}
            turn: client: ModelGenerating
            turn: request call-2 archive
            turn: start call-2 archive (effect-2) {"folder":"Reports","name":"b"}
            > turn: returns 2 {"filed":2}
            turn: record effect-2 Succeeded
            turn: call-2 finished, covered by approval-1
            turn: to model: function-call-2 ok {"filed":2}
            turn: client: ToolsComplete { tool_count: 1 }
            > opens stranger by text
            > stranger: text file mine
            stranger: turn 1 started
            > stranger: calls function-call-3 archive {"folder":"Reports","name":"c"}
            stranger: client: ModelGenerating
            stranger: request call-3 archive
            stranger: call-3 rejected ConfirmationRequired
            stranger: to model: function-call-3 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            stranger: client: ToolsComplete { tool_count: 1 }
            stranger: client: confirm call-3 token-2 {"folder":"Reports","name":"c"}, may stand for {"/folder":"Reports"} for 15 minutes
            > opens voice by voice
            > voice: text file this
            voice: turn 1 started
            voice: to model: text "file this"
            > voice: calls function-call-4 archive {"folder":"Reports","name":"d"}
            voice: client: ModelGenerating
            voice: request call-4 archive
            voice: call-4 rejected ConfirmationRequired
            voice: to model: function-call-4 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            voice: client: ToolsComplete { tool_count: 1 }
            voice: client: confirm call-4 token-3 {"folder":"Reports","name":"d"}, may stand for {"/folder":"Reports"} for 60 minutes
            > wait 900000
            turn: provider silent after a result
            turn: client: error provider_silent: the model has said nothing for 600 seconds
            turn: turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            turn: client: TurnComplete { turn: 1 }
            turn: to model: resynchronize
            stranger: provider silent after a result
            stranger: call-3 Expired
            stranger: call-3 rejected ConfirmationExpired
            stranger: client: confirmation result call-3 CONFIRMATION_EXPIRED the user did not answer in time
            stranger: client: error provider_silent: the model has said nothing for 600 seconds
            stranger: turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            stranger: client: TurnComplete { turn: 1 }
            stranger: to model: resynchronize
            voice: provider silent after a result
            voice: client: error provider_silent: the model has said nothing for 30 seconds
            voice: turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            voice: client: TurnComplete { turn: 1 }
            voice: to model: resynchronize
            voice: call-4 Expired
            voice: call-4 rejected ConfirmationExpired
            voice: client: confirmation result call-4 CONFIRMATION_EXPIRED the user did not answer in time
            > turn: text and this
            turn: turn 2 started
            > turn: calls function-call-5 archive {"folder":"Reports","name":"e"}
            turn: client: ModelGenerating
            turn: request call-3 archive
            turn: call-3 rejected ConfirmationRequired
            turn: to model: function-call-5 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            turn: client: ToolsComplete { tool_count: 1 }
            turn: client: confirm call-3 token-4 {"folder":"Reports","name":"e"}, may stand for {"/folder":"Reports"} for 15 minutes
            turn: approval-1 ended: expired
            > log
            s-1: begins by text
            s-1: the user begins
            s-1: User said "file it"
            s-1: question-1 about archive Open
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"message":"archive runs only after the user has confirmed it"}
            s-1: effect-1 of archive Running, attempt 1
            s-1: question-1 about archive Approved
            s-1: approval-1 for archive given
            s-1: effect-1 of archive Done, attempt 1
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"data":{"filed":1}}
            turn: begins by text
            turn: the user begins
            turn: User said "and this"
            turn: effect-2 of archive Running, attempt 1
            turn: approval-1 for archive used by effect-2
            turn: effect-2 of archive Done, attempt 1
            turn: call-2 archive {"folder":"Reports","name":"b"} brought {"data":{"filed":2}}
            stranger: begins by text
            stranger: the user begins
            stranger: User said "file mine"
            stranger: question-2 about archive Open
            stranger: call-3 archive {"folder":"Reports","name":"c"} brought {"message":"archive runs only after the user has confirmed it"}
            voice: begins by voice
            voice: the user begins
            voice: User said "file this"
            voice: question-3 about archive Open
            voice: call-4 archive {"folder":"Reports","name":"d"} brought {"message":"archive runs only after the user has confirmed it"}
            turn: the user begins
            turn: User said "and this"
            turn: approval-1 for archive ended: expired
            turn: question-4 about archive Open
            turn: call-3 archive {"folder":"Reports","name":"e"} brought {"message":"archive runs only after the user has confirmed it"}
        "#]],
    );
}

#[test]
fn another_session_revokes_what_this_one_was_given() {
    check(
        Mode::Text,
        expect![[r#"
            > text file it
            turn 1 started
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 15 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > opens turn by text
            > turn: revokes approval-1
            turn: approval-1 ended: revoked
            turn: revoke approval-1
            turn: client: standing []
            client: standing []
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            request call-2 archive
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-2 {"folder":"Reports","name":"b"}, may stand for {"/folder":"Reports"} for 15 minutes
        "#]],
    );
}

#[test]
fn a_call_of_a_handler_is_covered_by_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > calls function-call-2 write {"text":"b"}
            request call-2 write
            start call-2 write (effect-2) {"text":"b"}
            > asks 2 #1 archive {"folder":"Reports","name":"b"}
            call-3 archive asked for by call-2
            call-3 rejected Permanent
            to call-2 #1: PERMANENT write may not call archive, which runs only after the user has confirmed it: a model has to call it
        "#]],
    );
}

#[test]
fn an_approval_that_the_store_takes_too_late_is_not_remembered() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > store slow
            > remember token-1
            answer question-1 yes as call-1
            > wait 6000
            abandon
            call-1 problem: the store does not answer: it has not answered in time
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT archive was not started: the store does not answer
            > store up
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            request call-2 archive
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-2 {"folder":"Reports","name":"b"}, may stand for {"/folder":"Reports"} for 60 minutes
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "file it"
            s-1: question-1 about archive Open
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"message":"archive runs only after the user has confirmed it"}
            s-1: effect-1 of archive Running, attempt 1
            s-1: question-1 about archive Approved
            s-1: approval-1 for archive given
            s-1: effect-1 of archive NotDone, attempt 1
            : approval-1 for archive ended: withdrawn
            s-1: question-1 about archive Open
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"message":"archive was not started: the store does not answer"}
            s-1: question-2 about archive Open
            s-1: call-2 archive {"folder":"Reports","name":"b"} brought {"message":"archive runs only after the user has confirmed it"}
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
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}
            > remember token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            request call-2 archive
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-2 {"folder":"Reports","name":"b"}
        "#]],
    );
}

#[test]
fn a_second_attempt_asks_anew_where_what_covered_the_first_was_revoked() {
    check(
        Mode::Text,
        expect![[r#"
            > text refile them
            turn 1 started
            > calls function-call-1 refile {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 refile
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED refile runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 15 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for refile, given with call-1
            client: standing [approval-1 refile {"/folder":"Reports"}]
            call-1 Approved
            start call-1 refile (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > calls function-call-2 refile {"folder":"Reports","name":"b"}
            request call-2 refile
            start call-2 refile (effect-2) {"folder":"Reports","name":"b"}
            > returns 2 busy
            record effect-2 Failed
            call-2 attempt 2 in 25000 ms
            > revokes approval-1
            approval-1 ended: revoked
            revoke approval-1
            client: standing []
            > wait 25000
            request call-2 refile
            client: confirm call-2 token-2 {"folder":"Reports","name":"b"}, may stand for {"/folder":"Reports"} for 15 minutes
            call-2 finished ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED refile runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_task_that_begins_by_a_standing_approval_is_written_down_as_such() {
    check(
        Mode::Voice,
        expect![[r#"
            > text deposit it
            turn 1 started
            to model: text "deposit it"
            > calls function-call-1 deposit {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 deposit
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED deposit runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for deposit, given with call-1
            client: standing [approval-1 deposit {"/folder":"Reports"}]
            call-1 Approved
            start call-1 deposit (effect-1) {"folder":"Reports","name":"a"}
            call-1 is at work
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of deposit, and it was accepted and is at work: {\"data\":{\"backgroundTaskId\":\"01a1ee565e00-6d21325d4a1bcb9f6f2a9f64e8dcdbea\",\"note\":\"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.\",\"state\":\"running\",\"status\":\"accepted\"},\"status\":\"success\"}"
            > returns 1 {"moved":1}
            record effect-1 Succeeded
            call-1 has ended
            to model: late deposit ok {"moved":1}
            > done
            > text and this
            turn 2 started
            to model: text "and this"
            > calls function-call-2 deposit {"folder":"Reports","name":"b"}
            heard question-1
            client: ModelGenerating
            request call-2 deposit
            start call-2 deposit (effect-2) {"folder":"Reports","name":"b"}
            call-2 is at work, covered by approval-1
            to model: function-call-2 ok {"backgroundTaskId":"01a1ee565e00-54cf87d1a632857894b2bdcef5e10804","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > revokes approval-1
            approval-1 ended: revoked
            revoke approval-1
            client: standing []
            > returns 2 {"moved":2}
            record effect-2 Succeeded
            call-2 has ended
            > done
            heard effect-1
            turn 2 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            to model: late deposit ok {"moved":2}
            > text and this one
            turn 3 started
            to model: text "and this one"
            > calls function-call-3 deposit {"folder":"Reports","name":"c"}
            client: ModelGenerating
            request call-3 deposit
            call-3 rejected ConfirmationRequired
            to model: function-call-3 CONFIRMATION_REQUIRED deposit runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-2 {"folder":"Reports","name":"c"}, may stand for {"/folder":"Reports"} for 60 minutes
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "deposit it"
            s-1: question-1 about deposit Open
            s-1: call-1 deposit {"folder":"Reports","name":"a"} brought {"message":"deposit runs only after the user has confirmed it"}
            s-1: effect-1 of deposit Running, attempt 1
            s-1: question-1 about deposit Approved
            s-1: approval-1 for deposit given
            s-1: call-1 deposit {"folder":"Reports","name":"a"} brought {"data":{"backgroundTaskId":"01a1ee565e00-6d21325d4a1bcb9f6f2a9f64e8dcdbea","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}}
            s-1: notice "(A message of the system, not of the user.) The user approved the call of deposit, and it was accepted and is at work: {\"data\":{\"backgroundTaskId\":\"01a1ee565e00-6d21325d4a1bcb9f6f2a9f64e8dcdbea\",\"note\":\"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.\",\"state\":\"running\",\"status\":\"accepted\"},\"status\":\"success\"}"
            s-1: effect-1 of deposit Done, attempt 1
            s-1: the user begins
            s-1: User said "and this"
            s-1: effect-2 of deposit Running, attempt 1
            s-1: approval-1 for deposit used by effect-2
            s-1: call-2 deposit {"folder":"Reports","name":"b"} brought {"data":{"backgroundTaskId":"01a1ee565e00-54cf87d1a632857894b2bdcef5e10804","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}}
            s-1: approval-1 for deposit ended: revoked
            s-1: effect-2 of deposit Done, attempt 1
            s-1: the user begins
            s-1: User said "and this one"
            s-1: question-2 about deposit Open
            s-1: call-3 deposit {"folder":"Reports","name":"c"} brought {"message":"deposit runs only after the user has confirmed it"}
        "#]],
    );
}

#[test]
fn another_version_of_a_tool_asks_anew() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > remember token-1
            answer question-1 yes as call-1
            approval-1 stands for archive, given with call-1
            client: standing [approval-1 archive {"/folder":"Reports"}]
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            > killed, other versions
            client: confirmation result call-1 ok
            > connected 1
            > ready
            to model: history "file it"
            to model: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            > text go on
            turn 2 started
            to model: text "go on"
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            heard effect-1, question-1
            client: ModelGenerating
            request call-2 archive
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-2 {"folder":"Reports","name":"b"}, may stand for {"/folder":"Reports"} for 60 minutes
            approval-1 ended: tool_changed
            client: standing []
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "file it"
            s-1: question-1 about archive Open
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"message":"archive runs only after the user has confirmed it"}
            s-1: effect-1 of archive Running, attempt 1
            s-1: question-1 about archive Approved
            s-1: approval-1 for archive given
            s-1: effect-1 of archive Done, attempt 1
            s-1: call-1 archive {"folder":"Reports","name":"a"} brought {"data":{"filed":1}}
            s-1: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            s-1: begins by voice
            s-1: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            s-1: the user begins
            s-1: User said "go on"
            s-1: approval-1 for archive ended: tool_changed
            s-1: question-2 about archive Open
            s-1: call-2 archive {"folder":"Reports","name":"b"} brought {"message":"archive runs only after the user has confirmed it"}
        "#]],
    );
}

#[test]
fn an_approval_of_a_version_that_the_user_has_no_longer_counts_once() {
    check(
        Mode::Voice,
        expect![[r#"
            > text file it
            turn 1 started
            to model: text "file it"
            > calls function-call-1 archive {"folder":"Reports","name":"a"}
            client: ModelGenerating
            request call-1 archive
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}, may stand for {"/folder":"Reports"} for 60 minutes
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > killed, other versions
            client: confirm call-1 token-1 {"folder":"Reports","name":"a"}
            > connected 1
            > ready
            to model: history "file it"
            > remember token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 archive (effect-1) {"folder":"Reports","name":"a"}
            > returns 1 {"filed":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of archive, and it has run. Its result: {\"data\":{\"filed\":1},\"status\":\"success\"}"
            > done
            > text go on
            turn 2 started
            to model: text "go on"
            > calls function-call-2 archive {"folder":"Reports","name":"b"}
            heard effect-1, question-1
            client: ModelGenerating
            request call-2 archive
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED archive runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-2 {"folder":"Reports","name":"b"}, may stand for {"/folder":"Reports"} for 60 minutes
        "#]],
    );
}
