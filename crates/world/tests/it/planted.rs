//! Bugs planted in the core: a rule that finds none of them would prove nothing.

use windlass_session::planted::PlantedBug;
use windlass_world::{Plan, run};

/// Within so many worlds each bug has to be found.
const SEEDS: u64 = 1_000;

#[test]
fn every_planted_bug_is_found() {
    for bug in PlantedBug::ALL {
        let found = (0..SEEDS).find_map(|seed| {
            let plan = Plan {
                planted_bug: Some(bug),
                ..Plan::of(seed)
            };
            let violation = run(&plan).violation?;
            Some((seed, violation.rule))
        });
        assert!(found.is_some(), "{bug:?} is not found in {SEEDS} worlds");
        println!("{bug:?}: {found:?}");
    }
}
