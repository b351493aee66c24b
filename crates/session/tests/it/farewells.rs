//! Farewells that do not go as they should: the provider leaves in them, the client interrupts them, the user has more to say.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn a_farewell_is_heard_to_its_end_though_the_provider_goes() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears bye
            turn 1 started
            client: User piece "bye"
            > calls function-call-1 look {}
            client: User said "bye"
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"intents":[{"type":"END_VOICE_SESSION","after":"farewell_spoken"}]}
            call-1 finished
            call-1 applied END_VOICE_SESSION
            to model: function-call-1 ok {"intents":[{"after":"farewell_spoken","type":"END_VOICE_SESSION"}]}
            client: ToolsComplete { tool_count: 1 }
            > says Goodbye.
            client: Assistant piece "Goodbye."
            > unplayed 6000
            > generated
            > wait 300
            > lost 1
            client: Assistant said "Goodbye."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > wait 7199
            > wait 1
            client: end voice session: user_requested
            client: session complete, 2 transcripts
            session ended: Intent("user_requested")
            close Intent("user_requested")
        "#]],
    );
}

#[test]
fn a_farewell_is_heard_to_its_end_though_the_connection_is_left() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears bye
            turn 1 started
            client: User piece "bye"
            > calls function-call-1 look {}
            client: User said "bye"
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"intents":[{"type":"END_VOICE_SESSION","after":"farewell_spoken"}]}
            call-1 finished
            call-1 applied END_VOICE_SESSION
            to model: function-call-1 ok {"intents":[{"after":"farewell_spoken","type":"END_VOICE_SESSION"}]}
            client: ToolsComplete { tool_count: 1 }
            > says Goodbye.
            client: Assistant piece "Goodbye."
            > unplayed 6000
            > generated
            > goaway 6000
            > wait 1000
            client: Assistant said "Goodbye."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            connect 2, history follows
            > wait 6499
            > wait 1
            client: end voice session: user_requested
            client: session complete, 2 transcripts
            session ended: Intent("user_requested")
            close Intent("user_requested")
        "#]],
    );
}

#[test]
fn a_farewell_that_was_heard_by_then_is_not_waited_for() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears bye
            turn 1 started
            client: User piece "bye"
            > calls function-call-1 look {}
            client: User said "bye"
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"intents":[{"type":"END_VOICE_SESSION","after":"farewell_spoken"}]}
            call-1 finished
            call-1 applied END_VOICE_SESSION
            to model: function-call-1 ok {"intents":[{"after":"farewell_spoken","type":"END_VOICE_SESSION"}]}
            client: ToolsComplete { tool_count: 1 }
            > says Goodbye.
            client: Assistant piece "Goodbye."
            > unplayed 6000
            > generated
            > wait 2000
            > played
            > lost 1
            client: Assistant said "Goodbye."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > wait 1499
            > wait 1
            client: end voice session: user_requested
            client: session complete, 2 transcripts
            session ended: Intent("user_requested")
            close Intent("user_requested")
        "#]],
    );
}

#[test]
fn a_farewell_that_the_client_interrupts_is_over() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears bye
            turn 1 started
            client: User piece "bye"
            > calls function-call-1 look {}
            client: User said "bye"
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"intents":[{"type":"END_VOICE_SESSION","after":"farewell_spoken"}]}
            call-1 finished
            call-1 applied END_VOICE_SESSION
            to model: function-call-1 ok {"intents":[{"after":"farewell_spoken","type":"END_VOICE_SESSION"}]}
            client: ToolsComplete { tool_count: 1 }
            > says Goodbye.
            client: Assistant piece "Goodbye."
            > unplayed 6000
            > interrupt
            discard audio
            client: Interrupted
            client: Assistant said "Goodbye."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            > interrupted
            > done
            accept audio
            > wait 1499
            > wait 1
            client: end voice session: user_requested
            client: session complete, 2 transcripts
            session ended: Intent("user_requested")
            close Intent("user_requested")
        "#]],
    );
}

#[test]
fn who_types_into_a_farewell_is_answered_before_the_end() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears bye
            turn 1 started
            client: User piece "bye"
            > calls function-call-1 look {}
            client: User said "bye"
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"intents":[{"type":"END_VOICE_SESSION","after":"farewell_spoken"}]}
            call-1 finished
            call-1 applied END_VOICE_SESSION
            to model: function-call-1 ok {"intents":[{"after":"farewell_spoken","type":"END_VOICE_SESSION"}]}
            client: ToolsComplete { tool_count: 1 }
            > says Goodbye.
            client: Assistant piece "Goodbye."
            > text one more thing
            to model: text "one more thing"
            > done 1800
            client: Assistant said "Goodbye."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            turn 2 started
            > wait 5000
            > says Of course.
            client: ModelGenerating
            client: Assistant piece "Of course."
            > done 500
            client: Assistant said "Of course."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            > wait 1999
            > wait 1
            client: end voice session: user_requested
            client: session complete, 4 transcripts
            session ended: Intent("user_requested")
            close Intent("user_requested")
        "#]],
    );
}

#[test]
fn who_types_into_a_farewell_is_answered_on_another_connection() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears bye
            turn 1 started
            client: User piece "bye"
            > calls function-call-1 look {}
            client: User said "bye"
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"intents":[{"type":"END_VOICE_SESSION","after":"farewell_spoken"}]}
            call-1 finished
            call-1 applied END_VOICE_SESSION
            to model: function-call-1 ok {"intents":[{"after":"farewell_spoken","type":"END_VOICE_SESSION"}]}
            client: ToolsComplete { tool_count: 1 }
            > says Goodbye.
            client: Assistant piece "Goodbye."
            > generated
            > text one more thing
            to model: text "one more thing"
            > lost 1
            client: Assistant said "Goodbye."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            turn 2 started
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > wait 5000
            > ready
            client: Reconnected
            to model: history "bye / Goodbye."
            to model: text "one more thing"
            > says Of course.
            client: ModelGenerating
            client: Assistant piece "Of course."
            > done 500
            client: Assistant said "Of course."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            > wait 1999
            > wait 1
            client: end voice session: user_requested
            client: session complete, 4 transcripts
            session ended: Intent("user_requested")
            close Intent("user_requested")
        "#]],
    );
}
