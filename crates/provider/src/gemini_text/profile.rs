//! What each text model can do: built-in rows, found by model id, which configuration can change field by field. Knows
//! nothing of a conversation.

use serde::{Deserialize, Serialize};
use windlass_session::model::{
    AnswerBatching, CallSupport, DeclarationForm, HistoryInput, ModelProfile, TextInput, Thinking,
};

/// What may be sent to a model, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Profile {
    pub declaration: Declaration,
    pub call_ids: CallIds,
    /// Whether a call that comes back without a thought signature is refused.
    pub thought_signatures: bool,
    pub thinking: Thinking,
    pub vision: bool,
    pub context_tokens_max: u64,
}

/// Which declaration the model reads best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Declaration {
    GeminiNative,
    GeminiJson,
}

/// Which calls and answers carry an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIds {
    /// All: a missing one has ended in an empty answer (BerriAI/litellm pull request 34603).
    Always,
    /// Those that the model gave one itself: elsewhere the field has been refused as unknown (looplj/axonhub issue 874).
    AsGiven,
}

impl Profile {
    /// The same as the core sees it.
    pub fn model_profile(&self) -> ModelProfile {
        ModelProfile {
            calls: CallSupport::BlockingOnly,
            scheduling: false,
            declaration: match self.declaration {
                Declaration::GeminiNative => DeclarationForm::GeminiNative,
                Declaration::GeminiJson => DeclarationForm::GeminiJson,
            },
            answers: AnswerBatching::Together,
            text_input: TextInput::ClientContent,
            history: HistoryInput::ClientContent,
            resumption: false,
            hold_microphone: false,
            thinking: self.thinking,
            vision: self.vision,
            context_tokens_max: self.context_tokens_max,
        }
    }
}

/// Levels of thinking, signed calls, ids on everything.
const GEMINI_3: Profile = Profile {
    declaration: Declaration::GeminiJson,
    call_ids: CallIds::Always,
    thought_signatures: true,
    thinking: Thinking::Level,
    vision: true,
    context_tokens_max: 1_048_576,
};

/// A budget of thinking; signatures are optional.
const GEMINI_2_5: Profile = Profile {
    call_ids: CallIds::AsGiven,
    thought_signatures: false,
    thinking: Thinking::Budget,
    ..GEMINI_3
};

const GEMINI_2_0: Profile = Profile {
    declaration: Declaration::GeminiNative,
    thinking: Thinking::Omit,
    ..GEMINI_2_5
};

/// For a name that stands for another model every few months: the rules of the newest, without a field that depends on
/// which it is.
const NEWEST: Profile = Profile {
    thinking: Thinking::Omit,
    ..GEMINI_3
};

/// For a model that nothing is known of. The signature that stands for a missing one is a field that every version of
/// the API knows.
const UNKNOWN: Profile = Profile {
    declaration: Declaration::GeminiNative,
    thinking: Thinking::Omit,
    vision: false,
    context_tokens_max: 131_072,
    ..GEMINI_3
};

/// One row of the table.
struct Row {
    /// The id, or what the ids of a family begin with.
    model: &'static str,
    profile: Profile,
}

const ROWS: [Row; 7] = [
    row("gemini-3", GEMINI_3),
    row("gemini-2.5", GEMINI_2_5),
    row("gemini-2.0", GEMINI_2_0),
    row("gemini-1.5", GEMINI_2_0),
    row("gemini-pro-latest", NEWEST),
    row("gemini-flash-latest", NEWEST),
    row("gemini-flash-lite-latest", NEWEST),
];

const fn row(model: &'static str, profile: Profile) -> Row {
    Row { model, profile }
}

/// The model on which a text session runs where none is configured.
pub const DEFAULT_MODEL: &str = "gemini-3.5-flash";

/// A profile, and how it was come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProfile {
    pub profile: Profile,
    pub matched: ProfileMatch,
    /// What an operator should know, for the log.
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileMatch {
    /// The row of this model, or of the family that its id begins with.
    Family(&'static str),
    /// Nothing is known of the model.
    Default,
}

/// Finds what a model can do, by its id or its resource name.
pub fn find(model: &str) -> FoundProfile {
    let id = model.rsplit('/').next().unwrap_or(model);
    let row = ROWS
        .iter()
        .filter(|row| {
            id.strip_prefix(row.model)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
        })
        .max_by_key(|row| row.model.len());
    match row {
        Some(row) => FoundProfile {
            profile: row.profile.clone(),
            matched: ProfileMatch::Family(row.model),
            note: None,
        },
        None => FoundProfile {
            profile: UNKNOWN,
            matched: ProfileMatch::Default,
            note: Some(format!(
                "nothing is known of the model {id:?}: it is treated as a Gemini 3 model that neither sees nor takes a thinking level; set its profile in the configuration"
            )),
        },
    }
}

/// What configuration says of a model; fields that it leaves out stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileOverride {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declaration: Option<Declaration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_ids: Option<CallIds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought_signatures: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vision: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens_max: Option<u64>,
}

impl ProfileOverride {
    /// The profile with what is overridden.
    pub fn apply(&self, profile: Profile) -> Profile {
        Profile {
            declaration: self.declaration.unwrap_or(profile.declaration),
            call_ids: self.call_ids.unwrap_or(profile.call_ids),
            thought_signatures: self
                .thought_signatures
                .unwrap_or(profile.thought_signatures),
            thinking: self.thinking.unwrap_or(profile.thinking),
            vision: self.vision.unwrap_or(profile.vision),
            context_tokens_max: self
                .context_tokens_max
                .unwrap_or(profile.context_tokens_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_model_is_found_by_its_family_or_not_at_all() {
        for (model, matched, profile) in [
            (DEFAULT_MODEL, ProfileMatch::Family("gemini-3"), GEMINI_3),
            (
                "models/gemini-3-pro-preview",
                ProfileMatch::Family("gemini-3"),
                GEMINI_3,
            ),
            (
                "gemini-2.5-flash-lite",
                ProfileMatch::Family("gemini-2.5"),
                GEMINI_2_5,
            ),
            (
                "projects/p/locations/l/publishers/google/models/gemini-2.0-flash-001",
                ProfileMatch::Family("gemini-2.0"),
                GEMINI_2_0,
            ),
            (
                "gemini-flash-latest",
                ProfileMatch::Family("gemini-flash-latest"),
                NEWEST,
            ),
            ("gemini-30-pro", ProfileMatch::Default, UNKNOWN),
            ("gemini-4-pro", ProfileMatch::Default, UNKNOWN),
            ("", ProfileMatch::Default, UNKNOWN),
        ] {
            let found = find(model);
            assert_eq!(
                (found.matched, found.profile),
                (matched, profile),
                "{model}"
            );
            assert_eq!(
                found.note.is_some(),
                matched == ProfileMatch::Default,
                "{model}"
            );
        }
    }

    #[test]
    fn configuration_overrides_field_by_field_and_knows_no_others() {
        let change: ProfileOverride =
            serde_json::from_value(json!({"call_ids": "as_given", "thinking": "omit"})).unwrap();
        assert_eq!(
            change.apply(GEMINI_3),
            Profile {
                call_ids: CallIds::AsGiven,
                thinking: Thinking::Omit,
                ..GEMINI_3
            }
        );
        assert_eq!(ProfileOverride::default().apply(UNKNOWN), UNKNOWN);
        assert!(serde_json::from_value::<ProfileOverride>(json!({"ids": "always"})).is_err());
    }
}
