//! The time that free slots of 31 days take among 10,000 events: from the calendar's file, and again while the file stays as it is. The
//! goal is 20 ms for the second.

#![expect(
    clippy::print_stdout,
    reason = "a measurement's result is what it prints"
)]

use serde_json::json;
use std::fmt::Write;
use std::time::Instant;
use windlass_calendar::{Folder, PRIMARY, Span, WorkingHours, busy, expand, free, zone};

const EVENTS: usize = 10_000;
const RUNS: usize = 20;

pub(crate) fn run() -> Result<(), String> {
    let base = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = base.path().join("primary.ics");
    std::fs::write(&file, events()).map_err(|error| error.to_string())?;
    let zone = zone("Europe/Oslo").ok_or("there is no zone")?;
    let folder = Folder::new(base.path(), zone.clone());
    let hours: WorkingHours = "Mon-Fri 09:00-17:00".parse()?;
    let time = |text: &str| {
        text.parse::<jiff::Timestamp>()
            .map_err(|_| format!("{text} is no time"))
    };
    let range = Span {
        start: time("2026-10-10T00:00:00Z")?,
        end: time("2026-11-10T00:00:00Z")?,
    };
    let mut took_ms = Vec::with_capacity(RUNS + 1);
    for _ in 0..=RUNS {
        let begin = Instant::now();
        let calendar = folder
            .calendar(PRIMARY)
            .map_err(|error| error.to_string())?;
        let found = expand(&calendar, &zone, range.start, range.end);
        let (found, _) = found.map_err(|error| error.to_string())?;
        let taken = found.iter().filter(|found| found.event.is_busy());
        let buffer = jiff::SignedDuration::from_mins(5);
        let busy = busy(taken.map(|found| found.span()), range, buffer);
        let slots = free(
            range,
            &busy,
            &hours,
            &zone,
            jiff::SignedDuration::from_mins(15),
        );
        took_ms.push(begin.elapsed().as_secs_f64() * 1_000.0);
        if found.is_empty() || slots.is_empty() {
            return Err(
                "the calendar of the measurement has nothing taken, or nothing free".to_owned(),
            );
        }
    }
    let first = took_ms.remove(0);
    took_ms.sort_by(f64::total_cmp);
    println!(
        "{}",
        json!({
            "measurement": "calendar", "events": EVENTS, "days": 31,
            "first_ms": first, "median_ms": took_ms[RUNS / 2], "longest_ms": took_ms[RUNS - 1],
        })
    );
    Ok(())
}

/// Seven of ten take place once, within four years; three are series, most of them endless, that began within six. All before 15:00, so
/// that something is free.
fn events() -> String {
    let mut text = String::from("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n");
    for number in 0..EVENTS {
        let (year, month, day) = (2021 + number % 6, 1 + number % 12, 1 + number % 28);
        let (hour, minute) = (8 + number % 6, number % 4 * 15);
        let rule = match number % 10 {
            0 => "RRULE:FREQ=WEEKLY;BYDAY=MO,WE\r\n",
            1 => "RRULE:FREQ=MONTHLY;BYDAY=-1FR\r\n",
            2 if number % 20 == 2 => "RRULE:FREQ=YEARLY\r\n",
            2 => "RRULE:FREQ=DAILY;COUNT=100\r\n",
            _ => "",
        };
        // Writing into a text cannot fail.
        let _ = write!(
            text,
            "BEGIN:VEVENT\r\nUID:{number}\r\nSUMMARY:Event {number}\r\n\
             DTSTART;TZID=Europe/Oslo:{year}{month:02}{day:02}T{hour:02}{minute:02}00\r\nDURATION:PT30M\r\n{rule}END:VEVENT\r\n"
        );
    }
    text.push_str("END:VCALENDAR\r\n");
    text
}
