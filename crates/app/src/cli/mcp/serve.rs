//! `windlass mcp serve`: this project's tools for the program that starts it, over standard input and output.

use super::super::signals::Terminate;
use super::super::{ConfigFile, flags, load_config, roles};
use crate::access::is_user_name;
use crate::failure::Failure;
use crate::mcp::{Peer, stdio};
use crate::server::{self, Handlers, Setup};
use clap::Args;
use windlass_contract::id::ClientId;
use windlass_contract::rights::Rights;
use windlass_runtime::caller::{Caller, is_proven_id};
use windlass_store::Beginner;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass mcp serve                             the tools of this folder
  windlass mcp serve --config shop/windlass.toml --user user:ada --role staff

A program that speaks MCP starts it. While it runs, nothing else may use its data folder.")]
pub(super) struct ServeArguments {
    #[command(flatten)]
    file: ConfigFile,
    /// Whose calls they are
    #[arg(long, value_name = "ID", default_value = "mcp-local")]
    user: String,
    /// A role that the user has; may be given more than once
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
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

pub(super) fn run(arguments: &ServeArguments, handlers: Handlers) -> Result<(), Failure> {
    // The part before a slash would be read as the client that named the user.
    if !is_user_name(&arguments.user) || arguments.user.contains('/') {
        let problem = "--user has to be a printable id without a slash";
        return Err(Failure::Usage(problem.to_owned()));
    }
    // Checked before anything is opened.
    let caller = caller(arguments)?;
    let anywhere = Some("127.0.0.1:0".to_owned());
    let keys = flags([
        ("--tools", "folders.tools", &arguments.tools),
        ("--kb", "folders.knowledge", &arguments.kb),
        ("--data", "folders.data", &arguments.data),
        // The page on which people approve calls is there, at a port of its own.
        ("windlass mcp serve", "server.listen", &anywhere),
    ]);
    let setup = Setup {
        config: load_config(&arguments.file, keys.into_iter().collect())?,
        handlers,
        watch: false,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)?;
    let outcome = runtime.block_on(serve(setup, caller));
    // The thread that reads may wait for a line that never comes.
    runtime.shutdown_background();
    outcome
}

fn caller(arguments: &ServeArguments) -> Result<Caller, Failure> {
    let named = roles(&arguments.role)?;
    let caller = Caller::known(ClientId::new(arguments.user.as_str()));
    let is_signed_in = !named.is_empty() || is_proven_id(&arguments.user);
    Ok(match is_signed_in {
        true => Caller {
            rights: Rights::signed_in(named),
            ..caller
        },
        false => caller,
    })
}

async fn serve(setup: Setup, caller: Caller) -> Result<(), Failure> {
    let mut terminate = Terminate::new()?;
    let server = server::start(setup).await?;
    let host = server.mcp().clone();
    host.is_started_by(&caller);
    let lines = stdio::input(host.message_bytes_max).map_err(Failure::of)?;
    let (outlet, written) = stdio::output().map_err(Failure::of)?;
    let peer = Peer {
        page: server
            .approves(&caller)
            .then(|| format!("http://{}", server.address())),
        caller,
        beginner: Beginner::default(),
    };
    stdio::serve(host, peer, lines, outlet, terminate.next()).await;
    tokio::select! {
        () = server.shut_down() => {}
        () = terminate.next() => {
            return Err(Failure::Failed("ended before all changes had".to_owned()));
        }
    }
    // An error says that the thread has ended.
    let _ = tokio::time::timeout(stdio::LAST_WORDS, written).await;
    Ok(())
}
