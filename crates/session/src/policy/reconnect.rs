//! The life of a provider's connections: when one is given up for the next, with which handle, after how long a pause, and when no other
//! is tried (`docs/policies.md`, "When a connection ends"). Knows no socket and no session; events come with their times.

use crate::limits::Limits;
use crate::model::LostReason;
use crate::time::Timestamp;
use std::time::Duration;
use windlass_contract::sensitive::Sensitive;

/// The time before the announced end of a connection at which the next one is opened, even if the model is working.
const ROTATION_LEAD: Duration = Duration::from_secs(5);
/// The time left of a provider that announces the end without a time. It stays above the lead.
const TIME_LEFT_UNSAID: Duration = Duration::from_secs(10);
/// A connection that lasted so long is a good one: earlier failures are forgotten.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// A handle that a provider refused so often is thrown away.
const HANDLE_REFUSALS_MAX: u32 = 2;
/// Handles are some hundred bytes; a longer one is not kept.
const HANDLE_BYTES_MAX: usize = 16 * 1024;

/// The next step after a lost connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Open another after this pause.
    Retry(Duration),
    /// No other is tried: the session is over.
    GiveUp,
}

/// One connection that is to be opened.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(crate) generation: u64,
    /// Without one, the session begins afresh at the provider.
    pub(crate) handle: Option<Sensitive<String>>,
}

#[derive(Debug)]
struct Handle {
    text: Sensitive<String>,
    /// The number of failed connections that were opened with it, or with an earlier handle of its line.
    refusals: u32,
    /// The number of transcript entries that it covers.
    recorded: u64,
    /// Nothing was said or called since it came.
    is_current: bool,
}

/// The state of one session's connections.
#[derive(Debug)]
pub(crate) struct Reconnect {
    /// The generation of the newest connection that was asked for.
    generation: u64,
    handle: Option<Handle>,
    /// Whether the newest connection was opened with a handle.
    is_resuming: bool,
    /// Some connection was ready once: before that, nothing is tried again.
    has_begun: bool,
    ready_since: Option<Timestamp>,
    /// The model was heard on the newest connection.
    is_heard: bool,
    /// The newest connection brought a whole answer.
    is_proved: bool,
    /// The number of connections that were tried since the last good one.
    attempts: u32,
    /// The provider has announced the end of the newest connection, which is left no earlier than this.
    leaves_from: Option<Timestamp>,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self {
            // The driver opens the first by itself.
            generation: 1,
            handle: None,
            is_resuming: false,
            has_begun: false,
            ready_since: None,
            is_heard: false,
            is_proved: false,
            attempts: 0,
            leaves_from: None,
        }
    }
}

impl Reconnect {
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The number of connections that were tried in vain since the last good one.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Whether the newest connection takes up where an earlier one was left.
    pub(crate) fn is_resuming(&self) -> bool {
        self.is_resuming
    }

    /// The provider has announced the end of the connection, and the next is not open yet.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaves_from.is_some()
    }

    pub(crate) fn ready(&mut self, now: Timestamp) {
        self.has_begun = true;
        self.ready_since = Some(now);
    }

    /// The model produced something: the resumed session is alive, and its newest handle is out of date.
    pub(crate) fn heard(&mut self) {
        self.is_heard = true;
        if let Some(handle) = &mut self.handle {
            handle.refusals = 0;
            handle.is_current = false;
        }
    }

    /// Something was said to the model, so that the newest handle is out of date.
    pub(crate) fn said(&mut self) {
        if let Some(handle) = &mut self.handle {
            handle.is_current = false;
        }
    }

    /// A turn has ended as it should: the connection is a good one.
    pub(crate) fn proved(&mut self) {
        self.is_proved = true;
        self.attempts = 0;
    }

    /// The provider gave a handle, or says that there is none now. Without a new handle the older one stays.
    pub(crate) fn update(
        &mut self,
        handle: Option<Sensitive<String>>,
        is_quiet: bool,
        recorded: u64,
    ) {
        let refusals = self.handle.as_ref().map_or(0, |handle| handle.refusals);
        match handle {
            Some(text) if (1..=HANDLE_BYTES_MAX).contains(&text.expose().len()) => {
                self.handle = Some(Handle {
                    text,
                    refusals,
                    recorded,
                    is_current: is_quiet,
                });
            }
            Some(_) | None => self.said(),
        }
    }

    /// The number of transcript entries that the provider knows without being told.
    pub(crate) fn recorded(&self) -> u64 {
        match &self.handle {
            Some(handle) if self.is_resuming => handle.recorded,
            Some(_) | None => 0,
        }
    }

    /// The provider will end the connection. Returns when the next is opened at latest. A provider that announces the end of each
    /// connection as it begins gets the next one only after the pause that follows a loss.
    pub(crate) fn go_away(
        &mut self,
        now: Timestamp,
        time_left: Option<Duration>,
        limits: &Limits,
    ) -> Timestamp {
        let earliest = match self.leaves_from {
            Some(earliest) => earliest,
            None => self.earliest_leave(now, limits),
        };
        self.leaves_from = Some(earliest);
        let lead = time_left
            .unwrap_or(TIME_LEFT_UNSAID)
            .saturating_sub(ROTATION_LEAD);
        earliest.max(now + lead)
    }

    fn earliest_leave(&self, now: Timestamp, limits: &Limits) -> Timestamp {
        if self.is_good(now) {
            return now;
        }
        let is_good_at = self.ready_since.unwrap_or(now) + STABLE_AFTER;
        let attempt = self.attempts.saturating_add(1);
        if attempt > limits.reconnect_attempts_max {
            // No other connection would be tried: this one is kept until it is a good one, or the provider ends it.
            return is_good_at;
        }
        is_good_at.min(now + pause(attempt, limits))
    }

    /// Whether the newest connection has shown that the next one is worth opening.
    fn is_good(&self, now: Timestamp) -> bool {
        self.is_proved
            || self
                .ready_since
                .is_some_and(|since| is_stable(now.since(since)))
    }

    /// Whether a quiet session may change to the next connection now, without losing anything. After failed connections, only a good one
    /// is left earlier than necessary.
    pub(crate) fn may_rotate(&self, can_resume: bool, now: Timestamp) -> bool {
        let is_current = self.handle.as_ref().is_some_and(|handle| handle.is_current);
        self.is_leaving()
            && (is_current || !can_resume)
            && (self.attempts == 0 || self.is_good(now))
    }

    /// The newest connection is left for the next.
    pub(crate) fn left(&mut self, now: Timestamp) {
        self.attempts = match self.is_good(now) {
            true => 0,
            false => self.attempts.saturating_add(1),
        };
    }

    /// The next connection.
    pub(crate) fn open(&mut self, can_resume: bool) -> Opening {
        self.generation += 1;
        self.leaves_from = None;
        self.is_heard = false;
        self.is_proved = false;
        self.ready_since = None;
        if !can_resume {
            self.handle = None;
        }
        self.is_resuming = self.handle.is_some();
        Opening {
            generation: self.generation,
            handle: self.handle.as_ref().map(|handle| handle.text.clone()),
        }
    }

    /// The newest connection ended, or failed to open.
    pub(crate) fn lost(&mut self, reason: &LostReason, now: Timestamp, limits: &Limits) -> Verdict {
        let lived = self.ready_since.take().map(|since| now.since(since));
        self.leaves_from = None;
        let is_of_key = matches!(reason, LostReason::Unauthorized | LostReason::NoKey);
        // A frame that was damaged on its way says nothing of the setup; a second one does.
        let is_damaged = *reason == LostReason::SetupUnreadable;
        if !self.has_begun && is_damaged && self.attempts == 0 {
            self.attempts = 1;
            return Verdict::Retry(Duration::ZERO);
        }
        if !self.has_begun || is_of_key {
            return Verdict::GiveUp;
        }
        let is_judged = match reason {
            LostReason::Closed { .. }
            | LostReason::Dropped { .. }
            | LostReason::SetupTimeout
            | LostReason::SetupUnreadable => true,
            // Without a connection, the provider has not read the handle.
            LostReason::Network { .. }
            | LostReason::NoWay { .. }
            | LostReason::Unauthorized
            | LostReason::NoKey
            | LostReason::Refused { .. } => lived.is_some(),
        };
        if self.is_resuming && is_judged && !self.is_heard && !lived.is_some_and(is_stable) {
            self.refuse_handle();
        } else if lived.is_none() && !self.is_resuming && is_final(reason) {
            return Verdict::GiveUp;
        }
        if lived.is_some_and(is_stable) {
            self.attempts = 0;
        }
        self.attempts += 1;
        if self.attempts > limits.reconnect_attempts_max {
            return Verdict::GiveUp;
        }
        Verdict::Retry(pause(self.attempts, limits))
    }

    fn refuse_handle(&mut self) {
        if let Some(handle) = &mut self.handle {
            handle.refusals += 1;
            if handle.refusals >= HANDLE_REFUSALS_MAX {
                self.handle = None;
            }
        }
    }
}

fn is_stable(lived: Duration) -> bool {
    lived >= STABLE_AFTER
}

/// Whether the same connection would be refused again: the setup is not understood, or the address is wrong.
fn is_final(reason: &LostReason) -> bool {
    match reason {
        LostReason::Closed { code, .. } => *code == 1007,
        LostReason::Refused { status } => {
            (400..500).contains(status) && !matches!(status, 408 | 429)
        }
        LostReason::NoWay { .. } | LostReason::Unauthorized | LostReason::NoKey => true,
        LostReason::Network { .. }
        | LostReason::Dropped { .. }
        | LostReason::SetupTimeout
        | LostReason::SetupUnreadable => false,
    }
}

/// At once the first time, then doubling.
fn pause(attempt: u32, limits: &Limits) -> Duration {
    let doublings = match attempt {
        0 | 1 => return Duration::ZERO,
        later => (later - 2).min(32),
    };
    let milliseconds = limits.reconnect_pause_ms.saturating_mul(1 << doublings);
    Duration::from_millis(milliseconds.min(limits.reconnect_pause_ms_max))
}

#[cfg(test)]
mod tests;
