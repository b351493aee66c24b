//! `format_datetime`: says a moment in the user's zone, in English. Knows zones and the world's clock, and nothing of what the moment
//! is for.

use crate::arguments::read;
use crate::outcome::{Outcome, ready};
use jiff::civil::{Date, DateTime};
use jiff::fmt::temporal::Pieces;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, Unit, Zoned};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::LazyLock;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    Context, Execution, Handler, Invocation, LocalTime, Placement, Report, Success,
};

pub(crate) struct Formatter;

/// Reads no file of the machine, so that a name never opens one.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The longest name of a zone that there is has 38.
const ZONE_CHARACTERS_MAX: usize = 64;
/// How moments and days are written.
const SHORT: &str = "%-d %b %Y, %H:%M";
const LONG: &str = "%A, %-d %B %Y, %H:%M";
const DATE: &str = "%A, %-d %B %Y";
const TIME: &str = "%H:%M";
/// The text that stands for the moment of the call.
const NOW: &str = "now";

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    datetime: Cow<'a, str>,
    format: Format,
    #[serde(borrow, default)]
    time_zone: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    Short,
    Long,
    Date,
    Time,
    Relative,
    Iso,
}

impl Handler for Formatter {
    fn execute(&self, invocation: Invocation) -> Execution {
        ready(format(&invocation))
    }

    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["datetime", "format"],
            "properties": {
                "datetime": {"type": "string"},
                "format": {
                    "type": "string",
                    "enum": ["short", "long", "date", "time", "relative", "iso"],
                },
                "time_zone": {"type": "string"},
            },
        }))
    }
}

/// The zone that a moment is said in.
struct Place {
    zone: TimeZone,
    /// `None` where only an offset is known and no zone.
    name: Option<String>,
    now: Timestamp,
}

/// A moment, or a day of the calendar, to be put into words.
enum Said {
    Moment {
        at: Zoned,
        note: Option<String>,
    },
    /// A time by the clock of an unknown zone, which is no moment.
    Clock(DateTime),
    Day(Date),
}

fn format(invocation: &Invocation) -> Outcome {
    let arguments: Arguments<'_> = read(&invocation.arguments)?;
    let text = arguments.datetime.trim();
    let place = place(&invocation.context, arguments.time_zone.as_deref())?;
    let said = match text.eq_ignore_ascii_case(NOW) {
        true => Said::Moment {
            at: place.now.to_zoned(place.zone.clone()),
            note: None,
        },
        false => said(text, &place)?,
    };
    match said {
        Said::Clock(written) => say_clock(written, arguments.format),
        Said::Day(day) => say_day(day, arguments.format, &place),
        Said::Moment { at, note } => say_moment(&at, note, arguments.format, &place),
    }
}

fn place(context: &Context, named: Option<&str>) -> Outcome<Place> {
    let LocalTime { zone: users, now } = context.capabilities.local_time();
    let unix_ms = i64::try_from(context.capabilities.now_unix_ms()).unwrap_or(i64::MAX);
    let moment = Timestamp::from_millisecond(unix_ms).unwrap_or(Timestamp::MAX);
    let named = named.map(str::trim).filter(|name| !name.is_empty());
    if let Some(name) = named {
        let zone = zone(name).ok_or_else(|| no_zone(name))?;
        return Ok(Place {
            name: zone.iana_name().map(str::to_owned),
            zone,
            now: moment,
        });
    }
    let known = users.and_then(|name| Some((zone(&name)?, name)));
    Ok(match known {
        Some((zone, name)) => Place {
            zone,
            name: Some(name),
            now: moment,
        },
        None => Place {
            zone: offset_of(&now).unwrap_or(TimeZone::UTC),
            name: None,
            now: moment,
        },
    })
}

fn zone(name: &str) -> Option<TimeZone> {
    if name.len() > ZONE_CHARACTERS_MAX {
        return None;
    }
    match name.eq_ignore_ascii_case("utc") {
        true => Some(TimeZone::UTC),
        false => ZONES.get(name).ok(),
    }
}

fn no_zone(name: &str) -> Box<Report> {
    let shown: String = name
        .chars()
        .take(ZONE_CHARACTERS_MAX)
        .filter(|character| !character.is_control())
        .collect();
    Box::new(Report {
        details: Some(json!({"pointer": "/time_zone"})),
        ..Report::new(
            FailureKind::Validation,
            format!(
                "there is no time zone {shown:?}; give a name of the IANA, such as Europe/Oslo, or leave `time_zone` out for the user's own"
            ),
        )
    })
}

/// The offset that a date and time is written with.
fn offset_of(text: &str) -> Option<TimeZone> {
    let offset = Pieces::parse(text).ok()?.to_numeric_offset()?;
    Some(TimeZone::fixed(offset))
}

fn unreadable(problem: &str) -> Box<Report> {
    Box::new(Report {
        details: Some(json!({"pointer": "/datetime"})),
        ..Report::new(FailureKind::Validation, problem)
    })
}

fn said(text: &str, place: &Place) -> Outcome<Said> {
    let pieces = Pieces::parse(text).map_err(|_| {
        unreadable(
            "`datetime` is no date and time; write it as 2026-11-28T14:05:00+01:00, without an offset where it is by the clock of the \
             zone, as 2026-11-28 for a day, or now",
        )
    })?;
    if pieces.time_zone_annotation().is_some() {
        return Err(unreadable(
            "`datetime` names a zone in brackets; give the name as `time_zone`, and leave it out here",
        ));
    }
    let Some(time) = pieces.time() else {
        return Ok(Said::Day(pieces.date()));
    };
    let written = DateTime::from_parts(pieces.date(), time);
    let beyond = || unreadable("`datetime` is beyond the years that can be told apart");
    let Some(offset) = pieces.to_numeric_offset() else {
        return match place.name {
            Some(_) => by_clock(written, place),
            None => Ok(Said::Clock(written)),
        };
    };
    let at = offset.to_timestamp(written).map_err(|_| beyond())?;
    // The moment's own offset stands in for an unknown zone.
    let zone = match place.name {
        Some(_) => place.zone.clone(),
        None => TimeZone::fixed(offset),
    };
    Ok(Said::Moment {
        at: at.to_zoned(zone),
        note: None,
    })
}

/// Reads a time by the clock of the zone. A time that the clock skips is moved by the gap; of a time that it shows twice the first is
/// meant.
fn by_clock(written: DateTime, place: &Place) -> Outcome<Said> {
    let found = place.zone.to_ambiguous_zoned(written);
    let offset = found.offset();
    let at = found
        .compatible()
        .map_err(|_| unreadable("`datetime` is beyond the years that can be told apart"))?;
    let note = match offset {
        AmbiguousOffset::Unambiguous { .. } => None,
        AmbiguousOffset::Gap { .. } => Some(format!(
            "the clock goes forward then, and {} does not exist on that day; {} is meant",
            written.strftime("%H:%M"),
            at.strftime("%H:%M")
        )),
        AmbiguousOffset::Fold { before, after } => Some(format!(
            "the clock goes back then, and {} is there twice; the first is meant, at {}, and the second is at {}",
            written.strftime("%H:%M"),
            before,
            after
        )),
    };
    Ok(Said::Moment { at, note })
}

/// Gives the clock's own words. Other zones, and the distance from now, depend on a zone that is unknown.
fn say_clock(written: DateTime, format: Format) -> Outcome {
    let text = match format {
        Format::Short => written.strftime(SHORT).to_string(),
        Format::Long => written.strftime(LONG).to_string(),
        Format::Date => written.strftime(DATE).to_string(),
        Format::Time => written.strftime(TIME).to_string(),
        Format::Relative | Format::Iso => {
            return Err(unreadable(
                "`datetime` has no offset, and nobody has said in which time zone the user is; ask, and give `time_zone`, or give \
                 `datetime` with its offset",
            ));
        }
    };
    let iso = written.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    Ok(answer(&text, &iso, None, None))
}

fn say_day(day: Date, format: Format, place: &Place) -> Outcome {
    let text = match format {
        Format::Short => day.strftime("%-d %b %Y").to_string(),
        Format::Long | Format::Date => day.strftime(DATE).to_string(),
        Format::Iso => day.to_string(),
        Format::Relative => {
            let today = place.now.to_zoned(place.zone.clone()).date();
            days_from(today, day)
        }
        Format::Time => {
            return Err(unreadable(
                "`datetime` is a day without a time, which has no time to say; give the time, too, or another `format`",
            ));
        }
    };
    Ok(answer(&text, &day.to_string(), place.name.as_deref(), None))
}

fn say_moment(at: &Zoned, note: Option<String>, format: Format, place: &Place) -> Outcome {
    let iso = at.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    let text = match format {
        Format::Short => at.strftime(SHORT).to_string(),
        Format::Long => at.strftime(LONG).to_string(),
        Format::Date => at.strftime(DATE).to_string(),
        Format::Time => at.strftime(TIME).to_string(),
        Format::Relative => from_now(at, place.now),
        Format::Iso => iso.clone(),
    };
    Ok(answer(&text, &iso, place.name.as_deref(), note))
}

fn answer(text: &str, iso: &str, zone: Option<&str>, note: Option<String>) -> Success {
    let mut data = json!({"text": text, "iso": iso, "time_zone": zone});
    let note = note.or_else(|| {
        let is_unknown = zone.is_none();
        is_unknown.then(|| {
            "nobody has said in which time zone the user is; ask, or give `time_zone`".to_owned()
        })
    });
    if let Some(note) = note {
        data["note"] = note.into();
    }
    Success::new(data)
}

/// Hours near by, days by the calendar of the zone beyond that.
fn from_now(at: &Zoned, now: Timestamp) -> String {
    const NEAR: SignedDuration = SignedDuration::from_hours(12);
    let distance = now.duration_until(at.timestamp());
    let today = now.to_zoned(at.time_zone().clone()).date();
    if distance.abs() >= NEAR && at.date() != today {
        return days_from(today, at.date());
    }
    let minutes = distance.as_secs().abs() / 60;
    let is_ahead = distance.is_positive();
    match minutes {
        0 => "now".to_owned(),
        1..=59 => counted(minutes, "minute", is_ahead),
        _ => counted(minutes / 60, "hour", is_ahead),
    }
}

fn days_from(today: Date, day: Date) -> String {
    let count = |unit: Unit| {
        let span = today.until((unit, day));
        span.map_or((0, 0, 0), |span| {
            (
                i64::from(span.get_years()),
                i64::from(span.get_months()),
                i64::from(span.get_days()),
            )
        })
    };
    let (_, _, days) = count(Unit::Day);
    let is_ahead = days > 0;
    match (days, days.abs()) {
        (0, _) => "today".to_owned(),
        (1, _) => "tomorrow".to_owned(),
        (-1, _) => "yesterday".to_owned(),
        (_, distance @ 0..=13) => counted(distance, "day", is_ahead),
        (_, distance @ 14..=59) => counted(distance / 7, "week", is_ahead),
        _ => match count(Unit::Year) {
            (0, months, _) => counted(months.abs(), "month", is_ahead),
            (years, _, _) => counted(years.abs(), "year", is_ahead),
        },
    }
}

fn counted(count: i64, unit: &str, is_ahead: bool) -> String {
    let plural = if count == 1 { "" } else { "s" };
    match is_ahead {
        true => format!("in {count} {unit}{plural}"),
        false => format!("{count} {unit}{plural} ago"),
    }
}
