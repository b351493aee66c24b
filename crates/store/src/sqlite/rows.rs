//! The rows of one conversation within one transaction. Knows no statement.

use super::tables::unavailable;
use super::{conversations, effects, entries, questions};
use crate::effect::Effect;
use crate::id::{ConversationRef, EffectKey, EntryNumber, LegNumber, Nonce, QuestionNumber};
use crate::leg::{Conversation, Delivery, Leg};
use crate::log::Entry;
use crate::question::Question;
use crate::rows::{Change, Counts, Tables};
use crate::{Hash, StoreUnavailable};
use rusqlite::Connection;
use windlass_tool::id::{EffectId, SessionId, ToolId};

pub(super) struct ConversationRows<'a> {
    connection: &'a Connection,
    of: &'a ConversationRef,
    /// The oldest entry that the table has.
    first_entry: Option<EntryNumber>,
}

impl<'a> ConversationRows<'a> {
    pub(super) fn new(connection: &'a Connection, of: &'a ConversationRef) -> Self {
        Self {
            connection,
            of,
            first_entry: None,
        }
    }

    fn write_change(&mut self, change: &Change) -> rusqlite::Result<()> {
        let (connection, of) = (self.connection, self.of);
        match change {
            Change::Conversation(conversation) => {
                conversations::upsert(connection, conversation)?;
                let first = conversation.first_entry;
                if self.first_entry.is_some_and(|known| known < first) {
                    entries::trim(connection, of, first)?;
                }
                self.first_entry = Some(first);
                Ok(())
            }
            Change::Leg(leg) => conversations::upsert_leg(connection, of, leg),
            Change::Effect(effect) => effects::upsert(connection, of, effect),
            Change::Question(question) => questions::upsert(connection, of, question),
            Change::Delivery(delivery) => conversations::upsert_delivery(connection, of, delivery),
            Change::Entry(entry) => entries::insert(connection, of, entry),
            Change::Abandoned { nonce, at_unix_ms } => {
                conversations::abandon(connection, of, nonce, *at_unix_ms)
            }
        }
    }
}

impl Tables for ConversationRows<'_> {
    fn conversation(&mut self) -> Result<Option<Conversation>, StoreUnavailable> {
        let (tenant, conversation_id) = (&self.of.tenant, &self.of.conversation_id);
        let found = conversations::find(self.connection, tenant, conversation_id);
        let found = found.map_err(unavailable)?;
        self.first_entry = found.as_ref().map(|found| found.first_entry);
        Ok(found)
    }

    fn leg(&mut self, leg: &SessionId) -> Result<Option<Leg>, StoreUnavailable> {
        conversations::leg(self.connection, self.of, leg).map_err(unavailable)
    }

    fn leg_by_token(&mut self, token: &Hash) -> Result<Option<Leg>, StoreUnavailable> {
        conversations::leg_by_token(self.connection, self.of, token).map_err(unavailable)
    }

    fn effects_of_key(&mut self, key: &EffectKey) -> Result<Vec<Effect>, StoreUnavailable> {
        effects::of_key(self.connection, self.of, key).map_err(unavailable)
    }

    fn effect(&mut self, effect_id: &EffectId) -> Result<Option<Effect>, StoreUnavailable> {
        effects::find(self.connection, self.of, effect_id).map_err(unavailable)
    }

    fn children(
        &mut self,
        parent: &EffectId,
        ordinal: u32,
    ) -> Result<Vec<Effect>, StoreUnavailable> {
        effects::children(self.connection, self.of, parent, ordinal).map_err(unavailable)
    }

    fn running(&mut self) -> Result<Vec<Effect>, StoreUnavailable> {
        effects::running(self.connection, self.of).map_err(unavailable)
    }

    fn unheard(&mut self, tool: Option<&ToolId>) -> Result<Vec<Effect>, StoreUnavailable> {
        effects::unheard(self.connection, self.of, tool).map_err(unavailable)
    }

    fn begun_since(
        &mut self,
        tool: &ToolId,
        at_unix_ms: u64,
    ) -> Result<Vec<Effect>, StoreUnavailable> {
        effects::begun_since(self.connection, self.of, tool, at_unix_ms).map_err(unavailable)
    }

    fn questions_of_key(&mut self, key: &EffectKey) -> Result<Vec<Question>, StoreUnavailable> {
        questions::of_key(self.connection, self.of, key).map_err(unavailable)
    }

    fn question(&mut self, number: QuestionNumber) -> Result<Option<Question>, StoreUnavailable> {
        questions::find(self.connection, self.of, number).map_err(unavailable)
    }

    fn pending_questions(&mut self) -> Result<Vec<Question>, StoreUnavailable> {
        questions::pending(self.connection, self.of).map_err(unavailable)
    }

    fn delivery(
        &mut self,
        leg: &SessionId,
        id: &str,
    ) -> Result<Option<Delivery>, StoreUnavailable> {
        conversations::delivery(self.connection, self.of, leg, id).map_err(unavailable)
    }

    fn entry_of_leg(
        &mut self,
        leg: &SessionId,
        number: LegNumber,
    ) -> Result<Option<EntryNumber>, StoreUnavailable> {
        entries::of_leg(self.connection, self.of, leg, number).map_err(unavailable)
    }

    fn entry_of_key(&mut self, key: &str) -> Result<Option<EntryNumber>, StoreUnavailable> {
        let entry = entries::of_key(self.connection, self.of, key).map_err(unavailable)?;
        Ok(entry.map(|entry| entry.number))
    }

    fn newest_entries(&mut self, entries_max: usize) -> Result<Vec<Entry>, StoreUnavailable> {
        let after = EntryNumber(0);
        entries::newest(self.connection, self.of, after, entries_max).map_err(unavailable)
    }

    fn is_abandoned(&mut self, nonce: &Nonce) -> Result<bool, StoreUnavailable> {
        conversations::is_abandoned(self.connection, self.of, nonce).map_err(unavailable)
    }

    fn counts(&mut self, now_unix_ms: u64) -> Result<Counts, StoreUnavailable> {
        let (connection, of) = (self.connection, self.of);
        Ok(Counts {
            effects: effects::count(connection, of).map_err(unavailable)?,
            questions: questions::count_open(connection, of, now_unix_ms).map_err(unavailable)?,
        })
    }

    fn write(&mut self, change: Change) -> Result<(), StoreUnavailable> {
        self.write_change(&change).map_err(unavailable)
    }

    fn forget(&mut self) -> Result<(), StoreUnavailable> {
        let (tenant, conversation_id) = (&self.of.tenant, &self.of.conversation_id);
        let rows = conversations::forget(self.connection, tenant, conversation_id, usize::MAX);
        self.first_entry = None;
        rows.map(drop).map_err(unavailable)
    }
}
