//! One step of the world: some time passes, and then somebody does something, or something breaks.

use crate::agenda::Due;
use crate::count::Fault;
use crate::rules::Rule;
use crate::tools;
use crate::world::{StoreMood, World};
use std::sync::Arc;
use std::time::Duration;
use windlass_session::io::Input;
use windlass_session::model::{ConnectionEvent, LostReason, ModelEvent};
use windlass_tool::registry::Registry;

const HOUR_MS: i64 = 3_600_000;

impl World {
    pub(crate) fn step(&mut self) {
        let pause_us = match self.random.below(24) {
            0..=7 => 0,
            8..=13 => self.random.below(200) * 1_000,
            14..=21 => self.random.below(2_500) * 1_000,
            22 => self.random.below(12_000) * 1_000,
            _ => {
                self.fault(Fault::ClientSilent);
                self.random.below(400_000) * 1_000
            }
        };
        self.advance(self.now_us + pause_us);
        let index = self.random.index(self.seats);
        if !self.lanes[index].is_live() {
            return self.begin_or_resume(index);
        }
        if self.lanes[index].reads_now() && self.random.one_in(8) {
            return self.client_begins_anew(index);
        }
        match self.random.below(40) {
            0..=16 => self.model_acts(index),
            17..=24 => self.user_acts(index),
            25..=33 => self.client_confirms(index),
            34..=36 => self.something_breaks(index),
            37 => self.store_changes(),
            _ => self.connection_acts(index),
        }
    }

    fn something_breaks(&mut self, index: usize) {
        match self.random.below(12) {
            0..=3 => {
                let outputs = u32::try_from(self.random.below(12)).unwrap_or(0);
                self.lanes[index].crash_in = Some(outputs);
            }
            4 | 5 => self.crash(index),
            6 => {
                self.wall_offset_ms += HOUR_MS;
                self.fault(Fault::ClockAhead);
            }
            7 => {
                self.wall_offset_ms -= HOUR_MS;
                self.fault(Fault::ClockBack);
            }
            8 => {
                self.is_reloaded = true;
            }
            9 => {
                self.feed(index, Input::Shutdown);
            }
            _ => self.client_begins_anew(index),
        }
    }

    /// The tools that a session begins with. A reload counts where one begins after it.
    pub(crate) fn tools_of_now(&mut self) -> Arc<Registry> {
        if self.is_reloaded {
            self.fault(Fault::RegistryReloaded);
        }
        tools::registry(self.is_reloaded)
    }

    /// It counts where somebody meets it.
    fn store_changes(&mut self) {
        self.mood = match self.random.below(8) {
            0 => StoreMood::Slow,
            1 => StoreMood::Down,
            2 => StoreMood::Silent,
            3 => StoreMood::Full,
            _ => StoreMood::Up,
        };
    }

    fn connection_acts(&mut self, index: usize) {
        if !self.lanes[index].is_connected {
            return;
        }
        match self.random.below(8) {
            0 => self.provider_says_go_away(index),
            1 | 2 => {
                let handle = self.random.one_in(2).then(|| "handle".to_owned().into());
                self.feed(index, Input::Model(ModelEvent::ResumptionUpdate { handle }));
            }
            4 => {
                self.fault(Fault::MalformedFrame);
                let problem = "no JSON".to_owned();
                self.feed(index, Input::Model(ModelEvent::Malformed { problem }));
            }
            3 | 5 => self.lose_socket(index),
            6 => {
                let fields = vec!["novelty".to_owned()];
                self.feed(index, Input::Model(ModelEvent::Unknown { fields }));
            }
            _ => self.feed(index, Input::Tick),
        }
    }

    /// The provider will close the connection in the time that it names; it does, or loses patience before.
    fn provider_says_go_away(&mut self, index: usize) {
        let seconds = self.random.below(60);
        let time_left = (seconds > 0).then(|| Duration::from_secs(seconds));
        let is_early = seconds == 0 || self.random.one_in(3);
        let after_us = match is_early {
            true => self.random.below(4_000) * 1_000,
            false => seconds * 1_000_000,
        };
        let lane = &mut self.lanes[index];
        let due = Due::Close {
            lane: index,
            session: lane.number,
            generation: lane.generation,
            is_early,
        };
        let at_us = self.now_us + after_us;
        // Its last word counts.
        lane.closes_us = Some(at_us);
        self.agenda.enter(at_us, due);
        self.feed(index, Input::Model(ModelEvent::GoAway { time_left }));
    }

    /// A provider that is shut down announces the end of each connection as it begins.
    pub(crate) fn is_sent_away(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        if lane.sent_away == 0 || self.is_calm {
            return;
        }
        lane.sent_away -= 1;
        self.fault(Fault::ConnectionSentAway);
        let time_left = Some(Duration::from_secs(self.random.below(5)));
        self.feed(index, Input::Model(ModelEvent::GoAway { time_left }));
    }

    pub(crate) fn provider_closes(&mut self, index: usize, generation: u64, is_early: bool) {
        let lane = &self.lanes[index];
        let is_on_it = lane.generation == generation && lane.is_connected;
        let is_last_word = lane.closes_us == Some(self.now_us);
        if !is_on_it || !is_last_word || !lane.is_live() || lane.watch.is_draining {
            return;
        }
        // One that has shown nothing yet may be kept for as long as a pause between two connections lasts.
        let is_young = !self.has_held(index);
        if !is_early && !is_young {
            let what = format!("connection {generation} is in use until the provider closes it");
            return self.broken(Rule::AGoAwayIsHeeded, what);
        }
        self.fault(Fault::GoAwayIgnored);
        self.lose_socket(index);
    }

    /// The connection is gone: before the provider had an answer that it waits for, or after one was sent and before anything
    /// was heard of it.
    fn lose_socket(&mut self, index: usize) {
        let lane = &self.lanes[index];
        let mut places = lane.watch.places.iter();
        let is_owed = places.any(|((generation, _), place)| {
            *generation == lane.generation && place.owed > 0 && place.answers == 0
        });
        let is_unheard = lane.watch.is_answer_unheard;
        if is_owed {
            self.fault(Fault::SocketLostBeforeResult);
        }
        if is_unheard {
            self.fault(Fault::SocketLostAfterResult);
        }
        if self.random.one_in(2) {
            self.fault(Fault::SocketLostMidFrame);
            let problem = "the frame breaks off".to_owned();
            self.feed(index, Input::Model(ModelEvent::Malformed { problem }));
        }
        self.lanes[index].is_connected = false;
        let generation = self.lanes[index].generation;
        let code = *self.random.pick(&[1006, 1008, 1011]);
        let lost = ConnectionEvent::Lost {
            generation,
            reason: LostReason::Closed {
                code,
                reason: "gone".to_owned(),
            },
        };
        self.feed(index, Input::Connection(lost));
    }
}
