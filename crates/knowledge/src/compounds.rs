//! Compounds: words made of others without a blank, as in German. Finds the words of a base that contain a question's word, and the parts
//! of a question's word. Knows no record.
//!
//! Parts are recognised without a dictionary: the rest of the word has to be a word of the base, or the seam has to be one that only
//! compounds have (`Kündigung-s-frist`), or the language has to be German.

use crate::function_words::german_markers;
use std::collections::HashSet;
use std::sync::LazyLock;
use tantivy::Score;

/// The fewest letters of a possible compound, and of its parts.
const COMPOUND_LETTERS_MIN: usize = 8;
const PART_LETTERS_MIN: usize = 4;
/// The fewest letters of a compound's rest that is no word of the base.
const UNKNOWN_LETTERS_MIN: usize = 4;
/// The fewest letters of a part beside an unknown rest.
const LONE_PART_LETTERS_MIN: usize = 5;
/// The most letters of a compound.
const COMPOUND_LETTERS_MAX: usize = 64;
/// The most compounds of one part that are examined, and that are taken.
const LOOKED_AT_MAX: usize = 256;
pub(crate) const TAKEN_MAX: usize = 8;
/// The letters that may join two parts.
const LINKS: [&str; 8] = ["", "s", "es", "n", "en", "er", "e", "ens"];
/// Endings after which an `s` joins the next part. No word ends in one of them and the `s`.
const ENDINGS_BEFORE_S: [&str; 8] = ["ung", "heit", "keit", "schaft", "ion", "tat", "ling", "tum"];
/// Endings that a word loses as a part of a compound.
const OWN_ENDINGS: [&str; 6] = ["", "en", "e", "n", "er", "s"];
/// The weight of a compound against the part that was asked for, and of a part against its compound: where the rest is a known word, and
/// where only the seam or the language is evidence.
const SURE: Score = 0.6;
const LIKELY: Score = 0.4;
/// The share of records that must have a marker, as one in so many, and the fewest different markers.
const RECORDS_OF_A_MARKER: u64 = 100;
const MARKERS_MIN: usize = 2;

static MARKERS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| german_markers().collect());

/// The words of a base that may be compounds or parts of them.
pub(crate) struct Compounds {
    /// In their order, each once.
    words: Vec<Box<str>>,
    /// Places in `words`, sorted by the words read backwards.
    backwards: Vec<u32>,
    pub(crate) is_german: bool,
}

/// A word related to another one, and its weight.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Related {
    pub(crate) term: String,
    pub(crate) evidence: Evidence,
}

/// The evidence that letters are parts of a compound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Evidence {
    /// The language makes compounds.
    Language,
    /// The rest is a word of the base.
    Rest,
    /// No word ends like the first part.
    Seam,
}

impl Evidence {
    pub(crate) fn weight(self) -> Score {
        match self {
            Self::Seam | Self::Rest => SURE,
            Self::Language => LIKELY,
        }
    }
}

impl Compounds {
    /// Takes a base's terms with their frequencies. A repeated term counts once.
    pub(crate) fn of<'a>(terms: impl Iterator<Item = (&'a str, u64)>, records: u64) -> Self {
        let mut words: Vec<Box<str>> = Vec::new();
        let mut markers = HashSet::new();
        for (term, frequency) in terms {
            let is_word = (PART_LETTERS_MIN..=COMPOUND_LETTERS_MAX).contains(&term.len());
            if frequency > 0 && is_word && is_plain_word(term) {
                words.push(term.into());
            }
            if frequency * RECORDS_OF_A_MARKER >= records.max(1)
                && let Some(marker) = MARKERS.get(term)
            {
                markers.insert(*marker);
            }
        }
        words.sort_unstable();
        words.dedup();
        words.shrink_to_fit();
        let mut backwards: Vec<u32> = (0..).zip(&words).map(|(place, _)| place).collect();
        backwards.sort_unstable_by(|left, right| {
            let reversed = |place: &u32| words[*place as usize].bytes().rev();
            reversed(left).cmp(reversed(right))
        });
        Self {
            words,
            backwards,
            is_german: markers.len() >= MARKERS_MIN,
        }
    }

    fn beginning_with<'a>(&'a self, part: &'a str) -> impl Iterator<Item = &'a str> {
        let start = self.words.partition_point(|word| **word < *part);
        self.words[start..]
            .iter()
            .map(|word| &**word)
            .take_while(move |word| word.starts_with(part))
            .take(LOOKED_AT_MAX)
    }

    fn ending_with<'a>(&'a self, part: &'a str) -> impl Iterator<Item = &'a str> {
        let start = self.backwards.partition_point(|place| {
            let word = self.words[*place as usize].bytes().rev();
            word.lt(part.bytes().rev())
        });
        self.backwards[start..]
            .iter()
            .map(|place| &*self.words[*place as usize])
            .take_while(move |word| word.ends_with(part))
            .take(LOOKED_AT_MAX)
    }

    /// The words of the base that contain a word as a part, the surest first. `plain` is the word's spelling, `term` its indexed form.
    pub(crate) fn containing(&self, plain: &str, term: &str, is_german: bool) -> Vec<Related> {
        if !is_plain_word(plain) || plain.len() < PART_LETTERS_MIN {
            return Vec::new();
        }
        let mut found: Vec<Related> = Vec::new();
        let mut take = |word: &str, evidence: Option<Evidence>| {
            if let Some(evidence) = evidence.filter(|_| word != term && may_be_compound(word))
                && !found.iter().any(|related| related.term == word)
            {
                found.push(Related {
                    term: word.to_owned(),
                    evidence,
                });
            }
        };
        for part in own_forms(plain, is_german) {
            for word in self.beginning_with(part) {
                take(
                    word,
                    self.evidence_behind(part, &word[part.len()..], is_german),
                );
            }
        }
        for part in [term, plain] {
            for word in self.ending_with(part) {
                let before = &word[..word.len() - part.len()];
                take(word, self.evidence_before(before, part, is_german));
            }
        }
        found.sort_by_key(|related| std::cmp::Reverse(related.evidence));
        found.truncate(TAKEN_MAX);
        found
    }

    /// The known parts of a word. `indexed` gives a word's term.
    pub(crate) fn parts(
        &self,
        plain: &str,
        is_german: bool,
        indexed: &mut dyn FnMut(&str) -> Option<String>,
    ) -> Vec<Related> {
        if !may_be_compound(plain) {
            return Vec::new();
        }
        let mut best: Option<(usize, usize, Vec<Related>)> = None;
        for place in PART_LETTERS_MIN..=plain.len() - PART_LETTERS_MIN {
            let (before, after) = plain.split_at(place);
            let first = self.part_before(before, is_german);
            let last = indexed(after).filter(|term| self.is_known(term));
            let is_seam = has_seam(before);
            let evidence = match is_seam {
                true => Evidence::Seam,
                false if first.is_some() && last.is_some() => Evidence::Rest,
                false => Evidence::Language,
            };
            let known = usize::from(first.is_some()) + usize::from(last.is_some());
            let parts: Vec<Related> = [first, last]
                .into_iter()
                .flatten()
                .filter(|part| known == 2 || is_german || part.len() >= LONE_PART_LETTERS_MIN)
                .map(|term| Related { term, evidence })
                .collect();
            let is_likely = is_seam || is_german;
            if parts.is_empty() || known < 2 && !is_likely {
                continue;
            }
            // Two known parts come before one; then a seam; then the most known letters.
            let sureness = 2 * parts.len() + usize::from(is_seam);
            let letters = parts.iter().map(|part| part.term.len()).sum();
            if best
                .as_ref()
                .is_none_or(|(most, longest, _)| (*most, *longest) < (sureness, letters))
            {
                best = Some((sureness, letters, parts));
            }
        }
        best.map_or_else(Vec::new, |(_, _, parts)| parts)
    }

    fn is_known(&self, word: &str) -> bool {
        let found = self.words.binary_search_by(|known| (**known).cmp(word));
        found.is_ok()
    }

    /// The evidence for a compound of this first part and this rest.
    fn evidence_behind(&self, part: &str, rest: &str, is_german: bool) -> Option<Evidence> {
        let is_seam = rest.starts_with('s') && has_seam(&format!("{part}s"));
        if is_seam && rest.len() > UNKNOWN_LETTERS_MIN {
            return Some(Evidence::Seam);
        }
        let mut rests = LINKS.iter().filter_map(|link| rest.strip_prefix(link));
        if rests.any(|rest| rest.len() >= PART_LETTERS_MIN && self.is_known(rest)) {
            return Some(Evidence::Rest);
        }
        let is_likely =
            is_german && part.len() >= LONE_PART_LETTERS_MIN && rest.len() >= UNKNOWN_LETTERS_MIN;
        is_likely.then_some(Evidence::Language)
    }

    /// The evidence for a compound of this last part and the letters before it.
    fn evidence_before(&self, before: &str, part: &str, is_german: bool) -> Option<Evidence> {
        if before.len() < PART_LETTERS_MIN {
            return None;
        }
        if has_seam(before) {
            return Some(Evidence::Seam);
        }
        if self.part_before(before, is_german).is_some() {
            return Some(Evidence::Rest);
        }
        let is_likely =
            is_german && part.len() >= LONE_PART_LETTERS_MIN && before.len() > UNKNOWN_LETTERS_MIN;
        is_likely.then_some(Evidence::Language)
    }

    /// The base's word for a first part, with its joining letters or without.
    fn part_before(&self, before: &str, is_german: bool) -> Option<String> {
        let stripped = LINKS.iter().filter_map(|link| before.strip_suffix(link));
        stripped
            .filter(|part| part.len() >= PART_LETTERS_MIN)
            .find(|part| self.is_known(part))
            .map(str::to_owned)
            .or_else(|| {
                // `Miete` is `Miet` in `Mietvertrag`.
                let whole = format!("{before}e");
                (is_german && self.is_known(&whole)).then_some(whole)
            })
    }
}

/// Whether a question is German by its words.
pub(crate) fn is_german<'a>(words: impl Iterator<Item = &'a str>) -> bool {
    let markers: HashSet<&str> = words.filter(|word| MARKERS.contains(word)).collect();
    markers.len() >= MARKERS_MIN
}

fn is_plain_word(word: &str) -> bool {
    word.bytes().all(|letter| letter.is_ascii_lowercase())
}

fn may_be_compound(word: &str) -> bool {
    (COMPOUND_LETTERS_MIN..=COMPOUND_LETTERS_MAX).contains(&word.len()) && is_plain_word(word)
}

/// The forms that a word may have as the first part of a compound.
fn own_forms(plain: &str, is_german: bool) -> impl Iterator<Item = &str> {
    OWN_ENDINGS
        .into_iter()
        .filter(move |ending| ending.is_empty() || is_german)
        .filter_map(|ending| plain.strip_suffix(ending))
        .filter(move |form| form.len() >= PART_LETTERS_MIN)
}

/// Whether letters end like the first part of a compound and like no word.
fn has_seam(before: &str) -> bool {
    before.strip_suffix('s').is_some_and(|before| {
        let mut endings = ENDINGS_BEFORE_S.iter();
        endings.any(|ending| before.ends_with(ending) && before.len() > ending.len() + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compounds(words: &[&str]) -> Compounds {
        Compounds::of(words.iter().map(|word| (*word, 1)), 1)
    }

    #[track_caller]
    fn check_containing(base: &[&str], is_german: bool, part: &str, expected: &[&str]) {
        let mut found: Vec<String> = compounds(base)
            .containing(part, part, is_german)
            .into_iter()
            .map(|related| related.term)
            .collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{part}");
    }

    #[track_caller]
    fn check_parts(known: &[&str], is_german: bool, word: &str, expected: &[&str]) {
        let parts: Vec<String> = compounds(known)
            .parts(word, is_german, &mut |word| Some(word.to_owned()))
            .into_iter()
            .map(|related| related.term)
            .collect();
        assert_eq!(parts, expected, "{word}");
    }

    #[test]
    fn a_part_finds_its_compounds() {
        // The seam is evidence in any base.
        check_containing(
            &["kundigungsfrist"],
            false,
            "kundigung",
            &["kundigungsfrist"],
        );
        check_containing(&["kundigungsfrist"], false, "frist", &["kundigungsfrist"]);
        // A known rest is evidence, too.
        let base = ["krankenversicherung", "versicherungsnummer", "kranken"];
        check_containing(
            &base,
            false,
            "versicherung",
            &["krankenversicherung", "versicherungsnummer"],
        );
        // Otherwise only the language is evidence.
        check_containing(&["wasserschaden"], false, "wasser", &[]);
        check_containing(&["wasserschaden"], true, "wasser", &["wasserschaden"]);
        check_containing(
            &["kundigungsfrist"],
            true,
            "kundigungen",
            &["kundigungsfrist"],
        );
        check_containing(&["mietvertrag", "vertrag"], true, "miete", &["mietvertrag"]);
    }

    #[test]
    fn no_english_word_is_torn_apart() {
        let base = [
            "friendship",
            "transport",
            "statement",
            "contractor",
            "information",
            "transaction",
            "mission",
            "permission",
            "question",
            "questionnaire",
        ];
        for part in [
            "ship", "port", "state", "contract", "form", "action", "mission", "ment",
        ] {
            check_containing(&base, false, part, &[]);
        }
    }

    #[test]
    fn a_compound_has_the_parts_that_are_known() {
        check_parts(
            &["kundigung", "frist"],
            false,
            "kundigungsfrist",
            &["kundigung", "frist"],
        );
        check_parts(&["kundigung"], false, "kundigungsfrist", &["kundigung"]);
        check_parts(
            &["miete", "vertrag"],
            true,
            "mietvertrag",
            &["miete", "vertrag"],
        );
        check_parts(&["wasser"], true, "wasserschaden", &["wasser"]);
        check_parts(&["wasser"], false, "wasserschaden", &[]);
        check_parts(&[], true, "wasserschaden", &[]);
        check_parts(&["wasser"], true, "船船船船船船船船", &[]);
    }

    #[test]
    fn german_is_known_by_its_little_words() {
        assert!(compounds(&["und", "der", "vertrag"]).is_german);
        assert!(!compounds(&["the", "ship", "und"]).is_german);
        let rare = [("und", 5), ("der", 9)];
        assert!(!Compounds::of(rare.into_iter(), 1_000).is_german);
        assert!(is_german("wie lange ist die frist".split(' ')));
        assert!(!is_german("how long is the wie wie".split(' ')));
    }
}
