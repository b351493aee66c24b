//! What the model has heard: an answer counts once the model has produced something that can follow it, and what does not count
//! is told again.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::model::{AnswerBatching, CallSupport, ModelProfile};
use windlass_session::session::SessionConfig;

/// A model that goes on speaking while its calls run.
fn never_waits(config: &mut SessionConfig) {
    config.profile = Arc::new(ModelProfile {
        calls: CallSupport::NonBlockingOnly,
        ..(*config.profile).clone()
    });
}

/// Each answer goes out as it is ready.
fn at_once(config: &mut SessionConfig) {
    config.profile = Arc::new(ModelProfile {
        answers: AnswerBatching::AsReady,
        ..(*config.profile).clone()
    });
}

#[test]
fn the_end_of_the_message_that_asked_is_no_reaction_to_its_answer() {
    check_with(
        Mode::Voice,
        never_waits,
        expect![[r#"
            > text order it
            turn 1 started
            to model: text "order it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 WhenIdle ok {"ordered":1}
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
            to model: history "order it"
            to model: late write ok {"ordered":1}
            > audio
            heard effect-1
            client: ModelGenerating
            > says It is ordered.
            client: Assistant piece "It is ordered."
            > generated
            > done
            client: Assistant said "It is ordered."
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_result_that_was_not_reacted_to_is_told_to_the_session_that_takes_its_place() {
    check_with(
        Mode::Voice,
        never_waits,
        expect![[r#"
            > text order it
            turn 1 started
            to model: text "order it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 WhenIdle ok {"ordered":1}
            client: ToolsComplete { tool_count: 1 }
            > generated
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > killed
            > connected 1
            > ready
            to model: history "order it"
            to model: late write ok {"ordered":1}
            > audio
            heard effect-1
            turn 2 started
            client: ModelGenerating
        "#]],
    );
}

#[test]
fn what_the_model_says_before_its_message_is_over_is_no_reaction() {
    check_with(
        Mode::Voice,
        never_waits,
        expect![[r#"
            > text order it
            turn 1 started
            to model: text "order it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 WhenIdle ok {"ordered":1}
            client: ToolsComplete { tool_count: 1 }
            > audio
            > says I am ordering it.
            client: Assistant piece "I am ordering it."
            > generated
            > says Just a moment.
            client: ModelGenerating
            client: Assistant piece "Just a moment."
            > done
            client: Assistant said "I am ordering it.Just a moment."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > says So.
            client: Assistant piece "So."
            > lost 1
            client: Assistant said "So."
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "order it / I am ordering it.Just a moment. / So."
            to model: late write ok {"ordered":1}
            > calls function-call-2 write {"text":"a"}
            heard effect-1
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 WhenIdle ok {"ordered":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_the_model_says_in_its_next_message_is_a_reaction() {
    check_with(
        Mode::Voice,
        never_waits,
        expect![[r#"
            > text order it
            turn 1 started
            to model: text "order it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 WhenIdle ok {"ordered":1}
            client: ToolsComplete { tool_count: 1 }
            > generated
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > audio
            heard effect-1
            client: ModelGenerating
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "order it"
        "#]],
    );
}

#[test]
fn what_is_left_of_an_interrupted_answer_is_no_reaction() {
    check_with(
        Mode::Voice,
        never_waits,
        expect![[r#"
            > text order it
            turn 1 started
            to model: text "order it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 WhenIdle ok {"ordered":1}
            client: ToolsComplete { tool_count: 1 }
            > audio
            > hears wait
            client: User piece "wait"
            > interrupted
            discard audio
            client: Interrupted
            client: User said "wait"
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            turn 2 started
            > audio
            > done
            accept audio
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "order it"
            to model: text "wait"
            > done
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            to model: late write ok {"ordered":1}
        "#]],
    );
}

#[test]
fn a_silent_result_has_arrived_once_the_model_speaks_of_anything() {
    check_with(
        Mode::Voice,
        never_waits,
        expect![[r#"
            > text order it
            turn 1 started
            to model: text "order it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 Silent {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 Silent ok {"ordered":1}
            client: ToolsComplete { tool_count: 1 }
            > generated
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text who are you?
            turn 2 started
            to model: text "who are you?"
            > audio
            client: ModelGenerating
            > done
            heard effect-1
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}

#[test]
fn a_silent_result_that_may_not_have_arrived_is_answered_from_the_record() {
    check_with(
        Mode::Voice,
        never_waits,
        expect![[r#"
            > text order it
            turn 1 started
            to model: text "order it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 Silent {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 Silent ok {"ordered":1}
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
            to model: history "order it"
            > text did it work?
            turn 2 started
            to model: text "did it work?"
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 WhenIdle ok {"ordered":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_model_that_waits_for_its_result_reacts_by_whatever_it_says_next() {
    check(
        Mode::Voice,
        expect![[r#"
            > text order it
            turn 1 started
            to model: text "order it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"ordered":1}
            client: ToolsComplete { tool_count: 1 }
            > says It is
            client: Assistant piece "It is"
            > done
            client: Assistant said "It is"
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn further_calls_of_one_message_are_no_reaction_to_the_first_answer() {
    check_with(
        Mode::Voice,
        at_once,
        expect![[r#"
            > text order it
            turn 1 started
            to model: text "order it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"ordered":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {}
            start call-2 look {}
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "order it"
            > text did it work?
            to model: text "did it work?"
            > calls function-call-3 write {"text":"a"}
            client: ModelGenerating
            request call-3 write
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 ok {"ordered":1} (This was done before, at 2026-11-18T11:06:40.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_model_that_is_asked_the_question_anew_has_not_heard_what_was_done_for_it() {
    check(
        Mode::Voice,
        expect![[r#"
            > text order it
            turn 1 started
            to model: text "order it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"ordered":1}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 look {}
            start call-2 look {}
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "order it"
            > calls function-call-3 write {"text":"in other words"}
            client: ModelGenerating
            request call-3 write
            call-3 rejected ConfirmationRequired
            to model: function-call-3 CONFIRMATION_REQUIRED write was done before, at 2026-11-18T11:06:40.000Z with {"text":"a"}. It was not done again: the user is being asked whether to do it once more
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-1 {"text":"in other words"} warned "This was done before, at 2026-11-18T11:06:40.000Z, with {\"text\":\"a\"}. If you approve it, it is done once more."
            > says It is ordered.
            client: Assistant piece "It is ordered."
            > done
            client: Assistant said "It is ordered."
            turn 1 ended: calls 3 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            to model: late write ok {"ordered":1}
        "#]],
    );
}

#[test]
fn an_answer_that_waits_for_others_is_heard_after_those() {
    check(
        Mode::Voice,
        expect![[r#"
            > text order it
            turn 1 started
            to model: text "order it"
            > calls function-call-1 write {"text":"a"} + function-call-2 look {}
            client: ModelGenerating
            request call-1 write
            start call-2 look {}
            start call-1 write (effect-1) {"text":"a"}
            > returns 1 {"ordered":1}
            record effect-1 Succeeded
            call-1 finished
            > audio
            > returns 2 {"seen":1}
            call-2 finished
            to model: function-call-1 ok {"ordered":1} + function-call-2 ok {"seen":1}
            client: ToolsComplete { tool_count: 2 }
            > audio
            > done
            heard effect-1
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
        "#]],
    );
}
