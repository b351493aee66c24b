//! The manifest of the last indexing: its files, analyser and model. Written last, so that everything it lists exists; shows the changes
//! since then. Knows no content.

use crate::embed::Embedder;
use crate::ingest::{Changes, IngestReport};
use crate::search::KnowledgeBase;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const NAME: &str = "manifest.json";
/// Raised when the meaning of the file's content changes.
const FORMAT: u32 = 1;
/// Raised when the same text gives different terms or passages.
pub(crate) const ANALYSER: u32 = 2;
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The reason why the manifest could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be written: {cause}; free space or name another data folder", .path.display())]
pub struct ManifestError {
    path: PathBuf,
    cause: io::Error,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    format: u32,
    analyser: u32,
    folder: String,
    model: Option<ModelFacts>,
    records: usize,
    passages: usize,
    /// Hex digits of the SHA-256 of every file that held a good record, by its path.
    files: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ModelFacts {
    id: String,
    hash: String,
    dimension: usize,
}

impl Manifest {
    pub(crate) fn new(
        folder: &Path,
        base: &KnowledgeBase,
        embedder: Option<&dyn Embedder>,
        report: &IngestReport,
    ) -> Self {
        Self {
            format: FORMAT,
            analyser: ANALYSER,
            folder: folder.to_string_lossy().into_owned(),
            model: embedder.map(|embedder| {
                let model = embedder.model();
                ModelFacts {
                    id: model.id.clone(),
                    hash: model.hash.clone(),
                    dimension: model.dimension,
                }
            }),
            records: base.len(),
            passages: report.passages,
            files: report.files.clone(),
        }
    }

    fn changes_since(&self, before: &BTreeMap<String, String>) -> Changes {
        let mut changes = Changes::default();
        let gone: BTreeSet<&str> = before
            .iter()
            .filter(|(path, _)| !self.files.contains_key(*path))
            .map(|(_, hash)| hash.as_str())
            .collect();
        let gone_files = before
            .keys()
            .filter(|path| !self.files.contains_key(*path))
            .count();
        for (path, hash) in &self.files {
            match before.get(path) {
                Some(known) if known == hash => changes.unchanged += 1,
                Some(_) => changes.changed += 1,
                None if gone.contains(hash.as_str()) => changes.renamed += 1,
                None => changes.added += 1,
            }
        }
        changes.removed = gone_files.saturating_sub(changes.renamed);
        changes
    }
}

/// Replaces the last manifest in one step, and returns the changes.
pub(crate) fn replace(
    folder: &Path,
    manifest: &Manifest,
    notices: &mut Vec<String>,
) -> Result<Changes, ManifestError> {
    let path = folder.join(NAME);
    let before = match read(&path) {
        Ok(before) => before.map(|before| before.files).unwrap_or_default(),
        Err(cause) => {
            notices.push(format!(
                "{} was damaged ({cause}) and is written anew",
                path.display()
            ));
            BTreeMap::new()
        }
    };
    let written = serde_json::to_vec_pretty(manifest)
        .map_err(io::Error::from)
        .and_then(|mut text| {
            text.push(b'\n');
            replace_file(&path, &text)
        });
    match written {
        Ok(()) => Ok(manifest.changes_since(&before)),
        Err(cause) => Err(ManifestError { path, cause }),
    }
}

/// Replaces a file in one step, durably. On failure the old file stays as it was.
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut new_path = path.as_os_str().to_owned();
    new_path.push(".new");
    let new_path = PathBuf::from(new_path);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // The lock keeps two writers apart, which would spoil each other's file; closing the folder releases it.
    let folder = File::open(folder)?;
    folder.lock()?;
    let written = (|| {
        let mut file = File::create(&new_path)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new_path, path)?;
        // The new name is durable once its folder is.
        folder.sync_all()
    })();
    if written.is_err() {
        // The file of a failed attempt is useless.
        let _ = fs::remove_file(&new_path);
    }
    written
}

/// `None` if it does not exist yet.
fn read(path: &Path) -> io::Result<Option<Manifest>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(BYTES_MAX).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(serde_json::from_slice(&bytes)?))
}
