//! Calls that take longer than anybody waits: they are said to be at work, run on once, and how they end is told.

use crate::harness::check_with;
use expect_test::{Expect, expect};
use std::sync::Arc;
use windlass_contract::kind::Mode;
use windlass_session::limits::Limits;
use windlass_session::model::{CallSupport, ModelProfile};

/// A model that waits for every call, for two seconds of the five that each may take.
fn check(mode: Mode, script: Expect) {
    check_with(
        mode,
        |config| {
            config.limits = Arc::new(Limits {
                result_wait_ms: 2_000,
                ..Limits::of(mode)
            });
            config.profile = Arc::new(ModelProfile {
                calls: CallSupport::BlockingOnly,
                ..(*config.profile).clone()
            });
        },
        script,
    );
}

#[test]
fn by_voice_a_change_that_takes_long_is_said_to_be_at_work_and_how_it_ended_once_it_has() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears export it
            turn 1 started
            client: User piece "export it"
            > calls function-call-1 write {"text":"a"}
            client: User said "export it"
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > progress 1 reading
            call-1 progress: reading
            > wait 1999
            > wait 1
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            call-1 took 2000 ms, over Turn 1500
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > progress 1 writing
            call-1 progress: writing
            > says It is on its way.
            client: Assistant piece "It is on its way."
            > done
            client: Assistant said "It is on its way."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > hears and now?
            turn 2 started
            client: User piece "and now?"
            > calls function-call-2 write {"text":"a"}
            client: User said "and now?"
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectRunning
            > wait 0
            to model: function-call-2 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > says Still at it.
            client: Assistant piece "Still at it."
            > done
            client: Assistant said "Still at it."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 2 }
            > returns 1 {"rows":7}
            record effect-1 Succeeded
            call-1 has ended
            to model: late write ok {"rows":7}
            > audio
            heard effect-1
            client: ModelGenerating
            > says It is done.
            client: Assistant piece "It is done."
            > done
            client: Assistant said "It is done."
            client: TurnComplete { turn: 1 }
            > calls function-call-3 write {"text":"a"}
            turn 3 started
            client: ModelGenerating
            request call-3 write
            call-3 is a repeat: SameEffectFinished
            to model: function-call-3 ok {"rows":7} (This was done before, at 2026-11-18T11:06:42.000Z, with {"text":"a"}. Nothing further was done now.)
            client: ToolsComplete { tool_count: 1 }
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "export it"
            s-1: effect-1 of write Running, attempt 1
            s-1: call-1 write {"text":"a"} brought {"data":{"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}}
            s-1: Assistant said "It is on its way."
            s-1: the user begins
            s-1: User said "and now?"
            s-1: Assistant said "Still at it."
            s-1: effect-1 of write Done, attempt 1
            s-1: Assistant said "It is done."
            s-1: effect-1 told again
        "#]],
    );
}

#[test]
fn what_is_at_work_is_told_on_the_next_connection() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears export it
            turn 1 started
            client: User piece "export it"
            > calls function-call-1 write {}
            client: User said "export it"
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {}
            > lost 1
            client: Reconnecting { attempt: 1 }
            connect 2
            > connected 2
            > ready
            client: Reconnected
            to model: text "export it"
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            call-1 took 2000 ms, over Turn 1500
            client: ToolsComplete { tool_count: 1 }
            > calls function-call-2 write {}
            client: ModelGenerating
            request call-2 write
            call-2 is a repeat: SameEffectRunning
            > wait 0
            to model: function-call-2 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > says It is on its way.
            client: Assistant piece "It is on its way."
            > done
            client: Assistant said "It is on its way."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > lost 2
            client: Reconnecting { attempt: 1 }
            connect 3, history follows
            > connected 3
            > returns 1 {"rows":7}
            record effect-1 Succeeded
            call-1 has ended
            > ready
            client: Reconnected
            to model: history "export it / It is on its way."
            to model: late write ok {"rows":7}
            > audio
            heard effect-1
            client: ModelGenerating
            > says It is done.
            client: Assistant piece "It is done."
            > done
            client: Assistant said "It is done."
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn what_is_at_work_outlasts_an_interruption_and_is_not_spoken_of_where_its_provider_took_it_back() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 write {"text":"a"} + function-call-2 background {}
            client: User said "go"
            client: ModelGenerating
            request call-1 write
            start call-2 background {}
            start call-1 write (effect-1) {"text":"a"}
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            call-1 took 2000 ms, over Turn 1500
            call-2 is at work
            call-2 took 2000 ms, over Tool 500
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-2 ok {"note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 2 }
            > says I am
            client: Assistant piece "I am"
            > interrupted
            discard audio
            client: Interrupted
            client: Assistant said "I am"
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0 interrupted
            > hears stop
            turn 2 started
            client: User piece "stop"
            > done
            accept audio
            > returns 2 {"x":1}
            call-2 has ended
            > cancel function-call-1
            > returns 1 {"rows":7}
            record effect-1 Succeeded
            call-1 has ended
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "go"
            s-1: effect-1 of write Running, attempt 1
            s-1: call-1 write {"text":"a"} brought {"data":{"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}}
            s-1: call-2 background {} brought {"data":{"note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}}
            s-1: Assistant said "I am"
            s-1: the user begins
            s-1: notice "The call of background that was still running has ended. Its result: {\"data\":{\"x\":1},\"status\":\"success\"}"
            s-1: effect-1 of write Done, attempt 1
        "#]],
    );
}

#[test]
fn how_what_is_at_work_failed_is_told() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 write {"text":"a"} + function-call-2 post {"text":"b"}
            client: User said "go"
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            call-1 took 2000 ms, over Turn 1500
            call-2 rejected Transient
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-2 TRANSIENT post was not started: write, which came before it in the same message, is still running; call post again where it need not wait for that
            client: ToolsComplete { tool_count: 2 }
            > calls function-call-3 post {"text":"b"}
            request call-3 post
            start call-3 post (effect-2) {"text":"b"}
            > wait 2000
            call-3 is at work
            call-3 took 2000 ms, over Tool 500
            to model: function-call-3 ok {"backgroundTaskId":"01a1ee5665d0-6d21325d4a1bcb9f6f2a9f64e8dcdbea","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > says Both are on their way.
            client: Assistant piece "Both are on their way."
            > done
            client: Assistant said "Both are on their way."
            turn 1 ended: calls 3 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > returns 1 permanent
            record effect-1 Failed
            call-1 has ended Permanent
            to model: late write PERMANENT it failed
            > audio
            heard effect-1
            client: ModelGenerating
            > says One did not work.
            client: Assistant piece "One did not work."
            > done
            client: Assistant said "One did not work."
            client: TurnComplete { turn: 1 }
            > wait 3000
            abort call-3 (let it end)
            record effect-2 Unknown
            call-3 has ended OutcomeUnknown
            to model: late post OUTCOME_UNKNOWN post was started, and how it ended is not known
            > returns 3 {"x":1}
            call-3 returned late
            call-3 settled effect-2: true
            record effect-2 Succeeded
        "#]],
    );
}

#[test]
fn a_process_that_ends_leaves_in_doubt_what_was_at_work() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 write {"text":"a"}
            client: User said "go"
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            call-1 took 2000 ms, over Turn 1500
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > says It is on its way.
            client: Assistant piece "It is on its way."
            > done
            client: Assistant said "It is on its way."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > killed
            > connected 1
            > ready
            to model: history "go / It is on its way."
            to model: late write OUTCOME_UNKNOWN write was started, and how it ended is not known
            > audio
            heard effect-1
            turn 2 started
            client: ModelGenerating
            > says Nobody knows.
            client: Assistant piece "Nobody knows."
            > done
            client: Assistant said "Nobody knows."
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 2 }
            > hears again
            turn 3 started
            client: User piece "again"
            > calls function-call-9 write {"text":"a"}
            client: User said "again"
            client: ModelGenerating
            request call-3 write
            call-3 rejected ConfirmationRequired
            to model: function-call-9 CONFIRMATION_REQUIRED write was begun before, at 2026-11-18T11:06:42.000Z with {"text":"a"}, and nobody knows whether it happened. The user is being asked whether to do it again
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-3 token-1 {"text":"a"} warned "This was begun before, at 2026-11-18T11:06:42.000Z, and nobody knows whether it happened. If you approve it, it may happen a second time."
        "#]],
    );
}

#[test]
fn an_approved_change_that_takes_long_is_answered_and_told_later() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears pay
            turn 1 started
            client: User piece "pay"
            > calls function-call-1 pay {"text":"5"}
            client: User said "pay"
            client: ModelGenerating
            request call-1 pay
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED pay runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 "Pay 5"
            > says Please confirm.
            client: Assistant piece "Please confirm."
            > done
            client: Assistant said "Please confirm."
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 pay (effect-1) {"text":"5"}
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            call-1 took 2000 ms, over Turn 1500
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of pay, and it was accepted and is at work: {\"data\":{\"backgroundTaskId\":\"01a1ee565e00-6d21325d4a1bcb9f6f2a9f64e8dcdbea\",\"note\":\"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.\",\"state\":\"running\",\"status\":\"accepted\"},\"status\":\"success\"}"
            > says It is on its way.
            client: Assistant piece "It is on its way."
            > done
            client: ModelGenerating
            client: Assistant said "It is on its way."
            client: TurnComplete { turn: 1 }
            > confirm token-1
            answer question-1 yes as call-2
            > wait 0
            client: confirmation result call-1 ok
            > returns 1 {"paid":1}
            record effect-1 Succeeded
            call-1 has ended
            to model: late pay ok {"paid":1}
            > audio
            heard effect-1, question-1
            client: ModelGenerating
            > says Paid.
            client: Assistant piece "Paid."
            > done
            client: Assistant said "Paid."
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_session_that_ends_stops_what_changes_nothing_and_says_so_in_the_log() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 background {"text":"a"} + function-call-2 write {}
            client: User said "go"
            client: ModelGenerating
            start call-1 background {"text":"a"}
            request call-2 write
            start call-2 write (effect-1) {}
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            call-1 took 2000 ms, over Turn 1500
            call-2 is at work
            call-2 took 2000 ms, over Tool 500
            to model: function-call-1 ok {"note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-2 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 2 }
            > stop
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0 interrupted
            abort call-1
            call-1 has ended Cancelled
            client: session complete, 1 transcripts
            > returns 2 {"rows":7}
            record effect-1 Succeeded
            call-2 has ended
            client: Stopped
            session ended: Stopped
            close Stopped
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "go"
            s-1: effect-1 of write Running, attempt 1
            s-1: call-1 background {"text":"a"} brought {"data":{"note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}}
            s-1: call-2 write {} brought {"data":{"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}}
            s-1: notice "The call of background that was still running has ended. Its result: {\"error\":{\"message\":\"background was taken back\",\"suggestion\":\"The call was taken back. Go on with what the user says now.\",\"type\":\"CANCELLED\"}}"
            s-1: effect-1 of write Done, attempt 1
            s-1: is over
            > opens next by voice
            next: to model: late write ok {"rows":7}
        "#]],
    );
}

#[test]
fn by_text_the_model_goes_on_and_is_asked_again_where_it_ends_within_the_turn() {
    check(
        Mode::Text,
        expect![[r#"
            > text export it
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > progress 1 reading
            call-1 progress: reading
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > requests 2
            > says It is on its way.
            client: Assistant piece "It is on its way."
            > progress 1 writing
            call-1 progress: writing
            > returns 1 {"rows":7}
            record effect-1 Succeeded
            call-1 has ended
            > done
            client: Assistant said "It is on its way."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            to model: late write ok {"rows":7}
            > requests 3
            > audio
            heard effect-1
            client: ModelGenerating
            > says It is done.
            client: Assistant piece "It is done."
            > done
            client: Assistant said "It is done."
            client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_later_turn_is_told_that_it_runs_and_then_how_it_ended() {
    check(
        Mode::Text,
        expect![[r#"
            > text export it
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > requests 2
            > says It is on its way.
            client: Assistant piece "It is on its way."
            > done
            client: Assistant said "It is on its way."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > shutdown
            client: error shutting_down: the server is shutting down
            client: session complete, 2 transcripts
            > opens second by text
            > second: text and now?
            second: turn 1 started
            > second: calls function-call-1 write {"text":"a"}
            second: client: ModelGenerating
            second: request call-3 write
            second: call-3 is a repeat: SameEffectRunning
            > wait 1
            second: to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            second: client: ToolsComplete { tool_count: 1 }
            > second: requests 2
            > asks 1 #1 look {}
            call-2 look asked for by call-1
            start call-2 look {}
            > returns 2 {"seen":1}
            call-2 finished
            to call-1 #1: ok {"seen":1}
            > progress 1 writing
            call-1 progress: writing
            > returns 1 {"rows":7}
            record effect-1 Succeeded
            call-1 has ended
            session ended: Shutdown
            close Shutdown
            second: call-2 has ended
            > second: says Still at it.
            second: client: Assistant piece "Still at it."
            > second: done
            second: client: Assistant said "Still at it."
            second: turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 1
            second: client: TurnComplete { turn: 1 }
            second: to model: late write ok {"rows":7}
            > second: requests 3
            > second: audio
            second: heard effect-1
            second: client: ModelGenerating
            > second: says It is done.
            second: client: Assistant piece "It is done."
            > second: done
            second: client: Assistant said "It is done."
            second: client: TurnComplete { turn: 1 }
            > second: shutdown
            second: client: error shutting_down: the server is shutting down
            second: client: session complete, 3 transcripts
            second: session ended: Shutdown
            second: close Shutdown
            > opens third by text
            > third: text again
            third: turn 1 started
            > third: calls function-call-1 write {"text":"a"}
            third: client: ModelGenerating
            third: request call-2 write
            third: call-2 rejected ConfirmationRequired
            third: to model: function-call-1 CONFIRMATION_REQUIRED write was done before, at 2026-11-18T11:06:42.001Z with {"text":"a"}. It was not done again: the user is being asked whether to do it once more
            third: client: ToolsComplete { tool_count: 1 }
            third: client: confirm call-2 token-1 {"text":"a"} warned "This was done before, at 2026-11-18T11:06:42.001Z. If you approve it, it is done once more."
        "#]],
    );
}

#[test]
fn what_ends_between_two_turns_is_what_the_next_one_reads_first() {
    check(
        Mode::Text,
        expect![[r#"
            > text export it
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > requests 2
            > says It is on its way.
            client: Assistant piece "It is on its way."
            > done
            client: Assistant said "It is on its way."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > shutdown
            client: error shutting_down: the server is shutting down
            client: session complete, 2 transcripts
            > returns 1 {"rows":7}
            record effect-1 Succeeded
            call-1 has ended
            session ended: Shutdown
            close Shutdown
            > opens second by text
            second: to model: late write ok {"rows":7}
            > second: text and now?
            second: turn 1 started
            > second: requests 2
            > second: audio
            second: client: ModelGenerating
            > second: says It is done.
            second: client: Assistant piece "It is done."
            > second: done
            second: client: Assistant said "It is done."
            second: heard effect-1
            second: turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            second: client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn a_look_up_that_takes_long_goes_on_beside_the_turns_and_its_end_is_in_the_log() {
    check(
        Mode::Text,
        expect![[r#"
            > text look
            turn 1 started
            > calls function-call-1 background {"text":"a"}
            client: ModelGenerating
            start call-1 background {"text":"a"}
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            to model: function-call-1 ok {"note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > requests 2
            > calls function-call-2 background {"text":"a"}
            call-2 is a repeat: SameEffectRunning
            to model: function-call-2 ok {"note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > requests 3
            > says It is on its way.
            client: Assistant piece "It is on its way."
            > done
            client: Assistant said "It is on its way."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 1
            client: TurnComplete { turn: 1 }
            > shutdown
            client: error shutting_down: the server is shutting down
            client: session complete, 2 transcripts
            > returns 1 {"found":1}
            call-1 has ended
            session ended: Shutdown
            close Shutdown
            > log
            s-1: begins by text
            s-1: the user begins
            s-1: User said "look"
            s-1: call-1 background {"text":"a"} brought {"data":{"note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}}
            s-1: Assistant said "It is on its way."
            s-1: notice "The call of background that was still running has ended. Its result: {\"data\":{\"found\":1},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn an_answer_that_is_given_up_takes_back_only_what_was_waited_for() {
    check(
        Mode::Text,
        expect![[r#"
            > text go
            turn 1 started
            > calls function-call-1 background {"text":"a"} + function-call-2 look {}
            client: ModelGenerating
            start call-1 background {"text":"a"}
            start call-2 look {}
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            > given_up
            discard audio
            client: Interrupted
            abort call-2
            call-2 cancelled
            call-2 took 2000 ms, over Tool 500
            to model: function-call-1 ok {"note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-2 CANCELLED look was taken back
            client: ToolsComplete { tool_count: 2 }
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0 interrupted
            accept audio
            > returns 1 {"found":1}
            call-1 has ended
            to model: late background ok {"found":1}
            > log
            s-1: begins by text
            s-1: the user begins
            s-1: User said "go"
            s-1: call-1 background {"text":"a"} brought {"data":{"note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}}
            s-1: call-2 look {} brought {"message":"look was taken back"}
            s-1: notice "The call of background that was still running has ended. Its result: {\"data\":{\"found\":1},\"status\":\"success\"}"
        "#]],
    );
}

#[test]
fn a_conversation_by_voice_hears_of_what_its_chat_has_begun() {
    check(
        Mode::Text,
        expect![[r#"
            > text export it
            turn 1 started
            > calls function-call-1 write {"text":"a"}
            client: ModelGenerating
            request call-1 write
            start call-1 write (effect-1) {"text":"a"}
            > wait 2000
            call-1 is at work
            call-1 took 2000 ms, over Tool 500
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > requests 2
            > says It is on its way.
            client: Assistant piece "It is on its way."
            > done
            client: Assistant said "It is on its way."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > shutdown
            client: error shutting_down: the server is shutting down
            client: session complete, 2 transcripts
            > opens voice by voice
            > returns 1 {"rows":7}
            record effect-1 Succeeded
            call-1 has ended
            session ended: Shutdown
            close Shutdown
            voice: call-2 has ended
            voice: to model: late write ok {"rows":7}
            > voice: audio
            voice: heard effect-1
            voice: turn 1 started
            voice: client: ModelGenerating
            > voice: says It is done.
            voice: client: Assistant piece "It is done."
            > voice: done
            voice: client: Assistant said "It is done."
            voice: turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            voice: client: TurnComplete { turn: 1 }
        "#]],
    );
}

#[test]
fn what_the_model_does_not_wait_for_is_answered_when_it_ends() {
    check_with(
        Mode::Voice,
        |config| {
            config.limits = Arc::new(Limits {
                result_wait_ms: 2_000,
                ..Limits::of(Mode::Voice)
            });
        },
        expect![[r#"
            > hears go
            turn 1 started
            client: User piece "go"
            > calls function-call-1 background {}
            client: User said "go"
            client: ModelGenerating
            start call-1 background {}
            > wait 4000
            > returns 1 {"x":1}
            call-1 finished
            call-1 took 4000 ms, over Tool 500
            call-1 took 4000 ms, over Turn 1500
            to model: function-call-1 WhenIdle ok {"x":1}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}
