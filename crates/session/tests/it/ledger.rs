//! Changes and the ledger: stored before they are told, looked up where nobody knows, settled when it becomes known.

use crate::harness::{Bench, check};
use expect_test::expect;
use std::sync::Arc;
use windlass_session::io::{Input, Reservation, ReservationError, ReservationRefusal};
use windlass_tool::envelope::{Outcome, ToolResponse, meta_without_tool};
use windlass_tool::id::CallNumber;
use windlass_tool::intent::Intent;
use windlass_tool::kind::Mode;

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
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            > recorded effect-1 as succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d6_what_the_lookup_finds_is_the_answer() {
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
            > lookup finds it happened {"found":true}
            > calls function-call-2 write {"text":"a"}
            look up effect-1 of write
            record effect-1 Succeeded
            call-2 settled effect-1: true
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"found":true}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-3 write {"text":"a"}
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 ok {"found":true}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d6_what_the_lookup_rules_out_runs_under_its_own_key() {
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
            > lookup finds nothing happened
            > calls function-call-2 write {"text":"a"}
            look up effect-1 of write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d6_a_lookup_that_does_not_answer_leaves_it_unknown() {
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
            > calls function-call-3 write {"text":"a"}
            > wait 5000
            abort call-2
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            call-3 is a repeat: SameEffectRunning
            to model: function-call-3 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn d6_a_late_result_settles_what_was_unknown() {
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
            > returns 1 {"x":1}
            call-1 returned late
            record effect-1 Succeeded
            call-1 settled effect-1: true
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text did it work
            turn 2 started
            to model: text "did it work"
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_definite_failure_keeps_its_effect_when_it_is_asked_again() {
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
            > returns 1 permanent
            record effect-1 Failed
            call-1 finished Permanent
            to model: function-call-1 PERMANENT it failed
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text again
            turn 2 started
            to model: text "again"
            > calls function-call-2 write {"text":"a"}
            answered effect-1
            client: ModelGenerating
            reserve call-2 write as effect-1
            start call-2 write (effect-1) {"text":"a"}
        "#]],
    );
}

#[test]
fn what_an_earlier_session_left_unknown_is_not_done_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger unknown effect-7 write {"text":"a"}
            > text go
            turn 1 started
            to model: text "go"
            > lookup finds it happened {"found":true}
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            look up effect-7 of write
            record effect-7 Succeeded
            call-1 settled effect-7: true
            call-1 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"found":true}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_an_earlier_session_did_not_get_told_is_told_and_not_done_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger unheard effect-7 write {"text":"a"}
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            call-1 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"kept":true}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_was_done_is_not_done_again_because_its_answer_was_too_long_to_keep() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger unkept effect-7 write {"text":"a"}
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            call-1 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"note":"write did this already; what it answered is not available any more"}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_an_earlier_session_did_is_a_second_wish_now() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger succeeded effect-7 write {"text":"a"}
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
        "#]],
    );
}

#[test]
fn what_an_earlier_session_failed_at_runs_under_its_own_key() {
    check(
        Mode::Voice,
        expect![[r#"
            > ledger failed effect-7 write {"text":"a"}
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write as effect-7
            start call-1 write (effect-7) {"text":"a"}
        "#]],
    );
}

#[test]
fn no_change_starts_before_it_is_known_what_was_done_already() {
    let (mut bench, began) = Bench::unread(Mode::Voice, |_| {});
    assert!(began.contains("read ledger"), "{began}");
    for line in ["connected 1", "ready", "text go", "store down"] {
        bench.line(line);
    }
    let waits = bench.line(r#"calls function-call-1 write {"text":"a"}"#);
    assert_eq!(waits, "client: ModelGenerating\n");
    let read = bench.line(r#"calls function-call-2 search {"query":"a"}"#);
    assert!(read.contains("start call-2 search"), "{read}");
    let failed = Err(ReservationError {
        problem: "down".to_owned(),
    });
    let refused = bench.step(Input::Ledger(failed));
    assert!(refused.contains("function-call-1 TRANSIENT"), "{refused}");
    bench.line(r#"calls function-call-3 write {"text":"a"}"#);
    bench.line(r#"calls function-call-4 write {"text":"b"}"#);
    let asked_again = bench.line("wait 1000");
    assert!(asked_again.starts_with("read ledger\n"), "{asked_again}");
    assert_eq!(asked_again.matches("TRANSIENT").count(), 2, "{asked_again}");
    bench.line(r#"calls function-call-5 write {"text":"a"}"#);
    bench.line("store up");
    let known = bench.line("wait 1000");
    assert!(known.contains("start call-5 write"), "{known}");
}

#[test]
fn a_change_that_came_before_the_ledger_was_read_is_recognised_in_it() {
    let (mut bench, _) = Bench::unread(Mode::Voice, |_| {});
    for line in ["connected 1", "ready", "text go"] {
        bench.line(line);
    }
    bench.line(r#"calls function-call-1 write {"text":"a"}"#);
    let known = bench.line(r#"ledger unheard effect-7 write {"text":"a"}"#);
    assert!(
        known.contains("function-call-1 ok {\"kept\":true}"),
        "{known}"
    );
    assert!(!known.contains("start"), "{known}");
}

#[test]
fn a_lookup_that_finds_nothing_is_not_believed_while_the_attempt_may_still_do_it() {
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
            > lookup finds nothing happened
            > calls function-call-2 write {"text":"a"}
            look up effect-1 of write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 OUTCOME_UNKNOWN write was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {"x":1}
            call-1 returned late
            record effect-1 Succeeded
            call-1 settled effect-1: true
            > calls function-call-3 write {"text":"a"}
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn the_ledger_learns_what_the_model_has_heard_and_not_what_was_sent_into_nothing() {
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
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says One moment.
            answered effect-1
            client: Assistant piece "One moment."
            > calls function-call-2 write {"text":"a"}
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > lost 1
            client: Assistant said "One moment."
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "go"
            > text did you do it
            to model: text "did you do it"
            > calls function-call-3 write {"text":"a"}
            client: ModelGenerating
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says yes
            answered effect-1
            client: Assistant piece "yes"
        "#]],
    );
}

#[test]
fn what_another_run_of_the_effect_asked_of_its_session_is_not_carried_out_again() {
    let (mut bench, _) = Bench::new(Mode::Voice);
    bench.line("connected 1");
    bench.line("ready");
    bench.line("store slow");
    bench.line("text write it");
    bench.line(r#"calls function-call-1 write {"text":"a"}"#);
    let response = ToolResponse {
        outcome: Outcome::Success {
            data: None,
            content: Vec::new(),
        },
        intents: vec![Intent::SuppressAudio { value: true }],
        meta: meta_without_tool("write", "1.0.0".into(), 0),
    };
    let said = bench.step(Input::Reserved(Reservation {
        call: CallNumber(1),
        outcome: Err(ReservationRefusal::Done(Some(Arc::new(response)))),
    }));
    expect![[r#"
        call-1 finished
        to model: function-call-1 ok 
        client: ToolsComplete { tool_count: 1 }
    "#]]
    .assert_eq(&said);
}
