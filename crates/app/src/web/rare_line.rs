//! A line of the log that strangers can cause as often as they like, and that is therefore written once a second at most. Knows
//! no line.

use std::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds between two lines.
const PAUSE_MS: u64 = 1_000;

/// When the last one was written, and how many were left out since.
pub(crate) struct RareLine {
    last_unix_ms: AtomicU64,
    left_out: AtomicU64,
}

impl RareLine {
    pub(crate) const fn new() -> Self {
        Self {
            last_unix_ms: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
        }
    }

    /// How many were left out, where one is to be written now.
    pub(crate) fn due(&self) -> Option<u64> {
        self.due_at(crate::clock::now_unix_ms())
    }

    fn due_at(&self, now_unix_ms: u64) -> Option<u64> {
        let next = |last: u64| (now_unix_ms.abs_diff(last) >= PAUSE_MS).then_some(now_unix_ms);
        let (taken, seen) = (Ordering::AcqRel, Ordering::Acquire);
        match self.last_unix_ms.fetch_update(taken, seen, next) {
            Ok(_) => Some(self.left_out.swap(0, taken)),
            Err(_) => {
                self.left_out.fetch_add(1, taken);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_once_a_second_and_says_how_many_were_not() {
        let line = RareLine::new();
        for (now, due) in [
            (5_000, Some(0)),
            (5_001, None),
            (5_999, None),
            (6_000, Some(2)),
            (6_001, None),
            // The clock was set back.
            (1_000, Some(1)),
        ] {
            assert_eq!(line.due_at(now), due, "at {now}");
        }
    }
}
