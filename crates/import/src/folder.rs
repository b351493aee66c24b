//! Puts imported tools into a folder of tools, and treats a second import of the same source with care: reviewed text of the author
//! stays, and changes of the source are taken up only on demand and need a review again.

use super::{Code, ToolDirectory};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file beside the tool's own: the text of the last import, to tell the source's changes from the author's.
const ORIGIN_FILE: &str = "imported.json";

/// The record of a tool's last import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Origin {
    /// The title of the description.
    source: String,
    /// The operation.
    origin: String,
    schema: Value,
    /// `null` where the author writes the code.
    handler: Value,
    guide: String,
    /// The definition of a tool whose server may change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<Value>,
}

impl Origin {
    fn of(source: &str, tool: &ToolDirectory) -> Self {
        Self {
            source: source.to_owned(),
            origin: tool.origin.clone(),
            schema: tool.schema.clone(),
            handler: match &tool.code {
                Code::Declared(handler) => handler.clone(),
                Code::Script(_) => Value::Null,
            },
            guide: tool.guide.clone(),
            definition: tool.definition.clone(),
        }
    }
}

/// Fields by which an author makes a tool less strict: a tool that is to be reviewed again loses them.
const LOOSENING: [&str; 2] = ["remember", "repeatable"];

/// The change that an import makes to one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is no such directory yet.
    New,
    /// The source is the same as at the last import; nothing is written, so that the author's changes stay.
    Unchanged,
    /// The source says something else; these are the differences.
    Changed(Vec<String>),
    /// The directory is there and no import made it.
    Foreign,
}

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{} cannot be read: {cause}", path.display())]
    Read { path: PathBuf, cause: String },
    #[error("{} cannot be written: {cause}", path.display())]
    Write { path: PathBuf, cause: String },
}

/// The effect that an import of this tool from this source would have on this folder.
pub fn step(folder: &Path, source: &str, tool: &ToolDirectory) -> Result<Step, FolderError> {
    let directory = folder.join(tool.name());
    if !directory.exists() {
        return Ok(Step::New);
    }
    let Some(last) = read_origin(&directory)? else {
        return Ok(Step::Foreign);
    };
    // Two servers may have tools of one name, and neither takes the place of the other's.
    let is_of_server = last.definition.is_some() || tool.definition.is_some();
    if is_of_server && last.source != source {
        return Ok(Step::Foreign);
    }
    let now = Origin::of(&last.source, tool);
    let mut differences = Vec::new();
    if last.origin != tool.origin {
        differences.push(format!("operation: {} is {} now", last.origin, tool.origin));
    }
    if let (Some(before), Some(now)) = (&last.definition, &now.definition) {
        differ("definition", before, now, &mut differences);
    }
    for (file, before, now) in [
        ("schema.json", &last.schema, &now.schema),
        ("handler.json", &last.handler, &now.handler),
    ] {
        differ(file, before, now, &mut differences);
    }
    Ok(match differences.is_empty() && last.guide == tool.guide {
        true => Step::Unchanged,
        false if differences.is_empty() => Step::Changed(vec!["guide.md: other words".to_owned()]),
        false => Step::Changed(differences),
    })
}

/// Directories of earlier imports from this source whose operations have gone, with those operations.
pub fn gone(
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
pub fn set_aside(folder: &Path, name: &str) -> Result<PathBuf, FolderError> {
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

/// Writes a tool's directory, each file whole: a reader finds the old one or the new one. A guide that the author has rewritten stays,
/// and so do the fields that only the author writes, such as `effectKey`. Returns those that could not stay.
pub fn write(
    folder: &Path,
    source: &str,
    tool: &ToolDirectory,
) -> Result<Vec<String>, FolderError> {
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
    let origin = Origin::of(source, tool);
    let (mut schema, mut handler) = (origin.schema.clone(), origin.handler.clone());
    let mut notes = Vec::new();
    if let Some(last) = &last {
        keep(
            &directory.join("schema.json"),
            &last.schema,
            &mut schema,
            &mut notes,
        )?;
        keep(
            &directory.join("handler.json"),
            &last.handler,
            &mut handler,
            &mut notes,
        )?;
    }
    let mut files = vec![("schema.json", pretty(&schema))];
    match &tool.code {
        Code::Declared(_) => files.push(("handler.json", pretty(&handler))),
        Code::Script(text) if !has_code(&directory) => files.push(("handler.js", text.clone())),
        Code::Script(_) => {}
    }
    if !is_own {
        files.push(("guide.md", tool.guide.clone()));
    }
    // Last, so that an import that is cut off is made again.
    let origin = serde_json::to_value(&origin).unwrap_or_default();
    files.push((ORIGIN_FILE, pretty(&origin)));
    for (name, text) in files {
        let path = directory.join(name);
        replace(&path, &text).map_err(|error| FolderError::Write {
            path,
            cause: error.to_string(),
        })?;
    }
    Ok(notes)
}

/// Whether the author has written code already, in whatever language.
fn has_code(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .any(|name| name.starts_with("handler."))
}

/// Keeps the author's own members of a file in its new text: members that neither this import nor the last one has.
fn keep(
    path: &Path,
    last: &Value,
    now: &mut Value,
    notes: &mut Vec<String>,
) -> Result<(), FolderError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(FolderError::Read {
                path: path.to_owned(),
                cause: error.to_string(),
            });
        }
    };
    // A file that is no JSON any more has nothing that could stay.
    let Ok(Value::Object(written)) = serde_json::from_str(&text) else {
        return Ok(());
    };
    let parameters = now.get("parameters").cloned().unwrap_or_default();
    let Some(now) = now.as_object_mut() else {
        return Ok(());
    };
    for (name, value) in written {
        if last.get(&name).is_some() || now.contains_key(&name) {
            continue;
        }
        let is_fit = match name.as_str() {
            loosening if LOOSENING.contains(&loosening) => Err("it is to be reviewed again"),
            "effectKey" if !names_all(&value, &parameters, &is_required) => {
                Err("it names an argument that is gone, or no longer required")
            }
            "sensitive" if !names_all(&value, &parameters, &is_property) => {
                Err("it names an argument that is gone")
            }
            _ => Ok(()),
        };
        match is_fit {
            Ok(()) => {
                now.insert(name, value);
            }
            Err(reason) => notes.push(format!("your `{name}` is taken out: {reason}")),
        }
    }
    Ok(())
}

fn names_all(
    pointers: &Value,
    parameters: &Value,
    is_there: &dyn Fn(&Value, &str) -> bool,
) -> bool {
    let pointers = pointers.as_array().into_iter().flatten();
    pointers.filter_map(Value::as_str).all(|pointer| {
        let name = pointer.trim_start_matches('/').split('/').next();
        is_there(parameters, name.unwrap_or_default())
    })
}

fn is_required(parameters: &Value, name: &str) -> bool {
    let required = parameters.get("required").and_then(Value::as_array);
    required.into_iter().flatten().any(|known| known == name)
}

fn is_property(parameters: &Value, name: &str) -> bool {
    let properties = parameters.get("properties");
    properties.is_some_and(|properties| properties.get(name).is_some())
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
            let shown = |value: &Value| super::words::brief(&value.to_string());
            differences.push(format!("{place}: {} is {} now", shown(before), shown(now)));
        }
        _ => {}
    }
}
