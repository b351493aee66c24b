//! One change asked for in several ways: the same again, in other words, later, in doubt, and what the user is told of it.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn what_the_model_asks_for_in_other_words_is_the_same_change() {
    check(
        Mode::Voice,
        expect![[r#"
            > text a table for two
            turn 1 started
            to model: text "a table for two"
            > calls function-call-1 book {"about":"table","text":"for two"}
            client: ModelGenerating
            request call-1 book
            start call-1 book (effect-1) {"about":"table","text":"for two"}
            > returns 1 {"booked":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"booked":1}
            client: ToolsComplete { tool_count: 1 }
            > says Booked.
            client: Assistant piece "Booked."
            > calls function-call-2 book {"about":"table","text":"two people, please"}
            request call-2 book
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"booked":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"about":"table","text":"for two"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > done
            client: Assistant said "Booked."
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn what_is_asked_for_in_a_later_turn_is_a_question_that_names_what_was_done() {
    check(
        Mode::Voice,
        expect![[r#"
            > text a table for two
            turn 1 started
            to model: text "a table for two"
            > calls function-call-1 book {"about":"table","text":"for two"}
            client: ModelGenerating
            request call-1 book
            start call-1 book (effect-1) {"about":"table","text":"for two"}
            > returns 1 {"booked":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"booked":1}
            client: ToolsComplete { tool_count: 1 }
            > says Booked.
            client: Assistant piece "Booked."
            > done
            client: Assistant said "Booked."
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > wait 60000
            > text another one
            turn 2 started
            to model: text "another one"
            > calls function-call-2 book {"about":"table","text":"once more"}
            client: ModelGenerating
            request call-2 book
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED book was done before, at 2026-11-18T11:06:40.000Z with {"about":"table","text":"for two"}. It was not done again: the user is being asked whether to do it once more
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-1 {"about":"table","text":"once more"} warned "This was done before, at 2026-11-18T11:06:40.000Z, with {\"about\":\"table\",\"text\":\"for two\"}. If you approve it, it is done once more."
            > says Once more?
            client: Assistant piece "Once more?"
            > done
            client: Assistant said "Once more?"
            turn 2 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 2 }
            > confirm token-1
            answer question-1 yes as call-2
            call-2 Approved
            start call-2 book (effect-2) {"about":"table","text":"once more"}
            > returns 2 {"booked":2}
            record effect-2 Succeeded
            call-2 finished
            client: confirmation result call-2 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of book, and it has run. Its result: {\"data\":{\"booked\":2},\"status\":\"success\"}"
            > says Two are booked.
            client: Assistant piece "Two are booked."
            > done
            client: ModelGenerating
            client: Assistant said "Two are booked."
            client: TurnComplete { turn: 2 }
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "a table for two"
            s-1: effect-1 of book Running, attempt 1
            s-1: effect-1 of book Done, attempt 1
            s-1: call-1 book {"about":"table","text":"for two"} brought {"data":{"booked":1}}
            s-1: Assistant said "Booked."
            s-1: the user begins
            s-1: User said "another one"
            s-1: question-1 about book Open
            s-1: call-2 book {"about":"table","text":"once more"} brought {"message":"book was done before, at 2026-11-18T11:06:40.000Z with {\"about\":\"table\",\"text\":\"for two\"}. It was not done again: the user is being asked whether to do it once more"}
            s-1: Assistant said "Once more?"
            s-1: effect-2 of book Running, attempt 1
            s-1: question-1 about book Approved
            s-1: effect-2 of book Done, attempt 1
            s-1: call-2 book {"about":"table","text":"once more"} brought {"data":{"booked":2}}
            s-1: notice "(A message of the system, not of the user.) The user approved the call of book, and it has run. Its result: {\"data\":{\"booked\":2},\"status\":\"success\"}"
            s-1: Assistant said "Two are booked."
        "#]],
    );
}

#[test]
fn what_no_model_has_heard_of_is_told_also_in_a_later_turn() {
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
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 1 }
            > connected 2
            > ready
            client: Reconnected
            to model: text "write it"
            > text please
            to model: text "please"
            > calls other-call-2 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            to model: other-call-2 ok {"x":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_change_that_is_running_is_told_to_whoever_asks_for_it() {
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
            > calls function-call-2 write {"text":"a"}
            request call-2 write
            call-2 is a repeat: SameEffectRunning
            > calls function-call-3 write {"text":"b"}
            request call-3 write
            start call-3 write (effect-2) {"text":"b"}
            > returns 3 {"x":3}
            record effect-2 Succeeded
            call-3 finished
            to model: function-call-3 ok {"x":3}
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            request call-2 write
            to model: function-call-2 ok {"x":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn whoever_waits_for_an_attempt_asks_again_when_its_lease_ends() {
    check(
        Mode::Text,
        expect![[r#"
            > text write it
            turn 1 started
            > opens b by text
            > b: text write it, too
            b: turn 1 started
            > b: calls b-call-number-1 write {"text":"a"}
            b: client: ModelGenerating
            b: request call-1 write
            b: start call-1 write (effect-1) {"text":"a"}
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            call-1 is a repeat: SameEffectRunning
            > b: sleeps
            > wait 10000
            > wait 100
            request call-1 write
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED write was begun before, at 2026-11-18T11:06:50.100Z with {"text":"a"}, and nobody knows whether it happened. The user is being asked whether to do it again
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"text":"a"} warned "This was begun before, at 2026-11-18T11:06:50.100Z, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > b: returns 1 {"x":1}
            b: record effect-1 Succeeded
            b: call-1 finished
            b: call-1 took 10100 ms, over Tool 500
            b: call-1 took 10100 ms, over Turn 10000
            b: to model: b-call-number-1 ok {"x":1}
            b: client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"a"}
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1} (This was done before, at 2026-11-18T11:06:50.100Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            call-1 Withdrawn
            client: confirmation result call-1 CONFLICT this was done meanwhile, and nothing more is asked
        "#]],
    );
}

#[test]
fn a_tool_that_is_repeatable_does_it_as_often_as_it_is_asked() {
    check(
        Mode::Voice,
        expect![[r#"
            > text louder
            turn 1 started
            to model: text "louder"
            > calls function-call-1 louder {}
            client: ModelGenerating
            request call-1 louder
            start call-1 louder (effect-1) {}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 louder {}
            request call-2 louder
            start call-2 louder (effect-2) {}
            > returns 2 {"x":2}
            record effect-2 Succeeded
            call-2 finished
            to model: function-call-2 ok {"x":2}
            client: ToolsComplete { tool_count: 1 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "louder"
            > calls other-call-3 louder {}
            client: ModelGenerating
            request call-3 louder
            call-3 is a repeat: SameEffectFinished
            to model: other-call-3 ok {"x":2} (This was done before, at 2026-11-18T11:06:40.000Z, with {}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > says Louder.
            client: Assistant piece "Louder."
        "#]],
    );
}

#[test]
fn a_definite_failure_may_be_asked_for_again_and_runs() {
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
            > returns 1 permanent
            record effect-1 Failed
            call-1 finished Permanent
            to model: function-call-1 PERMANENT it failed
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"a"}
            request call-2 write
            start call-2 write (effect-1) {"text":"a"}
            > returns 2 {"x":1}
            record effect-1 Succeeded
            call-2 finished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "write it"
            s-1: effect-1 of write Running, attempt 1
            s-1: effect-1 of write NotDone, attempt 1
            s-1: call-1 write {"text":"a"} brought {"message":"it failed"}
            s-1: effect-1 of write Running, attempt 2
            s-1: effect-1 of write Done, attempt 2
            s-1: call-2 write {"text":"a"} brought {"data":{"x":1}}
        "#]],
    );
}

#[test]
fn what_may_have_happened_is_asked_about_and_runs_with_a_yes() {
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
            > returns 1 broken
            record effect-1 Unknown
            call-1 problem: panicked at secret
            call-1 finished OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"a"}
            request call-2 write
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED write was begun before, at 2026-11-18T11:06:40.000Z with {"text":"a"}, and nobody knows whether it happened. The user is being asked whether to do it again
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-1 {"text":"a"} warned "This was begun before, at 2026-11-18T11:06:40.000Z, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > says Shall I?
            client: Assistant piece "Shall I?"
            > done
            client: Assistant said "Shall I?"
            heard effect-1
            turn 1 ended: calls 2 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > confirm token-1
            answer question-1 yes as call-2
            call-2 Approved
            start call-2 write (effect-1) {"text":"a"}
            > returns 2 {"x":2}
            record effect-1 Succeeded
            call-2 finished
            client: confirmation result call-2 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of write, and it has run. Its result: {\"data\":{\"x\":2},\"status\":\"success\"}"
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "write it"
            s-1: effect-1 of write Running, attempt 1
            s-1: effect-1 of write Unknown, attempt 1
            s-1: call-1 write {"text":"a"} brought {"message":"write was started, and how it ended is not known"}
            s-1: question-1 about write Open
            s-1: call-2 write {"text":"a"} brought {"message":"write was begun before, at 2026-11-18T11:06:40.000Z with {\"text\":\"a\"}, and nobody knows whether it happened. The user is being asked whether to do it again"}
            s-1: Assistant said "Shall I?"
            s-1: effect-1 of write Running, attempt 2
            s-1: question-1 about write Approved
            s-1: effect-1 of write Done, attempt 2
            s-1: call-2 write {"text":"a"} brought {"data":{"x":2}}
            s-1: notice "(A message of the system, not of the user.) The user approved the call of write, and it has run. Its result: {\"data\":{\"x\":2},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn what_a_lookup_finds_is_the_answer() {
    check(
        Mode::Voice,
        expect![[r#"
            > text send it
            turn 1 started
            to model: text "send it"
            > calls function-call-1 send {"text":"a"}
            client: ModelGenerating
            request call-1 send
            start call-1 send (effect-1) {"text":"a"}
            > returns 1 broken
            record effect-1 Unknown
            call-1 problem: panicked at secret
            call-1 finished OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN send was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > lookup finds it happened {"found":1}
            > calls function-call-2 send {"text":"a"}
            request call-2 send
            look up effect-1 of send
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"found":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > says Sent.
            client: Assistant piece "Sent."
            > done
            client: Assistant said "Sent."
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn what_a_lookup_rules_out_too_early_is_not_believed() {
    check(
        Mode::Voice,
        expect![[r#"
            > text send it
            turn 1 started
            to model: text "send it"
            > calls function-call-1 send {"text":"a"}
            client: ModelGenerating
            request call-1 send
            start call-1 send (effect-1) {"text":"a"}
            > returns 1 broken
            record effect-1 Unknown
            call-1 problem: panicked at secret
            call-1 finished OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN send was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > lookup finds nothing happened
            > calls function-call-2 send {"text":"a"}
            request call-2 send
            look up effect-1 of send
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED send was begun before, at 2026-11-18T11:06:40.000Z with {"text":"a"}, and nobody knows whether it happened. The user is being asked whether to do it again
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-1 {"text":"a"} warned "This was begun before, at 2026-11-18T11:06:40.000Z, and nobody knows whether it happened. If you approve it, it may happen a second time."
        "#]],
    );
}

#[test]
fn a_lookup_that_does_not_answer_is_given_up_and_nothing_starts_later() {
    check(
        Mode::Voice,
        expect![[r#"
            > text send it
            turn 1 started
            to model: text "send it"
            > calls function-call-1 send {"text":"a"}
            client: ModelGenerating
            request call-1 send
            start call-1 send (effect-1) {"text":"a"}
            > returns 1 broken
            record effect-1 Unknown
            call-1 problem: panicked at secret
            call-1 finished OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN send was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > lookup finds no answer
            > calls function-call-2 send {"text":"a"}
            request call-2 send
            look up effect-1 of send
            > wait 9999
            > wait 1
            abandon
            call-2 problem: the store does not answer: it has not answered in time
            call-2 finished Transient
            to model: function-call-2 TRANSIENT send was not started: the store does not answer
            client: ToolsComplete { tool_count: 1 }
            > lookup finds it happened {"x":1}
            > calls function-call-3 send {"text":"a"}
            request call-3 send
            look up effect-1 of send
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 ok {"x":1} (This was done before, at 2026-11-18T11:06:50.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_barge_in_cancels_what_has_not_begun_and_a_request_afterwards_is_one_like_any_other() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write both
            turn 1 started
            to model: text "write both"
            > calls function-call-1 write {"text":"a"} + function-call-2 post {"text":"b"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > hears wait
            client: User piece "wait"
            > interrupted
            discard audio
            client: Interrupted
            call-2 cancelled
            client: User said "wait"
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0 interrupted
            turn 2 started
            > done
            accept audio
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1} + function-call-2 CANCELLED post was taken back
            client: ToolsComplete { tool_count: 2 }
            > calls function-call-3 write {"text":"a"} + function-call-4 post {"text":"b"}
            client: ModelGenerating
            request call-3 write
            call-3 is a repeat: SameEffectFinished
            request call-4 post
            start call-4 post (effect-2) {"text":"b"}
            > returns 4 {"x":2}
            record effect-2 Succeeded
            call-4 finished
            to model: function-call-3 ok {"x":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.) + function-call-4 ok {"x":2}
            client: ToolsComplete { tool_count: 2 }
        "#]],
    );
}

#[test]
fn a_barge_in_before_the_ledger_has_answered_starts_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > says Well
            client: ModelGenerating
            client: Assistant piece "Well"
            > store slow
            > calls function-call-1 write {"text":"a"}
            request call-1 write
            > hears uh, yes, please
            client: User piece "uh, yes, please"
            > interrupted
            discard audio
            client: Interrupted
            client: Assistant said "Well"
            client: User said "uh, yes, please"
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            turn 2 started
            > done
            accept audio
            > store up
            record effect-1 Failed
            call-1 cancelled
            to model: function-call-1 CANCELLED write was taken back
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            start call-2 write (effect-1) {"text":"a"}
            > returns 2 {"x":1}
            record effect-1 Succeeded
            call-2 finished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "write it"
            s-1: effect-1 of write Running, attempt 1
            s-1: the user begins
            s-1: Assistant said "Well"
            s-1: User said "uh, yes, please"
            s-1: effect-1 of write NotDone, attempt 1
            s-1: call-1 write {"text":"a"} brought {"message":"write was taken back"}
            s-1: effect-1 of write Running, attempt 2
            s-1: effect-1 of write Done, attempt 2
            s-1: call-2 write {"text":"a"} brought {"data":{"x":1}}
        "#]],
    );
}

#[test]
fn another_change_of_the_same_tool_behind_a_reconnect_names_the_first() {
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
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 1 }
            > connected 2
            > ready
            client: Reconnected
            to model: text "write it"
            > calls function-call-2 write {"text":"A!"}
            client: ModelGenerating
            request call-2 write
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED write was done before, at 2026-11-18T11:06:40.000Z with {"text":"a"}. It was not done again: the user is being asked whether to do it once more
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-1 {"text":"A!"} warned "This was done before, at 2026-11-18T11:06:40.000Z, with {\"text\":\"a\"}. If you approve it, it is done once more."
        "#]],
    );
}

#[test]
fn a_tool_that_changes_nothing_and_needs_consent_runs_once_for_a_yes() {
    check(
        Mode::Voice,
        expect![[r#"
            > text peek
            turn 1 started
            to model: text "peek"
            > calls function-call-1 peek {"text":"a"}
            client: ModelGenerating
            request call-1 peek
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED peek runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"text":"a"}
            > says May I?
            client: Assistant piece "May I?"
            > done
            client: Assistant said "May I?"
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 peek {"text":"a"}
            > returns 1 {"seen":1}
            call-1 finished
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of peek, and it has run. Its result: {\"data\":{\"seen\":1},\"status\":\"success\"}"
            > confirm token-1
            answer question-1 yes as call-2
            call-1 Refused
            client: confirmation result call-1 CONFIRMATION_EXPIRED this approval of peek was used before
            > says I saw it.
            client: Assistant piece "I saw it."
            > done
            client: ModelGenerating
            client: Assistant said "I saw it."
            client: TurnComplete { turn: 1 }
            > text again
            turn 2 started
            to model: text "again"
            > calls function-call-2 peek {"text":"a"}
            heard question-1
            client: ModelGenerating
            request call-3 peek
            call-3 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED peek runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-2 {"text":"a"}
        "#]],
    );
}
