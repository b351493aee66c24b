//! `windlass import`: makes tool directories of a team's existing descriptions.

mod node;

use super::{
    ImportArguments, ImportSource, ListArguments, OpenapiArguments, flags,
    load_config_to_write_tools,
};
use crate::failure::Failure;
use crate::printer::{Format, Printer};
use crate::toolbox::{ARTIFACT_FILE, Handlers};
pub(super) use node::node_tools;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use windlass_compile::problem::{Problem, Severity};
use windlass_compile::{Builtin, Source, Vocabularies, builtin, compile};
use windlass_config::Config;
use windlass_contract::id::ToolId;
use windlass_import::folder::{self, Step};
use windlass_import::mcp_resource::is_for_resources;
use windlass_import::openapi::{self, Choice, DocumentError};
use windlass_import::remark;
use windlass_import::tools::{self, ListError};
use windlass_import::{Code, Imported, LeftOut, ToolDirectory};

/// The largest description that is read. The largest public ones have some 10 MiB.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

pub(super) fn run(arguments: &ImportArguments, handlers: &Handlers) -> Result<(), Failure> {
    match &arguments.source {
        ImportSource::Openapi(arguments) => import_openapi(arguments),
        ImportSource::Tools(arguments) => import_list(arguments),
        ImportSource::Node(arguments) => node::run(arguments, &builtin(handlers)),
    }
}

/// The source of an import, and the choice of its tools.
pub(super) struct TakingUp<'a> {
    /// How the source is called: `description`.
    pub(super) source: &'static str,
    /// How one of its parts is called, and several: `operation`.
    pub(super) part: [&'static str; 2],
    pub(super) only: &'a [String],
    pub(super) accept: bool,
    /// The flag that renames a tool whose name is taken.
    pub(super) rename: &'static str,
    /// The next steps with the written tools.
    pub(super) review: &'static str,
}

const RENAME: &str = "rename it, or leave it out with --only";
const REVIEW: &str =
    "read each schema.json, then take requiresConfirmation back where nobody need be asked";

fn import_openapi(arguments: &OpenapiArguments) -> Result<(), Failure> {
    let flags = flags([("--tools", "folders.tools", &arguments.tools)]);
    let config = load_config_to_write_tools(&arguments.file, flags)?;
    let shown = arguments.description.display();
    let failed = |cause: String| Failure::Failed(format!("{shown} cannot be imported: {cause}"));
    let misused = |cause: String| Failure::Usage(format!("{shown} cannot be imported: {cause}"));
    let text = read(&arguments.description, DESCRIPTION).map_err(|cause| {
        match arguments.description.is_file() {
            true => failed(cause),
            false => misused(cause),
        }
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
    leave_out_what_does_not_compile(&config, &mut imported)?;
    let taking_up = TakingUp {
        source: "description",
        part: ["operation", "operations"],
        only: &arguments.only,
        accept: arguments.accept,
        rename: RENAME,
        review: REVIEW,
    };
    take_up(&config.folders.tools, &imported, &taking_up)
}

/// Makes tool directories of a list of definitions, whose code is still to be written.
fn import_list(arguments: &ListArguments) -> Result<(), Failure> {
    let taking = &arguments.taking;
    let flags = flags([("--tools", "folders.tools", &taking.tools)]);
    let config = load_config_to_write_tools(&arguments.file, flags)?;
    let shown = arguments.list.display();
    let failed = |cause: String| Failure::Failed(format!("{shown} cannot be imported: {cause}"));
    let misused = |cause: String| Failure::Usage(format!("{shown} cannot be imported: {cause}"));
    let text = read(&arguments.list, LIST).map_err(|cause| match arguments.list.is_file() {
        true => failed(cause),
        false => misused(cause),
    })?;
    let name = arguments
        .list
        .file_name()
        .map(|name| name.to_string_lossy());
    let imported = tools::import(&text, &name.unwrap_or_default(), &taking.only);
    let mut imported = imported.map_err(|error| match error {
        ListError::Unknown(..) | ListError::Openapi => misused(error.to_string()),
        error => failed(error.to_string()),
    })?;
    leave_out_what_does_not_compile(&config, &mut imported)?;
    let taking_up = TakingUp {
        source: "list",
        part: ["tool", "tools"],
        only: &taking.only,
        accept: taking.accept,
        rename: RENAME,
        review: REVIEW,
    };
    take_up(&config.folders.tools, &imported, &taking_up)
}

/// Words for the file that is asked for, where none is there.
const DESCRIPTION: &str =
    "a description in JSON or YAML, which many backends serve at /openapi.json";
const LIST: &str = "a list of tool definitions in JSON";

fn read(path: &Path, wanted: &str) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no such file; name {wanted}"),
        _ => error.to_string(),
    })?;
    if metadata.len() > BYTES_MAX {
        return Err(format!("it is longer than {BYTES_MAX} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// Has the compiler judge every tool in a folder of its own, so that no tool is written that `check` would refuse.
pub(super) fn leave_out_what_does_not_compile(
    config: &Config,
    imported: &mut Imported,
) -> Result<(), Failure> {
    let tools = &*config.folders.tools;
    std::fs::create_dir_all(tools)
        .map_err(|error| Failure::Failed(format!("{} cannot be made: {error}", tools.display())))?;
    let trial = TrialFolder::make(tools)?;
    for tool in &imported.tools {
        folder::write(&trial.0, &imported.source, tool).map_err(Failure::of)?;
    }
    if imported.tools.is_empty() {
        return Ok(());
    }
    // Secrets can be set and bound later; `check` names the missing ones.
    let mut permissions = config.permissions();
    // Code that the author is to write is judged when it is there.
    let mut written_later = Builtin::new();
    for tool in &imported.tools {
        let handler = match &tool.code {
            Code::Declared(handler) => handler,
            Code::Script(_) => {
                written_later.extend(ToolId::parse(&tool.id).map(|id| (id, None)));
                let script = trial.0.join(tool.name()).join("handler.js");
                std::fs::remove_file(&script).map_err(|error| {
                    Failure::Failed(format!("{} cannot be removed: {error}", script.display()))
                })?;
                continue;
            }
        };
        let url = handler["url"].as_str().unwrap_or_default();
        let place = url.split('/').nth(2).unwrap_or_default();
        for secret in &tool.secrets {
            let hosts = permissions.secrets.entry(secret.clone()).or_default();
            hosts.insert(place.to_ascii_lowercase());
        }
    }
    let compilation = compile(&Source {
        tools: &trial.0,
        artifact: &config.folders.data.join(ARTIFACT_FILE),
        builtin: &written_later,
        build_timestamp: "",
        vocabularies: &Vocabularies::new(),
        values: &config.condition_facts,
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

/// A folder that is removed when it is dropped. The compiler passes over its name.
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
        // A left-over folder is harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes the tools, or names the obstacle and writes nothing.
pub(super) fn take_up(
    tools: &Path,
    imported: &Imported,
    taking_up: &TakingUp<'_>,
) -> Result<(), Failure> {
    let TakingUp {
        source,
        part: [part, parts],
        only,
        accept,
        rename,
        review,
    } = *taking_up;
    for LeftOut { origin, reason } in &imported.left_out {
        Printer.problem(&format!("left out: {origin}: {reason}"));
    }
    if !only.is_empty() && !imported.left_out.is_empty() {
        let article = if part.starts_with('o') { "an" } else { "a" };
        return Err(Failure::Failed(format!(
            "{article} {part} that --only names cannot be imported; nothing was written"
        )));
    }
    if imported.tools.is_empty() {
        return Err(Failure::Failed(format!("no {part} could be imported")));
    }
    let mut steps = Vec::new();
    for tool in &imported.tools {
        steps.push((
            tool,
            folder::step(tools, &imported.source, tool).map_err(Failure::of)?,
        ));
    }
    let gone = folder::gone(tools, &imported.source, &imported.origins).map_err(Failure::of)?;
    if let Some((tool, _)) = steps.iter().find(|(_, step)| *step == Step::Foreign) {
        return Err(Failure::Failed(format!(
            "{} was not imported, and {} would replace it; {rename}; nothing was written",
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
            "gone: {name}: the {source} has no {origin} any more"
        ));
    }
    if changes > 0 && !accept {
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
            "{} from {}; {} left out; {review}",
            counted_tools(&imported.tools),
            imported.source,
            counted(left_out.len(), part, parts),
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

/// The number of the source's own tools, and the id of the tool for what it offers beside them.
fn counted_tools(tools: &[ToolDirectory]) -> String {
    let (beside, own): (Vec<_>, Vec<_>) = tools.iter().partition(|tool| is_for_resources(tool));
    let own = (!own.is_empty()).then(|| counted(own.len(), "tool", "tools"));
    let beside = beside.into_iter().map(|tool| tool.id.clone());
    own.into_iter()
        .chain(beside)
        .collect::<Vec<_>>()
        .join(" and ")
}

/// One of several lines for people. For programs there is one result, at the end.
pub(super) fn step_done(line: &str) {
    if Printer.format() == Format::Text {
        Printer.result(line);
    }
}

/// Writes the tools. Returns the outcome for each tool, for programs.
pub(super) fn write(
    tools: &Path,
    source: &str,
    steps: &[(&ToolDirectory, Step)],
) -> Result<Vec<Value>, Failure> {
    let mut written = Vec::new();
    let mut new: Vec<&ToolDirectory> = Vec::new();
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
            "notes": notes_of(tool),
        }));
        if *step == Step::Unchanged {
            step_done(&format!("{verb} {shown}"));
            continue;
        }
        new.push(tool);
        let taken_out = folder::write(tools, source, tool).map_err(Failure::of)?;
        step_done(&format!("{verb} {shown} ({})", tool.origin));
        for note in &taken_out {
            Printer.hint(&format!("note: {}: {note}", tool.name()));
        }
        for note in &tool.notes {
            // One note of the description as a whole is said once.
            if note.starts_with("set the secret") && notes.contains(&note.as_str()) {
                continue;
            }
            notes.push(note);
            Printer.hint(&format!("note: {}: {note}", tool.name()));
        }
    }
    for line in remark::lines(&new) {
        Printer.hint(&format!("note: {line}"));
    }
    Ok(written)
}

/// Everything that is to be known of one tool.
fn notes_of(tool: &ToolDirectory) -> Vec<String> {
    let remarks = tool.remarks.iter().map(|remark| remark.of(tool));
    tool.notes.iter().cloned().chain(remarks).collect()
}

pub(super) fn counted(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    }
}
