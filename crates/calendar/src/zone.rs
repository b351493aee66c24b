//! Time zones: names of the IANA in the data that is built in, and zones that a file describes itself. Reads no file of
//! the machine, so that the same calendar means the same everywhere.

use crate::lines::{Component, Line};
use crate::read::of_any_year;
use jiff::civil::{DateTime, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::sync::LazyLock;

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The longest name of a zone that there is has 38.
const NAME_BYTES_MAX: usize = 64;

/// The zone of an IANA name, such as `Europe/Oslo`.
pub fn zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return None;
    }
    if name.eq_ignore_ascii_case("utc") {
        return Some(TimeZone::UTC);
    }
    DATABASE.get(name).ok()
}

/// The zone that an identifier in a file means: an IANA name, one behind a prefix such as `/mozilla.org/20050126_1/`, or the
/// `VTIMEZONE` of the file with that identifier.
pub(crate) fn of_file(identifier: &str, described: &[&Component]) -> Option<TimeZone> {
    let identifier = identifier.trim();
    let name = |text: &str| {
        zone(text).or_else(|| {
            let starts = text.match_indices('/').map(|(at, _)| at + 1);
            starts.take(8).find_map(|start| zone(&text[start..]))
        })
    };
    name(identifier).or_else(|| {
        let component = described.iter().find(|component| {
            let id = component.line("TZID");
            id.is_some_and(|id| id.value.trim().eq_ignore_ascii_case(identifier))
        })?;
        let location = component.line("X-LIC-LOCATION");
        location
            .and_then(|line| name(line.value.trim()))
            .or_else(|| by_rules(component))
    })
}

/// The zone by the newest of the rules that a `VTIMEZONE` gives for standard and daylight-saving time.
fn by_rules(component: &Component) -> Option<TimeZone> {
    let newest = |kind: &str| {
        let observances = component.children.iter().filter(|child| child.name == kind);
        observances
            .filter_map(Observance::read)
            .max_by_key(|observance| observance.since)
    };
    let standard = newest("STANDARD")?;
    let written = match newest("DAYLIGHT") {
        Some(Observance {
            offset_seconds,
            change: Some(begins),
            ..
        }) if standard.change.is_some() => format!(
            "STD{}DAY{},{begins},{}",
            posix_offset(standard.offset_seconds),
            posix_offset(offset_seconds),
            standard.change?,
        ),
        Some(_) | None => format!("STD{}", posix_offset(standard.offset_seconds)),
    };
    TimeZone::posix(&written).ok()
}

/// One `STANDARD` or `DAYLIGHT`.
struct Observance {
    since: DateTime,
    offset_seconds: i32,
    /// When it begins each year, as POSIX writes it; `None` where it began once.
    change: Option<String>,
}

impl Observance {
    fn read(component: &Component) -> Option<Self> {
        let (since, _) = of_any_year(component.line("DTSTART")?.value.trim())?;
        let offset_seconds = offset(component.line("TZOFFSETTO")?.value.trim())?;
        let rule = component.line("RRULE");
        let is_over = |rule: &&Line| rule.value.contains("UNTIL=");
        let change = rule
            .filter(|rule| !is_over(rule))
            .and_then(|rule| change(&rule.value, since));
        Some(Self {
            since,
            offset_seconds,
            change,
        })
    }
}

/// `FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU` at an hour, as `M3.5.0/2`.
fn change(rule: &str, since: DateTime) -> Option<String> {
    let part = |name: &str| {
        let mut parts = rule.split(';').filter_map(|part| part.split_once('='));
        parts.find_map(|(key, value)| (key.trim() == name).then(|| value.trim()))
    };
    let month: i8 = part("BYMONTH")?.parse().ok()?;
    let day = part("BYDAY")?;
    let (number, weekday) = day.split_at_checked(day.len().checked_sub(2)?)?;
    let week = match number.parse::<i8>().ok()? {
        -1 => 5,
        number @ 1..=4 => number,
        _ => return None,
    };
    let weekday = weekday_named(weekday)?.to_sunday_zero_offset();
    let (hour, minute, second) = (since.hour(), since.minute(), since.second());
    Some(format!(
        "M{month}.{week}.{weekday}/{hour}:{minute:02}:{second:02}"
    ))
}

/// `+0100` or `-053000` in seconds.
fn offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    if !matches!(digits.len(), 4 | 6) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let two = |at: usize| {
        digits
            .get(at..at + 2)
            .map_or(Some(0), |two| two.parse().ok())
    };
    let (hours, minutes, seconds): (i32, i32, i32) = (two(0)?, two(2)?, two(4)?);
    (hours < 24 && minutes < 60 && seconds < 60)
        .then_some(sign * (hours * 3_600 + minutes * 60 + seconds))
}

/// POSIX counts westwards.
fn posix_offset(seconds: i32) -> String {
    let (sign, size) = if seconds > 0 {
        ("-", seconds)
    } else {
        ("", -seconds)
    };
    format!(
        "{sign}{}:{:02}:{:02}",
        size / 3_600,
        size / 60 % 60,
        size % 60
    )
}

pub(crate) fn weekday_named(name: &str) -> Option<Weekday> {
    Some(match name {
        "MO" => Weekday::Monday,
        "TU" => Weekday::Tuesday,
        "WE" => Weekday::Wednesday,
        "TH" => Weekday::Thursday,
        "FR" => Weekday::Friday,
        "SA" => Weekday::Saturday,
        "SU" => Weekday::Sunday,
        _ => return None,
    })
}
