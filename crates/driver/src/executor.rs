//! Handlers as a driver runs them.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use windlass_contract::arguments::Arguments;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::handler::{Finding, HandlerMessage, HandlerResult, ReplyNumber};
use windlass_contract::id::{CallRef, EffectId};
use windlass_contract::registry::Tool;
use windlass_session::io::AdmittedCall;

/// A lookup: a handler is asked about the outcome of an effect that it started.
#[derive(Clone)]
pub struct EffectLookup {
    pub tool: Arc<Tool>,
    pub effect_id: EffectId,
    /// The arguments of the attempt.
    pub arguments: Arc<Arguments>,
    /// The time that the lookup may take from now.
    pub timeout: Duration,
}

impl fmt::Debug for EffectLookup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "EffectLookup({} {})",
            self.tool.id, self.effect_id
        )
    }
}

/// The report of a running call.
#[derive(Debug)]
pub enum Report {
    Message(CallRef, HandlerMessage),
    Finished(CallRef, HandlerResult),
    LookedUp(EffectId, Finding),
}

/// Runs calls of one session. It ends nothing by itself, except an overdue lookup, which has found nothing out.
pub trait Executor {
    /// Starts one attempt, which has this much time: its timeout, or the rest of its lease by the ledger's clock. If a handler answers
    /// at once, its result is returned here; its messages come first, with [`Executor::take_message`].
    fn start(&mut self, call: &AdmittedCall, time: Duration) -> Option<(CallRef, HandlerResult)>;

    /// Asks a handler about the outcome of an effect. An immediate answer is returned here.
    fn look_up(&mut self, lookup: &EffectLookup) -> Option<Finding>;

    /// Tells an attempt that its result is not waited for. With `drop`, stops it; otherwise it runs to its end.
    fn abort(&mut self, call: CallRef, drop: bool);

    /// A message that is there already.
    fn take_message(&mut self) -> Option<(CallRef, HandlerMessage)>;

    /// The next report of a running call, in the call's order.
    fn poll_report(&mut self, context: &mut Context<'_>) -> Poll<Report>;

    /// Gives a handler the answer of a tool that it called. The handler may not wait for it any more.
    fn answer(&mut self, reply: ReplyNumber, response: Arc<ToolResponse>);

    /// Whether no call runs.
    fn is_idle(&self) -> bool;
}
