//! The lock of a data folder, so that it has one owner. The operating system lets it go when the process ends, however it ends.

use super::{LOCK_FILE, OpenError};
use crate::StoreSettings;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use windlass_contract::envelope::rfc3339;
use windlass_contract::private;

/// Bytes of the holder's own words that are read.
const HOLDER_BYTES_MAX: u64 = 500;

/// Takes the lock. It is held for as long as the file is open. The file stays: if a lock file is deleted, two processes may lock two
/// files under one name at once.
pub(super) fn take(folder: &Path, settings: &StoreSettings) -> Result<File, OpenError> {
    let path = folder.join(LOCK_FILE);
    let not_writable = |error: std::io::Error| OpenError::NotWritable {
        folder: folder.to_owned(),
        cause: error.to_string(),
    };
    let mut options = private::options();
    options.read(true).create(true).truncate(false);
    let mut file = options.open(path).map_err(not_writable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(OpenError::InUse {
                folder: folder.to_owned(),
                holder: holder(&file),
            });
        }
        Err(TryLockError::Error(error)) => {
            return Err(OpenError::NoLocks {
                folder: folder.to_owned(),
                cause: error.to_string(),
            });
        }
    }
    let words = format!(
        "process {}, which opened it at {} as owner {}\n",
        std::process::id(),
        rfc3339((settings.clock)()),
        settings.owner.0,
    );
    file.set_len(0).map_err(not_writable)?;
    file.write_all(words.as_bytes()).map_err(not_writable)?;
    Ok(file)
}

/// The process that holds the lock of a folder, if any. The lock is not taken.
pub(super) fn holder_of(folder: &Path) -> Result<Option<String>, OpenError> {
    let Ok(file) = File::open(folder.join(LOCK_FILE)) else {
        return Ok(None);
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(holder(&file))),
        Err(TryLockError::Error(error)) => Err(OpenError::NoLocks {
            folder: folder.to_owned(),
            cause: error.to_string(),
        }),
    }
}

/// The holder of the lock, in its own words.
fn holder(file: &File) -> String {
    let mut words = Vec::new();
    // A file that cannot be read, or that its holder has not written yet, names nobody.
    let _ = file.take(HOLDER_BYTES_MAX).read_to_end(&mut words);
    let words = String::from_utf8_lossy(&words);
    let line = words.lines().next().unwrap_or_default();
    let line: String = line.chars().filter(|char| !char.is_control()).collect();
    match line.is_empty() {
        true => "another process".to_owned(),
        false => line,
    }
}
