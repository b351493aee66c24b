//! Writes a base from memory into the database, new and changed records only. Each step is one transaction, so that a search sees a
//! record's old or new state, and an interrupted run continues where it stopped.

use super::connection::{Link, Pool, PostgresSettings};
use super::error::PostgresError;
use super::postings::{FIELDS, Postings};
use super::schema::{self, next_generation};
use super::source::{Row, Source};
use super::{near, verify};
use crate::catalogue::Ordinal;
use crate::hash::Hash;
use crate::options::{Observer, Progress};
use crate::search::KnowledgeBase;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;

/// The most records of one transaction, and the most bytes of their contents.
const STEP_RECORDS_MAX: usize = 200;
const STEP_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The changed records from which on the database's own statistics are renewed.
const ANALYSE_MIN: usize = 100;

/// The result of writing a base into a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Published {
    /// The records that the database holds now.
    pub records: usize,
    pub written: usize,
    pub unchanged: usize,
    pub removed: usize,
    /// The vectors of passages that the database holds now.
    pub vectors: usize,
    /// Whether these vectors have an approximate index now.
    pub indexed: bool,
    /// The records that were read back and matched what was written.
    pub verified: usize,
}

/// Makes the database hold exactly the records and vectors of a base, and reads them back. A lock keeps two runs apart.
pub async fn publish(
    settings: &PostgresSettings,
    base: &KnowledgeBase,
    observer: &mut Observer<'_>,
) -> Result<Published, PostgresError> {
    let pool = Pool::new(settings)?;
    let mut link = pool.connect().await?;
    schema::prepare(&mut link, pool.schema()).await?;
    lock(&link, pool.schema()).await?;
    let published = write_all(&mut link, base, settings.exact_max, observer).await;
    // The lock ends with the connection as well, but a little later, and would stop an immediate next run. If it cannot be released here,
    // the connection is lost, and the lock with it.
    let _ = link
        .client
        .batch_execute("SELECT pg_advisory_unlock_all()")
        .await;
    published
}

async fn write_all(
    link: &mut Link,
    base: &KnowledgeBase,
    exact_max: usize,
    observer: &mut Observer<'_>,
) -> Result<Published, PostgresError> {
    link.client
        .batch_execute("SET statement_timeout = '10min'")
        .await?;
    let there = there(link).await?;
    if base.is_empty() && !there.is_empty() {
        return Err(PostgresError::WouldEmpty(there.len() as u64));
    }
    let source = Source::of(base);
    let mut published = Published {
        records: base.len(),
        ..Published::default()
    };
    let begun_ms = (observer.clock_ms)();
    let mut step = Vec::new();
    let mut step_bytes = 0;
    for ordinal in 0..base.len() as Ordinal {
        let (content_hash, vectors_hash) = source.hashes(ordinal)?;
        published.vectors += source.vectors(ordinal).count();
        match there.get(source.id(ordinal)) {
            Some(known) if known.hashes == (content_hash, vectors_hash) => published.unchanged += 1,
            Some(_) | None => {
                let row = source.row(ordinal)?;
                step_bytes += row.content.len();
                step.push(row);
                published.written += 1;
            }
        }
        let is_full = step.len() >= STEP_RECORDS_MAX || step_bytes >= STEP_BYTES_MAX;
        if is_full || ordinal as usize + 1 == base.len() {
            write(link, &source, &step).await?;
            step.clear();
            step_bytes = 0;
            let elapsed_ms = (observer.clock_ms)().saturating_sub(begun_ms);
            let done = ordinal as usize + 1;
            (observer.progress)(Progress::after(done, base.len(), elapsed_ms));
        }
    }
    published.removed = remove(link, base, &there).await?;
    if published.written + published.removed >= ANALYSE_MIN {
        link.client
            .batch_execute("ANALYZE records, postings, terms, passages")
            .await?;
    }
    let model = base.0.dense.as_ref().map(|dense| dense.questions.model());
    let dimension = model.map(|model| model.dimension);
    published.indexed = near::keep(link, dimension, published.vectors, exact_max).await?;
    published.verified = verify::all(link, &source, base.len()).await?;
    Ok(published)
}

/// The lock lasts as long as the connection.
async fn lock(link: &Link, schema: &str) -> Result<(), PostgresError> {
    let name = format!("windlass writes {schema}");
    let row = link
        .client
        .query_one("SELECT pg_try_advisory_lock(hashtext($1))", &[&name])
        .await?;
    row.get::<_, bool>(0)
        .then_some(())
        .ok_or(PostgresError::Busy)
}

/// A record as the database has it.
struct There {
    number: i64,
    hashes: (Hash, Hash),
}

async fn there(link: &Link) -> Result<HashMap<String, There>, PostgresError> {
    let rows = link
        .client
        .query(
            "SELECT id, number, content_hash, vectors_hash FROM records",
            &[],
        )
        .await?;
    let hash = |bytes: &[u8]| Hash::try_from(bytes).unwrap_or_default();
    Ok(rows
        .iter()
        .map(|row| {
            let hashes = (hash(row.get(2)), hash(row.get(3)));
            let number = row.get(1);
            (row.get(0), There { number, hashes })
        })
        .collect())
}

/// Inserts rows, replacing rows with the same ids.
async fn write(
    link: &mut Link,
    source: &Source<'_>,
    rows: &[Row<'_>],
) -> Result<(), PostgresError> {
    if rows.is_empty() {
        return Ok(());
    }
    let step = link.client.transaction().await?;
    let generation = next_generation(&step).await?;
    let numbers = upsert(&step, source, rows, generation).await?;
    let of_rows: Vec<i64> = numbers.values().copied().collect();
    forget_words(&step, &of_rows).await?;
    step.execute("DELETE FROM passages WHERE record = ANY($1)", &[&of_rows])
        .await?;
    let words: Vec<(i64, &Postings)> = rows
        .iter()
        .filter_map(|row| Some((*numbers.get(row.id)?, &row.postings)))
        .collect();
    add_words(&step, &words).await?;
    let mut owners = Vec::new();
    let mut positions: Vec<i32> = Vec::new();
    let mut vectors: Vec<&str> = Vec::new();
    for row in rows {
        for (position, vector) in (0..).zip(&row.vectors) {
            owners.push(numbers.get(row.id).copied());
            positions.push(position);
            vectors.push(vector);
        }
    }
    step.execute(
        "INSERT INTO passages (record, position, embedding) \
         SELECT record, position, embedding::vector FROM unnest($1::bigint[], $2::integer[], $3::text[]) \
         AS v(record, position, embedding)",
        &[&owners, &positions, &vectors],
    )
    .await?;
    step.commit().await?;
    Ok(())
}

/// The numbers of the rows' records, by their ids.
async fn upsert(
    step: &Transaction<'_>,
    source: &Source<'_>,
    rows: &[Row<'_>],
    generation: i64,
) -> Result<HashMap<String, i64>, PostgresError> {
    let contents: Vec<&str> = rows.iter().map(|row| row.content.as_str()).collect();
    let updated: Vec<Option<i64>> = rows.iter().map(|row| row.updated).collect();
    let content_hashes: Vec<&[u8]> = rows.iter().map(|row| &row.content_hash[..]).collect();
    let vectors_hashes: Vec<&[u8]> = rows.iter().map(|row| &row.vectors_hash[..]).collect();
    let models: Vec<Option<&str>> = rows
        .iter()
        .map(|row| source.model.as_deref().filter(|_| !row.vectors.is_empty()))
        .collect();
    let length = |field: usize| -> Vec<i32> {
        let lengths = rows.iter().map(|row| row.postings.lengths[field]);
        lengths.collect()
    };
    let [title, aliases, tags, body] = [length(0), length(1), length(2), length(3)];
    let parameters: [&(dyn ToSql + Sync); 10] = [
        &contents,
        &updated,
        &content_hashes,
        &vectors_hashes,
        &models,
        &title,
        &aliases,
        &tags,
        &body,
        &generation,
    ];
    let written = step
        .query(
            "INSERT INTO records (id, namespace, type, title, aliases, tags, updated, content, content_hash, \
             vectors_hash, model, title_length, aliases_length, tags_length, body_length, generation) \
             SELECT content->>'id', content->>'namespace', content->>'type', content->>'title', \
             ARRAY(SELECT json_array_elements_text(content->'aliases')), \
             ARRAY(SELECT json_array_elements_text(content->'tags')), updated, content, content_hash, vectors_hash, \
             model, title_length, aliases_length, tags_length, body_length, $10 \
             FROM (SELECT text::json AS content, updated, content_hash, vectors_hash, model, title_length, \
             aliases_length, tags_length, body_length FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bytea[], \
             $5::text[], $6::integer[], $7::integer[], $8::integer[], $9::integer[]) \
             AS u(text, updated, content_hash, vectors_hash, model, title_length, aliases_length, tags_length, \
             body_length)) AS given \
             ON CONFLICT (id) DO UPDATE SET namespace = excluded.namespace, type = excluded.type, \
             title = excluded.title, aliases = excluded.aliases, tags = excluded.tags, updated = excluded.updated, \
             content = excluded.content, content_hash = excluded.content_hash, \
             vectors_hash = excluded.vectors_hash, model = excluded.model, title_length = excluded.title_length, \
             aliases_length = excluded.aliases_length, tags_length = excluded.tags_length, \
             body_length = excluded.body_length, generation = excluded.generation RETURNING id, number",
            &parameters,
        )
        .await?;
    Ok(written.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Removes the words of records, and their counts.
pub(super) async fn forget_words(
    step: &Transaction<'_>,
    records: &[i64],
) -> Result<(), PostgresError> {
    step.execute(
        "WITH gone AS (DELETE FROM postings WHERE record = ANY($1) RETURNING term, title, aliases, tags, body), \
         counted AS (SELECT term, count(*) FILTER (WHERE title > 0) AS title, \
         count(*) FILTER (WHERE aliases > 0) AS aliases, count(*) FILTER (WHERE tags > 0) AS tags, \
         count(*) FILTER (WHERE body > 0) AS body FROM gone GROUP BY term) \
         UPDATE terms SET title = terms.title - counted.title, aliases = terms.aliases - counted.aliases, \
         tags = terms.tags - counted.tags, body = terms.body - counted.body \
         FROM counted WHERE terms.term = counted.term",
        &[&records],
    )
    .await?;
    Ok(())
}

/// Adds the words of records, and their counts.
pub(super) async fn add_words(
    step: &Transaction<'_>,
    of_records: &[(i64, &Postings)],
) -> Result<(), PostgresError> {
    let mut terms: Vec<&str> = Vec::new();
    let mut records: Vec<i64> = Vec::new();
    let mut counts: [Vec<i32>; FIELDS] = Default::default();
    let mut frequencies: BTreeMap<&str, [i64; FIELDS]> = BTreeMap::new();
    for (number, postings) in of_records {
        for (term, occurrences) in &postings.terms {
            terms.push(term);
            records.push(*number);
            let frequency = frequencies.entry(term).or_default();
            for (field, count) in occurrences.iter().enumerate() {
                counts[field].push(*count);
                frequency[field] += i64::from(*count > 0);
            }
        }
    }
    let [title, aliases, tags, body] = &counts;
    step.execute(
        "INSERT INTO postings (term, record, title, aliases, tags, body) SELECT * FROM \
         unnest($1::text[], $2::bigint[], $3::integer[], $4::integer[], $5::integer[], $6::integer[])",
        &[&terms, &records, title, aliases, tags, body],
    )
    .await?;
    let terms: Vec<&str> = frequencies.keys().copied().collect();
    let of = |field: usize| -> Vec<i64> {
        let counts = frequencies.values().map(|counts| counts[field]);
        counts.collect()
    };
    step.execute(
        "INSERT INTO terms (term, title, aliases, tags, body) SELECT * FROM \
         unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) \
         ON CONFLICT (term) DO UPDATE SET title = terms.title + excluded.title, \
         aliases = terms.aliases + excluded.aliases, tags = terms.tags + excluded.tags, \
         body = terms.body + excluded.body",
        &[&terms, &of(0), &of(1), &of(2), &of(3)],
    )
    .await?;
    Ok(())
}

/// Removes the records that the base no longer has; returns their number.
async fn remove(
    link: &mut Link,
    base: &KnowledgeBase,
    there: &HashMap<String, There>,
) -> Result<usize, PostgresError> {
    let mut gone: Vec<i64> = there
        .iter()
        .filter(|(id, _)| base.0.catalogue.find(id).is_none())
        .map(|(_, there)| there.number)
        .collect();
    gone.sort_unstable();
    for numbers in gone.chunks(STEP_RECORDS_MAX) {
        let step = link.client.transaction().await?;
        next_generation(&step).await?;
        forget_words(&step, numbers).await?;
        for table in ["passages WHERE record", "records WHERE number"] {
            let text = format!("DELETE FROM {table} = ANY($1)");
            step.execute(&text, &[&numbers]).await?;
        }
        step.commit().await?;
    }
    Ok(gone.len())
}
