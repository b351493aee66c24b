//! What the file brings: it survives, it is shared, and what is wrong with it is said clearly.

use crate::contract::block;
use rusqlite::Connection;
use std::path::Path;
use windlass_store::{DATABASE_FILE, OpenError, SqliteStore, Store, StoreUnavailable};
use windlass_tool::handler::Blocks;
use windlass_tool::id::{ConversationId, SessionId, UserId};

fn is_blocked(folder: &Path, user: &str) -> bool {
    let store = SqliteStore::open(folder).unwrap();
    store.blocked(&UserId::new(user), 0).unwrap().is_some()
}

#[test]
fn a_block_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    store.block(block("mallory", 1_000, "Bye")).unwrap();
    drop(store);
    assert!(is_blocked(folder.path(), "mallory"));
    assert!(!is_blocked(folder.path(), "alice"));
}

#[test]
fn a_block_survives_a_process_that_never_closes_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    store.block(block("mallory", 1_000, "Bye")).unwrap();
    // What a killed process leaves behind: the database with its log not yet folded in.
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_name().to_str().unwrap().ends_with("-shm") {
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
    }
    assert!(is_blocked(copy.path(), "mallory"));
}

#[test]
fn a_file_that_was_deleted_or_replaced_takes_nothing_that_the_next_process_would_not_find() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    store.block(block("mallory", 1_000, "Bye")).unwrap();
    let is_known = || {
        let known = store.blocked(&UserId::new("mallory"), 0);
        known.unwrap().is_some()
    };
    assert!(is_known());
    let path = folder.path().join(DATABASE_FILE);
    let away = folder.path().join("away.db");
    std::fs::rename(&path, &away).unwrap();
    let begin = || {
        let store: &dyn Store = &store;
        let conversation = ConversationId::new("c");
        store.ask(|tables| tables.open_conversation(&conversation, &UserId::new("eve"), 1))
    };
    let moved = StoreUnavailable::Moved { path: path.clone() };
    assert_eq!(begin(), Err(moved.clone()));
    let refused = store.block(block("eve", 1_000, "Bye")).unwrap_err();
    assert!(refused.to_string().ends_with(&moved.to_string()));
    // What is known is read all the same.
    assert!(is_known());
    std::fs::write(&path, "").unwrap();
    assert_eq!(begin(), Err(moved));
    std::fs::rename(&away, &path).unwrap();
    store.block(block("eve", 1_000, "Bye")).unwrap();
    assert!(is_blocked(folder.path(), "eve"));
}

#[test]
fn the_file_is_logged_ahead_and_its_tables_are_strict() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    store.block(block("mallory", 1_000, "Bye")).unwrap();
    let connection = Connection::open(folder.path().join(DATABASE_FILE)).unwrap();
    let mode: String = connection
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
    let strict: i64 = connection
        .query_row(
            "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite%' AND strict = 0",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(strict, 0);
}

#[test]
fn several_processes_may_open_a_new_folder_at_once_and_share_it() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let folder = &folder.path().join("not").join("there").join("yet");
        std::thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || {
                    let store = SqliteStore::open(folder).unwrap();
                    store
                        .block(block(&format!("user-{number}"), 1_000, ""))
                        .unwrap();
                });
            }
        });
        let store = SqliteStore::open(folder).unwrap();
        assert_eq!(store.prune(1_000), Ok(4));
    }
}

/// Spoils a data folder, opens it, and compares the message, in which `{}` stands for the folder.
fn check_refused(spoil: impl Fn(&Path), is_expected: impl Fn(&OpenError) -> bool, message: &str) {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    spoil(&folder);
    let error = SqliteStore::open(&folder).unwrap_err();
    assert!(is_expected(&error), "{error:?}");
    assert_eq!(
        error.to_string(),
        message.replace("{}", folder.to_str().unwrap())
    );
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    check_refused(
        |folder| std::fs::write(folder, "a file").unwrap(),
        |error| matches!(error, OpenError::NotWritable { .. }),
        "the data folder {} cannot be written: File exists (os error 17); make it writable, or name another one",
    );
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    std::fs::create_dir(folder.join(DATABASE_FILE)).unwrap();
    let error = SqliteStore::open(folder).unwrap_err();
    assert!(matches!(error, OpenError::NotWritable { .. }), "{error:?}");
}

#[test]
fn a_file_that_is_no_database_is_left_as_it_is() {
    let text = "This is not a database, however long it may be. ".repeat(50);
    check_refused(
        |folder| {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join(DATABASE_FILE), &text).unwrap();
        },
        |error| {
            let OpenError::NotADatabase { path } = error else {
                return false;
            };
            std::fs::read_to_string(path).unwrap() == text
        },
        "{}/windlass.db is not a database of windlass; move it away, or name another data folder",
    );
}

#[test]
fn a_database_of_another_program_is_left_as_it_is() {
    let tables = |path: &Path| -> i64 {
        let connection = Connection::open(path).unwrap();
        connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .unwrap()
    };
    check_refused(
        |folder| {
            std::fs::create_dir(folder).unwrap();
            let connection = Connection::open(folder.join(DATABASE_FILE)).unwrap();
            connection
                .execute_batch("CREATE TABLE songs (title TEXT)")
                .unwrap();
        },
        |error| matches!(error, OpenError::NotADatabase { path } if tables(path) == 1),
        "{}/windlass.db is not a database of windlass; move it away, or name another data folder",
    );
}

#[test]
fn the_engine_is_built_as_the_repository_says() {
    let connection = Connection::open_in_memory().unwrap();
    let mut statement = connection.prepare("PRAGMA compile_options").unwrap();
    let options = statement.query_map([], |row| row.get::<_, String>(0));
    let options: Vec<String> = options.unwrap().map(Result::unwrap).collect();
    // The flags of .cargo/config.toml come together; that of the flushes is not among those that the engine tells.
    assert!(
        options
            .iter()
            .any(|option| option.starts_with("THREADSAFE"))
    );
    assert!(
        !options
            .iter()
            .any(|option| option.starts_with("ENABLE_FTS"))
    );
}

#[test]
fn a_newer_schema_is_refused_with_both_versions() {
    check_refused(
        |folder| {
            drop(SqliteStore::open(folder).unwrap());
            let connection = Connection::open(folder.join(DATABASE_FILE)).unwrap();
            connection
                .execute("INSERT INTO schema_version VALUES (99)", [])
                .unwrap();
        },
        |error| {
            matches!(
                error,
                OpenError::NewerSchema {
                    found: 99,
                    known: 6,
                    ..
                }
            )
        },
        "{}/windlass.db was written by a newer windlass: it has schema version 99, and this one knows versions up to 6; \
         run the newer one, or name another data folder",
    );
}

#[test]
fn a_file_that_another_process_keeps_locked_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    drop(SqliteStore::open(folder).unwrap());
    let other = Connection::open(folder.join(DATABASE_FILE)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = SqliteStore::open(folder).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error:?}");
}

#[test]
fn a_file_that_is_locked_meanwhile_refuses_the_block_instead_of_losing_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let other = Connection::open(folder.path().join(DATABASE_FILE)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(store.block(block("mallory", 1_000, "")).is_err());
    assert_eq!(store.blocked(&UserId::new("mallory"), 0), Ok(None));
    other.execute_batch("ROLLBACK").unwrap();
    store.block(block("mallory", 1_000, "")).unwrap();
}

#[test]
fn whether_a_user_is_blocked_is_known_while_a_commit_is_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    store.block(block("ada", 2_000, "")).unwrap();
    let mut answers = Vec::new();
    store
        .transact(&mut |_| answers.push(store.blocked(&UserId::new("ada"), 1_000)))
        .unwrap();
    assert!(matches!(answers[..], [Ok(Some(_))]), "{answers:?}");
}

#[test]
fn a_database_of_the_version_before_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(folder.path()).unwrap());
    let connection = Connection::open(folder.path().join(DATABASE_FILE)).unwrap();
    connection
        .execute_batch("DROP TABLE readings; DELETE FROM schema_version WHERE version = 6")
        .unwrap();
    drop(connection);
    let store: &dyn Store = &SqliteStore::open(folder.path()).unwrap();
    let conversation = ConversationId::new("conversation");
    assert_eq!(
        store.ask(|tables| tables.has_read(&conversation, 1)),
        Ok(false)
    );
    let session = SessionId::new("session");
    let noted = store.ask(|tables| tables.note_reading(&conversation, &session, 1));
    assert_eq!(noted, Ok(()));
    assert_eq!(
        store.ask(|tables| tables.has_read(&conversation, 1)),
        Ok(true)
    );
}
