//! Every limit that the core enforces, with its documented default. Configuration may change them; none is unlimited.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_tool::kind::Mode;

/// The limits of one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub turn: TurnLimits,
    /// Characters of a result that the model reads.
    pub projection_characters_max: usize,
    /// Characters of a result's data that anybody keeps or hears; it is shortened as it comes. Images have limits of their own.
    pub result_characters_max: usize,
    /// Recorded responses kept in memory, least recently used out first.
    pub recorded_responses_max: usize,
    /// Calls that may be open at one time.
    pub open_calls_max: usize,
    /// Calls of one provider message that are looked at; the rest is refused.
    pub calls_per_message_max: usize,
    /// Transcript characters kept for the session's end and for a reconnect.
    pub transcript_characters_max: usize,
    /// Seconds without a word from the provider, while an answer is owed, before the client is told.
    pub provider_silence_seconds: u64,
    /// Seconds without a word from the provider after a result before it is counted.
    pub result_silence_seconds: u64,
    /// How often a model is nudged that says nothing to a result; 0 for never, and never after a silent result.
    pub result_nudges_max: u32,
    /// Connections to the provider that are tried, one after the other, before a session is given up.
    pub reconnect_attempts_max: u32,
    /// Milliseconds before the second of them; the pause doubles from one to the next.
    pub reconnect_pause_ms: u64,
    /// Milliseconds that a pause between them has at most.
    pub reconnect_pause_ms_max: u64,
    /// Seconds for which a session waits for a client that was lost.
    pub client_grace_seconds: u64,
    /// Seconds after its last save for which a session can be taken up again, once its process has ended.
    pub restart_grace_seconds: u64,
    /// Milliseconds beyond a farewell's own length that its playback is waited for.
    pub farewell_grace_ms: u64,
    /// Seconds that the user has to answer a confirmation.
    pub confirmation_seconds: u64,
    /// Confirmations that may wait for the user at one time; further calls that need one are refused.
    /// None where nobody can be asked.
    pub open_confirmations_max: usize,
    /// Milliseconds that a call waits for the store before it starts.
    pub reserve_timeout_ms: u64,
    /// Milliseconds that an answer waits for its outcome, or a no of the user's, to be stored.
    pub record_timeout_ms: u64,
    /// Transitions kept on the session's trail.
    pub trail_entries_max: usize,
    /// Citations kept per turn.
    pub citations_max: usize,
}

/// The limits of one turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TurnLimits {
    /// Hard.
    pub retrieval_calls_max: u32,
    /// Hard; refused calls count.
    pub calls_max: u32,
    /// Refusals before the turn is wound up.
    pub refusals_max: u32,
    /// Repeats before the turn is wound up.
    pub repeats_max: u32,
    /// Clamp.
    pub top_k_max: i64,
    /// Soft; milliseconds, added up over the turn.
    pub latency_ms: u64,
    /// Soft; milliseconds of one retrieval call.
    pub retrieval_latency_ms: u64,
    /// Further attempts of a call that may be repeated; in text alone.
    pub retries_max: u32,
    /// Milliseconds after a turn's beginning in which another attempt may begin.
    pub retry_within_ms: u64,
}

impl TurnLimits {
    /// The table of `docs/policies.md`, "Budgets".
    pub fn of(mode: Mode) -> Self {
        match mode {
            Mode::Voice => Self {
                retrieval_calls_max: 2,
                calls_max: 3,
                refusals_max: 5,
                repeats_max: 10,
                top_k_max: 3,
                latency_ms: 1_500,
                retrieval_latency_ms: 800,
                retries_max: 0,
                retry_within_ms: 60_000,
            },
            Mode::Text => Self {
                retrieval_calls_max: 5,
                calls_max: 10,
                refusals_max: 5,
                repeats_max: 10,
                top_k_max: 10,
                latency_ms: 10_000,
                retrieval_latency_ms: 2_000,
                retries_max: 3,
                retry_within_ms: 60_000,
            },
        }
    }
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self::of(Mode::Voice)
    }
}

/// What none of the limits is above.
pub const LIMIT_MAX: u64 = 1_000_000_000;

/// A limit that no session can keep to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkeepable {
    /// Its name, with those of the tables that it stands in: `turn.calls_max`.
    pub name: String,
    /// From 0 or 1.
    pub least: u64,
}

impl Limits {
    /// The least that a limit can be, by its own name. A session that could have no call open could answer none.
    pub fn least(name: &str) -> u64 {
        u64::from(name == "open_calls_max")
    }

    /// Whether a session can keep to them all; else the first that it cannot keep to.
    pub fn check(&self) -> Result<(), Unkeepable> {
        match serde_json::to_value(self) {
            Ok(limits) => check("", &limits),
            // Numbers alone have a form.
            Err(_) => Ok(()),
        }
    }

    pub fn of(mode: Mode) -> Self {
        Self {
            turn: TurnLimits::of(mode),
            projection_characters_max: match mode {
                Mode::Voice => 4_000,
                Mode::Text => 16_000,
            },
            result_characters_max: 262_144,
            recorded_responses_max: 100,
            open_calls_max: 32,
            calls_per_message_max: 32,
            transcript_characters_max: 32_000,
            // A model that writes may think for minutes before its first word; the driver has its own patience.
            provider_silence_seconds: match mode {
                Mode::Voice => 30,
                Mode::Text => 600,
            },
            result_silence_seconds: 8,
            result_nudges_max: 0,
            reconnect_attempts_max: 6,
            reconnect_pause_ms: 250,
            reconnect_pause_ms_max: 4_000,
            client_grace_seconds: 60,
            restart_grace_seconds: 3_600,
            farewell_grace_ms: 1_500,
            confirmation_seconds: 300,
            open_confirmations_max: 8,
            reserve_timeout_ms: 5_000,
            record_timeout_ms: 500,
            trail_entries_max: 200,
            citations_max: 8,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::of(Mode::Voice)
    }
}

fn check(path: &str, limits: &Value) -> Result<(), Unkeepable> {
    for (name, limit) in limits.as_object().into_iter().flatten() {
        let least = Limits::least(name);
        let is_kept = match limit {
            Value::Object(_) => {
                check(&format!("{path}{name}."), limit)?;
                true
            }
            limit => limit
                .as_u64()
                .is_some_and(|limit| (least..=LIMIT_MAX).contains(&limit)),
        };
        if !is_kept {
            let name = format!("{path}{name}");
            return Err(Unkeepable { name, least });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_no_session_can_keep_to_are_named() {
        assert_eq!(Limits::of(Mode::Voice).check(), Ok(()));
        assert_eq!(Limits::of(Mode::Text).check(), Ok(()));
        for (limits, name, least) in [
            (
                Limits {
                    open_calls_max: 0,
                    ..Limits::default()
                },
                "open_calls_max",
                1,
            ),
            (
                Limits {
                    result_silence_seconds: u64::MAX,
                    ..Limits::default()
                },
                "result_silence_seconds",
                0,
            ),
            (
                Limits {
                    turn: TurnLimits {
                        top_k_max: -1,
                        ..TurnLimits::default()
                    },
                    ..Limits::default()
                },
                "turn.top_k_max",
                0,
            ),
        ] {
            let name = name.to_owned();
            assert_eq!(limits.check(), Err(Unkeepable { name, least }));
        }
    }
}
