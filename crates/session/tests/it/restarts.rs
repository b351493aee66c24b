//! Sessions whose process was killed, and that go on in another: what of them survives.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn what_was_said_is_history_and_the_open_question_is_asked_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > text hello
            turn 1 started
            to model: text "hello"
            > says Good day.
            client: ModelGenerating
            client: Assistant piece "Good day."
            > done
            client: Assistant said "Good day."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text who built the Fram?
            turn 2 started
            to model: text "who built the Fram?"
            > says Colin
            client: ModelGenerating
            client: Assistant piece "Colin"
            > killed
            > connected 1
            > ready
            to model: history "hello / Good day."
            to model: text "who built the Fram?"
            > says Colin Archer.
            client: ModelGenerating
            client: Assistant piece "Colin Archer."
            > done
            client: Assistant said "Colin Archer."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}

#[test]
fn an_answered_turn_is_not_answered_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > text hello
            turn 1 started
            to model: text "hello"
            > says Good day.
            client: ModelGenerating
            client: Assistant piece "Good day."
            > done
            client: Assistant said "Good day."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > killed
            > connected 1
            > ready
            to model: history "hello / Good day."
        "#]],
    );
}

#[test]
fn the_budget_of_the_open_turn_is_spent_once() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write everywhere
            turn 1 started
            to model: text "write everywhere"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"written":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"written":1}
            client: ToolsComplete { tool_count: 1 }
            > says One.
            client: Assistant piece "One."
            > calls function-call-2 write {"text":"b"}
            request call-2 write
            start call-2 write (effect-2) {"text":"b"}
            > returns 2 {"written":2}
            record effect-2 Succeeded
            call-2 finished
            to model: function-call-2 ok {"written":2}
            client: ToolsComplete { tool_count: 1 }
            > killed
            > connected 1
            > ready
            to model: text "write everywhere"
            > calls function-call-1 look {"text":"c"}
            client: ModelGenerating
            start call-5 look {"text":"c"}
            > returns 5 {"seen":5}
            call-5 finished
            to model: function-call-1 ok {"seen":5}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {"text":"d"}
            call-6 rejected BudgetExceeded
            to model: function-call-2 BUDGET_EXCEEDED no more than 3 tool calls in one voice turn
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_change_that_was_done_is_told_and_not_done_again() {
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
            > returns 1 {"written":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"written":1}
            client: ToolsComplete { tool_count: 1 }
            > killed
            > connected 1
            > ready
            to model: text "write it"
            > calls other-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-3 write
            call-3 is a repeat: SameEffectFinished
            to model: other-call-1 ok {"written":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > says Done.
            client: Assistant piece "Done."
            > done
            client: Assistant said "Done."
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > killed
            > connected 1
            > ready
            to model: history "write it / Done."
        "#]],
    );
}

#[test]
fn a_change_that_was_done_is_told_once_nobody_speaks() {
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
            > says I am on it.
            client: Assistant piece "I am on it."
            > done
            > returns 1 {"written":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"written":1}
            client: ToolsComplete { tool_count: 1 }
            > killed
            > connected 1
            > ready
            to model: text "write it"
            > says I am on it.
            client: ModelGenerating
            client: Assistant piece "I am on it."
            > done
            client: Assistant said "I am on it."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: late write ok {"written":1}
            > audio
            heard effect-1
            client: ModelGenerating
            > says It is written.
            client: Assistant piece "It is written."
            > done
            client: Assistant said "It is written."
            client: TurnComplete { turn: 1 }
            > killed
            > connected 1
            > ready
            to model: history "write it / I am on it. / It is written."
        "#]],
    );
}

#[test]
fn a_change_of_which_nothing_was_heard_is_unknown_and_not_done_again() {
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
            > killed
            > connected 1
            > ready
            to model: text "write it"
            > calls other-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            call-2 rejected ConfirmationRequired
            to model: other-call-1 CONFIRMATION_REQUIRED write was begun before, at 2026-11-18T11:06:40.000Z with {"text":"a"}, and nobody knows whether it happened. The user is being asked whether to do it again
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-1 {"text":"a"} warned "This was begun before, at 2026-11-18T11:06:40.000Z, and nobody knows whether it happened. If you approve it, it may happen a second time."
        "#]],
    );
}

#[test]
fn what_others_wrote_still_needs_consent() {
    check(
        Mode::Voice,
        expect![[r#"
            > text search
            turn 1 started
            to model: text "search"
            > calls function-call-1 search {"query":"fram"}
            client: ModelGenerating
            call-1 clamped top_k 5 to 3
            start call-1 search {"query":"fram","top_k":3}
            > returns 1 {"results":[{"id":"fram","title":"Fram"}]}
            call-1 finished
            to model: function-call-1 ok quoted {"results":[{"id":"fram","title":"Fram"}]}
            client: ToolsComplete { tool_count: 1 }
            > says Found it.
            client: Assistant piece "Found it."
            > done
            client: Assistant said "Found it." citing fram
            turn 1 ended: calls 1 retrieval 1 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > killed
            > connected 1
            > ready
            to model: history "search / Found it."
            > text write it
            turn 2 started
            to model: text "write it"
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED write runs only after the user has confirmed it, because this conversation holds text that others wrote
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-1 {"text":"a"} because "text that others wrote is in the conversation"
        "#]],
    );
}

#[test]
fn an_end_that_was_asked_for_comes() {
    check(
        Mode::Voice,
        expect![[r#"
            > text bye
            turn 1 started
            to model: text "bye"
            > calls function-call-1 look {}
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"intents":[{"type":"END_VOICE_SESSION","after":"farewell_spoken","reason":"done"}]}
            call-1 finished
            call-1 applied END_VOICE_SESSION
            to model: function-call-1 ok {"intents":[{"after":"farewell_spoken","reason":"done","type":"END_VOICE_SESSION"}]}
            client: ToolsComplete { tool_count: 1 }
            > killed
            > connected 1
            > ready
            to model: text "bye"
            > says Farewell.
            client: ModelGenerating
            client: Assistant piece "Farewell."
            > done
            client: Assistant said "Farewell."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > wait 1500
            client: end voice session: done
            client: session complete, 2 transcripts
            session ended: Intent("done")
            close Intent("done")
        "#]],
    );
}

#[test]
fn the_end_of_a_session_is_no_proof_that_the_user_said_anything_since() {
    check(
        Mode::Voice,
        expect![[r#"
            > text begin
            turn 1 started
            to model: text "begin"
            > says Well,
            client: ModelGenerating
            client: Assistant piece "Well,"
            > hears write it
            client: User piece "write it"
            > calls function-call-1 write {"text":"a"}
            client: User said "write it"
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says done
            client: Assistant piece "done"
            > shutdown
            client: error shutting_down: the server is shutting down
            client: Assistant said "Well,done"
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            turn 2 started
            client: session complete, 3 transcripts
            session ended: Shutdown
            close Shutdown
            > killed
            > back
            > connected 1
            > ready
            to model: history "begin / Well,done"
            to model: text "write it"
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}
