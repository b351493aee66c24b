//! One session of the bench's conversation: its core, and what its driver knows of the ledger.

use super::ledger::Ledger;
use std::collections::BTreeMap;
use windlass_contract::id::EffectId;
use windlass_session::io::{News, StandingNews};
use windlass_session::log_text::KeptState;
use windlass_session::session::Session;
use windlass_session::time::Timestamp;
use windlass_store::command::Reply;
use windlass_store::{AttemptNumber, EffectState, Entry, EntryEvent, EntryNumber, LegRef, Store};

pub(super) struct Leg {
    /// Before its lines in a script; empty for the first.
    pub(super) name: String,
    pub(super) client: &'static str,
    pub(super) session: Session,
    /// The bench's time at which it began.
    pub(super) zero: Timestamp,
    pub(super) leg: LegRef,
    /// The last entry of the log that it has read.
    pub(super) last_read: EntryNumber,
    pub(super) is_asleep: bool,
    /// Attempts that it runs, or ran until its log is read on.
    own: BTreeMap<EffectId, (AttemptNumber, Own)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Running,
    /// Its end was given to the ledger.
    Recording,
    /// The ledger has it, and up to this entry says nothing new of it.
    Recorded(EntryNumber),
}

/// An entry that cannot be told of before something else has come.
struct Undetermined;

impl Leg {
    pub(super) fn new(
        (name, client): (&str, &'static str),
        session: Session,
        zero: Timestamp,
        leg: LegRef,
        last_read: EntryNumber,
    ) -> Self {
        Self {
            name: name.to_owned(),
            client,
            session,
            zero,
            leg,
            last_read,
            is_asleep: false,
            own: BTreeMap::new(),
        }
    }

    /// An attempt is its own.
    pub(super) fn granted(&mut self, reply: &Reply, is_given_up: bool) {
        let state = match is_given_up {
            true => Own::Recording,
            false => Own::Running,
        };
        if let Reply::Run(run) = reply
            && let Some(effect_id) = &run.effect_id
        {
            self.own.insert(effect_id.clone(), (run.attempt, state));
        }
    }

    pub(super) fn records(&mut self, effect_id: &EffectId, attempt: AttemptNumber) {
        if let Some((own, state)) = self.own.get_mut(effect_id)
            && *own == attempt
        {
            *state = Own::Recording;
        }
    }

    pub(super) fn recorded(&mut self, effect_id: &EffectId, reply: Option<&Reply>) {
        let is_recording = matches!(self.own.get(effect_id), Some((_, Own::Recording)));
        match (is_recording, reply) {
            (false, _) => {}
            (true, Some(Reply::Recorded(effect))) => {
                let (_, state) = self.own.get_mut(effect_id).unwrap();
                *state = match effect.is_paused() {
                    true => Own::Running,
                    false => Own::Recorded(effect.last_entry),
                };
            }
            // It is stored later, if at all, and told then.
            (true, _) => {
                self.own.remove(effect_id);
            }
        }
    }

    /// What the log says that the core does not know.
    pub(super) fn read(&mut self, ledger: &Ledger) -> Vec<News> {
        let entries = ledger.store.entries(&ledger.of, self.last_read, 10_000);
        let mut news = Vec::new();
        let mut told = Vec::new();
        for entry in entries.unwrap() {
            match self.hear(&entry, ledger, &mut told) {
                Ok(heard) => news.extend(heard),
                Err(Undetermined) => break,
            }
            self.last_read = entry.number;
        }
        let news = together(news);
        let last_read = self.last_read;
        self.own.retain(|_, (_, state)| match state {
            Own::Running | Own::Recording => true,
            Own::Recorded(last) => *last > last_read,
        });
        news
    }

    fn hear(
        &self,
        entry: &Entry,
        ledger: &Ledger,
        told: &mut Vec<EffectId>,
    ) -> Result<Option<News>, Undetermined> {
        Ok(match &entry.event {
            EntryEvent::Effect(change) if told.contains(&change.effect_id) => None,
            EntryEvent::Effect(change) => {
                let own = self.own.get(&change.effect_id);
                match own.filter(|(attempt, _)| *attempt == change.attempt) {
                    Some((_, Own::Running)) => return Ok(None),
                    Some((_, Own::Recording)) if change.state == EffectState::Running => {
                        return Ok(None);
                    }
                    Some((_, Own::Recording)) => return Err(Undetermined),
                    Some((_, Own::Recorded(last))) if entry.number <= *last => return Ok(None),
                    Some((_, Own::Recorded(_))) | None => {}
                }
                told.push(change.effect_id.clone());
                let found = ledger.store.effect(&ledger.of.tenant, &change.effect_id);
                found
                    .unwrap()
                    .map(|(_, effect)| News::Effect(Box::new(effect)))
            }
            EntryEvent::Question(change) if entry.leg.as_ref() == Some(&self.leg.leg) => {
                let found = ledger.store.question_of_number(&ledger.of, change.number);
                found
                    .unwrap()
                    .map(|question| News::Question(Box::new(question)))
            }
            EntryEvent::Standing(change) => {
                let is_own = entry.leg.as_ref() == Some(&self.leg.leg);
                let of = &ledger.of;
                let known = ledger.store.conversation(&of.tenant, &of.conversation_id);
                Some(News::Standing(Box::new(StandingNews {
                    standing: known.unwrap().unwrap().standing,
                    own: if is_own { vec![change.clone()] } else { vec![] },
                })))
            }
            EntryEvent::Said(said) => {
                let is_own = entry.leg.as_ref() == Some(&self.leg.leg);
                KeptState::of(said.expose()).map(|kept| News::State {
                    kept: Box::new(kept),
                    own: entry.leg_number.filter(|_| is_own),
                })
            }
            EntryEvent::CancelRequested(effect_id) => {
                Some(News::CancelRequested(effect_id.clone()))
            }
            EntryEvent::Asked(request) if request.leg == self.leg.leg && !request.is_rejected => {
                Some(News::Asked(request.clone()))
            }
            _ => None,
        })
    }
}

/// What is told of standing approvals is told once, behind all else.
fn together(news: Vec<News>) -> Vec<News> {
    let mut standing: Option<StandingNews> = None;
    let mut others = Vec::new();
    for one in news {
        match (one, &mut standing) {
            (News::Standing(news), Some(standing)) => standing.own.extend(news.own),
            (News::Standing(news), None) => standing = Some(*news),
            (other, _) => others.push(other),
        }
    }
    others.extend(standing.map(|standing| News::Standing(Box::new(standing))));
    others
}
