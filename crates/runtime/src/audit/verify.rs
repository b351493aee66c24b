//! Reads an audit back and finds the first record that was changed or moved. Writes nothing.

use super::chain::{self, Link, Record};
use super::checkpoint::Checkpoint;
use super::file::{self, AuditPart};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use windlass_contract::json;

/// Bytes of one line; a longer one is no record of ours.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The result for an intact audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub files: usize,
    pub records: u64,
    /// Whether the first record is the first of all. It is not if older files were put away.
    pub is_from_genesis: bool,
    /// The last record's link. A copy kept elsewhere shows later whether records were cut off the end.
    pub last: Link,
}

/// The first record that is bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    pub path: PathBuf,
    /// The line's number, from 1.
    pub line: u64,
    pub fault: Fault,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}, line {}: {}",
            self.path.display(),
            self.line,
            self.fault
        )
    }
}

/// The fault of a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the line is no record of an audit")]
    NoRecord,
    #[error(
        "the record follows one that is not here, and this is the audit's first file: records before it are missing"
    )]
    Beheaded,
    #[error("the line is cut off")]
    Truncated,
    #[error("the record was changed: its content does not give its hash")]
    Edited,
    #[error(
        "the record does not follow the one before it: records are missing, were moved, or were put in"
    )]
    Unlinked,
    #[error(
        "records of session {session} are missing or were moved: number {found} follows number {before}"
    )]
    Gap {
        session: String,
        before: u64,
        found: u64,
    },
    #[error("the record of session {session} has no number")]
    Unnumbered { session: String },
}

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("{0}")]
    Bad(BadRecord),
    #[error(
        "the audit does not have the record that was its number {} at {}: it was cut off, or written anew", .0.records, .0.made
    )]
    Rewritten(Checkpoint),
    #[error("{} cannot be read: {source}; name files of an audit", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

/// Verifies files of one audit, given oldest first; the chain has to lead from each to the next. The files must not be written
/// meanwhile: for an audit with running writers see [`Standing`].
pub fn verify(paths: &[PathBuf]) -> Result<Verified, VerifyError> {
    verify_against(paths, Vec::new())
}

/// The same for an audit that has to have the records of these checkpoints.
pub fn verify_against(
    paths: &[PathBuf],
    checkpoints: Vec<Checkpoint>,
) -> Result<Verified, VerifyError> {
    let begins_audit = paths.first().is_some_and(|path| file::is_first(path));
    let mut chain = Chain::beginning(begins_audit, checkpoints);
    for path in paths {
        chain.named(path)?;
    }
    chain.verified(paths.len())
}

/// A whole audit as it stood at one moment. Servers may go on writing it.
pub struct Standing {
    path: PathBuf,
    files: file::Standing,
}

impl Standing {
    /// Waits until no process writes, and notes the files and their lengths.
    pub fn of(path: &Path) -> Result<Self, VerifyError> {
        let files = file::Standing::of(path).map_err(|source| VerifyError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            files,
        })
    }

    /// Whether the audit has no file at all.
    pub fn is_empty(&self) -> bool {
        self.files.full.is_empty() && self.files.growing.is_none()
    }

    /// The files of that moment, for a copy.
    pub fn parts(self) -> Result<Vec<AuditPart>, VerifyError> {
        let path = &self.path;
        let parts = self.files.parts(path);
        parts.map_err(|source| VerifyError::Unreadable {
            path: path.clone(),
            source,
        })
    }

    /// Passes on the fields of each record of that moment, oldest first. Returns the number of lines that are no records. Does
    /// not check the chain.
    pub fn each(self, mut take: impl FnMut(Map<String, Value>)) -> Result<u64, VerifyError> {
        let mut others = 0;
        let mut line = |text: &[u8]| match json::parse(text) {
            Ok(Value::Object(record)) if record.contains_key("event") => take(record),
            _ => others += 1,
        };
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| VerifyError::Unreadable { path, source }
        };
        for path in &self.files.full {
            let file = File::open(path).map_err(unreadable(path))?;
            lines(file, &mut line).map_err(unreadable(path))?;
        }
        if let Some(growing) = self.files.growing {
            let file = growing.file.take(growing.length);
            lines(file, &mut line).map_err(unreadable(&self.path))?;
        }
        Ok(others)
    }

    /// Verifies the records of that moment. Later records are left to the next time.
    pub fn verify(self) -> Result<Verified, VerifyError> {
        self.verify_against(Vec::new())
    }

    /// The same for an audit that has to have the records of these checkpoints.
    pub fn verify_against(self, checkpoints: Vec<Checkpoint>) -> Result<Verified, VerifyError> {
        let mut chain = Chain::beginning(self.files.begins_audit, checkpoints);
        for path in &self.files.full {
            chain.named(path)?;
        }
        let mut count = self.files.full.len();
        if let Some(growing) = self.files.growing {
            count += 1;
            chain.read(&self.path, growing.file.take(growing.length))?;
        }
        chain.verified(count)
    }
}

/// Each line of a file, without its line feed; a line too long for a record comes in pieces.
fn lines(file: impl Read, line: &mut impl FnMut(&[u8])) -> io::Result<()> {
    let mut file = BufReader::new(file);
    let mut text = Vec::new();
    loop {
        text.clear();
        let mut limited = (&mut file).take(LINE_BYTES_MAX);
        if limited.read_until(b'\n', &mut text)? == 0 {
            return Ok(());
        }
        line(text.strip_suffix(b"\n").unwrap_or(&text));
    }
}

enum Stop {
    Unreadable(io::Error),
    Bad { line: u64, fault: Fault },
}

#[derive(Default)]
struct Chain {
    /// Whether no file of the audit is older than the first one read.
    begins_audit: bool,
    records: u64,
    is_from_genesis: bool,
    last: Option<Link>,
    /// The number of each session's last record.
    sequences: HashMap<String, u64>,
    /// Checkpoints whose records have not come yet.
    awaited: Vec<Checkpoint>,
}

impl Chain {
    fn beginning(begins_audit: bool, mut awaited: Vec<Checkpoint>) -> Self {
        // The checkpoint of an audit without records has the link of every audit's beginning.
        awaited.retain(|checkpoint| checkpoint.last != Link::genesis());
        Self {
            begins_audit,
            awaited,
            ..Self::default()
        }
    }

    fn verified(self, files: usize) -> Result<Verified, VerifyError> {
        if let Some(missing) = self.awaited.into_iter().next() {
            return Err(VerifyError::Rewritten(missing));
        }
        Ok(Verified {
            files,
            records: self.records,
            is_from_genesis: self.is_from_genesis,
            last: self.last.unwrap_or_else(Link::genesis),
        })
    }

    fn named(&mut self, path: &Path) -> Result<(), VerifyError> {
        let file = File::open(path).map_err(|source| VerifyError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        self.read(path, file)
    }

    fn read(&mut self, path: &Path, file: impl Read) -> Result<(), VerifyError> {
        let path = || path.to_owned();
        self.file(BufReader::new(file)).map_err(|stop| match stop {
            Stop::Unreadable(source) => VerifyError::Unreadable {
                path: path(),
                source,
            },
            Stop::Bad { line, fault } => VerifyError::Bad(BadRecord {
                path: path(),
                line,
                fault,
            }),
        })
    }

    fn file(&mut self, mut file: impl BufRead) -> Result<(), Stop> {
        let mut text = Vec::new();
        for line in 1_u64.. {
            text.clear();
            let mut limited = (&mut file).take(LINE_BYTES_MAX);
            let bytes = limited
                .read_until(b'\n', &mut text)
                .map_err(Stop::Unreadable)?;
            if bytes == 0 {
                break;
            }
            self.line(&text)
                .map_err(|fault| Stop::Bad { line, fault })?;
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Fault> {
        if line.last() != Some(&b'\n') {
            return Err(Fault::Truncated);
        }
        let record = chain::read(line).ok_or(Fault::NoRecord)?;
        if !record.is_intact {
            return Err(Fault::Edited);
        }
        let gap = self.gap(&record);
        match &self.last {
            None => {
                self.is_from_genesis = record.previous == Link::genesis();
                if self.begins_audit && !self.is_from_genesis {
                    return Err(Fault::Beheaded);
                }
            }
            // A gap in a session's numbers, if there is one, says more than the broken link.
            Some(last) if *last != record.previous => return Err(gap.unwrap_or(Fault::Unlinked)),
            Some(_) => {}
        }
        if let Some(gap) = gap {
            return Err(gap);
        }
        self.awaited
            .retain(|checkpoint| checkpoint.last != record.link);
        self.last = Some(record.link);
        self.records += 1;
        Ok(())
    }

    /// Notes the session's number. It begins at 1, and again at 1 after the session went on in another process.
    fn gap(&mut self, record: &Record) -> Option<Fault> {
        let session = record.fields.get("sessionId")?.as_str()?;
        let session = session.to_owned();
        let number = record.fields.get("sequence").and_then(Value::as_u64);
        let Some(found) = number else {
            return Some(Fault::Unnumbered { session });
        };
        let before = self.sequences.insert(session.clone(), found);
        // A session's first record in these files may have predecessors in files that were put away.
        let before = before?;
        (found != before + 1 && found != 1).then_some(Fault::Gap {
            session,
            before,
            found,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::chain::append;
    use serde_json::json;

    #[test]
    fn a_session_counts_each_of_its_records() {
        for number in [Value::Null, json!("2"), json!(2.5), json!(-2)] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("audit.jsonl");
            let (mut text, mut last) = (Vec::new(), Link::genesis());
            for sequence in [json!(1), number.clone()] {
                let body = json!({ "sessionId": "s-1", "sequence": sequence });
                last = append(&mut text, &body, &last);
            }
            std::fs::write(&path, text).expect("written");
            let Err(VerifyError::Bad(bad)) = verify(std::slice::from_ref(&path)) else {
                panic!("{number} is no number of a record");
            };
            let session = "s-1".to_owned();
            assert_eq!((bad.line, bad.fault), (2, Fault::Unnumbered { session }));
        }
    }
}
