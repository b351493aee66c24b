//! The voice endpoint behind its upgrade: one task per session that owns both sockets, the core, the codec and the audio. Knows
//! neither HTTP nor configuration files; the [`Host`] decides who may start which session.

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
use windlass_contract::handler::Capabilities;
use windlass_contract::id::UserId;
use windlass_contract::sensitive::Sensitive;
use windlass_session::client::ErrorCode;
use windlass_session::session::SessionConfig;
use windlass_store::{ConversationRef, LegRef, PartyKind};

/// Limits of voice sessions. The defaults are the documented ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoiceSettings {
    /// Sessions at a time, including sessions without a client and sessions whose last changes still run.
    pub sessions_max: usize,
    /// Time for a client to send `start`.
    pub start_timeout: Duration,
    /// Time for the provider from the first byte to accepting the setup.
    pub setup_timeout: Duration,
    /// Bad messages after which the client is disconnected.
    pub bad_messages_max: u32,
    pub client_socket: SocketLimits,
    /// Time for which a client may take nothing of its queue.
    pub client_stall_timeout: Duration,
    /// Time without a byte after which a client is pinged.
    pub client_ping_after: Duration,
    /// Time without a byte after which a client is lost.
    pub client_silence_timeout: Duration,
    /// Time for a closing handshake.
    pub close_timeout: Duration,
    /// Time for which a session may go on when the server shuts down.
    pub shutdown_timeout: Duration,
    pub audio: AudioLimits,
    /// Bytes of one picture that a client shows.
    pub image_bytes_max: usize,
}

/// Bytes of a picture by default.
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
                // 22 seconds of speech, which providers make faster than it is played.
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
    /// The defaults, except for the size of the pictures that clients may show.
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

/// Decides which session a client gets. Every method is called on the connection's task, so it must not block for long.
pub trait Host: Send + Sync {
    /// The user and the conversation of a caller's session. Called first, before anything is done for the session.
    fn admit(&self, caller: &Caller, start: &Start) -> Result<Party, Refusal>;

    /// The session, once its conversation is open: a new one, or that of a resumed leg. The earlier words and the numbers of the
    /// calls are added later, from the log.
    fn start(
        &self,
        party: &Party,
        start: Start,
        leg: Option<&LegRef>,
    ) -> Result<Admission, Refusal>;

    /// The user of a conversation in the ledger's form, for a caller that resumes and may name a user.
    fn ledger_user(
        &self,
        caller: &Caller,
        conversation: &ConversationRef,
        named: Option<&str>,
    ) -> UserId;

    /// The message to a client that gets no new conversation, because the party has as many as its share.
    fn crowded(&self, kind: PartyKind) -> String;

    /// The user of a conversation in the sessions' form.
    fn user_of(&self, conversation: &ConversationRef) -> UserId;
}

/// The owner of a session, and its conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// The client of the session. The holder of a resume token may speak for another client than its own.
    pub caller: Caller,
    pub user_id: UserId,
    pub conversation: ConversationRef,
    /// Whether the conversation's id has just been made, so that the conversation is empty.
    pub is_new: bool,
}

/// A session as a client gets it.
pub struct Admission {
    pub session: SessionConfig,
    pub capabilities: Arc<dyn Capabilities>,
    pub provider: Box<dyn LiveProvider>,
    /// The token that the client shows to resume the session. Not read if a leg is resumed.
    pub resume_token: Sensitive<String>,
    /// The session's place among the sessions of its conversation. Dropped when the session has ended.
    pub lease: Box<dyn Send>,
}

/// The reason why a client gets no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The user is blocked until a time.
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
    /// The bytes behind the upgrade.
    pub already_read: Vec<u8>,
    pub caller: Caller,
    /// The parties whose shares the connection uses.
    pub standing: Standing,
    /// The connection's place among those that wait to begin. Dropped once the connection has a session, or is gone.
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

    /// Signals to every session that the server is shutting down. Each ends within the shutdown timeout.
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

/// The wall clock, for messages to clients; sessions get theirs from their capabilities.
fn unix_ms() -> u64 {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
