//! Processes on one store: each with its own owner and clock. They crash at any moment, stand still beyond every lease beside another
//! one, and go on. Their earlier requests are outside all the same.

use crate::agenda::{Due, Of, ServiceCall, Within};
use crate::clock::ProcessClock;
use crate::count::{Fault, State};
use crate::mood::StoreMood;
use crate::outside::Service;
use crate::storefront::{FaultyStore, PendingAnswer, QueuedLedger};
use crate::tools::{self, Offer};
use crate::world::World;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use windlass_contract::handler::{Finding, Success};
use windlass_contract::id::{ConversationId, EffectId};
use windlass_contract::kind::Mode;
use windlass_driver::{DueLookup, Ledger, PendingReplies, Sweep, Swept};
use windlass_session::limits::Limits;
use windlass_store::command::Command;
use windlass_store::{
    Batch, ConversationRef, MemoryStore, OwnerId, ServerKey, SqliteStore, Store, StoreLimits,
    StoreSettings, StoreUnavailable,
};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
/// Millionths by which a clock runs fast or slow at most: an hour in three weeks.
const DRIFT_MAX: u64 = 2_000;
const SWEEP_EVERY_US: u64 = 10_000_000;
/// While no user is there for hours, sweeps and upkeep come less often, so that a world takes no longer.
const RESTING_SWEEP_EVERY_US: u64 = 1_800_000_000;
const CALM_SWEEP_EVERY_US: u64 = 120_000_000;
const UPKEEP_EVERY_US: u64 = 600_000_000;
/// The number of slices that one upkeep deletes; more than any world has.
const SLICES_MAX: usize = 1_000;

/// Rows that outlive every process.
pub(crate) enum Rows {
    Memory(Option<MemoryStore>),
    /// In this folder, which one process has at a time.
    Sqlite(std::path::PathBuf),
}

type Round = Pin<Box<dyn Future<Output = (Sweep, Result<Swept, StoreUnavailable>)> + Send>>;

pub(crate) struct Process {
    /// The ordinal of the process in its place.
    pub(crate) life: u32,
    pub(crate) is_up: bool,
    pub(crate) is_stopped: bool,
    /// The time when it went on after it had been stopped.
    pub(crate) woke_us: Option<u64>,
    pub(crate) ledger: Arc<QueuedLedger>,
    pub(crate) clock: ProcessClock,
    /// It dies after so many more outputs.
    pub(crate) crash_in: Option<u32>,
    /// Clients that come back with a resume token, by slot.
    pub(crate) resuming: Vec<(usize, PendingReplies)>,
    /// Services that wait for the answer to their messages.
    pub(crate) calling_back: Vec<(ServiceCall, PendingReplies)>,
    /// The events for it while it stood still.
    pub(crate) held_back: Vec<Due>,
    is_commit_planned: bool,
    /// The time of each conversation's last answer: none overtakes another of its own.
    answered_us: BTreeMap<ConversationId, u64>,
    sweep: Option<Sweep>,
    round: Option<Round>,
    lookups: Vec<Option<DueLookup>>,
    findings: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl World {
    /// Opens the store for a new process; the caller chooses its place.
    fn open(&mut self) -> Process {
        let clock = self.some_clock();
        let steady = clock.clone();
        let settings = StoreSettings {
            key: ServerKey::new([7; 32]),
            owner: OwnerId(self.mint("owner")),
            clock: Arc::new(move || steady.unix_ms()),
            limits: self.limits,
        };
        let store: Arc<dyn Store> = match &mut self.rows {
            Rows::Memory(rows) => {
                let store = match rows {
                    Some(rows) => rows.for_another_process(settings),
                    None => MemoryStore::new(settings),
                };
                *rows = Some(store.clone());
                Arc::new(store)
            }
            Rows::Sqlite(folder) => {
                let store = SqliteStore::open(folder, settings);
                Arc::new(store.expect("nobody else has the folder of this world"))
            }
        };
        let ledger = Arc::new(QueuedLedger::new(Arc::new(FaultyStore::new(store))));
        ledger.store.set_mood(self.mood);
        Process {
            life: 0,
            clock,
            is_up: true,
            is_stopped: false,
            woke_us: None,
            crash_in: None,
            resuming: Vec::new(),
            calling_back: Vec::new(),
            held_back: Vec::new(),
            is_commit_planned: false,
            answered_us: BTreeMap::new(),
            sweep: Some(Sweep::new(ledger.clone())),
            round: None,
            lookups: Vec::new(),
            findings: Vec::new(),
            ledger,
        }
    }

    /// The clock of a machine on which a process begins.
    fn some_clock(&mut self) -> ProcessClock {
        let roll = match self.has_odd_clocks {
            true => self.random.below(8),
            false => 8,
        };
        let hours = MINUTE_MS + self.random.below(3 * HOUR_MS);
        let hours = i64::try_from(hours).unwrap_or(0);
        let seconds = i64::try_from(self.random.below(20_000)).unwrap_or(0) - 10_000;
        let (fault, offset_ms) = match roll {
            0 => (Some(Fault::ClockAhead), hours),
            1 => (Some(Fault::ClockBack), -hours),
            2 => (Some(Fault::ClocksApart), seconds),
            _ => (None, 0),
        };
        let drift = match roll {
            1 | 3 => i64::try_from(self.random.below(2 * DRIFT_MAX)).unwrap_or(0) - 2_000,
            _ => 0,
        };
        if let Some(fault) = fault {
            self.fault(fault);
        }
        self.fault_if(drift != 0, Fault::ClockDrifts);
        ProcessClock::new(self.clock_us.clone(), offset_ms, drift)
    }

    /// A person, or a time server, sets a machine's clock while a process runs.
    pub(crate) fn set_clock(&mut self, place: usize) {
        if !self.has_odd_clocks || self.is_calm {
            return;
        }
        self.fault(Fault::ClockSet);
        let by_ms = i64::try_from(self.random.below(2 * HOUR_MS)).unwrap_or(0);
        let by_ms = by_ms - i64::try_from(HOUR_MS).unwrap_or(0);
        self.processes[place].clock.set(by_ms);
        // Answers that wait for the ledger may be late by the new time.
        self.judge.clicks.clear();
    }

    /// A process begins in a place of its own, or in that of a dead one.
    pub(crate) fn start_process(&mut self) -> usize {
        let dead = self.processes.iter().position(|process| !process.is_up);
        let mut process = self.open();
        let place = match dead {
            Some(place) => {
                process.life = self.processes[place].life + 1;
                self.processes[place] = process;
                place
            }
            None => {
                self.processes.push(process);
                self.processes.len() - 1
            }
        };
        self.trace(|| format!("process {place} begins"));
        self.within(place, 0, Within::Sweep);
        self.within(place, 0, Within::Upkeep);
        place
    }

    /// Enters an event in a process, which happens unless the process dies before.
    pub(crate) fn within(&mut self, process: usize, after_us: u64, what: Within) {
        let life = self.processes[process].life;
        let due = Due::Within {
            process,
            life,
            what,
        };
        self.agenda.enter(self.now_us + after_us, due);
    }

    pub(crate) fn within_live(&mut self, live: usize, process: usize, after_us: u64, what: Of) {
        self.within(process, after_us, Within::Of { live, what });
    }

    /// The processes that can serve a user.
    pub(crate) fn serving(&self) -> Vec<usize> {
        let places = 0..self.processes.len();
        places
            .filter(|place| self.processes[*place].is_up && !self.processes[*place].is_stopped)
            .collect()
    }

    /// The process dies with everything in it. Its requests to the outside go on.
    pub(crate) fn crash(&mut self, place: usize) {
        self.trace(|| format!("process {place} CRASHES"));
        self.judge.disturbances.push(self.now_us);
        self.judge.set_values.retain(|set| set.process != place);
        self.fault(Fault::ProcessCrashed);
        let life = self.processes[place].life;
        if self.outside.has_in_flight_of(place, life) {
            self.fault(Fault::CrashedWithRequestInFlight);
        }
        for id in 0..self.lives.len() {
            let dies = |live: &crate::slot::Live| live.process == place;
            if !self.lives[id].as_deref().is_some_and(dies) {
                continue;
            }
            let live = self.lives[id].take();
            if live.is_some_and(|live| live.facts.shown > 0) {
                self.fault(Fault::CrashedWhileAsking);
            }
            for slot in &mut self.slots {
                slot.live = slot.live.filter(|live| *live != id);
            }
        }
        self.count_seen(place);
        let process = &mut self.processes[place];
        process.is_up = false;
        process.is_stopped = false;
        process.resuming.clear();
        let unanswered = std::mem::take(&mut process.calling_back);
        process.held_back.clear();
        process.round = None;
        process.findings.clear();
        process.sweep = None;
        for (call, _) in unanswered {
            self.call_again(call);
        }
        // The folder has one owner: it is let go before the next one takes it.
        if let Rows::Sqlite(_) = self.rows {
            let nobody = MemoryStore::new(StoreSettings {
                key: ServerKey::new([0; 32]),
                owner: OwnerId("nobody".to_owned()),
                clock: Arc::new(|| 0),
                limits: StoreLimits::default(),
            });
            let store = Arc::new(FaultyStore::new(Arc::new(nobody)));
            self.processes[place].ledger = Arc::new(QueuedLedger::new(store));
        }
    }

    /// Stops a process: it is not polled, and its clock runs on.
    pub(crate) fn stop_process(&mut self, place: usize) {
        if matches!(self.rows, Rows::Sqlite(_)) || self.is_calm {
            return;
        }
        self.fault(Fault::ProcessStopped);
        self.judge.disturbances.push(self.now_us);
        self.had_two_owners = true;
        self.processes[place].is_stopped = true;
        let after_us = (2_000 + self.random.below(120_000)) * 1_000;
        let at_us = self.now_us + after_us;
        self.agenda.enter(at_us, Due::Wake { process: place });
        for slot in 0..self.slots.len() {
            let live = self.slots[slot].live;
            let live = live.and_then(|live| self.lives[live].as_deref());
            // Its people turn elsewhere, sooner or later; it hears of that when it goes on.
            if live.is_some_and(|live| live.process == place) && self.random.one_in(2) {
                self.leave(slot);
            }
        }
    }

    pub(crate) fn wake(&mut self, place: usize) {
        if !self.processes[place].is_stopped {
            return;
        }
        self.trace(|| format!("process {place} goes on"));
        self.processes[place].is_stopped = false;
        self.processes[place].woke_us = Some(self.now_us);
        if self.serving().len() > 1 {
            self.fault(Fault::ProcessWoke);
        }
        for due in std::mem::take(&mut self.processes[place].held_back) {
            self.agenda.enter(self.now_us, due);
        }
        self.dirty_all(place);
    }

    /// Plans a commit if a command waits for one.
    pub(crate) fn plan_commit(&mut self, place: usize) {
        let process = &mut self.processes[place];
        let has_work = process.ledger.take_work();
        if !has_work || process.is_commit_planned {
            return;
        }
        process.is_commit_planned = true;
        let after_ms = match self.mood {
            StoreMood::Slow => {
                self.fault(Fault::StoreSlow);
                self.random.below(7_000)
            }
            _ if self.random.one_in(2) => 0,
            _ => self.random.below(60),
        };
        self.within(place, after_ms * 1_000, Within::Commit);
    }

    fn commit(&mut self, place: usize) {
        self.processes[place].is_commit_planned = false;
        let ledger = self.processes[place].ledger.clone();
        let mood = self.set_mood_of_commit(place);
        let mut of: Vec<ConversationRef> = ledger.waiting();
        // Now one conversation, now all of them.
        if of.len() > 1 && self.random.one_in(2) {
            let chosen = self.random.index(of.len());
            of = vec![of[chosen].clone()];
        }
        let batches_max = match self.random.one_in(3) {
            true => 1,
            false => 64,
        };
        let answers = ledger.commit(&of, batches_max);
        ledger.store.set_mood(self.mood);
        self.count_seen(place);
        match mood {
            StoreMood::Down => self.fault(Fault::StoreDown),
            StoreMood::Full => self.fault(Fault::StoreFull),
            _ => {}
        }
        for answer in answers {
            self.plan_answer(place, mood, answer);
        }
        if !ledger.is_empty() {
            // Kept batches are tried again even if nothing else comes.
            let after_us = match ledger.waiting().is_empty() {
                true => 500_000,
                false => 0,
            };
            self.processes[place].is_commit_planned = true;
            self.within(place, after_us, Within::Commit);
        }
        self.dirty_all(place);
    }

    /// The store has this mood from now on, for every process.
    pub(crate) fn set_mood(&mut self, mood: StoreMood) {
        if mood != StoreMood::Up || self.mood != StoreMood::Up {
            self.judge.disturbances.push(self.now_us);
        }
        self.mood = mood;
        for process in &self.processes {
            process.ledger.store.set_mood(mood);
        }
    }

    /// An acknowledgement is lost for one commit at a time.
    fn set_mood_of_commit(&mut self, place: usize) -> StoreMood {
        let store = self.processes[place].ledger.store.clone();
        let mood = match self.random.below(40) {
            0 if !self.is_calm => StoreMood::Forgetful,
            1 if !self.is_calm => StoreMood::Late,
            _ => self.mood,
        };
        store.set_mood(mood);
        if matches!(mood, StoreMood::Forgetful | StoreMood::Late) {
            self.judge.unacknowledged.push(self.now_us);
        }
        mood
    }

    fn plan_answer(&mut self, place: usize, mood: StoreMood, answer: PendingAnswer) {
        let after_ms = match mood {
            StoreMood::Late => 5_000 + self.random.below(4_000),
            StoreMood::Slow => self.random.below(1_000),
            _ if self.random.one_in(4) => self.random.below(40),
            _ => 0,
        };
        let at_us = self.now_us + after_ms * 1_000;
        let process = &mut self.processes[place];
        let conversation = answer.conversation.conversation_id.clone();
        let last_us = process.answered_us.entry(conversation).or_default();
        *last_us = at_us.max(*last_us);
        let after_us = *last_us - self.now_us.min(*last_us);
        self.within(place, after_us, Within::Answer(answer));
    }

    pub(crate) fn count_seen(&mut self, place: usize) {
        let mut seen = self.processes[place].ledger.store.take_seen();
        for (conversation, note) in std::mem::take(&mut seen.notes) {
            self.note_committed(place, &conversation, note);
        }
        self.report.counts.seen(seen);
    }

    pub(crate) fn happen_within(&mut self, place: usize, what: Within) {
        match what {
            Within::Commit => self.commit(place),
            Within::Answer(answer) => {
                self.trace(|| format!("process {place} is answered {answer:?}"));
                answer.give();
                self.dirty_all(place);
            }
            Within::Sweep => {
                self.begin_round(place);
                let after_us = self.pause_until_next(SWEEP_EVERY_US);
                self.within(place, after_us, Within::Sweep);
            }
            Within::Upkeep => {
                self.keep_up(place);
                let after_us = self.pause_until_next(UPKEEP_EVERY_US);
                self.within(place, after_us, Within::Upkeep);
            }
            Within::Swept { lookup, finding } => {
                let process = &mut self.processes[place];
                let due = process.lookups.get_mut(lookup).and_then(Option::take);
                if let Some(due) = due {
                    let sweep = Sweep::new(process.ledger.clone());
                    let registry = Offer::of(self.edition).registry();
                    process.findings.push(Box::pin(async move {
                        let limits = Arc::new(Limits::of(Mode::Text));
                        sweep.found(due, (&registry, &limits), &finding).await;
                    }));
                    self.dirty_all(place);
                }
            }
            Within::Of { live, what } => self.happen_to(live, what),
        }
    }

    /// The wait of a repeated act until its next time.
    fn pause_until_next(&self, usual_us: u64) -> u64 {
        let rest_us = self.rests_until_us.saturating_sub(self.now_us);
        if self.is_calm {
            return usual_us.max(CALM_SWEEP_EVERY_US);
        }
        match rest_us > usual_us {
            true => rest_us.min(usual_us.max(RESTING_SWEEP_EVERY_US)),
            false => usual_us,
        }
    }

    /// Deletes expired rows.
    fn keep_up(&mut self, place: usize) {
        let store = self.processes[place].ledger.store.clone();
        for _ in 0..SLICES_MAX {
            match store.prune() {
                Ok(0) | Err(_) => return,
                Ok(rows) => {
                    self.trace(|| format!("process {place} deletes {rows} rows"));
                    self.report.counts.state(State::Pruned);
                }
            }
        }
    }

    fn begin_round(&mut self, place: usize) {
        let registry = Offer::of(self.edition).registry();
        let process = &mut self.processes[place];
        if let Some(mut sweep) = process.sweep.take() {
            process.round = Some(Box::pin(async move {
                let swept = sweep.round(&registry).await;
                (sweep, swept)
            }));
            self.dirty_all(place);
        }
    }

    /// Polls everything of a process except its sessions.
    pub(crate) fn poll_process(&mut self, place: usize) {
        let mut context = Context::from_waker(Waker::noop());
        let process = &mut self.processes[place];
        if let Some(round) = &mut process.round
            && let Poll::Ready((sweep, swept)) = round.as_mut().poll(&mut context)
        {
            process.round = None;
            let swept = swept.unwrap_or_default();
            sweep.audited(swept.settled.iter().chain(&swept.unaudited));
            process.sweep = Some(sweep);
            for due in swept.lookups {
                self.sweep_looks_up(place, due);
            }
        }
        let process = &mut self.processes[place];
        process
            .findings
            .retain_mut(|finding| finding.as_mut().poll(&mut context).is_pending());
        for (slot, mut replies) in std::mem::take(&mut process.resuming) {
            match replies.as_mut().poll(&mut context) {
                Poll::Pending => self.processes[place].resuming.push((slot, replies)),
                Poll::Ready(replies) => {
                    let reply = replies.ok().and_then(|mut replies| replies.pop());
                    self.is_resumed(slot, place, reply);
                }
            }
        }
        for (call, mut replies) in std::mem::take(&mut self.processes[place].calling_back) {
            match replies.as_mut().poll(&mut context) {
                Poll::Pending => self.processes[place].calling_back.push((call, replies)),
                Poll::Ready(replies) => {
                    let reply = replies.ok().and_then(|mut replies| replies.pop());
                    self.is_called_back(call, reply);
                }
            }
        }
        self.plan_commit(place);
    }

    fn sweep_looks_up(&mut self, place: usize, due: DueLookup) {
        let at = (due.effect.effect_id.clone(), Service::of(&due.lookup.tool));
        let lookups = &mut self.processes[place].lookups;
        lookups.push(Some(due));
        let lookup = lookups.len() - 1;
        let (after_us, finding) = self.look_up(&at);
        self.within(place, after_us, Within::Swept { lookup, finding });
    }

    /// A handler asks the outside about an effect. Returns the time and the finding of its answer. The finding may be of any moment
    /// between.
    pub(crate) fn look_up(&mut self, of: &(EffectId, Service)) -> (u64, Finding) {
        let (effect_id, _) = of;
        let is_done = self.outside.has_happened_at(of);
        self.last_id += 1;
        let mut success = Success::new(serde_json::json!({ tools::TAG: self.last_id }));
        if !self.is_calm && self.random.one_in(4) {
            success.intents.push(self.kept_value());
        }
        let finding = match is_done {
            _ if !self.is_calm && self.random.one_in(5) => Finding::Unknown,
            true => Finding::Happened(Box::new(success)),
            false => Finding::NotHappened,
        };
        if finding == Finding::NotHappened && self.outside.is_in_flight(effect_id) {
            self.fault(Fault::LookupOlderThanRequest);
        }
        if !self.is_calm && self.random.one_in(8) {
            self.fault(Fault::LookupHung);
            return (5_000_000, Finding::Unknown);
        }
        (self.random.below(4_000) * 1_000, finding)
    }

    /// Applies commands of the host's own.
    pub(crate) fn apply(
        &self,
        place: usize,
        of: &ConversationRef,
        command: Command,
    ) -> PendingReplies {
        self.processes[place].ledger.apply(Batch {
            conversation: of.clone(),
            commands: vec![command],
        })
    }
}
