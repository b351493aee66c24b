//! What a session hears: who is speaking, and the input that waits for an answer. Knows no session.

use super::setup::Detection;
use crate::sound::activity::Detector;

/// A finished input of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Text(String),
    Speech,
}

/// Who is speaking, and what waits to be answered.
#[derive(Debug)]
pub(crate) struct Ears {
    pub(crate) detector: Option<Detector>,
    /// The client says so, in manual mode.
    pub(crate) active: bool,
    pub(crate) waiting: Option<Heard>,
    /// The user's text that no answer was asked for yet.
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

    /// An answer is under way; what was sent before has had its chance.
    pub(crate) fn forget_pending(&mut self) {
        self.pending_text = None;
    }

    /// Input that came while the model was not to be interrupted, once its turn is over.
    pub(crate) fn take_waiting(&mut self, turn_open: bool) -> Option<Heard> {
        if turn_open { None } else { self.waiting.take() }
    }
}
