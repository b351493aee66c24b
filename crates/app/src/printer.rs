//! The one place that writes to the standard streams: results to standard output, problems to standard error.

use std::io::{self, Write};

/// Writes lines for people and programs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Printer;

impl Printer {
    /// A line of the result. A reader that has gone is no failure: it has what it wanted.
    pub(crate) fn result(self, line: &str) {
        let mut output = io::stdout().lock();
        let _ = writeln!(output, "{line}").and_then(|()| output.flush());
    }

    /// A part of a line, which others follow.
    pub(crate) fn part(self, part: &str) {
        let mut output = io::stdout().lock();
        let _ = write!(output, "{part}").and_then(|()| output.flush());
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
