//! Tests of the steps that follow losses and announced ends of connections.

use super::*;
use windlass_contract::kind::Mode;

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
    let limits = Limits::of(Mode::Voice);
    let mut plan = begun(Some("h-1"));
    assert!(
        !plan.may_rotate(true, seconds(10)),
        "nobody announced an end"
    );
    assert_eq!(
        plan.go_away(seconds(10), Some(Duration::from_secs(50)), &limits),
        seconds(55)
    );
    let now = seconds(10);
    assert!(plan.may_rotate(true, now));
    plan.heard();
    assert!(!plan.may_rotate(true, now), "the handle is out of date");
    assert!(plan.may_rotate(false, now), "no handle will ever come");
    plan.update(Some(Sensitive("h-2".to_owned())), true, 0);
    assert!(plan.may_rotate(true, now));
    assert_eq!(
        plan.go_away(seconds(10), Some(Duration::from_secs(3)), &limits),
        seconds(10)
    );
}

/// Milliseconds for which each of so many connections is kept, if the provider wants them left as soon as they are ready.
fn kept(plan: &mut Reconnect, count: u64) -> Vec<u128> {
    let limits = Limits::of(Mode::Voice);
    let mut now = seconds(60);
    let mut kept = Vec::new();
    for _ in 0..count {
        plan.open(true);
        plan.ready(now);
        let left_at = plan.go_away(now, Some(Duration::ZERO), &limits);
        assert_eq!(
            plan.go_away(now, None, &limits),
            left_at.max(now + ROTATION_LEAD)
        );
        kept.push(left_at.since(now).as_millis());
        now = left_at;
        plan.left(now);
    }
    kept
}

#[test]
fn connections_that_are_to_be_left_at_once_count_as_attempts() {
    let mut plan = begun(None);
    assert_eq!(
        kept(&mut plan, 8),
        [0, 250, 500, 1_000, 2_000, 4_000, 10_000, 0],
        "none is tried after the sixth, and one that held for ten seconds starts anew"
    );
    plan.proved();
    assert_eq!(kept(&mut plan, 2), [0, 250]);
}

#[test]
fn a_connection_that_brought_an_answer_is_left_when_the_provider_says_so() {
    let limits = Limits::of(Mode::Voice);
    let mut plan = begun(None);
    kept(&mut plan, 3);
    plan.open(true);
    plan.ready(seconds(70));
    let soon = Some(Duration::from_secs(50));
    assert_eq!(plan.go_away(seconds(70), soon, &limits), seconds(115));
    assert!(!plan.may_rotate(false, seconds(71)), "it has shown nothing");
    assert!(plan.may_rotate(false, seconds(80)), "it held");
    plan.proved();
    assert!(plan.may_rotate(false, seconds(71)));
    plan.left(seconds(71));
    assert_eq!(plan.attempts(), 0);
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
