//! How much is kept, and for how long.

use crate::party::ConversationShares;
use crate::task::TaskShares;

/// Bounds of a store. Each says whether it refuses more, or the oldest make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Milliseconds that an effect and an approval request are kept after their last change.
    pub effect_ms: u64,
    /// Milliseconds that an ended task is kept; not less than other effects. Its conversation stays as long.
    pub task_ms: u64,
    /// Tasks that run at a time; more are refused.
    pub tasks: TaskShares,
    /// Effects of one conversation; more are refused.
    pub effects_max: usize,
    /// Bytes of a receipt; a longer one is not kept.
    pub receipt_bytes_max: usize,
    /// Approval requests of one conversation that wait for an answer; more are refused.
    pub questions_max: usize,
    /// Standing approvals of one conversation; the oldest make room.
    pub standing_max: usize,
    /// Bytes of an approval request's arguments, and of its preview; longer ones are refused.
    pub question_bytes_max: usize,
    /// Milliseconds that a conversation may be idle.
    pub conversation_ms: u64,
    /// Conversations of one party. Beyond them its own empty ones are deleted, and then new ones are refused.
    pub shares: ConversationShares,
    /// Entries of one conversation; the oldest make room.
    pub entries_max: usize,
    /// Bytes of one entry; a longer one is refused.
    pub entry_bytes_max: usize,
    /// Bytes of a leg's state; a longer one is not kept.
    pub leg_bytes_max: usize,
    /// Milliseconds after the last lease of an effect in which a request may still take effect outside: a negative lookup counts only if
    /// it began after that.
    pub landing_ms: u64,
}

const HOUR_MS: u64 = 60 * 60 * 1_000;

impl StoreLimits {
    /// Milliseconds that an ended effect is kept.
    pub(crate) fn kept_ms(&self, is_task: bool) -> u64 {
        match is_task {
            true => self.task_ms.max(self.effect_ms),
            false => self.effect_ms,
        }
    }
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            effect_ms: 24 * HOUR_MS,
            task_ms: 7 * 24 * HOUR_MS,
            tasks: TaskShares::default(),
            effects_max: 1_000,
            receipt_bytes_max: 256 * 1024,
            questions_max: 20,
            standing_max: 16,
            question_bytes_max: 64 * 1024,
            conversation_ms: 24 * HOUR_MS,
            shares: ConversationShares::default(),
            entries_max: 2_000,
            entry_bytes_max: 256 * 1024,
            leg_bytes_max: 1024 * 1024,
            landing_ms: 60_000,
        }
    }
}
