//! The durable store: one SQLite file in the data folder. Knows how the file is opened and what makes a write durable;
//! each table's statements are in a file of their own.

mod blocks;
mod schema;

use crate::{PRUNE_INTERVAL_MS, Store, StoreUnavailable};
use rusqlite::{Connection, ErrorCode, OpenFlags};
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
}

#[derive(Debug)]
struct Open {
    connection: Connection,
    pruned_at_unix_ms: u64,
}

impl SqliteStore {
    /// Opens the store of a data folder. Makes the folder and the file where they are missing, and brings an older file
    /// up to date.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        std::fs::create_dir_all(folder).map_err(|error| OpenError::NotWritable {
            folder: folder.to_owned(),
            cause: error.to_string(),
        })?;
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
        Ok(Self {
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
}

impl Open {
    fn prune(&mut self, now_unix_ms: u64) -> rusqlite::Result<usize> {
        // Noted first, so that a file that cannot be written is not tried again with every question.
        self.pruned_at_unix_ms = now_unix_ms;
        blocks::prune(&self.connection, now_unix_ms)
    }

    fn prune_if_due(&mut self, now_unix_ms: u64) -> rusqlite::Result<usize> {
        if now_unix_ms.abs_diff(self.pruned_at_unix_ms) >= PRUNE_INTERVAL_MS {
            self.prune(now_unix_ms)
        } else {
            Ok(0)
        }
    }
}

impl Store for SqliteStore {
    fn prune(&self, now_unix_ms: u64) -> Result<usize, StoreUnavailable> {
        self.lock()
            .prune(now_unix_ms)
            .map_err(|error| StoreUnavailable(error.to_string()))
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
}
