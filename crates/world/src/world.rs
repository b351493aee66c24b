//! The world itself: virtual time, due events, and one step after another. Each party's acts in a step are in a file of its own; `judge`
//! has the invariants.

use crate::agenda::{Agenda, Due};
use crate::count::{Counts, Fault};
use crate::intents::Intents;
use crate::judge::{Judge, Rule};
use crate::mood::StoreMood;
use crate::outside::Outside;
use crate::process::{Process, Rows};
use crate::prove::Digest;
use crate::random::Random;
use crate::shown::ShownRequest;
use crate::slot::{Live, Slot};
use crate::tools::Edition;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_contract::id::{ConversationId, TenantId, UserId};
use windlass_contract::kind::Mode;
use windlass_session::io::Input;
use windlass_store::{ConversationRef, StoreLimits};

/// One world in so many is compared.
const COMPARED_EVERY: u64 = 50;

/// One world that is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// The number of acts; their consequences are not counted.
    pub steps: u32,
    /// Whether every event is written down.
    pub is_traced: bool,
    /// Whether the world is run twice, and each session of it once more from its journal, and the outputs are compared.
    pub is_compared: bool,
    /// An empty folder for the rows, which are in SQLite then; otherwise they are in memory.
    pub folder: Option<PathBuf>,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        Self {
            seed,
            steps: 120,
            is_traced: false,
            is_compared: seed.is_multiple_of(COMPARED_EVERY),
            folder: None,
        }
    }
}

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    pub what: String,
}

/// The result of a world.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub violation: Option<Violation>,
    pub trace: Vec<String>,
    pub counts: Counts,
    /// The digest of all outputs, if the world is compared.
    pub digest: Option<u64>,
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) now_us: u64,
    /// The same, for the clocks of the processes.
    pub(crate) clock_us: Arc<AtomicU64>,
    pub(crate) agenda: Agenda,
    pub(crate) rows: Rows,
    pub(crate) processes: Vec<Process>,
    pub(crate) conversations: Vec<ConversationRef>,
    pub(crate) slots: Vec<Slot>,
    /// Sessions by their number in this world; `None` for one that is gone, or is being run.
    pub(crate) lives: Vec<Option<Box<Live>>>,
    /// Sessions that may have input.
    pub(crate) dirty: BTreeSet<usize>,
    pub(crate) mood: StoreMood,
    /// Clocks are set while no process runs.
    pub(crate) has_odd_clocks: bool,
    /// Models write one value in many ways.
    pub(crate) has_spellings: bool,
    /// Two processes have served at a time, and each takes the other one for dead.
    pub(crate) had_two_owners: bool,
    pub(crate) outside: Outside,
    pub(crate) intents: Intents,
    pub(crate) judge: Judge,
    /// Newest last.
    pub(crate) tokens: Vec<ShownRequest>,
    /// The edition of the tools that new sessions have.
    pub(crate) edition: Edition,
    pub(crate) limits: StoreLimits,
    /// Days pass in it.
    pub(crate) is_long: bool,
    /// No user is there until then.
    pub(crate) rests_until_us: u64,
    /// Nothing goes wrong any more.
    pub(crate) is_calm: bool,
    pub(crate) last_id: u64,
    pub(crate) report: Report,
    pub(crate) digest: Option<Digest>,
    is_traced: bool,
}

impl World {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut random = Random::new(plan.seed);
        let conversations = 1 + random.index(2);
        let is_long = random.one_in(4);
        let names = 0..conversations;
        let references = names.map(|index| ConversationRef {
            tenant: TenantId::default(),
            conversation_id: ConversationId::new(format!("conversation-{index}")),
            user_id: UserId::new(format!("user-{index}")),
        });
        let references = references.collect();
        let mut slots = Vec::new();
        for conversation in 0..conversations {
            for _ in 0..=random.index(3) {
                let mode = *random.pick(&[Mode::Voice, Mode::Text]);
                slots.push(Slot::new(conversation, mode, &mut random));
            }
        }
        let mut world = Self {
            now_us: 0,
            clock_us: Arc::default(),
            agenda: Agenda::default(),
            rows: match &plan.folder {
                Some(folder) => Rows::Sqlite(folder.clone()),
                None => Rows::Memory(None),
            },
            processes: Vec::new(),
            conversations: references,
            slots,
            lives: Vec::new(),
            dirty: BTreeSet::new(),
            mood: StoreMood::Up,
            has_odd_clocks: random.one_in(3),
            has_spellings: random.one_in(3),
            had_two_owners: false,
            outside: Outside::default(),
            intents: Intents::default(),
            judge: Judge::of(conversations),
            tokens: Vec::new(),
            edition: Edition::First,
            limits: limits(is_long, &mut random),
            is_long,
            rests_until_us: 0,
            is_calm: false,
            last_id: 0,
            report: Report::default(),
            digest: plan.is_compared.then(Digest::default),
            is_traced: plan.is_traced,
            random,
        };
        world.start_process();
        world
    }

    pub(crate) fn live(&mut self, steps: u32) {
        for _ in 0..steps {
            if self.is_broken() {
                break;
            }
            self.step();
            self.go_on();
            self.report.counts.steps += 1;
        }
        if !self.is_broken() {
            self.settle();
        }
        self.report.digest = self.digest.as_ref().map(Digest::sum);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.report.violation.is_some()
    }

    pub(crate) fn broken(&mut self, rule: Rule, what: impl Into<String>) {
        let what = what.into();
        self.trace(|| format!("BROKEN {rule}: {what}"));
        self.report
            .violation
            .get_or_insert(Violation { rule, what });
    }

    pub(crate) fn trace(&mut self, line: impl FnOnce() -> String) {
        if self.is_traced {
            let line: String = line().chars().take(4_000).collect();
            let now_ms = self.now_us / 1_000;
            self.report.trace.push(format!("{now_ms:>9} ms {line}"));
        }
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        self.trace(|| format!("FAULT {fault:?}"));
        self.report.counts.fault(fault);
    }

    pub(crate) fn mint(&mut self, kind: &str) -> String {
        self.last_id += 1;
        format!("{kind}-{}", self.last_id)
    }

    pub(crate) fn is_stopped(&self, process: usize) -> bool {
        self.processes[process].is_stopped
    }

    /// Lets time pass, with its due events.
    pub(crate) fn advance(&mut self, until_us: u64) {
        self.go_on();
        while !self.is_broken() {
            let deadline = self.next_deadline();
            let due_us = self.agenda.next_us();
            let next_us = match (deadline, due_us) {
                (Some((at_us, _)), Some(due_us)) => at_us.min(due_us),
                (Some((at_us, _)), None) => at_us,
                (None, Some(due_us)) => due_us,
                (None, None) => break,
            };
            if next_us > until_us {
                break;
            }
            self.set_time(next_us.max(self.now_us));
            match deadline {
                Some((at_us, live)) if at_us <= next_us && due_us.is_none_or(|due| at_us < due) => {
                    self.hear(live, Input::Tick);
                }
                _ => {
                    if let Some(due) = self.agenda.take() {
                        self.happen(due);
                    }
                }
            }
            self.go_on();
        }
        self.set_time(until_us.max(self.now_us));
    }

    fn set_time(&mut self, now_us: u64) {
        self.now_us = now_us;
        self.clock_us.store(now_us, Ordering::Relaxed);
    }

    /// The next deadline, and its session.
    fn next_deadline(&self) -> Option<(u64, usize)> {
        let lives = self.lives.iter().enumerate();
        let due = lives.filter_map(|(id, live)| {
            let live = live.as_deref()?;
            let deadline = live.session.next_deadline()?;
            let is_heard = !self.processes[live.process].is_stopped;
            let at_us = live.started_us + live.clock.world_us(deadline.0);
            is_heard.then_some((at_us, id))
        });
        due.min()
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Land { request } => self.land(request),
            Due::CallBack(call) => self.call_back(call),
            Due::Wake { process } => self.wake(process),
            Due::Within {
                process,
                life,
                what,
            } => {
                let place = &mut self.processes[process];
                if place.life != life || !place.is_up {
                    return;
                }
                if place.is_stopped {
                    let what = Due::Within {
                        process,
                        life,
                        what,
                    };
                    return place.held_back.push(what);
                }
                self.happen_within(process, what);
            }
        }
    }

    /// Every session and process with new input takes it.
    pub(crate) fn go_on(&mut self) {
        loop {
            while let Some(live) = self.dirty.pop_first() {
                self.pump(live);
                if self.is_broken() {
                    return;
                }
            }
            // A dead process is followed at once; a stopped one is taken for dead.
            if self.serving().is_empty() {
                self.start_process();
            }
            for place in self.serving() {
                self.poll_process(place);
            }
            if self.dirty.is_empty() {
                return;
            }
        }
    }

    pub(crate) fn dirty_all(&mut self, process: usize) {
        let lives = self.lives.iter().enumerate();
        let of_process = lives.filter(|(_, live)| {
            let live = live.as_deref();
            live.is_some_and(|live| live.process == process)
        });
        self.dirty.extend(of_process.map(|(id, _)| id));
    }
}

/// The limits of a store.
fn limits(is_long: bool, random: &mut Random) -> StoreLimits {
    const HOUR_MS: u64 = 60 * 60 * 1_000;
    let usual = StoreLimits::default();
    if !is_long {
        return usual;
    }
    StoreLimits {
        effect_ms: *random.pick(&[24, 24, 72, 240]) * HOUR_MS,
        // Many conversations are kept for longer than the effects in them.
        conversation_ms: *random.pick(&[24, 240, 720, 720, 720]) * HOUR_MS,
        ..usual
    }
}
