//! The state controller: the only writer of a session's application state. Tools ask by intents; its changes and refusals go on the
//! trail.

use crate::event::StateChange;
use crate::log_text::{KeptState, Said};
use crate::time::Timestamp;
use crate::values::Values;
use crate::values_apart::MALFORMED;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use windlass_contract::handler::StateValues;
use windlass_contract::id::CallNumber;
use windlass_contract::intent::{EndAfter, Intent, SET_STATE};
use windlass_contract::kind::Mode;
use windlass_store::LegNumber;

/// All that a session knows between two inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApplicationState {
    pub(crate) is_active: bool,
    pub(crate) mode: Mode,
    pub(crate) pending_end: Option<PendingEnd>,
    pub(crate) suppress_audio: bool,
    /// A suppression that was requested together with a farewell begins after it.
    pub(crate) suppress_audio_after_farewell: bool,
    pub(crate) suppress_transcript: bool,
    pub(crate) pending_message: Option<String>,
    pub(crate) is_model_generating: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PendingEnd {
    pub(crate) after: EndAfter,
    pub(crate) reason: String,
    pub(crate) closing_message: Option<String>,
    pub(crate) text_response: Option<String>,
}

/// One step on the session's trail.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrailEntry {
    pub(crate) at: Timestamp,
    pub(crate) call: Option<CallNumber>,
    pub(crate) change: Result<StateChange, String>,
}

pub(crate) struct StateController {
    state: ApplicationState,
    values: Values,
    trail: VecDeque<TrailEntry>,
    trail_entries_max: usize,
}

impl StateController {
    pub(crate) fn new(mode: Mode, trail_entries_max: usize, values: Values) -> Self {
        Self {
            state: ApplicationState {
                is_active: true,
                mode,
                pending_end: None,
                suppress_audio: false,
                suppress_audio_after_farewell: false,
                suppress_transcript: false,
                pending_message: None,
                is_model_generating: false,
            },
            values,
            trail: VecDeque::new(),
            trail_entries_max,
        }
    }

    /// The values that handlers keep for the conversation.
    pub(crate) fn values(&self) -> &StateValues {
        self.values.get()
    }

    /// Takes up the kept values when a session begins.
    pub(crate) fn restore_values(&mut self, kept: KeptState, entries: u64) {
        self.values.restore(kept, entries);
    }

    /// The log has been read up to an entry about values. `own` is its number if the session wrote it.
    pub(crate) fn learn_values(&mut self, news: &KeptState, own: Option<LegNumber>) {
        self.values.learn(news, own);
    }

    /// Whether a value was set that no entry has yet.
    pub(crate) fn are_values_changed(&self) -> bool {
        self.values.are_changed()
    }

    /// The entry about the values, as the session's own entry of this number.
    pub(crate) fn said_values(&mut self, entry: LegNumber) -> Said {
        self.values.said(entry)
    }

    /// Whether the values are to be written again, after so many entries of the session's own.
    pub(crate) fn are_values_old(&self, entries: u64) -> bool {
        self.values.are_old(entries)
    }

    pub(crate) fn get(&self) -> &ApplicationState {
        &self.state
    }

    pub(crate) fn trail(&self) -> impl Iterator<Item = &TrailEntry> {
        self.trail.iter()
    }

    /// Carries out the intents of one result, each on its own: `Err` says why one was rejected.
    pub(crate) fn apply(
        &mut self,
        at: Timestamp,
        call: CallNumber,
        intents: &[&Intent],
    ) -> Vec<Result<StateChange, String>> {
        let with_farewell = intents.iter().any(
            |intent| matches!(intent, Intent::EndVoiceSession { after, .. } if *after == EndAfter::FarewellSpoken),
        );
        intents
            .iter()
            .map(|intent| {
                let outcome = self.apply_one(intent, with_farewell);
                self.record(at, Some(call), outcome.clone());
                outcome
            })
            .collect()
    }

    fn apply_one(&mut self, intent: &Intent, with_farewell: bool) -> Result<StateChange, String> {
        // The values of a conversation outlive its sessions.
        if !self.state.is_active && !intent.is_of_conversation() {
            return Err(format!("{} on a session that is over", intent.shown_name()));
        }
        match intent {
            Intent::EndVoiceSession {
                after,
                reason,
                closing_message,
                text_response,
            } => {
                if self.state.mode != Mode::Voice {
                    return Err("END_VOICE_SESSION in a text session".to_owned());
                }
                let from = self.end_label();
                let asked = PendingEnd {
                    after: *after,
                    reason: reason
                        .clone()
                        .unwrap_or_else(|| "user_requested".to_owned()),
                    closing_message: closing_message.clone(),
                    text_response: text_response.clone(),
                };
                // A session ends once, for the reason that came first: its farewell may be on the way to the user already. A
                // second request can but have it end sooner.
                let pending = self.state.pending_end.get_or_insert(asked);
                pending.after = pending.after.min(*after);
                Ok(StateChange {
                    field: "pendingEndVoiceSession",
                    from,
                    to: self.end_label(),
                })
            }
            Intent::SuppressAudio { value } => {
                let from = self.audio_label();
                if with_farewell && *value {
                    self.state.suppress_audio_after_farewell = true;
                } else {
                    self.state.suppress_audio = *value;
                    self.state.suppress_audio_after_farewell = false;
                }
                Ok(StateChange {
                    field: "shouldSuppressAudio",
                    from,
                    to: self.audio_label(),
                })
            }
            Intent::SuppressTranscript { value } => {
                let from = self.state.suppress_transcript.to_string();
                self.state.suppress_transcript = *value;
                Ok(StateChange {
                    field: "shouldSuppressTranscript",
                    from,
                    to: value.to_string(),
                })
            }
            Intent::SetPendingMessage { message } => {
                let from = self.state.pending_message.is_some().to_string();
                self.state.pending_message = Some(message.clone());
                Ok(StateChange {
                    field: "pendingMessage",
                    from,
                    to: "true".to_owned(),
                })
            }
            Intent::SetState { key, value } => self.values.set(key, value.expose()),
            Intent::Unknown(_) if intent.name() == SET_STATE => {
                Err(format!("{SET_STATE} {MALFORMED}"))
            }
            Intent::Unknown(_) => Err(format!("there is no intent {:?}", intent.shown_name())),
        }
    }

    /// The turn is over: suppression ends with it, unless a farewell has just been spoken.
    pub(crate) fn turn_ended(&mut self, at: Timestamp) {
        if std::mem::take(&mut self.state.suppress_audio_after_farewell) {
            self.state.suppress_audio = true;
        } else if std::mem::take(&mut self.state.suppress_audio) {
            self.changed(at, "shouldSuppressAudio", "true", "false");
        }
        if std::mem::take(&mut self.state.suppress_transcript) {
            self.changed(at, "shouldSuppressTranscript", "true", "false");
        }
    }

    /// Notes whether the model is producing. Returns true if that has changed.
    pub(crate) fn set_generating(&mut self, generating: bool) -> bool {
        std::mem::replace(&mut self.state.is_model_generating, generating) != generating
    }

    pub(crate) fn take_pending_message(&mut self) -> Option<String> {
        self.state.pending_message.take()
    }

    /// Takes up the end and the message that the session before this one was asked for and had not done.
    pub(crate) fn restore(&mut self, end: Option<PendingEnd>, message: Option<String>) {
        self.state.pending_end = end;
        self.state.pending_message = message;
    }

    pub(crate) fn deactivate(&mut self, at: Timestamp) {
        if std::mem::replace(&mut self.state.is_active, false) {
            self.changed(at, "isActive", "true", "false");
        }
    }

    /// Notes an intent that came too late, and is not carried out.
    pub(crate) fn reject(&mut self, at: Timestamp, call: CallNumber, problem: &str) {
        self.record(at, Some(call), Err(problem.to_owned()));
    }

    fn changed(&mut self, at: Timestamp, field: &'static str, from: &str, to: &str) {
        let change = StateChange {
            field,
            from: from.to_owned(),
            to: to.to_owned(),
        };
        self.record(at, None, Ok(change));
    }

    fn record(
        &mut self,
        at: Timestamp,
        call: Option<CallNumber>,
        change: Result<StateChange, String>,
    ) {
        if self.trail.len() >= self.trail_entries_max {
            self.trail.pop_front();
        }
        self.trail.push_back(TrailEntry { at, call, change });
    }

    fn end_label(&self) -> String {
        match self.state.pending_end.as_ref().map(|end| end.after) {
            None => "none".to_owned(),
            Some(EndAfter::CurrentTurn) => "current_turn".to_owned(),
            Some(EndAfter::FarewellSpoken) => "farewell_spoken".to_owned(),
            Some(EndAfter::Immediate) => "immediate".to_owned(),
        }
    }

    fn audio_label(&self) -> String {
        match (
            self.state.suppress_audio,
            self.state.suppress_audio_after_farewell,
        ) {
            (true, _) => "true".to_owned(),
            (false, true) => "after the farewell".to_owned(),
            (false, false) => "false".to_owned(),
        }
    }
}

#[cfg(test)]
impl StateController {
    /// A state for which no tool declares a value.
    pub(crate) fn for_tests(mode: Mode, trail_entries_max: usize) -> Self {
        use crate::limits::Limits;
        use std::sync::Arc;
        use windlass_contract::registry::Registry;

        let registry = Arc::new(Registry::new("1.0.00000000", None, Vec::new()));
        let values = Values::new(registry, Arc::new(Limits::of(mode)));
        Self::new(mode, trail_entries_max, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(after: EndAfter) -> Intent {
        Intent::EndVoiceSession {
            after,
            reason: None,
            closing_message: None,
            text_response: None,
        }
    }

    #[test]
    fn suppression_asked_for_with_a_farewell_begins_behind_it() {
        let mut controller = StateController::for_tests(Mode::Voice, 10);
        let intents = [
            end(EndAfter::FarewellSpoken),
            Intent::SuppressAudio { value: true },
        ];
        controller.apply(Timestamp(1), CallNumber(1), &[&intents[0], &intents[1]]);
        assert!(!controller.get().suppress_audio);
        controller.turn_ended(Timestamp(2));
        assert!(controller.get().suppress_audio);
    }

    #[test]
    fn an_end_that_is_asked_for_again_is_the_first_one_or_comes_sooner() {
        let because = |reason: &str, after| Intent::EndVoiceSession {
            after,
            reason: Some(reason.to_owned()),
            closing_message: Some(format!("Goodbye: {reason}.")),
            text_response: None,
        };
        let mut controller = StateController::for_tests(Mode::Voice, 10);
        let mut pending = |number, reason, after| {
            let applied = controller.apply(
                Timestamp(number),
                CallNumber(number),
                &[&because(reason, after)],
            );
            assert!(applied[0].is_ok());
            controller.get().pending_end.clone().unwrap()
        };
        let first = pending(1, "done", EndAfter::FarewellSpoken);
        assert_eq!(pending(2, "blocked", EndAfter::FarewellSpoken), first);
        let brought_forward = PendingEnd {
            after: EndAfter::Immediate,
            ..first
        };
        assert_eq!(pending(3, "broken", EndAfter::Immediate), brought_forward);
        assert_eq!(pending(4, "done", EndAfter::CurrentTurn), brought_forward);
    }

    #[test]
    fn suppression_ends_with_the_turn() {
        let mut controller = StateController::for_tests(Mode::Voice, 10);
        controller.apply(
            Timestamp(1),
            CallNumber(1),
            &[&Intent::SuppressAudio { value: true }],
        );
        assert!(controller.get().suppress_audio);
        controller.turn_ended(Timestamp(2));
        assert!(!controller.get().suppress_audio);
    }

    #[test]
    fn illegal_transitions_and_unknown_intents_are_rejected_and_recorded() {
        let mut text = StateController::for_tests(Mode::Text, 10);
        assert!(text.apply(Timestamp(1), CallNumber(1), &[&end(EndAfter::Immediate)])[0].is_err());
        let mut voice = StateController::for_tests(Mode::Voice, 10);
        let odd = Intent::Unknown(serde_json::json!({"type": "FORMAT_DISK"}));
        assert_eq!(
            voice.apply(Timestamp(1), CallNumber(1), &[&odd])[0],
            Err("there is no intent \"FORMAT_DISK\"".to_owned())
        );
        voice.deactivate(Timestamp(2));
        assert!(
            voice.apply(Timestamp(3), CallNumber(2), &[&end(EndAfter::CurrentTurn)])[0].is_err()
        );
        assert_eq!(
            voice.trail().filter(|entry| entry.change.is_err()).count(),
            2
        );
        assert_eq!(voice.trail().count(), 3);
    }

    #[test]
    fn the_trail_forgets_its_oldest_entries() {
        let mut controller = StateController::for_tests(Mode::Voice, 3);
        for number in 1..=5 {
            controller.apply(
                Timestamp(number),
                CallNumber(number),
                &[&Intent::SuppressTranscript { value: true }],
            );
        }
        let calls: Vec<_> = controller.trail().filter_map(|entry| entry.call).collect();
        assert_eq!(calls, [CallNumber(3), CallNumber(4), CallNumber(5)]);
    }
}
