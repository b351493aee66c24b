//! One transaction over all tables: its beginning, its end, and what its errors mean to those outside. Knows no table.

use crate::{StoreLimits, StoreUnavailable, TIME_MAX_UNIX_MS, Transaction};
use rusqlite::{Connection, Error, ErrorCode, TransactionBehavior, ffi};

/// The steps of one transaction.
pub(super) struct Tables<'a> {
    pub(super) connection: &'a Connection,
    pub(super) limits: &'a StoreLimits,
    /// The first step that failed.
    failed: Option<StoreUnavailable>,
}

impl Tables<'_> {
    /// Runs a step, and notes it where it fails: nothing of this transaction is kept then.
    pub(super) fn step<T>(
        &mut self,
        run: impl FnOnce(&Connection, &StoreLimits) -> rusqlite::Result<T>,
    ) -> Result<T, StoreUnavailable> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        run(self.connection, self.limits).map_err(|error| {
            let unavailable = unavailable(&error);
            self.failed = Some(unavailable.clone());
            unavailable
        })
    }
}

/// Runs work in one transaction. Where it may write, it asks for the right to that at once: one that reads first and wants
/// to write later can be refused in the middle.
pub(super) fn transact(
    connection: &mut Connection,
    limits: &StoreLimits,
    behavior: TransactionBehavior,
    work: &mut dyn FnMut(&mut dyn Transaction),
) -> Result<(), StoreUnavailable> {
    let transaction = connection
        .transaction_with_behavior(behavior)
        .map_err(|error| unavailable(&error))?;
    let mut tables = Tables {
        connection: &transaction,
        limits,
        failed: None,
    };
    work(&mut tables);
    match tables.failed {
        // Dropping the transaction rolls it back.
        Some(failed) => Err(failed),
        None => transaction.commit().map_err(|error| unavailable(&error)),
    }
}

/// What an operator can do about an error of SQLite.
pub(super) fn unavailable(error: &Error) -> StoreUnavailable {
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
pub(super) fn stored(unix_ms: u64) -> i64 {
    unix_ms.min(TIME_MAX_UNIX_MS).cast_signed()
}

/// A time, or another number that is never negative, as it comes out of a table.
pub(super) fn loaded(number: i64) -> u64 {
    number.max(0).cast_unsigned()
}

/// A bound of a query.
pub(super) fn bound(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A column that should hold one of our own words and does not: somebody else wrote the file.
pub(super) fn odd(column: &str) -> Error {
    Error::InvalidColumnName(column.to_owned())
}
