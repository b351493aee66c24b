//! The command line: its commands, their arguments and their exit codes. The work of each command is in a file of its own.

mod audit;
mod backup;
mod build;
mod call;
mod chat;
mod compare;
mod completions;
mod config;
mod connections;
mod doctor;
mod healthcheck;
mod import;
mod init;
mod kb;
mod keys;
mod line_editor;
mod mcp;
mod question;
mod replay;
mod schema;
mod script_worker;
mod serve;
mod signals;
mod sim;
mod tools;

use crate::access::is_user_name;
use crate::clock;
use crate::failure::Failure;
use crate::logging;
use crate::printer::{Colors, Format, Loudness, Manner, Printer};
use crate::project::Extra;
use crate::server::Handlers;
use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use windlass_config::{Config, Environment, Flag, Loaded, LogLevel, Sources};
use windlass_contract::id::ToolId;
use windlass_contract::rights::Role;
use windlass_runtime::transport::network::{Network, NetworkSettings};

/// The name of the program, where it does not say its own.
const PROGRAM: &str = "windlass";

/// Tool runtime for voice and text agents
#[derive(Debug, Parser)]
#[command(
    name = PROGRAM,
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  windlass init shop            a project to begin with
  windlass serve --watch        its page, voice and chat; a saved tool counts at once
  windlass check                every mistake in the tools, with its place and cure
  windlass chat                 talk to it here

Each command has examples of its own: windlass help COMMAND"
)]
struct Cli {
    #[command(flatten)]
    manner: MannerFlags,
    #[command(subcommand)]
    command: Command,
}

/// How much is said, and in which form; the same for every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct MannerFlags {
    /// Print results and what is wrong, and nothing else
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Say more; twice for everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// How results are printed
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    format: Format,
    /// When colours are used; with auto on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Colors::Auto)]
    color: Colors,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a small project that serves and chats at once
    Init(InitArguments),
    /// Write a new tool, or the files of built-in ones
    Tool(ToolArguments),
    /// List the tools that are on and the built-in ones that are off, with what each needs
    Tools(ToolsArguments),
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
    /// Import the tools of MCP servers, see what has changed in them, and serve your own
    Mcp(mcp::McpArguments),
    /// Index, search and measure the knowledge base
    Kb(kb::KbArguments),
    /// Chat in the terminal, with a server's tools and rules
    Chat(ChatArguments),
    /// Make, list and revoke API keys
    Keys(KeysArguments),
    /// List and end the connections of users to outside services
    Connections(ConnectionsArguments),
    /// List what tools have done, and verify that the audit is whole
    Audit(AuditArguments),
    /// Write everything of the data folder to one file, also while a server uses it
    Backup(BackupArguments),
    /// Make a data folder of a backup
    Restore(RestoreArguments),
    /// Ask a running server whether it takes sessions; exit code 0 where it does
    Healthcheck(HealthcheckArguments),
    /// Run a recorded session again and compare what comes out
    Replay(ReplayArguments),
    /// Print the effective configuration, with each value's origin
    Config(ConfigArguments),
    /// Find out what is wrong with keys, machine and project, and say what to do
    Doctor(DoctorArguments),
    /// Run a simulated provider
    Sim(SimArguments),
    /// Print the JSON Schema of a file that you write, for your editor
    Schema(SchemaArguments),
    /// Print the completions of a shell
    Completions(CompletionsArguments),
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
#[command(after_help = "Examples:
  windlass serve                      the project of this folder, at http://127.0.0.1:8080
  windlass serve --watch              while you write tools: what you save counts at once
  windlass serve --port 3000          at another port; PORT=3000 says the same
  windlass serve --listen 0.0.0.0:80  for other machines, once somebody has to sign in")]
struct ServeArguments {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    place: ListenFlags,
    #[command(flatten)]
    flags: ServeFlags,
    /// Build the tools again when they change; for development
    #[arg(long)]
    watch: bool,
    /// Where the data folder has no API key yet, make one and print a link that signs in with it
    #[arg(long)]
    first_key: bool,
}

/// The address at which a server listens.
#[derive(Debug, Args)]
struct ListenFlags {
    /// Where to listen, as in 127.0.0.1:8080; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", conflicts_with = "port")]
    listen: Option<String>,
    /// The port to listen at, on the address that is configured; else the one in PORT
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
}

/// Flags that stand for keys of the configuration.
#[derive(Debug, Args)]
struct ServeFlags {
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
#[command(after_help = "Examples:
  windlass build                        data/tool_registry.json, as a server reads it
  windlass build --out registry.json    somewhere else")]
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
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass check                  every problem of every tool
  windlass check --watch          again after each change
  windlass check -v               with notes about which there is nothing to do
  windlass check --format json    for a program")]
struct CheckArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The folder of tool directories
    #[arg(long, value_name = "FOLDER")]
    tools: Option<String>,
    /// The folder of the knowledge base
    #[arg(long, value_name = "FOLDER")]
    kb: Option<String>,
    /// Check again after each change of the folder
    #[arg(long)]
    watch: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass call say_hello '{\"query\": \"Ada\"}'
  windlass call book_table '{\"guests\": 4, \"at\": \"20:00\"}' --confirm    ask first, as it needs consent
  windlass call say_hello '{\"query\": \"Ada\"}' --watch                  again after each change of the tools")]
struct CallArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The tool's id
    #[arg(value_name = "TOOL")]
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
#[command(after_help = "Examples:
  windlass init shop              a project in the folder shop, with a first tool in JavaScript
  windlass init shop --python     the first tool in Python, in a process of its own
  windlass init desk --with calendar,contacts    with tools that not every project needs")]
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
    /// With built-in tools that not every project needs
    #[arg(long, value_name = "TOOLS", value_enum, value_delimiter = ',')]
    with: Vec<Extra>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass tool new lookup_order      one of your own
  windlass tool add calendar,images   built-in ones that this project has not")]
struct ToolArguments {
    #[command(subcommand)]
    command: ToolCommand,
}

#[derive(Debug, Subcommand)]
enum ToolCommand {
    /// Write the directory of a tool that runs
    New(NewToolArguments),
    /// Write the directories of built-in tools that the project has not
    Add(AddToolsArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass tool add calendar          the five tools of the calendar
  windlass tool add context,memory    what not every project needs; windlass tools lists it")]
struct AddToolsArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// Which ones
    #[arg(
        value_name = "TOOLS",
        value_enum,
        value_delimiter = ',',
        required = true
    )]
    names: Vec<Extra>,
    /// The folder of tool directories
    #[arg(long, value_name = "FOLDER")]
    tools: Option<String>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  windlass tools                       what the agent can do, and what else it could
  windlass tools --format json         for a program
  windlass tools compare book_table    how the versions of a tool do")]
struct ToolsArguments {
    #[command(subcommand)]
    command: Option<ToolsCommand>,
    #[command(flatten)]
    file: ConfigFile,
    /// The folder of tool directories
    #[arg(long, value_name = "FOLDER")]
    tools: Option<String>,
    /// The folder of the knowledge base
    #[arg(long, value_name = "FOLDER")]
    kb: Option<String>,
}

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    /// Ask a running server how the versions of a tool do, side by side
    Compare(CompareArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass tools compare book_table                      what the server of this machine has counted since its start
  windlass tools compare book_table --key-file key.txt   where callers have to sign in
  curl -s https://agent.example/api/tools/stats?by=version | windlass tools compare book_table --from -")]
struct CompareArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The tool's id
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    place: ListenFlags,
    /// A file that holds an API key, where callers have to sign in
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Read this answer of GET /api/tools/stats?by=version in place of asking; - is the standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "port", "key_file"])]
    from: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass tool new lookup_order                   in JavaScript
  windlass tool new cancel_order --writes          one that changes something, so that the user is asked
  windlass tool new lookup_order --kind python     in a process of its own
  windlass tool new get_order --kind http --url 'https://shop.example/orders/{id}'    a request, without code")]
struct NewToolArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The tool's id, such as lookup_order
    #[arg(value_name = "NAME")]
    name: String,
    /// The form of its handler
    #[arg(long, value_enum, default_value_t = LanguageName::Js)]
    kind: LanguageName,
    /// The address that a tool of kind http asks; {name} in it makes an argument of that name
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A tool that changes something: the user is asked before it runs, and it runs once
    #[arg(long)]
    writes: bool,
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
#[command(after_help = "Examples:
  windlass import openapi openapi.json --tag orders
  windlass import tools tools.json
  windlass import node ../old-agent")]
struct ImportArguments {
    #[command(subcommand)]
    source: ImportSource,
}

#[derive(Debug, Subcommand)]
enum ImportSource {
    /// Make a tool of each chosen operation of an OpenAPI description (3.0 or 3.1, JSON or YAML)
    Openapi(OpenapiArguments),
    /// Make a tool of each definition in a JSON list: of MCP's tools/list, of OpenAI's functions, or of the AI SDK
    Tools(ListArguments),
    /// Copy the tool directories of a Node project, and name what their handlers have to replace
    Node(NodeArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass import tools tools.json                       a tool for each definition
  windlass import tools tools.json --only get_weather    this one alone")]
struct ListArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The list
    #[arg(value_name = "FILE")]
    list: PathBuf,
    #[command(flatten)]
    taking: TakingArguments,
}

/// Which of the tools that a source lists are taken up, and where.
#[derive(Debug, Args)]
struct TakingArguments {
    /// Take this tool, by its name there or its id here; repeatable
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    only: Vec<String>,
    /// Take up what has changed since the last import; the tools need a review again
    #[arg(long)]
    accept: bool,
    /// The folder of tool directories
    #[arg(long, value_name = "FOLDER")]
    tools: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass import node ../old-agent")]
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
#[command(after_help = "Examples:
  windlass import openapi openapi.json                       a tool for each operation
  windlass import openapi openapi.json --only getOrder       this one alone
  windlass import openapi openapi.json --accept              take up what has changed since")]
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
#[command(after_help = "Examples:
  windlass chat                             line by line; /help lists what else you can type
  windlass chat 'Who designed the Fram?'    one answer
  echo 'Hello.' | windlass chat             the lines of another program")]
struct ChatArguments {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    flags: ServeFlags,
    /// A role that you have; may be given more than once
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// Say this, print the answer and end; without it, lines are read until there are no more
    #[arg(value_name = "MESSAGE")]
    message: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass keys add shop --role staff
  windlass keys list
  windlass keys revoke shop")]
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
#[command(after_help = "Examples:
  windlass keys add shop                    its holder says for whom it speaks
  windlass keys add ada --user ada --role staff")]
struct AddKeyArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The key's name, here and in the log
    #[arg(value_name = "NAME")]
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
#[command(after_help = "Examples:
  windlass keys list
  windlass keys list --format json")]
struct ListKeysArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass keys revoke shop")]
struct RevokeKeyArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The key's name
    #[arg(value_name = "NAME")]
    name: String,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass connections list
  windlass connections revoke shop --user user:ada")]
struct ConnectionsArguments {
    #[command(subcommand)]
    command: ConnectionsCommand,
}

#[derive(Debug, Subcommand)]
enum ConnectionsCommand {
    /// Print which users have connected what, without tokens
    List(ListConnectionsArguments),
    /// End a user's connection, and have the service take its tokens back
    Revoke(RevokeConnectionArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass connections list
  windlass connections list --format json")]
struct ListConnectionsArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass connections revoke shop --user user:ada
  windlass connections revoke shop --user user@acme:ada --tenant acme")]
struct RevokeConnectionArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The connection's name in the configuration
    #[arg(value_name = "NAME")]
    name: String,
    /// The user, as the list has it
    #[arg(long, value_name = "USER")]
    user: String,
    /// The user's tenant, where there are several
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass audit list --since 1h
  windlass audit verify")]
struct AuditArguments {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Print what was done, a call a line, the oldest first
    List(ListAuditArguments),
    /// Name the first record that was changed, moved, cut off, put in or taken out; exit code 1 if there is one
    Verify(VerifyArguments),
    /// Print where the audit stands, signed with the server's key; keep it where the server cannot write
    Checkpoint(CheckpointArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass audit list --since 1h                     what was done in the last hour
  windlass audit list --tool book_table --user ada
  windlass audit list --since 2026-11-27 --format json")]
struct ListAuditArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// Only calls of this tool
    #[arg(long, value_name = "ID", value_parser = tool_id)]
    tool: Option<String>,
    /// Only what was done for this user
    #[arg(long, value_name = "ID", value_parser = user_id)]
    user: Option<String>,
    /// Only what was done from then on: 90m, 2h, 7d, 2026-11-27 or 2026-11-27T18:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = clock::unix_ms_since)]
    since: Option<u64>,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

fn tool_id(text: &str) -> Result<String, String> {
    match ToolId::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(
            "no tool can have that id: it has small letters, digits and _, a letter first"
                .to_owned(),
        ),
    }
}

fn user_id(text: &str) -> Result<String, String> {
    match is_user_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a user's id has 1 to 128 printable characters".to_owned()),
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass schema tool > tool.schema.json        then, in schema.json: \"$schema\": \"../../tool.schema.json\"
  windlass schema handler > handler.schema.json
  windlass schema config > windlass.schema.json")]
struct SchemaArguments {
    /// The file that the schema is for
    #[arg(value_enum)]
    name: SchemaName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SchemaName {
    /// schema.json of a tool
    Tool,
    /// handler.json of a tool
    Handler,
    /// windlass.toml
    Config,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass completions bash > /etc/bash_completion.d/windlass
  windlass completions zsh > ~/.zfunc/_windlass
  windlass completions fish > ~/.config/fish/completions/windlass.fish")]
struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass audit checkpoint > noted.json")]
struct CheckpointArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass audit verify                              the audit that the configuration names
  windlass audit verify old.jsonl audit.jsonl        these files, oldest first
  windlass audit verify --checkpoint noted.json      has it all that it had then?")]
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
#[command(after_help = "Examples:
  windlass backup /backups/monday.zip")]
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
#[command(after_help = "Examples:
  windlass restore /backups/monday.zip --data new-data")]
struct RestoreArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The file that `windlass backup` has written
    #[arg(value_name = "FILE")]
    archive: PathBuf,
    /// The new folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass healthcheck                            the server that the configuration names
  windlass healthcheck --listen 127.0.0.1:8080    exit code 0 if the server there is ready")]
struct HealthcheckArguments {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    place: ListenFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass replay data/journal/SESSION.journal.jsonl            run it again and compare
  windlass replay data/journal/SESSION.journal.jsonl --print    its timeline")]
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
#[command(after_help = "Examples:
  windlass config                      every key with its value, and where that comes from
  windlass config | grep -v default    those that somebody has set
  windlass config --format json        the same for a program")]
struct ConfigArguments {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    place: ListenFlags,
    #[command(flatten)]
    flags: ServeFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass doctor                  each thing that was looked at, and what to do where it is wrong
  windlass doctor --timeout 60     for services that are slow to answer")]
struct DoctorArguments {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    place: ListenFlags,
    #[command(flatten)]
    flags: ServeFlags,
    /// Seconds that a service may take for its answer
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=300))]
    timeout: u64,
}

/// Limits that the host sets from its configuration.
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
#[command(after_help = "Examples:
  windlass sim gemini-live
  windlass sim openai --script shop.yaml")]
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
#[command(after_help = "Examples:
  windlass sim gemini-live                           the demo model, at a free port
  windlass sim openai --listen 127.0.0.1:9100        at this one
  windlass sim gemini --script shop.yaml             what you have written down")]
struct SimulatorArguments {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: std::net::SocketAddr,
    /// The provider's words and actions, as YAML
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
}

/// Carries out the command line, with these handlers of tools: [`windlass_handlers::builtin()`], and a program's own. Exit code 0:
/// done; 1: failed, with one line on standard error; 2: wrong arguments.
pub fn main(handlers: Handlers) -> ExitCode {
    logging::catch_panics();
    let cli = match parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    if let Err(failure) = cli.manner.take_effect() {
        return end(Err(failure));
    }
    let outcome = match cli.command {
        Command::Init(arguments) => init::run(&arguments),
        Command::Tool(arguments) => init::tool(&arguments),
        Command::Tools(ToolsArguments {
            command: Some(ToolsCommand::Compare(arguments)),
            ..
        }) => compare::run(&arguments),
        Command::Tools(arguments) => tools::run(&arguments, &handlers),
        Command::Serve(arguments) => serve::run(&arguments, handlers),
        Command::Build(arguments) => build::run(&arguments, &handlers),
        Command::Check(arguments) => build::check(&arguments, &handlers),
        Command::Call(arguments) => call::run(&arguments, &handlers),
        Command::Chat(arguments) => chat::run(&arguments, handlers),
        Command::Import(arguments) => import::run(&arguments, &handlers),
        Command::Mcp(arguments) => mcp::run(&arguments, handlers),
        Command::Kb(arguments) => kb::run(&arguments),
        Command::Keys(arguments) => keys::run(&arguments),
        Command::Connections(arguments) => connections::run(&arguments),
        Command::Audit(arguments) => audit::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => backup::restore(&arguments),
        Command::Healthcheck(arguments) => healthcheck::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments, handlers),
        Command::Config(arguments) => config::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments, &handlers),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::ScriptWorker(arguments) => script_worker::run(&arguments),
    };
    end(match outcome {
        // A command whose output could not be written has failed.
        Ok(()) | Err(Failure::Said) => Printer.all_written().and(outcome),
        Err(Failure::Failed(_) | Failure::Usage(_) | Failure::SaidMisuse) => outcome,
    })
}

/// Help has its colours, too, so that they are asked for before anything else.
fn parse(arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    let words = arguments.iter().map(|argument| argument.to_string_lossy());
    let words: Vec<_> = words.take_while(|word| word != "--").collect();
    let named = words.iter().enumerate().rev().find_map(|(index, word)| {
        let behind = || words.get(index + 1).map(|word| word.to_string());
        let joined = word.strip_prefix("--color=").map(str::to_owned);
        joined.or_else(|| behind().filter(|_| word == "--color"))
    });
    let color = match named.as_deref() {
        Some("always") => clap::ColorChoice::Always,
        Some("never") => clap::ColorChoice::Never,
        // Clap judges the word in a moment.
        Some(_) | None => clap::ColorChoice::Auto,
    };
    let matches = Cli::command()
        .color(color)
        .try_get_matches_from(arguments)?;
    Cli::from_arg_matches(&matches)
}

impl MannerFlags {
    fn take_effect(&self) -> Result<(), Failure> {
        let loudness = match (self.quiet, self.verbose) {
            (true, 0) => Loudness::Quiet,
            (true, _) => {
                return Err(Failure::Usage(
                    "--quiet and --verbose contradict each other; leave one of them out".to_owned(),
                ));
            }
            (false, 0) => Loudness::Usual,
            (false, 1) => Loudness::Verbose,
            (false, _) => Loudness::Full,
        };
        Printer.set_up(Manner {
            format: self.format,
            colors: self.color,
            loudness,
        });
        Ok(())
    }
}

/// Prints clap's help, version or error; help in place of a command comes here, too. An error takes one line, as everywhere.
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

/// Reads the configuration and sets up the log as it says; `usual` is the level if none is set.
fn load(file: &ConfigFile, mut flags: Vec<Flag>, usual: LogLevel) -> Result<Loaded, Failure> {
    let working_directory = std::env::current_dir().map_err(|error| {
        Failure::Failed(format!("the working directory cannot be told: {error}"))
    })?;
    let level = match Printer.manner().loudness {
        Loudness::Quiet => Some(("-q", "error")),
        Loudness::Usual => None,
        Loudness::Verbose => Some(("-v", "debug")),
        Loudness::Full => Some(("-vv", "trace")),
    };
    // A level on the command line wins over the command's usual one.
    flags.extend(level.map(|(name, level)| Flag {
        name,
        key: "log.level",
        value: level.to_owned(),
    }));
    let environment: Environment = std::env::vars_os().collect();
    let mut loaded = Loaded::load(&Sources {
        file: file.config.clone(),
        working_directory,
        environment: environment.clone(),
        flags,
    })
    .map_err(|error| {
        for problem in &error.problems {
            Printer.problem(&format!("windlass: {problem}"));
        }
        match error.is_of_flags {
            true => Failure::SaidMisuse,
            false => Failure::Said,
        }
    })?;
    if loaded.is_default("log.level") {
        loaded.config.log.level = usual;
    }
    logging::set_up(&loaded.config.log, Printer.has_colors());
    let mut settings = NetworkSettings::of_variables(&environment);
    settings.ca_file = loaded.config.tls.ca_file.as_deref().map(Into::into);
    Network::set_up(settings);
    for name in &loaded.ignored_variables {
        tracing::warn!(name, "an environment variable means nothing here");
    }
    Ok(loaded)
}

/// Refuses to begin a command that reaches services while the network settings of the process are wrong.
fn expect_network() -> Result<(), Failure> {
    Network::of_process().map(|_| ()).map_err(Failure::of)
}

/// The configuration of a command that ends by itself, whose log has only problems. Folders that flags name must exist.
fn load_config(file: &ConfigFile, flags: Vec<Flag>) -> Result<Config, Failure> {
    expect_folders(&flags)?;
    load(file, flags, LogLevel::Warn).map(|loaded| loaded.config)
}

/// The same for a command that makes the folder of tools.
fn load_config_to_write_tools(file: &ConfigFile, flags: Vec<Flag>) -> Result<Config, Failure> {
    load(file, flags, LogLevel::Warn).map(|loaded| loaded.config)
}

/// Refuses a flag that names a missing folder.
fn expect_folders(flags: &[Flag]) -> Result<(), Failure> {
    for Flag { name, key, value } in flags {
        let path = Path::new(value);
        let what = match *key {
            "folders.tools" => "tools",
            "folders.knowledge" => "knowledge base",
            "folders.data" if path.exists() => "data",
            _ => continue,
        };
        if !path.is_dir() {
            let what = match path.exists() {
                true => format!("{name} names {value}, which is no folder: name another"),
                false => format!(
                    "there is no {what} folder {value}: create it, or name another with {name}"
                ),
            };
            return Err(Failure::Usage(what));
        }
    }
    Ok(())
}

/// Refuses the name of a missing file. `cure` says which file to name.
fn expect_file(path: &Path, cure: &str) -> Result<(), Failure> {
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(Failure::Usage(format!("{shown} is a folder; {cure}"))),
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::Usage(format!(
            "{shown} cannot be read: {error}; {cure}"
        ))),
    }
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

/// The values of a repeated flag, as the list that its key takes.
fn together(values: &[String]) -> Option<String> {
    (!values.is_empty()).then(|| values.join(","))
}

impl ListenFlags {
    fn keys(&self) -> Vec<Flag> {
        flags([
            ("--listen", "server.listen", &self.listen),
            ("--port", "server.port", &self.port),
        ])
    }
}

impl ServeFlags {
    /// Refuses flags that make no sense together.
    fn check(&self) -> Result<(), Failure> {
        if self.provider.as_deref() == Some("demo") && self.provider_url.is_some() {
            return Err(Failure::Usage(
                "the demo model runs inside this process and has no address: leave --provider-url out, or name another \
                 --provider"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn keys(&self) -> Vec<Flag> {
        flags([
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
