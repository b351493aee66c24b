//! The approximate index over the vectors of a large base: when it exists, how it is made, and how a search uses it. Below a limit, and
//! for filters that few records pass, vectors are compared one by one instead.

use super::connection::Link;
use super::error::PostgresError;
use super::filter;
use super::schema::next_generation;
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

/// The first version of pgvector whose index continues beyond its first results until enough have passed the filters.
const VERSION_MIN: (u32, u32) = (0, 8);
/// The links of a vector to neighbours, and the candidates examined for a new vector. Twice pgvector's defaults: the index is built once
/// and searched often, and vectors of one subject lie close together.
const LINKS: u32 = 32;
const BUILD_WIDTH: u32 = 128;
/// The vectors that a search holds at a time: with fewer, some of the closest are missed.
const SEARCH_WIDTH: u32 = 400;
/// The most vectors that a search examines to find ones that pass its filters.
const LOOKED_AT_MAX: u32 = 200_000;
/// The memory for them, in multiples of the server's `work_mem`, usually 4 MB. With a factor of 1 a search gives up long before, and
/// returns distant vectors instead of close ones.
const MEMORY_MAX: u32 = 32;
/// The most numbers of a vector that the index can hold.
const DIMENSION_MAX: usize = 4_000;
/// The passages requested for each wanted record: a record's passages are often neighbours.
const PASSAGES_FOR_ONE: u32 = 4;

/// The prefix of the names of all indexes.
const NAME: &str = "passages_near_";

/// The index's name, which contains the dimension of its vectors.
fn name(dimension: usize) -> String {
    format!("{NAME}{dimension}")
}

/// Whether vectors of this dimension have an index that can be searched.
pub(super) async fn is_there(
    moment: &Transaction<'_>,
    dimension: usize,
) -> Result<bool, PostgresError> {
    let row = moment
        .query_one(
            "SELECT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
             WHERE i.indrelid = to_regclass('passages') AND c.relname = $1 AND i.indisvalid)",
            &[&name(dimension)],
        )
        .await?;
    Ok(row.get(0))
}

/// Makes the index of a base's vectors if there are more of them than are compared one by one, and drops all other indexes. `dimension`
/// is that of the base's model, if it has one. Returns whether there is an index now.
pub(super) async fn keep(
    link: &mut Link,
    dimension: Option<usize>,
    passages: usize,
    exact_max: usize,
) -> Result<bool, PostgresError> {
    let dimension = dimension.filter(|dimension| *dimension <= DIMENSION_MAX);
    let wanted = match dimension.filter(|_| passages > exact_max) {
        Some(dimension) if knows_it(link).await? => Some(dimension),
        Some(_) | None => None,
    };
    // Searches wait while an index is dropped, so this is finished before a new index is made, which takes minutes.
    let is_there = drop_others(link, wanted).await?;
    if let (Some(dimension), false) = (wanted, is_there) {
        create(link, dimension).await?;
    }
    Ok(wanted.is_some())
}

/// Drops unwanted and unfinished indexes; whether the wanted one exists.
async fn drop_others(link: &mut Link, wanted: Option<usize>) -> Result<bool, PostgresError> {
    let wanted = wanted.map(name);
    let step = link.client.transaction().await?;
    let rows = step
        .query(
            "SELECT c.relname::text, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
             WHERE i.indrelid = to_regclass('passages') AND starts_with(c.relname::text, $1)",
            &[&NAME],
        )
        .await?;
    let known = rows.iter().map(|row| (row.get(0), row.get(1)));
    let (kept, dropped): (Vec<(String, bool)>, Vec<_>) =
        known.partition(|(name, is_valid)| *is_valid && Some(name) == wanted.as_ref());
    if !dropped.is_empty() {
        step.batch_execute("SET LOCAL lock_timeout = '10s'").await?;
        for (name, _) in &dropped {
            let name = name.replace('"', "\"\"");
            step.batch_execute(&format!("DROP INDEX \"{name}\""))
                .await?;
        }
        // The servers of the base check for the index when the generation has changed.
        next_generation(&step).await?;
    }
    step.commit().await?;
    Ok(!kept.is_empty())
}

/// Searches continue meanwhile. An interrupted creation leaves nothing behind.
async fn create(link: &mut Link, dimension: usize) -> Result<(), PostgresError> {
    let name = name(dimension);
    let step = link.client.transaction().await?;
    // Parallel workers need shared memory, and containers have little of it. A single process can always build.
    step.batch_execute(&format!(
        "SET LOCAL statement_timeout = '1h'; SET LOCAL lock_timeout = '1min'; SET LOCAL maintenance_work_mem = '512MB'; \
         SET LOCAL max_parallel_maintenance_workers = 0; \
         CREATE INDEX {name} ON passages USING hnsw ((embedding::halfvec({dimension})) halfvec_ip_ops) \
         WITH (m = {LINKS}, ef_construction = {BUILD_WIDTH}) WHERE vector_dims(embedding) = {dimension}"
    ))
    .await?;
    // The servers of the base check for the index when the generation has changed.
    next_generation(&step).await?;
    step.commit().await?;
    Ok(())
}

/// Whether the extension is new enough.
async fn knows_it(link: &Link) -> Result<bool, PostgresError> {
    let row = link
        .client
        .query_opt(
            "SELECT extversion FROM pg_extension WHERE extname = 'vector'",
            &[],
        )
        .await?;
    let version: String = row.map_or_else(String::new, |row| row.get(0));
    let mut numbers = version
        .split('.')
        .map_while(|part| part.parse::<u32>().ok());
    let found = (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    );
    Ok(found >= VERSION_MIN)
}

/// Whether more records pass the filters than are compared one by one.
pub(super) async fn is_wide(
    link: &mut Link,
    filters: [&(dyn ToSql + Sync); 5],
    model: &str,
    exact_max: usize,
) -> Result<bool, PostgresError> {
    let text = format!(
        "SELECT count(*) FROM (SELECT FROM records r WHERE {} AND r.model = $6 LIMIT $7) AS passed",
        filter::condition(1)
    );
    let types = [
        Type::TEXT_ARRAY,
        Type::TEXT,
        Type::TEXT_ARRAY,
        Type::INT8,
        Type::INT8,
        Type::TEXT,
        Type::INT8,
    ];
    let statement = link.statement(&text, &types).await?;
    let limit = i64::try_from(exact_max)
        .unwrap_or(i64::MAX)
        .saturating_add(1);
    let [namespaces, record_type, tags, from, to] = filters;
    let parameters: [&(dyn ToSql + Sync); 7] =
        [namespaces, record_type, tags, from, to, &model, &limit];
    let row = link.client.query_one(&statement, &parameters).await?;
    Ok(row.get::<_, i64>(0) >= limit)
}

/// Settings of a connection that uses the index.
pub(super) fn settings() -> String {
    format!(
        "SELECT set_config('hnsw.iterative_scan', 'strict_order', false), \
         set_config('hnsw.ef_search', '{SEARCH_WIDTH}', false), \
         set_config('hnsw.max_scan_tuples', '{LOOKED_AT_MAX}', false), \
         set_config('hnsw.scan_mem_multiplier', '{MEMORY_MAX}', false)"
    )
}

/// The records with the closest passages by the index. The filters are checked for one record at a time, in the order of the index, so
/// that the planner has no other way.
pub(super) fn candidates(dimension: usize) -> String {
    let distance = |vector: &str| {
        format!("{vector}::halfvec({dimension}) <#> $16::vector::halfvec({dimension})")
    };
    let distance = distance("v.embedding");
    let passes = filter::condition(7);
    format!(
        "SELECT n.record AS number FROM (SELECT v.record, {distance} AS distance FROM passages v \
         WHERE vector_dims(v.embedding) = {dimension} AND EXISTS (SELECT FROM records r \
         WHERE r.number = v.record AND r.model = $15 AND {passes} OFFSET 0) \
         ORDER BY {distance} LIMIT $12 * {PASSAGES_FOR_ONE}) AS n \
         GROUP BY n.record HAVING min(n.distance) < 0 ORDER BY min(n.distance), n.record LIMIT $12"
    )
}
