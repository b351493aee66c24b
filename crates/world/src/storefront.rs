//! The store as a process sees it: behind a queue, slow, down, full, with lost acknowledgements. The driver's own backlog decides which
//! batches are committed, and which are kept for another try. Knows no rule of the ledger.

use crate::count::{Seen, kind_of, states_of};
use crate::mood::StoreMood;
use crate::notes::note_of;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use windlass_contract::handler::{Block, Blocks, BlocksUnavailable};
use windlass_contract::id::{ClientId, ConversationId, EffectId, TenantId, UserId};
use windlass_driver::{Backlog, Committed, Ledger, PendingReplies, Tail, Tails};
use windlass_store::command::{OpenQuestion, Reply};
use windlass_store::{
    Batch, Beginner, Conversation, ConversationRef, Due, Effect, Entry, EntryNumber, Hash, Leg,
    OwnerId, PartyKind, Question, QuestionNumber, Searched, Store, StoreUnavailable, Token, Wanted,
    WantedTasks,
};

/// The number of batches that are kept if the store takes none; more than any world has.
const KEPT_MAX: usize = 100_000;

/// A store that fails as its mood says.
pub(crate) struct FaultyStore {
    inner: Arc<dyn Store>,
    mood: Mutex<StoreMood>,
    seen: Mutex<Seen>,
}

impl FaultyStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            mood: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    pub(crate) fn set_mood(&self, mood: StoreMood) {
        *lock(&self.mood) = mood;
    }

    pub(crate) fn mood(&self) -> StoreMood {
        *lock(&self.mood)
    }

    pub(crate) fn take_seen(&self) -> Seen {
        std::mem::take(&mut *lock(&self.seen))
    }

    /// The store without any fault: for observers of the whole world.
    pub(crate) fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn is_up(&self) -> Result<&dyn Store, StoreUnavailable> {
        match self.mood() {
            StoreMood::Down => Err(StoreUnavailable::Failed {
                cause: "it is down".to_owned(),
            }),
            StoreMood::Up
            | StoreMood::Slow
            | StoreMood::Full
            | StoreMood::Forgetful
            | StoreMood::Late => Ok(&*self.inner),
        }
    }
}

impl Store for FaultyStore {
    fn tasks_of(
        &self,
        wanted: &WantedTasks<'_>,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        self.is_up()?.tasks_of(wanted)
    }

    fn unsent_tasks(
        &self,
        behind: Option<(u64, &EffectId)>,
        tasks_max: usize,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        self.is_up()?.unsent_tasks(behind, tasks_max)
    }

    fn commit(&self, batches: &[Batch]) -> Result<Vec<Vec<Reply>>, StoreUnavailable> {
        let store = self.is_up()?;
        let mood = self.mood();
        if mood == StoreMood::Full {
            return Err(StoreUnavailable::DiskFull {
                cause: "no space".to_owned(),
            });
        }
        let replies = store.commit(batches)?;
        let mut seen = lock(&self.seen);
        for (batch, replies) in batches.iter().zip(&replies) {
            for (command, reply) in batch.commands.iter().zip(replies) {
                seen.commands.push((kind_of(command), mood));
                seen.states.extend(states_of(command, reply));
                let note = note_of(command, reply);
                let of = &batch.conversation.conversation_id;
                seen.notes.extend(note.map(|note| (of.clone(), note)));
            }
        }
        match mood {
            StoreMood::Forgetful => Err(StoreUnavailable::Failed {
                cause: "the acknowledgement was lost".to_owned(),
            }),
            _ => Ok(replies),
        }
    }

    fn conversation(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<Option<Conversation>, StoreUnavailable> {
        self.is_up()?.conversation(tenant, conversation_id)
    }

    fn crowded(
        &self,
        tenant: &TenantId,
        beginner: &Beginner,
    ) -> Result<Option<PartyKind>, StoreUnavailable> {
        self.is_up()?.crowded(tenant, beginner)
    }

    fn entries(
        &self,
        conversation: &ConversationRef,
        after: EntryNumber,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable> {
        self.is_up()?.entries(conversation, after, entries_max)
    }

    fn entries_before(
        &self,
        conversation: &ConversationRef,
        before: EntryNumber,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable> {
        self.is_up()?
            .entries_before(conversation, before, entries_max)
    }

    fn conversations_of(&self, wanted: &Wanted<'_>) -> Result<Vec<Conversation>, StoreUnavailable> {
        self.is_up()?.conversations_of(wanted)
    }

    fn search(
        &self,
        conversation: &ConversationRef,
        entries_max: usize,
        is_meant: &dyn Fn(&str) -> bool,
    ) -> Result<Searched, StoreUnavailable> {
        self.is_up()?.search(conversation, entries_max, is_meant)
    }

    fn entry_of_key(
        &self,
        conversation: &ConversationRef,
        key: &str,
    ) -> Result<Option<Entry>, StoreUnavailable> {
        self.is_up()?.entry_of_key(conversation, key)
    }

    fn question(
        &self,
        conversation: &ConversationRef,
        token: &Token,
    ) -> Result<Option<Question>, StoreUnavailable> {
        self.is_up()?.question(conversation, token)
    }

    fn open_questions(
        &self,
        conversation: &ConversationRef,
    ) -> Result<Vec<OpenQuestion>, StoreUnavailable> {
        self.is_up()?.open_questions(conversation)
    }

    fn question_of_number(
        &self,
        conversation: &ConversationRef,
        number: QuestionNumber,
    ) -> Result<Option<Question>, StoreUnavailable> {
        self.is_up()?.question_of_number(conversation, number)
    }

    fn effect(
        &self,
        tenant: &TenantId,
        effect_id: &EffectId,
    ) -> Result<Option<(ConversationRef, Effect)>, StoreUnavailable> {
        self.is_up()?.effect(tenant, effect_id)
    }

    fn effect_of_any(
        &self,
        effect_id: &EffectId,
    ) -> Result<Option<(ConversationRef, Effect)>, StoreUnavailable> {
        self.is_up()?.effect_of_any(effect_id)
    }

    fn unheard(&self, conversation: &ConversationRef) -> Result<Vec<Effect>, StoreUnavailable> {
        self.is_up()?.unheard(conversation)
    }

    fn leg(&self, resume_token: &Hash) -> Result<Option<(ConversationRef, Leg)>, StoreUnavailable> {
        self.is_up()?.leg(resume_token)
    }

    fn due(&self) -> Result<Due, StoreUnavailable> {
        self.is_up()?.due()
    }

    fn unaudited(
        &self,
        effects_max: usize,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        self.is_up()?.unaudited(effects_max)
    }

    fn prune(&self) -> Result<usize, StoreUnavailable> {
        self.is_up()?.prune()
    }

    fn end_client(&self, client_id: &ClientId) -> Result<(), StoreUnavailable> {
        self.is_up()?.end_client(client_id)
    }

    fn ended_clients(&self) -> Result<Vec<ClientId>, StoreUnavailable> {
        self.is_up()?.ended_clients()
    }

    fn now_unix_ms(&self) -> u64 {
        self.inner.now_unix_ms()
    }

    fn owner(&self) -> &OwnerId {
        self.inner.owner()
    }
}

impl Blocks for FaultyStore {
    fn block_all(&self, blocks: &[Block]) -> Result<(), BlocksUnavailable> {
        self.inner.block_all(blocks)
    }

    fn blocked(
        &self,
        user_id: &UserId,
        now_unix_ms: u64,
    ) -> Result<Option<Block>, BlocksUnavailable> {
        self.inner.blocked(user_id, now_unix_ms)
    }
}

/// The place for the answer to one batch.
type AnswerPlace = Arc<Mutex<Option<Committed>>>;

/// The ledger of one process: batches wait until the world has them committed, and answers until the world gives them.
pub(crate) struct QueuedLedger {
    pub(crate) store: Arc<FaultyStore>,
    backlog: Mutex<Backlog>,
    tails: Tails,
    queue: Mutex<VecDeque<(Batch, AnswerPlace)>>,
    /// Something was queued since this was asked last.
    has_work: AtomicBool,
}

/// An answer on its way.
pub(crate) struct PendingAnswer {
    pub(crate) conversation: ConversationRef,
    place: AnswerPlace,
    committed: Committed,
}

impl std::fmt::Debug for PendingAnswer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Answer({:?})", self.committed)
    }
}

impl PendingAnswer {
    pub(crate) fn give(self) {
        *lock(&self.place) = Some(self.committed);
    }
}

impl QueuedLedger {
    pub(crate) fn new(store: Arc<FaultyStore>) -> Self {
        Self {
            store,
            backlog: Mutex::new(Backlog::new(KEPT_MAX)),
            tails: Tails::default(),
            queue: Mutex::default(),
            has_work: AtomicBool::new(false),
        }
    }

    /// Whether a commit has to be planned.
    pub(crate) fn take_work(&self) -> bool {
        self.has_work.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.queue).is_empty() && lock(&self.backlog).is_empty()
    }

    /// Whether the backlog keeps a batch that must not be lost.
    pub(crate) fn keeps_something(&self) -> bool {
        !lock(&self.backlog).is_empty()
    }

    /// Conversations that have something to be committed.
    pub(crate) fn waiting(&self) -> Vec<ConversationRef> {
        let mut waiting = BTreeMap::new();
        for (batch, _) in lock(&self.queue).iter() {
            let conversation = &batch.conversation;
            waiting.insert(conversation.conversation_id.clone(), conversation.clone());
        }
        waiting.into_values().collect()
    }

    /// Has the first batches of some conversations committed, or the ones kept for another try.
    pub(crate) fn commit(&self, of: &[ConversationRef], batches_max: usize) -> Vec<PendingAnswer> {
        let mut batches = Vec::new();
        let mut places = Vec::new();
        let mut queue = lock(&self.queue);
        let mut left = VecDeque::new();
        for (batch, place) in queue.drain(..) {
            match of.contains(&batch.conversation) && batches.len() < batches_max {
                true => {
                    places.push((batch.conversation.clone(), place));
                    batches.push(batch);
                }
                false => left.push_back((batch, place)),
            }
        }
        *queue = left;
        drop(queue);
        let mut wake = |concerned| self.tails.wake(&concerned);
        let committed = lock(&self.backlog).commit(&*self.store, batches, &mut wake);
        let answered = places.into_iter().zip(committed);
        let answers = answered.map(|((conversation, place), committed)| PendingAnswer {
            conversation,
            place,
            committed,
        });
        answers.collect()
    }
}

impl Ledger for QueuedLedger {
    fn apply(&self, batch: Batch) -> PendingReplies {
        let place = AnswerPlace::default();
        lock(&self.queue).push_back((batch, place.clone()));
        self.has_work.store(true, Ordering::Relaxed);
        Box::pin(std::future::poll_fn(move |_| match lock(&place).take() {
            Some(committed) => Poll::Ready(committed),
            None => Poll::Pending,
        }))
    }

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn tail(&self, conversation: &ConversationRef, leg: &windlass_contract::id::SessionId) -> Tail {
        self.tails.listen(conversation, leg)
    }

    fn is_live(
        &self,
        conversation: &ConversationRef,
        leg: &windlass_contract::id::SessionId,
    ) -> bool {
        self.tails.is_live(conversation, leg)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
