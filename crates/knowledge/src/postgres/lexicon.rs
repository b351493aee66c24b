//! The facts of a base that a search needs in advance: its words, names, ids and vocabularies. Kept in memory, as of one generation of
//! the database. Knows no text of a record.

use super::connection::Link;
use super::error::PostgresError;
use super::postings::FIELDS;
use super::{ModelKey, near};
use crate::analysis::{self, TextUse};
use crate::catalogue::Ordinal;
use crate::compounds::Compounds;
use crate::index::IndexError;
use crate::index::Vocabulary;
use crate::names::Names;
use crate::near::OneSlip;
use std::cmp::Reverse;
use tantivy::tokenizer::TextAnalyzer;
use tantivy_fst::{IntoStreamer, Map, MapBuilder, Streamer};
use tokio_postgres::{IsolationLevel, Transaction};
use windlass_contract::handler::Facets;

pub(super) struct Lexicon {
    pub(super) generation: i64,
    pub(super) facets: Facets,
    pub(super) names: Names,
    /// In their order, which is the order of the names' ordinals.
    ids: Vec<Id>,
    /// The index of each term in `frequencies`.
    terms: Map<Vec<u8>>,
    /// The number of records with a term, by field.
    frequencies: Vec<[u64; FIELDS]>,
    /// The average number of terms of each field.
    pub(super) average_lengths: [f64; FIELDS],
    /// Whether any record has vectors of the current model.
    pub(super) has_vectors: bool,
    /// Whether these vectors have an approximate index.
    pub(super) has_index: bool,
    analyser: TextAnalyzer,
    indexing: TextAnalyzer,
    plain: TextAnalyzer,
    compounds: Compounds,
}

struct Id {
    text: Box<str>,
    /// Its index among the namespaces of the facets.
    namespace: u32,
}

/// The generation of a base; every change raises it.
pub(super) async fn generation(link: &Link) -> Result<i64, PostgresError> {
    let row = link
        .client
        .query_one("SELECT generation FROM base", &[])
        .await?;
    Ok(row.get(0))
}

impl Lexicon {
    /// Reads the base as of one moment. `model` is the model that will embed questions.
    pub(super) async fn load(
        link: &mut Link,
        model: Option<&ModelKey>,
    ) -> Result<Self, PostgresError> {
        let moment = link
            .client
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()
            .await?;
        // A base of a hundred thousand records is read in about a second; only the first search waits for it.
        moment
            .batch_execute("SET LOCAL statement_timeout = '120s'")
            .await?;
        let generation = moment
            .query_one("SELECT generation FROM base", &[])
            .await?
            .get(0);
        let facets = facets(&moment).await?;
        let (ids, names) = names(&moment, &facets).await?;
        let (terms, frequencies, compounds) = terms(&moment, ids.len() as u64).await?;
        let average_lengths = average_lengths(&moment).await?;
        let has_vectors = match model {
            Some(model) => moment
                .query_one(
                    "SELECT EXISTS (SELECT FROM records WHERE model = $1)",
                    &[&model.text],
                )
                .await?
                .get(0),
            None => false,
        };
        let has_index = match model {
            Some(model) => has_vectors && near::is_there(&moment, model.dimension).await?,
            None => false,
        };
        moment.commit().await?;
        Ok(Self {
            generation,
            facets,
            names,
            ids,
            terms,
            frequencies,
            average_lengths,
            has_vectors,
            has_index,
            analyser: analysis::analyser(),
            indexing: analysis::indexing(),
            plain: analysis::plain(),
            compounds,
        })
    }

    pub(super) fn id(&self, ordinal: Ordinal) -> Option<&str> {
        self.ids.get(ordinal as usize).map(|id| &*id.text)
    }

    /// The ids in the namespaces that a condition accepts.
    pub(super) fn ids(&self, is_in_reach: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
        let reach: Vec<bool> = self
            .facets
            .namespaces
            .iter()
            .map(|namespace| is_in_reach(namespace))
            .collect();
        self.ids
            .iter()
            .filter(move |id| {
                reach
                    .get(id.namespace as usize)
                    .copied()
                    .unwrap_or_default()
            })
            .map(|id| &*id.text)
    }

    /// The number of records with a term, by field.
    pub(super) fn frequencies(&self, term: &str) -> [u64; FIELDS] {
        self.terms
            .get(term)
            .and_then(|place| self.frequencies.get(usize::try_from(place).ok()?))
            .copied()
            .unwrap_or_default()
    }
}

impl Vocabulary for Lexicon {
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
        self.ids.len() as u64
    }

    fn document_frequency(&self, text: &str) -> Result<u64, IndexError> {
        Ok(self.frequencies(text).into_iter().max().unwrap_or_default())
    }

    fn similar(&self, unknown: &str) -> Result<Vec<(String, u64)>, IndexError> {
        let Some(one_slip) = OneSlip::from(unknown) else {
            return Ok(Vec::new());
        };
        let mut words = self.terms.search(one_slip).into_stream();
        let mut similar = Vec::new();
        while let Some((word, _)) = words.next() {
            // A slip inside a letter of several bytes gives no valid word.
            if let Ok(word) = std::str::from_utf8(word) {
                let frequency = self.frequencies(word).into_iter().max();
                similar.push((word.to_owned(), frequency.unwrap_or_default()));
            }
        }
        similar.sort_by_key(|(_, frequency)| Reverse(*frequency));
        Ok(similar)
    }
}

async fn facets(moment: &Transaction<'_>) -> Result<Facets, PostgresError> {
    let distinct = async |column: &str| -> Result<Vec<String>, PostgresError> {
        let text = format!("SELECT DISTINCT {column} FROM records ORDER BY 1");
        let rows = moment.query(&text, &[]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    };
    Ok(Facets {
        types: distinct("type").await?,
        namespaces: distinct("namespace").await?,
    })
}

async fn names(
    moment: &Transaction<'_>,
    facets: &Facets,
) -> Result<(Vec<Id>, Names), PostgresError> {
    let rows = moment
        .query(
            "SELECT id, namespace, title, aliases FROM records ORDER BY id",
            &[],
        )
        .await?;
    let mut ids = Vec::with_capacity(rows.len());
    let mut titles: Vec<(String, Vec<String>)> = Vec::with_capacity(rows.len());
    for row in &rows {
        let namespace: &str = row.get(1);
        let place = facets
            .namespaces
            .binary_search_by(|known| known.as_str().cmp(namespace));
        ids.push(Id {
            text: row.get::<_, &str>(0).into(),
            namespace: place
                .ok()
                .and_then(|place| u32::try_from(place).ok())
                .unwrap_or(u32::MAX),
        });
        titles.push((row.get(2), row.get(3)));
    }
    let titles = titles
        .iter()
        .map(|(title, aliases)| (title, aliases.as_slice()));
    let names = Names::of(
        titles,
        &mut analysis::remembering(analysis::analyser(), TextUse::Asked),
    );
    Ok((ids, names))
}

type Terms = (Map<Vec<u8>>, Vec<[u64; FIELDS]>, Compounds);

async fn terms(moment: &Transaction<'_>, records: u64) -> Result<Terms, PostgresError> {
    let rows = moment
        .query(
            "SELECT term, title, aliases, tags, body FROM terms \
             WHERE title > 0 OR aliases > 0 OR tags > 0 OR body > 0 ORDER BY term",
            &[],
        )
        .await?;
    let broken = |error: tantivy_fst::Error| IndexError::from(std::io::Error::other(error));
    let mut builder = MapBuilder::memory();
    let mut frequencies = Vec::with_capacity(rows.len());
    for (place, row) in (0..).zip(&rows) {
        builder
            .insert(row.get::<_, &str>(0), place)
            .map_err(broken)?;
        let count = |column| u64::try_from(row.get::<_, i64>(column)).unwrap_or_default();
        frequencies.push([count(1), count(2), count(3), count(4)]);
    }
    let bytes = builder.into_inner().map_err(broken)?;
    let most = |counts: &[u64; FIELDS]| counts.iter().copied().max().unwrap_or_default();
    let counted = rows.iter().zip(&frequencies);
    let compounds = Compounds::of(
        counted.map(|(row, counts)| (row.get::<_, &str>(0), most(counts))),
        records,
    );
    let map = Map::from_bytes(bytes).map_err(broken)?;
    Ok((map, frequencies, compounds))
}

async fn average_lengths(moment: &Transaction<'_>) -> Result<[f64; FIELDS], PostgresError> {
    let row = moment
        .query_one(
            "SELECT coalesce(avg(title_length), 0)::float8, coalesce(avg(aliases_length), 0)::float8, \
             coalesce(avg(tags_length), 0)::float8, coalesce(avg(body_length), 0)::float8 FROM records",
            &[],
        )
        .await?;
    // The average of a field without any terms is never used as a divisor.
    let average = |column| match row.get::<_, f64>(column) {
        average if average > 0.0 => average,
        _ => 1.0,
    };
    Ok([average(0), average(1), average(2), average(3)])
}
