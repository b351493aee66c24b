//! The tables of a base, and their creation. Knows no search.

use super::connection::Link;
use super::error::PostgresError;
use super::renew;
use crate::manifest::ANALYSER;
use tokio_postgres::{Client, Transaction};

/// Raised when the tables change their meaning.
const VERSION: i32 = 2;
/// The version whose base has no number for the analysis of its words.
const VERSION_WITHOUT_ANALYSER: i32 = 1;
/// The lock of a program that makes tables, so that two programs that start at once do not collide.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext('windlass tables'))";

/// One row for each record, for each different word of a record, for each passage with a vector, for each word of the base, and one for
/// the base.
const TABLES: &str = r#"
CREATE TABLE IF NOT EXISTS base (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    version integer NOT NULL,
    generation bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS records (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    namespace text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    title text NOT NULL,
    aliases text[] NOT NULL,
    tags text[] NOT NULL,
    updated bigint,
    content json NOT NULL,
    content_hash bytea NOT NULL,
    vectors_hash bytea NOT NULL,
    model text COLLATE "C",
    title_length integer NOT NULL,
    aliases_length integer NOT NULL,
    tags_length integer NOT NULL,
    body_length integer NOT NULL,
    generation bigint NOT NULL
);
COMMENT ON COLUMN records.updated IS 'microseconds since 1970, UTC';
COMMENT ON COLUMN records.model IS 'the model that made the vectors of its passages';
CREATE TABLE IF NOT EXISTS postings (
    term text COLLATE "C" NOT NULL,
    record bigint NOT NULL,
    title integer NOT NULL,
    aliases integer NOT NULL,
    tags integer NOT NULL,
    body integer NOT NULL,
    PRIMARY KEY (term, record)
);
CREATE INDEX IF NOT EXISTS postings_record ON postings (record);
CREATE TABLE IF NOT EXISTS terms (
    term text COLLATE "C" PRIMARY KEY,
    title bigint NOT NULL,
    aliases bigint NOT NULL,
    tags bigint NOT NULL,
    body bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS passages (
    record bigint NOT NULL,
    position integer NOT NULL,
    embedding vector NOT NULL,
    PRIMARY KEY (record, position)
);
ALTER TABLE base ADD COLUMN IF NOT EXISTS analyser integer NOT NULL DEFAULT 1;
COMMENT ON COLUMN base.analyser IS 'the analysis that made the words';
UPDATE base SET version = 2 WHERE version = 1;
"#;

/// Makes the tables and the vector type reachable by unqualified names.
pub(super) async fn search_path(client: &Client, schema: &str) -> Result<String, PostgresError> {
    let found = client
        .query_opt(
            "SELECT n.nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace \
             WHERE e.extname = 'vector'",
            &[],
        )
        .await?;
    let extension = match &found {
        Some(row) => row.get::<_, String>(0).replace('"', "\"\""),
        None => "public".to_owned(),
    };
    Ok(format!("SET search_path = \"{schema}\", \"{extension}\""))
}

/// The state of a base's tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Missing,
    /// The tables of an earlier version.
    Old,
    Current,
}

/// The number of this program's analysis, as the base stores it.
pub(super) fn analyser_number() -> i32 {
    i32::try_from(ANALYSER).unwrap_or(i32::MAX)
}

async fn state(client: &Client, schema: &str) -> Result<State, PostgresError> {
    let table = format!("{schema}.base");
    let row = client
        .query_one("SELECT to_regclass($1) IS NOT NULL", &[&table])
        .await?;
    if !row.get::<_, bool>(0) {
        return Ok(State::Missing);
    }
    let row = client.query_opt("SELECT version FROM base", &[]).await?;
    match row.map(|row| row.get::<_, i32>(0)) {
        None => Ok(State::Missing),
        Some(VERSION) => Ok(State::Current),
        Some(VERSION_WITHOUT_ANALYSER) => Ok(State::Old),
        Some(found) => Err(PostgresError::Version {
            found,
            known: VERSION,
        }),
    }
}

/// Makes missing parts: the extension, the schema and its tables, and the additions of a new version. Needs the right to do so only if a
/// part is missing.
pub(super) async fn prepare(link: &mut Link, schema: &str) -> Result<(), PostgresError> {
    match state(&link.client, schema).await? {
        State::Current => {}
        State::Missing => {
            make(&mut link.client, schema).await?;
            make_tables(&mut link.client).await?;
        }
        State::Old => make_tables(&mut link.client)
            .await
            .map_err(|error| match error {
                PostgresError::Refused { message, .. } => PostgresError::Outdated(message),
                other => other,
            })?,
    }
    renew::renew(link, schema).await
}

async fn make(client: &mut Client, schema: &str) -> Result<(), PostgresError> {
    let step = client.transaction().await?;
    step.query_one(LOCK, &[]).await?;
    step.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\""))
        .await?;
    if step
        .batch_execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        .await
        .is_err()
    {
        return Err(PostgresError::NoVectors);
    }
    step.commit().await?;
    let path = search_path(client, schema).await?;
    client.batch_execute(&path).await?;
    Ok(())
}

async fn make_tables(client: &mut Client) -> Result<(), PostgresError> {
    let step = client.transaction().await?;
    step.query_one(LOCK, &[]).await?;
    step.batch_execute(TABLES).await?;
    step.execute(
        "INSERT INTO base (version, generation, analyser) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING",
        &[&VERSION, &analyser_number()],
    )
    .await?;
    step.commit().await?;
    Ok(())
}

/// Raises the generation of the base; its servers check for changes by it.
pub(super) async fn next_generation(step: &Transaction<'_>) -> Result<i64, PostgresError> {
    let row = step
        .query_one(
            "UPDATE base SET generation = generation + 1 RETURNING generation",
            &[],
        )
        .await?;
    Ok(row.get(0))
}
