//! How much is kept, and for how long.

use crate::party::ConversationShares;
use crate::task::TaskShares;

/// Bounds of a store. Whatever is over one of them is refused, or the oldest make room, as is said of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// How long an effect and a question are kept after their last change.
    pub effect_ms: u64,
    /// How long a task that has ended is kept; not less than other effects. Its conversation stays as long.
    pub task_ms: u64,
    /// Tasks that run at a time; more are refused.
    pub tasks: TaskShares,
    /// Effects of one conversation; more are refused.
    pub effects_max: usize,
    /// Bytes of a receipt; a longer one is not kept.
    pub receipt_bytes_max: usize,
    /// Questions of one conversation that wait for an answer; more are refused.
    pub questions_max: usize,
    /// Standing approvals of one conversation; the oldest make room.
    pub standing_max: usize,
    /// Bytes of a question's arguments, and of its preview; longer ones are refused.
    pub question_bytes_max: usize,
    /// How long a conversation may be idle.
    pub conversation_ms: u64,
    /// Conversations of one party. Beyond them its own empty ones go, and then new ones are refused.
    pub shares: ConversationShares,
    /// Entries of one conversation; the oldest make room.
    pub entries_max: usize,
    /// Bytes of one entry; a longer one is refused.
    pub entry_bytes_max: usize,
    /// Bytes of a leg's state; a longer one is not kept.
    pub leg_bytes_max: usize,
    /// How long after the last lease of an effect a request may still take effect outside: a negative lookup counts only when it
    /// began after that.
    pub landing_ms: u64,
}

const HOUR_MS: u64 = 60 * 60 * 1_000;

impl StoreLimits {
    /// How long an effect is kept that has ended.
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
