//! The moods of a world's store. Knows no store.

/// The present behaviour of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StoreMood {
    #[default]
    Up,
    Slow,
    Down,
    Full,
    /// It does what it is asked, and its acknowledgement is lost.
    Forgetful,
    /// It does what it is asked, and its acknowledgement comes when no one waits any more.
    Late,
}
