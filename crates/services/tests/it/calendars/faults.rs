//! Changes at Google whose requests go wrong: what is told, what is found afterwards, and that the repeat leaves exactly one event.

use super::client::now;
use super::google::Desk;
use super::google_calendar::{cancel, change, create, moved};
use super::server::{End, Fault};
use windlass_contract::handler::{CalendarChange, CalendarError, Calendars};
use windlass_services::Links;

/// What an attempt is said to have come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Done,
    /// Nothing was changed, and it may be tried again.
    Unavailable,
    Limited(u64),
    Refused,
    /// Of an argument that is not taken.
    Invalid,
    /// Nobody knows.
    Unsettled,
}

fn told<T>(answer: &Result<T, CalendarError>) -> Told {
    match answer {
        Ok(_) => Told::Done,
        Err(CalendarError::Unavailable(_)) => Told::Unavailable,
        Err(CalendarError::Limited { retry_after_ms }) => Told::Limited(*retry_after_ms),
        Err(CalendarError::Refused(_)) => Told::Refused,
        Err(CalendarError::Rejected { pointer: "", .. }) => Told::Invalid,
        Err(CalendarError::Unsettled(_)) => Told::Unsettled,
        Err(error) => panic!("{error:?}"),
    }
}

const RATE: &str = "{\"error\":{\"errors\":[{\"domain\":\"usageLimits\",\"reason\":\"rateLimitExceeded\"}],\"code\":403,\"message\":\"Rate Limit Exceeded\"}}";
const FORBIDDEN: &str = "{\"error\":{\"errors\":[{\"reason\":\"forbiddenForServiceAccounts\"}],\"code\":403,\"message\":\"no\"}}";
const UNAUTHORIZED: End = End::Status(401, "{}", &[]);

fn before(end: End) -> Fault {
    Fault {
        is_carried_out: false,
        end,
    }
}

fn after(end: End) -> Fault {
    Fault {
        is_carried_out: true,
        end,
    }
}

/// What goes wrong with the request that changes something, and what is told.
fn of_changes() -> Vec<(Vec<Fault>, Told)> {
    let server_error = || End::Status(500, "{\"error\":{\"code\":500}}", &[]);
    let unavailable = || End::Status(503, "", &[("Retry-After", "5")]);
    let limited = End::Status(429, "{}", &[("Retry-After", "7")]);
    let dated = End::Status(
        429,
        "{}",
        &[("Retry-After", "Wed, 18 Nov 2026 11:06:49 GMT")],
    );
    vec![
        (vec![before(UNAUTHORIZED)], Told::Done),
        (
            vec![before(UNAUTHORIZED), before(UNAUTHORIZED)],
            Told::Refused,
        ),
        (
            vec![before(End::Status(403, FORBIDDEN, &[]))],
            Told::Refused,
        ),
        (
            vec![before(End::Status(403, RATE, &[]))],
            Told::Limited(10_000),
        ),
        (vec![before(limited)], Told::Limited(7_000)),
        (vec![before(dated)], Told::Limited(9_000)),
        (
            vec![before(End::Status(400, "no JSON", &[]))],
            Told::Invalid,
        ),
        (vec![before(server_error())], Told::Unsettled),
        (vec![after(server_error())], Told::Unsettled),
        (vec![after(unavailable())], Told::Unsettled),
        (
            vec![after(End::Status(
                302,
                "",
                &[("Location", "http://127.0.0.1:9/")],
            ))],
            Told::Unsettled,
        ),
        (vec![before(End::Lost)], Told::Unsettled),
        (vec![after(End::Lost)], Told::Unsettled),
        (vec![before(End::Silent)], Told::Unsettled),
        (vec![after(End::Silent)], Told::Unsettled),
        (vec![after(End::Cut)], Told::Unsettled),
    ]
}

/// What goes wrong with a request before that.
fn of_looks() -> Vec<(Fault, Told)> {
    vec![
        (before(End::Status(500, "", &[])), Told::Unavailable),
        (before(End::Lost), Told::Unavailable),
        (before(End::Silent), Told::Unavailable),
        (after(End::Cut), Told::Unavailable),
        (after(End::Garbage), Told::Unavailable),
        (
            before(End::Status(429, "", &[("Retry-After", "2")])),
            Told::Limited(2_000),
        ),
        (before(End::Status(403, RATE, &[])), Told::Limited(10_000)),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    Move,
    Cancel,
}

impl Step {
    /// The requests before the one that changes something, and that one.
    fn requests(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Create => (&["token", "get", "busy"], "insert"),
            Self::Move => (&["token", "get", "busy"], "patch"),
            Self::Cancel => (&["token", "get"], "delete"),
        }
    }

    /// A desk at which the change can be made, and the change.
    fn begin(self) -> (Desk, CalendarChange) {
        let desk = Desk::default();
        if self == Self::Create {
            return (desk, change("k2", create("12:00", "13:00")));
        }
        let made = change("k1", create("12:00", "13:00"));
        let made = now(desk.calendars(Links::Nobody).change(made)).unwrap();
        let kind = match self {
            Self::Create | Self::Move => moved(&made.id, "14:00", "15:00"),
            Self::Cancel => cancel(&made.id, "12:00"),
        };
        (desk, change("k2", kind))
    }

    fn is_made(self, desk: &Desk) -> bool {
        let state = desk.state();
        match self {
            Self::Create => !state.events.is_empty(),
            Self::Move => state
                .events
                .values()
                .all(|event| event["start"]["dateTime"] == "2026-11-30T13:00:00Z"),
            Self::Cancel => state
                .events
                .values()
                .all(|event| event["status"] == "cancelled"),
        }
    }
}

fn check(step: Step, request: &'static str, faults: &[Fault], expected: Told) {
    let (desk, change) = step.begin();
    let calendars = desk.calendars(Links::Nobody);
    for fault in faults {
        desk.server.breaks(request, fault.clone());
    }
    let case = format!("{step:?}, {request}: {faults:?}");
    let first = now(calendars.change(change.clone()));
    assert_eq!(told(&first), expected, "{case}");
    assert!(!desk.server.has_faults(), "{case}: it was not asked for");
    let was_made = step.is_made(&desk);
    match expected {
        Told::Done => assert!(was_made, "{case}"),
        Told::Unsettled => {}
        Told::Unavailable | Told::Limited(_) | Told::Refused | Told::Invalid => {
            assert!(!was_made, "{case}");
        }
    }
    // The ledger looks before anything is tried again.
    let found = now(calendars.find(change.clone())).unwrap();
    assert_eq!(found.is_some(), was_made, "{case}");
    let again = now(calendars.change(change.clone())).unwrap();
    assert!(step.is_made(&desk), "{case}");
    assert_eq!(desk.state().events.len(), 1, "{case}");
    if let Some(found) = found {
        assert_eq!(again, found, "{case}");
    }
    assert!(now(calendars.find(change)).unwrap().is_some(), "{case}");
}

#[test]
fn a_change_is_told_as_it_is_and_made_once() {
    for step in [Step::Create, Step::Move, Step::Cancel] {
        let (_, request) = step.requests();
        for (faults, expected) in of_changes() {
            check(step, request, &faults, expected);
        }
    }
    for step in [Step::Create, Step::Move] {
        let (_, request) = step.requests();
        check(step, request, &[after(End::Garbage)], Told::Unsettled);
    }
}

#[test]
fn a_look_that_fails_changes_nothing_and_says_so() {
    for step in [Step::Create, Step::Move, Step::Cancel] {
        let (looks, _) = step.requests();
        for look in looks {
            for (fault, expected) in of_looks() {
                check(step, look, &[fault], expected);
            }
        }
    }
}

#[test]
fn the_id_of_an_event_that_exists_already_is_read_and_compared() {
    let (desk, create) = Step::Create.begin();
    let calendars = desk.calendars(Links::Nobody);
    // The first insert is carried out and answered as if another had been quicker.
    desk.server
        .breaks("insert", after(End::Status(409, "{}", &[])));
    let made = now(calendars.change(create.clone())).unwrap();
    assert_eq!(desk.state().events.len(), 1);
    // The same id on an event of another.
    {
        let mut state = desk.state();
        let event = state.events.get_mut(&made.id).unwrap();
        event["extendedProperties"]["private"]["windlassChanges"] = "another".into();
    }
    let refused = now(calendars.change(create.clone()));
    assert_eq!(told(&refused), Told::Refused);
    assert_eq!(now(calendars.find(create)), Ok(None));
}

#[test]
fn an_id_that_is_taken_leaves_a_change_open_where_the_look_after_it_fails() {
    let missing = || before(End::Status(404, "{}", &[]));
    for look in [
        missing(),
        before(End::Status(500, "", &[])),
        before(End::Status(403, FORBIDDEN, &[])),
        before(End::Status(429, "", &[("Retry-After", "2")])),
        before(End::Lost),
        after(End::Cut),
        after(End::Garbage),
    ] {
        let (desk, create) = Step::Create.begin();
        let calendars = desk.calendars(Links::Nobody);
        let case = format!("{look:?}");
        // The look before the insert finds nothing, because the attempt before is still on its way.
        desk.server.breaks("get", missing());
        desk.server
            .breaks("insert", after(End::Status(409, "{}", &[])));
        desk.server.breaks("get", look);
        let open = now(calendars.change(create.clone()));
        assert_eq!(told(&open), Told::Unsettled, "{case}");
        assert!(!desk.server.has_faults(), "{case}");
        assert!(now(calendars.find(create)).unwrap().is_some(), "{case}");
    }
}

#[test]
fn an_event_that_was_changed_since_the_look_is_looked_at_again() {
    for (step, request) in [(Step::Move, "patch"), (Step::Cancel, "delete")] {
        let outdated = || before(End::Status(412, "{}", &[]));
        check(step, request, &[outdated(), outdated()], Told::Done);
        check(
            step,
            request,
            &[outdated(), outdated(), outdated()],
            Told::Unavailable,
        );
    }
}

#[test]
fn a_change_that_arrives_late_is_not_made_twice() {
    // The first attempt's patch arrives after the look of the second attempt.
    let (desk, moved) = Step::Move.begin();
    let calendars = desk.calendars(Links::Nobody);
    now(calendars.change(moved.clone())).unwrap();
    desk.server.breaks("get", before(End::Status(500, "", &[])));
    assert_eq!(
        told(&now(calendars.change(moved.clone()))),
        Told::Unavailable
    );
    now(calendars.change(moved)).unwrap();
    assert_eq!(desk.server.asked("patch").len(), 1);
}

#[test]
fn an_event_that_was_deleted_since_does_not_say_whether_it_was_moved() {
    let (desk, moved) = Step::Move.begin();
    let calendars = desk.calendars(Links::Nobody);
    now(calendars.change(moved.clone())).unwrap();
    let id = desk.state().events.keys().next().unwrap().clone();
    now(calendars.change(change("k3", cancel(&id, "14:00")))).unwrap();
    assert_eq!(told(&now(calendars.find(moved))), Told::Unsettled);
}
