//! Recurrence rules: their content, and the starts that they give within a range. Days are looked at one by one from the range's
//! beginning, so that an endless rule costs the same however long ago it began; only rules with `COUNT` are counted from their first
//! day. All of it by the clock on the wall, without zones.

use crate::RULE_STEPS_MAX;
use crate::event::{Clock, Moment};
use crate::lines::shown;
use crate::read::{Form, date_or_time};
use crate::zone::weekday_named;
use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time, Weekday};

/// Values of one list of a rule.
const VALUES_MAX: usize = 800;
const INTERVAL_MAX: i64 = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Frequency {
    Yearly,
    Monthly,
    Weekly,
    Daily,
    Hourly,
    Minutely,
    Secondly,
}

/// The last time at which a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Until {
    pub(crate) local: DateTime,
    pub(crate) form: Form,
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    frequency: Frequency,
    interval: i64,
    count: Option<u32>,
    pub(crate) until: Option<Until>,
    week_start: i64,
    /// An empty list does not restrict. Negative numbers count from the end. This holds for each list.
    months: Vec<i16>,
    weeks: Vec<i16>,
    year_days: Vec<i16>,
    month_days: Vec<i16>,
    /// The day of the week from Monday 0, and which of them in its month or year; 0 for all.
    weekdays: Vec<(i16, i64)>,
    hours: Vec<i16>,
    minutes: Vec<i16>,
    seconds: Vec<i16>,
    positions: Vec<i16>,
}

/// A rule needs more steps than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The starts that are looked for.
pub(crate) struct Wanted<'a> {
    /// The series' first start.
    pub(crate) first: DateTime,
    pub(crate) from: DateTime,
    /// The end of the range, not included.
    pub(crate) to: DateTime,
    /// Whether a start comes after the rule's `UNTIL`.
    pub(crate) is_over: &'a dyn Fn(DateTime) -> bool,
}

impl Rule {
    /// Reads a rule of a series with this start, which fills the gaps of the rule.
    pub(crate) fn read(text: &str, start: &Moment) -> Result<Self, String> {
        let mut rule = Self {
            frequency: Frequency::Daily,
            interval: 1,
            count: None,
            until: None,
            week_start: 0,
            months: Vec::new(),
            weeks: Vec::new(),
            year_days: Vec::new(),
            month_days: Vec::new(),
            weekdays: Vec::new(),
            hours: Vec::new(),
            minutes: Vec::new(),
            seconds: Vec::new(),
            positions: Vec::new(),
        };
        let mut has_frequency = false;
        for part in text.trim().split(';').filter(|part| !part.is_empty()) {
            let wrong = || format!("{} is no part of a rule", shown(part));
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            let value = value.trim().to_ascii_uppercase();
            let list = |low: i16, high: i16| numbers(&value, low, high).ok_or_else(wrong);
            match key.trim().to_ascii_uppercase().as_str() {
                "FREQ" => {
                    rule.frequency = frequency(&value).ok_or_else(wrong)?;
                    has_frequency = true;
                }
                "INTERVAL" => {
                    let interval = value.parse().ok();
                    let is_fit = |interval: &i64| (1..=INTERVAL_MAX).contains(interval);
                    rule.interval = interval.filter(is_fit).ok_or_else(wrong)?;
                }
                "COUNT" => {
                    let count: Option<u32> = value.parse().ok();
                    rule.count = Some(count.filter(|count| *count > 0).ok_or_else(wrong)?);
                }
                "UNTIL" => {
                    let (local, form) = date_or_time(&value).ok_or_else(wrong)?;
                    rule.until = Some(Until { local, form });
                }
                "WKST" => {
                    let day = weekday_named(&value).ok_or_else(wrong)?;
                    rule.week_start = i64::from(day.to_monday_zero_offset());
                }
                "BYMONTH" => rule.months = list(1, 12)?,
                "BYWEEKNO" => rule.weeks = list(-53, 53)?,
                "BYYEARDAY" => rule.year_days = list(-366, 366)?,
                "BYMONTHDAY" => rule.month_days = list(-31, 31)?,
                "BYDAY" => rule.weekdays = weekdays(&value).ok_or_else(wrong)?,
                "BYHOUR" => rule.hours = list(0, 23)?,
                "BYMINUTE" => rule.minutes = list(0, 59)?,
                "BYSECOND" => rule.seconds = list(0, 59)?,
                "BYSETPOS" => rule.positions = list(-366, 366)?,
                key if key.starts_with("X-") => {}
                _ => return Err(wrong()),
            }
        }
        if !has_frequency {
            return Err(format!("{} has no FREQ", shown(text)));
        }
        rule.complete(start)?;
        Ok(rule)
    }

    fn complete(&mut self, start: &Moment) -> Result<(), String> {
        let local = start.local;
        if start.clock == Clock::Date {
            if self.frequency > Frequency::Daily {
                return Err("whole days do not repeat within a day".to_owned());
            }
            (self.hours, self.minutes, self.seconds) = (vec![0], vec![0], vec![0]);
        }
        let has_days = !(self.weeks.is_empty()
            && self.year_days.is_empty()
            && self.month_days.is_empty()
            && self.weekdays.is_empty());
        let weekday = i64::from(local.weekday().to_monday_zero_offset());
        match self.frequency {
            Frequency::Yearly if !has_days => {
                if self.months.is_empty() {
                    self.months = vec![i16::from(local.month())];
                }
                self.month_days = vec![i16::from(local.day())];
            }
            Frequency::Monthly if !has_days => self.month_days = vec![i16::from(local.day())],
            Frequency::Weekly if !has_days => self.weekdays = vec![(0, weekday)],
            _ => {}
        }
        // Only months and years number their weekdays.
        if self.frequency > Frequency::Monthly {
            for (number, _) in &mut self.weekdays {
                *number = 0;
            }
        }
        let fill = |list: &mut Vec<i16>, value: i8| {
            if list.is_empty() {
                list.push(i16::from(value));
            }
        };
        if self.frequency < Frequency::Hourly {
            fill(&mut self.hours, local.hour());
        }
        if self.frequency < Frequency::Minutely {
            fill(&mut self.minutes, local.minute());
        }
        if self.frequency < Frequency::Secondly {
            fill(&mut self.seconds, local.second());
        }
        Ok(())
    }

    /// The starts that are wanted, in their order.
    pub(crate) fn starts(
        &self,
        wanted: &Wanted<'_>,
        steps: &mut u32,
        found: &mut dyn FnMut(DateTime),
    ) -> Result<(), TooLong> {
        let mut left = self.count.unwrap_or(u32::MAX);
        // True as long as there may be more.
        let mut take = |start: DateTime| {
            if start < wanted.first {
                return true;
            }
            if left == 0 || start >= wanted.to || (wanted.is_over)(start) {
                return false;
            }
            if self.count.is_some() {
                left -= 1;
            }
            if start >= wanted.from {
                found(start);
            }
            true
        };
        let begin = match self.count {
            Some(_) => wanted.first.date(),
            None => wanted.from.date().max(wanted.first.date()),
        };
        let is_of_days = self.frequency <= Frequency::Daily;
        match is_of_days && !self.positions.is_empty() {
            true => self.by_position(begin, wanted, steps, &mut take),
            false => self.by_day(begin, wanted, steps, &mut take),
        }
    }

    /// Goes through days.
    fn by_day(
        &self,
        begin: Date,
        wanted: &Wanted<'_>,
        steps: &mut u32,
        take: &mut dyn FnMut(DateTime) -> bool,
    ) -> Result<(), TooLong> {
        let first = Day::of(wanted.first.date());
        let last = Day::of(wanted.to.date());
        let mut day = Day::of(begin);
        while day.number <= last.number {
            step(steps)?;
            if let Some(next) = self.skip(&day, &first) {
                day = next;
                continue;
            }
            if self.fits(&day) && !self.times(&day, wanted.first, steps, take)? {
                return Ok(());
            }
            day = day.next();
        }
        Ok(())
    }

    /// Goes through whole periods, and takes of each the starts at the rule's positions.
    fn by_position(
        &self,
        begin: Date,
        wanted: &Wanted<'_>,
        steps: &mut u32,
        take: &mut dyn FnMut(DateTime) -> bool,
    ) -> Result<(), TooLong> {
        let first = Day::of(wanted.first.date());
        let last = Day::of(wanted.to.date());
        let mut day = self.period_start(&Day::of(begin));
        while day.number <= last.number {
            step(steps)?;
            let period = self.period(&day);
            if (period - self.period(&first)).rem_euclid(self.interval) != 0 {
                day = self.aligned_after(&day, &first);
                continue;
            }
            let mut starts = Vec::new();
            while self.period(&day) == period {
                step(steps)?;
                if self.fits(&day) {
                    self.times(&day, wanted.first, steps, &mut |start| {
                        starts.push(start);
                        true
                    })?;
                }
                day = day.next();
            }
            for start in self.at_positions(&starts) {
                if !take(start) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn at_positions(&self, starts: &[DateTime]) -> Vec<DateTime> {
        let at = |position: &i16| {
            let position = isize::from(*position);
            let index = match position > 0 {
                true => usize::try_from(position - 1).ok()?,
                false => starts.len().checked_add_signed(position)?,
            };
            starts.get(index).copied()
        };
        let mut chosen: Vec<DateTime> = self.positions.iter().filter_map(at).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    /// The day to go on with where a whole stretch cannot fit.
    fn skip(&self, day: &Day, first: &Day) -> Option<Day> {
        if self.frequency <= Frequency::Daily
            && self.interval > 1
            && (self.period(day) - self.period(first)).rem_euclid(self.interval) != 0
        {
            return Some(self.aligned_after(day, first));
        }
        let is_month_out = !self.months.is_empty() && !self.months.contains(&day.month);
        is_month_out.then(|| day.next_month())
    }

    /// The number of a day's period, counted from an arbitrary one.
    fn period(&self, day: &Day) -> i64 {
        match self.frequency {
            Frequency::Yearly => i64::from(day.year),
            Frequency::Monthly => i64::from(day.year) * 12 + i64::from(day.month) - 1,
            Frequency::Weekly => (day.number + 3 - self.week_start).div_euclid(7),
            _ => day.number,
        }
    }

    fn period_start(&self, day: &Day) -> Day {
        match self.frequency {
            Frequency::Yearly => Day::numbered(day.number - i64::from(day.year_day) + 1),
            Frequency::Monthly => Day::numbered(day.number - i64::from(day.day) + 1),
            Frequency::Weekly => Day::numbered(self.period(day) * 7 - 3 + self.week_start),
            _ => *day,
        }
    }

    /// The first day of the next period that the interval hits.
    fn aligned_after(&self, day: &Day, first: &Day) -> Day {
        let passed = (self.period(day) - self.period(first)).rem_euclid(self.interval);
        let period = self.period(day) + self.interval - passed;
        let year_day = |year: i64, month: i64| {
            // Beyond the years that there are, the search ends.
            let date = i16::try_from(year).ok().zip(i8::try_from(month).ok());
            let date = date.and_then(|(year, month)| Date::new(year, month, 1).ok());
            Day::of(date.unwrap_or(Date::MAX))
        };
        match self.frequency {
            Frequency::Yearly => year_day(period, 1),
            Frequency::Monthly => year_day(period.div_euclid(12), period.rem_euclid(12) + 1),
            Frequency::Weekly => Day::numbered(period * 7 - 3 + self.week_start),
            _ => Day::numbered(period),
        }
    }

    /// Whether the rule's lists let a day through.
    fn fits(&self, day: &Day) -> bool {
        let is_in = |list: &[i16], from_start: i16, length: i16| {
            let from_end = from_start - length - 1;
            list.is_empty() || list.contains(&from_start) || list.contains(&from_end)
        };
        (self.months.is_empty() || self.months.contains(&day.month))
            && is_in(&self.month_days, day.day, day.month_days)
            && is_in(&self.year_days, day.year_day, day.year_days)
            && (self.weeks.is_empty() || self.week_fits(day))
            && (self.weekdays.is_empty() || self.weekday_fits(day))
    }

    fn weekday_fits(&self, day: &Day) -> bool {
        let is_of_month = self.frequency == Frequency::Monthly || !self.months.is_empty();
        let (from_start, length) = match is_of_month {
            true => (day.day, day.month_days),
            false => (day.year_day, day.year_days),
        };
        let number = (from_start - 1) / 7 + 1;
        let number_from_end = -((length - from_start) / 7 + 1);
        let fits = |(wanted, weekday): &(i16, i64)| {
            *weekday == day.weekday
                && (*wanted == 0 || *wanted == number || *wanted == number_from_end)
        };
        self.weekdays.iter().any(fits)
    }

    /// Weeks are numbered as ISO 8601 does, from the day on which this rule's weeks begin: a week is of the year of its fourth day.
    fn week_fits(&self, day: &Day) -> bool {
        let in_week = (day.weekday - self.week_start).rem_euclid(7);
        let fourth = i64::from(day.year_day) - 1 - in_week + 3;
        let (fourth, year_days) = match fourth {
            before if before < 0 => {
                let length = year_days(day.year - 1);
                (before + i64::from(length), length)
            }
            after if after >= i64::from(day.year_days) => {
                (after - i64::from(day.year_days), year_days(day.year + 1))
            }
            within => (within, day.year_days),
        };
        let number = fourth / 7 + 1;
        let of_year = (i64::from(year_days) - 1 - fourth % 7) / 7 + 1;
        let is_wanted = |wanted: &i16| {
            let wanted = i64::from(*wanted);
            wanted == number || wanted == number - of_year - 1
        };
        self.weeks.iter().any(is_wanted)
    }

    /// The starts of a day that fits, in their order. False where no later one is wanted.
    fn times(
        &self,
        day: &Day,
        first: DateTime,
        steps: &mut u32,
        take: &mut dyn FnMut(DateTime) -> bool,
    ) -> Result<bool, TooLong> {
        let unit = match self.frequency {
            Frequency::Hourly => 3_600,
            Frequency::Minutely => 60,
            Frequency::Secondly => 1,
            _ => return self.within(day, None, None, steps, take),
        };
        let second_of_day = seconds_of(first);
        let base = second_of_day - second_of_day % unit;
        let passed = (day.number - Day::of(first.date()).number) * 86_400 - base;
        let interval = self.interval * unit;
        let periods = passed.max(0) + interval - 1;
        let mut at = periods / interval * interval - passed;
        while at < 86_400 {
            step(steps)?;
            let (hour, minute, second) = (at / 3_600, at / 60 % 60, at % 60);
            let is_in = |list: &[i16], value: i64| {
                list.is_empty() || list.iter().any(|wanted| i64::from(*wanted) == value)
            };
            let fits = is_in(&self.hours, hour)
                && (unit > 60 || is_in(&self.minutes, minute))
                && (unit > 1 || is_in(&self.seconds, second));
            if fits {
                let minute = (unit <= 60).then_some(minute);
                let second = (unit == 1).then_some(second);
                let more = match self.positions.is_empty() {
                    true => self.within(day, Some((hour, minute)), second, steps, take)?,
                    false => {
                        let mut starts = Vec::new();
                        self.within(day, Some((hour, minute)), second, steps, &mut |start| {
                            starts.push(start);
                            true
                        })?;
                        self.at_positions(&starts).into_iter().all(&mut *take)
                    }
                };
                if !more {
                    return Ok(false);
                }
            }
            at += interval;
        }
        Ok(true)
    }

    /// The starts that the lists of hours, minutes and seconds give, except settled ones.
    fn within(
        &self,
        day: &Day,
        settled: Option<(i64, Option<i64>)>,
        second: Option<i64>,
        steps: &mut u32,
        take: &mut dyn FnMut(DateTime) -> bool,
    ) -> Result<bool, TooLong> {
        let narrow = |value: i64| i16::try_from(value).unwrap_or(0);
        let hour = settled.map(|(hour, _)| [narrow(hour)]);
        let minute = settled
            .and_then(|(_, minute)| minute)
            .map(|minute| [narrow(minute)]);
        let second = second.map(|second| [narrow(second)]);
        let hours = hour.as_ref().map_or(self.hours.as_slice(), |hour| hour);
        let minutes = minute
            .as_ref()
            .map_or(self.minutes.as_slice(), |minute| minute);
        let seconds = second
            .as_ref()
            .map_or(self.seconds.as_slice(), |second| second);
        let date = day.date();
        for hour in hours {
            for minute in minutes {
                for second in seconds {
                    step(steps)?;
                    let small = |value: i16| i8::try_from(value).unwrap_or(0);
                    let time = Time::new(small(*hour), small(*minute), small(*second), 0);
                    let start = date.to_datetime(time.unwrap_or_default());
                    if !take(start) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}

fn step(steps: &mut u32) -> Result<(), TooLong> {
    *steps += 1;
    match *steps > RULE_STEPS_MAX {
        true => Err(TooLong),
        false => Ok(()),
    }
}

fn seconds_of(local: DateTime) -> i64 {
    i64::from(local.hour()) * 3_600 + i64::from(local.minute()) * 60 + i64::from(local.second())
}

fn frequency(name: &str) -> Option<Frequency> {
    Some(match name {
        "YEARLY" => Frequency::Yearly,
        "MONTHLY" => Frequency::Monthly,
        "WEEKLY" => Frequency::Weekly,
        "DAILY" => Frequency::Daily,
        "HOURLY" => Frequency::Hourly,
        "MINUTELY" => Frequency::Minutely,
        "SECONDLY" => Frequency::Secondly,
        _ => return None,
    })
}

/// Numbers between two bounds, sorted and once each. Zero only where counting begins with it.
fn numbers(text: &str, low: i16, high: i16) -> Option<Vec<i16>> {
    let mut list = Vec::new();
    for item in text.split(',') {
        let number: i16 = item.trim().parse().ok()?;
        let is_fit = (low..=high).contains(&number) && (number != 0 || low == 0);
        if !is_fit || list.len() == VALUES_MAX {
            return None;
        }
        list.push(number);
    }
    list.sort_unstable();
    list.dedup();
    Some(list)
}

/// `MO`, `-1SU`, `2TU`.
fn weekdays(text: &str) -> Option<Vec<(i16, i64)>> {
    let mut list = Vec::new();
    for item in text.split(',').map(str::trim) {
        let (number, day) = item.split_at_checked(item.len().checked_sub(2)?)?;
        let number = match number {
            "" => 0,
            number => {
                let number: i16 = number.parse().ok()?;
                let is_fit = number != 0 && (-53..=53).contains(&number);
                is_fit.then_some(number)?
            }
        };
        if list.len() == VALUES_MAX {
            return None;
        }
        let day: Weekday = weekday_named(day)?;
        list.push((number, i64::from(day.to_monday_zero_offset())));
    }
    Some(list)
}

fn year_days(year: i16) -> i16 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if is_leap { 366 } else { 365 }
}

/// A day with the properties that rules test, so that the next day costs an addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Day {
    /// Days since 1970-01-01.
    number: i64,
    year: i16,
    month: i16,
    day: i16,
    /// The day of the week, from Monday 0.
    weekday: i64,
    year_day: i16,
    month_days: i16,
    year_days: i16,
}

impl Day {
    fn of(date: Date) -> Self {
        let passed = date.duration_since(Date::constant(1970, 1, 1));
        Self {
            number: passed.as_hours() / 24,
            year: date.year(),
            month: i16::from(date.month()),
            day: i16::from(date.day()),
            weekday: i64::from(date.weekday().to_monday_zero_offset()),
            year_day: date.day_of_year(),
            month_days: i16::from(date.days_in_month()),
            year_days: year_days(date.year()),
        }
    }

    fn numbered(number: i64) -> Self {
        let epoch = Date::constant(1970, 1, 1);
        let date = number.days();
        Self::of(epoch.checked_add(date).unwrap_or(Date::MAX))
    }

    fn date(&self) -> Date {
        let small = |value: i16| i8::try_from(value).unwrap_or(1);
        Date::new(self.year, small(self.month), small(self.day)).unwrap_or(Date::MAX)
    }

    fn next(&self) -> Self {
        match self.day < self.month_days {
            true => Self {
                number: self.number + 1,
                day: self.day + 1,
                weekday: (self.weekday + 1) % 7,
                year_day: self.year_day + 1,
                ..*self
            },
            false => self.next_month(),
        }
    }

    fn next_month(&self) -> Self {
        let (year, month) = match self.month {
            12 => (self.year + 1, 1),
            month => (self.year, month + 1),
        };
        let date = i8::try_from(month).ok();
        let date = date.and_then(|month| Date::new(year, month, 1).ok());
        Self::of(date.unwrap_or(Date::MAX))
    }
}
