//! Quick hashing for what one session compares: ids and arguments. The same on every run, so that a replay does what the
//! original did. No signature: whoever finds equal hashes has to compare the things themselves.

/// Builds the hashers of a session's own tables, whose order nothing depends on.
pub(crate) type BuildQuickHasher = foldhash::fast::FixedState;
