//! When a user turn begins, as far as changes know turns: the log has one onset for each.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn speech_and_its_transcript_are_one_onset() {
    check(
        Mode::Voice,
        expect![[r#"
            > speech
            turn 1 started
            > hears write
            client: User piece "write"
            > hears  it
            client: User piece " it"
            > spoke
            > says Well
            client: User said "write it"
            client: ModelGenerating
            client: Assistant piece "Well"
            > done
            client: Assistant said "Well"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > hears and more
            turn 2 started
            client: User piece "and more"
            > says So
            client: User said "and more"
            client: ModelGenerating
            client: Assistant piece "So"
            > done
            client: Assistant said "So"
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "write it"
            s-1: Assistant said "Well"
            s-1: the user begins
            s-1: User said "and more"
            s-1: Assistant said "So"
        "#]],
    );
}

#[test]
fn speech_into_an_answer_is_an_onset() {
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
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says Written
            client: Assistant piece "Written"
            > hears yes
            client: User piece "yes"
            > interrupted
            discard audio
            client: Interrupted
            client: Assistant said "Written"
            client: User said "yes"
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            turn 2 started
            > done
            accept audio
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED write was done before, at 2026-11-18T11:06:40.000Z with {"text":"a"}. It was not done again: the user is being asked whether to do it once more
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 token-1 {"text":"a"} warned "This was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "write it"
            s-1: effect-1 of write Running, attempt 1
            s-1: effect-1 of write Done, attempt 1
            s-1: call-1 write {"text":"a"} brought {"data":{"x":1}}
            s-1: the user begins
            s-1: Assistant said "Written"
            s-1: User said "yes"
            s-1: question-1 about write Open
            s-1: call-2 write {"text":"a"} brought {"message":"write was done before, at 2026-11-18T11:06:40.000Z with {\"text\":\"a\"}. It was not done again: the user is being asked whether to do it once more"}
        "#]],
    );
}

#[test]
fn who_interrupts_goes_on_in_the_same_onset() {
    check(
        Mode::Voice,
        expect![[r#"
            > text begin
            turn 1 started
            to model: text "begin"
            > says Well
            client: ModelGenerating
            client: Assistant piece "Well"
            > speech
            > interrupted
            discard audio
            client: Interrupted
            client: Assistant said "Well"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            turn 2 started
            > hears uh,
            client: User piece "uh,"
            > hears  yes
            client: User piece " yes"
            > done
            accept audio
            > says So
            client: User said "uh, yes"
            client: ModelGenerating
            client: Assistant piece "So"
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "begin"
            s-1: the user begins
            s-1: Assistant said "Well"
            s-1: User said "uh, yes"
        "#]],
    );
}

#[test]
fn what_the_model_calls_without_an_onset_belongs_to_the_turn_before() {
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
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says Written.
            client: Assistant piece "Written."
            > done
            client: Assistant said "Written."
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > done
            client: TurnComplete { turn: 1 }
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "write it"
            s-1: effect-1 of write Running, attempt 1
            s-1: effect-1 of write Done, attempt 1
            s-1: call-1 write {"text":"a"} brought {"data":{"x":1}}
            s-1: Assistant said "Written."
            s-1: effect-1 told again
        "#]],
    );
}

#[test]
fn a_message_that_is_sent_again_is_no_onset() {
    check(
        Mode::Text,
        expect![[r#"
            > sends m-1 write it
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says Written.
            client: Assistant piece "Written."
            > done
            client: Assistant said "Written."
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > sends m-1 write it
            turn 2 started
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {}
            call-1 returned late
            > done
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 2 }
            > sends m-2 write it
            turn 3 started
            > calls function-call-3 write {"text":"a"}
            client: ModelGenerating
            request call-3 write
            call-3 rejected ConfirmationRequired
            to model: function-call-3 CONFIRMATION_REQUIRED write was done before, at 2026-11-18T11:06:40.000Z with {"text":"a"}. It was not done again: the user is being asked whether to do it once more
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-1 {"text":"a"} warned "This was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
            > log
            s-1: begins by text
            s-1: the user begins
            s-1: User said "write it"
            s-1: effect-1 of write Running, attempt 1
            s-1: effect-1 of write Done, attempt 1
            s-1: call-1 write {"text":"a"} brought {"data":{"x":1}}
            s-1: Assistant said "Written."
            s-1: User said "write it"
            s-1: effect-1 told again
            s-1: the user begins
            s-1: User said "write it"
            s-1: question-1 about write Open
            s-1: call-3 write {"text":"a"} brought {"message":"write was done before, at 2026-11-18T11:06:40.000Z with {\"text\":\"a\"}. It was not done again: the user is being asked whether to do it once more"}
        "#]],
    );
}

#[test]
fn the_end_of_a_spoken_turn_is_an_onset_where_nothing_was_heard() {
    check(
        Mode::Voice,
        expect![[r#"
            > spoken
            to model: audio ended
            turn 1 started
            > says Yes?
            client: ModelGenerating
            client: Assistant piece "Yes?"
            > done
            client: Assistant said "Yes?"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > spoken
            to model: audio ended
            turn 2 started
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: Assistant said "Yes?"
            s-1: the user begins
        "#]],
    );
}
