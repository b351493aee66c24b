//! Reads tool directories from the disk, once and whole, with limits. Knows which files a tool has and not their content.

use crate::problem::{Problem, Severity};
use crate::program::{PROGRAM_BYTES_MAX, ProgramFile, hash_of};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use windlass_contract::version::Version;

/// The most bytes of a tool's file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// The most tools of a folder: as many declarations as Gemini takes in one request.
const TOOLS_MAX: usize = 512;
/// The most files that a script may import from its own folder and from the shared one.
const SCRIPT_FILES_MAX: usize = 256;
/// The most bytes of these files together.
const SCRIPT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The deepest nesting of folders in a tool's own folder.
const SCRIPT_DEPTH_MAX: usize = 8;

/// The most files in the folder of a tool that runs a program, besides the files that every tool has.
const PROGRAM_FILES_MAX: usize = 512;
/// Folders that package managers and interpreters fill.
const INSTALLED: [&str; 5] = ["node_modules", "__pycache__", "venv", "env", "target"];

/// The folder whose files every script may import.
const SHARED: &str = "_shared";

/// The folder, inside a tool's own, that holds its other versions.
pub(super) const VERSIONS: &str = "versions";
/// The most other versions of a tool.
const VERSIONS_MAX: usize = 16;

/// The file names that a tool's handler may have.
const HANDLERS: [&str; 3] = ["handler.js", "handler.ts", "handler.json"];

/// Files that scripts may import, by their paths from the folder of the tools.
pub(super) type ScriptFiles = BTreeMap<String, File>;

/// All tool directories as they were at one moment, in the order of their names.
pub(super) struct Snapshot {
    /// The tools; each is followed by its other versions, the lowest first.
    pub(super) tools: Vec<ToolFiles>,
    /// The files that every script may import. Read only where there is a script.
    pub(super) shared: ScriptFiles,
    /// Problems of reading the folder.
    pub(super) problems: Vec<Problem>,
}

/// The files of one version of a tool.
pub(super) struct ToolFiles {
    /// The name of the tool's directory.
    pub(super) name: String,
    /// The number of another version; `None` for the files in the tool's directory itself.
    pub(super) version: Option<Version>,
    pub(super) directory: PathBuf,
    pub(super) schema: File,
    pub(super) guide: File,
    pub(super) doc_summary: File,
    pub(super) doc: File,
    /// In the order of [`HANDLERS`].
    pub(super) handlers: Vec<(&'static str, File)>,
    /// The files that the tool's script may import. Empty without a script.
    pub(super) scripts: ScriptFiles,
    /// The files of the program that `handler.json` runs. Empty where it runs none.
    pub(super) program: Vec<ProgramFile>,
}

pub(super) enum File {
    Text(String),
    Missing,
    /// The file could not be read, and its problem was reported.
    Unreadable,
}

impl File {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Missing | Self::Unreadable => "",
        }
    }
}

impl ToolFiles {
    /// The path of its directory from the folder of the tools, with forward slashes.
    pub(super) fn folder(&self) -> String {
        match &self.version {
            Some(version) => format!("{}/{VERSIONS}/{version}", self.name),
            None => self.name.clone(),
        }
    }

    /// A file's path as people see it.
    pub(super) fn path(&self, file: &str) -> String {
        self.directory.join(file).display().to_string()
    }

    fn has_script(&self) -> bool {
        self.handlers.iter().any(is_script_handler)
    }

    pub(super) fn has_handler(&self) -> bool {
        let is_there = |(_, file): &(&str, File)| !matches!(file, File::Missing);
        self.handlers.iter().any(is_there)
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        let texts = [
            ("schema.json", &self.schema),
            ("guide.md", &self.guide),
            ("doc_summary.md", &self.doc_summary),
            ("doc.md", &self.doc),
        ];
        let handlers = self.handlers.iter().map(|(name, file)| (*name, file));
        texts.into_iter().chain(handlers)
    }
}

/// Reads a folder of tool directories. An error if the folder is missing or empty.
pub(super) fn read(tools: &Path) -> Result<Snapshot, Box<Problem>> {
    let folder_problem = |message: String, cure: &str| {
        Box::new(Problem {
            file: tools.display().to_string(),
            line: None,
            column: None,
            severity: Severity::Error,
            tool: None,
            message,
            cure: cure.to_owned(),
        })
    };
    let entries = std::fs::read_dir(tools).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => folder_problem(
            "there is no such folder".to_owned(),
            "create it with one directory per tool, or name another folder with --tools",
        ),
        std::io::ErrorKind::NotADirectory => folder_problem(
            "this is a file, not a folder of tools".to_owned(),
            "name a folder with one directory per tool with --tools",
        ),
        _ => folder_problem(
            format!("the folder cannot be read: {error}"),
            "make it readable for this user",
        ),
    })?;
    let mut snapshot = Snapshot {
        tools: Vec::new(),
        shared: ScriptFiles::new(),
        problems: Vec::new(),
    };
    let mut names: Vec<std::ffi::OsString> =
        entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        read_entry(tools, &name, &mut snapshot);
    }
    if snapshot.tools.iter().any(ToolFiles::has_script) {
        let mut reading = ScriptReading::new(SHARED, &mut snapshot.problems);
        reading.folder(&tools.join(SHARED), SHARED, 0);
        snapshot.shared = reading.files;
    }
    if snapshot.tools.is_empty() && snapshot.problems.is_empty() {
        return Err(folder_problem(
            "the folder holds no tool".to_owned(),
            "add a directory with schema.json, guide.md and a handler, or name another folder with --tools",
        ));
    }
    let current = snapshot.tools.iter().filter(|tool| tool.version.is_none());
    let count = current.count();
    if count > TOOLS_MAX {
        return Err(folder_problem(
            format!("the folder holds {count} tools"),
            "keep 512 at most; a model's request takes no more",
        ));
    }
    Ok(snapshot)
}

fn read_entry(tools: &Path, name: &std::ffi::OsStr, snapshot: &mut Snapshot) {
    let path = tools.join(name);
    let shown = name.to_string_lossy().into_owned();
    if shown.starts_with(['.', '_']) {
        return;
    }
    let mut problem = |message: &str, cure: &str| {
        snapshot.problems.push(Problem {
            file: path.display().to_string(),
            line: None,
            column: None,
            severity: Severity::Error,
            tool: Some(shown.clone()),
            message: message.to_owned(),
            cure: cure.to_owned(),
        });
    };
    let Ok(metadata) = std::fs::symlink_metadata(&path) else {
        problem(
            "the directory cannot be read",
            "make it readable for this user",
        );
        return;
    };
    if metadata.is_symlink() {
        problem(
            "this is a symbolic link",
            "put the directory itself here; what a link leads to can change unseen",
        );
        return;
    }
    if !metadata.is_dir() {
        return;
    }
    if !is_kebab(&shown) {
        // Ids of tools are written with underscores, names of their directories with hyphens.
        let meant = shown.to_ascii_lowercase().replace('_', "-");
        let cure = match is_kebab(&meant) {
            true => format!("rename it to {meant}, or begin it with _ to leave it out"),
            false => "use lower-case letters, digits and hyphens, a letter first, 63 at most; begin it with _ to leave it out"
                .to_owned(),
        };
        problem("the directory's name is not in kebab-case", &cure);
        return;
    }
    let tool = read_tool(&shown, None, path.clone(), &mut snapshot.problems);
    snapshot.tools.push(tool);
    read_versions(&shown, &path.join(VERSIONS), snapshot);
}

/// Reads the folder of a tool's other versions, where it has one.
fn read_versions(tool: &str, folder: &Path, snapshot: &mut Snapshot) {
    let mut problem = |path: &Path, message: &str, cure: &str| {
        snapshot.problems.push(Problem {
            file: path.display().to_string(),
            line: None,
            column: None,
            severity: Severity::Error,
            tool: Some(tool.to_owned()),
            message: message.to_owned(),
            cure: cure.to_owned(),
        });
    };
    // A link of that name was reported already, and a file is the author's own.
    if !std::fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir()) {
        return;
    }
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            let message = format!("the folder cannot be read: {error}");
            return problem(folder, &message, "make it readable for this user");
        }
    };
    let mut versions: Vec<(Version, PathBuf)> = Vec::new();
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(['.', '_']) {
            continue;
        }
        let kind = entry.file_type().ok();
        if kind.is_some_and(|kind| kind.is_symlink()) {
            problem(
                &entry.path(),
                "this is a symbolic link",
                "put the directory itself here; what a link leads to can change unseen",
            );
        } else if kind.is_some_and(|kind| kind.is_dir()) {
            match Version::parse(&name) {
                Some(version) => versions.push((version, entry.path())),
                None => problem(
                    &entry.path(),
                    "the directory's name is no semantic version",
                    "name it as in 1.2.0, or begin it with _ to leave it out; what is no version of the tool belongs elsewhere",
                ),
            }
        }
    }
    if versions.len() > VERSIONS_MAX {
        let message = format!("the tool has {} other versions", versions.len());
        let cure = format!("keep {VERSIONS_MAX} at most");
        return problem(folder, &message, &cure);
    }
    versions.sort();
    for (version, path) in versions {
        let tool = read_tool(tool, Some(version), path, &mut snapshot.problems);
        snapshot.tools.push(tool);
    }
}

/// Reads one version of a tool.
fn read_tool(
    tool: &str,
    version: Option<Version>,
    directory: PathBuf,
    problems: &mut Vec<Problem>,
) -> ToolFiles {
    check_listing(tool, &directory, problems);
    let mut read = |file: &str| read_file(tool, &directory.join(file), problems);
    let handlers: Vec<(&'static str, File)> = HANDLERS.map(|name| (name, read(name))).into();
    let [schema, guide, doc_summary, doc] = FILES.map(read);
    let mut files = ToolFiles {
        name: tool.to_owned(),
        version,
        schema,
        guide,
        doc_summary,
        doc,
        handlers,
        scripts: ScriptFiles::new(),
        program: Vec::new(),
        directory,
    };
    if files.has_script() {
        let mut reading = ScriptReading::new(tool, problems);
        reading.folder(&files.directory, &files.folder(), 0);
        files.scripts = reading.files;
    }
    if files.handlers.iter().any(is_program_handler) {
        let mut reading = ProgramReading::new(tool, problems);
        reading.folder(&files.directory, "", 0);
        files.program = reading.files;
    }
    files
}

fn is_kebab(name: &str) -> bool {
    let is_lower = |byte: u8| byte.is_ascii_lowercase();
    name.bytes().next().is_some_and(is_lower)
        && name.len() <= 63
        && name
            .bytes()
            .all(|byte| is_lower(byte) || byte.is_ascii_digit() || byte == b'-')
}

/// The other files that a tool is made of.
const FILES: [&str; 4] = ["schema.json", "guide.md", "doc_summary.md", "doc.md"];

/// Reports forbidden entries in a tool's directory: links of any name, and further handlers. All other entries are the author's own.
fn check_listing(tool: &str, directory: &Path, problems: &mut Vec<Problem>) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        // The single files cannot be read either, and each of them is reported.
        return;
    };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    // An author's program, which `handler.json` runs, may have any name.
    let is_declared = entries
        .iter()
        .any(|entry| entry.file_name() == "handler.json");
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().ok();
        let is_link = kind.is_some_and(|kind| kind.is_symlink());
        // An editor's backup such as `handler.js~` is no handler.
        let is_other_handler = kind.is_some_and(|kind| kind.is_file())
            && !is_declared
            && !HANDLERS.contains(&name.as_str())
            && name.strip_prefix("handler.").is_some_and(|ending| {
                !ending.is_empty() && ending.chars().all(char::is_alphanumeric)
            });
        let (message, cure) = if is_link && !is_read_anyway(&name) {
            (
                "this is a symbolic link",
                "put the file itself here; what a link leads to can change unseen",
            )
        } else if is_other_handler {
            (
                "a tool has one handler: built in, handler.js, handler.ts, or handler.json",
                "remove the file, or give it another name if it is no handler",
            )
        } else {
            continue;
        };
        problems.push(Problem {
            file: entry.path().display().to_string(),
            line: None,
            column: None,
            severity: Severity::Error,
            tool: Some(tool.to_owned()),
            message: message.to_owned(),
            cure: cure.to_owned(),
        });
    }
}

/// Gathers the files that a script may import.
struct ScriptReading<'a> {
    tool: &'a str,
    files: ScriptFiles,
    bytes: usize,
    problems: &'a mut Vec<Problem>,
}

impl<'a> ScriptReading<'a> {
    fn new(tool: &'a str, problems: &'a mut Vec<Problem>) -> Self {
        Self {
            tool,
            files: ScriptFiles::new(),
            bytes: 0,
            problems,
        }
    }

    /// Reads a folder, whose name from the folder of the tools is `name`. A folder that cannot be listed counts as missing: an import of
    /// its files fails.
    fn folder(&mut self, path: &Path, name: &str, depth: usize) {
        let mut entries: Vec<_> = std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let Ok(own) = entry.file_name().into_string() else {
                continue;
            };
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let (path, inner) = (entry.path(), format!("{name}/{own}"));
            if kind.is_dir() {
                let is_of_others = own.starts_with('.')
                    || own == "node_modules"
                    || depth == 0 && own == VERSIONS && name != SHARED;
                if depth < SCRIPT_DEPTH_MAX && !is_of_others {
                    self.folder(&path, &inner, depth + 1);
                }
            } else if is_script(&own) && !(depth == 0 && is_read_anyway(&own)) {
                self.file(&path, inner);
            }
        }
    }

    fn file(&mut self, path: &Path, name: String) {
        if self.files.len() >= SCRIPT_FILES_MAX || self.bytes >= SCRIPT_BYTES_MAX {
            return self.too_many(path);
        }
        let file = read_file(self.tool, path, self.problems);
        self.bytes += file.text().len();
        self.files.insert(name, file);
    }

    /// Reported once, for the first file beyond the limit.
    fn too_many(&mut self, path: &Path) {
        let file = path.display().to_string();
        let message = format!(
            "scripts may import {SCRIPT_FILES_MAX} files of a folder and {SCRIPT_BYTES_MAX} bytes of them, and this is one more"
        );
        let is_said = self
            .problems
            .iter()
            .any(|problem| problem.message == message);
        if !is_said {
            self.problems.push(Problem {
                file,
                line: None,
                column: None,
                severity: Severity::Error,
                tool: Some(self.tool.to_owned()),
                message,
                cure: "move what no script imports out of the folder".to_owned(),
            });
        }
    }
}

/// Gathers the hashes of a program's files.
struct ProgramReading<'a> {
    tool: &'a str,
    files: Vec<ProgramFile>,
    bytes: u64,
    problems: &'a mut Vec<Problem>,
}

impl<'a> ProgramReading<'a> {
    fn new(tool: &'a str, problems: &'a mut Vec<Problem>) -> Self {
        Self {
            tool,
            files: Vec::new(),
            bytes: 0,
            problems,
        }
    }

    /// Reads a folder, whose name from the tool's own is `name`. Links and devices are no part of a program.
    fn folder(&mut self, path: &Path, name: &str, depth: usize) {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let own = entry.file_name().to_string_lossy().into_owned();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let is_hidden = own.starts_with('.');
            if kind.is_dir() {
                let is_of_others =
                    INSTALLED.contains(&own.as_str()) || depth == 0 && own == VERSIONS;
                if depth < SCRIPT_DEPTH_MAX && !is_hidden && !is_of_others {
                    self.folder(&entry.path(), &format!("{name}{own}/"), depth + 1);
                }
            } else if kind.is_file() && !is_hidden && !(depth == 0 && is_read_anyway(&own)) {
                self.file(&entry.path(), format!("{name}{own}"));
            }
        }
    }

    fn file(&mut self, path: &Path, name: String) {
        if self.files.len() >= PROGRAM_FILES_MAX {
            let message = format!(
                "the folder of a tool holds {PROGRAM_FILES_MAX} files of its program at most"
            );
            return self.problem(
                path,
                message,
                "move what is no part of the program elsewhere",
            );
        }
        let left = PROGRAM_BYTES_MAX - self.bytes;
        match hash_of(path, left) {
            Ok(Some((sha256, bytes))) => {
                self.bytes += bytes;
                self.files.push(ProgramFile { name, sha256 });
            }
            Ok(None) => {
                let message = format!(
                    "the folder of a tool holds {PROGRAM_BYTES_MAX} bytes of its program at most"
                );
                self.problem(
                    path,
                    message,
                    "move what is no part of the program elsewhere",
                );
            }
            Err(error) => self.problem(
                path,
                format!("the file cannot be read: {error}"),
                "make it readable for this user",
            ),
        }
    }

    /// Reports each problem once, for the first file that has it.
    fn problem(&mut self, path: &Path, message: String, cure: &str) {
        let mut known = self.problems.iter();
        if known.any(|problem| problem.message == message) {
            return;
        }
        self.problems.push(Problem {
            file: path.display().to_string(),
            line: None,
            column: None,
            severity: Severity::Error,
            tool: Some(self.tool.to_owned()),
            message,
            cure: cure.to_owned(),
        });
    }
}

/// Whether a `handler.json` declares a program. Its other mistakes are reported by its reader.
fn is_program_handler((name, file): &(&'static str, File)) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind {
        kind: String,
    }
    let kind = serde_json::from_str::<Kind>(file.text());
    name.ends_with(".json") && kind.is_ok_and(|handler| handler.kind == "process")
}

fn is_script_handler((name, file): &(&'static str, File)) -> bool {
    !name.ends_with(".json") && !matches!(file, File::Missing)
}

/// Whether a file in a tool's own folder is read for every kind of handler.
fn is_read_anyway(name: &str) -> bool {
    FILES.contains(&name) || HANDLERS.contains(&name)
}

fn is_script(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    matches!(ending, Some("js" | "mjs" | "ts" | "json")) && !name.ends_with(".d.ts")
}

fn read_file(tool: &str, path: &Path, problems: &mut Vec<Problem>) -> File {
    let mut problem = |message: String, cure: &str, place: Option<(usize, usize)>| {
        problems.push(Problem {
            file: path.display().to_string(),
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
            severity: Severity::Error,
            tool: Some(tool.to_owned()),
            message,
            cure: cure.to_owned(),
        });
        File::Unreadable
    };
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return File::Missing,
        Err(error) => {
            return problem(
                format!("the file cannot be read: {error}"),
                "make it readable for this user",
                None,
            );
        }
    };
    if metadata.is_symlink() {
        return problem(
            "this is a symbolic link".to_owned(),
            "put the file itself here; what a link leads to can change unseen",
            None,
        );
    }
    if !metadata.is_file() {
        return problem(
            "this is not a file".to_owned(),
            "put a file of this name here",
            None,
        );
    }
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return problem(
            format!("the file cannot be read: {error}"),
            "make it readable for this user",
            None,
        );
    }
    if metadata.len() > FILE_BYTES_MAX || bytes.len() as u64 > FILE_BYTES_MAX {
        let length = metadata.len().max(bytes.len() as u64);
        return problem(
            format!("the file is {length} bytes long"),
            "keep it within 1 MiB (1048576 bytes)",
            None,
        );
    }
    match String::from_utf8(bytes) {
        Ok(text) => File::Text(match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        }),
        Err(error) => problem(
            "the file is not UTF-8".to_owned(),
            "save it as UTF-8",
            Some(end_of(
                &error.as_bytes()[..error.utf8_error().valid_up_to()],
            )),
        ),
    }
}

/// The line and column right after the end of a text.
fn end_of(text: &[u8]) -> (usize, usize) {
    let line = 1 + text.iter().filter(|byte| **byte == b'\n').count();
    let column = 1 + text.iter().rev().take_while(|byte| **byte != b'\n').count();
    (line, column)
}

/// A file's path relative to the artifact's folder, with forward slashes, so that both can be moved together.
pub(super) fn relative(artifact: &Path, file: &Path) -> String {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (artifact, file) = (whole(artifact), whole(file));
    let base: Vec<Component<'_>> = artifact
        .parent()
        .map(|folder| folder.components().collect())
        .unwrap_or_default();
    let target: Vec<Component<'_>> = file.components().collect();
    let common = base
        .iter()
        .zip(&target)
        .take_while(|(left, right)| left == right)
        .count();
    let up = base[common..].iter().map(|_| "..".into());
    let down = target[common..]
        .iter()
        .map(|part| part.as_os_str().to_string_lossy());
    let parts: Vec<std::borrow::Cow<'_, str>> = up.chain(down).collect();
    parts.join("/")
}
