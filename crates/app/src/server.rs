//! The server as a whole: opens everything that it needs, listens only then, and ends in order. For the command line, for
//! tests, and for programs with tools of their own.

use crate::access::{Access, EndedClients};
use crate::capabilities::SharedCapabilities;
use crate::chat::ChatHost;
use crate::chat::conversations::Conversations as TextConversations;
use crate::chat::picture::PictureLimits;
use crate::chat::picture_files::PictureFiles;
use crate::chat::remote_keys::RunningKeys;
use crate::chat::single::Completing;
use crate::connections::ConnectionDesk;
use crate::failure::Failure;
use crate::handovers::HandoverDesk;
use crate::knowledge::{
    Audience, KnowledgeChanges, LiveKnowledge, Maker, Refresher, open_database,
};
use crate::live_tools::LiveTools;
use crate::mcp::McpHost;
use crate::provider::{self, Choice};
use crate::records::{self, Records};
use crate::signed_pictures::PictureAddresses;
use crate::suggestions::suggestions;
use crate::tasks::TaskEnds;
use crate::text_provider;
use crate::toolbox::{self, Toolbox};
use crate::unset;
use crate::voice_host::VoiceHost;
use crate::watch::Watch;
use crate::web::hosts::HostRule;
use crate::web::listener::{self, ListenerLimits};
use crate::web::origin::OriginRule;
use crate::web::patience::Patience;
use crate::web::{self, Info, ServerState, TextInfo};
use arc_swap::ArcSwap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch as channel;
use tokio::task::JoinHandle;
use windlass_config::Config;
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_runtime::audit::Audit;
use windlass_runtime::call_driver::Shared;
use windlass_runtime::caller::{Caller, is_proven_id};
use windlass_runtime::client_key::{ClientKey, ledger_key};
use windlass_runtime::metrics::Metrics;
use windlass_runtime::shares::Shares;
use windlass_runtime::subscriber::Subscriber;
use windlass_runtime::sweeper::Sweeper;
use windlass_runtime::text::TextSettings;
use windlass_runtime::voice::{VoiceService, VoiceSettings};
use windlass_session::limits::Limits;
use windlass_store::command::{Command, Reply};
use windlass_store::{
    Batch, HeldFolder, OpenError, SqliteStore, Store, StoreLimits, StoreUnavailable,
};

pub use crate::toolbox::Handlers;
pub use windlass_config as config;

/// Connections that wait in the system until they are accepted.
const CONNECTIONS_WAITING_MAX: u32 = 1_024;
/// The extra time after the sessions' own time to end, before they are left to themselves.
const DRAIN_GRACE: Duration = Duration::from_secs(1);
/// How often it is looked whether the store has been let go of.
const RELEASE_PAUSE: Duration = Duration::from_millis(2);

/// Everything that a server starts with.
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
    demo_notice: Option<String>,
    /// A line for each mode: which model, and why.
    models: [String; 2],
    state: Arc<ServerState>,
    accepting: JoinHandle<()>,
    over: channel::Sender<bool>,
    records: Records,
    shutdown_timeout: Duration,
    sweeping: JoinHandle<()>,
    /// The store's folder stays locked while any part of the server holds the store.
    store: Arc<dyn Store>,
    watch: Option<Watch>,
    refresher: Refresher,
}

/// Opens everything and listens.
///
/// # Errors
///
/// The first thing that cannot be opened, in one line.
pub async fn start(setup: Setup) -> Result<Server, Failure> {
    // In a box: everything that is opened is in it, and futures that hold it are moved.
    Box::pin(open_all(setup)).await
}

async fn open_all(setup: Setup) -> Result<Server, Failure> {
    let config = Arc::new(setup.config);
    let choice = Choice::of(&config.provider)?;
    toolbox::expect_tools(&config)?;
    for variable in unset::all(&config) {
        tracing::warn!("{variable}");
    }
    // First of all: a folder that another server has is left as it is.
    let held = hold_folder(&config)?;
    SqliteStore::tighten_folder(&config.folders.data).map_err(Failure::of)?;
    let client_key = Arc::new(ClientKey::open(&config.folders.data).map_err(Failure::of)?);
    // The tools come before the store: opening the store settles the attempts of the process before, which only a server that has its
    // tools may do.
    let tools = LiveTools::open(&config, setup.handlers).await?;
    let store = open_store(held)?;
    let (knowledge, toolbox) = (tools.knowledge.clone(), tools.toolbox.clone());
    let metrics = Arc::new(Metrics::default());
    let port = Port::take(config.server.listen.get())?;
    let (address, (over, is_over)) = (port.address, channel::channel(false));
    let access = Access::open(&config, address, &client_key)?;
    tokio::spawn(access.keys.clone().follow(is_over.clone()));
    let pictures = hold_pictures(&config, is_over.clone())?;
    let mut capabilities = SharedCapabilities::new(&config, knowledge.clone(), store.clone())?;
    let addresses =
        PictureAddresses::new(client_key.clone(), config.store.conversation_hours.get());
    capabilities.pictures = Some((pictures.clone(), addresses));
    let handovers = HandoverDesk::open(&config)?;
    tokio::spawn(handovers.clone().follow(is_over.clone()));
    capabilities.handovers = Some(handovers.clone());
    let records = Records::open(&config, store.clone())?;
    let connections = ConnectionDesk::open(&config, records.audit())?;
    capabilities.connections.clone_from(&connections);
    let watching: Vec<Arc<dyn Subscriber>> = vec![capabilities.voice.clone()];
    let shared = records.shared(metrics.clone(), watching);
    capabilities.ledger = Some(shared.ledger.clone());
    if let Some(ends) = TaskEnds::of(&config, shared.ledger.clone())? {
        tokio::spawn(ends.follow(is_over.clone()));
    }
    let sweeping = sweep(
        &records,
        &shared,
        &capabilities,
        (&toolbox, &config.text.limits),
    );
    let settings = text_provider::settings(&config, choice, is_over.clone()).await?;
    let provider = provider::settings(&config, choice, &settings, is_over.clone()).await?;
    let models = [
        provider::voice_line(&config, choice),
        text_provider::text_line(
            &config,
            settings.models.first().map(|model| &model.protocol),
        ),
    ];
    let capabilities_of_chat = (&capabilities, pictures);
    let watchers = (&metrics, records.audit());
    let chat = chat(
        &config,
        settings,
        &toolbox,
        capabilities_of_chat,
        &shared,
        watchers,
        &is_over,
    );
    let telling = chat.clone();
    tokio::spawn(telling.deliver_ticket_replies_until_over(handovers.clone(), is_over.clone()));
    let registry = toolbox.load().of(Mode::Text).all().registry.clone();
    let offered = suggestions(choice, &knowledge, &registry).await;
    let host = Arc::new(VoiceHost {
        toolbox,
        profile: tools.workshop.profile.clone(),
        model: provider::model_of(&config).into(),
        provider,
        limits: Arc::new(config.voice.limits.clone()),
        capabilities,
        metrics: metrics.clone(),
        chat: chat.clone(),
    });
    let (watch, refresher) = tools.follow(&host, setup.watch)?;
    let shutdown_timeout = Duration::from_secs(config.server.shutdown_seconds.get());
    let mcp = McpHost::new(&config, chat.clone(), knowledge.clone(), client_key.clone());
    let state = Arc::new(ServerState {
        info: info(&config, choice, chat.has_model(), &registry, offered),
        host_rule: HostRule {
            allowed: config.server.allowed_hosts.clone(),
            listens: address,
        },
        origin_rule: origin_rule(&config, address),
        is_local_alone: !access.is_required && is_local(&config, address),
        access,
        client_key,
        ended_clients: EndedClients::open(store.clone()).map_err(Failure::of)?,
        knowledge,
        knowledge_folder: (*config.folders.knowledge).into(),
        voice: VoiceService::new(voice_settings(&config, shutdown_timeout), host, shared),
        chat,
        handovers,
        connections,
        mcp: Arc::new(mcp),
        serves_mcp: config.mcp_server.enabled,
        request_bytes_max: config.text.request_bytes_max.count(),
        picture_limits: PictureLimits::of(&config),
        metrics,
        shares: Shares::new(config.shares.limits(&config.text)),
        completions: web::once::Answers::default(),
        draining: AtomicBool::new(false),
    });
    // The last thing that can fail: an open port means a server.
    let accepting = accept(port.listen()?, &state, &config, is_over);
    state.chat.toolbox.load().prepare_handlers();
    Ok(Server {
        address,
        demo_notice: provider::demo_notice(&config.provider, choice),
        models,
        state,
        accepting,
        over,
        records,
        shutdown_timeout,
        sweeping,
        store,
        watch,
        refresher,
    })
}

/// The conversations in memory, which leave it by themselves until the server is over.
fn hold_conversations(
    config: &Config,
    shared: &Shared,
    is_over: channel::Receiver<bool>,
) -> Arc<TextConversations> {
    let conversations = Arc::new(TextConversations::new(&config.text, shared.clone()));
    tokio::spawn(conversations.clone().sweep(is_over));
    conversations
}

/// Settles the lost attempts, from now until the server is over.
fn sweep(
    records: &Records,
    shared: &Shared,
    capabilities: &SharedCapabilities,
    (toolbox, limits): (&Arc<ArcSwap<Toolbox>>, &Limits),
) -> JoinHandle<()> {
    let toolbox = toolbox.clone();
    let sweeper = Sweeper {
        ledger: shared.ledger.clone(),
        capabilities: Arc::new(capabilities.clone()),
        audit: records.audit(),
        threads: shared.threads.clone(),
        registry: Arc::new(move || toolbox.load().of(Mode::Text).all().registry.clone()),
        limits: Arc::new(limits.clone()),
        user_of: Arc::new(|conversation| {
            crate::chat::owner::ConversationOwner::of(&conversation.user_id).user_id
        }),
    };
    tokio::spawn(sweeper.run())
}

fn chat(
    config: &Config,
    settings: Arc<TextSettings>,
    toolbox: &Arc<ArcSwap<Toolbox>>,
    (capabilities, pictures): (&SharedCapabilities, Arc<PictureFiles>),
    shared: &Shared,
    (metrics, audit): (&Arc<Metrics>, Option<Arc<Audit>>),
    is_over: &channel::Receiver<bool>,
) -> Arc<ChatHost> {
    Arc::new(ChatHost {
        toolbox: toolbox.clone(),
        settings,
        limits: Arc::new(config.text.limits.clone()),
        voice_limits: Arc::new(config.voice.limits.clone()),
        entry_bytes_max: config.store.entry_bytes_max.count(),
        resume_patience: Duration::from_secs(config.text.resume_seconds.get()),
        capabilities: capabilities.clone(),
        shared: shared.clone(),
        conversations: hold_conversations(config, shared, is_over.clone()),
        sessions: Arc::default(),
        completing: Completing::default(),
        remote_keys: RunningKeys::default(),
        metrics: metrics.clone(),
        pictures,
        picture_limits: PictureLimits::of(config),
        audit,
    })
}

/// The pictures of the data folder, which are removed by themselves until the server is over.
fn hold_pictures(
    config: &Config,
    is_over: channel::Receiver<bool>,
) -> Result<Arc<PictureFiles>, Failure> {
    let limits = kept(config);
    let kept_for = Duration::from_millis(limits.conversation_ms.max(limits.effect_ms));
    let bytes_max = config.text.pictures_bytes_max.get();
    let pictures = PictureFiles::open(&config.folders.data, bytes_max, kept_for);
    let pictures = Arc::new(pictures.map_err(Failure::of)?);
    tokio::spawn(pictures.clone().sweep(is_over));
    Ok(pictures)
}

fn hold_folder(config: &Config) -> Result<HeldFolder, Failure> {
    let folder = &config.folders.data;
    SqliteStore::make_folder(folder).map_err(Failure::of)?;
    let key = ledger_key(folder).map_err(Failure::of)?;
    let settings = records::store_settings(key, kept(config))?;
    SqliteStore::hold(folder, settings).map_err(|error| match error {
        // The store knows of no command line.
        OpenError::InUse { .. } => Failure::Failed(format!("{error} with --data")),
        error => Failure::of(error),
    })
}

fn open_store(held: HeldFolder) -> Result<Arc<dyn Store>, Failure> {
    let store = held.open().map_err(Failure::of)?;
    if let Some(path) = store.set_aside() {
        tracing::warn!(
            file = %path.display(),
            "the store of an earlier version was set aside, and an empty one begun; nothing reads the file any more"
        );
    }
    if let Err(error) = settle_left(&store) {
        tracing::warn!(%error, "changes that the process before had begun cannot be settled yet");
    }
    Ok(Arc::new(store))
}

/// Settles the attempts of the process before: they count as unknown before the first request comes.
fn settle_left(store: &SqliteStore) -> Result<(), StoreUnavailable> {
    loop {
        let lapsed = store.due()?.lapsed;
        let settle = |conversation| Batch {
            conversation,
            commands: vec![Command::Settle],
        };
        let batches: Vec<Batch> = lapsed.into_iter().map(settle).collect();
        let replies = store.commit(&batches)?;
        let has_settled =
            |reply: &Reply| matches!(reply, Reply::Settled(effects) if !effects.is_empty());
        if !replies.iter().flatten().any(has_settled) {
            return Ok(());
        }
    }
}

/// The store's limits: a conversation is kept no longer than the chat knows it.
fn kept(config: &Config) -> StoreLimits {
    let idle_ms = config.text.conversation_idle_seconds.get() * 1_000;
    let limits = config.store.limits(&config.shares, &config.tasks);
    StoreLimits {
        conversation_ms: limits.conversation_ms.min(idle_ms),
        ..limits
    }
}

fn voice_settings(config: &Config, shutdown_timeout: Duration) -> VoiceSettings {
    VoiceSettings {
        sessions_max: config.server.sessions_max.count(),
        start_timeout: Duration::from_secs(config.server.start_seconds.get()),
        shutdown_timeout,
        ..VoiceSettings::with_images_up_to(config.voice.image_bytes_max.count())
    }
}

fn origin_rule(config: &Config, address: SocketAddr) -> OriginRule {
    OriginRule {
        allowed: config.server.allowed_origins.clone(),
        is_loopback: address.ip().is_loopback(),
    }
}

/// Whether all callers are on this machine: no setting names a proxy or another name in front of the server.
fn is_local(config: &Config, address: SocketAddr) -> bool {
    let server = &config.server;
    address.ip().is_loopback()
        && server.allowed_hosts.is_empty()
        && server.user_header.is_none()
        && server.trusted_proxies.is_empty()
}

fn accept(
    listener: TcpListener,
    state: &Arc<ServerState>,
    config: &Config,
    is_over: channel::Receiver<bool>,
) -> JoinHandle<()> {
    let router = web::router(state.clone());
    let limits = listener_limits(&config.server, state.shares.clone());
    tokio::spawn(listener::serve(listener, router, limits, is_over))
}

fn listener_limits(server: &config::Server, shares: Arc<Shares>) -> ListenerLimits {
    let proxies = server.trusted_proxies.iter();
    ListenerLimits {
        connections_max: server.connections_max.count(),
        head_bytes_max: server.head_bytes_max.count(),
        patience: Patience {
            head: Duration::from_secs(server.head_seconds.get()),
            body: Duration::from_secs(server.body_seconds.get()),
            body_idle: Duration::from_secs(server.body_idle_seconds.get()),
            write: Duration::from_secs(server.write_seconds.get()),
            request: Duration::from_secs(server.request_seconds.get()),
        },
        proxies: Arc::new(proxies.map(|proxy| proxy.get()).collect()),
        shares: Some(shares),
    }
}

impl Server {
    /// The address at which it listens, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The chat, where there is a model for text.
    pub(crate) fn chat(&self) -> Option<Arc<ChatHost>> {
        self.state.speaking_chat().cloned()
    }

    /// The server's side of MCP, whichever way its clients come.
    pub(crate) fn mcp(&self) -> &Arc<McpHost> {
        &self.state.mcp
    }

    /// Whether this user can approve calls on the page: they can sign in there, or no one has to.
    pub(crate) fn approves(&self, caller: &Caller) -> bool {
        self.state.is_local_alone || is_proven_id(caller.client_id.as_str())
    }

    /// Whether the model is the demo model: rules, no AI.
    pub fn is_demo(&self) -> bool {
        self.demo_notice.is_some()
    }

    /// Why the model is the demo model, in one line that says how to have another; `None` where it is not.
    pub fn demo_notice(&self) -> Option<&str> {
        self.demo_notice.as_deref()
    }

    /// A line for each mode, voice and text: its model, and why.
    pub fn models(&self) -> &[String] {
        &self.models
    }

    /// Tells every session that the server ends, waits until they have ended or their time is up, and stops listening.
    pub async fn shut_down(self) {
        self.state.draining.store(true, Ordering::Release);
        self.state.voice.shut_down();
        let patience = self.shutdown_timeout + DRAIN_GRACE;
        let (voice, chat) = tokio::join!(
            tokio::time::timeout(patience, self.state.voice.drained()),
            tokio::time::timeout(patience, self.state.chat.shut_down()),
        );
        if voice.is_err() {
            let sessions = self.state.voice.connections();
            tracing::warn!(sessions, "sessions were cut off");
        }
        if chat.is_err() {
            tracing::warn!("changes that conversations had begun were cut off");
        }
        self.over.send_replace(true);
        self.sweeping.abort();
        let _ = self.sweeping.await;
        if let Err(error) = self.accepting.await {
            tracing::error!(%error, "the listener broke");
        }
        self.records.close();
        drop((self.state, self.watch, self.refresher));
        release(self.store).await;
    }
}

/// Waits until the last task has let go of the store, and closes it, so that the next server of its folder finds the folder free.
async fn release(store: Arc<dyn Store>) {
    let released = async {
        while Arc::strong_count(&store) > 1 {
            tokio::time::sleep(RELEASE_PAUSE).await;
        }
    };
    if tokio::time::timeout(DRAIN_GRACE, released).await.is_err() {
        tracing::warn!("something of the server still has its store");
    }
}

/// The base for one call on the command line, with the vectors that are at hand.
pub(crate) async fn open_knowledge(config: &Config) -> Result<LiveKnowledge, Failure> {
    let maker = Maker::new(config, Audience::Users)?;
    if let Some(address) = &config.knowledge.postgres {
        let changes = KnowledgeChanges::unheard();
        let (live, _) = open_database(address.sensitive(), &maker, changes).await?;
        return Ok(live);
    }
    let (base, _) = maker.make_for_users().await?;
    Ok(LiveKnowledge::new(base))
}

/// A port that is taken early, so that a taken one is reported at once. It accepts no connection yet.
struct Port {
    socket: TcpSocket,
    wanted: SocketAddr,
    /// With the port that it was really given.
    address: SocketAddr,
}

impl Port {
    fn take(wanted: SocketAddr) -> Result<Self, Failure> {
        let taken = || {
            let socket = match wanted {
                SocketAddr::V4(_) => TcpSocket::new_v4()?,
                SocketAddr::V6(_) => TcpSocket::new_v6()?,
            };
            // Connections of the server before may still be about to end.
            #[cfg(unix)]
            socket.set_reuseaddr(true)?;
            socket.bind(wanted)?;
            let address = socket.local_addr()?;
            Ok(Self {
                socket,
                wanted,
                address,
            })
        };
        taken().map_err(|error| cannot_listen(wanted, &error))
    }

    fn listen(self) -> Result<TcpListener, Failure> {
        let wanted = self.wanted;
        let listener = self.socket.listen(CONNECTIONS_WAITING_MAX);
        listener.map_err(|error| cannot_listen(wanted, &error))
    }
}

pub(crate) fn cannot_listen(wanted: SocketAddr, error: &std::io::Error) -> Failure {
    let cure = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another program has the port: end it, or choose another one with --listen"
        }
        std::io::ErrorKind::PermissionDenied => "; choose a port above 1023 with --listen",
        _ => "; choose another address with --listen",
    };
    Failure::Failed(format!("cannot listen on {wanted}: {error}{cure}"))
}

fn info(
    config: &Config,
    choice: Choice,
    has_text: bool,
    registry: &Registry,
    suggestions: Vec<String>,
) -> Info {
    Info {
        name: "Windlass",
        version: env!("CARGO_PKG_VERSION"),
        provider: choice.name(),
        model: match choice {
            Choice::GeminiLive | Choice::OpenaiRealtime | Choice::GptLive => {
                provider::model_of(config).to_owned()
            }
            Choice::Demo => "demo model".to_owned(),
        },
        demo: choice == Choice::Demo,
        suggestions,
        text: TextInfo {
            provider: text_provider::name(config.text_provider),
            model: text_provider::model_name(config),
            available: has_text,
            typed: has_text && text_provider::answers_typed(config.text_provider, registry),
        },
    }
}
