//! How much a session holds of what grows while it runs, for whoever watches that it keeps within its limits.

use super::Session;
use super::elsewhere::SOUGHT_MAX;
use super::unsettled::LATE_MAX;
use crate::limits::Limits;

/// How many there are of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub calls: usize,
    pub late_results: usize,
    /// Answers of which nobody knows yet whether the model has them.
    pub unconfirmed: usize,
    pub notices: usize,
    pub waiting_texts: usize,
    pub recorded_responses: usize,
    pub transcript_bytes: usize,
    /// Answers to questions that the store is asked about.
    pub sought: usize,
    /// Outcomes that the store did not take.
    pub unrecorded: usize,
}

impl Held {
    /// What a session may hold under these limits.
    pub fn most(limits: &Limits) -> Self {
        let open = limits.open_calls_max;
        // What the user approves runs beside the others.
        let running = open + limits.open_confirmations_max;
        Self {
            calls: running,
            late_results: open,
            // Those of the connection, and what is told on it as text of the connections before: what waited, and what ran on.
            unconfirmed: 2 * open + running,
            notices: 2 * super::notice::NOTICES_MAX,
            waiting_texts: super::client_input::WAITING_TEXTS_MAX,
            recorded_responses: limits.recorded_responses_max,
            transcript_bytes: limits.transcript_characters_max,
            sought: SOUGHT_MAX,
            unrecorded: running + LATE_MAX,
        }
    }

    /// The first that is more than it may be, with how much it is.
    pub fn beyond(&self, most: &Self) -> Option<(&'static str, usize)> {
        [
            ("calls", self.calls, most.calls),
            ("late results", self.late_results, most.late_results),
            ("unconfirmed answers", self.unconfirmed, most.unconfirmed),
            ("notices", self.notices, most.notices),
            ("waiting texts", self.waiting_texts, most.waiting_texts),
            (
                "recorded responses",
                self.recorded_responses,
                most.recorded_responses,
            ),
            (
                "bytes of transcript",
                self.transcript_bytes,
                most.transcript_bytes,
            ),
            ("sought questions", self.sought, most.sought),
            ("unrecorded outcomes", self.unrecorded, most.unrecorded),
        ]
        .into_iter()
        .find(|(_, held, most)| held > most)
        .map(|(name, held, _)| (name, held))
    }
}

impl Session {
    /// How much it holds now.
    pub fn held(&self) -> Held {
        Held {
            calls: self.calls.len(),
            late_results: self.connection.late.len(),
            unconfirmed: self.connection.unconfirmed.len(),
            notices: self.notices.len(),
            waiting_texts: self.connection.waiting_texts.len(),
            recorded_responses: self.deliveries.recorded(),
            transcript_bytes: self.transcript.recorded_bytes(),
            sought: self.sought.len(),
            unrecorded: self.unsettled.unrecorded.len(),
        }
    }
}
