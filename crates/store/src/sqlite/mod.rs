//! The durable store: one SQLite file in the data folder. Knows how the file is opened and what makes a write durable;
//! each table's statements are in a file of their own.

mod blocks;
mod conversations;
mod grants;
mod ledger;
mod place;
mod pruning;
mod readings;
mod schema;
mod snapshots;
mod tables;

use crate::{PRUNE_INTERVAL_MS, Store, StoreLimits, StoreUnavailable, Transaction};
use place::Place;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The file's name in the data folder.
pub const DATABASE_FILE: &str = "windlass.db";

/// How long opening waits for another process that writes the same file.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a statement waits for another process: as long as an outcome may take to be stored before the call is
/// answered without it.
const BUSY_TIMEOUT: Duration = Duration::from_millis(500);

/// Pages of the write-ahead log, 32 MiB, past which a commit folds it into the file: <https://sqlite.org/wal.html#ckpt>. The
/// commit that does it takes some milliseconds; the longer the log, the fewer commits do and the more often a page that was
/// written again is folded in but once. What the log holds when a process is killed is read at the next start.
const CHECKPOINT_PAGES: i64 = 8_000;

/// Prepared statements that are kept: more than there are.
const STATEMENTS_MAX: usize = 64;

/// How often the switch to the write-ahead log is tried while others open the same new file.
const SWITCH_ATTEMPTS_MAX: usize = 10;

/// Why the store in a folder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the data folder {} cannot be written: {cause}; make it writable, or name another one",
        folder.display()
    )]
    NotWritable { folder: PathBuf, cause: String },
    #[error(
        "{} is not a database of windlass; move it away, or name another data folder",
        path.display()
    )]
    NotADatabase { path: PathBuf },
    #[error(
        "{} was written by a newer windlass: it has schema version {found}, and this one knows versions up to {known}; \
         run the newer one, or name another data folder",
        path.display()
    )]
    NewerSchema {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error(
        "{} is locked by another process; stop that one, or name another data folder",
        path.display()
    )]
    Locked { path: PathBuf },
    #[error("{} cannot be opened: {cause}; free disk space or restore the file", path.display())]
    Failed {
        path: PathBuf,
        #[source]
        cause: rusqlite::Error,
    },
}

/// A store in a file. Several may have the same file open, in one process or in many.
#[derive(Debug)]
pub struct SqliteStore {
    open: Mutex<Open>,
    /// For what is asked where a session stands: it does not wait for a commit that is under way.
    questions: Mutex<Connection>,
    place: Place,
    limits: StoreLimits,
}

#[derive(Debug)]
struct Open {
    connection: Connection,
    pruned_at_unix_ms: u64,
}

impl SqliteStore {
    /// Opens the store of a data folder with the limits that are the default.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        Self::open_with(folder, StoreLimits::default())
    }

    /// Makes a data folder where it is missing, so that one that cannot be is known before anything else is done.
    pub fn make_folder(folder: &Path) -> Result<(), OpenError> {
        std::fs::create_dir_all(folder).map_err(|error| OpenError::NotWritable {
            folder: folder.to_owned(),
            cause: error.to_string(),
        })
    }

    /// Opens the store of a data folder. Makes the folder and the file where they are missing, and brings an older file
    /// up to date.
    pub fn open_with(folder: &Path, limits: StoreLimits) -> Result<Self, OpenError> {
        Self::make_folder(folder)?;
        let path = folder.join(DATABASE_FILE);
        let explain = |error| explain(error, folder, &path);
        let mut connection = connect(&path).map_err(explain)?;
        match schema::bring_up_to_date(&mut connection).map_err(explain)? {
            schema::Age::Current => {}
            schema::Age::Newer { found, known } => {
                return Err(OpenError::NewerSchema { path, found, known });
            }
            schema::Age::Foreign => return Err(OpenError::NotADatabase { path }),
        }
        write_ahead(&connection).map_err(explain)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(explain)?;
        let questions = connect_to_read(&path).map_err(explain)?;
        let place = Place::of(&path).map_err(|error| OpenError::NotWritable {
            folder: folder.to_owned(),
            cause: error.to_string(),
        })?;
        Ok(Self {
            place,
            questions: Mutex::new(questions),
            limits,
            open: Mutex::new(Open {
                connection,
                pruned_at_unix_ms: 0,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // A panic between two statements rolls its transaction back, so the connection is as good as before.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn questions(&self) -> MutexGuard<'_, Connection> {
        // It only reads.
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes what has run out where it is time to, and nobody is at work.
    fn prune_if_idle(&self, now_unix_ms: u64) {
        if let Ok(mut open) = self.open.try_lock() {
            // A pruning that failed is made up for by a later one.
            let _ = open.prune_if_due(&self.limits, now_unix_ms);
        }
    }
}

impl Open {
    fn prune_if_due(&mut self, limits: &StoreLimits, now_unix_ms: u64) -> rusqlite::Result<()> {
        if now_unix_ms.abs_diff(self.pruned_at_unix_ms) >= PRUNE_INTERVAL_MS {
            // Noted first, so that a file that cannot be written is not tried again with every question.
            self.pruned_at_unix_ms = now_unix_ms;
            while pruning::slice(&self.connection, limits, now_unix_ms)? > 0 {}
        }
        Ok(())
    }
}

impl Store for SqliteStore {
    fn transact(&self, work: &mut dyn FnMut(&mut dyn Transaction)) -> Result<(), StoreUnavailable> {
        self.place.check()?;
        let mut open = self.lock();
        let writes = TransactionBehavior::Immediate;
        tables::transact(&mut open.connection, &self.limits, writes, work)
    }

    fn view(&self, work: &mut dyn FnMut(&mut dyn Transaction)) -> Result<(), StoreUnavailable> {
        let reads = TransactionBehavior::Deferred;
        tables::transact(&mut self.questions(), &self.limits, reads, work)
    }

    fn prune(&self, now_unix_ms: u64) -> Result<usize, StoreUnavailable> {
        let mut rows = 0;
        loop {
            // The lock is let go between slices, so that others get their turn.
            let mut open = self.lock();
            open.pruned_at_unix_ms = now_unix_ms;
            let pruned = pruning::slice(&open.connection, &self.limits, now_unix_ms)
                .map_err(|error| tables::unavailable(&error))?;
            if pruned == 0 {
                return Ok(rows);
            }
            rows += pruned;
        }
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(OPEN_TIMEOUT)?;
    // With FULL a commit is on the disk when it returns, also through a loss of power:
    // <https://sqlite.org/pragma.html#pragma_synchronous>.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // Else a prepared statement is prepared again whenever a value that it compares with has changed, as times do with
    // every question: <https://sqlite.org/queryplanner-ng.html#qpsg>.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// In its write-ahead log a file is read as it was before a commit that is under way:
/// <https://sqlite.org/wal.html#concurrency>.
fn connect_to_read(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// Switches the file to its write-ahead log, which lets others read while one writes and costs one flush per commit.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    for _ in 1..SWITCH_ATTEMPTS_MAX {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                // The switch itself does not wait for others as other statements do; an empty transaction does.
                connection.execute_batch("BEGIN IMMEDIATE; COMMIT")?;
            }
            done => return done,
        }
    }
    connection.pragma_update(None, "journal_mode", "WAL")
}

fn explain(error: rusqlite::Error, folder: &Path, path: &Path) -> OpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            OpenError::NotWritable {
                folder: folder.to_owned(),
                cause: error.to_string(),
            }
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => OpenError::NotADatabase {
            path: path.to_owned(),
        },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Locked {
            path: path.to_owned(),
        },
        _ => OpenError::Failed {
            path: path.to_owned(),
            cause: error,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::SqliteStore;
    use crate::{NewEntry, Store, StoreUnavailable};
    use windlass_tool::id::{ConversationId, UserId};
    use windlass_tool::sensitive::Sensitive;

    #[test]
    fn a_commit_is_flushed_before_it_returns() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let synchronous: i64 = store
            .lock()
            .connection
            .pragma_query_value(None, "synchronous", |row| row.get(0))
            .unwrap();
        // FULL, by SQLite's numbering.
        assert_eq!(synchronous, 2);
    }

    #[test]
    fn a_transaction_that_finds_no_space_leaves_nothing_and_the_next_one_works_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let set_pages_max = |pages: i64| {
            let open = store.lock();
            // The pragma answers with the bound that is in force.
            let statement = format!("PRAGMA max_page_count = {pages}");
            let found: rusqlite::Result<i64> =
                open.connection.query_row(&statement, [], |row| row.get(0));
            found.unwrap()
        };
        let (conversation, user) = (ConversationId::new("c"), UserId::new("u"));
        let append = |bodies: &[usize]| {
            let store: &dyn Store = &store;
            store.ask(|tables| {
                tables.open_conversation(&conversation, &user, 1)?;
                for length in bodies {
                    let entry = NewEntry {
                        key: None,
                        body: Sensitive("x".repeat(*length)),
                    };
                    tables.append(&conversation, &[entry], 1)?;
                }
                Ok(())
            })
        };
        // Less than the file has is raised to what it has.
        set_pages_max(1);
        let full = append(&[10, 200_000]);
        assert!(
            matches!(full, Err(StoreUnavailable::DiskFull { .. })),
            "{full:?}"
        );
        let kept = || {
            let store: &dyn Store = &store;
            store.ask(|tables| tables.conversation(&conversation, 1))
        };
        assert_eq!(kept(), Ok(None));
        set_pages_max(1_000_000);
        assert_eq!(append(&[10, 200_000]), Ok(()));
        assert!(kept().is_ok_and(|found| found.is_some()));
    }
}
