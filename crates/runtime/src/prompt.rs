//! The system instruction: base text, mode text, today, the tools' guides and the order of working. A pure function of its
//! inputs, apart from reading the texts' folder. Knows no provider and no clock.

use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_contract::kind::{Category, Mode};
use windlass_contract::registry::{Registry, Tool};
use windlass_session::context::ContextEstimate;
pub use windlass_session::context::tokens;
use windlass_session::model::CallSupport;

/// Bytes of the longest text that is read from the folder.
const TEXT_BYTES_MAX: u64 = 256 * 1024;

/// The texts that do not depend on the tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    pub core: String,
    pub voice: String,
    pub text: String,
}

#[derive(Debug, thiserror::Error)]
pub enum TextsError {
    #[error("the prompt {} cannot be read: {cause}; make it readable, or remove it to use the built-in one", .path.display())]
    Unreadable {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error("the prompt {} is over {bytes_max} bytes long or no UTF-8 text", .path.display())]
    Unfit { path: PathBuf, bytes_max: u64 },
}

/// The beginning of the built-in text. It names no agent, so that it is true of every agent.
const NAMELESS: &str =
    "You are a helpful assistant. You help with what your tools and your knowledge base offer.";

impl Texts {
    /// Neutral texts, for an agent without texts of its own.
    pub fn built_in() -> Self {
        Self {
            core: include_str!("prompt/core.md").to_owned(),
            voice: include_str!("prompt/voice.md").to_owned(),
            text: include_str!("prompt/text.md").to_owned(),
        }
    }

    /// The same for the agent of a project, as a beginning for its author.
    pub fn of_project(name: &str) -> Self {
        let texts = Self::built_in();
        let named = format!(
            "You are the assistant of {name}. You help its users with what your tools and your knowledge base offer."
        );
        Self {
            core: texts.core.replacen(NAMELESS, &named, 1),
            ..texts
        }
    }

    /// Reads `core.md`, `voice.md` and `text.md` of a folder. The built-in text replaces each missing one, and its name is
    /// returned. A folder's only text is its core, whatever the file is called.
    pub fn load(folder: &Path) -> Result<(Self, Vec<&'static str>), TextsError> {
        let mut texts = Self::built_in();
        let mut missing = Vec::new();
        for (name, text) in [
            ("core.md", &mut texts.core),
            ("voice.md", &mut texts.voice),
            ("text.md", &mut texts.text),
        ] {
            match read(folder.join(name))? {
                Some(read) => *text = read,
                None => missing.push(name),
            }
        }
        if missing.len() == 3
            && let Some(only) = only_text(folder)
            && let Some(read) = read(only)?
        {
            texts.core = read;
            missing.retain(|name| *name != "core.md");
        }
        Ok((texts, missing))
    }
}

/// The one text file of a folder; `None` if there is none or more than one.
fn only_text(folder: &Path) -> Option<PathBuf> {
    let is_text = |path: &PathBuf| {
        let ending = path.extension().and_then(std::ffi::OsStr::to_str);
        path.is_file() && ending.is_some_and(|ending| ["md", "txt"].contains(&ending))
    };
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut texts = entries.map(|entry| entry.path()).filter(is_text);
    let only = texts.next()?;
    texts.next().is_none().then_some(only)
}

/// `None` if the file does not exist.
fn read(path: PathBuf) -> Result<Option<String>, TextsError> {
    let mut bytes = Vec::new();
    let outcome = std::fs::File::open(&path)
        .and_then(|file| file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes));
    match outcome {
        Ok(_) => {}
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(TextsError::Unreadable { path, cause }),
    }
    let fits = bytes.len() as u64 <= TEXT_BYTES_MAX;
    match String::from_utf8(bytes) {
        Ok(text) if fits => Ok(Some(text)),
        Ok(_) | Err(_) => Err(TextsError::Unfit {
            path,
            bytes_max: TEXT_BYTES_MAX,
        }),
    }
}

/// The parts of a prompt.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub texts: &'a Texts,
    pub mode: Mode,
    pub registry: &'a Registry,
    /// Tokens that full guides may take; the other tools have their summaries.
    pub guides_tokens_max: u64,
    /// Retrieval calls of a turn.
    pub retrieval_calls_max: u32,
    /// The calls whose results the model waits for.
    pub calls: CallSupport,
}

/// The moment at which a session begins, in words.
#[derive(Clone, Copy, Debug)]
pub struct Now<'a> {
    /// `Friday, 20 November 2026`.
    pub date: &'a str,
    /// `18:25`.
    pub time: &'a str,
    /// `Europe/Oslo, UTC+01:00`.
    pub zone: &'a str,
}

/// The prompt of one registry and mode, ready for the date. Made once and shared by all their sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    before_date: String,
    after_date: String,
}

/// Whether the guides of all tools of the mode fit. If not, the registry needs `describe_tool`.
pub fn guides_fit(registry: &Registry, mode: Mode, guides_tokens_max: u64) -> bool {
    Plan::of(registry, mode, guides_tokens_max)
        .summarised
        .is_empty()
}

/// The tools with full guides, and the others.
struct Plan<'r> {
    full: Vec<&'r Tool>,
    summarised: Vec<&'r Tool>,
}

impl<'r> Plan<'r> {
    /// Plans the guides. Retrieval tools come first, because nearly every turn uses them; then every other tool that still fits.
    fn of(registry: &'r Registry, mode: Mode, guides_tokens_max: u64) -> Self {
        let mut tools: Vec<&Tool> = registry.declared(mode).map(Arc::as_ref).collect();
        tools.sort_by_key(|tool| (tool.category, tool.id.clone()));
        let mut left = guides_tokens_max;
        let (full, summarised) = tools.into_iter().partition(|tool| {
            let cost = tokens(&tool.documentation);
            let fits = cost <= left;
            if fits {
                left -= cost;
            }
            fits
        });
        Self { full, summarised }
    }
}

impl Prompt {
    pub fn new(request: &Request<'_>) -> Self {
        let mode_text = match request.mode {
            Mode::Voice => &request.texts.voice,
            Mode::Text => &request.texts.text,
        };
        Self {
            before_date: format!(
                "{}\n\n{}\n\n# Today\n\n",
                request.texts.core.trim(),
                mode_text.trim()
            ),
            after_date: tools_part(request),
        }
    }

    /// The system instruction of a session that begins now.
    pub fn at(&self, now: &Now<'_>) -> String {
        let Now { date, time, zone } = now;
        let length = self.before_date.len() + self.after_date.len() + 128;
        let mut text = String::with_capacity(length);
        text.push_str(&self.before_date);
        write!(text, "It is {date}, {time} ({zone}).\n\n").expect("a string takes every text");
        text.push_str(&self.after_date);
        text
    }
}

/// The tokens that a session takes of its model's window before anything was said. `declarations` is the text of the tools'
/// declarations as it is sent to the provider.
pub fn estimate(system_instruction: &str, declarations: &str) -> ContextEstimate {
    ContextEstimate {
        system_prompt_tokens: tokens(system_instruction),
        tool_decl_tokens: tokens(declarations),
        history_tokens: 0,
    }
}

fn tools_part(request: &Request<'_>) -> String {
    let plan = Plan::of(request.registry, request.mode, request.guides_tokens_max);
    let mut text = format!("# Available Tools (v{})\n", request.registry.version());
    if plan.full.is_empty() && plan.summarised.is_empty() {
        text.push_str("\nThere are none in this conversation.\n");
    }
    for tool in &plan.full {
        text.push('\n');
        push_guide(tool, &mut text);
    }
    if !plan.summarised.is_empty() {
        text.push_str(
            "\n## More tools\n\nOf these you see one line each. Call `describe_tool` for a tool's guide before you use \
             it for the first time; that costs nothing.\n\n",
        );
        for tool in &plan.summarised {
            writeln!(text, "- `{}`: {}", tool.id, tool.summary).expect("a string takes every text");
        }
    }
    text.push_str(&later_results(request));
    let retrieves = request
        .registry
        .declared(request.mode)
        .any(|tool| tool.category == Category::Retrieval);
    if retrieves {
        text.push('\n');
        text.push_str(&working_order(request.mode, request.retrieval_calls_max));
    }
    text
}

/// A guide under its tool's id, its own headings one level down so that they stay beneath it.
fn push_guide(tool: &Tool, text: &mut String) {
    writeln!(text, "## {}", tool.id).expect("a string takes every text");
    let mut is_fenced = false;
    let mut is_before_title = true;
    for line in tool.documentation.trim().lines() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        }
        if !is_fenced && line.starts_with('#') {
            if std::mem::take(&mut is_before_title) {
                continue;
            }
            text.push('#');
        }
        text.push_str(line);
        text.push('\n');
    }
}

/// Instructions about late results. A model that goes on while a tool runs has to be told that the tool still runs; some take an
/// interim result for the end.
fn later_results(request: &Request<'_>) -> String {
    let later: Vec<String> = request
        .registry
        .declared(request.mode)
        .filter(|tool| !request.calls.blocks(tool.behavior))
        .map(|tool| format!("`{}`", tool.id))
        .collect();
    if later.is_empty() {
        return String::new();
    }
    format!(
        "\n## Results that come later\n\nThese run while the conversation goes on: {}. Until the result of a call has come, it \
         is under way: say so if it matters, and never that it is done or that it failed. Do not call again for the same.\n",
        later.join(", ")
    )
}

fn working_order(mode: Mode, retrieval_calls_max: u32) -> String {
    let calls = match retrieval_calls_max {
        1 => "one look-up".to_owned(),
        calls => format!("{calls} look-ups"),
    };
    match mode {
        Mode::Voice => format!(
            "# How you work\n\n\
             1. Hear what is asked. Small talk and what is plain from the conversation need no tool.\n\
             2. For everything else look it up before you answer: one search, and the best record in full only where \
             its passage does not say enough. A turn has {calls}; plan for fewer.\n\
             3. Answer from what was found, shortly, and name the record. If nothing was found, say so.\n\
             4. Act, where the user asked for it, only after you know enough; then say what the result says.\n"
        ),
        Mode::Text => format!(
            "# How you work\n\n\
             1. Read what is asked, and split it where it holds several questions. What is plain from the conversation \
             needs no tool.\n\
             2. For everything else look it up before you answer: search first, read records in full where their \
             passages do not say enough, search again in other words where a part is still open. A turn has {calls}.\n\
             3. Weigh what was found, and answer from it with the records' titles. Say which part it does not answer.\n\
             4. Act, where the user asked for it, only after you know enough; then say what the result says.\n"
        ),
    }
}

#[cfg(test)]
mod tests;
