//! Connections that end, are announced to end, or are refused.

use crate::harness::{Bench, check};
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn a_lost_connection_is_replaced_at_once_and_takes_up_where_the_handle_was_made() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears who built Fram
            turn 1 started
            client: User piece "who built Fram"
            > says Archer.
            client: User said "who built Fram"
            client: ModelGenerating
            client: Assistant piece "Archer."
            > generated
            > done
            client: Assistant said "Archer."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > handle h-1
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > resumed 2
            > ready
            client: Reconnected
            > hears and when
            turn 2 started
            client: User piece "and when"
            > says 1892.
            client: User said "and when"
            client: ModelGenerating
            client: Assistant piece "1892."
            > done
            client: Assistant said "1892."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}

#[test]
fn a_question_that_no_connection_answered_is_asked_again_in_the_same_turn() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > hears who built Fram
            turn 1 started
            client: User piece "who built Fram"
            > says Colin
            client: User said "who built Fram"
            client: ModelGenerating
            client: Assistant piece "Colin"
            > lost 1
            client: Assistant said "Colin"
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > resumed 2
            > ready
            client: Reconnected
            to model: text "who built Fram"
            > says Colin Archer.
            client: ModelGenerating
            client: Assistant piece "Colin Archer."
            > generated
            > done
            client: Assistant said "Colin Archer."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn without_a_handle_a_fresh_session_is_seeded_with_what_was_said() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears who built Fram
            turn 1 started
            client: User piece "who built Fram"
            > says Archer.
            client: User said "who built Fram"
            client: ModelGenerating
            client: Assistant piece "Archer."
            > generated
            > done
            client: Assistant said "Archer."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > hears when
            turn 2 started
            client: User piece "when"
            > lost 1
            client: User said "when"
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "who built Fram / Archer."
            to model: text "when"
            > says 1892.
            client: ModelGenerating
            client: Assistant piece "1892."
            > done
            client: Assistant said "1892."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}

#[test]
fn an_announced_end_waits_for_the_first_handle_after_calls_and_speech() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > hears look it up
            turn 1 started
            client: User piece "look it up"
            > goaway 50000
            > calls function-call-1 look {}
            client: User said "look it up"
            client: ModelGenerating
            start call-1 look {}
            > handle -
            > returns 1 {"found":1}
            call-1 finished
            to model: function-call-1 ok {"found":1}
            client: ToolsComplete { tool_count: 1 }
            > says Found.
            client: Assistant piece "Found."
            > generated
            > done
            client: Assistant said "Found."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > handle h-2
            connect 2 with h-2
            > resumed 2
            > ready
        "#]],
    );
}

#[test]
fn a_quiet_session_leaves_at_once_when_the_end_is_announced() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > says Hi.
            client: User said "hello"
            client: ModelGenerating
            client: Assistant piece "Hi."
            > generated
            > done
            client: Assistant said "Hi."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > handle h-1
            > goaway 50000
            connect 2 with h-1
            > resumed 2
            > ready
        "#]],
    );
}

#[test]
fn five_seconds_before_the_announced_end_nothing_is_waited_for() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > hears look it up
            turn 1 started
            client: User piece "look it up"
            > calls function-call-1 look {}
            client: User said "look it up"
            client: ModelGenerating
            start call-1 look {}
            > goaway 8000
            > wait 2999
            > wait 1
            connect 2 with h-1
            > resumed 2
            > ready
            to model: text "look it up"
            > returns 1 {"found":1}
            call-1 finished
            call-1 took 3000 ms, over Tool 500
            call-1 took 3000 ms, over Turn 1500
            client: ToolsComplete { tool_count: 1 }
            > says Found.
            client: ModelGenerating
            client: Assistant piece "Found."
            > generated
            > done
            client: Assistant said "Found."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: late look ok {"found":1}
        "#]],
    );
}

#[test]
fn a_handle_that_is_refused_twice_gives_way_to_a_fresh_session() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > says Hi.
            client: User said "hello"
            client: ModelGenerating
            client: Assistant piece "Hi."
            > generated
            > done
            client: Assistant said "Hi."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > handle h-1
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > refused 2 1008
            client: Reconnecting { attempt: 2 }
            > wait 250
            connect 3 with h-1
            > refused 3 1007
            client: Reconnecting { attempt: 3 }
            > wait 500
            connect 4, history follows
            > connected 4
            > ready
            client: Reconnected
            to model: history "hello / Hi."
        "#]],
    );
}

#[test]
fn attempts_are_bounded_and_then_the_session_ends() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > says Hi.
            client: User said "hello"
            client: ModelGenerating
            client: Assistant piece "Hi."
            > generated
            > done
            client: Assistant said "Hi."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > lost 2
            client: Reconnecting { attempt: 2 }
            > wait 250
            connect 3, history follows
            > lost 3
            client: Reconnecting { attempt: 3 }
            > wait 500
            connect 4, history follows
            > lost 4
            client: Reconnecting { attempt: 4 }
            > wait 1000
            connect 5, history follows
            > lost 5
            client: Reconnecting { attempt: 5 }
            > wait 2000
            connect 6, history follows
            > lost 6
            client: Reconnecting { attempt: 6 }
            > wait 4000
            connect 7, history follows
            > lost 7
            client: error provider_unavailable: the model's provider ended the session (close code 1011)
            client: session complete, 2 transcripts
            session ended: ProviderLost
            close ProviderLost
        "#]],
    );
}

#[test]
fn what_is_typed_meanwhile_is_said_when_the_provider_is_back() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > says Hi.
            client: User said "hello"
            client: ModelGenerating
            client: Assistant piece "Hi."
            > generated
            > done
            client: Assistant said "Hi."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > handle h-1
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > text who built Fram
            > resumed 2
            > ready
            client: Reconnected
            turn 2 started
            to model: text "who built Fram"
        "#]],
    );
}

#[test]
fn an_interruption_meanwhile_means_that_nothing_is_asked_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > hears who built Fram
            turn 1 started
            client: User piece "who built Fram"
            > says Colin
            client: User said "who built Fram"
            client: ModelGenerating
            client: Assistant piece "Colin"
            > lost 1
            client: Assistant said "Colin"
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > interrupt
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            discard audio
            client: Interrupted
            accept audio
            > resumed 2
            > ready
            client: Reconnected
            to model: history "who built Fram / Colin"
        "#]],
    );
}

#[test]
fn what_an_older_handle_does_not_hold_is_told_as_context() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > hears hello
            turn 1 started
            client: User piece "hello"
            > says Hi.
            client: User said "hello"
            client: ModelGenerating
            client: Assistant piece "Hi."
            > generated
            > done
            client: Assistant said "Hi."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > resumed 2
            > ready
            client: Reconnected
            to model: history "hello / Hi."
        "#]],
    );
}

#[test]
fn a_key_that_is_refused_later_ends_the_session() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > says Hi.
            client: User said "hello"
            client: ModelGenerating
            client: Assistant piece "Hi."
            > done
            client: Assistant said "Hi."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > unauthorized 1
            client: error provider_auth: the model's provider refused the server's key
            client: session complete, 2 transcripts
            session ended: ProviderLost
            close ProviderLost
        "#]],
    );
}

#[test]
fn a_long_message_is_cut_in_the_record_and_leaves_what_was_said_before_it() {
    let (mut bench, _) = Bench::new(Mode::Voice);
    let long = "a".repeat(40_000);
    for line in [
        "connected 1",
        "ready",
        "text hello",
        "says Good day.",
        "done",
    ] {
        bench.line(line);
    }
    let sent = bench.line(&format!("text {long}"));
    assert!(sent.contains(&format!("to model: text \"{long}\"")));
    bench.line("says Yes.");
    bench.line("done");
    let kept = ["hello", "Good day.", &long[..16_384], "Yes."];

    bench.line("lost 1");
    bench.line("connected 2");
    let told = bench.line("ready");
    assert!(told.contains(&format!("history \"{}\"", kept.join(" / "))));
    let log = bench.line("log");
    assert!(
        kept.iter()
            .all(|kept| log.contains(&format!("said \"{kept}\"")))
    );
    assert!(
        bench
            .line("stop")
            .contains("session complete, 4 transcripts")
    );
}

#[test]
fn a_long_message_that_has_no_answer_is_asked_again_as_far_as_it_is_kept() {
    let (mut bench, _) = Bench::new(Mode::Voice);
    for line in [
        "connected 1",
        "ready",
        "text hello",
        "says Good day.",
        "done",
    ] {
        bench.line(line);
    }
    bench.line(&format!("text {}", "é".repeat(20_000)));
    bench.line("lost 1");
    bench.line("connected 2");
    let told = bench.line("ready");
    assert!(told.contains("history \"hello / Good day.\""), "{told}");
    assert!(told.contains(&format!("to model: text \"{}\"", "é".repeat(8_192))));
}
