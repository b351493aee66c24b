//! Changes of a calendar as changes of its text: an event is added, moved or cancelled, and every other line stays as it was.
//! Each change carries a key, by which it is found again, so that none is made twice. Reads and writes no file.

use crate::event::{Clock, Event, Moment};
use crate::expand::expand;
use crate::lines::{Component, Line, components, escaped, written};
use crate::read::{CHANGE, CHANGES_MAX, Calendar, OWNER, Problems, date_or_time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// The part of a name behind the key, by which other programs see whose events these are.
const UID_DOMAIN: &str = "@windlass";

/// Characters of a title that users are shown.
pub const TITLE_CHARACTERS_SHOWN: usize = 200;

/// One change of a calendar.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    /// The key of one change: the same for every attempt at it, and different for every other change.
    pub key: &'a str,
    /// When it is made.
    pub at: Timestamp,
    /// The owner whose events may be changed; `None` for all.
    pub owner: Option<&'a str>,
    pub kind: Kind<'a>,
}

#[derive(Clone, Debug)]
pub enum Kind<'a> {
    Add(NewEvent<'a>),
    Move {
        /// The id that [`crate::Occurrence::id`] gives.
        id: &'a str,
        /// The event's title, as the user was shown it; empty where it has none.
        title: &'a str,
        start: Timestamp,
        end: Timestamp,
    },
    Cancel {
        id: &'a str,
        title: &'a str,
        /// When it starts, as the user was shown it.
        start: Timestamp,
        scope: Scope,
    },
    /// Says where an event takes place.
    Locate {
        id: &'a str,
        /// A place, or the address of a conference.
        location: &'a str,
    },
}

/// The part of a series to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Occurrence,
    Series,
}

#[derive(Clone, Debug)]
pub struct NewEvent<'a> {
    pub title: &'a str,
    pub start: Timestamp,
    pub end: Timestamp,
    pub description: &'a str,
    /// Addresses.
    pub attendees: &'a [String],
    /// The owner of the new event.
    pub owner: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("there is no such event")]
    NotFound,
    #[error("the event has another title, or starts at another time, which is {start}")]
    Different { start: Timestamp },
    #[error("the calendar's file is broken: it has no whole VCALENDAR")]
    Broken,
    #[error("the calendar's file could not be read with this change in it")]
    Unreadable,
}

/// The name of the event that a change adds.
pub(crate) fn uid_of(key: &str) -> String {
    format!("{key}{UID_DOMAIN}")
}

/// The name of an occurrence: by its event, and by the start that the rule of its series gives.
pub(crate) fn id_of(event: &Event, of_series: Option<&Moment>) -> String {
    match of_series {
        Some(moment) => format!("{}/{}", event.uid, moment_text(moment)),
        None => event.uid.clone(),
    }
}

fn moment_text(moment: &Moment) -> String {
    match &moment.clock {
        Clock::Date => moment.local.strftime("%Y%m%d").to_string(),
        Clock::Floating => moment.local.strftime("%Y%m%dT%H%M%S").to_string(),
        Clock::Zone(zone) => match crate::event::instant(moment.local, zone) {
            Some(at) => utc(at),
            None => moment.local.strftime("%Y%m%dT%H%M%S").to_string(),
        },
    }
}

fn utc(at: Timestamp) -> String {
    at.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// `RECURRENCE-ID` or `EXDATE` of an occurrence.
fn dated(name: &str, moment: &Moment) -> String {
    let value = moment_text(moment);
    match moment.clock {
        Clock::Date => format!("{name};VALUE=DATE:{value}"),
        Clock::Floating | Clock::Zone(_) => format!("{name}:{value}"),
    }
}

/// The events that an id names.
pub(crate) struct Target<'a> {
    /// The single event, or the series.
    pub(crate) core: Option<&'a Event>,
    /// The instance of its own that the occurrence has.
    pub(crate) instance: Option<&'a Event>,
    /// The occurrence of the series to change; `None` for the whole series.
    pub(crate) occurrence: Option<Moment>,
}

impl<'a> Target<'a> {
    pub(crate) fn find(
        calendar: &'a Calendar,
        zone: &TimeZone,
        id: &str,
        owner: Option<&str>,
    ) -> Result<Self, EditError> {
        let of_uid = |uid: &str| {
            let events = calendar.events.iter();
            let of_uid: Vec<&Event> = events.filter(|event| event.uid == uid).collect();
            (!uid.is_empty() && !of_uid.is_empty()).then_some(of_uid)
        };
        let (events, occurrence) = match of_uid(id) {
            Some(events) => (events, None),
            None => {
                let (uid, text) = id.rsplit_once('/').ok_or(EditError::NotFound)?;
                date_or_time(text).ok_or(EditError::NotFound)?;
                (of_uid(uid).ok_or(EditError::NotFound)?, Some(text))
            }
        };
        let newest = |events: &[&'a Event]| {
            let newest = events.iter().max_by_key(|event| event.sequence);
            newest.copied()
        };
        let cores: Vec<&Event> = (events.iter().copied())
            .filter(|event| event.instance.is_none())
            .collect();
        let core = newest(&cores);
        let is_owned = |event: &Event| owner.is_none() || event.owner.as_deref() == owner;
        if !core.or(events.first().copied()).is_some_and(is_owned) {
            return Err(EditError::NotFound);
        }
        let Some(text) = occurrence else {
            return Ok(Self {
                core,
                instance: None,
                occurrence: None,
            });
        };
        let named = |event: &&Event| {
            let instance = event.instance.as_ref();
            instance.is_some_and(|instance| moment_text(&instance.of) == text)
        };
        let instances: Vec<&Event> = events.iter().copied().filter(named).collect();
        let instance = newest(&instances);
        let occurrence = match instance.and_then(|event| event.instance.as_ref()) {
            Some(instance) => instance.of.clone(),
            None => {
                let core = core.ok_or(EditError::NotFound)?;
                occurrence_named(core, zone, text).ok_or(EditError::NotFound)?
            }
        };
        Ok(Self {
            core,
            instance,
            occurrence: Some(occurrence),
        })
    }

    /// The event whose lines count for the occurrence.
    fn event(&self) -> Result<&'a Event, EditError> {
        self.instance.or(self.core).ok_or(EditError::NotFound)
    }

    /// Refuses an event that is not the one that the user was shown.
    fn expect(
        &self,
        zone: &TimeZone,
        title: &str,
        start: Option<Timestamp>,
    ) -> Result<(), EditError> {
        let event = self.event()?;
        let known = event.summary.as_deref().unwrap_or_default();
        let begins = match (self.instance, &self.occurrence) {
            (None, Some(occurrence)) => occurrence.timestamp(zone),
            (Some(_), _) | (None, None) => event.start.timestamp(zone),
        };
        let begins = begins.ok_or(EditError::NotFound)?;
        match is_titled(known, title) && start.is_none_or(|start| start == begins) {
            true => Ok(()),
            false => Err(EditError::Different { start: begins }),
        }
    }
}

/// Whether an event is named by its title, or by the beginning that is shown of a long one.
pub fn is_titled(title: &str, named: &str) -> bool {
    let beginning: String = title.chars().take(TITLE_CHARACTERS_SHOWN).collect();
    let named = named.trim();
    title.trim() == named || beginning.trim() == named
}

/// The occurrence of a series that has this name.
fn occurrence_named(core: &Event, zone: &TimeZone, text: &str) -> Option<Moment> {
    let (local, _) = date_or_time(text)?;
    let around = SignedDuration::from_hours(36);
    let at = TimeZone::UTC.to_timestamp(local).ok()?;
    let (from, to) = (at.checked_sub(around).ok()?, at.checked_add(around).ok()?);
    let alone = Calendar {
        events: vec![core.clone()],
        ..Calendar::default()
    };
    let (occurrences, _) = expand(&alone, zone, from, to).ok()?;
    let mut named = occurrences.into_iter().filter_map(|found| found.of_series);
    named.find(|moment| moment_text(moment) == text)
}

/// The text of a calendar after a change. `calendar` was read from `text`; an empty text is a calendar that is not there yet.
pub(crate) fn apply(
    text: &str,
    calendar: &Calendar,
    zone: &TimeZone,
    change: &Change<'_>,
) -> Result<String, EditError> {
    match &change.kind {
        Kind::Add(event) => add(text, &added(event, change)),
        Kind::Move {
            id,
            title,
            start,
            end,
        } => {
            let target = Target::find(calendar, zone, id, change.owner)?;
            target.expect(zone, title, None)?;
            let times = [
                format!("DTSTART:{}", utc(*start)),
                format!("DTEND:{}", utc(*end)),
            ];
            match (&target.occurrence, target.event()?) {
                (Some(occurrence), event) if event.instance.is_none() => {
                    instance(text, event, occurrence, times.into(), change)
                }
                // The whole of a series is never moved.
                (None, event) if event.is_series() => Err(EditError::NotFound),
                (_, event) if changes_later_ones(event) => Err(EditError::NotFound),
                (_, event) => Ok(Block::of(text, event)?.replaced(&[], times.into(), change)),
            }
        }
        Kind::Cancel {
            id,
            title,
            start,
            scope,
        } => {
            let target = Target::find(calendar, zone, id, change.owner)?;
            target.expect(zone, title, Some(*start))?;
            let cancelled = "STATUS:CANCELLED".to_owned();
            match (&target.occurrence, target.event()?, scope) {
                (_, event, Scope::Series) => {
                    let same = calendar.events.iter();
                    let mut all: Vec<&Event> =
                        same.filter(|other| other.uid == event.uid).collect();
                    all.sort_by_key(|event| event.place.start);
                    let (mut after, mut at) = (String::with_capacity(text.len()), 0);
                    for event in all {
                        let block = Block::of(text, event)?;
                        after.push_str(&text[at..event.place.start]);
                        after += &block.changed(&["STATUS"], vec![cancelled.clone()], change);
                        at = event.place.end;
                    }
                    after.push_str(&text[at..]);
                    Ok(after)
                }
                (Some(occurrence), event, Scope::Occurrence) if event.instance.is_none() => {
                    let lines = vec![
                        dated("DTSTART", occurrence),
                        format!("DURATION:{}", lasting(event)),
                        cancelled,
                    ];
                    instance(text, event, occurrence, lines, change)
                }
                (None, event, Scope::Occurrence) if event.is_series() => Err(EditError::NotFound),
                (_, event, Scope::Occurrence) if changes_later_ones(event) => {
                    Err(EditError::NotFound)
                }
                (_, event, Scope::Occurrence) => {
                    Ok(Block::of(text, event)?.replaced(&["STATUS"], vec![cancelled], change))
                }
            }
        }
        Kind::Locate { id, location } => {
            let target = Target::find(calendar, zone, id, change.owner)?;
            match (&target.occurrence, target.event()?) {
                (None, event) => {
                    let location = format!("LOCATION:{}", escaped(location));
                    let block = Block::of(text, event)?;
                    Ok(block.replaced(&["LOCATION"], vec![location], change))
                }
                (Some(_), _) => Err(EditError::NotFound),
            }
        }
    }
}

/// True of an instance that also replaces all later ones: a change of it would change them all.
fn changes_later_ones(event: &Event) -> bool {
    let instance = event.instance.as_ref();
    instance.is_some_and(|instance| instance.and_later)
}

/// The file with an instance of its own for one occurrence of a series.
fn instance(
    text: &str,
    core: &Event,
    occurrence: &Moment,
    more: Vec<String>,
    change: &Change<'_>,
) -> Result<String, EditError> {
    let block = Block::of(text, core)?;
    let mut lines = vec![dated("RECURRENCE-ID", occurrence)];
    lines.extend(more);
    let dropped = ["RRULE", "RDATE", "EXDATE", "EXRULE", "STATUS", CHANGE];
    let instance = block.changed(&dropped, lines, change);
    Ok(spliced(text, core.place.end, core.place.end, &instance))
}

/// The length of an event as `DURATION`.
fn lasting(event: &Event) -> String {
    let seconds = crate::expand::wall(event.length).as_secs();
    match event.is_all_day() {
        true => format!("P{}D", (seconds / 86_400).max(1)),
        false => format!("PT{seconds}S"),
    }
}

fn spliced(text: &str, from: usize, to: usize, between: &str) -> String {
    format!("{}{between}{}", &text[..from], &text[to..])
}

fn add(text: &str, event: &str) -> Result<String, EditError> {
    if text.trim().is_empty() {
        return Ok(format!(
            "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Windlass//Windlass//EN\r\n{event}END:VCALENDAR\r\n"
        ));
    }
    let found = components(text, &mut Problems::default());
    let mut calendars = found.iter().filter(|found| found.name == "VCALENDAR");
    let calendar = calendars.next_back().ok_or(EditError::Broken)?;
    match calendar.end {
        0 => Err(EditError::Broken),
        end => Ok(spliced(text, end, end, event)),
    }
}

fn added(event: &NewEvent<'_>, change: &Change<'_>) -> String {
    let now = utc(change.at);
    let mut lines = vec![
        "BEGIN:VEVENT".to_owned(),
        format!("UID:{}", escaped(&uid_of(change.key))),
        format!("DTSTAMP:{now}"),
        format!("CREATED:{now}"),
        format!("LAST-MODIFIED:{now}"),
        "SEQUENCE:0".to_owned(),
        format!("DTSTART:{}", utc(event.start)),
        format!("DTEND:{}", utc(event.end)),
        format!("SUMMARY:{}", escaped(event.title)),
    ];
    if !event.description.is_empty() {
        lines.push(format!("DESCRIPTION:{}", escaped(event.description)));
    }
    for attendee in event.attendees {
        let address: String = attendee.chars().filter(|c| !c.is_control()).collect();
        lines.push(format!("ATTENDEE:mailto:{address}"));
    }
    lines.push(format!("{OWNER}:{}", escaped(event.owner)));
    lines.push("END:VEVENT".to_owned());
    lines.iter().map(|line| written(line)).collect()
}

/// The lines of one event in a file.
struct Block<'a> {
    text: &'a str,
    event: Component,
    sequence: i64,
    start: usize,
    end: usize,
}

/// The lines that each change writes anew.
const ANEW: [&str; 3] = ["DTSTAMP", "LAST-MODIFIED", "SEQUENCE"];
/// The lines that say when an event is.
const TIMES: [&str; 3] = ["DTSTART", "DTEND", "DURATION"];

impl<'a> Block<'a> {
    fn of(text: &'a str, event: &Event) -> Result<Self, EditError> {
        let lines = text.get(event.place.clone()).ok_or(EditError::Broken)?;
        let mut found = components(lines, &mut Problems::default());
        let component = found.pop().ok_or(EditError::Broken)?;
        Ok(Self {
            text,
            event: component,
            sequence: event.sequence,
            start: event.place.start,
            end: event.place.end,
        })
    }

    fn lines(&self) -> &str {
        &self.text[self.start..self.end]
    }

    /// The file with this event changed.
    fn replaced(&self, dropped: &[&str], more: Vec<String>, change: &Change<'_>) -> String {
        let block = self.changed(dropped, more, change);
        spliced(self.text, self.start, self.end, &block)
    }

    /// The event without some lines and with others.
    fn changed(&self, dropped: &[&str], more: Vec<String>, change: &Change<'_>) -> String {
        let has_times = more.iter().any(|line| line.starts_with("DTSTART"));
        let keys: Vec<&Line> = self.event.all(CHANGE).collect();
        let oldest = keys.len().saturating_sub(CHANGES_MAX - 1);
        let is_dropped = |line: &Line| {
            let name = line.name.as_str();
            dropped.contains(&name)
                || ANEW.contains(&name)
                || (has_times && TIMES.contains(&name))
                || keys[..oldest].iter().any(|key| key.number == line.number)
        };
        let block = self.lines();
        let mut kept = String::with_capacity(block.len() + 200);
        let mut at = 0;
        for line in self.event.lines.iter().filter(|line| is_dropped(line)) {
            kept.push_str(&block[at..line.place.start]);
            at = line.place.end;
        }
        // New lines go before the components within the event, such as its alarms.
        let first_child = self
            .event
            .children
            .iter()
            .map(|child| child.place.start)
            .min();
        let end = first_child.unwrap_or(self.event.end);
        kept.push_str(&block[at..end.max(at)]);
        if !kept.ends_with('\n') {
            kept.push_str("\r\n");
        }
        let now = utc(change.at);
        let anew = [
            format!("DTSTAMP:{now}"),
            format!("LAST-MODIFIED:{now}"),
            format!("SEQUENCE:{}", self.sequence.saturating_add(1)),
            format!("{CHANGE}:{}", escaped(change.key)),
        ];
        for line in more.iter().chain(&anew) {
            kept.push_str(&written(line));
        }
        kept.push_str(&block[end.max(at)..]);
        if !kept.ends_with('\n') {
            kept.push_str("\r\n");
        }
        kept
    }
}
