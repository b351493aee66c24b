//! Patterns as the quick judge knows them. Most tools ask for a row of plain characters, such as `^[a-z][a-z0-9-]*$`, which is
//! followed byte by byte; the others are a regular expression's. A no means that the validator crate has to look.

use regex::Regex;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::OnceLock;

/// How large a pattern may become in memory; larger ones are the validator crate's.
const PATTERN_BYTES_MAX: usize = 64 * 1024;

/// A pattern, compiled when the first text meets it that its row does not know.
#[derive(Debug)]
pub(super) struct Pattern {
    source: Box<str>,
    row: Option<Row>,
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
            row: Row::of(&source),
            source: source.into(),
            compiled: OnceLock::new(),
        })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.row.as_ref().is_some_and(|row| row.surely_fits(text)) || self.compiled_matches(text)
    }

    fn compiled_matches(&self, text: &str) -> bool {
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

/// A pattern for the whole of a text, without groups and alternatives: sets of characters, each so many times.
#[derive(Debug)]
struct Row(Box<[Step]>);

#[derive(Debug)]
struct Step {
    set: Set,
    least: usize,
    most: usize,
}

impl Row {
    /// Of a pattern as it was rewritten above. `None` where it is more than a row, or no pattern at all.
    fn of(source: &str) -> Option<Self> {
        let inner = source.strip_prefix('^')?.strip_suffix('$')?;
        let mut characters = inner.chars().peekable();
        let mut steps = Vec::new();
        while let Some(character) = characters.next() {
            let set = match character {
                '[' => Set::class(&mut characters)?,
                '\\' => Set::of(characters.next()?)?,
                '^' | '$' | '(' | ')' | '|' | '*' | '+' | '?' | '{' | '}' | ']' => return None,
                _ => Set::of(character)?,
            };
            let (least, most) = times(&mut characters)?;
            steps.push(Step { set, least, most });
        }
        Some(Self(steps.into()))
    }

    /// Each step takes as much as it can. Where that leads to the end the pattern matches; elsewhere another way may.
    fn surely_fits(&self, text: &str) -> bool {
        let mut rest = text.as_bytes();
        for Step { set, least, most } in &self.0 {
            let taken = rest
                .iter()
                .take(*most)
                .take_while(|byte| set.has(**byte))
                .count();
            if taken < *least {
                return false;
            }
            rest = &rest[taken..];
        }
        rest.is_empty()
    }
}

/// How often what stands before is to come.
fn times(characters: &mut Peekable<Chars<'_>>) -> Option<(usize, usize)> {
    let times = match characters.peek() {
        Some('*') => (0, usize::MAX),
        Some('+') => (1, usize::MAX),
        Some('?') => (0, 1),
        Some('{') => {
            characters.next();
            let mut inside = String::new();
            while characters.peek().is_some_and(|next| *next != '}') {
                inside.extend(characters.next());
            }
            match inside.split_once(',') {
                None => (inside.parse().ok()?, inside.parse().ok()?),
                Some((least, "")) => (least.parse().ok()?, usize::MAX),
                Some((least, most)) => (least.parse().ok()?, most.parse().ok()?),
            }
        }
        Some(_) | None => return Some((1, 1)),
    };
    characters.next()?;
    (times.0 <= times.1).then_some(times)
}

/// ASCII characters, a bit each.
#[derive(Debug, Default)]
struct Set([u64; 2]);

impl Set {
    fn of(character: char) -> Option<Self> {
        let mut set = Self::default();
        set.add(character, character)?;
        Some(set)
    }

    /// What stands behind an opening bracket, up to the closing one.
    fn class(characters: &mut Peekable<Chars<'_>>) -> Option<Self> {
        let mut set = Self::default();
        if characters.peek() == Some(&'^') {
            return None;
        }
        loop {
            let first = match characters.next()? {
                ']' => return Some(set),
                '\\' => characters.next()?,
                plain => plain,
            };
            let last = match characters.peek() {
                Some('-') => {
                    characters.next();
                    match characters.next()? {
                        ']' => {
                            set.add(first, first)?;
                            set.add('-', '-')?;
                            return Some(set);
                        }
                        '\\' => characters.next()?,
                        plain => plain,
                    }
                }
                Some(_) | None => first,
            };
            set.add(first, last)?;
        }
    }

    fn add(&mut self, first: char, last: char) -> Option<()> {
        let (first, last) = (u8::try_from(first).ok()?, u8::try_from(last).ok()?);
        if first > last || !last.is_ascii() {
            return None;
        }
        for byte in first..=last {
            self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
        Some(())
    }

    fn has(&self, byte: u8) -> bool {
        byte.is_ascii() && self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_fits_what_the_regular_expression_matches_and_nothing_else() {
        let texts = [
            "",
            "a",
            "b",
            "-",
            "a-b",
            "ab",
            "aab",
            "aaa",
            "a9-z",
            "9",
            "A",
            "é",
            "aé",
            "a\n",
            " ",
            "]",
            "^",
            "$",
            "a.b",
            "1.2.3",
            "0123456789",
            "a]",
            "+",
            ",",
            "/",
            "$ref",
        ];
        let (mut rows, mut fits) = (0, 0);
        for source in [
            "^[a-z][a-z0-9-]{0,30}$",
            "^[a-z0-9]+$",
            "^\\d{1,3}\\.\\d+\\.\\d+$",
            "^a*ab$",
            "^a?b?$",
            "^[-a]+$",
            "^[a-]{2,}$",
            "^[\\]\\^]$",
            "^[a\\-b]+$",
            "^\\$ref$",
            "^[+-9]$",
            "^[\\d-z]+$",
            "^a{2}$",
            "^ $",
            "^$",
            "^[^a]$",
            "^(a)$",
            "^a|b$",
            "^a+?$",
            "^a{2$",
            "^[a-z$",
            "^[z-a]$",
            "a",
            "^a\\$",
            "^a{3,2}$",
        ] {
            let Some(pattern) = Pattern::of(source) else {
                continue;
            };
            let Some(row) = &pattern.row else { continue };
            rows += 1;
            for text in texts {
                let fit = row.surely_fits(text);
                assert!(!fit || pattern.compiled_matches(text), "{source} {text:?}");
                fits += usize::from(fit);
            }
        }
        assert!(rows >= 12 && fits >= 20, "{rows} rows, {fits} fits");
    }

    #[test]
    fn what_a_row_cannot_know_is_the_regular_expressions() {
        // Taking as much as it can leads nowhere here.
        let greedy = Pattern::of("^a*ab$").unwrap();
        assert!(!greedy.row.as_ref().unwrap().surely_fits("aab"));
        assert!(greedy.matches("aab"));
        for source in ["a", "^a", "a$", "^(a|b)$", "^[^a]$", "^a\\$"] {
            assert!(Pattern::of(source).unwrap().row.is_none(), "{source}");
        }
    }

    #[test]
    fn a_class_of_digits_ends_no_range() {
        assert!(Pattern::of("^[+-\\d]$").is_none());
    }
}
