//! The server as a whole: opens everything that it needs, listens only then, and ends in order. For the command line, for
//! tests, and for programs with tools of their own.

use crate::failure::Failure;
use crate::provider::{self, Choice};
use crate::toolbox::{ToolboxError, Workshop};
use crate::voice_host::{Conversations, VoiceHost};
use crate::watch::{self, Watch};
use crate::web::origin::OriginRule;
use crate::web::{self, Info, State, listener};
use crate::world::SharedWorld;
use arc_swap::ArcSwap;
use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch as channel};
use tokio::task::JoinHandle;
use windlass_knowledge::{IngestLimits, KnowledgeBase};
use windlass_runtime::audit::{Audit, AuditedArguments};
use windlass_runtime::call_driver::Shared;
use windlass_runtime::client_key::ClientKey;
use windlass_runtime::config::Config;
use windlass_runtime::metrics::Metrics;
use windlass_runtime::rate::MemoryRateLimiter;
use windlass_runtime::reservations::MemoryReservations;
use windlass_runtime::subscriber::Subscriber;
use windlass_runtime::voice::{VoiceService, VoiceSettings};
use windlass_store::SqliteStore;

pub use crate::toolbox::Handlers;
pub use windlass_runtime::config;

/// The audit's name in the data folder.
const AUDIT_FILE: &str = "audit.jsonl";
/// What the sessions' own time to end is exceeded by before they are left to themselves.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// What a server is started with.
pub struct Setup {
    pub config: Config,
    /// The code of the tools: [`windlass_handlers::builtin()`], and a program's own.
    pub handlers: Handlers,
    /// Whether tools are built again when their folder changes.
    pub watch: bool,
}

/// A server that listens.
pub struct Server {
    address: SocketAddr,
    choice: Choice,
    state: Arc<State>,
    accepting: JoinHandle<()>,
    over: channel::Sender<bool>,
    audit: Option<Arc<Audit>>,
    shutdown_timeout: Duration,
    _watch: Option<Watch>,
}

/// Opens everything and listens.
///
/// # Errors
///
/// The first thing that cannot be opened, in one line.
pub async fn start(setup: Setup) -> Result<Server, Failure> {
    let config = Arc::new(setup.config);
    let choice = Choice::of(&config.provider)?;
    let store = SqliteStore::open(&config.folders.data).map_err(Failure::of)?;
    let client_key = ClientKey::open(&config.folders.data).map_err(Failure::of)?;
    let workshop = Arc::new(Workshop {
        profile: provider::profile_of(&config),
        handlers: setup.handlers,
        config: config.clone(),
    });
    let toolbox = workshop.open().map_err(report)?;
    let knowledge = open_knowledge(&config)?;
    let (audit, metrics) = (open_audit(&config)?, Arc::new(Metrics::default()));
    let (listener, address) = listen(&config).await?;
    let (over, is_over) = channel::channel(false);
    let world = SharedWorld {
        knowledge: Arc::new(knowledge),
        store: Arc::new(store),
    };
    let host = Arc::new(VoiceHost {
        toolbox: ArcSwap::from_pointee(toolbox),
        profile: workshop.profile.clone(),
        provider: provider::settings(&config, choice, is_over.clone()).await?,
        limits: Arc::new(config.voice.limits.clone()),
        world,
        metrics: metrics.clone(),
        conversations: Arc::new(Conversations::default()),
    });
    let watch = match setup.watch {
        true => Some(watch::start(workshop, host.clone()).map_err(Failure::of)?),
        false => None,
    };
    let shutdown_timeout = Duration::from_secs(config.server.shutdown_seconds.get());
    let settings = VoiceSettings {
        shutdown_timeout,
        ..VoiceSettings::default()
    };
    let shared = shared(audit.clone(), metrics.clone());
    let state = Arc::new(State {
        info: info(&config, choice),
        origin_rule: OriginRule {
            allowed: config.server.allowed_origins.clone(),
            is_loopback: address.ip().is_loopback(),
        },
        places: Arc::new(Semaphore::new(config.server.sessions_max.count())),
        client_key,
        voice: VoiceService::new(settings, host, shared),
        metrics,
        draining: AtomicBool::new(false),
    });
    let accepting = accept(listener, &state, &config, is_over);
    Ok(Server {
        address,
        choice,
        state,
        accepting,
        over,
        audit,
        shutdown_timeout,
        _watch: watch,
    })
}

fn accept(
    listener: TcpListener,
    state: &Arc<State>,
    config: &Config,
    is_over: channel::Receiver<bool>,
) -> JoinHandle<()> {
    let router = TowerToHyperService::new(web::router(state.clone()));
    let service = move |request: Request<Incoming>| answer(router.call(request));
    let connections_max = config.server.connections_max.count();
    tokio::spawn(listener::serve(listener, service, connections_max, is_over))
}

async fn answer(
    response: impl Future<Output = Result<Response<Body>, Infallible>>,
) -> Response<Body> {
    match response.await {
        Ok(response) => web::finish(response),
        Err(never) => match never {},
    }
}

impl Server {
    /// Where it listens, with the port that it was really given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the model is the demo model: rules, no AI.
    pub fn is_demo(&self) -> bool {
        self.choice == Choice::Demo
    }

    /// Tells every session that the server ends, waits until they have ended or their time is up, and stops listening.
    pub async fn shut_down(self) {
        self.state.draining.store(true, Ordering::Release);
        self.state.voice.shut_down();
        let patience = self.shutdown_timeout + DRAIN_GRACE;
        if tokio::time::timeout(patience, self.state.voice.drained())
            .await
            .is_err()
        {
            let sessions = self.state.voice.connections();
            tracing::warn!(sessions, "sessions were cut off");
        }
        self.over.send_replace(true);
        if let Err(error) = self.accepting.await {
            tracing::error!(%error, "the listener broke");
        }
        if let Some(audit) = self.audit {
            // Its thread writes what waits; joining it blocks, and there is nothing left to keep moving.
            audit.close();
        }
    }
}

/// Compile problems go to standard error line by line, before the one line that sums them up.
pub(crate) fn report(error: ToolboxError) -> Failure {
    if let ToolboxError::Compile { problems, .. } = &error {
        let printer = crate::printer::Printer;
        for problem in problems {
            printer.problem(&problem.to_string());
        }
    }
    Failure::of(error)
}

pub(crate) fn open_knowledge(config: &Config) -> Result<KnowledgeBase, Failure> {
    let folder = &config.folders.knowledge;
    let (knowledge, report) =
        KnowledgeBase::open(folder, &IngestLimits::default()).map_err(Failure::of)?;
    for problem in &report.problems {
        tracing::warn!(%problem, "a record was left out");
    }
    tracing::info!(records = report.records, folder = %folder.display(), "knowledge base read");
    Ok(knowledge)
}

pub(crate) fn open_audit(config: &Config) -> Result<Option<Arc<Audit>>, Failure> {
    if !config.audit.enabled {
        return Ok(None);
    }
    let usual: PathBuf = config.folders.data.join(AUDIT_FILE);
    let path = config.audit.path.as_ref().unwrap_or(&usual);
    let arguments = match config.audit.arguments {
        true => AuditedArguments::Visible,
        false => AuditedArguments::Hash,
    };
    let audit = Audit::open(path, arguments).map_err(Failure::of)?;
    Ok(Some(Arc::new(audit)))
}

/// What all sessions share, with those that watch them.
pub(crate) fn shared(audit: Option<Arc<Audit>>, metrics: Arc<Metrics>) -> Shared {
    let audit = audit.map(|audit| audit as Arc<dyn Subscriber>);
    Shared {
        reservations: Arc::new(MemoryReservations),
        rate_limiter: Arc::new(MemoryRateLimiter::default()),
        subscribers: audit
            .into_iter()
            .chain([metrics as Arc<dyn Subscriber>])
            .collect(),
    }
}

async fn listen(config: &Config) -> Result<(TcpListener, SocketAddr), Failure> {
    let wanted = config.server.listen.get();
    let listened = async {
        let listener = TcpListener::bind(wanted).await?;
        let address = listener.local_addr()?;
        Ok::<_, std::io::Error>((listener, address))
    };
    listened.await.map_err(|error| {
        let cure = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "; another program has the port: end it, or choose another one with --listen"
            }
            std::io::ErrorKind::PermissionDenied => "; choose a port above 1023 with --listen",
            _ => "; choose another address with --listen",
        };
        Failure::Failed(format!("cannot listen on {wanted}: {error}{cure}"))
    })
}

fn info(config: &Config, choice: Choice) -> Info {
    Info {
        name: "Windlass",
        version: env!("CARGO_PKG_VERSION"),
        provider: choice.name(),
        model: match choice {
            Choice::GeminiLive => config.provider.model.as_str().to_owned(),
            Choice::Demo => "demo model".to_owned(),
        },
        demo: choice == Choice::Demo,
        suggestions: match choice {
            Choice::GeminiLive => Vec::new(),
            Choice::Demo => windlass_sim::demo::SUGGESTIONS.to_vec(),
        },
    }
}
