//! What the user says while the model answers: no connection that ends and no process that is killed loses it.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn words_that_interrupt_an_answer_are_put_to_the_next_connection() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears who built Fram
            turn 1 started
            client: User piece "who built Fram"
            > says Colin
            client: User said "who built Fram"
            client: ModelGenerating
            client: Assistant piece "Colin"
            > hears and when
            client: User piece "and when"
            > interrupted
            discard audio
            client: Interrupted
            client: Assistant said "Colin"
            client: User said "and when"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            turn 2 started
            > lost 1
            accept audio
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "who built Fram / Colin"
            to model: text "and when"
            > says 1892.
            client: ModelGenerating
            client: Assistant piece "1892."
            > generated
            > done
            client: Assistant said "1892."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}

#[test]
fn words_during_which_the_model_went_on_are_of_the_turn_that_they_begin() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears who built Fram
            turn 1 started
            client: User piece "who built Fram"
            > says Colin
            client: User said "who built Fram"
            client: ModelGenerating
            client: Assistant piece "Colin"
            > hears and when
            client: User piece "and when"
            > says Archer,
            client: User said "and when"
            client: Assistant piece "Archer,"
            > interrupted
            discard audio
            client: Interrupted
            client: Assistant said "ColinArcher,"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            turn 2 started
            > hears was that
            client: User piece "was that"
            > lost 1
            accept audio
            client: User said "was that"
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "who built Fram / ColinArcher,"
            to model: text "and when\nwas that"
        "#]],
    );
}

#[test]
fn the_end_of_an_interrupted_answer_is_no_answer_to_what_interrupted_it() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears who built Fram
            turn 1 started
            client: User piece "who built Fram"
            > says Colin
            client: User said "who built Fram"
            client: ModelGenerating
            client: Assistant piece "Colin"
            > hears and when
            client: User piece "and when"
            > interrupted
            discard audio
            client: Interrupted
            client: Assistant said "Colin"
            client: User said "and when"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            turn 2 started
            > generated
            accept audio
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "who built Fram / Colin"
            to model: text "and when"
        "#]],
    );
}

#[test]
fn text_that_was_typed_into_an_answer_is_asked_again_when_it_had_no_answer() {
    check(
        Mode::Voice,
        expect![[r#"
            > text who built Fram
            turn 1 started
            to model: text "who built Fram"
            > says Colin Archer.
            client: ModelGenerating
            client: Assistant piece "Colin Archer."
            > text and when
            to model: text "and when"
            > done
            client: Assistant said "Colin Archer."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            turn 2 started
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "who built Fram / Colin Archer."
            to model: text "and when"
            > says 1892.
            client: ModelGenerating
            client: Assistant piece "1892."
            > generated
            > done
            client: Assistant said "1892."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            > lost 2
            client: Reconnecting { attempt: 1 }
            connect 3, history follows
            > connected 3
            > ready
            client: Reconnected
            to model: history "who built Fram / and when / Colin Archer. / 1892."
        "#]],
    );
}

#[test]
fn text_that_was_typed_behind_the_answer_is_asked_again_alone() {
    check(
        Mode::Voice,
        expect![[r#"
            > text who built Fram
            turn 1 started
            to model: text "who built Fram"
            > says Colin Archer.
            client: ModelGenerating
            client: Assistant piece "Colin Archer."
            > generated
            > text and when
            to model: text "and when"
            > handle h-1
            > lost 1
            client: Assistant said "Colin Archer."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            turn 2 started
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > resumed 2
            > wait 30000
            > ready
            client: Reconnected
            to model: history "Colin Archer."
            to model: text "and when"
            > says 1892.
            client: ModelGenerating
            client: Assistant piece "1892."
            > done
            client: Assistant said "1892."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            > wait 30000
        "#]],
    );
}

#[test]
fn text_that_was_typed_into_half_an_answer_joins_its_question() {
    check(
        Mode::Voice,
        expect![[r#"
            > text who built Fram
            turn 1 started
            to model: text "who built Fram"
            > says Colin
            client: ModelGenerating
            client: Assistant piece "Colin"
            > text and when
            to model: text "and when"
            > lost 1
            client: Assistant said "Colin"
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "who built Fram\nand when"
            > says Colin Archer, in 1892.
            client: ModelGenerating
            client: Assistant piece "Colin Archer, in 1892."
            > generated
            > done
            client: Assistant said "Colin Archer, in 1892."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > wait 30000
            > text thanks
            turn 2 started
            to model: text "thanks"
            > lost 2
            client: Reconnecting { attempt: 1 }
            connect 3, history follows
            > connected 3
            > ready
            client: Reconnected
            to model: history "who built Fram / and when / Colin / Colin Archer, in 1892."
            to model: text "thanks"
        "#]],
    );
}

#[test]
fn a_connection_that_is_left_takes_no_words_with_it() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > text who built Fram
            turn 1 started
            to model: text "who built Fram"
            > says Colin Archer.
            client: ModelGenerating
            client: Assistant piece "Colin Archer."
            > generated
            > goaway 5500
            > text and when
            to model: text "and when"
            > wait 500
            client: Assistant said "Colin Archer."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            turn 2 started
            connect 2 with h-1
            > resumed 2
            > ready
            to model: history "who built Fram / Colin Archer."
            to model: text "and when"
        "#]],
    );
}

#[test]
fn a_kill_loses_no_words_that_interrupted_an_answer() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears who built Fram
            turn 1 started
            client: User piece "who built Fram"
            > says Colin
            client: User said "who built Fram"
            client: ModelGenerating
            client: Assistant piece "Colin"
            > hears and when
            client: User piece "and when"
            > interrupted
            discard audio
            client: Interrupted
            client: Assistant said "Colin"
            client: User said "and when"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            turn 2 started
            > killed
            > connected 1
            > ready
            to model: history "who built Fram / Colin"
            to model: text "and when"
            > says 1892.
            client: ModelGenerating
            client: Assistant piece "1892."
            > generated
            > done
            client: Assistant said "1892."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            > killed
            > connected 1
            > ready
            to model: history "who built Fram / Colin / and when / 1892."
        "#]],
    );
}

#[test]
fn a_kill_loses_no_text_that_was_typed_into_an_answer() {
    check(
        Mode::Voice,
        expect![[r#"
            > text who built Fram
            turn 1 started
            to model: text "who built Fram"
            > says Colin Archer.
            client: ModelGenerating
            client: Assistant piece "Colin Archer."
            > text and when
            to model: text "and when"
            > done
            client: Assistant said "Colin Archer."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            turn 2 started
            > killed
            > connected 1
            > ready
            to model: history "who built Fram / Colin Archer."
            to model: text "and when"
            > says 1892.
            client: ModelGenerating
            client: Assistant piece "1892."
            > generated
            > text and where
            to model: text "and where"
            > killed
            > connected 1
            > ready
            to model: history "who built Fram / and when / Colin Archer."
            to model: text "and where"
            > says In
            client: ModelGenerating
            client: Assistant piece "In"
            > text and how
            to model: text "and how"
            > killed
            > connected 1
            > ready
            to model: history "who built Fram / and when / Colin Archer."
            to model: text "and where\nand how"
            > says Larvik, of oak.
            client: ModelGenerating
            client: Assistant piece "Larvik, of oak."
            > done
            client: Assistant said "Larvik, of oak."
            turn 3 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 3 }
            > text thanks
            turn 4 started
            to model: text "thanks"
        "#]],
    );
}

#[test]
fn a_kill_loses_no_text_that_was_typed_while_the_provider_was_away() {
    check(
        Mode::Voice,
        expect![[r#"
            > text hello
            turn 1 started
            to model: text "hello"
            > says Good day.
            client: ModelGenerating
            client: Assistant piece "Good day."
            > generated
            > done
            client: Assistant said "Good day."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > text who built Fram
            > sends m-2 and when
            > killed
            > connected 1
            > ready
            to model: history "hello / Good day."
            turn 2 started
            to model: text "who built Fram"
            to model: text "and when"
            > says Colin Archer, in 1892.
            client: ModelGenerating
            client: Assistant piece "Colin Archer, in 1892."
            > done
            client: Assistant said "Colin Archer, in 1892."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}
