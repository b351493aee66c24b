//! Worlds of faults, as many as fit into a test; `cargo xtask soak` runs more of them.
#![allow(clippy::unwrap_used)]

use windlass_world::{Counts, Plan, run};

#[test]
fn the_rules_hold_whatever_goes_wrong() {
    let mut counts = Counts::default();
    for seed in 0..300 {
        let report = run(&Plan::of(seed));
        assert_eq!(report.violation, None, "seed {seed}");
        counts.add(&report.counts);
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
