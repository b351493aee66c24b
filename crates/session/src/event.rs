//! Typed events of a session. Everything that watches a session (audit, metrics, client notices, inspector, callbacks of
//! an embedding program) is a subscriber to these and to nothing else.

use crate::client::{CancelOutcome, CancelWay, RevokeWay};
use crate::context::{ContextEstimate, ContextUse};
use crate::facts::{CallFacts, Delivered, DeliveryKey, Slot, shorten};
use crate::model::{LostReason, Role, Usage};
pub use crate::policy::{ConsentReason, ConsentRule};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use windlass_store::{QuestionNumber, StandingEnd};
use windlass_tool::arguments::Arguments;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::error::ErrorType;
use windlass_tool::id::{CallNumber, EffectId, ToolId};
use windlass_tool::intent::Intent;
use windlass_tool::kind::Category;
use windlass_tool::registry::Tool;
use windlass_tool::sensitive::Sensitive;

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
    /// A delivery that was answered from an earlier call's running attempt or record.
    CallDeduplicated {
        call: CallNumber,
        rule: DuplicateRule,
        tool: Arc<str>,
        /// That of the tool in this session; `None` where there is no such tool.
        version: Option<Arc<str>>,
        /// The call whose handler asks.
        parent: Option<CallNumber>,
    },
    /// What a delivery is answered that is answered from an earlier call: the whole of it. The model reads it shortened, like every
    /// result.
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
        /// Why, where not every call of the tool asks.
        because: Option<String>,
        expires_at_unix_ms: u64,
    },
    /// What became of the question; `None` where no question has the token that came.
    ConfirmationResolved {
        call: Option<CallNumber>,
        resolution: Resolution,
    },
    /// An approval stands from now on for the calls that follow, or does so no longer. Which call runs by one, that call's record says.
    StandingApproval {
        approval: QuestionNumber,
        tool: ToolId,
        note: StandingNote,
    },
    /// What became of an effect whose outcome had been unknown.
    EffectSettled {
        call: CallNumber,
        tool: ToolId,
        /// Of the tool that ran.
        version: Arc<str>,
        effect_id: EffectId,
        succeeded: bool,
    },
    /// How a call ended that was said to be at work, by its handler or by the service that had accepted it.
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
    /// The user wants this call stopped, and that changes something: it is stopped, or is not tried again. The outcome is never
    /// another one.
    CancelRequested {
        call: CallNumber,
        tool: ToolId,
        /// Of the tool that the call has.
        version: Arc<str>,
        way: CancelWay,
        outcome: CancelOutcome,
    },
    /// Nobody waits for the call any more.
    CallCancelled(CallRecord),
    /// A result that was kept for the next connection and is given up, because more wait than may: the model is not told of it.
    LateResultDropped {
        call: CallNumber,
    },
    /// A result that came after its call had ended; recorded, not spoken of.
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
        /// Whose result asked for it, as far as that is known.
        tool: Option<ToolId>,
        intent: Box<Intent>,
        change: StateChange,
    },
    /// What a result asked for is not done. The text is for the tool's author, and has nothing of what was given.
    IntentRejected {
        call: CallNumber,
        tool: Option<ToolId>,
        intent: Box<Intent>,
        problem: String,
    },
    /// The model left out what the schema has defaults for: [`CallFacts::defaults_applied`].
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
    /// The provider sent what is no message of its protocol, or fields that nobody knows.
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
    /// What the session begins with.
    ContextEstimated {
        estimate: ContextEstimate,
        context: ContextUse,
    },
    /// What one exchange has made of a model's window, as its provider counts.
    ContextUsed(ContextUse),
    /// Over 90 % of a model's window is taken. Said of the estimate when a session begins, and once of what a provider has counted, in
    /// a conversation and of each model.
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
        /// Which of the arguments are sensitive, so that they can be left out of what the handler says.
        tool: Arc<Tool>,
        arguments: Sensitive<Arc<Arguments>>,
        event: String,
        data: Sensitive<Value>,
    },
}

#[derive(Clone, Debug)]
pub struct CallStarted {
    /// Shared with whatever else tells of this call.
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

/// All that the audit and the metrics need of one answered call.
#[derive(Clone, Debug)]
pub struct CallRecord {
    pub(crate) slot: Slot,
    pub effect_id: Option<EffectId>,
    /// Why the user was asked about the call, or was not, of a tool that asks or of a call that could do harm.
    pub consent: Option<Arc<ConsentReason>>,
    pub response: Sensitive<Arc<ToolResponse>>,
}

impl CallRecord {
    pub(crate) fn new(
        slot: Slot,
        response: &Arc<ToolResponse>,
        effect_id: Option<EffectId>,
    ) -> Self {
        Self {
            slot,
            effect_id,
            consent: None,
            response: Sensitive(response.clone()),
        }
    }

    /// The same with the reason why the user was asked.
    pub(crate) fn because(self, consent: Option<Arc<ConsentReason>>) -> Self {
        Self { consent, ..self }
    }

    /// Of a call that names no tool there is, for programs that test what they make of events.
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
        Self::new(Slot::unreadable(delivered), &response, None)
    }

    pub fn call(&self) -> CallNumber {
        self.slot.number
    }

    /// As the model spelt it.
    pub fn tool_name(&self) -> &Arc<str> {
        &self.slot.name
    }

    /// The same for those who show or write it: the beginning of a name that no tool can have.
    pub fn shown_name(&self) -> &str {
        shorten(&self.slot.name)
    }

    /// `None` where there is no such tool.
    pub fn tool(&self) -> Option<&Arc<Tool>> {
        self.slot.tool()
    }

    pub fn turn(&self) -> u64 {
        self.slot.turn
    }

    /// The call whose handler asked for this one. Its answer went to that handler, and to no model and no client.
    pub fn parent(&self) -> Option<CallNumber> {
        self.slot.parent()
    }

    pub fn idempotency_key(&self) -> &DeliveryKey {
        &self.slot.key
    }

    /// With defaults applied and clamps made; `None` where they do not satisfy the tool's schema, or were not looked at.
    pub fn arguments(&self) -> Option<&Sensitive<Arc<Arguments>>> {
        self.slot.valid_arguments()
    }

    /// As far as anybody could read them, whether or not the tool would take them.
    pub fn asked_arguments(&self) -> Option<&Arguments> {
        let completed = self.slot.completed();
        let completed = completed.map(|completed| completed.arguments.expose().as_ref());
        completed.or_else(|| self.slot.as_it_came())
    }

    pub fn category(&self) -> Option<Category> {
        self.tool().map(|tool| tool.category)
    }

    pub fn error_type(&self) -> Option<ErrorType> {
        self.response.expose().error_type()
    }
}

/// What the user, or time, said to a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    Approved,
    Declined,
    /// Nobody answered in time.
    Expired,
    /// The call was taken back, or the change was made meanwhile.
    Withdrawn,
    /// Another request took its place.
    Replaced,
    /// An answer came whose token does not count.
    Refused,
}

/// What has become of a standing approval.
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

/// Which rule recognised a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DuplicateRule {
    /// Same delivery, same arguments.
    SameDelivery,
    /// Same effect, still running.
    SameEffectRunning,
    /// Same effect, and the user is being asked about it.
    SameEffectAsked,
    /// Same effect, finished: what was done is told again.
    SameEffectFinished,
    /// The user said no to it.
    SameEffectDenied,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LatencyLimit {
    /// The tool's own.
    Tool,
    /// That of retrieval calls in this mode.
    Retrieval,
    /// The sum of a turn's calls.
    Turn,
}

/// What one turn amounted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnSummary {
    pub calls: u32,
    pub retrieval_calls: u32,
    pub refusals: u32,
    pub repeats: u32,
    /// Milliseconds that tools took, added up.
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
