//! State changes that a tool may ask for in its result. Only the session's state controller carries them out.

use crate::handler::is_state_key;
use crate::sensitive::Sensitive;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// When a session ends, the soonest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndAfter {
    Immediate,
    #[default]
    CurrentTurn,
    FarewellSpoken,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "SCREAMING_SNAKE_CASE",
    rename_all_fields = "camelCase"
)]
pub enum Intent {
    EndVoiceSession {
        #[serde(default)]
        after: EndAfter,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        closing_message: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text_response: Option<String>,
    },
    SuppressAudio {
        #[serde(default = "yes")]
        value: bool,
    },
    SuppressTranscript {
        #[serde(default = "yes")]
        value: bool,
    },
    SetPendingMessage {
        message: String,
    },
    /// Sets a conversation value under a key that a tool declares. `null` removes it.
    SetState {
        key: String,
        value: Sensitive<Value>,
    },
    /// An unknown intent: kept so that it can be rejected and recorded under its own name.
    #[serde(untagged)]
    Unknown(Value),
}

/// The name of the intent that changes a conversation value.
pub const SET_STATE: &str = "SET_STATE";

impl Intent {
    /// The intent's name on the wire.
    pub fn name(&self) -> &str {
        match self {
            Self::EndVoiceSession { .. } => "END_VOICE_SESSION",
            Self::SuppressAudio { .. } => "SUPPRESS_AUDIO",
            Self::SuppressTranscript { .. } => "SUPPRESS_TRANSCRIPT",
            Self::SetPendingMessage { .. } => "SET_PENDING_MESSAGE",
            Self::SetState { .. } => SET_STATE,
            Self::Unknown(value) => value
                .get("type")
                .and_then(|name| name.as_str())
                .unwrap_or("(unnamed)"),
        }
    }

    /// Whether the intent concerns the conversation's values, and not one of its sessions.
    pub fn is_of_conversation(&self) -> bool {
        self.name() == SET_STATE
    }

    /// Whether the name is unknown, or a required member is missing.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// The key of its conversation value, for people.
    pub fn shown_key(&self) -> Option<&str> {
        let key = match self {
            Self::SetState { key, .. } => Some(key.as_str()),
            Self::Unknown(value) if self.is_of_conversation() => {
                value.get("key").and_then(Value::as_str)
            }
            _ => None,
        };
        key.map(shown_key)
    }

    /// The name for people: only the beginning of an unknown name.
    pub fn shown_name(&self) -> &str {
        shown(self.name())
    }
}

/// The key of a conversation value, for people. A key that no tool can declare may be a user's words and is not shown.
pub fn shown_key(key: &str) -> &str {
    match is_state_key(key) {
        true => key,
        false => "(no name)",
    }
}

/// A name, cut to the length of known names.
fn shown(name: &str) -> &str {
    const NAME_CHARACTERS_MAX: usize = 63;
    match name.char_indices().nth(NAME_CHARACTERS_MAX) {
        Some((end, _)) => &name[..end],
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn intents_read_their_wire_form_with_its_defaults() {
        let read = |value| serde_json::from_value::<Intent>(value).unwrap();
        assert_eq!(
            read(
                json!({"type": "END_VOICE_SESSION", "after": "farewell_spoken", "closingMessage": "Bye"})
            ),
            Intent::EndVoiceSession {
                after: EndAfter::FarewellSpoken,
                reason: None,
                closing_message: Some("Bye".into()),
                text_response: None
            }
        );
        assert_eq!(
            read(json!({"type": "SUPPRESS_AUDIO"})),
            Intent::SuppressAudio { value: true }
        );
        let exact =
            r#"{"type":"SET_STATE","key":"total","value":{"eur":0.1000000000000000000001}}"#;
        let set: Intent = serde_json::from_str(exact).unwrap();
        assert!(matches!(&set, Intent::SetState { key, .. } if key == "total"));
        assert_eq!(serde_json::to_string(&set).unwrap(), exact);
        let odd = json!({"type": "FORMAT_DISK"});
        assert_eq!(read(odd.clone()), Intent::Unknown(odd));
    }
}
