//! What a model has heard: the ledger says so of a change only once the model has produced something that can follow what it
//! was told (`docs/policies.md`, "When a connection ends").

use crate::rules::Rule;
use crate::tools;
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use windlass_session::io::Input;
use windlass_session::model::ModelEvent;
use windlass_tool::id::EffectId;

/// What may have been heard of results, each by its number.
#[derive(Default)]
pub(crate) struct Heard {
    /// The model is certainly in the middle of a message.
    is_speaking: bool,
    /// The same, or it may be.
    may_speak: bool,
    /// What was sent, and whether the message under way was begun before it.
    sent: Vec<(u64, bool)>,
    results: BTreeSet<u64>,
    /// The results of each effect, but of those that had one without a number: it cannot be told apart.
    effects: BTreeMap<EffectId, Option<BTreeSet<u64>>>,
}

impl Heard {
    /// One of this effect's results.
    pub(crate) fn note_effect(&mut self, effect_id: &EffectId, result: Option<u64>) {
        let none = || Some(BTreeSet::new());
        let results = self.effects.entry(effect_id.clone()).or_insert_with(none);
        match (results.as_mut(), result) {
            (Some(known), Some(result)) => _ = known.insert(result),
            (_, None) => *results = None,
            (None, Some(_)) => {}
        }
    }

    /// The model is told a result. One that it waits for it hears before it goes on.
    pub(crate) fn sent(&mut self, result: u64, is_waited_for: bool) {
        self.sent.push((result, self.is_speaking && !is_waited_for));
    }

    /// The connection is gone: what was not heard on it is told again.
    pub(crate) fn lost(&mut self) {
        self.sent.clear();
        self.is_speaking = false;
        self.may_speak = false;
    }

    /// Whether a message certainly begins with this, so that everything was heard that was sent before.
    pub(crate) fn note(&mut self, event: &ModelEvent, is_void: bool) -> bool {
        let is_transcript = match event {
            ModelEvent::Calls(_) | ModelEvent::AudioStarted => false,
            ModelEvent::OutputTranscript { .. } => true,
            ModelEvent::GenerationComplete
            | ModelEvent::TurnComplete { .. }
            | ModelEvent::Interrupted => {
                self.is_speaking = false;
                self.may_speak = false;
                for (_, is_behind) in &mut self.sent {
                    *is_behind = false;
                }
                return false;
            }
            _ => return false,
        };
        let begins = !self.may_speak && !is_transcript && !is_void;
        self.may_speak = true;
        if !is_void {
            self.is_speaking |= !is_transcript;
            let heard = self.sent.extract_if(.., |(_, is_behind)| !*is_behind);
            self.results.extend(heard.map(|(result, _)| result));
        }
        begins
    }
}

impl World {
    /// Notes that a connection is gone.
    pub(crate) fn note_lost(&mut self, index: usize, input: &Input) {
        if let Input::Connection(_) = input {
            self.lanes[index].watch.heard.lost();
        }
    }

    /// Notes which results are in a text for the model.
    pub(crate) fn note_notice(&mut self, index: usize, text: &str) {
        let quoted = format!("\"{}\":", tools::TAG);
        for mark in [quoted.as_str(), "#"] {
            for behind in text.split(mark).skip(1) {
                let end = behind.find(|letter: char| !letter.is_ascii_digit());
                if let Ok(result) = behind[..end.unwrap_or(behind.len())].parse() {
                    self.lanes[index].watch.heard.sent(result, false);
                }
            }
        }
    }

    pub(crate) fn what_is_marked_was_heard(&mut self, index: usize, effect_id: &EffectId) {
        let heard = &self.lanes[index].watch.heard;
        let results = heard.effects.get(effect_id).and_then(Option::as_ref);
        if results.is_some_and(|results| results.is_disjoint(&heard.results)) {
            let what = format!(
                "{effect_id} with results {results:?} is marked, and the model has heard of {:?} alone; sent: {:?}",
                heard.results, heard.sent
            );
            self.broken(Rule::WhatIsMarkedWasHeard, what);
        }
    }
}
