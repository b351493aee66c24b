//! The input of a leg at its beginning: the words of its conversation, the approval requests that wait for its client, and the ends that
//! no model has heard of. Reads the ledger; writes nothing.

use crate::ledger::Ledger;
use std::collections::BTreeMap;
use windlass_contract::id::{CallNumber, EffectId, SessionId};
use windlass_session::log_text::{self, KeptState, Said};
use windlass_session::saved::{Began, Saved};
use windlass_store::command::{OpenQuestion, Resumed};
use windlass_store::{
    ConversationRef, Effect, EffectState, Entry, EntryEvent, EntryNumber, Question, QuestionNumber,
    QuestionState, Store, StoreUnavailable,
};

/// The state found of a conversation.
#[derive(Debug)]
pub struct Found {
    /// The newest entries, oldest first.
    pub log: Vec<Entry>,
    /// The last entry of the log that is included: for the driver.
    pub after: EntryNumber,
    /// For the first input of its session.
    pub began: Began,
    /// The same open approval requests with their tokens: for [`crate::Driver::know`].
    pub asked: Vec<OpenQuestion>,
    /// The highest number that a call of the conversation had.
    pub last_call: CallNumber,
}

impl Default for Found {
    fn default() -> Self {
        Self {
            log: Vec::new(),
            after: EntryNumber(0),
            began: Began::default(),
            asked: Vec::new(),
            last_call: CallNumber(0),
        }
    }
}

/// For a new leg of a conversation, which may not exist yet. The leg takes over the approval requests of legs that are gone, by voice
/// and by text: a request that is shown can be answered until its time, even after its session.
pub fn find(
    ledger: &dyn Ledger,
    of: &ConversationRef,
    entries_max: usize,
) -> Result<Found, StoreUnavailable> {
    let store = ledger.store();
    let conversation = store.conversation(&of.tenant, &of.conversation_id)?;
    let Some(conversation) = conversation.filter(|known| known.user_id == of.user_id) else {
        return Ok(Found::default());
    };
    let mut log = store.entries(of, EntryNumber(0), entries_max)?;
    // The driver reads the commits since then.
    log.retain(|entry| entry.number <= conversation.last_entry);
    let is_nobodys = |asker: &SessionId| !ledger.is_live(of, asker);
    let mut asked = store.open_questions(of)?;
    asked.retain(|asked| is_nobodys(&asked.question.leg));
    let mut unheard = store.unheard(of)?;
    unheard.retain(|effect| is_nobodys(&effect.leg));
    let at_work = at_work(store, of, &log, is_nobodys)?;
    let (mut unheard_questions, unanswered) = questions_of_log(store, of, &log)?;
    let mut questions = questions_of(&asked);
    // The time of these ran out while no session was there to be told.
    let is_open = |number| asked.iter().any(|asked| asked.question.number == number);
    let lapsed = unanswered
        .into_iter()
        .filter(|question| !is_open(question.number) && is_nobodys(&question.leg));
    questions.extend(lapsed);
    unheard_questions.retain(|question| !question.is_heard && is_nobodys(&question.leg));
    Ok(Found {
        after: conversation.last_entry,
        last_call: last_call(&log, &asked, None),
        began: Began {
            questions,
            unheard,
            unheard_questions,
            at_work,
            state: KeptState::of_log(&log),
            warned_models: log_text::warned_models(&log),
            standing: conversation.standing,
            ..Began::default()
        },
        log,
        asked,
    })
}

/// For a leg that was taken over.
pub fn resumed(ledger: &dyn Ledger, of: &ConversationRef, resumed: Resumed, saved: Saved) -> Found {
    let leg = resumed.leg.leg;
    let is_ours = |asker: &SessionId| *asker == leg || !ledger.is_live(of, asker);
    // If the store cannot be read now, the log reports the ends later.
    let at_work = at_work(ledger.store(), of, &resumed.log, is_ours).unwrap_or_default();
    let mut unheard = resumed.unheard;
    unheard.retain(|effect| is_ours(&effect.leg));
    let mut unheard_questions = resumed.unheard_questions;
    unheard_questions.retain(|question| is_ours(&question.leg));
    let mut asked = resumed.questions;
    asked.retain(|asked| is_ours(&asked.question.leg));
    Found {
        after: resumed.conversation.last_entry,
        last_call: last_call(&resumed.log, &asked, Some(&saved)),
        began: Began {
            saved: Some(saved),
            questions: questions_of(&asked),
            unheard,
            unheard_questions,
            at_work,
            state: KeptState::of_log(&resumed.log),
            warned_models: log_text::warned_models(&resumed.log),
            standing: resumed.conversation.standing,
            ..Began::default()
        },
        log: resumed.log,
        asked,
    }
}

fn questions_of(asked: &[OpenQuestion]) -> Vec<Question> {
    asked.iter().map(|asked| asked.question.clone()).collect()
}

/// Effects that are at work by the log, and whose ends no live leg tells its model and its client.
fn at_work(
    store: &dyn Store,
    of: &ConversationRef,
    entries: &[Entry],
    is_nobodys: impl Fn(&SessionId) -> bool,
) -> Result<Vec<Effect>, StoreUnavailable> {
    let mut running: Vec<&EffectId> = Vec::new();
    for entry in entries {
        if let EntryEvent::Effect(change) = &entry.event {
            running.retain(|known| **known != change.effect_id);
            if change.state == EffectState::Running {
                running.push(&change.effect_id);
            }
        }
    }
    let mut at_work = Vec::new();
    for effect_id in running {
        let effect = store.effect(&of.tenant, effect_id)?;
        at_work.extend(effect.map(|(_, effect)| effect).filter(|effect| {
            effect.state == EffectState::Running
                && effect.parent.is_none()
                && is_nobodys(&effect.leg)
        }));
    }
    Ok(at_work)
}

/// The approval requests that do not wait for an answer any more, by the log, and those that were never answered.
fn questions_of_log(
    store: &dyn Store,
    of: &ConversationRef,
    entries: &[Entry],
) -> Result<(Vec<Question>, Vec<Question>), StoreUnavailable> {
    let mut states: BTreeMap<QuestionNumber, QuestionState> = BTreeMap::new();
    for entry in entries {
        if let EntryEvent::Question(change) = &entry.event {
            states.insert(change.number, change.state);
        }
    }
    let (mut answered, mut unanswered) = (Vec::new(), Vec::new());
    for (number, state) in states {
        let question = store.question_of_number(of, number)?;
        match state {
            QuestionState::Open => unanswered.extend(question),
            QuestionState::Approved | QuestionState::Denied | QuestionState::Closed => {
                answered.extend(question);
            }
        }
    }
    Ok((answered, unanswered))
}

fn last_call(entries: &[Entry], questions: &[OpenQuestion], saved: Option<&Saved>) -> CallNumber {
    let said = entries.iter().filter_map(|entry| match Said::of(entry) {
        Some(Said::Call { call, .. }) => Some(call),
        _ => None,
    });
    let asked = questions
        .iter()
        .map(|asked| CallNumber(asked.question.call));
    let saved = saved.map(|saved| saved.last_call);
    said.chain(asked)
        .chain(saved)
        .max()
        .unwrap_or(CallNumber(0))
}
