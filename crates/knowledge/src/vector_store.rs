//! Stores the vectors of passages in a file, so that none is made twice. A vector's key is the hash of its passage; the passage's record
//! is not known here.
//!
//! One file for each model: a header, then entries of equal length, each with a checksum. Entries are only added at the end, so that a
//! crash can damage only the last ones; damaged entries are dropped when the file is opened.

use crate::codes::Codes;
use crate::embed::Model;
use crate::hash::{Hash, hex, sha256};
use crate::vectors::{Code, CodeRef};
use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use windlass_contract::private;

const MAGIC: &[u8; 8] = b"WLVEC\x00\x00\x01";
const HASH_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 8;
const HEADER_BYTES: usize = MAGIC.len() + HASH_BYTES + CHECKSUM_BYTES;
/// The unused entries for each used one, from which on the file is rewritten.
const DEAD_SHARE_MAX: usize = 1;
/// The fewest entries for which the file is ever rewritten.
const ENTRIES_MIN: usize = 256;

/// The reason why vectors could not be stored.
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
    codes: Codes,
    /// The file's length up to the last undamaged entry.
    good_bytes: u64,
    /// The number of damaged entries.
    pub(crate) spoilt: usize,
}

impl VectorStore {
    /// Opens the file of a model, or creates it.
    pub(crate) fn open(folder: &Path, model: &Model) -> Result<Self, VectorStoreError> {
        let whole = whole(model);
        let path = path(folder, &whole);
        let failed = |cause| VectorStoreError::Io {
            path: path.clone(),
            cause,
        };
        private::create_folder(folder).map_err(failed)?;
        let mut file = private::options()
            .read(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => VectorStoreError::Busy(path.clone()),
            TryLockError::Error(cause) => failed(cause),
        })?;
        let length = file.metadata().map_err(failed)?.len();
        let header = header(&whole);
        let read = read(&mut file, &header, model.dimension, length).map_err(failed)?;
        let is_ours = read.is_some();
        let (codes, spoilt) = read.unwrap_or_else(|| {
            let entries = length.div_ceil(entry_bytes(model.dimension) as u64);
            (
                Codes::new(model.dimension),
                usize::try_from(entries).unwrap_or(usize::MAX),
            )
        });
        let mut store = Self {
            dimension: model.dimension,
            codes,
            good_bytes: length,
            spoilt,
            file,
            path: path.clone(),
        };
        if store.spoilt > 0 || !is_ours {
            store.rewrite(&header)?;
        }
        Ok(store)
    }

    /// The vectors of a model that are stored now, even while another process adds some; empty without a file.
    pub(crate) fn peek(folder: &Path, model: &Model) -> Result<Codes, VectorStoreError> {
        let whole = whole(model);
        let path = path(folder, &whole);
        let failed = |cause| VectorStoreError::Io {
            path: path.clone(),
            cause,
        };
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Codes::new(model.dimension));
            }
            Err(cause) => return Err(failed(cause)),
        };
        let length = file.metadata().map_err(failed)?.len();
        let read = read(&mut file, &header(&whole), model.dimension, length).map_err(failed)?;
        Ok(read.map_or_else(|| Codes::new(model.dimension), |(codes, _)| codes))
    }

    pub(crate) fn codes(&self) -> &Codes {
        &self.codes
    }

    /// Stores vectors durably. After an error the file is as it was before.
    pub(crate) fn add(&mut self, added: Vec<(Hash, Code)>) -> Result<(), VectorStoreError> {
        let mut bytes = Vec::with_capacity(added.len() * entry_bytes(self.dimension));
        for (key, code) in &added {
            write_entry(key, code.lent(), &mut bytes);
        }
        let written = self
            .file
            .seek(SeekFrom::Start(self.good_bytes))
            .and_then(|_| self.file.write_all(&bytes))
            .and_then(|()| self.file.sync_data());
        if let Err(cause) = written {
            // If this fails as well, the checksum shows it at the next opening.
            let _ = self.file.set_len(self.good_bytes);
            return Err(self.failed(cause));
        }
        self.good_bytes += bytes.len() as u64;
        for (key, code) in &added {
            self.codes.insert(*key, code.lent());
        }
        Ok(())
    }

    /// Rewrites the file without unwanted vectors, once these are the larger part.
    pub(crate) fn retain(
        &mut self,
        model: &Model,
        is_wanted: impl Fn(&Hash) -> bool,
    ) -> Result<(), VectorStoreError> {
        let wanted = self
            .codes
            .keys()
            .iter()
            .filter(|key| is_wanted(key))
            .count();
        let dead = self.codes.len() - wanted;
        if self.codes.len() < ENTRIES_MIN || dead <= wanted * DEAD_SHARE_MAX {
            return Ok(());
        }
        self.codes = self.codes.only(is_wanted);
        self.rewrite(&header(&whole(model)))
    }

    /// Replaces the file by the vectors in memory.
    fn rewrite(&mut self, header: &[u8]) -> Result<(), VectorStoreError> {
        let new_path = self.path.with_extension("new");
        let replaced = (|| {
            let file = private::options()
                .read(true)
                .create(true)
                .truncate(true)
                .open(&new_path)?;
            let mut writer = BufWriter::new(&file);
            writer.write_all(header)?;
            let mut entry = Vec::with_capacity(entry_bytes(self.dimension));
            for key in self.codes.keys() {
                if let Some(code) = self.codes.get(&key) {
                    entry.clear();
                    write_entry(&key, code, &mut entry);
                    writer.write_all(&entry)?;
                }
            }
            writer.flush()?;
            drop(writer);
            file.sync_all()?;
            // The new file is locked before another process can open it by that name.
            file.try_lock().map_err(io::Error::from)?;
            fs::rename(&new_path, &self.path)?;
            let bytes = file.metadata()?.len();
            Ok((file, bytes))
        })();
        match replaced {
            Ok((file, bytes)) => {
                self.file = file;
                self.good_bytes = bytes;
                Ok(())
            }
            Err(cause) => {
                // The file of a failed attempt is useless.
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

/// The identity of a model, for a file's name and header and for a database.
pub(crate) fn whole(model: &Model) -> Hash {
    sha256(&[
        model.id.as_bytes(),
        model.hash.as_bytes(),
        &(model.dimension as u64).to_le_bytes(),
    ])
}

fn path(folder: &Path, whole: &Hash) -> PathBuf {
    folder.join(format!("vectors-{}.bin", &hex(whole)[..16]))
}

fn entry_bytes(dimension: usize) -> usize {
    HASH_BYTES + 4 + dimension + CHECKSUM_BYTES
}

/// The undamaged entries of a file, and the number of damaged ones; `None` where its header is not the model's. Only one entry at a time
/// is in memory twice.
fn read(
    file: &mut File,
    header: &[u8],
    dimension: usize,
    length: u64,
) -> io::Result<Option<(Codes, usize)>> {
    let mut reader = BufReader::new(file);
    let mut found = Vec::new();
    reader
        .by_ref()
        .take(header.len() as u64)
        .read_to_end(&mut found)?;
    if found != header {
        return Ok(None);
    }
    let bytes = entry_bytes(dimension);
    let mut codes = Codes::new(dimension);
    codes.reserve(usize::try_from(length).unwrap_or_default() / bytes);
    let mut spoilt = 0;
    let mut entry = Vec::with_capacity(bytes);
    let mut numbers = Vec::with_capacity(dimension);
    loop {
        entry.clear();
        reader.by_ref().take(bytes as u64).read_to_end(&mut entry)?;
        if entry.is_empty() {
            return Ok(Some((codes, spoilt)));
        }
        match read_entry(&entry, bytes, &mut numbers) {
            Some((key, scale)) => codes.insert(
                key,
                CodeRef {
                    scale,
                    numbers: &numbers,
                },
            ),
            None => spoilt += 1,
        }
    }
}

fn header(model: &Hash) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(model);
    let checksum = sha256(&[&header]);
    header.extend_from_slice(&checksum[..CHECKSUM_BYTES]);
    debug_assert_eq!(header.len(), HEADER_BYTES);
    header
}

fn write_entry(key: &Hash, code: CodeRef<'_>, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&code.scale.to_le_bytes());
    bytes.extend(code.numbers.iter().map(|number| number.to_le_bytes()[0]));
    let checksum = sha256(&[&bytes[start..]]);
    bytes.extend_from_slice(&checksum[..CHECKSUM_BYTES]);
}

/// The key and the scale of an undamaged entry, whose numbers are appended to `numbers`.
fn read_entry(bytes: &[u8], length: usize, numbers: &mut Vec<i8>) -> Option<(Hash, f32)> {
    if bytes.len() != length {
        return None;
    }
    let (content, checksum) = bytes.split_at(length - CHECKSUM_BYTES);
    if sha256(&[content])[..CHECKSUM_BYTES] != *checksum {
        return None;
    }
    let (key, content) = content.split_first_chunk::<HASH_BYTES>()?;
    let (scale, content) = content.split_first_chunk::<4>()?;
    numbers.clear();
    numbers.extend(content.iter().map(|byte| i8::from_le_bytes([*byte])));
    Some((*key, f32::from_le_bytes(*scale)))
}
