//! Errors while an answer comes in, and the limits of its size. Knows no protocol.

use super::AnswerLimits;
use crate::failure::Failure;
use crate::sse;
use windlass_session::model::ModelEvent;

/// One answer's troubles so far.
#[derive(Debug)]
pub(crate) struct Trouble {
    limits: AnswerLimits,
    stream_bytes: usize,
    failure: Option<Failure>,
    is_damaged: bool,
}

impl Trouble {
    pub(crate) fn new(limits: AnswerLimits) -> Self {
        Self {
            limits,
            stream_bytes: 0,
            failure: None,
            is_damaged: false,
        }
    }

    pub(crate) fn limits(&self) -> &AnswerLimits {
        &self.limits
    }

    /// The failure that ended the answer, if it has failed.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether something that is no message of the protocol came, and was passed over.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Counts bytes that came. Returns false if the answer has failed, with these bytes or before.
    pub(crate) fn count(&mut self, bytes: usize) -> bool {
        self.stream_bytes = self.stream_bytes.saturating_add(bytes);
        if self.stream_bytes > self.limits.stream_bytes_max {
            self.fail("the answer's stream does not end");
        }
        !self.has_failed()
    }

    /// Checks the number of bytes in an answer's words.
    pub(crate) fn check_text(&mut self, bytes: usize) -> bool {
        if bytes > self.limits.text_bytes_max {
            self.fail("the answer is longer than any model's");
        }
        !self.has_failed()
    }

    /// Ends the answer because of a lasting problem. The first failure counts.
    pub(crate) fn fail(&mut self, problem: &str) {
        self.failure
            .get_or_insert_with(|| Failure::protocol(problem, false));
    }

    /// Ends the answer with the provider's own error.
    pub(crate) fn fail_with(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    pub(crate) fn note(&mut self, split: Result<(), sse::TooLong>) {
        if let Err(error) = split {
            self.fail(&error.to_string());
        }
    }

    /// Passes something over. The log is told once.
    pub(crate) fn damage(&mut self, what: &str, events: &mut Vec<ModelEvent>) {
        if !std::mem::replace(&mut self.is_damaged, true) {
            events.push(ModelEvent::Malformed {
                problem: format!("the provider's answer holds {what}"),
            });
        }
    }
}
