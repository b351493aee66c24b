//! Reads back the rows of the database, and compares them with their source. Writes nothing.

use super::connection::Link;
use super::error::PostgresError;
use super::source::Source;
use crate::catalogue::Ordinal;
use std::collections::HashMap;

/// The records that are read back at a time.
const STEP_RECORDS: usize = 500;

/// Compares every record and every vector with the source; returns the number of records.
pub(super) async fn all(
    link: &Link,
    source: &Source<'_>,
    records: usize,
) -> Result<usize, PostgresError> {
    let ordinals: Vec<Ordinal> = (0..records as Ordinal).collect();
    for step in ordinals.chunks(STEP_RECORDS) {
        let ids: Vec<&str> = step.iter().map(|ordinal| source.id(*ordinal)).collect();
        let contents = link
            .client
            .query(
                "SELECT id, content::text FROM records WHERE id = ANY($1)",
                &[&ids],
            )
            .await?;
        let contents: HashMap<&str, &str> = contents
            .iter()
            .map(|row| (row.get(0), row.get(1)))
            .collect();
        let rows = link
            .client
            .query(
                "SELECT r.id, v.embedding::real[] FROM records r JOIN passages v ON v.record = r.number \
                 WHERE r.id = ANY($1) ORDER BY r.id, v.position",
                &[&ids],
            )
            .await?;
        let mut vectors: HashMap<&str, Vec<Vec<f32>>> = HashMap::new();
        for row in &rows {
            vectors.entry(row.get(0)).or_default().push(row.get(1));
        }
        for ordinal in step {
            let id = source.id(*ordinal);
            let is_content = contents.get(id) == Some(&source.content(*ordinal)?.as_str());
            let read = vectors.remove(id).unwrap_or_default();
            if !is_content || !source.vectors(*ordinal).eq(read) {
                return Err(PostgresError::Differs(id.to_owned()));
            }
        }
    }
    let count: i64 = link
        .client
        .query_one("SELECT count(*) FROM records", &[])
        .await?
        .get(0);
    match usize::try_from(count) {
        Ok(count) if count == records => Ok(records),
        _ => Err(PostgresError::Differs(format!(
            "{count} records instead of {records}"
        ))),
    }
}
