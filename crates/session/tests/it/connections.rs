//! Connections that break off, or are to be left, as they begin.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn a_handle_whose_connections_break_off_twice_gives_way_to_a_fresh_session() {
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
            > drops 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > drops 2
            client: Reconnecting { attempt: 2 }
            > wait 250
            connect 3 with h-1
            > drops 3
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
fn a_handle_that_nobody_has_read_is_kept() {
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
            > drops 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > unreachable 2
            client: Reconnecting { attempt: 2 }
            > wait 250
            connect 3 with h-1
            > unreachable 3
            client: Reconnecting { attempt: 3 }
            > wait 500
            connect 4 with h-1
            > resumed 4
            > ready
            client: Reconnected
        "#]],
    );
}

#[test]
fn connections_that_are_announced_to_end_as_they_begin_are_left_after_pauses() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > goaway 3000
            > wait 0
            client: User said "hello"
            connect 2
            > connected 2
            > ready
            to model: text "hello"
            > goaway 3000
            > wait 249
            > wait 1
            connect 3
            > connected 3
            > ready
            to model: text "hello"
            > goaway 0
            > goaway 0
            > wait 499
            > wait 1
            connect 4
            > connected 4
            > ready
            to model: text "hello"
            > says Hi.
            client: ModelGenerating
            client: Assistant piece "Hi."
            > generated
            > done
            client: Assistant said "Hi."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > goaway 0
            > wait 0
            connect 5, history follows
        "#]],
    );
}

#[test]
fn where_none_is_tried_any_more_a_connection_is_kept_until_it_ends() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > goaway 0
            > wait 0
            client: User said "hello"
            connect 2
            > connected 2
            > ready
            to model: text "hello"
            > goaway 0
            > wait 250
            connect 3
            > connected 3
            > ready
            to model: text "hello"
            > goaway 0
            > wait 500
            connect 4
            > connected 4
            > ready
            to model: text "hello"
            > goaway 0
            > wait 1000
            connect 5
            > connected 5
            > ready
            to model: text "hello"
            > goaway 0
            > wait 2000
            connect 6
            > connected 6
            > ready
            to model: text "hello"
            > goaway 0
            > wait 4000
            connect 7
            > connected 7
            > ready
            to model: text "hello"
            > goaway 0
            > wait 9999
            > lost 7
            client: error provider_unavailable: the model's provider ended the session (close code 1011)
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            client: session complete, 1 transcripts
            session ended: ProviderLost
            close ProviderLost
        "#]],
    );
}

#[test]
fn where_none_is_tried_any_more_a_connection_that_holds_is_left() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > goaway 0
            > wait 0
            client: User said "hello"
            connect 2
            > connected 2
            > ready
            to model: text "hello"
            > goaway 0
            > wait 250
            connect 3
            > connected 3
            > ready
            to model: text "hello"
            > goaway 0
            > wait 500
            connect 4
            > connected 4
            > ready
            to model: text "hello"
            > goaway 0
            > wait 1000
            connect 5
            > connected 5
            > ready
            to model: text "hello"
            > goaway 0
            > wait 2000
            connect 6
            > connected 6
            > ready
            to model: text "hello"
            > goaway 0
            > wait 4000
            connect 7
            > connected 7
            > ready
            to model: text "hello"
            > goaway 0
            > wait 9999
            > wait 1
            connect 8
            > connected 8
            > ready
            to model: text "hello"
            > lost 8
            client: Reconnecting { attempt: 1 }
            connect 9
        "#]],
    );
}

#[test]
fn after_a_connection_that_showed_nothing_a_quiet_session_waits_for_one_that_holds() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > goaway 50000
            connect 2 with h-1
            > resumed 2
            > ready
            > handle h-2
            > goaway 50000
            > wait 9000
            > handle h-3
            > wait 1000
            connect 3 with h-3
            > handle h-4
        "#]],
    );
}
