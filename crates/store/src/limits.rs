//! How much is kept, and for how long.

/// Bounds of a store. Whatever is over one of them is refused or makes the oldest go, as the method that it concerns says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// How long an effect is kept after it was reserved.
    pub effect_ms: u64,
    /// Effects of one conversation.
    pub effects_max: usize,
    /// Bytes of a recorded response.
    pub response_bytes_max: usize,
    /// Questions of one conversation that wait for an answer.
    pub grants_max: usize,
    /// Bytes of a question's arguments, and of its preview.
    pub grant_bytes_max: usize,
    /// How long a conversation may be idle.
    pub conversation_ms: u64,
    /// Conversations. Those that have been idle for longest go, when what has run out is deleted.
    pub conversations_max: usize,
    /// Entries of one conversation.
    pub entries_max: usize,
    /// Bytes of one entry.
    pub entry_bytes_max: usize,
    /// Bytes of a snapshot.
    pub snapshot_bytes_max: usize,
}

impl StoreLimits {
    /// How long it is kept that a conversation holds what others wrote, after it was read and after the conversation was used: no
    /// less than what was changed in it.
    pub(crate) fn reading_ms(&self) -> u64 {
        self.conversation_ms.max(self.effect_ms)
    }
}

const HOUR_MS: u64 = 60 * 60 * 1_000;

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            effect_ms: 24 * HOUR_MS,
            effects_max: 1_000,
            response_bytes_max: 256 * 1024,
            grants_max: 20,
            grant_bytes_max: 64 * 1024,
            conversation_ms: 24 * HOUR_MS,
            conversations_max: 100_000,
            entries_max: 1_000,
            entry_bytes_max: 256 * 1024,
            snapshot_bytes_max: 1024 * 1024,
        }
    }
}
