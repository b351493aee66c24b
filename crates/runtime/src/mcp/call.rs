//! One imported tool as a handler: whether its server still defines it as it was imported, the call, and what becomes of the answer.

use super::headers::{self, HeaderPlace, written};
use super::link::{AskError, Asked, Link, UnansweredEnd};
use super::listing::Listed;
use super::message::Meta;
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
    downstream_key,
};
use windlass_tool::handler_file::McpHandler;

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
    let mut is_first = true;
    loop {
        let ready = timeout_at(begins_by, tool.server.ready()).await;
        let ready = ready.map_err(|_| late())?;
        let ready = ready.map_err(|error| error.failure())?;
        let headers = tool.pinned(&ready)?;
        if context.cancellation.is_cancelled() || Instant::now() >= begins_by {
            return Err(late());
        }
        let asking = tool.ask(&ready.link, &arguments, &context, headers, until);
        let answer = tokio::select! {
            biased;
            answer = asking => answer,
            // A change that has begun is waited for as long as there is time.
            () = context.cancellation.cancelled(), if context.effect_id.is_none() => {
                return Err(Failure::new(FailureKind::Transient, "nobody waits for the call any more"));
            }
        };
        let error = match answer {
            Ok(answer) => return result::read(&answer),
            Err(error) => error,
        };
        // The server did nothing, so that the same call may go to its next session.
        if let AskError::SessionOver = error
            && std::mem::take(&mut is_first)
        {
            tool.server.forget(&ready);
            continue;
        }
        tracing::warn!(
            tool = %context.tool.id,
            server = tool.server.name(),
            problem = error.for_log(),
            "a call of an MCP server has no result"
        );
        return Err(result::failure(&error, context.effect_id.is_some()));
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
