//! The use of models' windows: as estimated when the session begins, with a warning then, and as providers count it, with one warning
//! per conversation and model. Knows no turn, no connection and no client.

use crate::event::SessionEvent;
use crate::model::Usage;
use crate::step::SessionStep;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The part of a model's window, in percent, above which it is nearly full.
pub const WINDOW_PERCENT_WARNED: u64 = 90;

/// The tokens that a session takes before the first word. A token is estimated as four characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextEstimate {
    pub system_prompt_tokens: u64,
    pub tool_decl_tokens: u64,
    /// Tokens of the conversation before the session.
    pub history_tokens: u64,
}

impl ContextEstimate {
    /// The sum of all.
    pub fn session_init_tokens(&self) -> u64 {
        self.system_prompt_tokens
            .saturating_add(self.tool_decl_tokens)
            .saturating_add(self.history_tokens)
    }
}

/// Estimated tokens of a text: characters divided by four, rounded up.
pub fn tokens(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(4)
}

/// The use of one model's window at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextUse {
    /// The model's name; empty if the session has none.
    pub model: Arc<str>,
    pub tokens: u64,
    pub window_tokens: u64,
}

impl ContextUse {
    /// Whether so little of the window is left that the conversation may soon break.
    pub fn is_nearly_full(&self) -> bool {
        self.tokens.saturating_mul(100) > self.window_tokens.saturating_mul(WINDOW_PERCENT_WARNED)
    }
}

/// A model other than the session's own, which answered a request of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherModel {
    pub(crate) name: Arc<str>,
    pub(crate) window_tokens: u64,
}

/// The number of models that are remembered; a conversation asks few.
const MODELS_MAX: usize = 64;

/// The models that were warned of a nearly full window.
#[derive(Debug, Default)]
pub(crate) struct ContextWatch {
    warned: BTreeSet<Arc<str>>,
}

impl ContextWatch {
    /// Reports the estimated use at the session's beginning, if it is known.
    pub(crate) fn begin(step: &mut SessionStep) {
        let Some(mut estimate) = step.config.estimate else {
            return;
        };
        let said = step.config.history.iter();
        estimate.history_tokens += said.map(|entry| tokens(entry.text.expose())).sum::<u64>();
        let opening = ContextUse {
            tokens: estimate.session_init_tokens(),
            ..own(step)
        };
        let is_nearly_full = opening.is_nearly_full();
        step.event(SessionEvent::ContextEstimated {
            estimate,
            context: opening.clone(),
        });
        if is_nearly_full {
            step.event(SessionEvent::ContextNearlyFull {
                context: opening,
                is_estimate: true,
            });
        }
    }

    /// It was said of these in earlier sessions of the conversation.
    pub(crate) fn restore(&mut self, warned: BTreeSet<Arc<str>>) {
        self.warned.extend(warned);
    }

    /// A provider has counted an exchange. Returns the warning about a model, once, if its window is nearly full.
    pub(crate) fn used(
        &mut self,
        usage: &Usage,
        other: Option<OtherModel>,
        step: &mut SessionStep,
    ) -> Option<NearlyFull> {
        // Some providers count no sum, and some only time.
        let counted = usage.input_tokens().saturating_add(usage.response_tokens);
        let tokens = match usage.total_tokens {
            0 => counted,
            total => total,
        };
        if tokens == 0 {
            return None;
        }
        let is_own = other.is_none();
        let context = match other {
            Some(other) => ContextUse {
                model: other.name,
                tokens,
                window_tokens: other.window_tokens,
            },
            None => ContextUse {
                tokens,
                ..own(step)
            },
        };
        let is_news = context.is_nearly_full()
            && !self.warned.contains(&context.model)
            && self.warned.len() < MODELS_MAX;
        step.event(SessionEvent::ContextUsed(context.clone()));
        if !is_news {
            return None;
        }
        self.warned.insert(context.model.clone());
        step.event(SessionEvent::ContextNearlyFull {
            context: context.clone(),
            is_estimate: false,
        });
        Some(NearlyFull { context, is_own })
    }
}

/// A window that needs a warning.
#[derive(Debug)]
pub(crate) struct NearlyFull {
    pub(crate) context: ContextUse,
    /// The window is that of the session's own model.
    pub(crate) is_own: bool,
}

/// The window of the session's own model, empty.
fn own(step: &SessionStep) -> ContextUse {
    ContextUse {
        model: step.config.model.clone(),
        tokens: 0,
        window_tokens: step.config.profile.context_tokens_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_characters_by_four_rounded_up() {
        for (text, count) in [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("éééé", 1)] {
            assert_eq!(tokens(text), count, "{text}");
        }
    }

    #[test]
    fn a_window_is_nearly_full_above_nine_tenths() {
        for (window_tokens, is_nearly_full) in
            [(14, false), (13, true), (0, true), (u64::MAX, false)]
        {
            let context = ContextUse {
                model: "m".into(),
                tokens: 12,
                window_tokens,
            };
            assert_eq!(context.is_nearly_full(), is_nearly_full, "{window_tokens}");
        }
    }

    #[test]
    fn usage_counts_by_its_sum_or_its_parts_and_speech_by_time_counts_nothing() {
        let mut watch = ContextWatch::default();
        let mut step = SessionStep::for_tests();
        let mut told = |usage: Usage| {
            watch
                .used(&usage, None, &mut step)
                .map(|nearly_full| nearly_full.context.tokens)
        };
        assert_eq!(
            told(Usage {
                seconds: 9,
                ..Usage::default()
            }),
            None
        );
        assert_eq!(
            told(Usage {
                total_tokens: 117_964,
                ..Usage::default()
            }),
            None
        );
        let parts = Usage {
            prompt_tokens: 100_000,
            tool_use_tokens: 10_000,
            response_tokens: 7_965,
            ..Usage::default()
        };
        assert_eq!(told(parts), Some(117_965));
        assert_eq!(told(parts), None, "it is said once");
    }
}
