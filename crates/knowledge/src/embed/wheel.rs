//! Takes one file out of a wheel, which is a zip archive.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use windlass_contract::private;
use zip::ZipArchive;
use zip::result::ZipError;

/// The reason why a file could not be unpacked from a wheel.
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

/// Unpacks the file of that name from any folder of the archive.
pub(crate) fn unpack(
    wheel: &Path,
    name: &str,
    bytes_max: u64,
    target: &Path,
) -> Result<(), WheelError> {
    let problem = |error| match error {
        ZipError::Io(error) => WheelError::Unreadable(error),
        ZipError::UnsupportedArchive(_) => WheelError::UnknownMethod(name.to_owned()),
        _ => WheelError::NotAnArchive,
    };
    let mut archive = ZipArchive::new(BufReader::new(File::open(wheel)?)).map_err(problem)?;
    let is_it = |found: &str| {
        let folder = found.strip_suffix(name);
        folder.is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
    };
    let place = (0..archive.len()).find(|place| {
        let found = archive.name_for_index(*place);
        found.is_some_and(|found| found.is_ok_and(|found| is_it(&found)))
    });
    let place = place.ok_or_else(|| WheelError::Missing(name.to_owned()))?;
    let packed = archive.by_index(place).map_err(problem)?;
    let mut out = BufWriter::new(
        private::options()
            .create(true)
            .truncate(true)
            .open(target)?,
    );
    let written = io::copy(&mut packed.take(bytes_max.saturating_add(1)), &mut out)?;
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
