//! Worlds of faults, as many as fit into a test; `cargo xtask soak` runs more of them.
#![allow(clippy::unwrap_used)]

use windlass_world::{Counts, Plan, run};

/// Worlds beyond those that each run of the tests has, in which a rule did not hold once.
const BROKEN_ONCE: [u64; 11] = [
    20_065, 21_228, 23_183, 24_350, 32_642, 63_503, 83_118, 83_744, 83_908, 97_157, 97_905,
];

#[test]
fn the_rules_hold_whatever_goes_wrong() {
    let mut counts = Counts::default();
    for seed in 0..300 {
        let report = run(&Plan::of(seed));
        assert_eq!(report.violation, None, "seed {seed}");
        counts.add(&report.counts);
    }
    for seed in BROKEN_ONCE {
        assert_eq!(run(&Plan::of(seed)).violation, None, "seed {seed}");
    }
    assert_eq!(counts.steps, 300 * u64::from(Plan::of(0).steps));
}

#[test]
fn the_same_seed_gives_the_same_outputs() {
    for seed in 1..12 {
        let plan = Plan {
            is_traced: true,
            ..Plan::of(seed)
        };
        let (first, second) = (run(&plan), run(&plan));
        assert!(first.trace.len() > 100, "seed {seed} is empty");
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}
