//! The database as one file of its own: copied while its owner goes on writing it, and checked before it is taken into use. Takes no
//! lock of the data folder and changes nothing in it.

use super::{DATABASE_FILE, OpenError, check_age, connect_to_read, explain, not_writable, schema};
use rusqlite::Connection;
use std::path::Path;
use windlass_contract::private;

/// Writes the database of a data folder, as it is at one moment, to a new file. Commits that are still in the write-ahead log are
/// included.
///
/// The copy is packed: it holds no deleted rows.
pub fn copy_database(folder: &Path, target: &Path) -> Result<(), OpenError> {
    let path = folder.join(DATABASE_FILE);
    let connection = open_known(folder, &path)?;
    // SQLite takes an empty file, and would otherwise make one that others can read.
    private::options()
        .create_new(true)
        .open(target)
        .map_err(|error| not_writable(target.parent().unwrap_or(target), &error))?;
    let copied = connection.execute("VACUUM INTO ?1", [target.to_string_lossy()]);
    copied
        .map(|_| ())
        .map_err(|error| explain_copy(error, folder, target))
}

/// Whether the database of a data folder that no process has open is whole, and has a form that this program knows.
pub fn check_database(folder: &Path) -> Result<(), OpenError> {
    let path = folder.join(DATABASE_FILE);
    let connection = open_known(folder, &path)?;
    let explain = |error| explain(error, folder, &path);
    let found: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(explain)?;
    match found.as_str() {
        "ok" => Ok(()),
        _ => Err(OpenError::NotADatabase { path }),
    }
}

fn open_known(folder: &Path, path: &Path) -> Result<Connection, OpenError> {
    if !path.is_file() {
        return Err(OpenError::NoDatabase {
            folder: folder.to_owned(),
        });
    }
    let explain = |error| explain(error, folder, path);
    let connection = connect_to_read(path).map_err(explain)?;
    check_age(schema::age(&connection).map_err(explain)?, path)?;
    Ok(connection)
}

/// Explains an error in which both files have a part: a full disk is that of the copy.
fn explain_copy(error: rusqlite::Error, folder: &Path, target: &Path) -> OpenError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => OpenError::Failed {
            path: target.to_owned(),
            cause: error,
        },
        _ => explain(error, folder, &folder.join(DATABASE_FILE)),
    }
}
