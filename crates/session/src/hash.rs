//! Quick hashing for what one session compares, ids and arguments, and the bound of its tables. The same on every run, so
//! that a replay does what the original did. No signature: if hashes are equal, the caller compares the things themselves.

use lru::LruCache;
use std::hash::Hash;
use std::num::NonZeroUsize;

/// Builds the hashers of a session's own tables, whose order nothing depends on.
pub(crate) type BuildQuickHasher = foldhash::fast::FixedState;

/// From the first entry too many on, each new one takes the place of the oldest in the memory that this one had.
pub(crate) fn bound<K: Hash + Eq, V>(
    entries: &mut LruCache<K, V, BuildQuickHasher>,
    entries_max: usize,
) {
    if entries.len() > entries_max {
        match NonZeroUsize::new(entries_max) {
            Some(entries_max) => entries.resize(entries_max),
            None => entries.clear(),
        }
    }
}
