//! The handlers of one session as its driver starts them: all work is handed to the world, which decides its result, and when it comes.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use windlass_contract::arguments::Arguments;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::handler::{Finding, HandlerMessage, HandlerResult, ReplyNumber};
use windlass_contract::id::{CallNumber, CallRef, EffectId};
use windlass_contract::input::GivenInput;
use windlass_contract::registry::Tool;
use windlass_driver::{EffectLookup, Executor, Report};
use windlass_session::io::AdmittedCall;
use windlass_store::{AttemptNumber, QuestionNumber};

/// The work that a driver asks for.
#[derive(Debug)]
pub(crate) enum Work {
    Start(Box<Attempt>),
    LookUp(EffectLookup),
    Abort {
        call: CallRef,
        drop: bool,
    },
    /// The answer for a handler that has called a tool.
    Answer(ReplyNumber, Arc<ToolResponse>),
}

/// One attempt, as its handler sees it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) call: CallRef,
    pub(crate) tool: Arc<Tool>,
    pub(crate) arguments: Arc<Arguments>,
    pub(crate) run: Option<AttemptRun>,
    /// The call whose handler asked for it.
    pub(crate) parent: Option<CallNumber>,
    /// A question to the user gets its answer.
    pub(crate) can_ask: bool,
    /// The answer by which the attempt goes on.
    pub(crate) given: Option<Arc<GivenInput>>,
}

#[derive(Clone, Debug)]
pub(crate) struct AttemptRun {
    pub(crate) effect_id: EffectId,
    pub(crate) attempt: AttemptNumber,
    pub(crate) lease_end_unix_ms: u64,
    pub(crate) question: Option<QuestionNumber>,
}

impl Attempt {
    /// Whether the attempt may change something. A reading call has an effect of its own if its end is not waited for.
    pub(crate) fn may_change(&self) -> bool {
        self.run.is_some() && self.tool.writes()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        let arguments = self.arguments.to_map();
        let text = arguments.get(name).and_then(|value| value.as_str());
        text.unwrap_or_default().to_owned()
    }
}

#[derive(Default)]
pub(crate) struct WorldExecutor {
    /// Not yet taken by the world.
    pub(crate) work: Vec<Work>,
    /// Not yet taken by the driver.
    pub(crate) reports: VecDeque<Report>,
    pub(crate) running: BTreeSet<CallRef>,
}

impl Executor for WorldExecutor {
    fn start(&mut self, call: &AdmittedCall, _time: Duration) -> Option<(CallRef, HandlerResult)> {
        self.running.insert(call.call());
        self.work.push(Work::Start(Box::new(Attempt {
            call: call.call(),
            tool: call.tool().clone(),
            arguments: call.arguments().clone(),
            run: call.run().map(|run| AttemptRun {
                effect_id: run.effect_id.clone(),
                attempt: run.attempt,
                lease_end_unix_ms: run.lease_end_unix_ms,
                question: run.question,
            }),
            parent: call.parent(),
            can_ask: call.session().input.can_ask,
            given: call.session().input.given.clone(),
        })));
        None
    }

    fn look_up(&mut self, lookup: &EffectLookup) -> Option<Finding> {
        self.work.push(Work::LookUp(lookup.clone()));
        None
    }

    fn abort(&mut self, call: CallRef, drop: bool) {
        if drop {
            self.running.remove(&call);
        }
        self.work.push(Work::Abort { call, drop });
    }

    fn take_message(&mut self) -> Option<(CallRef, HandlerMessage)> {
        None
    }

    fn poll_report(&mut self, _context: &mut Context<'_>) -> Poll<Report> {
        match self.reports.pop_front() {
            Some(report) => {
                if let Report::Finished(call, _) = &report {
                    self.running.remove(call);
                }
                Poll::Ready(report)
            }
            None => Poll::Pending,
        }
    }

    fn answer(&mut self, reply: ReplyNumber, response: Arc<ToolResponse>) {
        self.work.push(Work::Answer(reply, response));
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty()
    }
}
