//! Queries the database for the candidate records, with all values for their scores. Knows no question's text: it gets terms, a vector
//! and filters.

use super::connection::Link;
use super::error::PostgresError;
use super::filter;
use super::lexicon::Lexicon;
use super::postings::FIELDS;
use super::{ModelKey, near};
use crate::catalogue::Filter;
use crate::date::Microseconds;
use crate::fusion::Evidence;
use crate::index::{QueryTerm, field_weights};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tokio_postgres::types::{ToSql, Type};
use windlass_contract::handler::Record;

/// The constant of BM25 for saturation: how fast repetitions of a word lose weight, and how much a field's length matters.
const SATURATION: f64 = 1.2;
/// The most postings that one search reads. The skipped records have only the most frequent of the question's words.
const POSTINGS_MAX: u64 = 20_000;

/// The parts of a question, and its scope.
pub(super) struct Question<'a> {
    pub(super) terms: &'a [QueryTerm],
    /// The vector, with the key of its model.
    pub(super) vector: Option<(&'a ModelKey, &'a [f32])>,
    /// The most records that are compared one by one if the vectors have an approximate index; `None` if they have none.
    pub(super) exact_max: Option<usize>,
    /// Ids of records whose whole name is the question: as it is written, then by its terms. The second list counts if the filters
    /// exclude all of the first.
    pub(super) named: [Vec<&'a str>; 2],
    pub(super) scope: Scope<'a>,
    /// The number of records that each search returns.
    pub(super) candidates: usize,
}

/// The records that may be found.
pub(super) struct Scope<'a> {
    pub(super) namespaces: Vec<&'a str>,
    pub(super) record_type: Option<&'a str>,
    pub(super) tags: &'a [String],
    pub(super) from: Option<Microseconds>,
    pub(super) to: Option<Microseconds>,
}

impl<'a> Scope<'a> {
    pub(super) fn of(filter: &'a Filter<'_>) -> Self {
        Self {
            namespaces: filter.namespaces.clone(),
            // The database takes no zero byte in a text, and types never hold one.
            record_type: filter
                .record_type
                .map(|name| if name.contains('\0') { "" } else { name }),
            tags: &filter.tags,
            from: filter.from,
            to: filter.to,
        }
    }

    /// Whether all records may be found.
    pub(super) fn is_everything(&self, lexicon: &Lexicon) -> bool {
        self.namespaces.len() >= lexicon.facets.namespaces.len()
            && self.record_type.is_none()
            && self.tags.is_empty()
            && self.from.is_none()
            && self.to.is_none()
    }

    /// The parameters of `filter`, in its order.
    fn parameters(&self) -> [&(dyn ToSql + Sync); 5] {
        [
            &self.namespaces,
            &self.record_type,
            &self.tags,
            &self.from,
            &self.to,
        ]
    }
}

/// A found record.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) number: i64,
    pub(super) id: String,
    /// The generation of the record; a record that has changed since is another one.
    pub(super) generation: i64,
    pub(super) evidence: Evidence,
}

/// The BM25 score of a posting `p` of a record `r` for an asked term `a`.
const BM25: &str = "\
     a.title * p.title / (p.title + 1.2 * (0.25 + 0.75 * r.title_length / ($6::float8[])[1])) + \
     a.aliases * p.aliases / (p.aliases + 1.2 * (0.25 + 0.75 * r.aliases_length / ($6::float8[])[2])) + \
     a.tags * p.tags / (p.tags + 1.2 * (0.25 + 0.75 * r.tags_length / ($6::float8[])[3])) + \
     a.body * p.body / (p.body + 1.2 * (0.25 + 0.75 * r.body_length / ($6::float8[])[4]))";

const TYPES: [Type; 17] = [
    Type::TEXT_ARRAY,
    Type::FLOAT8_ARRAY,
    Type::FLOAT8_ARRAY,
    Type::FLOAT8_ARRAY,
    Type::FLOAT8_ARRAY,
    Type::FLOAT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT,
    Type::TEXT_ARRAY,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT,
    Type::FLOAT4_ARRAY,
    Type::TEXT_ARRAY,
];

/// The candidate records, in no order.
pub(super) async fn find(
    link: &mut Link,
    lexicon: &Lexicon,
    question: &Question<'_>,
) -> Result<Vec<Found>, PostgresError> {
    let weights = Weights::of(lexicon, question.terms);
    let driving = driving(question.terms);
    let limit = i64::try_from(question.candidates).unwrap_or(i64::MAX);
    let (model, vector) = question.vector.unzip();
    let shape = Shape {
        is_narrow: driving.len() < question.terms.len(),
        dense: dense_leg(link, question).await?,
    };
    let model = model.map(|model| model.text.as_str());
    let statement = link.statement(&shape.text(), &TYPES).await?;
    let [title, aliases, tags, body] = &weights.fields;
    let averages = lexicon.average_lengths.to_vec();
    let [as_written, by_terms] = &question.named;
    let [namespaces, record_type, tagged, from, to] = question.scope.parameters();
    let parameters: [&(dyn ToSql + Sync); 17] = [
        &weights.terms,
        title,
        aliases,
        tags,
        body,
        &averages,
        namespaces,
        record_type,
        tagged,
        from,
        to,
        &limit,
        as_written,
        &driving,
        &model,
        &vector,
        by_terms,
    ];
    let rows = link.client.query(&statement, &parameters).await?;
    Ok(rows
        .iter()
        .map(|row| Found {
            number: row.get(0),
            id: row.get(1),
            generation: row.get(2),
            evidence: Evidence {
                bm25: row.get(3),
                cosine: row.get(4),
                is_named: row.get(5),
            },
        })
        .collect())
}

/// The terms for which the search checks whether an allowed record has them: the rarest terms, as many as occur in few enough records
/// together. A term of very many records is no slip of the tongue.
pub(super) fn few_of<'a>(lexicon: &Lexicon, terms: BTreeSet<&'a str>) -> Vec<&'a str> {
    let most = |term: &str| lexicon.frequencies(term).into_iter().max();
    let mut few: Vec<(u64, &str)> = terms
        .into_iter()
        .map(|term| (most(term).unwrap_or_default(), term))
        .filter(|(records, _)| *records > 0)
        .collect();
    few.sort_unstable();
    let mut postings = 0;
    few.into_iter()
        .take_while(|(records, _)| {
            postings += records;
            postings <= POSTINGS_MAX
        })
        .map(|(_, term)| term)
        .collect()
}

/// The terms that occur in no record that may be found.
pub(super) async fn hidden(
    link: &mut Link,
    terms: &[&str],
    scope: &Scope<'_>,
) -> Result<HashSet<String>, PostgresError> {
    const TYPES: [Type; 6] = [
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT,
        Type::TEXT_ARRAY,
        Type::INT8,
        Type::INT8,
    ];
    // The limit makes the database search term by term, each up to its first record.
    let text = format!(
        "SELECT a.term FROM unnest($1) AS a(term) WHERE (SELECT 1 FROM postings p \
         JOIN records r ON r.number = p.record WHERE p.term = a.term AND {} LIMIT 1) IS NULL",
        filter::condition(2)
    );
    let statement = link.statement(&text, &TYPES).await?;
    let [namespaces, record_type, tags, from, to] = scope.parameters();
    let parameters = [
        &terms as &(dyn ToSql + Sync),
        namespaces,
        record_type,
        tags,
        from,
        to,
    ];
    let rows = link.client.query(&statement, &parameters).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Decides how the closest records are found.
async fn dense_leg(link: &mut Link, question: &Question<'_>) -> Result<DenseLeg, PostgresError> {
    let Some((model, _)) = question.vector else {
        return Ok(DenseLeg::None);
    };
    let Some(exact_max) = question.exact_max else {
        return Ok(DenseLeg::Exact);
    };
    let filters = question.scope.parameters();
    if !near::is_wide(link, filters, &model.text, exact_max).await? {
        return Ok(DenseLeg::Exact);
    }
    link.tell_once(&near::settings()).await?;
    Ok(DenseLeg::Near(model.dimension))
}

/// The contents of found records, without those that have changed since.
pub(super) async fn fetch(
    link: &mut Link,
    found: &[Found],
) -> Result<Vec<(i64, Record)>, PostgresError> {
    let statement = link
        .statement(
            "SELECT r.number, r.content::text FROM unnest($1, $2) AS f(number, generation) \
             JOIN records r ON r.number = f.number AND r.generation = f.generation",
            &[Type::INT8_ARRAY, Type::INT8_ARRAY],
        )
        .await?;
    let numbers: Vec<i64> = found.iter().map(|found| found.number).collect();
    let generations: Vec<i64> = found.iter().map(|found| found.generation).collect();
    let rows = link
        .client
        .query(&statement, &[&numbers, &generations])
        .await?;
    Ok(rows
        .iter()
        .filter_map(|row| Some((row.get(0), record(row.get(1))?)))
        .collect())
}

/// One record by its id.
pub(super) async fn get(link: &mut Link, id: &str) -> Result<Option<Record>, PostgresError> {
    let statement = link
        .statement(
            "SELECT content::text FROM records WHERE id = $1",
            &[Type::TEXT],
        )
        .await?;
    let row = link.client.query_opt(&statement, &[&id]).await?;
    Ok(row.and_then(|row| record(row.get(0))))
}

/// A base in numbers.
pub(super) struct Counts {
    pub(super) by_namespace: BTreeMap<String, usize>,
    pub(super) by_type: BTreeMap<String, usize>,
    /// The vectors of the current model.
    pub(super) vectors: usize,
}

pub(super) async fn counts(link: &mut Link, model: Option<&str>) -> Result<Counts, PostgresError> {
    Ok(Counts {
        by_namespace: counted(link, "namespace").await?,
        by_type: counted(link, "type").await?,
        vectors: count(
            link.client
                .query_one(
                    "SELECT count(*) FROM passages v JOIN records r ON r.number = v.record WHERE r.model = $1",
                    &[&model],
                )
                .await?
                .get(0),
        ),
    })
}

async fn counted(link: &Link, column: &str) -> Result<BTreeMap<String, usize>, PostgresError> {
    let text = format!("SELECT {column}, count(*) FROM records GROUP BY 1");
    let rows = link.client.query(&text, &[]).await?;
    Ok(rows
        .iter()
        .map(|row| (row.get(0), count(row.get(1))))
        .collect())
}

fn count(number: i64) -> usize {
    usize::try_from(number).unwrap_or_default()
}

/// A record; `None` for a row of another program that is no record.
fn record(text: &str) -> Option<Record> {
    serde_json::from_str(text).ok()
}

/// The weight of each asked term in each field.
struct Weights<'a> {
    terms: Vec<&'a str>,
    fields: [Vec<f64>; FIELDS],
}

impl<'a> Weights<'a> {
    fn of(lexicon: &Lexicon, terms: &'a [QueryTerm]) -> Self {
        use crate::index::Vocabulary;
        let records = lexicon.records() as f64;
        let mut fields: [Vec<f64>; FIELDS] = Default::default();
        let field_weights = field_weights(terms.len());
        for term in terms {
            let frequencies = lexicon.frequencies(&term.text);
            for (field, worth) in fields.iter_mut().enumerate() {
                let with = (frequencies[field] as f64).min(records);
                let idf = (1.0 + (records - with + 0.5) / (with + 0.5)).ln();
                let weight = f64::from(field_weights[field] * term.weight);
                worth.push(idf * (1.0 + SATURATION) * weight);
            }
        }
        Self {
            terms: terms.iter().map(|term| term.text.as_str()).collect(),
            fields,
        }
    }
}

/// The rarest terms, which come first: as many as can be read in good time, at least one.
fn driving(terms: &[QueryTerm]) -> Vec<&str> {
    let mut postings = 0;
    terms
        .iter()
        .take_while(|term| {
            let is_first = postings == 0;
            postings += term.document_frequency.max(1);
            is_first || postings <= POSTINGS_MAX
        })
        .map(|term| term.text.as_str())
        .collect()
}

/// The form of a search's statement.
#[derive(Clone, Copy)]
struct Shape {
    /// Whether only records with one of the rarest terms are examined.
    is_narrow: bool,
    dense: DenseLeg,
}

/// The part of a search that compares vectors.
#[derive(Clone, Copy)]
enum DenseLeg {
    None,
    /// One by one.
    Exact,
    /// Through the index over vectors of this dimension.
    Near(usize),
}

impl Shape {
    fn text(self) -> String {
        let filter = filter::condition(7);
        let lexical = match self.is_narrow {
            false => {
                "FROM asked a JOIN postings p ON p.term = a.term JOIN records r ON r.number = p.record"
            }
            true => {
                "FROM (SELECT DISTINCT record FROM postings WHERE term = ANY($14)) d \
                 JOIN records r ON r.number = d.record JOIN postings p ON p.record = d.record \
                 JOIN asked a ON a.term = p.term"
            }
        };
        let dense = match self.dense {
            DenseLeg::Near(dimension) => format!(", dense AS ({})", near::candidates(dimension)),
            DenseLeg::Exact => format!(
                ", dense AS (SELECT r.number FROM records r JOIN passages v ON v.record = r.number \
                 WHERE r.model = $15 AND {filter} GROUP BY r.number \
                 HAVING min(v.embedding <#> $16::vector) < 0 \
                 ORDER BY min(v.embedding <#> $16::vector), r.id LIMIT $12)"
            ),
            DenseLeg::None => String::new(),
        };
        let (dense_too, cosine) = match self.dense {
            DenseLeg::Exact | DenseLeg::Near(_) => (
                "UNION SELECT number FROM dense",
                "CASE WHEN r.model = $15 THEN \
                 (SELECT -min(v.embedding <#> $16::vector) FROM passages v WHERE v.record = r.number) END",
            ),
            DenseLeg::None => ("", "NULL::float8"),
        };
        // Scores are added in one order, so that equal records get equal scores.
        format!(
            "WITH asked AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3, $4, $5) AS a(term, title, aliases, tags, body)), \
             lexical AS (SELECT r.number {lexical} WHERE {filter} GROUP BY r.number \
             ORDER BY sum({BM25}) DESC, r.id LIMIT $12){dense}, \
             written AS (SELECT r.number FROM records r WHERE r.id = ANY($13) AND {filter}), \
             named AS (SELECT number FROM written UNION ALL \
             SELECT r.number FROM records r WHERE r.id = ANY($17) AND {filter} AND NOT EXISTS (SELECT FROM written)), \
             found AS (SELECT number FROM lexical {dense_too} UNION SELECT number FROM named) \
             SELECT r.number, r.id, r.generation, \
             coalesce((SELECT sum({BM25} ORDER BY a.term) FROM asked a JOIN postings p ON p.term = a.term \
             AND p.record = r.number), 0)::float8, ({cosine})::float8, r.number IN (SELECT number FROM named) \
             FROM found JOIN records r ON r.number = found.number"
        )
    }
}
