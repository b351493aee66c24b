//! Days, hours and durations in English words, counted from the moment in the prompt. Knows no clock and no calendar.

use super::world;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::{Timestamp, ToSpan, Zoned};

/// The most words of a message that are read.
const WORDS_MAX: usize = 600;
/// The duration of an event without a known one.
pub(super) const MINUTES_USUAL: i64 = 60;
/// The longest range that is requested: the calendar's tools take 31 days.
const RANGE_DAYS_MAX: i64 = 31;
/// The longest duration that counts as meant.
const MINUTES_MAX: i64 = 400 * 24 * 60;

/// Whole days: the first one, and the one after the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Days {
    pub(super) from: Date,
    pub(super) to: Date,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Hour {
    time: Time,
    /// Whether it has `pm`, or is written in 24 hours.
    is_certain: bool,
    /// Whether it ends the range that another one began.
    is_end: bool,
}

/// The times in a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Times {
    /// Moments with day and hour.
    instants: Vec<Zoned>,
    days: Vec<Days>,
    hours: Vec<Hour>,
    /// The first hour of a part of the day, and the hour after it.
    part: Option<(i8, i8)>,
    /// The duration of an event.
    pub(super) minutes: Option<i64>,
    /// The shift to a later time; negative for an earlier time.
    pub(super) shift_minutes: Option<i64>,
    /// Whether an unreadable day was given: an hour beside it is not the clock's next one.
    has_unread_day: bool,
}

impl Times {
    /// Without a current moment, only times that are written in full are understood.
    pub(super) fn read(text: &str, now: Option<&Zoned>) -> Self {
        let words = words(text);
        let mut reader = Reader {
            words: &words,
            now,
            times: Self::default(),
            at: 0,
        };
        reader.read();
        let mut times = reader.times;
        times.settle_halves();
        times.settle_days();
        if now.is_none() {
            times.days.clear();
            times.hours.clear();
            times.part = None;
        }
        times
    }

    /// The times, with later words replacing earlier ones.
    pub(super) fn corrected_by(self, later: Self) -> Self {
        fn newer<T>(earlier: Vec<T>, later: Vec<T>) -> Vec<T> {
            if later.is_empty() { earlier } else { later }
        }
        let is_whole = !later.instants.is_empty();
        let is_of_earlier = later.days.is_empty() && !is_whole;
        // A new hour keeps the day of the old one.
        let mut earlier_days = self.days;
        if let Some(instant) = self.instants.first().filter(|_| earlier_days.is_empty())
            && let Ok(to) = instant.date().tomorrow()
        {
            let from = instant.date();
            earlier_days.push(Days { from, to });
        }
        let says_more = !later.days.is_empty() || !later.hours.is_empty() || later.part.is_some();
        let says_hour = !later.hours.is_empty() || later.part.is_some();
        Self {
            instants: match is_whole || !says_more {
                true => newer(self.instants, later.instants),
                false => Vec::new(),
            },
            days: if is_whole {
                later.days
            } else {
                newer(earlier_days, later.days)
            },
            hours: if is_whole {
                later.hours
            } else {
                newer(self.hours, later.hours)
            },
            part: if says_hour { later.part } else { self.part },
            minutes: later.minutes.or(self.minutes),
            shift_minutes: later.shift_minutes.or(self.shift_minutes),
            has_unread_day: later.has_unread_day || self.has_unread_day && is_of_earlier,
        }
    }

    /// Whether a day was given and cannot be read.
    fn misses_day(&self) -> bool {
        self.has_unread_day && self.days.is_empty() && self.instants.is_empty()
    }

    /// Whether there is neither a day nor an hour.
    pub(super) fn is_empty(&self) -> bool {
        self.instants.is_empty()
            && self.days.is_empty()
            && self.hours.is_empty()
            && self.part.is_none()
    }

    pub(super) fn says_day(&self) -> bool {
        !self.days.is_empty() || !self.instants.is_empty()
    }

    pub(super) fn says_hour(&self) -> bool {
        !self.hours.is_empty() || !self.instants.is_empty()
    }

    pub(super) fn first_day(&self) -> Option<Date> {
        let instant = self.instants.first().map(Zoned::date);
        instant.or_else(|| self.days.first().map(|days| days.from))
    }

    fn first_hour(&self) -> Option<Time> {
        let first = self.hours.iter().find(|hour| !hour.is_end);
        first.or(self.hours.first()).map(|hour| hour.time)
    }

    /// The start of an event. An hour without a day is the clock's next one.
    pub(super) fn start(&self, now: Option<&Zoned>) -> Option<Zoned> {
        if let Some(instant) = self.instants.first() {
            return Some(instant.clone());
        }
        if self.misses_day() {
            return None;
        }
        let (now, time) = (now?, self.first_hour()?);
        let day = match self.days.first() {
            Some(days) => days.from,
            None if time > now.time() => now.date(),
            None => now.date().tomorrow().ok()?,
        };
        at(now, day, time)
    }

    /// The end of an event that begins at `start`.
    pub(super) fn end(&self, start: &Zoned) -> Option<Zoned> {
        let instant = self.instants.get(1).filter(|end| *end > start);
        let said = self.hours.iter().find(|hour| hour.is_end);
        let said = said.and_then(|hour| {
            let same_day = at(start, start.date(), hour.time)?;
            if same_day > *start {
                return Some(same_day);
            }
            // Past midnight.
            let next_day = at(start, start.date().tomorrow().ok()?, hour.time)?;
            (next_day <= later(start, 12 * 60)?).then_some(next_day)
        });
        instant
            .cloned()
            .or_else(|| said.filter(|end| end > start))
            .or_else(|| later(start, self.minutes?))
    }

    /// The new start of an event that is moved.
    pub(super) fn moved(&self, start: &Zoned) -> Option<Zoned> {
        if let Some(minutes) = self.shift_minutes {
            return later(start, minutes);
        }
        if let Some(instant) = self.instants.first() {
            return Some(instant.clone());
        }
        if self.misses_day() || self.days.is_empty() && self.hours.is_empty() {
            return None;
        }
        let day = self.days.first().map_or(start.date(), |days| days.from);
        at(start, day, self.first_hour().unwrap_or(start.time()))
    }

    /// The range of time that is meant.
    pub(super) fn range(&self, now: Option<&Zoned>) -> Option<(Zoned, Zoned)> {
        if let Some(start) = self.instants.first() {
            let end = self.end(start).or_else(|| later(start, MINUTES_USUAL))?;
            return Some((start.clone(), end));
        }
        let now = now?;
        if self.misses_day() {
            return None;
        }
        if !self.hours.is_empty() {
            let start = self.start(Some(now))?;
            let end = self.end(&start).or_else(|| later(&start, MINUTES_USUAL))?;
            return Some((start, end));
        }
        let first = self.days.first().copied();
        if let Some((from, to)) = self.part {
            let day = first.map_or(now.date(), |days| days.from);
            let end = at(now, day, hour(to)?)?;
            // If this part of the day is over, tomorrow's is meant.
            let day = match first.is_none() && end <= *now {
                true => day.tomorrow().ok()?,
                false => day,
            };
            return Some((at(now, day, hour(from)?)?, at(now, day, hour(to)?)?));
        }
        let first = first?;
        let last = self.days.iter().map(|days| days.to).max()?;
        let latest = first.from.checked_add(RANGE_DAYS_MAX.days()).ok()?;
        let midnight = |day| at(now, day, Time::midnight());
        Some((midnight(first.from)?, midnight(last.min(latest))?))
    }

    /// Puts hours without `am` or `pm` into the usual half of the day, or into the half that other words give.
    fn settle_halves(&mut self) {
        let is_late = self.part.is_some_and(|(from, _)| from >= 12);
        let is_early = self.part.is_some_and(|(_, to)| to <= 12);
        let certain = self
            .hours
            .iter()
            .rev()
            .find(|hour| hour.is_certain && hour.is_end);
        let end = certain.map(|hour| hour.time);
        let mut hours = self.hours.iter();
        let start = hours.find(|hour| hour.is_certain && !hour.is_end);
        let start = start.map(|hour| hour.time);
        for said in self.hours.iter_mut().filter(|hour| !hour.is_certain) {
            let afternoon = said.time.checked_add(12.hours()).ok();
            let is_usual = (0..8).contains(&said.time.hour());
            let is_after_noon = match end {
                Some(end) => afternoon.is_some_and(|afternoon| afternoon < end),
                // `from 8 pm to 11`
                None if said.is_end && start.is_some_and(|start| said.time <= start) => {
                    afternoon > start
                }
                None => is_late || is_usual && !is_early,
            };
            if let Some(afternoon) = afternoon.filter(|_| is_after_noon && said.time.hour() < 12) {
                said.time = afternoon;
            }
        }
    }
}

impl Times {
    /// `Friday next week`: the day counts, within its range.
    fn settle_days(&mut self) {
        let is_stretch = |days: &Days| days.from.tomorrow().is_ok_and(|next| next < days.to);
        let (stretches, single): (Vec<Days>, Vec<Days>) =
            self.days.iter().copied().partition(is_stretch);
        let ([stretch], [day]) = (stretches.as_slice(), single.as_slice()) else {
            return;
        };
        let is_within = |date: &Date| stretch.from <= *date && *date < stretch.to;
        let mut dates = stretch.from.series(1.days()).take_while(is_within);
        let is_week = stretch
            .from
            .checked_add(7.days())
            .is_ok_and(|end| stretch.to <= end);
        let found = match is_within(&day.from) {
            true => Some(day.from),
            false => dates.find(|date| match is_week {
                true => date.weekday() == day.from.weekday(),
                false => date.day() == day.from.day(),
            }),
        };
        self.days = match found.and_then(|from| Some((from, from.tomorrow().ok()?))) {
            Some((from, to)) => vec![Days { from, to }],
            None => {
                self.has_unread_day = true;
                Vec::new()
            }
        };
    }
}

/// A moment in the zone of another one. For an hour that the clock skips, the hour after it; for an hour that it repeats, the first one.
fn at(zone: &Zoned, day: Date, time: Time) -> Option<Zoned> {
    day.to_datetime(time)
        .to_zoned(zone.time_zone().clone())
        .ok()
}

pub(super) fn later(start: &Zoned, minutes: i64) -> Option<Zoned> {
    let days = minutes / (24 * 60);
    // Days keep their hour when the clock changes.
    let span = days.days().minutes(minutes % (24 * 60));
    start.checked_add(span).ok()
}

/// The range from now on, of so many days.
pub(super) fn days_from(now: &Zoned, days: i64) -> Option<(Zoned, Zoned)> {
    let minute = now
        .time()
        .with()
        .second(0)
        .subsec_nanosecond(0)
        .build()
        .ok()?;
    let start = at(now, now.date(), minute)?;
    let last = now
        .date()
        .checked_add(days.min(RANGE_DAYS_MAX).days())
        .ok()?;
    let end = at(now, last, Time::midnight())?;
    (end > start).then_some((start, end))
}

/// The moment as tools take it: `2026-11-30T14:00:00+01:00`.
pub(super) fn written(moment: &Zoned) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// A moment in a tool's form, in the user's zone if known.
pub(super) fn parsed(text: &str, now: Option<&Zoned>) -> Option<Zoned> {
    let moment: Timestamp = text.parse().ok()?;
    let zone = now.map(|now| now.time_zone().clone());
    let offset = || {
        let sign = text.rfind(['+', '-']).filter(|at| *at > 10)?;
        world::time_zone(&format!("UTC{}", &text[sign..]))
    };
    let zone = zone.or_else(offset).unwrap_or(jiff::tz::TimeZone::UTC);
    Some(moment.to_zoned(zone))
}

/// `Monday 30 November, 14:00 to 15:00`; the second day and the year only where they differ.
pub(super) fn told(start: &str, end: &str, now: Option<&Zoned>) -> String {
    let day = |moment: DateTime| {
        let is_this_year = now.is_none_or(|now| now.year() == moment.year());
        let form = if is_this_year {
            "%A %-d %B"
        } else {
            "%A %-d %B %Y"
        };
        moment.strftime(form).to_string()
    };
    let hour = |moment: DateTime| moment.strftime("%H:%M").to_string();
    let civil = |text: &str| parsed(text, now).map(|moment| moment.datetime());
    match (civil(start), civil(end)) {
        (Some(start), Some(end)) if start.date() == end.date() => {
            format!("{}, {} to {}", day(start), hour(start), hour(end))
        }
        (Some(start), Some(end)) => {
            let (from, to) = (day(start), day(end));
            format!("{from}, {} to {to}, {}", hour(start), hour(end))
        }
        (Some(start), None) => format!("{}, {}", day(start), hour(start)),
        // A whole day has no hour.
        (None, _) => match start.parse::<Date>() {
            Ok(date) => day(date.to_datetime(Time::midnight())),
            Err(_) => start.chars().take(40).collect(),
        },
    }
}

fn hour(number: i8) -> Option<Time> {
    Time::new(number, 0, 0, 0).ok()
}

/// Words in lower case, with digits and units apart: `3pm` is two words, `14:00-15:00` three.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in text.split_whitespace().take(WORDS_MAX) {
        let word = word.to_lowercase().replace(['’', '\''], "");
        let word =
            word.trim_matches(|sign: char| !sign.is_alphanumeric() && sign != '-' && sign != '+');
        let word = match word {
            "a.m" => "am",
            "p.m" => "pm",
            "-" | "–" => "-",
            other => other,
        };
        let begins_with_digit = word.starts_with(|sign: char| sign.is_ascii_digit());
        let is_date = word.len() >= 10 && word.as_bytes().get(4) == Some(&b'-');
        if !begins_with_digit || is_date {
            // `one-hour` and the like.
            words.extend(
                word.split('-')
                    .filter(|part| !part.is_empty() && !is_date)
                    .map(str::to_owned),
            );
            if is_date || word == "-" {
                words.push(word.to_owned());
            }
            continue;
        }
        for (index, part) in word.split(['-', '–']).enumerate() {
            if index > 0 {
                words.push("-".to_owned());
            }
            let end = part
                .find(|sign: char| sign.is_alphabetic())
                .unwrap_or(part.len());
            let (figures, unit) = part.split_at(end);
            let is_ordinal = ["st", "nd", "rd", "th"].contains(&unit);
            match is_ordinal || unit.is_empty() {
                true if part.is_empty() => {}
                true => words.push(part.to_owned()),
                false => words.extend(
                    [figures, unit]
                        .iter()
                        .filter(|part| !part.is_empty())
                        .map(|part| (*part).to_owned()),
                ),
            }
        }
    }
    words
}

/// Reads the words of a message.
struct Reader<'r> {
    words: &'r [String],
    now: Option<&'r Zoned>,
    times: Times,
    at: usize,
}

impl Reader<'_> {
    fn read(&mut self) {
        while self.at < self.words.len() {
            let used = self
                .instant()
                .or_else(|| self.day())
                .or_else(|| self.part_of_day())
                .or_else(|| self.length())
                .or_else(|| self.hour());
            if used.is_none() && self.may_say_day() {
                self.times.has_unread_day = true;
            }
            self.at += used.unwrap_or(1).max(1);
        }
    }

    /// Whether the current unread word looks like a part of a date: `31 February`, `the 5th`, `12/05`, `5.12.`
    fn may_say_day(&self) -> bool {
        let word = self.word(0);
        let is_figure = |word: &str| word.starts_with(|sign: char| sign.is_ascii_digit());
        if world::month(word).is_some() {
            return is_figure(self.before(1)) || is_figure(self.word(1));
        }
        let figures = word.trim_end_matches(|sign: char| sign.is_alphabetic());
        let is_ordinal = ["st", "nd", "rd", "th"].contains(&&word[figures.len()..]);
        let parts: Vec<&str> = word.split(['/', '.']).collect();
        let is_written = parts.len() >= 2
            && parts
                .iter()
                .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
        is_figure(word) && (is_ordinal || is_written || world::month(self.word(1)).is_some())
    }

    /// The word at this distance; empty beyond the end.
    fn word(&self, ahead: usize) -> &str {
        self.words.get(self.at + ahead).map_or("", String::as_str)
    }

    fn before(&self, back: usize) -> &str {
        let index = self.at.checked_sub(back);
        index
            .and_then(|index| self.words.get(index))
            .map_or("", String::as_str)
    }

    fn instant(&mut self) -> Option<usize> {
        let word = self.word(0);
        if !word.starts_with(|sign: char| sign.is_ascii_digit()) || !word.contains('t') {
            return None;
        }
        let text = word.to_uppercase();
        let whole = parsed(&text, self.now);
        let local = || {
            let civil: DateTime = text.parse().ok()?;
            civil.to_zoned(self.now?.time_zone().clone()).ok()
        };
        let instant = whole.or_else(local)?;
        self.times.instants.push(instant);
        Some(1)
    }

    fn one_day(&mut self, date: Date) -> Option<()> {
        let to = date.tomorrow().ok()?;
        self.times.days.push(Days { from: date, to });
        Some(())
    }

    fn day(&mut self) -> Option<usize> {
        let today = self.now?.date();
        let ahead = |days: i64| today.checked_add(days.days()).ok();
        let (word, next) = (self.word(0), self.word(1));
        let (date, used) = match (word, next) {
            ("today", _) => (today, 1),
            ("tonight", _) => {
                self.times.part = Some((18, 23));
                (today, 1)
            }
            ("tomorrow", _) => (ahead(1)?, 1),
            ("yesterday", _) => (ahead(-1)?, 1),
            ("christmas", _) => {
                let this_year = Date::new(today.year(), 12, 25).ok()?;
                let next_year = || Date::new(today.year() + 1, 12, 25).ok();
                (
                    Some(this_year)
                        .filter(|day| *day >= today)
                        .or_else(next_year)?,
                    1,
                )
            }
            ("day", "after") if self.word(2) == "tomorrow" => (ahead(2)?, 3),
            ("this" | "next" | "coming", "week" | "weekend" | "month") => return self.stretch(),
            ("weekend", _) => return self.stretch(),
            _ => {
                let short = match word {
                    "sat" | "sun" => self.is_short_day(),
                    _ => true,
                };
                if let Some(weekday) = weekday(word).filter(|_| short) {
                    let back = self.before(1) == "last";
                    let date = today.nth_weekday(if back { -1 } else { 1 }, weekday).ok()?;
                    (date, 1)
                } else {
                    self.date()?
                }
            }
        };
        self.one_day(date)?;
        Some(used)
    }

    fn is_day_word(&self, ahead: usize) -> bool {
        let word = self.word(ahead);
        ["today", "tomorrow", "now"].contains(&word) || weekday(word).is_some()
    }

    /// `sat` and `sun` are also other words.
    fn is_short_day(&self) -> bool {
        let leads = ["on", "this", "next", "coming", "until", "by"].contains(&self.before(1));
        let next = self.word(1);
        leads || next == "at" || next.starts_with(|sign: char| sign.is_ascii_digit())
    }

    /// `this week`, `next month`, `the weekend`
    fn stretch(&mut self) -> Option<usize> {
        let today = self.now?.date();
        let (word, next) = (self.word(0), self.word(1));
        let (is_bare, unit) = match word {
            "weekend" => (true, word),
            _ => (false, next),
        };
        let is_next = matches!(word, "next" | "coming");
        let monday = today.nth_weekday(1, Weekday::Monday).ok()?;
        let (from, to) = match unit {
            "week" if is_next => (monday, monday.checked_add(7.days()).ok()?),
            "week" => (today, monday),
            "weekend" if is_next => (
                monday.checked_add(5.days()).ok()?,
                monday.checked_add(7.days()).ok()?,
            ),
            "weekend" => (monday.checked_sub(2.days()).ok()?.max(today), monday),
            _ if is_next => {
                let first = today.last_of_month().tomorrow().ok()?;
                (first, first.last_of_month().tomorrow().ok()?)
            }
            _ => (today, today.last_of_month().tomorrow().ok()?),
        };
        self.times.days.push(Days { from, to });
        Some(if is_bare { 1 } else { 2 })
    }

    /// `2026-12-01`, `1 December`, `December 1st, 2026`, `on the 5th`
    fn date(&self) -> Option<(Date, usize)> {
        let today = self.now?.date();
        let word = self.word(0);
        if word.as_bytes().get(4) == Some(&b'-') {
            return Some((word.parse().ok()?, 1));
        }
        let ordinal = |word: &str| -> Option<i8> {
            let figures = word.trim_end_matches(|sign: char| sign.is_alphabetic());
            let is_day = word.len() - figures.len() == 2 || figures.len() == word.len();
            figures
                .parse()
                .ok()
                .filter(|day| is_day && (1..=31).contains(day))
        };
        let year = |word: &str| -> Option<i16> {
            word.parse()
                .ok()
                .filter(|year| (1970..=2200).contains(year))
        };
        let dated = |month: i8, day: i8, said: Option<i16>| -> Option<Date> {
            let date = Date::new(said.unwrap_or(today.year()), month, day).ok()?;
            match said.is_none() && date < today {
                true => Date::new(today.year() + 1, month, day).ok(),
                false => Some(date),
            }
        };
        if let Some(day) = ordinal(word) {
            let of = usize::from(self.word(1) == "of");
            if let Some(month) = world::month(self.word(1 + of)) {
                let year = year(self.word(2 + of));
                return Some((
                    dated(month, day, year)?,
                    2 + of + usize::from(year.is_some()),
                ));
            }
            let is_named = word.ends_with(|sign: char| sign.is_alphabetic());
            if is_named && self.before(1) == "the" && ["on", "to", "for"].contains(&self.before(2))
            {
                let month = if day >= today.day() {
                    today
                } else {
                    today.last_of_month().tomorrow().ok()?
                };
                return Some((Date::new(month.year(), month.month(), day).ok()?, 1));
            }
            return None;
        }
        let month = world::month(word)?;
        let day = ordinal(self.word(1))?;
        let year = year(self.word(2));
        Some((dated(month, day, year)?, 2 + usize::from(year.is_some())))
    }

    fn part_of_day(&mut self) -> Option<usize> {
        let part = match self.word(0) {
            "morning" => (8, 12),
            "afternoon" => (12, 17),
            "evening" => (17, 21),
            "night" => (18, 23),
            "noon" | "midday" => return self.whole_hour(12),
            "midnight" => return self.whole_hour(0),
            _ => return None,
        };
        self.times.part = Some(part);
        Some(1)
    }

    fn whole_hour(&mut self, number: i8) -> Option<usize> {
        let is_end = self.is_end();
        self.times.hours.push(Hour {
            time: hour(number)?,
            is_certain: true,
            is_end,
        });
        Some(1)
    }

    /// `for two hours`, `half an hour`, `30 minutes later`, `in 3 days`, `by a week`
    fn length(&mut self) -> Option<usize> {
        let (amount, used) = match (self.word(0), self.word(1), self.word(2)) {
            ("half", "an" | "a", unit) if unit.starts_with("hour") => (30.0, 3),
            ("a", "quarter", "of") if self.word(3) == "an" => (15.0, 5),
            (word, next, behind) => {
                let count = number(word)?;
                let hyphen = usize::from(next == "-");
                let unit = minutes_of(self.word(1 + hyphen));
                match (unit, next, behind) {
                    (Some(unit), _, "and") if self.word(3) == "a" && self.word(4) == "half" => {
                        ((count + 0.5) * unit, 5)
                    }
                    (Some(unit), _, _) => (count * unit, 2 + hyphen),
                    (None, "and", "a") if self.word(3) == "half" => {
                        ((count + 0.5) * minutes_of(self.word(4))?, 5)
                    }
                    (None, _, _) => return None,
                }
            }
        };
        if !(0.0..=MINUTES_MAX as f64).contains(&amount) {
            return Some(used);
        }
        let minutes = amount.round() as i64;
        match (self.before(1), self.word(used)) {
            // `for two hours after 3 pm`
            ("for", "after") => {
                self.times.minutes = Some(minutes);
                Some(used)
            }
            (_, "later" | "after" | "back") | ("by", _) => {
                let earlier = self
                    .words
                    .iter()
                    .any(|word| ["earlier", "forward", "sooner"].contains(&word.as_str()));
                self.times.shift_minutes = Some(if earlier { -minutes } else { minutes });
                Some(used + usize::from(self.before(1) != "by"))
            }
            (_, "earlier" | "before" | "sooner") => {
                self.times.shift_minutes = Some(-minutes);
                Some(used + 1)
            }
            ("in", _) => {
                let now = self.now?;
                let moment = later(now, minutes)?;
                match minutes % (24 * 60) {
                    // `Monday in two weeks`
                    0 if !self.times.days.is_empty() => {
                        self.times.days.clear();
                        self.times.has_unread_day = true;
                    }
                    0 => self.one_day(moment.date())?,
                    _ => self.times.instants.push(moment),
                }
                Some(used)
            }
            (_, "ago") if minutes >= 24 * 60 => Some(used + 1),
            // `two weeks from tomorrow`: what follows is no day of its own.
            (_, "from") if minutes >= 24 * 60 && self.is_day_word(used + 1) => {
                self.times.has_unread_day = true;
                Some(self.words.len() - self.at)
            }
            // `once a week`
            (before, _) if minutes >= 24 * 60 && !["for", "lasting", "takes"].contains(&before) => {
                Some(used)
            }
            _ => {
                self.times.minutes = Some(minutes);
                Some(used)
            }
        }
    }

    /// Whether the current hour ends the range that the previous one began.
    fn is_end(&self) -> bool {
        let joins = ["to", "until", "till", "-"].contains(&self.before(1));
        let between =
            self.before(1) == "and" && self.words[..self.at].iter().any(|word| word == "between");
        !self.times.hours.is_empty() && (joins || between)
    }

    fn hour(&mut self) -> Option<usize> {
        let word = self.word(0);
        if let ("half" | "quarter", "past" | "to") = (word, self.word(1)) {
            return self.hour_by_parts();
        }
        let (hours, minutes, has_minutes) = match word.split_once(':') {
            Some((hours, rest)) => {
                let minutes = rest.split(':').next()?;
                (hours.parse().ok()?, minutes.parse().ok()?, true)
            }
            None => (whole(number(word)?)?, 0, false),
        };
        let (mut hours, minutes): (i8, i8) = (hours, minutes);
        let mut used = 1;
        if self.word(used) == "oclock" {
            used += 1;
        }
        let half = self.word(used);
        let is_half = ["am", "pm"].contains(&half);
        let is_certain = is_half || hours > 12 || hours == 0 || word.starts_with('0');
        if is_half && (1..=12).contains(&hours) {
            hours = hours % 12 + if half == "pm" { 12 } else { 0 };
            used += 1;
        }
        let is_end = self.is_end();
        if used == 1 && !has_minutes && !self.is_bare_hour(is_end) {
            return None;
        }
        let time = Time::new(hours, minutes, 0, 0).ok()?;
        self.times.hours.push(Hour {
            time,
            is_certain,
            is_end,
        });
        Some(used)
    }

    /// Whether a number alone is an hour: after some words, and only if it counts nothing.
    fn is_bare_hour(&self, is_end: bool) -> bool {
        const BEHIND: [&str; 24] = [
            "", "-", "to", "until", "till", "and", "on", "for", "with", "today", "tomorrow",
            "instead", "please", "then", "this", "next", "in", "sharp", "if", "or", "works",
            "would", "is", "at",
        ];
        let before = self.before(1);
        let is_led = [
            "at", "to", "until", "till", "from", "between", "around", "@", "it", "say",
        ]
        .contains(&before);
        let behind = self.word(1);
        let is_followed = BEHIND.contains(&behind) || weekday(behind).is_some();
        // `2-4 pm` and `2 to 4 pm`: the second number shows that both are hours.
        let opens = ["-", "to"].contains(&behind) && ["am", "pm", "oclock"].contains(&self.word(3));
        (is_led || is_end || opens) && is_followed
    }

    /// `half past three`, `quarter to four`
    fn hour_by_parts(&mut self) -> Option<usize> {
        let (part, side) = (self.word(0), self.word(1));
        let hours: i8 = whole(number(self.word(2))?)?;
        let minutes = match (part, side) {
            ("half", "past") => 30,
            ("quarter", "past") => 15,
            ("quarter", "to") => -15,
            _ => return None,
        };
        let half = self.word(3);
        let is_certain = ["am", "pm"].contains(&half);
        let hours = match half {
            "pm" => hours % 12 + 12,
            _ => hours,
        };
        let is_end = self.is_end();
        let time = hour(hours)?
            .checked_add(i64::from(minutes).minutes())
            .ok()?;
        self.times.hours.push(Hour {
            time,
            is_certain,
            is_end,
        });
        Some(3 + usize::from(is_certain))
    }
}

fn whole(number: f64) -> Option<i8> {
    (number.fract() == 0.0 && (0.0..=24.0).contains(&number)).then_some(number as i8)
}

fn weekday(word: &str) -> Option<Weekday> {
    Some(match word {
        "monday" | "mon" | "mondays" => Weekday::Monday,
        "tuesday" | "tue" | "tues" | "tuesdays" => Weekday::Tuesday,
        "wednesday" | "wed" | "wednesdays" => Weekday::Wednesday,
        "thursday" | "thu" | "thurs" | "thursdays" => Weekday::Thursday,
        "friday" | "fri" | "fridays" => Weekday::Friday,
        "saturday" | "saturdays" | "sat" => Weekday::Saturday,
        "sunday" | "sundays" | "sun" => Weekday::Sunday,
        _ => return None,
    })
}

/// A number in digits or in words.
pub(super) fn number(word: &str) -> Option<f64> {
    let value = match word {
        "a" | "an" | "one" => 1,
        "two" => 2,
        "three" => 3,
        "four" => 4,
        "five" => 5,
        "six" => 6,
        "seven" => 7,
        "eight" => 8,
        "nine" => 9,
        "ten" => 10,
        "eleven" => 11,
        "twelve" => 12,
        "fifteen" => 15,
        "twenty" => 20,
        "thirty" => 30,
        "forty" => 40,
        "sixty" => 60,
        "ninety" => 90,
        _ => {
            let is_figures = word.starts_with(|sign: char| sign.is_ascii_digit());
            let number: f64 = word.parse().ok()?;
            return (is_figures && number.is_finite()).then_some(number);
        }
    };
    Some(f64::from(value))
}

fn minutes_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "minute" | "minutes" | "min" | "mins" => 1.0,
        "hour" | "hours" | "hr" | "hrs" | "h" => 60.0,
        "day" | "days" => 24.0 * 60.0,
        "week" | "weeks" => 7.0 * 24.0 * 60.0,
        _ => return None,
    })
}

/// Whether a word is only about time and not about a subject.
pub(super) fn is_of_time(word: &str) -> bool {
    const WORDS: [&str; 24] = [
        "today",
        "tonight",
        "tomorrow",
        "yesterday",
        "morning",
        "afternoon",
        "evening",
        "night",
        "noon",
        "midnight",
        "am",
        "pm",
        "oclock",
        "later",
        "earlier",
        "sooner",
        "next",
        "this",
        "week",
        "weekend",
        "month",
        "half",
        "quarter",
        "past",
    ];
    WORDS.contains(&word)
        || weekday(word).is_some()
        || minutes_of(word).is_some()
        || (word != "may" && word != "mar" && world::month(word).is_some())
        || number(word).is_some()
        || word.starts_with(|sign: char| sign.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Saturday.
    fn now() -> Zoned {
        "2026-11-28T12:30:00+01:00[Europe/Oslo]".parse().unwrap()
    }

    fn start(text: &str) -> String {
        let start = Times::read(text, Some(&now())).start(Some(&now()));
        start.map_or_else(|| "none".to_owned(), |start| written(&start))
    }

    #[test]
    fn a_day_and_an_hour_are_read_as_people_say_them() {
        for (text, expected) in [
            ("tomorrow at 3 pm", "2026-11-29T15:00:00+01:00"),
            ("tomorrow at 3pm", "2026-11-29T15:00:00+01:00"),
            ("Tomorrow, at 3 p.m., please", "2026-11-29T15:00:00+01:00"),
            ("at 3", "2026-11-28T15:00:00+01:00"),
            ("at 10", "2026-11-29T10:00:00+01:00"),
            ("2026-12-01 10:00", "2026-12-01T10:00:00+01:00"),
            ("2026-12-01T10:00", "2026-12-01T10:00:00+01:00"),
            ("2026-12-01T10:00:00Z", "2026-12-01T11:00:00+01:00"),
            ("2027-07-01 10:00", "2027-07-01T10:00:00+02:00"),
            ("on Monday at half past nine", "2026-11-30T09:30:00+01:00"),
            (
                "next Friday at quarter to four",
                "2026-12-04T15:45:00+01:00",
            ),
            ("1 December 14:15", "2026-12-01T14:15:00+01:00"),
            ("on December 1st at noon", "2026-12-01T12:00:00+01:00"),
            ("5 January at 9 am", "2027-01-05T09:00:00+01:00"),
            ("on the 5th at 9:30", "2026-12-05T09:30:00+01:00"),
            ("two o'clock works", "2026-11-28T14:00:00+01:00"),
            ("in 2 hours", "2026-11-28T14:30:00+01:00"),
            (
                "the day after tomorrow at 08:00",
                "2026-11-30T08:00:00+01:00",
            ),
            ("Monday morning at 9", "2026-11-30T09:00:00+01:00"),
            ("this evening at 8", "2026-11-28T20:00:00+01:00"),
            ("tomorrow", "none"),
            ("with 3 people", "none"),
            ("room 101", "none"),
            // The user is asked for an unreadable day.
            ("31 February at 9", "none"),
            ("book the 5th at 9", "none"),
            ("12/05 at 9", "none"),
            ("on 5.12. at 9", "none"),
            ("two weeks from tomorrow at 9", "none"),
            (
                "I wrote 2 days ago, tomorrow at 12",
                "2026-11-29T12:00:00+01:00",
            ),
            ("Sat at 9", "2026-12-05T09:00:00+01:00"),
            ("next week on Friday at 10", "2026-12-04T10:00:00+01:00"),
            ("Tuesday next week at 10", "2026-12-01T10:00:00+01:00"),
            ("next month on the 5th at 9", "2026-12-05T09:00:00+01:00"),
            ("at quarter to one", "2026-11-28T12:45:00+01:00"),
            ("", "none"),
        ] {
            assert_eq!(start(text), expected, "{text}");
        }
    }

    #[test]
    fn a_stretch_of_time_has_both_its_ends() {
        for (text, from, to) in [
            (
                "tomorrow",
                "2026-11-29T00:00:00+01:00",
                "2026-11-30T00:00:00+01:00",
            ),
            (
                "tomorrow afternoon",
                "2026-11-29T12:00:00+01:00",
                "2026-11-29T17:00:00+01:00",
            ),
            (
                "this morning",
                "2026-11-29T08:00:00+01:00",
                "2026-11-29T12:00:00+01:00",
            ),
            (
                "next week",
                "2026-11-30T00:00:00+01:00",
                "2026-12-07T00:00:00+01:00",
            ),
            (
                "this week",
                "2026-11-28T00:00:00+01:00",
                "2026-11-30T00:00:00+01:00",
            ),
            (
                "from Monday to Wednesday",
                "2026-11-30T00:00:00+01:00",
                "2026-12-03T00:00:00+01:00",
            ),
            (
                "from 2 to 4 pm",
                "2026-11-28T14:00:00+01:00",
                "2026-11-28T16:00:00+01:00",
            ),
            (
                "2-4 pm",
                "2026-11-28T14:00:00+01:00",
                "2026-11-28T16:00:00+01:00",
            ),
            (
                "tomorrow between 10 and 12",
                "2026-11-29T10:00:00+01:00",
                "2026-11-29T12:00:00+01:00",
            ),
            (
                "14:00-15:30 on Monday",
                "2026-11-30T14:00:00+01:00",
                "2026-11-30T15:30:00+01:00",
            ),
            (
                "tomorrow at 3 pm for two hours",
                "2026-11-29T15:00:00+01:00",
                "2026-11-29T17:00:00+01:00",
            ),
            (
                "tomorrow at 3 pm for an hour and a half",
                "2026-11-29T15:00:00+01:00",
                "2026-11-29T16:30:00+01:00",
            ),
            (
                "tomorrow from 8 pm to 11",
                "2026-11-29T20:00:00+01:00",
                "2026-11-29T23:00:00+01:00",
            ),
            (
                "tomorrow from 10 pm to 2 am",
                "2026-11-29T22:00:00+01:00",
                "2026-11-30T02:00:00+01:00",
            ),
            (
                "the call we have once a week, tomorrow at 3 pm",
                "2026-11-29T15:00:00+01:00",
                "2026-11-29T16:00:00+01:00",
            ),
            (
                "next weekend",
                "2026-12-05T00:00:00+01:00",
                "2026-12-07T00:00:00+01:00",
            ),
            (
                "next month",
                "2026-12-01T00:00:00+01:00",
                "2027-01-01T00:00:00+01:00",
            ),
        ] {
            let range = Times::read(text, Some(&now())).range(Some(&now()));
            let (start, end) = range.unwrap_or_else(|| panic!("{text} has a range"));
            assert_eq!(
                (written(&start).as_str(), written(&end).as_str()),
                (from, to),
                "{text}"
            );
        }
    }

    #[test]
    fn a_change_is_reckoned_from_what_there_is() {
        let event: Zoned = "2026-11-30T14:00:00+01:00[Europe/Oslo]".parse().unwrap();
        for (text, expected) in [
            ("an hour later", "2026-11-30T15:00:00+01:00"),
            ("30 minutes earlier", "2026-11-30T13:30:00+01:00"),
            ("by a week", "2026-12-07T14:00:00+01:00"),
            ("Tuesday", "2026-12-01T14:00:00+01:00"),
            ("4 pm", "2026-11-30T16:00:00+01:00"),
            ("Tuesday at 4 pm", "2026-12-01T16:00:00+01:00"),
        ] {
            let moved = Times::read(text, Some(&now())).moved(&event);
            assert_eq!(
                moved.as_ref().map(written).as_deref(),
                Some(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn a_correction_changes_what_it_names() {
        let read = |text| Times::read(text, Some(&now()));
        let times = read("tomorrow at 3 pm for 30 minutes").corrected_by(read("no, at 4 pm"));
        let start = times.start(Some(&now())).unwrap();
        assert_eq!(written(&start), "2026-11-29T16:00:00+01:00");
        assert_eq!(
            written(&times.end(&start).unwrap()),
            "2026-11-29T16:30:00+01:00"
        );
        // A new hour keeps the day.
        let times = read("2026-12-01T10:00").corrected_by(read("no, at 4 pm"));
        let start = times.start(Some(&now())).unwrap();
        assert_eq!(written(&start), "2026-12-01T16:00:00+01:00");
    }

    #[test]
    fn without_a_clock_only_whole_times_are_understood() {
        let times = Times::read("tomorrow at 3 pm or 2026-12-01T10:00:00+01:00", None);
        assert_eq!(
            times.start(None).as_ref().map(written).as_deref(),
            Some("2026-12-01T10:00:00+01:00")
        );
        assert!(Times::read("tomorrow at 3 pm", None).is_empty());
    }
}
