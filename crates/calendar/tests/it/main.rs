//! Calendars from outside: files in, times and files out.

#[cfg(test)]
mod folder;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod recurring;
#[cfg(test)]
mod slots;

#[cfg(test)]
use jiff::{SignedDuration, Timestamp};
#[cfg(test)]
use windlass_calendar::{Calendar, Span, expand, read, zone};

#[cfg(test)]
fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[cfg(test)]
fn span(start: &str, end: &str) -> Span {
    Span {
        start: at(start),
        end: at(end),
    }
}

/// A calendar of one event with these lines, read in Oslo.
#[cfg(test)]
fn calendar_of(lines: &[&str]) -> Calendar {
    read(&file_of(lines), &zone("Europe/Oslo").unwrap())
}

#[cfg(test)]
fn file_of(lines: &[&str]) -> String {
    let lines = lines.join("\r\n");
    format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:one\r\n{lines}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
}

/// The busy times of a calendar in a range.
#[cfg(test)]
fn busy_in(calendar: &Calendar, range: Span) -> Vec<Span> {
    let oslo = zone("Europe/Oslo").unwrap();
    let (found, _) = expand(calendar, &oslo, range.start, range.end).unwrap();
    let taken = found.iter().filter(|found| found.event.is_busy());
    windlass_calendar::busy(taken.map(|found| found.span()), range, SignedDuration::ZERO)
}
