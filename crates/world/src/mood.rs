//! The moods of a world's store. Knows no store.

/// How the store behaves at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StoreMood {
    #[default]
    Up,
    Slow,
    Down,
    Full,
    /// It does what it is asked, and its acknowledgement is lost.
    Forgetful,
    /// It does what it is asked, and is heard to have done so when nobody waits any more.
    Late,
}
