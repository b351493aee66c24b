//! The terms of all our calendars: the times they take, the length of a range, the owner's mark in an event, and the texts of
//! their refusals. Knows no calendar.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use windlass_calendar::Span;
use windlass_contract::handler::CalendarError;
use windlass_contract::id::UserId;
use windlass_contract::json;

/// Days of one range, and of one event.
const DAYS_MAX: i64 = 31;
/// Times of calendars lie in these years; a file may have a day more on both sides, by its own clock.
const YEARS: std::ops::RangeInclusive<i16> = 1901..=2199;

/// The user who had an event made, as the calendar says it: not the id itself, because calendars are passed on.
pub fn owner(user_id: &UserId) -> String {
    digest("windlass owner of an event\n", user_id.as_str())
}

/// 32 digits of hexadecimal.
pub(crate) fn digest(purpose: &str, text: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(purpose);
    hasher.update(text);
    json::hex(&hasher.finalize()[..16])
}

/// A time in a zone, as answers show it.
pub fn shown(at: Timestamp, zone: &TimeZone) -> String {
    let local = at.to_zoned(zone.clone());
    local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// Reads the time in an argument.
///
/// # Errors
///
/// The text is no time, or a time that calendars do not reach.
pub fn time(text: &str, pointer: &'static str) -> Result<Timestamp, CalendarError> {
    let refuse = |why: &str| CalendarError::Invalid {
        pointer,
        message: format!("{} is {why}", &pointer[1..]),
    };
    let time: Timestamp = text
        .parse()
        .map_err(|_| refuse("no date-time with an offset, such as 2026-11-30T09:00:00+01:00"))?;
    let year = time.to_zoned(TimeZone::UTC).year();
    match YEARS.contains(&year) {
        true => Ok(time),
        false => Err(refuse("in a year that calendars here do not reach")),
    }
}

/// The span between two times, given with the arguments that say them.
///
/// # Errors
///
/// One of the two is no time, they are in the wrong order, or the range is too long.
pub fn span(
    (start, start_pointer): (&str, &'static str),
    (end, end_pointer): (&str, &'static str),
) -> Result<Span, CalendarError> {
    let span = Span {
        start: time(start, start_pointer)?,
        end: time(end, end_pointer)?,
    };
    let invalid = |message: String| {
        Err(CalendarError::Invalid {
            pointer: end_pointer,
            message,
        })
    };
    let length = span.end.duration_since(span.start);
    if length <= SignedDuration::ZERO {
        return invalid(format!(
            "{} must be after {}",
            &end_pointer[1..],
            &start_pointer[1..]
        ));
    }
    // By the clock on the wall, a month may have one hour more.
    if length > SignedDuration::from_hours(24 * DAYS_MAX + 1) {
        return invalid(format!(
            "{} is more than {DAYS_MAX} days after {}",
            &end_pointer[1..],
            &start_pointer[1..]
        ));
    }
    Ok(span)
}

pub fn not_found() -> CalendarError {
    CalendarError::NotFound(
        "there is no such event, or it is not one that this user may change".to_owned(),
    )
}

/// The event starts at `start`, in the form of answers. Its title is another person's text, and is shown only where such texts
/// are marked.
pub fn different(start: &str) -> CalendarError {
    CalendarError::Different(format!(
        "this event_id has another title, or starts at another time, which is {start}; nothing was changed"
    ))
}
