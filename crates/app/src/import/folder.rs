//! Puts imported tools into a folder of tools, and treats a second import of the same source with care: what the author has
//! reviewed stays, and what the source has changed is taken up only on demand and needs a review again.

use super::ToolDirectory;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Beside the tool's own files: what the last import wrote, to tell the source's changes from the author's.
const ORIGIN_FILE: &str = "imported.json";

/// What the last import of a tool wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Origin {
    /// The title of the description.
    source: String,
    /// The operation.
    origin: String,
    schema: Value,
    handler: Value,
    guide: String,
}

/// What becomes of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is no such directory yet.
    New,
    /// The source says what it said at the last import; nothing is written, so that the author's changes stay.
    Unchanged,
    /// The source says something else; these are the differences.
    Changed(Vec<String>),
    /// The directory is there and no import made it.
    Foreign,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    #[error("{} cannot be read: {cause}", path.display())]
    Read { path: PathBuf, cause: String },
    #[error("{} cannot be written: {cause}", path.display())]
    Write { path: PathBuf, cause: String },
}

/// What importing this tool into this folder would do.
pub(crate) fn step(folder: &Path, tool: &ToolDirectory) -> Result<Step, FolderError> {
    let directory = folder.join(tool.name());
    if !directory.exists() {
        return Ok(Step::New);
    }
    let Some(last) = read_origin(&directory)? else {
        return Ok(Step::Foreign);
    };
    let mut differences = Vec::new();
    if last.origin != tool.origin {
        differences.push(format!("operation: {} is {} now", last.origin, tool.origin));
    }
    for (file, before, now) in [
        ("schema.json", &last.schema, &tool.schema),
        ("handler.json", &last.handler, &tool.handler),
    ] {
        differ(file, before, now, &mut differences);
    }
    Ok(match differences.is_empty() && last.guide == tool.guide {
        true => Step::Unchanged,
        false if differences.is_empty() => Step::Changed(vec!["guide.md: other words".to_owned()]),
        false => Step::Changed(differences),
    })
}

/// Directories of earlier imports from this source whose operations it has no more, with those operations.
pub(crate) fn gone(
    folder: &Path,
    source: &str,
    origins: &[String],
) -> Result<BTreeMap<String, String>, FolderError> {
    let mut gone = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(gone);
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(['.', '_']) || !entry.path().is_dir() {
            continue;
        }
        if let Some(last) = read_origin(&entry.path())?
            && last.source == source
            && !origins.contains(&last.origin)
        {
            gone.insert(name, last.origin);
        }
    }
    Ok(gone)
}

/// Takes a tool out of service and keeps its directory: the compiler passes over names that begin with `_`.
pub(crate) fn set_aside(folder: &Path, name: &str) -> Result<PathBuf, FolderError> {
    let mut path = folder.join(format!("_{name}"));
    let mut number = 1;
    while path.exists() {
        number += 1;
        path = folder.join(format!("_{name}-{number}"));
    }
    std::fs::rename(folder.join(name), &path).map_err(|error| FolderError::Write {
        path: path.clone(),
        cause: error.to_string(),
    })?;
    Ok(path)
}

/// Writes a tool's directory whole: a reader finds the old one or the new one. A guide that the author has rewritten stays.
pub(crate) fn write(folder: &Path, source: &str, tool: &ToolDirectory) -> Result<(), FolderError> {
    let directory = folder.join(tool.name());
    let last = match directory.exists() {
        true => read_origin(&directory)?,
        false => None,
    };
    let guide = std::fs::read_to_string(directory.join("guide.md")).ok();
    let is_own = match (&last, &guide) {
        (Some(last), Some(guide)) => *guide != last.guide,
        _ => false,
    };
    std::fs::create_dir_all(&directory).map_err(|error| FolderError::Write {
        path: directory.clone(),
        cause: error.to_string(),
    })?;
    let origin = Origin {
        source: source.to_owned(),
        origin: tool.origin.clone(),
        schema: tool.schema.clone(),
        handler: tool.handler.clone(),
        guide: tool.guide.clone(),
    };
    let origin = serde_json::to_value(&origin).unwrap_or_default();
    let mut files = vec![
        ("schema.json", pretty(&tool.schema)),
        ("handler.json", pretty(&tool.handler)),
        (ORIGIN_FILE, pretty(&origin)),
    ];
    if !is_own {
        files.push(("guide.md", tool.guide.clone()));
    }
    for (name, text) in files {
        let path = directory.join(name);
        replace(&path, &text).map_err(|error| FolderError::Write {
            path,
            cause: error.to_string(),
        })?;
    }
    Ok(())
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, path)
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

fn read_origin(directory: &Path) -> Result<Option<Origin>, FolderError> {
    let path = directory.join(ORIGIN_FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let cause = error.to_string();
            return Err(FolderError::Read { path, cause });
        }
    };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| FolderError::Read {
            path,
            cause: format!("{error}; remove the directory to import the tool anew"),
        })
}

/// Names each place where two documents differ, within reason.
fn differ(place: &str, before: &Value, now: &Value, differences: &mut Vec<String>) {
    const SHOWN_MAX: usize = 40;
    if differences.len() >= SHOWN_MAX {
        return;
    }
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            for (name, value) in before {
                let place = format!("{place}/{name}");
                match now.get(name) {
                    Some(now) => differ(&place, value, now, differences),
                    None => differences.push(format!("{place}: gone")),
                }
            }
            for name in now.keys().filter(|name| !before.contains_key(*name)) {
                differences.push(format!("{place}/{name}: new"));
            }
        }
        (before, now) if before != now => {
            let shown = |value: &Value| super::openapi::brief(&value.to_string());
            differences.push(format!("{place}: {} is {} now", shown(before), shown(now)));
        }
        _ => {}
    }
}
