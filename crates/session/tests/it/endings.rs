//! How sessions end: farewells heard out, started changes run to their end.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn a_farewell_is_heard_before_the_session_ends() {
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
            > returns 1 {"intents":[{"type":"END_VOICE_SESSION","after":"farewell_spoken","reason":"user_done"}]}
            call-1 finished
            call-1 applied END_VOICE_SESSION
            to model: function-call-1 ok {"intents":[{"after":"farewell_spoken","reason":"user_done","type":"END_VOICE_SESSION"}]}
            client: ToolsComplete { tool_count: 1 }
            > audio
            > says Goodbye.
            client: Assistant piece "Goodbye."
            > generated
            > done 1800
            client: Assistant said "Goodbye."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > wait 3299
            > wait 1
            client: end voice session: user_done
            client: session complete, 2 transcripts
            session ended: Intent("user_done")
            close Intent("user_done")
        "#]],
    );
}

#[test]
fn a_session_that_is_to_end_twice_ends_once_for_the_first_reason() {
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
            > returns 1 {"intents":[{"type":"END_VOICE_SESSION","after":"farewell_spoken","reason":"user_done"}]}
            call-1 finished
            call-1 applied END_VOICE_SESSION
            to model: function-call-1 ok {"intents":[{"after":"farewell_spoken","reason":"user_done","type":"END_VOICE_SESSION"}]}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {"text":"again"}
            start call-2 look {"text":"again"}
            > returns 2 {"intents":[{"type":"END_VOICE_SESSION","after":"farewell_spoken","reason":"tired"}]}
            call-2 finished
            call-2 applied END_VOICE_SESSION
            to model: function-call-2 ok {"intents":[{"after":"farewell_spoken","reason":"tired","type":"END_VOICE_SESSION"}]}
            client: ToolsComplete { tool_count: 1 }
            > audio
            > says Goodbye.
            client: Assistant piece "Goodbye."
            > generated
            > done 1800
            client: Assistant said "Goodbye."
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > played
            client: end voice session: user_done
            client: session complete, 2 transcripts
            session ended: Intent("user_done")
            close Intent("user_done")
            > played
        "#]],
    );
}

#[test]
fn a_user_who_speaks_into_the_farewell_is_answered_before_the_end() {
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
            > done 1800
            client: Assistant said "Goodbye."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > wait 1000
            > hears one more thing
            turn 2 started
            client: User piece "one more thing"
            > wait 5000
            > played
            > says Of course.
            client: User said "one more thing"
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
fn playback_done_ends_it_sooner() {
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
            > played
            > says Goodbye.
            client: Assistant piece "Goodbye."
            > done 1800
            client: Assistant said "Goodbye."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > played
            client: end voice session: user_requested
            client: session complete, 2 transcripts
            session ended: Intent("user_requested")
            close Intent("user_requested")
        "#]],
    );
}

#[test]
fn a_model_that_says_no_farewell_does_not_keep_the_session_open() {
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
            > wait 30000
            provider silent after a result
            client: error provider_silent: the model has said nothing for 30 seconds
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: resynchronize
            client: end voice session: user_requested
            client: session complete, 1 transcripts
            session ended: Intent("user_requested")
            close Intent("user_requested")
        "#]],
    );
}

#[test]
fn an_immediate_end_is_immediate() {
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
            > returns 1 {"intents":[{"type":"END_VOICE_SESSION","after":"immediate"}]}
            call-1 finished
            call-1 applied END_VOICE_SESSION
            to model: function-call-1 ok {"intents":[{"after":"immediate","type":"END_VOICE_SESSION"}]}
            client: ToolsComplete { tool_count: 1 }
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            client: end voice session: user_requested
            client: session complete, 1 transcripts
            session ended: Intent("user_requested")
            close Intent("user_requested")
        "#]],
    );
}

#[test]
fn suppression_with_a_farewell_begins_behind_it() {
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
            > returns 1 {"intents":[{"type":"END_VOICE_SESSION","after":"farewell_spoken"},{"type":"SUPPRESS_AUDIO"}]}
            call-1 finished
            call-1 applied END_VOICE_SESSION
            call-1 applied SUPPRESS_AUDIO
            to model: function-call-1 ok {"intents":[{"after":"farewell_spoken","type":"END_VOICE_SESSION"},{"type":"SUPPRESS_AUDIO"}]}
            client: ToolsComplete { tool_count: 1 }
            > says Goodbye.
            client: Assistant piece "Goodbye."
            > done 100
            client: Assistant said "Goodbye."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            suppress audio true
        "#]],
    );
}

#[test]
fn a_stop_cancels_reads_lets_a_started_write_end_and_is_answered_last() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 look {} + function-call-2 write {"text":"a"}
            client: User said "go"
            client: ModelGenerating
            start call-1 look {}
            request call-2 write
            start call-2 write (effect-1) {"text":"a"}
            > stop
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0 interrupted
            abort call-1
            call-1 cancelled
            client: session complete, 1 transcripts
            > returns 2 {"x":1}
            record effect-1 Succeeded
            call-2 finished
            client: ToolsComplete { tool_count: 2 }
            client: Stopped
            session ended: Stopped
            close Stopped
        "#]],
    );
}

#[test]
fn a_refused_key_has_a_code_of_its_own() {
    check(
        Mode::Voice,
        expect![[r#"
            > unauthorized 1
            client: error provider_auth: the model's provider refused the server's key
            client: session complete, 0 transcripts
            session ended: ProviderLost
            close ProviderLost
        "#]],
    );
}

#[test]
fn a_shutdown_is_told() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > says well
            client: User said "go"
            client: ModelGenerating
            client: Assistant piece "well"
            > shutdown
            client: error shutting_down: the server is shutting down
            client: Assistant said "well"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            client: session complete, 2 transcripts
            session ended: Shutdown
            close Shutdown
        "#]],
    );
}

#[test]
fn a_pending_message_goes_out_when_the_turn_is_over() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 look {}
            client: User said "go"
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"intents":[{"type":"SET_PENDING_MESSAGE","message":"ask for the name"}]}
            call-1 finished
            call-1 applied SET_PENDING_MESSAGE
            to model: function-call-1 ok {"intents":[{"message":"ask for the name","type":"SET_PENDING_MESSAGE"}]}
            client: ToolsComplete { tool_count: 1 }
            > says ok
            client: Assistant piece "ok"
            > done
            client: Assistant said "ok"
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: text "ask for the name"
        "#]],
    );
}

#[test]
fn an_unknown_intent_is_rejected_and_recorded() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 look {}
            client: User said "go"
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"intents":[{"type":"FORMAT_DISK"}]}
            call-1 finished
            call-1 intent rejected: there is no intent "FORMAT_DISK"
            to model: function-call-1 ok {"intents":[{"type":"FORMAT_DISK"}]}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn nothing_follows_the_end() {
    check(
        Mode::Voice,
        expect![[r#"
            > stop
            client: session complete, 0 transcripts
            client: Stopped
            session ended: Stopped
            close Stopped
            > text hello
            > calls function-call-1 look {}
        "#]],
    );
}

#[test]
fn an_end_at_once_is_told_once_whatever_else_runs() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > calls function-call-1 look {"text":"a"} + function-call-2 look {"text":"b"}
            client: ModelGenerating
            start call-1 look {"text":"a"}
            start call-2 look {"text":"b"}
            > returns 1 {"intents":[{"type":"END_VOICE_SESSION","after":"immediate"}]}
            call-1 finished
            call-1 applied END_VOICE_SESSION
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            client: end voice session: user_requested
            abort call-2
            call-2 cancelled
            to model: function-call-1 ok {"intents":[{"after":"immediate","type":"END_VOICE_SESSION"}]}
            client: ToolsComplete { tool_count: 2 }
            client: session complete, 1 transcripts
            session ended: Intent("user_requested")
            close Intent("user_requested")
        "#]],
    );
}
