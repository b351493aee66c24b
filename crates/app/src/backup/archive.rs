//! The form of a backup: a zip archive of files, and a list of them with their lengths and hashes. Believes nothing that an archive says
//! of itself. Knows no data folder.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read};
use std::path::{Component, Path};
use windlass_contract::json::hex;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// The version of this form.
pub(super) const FORM: u32 = 1;
const LIST: &str = "windlass-backup.json";
/// Files of one archive. The journals are the most by far.
pub(super) const FILES_MAX: usize = 100_000;
const NAME_BYTES_MAX: usize = 1_024;
/// Bytes of the list, which has about 200 for each file.
const LIST_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How many bytes one byte of an archive becomes at most: zip's compression cannot do more.
const EXPANSION_MAX: u64 = 1_100;

#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    #[error("it is no backup of windlass")]
    Unknown,
    #[error(
        "it was written by a newer windlass: it has version {found}, and this one knows version {FORM}; use the newer one"
    )]
    Newer { found: u32 },
    #[error("it is damaged: {0}; take another backup")]
    Damaged(String),
    #[error("it has a file that is none of a data folder: {0:?}")]
    Hostile(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// One file, as the list has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listed {
    /// Relative, with `/` between its parts.
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct List {
    windlass_backup: u32,
    /// RFC 3339.
    made_at: String,
    files: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    windlass_backup: u32,
}

pub(super) struct Writer {
    zip: ZipWriter<BufWriter<File>>,
    files: Vec<Listed>,
}

impl Writer {
    pub(super) fn new(file: File) -> Self {
        Self {
            zip: ZipWriter::new(BufWriter::new(file)),
            files: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, name: &str, content: impl Read) -> io::Result<()> {
        self.zip.start_file(name, options())?;
        let mut hashing = Hashing::new(content);
        io::copy(&mut hashing, &mut self.zip)?;
        let (bytes, sha256) = hashing.end();
        self.files.push(Listed {
            name: name.to_owned(),
            bytes,
            sha256,
        });
        Ok(())
    }

    pub(super) fn files(&self) -> &[Listed] {
        &self.files
    }

    /// Writes the list, and everything to the disk.
    pub(super) fn finish(mut self, made_at: String) -> io::Result<()> {
        let list = List {
            windlass_backup: FORM,
            made_at,
            files: self.files,
        };
        self.zip.start_file(LIST, options())?;
        serde_json::to_writer(&mut self.zip, &list)?;
        let file = self.zip.finish()?.into_inner();
        file.map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

/// Entries of any length, for their owner alone where another program unpacks them.
fn options() -> SimpleFileOptions {
    SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .large_file(true)
        .unix_permissions(0o600)
}

pub(super) struct Reader {
    zip: ZipArchive<BufReader<File>>,
    list: List,
}

impl Reader {
    /// Reads the list, and compares it with the archive's files.
    pub(super) fn open(file: File) -> Result<Self, ArchiveError> {
        let mut zip = ZipArchive::new(BufReader::new(file)).map_err(|error| match error {
            ZipError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                ArchiveError::Io(error)
            }
            _ => ArchiveError::Unknown,
        })?;
        let mut text = Vec::new();
        match zip.by_name(LIST) {
            Ok(list) => list.take(LIST_BYTES_MAX).read_to_end(&mut text)?,
            Err(_) => return Err(ArchiveError::Unknown),
        };
        // Checked before the rest, which another version may write otherwise.
        let form: Form = serde_json::from_slice(&text).map_err(|_| ArchiveError::Unknown)?;
        if form.windlass_backup > FORM {
            return Err(ArchiveError::Newer {
                found: form.windlass_backup,
            });
        }
        let list: List = serde_json::from_slice(&text)
            .map_err(|error| ArchiveError::Damaged(format!("its list cannot be read: {error}")))?;
        if list.windlass_backup != FORM {
            return Err(ArchiveError::Unknown);
        }
        if list.files.len() > FILES_MAX || zip.len() != list.files.len() + 1 {
            return Err(ArchiveError::Damaged(
                "its list is not that of its files".to_owned(),
            ));
        }
        let mut names = BTreeSet::new();
        for file in &list.files {
            if !is_name(&file.name) || !names.insert(file.name.as_str()) {
                return Err(ArchiveError::Hostile(file.name.clone()));
            }
        }
        Ok(Self { zip, list })
    }

    pub(super) fn files(&self) -> &[Listed] {
        &self.list.files
    }

    pub(super) fn made_at(&self) -> &str {
        &self.list.made_at
    }

    /// Writes one file of the list: all that was said of it, and not a byte more.
    pub(super) fn extract(&mut self, file: &Listed, target: &mut File) -> Result<(), ArchiveError> {
        let damaged = |problem: &str| ArchiveError::Damaged(format!("{}: {problem}", file.name));
        let entry = match self.zip.by_name(&file.name) {
            Ok(entry) => entry,
            Err(ZipError::Io(error)) => return Err(error.into()),
            Err(_) => return Err(damaged("it is not there")),
        };
        if !entry.is_file() || file.bytes / EXPANSION_MAX > entry.compressed_size() {
            return Err(damaged("it is not as the list says"));
        }
        let mut hashing = Hashing::new(entry.take(file.bytes.saturating_add(1)));
        io::copy(&mut hashing, target).map_err(|error| match error.kind() {
            // Errors that the archive's own checksums find.
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => {
                damaged(&error.to_string())
            }
            io::ErrorKind::UnexpectedEof => damaged("it is cut off"),
            _ => error.into(),
        })?;
        match hashing.end() == (file.bytes, file.sha256.clone()) {
            true => Ok(target.sync_all()?),
            false => Err(damaged("it is not as the list says")),
        }
    }
}

/// Whether a name stays below the folder that it is relative to, on every system.
pub(super) fn is_name(name: &str) -> bool {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let is_known = |char: char| !char.is_control() && char != '\\' && char != ':';
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.chars().all(is_known)
        && name.split('/').all(|part| !part.is_empty() && part != ".")
        && Path::new(name).components().all(is_plain)
        && name != LIST
}

/// Counts and hashes the bytes that are read.
struct Hashing<R> {
    content: R,
    bytes: u64,
    sha256: Sha256,
}

impl<R> Hashing<R> {
    fn new(content: R) -> Self {
        Self {
            content,
            bytes: 0,
            sha256: Sha256::new(),
        }
    }

    fn end(self) -> (u64, String) {
        (self.bytes, hex(&<[u8; 32]>::from(self.sha256.finalize())))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.bytes += count as u64;
        self.sha256.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::PathBuf;

    /// An archive with these entries and this list, whatever it is worth.
    fn written(folder: &Path, list: &str, entries: &[(&str, &[u8])]) -> PathBuf {
        let path = folder.join("backup.zip");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        for (name, content) in entries {
            zip.start_file(*name, options()).unwrap();
            zip.write_all(content).unwrap();
        }
        zip.start_file(LIST, options()).unwrap();
        zip.write_all(list.as_bytes()).unwrap();
        zip.finish().unwrap();
        path
    }

    fn list(form: u32, name: &str, bytes: usize, content: &[u8]) -> String {
        let mut hashing = Hashing::new(content);
        io::copy(&mut hashing, &mut io::sink()).unwrap();
        serde_json::to_string(&List {
            windlass_backup: form,
            made_at: "2026-11-27T12:00:00Z".to_owned(),
            files: vec![Listed {
                name: name.to_owned(),
                bytes: bytes as u64,
                sha256: hashing.end().1,
            }],
        })
        .unwrap()
    }

    fn extracted(path: &Path) -> Result<Vec<u8>, ArchiveError> {
        let mut reader = Reader::open(File::open(path)?)?;
        let target = path.with_extension("out");
        for file in reader.files().to_vec() {
            reader.extract(&file, &mut File::create(&target)?)?;
        }
        Ok(std::fs::read(target)?)
    }

    #[test]
    fn what_was_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup.zip");
        let mut writer = Writer::new(File::create(&path).unwrap());
        writer.add("a/b", &b"content"[..]).unwrap();
        writer.finish("2026-11-27T12:00:00Z".to_owned()).unwrap();
        assert_eq!(extracted(&path).unwrap(), b"content");
    }

    #[test]
    fn an_archive_that_is_not_ours_or_not_whole_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let content = b"content".as_slice();
        let check = |list: &str, entries: &[(&str, &[u8])], expected: &str| {
            let path = written(folder.path(), list, entries);
            let error = extracted(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{list}: {error}");
        };
        let one = &[("a", content)];
        check("{}", one, "no backup of windlass");
        check("no list", one, "no backup of windlass");
        check(
            "{\"windlassBackup\":2,\"more\":true}",
            one,
            "it has version 2, and this one knows version 1",
        );
        check("{\"windlassBackup\":1}", one, "its list cannot be read");
        check(&list(0, "a", 7, content), one, "no backup of windlass");
        check(
            &list(1, "a", 7, content),
            &[("a", content), ("b", content)],
            "its list is not that of its files",
        );
        check(
            &list(1, "a", 7, content),
            &[("b", content)],
            "a: it is not there",
        );
        let other = b"another".as_slice();
        check(
            &list(1, "a", 7, content),
            &[("a", other)],
            "a: it is not as the list says",
        );
        for bytes in [6, 8, 1_000_000] {
            check(
                &list(1, "a", bytes, content),
                one,
                "a: it is not as the list says",
            );
        }
        for name in [
            "../a",
            "/a",
            "a/../../b",
            "a//b",
            "./a",
            "a/.",
            "",
            "c:a",
            "a\\b",
            "a\nb",
            LIST,
        ] {
            check(&list(1, name, 7, content), one, "none of a data folder");
        }
    }

    #[test]
    fn a_damaged_archive_is_refused_wherever_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..4_000_u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        let path = written(
            folder.path(),
            &list(1, "a", content.len(), &content),
            &[("a", &content)],
        );
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(extracted(&path).unwrap(), content);
        for length in (0..whole.len()).step_by(97) {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(extracted(&path).is_err(), "{length}");
        }
        for place in (0..whole.len()).step_by(97) {
            let mut spoilt = whole.clone();
            spoilt[place] ^= 0x55;
            std::fs::write(&path, &spoilt).unwrap();
            // Some bytes say nothing of the content, such as the time of an entry.
            if let Ok(read) = extracted(&path) {
                assert_eq!(read, content, "{place}");
            }
        }
    }
}
