//! Files as programs and people leave them: what is read, and what is said of the rest.

use crate::{at, busy_in, calendar_of, file_of, span};
use jiff::tz::TimeZone;
use windlass_calendar::{Status, expand, read, zone};

fn check(lines: &[&str], busy: &[(&str, &str)], problems: &[&str]) {
    let calendar = calendar_of(lines);
    let range = span("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z");
    let expected: Vec<_> = busy.iter().map(|(start, end)| span(start, end)).collect();
    assert_eq!(busy_in(&calendar, range), expected, "{lines:?}");
    let said: Vec<String> = calendar.problems.iter().map(ToString::to_string).collect();
    assert_eq!(said, problems, "{lines:?}");
}

#[test]
fn each_form_of_a_time_is_read_in_its_zone() {
    check(
        &["DTSTART:20261110T090000Z", "DTEND:20261110T100000Z"],
        &[("2026-11-10T09:00:00Z", "2026-11-10T10:00:00Z")],
        &[],
    );
    check(
        &["DTSTART:20261110T090000", "DURATION:PT45M"],
        &[("2026-11-10T08:00:00Z", "2026-11-10T08:45:00Z")],
        &[],
    );
    check(
        &[
            "DTSTART;TZID=America/New_York:20261110T090000",
            "DTEND;TZID=Europe/Oslo:20261110T160000",
        ],
        &[("2026-11-10T14:00:00Z", "2026-11-10T15:00:00Z")],
        &[],
    );
    check(
        &["DTSTART;VALUE=DATE:20261110"],
        &[("2026-11-09T23:00:00Z", "2026-11-10T23:00:00Z")],
        &[],
    );
    check(
        &["DTSTART;VALUE=DATE:20261110", "DTEND;VALUE=DATE:20261112"],
        &[("2026-11-09T23:00:00Z", "2026-11-11T23:00:00Z")],
        &[],
    );
    check(
        &[
            "DTSTART;TZID=/mozilla.org/20050126_1/Europe/Berlin:20261110T090000",
            "DURATION:P1DT2H",
        ],
        &[("2026-11-10T08:00:00Z", "2026-11-11T10:00:00Z")],
        &[],
    );
}

#[test]
fn what_takes_no_time_is_not_busy() {
    let time = ["DTSTART:20261110T090000Z", "DTEND:20261110T100000Z"];
    for line in ["TRANSP:TRANSPARENT", "STATUS:CANCELLED"] {
        check(&[time[0], time[1], line], &[], &[]);
    }
    check(&["DTSTART:20261110T090000Z"], &[], &[]);
    let tentative = calendar_of(&[time[0], time[1], "STATUS:TENTATIVE"]);
    assert_eq!(tentative.events[0].status, Status::Tentative);
    assert!(tentative.events[0].is_busy());
}

#[test]
fn what_is_broken_is_named_and_costs_itself() {
    check(
        &["SUMMARY:No start"],
        &[],
        &["line 3: an event has no DTSTART; the event is left out"],
    );
    check(
        &["DTSTART:20261350T090000Z"],
        &[],
        &["line 5: 20261350T090000Z is no date or time; the event is left out"],
    );
    check(
        &["DTSTART:99991231T235959Z"],
        &[],
        &["line 5: 99991231T235959Z is no date or time; the event is left out"],
    );
    check(
        &["DTSTART:20261110T100000Z", "DTEND:20261110T090000Z"],
        &[],
        &["line 6: 20261110T090000Z is no end after the start"],
    );
    check(
        &["DTSTART:20261110T100000Z", "DURATION:-PT1H"],
        &[],
        &["line 6: -PT1H is no end after the start"],
    );
    // A zone that does not exist leaves the time busy, where the calendar is.
    check(
        &[
            "DTSTART;TZID=Europe/Atlantis:20261110T100000",
            "DURATION:PT1H",
        ],
        &[("2026-11-10T09:00:00Z", "2026-11-10T10:00:00Z")],
        &[
            "line 5: there is no time zone Europe/Atlantis; the time is read in that of the calendar",
        ],
    );
    check(
        &[
            "DTSTART:20261110T100000Z",
            "DURATION:PT1H",
            "RRULE:FREQ=FORTNIGHTLY",
        ],
        &[("2026-11-10T10:00:00Z", "2026-11-10T11:00:00Z")],
        &["line 7: FREQ=FORTNIGHTLY is no part of a rule; only the first occurrence is known"],
    );
    check(
        &[
            "DTSTART:20261110T100000Z",
            "DURATION:PT1H",
            "nonsense",
            "EXDATE:soon",
        ],
        &[("2026-11-10T10:00:00Z", "2026-11-10T11:00:00Z")],
        &[
            "line 7: nonsense is no line NAME:VALUE",
            "line 8: soon is no date or time",
        ],
    );
}

#[test]
fn a_file_that_breaks_off_keeps_its_whole_events() {
    let whole = file_of(&["DTSTART:20261110T100000Z", "DURATION:PT1H"]);
    let oslo = zone("Europe/Oslo").unwrap();
    for end in 0..whole.len() {
        let read = read(&whole[..end], &oslo);
        assert!(read.events.len() <= 1);
        let is_told =
            !read.problems.is_empty() || read.events.len() == 1 || end < "BEGIN:VCALENDAR".len();
        assert!(is_told, "{}", &whole[..end]);
    }
    assert_eq!(read("<html>no calendar</html>", &oslo).events.len(), 0);
    assert_eq!(read("", &oslo).problems, []);
}

#[test]
fn a_zone_that_the_file_describes_is_followed() {
    let file = "BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nTZID:W. Europe Standard Time\nBEGIN:STANDARD\nDTSTART:16010101T030000\n\
        TZOFFSETFROM:+0200\nTZOFFSETTO:+0100\nRRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=-1SU;BYMONTH=10\nEND:STANDARD\n\
        BEGIN:DAYLIGHT\nDTSTART:16010101T020000\nTZOFFSETFROM:+0100\nTZOFFSETTO:+0200\n\
        RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=-1SU;BYMONTH=3\nEND:DAYLIGHT\nEND:VTIMEZONE\n\
        BEGIN:VEVENT\nUID:a\nDTSTART;TZID=W. Europe Standard Time:20260710T100000\nDURATION:PT1H\nEND:VEVENT\n\
        BEGIN:VEVENT\nUID:b\nDTSTART;TZID=W. Europe Standard Time:20261210T100000\nDURATION:PT1H\nEND:VEVENT\nEND:VCALENDAR\n";
    let calendar = read(file, &TimeZone::UTC);
    assert_eq!(calendar.problems, []);
    let (found, _) = expand(
        &calendar,
        &TimeZone::UTC,
        at("2026-01-01T00:00:00Z"),
        at("2027-01-01T00:00:00Z"),
    )
    .unwrap();
    let starts: Vec<_> = found.iter().map(|found| found.start).collect();
    assert_eq!(
        starts,
        [at("2026-07-10T08:00:00Z"), at("2026-12-10T09:00:00Z")]
    );
}

#[test]
fn texts_and_people_are_read_without_their_escapes() {
    let calendar = calendar_of(&[
        "DTSTART:20261110T100000Z",
        "SUMMARY:Lunch\\, then a walk",
        "DESCRIPTION:One\\nTwo",
        "ATTENDEE;CN=\"Berg, Anna\":MAILTO:anna@example.org",
        "ATTENDEE:mailto:bo@example.org",
    ]);
    let event = &calendar.events[0];
    assert_eq!(event.summary.as_deref(), Some("Lunch, then a walk"));
    assert_eq!(event.description.as_deref(), Some("One\nTwo"));
    let people: Vec<_> = event
        .attendees
        .iter()
        .map(|who| (who.email.as_str(), who.name.as_deref()))
        .collect();
    assert_eq!(
        people,
        [
            ("anna@example.org", Some("Berg, Anna")),
            ("bo@example.org", None)
        ]
    );
}
