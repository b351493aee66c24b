//! Analyses the records of a database again if an earlier version of the program wrote their words, because questions would not match
//! those words. Knows no folder: the texts are in the database.

use super::connection::Link;
use super::error::PostgresError;
use super::postings::Postings;
use super::publish::{add_words, forget_words};
use super::schema::{analyser_number, next_generation};
use super::source::content_hash;
use crate::analysis;
use windlass_contract::handler::Record;

/// The SQLSTATE of a missing right.
const NO_RIGHT: &str = "42501";

/// Records of one transaction.
const STEP_RECORDS_MAX: i64 = 100;

/// Renews the words if another analysis than this program's made them. Waits for another server that does so already.
pub(super) async fn renew(link: &mut Link, schema: &str) -> Result<(), PostgresError> {
    if is_current(link).await? {
        return Ok(());
    }
    link.client
        .batch_execute("SET statement_timeout = '10min'; SET lock_timeout = '10min'")
        .await?;
    let name = format!("windlass writes {schema}");
    link.client
        .query_one("SELECT pg_advisory_lock(hashtext($1))", &[&name])
        .await?;
    let renewed = renew_all(link).await;
    // If the lock cannot be released, the connection is lost, and the lock with it.
    let _ = link
        .client
        .batch_execute("SELECT pg_advisory_unlock_all()")
        .await;
    renewed.map_err(|error| match error {
        PostgresError::Refused { message, code } if code == NO_RIGHT => {
            PostgresError::Outdated(message)
        }
        other => other,
    })
}

async fn is_current(link: &Link) -> Result<bool, PostgresError> {
    let row = link
        .client
        .query_one("SELECT analyser FROM base", &[])
        .await?;
    let (found, known) = (row.get::<_, i32>(0), analyser_number());
    match found > known {
        true => Err(PostgresError::Version { found, known }),
        false => Ok(found == known),
    }
}

/// Each step is one transaction. An interrupted renewal starts again; renewed words stay the same.
async fn renew_all(link: &mut Link) -> Result<(), PostgresError> {
    // Another server may have renewed them meanwhile.
    if is_current(link).await? {
        return Ok(());
    }
    let mut analyser = analysis::indexing();
    let mut last = i64::MIN;
    loop {
        let step = link.client.transaction().await?;
        let rows = step
            .query(
                "SELECT number, content::text FROM records WHERE number > $1 ORDER BY number LIMIT $2 FOR UPDATE",
                &[&last, &STEP_RECORDS_MAX],
            )
            .await?;
        let Some(row) = rows.last() else {
            step.execute("UPDATE base SET analyser = $1", &[&analyser_number()])
                .await?;
            next_generation(&step).await?;
            step.commit().await?;
            return Ok(());
        };
        last = row.get(0);
        let mut numbers: Vec<i64> = Vec::with_capacity(rows.len());
        let mut hashes: Vec<Vec<u8>> = Vec::with_capacity(rows.len());
        let mut postings: Vec<Postings> = Vec::with_capacity(rows.len());
        for row in &rows {
            let content: &str = row.get(1);
            // A row of another program that is no record gets no words, so no search finds it.
            if let Ok(record) = serde_json::from_str::<Record>(content) {
                numbers.push(row.get(0));
                hashes.push(content_hash(content).to_vec());
                postings.push(Postings::of(&record, &mut analyser));
            }
        }
        forget_words(&step, &numbers).await?;
        let words: Vec<(i64, &Postings)> = numbers.iter().copied().zip(&postings).collect();
        add_words(&step, &words).await?;
        let length = |field: usize| -> Vec<i32> {
            let lengths = postings.iter().map(|postings| postings.lengths[field]);
            lengths.collect()
        };
        step.execute(
            "UPDATE records r SET content_hash = u.hash, title_length = u.title, aliases_length = u.aliases, \
             tags_length = u.tags, body_length = u.body FROM unnest($1::bigint[], $2::bytea[], $3::integer[], \
             $4::integer[], $5::integer[], $6::integer[]) AS u(number, hash, title, aliases, tags, body) \
             WHERE r.number = u.number",
            &[&numbers, &hashes, &length(0), &length(1), &length(2), &length(3)],
        )
        .await?;
        step.commit().await?;
    }
}
