//! Access tokens of a user's own accounts at other services, as tools get them, and the error of a call whose user has not connected.
//! Knows no authorization server, no store of tokens and no refresh token.

use super::{CapabilityFuture, Context, Failure, Report};
use crate::error::FailureKind;
use crate::id::ClientId;
use crate::sensitive::Sensitive;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The member of an error's details that tells how the user connects.
const CONNECT: &str = "connect";
/// The path of a link to connect.
pub const CONNECT_PATH: &str = "/connections/start";

/// The accounts that users have connected.
pub trait Connections: Send + Sync {
    /// A valid access token for the connection of the call's own user.
    fn token(
        &self,
        request: TokenRequest,
    ) -> CapabilityFuture<Result<Sensitive<String>, ConnectionError>>;

    /// The error of a call whose service refuses the connection's access token, and a new one as well.
    fn refused(&self, request: TokenRequest) -> ConnectionError;
}

/// The user and the connection whose token is wanted.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    /// The connection's name in the configuration.
    pub connection: String,
    /// The user, by an id that nobody else can claim.
    pub owner: ClientId,
    /// A token that the service no longer takes. The answer is another token, or none.
    pub rejected: Option<Sensitive<String>>,
}

/// The reason why there is no token. Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// The user has not connected, or the connection has ended.
    #[error("the user has not connected {}", .0.title)]
    Missing(ConnectInvitation),
    /// The authorization server gives no token now. The cause is for operators.
    #[error("{title} gives no access now: {cause}")]
    Unavailable { title: String, cause: String },
    #[error("there is no connection {0:?} in the configuration")]
    Unknown(String),
    /// No server runs, as where a command calls a tool.
    #[error("users connect their accounts at a server alone")]
    NoServer,
}

/// The instructions by which a user connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectInvitation {
    pub connection: String,
    /// The name of the service for users.
    pub title: String,
    /// A link that is valid for this user for some minutes; relative to the server's address where no origin is configured.
    pub url: String,
}

impl ConnectInvitation {
    /// The message for the model.
    fn message(&self) -> String {
        format!(
            "the user has not connected {}, or the connection has ended; nothing was done",
            self.title
        )
    }

    fn suggestion(&self) -> String {
        format!(
            "Tell the user that they have to connect {} first, with the link that is shown to them. Call again once they say that they \
             have, and not before.",
            self.title
        )
    }

    /// The details of the error, for clients and not for models.
    fn details(&self) -> Value {
        json!({ CONNECT: { "connection": self.connection, "title": self.title, "url": self.url } })
    }
}

/// The invitation to connect in an error's details, if there is one. Tools write details, too: a link that does not look like a link to
/// connect is never shown as one.
pub fn invitation(details: Option<&Value>) -> Option<&Map<String, Value>> {
    let Value::Object(invitation) = details?.get(CONNECT)? else {
        return None;
    };
    let text = |name: &str| invitation.get(name).and_then(Value::as_str);
    let (Some(_), Some(_), Some(url)) = (text("connection"), text("title"), text("url")) else {
        return None;
    };
    let (place, _) = url.split_once("?link=")?;
    let origin = place.strip_suffix(CONNECT_PATH)?;
    let host = ["https://", "http://"]
        .iter()
        .find_map(|scheme| origin.strip_prefix(scheme));
    let is_link = match host {
        Some(host) => !host.is_empty() && !host.contains(['/', '@', '\\', '#', '?']),
        None => origin.is_empty(),
    };
    (is_link && invitation.len() == 3).then_some(invitation)
}

impl ConnectionError {
    /// The report of a call that ends with this error.
    pub fn report(&self) -> Report {
        match self {
            Self::Missing(invitation) => Report {
                retryable: Some(false),
                suggestion: Some(invitation.suggestion()),
                details: Some(invitation.details()),
                ..Report::new(FailureKind::Auth, invitation.message())
            },
            Self::Unavailable { title, cause: _ } => Report::new(
                FailureKind::Transient,
                format!("{title} gives no access for the user now; nothing was done"),
            ),
            Self::Unknown(_) => Report {
                retryable: Some(false),
                ..Report::new(
                    FailureKind::Permanent,
                    "the connection that the tool needs is not set up; nothing was done",
                )
            },
            Self::NoServer => Report {
                retryable: Some(false),
                suggestion: Some(
                    "Call the tool through a server: start windlass serve.".to_owned(),
                ),
                ..Report::new(
                    FailureKind::Permanent,
                    "the tool acts for a user who has connected an account, and users connect at a server alone; nothing was done",
                )
            },
        }
    }
}

impl From<ConnectionError> for Failure {
    fn from(error: ConnectionError) -> Self {
        error.report().into()
    }
}

impl Context {
    /// The request for a token of the call's own user.
    pub fn token_request(
        &self,
        connection: &str,
        rejected: Option<Sensitive<String>>,
    ) -> TokenRequest {
        TokenRequest {
            connection: connection.to_owned(),
            owner: self.caller.client_id.clone(),
            rejected,
        }
    }
}

/// The connections where none are set up.
pub fn no_connections() -> Arc<dyn Connections> {
    Arc::new(NoConnections)
}

struct NoConnections;

impl Connections for NoConnections {
    fn token(
        &self,
        request: TokenRequest,
    ) -> CapabilityFuture<Result<Sensitive<String>, ConnectionError>> {
        Box::pin(std::future::ready(Err(self.refused(request))))
    }

    fn refused(&self, _: TokenRequest) -> ConnectionError {
        ConnectionError::NoServer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::Cause;

    #[test]
    fn what_a_tool_writes_is_no_link_to_connect() {
        for (url, expected) in [
            ("/connections/start?link=x", true),
            ("https://agent.example/connections/start?link=x", true),
            ("http://127.0.0.1:8080/connections/start?link=x", true),
            ("https://evil.example/", false),
            ("javascript:alert(1)//connections/start?link=x", false),
            ("//evil.example/connections/start?link=x", false),
            ("https://a@evil.example/connections/start?link=x", false),
            ("/elsewhere/connections/start?link=x", false),
        ] {
            let of = |url: Value| json!({ CONNECT: { "connection": "shop", "title": "Shop", "url": url } });
            assert_eq!(
                invitation(Some(&of(json!(url)))).is_some(),
                expected,
                "{url}"
            );
            assert_eq!(invitation(Some(&of(json!([url])))), None, "{url}");
        }
        assert_eq!(invitation(Some(&json!({ CONNECT: "shop" }))), None);
        assert_eq!(invitation(None), None);
    }

    #[test]
    fn a_missing_connection_is_said_to_the_model_and_its_link_to_the_client_alone() {
        let error = ConnectionError::Missing(ConnectInvitation {
            connection: "shop".to_owned(),
            title: "Example Shop".to_owned(),
            url: "/connections/start?link=x".to_owned(),
        });
        let Cause::Reported(report) = Failure::from(error).cause else {
            panic!("a missing connection is reported");
        };
        assert_eq!(
            (report.kind, report.retryable),
            (FailureKind::Auth, Some(false))
        );
        let read = format!("{} {}", report.message, report.suggestion.unwrap());
        assert!(
            read.contains("Example Shop") && !read.contains("/connections"),
            "{read}"
        );
        assert_eq!(
            report.details.unwrap()[CONNECT]["url"],
            "/connections/start?link=x"
        );
    }
}
