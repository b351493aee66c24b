//! Tools that are not for everybody: who may call them, and who may approve their calls.

use crate::harness::Bench;
use crate::harness::tools::roles;
use windlass_contract::kind::Mode;
use windlass_contract::rights::Rights;

/// A session of a caller with these roles, and what it says to each line of a script. `None` has not signed in.
fn said(named: Option<&[&str]>, script: &[&str]) -> Vec<String> {
    let rights = match named {
        None => Rights::Anonymous,
        Some(named) => Rights::signed_in(roles(named)),
    };
    let (mut bench, _) = Bench::with(Mode::Voice, |config| config.rights = rights);
    for line in ["connected 1", "ready", "log"] {
        bench.line(line);
    }
    script.iter().map(|line| bench.line(line)).collect()
}

#[test]
fn a_tool_is_refused_to_whoever_may_not_use_it() {
    for (named, refusal) in [
        (None, Some("for users who have signed in")),
        (Some(&["guest"][..]), Some("is not for this user")),
        (Some(&["guest", "staff"]), None),
    ] {
        let script = ["text look into it", "calls function-call-1 inspect {}"];
        let answer = said(named, &script).pop().unwrap();
        match refusal {
            Some(refusal) => {
                assert!(
                    answer.contains("AUTH") && answer.contains(refusal),
                    "{answer}"
                );
                assert!(!answer.contains("start"), "{answer}");
            }
            None => assert!(!answer.contains("AUTH"), "{answer}"),
        }
    }
    // Nor is it named to them.
    let script = ["text look into it", "calls function-call-1 inspec {}"];
    let answer = said(Some(&["guest"]), &script).pop().unwrap();
    assert!(
        answer.contains("NOT_FOUND") && !answer.contains("nearest tool is inspect"),
        "{answer}"
    );
}

#[test]
fn a_call_is_approved_by_those_alone_whose_role_it_is() {
    let script = [
        "text release it",
        "calls function-call-1 release {}",
        "says Please confirm.",
        "done",
        "confirm token-1",
    ];
    for (named, is_approver) in [(&["staff"], false), (&["manager"], true)] {
        let answers = said(Some(named), &script);
        assert!(answers[1].contains("CONFIRMATION_REQUIRED"), "{answers:?}");
        assert_eq!(!answers[4].contains("AUTH"), is_approver, "{answers:?}");
    }
}
