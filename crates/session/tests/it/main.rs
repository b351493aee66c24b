//! The core under scripts: lines of input in, lines of output out.
#![allow(clippy::unwrap_used)]

mod asked_again;
mod budgets;
mod confirmations;
mod connections;
mod continuation;
mod crossing;
mod duplicates;
mod endings;
mod farewells;
mod faults;
mod harness;
mod journal;
mod late_results;
mod ledger;
mod left_behind;
mod neighbours;
mod non_blocking;
mod pipeline;
mod provider_loss;
mod put_again;
mod random;
mod reactions;
mod readings;
mod refusals;
mod reopened;
mod restarted_questions;
mod restarts;
mod retries;
mod said_into_answers;
mod second_wishes;
mod turns;
mod unread_notices;
mod unrecorded;
mod untold;
mod wishes;
