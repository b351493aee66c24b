//! Stores the passages of each text as their hashes, so that a start need not cut known texts again. Knows no vector, and texts only by
//! their hashes.
//!
//! One file for each model, because the model limits the length of a passage. The file is written whole and replaced in one step, so that
//! a crash leaves the old or the new one; its checksum detects any other damage.

use crate::embed::Model;
use crate::hash::{Hash, hex, sha256};
use crate::manifest::{ANALYSER, replace_file};
use crate::vector_store::whole;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"WLPAS\x00\x00\x01";
const HASH_BYTES: usize = size_of::<Hash>();
const COUNT_BYTES: usize = size_of::<u32>();
/// The most bytes of a list; a longer file would hold four million passages and cannot be ours.
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The passages of every cut text, for one model.
pub(crate) struct PassageList {
    pub(crate) path: PathBuf,
    header: Vec<u8>,
    bytes: Vec<u8>,
    /// The range of the bytes with the hashes of a text's passages.
    texts: HashMap<Hash, Range<usize>>,
    pub(crate) state: ListState,
}

/// The state in which a list was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListState {
    Whole,
    Missing,
    Damaged,
}

impl PassageList {
    /// Reads the list of a model. A missing, unreadable or damaged list counts as empty.
    pub(crate) fn read(folder: &Path, model: &Model) -> Self {
        let whole = whole(model);
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&whole);
        header.extend_from_slice(&ANALYSER.to_le_bytes());
        let path = folder.join(format!("passages-{}.list", &hex(&whole)[..16]));
        let mut list = Self {
            path,
            header,
            bytes: Vec::new(),
            texts: HashMap::new(),
            state: ListState::Damaged,
        };
        match read_bytes(&list.path) {
            Ok(bytes) => {
                if let Some(texts) = texts(&bytes, &list.header) {
                    (list.bytes, list.texts, list.state) = (bytes, texts, ListState::Whole);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                list.state = ListState::Missing
            }
            Err(_) => {}
        }
        list
    }

    /// The hashes of a text's passages in their order, if the text was cut before.
    pub(crate) fn passages(&self, text: &Hash) -> Option<&[Hash]> {
        let (passages, _) = self.bytes.get(self.texts.get(text)?.clone())?.as_chunks();
        Some(passages)
    }

    /// The number of texts in the list.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Replaces this list by a list of other texts, durably.
    pub(crate) fn replace<'a>(
        &self,
        entries: impl Iterator<Item = (&'a Hash, Vec<Hash>)>,
    ) -> io::Result<()> {
        let mut content = self.header.clone();
        for (text, passages) in entries {
            let count = u32::try_from(passages.len()).map_err(io::Error::other)?;
            content.extend_from_slice(text);
            content.extend_from_slice(&count.to_le_bytes());
            content.extend(passages.iter().flatten());
        }
        let checksum = sha256(&[&content]);
        content.extend_from_slice(&checksum);
        if u64::try_from(content.len()).is_ok_and(|bytes| bytes > BYTES_MAX) {
            // A list of this size could not be read again.
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        replace_file(&self.path, &content)
    }
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The range of each text's passages; `None` where the bytes are not a whole list with that header.
fn texts(bytes: &[u8], header: &[u8]) -> Option<HashMap<Hash, Range<usize>>> {
    let (content, checksum) = bytes.split_last_chunk::<HASH_BYTES>()?;
    if !content.starts_with(header) || sha256(&[content]) != *checksum {
        return None;
    }
    let mut texts = HashMap::with_capacity(content.len() / (2 * HASH_BYTES + COUNT_BYTES));
    let mut place = header.len();
    while place < content.len() {
        let (text, rest) = content.get(place..)?.split_first_chunk::<HASH_BYTES>()?;
        let (count, rest) = rest.split_first_chunk::<COUNT_BYTES>()?;
        let length = usize::try_from(u32::from_le_bytes(*count)).ok()? * HASH_BYTES;
        rest.get(..length)?;
        let start = place + HASH_BYTES + COUNT_BYTES;
        texts.insert(*text, start..start + length);
        place = start + length;
    }
    Some(texts)
}
