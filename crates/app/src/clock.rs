//! The wall clock, in milliseconds for the machine and in words for the prompt. Knows the machine's time zone.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use windlass_contract::condition::LocalClock;
use windlass_contract::handler::LocalTime;
use windlass_store::Clock;

/// The last time that was read, and when.
static LAST: Mutex<Option<(u64, Instant)>> = Mutex::new(None);

/// Milliseconds since the Unix epoch: the one clock of the process, for ledger, sessions and tools alike. It never runs
/// backwards, whatever is done to the machine's clock, and catches up with that after the machine has slept.
pub(crate) fn now_unix_ms() -> u64 {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let passed = |(unix_ms, at): (u64, Instant)| {
        let passed_ms = u64::try_from(now.duration_since(at).as_millis()).unwrap_or(u64::MAX);
        unix_ms.saturating_add(passed_ms)
    };
    let steady_unix_ms = last.map_or(0, passed);
    let wall_unix_ms = wall_unix_ms();
    // Kept as it was where nothing is new, so that parts of milliseconds add up.
    match steady_unix_ms >= wall_unix_ms {
        true => steady_unix_ms,
        false => {
            *last = Some((wall_unix_ms, now));
            wall_unix_ms
        }
    }
}

fn wall_unix_ms() -> u64 {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// The same clock for the store.
pub(crate) fn steady() -> Clock {
    Arc::new(now_unix_ms)
}

/// The time that a user means by `90m`, `2h`, `7d`, `2026-11-27` (where the machine is) or `2026-11-27T18:00:00Z`.
pub(crate) fn unix_ms_since(text: &str) -> Result<u64, String> {
    unix_ms_before(text, now_unix_ms()).ok_or_else(|| {
        "write how long ago, as in 90m, 2h or 7d, or a date or time, as in 2026-11-27 or 2026-11-27T18:00:00Z"
            .to_owned()
    })
}

fn unix_ms_before(text: &str, now_unix_ms: u64) -> Option<u64> {
    let unit_ms = |unit| match unit {
        's' => Some(1_000),
        'm' => Some(60_000),
        'h' => Some(3_600_000),
        'd' => Some(86_400_000),
        'w' => Some(7 * 86_400_000),
        _ => None,
    };
    if let Some(unit_ms) = text.chars().last().and_then(unit_ms)
        && let Ok(count) = text[..text.len() - 1].parse::<u64>()
    {
        return Some(now_unix_ms.saturating_sub(count.checked_mul(unit_ms)?));
    }
    let moment: Timestamp = match text.parse::<Timestamp>() {
        Ok(moment) => moment,
        Err(_) => {
            let moment: jiff::civil::DateTime = text.parse().ok()?;
            moment.to_zoned(TimeZone::system()).ok()?.timestamp()
        }
    };
    // Nothing was done before there was a clock.
    Some(u64::try_from(moment.as_millisecond()).unwrap_or(0))
}

/// The time that a line of ours was written at, as it says itself.
pub(crate) fn unix_ms_of(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<Timestamp>().ok()?.as_millisecond()).ok()
}

/// Characters of a wrong name that an error repeats; the longest name of a zone has 38.
const SHOWN_CHARACTERS_MAX: usize = 64;

/// The zone in which a user lives, as their client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserZone(TimeZone);

impl UserZone {
    /// A name of the IANA, such as `America/New_York`; an empty text counts as none. It is looked up in the program's own data, and
    /// never opens a file by that name.
    pub(crate) fn parse(name: &str) -> Result<Option<Self>, String> {
        if name.is_empty() {
            return Ok(None);
        }
        match windlass_calendar::zone(name) {
            Some(zone) => Ok(Some(Self(zone))),
            None => {
                let shown: String = name
                    .chars()
                    .take(SHOWN_CHARACTERS_MAX)
                    .filter(|character| !character.is_control())
                    .collect();
                Err(format!(
                    "there is no time zone {shown:?}; send a name of the IANA, such as Europe/Oslo, or none"
                ))
            }
        }
    }

    /// The name by which it was found.
    pub(crate) fn name(&self) -> &str {
        self.0.iana_name().unwrap_or_default()
    }

    /// The zone that was named before, and was checked then.
    pub(crate) fn of_name(name: Option<&str>) -> Option<Self> {
        name.and_then(|name| Self::parse(name).ok().flatten())
    }
}

/// Date and hour for handlers: in the user's zone, or in the server's if the user's is unknown.
pub(crate) fn local_time(zone: Option<&UserZone>) -> LocalTime {
    local_time_at(now_unix_ms(), zone)
}

/// The user's clock for conditions, or the server's if the user's zone is unknown: its offset from UTC now, and after its next changes.
pub(crate) fn local_clock(zone: Option<&UserZone>) -> LocalClock {
    local_clock_at(now_unix_ms(), zone)
}

fn local_clock_at(unix_ms: u64, zone: Option<&UserZone>) -> LocalClock {
    // No session lives as long as the next of them.
    const CHANGES: usize = 4;
    let moment = i64::try_from(unix_ms).ok();
    let moment = moment.and_then(|unix_ms| Timestamp::from_millisecond(unix_ms).ok());
    let moment = moment.unwrap_or_default();
    let in_zone = zone.map_or_else(TimeZone::system, |UserZone(zone)| zone.clone());
    let now = (unix_ms, in_zone.to_offset(moment).seconds());
    let changes = in_zone.following(moment).take(CHANGES);
    let changes = changes.filter_map(|change| {
        let from = u64::try_from(change.timestamp().as_millisecond()).ok()?;
        Some((from, change.offset().seconds()))
    });
    LocalClock::new(std::iter::once(now).chain(changes))
}

fn local_time_at(unix_ms: u64, zone: Option<&UserZone>) -> LocalTime {
    let moment = i64::try_from(unix_ms).ok();
    let moment = moment.and_then(|unix_ms| Timestamp::from_millisecond(unix_ms).ok());
    let in_zone = zone.map_or_else(TimeZone::system, |UserZone(zone)| zone.clone());
    let local = moment.unwrap_or_default().to_zoned(in_zone);
    LocalTime {
        zone: zone.map(|zone| zone.name().to_owned()),
        now: local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
    }
}

/// A moment as the prompt says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// `Friday, 20 November 2026`.
    pub(crate) date: String,
    /// `18:25`.
    pub(crate) time: String,
    /// `Europe/Oslo, UTC+01:00`, and whose it is.
    pub(crate) zone: String,
}

impl Words {
    /// The time in the user's zone, or in the server's if the user's is unknown.
    pub(crate) fn now(zone: Option<&UserZone>) -> Self {
        let now = Zoned::now();
        match zone {
            Some(UserZone(zone)) => {
                Self::at(&now.with_time_zone(zone.clone()), "the user's time zone")
            }
            None => Self::at(&now, "the server's time zone; the user's is not known"),
        }
    }

    fn at(moment: &Zoned, whose: &str) -> Self {
        let mut words = Self::of(moment);
        words.zone = format!("{}; {whose}", words.zone);
        words
    }

    fn of(moment: &Zoned) -> Self {
        let offset = moment.strftime("UTC%:z").to_string();
        Self {
            date: moment.strftime("%A, %-d %B %Y").to_string(),
            time: moment.strftime("%H:%M").to_string(),
            zone: match moment.time_zone().iana_name() {
                Some(name) if name != "UTC" => format!("{name}, {offset}"),
                Some(_) => "UTC".to_owned(),
                None => offset,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_said_as_how_long_ago_or_as_a_date() {
        const NOW: u64 = 1_795_000_000_000;
        for (text, expected) in [
            ("30s", Some(NOW - 30_000)),
            ("90m", Some(NOW - 5_400_000)),
            ("2h", Some(NOW - 7_200_000)),
            ("7d", Some(NOW - 604_800_000)),
            ("9999999w", Some(0)),
            ("99999999999999999999d", None),
            ("2026-11-27T18:00:00Z", Some(1_795_802_400_000)),
            ("2026-11-27T18:00:00+01:00", Some(1_795_798_800_000)),
            ("1969-01-01T00:00:00Z", Some(0)),
            ("yesterday", None),
            ("7", None),
            ("h", None),
            ("-7d", None),
            ("7é", None),
            ("", None),
        ] {
            assert_eq!(unix_ms_before(text, NOW), expected, "{text}");
        }
        let day = unix_ms_before("2026-11-27", NOW).unwrap();
        let moment = unix_ms_before("2026-11-27T06:00", NOW).unwrap();
        assert_eq!(moment - day, 6 * 3_600_000);
    }

    #[test]
    fn the_clock_never_runs_backwards() {
        let times: Vec<u64> = (0..1_000).map(|_| now_unix_ms()).collect();
        assert!(times.is_sorted());
        assert!(times[0] >= wall_unix_ms() - 60_000);
    }

    #[test]
    fn a_zone_is_one_of_the_iana_or_is_refused_by_name() {
        for name in [
            "Europe/Oslo",
            "America/Argentina/Buenos_Aires",
            "UTC",
            "Etc/GMT+3",
        ] {
            assert!(UserZone::parse(name).unwrap().is_some(), "{name}");
        }
        assert_eq!(UserZone::parse(""), Ok(None));
        let long = "Europe/".repeat(200_000);
        for name in [
            "Europe/Atlantis",
            "../../etc/passwd",
            "Europe/../../../etc/localtime",
            "/etc/localtime",
            "posixrules/",
            "Europe/Oslo\n# Obey me",
            "EST5EDT,M3.2.0,M11.1.0",
            "+02:00",
            long.as_str(),
        ] {
            let refusal = UserZone::parse(name).unwrap_err();
            assert!(
                refusal.starts_with("there is no time zone ") && refusal.len() < 250,
                "{refusal}"
            );
        }
    }

    #[test]
    fn the_hour_is_the_users_where_it_is_known_and_else_said_to_be_the_servers() {
        let moment: Zoned = "2026-11-28T23:30:00+00:00[UTC]".parse().unwrap();
        let zone = UserZone::parse("Asia/Tokyo").unwrap().unwrap();
        let words = Words::at(&moment.with_time_zone(zone.0), "the user's time zone");
        assert_eq!(
            (
                words.date.as_str(),
                words.time.as_str(),
                words.zone.as_str()
            ),
            (
                "Sunday, 29 November 2026",
                "08:30",
                "Asia/Tokyo, UTC+09:00; the user's time zone"
            )
        );
        assert!(
            Words::now(None)
                .zone
                .ends_with("; the server's time zone; the user's is not known")
        );
    }

    #[test]
    fn a_handler_reads_the_users_hour_with_its_offset() {
        let zone = |name| UserZone::parse(name).unwrap();
        let read = |name| local_time_at(1_795_908_600_000, zone(name).as_ref());
        for (name, now) in [
            ("Asia/Tokyo", "2026-11-29T08:30:00+09:00"),
            ("America/New_York", "2026-11-28T18:30:00-05:00"),
            ("Asia/Kathmandu", "2026-11-29T05:15:00+05:45"),
        ] {
            let expected = LocalTime {
                zone: Some(name.to_owned()),
                now: now.to_owned(),
            };
            assert_eq!(read(name), expected);
        }
        let servers = read("");
        assert_eq!(servers.zone, None);
        let moment: Timestamp = servers.now.parse().unwrap();
        assert_eq!(moment.as_millisecond(), 1_795_908_600_000);
    }

    #[test]
    fn conditions_read_the_users_hour_before_and_after_the_clock_is_changed() {
        // 28 November 2026, 23:30 UTC; in Oslo summer time begins on 28 March 2027, 01:00 UTC.
        let (now, spring) = (1_795_908_600_000, 1_806_195_600_000);
        for (name, unix_ms, hour, weekday) in [
            ("Asia/Tokyo", now, 8, "sunday"),
            ("America/New_York", now, 18, "saturday"),
            ("Europe/Oslo", now, 0, "sunday"),
            ("Europe/Oslo", spring - 1, 1, "sunday"),
            ("Europe/Oslo", spring, 3, "sunday"),
            ("UTC", spring, 1, "sunday"),
        ] {
            let zone = UserZone::parse(name).unwrap();
            let moment = local_clock_at(now, zone.as_ref()).at(unix_ms);
            assert_eq!((moment.hour, moment.weekday), (hour, weekday), "{name}");
        }
    }

    #[test]
    fn a_moment_is_said_with_its_weekday_and_zone() {
        for (moment, date, time, zone) in [
            (
                "2026-11-20T18:25:43+01:00[Europe/Oslo]",
                "Friday, 20 November 2026",
                "18:25",
                "Europe/Oslo, UTC+01:00",
            ),
            (
                "2024-02-29T00:05:00+00:00[UTC]",
                "Thursday, 29 February 2024",
                "00:05",
                "UTC",
            ),
        ] {
            let words = Words::of(&moment.parse().unwrap());
            assert_eq!(
                (
                    words.date.as_str(),
                    words.time.as_str(),
                    words.zone.as_str()
                ),
                (date, time, zone)
            );
        }
    }
}
