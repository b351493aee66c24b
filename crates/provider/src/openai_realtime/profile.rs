//! What each Realtime model can do: built-in rows, found by model id, which configuration can change field by field. Knows
//! nothing of a session.

use crate::gemini_live::profile::{FoundProfile, ProfileMatch};
use windlass_session::model::{
    AnswerBatching, CallSupport, DeclarationForm, HistoryInput, ModelProfile, TextInput, Thinking,
};

/// Reasons, takes 128k tokens, and speaks while calls are open. No call is declared as non-blocking, because the protocol
/// has no word for it: the model is asked to go on when the results are there.
const REALTIME_2: ModelProfile = ModelProfile {
    calls: CallSupport::BlockingOnly,
    scheduling: false,
    declaration: DeclarationForm::OpenaiRealtime,
    answers: AnswerBatching::Together,
    text_input: TextInput::ClientContent,
    history: HistoryInput::ClientContent,
    resumption: false,
    hold_microphone: false,
    thinking: Thinking::Level,
    vision: true,
    context_tokens_max: 128_000,
};

/// A window of 32,768 tokens, and no `reasoning`.
const REALTIME_1: ModelProfile = ModelProfile {
    thinking: Thinking::Omit,
    context_tokens_max: 32_768,
    ..REALTIME_2
};

/// For a model that nothing is known of: what every model has taken so far.
const UNKNOWN: ModelProfile = ModelProfile {
    vision: false,
    ..REALTIME_1
};

/// OpenAI's announcement; the model is served until then.
const ENDS: &str = "OpenAI ends this model on 2027-01-20: choose gpt-realtime-2.1";

/// Model, profile, and what an operator should know.
const ROWS: [(&str, ModelProfile, Option<&str>); 7] = [
    ("gpt-realtime-2.1", REALTIME_2, None),
    ("gpt-realtime-2.1-mini", REALTIME_2, None),
    ("gpt-realtime-2", REALTIME_2, None),
    ("gpt-realtime-1.5", REALTIME_1, None),
    ("gpt-realtime-mini-2025-12-15", REALTIME_1, Some(ENDS)),
    ("gpt-realtime-mini", REALTIME_1, Some(ENDS)),
    ("gpt-realtime", REALTIME_1, Some(ENDS)),
];

/// The model on which a session runs where none is configured.
pub const DEFAULT_MODEL: &str = "gpt-realtime-2.1";

/// Finds what a model can do, by its id.
pub fn find(model: &str) -> FoundProfile {
    let exact = ROWS.iter().find(|(id, ..)| *id == model);
    let family = || {
        ROWS.iter()
            .filter(|(id, ..)| {
                model
                    .strip_prefix(id)
                    .is_some_and(|rest| rest.starts_with('-'))
            })
            .max_by_key(|(id, ..)| id.len())
    };
    let (matched, row) = match exact {
        Some(row) => (ProfileMatch::Exact, Some(row)),
        None => match family() {
            Some(row) => (ProfileMatch::Family(row.0), Some(row)),
            None => (ProfileMatch::Default, None),
        },
    };
    match row {
        Some((_, profile, note)) => FoundProfile {
            profile: profile.clone(),
            matched,
            note: note.map(str::to_owned),
        },
        None => FoundProfile {
            profile: UNKNOWN,
            matched,
            note: Some(format!(
                "nothing is known of the model {model:?}: it is treated as one with a window of 32,768 tokens that neither reasons nor sees; set its profile in the configuration"
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_id_then_by_family_then_not_at_all() {
        for (model, matched, profile) in [
            ("gpt-realtime-2.1", ProfileMatch::Exact, REALTIME_2),
            (
                "gpt-realtime-2.1-2026-09-01",
                ProfileMatch::Family("gpt-realtime-2.1"),
                REALTIME_2,
            ),
            (
                "gpt-realtime-2025-08-28",
                ProfileMatch::Family("gpt-realtime"),
                REALTIME_1,
            ),
            ("gpt-realtime2", ProfileMatch::Default, UNKNOWN),
            ("", ProfileMatch::Default, UNKNOWN),
        ] {
            let found = find(model);
            assert_eq!(
                (found.matched, found.profile),
                (matched, profile),
                "{model}"
            );
        }
        assert_eq!(find(DEFAULT_MODEL).note, None);
        assert!(find("gpt-realtime").note.is_some());
    }
}
