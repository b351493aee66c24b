//! What is noted of the names and lists of a JSON text while it is written, so that nobody has to read it again to know
//! what it does not hold. Knows no name.

/// What was seen. It may suspect too much, and never overlooks anything.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Names {
    /// One bit for each member of the outermost object; two names may share one.
    top: u64,
    /// A name begins with `$`, at any depth.
    has_dollar: bool,
    /// A list has no items, at any depth.
    has_empty_list: bool,
}

impl Names {
    /// Of a text that nobody looked into.
    pub(super) const ANY: Self = Self {
        top: u64::MAX,
        has_dollar: true,
        has_empty_list: true,
    };

    /// A member's name, so many lists and objects deep.
    pub(super) fn note(&mut self, name: &[u8], depth: usize) {
        self.has_dollar |= name.first() == Some(&b'$');
        if depth == 1 {
            self.top |= bit(name);
        }
    }

    /// A list that ends.
    pub(super) fn note_list(&mut self, is_empty: bool) {
        self.has_empty_list |= is_empty;
    }

    /// Whether the outermost value may be an object with this member.
    pub(super) fn may_have(self, name: &str) -> bool {
        self.top & bit(name.as_bytes()) != 0
    }

    pub(super) fn may_begin_with_dollar(self) -> bool {
        self.has_dollar
    }

    pub(super) fn may_have_empty_list(self) -> bool {
        self.has_empty_list
    }
}

/// By length and first letter, which tell most names apart.
fn bit(name: &[u8]) -> u64 {
    let first = name.first().copied().unwrap_or_default();
    1 << ((usize::from(first) + 7 * name.len()) % 64)
}
