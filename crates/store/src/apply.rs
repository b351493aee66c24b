//! One command from its rows to its reply: loads the rows that bear on it, lets `decide` decide, and writes the changes. Knows no rule
//! and no engine.

use crate::command::{AnswerVerdict, Command, Reply, RequestOrigin, ToolFacts};
use crate::decide::{Context, decide};
use crate::effect::Effect;
use crate::id::{ConversationRef, EffectKey, EntryNumber, ServerKey};
use crate::party::{Beginner, Parties};
use crate::rows::{Change, ResumeRows, Rows, Tables};
use crate::{StoreLimits, StoreUnavailable};
use windlass_contract::arguments::Arguments;
use windlass_contract::id::EffectId;

/// The facts of a store beside its rows.
pub(crate) struct Surroundings<'a> {
    pub(crate) key: &'a ServerKey,
    pub(crate) limits: &'a StoreLimits,
    pub(crate) owner: &'a crate::OwnerId,
    pub(crate) now_unix_ms: u64,
}

/// Loads the rows that bear on a command, decides, and writes the changes.
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
        && !tables.is_in_use(surroundings.owner, surroundings.now_unix_ms)?
    {
        let place = (known.tenant.clone(), known.conversation_id.clone());
        tables.write(Change::Forgotten(place))?;
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
        clock_unix_ms: surroundings.now_unix_ms,
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
        Command::Taint | Command::Rename(_) | Command::Revoke { .. } => {}
        Command::Erase => {
            rows.is_live_here = tables.has_live_leg(surroundings.owner)?;
            rows.effects = tables.running()?;
            rows.effects.extend(tables.unheard(None)?);
            rows.questions = tables.pending_questions()?;
        }
        Command::Open(beginner) => load_crowds(tables, conversation, beginner, surroundings, rows)?,
        Command::Attach(new) => rows.leg = tables.leg(&new.leg)?,
        Command::Save { leg, .. } => rows.leg = tables.leg(&leg.leg)?,
        Command::Leave(leg) => {
            rows.leg = tables.leg(&leg.leg)?;
            let known = rows.conversation.as_ref();
            // Only a conversation without entries is over with its last session.
            rows.has_other_legs = known.is_some_and(|known| known.last_entry == EntryNumber(0))
                && tables.has_legs(Some(&leg.leg))?;
        }
        Command::Discard => {
            rows.counts = tables.counts(now_unix_ms)?;
            rows.has_other_legs = tables.has_legs(None)?;
        }
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
            let near = surroundings.key.near_key(
                conversation,
                &request.tool.id,
                request.near_arguments.expose(),
            );
            (rows.key, rows.near_key) = (Some(key), Some(near));
            match &request.origin {
                RequestOrigin::Handler { parent, ordinal } => {
                    rows.effects = tables.children(parent, *ordinal)?;
                }
                RequestOrigin::Model { delivery, .. } => {
                    rows.delivery = tables.delivery(&request.leg.leg, delivery)?;
                    let asked = Asked {
                        tool: &request.tool,
                        arguments: request.arguments.expose(),
                        key,
                        near,
                    };
                    load_asked(tables, conversation, &asked, surroundings, rows)?;
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
            if request.tool.is_background {
                rows.running_tasks = tables.running_tasks()?;
            }
        }
        Command::Answer(answer) => {
            rows.is_abandoned = tables.is_abandoned(&answer.nonce)?;
            rows.question = tables.question(answer.token.question)?;
            if let Some(question) = &rows.question {
                let (key, near) = (question.key, question.near);
                (rows.key, rows.near_key) = (Some(key), Some(near));
                rows.onset = question.onset;
                rows.questions = tables.questions_of_key(&key)?;
                rows.begun_since = tables.begun_since(&question.tool, question.asked_at_unix_ms)?;
                let tool = match &answer.verdict {
                    AnswerVerdict::Approved(approval) => approval.tool.as_ref(),
                    AnswerVerdict::Denied { .. } => None,
                };
                if tool.is_some_and(|tool| tool.is_background) {
                    rows.running_tasks = tables.running_tasks()?;
                }
                match tool {
                    Some(tool) => {
                        let arguments = question.arguments.clone();
                        let asked = Asked {
                            tool,
                            arguments: arguments.expose(),
                            key,
                            near,
                        };
                        load_asked(tables, conversation, &asked, surroundings, rows)?;
                    }
                    None => (rows.effects, _) = by_key(tables, key, near)?,
                }
            }
            rows.counts = tables.counts(now_unix_ms)?;
        }
        Command::Abandon {
            effect_id,
            question,
            ..
        } => {
            // The abandoned command may have begun a further attempt at an earlier effect.
            rows.effects = tables.running()?;
            if !rows
                .effects
                .iter()
                .any(|effect| effect.effect_id == *effect_id)
            {
                rows.effects.extend(tables.effect(effect_id)?);
            }
            if let Some(number) = question
                && let Some(question) = tables.question(*number)?
            {
                rows.questions = tables.questions_of_key(&question.key)?;
            }
        }
        Command::LookUp { effect_id } | Command::CancelTask { effect_id } => {
            rows.effects.extend(tables.effect(effect_id)?);
        }
        Command::Progress(told) => rows.effects.extend(tables.effect(&told.effect_id)?),
        Command::TasksSent(sent) => {
            for sent in sent {
                rows.effects.extend(tables.effect(&sent.effect_id)?);
            }
        }
        Command::Record(record) => {
            load_effect(tables, &record.effect_id, rows)?;
            if let Some(asks) = &record.asks {
                rows.leg = tables.leg(&asks.leg)?;
                rows.known_entries = vec![tables.entry_of_key(&record.asked_key())?];
            }
            let values = record.values.as_ref();
            if let Some((leg, number)) = values.and_then(|values| values.by.as_ref()) {
                rows.has_values_entry = tables.entry_of_leg(leg, *number)?.is_some();
            }
        }
        Command::Found(found) => load_effect(tables, &found.effect_id, rows)?,
        Command::CalledBack(called) => load_effect(tables, &called.effect_id, rows)?,
        Command::Settle => rows.effects = tables.running()?,
        Command::Withdraw { leg, questions } => {
            rows.leg = tables.leg(&leg.leg)?;
            for withdrawn in questions {
                rows.questions.extend(tables.question(withdrawn.question)?);
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

/// The parties without room for a conversation that is to begin.
fn load_crowds(
    tables: &mut dyn Tables,
    conversation: &ConversationRef,
    beginner: &Beginner,
    surroundings: &Surroundings<'_>,
    rows: &mut Rows,
) -> Result<(), StoreUnavailable> {
    if rows.conversation.is_some() {
        return Ok(());
    }
    rows.parties = Parties::of(beginner, &conversation.tenant, surroundings.key);
    let Surroundings {
        owner,
        now_unix_ms,
        limits,
        ..
    } = surroundings;
    rows.crowds = tables.crowds(&rows.parties, owner, *now_unix_ms, limits)?;
    Ok(())
}

/// The part of a request or approval by which its effects are looked for.
struct Asked<'a> {
    tool: &'a ToolFacts,
    arguments: &'a str,
    key: EffectKey,
    near: EffectKey,
}

/// The number of keys near to a request's whose approval requests are looked at: those of the newest effects.
const NEAR_KEYS_MAX: usize = 8;
/// The number of effects of other versions of a tool that are compared with a request: the newest.
const OTHER_SPECS_MAX: usize = 200;

/// The effects that a request may be the same as, or near to.
fn load_asked(
    tables: &mut dyn Tables,
    conversation: &ConversationRef,
    asked: &Asked<'_>,
    surroundings: &Surroundings<'_>,
    rows: &mut Rows,
) -> Result<(), StoreUnavailable> {
    let (same, near) = by_key(tables, asked.key, asked.near)?;
    (rows.effects, rows.near) = (same, near);
    let (tool, spec) = (asked.tool, &asked.tool.key_spec);
    let others = tables.effects_of_other_specs(&tool.id, spec.fingerprint(), OTHER_SPECS_MAX)?;
    if !others.is_empty()
        && let Ok(arguments) = serde_json::from_str::<Arguments>(asked.arguments)
    {
        let own = spec.exact(&arguments);
        let key_of = |text: &str| surroundings.key.effect_key(conversation, &tool.id, text);
        // Compared by the version that asks now, or by the version of the earlier effect.
        let is_same = |effect: &Effect| {
            let before = serde_json::from_str::<Arguments>(effect.arguments.expose());
            before.is_ok_and(|before| spec.exact_of_other_version(&before) == own)
                || !effect.key_spec.is_unknown()
                    && key_of(&effect.key_spec.exact_of_other_version(&arguments)) == effect.key
        };
        let is_new = |effect: &Effect, known: &[Effect]| {
            known
                .iter()
                .all(|known| known.effect_id != effect.effect_id)
        };
        for effect in others.into_iter().filter(is_same) {
            if is_new(&effect, &rows.effects) {
                rows.effects.push(effect);
            }
        }
        rows.effects.sort_by_key(|effect| effect.first_entry);
    }
    let same = &rows.effects;
    rows.near
        .retain(|near| same.iter().all(|effect| effect.effect_id != near.effect_id));
    let mut keys: Vec<EffectKey> = rows.near.iter().rev().map(|near| near.key).collect();
    keys.dedup();
    keys.truncate(NEAR_KEYS_MAX);
    for key in keys {
        rows.near_questions.extend(tables.questions_of_key(&key)?);
    }
    Ok(())
}

/// The effects of an exact key, and the others of its near key.
fn by_key(
    tables: &mut dyn Tables,
    key: EffectKey,
    near: EffectKey,
) -> Result<(Vec<Effect>, Vec<Effect>), StoreUnavailable> {
    let found = tables.effects_near(&near)?;
    Ok(found.into_iter().partition(|effect| effect.key == key))
}

/// The effect, and the approval requests of its key.
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
