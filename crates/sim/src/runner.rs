//! A simulated server as its runner sees it, for every protocol: the source of its answers, its connections, and its inputs and outputs.
//! Knows no protocol.

use crate::script::{Exchange, Script, Settings};
use std::sync::Arc;
use windlass_session::time::Timestamp;

/// The source of the server's answers.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) settings: Settings,
    /// `None` for the demo model.
    pub(crate) exchanges: Option<Arc<[Exchange]>>,
}

impl Options {
    /// The demo model, speaking at the usual pace.
    pub fn demo() -> Self {
        Self {
            settings: Settings::default(),
            exchanges: None,
        }
    }

    pub fn scripted(script: Script) -> Self {
        Self {
            settings: script.settings,
            exchanges: Some(script.exchanges.into()),
        }
    }

    /// The same with other settings.
    pub fn with_settings(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }
}

/// The id of one connection of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(crate) u64);

#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A text or binary message of the client.
    Frame(&'a [u8]),
    /// The client closed, or the network failed.
    Closed,
    /// A deadline has come.
    Tick,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// To be sent as one binary message.
    Send(Vec<u8>),
    /// The connection ends with this close frame; nothing follows.
    Close { code: u16, reason: String },
    /// The connection ends without a close frame; nothing follows.
    Drop,
    /// The first half of the frame that would carry this message is sent, and the connection ends; nothing follows.
    DropWithin(Vec<u8>),
    /// The socket is not to be read until then.
    StopReading { until: Timestamp },
}

/// The parts of an HTTP upgrade request that the service reads.
#[derive(Clone, Debug, Default)]
pub struct Upgrade {
    /// Path and query as requested, such as `/ws/google.ai…BidiGenerateContent?key=abc`.
    pub target: String,
    /// Headers; their names may have any case.
    pub headers: Vec<(String, String)>,
}

impl Upgrade {
    /// Whether the client offers this subprotocol.
    pub fn offers(&self, subprotocol: &str) -> bool {
        self.headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-protocol"))
            .flat_map(|(_, value)| value.split(','))
            .any(|offer| offer.trim() == subprotocol)
    }
}

/// The number of next connections that a script refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusals(u32);

impl Refusals {
    /// Sets the number; a later call replaces an earlier one.
    pub(crate) fn turn_away(&mut self, connections: u32) {
        self.0 = connections;
    }

    /// Accepts or refuses a new connection.
    pub(crate) fn admit(&mut self) -> Result<(), Rejection> {
        match self.0.checked_sub(1) {
            None => Ok(()),
            Some(left) => {
                self.0 = left;
                Err(Rejection {
                    http_status: 503,
                    cause: "the script refuses this connection",
                })
            }
        }
    }
}

/// The refusal of an upgrade, which is answered with this status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("upgrade refused with HTTP status {http_status}: {cause}")]
pub struct Rejection {
    pub http_status: u16,
    /// The text for the body of the answer.
    pub cause: &'static str,
}
