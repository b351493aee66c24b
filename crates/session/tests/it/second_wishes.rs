//! What counts as a word of the user's since a change was asked for, where the change is one of an earlier session, or where the
//! same message comes again.

use crate::harness::{Bench, check};
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn a_message_that_comes_again_in_another_session_is_no_second_wish() {
    check(
        Mode::Text,
        expect![[r#"
            > ledger succeeded:m-1 effect-7 write {"text":"a"}
            > sends m-1 write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            call-1 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"kept":true}
            client: ToolsComplete { tool_count: 1 }
            > says Done.
            answered effect-7
            client: Assistant piece "Done."
            > generated
            > done
            client: Assistant said "Done."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > sends m-2 write it again
            turn 2 started
            to model: text "write it again"
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            reserve call-2 write
            start call-2 write (effect-1) {"text":"a"}
        "#]],
    );
}

#[test]
fn a_message_that_is_to_be_answered_anew_is_no_second_wish() {
    check(
        Mode::Text,
        expect![[r#"
            > sends m-1 write it
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
            > says Done.
            answered effect-1
            client: Assistant piece "Done."
            > generated
            > done
            client: Assistant said "Done."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > sends m-1 write it
            turn 2 started
            to model: text "write it"
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says Done.
            answered effect-1
            client: Assistant piece "Done."
            > generated
            > done
            client: Assistant said "Done."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 2 }
            > text write it
            turn 3 started
            to model: text "write it"
            > calls function-call-3 write {"text":"a"}
            client: ModelGenerating
            reserve call-3 write
            start call-3 write (effect-2) {"text":"a"}
        "#]],
    );
}

#[test]
fn a_word_of_the_user_that_came_before_the_ledger_was_read_is_one_since() {
    let (mut bench, _) = Bench::unread(Mode::Voice, |_| {});
    for line in ["connected 1", "ready", "text write it again"] {
        bench.line(line);
    }
    bench.line(r#"ledger succeeded effect-7 write {"text":"a"}"#);
    let said = bench.line(r#"calls function-call-1 write {"text":"a"}"#);
    assert!(said.contains("start call-1 write"), "{said}");
}

#[test]
fn a_second_wish_is_one_after_a_restart_too() {
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
            > says Done.
            answered effect-1
            client: Assistant piece "Done."
            > done
            client: Assistant said "Done."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text write it again
            turn 2 started
            to model: text "write it again"
            > killed
            read ledger
            > connected 1
            > ready
            to model: history "write it / Done."
            to model: text "write it again"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-2 write
            start call-2 write (effect-2) {"text":"a"}
        "#]],
    );
}

#[test]
fn what_was_made_in_the_turn_that_a_restart_cut_off_is_not_made_again() {
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
            > says I have
            answered effect-1
            client: Assistant piece "I have"
            > killed
            read ledger
            > connected 1
            > ready
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            call-2 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > says Done.
            answered effect-1
            client: Assistant piece "Done."
            > done
            client: Assistant said "Done."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > text write it again
            turn 2 started
            to model: text "write it again"
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            reserve call-3 write
            start call-3 write (effect-2) {"text":"a"}
        "#]],
    );
}
