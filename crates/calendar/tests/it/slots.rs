//! Free slots: gaps within working hours, with buffers, across changes of the clock.

use crate::span;
use jiff::SignedDuration;
use windlass_calendar::{Span, WorkingHours, busy, free, zone};

fn slots(taken: &[Span], range: Span, hours: &str, buffer: i64, shortest: i64) -> Vec<Span> {
    let oslo = zone("Europe/Oslo").unwrap();
    let busy = busy(
        taken.iter().copied(),
        range,
        SignedDuration::from_mins(buffer),
    );
    free(
        range,
        &busy,
        &hours.parse::<WorkingHours>().unwrap(),
        &oslo,
        SignedDuration::from_mins(shortest),
    )
}

#[test]
fn gaps_that_are_long_enough_are_free() {
    let range = span("2026-11-30T08:00:00Z", "2026-11-30T16:00:00Z");
    let taken = [
        span("2026-11-30T12:00:00Z", "2026-11-30T13:00:00Z"),
        span("2026-11-30T07:00:00Z", "2026-11-30T09:00:00Z"),
        // Overlapping, touching, within, and of no length.
        span("2026-11-30T12:30:00Z", "2026-11-30T13:30:00Z"),
        span("2026-11-30T13:30:00Z", "2026-11-30T14:00:00Z"),
        span("2026-11-30T12:40:00Z", "2026-11-30T12:50:00Z"),
        span("2026-11-30T10:00:00Z", "2026-11-30T10:00:00Z"),
        span("2026-11-30T15:40:00Z", "2026-12-30T15:00:00Z"),
    ];
    assert_eq!(
        slots(&taken, range, "", 0, 30),
        [
            span("2026-11-30T09:00:00Z", "2026-11-30T12:00:00Z"),
            span("2026-11-30T14:00:00Z", "2026-11-30T15:40:00Z")
        ]
    );
    assert_eq!(
        slots(&taken, range, "", 0, 120),
        [span("2026-11-30T09:00:00Z", "2026-11-30T12:00:00Z")]
    );
    assert_eq!(
        slots(&taken, range, "", 10, 80),
        [
            span("2026-11-30T09:10:00Z", "2026-11-30T11:50:00Z"),
            span("2026-11-30T14:10:00Z", "2026-11-30T15:30:00Z")
        ]
    );
    assert_eq!(slots(&[range], range, "", 0, 15), []);
    assert_eq!(slots(&[], range, "", 0, 15), [range]);
}

#[test]
fn working_hours_are_those_of_the_calendars_clock() {
    // The clock goes back on the 25th: Saturday is no working day, Sunday and Monday are.
    let range = span("2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z");
    let hours = "Sun 01:00-04:00, Mon 09:00-12:00 13:00-17:00";
    assert_eq!(
        slots(&[], range, hours, 0, 30),
        [
            span("2026-10-24T23:00:00Z", "2026-10-25T03:00:00Z"),
            span("2026-10-26T08:00:00Z", "2026-10-26T11:00:00Z"),
            span("2026-10-26T12:00:00Z", "2026-10-26T16:00:00Z"),
        ]
    );
    // It goes on on the 29th of March: from 2 to 3 there is nothing.
    let range = span("2026-03-29T00:00:00Z", "2026-03-30T00:00:00Z");
    assert_eq!(slots(&[], range, "Sun 02:00-03:00", 0, 1), []);
    assert_eq!(
        slots(&[], range, "Sun 02:00-04:00", 0, 1),
        [span("2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z")]
    );
    let night = span("2026-11-27T12:00:00Z", "2026-11-28T12:00:00Z");
    assert_eq!(
        slots(&[], night, "Fri 22:00-24:00, Sat 00:00-06:00", 0, 1),
        [span("2026-11-27T21:00:00Z", "2026-11-28T05:00:00Z")]
    );
}

#[test]
fn working_hours_that_are_none_are_refused() {
    for (text, problem) in [
        ("always", "no working time"),
        ("Mon", "no working time"),
        ("Mon 17:00-09:00", "no working time"),
        ("Mon 9-17", "no working time"),
        ("Mon 25:00-26:00", "no working time"),
        ("Mon-Fri 09:00-17:00, Wed 16:00-18:00", "overlaps"),
    ] {
        let refusal = text.parse::<WorkingHours>().unwrap_err();
        assert!(refusal.contains(problem), "{refusal}");
    }
    for text in ["", "mon-fri 09:00-17:00", "Sat-Mon 00:00-24:00"] {
        assert!(text.parse::<WorkingHours>().is_ok(), "{text}");
    }
}
