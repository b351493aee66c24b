//! The values that handlers keep for a conversation: the judge's own reading of the log, compared with the knowledge of sessions and
//! with the input of the next session.

use crate::judge::Rule;
use crate::slot::Live;
use crate::storefront::FaultyStore;
use crate::world::World;
use serde_json::Value;
use std::collections::BTreeMap;
use windlass_contract::intent::Intent;
use windlass_session::event::SessionEvent;
use windlass_session::log_text::{KeptState, Said};
use windlass_store::{Entry, EntryNumber, Epoch, LegRef};

/// Entries of a log that are read; more than any world has.
const ENTRIES_MAX: usize = 100_000;

/// A value that a session reported as set. It is equal to no other one.
#[derive(Clone, Debug)]
pub(crate) struct SetValue {
    pub(crate) conversation: usize,
    pub(crate) process: usize,
    pub(crate) leg: LegRef,
    key: String,
    value: Value,
}

impl World {
    /// A session says that it has set a value.
    pub(crate) fn note_set(&mut self, live: &Live, event: &SessionEvent) {
        let SessionEvent::IntentApplied { intent, .. } = event else {
            return;
        };
        // After days, the effect may be forgotten that was to store the value.
        if let Intent::SetState { key, value } = &**intent
            && !value.expose().is_null()
            && !self.is_long
        {
            self.judge.set_values.push(SetValue {
                conversation: self.slots[live.slot].conversation,
                process: live.process,
                leg: live.driver.leg().clone(),
                key: key.clone(),
                value: value.expose().clone(),
            });
        }
    }

    /// After all work has ended, every session knows the values of the log, also one that begins now, and all values that were set are
    /// in it.
    pub(crate) fn judge_kept(&mut self) {
        let store = self.any_store();
        for conversation in 0..self.conversations.len() {
            let Some(log) = self.whole_log(&store, conversation) else {
                continue;
            };
            let mut kept: BTreeMap<String, Value> = BTreeMap::new();
            let mut said: Vec<(String, Value)> = Vec::new();
            for entry in &log {
                let Some(Said::State { changed, values }) = Said::of(entry) else {
                    continue;
                };
                for key in changed {
                    match values.get(&key) {
                        Some(value) => {
                            said.push((key.to_string(), value.clone()));
                            kept.insert(key.to_string(), value.clone());
                        }
                        None => {
                            kept.remove(&*key);
                        }
                    }
                }
            }
            let begun = KeptState::of_log(&log).unwrap_or_default().values;
            if !is_same(begun.all(), &kept) {
                let what = format!(
                    "conversation {conversation} has {kept:?}, and a session that begins has {:?}",
                    begun.all()
                );
                return self.broken(Rule::WhatIsKeptIsTheLogs, what);
            }
            if let Some(what) = self.session_that_differs(conversation, &log, &kept) {
                return self.broken(Rule::WhatIsKeptIsTheLogs, what);
            }
            let mut set = self.judge.set_values.iter();
            let lost = set.find(|set| {
                let is_said =
                    |(key, value): &(String, Value)| *key == set.key && *value == set.value;
                set.conversation == conversation && !said.iter().any(is_said)
            });
            if let Some(lost) = lost {
                let what = format!("{lost:?} is in no entry of the log");
                return self.broken(Rule::NothingKeptIsLost, what);
            }
        }
    }

    /// `None` if the beginning is gone.
    fn whole_log(&self, store: &FaultyStore, conversation: usize) -> Option<Vec<Entry>> {
        let of = &self.conversations[conversation];
        let known = store.inner().conversation(&of.tenant, &of.conversation_id);
        let known = known.ok().flatten()?;
        let after = EntryNumber(0);
        let log = store.inner().entries(of, after, ENTRIES_MAX).ok()?;
        (known.first_entry == EntryNumber(1)).then_some(log)
    }

    /// A session that has read the log to its end and knows other values.
    fn session_that_differs(
        &self,
        conversation: usize,
        log: &[Entry],
        kept: &BTreeMap<String, Value>,
    ) -> Option<String> {
        let lives = self.lives.iter().enumerate();
        let mut differing = lives.filter_map(|(id, live)| {
            let live = live.as_deref()?;
            let is_meant = self.slots[live.slot].conversation == conversation;
            // The session is not told the entries of other processes.
            let leg = &live.driver.leg().leg;
            // Another process may have written for the leg since this one took it over.
            let is_taken = self.had_two_owners && live.driver.leg().epoch > Epoch(1);
            let mut unread = log
                .iter()
                .filter(|entry| entry.number > live.driver.last_read());
            let has_read = unread.all(|entry| entry.leg.as_ref() == Some(leg) && !is_taken);
            // The other process has forgotten the conversation since, and it has begun anew.
            let is_older = live.started_us < self.judge.conversations[conversation].begun_us;
            if !is_meant || is_older || live.is_over() || live.driver.is_superseded() || !has_read {
                return None;
            }
            let known = live.session.values().all();
            (!is_same(known, kept)).then(|| {
                format!("conversation {conversation} has {kept:?}, and life {id} knows {known:?}")
            })
        });
        differing.next()
    }
}

fn is_same(known: &BTreeMap<std::sync::Arc<str>, Value>, kept: &BTreeMap<String, Value>) -> bool {
    known.len() == kept.len()
        && known
            .iter()
            .all(|(key, value)| kept.get(&**key) == Some(value))
}
