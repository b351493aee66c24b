//! The voice endpoint behind its upgrade: one task per session that owns both sockets, the core, the codec and the audio.
//! Knows neither HTTP nor configuration files; who may start what session is decided by the [`Host`].

mod beginning;
mod client_side;
mod client_task;
mod frame_sink;
mod link;
mod missed;
mod resume_registry;
mod running;
mod saving;
mod session_slot;
mod timer;

use crate::call_driver::Shared;
use crate::caller::Caller;
use crate::client_protocol::{self, Start};
use crate::codec::LiveProvider;
use crate::pump::AudioLimits;
use crate::shares::Standing;
use crate::transport::Stream;
use crate::transport::websocket::SocketLimits;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use windlass_session::client::ErrorCode;
use windlass_session::session::SessionConfig;
use windlass_store::{ConversationRef, LegRef, PartyKind};
use windlass_tool::handler::World;
use windlass_tool::id::UserId;
use windlass_tool::sensitive::Sensitive;

/// Limits of voice sessions. The defaults are the documented ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoiceSettings {
    /// How many sessions may run at a time, those among them that have lost their client and those whose last changes still run.
    pub sessions_max: usize,
    /// How long a client may take to send `start`.
    pub start_timeout: Duration,
    /// How long the provider may take from the first byte to accepting the setup.
    pub setup_timeout: Duration,
    /// After this many bad messages the client is disconnected.
    pub bad_messages_max: u32,
    pub client_socket: SocketLimits,
    /// How long a client may take nothing of what waits for it.
    pub client_stall_timeout: Duration,
    /// After this long without a byte a client is pinged.
    pub client_ping_after: Duration,
    /// After this long without a byte a client is lost.
    pub client_silence_timeout: Duration,
    /// How long a closing handshake may take.
    pub close_timeout: Duration,
    /// How long a session may go on when the server shuts down.
    pub shutdown_timeout: Duration,
    pub audio: AudioLimits,
    /// Of one picture that a client shows.
    pub image_bytes_max: usize,
}

/// Bytes of a picture where nothing else is said.
const IMAGE_BYTES_MAX: usize = 1 << 20;

impl Default for VoiceSettings {
    fn default() -> Self {
        Self {
            sessions_max: 1_000,
            start_timeout: Duration::from_secs(10),
            setup_timeout: Duration::from_secs(10),
            bad_messages_max: 20,
            client_socket: SocketLimits {
                messages: client_protocol::message_limits(IMAGE_BYTES_MAX),
                // 22 seconds of speech, which providers make faster than it is heard.
                queued_audio_bytes_max: 1024 * 1024,
                queued_bytes_max: 1536 * 1024,
            },
            client_stall_timeout: Duration::from_secs(10),
            client_ping_after: Duration::from_secs(30),
            client_silence_timeout: Duration::from_secs(90),
            close_timeout: Duration::from_secs(2),
            shutdown_timeout: Duration::from_secs(30),
            audio: AudioLimits::default(),
            image_bytes_max: IMAGE_BYTES_MAX,
        }
    }
}

impl VoiceSettings {
    /// The defaults, but for the size of the pictures that clients may show.
    pub fn with_images_up_to(image_bytes_max: usize) -> Self {
        let usual = Self::default();
        Self {
            image_bytes_max,
            client_socket: SocketLimits {
                messages: client_protocol::message_limits(image_bytes_max),
                ..usual.client_socket
            },
            ..usual
        }
    }
}

/// Decides what session a client gets. Everything is called on the connection's task, so it must not block for long.
pub trait Host: Send + Sync {
    /// In whose name a caller begins a session, and in which conversation. Called first, before anything is done for it.
    fn admit(&self, caller: &Caller, start: &Start) -> Result<Party, Refusal>;

    /// The session, once its conversation is open: a new one, or the leg that goes on. What was said before, and the numbers of
    /// the calls, are put in later, from the log.
    fn start(
        &self,
        party: &Party,
        start: Start,
        leg: Option<&LegRef>,
    ) -> Result<Admission, Refusal>;

    /// The user of a conversation as the ledger would have it if the caller went on with it, who may name a user.
    fn ledger_user(
        &self,
        caller: &Caller,
        conversation: &ConversationRef,
        named: Option<&str>,
    ) -> UserId;

    /// A party has as many conversations as its share, so that the client gets no new one; what it is told.
    fn crowded(&self, kind: PartyKind) -> String;

    /// The user of a conversation, as sessions have it.
    fn user_of(&self, conversation: &ConversationRef) -> UserId;
}

/// For whom a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// The client in whose name it is: who shows a resume token may speak for another than it shows itself to be.
    pub caller: Caller,
    pub user_id: UserId,
    pub conversation: ConversationRef,
    /// The conversation's id has just been made, so that nothing can have happened in it.
    pub is_new: bool,
}

/// A session as a client gets it.
pub struct Admission {
    pub session: SessionConfig,
    pub world: Arc<dyn World>,
    pub provider: Box<dyn LiveProvider>,
    /// Told to the client, which shows it to resume the session. Not read if a leg goes on.
    pub resume_token: Sensitive<String>,
    /// Dropped when the session has ended: its place among the sessions of its conversation.
    pub lease: Box<dyn Send>,
}

/// Why a client gets no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The user is not served until a time.
    Blocked {
        now_unix_ms: u64,
        until_unix_ms: u64,
        farewell_message: String,
    },
    Error {
        code: ErrorCode,
        message: String,
    },
}

/// A client whose upgrade to WebSocket is done.
pub struct Connection {
    pub stream: Box<dyn Stream>,
    /// What the upgrade read beyond its own end.
    pub already_read: Vec<u8>,
    pub caller: Caller,
    /// Whose shares it uses.
    pub standing: Standing,
    /// Dropped once the connection has a session, or is gone: its place among those that wait to begin.
    pub lease: Box<dyn Send>,
}

/// Serves voice sessions until it is told to shut down.
pub struct VoiceService {
    settings: VoiceSettings,
    host: Arc<dyn Host>,
    shared: Shared,
    resumable: resume_registry::ResumeRegistry,
    slots: session_slot::SessionSlots,
    shutdown: watch::Sender<bool>,
    connections: watch::Sender<usize>,
}

impl VoiceService {
    pub fn new(settings: VoiceSettings, host: Arc<dyn Host>, shared: Shared) -> Arc<Self> {
        Arc::new(Self {
            settings,
            host,
            shared,
            resumable: resume_registry::ResumeRegistry::default(),
            slots: session_slot::SessionSlots::default(),
            shutdown: watch::Sender::new(false),
            connections: watch::Sender::new(0),
        })
    }

    /// Serves one client to its end. Spawn it: everything of the session lives in this one future.
    pub async fn serve(self: Arc<Self>, connection: Connection) {
        self.connections.send_modify(|count| *count += 1);
        let _counted = Counted(self.clone());
        match client_task::ClientTask::new(self, connection) {
            Ok(task) => task.run().await,
            Err(problem) => tracing::error!(%problem, "a voice session could not begin"),
        }
    }

    /// Connected clients.
    pub fn connections(&self) -> usize {
        *self.connections.borrow()
    }

    /// Tells every session that the server is shutting down. Each ends within the shutdown timeout.
    pub fn shut_down(&self) {
        self.shutdown.send_replace(true);
    }

    /// Waits until no client is connected.
    pub async fn drained(&self) {
        let mut connections = self.connections.subscribe();
        // The sender is ours, so the wait cannot fail.
        let _ = connections.wait_for(|count| *count == 0).await;
    }
}

struct Counted(Arc<VoiceService>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.send_modify(|count| *count -= 1);
    }
}

/// The wall clock, for what clients are told; sessions get theirs from the world that they are given.
fn unix_ms() -> u64 {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
