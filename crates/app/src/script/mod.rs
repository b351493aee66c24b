//! Scripts as this program runs them: the engine lives in a process of its own. Before tools are built, it is asked whether it can run
//! them; it gets the sources of the served ones. Knows no JavaScript.

mod judge;
mod served;

pub(crate) use judge::EngineJudge;
pub(crate) use served::ServedScripts;

use std::ffi::OsString;
use std::path::PathBuf;
use windlass_config::Scripts;

/// The command of the command line that is the process.
pub(crate) const COMMAND: &str = "script-worker";

/// This program itself, and how it is called to run scripts.
fn program(scripts: &Scripts) -> std::io::Result<(PathBuf, Vec<OsString>)> {
    let numbers = [
        ("--memory-bytes", scripts.memory_bytes_max.get()),
        ("--compute-ms", scripts.compute_ms_max.get()),
        ("--answer-bytes", scripts.answer_bytes_max.get()),
        ("--calls", scripts.calls_max.get()),
        ("--spares", scripts.spares.get()),
    ];
    let arguments = numbers
        .into_iter()
        .flat_map(|(flag, number)| [flag.to_owned(), number.to_string()]);
    let arguments = [COMMAND.to_owned()].into_iter().chain(arguments);
    Ok((
        std::env::current_exe()?,
        arguments.map(OsString::from).collect(),
    ))
}
