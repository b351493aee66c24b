//! The durable store: one SQLite file in the data folder. Knows how the file is opened, who owns the folder and how a write becomes
//! durable; each table's statements are in a file of their own. Knows no rule of the ledger.

mod blocks;
mod clients;
mod conversations;
mod copy;
mod effects;
mod entries;
mod folding;
mod key_specs;
mod lock;
mod parties;
mod place;
mod pruning;
mod questions;
mod rows;
mod schema;
mod tables;
mod tasks;

use crate::apply::{Surroundings, apply};
use crate::command::{Command, OpenQuestion, Reply};
use crate::effect::Effect;
use crate::id::{ConversationRef, EntryNumber, OwnerId, QuestionNumber, Token};
use crate::leg::{Conversation, Leg};
use crate::log::Entry;
use crate::party::{Beginner, Parties, PartyKind, make_room};
use crate::question::Question;
use crate::rows::Tables as _;
use crate::task::WantedTasks;
use crate::{
    Batch, DUE_MAX, Due, Hash, Searched, Store, StoreSettings, StoreUnavailable, TIME_MAX_UNIX_MS,
    Wanted,
};
pub use copy::{check_database, copy_database};
use folding::Folding;
use place::OpenedFile;
use rows::ConversationRows;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tables::unavailable;
use windlass_contract::id::{ClientId, ConversationId, EffectId, TenantId};
use windlass_contract::private;

/// The file's name in the data folder.
pub const DATABASE_FILE: &str = "windlass.db";

/// The name of the lock file in the data folder, which names the process that owns the folder.
pub const LOCK_FILE: &str = "windlass.lock";

/// How long opening waits for another process that writes the same file.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);

/// The wait of a statement for another process: as long as an outcome may take to be stored before the call is answered without it.
const BUSY_TIMEOUT: Duration = Duration::from_millis(500);

/// The number of prepared statements that are kept: more than there are.
const STATEMENTS_MAX: usize = 128;

/// Why the store in a folder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the data folder {} cannot be written: {cause}; make it writable, or name another one",
        folder.display()
    )]
    NotWritable { folder: PathBuf, cause: String },
    #[error(
        "the data folder {} is in use by {holder}; stop that process, or name another data folder",
        folder.display()
    )]
    InUse { folder: PathBuf, holder: String },
    #[error(
        "the data folder {} cannot be locked: {cause}; name a folder on a disk of this machine",
        folder.display()
    )]
    NoLocks { folder: PathBuf, cause: String },
    #[error(
        "the data folder {} has no {DATABASE_FILE}: no server has used it; name another one",
        folder.display()
    )]
    NoDatabase { folder: PathBuf },
    #[error(
        "{} is not a database of windlass; move it away, or name another data folder",
        path.display()
    )]
    NotADatabase { path: PathBuf },
    #[error(
        "{} was written by a newer windlass: it has schema version {found}, and this one knows versions up to {known}; \
         run the newer one, or name another data folder",
        path.display()
    )]
    NewerSchema {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error(
        "{} is of an older format and cannot be set aside: {cause}; stop the process that has it open, or name \
         another data folder",
        path.display()
    )]
    NotSetAside { path: PathBuf, cause: String },
    #[error(
        "{} is locked by another process; stop that one, or name another data folder",
        path.display()
    )]
    Locked { path: PathBuf },
    #[error("{} cannot be opened: {cause}; free disk space or restore the file", path.display())]
    Failed {
        path: PathBuf,
        #[source]
        cause: rusqlite::Error,
    },
}

/// A store in a file. It owns its data folder for as long as it is there.
pub struct SqliteStore {
    /// The connection for queries by sessions: it does not wait for a running commit. Closed before the writer, which, if it is the
    /// last, folds the log into the file.
    reader: Mutex<Connection>,
    /// Its thread has a connection of its own, which is closed before the writer, too.
    folding: Mutex<Folding>,
    writer: Mutex<Connection>,
    place: OpenedFile,
    settings: StoreSettings,
    set_aside: Option<PathBuf>,
    /// Closed last, so that no other process opens a file that is still being closed.
    _lock: File,
}

/// A data folder that is this process's, and whose store is not opened yet. A process that does not get it has touched nothing in it.
pub struct HeldFolder {
    lock: File,
    folder: PathBuf,
    settings: StoreSettings,
}

impl HeldFolder {
    /// Opens the store; see [`SqliteStore::open`].
    pub fn open(self) -> Result<SqliteStore, OpenError> {
        SqliteStore::open_held(self)
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut formatter = formatter.debug_struct("SqliteStore");
        formatter
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Makes a missing data folder, so that a failure is known before anything else is done.
    pub fn make_folder(folder: &Path) -> Result<(), OpenError> {
        private::create_folder(folder).map_err(|error| not_writable(folder, &error))
    }

    /// Takes a data folder, with files that earlier versions left open in it, from everybody but its owner.
    pub fn tighten_folder(folder: &Path) -> Result<(), OpenError> {
        private::tighten(folder).map_err(|error| not_writable(folder, &error))
    }

    /// The process that owns a data folder now, in its own words.
    pub fn holder(folder: &Path) -> Result<Option<String>, OpenError> {
        lock::holder_of(folder)
    }

    /// Opens the store of a data folder, and takes the folder for this process. Makes the folder and the file if they are missing, and
    /// sets a file aside that is of an older format than any release.
    pub fn open(folder: &Path, settings: StoreSettings) -> Result<Self, OpenError> {
        Self::hold(folder, settings)?.open()
    }

    /// Takes a data folder for this process, and opens nothing in it yet. Makes the folder if it is missing.
    pub fn hold(folder: &Path, settings: StoreSettings) -> Result<HeldFolder, OpenError> {
        Self::make_folder(folder)?;
        Ok(HeldFolder {
            lock: lock::take(folder, &settings)?,
            folder: folder.to_owned(),
            settings,
        })
    }

    fn open_held(held: HeldFolder) -> Result<Self, OpenError> {
        let HeldFolder {
            lock,
            folder,
            settings,
        } = held;
        let folder = &*folder;
        let path = folder.join(DATABASE_FILE);
        let explain = |error| explain(error, folder, &path);
        let (mut writer, mut age) = connect_to_write(folder, &path)?;
        let mut set_aside = None;
        if age == schema::Age::Unreleased {
            set_aside = Some(set_file_aside(writer, &path)?);
            (writer, age) = connect_to_write(folder, &path)?;
        }
        check_age(age, &path)?;
        // The file has a write-ahead log: others read while one writes, and a commit costs one flush.
        writer
            .pragma_update(None, "journal_mode", "WAL")
            .map_err(explain)?;
        writer.busy_timeout(BUSY_TIMEOUT).map_err(explain)?;
        let folding = Folding::of(&mut writer, path.clone()).map_err(explain)?;
        let reader = connect_to_read(&path).map_err(explain)?;
        let place = OpenedFile::of(&path).map_err(|error| not_writable(folder, &error))?;
        Ok(Self {
            reader: Mutex::new(reader),
            folding: Mutex::new(folding),
            writer: Mutex::new(writer),
            place,
            settings,
            set_aside,
            _lock: lock,
        })
    }

    /// The new name of a file from an older, unreleased version, if there was one. Nothing reads it.
    pub fn set_aside(&self) -> Option<&Path> {
        self.set_aside.as_deref()
    }

    fn writer(&self) -> MutexGuard<'_, Connection> {
        // A panic between two statements rolls its transaction back, so the connection is as good as before.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(&self) -> MutexGuard<'_, Connection> {
        // This connection only reads.
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads several rows as of one moment.
    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreUnavailable> {
        let mut reader = self.reader();
        let transaction = reader.transaction().map_err(unavailable)?;
        read(&transaction).map_err(unavailable)
    }

    /// Reads rows of a conversation that is still known, and is this user's. Returns nothing for any other.
    fn read_of<T: Default>(
        &self,
        of: &ConversationRef,
        read: impl FnOnce(&Connection, &Conversation) -> rusqlite::Result<T>,
    ) -> Result<T, StoreUnavailable> {
        self.read(
            |connection| match self.known(connection, &of.tenant, &of.conversation_id)? {
                Some(known) if known.user_id == of.user_id => read(connection, &known),
                Some(_) | None => Ok(T::default()),
            },
        )
    }

    /// A conversation that has not rested for too long.
    fn known(
        &self,
        connection: &Connection,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> rusqlite::Result<Option<Conversation>> {
        let Some(found) = conversations::find(connection, tenant, conversation_id)? else {
            return Ok(None);
        };
        let of = ConversationRef {
            tenant: tenant.clone(),
            conversation_id: conversation_id.clone(),
            user_id: found.user_id.clone(),
        };
        let is_over = found.is_idle(self.now_unix_ms(), &self.settings.limits)
            && !pruning::is_in_use(connection, &of, &self.settings.owner, self.now_unix_ms())?;
        Ok((!is_over).then_some(found))
    }
}

impl Store for SqliteStore {
    fn commit(&self, batches: &[Batch]) -> Result<Vec<Vec<Reply>>, StoreUnavailable> {
        self.place.check()?;
        let mut writer = self.writer();
        // The transaction asks for the right to write at once: one that reads first can be refused it later.
        let transaction = writer
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(unavailable)?;
        let surroundings = Surroundings {
            key: &self.settings.key,
            limits: &self.settings.limits,
            owner: &self.settings.owner,
            now_unix_ms: self.now_unix_ms(),
        };
        let mut replies = Vec::with_capacity(batches.len());
        let mut all_rows = BTreeMap::new();
        for batch in batches {
            let of = &batch.conversation;
            let place = (&of.tenant, &of.conversation_id);
            let mut rows = all_rows
                .remove(&place)
                .unwrap_or_else(|| ConversationRows::new(&transaction, of));
            if batch.commands.iter().any(Command::may_begin)
                && is_new(rows.conversation()?.as_ref(), &surroundings)
            {
                // The tables show which conversations may go for a new one, so all changes of the others have to be in them by then.
                for (_, others) in std::mem::take(&mut all_rows) {
                    ConversationRows::finish(others)?;
                }
            }
            let answers = batch
                .commands
                .iter()
                .map(|command| apply(&mut rows, of, command, &surroundings));
            // On an error the transaction is dropped, which rolls it back.
            replies.push(answers.collect::<Result<Vec<Reply>, _>>()?);
            all_rows.insert(place, rows);
        }
        for (_, rows) in all_rows {
            rows.finish()?;
        }
        transaction.commit().map_err(unavailable)?;
        let folding = self.folding.lock();
        folding
            .unwrap_or_else(PoisonError::into_inner)
            .after_commit(&writer);
        Ok(replies)
    }

    fn conversation(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<Option<Conversation>, StoreUnavailable> {
        self.read(|connection| self.known(connection, tenant, conversation_id))
    }

    fn crowded(
        &self,
        tenant: &TenantId,
        beginner: &Beginner,
    ) -> Result<Option<PartyKind>, StoreUnavailable> {
        let StoreSettings {
            key, owner, limits, ..
        } = &self.settings;
        let parties = Parties::of(beginner, tenant, key);
        let asking = parties::Asking {
            tenant,
            owner,
            now_unix_ms: self.now_unix_ms(),
        };
        let crowds =
            self.read(|connection| parties::crowds(connection, &parties, &asking, limits))?;
        Ok(make_room(&crowds).err())
    }

    fn entries(
        &self,
        conversation: &ConversationRef,
        after: EntryNumber,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable> {
        self.read_of(conversation, |connection, _| {
            entries::newest(connection, conversation, after, entries_max)
        })
    }

    fn entries_before(
        &self,
        conversation: &ConversationRef,
        before: EntryNumber,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable> {
        self.read_of(conversation, |connection, _| {
            entries::before(connection, conversation, before, entries_max)
        })
    }

    fn conversations_of(&self, wanted: &Wanted<'_>) -> Result<Vec<Conversation>, StoreUnavailable> {
        self.read(|connection| conversations::listed(connection, wanted))
    }

    fn search(
        &self,
        conversation: &ConversationRef,
        entries_max: usize,
        is_meant: &dyn Fn(&str) -> bool,
    ) -> Result<Searched, StoreUnavailable> {
        self.read_of(conversation, |connection, _| {
            entries::search(connection, conversation, entries_max, is_meant)
        })
    }

    fn entry_of_key(
        &self,
        conversation: &ConversationRef,
        key: &str,
    ) -> Result<Option<Entry>, StoreUnavailable> {
        self.read_of(conversation, |connection, _| {
            entries::of_key(connection, conversation, key)
        })
    }

    fn question(
        &self,
        conversation: &ConversationRef,
        token: &Token,
    ) -> Result<Option<Question>, StoreUnavailable> {
        let question = self.question_of_number(conversation, token.question)?;
        Ok(question.filter(|question| {
            let arguments = question.arguments.expose();
            let key = &self.settings.key;
            key.token(conversation, question.number, arguments) == *token
        }))
    }

    fn open_questions(
        &self,
        conversation: &ConversationRef,
    ) -> Result<Vec<OpenQuestion>, StoreUnavailable> {
        let questions = self.read_of(conversation, |connection, known| {
            let now_unix_ms = self.now_unix_ms().max(known.used_at_unix_ms);
            questions::open(connection, conversation, now_unix_ms)
        })?;
        let asked = questions.into_iter().map(|question| {
            let arguments = question.arguments.expose();
            let key = &self.settings.key;
            OpenQuestion {
                token: key.token(conversation, question.number, arguments),
                question,
                is_repeated: true,
                replaced: Vec::new(),
            }
        });
        Ok(asked.collect())
    }

    fn question_of_number(
        &self,
        conversation: &ConversationRef,
        number: QuestionNumber,
    ) -> Result<Option<Question>, StoreUnavailable> {
        self.read_of(conversation, |connection, _| {
            questions::find(connection, conversation, number)
        })
    }

    fn effect(
        &self,
        tenant: &TenantId,
        effect_id: &EffectId,
    ) -> Result<Option<(ConversationRef, Effect)>, StoreUnavailable> {
        self.read(|connection| effects::find_of_tenant(connection, tenant, effect_id))
    }

    fn effect_of_any(
        &self,
        effect_id: &EffectId,
    ) -> Result<Option<(ConversationRef, Effect)>, StoreUnavailable> {
        self.read(|connection| effects::find_of_any(connection, effect_id))
    }

    fn unheard(&self, conversation: &ConversationRef) -> Result<Vec<Effect>, StoreUnavailable> {
        self.read_of(conversation, |connection, _| {
            effects::unheard(connection, conversation, None)
        })
    }

    fn tasks_of(
        &self,
        wanted: &WantedTasks<'_>,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        self.read(|connection| tasks::listed(connection, wanted))
    }

    fn unsent_tasks(
        &self,
        behind: Option<(u64, &EffectId)>,
        tasks_max: usize,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        self.read(|connection| tasks::unsent(connection, behind, tasks_max))
    }

    fn leg(&self, resume_token: &Hash) -> Result<Option<(ConversationRef, Leg)>, StoreUnavailable> {
        self.read(|connection| conversations::leg_of_any(connection, resume_token))
    }

    fn due(&self) -> Result<Due, StoreUnavailable> {
        let (owner, now_unix_ms) = (&self.settings.owner, self.now_unix_ms());
        self.read(|connection| {
            Ok(Due {
                lapsed: effects::lapsed(connection, owner, now_unix_ms, DUE_MAX)?,
                lookups: effects::lookups(connection, now_unix_ms, DUE_MAX)?,
            })
        })
    }

    fn unaudited(
        &self,
        effects_max: usize,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        self.read(|connection| effects::unaudited(connection, effects_max))
    }

    fn prune(&self) -> Result<usize, StoreUnavailable> {
        self.place.check()?;
        let mut writer = self.writer();
        let transaction = writer
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(unavailable)?;
        let ends = pruning::Ends {
            limits: &self.settings.limits,
            owner: &self.settings.owner,
            now_unix_ms: self.now_unix_ms(),
        };
        let rows = pruning::slice(&transaction, &ends).map_err(unavailable)?;
        transaction.commit().map_err(unavailable)?;
        Ok(rows)
    }

    fn end_client(&self, client_id: &ClientId) -> Result<(), StoreUnavailable> {
        self.place.check()?;
        clients::end(&mut self.writer(), client_id).map_err(unavailable)
    }

    fn ended_clients(&self) -> Result<Vec<ClientId>, StoreUnavailable> {
        self.read(clients::all)
    }

    fn now_unix_ms(&self) -> u64 {
        (self.settings.clock)().min(TIME_MAX_UNIX_MS)
    }

    fn owner(&self) -> &OwnerId {
        &self.settings.owner
    }
}

/// Whether a conversation would begin: it is missing, or has rested for too long.
fn is_new(known: Option<&Conversation>, surroundings: &Surroundings<'_>) -> bool {
    known.is_none_or(|known| known.is_idle(surroundings.now_unix_ms, surroundings.limits))
}

/// Opens the file to write, and brings it up to date if it is ours.
fn connect_to_write(folder: &Path, path: &Path) -> Result<(Connection, schema::Age), OpenError> {
    match private::options().create_new(true).open(path) {
        Ok(_) => {}
        // An existing file is not opened here: closing it would end the locks that SQLite has on it in this process,
        // <https://sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_>.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(not_writable(folder, &error)),
    }
    let explain = |error| explain(error, folder, path);
    let mut connection = connect(path).map_err(explain)?;
    let age = schema::bring_up_to_date(&mut connection).map_err(explain)?;
    Ok((connection, age))
}

/// Refuses a file that this program cannot use.
fn check_age(age: schema::Age, path: &Path) -> Result<(), OpenError> {
    let path = path.to_owned();
    match age {
        schema::Age::Current => Ok(()),
        schema::Age::Newer { found, known } => Err(OpenError::NewerSchema { path, found, known }),
        schema::Age::Foreign | schema::Age::Unreleased => Err(OpenError::NotADatabase { path }),
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(OPEN_TIMEOUT)?;
    // With FULL a commit is on the disk when it returns, also through a loss of power:
    // <https://sqlite.org/pragma.html#pragma_synchronous>.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // Without this, a prepared statement is prepared again whenever a value that it compares with has changed, as times do with every
    // query: <https://sqlite.org/queryplanner-ng.html#qpsg>.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// With a write-ahead log, a file is read as it was before a running commit: <https://sqlite.org/wal.html#concurrency>.
fn connect_to_read(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Opens the write-ahead log, too, so that a file which is deleted later is still read to the end.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// Renames a file of an older format to the first free name, and returns that name.
fn set_file_aside(connection: Connection, path: &Path) -> Result<PathBuf, OpenError> {
    let failed = |cause: String| OpenError::NotSetAside {
        path: path.to_owned(),
        cause,
    };
    // The log is folded in first: one left behind would be taken for the new file's. SQLite refuses this if another process has the file
    // open.
    connection
        .pragma_update(None, "journal_mode", "DELETE")
        .map_err(|error| failed(error.to_string()))?;
    connection
        .close()
        .map_err(|(_, error)| failed(error.to_string()))?;
    let named = |name: &Path, ending: &str| {
        let mut name = name.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let mut aside = (1_u32..).map(|number| named(path, &format!(".old-{number}")));
    let aside = aside
        .find(|aside| !aside.exists())
        .expect("a folder has fewer files than there are numbers");
    for ending in ["-wal", "-shm", ""] {
        let from = named(path, ending);
        if ending.is_empty() || from.exists() {
            std::fs::rename(from, named(&aside, ending))
                .map_err(|error| failed(error.to_string()))?;
        }
    }
    Ok(aside)
}

fn not_writable(folder: &Path, error: &io::Error) -> OpenError {
    OpenError::NotWritable {
        folder: folder.to_owned(),
        cause: error.to_string(),
    }
}

fn explain(error: rusqlite::Error, folder: &Path, path: &Path) -> OpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            OpenError::NotWritable {
                folder: folder.to_owned(),
                cause: error.to_string(),
            }
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => OpenError::NotADatabase {
            path: path.to_owned(),
        },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Locked {
            path: path.to_owned(),
        },
        _ => OpenError::Failed {
            path: path.to_owned(),
            cause: error,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::SqliteStore;
    use crate::command::{Command, NewLeg};
    use crate::{
        Batch, Beginner, ConversationRef, EntryEvent, Epoch, LegRef, NewEntry, OwnerId, ServerKey,
        Store, StoreLimits, StoreSettings, StoreUnavailable,
    };
    use std::path::Path;
    use std::sync::Arc;
    use windlass_contract::id::{ClientId, ConversationId, SessionId, TenantId, UserId};
    use windlass_contract::kind::Mode;
    use windlass_contract::sensitive::Sensitive;

    fn open(folder: &Path) -> SqliteStore {
        let settings = StoreSettings {
            key: ServerKey::new([7; 32]),
            owner: OwnerId("process 1".to_owned()),
            clock: Arc::new(|| 1_000),
            limits: StoreLimits::default(),
        };
        SqliteStore::open(folder, settings).unwrap()
    }

    #[test]
    fn a_commit_is_flushed_before_it_returns() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let writer = store.writer();
        let synchronous: i64 = writer
            .pragma_query_value(None, "synchronous", |row| row.get(0))
            .unwrap();
        // FULL, by SQLite's numbering.
        assert_eq!(synchronous, 2);
    }

    #[test]
    fn a_commit_that_finds_no_space_leaves_nothing_and_the_next_one_works_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let set_pages_max = |pages: i64| {
            // The pragma answers with the bound that is in force.
            let statement = format!("PRAGMA max_page_count = {pages}");
            let writer = store.writer();
            let found: rusqlite::Result<i64> = writer.query_row(&statement, [], |row| row.get(0));
            found.unwrap()
        };
        let of = ConversationRef {
            tenant: TenantId::default(),
            conversation_id: ConversationId::new("talk"),
            user_id: UserId::new("alice"),
        };
        let attach = Command::Attach(Box::new(NewLeg {
            leg: SessionId::new("leg"),
            mode: Mode::Text,
            client_id: ClientId::new("phone"),
            resume_token: [1; 32],
            expires_in_ms: 1_000,
        }));
        let append = Command::Append {
            leg: LegRef {
                leg: SessionId::new("leg"),
                epoch: Epoch(1),
            },
            entries: vec![NewEntry {
                leg_number: None,
                key: None,
                event: EntryEvent::Said(Sensitive("x".repeat(200_000))),
            }],
        };
        let commit = |commands: Vec<Command>| {
            store.commit(&[Batch {
                conversation: of.clone(),
                commands,
            }])
        };
        let commands = vec![Command::Open(Beginner::default()), attach, append];
        // A bound below the file's size is raised to that size.
        set_pages_max(1);
        let full = commit(commands.clone());
        assert!(
            matches!(full, Err(StoreUnavailable::DiskFull { .. })),
            "{full:?}"
        );
        let kept = || store.conversation(&of.tenant, &of.conversation_id);
        assert_eq!(kept(), Ok(None));
        assert_eq!(store.leg(&[1; 32]), Ok(None));
        set_pages_max(1_000_000);
        assert!(commit(commands).is_ok());
        assert!(kept().unwrap().is_some());
    }

    #[test]
    fn a_session_that_keeps_nothing_has_no_row_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let of = ConversationRef {
            tenant: TenantId::default(),
            conversation_id: ConversationId::new("talk"),
            user_id: UserId::new("alice"),
        };
        let leg = LegRef {
            leg: SessionId::new("leg"),
            epoch: Epoch(1),
        };
        let save = |body: &[u8]| Command::Save {
            leg: leg.clone(),
            body: Sensitive(body.to_vec()),
            expires_in_ms: 1_000,
        };
        let attach = Command::Attach(Box::new(NewLeg {
            leg: leg.leg.clone(),
            mode: Mode::Text,
            client_id: ClientId::new("phone"),
            resume_token: [1; 32],
            expires_in_ms: 1_000,
        }));
        let open = Batch {
            conversation: of.clone(),
            commands: vec![Command::Open(Beginner::default())],
        };
        store.commit(&[open]).unwrap();
        for (command, rows) in [(attach, 0), (save(b""), 0), (save(b"x"), 1), (save(b""), 1)] {
            let body = match &command {
                Command::Save { body, .. } => body.expose().clone(),
                _ => Vec::new(),
            };
            let batch = Batch {
                conversation: of.clone(),
                commands: vec![command],
            };
            store.commit(&[batch]).unwrap();
            let writer = store.writer();
            let found: rusqlite::Result<i64> =
                writer.query_row("SELECT count(*) FROM leg_bodies", [], |row| row.get(0));
            assert_eq!(found.unwrap(), rows);
            drop(writer);
            let (_, found) = store.leg(&[1; 32]).unwrap().unwrap();
            assert_eq!(*found.body.expose(), body);
        }
    }
}
