//! The store that does not answer: nothing starts without it, nothing is told that it does not have, and nothing starts late.

use crate::harness::{Bench, check};
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn a_change_is_stored_before_anybody_hears_that_it_was_made() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > recording hangs
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            > recording works
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_store_that_is_down_starts_no_change_and_lets_reads_run() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > store down
            > calls function-call-1 write {"text":"a"} + function-call-2 look {}
            client: ModelGenerating
            request call-1 write
            start call-2 look {}
            call-1 problem: the store does not answer: disk full
            call-1 finished Transient
            > returns 2 {"x":1}
            call-2 finished
            to model: function-call-1 TRANSIENT write was not started: the store does not answer + function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 2 }
            > store up
            > calls function-call-3 write {"text":"a"}
            request call-3 write
            start call-3 write (effect-1) {"text":"a"}
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "go"
            s-1: call-1 write {"text":"a"} brought {"message":"write was not started: the store does not answer"}
            s-1: call-2 look {} brought {"data":{"x":1}}
            s-1: effect-1 of write Running, attempt 1
        "#]],
    );
}

#[test]
fn a_store_that_answers_too_late_has_begun_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > store slow
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            > wait 5000
            abandon
            call-1 problem: the store does not answer: it has not answered in time
            call-1 finished Transient
            to model: function-call-1 TRANSIENT write was not started: the store does not answer
            client: ToolsComplete { tool_count: 1 }
            > store up
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "go"
            s-1: effect-1 of write Running, attempt 1
            s-1: effect-1 of write NotDone, attempt 1
            s-1: call-1 write {"text":"a"} brought {"message":"write was not started: the store does not answer"}
            > calls function-call-2 write {"text":"a"}
            request call-2 write
            start call-2 write (effect-1) {"text":"a"}
            > returns 2 {"x":1}
            record effect-1 Succeeded
            call-2 finished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > log
            s-1: effect-1 of write Running, attempt 2
            s-1: effect-1 of write Done, attempt 2
            s-1: call-2 write {"text":"a"} brought {"data":{"x":1}}
        "#]],
    );
}

#[test]
fn an_approval_that_the_store_takes_too_late_has_begun_nothing_and_is_not_used_up() {
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
            > store slow
            > confirm token-1
            answer question-1 yes as call-1
            > wait 5000
            abandon
            call-1 problem: the store does not answer: it has not answered in time
            call-1 finished Transient
            client: confirmation result call-1 TRANSIENT pay was not started: the store does not answer
            > store up
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "pay"
            s-1: question-1 about pay Open
            s-1: call-1 pay {"text":"10"} brought {"message":"pay runs only after the user has confirmed it"}
            s-1: Assistant said "Please confirm."
            s-1: effect-1 of pay Running, attempt 1
            s-1: question-1 about pay Approved
            s-1: effect-1 of pay NotDone, attempt 1
            s-1: question-1 about pay Open
            s-1: call-1 pay {"text":"10"} brought {"message":"pay was not started: the store does not answer"}
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
fn a_denial_is_told_once_it_is_stored() {
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
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > store slow
            > decline token-1
            answer question-1 no
            > store up
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked whether pay may run with {"text":"10"} and said no
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run with {\"text\":\"10\"} and said no. It has not run. Do not call it again unless the user asks for it."
            > confirm token-1
            answer question-1 yes as call-3
            call-1 Refused
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked whether pay may run with {"text":"10"} and said no
        "#]],
    );
}

#[test]
fn a_denial_that_is_not_stored_is_to_be_sent_again() {
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
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > store down
            > decline token-1
            answer question-1 no
            call-1 Refused
            client: confirmation result call-1 TRANSIENT your denial could not be stored; send it again
            > store slow
            > decline token-1
            answer question-1 no
            > wait 5000
            abandon
            call-1 Refused
            client: confirmation result call-1 TRANSIENT your denial could not be stored; send it again
            > store up
            call-1 Declined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked whether pay may run with {"text":"10"} and said no
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run with {\"text\":\"10\"} and said no. It has not run. Do not call it again unless the user asks for it."
            > confirm token-1
            answer question-1 yes as call-4
            call-1 Refused
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked whether pay may run with {"text":"10"} and said no
        "#]],
    );
}

#[test]
fn an_outcome_that_is_not_stored_in_time_is_told_as_unrecorded_and_no_change_starts_before_it_is() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > recording hangs
            > returns 1 {"x":1}
            record effect-1 Succeeded
            > wait 500
            effect-1 not recorded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 post {"text":"a"}
            request call-2 post
            > wait 1000
            > recording works
            start call-2 post (effect-2) {"text":"a"}
            > says Done.
            client: Assistant piece "Done."
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "go"
            s-1: effect-1 of write Running, attempt 1
            s-1: effect-1 of write Done, attempt 1
            s-1: call-1 write {"text":"a"} brought {"data":{"x":1}}
            s-1: effect-2 of post Running, attempt 1
        "#]],
    );
}

#[test]
fn an_outcome_that_the_store_refuses_is_tried_until_it_takes_it() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > recording fails
            > returns 1 {"x":1}
            record effect-1 Succeeded
            effect-1 not recorded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 post {"text":"a"}
            request call-2 post
            call-2 problem: the store does not answer: disk full
            call-2 finished Transient
            to model: function-call-2 TRANSIENT post was not started: the store does not answer
            client: ToolsComplete { tool_count: 1 }
            > recording works
            > calls function-call-3 write {"text":"a"}
            request call-3 write
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 ok {"x":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "go"
            s-1: effect-1 of write Running, attempt 1
            s-1: effect-1 of write Done, attempt 1
            s-1: call-1 write {"text":"a"} brought {"data":{"x":1}}
            s-1: call-2 post {"text":"a"} brought {"message":"post was not started: the store does not answer"}
            s-1: effect-1 told again
        "#]],
    );
}

#[test]
fn a_late_result_settles_what_was_unknown_and_is_not_spoken_of() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 5000
            abort call-1 (let it end)
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 5000 ms, over Tool 500
            call-1 took 5000 ms, over Turn 1500
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > says Nobody knows.
            client: Assistant piece "Nobody knows."
            > done
            client: Assistant said "Nobody knows."
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > returns 1 {"x":1}
            call-1 returned late
            call-1 settled effect-1: true
            record effect-1 Succeeded
            > wait 1000
            > text and
            turn 2 started
            to model: text "and"
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1} (This was done before, at 2026-11-18T11:06:45.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_was_found_out_by_itself_is_told_to_whoever_asks() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 send {"text":"a"}
            client: ModelGenerating
            request call-1 send
            start call-1 send (effect-1) {"text":"a"}
            > wait 5000
            abort call-1 (let it end)
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 5000 ms, over Tool 500
            call-1 took 5000 ms, over Turn 1500
            to model: function-call-1 OUTCOME_UNKNOWN send was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > says Nobody knows.
            client: Assistant piece "Nobody knows."
            > done
            client: Assistant said "Nobody knows."
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > lookup finds it happened {"found":1}
            > wait 20000
            > sweep
            > text and
            turn 2 started
            to model: text "and"
            > calls function-call-2 send {"text":"a"}
            client: ModelGenerating
            request call-2 send
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"found":1} (This was done before, at 2026-11-18T11:07:05.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn an_answer_with_intents_that_is_told_again_carries_none_out() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"intents":[{"type":"SUPPRESS_AUDIO","value":true}]}
            record effect-1 Succeeded
            call-1 finished
            call-1 applied SUPPRESS_AUDIO
            suppress audio true
            to model: function-call-1 ok {"intents":[{"type":"SUPPRESS_AUDIO","value":true}]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"a"}
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"intents":[{"type":"SUPPRESS_AUDIO","value":true}]} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_session_that_ends_waits_for_its_changes_and_leaves_what_it_has_asked() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 pay {"text":"1"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 1"
            > calls function-call-2 write {"text":"a"}
            request call-2 write
            start call-2 write (effect-1) {"text":"a"}
            > stop
            turn 1 ended: calls 2 retrieval 0 refusals 1 repeats 0 interrupted
            client: session complete, 1 transcripts
            > returns 2 {"x":1}
            record effect-1 Succeeded
            call-2 finished
            client: ToolsComplete { tool_count: 1 }
            client: Stopped
            session ended: Stopped
            close Stopped
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "go"
            s-1: question-1 about pay Open
            s-1: call-1 pay {"text":"1"} brought {"message":"pay runs only after the user has confirmed it"}
            s-1: effect-1 of write Running, attempt 1
            s-1: effect-1 of write Done, attempt 1
            s-1: call-2 write {"text":"a"} brought {"data":{"x":1}}
            s-1: is over
        "#]],
    );
}

#[test]
fn a_failed_attempt_is_recorded_although_the_store_does_not_grant_another() {
    for outage in ["store down", "store slow"] {
        let (mut bench, _) = Bench::new(Mode::Text);
        let lines = [
            "connected 1",
            "ready",
            "text go",
            r#"calls function-call-1 upsert {"text":"a"}"#,
            "returns 1 clean_transient",
            outage,
            "wait 400",
            "wait 5000",
            "store up",
        ];
        let said: String = lines.iter().map(|line| bench.line(line)).collect();
        assert!(said.contains("record effect-1 Failed"), "{said}");
        assert!(said.contains("call-1 finished Transient"), "{said}");
        let log = bench.line("log");
        assert!(log.contains("effect-1 of upsert NotDone"), "{log}");
    }
}

#[test]
fn an_answer_that_comes_when_the_session_is_over_begins_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 pay {"text":"1"}
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 1"
            > calls function-call-2 write {"text":"a"}
            request call-2 write
            start call-2 write (effect-1) {"text":"a"}
            > shutdown
            client: error shutting_down: the server is shutting down
            turn 1 ended: calls 2 retrieval 0 refusals 1 repeats 0 interrupted
            client: session complete, 1 transcripts
            > confirm token-1
            call-1 Refused
            client: confirmation result call-1 TRANSIENT this session has ended; send the answer again
            > returns 2 {"x":1}
            record effect-1 Succeeded
            call-2 finished
            client: ToolsComplete { tool_count: 1 }
            session ended: Shutdown
            close Shutdown
        "#]],
    );
}
