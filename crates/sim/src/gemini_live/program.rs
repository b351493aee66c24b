//! The model's next steps, and the events that it waits for. Knows no frames.

use super::calls::Scheduling;
use super::speech::Speech;
use crate::script::Action;
use serde_json::Value;
use std::collections::VecDeque;
use windlass_session::time::Timestamp;

/// One exchange in progress.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The number of the program, unique on its connection.
    pub(crate) number: u64,
    pub(crate) steps: VecDeque<Step>,
    pub(crate) wait: Wait,
    /// The input that the program answers.
    pub(crate) heard: String,
    /// Results of its calls, in the order of their arrival.
    pub(crate) results: Vec<(String, Value)>,
    /// The most urgent scheduling among the results of its non-blocking calls.
    pub(crate) scheduling: Option<Scheduling>,
    /// Whether it made a call that does not block, so that it outlives an interruption.
    pub(crate) in_background: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Do(Action),
    /// Says these words as they are; a script's `say` has places to fill in.
    Say(String),
    /// Asks the demo model how to continue, now that the results have come.
    Consult,
}

#[derive(Clone, Debug)]
pub(crate) enum Wait {
    Nothing,
    Until(Timestamp),
    Speech(Speech),
    Responses,
    /// The turn ends when its audio would have been played.
    TurnEnd,
}

impl Program {
    pub(crate) fn new(number: u64, heard: String, steps: Vec<Step>) -> Self {
        Self {
            number,
            steps: steps.into(),
            wait: Wait::Nothing,
            heard,
            results: Vec::new(),
            scheduling: None,
            in_background: false,
        }
    }

    /// The step at which the program continues after its results.
    fn continuation(&self) -> Option<usize> {
        self.steps
            .iter()
            .position(|step| matches!(step, Step::Do(Action::ExpectResponse)))
    }

    /// Skips to the continuation; `false` if there is no continuation.
    pub(crate) fn skip_to_continuation(&mut self) -> bool {
        let waiting = matches!(self.wait, Wait::Responses);
        self.wait = Wait::Nothing;
        if waiting {
            return true;
        }
        match self.continuation() {
            Some(index) => {
                self.steps.drain(..index);
                true
            }
            None => false,
        }
    }

    /// Drops the steps that would have followed the results.
    pub(crate) fn drop_continuation(&mut self) {
        if let Some(index) = self.continuation() {
            self.steps.truncate(index);
        }
    }
}
