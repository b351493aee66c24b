//! Keeps which passages each text was cut into, as their hashes, so that a start need not cut what was cut before. Knows no
//! vector, and no text but by its hash.
//!
//! One file for each model, which says how long a passage may be. It is written whole and put in the place of the one before
//! in one step, so that a crash leaves one of the two; its checksum tells whatever else may have happened to it.

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
/// A longer file is none of ours: it would hold four million passages.
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The passages of every text that was cut, for one model.
pub(crate) struct PassageList {
    pub(crate) path: PathBuf,
    header: Vec<u8>,
    bytes: Vec<u8>,
    /// Where in the bytes the hashes of a text's passages lie.
    texts: HashMap<Hash, Range<usize>>,
    pub(crate) state: ListState,
}

/// As what a list was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListState {
    Whole,
    Missing,
    Damaged,
}

impl PassageList {
    /// Reads the list of a model. One that is not there, cannot be read or is not whole has nothing in it.
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

    /// The hashes of a text's passages in their order, where the text was cut before.
    pub(crate) fn passages(&self, text: &Hash) -> Option<&[Hash]> {
        let (passages, _) = self.bytes.get(self.texts.get(text)?.clone())?.as_chunks();
        Some(passages)
    }

    /// How many texts it has.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Puts a list of other texts in the place of this one, durably.
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
            // It could not be read again.
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

/// Where the passages of each text lie; `None` where the bytes are not a whole list of that header.
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
