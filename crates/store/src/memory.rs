//! The store in memory: the rows of `rows.rs` in maps, which it searches from end to end. Suits tests and throw-away runs. Knows no rule
//! of the ledger.

use crate::apply::{Surroundings, apply};
use crate::command::{OpenQuestion, Reply};
use crate::effect::Effect;
use crate::id::{
    ConversationRef, EffectKey, EntryNumber, LegNumber, Nonce, OwnerId, QuestionNumber, Token,
};
use crate::leg::{Became, Conversation, Delivery, Leg};
use crate::log::{EffectState, Entry, EntryEvent, QuestionState, SaidWords};
use crate::party::{Beginner, Crowd, Parties, PartyKind, ROOM_MAX, make_room};
use crate::question::Question;
use crate::rows::{Change, Counts, Tables};
use crate::task::{RunningTasks, WantedTasks};
use crate::{
    ABANDONED_MS, Batch, DUE_MAX, Due, ENDED_CLIENTS_MAX, Hash, Searched, Store, StoreLimits,
    StoreSettings, StoreUnavailable, TIME_MAX_UNIX_MS, Wanted,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use windlass_contract::handler::{Block, Blocks, BlocksUnavailable};
use windlass_contract::id::{
    ClientId, ConversationId, EffectId, SessionId, TenantId, ToolId, UserId,
};

/// Keeps everything until it is dropped.
#[derive(Clone)]
pub struct MemoryStore {
    settings: StoreSettings,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    blocks: BTreeMap<UserId, Block>,
    conversations: BTreeMap<(TenantId, ConversationId), ConversationRows>,
    ended_clients: VecDeque<ClientId>,
}

/// Everything of one conversation.
#[derive(Debug)]
struct ConversationRows {
    conversation: Conversation,
    legs: BTreeMap<SessionId, Leg>,
    /// The effects in the order in which they began.
    effects: Vec<Effect>,
    questions: BTreeMap<QuestionNumber, Question>,
    deliveries: BTreeMap<(SessionId, String), Delivery>,
    /// The entries by number, without gaps.
    entries: VecDeque<Entry>,
    abandoned: Vec<(Nonce, u64)>,
}

impl MemoryStore {
    pub fn new(settings: StoreSettings) -> Self {
        Self {
            settings,
            kept: Arc::default(),
        }
    }

    /// The same rows, as a process with another owner and another clock sees them.
    pub fn for_another_process(&self, settings: StoreSettings) -> Self {
        Self {
            settings,
            kept: self.kept.clone(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(
        &self,
        conversation: &ConversationRef,
        read: impl FnOnce(&ConversationRows) -> T,
    ) -> Result<Option<T>, StoreUnavailable> {
        let kept = self.kept();
        let place = (
            conversation.tenant.clone(),
            conversation.conversation_id.clone(),
        );
        let rows = kept.conversations.get(&place).filter(|rows| {
            rows.conversation.user_id == conversation.user_id && !self.is_over(rows)
        });
        Ok(rows.map(read))
    }

    /// Whether nothing of a conversation is known any more.
    fn is_over(&self, rows: &ConversationRows) -> bool {
        let now_unix_ms = self.now_unix_ms();
        rows.conversation
            .is_idle(now_unix_ms, &self.settings.limits)
            && !rows.is_in_use(&self.settings.owner, now_unix_ms)
    }

    fn asked(&self, conversation: &ConversationRef, question: &Question) -> OpenQuestion {
        let arguments = question.arguments.expose();
        let key = &self.settings.key;
        OpenQuestion {
            question: question.clone(),
            token: key.token(conversation, question.number, arguments),
            is_repeated: true,
            replaced: Vec::new(),
        }
    }
}

impl Store for MemoryStore {
    fn commit(&self, batches: &[Batch]) -> Result<Vec<Vec<Reply>>, StoreUnavailable> {
        let mut kept = self.kept();
        let surroundings = Surroundings {
            key: &self.settings.key,
            limits: &self.settings.limits,
            owner: &self.settings.owner,
            now_unix_ms: self.now_unix_ms(),
        };
        let mut replies = Vec::with_capacity(batches.len());
        for batch in batches {
            let of = &batch.conversation;
            let mut transaction = TransactionRows {
                kept: &mut kept,
                place: (of.tenant.clone(), of.conversation_id.clone()),
            };
            let answers = batch
                .commands
                .iter()
                .map(|command| apply(&mut transaction, of, command, &surroundings));
            replies.push(answers.collect::<Result<Vec<Reply>, _>>()?);
        }
        Ok(replies)
    }

    fn conversation(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<Option<Conversation>, StoreUnavailable> {
        let kept = self.kept();
        let place = (tenant.clone(), conversation_id.clone());
        let rows = kept.conversations.get(&place);
        let rows = rows.filter(|rows| !self.is_over(rows));
        Ok(rows.map(|rows| rows.conversation.clone()))
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
        let now_unix_ms = self.now_unix_ms();
        let crowds = self
            .kept()
            .crowds(tenant, &parties, owner, now_unix_ms, limits);
        Ok(make_room(&crowds).err())
    }

    fn entries(
        &self,
        conversation: &ConversationRef,
        after: EntryNumber,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable> {
        let entries = self.read(conversation, |rows| {
            let newer = rows.entries.iter().filter(|entry| entry.number > after);
            let newer: Vec<&Entry> = newer.collect();
            let surplus = newer.len().saturating_sub(entries_max);
            newer[surplus..].iter().copied().cloned().collect()
        })?;
        Ok(entries.unwrap_or_default())
    }

    fn entries_before(
        &self,
        conversation: &ConversationRef,
        before: EntryNumber,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable> {
        let entries = self.read(conversation, |rows| {
            let older = rows.entries.iter().rev();
            let older = older.filter(|entry| entry.number < before);
            let mut older: Vec<Entry> = older.take(entries_max).cloned().collect();
            older.reverse();
            older
        })?;
        Ok(entries.unwrap_or_default())
    }

    fn conversations_of(&self, wanted: &Wanted<'_>) -> Result<Vec<Conversation>, StoreUnavailable> {
        let kept = self.kept();
        let all = kept.conversations.values().map(|rows| &rows.conversation);
        let place =
            |one: &Conversation| (Reverse(one.used_at_unix_ms), one.conversation_id.clone());
        let behind = wanted.behind.map(|(used, id)| (Reverse(used), id.clone()));
        let mut listed: Vec<Conversation> = all
            .filter(|one| one.tenant == *wanted.tenant && wanted.is_users(&one.user_id))
            .filter(|one| one.heading.messages > 0)
            .filter(|one| behind.as_ref().is_none_or(|behind| place(one) > *behind))
            .cloned()
            .collect();
        listed.sort_by_key(place);
        listed.truncate(wanted.conversations_max);
        Ok(listed)
    }

    fn search(
        &self,
        conversation: &ConversationRef,
        entries_max: usize,
        is_meant: &dyn Fn(&str) -> bool,
    ) -> Result<Searched, StoreUnavailable> {
        let searched = self.read(conversation, |rows| {
            let mut searched = Searched::default();
            for entry in rows.entries.iter().rev().take(entries_max) {
                searched.entries += 1;
                let EntryEvent::Said(said) = &entry.event else {
                    continue;
                };
                let words = SaidWords::of(said.expose());
                searched.is_found = words.is_some_and(|words| is_meant(&words.text));
                if searched.is_found {
                    break;
                }
            }
            searched
        })?;
        Ok(searched.unwrap_or_default())
    }

    fn entry_of_key(
        &self,
        conversation: &ConversationRef,
        key: &str,
    ) -> Result<Option<Entry>, StoreUnavailable> {
        let entry = self.read(conversation, |rows| rows.entry_of_key(key).cloned())?;
        Ok(entry.flatten())
    }

    fn question(
        &self,
        conversation: &ConversationRef,
        token: &Token,
    ) -> Result<Option<Question>, StoreUnavailable> {
        let question = self.question_of_number(conversation, token.question)?;
        Ok(question.filter(|question| self.asked(conversation, question).token == *token))
    }

    fn open_questions(
        &self,
        conversation: &ConversationRef,
    ) -> Result<Vec<OpenQuestion>, StoreUnavailable> {
        let now_unix_ms = self.now_unix_ms();
        let open = self.read(conversation, |rows| {
            let now_unix_ms = rows.time(now_unix_ms);
            let open = rows
                .questions
                .values()
                .filter(|question| question.is_open(now_unix_ms));
            open.map(|question| self.asked(conversation, question))
                .collect()
        })?;
        Ok(open.unwrap_or_default())
    }

    fn question_of_number(
        &self,
        conversation: &ConversationRef,
        number: QuestionNumber,
    ) -> Result<Option<Question>, StoreUnavailable> {
        let question = self.read(conversation, |rows| rows.questions.get(&number).cloned())?;
        Ok(question.flatten())
    }

    fn effect(
        &self,
        tenant: &TenantId,
        effect_id: &EffectId,
    ) -> Result<Option<(ConversationRef, Effect)>, StoreUnavailable> {
        let kept = self.kept();
        let mut all_rows = kept
            .conversations
            .values()
            .filter(|rows| rows.conversation.tenant == *tenant);
        Ok(all_rows.find_map(|rows| Some((rows.reference(), rows.effect(effect_id)?.clone()))))
    }

    fn effect_of_any(
        &self,
        effect_id: &EffectId,
    ) -> Result<Option<(ConversationRef, Effect)>, StoreUnavailable> {
        let kept = self.kept();
        let mut all_rows = kept.conversations.values();
        Ok(all_rows.find_map(|rows| Some((rows.reference(), rows.effect(effect_id)?.clone()))))
    }

    fn unheard(&self, conversation: &ConversationRef) -> Result<Vec<Effect>, StoreUnavailable> {
        let unheard = self.read(conversation, |rows| rows.unheard(None))?;
        Ok(unheard.unwrap_or_default())
    }

    fn tasks_of(
        &self,
        wanted: &WantedTasks<'_>,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        let place = |effect: &Effect| (Reverse(effect.begun_at_unix_ms), effect.effect_id.clone());
        let behind = wanted
            .behind
            .map(|(begun, id)| (Reverse(begun), id.clone()));
        let kept = self.kept();
        let all_rows = kept.conversations.values().filter(|rows| {
            let known = &rows.conversation;
            known.tenant == *wanted.tenant
                && wanted.is_users(&known.user_id)
                && wanted
                    .conversation_id
                    .is_none_or(|id| known.conversation_id == *id)
        });
        let mut listed = Vec::new();
        for rows in all_rows {
            let is_meant = |effect: &&Effect| {
                effect.task.is_some()
                    && (!wanted.only_running || effect.state == EffectState::Running)
                    && behind.as_ref().is_none_or(|behind| place(effect) > *behind)
            };
            let meant = rows.effects.iter().filter(is_meant);
            listed.extend(meant.map(|effect| (rows.reference(), effect.clone())));
        }
        listed.sort_by_key(|(_, effect)| place(effect));
        listed.truncate(wanted.tasks_max);
        Ok(listed)
    }

    fn unsent_tasks(
        &self,
        behind: Option<(u64, &EffectId)>,
        tasks_max: usize,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        let kept = self.kept();
        let mut unsent = Vec::new();
        for rows in kept.conversations.values() {
            let is_unsent = |effect: &&Effect| {
                effect.state != EffectState::Running
                    && effect.task.as_ref().is_some_and(|task| !task.is_sent)
            };
            let of_conversation = rows.effects.iter().filter(is_unsent);
            unsent.extend(of_conversation.map(|effect| (rows.reference(), effect.clone())));
        }
        let place = |effect: &Effect| (effect.changed_at_unix_ms, effect.effect_id.clone());
        let behind = behind.map(|(changed, id)| (changed, id.clone()));
        unsent.retain(|(_, effect)| behind.as_ref().is_none_or(|behind| place(effect) > *behind));
        unsent.sort_by_key(|(_, effect)| place(effect));
        unsent.truncate(tasks_max);
        Ok(unsent)
    }

    fn leg(&self, resume_token: &Hash) -> Result<Option<(ConversationRef, Leg)>, StoreUnavailable> {
        let kept = self.kept();
        let mut all_rows = kept.conversations.values();
        Ok(all_rows
            .find_map(|rows| Some((rows.reference(), rows.leg_by_token(resume_token)?.clone()))))
    }

    fn due(&self) -> Result<Due, StoreUnavailable> {
        let now_unix_ms = self.now_unix_ms();
        let kept = self.kept();
        let mut due = Due::default();
        for rows in kept.conversations.values() {
            let is_lapsed = |effect: &Effect| {
                effect.state == EffectState::Running
                    && effect
                        .newest_attempt()
                        .has_lapsed(now_unix_ms, &self.settings.owner)
            };
            if rows.effects.iter().any(is_lapsed) && due.lapsed.len() < DUE_MAX {
                due.lapsed.push(rows.reference());
            }
            let is_due = |effect: &&Effect| {
                effect.state == EffectState::Unknown && effect.lookup.is_due(now_unix_ms)
            };
            for effect in rows.effects.iter().filter(is_due) {
                if due.lookups.len() < DUE_MAX {
                    due.lookups.push((rows.reference(), effect.clone()));
                }
            }
        }
        Ok(due)
    }

    fn unaudited(
        &self,
        effects_max: usize,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        let kept = self.kept();
        let mut unaudited = Vec::new();
        for rows in kept.conversations.values() {
            let is_unaudited =
                |effect: &&Effect| effect.state != EffectState::Running && !effect.is_audited;
            for effect in rows.effects.iter().filter(is_unaudited) {
                unaudited.push((rows.reference(), effect.clone()));
            }
        }
        unaudited.sort_by_key(|(_, effect)| effect.changed_at_unix_ms);
        unaudited.truncate(effects_max);
        Ok(unaudited)
    }

    fn prune(&self) -> Result<usize, StoreUnavailable> {
        let now_unix_ms = self.now_unix_ms();
        Ok(self.kept().prune(now_unix_ms, &self.settings))
    }

    fn end_client(&self, client_id: &ClientId) -> Result<(), StoreUnavailable> {
        let ended = &mut self.kept().ended_clients;
        if !ended.contains(client_id) {
            ended.push_back(client_id.clone());
        }
        if ended.len() > ENDED_CLIENTS_MAX {
            ended.pop_front();
        }
        Ok(())
    }

    fn ended_clients(&self) -> Result<Vec<ClientId>, StoreUnavailable> {
        Ok(self.kept().ended_clients.iter().cloned().collect())
    }

    fn now_unix_ms(&self) -> u64 {
        (self.settings.clock)().min(TIME_MAX_UNIX_MS)
    }

    fn owner(&self) -> &OwnerId {
        &self.settings.owner
    }
}

impl Blocks for MemoryStore {
    fn block_all(&self, blocks: &[Block]) -> Result<(), BlocksUnavailable> {
        let mut kept = self.kept();
        for block in blocks {
            let until_unix_ms = block.until_unix_ms.min(TIME_MAX_UNIX_MS);
            let is_later = kept
                .blocks
                .get(&block.user_id)
                .is_none_or(|earlier| earlier.until_unix_ms < until_unix_ms);
            if is_later {
                let block = Block {
                    until_unix_ms,
                    ..block.clone()
                };
                kept.blocks.insert(block.user_id.clone(), block);
            }
        }
        Ok(())
    }

    fn blocked(
        &self,
        user_id: &UserId,
        now_unix_ms: u64,
    ) -> Result<Option<Block>, BlocksUnavailable> {
        let kept = self.kept();
        let block = kept.blocks.get(user_id);
        Ok(block
            .filter(|block| block.until_unix_ms > now_unix_ms)
            .cloned())
    }
}

impl Kept {
    /// Deletes expired rows, and returns how many.
    fn prune(&mut self, now_unix_ms: u64, settings: &StoreSettings) -> usize {
        let (limits, owner) = (&settings.limits, &settings.owner);
        let before = self.row_count();
        self.blocks
            .retain(|_, block| block.until_unix_ms > now_unix_ms);
        self.conversations.retain(|_, rows| {
            !rows.conversation.is_idle(now_unix_ms, limits) || rows.is_in_use(owner, now_unix_ms)
        });
        for rows in self.conversations.values_mut() {
            rows.prune(now_unix_ms, settings);
        }
        before - self.row_count()
    }

    /// The parties without room for one more conversation.
    fn crowds(
        &self,
        tenant: &TenantId,
        parties: &Parties,
        owner: &OwnerId,
        now_unix_ms: u64,
        limits: &StoreLimits,
    ) -> Vec<Crowd> {
        let is_of = |kind: PartyKind, known: &Conversation| match kind {
            PartyKind::Address => {
                parties.address.is_some() && known.parties.address == parties.address
            }
            PartyKind::User => parties.user.is_some() && known.parties.user == parties.user,
            PartyKind::Tenant => known.tenant == *tenant,
        };
        let is_empty = |rows: &ConversationRows| {
            rows.conversation.last_entry == EntryNumber(0)
                && !rows.conversation.has_external_content
                && !rows.is_in_use(owner, now_unix_ms)
        };
        let mut crowds = Vec::new();
        for kind in PartyKind::ALL {
            let all = self.conversations.iter();
            let own = all.filter(|(_, rows)| is_of(kind, &rows.conversation));
            let surplus = limits.shares.surplus(kind, own.clone().count());
            if surplus == 0 {
                continue;
            }
            let mut empty: Vec<_> = own.filter(|(_, rows)| is_empty(rows)).collect();
            empty.sort_by_key(|(_, rows)| rows.conversation.used_at_unix_ms);
            empty.truncate(surplus.min(ROOM_MAX));
            crowds.push(Crowd {
                kind,
                surplus,
                empty: empty.into_iter().map(|(place, _)| place.clone()).collect(),
            });
        }
        crowds
    }

    fn row_count(&self) -> usize {
        let all_rows = self.conversations.values();
        self.blocks.len() + all_rows.map(ConversationRows::row_count).sum::<usize>()
    }
}

impl ConversationRows {
    fn new(conversation: Conversation) -> Self {
        Self {
            conversation,
            legs: BTreeMap::new(),
            effects: Vec::new(),
            questions: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            entries: VecDeque::new(),
            abandoned: Vec::new(),
        }
    }

    fn reference(&self) -> ConversationRef {
        ConversationRef {
            tenant: self.conversation.tenant.clone(),
            conversation_id: self.conversation.conversation_id.clone(),
            user_id: self.conversation.user_id.clone(),
        }
    }

    /// The conversation's time, which never runs backwards.
    fn time(&self, now_unix_ms: u64) -> u64 {
        now_unix_ms.max(self.conversation.used_at_unix_ms)
    }

    /// Whether the conversation is in use, so that it stays however long it has rested. A session of this process is live until it says
    /// otherwise; another process's session is live until its time to come back is over.
    fn is_in_use(&self, owner: &OwnerId, now_unix_ms: u64) -> bool {
        let is_live = |leg: &Leg| now_unix_ms < leg.expires_at_unix_ms || leg.owner == *owner;
        let mut questions = self.questions.values();
        let mut effects = self.effects.iter();
        effects.any(|effect| effect.state == EffectState::Running || effect.task.is_some())
            || questions.any(|question| question.is_open(now_unix_ms))
            || self.legs.values().any(is_live)
    }

    fn unheard(&self, tool: Option<&ToolId>) -> Vec<Effect> {
        let is_unheard = |effect: &&Effect| {
            effect.state != EffectState::Running
                && !effect.is_heard
                && tool.is_none_or(|tool| effect.tool == *tool)
        };
        self.effects.iter().filter(is_unheard).cloned().collect()
    }

    fn effect(&self, effect_id: &EffectId) -> Option<&Effect> {
        let mut effects = self.effects.iter();
        effects.find(|effect| effect.effect_id == *effect_id)
    }

    fn leg_by_token(&self, token: &Hash) -> Option<&Leg> {
        self.legs.values().find(|leg| leg.resume_token == *token)
    }

    fn entry_of_key(&self, key: &str) -> Option<&Entry> {
        let mut entries = self.entries.iter().rev();
        entries.find(|entry| entry.key.as_deref() == Some(key))
    }

    fn row_count(&self) -> usize {
        1 + self.legs.len()
            + self.effects.len()
            + self.questions.len()
            + self.deliveries.len()
            + self.entries.len()
            + self.abandoned.len()
    }

    fn prune(&mut self, now_unix_ms: u64, settings: &StoreSettings) {
        let limits = &settings.limits;
        let has_run_out =
            |at_unix_ms: u64, kept_ms: u64| at_unix_ms.saturating_add(kept_ms) <= now_unix_ms;
        self.effects.retain(|effect| {
            effect.state == EffectState::Running
                || !has_run_out(
                    effect.changed_at_unix_ms,
                    limits.kept_ms(effect.task.is_some()),
                )
        });
        self.questions
            .retain(|_, question| !has_run_out(question.expires_at_unix_ms, limits.effect_ms));
        self.legs.retain(|_, leg| {
            let kept_ms = limits.conversation_ms.max(limits.effect_ms);
            leg.owner == settings.owner || !has_run_out(leg.expires_at_unix_ms, kept_ms)
        });
        let effects: BTreeSet<&EffectId> = self
            .effects
            .iter()
            .map(|effect| &effect.effect_id)
            .collect();
        let questions = &self.questions;
        self.deliveries
            .retain(|_, delivery| match &delivery.became {
                Became::Effect(effect_id) => effects.contains(effect_id),
                Became::Question(number) => questions.contains_key(number),
            });
        self.abandoned
            .retain(|(_, at_unix_ms)| !has_run_out(*at_unix_ms, ABANDONED_MS));
    }
}

/// One conversation's rows within a transaction.
struct TransactionRows<'a> {
    kept: &'a mut Kept,
    place: (TenantId, ConversationId),
}

impl TransactionRows<'_> {
    fn rows(&self) -> Option<&ConversationRows> {
        self.kept.conversations.get(&self.place)
    }

    /// The effects that a test picks, oldest first.
    fn effects(&self, is_meant: impl Fn(&Effect) -> bool) -> Vec<Effect> {
        let effects = self.rows().into_iter().flat_map(|rows| &rows.effects);
        effects.filter(|effect| is_meant(effect)).cloned().collect()
    }

    /// The approval requests that a test picks, oldest first.
    fn questions(&self, is_meant: impl Fn(&Question) -> bool) -> Vec<Question> {
        let rows = self.rows().into_iter();
        let questions = rows.flat_map(|rows| rows.questions.values());
        questions
            .filter(|question| is_meant(question))
            .cloned()
            .collect()
    }
}

impl Tables for TransactionRows<'_> {
    fn conversation(&mut self) -> Result<Option<Conversation>, StoreUnavailable> {
        Ok(self.rows().map(|rows| rows.conversation.clone()))
    }

    fn crowds(
        &mut self,
        parties: &Parties,
        owner: &OwnerId,
        now_unix_ms: u64,
        limits: &StoreLimits,
    ) -> Result<Vec<Crowd>, StoreUnavailable> {
        let tenant = &self.place.0;
        Ok(self
            .kept
            .crowds(tenant, parties, owner, now_unix_ms, limits))
    }

    fn has_legs(&mut self, but: Option<&SessionId>) -> Result<bool, StoreUnavailable> {
        let mut legs = self.rows().into_iter().flat_map(|rows| rows.legs.keys());
        Ok(legs.any(|leg| Some(leg) != but))
    }

    fn leg(&mut self, leg: &SessionId) -> Result<Option<Leg>, StoreUnavailable> {
        Ok(self.rows().and_then(|rows| rows.legs.get(leg)).cloned())
    }

    fn leg_by_token(&mut self, token: &Hash) -> Result<Option<Leg>, StoreUnavailable> {
        let leg = self.rows().and_then(|rows| rows.leg_by_token(token));
        Ok(leg.cloned())
    }

    fn effects_near(&mut self, near: &EffectKey) -> Result<Vec<Effect>, StoreUnavailable> {
        // Nested calls never meet the key table.
        Ok(self.effects(|effect| effect.near == *near && effect.parent.is_none()))
    }

    fn effects_of_other_specs(
        &mut self,
        tool: &ToolId,
        fingerprint: i64,
        effects_max: usize,
    ) -> Result<Vec<Effect>, StoreUnavailable> {
        let mut effects = self.effects(|effect| {
            effect.tool == *tool
                && effect.parent.is_none()
                && effect.key_spec.fingerprint() != fingerprint
        });
        let surplus = effects.len().saturating_sub(effects_max);
        effects.drain(..surplus);
        Ok(effects)
    }

    fn effect(&mut self, effect_id: &EffectId) -> Result<Option<Effect>, StoreUnavailable> {
        Ok(self.rows().and_then(|rows| rows.effect(effect_id)).cloned())
    }

    fn children(
        &mut self,
        parent: &EffectId,
        ordinal: u32,
    ) -> Result<Vec<Effect>, StoreUnavailable> {
        let is_child = |known: &(EffectId, u32)| known.0 == *parent && known.1 == ordinal;
        Ok(self.effects(|effect| effect.parent.as_ref().is_some_and(is_child)))
    }

    fn is_in_use(&mut self, owner: &OwnerId, now_unix_ms: u64) -> Result<bool, StoreUnavailable> {
        Ok(self
            .rows()
            .is_some_and(|rows| rows.is_in_use(owner, now_unix_ms)))
    }

    fn has_live_leg(&mut self, owner: &OwnerId) -> Result<bool, StoreUnavailable> {
        let mut legs = self.rows().into_iter().flat_map(|rows| rows.legs.values());
        Ok(legs.any(|leg| leg.owner == *owner))
    }

    fn running(&mut self) -> Result<Vec<Effect>, StoreUnavailable> {
        Ok(self.effects(|effect| effect.state == EffectState::Running))
    }

    fn unheard(&mut self, tool: Option<&ToolId>) -> Result<Vec<Effect>, StoreUnavailable> {
        Ok(self.rows().map_or_else(Vec::new, |rows| rows.unheard(tool)))
    }

    fn begun_since(
        &mut self,
        tool: &ToolId,
        at_unix_ms: u64,
    ) -> Result<Vec<Effect>, StoreUnavailable> {
        Ok(self.effects(|effect| effect.tool == *tool && effect.begun_at_unix_ms >= at_unix_ms))
    }

    fn questions_of_key(&mut self, key: &EffectKey) -> Result<Vec<Question>, StoreUnavailable> {
        Ok(self.questions(|question| question.key == *key))
    }

    fn question(&mut self, number: QuestionNumber) -> Result<Option<Question>, StoreUnavailable> {
        let question = self.rows().and_then(|rows| rows.questions.get(&number));
        Ok(question.cloned())
    }

    fn pending_questions(&mut self) -> Result<Vec<Question>, StoreUnavailable> {
        Ok(self.questions(|question| question.state == QuestionState::Open || !question.is_heard))
    }

    fn delivery(
        &mut self,
        leg: &SessionId,
        id: &str,
    ) -> Result<Option<Delivery>, StoreUnavailable> {
        let place = (leg.clone(), id.to_owned());
        let delivery = self.rows().and_then(|rows| rows.deliveries.get(&place));
        Ok(delivery.cloned())
    }

    fn entry_of_leg(
        &mut self,
        leg: &SessionId,
        number: LegNumber,
    ) -> Result<Option<EntryNumber>, StoreUnavailable> {
        let entries = self.rows().into_iter().flat_map(|rows| &rows.entries);
        let mut newest_first = entries.rev();
        let entry = newest_first
            .find(|entry| entry.leg.as_ref() == Some(leg) && entry.leg_number == Some(number));
        Ok(entry.map(|entry| entry.number))
    }

    fn entry_of_key(&mut self, key: &str) -> Result<Option<EntryNumber>, StoreUnavailable> {
        let entry = self.rows().and_then(|rows| rows.entry_of_key(key));
        Ok(entry.map(|entry| entry.number))
    }

    fn newest_entries(&mut self, entries_max: usize) -> Result<Vec<Entry>, StoreUnavailable> {
        let Some(rows) = self.rows() else {
            return Ok(Vec::new());
        };
        let surplus = rows.entries.len().saturating_sub(entries_max);
        Ok(rows.entries.iter().skip(surplus).cloned().collect())
    }

    fn is_abandoned(&mut self, nonce: &Nonce) -> Result<bool, StoreUnavailable> {
        let mut abandoned = self.rows().into_iter().flat_map(|rows| &rows.abandoned);
        Ok(abandoned.any(|(known, _)| known == nonce))
    }

    fn counts(&mut self, now_unix_ms: u64) -> Result<Counts, StoreUnavailable> {
        let Some(rows) = self.rows() else {
            return Ok(Counts::default());
        };
        let questions = rows.questions.values();
        Ok(Counts {
            effects: rows.effects.len(),
            questions: questions
                .filter(|question| question.is_open(now_unix_ms))
                .count(),
        })
    }

    fn running_tasks(&mut self) -> Result<RunningTasks, StoreUnavailable> {
        let user_id = self.rows().map(|rows| rows.conversation.user_id.clone());
        let mut running = RunningTasks::default();
        for rows in self.kept.conversations.values() {
            if rows.conversation.tenant != self.place.0 {
                continue;
            }
            let runs =
                |effect: &&Effect| effect.task.is_some() && effect.state == EffectState::Running;
            let count = rows.effects.iter().filter(runs).count();
            running.of_tenant += count;
            if Some(&rows.conversation.user_id) == user_id.as_ref() {
                running.of_user += count;
            }
        }
        Ok(running)
    }

    fn write(&mut self, change: Change) -> Result<(), StoreUnavailable> {
        if let Change::Conversation(conversation) = change {
            match self.kept.conversations.get_mut(&self.place) {
                Some(rows) => {
                    let first = conversation.first_entry;
                    rows.conversation = conversation;
                    let kept = |entry: &&Entry| entry.number < first;
                    let surplus = rows.entries.iter().take_while(kept).count();
                    rows.entries.drain(..surplus);
                }
                None => {
                    let rows = ConversationRows::new(conversation);
                    self.kept.conversations.insert(self.place.clone(), rows);
                }
            }
            return Ok(());
        }
        if let Change::Forgotten(place) = change {
            self.kept.conversations.remove(&place);
            return Ok(());
        }
        let Some(rows) = self.kept.conversations.get_mut(&self.place) else {
            return Err(StoreUnavailable::Failed {
                cause: "a row was written before its conversation".to_owned(),
            });
        };
        match change {
            Change::Conversation(_) | Change::Forgotten(_) => {}
            Change::LegOver(leg) => {
                rows.legs.remove(&leg);
            }
            Change::Leg(leg) => {
                rows.legs.insert(leg.leg.clone(), leg);
            }
            Change::Effect(effect) => {
                let mut known = rows.effects.iter_mut();
                match known.find(|known| known.effect_id == effect.effect_id) {
                    Some(known) => *known = effect,
                    None => rows.effects.push(effect),
                }
            }
            Change::Question(question) => {
                rows.questions.insert(question.number, question);
            }
            Change::Delivery(delivery) => {
                let place = (delivery.leg.clone(), delivery.id.clone());
                rows.deliveries.insert(place, delivery);
            }
            Change::Entry(entry) => rows.entries.push_back(entry),
            Change::Abandoned { nonce, at_unix_ms } => rows.abandoned.push((nonce, at_unix_ms)),
            Change::LegsEnded => rows.legs.clear(),
        }
        Ok(())
    }
}
