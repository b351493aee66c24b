//! One suite of rules for both engines. An engine that passes may stand in for the other.

mod blocks;
mod conversations;
mod effects;
mod engines;
mod entries;
mod legs;
mod lists;
mod pruning;
mod shares;
mod standing;
mod tasks;
mod versions;

use crate::support::World;
use windlass_store::StoreLimits;

/// Runs a rule against a fresh store of each engine.
fn check(rule: impl Fn(&mut World)) {
    check_with(StoreLimits::default(), rule);
}

/// The same, under limits.
fn check_with(limits: StoreLimits, rule: impl Fn(&mut World)) {
    rule(&mut World::in_memory(limits));
    rule(&mut World::in_sqlite(limits));
}
