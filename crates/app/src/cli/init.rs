//! `windlass init` and `windlass tool new`: write files for a beginning, and never over any.

use super::{InitArguments, LanguageName, NewToolArguments, ToolArguments, ToolCommand};
use super::{flags, load_config};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::project::{self, File, Language};
use std::path::Path;
use windlass_tool::id::ToolId;

pub(super) fn run(arguments: &InitArguments) -> Result<(), Failure> {
    let language = match (arguments.node, arguments.python, &arguments.rust) {
        (true, _, _) => Language::Node,
        (_, true, _) => Language::Python,
        (_, _, Some(sources)) => rust_of(sources)?,
        (false, false, None) => Language::JavaScript,
    };
    let folder = &arguments.folder;
    write_all(folder, &project::new_project(&language))?;
    let start = match language {
        Language::Rust { .. } => "cargo run --release -- serve",
        _ => "windlass serve",
    };
    let shown = folder.display().to_string();
    let enter = match shown.as_str() {
        "." => String::new(),
        shown => format!("cd {shown} && "),
    };
    Printer.result(&format!(
        "a project with the tool say_hello is in {shown}; start it: {enter}{start}"
    ));
    Ok(())
}

/// Where the libraries of a program in Rust are, and the versions of all that they are made of.
fn rust_of(sources: &Path) -> Result<Language, Failure> {
    let unfit = |problem: String| {
        let shown = sources.display();
        Failure::Failed(format!(
            "{shown} is no folder of Windlass's sources: {problem}; name the one that this program was built from with --rust"
        ))
    };
    let sources = std::path::absolute(sources).map_err(|error| unfit(error.to_string()))?;
    for library in ["app", "handlers", "tool"] {
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
    }
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
    let config = load_config(&arguments.file, flags)?;
    let tools = &*config.folders.tools;
    let files = project::new_tool(id.as_str(), &language);
    let directory = tools.join(id.as_str().replace('_', "-"));
    if directory.exists() {
        return Err(Failure::Failed(format!(
            "{} is there already; choose another name",
            directory.display()
        )));
    }
    write_all(tools, &files)?;
    Printer.result(&format!(
        "{} is written; try it: windlass call {id} '{{\"query\": \"A-1001\"}}'",
        directory.display()
    ));
    if language == Language::TypeScript && !cfg!(feature = "typescript") {
        Printer.problem(
            "note: this program was built without TypeScript; build it with --features typescript",
        );
    }
    if language.needs_process() && !config.handlers.processes {
        Printer.problem("note: it runs once windlass.toml says [handlers] processes = true");
    }
    Ok(())
}

fn language(arguments: &NewToolArguments) -> Result<Language, Failure> {
    match (arguments.kind, &arguments.url) {
        (LanguageName::Http, Some(url)) => Ok(Language::Http { url: url.clone() }),
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

/// Writes all files or none: one that is there already stays, and is named.
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
