//! Reads a folder of files into records, keeps the good ones and reports every bad one with its place.
//! Knows no index and no search.

use crate::asset::{self, AssetPlace, asset};
use crate::front_matter::Fault;
use crate::hash::hex;
use crate::left_out::LeftOut;
use crate::record;
use crate::structured::{self, Format, Found, Reading};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use windlass_contract::handler::Record;

/// The deepest nesting of folders; a deeper tree is a mistake or an attack.
const DEPTH_MAX: usize = 16;

/// The limits of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngestLimits {
    /// The most bytes of a text file, which is one record. A larger file is reported and left out.
    pub file_bytes_max: u64,
    /// The most bytes of a data file, which may hold many records.
    pub data_file_bytes_max: u64,
    /// The most entries of the whole folder. Later entries in its order are reported and left out.
    pub files_max: usize,
    /// The most records of the whole folder. Later records are reported and left out.
    pub records_max: usize,
    /// The most problems that are listed; the others are counted.
    pub problems_max: usize,
}

impl Default for IngestLimits {
    /// 1 MiB a text file, 32 MiB a file of data, 100,000 files, 200,000 records, 10,000 problems.
    fn default() -> Self {
        Self {
            file_bytes_max: 1024 * 1024,
            data_file_bytes_max: 32 * 1024 * 1024,
            files_max: 100_000,
            records_max: 200_000,
            problems_max: 10_000,
        }
    }
}

/// The outcome of reading a folder's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngestReport {
    /// The number of records in the base.
    pub records: usize,
    /// In the order of the paths. The file or record that each one names was left out.
    pub problems: Vec<Problem>,
    /// The number of further problems that are not listed.
    pub problems_untold: usize,
    /// Kept records that lack something: a text, or the file that they name. Listed up to the same limit.
    pub warnings: Vec<Problem>,
    /// The number of further warnings that are not listed.
    pub warnings_untold: usize,
    /// Files without a record.
    pub left_out: LeftOut,
    /// Unexpected changes of stored files, and the measures taken.
    pub notices: Vec<String>,
    /// Hex digits of the SHA-256 of every file that was read, by its path.
    pub files: BTreeMap<String, String>,
    /// Changes against the last indexing; empty where nothing is stored.
    pub changes: Changes,
    /// The number of passages of the records, and of those newly embedded.
    pub passages: usize,
    pub embedded: usize,
    /// The number of different passages still without a vector.
    pub missing: usize,
    /// The number of records that were cut into passages because no stored cut existed.
    pub cut: usize,
}

impl IngestReport {
    /// Whether the folder holds files, but no record.
    pub fn is_unreadable(&self) -> bool {
        self.records == 0 && (!self.left_out.is_empty() || !self.problems.is_empty())
    }
}

/// The changes of files since the last indexing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    pub added: usize,
    pub changed: usize,
    pub removed: usize,
    /// The same content under another path.
    pub renamed: usize,
    pub unchanged: usize,
}

/// One problem of one file. Displays as `path:line: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Relative to the folder.
    pub path: String,
    /// From 1.
    pub line: Option<usize>,
    /// The problem and its cure.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}:{line}: {}", self.path, self.message),
            None => write!(formatter, "{}: {}", self.path, self.message),
        }
    }
}

/// The reason why a folder could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("there is no knowledge base folder {}: create it, or name another", .0.display())]
    Missing(PathBuf),
    #[error("{} is not a folder: name the folder that holds the records", .0.display())]
    NotAFolder(PathBuf),
    #[error("the knowledge base folder {} cannot be read: {cause}", .folder.display())]
    Unreadable { folder: PathBuf, cause: io::Error },
}

/// The good records of a folder, and the report, whose record count is not yet set.
pub(crate) fn read_folder(
    folder: &Path,
    limits: &IngestLimits,
    reading: Reading<'_>,
) -> Result<(Vec<Record>, IngestReport), FolderError> {
    let root = folder.canonicalize().map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => FolderError::Missing(folder.to_owned()),
        _ => unreadable(folder, cause),
    })?;
    if !root.is_dir() {
        return Err(FolderError::NotAFolder(folder.to_owned()));
    }
    let (entries, hidden) =
        sorted_entries(&root, limits).map_err(|cause| unreadable(folder, cause))?;
    let mut reader = FolderReader {
        root,
        limits,
        reading,
        entries_seen: 0,
        records: Vec::new(),
        paths_by_id: HashMap::new(),
        problems: Vec::new(),
        problems_untold: 0,
        warnings: Vec::new(),
        warnings_untold: 0,
        left_out: LeftOut {
            hidden,
            ..LeftOut::default()
        },
        other_files: HashSet::new(),
        files: BTreeMap::new(),
    };
    reader.walk(entries);
    reader.count_other_files();
    let report = IngestReport {
        problems: reader.problems,
        problems_untold: reader.problems_untold,
        warnings: reader.warnings,
        warnings_untold: reader.warnings_untold,
        left_out: reader.left_out,
        files: reader.files,
        ..IngestReport::default()
    };
    Ok((reader.records, report))
}

fn unreadable(folder: &Path, cause: io::Error) -> FolderError {
    FolderError::Unreadable {
        folder: folder.to_owned(),
        cause,
    }
}

/// A file or folder still to be read.
struct Entry {
    path: PathBuf,
    /// The name in problems and records.
    name: String,
    depth: usize,
}

struct FolderReader<'a> {
    root: PathBuf,
    limits: &'a IngestLimits,
    reading: Reading<'a>,
    entries_seen: usize,
    records: Vec<Record>,
    paths_by_id: HashMap<String, String>,
    problems: Vec<Problem>,
    problems_untold: usize,
    warnings: Vec<Problem>,
    warnings_untold: usize,
    left_out: LeftOut,
    /// Files without records. Files that a record shows are among them.
    other_files: HashSet<String>,
    files: BTreeMap<String, String>,
}

/// The kind of an entry.
enum Kind {
    Folder,
    Records(Format),
    /// A document, where no document reader is set.
    Document,
    Other,
}

impl FolderReader<'_> {
    fn walk(&mut self, entries: Vec<Entry>) {
        // The stack's last entry is the next one in the order of the paths.
        let mut stack: Vec<Entry> = entries.into_iter().rev().collect();
        while let Some(entry) = stack.pop() {
            self.entries_seen += 1;
            if self.entries_seen > self.limits.files_max {
                let message = format!(
                    "the folder holds more than {} files: this one and all after it are left out",
                    self.limits.files_max
                );
                self.report(&entry.name, Fault::new(None, message));
                return;
            }
            match self.visit(&entry) {
                Ok(inner) => stack.extend(inner.into_iter().rev()),
                Err(fault) => {
                    self.left_out.bad += 1;
                    self.report(&entry.name, fault);
                }
            }
        }
    }

    /// The entries of a folder; empty for a file.
    fn visit(&mut self, entry: &Entry) -> Result<Vec<Entry>, Fault> {
        match self.kind(entry)? {
            Kind::Other => {
                self.other_files.insert(entry.name.clone());
                Ok(Vec::new())
            }
            Kind::Document => {
                self.left_out.documents += 1;
                Ok(Vec::new())
            }
            Kind::Folder if entry.depth >= DEPTH_MAX => Err(Fault::new(
                None,
                format!("the folder is more than {DEPTH_MAX} deep: move it up"),
            )),
            Kind::Folder => {
                let (inner, hidden) =
                    sorted_entries(&entry.path, self.limits).map_err(cannot_read)?;
                self.left_out.hidden += hidden;
                Ok(inner
                    .into_iter()
                    .map(|inner| Entry {
                        name: format!("{}/{}", entry.name, inner.name),
                        depth: entry.depth + 1,
                        path: inner.path,
                    })
                    .collect())
            }
            Kind::Records(format) => {
                let bytes = self.read_file(&entry.path, format)?;
                let hash = hex(&Sha256::digest(&bytes));
                self.files.insert(entry.name.clone(), hash);
                let found = structured::read(&entry.name, format, self.reading, &bytes)?;
                self.keep_all(&entry.name, found);
                Ok(Vec::new())
            }
        }
    }

    /// Keeps the good records of one file.
    fn keep_all(&mut self, name: &str, found: Vec<Found>) {
        let before = self.records.len();
        let all = found.len();
        let (mut without_text, mut first_line) = (0, None);
        for Found { line, record } in found {
            match record.and_then(|record| self.keep(name, line, record)) {
                Ok(TextPresence::Present) => {}
                Ok(TextPresence::Missing) => {
                    without_text += 1;
                    first_line = first_line.or(line);
                }
                Err(fault) => self.report(name, fault),
            }
        }
        if all > 0 && self.records.len() == before {
            self.left_out.bad += 1;
        }
        let message = match without_text {
            0 => return,
            1 => "the record has no text, so that it is found by its title alone: write its text"
                .to_owned(),
            count => format!(
                "{count} records have no text, so that they are found by their titles alone: write it under `body`, `text` or \
                 `answer`"
            ),
        };
        self.warn(name, first_line, message);
    }

    fn kind(&self, entry: &Entry) -> Result<Kind, Fault> {
        let format = entry
            .path
            .extension()
            .and_then(|extension| Format::of(extension.to_str()?));
        let mut metadata = fs::symlink_metadata(&entry.path).map_err(cannot_read)?;
        if metadata.is_symlink() {
            let target = entry.path.canonicalize().map_err(|cause| {
                Fault::new(None, format!("the symbolic link leads nowhere: {cause}"))
            })?;
            if !target.starts_with(&self.root) {
                return Err(Fault::new(
                    None,
                    "the symbolic link leaves the knowledge base folder: put the file itself here",
                ));
            }
            metadata = fs::metadata(&target).map_err(cannot_read)?;
            if metadata.is_dir() {
                return Err(Fault::new(
                    None,
                    "the symbolic link leads to a folder, which could go round in circles: put the folder itself here",
                ));
            }
        }
        Ok(match (metadata.is_dir(), metadata.is_file(), format) {
            (true, _, _) => Kind::Folder,
            (false, true, Some(Format::Document(_))) if self.reading.documents.is_none() => {
                Kind::Document
            }
            (false, true, Some(format)) => Kind::Records(format),
            (false, true, None) | (false, false, _) => Kind::Other,
        })
    }

    fn read_file(&self, path: &Path, format: Format) -> Result<Vec<u8>, Fault> {
        let bytes_max = match format {
            Format::Markdown | Format::Mdx | Format::Plain => self.limits.file_bytes_max,
            Format::Json | Format::JsonLines | Format::Yaml | Format::Csv | Format::Document(_) => {
                self.limits.data_file_bytes_max
            }
        };
        let mut bytes = Vec::new();
        // A file can grow after its size was read, so the reading itself is limited.
        File::open(path)
            .and_then(|file| {
                file.take(bytes_max.saturating_add(1))
                    .read_to_end(&mut bytes)
            })
            .map_err(cannot_read)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= bytes_max) {
            return Ok(bytes);
        }
        Err(Fault::new(
            None,
            format!("the file is larger than {bytes_max} bytes: split it into several"),
        ))
    }

    fn keep(
        &mut self,
        name: &str,
        line: Option<usize>,
        record: Record,
    ) -> Result<TextPresence, Fault> {
        if self.records.len() >= self.limits.records_max {
            let message = format!(
                "the folder holds more than {} records: this one is left out",
                self.limits.records_max
            );
            return Err(Fault::new(line, message));
        }
        if let Some(first) = self.paths_by_id.get(&record.id) {
            return Err(Fault::new(
                line,
                format!(
                    "the id {:?} is already that of {first}, which is kept: give one of the two another id",
                    record.id
                ),
            ));
        }
        self.paths_by_id.insert(record.id.clone(), name.to_owned());
        self.look_for_file(name, line, &record);
        // An asset needs no text.
        let presence = match record.body.is_empty() && asset::kind(&record).is_none() {
            true => TextPresence::Missing,
            false => TextPresence::Present,
        };
        self.records.push(record);
        Ok(presence)
    }

    fn look_for_file(&mut self, name: &str, line: Option<usize>, record: &Record) {
        let Some(AssetPlace::File(path)) = asset(record).map(|asset| asset.place) else {
            return;
        };
        if self.root.join(&path).is_file() {
            return;
        }
        let message = format!(
            "{} names the file {path}, which is not there: put it there, or name another",
            record.id
        );
        self.warn(name, line, message);
    }

    /// A file that a record shows is not counted.
    fn count_other_files(&mut self) {
        for record in &self.records {
            if let Some(AssetPlace::File(path)) = asset(record).map(|asset| asset.place) {
                self.other_files.remove(&path);
            }
        }
        let names = self.other_files.iter().map(String::as_str);
        self.left_out.count_kinds(names);
    }

    fn warn(&mut self, name: &str, line: Option<usize>, message: String) {
        if self.warnings.len() >= self.limits.problems_max {
            self.warnings_untold += 1;
            return;
        }
        self.warnings.push(Problem {
            path: name.to_owned(),
            line,
            message,
        });
    }

    fn report(&mut self, name: &str, fault: Fault) {
        if self.problems.len() >= self.limits.problems_max {
            self.problems_untold += 1;
            return;
        }
        self.problems.push(Problem {
            path: name.to_owned(),
            line: fault.line,
            message: fault.message,
        });
    }
}

/// Whether a kept record has a text.
enum TextPresence {
    Present,
    Missing,
}

/// The entries of one folder by name, and the number of hidden ones. Stops reading once there are more entries than the limit allows: the
/// walk leaves them out in any case.
fn sorted_entries(folder: &Path, limits: &IngestLimits) -> io::Result<(Vec<Entry>, usize)> {
    let mut entries = Vec::new();
    let mut hidden = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.starts_with(['.', '_']) {
            true => hidden += 1,
            false => entries.push(Entry {
                path: entry.path(),
                name: record::clean_line(&name),
                depth: 1,
            }),
        }
        if entries.len() > limits.files_max {
            break;
        }
    }
    entries.sort_by(|left, right| left.path.cmp(&right.path));
    Ok((entries, hidden))
}

fn cannot_read(cause: io::Error) -> Fault {
    Fault::new(None, format!("cannot be read: {cause}"))
}
