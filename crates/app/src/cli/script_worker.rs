//! `windlass script-worker`: the process that the script engine lives in, on standard input and output. A hostile script may end it,
//! and nothing else.

use super::ScriptWorkerArguments;
use crate::failure::Failure;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::time::Duration;
use windlass_script::{Limits, serve};

pub(super) fn run(arguments: &ScriptWorkerArguments) -> Result<(), Failure> {
    // Nothing is left on the disk.
    for resource in [Resource::Core, Resource::Fsize] {
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        setrlimit(resource, none).map_err(Failure::of)?;
    }
    let limits = Limits {
        memory_bytes_max: arguments.memory_bytes,
        compute_max: Duration::from_millis(arguments.compute_ms),
        message_bytes_max: arguments.answer_bytes,
        calls_max: arguments.calls,
        spares: arguments.spares,
        ..Limits::default()
    };
    serve(
        std::io::stdin().lock(),
        std::io::stdout(),
        std::io::stderr(),
        limits,
    )
    .map_err(Failure::of)
}
