//! The patterns of one schema: whether each can be used, and how large they become together. Knows no place in a file.

use crate::validate::{self, BadPattern};
use std::collections::BTreeMap;

/// Bytes that all patterns of a schema may take together once they are compiled. Compiling takes about 12 ms for each MiB, and
/// the first call of a tool waits for that, too.
const BYTES_MAX: usize = 20 * 1024 * 1024;

/// Patterns as they are met.
#[derive(Debug)]
pub(super) struct Patterns<'s> {
    /// One that comes again costs nothing.
    judged: BTreeMap<&'s str, Result<(), BadPattern>>,
    bytes_left: usize,
    is_spent: bool,
}

/// Why a pattern cannot be used where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Bad(BadPattern),
    /// With those before it, it takes too much. Those behind it are not looked at.
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
    /// Whether all were looked at, so that compiling them takes a moment only.
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
                // That it is too large was found out by compiling as much of it as may be.
                let is_large = bad == BadPattern::TooLarge;
                self.bytes_left -= if is_large { bytes_max } else { 0 };
                Err(bad)
            }
        };
        self.judged.insert(pattern, judgement);
        judgement.map_err(Refusal::Bad)
    }
}
