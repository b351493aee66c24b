//! Both engines are given the same commands, drawn at random, and say the same.

use crate::ledger::{HOUR_MS, conversation, new_leg, nonce};
use crate::support::{PLACE, World, answered, appended, remembered, request, said, tool};
use std::collections::BTreeMap;
use windlass_contract::id::{ClientId, EffectId, SessionId, TenantId, UserId};
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{
    CalledBack, Command, Found, FoundState, OpenQuestion, Record, Reply, Request, RequestOrigin,
    TaskProgress, ToolFacts, ValuesEntry, WithdrawnQuestion,
};
use windlass_store::{
    AttemptNumber, AttemptOutcome, Batch, Beginner, ConversationRef, ConversationShares, Effect,
    EntryEvent, EntryNumber, Epoch, Hash, LegNumber, LegRef, NewEntry, Presented, Progress,
    QuestionNumber, StoreLimits, TaskShares, WantedTasks,
};

const SEEDS: u64 = 4;
const STEPS: u64 = 400;

/// Conversations of two tenants.
const TALKS: usize = 6;

/// Few of everything, so that limits are met and names meet again.
const LIMITS: StoreLimits = StoreLimits {
    effect_ms: 6 * HOUR_MS,
    task_ms: 9 * HOUR_MS,
    tasks: TaskShares {
        user_max: 4,
        tenant_max: 6,
    },
    effects_max: 12,
    receipt_bytes_max: 40,
    questions_max: 3,
    standing_max: 2,
    question_bytes_max: 60,
    conversation_ms: 12 * HOUR_MS,
    shares: ConversationShares {
        address_max: 2,
        user_max: 3,
        tenant_max: 4,
    },
    entries_max: 25,
    entry_bytes_max: 40,
    leg_bytes_max: 20,
    landing_ms: 60_000,
};

/// Marsaglia's xorshift: the same numbers for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn text(&mut self, bytes_max: u64) -> String {
        "x".repeat(self.below(bytes_max) as usize)
    }

    fn questions(&mut self) -> Vec<QuestionNumber> {
        let last = self.below(8) as u32;
        (1..=last).map(QuestionNumber).collect()
    }
}

/// What there is to name in a command.
#[derive(Default)]
struct Seen {
    made: u64,
    asked: Vec<(usize, OpenQuestion)>,
    runs: Vec<(usize, EffectId)>,
    epochs: BTreeMap<(usize, SessionId), Epoch>,
}

impl Seen {
    /// The requests of a conversation, as they were when they were asked.
    fn withdrawn(&self, draw: &mut Draw, talk: usize) -> Vec<WithdrawnQuestion> {
        let newest = draw.below(8) as usize;
        let asked = self.asked.iter().rev().filter(|(of, _)| *of == talk);
        let withdrawn = asked.take(newest).map(|(_, asked)| WithdrawnQuestion {
            question: asked.question.number,
            last_entry: asked.question.last_entry,
        });
        withdrawn.collect()
    }

    fn leg(&self, draw: &mut Draw, talk: usize) -> LegRef {
        let leg = SessionId::new(format!("leg {}", draw.below(2)));
        let known = self.epochs.get(&(talk, leg.clone()));
        let stale = u32::from(draw.is(5));
        let epoch = Epoch(known.map_or(1, |epoch| epoch.0).saturating_sub(stale));
        LegRef { leg, epoch }
    }

    /// One that has begun in the conversation not long ago, or any.
    fn effect(&self, draw: &mut Draw, talk: usize) -> EffectId {
        let back = draw.below(4) as usize;
        let begun = self.runs.iter().rev().filter(|(of, _)| *of == talk);
        match begun.map(|(_, effect_id)| effect_id).nth(back) {
            Some(effect_id) if draw.is(95) => effect_id.clone(),
            _ => EffectId::new(format!("effect-{}", draw.below(self.made + 1))),
        }
    }

    fn effects(&self, draw: &mut Draw, talk: usize) -> Vec<EffectId> {
        let effects = draw.below(4);
        (0..effects).map(|_| self.effect(draw, talk)).collect()
    }

    fn note(&mut self, talk: usize, command: &Command, reply: Reply) {
        match (command, reply) {
            (Command::Attach(leg), Reply::Attached { epoch }) => {
                self.epochs.insert((talk, leg.leg.clone()), epoch);
            }
            (_, Reply::Resumed(resumed)) => {
                let leg = resumed.leg;
                self.epochs.insert((talk, leg.leg), leg.epoch);
            }
            (_, Reply::Run(run)) => {
                let effect_id = run.effect_id;
                self.runs
                    .extend(effect_id.map(|effect_id| (talk, effect_id)));
            }
            (_, Reply::Ask(asked)) => self.asked.push((talk, *asked)),
            _ => {}
        }
    }
}

fn talk(number: usize, user: &str) -> ConversationRef {
    let mut talk = conversation(&format!("talk {}", number % (TALKS / 2)), user);
    if number >= TALKS / 2 {
        talk.tenant = TenantId::new("other");
    }
    talk
}

/// Tokens of one leg's name, so that legs are begun anew and attached again.
const TOKENS: u64 = 3;

fn token(talk: usize, leg: u64, which: u64) -> Hash {
    let mut token = new_leg(&format!("leg {leg}")).resume_token;
    token[30] = which as u8;
    token[31] = talk as u8;
    token
}

fn draw_command(draw: &mut Draw, seen: &mut Seen, talk: usize) -> Command {
    seen.made += 1;
    let number = seen.made;
    let leg = seen.leg(draw, talk);
    match draw.below(30) {
        0..=1 => Command::Open(Beginner {
            address: Some(Sensitive([192, 0, 2, draw.below(2) as u8].into())),
            user: Some(ClientId::new(format!("user-{}", draw.below(2)))),
        }),
        2..=4 => {
            let which = draw.below(2);
            let mut new = new_leg(&format!("leg {which}"));
            new.resume_token = token(talk, which, draw.below(TOKENS));
            new.expires_in_ms = draw.below(20 * HOUR_MS);
            if draw.is(20) {
                new.client_id = ClientId::new("laptop");
            }
            Command::Attach(Box::new(new))
        }
        5 => {
            let which = draw.below(2);
            Command::Resume(Presented {
                resume_token: token(talk, which, draw.below(TOKENS)),
                client_id: ClientId::new("phone"),
                user_id: UserId::new("alice"),
            })
        }
        6 => Command::Save {
            leg,
            body: Sensitive(draw.text(24).into_bytes()),
            expires_in_ms: draw.below(20 * HOUR_MS),
        },
        7 => Command::Leave(leg),
        8..=11 => appended(&leg, draw_entries(draw)),
        12 if draw.is(10) => Command::Taint,
        12 if draw.is(10) => Command::Rename(Sensitive(draw.text(20))),
        12 if draw.is(10) => Command::Erase,
        12 if draw.is(30) => Command::Revoke {
            question: QuestionNumber(1 + draw.below(9) as u32),
            leg: draw.is(50).then(|| leg.leg.clone()),
        },
        12 => Command::Settle,
        13..=19 => draw_request(draw, seen, talk, &leg),
        20 | 21 => match seen.asked.iter().rev().find(|(of, _)| *of == talk) {
            Some((_, asked)) if draw.is(50) => remembered(number, asked),
            Some((_, asked)) => answered(number, asked, draw.is(70)),
            None => Command::Settle,
        },
        22 => Command::Abandon {
            nonce: nonce(number - 1),
            effect_id: EffectId::new(format!("effect-{}", number - 1)),
            question: seen.asked.last().map(|(_, asked)| asked.question.number),
        },
        23 => Command::Withdraw {
            leg,
            questions: seen.withdrawn(draw, talk),
        },
        24..=27 => draw_end(draw, seen, talk),
        28 if draw.is(30) => Command::CancelTask {
            effect_id: seen.effect(draw, talk),
        },
        28 if draw.is(30) => Command::Progress(Box::new(TaskProgress {
            effect_id: seen.effect(draw, talk),
            attempt: AttemptNumber(1),
            progress: Progress {
                message: Sensitive(draw.text(20)),
                fraction: None,
                at_unix_ms: 0,
            },
        })),
        28 => Command::Heard {
            effects: seen.effects(draw, talk),
            questions: draw.questions(),
        },
        _ => Command::Audited(seen.effects(draw, talk)),
    }
}

fn draw_entries(draw: &mut Draw) -> Vec<NewEntry> {
    let first = draw.below(20);
    let last = first + draw.below(3);
    let entries = (first..=last).map(|number| {
        let key = draw.is(30).then(|| format!("key {}", draw.below(9)));
        let text = draw.text(42);
        NewEntry {
            leg_number: draw.is(90).then_some(LegNumber(number)),
            ..said(number, key.as_deref(), &text)
        }
    });
    entries.collect()
}

fn draw_request(draw: &mut Draw, seen: &Seen, talk: usize, leg: &LegRef) -> Command {
    let meant = format!("{{\"at\":{}}}", draw.below(4));
    let worded = format!("{{\"note\":\"{}\"}}", draw.text(60));
    let tool = ToolFacts {
        writes: draw.is(95),
        is_background: draw.is(20),
        idempotent: draw.is(50),
        repeatable: draw.is(10),
        has_lookup: draw.is(50),
        ..tool()
    };
    let origin = match draw.is(15) {
        true => RequestOrigin::Handler {
            parent: seen.effect(draw, talk),
            ordinal: draw.below(2) as u32,
        },
        false => RequestOrigin::Model {
            delivery: format!("call {}", draw.below(12)),
            generation: 1 + draw.below(2),
        },
    };
    Command::Request(Box::new(Request {
        tool,
        arguments: Sensitive(match draw.is(20) {
            true => worded,
            false => meant.clone(),
        }),
        effect_arguments: Sensitive(meant.clone()),
        near_arguments: Sensitive(meant),
        origin,
        onset: draw.is(60).then(|| LegNumber(draw.below(20))),
        needs_consent: draw.is(30),
        because: None,
        clock: None,
        standing_values: draw.is(70).then(|| Sensitive(PLACE.to_owned())),
        can_ask: draw.is(90),
        may_run: draw.is(95),
        ..request(seen.made, leg)
    }))
}

/// How an attempt ends, as far as anybody knows.
fn draw_end(draw: &mut Draw, seen: &Seen, talk: usize) -> Command {
    let effect_id = seen.effect(draw, talk);
    let attempt = AttemptNumber(1 + draw.below(2) as u32);
    let (outcome, finding) = match draw.below(4) {
        3 => {
            let until_unix_ms = seen.made * 1_000 * draw.below(1_000_000);
            (
                AttemptOutcome::Accepted { until_unix_ms },
                FoundState::Unknown,
            )
        }
        0 => (AttemptOutcome::Succeeded, FoundState::Happened),
        1 => (AttemptOutcome::Failed, FoundState::NotHappened),
        _ => (AttemptOutcome::Unknown, FoundState::Unknown),
    };
    match draw.below(6) {
        5 => Command::CalledBack(Box::new(CalledBack {
            effect_id,
            outcome: match draw.is(50) {
                true => AttemptOutcome::Succeeded,
                false => AttemptOutcome::Failed,
            },
            receipt: draw.is(80).then(|| Sensitive(draw.text(50))),
            values: draw_values(draw, false),
        })),
        0..=2 => Command::Record(Box::new(Record {
            next_attempt_ms: None,
            effect_id,
            attempt,
            outcome,
            receipt: draw.is(80).then(|| Sensitive(draw.text(50))),
            asks: None,
            values: draw_values(draw, true),
        })),
        3 => Command::LookUp { effect_id },
        _ => Command::Found(Box::new(Found {
            effect_id,
            began_unix_ms: u64::MAX,
            finding,
            receipt: None,
            values: draw_values(draw, false),
        })),
    }
}

/// What is kept of an outcome, now by a leg and now by nobody. A leg numbers it apart from its other entries.
fn draw_values(draw: &mut Draw, has_leg: bool) -> Option<ValuesEntry> {
    if draw.is(50) {
        return None;
    }
    let leg = SessionId::new(format!("leg {}", draw.below(2)));
    let number = LegNumber(100 + draw.below(20));
    Some(ValuesEntry {
        by: has_leg.then_some((leg, number)),
        said: Sensitive(draw.text(42)),
    })
}

fn draw_batch(draw: &mut Draw, seen: &mut Seen) -> (usize, Batch) {
    let number = draw.below(TALKS as u64) as usize;
    let user = match draw.is(3) {
        true => "eve",
        false => "alice",
    };
    let commands = (0..=draw.below(2)).map(|_| draw_command(draw, seen, number));
    let commands = commands.collect();
    let conversation = talk(number, user);
    (
        number,
        Batch {
            conversation,
            commands,
        },
    )
}

/// Effects of several conversations: the engines are free in the order of what changed at one time.
fn sorted(effects: Vec<(ConversationRef, Effect)>) -> Vec<String> {
    let mut texts: Vec<String> = effects.iter().map(|found| format!("{found:?}")).collect();
    texts.sort_unstable();
    texts
}

/// Everything that a store can be asked, as text. Of what `Debug` redacts, there is the length.
fn everything(world: &World, seen: &Seen) -> Vec<String> {
    let mut found = Vec::new();
    for number in 0..TALKS {
        for user in ["alice", "eve"] {
            read_talk(world, number, &talk(number, user), &mut found);
        }
    }
    let store = world.store();
    for back in 0..60.min(seen.made) {
        let effect_id = EffectId::new(format!("effect-{}", seen.made - back));
        for tenant in [TenantId::default(), TenantId::new("other")] {
            let effect = store.effect(&tenant, &effect_id).unwrap();
            let receipt = effect.as_ref().and_then(|(_, effect)| {
                let receipt = effect.receipt.as_ref()?;
                Some(receipt.expose().len())
            });
            found.push(format!("{effect:?} {receipt:?}"));
        }
    }
    for tenant in [TenantId::default(), TenantId::new("other")] {
        for only_running in [false, true] {
            let tasks = store.tasks_of(&WantedTasks {
                tenant: &tenant,
                user_id: &UserId::new("alice"),
                prefix: None,
                conversation_id: None,
                only_running,
                behind: None,
                tasks_max: 1_000,
            });
            found.push(format!("{:?}", tasks.unwrap()));
        }
    }
    found.extend(sorted(store.unsent_tasks(None, 1_000).unwrap()));
    let due = store.due().unwrap();
    found.push(format!("{:?}", due.lapsed));
    found.extend(sorted(due.lookups));
    found.extend(sorted(store.unaudited(1_000).unwrap()));
    found
}

fn read_talk(world: &World, number: usize, of: &ConversationRef, found: &mut Vec<String>) {
    let store = world.store();
    let conversation = store.conversation(&of.tenant, &of.conversation_id);
    found.push(format!("{of:?} {conversation:?}"));
    let entries = store.entries(of, EntryNumber(3), 20).unwrap();
    let lengths = entries.iter().map(|entry| match &entry.event {
        EntryEvent::Said(text) => text.expose().len(),
        _ => 0,
    });
    let lengths: Vec<usize> = lengths.collect();
    found.push(format!("{lengths:?} {entries:?}"));
    found.push(format!("{:?}", store.open_questions(of)));
    for number in 1..10 {
        let question = store.question_of_number(of, QuestionNumber(number));
        found.push(format!("{question:?}"));
    }
    found.push(format!("{:?}", store.unheard(of)));
    for key in 0..9 {
        let entry = store.entry_of_key(of, &format!("key {key}"));
        found.push(format!("{entry:?}"));
    }
    for (leg, which) in (0..2).flat_map(|leg| (0..TOKENS).map(move |which| (leg, which))) {
        let leg = store.leg(&token(number, leg, which)).unwrap();
        let length = leg.as_ref().map(|(_, leg)| leg.body.expose().len());
        found.push(format!("{leg:?} {length:?}"));
    }
}

fn check_seed(seed: u64, totals: &mut BTreeMap<String, u64>) {
    let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut seen = Seen::default();
    let mut worlds = [World::in_memory(LIMITS), World::in_sqlite(LIMITS)];
    let mut owners = 1;
    for step in 0..STEPS {
        let at = format!("seed {seed}, step {step}");
        let batches = (0..=draw.below(2)).map(|_| draw_batch(&mut draw, &mut seen));
        let (talks, batches): (Vec<usize>, Vec<Batch>) =
            batches.collect::<Vec<_>>().into_iter().unzip();
        let [memory, sqlite] = &worlds;
        let expected = memory.store().commit(&batches).unwrap();
        let replies = sqlite.store().commit(&batches).unwrap();
        assert_eq!(replies, expected, "{at}: {batches:?}");
        for ((talk, batch), replies) in talks.iter().zip(&batches).zip(replies) {
            for (command, reply) in batch.commands.iter().zip(replies) {
                let name = format!("{reply:?}");
                let name = name.split(['(', ' ']).next().unwrap().to_owned();
                *totals.entry(name).or_default() += 1;
                seen.note(*talk, command, reply);
            }
        }
        let ms = match draw.below(30) {
            0 => draw.below(8 * HOUR_MS),
            1..=8 => draw.below(40_000),
            _ => draw.below(20),
        };
        for world in &worlds {
            world.pass(ms);
        }
        if draw.is(3) {
            owners += 1;
            for world in &mut worlds {
                world.restart(&format!("process {owners}"));
            }
        }
        let [memory, sqlite] = &worlds;
        let pruned = draw.is(6).then(|| (sqlite.prune(), memory.prune()));
        if pruned.is_some() || draw.is(12) {
            let (found, expected) = (everything(sqlite, &seen), everything(memory, &seen));
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found, expected, "{at}");
            }
            assert_eq!(found.len(), expected.len(), "{at}");
            let is_alike = pruned.is_none_or(|(sqlite, memory)| sqlite == memory);
            assert!(is_alike, "{at}: {pruned:?}");
        }
    }
}

#[test]
fn both_engines_answer_alike_whatever_they_are_asked() {
    let mut totals = BTreeMap::new();
    for seed in 1..=SEEDS {
        check_seed(seed, &mut totals);
    }
    // Else the commands that are drawn prove little.
    for reply in [
        "Run", "Ask", "Attach", "Replay", "Denied", "Unknown", "LookUp", "Resumed", "Appended",
        "Settled", "Recorded", "Refused", "Gone", "Foreign", "Conflict",
    ] {
        let seen = totals.get(reply).copied().unwrap_or(0);
        assert!(seen >= 5, "{reply} was seen {seen} times: {totals:?}");
    }
}
