//! The task of one child: starts its process, sends the requests before its first call, reads its lines, and ends it. Knows the
//! call of each line; the capabilities answer requests within a call.

use super::lines::{Line, Lines};
use super::log::{self, LineLimit};
use super::pool::{End, Seed, Signals, broken};
use super::process::Process;
use super::wire::{self, Incoming, NOT_BEGUN, REFUSED, RpcError};
use super::{NotStarted, Shared, capabilities};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use windlass_contract::error::ErrorType;
use windlass_contract::handler::{
    Cause, Failure, HandlerResult, Loss, Mended, Success, glance, mend, noted, read_response,
};
use windlass_contract::sensitive::Sensitive;

/// Time for the remains of a process's end: its status, and the rest of its output.
const END_GRACE: Duration = Duration::from_millis(500);
/// Multiple of the allowed length up to which a line is read, to learn its call.
const LONGEST: usize = 4;

/// One child, from its start to its end.
pub(super) struct Serving {
    shared: Arc<Shared>,
    number: u64,
    input: mpsc::Receiver<Vec<u8>>,
    signals: Arc<Signals>,
}

/// Tells the pool that the child is gone, however its task ends.
struct Presence {
    shared: Arc<Shared>,
    number: u64,
    end: End,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let now = Instant::now();
        self.shared.pool().gone(self.number, &self.end, now);
    }
}

impl Serving {
    pub(super) fn new(shared: Arc<Shared>, seed: Seed) -> Self {
        let Seed {
            number,
            input,
            signals,
        } = seed;
        Self {
            shared,
            number,
            input,
            signals,
        }
    }

    pub(super) async fn run(self) {
        let shared = self.shared.clone();
        let number = self.number;
        let mut presence = Presence {
            shared: shared.clone(),
            number,
            end: End::Stopped,
        };
        presence.end = self.serve().await;
        match &presence.end {
            End::Stopped => tracing::debug!(worker = %shared.name, process = number, "ended"),
            End::NotStarted(problem) | End::Failed(problem) => {
                tracing::warn!(worker = %shared.name, process = number, problem, "a worker broke off");
            }
        }
        drop(presence);
        shared.assign();
    }

    async fn serve(self) -> End {
        let Self {
            shared,
            number,
            input,
            signals,
        } = self;
        let mut process = match Process::start(shared.program.clone(), Vec::new()).await {
            Ok(process) => process,
            Err(error) => {
                let program = shared.program.program.display();
                let cure = match error.kind() {
                    std::io::ErrorKind::InvalidData => {
                        "start the server again to run what is there now"
                    }
                    _ => "install it, or name another program in `command`",
                };
                return End::NotStarted(format!("{program} cannot be started: {error}; {cure}"));
            }
        };
        let (Some(pipe), Some(output), Some(errors)) = (
            process.input.take(),
            process.output.take(),
            process.errors.take(),
        ) else {
            return End::Failed("the process has no pipes".to_owned());
        };
        let writer = tokio::spawn(write(pipe, input));
        tokio::spawn(log::read(shared.clone(), number, errors));
        let mut reader = OutputReader {
            shared: shared.clone(),
            number,
            lines: Lines::new(output, shared.limits.line_bytes_max.saturating_mul(LONGEST)),
            limit: LineLimit::new(),
        };
        let asking = prepare(shared.clone(), number);
        tokio::pin!(asking);
        let mut is_prepared = false;
        let mut looks_at: Option<Instant> = None;
        let end = loop {
            tokio::select! {
                ended = reader.read() => match ended {
                    // The process's status says more than the end of its output.
                    None => match timeout(END_GRACE, &mut process.ended).await {
                        Ok(status) => break End::Failed(ended_with(status.as_deref())),
                        Err(_) => break End::Failed("the worker closed its output".to_owned()),
                    },
                    Some(problem) => break End::Failed(problem),
                },
                status = &mut process.ended => {
                    // Earlier output may still be read.
                    let _ = timeout(END_GRACE, reader.read()).await;
                    break End::Failed(ended_with(status.as_deref()));
                }
                prepared = &mut asking, if !is_prepared => match prepared {
                    Ok(()) => {
                        is_prepared = true;
                        shared.pool().ready(number);
                        shared.assign();
                    }
                    Err(problem) => break End::Failed(problem),
                },
                () = signals.stop.notified() => break End::Stopped,
                () = signals.alarm.notified() => looks_at = shared.pool().give_up(number, Instant::now()),
                () = sleep_until(looks_at.unwrap_or_else(Instant::now)), if looks_at.is_some() => {
                    looks_at = shared.pool().give_up(number, Instant::now());
                    shared.assign();
                }
            }
        };
        writer.abort();
        end
    }
}

fn ended_with(status: Result<&str, &tokio::sync::oneshot::error::RecvError>) -> String {
    format!(
        "the worker ended ({})",
        status.unwrap_or("nobody knows how")
    )
}

/// Sends the requests that precede the first call.
async fn prepare(shared: Arc<Shared>, number: u64) -> Result<(), String> {
    let requests = (shared.first_requests)();
    let mut answers = Vec::with_capacity(requests.len());
    for request in &requests {
        let tail = wire::tail(&request.method, &request.params)
            .map_err(|error| format!("{} cannot be written: {error}", request.method))?;
        let answer = shared.pool().request(number, &tail);
        answers.push(answer.ok_or("the worker reads nothing")?);
    }
    for (answer, request) in answers.into_iter().zip(&requests) {
        let method = &request.method;
        match timeout(shared.limits.start_timeout, answer).await {
            Ok(Ok(Ok(_))) => {}
            Ok(Ok(Err(error))) => return Err(format!("{method} failed: {error}")),
            Ok(Err(_)) => return Err(format!("the worker ended before it had answered {method}")),
            Err(_) => return Err(format!("the worker does not answer {method}")),
        }
    }
    Ok(())
}

async fn write(mut pipe: pipe::Sender, mut input: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = input.recv().await {
        // A process that takes no more has ended, or will have its calls given up.
        if pipe.write_all(&line).await.is_err() {
            return;
        }
    }
}

struct OutputReader<R> {
    shared: Arc<Shared>,
    number: u64,
    lines: Lines<R>,
    limit: LineLimit,
}

/// The call of a request within it.
#[derive(Deserialize)]
struct OfCall {
    call: u64,
}

impl<R: AsyncRead + Unpin> OutputReader<R> {
    /// Reads and serves lines until the output ends, or a line has no end.
    async fn read(&mut self) -> Option<String> {
        loop {
            match self.lines.next().await {
                Line::End => return None,
                Line::TooLong => {
                    let line = self.lines.take();
                    let problem = format!(
                        "the worker wrote more than {} bytes without an end of line",
                        self.lines.bytes_max
                    );
                    self.serve_unread(&line, &problem);
                    return Some(problem);
                }
                Line::Whole => {}
            }
            let line = self.lines.take();
            if !line.trim_ascii().is_empty() {
                self.serve(&line);
            }
            self.lines.give_back(line);
        }
    }

    fn serve(&mut self, line: &[u8]) {
        let bytes_max = self.shared.limits.line_bytes_max;
        if line.len() > bytes_max {
            let problem = format!("the worker wrote a line of more than {bytes_max} bytes");
            return self.serve_unread(line, &problem);
        }
        let problem = match wire::read(line) {
            Ok(message) => return self.take(message, None),
            Err(problem) => problem,
        };
        let mended = mend(line);
        // A print without an end of line stands before the next message.
        let start = mended.text.find("{\"").unwrap_or(0);
        let text = &mended.text.as_bytes()[start..];
        match wire::read(text) {
            Ok(message) => self.take(message, Some(&mended)),
            Err(_) => self.serve_unread(text, &problem),
        }
    }

    /// Handles a line that is no message. It fails the call that it belongs to, if that is known, and no other one.
    fn serve_unread(&mut self, line: &[u8], problem: &str) {
        let glance = glance(line);
        let result = match glance.ok {
            Some(true) => Ok(Success::default().with_loss(Loss::breach(problem))),
            Some(false) | None => Err(broken(problem)),
        };
        let mut pool = self.shared.pool();
        let only = pool.only_call(self.number);
        let call = glance.call.or(only).filter(|_| glance.is_message);
        let is_of_call = call.is_some_and(|call| pool.settled(self.number, call, result));
        drop(pool);
        if is_of_call {
            self.shared.assign();
        }
        self.warn(&format!(
            "{problem}; only messages belong on standard output, and everything else on standard error"
        ));
    }

    fn take(&mut self, message: Incoming<'_>, mended: Option<&Mended>) {
        match message {
            Incoming::Answer(id, answer) => {
                let read = |answer: Result<&RawValue, RpcError>| {
                    let result = response(answer);
                    match mended {
                        Some(mended) => noted(result, mended),
                        None => result,
                    }
                };
                // Operators read a worker's words about its own fault, without the arguments of its calls. The arguments are
                // removed before the lock, which that takes as well.
                let without = |words: &str| log::without_calls(&self.shared, self.number, words);
                let answer = answer.map_err(|mut error| {
                    error.message = without(&error.message);
                    error
                });
                // Only such an answer is read twice.
                let told = match &answer {
                    Ok(result) if result.get().contains(ErrorType::Internal.code()) => {
                        match response(Ok(*result)) {
                            Err(Failure {
                                cause: Cause::Broken(words),
                                ..
                            }) => Some(without(&words)),
                            Ok(_) | Err(_) => None,
                        }
                    }
                    Ok(_) | Err(_) => None,
                };
                let read = |answer: Result<&RawValue, RpcError>| match told {
                    Some(words) => Err(broken(&words)),
                    None => read(answer),
                };
                let is_known = id.is_some_and(|id| {
                    let mut pool = self.shared.pool();
                    pool.answered(self.number, id, answer, read)
                });
                match is_known {
                    true => self.shared.assign(),
                    false => {
                        self.warn("the worker answers what it was not asked, or answers again")
                    }
                }
            }
            Incoming::Request(id, method, params) => self.ask(id, &method, params),
            Incoming::Notification(method, params) => {
                let context = self.context(params);
                let said =
                    context.map(|(_, context)| capabilities::tell(&context, &method, params));
                if capabilities::is_fault(&method, said.as_ref()) {
                    self.warn("a notification of the worker is of no open call, or was not taken");
                }
            }
        }
    }

    fn context(&self, params: &RawValue) -> Option<(u64, windlass_contract::handler::Context)> {
        let OfCall { call } = serde_json::from_str(params.get()).ok()?;
        let context = self.shared.pool().context(self.number, call)?;
        Some((call, context))
    }

    /// Serves a request that the worker makes within a call.
    fn ask(&self, id: &RawValue, method: &str, params: &RawValue) {
        let refuse = |why: &str| {
            let refusal = Err(RpcError::new(REFUSED, why));
            self.shared
                .pool()
                .send(self.number, wire::answer(id, &refusal));
        };
        let Some((call, context)) = self.context(params) else {
            return refuse(&format!(
                "{}: `call` names no open call, which is the `id` of `execute`",
                capabilities::NOBODY_WAITS
            ));
        };
        if self.shared.pool().requests_of(self.number, call) >= self.shared.limits.requests_max {
            return refuse("the call asks for too much at a time");
        }
        if method == "secret" {
            let answer = capabilities::secret(&context, &self.shared.granted, params);
            return self
                .shared
                .pool()
                .send(self.number, wire::answer(id, &answer));
        }
        if let Some(answer) = capabilities::answer_at_once(&context, method, params) {
            let line = wire::answer(id, &answer);
            return self.shared.pool().send(self.number, line);
        }
        let (shared, number, id) = (self.shared.clone(), self.number, id.to_owned());
        let asked = match method {
            "connection" => capabilities::connection(&context, &self.shared.connections, params),
            _ => capabilities::begin(context, method, params),
        };
        let is_token = method == "connection";
        let request = tokio::spawn(async move {
            let answer = asked.await;
            if is_token && let Ok(Value::String(token)) = &answer {
                shared.note_given(Sensitive(token.clone()));
            }
            shared.pool().send(number, wire::answer(&id, &answer));
        });
        let abort = request.abort_handle();
        if !self.shared.pool().add_request(self.number, call, abort) {
            request.abort();
        }
    }

    fn warn(&mut self, problem: &str) {
        if let Some(left_out) = self.limit.take() {
            tracing::warn!(worker = %self.shared.name, process = self.number, left_out, "{problem}");
        }
    }
}

/// The result in a worker's answer to `execute`.
fn response(answer: Result<&RawValue, RpcError>) -> HandlerResult {
    match answer {
        Ok(result) => read_response(result.get().as_bytes()),
        Err(error) if error.code == NOT_BEGUN => Err(NotStarted::Busy.failure()),
        Err(error) if error.message.is_empty() => Err(broken(&format!(
            "the worker answered with error {}",
            error.code
        ))),
        Err(error) => Err(broken(&error.message)),
    }
}
