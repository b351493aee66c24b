//! Typed events of a session. Everything that watches a session (audit, metrics, client notices, inspector, callbacks of
//! an embedding program) is a subscriber to these and to nothing else.

use crate::client::{CancelOutcome, CancelWay, RevokeWay};
use crate::context::{ContextEstimate, ContextUse};
use crate::facts::{CallFacts, CallRequest, Delivered, DeliveryKey, shorten};
use crate::model::{LostReason, Role, Usage};
pub use crate::policy::{ConsentReason, ConsentRule};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::error::ErrorType;
use windlass_contract::id::{CallNumber, EffectId, ToolId};
use windlass_contract::intent::Intent;
use windlass_contract::kind::Category;
use windlass_contract::registry::Tool;
use windlass_contract::sensitive::Sensitive;
use windlass_store::{QuestionNumber, StandingEnd};

#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    SessionStarted,
    SessionEnded {
        reason: EndReason,
    },
    TurnStarted {
        turn: u64,
    },
    TurnEnded {
        turn: u64,
        summary: TurnSummary,
    },
    /// A call came in and is no replay of an earlier one.
    CallRequested {
        call: CallNumber,
        tool: Arc<str>,
        turn: u64,
        /// The call whose handler asks.
        parent: Option<CallNumber>,
    },
    /// An attempt begins.
    CallStarted(CallStarted),
    CallProgressed {
        call: CallNumber,
        message: String,
        fraction: Option<f64>,
    },
    /// A call that ran has its one response.
    CallFinished(CallRecord),
    /// A call that did not run has its one response.
    CallRejected(CallRecord),
    /// A delivery was answered from an earlier call's running attempt or record.
    CallDeduplicated {
        call: CallNumber,
        rule: DuplicateRule,
        tool: Arc<str>,
        /// The tool's version in this session; `None` if there is no such tool.
        version: Option<Arc<str>>,
        /// The call whose handler asks.
        parent: Option<CallNumber>,
    },
    /// The full answer to a delivery that repeats an earlier call. The model reads it shortened, like every result.
    CallAnsweredAgain {
        call: CallNumber,
        /// The call whose handler asks.
        parent: Option<CallNumber>,
        response: Sensitive<Arc<ToolResponse>>,
    },
    /// The user is asked about a call.
    ConfirmationRequested {
        call: CallNumber,
        tool: ToolId,
        /// The reason, if the tool does not ask about every call.
        because: Option<String>,
        expires_at_unix_ms: u64,
    },
    /// The resolution of an approval request. `call` is `None` if no request has the token that came.
    ConfirmationResolved {
        call: Option<CallNumber>,
        resolution: Resolution,
    },
    /// An approval stands from now on for the calls that follow, or stands no longer. A call's record says which approval it runs by.
    StandingApproval {
        approval: QuestionNumber,
        tool: ToolId,
        note: StandingNote,
    },
    /// The outcome of an effect that had been unknown.
    EffectSettled {
        call: CallNumber,
        tool: ToolId,
        /// The version of the tool that ran.
        version: Arc<str>,
        effect_id: EffectId,
        succeeded: bool,
    },
    /// The end of a call that was said to be at work, by its handler or by the service that had accepted it.
    CallSettled(CallRecord),
    /// An attempt failed, and another one begins after this time.
    CallRetried {
        call: CallNumber,
        tool: ToolId,
        attempt: u32,
        delay_ms: u64,
    },
    /// The outcome of an effect could not be stored in time. Until it is, no change starts.
    OutcomeUnrecorded {
        call: CallNumber,
        effect_id: EffectId,
    },
    /// All outcomes are stored again.
    OutcomesRecorded,
    /// The user wants this call stopped, and that changes something: the call is stopped, or is not tried again. No other outcome
    /// occurs.
    CancelRequested {
        call: CallNumber,
        tool: ToolId,
        /// The version of the call's tool.
        version: Arc<str>,
        way: CancelWay,
        outcome: CancelOutcome,
    },
    /// The call was cancelled: it is not waited for any more.
    CallCancelled(CallRecord),
    /// A result that was kept for the next connection is dropped, because too many wait: the model is not told of it.
    LateResultDropped {
        call: CallNumber,
    },
    /// A result came after its call had ended. It is recorded, and not spoken of.
    CallReturnedLate {
        call: CallNumber,
    },
    /// A handler broke, or its result is not of the form that was declared. The text is for the log alone.
    HandlerProblem {
        call: CallNumber,
        tool: ToolId,
        problem: String,
    },
    IntentApplied {
        call: CallNumber,
        /// The tool whose result asked for it, as far as that is known.
        tool: Option<ToolId>,
        intent: Box<Intent>,
        change: StateChange,
    },
    /// An intent of a result is not carried out. The text is for the tool's author, and shows nothing of the given values.
    IntentRejected {
        call: CallNumber,
        tool: Option<ToolId>,
        intent: Box<Intent>,
        problem: String,
    },
    /// The model left out arguments for which the schema has defaults: [`CallFacts::defaults_applied`].
    DefaultsApplied {
        facts: Arc<CallFacts>,
    },
    ArgumentClamped {
        call: CallNumber,
        tool: ToolId,
        argument: Arc<str>,
        from: i64,
        to: i64,
    },
    /// A soft limit was passed, after the fact. Milliseconds.
    LatencyExceeded {
        call: CallNumber,
        limit: LatencyLimit,
        limit_ms: u64,
        actual_ms: u64,
    },
    ProviderConnected {
        generation: u64,
        resumed: bool,
    },
    ProviderLost {
        generation: u64,
        reason: LostReason,
    },
    /// The provider announced the end of the connection.
    ProviderGoAway {
        time_left_ms: Option<u64>,
    },
    ProviderResumable {
        resumable: bool,
    },
    /// The provider sent an invalid message, or unknown fields.
    ProviderOddity {
        problem: String,
    },
    /// A result was sent and nothing was heard for the watch time.
    ProviderSilentAfterResult {
        milliseconds: u64,
    },
    ClientConnected,
    ClientLost,
    Transcript {
        role: Role,
        text: Sensitive<String>,
        turn: u64,
    },
    Usage(Usage),
    /// The estimated use of the window when the session begins.
    ContextEstimated {
        estimate: ContextEstimate,
        context: ContextUse,
    },
    /// The use of a model's window after one exchange, as its provider counts.
    ContextUsed(ContextUse),
    /// Over 90 % of a model's window is taken. Sent for the estimate when a session begins, and for a provider's count once per
    /// conversation and model.
    ContextNearlyFull {
        context: ContextUse,
        is_estimate: bool,
    },
    /// `events.emit` of a handler.
    Custom {
        call: CallNumber,
        name: String,
        payload: Sensitive<Value>,
    },
    /// `audit.log` of a handler.
    AuditNote {
        call: CallNumber,
        /// The tool. It says which arguments are sensitive, so that they can be left out of the handler's text.
        tool: Arc<Tool>,
        arguments: Sensitive<Arc<Arguments>>,
        event: String,
        data: Sensitive<Value>,
    },
}

#[derive(Clone, Debug)]
pub struct CallStarted {
    /// Shared with all other events of this call.
    pub facts: Arc<CallFacts>,
    pub attempt: u32,
    /// The phrase for people, from the tool's template.
    pub status: Option<String>,
}

impl CallStarted {
    pub fn call(&self) -> CallNumber {
        self.facts.call()
    }

    pub fn turn(&self) -> u64 {
        self.facts.turn()
    }

    /// The call whose handler asked for this one.
    pub fn parent(&self) -> Option<CallNumber> {
        self.facts.parent()
    }

    pub fn tool(&self) -> &Arc<Tool> {
        self.facts.tool()
    }

    pub fn arguments(&self) -> &Sensitive<Arc<Arguments>> {
        self.facts.arguments()
    }
}

/// The facts about one answered call for the audit and the metrics.
#[derive(Clone, Debug)]
pub struct CallRecord {
    pub(crate) call_request: CallRequest,
    pub effect_id: Option<EffectId>,
    /// Why the user was asked about the call, or was not, if the tool asks or the call could do harm.
    pub consent: Option<Arc<ConsentReason>>,
    pub response: Sensitive<Arc<ToolResponse>>,
}

impl CallRecord {
    pub(crate) fn new(
        call_request: CallRequest,
        response: &Arc<ToolResponse>,
        effect_id: Option<EffectId>,
    ) -> Self {
        Self {
            call_request,
            effect_id,
            consent: None,
            response: Sensitive(response.clone()),
        }
    }

    /// The same with the reason why the user was asked.
    pub(crate) fn because(self, consent: Option<Arc<ConsentReason>>) -> Self {
        Self { consent, ..self }
    }

    /// The record of a call that names no existing tool, for programs that test how they take events.
    pub fn of_unknown_tool(
        call: CallNumber,
        tool_name: impl Into<Arc<str>>,
        response: Arc<ToolResponse>,
    ) -> Self {
        let delivered = Delivered {
            number: call,
            batch: 0,
            key: DeliveryKey::Question(call).into(),
            unstable_id: None,
            name: tool_name.into(),
            turn: 0,
            generation: 0,
        };
        Self::new(CallRequest::unreadable(delivered), &response, None)
    }

    pub fn call(&self) -> CallNumber {
        self.call_request.number
    }

    /// As the model spelt it.
    pub fn tool_name(&self) -> &Arc<str> {
        &self.call_request.name
    }

    /// The same for display and logs: of a name that no tool can have, the beginning alone.
    pub fn shown_name(&self) -> &str {
        shorten(&self.call_request.name)
    }

    /// `None` if there is no such tool.
    pub fn tool(&self) -> Option<&Arc<Tool>> {
        self.call_request.tool()
    }

    pub fn turn(&self) -> u64 {
        self.call_request.turn
    }

    /// The call whose handler asked for this one. Its answer went to that handler, and to no model and no client.
    pub fn parent(&self) -> Option<CallNumber> {
        self.call_request.parent()
    }

    pub fn idempotency_key(&self) -> &DeliveryKey {
        &self.call_request.key
    }

    /// The arguments with defaults applied and clamps made; `None` if they do not satisfy the tool's schema, or were not looked at.
    pub fn arguments(&self) -> Option<&Sensitive<Arc<Arguments>>> {
        self.call_request.valid_arguments()
    }

    /// The arguments as far as they could be read, whether or not the tool would take them.
    pub fn asked_arguments(&self) -> Option<&Arguments> {
        let completed = self.call_request.completed();
        let completed = completed.map(|completed| completed.arguments.expose().as_ref());
        completed.or_else(|| self.call_request.as_it_came())
    }

    pub fn category(&self) -> Option<Category> {
        self.tool().map(|tool| tool.category)
    }

    pub fn error_type(&self) -> Option<ErrorType> {
        self.response.expose().error_type()
    }
}

/// The resolution of an approval request, by the user or by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    Approved,
    Declined,
    /// The user did not answer in time.
    Expired,
    /// The call was taken back, or the change was made meanwhile.
    Withdrawn,
    /// Another request took its place.
    Replaced,
    /// An answer came whose token does not count.
    Refused,
}

/// A change of a standing approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandingNote {
    /// The user gave it with the approval of this call.
    Given {
        call: CallNumber,
        expires_at_unix_ms: u64,
    },
    /// `way` is the one on which the user revoked it.
    Ended {
        why: StandingEnd,
        way: Option<RevokeWay>,
    },
}

/// The rule that recognised a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DuplicateRule {
    /// Same delivery, same arguments.
    SameDelivery,
    /// Same effect, still running.
    SameEffectRunning,
    /// Same effect, and the user is being asked about it.
    SameEffectAsked,
    /// Same effect, finished: its outcome is told again.
    SameEffectFinished,
    /// The user denied it.
    SameEffectDenied,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LatencyLimit {
    /// The tool's own limit.
    Tool,
    /// The limit of retrieval calls in this mode.
    Retrieval,
    /// The limit of the sum of a turn's calls.
    Turn,
}

/// The counters of one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnSummary {
    pub calls: u32,
    pub retrieval_calls: u32,
    pub refusals: u32,
    pub repeats: u32,
    /// Milliseconds of all tool runs together.
    pub latency_ms: u64,
    pub duration_ms: u64,
    pub interrupted: bool,
    pub wound_up: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The client asked for it.
    Stopped,
    /// A tool's intent; its reason.
    Intent(String),
    ClientLost,
    ProviderLost,
    Shutdown,
}

/// One transition on the session's trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    pub field: &'static str,
    pub from: String,
    pub to: String,
}
