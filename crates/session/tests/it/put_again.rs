//! Questions to which the model had no time to say a word when its connection ended: they are put again, or the refusal is told.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::model::{CallSupport, ModelProfile};
use windlass_session::session::SessionConfig;

/// A model that goes on speaking while its calls run.
fn never_waits(config: &mut SessionConfig) {
    config.profile = Arc::new(ModelProfile {
        calls: CallSupport::NonBlockingOnly,
        ..(*config.profile).clone()
    });
}

#[test]
fn a_question_whose_call_was_refused_is_put_again_where_the_model_had_no_time_for_words() {
    check(
        Mode::Voice,
        expect![[r#"
            > text who designed the Fram?
            turn 1 started
            to model: text "who designed the Fram?"
            > calls function-call-1 search {"query":""}
            client: ModelGenerating
            call-1 rejected Validation
            to model: function-call-1 VALIDATION /query: must be at least 1 characters long
            client: ToolsComplete { tool_count: 1 }
            > generated
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "who designed the Fram?"
        "#]],
    );
}

#[test]
fn a_question_whose_call_was_answered_is_put_again_where_the_model_had_no_time_for_words() {
    check(
        Mode::Voice,
        expect![[r#"
            > text who designed the Fram?
            turn 1 started
            to model: text "who designed the Fram?"
            > calls function-call-1 look {}
            client: ModelGenerating
            start call-1 look {}
            > generated
            > returns 1 {"found":1}
            call-1 finished
            to model: function-call-1 ok {"found":1}
            client: ToolsComplete { tool_count: 1 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "who designed the Fram?"
            > audio
            client: ModelGenerating
            > says Colin Archer.
            client: Assistant piece "Colin Archer."
            > generated
            > done
            client: Assistant said "Colin Archer."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: late look ok {"found":1}
        "#]],
    );
}

#[test]
fn a_question_whose_call_runs_is_put_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > text who designed the Fram?
            turn 1 started
            to model: text "who designed the Fram?"
            > calls function-call-1 look {}
            client: ModelGenerating
            start call-1 look {}
            > generated
            > killed
            > connected 1
            > ready
            to model: text "who designed the Fram?"
        "#]],
    );
}

#[test]
fn words_before_the_call_are_not_the_answer_and_words_after_it_are() {
    check(
        Mode::Voice,
        expect![[r#"
            > text who designed the Fram?
            turn 1 started
            to model: text "who designed the Fram?"
            > says Let me see.
            client: ModelGenerating
            client: Assistant piece "Let me see."
            > calls function-call-1 search {"query":""}
            call-1 rejected Validation
            to model: function-call-1 VALIDATION /query: must be at least 1 characters long
            client: ToolsComplete { tool_count: 1 }
            > generated
            > lost 1
            client: Assistant said "Let me see."
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "who designed the Fram?"
            > calls function-call-2 search {"query":""}
            client: ModelGenerating
            call-2 rejected Validation
            to model: function-call-2 VALIDATION /query: must be at least 1 characters long
            client: ToolsComplete { tool_count: 1 }
            > generated
            > audio
            client: ModelGenerating
            > says Colin Archer.
            client: Assistant piece "Colin Archer."
            > generated
            > lost 2
            client: Assistant said "Colin Archer."
            turn 1 ended: calls 2 retrieval 0 refusals 2 repeats 0
            client: TurnComplete { turn: 1 }
            client: Reconnecting { attempt: 2 }
            > wait 1000
            connect 3, history follows
            > connected 3
            > ready
            client: Reconnected
            to model: history "who designed the Fram? / Let me see. / Colin Archer."
        "#]],
    );
}

#[test]
fn a_refusal_that_ended_a_turn_is_told_to_the_next_connection() {
    check_with(
        Mode::Voice,
        never_waits,
        expect![[r#"
            > text who designed the Fram?
            turn 1 started
            to model: text "who designed the Fram?"
            > calls function-call-1 search {"query":""}
            client: ModelGenerating
            call-1 rejected Validation
            to model: function-call-1 WhenIdle VALIDATION /query: must be at least 1 characters long
            client: ToolsComplete { tool_count: 1 }
            > generated
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "who designed the Fram?"
            to model: late search VALIDATION /query: must be at least 1 characters long
            > text never mind
            turn 2 started
            to model: text "never mind"
            > lost 2
            client: Reconnecting { attempt: 2 }
            > wait 1000
            connect 3, history follows
            > connected 3
            > ready
            client: Reconnected
            to model: history "who designed the Fram?"
            to model: text "never mind"
        "#]],
    );
}

#[test]
fn a_failure_that_answers_a_call_here_is_not_told_once_more_for_one_of_an_earlier_connection() {
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
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "order it"
            > calls other-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectRunning
            > returns 1 clean_transient
            record effect-1 Failed
            call-1 finished Transient
            client: ToolsComplete { tool_count: 1 }
            request call-2 write
            start call-2 write (effect-1) {"text":"a"}
            > returns 2 permanent
            record effect-1 Failed
            call-2 finished Permanent
            to model: other-call-1 PERMANENT it failed
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > wait 1000
        "#]],
    );
}

#[test]
fn a_repeat_under_an_id_that_was_taken_back_leaves_its_result_to_be_told() {
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
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 1 }
            > ready
            client: Reconnected
            to model: text "write it"
            > cancel other-call-1
            > calls other-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            client: ToolsComplete { tool_count: 1 }
            > says One moment.
            client: Assistant piece "One moment."
            > generated
            > done
            client: Assistant said "One moment."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            to model: late write ok {"x":1}
            > wait 1000
        "#]],
    );
}

#[test]
fn a_call_that_waited_behind_another_is_not_run_once_its_connection_is_gone() {
    check(
        Mode::Voice,
        expect![[r#"
            > text write both
            turn 1 started
            to model: text "write both"
            > calls function-call-1 write {"text":"a"} + function-call-2 write {"text":"b"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > lost 1
            call-2 cancelled
            client: Reconnecting { attempt: 1 }
            connect 2
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 2 }
            > connected 2
            > ready
            client: Reconnected
            to model: text "write both"
            > calls function-call-3 write {"text":"B!"}
            client: ModelGenerating
            request call-3 write
            call-3 rejected ConfirmationRequired
            to model: function-call-3 CONFIRMATION_REQUIRED write was done before, at 2026-11-18T11:06:40.000Z with {"text":"a"}. It was not done again: the user is being asked whether to do it once more
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-1 {"text":"B!"} warned "This was done before, at 2026-11-18T11:06:40.000Z, with {\"text\":\"a\"}. If you approve it, it is done once more."
        "#]],
    );
}

#[test]
fn a_call_that_is_not_run_any_more_is_told_of_where_its_question_is_not_put_again() {
    check_with(
        Mode::Voice,
        never_waits,
        expect![[r#"
            > text write both
            turn 1 started
            to model: text "write both"
            > calls function-call-1 write {"text":"a"} + function-call-2 write {"text":"b"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > says I am at it.
            client: Assistant piece "I am at it."
            > generated
            > done
            client: Assistant said "I am at it."
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > lost 1
            call-2 cancelled
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > returns 1 {"x":1}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 2 }
            > connected 2
            > ready
            client: Reconnected
            to model: history "write both / I am at it."
            to model: late write CANCELLED write was taken back + write ok {"x":1}
        "#]],
    );
}
