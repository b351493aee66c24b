//! A world around the shipped driver, core and ledger: users with intents, models, providers, clients, handlers, an outside, stores
//! and processes, all of them faulty, in virtual time, from one seed; and a judge who believes the outside alone. Knows no socket,
//! thread or clock.

mod act;
mod agenda;
mod asking;
mod clock;
mod count;
mod ends;
mod executor;
mod handlers;
mod intents;
mod judge;
mod kept;
mod live;
mod model;
mod mood;
mod notes;
mod outside;
mod process;
mod prove;
mod random;
mod service;
mod settle;
mod shown;
mod slot;
mod spelling;
mod storefront;
mod tools;
mod user;
mod world;

pub use count::{Counts, Fault, KINDS, State};
pub use judge::Rule;
pub use prove::run;
pub use world::{Plan, Report, Violation};
