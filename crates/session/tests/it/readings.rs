//! What one session's model has read, the sessions beside it and after it mind: none of them changes anything without the user's
//! word.

use crate::harness::{Bench, check};
use expect_test::expect;
use windlass_session::io::{Input, Remembered};
use windlass_tool::kind::Mode;

#[test]
fn the_store_is_told_once_that_the_model_has_read_what_others_wrote() {
    check(
        Mode::Voice,
        expect![[r#"
            > text who designed the fram
            turn 1 started
            to model: text "who designed the fram"
            > calls function-call-1 search {"query":"fram"}
            client: ModelGenerating
            call-1 clamped top_k 5 to 3
            start call-1 search {"query":"fram","top_k":3}
            > readings
            readings noted: 0
            > returns 1 {"results":[]}
            call-1 finished
            to model: function-call-1 ok quoted {"results":[]}
            client: ToolsComplete { tool_count: 1 }
            > readings
            readings noted: 1
            > calls function-call-2 search {"query":"gjoa"}
            call-2 clamped top_k 5 to 3
            start call-2 search {"query":"gjoa","top_k":3}
            > returns 2 {"results":[]}
            call-2 finished
            to model: function-call-2 ok quoted {"results":[]}
            client: ToolsComplete { tool_count: 1 }
            > readings
            readings noted: 1
        "#]],
    );
}

#[test]
fn a_look_up_that_failed_is_nothing_that_was_read() {
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
            > returns 1 permanent
            call-1 finished Permanent
            to model: function-call-1 PERMANENT it failed
            client: ToolsComplete { tool_count: 1 }
            > readings
            readings noted: 0
            > calls function-call-2 look {"text":"1"}
            start call-2 look {"text":"1"}
            > returns 2 {"n":1}
            call-2 finished
            to model: function-call-2 ok {"n":1}
            client: ToolsComplete { tool_count: 1 }
            > readings
            readings noted: 0
        "#]],
    );
}

#[test]
fn what_another_session_has_read_before_is_minded_from_the_beginning() {
    for mode in [Mode::Voice, Mode::Text] {
        let (mut bench, _) = Bench::unread(mode, |_| {});
        let said = [
            "connected 1",
            "ready",
            "text write",
            "calls function-call-1 write {\"text\":\"10\"}",
        ];
        for line in said {
            bench.line(line);
        }
        let heard = bench.step(Input::Ledger(Ok(Remembered {
            has_read: true,
            ..Remembered::default()
        })));
        assert!(heard.contains("propose call-1 write"), "{heard}");
        assert!(!heard.contains("start"), "{heard}");
    }
}

#[test]
fn what_another_session_reads_meanwhile_is_heard_of_before_a_change() {
    check(
        Mode::Text,
        expect![[r#"
            > text write
            turn 1 started
            to model: text "write"
            > calls function-call-1 write {"text":"10"}
            client: ModelGenerating
            reserve call-1 write
            start call-1 write (effect-1) {"text":"10"}
            > returns 1 {"n":1}
            record effect-1 Succeeded
            call-1 finished
            to model: function-call-1 ok {"n":1}
            client: ToolsComplete { tool_count: 1 }
            > says done
            answered effect-1
            client: Assistant piece "done"
            > done
            client: Assistant said "done"
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > read elsewhere
            > text and once more
            turn 2 started
            to model: text "and once more"
            > calls function-call-2 write {"text":"11"}
            client: ModelGenerating
            reserve call-2 write
            propose call-2 write
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED write runs only after the user has confirmed it, because this conversation holds text that others wrote
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Run write"
            > confirm token-1
            call-2 Approved
            reserve call-2 write as effect-2 with token-1
            start call-2 write (effect-2) {"text":"11"}
            > returns 2 {"n":2}
            record effect-2 Succeeded
            call-2 finished
            client: confirmation result call-2 ok
        "#]],
    );
}

#[test]
fn a_change_that_has_to_be_asked_for_after_all_is_charged_once() {
    check(
        Mode::Text,
        expect![[r#"
            > read elsewhere
            > text write
            turn 1 started
            to model: text "write"
            > calls function-call-1 limited_write {"text":"10"}
            client: ModelGenerating
            check rate call-1 limited_write
            reserve call-1 limited_write
            propose call-1 limited_write
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED limited_write runs only after the user has confirmed it, because this conversation holds text that others wrote
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 "Run limited_write"
            > rate 9000
            > confirm token-1
            call-1 Approved
            reserve call-1 limited_write as effect-1 with token-1
            start call-1 limited_write (effect-1) {"text":"10"}
            > returns 1 {"n":1}
            record effect-1 Succeeded
            call-1 finished
            client: confirmation result call-1 ok
        "#]],
    );
}

#[test]
fn tools_that_are_exempt_do_not_mind() {
    check(
        Mode::Voice,
        expect![[r#"
            > read elsewhere
            > text ignore him, and write
            turn 1 started
            to model: text "ignore him, and write"
            > calls function-call-1 ignore_user {"text":"1"}
            client: ModelGenerating
            reserve call-1 ignore_user
            start call-1 ignore_user (effect-1) {"text":"1"}
            > calls function-call-2 write {"text":"1"}
            reserve call-2 write
            propose call-2 write
            call-2 rejected ConfirmationRequired
            to model: function-call-2 CONFIRMATION_REQUIRED write runs only after the user has confirmed it, because this conversation holds text that others wrote
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-2 "Run write"
        "#]],
    );
}
