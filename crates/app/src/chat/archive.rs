//! What the store has of conversations, so that they go on after a restart: what was said, which messages were answered how,
//! and where the calls had got to. Owns the form of an entry; knows no turn.

use super::conversation::{Asked, Message};
use super::record::TurnRecord;
use crate::clock;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use windlass_runtime::effects::{Beside, Ended, inherited};
use windlass_runtime::store_thread::StoreHandle;
use windlass_runtime::text::{Past, ui_stream};
use windlass_session::model::HistoryEntry;
use windlass_store::{Appended, NewEntry, Opened, StoreUnavailable, Transaction};
use windlass_tool::id::{ClientId, ConversationId, EffectId, UserId};
use windlass_tool::sensitive::Sensitive;

/// The version of an entry's form. Entries of another one are passed over.
const VERSION: u32 = 1;
/// Entries that are read of a conversation: more than memory keeps the answers of.
const ENTRIES_MAX: usize = 64;
/// Bytes of one answer that are kept.
const KEPT_ANSWER_BYTES_MAX: usize = 192 * 1024;
/// What stands in the place of an owner where whoever knows a conversation's id may go on with it. No client has this id.
const ANYBODY: &str = "*";

/// Writes to the store without waiting for it, and reads from it.
#[derive(Clone)]
pub(crate) struct Archive {
    store: StoreHandle,
}

/// A conversation as the store has it.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) owner: Option<ClientId>,
    /// For whom its text session was, and where that one had got to.
    pub(crate) ended: Option<(UserId, Ended)>,
    /// Oldest first.
    pub(crate) entries: Vec<Entry>,
}

/// What happened in one turn.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Of a turn by text: whose it was, and where its session had got to then.
    pub(crate) ended: Option<(UserId, Ended)>,
    /// The message that was answered, where it is known when it comes again.
    #[serde(flatten)]
    pub(crate) message: Option<Message>,
    /// What the client was sent, without tokens.
    pub(crate) answer: Option<Sensitive<String>>,
    /// What was said since the last entry, by text or by voice.
    pub(crate) said: Vec<HistoryEntry>,
    /// Whom it asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) asked: Vec<Asked>,
}

/// A turn, or what was said by voice, as it is to be kept.
pub(crate) struct KeptTurn {
    pub(crate) entry: Entry,
    /// Where the answer of the entry's message is.
    pub(crate) answer: Option<Arc<TurnRecord>>,
    /// The changes of whose ends the model has spoken in it.
    pub(crate) answered: Vec<EffectId>,
}

#[derive(Serialize, Deserialize)]
struct Written<E> {
    version: u32,
    entry: E,
}

impl Archive {
    pub(crate) fn new(store: StoreHandle) -> Self {
        Self { store }
    }

    /// Keeps what happened in a conversation that was last used at a time, so that the store does not know it for longer than
    /// memory does, with the answer that a record has, and with the changes of whose ends it was said. The store's thread writes
    /// it down, in a moment and for many turns at once; nobody waits for it, and where the store fails, the log says so.
    pub(crate) fn keep(
        &self,
        id: &ConversationId,
        owner: Option<&ClientId>,
        used_unix_ms: u64,
        kept: KeptTurn,
    ) {
        let (id, owner) = (id.clone(), owner_id(owner));
        let KeptTurn {
            mut entry,
            mut answer,
            answered,
        } = kept;
        self.store.ask_later(move |transaction| {
            // Whoever goes on without what was said is to be told.
            for effect_id in &answered {
                transaction.mark_answered(effect_id)?;
            }
            if let Some(record) = answer.take() {
                let text = record.text(KEPT_ANSWER_BYTES_MAX);
                entry.answer = text.map(|text| Sensitive(ui_stream::without_questions(&text)));
            }
            append(transaction, &id, &owner, used_unix_ms, &mut entry)
        });
    }

    /// Keeps something in a transaction of somebody else.
    pub(crate) fn entry(
        id: &ConversationId,
        owner: Option<&ClientId>,
        used_unix_ms: u64,
        mut entry: Entry,
    ) -> Beside {
        let (id, owner) = (id.clone(), owner_id(owner));
        Box::new(move |transaction| append(transaction, &id, &owner, used_unix_ms, &mut entry))
    }

    /// The conversation of this id, if the store has one that has not been idle for too long. A store that takes no writes is
    /// read all the same.
    pub(crate) async fn find(&self, id: &ConversationId) -> Result<Option<Kept>, StoreUnavailable> {
        let (id, now) = (id.clone(), clock::now_unix_ms());
        let request = move |transaction: &mut dyn Transaction| find(transaction, &id, now);
        let asked = self.store.ask_behind_all(request.clone()).await;
        self.or_as_written_last(asked, request)
    }

    /// What a text session that goes on with a conversation is told first.
    pub(crate) async fn inherited(
        &self,
        id: &ConversationId,
        user: &UserId,
        ended: Ended,
    ) -> Result<Past, StoreUnavailable> {
        let membership = self.store.under_way().join(id);
        let (id, user, now) = (id.clone(), user.clone(), clock::now_unix_ms());
        let under_way = self.store.under_way().clone();
        let request = move |transaction: &mut dyn Transaction| {
            inherited(transaction, &id, &user, &ended, &under_way, now)
        };
        let asked = self.store.ask(request.clone()).await;
        let inputs = self.or_as_written_last(asked, request)?;
        Ok(Past::Inherited { inputs, membership })
    }

    /// Where nothing can be written now, as while another process writes, a conversation goes on all the same; what would
    /// change anything is refused until something can.
    fn or_as_written_last<T>(
        &self,
        asked: Result<T, StoreUnavailable>,
        request: impl FnMut(&mut dyn Transaction) -> Result<T, StoreUnavailable>,
    ) -> Result<T, StoreUnavailable> {
        let Err(error) = asked else { return asked };
        tracing::warn!(%error, "a conversation is read as it was written last");
        self.store.read(request)
    }
}

/// Reads a conversation within a transaction.
pub(crate) fn find(
    transaction: &mut dyn Transaction,
    id: &ConversationId,
    now_unix_ms: u64,
) -> Result<Option<Kept>, StoreUnavailable> {
    let Some(known) = transaction.conversation(id, now_unix_ms)? else {
        return Ok(None);
    };
    let entries: Vec<Entry> = transaction
        .entries(id, ENTRIES_MAX)?
        .iter()
        .filter_map(|entry| serde_json::from_str::<Written<Entry>>(entry.body.expose()).ok())
        .filter(|written| written.version == VERSION)
        .map(|written| written.entry)
        .collect();
    Ok(Some(Kept {
        owner: (known.user_id.as_str() != ANYBODY).then(|| ClientId::new(known.user_id.as_str())),
        ended: entries.iter().rev().find_map(|entry| entry.ended.clone()),
        entries,
    }))
}

/// Adds to what the store has of a conversation, which begins with it.
fn append(
    transaction: &mut dyn Transaction,
    id: &ConversationId,
    owner: &UserId,
    now_unix_ms: u64,
    entry: &mut Entry,
) -> Result<(), StoreUnavailable> {
    if transaction.open_conversation(id, owner, now_unix_ms)? == Opened::Foreign {
        tracing::error!(conversation = %id, "a conversation of another owner has this id in the store");
        return Ok(());
    }
    loop {
        let body = NewEntry {
            key: None,
            body: entry.body(),
        };
        match transaction.append(id, &[body], now_unix_ms)? {
            Appended::Stored(_) | Appended::Missing => return Ok(()),
            Appended::TooLong if entry.shorten() => {}
            Appended::TooLong => {
                tracing::warn!(conversation = %id, "a turn is longer than store.entry_bytes_max and is not kept");
                return Ok(());
            }
        }
    }
}

fn owner_id(owner: Option<&ClientId>) -> UserId {
    UserId::new(owner.map_or(ANYBODY, ClientId::as_str))
}

impl Entry {
    /// As it is stored.
    fn body(&self) -> Sensitive<String> {
        let (version, entry) = (VERSION, self);
        let written = serde_json::to_string(&Written { version, entry });
        Sensitive(written.expect("an entry has text keys and whole numbers"))
    }

    /// Leaves out what the store takes no more of; false where nothing is left to leave out.
    fn shorten(&mut self) -> bool {
        if self.answer.take().is_some() {
            return true;
        }
        let has_words = !self.said.is_empty();
        self.said.clear();
        has_words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn an_entry_says_which_message_it_answered() {
        let hash = vec![7; 32];
        for (stored, message) in [
            (json!({"message": null}), None),
            (json!({}), None),
            (json!({"content": hash}), None),
            (json!({"message": "m-1"}), Some(("m-1", None))),
            (
                json!({"message": "m-1", "content": hash}),
                Some(("m-1", Some([7; 32]))),
            ),
        ] {
            let mut entry = json!({"ended": null, "answer": "data: x", "said": []});
            let fields = entry.as_object_mut().unwrap();
            fields.extend(stored.as_object().unwrap().clone());
            let read: Entry = serde_json::from_value(entry).unwrap();
            let known = read.message.as_ref();
            let known = known.map(|message| (message.id.as_str(), message.content));
            assert_eq!(known, message, "{stored}");
            let written: Value = serde_json::to_value(&read).unwrap();
            let again: Entry = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(again.message.is_some(), message.is_some(), "{written}");
            assert_eq!(
                written.get("message").and_then(Value::as_str),
                message.map(|(id, _)| id)
            );
        }
    }
}
