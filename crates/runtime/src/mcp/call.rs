//! One imported tool as a handler: whether its server still defines it as it was imported, the call, and what becomes of the answer.

use super::headers::{self, HeaderPlace, written};
use super::link::{AskError, Asked, Link, UnansweredEnd};
use super::listing::Listed;
use super::message::{Meta, UNSUPPORTED_VERSION};
use super::result::{self, not_begun};
use super::server::{McpServer, Ready};
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use windlass_tool::arguments::Arguments;
use windlass_tool::error::FailureKind;
use windlass_tool::handler::{
    Context, Execution, Failure, Handler, HandlerResult, Invocation, Numbers, Placement, Report,
    Success, downstream_key,
};
use windlass_tool::handler_file::McpHandler;

/// The status by which a server says that it takes no proof of who asks, and has done nothing.
const UNAUTHORIZED: u16 = 401;

pub(super) fn handler(
    server: Arc<McpServer>,
    file: McpHandler,
    numbers: Numbers,
) -> Arc<dyn Handler> {
    Arc::new(McpTool(Arc::new(Inner {
        server,
        file,
        numbers,
    })))
}

struct McpTool(Arc<Inner>);

struct Inner {
    server: Arc<McpServer>,
    file: McpHandler,
    numbers: Numbers,
}

impl Handler for McpTool {
    /// It only waits for its server.
    fn placement(&self) -> Placement {
        Placement::Elsewhere
    }

    fn numbers(&self) -> Numbers {
        self.0.numbers
    }

    fn execute(&self, invocation: Invocation) -> Execution {
        Execution::Pending(Box::pin(run(self.0.clone(), invocation)))
    }
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a Arguments,
    #[serde(rename = "_meta")]
    meta: Meta<'a>,
}

async fn run(tool: Arc<Inner>, invocation: Invocation) -> HandlerResult {
    let Invocation { arguments, context } = invocation;
    let time_ms = context
        .left_ms()
        .min(tool.file.timeout_ms.unwrap_or(u64::MAX));
    let now = Instant::now();
    let until = now + Duration::from_millis(time_ms);
    // A call that has not begun says so while somebody still listens.
    let begins_by = now + Duration::from_millis(time_ms / 8 * 7);
    let late = || not_begun("the call's time was over before it began");
    let permit = timeout_at(begins_by, tool.server.permit()).await;
    let _permit = permit.map_err(|_| late())?;
    let times = Times { begins_by, until };
    let Some(connection) = tool.server.connection() else {
        let called = call(&tool, &tool.server, &arguments, &context, times).await;
        return called.map_err(NoResult::failure);
    };
    let connections = context.world.connections();
    let mut rejected = None;
    // A server that takes a token no more has done nothing, so that it is asked once more with a new one.
    for _ in 0..2 {
        let token = connections.token(context.token_request(connection, rejected));
        let token = timeout_at(begins_by, token).await.map_err(|_| late())??;
        let user = &context.caller.client_id;
        let server = tool.server.of_user(user, token.clone());
        match call(&tool, &server, &arguments, &context, times).await {
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

/// One call of a tool over the connection of a server.
async fn call(
    tool: &Inner,
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
        let headers = tool.pinned(&ready)?;
        if context.cancellation.is_cancelled() || Instant::now() >= begins_by {
            return Err(late().into());
        }
        let asking = tool.ask(&ready.link, arguments, context, headers, until);
        let answer = tokio::select! {
            biased;
            answer = asking => answer,
            // A change that has begun is waited for as long as there is time.
            () = context.cancellation.cancelled(), if context.effect_id.is_none() => {
                return Err(Failure::new(FailureKind::Transient, "nobody waits for the call any more").into());
            }
        };
        let error = match answer {
            Ok(answer) => return Ok(result::read(&answer)?),
            Err(error) => error,
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

impl Inner {
    /// The headers of a call, where the server defines the tool as it was imported.
    fn pinned<'r>(&self, ready: &'r Ready) -> Result<&'r [HeaderPlace], Failure> {
        let problem = match ready.tools.get(&self.file.tool) {
            Some(Listed::Once {
                definition,
                headers,
            }) if *definition == self.file.definition => return Ok(headers),
            Some(Listed::Once { .. }) => {
                "its server defines this tool otherwise than it was reviewed; nothing is run until somebody has accepted that"
            }
            Some(Listed::Twice) => "its server has two tools of this name, so that nothing is run",
            Some(Listed::Misplaced) => {
                "its server defines this tool against the rules of its protocol, so that nothing is run"
            }
            None => "its server does not have this tool any more",
        };
        Err(Report {
            partial_side_effects: Some(false),
            ..Report::new(FailureKind::Permanent, problem)
        }
        .into())
    }

    async fn ask(
        &self,
        link: &Link,
        arguments: &Arc<Arguments>,
        context: &Context,
        places: &[HeaderPlace],
        until: Instant,
    ) -> Result<Box<RawValue>, AskError> {
        let id = link.next_id();
        let effect_id = context.effect_id.as_ref();
        // Only a tool that says that the same call twice is as good as once knows what to do with it.
        let key = effect_id
            .filter(|_| context.tool.idempotent)
            .map(downstream_key);
        let mut meta: Meta<'_> = link.revision.meta();
        meta.progress_token = Some(id);
        meta.key = key.as_deref();
        let params = CallParams {
            name: &self.file.tool,
            arguments,
            meta,
        };
        let mut asked = Asked::new(id, "tools/call", &params, until)?;
        if !link.is_process() {
            asked
                .headers
                .push(("Mcp-Name".to_owned(), written(&self.file.tool)));
            if !places.is_empty() {
                let named = headers::of_arguments(places, &arguments.to_map());
                asked.headers.extend(named);
            }
        }
        asked.context = Some(context.clone());
        asked.arguments = Some(arguments.clone());
        asked.end = match effect_id {
            Some(_) => UnansweredEnd::Left,
            None => UnansweredEnd::Cancelled,
        };
        link.ask(asked).await
    }
}
