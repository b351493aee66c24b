//! Background work: a call is answered by the id of its task as soon as it has begun, the task goes on whoever is there, and its end is told
//! to whoever is there by then.

use crate::harness::check;
use expect_test::expect;
use windlass_contract::kind::Mode;

#[test]
fn by_voice_a_task_is_accepted_at_once_and_its_end_is_told_when_nobody_speaks() {
    check(
        Mode::Voice,
        expect![[r#"
            > hears export it
            turn 1 started
            client: User piece "export it"
            > calls function-call-1 export {"text":"a"}
            client: User said "export it"
            client: ModelGenerating
            request call-1 export
            start call-1 export (effect-1) {"text":"a"}
            call-1 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > progress 1 reading
            keep that effect-1 is at "reading"
            call-1 progress: reading
            > progress 1 sorting
            call-1 progress: sorting
            > wait 1000
            > progress 1 writing
            keep that effect-1 is at "writing"
            call-1 progress: writing
            > task 1
            Running Task { is_read_only: false, is_external: false, progress: Some(Progress { message: <redacted>, fraction: Some(0.5), at_unix_ms: 1795000001000 }), cancel_requested_at_unix_ms: None, is_sent: false, is_deleted: false }
            > says It is on its way.
            client: Assistant piece "It is on its way."
            > done
            client: Assistant said "It is on its way."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > returns 1 {"rows":7}
            record effect-1 Succeeded
            call-1 has ended
            to model: late export ok {"rows":7}
            > audio
            heard effect-1
            client: ModelGenerating
            > says It is done.
            client: Assistant piece "It is done."
            > done
            client: Assistant said "It is done."
            client: TurnComplete { turn: 1 }
            > log
            s-1: begins by voice
            s-1: the user begins
            s-1: User said "export it"
            s-1: effect-1 of export Running, attempt 1
            s-1: call-1 export {"text":"a"} brought {"data":{"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}}
            s-1: Assistant said "It is on its way."
            s-1: effect-1 of export Done, attempt 1
            s-1: Assistant said "It is done."
        "#]],
    );
}

#[test]
fn by_text_a_task_goes_on_beside_the_turns_and_the_next_session_is_told() {
    check(
        Mode::Text,
        expect![[r#"
            > text export it
            turn 1 started
            > calls function-call-1 export {"text":"a"}
            client: ModelGenerating
            request call-1 export
            start call-1 export (effect-1) {"text":"a"}
            call-1 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > requests 2
            > says It is on its way.
            client: Assistant piece "It is on its way."
            > ended
            > shutdown
            client: error shutting_down: the server is shutting down
            client: Assistant said "It is on its way."
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0 interrupted
            client: session complete, 2 transcripts
            > opens later by text
            > returns 1 {"rows":7}
            record effect-1 Succeeded
            call-1 has ended
            session ended: Shutdown
            close Shutdown
            later: call-2 has ended
            later: to model: late export ok {"rows":7}
            > later: text and now?
            later: turn 1 started
            > log
            s-1: begins by text
            s-1: the user begins
            s-1: User said "export it"
            s-1: effect-1 of export Running, attempt 1
            s-1: call-1 export {"text":"a"} brought {"data":{"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}}
            s-1: Assistant said "It is on its way."
            s-1: effect-1 of export Done, attempt 1
            later: begins by text
            later: the user begins
            later: User said "and now?"
        "#]],
    );
}

#[test]
fn a_conversation_that_comes_back_later_is_told_what_became_of_its_tasks() {
    check(
        Mode::Voice,
        expect![[r#"
            > text export it
            turn 1 started
            to model: text "export it"
            > calls function-call-1 export {"text":"a"} + function-call-2 crawl {"text":"b"}
            client: ModelGenerating
            request call-1 export
            request call-2 crawl
            start call-1 export (effect-1) {"text":"a"}
            call-1 is at work
            start call-2 crawl (effect-2) {"text":"b"}
            call-2 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-2 ok {"backgroundTaskId":"01a1ee565e00-6d21325d4a1bcb9f6f2a9f64e8dcdbea","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 2 }
            > done
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > stop
            client: session complete, 1 transcripts
            client: Stopped
            part Stopped
            > returns 1 {"rows":7}
            record effect-1 Succeeded
            call-1 has ended
            > returns 2 {"pages":3}
            record effect-2 Succeeded
            call-2 has ended
            session ended: Stopped
            close Stopped
            > wait 172800000
            > opens days by voice
            days: to model: late export ok {"rows":7} + crawl ok {"pages":3}
        "#]],
    );
}

#[test]
fn tasks_of_one_message_do_not_wait_for_each_other_and_hold_up_nothing() {
    check(
        Mode::Voice,
        expect![[r#"
            > text do it all
            turn 1 started
            to model: text "do it all"
            > calls function-call-1 export {"text":"a"} + function-call-2 export {"text":"b"} + function-call-3 write {"text":"c"}
            client: ModelGenerating
            request call-1 export
            request call-2 export
            request call-3 write
            start call-1 export (effect-1) {"text":"a"}
            call-1 is at work
            start call-2 export (effect-2) {"text":"b"}
            call-2 is at work
            start call-3 write (effect-3) {"text":"c"}
            > returns 3 {"n":1}
            record effect-3 Succeeded
            call-3 finished
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-2 ok {"backgroundTaskId":"01a1ee565e00-6d21325d4a1bcb9f6f2a9f64e8dcdbea","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-3 ok {"n":1}
            client: ToolsComplete { tool_count: 3 }
            > returns 2 {"rows":2}
            record effect-2 Succeeded
            call-2 has ended
            > returns 1 {"rows":1}
            record effect-1 Succeeded
            call-1 has ended
        "#]],
    );
}

#[test]
fn what_is_at_work_is_not_begun_again_whether_or_not_it_changes_something() {
    check(
        Mode::Voice,
        expect![[r#"
            > text both
            turn 1 started
            to model: text "both"
            > calls function-call-1 export {"text":"a"} + function-call-2 crawl {"text":"b"}
            client: ModelGenerating
            request call-1 export
            request call-2 crawl
            start call-1 export (effect-1) {"text":"a"}
            call-1 is at work
            start call-2 crawl (effect-2) {"text":"b"}
            call-2 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-2 ok {"backgroundTaskId":"01a1ee565e00-6d21325d4a1bcb9f6f2a9f64e8dcdbea","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 2 }
            > done
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > text again
            turn 2 started
            to model: text "again"
            > calls function-call-3 export {"text":"a"} + function-call-4 crawl {"text":"b"}
            client: ModelGenerating
            request call-3 export
            request call-4 crawl
            call-3 is a repeat: SameEffectRunning
            call-4 is a repeat: SameEffectRunning
            > wait 0
            to model: function-call-3 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-4 ok {"backgroundTaskId":"01a1ee565e00-6d21325d4a1bcb9f6f2a9f64e8dcdbea","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 2 }
            > returns 2 {"pages":3}
            record effect-2 Succeeded
            call-2 has ended
            > done
            turn 2 ended: calls 0 retrieval 0 refusals 0 repeats 2
            client: TurnComplete { turn: 2 }
            to model: late crawl ok {"pages":3}
            > text once more
            turn 3 started
            to model: text "once more"
            > calls function-call-5 crawl {"text":"b"}
            client: ModelGenerating
            request call-5 crawl
            start call-5 crawl (effect-3) {"text":"b"}
            call-5 is at work
            to model: function-call-5 ok {"backgroundTaskId":"01a1ee565e00-3fe3e5a9fc5eb35d11d5f202f255ec41","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn an_approved_task_is_accepted_at_once_as_well() {
    check(
        Mode::Voice,
        expect![[r#"
            > text migrate
            turn 1 started
            to model: text "migrate"
            > calls function-call-1 migrate {"text":"a"}
            client: ModelGenerating
            request call-1 migrate
            call-1 rejected ConfirmationRequired
            to model: function-call-1 CONFIRMATION_REQUIRED migrate runs only after the user has confirmed it
            client: ToolsComplete { tool_count: 1 }
            client: confirm call-1 token-1 {"text":"a"}
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 1 repeats 0
            client: TurnComplete { turn: 1 }
            > confirm token-1
            answer question-1 yes as call-1
            call-1 Approved
            start call-1 migrate (effect-1) {"text":"a"}
            call-1 is at work
            client: confirmation result call-1 ok
            to model: notice "(A message of the system, not of the user.) The user approved the call of migrate, and it was accepted and is at work: {\"data\":{\"backgroundTaskId\":\"01a1ee565e00-6d21325d4a1bcb9f6f2a9f64e8dcdbea\",\"note\":\"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.\",\"state\":\"running\",\"status\":\"accepted\"},\"status\":\"success\"}"
            > returns 1 {"moved":7}
            record effect-1 Succeeded
            call-1 has ended
            to model: late migrate ok {"moved":7}
        "#]],
    );
}

#[test]
fn a_task_that_changes_nothing_is_stopped_by_its_call_and_ends_cancelled() {
    check(
        Mode::Voice,
        expect![[r#"
            > text crawl
            turn 1 started
            to model: text "crawl"
            > calls function-call-1 crawl {"text":"a"}
            client: ModelGenerating
            request call-1 crawl
            start call-1 crawl (effect-1) {"text":"a"}
            call-1 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > cancels 1
            cancel effect-1
            the user cancels call-1 by socket: stopped
            abort call-1
            record effect-1 Failed
            client: cancel result call-1 stopped
            call-1 has ended Cancelled
            to model: late crawl CANCELLED the user stopped crawl before it had ended
            > task 1
            NotDone Task { is_read_only: true, is_external: false, progress: None, cancel_requested_at_unix_ms: Some(1795000000000), is_sent: false, is_deleted: false }
            > cancels 1
            client: cancel result call-1 ended
        "#]],
    );
}

#[test]
fn a_task_that_is_cancelled_by_its_id_is_stopped_by_the_session_that_runs_it() {
    check(
        Mode::Text,
        expect![[r#"
            > text both
            turn 1 started
            > calls function-call-1 crawl {"text":"a"} + function-call-2 export {"text":"b"}
            client: ModelGenerating
            request call-1 crawl
            request call-2 export
            start call-1 crawl (effect-1) {"text":"a"}
            call-1 is at work
            start call-2 export (effect-2) {"text":"b"}
            call-2 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-2 ok {"backgroundTaskId":"01a1ee565e00-6d21325d4a1bcb9f6f2a9f64e8dcdbea","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 2 }
            > requests 2
            > says They are on their way.
            client: Assistant piece "They are on their way."
            > ended
            > shutdown
            client: error shutting_down: the server is shutting down
            client: Assistant said "They are on their way."
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0 interrupted
            client: session complete, 2 transcripts
            > opens later by text
            > task 1 cancelled
            recorded: Running
            the user cancels call-1 by task: stopped
            abort call-1
            record effect-1 Failed
            call-1 has ended Cancelled
            later: call-3 has ended Cancelled
            later: to model: late crawl CANCELLED the user stopped crawl before it had ended
            > task 2 cancelled
            recorded: Running
            abort call-2 (let it end)
            the user cancels call-2 by task: runs_on
            > task 2 cancelled
            recorded: Running
            > returns 2 {"rows":7}
            record effect-2 Succeeded
            call-2 has ended
            session ended: Shutdown
            close Shutdown
            later: call-4 has ended
            later: to model: late export ok {"rows":7}
            > task 1 cancelled
            too late: NotDone
            > task 2
            Done Task { is_read_only: false, is_external: false, progress: None, cancel_requested_at_unix_ms: Some(1795000000000), is_sent: false, is_deleted: false }
        "#]],
    );
}

#[test]
fn what_a_service_has_is_given_up_when_it_is_cancelled_and_a_late_callback_counts_all_the_same() {
    check(
        Mode::Voice,
        expect![[r#"
            > text export
            turn 1 started
            to model: text "export"
            > calls function-call-1 export {"text":"a"}
            client: ModelGenerating
            request call-1 export
            start call-1 export (effect-1) {"text":"a"}
            call-1 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > returns 1 accepted
            record effect-1 Accepted { until_unix_ms: 1795003600000 }
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > task 1
            Running Task { is_read_only: false, is_external: false, progress: None, cancel_requested_at_unix_ms: None, is_sent: false, is_deleted: false }
            > task 1 cancelled
            recorded: Unknown
            call-1 has ended OutcomeUnknown
            to model: late export OUTCOME_UNKNOWN export was cancelled while it was at work; whether it happens all the same is not known, and if that becomes known, it is told
            > audio
            heard effect-1
            client: ModelGenerating
            > says It was given up.
            client: Assistant piece "It was given up."
            > done
            client: Assistant said "It was given up."
            client: TurnComplete { turn: 1 }
            > task 1 brought {"rows":7}
            recorded: Done
            call-1 has ended
            to model: late export ok {"rows":7}
            > audio
            heard effect-1
            client: ModelGenerating
            > says It happened after all.
            client: Assistant piece "It happened after all."
            > done
            client: Assistant said "It happened after all."
            client: TurnComplete { turn: 1 }
            > task 1 brought {"rows":7}
            too late: Done
            > task 1 cancelled
            too late: Done
        "#]],
    );
}

#[test]
fn a_callback_that_says_that_a_cancelled_task_failed_counts_as_well() {
    check(
        Mode::Voice,
        expect![[r#"
            > text export
            turn 1 started
            to model: text "export"
            > calls function-call-1 export {"text":"a"}
            client: ModelGenerating
            request call-1 export
            start call-1 export (effect-1) {"text":"a"}
            call-1 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > returns 1 accepted
            record effect-1 Accepted { until_unix_ms: 1795003600000 }
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > task 1 cancelled
            recorded: Unknown
            call-1 has ended OutcomeUnknown
            to model: late export OUTCOME_UNKNOWN export was cancelled while it was at work; whether it happens all the same is not known, and if that becomes known, it is told
            > task 1 failed
            recorded: NotDone
            call-1 has ended Permanent
            to model: late export PERMANENT it failed
            > task 1
            NotDone Task { is_read_only: false, is_external: false, progress: None, cancel_requested_at_unix_ms: Some(1795000000000), is_sent: false, is_deleted: false }
        "#]],
    );
}

#[test]
fn after_a_kill_nobody_knows_of_a_task_that_ran_and_a_service_still_has_the_other() {
    check(
        Mode::Voice,
        expect![[r#"
            > text all three
            turn 1 started
            to model: text "all three"
            > calls function-call-1 export {"text":"a"} + function-call-2 crawl {"text":"b"} + function-call-3 export {"text":"c"}
            client: ModelGenerating
            request call-1 export
            request call-2 crawl
            request call-3 export
            start call-1 export (effect-1) {"text":"a"}
            call-1 is at work
            start call-2 crawl (effect-2) {"text":"b"}
            call-2 is at work
            start call-3 export (effect-3) {"text":"c"}
            call-3 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-2 ok {"backgroundTaskId":"01a1ee565e00-6d21325d4a1bcb9f6f2a9f64e8dcdbea","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-3 ok {"backgroundTaskId":"01a1ee565e00-54cf87d1a632857894b2bdcef5e10804","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 3 }
            > returns 3 accepted
            record effect-3 Accepted { until_unix_ms: 1795003600000 }
            > done
            turn 1 ended: calls 3 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > killed
            > connected 1
            > ready
            to model: history "all three"
            to model: late export OUTCOME_UNKNOWN export was started, and how it ended is not known; if that becomes known, it is told + crawl OUTCOME_UNKNOWN crawl was started, and whoever worked on it is gone without an answer; it has changed nothing, and may be called again if its result is still wanted
            > task 3 brought {"rows":7}
            recorded: Done
            call-6 has ended
            to model: late export ok {"rows":7}
            > done
            > text again
            turn 2 started
            to model: text "again"
            > calls function-call-4 crawl {"text":"b"} + function-call-5 export {"text":"a"}
            client: ModelGenerating
            request call-8 crawl
            request call-9 export
            start call-8 crawl (effect-4) {"text":"b"}
            call-8 is at work
            call-9 rejected ConfirmationRequired
            to model: function-call-4 ok {"backgroundTaskId":"01a1ee565e00-a86308e566d4bba5f8dcd64a9036e1dd","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-5 CONFIRMATION_REQUIRED export was begun before, at 2026-11-18T11:06:40.000Z with {"text":"a"}, and nobody knows whether it happened. The user is being asked whether to do it again
            client: ToolsComplete { tool_count: 2 }
            client: confirm call-9 token-1 {"text":"a"} warned "This was begun before, at 2026-11-18T11:06:40.000Z, and nobody knows whether it happened. If you approve it, it may happen a second time."
        "#]],
    );
}

#[test]
fn a_task_ends_at_its_time() {
    check(
        Mode::Voice,
        expect![[r#"
            > text both
            turn 1 started
            to model: text "both"
            > calls function-call-1 export {"text":"a"} + function-call-2 crawl {"text":"b"}
            client: ModelGenerating
            request call-1 export
            request call-2 crawl
            start call-1 export (effect-1) {"text":"a"}
            call-1 is at work
            start call-2 crawl (effect-2) {"text":"b"}
            call-2 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-2 ok {"backgroundTaskId":"01a1ee565e00-6d21325d4a1bcb9f6f2a9f64e8dcdbea","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 2 }
            > done
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > wait 3599999
            > wait 1
            abort call-1 (let it end)
            record effect-1 Unknown
            abort call-2
            record effect-2 Failed
            call-1 has ended OutcomeUnknown
            to model: late export OUTCOME_UNKNOWN export was started, and how it ended is not known
            call-2 has ended Transient
            to model: late crawl TRANSIENT crawl did not answer within 3600000 ms
            > returns 1 {"rows":7}
            call-1 returned late
            call-1 settled effect-1: true
            record effect-1 Succeeded
            call-3 has ended
            to model: late export ok {"rows":7}
        "#]],
    );
}

#[test]
fn no_more_tasks_begin_than_may_run() {
    check(
        Mode::Text,
        expect![[r#"
            > text many
            turn 1 started
            > calls function-call-1 export {"text":"1"} + function-call-2 export {"text":"2"} + function-call-3 export {"text":"3"} + function-call-4 export {"text":"4"} + function-call-5 export {"text":"5"} + function-call-6 export {"text":"6"} + function-call-7 export {"text":"7"}
            client: ModelGenerating
            request call-1 export
            request call-2 export
            request call-3 export
            request call-4 export
            request call-5 export
            request call-6 export
            request call-7 export
            start call-1 export (effect-1) {"text":"1"}
            call-1 is at work
            start call-2 export (effect-2) {"text":"2"}
            call-2 is at work
            start call-3 export (effect-3) {"text":"3"}
            call-3 is at work
            start call-4 export (effect-4) {"text":"4"}
            call-4 is at work
            start call-5 export (effect-5) {"text":"5"}
            call-5 is at work
            start call-6 export (effect-6) {"text":"6"}
            call-6 is at work
            call-7 rejected BudgetExceeded
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-2 ok {"backgroundTaskId":"01a1ee565e00-6d21325d4a1bcb9f6f2a9f64e8dcdbea","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-3 ok {"backgroundTaskId":"01a1ee565e00-54cf87d1a632857894b2bdcef5e10804","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-4 ok {"backgroundTaskId":"01a1ee565e00-e6c479aa19f8924cda13dcae6c038665","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-5 ok {"backgroundTaskId":"01a1ee565e00-3fe3e5a9fc5eb35d11d5f202f255ec41","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-6 ok {"backgroundTaskId":"01a1ee565e00-aef82e6e895fe8aa2a11932489dd25b5","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"} + function-call-7 BUDGET_EXCEEDED export was not started: 6 tasks of this user run already, and no more begin until one of them has ended
            client: ToolsComplete { tool_count: 7 }
            > returns 3 {"rows":3}
            record effect-3 Succeeded
            call-3 has ended
            > requests 2
            > calls function-call-8 export {"text":"8"}
            request call-8 export
            start call-8 export (effect-7) {"text":"8"}
            call-8 is at work
            to model: function-call-8 ok {"backgroundTaskId":"01a1ee565e00-aff1558199bca623a5eda86db43bf2bc","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
        "#]],
    );
}

#[test]
fn a_voice_session_that_stops_parts_from_its_client_and_waits_for_its_tasks() {
    check(
        Mode::Voice,
        expect![[r#"
            > text both
            turn 1 started
            to model: text "both"
            > calls function-call-1 export {"text":"a"}
            client: ModelGenerating
            request call-1 export
            start call-1 export (effect-1) {"text":"a"}
            call-1 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > done
            turn 1 ended: calls 1 retrieval 0 refusals 0 repeats 0
            client: TurnComplete { turn: 1 }
            > stop
            client: session complete, 1 transcripts
            client: Stopped
            part Stopped
            > returns 1 {"rows":7}
            record effect-1 Succeeded
            call-1 has ended
            session ended: Stopped
            close Stopped
        "#]],
    );
}

#[test]
fn a_change_is_waited_for_before_a_session_parts_from_its_client() {
    check(
        Mode::Voice,
        expect![[r#"
            > text both
            turn 1 started
            to model: text "both"
            > calls function-call-1 export {"text":"a"} + function-call-2 write {"text":"b"}
            client: ModelGenerating
            request call-1 export
            request call-2 write
            start call-1 export (effect-1) {"text":"a"}
            call-1 is at work
            start call-2 write (effect-2) {"text":"b"}
            > stop
            turn 1 ended: calls 2 retrieval 0 refusals 0 repeats 0 interrupted
            client: session complete, 1 transcripts
            > returns 2 {"done":true}
            record effect-2 Succeeded
            call-2 finished
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 2 }
            client: Stopped
            part Stopped
            > returns 1 {"rows":7}
            record effect-1 Succeeded
            call-1 has ended
            session ended: Stopped
            close Stopped
        "#]],
    );
}

#[test]
fn a_task_that_is_cancelled_between_two_attempts_makes_no_further_one() {
    check(
        Mode::Text,
        expect![[r#"
            > text crawl
            turn 1 started
            > calls function-call-1 crawl {"text":"a"}
            client: ModelGenerating
            request call-1 crawl
            start call-1 crawl (effect-1) {"text":"a"}
            call-1 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > returns 1 transient
            record effect-1 Failed
            call-1 attempt 2 in 285 ms
            > task 1 cancelled
            recorded: Running
            the user cancels call-1 by task: stopped
            record effect-1 Failed
            call-1 has ended Cancelled
            > wait 2000
            > task 1
            NotDone Task { is_read_only: true, is_external: false, progress: None, cancel_requested_at_unix_ms: Some(1795000000000), is_sent: false, is_deleted: false }
        "#]],
    );
}

#[test]
fn a_task_that_is_tried_again_is_told_of_when_it_has_ended() {
    check(
        Mode::Text,
        expect![[r#"
            > text crawl
            turn 1 started
            > calls function-call-1 crawl {"text":"a"}
            client: ModelGenerating
            request call-1 crawl
            start call-1 crawl (effect-1) {"text":"a"}
            call-1 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > returns 1 transient
            record effect-1 Failed
            call-1 attempt 2 in 285 ms
            > task 1
            Running Task { is_read_only: true, is_external: false, progress: None, cancel_requested_at_unix_ms: None, is_sent: false, is_deleted: false }
            > opens other by text
            > other: text and now?
            other: turn 1 started
            > wait 2000
            request call-1 crawl
            start call-1 crawl (effect-1) {"text":"a"}
            > returns 1/2 {"pages":3}
            record effect-1 Succeeded
            call-1 has ended
            other: call-2 has ended
            > other: says It is done.
            other: client: ModelGenerating
            other: client: Assistant piece "It is done."
            > other: done
            other: client: Assistant said "It is done."
            other: turn 1 ended: calls 0 retrieval 0 refusals 0 repeats 0
            other: client: TurnComplete { turn: 1 }
            other: to model: late crawl ok {"pages":3}
            > task 1
            Done Task { is_read_only: true, is_external: false, progress: None, cancel_requested_at_unix_ms: None, is_sent: false, is_deleted: false }
        "#]],
    );
}

#[test]
fn a_task_that_died_between_two_attempts_has_ended() {
    check(
        Mode::Text,
        expect![[r#"
            > text crawl
            turn 1 started
            > calls function-call-1 crawl {"text":"a"}
            client: ModelGenerating
            request call-1 crawl
            start call-1 crawl (effect-1) {"text":"a"}
            call-1 is at work
            to model: function-call-1 ok {"backgroundTaskId":"01a1ee565e00-90f84db520d5383c8334c6c5809484a0","note":"It was accepted and is still running; nothing has failed. You are told how it ends without asking for it: do not call it again for that.","state":"running","status":"accepted"}
            client: ToolsComplete { tool_count: 1 }
            > returns 1 transient
            record effect-1 Failed
            call-1 attempt 2 in 285 ms
            > killed
            > wait 100
            > task 1
            NotDone Task { is_read_only: true, is_external: false, progress: None, cancel_requested_at_unix_ms: None, is_sent: false, is_deleted: false }
            > opens later by text
            > later: text and now?
            later: turn 1 started
        "#]],
    );
}
