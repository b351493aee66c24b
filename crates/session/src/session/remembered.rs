//! What the conversation's earlier sessions did and read, as far as it matters to this one: the ledger's entries become effects
//! that are remembered. Knows no store.

use super::Session;
use super::unsettled::Awaited;
use crate::calls::Call;
use crate::deadlines::Deadline;
use crate::io::{LedgerEntry, OutcomeState, Output, Remembered, ReservationError, Wish};
use crate::policy::{Effect, EffectState, STEERING_TOOLS, Settled};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::{self, Outcome, ToolResponse};
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::id::{CallNumber, EffectId, ToolId};
use windlass_tool::kind::Reach;

/// How often a store is asked again that could not say what the conversation has changed.
pub(super) const LEDGER_AGAIN: Duration = Duration::from_secs(1);

impl Session {
    /// What earlier sessions of the conversation left in the ledger. What this one's user says comes after all of it, however
    /// late the ledger is read.
    pub(super) fn on_ledger(
        &mut self,
        ledger: Result<Remembered, ReservationError>,
        out: &mut Vec<Output>,
    ) {
        let readings = &mut self.unsettled.readings;
        *readings = readings.saturating_sub(1);
        let Ok(remembered) = ledger else {
            let again = self.now + LEDGER_AGAIN;
            self.deadlines.set(Deadline::LedgerAgain, again);
            while let Some(call) = self.take_remembering() {
                self.refuse_without_store(call, out);
            }
            return;
        };
        self.external_in_context |= remembered.has_read;
        let mut entries = remembered.effects;
        put_in_order(&mut entries);
        if self.unsettled.is_ledger_read && self.unsettled.is_ledger_old {
            return self.merge_ledger(entries, out);
        }
        for entry in &mut entries {
            entry.wish.input = 0;
        }
        // One that has taken another's place has had the entries with it.
        if !self.unsettled.is_ledger_read {
            let untold = entries.iter().filter(|entry| is_untold(entry));
            self.unsettled.untold = untold.cloned().collect();
        }
        self.remember_ledger(entries, out);
    }

    /// What became of changes of which no model has heard is told to this one, unless it asks for them before.
    pub(super) fn tell_untold(&mut self, out: &mut Vec<Output>) {
        if !self.connection.ready {
            return;
        }
        for entry in std::mem::take(&mut self.unsettled.untold) {
            if !entry.is_under_way {
                self.tell_late(&entry, out);
                continue;
            }
            let call = self.calls.next_number();
            let effect_id = entry.effect_id;
            self.unsettled.awaited.push(Awaited {
                call,
                effect_id: effect_id.clone(),
                is_unanswered: false,
            });
            out.push(Output::AwaitEffect { call, effect_id });
        }
    }

    /// Nobody is at a change any more that was under way when this session began; whether it was one.
    pub(super) fn hear_news(
        &mut self,
        call: CallNumber,
        entry: Option<&LedgerEntry>,
        out: &mut Vec<Output>,
    ) -> bool {
        let awaited = &mut self.unsettled.awaited;
        let Some(index) = awaited.iter().position(|awaited| awaited.call == call) else {
            return false;
        };
        if entry.is_none() {
            awaited[index].is_unanswered = true;
            let again = self.now + LEDGER_AGAIN;
            self.deadlines.set(Deadline::LedgerAgain, again);
            return true;
        }
        awaited.remove(index);
        if let Some(entry) = entry.filter(|entry| !entry.is_answered) {
            let state = self.state_in_ledger(entry);
            let is_known = self.has_told(&entry.effect_id, &state);
            let effect = self.deliveries.effect(&entry.fingerprint);
            let effect = effect.filter(|effect| {
                // What the session has found out itself since, it knows better.
                let is_unknown = matches!(&effect.state, EffectState::Settled { settled, .. }
                    if settled.response.error_type() == Some(ErrorType::OutcomeUnknown));
                !is_known && is_unknown && effect.effect_id.as_ref() == Some(&entry.effect_id)
            });
            if let Some(effect) = effect {
                effect.state = state;
                self.tell_late(entry, out);
            }
        }
        true
    }

    /// The store is asked again for what it could not say.
    pub(super) fn ask_ledger_again(&mut self, out: &mut Vec<Output>) {
        for awaited in &mut self.unsettled.awaited {
            if std::mem::take(&mut awaited.is_unanswered) {
                let (call, effect_id) = (awaited.call, awaited.effect_id.clone());
                out.push(Output::AwaitEffect { call, effect_id });
            }
        }
        if !self.is_ledger_read() {
            self.read_ledger(out);
        }
    }

    /// Whether this session has answered a call of its own with this outcome of the effect meanwhile.
    fn has_told(&self, effect_id: &EffectId, state: &EffectState) -> bool {
        let unconfirmed = self.connection.unconfirmed.iter();
        let mut told = unconfirmed.map(|answer| &answer.late.settled);
        let is_unconfirmed = told.any(|told| told.says_the_same(effect_id, state));
        let is_just_told = self.unsettled.just_told.contains(effect_id);
        is_unconfirmed || self.deliveries.has_answered(effect_id, state, is_just_told)
    }

    /// Whether a repeat says what the model has been told since it asked.
    pub(super) fn was_told(&self, repeat: &Settled) -> bool {
        let effect_id = repeat
            .effect_id
            .as_ref()
            .filter(|_| repeat.repeats.is_some());
        effect_id.is_some_and(|effect_id| {
            let state = EffectState::Settled {
                settled: repeat.clone(),
                answer_reached_model: false,
            };
            self.has_told(effect_id, &state)
        })
    }

    /// The model is told what became of an effect. Until it has had a turn with that, nothing that it asks for is a second wish:
    /// what it is told may be read together with the user's next words only, and with other calls that are on their way.
    pub(crate) fn tell_in_this_turn(&mut self, effect_id: EffectId) {
        let just_told = &mut self.unsettled.just_told;
        if !just_told.contains(&effect_id) {
            just_told.push(effect_id);
        }
    }

    /// A question is put to a model again that may know nothing of what came of it so far.
    pub(super) fn put_again(&mut self, effects: Vec<EffectId>) {
        let put_again = &mut self.unsettled.put_again;
        for effect_id in effects {
            self.deliveries.note_reach(&effect_id, false);
            if !put_again.contains(&effect_id) {
                put_again.push(effect_id);
            }
        }
    }

    /// The model has had a turn since it was told: what it asks for from here on, it asks for in the knowledge of that.
    pub(super) fn has_had_a_turn(&mut self) {
        let told = std::mem::take(&mut self.unsettled.just_told);
        let put_again = std::mem::take(&mut self.unsettled.put_again);
        for effect_id in told.into_iter().chain(put_again) {
            self.deliveries.note_reach(&effect_id, true);
        }
    }

    /// What is in the ledger of this conversation is known from here on. Of a session whose place this one has taken, its
    /// entries say when they were asked for; what was lost of that session was not said in this one.
    pub(super) fn remember_ledger(&mut self, mut entries: Vec<LedgerEntry>, out: &mut Vec<Output>) {
        self.unsettled.is_ledger_read = true;
        // What this session did itself it knows better. Of several entries of one wish the newest, which is the last, counts.
        entries.retain(|entry| self.deliveries.effect(&entry.fingerprint).is_none());
        // What the user had said until then goes on only.
        entries.sort_by_key(|entry| entry.wish.input);
        for entry in entries {
            self.remember_entry(entry);
        }
        // Before it is asked for: what is asked for is not told besides.
        self.tell_untold(out);
        self.recall_remembering(out);
    }

    pub(super) fn remember_entry(&mut self, entry: LedgerEntry) {
        let effect = Effect {
            state: self.state_in_ledger(&entry),
            effect_id: Some(entry.effect_id),
            wish: Wish {
                input: entry.wish.input.min(self.turns.inputs()),
                ..entry.wish
            },
        };
        self.deliveries.remember_effect(entry.fingerprint, effect);
    }

    /// The changes that waited to learn what was done before go on.
    pub(super) fn recall_remembering(&mut self, out: &mut Vec<Output>) {
        while let Some(call) = self.take_remembering() {
            self.recall(call, out);
        }
    }

    /// What an entry of the ledger says of its effect.
    pub(super) fn state_in_ledger(&self, entry: &LedgerEntry) -> EffectState {
        let response = match (entry.state, entry.response.clone()) {
            (OutcomeState::Failed, _) => return EffectState::Failed,
            (OutcomeState::Succeeded | OutcomeState::Unknown, Some(response)) => response,
            (OutcomeState::Succeeded, None) => self.kept_without_details(&entry.tool),
            (OutcomeState::Unknown, None) => self.lost_answer(&entry.tool),
        };
        self.remembered(&entry.tool, &entry.effect_id, response, entry.is_answered)
    }

    /// The first change that waits to learn what was done before.
    fn take_remembering(&mut self) -> Option<Box<Call>> {
        let call = self.calls.take_remembering()?;
        self.deadlines.clear(Deadline::Store(call.number()));
        Some(call)
    }

    fn remembered(
        &self,
        tool: &ToolId,
        effect_id: &EffectId,
        response: Arc<ToolResponse>,
        answer_reached_model: bool,
    ) -> EffectState {
        let tool = self.config.registry.get(tool.as_str());
        let reach = tool.map_or(Reach::External, |tool| tool.reach);
        EffectState::Settled {
            settled: Settled::outcome(response, 0, reach, Some(effect_id.clone())),
            answer_reached_model,
        }
    }

    /// A change that was made and whose answer was too long to keep.
    pub(super) fn kept_without_details(&self, tool: &ToolId) -> Arc<ToolResponse> {
        let version = self.config.registry.version().clone();
        let note = format!("{tool} did this already; what it answered is not available any more");
        Arc::new(ToolResponse {
            outcome: Outcome::Success {
                data: Some(serde_json::json!({ "note": note }).into()),
                content: Vec::new(),
            },
            intents: Vec::new(),
            meta: envelope::meta_without_tool(tool.as_str(), version, self.unix_ms()),
        })
    }

    /// A change that was begun and of which nothing more was heard.
    pub(super) fn lost_answer(&self, tool: &ToolId) -> Arc<ToolResponse> {
        let version = self.config.registry.version().clone();
        let error = CallError::new(
            ErrorType::OutcomeUnknown,
            format!("{tool} was started, and how it ended is not known"),
        );
        Arc::new(ToolResponse {
            outcome: Outcome::Failure(error.into()),
            intents: Vec::new(),
            meta: envelope::meta_without_tool(tool.as_str(), version, self.unix_ms()),
        })
    }
}

/// Whether a model is to hear of it: of one that was told it is not, and what steered an earlier session concerns no later one.
pub(super) fn is_untold(entry: &LedgerEntry) -> bool {
    let is_steering = STEERING_TOOLS.contains(&entry.tool.as_str());
    !entry.is_answered && !is_steering
}

/// Puts the newest entry of each wish last. They come by the clock, which may have been set back: among those of one session,
/// what the user had said until then tells better, and of one wish that which did not happen came before that which may have.
pub(super) fn put_in_order(entries: &mut [LedgerEntry]) {
    let mut newest = HashMap::new();
    for entry in &*entries {
        let of_session = newest.entry((entry.fingerprint, entry.wish.line));
        let at = of_session.or_insert(entry.reserved_at_unix_ms);
        *at = entry.reserved_at_unix_ms.max(*at);
    }
    entries.sort_by_cached_key(|entry| {
        let Wish { line, input, .. } = entry.wish;
        let newest = newest.get(&(entry.fingerprint, line)).copied();
        let may_have_happened = entry.state != OutcomeState::Failed;
        let at = entry.reserved_at_unix_ms;
        (newest, line, input, may_have_happened, at)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(entries: &[(&str, u8, u64, Option<u64>, u64)]) -> Vec<String> {
        let mut entries: Vec<_> = entries
            .iter()
            .map(|(effect, wish, input, line, at)| LedgerEntry {
                fingerprint: [*wish; 32],
                effect_id: EffectId::new(*effect),
                tool: ToolId::parse("write").unwrap(),
                state: match *effect {
                    "undone" => OutcomeState::Failed,
                    _ => OutcomeState::Succeeded,
                },
                response: None,
                is_answered: true,
                is_under_way: false,
                reserved_at_unix_ms: *at,
                wish: Wish {
                    input: *input,
                    message: None,
                    line: *line,
                },
            })
            .collect();
        put_in_order(&mut entries);
        let names = entries.iter().map(|entry| entry.effect_id.to_string());
        names.collect()
    }

    #[test]
    fn the_newest_of_each_wish_is_last_whatever_the_clock_was_set_to() {
        // The clock was set back between the two.
        let set_back = [("new", 1, 3, Some(5), 100), ("old", 1, 1, Some(5), 900)];
        assert_eq!(order(&set_back), ["old", "new"]);
        // Of two sessions nothing but the clock tells.
        let sessions = [("new", 1, 1, Some(6), 900), ("old", 1, 3, Some(5), 100)];
        assert_eq!(order(&sessions), ["old", "new"]);
        let wishes = [
            ("a2", 1, 2, Some(5), 300),
            ("b", 2, 9, Some(5), 200),
            ("a1", 1, 1, Some(5), 250),
        ];
        assert_eq!(order(&wishes), ["b", "a1", "a2"]);
        let tries = [("undone", 1, 2, Some(5), 900), ("done", 1, 2, Some(5), 100)];
        assert_eq!(order(&tries), ["undone", "done"]);
    }
}
