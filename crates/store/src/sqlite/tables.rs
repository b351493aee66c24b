//! Shared by all tables: errors for the outside, and the form of values in columns. Knows no table.

use crate::document::Document;
use crate::{StoreUnavailable, TIME_MAX_UNIX_MS};
use rusqlite::{Error, ErrorCode, Row, ffi};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An error of SQLite, with the operator's remedy.
pub(super) fn unavailable(error: Error) -> StoreUnavailable {
    let cause = error.to_string();
    let extended_code = error.sqlite_error().map(|error| error.extended_code);
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreUnavailable::DiskFull { cause },
        // A quota or a limit on the size of files shows as a write that failed.
        Some(ErrorCode::SystemIoFailure)
            if matches!(
                extended_code,
                Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE)
            ) =>
        {
            StoreUnavailable::DiskFull { cause }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreUnavailable::Locked { cause }
        }
        _ => StoreUnavailable::Failed { cause },
    }
}

/// A time as the tables hold it.
pub(super) fn time(unix_ms: u64) -> i64 {
    unix_ms.min(TIME_MAX_UNIX_MS).cast_signed()
}

/// A time as it comes out of a table.
pub(super) fn loaded_time(unix_ms: i64) -> u64 {
    unix_ms.max(0).cast_unsigned()
}

/// The time `ms` ago; `None` if that is before all time.
pub(super) fn ago(now_unix_ms: u64, ms: u64) -> Option<i64> {
    now_unix_ms.checked_sub(ms).map(time)
}

/// A number that a client chose. Every number comes out as it went in; the tables compare them for equality only.
pub(super) fn number(number: u64) -> i64 {
    number.cast_signed()
}

pub(super) fn loaded_number(number: i64) -> u64 {
    number.cast_unsigned()
}

/// A bound of a query.
pub(super) fn bound(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The number of rows: the only column of a query.
pub(super) fn count(row: &Row<'_>) -> rusqlite::Result<usize> {
    let rows: i64 = row.get(0)?;
    Ok(usize::try_from(rows).unwrap_or(0))
}

/// The error of a column without one of our own words: another program wrote the file.
pub(super) fn odd(column: &str) -> Error {
    Error::InvalidColumnName(column.to_owned())
}

pub(super) fn json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| Error::ToSqlConversionFailure(Box::new(error)))
}

pub(super) fn from_json<T: DeserializeOwned>(
    row: &Row<'_>,
    index: usize,
    column: &str,
) -> rusqlite::Result<T> {
    let text = row.get_ref(index)?.as_str()?;
    serde_json::from_str(text).map_err(|_| odd(column))
}

/// The body of a row, for the column of that name.
pub(super) fn body(row: &impl Document) -> rusqlite::Result<String> {
    row.body()
        .map_err(|error| Error::ToSqlConversionFailure(Box::new(error)))
}

/// The row whose body is the first column of a query.
pub(super) fn document<T: Document>(row: &Row<'_>) -> rusqlite::Result<T> {
    let text = row.get_ref(0)?.as_str()?;
    T::from_body(text).map_err(|_| odd("body"))
}
