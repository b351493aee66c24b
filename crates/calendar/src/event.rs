//! The events of a calendar. Knows no file and no range.

use crate::rule::Rule;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::ops::Range;

/// A point in time as a calendar says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    pub local: DateTime,
    pub clock: Clock,
}

/// The clock of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clock {
    /// A whole day, wherever the calendar is.
    Date,
    /// The clock of the calendar's place.
    Floating,
    Zone(TimeZone),
}

impl Moment {
    /// The zone that it is read in, in a calendar of this one.
    pub(crate) fn zone<'a>(&'a self, calendar: &'a TimeZone) -> &'a TimeZone {
        match &self.clock {
            Clock::Zone(zone) => zone,
            Clock::Date | Clock::Floating => calendar,
        }
    }

    /// When that is. An hour that a change of the clock leaves out is as many minutes later; of an hour that there is twice, it
    /// is the first.
    pub(crate) fn timestamp(&self, calendar: &TimeZone) -> Option<Timestamp> {
        instant(self.local, self.zone(calendar))
    }
}

pub(crate) fn instant(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    zone.to_ambiguous_timestamp(local).compatible().ok()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attendee {
    pub email: String,
    pub name: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    #[default]
    Confirmed,
    Tentative,
    Cancelled,
}

/// The length of each occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// Seconds by the clock on the wall, as between `DTSTART` and `DTEND`: a night from 22 to 6 stays one when the clock changes.
    Wall { seconds: i64 },
    /// `DURATION`: days by the clock on the wall, the rest as it passes.
    Exact { days: i64, seconds: i64 },
}

/// One `VEVENT`: a single event, a series, or an instance that differs from its series.
#[derive(Clone, Debug)]
pub struct Event {
    pub uid: String,
    pub summary: Option<String>,
    pub description: Option<String>,
    pub location: Option<String>,
    pub attendees: Vec<Attendee>,
    pub status: Status,
    /// Whether its time is taken.
    pub is_opaque: bool,
    pub sequence: i64,
    /// The owner, as the program that made the event names it.
    pub owner: Option<String>,
    pub start: Moment,
    pub(crate) length: Length,
    pub(crate) rules: Vec<Rule>,
    pub(crate) also: Vec<Extra>,
    pub(crate) except: Vec<Moment>,
    pub(crate) instance: Option<Instance>,
    /// The changes that are in it, by their keys.
    pub(crate) changes: Vec<String>,
    /// The place in the file, and the line.
    pub(crate) place: Range<usize>,
    pub(crate) number: usize,
}

/// A date of `RDATE`, with the length of its own that a period has.
#[derive(Clone, Debug)]
pub(crate) struct Extra {
    pub(crate) start: Moment,
    pub(crate) length: Option<Length>,
}

/// The occurrence that an event replaces.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) of: Moment,
    /// And for all later ones, moved as this one is.
    pub(crate) and_later: bool,
}

impl Event {
    pub fn is_busy(&self) -> bool {
        self.is_opaque && self.status != Status::Cancelled
    }

    pub(crate) fn is_series(&self) -> bool {
        !self.rules.is_empty() || !self.also.is_empty()
    }

    pub(crate) fn is_all_day(&self) -> bool {
        self.start.clock == Clock::Date
    }
}
