//! The decision about changes in the outside world: the one place that knows a rule about them. Pure: the rows of one conversation and a
//! command go in, a reply and changed rows come out. `docs/policies.md` shows its table. Knows no engine and no clock.

mod answer;
mod heading;
mod record;
mod request;
mod standing;
mod task;

use crate::StoreLimits;
use crate::command::{
    Command, NewLeg, OpenQuestion, Refusal, Reply, Resumed, Run, ToolFacts, WithdrawnQuestion,
};
use crate::effect::{Attempt, AttemptOutcome, Effect, LookupState};
use crate::id::{
    AttemptNumber, ConversationRef, EffectKey, EntryNumber, Epoch, LegRef, Nonce, OwnerId,
    QuestionNumber, ServerKey,
};
use crate::leg::{Conversation, Delivery, Heading, Leg, Presented};
use crate::log::{
    EffectChange, EffectState, Entry, EntryEvent, NewEntry, QuestionChange, QuestionState,
};
use crate::party::make_room;
use crate::question::{Earlier, Hazards, Question};
use crate::rows::{Change, Rows};
use crate::task::Task;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_contract::effect_key::KeySpec;
use windlass_contract::id::{EffectId, SessionId, ToolId};
use windlass_contract::sensitive::Sensitive;

/// The input of a decision beside rows and command.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub conversation: &'a ConversationRef,
    pub key: &'a ServerKey,
    pub limits: &'a StoreLimits,
    /// The process that asks. It holds the data folder, so every other owner is dead.
    pub owner: &'a OwnerId,
    /// The conversation's time, which never runs backwards. After a process whose clock was ahead, it stands still until this process's
    /// clock has come so far.
    pub now_unix_ms: u64,
    /// The time by this process's clock.
    pub clock_unix_ms: u64,
}

#[derive(Clone, Debug)]
pub struct Decision {
    pub reply: Reply,
    pub changes: Vec<Change>,
}

/// Decides about a command.
pub fn decide(rows: Rows, command: &Command, context: &Context<'_>) -> Decision {
    let user_id = &context.conversation.user_id;
    if let Some(known) = &rows.conversation
        && known.user_id != *user_id
    {
        return Decision {
            reply: Reply::Foreign,
            changes: Vec::new(),
        };
    }
    let is_missing = rows.conversation.is_none();
    let mut decision = DecisionBuilder::new(rows, context);
    // A conversation that was never begun has nothing to write.
    if is_missing && let Err(reply) = decision.begin_conversation(command) {
        return Decision {
            reply,
            changes: Vec::new(),
        };
    }
    let reply = match command {
        Command::Open(_) => decision.open(),
        Command::Attach(leg) => decision.attach(leg),
        Command::Resume(presented) => decision.resume(presented),
        Command::Save {
            leg,
            body,
            expires_in_ms,
        } => decision.save(leg, body, *expires_in_ms),
        Command::Leave(leg) => decision.leave(leg),
        Command::Discard => decision.discard(),
        Command::Append { leg, entries } => decision.append(leg, entries),
        Command::Taint => {
            decision.conversation.has_external_content = true;
            decision.is_used = true;
            Reply::Done
        }
        Command::Request(request) => decision.request(request),
        Command::Answer(answer) => decision.answer(answer),
        Command::Abandon {
            nonce, question, ..
        } => decision.abandon(*nonce, *question),
        Command::Withdraw { leg, questions } => decision.withdraw(leg, questions),
        Command::Revoke { question, leg } => decision.revoke(*question, leg.as_ref()),
        Command::Record(record) => decision.record(record),
        Command::Found(found) => decision.found(found),
        Command::CalledBack(called_back) => decision.called_back(called_back),
        Command::Settle => {
            let settled = decision.settle_lapsed();
            Reply::Settled(settled)
        }
        Command::LookUp { .. } => decision.look_up(),
        Command::Progress(told) => decision.progress(told),
        Command::CancelTask { .. } => decision.cancel_task(),
        Command::TasksSent(sent) => decision.tasks_sent(sent),
        Command::Heard { .. } => decision.heard(),
        Command::Audited(_) => decision.audited(),
        Command::Rename(title) => decision.rename(title),
        Command::Erase => decision.erase(),
    };
    decision.finish(reply)
}

/// One decision in progress: rows as they will be, and their changes.
struct DecisionBuilder<'a> {
    context: &'a Context<'a>,
    now_unix_ms: u64,
    conversation: Conversation,
    leg: Option<Leg>,
    key: Option<EffectKey>,
    near_key: Option<EffectKey>,
    effects: Vec<Effect>,
    questions: Vec<Question>,
    question: Option<QuestionNumber>,
    rows: Rows,
    entries: Vec<Entry>,
    /// The effects that are to be written, in their order.
    changed_effects: Vec<EffectId>,
    changed_questions: Vec<QuestionNumber>,
    other: Vec<Change>,
    /// The task that this command is another attempt at.
    continued: Option<EffectId>,
    is_used: bool,
    /// The conversation's row changed without a use of the conversation.
    is_marked: bool,
}

impl<'a> DecisionBuilder<'a> {
    fn new(mut rows: Rows, context: &'a Context<'a>) -> Self {
        let of = context.conversation;
        let conversation = rows.conversation.clone().unwrap_or_else(|| Conversation {
            tenant: of.tenant.clone(),
            conversation_id: of.conversation_id.clone(),
            user_id: of.user_id.clone(),
            parties: rows.parties,
            has_external_content: false,
            last_entry: EntryNumber(0),
            first_entry: EntryNumber(1),
            last_question: QuestionNumber(0),
            begun_at_unix_ms: context.now_unix_ms,
            used_at_unix_ms: context.now_unix_ms,
            heading: Heading::default(),
            standing: Vec::new(),
        });
        let mut questions = std::mem::take(&mut rows.questions);
        let question = rows.question.take();
        if let Some(question) = &question
            && !questions
                .iter()
                .any(|known| known.number == question.number)
        {
            questions.push(question.clone());
        }
        Self {
            context,
            now_unix_ms: context.now_unix_ms,
            conversation,
            leg: rows.leg.take(),
            key: rows.key,
            near_key: rows.near_key,
            effects: std::mem::take(&mut rows.effects),
            questions,
            question: question.map(|question| question.number),
            rows,
            entries: Vec::new(),
            changed_effects: Vec::new(),
            continued: None,
            changed_questions: Vec::new(),
            other: Vec::new(),
            is_used: false,
            is_marked: false,
        }
    }

    fn finish(mut self, reply: Reply) -> Decision {
        self.make_room();
        let mut changes = Vec::new();
        if self.is_used {
            self.conversation.used_at_unix_ms = self.now_unix_ms;
        }
        if self.is_used || self.is_marked {
            changes.push(Change::Conversation(self.conversation));
        }
        changes.extend(self.entries.into_iter().map(Change::Entry));
        for effect in self.effects {
            if self.changed_effects.contains(&effect.effect_id) {
                changes.push(Change::Effect(effect));
            }
        }
        for question in self.questions {
            if self.changed_questions.contains(&question.number) {
                changes.push(Change::Question(question));
            }
        }
        changes.extend(self.other);
        Decision { reply, changes }
    }

    /// Makes room for a conversation that begins; otherwise returns the reply of a command that begins none.
    fn begin_conversation(&mut self, command: &Command) -> Result<(), Reply> {
        let reply = match command {
            Command::Open(_) => {
                let going = make_room(&self.rows.crowds).map_err(Reply::Crowded)?;
                self.other.extend(going.into_iter().map(Change::Forgotten));
                return Ok(());
            }
            Command::Attach(_)
            | Command::Save { .. }
            | Command::Leave(_)
            | Command::Append { .. }
            | Command::Request(_)
            | Command::Withdraw { .. } => Reply::Gone,
            Command::Resume(_) => Reply::NotResumed,
            Command::Answer(_) => Reply::Expired,
            Command::Record(_)
            | Command::Found(_)
            | Command::CalledBack(_)
            | Command::LookUp { .. }
            | Command::CancelTask { .. }
            | Command::Revoke { .. }
            | Command::Rename(_)
            | Command::Erase => Reply::Missing,
            Command::Settle => Reply::Settled(Vec::new()),
            Command::Discard
            | Command::Taint
            | Command::Abandon { .. }
            | Command::Progress(_)
            | Command::TasksSent(_)
            | Command::Heard { .. }
            | Command::Audited(_) => Reply::Done,
        };
        Err(reply)
    }

    /// Moves the conversation's first entry on if the log is longer than the limit. The engines delete the entries before it.
    fn make_room(&mut self) {
        let entries_max = self.context.limits.entries_max.max(1) as u64;
        let first = (self.conversation.last_entry.0 + 1).saturating_sub(entries_max);
        let first = EntryNumber(first.max(self.conversation.first_entry.0));
        self.conversation.first_entry = first;
        self.entries.retain(|entry| entry.number >= first);
    }

    /// Writes an entry and returns its number.
    fn log(&mut self, leg: Option<&SessionId>, event: EntryEvent) -> EntryNumber {
        self.write_entry(leg, None, None, event)
    }

    fn write_entry(
        &mut self,
        leg: Option<&SessionId>,
        leg_number: Option<crate::id::LegNumber>,
        key: Option<String>,
        event: EntryEvent,
    ) -> EntryNumber {
        let number = EntryNumber(self.conversation.last_entry.0 + 1);
        self.conversation.last_entry = number;
        self.is_used = true;
        self.entries.push(Entry {
            number,
            at_unix_ms: self.now_unix_ms,
            leg: leg.cloned(),
            leg_number,
            key,
            event,
        });
        number
    }

    fn open(&mut self) -> Reply {
        self.is_used = true;
        self.conversation.used_at_unix_ms = self.now_unix_ms;
        Reply::Opened(Box::new(self.conversation.clone()))
    }

    fn attach(&mut self, new: &NewLeg) -> Reply {
        let is_repeat = |known: &&Leg| {
            known.client_id == new.client_id && known.resume_token == new.resume_token
        };
        // The acknowledgement was lost. If another process has the leg by now, that process has resumed it.
        if let Some(known) = self.leg.as_ref().filter(is_repeat) {
            return match known.owner == *self.context.owner {
                true => Reply::Attached { epoch: known.epoch },
                false => Reply::Gone,
            };
        }
        let epoch = Epoch(self.leg.as_ref().map_or(1, |leg| leg.epoch.0 + 1));
        let last_number = self.leg.as_ref().map_or(0, |leg| leg.last_number);
        self.other.push(Change::Leg(Leg {
            leg: new.leg.clone(),
            mode: new.mode,
            epoch,
            owner: self.context.owner.clone(),
            client_id: new.client_id.clone(),
            resume_token: new.resume_token,
            body: Sensitive(Vec::new()),
            last_number,
            is_announced: false,
            expires_at_unix_ms: self.now_unix_ms.saturating_add(new.expires_in_ms),
        }));
        self.is_used = true;
        Reply::Attached { epoch }
    }

    fn resume(&mut self, presented: &Presented) -> Reply {
        let user_id = self.conversation.user_id.clone();
        let leg = self.leg.take();
        let Some(mut leg) = leg.filter(|leg| leg.admits(&user_id, presented, self.now_unix_ms))
        else {
            return Reply::NotResumed;
        };
        leg.epoch = Epoch(leg.epoch.0 + 1);
        leg.owner = self.context.owner.clone();
        leg.is_announced = true;
        self.other.push(Change::Leg(leg.clone()));
        self.log(Some(&leg.leg.clone()), EntryEvent::Attached(leg.mode));
        let mut found = self.rows.resumed.take().unwrap_or_default();
        // An attempt of a dead process is told as unknown. The end of a nested call is told to no model.
        let settled = self.settle_lapsed().into_iter();
        found
            .unheard
            .extend(settled.filter(|effect| !effect.is_heard));
        let conversation = self.context.conversation;
        let questions = found.questions.into_iter().map(|question| OpenQuestion {
            token: self.context.key.token(
                conversation,
                question.number,
                question.arguments.expose(),
            ),
            question,
            is_repeated: true,
            replaced: Vec::new(),
        });
        Reply::Resumed(Box::new(Resumed {
            questions: questions.collect(),
            leg,
            conversation: self.conversation.clone(),
            log: found.log,
            unheard: found.unheard,
            unheard_questions: found.unheard_questions,
        }))
    }

    /// The leg, if it may still speak.
    fn live_leg(&self, of: &LegRef) -> Option<Leg> {
        let leg = self.leg.as_ref()?;
        (leg.epoch == of.epoch).then(|| leg.clone())
    }

    fn save(&mut self, of: &LegRef, body: &Sensitive<Vec<u8>>, expires_in_ms: u64) -> Reply {
        let Some(mut leg) = self.live_leg(of) else {
            return Reply::Gone;
        };
        if body.expose().len() > self.context.limits.leg_bytes_max {
            return Reply::EntryTooLong;
        }
        // A conversation with a saved leg is in use.
        self.is_used = true;
        leg.body = body.clone();
        leg.expires_at_unix_ms = self.now_unix_ms.saturating_add(expires_in_ms);
        self.other.push(Change::Leg(leg));
        Reply::Done
    }

    fn leave(&mut self, of: &LegRef) -> Reply {
        let Some(leg) = self.live_leg(of) else {
            return Reply::Gone;
        };
        let is_empty = self.conversation.last_entry == EntryNumber(0)
            && !self.conversation.has_external_content;
        if is_empty && !self.rows.has_other_legs {
            self.forget();
            return Reply::Done;
        }
        self.end_standing_of(&leg.leg);
        if leg.is_announced {
            self.log(Some(&leg.leg), EntryEvent::Gone);
        }
        self.other.push(Change::LegOver(leg.leg));
        Reply::Done
    }

    fn discard(&mut self) -> Reply {
        let counts = self.rows.counts;
        if counts.effects == 0 && counts.questions == 0 && !self.rows.has_other_legs {
            self.forget();
        }
        Reply::Done
    }

    /// Deletes the conversation with everything in it.
    fn forget(&mut self) {
        let of = self.context.conversation;
        let place = (of.tenant.clone(), of.conversation_id.clone());
        self.other.push(Change::Forgotten(place));
    }

    fn append(&mut self, of: &LegRef, entries: &[NewEntry]) -> Reply {
        let Some(mut leg) = self.live_leg(of) else {
            return Reply::Gone;
        };
        let bytes_max = self.context.limits.entry_bytes_max;
        let is_long = |entry: &NewEntry| match &entry.event {
            EntryEvent::Said(text) => text.expose().len() > bytes_max,
            _ => false,
        };
        if entries.iter().any(is_long) {
            return Reply::EntryTooLong;
        }
        let known = std::mem::take(&mut self.rows.known_entries);
        let before = (leg.last_number, leg.is_announced);
        let says_something = known.len() < entries.len() || known.iter().any(Option::is_none);
        if says_something && !leg.is_announced {
            leg.is_announced = true;
            self.log(Some(&of.leg), EntryEvent::Attached(leg.mode));
        }
        let mut numbers = Vec::with_capacity(entries.len());
        // Entries of this command are not in the log yet.
        let mut by_number = BTreeMap::new();
        let mut by_key = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate() {
            let known = known.get(index).copied().flatten();
            let known = known.or_else(|| by_number.get(&entry.leg_number?).copied());
            let known = known.or_else(|| by_key.get(entry.key.as_deref()?).copied());
            let number = known.unwrap_or_else(|| {
                let own = entry.leg_number.map_or(0, |number| number.0);
                leg.last_number = leg.last_number.max(own);
                self.note_words(&entry.event);
                self.write_entry(
                    Some(&of.leg),
                    entry.leg_number,
                    entry.key.clone(),
                    entry.event.clone(),
                )
            });
            if let Some(own) = entry.leg_number {
                by_number.insert(own, number);
            }
            if let Some(key) = entry.key.as_deref() {
                by_key.insert(key, number);
            }
            numbers.push(number);
        }
        if before != (leg.last_number, leg.is_announced) {
            self.other.push(Change::Leg(leg));
        }
        Reply::Appended(numbers)
    }

    fn withdraw(&mut self, of: &LegRef, withdrawn: &[WithdrawnQuestion]) -> Reply {
        if self.live_leg(of).is_none() {
            return Reply::Gone;
        }
        let open: Vec<QuestionNumber> = self
            .questions
            .iter()
            .filter(|question| question.state == QuestionState::Open && question.leg == of.leg)
            .filter(|question| {
                let mut withdrawn = withdrawn.iter();
                withdrawn.any(|one| {
                    (one.question, one.last_entry) == (question.number, question.last_entry)
                })
            })
            .map(|question| question.number)
            .collect();
        for number in open {
            self.close_question(number, None);
        }
        Reply::Done
    }

    fn heard(&mut self) -> Reply {
        for effect in &mut self.effects {
            let is_settled = effect.state != EffectState::Running;
            if is_settled && !std::mem::replace(&mut effect.is_heard, true) {
                self.changed_effects.push(effect.effect_id.clone());
            }
        }
        for question in &mut self.questions {
            if !std::mem::replace(&mut question.is_heard, true) {
                self.changed_questions.push(question.number);
            }
        }
        Reply::Done
    }

    fn audited(&mut self) -> Reply {
        for effect in &mut self.effects {
            if !std::mem::replace(&mut effect.is_audited, true) {
                self.changed_effects.push(effect.effect_id.clone());
            }
        }
        Reply::Done
    }

    // ---- what requests, answers and records share

    /// Commits attempts as unknown that hold no lease any more, or whose process is dead, and as not done those that were to be tried
    /// again by then. Returns their effects.
    fn settle_lapsed(&mut self) -> Vec<Effect> {
        let (now, owner) = (self.now_unix_ms, self.context.owner.clone());
        let is_lapsed = |effect: &Effect| {
            effect.state == EffectState::Running && effect.newest_attempt().has_lapsed(now, &owner)
        };
        let lapsed: Vec<usize> = (0..self.effects.len())
            .filter(|index| is_lapsed(&self.effects[*index]))
            .collect();
        let mut settled = Vec::new();
        for index in lapsed {
            let effect = &mut self.effects[index];
            effect.lookup = LookupState::NONE;
            let state = match effect.is_paused() {
                true => effect.state_of_attempts(),
                false => EffectState::Unknown,
            };
            self.settle(index, state);
            settled.push(self.effects[index].clone());
        }
        settled
    }

    /// The session that tries a task again does so now. Until an attempt begins, the task has the state of its attempts.
    fn continue_paused(&mut self, is_meant: impl Fn(&Effect) -> bool) {
        let mut paused = self.effects.iter_mut();
        let paused = paused.find(|effect| effect.is_paused() && is_meant(effect));
        self.continued = paused.map(|effect| {
            effect.state = effect.state_of_attempts();
            effect.effect_id.clone()
        });
    }

    /// If no attempt has begun, the task has ended.
    fn end_continued(&mut self) {
        let continued = self.continued.take();
        let index = continued.and_then(|effect_id| self.place_of(&effect_id));
        if let Some(index) =
            index.filter(|index| self.effects[*index].state == EffectState::NotDone)
        {
            self.settle(index, EffectState::NotDone);
        }
    }

    /// Gives an effect its new state, and logs it.
    fn settle(&mut self, index: usize, state: EffectState) {
        let now_unix_ms = self.now_unix_ms;
        let effect = &mut self.effects[index];
        // Its question has got no answer. A later attempt is another run, whose outcome says nothing about this one.
        if state == EffectState::Unknown
            && effect.is_asking()
            && let Some(attempt) = effect.attempts.last_mut()
        {
            attempt.outcome = Some(AttemptOutcome::Unknown);
        }
        effect.state = state;
        effect.is_audited = false;
        effect.changed_at_unix_ms = now_unix_ms;
        // The end of a nested call goes to the handler that made it, never to a model.
        effect.is_heard = effect.parent.is_some();
        if let Some(task) = &mut effect.task {
            task.is_sent = task.is_deleted;
            effect.is_heard |= task.is_deleted;
        }
        let attempt = effect.newest_attempt();
        let change = EffectChange {
            effect_id: effect.effect_id.clone(),
            tool: effect.tool.clone(),
            attempt: attempt.number,
            state,
            question: attempt.question,
        };
        let leg = effect.leg.clone();
        let entry = self.log(Some(&leg), EntryEvent::Effect(change));
        let effect = &mut self.effects[index];
        effect.last_entry = entry;
        self.changed_effects.push(effect.effect_id.clone());
        if state == EffectState::Done {
            self.close_questions_not_naming(index);
        }
    }

    /// Closes approval requests that do not name this effect, because it was done after they were put.
    fn close_questions_not_naming(&mut self, index: usize) {
        let effect_id = self.effects[index].effect_id.clone();
        let outdated: Vec<QuestionNumber> = self
            .questions
            .iter()
            .filter(|question| question.state == QuestionState::Open)
            .filter(|question| !question.hazards.names(&effect_id))
            .map(|question| question.number)
            .collect();
        for number in outdated {
            self.close_question(number, Some(effect_id.clone()));
        }
    }

    fn close_question(&mut self, number: QuestionNumber, effect_id: Option<EffectId>) {
        self.change_question(number, QuestionState::Closed, effect_id);
    }

    fn change_question(
        &mut self,
        number: QuestionNumber,
        state: QuestionState,
        effect_id: Option<EffectId>,
    ) {
        let Some(question) = self
            .questions
            .iter()
            .find(|question| question.number == number)
        else {
            return;
        };
        let (tool, leg) = (question.tool.clone(), question.leg.clone());
        let change = QuestionChange {
            number,
            tool,
            state,
            effect_id: effect_id.clone(),
        };
        let entry = self.log(Some(&leg), EntryEvent::Question(change));
        let mut questions = self.questions.iter_mut();
        if let Some(question) = questions.find(|question| question.number == number) {
            question.state = state;
            question.effect_id = effect_id;
            question.last_entry = entry;
            question.is_heard = false;
            self.changed_questions.push(number);
        }
    }

    /// The hazards that an approval request names: effects of the key, and those near to it, that have happened or may have, and
    /// external content.
    fn hazards(&self, tool: &ToolFacts) -> Hazards {
        let is_named = |effect: &&Effect| {
            effect.state != EffectState::Running && self.may_happen(effect, tool)
        };
        let effects = self.effects.iter().filter(is_named);
        let mut earlier = Vec::new();
        if !tool.repeatable && tool.has_hazards() {
            earlier.extend(effects.map(Earlier::of));
            keep_newest(&mut earlier, EARLIER_MAX);
            let mut near: Vec<Earlier> = self.near(tool).map(Earlier::of).collect();
            keep_newest(&mut near, EARLIER_MAX);
            earlier.extend(near);
        }
        Hazards {
            earlier,
            external_content: self.conversation.has_external_content,
        }
    }

    /// Effects that differ from the key by case, width or accents alone, and have happened or still may: those begun, settled, told or
    /// asked for in the same user turn, those not settled, and those whose end no model has heard. They may be the same change, and only
    /// a person can tell.
    fn near<'s>(&'s self, tool: &'s ToolFacts) -> impl Iterator<Item = &'s Effect> {
        let is_in_turn = |entry: EntryNumber| self.rows.onset.is_none_or(|onset| entry >= onset);
        self.rows.near.iter().filter(move |effect| {
            let mut questions = self.rows.near_questions.iter();
            let is_asked_in_turn = questions
                .any(|question| question.key == effect.key && is_in_turn(question.last_entry));
            let is_of_turn = effect.onset == self.rows.onset
                || is_in_turn(effect.last_entry)
                || is_asked_in_turn;
            let is_known = effect.state == EffectState::Done && effect.is_heard;
            self.may_happen(effect, tool) && (!is_known || is_of_turn)
        })
    }

    /// Whether an earlier request may still land, although a lookup found nothing. A further run is safe only if the tool is idempotent,
    /// and has the version that ran: the service of another version may know nothing of the earlier request.
    fn may_arrive(&self, effect: &Effect, tool: &ToolFacts) -> bool {
        let is_same_run = tool.idempotent && effect.tool_version == tool.version;
        effect.lookup == LookupState::NotHappened && !is_same_run
    }

    /// Whether an effect has happened, or still may.
    fn may_happen(&self, effect: &Effect, tool: &ToolFacts) -> bool {
        effect.state != EffectState::NotDone || self.may_arrive(effect, tool)
    }

    fn token(&self, question: &Question) -> crate::id::Token {
        let arguments = question.arguments.expose();
        self.context
            .key
            .token(self.context.conversation, question.number, arguments)
    }

    fn asked(&self, number: QuestionNumber, is_repeated: bool) -> Reply {
        self.asked_in_place_of(number, is_repeated, Vec::new())
    }

    fn asked_in_place_of(
        &self,
        number: QuestionNumber,
        is_repeated: bool,
        replaced: Vec<QuestionNumber>,
    ) -> Reply {
        let found = self
            .questions
            .iter()
            .find(|question| question.number == number);
        match found {
            Some(question) => Reply::Ask(Box::new(OpenQuestion {
                token: self.token(question),
                question: question.clone(),
                is_repeated,
                replaced,
            })),
            None => Reply::Expired,
        }
    }

    /// Puts an approval request in place of any other that is open for its key.
    fn ask(&mut self, mut question: Question) -> Reply {
        let limits = self.context.limits;
        let is_long = |text: &Sensitive<String>| text.expose().len() > limits.question_bytes_max;
        if is_long(&question.arguments) || is_long(&question.preview) {
            return Reply::Refused(Refusal::TooLong);
        }
        // A request for consent replaces such requests alone, and a question of a run that run's own: the user may be answering the others.
        let kind = |question: &Question| {
            let input = question.input.as_ref()?;
            Some(input.run.as_ref().map(|(effect_id, _)| effect_id.clone()))
        };
        let own = kind(&question);
        let of_key = self.questions.iter();
        let of_key = of_key.filter(|other| kind(other) == own);
        let outdated: Vec<QuestionNumber> = of_key
            .clone()
            .filter(|other| other.state == QuestionState::Open)
            .map(|other| other.number)
            .collect();
        let shown = of_key
            .clone()
            .filter(|other| other.is_open(self.now_unix_ms));
        let replaced = shown.map(|other| other.number).collect();
        let given_up = of_key
            .filter(|other| other.is_open(self.now_unix_ms))
            .count();
        if self.rows.counts.questions.saturating_sub(given_up) >= limits.questions_max {
            return Reply::Refused(Refusal::TooManyQuestions);
        }
        for number in outdated {
            self.close_question(number, None);
        }
        keep_newest(&mut question.hazards.earlier, 4 * EARLIER_MAX);
        let number = QuestionNumber(self.conversation.last_question.0 + 1);
        self.conversation.last_question = number;
        question.number = number;
        let change = QuestionChange {
            number,
            tool: question.tool.clone(),
            state: QuestionState::Open,
            effect_id: None,
        };
        question.last_entry = self.log(Some(&question.leg.clone()), EntryEvent::Question(change));
        self.questions.push(question);
        self.changed_questions.push(number);
        self.asked_in_place_of(number, false, replaced)
    }

    /// An approval request is asked for once more, and may wait for longer. The log says so: every session that shows it shows its new
    /// end.
    fn repeat_question(&mut self, number: QuestionNumber, expires_at_unix_ms: u64) {
        let mut questions = self.questions.iter_mut();
        let Some(question) = questions.find(|question| question.number == number) else {
            return;
        };
        question.expires_at_unix_ms = question.expires_at_unix_ms.max(expires_at_unix_ms);
        let change = QuestionChange {
            number,
            tool: question.tool.clone(),
            state: QuestionState::Open,
            effect_id: None,
        };
        let leg = question.leg.clone();
        self.changed_questions.push(number);
        // The approval request belongs to the user turn in which it was asked for last.
        let entry = self.log(Some(&leg), EntryEvent::Question(change));
        let mut questions = self.questions.iter_mut();
        if let Some(question) = questions.find(|question| question.number == number) {
            question.last_entry = entry;
        }
    }

    /// Begins an attempt at the effect that is to be tried again, or at a new one.
    fn run(&mut self, begin: Begin) -> Reply {
        let now_unix_ms = self.now_unix_ms;
        let Begin {
            again,
            new,
            nonce,
            lease_ms,
            question,
            standing,
        } = begin;
        let index = match again.and_then(|effect_id| self.place_of(&effect_id)) {
            Some(index) => index,
            None if self.rows.counts.effects >= self.context.limits.effects_max => {
                return Reply::Refused(Refusal::Full);
            }
            None => {
                self.effects.push(*new);
                self.effects.len() - 1
            }
        };
        let effect = &mut self.effects[index];
        let number = AttemptNumber(
            u32::try_from(effect.attempts.len())
                .unwrap_or(u32::MAX)
                .saturating_add(1),
        );
        let lease_end_unix_ms = now_unix_ms.saturating_add(lease_ms);
        effect.attempts.push(Attempt {
            number,
            nonce,
            owner: self.context.owner.clone(),
            lease_end_unix_ms,
            question,
            tool_version: Some(effect.tool_version.clone()),
            standing,
            outcome: None,
        });
        effect.receipt = None;
        effect.lookup = LookupState::NONE;
        let effect_id = effect.effect_id.clone();
        self.settle(index, EffectState::Running);
        if number == AttemptNumber(1) {
            self.effects[index].first_entry = self.effects[index].last_entry;
        }
        Reply::Run(Box::new(Run {
            effect_id: Some(effect_id),
            attempt: number,
            lease_end_unix_ms,
            question: None,
            standing: None,
        }))
    }

    fn place_of(&self, effect_id: &EffectId) -> Option<usize> {
        let mut effects = self.effects.iter();
        effects.position(|effect| effect.effect_id == *effect_id)
    }

    fn newest(&self) -> Option<&Effect> {
        self.effects.iter().max_by_key(|effect| effect.first_entry)
    }

    /// The last entry at which an effect of the key was settled or replayed, or a request denied.
    fn last_entry(&self) -> EntryNumber {
        let settled = self
            .effects
            .iter()
            .filter(|effect| effect.state != EffectState::Running)
            .map(|effect| effect.last_entry);
        let denied = self
            .questions
            .iter()
            .filter(|question| question.state == QuestionState::Denied)
            .map(|question| question.last_entry);
        settled.chain(denied).max().unwrap_or_default()
    }

    /// Tells a model an effect's outcome again.
    fn replay(&mut self, effect_id: &EffectId, leg: &SessionId) -> Reply {
        let Some(index) = self.place_of(effect_id) else {
            return Reply::Missing;
        };
        let entry = self.log(Some(leg), EntryEvent::Replayed(effect_id.clone()));
        let effect = &mut self.effects[index];
        effect.last_entry = entry;
        self.changed_effects.push(effect_id.clone());
        Reply::Replay(Box::new(effect.clone()))
    }

    /// Marks an unknown effect as looked up.
    fn look_up_at(&mut self, index: usize) -> Reply {
        let now_unix_ms = self.now_unix_ms;
        let effect = &mut self.effects[index];
        let failed = match effect.lookup {
            LookupState::Due { failed } | LookupState::Tried { failed, .. } => failed,
            LookupState::NotHappened => 0,
        };
        effect.lookup = LookupState::Tried {
            failed,
            next_at_unix_ms: now_unix_ms.saturating_add(pause_ms(failed)),
        };
        self.changed_effects.push(effect.effect_id.clone());
        Reply::LookUp {
            effect: Box::new(effect.clone()),
            now_unix_ms,
        }
    }

    fn look_up(&mut self) -> Reply {
        match self.effects.first().map(|effect| effect.state) {
            Some(EffectState::Unknown) => self.look_up_at(0),
            Some(_) => Reply::Done,
            None => Reply::Missing,
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        self.other.push(Change::Delivery(delivery));
    }
}

/// The beginning of an attempt.
struct Begin {
    /// The effect that is tried again.
    again: Option<EffectId>,
    /// The new effect otherwise; it has no attempt yet.
    new: Box<Effect>,
    nonce: Nonce,
    lease_ms: u64,
    question: Option<QuestionNumber>,
    /// The standing approval that covers it.
    standing: Option<QuestionNumber>,
}

/// The parts of a new effect.
struct NewEffect<'a> {
    effect_id: &'a EffectId,
    key: EffectKey,
    near: EffectKey,
    key_spec: &'a Arc<KeySpec>,
    tool: &'a ToolId,
    tool_version: &'a str,
    arguments: &'a Sensitive<String>,
    leg: &'a SessionId,
    generation: u64,
    onset: Option<EntryNumber>,
    parent: Option<(EffectId, u32)>,
    task: Option<Box<Task>>,
    intent: &'a Sensitive<String>,
    now_unix_ms: u64,
}

impl NewEffect<'_> {
    fn build(self) -> Box<Effect> {
        Box::new(Effect {
            effect_id: self.effect_id.clone(),
            key: self.key,
            near: self.near,
            key_spec: self.key_spec.clone(),
            tool: self.tool.clone(),
            tool_version: self.tool_version.to_owned(),
            arguments: self.arguments.clone(),
            state: EffectState::Running,
            attempts: Vec::new(),
            receipt: None,
            parent: self.parent,
            leg: self.leg.clone(),
            generation: self.generation,
            onset: self.onset,
            first_entry: EntryNumber::default(),
            last_entry: EntryNumber::default(),
            is_heard: false,
            lookup: LookupState::NONE,
            task: self.task,
            is_audited: false,
            intent: self.intent.clone(),
            begun_at_unix_ms: self.now_unix_ms,
            changed_at_unix_ms: self.now_unix_ms,
        })
    }
}

/// The number of earlier effects of its key that an approval request names, and as many of others.
const EARLIER_MAX: usize = 16;

/// The oldest are first.
fn keep_newest(earlier: &mut Vec<Earlier>, most: usize) {
    earlier.drain(..earlier.len().saturating_sub(most));
}

/// The reply about a running effect: the process that has it is waited for, a service is not.
fn await_end(effect: &Effect) -> Reply {
    match effect.is_accepted() {
        true => Reply::Replay(Box::new(effect.clone())),
        false => Reply::Attach(Box::new(effect.clone())),
    }
}

/// Milliseconds to wait after so many lookups without a result: 10 s, doubling to an hour.
fn pause_ms(failed: u32) -> u64 {
    const FIRST_MS: u64 = 10_000;
    const MOST_MS: u64 = 3_600_000;
    (FIRST_MS << failed.min(20)).min(MOST_MS)
}

/// Whether an open approval request asks for exactly the run that this tool would make now.
fn is_of_tool(question: &Question, tool: &ToolFacts) -> bool {
    question.tool == tool.id
        && question.tool_version == tool.version
        && question.handler_hash == tool.handler_hash
}

/// Whether an approval request named every present hazard.
fn covers(told: &Hazards, now: &Hazards) -> bool {
    let is_told = |earlier: &Earlier| told.names(&earlier.effect_id);
    now.earlier.iter().all(is_told) && told.external_content >= now.external_content
}
