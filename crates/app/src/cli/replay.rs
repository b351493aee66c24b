//! `windlass replay`: runs a recorded session through the core again, or prints it. Knows the file; the form of its lines
//! is the core's.

use super::{ReplayArguments, flags, load_config};
use crate::failure::Failure;
use crate::knowledge::LiveKnowledge;
use crate::printer::{Format, Printer};
use crate::toolbox::{ARTIFACT_FILE, Handlers, ToolboxError, Workshop};
use crate::{provider, server};
use serde::Deserialize;
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use windlass_compile::artifact::Artifact;
use windlass_config::Config;
use windlass_contract::id::ToolId;
use windlass_contract::registry::Registry;
use windlass_contract::rollout::Rollout;
use windlass_contract::template::escaped;
use windlass_knowledge::KnowledgeBase;
use windlass_session::journal::{Header, JOURNAL_VERSION, JournalStep, Line, Replay};
use windlass_session::limits::LIMIT_MAX;
use windlass_session::time::Timestamp;

/// Bytes of one line; windlass writes no longer one.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Days that a session lasts at most; windlass writes no longer one.
const DAYS_MAX: u64 = 36_500;

pub(super) fn run(arguments: &ReplayArguments, handlers: Handlers) -> Result<(), Failure> {
    let flags = flags([
        ("--tools", "folders.tools", &arguments.tools),
        ("--kb", "folders.knowledge", &arguments.kb),
        ("--data", "folders.data", &arguments.data),
    ]);
    let config = Arc::new(load_config(&arguments.file, flags)?);
    let mut journal = JournalFile::open(&arguments.journal)?;
    let header = journal.header()?;
    if arguments.print {
        return match Printer.format() {
            Format::Text => print(journal, &header),
            Format::Json => print_json(journal, header),
        };
    }
    let registry = registry(&config, &header, handlers)?;
    let recorded = &header.registry_version;
    if **registry.version() != **recorded {
        Printer.problem(&escaped(&format!(
            "windlass: the session ran with the tools of version {recorded}, and these are {}; what came out may differ",
            registry.version()
        )));
    }
    compare(journal, header, registry)
}

/// The tools as a session of the header's mode would get them now.
fn registry(
    config: &Arc<Config>,
    header: &Header,
    handlers: Handlers,
) -> Result<Arc<Registry>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)?;
    let recorded = |artifact: &Artifact| artifact.version() == header.registry_version;
    let at_hand = Artifact::load(&config.folders.data.join(ARTIFACT_FILE));
    let at_hand = at_hand.ok().filter(recorded);
    // If the tools have to be built, the knowledge base decides which arguments its tools take.
    let knowledge = match at_hand {
        Some(_) => nothing()?,
        None => runtime
            .block_on(server::open_knowledge(config))
            .or_else(|failure| without_words(&failure))?,
    };
    let mut workshop = Workshop {
        knowledge: Arc::new(knowledge),
        handlers,
        profile: provider::profile_of(config),
        config: config.clone(),
    };
    let artifact = match at_hand {
        Some(artifact) => artifact,
        None => {
            let words = workshop.knowledge.vocabularies();
            workshop.artifact(&words).map_err(ToolboxError::reported)?
        }
    };
    if recorded(&artifact) && !header.tools.is_empty() {
        // They are the same tools, so that the session's own settings fit.
        let mut config = (**config).clone();
        let own = |id: &ToolId| Some((id.clone(), header.tools.get(id.as_str())?.clone()));
        config.tightenings = artifact.tool_ids().filter_map(own).collect();
        let versions = artifact.tool_ids().filter_map(|id| {
            let version = header.versions.get(id.as_str())?.clone();
            let rollout = Rollout {
                version: Some(version),
                ..Rollout::default()
            };
            Some((id.clone(), rollout))
        });
        config.rollouts = versions.collect();
        workshop.config = Arc::new(config);
    }
    let toolbox = workshop
        .activate(artifact)
        .map_err(ToolboxError::reported)?;
    let session = &header.session;
    let facts = session.facts(session.started_unix_ms);
    let tools = toolbox.of(session.mode).offered_to(&facts);
    Ok(tools.registry.clone())
}

/// The tools are built without the words of a base that cannot be opened.
fn without_words(failure: &Failure) -> Result<LiveKnowledge, Failure> {
    if let Failure::Failed(problem) | Failure::Usage(problem) = failure {
        Printer.problem(&format!(
            "windlass: {problem}; the tools are built without its types and namespaces"
        ));
    }
    nothing()
}

/// A knowledge base without records.
fn nothing() -> Result<LiveKnowledge, Failure> {
    let base = KnowledgeBase::from_records(Vec::new()).map_err(Failure::of)?;
    Ok(LiveKnowledge::new(base))
}

fn compare(
    mut journal: JournalFile,
    header: Header,
    registry: Arc<Registry>,
) -> Result<(), Failure> {
    header.session.limits.check().map_err(|limit| {
        journal.failed(format!(
            "no session can have the limit {}: it is a whole number from {} to {LIMIT_MAX}",
            limit.name, limit.least
        ))
    })?;
    let (mut replay, outputs) = Replay::begin(header.session, registry);
    journal.same("the session's start", &header.outputs, &outputs)?;
    let (mut inputs, mut is_full) = (0_u64, false);
    while let Some(line) = journal.next()? {
        match line {
            Line::Step(JournalStep {
                number,
                at,
                input,
                outputs,
            }) => {
                inputs += 1;
                if number != inputs {
                    return Err(journal.failed(format!(
                        "this is input {number}, and input {inputs} belongs here: lines are missing, were moved, or were put in"
                    )));
                }
                let name = name_of(&input)?;
                let again = replay.step(at, input);
                journal.same(&name, &outputs, &again)?;
            }
            Line::Partial { tool } => {
                return Err(journal.failed(format!(
                    "from here on the arguments of {tool} are left out, because it marks some as sensitive, so that nothing more can be compared; print it with --print"
                )));
            }
            Line::Full => {
                is_full = true;
                break;
            }
            Line::Header(_) => return Err(journal.failed("a second header".to_owned())),
        }
    }
    let rest = match is_full {
        true => "; the journal was full then, and what came later is not in it",
        false => missing_end(&journal, &replay),
    };
    let remark = rest.trim_start_matches("; ");
    Printer.outcome(
        &format!("same: {inputs} inputs gave what they gave before{rest}"),
        &json!({ "same": true, "inputs": inputs, "remark": remark }),
    );
    Ok(())
}

/// The note on a journal that ends before its session does, as that of a killed process.
fn missing_end(journal: &JournalFile, replay: &Replay) -> &'static str {
    match (journal.is_cut, replay.is_over()) {
        (true, false) => "; the last line is cut off, and the session's end is not in the journal",
        (true, true) => "; the last line is cut off",
        (false, false) => "; the session's end is not in the journal",
        (false, true) => "",
    }
}

/// The kind of an input, as its JSON names it.
fn name_of(input: &impl serde::Serialize) -> Result<String, Failure> {
    let value = serde_json::to_value(input).map_err(Failure::of)?;
    let name = match &value {
        serde_json::Value::Object(map) => map.keys().next().cloned(),
        serde_json::Value::String(name) => Some(name.clone()),
        _ => None,
    };
    Ok(format!("the input {}", name.unwrap_or_default()))
}

/// A line of JSON for each line of the journal.
fn print_json(mut journal: JournalFile, header: Header) -> Result<(), Failure> {
    let mut next = Some(Line::Header(Box::new(header)));
    while let Some(line) = next {
        Printer.result(&serde_json::to_string(&line).map_err(Failure::of)?);
        next = journal.next()?;
    }
    Ok(())
}

fn print(mut journal: JournalFile, header: &Header) -> Result<(), Failure> {
    let session = &header.session;
    show(&format!(
        "session {} of user {}, conversation {}, tools {}",
        session.session_id, session.user_id, session.conversation_id, header.registry_version
    ));
    print_outputs(&header.outputs);
    while let Some(line) = journal.next()? {
        match line {
            Line::Step(step) => {
                let input = serde_json::to_string(&step.input).map_err(Failure::of)?;
                show(&format!("{} < {input}", seconds(step.at)));
                print_outputs(&step.outputs);
            }
            Line::Partial { tool } => show(&format!(
                "from here on without what came out, for the sake of the sensitive arguments of {tool}"
            )),
            Line::Full => show("the journal was full; the session went on"),
            Line::Header(_) => return Err(journal.failed("a second header".to_owned())),
        }
    }
    if journal.is_cut {
        show("the last line is cut off");
    }
    Ok(())
}

fn print_outputs(outputs: &[String]) {
    for output in outputs {
        show(&format!("           > {output}"));
    }
}

/// A line of the timeline. Text of people, of models and of the file's author moves nothing on a terminal.
fn show(line: &str) {
    Printer.result(&escaped(line));
}

fn seconds(at: Timestamp) -> String {
    format!(
        "{:>5}.{:03} s",
        at.as_millis() / 1_000,
        at.as_millis() % 1_000
    )
}

/// The beginning of a journal of any version.
#[derive(Deserialize)]
struct Form {
    header: FormHeader,
}

#[derive(Deserialize)]
struct FormHeader {
    version: u32,
}

/// A journal that is read line by line.
struct JournalFile {
    name: String,
    lines: BufReader<File>,
    /// The number of the line that was read last, from 1.
    line: u64,
    /// That line has no end, and was not read.
    is_cut: bool,
}

impl JournalFile {
    fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let unreadable = |error| {
            Failure::Usage(format!(
                "{name} cannot be read: {error}; name a session's journal"
            ))
        };
        let file = File::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.is_dir() {
            return Err(unreadable(ErrorKind::IsADirectory.into()));
        }
        Ok(Self {
            name,
            lines: BufReader::new(file),
            line: 0,
            is_cut: false,
        })
    }

    fn failed(&self, problem: String) -> Failure {
        let problem = escaped(&problem);
        Failure::Failed(format!("{}, line {}: {problem}", self.name, self.line))
    }

    fn header(&mut self) -> Result<Header, Failure> {
        let text = self.text()?;
        // Read before the rest, which another version writes otherwise.
        let form: Option<Form> = text
            .as_ref()
            .and_then(|text| serde_json::from_slice(text).ok());
        if let Some(Form { header }) = form
            && header.version != JOURNAL_VERSION
        {
            return Err(self.failed(format!(
                "the journal has version {}, and this program reads version {JOURNAL_VERSION}; replay it with the one that wrote it",
                header.version
            )));
        }
        match text.map(|text| self.parsed(&text)).transpose()? {
            Some(Line::Header(header)) => Ok(*header),
            _ => {
                Err(self
                    .failed("a journal begins with a header; name a session's journal".to_owned()))
            }
        }
    }

    fn next(&mut self) -> Result<Option<Line>, Failure> {
        let text = self.text()?;
        text.map(|text| self.parsed(&text)).transpose()
    }

    /// A last line that was cut off was never taken by the core, as far as the journal knows, and ends it.
    fn text(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        self.line += 1;
        let mut text = Vec::new();
        let mut limited = (&mut self.lines).take(LINE_BYTES_MAX);
        limited
            .read_until(b'\n', &mut text)
            .map_err(|error| self.failed(format!("cannot be read: {error}")))?;
        if text.last() != Some(&b'\n') && (text.len() as u64) < LINE_BYTES_MAX {
            self.is_cut = !text.is_empty();
            return Ok(None);
        }
        Ok(Some(text))
    }

    fn parsed(&self, text: &[u8]) -> Result<Line, Failure> {
        let line = serde_json::from_slice(text).map_err(|error| {
            self.failed(format!(
                "is no line of a journal: {error}; name a session's journal"
            ))
        })?;
        match &line {
            Line::Step(step) if step.at > Timestamp::from_millis(DAYS_MAX * 86_400_000) => {
                Err(self.failed(format!(
                    "no session lasts for more than {DAYS_MAX} days, and this one for {} s",
                    step.at.as_millis() / 1_000
                )))
            }
            _ => Ok(line),
        }
    }

    fn same(&self, cause: &str, before: &[String], now: &[String]) -> Result<(), Failure> {
        let longer = before.len().max(now.len());
        let Some(index) = (0..longer).find(|index| before.get(*index) != now.get(*index)) else {
            return Ok(());
        };
        let shown = |outputs: &[String]| match outputs.get(index) {
            Some(output) => format!("`{output}`"),
            None => "nothing".to_owned(),
        };
        Err(self.failed(format!(
            "output {} of {cause} differs: it was {}, and is {}",
            index + 1,
            shown(before),
            shown(now)
        )))
    }
}
