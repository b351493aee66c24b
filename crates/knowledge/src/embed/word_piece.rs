//! Splits text into the word pieces of BERT models: uncased, without accents, the longest piece first. Knows no weights.

use std::collections::HashMap;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The most characters of a word; a longer one is an unknown piece, as in the original.
const WORD_CHARACTERS_MAX: usize = 100;
/// The prefix of a piece inside a word.
const CONTINUATION: &str = "##";

/// The pieces of one vocabulary.
#[derive(Debug)]
pub(crate) struct WordPieces {
    pieces: HashMap<Box<str>, u32>,
    unknown: u32,
    begin: u32,
    end: u32,
}

impl WordPieces {
    /// Reads a vocabulary of one piece a line. `None` where a special piece is missing.
    pub(crate) fn new(vocabulary: &str) -> Option<Self> {
        let mut pieces = HashMap::new();
        for (number, piece) in (0_u32..).zip(vocabulary.lines()) {
            pieces.insert(Box::from(piece.trim_end()), number);
        }
        Some(Self {
            unknown: *pieces.get("[UNK]")?,
            begin: *pieces.get("[CLS]")?,
            end: *pieces.get("[SEP]")?,
            pieces,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// The pieces of a text between the begin and end marks, at most `count_max` in all.
    pub(crate) fn encode(&self, text: &str, count_max: usize) -> Vec<u32> {
        let mut numbers = vec![self.begin];
        let room = count_max.saturating_sub(1);
        self.split(text, |number| {
            if numbers.len() < room {
                numbers.push(number);
            }
            numbers.len() < room
        });
        numbers.push(self.end);
        numbers
    }

    /// The number of pieces of a text, without the marks.
    pub(crate) fn count(&self, text: &str) -> usize {
        let mut count = 0;
        self.split(text, |_| {
            count += 1;
            true
        });
        count
    }

    /// Calls `take` with each piece of a text until it returns `false`.
    fn split(&self, text: &str, mut take: impl FnMut(u32) -> bool) {
        let mut word = String::new();
        let mut characters = 0;
        for character in text.chars().flat_map(char::to_lowercase).nfd() {
            if is_combining_mark(character) || is_noise(character) {
                continue;
            }
            let stands_alone = is_punctuation(character) || is_ideograph(character);
            if (stands_alone || character.is_whitespace()) && !word.is_empty() {
                if !self.split_word(&word, characters, &mut take) {
                    return;
                }
                word.clear();
                characters = 0;
            }
            if stands_alone {
                let mut buffer = [0; 4];
                if !self.split_word(character.encode_utf8(&mut buffer), 1, &mut take) {
                    return;
                }
            } else if !character.is_whitespace() {
                characters += 1;
                // An overlong word is one unknown piece, however long it is.
                if characters <= WORD_CHARACTERS_MAX {
                    word.push(character);
                }
            }
        }
        if !word.is_empty() {
            self.split_word(&word, characters, &mut take);
        }
    }

    fn split_word(
        &self,
        word: &str,
        characters: usize,
        take: &mut impl FnMut(u32) -> bool,
    ) -> bool {
        if characters > WORD_CHARACTERS_MAX {
            return take(self.unknown);
        }
        let mut found = Vec::new();
        let mut candidate = String::new();
        let mut start = 0;
        while start < word.len() {
            let mut end = word.len();
            let piece = loop {
                if end <= start {
                    // A single unknown part makes the whole word unknown.
                    return take(self.unknown);
                }
                candidate.clear();
                if start > 0 {
                    candidate.push_str(CONTINUATION);
                }
                candidate.push_str(&word[start..end]);
                if let Some(piece) = self.pieces.get(candidate.as_str()) {
                    break *piece;
                }
                end = word[..end]
                    .char_indices()
                    .next_back()
                    .map_or(0, |(place, _)| place);
            };
            found.push(piece);
            start = end;
        }
        found.into_iter().all(take)
    }
}

fn is_noise(character: char) -> bool {
    character == '\u{fffd}' || (character.is_control() && !character.is_whitespace())
}

/// Punctuation as BERT defines it: all punctuation of ASCII, and the Unicode blocks of punctuation alone.
fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation()
        || matches!(character,
            '\u{a1}' | '\u{a7}' | '\u{ab}' | '\u{b6}' | '\u{b7}' | '\u{bb}' | '\u{bf}'
            | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{2043}' | '\u{2045}'..='\u{2051}'
            | '\u{2053}'..='\u{205e}' | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}'
            | '\u{3014}'..='\u{301f}' | '\u{ff01}'..='\u{ff03}' | '\u{ff05}'..='\u{ff0a}'
            | '\u{ff0c}'..='\u{ff0f}' | '\u{ff1a}' | '\u{ff1b}' | '\u{ff1f}' | '\u{ff20}')
}

/// The blocks of ideographs that BERT splits into single characters.
fn is_ideograph(character: char) -> bool {
    matches!(character,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2a6df}' | '\u{2a700}'..='\u{2ceaf}' | '\u{2f800}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, pieces: &[&str]) {
        let vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nfram\n##heim\n##s\n'\ns\nthe\n船\na\n##a";
        let names: Vec<&str> = vocabulary.lines().collect();
        let word_pieces = WordPieces::new(vocabulary).unwrap();
        let found = word_pieces.encode(text, 8);
        let found: Vec<&str> = found.iter().map(|number| names[*number as usize]).collect();
        assert_eq!(found, pieces, "{text:?}");
    }

    #[test]
    fn words_become_the_longest_pieces() {
        check("", &["[CLS]", "[SEP]"]);
        check("Framheim", &["[CLS]", "fram", "##heim", "[SEP]"]);
        check("The FRAM's", &["[CLS]", "the", "fram", "'", "s", "[SEP]"]);
        check(
            "frám\u{301}\u{0} 船船",
            &["[CLS]", "fram", "船", "船", "[SEP]"],
        );
        check("framxs the", &["[CLS]", "[UNK]", "the", "[SEP]"]);
        check("the 🚢", &["[CLS]", "the", "[UNK]", "[SEP]"]);
        check(&"a".repeat(101), &["[CLS]", "[UNK]", "[SEP]"]);
        let whole = ["[CLS]", "a", "##a", "##a", "##a", "##a", "##a", "[SEP]"];
        check(&"a".repeat(100), &whole);
        check(
            &"a ".repeat(5_000),
            &["[CLS]", "a", "a", "a", "a", "a", "a", "[SEP]"],
        );
    }

    #[test]
    fn a_vocabulary_without_marks_is_none() {
        assert!(WordPieces::new("a\nb").is_none());
    }
}
