//! The lives of sessions: what comes to which of them, how one is left behind while its change runs, and how all of a process
//! die together.

use crate::agenda::{Act, Due};
use crate::count::{Fault, State};
use crate::lane::{Lane, Stage};
use crate::world::World;
use windlass_session::client::ClientEvent;
use windlass_session::io::Input;
use windlass_tool::id::CallRef;
use windlass_tool::kind::Mode;

impl World {
    /// Every place of a conversation's sessions, the seat first.
    pub(crate) fn slots_of(&self, home: usize) -> Vec<usize> {
        let mut slots = vec![home];
        slots.extend((self.seats..self.lanes.len()).filter(|slot| self.lanes[*slot].home == home));
        slots
    }

    /// Where a session is, that was at a place.
    fn slot_of(&self, place: usize, session: u32) -> Option<usize> {
        let slots = self.slots_of(self.lanes[place].home);
        slots.into_iter().find(|slot| {
            let lane = &self.lanes[*slot];
            lane.number == session && lane.session.is_some()
        })
    }

    /// Gives a session an answer of its driver's.
    fn hear(&mut self, slot: usize, input: Input) {
        let lane = &mut self.lanes[slot];
        let asked = match &input {
            Input::LookedUp { call, .. } => lane.lookups.remove(call),
            Input::Recorded {
                effect_id, stored, ..
            } => lane.recorded(effect_id, *stored),
            _ => None,
        };
        self.feed(slot, input);
        // What the session has made of it, the store has heard by now.
        drop(asked);
    }

    /// The client leaves while a change runs, or while the model waits for something to read, and begins the conversation anew:
    /// the session that it had ends beside the next one, at once or a while later, when it has run the change to its end.
    pub(crate) fn client_begins_anew(&mut self, index: usize) {
        let lane = &self.lanes[index];
        let changes = |((number, _), run): (&(u32, CallRef), &crate::lane::Running)| {
            let is_change = run.writes && run.claim.is_some();
            *number == lane.number && (is_change || (run.reads && !run.has_returned))
        };
        if !lane.is_live() || !lane.running.iter().any(changes) {
            return;
        }
        self.fault(Fault::LeftBehind);
        let ended = self.lanes[index].text_ended();
        let anew = self.lanes[index].anew();
        let left: Lane = std::mem::replace(&mut self.lanes[index], anew);
        let slot = self.lanes.len();
        let input = match left.mode {
            Mode::Voice => Input::Client(ClientEvent::Stop),
            Mode::Text => Input::Shutdown,
        };
        self.lanes.push(left);
        for (lane, _) in &mut self.unstored.outcomes {
            *lane = if *lane == index { slot } else { *lane };
        }
        // What is asked for by two at once are two wishes: one that lives on beside the next changes nothing.
        match self.lanes[slot].only_reads() && self.random.one_in(2) {
            true => {
                let after_us = self.random.below(6_000) * 1_000;
                self.answer(slot, after_us, input);
            }
            false => self.feed(slot, input),
        }
        if !self.is_broken() {
            match ended {
                Some(ended) => self.go_on_by_text(index, ended),
                None => self.begin(index),
            }
            // A client that comes back wants what it has not heard the end of.
            if self.random.one_in(2) {
                self.model_asks_again(index);
            }
        }
    }

    /// Who waits for another session's change is told what the ledger has of it when nobody is at it any more.
    pub(crate) fn answer_awaited(&mut self) {
        for (place, session, call, effect_id) in std::mem::take(&mut self.awaited) {
            if !self.under_way.is_free(&effect_id) {
                self.awaited.push((place, session, call, effect_id));
                continue;
            }
            let Some(slot) = self.slot_of(place, session) else {
                continue;
            };
            self.record_again();
            let found = self.ask_store(|transaction| transaction.effect(&effect_id));
            let found = found.ok().flatten().into_iter().collect();
            let entry = self.ledger_of(found).pop().map(Box::new);
            if entry.as_ref().is_some_and(|entry| entry.response.is_some()) {
                self.report.counts.state(State::HeardFromElsewhere);
            }
            self.answer_of_store(slot, Input::EffectAwaited { call, entry });
        }
    }

    /// The process that holds a conversation's session dies: nothing of it lives, and what was requested stays requested.
    pub(crate) fn crash(&mut self, index: usize) {
        let home = self.lanes[index].home;
        for slot in self.slots_of(home) {
            self.die(slot);
        }
    }

    fn die(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        lane.crash_in = None;
        lane.disclaim();
        if lane.session.take().is_none() {
            return lane.running.clear();
        }
        let stages: Vec<Stage> = lane.watch.stages.values().copied().collect();
        let is_asking = !lane.watch.open_questions.is_empty();
        lane.running.clear();
        self.unstored.outcomes.retain(|(lane, _)| *lane != index);
        let lane = &self.lanes[index];
        // What nobody was told is not known to those who come after.
        let session = (lane.home, lane.number);
        if self.unstored.readings.remove(&session) {
            self.readers.remove(&session);
        }
        self.unstored
            .closings
            .retain(|(home, _)| *home != session.0);
        self.trace(|| format!("lane {index} CRASHES"));
        self.a_replay_gives_the_same_outputs(index);
        let home = self.lanes[index].home;
        self.forget_refusals(home);
        let questions = self.questions.values_mut();
        for question in questions.filter(|question| question.lane == home) {
            question.is_left_behind = true;
        }
        for stage in stages {
            self.fault(match stage {
                Stage::Reserved => Fault::CrashReserved,
                Stage::Started => Fault::CrashStarted,
                Stage::Requested => Fault::CrashCommitted,
                Stage::Recorded => Fault::CrashRecorded,
            });
        }
        if is_asking {
            self.fault(Fault::CrashAsking);
        }
    }

    pub(crate) fn happen(&mut self, due: Due) {
        match due {
            Due::Feed {
                lane,
                session,
                input,
            } => {
                if let Some(slot) = self.slot_of(lane, session) {
                    self.hear(slot, input);
                }
            }
            Due::Connect {
                lane,
                session,
                generation,
                outcome,
            } => {
                // A connection that was given up meanwhile is heard of no more.
                if let Some(slot) = self.slot_of(lane, session)
                    && self.lanes[slot].opening == generation
                {
                    self.connect(slot, generation, outcome);
                }
            }
            Due::Close {
                lane,
                session,
                generation,
                is_early,
            } => {
                if let Some(slot) = self.slot_of(lane, session) {
                    self.provider_closes(slot, generation, is_early);
                }
            }
            Due::Act {
                lane,
                session,
                call,
                act,
            } => {
                let home = self.lanes[lane].home;
                let runs = |slot: &usize| self.lanes[*slot].running.contains_key(&(session, call));
                if let Some(slot) = self.slots_of(home).into_iter().find(runs) {
                    self.go_on(slot, session, call, act);
                }
            }
        }
    }

    fn go_on(&mut self, index: usize, session: u32, call: CallRef, act: Act) {
        let is_present = self.lanes[index].number == session;
        match act {
            Act::Request { effect_id, commits } => {
                self.trace(|| format!("lane {index} REQUEST {effect_id} commits: {commits}"));
                self.at_most_one_outside_request_per_effect(index, call, &effect_id);
                self.outside.request(&effect_id, commits);
                self.requested_us.insert(effect_id.clone(), self.now_us);
                let lane = &mut self.lanes[index];
                let is_over = !is_present || lane.watch.is_closed;
                if let Some(run) = lane.running.get_mut(&(session, call)) {
                    run.will_request = false;
                    // Nobody is there any more to be told how it ends.
                    run.claim = run.claim.take().filter(|_| !is_over);
                }
                if is_present {
                    lane.watch.stages.insert(effect_id, Stage::Requested);
                }
            }
            Act::Say(message) => {
                if is_present {
                    self.feed(index, Input::HandlerMessage { call, message });
                }
            }
            Act::Return(result) => self.return_result(index, session, call, result),
        }
    }
}
