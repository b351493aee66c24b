//! One conversation that the server holds: its owner, whether a turn of it runs, and the turns that can be heard again. The store has
//! its contents. Knows no model and no HTTP.

use super::owner::ConversationOwner;
use super::record::{TurnReader, TurnRecord, TurnWriter};
use crate::clock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::id::CallNumber;
use windlass_runtime::text::CallStopper;
use windlass_session::model::HistoryEntry;
use windlass_store::{ConversationRef, EntryNumber, QuestionNumber};

/// Turns of one conversation that can be heard again from memory, and their bytes.
const RECORDS_MAX: usize = 8;
const RECORDED_BYTES_MAX: usize = 64 * 1024;
/// The most answers to approval requests whose outcome is kept in memory.
const ANSWERS_MAX: usize = 64;
const KEYS_MAX: usize = 64;
/// About how many bytes a conversation takes beside its words, and the name of a message takes.
const CONVERSATION_BYTES: usize = 1_024;
const NAME_BYTES: usize = 256;

pub(crate) struct Conversation {
    pub(crate) reference: ConversationRef,
    pub(crate) whose: ConversationOwner,
    /// Taken for the length of a turn.
    turn: tokio::sync::Mutex<()>,
    /// How many sessions have still to end whose turns are over.
    ending: watch::Sender<usize>,
    /// A session of it has begun.
    has_begun: AtomicBool,
    /// The highest number of a call. The log has a call once it has ended.
    last_call: AtomicU64,
    /// The last entry before the turn that runs; the highest number where that is not known yet.
    written_behind: AtomicU64,
    state: Mutex<ConversationState>,
    used_unix_ms: AtomicU64,
}

#[derive(Default)]
struct ConversationState {
    turns: VecDeque<KnownTurn>,
    /// The client's own account of a conversation that the store does not have.
    told: Vec<HistoryEntry>,
    /// The request that the session by voice has to answer first.
    pending_request: Option<String>,
    answers: VecDeque<KnownAnswer>,
    /// Idempotency keys that clients have used, the newest ones.
    keys: VecDeque<Message>,
    /// Its sessions by text that have not ended: the turn's, and those whose calls run on after their turns.
    sessions: Vec<CallStopper>,
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

/// The names under which the answer of a turn is kept.
pub(super) struct AnswerNames {
    pub(super) message: Option<Message>,
    pub(super) keys: Vec<Message>,
    /// How many answers to its message the log has already.
    pub(super) answers: u32,
}

/// A message of the client's, with the marks that tell it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The client's id of it.
    pub(crate) id: String,
    /// The hash of its content, where that is known: another text under the same id is an edited message.
    pub(crate) content: Option<[u8; 32]>,
}

/// The outcome of an answer to an approval request, for its client.
#[derive(Clone, Debug)]
pub(crate) struct Confirmation {
    pub(crate) response: Arc<ToolResponse>,
    /// The new approval request as JSON, if something had changed since the first one.
    pub(crate) asked_anew: Option<serde_json::Value>,
    /// It stays the same, however often it is asked for.
    pub(crate) is_final: bool,
    /// The answer was not taken, and the request waits for it still.
    pub(crate) is_open: bool,
}

/// `None` until it is known; the channel closes where that will never be.
type Outcome = watch::Receiver<Option<Confirmation>>;

struct KnownAnswer {
    question: QuestionNumber,
    approved: bool,
    outcome: Outcome,
}

impl KnownAnswer {
    /// Whether its outcome is still to come.
    fn is_awaited(&self) -> bool {
        self.outcome.borrow().is_none() && self.outcome.has_changed().is_ok()
    }

    fn bytes(&self) -> usize {
        let outcome = self.outcome.borrow();
        let response = outcome.as_ref().map(|outcome| &outcome.response);
        response.map_or(0, |response| written_bytes(&**response))
    }
}

/// Bytes of a value as JSON, which is written nowhere.
fn written_bytes(value: &impl serde::Serialize) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // A message that cannot be written takes no bytes.
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => 0,
    }
}

/// Whether this caller gives an answer, or joins another.
pub(crate) enum AnswerClaim {
    /// The same answer is being given, or was: its outcome.
    Joined(Outcome),
    /// The answer is to be given, and its outcome sent here.
    First(watch::Sender<Option<Confirmation>>),
}

/// How a turn's record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordedEnd {
    Answered,
    BrokenOff,
    /// There was no turn, or it answers nothing.
    Unanswered,
}

/// The result of a message's arrival.
pub(crate) enum Claim {
    /// It is answered, or was, and can be heard here.
    Known(TurnReader),
    /// Another message is being answered, to a client that listens.
    Busy,
    /// Its turn has to run, written at the one end and read at the other.
    New {
        record: Arc<TurnRecord>,
        writer: TurnWriter,
        reader: TurnReader,
        /// Its id is that of an earlier message with other content.
        edits: bool,
    },
}

/// A message that a client brings to be answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    /// The name by which it is known when it comes again.
    pub(crate) message: Option<Message>,
    /// The same message, named by the client's idempotency key.
    pub(crate) key: Option<Message>,
    /// The client wants another answer than the first one.
    pub(crate) again: bool,
    /// It does not give way to a turn that runs, but waits for it.
    pub(crate) waits: bool,
    /// Its answer goes on for a while where its client has left, so that the client can come back to it.
    pub(crate) is_resumable: bool,
}

impl Conversation {
    /// `told` is the client's own account of the conversation, for a log that has nothing of it.
    pub(super) fn new(
        reference: ConversationRef,
        whose: ConversationOwner,
        told: Vec<HistoryEntry>,
    ) -> Self {
        Self {
            reference,
            whose,
            turn: tokio::sync::Mutex::new(()),
            ending: watch::Sender::new(0),
            has_begun: AtomicBool::new(false),
            last_call: AtomicU64::new(0),
            written_behind: AtomicU64::new(u64::MAX),
            state: Mutex::new(ConversationState {
                told,
                ..ConversationState::default()
            }),
            used_unix_ms: AtomicU64::new(clock::now_unix_ms()),
        }
    }

    pub(crate) fn touch(&self) {
        self.used_unix_ms
            .store(clock::now_unix_ms(), Ordering::Relaxed);
    }

    /// The right to run a turn, once no other one runs.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// The same, but `None` while a turn runs.
    pub(super) fn try_turn(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        self.turn.try_lock().ok()
    }

    /// Notes where the log ends before the turn that runs.
    pub(super) fn writes_behind(&self, last: EntryNumber) {
        self.written_behind.store(last.0, Ordering::Relaxed);
    }

    /// The last entry before those of the running turn; `None` where no turn runs.
    pub(super) fn written_behind(&self) -> Option<EntryNumber> {
        let last = EntryNumber(self.written_behind.load(Ordering::Relaxed));
        self.is_busy().then_some(last)
    }

    /// The answer that is being written.
    pub(super) fn listen(&self) -> Option<TurnReader> {
        self.lock().running().and_then(|record| record.join())
    }

    /// Gives the turn up that runs, where one does.
    pub(super) fn stop(&self) {
        let running = self.lock().running();
        if let Some(record) = running {
            record.stop();
        }
    }

    /// Its words were deleted.
    pub(super) fn forget(&self) {
        let mut state = self.lock();
        let turns = std::mem::take(&mut state.turns).into_iter();
        let sessions = std::mem::take(&mut state.sessions);
        *state = ConversationState {
            turns: turns.filter(|turn| !turn.record.is_over()).collect(),
            sessions,
            ..ConversationState::default()
        };
    }

    /// A session of it is about to begin. True for the first session that memory knows of.
    pub(super) fn begins_first(&self) -> bool {
        !self.has_begun.swap(true, Ordering::Relaxed)
    }

    /// A session of it begins, whose calls can be stopped.
    pub(super) fn note_session(&self, session: CallStopper) {
        let mut state = self.lock();
        state.sessions.retain(|session| !session.is_over());
        state.sessions.push(session);
    }

    /// Its sessions by text that have not ended.
    pub(super) fn sessions(&self) -> Vec<CallStopper> {
        self.lock().sessions.clone()
    }

    /// Counts a session whose turn is over, until the result is dropped: that is when all its calls have ended.
    pub(super) fn ending(&self) -> EndingSession {
        self.ending.send_modify(|sessions| *sessions += 1);
        EndingSession(self.ending.clone())
    }

    /// Waits until everything has ended that turns before have begun.
    pub(super) async fn settled(&self) {
        let mut sessions = self.ending.subscribe();
        // The sender is ours, so that the wait cannot fail.
        let _ = sessions.wait_for(|sessions| *sessions == 0).await;
    }

    /// The highest number that a call had in sessions of this process.
    pub(super) fn last_call(&self) -> CallNumber {
        CallNumber(self.last_call.load(Ordering::Relaxed))
    }

    pub(super) fn note_last_call(&self, call: CallNumber) {
        self.last_call.fetch_max(call.0, Ordering::Relaxed);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used_unix_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn is_forgotten(&self, now: u64, idle_ms: u64) -> bool {
        self.used().saturating_add(idle_ms) <= now && !self.is_busy()
    }

    /// Whether it is not in use: no turn of it runs or is read, and no call that a turn has begun.
    pub(crate) fn rests(&self) -> bool {
        let state = self.lock();
        let is_needed = |turn: &KnownTurn| !turn.record.is_over() || turn.record.has_readers();
        *self.ending.borrow() == 0
            && !state.turns.iter().any(is_needed)
            && !state.answers.iter().any(KnownAnswer::is_awaited)
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let state = self.lock();
        let turns = state.turns.iter().map(|turn| turn.record.bytes());
        let told = state.told.iter().map(|entry| entry.text.expose().len());
        let answers = state.answers.iter().map(KnownAnswer::bytes);
        let pending = state.pending_request.iter().map(String::len);
        let names = (state.turns.len() + state.keys.len()) * NAME_BYTES;
        CONVERSATION_BYTES
            + names
            + turns
                .chain(told)
                .chain(pending)
                .chain(answers)
                .sum::<usize>()
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
        let names = delivery.message.iter().chain(&delivery.key);
        let answers = names.map(|name| state.answers_to(name)).max();
        self.writes_behind(EntryNumber(u64::MAX));
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

    /// The outcome of an approval that was given here; `None` without one, or where memory has lost it.
    pub(super) fn outcome_of(
        &self,
        question: QuestionNumber,
    ) -> Option<watch::Receiver<Option<Confirmation>>> {
        let state = self.lock();
        let mut given = state.answers.iter().rev();
        let given = given.find(|given| given.question == question && given.approved)?;
        Some(given.outcome.clone())
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

    /// Notes the end of a turn, while no other turn runs. A turn that never ran, or has no answer, is forgotten, and its message may be
    /// sent again. If a turn was broken off before its answer was complete, it is answered when its message comes again.
    pub(super) fn note_end(&self, record: &Arc<TurnRecord>, end: RecordedEnd) {
        let mut state = self.lock();
        match end {
            RecordedEnd::Answered => {}
            RecordedEnd::BrokenOff => {
                if let Some(turn) = state.turn_with(record) {
                    turn.is_broken_off = true;
                }
            }
            RecordedEnd::Unanswered => state
                .turns
                .retain(|turn| !Arc::ptr_eq(&turn.record, record)),
        }
    }

    /// Whether the message of a turn came before and its answer was broken off. Only while this turn alone runs: the other may break off
    /// after this one was claimed.
    pub(super) fn takes_up(&self, record: &Arc<TurnRecord>) -> bool {
        let state = self.lock();
        let is_other = |turn: &&KnownTurn| !Arc::ptr_eq(&turn.record, record);
        let mut turns = state.turns.iter().rev().skip_while(is_other);
        let own = turns.next().and_then(|own| own.message.as_ref());
        own.is_some_and(|message| {
            let before = turns.find_map(|turn| Some((turn.name_like(message)?, turn)));
            before.is_some_and(|(known, turn)| turn.is_broken_off && known.says_what(message))
        })
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

    /// Claims the right to answer an approval request. The first of several equal answers is given, and the others share its outcome.
    pub(crate) fn claim_answer(&self, question: QuestionNumber, approved: bool) -> AnswerClaim {
        let mut state = self.lock();
        // An answer without an outcome, or with one that may change the next time, does not count.
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

    /// Sets the request that the session by voice has to answer first.
    pub(crate) fn ask_by_voice(&self, pending_request: Option<String>) {
        self.lock().pending_request = pending_request;
    }

    pub(crate) fn take_pending_request(&self) -> Option<String> {
        self.lock().pending_request.take()
    }

    /// Takes the history that the client gave when the conversation began. Empty after the first time.
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

    /// A turn begins, or is taken in. If there are too many, older ones are forgotten, but never a running one.
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

/// A session that ends, until it has.
pub(super) struct EndingSession(watch::Sender<usize>);

impl Drop for EndingSession {
    fn drop(&mut self) {
        self.0.send_modify(|sessions| *sessions -= 1);
    }
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
    /// Whether both have the same content, as far as both are known.
    fn says_what(&self, other: &Self) -> bool {
        self.content.is_none() || other.content.is_none() || self.content == other.content
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_contract::id::{ConversationId, TenantId, UserId};

    fn conversation() -> Conversation {
        let reference = ConversationRef {
            tenant: TenantId::default(),
            conversation_id: ConversationId::new("c"),
            user_id: UserId::new("u"),
        };
        let whose = ConversationOwner {
            owner: None,
            user_id: UserId::new("u"),
        };
        Conversation::new(reference, whose, Vec::new())
    }

    #[tokio::test]
    async fn a_message_is_taken_up_though_it_came_again_before_its_turn_had_broken_off() {
        let conversation = conversation();
        let claim = || {
            let message = Message {
                id: "m".to_owned(),
                content: Some([1; 32]),
            };
            let delivery = Delivery {
                message: Some(message),
                ..Delivery::default()
            };
            let Claim::New { record, writer, .. } = conversation.claim(delivery) else {
                panic!("a turn begins");
            };
            (record, writer)
        };
        let (first, _first_writer) = claim();
        // Its reader has gone, and it has yet to end.
        first.abandoned(std::time::Duration::ZERO).await;
        let (second, _second_writer) = claim();
        second.abandoned(std::time::Duration::ZERO).await;
        let (_third, _third_writer) = claim();
        assert!(!conversation.takes_up(&second));
        conversation.note_end(&first, RecordedEnd::BrokenOff);
        assert!(conversation.takes_up(&second));
        assert!(!conversation.takes_up(&first));
    }
}
