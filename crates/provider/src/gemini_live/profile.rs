//! What each Live model can do: built-in rows, found by model id, which configuration can change field by field. Knows
//! nothing of a session. Behaviour differs more by model than by API version, and each new model has changed the rules,
//! so everything here can be overridden.

use serde::{Deserialize, Serialize};
use windlass_session::model::{
    AnswerBatching, CallSupport, DeclarationForm, HistoryInput, ModelProfile, TextInput, Thinking,
};

/// A profile and how it was come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProfile {
    pub profile: ModelProfile,
    pub matched: ProfileMatch,
    /// What an operator should know of this model, for the log.
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileMatch {
    /// The model has a row of its own.
    Exact,
    /// The row of the model whose id begins this one's.
    Family(&'static str),
    /// Nothing is known of the model.
    Default,
}

/// One row of the table.
struct Row {
    /// The id, or what the ids of a family begin with.
    model: &'static str,
    profile: ModelProfile,
    note: Option<&'static str>,
}

/// Stable since September 2026. Calls are non-blocking unless `behavior` says otherwise; a thinking level closes the
/// setup; new input while a blocking call runs makes the service cancel it.
const LIVE_3_8: ModelProfile = ModelProfile {
    calls: CallSupport::Both,
    scheduling: true,
    declaration: DeclarationForm::GeminiNative,
    answers: AnswerBatching::Together,
    text_input: TextInput::RealtimeInput,
    history: HistoryInput::ClientContent,
    resumption: true,
    hold_microphone: true,
    thinking: Thinking::Omit,
    vision: true,
    context_tokens_max: 131_072,
};

/// Refuses blocking calls; `scheduling` in a result has closed the session with 1007 (openclaw/openclaw pull request
/// 152413); reads only the native form of declarations.
const LIVE_3_8_EXTENDED_THINKING: ModelProfile = ModelProfile {
    calls: CallSupport::NonBlockingOnly,
    scheduling: false,
    answers: AnswerBatching::AsReady,
    hold_microphone: false,
    thinking: Thinking::Level,
    ..LIVE_3_8
};

/// Synchronous calls only. Content after the start closes the session with 1007 unless it is history that the setup
/// announced; microphone audio during a call has had the call cancelled and asked for again.
const LIVE_3_1: ModelProfile = ModelProfile {
    calls: CallSupport::BlockingOnly,
    scheduling: false,
    history: HistoryInput::InitialClientContent,
    thinking: Thinking::Level,
    ..LIVE_3_8
};

/// Input during an unanswered call has closed the session with 1008.
const NATIVE_AUDIO_2_5: ModelProfile = ModelProfile {
    text_input: TextInput::ClientContent,
    thinking: Thinking::Budget,
    ..LIVE_3_8
};

/// Takes speech during a call and its result afterwards. Nothing is known of its thinking.
const VERTEX_2_5: ModelProfile = ModelProfile {
    hold_microphone: false,
    thinking: Thinking::Omit,
    ..NATIVE_AUDIO_2_5
};

/// The models that translate or transcribe take no tools, no text and no pictures.
const SPEECH_ONLY: ModelProfile = ModelProfile {
    hold_microphone: false,
    thinking: Thinking::Omit,
    vision: false,
    context_tokens_max: 32_768,
    ..LIVE_3_1
};

/// For a model that nothing is known of: only what every Live model has taken so far. Calls are declared without
/// `behavior` and treated as blocking, results go without `scheduling`, and the smallest window of any Live model is
/// assumed.
const UNKNOWN: ModelProfile = ModelProfile {
    thinking: Thinking::Omit,
    vision: false,
    context_tokens_max: 32_768,
    ..LIVE_3_1
};

const NO_TOOLS: &str = "this model takes no tools: a session with tools will be refused";

const ROWS: [Row; 10] = [
    row("gemini-3.8-live", LIVE_3_8),
    row(
        "gemini-3.8-live-extended-thinking",
        LIVE_3_8_EXTENDED_THINKING,
    ),
    row("gemini-3.1-flash-live-preview", LIVE_3_1),
    row("gemini-3.1-flash-live", LIVE_3_1),
    row(
        "gemini-2.5-flash-native-audio-preview-12-2025",
        NATIVE_AUDIO_2_5,
    ),
    row("gemini-2.5-flash-native-audio", NATIVE_AUDIO_2_5),
    row("gemini-live-2.5-flash-native-audio", VERTEX_2_5),
    row("gemini-live-2.5-flash", VERTEX_2_5),
    Row {
        note: Some(NO_TOOLS),
        ..row("gemini-3.5-live-translate-preview", SPEECH_ONLY)
    },
    Row {
        note: Some(NO_TOOLS),
        ..row("gemini-3.5-transcribe-live-preview", SPEECH_ONLY)
    },
];

const fn row(model: &'static str, profile: ModelProfile) -> Row {
    Row {
        model,
        profile,
        note: None,
    }
}

/// The model on which a session runs where none is configured.
pub const DEFAULT_MODEL: &str = "gemini-3.8-live";

/// Finds what a model can do, by its id or its resource name.
pub fn find(model: &str) -> FoundProfile {
    let id = model.rsplit('/').next().unwrap_or(model);
    if let Some(row) = ROWS.iter().find(|row| row.model == id) {
        return found(row, ProfileMatch::Exact);
    }
    let family = ROWS
        .iter()
        .filter(|row| {
            id.strip_prefix(row.model)
                .is_some_and(|rest| rest.starts_with('-'))
        })
        .max_by_key(|row| row.model.len());
    match family {
        Some(row) => found(row, ProfileMatch::Family(row.model)),
        None => FoundProfile {
            profile: UNKNOWN,
            matched: ProfileMatch::Default,
            note: Some(format!(
                "nothing is known of the model {id:?}: it is treated as one that makes blocking calls only; set its profile in the configuration"
            )),
        },
    }
}

fn found(row: &Row, matched: ProfileMatch) -> FoundProfile {
    FoundProfile {
        profile: row.profile.clone(),
        matched,
        note: row.note.map(str::to_owned),
    }
}

/// What configuration says of a model; fields that it leaves out stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileOverride {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallSupport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declaration: Option<DeclarationForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<AnswerBatching>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_input: Option<TextInput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryInput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumption: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_microphone: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vision: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens_max: Option<u64>,
}

impl ProfileOverride {
    /// The profile with what is overridden.
    pub fn apply(&self, profile: ModelProfile) -> ModelProfile {
        ModelProfile {
            calls: self.calls.unwrap_or(profile.calls),
            scheduling: self.scheduling.unwrap_or(profile.scheduling),
            declaration: self.declaration.unwrap_or(profile.declaration),
            answers: self.answers.unwrap_or(profile.answers),
            text_input: self.text_input.unwrap_or(profile.text_input),
            history: self.history.unwrap_or(profile.history),
            resumption: self.resumption.unwrap_or(profile.resumption),
            hold_microphone: self.hold_microphone.unwrap_or(profile.hold_microphone),
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
    fn a_model_is_found_by_id_then_by_family_then_not_at_all() {
        for (model, matched, profile) in [
            ("gemini-3.8-live", ProfileMatch::Exact, LIVE_3_8),
            ("models/gemini-3.8-live", ProfileMatch::Exact, LIVE_3_8),
            (
                "projects/p/locations/l/publishers/google/models/gemini-live-2.5-flash-native-audio",
                ProfileMatch::Exact,
                VERTEX_2_5,
            ),
            (
                "gemini-3.8-live-extended-thinking",
                ProfileMatch::Exact,
                LIVE_3_8_EXTENDED_THINKING,
            ),
            (
                "gemini-3.8-live-extended-thinking-002",
                ProfileMatch::Family("gemini-3.8-live-extended-thinking"),
                LIVE_3_8_EXTENDED_THINKING,
            ),
            (
                "gemini-2.5-flash-native-audio-preview-09-2025",
                ProfileMatch::Family("gemini-2.5-flash-native-audio"),
                NATIVE_AUDIO_2_5,
            ),
            ("gemini-3.8-lively", ProfileMatch::Default, UNKNOWN),
            ("gemini-9", ProfileMatch::Default, UNKNOWN),
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
        assert!(find("gemini-3.5-live-translate-preview").note.is_some());
    }

    #[test]
    fn every_row_keeps_the_rules_of_its_kind_of_calls() {
        for row in &ROWS {
            let profile = &row.profile;
            if profile.calls == CallSupport::BlockingOnly {
                assert!(!profile.scheduling, "{}", row.model);
            }
            if profile.calls == CallSupport::NonBlockingOnly {
                assert!(!profile.hold_microphone, "{}", row.model);
            }
        }
        assert_eq!(find(DEFAULT_MODEL).matched, ProfileMatch::Exact);
    }

    #[test]
    fn configuration_overrides_field_by_field_and_knows_no_others() {
        let change: ProfileOverride =
            serde_json::from_value(json!({"calls": "blocking_only", "hold_microphone": false}))
                .unwrap();
        assert_eq!(
            change.apply(LIVE_3_8),
            ModelProfile {
                calls: CallSupport::BlockingOnly,
                hold_microphone: false,
                ..LIVE_3_8
            }
        );
        assert_eq!(ProfileOverride::default().apply(LIVE_3_1), LIVE_3_1);
        assert!(serde_json::from_value::<ProfileOverride>(json!({"call": "both"})).is_err());
    }
}
