//! The log's lines about a provider that behaves oddly, and about its model's window: messages outside its protocol, announced
//! ends, silence after a result, a nearly full window. A subscriber; logs each kind once in a session, by its path and never with
//! its content.

use crate::subscriber::{SessionIdentity, Subscriber};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use windlass_contract::id::SessionId;
use windlass_session::event::SessionEvent;

/// Kinds that are logged for one session; a provider with more is known to be odd.
const KINDS_MAX: usize = 16;
/// Sessions that are remembered. A session is forgotten at its end; a broken one never ends.
const SESSIONS_MAX: usize = 10_000;

/// Writes the log.
#[derive(Default)]
pub struct ProviderLog {
    said: Mutex<HashMap<SessionId, BTreeSet<String>>>,
}

impl ProviderLog {
    /// Whether a kind has not been logged for a session. It counts as logged from now on.
    fn is_news(&self, session: &SessionId, kind: &str) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= SESSIONS_MAX && !said.contains_key(session) {
            said.clear();
        }
        let kinds = said.entry(session.clone()).or_default();
        kinds.len() < KINDS_MAX && !kinds.contains(kind) && kinds.insert(kind.to_owned())
    }

    fn forget(&self, session: &SessionId) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.remove(session);
    }
}

/// The part of a problem's text that does not depend on its place in a message.
pub(crate) fn kind_of(problem: &str) -> &str {
    problem.split(" (").next().unwrap_or(problem)
}

impl Subscriber for ProviderLog {
    fn event(&self, session: &SessionIdentity, _now_unix_ms: u64, event: &SessionEvent) {
        let id = &session.session_id;
        match event {
            SessionEvent::ProviderOddity { problem } if self.is_news(id, kind_of(problem)) => {
                tracing::warn!(session = %id, %problem, "the provider sent what is not of its protocol");
            }
            SessionEvent::ProviderGoAway { time_left_ms } if self.is_news(id, "go away") => {
                tracing::info!(session = %id, time_left_ms, "the provider announced the connection's end");
            }
            SessionEvent::ProviderSilentAfterResult { milliseconds }
                if self.is_news(id, "silence") =>
            {
                tracing::warn!(session = %id, milliseconds, "the model says nothing after a tool's result");
            }
            SessionEvent::LateResultDropped { call } if self.is_news(id, "late results") => {
                tracing::warn!(session = %id, %call, "the model is not told a tool's result: too many wait for a connection");
            }
            SessionEvent::ContextEstimated { estimate, context } => tracing::info!(
                session = %id,
                model = %context.model,
                session_init_tokens = context.tokens,
                system_prompt_tokens = estimate.system_prompt_tokens,
                tool_decl_tokens = estimate.tool_decl_tokens,
                history_tokens = estimate.history_tokens,
                "tokens that prompt, tools and history take, estimated"
            ),
            SessionEvent::ContextNearlyFull {
                context,
                is_estimate,
            } => {
                let (model, tokens, window) =
                    (&context.model, context.tokens, context.window_tokens);
                match is_estimate {
                    true => {
                        tracing::warn!(session = %id, %model, tokens, window, "prompt, tools and history take over 90 % of the model's window")
                    }
                    false => {
                        tracing::warn!(session = %id, %model, tokens, window, "the conversation takes over 90 % of the model's window")
                    }
                }
            }
            SessionEvent::SessionEnded { .. } => self.forget(id),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_said_once_in_a_session_and_a_session_has_so_many() {
        let log = ProviderLog::default();
        let (one, other) = (SessionId::new("one"), SessionId::new("other"));
        let broken = |line| kind_of(line).to_owned();
        let first = broken("it is no JSON (line 1, column 2)");
        assert_eq!(first, broken("it is no JSON (line 1, column 900)"));
        assert!(log.is_news(&one, &first));
        assert!(!log.is_news(&one, &first));
        assert!(log.is_news(&other, &first));
        let said = (0..100).filter(|kind| log.is_news(&one, &kind.to_string()));
        assert_eq!(said.count(), KINDS_MAX - 1);
        log.forget(&one);
        assert!(log.is_news(&one, &first));
    }

    #[test]
    fn sessions_that_never_ended_take_no_more_than_so_much() {
        let log = ProviderLog::default();
        for number in 0..SESSIONS_MAX + 10 {
            assert!(log.is_news(&SessionId::new(number.to_string()), "silence"));
        }
        assert!(log.said.lock().unwrap().len() <= SESSIONS_MAX);
    }
}
