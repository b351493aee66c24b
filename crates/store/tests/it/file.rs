//! What the file brings: it has one owner, it survives, and what is wrong with it is said clearly.

use crate::crash;
use crate::ledger::{HOUR_MS, conversation, one, settings};
use crate::support::{
    START_UNIX_MS, appended, attach, block, open, open_at, recorded, requested, said,
};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use windlass_contract::handler::Blocks;
use windlass_contract::id::UserId;
use windlass_store::command::{Command, Reply};
use windlass_store::{
    AttemptOutcome, Batch, Beginner, DATABASE_FILE, EntryNumber, LOCK_FILE, OpenError,
    PRUNED_ROWS_MAX, SqliteStore, Store, StoreLimits, StoreSettings, StoreUnavailable,
};

fn plain() -> StoreSettings {
    let clock = Arc::new(AtomicU64::new(START_UNIX_MS));
    settings(&clock, "process 1", StoreLimits::default())
}

fn refused(folder: &Path) -> OpenError {
    SqliteStore::open(folder, plain()).unwrap_err()
}

fn is_blocked(store: &SqliteStore, user: &str) -> bool {
    store.blocked(&UserId::new(user), 0).unwrap().is_some()
}

fn opened(store: &SqliteStore) -> Result<Vec<Vec<Reply>>, StoreUnavailable> {
    store.commit(&[Batch {
        conversation: conversation("talk", "alice"),
        commands: vec![Command::Open(Beginner::default())],
    }])
}

#[test]
fn the_log_of_a_file_that_is_written_on_and_on_stays_short() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let talk = conversation("talk", "alice");
    let leg = attach(&store, &talk, "leg");
    let log = folder.path().join(format!("{DATABASE_FILE}-wal"));
    let text = "x".repeat(30_000);
    // 120 MB. Without being folded the log would hold all of it.
    for number in 0..400 {
        let entries = (1..=10).map(|entry| said(10 * number + entry, None, &text));
        let reply = one(&store, &talk, appended(&leg, entries.collect()));
        assert!(matches!(reply, Reply::Appended(_)), "{reply:?}");
    }
    let bytes = std::fs::metadata(log).unwrap().len();
    assert!(bytes < 64_000_000, "{bytes}");
}

#[test]
fn what_a_process_that_never_closes_its_files_has_committed_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.block(block("mallory", 1_000, "Bye")).unwrap();
    opened(&store).unwrap();
    // What a killed process leaves behind: the database with its log not yet folded in.
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_name().to_str().unwrap().ends_with("-shm") {
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
    }
    let next = open(copy.path());
    assert!(is_blocked(&next, "mallory"));
    let talk = conversation("talk", "alice");
    let found = next.conversation(&talk.tenant, &talk.conversation_id);
    assert!(found.unwrap().is_some());
}

#[test]
fn the_file_is_logged_ahead_and_its_tables_are_strict() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.block(block("mallory", 1_000, "Bye")).unwrap();
    let connection = Connection::open(folder.path().join(DATABASE_FILE)).unwrap();
    let mode: String = connection
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
    let lax = "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite%' AND strict = 0";
    let lax: i64 = connection.query_row(lax, [], |row| row.get(0)).unwrap();
    assert_eq!(lax, 0);
}

#[cfg(unix)]
#[test]
fn every_file_is_for_the_user_of_the_process_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.block(block("mallory", 1_000, "Bye")).unwrap();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        names.push(name);
    }
    names.sort_unstable();
    let expected = [
        "windlass.db",
        "windlass.db-shm",
        "windlass.db-wal",
        "windlass.lock",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_second_owner_in_the_same_process_is_refused_until_the_first_lets_go() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let store = open(folder);
    let error = refused(folder);
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    let expected = format!(
        "the data folder {} is in use by process {}, which opened it at 2023-11-14T22:13:20.000Z as owner process 1; stop \
         that process, or name another data folder",
        folder.display(),
        std::process::id(),
    );
    assert_eq!(error.to_string(), expected);
    drop(store);
    drop(open(folder));
}

#[test]
fn of_many_that_open_a_new_folder_at_once_one_gets_it() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let folder = &folder.path().join("not").join("there").join("yet");
        let results: Vec<Result<SqliteStore, OpenError>> = std::thread::scope(|scope| {
            let open = || scope.spawn(move || SqliteStore::open(folder, plain()));
            let threads: Vec<_> = (0..4).map(|_| open()).collect();
            let results = threads.into_iter().map(|thread| thread.join().unwrap());
            results.collect()
        });
        let owners = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(owners, 1, "{results:?}");
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
        }
    }
}

#[test]
fn another_process_keeps_the_folder_until_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut owner = crash::Writer::start(folder, None);
    owner.wait_for_a_line();
    let error = refused(folder).to_string();
    let named = format!("is in use by process {}, which opened it at ", owner.id());
    assert!(error.contains(&named), "{error}");
    owner.kill();
    drop(open(folder));
}

#[test]
fn a_lock_file_that_was_deleted_keeps_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path());
    std::fs::remove_file(folder.path().join(LOCK_FILE)).unwrap();
    let second = open(folder.path());
    first.block(block("mallory", 1_000, "")).unwrap();
    assert!(is_blocked(&second, "mallory"));
    second.block(block("eve", 1_000, "")).unwrap();
    assert!(is_blocked(&first, "eve"));
}

#[test]
fn a_lock_file_that_a_dead_process_left_keeps_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join(LOCK_FILE);
    let long = "process 1, which is dead\n".repeat(50);
    std::fs::write(&lock, long).unwrap();
    let store = open(folder.path());
    let text = std::fs::read_to_string(&lock).unwrap();
    let expected = format!("process {}, which opened", std::process::id());
    assert!(
        text.starts_with(&expected) && text.lines().count() == 1,
        "{text}"
    );
    drop(store);
}

#[test]
fn a_file_that_was_deleted_or_replaced_takes_nothing_that_the_next_process_would_not_find() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.block(block("mallory", 1_000, "Bye")).unwrap();
    let path = folder.path().join(DATABASE_FILE);
    let away = folder.path().join("away.db");
    std::fs::rename(&path, &away).unwrap();
    let moved = StoreUnavailable::Moved { path: path.clone() };
    assert_eq!(opened(&store), Err(moved.clone()));
    assert_eq!(store.prune(), Err(moved.clone()));
    let error = store.block(block("eve", 1_000, "Bye")).unwrap_err();
    assert!(error.to_string().ends_with(&moved.to_string()));
    // What is known is read all the same.
    assert!(is_blocked(&store, "mallory"));
    std::fs::write(&path, "").unwrap();
    assert_eq!(opened(&store), Err(moved));
    std::fs::rename(&away, &path).unwrap();
    store.block(block("eve", 1_000, "Bye")).unwrap();
    drop(store);
    assert!(is_blocked(&open(folder.path()), "eve"));
}

/// Spoils a data folder, opens it, and compares the message, in which `{}` stands for the folder.
fn check_refused(spoil: impl Fn(&Path), is_expected: impl Fn(&OpenError) -> bool, message: &str) {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    spoil(&folder);
    let error = refused(&folder);
    assert!(is_expected(&error), "{error:?}");
    let expected = message.replace("{}", folder.to_str().unwrap());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    check_refused(
        |folder| std::fs::write(folder, "a file").unwrap(),
        |error| matches!(error, OpenError::NotWritable { .. }),
        "the data folder {} cannot be written: File exists (os error 17); make it writable, or name another one",
    );
    for name in [DATABASE_FILE, LOCK_FILE] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(name)).unwrap();
        let error = refused(folder.path());
        assert!(matches!(error, OpenError::NotWritable { .. }), "{error:?}");
    }
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
        let statement = "SELECT count(*) FROM sqlite_schema";
        connection
            .query_row(statement, [], |row| row.get(0))
            .unwrap()
    };
    check_refused(
        |folder| {
            std::fs::create_dir(folder).unwrap();
            let connection = Connection::open(folder.join(DATABASE_FILE)).unwrap();
            let made = connection.execute_batch("CREATE TABLE meta (title TEXT)");
            made.unwrap();
        },
        |error| matches!(error, OpenError::NotADatabase { path } if tables(path) == 1),
        "{}/windlass.db is not a database of windlass; move it away, or name another data folder",
    );
}

#[test]
fn a_newer_schema_is_refused_with_both_versions() {
    check_refused(
        |folder| {
            drop(open(folder));
            let connection = Connection::open(folder.join(DATABASE_FILE)).unwrap();
            let written =
                connection.execute("UPDATE meta SET value = 99 WHERE name = 'schema'", []);
            assert_eq!(written, Ok(1));
        },
        |error| {
            matches!(
                error,
                OpenError::NewerSchema {
                    found: 99,
                    known: 12,
                    ..
                }
            )
        },
        "{}/windlass.db was written by a newer windlass: it has schema version 99, and this one knows versions up to 12; \
         run the newer one, or name another data folder",
    );
}

/// A file as the versions before the first release wrote it, with one block.
fn unreleased(folder: &Path) -> Connection {
    let connection = Connection::open(folder.join(DATABASE_FILE)).unwrap();
    let made = connection.execute_batch(
        "PRAGMA application_id = 0x574E444C;
         PRAGMA journal_mode = WAL;
         CREATE TABLE schema_version (version INTEGER NOT NULL PRIMARY KEY) STRICT;
         INSERT INTO schema_version VALUES (1);
         CREATE TABLE blocks (user_id TEXT NOT NULL PRIMARY KEY);
         INSERT INTO blocks VALUES ('mallory');",
    );
    made.unwrap();
    connection
}

fn blocks(path: &Path) -> i64 {
    let connection = Connection::open(path).unwrap();
    let statement = "SELECT count(*) FROM blocks WHERE user_id = 'mallory'";
    connection
        .query_row(statement, [], |row| row.get(0))
        .unwrap()
}

#[test]
fn a_file_of_an_unreleased_format_is_set_aside_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for number in 1..=2 {
        drop(unreleased(folder));
        let store = open(folder);
        let aside = folder.join(format!("windlass.db.old-{number}"));
        assert_eq!(store.set_aside(), Some(aside.as_path()));
        assert!(!is_blocked(&store, "mallory"));
        opened(&store).unwrap();
        drop(store);
        assert_eq!(open(folder).set_aside(), None);
        assert_eq!(blocks(&aside), 1);
        if number == 1 {
            std::fs::remove_file(folder.join(DATABASE_FILE)).unwrap();
        }
    }
    // Without a trace of the other files that SQLite makes.
    let count = std::fs::read_dir(folder).unwrap().count();
    assert_eq!(count, 4);
}

#[test]
fn what_a_killed_process_left_in_the_log_of_an_unreleased_file_is_set_aside_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let connection = unreleased(other.path());
    for ending in ["", "-wal"] {
        let name = format!("{DATABASE_FILE}{ending}");
        std::fs::copy(other.path().join(&name), folder.path().join(&name)).unwrap();
    }
    drop(connection);
    let store = open(folder.path());
    opened(&store).unwrap();
    assert_eq!(blocks(store.set_aside().unwrap()), 1);
}

#[test]
fn an_unreleased_file_that_another_process_has_open_is_left_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let connection = unreleased(folder.path());
    let error = refused(folder.path());
    assert!(matches!(error, OpenError::NotSetAside { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!(
            "{} is of an older format and cannot be set aside: database is locked; stop the process that has it open, or name \
             another data folder",
            folder.path().join(DATABASE_FILE).display()
        )
    );
    drop(connection);
    let store = open(folder.path());
    assert_eq!(blocks(store.set_aside().unwrap()), 1);
}

#[test]
fn the_engine_is_built_as_the_repository_says() {
    let connection = Connection::open_in_memory().unwrap();
    let mut statement = connection.prepare("PRAGMA compile_options").unwrap();
    let options = statement.query_map([], |row| row.get::<_, String>(0));
    let options: Vec<String> = options.unwrap().map(Result::unwrap).collect();
    // The flags of .cargo/config.toml come together; that of the flushes is not among those that the engine tells.
    let has = |start: &str| options.iter().any(|option| option.starts_with(start));
    assert!(has("THREADSAFE"));
    assert!(!has("ENABLE_FTS"));
}

#[test]
fn a_file_that_another_process_keeps_locked_is_named() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let other = Connection::open(folder.path().join(DATABASE_FILE)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = refused(folder.path());
    assert!(matches!(error, OpenError::Locked { .. }), "{error:?}");
}

#[test]
fn a_file_that_is_locked_meanwhile_refuses_what_is_written_instead_of_losing_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let other = Connection::open(folder.path().join(DATABASE_FILE)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(store.block(block("mallory", 1_000, "")).is_err());
    let error = opened(&store).unwrap_err();
    assert!(matches!(error, StoreUnavailable::Locked { .. }), "{error}");
    assert!(!is_blocked(&store, "mallory"));
    other.execute_batch("ROLLBACK").unwrap();
    store.block(block("mallory", 1_000, "")).unwrap();
    opened(&store).unwrap();
}

#[test]
fn what_is_known_is_read_while_a_commit_is_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let (is_asked, asked) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let may_go_on = std::sync::Mutex::new(may_go_on);
    let waits = Arc::new(AtomicBool::new(false));
    let does_wait = waits.clone();
    let mut settings = plain();
    // A commit asks for the time while it has the right to write.
    settings.clock = Arc::new(move || {
        if does_wait.load(Ordering::Relaxed) {
            is_asked.send(()).unwrap();
            may_go_on.lock().unwrap().recv().unwrap();
        }
        START_UNIX_MS
    });
    let store = SqliteStore::open(folder.path(), settings).unwrap();
    store.block(block("ada", 2_000, "")).unwrap();
    waits.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| opened(&store));
        asked.recv().unwrap();
        waits.store(false, Ordering::Relaxed);
        assert!(is_blocked(&store, "ada"));
        let talk = conversation("talk", "alice");
        let found = store.conversation(&talk.tenant, &talk.conversation_id);
        assert_eq!(found, Ok(None));
        go_on.send(()).unwrap();
        assert!(commit.join().unwrap().is_ok());
    });
}

#[test]
fn time_does_not_run_backwards_where_the_clock_was_set_back_between_two_processes() {
    let folder = tempfile::tempdir().unwrap();
    let talk = conversation("talk", "alice");
    let begun = |now_unix_ms: u64| {
        let store = open_at(folder.path(), now_unix_ms);
        let leg = attach(&store, &talk, &format!("leg {now_unix_ms}"));
        let number = now_unix_ms / 1_000 % 100_000;
        let reply = one(&store, &talk, requested(number, &leg));
        let Reply::Run(run) = reply else {
            panic!("{reply:?}");
        };
        (store.now_unix_ms(), run.lease_end_unix_ms)
    };
    let (now, lease_end) = begun(START_UNIX_MS);
    assert_eq!(now, START_UNIX_MS);
    // The store has the machine's clock, and the conversation its own time.
    let (later, later_end) = begun(START_UNIX_MS - HOUR_MS);
    assert_eq!((later, later_end), (START_UNIX_MS - HOUR_MS, lease_end));
    // The machine's clock is set right again.
    let (later, _) = begun(START_UNIX_MS + 5_000);
    assert_eq!(later, START_UNIX_MS + 5_000);
}

#[test]
fn a_conversation_whose_time_is_ahead_stands_still_until_the_clock_has_come_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let talk = conversation("talk", "alice");
    {
        let store = open(folder.path());
        let leg = attach(&store, &talk, "leg");
        one(&store, &talk, appended(&leg, vec![said(1, None, "a")]));
    }
    let clock = Arc::new(AtomicU64::new(START_UNIX_MS - HOUR_MS));
    let settings = settings(&clock, "process 2", StoreLimits::default());
    let store = SqliteStore::open(folder.path(), settings).unwrap();
    // Blocks are set by the machine's clock, which is an hour behind the conversation.
    let until_unix_ms = START_UNIX_MS - HOUR_MS / 2;
    store.block(block("mallory", until_unix_ms, "")).unwrap();
    clock.fetch_add(1_000, Ordering::Relaxed);
    assert_eq!(store.now_unix_ms(), START_UNIX_MS - HOUR_MS + 1_000);
    let leg = attach(&store, &talk, "other");
    one(&store, &talk, appended(&leg, vec![said(1, None, "b")]));
    let entries = store.entries(&talk, EntryNumber(0), 10).unwrap();
    let times: Vec<u64> = entries.iter().map(|entry| entry.at_unix_ms).collect();
    assert_eq!(times, [START_UNIX_MS; 4]);
    assert_eq!(store.prune(), Ok(0));
    assert!(is_blocked(&store, "mallory"));
}

#[test]
fn a_step_of_pruning_deletes_no_more_rows_than_a_commit_may_wait_for() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicU64::new(START_UNIX_MS));
    let limits = StoreLimits::default();
    let store = SqliteStore::open(folder.path(), settings(&clock, "process 1", limits)).unwrap();
    let (old, kept) = (conversation("old", "alice"), conversation("kept", "alice"));
    let leg = attach(&store, &old, "old");
    for hundred in 0..6 {
        let entries = (1..=100).map(|number| said(hundred * 100 + number, None, "text"));
        one(&store, &old, appended(&leg, entries.collect()));
    }
    one(&store, &old, requested(1, &leg));
    one(&store, &old, recorded(1, AttemptOutcome::Succeeded));
    one(&store, &old, Command::Leave(leg));
    let leg = attach(&store, &kept, "kept");
    for number in 2..302 {
        one(&store, &kept, requested(number, &leg));
        one(&store, &kept, recorded(number, AttemptOutcome::Succeeded));
    }
    clock.fetch_add(12 * HOUR_MS, Ordering::Relaxed);
    one(&store, &kept, Command::Open(Beginner::default()));
    clock.fetch_add(12 * HOUR_MS, Ordering::Relaxed);
    one(&store, &kept, Command::Open(Beginner::default()));
    let file = Connection::open(folder.path().join(DATABASE_FILE)).unwrap();
    let count = |statement: &str| -> usize {
        let counted: i64 = file.query_row(statement, [], |row| row.get(0)).unwrap();
        usize::try_from(counted).unwrap()
    };
    let rows = || {
        let tables = ["conversations", "entries", "deliveries", "legs", "effects"];
        let counts = tables.map(|table| count(&format!("SELECT count(*) FROM {table}")));
        counts.into_iter().sum::<usize>()
    };
    let mut steps = 0;
    loop {
        let before = rows();
        let pruned = store.prune().unwrap();
        assert_eq!(before - rows(), pruned);
        assert!(pruned <= PRUNED_ROWS_MAX, "{pruned} rows in one step");
        // Whatever a step leaves is whole: a log begins where it says, and no delivery names an effect that is gone.
        if let Some(found) = store
            .conversation(&old.tenant, &old.conversation_id)
            .unwrap()
        {
            let entries = store.entries(&old, EntryNumber(0), 1).unwrap();
            let first = entries
                .first()
                .map_or(found.first_entry, |entry| entry.number);
            assert_eq!(first, found.first_entry);
        }
        let orphans = count(
            "SELECT count(*) FROM deliveries WHERE effect_id NOT IN (SELECT effect_id FROM effects)",
        );
        assert_eq!(orphans, 0);
        if pruned == 0 {
            break;
        }
        steps += 1;
    }
    // Over 600 entries of one conversation; 300 effects of the other one, each with its delivery.
    assert_eq!(steps, 5);
    assert_eq!(count("SELECT count(*) FROM conversations"), 1);
    assert_eq!(count("SELECT count(*) FROM effects"), 0);
}
