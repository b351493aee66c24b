//! One conversation that the server holds: whose it is, what was said in it, which turns can be heard again. Knows no model
//! and no HTTP.

use super::archive::{Archive, Entry, Kept, KeptTurn};
pub(crate) use super::asked::Asked;
use super::held::HeldSession;
use super::record::{TurnReader, TurnRecord, TurnWriter};
use super::said::Said;
use crate::clock;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use windlass_runtime::effects::{Beside, Ended};
use windlass_session::io::TokenHash;
use windlass_session::model::HistoryEntry;
use windlass_tool::id::{ClientId, ConversationId, EffectId, UserId};
use windlass_tool::kind::Mode;

/// Turns of one conversation that can be heard again, and their bytes.
const RECORDS_MAX: usize = 8;
const RECORDED_BYTES_MAX: usize = 64 * 1024;
/// Questions to the user whose tokens speak for whoever shows them.
const ASKED_MAX: usize = 64;

pub(crate) struct Conversation {
    pub(crate) id: ConversationId,
    /// Only this client may go on with it; `None` where whoever knows its id may.
    owner: Option<ClientId>,
    archive: Archive,
    /// Taken for the length of a turn.
    session: tokio::sync::Mutex<Option<HeldSession>>,
    /// How many wait for the session.
    waiting: watch::Sender<usize>,
    state: Mutex<State>,
    used_unix_ms: AtomicU64,
}

#[derive(Default)]
struct State {
    turns: VecDeque<KnownTurn>,
    /// What was said in text and by voice, for a session that begins.
    said: Said,
    /// What of it the store does not have yet.
    unsaved: Said,
    /// What of it was said by voice since the text session was last used.
    heard_by_voice: Vec<HistoryEntry>,
    pending_request: Option<String>,
    /// For whom the last text session was, and where it had got to, where that one is gone.
    ended: Option<(UserId, Ended)>,
    /// Its id has just been made, and no session has begun under it.
    is_new: bool,
    /// The questions whose tokens its client was given.
    asked: VecDeque<Asked>,
}

struct KnownTurn {
    message: Option<Message>,
    record: Arc<TurnRecord>,
    /// It was broken off: its message has no answer, and is taken up again when it comes again.
    is_broken_off: bool,
}

/// A message of the client's, as far as it is told from others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    /// The client's id of it.
    #[serde(rename = "message")]
    pub(crate) id: String,
    /// The hash of what it says, where that is known: another text under the same id is an edited message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<[u8; 32]>,
}

/// What a message comes to.
pub(crate) enum Claim {
    /// It is answered, or was, and can be heard here.
    Known(TurnReader),
    /// Another one is being answered, to somebody who listens.
    Busy,
    /// Its turn is to be run, written at the one end and read at the other.
    New {
        record: Arc<TurnRecord>,
        writer: TurnWriter,
        reader: TurnReader,
        /// Its id is that of an earlier message that said something else.
        edits: bool,
    },
}

/// What a client brings to be answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    /// By what it is known when it comes again.
    pub(crate) message: Option<Message>,
    /// Another answer is wanted than the one that it had.
    pub(crate) again: bool,
    /// It does not give way to a turn that runs, but waits for it.
    pub(crate) waits: bool,
}

impl Conversation {
    pub(crate) fn new(id: ConversationId, owner: Option<ClientId>, archive: Archive) -> Self {
        Self {
            id,
            owner,
            archive,
            session: tokio::sync::Mutex::new(None),
            waiting: watch::Sender::new(0),
            state: Mutex::default(),
            used_unix_ms: AtomicU64::new(clock::now_unix_ms()),
        }
    }

    /// A conversation that goes on where the store has it.
    pub(crate) fn kept(id: ConversationId, kept: Kept, archive: Archive) -> Self {
        let conversation = Self::new(id, kept.owner, archive);
        let mut state = conversation.lock();
        if let Some((user_id, ended)) = &kept.ended {
            let asked = |token_hash| Asked {
                token_hash,
                user_id: user_id.clone(),
                client_id: None,
                by_voice: false,
                is_here: false,
            };
            let hashes = ended.questions.iter().map(|(hash, _)| *hash);
            state.asked = hashes.map(asked).collect();
        }
        state.ended = kept.ended;
        for entry in kept.entries {
            for asked in entry.asked {
                state.has_asked(asked);
            }
            for said in entry.said {
                state.said.remember(said);
            }
            if let (Some(message), Some(answer)) = (entry.message, entry.answer) {
                let record = TurnRecord::of(answer.into_inner().into_bytes());
                state.begin_turn(Some(message), record);
            }
        }
        drop(state);
        conversation
    }

    /// Whether this client may go on with it.
    pub(crate) fn admits(&self, client: &ClientId) -> bool {
        self.owner.as_ref().is_none_or(|owner| owner == client)
    }

    /// The client that alone may go on with it, where there is one.
    pub(crate) fn owner(&self) -> Option<&ClientId> {
        self.owner.as_ref()
    }

    /// Its user is asked something.
    pub(crate) fn has_asked(&self, asked: Asked) {
        self.lock().has_asked(asked);
    }

    /// The question that has the token of this hash, where its user was given that.
    pub(crate) fn asked(&self, token_hash: &TokenHash) -> Option<Asked> {
        let state = self.lock();
        let mut asked = state.asked.iter();
        asked.find(|asked| asked.token_hash == *token_hash).cloned()
    }

    pub(crate) fn touch(&self) {
        self.used_unix_ms
            .store(clock::now_unix_ms(), Ordering::Relaxed);
    }

    /// The session, once whoever has it lets go of it: a turn at its end, and what looks after calls between turns at once.
    pub(crate) async fn session(&self) -> tokio::sync::MutexGuard<'_, Option<HeldSession>> {
        let _wanting = Wanting::new(&self.waiting);
        self.session.lock().await
    }

    /// Lets changes that have begun come to their end, and what came of them be stored, unless somebody wants the session, who
    /// looks after them then.
    pub(crate) async fn look_after_calls(&self) {
        let mut wanted = self.waiting.subscribe();
        let mut place = self.session.lock().await;
        let Some(session) = &mut *place else { return };
        while session.is_working() {
            tokio::select! {
                // The sender is ours, so that the wait cannot fail.
                _ = wanted.wait_for(|waiting| *waiting > 0) => return,
                () = session.work() => {}
            }
        }
    }

    /// Lets go of its session and waits for the changes that are under way. What the store has of the conversation stays,
    /// and what the user was asked can still be answered there.
    pub(crate) async fn leave(self: Arc<Self>) {
        let session = self.session().await.take();
        if let Some(session) = session {
            session.suspend().await;
        }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used_unix_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn is_forgotten(&self, now: u64, idle_ms: u64) -> bool {
        self.used().saturating_add(idle_ms) <= now && !self.is_busy()
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.lock().running().is_some()
    }

    /// Finds the turn that a message has, or begins one, in one step: of two that bring the same message at once, one
    /// begins its turn and the other listens to it.
    pub(crate) fn claim(&self, mut delivery: Delivery) -> Claim {
        let mut state = self.lock();
        if let Some(message) = delivery.message.as_ref().filter(|_| !delivery.again)
            && let Some(reader) = state.turn_of(message).and_then(|record| record.join())
        {
            if !delivery.waits {
                return Claim::Known(reader);
            }
            // Whoever brings the message once more is to hear that turn, and not what comes of this one.
            delivery.message = None;
        }
        let running = state.running();
        if !delivery.waits && running.is_some_and(|running| running.has_readers()) {
            return Claim::Busy;
        }
        let edits = delivery
            .message
            .as_ref()
            .is_some_and(|message| state.is_edited(message));
        let (record, writer) = TurnRecord::new();
        let reader = record.reader();
        state.begin_turn(delivery.message, record.clone());
        Claim::New {
            record,
            writer,
            reader,
            edits,
        }
    }

    /// A turn that never ran, or that has no answer: its message may be sent again.
    pub(crate) fn disclaim(&self, record: &Arc<TurnRecord>) {
        let mut state = self.lock();
        state
            .turns
            .retain(|turn| !Arc::ptr_eq(&turn.record, record));
    }

    /// A turn that was broken off before its answer was complete: its message is answered when it comes again, and what is
    /// told of it until then is that it was said.
    pub(crate) fn break_off(&self, record: &Arc<TurnRecord>) {
        let mut state = self.lock();
        let mut turns = state.turns.iter_mut();
        if let Some(turn) = turns.find(|turn| Arc::ptr_eq(&turn.record, record)) {
            turn.is_broken_off = true;
        }
    }

    /// What a session that begins is told of the conversation.
    pub(crate) fn said(&self) -> Vec<HistoryEntry> {
        self.lock().said.all()
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

    /// Its id has just been made, so that nothing can have happened under it.
    pub(crate) fn has_no_past(&self) {
        self.lock().is_new = true;
    }

    /// Whether that is so, once: then a session begins.
    pub(crate) fn take_newness(&self) -> bool {
        std::mem::take(&mut self.lock().is_new)
    }

    /// Where the session before the next one had got to, once.
    pub(crate) fn take_ended(&self) -> Option<(UserId, Ended)> {
        self.lock().ended.take()
    }

    /// The same, which stays.
    pub(crate) fn ended(&self) -> Option<(UserId, Ended)> {
        self.lock().ended.clone()
    }

    /// It could not be heeded now, and is to be the next time.
    pub(crate) fn put_back_ended(&self, ended: (UserId, Ended)) {
        self.lock().ended = Some(ended);
    }

    /// The client's account of what was said before the server knew the conversation.
    pub(crate) fn seed(&self, entries: &[HistoryEntry]) {
        let mut state = self.lock();
        for entry in entries {
            state.remember(entry.clone());
        }
    }

    pub(crate) fn hear(&self, mode: Mode, entry: HistoryEntry) {
        self.touch();
        let mut state = self.lock();
        // One that is sent again after its answer was broken off has been said once.
        if mode == Mode::Text && state.said.ends_with(&entry) {
            return;
        }
        if mode == Mode::Voice {
            let entries = state.heard_by_voice.len();
            // What goes past the bound is in the transcript of the voice session alone.
            if entries < 500 {
                state.heard_by_voice.push(entry.clone());
            }
        }
        state.remember(entry);
    }

    /// Keeps what was said by voice.
    pub(crate) fn keep_said(&self) {
        let said = self.lock().unsaved.take();
        if !said.is_empty() {
            let entry = Entry {
                said,
                ..Entry::default()
            };
            self.keep(entry, None, Vec::new());
        }
    }

    /// Keeps a turn that is over, with the changes of whose ends it has spoken.
    pub(crate) fn keep_turn(
        &self,
        record: &Arc<TurnRecord>,
        ended: (UserId, Ended),
        answered: Vec<EffectId>,
    ) {
        let mut state = self.lock();
        let said = state.unsaved.take();
        let known = |turn: &&KnownTurn| Arc::ptr_eq(&turn.record, record) && !turn.is_broken_off;
        let turn = state.turns.iter().find(known);
        let message = turn.and_then(|turn| turn.message.clone());
        drop(state);
        // A message without an id cannot be known when it comes again.
        let answer = message.as_ref().map(|_| record.clone());
        let entry = Entry {
            ended: Some(ended),
            message,
            answer: None,
            said,
            asked: Vec::new(),
        };
        self.keep(entry, answer, answered);
    }

    /// What keeps a turn that has not ended, together with a question of it.
    pub(crate) fn beside_question(&self, user_id: UserId, ended: Ended, asked: Asked) -> Beside {
        let entry = Entry {
            ended: Some((user_id, ended)),
            asked: vec![asked],
            said: self.lock().unsaved.take(),
            ..Entry::default()
        };
        Archive::entry(&self.id, self.owner.as_ref(), self.used(), entry)
    }

    /// What keeps a question that the session by voice asks, which has a place of its own for where it has got to.
    pub(crate) fn beside_spoken_question(&self, asked: Asked) -> Beside {
        let entry = Entry {
            asked: vec![asked],
            ..Entry::default()
        };
        Archive::entry(&self.id, self.owner.as_ref(), self.used(), entry)
    }

    fn keep(&self, entry: Entry, answer: Option<Arc<TurnRecord>>, answered: Vec<EffectId>) {
        let owner = self.owner.as_ref();
        let kept = KeptTurn {
            entry,
            answer,
            answered,
        };
        self.archive.keep(&self.id, owner, self.used(), kept);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_asked(&mut self, asked: Asked) {
        self.asked
            .retain(|known| known.token_hash != asked.token_hash);
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back(asked);
    }

    fn remember(&mut self, entry: HistoryEntry) {
        self.unsaved.remember(entry.clone());
        self.said.remember(entry);
    }

    /// The turn that has not ended.
    fn running(&self) -> Option<Arc<TurnRecord>> {
        let last = self.turns.back().map(|turn| turn.record.clone());
        last.filter(|record| !record.is_over())
    }

    /// The turn that answers, or has answered, a message of the client's: the newest of its id, where that said the same.
    fn turn_of(&self, message: &Message) -> Option<Arc<TurnRecord>> {
        let (known, turn) = self.newest_of(message)?;
        (known.says_what(message) && !turn.is_broken_off).then(|| turn.record.clone())
    }

    fn newest_of(&self, message: &Message) -> Option<(&Message, &KnownTurn)> {
        let turns = self.turns.iter().rev();
        let mut known = turns.filter_map(|turn| Some((turn.message.as_ref()?, turn)));
        known.find(|(known, _)| known.id == message.id)
    }

    fn is_edited(&self, message: &Message) -> bool {
        let known = self.newest_of(message);
        known.is_some_and(|(known, _)| !known.says_what(message))
    }

    /// A turn begins. Older ones are forgotten where there are too many.
    fn begin_turn(&mut self, message: Option<Message>, record: Arc<TurnRecord>) {
        let mut bytes = 0;
        let kept = self
            .turns
            .iter()
            .rev()
            .take(RECORDS_MAX - 1)
            .take_while(|turn| {
                bytes += turn.record.bytes();
                bytes <= RECORDED_BYTES_MAX
            })
            .count();
        let forgotten = self.turns.len() - kept;
        self.turns.drain(..forgotten);
        self.turns.push_back(KnownTurn {
            message,
            record,
            is_broken_off: false,
        });
    }
}

impl Message {
    /// Whether it says what another one of its id does, as far as both are known.
    fn says_what(&self, other: &Self) -> bool {
        self.content.is_none() || other.content.is_none() || self.content == other.content
    }
}

/// Counts somebody who waits for the session, for as long as the wait lasts.
struct Wanting<'a>(&'a watch::Sender<usize>);

impl<'a> Wanting<'a> {
    fn new(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|waiting| *waiting += 1);
        Self(waiting)
    }
}

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}
