//! The duration of the latest item that the model has spoken, so that its unheard part can be cut off. Knows no playback.

use std::time::Duration;

/// PCM16 mono at 24 kHz.
const BYTES_PER_MS: u64 = 48;

#[derive(Debug, Default)]
pub(super) struct Spoken {
    item_id: String,
    bytes: u64,
}

impl Spoken {
    /// Adds received audio. Returns whether it begins another item.
    pub(super) fn add(&mut self, item_id: &str, bytes: usize) -> bool {
        let is_new = self.item_id != item_id || self.bytes == 0;
        if is_new {
            item_id.clone_into(&mut self.item_id);
            self.bytes = 0;
        }
        self.bytes += bytes as u64;
        is_new
    }

    /// The item to be cut and the milliseconds of it that were heard, if not all were. Each item is cut once. The milliseconds
    /// never exceed the received ones, because the service refuses that (<https://github.com/openclaw/openclaw/pull/125502>).
    pub(super) fn cut(&mut self, unplayed: Duration) -> Option<(String, u64)> {
        let unplayed_ms = u64::try_from(unplayed.as_millis()).unwrap_or(u64::MAX);
        if unplayed_ms == 0 || self.bytes == 0 {
            return None;
        }
        let heard_ms = (self.bytes / BYTES_PER_MS).saturating_sub(unplayed_ms);
        self.bytes = 0;
        Some((std::mem::take(&mut self.item_id), heard_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_heard_is_cut_off_once() {
        let mut spoken = Spoken::default();
        assert_eq!(spoken.cut(Duration::from_secs(1)), None, "nothing was said");
        assert!(spoken.add("a", 48_000));
        assert!(!spoken.add("a", 48_000));
        assert_eq!(spoken.cut(Duration::ZERO), None, "all of it was heard");
        let cut = spoken.cut(Duration::from_millis(520));
        assert_eq!(cut, Some(("a".to_owned(), 1_480)));
        assert_eq!(spoken.cut(Duration::from_millis(520)), None);
        assert!(spoken.add("b", 4_800));
        let cut = spoken.cut(Duration::from_secs(9));
        assert_eq!(cut, Some(("b".to_owned(), 0)), "more than the item");
    }
}
