//! Busy times and free slots: which parts of a range are taken, and which are long enough to offer. Knows spans of time, zones
//! and working hours; no event.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use std::str::FromStr;

/// A range from a time to another that is not before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub start: Timestamp,
    pub end: Timestamp,
}

impl Span {
    pub fn minutes(&self) -> i64 {
        self.end.duration_since(self.start).as_mins()
    }

    /// The part of it that lies within another; `None` where nothing of it does.
    fn within(self, other: Self) -> Option<Self> {
        let part = Self {
            start: self.start.max(other.start),
            end: self.end.min(other.end),
        };
        (part.start < part.end).then_some(part)
    }
}

/// The parts of a range that are taken, in order and apart from each other. Each time that is taken grows by the buffer on both sides.
pub fn busy(
    taken: impl IntoIterator<Item = Span>,
    range: Span,
    buffer: SignedDuration,
) -> Vec<Span> {
    let grown = taken.into_iter().filter(|span| span.start < span.end);
    let grown = grown.filter_map(|span| {
        let start = span.start.checked_sub(buffer).unwrap_or(Timestamp::MIN);
        let end = span.end.checked_add(buffer).unwrap_or(Timestamp::MAX);
        Span { start, end }.within(range)
    });
    let mut spans: Vec<Span> = grown.collect();
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            Some(_) | None => merged.push(span),
        }
    }
    merged
}

/// The parts of a range that are not busy, lie within working hours and last long enough. `busy` is in order, as [`busy()`] has it.
pub fn free(
    range: Span,
    busy: &[Span],
    hours: &WorkingHours,
    zone: &TimeZone,
    shortest: SignedDuration,
) -> Vec<Span> {
    let mut gaps = Vec::new();
    let mut at = range.start;
    for taken in busy {
        if at < taken.start {
            gaps.push(Span {
                start: at,
                end: taken.start,
            });
        }
        at = at.max(taken.end);
    }
    if at < range.end {
        gaps.push(Span {
            start: at,
            end: range.end,
        });
    }
    let is_long = |span: &Span| span.end.duration_since(span.start) >= shortest;
    match hours.is_always() {
        true => gaps.into_iter().filter(is_long).collect(),
        false => {
            let open = hours.spans(range, zone);
            let parts = gaps.into_iter().flat_map(|gap| {
                let first = open.partition_point(|open| open.end <= gap.start);
                let open = open[first..].iter();
                open.take_while(move |open| open.start < gap.end)
                    .filter_map(move |open| gap.within(*open))
            });
            parts.filter(is_long).collect()
        }
    }
}

/// The hours in which people can be met, by day of the week.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkingHours {
    /// The stretches of each day, from Monday; in order and apart from each other. All empty for always.
    days: [Vec<(Time, Until)>; 7],
}

/// The end of a stretch within a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Until {
    Time(Time),
    Midnight,
}

impl WorkingHours {
    fn is_always(&self) -> bool {
        self.days.iter().all(Vec::is_empty)
    }

    /// The working hours that touch a range, in order and apart from each other.
    fn spans(&self, range: Span, zone: &TimeZone) -> Vec<Span> {
        let instant = |local| zone.to_ambiguous_timestamp(local).compatible().ok();
        let mut spans: Vec<Span> = Vec::new();
        let mut date = zone.to_datetime(range.start).date();
        let last = zone.to_datetime(range.end).date();
        while date <= last {
            let Ok(tomorrow) = date.tomorrow() else {
                break;
            };
            let weekday = date.weekday().to_monday_zero_offset();
            let day = usize::try_from(weekday).map_or(&[][..], |weekday| &self.days[weekday]);
            for (start, end) in day {
                let end = match end {
                    Until::Time(time) => instant(date.to_datetime(*time)),
                    Until::Midnight => instant(tomorrow.to_datetime(Time::midnight())),
                };
                let Some((start, end)) = instant(date.to_datetime(*start)).zip(end) else {
                    continue;
                };
                let Some(span) = Span { start, end }.within(range) else {
                    continue;
                };
                match spans.last_mut() {
                    // A stretch to midnight and one from midnight on are one.
                    Some(last) if last.end >= span.start => last.end = last.end.max(span.end),
                    Some(_) | None => spans.push(span),
                }
            }
            date = tomorrow;
        }
        spans
    }
}

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl FromStr for WorkingHours {
    type Err = String;

    /// `Mon-Fri 09:00-12:30 13:30-17:00, Sat 10:00-14:00`; an empty text is always.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut hours = Self::default();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let wrong = || {
                let shown: String = part.chars().filter(|c| !c.is_control()).take(40).collect();
                format!("{shown:?} is no working time; write it as in Mon-Fri 09:00-17:00")
            };
            let mut words = part.split_whitespace();
            let days = words.next().and_then(days).ok_or_else(wrong)?;
            let stretches: Option<Vec<_>> = words.map(stretch).collect();
            let stretches = stretches
                .filter(|list| !list.is_empty())
                .ok_or_else(wrong)?;
            for day in days {
                let day = &mut hours.days[day];
                day.extend(stretches.iter().copied());
                day.sort_unstable();
                let meets = |pair: &[(Time, Until)]| match pair[0].1 {
                    Until::Time(end) => end > pair[1].0,
                    Until::Midnight => true,
                };
                if day.windows(2).any(meets) {
                    return Err(format!(
                        "{part:?} overlaps with other working times of a day"
                    ));
                }
            }
        }
        Ok(hours)
    }
}

/// `Mon` or `Mon-Fri`, and `Sat-Mon` over the end of the week.
fn days(text: &str) -> Option<Vec<usize>> {
    let day = |name: &str| {
        DAYS.iter()
            .position(|known| known.eq_ignore_ascii_case(name))
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (day(first)?, day(last)?),
        None => (day(text)?, day(text)?),
    };
    let count = (last + 7 - first) % 7 + 1;
    Some((0..count).map(|at| (first + at) % 7).collect())
}

/// `09:00-17:00`, and `24:00` for midnight.
fn stretch(text: &str) -> Option<(Time, Until)> {
    let (start, end) = text.split_once('-')?;
    let time = |text: &str| {
        let (hour, minute) = text.split_once(':')?;
        (minute.len() == 2).then_some(())?;
        Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
    };
    let start = time(start)?;
    let end = match end {
        "24:00" => Until::Midnight,
        end => Until::Time(time(end)?),
    };
    match end {
        Until::Time(end) if end <= start => None,
        end => Some((start, end)),
    }
}
