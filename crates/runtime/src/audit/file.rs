//! The audit's files: the growing one, and the full ones beside it, whose names end in a number. Owns locking, rotation and the
//! handling of a torn last line; knows only a record's chain.

use super::chain::{self, Link, TAIL_LENGTH};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use windlass_contract::private;

/// Bytes of a file that are read in search of its first line's end. A longer line is no record.
const FIRST_LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of a file's end that are read at once in search of its last line feed.
const STEP: u64 = 64 * 1024;

/// Digits of the number in a full file's name.
const NUMBER_DIGITS: usize = 6;

pub(super) struct ChainedFile {
    path: PathBuf,
    /// The lock among processes that share an audit. Its holder writes.
    lock: File,
    bytes_max: u64,
}

/// A file under the lock, and the end of its chain.
struct End {
    file: File,
    length: u64,
    link: Link,
}

impl ChainedFile {
    pub(super) fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        let mut options = private::options();
        options.create(true).truncate(false);
        let chained = Self {
            path: path.to_owned(),
            lock: options.open(lock_path(path))?,
            bytes_max,
        };
        chained.open_growing()?;
        Ok(chained)
    }

    /// Writes records, and removes them from `bodies`. After an error the rest were not written: a half-written record is cut off
    /// again.
    pub(super) fn append(&self, bodies: &mut VecDeque<Value>) -> io::Result<()> {
        self.lock.lock()?;
        let outcome = self.append_locked(bodies);
        let unlocked = self.lock.unlock();
        outcome.and(unlocked)
    }

    fn append_locked(&self, bodies: &mut VecDeque<Value>) -> io::Result<()> {
        while !bodies.is_empty() {
            let mut end = self.end()?;
            let mut text = Vec::new();
            let mut link = end.link.clone();
            let mut count = 0;
            for body in bodies.iter() {
                let before = text.len();
                let next = chain::append(&mut text, body, &link);
                let is_full = end.length + text.len() as u64 > self.bytes_max;
                // A record that exceeds a file's limit gets a file of its own.
                if is_full && end.length + before as u64 > 0 {
                    text.truncate(before);
                    break;
                }
                link = next;
                count += 1;
            }
            if count == 0 {
                drop(end);
                self.rotate()?;
                continue;
            }
            if let Err(error) = end.file.write_all(&text) {
                // Making a file shorter needs no space. If it fails, the next writer finds the torn line.
                let _ = end.file.set_len(end.length);
                return Err(error);
            }
            bodies.drain(..count);
        }
        Ok(())
    }

    fn open_growing(&self) -> io::Result<File> {
        let mut options = private::options();
        options.create(true).truncate(false).read(true);
        options.open(&self.path)
    }

    /// The growing file and the end of its chain. A last line without its line feed was never written whole: it is removed, and
    /// the chain shows that. A file that does not end in a record is set aside.
    fn end(&self) -> io::Result<End> {
        let mut file = self.open_growing()?;
        let length = file.metadata()?.len();
        let whole = whole_lines(&mut file, length)?;
        if whole < length {
            file.set_len(whole)?;
        }
        let link = match whole {
            0 => match self.full_files()?.pop() {
                Some((_, newest)) => last_link(&mut File::open(newest)?)?,
                None => None,
            }
            .unwrap_or_else(Link::genesis),
            _ => match last_link(&mut file)? {
                Some(link) => link,
                None => {
                    drop(file);
                    self.rotate()?;
                    return Ok(End {
                        file: self.open_growing()?,
                        length: 0,
                        link: Link::genesis(),
                    });
                }
            },
        };
        file.seek(SeekFrom::Start(whole))?;
        let mut end = End {
            file,
            length: whole,
            link,
        };
        if whole < length {
            let repaired = json!({ "event": "audit_repaired", "bytesCut": length - whole });
            let mut text = Vec::new();
            end.link = chain::append(&mut text, &repaired, &end.link);
            end.file.write_all(&text)?;
            end.length += text.len() as u64;
        }
        Ok(end)
    }

    fn rotate(&self) -> io::Result<()> {
        let newest = self.full_files()?.last().map_or(0, |(number, _)| *number);
        let number = newest.max(filled(&self.path)) + 1;
        std::fs::rename(&self.path, full_path(&self.path, number))?;
        let text = number.to_string();
        let mut lock = &self.lock;
        lock.seek(SeekFrom::Start(0))?;
        lock.write_all(text.as_bytes())?;
        lock.set_len(text.len() as u64)
    }

    fn full_files(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        full_files(&self.path)
    }
}

/// The file that an audit of this path would write to although it holds something else: the audit's own file, which begins with a
/// record or with a piece of one, or the lock file beside it, which holds a number.
pub(super) fn foreign(path: &Path) -> io::Result<Option<PathBuf>> {
    let lock = lock_path(path);
    let is_number = |line: &[u8]| line.iter().all(u8::is_ascii_digit);
    if !begins(path, chain::begins)? {
        Ok(Some(path.to_owned()))
    } else if !begins(&lock, is_number)? {
        Ok(Some(lock))
    } else {
        Ok(None)
    }
}

/// Whether a file that exists and is not empty begins as it should.
fn begins(path: &Path, is_right: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
    let found = present(std::fs::metadata(path))?;
    if !found.is_some_and(|found| found.is_file() && found.len() > 0) {
        return Ok(true);
    }
    let mut line = Vec::new();
    let mut file = BufReader::new(File::open(path)?).take(FIRST_LINE_BYTES_MAX);
    file.read_until(b'\n', &mut line)?;
    Ok(is_right(&line))
}

/// The lock file beside an audit. It holds the number of filled files, so that no number is used twice even if files were put
/// away.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// The number of files that an audit has filled, as far as it was written down.
fn filled(path: &Path) -> u64 {
    let text = std::fs::read_to_string(lock_path(path)).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Whether a file is the first of its audit, with no record before its own first one.
pub(super) fn is_first(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| number_of(name.rsplit_once('.')?.1));
    match number {
        Some(number) => number == 1,
        None => filled(path) == 0 && full_files(path).is_ok_and(|files| files.is_empty()),
    }
}

/// The files of an audit as they stood at one moment, even if another process writes them.
pub(super) struct Standing {
    /// Full files, oldest first. Neither their contents nor their names change any more.
    pub(super) full: Vec<PathBuf>,
    pub(super) growing: Option<Growing>,
    /// Whether no record can have come before the first one.
    pub(super) begins_audit: bool,
    /// The number of files that were filled so far.
    pub(super) filled: u64,
}

/// One file of an audit, for a copy of the whole.
pub struct AuditPart {
    /// The file's own name. The form depends on it: files beside each other are one audit.
    pub name: OsString,
    pub content: Box<dyn Read>,
}

/// The growing file, whatever its name is by now, and the number of bytes to read of it.
pub(super) struct Growing {
    pub(super) file: File,
    pub(super) length: u64,
}

impl Standing {
    /// Reads under the writers' lock: the files have whole lines, and no file is between two names.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let lock = present(File::open(lock_path(path)))?;
        if let Some(lock) = &lock {
            lock.lock_shared()?;
        }
        let full = present(full_files(path))?.unwrap_or_default();
        let full: Vec<PathBuf> = full.into_iter().map(|(_, path)| path).collect();
        let growing = match present(File::open(path))? {
            Some(file) => Some(Growing {
                length: file.metadata()?.len(),
                file,
            }),
            None => None,
        };
        Ok(Self {
            begins_audit: is_first(full.first().map_or(path, PathBuf::as_path)),
            filled: filled(path),
            full,
            growing,
        })
    }

    /// The files of that moment, the oldest records first. The growing file has the audit's own name here even if it is full by
    /// now.
    pub(super) fn parts(self, path: &Path) -> io::Result<Vec<AuditPart>> {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_owned();
        let mut parts = Vec::new();
        for full in self.full {
            parts.push(AuditPart {
                name: name(&full),
                content: Box::new(File::open(full)?),
            });
        }
        if let Some(growing) = self.growing {
            parts.push(AuditPart {
                name: name(path),
                content: Box::new(growing.file.take(growing.length)),
            });
        }
        if self.filled > 0 {
            parts.push(AuditPart {
                name: name(&lock_path(path)),
                content: Box::new(io::Cursor::new(self.filled.to_string())),
            });
        }
        Ok(parts)
    }
}

/// The contents of a file or folder, or `None` if it does not exist.
fn present<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The number at the end of a full file's name.
fn number_of(digits: &str) -> Option<u64> {
    let is_number = digits.len() >= NUMBER_DIGITS;
    is_number.then(|| digits.parse().ok()).flatten()
}

/// The audit's full files, oldest first, and then the growing one, if it exists.
pub fn files_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = full_files(path)?
        .into_iter()
        .map(|(_, path)| path)
        .collect();
    if path.exists() {
        files.push(path.to_owned());
    }
    Ok(files)
}

/// Whether a file belongs to an audit: the growing one, a full one, or the lock file beside them.
pub fn is_of_audit(file: &Path, audit: &Path) -> bool {
    if file == audit || file == lock_path(audit) {
        return true;
    }
    let number = file
        .extension()
        .and_then(|digits| number_of(digits.to_str()?));
    number.is_some() && file.with_extension("") == audit
}

fn full_path(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number:0NUMBER_DIGITS$}"));
    PathBuf::from(name)
}

fn full_files(path: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let prefix = path.file_name().unwrap_or_default();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .zip(prefix.to_str())
            .and_then(|(name, prefix)| name.strip_prefix(prefix)?.strip_prefix('.'))
            .and_then(number_of);
        if let Some(number) = number {
            files.push((number, full_path(path, number)));
        }
    }
    files.sort();
    Ok(files)
}

/// The number of bytes in a file's whole lines.
fn whole_lines(file: &mut File, length: u64) -> io::Result<u64> {
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(STEP);
        let mut piece = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.take(end - start).read_to_end(&mut piece)?;
        if let Some(position) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + position as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// The link of a file's last record; `None` if the file does not end in a record.
fn last_link(file: &mut File) -> io::Result<Option<Link>> {
    let length = file.metadata()?.len();
    let Some(start) = length.checked_sub(TAIL_LENGTH as u64) else {
        return Ok(None);
    };
    let mut tail = Vec::with_capacity(TAIL_LENGTH);
    file.seek(SeekFrom::Start(start))?;
    file.take(TAIL_LENGTH as u64).read_to_end(&mut tail)?;
    Ok(Link::of_tail(&tail))
}
