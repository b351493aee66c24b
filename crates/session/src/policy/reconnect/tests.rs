//! What follows the losses and the announced ends of connections.

use super::*;
use windlass_tool::kind::Mode;

fn closed(code: u16) -> LostReason {
    LostReason::Closed {
        code,
        reason: String::new(),
    }
}

fn begun(handle: Option<&str>) -> Reconnect {
    let mut plan = Reconnect::default();
    plan.ready(Timestamp(0));
    let handle = handle.map(|text| Sensitive(text.to_owned()));
    plan.update(handle, true, 0);
    plan
}

fn seconds(count: u64) -> Timestamp {
    Timestamp::from_millis(count * 1_000)
}

#[test]
fn pauses_double_up_to_their_limit_and_attempts_end() {
    let limits = Limits::of(Mode::Voice);
    let mut plan = begun(None);
    let network = LostReason::Network {
        problem: "unreachable".to_owned(),
    };
    let mut pauses = Vec::new();
    while let Verdict::Retry(pause) = plan.lost(&network, seconds(60), &limits) {
        plan.open(true);
        pauses.push(pause.as_millis());
    }
    assert_eq!(pauses, [0, 250, 500, 1_000, 2_000, 4_000]);
}

#[test]
fn what_will_not_change_is_not_tried_again() {
    let limits = Limits::of(Mode::Voice);
    for (reason, is_retried) in [
        (LostReason::Unauthorized, false),
        (closed(1007), false),
        (closed(1008), true),
        (closed(1011), true),
        (LostReason::Refused { status: 404 }, false),
        (LostReason::Refused { status: 429 }, true),
        (LostReason::Refused { status: 503 }, true),
        (LostReason::SetupTimeout, true),
    ] {
        let mut plan = begun(None);
        assert_eq!(
            plan.lost(&closed(1011), seconds(1), &limits),
            Verdict::Retry(Duration::ZERO)
        );
        plan.open(true);
        let verdict = plan.lost(&reason, seconds(2), &limits);
        assert_eq!(verdict != Verdict::GiveUp, is_retried, "{reason:?}");
    }
    let mut first = Reconnect::default();
    assert_eq!(
        first.lost(&closed(1011), seconds(1), &limits),
        Verdict::GiveUp
    );
}

#[test]
fn a_handle_that_was_refused_twice_is_thrown_away() {
    let limits = Limits::of(Mode::Voice);
    let mut plan = begun(Some("h-1"));
    plan.lost(&closed(1011), seconds(60), &limits);
    let mut handles = Vec::new();
    for _ in 0..4 {
        handles.push(plan.open(true).handle.is_some());
        plan.lost(&closed(1008), seconds(60), &limits);
    }
    assert_eq!(handles, [true, true, false, false]);
}

#[test]
fn a_handle_whose_sessions_die_at_once_counts_as_refused() {
    let limits = Limits::of(Mode::Voice);
    let mut plan = begun(Some("h-1"));
    plan.lost(&closed(1011), seconds(60), &limits);
    let mut handles = Vec::new();
    for number in 0..3 {
        handles.push(plan.open(true).handle.is_some());
        plan.ready(seconds(60));
        plan.update(Some(Sensitive(format!("h-{number}"))), true, 0);
        plan.lost(&closed(1007), seconds(61), &limits);
    }
    assert_eq!(handles, [true, true, false]);
}

#[test]
fn a_network_that_fails_says_nothing_about_the_handle() {
    let limits = Limits::of(Mode::Voice);
    let mut plan = begun(Some("h-1"));
    for _ in 0..4 {
        let problem = "unreachable".to_owned();
        plan.lost(&LostReason::Network { problem }, seconds(60), &limits);
        assert!(plan.open(true).handle.is_some());
    }
}

#[test]
fn a_good_connection_makes_up_for_the_attempts_before_it() {
    let limits = Limits::of(Mode::Voice);
    let mut plan = begun(None);
    for round in 1..20 {
        let at = seconds(20 * round);
        let verdict = plan.lost(&closed(1011), at, &limits);
        assert_eq!(verdict, Verdict::Retry(Duration::ZERO), "round {round}");
        plan.open(true);
        plan.ready(at);
    }
}

#[test]
fn a_quiet_session_rotates_only_with_a_handle_that_holds_everything() {
    let mut plan = begun(Some("h-1"));
    assert!(!plan.may_rotate(true), "nobody announced an end");
    assert_eq!(
        plan.go_away(seconds(10), Some(Duration::from_secs(50))),
        seconds(55)
    );
    assert!(plan.may_rotate(true));
    plan.heard();
    assert!(!plan.may_rotate(true), "the handle is out of date");
    assert!(plan.may_rotate(false), "no handle will ever come");
    plan.update(Some(Sensitive("h-2".to_owned())), true, 0);
    assert!(plan.may_rotate(true));
    assert_eq!(
        plan.go_away(seconds(10), Some(Duration::from_secs(3))),
        seconds(10)
    );
}

#[test]
fn a_handle_is_refused_by_who_has_read_it() {
    let limits = Limits::of(Mode::Voice);
    let problem = || "it ended".to_owned();
    let dropped = LostReason::Dropped { problem: problem() };
    let unreachable = LostReason::Network { problem: problem() };
    for (reason, expected) in [
        (dropped, [true, true, false]),
        (unreachable, [true, true, true]),
    ] {
        let mut plan = begun(Some("h-1"));
        plan.lost(&reason, seconds(60), &limits);
        let handles = [(); 3].map(|()| {
            let handle = plan.open(true).handle;
            plan.lost(&reason, seconds(60), &limits);
            handle.is_some()
        });
        assert_eq!(handles, expected, "{reason:?}");
    }
}
