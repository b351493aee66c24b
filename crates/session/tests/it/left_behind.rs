//! Changes that another session of the conversation is still at, and lookups that an attempt overtakes.

use crate::harness::{Bench, check};
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn what_another_session_is_at_is_neither_done_again_nor_asked_about() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger unknown effect-9 write {"text":"a"}
            > text go
            turn 1 started
            to model: text "go"
            > lookup finds no answer
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            look up effect-9 of write
            > elsewhere 1 under way
            call-1 is a repeat: SameEffectFinished
            to model: function-call-1 OUTCOME_UNKNOWN write was started by another session of this conversation and is still under way; ask again in a moment
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {"text":"a"}
            look up effect-9 of write
            > elsewhere 2 succeeded effect-9 write {"text":"a"}
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"kept":true}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 write {"text":"a"}
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 ok {"kept":true}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_another_session_has_failed_at_may_be_tried_again_under_its_own_key() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger unknown effect-9 write {"text":"a"}
            > text go
            turn 1 started
            to model: text "go"
            > lookup finds no answer
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            look up effect-9 of write
            > elsewhere 1 failed effect-9 write {"text":"a"}
            reserve call-1 write as effect-9
            start call-1 write (effect-9) {"text":"a"}
        "#]],
    );
}

#[test]
fn a_lookup_that_an_attempt_overtakes_has_found_out_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 5000
            abort call-1 (let it end)
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 5000 ms, over Tool 500
            call-1 took 5000 ms, over Turn 1500
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > lookup finds no answer
            > calls function-call-2 write {"text":"a"}
            look up effect-1 of write
            > returns 1 broken
            call-1 returned late
            > found 2 nothing happened
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_repeat_of_a_call_that_waits_for_the_ledger_is_answered_with_it() {
    for entry in ["unheard", "unknown", "failed"] {
        let (mut bench, _) = Bench::unread(Mode::Voice, |_| {});
        for line in [
            "connected 1",
            "ready",
            "text go",
            "lookup finds nothing happened",
        ] {
            bench.line(line);
        }
        let waits = bench.line(r#"calls one write {"text":"a"} + two write {"text":"a"}"#);
        assert!(!waits.contains("to model"), "{waits}");
        let mut said = bench.line(&format!(r#"ledger {entry} effect-7 write {{"text":"a"}}"#));
        said += &bench.line("returns 1 {\"id\":7}");
        let answers = ["one ok", "two ok"].map(|answer| said.matches(answer).count());
        assert_eq!(answers, [1, 1], "{entry}: {said}");
        assert!(said.contains("call-2 is a repeat"), "{entry}: {said}");
    }
}

#[test]
fn what_another_session_has_begun_since_is_looked_up_by_its_own_id_when_it_is_wished_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > begun elsewhere effect-7
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            call-1 finished OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > lookup finds it happened {"done":1}
            > calls function-call-2 write {"text":"a"}
            look up effect-7 of write
            record effect-7 Succeeded
            call-2 settled effect-7: true
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"done":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_call_that_became_a_repeat_when_the_ledger_was_read_is_answered_again_on_another_connection() {
    let (mut bench, _) = Bench::unread(Mode::Voice, |_| {});
    for line in ["connected 1", "ready", "text go"] {
        bench.line(line);
    }
    bench.line(r#"calls function-call-1 write {"text":"a"}"#);
    bench.line(r#"calls function-call-2 write {"text":"a"}"#);
    let mut said = bench.line(r#"ledger failed effect-7 write {"text":"other"}"#);
    said += &bench.line("returns 1 {\"id\":7}");
    assert!(said.contains("call-2 is a repeat"), "{said}");
    for line in ["lost 1", "connected 2", "ready"] {
        bench.line(line);
    }
    let again = bench.line(r#"calls function-call-2 write {"text":"a"}"#);
    assert!(again.contains("to model: function-call-2 ok"), "{again}");
}

#[test]
fn the_id_of_a_call_that_is_looked_up_after_it_waited_for_the_ledger_names_no_other() {
    let (mut bench, _) = Bench::unread(Mode::Voice, |_| {});
    for line in ["connected 1", "ready", "text go", "lookup finds no answer"] {
        bench.line(line);
    }
    bench.line(r#"calls function-call-1 write {"text":"a"}"#);
    let said = bench.line(r#"ledger unknown effect-7 write {"text":"a"}"#);
    assert!(said.contains("look up effect-7"), "{said}");
    let again = bench.line(r#"calls function-call-1 write {"text":"b"}"#);
    assert!(again.contains("Conflict"), "{again}");
    assert!(
        !again.contains("reserve") && !again.contains("start"),
        "{again}"
    );
}

#[test]
fn what_another_session_has_begun_since_is_not_begun_beside_it_by_a_yes_that_was_not_asked_for_that()
 {
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
            > begun elsewhere effect-7
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            call-1 finished OutcomeUnknown
            withdraw token-1
            client: confirmation result call-1 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            > says Nobody knows.
            client: Assistant piece "Nobody knows."
            > generated
            > done
            client: Assistant said "Nobody knows."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay. It did not work: {\"error\":{\"message\":\"pay was started, and how it ended is not known\",\"suggestion\":\"It may or may not have happened. Say so, and do not try again.\",\"type\":\"OUTCOME_UNKNOWN\"}}"
            > text try again
            turn 2 started
            to model: text "try again"
            > calls function-call-2 pay {"text":"10"}
            client: ModelGenerating
            look up effect-7 of pay
            propose call-2 pay
            call-2 rejected OutcomeUnknown
            to model: function-call-2 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Pay 10" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > confirm token-2
            call-2 Approved
            reserve call-2 pay as effect-7 with token-2
            start call-2 pay (effect-7) {"text":"10"}
        "#]],
    );
}

#[test]
fn nobody_is_asked_whether_to_do_what_another_session_has_begun_since() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay it
            turn 1 started
            to model: text "pay it"
            > begun elsewhere effect-7
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 finished OutcomeUnknown
            to model: function-call-1 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > says Nobody knows.
            client: Assistant piece "Nobody knows."
            > generated
            > done
            client: Assistant said "Nobody knows."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text try again
            turn 2 started
            to model: text "try again"
            > calls function-call-2 pay {"text":"10"}
            client: ModelGenerating
            look up effect-7 of pay
            propose call-2 pay
            call-2 rejected OutcomeUnknown
            to model: function-call-2 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Pay 10" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
        "#]],
    );
}
