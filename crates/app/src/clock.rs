//! The wall clock, in milliseconds for the machine and in words for the prompt. Knows the machine's time zone.

use jiff::Zoned;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
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

/// The same for the store.
pub(crate) fn steady() -> Clock {
    Arc::new(now_unix_ms)
}

/// A moment as the prompt says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// `Friday, 20 November 2026`.
    pub(crate) date: String,
    /// `18:25`.
    pub(crate) time: String,
    /// `Europe/Oslo, UTC+01:00`.
    pub(crate) zone: String,
}

impl Words {
    pub(crate) fn now() -> Self {
        Self::of(&Zoned::now())
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
    fn the_clock_never_runs_backwards() {
        let times: Vec<u64> = (0..1_000).map(|_| now_unix_ms()).collect();
        assert!(times.is_sorted());
        assert!(times[0] >= wall_unix_ms() - 60_000);
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
