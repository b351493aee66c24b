//! Problems of a tool's files, worded so that the author can mend them. Knows nothing of how they are found.

use serde::Serialize;
use std::fmt;

/// The severity of a problem. Only errors keep an artifact from being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
    /// A fact that the author may want to know and need not change.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// One finding. Shown as `tools/kb-search/schema.json:12:5: error: what is wrong (what to do)`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The file; the directory where no single file is to blame.
    pub file: String,
    /// From 1; `None` where no line is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// From 1, in bytes; `None` where no column is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    pub severity: Severity,
    /// The name of the tool's directory; `None` for the whole folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    pub message: String,
    pub cure: String,
}

/// The beginning of the cure in a note that needs no action.
pub(crate) const NOTHING_TO_DO: &str = "nothing to do;";

impl Problem {
    /// Whether the author need not act.
    pub fn asks_nothing(&self) -> bool {
        self.severity == Severity::Note && self.cure.starts_with(NOTHING_TO_DO)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
            if let Some(column) = self.column {
                write!(formatter, ":{column}")?;
            }
        }
        write!(
            formatter,
            ": {}: {} ({})",
            self.severity, self.message, self.cure
        )
    }
}

/// The most problems that are listed for one file.
const LISTED_MAX: usize = 1_000;

/// The problems of one file, gathered while it is read.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    tool: &'a str,
    file: String,
    /// The file's text, for the positions of JSON pointers; empty where there are no positions.
    text: &'a str,
    problems: Vec<Problem>,
    left_out: usize,
    worst: Option<Severity>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(tool: &'a str, file: impl Into<String>, text: &'a str) -> Self {
        Self {
            tool,
            file: file.into(),
            text,
            problems: Vec::new(),
            left_out: 0,
            worst: None,
        }
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.worst == Some(Severity::Error)
    }

    /// A problem of the file as a whole.
    pub(crate) fn whole(
        &mut self,
        severity: Severity,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) {
        self.push(severity, None, message.into(), cure.into());
    }

    /// An error at a place of the file's JSON.
    pub(crate) fn error(
        &mut self,
        pointer: &str,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) {
        self.at_pointer(Severity::Error, pointer, message, cure);
    }

    pub(crate) fn at_pointer(
        &mut self,
        severity: Severity,
        pointer: &str,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) {
        let place = windlass_contract::json::locate(self.text, pointer);
        self.push(severity, place, message.into(), cure.into());
    }

    /// A problem at a line, and a column where one is known.
    pub(crate) fn at_line(
        &mut self,
        severity: Severity,
        line: usize,
        column: Option<usize>,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) {
        if let Some(problem) = self.push(severity, None, message.into(), cure.into()) {
            problem.line = Some(line);
            problem.column = column;
        }
    }

    fn push(
        &mut self,
        severity: Severity,
        place: Option<windlass_contract::json::Position>,
        message: String,
        cure: String,
    ) -> Option<&mut Problem> {
        self.worst = Some(self.worst.map_or(severity, |worst| worst.min(severity)));
        if self.problems.len() >= LISTED_MAX {
            self.left_out += 1;
            return None;
        }
        self.problems.push(Problem {
            file: self.file.clone(),
            line: place.map(|place| place.line),
            column: place.map(|place| place.column),
            severity,
            tool: Some(self.tool.to_owned()),
            message,
            cure,
        });
        self.problems.last_mut()
    }

    /// The problems in the order of their places.
    pub(crate) fn into_problems(mut self) -> Vec<Problem> {
        self.problems.sort();
        self.problems.dedup();
        if self.left_out > 0 {
            self.problems.push(Problem {
                file: self.file,
                line: None,
                column: None,
                severity: self.worst.unwrap_or(Severity::Note),
                tool: Some(self.tool.to_owned()),
                message: format!("{} more problems are not listed", self.left_out),
                cure: "mend those above and build again".to_owned(),
            });
        }
        self.problems
    }
}
