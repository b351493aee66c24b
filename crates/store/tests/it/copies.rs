//! The copy of a database that is in use: it is whole, and it is of one moment.

use crate::crash;
use crate::support::{block, open};
use rusqlite::Connection;
use std::path::Path;
use windlass_contract::handler::Blocks;
use windlass_contract::id::UserId;
use windlass_store::{DATABASE_FILE, OpenError, SqliteStore, check_database, copy_database};

fn copied(folder: &Path) -> Result<tempfile::TempDir, OpenError> {
    let copy = tempfile::tempdir().unwrap();
    copy_database(folder, &copy.path().join(DATABASE_FILE))?;
    check_database(copy.path())?;
    Ok(copy)
}

fn is_blocked(store: &SqliteStore, user: &str) -> bool {
    store.blocked(&UserId::new(user), 0).unwrap().is_some()
}

#[test]
fn a_copy_has_what_was_committed_a_moment_ago_and_nothing_later() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.block(block("mallory", 1_000, "")).unwrap();
    let copy = copied(folder.path()).unwrap();
    store.block(block("eve", 1_000, "")).unwrap();
    let copy = open(copy.path());
    assert!(is_blocked(&copy, "mallory"));
    assert!(!is_blocked(&copy, "eve"));
    assert!(is_blocked(&store, "mallory") && is_blocked(&store, "eve"));
}

#[test]
fn a_copy_is_made_while_another_process_writes_on_and_after_it_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = crash::Writer::start(folder.path(), None);
    owner.wait_for_a_line();
    for _ in 0..5 {
        owner.wait_for_a_line();
        drop(open(copied(folder.path()).unwrap().path()));
    }
    owner.kill();
    drop(open(copied(folder.path()).unwrap().path()));
    drop(open(folder.path()));
}

#[cfg(unix)]
#[test]
fn a_copy_is_its_owners_alone_and_replaces_no_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let copy = copied(folder.path()).unwrap();
    let copy = copy.path().join(DATABASE_FILE);
    let mode = std::fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = std::fs::read(&copy).unwrap();
    assert!(copy_database(folder.path(), &copy).is_err());
    assert_eq!(std::fs::read(&copy).unwrap(), before);
}

#[test]
fn a_database_that_is_not_this_programs_is_not_copied() {
    let check = |statement: Option<&str>, expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DATABASE_FILE);
        match statement {
            Some("newer") => {
                drop(open(folder.path()));
                let connection = Connection::open(&path).unwrap();
                let newer = "UPDATE meta SET value = 99 WHERE name = 'schema'";
                connection.execute(newer, []).unwrap();
            }
            Some(statement) => {
                let connection = Connection::open(&path).unwrap();
                connection.execute_batch(statement).unwrap();
            }
            None => {}
        }
        let before = std::fs::read(&path).ok();
        let error = copied(folder.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(std::fs::read(&path).ok(), before);
    };
    check(Some("newer"), "it has schema version 99");
    check(
        Some("CREATE TABLE notes (text TEXT)"),
        "is not a database of windlass",
    );
    check(
        None,
        "has no windlass.db: no server has used it; name another one",
    );
}

#[test]
fn a_damaged_database_is_found() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    check_database(folder.path()).unwrap();
    let path = folder.path().join(DATABASE_FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    let length = bytes.len();
    // The pages behind the first: their kinds, cells and pointers.
    bytes[4_096..length].fill(0xA5);
    std::fs::write(&path, bytes).unwrap();
    let error = check_database(folder.path()).unwrap_err().to_string();
    assert!(error.contains("is not a database of windlass"), "{error}");
}
