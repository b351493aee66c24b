//! Seeded random runs: whatever the model, the user and the handlers do, the rules hold.

use crate::harness::Bench;
use std::collections::{BTreeMap, BTreeSet};
use windlass_contract::kind::Mode;
use windlass_session::journal::Replay;

/// A small generator of our own (xorshift64*), so that a seed means the same run for ever.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }
}

const TOOLS: [&str; 14] = [
    "search",
    "look",
    "write",
    "post",
    "pay",
    "text_only",
    "cancellable",
    "typed",
    "slow",
    "nonsense",
    "send",
    "louder",
    "peek",
    "upsert",
];

/// One random input line. Provider ids repeat now and then, with the same or with other arguments.
fn next_line(random: &mut Random, known_calls: u64) -> String {
    match random.below(20) {
        0..=6 => {
            let calls: Vec<String> = (0..=random.below(3))
                .map(|_| {
                    let id = match random.below(8) {
                        0 => "-".to_owned(),
                        _ => format!("function-call-{}", random.below(40)),
                    };
                    let tool = random.pick(&TOOLS);
                    let value = random.below(3);
                    let field = if tool == "search" { "query" } else { "text" };
                    format!("{id} {tool} {{\"{field}\":\"{value}\"}}")
                })
                .collect();
            format!("calls {}", calls.join(" + "))
        }
        7..=11 if known_calls > 0 => {
            let result = random.pick(&[
                "{\"n\":1}",
                "nothing",
                "broken",
                "transient",
                "permanent",
                "clean_transient",
            ]);
            format!("returns {} {result}", 1 + random.below(known_calls))
        }
        12 => format!("cancel function-call-{}", random.below(40)),
        13 => "hears something".to_owned(),
        14 => "says something".to_owned(),
        15 => "interrupted".to_owned(),
        16 => "done 100".to_owned(),
        17 => "text something".to_owned(),
        19 if random.below(2) == 0 => match random.below(4) {
            0 => "lookup finds it happened {\"n\":2}".to_owned(),
            1 => format!(
                "recording {}",
                random.pick(&["works", "works", "fails", "hangs"])
            ),
            _ => {
                let answer = random.pick(&["confirm", "confirm", "decline"]);
                format!("{answer} token-{}", 1 + random.below(12))
            }
        },
        18 if random.below(4) == 0 => {
            let line = random.pick(&[
                "sweep",
                "store slow",
                "lookup finds nothing happened",
                "lookup finds no answer",
                "b: calls other-call-number write {\"text\":\"1\"}",
                "b: returns 1 {\"n\":3}",
                "b: confirm token-1",
                "b: text something",
                "lost 1",
                "goaway 3000",
            ]);
            line.to_owned()
        }
        18 => format!("wait {}", random.below(7_000)),
        _ => random
            .pick(&[
                "store down",
                "store up",
                "generated",
                "audio",
                "interrupt",
                "busy",
            ])
            .to_owned(),
    }
}

#[derive(Default)]
struct Ledger {
    started: BTreeMap<String, usize>,
    ended: BTreeMap<String, usize>,
    answers: BTreeMap<String, usize>,
    turns_open: i64,
    /// Effects that have started, and not definitely failed since.
    effects: BTreeSet<String>,
    /// Calls that the user has approved, and that have not started since.
    approved: BTreeSet<String>,
    /// Calls about which the user was asked.
    asked: BTreeSet<String>,
    calls: u64,
}

impl Ledger {
    fn read(&mut self, seed: u64, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        if line.starts_with("b: ") {
            return;
        }
        match words[0] {
            "start" => {
                assert!(
                    !["text_only", "nonsense"].contains(&words[2]),
                    "seed {seed}: {line}"
                );
                let is_approved = self.approved.remove(words[1]);
                let needs_consent = ["pay", "peek"].contains(&words[2]);
                assert!(!needs_consent || is_approved, "seed {seed}: {line}");
                let writes = ["write", "post", "pay", "send", "louder", "upsert"];
                let writes = writes.contains(&words[2]);
                assert_eq!(
                    writes,
                    words[3].starts_with("(effect-"),
                    "seed {seed}: {line}"
                );
                if writes {
                    let effect = words[3].trim_matches(['(', ')']).to_owned();
                    let is_first = self.effects.insert(effect);
                    assert!(is_first || is_approved, "seed {seed}: {line}");
                }
                *self.started.entry(words[1].to_owned()).or_default() += 1;
                let number: u64 = words[1].trim_start_matches("call-").parse().unwrap();
                self.calls = self.calls.max(number);
            }
            "record" if words[2] == "Failed" => {
                self.effects.remove(words[1]);
            }
            call if call.starts_with("call-") && words[1] == "Approved" => {
                assert!(self.approved.insert(call.to_owned()), "seed {seed}: {line}");
            }
            "turn" if words[2] == "started" => {
                self.turns_open += 1;
                assert_eq!(self.turns_open, 1, "seed {seed}: two turns at once");
            }
            "turn" => self.turns_open -= 1,
            "to" if words[2].starts_with("function-call-") || words[2] == "-" => {
                let answers = line.trim_start_matches("to model: ").split(" + ");
                for id in answers
                    .filter_map(|answer| answer.split(' ').next())
                    .filter(|id| *id != "-")
                {
                    *self.answers.entry(id.to_owned()).or_default() += 1;
                    assert_eq!(
                        self.answers[id], 1,
                        "seed {seed}: a second answer under {id}"
                    );
                }
            }
            call if call.starts_with("call-")
                && ["finished", "rejected", "cancelled"].contains(&words[1]) =>
            {
                // A call that waits for the user is answered first, and ends later.
                if words[1] == "rejected" && words.get(2) == Some(&"ConfirmationRequired") {
                    self.asked.insert(call.to_owned());
                    return;
                }
                // One that was approved in vain may be approved again.
                let is_vain = self.asked.contains(call) && !self.started.contains_key(call);
                if is_vain && [Some(&"Transient"), Some(&"RateLimit")].contains(&words.get(2)) {
                    return;
                }
                *self.ended.entry(call.to_owned()).or_default() += 1;
                assert_eq!(
                    self.ended[call], 1,
                    "seed {seed}: {call} ended twice: {line}"
                );
            }
            _ => {}
        }
        assert!(self.turns_open >= 0, "seed {seed}: a turn ended twice");
    }
}

fn run(seed: u64) -> String {
    run_with(seed, false).1
}

/// With a journal, or without.
fn run_with(seed: u64, is_recorded: bool) -> (Bench, String) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (mut bench, _) = Bench::new(Mode::Voice);
    bench.journal = is_recorded.then(Vec::new);
    let mut all = bench.line("connected 1") + &bench.line("ready") + &bench.line("opens b by text");
    let mut ledger = Ledger::default();
    for _ in 0..120 {
        let line = next_line(&mut random, ledger.calls);
        let outputs = bench.line(&line);
        outputs.lines().for_each(|output| ledger.read(seed, output));
        all.push_str(&outputs);
        // A tick at a deadline must make progress, or the driver would spin on it.
        let due = bench.session().next_deadline();
        if let Some(due) = due.filter(|due| *due <= bench.now()) {
            let outputs = bench.line("wait 0");
            outputs.lines().for_each(|output| ledger.read(seed, output));
            all.push_str(&outputs);
            assert_ne!(
                bench.session().next_deadline(),
                Some(due),
                "seed {seed}: a deadline stays due"
            );
        }
    }
    // The second wait is for a store that does not answer what the first one gave it to record.
    for line in [
        "store up",
        "recording works",
        "stop",
        "wait 60000",
        "wait 60000",
    ] {
        let outputs = bench.line(line);
        outputs.lines().for_each(|output| ledger.read(seed, output));
        all.push_str(&outputs);
    }
    assert!(
        bench.session().is_over(),
        "seed {seed}: the session does not end"
    );
    assert_eq!(
        bench.session().next_deadline(),
        None,
        "seed {seed}: something lives after the end"
    );
    for (turn, _) in &bench.starts {
        let of_turn = bench.starts.iter().filter(|(other, _)| other == turn);
        let retrievals = of_turn.clone().filter(|(_, tool)| tool == "search").count();
        assert!(
            retrievals <= 2 && of_turn.count() <= 3,
            "seed {seed}: turn {turn} is over budget"
        );
    }
    for (call, _) in ledger.started {
        assert_eq!(
            ledger.ended.get(&call),
            Some(&1),
            "seed {seed}: {call} started and never ended"
        );
    }
    (bench, all)
}

#[test]
fn the_rules_hold_whatever_everybody_does() {
    for seed in 0..2_000 {
        run(seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_outputs() {
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
}

#[test]
fn a_journal_that_is_run_again_says_the_same() {
    for seed in 0..50 {
        let (mut bench, _) = run_with(seed, true);
        let steps = bench.journal.take().unwrap();
        let config = bench.session().config().clone();
        let registry = config.registry.clone();
        let (mut replay, _) = Replay::begin(config, registry);
        for (at, input, outputs) in steps {
            let said = replay.step(at, serde_json::from_str(&input).unwrap());
            assert_eq!(said, outputs, "seed {seed}: {input}");
        }
        assert!(replay.is_over());
    }
}

/// Processes end at any time: no attempt at an effect starts beside one that may have happened, but with the user's word.
#[test]
fn no_effect_is_begun_twice_unasked_whatever_is_killed() {
    for seed in 0..500_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mode = match seed % 2 {
            0 => Mode::Voice,
            _ => Mode::Text,
        };
        let (mut bench, _) = Bench::new(mode);
        bench.line("connected 1");
        bench.line("ready");
        let mut begun = BTreeSet::new();
        let mut approved = BTreeSet::new();
        for _ in 0..120 {
            let is_killed = random.below(15) == 0 && !bench.session().is_over();
            let lines = match is_killed {
                true => ["killed", "connected 1", "ready"]
                    .map(str::to_owned)
                    .to_vec(),
                false => vec![next_line(&mut random, 30)],
            };
            // There is no second session here.
            let lines = lines.iter().map(|line| line.trim_start_matches("b: "));
            for output in lines
                .map(|line| bench.line(line))
                .collect::<String>()
                .lines()
            {
                let words: Vec<&str> = output.split(' ').collect();
                match words[..] {
                    [call, "Approved"] => {
                        approved.insert(call.to_owned());
                    }
                    // An attempt has failed for certain.
                    ["record", effect, "Failed"] => {
                        begun.remove(effect);
                    }
                    ["start", call, _, effect, ..] if effect.starts_with("(effect-") => {
                        let effect = effect.trim_matches(['(', ')']).to_owned();
                        let is_approved = approved.remove(call);
                        assert!(begun.insert(effect) || is_approved, "seed {seed}: {output}");
                    }
                    _ => {}
                }
            }
        }
    }
}
