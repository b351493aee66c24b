//! The answer to one request to a text model, in one form for every provider: the pieces for the conversation's log, the calls
//! for the core, and the ending. Decides nothing: retries and their number are the driver's.

mod trouble;

pub(crate) use trouble::Trouble;

use crate::failure::Failure;
use crate::log::{Call, Entry, Opaque, Route, TextPiece};
use windlass_session::model::{IncomingCall, ModelEvent, TurnEndReason, Usage};

/// One answer, ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    /// Pieces for the log, in the order in which they came. They hold calls only if the calls are to be answered.
    pub pieces: Vec<AnswerPiece>,
    /// Opaque data of the answer as a whole, which goes back with it.
    pub opaque: Option<Opaque>,
    /// Calls for the core, in the order of the calls among the pieces. Empty unless the answer is [`Ending::Complete`].
    pub calls: Vec<IncomingCall>,
    pub usage: Option<Usage>,
    pub ending: Ending,
    /// Words of the answer have been passed on, so that asking again would say them twice.
    pub passed_on: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AnswerPiece {
    Text(TextPiece),
    Call(Call),
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The model has said all, or waits for the answers to its calls.
    Complete,
    /// The limit of tokens cut it off.
    LengthReached,
    /// The limit of tokens cut the answer off in a call or behind one, so that no call is whole for certain. Worth asking again
    /// with [`Ending::correction`].
    CallCut,
    /// The provider refuses to show the answer, for this reason.
    Blocked { reason: String },
    /// The model wrote a call that the provider could not read. Worth asking again with [`Ending::correction`].
    MalformedCall,
    /// The model called a tool that was not declared to it. Worth asking again with [`Ending::correction`].
    UndeclaredCall,
    /// The model wrote a call among its words, where it is not run. Worth asking again once with [`Ending::correction`].
    ProseCall,
    /// The provider ended the answer for another reason of its own.
    Stopped { reason: String },
    /// The request failed, before the answer began or in its middle.
    Failed(Failure),
    /// The stream stopped before the answer ended: the connection was lost, or we closed it. Worth asking again if nothing was
    /// passed on.
    Cut,
}

impl Ending {
    /// The notice that the model gets before it is asked again.
    pub fn correction(&self) -> Option<&'static str> {
        match self {
            Self::MalformedCall => Some(
                "Your last tool call could not be read and was not carried out. Call the tool again with arguments in valid JSON, or answer without it.",
            ),
            Self::UndeclaredCall => Some(
                "You called a tool that does not exist here, and nothing was carried out. Use only the tools that were declared, or answer without one.",
            ),
            Self::CallCut => Some(
                "Your last answer reached the limit of its length in a tool call, and the call was not carried out. Make it again with shorter arguments, or in several smaller calls.",
            ),
            Self::ProseCall => Some(
                "You wrote a tool call into your answer as text. It was not carried out, nothing of it has happened, and any result that you wrote is not real. Make the call through the interface for tool calls, or answer without it; do not say that it was done.",
            ),
            Self::Complete
            | Self::LengthReached
            | Self::Blocked { .. }
            | Self::Stopped { .. }
            | Self::Failed(_)
            | Self::Cut => None,
        }
    }

    /// Whether the same request may bring a better answer, with the correction if there is one.
    pub fn is_worth_another_try(&self) -> bool {
        match self {
            Self::MalformedCall
            | Self::UndeclaredCall
            | Self::ProseCall
            | Self::CallCut
            | Self::Cut => true,
            Self::Failed(failure) => failure.retryable,
            Self::Complete | Self::LengthReached | Self::Blocked { .. } | Self::Stopped { .. } => {
                false
            }
        }
    }

    fn turn_end(&self) -> Option<TurnEndReason> {
        match self {
            Self::Complete => None,
            Self::LengthReached | Self::CallCut => Some(TurnEndReason::Other("length".to_owned())),
            Self::Blocked { .. } => Some(TurnEndReason::Blocked),
            Self::MalformedCall | Self::UndeclaredCall | Self::ProseCall => {
                Some(TurnEndReason::MalformedCall)
            }
            Self::Stopped { reason } => Some(TurnEndReason::Other(reason.clone())),
            Self::Failed(failure) => Some(TurnEndReason::Other(failure.class.to_string())),
            Self::Cut => Some(TurnEndReason::Other("the answer was cut off".to_owned())),
        }
    }
}

impl ModelAnswer {
    /// Whether the answer brought neither a word nor a call.
    pub fn is_empty(&self) -> bool {
        !self.passed_on && self.calls.is_empty()
    }

    /// The entries for the log; none if the answer is empty.
    pub fn entries(&self, route: &Route) -> Vec<Entry> {
        if self.pieces.is_empty() {
            return Vec::new();
        }
        let mut entries = Vec::with_capacity(self.pieces.len() + 2);
        entries.push(Entry::AnswerStarted(route.clone()));
        entries.extend(self.pieces.iter().map(|piece| match piece {
            AnswerPiece::Text(text) => Entry::Text(text.clone()),
            AnswerPiece::Call(call) => Entry::Call(call.clone()),
        }));
        entries.extend(self.opaque.clone().map(Entry::AnswerOpaque));
        entries
    }

    /// The core's events once no other attempt is made: the tokens, and then either the calls or the end of the turn.
    pub fn closing_events(&self) -> Vec<ModelEvent> {
        let mut events = Vec::with_capacity(3);
        events.extend(self.usage.map(ModelEvent::Usage));
        if self.calls.is_empty() {
            events.push(ModelEvent::GenerationComplete);
            events.push(ModelEvent::TurnComplete {
                idle: true,
                reason: self.ending.turn_end(),
                unplayed: std::time::Duration::ZERO,
            });
        } else {
            events.push(ModelEvent::Calls(self.calls.clone()));
        }
        events
    }
}

/// Limits of one answer. An answer beyond one of them has failed: our models do not say so much, but a server may never stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerLimits {
    /// Bytes of the whole stream, with every comment and empty piece.
    pub stream_bytes_max: usize,
    /// Bytes of one line of the stream; a line with a picture has several million.
    pub line_bytes_max: usize,
    pub text_bytes_max: usize,
    pub calls_max: usize,
    /// Bytes of one call's arguments.
    pub arguments_bytes_max: usize,
}

impl Default for AnswerLimits {
    fn default() -> Self {
        Self {
            stream_bytes_max: 64 << 20,
            line_bytes_max: 16 << 20,
            text_bytes_max: 1 << 20,
            calls_max: 128,
            arguments_bytes_max: 512 << 10,
        }
    }
}
