//! Runs admitted calls: builds a handler's context, contains its panics, and ends calls that are no longer awaited. Owns tasks
//! and threads of one session's calls; decides nothing, because admission, deadlines and outcomes are the core's.

mod outbox;
mod seats;
mod threads;

use crate::redaction::without_secrets;
use crate::result_pictures::keep_pictures;
use crate::subscriber::SessionIdentity;
use futures_util::FutureExt;
use outbox::Messages;
use std::any::Any;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;
use threads::Work;
pub use threads::{HandlerThreads, ThreadLimits};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use windlass_contract::envelope::ToolResponse;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    Caller, Cancellation, Capabilities, CapabilityFuture, Cause, Context, Execution, Failure,
    Finding, Handler, HandlerMessage, HandlerResult, Invocation, Lookup, LookupInvocation,
    Placement, ReplyNumber, Report, RunWrites, SessionContext, SessionFacts, StateValues,
    ToolFacts, judged, may_hold_pictures,
};
use windlass_contract::id::{CallNumber, CallRef, EffectId, SessionId, TenantId};
use windlass_contract::input::InputFacts;
use windlass_contract::registry::Tool;
use windlass_driver::{EffectLookup, Report as DriverReport};
use windlass_session::io::AdmittedCall;

/// Runs the handlers of one session's calls, and lookups on its behalf.
pub struct Executor {
    identity: SessionIdentity,
    /// The session's part of every handler's context.
    context: Arc<SessionContext>,
    messages: Arc<Messages>,
    threads: HandlerThreads,
    /// The cancellation of most calls, which answer at once and leave it to the next.
    cancellation: Cancellation,
    tasks: JoinSet<Ended>,
    running: Vec<Running>,
    /// A result that is held back until its messages are handed out.
    ended: Option<Ended>,
}

enum Ended {
    Attempt(CallRef, HandlerResult),
    Lookup(EffectId, Finding),
}

/// The purpose of a task.
#[derive(Clone, PartialEq, Eq)]
enum Purpose {
    Attempt(CallRef),
    Lookup(EffectId),
}

struct Running {
    purpose: Purpose,
    cancellation: Cancellation,
    abort: AbortHandle,
    writes: bool,
    /// Whether the call has a seat, its own or that of its parent call.
    is_seated: bool,
    deadline: Instant,
}

impl Executor {
    /// `registry_version` is the version of the registry that the session is pinned to.
    pub fn new(
        identity: SessionIdentity,
        registry_version: Arc<str>,
        capabilities: Arc<dyn Capabilities>,
        threads: HandlerThreads,
    ) -> Self {
        let caller = Caller {
            client_id: identity.client_id.clone(),
            session_id: identity.session_id.clone(),
            user_id: identity.user_id.clone(),
            conversation_id: identity.conversation_id.clone(),
            rights: identity.rights.clone(),
        };
        let messages: Arc<Messages> = Arc::default();
        let context = SessionContext {
            caller,
            mode: identity.mode,
            registry_version,
            capabilities,
            outbox: messages.clone(),
        };
        Self {
            identity,
            context: Arc::new(context),
            messages,
            threads,
            cancellation: Cancellation::default(),
            tasks: JoinSet::new(),
            running: Vec::new(),
            ended: None,
        }
    }

    fn invocation(
        &self,
        call: &AdmittedCall,
        time: Duration,
        cancellation: Cancellation,
    ) -> Invocation {
        Invocation {
            arguments: call.arguments().clone(),
            context: self.context(Circumstances {
                call: call.call(),
                tool: call.tool(),
                turn: call.turn(),
                effect_id: call.effect_id(),
                time,
                session: call.session().clone(),
                cancellation,
            }),
        }
    }

    fn context(&self, circumstances: Circumstances<'_>) -> Context {
        let Circumstances { tool, time, .. } = circumstances;
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Context {
            of_session: self.context.clone(),
            call: circumstances.call,
            turn: circumstances.turn,
            tool: ToolFacts {
                id: tool.id.clone(),
                version: tool.version.clone(),
                idempotent: tool.idempotent,
                writes: tool.writes(),
            },
            session: circumstances.session,
            effect_id: circumstances.effect_id.cloned(),
            writes: match circumstances.effect_id {
                Some(_) if tool.writes() => RunWrites::default(),
                Some(_) | None => RunWrites::none(),
            },
            deadline_unix_ms: self
                .context
                .capabilities
                .now_unix_ms()
                .saturating_add(time_ms),
            cancellation: circumstances.cancellation,
        }
    }

    fn poll_ended(&mut self, context: &mut TaskContext<'_>) -> Option<Ended> {
        if self.tasks.is_empty() {
            return None;
        }
        while let Poll::Ready(Some(outcome)) = self.tasks.poll_join_next(context) {
            // An aborted call has no result, and every other outcome of the task is a value.
            if let Ok(ended) = outcome {
                let purpose = match &ended {
                    Ended::Attempt(call, _) => Purpose::Attempt(*call),
                    Ended::Lookup(effect_id, _) => Purpose::Lookup(effect_id.clone()),
                };
                self.running.retain(|running| running.purpose != purpose);
                return Some(ended);
            }
        }
        None
    }

    /// Drops every call but those that have begun to change something.
    pub fn abort_reads(&mut self) {
        self.running.retain(|running| {
            if !running.writes {
                running.cancellation.cancel();
                running.abort.abort();
            }
            running.writes
        });
    }

    /// Waits until every started change has ended or run out of time, at most until `latest`, and drops the rest. Nothing of the
    /// session's calls is left afterwards, except work on a blocking thread that ignores its cancellation.
    pub async fn drain(mut self, latest: Option<Instant>) {
        // Calls of handlers are no longer admitted, and handlers must not wait for that.
        self.messages.close();
        self.abort_reads();
        let own = self.running.iter().map(|running| running.deadline).max();
        let last = own.map(|own| latest.map_or(own, |latest| own.min(latest)));
        if let Some(last) = last
            && tokio::time::timeout_at(last, self.settle()).await.is_err()
        {
            tracing::warn!(
                session = %self.identity.session_id,
                "a call that changes something did not end within its time"
            );
        }
        self.tasks.abort_all();
        if tokio::time::timeout(ABORT_GRACE, self.settle())
            .await
            .is_err()
        {
            tracing::warn!(
                session = %self.identity.session_id,
                "a call holds its thread although nobody waits for it"
            );
        }
    }

    async fn settle(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

impl windlass_driver::Executor for Executor {
    fn start(&mut self, call: &AdmittedCall, time: Duration) -> Option<(CallRef, HandlerResult)> {
        self.cancellation.renew();
        let invocation = self.invocation(call, time, self.cancellation.clone());
        let handler = call.tool().handler.clone();
        let call_ref = call.call();
        let placement = handler.placement();
        let goes_on = call.session().input.given.is_some();
        let capabilities = self.context.capabilities.clone();
        let abort = match placement {
            Placement::Inline => match contain(|| handler.execute(invocation)) {
                Err(failure) => return Some((call_ref, Err(failure))),
                Ok(Execution::Ready(result)) => {
                    return Some((call_ref, checked(result, &*capabilities)));
                }
                Ok(Execution::Pending(future)) => self.tasks.spawn(async move {
                    let result = AssertUnwindSafe(future).catch_unwind().await;
                    let result = result.unwrap_or_else(|payload| Err(panicked(&*payload)));
                    Ended::Attempt(call_ref, checked_apart(result, capabilities).await)
                }),
            },
            Placement::Elsewhere => {
                let work = self.work(call.tool(), call.parent().is_none(), time);
                let seats = self.threads.seats().clone();
                // A nested call would wait for the seat of its own parent, which waits for it.
                let is_under_seat = call.parent().is_some_and(|parent| self.is_seated(parent));
                self.tasks.spawn(async move {
                    let mut seat = None;
                    if !is_under_seat {
                        let taken = tokio::time::timeout(patience(time), seats.take(work)).await;
                        let Ok(Some(taken)) = taken else {
                            return Ended::Attempt(call_ref, Err(exhausted(goes_on)));
                        };
                        seat = Some(taken);
                    }
                    let attempt = AssertUnwindSafe(async move {
                        match handler.execute(invocation) {
                            Execution::Ready(result) => result,
                            Execution::Pending(future) => future.await,
                        }
                    });
                    let result = attempt.catch_unwind().await;
                    drop(seat);
                    let result = result.unwrap_or_else(|payload| Err(panicked(&*payload)));
                    Ended::Attempt(call_ref, checked_apart(result, capabilities).await)
                })
            }
            Placement::Apart => {
                let work = self.work(call.tool(), call.parent().is_none(), time);
                let gate = StartGate::default();
                let own = gate.clone();
                let attempt = async move {
                    if !own.pass() {
                        return Err(exhausted(goes_on));
                    }
                    let result = match handler.execute(invocation) {
                        Execution::Ready(result) => result,
                        Execution::Pending(future) => future.await,
                    };
                    checked(result, &*capabilities)
                };
                let Ok(running) = self.threads.run(work, attempt) else {
                    return Some((call_ref, Err(exhausted(goes_on))));
                };
                self.tasks.spawn(async move {
                    let mut running = running;
                    let result = match tokio::time::timeout(patience(time), &mut running).await {
                        Ok(result) => result,
                        // No thread was free for the handler.
                        Err(_) if gate.pass() => Some(Ok(Err(exhausted(goes_on)))),
                        Err(_) => running.await,
                    };
                    let result = match result {
                        Some(Ok(result)) => result,
                        Some(Err(payload)) => Err(panicked(&*payload)),
                        None => Err(broken("the runtime ended before the handler")),
                    };
                    Ended::Attempt(call_ref, result)
                })
            }
        };
        self.running.push(Running {
            purpose: Purpose::Attempt(call_ref),
            cancellation: self.cancellation.clone(),
            abort,
            writes: call.tool().writes(),
            is_seated: placement == Placement::Elsewhere,
            deadline: Instant::now() + time,
        });
        None
    }

    fn look_up(&mut self, lookup: &EffectLookup) -> Option<Finding> {
        let cancellation = Cancellation::default();
        let effect_id = lookup.effect_id.clone();
        let asked = match self.ask(lookup, cancellation.clone()) {
            PendingLookup::Found(finding) => return Some(finding),
            PendingLookup::Pending(future) => {
                let future = patient(future, lookup.timeout, cancellation.clone());
                let effect_id = effect_id.clone();
                self.tasks
                    .spawn(async move { Ended::Lookup(effect_id, future.await) })
            }
        };
        self.running.push(Running {
            purpose: Purpose::Lookup(effect_id),
            cancellation,
            abort: asked,
            writes: false,
            is_seated: false,
            deadline: Instant::now() + lookup.timeout,
        });
        None
    }

    fn abort(&mut self, call: CallRef, drop: bool) {
        let purpose = Purpose::Attempt(call);
        let mut running = self.running.iter();
        let Some(position) = running.position(|running| running.purpose == purpose) else {
            return;
        };
        self.running[position].cancellation.cancel();
        // A handler's thread cannot be taken back before the call's deadline; the flag has to do.
        if drop {
            self.running.swap_remove(position).abort.abort();
        }
    }

    fn take_message(&mut self) -> Option<(CallRef, HandlerMessage)> {
        self.messages.take()
    }

    fn poll_report(&mut self, context: &mut TaskContext<'_>) -> Poll<DriverReport> {
        if self.ended.is_none() {
            if let Poll::Ready((call, message)) = self.messages.poll_take(context) {
                return Poll::Ready(DriverReport::Message(call, message));
            }
            self.ended = self.poll_ended(context);
        }
        // All messages of a call were sent before it finished, so they are in the queue by now.
        if self.ended.is_some()
            && let Some((call, message)) = self.messages.take()
        {
            return Poll::Ready(DriverReport::Message(call, message));
        }
        match self.ended.take() {
            Some(Ended::Attempt(call, result)) => Poll::Ready(DriverReport::Finished(call, result)),
            Some(Ended::Lookup(effect_id, finding)) => {
                Poll::Ready(DriverReport::LookedUp(effect_id, finding))
            }
            None => Poll::Pending,
        }
    }

    fn answer(&mut self, reply: ReplyNumber, response: Arc<ToolResponse>) {
        self.messages.answer(reply, response);
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.ended.is_none()
    }
}

impl Executor {
    /// Asks a handler about an effect outside of any call. Without an answer within the lookup's time the outcome stays unknown.
    pub(crate) async fn look_up_alone(&self, lookup: &EffectLookup) -> Finding {
        let cancellation = Cancellation::default();
        match self.ask(lookup, cancellation.clone()) {
            PendingLookup::Found(finding) => finding,
            PendingLookup::Pending(future) => patient(future, lookup.timeout, cancellation).await,
        }
    }

    /// Starts a lookup. A lookup that panics has the finding "unknown".
    fn ask(&self, lookup: &EffectLookup, cancellation: Cancellation) -> PendingLookup {
        let invocation = LookupInvocation {
            effect_id: lookup.effect_id.clone(),
            arguments: lookup.arguments.clone(),
            context: self.lookup_context(lookup, cancellation),
        };
        let handler = lookup.tool.handler.clone();
        let capabilities = self.context.capabilities.clone();
        match handler.placement() {
            Placement::Inline | Placement::Elsewhere => {
                match contain(|| find_out(&*handler, invocation)) {
                    Err(_) => PendingLookup::Found(Finding::Unknown),
                    Ok(Lookup::Found(finding)) => {
                        PendingLookup::Found(checked_finding(finding, &*capabilities))
                    }
                    Ok(Lookup::Pending(future)) => PendingLookup::Pending(Box::pin(async move {
                        let finding = AssertUnwindSafe(future).catch_unwind().await;
                        finding.map_or(Finding::Unknown, |finding| {
                            checked_finding(finding, &*capabilities)
                        })
                    })),
                }
            }
            Placement::Apart => {
                let work = self.work(&lookup.tool, false, lookup.timeout);
                let asked = async move {
                    let finding = match find_out(&*handler, invocation) {
                        Lookup::Found(finding) => finding,
                        Lookup::Pending(future) => future.await,
                    };
                    checked_finding(finding, &*capabilities)
                };
                match self.threads.run(work, asked) {
                    Err(_) => PendingLookup::Found(Finding::Unknown),
                    Ok(running) => PendingLookup::Pending(Box::pin(async move {
                        match running.await {
                            Some(Ok(finding)) => finding,
                            Some(Err(_)) | None => Finding::Unknown,
                        }
                    })),
                }
            }
        }
    }

    fn is_seated(&self, call: CallNumber) -> bool {
        let mut running = self.running.iter();
        running.any(|running| {
            let is_its = |attempt: &CallRef| attempt.call == call;
            matches!(&running.purpose, Purpose::Attempt(attempt) if is_its(attempt))
                && running.is_seated
        })
    }

    /// The shares that a call counts in. Tasks may hold theirs for hours, so that tasks of a session and a tenant have shares
    /// apart from their other calls.
    fn work(&self, tool: &Tool, may_be_task: bool, time: Duration) -> Work {
        let (session, tenant) = (&self.identity.session_id, &self.identity.tenant);
        let is_task = may_be_task && tool.runs_in_background();
        let (session, tenant) = match is_task {
            true => (
                SessionId::new(format!("{session}/tasks")),
                TenantId::new(format!("{tenant}/tasks")),
            ),
            false => (session.clone(), tenant.clone()),
        };
        Work {
            tool: tool.id.clone(),
            session,
            tenant,
            time,
        }
    }

    fn lookup_context(&self, lookup: &EffectLookup, cancellation: Cancellation) -> Context {
        self.context(Circumstances {
            call: CallRef {
                call: CallNumber(0),
                attempt: 0,
            },
            tool: &lookup.tool,
            turn: 0,
            effect_id: Some(&lookup.effect_id),
            time: lookup.timeout,
            session: SessionFacts {
                is_active: true,
                is_model_generating: false,
                pending_end_voice_session: false,
                values: StateValues::default(),
                input: InputFacts::default(),
            },
            cancellation,
        })
    }
}

/// A handler's lookup of an effect's outcome.
enum PendingLookup {
    Found(Finding),
    Pending(CapabilityFuture<Finding>),
}

fn find_out(handler: &dyn Handler, invocation: LookupInvocation) -> Lookup {
    match handler.outcome_lookup() {
        Some(lookup) => lookup.look_up(invocation),
        None => Lookup::Found(Finding::Unknown),
    }
}

/// A handler's finding after [`checked`]. A result that is nested too deep is dropped from it.
fn checked_finding(finding: Finding, capabilities: &dyn Capabilities) -> Finding {
    match finding {
        Finding::Happened(success) => match checked(Ok(*success), capabilities) {
            Ok(success) => Finding::Happened(Box::new(success)),
            Err(_) => Finding::Happened(Box::default()),
        },
        Finding::NotHappened | Finding::Unknown => finding,
    }
}

/// Waits for a finding for as long as a lookup may take, and then cancels the handler.
async fn patient(
    future: CapabilityFuture<Finding>,
    time: Duration,
    cancellation: Cancellation,
) -> Finding {
    let finding = tokio::time::timeout(time, future).await;
    finding.unwrap_or_else(|_| {
        cancellation.cancel();
        Finding::Unknown
    })
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.messages.close();
    }
}

/// The parts of a handler's context beside the session's.
struct Circumstances<'a> {
    call: CallRef,
    tool: &'a Tool,
    turn: u64,
    effect_id: Option<&'a EffectId>,
    time: Duration,
    session: SessionFacts,
    cancellation: Cancellation,
}

/// Time that a call may wait for its turn. A call that has not begun by then still ends before its deadline, with a certain
/// outcome.
fn patience(time: Duration) -> Duration {
    time - time / 4
}

/// Passed once: by the attempt that begins, or by the side that gives it up before.
#[derive(Clone, Debug, Default)]
struct StartGate(Arc<AtomicBool>);

impl StartGate {
    fn pass(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// Time for dropped calls to end. Only work on blocking threads takes any.
const ABORT_GRACE: Duration = Duration::from_secs(1);

/// Runs code of a tool. A panic becomes a failure of the call and harms nothing else: the code's input is dropped.
fn contain<T>(run: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| panicked(&*payload))
}

fn panicked(payload: &(dyn Any + Send)) -> Failure {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a text");
    broken(&format!("the handler panicked: {}", without_secrets(text)))
}

/// A handler's result in the form for others: no deeper than they can bear, its pictures as pictures, and no key in the words of
/// an error.
fn checked(result: HandlerResult, capabilities: &dyn Capabilities) -> HandlerResult {
    let mut result = judged(result);
    match &mut result {
        Ok(success) => keep_pictures(success, capabilities),
        Err(Failure { cause, .. }) => match cause {
            Cause::Reported(report) => {
                hide_secrets(&mut report.message);
                report.suggestion.iter_mut().for_each(hide_secrets);
            }
            Cause::Broken(problem) => hide_secrets(problem),
        },
    }
    result
}

/// The same for a thread that moves audio: pictures are decoded and written elsewhere.
async fn checked_apart(
    result: HandlerResult,
    capabilities: Arc<dyn Capabilities>,
) -> HandlerResult {
    if !result.as_ref().is_ok_and(may_hold_pictures) {
        return checked(result, &*capabilities);
    }
    let checked = tokio::task::spawn_blocking(move || checked(result, &*capabilities)).await;
    checked.unwrap_or_else(|_| Err(broken("the runtime ended before its result was read")))
}

fn hide_secrets(words: &mut String) {
    if let Cow::Owned(without) = without_secrets(words) {
        *words = without;
    }
}

fn broken(problem: &str) -> Failure {
    Failure {
        cause: Cause::Broken(problem.to_owned()),
        intents: Vec::new(),
    }
}

/// A refusal before anything has begun: the call may be made again. A run that goes on by an answer may have done something before it
/// asked.
fn exhausted(goes_on: bool) -> Failure {
    let problem = "the tool does not answer now: earlier calls of it have not ended";
    Report {
        partial_side_effects: Some(goes_on),
        ..Report::new(FailureKind::Transient, problem)
    }
    .into()
}
