//! Files of earlier versions: a start brings them up to date, and they keep their rows.

use crate::ledger::{conversation, new_leg, nonce, one};
use crate::support::{START_UNIX_MS, open, open_at, request};
use rusqlite::Connection;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;
use windlass_contract::handler::Blocks;
use windlass_contract::id::{ClientId, SessionId, TenantId, UserId};
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{Command, Reply, Request, RequestOrigin};
use windlass_store::{
    Conversation, ConversationRef, DATABASE_FILE, Effect, Entry, EntryNumber, Epoch, Leg, LegRef,
    Question, QuestionNumber, SqliteStore, Store,
};

/// A file that version 11 wrote, with rows of every kind.
const VERSION_11: &str = include_str!("migrations/version_11.sql");
/// The same rows as version 11 read them.
const ROWS: &str = include_str!("migrations/version_11.json");

/// Its conversations: one of many rows, one of another tenant, and one in which nothing was said.
fn talks() -> [ConversationRef; 3] {
    let other = ConversationRef {
        tenant: TenantId::new("other"),
        ..conversation("talk", "bob")
    };
    [
        conversation("talk", "alice"),
        other,
        conversation("empty", "eve"),
    ]
}

/// A folder with a file of version 11, changed by some statements.
fn written(folder: &Path, statements: &str) {
    let file = Connection::open(folder.join(DATABASE_FILE)).unwrap();
    file.execute_batch(VERSION_11).unwrap();
    file.execute_batch(statements).unwrap();
}

/// A list among the rows. Every form of a row has one reader.
fn rows<T: DeserializeOwned>(name: &str) -> T {
    let mut all: Value = serde_json::from_str(ROWS).unwrap();
    let list = all[name].take().to_string();
    serde_json::from_str(&list).unwrap()
}

fn known(store: &SqliteStore, of: &ConversationRef) -> Conversation {
    let found = store.conversation(&of.tenant, &of.conversation_id);
    found.unwrap().unwrap()
}

/// Compares everything in a store with the rows of version 11.
fn check_rows(store: &SqliteStore) {
    let found = talks().map(|of| known(store, &of));
    assert_eq!(found.to_vec(), rows::<Vec<Conversation>>("conversations"));
    let entries = talks().map(|of| store.entries(&of, EntryNumber(0), 1_000).unwrap());
    assert_eq!(entries.to_vec(), rows::<Vec<Vec<Entry>>>("entries"));
    let questions = talks().map(|of| -> Vec<Question> {
        let of_number = |number| store.question_of_number(&of, QuestionNumber(number));
        let found = (1..20).filter_map(|number| of_number(number).unwrap());
        found.collect()
    });
    assert_eq!(questions.to_vec(), rows::<Vec<Vec<Question>>>("questions"));
    for expected in rows::<Vec<Effect>>("effects") {
        let (_, found) = store.effect_of_any(&expected.effect_id).unwrap().unwrap();
        assert_eq!(found, expected);
    }
    let legs = ["leg", "other leg"].map(|leg| {
        let found = store.leg(&new_leg(leg).resume_token).unwrap();
        found.unwrap().1
    });
    assert_eq!(legs.to_vec(), rows::<Vec<Leg>>("legs"));
}

#[test]
fn rows_of_many_columns_become_documents_and_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), "");
    let store = open(folder.path());
    check_rows(&store);
    let effects: Vec<Effect> = rows("effects");
    // No double has these.
    assert_eq!(effects[0].generation, u64::MAX);
    let arguments = effects[0].arguments.expose();
    assert!(arguments.contains("12345678901234567890123") && arguments.contains("1.0e5"));
    assert!(store.blocked(&UserId::new("mallory"), 0).unwrap().is_some());
    assert_eq!(store.ended_clients().unwrap(), [ClientId::new("ended")]);
    drop(store);
    // The next start changes nothing any more.
    check_rows(&open(folder.path()));
}

#[test]
fn what_was_asked_before_is_known_after() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), "");
    let store = open_at(folder.path(), START_UNIX_MS + 30_000);
    let [talk, ..] = talks();
    let leg = LegRef {
        leg: SessionId::new("leg"),
        epoch: Epoch(1),
    };
    let again = |number: u64, delivery: u64, arguments: Option<&str>| {
        let mut again = Request {
            nonce: nonce(700 + delivery),
            origin: RequestOrigin::Model {
                delivery: format!("call_{delivery}"),
                generation: 1,
            },
            ..request(number, &leg)
        };
        if let Some(arguments) = arguments {
            again.arguments = Sensitive(arguments.to_owned());
        }
        one(&store, &talk, Command::Request(Box::new(again)))
    };
    // The message of an effect, in other words; and the one of an approval request, once more.
    let other = again(4, 4, Some("{}"));
    assert!(matches!(other, Reply::Conflict), "{other:?}");
    let asked = again(12, 12, None);
    assert!(matches!(asked, Reply::Ask(_)), "{asked:?}");
    // By its key alone.
    let done = again(8, 77, None);
    let Reply::Replay(done) = done else {
        panic!("{done:?}");
    };
    assert_eq!(done.effect_id.as_str(), "effect-8");
    // The work of the sweep, of the webhook and of the audit.
    let due = store.due().unwrap();
    assert_eq!(due.lookups.len(), 0, "{due:?}");
    assert_eq!(store.unsent_tasks(None, 10).unwrap().len(), 1);
    assert_eq!(store.unaudited(10).unwrap().len(), 3);
}

#[test]
fn a_file_of_version_1_is_brought_up_to_date_and_keeps_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    written(
        folder.path(),
        "CREATE INDEX entries_by_leg ON entries (tenant, conversation_id, leg, leg_number) WHERE leg_number IS NOT NULL;
         DROP INDEX effects_by_near; DROP TABLE key_specs;
         CREATE INDEX effects_by_key ON effects (tenant, conversation_id, key);
         ALTER TABLE effects DROP COLUMN near; ALTER TABLE effects DROP COLUMN key_spec;
         ALTER TABLE effects DROP COLUMN key_fingerprint; ALTER TABLE questions DROP COLUMN near;
         ALTER TABLE questions DROP COLUMN reason; ALTER TABLE questions DROP COLUMN because;
         ALTER TABLE questions DROP COLUMN clock; ALTER TABLE questions DROP COLUMN input;
         DROP TRIGGER conversation_begins; DROP TRIGGER conversation_ends; DROP TABLE parties;
         DROP INDEX conversations_empty_of_address; DROP INDEX conversations_empty_of_beginner;
         DROP INDEX conversations_empty_of_tenant;
         ALTER TABLE conversations DROP COLUMN address; ALTER TABLE conversations DROP COLUMN beginner;
         ALTER TABLE legs DROP COLUMN is_announced; ALTER TABLE legs ADD COLUMN state TEXT NOT NULL DEFAULT 'live';
         DROP INDEX conversations_by_user; DROP TABLE ended_clients;
         ALTER TABLE conversations DROP COLUMN title; ALTER TABLE conversations DROP COLUMN messages;
         DROP INDEX tasks_by_change; DROP INDEX tasks_by_conversation; DROP INDEX tasks_by_user; DROP INDEX tasks_running;
         DROP INDEX tasks_unsent; DROP INDEX effects_by_change;
         CREATE INDEX effects_by_change ON effects (changed_at_unix_ms) WHERE state <> 'running';
         ALTER TABLE effects DROP COLUMN task; ALTER TABLE effects DROP COLUMN task_user;
         ALTER TABLE effects DROP COLUMN task_is_sent;
         ALTER TABLE conversations DROP COLUMN standing;
         UPDATE meta SET value = 1 WHERE name = 'schema';
         INSERT INTO blocks VALUES ('t', 'mallory', 1, '');",
    );
    let store = open(folder.path());
    let [talk, ..] = talks();
    let expected = Conversation {
        parties: Default::default(),
        standing: Vec::new(),
        ..rows::<Vec<Conversation>>("conversations").swap_remove(0)
    };
    assert_eq!(known(&store, &talk), expected);
    assert_eq!(expected.heading.messages, 2);
    drop(store);
    let file = Connection::open(folder.path().join(DATABASE_FILE)).unwrap();
    let count = |statement: &str| -> i64 {
        let counted = file.query_row(statement, [], |row| row.get(0));
        counted.unwrap()
    };
    let indices = count("SELECT count(*) FROM sqlite_schema WHERE name = 'entries_by_leg'");
    let blocks = count("SELECT count(*) FROM blocks WHERE user_id = 'mallory'");
    assert_eq!((indices, blocks), (0, 2));
}

#[test]
fn a_row_of_another_version_is_read_without_the_fields_that_nobody_knows() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), "");
    drop(open(folder.path()));
    let file = Connection::open(folder.path().join(DATABASE_FILE)).unwrap();
    for table in [
        "conversations",
        "effects",
        "questions",
        "legs",
        "deliveries",
    ] {
        let statement = format!(
            "UPDATE {table} SET body = json_set(body, '$.of_a_later_version', json('{{\"a\":[1.5e400]}}'))"
        );
        assert!(file.execute(&statement, []).unwrap() > 0);
    }
    check_rows(&open(folder.path()));
}
