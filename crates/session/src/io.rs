//! The core's one door in and its one list out. The driver obeys every output and answers those that ask.

use crate::client::{ClientEvent, ClientUpdate};
use crate::event::{EndReason, SessionEvent};
use crate::model::{ConnectionEvent, ModelCommand, ModelEvent};
pub use crate::policy::AdmittedCall;
use std::time::Duration;
use windlass_tool::handler::{HandlerMessage, HandlerResult};
use windlass_tool::id::{CallNumber, CallRef, EffectId, ToolId};
use windlass_tool::kind::RateLimit;

/// What happens to a session, one thing at a time, each with its time.
#[derive(Clone, Debug)]
pub enum Input {
    Model(ModelEvent),
    Connection(ConnectionEvent),
    Client(ClientEvent),
    /// The answer to [`Output::Reserve`].
    Reserved(Reservation),
    /// The answer to [`Output::CheckRate`].
    RateChecked {
        call: CallNumber,
        decision: RateDecision,
    },
    /// An attempt has ended.
    CallFinished {
        call: CallRef,
        result: HandlerResult,
    },
    /// A running attempt says something.
    HandlerMessage {
        call: CallRef,
        message: HandlerMessage,
    },
    /// The server is shutting down: tell the client, let started writes end.
    Shutdown,
    /// A deadline of the session's next deadline has come.
    Tick,
}

/// What the store says to a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub call: CallNumber,
    /// The effect's id, minted by the driver; `Err` where it could not be stored.
    pub outcome: Result<EffectId, ReservationError>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the effect could not be reserved: {problem}")]
pub struct ReservationError {
    /// For the log.
    pub problem: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateDecision {
    Allowed,
    Refused { retry_after: Duration },
}

/// What the driver is to do, in this order.
#[derive(Debug)]
pub enum Output {
    /// Store the intention to run this call, durably, and answer with [`Input::Reserved`].
    Reserve {
        call: CallNumber,
        tool: ToolId,
        fingerprint: [u8; 32],
    },
    /// Charge one call to the user's limit and answer with [`Input::RateChecked`].
    CheckRate {
        call: CallNumber,
        tool: ToolId,
        limit: RateLimit,
    },
    /// Run the handler. There is no other way to one.
    StartCall(AdmittedCall),
    /// Tell the attempt that nobody waits for it. With `drop`, stop it; else let it run to its end.
    AbortCall {
        call: CallRef,
        drop: bool,
    },
    SendModel(ModelCommand),
    SendClient(ClientUpdate),
    /// Throw away audio that was not played, and what still arrives, until [`Output::AcceptAudio`].
    DiscardAudio,
    /// A new answer may be heard again.
    AcceptAudio,
    /// From now on audio of the model goes, or does not go, to the client.
    SuppressAudio(bool),
    /// Hold the microphone back, or let it through.
    HoldMicrophone(bool),
    Event(SessionEvent),
    /// The session is over. No further output follows.
    Close(EndReason),
}
