//! The thread that writes journals: appends pieces to files and keeps the number of files down. Knows no session.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::SystemTime;
use windlass_contract::private;

/// The end of journals' names.
const SUFFIX: &str = ".journal.jsonl";

pub(super) enum Piece {
    Text {
        name: Arc<str>,
        text: Vec<u8>,
    },
    /// The journal with this name has ended.
    End {
        name: Arc<str>,
    },
    /// All journals have ended.
    Close,
}

pub(super) fn write_all(pieces: &Receiver<Piece>, folder: &Path, files_max: usize) {
    let mut files: HashMap<Arc<str>, Option<File>> = HashMap::new();
    for piece in pieces {
        match piece {
            Piece::Close => return,
            Piece::End { name } => drop(files.remove(&name)),
            Piece::Text { name, text } => {
                let file = files
                    .entry(name.clone())
                    .or_insert_with(|| kept(begin(folder, &name, files_max)));
                let written = match file {
                    Some(open) => open.write_all(&text),
                    None => Ok(()),
                };
                // A journal with a gap would not be the session's. The part before the gap can still be replayed.
                if kept(written).is_none() {
                    *file = None;
                }
            }
        }
    }
}

fn kept<T>(outcome: io::Result<T>) -> Option<T> {
    outcome
        .inspect_err(|error| tracing::error!(%error, "a journal cannot be written"))
        .ok()
}

/// Opens a session's journal, and deletes the oldest ones for it.
fn begin(folder: &Path, name: &str, files_max: usize) -> io::Result<File> {
    let mut journals = journals(folder)?;
    journals.sort();
    let surplus = (journals.len() + 1).saturating_sub(files_max.max(1));
    for (_, path) in journals.into_iter().take(surplus) {
        std::fs::remove_file(path)?;
    }
    let mut options = private::options();
    options.create(true).append(true);
    options.open(folder.join(format!("{name}{SUFFIX}")))
}

fn journals(folder: &Path) -> io::Result<Vec<(SystemTime, PathBuf)>> {
    let mut journals = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(SUFFIX) {
            journals.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    Ok(journals)
}
