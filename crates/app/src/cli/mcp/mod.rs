//! `windlass mcp`: the tools of MCP servers as tools of this project, their changes since then, and this project's tools for MCP
//! clients.

mod difference;
mod section;
mod serve;

use super::import::{TakingUp, leave_out_what_does_not_compile, take_up};
use super::{ConfigFile, TakingArguments, expect_network, flags, load_config_to_write_tools};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::server::Handlers;
use crate::toolbox::mcp_servers;
use crate::unset;
use clap::{Args, Subcommand};
use section::{Found, Section};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use windlass_compile::handler_file::Offering;
use windlass_config::{Config, FILE_NAME, McpName, SecretName, VariableName};
use windlass_contract::id::ToolId;
use windlass_import::mcp::{Choice, McpImportError, import};
use windlass_import::mcp_resource;
use windlass_import::words::tool_id;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass mcp import npx -y @modelcontextprotocol/server-everything
  windlass mcp import --bearer DOCS_TOKEN https://mcp.example.com/mcp
  windlass mcp diff
  windlass mcp serve")]
pub(super) struct McpArguments {
    #[command(subcommand)]
    command: McpCommand,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    /// Make a tool of each tool that a server lists, and write the server into the configuration
    Import(ImportArguments),
    /// Print what servers have changed since their tools were imported; exit code 1 where there is something
    Diff(DiffArguments),
    /// Serve this project's tools to the program that starts this, over standard input and output
    Serve(serve::ServeArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass mcp import npx -y @modelcontextprotocol/server-everything
  windlass mcp import --only read_file --prefix docs npx -y @modelcontextprotocol/server-filesystem docs
  windlass mcp import --secret GITHUB_TOKEN github-mcp-server stdio
  windlass mcp import --bearer DOCS_TOKEN https://mcp.example.com/mcp

Flags stand before the server: everything from its first word on is the server's own.")]
struct ImportArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The server: its address, its command with arguments, or its name in the configuration
    #[arg(
        value_name = "SERVER",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    server: Vec<String>,
    #[command(flatten)]
    taking: TakingArguments,
    /// The prefix of each tool's id, so that it takes no other tool's id
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    prefix: Option<String>,
    /// The server's name in the configuration; without it, a name is made of its address or command
    #[arg(long, value_name = "NAME", value_parser = server_name)]
    name: Option<String>,
    /// The name of a variable of the environment that a command is given; repeatable
    #[arg(long, value_name = "VARIABLE", value_parser = variable_name)]
    env: Vec<String>,
    /// A secret that a command is given as a variable; repeatable
    #[arg(long, value_name = "SECRET", value_parser = secret_name)]
    secret: Vec<String>,
    /// The secret that an address is sent as a bearer token
    #[arg(long, value_name = "SECRET", value_parser = secret_name)]
    bearer: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass mcp diff                what all servers have changed
  windlass mcp diff files          what this one has
  windlass mcp diff --accept       take it up; the tools need a review again")]
struct DiffArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The server, by its name in the configuration; without it, all
    #[arg(value_name = "NAME")]
    server: Option<String>,
    /// Take up what has changed; the tools need a review again
    #[arg(long)]
    accept: bool,
    /// The folder of tool directories
    #[arg(long, value_name = "FOLDER")]
    tools: Option<String>,
}

fn prefix(text: &str) -> Result<String, String> {
    let fits = text.len() <= 32
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && !text.ends_with('_')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    match fits {
        true => Ok(text.to_owned()),
        false => {
            Err("write up to 32 small letters, digits and underscores, a letter first".to_owned())
        }
    }
}

fn server_name(text: &str) -> Result<String, String> {
    let name = McpName::try_from(text.to_owned()).map_err(|error| error.to_string())?;
    Ok(name.as_str().to_owned())
}

fn variable_name(text: &str) -> Result<String, String> {
    let (name, value) = text
        .split_once('=')
        .map_or((text, None), |(name, value)| (name, Some(value)));
    let known = VariableName::try_from(name.to_owned()).map_err(|_| {
        "no variable can have that name; names have letters, digits and underscores, and begin with no digit"
            .to_owned()
    })?;
    let name = known.as_str().to_owned();
    match value {
        None => Ok(name),
        // The value may be a secret.
        Some(_) => Err(format!(
            "write the name only, --env {name}; its value comes from the environment of windlass, as in {name}=… windlass mcp import …"
        )),
    }
}

fn secret_name(text: &str) -> Result<String, String> {
    let name = SecretName::try_from(text.to_owned()).map_err(|error| error.to_string())?;
    Ok(name.as_str().to_owned())
}

pub(super) fn run(arguments: &McpArguments, handlers: Handlers) -> Result<(), Failure> {
    match &arguments.command {
        McpCommand::Import(arguments) => import_server(arguments, &handlers),
        McpCommand::Diff(arguments) => difference::run(arguments),
        McpCommand::Serve(arguments) => serve::run(arguments, handlers),
    }
}

fn import_server(arguments: &ImportArguments, handlers: &Handlers) -> Result<(), Failure> {
    let taking = &arguments.taking;
    let set = flags([("--tools", "folders.tools", &taking.tools)]);
    let mut config = load_config_to_write_tools(&arguments.file, set)?;
    expect_network()?;
    let Found { name, section } = section::find(arguments, &mut config)?;
    let shown = name.as_str().to_owned();
    for unset in unset::of_server(&config, &name) {
        Printer.hint(&format!("note: {unset}"));
    }
    let failed = |cause: String| Failure::Failed(format!("{shown} cannot be imported: {cause}"));
    let offering = offering(&config, name.as_str()).map_err(failed)?;
    let built_in = |id: &str| ToolId::parse(id).is_some_and(|id| handlers.contains_key(&id));
    let resource_id = resource_id(&config.folders.tools, name.as_str(), arguments);
    let choice = Choice {
        server: name.as_str(),
        only: &taking.only,
        prefix: arguments.prefix.as_deref(),
        resource_id: &resource_id,
        built_in: &built_in,
    };
    let imported = import(&offering, &choice);
    let mut imported = imported.map_err(|error| match error {
        McpImportError::Unknown(..) => {
            Failure::Usage(format!("{shown} cannot be imported: {error}"))
        }
        error => failed(error.to_string()),
    })?;
    leave_out_what_does_not_compile(&config, &mut imported)?;
    let taking_up = TakingUp {
        source: "server",
        part: ["tool", "tools"],
        only: &taking.only,
        accept: taking.accept,
        review: "read each schema.json and guide.md; where nobody need be asked, write \"reviewed\": true into handler.json and take requiresConfirmation back",
        rename: "import under other names with --prefix, or leave it out with --only",
    };
    take_up(&config.folders.tools, &imported, &taking_up)?;
    match section {
        Some(section) => write_section(&arguments.file, &section),
        None => Ok(()),
    }
}

/// The id of the tool that reads a server's resources and prompts. It names the server where that of another one has the usual id.
fn resource_id(tools: &Path, server: &str, arguments: &ImportArguments) -> String {
    if let Some(prefix) = &arguments.prefix {
        return format!("{prefix}_{}", mcp_resource::ID);
    }
    let directory = |id: &str| tools.join(id.replace('_', "-"));
    let of_server = tool_id(&format!("{server}_{}", mcp_resource::ID));
    let is_others = || {
        let text = std::fs::read_to_string(directory(mcp_resource::ID).join("handler.json"));
        let handler = text
            .ok()
            .and_then(|text| serde_json::from_str::<Value>(&text).ok());
        handler.is_some_and(|handler| handler["server"] != server)
    };
    match directory(&of_server).exists() || is_others() {
        true => of_server,
        false => mcp_resource::ID.to_owned(),
    }
}

/// Everything that a server offers.
fn offering(config: &Config, name: &str) -> Result<Offering, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let listed = runtime.block_on(async {
        let server = mcp_servers(config).get(name)?;
        server.offering().await
    });
    // A program has that long to end by itself.
    runtime.shutdown_timeout(Duration::from_secs(3));
    listed
}

/// Writes a server's section at the end of the configuration, or prints the section to write there.
fn write_section(file: &ConfigFile, section: &Section) -> Result<(), Failure> {
    let path: PathBuf = file.config.clone().unwrap_or_else(|| FILE_NAME.into());
    match section.append(&path) {
        Ok(()) => {
            Printer.hint(&format!(
                "wrote [mcp.{}] into {}",
                section.name,
                shown(&path)
            ));
            Ok(())
        }
        Err(cause) => Err(Failure::Failed(format!(
            "the tools are written, and their server is not: {} cannot be changed: {cause}; add to it: {}",
            shown(&path),
            section.text.trim().replace('\n', "; "),
        ))),
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
