//! The log: to standard error, as text or JSON, and the hook that turns a panic into one line of it. Never logs the words of users or
//! models. External text, as in the errors of a provider, is redacted on its way.

use std::io::{self, Write};
use tracing_subscriber::filter::LevelFilter;
use windlass_config::{Log, LogFormat, LogLevel};
use windlass_runtime::redaction::for_log;

/// Sets the log up for the process. A second call changes nothing.
pub(crate) fn set_up(log: &Log, has_colors: bool) {
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
        // A failed write, as on a full disk, would be reported to the same place, and end the process there.
        .log_internal_errors(false)
        .with_writer(|| Line(io::stderr()));
    // Setting it up fails only where it is set up already, as in tests that start several servers.
    let _ = match log.format {
        LogFormat::Text => lines.with_ansi(has_colors).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}

/// Takes one line of the log at a time, with its line feed, as it is written.
struct Line<W>(W);

impl<W: Write> Write for Line<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let mut shown = for_log(text.strip_suffix('\n').unwrap_or(&text));
        shown.push('\n');
        self.0.write_all(shown.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A panic becomes one line that names its place. Its message may hold a user's words, so it is not shown. A hook that panics ends the
/// process, so failed writes are ignored here, too.
pub(crate) fn catch_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, |location| {
            format!("{}:{}", location.file(), location.line())
        });
        tracing::error!(place, "the program has a mistake: a task broke");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_stays_one_line_and_keeps_no_secret() {
        let mut written = Vec::new();
        let line = "WARN refused: a\nFAKE LINE \u{202e} sk-abcdefghijklmnop1234\n";
        Line(&mut written).write_all(line.as_bytes()).unwrap();
        let expected = "WARN refused: a\\u000aFAKE LINE \\u202e (secret)\n";
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }
}
