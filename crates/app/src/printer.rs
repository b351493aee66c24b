//! The one place that writes to the standard streams: results to standard output, problems to standard error; and the manner of
//! writing.

use crate::failure::Failure;
use clap::ValueEnum;
use serde_json::Value;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;
use windlass_compile::problem::{Problem, Severity};

/// Why a part of the results is not where it was to go. The process has one standard output, so this is the process's, too.
static LOST: OnceLock<String> = OnceLock::new();
/// The manner that the command line sets, once for the process.
static MANNER: OnceLock<Manner> = OnceLock::new();

/// How results are printed: for people, or for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

/// When colours are used; `Auto` is on a terminal, unless NO_COLOR is set. The help says each in one line without these words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colors {
    #[default]
    Auto,
    Always,
    Never,
}

impl Colors {
    /// Whether a stream gets colours.
    fn suit(self, is_terminal: bool) -> bool {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => is_terminal && !is_set("NO_COLOR"),
        }
    }
}

/// How much is said, and in which form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) format: Format,
    pub(crate) colors: Colors,
    pub(crate) loudness: Loudness,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loudness {
    /// Only results and problems.
    Quiet,
    #[default]
    Usual,
    Verbose,
    /// Everything that there is.
    Full,
}

/// Writes lines for people and programs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Printer;

impl Printer {
    /// Says how everything is printed from here on. Only the first time counts.
    pub(crate) fn set_up(self, manner: Manner) {
        let _ = MANNER.set(manner);
    }

    pub(crate) fn manner(self) -> Manner {
        MANNER.get().copied().unwrap_or_default()
    }

    pub(crate) fn format(self) -> Format {
        self.manner().format
    }

    /// Whether standard error gets colours.
    pub(crate) fn has_colors(self) -> bool {
        self.manner().colors.suit(io::stderr().is_terminal())
    }

    /// A result in the form that was asked for.
    pub(crate) fn outcome(self, text: &str, json: &Value) {
        match self.format() {
            Format::Text => self.result(text),
            Format::Json => self.result(&json.to_string()),
        }
    }

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

    /// Notes whether a result was written. A reader that has gone is no failure: it has read enough.
    pub(crate) fn heed(self, written: io::Result<()>) {
        if let Err(error) = written
            && error.kind() != ErrorKind::BrokenPipe
        {
            // The first cause counts.
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

    /// Prints a line about a problem.
    pub(crate) fn problem(self, line: &str) {
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    /// Prints a hint: useful, but not needed. With `-q` nothing is printed.
    pub(crate) fn hint(self, line: &str) {
        if self.manner().loudness > Loudness::Quiet {
            self.problem(line);
        }
    }

    /// Prints a problem with a tool, after a coloured word for its severity. A note that needs no action is printed only with `-v`.
    pub(crate) fn finding(self, problem: &Problem) {
        let loudness = self.manner().loudness;
        let least = match problem.severity {
            Severity::Error | Severity::Warning => Loudness::Quiet,
            Severity::Note if problem.asks_nothing() => Loudness::Verbose,
            Severity::Note => Loudness::Usual,
        };
        if loudness < least {
            return;
        }
        let line = problem.to_string();
        if !self.has_colors() {
            return self.problem(&line);
        }
        let color = match problem.severity {
            Severity::Error => "31",
            Severity::Warning => "33",
            Severity::Note => "36",
        };
        let word = format!(": {}: ", problem.severity);
        let painted = format!(": \x1b[1;{color}m{}\x1b[0m: ", problem.severity);
        self.problem(&line.replacen(&word, &painted, 1));
    }

    /// Draws over the last line of progress.
    pub(crate) fn progress(self, line: &str) {
        let mut errors = io::stderr().lock();
        let _ = write!(errors, "\r{line}\x1b[K").and_then(|()| errors.flush());
    }

    /// Whether progress is shown: on a terminal, unless with `-q`.
    pub(crate) fn shows_progress(self) -> bool {
        io::stderr().is_terminal() && self.manner().loudness > Loudness::Quiet
    }

    /// Leaves the line of progress.
    pub(crate) fn progress_over(self) {
        let _ = writeln!(io::stderr().lock());
    }
}
