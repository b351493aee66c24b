//! The way of a call to a server, whatever it asks there: room for it, the connection of its user, and what it comes to where there is no
//! answer. Knows no method of the protocol.

use super::link::{AskError, Link};
use super::message::UNSUPPORTED_VERSION;
use super::result::{self, not_begun};
use super::server::{McpServer, Ready};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use windlass_contract::arguments::Arguments;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Cause, Context, Failure, HandlerResult, Invocation, Success};

/// The status by which a server says that it takes no proof of who asks, and has done nothing.
const UNAUTHORIZED: u16 = 401;

/// A call's request to a server.
pub(super) trait Exchange: Send + Sync {
    /// Milliseconds, if the exchange gets less time than the call.
    fn timeout_ms(&self) -> Option<u64>;

    /// Sends the request, and reads the answer. A server that has forgotten the session is asked once more from the beginning.
    fn exchange(
        &self,
        ready: &Ready,
        arguments: &Arc<Arguments>,
        context: &Context,
        until: Instant,
    ) -> impl Future<Output = Result<Success, NoAnswer>> + Send;
}

/// Why there is no result.
pub(super) enum NoAnswer {
    Asking(AskError),
    Failed(Failure),
}

impl From<AskError> for NoAnswer {
    fn from(error: AskError) -> Self {
        Self::Asking(error)
    }
}

impl From<Failure> for NoAnswer {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Asks a server in the course of one call: over the connection of the call's own user where the server has such, once more where that
/// is known to do nothing twice.
pub(super) async fn run<E: Exchange>(
    server: &Arc<McpServer>,
    asked: &E,
    invocation: Invocation,
) -> HandlerResult {
    let is_in_doubt =
        invocation.context.effect_id.is_some() && invocation.context.session.input.given.is_some();
    let result = run_once(server, asked, invocation).await;
    match is_in_doubt {
        true => result.map_err(doubted),
        false => result,
    }
}

/// A change that goes on by an answer counts as not made only if the server itself says so: a round that did nothing proves nothing about
/// the round before it.
fn doubted(mut failure: Failure) -> Failure {
    if let Cause::Reported(report) = &mut failure.cause
        && (report.kind != FailureKind::Permanent || report.partial_side_effects.is_some())
    {
        report.partial_side_effects = Some(true);
    }
    failure
}

async fn run_once<E: Exchange>(
    server: &Arc<McpServer>,
    asked: &E,
    invocation: Invocation,
) -> HandlerResult {
    let Invocation { arguments, context } = invocation;
    let time_ms = context
        .left_ms()
        .min(asked.timeout_ms().unwrap_or(u64::MAX));
    let now = Instant::now();
    let until = now + Duration::from_millis(time_ms);
    // A call that has not begun says so while somebody still listens.
    let begins_by = now + Duration::from_millis(time_ms / 8 * 7);
    let late = || not_begun("the call's time was over before it began");
    let permit = timeout_at(begins_by, server.permit()).await;
    let _permit = permit.map_err(|_| late())?;
    let times = Times { begins_by, until };
    let Some(connection) = server.connection() else {
        let called = call(asked, server, &arguments, &context, times).await;
        return called.map_err(NoResult::failure);
    };
    let connections = context.capabilities.connections();
    let mut rejected = None;
    // A server that takes a token no more has done nothing, so that it is asked once more with a new one.
    for _ in 0..2 {
        let token = connections.token(context.token_request(connection, rejected));
        let token = timeout_at(begins_by, token).await.map_err(|_| late())??;
        let user = &context.caller.client_id;
        let own = server.of_user(user, token.clone());
        match call(asked, &own, &arguments, &context, times).await {
            Err(NoResult::Unauthorized(_)) => rejected = Some(token),
            called => return called.map_err(NoResult::failure),
        }
    }
    let refused = connections.refused(context.token_request(connection, None));
    Err(refused.into())
}

/// Until when a call has to have begun, and to have ended.
#[derive(Clone, Copy)]
struct Times {
    begins_by: Instant,
    until: Instant,
}

/// Why a call has no result.
enum NoResult {
    /// The server takes no proof of who asks, and did nothing.
    Unauthorized(Failure),
    Failed(Failure),
}

impl NoResult {
    fn failure(self) -> Failure {
        match self {
            Self::Unauthorized(failure) | Self::Failed(failure) => failure,
        }
    }
}

impl From<Failure> for NoResult {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The same over one connection.
async fn call<E: Exchange>(
    asked: &E,
    server: &Arc<McpServer>,
    arguments: &Arc<Arguments>,
    context: &Context,
    Times { begins_by, until }: Times,
) -> Result<Success, NoResult> {
    let late = || not_begun("the call's time was over before it began");
    let mut is_first = true;
    loop {
        let ready = timeout_at(begins_by, server.ready()).await;
        let ready = ready.map_err(|_| late())?;
        let ready = ready.map_err(|error| match error.lets_nobody_in() {
            true => NoResult::Unauthorized(error.failure()),
            false => NoResult::Failed(error.failure()),
        })?;
        if context.cancellation.is_cancelled() || Instant::now() >= begins_by {
            return Err(late().into());
        }
        let asking = asked.exchange(&ready, arguments, context, until);
        let answer = tokio::select! {
            biased;
            answer = asking => answer,
            // A change that has begun is waited for as long as there is time.
            () = context.cancellation.cancelled(), if context.effect_id.is_none() => {
                return Err(Failure::new(FailureKind::Transient, "nobody waits for the call any more").into());
            }
        };
        let error = match answer {
            Ok(success) => return Ok(success),
            Err(NoAnswer::Failed(failure)) => return Err(failure.into()),
            Err(NoAnswer::Asking(error)) => error,
        };
        // The server did nothing, so that the same call may go over the next connection.
        if is_of_another_time(&error, &ready.link) && std::mem::take(&mut is_first) {
            server.forget(&ready);
            continue;
        }
        tracing::warn!(
            tool = %context.tool.id,
            server = server.name(),
            problem = error.for_log(),
            "a call of an MCP server has no result"
        );
        let failure = result::failure(&error, context.effect_id.is_some());
        return Err(match &error {
            AskError::Status(answer) if answer.status == UNAUTHORIZED => {
                NoResult::Unauthorized(failure)
            }
            _ => NoResult::Failed(failure),
        });
    }
}

/// Whether a server over HTTP is no longer the one that the connection was made with: it has forgotten the session, or speaks another
/// version of the protocol. A program does not change while it runs.
fn is_of_another_time(error: &AskError, link: &Link) -> bool {
    match error {
        AskError::SessionOver => true,
        AskError::Refused(refusal) => refusal.code == UNSUPPORTED_VERSION && !link.is_process(),
        AskError::NotSent(_) | AskError::Lost(_) | AskError::Status(_) => false,
    }
}
