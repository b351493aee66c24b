//! `windlass import node`: copies the tools of a Node project, and names the parts that do not work here as they are.

use super::super::{NodeArguments, flags, load_config_to_write_tools};
use super::{TrialFolder, counted, read, step_done};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::project;
use crate::toolbox::ARTIFACT_FILE;
use serde_json::json;
use std::path::{Path, PathBuf};
use windlass_compile::problem::Severity;
use windlass_compile::{Builtin, Source, Vocabularies, compile};
use windlass_config::Config;
use windlass_import::node;

/// Files of a tool's directory in a Node project that are files of the tool here, besides its code.
const TAKEN: [&str; 4] = ["schema.json", "guide.md", "doc_summary.md", "doc.md"];
/// A project with more tools is no project of tools.
const DIRECTORIES_MAX: usize = 512;
/// Built-in tools whose handlers in a Node project use other services for the same purpose: the knowledge base, and earlier calls.
const REACHING_ELSEWHERE: [&str; 3] = ["kb_get", "kb_search", "query_tool_memory"];

/// One tool of the project.
struct Found {
    /// Its directory's name here.
    name: String,
    source: PathBuf,
}

impl Found {
    fn id(&self) -> String {
        self.name.replace('-', "_")
    }
}

/// Copies the tool directories of a Node project, and names the parts of their handlers that have to be replaced.
pub(super) fn run(arguments: &NodeArguments, builtin: &Builtin) -> Result<(), Failure> {
    let flags = flags([("--tools", "folders.tools", &arguments.tools)]);
    let config = load_config_to_write_tools(&arguments.file, flags)?;
    let tools = &*config.folders.tools;
    if !arguments.project.is_dir() {
        return Err(Failure::Usage(format!(
            "there is no folder {}; name the project, or its folder of tools",
            arguments.project.display()
        )));
    }
    let found = tool_directories(&arguments.project)?;
    let present = found.iter().map(|tool| (tool, tools.join(&tool.name)));
    let mut beginnings = Vec::new();
    for (tool, path) in present.filter(|(_, path)| path.exists()) {
        // A project that lies in the folder of tools itself has nothing to be taken over.
        let is_itself = path.canonicalize().ok() == tool.source.canonicalize().ok();
        if is_itself || !is_beginning(&tool.name, &path) {
            return Err(Failure::Failed(format!(
                "{} is there already; remove it, or name another folder with --tools; nothing was written",
                path.display()
            )));
        }
        beginnings.push(path);
    }
    // The directories that `init` wrote and that are unchanged make room.
    for path in beginnings {
        std::fs::remove_dir_all(&path).map_err(|error| {
            Failure::Failed(format!("{} cannot be removed: {error}", path.display()))
        })?;
    }
    let mut uses = 0;
    let mut written = Vec::new();
    let mut left_out = Vec::new();
    for tool in &found {
        let directory = tools.join(&tool.name);
        let takes_built_in = takes_built_in(tool, builtin)?;
        uses += copy(&tool.source, &directory, takes_built_in)?;
        step_done(&format!("wrote {}", directory.display()));
        if takes_built_in {
            left_out.push(tool.id());
            let id = tool.id();
            Printer.hint(&format!(
                "note: {}: its handler is left out: the built-in one of {id} does its work, and a copy could not reach the session; to have it all the same, copy {}",
                tool.name,
                tool.source.join("handler.js").display()
            ));
            serve_built_in(&config, tool, &directory, builtin)?;
        }
        written.push(directory.display().to_string());
    }
    let shared = found.first().and_then(|first| first.source.parent());
    if let Some(shared) = shared.map(|folder| folder.join("_shared"))
        && shared.is_dir()
        && !tools.join("_shared").exists()
    {
        copy(&shared, &tools.join("_shared"), false)?;
    }
    let (tools_text, uses_text) = (
        counted(found.len(), "tool", "tools"),
        counted(uses, "use", "uses"),
    );
    Printer.outcome(
        &format!("{tools_text}; {uses_text} to replace; then run windlass check"),
        &json!({ "directories": written, "uses": uses, "builtIn": left_out }),
    );
    Ok(())
}

/// The names here of a Node project's tools. Empty where none can be imported.
pub(in crate::cli) fn node_tools(project: &Path) -> Vec<String> {
    let found = tool_directories(project).unwrap_or_default();
    found.into_iter().map(|tool| tool.name).collect()
}

/// The directories with a `schema.json` in a folder, or in its folder `tools`, by the name that they get here.
fn tool_directories(project: &Path) -> Result<Vec<Found>, Failure> {
    let within = project.join("tools");
    let folder = match within.is_dir() {
        true => within,
        false => project.to_path_buf(),
    };
    let entries = std::fs::read_dir(&folder).map_err(|error| {
        Failure::Failed(format!("{} cannot be read: {error}", folder.display()))
    })?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory
            && !name.starts_with(['.', '_'])
            && entry.path().join("schema.json").is_file()
        {
            found.push(Found {
                name: name.to_ascii_lowercase().replace('_', "-"),
                source: entry.path(),
            });
        }
    }
    found.sort_by(|left, right| left.name.cmp(&right.name));
    match found.len() {
        0 => Err(Failure::Failed(format!(
            "{} has no directory with a schema.json; name the project, or its folder of tools",
            folder.display()
        ))),
        count if count > DIRECTORIES_MAX => Err(Failure::Failed(format!(
            "{} has {count} tools; {DIRECTORIES_MAX} can be imported at once",
            folder.display()
        ))),
        _ => Ok(found),
    }
}

/// Whether a directory is as `init` writes it.
fn is_beginning(name: &str, directory: &Path) -> bool {
    let mut beginning = project::beginning(name);
    beginning.sort();
    let Ok(entries) = std::fs::read_dir(directory) else {
        return false;
    };
    let mut there: Vec<(String, String)> = entries
        .flatten()
        .map(|entry| {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            (entry.file_name().to_string_lossy().into_owned(), text)
        })
        .collect();
    there.sort();
    !beginning.is_empty() && there == beginning
}

/// Whether the built-in handler of a tool's id replaces its own.
fn takes_built_in(tool: &Found, builtin: &Builtin) -> Result<bool, Failure> {
    let (id, handler) = (tool.id(), tool.source.join("handler.js"));
    if !builtin.contains_key(id.as_str()) || !handler.is_file() {
        return Ok(false);
    }
    let source = read(&handler, "a handler").map_err(|cause| {
        Failure::Failed(format!("{} cannot be read: {cause}", handler.display()))
    })?;
    Ok(REACHING_ELSEWHERE.contains(&id.as_str()) || !node::asks_others(&source))
}

/// Gives a tool the built-in schema and guide, where its own are not those of the built-in handler.
fn serve_built_in(
    config: &Config,
    tool: &Found,
    directory: &Path,
    builtin: &Builtin,
) -> Result<(), Failure> {
    let trial = TrialFolder::make(&config.folders.tools)?;
    copy(&tool.source, &trial.0.join(&tool.name), true)?;
    let compilation = compile(&Source {
        tools: &trial.0,
        artifact: &config.folders.data.join(ARTIFACT_FILE),
        builtin,
        build_timestamp: "",
        vocabularies: &Vocabularies::new(),
        values: &config.condition_facts,
        permissions: &config.permissions(),
        judge: None,
    });
    let mut problems = compilation.problems.iter();
    let first = problems.find(|problem| problem.severity == Severity::Error);
    let (Some(first), Some(files)) = (first, project::built_in(&tool.name)) else {
        return Ok(());
    };
    let cannot = |path: &Path, error: std::io::Error| {
        Failure::Failed(format!("{} cannot be written: {error}", path.display()))
    };
    std::fs::remove_dir_all(directory).map_err(|error| cannot(directory, error))?;
    std::fs::create_dir_all(directory).map_err(|error| cannot(directory, error))?;
    for (name, text) in files {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|error| cannot(&path, error))?;
    }
    Printer.hint(&format!(
        "note: {}: it has the built-in schema and guide, because its own do not fit: {}",
        tool.name, first.message
    ));
    Ok(())
}

/// Copies the files of one tool, without its code if the built-in handler replaces it. Prints the parts of its code that have to be
/// replaced, and returns their number.
fn copy(source: &Path, target: &Path, takes_built_in: bool) -> Result<usize, Failure> {
    let cannot = |path: &Path, error: std::io::Error| {
        Failure::Failed(format!("{} cannot be copied: {error}", path.display()))
    };
    let entries = std::fs::read_dir(source).map_err(|error| cannot(source, error))?;
    std::fs::create_dir_all(target).map_err(|error| cannot(target, error))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let mut count = 0;
    for name in names {
        let is_code = name.ends_with(".js") && !name.contains(".test.") && !name.contains(".spec.");
        let is_wanted = TAKEN.contains(&name.as_str()) || (is_code && !takes_built_in);
        if !is_wanted {
            continue;
        }
        let path = source.join(&name);
        let text = read(&path, "a file").map_err(|cause| {
            Failure::Failed(format!("{} cannot be read: {cause}", path.display()))
        })?;
        let written = target.join(&name);
        std::fs::write(&written, &text).map_err(|error| cannot(&written, error))?;
        let uses = if is_code {
            node::uses(&text)
        } else {
            Vec::new()
        };
        count += uses.len();
        for found in uses {
            Printer.problem(&format!(
                "{}:{}: replace {} by {}",
                written.display(),
                found.line,
                found.what,
                found.replacement
            ));
        }
    }
    Ok(count)
}
