//! The occurrences of a calendar's events within a range of time. Bounded in work and in number; a rule that cannot be followed
//! to its end counts as taking the whole range, so that no busy time is shown as free.

use crate::event::{Clock, Event, Instance, Length, Moment, instant};
use crate::lines::shown;
use crate::read::{Calendar, Form, Problem};
use crate::rule::{Rule, Until, Wanted};
use crate::{OCCURRENCES_MAX, STEPS_MAX};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// Extra steps for each start that is found, because its zone has to be applied.
const START_STEPS: u64 = 20;
/// The margin for a difference between clocks, and for a clock change.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// One time that an event takes place.
#[derive(Clone, Debug)]
pub struct Occurrence<'a> {
    /// The event, or the instance that replaces this occurrence.
    pub event: &'a Event,
    pub start: Timestamp,
    pub end: Timestamp,
    /// The start that the rule of the series gives. It identifies the occurrence; `None` outside a series.
    pub of_series: Option<Moment>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    #[error(
        "the calendar's recurring events need more than {STEPS_MAX} steps; choose a shorter range, or simplify their rules"
    )]
    Steps,
    #[error("there are more than {OCCURRENCES_MAX} occurrences in the range; choose a shorter one")]
    Occurrences,
}

/// The occurrences that touch a range, by their start; and the rules that count as busy throughout.
///
/// # Errors
///
/// The query takes more work or memory than it may.
pub fn expand<'a>(
    calendar: &'a Calendar,
    zone: &TimeZone,
    from: Timestamp,
    to: Timestamp,
) -> Result<(Vec<Occurrence<'a>>, Vec<Problem>), ExpandError> {
    let mut expansion = Expansion {
        zone,
        from,
        to,
        steps: 0,
        found: Vec::new(),
        problems: Vec::new(),
    };
    for series in series(&calendar.events, zone) {
        expansion.series(&series)?;
        if expansion.found.len() > OCCURRENCES_MAX {
            return Err(ExpandError::Occurrences);
        }
        if expansion.steps > STEPS_MAX {
            return Err(ExpandError::Steps);
        }
    }
    let Expansion {
        mut found,
        problems,
        ..
    } = expansion;
    found.sort_by(|left, right| {
        (left.start, left.end, &left.event.uid).cmp(&(right.start, right.end, &right.event.uid))
    });
    Ok((found, problems))
}

/// An event, and the instances that differ from it, by the start that the rule gives them.
#[derive(Default)]
struct Series<'a> {
    core: Option<&'a Event>,
    instances: BTreeMap<Timestamp, &'a Event>,
}

/// Groups events by their UID. If an event has two versions, the newer counts.
fn series<'a>(events: &'a [Event], zone: &TimeZone) -> Vec<Series<'a>> {
    let mut all: Vec<Series<'_>> = Vec::with_capacity(events.len());
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        let known = match event.uid.as_str() {
            "" => None,
            uid => named.get(uid).copied(),
        };
        let at = known.unwrap_or_else(|| {
            named.insert(&event.uid, all.len());
            all.push(Series::default());
            all.len() - 1
        });
        let series = &mut all[at];
        match &event.instance {
            Some(instance) => {
                let Some(at) = instance.of.timestamp(zone) else {
                    continue;
                };
                let newest = series.instances.entry(at).or_insert(event);
                if newest.sequence <= event.sequence {
                    *newest = event;
                }
            }
            None if series
                .core
                .is_none_or(|core| core.sequence <= event.sequence) =>
            {
                series.core = Some(event);
            }
            None => {}
        }
    }
    all
}

struct Expansion<'a, 'b> {
    zone: &'b TimeZone,
    from: Timestamp,
    to: Timestamp,
    steps: u64,
    found: Vec<Occurrence<'a>>,
    problems: Vec<Problem>,
}

/// A start of a series, before instances are looked at.
#[derive(Clone)]
struct Start {
    at: Timestamp,
    moment: Moment,
    length: Length,
}

impl<'a> Expansion<'a, '_> {
    fn series(&mut self, series: &Series<'a>) -> Result<(), ExpandError> {
        let except = series.core.map_or_else(Named::default, |core| {
            Named::of(core.except.iter(), self.zone)
        });
        if let Some(core) = series.core {
            match core.is_series() || !series.instances.is_empty() {
                true => self.recurring(core, &series.instances, &except),
                false => self.single(core, None),
            }
        }
        for event in series.instances.values() {
            let Some(instance) = &event.instance else {
                continue;
            };
            if !except.contains(&instance.of, self.zone) {
                self.single(event, Some(instance.of.clone()));
            }
        }
        Ok(())
    }

    /// An event that takes place once.
    fn single(&mut self, event: &'a Event, of_series: Option<Moment>) {
        let (from, to) = self.local_range(&TimeZone::UTC, wall(event.length));
        if event.start.local < from || event.start.local >= to {
            return;
        }
        if let Some(at) = event.start.timestamp(self.zone) {
            let start = Start {
                at,
                moment: event.start.clone(),
                length: event.length,
            };
            self.keep(event, &start, of_series);
        }
    }

    fn keep(&mut self, event: &'a Event, start: &Start, of_series: Option<Moment>) {
        let zone = start.moment.zone(self.zone);
        let Some(end) = end_of(start.moment.local, start.length, zone) else {
            return;
        };
        let end = end.max(start.at);
        let touches = match end == start.at {
            true => self.from <= start.at && start.at < self.to,
            false => start.at < self.to && self.from < end,
        };
        if touches {
            self.found.push(Occurrence {
                event,
                start: start.at,
                end,
                of_series,
            });
        }
    }

    /// The range by a clock on the wall, with room for events that last into it and for changes of the clock.
    fn local_range(&self, zone: &TimeZone, length: SignedDuration) -> (DateTime, DateTime) {
        let from = zone.to_datetime(self.from);
        let to = zone.to_datetime(self.to);
        (
            from.saturating_sub(length.saturating_add(DAY)),
            to.saturating_add(DAY),
        )
    }

    fn recurring(
        &mut self,
        core: &'a Event,
        instances: &BTreeMap<Timestamp, &'a Event>,
        except: &Named,
    ) {
        let zone = core.start.zone(self.zone).clone();
        let replaced = Named::of(
            (instances.values()).filter_map(|event| Some(&event.instance.as_ref()?.of)),
            self.zone,
        );
        let mut later: Vec<Later<'a>> = (instances.values())
            .filter_map(|event| Later::of(event, self.zone))
            .collect();
        later.sort_by_key(|later| later.after);
        let room = later.iter().map(Later::room).max().unwrap_or(DAY);
        let (from, to) = self.local_range(&zone, wall(core.length).max(room));
        let to = to.saturating_add(room);
        if core.start.local >= to {
            return;
        }
        let mut starts = Vec::new();
        let mut has_ended = !core.rules.is_empty();
        for rule in &core.rules {
            let until = rule.until;
            let is_over = |local: DateTime| {
                until.is_some_and(|until| is_after(local, &core.start, until, &zone))
            };
            has_ended &= is_over(core.start.local);
            if !self.follow(core, rule, (from, to), &is_over, &zone, &mut starts) {
                return;
            }
        }
        for extra in &core.also {
            if let Some(at) = extra.start.timestamp(self.zone) {
                starts.push(Start {
                    at,
                    moment: extra.start.clone(),
                    length: extra.length.unwrap_or(core.length),
                });
            }
        }
        if let (false, Some(at)) = (has_ended, core.start.timestamp(self.zone)) {
            starts.push(Start {
                at,
                moment: core.start.clone(),
                length: core.length,
            });
        }
        starts.sort_by_key(|start| (start.at, start.length == core.length));
        starts.dedup_by_key(|start| start.at);
        for start in starts {
            if except.contains_at(&start) || replaced.contains_at(&start) {
                continue;
            }
            let mut moved = start.clone();
            let mut event = core;
            let before = later.partition_point(|later| later.after < start.at);
            if let Some(later) = later[..before].last() {
                moved.moment.local = moved.moment.local.saturating_add(later.shift);
                if moved.length == core.length {
                    moved.length = later.event.length;
                }
                event = later.event;
                let zone = moved.moment.zone(self.zone);
                match instant(moved.moment.local, zone) {
                    Some(at) => moved.at = at,
                    None => continue,
                }
            }
            let named = core.is_series().then_some(start.moment);
            self.keep(event, &moved, named);
        }
    }

    /// Adds the starts that a rule gives. False where it takes too long: then the event takes the whole range.
    fn follow(
        &mut self,
        core: &'a Event,
        rule: &Rule,
        (from, to): (DateTime, DateTime),
        is_over: &dyn Fn(DateTime) -> bool,
        zone: &TimeZone,
        starts: &mut Vec<Start>,
    ) -> bool {
        let wanted = Wanted {
            first: core.start.local,
            from,
            to,
            is_over,
        };
        let mut steps = 0;
        let before = starts.len();
        let followed = rule.starts(&wanted, &mut steps, &mut |local| {
            if let Some(at) = instant(local, zone) {
                starts.push(Start {
                    at,
                    moment: Moment {
                        local,
                        clock: core.start.clock.clone(),
                    },
                    length: core.length,
                });
            }
        });
        let found = u64::try_from(starts.len() - before).unwrap_or(u64::MAX);
        self.steps += u64::from(steps) + found.saturating_mul(START_STEPS);
        if followed.is_ok() {
            return true;
        }
        let title = shown(
            core.summary
                .as_deref()
                .unwrap_or("an event without a title"),
        );
        let cause = format!(
            "the rule of {title:?} repeats too often to be followed; the whole time counts as taken"
        );
        self.problems.push(Problem::new(core.number, cause));
        self.found.push(Occurrence {
            event: core,
            start: self.from,
            end: self.to,
            of_series: None,
        });
        false
    }
}

/// An instance that also replaces all later ones.
struct Later<'a> {
    after: Timestamp,
    shift: SignedDuration,
    event: &'a Event,
}

impl<'a> Later<'a> {
    fn of(event: &&'a Event, zone: &TimeZone) -> Option<Self> {
        let Instance { of, and_later } = event.instance.as_ref()?;
        and_later.then_some(())?;
        Some(Self {
            after: of.timestamp(zone)?,
            shift: event.start.local.duration_since(of.local),
            event,
        })
    }

    fn room(&self) -> SignedDuration {
        let moved = self.shift.abs().saturating_add(wall(self.event.length));
        moved.saturating_add(DAY)
    }
}

/// Dates by which occurrences are named: of instances, or of exceptions.
#[derive(Default)]
struct Named {
    at: Vec<Timestamp>,
    floating: Vec<DateTime>,
    dates: Vec<Date>,
}

impl Named {
    fn of<'m>(moments: impl Iterator<Item = &'m Moment>, zone: &TimeZone) -> Self {
        let mut named = Self::default();
        for moment in moments {
            match moment.clock {
                Clock::Date => named.dates.push(moment.local.date()),
                Clock::Floating => named.floating.push(moment.local),
                Clock::Zone(_) => named.at.extend(moment.timestamp(zone)),
            }
        }
        named.at.sort_unstable();
        named.floating.sort_unstable();
        named.dates.sort_unstable();
        named
    }

    fn contains_at(&self, start: &Start) -> bool {
        let local = start.moment.local;
        self.at.binary_search(&start.at).is_ok()
            || self.floating.binary_search(&local).is_ok()
            || self.dates.binary_search(&local.date()).is_ok()
    }

    fn contains(&self, moment: &Moment, zone: &TimeZone) -> bool {
        let at = moment.timestamp(zone);
        at.is_some_and(|at| {
            self.contains_at(&Start {
                at,
                moment: moment.clone(),
                length: Length::Wall { seconds: 0 },
            })
        })
    }
}

/// How much of a wall's clock a length takes at most.
pub(crate) fn wall(length: Length) -> SignedDuration {
    match length {
        Length::Wall { seconds } => SignedDuration::from_secs(seconds),
        Length::Exact { days, seconds } => {
            SignedDuration::from_secs(days.saturating_mul(86_400).saturating_add(seconds))
        }
    }
}

impl Event {
    /// When it ends, or its first occurrence does.
    pub(crate) fn end(&self, calendar: &TimeZone) -> Option<Timestamp> {
        end_of(self.start.local, self.length, self.start.zone(calendar))
    }
}

fn end_of(local: DateTime, length: Length, zone: &TimeZone) -> Option<Timestamp> {
    match length {
        Length::Wall { seconds } => {
            let end = local.checked_add(SignedDuration::from_secs(seconds)).ok()?;
            instant(end, zone)
        }
        Length::Exact { days, seconds } => {
            let day = SignedDuration::from_secs(days.checked_mul(86_400)?);
            let end = instant(local.checked_add(day).ok()?, zone)?;
            end.checked_add(SignedDuration::from_secs(seconds)).ok()
        }
    }
}

/// Whether a start comes after the end of its rule. A date includes its whole day.
fn is_after(local: DateTime, first: &Moment, until: Until, zone: &TimeZone) -> bool {
    match (until.form, &first.clock) {
        (Form::Date, _) | (_, Clock::Date) => local.date() > until.local.date(),
        (Form::Utc, Clock::Zone(_) | Clock::Floating) => {
            let Ok(until) = TimeZone::UTC.to_timestamp(until.local) else {
                return false;
            };
            instant(local, zone).is_some_and(|at| at > until)
        }
        (Form::Local, _) => local > until.local,
    }
}
