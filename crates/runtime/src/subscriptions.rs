//! Callbacks of a program that embeds the library: typed subscriptions to sessions' events. Knows events and identities; no
//! session, no tool. A callback is checked against its event by the compiler.

use crate::subscriber::{SessionIdentity, Subscriber};
use std::marker::PhantomData;
use windlass_contract::handler::CustomEvent;
use windlass_contract::id::CallNumber;
use windlass_contract::sensitive::Sensitive;
use windlass_session::event::{CallRecord, EndReason, SessionEvent, TurnSummary};
use windlass_session::model::{Role, Usage};

/// The session of an event, and its time.
#[derive(Clone, Copy, Debug)]
pub struct Occasion<'a> {
    pub session: &'a SessionIdentity,
    /// Milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
}

/// One kind of event, as a callback sees it.
pub trait Observed {
    /// The value that the callback gets.
    type Seen<'a>;

    /// `None` for events of other kinds.
    fn observe(event: &SessionEvent) -> Option<Self::Seen<'_>>;
}

/// The end of a call. A call that needed approval has two ends: [`Self::Rejected`] with `CONFIRMATION_REQUIRED`, which says that
/// it has not run, and under the same number the outcome of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// The call ran.
    Finished,
    /// The call was refused before it ran.
    Rejected,
    /// The call was cancelled.
    Cancelled,
}

/// The responses to calls: [`Subscriptions::on_tool_call`].
pub struct ToolCall;

impl Observed for ToolCall {
    type Seen<'a> = (CallEnd, &'a CallRecord);

    fn observe(event: &SessionEvent) -> Option<Self::Seen<'_>> {
        match event {
            SessionEvent::CallFinished(record) => Some((CallEnd::Finished, record)),
            SessionEvent::CallRejected(record) => Some((CallEnd::Rejected, record)),
            SessionEvent::CallCancelled(record) => Some((CallEnd::Cancelled, record)),
            _ => None,
        }
    }
}

/// The sums of a turn at its end: [`Subscriptions::on_turn_complete`].
pub struct TurnComplete;

/// A turn's number, counted from 1 within its session, and its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedTurn {
    pub turn: u64,
    pub summary: TurnSummary,
}

impl Observed for TurnComplete {
    type Seen<'a> = CompletedTurn;

    fn observe(event: &SessionEvent) -> Option<Self::Seen<'_>> {
        match event {
            SessionEvent::TurnEnded { turn, summary } => Some(CompletedTurn {
                turn: *turn,
                summary: *summary,
            }),
            _ => None,
        }
    }
}

/// A line of the conversation.
pub struct Spoken;

/// The speaker, the turn and the text of a line.
#[derive(Clone, Copy, Debug)]
pub struct SpokenLine<'a> {
    pub role: Role,
    pub turn: u64,
    pub text: &'a Sensitive<String>,
}

impl Observed for Spoken {
    type Seen<'a> = SpokenLine<'a>;

    fn observe(event: &SessionEvent) -> Option<Self::Seen<'_>> {
        match event {
            SessionEvent::Transcript { role, text, turn } => Some(SpokenLine {
                role: *role,
                turn: *turn,
                text,
            }),
            _ => None,
        }
    }
}

/// Tokens that a provider counted.
pub struct TokensUsed;

impl Observed for TokensUsed {
    type Seen<'a> = &'a Usage;

    fn observe(event: &SessionEvent) -> Option<Self::Seen<'_>> {
        match event {
            SessionEvent::Usage(usage) => Some(usage),
            _ => None,
        }
    }
}

/// The end of a session and its reason.
pub struct SessionEnd;

impl Observed for SessionEnd {
    type Seen<'a> = &'a EndReason;

    fn observe(event: &SessionEvent) -> Option<Self::Seen<'_>> {
        match event {
            SessionEvent::SessionEnded { reason } => Some(reason),
            _ => None,
        }
    }
}

/// An event that a tool of the program emits: `Custom<OrderPlaced>`.
pub struct Custom<E>(PhantomData<E>);

impl<E: CustomEvent> Observed for Custom<E> {
    /// The call that emitted it, and the event.
    type Seen<'a> = (CallNumber, E);

    fn observe(event: &SessionEvent) -> Option<Self::Seen<'_>> {
        let SessionEvent::Custom {
            call,
            name,
            payload,
        } = event
        else {
            return None;
        };
        if name != E::NAME {
            return None;
        }
        match E::deserialize(payload.expose()) {
            Ok(event) => Some((*call, event)),
            Err(_) => {
                // The error would quote the payload, which may be a user's words.
                tracing::warn!(
                    event = E::NAME,
                    call = call.0,
                    "an emitted event does not have the shape that its subscriber expects"
                );
                None
            }
        }
    }
}

type Callback = Box<dyn Fn(Occasion<'_>, &SessionEvent) + Send + Sync>;

/// Callbacks, in the order in which they were added; one [`Subscriber`] of all of them. They are called on the session's
/// own task and must not block: hand long work to a queue.
///
/// The value that a callback gets depends on the kind of its event, and the compiler checks it:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass_runtime::subscriptions::Subscriptions;
/// use windlass_contract::handler::CustomEvent;
///
/// #[derive(Serialize, Deserialize)]
/// struct OrderPlaced {
///     receipt: u64,
/// }
///
/// impl CustomEvent for OrderPlaced {
///     const NAME: &'static str = "order_placed";
/// }
///
/// let subscriptions = Subscriptions::new()
///     .on_turn_complete(|_, turn| println!("{} calls", turn.summary.calls))
///     .on_custom(|_, event: OrderPlaced| println!("receipt {}", event.receipt));
/// ```
///
/// A turn has no receipt:
///
/// ```compile_fail,E0609
/// # use serde::{Deserialize, Serialize};
/// # use windlass_runtime::subscriptions::Subscriptions;
/// # use windlass_contract::handler::CustomEvent;
/// #
/// # #[derive(Serialize, Deserialize)]
/// # struct OrderPlaced {
/// #     receipt: u64,
/// # }
/// #
/// # impl CustomEvent for OrderPlaced {
/// #     const NAME: &'static str = "order_placed";
/// # }
/// #
/// let subscriptions = Subscriptions::new()
///     .on_turn_complete(|_, turn| println!("receipt {}", turn.receipt))
///     .on_custom(|_, event: OrderPlaced| println!("receipt {}", event.receipt));
/// ```
///
/// An order says nothing of its price:
///
/// ```compile_fail,E0609
/// # use serde::{Deserialize, Serialize};
/// # use windlass_runtime::subscriptions::Subscriptions;
/// # use windlass_contract::handler::CustomEvent;
/// #
/// # #[derive(Serialize, Deserialize)]
/// # struct OrderPlaced {
/// #     receipt: u64,
/// # }
/// #
/// # impl CustomEvent for OrderPlaced {
/// #     const NAME: &'static str = "order_placed";
/// # }
/// #
/// let subscriptions = Subscriptions::new()
///     .on_turn_complete(|_, turn| println!("{} calls", turn.summary.calls))
///     .on_custom(|_, event: OrderPlaced| println!("price {}", event.price));
/// ```
///
/// A number is no event:
///
/// ```compile_fail,E0277
/// # use serde::{Deserialize, Serialize};
/// # use windlass_runtime::subscriptions::Subscriptions;
/// # use windlass_contract::handler::CustomEvent;
/// #
/// # #[derive(Serialize, Deserialize)]
/// # struct OrderPlaced {
/// #     receipt: u64,
/// # }
/// #
/// # impl CustomEvent for OrderPlaced {
/// #     const NAME: &'static str = "order_placed";
/// # }
/// #
/// let subscriptions = Subscriptions::new()
///     .on_turn_complete(|_, turn| println!("{} calls", turn.summary.calls))
///     .on_custom(|_, receipt: u64| println!("receipt {receipt}"));
/// ```
#[derive(Default)]
pub struct Subscriptions {
    callbacks: Vec<Callback>,
}

impl Subscriptions {
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls back with every event of one kind.
    #[must_use]
    pub fn on<K: Observed>(
        mut self,
        callback: impl Fn(Occasion<'_>, K::Seen<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.callbacks.push(Box::new(move |occasion, event| {
            if let Some(seen) = K::observe(event) {
                callback(occasion, seen);
            }
        }));
        self
    }

    /// Calls back once for every call, with its response. For a call that needs approval it may call back twice: with the
    /// response that the user is being asked, and, after an answer or the end of its time, with the result ([`CallEnd`]).
    #[must_use]
    pub fn on_tool_call(
        self,
        callback: impl Fn(Occasion<'_>, CallEnd, &CallRecord) + Send + Sync + 'static,
    ) -> Self {
        self.on::<ToolCall>(move |occasion, (end, record)| callback(occasion, end, record))
    }

    /// Calls back once for every turn, at its end.
    #[must_use]
    pub fn on_turn_complete(
        self,
        callback: impl Fn(Occasion<'_>, CompletedTurn) + Send + Sync + 'static,
    ) -> Self {
        self.on::<TurnComplete>(callback)
    }

    /// Calls back with every event that handlers emit as `E`.
    #[must_use]
    pub fn on_custom<E: CustomEvent + 'static>(
        self,
        callback: impl Fn(Occasion<'_>, E) + Send + Sync + 'static,
    ) -> Self {
        self.on::<Custom<E>>(move |occasion, (_, event)| callback(occasion, event))
    }
}

impl Subscriber for Subscriptions {
    fn event(&self, session: &SessionIdentity, now_unix_ms: u64, event: &SessionEvent) {
        let occasion = Occasion {
            session,
            at_unix_ms: now_unix_ms,
        };
        for callback in &self.callbacks {
            callback(occasion, event);
        }
    }
}
