//! The errors of the database, in words for operators. Knows no statement.

use crate::embed::EmbedError;
use crate::index::IndexError;
use rustls::CertificateError;
use std::error::Error;
use std::io;
use tokio_postgres::error::SqlState;

/// The reason why the database refused a request. The text never repeats a password or a record.
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
    /// The connection may lead to another server than the database, or be readable by others. The text names the cure.
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
    #[error(
        "the words in the PostgreSQL database are those of an earlier version, and this user may not renew them ({0}): run `windlass kb move` once as a user that may write there"
    )]
    Outdated(String),
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
    /// Whether the connection is lost, and the request may succeed on another one.
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
        // Its own time limit, or the limit of waiting for a lock.
        let is_late = [SqlState::QUERY_CANCELED, SqlState::LOCK_NOT_AVAILABLE].contains(code);
        // Details and hints can repeat a record's text; the message names the broken rule.
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

/// An error with its causes; the first one alone only tells that there is an error.
fn reason(error: &dyn Error) -> String {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        reason.push_str(": ");
        reason.push_str(&inner.to_string());
        cause = inner.source();
    }
    reason
}

/// The reason and the cure, if an error means that no private connection can be made.
fn distrust(error: &tokio_postgres::Error) -> Option<String> {
    let cause = error.source()?;
    // The driver has no kind of error for this one.
    if cause.to_string() == "server does not support TLS" {
        return Some(
            "it does not encrypt its connections: turn `ssl` on there, or write `?sslmode=disable` at the end of the address where nobody else can read on the way".to_owned(),
        );
    }
    let inner = cause.downcast_ref::<io::Error>()?.get_ref()?;
    let problem = inner.downcast_ref::<rustls::Error>()?;
    untrusted(problem)
}

/// The same for the error of a handshake. `None` where another attempt may succeed, as after a lost connection.
fn untrusted(problem: &rustls::Error) -> Option<String> {
    use rustls::AlertDescription as Alert;
    let problem = match problem {
        rustls::Error::InvalidCertificate(problem) => problem,
        // A server that requires a client certificate answers with these alerts.
        rustls::Error::AlertReceived(
            Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnknownCA
            | Alert::AccessDenied,
        ) => {
            return Some(format!(
                "it demands a certificate of its clients, which none is sent: {problem}"
            ));
        }
        _ => return None,
    };
    Some(match problem {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate was signed by nobody who is believed here: name the certificate of your own authority in knowledge.postgres_root_certificate".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name than that in the address: write the name that the certificate holds".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired: renew it there, or set the clock of this machine".to_owned()
        }
        // `openssl req -x509` makes such certificates.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is that of an authority: give the server one that the authority has signed, or one with `basicConstraints = CA:FALSE`".to_owned()
        }
        other => format!("its certificate is no good: {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::untrusted;
    use rustls::{AlertDescription, CertificateError, Error};

    #[test]
    fn only_what_no_other_try_can_mend_is_distrust() {
        for (error, words) in [
            (
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                Some("signed by nobody"),
            ),
            (
                Error::AlertReceived(AlertDescription::CertificateRequired),
                Some("demands a certificate of its clients"),
            ),
            (Error::AlertReceived(AlertDescription::InternalError), None),
            (Error::DecryptError, None),
            (Error::General("the connection was lost".to_owned()), None),
        ] {
            let said = untrusted(&error);
            let is_said = match (&said, words) {
                (Some(said), Some(words)) => said.contains(words),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            assert!(is_said, "{error:?}: {said:?}");
        }
    }
}
