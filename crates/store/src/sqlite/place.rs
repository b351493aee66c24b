//! Whether the database's name still leads to the file that was opened. SQLite goes on with a file that was deleted or replaced,
//! and all that is written to it is gone with the process:
//! <https://sqlite.org/howtocorrupt.html#_unlinking_or_renaming_a_database_file_while_in_use>.

use crate::StoreUnavailable;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct OpenedFile {
    path: PathBuf,
    file: Identity,
}

impl OpenedFile {
    /// Of a file that is open.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: identity(&std::fs::metadata(path)?),
        })
    }

    /// An error where what is written would not be found by the next process.
    pub(super) fn check(&self) -> Result<(), StoreUnavailable> {
        let found = std::fs::metadata(&self.path);
        match found.map(|found| identity(&found)) {
            Ok(found) if found == self.file => Ok(()),
            Ok(_) | Err(_) => Err(StoreUnavailable::Moved {
                path: self.path.clone(),
            }),
        }
    }
}

/// Device and inode.
#[cfg(unix)]
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// Elsewhere a file that is open cannot be deleted or replaced.
#[cfg(not(unix))]
type Identity = ();

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {}
