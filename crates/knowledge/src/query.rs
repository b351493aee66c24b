//! Turns a question into terms: the words that the base knows, and for unknown words the ones that may have been meant. Knows words and
//! names, not ranking.

use crate::analysis::{self, Word};
use crate::compounds::{self, Evidence, Related};
use crate::function_words;
use crate::index::{IndexError, QueryTerm, Vocabulary};
use crate::names::{Candidate, Names};
use std::collections::HashMap;
use tantivy::Score;
use tantivy::tokenizer::TextAnalyzer;

/// The most terms of one query; beyond that the rarest count. A spoken question has fewer.
const TERMS_MAX: usize = 128;
/// The most bytes of a query that are read, in whole characters. The longest spoken question is a fraction of this.
const QUERY_BYTES_MAX: usize = 16 * 1024;
/// The most unknown words of a query for which similar ones are searched in the texts.
const TEXT_LOOKUPS_MAX: usize = 3;
/// The most words that replace an unknown one.
const SIMILAR_WORDS_MAX: usize = 4;
/// The fewest letters of a word of the texts that may have been misspelt.
const SIMILAR_LETTERS_MIN: usize = 5;
/// The weight of a similar word of the texts against the word itself.
const SIMILAR_WEIGHT: Score = 0.6;
/// The greatest count of a repeated word.
const SAID_MAX: Score = 8.0;
/// The most words of one question that are added as compounds of its words, or as parts of them.
const RELATED_MAX: usize = 48;
/// The least certainty of a name that replaces words before the question is embedded.
const CORRECTION_CERTAINTY_MIN: f32 = 0.5;
/// The least certainty that two words are one divided name: two words have more near names by chance.
const TORN_CERTAINTY_MIN: f32 = 0.6;

/// A query as the base understands it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Understanding {
    /// The terms, the rarest first.
    pub(crate) terms: Vec<QueryTerm>,
    /// The query with names in place of the words that stand for them.
    pub(crate) text: String,
    /// Its terms in their order, for whole names.
    pub(crate) sequence: Vec<String>,
    /// The original query, for names that are more than their words.
    pub(crate) asked: String,
}

/// The words of a query of any content.
pub(crate) struct QueryWords<'a> {
    query: &'a str,
    words: Vec<Word>,
}

impl<'a> QueryWords<'a> {
    pub(crate) fn of(query: &'a str, index: &dyn Vocabulary) -> Self {
        let query = &query[..query.floor_char_boundary(QUERY_BYTES_MAX)];
        let words = analysis::words(
            query,
            &mut index.plain().clone(),
            &mut index.analyser().clone(),
        );
        Self { query, words }
    }

    /// Its terms, each once.
    #[cfg(feature = "postgres")]
    pub(crate) fn terms(&self) -> std::collections::BTreeSet<&str> {
        self.words.iter().map(|word| word.term.as_str()).collect()
    }
}

/// Understands a query. `is_known` tells whether an allowed record has a term of the base. Not even the words of other records may show,
/// so a word that only they have counts as unknown.
pub(crate) fn understand(
    asked: QueryWords<'_>,
    index: &dyn Vocabulary,
    names: &Names,
    is_known: &dyn Fn(&str) -> Result<bool, IndexError>,
) -> Result<Understanding, IndexError> {
    let QueryWords { query, words } = asked;
    let mut reader = QueryReader {
        index,
        names,
        is_german: index.compounds().is_german
            || compounds::is_german(words.iter().map(|word| word.plain.as_str())),
        related_left: RELATED_MAX,
        chosen: Vec::new(),
        corrections: Vec::new(),
        name_lookups_left: names.lookups(),
        unexplained: Vec::new(),
    };
    let weights = function_words::weights(&words);
    let mut said: HashMap<&str, Score> = HashMap::new();
    for (word, weight) in words.iter().zip(&weights) {
        *said.entry(word.term.as_str()).or_default() += weight;
    }
    let mut frequencies = Vec::with_capacity(words.len());
    for word in &words {
        // The first occurrence gets the count of all repetitions.
        let frequency = match said.remove(word.term.as_str()) {
            Some(weight) => {
                let frequency = match index.document_frequency(&word.term)? {
                    frequency @ 1.. if is_known(&word.term)? => frequency,
                    _ => 0,
                };
                if frequency > 0 {
                    let weight = weight.min(SAID_MAX);
                    let term = index.query_term(word.term.clone(), frequency, weight);
                    reader.chosen.push(term);
                }
                Some(frequency)
            }
            None => None,
        };
        frequencies.push(frequency);
    }
    // A part of a word is no name, and a function word is no slip for one.
    let whole = |place: usize| words.get(place).filter(|word| !word.is_part);
    let mut explained = None;
    for (place, word) in words.iter().enumerate() {
        let is_unknown = frequencies[place] == Some(0) && weights[place] == 1.0;
        if is_unknown && !word.is_part && explained != Some(place) {
            let before = place
                .checked_sub(1)
                .filter(|before| explained != Some(*before))
                .and_then(whole);
            if reader.explain(word, before, whole(place + 1))? == Used::WithNext {
                explained = Some(place + 1);
            }
        }
    }
    for (place, word) in words.iter().enumerate() {
        if weights[place] == 1.0
            && !word.is_part
            && let Some(frequency) = frequencies[place]
        {
            reader.relate(word, frequency)?;
        }
    }
    reader.look_into_texts()?;
    let corrected = reader.corrected(query);
    let sequence = sequence(&words, &reader.corrections);
    let mut terms = reader.chosen;
    // The sort is stable, so that equally rare terms keep their order.
    terms.sort_by_key(|term| term.document_frequency);
    terms.truncate(TERMS_MAX);
    Ok(Understanding {
        terms,
        text: corrected,
        sequence,
        asked: query.to_owned(),
    })
}

#[derive(PartialEq, Eq)]
enum Used {
    Alone,
    WithNext,
}

struct QueryReader<'a> {
    index: &'a dyn Vocabulary,
    names: &'a Names,
    is_german: bool,
    /// The compounds and parts that may still be added.
    related_left: usize,
    chosen: Vec<QueryTerm>,
    corrections: Vec<Correction<'a>>,
    name_lookups_left: usize,
    /// Terms for which similar words of the texts are possible, and the names that may explain them.
    unexplained: Vec<Unexplained>,
}

struct Unexplained {
    term: String,
    names: usize,
    surest: f32,
}

/// A range of the query's bytes, and the names that replace it.
struct Correction<'a> {
    start: usize,
    end: usize,
    names: Vec<Candidate<'a>>,
}

impl<'a> QueryReader<'a> {
    /// Finds the names that an unknown word may stand for, alone or with a neighbour.
    fn explain(
        &mut self,
        word: &Word,
        before: Option<&Word>,
        next: Option<&Word>,
    ) -> Result<Used, IndexError> {
        if self.name_lookups_left == 0 {
            return Ok(Used::Alone);
        }
        self.name_lookups_left -= 1;
        let near = self.names.near(&word.plain);
        let surest = near.first().map_or(0.0, |candidate| candidate.certainty);
        let neighbours = [
            before.map(|before| (before, word)),
            next.map(|next| (word, next)),
        ];
        for (left, right) in neighbours.into_iter().flatten() {
            let torn = self
                .names
                .torn_apart(left, right)
                .filter(|candidate| candidate.certainty >= surest.max(TORN_CERTAINTY_MIN));
            if let Some(candidate) = torn.filter(|_| left.position + 1 == right.position) {
                self.choose(left.start, right.end, vec![candidate])?;
                return Ok(if left.start == word.start {
                    Used::WithNext
                } else {
                    Used::Alone
                });
            }
        }
        if let Some(pair) = self.names.run_together(&word.plain) {
            self.choose(word.start, word.end, pair.to_vec())?;
            return Ok(Used::Alone);
        }
        let is_long = word.term.chars().count() >= SIMILAR_LETTERS_MIN;
        if near.is_empty() && !is_long {
            return Ok(Used::Alone);
        }
        if let Some(first) = near.first().copied() {
            for candidate in &near[1..] {
                self.push(candidate.term, candidate.certainty)?;
            }
            let is_only = near
                .get(1)
                .is_none_or(|next| next.certainty < first.certainty);
            if is_only {
                self.choose(word.start, word.end, vec![first])?;
            } else {
                self.push(first.term, first.certainty)?;
            }
        }
        if is_long {
            self.unexplained.push(Unexplained {
                term: word.term.clone(),
                names: near.len(),
                surest,
            });
        }
        Ok(Used::Alone)
    }

    /// Adds the compounds that a word is a part of, and its own parts.
    fn relate(&mut self, word: &Word, frequency: u64) -> Result<(), IndexError> {
        let compounds = self.index.compounds();
        let mut related = compounds.containing(&word.plain, &word.term, self.is_german);
        // English has compounds, too. A word of its texts finds enough without them.
        if !self.is_german && frequency > 0 {
            related.retain(|related| related.evidence == Evidence::Seam);
        } else {
            let mut analyser = self.index.analyser().clone();
            let indexed = &mut |part: &str| only_term(part, &mut analyser);
            related.extend(compounds.parts(&word.plain, self.is_german, indexed));
        }
        related.truncate(self.related_left);
        self.related_left -= related.len();
        for Related { term, evidence } in related {
            let other = self.index.document_frequency(&term)?;
            // A rare compound must not weigh more than the word of the question.
            let weight = match frequency {
                0 => evidence.weight(),
                _ => {
                    let said = self.index.query_term(String::new(), frequency, 1.0).idf;
                    let found = self.index.query_term(String::new(), other, 1.0).idf;
                    evidence.weight() * (said / found).min(1.0)
                }
            };
            self.push(&term, weight)?;
        }
        Ok(())
    }

    /// Searches the texts for similar words: first for words that no name explains, or the least surely.
    fn look_into_texts(&mut self) -> Result<(), IndexError> {
        let mut unexplained = std::mem::take(&mut self.unexplained);
        unexplained.sort_by(|left, right| left.surest.total_cmp(&right.surest));
        for word in unexplained.into_iter().take(TEXT_LOOKUPS_MAX) {
            let mut similar = self.index.similar(&word.term)?;
            similar.truncate(SIMILAR_WORDS_MAX.saturating_sub(word.names));
            for (text, _) in similar {
                self.push(&text, SIMILAR_WEIGHT)?;
            }
        }
        Ok(())
    }

    fn choose(
        &mut self,
        start: usize,
        end: usize,
        names: Vec<Candidate<'a>>,
    ) -> Result<(), IndexError> {
        for name in &names {
            self.push(name.term, name.certainty)?;
        }
        if names
            .iter()
            .all(|name| name.certainty >= CORRECTION_CERTAINTY_MIN)
        {
            self.corrections.push(Correction { start, end, names });
        }
        Ok(())
    }

    fn push(&mut self, term: &str, weight: Score) -> Result<(), IndexError> {
        let frequency = self.index.document_frequency(term)?;
        if frequency > 0 && !self.chosen.iter().any(|chosen| chosen.text == term) {
            let term = self.index.query_term(term.to_owned(), frequency, weight);
            self.chosen.push(term);
        }
        Ok(())
    }

    fn corrected(&mut self, query: &str) -> String {
        self.corrections.sort_by_key(|correction| correction.start);
        let mut text = String::with_capacity(query.len());
        let mut done = 0;
        for correction in &self.corrections {
            if correction.start < done {
                continue;
            }
            text.push_str(&query[done..correction.start]);
            let spellings: Vec<&str> = correction.names.iter().map(|name| name.spelling).collect();
            text.push_str(&spellings.join(" "));
            done = correction.end;
        }
        text.push_str(&query[done..]);
        text
    }
}

/// The term of a word.
fn only_term(word: &str, analyser: &mut TextAnalyzer) -> Option<String> {
    let mut stream = analyser.token_stream(word);
    let found = stream.advance().then(|| stream.token().text.clone());
    found.filter(|_| !stream.advance())
}

/// The terms of a query in their order, with the names' terms in place of the words that they replace.
fn sequence(words: &[Word], corrections: &[Correction<'_>]) -> Vec<String> {
    let mut sequence = Vec::with_capacity(words.len());
    for word in words.iter().filter(|word| !word.is_part) {
        let correction = corrections
            .iter()
            .find(|correction| (correction.start..correction.end).contains(&word.start));
        match correction {
            None => sequence.push(word.term.clone()),
            Some(correction) if correction.start == word.start => {
                sequence.extend(correction.names.iter().map(|name| name.term.to_owned()));
            }
            Some(_) => {}
        }
    }
    sequence
}
