//! Reads a file's text as events. Whatever is broken costs itself, is named with its line, and never makes a busy time free
//! without a word.

use crate::event::{Attendee, Clock, Event, Extra, Instance, Length, Moment, Status};
use crate::lines::{Component, Line, components, shown, unescaped};
use crate::rule::Rule;
use crate::zone;
use crate::{DATES_MAX, EVENTS_MAX, PROBLEMS_MAX};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

/// Characters of a text that is kept.
const TEXT_CHARACTERS_MAX: usize = 4_000;
/// Attendees that are kept.
const ATTENDEES_MAX: usize = 500;
/// Zones that a file describes, and identifiers that are remembered.
const ZONES_MAX: usize = 200;
/// Rules of one event.
const RULES_MAX: usize = 8;
/// Keys of changes that are kept in an event, the newest.
pub(crate) const CHANGES_MAX: usize = 16;
/// Names the program's own lines.
pub(crate) const OWNER: &str = "X-WINDLASS-OWNER";
pub(crate) const CHANGE: &str = "X-WINDLASS-CHANGE";

/// A fault in a file, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line's number, from 1.
    pub line: usize,
    pub cause: String,
}

impl Problem {
    pub(crate) fn new(line: usize, cause: impl Into<String>) -> Self {
        Self {
            line,
            cause: cause.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.cause)
    }
}

/// The first problems of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems {
    pub(crate) list: Vec<Problem>,
}

impl Problems {
    pub(crate) fn push(&mut self, problem: Problem) {
        if self.list.len() < PROBLEMS_MAX {
            self.list.push(problem);
        }
    }
}

/// The events of one file.
#[derive(Clone, Debug, Default)]
pub struct Calendar {
    pub events: Vec<Event>,
    pub problems: Vec<Problem>,
}

/// Reads a file. An unknown zone is taken for the calendar's own, which keeps the time busy and is a problem.
pub fn read(text: &str, calendar: &TimeZone) -> Calendar {
    let mut problems = Problems::default();
    let components = components(text, &mut problems);
    let mut events = Vec::new();
    for component in &components {
        if component.name != "VCALENDAR" {
            let cause = format!("{} stands outside of VCALENDAR", shown(&component.name));
            problems.push(Problem::new(component.number, cause));
        }
        let described = component.children.iter();
        let reader = Reader {
            described: described
                .filter(|child| child.name == "VTIMEZONE")
                .take(ZONES_MAX)
                .collect(),
            known: RefCell::default(),
            calendar,
        };
        let found = component.children.iter();
        for event in found.filter(|child| child.name == "VEVENT") {
            if events.len() == EVENTS_MAX {
                let cause =
                    format!("there are more than {EVENTS_MAX} events; the rest is not read");
                problems.push(Problem::new(event.number, cause));
                break;
            }
            match reader.event(event, &mut problems) {
                Ok(event) => events.push(event),
                Err(problem) => problems.push(problem),
            }
        }
    }
    Calendar {
        events,
        problems: problems.list,
    }
}

struct Reader<'a> {
    /// The zones that the file describes.
    described: Vec<&'a Component>,
    /// Identifiers of zones that were looked up.
    known: RefCell<BTreeMap<String, Option<TimeZone>>>,
    calendar: &'a TimeZone,
}

impl Reader<'_> {
    fn event(&self, component: &Component, problems: &mut Problems) -> Result<Event, Problem> {
        let left_out =
            |cause: &str| Problem::new(component.number, format!("{cause}; the event is left out"));
        let start = component
            .line("DTSTART")
            .ok_or_else(|| left_out("an event has no DTSTART"))?;
        let start = self.moment(start, problems).ok_or_else(|| {
            Problem::new(
                start.number,
                format!(
                    "{} is no date or time; the event is left out",
                    shown(&start.value)
                ),
            )
        })?;
        let length = self.length(component, &start, problems);
        let text = |name: &str| component.line(name).map(|line| kept_text(&line.value));
        let mut rules = Vec::new();
        for line in component.all("RRULE") {
            match Rule::read(&line.value, &start) {
                Ok(rule) if rules.len() < RULES_MAX => rules.push(rule),
                Ok(_) => problems.push(Problem::new(line.number, "the event has too many rules")),
                Err(cause) => {
                    let cause = format!("{cause}; only the first occurrence is known");
                    problems.push(Problem::new(line.number, cause));
                }
            }
        }
        let status = match component.line("STATUS").map(|line| line.value.trim()) {
            Some("CANCELLED") => Status::Cancelled,
            Some("TENTATIVE") => Status::Tentative,
            Some(_) | None => Status::Confirmed,
        };
        let instance = component.line("RECURRENCE-ID").and_then(|line| {
            let of = self.moment(line, problems)?;
            let and_later = line.parameter("RANGE") == Some("THISANDFUTURE");
            Some(Instance { of, and_later })
        });
        let is_transparent = |line: &Line| line.value.trim().eq_ignore_ascii_case("TRANSPARENT");
        Ok(Event {
            // RFC 5545 requires a UID. Without it, the event stands alone.
            uid: component
                .line("UID")
                .map_or_else(String::new, |line| kept_text(line.value.trim())),
            summary: text("SUMMARY"),
            description: text("DESCRIPTION"),
            location: text("LOCATION"),
            attendees: component
                .all("ATTENDEE")
                .take(ATTENDEES_MAX)
                .map(attendee)
                .collect(),
            status,
            is_opaque: !component.line("TRANSP").is_some_and(is_transparent),
            sequence: component
                .line("SEQUENCE")
                .and_then(|line| line.value.trim().parse().ok())
                .unwrap_or(0),
            owner: component.line(OWNER).map(|line| kept_text(&line.value)),
            length,
            rules,
            also: self.also(component, problems),
            except: self.except(component, problems),
            instance,
            changes: component
                .all(CHANGE)
                .take(CHANGES_MAX)
                .map(|line| line.value.trim().to_owned())
                .collect(),
            place: component.place.clone(),
            number: component.number,
            start,
        })
    }

    /// A date or time with the zone that its line names.
    fn moment(&self, line: &Line, problems: &mut Problems) -> Option<Moment> {
        self.moment_of(line, line.value.trim(), problems)
    }

    fn moment_of(&self, line: &Line, value: &str, problems: &mut Problems) -> Option<Moment> {
        let (local, form) = date_or_time(value)?;
        let clock = match (form, line.parameter("TZID")) {
            (Form::Date, _) => Clock::Date,
            (Form::Utc, _) => Clock::Zone(TimeZone::UTC),
            (Form::Local, None) => Clock::Floating,
            (Form::Local, Some(name)) => match self.zone(name) {
                Some(zone) => Clock::Zone(zone),
                None => {
                    let cause = format!(
                        "there is no time zone {}; the time is read in that of the calendar",
                        shown(name)
                    );
                    problems.push(Problem::new(line.number, cause));
                    Clock::Floating
                }
            },
        };
        Some(Moment { local, clock })
    }

    fn zone(&self, name: &str) -> Option<TimeZone> {
        let mut known = self.known.borrow_mut();
        if let Some(zone) = known.get(name) {
            return zone.clone();
        }
        // The limit of looked-up zones is reached: a further one counts as unknown, and its times are taken for the calendar's own.
        if known.len() == ZONES_MAX {
            return None;
        }
        let zone = zone::of_file(name, &self.described);
        known.insert(name.to_owned(), zone.clone());
        zone
    }

    fn length(&self, component: &Component, start: &Moment, problems: &mut Problems) -> Length {
        let usual = Length::Wall {
            seconds: match start.clock {
                Clock::Date => 86_400,
                Clock::Floating | Clock::Zone(_) => 0,
            },
        };
        let (length, line) = match (component.line("DTEND"), component.line("DURATION")) {
            (Some(line), _) => {
                let end = self.moment(line, problems);
                (end.and_then(|end| self.between(start, &end)), line)
            }
            (None, Some(line)) => (duration(line.value.trim()), line),
            (None, None) => return usual,
        };
        match length {
            Some(length) => length,
            None => {
                let cause = format!("{} is no end after the start", shown(&line.value));
                problems.push(Problem::new(line.number, cause));
                usual
            }
        }
    }

    fn between(&self, start: &Moment, end: &Moment) -> Option<Length> {
        let seconds = match start.zone(self.calendar) == end.zone(self.calendar) {
            true => end.local.duration_since(start.local).as_secs(),
            false => {
                let (start, end) = (
                    start.timestamp(self.calendar)?,
                    end.timestamp(self.calendar)?,
                );
                let seconds = end.as_second() - start.as_second();
                return (seconds >= 0).then_some(Length::Exact { days: 0, seconds });
            }
        };
        (seconds >= 0).then_some(Length::Wall { seconds })
    }

    fn also(&self, component: &Component, problems: &mut Problems) -> Vec<Extra> {
        let mut found = Vec::new();
        for line in component.all("RDATE") {
            for value in line.value.split(',').map(str::trim) {
                if found.len() == DATES_MAX {
                    problems.push(too_many_dates(line));
                    return found;
                }
                let (start, rest) = match value.split_once('/') {
                    Some((start, rest)) => (start, Some(rest)),
                    None => (value, None),
                };
                let Some(start) = self.moment_of(line, start, problems) else {
                    problems.push(no_date(line, value));
                    continue;
                };
                let length = rest.and_then(|rest| {
                    duration(rest).or_else(|| {
                        let end = self.moment_of(line, rest, problems)?;
                        self.between(&start, &end)
                    })
                });
                found.push(Extra { start, length });
            }
        }
        found
    }

    fn except(&self, component: &Component, problems: &mut Problems) -> Vec<Moment> {
        let mut found = Vec::new();
        for line in component.all("EXDATE") {
            for value in line.value.split(',').map(str::trim) {
                if found.len() == DATES_MAX {
                    problems.push(too_many_dates(line));
                    return found;
                }
                match self.moment_of(line, value, problems) {
                    Some(moment) => found.push(moment),
                    None => problems.push(no_date(line, value)),
                }
            }
        }
        found
    }
}

fn too_many_dates(line: &Line) -> Problem {
    let cause = format!("the event names more than {DATES_MAX} dates; the rest is not read");
    Problem::new(line.number, cause)
}

fn no_date(line: &Line, value: &str) -> Problem {
    Problem::new(line.number, format!("{} is no date or time", shown(value)))
}

fn kept_text(value: &str) -> String {
    unescaped(value).chars().take(TEXT_CHARACTERS_MAX).collect()
}

fn attendee(line: &Line) -> Attendee {
    let address = line.value.trim();
    let scheme = "mailto:";
    let email = match address.get(..scheme.len()) {
        Some(start) if start.eq_ignore_ascii_case(scheme) => &address[scheme.len()..],
        Some(_) | None => address,
    };
    Attendee {
        email: kept_text(email),
        name: line.parameter("CN").map(kept_text),
    }
}

/// The written form of a date or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Date,
    Local,
    Utc,
}

/// `20261130`, `20261130T090000` or `20261130T090000Z`. Years that no calendar has are none.
pub(crate) fn date_or_time(value: &str) -> Option<(DateTime, Form)> {
    let is_usual = |(local, _): &(DateTime, Form)| (1_900..=2_200).contains(&local.year());
    of_any_year(value).filter(is_usual)
}

/// The same for any year, for the beginnings of zones.
pub(crate) fn of_any_year(value: &str) -> Option<(DateTime, Form)> {
    let bytes = value.as_bytes();
    let number = |from: usize, length: usize| {
        let digits = bytes.get(from..from + length)?;
        digits.iter().try_fold(0_i16, |number, digit| {
            digit
                .is_ascii_digit()
                .then(|| number * 10 + i16::from(digit - b'0'))
        })
    };
    let small = |from: usize| number(from, 2).and_then(|number| i8::try_from(number).ok());
    let year = number(0, 4)?;
    let date = Date::new(year, small(4)?, small(6)?).ok()?;
    let form = match (bytes.len(), bytes.get(8), bytes.get(15)) {
        (8, _, _) => return Some((date.at(0, 0, 0, 0), Form::Date)),
        (15, Some(b'T'), _) => Form::Local,
        (16, Some(b'T'), Some(b'Z')) => Form::Utc,
        _ => return None,
    };
    // A leap second is read as the one before it.
    let second = small(13)?.min(59);
    let time = jiff::civil::Time::new(small(9)?, small(11)?, second, 0).ok()?;
    Some((date.to_datetime(time), form))
}

/// `P1DT2H`, `PT30M`, `P2W`. Negative ones end before they start and are none.
fn duration(text: &str) -> Option<Length> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let text = text.strip_prefix('P')?;
    let (mut days, mut seconds, mut number) = (0_i64, 0_i64, None::<i64>);
    let (mut is_time, mut is_any) = (false, false);
    for character in text.chars() {
        match character {
            '0'..='9' => {
                let digit = i64::from(u32::from(character) - u32::from('0'));
                let longer = number.unwrap_or(0) * 10 + digit;
                // A century is longer than any event.
                number = Some(longer).filter(|number| *number <= 3_200_000_000);
                number?;
            }
            'T' if !is_time && number.is_none() => is_time = true,
            unit => {
                let count = number.take()?;
                match (unit, is_time) {
                    ('W', false) => days += count.checked_mul(7)?,
                    ('D', false) => days += count,
                    ('H', true) => seconds += count.checked_mul(3_600)?,
                    ('M', true) => seconds += count.checked_mul(60)?,
                    ('S', true) => seconds += count,
                    _ => return None,
                }
                is_any = true;
            }
        }
    }
    let is_short = days < 40_000 && seconds < 40_000 * 86_400;
    (is_any && number.is_none() && is_short).then_some(Length::Exact { days, seconds })
}
