//! What can go wrong with the database, in words for operators. Knows no statement.

use super::tls::distrust;
use crate::embed::EmbedError;
use crate::index::IndexError;
use tokio_postgres::error::SqlState;

/// Why the database did not do what it was asked. None of it repeats a password or what a record says.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    #[error(
        "this is no address of a PostgreSQL database: write postgres://user:password@host/database"
    )]
    Address,
    #[error("the name of the schema {0:?} is not good: use lower-case letters, digits and `_`")]
    Schema(String),
    #[error(
        "the certificates in {path} cannot be read: {cause}; name a PEM file with those of your authorities in knowledge.postgres_root_certificate"
    )]
    Authorities { path: String, cause: String },
    /// There is no connection that is known to lead to the database and to nobody else. The words name the cure.
    #[error("the PostgreSQL database cannot be trusted: {0}")]
    Untrusted(String),
    /// Another attempt may succeed.
    #[error("the PostgreSQL database does not answer: {0}")]
    Unreachable(String),
    /// Another attempt may succeed, when the database has less to do.
    #[error("the PostgreSQL database takes too long: {0}")]
    Slow(String),
    #[error(
        "the PostgreSQL database has no pgvector: install it there and run `CREATE EXTENSION vector` as its administrator"
    )]
    NoVectors,
    #[error(
        "the PostgreSQL database holds a knowledge base of version {found}, and this program reads {known}: use the newer program"
    )]
    Version { found: i32, known: i32 },
    #[error("another process is writing into the PostgreSQL database: wait until it has ended")]
    Busy,
    #[error("the PostgreSQL database refuses: {message} (SQLSTATE {code})")]
    Refused { code: String, message: String },
    #[error(
        "there is not one record to write, and the PostgreSQL database holds {0}: nothing was removed; name the folder that holds the records, or drop the schema"
    )]
    WouldEmpty(u64),
    #[error(
        "what the PostgreSQL database holds of the record {0:?} is not what was written: run the command again"
    )]
    Differs(String),
    #[error(transparent)]
    Words(#[from] IndexError),
    #[error(transparent)]
    Embed(#[from] EmbedError),
}

impl PostgresError {
    /// Whether the connection is lost rather than the request wrong, so that another connection may do.
    pub(super) fn is_connection_lost(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(refusal) = error.as_db_error() else {
            return match distrust(&error) {
                Some(cause) => Self::Untrusted(cause),
                None => Self::Unreachable(reason(&error)),
            };
        };
        let code = refusal.code();
        let is_going_down = [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::TOO_MANY_CONNECTIONS,
            SqlState::CONNECTION_FAILURE,
            SqlState::IDLE_SESSION_TIMEOUT,
        ]
        .contains(code);
        // Its own limit, or that of waiting for somebody else.
        let is_late = [SqlState::QUERY_CANCELED, SqlState::LOCK_NOT_AVAILABLE].contains(code);
        // Details and hints can repeat what a record says; the message names the rule that was broken.
        let message = refusal.message().to_owned();
        match is_going_down {
            true => Self::Unreachable(message),
            false if is_late => Self::Slow(message),
            false => Self::Refused {
                code: code.code().to_owned(),
                message,
            },
        }
    }
}

/// An error with its causes; the first one alone says no more than that there is one.
fn reason(error: &dyn std::error::Error) -> String {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        reason.push_str(": ");
        reason.push_str(&inner.to_string());
        cause = inner.source();
    }
    reason
}
