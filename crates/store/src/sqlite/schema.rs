//! The file's tables and how they came to be: one step per version, applied in order and never changed afterwards.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

/// Marks a file as ours: "WNDL" in ASCII. See <https://sqlite.org/fileformat.html#application_id>.
const APPLICATION_ID: i64 = 0x574E_444C;

/// Step `n`, counted from 1, leads from version `n - 1` to version `n`.
const STEPS: [&str; 6] = [
    "
    CREATE TABLE blocks (
        user_id TEXT NOT NULL PRIMARY KEY,
        until_unix_ms INTEGER NOT NULL,
        farewell_message TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX blocks_by_end ON blocks (until_unix_ms);
",
    "
    CREATE TABLE effects (
        effect_id TEXT NOT NULL PRIMARY KEY,
        conversation_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        tool TEXT NOT NULL,
        tool_version TEXT NOT NULL,
        fingerprint BLOB NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('reserved', 'succeeded', 'failed', 'unknown')),
        response TEXT,
        is_answered INTEGER NOT NULL,
        intent TEXT NOT NULL,
        reserved_at_unix_ms INTEGER NOT NULL,
        changed_at_unix_ms INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX effects_by_conversation ON effects (conversation_id);
    CREATE INDEX effects_by_time ON effects (reserved_at_unix_ms);
    CREATE INDEX effects_open ON effects (conversation_id, fingerprint) WHERE state IN ('reserved', 'unknown');
    CREATE INDEX effects_reserved ON effects (reserved_at_unix_ms) WHERE state = 'reserved';

    CREATE TABLE grants (
        token_hash BLOB NOT NULL PRIMARY KEY,
        effect_id TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        tool TEXT NOT NULL,
        tool_version TEXT NOT NULL,
        fingerprint BLOB NOT NULL,
        arguments TEXT NOT NULL,
        preview TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('open', 'declined', 'consumed')),
        expires_at_unix_ms INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX grants_open ON grants (conversation_id) WHERE state = 'open';
    CREATE INDEX grants_by_end ON grants (expires_at_unix_ms);

    CREATE TABLE conversations (
        conversation_id TEXT NOT NULL PRIMARY KEY,
        user_id TEXT NOT NULL,
        begun_at_unix_ms INTEGER NOT NULL,
        used_at_unix_ms INTEGER NOT NULL,
        next_sequence INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX conversations_by_use ON conversations (used_at_unix_ms);

    CREATE TABLE entries (
        conversation_id TEXT NOT NULL REFERENCES conversations ON DELETE CASCADE,
        sequence INTEGER NOT NULL,
        key TEXT,
        body TEXT NOT NULL,
        PRIMARY KEY (conversation_id, sequence)
    ) STRICT;
    CREATE UNIQUE INDEX entries_by_key ON entries (conversation_id, key) WHERE key IS NOT NULL;

    CREATE TABLE snapshots (
        session_id TEXT NOT NULL PRIMARY KEY,
        conversation_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        token_hash BLOB NOT NULL UNIQUE,
        body BLOB NOT NULL,
        expires_at_unix_ms INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX snapshots_by_end ON snapshots (expires_at_unix_ms);
",
    "
    ALTER TABLE snapshots ADD COLUMN next_token_hash BLOB;
    ALTER TABLE snapshots ADD COLUMN previous_token_hash BLOB;
    CREATE UNIQUE INDEX snapshots_by_next_token ON snapshots (next_token_hash) WHERE next_token_hash IS NOT NULL;
    CREATE UNIQUE INDEX snapshots_by_previous_token ON snapshots (previous_token_hash)
        WHERE previous_token_hash IS NOT NULL;
",
    "
    DROP INDEX grants_open;
    CREATE INDEX grants_by_conversation ON grants (conversation_id, expires_at_unix_ms);
",
    // One index serves a conversation's effects and its open wishes. It does not name the state, so that an outcome leaves it
    // alone: every page that a commit changes is written to the log and, later, to the file.
    "
    DROP INDEX effects_by_conversation;
    DROP INDEX effects_open;
    CREATE INDEX effects_by_wish ON effects (conversation_id, fingerprint);
",
    "
    CREATE TABLE readings (
        conversation_id TEXT NOT NULL PRIMARY KEY,
        reader TEXT NOT NULL,
        read_at_unix_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX readings_by_time ON readings (read_at_unix_ms);
",
];

/// How a file stands to this program.
pub(super) enum Age {
    Current,
    Newer {
        found: i64,
        known: i64,
    },
    /// Somebody else's database.
    Foreign,
}

/// Applies the steps that a file lacks, all of them or none. Leaves alone what is not ours or newer than we are. The
/// transaction asks for the right to write even if there is nothing to do, so that a file that cannot be written is
/// found out here and not at the first block.
pub(super) fn bring_up_to_date(connection: &mut Connection) -> rusqlite::Result<Age> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let application_id: i64 =
        transaction.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let table: Option<String> = transaction
        .query_row("SELECT name FROM sqlite_schema LIMIT 1", [], |row| {
            row.get(0)
        })
        .optional()?;
    let found: i64 = match (application_id, table) {
        (APPLICATION_ID, _) => transaction.query_row(
            "SELECT coalesce(max(version), 0) FROM schema_version",
            [],
            |row| row.get(0),
        )?,
        (0, None) => {
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.execute_batch(
                "CREATE TABLE schema_version (version INTEGER NOT NULL PRIMARY KEY) STRICT",
            )?;
            0
        }
        _ => return Ok(Age::Foreign),
    };
    let known = STEPS.len() as i64;
    if found > known {
        return Ok(Age::Newer { found, known });
    }
    for (version, step) in (1_i64..).zip(STEPS) {
        if version > found {
            transaction.execute_batch(step)?;
            transaction.execute(
                "INSERT INTO schema_version (version) VALUES (?1)",
                [version],
            )?;
        }
    }
    transaction.commit()?;
    Ok(Age::Current)
}
