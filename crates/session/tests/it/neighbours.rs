//! Two living sessions of one conversation: what the one changes the other hears of before it changes anything itself.

use crate::harness::{Bench, check};
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn a_chat_is_told_of_what_no_model_has_heard_before_the_users_next_words() {
    check(
        Mode::Text,
        expect![[r#"
            > text hello
            turn 1 started
            to model: text "hello"
            > says Hi.
            client: ModelGenerating
            client: Assistant piece "Hi."
            > generated
            > done
            client: Assistant said "Hi."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > wait 1000
            > changed elsewhere 0 unheard effect-7 write {"text":"a"}
            read ledger
            to model: late write ok {"kept":true}
            > text did it work
            turn 2 started
            to model: text "did it work"
            > calls function-call-1 write {"text":"a"}
            answered effect-7
            client: ModelGenerating
            call-2 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"kept":true}
            client: ToolsComplete { tool_count: 1 }
            > says It is written.
            answered effect-7
            client: Assistant piece "It is written."
            > generated
            > done
            client: Assistant said "It is written."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 2 }
            > text once more
            turn 3 started
            to model: text "once more"
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            reserve call-3 write
            start call-3 write (effect-1) {"text":"a"}
        "#]],
    );
}

#[test]
fn what_the_other_session_was_told_of_is_a_second_wish_once_the_user_has_spoken_since() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay it
            turn 1 started
            to model: text "pay it"
            > says I do.
            client: ModelGenerating
            client: Assistant piece "I do."
            > wait 1000
            > changed elsewhere 0 succeeded effect-7 pay {"text":"10"}
            read ledger
            > calls function-call-1 pay {"text":"10"}
            call-1 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"kept":true}
            client: ToolsComplete { tool_count: 1 }
            > generated
            > done
            client: Assistant said "I do."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > wait 1000
            > text and once more
            turn 2 started
            to model: text "and once more"
            > calls function-call-2 pay {"text":"10"}
            answered effect-7
            client: ModelGenerating
            propose call-2 pay
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Pay 10" warned "The same was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
        "#]],
    );
}

#[test]
fn words_that_came_after_the_change_are_words_since_though_it_is_heard_of_only_now() {
    check(
        Mode::Voice,
        expect![[r#"
            > wait 5000
            > text pay 10
            turn 1 started
            to model: text "pay 10"
            > wait 1000
            > changed elsewhere 3000 succeeded effect-7 pay {"text":"10"}
            read ledger
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10" warned "The same was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
        "#]],
    );
}

#[test]
fn nobody_is_told_by_voice_and_whoever_asks_gets_the_answer() {
    check(
        Mode::Voice,
        expect![[r#"
            > changed elsewhere 0 unheard effect-7 write {"text":"a"}
            read ledger
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            call-1 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"kept":true}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_the_other_session_is_at_is_looked_up_and_neither_done_again_nor_asked_about() {
    check(
        Mode::Text,
        expect![[r#"
            > lookup finds no answer
            > changed elsewhere 0 running effect-7 pay {"text":"10"}
            read ledger
            await effect-7 for call-1
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            look up effect-7 of pay
            > elsewhere 2 under way
            call-2 is a repeat: SameEffectFinished
            to model: function-call-1 OUTCOME_UNKNOWN pay was started by another session of this conversation and is still under way; ask again in a moment
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_change_waits_until_the_ledger_has_been_read_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > store slow
            > changed elsewhere 0 succeeded effect-7 write {"text":"a"}
            read ledger
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            > store up
            > ledger unheard effect-7 write {"text":"a"}
            call-1 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"kept":true}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_store_that_never_says_what_was_changed_is_asked_again() {
    check(
        Mode::Voice,
        expect![[r#"
            > text go
            turn 1 started
            to model: text "go"
            > store slow
            > changed elsewhere 0 unheard effect-7 write {"text":"a"}
            read ledger
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            > wait 10000
            call-1 finished Transient
            to model: function-call-1 TRANSIENT write was not started: the store does not answer
            client: ToolsComplete { tool_count: 1 }
            > store up
            > wait 1000
            read ledger
            > calls function-call-2 write {"text":"a"}
            call-2 is a repeat: SameEffectFinished
            to model: function-call-2 ok {"kept":true}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_question_about_what_was_approved_elsewhere_is_answered_with_what_came_of_it() {
    check(
        Mode::Text,
        expect![[r#"
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > says You are asked.
            client: Assistant piece "You are asked."
            > generated
            > done
            client: Assistant said "You are asked."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > wait 1000
            > changed elsewhere 0 succeeded effect-1 pay {"text":"10"}
            read ledger
            call-1 Withdrawn
            > confirm token-1
            client: confirmation result call-1 ok
            > text pay it again
            turn 2 started
            to model: text "pay it again"
            > calls function-call-2 pay {"text":"10"}
            client: ModelGenerating
            propose call-2 pay
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Pay 10" warned "The same was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
        "#]],
    );
}

#[test]
fn the_client_of_a_voice_session_is_not_asked_any_more_what_was_approved_elsewhere() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > wait 1000
            > changed elsewhere 0 succeeded effect-1 pay {"text":"10"}
            read ledger
            call-1 Withdrawn
            client: confirmation result call-1 ok
            > confirm token-1
            client: confirmation result call-1 ok
        "#]],
    );
}

#[test]
fn a_question_about_what_was_approved_elsewhere_and_runs_waits_for_it() {
    check(
        Mode::Text,
        expect![[r#"
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > says You are asked.
            client: Assistant piece "You are asked."
            > generated
            > done
            client: Assistant said "You are asked."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > wait 1000
            > changed elsewhere 0 running effect-1 pay {"text":"10"}
            read ledger
            call-1 Withdrawn
            await effect-1 for call-2
            > confirm token-1
            await effect-1 for call-1
        "#]],
    );
}

#[test]
fn a_yes_to_what_is_under_way_elsewhere_says_so_and_the_next_one_waits_for_it() {
    check(
        Mode::Voice,
        expect![[r#"
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > begun elsewhere effect-1
            > confirm token-1
            call-1 Approved
            reserve call-1 pay as effect-1 with token-1
            call-1 finished OutcomeUnknown
            withdraw token-1
            client: confirmation result call-1 OUTCOME_UNKNOWN pay was started, and how it ended is not known
            > confirm token-1
            await effect-1 for call-1
            > awaited 1 succeeded effect-1 pay {"text":"10"}
            client: confirmation result call-1 ok
            > confirm token-1
            client: confirmation result call-1 ok
        "#]],
    );
}

#[test]
fn a_no_holds_against_what_its_question_named_and_not_against_what_was_done_elsewhere_since() {
    check(
        Mode::Text,
        expect![[r#"
            > text pay it
            turn 1 started
            to model: text "pay it"
            > calls function-call-1 pay {"text":"10"}
            client: ModelGenerating
            propose call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Pay 10"
            > says You are asked.
            client: Assistant piece "You are asked."
            > generated
            > done
            client: Assistant said "You are asked."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > wait 1000
            > decline token-1
            declined token-1
            call-1 Declined
            call-1 rejected ConfirmationDeclined
            client: confirmation result call-1 CONFIRMATION_DECLINED the user was asked and said no
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run and said no. It has not run. Do not call it again unless the user asks for it."
            > wait 1000
            > changed elsewhere 1500 succeeded effect-1 pay {"text":"10"}
            read ledger
            > text pay it after all
            turn 2 started
            to model: text "pay it after all"
            > calls function-call-2 pay {"text":"10"}
            client: ModelGenerating
            propose call-2 pay
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Pay 10" warned "The same was done before, at 2026-11-18T11:06:40.000Z. If you approve it, it is done once more."
            > says You are asked.
            client: Assistant piece "You are asked."
            > generated
            > done
            client: Assistant said "You are asked."
            turn 2 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 2 }
            > decline token-2
            declined token-2
            call-2 Declined
            call-2 rejected ConfirmationDeclined
            client: confirmation result call-2 CONFIRMATION_DECLINED the user was asked and said no
            to model: notice "(A message of the system, not of the user.) The user was asked whether pay may run and said no. It has not run. Do not call it again unless the user asks for it."
            > changed elsewhere 1500 succeeded effect-1 pay {"text":"10"}
            read ledger
            > calls function-call-3 pay {"text":"10"}
            client: ModelGenerating
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 CONFIRMATION_DECLINED the user was asked and said no
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn what_this_session_knows_better_stays_as_it_is() {
    let (mut bench, _) = Bench::new(Mode::Voice);
    for line in ["connected 1", "ready", "text go"] {
        bench.line(line);
    }
    bench.line(r#"calls function-call-1 write {"text":"a"}"#);
    let entry = r#"write {"text":"a"}"#;
    // It runs, and it was done: the ledger cannot know better.
    bench.line(&format!("changed elsewhere 0 failed effect-1 {entry}"));
    let said = bench.line("returns 1 {\"id\":7}");
    assert!(said.contains("function-call-1 ok"), "{said}");
    bench.line(&format!("changed elsewhere 0 unknown effect-1 {entry}"));
    let again = bench.line(r#"calls function-call-2 write {"text":"a"}"#);
    assert!(again.contains("function-call-2 ok"), "{again}");
    assert!(!again.contains("look up"), "{again}");
}
