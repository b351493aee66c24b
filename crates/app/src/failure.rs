//! The failure of a command: one line for people and an exit code.

use std::process::ExitCode;

/// Why a command failed, in one line.
#[derive(Debug)]
pub enum Failure {
    /// It was asked rightly and could not do it: exit code 1.
    Failed(String),
    /// The problem has been printed already: exit code 1.
    Said,
    /// It was asked wrongly: exit code 2.
    Usage(String),
    /// It was asked wrongly, and that has been printed already: exit code 2.
    SaidMisuse,
}

impl Failure {
    /// A failure with the text of this error, which must be fit for people.
    pub fn of(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }

    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Failed(_) | Self::Said => ExitCode::from(1),
            Self::Usage(_) | Self::SaidMisuse => ExitCode::from(2),
        }
    }

    pub(crate) fn line(&self) -> Option<String> {
        match self {
            // One line, even if a foreign error has several.
            Self::Failed(text) | Self::Usage(text) => Some(text.replace('\n', " ")),
            Self::Said | Self::SaidMisuse => None,
        }
    }
}
