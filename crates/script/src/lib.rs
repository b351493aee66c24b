//! Runs `handler.js` and `handler.ts` files: the JavaScript engine with its limits, the surroundings of a handler, and the loop
//! of the worker process that serves calls. Knows no session, no socket and no file: sources, calls and a handler's requests
//! travel as lines.

mod call;
mod code;
mod judge;
mod limits;
mod modules;
mod natives;
mod output;
mod place;
mod protocol;
mod sandbox;
mod typescript;
mod verdict;
mod worker;

pub use judge::judge;
pub use limits::Limits;
pub use modules::Modules;
pub use verdict::{Flaw, Verdict};
pub use worker::{WorkerError, serve};

/// The types of `context` and of everything else that a handler finds, for authors' editors: `types.d.ts`.
pub const TYPES: &str = include_str!("js/types.d.ts");
