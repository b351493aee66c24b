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

    /// A line about what went wrong.
    pub(crate) fn problem(self, line: &str) {
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
}
