//! The files of a tool's program, by their hashes; approvals of its calls are bound to them. Knows no handler.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;
use windlass_contract::json;

/// The most bytes of all files of one program.
pub(crate) const PROGRAM_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// One file of a tool's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramFile {
    /// Its path from the tool's folder, with forward slashes.
    pub name: String,
    pub sha256: String,
}

/// The first file of a program that has changed since it was compiled, or cannot be read. `folder` is the tool's own.
pub fn changed_file<'f>(folder: &Path, program: &'f [ProgramFile]) -> Option<&'f str> {
    let is_same = |file: &&ProgramFile| {
        let found = hash_of(&folder.join(&file.name), PROGRAM_BYTES_MAX);
        matches!(found, Ok(Some((sha256, _))) if sha256 == file.sha256)
    };
    let changed = program.iter().find(|file| !is_same(file));
    changed.map(|file| file.name.as_str())
}

/// The SHA-256 of a file and its length; `None` for a file longer than `bytes_max`.
pub(crate) fn hash_of(path: &Path, bytes_max: u64) -> std::io::Result<Option<(String, u64)>> {
    let mut file = std::fs::File::open(path)?.take(bytes_max.saturating_add(1));
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    let mut piece = vec![0; 64 * 1024];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        hasher.update(&piece[..read]);
    }
    let is_whole = bytes <= bytes_max;
    Ok(is_whole.then(|| (json::hex(&hasher.finalize()), bytes)))
}
