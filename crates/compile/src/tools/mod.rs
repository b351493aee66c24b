//! The compiler: reads a folder of tool directories and makes one artifact of them, or reports all problems of all of them. Knows no
//! clock and runs no tool; an error never touches the existing artifact.

mod calls;
mod configured;
mod directory;
mod embedded;
mod git;
mod handled;
mod script;
mod vocabulary;

pub use crate::manifest::FieldDefault;
pub use configured::{Configured, ExampleConsent, configured};
pub use embedded::compile_embedded;
pub use script::{ScriptFlaw, ScriptJudge, ScriptSources, ScriptVerdict};
pub use vocabulary::{Vocabularies, Vocabulary};

use crate::artifact::{Artifact, DeclaredKind, Entry, HandlerCode};
use crate::handler_file::{self, HandlerFile, Judged, Permissions};
use crate::manifest::{self, Named, Readable};
use crate::problem::{Problem, Report, Severity};
use crate::{dialect, guide};
use directory::{File, ScriptFiles, Snapshot, ToolFiles};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use windlass_contract::condition::Values;
use windlass_contract::handler::Handler;
use windlass_contract::id::ToolId;
use windlass_contract::json;
use windlass_contract::kind::{Mode, SideEffects};
use windlass_contract::registry::DESCRIBE_TOOL;
use windlass_contract::validate::Validator;
use windlass_contract::version::Version;
use windlass_contract::wording::brief;

/// Raised when the compiler makes a different artifact from the same sources, so that older artifacts are rebuilt.
const REVISION: u32 = 11;

/// The most tools that OpenAI takes in one request.
pub const OPENAI_TOOLS_MAX: usize = 128;

/// The tools whose handlers are built into the binary, and what each handler [reads](Handler::reads).
pub type Builtin = BTreeMap<ToolId, Option<Value>>;

/// The built-in tools of these handlers.
pub fn builtin(handlers: &BTreeMap<ToolId, Arc<dyn Handler>>) -> Builtin {
    let entries = handlers.iter();
    entries
        .map(|(id, handler)| (id.clone(), handler.reads()))
        .collect()
}

/// The inputs of the compiler.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The folder of tool directories.
    pub tools: &'a Path,
    /// The path of the artifact, existing or not; handlers' paths in it are relative to its folder.
    pub artifact: &'a Path,
    pub builtin: &'a Builtin,
    /// RFC 3339. Recorded in the artifact; it changes no version.
    pub build_timestamp: &'a str,
    /// The values that replace enums in the schemas.
    pub vocabularies: &'a Vocabularies,
    /// The configuration's permissions for handlers.
    pub permissions: &'a Permissions,
    /// The configuration's values for conditions.
    pub values: &'a Values,
    /// The judge of scripts. Without one no script can run.
    pub judge: Option<&'a dyn ScriptJudge>,
}

/// The result of compiling.
#[derive(Debug)]
pub struct Compilation {
    /// `None` if any problem is an error.
    pub artifact: Option<Artifact>,
    /// Sorted by tool, file and place.
    pub problems: Vec<Problem>,
    /// The defaults of fields that the tools leave out, by the tool's id; for a version beside the one in the tool's own folder by id and
    /// version, as in `book_table@1.2.0`.
    pub defaults: BTreeMap<String, Vec<FieldDefault>>,
}

impl Compilation {
    pub fn count(&self, severity: Severity) -> usize {
        self.problems
            .iter()
            .filter(|problem| problem.severity == severity)
            .count()
    }
}

/// Compiles all tools of a folder and reports all their problems at once.
pub fn compile(source: &Source<'_>) -> Compilation {
    let snapshot = match directory::read(source.tools) {
        Ok(snapshot) => snapshot,
        Err(problem) => {
            return Compilation {
                artifact: None,
                problems: vec![*problem],
                defaults: BTreeMap::new(),
            };
        }
    };
    let source_hash = source_hash(&snapshot, source);
    let mut problems = snapshot.problems;
    let mut entries: Vec<Entry> = Vec::with_capacity(snapshot.tools.len());
    let mut directories_by_id: BTreeMap<ToolId, String> = BTreeMap::new();
    let mut numbers: BTreeMap<&str, Vec<(Version, &ToolFiles)>> = BTreeMap::new();
    let mut defaults = BTreeMap::new();
    for files in &snapshot.tools {
        let shared = &snapshot.shared;
        let compiled = compile_tool(files, source, shared, &mut directories_by_id);
        problems.extend(compiled.problems);
        if let Some(version) = compiled.version {
            let known = numbers.entry(&files.name).or_default();
            problems.extend(second_of_number(&version, files, known));
            known.push((version, files));
        }
        if let Some(entry) = compiled.entry {
            if !compiled.defaults.is_empty() {
                defaults.insert(entry.label(), compiled.defaults);
            }
            entries.push(entry);
        }
    }
    problems.extend(too_many_for_openai(&entries, source.tools));
    problems.extend(calls::check(&entries, source));
    problems.extend(unlike_state(&entries, source.tools));
    problems.extend(unlike_keys(&entries, source.tools));
    // The sort is stable, so that a tool's problems stay in the order of its files.
    problems.sort_by(|left, right| left.tool.cmp(&right.tool));
    let failed = problems
        .iter()
        .any(|problem| problem.severity == Severity::Error);
    Compilation {
        artifact: (!failed).then(|| {
            Artifact::new(
                entries,
                git::commit(source.tools),
                source.build_timestamp.to_owned(),
                source_hash,
            )
        }),
        problems,
        defaults,
    }
}

/// A note for each mode: other providers take more tools, so it matters only to projects that choose OpenAI.
fn too_many_for_openai<'a>(
    entries: &'a [Entry],
    tools: &'a Path,
) -> impl Iterator<Item = Problem> + use<'a> {
    [(Mode::Text, "text"), (Mode::Voice, "voice")]
        .into_iter()
        .filter_map(move |(mode, name)| {
            let of_mode = entries
                .iter()
                .filter(|entry| entry.manifest.allowed_modes.contains(&mode));
            let ids: BTreeSet<&ToolId> = of_mode.map(|entry| &entry.manifest.tool_id).collect();
            let count = ids.len();
            (count > OPENAI_TOOLS_MAX).then(|| Problem {
                file: tools.display().to_string(),
                line: None,
                column: None,
                severity: Severity::Note,
                tool: None,
                message: format!(
                    "{count} tools are for {name}, and OpenAI takes {OPENAI_TOOLS_MAX} in one request"
                ),
                cure: "nothing to do with other providers; for OpenAI, leave tools out or narrow their `allowedModes`"
                    .to_owned(),
            })
        })
}

/// An error for a version whose number another version of the tool already has.
fn second_of_number(
    version: &Version,
    files: &ToolFiles,
    known: &[(Version, &ToolFiles)],
) -> Option<Problem> {
    let (_, first) = known.iter().find(|(known, _)| known == version)?;
    let mut report = Report::new(&files.name, files.path("schema.json"), files.schema.text());
    report.error(
        "/version",
        format!(
            "the tool has a version of this number already, in `{}`",
            first.folder()
        ),
        "give one of them another number; what stands behind a + makes no other version",
    );
    report.into_problems().pop()
}

/// An error for each conversation value that two tools, or two versions of one tool, declare differently.
fn unlike_state(entries: &[Entry], tools: &Path) -> Vec<Problem> {
    let mut declared: BTreeMap<&str, (&Entry, &Value)> = BTreeMap::new();
    let mut problems = Vec::new();
    for entry in entries {
        for (key, schema) in &entry.manifest.state {
            let (other, known) = *declared.entry(key).or_insert((entry, schema));
            if known == schema {
                continue;
            }
            problems.push(of_schema(
                entry,
                tools,
                Severity::Error,
                format!(
                    "the value `{key}` has another schema in the tool `{}`",
                    other.label()
                ),
                "write the same schema in both, or give one of them another key",
            ));
        }
    }
    problems
}

/// A note for each version that identifies an effect by other arguments than the version in the tool's own folder does.
fn unlike_keys(entries: &[Entry], tools: &Path) -> Vec<Problem> {
    let writing = || {
        let entries = entries.iter();
        entries.filter(|entry| entry.manifest.side_effects == SideEffects::Writes)
    };
    let current: BTreeMap<&ToolId, &Entry> = writing()
        .filter(|entry| !entry.is_beside)
        .map(|entry| (&entry.manifest.tool_id, entry))
        .collect();
    let unlike = writing().filter(|entry| {
        let current = current.get(&entry.manifest.tool_id);
        entry.is_beside && current.is_some_and(|current| current.key_spec() != entry.key_spec())
    });
    let note = |entry| {
        of_schema(
            entry,
            tools,
            Severity::Note,
            "this version compares other arguments than the tool's current one, to know whether two calls are the same change"
                .to_owned(),
            "nothing to do where that is meant: calls of both are compared both ways; else give both the same `effectKey`",
        )
    };
    unlike.map(note).collect()
}

/// A problem of a version's schema as a whole.
fn of_schema(
    entry: &Entry,
    tools: &Path,
    severity: Severity,
    message: String,
    cure: &str,
) -> Problem {
    let directory = entry.manifest.tool_id.as_str().replace('_', "-");
    let mut folder = tools.join(&directory);
    if entry.is_beside {
        folder.extend([directory::VERSIONS, &entry.manifest.version]);
    }
    Problem {
        file: folder.join("schema.json").display().to_string(),
        line: None,
        column: None,
        severity,
        tool: Some(directory),
        message,
        cure: cure.to_owned(),
    }
}

/// Whether these sources would compile to the artifact. `false` also where the sources cannot be read.
pub fn is_current(artifact: &Artifact, source: &Source<'_>) -> bool {
    directory::read(source.tools).is_ok_and(|snapshot| {
        snapshot.problems.is_empty() && source_hash(&snapshot, source) == artifact.source_hash()
    })
}

/// A hash over everything that the compiler looks at.
fn source_hash(snapshot: &Snapshot, source: &Source<'_>) -> String {
    let mut hasher = Sha256::new();
    let mut part = |text: &str| {
        hasher.update(text.len().to_le_bytes());
        hasher.update(text);
    };
    part(&format!(
        "windlass {} {REVISION}",
        env!("CARGO_PKG_VERSION")
    ));
    part(match source.permissions.processes {
        true => "processes",
        false => "no processes",
    });
    for (name, kind) in source.values.kinds() {
        part(name);
        part(kind);
    }
    for (id, reads) in source.builtin {
        part(id.as_str());
        if let Some(reads) = reads {
            part(&reads.to_string());
        }
    }
    for (id, vocabularies) in source.vocabularies {
        part(id.as_str());
        for vocabulary in vocabularies {
            vocabulary.words().for_each(&mut part);
        }
    }
    for tool in &snapshot.tools {
        part(&tool.folder());
        for (name, file) in tool.files().chain(files_of(&tool.scripts)) {
            part(name);
            part(file.text());
        }
        for file in &tool.program {
            part(&file.name);
            part(&file.sha256);
        }
    }
    for (path, file) in files_of(&snapshot.shared) {
        part(path);
        part(file.text());
    }
    part(match source.judge {
        Some(_) => "with scripts",
        None => "without scripts",
    });
    json::hex(&hasher.finalize())
}

fn files_of(scripts: &ScriptFiles) -> impl Iterator<Item = (&str, &File)> {
    scripts.iter().map(|(path, file)| (path.as_str(), file))
}

struct Compiled {
    entry: Option<Entry>,
    /// Also set for a tool that has other problems.
    version: Option<Version>,
    problems: Vec<Problem>,
    defaults: Vec<FieldDefault>,
}

fn compile_tool(
    files: &ToolFiles,
    source: &Source<'_>,
    shared: &ScriptFiles,
    directories_by_id: &mut BTreeMap<ToolId, String>,
) -> Compiled {
    // A tool's own handler shows only at run time which arguments it reads.
    let has_own_handler = files.has_handler();
    let mut problems = Vec::new();
    let mut declarations = None;
    let mut readable = Readable::default();
    let (mut parameters, mut served) = (None, None);
    match &files.schema {
        File::Text(text) => {
            let mut report = Report::new(&files.name, files.path("schema.json"), text);
            let is_built_in = |id: &str| !has_own_handler && source.builtin.contains_key(id);
            let named = Named {
                tool: &files.name,
                version: files.version.as_ref().map(Version::as_str),
            };
            readable = manifest::read(text, named, is_built_in, &mut report);
            let known = vocabulary::left_open(source.vocabularies, &readable);
            manifest::conditions::check(&readable, known.as_deref(), source.values, &mut report);
            if let Some(id) = &readable.tool_id {
                check_id(id, files, directories_by_id, &mut report);
            }
            if let (Some(version), Some(folder)) = (&readable.version, &files.version) {
                check_version(version, folder.as_str(), &mut report);
            }
            if let (Some(id), Some(schema)) = (&readable.tool_id, &readable.parameters)
                && let Some(Some(reads)) = source.builtin.get(id)
                && !has_own_handler
            {
                handled::compare(id, reads, schema, &mut report);
            }
            // Guides are written for the schema as it stands in the file.
            let schema = readable.parameters.as_ref();
            parameters = schema.and_then(|schema| Validator::compile(schema).ok());
            if vocabulary::put_in(source.vocabularies, &mut readable) {
                let schema = readable.parameters.as_ref();
                served = schema.and_then(|schema| Validator::compile(schema).ok());
            }
            declarations = dialect::declare(&readable, &mut report);
            problems.extend(report.into_problems());
        }
        File::Missing => {
            let mut report = Report::new(&files.name, files.path("schema.json"), "");
            report.whole(
                Severity::Error,
                "the file is missing",
                "add it with description, sideEffects and parameters, or begin the directory's name with _ to leave it out",
            );
            problems.extend(report.into_problems());
        }
        File::Unreadable => {}
    }
    let mut words = read_guide(files, parameters.as_ref(), &mut problems);
    if let (Some(words), Some(written), Some(served)) = (&mut words, &parameters, &served) {
        words.documentation = guide::without_untrue_examples(&words.documentation, written, served);
    }
    let handler = read_handler(files, &readable, source, shared, &mut problems);
    let defaults = std::mem::take(&mut readable.defaults);
    let version = readable.version.as_deref().and_then(Version::parse);
    let entry = || {
        Some(Entry {
            manifest: readable.whole()?,
            declarations: declarations?,
            guide: words?,
            handler: handler?,
            is_beside: files.version.is_some(),
        })
    };
    Compiled {
        entry: entry(),
        version,
        problems,
        defaults,
    }
}

fn check_id(
    id: &ToolId,
    files: &ToolFiles,
    directories_by_id: &mut BTreeMap<ToolId, String>,
    report: &mut Report<'_>,
) {
    let expected = files.name.replace('-', "_");
    if id.as_str() != expected {
        report.error(
            "/toolId",
            format!(
                "`toolId` is `{id}`, but the directory is `{}`",
                brief(&files.name)
            ),
            format!(
                "write \"{expected}\", or rename the directory to {}",
                id.as_str().replace('_', "-")
            ),
        );
    }
    if id.as_str() == DESCRIBE_TOOL {
        report.error(
            "/toolId",
            format!("`{id}` is the program's own tool, which returns the guides of the others"),
            "give the tool another id and directory",
        );
    }
    match directories_by_id.get(id) {
        // The tool's other versions share its id.
        Some(_) if files.version.is_some() => {}
        Some(other) => report.error(
            "/toolId",
            format!("the tool `{id}` is in the directory `{other}` already"),
            "give one of them another id and directory",
        ),
        None => {
            directories_by_id.insert(id.clone(), files.name.clone());
        }
    }
}

fn check_version(version: &str, folder: &str, report: &mut Report<'_>) {
    if version != folder {
        report.error(
            "/version",
            format!("`version` is `{version}`, but the directory is `{folder}`"),
            format!("write \"{folder}\", or rename the directory to {version}"),
        );
    }
}

fn read_guide(
    files: &ToolFiles,
    parameters: Option<&Validator>,
    problems: &mut Vec<Problem>,
) -> Option<guide::Guide> {
    match (&files.guide, &files.doc_summary, &files.doc) {
        (File::Text(text), summary, doc) => {
            let mut report = Report::new(&files.name, files.path("guide.md"), "");
            let guide = guide::read(text, parameters, &mut report);
            if !matches!((summary, doc), (File::Missing, File::Missing)) {
                report.whole(
                    Severity::Warning,
                    "the tool has a guide.md and the older doc files, which nobody reads",
                    "remove doc_summary.md and doc.md",
                );
            }
            problems.extend(report.into_problems());
            guide
        }
        (File::Missing, File::Missing, File::Missing) => {
            let mut report = Report::new(&files.name, files.path("guide.md"), "");
            report.whole(
                Severity::Error,
                "the file is missing",
                "add it: a title, one line that says what the tool does and when to call it, and what else a model should know",
            );
            problems.extend(report.into_problems());
            None
        }
        (File::Missing, File::Text(summary), File::Text(doc)) => {
            let mut report = Report::new(&files.name, files.path("doc_summary.md"), "");
            let summary = guide::read_summary(summary, &mut report);
            problems.extend(report.into_problems());
            let mut report = Report::new(&files.name, files.path("doc.md"), "");
            let documentation = guide::read_documentation(doc, parameters, &mut report);
            problems.extend(report.into_problems());
            summary.map(|summary| guide::Guide {
                summary,
                documentation,
            })
        }
        (File::Missing, summary, doc) => {
            for (name, file) in [("doc_summary.md", summary), ("doc.md", doc)] {
                if matches!(file, File::Missing) {
                    let mut report = Report::new(&files.name, files.path(name), "");
                    report.whole(
                        Severity::Error,
                        "the file is missing",
                        "doc_summary.md and doc.md come together; add it, or write one guide.md instead",
                    );
                    problems.extend(report.into_problems());
                }
            }
            None
        }
        (File::Unreadable, _, _) => None,
    }
}

/// The one handler of a tool: its file, or the built-in handler of its id.
fn read_handler(
    files: &ToolFiles,
    readable: &Readable,
    source: &Source<'_>,
    shared: &ScriptFiles,
    problems: &mut Vec<Problem>,
) -> Option<HandlerCode> {
    // Where the id cannot be read, the directory's name stands in for it.
    let id = match &readable.tool_id {
        Some(id) => id.as_str().to_owned(),
        None => files.name.replace('-', "_"),
    };
    let is_built_in = source.builtin.contains_key(id.as_str());
    let mut there = files
        .handlers
        .iter()
        .filter(|(_, file)| !matches!(file, File::Missing));
    let Some((name, file)) = there.next() else {
        if is_built_in {
            return Some(HandlerCode::Builtin);
        }
        let mut report = Report::new(&files.name, files.path("handler.js"), "");
        report.whole(
            Severity::Error,
            format!(
                "the tool `{}` has no handler: none is built in, and there is no such file",
                brief(&id)
            ),
            "add a handler.js or handler.ts that exports execute, or a handler.json, or begin the directory's name with _ to leave it out",
        );
        problems.extend(report.into_problems());
        return None;
    };
    let mut report = Report::new(&files.name, files.path(name), file.text());
    if let Some((second, _)) = there.next() {
        let mut report = Report::new(&files.name, files.path(second), "");
        report.whole(
            Severity::Error,
            format!("the tool has two handlers, {name} and {second}"),
            "remove one of them",
        );
        problems.extend(report.into_problems());
        return None;
    }
    if is_built_in {
        report.whole(
            Severity::Note,
            format!("this handler takes the place of the built-in one of `{id}`"),
            "remove the file to have the built-in one again",
        );
    }
    let handler = match (*name, file) {
        (_, File::Missing | File::Unreadable) => None,
        ("handler.json", File::Text(text)) => {
            let text = guide::normalise(text);
            let kind = read_declared(&text, readable, source.permissions, &mut report);
            kind.map(|kind| HandlerCode::Declared {
                kind,
                path: directory::relative(source.artifact, &files.directory.join(name)),
                sha256: json::hex(&Sha256::digest(&text)),
                source: text.as_str().into(),
                program: files.program.clone(),
            })
        }
        (_, File::Text(_)) => script::read(files, (*name, file), source, shared, problems),
    };
    problems.extend(report.into_problems());
    handler
}

/// Judges a `handler.json` by its tool's schema and by the configuration's permissions.
fn read_declared(
    text: &str,
    readable: &Readable,
    permissions: &Permissions,
    report: &mut Report<'_>,
) -> Option<DeclaredKind> {
    // Without a schema the places of the file cannot be checked; the schema's own problem is reported.
    let judged = Judged {
        parameters: readable.parameters.as_ref()?,
        writes: readable.side_effects == Some(SideEffects::Writes),
        always_asks: readable.requires_confirmation == Some(true)
            && readable.consent_condition.is_none(),
        state: &readable.state,
        timeout_ms: readable.longest_ms(),
        permissions,
    };
    let file = handler_file::read(text, &judged, report)?;
    Some(match file {
        HandlerFile::Http(_) => DeclaredKind::Http,
        HandlerFile::Webhook(_) => DeclaredKind::Webhook,
        HandlerFile::Process(_) => DeclaredKind::Process,
        HandlerFile::Mcp(_) => DeclaredKind::Mcp,
        HandlerFile::McpResource(_) => DeclaredKind::McpResource,
    })
}
