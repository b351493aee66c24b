//! The clock of one process: its machine's, which is wrong by a constant, runs fast or slow, and is set now and then while the process
//! runs. The process follows it forwards only. Knows no store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds since the Unix epoch at which every world begins: 2026-11-20.
pub(crate) const BEGINNING_UNIX_MS: u64 = 1_795_132_800_000;
/// The greatest error of a clock, drift and setting included.
pub(crate) const ERROR_MS_MAX: u64 = 4 * 3_600_000;

const MILLION: i128 = 1_000_000;

#[derive(Clone)]
pub(crate) struct ProcessClock {
    /// Microseconds since the beginning of the world.
    world_us: Arc<AtomicU64>,
    begun_us: u64,
    offset_ms: i64,
    /// Millionths by which it runs fast.
    drift: i64,
    /// The greatest amount by which the machine's clock was set forwards since the process began.
    ahead_ms: Arc<AtomicU64>,
}

impl ProcessClock {
    pub(crate) fn new(world_us: Arc<AtomicU64>, offset_ms: i64, drift: i64) -> Self {
        Self {
            begun_us: world_us.load(Ordering::Relaxed),
            world_us,
            offset_ms,
            drift,
            ahead_ms: Arc::default(),
        }
    }

    /// When its process began.
    pub(crate) fn begun_us(&self) -> u64 {
        self.begun_us
    }

    /// The microseconds that pass by this clock while these pass in the world.
    pub(crate) fn passed_us(&self, world_us: u64) -> u64 {
        let passed = i128::from(world_us) * (MILLION + i128::from(self.drift)) / MILLION;
        u64::try_from(passed).unwrap_or(0)
    }

    /// The microseconds that have passed in the world at most when these have passed by the clock.
    pub(crate) fn world_us(&self, passed_us: u64) -> u64 {
        let of_world = i128::from(passed_us) * MILLION / (MILLION + i128::from(self.drift)) + 1;
        match self.drift {
            0 => passed_us,
            _ => u64::try_from(of_world).unwrap_or(u64::MAX),
        }
    }

    /// The one time of ledger, sessions and handlers.
    pub(crate) fn unix_ms(&self) -> u64 {
        let passed = self.passed_us(self.world_us.load(Ordering::Relaxed) - self.begun_us);
        let begun_unix_ms = BEGINNING_UNIX_MS + self.begun_us / 1_000 + passed / 1_000;
        begun_unix_ms.saturating_add_signed(self.offset_ms) + self.ahead_ms.load(Ordering::Relaxed)
    }

    /// The machine's clock is set, by this much from its time when the process began.
    pub(crate) fn set(&self, by_ms: i64) {
        let ahead_ms = u64::try_from(by_ms).unwrap_or(0);
        self.ahead_ms.fetch_max(ahead_ms, Ordering::Relaxed);
    }
}
