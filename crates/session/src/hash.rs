//! Quick hashing for the ids and arguments that one session compares, and the bound of its tables. The hashes are the same on every run,
//! so that a replay does what the original did. They are no signature: if hashes are equal, the caller compares the things themselves.

use lru::LruCache;
use std::hash::Hash;
use std::num::NonZeroUsize;

/// Builds the hashers of a session's own tables, whose order nothing depends on.
pub(crate) type BuildQuickHasher = foldhash::fast::FixedState;

/// Bounds a table. Once it is full, each new entry takes the place and the memory of the oldest.
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
