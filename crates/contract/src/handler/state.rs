//! The values that handlers keep for a conversation, as a call gets them, and the keys that they may have. Knows no other rule about
//! them.

use crate::sensitive::Sensitive;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most characters of a key.
const KEY_CHARACTERS_MAX: usize = 63;

/// Whether a tool may declare a value with this key: a letter, then letters, digits and underscores.
pub fn is_state_key(key: &str) -> bool {
    let mut bytes = key.bytes();
    key.len() <= KEY_CHARACTERS_MAX
        && bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Values by their keys, as of one moment. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateValues(Sensitive<Arc<BTreeMap<Arc<str>, Value>>>);

impl StateValues {
    pub fn new(values: BTreeMap<Arc<str>, Value>) -> Self {
        Self(Sensitive(Arc::new(values)))
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.all().get(key)
    }

    pub fn all(&self) -> &BTreeMap<Arc<str>, Value> {
        self.0.expose()
    }

    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// Adds or replaces a value; `None` removes it. Earlier clones keep theirs.
    pub fn set(&mut self, key: Arc<str>, value: Option<Value>) {
        let values = Arc::make_mut(&mut self.0.0);
        match value {
            Some(value) => values.insert(key, value),
            None => values.remove(&key),
        };
    }
}
