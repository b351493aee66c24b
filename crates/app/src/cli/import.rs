//! `windlass import`: makes tool directories of what a team has already.

use super::{
    ImportArguments, ImportSource, NodeArguments, OpenapiArguments, flags,
    load_config_to_write_tools,
};
use crate::failure::Failure;
use crate::import::folder::{self, Step};
use crate::import::openapi::{self, Choice, DocumentError, Imported};
use crate::import::{LeftOut, ToolDirectory, node};
use crate::printer::{Format, Printer};
use crate::toolbox::ARTIFACT_FILE;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use windlass_config::Config;
use windlass_tool::compile::{Builtin, Source, Vocabularies, compile};
use windlass_tool::problem::{Problem, Severity};

/// The largest description that is read. The largest public ones have some 10 MiB.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

pub(super) fn run(arguments: &ImportArguments) -> Result<(), Failure> {
    match &arguments.source {
        ImportSource::Openapi(arguments) => import_openapi(arguments),
        ImportSource::Node(arguments) => import_node(arguments),
    }
}

fn import_openapi(arguments: &OpenapiArguments) -> Result<(), Failure> {
    let flags = flags([("--tools", "folders.tools", &arguments.tools)]);
    let config = load_config_to_write_tools(&arguments.file, flags)?;
    let shown = arguments.description.display();
    let failed = |cause: String| Failure::Failed(format!("{shown} cannot be imported: {cause}"));
    let misused = |cause: String| Failure::Usage(format!("{shown} cannot be imported: {cause}"));
    let text =
        read(&arguments.description).map_err(|cause| match arguments.description.is_file() {
            true => failed(cause),
            false => misused(cause),
        })?;
    let document = openapi::parse(&text).map_err(|error| failed(error.to_string()))?;
    let choice = Choice {
        only: arguments.only.clone(),
        tags: arguments.tag.clone(),
        base_url: arguments.base_url.clone(),
    };
    let mut imported = openapi::import(&document, &choice).map_err(|error| match error {
        DocumentError::Unknown(..) => misused(error.to_string()),
        DocumentError::Server(_) if choice.base_url.is_some() => misused(error.to_string()),
        error => failed(error.to_string()),
    })?;
    let tools = &*config.folders.tools;
    std::fs::create_dir_all(tools)
        .map_err(|error| Failure::Failed(format!("{} cannot be made: {error}", tools.display())))?;
    leave_out_what_does_not_compile(&config, &mut imported)?;
    take_up(tools, &imported, arguments)
}

fn read(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "there is no such file; name a description in JSON or YAML, which many backends serve at /openapi.json"
                .to_owned()
        }
        _ => error.to_string(),
    })?;
    if metadata.len() > BYTES_MAX {
        return Err(format!("it is longer than {BYTES_MAX} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// Has the compiler judge every tool in a folder of its own, so that nothing is written that `check` would refuse.
fn leave_out_what_does_not_compile(
    config: &Config,
    imported: &mut Imported,
) -> Result<(), Failure> {
    let trial = TrialFolder::make(&config.folders.tools)?;
    for tool in &imported.tools {
        folder::write(&trial.0, &imported.source, tool).map_err(Failure::of)?;
    }
    if imported.tools.is_empty() {
        return Ok(());
    }
    // Secrets can be set and bound later; `check` names those that are missing.
    let mut permissions = config.permissions();
    for tool in &imported.tools {
        let url = tool.handler["url"].as_str().unwrap_or_default();
        let place = url.split('/').nth(2).unwrap_or_default();
        for secret in &tool.secrets {
            let hosts = permissions.secrets.entry(secret.clone()).or_default();
            hosts.insert(place.to_ascii_lowercase());
        }
    }
    let compilation = compile(&Source {
        tools: &trial.0,
        artifact: &config.folders.data.join(ARTIFACT_FILE),
        builtin: &Builtin::new(),
        build_timestamp: "",
        vocabularies: &Vocabularies::new(),
        permissions: &permissions,
        judge: None,
    });
    let is_of = |problem: &&Problem, tool: &ToolDirectory| {
        problem.severity == Severity::Error
            && problem
                .tool
                .as_deref()
                .is_some_and(|name| name == tool.id || name == tool.name())
    };
    let (left_out, tools) = std::mem::take(&mut imported.tools)
        .into_iter()
        .map(|tool| {
            let first = compilation
                .problems
                .iter()
                .find(|problem| is_of(problem, &tool));
            (first, tool)
        })
        .partition::<Vec<_>, _>(|(first, _)| first.is_some());
    imported.tools = tools.into_iter().map(|(_, tool)| tool).collect();
    imported
        .left_out
        .extend(left_out.into_iter().map(|(first, tool)| {
            LeftOut {
                origin: tool.origin,
                reason: first
                    .map(|problem| problem.message.clone())
                    .unwrap_or_default(),
            }
        }));
    Ok(())
}

/// A folder that is gone when nobody needs it any more. The compiler passes over its name.
struct TrialFolder(PathBuf);

impl TrialFolder {
    fn make(tools: &Path) -> Result<Self, Failure> {
        let path = tools.join(format!(".import-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| {
            Failure::Failed(format!("{} cannot be made: {error}", path.display()))
        })?;
        Ok(Self(path))
    }
}

impl Drop for TrialFolder {
    fn drop(&mut self) {
        // What is left of it disturbs nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes the tools, or says what stands against it and writes nothing.
fn take_up(tools: &Path, imported: &Imported, arguments: &OpenapiArguments) -> Result<(), Failure> {
    for LeftOut { origin, reason } in &imported.left_out {
        Printer.problem(&format!("left out: {origin}: {reason}"));
    }
    if !arguments.only.is_empty() && !imported.left_out.is_empty() {
        return Err(Failure::Failed(
            "an operation that --only names cannot be imported; nothing was written".to_owned(),
        ));
    }
    if imported.tools.is_empty() {
        return Err(Failure::Failed("no operation could be imported".to_owned()));
    }
    let mut steps = Vec::new();
    for tool in &imported.tools {
        steps.push((tool, folder::step(tools, tool).map_err(Failure::of)?));
    }
    let gone = folder::gone(tools, &imported.source, &imported.origins).map_err(Failure::of)?;
    if let Some((tool, _)) = steps.iter().find(|(_, step)| *step == Step::Foreign) {
        return Err(Failure::Failed(format!(
            "{} was not imported, and {} would replace it; rename it, or leave the operation out with --only; nothing was written",
            tools.join(tool.name()).display(),
            tool.origin
        )));
    }
    let mut changes = gone.len();
    for (tool, step) in &steps {
        if let Step::Changed(differences) = step {
            changes += 1;
            for difference in differences {
                Printer.problem(&format!("changed: {}: {difference}", tool.name()));
            }
        }
    }
    for (name, origin) in &gone {
        Printer.problem(&format!(
            "gone: {name}: the description has no {origin} any more"
        ));
    }
    if changes > 0 && !arguments.accept {
        return Err(Failure::Failed(format!(
            "{} since the last import; nothing was written: read the changes, then import again with --accept",
            counted(changes, "tool is other", "tools are others")
        )));
    }
    let mut set_aside = Vec::new();
    for name in gone.keys() {
        let path = folder::set_aside(tools, name).map_err(Failure::of)?;
        step_done(&format!("set aside {}", path.display()));
        set_aside.push(path.display().to_string());
    }
    let written = write(tools, &imported.source, &steps)?;
    let left_out = &imported.left_out;
    let of_one =
        |left_out: &LeftOut| json!({ "origin": left_out.origin, "reason": left_out.reason });
    Printer.outcome(
        &format!(
            "{} from {}; {} left out; read each schema.json, then take requiresConfirmation back where nobody need be asked",
            counted(steps.len(), "tool", "tools"),
            imported.source,
            counted(left_out.len(), "operation", "operations"),
        ),
        &json!({
            "source": imported.source,
            "tools": written,
            "setAside": set_aside,
            "leftOut": left_out.iter().map(of_one).collect::<Vec<_>>(),
        }),
    );
    Ok(())
}

/// One of several lines for people. For programs there is one result, at the end.
fn step_done(line: &str) {
    if Printer.format() == Format::Text {
        Printer.result(line);
    }
}

/// What became of each tool, for programs.
fn write(
    tools: &Path,
    source: &str,
    steps: &[(&ToolDirectory, Step)],
) -> Result<Vec<Value>, Failure> {
    let mut written = Vec::new();
    let mut notes: Vec<&str> = Vec::new();
    for (tool, step) in steps {
        let shown = tools.join(tool.name());
        let shown = shown.display();
        let (state, verb) = match step {
            Step::Unchanged => ("unchanged", "unchanged"),
            Step::New | Step::Foreign => ("new", "wrote"),
            Step::Changed(_) => ("changed", "wrote anew, to be reviewed again,"),
        };
        written.push(json!({
            "toolId": tool.id,
            "directory": shown.to_string(),
            "origin": tool.origin,
            "state": state,
            "notes": tool.notes,
        }));
        if *step == Step::Unchanged {
            step_done(&format!("{verb} {shown}"));
            continue;
        }
        folder::write(tools, source, tool).map_err(Failure::of)?;
        step_done(&format!("{verb} {shown} ({})", tool.origin));
        for note in &tool.notes {
            // One note of the description as a whole is said once.
            if note.starts_with("set the secret") && notes.contains(&note.as_str()) {
                continue;
            }
            notes.push(note);
            Printer.hint(&format!("note: {}: {note}", tool.name()));
        }
    }
    Ok(written)
}

fn counted(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    }
}

/// What of a tool's directory in a Node project is a file of the tool here.
const TAKEN: [&str; 4] = ["schema.json", "guide.md", "doc_summary.md", "doc.md"];
/// A project with more tools is no project of tools.
const DIRECTORIES_MAX: usize = 512;

/// Copies the tool directories of a Node project, and names what in their handlers has to be replaced.
fn import_node(arguments: &NodeArguments) -> Result<(), Failure> {
    let flags = flags([("--tools", "folders.tools", &arguments.tools)]);
    let config = load_config_to_write_tools(&arguments.file, flags)?;
    let tools = &*config.folders.tools;
    if !arguments.project.is_dir() {
        return Err(Failure::Usage(format!(
            "there is no folder {}; name the project, or its folder of tools",
            arguments.project.display()
        )));
    }
    let sources = tool_directories(&arguments.project)?;
    let present = sources.iter().map(|(name, _)| tools.join(name));
    if let Some(present) = present.into_iter().find(|path| path.exists()) {
        return Err(Failure::Failed(format!(
            "{} is there already; remove it, or name another folder with --tools; nothing was written",
            present.display()
        )));
    }
    let mut uses = 0;
    let mut written = Vec::new();
    for (name, source) in &sources {
        let directory = tools.join(name);
        uses += copy(source, &directory)?;
        step_done(&format!("wrote {}", directory.display()));
        written.push(directory.display().to_string());
    }
    let shared = sources.first().and_then(|(_, first)| first.parent());
    if let Some(shared) = shared.map(|folder| folder.join("_shared"))
        && shared.is_dir()
        && !tools.join("_shared").exists()
    {
        copy(&shared, &tools.join("_shared"))?;
    }
    let (tools_text, uses_text) = (
        counted(sources.len(), "tool", "tools"),
        counted(uses, "use", "uses"),
    );
    Printer.outcome(
        &format!("{tools_text}; {uses_text} to replace; then run windlass check"),
        &json!({ "directories": written, "uses": uses }),
    );
    Ok(())
}

/// The names here of the tools that a Node project has. None where nothing can be imported of it.
pub(super) fn node_tools(project: &Path) -> Vec<String> {
    let found = tool_directories(project).unwrap_or_default();
    found.into_iter().map(|(name, _)| name).collect()
}

/// The directories with a `schema.json` in a folder, or in its folder `tools`, by the name that they get here.
fn tool_directories(project: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
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
            found.push((name.to_ascii_lowercase().replace('_', "-"), entry.path()));
        }
    }
    found.sort();
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

/// Copies the files of one tool; says what of its code has to be replaced, and how much that is.
fn copy(source: &Path, target: &Path) -> Result<usize, Failure> {
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
        if !is_code && !TAKEN.contains(&name.as_str()) {
            continue;
        }
        let path = source.join(&name);
        let text = read(&path).map_err(|cause| {
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
