//! MCP servers whose tools are imported: connections to them, the definitions that they list, and calls of their tools. The one place
//! that speaks the Model Context Protocol, in its revisions 2026-07-28 and 2025-11-25. Owns connections and processes; knows
//! neither sessions nor the ledger, and nothing above a [`Handler`] knows that there is a server.
//!
//! [`Handler`]: windlass_contract::handler::Handler

mod call;
mod changed;
mod exchange;
mod headers;
mod http;
mod input;
mod link;
mod listing;
mod message;
mod opening;
mod process;
mod resources;
mod result;
mod server;
mod users;

use crate::fetch::{FetchLimits, Resolver};
pub use server::McpServer;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use windlass_compile::handler_file::BoundSecret;
use windlass_contract::sensitive::Sensitive;

/// Where a server is, and how much it may take.
#[derive(Clone, Debug)]
pub struct McpSettings {
    pub place: McpPlace,
    pub limits: McpLimits,
}

#[derive(Clone, Debug)]
pub enum McpPlace {
    Address(McpAddress),
    Program(McpProgram),
}

/// A server over streamable HTTP.
#[derive(Clone, Debug)]
pub struct McpAddress {
    pub url: String,
    /// The name of the secret that is sent as `Authorization: Bearer`.
    pub bearer: Option<String>,
    /// The name of the connection whose access token, that of the call's own user, is sent so in its place.
    pub connection: Option<String>,
    /// Headers, and the names of the secrets in them.
    pub headers: BTreeMap<String, String>,
    pub fetch: FetchLimits,
}

/// A server that is a program, over its standard input and output.
#[derive(Clone, Debug)]
pub struct McpProgram {
    /// The program and its arguments.
    pub command: Vec<String>,
    pub folder: Option<PathBuf>,
    /// Variables of ours that it is given besides the usual ones.
    pub variables: Vec<String>,
    /// The names of secrets that it is given as variables of these names.
    pub secrets: Vec<String>,
}

/// How much a server may take, and how patient the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McpLimits {
    /// Until it is there and has listed its tools.
    pub start: Duration,
    /// After which its list is asked for again, before the next call.
    pub recheck: Duration,
    /// Calls at a time.
    pub concurrency: usize,
    /// Bytes of one message. A program that writes four times as much without an end of line is ended.
    pub message_bytes_max: usize,
    /// How long a program may take to say that it is there, after a call that it did not answer in time. Then it is ended, and
    /// started again for the next call.
    pub unanswered: Duration,
    /// The pause before the next connection after one that failed. It doubles while they do.
    pub pause_min: Duration,
    pub pause_max: Duration,
}

impl Default for McpLimits {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            recheck: Duration::from_secs(60),
            concurrency: 16,
            message_bytes_max: 8 << 20,
            unanswered: Duration::from_secs(30),
            pause_min: Duration::from_millis(100),
            pause_max: Duration::from_secs(30),
        }
    }
}

/// The values that connections are made with, beside the settings of their server.
#[derive(Clone)]
pub struct McpSurroundings {
    /// The secrets that settings may name.
    pub secrets: BTreeMap<String, BoundSecret>,
    /// The connections that settings may name, and the hosts that access tokens of each may be sent to.
    pub connections: BTreeMap<String, BTreeSet<String>>,
    /// Texts that never reach the log.
    pub unlogged: Vec<Sensitive<String>>,
    pub resolver: Arc<dyn Resolver>,
}

/// The servers of a configuration, by name. A server that lacks something is there with what it lacks.
#[derive(Default)]
pub struct McpServers(BTreeMap<String, Result<Arc<McpServer>, String>>);

impl McpServers {
    pub fn new(settings: BTreeMap<String, McpSettings>, surroundings: &McpSurroundings) -> Self {
        let servers = settings.into_iter().map(|(name, settings)| {
            let server = McpServer::new(&name, settings, surroundings);
            (name, server)
        });
        Self(servers.collect())
    }

    /// # Errors
    ///
    /// A text on what the server lacks, or that no server has this name.
    pub fn get(&self, name: &str) -> Result<Arc<McpServer>, String> {
        let none = || {
            Err(format!(
                "there is no MCP server {name}; add it to the configuration as [mcp.{name}]"
            ))
        };
        self.0.get(name).cloned().unwrap_or_else(none)
    }

    /// Connects the servers whose tools are imported, in the background, so that the first call finds them ready. Needs a tokio runtime.
    pub fn start(&self) {
        let servers = self.0.values().flatten();
        // A server with a connection is started for each user apart.
        for server in servers.filter(|server| server.is_wanted() && server.connection().is_none()) {
            server.start();
        }
    }
}
