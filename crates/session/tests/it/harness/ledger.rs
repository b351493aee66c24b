//! The bench's ledger: the store in memory, behind switches for what a disk may do. Batches are carried out in their order.

use super::names::Names;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_contract::envelope::{Outcome, ToolResponse, meta_without_tool};
use windlass_contract::handler::Finding;
use windlass_contract::id::{CallNumber, ConversationId, EffectId, TenantId, UserId};
use windlass_contract::sensitive::Sensitive;
use windlass_session::io::StoreProblem;
use windlass_store::command::{Command, Found, FoundState, Reply};
use windlass_store::{
    Batch, ConversationRef, Effect, MemoryStore, Nonce, OwnerId, QuestionNumber, ServerKey, Store,
    StoreLimits, StoreSettings, TaskShares, Token,
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Everything,
    /// It answers nothing, and carries out later what it was asked.
    Slow,
    Nothing,
}

/// What the store does with outcomes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Recording {
    Works,
    Fails,
    Hangs,
}

/// Who waits for the answer.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    Decision(CallNumber),
    Record(CallNumber, EffectId),
    Abandon(EffectId),
    Nothing,
    /// A command that was given up before it was answered.
    Abandoned,
}

#[derive(Clone, Debug)]
pub(super) struct SentRequest {
    pub(super) leg: usize,
    pub(super) purpose: Purpose,
    pub(super) nonce: Option<Nonce>,
    pub(super) command: Command,
}

/// What a leg is told.
pub(super) struct SentAnswer {
    pub(super) leg: usize,
    pub(super) purpose: Purpose,
    pub(super) reply: Result<Reply, StoreProblem>,
}

pub(super) struct Ledger {
    pub(super) store: MemoryStore,
    pub(super) of: ConversationRef,
    pub(super) takes: Takes,
    pub(super) recording: Recording,
    /// What a handler finds out that is asked about an effect; `None` where it does not say in time.
    pub(super) finding: Option<Finding>,
    pub(super) is_disk_full: bool,
    clock: Arc<AtomicU64>,
    owners: u32,
    queue: VecDeque<SentRequest>,
    /// What the store did not take, and must not be lost.
    kept: VecDeque<SentRequest>,
    looking_up: Vec<(SentRequest, Box<Effect>, u64)>,
    tokens: BTreeMap<QuestionNumber, Token>,
}

impl Ledger {
    pub(super) fn new(now_unix_ms: u64) -> Self {
        let clock = Arc::new(AtomicU64::new(now_unix_ms));
        Self {
            store: MemoryStore::new(settings(&clock, 1)),
            of: ConversationRef {
                tenant: TenantId::new("t-1"),
                conversation_id: ConversationId::new("c-1"),
                user_id: UserId::new("u-1"),
            },
            takes: Takes::Everything,
            recording: Recording::Works,
            finding: Some(Finding::Unknown),
            is_disk_full: false,
            clock,
            owners: 1,
            queue: VecDeque::new(),
            kept: VecDeque::new(),
            looking_up: Vec::new(),
            tokens: BTreeMap::new(),
        }
    }

    pub(super) fn set_time(&self, now_unix_ms: u64) {
        self.clock.store(now_unix_ms, Ordering::Relaxed);
    }

    /// The process ends, and with it all that the store has not taken.
    pub(super) fn restart(&mut self) {
        self.owners += 1;
        let settings = settings(&self.clock, self.owners);
        self.store = self.store.for_another_process(settings);
        self.queue.clear();
        self.kept.clear();
        self.looking_up.clear();
    }

    pub(super) fn token(&self, number: u32) -> Option<Token> {
        self.tokens.get(&QuestionNumber(number)).cloned()
    }

    pub(super) fn remember(&mut self, token: Token) {
        self.tokens.insert(token.question, token);
    }

    pub(super) fn ask(&mut self, asked: SentRequest) {
        if let Command::Abandon { nonce, .. } = &asked.command {
            let is_meant = |other: &SentRequest| other.nonce == Some(*nonce);
            for other in self.queue.iter_mut().filter(|other| is_meant(other)) {
                other.purpose = Purpose::Abandoned;
            }
            self.looking_up.retain(|(other, ..)| !is_meant(other));
        }
        self.queue.push_back(asked);
    }

    /// Carries out one thing that is asked at once.
    pub(super) fn commit(&self, command: Command) -> Reply {
        let batch = Batch {
            conversation: self.of.clone(),
            commands: vec![command],
        };
        let replies = self.store.commit(&[batch]).unwrap();
        replies.into_iter().flatten().next_back().unwrap()
    }

    /// Carries out what can be carried out, and gives what is answered.
    pub(super) fn run(&mut self, names: &mut Names, text: &mut String) -> Vec<SentAnswer> {
        let mut answers = Vec::new();
        while self.takes == Takes::Everything {
            let Some(asked) = self.kept.front().cloned() else {
                break;
            };
            if is_record(&asked) && self.recording != Recording::Works {
                break;
            }
            self.kept.pop_front();
            self.commit(asked.command);
        }
        while let Some(asked) = self.queue.pop_front() {
            let hangs = self.recording == Recording::Hangs
                && (is_record(&asked) || self.kept.iter().any(is_record));
            if self.takes == Takes::Slow || hangs {
                self.queue.push_front(asked);
                break;
            }
            let fails = is_record(&asked) && self.recording == Recording::Fails;
            if self.takes == Takes::Nothing || fails || !self.kept.is_empty() {
                self.fail(asked, &mut answers);
            } else {
                let reply = self.commit(asked.command.clone());
                self.answer(asked, reply, names, text, &mut answers);
            }
        }
        answers
    }

    fn fail(&mut self, asked: SentRequest, answers: &mut Vec<SentAnswer>) {
        let problem = "disk full".to_owned();
        answers.push(SentAnswer {
            leg: asked.leg,
            purpose: asked.purpose.clone(),
            reply: Err(StoreProblem { problem }),
        });
        let may_be_lost = matches!(
            asked.command,
            Command::Request(_)
                | Command::Answer(_)
                | Command::Save { .. }
                | Command::Leave(_)
                | Command::Heard { .. }
        );
        if !may_be_lost {
            self.kept.push_back(asked);
        }
    }

    fn answer(
        &mut self,
        asked: SentRequest,
        mut reply: Reply,
        names: &mut Names,
        text: &mut String,
        answers: &mut Vec<SentAnswer>,
    ) {
        while let Reply::LookUp {
            effect,
            now_unix_ms,
        } = reply
        {
            writeln!(
                text,
                "look up {} of {}",
                names.of(&effect.effect_id),
                effect.tool
            )
            .unwrap();
            let Some(finding) = self.finding.clone() else {
                return self.looking_up.push((asked, effect, now_unix_ms));
            };
            reply = self.found(&asked, &effect, now_unix_ms, finding);
        }
        if let Reply::Ask(question) = &reply {
            self.remember(question.token.clone());
        }
        answers.push(SentAnswer {
            leg: asked.leg,
            purpose: asked.purpose,
            reply: Ok(reply),
        });
    }

    fn found(
        &self,
        asked: &SentRequest,
        effect: &Effect,
        began_unix_ms: u64,
        finding: Finding,
    ) -> Reply {
        self.commit(found(effect, began_unix_ms, finding));
        self.commit(asked.command.clone())
    }

    /// A handler says what it has found out, of the lookup that waits longest.
    pub(super) fn finish_lookup(
        &mut self,
        finding: Finding,
        names: &mut Names,
        text: &mut String,
    ) -> Vec<SentAnswer> {
        let (asked, effect, began_unix_ms) = self.looking_up.remove(0);
        let reply = self.found(&asked, &effect, began_unix_ms, finding);
        let mut answers = Vec::new();
        self.answer(asked, reply, names, text, &mut answers);
        answers
    }

    /// What the process does now and then without being asked.
    pub(super) fn sweep(&self) {
        let due = self.store.due().unwrap();
        for _ in due.lapsed {
            self.commit(Command::Settle);
        }
        for (_, effect) in self.store.due().unwrap().lookups {
            let effect_id = effect.effect_id.clone();
            if let Reply::LookUp {
                effect,
                now_unix_ms,
            } = self.commit(Command::LookUp { effect_id })
                && let Some(finding) = self.finding.clone()
            {
                self.commit(found(&effect, now_unix_ms, finding));
            }
        }
    }
}

fn found(effect: &Effect, began_unix_ms: u64, finding: Finding) -> Command {
    let (finding, receipt) = match finding {
        Finding::Happened(success) => {
            let response = ToolResponse {
                outcome: Outcome::Success {
                    data: success.data,
                    content: success.content,
                },
                intents: Vec::new(),
                meta: meta_without_tool(effect.tool.as_str(), "1.0.test0000".into(), began_unix_ms),
            };
            let receipt = serde_json::to_string(&response).unwrap();
            (FoundState::Happened, Some(Sensitive(receipt)))
        }
        Finding::NotHappened => (FoundState::NotHappened, None),
        Finding::Unknown => (FoundState::Unknown, None),
    };
    Command::Found(Box::new(Found {
        effect_id: effect.effect_id.clone(),
        began_unix_ms,
        finding,
        receipt,
        values: None,
    }))
}

fn is_record(asked: &SentRequest) -> bool {
    matches!(asked.command, Command::Record(_))
}

fn settings(clock: &Arc<AtomicU64>, owner: u32) -> StoreSettings {
    let clock = clock.clone();
    StoreSettings {
        key: ServerKey::new([7; 32]),
        owner: OwnerId(format!("process-{owner}")),
        clock: Arc::new(move || clock.load(Ordering::Relaxed)),
        limits: StoreLimits {
            tasks: TaskShares {
                user_max: 6,
                ..TaskShares::default()
            },
            ..StoreLimits::default()
        },
    }
}
