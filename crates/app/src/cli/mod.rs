//! The command line: what can be asked for, and how asking ends. Knows each command's arguments; what it does is in a file
//! of its own.

mod audit;
mod backup;
mod build;
mod call;
mod chat;
mod config;
mod import;
mod init;
mod kb;
mod keys;
mod question;
mod replay;
mod script_worker;
mod serve;
mod signals;
mod sim;

use crate::failure::Failure;
use crate::logging;
use crate::printer::Printer;
use crate::server::Handlers;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use windlass_config::{Config, Flag, Loaded, Sources};
use windlass_tool::rights::Role;

/// Tool runtime for voice and text agents
#[derive(Debug, Parser)]
#[command(name = "windlass", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a small project that serves and chats at once
    Init(InitArguments),
    /// Write a new tool
    Tool(ToolArguments),
    /// Start the server, with its page and its voice endpoint
    Serve(ServeArguments),
    /// Compile the tools and write their artifact
    Build(BuildArguments),
    /// Compile the tools and write nothing
    Check(CheckArguments),
    /// Make one tool call through the whole pipeline and print its response
    Call(CallArguments),
    /// Make tools of what there is already, such as an OpenAPI description
    Import(ImportArguments),
    /// Index, search and measure the knowledge base
    Kb(kb::KbArguments),
    /// Chat in the terminal, with a server's tools and rules
    Chat(ChatArguments),
    /// Make, list and revoke API keys
    Keys(KeysArguments),
    /// Read the audit
    Audit(AuditArguments),
    /// Write everything of the data folder to one file, also while a server uses it
    Backup(BackupArguments),
    /// Make a data folder of a backup
    Restore(RestoreArguments),
    /// Run a recorded session again and compare what comes out
    Replay(ReplayArguments),
    /// Print the effective configuration, with each value's origin
    Config(ConfigArguments),
    /// Run a simulated provider
    Sim(SimArguments),
    /// Run the calls of scripts; the program starts this itself
    #[command(hide = true)]
    ScriptWorker(ScriptWorkerArguments),
}

#[derive(Debug, Args)]
struct ConfigFile {
    /// Read this file instead of windlass.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ServeArguments {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    flags: ServeFlags,
    /// Build the tools again when they change; for development
    #[arg(long)]
    watch: bool,
}

/// Flags that stand for keys of the configuration.
#[derive(Debug, Args)]
struct ServeFlags {
    /// Where to listen, as in 127.0.0.1:8080; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The folder of tool directories
    #[arg(long, value_name = "FOLDER")]
    tools: Option<String>,
    /// The folder of the knowledge base
    #[arg(long, value_name = "FOLDER")]
    kb: Option<String>,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// The provider of voice sessions: auto, gemini-live, openai-realtime, gpt-live or demo
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Where the provider is, in place of its own address
    #[arg(long, value_name = "URL")]
    provider_url: Option<String>,
    /// The model's id
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The provider of text conversations: auto, gemini, openai or demo
    #[arg(long, value_name = "PROVIDER")]
    text_provider: Option<String>,
    /// Where that provider is, in place of its own address
    #[arg(long, value_name = "URL")]
    text_provider_url: Option<String>,
    /// The id of the model for text
    #[arg(long, value_name = "MODEL")]
    text_model: Option<String>,
    /// A host that tools may send requests to; may be given several times
    #[arg(long, value_name = "HOST[:PORT]")]
    allow_fetch: Vec<String>,
}

#[derive(Debug, Args)]
struct BuildArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The folder of tool directories
    #[arg(long, value_name = "FOLDER")]
    tools: Option<String>,
    /// The folder of the knowledge base
    #[arg(long, value_name = "FOLDER")]
    kb: Option<String>,
    /// Where the artifact goes; else tool_registry.json in the data folder
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How problems are printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Args)]
struct CheckArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The folder of tool directories
    #[arg(long, value_name = "FOLDER")]
    tools: Option<String>,
    /// The folder of the knowledge base
    #[arg(long, value_name = "FOLDER")]
    kb: Option<String>,
    /// How problems are printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Check again after each change of the folder
    #[arg(long)]
    watch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Debug, Args)]
struct CallArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The tool's id
    tool: String,
    /// Its arguments, a JSON object
    #[arg(value_name = "JSON")]
    arguments: String,
    /// The mode of the session that makes the call
    #[arg(long, value_enum, default_value_t = ModeName::Text)]
    mode: ModeName,
    /// Whose call it is
    #[arg(long, value_name = "ID", default_value = "command-line")]
    user: String,
    /// A role that the user has; may be given more than once
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// Ask on the terminal where the call needs the user's consent
    #[arg(long)]
    confirm: bool,
    /// Make the call again after each change of the tools
    #[arg(long)]
    watch: bool,
    /// The folder of tool directories
    #[arg(long, value_name = "FOLDER")]
    tools: Option<String>,
    /// The folder of the knowledge base
    #[arg(long, value_name = "FOLDER")]
    kb: Option<String>,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// A host that tools may send requests to; may be given several times
    #[arg(long, value_name = "HOST[:PORT]")]
    allow_fetch: Vec<String>,
}

#[derive(Debug, Args)]
struct InitArguments {
    /// The new project's folder
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// With a first tool in Node, in a process of its own
    #[arg(long, conflicts_with = "python")]
    node: bool,
    /// With a first tool in Python, in a process of its own
    #[arg(long)]
    python: bool,
    /// With a first tool in Rust, and a program of its own that has every command. It is built with the sources in this folder
    #[arg(long, value_name = "SOURCES", conflicts_with_all = ["node", "python"])]
    rust: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ToolArguments {
    #[command(subcommand)]
    command: ToolCommand,
}

#[derive(Debug, Subcommand)]
enum ToolCommand {
    /// Write the directory of a tool that runs
    New(NewToolArguments),
}

#[derive(Debug, Args)]
struct NewToolArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The tool's id, such as lookup_order
    name: String,
    /// What its handler is written in
    #[arg(long, value_enum, default_value_t = LanguageName::Js)]
    kind: LanguageName,
    /// The address that a tool of kind http asks
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The folder of tool directories
    #[arg(long, value_name = "FOLDER")]
    tools: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LanguageName {
    /// JavaScript, in the engine that comes with the program
    Js,
    /// TypeScript, in the same engine (builds with --features typescript)
    Ts,
    /// Node, in a process of its own
    Node,
    /// Python, in a process of its own
    Python,
    /// No code: a request over HTTP
    Http,
}

#[derive(Debug, Args)]
struct ImportArguments {
    #[command(subcommand)]
    source: ImportSource,
}

#[derive(Debug, Subcommand)]
enum ImportSource {
    /// Make a tool of each chosen operation of an OpenAPI description (3.0 or 3.1, JSON or YAML)
    Openapi(OpenapiArguments),
    /// Copy the tool directories of a Node project, and name what their handlers have to replace
    Node(NodeArguments),
}

#[derive(Debug, Args)]
struct NodeArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The project, or its folder of tools
    #[arg(value_name = "FOLDER")]
    project: PathBuf,
    /// The folder of tool directories
    #[arg(long, value_name = "FOLDER")]
    tools: Option<String>,
}

#[derive(Debug, Args)]
struct OpenapiArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The description
    #[arg(value_name = "FILE")]
    description: PathBuf,
    /// Take this operation, by its operation id or its tool's id; repeatable
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Take the operations with this tag; repeatable
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Where the service is, in place of the server that the description names
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Take up what has changed since the last import; the tools need a review again
    #[arg(long)]
    accept: bool,
    /// The folder of tool directories
    #[arg(long, value_name = "FOLDER")]
    tools: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeName {
    Voice,
    Text,
}

#[derive(Debug, Args)]
struct ChatArguments {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    flags: ServeFlags,
    /// A role that you have; may be given more than once
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// Say this, print the answer and end; without it, lines are read until there are no more
    message: Option<String>,
}

#[derive(Debug, Args)]
struct KeysArguments {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Make a key and print it, this once
    Add(AddKeyArguments),
    /// Print the keys that there are, without the keys themselves
    List(ListKeysArguments),
    /// Take a key away; sessions that began with it end within a minute
    Revoke(RevokeKeyArguments),
}

#[derive(Debug, Args)]
struct AddKeyArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// What the key is called, here and in the log
    name: String,
    /// A role of its holder; may be given more than once
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// The one user whom it speaks for; without it, its holder says for whom it speaks
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The tenant whose users it speaks for
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
struct ListKeysArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
struct RevokeKeyArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The key's name
    name: String,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
struct AuditArguments {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Name the first record that was changed, moved, cut off, put in or taken out; exit code 1 if there is one
    Verify(VerifyArguments),
    /// Print where the audit stands, signed with the server's key; keep it where the server cannot write
    Checkpoint(CheckpointArguments),
}

#[derive(Debug, Args)]
struct CheckpointArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
struct VerifyArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// Files of one audit, oldest first; else those that the configuration names
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A file with what `windlass audit checkpoint` printed; the audit must have all that it had then. May be repeated
    #[arg(long = "checkpoint", value_name = "FILE")]
    checkpoints: Vec<PathBuf>,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
struct BackupArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The new file, outside of the data folder
    #[arg(value_name = "FILE")]
    target: PathBuf,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
struct RestoreArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// What `windlass backup` has written
    #[arg(value_name = "FILE")]
    archive: PathBuf,
    /// The new folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
struct ReplayArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The session's journal
    #[arg(value_name = "FILE")]
    journal: PathBuf,
    /// Print what went in and what came out, and compare nothing
    #[arg(long)]
    print: bool,
    /// The folder of tool directories
    #[arg(long, value_name = "FOLDER")]
    tools: Option<String>,
    /// The folder of the knowledge base
    #[arg(long, value_name = "FOLDER")]
    kb: Option<String>,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
struct ConfigArguments {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    flags: ServeFlags,
}

/// What the host sets, as its configuration says.
#[derive(Debug, Args)]
struct ScriptWorkerArguments {
    #[arg(long)]
    memory_bytes: usize,
    #[arg(long)]
    compute_ms: u64,
    #[arg(long)]
    answer_bytes: usize,
    #[arg(long)]
    calls: usize,
    #[arg(long)]
    spares: usize,
}

#[derive(Debug, Args)]
struct SimArguments {
    #[command(subcommand)]
    provider: SimulatedProvider,
}

#[derive(Debug, Subcommand)]
enum SimulatedProvider {
    /// Gemini Live (WebSocket); without a script the demo model
    GeminiLive(SimulatorArguments),
    /// OpenAI Realtime (WebSocket)
    OpenaiRealtime(SimulatorArguments),
    /// Gemini's generateContent and streamGenerateContent (HTTP)
    Gemini(SimulatorArguments),
    /// OpenAI's Chat Completions (HTTP)
    Openai(SimulatorArguments),
}

#[derive(Debug, Args)]
struct SimulatorArguments {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: std::net::SocketAddr,
    /// What the provider says and does, as YAML
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
}

/// Does what the command line asks for, with these handlers of tools: [`windlass_handlers::builtin()`], and a program's own. Exit code 0: done; 1: failed, with one line on standard error; 2: asked wrongly.
pub fn main(handlers: Handlers) -> ExitCode {
    logging::catch_panics();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    let outcome = match cli.command {
        Command::Init(arguments) => init::run(&arguments),
        Command::Tool(arguments) => init::tool(&arguments),
        Command::Serve(arguments) => serve::run(&arguments, handlers),
        Command::Build(arguments) => build::run(&arguments, &handlers),
        Command::Check(arguments) => build::check(&arguments, &handlers),
        Command::Call(arguments) => call::run(&arguments, &handlers),
        Command::Chat(arguments) => chat::run(&arguments, handlers),
        Command::Import(arguments) => import::run(&arguments),
        Command::Kb(arguments) => kb::run(&arguments),
        Command::Keys(arguments) => keys::run(&arguments),
        Command::Audit(arguments) => audit::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => backup::restore(&arguments),
        Command::Replay(arguments) => replay::run(&arguments, handlers),
        Command::Config(arguments) => config::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::ScriptWorker(arguments) => script_worker::run(&arguments),
    };
    end(match outcome {
        // What was said is worth nothing where it could not be read.
        Ok(()) | Err(Failure::Said) => Printer.all_written().and(outcome),
        Err(Failure::Failed(_) | Failure::Usage(_)) => outcome,
    })
}

/// Help and version come this way too, also the help in place of a command. What is wrong is one line, as everywhere.
fn misunderstood(error: &clap::Error) -> ExitCode {
    let code = error.exit_code();
    if code == 0 || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        Printer.heed(error.print());
        return match code {
            0 => end(Printer.all_written()),
            _ => ExitCode::from(2),
        };
    }
    let mut said = String::new();
    for line in error.render().to_string().lines().map(str::trim) {
        let line = line.strip_prefix("error: ").unwrap_or(line);
        let line = line.strip_prefix("tip: ").unwrap_or(line);
        let (joint, line) = match (said.as_str(), line) {
            (_, "") => continue,
            ("", line) => ("", line),
            (_, "For more information, try '--help'.") => ("; ", "--help lists what there is"),
            (said, line) if said.ends_with(':') || line.starts_with('[') => (" ", line),
            (said, line) if said.ends_with('>') && line.starts_with(['<', '-']) => (", ", line),
            (_, line) => ("; ", line),
        };
        said.push_str(joint);
        said.push_str(line);
    }
    end(Err(Failure::Usage(said)))
}

fn end(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(line) = failure.line() {
                Printer.problem(&format!("windlass: {line}"));
            }
            failure.code()
        }
    }
}

/// Reads the configuration and sets up the log as it says.
fn load(file: &ConfigFile, flags: Vec<Flag>) -> Result<Loaded, Failure> {
    let working_directory = std::env::current_dir().map_err(|error| {
        Failure::Failed(format!("the working directory cannot be told: {error}"))
    })?;
    let loaded = Loaded::load(&Sources {
        file: file.config.clone(),
        working_directory,
        environment: std::env::vars_os().collect(),
        flags,
    })
    .map_err(|error| {
        for problem in &error.problems {
            Printer.problem(&format!("windlass: {problem}"));
        }
        Failure::Said
    })?;
    logging::set_up(&loaded.config.log);
    for name in &loaded.ignored_variables {
        tracing::warn!(name, "an environment variable means nothing here");
    }
    Ok(loaded)
}

fn load_config(file: &ConfigFile, flags: Vec<Flag>) -> Result<Config, Failure> {
    load(file, flags).map(|loaded| loaded.config)
}

/// The roles of these names.
fn roles(names: &[String]) -> Result<Vec<Role>, Failure> {
    let role = |name: &String| {
        Role::parse(name).ok_or_else(|| {
            Failure::Usage(format!(
                "{name:?} cannot be a role: write 1 to 64 letters, digits and marks out of . _ : / -"
            ))
        })
    };
    names.iter().map(role).collect()
}

/// The keys that flags set.
fn flags<const N: usize>(flags: [(&'static str, &'static str, &Option<String>); N]) -> Vec<Flag> {
    flags
        .into_iter()
        .filter_map(|(name, key, value)| {
            let value = value.clone()?;
            Some(Flag { name, key, value })
        })
        .collect()
}

/// What a flag was given several times, as the list that its key is.
fn together(values: &[String]) -> Option<String> {
    (!values.is_empty()).then(|| values.join(","))
}

impl ServeFlags {
    fn keys(&self) -> Vec<Flag> {
        flags([
            ("--listen", "server.listen", &self.listen),
            ("--tools", "folders.tools", &self.tools),
            ("--kb", "folders.knowledge", &self.kb),
            ("--data", "folders.data", &self.data),
            ("--provider", "provider.kind", &self.provider),
            ("--provider-url", "provider.url", &self.provider_url),
            ("--model", "provider.model", &self.model),
            ("--text-provider", "text.provider", &self.text_provider),
            ("--text-provider-url", "text.url", &self.text_provider_url),
            ("--text-model", "text.model", &self.text_model),
            (
                "--allow-fetch",
                "handlers.allow_fetch",
                &together(&self.allow_fetch),
            ),
        ])
    }
}
