//! The end of a world: nothing goes wrong any more, and everything that was begun has to come to its end.

use crate::count::State;
use crate::lane::Lane;
use crate::rules::Rule;
use crate::world::{StoreMood, World};
use std::time::Duration;
use windlass_session::client::ClientEvent;
use windlass_session::io::Input;
use windlass_session::model::ModelEvent;
use windlass_store::{EffectState, Store};

/// In this time every deadline of the core has passed.
const SETTLING_US: u64 = 3_000 * 1_000_000;
/// In this time started changes have ended or timed out.
const DRAINING_US: u64 = 120 * 1_000_000;

impl World {
    pub(crate) fn settle(&mut self) {
        self.is_calm = true;
        self.mood = StoreMood::Up;
        self.record_again();
        for lane in &mut self.lanes {
            lane.crash_in = None;
        }
        self.advance(self.now_us + SETTLING_US);
        // The first may end an answer that was interrupted, the second the turn, the third what was made of late results.
        for _ in 0..3 {
            for index in 0..self.lanes.len() {
                self.model_is_done(index);
            }
            self.advance(self.now_us + SETTLING_US);
        }
        for index in 0..self.lanes.len() {
            self.everything_settles(index);
        }
        for index in 0..self.lanes.len() {
            self.feed(index, Input::Client(ClientEvent::Stop));
        }
        self.advance(self.now_us + DRAINING_US);
        for index in 0..self.lanes.len() {
            self.nothing_lives_after_the_end(index);
            self.one_end_per_start(index);
            self.a_replay_gives_the_same_outputs(index);
        }
        self.count_ledger();
    }

    fn model_is_done(&mut self, index: usize) {
        if self.lanes[index].is_live() && self.lanes[index].is_connected {
            let done = ModelEvent::TurnComplete {
                idle: true,
                reason: None,
                unplayed: Duration::ZERO,
            };
            self.feed(index, Input::Model(done));
        }
    }

    /// After the last fault, nothing is left to be done, and nobody waits for an answer.
    fn everything_settles(&mut self, index: usize) {
        if !self.lanes[index].is_live() || self.is_broken() {
            return;
        }
        if let Some(due_us) = self.deadline_us(index) {
            let rule = Rule::EverythingSettles;
            return self.broken(rule, format!("something is still due at {due_us} µs"));
        }
        let Lane {
            watch, generation, ..
        } = &self.lanes[index];
        if let Some(call) = watch.open_questions.first() {
            let what = format!("call-{call} is still asked for");
            return self.broken(Rule::EverythingSettles, what);
        }
        let open = watch.calls.iter().find(|(_, call)| call.ended == 0);
        let unanswered = watch
            .places
            .iter()
            .find(|((of, _), place)| of == generation && place.answers == 0 && !place.is_cancelled);
        let problem = match (open, unanswered) {
            (Some((call, facts)), _) => Some(format!("call-{call} has no end: {facts:?}")),
            (None, Some(((_, id), _))) => Some(format!("{id} has had no answer")),
            (None, None) => None,
        };
        if let Some(problem) = problem {
            return self.broken(Rule::EverythingSettles, problem);
        }
        self.nothing_is_owed(index);
    }

    fn nothing_lives_after_the_end(&mut self, index: usize) {
        let rule = Rule::NothingLivesAfterTheEnd;
        let Some(session) = &self.lanes[index].session else {
            return;
        };
        let (is_over, deadline) = (session.is_over(), session.next_deadline());
        if !is_over {
            self.broken(rule, "the session does not end");
        }
        if deadline.is_some() {
            self.broken(rule, "a session that is over waits for something");
        }
        self.feed(index, Input::Tick);
        self.feed(index, Input::Client(ClientEvent::Connected));
        self.feed(index, Input::Shutdown);
    }

    fn count_ledger(&mut self) {
        for index in 0..self.lanes.len() {
            let conversation = self.lanes[index].conversation.clone();
            let store: &dyn Store = &self.store;
            let effects = store
                .ask(|transaction| transaction.effects_of(&conversation, 0))
                .unwrap_or_default();
            for effect in effects {
                self.report.counts.state(match effect.state {
                    EffectState::Reserved => State::LedgerReserved,
                    EffectState::Succeeded => State::LedgerSucceeded,
                    EffectState::Failed => State::LedgerFailed,
                    EffectState::Unknown => State::LedgerUnknown,
                });
            }
        }
    }
}
