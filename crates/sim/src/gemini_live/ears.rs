//! The input of a session: who is speaking, and the input that waits for an answer. Knows no session.

use super::setup::Detection;
use crate::sound::activity::Detector;

/// A finished input of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Text(String),
    Speech,
}

/// The state of the user's speech, and the input that waits for an answer.
#[derive(Debug)]
pub(crate) struct Ears {
    pub(crate) detector: Option<Detector>,
    /// Whether the client has marked speech, in manual mode.
    pub(crate) active: bool,
    pub(crate) waiting: Option<Heard>,
    /// The user's text for which no answer was requested yet.
    pub(crate) pending_text: Option<String>,
}

impl Ears {
    pub(crate) fn new(detection: Detection) -> Self {
        Self {
            detector: match detection {
                Detection::Automatic(sensitivity) => Some(Detector::new(sensitivity)),
                Detection::Manual => None,
            },
            active: false,
            waiting: None,
            pending_text: None,
        }
    }

    pub(crate) fn is_speaking(&self) -> bool {
        self.active || self.detector.as_ref().is_some_and(Detector::is_speaking)
    }

    /// Forgets text that was sent before the current answer began.
    pub(crate) fn forget_pending(&mut self) {
        self.pending_text = None;
    }

    /// The input that came while the model could not be interrupted, once its turn is over.
    pub(crate) fn take_waiting(&mut self, turn_open: bool) -> Option<Heard> {
        if turn_open { None } else { self.waiting.take() }
    }
}
