//! The judgement of a handler before its first call: the engine reads it, resolves its imports, evaluates it and looks for
//! `execute`. Knows no tool but its files.

use crate::call::{Halt, Job, Run, Script, Surroundings};
use crate::code::Code;
use crate::limits::{JUDGE_MAX, Limits};
use crate::modules::{FailedImport, Imports, Modules};
use crate::output::Output;
use crate::place::places;
use crate::protocol::HostId;
use crate::sandbox::{Sandbox, Stop, Thrown, caught};
use crate::typescript;
use crate::verdict::{Flaw, Verdict};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

const EXPORT: &str = "write `export async function execute({ args, context }) { … }`";

/// Judges a handler. Runs the top level of its files, within limits.
pub fn judge(entry: &str, modules: &Arc<Modules>) -> Verdict {
    let limits = Limits {
        compute_max: JUDGE_MAX,
        console_bytes_max: 0,
        ..Limits::default()
    };
    let flaw = |message: String| Flaw {
        file: entry.to_owned(),
        line: None,
        column: None,
        message,
        cure: "try again; the machine may be short of memory".to_owned(),
    };
    let sandbox = match Sandbox::new(&limits) {
        Ok(sandbox) => sandbox,
        Err(error) => {
            return Verdict {
                used: BTreeSet::new(),
                flaws: vec![flaw(format!("the engine could not be started: {error}"))],
                response_version: None,
            };
        }
    };
    let nobody = Output::new(std::io::sink(), std::io::sink());
    let surroundings = Rc::new(Surroundings::new(nobody, limits));
    let (_sender, messages) = channel();
    let job = Job {
        id: HostId::none(),
        serial: 0,
        script: Arc::new(Script {
            entry: entry.to_owned(),
            modules: modules.clone(),
            code: Code::default(),
        }),
        args: String::new(),
        context: String::new(),
        deadline: Some(Instant::now() + JUDGE_MAX),
        writes: false,
        messages,
        cancelled: Arc::default(),
    };
    let halt = sandbox.context.with(|ctx| {
        let glue = caught(&ctx, surroundings.prepare(&ctx)).map_err(Halt::Threw)?;
        let loaded = Run::new(&ctx, glue, &sandbox, &surroundings, &job).load();
        loaded.map(|exports| exports.response_version)
    });
    let (response_version, halt) = match (sandbox.clock.stopped(), halt) {
        (Some(stop), _) => (None, Some(Halt::Stopped(stop))),
        (None, Ok(version)) => (version, None),
        (None, Err(halt)) => (None, Some(halt)),
    };
    Verdict {
        used: sandbox.imports.used(),
        flaws: halt
            .map(|halt| flaw_of(entry, modules, &sandbox.imports, halt))
            .into_iter()
            .collect(),
        response_version,
    }
}

fn flaw_of(entry: &str, modules: &Modules, imports: &Imports, halt: Halt) -> Flaw {
    if let Some(failed) = imports.failed() {
        return unresolved(modules, failed);
    }
    if let Some((file, unstripped)) = imports.unstripped() {
        return Flaw {
            file,
            line: unstripped.place.map(|place| place.0),
            column: unstripped.place.map(|place| place.1),
            message: unstripped.message,
            cure: unstripped.cure.to_owned(),
        };
    }
    let (place, message, cure) = match halt {
        Halt::Threw(thrown) => explain(thrown),
        Halt::Stopped(Stop::Compute | Stop::Deadline) | Halt::Abandoned => (
            None,
            format!(
                "what stands at the top of the file does not end within {} ms",
                JUDGE_MAX.as_millis()
            ),
            "do the work in `execute`",
        ),
        Halt::Idle => (
            None,
            "what stands at the top of the file awaits what can never come".to_owned(),
            "await within `execute` only",
        ),
    };
    let (file, line, column) = match place {
        Some((file, line, column)) => (file, Some(line), Some(column)),
        None => (entry.to_owned(), None, None),
    };
    Flaw {
        file,
        line,
        column,
        message,
        cure: cure.to_owned(),
    }
}

type Where = Option<(String, usize, usize)>;

fn explain(thrown: Thrown) -> (Where, String, &'static str) {
    let place = places(&thrown.stack).next();
    let place = place.map(|place| (place.file, place.line, place.column));
    let cure = match &thrown.message {
        message if message.starts_with("SyntaxError: Could not find export") => {
            "export it there, or import another name"
        }
        message if message.starts_with("SyntaxError") => "correct the syntax",
        message if message.contains("`execute`") => EXPORT,
        message if message.contains("require is not defined") => {
            "write `import … from './file.js'`; packages of npm need a `handler.json` of kind `process`"
        }
        _ => "this is thrown before any call: correct it, or do it in `execute`",
    };
    (place, thrown.message, cure)
}

/// The place of an import that leads nowhere: the engine does not say it.
fn unresolved(modules: &Modules, failed: FailedImport) -> Flaw {
    let source = modules.get(&failed.base);
    let place = source.and_then(|source| {
        let at = ['\'', '"']
            .into_iter()
            .find_map(|quote| source.find(&format!("{quote}{}{quote}", failed.specifier)))?;
        let before = &source[..at];
        let line = before.matches('\n').count() + 1;
        let column = before
            .chars()
            .rev()
            .take_while(|character| *character != '\n')
            .count()
            + 1;
        Some((line, column))
    });
    Flaw {
        file: failed.base.clone(),
        line: place.map(|place| place.0),
        column: place.map(|place| place.1),
        message: format!(
            "the import {:?} leads nowhere: {}",
            failed.specifier, failed.cause
        ),
        cure: match typescript::is_typescript(&failed.base) {
            true => {
                "correct the path, or write `import type` where it is of types alone".to_owned()
            }
            false => "correct the path, or remove the import".to_owned(),
        },
    }
}
