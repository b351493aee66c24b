//! The limit of one user's calls of one tool, over all of the user's sessions. Owns the counting; the clock is given.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;
use windlass_contract::id::{ToolId, UserId};
use windlass_contract::kind::RateLimit;
use windlass_session::io::{RateCharge, RateDecision};

/// Charges calls to users.
pub trait RateLimiter: Send + Sync {
    fn charge(
        &self,
        user: &UserId,
        tool: &ToolId,
        limit: RateLimit,
        charge: RateCharge,
        now_unix_ms: u64,
    ) -> RateDecision;
}

/// Users and tools that are counted at one time. When there are more, those without a call in their window are forgotten,
/// and then those whose last call is oldest.
const COUNTED_MAX: usize = 10_000;
/// A window never remembers more calls than this; a limit above it counts as this.
const CALLS_MAX: usize = 10_000;

/// Counts in memory, exactly: the times of the calls of the last window.
#[derive(Debug, Default)]
pub struct MemoryRateLimiter {
    windows: Mutex<HashMap<(UserId, ToolId), Window>>,
}

#[derive(Debug, Default)]
struct Window {
    window_ms: u64,
    calls_unix_ms: VecDeque<u64>,
}

impl Window {
    fn forget_before(&mut self, now_unix_ms: u64) {
        let begin = now_unix_ms.saturating_sub(self.window_ms);
        while self.calls_unix_ms.front().is_some_and(|at| *at <= begin) {
            self.calls_unix_ms.pop_front();
        }
    }
}

impl RateLimiter for MemoryRateLimiter {
    fn charge(
        &self,
        user: &UserId,
        tool: &ToolId,
        limit: RateLimit,
        charge: RateCharge,
        now_unix_ms: u64,
    ) -> RateDecision {
        let mut windows = self
            .windows
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if windows.len() >= COUNTED_MAX {
            make_room(&mut windows, now_unix_ms);
        }
        let window = windows.entry((user.clone(), tool.clone())).or_default();
        window.window_ms = limit.window_ms;
        window.forget_before(now_unix_ms);
        let calls_max = (limit.calls as usize).min(CALLS_MAX);
        let surplus = window.calls_unix_ms.len().checked_sub(calls_max);
        let runs = match charge {
            RateCharge::Charge => surplus.is_none(),
            // The call has begun, whether or not others have used up the limit since it was admitted.
            RateCharge::Note => true,
            RateCharge::Peek => false,
        };
        if runs {
            window.calls_unix_ms.push_back(now_unix_ms);
            if window.calls_unix_ms.len() > CALLS_MAX {
                window.calls_unix_ms.pop_front();
            }
        }
        let Some(surplus) = surplus else {
            return RateDecision::Allowed;
        };
        // At that time the surplus calls have left the window.
        let leaves_last = window.calls_unix_ms.get(surplus).copied();
        let free_at = leaves_last
            .unwrap_or(now_unix_ms)
            .saturating_add(limit.window_ms);
        RateDecision::Refused {
            retry_after: Duration::from_millis(free_at.saturating_sub(now_unix_ms)),
        }
    }
}

fn make_room(windows: &mut HashMap<(UserId, ToolId), Window>, now_unix_ms: u64) {
    windows.retain(|_, window| {
        window.forget_before(now_unix_ms);
        !window.calls_unix_ms.is_empty()
    });
    if windows.len() < COUNTED_MAX {
        return;
    }
    // A tenth is removed at a time, so that many calls share the cost of the search.
    let mut last_calls: Vec<u64> = windows
        .values()
        .filter_map(|window| window.calls_unix_ms.back().copied())
        .collect();
    let (_, newest_forgotten, _) = last_calls.select_nth_unstable(COUNTED_MAX / 10);
    let newest_forgotten = *newest_forgotten;
    windows.retain(|_, window| window.calls_unix_ms.back() > Some(&newest_forgotten));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(limiter: &MemoryRateLimiter, user: &str, now_unix_ms: u64) -> RateDecision {
        let limit = RateLimit {
            calls: 2,
            window_ms: 1_000,
        };
        let tool = ToolId::parse("send_image").unwrap();
        limiter.charge(
            &UserId::new(user),
            &tool,
            limit,
            RateCharge::Charge,
            now_unix_ms,
        )
    }

    #[test]
    fn calls_beyond_the_limit_wait_for_the_oldest_to_leave_the_window() {
        let limiter = MemoryRateLimiter::default();
        for (user, now, expected) in [
            ("ada", 10_000, None),
            ("ada", 10_400, None),
            ("ada", 10_500, Some(500)),
            ("bob", 10_500, None),
            ("ada", 10_999, Some(1)),
            ("ada", 11_000, None),
            ("ada", 11_001, Some(399)),
        ] {
            let decision = match expected {
                None => RateDecision::Allowed,
                Some(millis) => RateDecision::Refused {
                    retry_after: Duration::from_millis(millis),
                },
            };
            assert_eq!(charge(&limiter, user, now), decision, "{user} at {now}");
        }
    }

    #[test]
    fn looking_whether_a_call_may_run_charges_nothing() {
        let limiter = MemoryRateLimiter::default();
        let limit = RateLimit {
            calls: 1,
            window_ms: 1_000,
        };
        let (user, tool) = (UserId::new("ada"), ToolId::parse("pay").unwrap());
        for charge in [RateCharge::Peek, RateCharge::Peek, RateCharge::Charge] {
            let decision = limiter.charge(&user, &tool, limit, charge, 10_000);
            assert_eq!(decision, RateDecision::Allowed);
        }
        let decision = limiter.charge(&user, &tool, limit, RateCharge::Peek, 10_000);
        assert_ne!(decision, RateDecision::Allowed);
    }

    #[test]
    fn a_call_that_has_begun_counts_although_the_limit_is_used_up() {
        let limiter = MemoryRateLimiter::default();
        let limit = RateLimit {
            calls: 1,
            window_ms: 1_000,
        };
        let (user, tool) = (UserId::new("ada"), ToolId::parse("pay").unwrap());
        for now in [10_000, 10_200] {
            limiter.charge(&user, &tool, limit, RateCharge::Note, now);
        }
        let decision = limiter.charge(&user, &tool, limit, RateCharge::Peek, 10_300);
        let retry_after = Duration::from_millis(900);
        assert_eq!(decision, RateDecision::Refused { retry_after });
        let decision = limiter.charge(&user, &tool, limit, RateCharge::Peek, 11_200);
        assert_eq!(decision, RateDecision::Allowed);
    }

    #[test]
    fn the_limiter_forgets_rather_than_grow() {
        let limiter = MemoryRateLimiter::default();
        for number in 0..COUNTED_MAX + 10 {
            charge(&limiter, &format!("user-{number}"), 1_000 + number as u64);
        }
        assert!(limiter.windows.lock().unwrap().len() <= COUNTED_MAX);
    }
}
