//! A world around the session core: user, model, provider, client, handlers, an outside service and a store, all of them
//! faulty, in virtual time, from one seed; and the rules that hold whatever they do. Knows no socket, thread or clock.

mod act;
mod agenda;
mod count;
mod handlers;
mod lane;
mod lives;
mod model;
mod obey;
mod outside;
mod prove;
mod random;
mod restored;
mod rules;
mod settle;
mod tools;
mod unstored;
mod user;
mod world;

pub use count::{Counts, Fault, State};
pub use prove::run;
pub use rules::Rule;
pub use world::{Plan, Report, Violation};
