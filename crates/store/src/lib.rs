//! The ledger: the words and effects of each conversation, and the one decision about the next effect. Durable state is behind one trait
//! with two engines: SQLite for servers, memory for tests and throw-away runs. Knows no session, no policy of a turn and no clock.

mod apply;
pub mod command;
pub mod decide;
mod document;
pub mod effect;
mod hexadecimal;
pub mod id;
pub mod leg;
mod limits;
pub mod log;
mod memory;
pub mod party;
pub mod question;
pub mod rows;
mod sqlite;
mod standing;
mod task;

pub use effect::{Attempt, AttemptOutcome, Effect, LookupState};
pub use id::{
    AttemptNumber, ConversationRef, EffectKey, EntryNumber, Epoch, LegNumber, LegRef, Nonce,
    OwnerId, QuestionNumber, ServerKey, Token,
};
pub use leg::{Conversation, Heading, Leg, Presented};
pub use limits::StoreLimits;
pub use log::{EffectState, Entry, EntryEvent, NewEntry, QuestionState, SaidWords};
pub use memory::MemoryStore;
pub use party::{Beginner, ConversationShares, PartyKind};
pub use question::{
    Certainty, Earlier, Hazards, Question, QuestionInput, REASON_CHARACTERS_MAX, denial_reason,
};
pub use sqlite::{
    DATABASE_FILE, HeldFolder, LOCK_FILE, OpenError, SqliteStore, check_database, copy_database,
};
pub use standing::{
    NewStanding, STANDING_VALUES_BYTES_MAX, StandingApproval, StandingChange, StandingEnd,
    StandingEvent, StandingScope, standing_id, standing_number,
};
pub use task::{Progress, RunningTasks, Task, TaskShares, WantedTasks};

use command::{Command, OpenQuestion, Reply};
use std::path::PathBuf;
use std::sync::Arc;
use windlass_contract::handler::Blocks;
use windlass_contract::id::{ClientId, ConversationId, EffectId, TenantId, UserId};

/// A SHA-256, or a keyed hash of that length.
pub type Hash = [u8; 32];

/// Milliseconds since the Unix epoch; never runs backwards within a process, even if the machine's clock is changed.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The settings of a store.
#[derive(Clone)]
pub struct StoreSettings {
    pub key: ServerKey,
    /// This process.
    pub owner: OwnerId,
    pub clock: Clock,
    pub limits: StoreLimits,
}

/// Commands of one conversation, which are carried out in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub conversation: ConversationRef,
    pub commands: Vec<Command>,
}

/// The store of everything that is kept.
pub trait Store: Blocks + Send + Sync {
    /// Carries out batches in one transaction, and answers each command. When this returns `Ok`, all their changes are durable;
    /// otherwise none ever happened. A refusal is a reply and spoils nothing for the others.
    fn commit(&self, batches: &[Batch]) -> Result<Vec<Vec<Reply>>, StoreUnavailable>;

    /// The conversation as it was committed last, of any user; `None` for one that is unknown, or has been idle for too long.
    fn conversation(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<Option<Conversation>, StoreUnavailable>;

    /// The party without room for one more conversation, as it was committed last; `None` if each has room.
    fn crowded(
        &self,
        tenant: &TenantId,
        beginner: &Beginner,
    ) -> Result<Option<PartyKind>, StoreUnavailable>;

    /// The newest `entries_max` entries behind one, oldest first.
    fn entries(
        &self,
        conversation: &ConversationRef,
        after: EntryNumber,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable>;

    /// The newest `entries_max` entries before one, oldest first.
    fn entries_before(
        &self,
        conversation: &ConversationRef,
        before: EntryNumber,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable>;

    /// Conversations with words in them, the one that was used last first.
    fn conversations_of(&self, wanted: &Wanted<'_>) -> Result<Vec<Conversation>, StoreUnavailable>;

    /// Whether user or model said the words in question, looking at the newest `entries_max` entries.
    fn search(
        &self,
        conversation: &ConversationRef,
        entries_max: usize,
        is_meant: &dyn Fn(&str) -> bool,
    ) -> Result<Searched, StoreUnavailable>;

    /// The entry that a client knows by this key.
    fn entry_of_key(
        &self,
        conversation: &ConversationRef,
        key: &str,
    ) -> Result<Option<Entry>, StoreUnavailable>;

    /// The approval request of a token, in any state; `None` if the token is forged or another user's.
    fn question(
        &self,
        conversation: &ConversationRef,
        token: &Token,
    ) -> Result<Option<Question>, StoreUnavailable>;

    /// Approval requests of the conversation by number, answered ones too. Each that waits for its answer has its token.
    fn open_questions(
        &self,
        conversation: &ConversationRef,
    ) -> Result<Vec<OpenQuestion>, StoreUnavailable>;

    fn question_of_number(
        &self,
        conversation: &ConversationRef,
        number: QuestionNumber,
    ) -> Result<Option<Question>, StoreUnavailable>;

    /// An effect with its conversation.
    fn effect(
        &self,
        tenant: &TenantId,
        effect_id: &EffectId,
    ) -> Result<Option<(ConversationRef, Effect)>, StoreUnavailable>;

    /// The same for any tenant: services know an effect by its id alone.
    fn effect_of_any(
        &self,
        effect_id: &EffectId,
    ) -> Result<Option<(ConversationRef, Effect)>, StoreUnavailable>;

    /// Effects of a conversation whose end is known, and of which no model has heard.
    fn unheard(&self, conversation: &ConversationRef) -> Result<Vec<Effect>, StoreUnavailable>;

    /// Tasks of a user, running and ended ones, the one that began last first.
    fn tasks_of(
        &self,
        wanted: &WantedTasks<'_>,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable>;

    /// Tasks that have ended, or are unknown, and whose end was not told outside: the ones after `behind`, by the time of the end and
    /// the id, at most `tasks_max`.
    fn unsent_tasks(
        &self,
        behind: Option<(u64, &EffectId)>,
        tasks_max: usize,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable>;

    /// The leg that a resume token leads to, and its conversation.
    fn leg(&self, resume_token: &Hash) -> Result<Option<(ConversationRef, Leg)>, StoreUnavailable>;

    /// The present work of the sweep.
    fn due(&self) -> Result<Due, StoreUnavailable>;

    /// Effects that have ended, or are unknown, without a line in the audit; oldest first, at most `effects_max`.
    fn unaudited(
        &self,
        effects_max: usize,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable>;

    /// Deletes some expired rows, few enough that a commit can wait for them, and returns how many they were; 0 if nothing is left to
    /// delete. Never running effects, nor conversations with live legs.
    fn prune(&self) -> Result<usize, StoreUnavailable>;

    /// Ends the id of an anonymous client. The newest [`ENDED_CLIENTS_MAX`] ended ids are kept.
    fn end_client(&self, client_id: &ClientId) -> Result<(), StoreUnavailable>;

    /// Ended ids of clients, oldest first.
    fn ended_clients(&self) -> Result<Vec<ClientId>, StoreUnavailable>;

    /// The store's time.
    fn now_unix_ms(&self) -> u64;

    /// The process that owns the store.
    fn owner(&self) -> &OwnerId;
}

/// The conversations to list.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    pub tenant: &'a TenantId,
    /// The user of the conversations.
    pub user_id: &'a UserId,
    /// And those of every user whose name begins with this. It begins with the name of the user.
    pub prefix: Option<&'a str>,
    /// After this one, by the time at which it was used last and its id.
    pub behind: Option<(u64, &'a ConversationId)>,
    pub conversations_max: usize,
}

impl Wanted<'_> {
    pub(crate) fn is_users(&self, user_id: &UserId) -> bool {
        let begins = |prefix| user_id.as_str().starts_with(prefix);
        user_id == self.user_id || self.prefix.is_some_and(begins)
    }
}

/// The result of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    pub is_found: bool,
    /// The number of entries that were looked at.
    pub entries: usize,
}

/// Work that is due without a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Due {
    /// Conversations with attempts whose lease is over or whose process is dead.
    pub lapsed: Vec<ConversationRef>,
    /// Unknown effects whose handlers are to be asked.
    pub lookups: Vec<(ConversationRef, Effect)>,
}

/// The most of each that one [`Store::due`] names.
pub const DUE_MAX: usize = 256;

/// The store could not carry out a request. The texts are for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreUnavailable {
    #[error("the store's disk is full ({cause}); free space where the data folder is")]
    DiskFull { cause: String },
    #[error(
        "the store is locked by another process ({cause}); stop that one, or name another data folder"
    )]
    Locked { cause: String },
    #[error(
        "the store's file {} was deleted or replaced while it was in use; stop the program, put the file back if it is to \
         know what was done, and start again",
        path.display()
    )]
    Moved { path: PathBuf },
    #[error("the store has more to do than it can; try again later, or use a faster disk")]
    Overloaded,
    #[error("the store does not answer: {cause}")]
    Failed { cause: String },
}

/// The number of rows that one step of pruning deletes from a file: a commit waits no longer than for these.
pub const PRUNED_ROWS_MAX: usize = 250;

/// The number of ended ids of anonymous clients that are known.
pub const ENDED_CLIENTS_MAX: usize = 100_000;

/// Milliseconds for which an abandoned nonce is known.
const ABANDONED_MS: u64 = 24 * 60 * 60 * 1_000;

/// The latest time that is kept, in milliseconds since the Unix epoch; later ones are taken for it. SQLite's integers are
/// signed.
const TIME_MAX_UNIX_MS: u64 = i64::MAX as u64;
