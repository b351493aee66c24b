//! What a model asks for that may not have read yet what came of it: no second wish before its turn with that is over.

use crate::harness::{check, check_from_the_beginning};
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn the_first_words_behind_a_result_of_a_lost_connection_are_no_second_wish() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > generated
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "write it"
            to model: late write ok {"x":1}
            > text did it work?
            turn 2 started
            to model: text "did it work?"
            > calls function-call-2 write {"text":"a"}
            answered effect-1
            client: ModelGenerating
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says Yes.
            answered effect-1
            client: Assistant piece "Yes."
            > generated
            > done
            client: Assistant said "Yes."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 2 }
            > text write it again
            turn 3 started
            to model: text "write it again"
            > calls function-call-3 write {"text":"a"}
            client: ModelGenerating
            reserve call-3 write
            start call-3 write (effect-2) {"text":"a"}
        "#]],
    );
}

#[test]
fn words_behind_what_the_model_said_of_a_result_of_a_lost_connection_are_a_second_wish() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > generated
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "write it"
            to model: late write ok {"x":1}
            > says It is written.
            client: Assistant piece "It is written."
            > generated
            > done
            client: ModelGenerating
            client: Assistant said "It is written."
            client: TurnComplete { turn: 1 }
            > text write it again
            turn 2 started
            to model: text "write it again"
            > calls function-call-2 write {"text":"a"}
            answered effect-1
            client: ModelGenerating
            reserve call-2 write
            start call-2 write (effect-2) {"text":"a"}
        "#]],
    );
}

#[test]
fn a_pair_of_wishes_behind_a_result_that_nobody_heard_is_one_repeat() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > generated
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "write it"
            to model: late write ok {"x":1}
            > text what ship is this?
            turn 2 started
            to model: text "what ship is this?"
            > calls function-call-2 write {"text":"a"} + function-call-3 write {"text":"a"}
            answered effect-1
            client: ModelGenerating
            call-2 is a repeat: SameEffectFinished
            call-3 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1} + function-call-3 ok {"x":1}
            client: ToolsComplete { tool_count: 2 }
            > calls function-call-4 write {"text":"a"}
            call-4 is a repeat: SameEffectFinished
            to model: function-call-4 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says It is written.
            answered effect-1
            client: Assistant piece "It is written."
            > generated
            > done
            client: Assistant said "It is written."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 3
            client: TurnComplete { turn: 2 }
            > text write it again
            turn 3 started
            to model: text "write it again"
            > calls function-call-5 write {"text":"a"}
            client: ModelGenerating
            reserve call-5 write
            start call-5 write (effect-2) {"text":"a"}
        "#]],
    );
}

#[test]
fn a_pair_of_wishes_behind_a_result_that_was_put_off_by_a_kill_is_one_repeat() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > killed
            read ledger
            > back
            > connected 1
            > text what ship is this?
            > ready
            to model: text "write it"
            to model: text "what ship is this?"
            > calls function-call-2 write {"text":"a"} + function-call-3 write {"text":"a"}
            client: ModelGenerating
            call-3 is a repeat: SameEffectFinished
            call-4 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1} + function-call-3 ok {"x":1}
            client: ToolsComplete { tool_count: 2 }
            > calls function-call-4 write {"text":"a"}
            call-5 is a repeat: SameEffectFinished
            to model: function-call-4 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says It is written.
            answered effect-1
            client: Assistant piece "It is written."
            > generated
            > done
            client: Assistant said "It is written."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 3
            client: TurnComplete { turn: 1 }
            > text write it again
            turn 2 started
            to model: text "write it again"
            > calls function-call-5 write {"text":"a"}
            client: ModelGenerating
            reserve call-6 write
            start call-6 write (effect-2) {"text":"a"}
        "#]],
    );
}

#[test]
fn a_question_that_is_put_again_behind_a_word_of_the_answer_wishes_for_nothing_anew() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > audio
            answered effect-1
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "write it"
            > text hello?
            to model: text "hello?"
            > calls other-call-1 write {"text":"a"}
            client: ModelGenerating
            call-2 is a repeat: SameEffectFinished
            to model: other-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > audio
            answered effect-1
            > generated
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > text write it again
            turn 2 started
            to model: text "write it again"
            > calls other-call-2 write {"text":"a"}
            client: ModelGenerating
            reserve call-3 write
            start call-3 write (effect-2) {"text":"a"}
        "#]],
    );
}

#[test]
fn a_question_that_is_put_again_after_a_kill_wishes_for_nothing_anew() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > audio
            answered effect-1
            > killed
            read ledger
            > connected 1
            > ready
            to model: text "write it"
            > back
            > text hello?
            to model: text "hello?"
            > calls other-call-1 write {"text":"a"}
            client: ModelGenerating
            call-2 is a repeat: SameEffectFinished
            to model: other-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > audio
            answered effect-1
            > generated
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > text write it again
            turn 2 started
            to model: text "write it again"
            > calls other-call-2 write {"text":"a"}
            client: ModelGenerating
            reserve call-3 write
            start call-3 write (effect-2) {"text":"a"}
        "#]],
    );
}

#[test]
fn what_the_model_was_to_hear_before_an_approval_is_not_told_behind_what_came_of_it() {
    check_from_the_beginning(
        Mode::Voice,
        expect![[r#"
            > ledger unknown effect-7 write {"text":"a"}
            > connected 1
            > ready
            > text write it
            turn 1 started
            to model: text "write it"
            > lookup finds no answer
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            look up effect-7 of write
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "write it"
            > wait 5000
            abort call-1
            propose call-1 write
            call-1 rejected OutcomeUnknown
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Run write" warned "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            > confirm token-1
            call-1 Approved
            reserve call-1 write as effect-7 with token-1
            start call-1 write (effect-7) {"text":"a"}
            > returns 1 {"x":1}
            record effect-7 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
            > says Done.
            client: ModelGenerating
            client: Assistant piece "Done."
            > generated
            > done
            client: Assistant said "Done."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: notice "(A message of the system, not of the user.) The user approved the call of write, and it has run. Its result: {\"data\":{\"x\":1},\"status\":\"success\"}"
            > wait 1000
        "#]],
    );
}
