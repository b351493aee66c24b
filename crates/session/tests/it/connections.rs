//! Connections that break off, or are to be left, as they begin.

use crate::harness::check;
use expect_test::expect;
use windlass_tool::kind::Mode;

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
