//! Series: what repeats, what differs, and what a change of the clock does. The Python tests compare 1,000 random calendars with
//! another library; here are the cases that have a name.

use crate::{at, busy_in, calendar_of, span};
use jiff::tz::TimeZone;
use windlass_calendar::{ExpandError, expand, read, zone};

fn starts(lines: &[&str], from: &str, to: &str) -> Vec<String> {
    let calendar = calendar_of(lines);
    assert_eq!(calendar.problems, [], "{lines:?}");
    let oslo = zone("Europe/Oslo").unwrap();
    let (found, problems) = expand(&calendar, &oslo, at(from), at(to)).unwrap();
    assert_eq!(problems, []);
    found.iter().map(|found| found.start.to_string()).collect()
}

#[test]
fn an_hour_that_is_left_out_comes_later_and_one_that_comes_twice_is_the_first() {
    let daily = [
        "DTSTART;TZID=Europe/Oslo:20260101T023000",
        "DURATION:PT15M",
        "RRULE:FREQ=DAILY",
    ];
    assert_eq!(
        starts(&daily, "2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z"),
        [
            "2026-03-28T01:30:00Z",
            "2026-03-29T01:30:00Z",
            "2026-03-30T00:30:00Z"
        ]
    );
    assert_eq!(
        starts(&daily, "2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z"),
        [
            "2026-10-24T00:30:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-26T01:30:00Z"
        ]
    );
    // A night lasts by the clock on the wall: an hour longer in autumn.
    let night = calendar_of(&[
        "DTSTART;TZID=Europe/Oslo:20261020T220000",
        "DTEND;TZID=Europe/Oslo:20261021T060000",
        "RRULE:FREQ=DAILY",
    ]);
    let range = span("2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z");
    assert_eq!(
        busy_in(&night, range),
        [
            span("2026-10-24T20:00:00Z", "2026-10-25T05:00:00Z"),
            span("2026-10-25T21:00:00Z", "2026-10-26T05:00:00Z")
        ]
    );
    // A duration is what passes.
    let exact = calendar_of(&["DTSTART;TZID=Europe/Oslo:20261024T220000", "DURATION:PT8H"]);
    assert_eq!(
        busy_in(&exact, range),
        [span("2026-10-24T20:00:00Z", "2026-10-25T04:00:00Z")]
    );
}

#[test]
fn rules_give_the_dates_that_people_mean() {
    for (lines, expected) in [
        (
            &["DTSTART;VALUE=DATE:20200131", "RRULE:FREQ=MONTHLY"][..],
            &["2026-05-30T22:00:00Z"][..],
        ),
        (
            &[
                "DTSTART;VALUE=DATE:20200101",
                "RRULE:FREQ=MONTHLY;BYDAY=-1FR",
            ],
            &["2026-05-28T22:00:00Z"],
        ),
        (
            &[
                "DTSTART;VALUE=DATE:20200101",
                "RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            ],
            &["2026-05-28T22:00:00Z"],
        ),
        (&["DTSTART;VALUE=DATE:20200229", "RRULE:FREQ=YEARLY"], &[]),
        (
            &[
                "DTSTART;VALUE=DATE:20200518",
                "RRULE:FREQ=YEARLY;BYWEEKNO=21;BYDAY=MO",
            ],
            &["2026-05-17T22:00:00Z"],
        ),
        (
            &[
                "DTSTART;VALUE=DATE:20200101",
                "RRULE:FREQ=MONTHLY;INTERVAL=5;BYMONTHDAY=1",
            ],
            &[],
        ),
        (
            &["DTSTART;VALUE=DATE:20260501", "RRULE:FREQ=WEEKLY;COUNT=2"],
            &["2026-04-30T22:00:00Z", "2026-05-07T22:00:00Z"],
        ),
        (
            &[
                "DTSTART;VALUE=DATE:20260501",
                "RRULE:FREQ=WEEKLY;UNTIL=20260508",
            ],
            &["2026-04-30T22:00:00Z", "2026-05-07T22:00:00Z"],
        ),
        (
            &[
                "DTSTART;VALUE=DATE:20260501",
                "RRULE:FREQ=WEEKLY;UNTIL=20260515",
                "EXDATE;VALUE=DATE:20260508",
                "RDATE;VALUE=DATE:20260509",
            ],
            &[
                "2026-04-30T22:00:00Z",
                "2026-05-08T22:00:00Z",
                "2026-05-14T22:00:00Z",
            ],
        ),
    ] {
        let may = starts(lines, "2026-04-30T22:00:00Z", "2026-05-31T22:00:00Z");
        assert_eq!(may, expected, "{lines:?}");
    }
}

#[test]
fn instances_take_the_place_of_occurrences() {
    let file = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:s\nDTSTART:20261102T090000Z\nDTEND:20261102T100000Z\nRRULE:FREQ=DAILY;COUNT=5\nEND:VEVENT\n\
        BEGIN:VEVENT\nUID:s\nRECURRENCE-ID:20261103T090000Z\nDTSTART:20261103T120000Z\nDTEND:20261103T130000Z\nEND:VEVENT\n\
        BEGIN:VEVENT\nUID:s\nRECURRENCE-ID:20261104T090000Z\nDTSTART:20261104T090000Z\nSTATUS:CANCELLED\nEND:VEVENT\n\
        BEGIN:VEVENT\nUID:s\nRECURRENCE-ID;RANGE=THISANDFUTURE:20261105T090000Z\nDTSTART:20261105T080000Z\nDTEND:20261105T083000Z\nEND:VEVENT\n\
        END:VCALENDAR\n";
    let calendar = read(file, &TimeZone::UTC);
    let range = span("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z");
    assert_eq!(
        busy_in(&calendar, range),
        [
            span("2026-11-02T09:00:00Z", "2026-11-02T10:00:00Z"),
            span("2026-11-03T12:00:00Z", "2026-11-03T13:00:00Z"),
            span("2026-11-05T08:00:00Z", "2026-11-05T08:30:00Z"),
            span("2026-11-06T08:00:00Z", "2026-11-06T08:30:00Z"),
        ]
    );
}

#[test]
fn a_rule_without_a_bearable_end_takes_the_whole_time_and_never_the_whole_machine() {
    let range = span("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z");
    for (rule, is_free) in [
        ("FREQ=SECONDLY", false),
        ("FREQ=SECONDLY;COUNT=4000000000", false),
        (
            "FREQ=MINUTELY;BYSECOND=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20",
            false,
        ),
        ("FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30", true),
        ("FREQ=YEARLY;BYYEARDAY=366;COUNT=100000", true),
        ("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", true),
    ] {
        let calendar = calendar_of(&[
            "DTSTART:20200101T000000Z",
            "DTEND:20200101T000001Z",
            &format!("RRULE:{rule}"),
        ]);
        let busy = busy_in(&calendar, range);
        assert_eq!(busy == [range], !is_free, "{rule}");
        assert_eq!(busy.is_empty(), is_free, "{rule}");
    }
    let event = "BEGIN:VEVENT\nDTSTART:20200101T000000Z\nDTEND:20200101T000001Z\nRRULE:FREQ=SECONDLY\nEND:VEVENT\n";
    let file = format!("BEGIN:VCALENDAR\n{}END:VCALENDAR\n", event.repeat(1_000));
    let many = read(&file, &TimeZone::UTC);
    let found = expand(&many, &TimeZone::UTC, range.start, range.end);
    assert_eq!(found.err(), Some(ExpandError::Steps));
}
