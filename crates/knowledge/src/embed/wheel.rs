//! Takes one file out of a wheel, which is a zip archive. Knows stored and deflated entries of one archive file, and
//! refuses everything that a wheel does not need.
//!
//! The format is PKWARE's application note 6.3.10: the end record (4.3.16) points to the central directory (4.3.12),
//! whose entries point to local headers (4.3.7) that the data follows.

use flate2::read::DeflateDecoder;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes of the end record with its longest comment.
const END_BYTES_MAX: u64 = 22 + 65_535;
/// Bytes of a central directory; that of a wheel with twenty files takes two thousand.
const DIRECTORY_BYTES_MAX: u32 = 1024 * 1024;

/// Why a file could not be taken out of a wheel.
#[derive(Debug, thiserror::Error)]
pub enum WheelError {
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    #[error("it is no zip archive")]
    NotAnArchive,
    #[error("it holds no file {0:?}")]
    Missing(String),
    #[error("{0:?} is packed in a way that is not known here")]
    UnknownMethod(String),
    #[error("{name:?} is larger than {bytes_max} bytes")]
    TooLarge { name: String, bytes_max: u64 },
}

struct Place {
    method: u16,
    packed_bytes: u64,
    header: u64,
}

/// Unpacks the file of that name, in whatever folder of the archive it lies.
pub(crate) fn unpack(
    wheel: &Path,
    name: &str,
    bytes_max: u64,
    target: &Path,
) -> Result<(), WheelError> {
    let mut file = BufReader::new(File::open(wheel)?);
    let place = find(&mut file, name)?;
    file.seek(SeekFrom::Start(place.header))?;
    let mut header = [0; 30];
    file.read_exact(&mut header)?;
    if header[..4] != *b"PK\x03\x04" {
        return Err(WheelError::NotAnArchive);
    }
    let skipped = i64::from(number16(&header, 26)) + i64::from(number16(&header, 28));
    file.seek_relative(skipped)?;
    let packed = file.take(place.packed_bytes);
    let mut out = BufWriter::new(File::create(target)?);
    let limit = bytes_max.saturating_add(1);
    let written = match place.method {
        0 => io::copy(&mut packed.take(limit), &mut out)?,
        8 => io::copy(&mut DeflateDecoder::new(packed).take(limit), &mut out)?,
        _ => return Err(WheelError::UnknownMethod(name.to_owned())),
    };
    out.flush()?;
    out.get_ref().sync_all()?;
    if written > bytes_max {
        return Err(WheelError::TooLarge {
            name: name.to_owned(),
            bytes_max,
        });
    }
    Ok(())
}

fn find(file: &mut (impl Read + Seek), name: &str) -> Result<Place, WheelError> {
    let length = file.seek(SeekFrom::End(0))?;
    let tail_start = length.saturating_sub(END_BYTES_MAX);
    file.seek(SeekFrom::Start(tail_start))?;
    let mut tail = Vec::new();
    file.take(END_BYTES_MAX).read_to_end(&mut tail)?;
    let end = tail
        .windows(22)
        .rposition(|window| window.starts_with(b"PK\x05\x06"))
        .ok_or(WheelError::NotAnArchive)?;
    let size = number32(&tail[end..], 12);
    let start = number32(&tail[end..], 16);
    if size > DIRECTORY_BYTES_MAX {
        return Err(WheelError::NotAnArchive);
    }
    file.seek(SeekFrom::Start(u64::from(start)))?;
    let mut directory = vec![0; size as usize];
    file.read_exact(&mut directory)?;
    let mut rest = directory.as_slice();
    while rest.len() >= 46 && rest.starts_with(b"PK\x01\x02") {
        let lengths = [28, 30, 32].map(|place| usize::from(number16(rest, place)));
        let [name_length, extra, comment] = lengths;
        let entry_length = 46 + name_length + extra + comment;
        let Some(entry_name) = rest.get(46..46 + name_length) else {
            break;
        };
        let is_it = entry_name
            .strip_suffix(name.as_bytes())
            .is_some_and(|folder| folder.is_empty() || folder.ends_with(b"/"));
        if is_it {
            return Ok(Place {
                method: number16(rest, 10),
                packed_bytes: u64::from(number32(rest, 20)),
                header: u64::from(number32(rest, 42)),
            });
        }
        rest = rest.get(entry_length..).unwrap_or_default();
    }
    Err(WheelError::Missing(name.to_owned()))
}

/// The caller has made sure that the bytes are there.
fn number16(bytes: &[u8], place: usize) -> u16 {
    u16::from_le_bytes([bytes[place], bytes[place + 1]])
}

fn number32(bytes: &[u8], place: usize) -> u32 {
    u32::from(number16(bytes, place)) | u32::from(number16(bytes, place + 2)) << 16
}
