//! Reads tensors of a safetensors file one at a time, so that the whole file is never in memory. Knows no model.
//!
//! The format (<https://huggingface.co/docs/safetensors>): eight bytes of header length, little-endian; a JSON object of
//! `name: {dtype, shape, data_offsets}`; then the data, to which the offsets are relative.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

const HEADER_BYTES_MAX: u64 = 1024 * 1024;

/// The reason why a tensor could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TensorError {
    #[error("the weights cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("the weights are no safetensors file: {0}")]
    Header(String),
    #[error("the weights have no tensor {0:?}: this is another model")]
    Missing(String),
    #[error("the tensor {name:?} is {found}, not f32 of shape {wanted:?}: this is another model")]
    Shape {
        name: String,
        found: String,
        wanted: Vec<usize>,
    },
}

pub(crate) struct Tensors {
    file: BufReader<File>,
    entries: BTreeMap<String, Entry>,
    data_start: u64,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// The only member of the header that is no tensor.
const REMARKS: &str = "__metadata__";
const F32: &str = "F32";

impl Tensors {
    pub(crate) fn open(path: &Path) -> Result<Self, TensorError> {
        let mut file = BufReader::with_capacity(256 * 1024, File::open(path)?);
        let mut length = [0; 8];
        file.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length > HEADER_BYTES_MAX {
            return Err(TensorError::Header(format!(
                "its header would be {length} bytes long"
            )));
        }
        let mut header = Vec::new();
        (&mut file).take(length).read_to_end(&mut header)?;
        let no_header = |error: serde_json::Error| TensorError::Header(error.to_string());
        let members: BTreeMap<String, &RawValue> =
            serde_json::from_slice(&header).map_err(no_header)?;
        let mut entries = BTreeMap::new();
        for (name, member) in members.into_iter().filter(|(name, _)| name != REMARKS) {
            let entry: Entry = serde_json::from_str(member.get()).map_err(no_header)?;
            entries.insert(name, entry);
        }
        Ok(Self {
            file,
            entries,
            data_start: 8 + length,
        })
    }

    /// Calls a function with each number of a tensor of that shape, in order.
    pub(crate) fn each(
        &mut self,
        name: &str,
        shape: &[usize],
        mut take: impl FnMut(f32),
    ) -> Result<(), TensorError> {
        let entry = self
            .entries
            .get(name)
            .ok_or_else(|| TensorError::Missing(name.to_owned()))?;
        let count: usize = shape.iter().product();
        let (start, end) = entry.data_offsets;
        let fits = end.checked_sub(start) == Some(count * 4);
        if entry.dtype != F32 || entry.shape != shape || !fits {
            return Err(TensorError::Shape {
                name: name.to_owned(),
                found: format!("{} of shape {:?}", entry.dtype, entry.shape),
                wanted: shape.to_vec(),
            });
        }
        let place = self.data_start.saturating_add(start as u64);
        self.file.seek(SeekFrom::Start(place))?;
        let mut buffer = [0; 16 * 1024];
        let mut left = count * 4;
        while left > 0 {
            let part = left.min(buffer.len());
            self.file.read_exact(&mut buffer[..part])?;
            let (numbers, _) = buffer[..part].as_chunks::<4>();
            for number in numbers {
                take(f32::from_le_bytes(*number));
            }
            left -= part;
        }
        Ok(())
    }

    pub(crate) fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, TensorError> {
        let mut numbers = Vec::with_capacity(shape.iter().product());
        self.each(name, shape, |number| numbers.push(number))?;
        Ok(numbers)
    }
}
