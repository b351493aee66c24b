//! The end of a world: nothing goes wrong any more, and everything that was begun has to end.

use crate::judge::Rule;
use crate::mood::StoreMood;
use crate::world::World;
use windlass_session::client::ClientEvent;
use windlass_session::io::Input;

/// In this time every deadline of the core has passed, and every request has landed. In four times this, requests have ended even by the
/// clocks that differ most, and handlers were asked about everything.
const SETTLING_US: u64 = 10_000 * 1_000_000;
/// In this time started changes have ended or timed out.
const DRAINING_US: u64 = 200 * 1_000_000;

impl World {
    pub(crate) fn settle(&mut self) {
        self.is_calm = true;
        self.set_mood(StoreMood::Up);
        self.trace(|| "the world is CALM".to_owned());
        for process in &mut self.processes {
            process.crash_in = None;
        }
        for place in 0..self.processes.len() {
            self.wake(place);
        }
        self.advance(self.now_us + SETTLING_US);
        // The first may end an answer that was interrupted, the second the turn, the third the answer about late results.
        for _ in 0..3 {
            for slot in 0..self.slots.len() {
                if self.is_connected(slot) {
                    self.model_is_done(slot);
                }
            }
            self.advance(self.now_us + SETTLING_US);
        }
        self.judge_clicks();
        self.everything_settles();
        self.judge_kept();
        for slot in 0..self.slots.len() {
            self.feed(slot, Input::Client(ClientEvent::Stop));
        }
        self.advance(self.now_us + DRAINING_US);
        if self.is_broken() {
            return;
        }
        self.nobody_is_left();
        self.judge_ledger();
    }

    /// After the last fault every call gets its answer.
    fn everything_settles(&mut self) {
        let lives = self.lives.iter().enumerate();
        let open = lives.filter_map(|(id, live)| {
            let live = live.as_deref().filter(|live| !live.is_over())?;
            let open = live.facts.calls.iter().find(|(_, ends)| ends.is_open());
            let due = live.session.next_deadline();
            let mut places = live.facts.places.iter();
            let unanswered = places.find(|((generation, _), place)| {
                let is_owed = place.asked > 0 && place.answers == 0 && !place.is_cancelled;
                is_owed && *generation == live.generation
            });
            match (open, due) {
                (Some((call, _)), _) => Some(format!("life {id}: {call} has no end")),
                (None, Some(due)) => Some(format!("life {id}: something is due at {due:?}")),
                (None, None) => {
                    unanswered.map(|((_, call), _)| format!("life {id}: {call} has no answer"))
                }
            }
        });
        if let Some(problem) = open.collect::<Vec<_>>().into_iter().next() {
            self.broken(Rule::EverythingSettles, problem);
        }
    }

    fn nobody_is_left(&mut self) {
        let lives = self.lives.iter().enumerate();
        let undead = lives.filter_map(|(id, live)| {
            let live = live.as_deref()?;
            let is_dead = live.session.is_over() && live.session.next_deadline().is_none();
            (!is_dead).then_some(id)
        });
        if let Some(id) = undead.min() {
            let what = format!("life {id} does not end");
            return self.broken(Rule::EverythingSettles, what);
        }
        for place in self.serving() {
            if self.processes[place].ledger.keeps_something() {
                let what = format!("process {place} keeps commands that were not committed");
                self.broken(Rule::EverythingSettles, what);
            }
        }
    }
}
