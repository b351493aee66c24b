//! An audit that cannot be written any more, while the store can, as the server's process finds it: nothing that changes the
//! world starts, everything else goes on, and so do changes once the audit is there again.

use crate::chat::words;
use crate::disk_full::{Process, SEARCH, is_done, serve};
use crate::support::http::HttpAnswer;
use crate::support::program::{command, run};
use std::fs;

#[test]
fn an_audit_that_cannot_be_written_stops_changes_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("data").join("audit.jsonl");
    let aside = folder.path().join("audit.aside");
    let server = serve(folder.path(), "exec \"$@\"");
    let changed = change(&server, "before");
    assert!(is_done(&changed), "{}", changed.body);

    // A folder in its place takes no line from anybody, an administrator neither; the store beside it takes whatever comes.
    fs::rename(&audit, &aside).unwrap();
    fs::create_dir(&audit).unwrap();
    assert!(is_done(&server.say("reads", SEARCH)));
    server.running.expect_log("the audit cannot be written");
    for conversation in ["before", "reads", "new"] {
        let refused = change(&server, &format!("while-{conversation}"));
        assert!(refused.body.contains("TRANSIENT"), "{}", refused.body);
        assert!(!is_done(&refused), "{}", refused.body);
        let searched = server.say(conversation, SEARCH);
        assert!(is_done(&searched), "{}", searched.body);
        let answer = server.say(conversation, "hello");
        assert!(!words(&answer).is_empty(), "{}", answer.body);
    }

    fs::remove_dir(&audit).unwrap();
    fs::rename(&aside, &audit).unwrap();
    server.running.expect_log("the audit is written again");
    let changed = change(&server, "after");
    assert!(is_done(&changed), "{}", changed.body);
    end(server);
    let verified = run(command(folder.path()).args(["audit", "verify"]).arg(&audit));
    assert_eq!(verified.code, 0, "{:?}", verified.problems);
}

/// Has a user of its own be ignored, in a conversation of its own.
fn change(server: &Process, user: &str) -> HttpAnswer {
    let arguments = "{\"duration_seconds\": 60, \"farewell_message\": \"Enough.\"}";
    let message = format!("call ignore_user {arguments}");
    server.say_as(user, &format!("change-{user}"), &message)
}

fn end(server: Process) {
    server.running.signal("-TERM");
    let (code, log) = server.running.end();
    assert_eq!(code, Some(0), "{log}");
}
