//! Chooses the part of a body that best shows why it was found. Knows no index; the terms' weights are given to it.

use crate::analysis;
use crate::index::QueryTerm;
use std::ops::Range;
use tantivy::tokenizer::TextAnalyzer;
use windlass_contract::handler::Snippet;

const WORDS_MIN: usize = 25;
const WORDS_MAX: usize = 40;
/// The most bytes of a snippet, for text without spaces between its words.
const SNIPPET_BYTES_MAX: usize = 512;
/// The bytes of a body in which the best window is searched.
const STRETCH_BYTES_MAX: usize = 64 * 1024;
/// The most bytes of a body that are searched for the first term, so that the largest body costs no more than a long one.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// The words that a window keeps before its first term, where it does not begin with a sentence.
const WORDS_BEFORE: usize = 8;

/// The best window of a body: the one with the most valuable distinct terms; then preferably the beginning of a sentence, and an early
/// one. Without any of the terms it is the beginning of the passage closest to the question, if known, else of the body. `None` for a
/// body without words.
pub(crate) fn best(
    body: &str,
    terms: &[QueryTerm],
    analyser: &mut TextAnalyzer,
    closest: impl FnOnce() -> Option<Range<usize>>,
) -> Option<Snippet> {
    let text = stretch(body, terms, analyser)
        .or_else(|| closest().and_then(|range| body.get(range)))
        .unwrap_or_else(|| beginning(body));
    let offset = text.as_ptr().addr() - body.as_ptr().addr();
    let words = analysis::word_ranges(text);
    if words.is_empty() {
        return None;
    }
    let passage = Passage {
        matches: matches(text, &words, terms, analyser),
        text,
        words,
    };
    let first = passage.best_start(terms);
    let last = passage.last_word(first);
    let (start, _) = passage.words[first];
    let end = passage
        .end_with_punctuation(last)
        .min(text.floor_char_boundary(start + SNIPPET_BYTES_MAX));
    Some(Snippet {
        text: text[start..end].to_owned(),
        start: offset + start,
        end: offset + end,
    })
}

fn beginning(body: &str) -> &str {
    &body[..body.floor_char_boundary(STRETCH_BYTES_MAX)]
}

/// The part of a body that is searched: the first part with one of the terms.
fn stretch<'a>(body: &'a str, terms: &[QueryTerm], analyser: &mut TextAnalyzer) -> Option<&'a str> {
    let mut stretch = beginning(body);
    let mut rest = &body[stretch.len()..body.floor_char_boundary(BODY_BYTES_MAX)];
    while !has_any(stretch, terms, analyser) {
        if rest.is_empty() {
            return None;
        }
        let end = rest.floor_char_boundary(STRETCH_BYTES_MAX);
        // A word that the end of a stretch cuts is searched in the next stretch.
        let whole = rest[..end]
            .rfind(char::is_whitespace)
            .filter(|_| end < rest.len());
        (stretch, rest) = rest.split_at(whole.filter(|at| *at > 0).unwrap_or(end));
    }
    Some(stretch)
}

fn has_any(text: &str, terms: &[QueryTerm], analyser: &mut TextAnalyzer) -> bool {
    let mut stream = analyser.token_stream(text);
    while stream.advance() {
        if terms.iter().any(|term| term.text == stream.token().text) {
            return true;
        }
    }
    false
}

struct Passage<'a> {
    text: &'a str,
    /// Byte ranges of all words.
    words: Vec<(usize, usize)>,
    /// The term of each word, if it has one.
    matches: Vec<Option<usize>>,
}

fn matches(
    text: &str,
    words: &[(usize, usize)],
    terms: &[QueryTerm],
    analyser: &mut TextAnalyzer,
) -> Vec<Option<usize>> {
    let mut matches = vec![None; words.len()];
    let mut stream = analyser.token_stream(text);
    while stream.advance() {
        let token = stream.token();
        // Several terms may begin at one place in scripts without blanks.
        let found = terms.iter().position(|term| term.text == token.text);
        matches[token.position] = matches[token.position].or(found);
    }
    matches
}

impl Passage<'_> {
    /// The first word of the best window.
    fn best_start(&self, terms: &[QueryTerm]) -> usize {
        let length = WORDS_MAX.min(self.words.len());
        let last_start = self.words.len() - WORDS_MIN.min(self.words.len());
        let mut counts = vec![0_usize; terms.len()];
        let mut worth = 0.0;
        for word in 0..length {
            enter(self.matches[word], &mut counts, &mut worth, terms);
        }
        let mut best = (0, worth, true);
        for start in 1..=last_start {
            leave(self.matches[start - 1], &mut counts, &mut worth, terms);
            if let Some(entering) = self.matches.get(start + WORDS_MAX - 1) {
                enter(*entering, &mut counts, &mut worth, terms);
            }
            // The tolerance covers rounding errors of repeated addition.
            let gain = worth - best.1;
            let begins_sentence = self.begins_sentence(start);
            if gain > 1e-3 || (gain > -1e-3 && begins_sentence && !best.2) {
                best = (start, worth, begins_sentence);
            }
        }
        let (start, _, begins_sentence) = best;
        if begins_sentence {
            return start;
        }
        let first_match = (start..self.words.len()).find(|word| self.matches[*word].is_some());
        let centred = first_match.map_or(start, |word| word.saturating_sub(WORDS_BEFORE));
        centred.clamp(start, last_start)
    }

    /// The last word of the window that begins with `first`: the last one that ends a sentence and loses no match, else the last one that
    /// fits.
    fn last_word(&self, first: usize) -> usize {
        let longest = (first + WORDS_MAX).min(self.words.len()) - 1;
        let last_match = (first..=longest)
            .rev()
            .find(|word| self.matches[*word].is_some())
            .unwrap_or(first);
        let shortest = (first + WORDS_MIN - 1).max(last_match);
        (shortest..=longest)
            .rev()
            .find(|word| self.ends_sentence(*word))
            .unwrap_or(longest)
    }

    /// The text between a word and the next.
    fn gap_after(&self, word: usize) -> &str {
        let (_, end) = self.words[word];
        let next = self
            .words
            .get(word + 1)
            .map_or(self.text.len(), |(start, _)| *start);
        &self.text[end..next]
    }

    fn ends_sentence(&self, word: usize) -> bool {
        let gap = self.gap_after(word);
        word + 1 == self.words.len()
            || gap.contains("\n\n")
            || gap.contains(['。', '！', '？'])
            || (gap.starts_with(['.', '!', '?', ')', '"', '”', ':'])
                && gap.contains(['.', '!', '?'])
                && gap.ends_with(char::is_whitespace))
    }

    fn begins_sentence(&self, word: usize) -> bool {
        word == 0 || self.ends_sentence(word - 1)
    }

    fn end_with_punctuation(&self, word: usize) -> usize {
        let (_, end) = self.words[word];
        let closing: usize = self
            .gap_after(word)
            .chars()
            .take_while(|character| ".!?)\"”…。！？）」".contains(*character))
            .map(char::len_utf8)
            .sum();
        end + closing
    }
}

fn enter(found: Option<usize>, counts: &mut [usize], worth: &mut f32, terms: &[QueryTerm]) {
    if let Some(term) = found {
        counts[term] += 1;
        if counts[term] == 1 {
            *worth += terms[term].idf;
        }
    }
}

fn leave(found: Option<usize>, counts: &mut [usize], worth: &mut f32, terms: &[QueryTerm]) {
    if let Some(term) = found {
        counts[term] -= 1;
        if counts[term] == 0 {
            *worth -= terms[term].idf;
        }
    }
}
