//! Unpacks the streams of a PDF file within a budget. Knows the filters that a stream may have, and no page.

use super::Refusal;
use flate2::read::{DeflateDecoder, ZlibDecoder};
use pdf_extract::{Dictionary, Object, Stream};
use std::io::{self, Read};
use weezl::{BitOrder, LzwStatus, decode::Decoder};

/// Bytes of a row of a picture-like table, in which cross-references are often kept. The library makes room for what the file
/// says.
const ROW_BYTES_MAX: i64 = 1024 * 1024;
/// Filters of one stream, one upon the other.
const FILTERS_MAX: usize = 4;

/// What may still be inflated of one file.
#[derive(Debug, Default)]
pub(super) struct Budget {
    left: usize,
    refusal: Option<Refusal>,
}

impl Budget {
    pub(super) const fn new(left: usize) -> Self {
        Self {
            left,
            refusal: None,
        }
    }

    /// The first refusal, which the library does not pass on.
    pub(super) fn verdict(self) -> Result<(), Refusal> {
        self.refusal.map_or(Ok(()), Err)
    }

    /// Puts what a stream holds in the place of what it is packed into. A picture becomes empty.
    pub(super) fn unpack(&mut self, stream: &mut Stream) -> Result<(), Refusal> {
        let unpacked = match self.refusal {
            Some(refusal) => Err(refusal),
            None => unpacked(stream, self.left),
        };
        match unpacked {
            Ok(content) => {
                self.left -= content.len();
                stream.set_plain_content(content);
                Ok(())
            }
            Err(refusal) => {
                self.refusal = Some(refusal);
                Err(refusal)
            }
        }
    }
}

/// What stands for a stream that holds no text. The library reads empty ones again.
const NOTHING: &[u8] = b" ";

fn unpacked(stream: &Stream, left: usize) -> Result<Vec<u8>, Refusal> {
    let subtype = stream.dict.get(b"Subtype").and_then(Object::as_name);
    if subtype.is_ok_and(|subtype| subtype == b"Image") {
        return Ok(NOTHING.to_vec());
    }
    let mut content = stream.content.clone();
    let filters = stream.filters().unwrap_or_default();
    if filters.len() > FILTERS_MAX {
        return Err(Refusal::TooDeep);
    }
    let parameters = stream.dict.get(b"DecodeParms").ok();
    check_rows(parameters)?;
    for filter in filters {
        let bytes = match filter {
            b"FlateDecode" => inflated_bytes(&content, left),
            b"LZWDecode" => lzw_bytes(&content, is_early(parameters), left),
            b"ASCII85Decode" => Some(content.len().saturating_mul(4)),
            // Pictures and sounds.
            _ => return Ok(NOTHING.to_vec()),
        };
        if bytes.is_none_or(|bytes| bytes > left) {
            return Err(Refusal::TooLarge);
        }
        let mut dictionary = Dictionary::new();
        dictionary.set("Filter", Object::Name(filter.to_vec()));
        if let Some(parameters) = parameters {
            dictionary.set("DecodeParms", parameters.clone());
        }
        let step = Stream::new(dictionary, content);
        content = step.decompressed_content().unwrap_or_default();
    }
    match content.len() {
        0 => Ok(NOTHING.to_vec()),
        bytes if bytes > left => Err(Refusal::TooLarge),
        _ => Ok(content),
    }
}

/// Whether the codes of an LZW stream become longer one code sooner than they must.
fn is_early(parameters: Option<&Object>) -> bool {
    let parameters = parameters.and_then(|parameters| parameters.as_dict().ok());
    let early =
        parameters.and_then(|parameters| parameters.get(b"EarlyChange").ok()?.as_i64().ok());
    early != Some(0)
}

/// Refuses rows that the library would make room for however long they are said to be.
pub(super) fn check_rows(parameters: Option<&Object>) -> Result<(), Refusal> {
    let Some(Object::Dictionary(parameters)) = parameters else {
        return Ok(());
    };
    let number = |name: &[u8]| {
        let found = parameters.get(name).and_then(Object::as_i64);
        found.unwrap_or(1).max(1)
    };
    let row = number(b"Columns")
        .saturating_mul(number(b"Colors"))
        .saturating_mul(number(b"BitsPerComponent"));
    match row > ROW_BYTES_MAX {
        true => Err(Refusal::TooLarge),
        false => Ok(()),
    }
}

/// What a stream inflates to; `None` where that is more than the limit.
pub(super) fn inflated_bytes(content: &[u8], limit: usize) -> Option<usize> {
    let mut bytes = counted(ZlibDecoder::new(content), limit)?;
    // The library tries once more without the header.
    if bytes == 0 && content.len() > 2 {
        bytes = counted(DeflateDecoder::new(&content[2..]), limit)?;
    }
    Some(bytes)
}

fn counted(reader: impl Read, limit: usize) -> Option<usize> {
    let mut counter = Counter(0);
    // What was damaged after so many bytes has these.
    let _ = io::copy(&mut reader.take(limit as u64 + 1), &mut counter);
    (counter.0 <= limit).then_some(counter.0)
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.0 += part.len();
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What an LZW stream unpacks to; `None` where that is more than the limit.
fn lzw_bytes(content: &[u8], is_early: bool, limit: usize) -> Option<usize> {
    const CODE_BITS: u8 = 8;
    let mut decoder = match is_early {
        true => Decoder::with_tiff_size_switch(BitOrder::Msb, CODE_BITS),
        false => Decoder::new(BitOrder::Msb, CODE_BITS),
    };
    let mut counter = Counter(0);
    let mut block = vec![0; 64 * 1024];
    let mut rest = content;
    while counter.0 <= limit {
        let step = decoder.decode_bytes(rest, &mut block);
        counter.0 += step.consumed_out;
        rest = &rest[step.consumed_in..];
        let is_stuck = step.consumed_in == 0 && step.consumed_out == 0;
        if is_stuck || !matches!(step.status, Ok(LzwStatus::Ok)) {
            return (counter.0 <= limit).then_some(counter.0);
        }
    }
    None
}

pub(super) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut start = 0;
    loop {
        let place = start + bytes[start..].iter().position(|byte| *byte == first)?;
        if bytes[place..].starts_with(wanted) {
            return Some(place);
        }
        start = place + 1;
    }
}
