//! The values that handlers keep for a conversation: which there may be, how much of them, and what they are now. Each change is
//! written into the log of the conversation, from which the next session has them. Knows no handler.

use crate::event::StateChange;
use crate::limits::Limits;
use crate::said::{KeptState, Said};
use serde_json::Value;
use std::sync::Arc;
use windlass_tool::handler::StateValues;
use windlass_tool::registry::Registry;

/// Entries of the session's own after which the values are written once more: a session that begins reads the newest entries
/// alone, and the ledger writes some of them for each of these.
const REPEATED_AFTER: u64 = 250;

/// The values of one conversation, as far as this session knows them.
pub(crate) struct Values {
    registry: Arc<Registry>,
    limits: Arc<Limits>,
    values: StateValues,
    /// The keys that the last entry about them names, or the next will.
    changed: Vec<Arc<str>>,
    /// Entries of the log behind the one that says them, when the session began or wrote one.
    age: u64,
    /// The session's own entries by then.
    entries: u64,
}

impl Values {
    pub(crate) fn new(registry: Arc<Registry>, limits: Arc<Limits>) -> Self {
        Self {
            registry,
            limits,
            values: StateValues::default(),
            changed: Vec::new(),
            age: 0,
            entries: 0,
        }
    }

    /// What a session begins with that has written so many entries itself.
    pub(crate) fn restore(&mut self, kept: KeptState, entries: u64) {
        self.values = kept.values;
        self.changed = kept.changed;
        self.age = kept.age;
        self.entries = entries;
    }

    pub(crate) fn get(&self) -> &StateValues {
        &self.values
    }

    /// Another session of the conversation has changed some.
    pub(crate) fn learn(&mut self, news: &KeptState) {
        for key in &news.changed {
            let value = news.values.get(key).cloned();
            self.values.set(key.clone(), value);
        }
        self.changed.clone_from(&news.changed);
    }

    /// Sets a value that a handler asks for; `null` takes it away. `Err` says why it stays as it is, and never what was given.
    pub(crate) fn set(&mut self, key: &str, value: &Value) -> Result<StateChange, String> {
        let Some(validator) = self.registry.state(key) else {
            let shown: String = key.chars().take(63).collect();
            return Err(format!(
                "SET_STATE of {shown:?}, which no tool declares; name it under `state` in the schema.json of the tool"
            ));
        };
        let is_removed = value.is_null();
        if !is_removed {
            if let Some(violation) = validator.violations(value).first() {
                let place = format!("{key}{}", violation.pointer);
                return Err(format!("SET_STATE of {place}: it {}", violation.message));
            }
            self.check_room(key, value)?;
        }
        let key: Arc<str> = key.into();
        let label = |is_set| match is_set {
            true => "set".to_owned(),
            false => "none".to_owned(),
        };
        let from = label(self.values.get(&key).is_some());
        self.values
            .set(key.clone(), (!is_removed).then(|| value.clone()));
        if !self.changed.contains(&key) {
            self.changed.push(key);
        }
        Ok(StateChange {
            field: "state",
            from,
            to: label(!is_removed),
        })
    }

    fn check_room(&self, key: &str, value: &Value) -> Result<(), String> {
        let limits = &self.limits;
        let bytes = written_bytes(value);
        if bytes > limits.state_value_bytes_max {
            return Err(format!(
                "SET_STATE of {key}: it takes {bytes} bytes, more than {}",
                limits.state_value_bytes_max
            ));
        }
        let others = self.values.all().iter();
        let others: Vec<usize> = others
            .filter(|(known, _)| ***known != *key)
            .map(|(known, value)| known.len() + written_bytes(value))
            .collect();
        if others.len() >= limits.state_values_max {
            return Err(format!(
                "SET_STATE of {key}: the conversation has {} values already; take one away with null",
                others.len()
            ));
        }
        let total = others.iter().sum::<usize>() + key.len() + bytes;
        match total > limits.state_bytes_max {
            true => Err(format!(
                "SET_STATE of {key}: all values would take {total} bytes, more than {}; take one away with null",
                limits.state_bytes_max
            )),
            false => Ok(()),
        }
    }

    /// Changes are asked for: an entry that follows names these alone.
    pub(crate) fn begin_changes(&mut self) {
        self.changed.clear();
    }

    /// What the log is to say of them, as the session's own entry of this number.
    pub(crate) fn said(&mut self, entry: u64) -> Said {
        self.age = 0;
        self.entries = entry;
        Said::State {
            changed: self.changed.clone(),
            values: self.values.clone(),
        }
    }

    /// Whether they are to be said once more, after so many entries of the session's own.
    pub(crate) fn are_old(&self, entries: u64) -> bool {
        let since = entries.saturating_sub(self.entries);
        !self.values.is_empty() && self.age.saturating_add(since) >= REPEATED_AFTER
    }
}

fn written_bytes(value: &Value) -> usize {
    value.to_string().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_tool::kind::Mode;

    #[test]
    fn values_are_said_again_before_their_entry_leaves_what_a_session_reads() {
        let registry = Arc::new(Registry::new("1.0.00000000", None, Vec::new()));
        let mut values = Values::new(registry, Arc::new(Limits::of(Mode::Text)));
        assert!(!values.are_old(10_000), "there are none");
        let kept = StateValues::new([("basket".into(), Value::from("tea"))].into());
        values.restore(
            KeptState {
                values: kept.clone(),
                changed: vec!["basket".into()],
                age: 200,
            },
            7,
        );
        assert!(!values.are_old(7 + 49) && values.are_old(7 + 50));
        let Said::State { values: said, .. } = values.said(57) else {
            panic!("it says the values");
        };
        assert_eq!(said, kept);
        assert!(!values.are_old(57 + 249) && values.are_old(57 + 250));
    }
}
