//! State changes that a tool may ask for in its result. Only the session's state controller carries them out.

use crate::handler::is_state_key;
use crate::sensitive::Sensitive;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// When a session ends that is to end, the soonest first.
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
    /// A value of the conversation, under a key that a tool declares. `null` takes it away.
    SetState {
        key: String,
        value: Sensitive<Value>,
    },
    /// Anything else: kept so that it can be rejected and recorded under its own name.
    #[serde(untagged)]
    Unknown(Value),
}

/// What a handler calls the change of a value of the conversation.
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

    /// Whether it is about what handlers keep for the conversation, and not about one of its sessions.
    pub fn is_of_conversation(&self) -> bool {
        self.name() == SET_STATE
    }

    /// Whether nothing is known by its name, or it lacks what it needs.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// The key of a value that it is about, for people.
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

    /// The name for people: the beginning of one that means nothing.
    pub fn shown_name(&self) -> &str {
        shown(self.name())
    }
}

/// The key of a value for people. One that no tool can declare may be what a user said, and is not shown.
pub fn shown_key(key: &str) -> &str {
    match is_state_key(key) {
        true => key,
        false => "(no name)",
    }
}

/// A name within the length of those that mean something.
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
