//! Calls that outlive their connection, and clients that go and come back.

use crate::harness::{check, check_with};
use expect_test::expect;
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::model::{AnswerBatching, ModelProfile};

#[test]
fn a_result_whose_connection_is_gone_is_told_as_text_once_neither_side_speaks() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > hears look it up
            turn 1 started
            client: User piece "look it up"
            > calls function-call-1 look {}
            client: User said "look it up"
            client: ModelGenerating
            start call-1 look {}
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > returns 1 {"found":1}
            call-1 finished
            client: ToolsComplete { tool_count: 1 }
            > resumed 2
            > ready
            client: Reconnected
            to model: text "look it up"
            > says Let me see.
            client: ModelGenerating
            client: Assistant piece "Let me see."
            > generated
            > done
            client: Assistant said "Let me see."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: late look ok {"found":1}
            > says Found.
            client: Assistant piece "Found."
            > done
            client: ModelGenerating
            client: Assistant said "Found."
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_model_that_asks_again_first_has_its_answer_by_that() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > hears look it up
            turn 1 started
            client: User piece "look it up"
            > calls function-call-1 look {}
            client: User said "look it up"
            client: ModelGenerating
            start call-1 look {}
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > resumed 2
            > ready
            client: Reconnected
            to model: text "look it up"
            > calls function-call-2 look {}
            client: ModelGenerating
            start call-2 look {}
            > returns 2 {"found":1}
            call-2 finished
            to model: function-call-2 ok {"found":1}
            client: ToolsComplete { tool_count: 1 }
            > says Found.
            client: Assistant piece "Found."
            > returns 1 {"found":1}
            call-1 finished
            client: ToolsComplete { tool_count: 1 }
            > generated
            > done
            client: Assistant said "Found."
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_change_that_was_begun_before_a_loss_happens_once_and_answers_the_new_call() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > hears write it
            turn 1 started
            client: User piece "write it"
            > calls function-call-1 write {}
            client: User said "write it"
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {}
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > resumed 2
            > ready
            client: Reconnected
            to model: text "write it"
            > calls function-call-2 write {}
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectRunning
            > returns 1 {"id":7}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 1 }
            request call-2 write
            to model: function-call-2 ok {"id":7} (This was done before, at 2026-11-18T11:06:40.000Z, with {}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > says Written.
            client: Assistant piece "Written."
            > generated
            > done
            client: Assistant said "Written."
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_change_that_was_finished_before_the_model_asks_again_is_answered_from_the_record() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > hears write it
            turn 1 started
            client: User piece "write it"
            > calls function-call-1 write {}
            client: User said "write it"
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {}
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > returns 1 {"id":7}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 1 }
            > resumed 2
            > ready
            client: Reconnected
            to model: text "write it"
            > calls function-call-2 write {}
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"id":7} (This was done before, at 2026-11-18T11:06:40.000Z, with {}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > says Written.
            client: Assistant piece "Written."
            > generated
            > done
            client: Assistant said "Written."
            heard effect-1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn an_answer_that_was_sent_and_not_reacted_to_counts_as_lost() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > hears write it
            turn 1 started
            client: User piece "write it"
            > calls function-call-1 write {}
            client: User said "write it"
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {}
            > returns 1 {"id":7}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"id":7}
            client: ToolsComplete { tool_count: 1 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > resumed 2
            > ready
            client: Reconnected
            to model: text "write it"
            > says I will write it.
            client: ModelGenerating
            client: Assistant piece "I will write it."
            > generated
            > done
            client: Assistant said "I will write it."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: late write ok {"id":7}
        "#]],
    );
}

#[test]
fn calls_that_wait_when_the_connection_is_lost_are_not_run() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > hears write twice
            turn 1 started
            client: User piece "write twice"
            > calls function-call-1 write {"text":"a"} + function-call-2 write {"text":"b"}
            client: User said "write twice"
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > lost 1
            call-2 cancelled
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > returns 1 {"id":7}
            record effect-1 Succeeded
            call-1 finished
            client: ToolsComplete { tool_count: 2 }
            > resumed 2
            > ready
            client: Reconnected
            to model: text "write twice"
        "#]],
    );
}

#[test]
fn a_model_that_says_nothing_to_a_result_is_nudged_only_where_configured_and_once() {
    check_with(
        Mode::Voice,
        |config| {
            let limits = Arc::make_mut(&mut config.limits);
            limits.result_nudges_max = 1;
        },
        expect![[r#"
            > hears look it up
            turn 1 started
            client: User piece "look it up"
            > calls function-call-1 look {}
            client: User said "look it up"
            client: ModelGenerating
            start call-1 look {}
            > returns 1 {"found":1}
            call-1 finished
            to model: function-call-1 ok {"found":1}
            client: ToolsComplete { tool_count: 1 }
            > wait 8000
            provider silent after a result
            to model: text "The result of your tool call has arrived. Please go on."
            > wait 8000
            > wait 8000
        "#]],
    );
}

#[test]
fn a_client_that_comes_back_in_time_finds_its_session() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > gone
            > says Hi.
            client: User said "hello"
            client: ModelGenerating
            client: Assistant piece "Hi."
            > generated
            > done
            client: Assistant said "Hi."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > wait 59999
            > back
            > wait 1
            > hears and
            turn 2 started
            client: User piece "and"
            > stop
            client: User said "and"
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0 interrupted
            client: session complete, 3 transcripts
            client: Stopped
            session ended: Stopped
            close Stopped
        "#]],
    );
}

#[test]
fn a_client_that_stays_away_ends_its_session() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears hello
            turn 1 started
            client: User piece "hello"
            > gone
            > wait 59999
            client: error provider_silent: the model has said nothing for 30 seconds
            client: User said "hello"
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: resynchronize
            > wait 1
            client: session complete, 1 transcripts
            session ended: ClientLost
            close ClientLost
        "#]],
    );
}

#[test]
fn an_answer_that_was_heard_is_not_told_again_though_its_message_has_others_open() {
    check_with(
        Mode::Voice,
        |config| {
            config.profile = Arc::new(ModelProfile {
                answers: AnswerBatching::AsReady,
                ..(*config.profile).clone()
            });
        },
        expect![[r#"
            > handle h-1
            > hears look it up
            turn 1 started
            client: User piece "look it up"
            > calls function-call-1 look {} + function-call-2 slow {}
            client: User said "look it up"
            client: ModelGenerating
            start call-1 look {}
            start call-2 slow {}
            > returns 1 {"found":1}
            call-1 finished
            to model: function-call-1 ok {"found":1}
            > says Found.
            client: Assistant piece "Found."
            > lost 1
            client: Assistant said "Found."
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > resumed 2
            > ready
            client: Reconnected
            to model: text "look it up"
            > returns 2 {"found":2}
            call-2 finished
            client: ToolsComplete { tool_count: 2 }
            > says Well.
            client: ModelGenerating
            client: Assistant piece "Well."
            > generated
            > done
            client: Assistant said "Well."
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: late slow ok {"found":2}
        "#]],
    );
}

#[test]
fn a_silent_result_that_nobody_has_heard_of_is_not_spoken_of_after_a_loss() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > hears note it
            turn 1 started
            client: User piece "note it"
            > calls function-call-1 silent {}
            client: User said "note it"
            client: ModelGenerating
            start call-1 silent {}
            > returns 1 {"noted":1}
            call-1 finished
            to model: function-call-1 Silent ok {"noted":1}
            client: ToolsComplete { tool_count: 1 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > resumed 2
            > ready
            client: Reconnected
            to model: text "note it"
            > says Noted.
            client: ModelGenerating
            client: Assistant piece "Noted."
            > generated
            > done
            client: Assistant said "Noted."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn an_effect_that_answers_several_calls_is_told_once_after_a_loss() {
    check(
        Mode::Voice,
        expect![[r#"
            > handle h-1
            > hears write it
            turn 1 started
            client: User piece "write it"
            > calls function-call-1 write {}
            client: User said "write it"
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {}
            > returns 1 {"id":7}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"id":7}
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {} + function-call-3 write {}
            request call-2 write
            call-2 is a repeat: SameEffectFinished
            request call-3 write
            call-3 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"id":7} (This was done before, at 2026-11-18T11:06:40.000Z, with {}. Nothing further was done now.) + function-call-3 ok {"id":7} (This was done before, at 2026-11-18T11:06:40.000Z, with {}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 2 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2 with h-1
            > resumed 2
            > ready
            client: Reconnected
            to model: text "write it"
            > says Written.
            client: ModelGenerating
            client: Assistant piece "Written."
            > generated
            > done
            client: Assistant said "Written."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 2
            client: TurnComplete { turn: 1 }
            to model: late write ok {"id":7} (This was done before, at 2026-11-18T11:06:40.000Z, with {}. Nothing further was done now.)
        "#]],
    );
}

#[test]
fn a_result_that_comes_after_its_effect_was_looked_up_settles_nothing_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > calls function-call-1 send {"text":"a"}
            turn 1 started
            client: ModelGenerating
            request call-1 send
            start call-1 send (effect-1) {"text":"a"}
            > wait 5000
            abort call-1 (let it end)
            record effect-1 Unknown
            call-1 finished OutcomeUnknown
            call-1 took 5000 ms, over Tool 500
            call-1 took 5000 ms, over Turn 1500
            to model: function-call-1 OUTCOME_UNKNOWN send was started, and how it ended is not known
            client: ToolsComplete { tool_count: 1 }
            > lookup finds it happened {"found":true}
            > calls function-call-2 send {"text":"a"}
            request call-2 send
            look up effect-1 of send
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"found":true} (This was done before, at 2026-11-18T11:06:45.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > returns 1 {"x":1}
            call-1 returned late
            call-1 settled effect-1: true
            record effect-1 Succeeded
            > lost 1
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1 interrupted
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: late send ok {"found":true} (This was done before, at 2026-11-18T11:06:45.000Z, with {"text":"a"}. Nothing further was done now.)
        "#]],
    );
}
