//! The rows of one conversation within one transaction. Nearly every command needs the conversation's own row and its leg's: each is
//! read once and written once. Knows no statement.

use super::tables::unavailable;
use super::{conversations, effects, entries, parties, pruning, questions, tasks};
use crate::effect::Effect;
use crate::id::{
    ConversationRef, EffectKey, EntryNumber, LegNumber, Nonce, OwnerId, QuestionNumber,
};
use crate::leg::{Conversation, Delivery, Leg};
use crate::log::Entry;
use crate::party::{ConversationPlace, Crowd, Parties};
use crate::question::Question;
use crate::rows::{Change, Counts, Tables};
use crate::task::RunningTasks;
use crate::{Hash, StoreLimits, StoreUnavailable};
use rusqlite::Connection;
use windlass_contract::id::{EffectId, SessionId, ToolId};

pub(super) struct ConversationRows<'a> {
    connection: &'a Connection,
    of: &'a ConversationRef,
    conversation: Option<Row<Conversation>>,
    /// The conversation was looked for. If `conversation` is `None`, it does not exist.
    is_read: bool,
    /// The leg that was read or written last.
    leg: Option<Row<Leg>>,
}

/// A row as the table has it, and its new value.
struct Row<T> {
    stored: Option<T>,
    now: T,
}

impl<T: Clone> Row<T> {
    /// The row as it was read.
    fn of(stored: &T) -> Self {
        Self {
            stored: Some(stored.clone()),
            now: stored.clone(),
        }
    }
}

impl<'a> ConversationRows<'a> {
    pub(super) fn new(connection: &'a Connection, of: &'a ConversationRef) -> Self {
        Self {
            connection,
            of,
            conversation: None,
            is_read: false,
            leg: None,
        }
    }

    /// Writes the rest of the changes, at the end of a transaction.
    pub(super) fn finish(mut self) -> Result<(), StoreUnavailable> {
        self.write_leg().map_err(unavailable)?;
        match self.conversation {
            Some(row) if row.stored.as_ref() != Some(&row.now) => {
                conversations::upsert(self.connection, &row.now).map_err(unavailable)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Writes the leg before another one takes its place, or is looked for by its token.
    fn write_leg(&mut self) -> rusqlite::Result<()> {
        match self.leg.take() {
            Some(row) => {
                conversations::write_leg(self.connection, self.of, row.stored.as_ref(), &row.now)
            }
            None => Ok(()),
        }
    }

    fn read_leg(&mut self, leg: &SessionId) -> rusqlite::Result<Option<Leg>> {
        if let Some(row) = self.leg.as_ref().filter(|row| row.now.leg == *leg) {
            return Ok(Some(row.now.clone()));
        }
        self.write_leg()?;
        let found = conversations::leg(self.connection, self.of, leg)?;
        self.keep_leg(found.as_ref());
        Ok(found)
    }

    fn read_leg_by_token(&mut self, token: &Hash) -> rusqlite::Result<Option<Leg>> {
        self.write_leg()?;
        let found = conversations::leg_by_token(self.connection, self.of, token)?;
        self.keep_leg(found.as_ref());
        Ok(found)
    }

    fn keep_leg(&mut self, found: Option<&Leg>) {
        self.leg = found.map(Row::of);
    }

    fn write_change(&mut self, change: Change) -> rusqlite::Result<()> {
        let (connection, of) = (self.connection, self.of);
        match &change {
            Change::Conversation(conversation) => self.change_conversation(conversation),
            Change::Leg(leg) => self.change_leg(leg),
            Change::LegOver(leg) => self.end_leg(leg),
            Change::Effect(effect) => effects::upsert(connection, of, effect),
            Change::Question(question) => questions::upsert(connection, of, question),
            Change::Delivery(delivery) => conversations::upsert_delivery(connection, of, delivery),
            Change::Entry(entry) => entries::insert(connection, of, entry),
            Change::Abandoned { nonce, at_unix_ms } => {
                conversations::abandon(connection, of, nonce, *at_unix_ms)
            }
            Change::Forgotten(place) => self.forget_place(place),
            Change::LegsEnded => {
                self.leg = None;
                conversations::end_legs(connection, of)
            }
        }
    }

    fn change_conversation(&mut self, conversation: &Conversation) -> rusqlite::Result<()> {
        let Some(row) = &mut self.conversation else {
            self.is_read = true;
            // It is written at once: the next conversation of the same party that begins counts it.
            conversations::upsert(self.connection, conversation)?;
            self.conversation = Some(Row::of(conversation));
            return Ok(());
        };
        let known = std::mem::replace(&mut row.now, conversation.clone());
        match known.first_entry < conversation.first_entry {
            true => entries::trim(self.connection, self.of, conversation.first_entry),
            false => Ok(()),
        }
    }

    fn end_leg(&mut self, leg: &SessionId) -> rusqlite::Result<()> {
        if self.leg.as_ref().is_some_and(|row| row.now.leg == *leg) {
            self.leg = None;
        }
        conversations::delete_leg(self.connection, self.of, leg)
    }

    /// Deletes everything of a conversation. Another conversation has no unwritten changes here.
    fn forget_place(&mut self, place: &ConversationPlace) -> rusqlite::Result<()> {
        let (tenant, conversation_id) = place;
        conversations::forget(self.connection, tenant, conversation_id, usize::MAX)?;
        if (tenant, conversation_id) == (&self.of.tenant, &self.of.conversation_id) {
            self.leg = None;
            (self.conversation, self.is_read) = (None, true);
        }
        Ok(())
    }

    fn change_leg(&mut self, leg: &Leg) -> rusqlite::Result<()> {
        if let Some(row) = self.leg.as_mut().filter(|row| row.now.leg == leg.leg) {
            row.now = leg.clone();
            return Ok(());
        }
        self.write_leg()?;
        self.leg = Some(Row {
            stored: None,
            now: leg.clone(),
        });
        Ok(())
    }
}

impl Tables for ConversationRows<'_> {
    fn conversation(&mut self) -> Result<Option<Conversation>, StoreUnavailable> {
        if self.is_read {
            return Ok(self.conversation.as_ref().map(|row| row.now.clone()));
        }
        let (tenant, conversation_id) = (&self.of.tenant, &self.of.conversation_id);
        let found = conversations::find(self.connection, tenant, conversation_id);
        let found = found.map_err(unavailable)?;
        self.is_read = true;
        self.conversation = found.as_ref().map(Row::of);
        Ok(found)
    }

    fn crowds(
        &mut self,
        parties: &Parties,
        owner: &OwnerId,
        now_unix_ms: u64,
        limits: &StoreLimits,
    ) -> Result<Vec<Crowd>, StoreUnavailable> {
        let asking = parties::Asking {
            tenant: &self.of.tenant,
            owner,
            now_unix_ms,
        };
        parties::crowds(self.connection, parties, &asking, limits).map_err(unavailable)
    }

    fn leg(&mut self, leg: &SessionId) -> Result<Option<Leg>, StoreUnavailable> {
        self.read_leg(leg).map_err(unavailable)
    }

    fn has_legs(&mut self, but: Option<&SessionId>) -> Result<bool, StoreUnavailable> {
        self.write_leg().map_err(unavailable)?;
        conversations::has_legs(self.connection, self.of, but).map_err(unavailable)
    }

    fn leg_by_token(&mut self, token: &Hash) -> Result<Option<Leg>, StoreUnavailable> {
        self.read_leg_by_token(token).map_err(unavailable)
    }

    fn effects_near(&mut self, near: &EffectKey) -> Result<Vec<Effect>, StoreUnavailable> {
        effects::near(self.connection, self.of, near).map_err(unavailable)
    }

    fn effects_of_other_specs(
        &mut self,
        tool: &ToolId,
        fingerprint: i64,
        effects_max: usize,
    ) -> Result<Vec<Effect>, StoreUnavailable> {
        let of = effects::OtherSpecs {
            tool,
            fingerprint,
            effects_max,
        };
        effects::of_other_specs(self.connection, self.of, &of).map_err(unavailable)
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

    fn is_in_use(&mut self, owner: &OwnerId, now_unix_ms: u64) -> Result<bool, StoreUnavailable> {
        pruning::is_in_use(self.connection, self.of, owner, now_unix_ms).map_err(unavailable)
    }

    fn has_live_leg(&mut self, owner: &OwnerId) -> Result<bool, StoreUnavailable> {
        self.write_leg().map_err(unavailable)?;
        conversations::has_live_leg(self.connection, self.of, owner).map_err(unavailable)
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
        entries::number_of_key(self.connection, self.of, key).map_err(unavailable)
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

    fn running_tasks(&mut self) -> Result<RunningTasks, StoreUnavailable> {
        tasks::running(self.connection, self.of).map_err(unavailable)
    }

    fn write(&mut self, change: Change) -> Result<(), StoreUnavailable> {
        self.write_change(change).map_err(unavailable)
    }
}
