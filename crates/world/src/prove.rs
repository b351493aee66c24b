//! Properties of a world as a whole: nothing in it panics, and if it is compared, the same seed gives the same outputs and each
//! session's journal gives them once more. Knows no single rule beside these.

use crate::judge::Rule;
use crate::world::{Plan, Report, Violation, World};
use std::any::Any;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use windlass_contract::registry::Registry;
use windlass_session::io::{Input, Output};
use windlass_session::journal::{Header, JOURNAL_VERSION, JournalStep, Line, Replay, texts_of};
use windlass_session::session::SessionConfig;
use windlass_session::time::Timestamp;

/// Runs one world to its end, or to the first rule that does not hold.
pub fn run(plan: &Plan) -> Report {
    let mut first = run_once(plan);
    // A second run would find the first one's rows in a folder.
    if plan.is_compared && plan.folder.is_none() && first.violation.is_none() {
        let second = run_once(plan);
        if (first.digest, &second.violation) != (second.digest, &None) {
            first.violation = Some(Violation {
                rule: Rule::SameSeedSameOutputs,
                what: "the world went another way the second time".to_owned(),
            });
        }
    }
    first
}

fn run_once(plan: &Plan) -> Report {
    let mut world = World::new(plan);
    // Counts and trace until a panic are kept; nothing else of the world is looked at after one.
    let lived = catch_unwind(AssertUnwindSafe(|| world.live(plan.steps)));
    if let Err(panic) = lived {
        world.broken(Rule::NoPanic, said(&*panic));
    }
    world.report
}

fn said(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
    said.unwrap_or_else(|| "it says nothing".to_owned())
}

/// All outputs of a world in one number.
#[derive(Default)]
pub(crate) struct Digest(DefaultHasher);

impl Digest {
    pub(crate) fn take(&mut self, live: usize, output: &Output) {
        self.0.write_usize(live);
        // Writing into a hash cannot fail.
        let _ = fmt::write(self, format_args!("{output:?}"));
    }

    pub(crate) fn sum(&self) -> u64 {
        self.0.finish()
    }
}

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// A driver's journal of one session, as it would stand in a file.
pub(crate) struct Journal {
    registry: Arc<Registry>,
    lines: Vec<String>,
}

impl Journal {
    /// `outputs` are those before the first input.
    pub(crate) fn begin(config: &SessionConfig, outputs: &[Output]) -> Self {
        let header = Header {
            version: JOURNAL_VERSION,
            registry_version: config.registry.version().to_string(),
            tools: Default::default(),
            versions: Default::default(),
            session: config.clone(),
            outputs: texts_of(outputs),
        };
        let mut journal = Self {
            registry: config.registry.clone(),
            lines: Vec::new(),
        };
        journal.write(&Line::Header(Box::new(header)));
        journal
    }

    pub(crate) fn step(&mut self, at: Timestamp, input: Input, outputs: &[Output]) {
        self.write(&Line::Step(JournalStep {
            // The header is the first line.
            number: self.lines.len() as u64,
            at,
            input,
            outputs: texts_of(outputs),
        }));
    }

    fn write(&mut self, line: &Line) {
        // A line that cannot be written is one that cannot be read.
        self.lines
            .push(serde_json::to_string(line).unwrap_or_default());
    }

    /// Reads the lines and runs the session again. Returns the first difference.
    pub(crate) fn difference(&self) -> Option<String> {
        let mut replay = None;
        for (number, text) in self.lines.iter().enumerate() {
            let (is, was) = match (serde_json::from_str(text), &mut replay) {
                (Ok(Line::Header(header)), replay) => {
                    let (begun, outputs) = Replay::begin(header.session, self.registry.clone());
                    *replay = Some(begun);
                    (outputs, header.outputs)
                }
                (Ok(Line::Step(step)), Some(replay)) => {
                    (replay.step(step.at, step.input), step.outputs)
                }
                _ => return Some(format!("line {number} cannot be read")),
            };
            if is != was {
                return Some(format!("line {number} gave {was:?} and gives {is:?}"));
            }
        }
        None
    }
}
