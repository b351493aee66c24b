//! The values that handlers keep for a conversation: the declared keys, their limits, and the current values. Each change is written
//! into the log of the conversation, from which the next session reads it. Knows no handler.

use crate::event::StateChange;
use crate::limits::Limits;
use crate::log_text::{KeptState, Said};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_contract::handler::StateValues;
use windlass_contract::intent::shown_key;
use windlass_contract::registry::Registry;
use windlass_contract::validate::{Validator, Violation};
use windlass_store::LegNumber;

/// The number of the session's own entries after which the values are written again. A session that begins reads the newest entries
/// alone, and the ledger writes some of them for each of these.
const REPEATED_AFTER: u64 = 250;

/// The values of one conversation, as far as this session knows them.
pub(crate) struct Values {
    registry: Arc<Registry>,
    limits: Arc<Limits>,
    values: StateValues,
    /// The keys that were set since the last entry about values.
    changed: Vec<Arc<str>>,
    /// The session's newest entry about each key, until the session has read the log up to it. The values of others before it are older.
    unread: BTreeMap<Arc<str>, LegNumber>,
    /// The number of log entries after the one with the values, when the session began or wrote one.
    age: u64,
    /// The number of the session's own entries by then.
    entries: u64,
}

impl Values {
    pub(crate) fn new(registry: Arc<Registry>, limits: Arc<Limits>) -> Self {
        Self {
            registry,
            limits,
            values: StateValues::default(),
            changed: Vec::new(),
            unread: BTreeMap::new(),
            age: 0,
            entries: 0,
        }
    }

    /// Takes up the kept values, for a session that has written so many entries itself.
    pub(crate) fn restore(&mut self, kept: KeptState, entries: u64) {
        self.values = kept.values;
        self.age = kept.age;
        self.entries = entries;
    }

    pub(crate) fn get(&self) -> &StateValues {
        &self.values
    }

    /// The log has been read up to an entry about values. `own` is its number if the session wrote it. The log's order holds: the
    /// session's own newest entry about a key overwrites the values of others before it.
    pub(crate) fn learn(&mut self, news: &KeptState, own: Option<LegNumber>) {
        for key in &news.changed {
            if !self.unread.contains_key(key) {
                let value = news.values.get(key).cloned();
                self.values.set(key.clone(), value);
            }
        }
        self.unread.retain(|_, number| Some(*number) != own);
    }

    /// Sets a value that a handler asks for; `null` removes it. `Err` says why it stays as it is, and never shows the given value.
    pub(crate) fn set(&mut self, key: &str, value: &Value) -> Result<StateChange, String> {
        let Some(validator) = self.registry.state(key) else {
            return Err(format!(
                "SET_STATE of {:?}, which no tool declares; name it under `state` in the schema.json of the tool",
                shown_key(key)
            ));
        };
        let is_removed = value.is_null();
        if !is_removed {
            if let Some(violation) = validator.violations(value).first() {
                return Err(refused(key, value, violation, validator));
            }
            self.check_room(key, value)?;
        }
        let key: Arc<str> = key.into();
        let from = label(self.values.get(&key));
        self.values
            .set(key.clone(), (!is_removed).then(|| value.clone()));
        let to = label(self.values.get(&key));
        if !self.changed.contains(&key) {
            self.changed.push(key);
        }
        Ok(StateChange {
            field: "state",
            from,
            to,
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

    /// Whether a value was set that no entry has yet.
    pub(crate) fn are_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The entry about the values, as the session's own entry of this number. If nothing was set, it only repeats them.
    pub(crate) fn said(&mut self, entry: LegNumber) -> Said {
        self.age = 0;
        self.entries = entry.0;
        let changed = std::mem::take(&mut self.changed);
        self.unread
            .extend(changed.iter().map(|key| (key.clone(), entry)));
        Said::State {
            changed,
            values: self.values.clone(),
        }
    }

    /// Whether the values are to be written again, after so many entries of the session's own.
    pub(crate) fn are_old(&self, entries: u64) -> bool {
        let since = entries.saturating_sub(self.entries);
        !self.values.is_empty() && self.age.saturating_add(since) >= REPEATED_AFTER
    }
}

/// The reason why a schema refuses a value. Indices and names from the schema give the place: other members are the handler's content.
fn refused(key: &str, value: &Value, violation: &Violation, validator: &Validator) -> String {
    let mut place = String::new();
    let mut within = Some(value);
    let mut unknown = None;
    for name in violation.pointer.split('/').skip(1) {
        let name = name.replace("~1", "/").replace("~0", "~");
        let is_index = within.is_some_and(Value::is_array);
        within = match is_index {
            true => within.and_then(|items| items.get(name.parse::<usize>().ok()?)),
            false => within.and_then(|members| members.get(&name)),
        };
        let is_known = is_index || is_named(validator.schema(), &name);
        place.push('/');
        place.push_str(if is_known { &name } else { "…" });
        unknown = (!is_known).then_some(name);
    }
    let is_quoted = |name: &String| violation.message.contains(&format!("`{name}`"));
    let problem = match unknown.filter(is_quoted) {
        Some(_) => "has a member that its schema does not name",
        None => &violation.message,
    };
    // Some causes name the member that they are about.
    let subject = if problem.starts_with('`') { "" } else { "it " };
    format!("SET_STATE of {key}{place}: {subject}{problem}")
}

/// Whether a schema speaks of a member of this name.
fn is_named(schema: &Value, name: &str) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(keyword, below)| {
            let names_it = match keyword.as_str() {
                "properties" => below.get(name).is_some(),
                "required" => below
                    .as_array()
                    .is_some_and(|required| required.iter().any(|one| one == name)),
                _ => false,
            };
            names_it || is_named(below, name)
        }),
        Value::Array(items) => items.iter().any(|item| is_named(item, name)),
        _ => false,
    }
}

/// A value in trail and journal: its size alone.
fn label(value: Option<&Value>) -> String {
    match value {
        Some(value) => format!("{} bytes", written_bytes(value)),
        None => "none".to_owned(),
    }
}

fn written_bytes(value: &Value) -> usize {
    value.to_string().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_contract::kind::Mode;

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
        let Said::State {
            changed,
            values: said,
        } = values.said(LegNumber(57))
        else {
            panic!("it says the values");
        };
        assert_eq!((said, changed), (kept, Vec::new()), "nothing was set");
        assert!(!values.are_old(57 + 249) && values.are_old(57 + 250));
    }

    /// Values of a registry whose tools declare none: entries of the log are believed all the same.
    fn knowing(key: &str, value: &str) -> Values {
        let registry = Arc::new(Registry::new("1.0.00000000", None, Vec::new()));
        let mut values = Values::new(registry, Arc::new(Limits::of(Mode::Text)));
        values.values.set(key.into(), Some(Value::from(value)));
        values.changed.push(key.into());
        values
    }

    fn news(key: &str, value: &str) -> KeptState {
        KeptState {
            values: StateValues::new([(key.into(), Value::from(value))].into()),
            changed: vec![key.into()],
            age: 0,
        }
    }

    #[test]
    fn of_two_sessions_that_set_a_key_the_later_entry_of_the_log_holds() {
        let own = LegNumber(9);
        // The session's own entry is behind the other's in the log, and then before it.
        for (order, last) in [
            (
                [
                    (news("basket", "A"), None),
                    (news("basket", "B"), Some(own)),
                ],
                "B",
            ),
            (
                [
                    (news("basket", "B"), Some(own)),
                    (news("basket", "A"), None),
                ],
                "A",
            ),
        ] {
            let mut values = knowing("basket", "B");
            values.said(own);
            for (kept, own) in &order {
                values.learn(kept, *own);
            }
            assert_eq!(values.get().get("basket"), Some(&Value::from(last)));
        }
    }

    #[test]
    fn what_an_earlier_process_of_the_session_wrote_late_is_news() {
        let mut values = knowing("basket", "B");
        values.said(LegNumber(1_000_009));
        values.learn(&news("basket", "B"), Some(LegNumber(1_000_009)));
        values.learn(&news("basket", "late"), Some(LegNumber(7)));
        assert_eq!(values.get().get("basket"), Some(&Value::from("late")));
    }
}
