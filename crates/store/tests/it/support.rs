//! Both engines behind one fixture, and commands with defaults.

use crate::ledger::{LEASE_MS, QUESTION_MS, new_leg, nonce, one, settings};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use windlass_contract::condition::LocalClock;
use windlass_contract::handler::Block;
use windlass_contract::id::{ClientId, EffectId, SessionId, ToolId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{
    AnswerVerdict, Approval, ApprovalAnswer, Command, OpenQuestion, Record, Reply, Request,
    RequestOrigin, Run, ToolFacts,
};
use windlass_store::{
    AttemptNumber, AttemptOutcome, Beginner, ConversationRef, EntryEvent, LegNumber, LegRef,
    MemoryStore, NewEntry, NewStanding, SqliteStore, Store, StoreLimits,
};

pub(crate) const START_UNIX_MS: u64 = 1_700_000_000_000;

/// A store under test, its clock, and the process that has it.
pub(crate) struct World {
    engine: Engine,
    pub(crate) clock: Arc<AtomicU64>,
    limits: StoreLimits,
}

enum Engine {
    Memory(MemoryStore),
    /// `None` between two processes.
    Sqlite(TempDir, Option<Box<SqliteStore>>),
}

impl World {
    pub(crate) fn in_memory(limits: StoreLimits) -> Self {
        let clock = Arc::new(AtomicU64::new(START_UNIX_MS));
        Self {
            engine: Engine::Memory(MemoryStore::new(settings(&clock, "process 1", limits))),
            clock,
            limits,
        }
    }

    pub(crate) fn in_sqlite(limits: StoreLimits) -> Self {
        let clock = Arc::new(AtomicU64::new(START_UNIX_MS));
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path(), settings(&clock, "process 1", limits));
        Self {
            engine: Engine::Sqlite(folder, Some(Box::new(store.unwrap()))),
            clock,
            limits,
        }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        match &self.engine {
            Engine::Memory(store) => store,
            Engine::Sqlite(_, store) => store.as_deref().unwrap(),
        }
    }

    /// The process ends, and another goes on with what was kept.
    pub(crate) fn restart(&mut self, owner: &str) {
        let settings = settings(&self.clock, owner, self.limits);
        match &mut self.engine {
            Engine::Memory(store) => *store = store.for_another_process(settings),
            Engine::Sqlite(folder, store) => {
                drop(store.take());
                let opened = SqliteStore::open(folder.path(), settings).unwrap();
                *store = Some(Box::new(opened));
            }
        }
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    pub(crate) fn send(&self, conversation: &ConversationRef, command: Command) -> Reply {
        one(self.store(), conversation, command)
    }

    /// A leg begins.
    pub(crate) fn attach(&self, conversation: &ConversationRef, leg: &str) -> LegRef {
        attach(self.store(), conversation, leg)
    }

    /// Deletes until nothing is left to delete; gives how many rows.
    pub(crate) fn prune(&self) -> usize {
        let mut rows = 0;
        loop {
            match self.store().prune().unwrap() {
                0 => return rows,
                pruned => rows += pruned,
            }
        }
    }
}

/// Opens a folder's store as one process with the machine's clock at a time.
pub(crate) fn open_at(folder: &Path, now_unix_ms: u64) -> SqliteStore {
    let clock = Arc::new(AtomicU64::new(now_unix_ms));
    let settings = settings(&clock, "process 1", StoreLimits::default());
    SqliteStore::open(folder, settings).unwrap()
}

pub(crate) fn open(folder: &Path) -> SqliteStore {
    open_at(folder, START_UNIX_MS)
}

pub(crate) fn attach(store: &dyn Store, conversation: &ConversationRef, leg: &str) -> LegRef {
    let opened = one(store, conversation, Command::Open(Beginner::default()));
    assert!(matches!(opened, Reply::Opened(_)), "{opened:?}");
    let reply = one(store, conversation, Command::Attach(Box::new(new_leg(leg))));
    let Reply::Attached { epoch } = reply else {
        panic!("{reply:?}");
    };
    LegRef {
        leg: SessionId::new(leg),
        epoch,
    }
}

pub(crate) fn tool() -> ToolFacts {
    ToolFacts {
        id: ToolId::parse("table_book").unwrap(),
        version: "1.0.0".to_owned(),
        handler_hash: None,
        writes: true,
        is_background: false,
        is_external: false,
        idempotent: false,
        repeatable: false,
        has_lookup: false,
        key_spec: Arc::default(),
    }
}

/// A request for an effect of its own; the number tells it from all others.
pub(crate) fn request(number: u64, leg: &LegRef) -> Request {
    let arguments = format!("{{\"at\":\"{number}\"}}");
    Request {
        nonce: nonce(number),
        effect_id: EffectId::new(format!("effect-{number}")),
        leg: leg.clone(),
        call: number,
        tool: tool(),
        arguments: Sensitive(arguments.clone()),
        effect_arguments: Sensitive(arguments.clone()),
        near_arguments: Sensitive(arguments),
        origin: RequestOrigin::Model {
            delivery: format!("call_{number}"),
            generation: 1,
        },
        onset: None,
        may_run: true,
        needs_consent: false,
        because: None,
        clock: None,
        standing_values: None,
        ignores_external_content: false,
        can_ask: true,
        mode: Mode::Voice,
        preview: Sensitive("Book a table".to_owned()),
        lease_ms: LEASE_MS,
        question_ms: QUESTION_MS,
        intent: Sensitive("{}".to_owned()),
        input: None,
    }
}

pub(crate) fn requested(number: u64, leg: &LegRef) -> Command {
    Command::Request(Box::new(request(number, leg)))
}

/// The same, of a tool that needs consent.
pub(crate) fn asking(number: u64, leg: &LegRef) -> Command {
    Command::Request(Box::new(Request {
        needs_consent: true,
        because: Some("the condition holds: true".to_owned()),
        clock: Some(LocalClock::new([(0, 3_600)])),
        ..request(number, leg)
    }))
}

pub(crate) fn ran(reply: Reply) -> Run {
    match reply {
        Reply::Run(run) => *run,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn asked(reply: Reply) -> OpenQuestion {
    match reply {
        Reply::Ask(asked) => *asked,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn answered(number: u64, asked: &OpenQuestion, is_yes: bool) -> Command {
    let approval = Approval {
        tool: Some(tool()),
        may_run: true,
        remember: None,
        lease_ms: LEASE_MS,
        question_ms: QUESTION_MS,
        intent: Sensitive("{}".to_owned()),
    };
    Command::Answer(Box::new(ApprovalAnswer {
        nonce: nonce(number),
        effect_id: EffectId::new(format!("effect-{number}")),
        token: asked.token.clone(),
        verdict: match is_yes {
            true => AnswerVerdict::Approved(Box::new(approval)),
            false => AnswerVerdict::Denied {
                reason: Some(Sensitive("too dear".to_owned())),
            },
        },
        again: None,
    }))
}

/// The value by which approvals are remembered here.
pub(crate) const PLACE: &str = r#"{"/folder":"Reports"}"#;
pub(crate) const MINUTES_MS: u64 = 60_000;

/// A yes that is to stand for ten minutes.
pub(crate) fn remembered(number: u64, asked: &OpenQuestion) -> Command {
    let mut command = answered(number, asked, true);
    if let Command::Answer(answer) = &mut command
        && let AnswerVerdict::Approved(approval) = &mut answer.verdict
    {
        approval.remember = Some(NewStanding {
            values: Sensitive(PLACE.to_owned()),
            lasts_ms: 10 * MINUTES_MS,
            client_id: Some(ClientId::new("phone")),
        });
    }
    command
}

/// The first attempt at an effect ends.
pub(crate) fn recorded(number: u64, outcome: AttemptOutcome) -> Command {
    Command::Record(Box::new(Record {
        next_attempt_ms: None,
        effect_id: EffectId::new(format!("effect-{number}")),
        attempt: AttemptNumber(1),
        outcome,
        receipt: Some(Sensitive(format!("{{\"number\":{number}}}"))),
        asks: None,
        values: None,
    }))
}

pub(crate) fn said(number: u64, key: Option<&str>, text: &str) -> NewEntry {
    NewEntry {
        leg_number: Some(LegNumber(number)),
        key: key.map(str::to_owned),
        event: EntryEvent::Said(Sensitive(text.to_owned())),
    }
}

pub(crate) fn appended(leg: &LegRef, entries: Vec<NewEntry>) -> Command {
    Command::Append {
        leg: leg.clone(),
        entries,
    }
}

pub(crate) fn block(user: &str, until_unix_ms: u64, farewell_message: &str) -> Block {
    Block {
        user_id: UserId::new(user),
        until_unix_ms,
        farewell_message: farewell_message.to_owned(),
    }
}
