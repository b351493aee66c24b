//! The migration that makes documents of rows: of effects, approval requests, conversations, legs and deliveries. Knows how version 11 kept
//! them, a column for each field.

use crate::document::{
    ConversationColumns, DeliveryColumns, EffectColumns, LegColumns, QuestionColumns,
};
use crate::effect::Effect;
use crate::id::{EffectKey, EntryNumber, Epoch, Nonce, OwnerId, QuestionNumber};
use crate::leg::{Became, Conversation, Delivery, Heading, Leg};
use crate::log::{EffectState, QuestionState};
use crate::party::{Parties, PartyHash};
use crate::question::Question;
use crate::sqlite::tables::{body, loaded_number, loaded_time, number, odd, time};
use rusqlite::types::FromSql;
use rusqlite::{Connection, Row, params};
use serde::de::DeserializeOwned;
use windlass_contract::id::{
    ClientId, ConversationId, EffectId, SessionId, TenantId, ToolId, UserId,
};
use windlass_contract::sensitive::Sensitive;

/// Moves each row into a table whose columns are those that statements name, and the body. An index goes with its table and is made anew.
pub(super) fn keep_documents(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TABLES)?;
    move_conversations(connection)?;
    move_legs(connection)?;
    move_effects(connection)?;
    move_questions(connection)?;
    move_deliveries(connection)?;
    connection.execute_batch(
        "
    DROP TABLE conversations; ALTER TABLE documents_of_conversations RENAME TO conversations;
    DROP TABLE legs; ALTER TABLE documents_of_legs RENAME TO legs;
    DROP TABLE effects; ALTER TABLE documents_of_effects RENAME TO effects;
    DROP TABLE questions; ALTER TABLE documents_of_questions RENAME TO questions;
    DROP TABLE deliveries; ALTER TABLE documents_of_deliveries RENAME TO deliveries;
",
    )?;
    connection.execute_batch(INDEXES)
}

/// The body is each row's last column: statements that look at the others do not read it.
const TABLES: &str = "
    CREATE TABLE documents_of_conversations (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        address BLOB,
        beginner BLOB,
        has_external_content INTEGER NOT NULL,
        last_entry INTEGER NOT NULL,
        messages INTEGER NOT NULL,
        used_at_unix_ms INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (tenant, conversation_id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE documents_of_legs (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        leg TEXT NOT NULL,
        owner TEXT NOT NULL,
        resume_token BLOB NOT NULL,
        expires_at_unix_ms INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (tenant, conversation_id, leg)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE documents_of_effects (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        effect_id TEXT NOT NULL,
        near BLOB NOT NULL,
        parent TEXT,
        ordinal INTEGER,
        tool TEXT NOT NULL,
        key_fingerprint INTEGER NOT NULL,
        state TEXT NOT NULL,
        first_entry INTEGER NOT NULL,
        is_heard INTEGER NOT NULL,
        is_audited INTEGER NOT NULL,
        begun_at_unix_ms INTEGER NOT NULL,
        changed_at_unix_ms INTEGER NOT NULL,
        owner TEXT NOT NULL,
        lease_end_unix_ms INTEGER NOT NULL,
        lookup_at_unix_ms INTEGER,
        task_user TEXT,
        task_is_sent INTEGER,
        body TEXT NOT NULL,
        PRIMARY KEY (tenant, effect_id, conversation_id)
    ) STRICT;
    CREATE TABLE documents_of_questions (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        key BLOB NOT NULL,
        state TEXT NOT NULL,
        is_heard INTEGER NOT NULL,
        expires_at_unix_ms INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (tenant, conversation_id, number)
    ) STRICT;
    CREATE TABLE documents_of_deliveries (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        leg TEXT NOT NULL,
        id TEXT NOT NULL,
        effect_id TEXT,
        question INTEGER,
        body TEXT NOT NULL,
        PRIMARY KEY (tenant, conversation_id, leg, id)
    ) STRICT, WITHOUT ROWID;
";

/// Those of version 11, and its triggers, which count conversations by party.
const INDEXES: &str = "
    CREATE INDEX conversations_by_use ON conversations (used_at_unix_ms);
    CREATE INDEX conversations_by_user ON conversations (tenant, user_id);
    CREATE INDEX conversations_empty_of_address ON conversations (address, used_at_unix_ms)
        WHERE address IS NOT NULL AND last_entry = 0;
    CREATE INDEX conversations_empty_of_beginner ON conversations (beginner, used_at_unix_ms)
        WHERE beginner IS NOT NULL AND last_entry = 0;
    CREATE INDEX conversations_empty_of_tenant ON conversations (tenant, used_at_unix_ms) WHERE last_entry = 0;
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

    CREATE INDEX legs_by_token ON legs (resume_token);
    CREATE INDEX legs_by_end ON legs (expires_at_unix_ms);

    CREATE INDEX effects_by_near ON effects (tenant, conversation_id, near);
    CREATE INDEX effects_by_parent ON effects (tenant, conversation_id, parent, ordinal) WHERE parent IS NOT NULL;
    CREATE INDEX effects_running ON effects (tenant, conversation_id, lease_end_unix_ms, owner) WHERE state = 'running';
    CREATE INDEX effects_unheard ON effects (tenant, conversation_id) WHERE is_heard = 0 AND state <> 'running';
    CREATE INDEX effects_unknown ON effects (lookup_at_unix_ms) WHERE state = 'unknown';
    CREATE INDEX effects_unaudited ON effects (changed_at_unix_ms) WHERE is_audited = 0 AND state <> 'running';
    CREATE INDEX effects_by_change ON effects (changed_at_unix_ms) WHERE state <> 'running' AND task_user IS NULL;
    CREATE INDEX tasks_by_change ON effects (changed_at_unix_ms) WHERE state <> 'running' AND task_user IS NOT NULL;
    CREATE INDEX tasks_by_conversation ON effects (tenant, conversation_id) WHERE task_user IS NOT NULL;
    CREATE INDEX tasks_by_user ON effects (tenant, task_user, begun_at_unix_ms) WHERE task_user IS NOT NULL;
    CREATE INDEX tasks_running ON effects (tenant, task_user) WHERE task_user IS NOT NULL AND state = 'running';
    CREATE INDEX tasks_unsent ON effects (changed_at_unix_ms) WHERE task_is_sent = 0 AND state <> 'running';

    CREATE INDEX questions_by_key ON questions (tenant, conversation_id, key);
    CREATE INDEX questions_open ON questions (tenant, conversation_id, expires_at_unix_ms) WHERE state = 'open';
    CREATE INDEX questions_unheard ON questions (tenant, conversation_id) WHERE is_heard = 0;
    CREATE INDEX questions_by_end ON questions (expires_at_unix_ms);
";

fn move_conversations(connection: &Connection) -> rusqlite::Result<()> {
    let mut kept = connection.prepare("SELECT * FROM conversations")?;
    let mut rows = kept.query([])?;
    let mut insert = connection.prepare(
        "INSERT INTO documents_of_conversations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    while let Some(row) = rows.next()? {
        let conversation = Conversation {
            tenant: TenantId::new(text(row, "tenant")?),
            conversation_id: ConversationId::new(text(row, "conversation_id")?),
            user_id: UserId::new(text(row, "user_id")?),
            parties: Parties {
                address: optional(row, "address")?.map(PartyHash),
                user: optional(row, "beginner")?.map(PartyHash),
            },
            has_external_content: row.get("has_external_content")?,
            last_entry: entry(row, "last_entry")?,
            first_entry: entry(row, "first_entry")?,
            last_question: QuestionNumber(row.get("last_question")?),
            begun_at_unix_ms: moment(row, "begun_at_unix_ms")?,
            used_at_unix_ms: moment(row, "used_at_unix_ms")?,
            heading: Heading {
                title: optional(row, "title")?.map(Sensitive),
                messages: loaded_number(row.get("messages")?),
            },
            standing: json_or_none(row, "standing")?.unwrap_or_default(),
        };
        let columns = ConversationColumns::of(&conversation);
        insert.execute(params![
            conversation.tenant.as_str(),
            conversation.conversation_id.as_str(),
            columns.user_id.as_str(),
            columns.address.map(|address| address.0),
            columns.beginner.map(|beginner| beginner.0),
            columns.has_external_content,
            number(columns.last_entry.0),
            number(columns.messages),
            time(columns.used_at_unix_ms),
            body(&conversation)?,
        ])?;
    }
    Ok(())
}

fn move_legs(connection: &Connection) -> rusqlite::Result<()> {
    let mut kept = connection.prepare("SELECT * FROM legs")?;
    let mut rows = kept.query([])?;
    let mut insert =
        connection.prepare("INSERT INTO documents_of_legs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    while let Some(row) = rows.next()? {
        let leg = Leg {
            leg: SessionId::new(text(row, "leg")?),
            mode: word(row, "mode")?,
            epoch: Epoch(row.get("epoch")?),
            owner: OwnerId(row.get("owner")?),
            client_id: ClientId::new(text(row, "client_id")?),
            resume_token: row.get("resume_token")?,
            body: Sensitive::default(),
            last_number: loaded_number(row.get("last_number")?),
            is_announced: row.get("is_announced")?,
            expires_at_unix_ms: moment(row, "expires_at_unix_ms")?,
        };
        let columns = LegColumns::of(&leg);
        insert.execute(params![
            text(row, "tenant")?,
            text(row, "conversation_id")?,
            columns.leg.as_str(),
            columns.owner.0,
            columns.resume_token,
            time(columns.expires_at_unix_ms),
            body(&leg)?,
        ])?;
    }
    Ok(())
}

fn move_effects(connection: &Connection) -> rusqlite::Result<()> {
    let mut kept = connection.prepare("SELECT * FROM effects")?;
    let mut rows = kept.query([])?;
    let mut insert = connection.prepare(
        "INSERT INTO documents_of_effects VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
             ?17, ?18, ?19, ?20)",
    )?;
    while let Some(row) = rows.next()? {
        let effect = read_effect(row)?;
        if effect.attempts.is_empty() {
            return Err(odd("attempts"));
        }
        // The user is a column of tasks alone.
        let user_id = optional::<String>(row, "task_user")?.unwrap_or_default();
        let user_id = UserId::new(user_id);
        let columns = EffectColumns::of(&effect, &user_id);
        insert.execute(params![
            text(row, "tenant")?,
            text(row, "conversation_id")?,
            columns.effect_id.as_str(),
            columns.near.0,
            columns.parent.map(EffectId::as_str),
            columns.ordinal,
            columns.tool.as_str(),
            // Effects from before it was kept have none.
            row.get::<_, i64>("key_fingerprint")?,
            columns.state,
            number(columns.first_entry.0),
            columns.is_heard,
            columns.is_audited,
            time(columns.begun_at_unix_ms),
            time(columns.changed_at_unix_ms),
            columns.owner,
            time(columns.lease_end_unix_ms),
            columns.lookup_at_unix_ms.map(time),
            columns.task_user.map(UserId::as_str),
            columns.task_is_sent,
            body(&effect)?,
        ])?;
    }
    Ok(())
}

fn read_effect(row: &Row<'_>) -> rusqlite::Result<Effect> {
    let parent = optional(row, "parent")?.map(|parent: String| EffectId::new(parent));
    let onset = optional(row, "onset")?.map(loaded_number);
    Ok(Effect {
        effect_id: EffectId::new(text(row, "effect_id")?),
        key: EffectKey(row.get("key")?),
        near: EffectKey(row.get("near")?),
        key_spec: json(row, "key_spec")?,
        tool: tool(row)?,
        tool_version: row.get("tool_version")?,
        arguments: Sensitive(row.get("arguments")?),
        state: word::<EffectState>(row, "state")?,
        attempts: json(row, "attempts")?,
        receipt: optional(row, "receipt")?.map(Sensitive),
        parent: parent.zip(row.get("ordinal")?),
        leg: SessionId::new(text(row, "leg")?),
        generation: loaded_number(row.get("generation")?),
        onset: onset.map(EntryNumber),
        first_entry: entry(row, "first_entry")?,
        last_entry: entry(row, "last_entry")?,
        is_heard: row.get("is_heard")?,
        lookup: json(row, "lookup")?,
        task: json_or_none(row, "task")?,
        is_audited: row.get("is_audited")?,
        intent: Sensitive(row.get("intent")?),
        begun_at_unix_ms: moment(row, "begun_at_unix_ms")?,
        changed_at_unix_ms: moment(row, "changed_at_unix_ms")?,
    })
}

fn move_questions(connection: &Connection) -> rusqlite::Result<()> {
    let mut kept = connection.prepare("SELECT * FROM questions")?;
    let mut rows = kept.query([])?;
    let mut insert = connection
        .prepare("INSERT INTO documents_of_questions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    while let Some(row) = rows.next()? {
        let question = read_question(row)?;
        let columns = QuestionColumns::of(&question);
        insert.execute(params![
            text(row, "tenant")?,
            text(row, "conversation_id")?,
            columns.number.0,
            columns.key.0,
            columns.state,
            columns.is_heard,
            time(columns.expires_at_unix_ms),
            body(&question)?,
        ])?;
    }
    Ok(())
}

fn read_question(row: &Row<'_>) -> rusqlite::Result<Question> {
    let onset = optional(row, "onset")?.map(loaded_number);
    Ok(Question {
        number: QuestionNumber(row.get("number")?),
        key: EffectKey(row.get("key")?),
        near: EffectKey(row.get("near")?),
        tool: tool(row)?,
        tool_version: row.get("tool_version")?,
        handler_hash: row.get("handler_hash")?,
        arguments: Sensitive(row.get("arguments")?),
        preview: Sensitive(row.get("preview")?),
        hazards: json(row, "hazards")?,
        because: row.get("because")?,
        clock: json_or_none(row, "clock")?,
        mode: word(row, "mode")?,
        user_id: UserId::new(text(row, "user_id")?),
        leg: SessionId::new(text(row, "leg")?),
        call: loaded_number(row.get("call")?),
        generation: loaded_number(row.get("generation")?),
        onset: onset.map(EntryNumber),
        nonce: Nonce(row.get("nonce")?),
        state: word::<QuestionState>(row, "state")?,
        reason: optional(row, "reason")?.map(Sensitive),
        effect_id: optional(row, "effect_id")?.map(|id: String| EffectId::new(id)),
        last_entry: entry(row, "last_entry")?,
        is_heard: row.get("is_heard")?,
        input: json_or_none(row, "input")?,
        asked_at_unix_ms: moment(row, "asked_at_unix_ms")?,
        expires_at_unix_ms: moment(row, "expires_at_unix_ms")?,
    })
}

fn move_deliveries(connection: &Connection) -> rusqlite::Result<()> {
    let mut kept = connection.prepare("SELECT * FROM deliveries")?;
    let mut rows = kept.query([])?;
    let mut insert = connection
        .prepare("INSERT INTO documents_of_deliveries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    while let Some(row) = rows.next()? {
        let effect_id = optional(row, "effect_id")?.map(|id: String| EffectId::new(id));
        let question = optional(row, "question")?.map(QuestionNumber);
        let delivery = Delivery {
            leg: SessionId::new(text(row, "leg")?),
            id: row.get("id")?,
            generation: loaded_number(row.get("generation")?),
            key: EffectKey(row.get("key")?),
            arguments: row.get("arguments")?,
            became: match (effect_id, question) {
                (Some(effect_id), None) => Became::Effect(effect_id),
                (None, Some(question)) => Became::Question(question),
                _ => return Err(odd("effect_id")),
            },
        };
        let columns = DeliveryColumns::of(&delivery);
        insert.execute(params![
            text(row, "tenant")?,
            text(row, "conversation_id")?,
            columns.leg.as_str(),
            columns.id,
            columns.effect_id.map(EffectId::as_str),
            columns.question.map(|question| question.0),
            body(&delivery)?,
        ])?;
    }
    Ok(())
}

fn text(row: &Row<'_>, column: &str) -> rusqlite::Result<String> {
    row.get(column)
}

fn optional<T: FromSql>(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<T>> {
    row.get(column)
}

fn moment(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    Ok(loaded_time(row.get(column)?))
}

fn entry(row: &Row<'_>, column: &str) -> rusqlite::Result<EntryNumber> {
    Ok(EntryNumber(loaded_number(row.get(column)?)))
}

fn tool(row: &Row<'_>) -> rusqlite::Result<ToolId> {
    ToolId::parse(row.get_ref("tool")?.as_str()?).ok_or_else(|| odd("tool"))
}

fn json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|_| odd(column))
}

fn json_or_none<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<T>> {
    match row.get_ref(column)?.as_str_or_null()? {
        None => Ok(None),
        Some(text) => serde_json::from_str(text)
            .map(Some)
            .map_err(|_| odd(column)),
    }
}

/// A word that JSON has as a text.
fn word<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_value(text.into()).map_err(|_| odd(column))
}
