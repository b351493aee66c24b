//! Keeps the vectors of passages in a file, so that none is ever made twice. A vector is found by the hash of its
//! passage; which record the passage belongs to is not known here.
//!
//! One file for each model: a header, then entries of equal length, each with a checksum. Entries are only ever added at
//! the end, so that a crash can spoil the last ones and nothing else; spoilt entries are dropped when the file is opened.

use crate::embed::Model;
use crate::hash::{Hash, hex, sha256};
use crate::vectors::Code;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"WLVEC\x00\x00\x01";
const HASH_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 8;
const HEADER_BYTES: usize = MAGIC.len() + HASH_BYTES + CHECKSUM_BYTES;
/// Entries of vectors that no record has any more, for each that one has, before the file is written anew.
const DEAD_SHARE_MAX: usize = 1;
/// Entries below which the file is never worth writing anew.
const ENTRIES_MIN: usize = 256;

/// Why vectors could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum VectorStoreError {
    #[error("the vectors cannot be kept in {}: {cause}; free space or name another data folder", .path.display())]
    Io { path: PathBuf, cause: io::Error },
    #[error("another process is indexing into {}: wait until it has ended", .0.display())]
    Busy(PathBuf),
}

pub(crate) struct VectorStore {
    path: PathBuf,
    file: File,
    dimension: usize,
    codes: HashMap<Hash, Code>,
    /// The file's length up to the last entry that is known to be whole.
    good_bytes: u64,
    /// Entries that were spoilt.
    pub(crate) spoilt: usize,
}

impl VectorStore {
    /// Opens the file of a model, or begins it.
    pub(crate) fn open(folder: &Path, model: &Model) -> Result<Self, VectorStoreError> {
        let whole = whole(model);
        let path = path(folder, &whole);
        let failed = |cause| VectorStoreError::Io {
            path: path.clone(),
            cause,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => VectorStoreError::Busy(path.clone()),
            TryLockError::Error(cause) => failed(cause),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let mut store = Self {
            dimension: model.dimension,
            codes: HashMap::new(),
            good_bytes: 0,
            spoilt: 0,
            file,
            path: path.clone(),
        };
        let header = header(&whole);
        match bytes.strip_prefix(header.as_slice()) {
            Some(entries) => {
                (store.codes, store.spoilt) = read_entries(entries, store.dimension);
                store.good_bytes = bytes.len() as u64;
                if store.spoilt > 0 {
                    store.rewrite(&header)?;
                }
            }
            None => {
                store.spoilt = bytes.len().div_ceil(entry_bytes(store.dimension));
                store.rewrite(&header)?;
            }
        }
        Ok(store)
    }

    /// The vectors of a model that are kept now, whoever may be adding some at the same time; none where there is no file.
    pub(crate) fn peek(
        folder: &Path,
        model: &Model,
    ) -> Result<HashMap<Hash, Code>, VectorStoreError> {
        let whole = whole(model);
        let path = path(folder, &whole);
        match fs::read(&path) {
            Ok(bytes) => Ok(bytes
                .strip_prefix(header(&whole).as_slice())
                .map(|entries| read_entries(entries, model.dimension).0)
                .unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HashMap::new()),
            Err(cause) => Err(VectorStoreError::Io { path, cause }),
        }
    }

    pub(crate) fn get(&self, key: &Hash) -> Option<&Code> {
        self.codes.get(key)
    }

    /// Keeps vectors durably. After an error the file is as it was before.
    pub(crate) fn add(&mut self, added: Vec<(Hash, Code)>) -> Result<(), VectorStoreError> {
        let mut bytes = Vec::with_capacity(added.len() * entry_bytes(self.dimension));
        for (key, code) in &added {
            write_entry(key, code, &mut bytes);
        }
        let written = self
            .file
            .seek(SeekFrom::Start(self.good_bytes))
            .and_then(|_| self.file.write_all(&bytes))
            .and_then(|()| self.file.sync_data());
        if let Err(cause) = written {
            // Should this fail as well, the checksum tells the next opening.
            let _ = self.file.set_len(self.good_bytes);
            return Err(self.failed(cause));
        }
        self.good_bytes += bytes.len() as u64;
        self.codes.extend(added);
        Ok(())
    }

    /// Writes the file anew without the vectors that are not wanted any more, once these are the larger part.
    pub(crate) fn retain(
        &mut self,
        model: &Model,
        is_wanted: impl Fn(&Hash) -> bool,
    ) -> Result<(), VectorStoreError> {
        let wanted = self.codes.keys().filter(|key| is_wanted(key)).count();
        let dead = self.codes.len() - wanted;
        if self.codes.len() < ENTRIES_MIN || dead <= wanted * DEAD_SHARE_MAX {
            return Ok(());
        }
        self.codes.retain(|key, _| is_wanted(key));
        self.rewrite(&header(&whole(model)))
    }

    /// Replaces the file by one that holds what is in memory.
    fn rewrite(&mut self, header: &[u8]) -> Result<(), VectorStoreError> {
        let mut bytes = header.to_vec();
        let mut keys: Vec<&Hash> = self.codes.keys().collect();
        keys.sort_unstable();
        for key in keys {
            write_entry(key, &self.codes[key], &mut bytes);
        }
        let new_path = self.path.with_extension("new");
        let replaced = (|| {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&new_path)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            // The name's new file is locked before anybody can open it by that name.
            file.try_lock().map_err(io::Error::from)?;
            fs::rename(&new_path, &self.path)?;
            Ok(file)
        })();
        match replaced {
            Ok(file) => {
                self.file = file;
                self.good_bytes = bytes.len() as u64;
                Ok(())
            }
            Err(cause) => {
                // What is left of the attempt is of no use.
                let _ = fs::remove_file(&new_path);
                Err(self.failed(cause))
            }
        }
    }

    fn failed(&self, cause: io::Error) -> VectorStoreError {
        VectorStoreError::Io {
            path: self.path.clone(),
            cause,
        }
    }
}

/// Stands for a model in a file's name and header.
fn whole(model: &Model) -> Hash {
    sha256(&[
        model.id.as_bytes(),
        model.hash.as_bytes(),
        &model.dimension.to_le_bytes(),
    ])
}

fn path(folder: &Path, whole: &Hash) -> PathBuf {
    folder.join(format!("vectors-{}.bin", &hex(whole)[..16]))
}

fn entry_bytes(dimension: usize) -> usize {
    HASH_BYTES + 4 + dimension + CHECKSUM_BYTES
}

/// The whole entries, and how many were spoilt.
fn read_entries(bytes: &[u8], dimension: usize) -> (HashMap<Hash, Code>, usize) {
    let length = entry_bytes(dimension);
    let mut codes = HashMap::with_capacity(bytes.len() / length);
    let mut spoilt = 0;
    for entry in bytes.chunks(length) {
        match read_entry(entry, length) {
            Some((key, code)) => {
                codes.insert(key, code);
            }
            None => spoilt += 1,
        }
    }
    (codes, spoilt)
}

fn header(model: &Hash) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(model);
    let checksum = sha256(&[&header]);
    header.extend_from_slice(&checksum[..CHECKSUM_BYTES]);
    debug_assert_eq!(header.len(), HEADER_BYTES);
    header
}

fn write_entry(key: &Hash, code: &Code, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&code.scale.to_le_bytes());
    bytes.extend(code.numbers.iter().map(|number| number.to_le_bytes()[0]));
    let checksum = sha256(&[&bytes[start..]]);
    bytes.extend_from_slice(&checksum[..CHECKSUM_BYTES]);
}

fn read_entry(bytes: &[u8], length: usize) -> Option<(Hash, Code)> {
    if bytes.len() != length {
        return None;
    }
    let (content, checksum) = bytes.split_at(length - CHECKSUM_BYTES);
    if sha256(&[content])[..CHECKSUM_BYTES] != *checksum {
        return None;
    }
    let (key, content) = content.split_first_chunk::<HASH_BYTES>()?;
    let (scale, numbers) = content.split_first_chunk::<4>()?;
    let code = Code {
        scale: f32::from_le_bytes(*scale),
        numbers: numbers
            .iter()
            .map(|byte| i8::from_le_bytes([*byte]))
            .collect(),
    };
    Some((*key, code))
}
