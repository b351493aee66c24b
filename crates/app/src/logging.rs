//! The log: to standard error, as text or JSON, and the hook that turns a panic into one line of it. Never logs what users
//! or models say.

use tracing_subscriber::filter::LevelFilter;
use windlass_runtime::config::{Log, LogFormat, LogLevel};

/// Sets the log up for the process. A second call changes nothing.
pub(crate) fn set_up(log: &Log) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        // A line that cannot be written, as on a full disk, would be told of in the same place, and end the process there.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    // Setting it up fails only where it is set up already, as in tests that start several servers.
    let _ = match log.format {
        LogFormat::Text => lines
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}

/// A panic becomes one line that says where it was. Its message may hold a user's words, so it is not shown. A hook that
/// panics ends the process, so what cannot be written is left out here, too.
pub(crate) fn catch_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, |location| {
            format!("{}:{}", location.file(), location.line())
        });
        tracing::error!(place, "the program has a mistake: a task broke");
    }));
}
