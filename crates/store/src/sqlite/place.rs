//! Whether the database's name still leads to the opened file. SQLite goes on with a file that was deleted or replaced, and all later
//! writes are gone with the process: <https://sqlite.org/howtocorrupt.html#_unlinking_or_renaming_a_database_file_while_in_use>.

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
    /// The place of an open file.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: identity(&std::fs::metadata(path)?),
        })
    }

    /// Fails if the next process would not find the written data.
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

/// Other systems do not let an open file be deleted or replaced.
#[cfg(not(unix))]
type Identity = ();

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {}
