//! One step of the world: some time passes, and then a party acts, or something breaks.

use crate::agenda::Of;
use crate::count::Fault;
use crate::mood::StoreMood;
use crate::tools::Edition;
use crate::world::World;
use std::time::Duration;
use windlass_contract::id::UserId;
use windlass_contract::kind::Mode;
use windlass_session::io::Input;
use windlass_session::model::ModelEvent;
use windlass_store::ConversationRef;
use windlass_store::command::Command;

impl World {
    pub(crate) fn step(&mut self) {
        if self.is_long && self.random.one_in(14) {
            self.days_pass();
            if self.is_broken() {
                return;
            }
        }
        let pause_us = match self.random.below(24) {
            0..=8 => 0,
            9..=14 => self.random.below(200) * 1_000,
            15..=21 => self.random.below(2_500) * 1_000,
            22 => self.random.below(12_000) * 1_000,
            _ => {
                self.fault(Fault::ClientSilent);
                self.random.below(400_000) * 1_000
            }
        };
        // A store is never down for long.
        if self.mood != StoreMood::Up && self.random.one_in(6) {
            self.set_mood(StoreMood::Up);
        }
        self.advance(self.now_us + pause_us);
        if self.is_broken() {
            return;
        }
        self.judge_clicks();
        if self.is_broken() {
            return;
        }
        let slot = self.random.index(self.slots.len());
        if self.random.one_in(24) {
            return self.user_answers_over_http(slot);
        }
        if !self.is_served(slot) {
            return self.come(slot);
        }
        match self.random.below(48) {
            0..=15 => self.model_acts(slot),
            16..=26 => self.user_acts(slot),
            27..=37 => self.user_answers(slot),
            38..=41 => self.something_breaks(slot),
            42 | 43 => self.store_changes(),
            _ => self.connection_acts(slot),
        }
    }

    fn something_breaks(&mut self, slot: usize) {
        let serving = self.serving();
        let process = *self.random.pick(&serving);
        match self.random.below(12) {
            11 => self.set_clock(process),
            0 | 1 => {
                let outputs = u32::try_from(self.random.below(12)).unwrap_or(0);
                self.processes[process].crash_in = Some(outputs);
            }
            2 | 3 => self.crash(process),
            4 | 5 => self.stop_process(process),
            6 => self.change_tools(),
            7 => self.stranger_comes(slot, process),
            8 => {
                self.fault(Fault::ShutDown);
                self.feed(slot, Input::Shutdown);
            }
            _ => {
                self.fault(Fault::ClientBeganAnew);
                self.begin(slot, process, None);
                if self.random.one_in(2) {
                    self.go_on();
                    self.model_asks_again(slot);
                }
            }
        }
    }

    /// Hours or days pass without a user.
    fn days_pass(&mut self) {
        self.fault(Fault::DaysPassed);
        let hours = match self.random.below(4) {
            0 => 1 + self.random.below(12),
            1 | 2 => 12 + self.random.below(24),
            _ => 36 + self.random.below(72),
        };
        for slot in 0..self.slots.len() {
            // No socket stays for so long. A chat has no socket.
            if self.slots[slot].mode == Mode::Voice || self.random.one_in(2) {
                self.leave(slot);
            }
        }
        // Two processes never live for so long: the one that began last has the folder.
        let newest = self
            .serving()
            .into_iter()
            .max_by_key(|place| self.processes[*place].clock.begun_us());
        for place in 0..self.processes.len() {
            if self.processes[place].is_up && Some(place) != newest {
                self.crash(place);
            }
        }
        let until_us = self.now_us + hours * 3_600_000_000;
        self.rests_until_us = until_us;
        self.advance(until_us);
        self.nothing_is_forgotten_early();
    }

    /// The tools are compiled anew, and sessions that begin have them. Some go back to what they were.
    fn change_tools(&mut self) {
        self.edition = *self.random.pick(&Edition::CURRENT);
        match self.edition {
            Edition::First | Edition::Beside => {}
            Edition::OtherCode => self.fault(Fault::CodeChanged),
            Edition::OtherSchema => self.fault(Fault::SchemaChanged),
            Edition::OtherVersion => self.fault(Fault::VersionChanged),
        }
    }

    /// Another user wants to change something of the conversation.
    fn stranger_comes(&mut self, slot: usize, process: usize) {
        self.fault(Fault::StrangerCame);
        let of = self.conversations[self.slots[slot].conversation].clone();
        let stranger = ConversationRef {
            user_id: UserId::new("stranger"),
            ..of
        };
        drop(self.apply(process, &stranger, Command::Taint));
    }

    /// The fault counts once a request meets it.
    fn store_changes(&mut self) {
        let mood = match self.random.below(8) {
            0 => StoreMood::Slow,
            1 => StoreMood::Down,
            2 => StoreMood::Full,
            _ => StoreMood::Up,
        };
        self.set_mood(mood);
    }

    fn connection_acts(&mut self, slot: usize) {
        let Some(id) = self.slots[slot].live.filter(|_| self.is_connected(slot)) else {
            return;
        };
        let first = match self.slots[slot].mode {
            Mode::Voice => 0,
            // Without a connection none ends, and none is resumed.
            Mode::Text => 3,
        };
        match first + self.random.below(8 - first) {
            0 => {
                self.fault(Fault::GoAway);
                let seconds = self.random.below(60);
                let time_left = (seconds > 0).then(|| Duration::from_secs(seconds));
                let generation = self.generation(slot);
                if let Some(live) = self.lives[id].as_deref() {
                    let close = Of::Close { generation };
                    self.within_live(id, live.process, seconds * 1_000_000, close);
                }
                self.feed(slot, Input::Model(ModelEvent::GoAway { time_left }));
            }
            1 | 2 => {
                let handle = self.random.one_in(2).then(|| "handle".to_owned().into());
                self.feed(slot, Input::Model(ModelEvent::ResumptionUpdate { handle }));
            }
            3 => {
                self.fault(Fault::MalformedFrame);
                let problem = "no JSON".to_owned();
                self.feed(slot, Input::Model(ModelEvent::Malformed { problem }));
            }
            4..=6 => self.lose_socket(id),
            _ => self.feed(slot, Input::Tick),
        }
    }
}
