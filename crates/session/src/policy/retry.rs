//! Whether a failed attempt is worth another one, and when (`docs/policies.md`, "Retries"). Knows neither clock nor randomness: the
//! jitter comes from the session's id.

use crate::limits::TurnLimits;
use std::time::Duration;
use windlass_contract::error::CallError;
use windlass_contract::id::{CallRef, SessionId};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Tool;

/// 300 ms, doubling to 3 s, a fifth more or less (`docs/policies.md`, "Retries").
const FIRST_DELAY_MS: u64 = 300;
const DELAY_MS_MAX: u64 = 3_000;
const JITTER_PERCENT: u64 = 20;

/// The input of a decision about another attempt.
pub(crate) struct Failed<'a> {
    /// The attempt that failed; its number counts from 1.
    pub(crate) attempt: CallRef,
    pub(crate) tool: &'a Tool,
    pub(crate) error: &'a CallError,
    pub(crate) mode: Mode,
    pub(crate) limits: &'a TurnLimits,
    /// The time until the turn's deadline.
    pub(crate) time_left: Duration,
    /// The jitter comes from its id.
    pub(crate) session: &'a SessionId,
}

/// The wait before the next attempt; `None` if there is to be none.
pub(crate) fn retry_delay(failed: &Failed<'_>) -> Option<Duration> {
    let Failed {
        tool,
        error,
        limits,
        ..
    } = failed;
    let is_repeatable = tool.idempotent || !tool.writes();
    let is_clean = error.partial_side_effects != Some(true);
    if failed.mode != Mode::Text || !error.retryable || !is_repeatable || !is_clean {
        return None;
    }
    let retries = failed.attempt.attempt.saturating_sub(1);
    let retries_max = error
        .max_retries
        .map_or(limits.retries_max, |own| own.min(limits.retries_max));
    if retries >= retries_max {
        return None;
    }
    let doubled = FIRST_DELAY_MS
        .saturating_mul(1 << retries.min(16))
        .min(DELAY_MS_MAX);
    let spread = 2 * JITTER_PERCENT + 1;
    let percent = 100 - JITTER_PERCENT + mixed(seed_of(failed.session), failed.attempt) % spread;
    let jittered = doubled * percent / 100;
    let delay_ms = jittered.max(error.retry_after_ms.unwrap_or(0));
    let delay = Duration::from_millis(delay_ms);
    (delay < failed.time_left).then_some(delay)
}

/// A session's id is minted from randomness, so a number derived from it is as good as a random one (FNV-1a).
fn seed_of(session: &SessionId) -> u64 {
    session
        .as_str()
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        })
}

/// A number that is the same for the same attempt of the same session, and otherwise looks random: the mixing of SplitMix64,
/// <https://prng.di.unimi.it/splitmix64.c>.
fn mixed(seed: u64, attempt: CallRef) -> u64 {
    let position = attempt
        .call
        .0
        .wrapping_mul(31)
        .wrapping_add(u64::from(attempt.attempt));
    let mut mixed = seed.wrapping_add(position.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
