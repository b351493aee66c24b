//! The core under scripts: lines of input in, lines of output out.
#![allow(clippy::unwrap_used)]

mod budgets;
mod conditions;
mod confirmations;
mod connections;
mod crossing;
mod detached;
mod duplicates;
mod effects;
mod endings;
mod farewells;
mod faults;
mod going_on;
mod harness;
mod held_answers;
mod journal;
mod late_results;
mod ledger;
mod legs;
mod nested;
mod non_blocking;
mod onsets;
mod permissions;
mod pipeline;
mod provider_loss;
mod put_again;
mod random;
mod reactions;
mod refusals;
mod restarts;
mod resumed;
mod retries;
mod said_into_answers;
mod turns;
mod unread_notices;
