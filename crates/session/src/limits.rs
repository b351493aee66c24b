//! Every limit that the core enforces: its name, what it means, and its defaults in voice and in text, once for each.
//! Configuration may change them and is documented from here; none is unlimited.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_contract::kind::Mode;

/// Declares limits, each with its defaults in voice and in text.
macro_rules! limits {
    ($(#[$about:meta])* pub struct $name:ident {
        $(table $table:ident: $table_type:ty;)?
        $($(#[doc = $meaning:literal])+ $limit:ident: $type:ty = $voice:expr, $text:expr;)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $(pub $table: $table_type,)?
            $($(#[doc = $meaning])+ pub $limit: $type,)+
        }

        impl $name {
            /// Names and meanings, without those of a table in it.
            pub const MEANINGS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($limit), concat!($($meaning),+))),+];

            pub fn of(mode: Mode) -> Self {
                Self {
                    $($table: <$table_type>::of(mode),)?
                    $($limit: match mode {
                        Mode::Voice => $voice,
                        Mode::Text => $text,
                    },)+
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::of(Mode::Voice)
            }
        }
    };
}

limits! {
    /// The limits of one session.
    pub struct Limits {
        table turn: TurnLimits;
        /// Characters of one result that the model reads; the client has all of it.
        projection_characters_max: usize = 4_000, 16_000;
        /// Characters of a result that anybody keeps or hears; a longer one is shortened as it comes, whole items of
        /// lists first.
        result_characters_max: usize = 262_144, 262_144;
        /// Responses that are kept for repeats; the least recently used goes first. Effects are in the store, whatever
        /// this says.
        recorded_responses_max: usize = 100, 100;
        /// Calls that are open at a time; one at least.
        open_calls_max: usize = 32, 32;
        /// Calls of one message of the model that are looked at; the rest is refused.
        calls_per_message_max: usize = 32, 32;
        /// Calls of other tools that one attempt of a handler may make.
        calls_per_attempt_max: u32 = 16, 16;
        /// Messages, events and progress that the handler of one call may send; the rest is left out, and the audit says so.
        messages_per_call_max: u32 = 10_000, 10_000;
        /// Pieces of its result that the handler of one call may show the client before its end; the rest is left out, and the audit
        /// says so.
        outputs_per_call_max: u32 = 1_000, 1_000;
        /// Bytes of such a piece as JSON; a longer one is left out.
        output_bytes_max: usize = 16_384, 16_384;
        /// Bytes of all pieces of one call.
        output_bytes_per_call_max: usize = 262_144, 262_144;
        /// Pieces of one call in a second; what comes faster is left out, and the numbers of the others show it.
        outputs_per_second_max: u32 = 100, 100;
        /// Notes that the handler of one call may write into the audit; the rest is left out, and the audit says so.
        audit_notes_per_call_max: u32 = 100, 100;
        /// Characters of transcript that are kept for the session's end.
        transcript_characters_max: usize = 32_000, 32_000;
        /// Seconds that an owed answer may take before the client is told.
        // A model that writes may think for minutes before its first word; the driver has its own patience.
        provider_silence_seconds: u64 = 30, 600;
        /// Seconds of silence after a result before they are counted.
        result_silence_seconds: u64 = 8, 8;
        /// How often a model is nudged that says nothing to a result; never after a silent one.
        result_nudges_max: u32 = 0, 0;
        /// Milliseconds that a model waits for a call that writes, or that is `non_blocking`; then it reads that the call is
        /// at work, and how it ended once it has.
        result_wait_ms: u64 = 20_000, 20_000;
        /// Connections to the provider that are tried, one after the other, before the session is given up.
        reconnect_attempts_max: u32 = 6, 6;
        /// Milliseconds before the second of them; the first follows at once, and the pause doubles from one to the
        /// next.
        reconnect_pause_ms: u64 = 250, 250;
        /// The longest of these pauses, in milliseconds.
        reconnect_pause_ms_max: u64 = 4_000, 4_000;
        /// Seconds for which a session waits for a client that was lost.
        client_grace_seconds: u64 = 60, 60;
        /// Seconds after its last save for which a session can be taken up again, once its process has ended.
        restart_grace_seconds: u64 = 3_600, 3_600;
        /// Milliseconds beyond a farewell's own length that its playback is waited for.
        farewell_grace_ms: u64 = 1_500, 1_500;
        /// Seconds that the user has to answer a confirmation.
        confirmation_seconds: u64 = 300, 300;
        /// Minutes for which an approval stands at most that the user wants remembered, where its tool lets them; by voice the
        /// session's end comes first. 0: none is remembered.
        standing_approval_minutes: u64 = 60, 15;
        /// Confirmations that may wait for the user at one time.
        open_confirmations_max: usize = 8, 8;
        /// Milliseconds that a call waits for the store before it starts.
        reserve_timeout_ms: u64 = 5_000, 5_000;
        /// Milliseconds that an answer waits for its outcome, or a denial, to be stored.
        record_timeout_ms: u64 = 500, 500;
        /// Changes of state that are remembered.
        trail_entries_max: usize = 200, 200;
        /// Values that handlers keep for one conversation.
        state_values_max: usize = 32, 32;
        /// Bytes of one of them.
        state_value_bytes_max: usize = 4_096, 4_096;
        /// Bytes of all of them.
        state_bytes_max: usize = 16_384, 16_384;
        /// Records that one answer names, and pictures that its calls brought.
        citations_max: usize = 8, 8;
    }
}

limits! {
    /// The limits of one turn.
    pub struct TurnLimits {
        /// Retrieval calls of one turn. Hard.
        retrieval_calls_max: u32 = 2, 5;
        /// Calls of one turn, refused ones included. Hard.
        calls_max: u32 = 3, 10;
        /// Refusals before the turn is wound up.
        refusals_max: u32 = 5, 5;
        /// Repeated deliveries before the turn is wound up.
        repeats_max: u32 = 10, 10;
        /// The most results that a search may ask for; more is clamped.
        top_k_max: i64 = 3, 10;
        /// Milliseconds of all calls of one turn. Soft: it warns.
        latency_ms: u64 = 1_500, 10_000;
        /// Milliseconds of one retrieval call. Soft.
        retrieval_latency_ms: u64 = 800, 2_000;
        /// Further attempts of a call that failed; only text sessions make any.
        retries_max: u32 = 0, 3;
        /// Milliseconds after a turn's beginning in which another attempt may begin.
        retry_within_ms: u64 = 60_000, 60_000;
    }
}

/// The highest value that any limit can have.
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
