//! The words of names, and the ones that a misheard or misspelt word may stand for. Knows titles and aliases, not the records' texts.

use crate::analysis::{self, TextUse, Word};
use crate::catalogue::Ordinal;
use crate::hash::sha256;
use crate::near;
use crate::sound;
use std::collections::BTreeMap;
use tantivy::tokenizer::TextAnalyzer;
use unicode_normalization::UnicodeNormalization;

/// The fewest letters of a word for which one slip, or two slips, are forgiven.
const ONE_SLIP_LETTERS_MIN: usize = 5;
const TWO_SLIPS_LETTERS_MIN: usize = 9;
/// The fewest letters of a word that may be matched by its sound alone.
const SOUND_LETTERS_MIN: usize = 4;
/// The fewest digits of a sound's key; too many words share a shorter key.
const SOUND_DIGITS_MIN: usize = 2;
/// The most names that one word may stand for.
const CANDIDATES_MAX: usize = 4;
/// The most words of names that are kept; a base with more has no misheard names among the rest.
const WORDS_MAX: usize = 200_000;

/// The most unknown words of a question that are looked up among names.
const LOOKUPS_MAX: usize = 32;
/// The most words of names that one question reads: each lookup reads all of them up to three times, for a word alone and with either
/// neighbour.
const NAMES_READ_MAX: usize = 6_000_000;

/// The certainty that a word stands for a name's word, by the kind of likeness.
const ONE_SLIP: f32 = 0.9;
const TWO_SLIPS: f32 = 0.75;
const SAME_SOUND: f32 = 0.7;
/// The loss of a sound's certainty for each different letter.
const LETTER_OFF: f32 = 0.04;

/// Every word that occurs in a title or an alias.
pub(crate) struct Names {
    /// In the order of their spelling.
    words: Vec<NameWord>,
    /// Places in `words`.
    by_sound: BTreeMap<String, Vec<u32>>,
    /// The records with a name, sorted by the keys of their names.
    whole: Vec<(WholeName, Ordinal)>,
}

/// The key of a name: the beginning of the SHA-256 over its terms. There are as many names as records, and their spelling is never
/// needed.
type WholeName = [u8; 16];

/// The key of a name by its terms; `None` without terms.
fn whole_name<'a>(terms: impl Iterator<Item = &'a str>) -> Option<WholeName> {
    let terms: Vec<&[u8]> = terms.map(str::as_bytes).collect();
    let hash = sha256(&terms);
    hash.first_chunk().copied().filter(|_| !terms.is_empty())
}

/// The key of a name as it is written, for names with the same words as others or without any word: `C#`, `It`.
fn written_name(name: &str) -> Option<WholeName> {
    // No term has a space at its beginning.
    const WRITTEN: &str = " ";
    let name: String = name.nfkc().collect::<String>().to_lowercase();
    let mut words = name.split_whitespace().peekable();
    words.peek()?;
    whole_name(std::iter::once(WRITTEN).chain(words))
}

struct NameWord {
    /// Without case and diacritics.
    plain: Box<str>,
    /// The word in the index.
    term: Box<str>,
    /// The word in the record's spelling.
    spelling: Box<str>,
    letters: u32,
    /// The number of its letters.
    length: u32,
}

/// A name's word that another word may stand for, with its certainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate<'a> {
    pub(crate) term: &'a str,
    pub(crate) spelling: &'a str,
    /// 0 to 1.
    pub(crate) certainty: f32,
}

impl Names {
    /// Reads the title and the aliases of each record, in the order of their ordinals.
    pub(crate) fn of<'a>(
        records: impl Iterator<Item = (&'a String, &'a [String])>,
        analyser: &mut TextAnalyzer,
    ) -> Self {
        let mut spellings: BTreeMap<Box<str>, (Box<str>, Box<str>)> = BTreeMap::new();
        let mut plain = analysis::remembering(analysis::plain(), TextUse::Asked);
        let mut whole: Vec<(WholeName, Ordinal)> = Vec::new();
        for (ordinal, (title, aliases)) in (0..).zip(records) {
            for name in std::iter::once(title).chain(aliases) {
                let mut words = analysis::words(name, &mut plain, analyser);
                words.retain(|word| !word.is_part);
                let key = whole_name(words.iter().map(|word| word.term.as_str()));
                let keys = [key, written_name(name)].into_iter().flatten();
                whole.extend(keys.map(|key| (key, ordinal)));
                for word in words {
                    if spellings.len() < WORDS_MAX && word.plain.chars().any(char::is_alphabetic) {
                        let spelling = Box::from(&name[word.start..word.end]);
                        spellings
                            .entry(word.plain.into())
                            .or_insert_with(|| (word.term.into(), spelling));
                    }
                }
            }
        }
        let words: Vec<NameWord> = spellings
            .into_iter()
            .map(|(plain, (term, spelling))| NameWord {
                letters: letters(&plain),
                length: u32::try_from(plain.chars().count()).unwrap_or(u32::MAX),
                plain,
                term,
                spelling,
            })
            .collect();
        let mut by_sound: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (place, word) in (0..).zip(&words) {
            let key = sound::key(&word.plain);
            if key.len() >= SOUND_DIGITS_MIN {
                by_sound.entry(key).or_default().push(place);
            }
        }
        whole.sort_unstable();
        whole.dedup();
        whole.shrink_to_fit();
        Self {
            words,
            by_sound,
            whole,
        }
    }

    /// The records whose title or alias is exactly the question: first as it is written, then by its terms in their order. The second
    /// list counts if none of the first may be found.
    pub(crate) fn bearers(&self, asked: &str, terms: &[String]) -> [Vec<Ordinal>; 2] {
        let by_terms = whole_name(terms.iter().map(String::as_str));
        [written_name(asked), by_terms].map(|key| {
            let bearers = self.bearers_of(key).iter();
            bearers.map(|(_, bearer)| *bearer).collect()
        })
    }

    fn bearers_of(&self, key: Option<WholeName>) -> &[(WholeName, Ordinal)] {
        let Some(key) = key else { return &[] };
        let start = self.whole.partition_point(|(other, _)| *other < key);
        let count = self.whole[start..].partition_point(|(other, _)| *other == key);
        &self.whole[start..start + count]
    }

    /// The name's word with exactly that spelling, ignoring case and diacritics.
    pub(crate) fn exact(&self, plain: &str) -> Option<Candidate<'_>> {
        let place = self
            .words
            .binary_search_by(|word| (*word.plain).cmp(plain))
            .ok()?;
        Some(self.words[place].candidate(1.0))
    }

    /// The number of words of one question that may be looked up: smaller where there are very many names.
    pub(crate) fn lookups(&self) -> usize {
        lookups_among(self.words.len())
    }

    /// The names' words that a word may stand for, the surest first.
    pub(crate) fn near(&self, plain: &str) -> Vec<Candidate<'_>> {
        let count = plain.chars().count();
        let slips = match count {
            TWO_SLIPS_LETTERS_MIN.. => 2,
            ONE_SLIP_LETTERS_MIN.. => 1,
            _ => 0,
        };
        let mut found: Vec<Candidate<'_>> = Vec::new();
        if slips > 0 {
            let mask = letters(plain);
            let length = u32::try_from(count).unwrap_or(u32::MAX);
            for word in &self.words {
                // A slip changes at most two letters of the set, and the length by one.
                if word.length.abs_diff(length) as usize <= slips
                    && (word.letters ^ mask).count_ones() as usize <= 2 * slips
                    && let Some(distance) = near::distance(plain, &word.plain, slips)
                {
                    let certainty = if distance > 1 { TWO_SLIPS } else { ONE_SLIP };
                    found.push(word.candidate(certainty));
                }
            }
        }
        if count >= SOUND_LETTERS_MIN {
            self.sounding_like(plain, &mut found);
        }
        found.sort_by(|left, right| right.certainty.total_cmp(&left.certainty));
        found.truncate(CANDIDATES_MAX);
        found
    }

    fn sounding_like<'a>(&'a self, plain: &str, found: &mut Vec<Candidate<'a>>) {
        let key = sound::key(plain);
        // Half of the letters may differ: about as many are vowels.
        let distance_max = plain.chars().count() / 2;
        for place in self.by_sound.get(&key).into_iter().flatten() {
            let word = &self.words[*place as usize];
            if found.iter().any(|candidate| candidate.term == &*word.term) {
                continue;
            }
            if let Some(distance) = near::distance(plain, &word.plain, distance_max) {
                found.push(word.candidate(SAME_SOUND - LETTER_OFF * distance as f32));
            }
        }
    }

    /// The two words of a word whose space was left out.
    pub(crate) fn run_together(&self, plain: &str) -> Option<[Candidate<'_>; 2]> {
        const PART_BYTES_MIN: usize = 3;
        (PART_BYTES_MIN..plain.len().saturating_sub(PART_BYTES_MIN - 1))
            .filter(|place| plain.is_char_boundary(*place))
            .find_map(|place| {
                let (left, right) = plain.split_at(place);
                Some([self.exact(left)?, self.exact(right)?])
            })
    }

    /// The name's word of two neighbours that a wrong space divides.
    pub(crate) fn torn_apart(&self, left: &Word, right: &Word) -> Option<Candidate<'_>> {
        let whole = format!("{}{}", left.plain, right.plain);
        let surest = self
            .exact(&whole)
            .or_else(|| self.near(&whole).first().copied())?;
        // A part that is as similar to the name by itself is the better explanation.
        let longest = surest.term.len().max(1);
        (whole.len().abs_diff(longest) <= 4).then_some(surest)
    }
}

impl NameWord {
    fn candidate(&self, certainty: f32) -> Candidate<'_> {
        Candidate {
            term: &self.term,
            spelling: &self.spelling,
            certainty,
        }
    }
}

fn lookups_among(words: usize) -> usize {
    let each = 3 * words.max(1);
    (NAMES_READ_MAX / each).clamp(1, LOOKUPS_MAX)
}

/// The letters of a word, as a set of bits. Letters of a large alphabet share bits; a slip never changes more bits because of it.
fn letters(word: &str) -> u32 {
    word.chars()
        .filter(|letter| letter.is_alphabetic())
        .fold(0, |set, letter| set | 1 << (u32::from(letter) % u32::BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_every_script_tell_by_their_letters_that_they_are_far_apart() {
        for (left, right, is_near) in [
            ("nansen", "nansne", true),
            ("нансен", "нанссен", true),
            ("нансен", "эйнштейн", false),
            ("αμουνδσεν", "σκοττ", false),
            ("アムンセン", "スコット", false),
        ] {
            let differing = (letters(left) ^ letters(right)).count_ones();
            assert_eq!(differing <= 2, is_near, "{left} {right}: {differing}");
        }
    }

    #[test]
    fn fewer_words_of_a_question_are_looked_up_among_very_many_names() {
        assert_eq!([0, 1, 50_000].map(lookups_among), [LOOKUPS_MAX; 3]);
        for words in [100_000, WORDS_MAX, NAMES_READ_MAX] {
            let lookups = lookups_among(words);
            assert!((1..LOOKUPS_MAX).contains(&lookups), "{words}: {lookups}");
            assert!(lookups == 1 || 3 * lookups * words <= NAMES_READ_MAX);
        }
    }
}
