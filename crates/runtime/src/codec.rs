//! The seam between a live session and a provider's protocol: how a codec reads and writes frames, and how a connection is
//! opened. Knows no provider.

use crate::transport::websocket::{ConnectError, Socket};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use windlass_contract::sensitive::Sensitive;
use windlass_provider::failure::FailureClass;
use windlass_session::model::{LostReason, ModelCommand, ModelEvent};
use windlass_session::session::SessionConfig;

/// Takes the contents of a provider's frame, in their order.
pub trait Sink {
    fn event(&mut self, event: ModelEvent);

    /// PCM16 mono at 24 kHz.
    fn audio(&mut self, pcm: &[u8]);

    /// The duration of spoken audio that the user has not heard yet.
    fn unplayed(&self) -> Duration {
        Duration::ZERO
    }
}

/// A provider's wire protocol on one connection. Does no IO and knows no policy.
pub trait Codec: Send {
    /// Appends the first frame of the connection.
    fn encode_setup(&mut self, frame: &mut Vec<u8>);

    /// Reads one message of the provider. An unreadable message becomes an event, never an error.
    fn decode(&mut self, frame: &[u8], sink: &mut dyn Sink);

    /// Appends the replies that the protocol itself requires after a message.
    ///
    /// # Errors
    ///
    /// The message ends the connection, for this reason.
    fn react(&mut self, _frames: &mut Vec<Vec<u8>>) -> Result<(), LostReason> {
        Ok(())
    }

    /// Appends the messages for a command, each as a frame of its own.
    fn encode(&mut self, command: &ModelCommand, frames: &mut Vec<Vec<u8>>);

    /// Notes that every call of a message has had its answer, or gets none.
    fn calls_settled(&mut self) {}

    /// Appends the message for a piece of microphone audio: PCM16 mono at 16 kHz.
    fn encode_audio(&mut self, pcm: &[u8], frame: &mut Vec<u8>);

    /// The current answer is void, and `_unplayed` of it was never heard. Appends the messages that the provider needs for that.
    fn discard(&mut self, _unplayed: Duration, _frames: &mut Vec<Vec<u8>>) {}

    /// Continues the codec's work beside the connection. Ready when [`Codec::work`] has a result.
    fn poll_work(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// The result of that work: events for the core, and messages for the provider.
    fn work(&mut self, _sink: &mut dyn Sink, _frames: &mut Vec<Vec<u8>>) {}

    /// The life of a connection before another replaces it, if the provider ends connections without a warning.
    fn lifetime(&self) -> Option<Duration> {
        None
    }

    /// The reason for the loss of a connection that the provider closed with this code and these words.
    fn close_reason(&self, code: u16, reason: String) -> LostReason {
        LostReason::Closed { code, reason }
    }
}

pub type Connecting = Pin<Box<dyn Future<Output = Result<Socket, ConnectError>> + Send>>;

/// A connection that is being opened, and the codec that will speak on it.
pub struct Opening {
    pub connecting: Connecting,
    pub codec: Box<dyn Codec>,
}

/// The connection to open, and its session.
#[derive(Clone, Copy, Debug)]
pub struct OpenRequest<'a> {
    pub session: &'a SessionConfig,
    /// The connection's number in the session, from 1.
    pub generation: u64,
    /// The handle that resumes the session of the connection before.
    pub resumption_handle: Option<&'a Sensitive<String>>,
    /// Whether history will be sent first; some providers need to know that in the setup.
    pub history_follows: bool,
}

/// Opens connections to one provider, one model, one account.
pub trait LiveProvider: Send + Sync {
    fn open(&self, request: OpenRequest<'_>) -> Opening;

    /// Whether connections bring a key, so that a refused key is told from a missing one.
    fn has_key(&self) -> bool {
        true
    }
}

/// The session's reason for a failed connection.
pub fn lost_reason(error: &ConnectError) -> LostReason {
    match error {
        ConnectError::Refused { status, body, .. } => {
            match FailureClass::of_refusal(*status, body.expose()) {
                FailureClass::Auth => LostReason::Unauthorized,
                FailureClass::InvalidRequest
                | FailureClass::ContextTooLong
                | FailureClass::NotFound
                | FailureClass::RateLimited
                | FailureClass::QuotaExhausted
                | FailureClass::Conflict
                | FailureClass::Cancelled
                | FailureClass::Timeout
                | FailureClass::Overloaded
                | FailureClass::ServerFault
                | FailureClass::NoWay
                | FailureClass::Protocol => LostReason::Refused { status: *status },
            }
        }
        ConnectError::Address { .. }
        | ConnectError::Name { .. }
        | ConnectError::Unreachable { .. }
        | ConnectError::Tls { .. }
        | ConnectError::Proxy { .. }
        | ConnectError::ProxyRefused { .. }
        | ConnectError::Upgrade { .. }
        | ConnectError::Timeout { .. } => {
            let problem = error.to_string();
            match error.is_lasting() {
                true => LostReason::NoWay { problem },
                false => LostReason::Network { problem },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY_NOT_VALID: &str = r#"{"error": {"code": 400, "status": "INVALID_ARGUMENT",
        "message": "API key not valid. Please pass a valid API key.",
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}}"#;

    #[test]
    fn a_refused_key_is_told_from_a_provider_that_is_busy() {
        let refused = |status| LostReason::Refused { status };
        for (status, body, reason) in [
            (401, "", LostReason::Unauthorized),
            (403, "", LostReason::Unauthorized),
            (400, KEY_NOT_VALID, LostReason::Unauthorized),
            (
                400,
                r#"{"error": {"code": "invalid_api_key", "message": "Incorrect API key provided: sk-x."}}"#,
                LostReason::Unauthorized,
            ),
            (
                400,
                &KEY_NOT_VALID[..KEY_NOT_VALID.len() / 2],
                LostReason::Unauthorized,
            ),
            (
                400,
                "API key not valid. Please pass a valid API key.",
                LostReason::Unauthorized,
            ),
            (400, "", refused(400)),
            (400, "no JSON, whatever it says of an API key", refused(400)),
            (
                400,
                r#"{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "Unknown model"}}"#,
                refused(400),
            ),
            (429, "", refused(429)),
            (500, KEY_NOT_VALID, refused(500)),
        ] {
            let error = ConnectError::Refused {
                host: "provider".to_owned(),
                status,
                body: Sensitive(body.as_bytes().to_vec()),
            };
            assert_eq!(lost_reason(&error), reason, "{status} {body}");
            let shown = format!("{error} {error:?}");
            assert!(
                !shown.contains("sk-x") && !shown.contains("valid"),
                "{shown}"
            );
        }
    }

    #[test]
    fn a_connection_that_did_not_come_about_in_time_is_no_setup_without_an_answer() {
        let late = ConnectError::Timeout {
            host: "provider".to_owned(),
            after: Duration::from_secs(10),
        };
        let problem = late.to_string();
        assert_eq!(lost_reason(&late), LostReason::Network { problem });
    }
}
