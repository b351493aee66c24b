//! Runs the handlers that a `handler.json` declares: HTTP requests, signed webhooks, processes, and tools of MCP servers. Owns
//! their ways out and their workers; the form of requests and the reading of answers are `tool`'s.

mod http;
mod pieces;
mod signature;
mod webhook;

use crate::fetch::{Endpoint, FetchLimits, Fetcher, Places, Resolver, WayOut};
use crate::mcp::McpServers;
use crate::worker::{
    ConnectionGrants, Grants, ServedTool, Worker, WorkerLimits, WorkerOptions, WorkerProgram,
};
use ::http::Uri;
pub use signature::{SigningKey, SigningRefusal};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use windlass_compile::artifact::{DeclaredTool, FileLoader};
use windlass_compile::handler_file::{
    BoundSecret, HandlerFile, HttpHandler, ProcessHandler, may_go_to,
};
use windlass_contract::handler::{Handler, Http};
use windlass_contract::id::ToolId;
use windlass_contract::sensitive::Sensitive;

/// The means of declared handlers.
pub struct DeclaredHandlers {
    /// The folder of the artifact, to which the paths in it are relative.
    pub folder: PathBuf,
    pub processes: bool,
    pub secrets: BTreeMap<String, BoundSecret>,
    /// Variables that tools' processes get besides the usual ones.
    pub variables: BTreeMap<ToolId, Vec<String>>,
    /// Secrets that tools' processes may ask for.
    pub granted: Grants,
    /// Connections whose access tokens tools' processes may ask for.
    pub connections: ConnectionGrants,
    /// The hosts that access tokens of each connection may be sent to.
    pub connection_hosts: BTreeMap<String, BTreeSet<String>>,
    /// Texts that never reach the log.
    pub unlogged: Vec<Sensitive<String>>,
    pub fetch: FetchLimits,
    pub worker: WorkerLimits,
    pub resolver: Arc<dyn Resolver>,
    pub mcp: McpServers,
}

impl FileLoader for DeclaredHandlers {
    fn load(&self, declared: DeclaredTool<'_>) -> Result<Arc<dyn Handler>, String> {
        let secrets = self.secrets_of(&declared.file)?;
        match declared.file {
            HandlerFile::Http(ref http) => {
                self.check_connection(http)?;
                let way = self.way_out(http.request.origin())?;
                let lookup_way = match &http.lookup {
                    Some(lookup) if lookup.origin() != http.request.origin() => {
                        self.way_out(lookup.origin())?
                    }
                    Some(_) | None => way.clone(),
                };
                Ok(http::handler(
                    http.as_ref().clone(),
                    secrets,
                    way,
                    lookup_way,
                ))
            }
            HandlerFile::Webhook(ref webhook) => {
                let secret = secrets.get(&webhook.secret).map(String::as_str);
                let key = SigningKey::parse(secret.unwrap_or_default())
                    .map_err(|error| format!("the secret {}: {error}", webhook.secret))?;
                let way = self.way_out(&webhook.origin)?;
                Ok(webhook::handler(webhook.clone(), key, way))
            }
            HandlerFile::Process(ref process) => self.process(&declared, process),
            HandlerFile::Mcp(file) => Ok(self.mcp.get(&file.server)?.handler(file)),
            HandlerFile::McpResource(file) => Ok(self.mcp.get(&file.server)?.reader(file)),
        }
    }
}

impl DeclaredHandlers {
    fn secrets_of(&self, file: &HandlerFile) -> Result<BTreeMap<String, String>, String> {
        let uses = file.secrets().into_iter();
        uses.map(|(name, origin)| match self.secrets.get(name) {
            Some(secret) if may_go_to(&secret.hosts, origin) => {
                Ok((name.to_owned(), secret.value.expose().clone()))
            }
            Some(_) => Err(format!(
                "the secret {name} may not go to {origin}; add that host to secrets.{name}.hosts in the configuration, if it is to have it"
            )),
            None => Err(format!(
                "there is no secret {name}; set the environment variable WINDLASS_SECRET_{name}, and secrets.{name}.hosts in the configuration"
            )),
        })
        .collect()
    }

    /// Whether the access tokens of the connection in a file may go to the file's address.
    fn check_connection(&self, http: &HttpHandler) -> Result<(), String> {
        let Some(name) = &http.connection else {
            return Ok(());
        };
        let hosts = self.connection_hosts.get(name).ok_or_else(|| {
            format!(
                "there is no connection {name}; add it to the configuration as [connections.{name}]"
            )
        })?;
        let lookup = http.lookup.iter();
        let mut requests = std::iter::once(&http.request).chain(lookup);
        match requests.find(|request| !may_go_to(hosts, request.origin())) {
            None => Ok(()),
            Some(request) => Err(format!(
                "access tokens of the connection {name} may not go to {}; add that host to connections.{name}.hosts in the configuration, if it is to have them",
                request.origin()
            )),
        }
    }

    /// The way to the one origin that a file names.
    fn way_out(&self, origin: &str) -> Result<Arc<dyn Http>, String> {
        let uri: Uri = origin
            .parse()
            .map_err(|error| format!("{origin} is no address: {error}"))?;
        let place = Endpoint::of(&uri).ok_or_else(|| format!("{origin} is no address"))?;
        let fetcher = Fetcher::new(Places::Named(place), self.fetch, self.resolver.clone());
        Ok(Arc::new(WayOut(fetcher)))
    }

    fn process(
        &self,
        declared: &DeclaredTool<'_>,
        process: &ProcessHandler,
    ) -> Result<Arc<dyn Handler>, String> {
        if !self.processes {
            return Err("it runs a program, which the configuration does not allow; set handlers.processes = true where you trust it".to_owned());
        }
        let (program, arguments) = process
            .command
            .split_first()
            .ok_or("its command is empty")?;
        let file = self.folder.join(declared.path);
        let folder = file.parent().map(std::path::Path::to_path_buf);
        let worker = Worker::new(WorkerOptions {
            name: declared.tool.as_str().into(),
            program: WorkerProgram {
                program: program.into(),
                arguments: arguments.iter().map(Into::into).collect(),
                folder,
                files: declared.program.to_vec(),
                variables: self
                    .variables
                    .get(declared.tool)
                    .cloned()
                    .unwrap_or_default(),
            },
            limits: WorkerLimits {
                children: 1,
                concurrency: process.concurrency,
                ..self.worker
            },
            first_requests: Box::new(Vec::new),
            secrets: self.unlogged.clone(),
            granted: self
                .granted
                .get_key_value(declared.tool)
                .map(|(tool, secrets)| (tool.clone(), secrets.clone()))
                .into_iter()
                .collect(),
            connections: self
                .connections
                .get_key_value(declared.tool)
                .map(|(tool, names)| (tool.clone(), names.clone()))
                .into_iter()
                .collect(),
        });
        Ok(worker.handler(ServedTool {
            name: declared.tool.as_str().into(),
            timeout: process.timeout_ms.map(Duration::from_millis),
            numbers: process.numbers,
        }))
    }
}
