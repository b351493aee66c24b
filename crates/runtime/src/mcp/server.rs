//! One server: its one connection, when that is made anew, and which of its tools are still those that were imported. Knows no call.

use super::call;
use super::changed::Said;
use super::http::{HttpKit, HttpWire};
use super::link::AskError;
use super::link::{Link, Wire};
use super::listing::{self, ListError, ListedTools};
use super::opening::{NotOpened, open_http, open_process};
use super::process::{ProcessKit, ProcessWire};
use super::resources;
use super::users::{UserToken, Users};
use super::{McpAddress, McpLimits, McpPlace, McpProgram, McpSettings, McpSurroundings};
use crate::fetch::{Endpoint, FetchLimits, Fetcher, Places, WayOut};
use crate::redaction::Secrets;
use crate::worker::process::SecretVariable;
use crate::worker::wire::METHOD_NOT_FOUND;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use windlass_compile::handler_file::Offering;
use windlass_compile::handler_file::{
    DefinitionHash, McpHandler, McpResourceHandler, may_go_to, numbers_of,
};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Failure, Handler, Http, Numbers, Report};
use windlass_contract::id::ClientId;
use windlass_contract::sensitive::Sensitive;

/// A pause before a new connection that is longer lets calls fail at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// A server whose tools are imported. Its connection ends with the last handle to it.
pub struct McpServer {
    name: Arc<str>,
    way: Way,
    limits: McpLimits,
    permits: Arc<Semaphore>,
    /// The tools that are imported, with the definitions by which they were.
    wanted: Mutex<BTreeMap<String, DefinitionHash>>,
    /// A tool reads its resources and prompts.
    is_read: AtomicBool,
    current: Mutex<Option<Arc<Ready>>>,
    /// How often the server has said that its list is another now.
    changes: AtomicU64,
    /// Somebody looks at what has changed.
    is_looking: AtomicBool,
    /// Held by who makes a connection.
    opening: tokio::sync::Mutex<Pauses>,
    /// The last program spoke the older revision, and so will the next.
    is_older: AtomicBool,
    /// The differences of tools from their import that were logged. The connections of users share them.
    said: Arc<Mutex<Said>>,
    /// Connections of users, if the server is called with their tokens.
    users: Users,
}

/// How the server is reached, with every secret in its place.
enum Way {
    Program(McpProgram, Vec<SecretVariable>, Arc<Secrets>),
    Address(Address),
}

struct Address {
    url: String,
    way: Arc<dyn Http>,
    headers: Vec<(String, Sensitive<String>)>,
    /// The connection whose users' tokens it is called with.
    connection: Option<String>,
    token: UserToken,
}

impl Address {
    /// The same for one user, without what proves who imports.
    fn for_a_user(&self) -> Self {
        let headers = self.headers.iter();
        let headers = headers.filter(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
        Self {
            url: self.url.clone(),
            way: self.way.clone(),
            headers: headers.cloned().collect(),
            connection: self.connection.clone(),
            token: UserToken::default(),
        }
    }
}

#[derive(Default)]
struct Pauses {
    /// Connections in a row that could not be made.
    failures: u32,
    not_before: Option<Instant>,
    last: Option<NotOpened>,
}

/// A connection, and what the server listed over it.
pub(super) struct Ready {
    pub(super) link: Arc<Link>,
    pub(super) tools: ListedTools,
    listed_at: Instant,
    /// The changes that it was listed after.
    changes: u64,
}

/// There is no connection now, and nothing was sent.
#[derive(Debug)]
pub(super) struct NotThere {
    error: NotOpened,
    pause: Option<Duration>,
}

impl NotThere {
    /// Whether the server took no proof of who asks.
    pub(super) fn lets_nobody_in(&self) -> bool {
        self.error.kind == FailureKind::Auth
    }

    pub(super) fn failure(self) -> Failure {
        let pause = self.pause.map(|pause| pause.as_millis());
        let words = match self.error.kind == FailureKind::Auth {
            true => "the tool's server does not let this program in",
            false => "the tool's server is not there at the moment",
        };
        Report {
            partial_side_effects: Some(false),
            retry_after_ms: pause.map(|pause| u64::try_from(pause).unwrap_or(u64::MAX)),
            ..Report::new(self.error.kind, words)
        }
        .into()
    }
}

impl McpServer {
    /// `Err` says what its settings lack. Nothing is started or connected yet.
    pub(super) fn new(
        name: &str,
        settings: McpSettings,
        surroundings: &McpSurroundings,
    ) -> Result<Arc<Self>, String> {
        let McpSettings { place, limits } = settings;
        let way = way(name, place, &limits, surroundings)?;
        let permits = Arc::new(Semaphore::new(limits.concurrency));
        let is_of_users = matches!(&way, Way::Address(address) if address.connection.is_some());
        let said = Arc::new(Mutex::new(Said::of_users(is_of_users)));
        let shared = (permits, said);
        Ok(Arc::new(Self::unconnected(
            name.into(),
            way,
            limits,
            shared,
        )))
    }

    /// The last argument is shared by the connections of users to the server.
    fn unconnected(
        name: Arc<str>,
        way: Way,
        limits: McpLimits,
        (permits, said): (Arc<Semaphore>, Arc<Mutex<Said>>),
    ) -> Self {
        Self {
            name,
            way,
            limits,
            permits,
            wanted: Mutex::default(),
            is_read: AtomicBool::new(false),
            current: Mutex::default(),
            changes: AtomicU64::new(0),
            is_looking: AtomicBool::new(false),
            opening: tokio::sync::Mutex::default(),
            is_older: AtomicBool::new(false),
            said,
            users: Users::default(),
        }
    }

    /// The connection of the configuration whose users' tokens it is called with, if it is.
    pub(super) fn connection(&self) -> Option<&str> {
        match &self.way {
            Way::Address(address) => address.connection.as_deref(),
            Way::Program(..) => None,
        }
    }

    /// The same server as one user reaches it, with a token that counts now. They share the room for calls.
    pub(super) fn of_user(
        self: &Arc<Self>,
        user: &ClientId,
        token: Sensitive<String>,
    ) -> Arc<Self> {
        let Way::Address(address) = &self.way else {
            return self.clone();
        };
        let server = self.users.of(user, || {
            let way = Way::Address(address.for_a_user());
            let shared = (self.permits.clone(), self.said.clone());
            let server = Self::unconnected(self.name.clone(), way, self.limits, shared);
            held(&server.wanted).clone_from(&held(&self.wanted));
            Arc::new(server)
        });
        if let Way::Address(address) = &server.way {
            address.token.set(token);
        }
        server
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The handler of one of its tools.
    pub fn handler(self: &Arc<Self>, file: McpHandler) -> Arc<dyn Handler> {
        let numbers = match &self.way {
            Way::Program(program, ..) => numbers_of(&program.command),
            // The language is unknown, and most servers are written in one whose numbers are doubles.
            Way::Address(_) => Numbers::Doubles,
        };
        held(&self.wanted).insert(file.tool.clone(), file.definition.clone());
        call::handler(self.clone(), file, numbers)
    }

    /// The handler that reads its resources and prompts.
    pub fn reader(self: &Arc<Self>, file: McpResourceHandler) -> Arc<dyn Handler> {
        self.is_read.store(true, Ordering::Release);
        resources::handler(self.clone(), file)
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.is_read.load(Ordering::Acquire) || !held(&self.wanted).is_empty()
    }

    /// Makes a connection that nobody waits for.
    pub(super) fn start(self: &Arc<Self>) {
        let server = self.clone();
        tokio::spawn(async move {
            // A failure is in the log, and the next call tries again.
            let _ = server.open().await;
        });
    }

    /// All that the server offers, for an import. The connection is made for this request, and ends with it.
    ///
    /// # Errors
    ///
    /// Why there is no list, for an operator.
    pub async fn offering(self: &Arc<Self>) -> Result<Offering, String> {
        let until = Instant::now() + self.limits.start;
        let link = self.connect(until).await;
        let link = link.map_err(|error| error.problem)?;
        let mut definitions = Vec::new();
        let listed = listing::list(&link, until, &mut |_, definition| {
            definitions.push(definition);
        })
        .await;
        match listed {
            Ok(()) => {}
            // It says that it has none, and knows no such request.
            Err(ListError::Asking(AskError::Refused(refusal)))
                if !link.offers.tools && refusal.code == METHOD_NOT_FOUND => {}
            Err(error) => return Err(error.for_log()),
        }
        Ok(Offering {
            definitions,
            resources: link.offers.resources,
            prompts: link.offers.prompts,
        })
    }

    /// Room for one more call.
    pub(super) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.permits.clone().acquire_owned().await.ok()
    }

    /// The connection, made if there is none, with a list of tools that is not too old. A caller that stops waiting loses nothing for the
    /// next.
    pub(super) async fn ready(self: &Arc<Self>) -> Result<Arc<Ready>, NotThere> {
        if let Some(ready) = self.fresh() {
            return Ok(ready);
        }
        let server = self.clone();
        let opened = tokio::spawn(async move { server.open().await }).await;
        opened.unwrap_or_else(|_| {
            Err(NotThere {
                error: NotOpened::new("the runtime ends"),
                pause: None,
            })
        })
    }

    fn fresh(&self) -> Option<Arc<Ready>> {
        let current = held(&self.current).clone()?;
        let is_fresh = current.link.is_open()
            && current.changes == self.changes.load(Ordering::Acquire)
            && current.listed_at.elapsed() < self.limits.recheck;
        is_fresh.then_some(current)
    }

    /// The next call makes a new connection.
    pub(super) fn forget(&self, ready: &Arc<Ready>) {
        let mut current = held(&self.current);
        if current
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(&known.link, &ready.link))
        {
            *current = None;
        }
    }

    async fn open(self: &Arc<Self>) -> Result<Arc<Ready>, NotThere> {
        let mut pauses = self.opening.lock().await;
        // Another has made it meanwhile.
        if let Some(ready) = self.fresh() {
            return Ok(ready);
        }
        let now = Instant::now();
        if let (Some(not_before), Some(last)) = (pauses.not_before, &pauses.last)
            && let Some(pause) = not_before.checked_duration_since(now)
        {
            if pause > PATIENCE {
                return Err(NotThere {
                    error: last.clone(),
                    pause: Some(pause),
                });
            }
            tokio::time::sleep_until(not_before).await;
        }
        match self.open_now().await {
            Ok(ready) => {
                *pauses = Pauses::default();
                let ready = Arc::new(ready);
                *held(&self.current) = Some(ready.clone());
                Ok(ready)
            }
            Err(error) => {
                *held(&self.current) = None;
                let doublings = pauses.failures.min(16);
                pauses.failures = pauses.failures.saturating_add(1);
                let pause = self.limits.pause_min.saturating_mul(1 << doublings);
                let pause = pause.min(self.limits.pause_max);
                pauses.not_before = Some(Instant::now() + pause);
                pauses.last = Some(error.clone());
                tracing::warn!(server = %self.name, problem = error.problem, "an MCP server is not there");
                Err(NotThere {
                    error,
                    pause: Some(pause),
                })
            }
        }
    }

    async fn open_now(self: &Arc<Self>) -> Result<Ready, NotOpened> {
        let until = Instant::now() + self.limits.start;
        let known = held(&self.current).as_ref().map(|ready| ready.link.clone());
        let link = match known.filter(|link| link.is_open()) {
            Some(link) => link,
            None => {
                let link = self.connect(until).await?;
                tracing::info!(
                    server = %self.name,
                    revision = link.revision.version(),
                    "connected to an MCP server"
                );
                Arc::new(link)
            }
        };
        // Read before the list is asked for, so that a change meanwhile is not lost.
        let changes = self.changes.load(Ordering::Acquire);
        let names: BTreeMap<String, DefinitionHash> = held(&self.wanted).clone();
        let tools = match names.is_empty() {
            // Its resources and prompts are read, and it may have no tools.
            true => Ok(ListedTools::new()),
            false => listing::wanted(&link, until, &|name| names.contains_key(name)).await,
        };
        let tools = tools.map_err(|error| NotOpened::of_list(&error))?;
        self.say_what_changed(&names, &tools);
        Ok(Ready {
            link,
            tools,
            listed_at: Instant::now(),
            changes,
        })
    }

    async fn connect(self: &Arc<Self>, until: Instant) -> Result<Link, NotOpened> {
        let own = Arc::downgrade(self);
        let on_change = Arc::new(move || {
            if let Some(server) = own.upgrade() {
                server.changed();
            }
        });
        match &self.way {
            Way::Address(address) => {
                let wire = HttpWire::new(HttpKit {
                    url: address.url.clone(),
                    way: address.way.clone(),
                    headers: address.headers.clone(),
                    token: address.token.clone(),
                    message_bytes_max: self.limits.message_bytes_max,
                    on_change,
                });
                open_http(Wire::Http(wire), until).await
            }
            Way::Program(program, secrets, unlogged) => {
                let kit = ProcessKit {
                    name: self.name.clone(),
                    secrets: secrets.clone(),
                    unlogged: unlogged.clone(),
                    message_bytes_max: self.limits.message_bytes_max,
                    unanswered: self.limits.unanswered,
                    on_change,
                };
                self.start_program(program, kit, until).await
            }
        }
    }

    async fn start_program(
        &self,
        program: &McpProgram,
        kit: ProcessKit,
        until: Instant,
    ) -> Result<Link, NotOpened> {
        let start = async |is_older: bool| {
            let wire = ProcessWire::start(program, kit.clone()).await;
            let wire = wire.map_err(|problem| (NotOpened::new(problem), false))?;
            open_process(Wire::Process(wire), until, is_older).await
        };
        let is_older = self.is_older.swap(false, Ordering::AcqRel);
        let link = match start(is_older).await {
            Ok(link) => link,
            // Some end at the first request that they do not know.
            Err((_, true)) if Instant::now() < until => {
                start(true).await.map_err(|(error, _)| error)?
            }
            Err((error, _)) => return Err(error),
        };
        let speaks_older = link.revision != super::message::Revision::Stateless;
        self.is_older.store(speaks_older, Ordering::Release);
        Ok(link)
    }

    /// The server says that it has other tools now. They are looked at once, and before the next call.
    fn changed(self: &Arc<Self>) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        if !self.is_wanted()
            || tokio::runtime::Handle::try_current().is_err()
            || self.is_looking.swap(true, Ordering::AcqRel)
        {
            return;
        }
        tracing::debug!(server = %self.name, "an MCP server says that its tools are others now");
        let server = self.clone();
        tokio::spawn(async move {
            // A failure is in the log, and the next call looks again.
            let _ = server.open().await;
            server.is_looking.store(false, Ordering::Release);
        });
    }

    /// Logs which tools differ from their import: one line for the server, however many there are.
    fn say_what_changed(&self, wanted: &BTreeMap<String, DefinitionHash>, tools: &ListedTools) {
        if let Some(tools) = held(&self.said).news(wanted, tools) {
            tracing::warn!(
                server = %self.name,
                tools,
                "tools of an MCP server are not as they were imported, and are not run; `windlass mcp diff {}` shows what is other, and --accept takes it",
                self.name
            );
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whatever was being written is written whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a server is reached, where its settings name secrets that there are and that it may have.
fn way(
    name: &str,
    place: McpPlace,
    limits: &McpLimits,
    surroundings: &McpSurroundings,
) -> Result<Way, String> {
    let secret = |secret: &str| {
        surroundings.secrets.get(secret).ok_or_else(|| {
            format!("there is no secret {secret}, which mcp.{name} names; set the environment variable WINDLASS_SECRET_{secret}")
        })
    };
    match place {
        McpPlace::Program(program) => {
            let mut variables = Vec::with_capacity(program.secrets.len());
            for name in &program.secrets {
                variables.push((name.clone(), secret(name)?.value.clone()));
            }
            let mut unlogged = surroundings.unlogged.clone();
            unlogged.extend(variables.iter().map(|(_, value)| value.clone()));
            let unlogged = Arc::new(Secrets::of(unlogged));
            Ok(Way::Program(program, variables, unlogged))
        }
        McpPlace::Address(McpAddress {
            url,
            bearer,
            connection,
            headers,
            fetch,
        }) => {
            let place = Endpoint::of_url(&url).ok_or_else(|| format!("{url} is no address"))?;
            let origin: String = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
            let bound = |name: &str| {
                let found = secret(name)?;
                match may_go_to(&found.hosts, &origin) {
                    true => Ok(found.value.expose().clone()),
                    false => Err(format!(
                        "the secret {name} may not go to {origin}; add that host to secrets.{name}.hosts in the configuration, if it is to have it"
                    )),
                }
            };
            let mut sent: Vec<(String, Sensitive<String>)> = Vec::new();
            if let Some(bearer) = &bearer {
                let value = format!("Bearer {}", bound(bearer)?);
                sent.push(("authorization".to_owned(), value.into()));
            }
            for (header, name) in &headers {
                sent.push((header.clone(), bound(name)?.into()));
            }
            if let Some(connection) = &connection {
                let hosts = surroundings.connections.get(connection);
                let hosts = hosts.ok_or_else(|| {
                    format!("there is no connection {connection}, which mcp.{name} names; add it to the configuration as [connections.{connection}]")
                })?;
                if !may_go_to(hosts, &origin) {
                    return Err(format!(
                        "access tokens of the connection {connection} may not go to {origin}; add that host to connections.{connection}.hosts in the configuration, if it is to have them"
                    ));
                }
            }
            let fetch = FetchLimits {
                body_bytes_max: limits.message_bytes_max,
                ..fetch
            };
            let fetcher = Fetcher::new(Places::Named(place), fetch, surroundings.resolver.clone());
            Ok(Way::Address(Address {
                url,
                way: Arc::new(WayOut(fetcher)),
                headers: sent,
                connection,
                token: UserToken::default(),
            }))
        }
    }
}
