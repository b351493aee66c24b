//! Patterns as the quick judge knows them: those that ECMAScript and our engine read alike. Any other text or
//! pattern is left to the validator crate.

use regex::Regex;
use std::sync::OnceLock;

/// How large a pattern may become in memory; larger ones are the validator crate's.
const PATTERN_BYTES_MAX: usize = 64 * 1024;

/// A pattern, compiled when the first text meets it.
#[derive(Debug)]
pub(super) struct Pattern {
    source: Box<str>,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    /// `None` where ECMAScript's and our engine's reading of a pattern might differ.
    pub(super) fn of(pattern: &str) -> Option<Self> {
        let mut source = String::with_capacity(pattern.len());
        let mut in_class = false;
        let mut characters = pattern.chars().peekable();
        while let Some(character) = characters.next() {
            let next = characters.peek().copied();
            let plain = match character {
                // Behind a hyphen it might be read as the end of a range.
                '\\' if next == Some('d') && !(in_class && source.ends_with('-')) => {
                    characters.next();
                    source.push_str(if in_class { "0-9" } else { "[0-9]" });
                    continue;
                }
                '\\' => {
                    source.push(character);
                    let escaped = characters.next()?;
                    source.push(escaped);
                    if !".-+*?()[]{}|^$/".contains(escaped) {
                        return None;
                    }
                    continue;
                }
                '[' => !std::mem::replace(&mut in_class, true) && next != Some(']'),
                ']' => std::mem::replace(&mut in_class, false) && !source.ends_with("[^"),
                '&' | '~' => !in_class,
                '-' => !in_class || next != Some('-'),
                '.' => in_class,
                '(' => in_class || next != Some('?'),
                _ => character.is_ascii_graphic() || character == ' ',
            };
            if !plain {
                return None;
            }
            source.push(character);
        }
        Some(Self {
            source: source.into(),
            compiled: OnceLock::new(),
        })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.compiled
            .get_or_init(|| {
                regex::RegexBuilder::new(&self.source)
                    .size_limit(PATTERN_BYTES_MAX)
                    .build()
                    .ok()
            })
            .as_ref()
            .is_some_and(|regex| regex.is_match(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_of_digits_ends_no_range() {
        assert!(Pattern::of("^[+-\\d]$").is_none());
    }
}
