//! Finds records by their words: an in-memory BM25 index over title, aliases, tags and body. Knows the records' text and order only;
//! filters arrive resolved.

use crate::analysis::{self, TextUse};
use crate::catalogue::{Allowed, Ordinal};
use crate::compounds::Compounds;
use crate::near::OneSlip;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use tantivy::directory::RamDirectory;
use tantivy::query::{BooleanQuery, BoostQuery, EnableScoring, Query, TermQuery};
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::store::Compressor;
use tantivy::tokenizer::{TextAnalyzer, TokenizerManager};
use tantivy::{
    DocSet, Index, IndexSettings, ReloadPolicy, Score, Searcher, TERMINATED, TantivyDocument, Term,
};
use windlass_contract::handler::Record;

/// The initial size of the writer's table in bytes; it grows with the text. Small, because most bases are.
const WRITER_BYTES: usize = 256 * 1024;
/// The most terms for which the search skips documents that cannot be among the best. With more terms, skipping takes longer than reading
/// all.
const PRUNED_TERMS_MAX: usize = 12;
const ANALYSER: &str = "words";

/// The index could not be built or read.
#[derive(Debug, thiserror::Error)]
#[error("the word index of the knowledge base is broken: {0}")]
pub struct IndexError(#[from] tantivy::TantivyError);

impl From<std::io::Error> for IndexError {
    fn from(error: std::io::Error) -> Self {
        Self(error.into())
    }
}

pub(crate) struct LexicalIndex {
    searcher: Searcher,
    fields: Fields,
    analyser: TextAnalyzer,
    indexing: TextAnalyzer,
    plain: TextAnalyzer,
    compounds: Compounds,
}

#[derive(Clone, Copy)]
struct Fields {
    title: Field,
    aliases: Field,
    tags: Field,
    body: Field,
}

impl Fields {
    fn all(self) -> [Field; 4] {
        [self.title, self.aliases, self.tags, self.body]
    }
}

/// The weights of a match in title, aliases, tags and body for a question of so many terms. A short question names its subject, and a
/// title names the record's, while a word of the body may be incidental. A long question describes its subject, in words that a title has
/// by chance. Measured on two collections.
pub(crate) fn field_weights(terms: usize) -> [Score; 4] {
    // Powers of two are exact: equal records stay equal in whatever order their scores are added up.
    let of_names = match terms {
        ..=4 => 2.0,
        5..=16 => 1.0,
        _ => 0.5,
    };
    [of_names, of_names, 1.0, 1.0]
}

/// One term of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueryTerm {
    pub(crate) text: String,
    /// The term's weight: its inverse document frequency, reduced for a similar word.
    pub(crate) idf: Score,
    pub(crate) weight: Score,
    pub(crate) document_frequency: u64,
}

/// The words of a base, wherever its records are kept.
pub(crate) trait Vocabulary {
    /// The analysis of questions.
    fn analyser(&self) -> &TextAnalyzer;

    /// The analysis of indexed texts.
    fn indexing(&self) -> &TextAnalyzer;

    /// The analysis that keeps endings.
    fn plain(&self) -> &TextAnalyzer;

    /// The number of records.
    fn records(&self) -> u64;

    /// A lower bound for the number of records with a term: the greatest of its fields.
    fn document_frequency(&self, text: &str) -> Result<u64, IndexError>;

    /// The records' words that differ from an unknown word by one slip, the most frequent first.
    fn similar(&self, unknown: &str) -> Result<Vec<(String, u64)>, IndexError>;

    fn compounds(&self) -> &Compounds;

    fn query_term(&self, text: String, document_frequency: u64, weight: Score) -> QueryTerm {
        let (all, with) = (self.records() as Score, document_frequency as Score);
        // The inverse document frequency of BM25 as in Lucene and tantivy, which is never negative.
        let idf = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
        QueryTerm {
            text,
            idf: idf * weight,
            weight,
            document_frequency,
        }
    }
}

/// A found record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) ordinal: Ordinal,
    pub(crate) bm25: Score,
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    /// The greater one is better: the higher score; for equal scores the lower ordinal, which is the lower id.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.bm25
            .total_cmp(&other.bm25)
            .then(other.ordinal.cmp(&self.ordinal))
    }
}

impl LexicalIndex {
    /// Indexes records in the order of their ordinals.
    pub(crate) fn build<'a>(records: impl Iterator<Item = &'a Record>) -> Result<Self, IndexError> {
        let (schema, fields) = schema();
        let indexing = analysis::indexing();
        let tokenizers = TokenizerManager::new();
        let remembering = analysis::remembering(indexing.clone(), TextUse::Indexed);
        tokenizers.register(ANALYSER, remembering);
        // One segment, written at once on this thread: no writer threads, and documents keep their order, so that a document's number is
        // the record's ordinal.
        let mut writer = Index::builder()
            .schema(schema)
            .tokenizers(tokenizers)
            .settings(IndexSettings {
                docstore_compression: Compressor::None,
                docstore_compress_dedicated_thread: false,
                ..IndexSettings::default()
            })
            .single_segment_index_writer(RamDirectory::create(), WRITER_BYTES)?;
        for record in records {
            writer.add_document(document(record, fields))?;
        }
        let searcher = writer
            .finalize()?
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .doc_store_cache_num_blocks(0)
            .try_into()?
            .searcher();
        let compounds = compounds(&searcher, fields)?;
        Ok(Self {
            searcher,
            fields,
            analyser: analysis::analyser(),
            indexing,
            plain: analysis::plain(),
            compounds,
        })
    }

    /// The best `count` of the allowed records, the best first.
    pub(crate) fn rank(
        &self,
        terms: &[QueryTerm],
        allowed: &Allowed,
        count: usize,
    ) -> Result<Vec<Ranked>, IndexError> {
        if terms.is_empty() || count == 0 {
            return Ok(Vec::new());
        }
        if terms.len() > PRUNED_TERMS_MAX {
            return self.rank_all(terms, allowed, count);
        }
        let weight = BooleanQuery::union(self.clauses(terms).collect())
            .weight(EnableScoring::enabled_from_searcher(&self.searcher))?;
        let mut best: BinaryHeap<Reverse<Ranked>> = BinaryHeap::with_capacity(count + 1);
        for segment in self.searcher.segment_readers() {
            // The search skips whole blocks of documents that cannot beat the worst of the best.
            weight.for_each_pruning(Score::MIN, segment, &mut |ordinal, bm25| {
                if allowed.contains(ordinal) {
                    best.push(Reverse(Ranked { ordinal, bm25 }));
                    if best.len() > count {
                        best.pop();
                    }
                }
                match best.peek() {
                    Some(Reverse(worst)) if best.len() == count => worst.bm25,
                    Some(_) | None => Score::MIN,
                }
            })?;
        }
        Ok(best
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse(ranked)| ranked)
            .collect())
    }

    /// The same for many terms, where hardly any block could be skipped: adds up the scores term by term.
    fn rank_all(
        &self,
        terms: &[QueryTerm],
        allowed: &Allowed,
        count: usize,
    ) -> Result<Vec<Ranked>, IndexError> {
        let ranked = (0..).zip(self.all_scores(terms)?);
        let mut ranked: Vec<Ranked> = ranked
            .filter(|(ordinal, bm25)| *bm25 > 0.0 && allowed.contains(*ordinal))
            .map(|(ordinal, bm25)| Ranked { ordinal, bm25 })
            .collect();
        if ranked.len() > count {
            ranked.select_nth_unstable_by_key(count - 1, |ranked| Reverse(*ranked));
            ranked.truncate(count);
        }
        ranked.sort_unstable_by_key(|ranked| Reverse(*ranked));
        Ok(ranked)
    }

    /// The score of every record, in the order of their ordinals.
    fn all_scores(&self, terms: &[QueryTerm]) -> Result<Vec<Score>, IndexError> {
        let mut scores = vec![0.0; self.records() as usize];
        for (query, boost) in self.queries(terms) {
            // The engine does not apply the boost: its loop over the records of a boosted query takes twice as long.
            let weight = query.weight(EnableScoring::enabled_from_searcher(&self.searcher))?;
            for segment in self.searcher.segment_readers() {
                weight.for_each(segment, &mut |ordinal, bm25| {
                    if let Some(score) = scores.get_mut(ordinal as usize) {
                        *score += boost * bm25;
                    }
                })?;
            }
        }
        Ok(scores)
    }

    /// The scores of records that another search found, in rising order of ordinals; 0 for records without any term.
    ///
    /// Each term is looked up for these records alone. A union of the terms would score whole windows of records around
    /// every one of them, and with frequent terms that is most of the base.
    pub(crate) fn scores(
        &self,
        terms: &[QueryTerm],
        ordinals: &[Ordinal],
    ) -> Result<Vec<Score>, IndexError> {
        if terms.len() > PRUNED_TERMS_MAX {
            let all = self.all_scores(terms)?;
            let of_one = |ordinal: &Ordinal| all.get(*ordinal as usize).copied();
            return Ok(ordinals.iter().filter_map(of_one).collect());
        }
        let mut scores = vec![0.0; ordinals.len()];
        for clause in self.clauses(terms) {
            let weight = clause.weight(EnableScoring::enabled_from_searcher(&self.searcher))?;
            for segment in self.searcher.segment_readers() {
                let mut scorer = weight.scorer(segment, 1.0)?;
                for (score, ordinal) in scores.iter_mut().zip(ordinals) {
                    if scorer.doc() < *ordinal {
                        scorer.seek(*ordinal);
                    }
                    if scorer.doc() == *ordinal {
                        *score += scorer.score();
                    }
                }
            }
        }
        Ok(scores)
    }

    /// Whether an allowed record has a term. Reads the term's postings up to the first such record.
    pub(crate) fn occurs(&self, text: &str, allowed: &Allowed) -> Result<bool, IndexError> {
        if matches!(allowed, Allowed::All) {
            return Ok(self.document_frequency(text)? > 0);
        }
        for segment in self.searcher.segment_readers() {
            for field in self.fields.all() {
                let term = Term::from_field_text(field, text);
                let inverted = segment.inverted_index(field)?;
                let Some(mut postings) = inverted.read_postings(&term, IndexRecordOption::Basic)?
                else {
                    continue;
                };
                while postings.doc() != TERMINATED {
                    if allowed.contains(postings.doc()) {
                        return Ok(true);
                    }
                    postings.advance();
                }
            }
        }
        Ok(false)
    }

    fn clauses(&self, terms: &[QueryTerm]) -> impl Iterator<Item = Box<dyn Query>> {
        let boosted = |(query, boost)| BoostQuery::new(Box::new(query), boost);
        self.queries(terms)
            .map(move |query| Box::new(boosted(query)) as Box<dyn Query>)
    }

    /// Term queries with the weight of a match, built directly: a query's text never reaches a query parser.
    fn queries(&self, terms: &[QueryTerm]) -> impl Iterator<Item = (TermQuery, Score)> {
        let weights = field_weights(terms.len());
        terms.iter().flat_map(move |term| {
            let weighted = self.fields.all().into_iter().zip(weights);
            weighted.map(|(field, weight)| {
                let word = Term::from_field_text(field, &term.text);
                let query = TermQuery::new(word, IndexRecordOption::WithFreqs);
                (query, weight * term.weight)
            })
        })
    }
}

impl Vocabulary for LexicalIndex {
    fn analyser(&self) -> &TextAnalyzer {
        &self.analyser
    }

    fn indexing(&self) -> &TextAnalyzer {
        &self.indexing
    }

    fn plain(&self) -> &TextAnalyzer {
        &self.plain
    }

    fn compounds(&self) -> &Compounds {
        &self.compounds
    }

    fn records(&self) -> u64 {
        self.searcher.num_docs()
    }

    fn document_frequency(&self, text: &str) -> Result<u64, IndexError> {
        let mut most = 0;
        for field in self.fields.all() {
            most = most.max(
                self.searcher
                    .doc_freq(&Term::from_field_text(field, text))?,
            );
        }
        Ok(most)
    }

    fn similar(&self, unknown: &str) -> Result<Vec<(String, u64)>, IndexError> {
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for segment in self.searcher.segment_readers() {
            for field in self.fields.all() {
                let Some(one_slip) = OneSlip::from(unknown) else {
                    return Ok(Vec::new());
                };
                let inverted = segment.inverted_index(field)?;
                let mut words = inverted.terms().search(one_slip).into_stream()?;
                while words.advance() {
                    // A slip inside a letter of several bytes gives no valid word.
                    if let Ok(word) = std::str::from_utf8(words.key()) {
                        let most = found.entry(word.to_owned()).or_default();
                        *most = u64::from(words.value().doc_freq).max(*most);
                    }
                }
            }
        }
        let mut similar: Vec<(String, u64)> = found.into_iter().collect();
        similar.sort_by_key(|(_, frequency)| Reverse(*frequency));
        Ok(similar)
    }
}

fn compounds(searcher: &Searcher, fields: Fields) -> Result<Compounds, IndexError> {
    let mut terms: Vec<(String, u64)> = Vec::new();
    for segment in searcher.segment_readers() {
        for field in fields.all() {
            let inverted = segment.inverted_index(field)?;
            let mut words = inverted.terms().stream()?;
            while words.advance() {
                if let Ok(word) = std::str::from_utf8(words.key()) {
                    terms.push((word.to_owned(), u64::from(words.value().doc_freq)));
                }
            }
        }
    }
    let terms = terms.iter().map(|(word, count)| (word.as_str(), *count));
    Ok(Compounds::of(terms, searcher.num_docs()))
}

fn schema() -> (Schema, Fields) {
    let options = TextOptions::default().set_indexing_options(
        TextFieldIndexing::default()
            .set_tokenizer(ANALYSER)
            .set_index_option(IndexRecordOption::WithFreqs),
    );
    let mut schema = Schema::builder();
    let fields = Fields {
        title: schema.add_text_field("title", options.clone()),
        aliases: schema.add_text_field("aliases", options.clone()),
        tags: schema.add_text_field("tags", options.clone()),
        body: schema.add_text_field("body", options),
    };
    (schema.build(), fields)
}

fn document(record: &Record, fields: Fields) -> TantivyDocument {
    let mut document = TantivyDocument::new();
    document.add_text(fields.title, &record.title);
    for alias in &record.aliases {
        document.add_text(fields.aliases, alias);
    }
    for tag in &record.tags {
        document.add_text(fields.tags, tag);
    }
    document.add_text(fields.body, &record.body);
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_looked_up_scores_as_one_that_is_searched() {
        let words = ["hull", "keel", "mast", "sail", "oak", "ice", "drift"];
        // Every word has its own share of the records; the first word is in nearly all.
        let records: Vec<Record> = (0..2_000_usize)
            .map(|number| {
                let has = |word: &usize| number % (word * word * 3 + 2) != 1;
                let body: Vec<&str> = (0..words.len())
                    .filter(has)
                    .map(|word| words[word])
                    .collect();
                Record {
                    title: words[number % 7].to_owned(),
                    body: body.join(" "),
                    ..Record::default()
                }
            })
            .collect();
        let index = LexicalIndex::build(records.iter()).unwrap();
        let terms: Vec<QueryTerm> = ["hull", "sail", "drift", "absent"]
            .iter()
            .map(|word| index.query_term((*word).to_owned(), 10, 1.0))
            .collect();
        let mut ranked = index.rank(&terms, &Allowed::All, records.len()).unwrap();
        ranked.sort_unstable_by_key(|ranked| ranked.ordinal);
        assert!(ranked.len() > 1_000);
        for step in [1, 37, 999] {
            let some: Vec<Ordinal> = (0..2_000).step_by(step).collect();
            let scores = index.scores(&terms, &some).unwrap();
            for (ordinal, score) in some.iter().zip(scores) {
                let searched = ranked
                    .binary_search_by_key(ordinal, |ranked| ranked.ordinal)
                    .map_or(0.0, |place| ranked[place].bm25);
                assert!(
                    (score - searched).abs() < 1e-4,
                    "{ordinal}: {score} {searched}"
                );
            }
        }
    }
}
