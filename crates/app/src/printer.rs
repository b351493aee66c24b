//! The one place that writes to the standard streams: results to standard output, problems to standard error.

use crate::failure::Failure;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// Why a part of the results is not where it was to go. The process has one standard output, so this is the process's, too.
static LOST: OnceLock<String> = OnceLock::new();

/// Writes lines for people and programs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Printer;

impl Printer {
    /// A line of the result. Where it cannot be written, [`Self::all_written`] says so in the end.
    pub(crate) fn result(self, line: &str) {
        let mut output = io::stdout().lock();
        self.heed(writeln!(output, "{line}").and_then(|()| output.flush()));
    }

    /// A part of a line, which others follow.
    pub(crate) fn part(self, part: &str) {
        let mut output = io::stdout().lock();
        self.heed(write!(output, "{part}").and_then(|()| output.flush()));
    }

    /// Takes note of how writing a result went. A reader that has gone is no failure: it has what it wanted.
    pub(crate) fn heed(self, written: io::Result<()>) {
        if let Err(error) = written
            && error.kind() != ErrorKind::BrokenPipe
        {
            // The first cause is the one that counts.
            let _ = LOST.set(error.to_string());
        }
    }

    /// Whether everything that was to be read went where it was to go.
    pub(crate) fn all_written(self) -> Result<(), Failure> {
        match LOST.get() {
            None => Ok(()),
            Some(cause) => Err(Failure::Failed(format!(
                "the output could not be written: {cause}; free space there, or send it elsewhere"
            ))),
        }
    }

    /// A line about what went wrong.
    pub(crate) fn problem(self, line: &str) {
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    /// Draws over the last line of progress.
    pub(crate) fn progress(self, line: &str) {
        let mut errors = io::stderr().lock();
        let _ = write!(errors, "\r{line}\x1b[K").and_then(|()| errors.flush());
    }

    /// Leaves the line of progress.
    pub(crate) fn progress_over(self) {
        let _ = writeln!(io::stderr().lock());
    }
}
