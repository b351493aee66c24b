//! One connection to a server, whichever way it goes: numbered requests, each with its one answer, or with why there is none. Says of every
//! request whether it may have arrived. Knows no tool.

use super::http::HttpWire;
use super::message::Revision;
use super::process::ProcessWire;
use crate::worker::wire::{self, RpcError};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;
use windlass_contract::arguments::Arguments;
use windlass_contract::handler::{Context, HttpAnswer};

/// A request on its way.
pub(super) struct Asked {
    pub(super) id: u64,
    pub(super) method: &'static str,
    /// Method and parameters, as [`wire::tail`] writes them.
    tail: Vec<u8>,
    /// Values that an HTTP server gets in headers as well.
    pub(super) headers: Vec<(String, String)>,
    pub(super) until: Instant,
    /// The call that gets the progress.
    pub(super) context: Option<Context>,
    /// The call's arguments, which no log shows.
    pub(super) arguments: Option<Arc<Arguments>>,
    pub(super) end: UnansweredEnd,
}

/// The notice to a server about a request whose caller waits no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnansweredEnd {
    /// No notice, and the server's silence means nothing: the request opens a connection, or asks whether the server is still there.
    Ignored,
    /// No notice: a change that has begun is not torn in half.
    Left,
    /// The server is told that it may stop.
    Cancelled,
}

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum AskError {
    /// Nothing was sent.
    NotSent(String),
    /// It may have arrived, and nobody knows what became of it.
    Lost(String),
    /// The server says so.
    Refused(RpcError),
    /// An answer over HTTP that is no message of the protocol.
    Status(Box<HttpAnswer>),
    /// The server does not know this session any more. It did nothing.
    SessionOver,
}

impl Asked {
    /// `Err` where the parameters are no JSON.
    pub(super) fn new(
        id: u64,
        method: &'static str,
        params: &impl Serialize,
        until: Instant,
    ) -> Result<Self, AskError> {
        let tail = wire::tail(method, params)
            .map_err(|error| AskError::NotSent(format!("{method} cannot be written: {error}")))?;
        Ok(Self {
            id,
            method,
            tail,
            headers: Vec::new(),
            until,
            context: None,
            arguments: None,
            end: UnansweredEnd::Ignored,
        })
    }

    /// The whole message, with an end of line.
    pub(super) fn text(&self) -> Vec<u8> {
        wire::request(self.id, &self.tail)
    }
}

/// The way on which messages go.
pub(super) enum Wire {
    Process(ProcessWire),
    Http(HttpWire),
}

impl Wire {
    pub(super) async fn ask(
        &self,
        asked: Asked,
        revision: Option<&Revision>,
    ) -> Result<Box<RawValue>, AskError> {
        match self {
            Self::Process(wire) => wire.ask(asked).await,
            Self::Http(wire) => wire.ask(asked, revision).await,
        }
    }
}

/// The features that a server announces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offers {
    pub(super) tools: bool,
    pub(super) resources: bool,
    pub(super) prompts: bool,
}

impl Offers {
    /// Reads the capabilities that it declares.
    pub(super) fn of(capabilities: &Value) -> Self {
        let has = |name: &str| capabilities.get(name).is_some_and(Value::is_object);
        Self {
            tools: has("tools"),
            resources: has("resources"),
            prompts: has("prompts"),
        }
    }
}

/// A connection on which it is settled how it is spoken.
pub(super) struct Link {
    pub(super) wire: Wire,
    pub(super) revision: Revision,
    pub(super) offers: Offers,
    last_id: AtomicU64,
}

impl Link {
    /// `last_id` is that of the last request that went over the wire already.
    pub(super) fn new(wire: Wire, revision: Revision, offers: Offers, last_id: u64) -> Self {
        if let Wire::Process(wire) = &wire {
            wire.settled(&revision);
        }
        Self {
            wire,
            revision,
            offers,
            last_id: AtomicU64::new(last_id),
        }
    }

    pub(super) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn is_open(&self) -> bool {
        match &self.wire {
            Wire::Process(wire) => wire.is_open(),
            Wire::Http(_) => true,
        }
    }

    pub(super) fn is_process(&self) -> bool {
        matches!(self.wire, Wire::Process(_))
    }

    pub(super) async fn ask(&self, asked: Asked) -> Result<Box<RawValue>, AskError> {
        self.wire.ask(asked, Some(&self.revision)).await
    }
}

impl AskError {
    /// For the log: a server's own words are left out, because they may be a user's.
    pub(super) fn for_log(&self) -> String {
        match self {
            Self::NotSent(problem) | Self::Lost(problem) => problem.clone(),
            Self::Refused(error) => format!("the server answered with error {}", error.code),
            Self::Status(answer) => format!("the server answered {}", answer.status),
            Self::SessionOver => "the server has ended the session".to_owned(),
        }
    }
}
