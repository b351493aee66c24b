//! What `decide` is given and what it wants written: the rows of one conversation that bear on a command, and changes to them.
//! Loading and writing them is all that an engine does.

use crate::command::{Command, Reply, RequestOrigin};
use crate::decide::{Context, decide};
use crate::effect::Effect;
use crate::id::{ConversationRef, EffectKey, LegNumber, Nonce, QuestionNumber, ServerKey};
use crate::leg::{Conversation, Delivery, Leg};
use crate::log::{Entry, EntryNumber};
use crate::question::Question;
use crate::{Hash, StoreLimits, StoreUnavailable};
use windlass_tool::id::{EffectId, SessionId, ToolId};

/// What is loaded for one command. Of what it does not need, nothing is here.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub conversation: Option<Conversation>,
    pub leg: Option<Leg>,
    /// The key that a request is about.
    pub key: Option<EffectKey>,
    /// Of the command's key, or those that it names; oldest first.
    pub effects: Vec<Effect>,
    /// Of the command's key, or those that it names; oldest first.
    pub questions: Vec<Question>,
    /// The one that an answer is about.
    pub question: Option<Question>,
    pub delivery: Option<Delivery>,
    /// The entry with which the request's user turn began.
    pub onset: Option<EntryNumber>,
    /// The command was given up before it came.
    pub is_abandoned: bool,
    /// Effects of the same tool whose end no model has heard, and those that run, whatever their key.
    pub unheard: Vec<Effect>,
    /// Effects of the same tool that have begun since the question was asked that an answer is about.
    pub begun_since: Vec<Effect>,
    pub counts: Counts,
    /// Entries of an append that the log has already, by their place in the command.
    pub known_entries: Vec<Option<EntryNumber>>,
    pub resumed: Option<ResumeRows>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub effects: usize,
    /// That wait for an answer.
    pub questions: usize,
}

/// What a leg that is resumed is given.
#[derive(Clone, Debug, Default)]
pub struct ResumeRows {
    pub log: Vec<Entry>,
    pub questions: Vec<Question>,
    pub unheard: Vec<Effect>,
    pub unheard_questions: Vec<Question>,
}

/// One row as it is to be from now on.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Conversation(Conversation),
    Leg(Leg),
    Effect(Effect),
    Question(Question),
    Delivery(Delivery),
    Entry(Entry),
    Abandoned { nonce: Nonce, at_unix_ms: u64 },
}

/// The rows of one conversation within one transaction.
pub(crate) trait Tables {
    fn conversation(&mut self) -> Result<Option<Conversation>, StoreUnavailable>;
    fn leg(&mut self, leg: &SessionId) -> Result<Option<Leg>, StoreUnavailable>;
    fn leg_by_token(&mut self, token: &Hash) -> Result<Option<Leg>, StoreUnavailable>;
    /// Oldest first.
    fn effects_of_key(&mut self, key: &EffectKey) -> Result<Vec<Effect>, StoreUnavailable>;
    fn effect(&mut self, effect_id: &EffectId) -> Result<Option<Effect>, StoreUnavailable>;
    fn children(
        &mut self,
        parent: &EffectId,
        ordinal: u32,
    ) -> Result<Vec<Effect>, StoreUnavailable>;
    fn running(&mut self) -> Result<Vec<Effect>, StoreUnavailable>;
    /// Settled effects whose end no model has heard, oldest first; of one tool, or of all.
    fn unheard(&mut self, tool: Option<&ToolId>) -> Result<Vec<Effect>, StoreUnavailable>;
    /// Effects of a tool that have begun at this time or later, oldest first.
    fn begun_since(
        &mut self,
        tool: &ToolId,
        at_unix_ms: u64,
    ) -> Result<Vec<Effect>, StoreUnavailable>;
    /// Oldest first.
    fn questions_of_key(&mut self, key: &EffectKey) -> Result<Vec<Question>, StoreUnavailable>;
    fn question(&mut self, number: QuestionNumber) -> Result<Option<Question>, StoreUnavailable>;
    /// Open, or answered and not heard of; oldest first.
    fn pending_questions(&mut self) -> Result<Vec<Question>, StoreUnavailable>;
    fn delivery(&mut self, leg: &SessionId, id: &str)
    -> Result<Option<Delivery>, StoreUnavailable>;
    fn entry_of_leg(
        &mut self,
        leg: &SessionId,
        number: LegNumber,
    ) -> Result<Option<EntryNumber>, StoreUnavailable>;
    fn entry_of_key(&mut self, key: &str) -> Result<Option<EntryNumber>, StoreUnavailable>;
    /// The newest entries, oldest first.
    fn newest_entries(&mut self, entries_max: usize) -> Result<Vec<Entry>, StoreUnavailable>;
    fn is_abandoned(&mut self, nonce: &Nonce) -> Result<bool, StoreUnavailable>;
    fn counts(&mut self, now_unix_ms: u64) -> Result<Counts, StoreUnavailable>;
    fn write(&mut self, change: Change) -> Result<(), StoreUnavailable>;
    /// Deletes everything of the conversation.
    fn forget(&mut self) -> Result<(), StoreUnavailable>;
}

/// What a store knows beside its rows.
pub(crate) struct Surroundings<'a> {
    pub(crate) key: &'a ServerKey,
    pub(crate) limits: &'a StoreLimits,
    pub(crate) owner: &'a crate::OwnerId,
    pub(crate) now_unix_ms: u64,
}

/// Loads what bears on a command, decides, and writes what that changes.
pub(crate) fn apply(
    tables: &mut dyn Tables,
    conversation: &ConversationRef,
    command: &Command,
    surroundings: &Surroundings<'_>,
) -> Result<Reply, StoreUnavailable> {
    let mut found = tables.conversation()?;
    let limits = surroundings.limits;
    if let Some(known) = &found
        && known.is_idle(surroundings.now_unix_ms, limits)
        && tables.running()?.is_empty()
    {
        tables.forget()?;
        found = None;
    }
    let used = found.as_ref().map_or(0, |known| known.used_at_unix_ms);
    let now_unix_ms = surroundings.now_unix_ms.max(used);
    let mut rows = Rows {
        conversation: found,
        ..Rows::default()
    };
    load(
        tables,
        conversation,
        command,
        surroundings,
        now_unix_ms,
        &mut rows,
    )?;
    let context = Context {
        conversation,
        key: surroundings.key,
        limits,
        owner: surroundings.owner,
        now_unix_ms,
    };
    let decision = decide(rows, command, &context);
    for change in decision.changes {
        tables.write(change)?;
    }
    Ok(decision.reply)
}

fn load(
    tables: &mut dyn Tables,
    conversation: &ConversationRef,
    command: &Command,
    surroundings: &Surroundings<'_>,
    now_unix_ms: u64,
    rows: &mut Rows,
) -> Result<(), StoreUnavailable> {
    match command {
        Command::Open | Command::Taint => {}
        Command::Attach(leg) => rows.leg = tables.leg(&leg.leg)?,
        Command::Save { leg, .. } | Command::Leave(leg) => rows.leg = tables.leg(&leg.leg)?,
        Command::Resume(presented) => {
            rows.leg = tables.leg_by_token(&presented.resume_token)?;
            if rows.leg.is_some() {
                let (questions, unheard_questions) = tables
                    .pending_questions()?
                    .into_iter()
                    .partition(|question| question.is_open(now_unix_ms));
                rows.resumed = Some(ResumeRows {
                    log: tables.newest_entries(surroundings.limits.entries_max)?,
                    questions,
                    unheard: tables.unheard(None)?,
                    unheard_questions,
                });
                rows.effects = tables.running()?;
            }
        }
        Command::Append { leg, entries } => {
            rows.leg = tables.leg(&leg.leg)?;
            let last = rows.leg.as_ref().map_or(0, |leg| leg.last_number);
            for entry in entries {
                let mut known = None;
                // A leg counts upwards, so that a higher number is new.
                if let Some(number) = entry.leg_number.filter(|number| number.0 <= last) {
                    known = tables.entry_of_leg(&leg.leg, number)?;
                }
                if let (None, Some(key)) = (known, &entry.key) {
                    known = tables.entry_of_key(key)?;
                }
                rows.known_entries.push(known);
            }
        }
        Command::Request(request) => {
            rows.leg = tables.leg(&request.leg.leg)?;
            rows.is_abandoned = tables.is_abandoned(&request.nonce)?;
            let key = surroundings.key.effect_key(
                conversation,
                &request.tool.id,
                request.effect_arguments.expose(),
            );
            rows.key = Some(key);
            match &request.origin {
                RequestOrigin::Handler { parent, ordinal } => {
                    rows.effects = tables.children(parent, *ordinal)?;
                }
                RequestOrigin::Model { delivery, .. } => {
                    rows.delivery = tables.delivery(&request.leg.leg, delivery)?;
                    rows.effects = tables.effects_of_key(&key)?;
                    rows.questions = tables.questions_of_key(&key)?;
                    rows.unheard = tables.unheard(Some(&request.tool.id))?;
                    let mut running = tables.running()?;
                    running.retain(|effect| effect.tool == request.tool.id);
                    rows.unheard.extend(running);
                }
            }
            if let Some(onset) = request.onset {
                rows.onset = tables.entry_of_leg(&request.leg.leg, onset)?;
            }
            rows.counts = tables.counts(now_unix_ms)?;
        }
        Command::Answer(answer) => {
            rows.is_abandoned = tables.is_abandoned(&answer.nonce)?;
            rows.question = tables.question(answer.token.question)?;
            if let Some(question) = &rows.question {
                let key = question.key;
                rows.key = Some(key);
                rows.effects = tables.effects_of_key(&key)?;
                rows.questions = tables.questions_of_key(&key)?;
                rows.begun_since = tables.begun_since(&question.tool, question.asked_at_unix_ms)?;
            }
            rows.counts = tables.counts(now_unix_ms)?;
        }
        Command::Abandon { effect_id, .. } => {
            // The abandoned command may have begun a further attempt at an earlier effect.
            rows.effects = tables.running()?;
            if !rows
                .effects
                .iter()
                .any(|effect| effect.effect_id == *effect_id)
            {
                rows.effects.extend(tables.effect(effect_id)?);
            }
        }
        Command::Retry {
            effect_id, nonce, ..
        } => {
            rows.effects.extend(tables.effect(effect_id)?);
            rows.is_abandoned = tables.is_abandoned(nonce)?;
        }
        Command::LookUp { effect_id } => rows.effects.extend(tables.effect(effect_id)?),
        Command::Record(record) => load_effect(tables, &record.effect_id, rows)?,
        Command::Found(found) => load_effect(tables, &found.effect_id, rows)?,
        Command::CalledBack(called) => load_effect(tables, &called.effect_id, rows)?,
        Command::Settle => rows.effects = tables.running()?,
        Command::Withdraw { leg, questions } => {
            rows.leg = tables.leg(&leg.leg)?;
            for number in questions {
                rows.questions.extend(tables.question(*number)?);
            }
        }
        Command::Heard { effects, questions } => {
            for effect_id in effects {
                rows.effects.extend(tables.effect(effect_id)?);
            }
            for number in questions {
                rows.questions.extend(tables.question(*number)?);
            }
        }
        Command::Audited(effects) => {
            for effect_id in effects {
                rows.effects.extend(tables.effect(effect_id)?);
            }
        }
    }
    Ok(())
}

/// The effect, and the questions of its key.
fn load_effect(
    tables: &mut dyn Tables,
    effect_id: &EffectId,
    rows: &mut Rows,
) -> Result<(), StoreUnavailable> {
    if let Some(effect) = tables.effect(effect_id)? {
        rows.questions = tables.questions_of_key(&effect.key)?;
        rows.effects.push(effect);
    }
    Ok(())
}

impl Conversation {
    /// Whether it has rested for so long that nothing of it is known any more.
    pub(crate) fn is_idle(&self, now_unix_ms: u64, limits: &StoreLimits) -> bool {
        let rest_ms = limits.conversation_ms.max(limits.effect_ms);
        self.used_at_unix_ms.saturating_add(rest_ms) <= now_unix_ms
    }
}
