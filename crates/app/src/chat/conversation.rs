//! One conversation that the server holds: whose it is, its live session, and the turns that can be heard again. What was said
//! and done is in the store. Knows no model and no HTTP.

use super::held::HeldSession;
use super::record::{TurnReader, TurnRecord, TurnWriter};
use super::whose::Whose;
use crate::clock;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use windlass_session::model::HistoryEntry;
use windlass_store::{ConversationRef, QuestionNumber};
use windlass_tool::envelope::ToolResponse;

/// Turns of one conversation that can be heard again from memory, and their bytes.
const RECORDS_MAX: usize = 8;
const RECORDED_BYTES_MAX: usize = 64 * 1024;
/// Answers to questions whose outcome is at hand.
const ANSWERS_MAX: usize = 64;
const KEYS_MAX: usize = 64;
/// Messages of one conversation whose ids are known to be new without a look into the log.
const SEEN_MAX: usize = 1_000;

pub(crate) struct Conversation {
    pub(crate) reference: ConversationRef,
    pub(crate) whose: Whose,
    /// Taken for the length of a turn.
    session: tokio::sync::Mutex<Option<HeldSession>>,
    /// How many wait for the session.
    waiting: watch::Sender<usize>,
    state: Mutex<ConversationState>,
    used_unix_ms: AtomicU64,
}

/// The messages that the log may have answers to.
#[derive(Default)]
enum Seen {
    /// The log has more of the conversation than memory does.
    #[default]
    Any,
    /// The conversation began in this memory: hashes of the ids of all its messages.
    These(BTreeSet<u64>),
}

#[derive(Default)]
struct ConversationState {
    turns: VecDeque<KnownTurn>,
    seen: Seen,
    /// The server has just made its id, and no session has begun in it.
    is_untouched: bool,
    /// The client's own account of a conversation that the store does not have.
    told: Vec<HistoryEntry>,
    /// What the session by voice is to answer first.
    pending_request: Option<String>,
    answers: VecDeque<KnownAnswer>,
    /// Idempotency keys that clients have used, the newest ones.
    keys: VecDeque<Message>,
}

struct KnownTurn {
    message: Option<Message>,
    /// Other names of its message: the hash of a client's idempotency key, and of the body that came with it.
    keys: Vec<Message>,
    record: Arc<TurnRecord>,
    /// It was broken off: its message has no answer, and is taken up again when it comes again.
    is_broken_off: bool,
    /// How many answers to its message the log has.
    answers: u32,
}

/// What the answer of a turn is kept as.
pub(super) struct AnswerNames {
    pub(super) message: Option<Message>,
    pub(super) keys: Vec<Message>,
    /// How many answers to its message the log has already.
    pub(super) answers: u32,
}

/// A message of the client's, as far as it is told from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The client's id of it.
    pub(crate) id: String,
    /// The hash of what it says, where that is known: another text under the same id is an edited message.
    pub(crate) content: Option<[u8; 32]>,
}

/// The outcome of an answer to an approval request, as its client is told.
#[derive(Clone, Debug)]
pub(crate) struct Confirmation {
    pub(crate) response: Arc<ToolResponse>,
    /// Something had changed since the question was put: the one that took its place, as JSON.
    pub(crate) asked_anew: Option<serde_json::Value>,
    /// It stays the same, however often it is asked for.
    pub(crate) is_final: bool,
}

/// `None` until it is known; the channel closes where that will never be.
type Outcome = watch::Receiver<Option<Confirmation>>;

struct KnownAnswer {
    question: QuestionNumber,
    approved: bool,
    outcome: Outcome,
}

/// Who gives an answer.
pub(crate) enum AnswerClaim {
    /// The same answer is being given, or was: what comes of it.
    Joined(Outcome),
    /// It is to be given, and what comes of it told here.
    First(watch::Sender<Option<Confirmation>>),
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
    /// The same, as the client's idempotency key says it.
    pub(crate) key: Option<Message>,
    /// Another answer is wanted than the one that it had.
    pub(crate) again: bool,
    /// It does not give way to a turn that runs, but waits for it.
    pub(crate) waits: bool,
}

impl Conversation {
    /// As the store has it.
    pub(super) fn known(reference: ConversationRef, whose: Whose) -> Self {
        Self::with(reference, whose, ConversationState::default())
    }

    /// One that the store has nothing of. `told` is the client's own account of what was said.
    pub(super) fn begun(reference: ConversationRef, whose: Whose, told: Vec<HistoryEntry>) -> Self {
        let state = ConversationState {
            seen: Seen::These(BTreeSet::new()),
            told,
            ..ConversationState::default()
        };
        Self::with(reference, whose, state)
    }

    /// The same, where the server has just made the id: nobody else knows it, so the log is empty.
    pub(super) fn made(reference: ConversationRef, whose: Whose, told: Vec<HistoryEntry>) -> Self {
        let made = Self::begun(reference, whose, told);
        made.lock().is_untouched = true;
        made
    }

    fn with(reference: ConversationRef, whose: Whose, state: ConversationState) -> Self {
        Self {
            reference,
            whose,
            session: tokio::sync::Mutex::new(None),
            waiting: watch::Sender::new(0),
            state: Mutex::new(state),
            used_unix_ms: AtomicU64::new(clock::now_unix_ms()),
        }
    }

    pub(crate) fn touch(&self) {
        self.used_unix_ms
            .store(clock::now_unix_ms(), Ordering::Relaxed);
    }

    /// The session, once its holder lets go of it: a turn does at its end, the task that looks after calls between turns at once.
    pub(crate) async fn session(&self) -> tokio::sync::MutexGuard<'_, Option<HeldSession>> {
        let _wanting = Wanting::new(&self.waiting);
        self.session.lock().await
    }

    /// Whether a session lives that nobody uses.
    pub(crate) fn has_idle_session(&self) -> bool {
        let session = self.session.try_lock();
        let lives =
            session.is_ok_and(|session| session.as_ref().is_some_and(|session| !session.is_over()));
        lives && !self.is_busy()
    }

    /// Lets changes that have begun come to their end, and what came of them be stored, unless somebody wants the session, who
    /// looks after them then.
    pub(crate) async fn look_after_calls(&self) {
        let mut wanted = self.waiting.subscribe();
        let mut slot = self.session.lock().await;
        let Some(session) = &mut *slot else { return };
        while session.is_working() {
            tokio::select! {
                // The sender is ours, so that the wait cannot fail.
                _ = wanted.wait_for(|waiting| *waiting > 0) => return,
                () = session.work() => {}
            }
        }
    }

    /// Lets go of its session and waits for the changes that run. What the store has of the conversation stays, and what the
    /// user was asked can still be answered.
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
        if let Some(key) = &delivery.key
            && let Some((_, turn)) = state.newest_of(key)
        {
            let record = turn.record.clone();
            if let Some(reader) = (!turn.is_broken_off).then(|| record.join()).flatten() {
                return Claim::Known(reader);
            }
        }
        if let Some(message) = delivery.message.as_ref().filter(|_| !delivery.again)
            && let Some(turn) = state.turn_of(message)
            && let Some(reader) = turn.record.join()
        {
            if !delivery.waits {
                turn.keys.extend(delivery.key);
                return Claim::Known(reader);
            }
            // A client that sends the message once more hears that turn, and not this one.
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
        if let Some(message) = &delivery.message {
            state.seen.note(message);
        }
        let names = delivery.message.iter().chain(&delivery.key);
        let answers = names.map(|name| state.answers_to(name)).max();
        state.begin_turn(KnownTurn {
            message: delivery.message,
            keys: delivery.key.into_iter().collect(),
            record: record.clone(),
            is_broken_off: false,
            answers: answers.unwrap_or(0),
        });
        Claim::New {
            record,
            writer,
            reader,
            edits,
        }
    }

    /// Notes that a client's key is used for this. False where it was used for something else.
    pub(crate) fn note_key(&self, key: &Message) -> bool {
        let mut state = self.lock();
        let of_turn = state.newest_of(key).map(|(known, _)| known);
        let mut noted = state.keys.iter();
        let known = of_turn.or_else(|| noted.find(|known| known.id == key.id));
        if let Some(known) = known {
            return known.says_what(key);
        }
        if state.keys.len() >= KEYS_MAX {
            state.keys.pop_front();
        }
        state.keys.push_back(key.clone());
        true
    }

    /// Whether memory has a turn under this name.
    pub(crate) fn knows(&self, message: &Message) -> bool {
        self.lock().newest_of(message).is_some()
    }

    /// Whether the log may have an answer to this message that memory does not know.
    pub(super) fn may_have_answered(&self, message: &Message) -> bool {
        let state = self.lock();
        state.newest_of(message).is_none() && state.seen.may_have(message)
    }

    /// Takes in the newest answer of a message as the log has it, and how many it has.
    pub(super) fn recall(
        &self,
        message: Message,
        record: Arc<TurnRecord>,
        is_key: bool,
        answers: u32,
    ) {
        let mut state = self.lock();
        if state.newest_of(&message).is_some() {
            return;
        }
        let (message, keys) = match is_key {
            true => (None, vec![message]),
            false => (Some(message), Vec::new()),
        };
        state.begin_turn(KnownTurn {
            message,
            keys,
            record,
            is_broken_off: false,
            answers,
        });
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
        if let Some(turn) = self.lock().turn_with(record) {
            turn.is_broken_off = true;
        }
    }

    /// The names under which a turn is known; `None` where it is not any more.
    pub(super) fn names_of(&self, record: &Arc<TurnRecord>) -> Option<AnswerNames> {
        let mut state = self.lock();
        state.turn_with(record).map(|turn| AnswerNames {
            message: turn.message.clone(),
            keys: turn.keys.clone(),
            answers: turn.answers,
        })
    }

    /// The log is given the answer of a turn.
    pub(super) fn note_kept(&self, record: &Arc<TurnRecord>) {
        if let Some(turn) = self.lock().turn_with(record) {
            turn.answers += 1;
        }
    }

    /// Whether the same answer to a question is being given already, or was. Of many at once one gives it, and the others hear
    /// what came of it.
    pub(crate) fn claim_answer(&self, question: QuestionNumber, approved: bool) -> AnswerClaim {
        let mut state = self.lock();
        // An outcome that never came, or that may be another one the next time, is none.
        state
            .answers
            .retain(|known| match &*known.outcome.borrow() {
                Some(outcome) => outcome.is_final,
                None => known.outcome.has_changed().is_ok(),
            });
        let mut known = state.answers.iter();
        let same = known.find(|known| known.question == question && known.approved == approved);
        if let Some(same) = same {
            return AnswerClaim::Joined(same.outcome.clone());
        }
        let (teller, outcome) = watch::channel(None);
        if state.answers.len() >= ANSWERS_MAX {
            state.answers.pop_front();
        }
        state.answers.push_back(KnownAnswer {
            question,
            approved,
            outcome,
        });
        AnswerClaim::First(teller)
    }

    /// What the session by voice is to answer first.
    pub(crate) fn ask_by_voice(&self, pending_request: Option<String>) {
        self.lock().pending_request = pending_request;
    }

    pub(crate) fn take_pending_request(&self) -> Option<String> {
        self.lock().pending_request.take()
    }

    /// Begins a session. True for the first one of a conversation whose id the server made: its log is empty.
    pub(super) fn begin_session(&self) -> bool {
        std::mem::take(&mut self.lock().is_untouched)
    }

    /// What the client told of the conversation when it began, once.
    pub(crate) fn take_told(&self) -> Vec<HistoryEntry> {
        std::mem::take(&mut self.lock().told)
    }

    fn lock(&self) -> MutexGuard<'_, ConversationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConversationState {
    /// The turn that has not ended.
    fn running(&self) -> Option<Arc<TurnRecord>> {
        let mut records = self.turns.iter().rev().map(|turn| &turn.record);
        records.find(|record| !record.is_over()).cloned()
    }

    /// The turn that answers, or has answered, a message of the client's: the newest of its id, where that said the same.
    fn turn_of(&mut self, message: &Message) -> Option<&mut KnownTurn> {
        let mut turns = self.turns.iter_mut().rev();
        let turn = turns.find(|turn| turn.is_of(message))?;
        let known = turn.name_like(message)?;
        (known.says_what(message) && !turn.is_broken_off).then_some(turn)
    }

    fn turn_with(&mut self, record: &Arc<TurnRecord>) -> Option<&mut KnownTurn> {
        let mut turns = self.turns.iter_mut();
        turns.find(|turn| Arc::ptr_eq(&turn.record, record))
    }

    /// How many answers to a message the log has, as far as memory knows of it.
    fn answers_to(&self, message: &Message) -> u32 {
        let turns = self.turns.iter().filter(|turn| turn.is_of(message));
        turns.map(|turn| turn.answers).max().unwrap_or(0)
    }

    fn newest_of(&self, message: &Message) -> Option<(&Message, &KnownTurn)> {
        let mut turns = self.turns.iter().rev();
        turns.find_map(|turn| Some((turn.name_like(message)?, turn)))
    }

    fn is_edited(&self, message: &Message) -> bool {
        let known = self.newest_of(message);
        known.is_some_and(|(known, _)| !known.says_what(message))
    }

    /// A turn begins, or is taken in. Older ones are forgotten where there are too many, but never one that runs.
    fn begin_turn(&mut self, turn: KnownTurn) {
        let (mut turns, mut bytes) = (0, 0);
        let mut kept: Vec<bool> = self
            .turns
            .iter()
            .rev()
            .map(|known| {
                turns += 1;
                bytes += known.record.bytes();
                let fits = turns < RECORDS_MAX && bytes <= RECORDED_BYTES_MAX;
                fits || !known.record.is_over()
            })
            .collect();
        self.turns.retain(|_| kept.pop().unwrap_or(true));
        self.turns.push_back(turn);
    }
}

impl Seen {
    fn note(&mut self, message: &Message) {
        if let Self::These(ids) = self {
            ids.insert(hash_of(message));
            if ids.len() > SEEN_MAX {
                *self = Self::Any;
            }
        }
    }

    fn may_have(&self, message: &Message) -> bool {
        match self {
            Self::Any => true,
            Self::These(ids) => ids.contains(&hash_of(message)),
        }
    }
}

/// Of its id. Two messages with the same hash cost one look into the log.
fn hash_of(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.id.hash(&mut hasher);
    hasher.finish()
}

impl KnownTurn {
    fn is_of(&self, message: &Message) -> bool {
        self.name_like(message).is_some()
    }

    fn name_like(&self, message: &Message) -> Option<&Message> {
        let mut names = self.message.iter().chain(&self.keys);
        names.find(|name| name.id == message.id)
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

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_tool::id::{ClientId, ConversationId, TenantId, UserId};

    fn message(id: &str) -> Message {
        Message {
            id: id.to_owned(),
            content: None,
        }
    }

    fn answer(conversation: &Conversation, id: &str) {
        let delivery = Delivery {
            message: Some(message(id)),
            ..Delivery::default()
        };
        assert!(matches!(
            conversation.claim(delivery),
            Claim::New { writer: _, .. }
        ));
    }

    #[test]
    fn only_a_message_that_is_surely_new_spares_a_look_into_the_log() {
        let whose = Whose {
            owner: Some(ClientId::new("c1")),
            user_id: UserId::new("c1"),
        };
        let reference = whose.reference(&TenantId::default(), &ConversationId::new("one"));
        let known = Conversation::known(reference.clone(), whose.clone());
        assert!(known.may_have_answered(&message("new")));

        let begun = Conversation::begun(reference, whose, Vec::new());
        assert!(!begun.may_have_answered(&message("first")));
        answer(&begun, "first");
        // Memory has its turn, until it has too many later ones.
        assert!(!begun.may_have_answered(&message("first")));
        for number in 0..RECORDS_MAX {
            answer(&begun, &format!("{number}"));
        }
        assert!(begun.may_have_answered(&message("first")));
        assert!(!begun.may_have_answered(&message("new")));
        for number in 0..SEEN_MAX {
            answer(&begun, &format!("later {number}"));
        }
        assert!(begun.may_have_answered(&message("new")));
    }
}
