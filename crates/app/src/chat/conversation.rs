//! The conversations that the server holds: whose they are, what was said in them, which turns can be heard again. Bounded
//! in number and in time. Knows no model and no HTTP.

use super::record::TurnRecord;
use crate::clock;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use windlass_runtime::config::Text;
use windlass_runtime::subscriber::{SessionIdentity, Subscriber};
use windlass_runtime::text::TextSession;
use windlass_session::event::SessionEvent;
use windlass_session::model::HistoryEntry;
use windlass_tool::id::{ClientId, ConversationId};
use windlass_tool::kind::Mode;
use windlass_tool::sensitive::Sensitive;

/// Turns of one conversation that can be heard again, and their bytes.
const RECORDS_MAX: usize = 8;
const RECORDED_BYTES_MAX: usize = 64 * 1024;
/// Bytes of what was said that a conversation hands to its next session.
const SAID_BYTES_MAX: usize = 32 * 1024;

/// All of them.
pub(crate) struct Conversations {
    held: Mutex<HashMap<ConversationId, Arc<Conversation>>>,
    conversations_max: usize,
    idle_ms: u64,
}

/// One of them.
pub(crate) struct Conversation {
    pub(crate) id: ConversationId,
    /// Only this client may go on with it; `None` where whoever knows its id may.
    owner: Option<ClientId>,
    /// Taken for the length of a turn.
    pub(crate) session: tokio::sync::Mutex<Option<TextSession>>,
    /// Somebody waits for the session.
    pub(crate) wanted: tokio::sync::Notify,
    state: Mutex<State>,
    used_unix_ms: AtomicU64,
}

#[derive(Default)]
struct State {
    turns: VecDeque<KnownTurn>,
    /// What was said in text and by voice, for a session that begins.
    said: VecDeque<HistoryEntry>,
    said_bytes: usize,
    /// What of it was said by voice since the text session was last used.
    heard_by_voice: Vec<HistoryEntry>,
    pending_request: Option<String>,
}

struct KnownTurn {
    message: Option<String>,
    record: Arc<TurnRecord>,
}

impl Conversations {
    pub(crate) fn new(text: &Text) -> Self {
        Self {
            held: Mutex::default(),
            conversations_max: text.conversations_max.count(),
            idle_ms: text.conversation_idle_seconds.get() * 1_000,
        }
    }

    pub(crate) fn get(&self, id: &ConversationId) -> Option<Arc<Conversation>> {
        self.lock().get(id).cloned()
    }

    /// The conversation of this id, and whether it is new. Those that have to go for it are ended.
    pub(crate) fn open(
        &self,
        id: &ConversationId,
        owner: Option<&ClientId>,
    ) -> (Arc<Conversation>, bool) {
        let now = clock::now_unix_ms();
        let mut held = self.lock();
        if let Some(known) = held.get(id)
            && !known.is_forgotten(now, self.idle_ms)
        {
            let known = known.clone();
            known.touch();
            return (known, false);
        }
        let mut gone: Vec<_> = held.remove(id).into_iter().collect();
        if held.len() >= self.conversations_max {
            gone.extend(make_room(&mut held, now, self.idle_ms));
        }
        let conversation = Arc::new(Conversation {
            id: id.clone(),
            owner: owner.cloned(),
            session: tokio::sync::Mutex::new(None),
            wanted: tokio::sync::Notify::new(),
            state: Mutex::default(),
            used_unix_ms: AtomicU64::new(now),
        });
        held.insert(id.clone(), conversation.clone());
        drop(held);
        for gone in gone {
            tokio::spawn(gone.end());
        }
        (conversation, true)
    }

    /// All of them, which are forgotten here.
    pub(crate) fn take_all(&self) -> Vec<Arc<Conversation>> {
        self.lock().drain().map(|(_, held)| held).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Arc<Conversation>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets those go whose time is up, and then those that rest longest: a tenth at a time, so that the search is paid for by
/// many conversations.
fn make_room(
    held: &mut HashMap<ConversationId, Arc<Conversation>>,
    now: u64,
    idle_ms: u64,
) -> Vec<Arc<Conversation>> {
    let mut times: Vec<u64> = held.values().map(|one| one.used()).collect();
    let (_, tenth, _) = times.select_nth_unstable(held.len() / 10);
    let latest_gone = *tenth;
    let leaves = |one: &Arc<Conversation>| {
        one.is_forgotten(now, idle_ms) || (one.used() <= latest_gone && !one.is_busy())
    };
    held.extract_if(|_, one| leaves(one))
        .map(|(_, one)| one)
        .collect()
}

impl Conversation {
    /// Whether this client may go on with it.
    pub(crate) fn admits(&self, client: &ClientId) -> bool {
        self.owner.as_ref().is_none_or(|owner| owner == client)
    }

    pub(crate) fn touch(&self) {
        self.used_unix_ms
            .store(clock::now_unix_ms(), Ordering::Relaxed);
    }

    /// Ends its session and waits for the changes that are under way.
    pub(crate) async fn end(self: Arc<Self>) {
        self.wanted.notify_one();
        let session = self.session.lock().await.take();
        if let Some(session) = session {
            session.end().await;
        }
    }

    fn used(&self) -> u64 {
        self.used_unix_ms.load(Ordering::Relaxed)
    }

    fn is_forgotten(&self, now: u64, idle_ms: u64) -> bool {
        self.used().saturating_add(idle_ms) <= now && !self.is_busy()
    }

    fn is_busy(&self) -> bool {
        self.running().is_some()
    }

    /// The turn that has not ended.
    pub(crate) fn running(&self) -> Option<Arc<TurnRecord>> {
        let state = self.lock();
        let last = state.turns.back().map(|turn| turn.record.clone());
        last.filter(|record| !record.is_over())
    }

    /// The turn that answers, or has answered, a message of the client's.
    pub(crate) fn turn_of(&self, message: &str) -> Option<Arc<TurnRecord>> {
        let state = self.lock();
        let known = |turn: &&KnownTurn| turn.message.as_deref() == Some(message);
        state
            .turns
            .iter()
            .rev()
            .find(known)
            .map(|turn| turn.record.clone())
    }

    /// A turn begins. Older ones are forgotten where there are too many.
    pub(crate) fn begin_turn(&self, message: Option<String>, record: Arc<TurnRecord>) {
        let mut state = self.lock();
        let mut bytes = 0;
        let kept = state
            .turns
            .iter()
            .rev()
            .take(RECORDS_MAX - 1)
            .take_while(|turn| {
                bytes += turn.record.bytes();
                bytes <= RECORDED_BYTES_MAX
            })
            .count();
        let forgotten = state.turns.len() - kept;
        state.turns.drain(..forgotten);
        state.turns.push_back(KnownTurn { message, record });
    }

    /// What a session of the other mode is told of the conversation.
    pub(crate) fn said(&self) -> Vec<HistoryEntry> {
        self.lock().said.iter().cloned().collect()
    }

    /// What was said by voice since the last time.
    pub(crate) fn take_heard_by_voice(&self) -> Vec<HistoryEntry> {
        std::mem::take(&mut self.lock().heard_by_voice)
    }

    /// What the voice session is to answer first.
    pub(crate) fn ask_by_voice(&self, pending_request: Option<String>) {
        self.lock().pending_request = pending_request;
    }

    pub(crate) fn take_pending_request(&self) -> Option<String> {
        self.lock().pending_request.take()
    }

    /// The client's account of what was said before the server knew the conversation.
    pub(crate) fn seed(&self, entries: &[HistoryEntry]) {
        let mut state = self.lock();
        for entry in entries {
            state.remember(entry.clone());
        }
    }

    fn hear(&self, mode: Mode, entry: HistoryEntry) {
        self.touch();
        let mut state = self.lock();
        if mode == Mode::Voice {
            let entries = state.heard_by_voice.len();
            // What goes past the bound is in the transcript of the voice session alone.
            if entries < 500 {
                state.heard_by_voice.push(entry.clone());
            }
        }
        state.remember(entry);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remember(&mut self, entry: HistoryEntry) {
        self.said_bytes += entry.text.expose().len();
        self.said.push_back(entry);
        while self.said_bytes > SAID_BYTES_MAX {
            let Some(oldest) = self.said.pop_front() else {
                break;
            };
            self.said_bytes -= oldest.text.expose().len();
        }
    }
}

/// Writes down what is said, in whichever mode, for the session that follows.
impl Subscriber for Conversations {
    fn event(&self, session: &SessionIdentity, _now_unix_ms: u64, event: &SessionEvent) {
        if let SessionEvent::Transcript { role, text, .. } = event
            && let Some(conversation) = self.get(&session.conversation_id)
            // A voice session may bear the id of somebody else's conversation; it adds nothing to that.
            && conversation.admits(&session.client_id)
        {
            let entry = HistoryEntry {
                role: *role,
                text: Sensitive(text.expose().clone()),
            };
            conversation.hear(session.mode, entry);
        }
    }
}
