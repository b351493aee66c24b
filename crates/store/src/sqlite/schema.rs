//! The file's tables, and the age of a file for this program. Knows no statement but those that make tables.

mod documents;

use crate::leg::Heading;
use crate::log::SaidWords;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use std::collections::BTreeMap;
use windlass_contract::sensitive::Sensitive;

/// Marks a file as ours: "WNDL" in ASCII. See <https://sqlite.org/fileformat.html#application_id>.
const APPLICATION_ID: i64 = 0x574E_444C;

/// Leads from one version to the next, rows included. It may look at the file and is not limited to statements that are known before.
type Migration = fn(&Connection) -> rusqlite::Result<()>;

/// Migration `n`, counted from 1, leads from version `n - 1` to version `n`. A released one never changes, and a new version is one
/// function at the end. All that a file lacks run in one transaction.
const MIGRATIONS: &[Migration] = &[
    make_tables,
    drop_index_by_leg,
    compare_keys,
    find_by_near_keys,
    count_parties,
    name_conversations,
    keep_reasons,
    keep_why_users_are_asked,
    keep_tasks,
    keep_standing_approvals,
    keep_what_services_ask,
    documents::keep_documents,
];

/// The age of a file for this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Current,
    /// The file is ours, in a format from before the first release. Nothing reads it any more.
    Unreleased,
    Newer {
        found: i64,
        known: i64,
    },
    /// Another program's database.
    Foreign,
}

/// Applies the migrations that a file lacks, all of them or none. Changes no file that is another program's, newer or unreleased.
/// The transaction asks for the right to write even if there is nothing to do, so that a file that cannot be written is
/// found here and not at the first command.
pub(super) fn bring_up_to_date(connection: &mut Connection) -> rusqlite::Result<Age> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = match found(&transaction)? {
        Found::Empty => {
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.execute_batch(
                "CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID",
            )?;
            0
        }
        Found::Version(version) => version,
        Found::Unreleased => return Ok(Age::Unreleased),
        Found::Foreign => return Ok(Age::Foreign),
    };
    let age = age_of_version(found);
    if age != Age::Current {
        return Ok(age);
    }
    for (version, migrate) in (1_i64..).zip(MIGRATIONS) {
        if version > found {
            migrate(&transaction)?;
            transaction.execute(
                "INSERT INTO meta (name, value) VALUES ('schema', ?1) ON CONFLICT DO UPDATE SET value = excluded.value",
                [version],
            )?;
        }
    }
    transaction.commit()?;
    Ok(Age::Current)
}

/// The age of a file, which is not changed. A released version counts as current: the next opening brings it up to date.
pub(super) fn age(connection: &Connection) -> rusqlite::Result<Age> {
    Ok(match found(connection)? {
        Found::Version(version) => age_of_version(version),
        Found::Unreleased => Age::Unreleased,
        Found::Empty | Found::Foreign => Age::Foreign,
    })
}

fn age_of_version(found: i64) -> Age {
    let known = MIGRATIONS.len() as i64;
    match found > known {
        true => Age::Newer { found, known },
        false => Age::Current,
    }
}

/// The state of a file by its own marks.
enum Found {
    Empty,
    Version(i64),
    Unreleased,
    Foreign,
}

fn found(connection: &Connection) -> rusqlite::Result<Found> {
    let application_id: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let is_there = |name: &str| -> rusqlite::Result<bool> {
        let statement = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name LIKE ?1)";
        connection.query_row(statement, [name], |row| row.get(0))
    };
    Ok(match (application_id, is_there("%")?) {
        (APPLICATION_ID, _) if is_there("meta")? => {
            let statement = "SELECT value FROM meta WHERE name = 'schema'";
            let version = connection.query_row(statement, [], |row| row.get(0));
            Found::Version(version.optional()?.unwrap_or(0))
        }
        (APPLICATION_ID, _) => Found::Unreleased,
        (0, false) => Found::Empty,
        _ => Found::Foreign,
    })
}

/// A partial index lists only the rows that are waited for. They are few at any time, so that the index stays small and its pages stay
/// in memory. A table with large rows keeps its row id: a tree of large rows is deep.
fn make_tables(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
    "
    CREATE TABLE blocks (
        tenant TEXT NOT NULL,
        user_id TEXT NOT NULL,
        until_unix_ms INTEGER NOT NULL,
        farewell_message TEXT NOT NULL,
        PRIMARY KEY (tenant, user_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX blocks_by_end ON blocks (until_unix_ms);

    CREATE TABLE conversations (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        has_external_content INTEGER NOT NULL,
        last_entry INTEGER NOT NULL,
        first_entry INTEGER NOT NULL,
        last_question INTEGER NOT NULL,
        begun_at_unix_ms INTEGER NOT NULL,
        used_at_unix_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant, conversation_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX conversations_by_use ON conversations (used_at_unix_ms);

    CREATE TABLE legs (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        leg TEXT NOT NULL,
        mode TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        owner TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('live', 'gone')),
        client_id TEXT NOT NULL,
        resume_token BLOB NOT NULL,
        last_number INTEGER NOT NULL,
        expires_at_unix_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant, conversation_id, leg)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX legs_by_token ON legs (resume_token);
    CREATE INDEX legs_by_end ON legs (expires_at_unix_ms);

    CREATE TABLE leg_bodies (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        leg TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (tenant, conversation_id, leg)
    ) STRICT;

    CREATE TABLE effects (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        effect_id TEXT NOT NULL,
        key BLOB NOT NULL,
        tool TEXT NOT NULL,
        tool_version TEXT NOT NULL,
        arguments TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'done', 'not_done', 'unknown')),
        attempts TEXT NOT NULL,
        receipt TEXT,
        parent TEXT,
        ordinal INTEGER,
        leg TEXT NOT NULL,
        generation INTEGER NOT NULL,
        onset INTEGER,
        first_entry INTEGER NOT NULL,
        last_entry INTEGER NOT NULL,
        is_heard INTEGER NOT NULL,
        lookup TEXT NOT NULL,
        is_audited INTEGER NOT NULL,
        intent TEXT NOT NULL,
        begun_at_unix_ms INTEGER NOT NULL,
        changed_at_unix_ms INTEGER NOT NULL,
        -- Of the newest attempt; the owner of one that a service has taken on is empty.
        owner TEXT NOT NULL,
        lease_end_unix_ms INTEGER NOT NULL,
        -- When the handler of an unknown effect is to be asked next.
        lookup_at_unix_ms INTEGER,
        PRIMARY KEY (tenant, effect_id, conversation_id)
    ) STRICT;
    CREATE INDEX effects_by_key ON effects (tenant, conversation_id, key);
    CREATE INDEX effects_by_parent ON effects (tenant, conversation_id, parent, ordinal) WHERE parent IS NOT NULL;
    CREATE INDEX effects_running ON effects (tenant, conversation_id, lease_end_unix_ms, owner) WHERE state = 'running';
    CREATE INDEX effects_unheard ON effects (tenant, conversation_id) WHERE is_heard = 0 AND state <> 'running';
    CREATE INDEX effects_unknown ON effects (lookup_at_unix_ms) WHERE state = 'unknown';
    CREATE INDEX effects_unaudited ON effects (changed_at_unix_ms) WHERE is_audited = 0 AND state <> 'running';
    CREATE INDEX effects_by_change ON effects (changed_at_unix_ms) WHERE state <> 'running';

    CREATE TABLE questions (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        key BLOB NOT NULL,
        tool TEXT NOT NULL,
        tool_version TEXT NOT NULL,
        handler_hash TEXT,
        arguments TEXT NOT NULL,
        preview TEXT NOT NULL,
        hazards TEXT NOT NULL,
        mode TEXT NOT NULL,
        user_id TEXT NOT NULL,
        leg TEXT NOT NULL,
        generation INTEGER NOT NULL,
        onset INTEGER,
        call INTEGER NOT NULL,
        nonce BLOB NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('open', 'approved', 'denied', 'closed')),
        effect_id TEXT,
        last_entry INTEGER NOT NULL,
        is_heard INTEGER NOT NULL,
        asked_at_unix_ms INTEGER NOT NULL,
        expires_at_unix_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant, conversation_id, number)
    ) STRICT;
    CREATE INDEX questions_by_key ON questions (tenant, conversation_id, key);
    CREATE INDEX questions_open ON questions (tenant, conversation_id, expires_at_unix_ms) WHERE state = 'open';
    CREATE INDEX questions_unheard ON questions (tenant, conversation_id) WHERE is_heard = 0;
    CREATE INDEX questions_by_end ON questions (expires_at_unix_ms);

    CREATE TABLE deliveries (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        leg TEXT NOT NULL,
        id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        key BLOB NOT NULL,
        arguments BLOB NOT NULL,
        effect_id TEXT,
        question INTEGER,
        PRIMARY KEY (tenant, conversation_id, leg, id)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE entries (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        at_unix_ms INTEGER NOT NULL,
        leg TEXT,
        leg_number INTEGER,
        key TEXT,
        event TEXT NOT NULL,
        PRIMARY KEY (tenant, conversation_id, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX entries_by_leg ON entries (tenant, conversation_id, leg, leg_number) WHERE leg_number IS NOT NULL;
    CREATE INDEX entries_by_key ON entries (tenant, conversation_id, key) WHERE key IS NOT NULL;

    CREATE TABLE abandoned (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        nonce BLOB NOT NULL,
        at_unix_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant, conversation_id, nonce)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX abandoned_by_time ON abandoned (at_unix_ms);
",
    )
}

fn drop_index_by_leg(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DROP INDEX entries_by_leg")
}

/// Effects from before this migration are compared by their arguments: their keys were made in another way.
fn compare_keys(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "
    ALTER TABLE effects ADD COLUMN near BLOB NOT NULL DEFAULT x'0000000000000000000000000000000000000000000000000000000000000000';
    ALTER TABLE effects ADD COLUMN key_spec TEXT NOT NULL DEFAULT '{\"names\":[]}';
    ALTER TABLE effects ADD COLUMN key_fingerprint INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE questions ADD COLUMN near BLOB NOT NULL DEFAULT x'0000000000000000000000000000000000000000000000000000000000000000';
    CREATE INDEX effects_by_near ON effects (tenant, conversation_id, near);
    CREATE INDEX effects_by_spec ON effects (tenant, conversation_id, tool, key_fingerprint);
",
    )
}

/// One exact key has one near key, so that one index finds both. Effects that were compared in another way are looked for only if there
/// are any, which `key_specs` knows.
fn find_by_near_keys(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "
    CREATE TABLE key_specs (
        tool TEXT NOT NULL,
        key_fingerprint INTEGER NOT NULL,
        used_at_unix_ms INTEGER NOT NULL,
        PRIMARY KEY (tool, key_fingerprint)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO key_specs (tool, key_fingerprint, used_at_unix_ms)
        SELECT tool, key_fingerprint, max(changed_at_unix_ms) FROM effects WHERE parent IS NULL GROUP BY tool, key_fingerprint;
    DROP INDEX effects_by_spec;
    DROP INDEX effects_by_key;
",
    )
}

/// Counts conversations by the parties that began them; earlier ones by their tenant alone. A session that is over has no row.
fn count_parties(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "
    DELETE FROM leg_bodies WHERE (tenant, conversation_id, leg) IN (
        SELECT tenant, conversation_id, leg FROM legs WHERE state = 'gone');
    DELETE FROM legs WHERE state = 'gone';
    ALTER TABLE legs DROP COLUMN state;
    ALTER TABLE legs ADD COLUMN is_announced INTEGER NOT NULL DEFAULT 1;

    ALTER TABLE conversations ADD COLUMN address BLOB;
    ALTER TABLE conversations ADD COLUMN beginner BLOB;
    CREATE INDEX conversations_empty_of_address ON conversations (address, used_at_unix_ms)
        WHERE address IS NOT NULL AND last_entry = 0;
    CREATE INDEX conversations_empty_of_beginner ON conversations (beginner, used_at_unix_ms)
        WHERE beginner IS NOT NULL AND last_entry = 0;
    CREATE INDEX conversations_empty_of_tenant ON conversations (tenant, used_at_unix_ms) WHERE last_entry = 0;

    -- How many conversations each party has; triggers alone write it, so that it is right whoever adds or deletes a conversation.
    CREATE TABLE parties (
        kind TEXT NOT NULL,
        party BLOB NOT NULL,
        conversations INTEGER NOT NULL,
        PRIMARY KEY (kind, party)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO parties (kind, party, conversations)
        SELECT 'tenant', CAST(tenant AS BLOB), count(*) FROM conversations GROUP BY tenant;
    CREATE TRIGGER conversation_begins AFTER INSERT ON conversations BEGIN
        INSERT INTO parties (kind, party, conversations)
            SELECT 'address', new.address, 1 WHERE new.address IS NOT NULL
            ON CONFLICT DO UPDATE SET conversations = conversations + 1;
        INSERT INTO parties (kind, party, conversations)
            SELECT 'user', new.beginner, 1 WHERE new.beginner IS NOT NULL
            ON CONFLICT DO UPDATE SET conversations = conversations + 1;
        INSERT INTO parties (kind, party, conversations) VALUES ('tenant', CAST(new.tenant AS BLOB), 1)
            ON CONFLICT DO UPDATE SET conversations = conversations + 1;
    END;
    CREATE TRIGGER conversation_ends AFTER DELETE ON conversations BEGIN
        UPDATE parties SET conversations = conversations - 1 WHERE kind = 'address' AND party = old.address;
        DELETE FROM parties WHERE kind = 'address' AND party = old.address AND conversations < 1;
        UPDATE parties SET conversations = conversations - 1 WHERE kind = 'user' AND party = old.beginner;
        DELETE FROM parties WHERE kind = 'user' AND party = old.beginner AND conversations < 1;
        UPDATE parties SET conversations = conversations - 1 WHERE kind = 'tenant' AND party = CAST(old.tenant AS BLOB);
        DELETE FROM parties WHERE kind = 'tenant' AND party = CAST(old.tenant AS BLOB) AND conversations < 1;
    END;
",
    )
}

/// Keeps the reasons of denials. Earlier denials have none.
fn keep_reasons(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("ALTER TABLE questions ADD COLUMN reason TEXT")
}

/// Keeps why the tools of approval requests ask for consent, and by which clock. It is unknown for earlier requests.
fn keep_why_users_are_asked(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "ALTER TABLE questions ADD COLUMN because TEXT; ALTER TABLE questions ADD COLUMN clock TEXT",
    )
}

/// Keeps users' approvals for more than one call, as JSON. Earlier approvals are for one call each.
fn keep_standing_approvals(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("ALTER TABLE conversations ADD COLUMN standing TEXT")
}

/// Keeps the questions of tools' services to users, as JSON. Earlier rows have none.
fn keep_what_services_ask(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("ALTER TABLE questions ADD COLUMN input TEXT")
}

/// Keeps each conversation's heading in a list, which earlier ones get from their logs; and the clients that were ended.
fn name_conversations(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "
    ALTER TABLE conversations ADD COLUMN title TEXT;
    ALTER TABLE conversations ADD COLUMN messages INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX conversations_by_user ON conversations (tenant, user_id);
    CREATE TABLE ended_clients (number INTEGER PRIMARY KEY, client_id TEXT NOT NULL UNIQUE) STRICT;
",
    )?;
    let mut headings: BTreeMap<(String, String), Heading> = BTreeMap::new();
    let mut entries = connection.prepare(
        "SELECT tenant, conversation_id, substr(event, 2) FROM entries
         WHERE substr(event, 1, 16) = '={\"kind\":\"words\"' ORDER BY tenant, conversation_id, number",
    )?;
    let mut rows = entries.query([])?;
    while let Some(row) = rows.next()? {
        let said: String = row.get(2)?;
        let Some(words) = SaidWords::of(&said) else {
            continue;
        };
        let heading = headings.entry((row.get(0)?, row.get(1)?)).or_default();
        heading.messages += 1;
        if words.is_users && heading.title.is_none() {
            heading.title = words.title().map(Sensitive);
        }
    }
    for ((tenant, conversation_id), heading) in headings {
        let title = heading.title.as_ref().map(Sensitive::expose);
        connection.execute(
            "UPDATE conversations SET title = ?3, messages = ?4 WHERE tenant = ?1 AND conversation_id = ?2",
            params![tenant, conversation_id, title, heading.messages.cast_signed()],
        )?;
    }
    Ok(())
}

/// Keeps tasks: effects whose end is not waited for. They stay longer than others, and are listed by their users. Earlier effects are
/// none.
fn keep_tasks(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "
    ALTER TABLE effects ADD COLUMN task TEXT;
    ALTER TABLE effects ADD COLUMN task_user TEXT;
    ALTER TABLE effects ADD COLUMN task_is_sent INTEGER;
    DROP INDEX effects_by_change;
    CREATE INDEX effects_by_change ON effects (changed_at_unix_ms) WHERE state <> 'running' AND task_user IS NULL;
    CREATE INDEX tasks_by_change ON effects (changed_at_unix_ms) WHERE state <> 'running' AND task_user IS NOT NULL;
    CREATE INDEX tasks_by_conversation ON effects (tenant, conversation_id) WHERE task_user IS NOT NULL;
    CREATE INDEX tasks_by_user ON effects (tenant, task_user, begun_at_unix_ms) WHERE task_user IS NOT NULL;
    CREATE INDEX tasks_running ON effects (tenant, task_user) WHERE task_user IS NOT NULL AND state = 'running';
    CREATE INDEX tasks_unsent ON effects (changed_at_unix_ms) WHERE task_is_sent = 0 AND state <> 'running';
",
    )
}
