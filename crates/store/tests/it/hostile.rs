//! Random worlds in which everything goes wrong that can: requests that land late, processes that die or are stopped beyond
//! their leases, replies that are lost, clocks that jump, two legs that ask for the same. The judge believes only the outside:
//! two requests that took effect are a violation unless the later ran on an approval whose question named the earlier.

use crate::ledger::{conversation, new_leg, nonce, onset};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_contract::id::{ClientId, EffectId, SessionId, ToolId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{
    AnswerVerdict, Approval, ApprovalAnswer, Command, Found, FoundState, OpenQuestion, Record,
    Refusal, Reply, Request, RequestOrigin, Run, ToolFacts, WithdrawnQuestion,
};
use windlass_store::{
    AttemptNumber, AttemptOutcome, Batch, Beginner, ConversationRef, EffectState, LOCK_FILE,
    LegNumber, LegRef, MemoryStore, Nonce, OwnerId, Presented, QuestionNumber, ServerKey,
    SqliteStore, Store, StoreLimits, StoreSettings,
};

/// More of them are run by changing this number.
const SEEDS: u64 = 2_000;
const SQLITE_SEEDS: u64 = 12;
const STEPS: usize = 90;

const LEASE_MS: u64 = 6_000;
const LANDING_MS: u64 = 4_000;
const QUESTION_MS: u64 = 12_000;
const HOUR_MS: u64 = 3_600_000;
const START_UNIX_MS: u64 = 1_700_000_000_000;

/// The key of nested calls, beside two of the tool's own.
const NESTED: usize = 2;

/// Opens one and the same store for a further process.
type Engine = dyn Fn(StoreSettings) -> Arc<dyn Store>;

#[test]
fn nothing_is_done_twice_or_unasked() {
    let mut totals = BTreeMap::new();
    for seed in 0..SEEDS {
        check(seed, in_memory, &mut totals);
    }
    for reply in [
        "Run", "Ask", "Attach", "Replay", "LookUp", "Unknown", "Denied", "Expired",
    ] {
        assert!(
            totals.get(reply).is_some_and(|count| *count > 100),
            "{reply} of {totals:?}"
        );
    }
}

#[test]
fn sqlite_replies_the_same() {
    for seed in 0..SQLITE_SEEDS {
        let in_memory = run(seed, in_memory(), Some(Vec::new()));
        let on_sqlite = run(seed, on_sqlite(), Some(Vec::new()));
        for (place, pair) in in_memory.lines().iter().zip(on_sqlite.lines()).enumerate() {
            assert_eq!(pair.0, pair.1, "seed {seed}, {place}");
        }
        assert_eq!(in_memory.counts, on_sqlite.counts);
    }
}

/// One file for all processes of a world. Each takes the lock file of that before away: the program never does.
fn on_sqlite() -> Box<Engine> {
    let folder = tempfile::tempdir().unwrap();
    Box::new(move |settings| {
        let lock = folder.path().join(LOCK_FILE);
        if lock.exists() {
            std::fs::remove_file(lock).unwrap();
        }
        Arc::new(SqliteStore::open(folder.path(), settings).unwrap())
    })
}

/// One store that forgets, for all processes of a world.
fn in_memory() -> Box<Engine> {
    let first = RefCell::new(None);
    Box::new(move |settings| {
        let mut first = first.borrow_mut();
        let store: &MemoryStore = first.get_or_insert_with(|| MemoryStore::new(settings.clone()));
        Arc::new(store.for_another_process(settings))
    })
}

/// Runs the world of a seed. One with a violation runs once more, and then tells what happened.
fn check(seed: u64, new_engine: fn() -> Box<Engine>, totals: &mut BTreeMap<&'static str, u64>) {
    let first = catch_unwind(AssertUnwindSafe(|| run(seed, new_engine(), None)));
    let world = first.unwrap_or_else(|_| run(seed, new_engine(), Some(Vec::new())));
    for (what, count) in world.counts {
        *totals.entry(what).or_default() += count;
    }
}

fn run(seed: u64, engine: Box<Engine>, history: Option<Vec<String>>) -> World {
    let mut world = World::new(seed, engine, history);
    for _ in 0..STEPS {
        world.step();
    }
    world.finish();
    world
}

/// What the world is like.
struct Policy {
    consent: bool,
    idempotent: bool,
    lookup: bool,
    repeatable: bool,
}

struct World {
    seed: u64,
    random: Random,
    engine: Box<Engine>,
    policy: Policy,
    conversation: ConversationRef,
    clock: Arc<AtomicU64>,
    processes: Vec<Process>,
    legs: Vec<Leg>,
    calls: Vec<Call>,
    attempts: Vec<Attempt>,
    lookups: Vec<Lookup>,
    /// Questions that the user has seen.
    shown: Vec<OpenQuestion>,
    /// Questions to which the user's no is stored.
    denied: BTreeSet<QuestionNumber>,
    /// What the outside has taken, where it takes each effect once.
    taken: BTreeSet<EffectId>,
    /// Effects with a stored success.
    recorded: BTreeSet<EffectId>,
    last_request: Option<Request>,
    is_tainted: bool,
    made: u64,
    applied: u64,
    weights: BTreeMap<&'static str, u64>,
    counts: BTreeMap<&'static str, u64>,
    /// `None` where nobody asks.
    history: Option<Vec<String>>,
}

struct Process {
    store: Arc<dyn Store>,
    /// By how much its clock is off.
    offset: Arc<AtomicU64>,
    state: ProcessState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProcessState {
    Alive,
    Stopped,
    Dead,
}

struct Leg {
    leg: LegRef,
    process: usize,
    generation: u64,
    entries: u64,
    onset: Option<LegNumber>,
}

/// A command on its way, and who waits for its reply.
#[derive(Clone)]
struct Call {
    process: usize,
    command: Command,
    /// Copies that may still arrive.
    copies: u32,
    is_waiting: bool,
    is_applied: bool,
    key: usize,
    /// Its place among all commands that began an attempt.
    ran_as: Option<u64>,
}

struct Attempt {
    key: usize,
    began_as: u64,
    effect_id: EffectId,
    number: AttemptNumber,
    process: usize,
    lease_end_unix_ms: u64,
    /// Effects that the approval named; `None` where nobody was asked.
    names: Option<BTreeSet<EffectId>>,
    is_sent: bool,
    fate: Fate,
    /// Its handler has told how it ended, or never will.
    is_over: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It may still take effect.
    Open,
    Landed,
    /// It never will.
    Dropped,
}

struct Lookup {
    process: usize,
    effect_id: EffectId,
    began_unix_ms: u64,
    /// What the outside knew when it was asked.
    has_happened: bool,
    /// The request that waits for it.
    call: Option<usize>,
}

impl World {
    fn new(seed: u64, engine: Box<Engine>, history: Option<Vec<String>>) -> Self {
        let mut random = Random(seed);
        let policy = Policy {
            consent: random.is(30),
            idempotent: random.is(30),
            lookup: random.is(70),
            repeatable: random.is(8),
        };
        let mut world = Self {
            seed,
            random,
            engine,
            policy,
            conversation: conversation("conversation", "alice"),
            clock: Arc::new(AtomicU64::new(START_UNIX_MS)),
            processes: Vec::new(),
            legs: Vec::new(),
            calls: Vec::new(),
            attempts: Vec::new(),
            lookups: Vec::new(),
            shown: Vec::new(),
            denied: BTreeSet::new(),
            taken: BTreeSet::new(),
            recorded: BTreeSet::new(),
            last_request: None,
            is_tainted: false,
            made: 0,
            applied: 0,
            weights: BTreeMap::new(),
            counts: BTreeMap::new(),
            history,
        };
        world.start_process();
        world.attach();
        if world.random.is(50) {
            world.attach();
        }
        world
    }

    fn step(&mut self) {
        let act = self.choose();
        self.note(|| act.to_owned());
        *self.counts.entry(act).or_default() += 1;
        match act {
            "request" => self.request(),
            "nested" => self.nested(),
            "redeliver" => self.redeliver(),
            "onset" => self.onset(),
            "yes" => self.answer(true),
            "no" => self.answer(false),
            "tick" => {
                let ms = self.random.of(&[1_000, 1_000, 2_000, 5_000]);
                self.clock.fetch_add(ms, Ordering::Relaxed);
            }
            "jump" => self.jump(),
            "heard" => self.heard(),
            "taint" => {
                self.apply_plain(Command::Taint);
                self.is_tainted = true;
            }
            "withdraw" => self.withdraw(),
            "send" => self.send(),
            "land" => self.land(),
            "drop" => {
                let attempt = self.pick_attempt(Attempt::may_land);
                self.attempts[attempt].fate = Fate::Dropped;
            }
            "end" => self.end(),
            "doubt" => self.doubt(),
            "retry" => self.retry(),
            "repeat" => self.repeat(),
            "abandon" => self.abandon(),
            "arrive" => self.arrive(),
            "sweep" => self.sweep(),
            "find" => self.find(),
            "crash" => self.crash(),
            "stop" => self.stop(),
            "go on" => self.go_on(),
            "reconnect" => {
                let leg = self.random.below(self.legs.len());
                self.legs[leg].generation += 1;
            }
            _ => unreachable!("{act}"),
        }
    }

    /// Each world likes some acts and hardly knows others.
    fn choose(&mut self) -> &'static str {
        const CORE: [&str; 8] = [
            "request", "yes", "tick", "send", "land", "drop", "end", "repeat",
        ];
        let has_attempt = |is_meant: &dyn Fn(&Attempt) -> bool| self.attempts.iter().any(is_meant);
        let may_send = has_attempt(&|attempt| self.may_send(attempt));
        let may_land = has_attempt(&Attempt::may_land);
        let may_end = has_attempt(&|attempt| self.may_end(attempt));
        let may_retry = has_attempt(&|attempt| self.may_retry(attempt));
        let waits = self.calls.iter().any(|call| self.waits(call));
        let arrives = self.calls.iter().any(|call| call.copies > 0);
        let has_stopped = |state| self.processes.iter().any(|process| process.state == state);
        let acts: [(&'static str, u64, bool); 26] = [
            ("request", 4, true),
            ("nested", 1, !self.policy.consent),
            ("redeliver", 1, self.last_request.is_some()),
            ("onset", 1, true),
            ("yes", 2, !self.shown.is_empty()),
            ("no", 1, !self.shown.is_empty()),
            ("tick", 2, true),
            ("jump", 1, true),
            ("heard", 1, true),
            ("taint", 1, self.random.clone().is(10)),
            ("withdraw", 1, !self.shown.is_empty()),
            ("send", 3, may_send),
            ("land", 3, may_land),
            ("drop", 1, may_land),
            ("end", 3, may_end),
            ("doubt", 1, may_end),
            ("retry", 1, may_retry),
            ("repeat", 3, waits),
            ("abandon", 1, waits),
            ("arrive", 2, arrives),
            ("sweep", 1, true),
            ("find", 2, !self.lookups.is_empty()),
            ("crash", 1, self.random.clone().is(40)),
            ("stop", 1, self.random.clone().is(40)),
            ("go on", 2, has_stopped(ProcessState::Stopped)),
            ("reconnect", 1, true),
        ];
        self.random.next();
        let mut weighed = Vec::new();
        for (act, weight, is_possible) in acts {
            let liking = match self.weights.get(act) {
                Some(liking) => *liking,
                None => {
                    let liking = match CORE.contains(&act) {
                        true => self.random.of(&[3, 10, 30]),
                        false => self.random.of(&[0, 0, 3, 10]),
                    };
                    self.weights.insert(act, liking);
                    liking
                }
            };
            if is_possible {
                weighed.push((act, weight * liking));
            }
        }
        let total: u64 = weighed.iter().map(|(_, weight)| weight).sum();
        let mut place = self.random.next() % total;
        for (act, weight) in weighed {
            match place.checked_sub(weight) {
                Some(rest) => place = rest,
                None => return act,
            }
        }
        "tick"
    }

    // ---- processes and legs

    fn start_process(&mut self) {
        let offset = Arc::new(AtomicU64::new(HOUR_MS));
        let (clock, off) = (self.clock.clone(), offset.clone());
        let settings = StoreSettings {
            key: ServerKey::new([7; 32]),
            owner: OwnerId(format!("process {}", self.processes.len())),
            clock: Arc::new(move || clock.load(Ordering::Relaxed) + off.load(Ordering::Relaxed)),
            limits: StoreLimits {
                landing_ms: LANDING_MS,
                ..StoreLimits::default()
            },
        };
        self.processes.push(Process {
            store: (self.engine)(settings),
            offset,
            state: ProcessState::Alive,
        });
    }

    /// One that is alive; there is always one.
    fn alive(&mut self) -> usize {
        let alive: Vec<usize> = (0..self.processes.len())
            .filter(|process| self.processes[*process].state == ProcessState::Alive)
            .collect();
        self.random.of(&alive)
    }

    fn is_alive(&self, process: usize) -> bool {
        self.processes[process].state == ProcessState::Alive
    }

    fn attach(&mut self) {
        let process = self.alive();
        let name = format!("leg {}", self.legs.len());
        self.apply(process, Command::Open(Beginner::default()));
        let reply = self.apply(process, Command::Attach(Box::new(new_leg(&name))));
        let Reply::Attached { epoch } = reply else {
            self.violation(&format!("attach: {reply:?}"));
        };
        let leg = LegRef {
            leg: SessionId::new(name),
            epoch,
        };
        self.legs.push(Leg {
            leg,
            process,
            generation: 1,
            entries: 0,
            onset: None,
        });
    }

    /// A process that is alive takes over the legs of another.
    fn take_over(&mut self, from: usize) {
        for leg in 0..self.legs.len() {
            if self.legs[leg].process != from {
                continue;
            }
            let process = self.alive();
            let resume_token = new_leg(self.legs[leg].leg.leg.as_str()).resume_token;
            let presented = Presented {
                resume_token,
                client_id: ClientId::new("phone"),
                user_id: UserId::new("alice"),
            };
            match self.apply(process, Command::Resume(presented)) {
                Reply::Resumed(resumed) => {
                    self.legs[leg].leg.epoch = resumed.leg.epoch;
                    self.legs[leg].process = process;
                    self.legs[leg].generation += 1;
                    for asked in resumed.questions {
                        self.shown.push(asked);
                    }
                }
                // Its time was up.
                Reply::NotResumed => self.legs[leg].process = process,
                other => self.violation(&format!("resume: {other:?}")),
            }
        }
    }

    /// What was sent may land still, and nothing else of the process ever happens, but for commands on their way.
    fn crash(&mut self) {
        let process = self.alive();
        self.processes[process].state = ProcessState::Dead;
        self.start_process();
        for call in 0..self.calls.len() {
            if self.calls[call].process == process {
                self.calls[call].is_waiting = false;
                if self.random.is(50) {
                    self.calls[call].copies = 0;
                }
            }
        }
        self.lookups.retain(|lookup| lookup.process != process);
        self.take_over(process);
    }

    /// Another process takes the stopped one for dead, and that goes on one day.
    fn stop(&mut self) {
        let process = self.alive();
        self.processes[process].state = ProcessState::Stopped;
        self.start_process();
        self.take_over(process);
    }

    fn go_on(&mut self) {
        let stopped = (0..self.processes.len())
            .filter(|process| self.processes[*process].state == ProcessState::Stopped);
        let stopped: Vec<usize> = stopped.collect();
        let process = self.random.of(&stopped);
        self.processes[process].state = ProcessState::Alive;
    }

    fn jump(&mut self) {
        let process = self.random.below(self.processes.len());
        let offset = self
            .random
            .of(&[0, HOUR_MS - 3_000, HOUR_MS, HOUR_MS + 3_000, 2 * HOUR_MS]);
        self.processes[process]
            .offset
            .store(offset, Ordering::Relaxed);
    }

    // ---- commands

    fn apply(&mut self, process: usize, command: Command) -> Reply {
        let batch = Batch {
            conversation: self.conversation.clone(),
            commands: vec![command],
        };
        let mut replies = self.processes[process].store.commit(&[batch]).unwrap();
        let reply = replies.remove(0).remove(0);
        *self.counts.entry(name(&reply)).or_default() += 1;
        self.note(|| format!("  process {process}: {reply:?}"));
        reply
    }

    fn apply_plain(&mut self, command: Command) {
        let process = self.alive();
        self.apply(process, command);
    }

    /// Sends a command, whose way there and back is unsafe.
    fn call(&mut self, call: Call) {
        self.note(|| format!("  {:?}", call.command));
        let place = self.calls.len();
        self.calls.push(call);
        match self.random.below(20) {
            // The reply is lost.
            0 | 1 => drop(self.deliver(place)),
            // It is on its way for long.
            2 | 3 => self.calls[place].copies += 1,
            // It never arrives.
            4 => {}
            _ => self.deliver_and_tell(place),
        }
    }

    /// Another copy of a command arrives at the store.
    fn deliver(&mut self, place: usize) -> Reply {
        let Call {
            process,
            command,
            is_applied,
            key,
            ..
        } = self.calls[place].clone();
        self.calls[place].is_applied = true;
        self.applied += 1;
        let reply = self.apply(process, command.clone());
        if let Reply::Run(_) = &reply {
            self.calls[place].ran_as.get_or_insert(self.applied);
        }
        if let (Reply::Run(run), false) = (&reply, is_applied)
            && self.is_tainted
            && run.question.is_none()
            && matches!(command, Command::Request(_))
            && key != NESTED
        {
            self.violation("ran unasked after external content");
        }
        match (&command, &reply) {
            (Command::Answer(answer), Reply::Denied(question))
                if matches!(answer.verdict, AnswerVerdict::Denied { .. }) =>
            {
                self.denied.insert(question.number);
            }
            (Command::Record(record), Reply::Recorded(_))
                if record.outcome == AttemptOutcome::Succeeded =>
            {
                self.recorded.insert(record.effect_id.clone());
            }
            (Command::Found(found), Reply::Recorded(_))
                if found.finding == FoundState::Happened =>
            {
                self.recorded.insert(found.effect_id.clone());
            }
            _ => {}
        }
        reply
    }

    fn deliver_and_tell(&mut self, place: usize) {
        let reply = self.deliver(place);
        if self.waits(&self.calls[place]) {
            self.calls[place].is_waiting = false;
            self.told(place, reply);
        }
    }

    /// Whether somebody is there who waits for its reply.
    fn waits(&self, call: &Call) -> bool {
        call.is_waiting && self.is_alive(call.process)
    }

    /// The process hears the reply to its command, once.
    fn told(&mut self, place: usize, reply: Reply) {
        let call = self.calls[place].clone();
        let is_answer = matches!(call.command, Command::Answer(_));
        match reply {
            Reply::Run(run) => self.start(&call, *run),
            Reply::Ask(asked) => self.shown.push(*asked),
            Reply::LookUp {
                effect,
                now_unix_ms,
            } => self.look_up(call.process, &effect.effect_id, now_unix_ms, Some(place)),
            Reply::Attach(_) | Reply::Replay(_) | Reply::Unknown(_) | Reply::Denied(_) => {}
            Reply::Expired | Reply::Changed(_) | Reply::Answered if is_answer => {}
            Reply::Refused(Refusal::NotAllowed | Refusal::NobodyToAsk | Refusal::NestedConsent) => {
            }
            Reply::Gone | Reply::Recorded(_) | Reply::Done if !is_answer => {}
            other => self.violation(&format!("{:?} was told {other:?}", call.command)),
        }
    }

    fn start(&mut self, call: &Call, run: Run) {
        let Some(effect_id) = run.effect_id else {
            self.violation("a run of no effect");
        };
        let names = run.question.as_ref().map(|question| {
            if self.denied.contains(&question.number) {
                self.violation("ran on a question to which the user said no");
            }
            let earlier = question.hazards.earlier.iter();
            earlier.map(|earlier| earlier.effect_id.clone()).collect()
        });
        self.attempts.push(Attempt {
            key: call.key,
            began_as: call.ran_as.unwrap_or_default(),
            effect_id,
            number: run.attempt,
            process: call.process,
            lease_end_unix_ms: run.lease_end_unix_ms,
            names,
            is_sent: false,
            fate: Fate::Open,
            is_over: false,
        });
    }

    /// A process waits for a reply, and asks again.
    fn repeat(&mut self) {
        let place = self.pick_call(|world, call| world.waits(call));
        match self.random.is(80) {
            true => self.deliver_and_tell(place),
            false => drop(self.deliver(place)),
        }
    }

    /// A process waits no more.
    fn abandon(&mut self) {
        let place = self.pick_call(|world, call| world.waits(call));
        let call = self.calls[place].clone();
        let (nonce, effect_id, question) = match &call.command {
            Command::Request(request) => (request.nonce, request.effect_id.clone(), None),
            Command::Answer(answer) => {
                let question = Some(answer.token.question);
                (answer.nonce, answer.effect_id.clone(), question)
            }
            // A record is sent until it is acknowledged.
            _ => return self.deliver_and_tell(place),
        };
        self.calls[place].is_waiting = false;
        self.call(Call {
            command: Command::Abandon {
                nonce,
                effect_id,
                question,
            },
            copies: 0,
            is_waiting: true,
            is_applied: false,
            ran_as: None,
            ..call.clone()
        });
    }

    /// A copy that was on its way for long arrives.
    fn arrive(&mut self) {
        let place = self.pick_call(|_, call| call.copies > 0);
        self.calls[place].copies -= 1;
        self.deliver_and_tell(place);
    }

    fn pick_call(&mut self, is_meant: impl Fn(&Self, &Call) -> bool) -> usize {
        let meant = (0..self.calls.len()).filter(|place| is_meant(self, &self.calls[*place]));
        let meant: Vec<usize> = meant.collect();
        self.random.of(&meant)
    }

    // ---- models, handlers and users

    fn mint(&mut self) -> (Nonce, EffectId, u64) {
        self.made += 1;
        let number = self.made;
        (
            nonce(number),
            EffectId::new(format!("effect {number}")),
            number,
        )
    }

    fn tool(&self) -> ToolFacts {
        ToolFacts {
            id: ToolId::parse("table_book").unwrap(),
            version: "1.0.0".to_owned(),
            handler_hash: None,
            writes: true,
            is_background: false,
            is_external: false,
            idempotent: self.policy.idempotent,
            repeatable: self.policy.repeatable,
            has_lookup: self.policy.lookup,
            key_spec: Arc::default(),
        }
    }

    fn a_request(&mut self, leg: usize, key: usize) -> Request {
        let (nonce, effect_id, number) = self.mint();
        let note = self.random.of(&["", "", "", "!"]);
        let leg = &self.legs[leg];
        Request {
            nonce,
            effect_id,
            leg: leg.leg.clone(),
            call: number,
            tool: self.tool(),
            arguments: Sensitive(format!("{{\"key\":{key},\"note\":\"{note}\"}}")),
            effect_arguments: Sensitive(format!("{{\"key\":{key}}}")),
            near_arguments: Sensitive(format!("{{\"key\":{key}}}")),
            origin: RequestOrigin::Model {
                delivery: format!("call_{number}"),
                generation: leg.generation,
            },
            onset: leg.onset,
            may_run: !self.random.is(3),
            needs_consent: self.policy.consent,
            because: None,
            clock: None,
            standing_values: None,
            ignores_external_content: false,
            can_ask: !self.random.is(10),
            mode: Mode::Voice,
            preview: Sensitive(String::new()),
            lease_ms: LEASE_MS,
            question_ms: QUESTION_MS,
            intent: Sensitive("{}".to_owned()),
            input: None,
        }
    }

    /// A leg of a process that is alive.
    fn any_leg(&mut self) -> Option<usize> {
        let leg = self.random.below(self.legs.len());
        // Stopped processes go on with legs that were taken from them: those hear that they are gone.
        self.is_alive(self.legs[leg].process).then_some(leg)
    }

    fn requests(&mut self, process: usize, request: Request, key: usize) {
        self.call(Call {
            process,
            command: Command::Request(Box::new(request)),
            copies: 0,
            is_waiting: true,
            is_applied: false,
            key,
            ran_as: None,
        });
    }

    fn request(&mut self) {
        let Some(leg) = self.any_leg() else { return };
        let key = self.random.of(&[0, 0, 0, 1]);
        let request = self.a_request(leg, key);
        self.last_request = Some(request.clone());
        self.requests(self.legs[leg].process, request, key);
    }

    fn nested(&mut self) {
        let Some(leg) = self.any_leg() else { return };
        let mut request = self.a_request(leg, NESTED);
        request.arguments = Sensitive("{}".to_owned());
        request.origin = RequestOrigin::Handler {
            parent: EffectId::new("parent"),
            ordinal: 1,
        };
        self.requests(self.legs[leg].process, request, NESTED);
    }

    /// The newest message comes again.
    fn redeliver(&mut self) {
        let Some(known) = self.last_request.clone() else {
            return;
        };
        let place = self
            .legs
            .iter()
            .position(|leg| leg.leg.leg == known.leg.leg);
        let Some(leg) = place.filter(|leg| self.is_alive(self.legs[*leg].process)) else {
            return;
        };
        let key = match known.effect_arguments.expose().as_str() {
            "{\"key\":0}" => 0,
            _ => 1,
        };
        let RequestOrigin::Model { delivery, .. } = known.origin else {
            return;
        };
        let again = Request {
            arguments: known.arguments,
            origin: RequestOrigin::Model {
                delivery,
                generation: self.legs[leg].generation,
            },
            ..self.a_request(leg, key)
        };
        self.requests(self.legs[leg].process, again, key);
    }

    fn onset(&mut self) {
        let Some(leg) = self.any_leg() else { return };
        self.legs[leg].entries += 1;
        let number = self.legs[leg].entries;
        self.legs[leg].onset = Some(LegNumber(number));
        let command = Command::Append {
            leg: self.legs[leg].leg.clone(),
            entries: vec![onset(number)],
        };
        self.apply(self.legs[leg].process, command);
    }

    /// The user answers a question that was shown, mostly the newest.
    fn answer(&mut self, is_yes: bool) {
        let newest = self.shown.len() - 1;
        let place = match self.random.is(80) {
            true => newest,
            false => self.random.below(self.shown.len()),
        };
        let token = self.shown[place].token.clone();
        let (nonce, effect_id, _) = self.mint();
        let approval = Approval {
            tool: Some(self.tool()),
            may_run: !self.random.is(3),
            remember: None,
            lease_ms: LEASE_MS,
            question_ms: QUESTION_MS,
            intent: Sensitive("{}".to_owned()),
        };
        let process = self.alive();
        let store = &self.processes[process].store;
        let question = store.question(&self.conversation, &token).unwrap();
        let arguments = question.map(|question| question.arguments.into_inner());
        let is_first = arguments.is_some_and(|arguments| arguments.starts_with("{\"key\":0"));
        let key = usize::from(!is_first);
        // The attempt before may have failed, and be tried again by the same approval.
        let mut before = self.attempts.iter().rev();
        let before = before.find(|attempt| attempt.key == key);
        let before = before.map(|attempt| attempt.number);
        let again = before.filter(|_| self.random.is(30));
        self.call(Call {
            process,
            command: Command::Answer(Box::new(ApprovalAnswer {
                nonce,
                effect_id,
                token,
                verdict: match is_yes {
                    true => AnswerVerdict::Approved(Box::new(approval)),
                    false => AnswerVerdict::Denied { reason: None },
                },
                again,
            })),
            copies: 0,
            is_waiting: true,
            is_applied: false,
            key,
            ran_as: None,
        });
    }

    fn withdraw(&mut self) {
        let Some(leg) = self.any_leg() else { return };
        let command = Command::Withdraw {
            leg: self.legs[leg].leg.clone(),
            questions: self
                .shown
                .iter()
                .map(|asked| WithdrawnQuestion {
                    question: asked.question.number,
                    last_entry: asked.question.last_entry,
                })
                .collect(),
        };
        self.apply(self.legs[leg].process, command);
    }

    fn heard(&mut self) {
        let effects: BTreeSet<EffectId> = self
            .attempts
            .iter()
            .map(|attempt| attempt.effect_id.clone())
            .collect();
        self.apply_plain(Command::Heard {
            effects: effects.into_iter().collect(),
            questions: self
                .shown
                .iter()
                .map(|asked| asked.question.number)
                .collect(),
        });
    }

    // ---- handlers

    fn may_send(&self, attempt: &Attempt) -> bool {
        !attempt.is_sent && !attempt.is_over && self.is_alive(attempt.process)
    }

    fn may_end(&self, attempt: &Attempt) -> bool {
        attempt.is_sent
            && attempt.fate != Fate::Open
            && !attempt.is_over
            && self.is_alive(attempt.process)
    }

    fn may_retry(&self, attempt: &Attempt) -> bool {
        self.may_end(attempt)
            && attempt.fate == Fate::Dropped
            && !self.taken.contains(&attempt.effect_id)
    }

    fn pick_attempt(&mut self, is_meant: impl Fn(&Attempt) -> bool) -> usize {
        let meant = (0..self.attempts.len()).filter(|place| is_meant(&self.attempts[*place]));
        let meant: Vec<usize> = meant.collect();
        self.random.of(&meant)
    }

    fn pick_mine(&mut self, is_meant: impl Fn(&Self, &Attempt) -> bool) -> usize {
        let meant = (0..self.attempts.len()).filter(|place| is_meant(self, &self.attempts[*place]));
        let meant: Vec<usize> = meant.collect();
        self.random.of(&meant)
    }

    /// The handler's request leaves: within the lease, but for one in ten whose process was stopped just before.
    fn send(&mut self) {
        let place = self.pick_mine(Self::may_send);
        let attempt = &self.attempts[place];
        let now_unix_ms = self.processes[attempt.process].store.now_unix_ms();
        let is_within = now_unix_ms < attempt.lease_end_unix_ms;
        self.attempts[place].is_sent = is_within || self.random.is(10);
    }

    /// What was sent takes effect.
    fn land(&mut self) {
        let place = self.pick_attempt(Attempt::may_land);
        let effect_id = self.attempts[place].effect_id.clone();
        if self.policy.idempotent && self.taken.contains(&effect_id) {
            self.attempts[place].fate = Fate::Dropped;
            return;
        }
        self.attempts[place].fate = Fate::Landed;
        self.taken.insert(effect_id);
        self.judge(place);
    }

    /// The handler hears how its request ended, and tells.
    fn end(&mut self) {
        let place = self.pick_mine(Self::may_end);
        let attempt = &mut self.attempts[place];
        attempt.is_over = true;
        let has_happened = attempt.fate == Fate::Landed
            || (self.policy.idempotent && self.taken.contains(&attempt.effect_id));
        // The answer may be lost, and nobody tells anything.
        if self.random.is(20) {
            return;
        }
        let outcome = match has_happened {
            true => AttemptOutcome::Succeeded,
            false => AttemptOutcome::Failed,
        };
        self.record(place, outcome);
    }

    /// The handler gives up waiting; it may hear more later.
    fn doubt(&mut self) {
        let place = self.pick_mine(Self::may_end);
        self.record(place, AttemptOutcome::Unknown);
        if self.random.is(50) {
            self.attempts[place].is_over = true;
        }
    }

    fn record(&mut self, place: usize, outcome: AttemptOutcome) {
        let attempt = &self.attempts[place];
        self.call(Call {
            process: attempt.process,
            command: Command::Record(Box::new(Record {
                next_attempt_ms: None,
                effect_id: attempt.effect_id.clone(),
                attempt: attempt.number,
                outcome,
                receipt: Some(Sensitive("{}".to_owned())),
                asks: None,
                values: None,
            })),
            copies: 0,
            is_waiting: true,
            is_applied: false,
            key: attempt.key,
            ran_as: None,
        });
    }

    /// The handler's request has failed for a moment, and the same message is asked about once more.
    fn retry(&mut self) {
        let place = self.pick_mine(Self::may_retry);
        self.attempts[place].is_over = true;
        self.record(place, AttemptOutcome::Failed);
        self.redeliver();
    }

    // ---- lookups

    fn look_up(
        &mut self,
        process: usize,
        effect_id: &EffectId,
        began_unix_ms: u64,
        call: Option<usize>,
    ) {
        self.lookups.push(Lookup {
            process,
            effect_id: effect_id.clone(),
            began_unix_ms,
            has_happened: self.taken.contains(effect_id),
            call,
        });
    }

    /// A process commits what has lapsed, and asks handlers about what is unknown.
    fn sweep(&mut self) {
        let process = self.alive();
        let due = self.processes[process].store.due().unwrap();
        if !due.lapsed.is_empty() {
            self.apply(process, Command::Settle);
        }
        if !self.policy.lookup {
            return;
        }
        for (_, effect) in due.lookups {
            let effect_id = effect.effect_id;
            let command = Command::LookUp {
                effect_id: effect_id.clone(),
            };
            if let Reply::LookUp { now_unix_ms, .. } = self.apply(process, command) {
                self.look_up(process, &effect_id, now_unix_ms, None);
            }
        }
    }

    /// A handler answers what became of an effect, by what the outside knew when it was asked.
    fn find(&mut self) {
        let place = self.random.below(self.lookups.len());
        let lookup = self.lookups.swap_remove(place);
        if !self.is_alive(lookup.process) {
            return;
        }
        let finding = match (lookup.has_happened, self.random.is(10)) {
            (_, true) => FoundState::Unknown,
            (true, false) => FoundState::Happened,
            (false, false) => FoundState::NotHappened,
        };
        self.call(Call {
            process: lookup.process,
            command: Command::Found(Box::new(Found {
                effect_id: lookup.effect_id,
                began_unix_ms: lookup.began_unix_ms,
                finding,
                receipt: None,
                values: None,
            })),
            copies: 0,
            is_waiting: true,
            is_applied: false,
            key: 0,
            ran_as: None,
        });
        // Then the same request is judged again.
        if let Some(call) = lookup.call {
            self.calls[call].is_waiting = true;
            self.deliver_and_tell(call);
        }
    }

    // ---- the judge

    fn judge(&mut self, new: usize) {
        let attempt = &self.attempts[new];
        if self.policy.consent && attempt.names.is_none() {
            self.violation("ran without consent");
        }
        if self.policy.repeatable && attempt.key != NESTED {
            return;
        }
        for other in 0..self.attempts.len() {
            let (one, two) = (&self.attempts[new], &self.attempts[other]);
            if other == new || one.key != two.key || two.fate != Fate::Landed {
                continue;
            }
            let (earlier, later) = match one.began_as < two.began_as {
                true => (one, two),
                false => (two, one),
            };
            if !later.names(earlier) {
                self.violation(&format!(
                    "two requests took effect ({} attempt {} and {} attempt {}), and no approval named the earlier",
                    earlier.effect_id, earlier.number.0, later.effect_id, later.number.0
                ));
            }
        }
    }

    /// Nothing runs for ever, no success is forgotten, and every answer is answered.
    fn finish(&mut self) {
        for process in 0..self.processes.len() {
            self.processes[process]
                .offset
                .store(HOUR_MS, Ordering::Relaxed);
        }
        self.clock.fetch_add(2 * HOUR_MS, Ordering::Relaxed);
        for place in 0..self.calls.len() {
            if self.waits(&self.calls[place]) {
                self.deliver_and_tell(place);
            }
        }
        self.clock.fetch_add(LEASE_MS, Ordering::Relaxed);
        self.apply_plain(Command::Settle);
        let process = self.alive();
        let store = self.processes[process].store.clone();
        for attempt in &self.attempts {
            let effect = store
                .effect(&self.conversation.tenant, &attempt.effect_id)
                .unwrap();
            let Some((_, effect)) = effect else {
                self.violation("an effect is gone");
            };
            if effect.state == EffectState::Running {
                self.violation(&format!("{} runs for ever", effect.effect_id));
            }
            if self.recorded.contains(&effect.effect_id) && effect.state != EffectState::Done {
                self.violation(&format!("the success of {} is forgotten", effect.effect_id));
            }
        }
        for number in self.shown.iter().map(|asked| asked.question.number) {
            if store
                .question_of_number(&self.conversation, number)
                .unwrap()
                .is_none()
            {
                self.violation("a question is gone");
            }
        }
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(history) = &mut self.history {
            history.push(what());
        }
    }

    fn lines(&self) -> &[String] {
        self.history.as_deref().unwrap_or_default()
    }

    fn violation(&self, what: &str) -> ! {
        panic!("{}\nseed {}: {what}", self.lines().join("\n"), self.seed);
    }
}

impl Attempt {
    fn may_land(&self) -> bool {
        self.is_sent && self.fate == Fate::Open
    }

    /// Whether it ran on an approval whose question named the effect of the other.
    fn names(&self, other: &Self) -> bool {
        let names = self.names.as_ref();
        names.is_some_and(|names| names.contains(&other.effect_id))
    }
}

fn name(reply: &Reply) -> &'static str {
    match reply {
        Reply::Run(_) => "Run",
        Reply::Ask(_) => "Ask",
        Reply::Attach(_) => "Attach",
        Reply::Replay(_) => "Replay",
        Reply::LookUp { .. } => "LookUp",
        Reply::Unknown(_) => "Unknown",
        Reply::Denied(_) => "Denied",
        Reply::Expired => "Expired",
        Reply::Refused(_) => "Refused",
        Reply::Gone => "Gone",
        _ => "other",
    }
}

/// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn is(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
