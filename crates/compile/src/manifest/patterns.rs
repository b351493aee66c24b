//! The patterns of one schema: whether each can be used, and how large they become together. Knows no place in a file.

use std::collections::BTreeMap;
use windlass_contract::validate::{self, BadPattern};

/// The most bytes of all patterns of a schema after compilation. Compiling takes about 12 ms for each MiB, and the first call of a tool
/// waits for it, too.
const BYTES_MAX: usize = 20 * 1024 * 1024;

/// The judged patterns of a schema.
#[derive(Debug)]
pub(super) struct Patterns<'s> {
    /// A repeated pattern costs nothing.
    judged: BTreeMap<&'s str, Result<(), BadPattern>>,
    bytes_left: usize,
    is_spent: bool,
}

/// The reason why a pattern is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Bad(BadPattern),
    /// The pattern and the earlier ones together are too large. Later patterns are not judged.
    TooMany {
        bytes_max: usize,
    },
}

impl Default for Patterns<'_> {
    fn default() -> Self {
        Self {
            judged: BTreeMap::new(),
            bytes_left: BYTES_MAX,
            is_spent: false,
        }
    }
}

impl<'s> Patterns<'s> {
    /// Whether all patterns were judged, so that compiling them takes only a moment.
    pub(super) fn are_known(&self) -> bool {
        !self.is_spent
    }

    pub(super) fn judge(&mut self, pattern: &'s str) -> Result<(), Refusal> {
        if let Some(judgement) = self.judged.get(pattern) {
            return judgement.map_err(Refusal::Bad);
        }
        if self.is_spent {
            return Ok(());
        }
        let bytes_max = self.bytes_left.min(validate::PATTERN_BYTES_MAX);
        let judgement = match validate::pattern_bytes(pattern, bytes_max) {
            Ok(bytes) => {
                self.bytes_left -= bytes;
                Ok(())
            }
            Err(BadPattern::TooLarge) if bytes_max < validate::PATTERN_BYTES_MAX => {
                self.is_spent = true;
                return Err(Refusal::TooMany {
                    bytes_max: BYTES_MAX,
                });
            }
            Err(bad) => {
                // A too large pattern was compiled up to the limit, so it costs the whole limit.
                let is_large = bad == BadPattern::TooLarge;
                self.bytes_left -= if is_large { bytes_max } else { 0 };
                Err(bad)
            }
        };
        self.judged.insert(pattern, judgement);
        judgement.map_err(Refusal::Bad)
    }
}
