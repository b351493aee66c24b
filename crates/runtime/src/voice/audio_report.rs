//! What a session's audio has come to, as those who watch it hear of it: at once where something was dropped, and the rest at
//! its end, so that nobody is told of every frame. Owns what they have been told.

use crate::pump::AudioCounts;

#[derive(Default)]
pub(super) struct AudioReport {
    told: AudioCounts,
}

impl AudioReport {
    /// What has come since it was last told, if anything of it was dropped.
    pub(super) fn news(&mut self, counts: &AudioCounts) -> Option<AudioCounts> {
        let dropped = |counts: &AudioCounts| {
            (
                counts.microphone_dropped_bytes(),
                counts.speaker_dropped_bytes(),
            )
        };
        (dropped(counts) != dropped(&self.told)).then(|| self.rest(counts))
    }

    /// What has come since it was last told.
    pub(super) fn rest(&mut self, counts: &AudioCounts) -> AudioCounts {
        counts.since(&std::mem::replace(&mut self.told, *counts))
    }
}
