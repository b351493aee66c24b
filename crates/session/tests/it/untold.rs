//! What earlier sessions of a conversation changed and no model heard of, as after a kill: the next one is told, once, and asks for
//! nothing twice.

use crate::harness::{Bench, check, check_from_the_beginning};
use expect_test::expect;
use windlass_tool::kind::Mode;

#[test]
fn what_no_model_has_heard_of_is_told_before_the_user_is_heard() {
    check_from_the_beginning(
        Mode::Text,
        expect![[r#"
            > ledger unheard effect-7 write {"text":"a"}
            > continued 3 7 60 effect-9 pay 1.0.0 {"text":"10"}
            > connected 1
            > ready
            to model: late write ok {"kept":true}
            > text did it work
            turn 1 started
            to model: text "did it work"
            > says It is done.
            answered effect-7
            client: ModelGenerating
            client: Assistant piece "It is done."
            > generated
            > done
            client: Assistant said "It is done."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text once more
            turn 2 started
            to model: text "once more"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            reserve call-6 write
            start call-6 write (effect-1) {"text":"a"}
        "#]],
    );
}

#[test]
fn a_wish_that_comes_with_the_news_is_answered_with_it() {
    check_from_the_beginning(
        Mode::Text,
        expect![[r#"
            > ledger unheard effect-7 write {"text":"a"}
            > connected 1
            > ready
            to model: late write ok {"kept":true}
            > text write it
            turn 1 started
            to model: text "write it"
            > says Let me see.
            answered effect-7
            client: ModelGenerating
            client: Assistant piece "Let me see."
            > calls function-call-1 write {"text":"a"}
            call-2 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"kept":true}
            client: ToolsComplete { tool_count: 1 }
            > says It is written.
            answered effect-7
            client: Assistant piece "It is written."
            > generated
            > done
            client: Assistant said "Let me see.It is written."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > text and once more
            turn 2 started
            to model: text "and once more"
            > calls function-call-2 write {"text":"a"}
            client: ModelGenerating
            reserve call-3 write
            start call-3 write (effect-1) {"text":"a"}
        "#]],
    );
}

#[test]
fn what_nobody_knows_is_told_as_that_and_looked_up_when_it_is_wished() {
    check_from_the_beginning(
        Mode::Voice,
        expect![[r#"
            > connected 1
            > ready
            > ledger doubtful effect-7 write {"text":"a"}
            to model: late write OUTCOME_UNKNOWN write was started, and how it ended is not known
            > says I do not know.
            client: Assistant piece "I do not know."
            > generated
            > done
            turn 1 started
            client: ModelGenerating
            client: Assistant said "I do not know."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > hears try again
            turn 2 started
            client: User piece "try again"
            > lookup finds nothing happened
            > calls function-call-1 write {"text":"a"}
            answered effect-7
            client: User said "try again"
            client: ModelGenerating
            look up effect-7 of write
            record effect-7 Failed
            call-2 settled effect-7: false
            reserve call-2 write as effect-7
            start call-2 write (effect-7) {"text":"a"}
        "#]],
    );
}

#[test]
fn what_a_model_says_to_the_news_is_no_word_of_the_users() {
    check_from_the_beginning(
        Mode::Voice,
        expect![[r#"
            > connected 1
            > ready
            > microphone
            > ledger unheard effect-7 write {"text":"a"}
            to model: late write ok {"kept":true}
            > audio
            answered effect-7
            turn 1 started
            client: ModelGenerating
            > says It is written.
            client: Assistant piece "It is written."
            > generated
            > done
            client: Assistant said "It is written."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2, history follows
            > connected 2
            > ready
            client: Reconnected
            to model: history "It is written."
            > calls function-call-1 write {"text":"a"}
            turn 2 started
            client: ModelGenerating
            call-2 is a repeat: SameEffectFinished
            to model: function-call-1 ok {"kept":true}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn news_that_a_lost_connection_may_not_have_carried_are_told_again() {
    check_from_the_beginning(
        Mode::Voice,
        expect![[r#"
            > connected 1
            > ready
            > ledger unheard effect-7 write {"text":"a"}
            to model: late write ok {"kept":true}
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: late write ok {"kept":true}
            > says It is written.
            client: Assistant piece "It is written."
            > lost 2
            client: Assistant said "It is written."
            client: Reconnecting { attempt: 2 }
            > connected 3
            > ready
            client: Reconnected
            to model: late write ok {"kept":true}
        "#]],
    );
}

#[test]
fn what_was_heard_and_what_steered_a_session_is_no_news() {
    for entry in [
        r#"succeeded effect-7 write {"text":"a"}"#,
        r#"unheard effect-7 ignore_user {"text":"a"}"#,
    ] {
        let (mut bench, _) = Bench::unread(Mode::Text, |_| {});
        let ledger = format!("ledger {entry}");
        let said = [ledger.as_str(), "connected 1", "ready"].map(|line| bench.line(line));
        let said = said.concat();
        assert!(!said.contains("to model"), "{entry}: {said}");
    }
}

#[test]
fn a_ledger_that_is_read_again_brings_no_news() {
    check(
        Mode::Text,
        expect![[r#"
            > ledger unheard effect-7 write {"text":"a"}
            > text hello
            turn 1 started
            to model: text "hello"
        "#]],
    );
}

#[test]
fn what_another_session_is_still_at_is_told_when_it_has_come_to_its_end() {
    check_from_the_beginning(
        Mode::Text,
        expect![[r#"
            > ledger running effect-7 write {"text":"a"}
            > connected 1
            > ready
            await effect-7 for call-1
            > text did it work
            turn 1 started
            to model: text "did it work"
            > says It is still running.
            client: ModelGenerating
            client: Assistant piece "It is still running."
            > generated
            > done
            client: Assistant said "It is still running."
            turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > awaited 1 unheard effect-7 write {"text":"a"}
            to model: late write ok {"kept":true}
            > text and now
            turn 2 started
            to model: text "and now"
            > says It is done.
            answered effect-7
            client: ModelGenerating
            client: Assistant piece "It is done."
            > generated
            > done
            client: Assistant said "It is done."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
        "#]],
    );
}

#[test]
fn what_another_session_has_told_itself_meanwhile_is_no_news() {
    check_from_the_beginning(
        Mode::Text,
        expect![[r#"
            > ledger running effect-7 write {"text":"a"}
            > connected 1
            > ready
            await effect-7 for call-1
            > awaited 1 succeeded effect-7 write {"text":"a"}
        "#]],
    );
}

#[test]
fn what_a_call_of_this_session_was_answered_with_is_no_news_from_the_ledger() {
    check_from_the_beginning(
        Mode::Text,
        expect![[r#"
            > ledger running effect-7 write {"text":"a"}
            > connected 1
            > ready
            await effect-7 for call-1
            > text write it
            turn 1 started
            to model: text "write it"
            > lookup finds nothing happened
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            look up effect-7 of write
            record effect-7 Failed
            call-2 settled effect-7: false
            reserve call-2 write as effect-7
            start call-2 write (effect-7) {"text":"a"}
            > returns 2 {"x":1}
            record effect-7 Succeeded
            call-2 finished
            to model: function-call-1 ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
            > awaited 1 unheard effect-7 write {"text":"a"}
            > generated
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > wait 1000
        "#]],
    );
}

#[test]
fn what_came_of_an_earlier_run_is_no_news_once_the_effect_has_begun_again() {
    check_from_the_beginning(
        Mode::Voice,
        expect![[r#"
            > connected 1
            > ready
            > text write it
            turn 1 started
            to model: text "write it"
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > ledger undone effect-7 write {"text":"a"}
            reserve call-1 write as effect-7
            start call-1 write (effect-7) {"text":"a"}
            > returns 1 permanent
            record effect-7 Failed
            call-1 finished Permanent
            client: ToolsComplete { tool_count: 1 }
            > connected 2
            > ready
            client: Reconnected
            to model: text "write it"
            > says Hm.
            client: ModelGenerating
            client: Assistant piece "Hm."
            > generated
            > done
            client: Assistant said "Hm."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: late write PERMANENT it failed
        "#]],
    );
}
