//! One imported tool as a handler: whether its server still defines it as it was imported, and how it is called.

use super::exchange::{self, Exchange, NoAnswer};
use super::headers::{self, HeaderPlace, written};
use super::input;
use super::link::{AskError, Asked, Link, UnansweredEnd};
use super::listing::Listed;
use super::message::{Capabilities, Meta};
use super::result::{self, NotDone};
use super::server::{McpServer, Ready};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;
use windlass_compile::handler_file::McpHandler;
use windlass_contract::arguments::Arguments;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    Context, Execution, Failure, Handler, Invocation, Numbers, Placement, Report, Success,
    downstream_key,
};
use windlass_contract::sensitive::Sensitive;

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
        let tool = self.0.clone();
        Execution::Pending(Box::pin(async move {
            exchange::run(&tool.server, &*tool, invocation).await
        }))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a Arguments,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    input_responses: BTreeMap<&'a str, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: Option<&'a str>,
    #[serde(rename = "_meta")]
    meta: Meta<'a>,
}

/// With what a call goes on that its server has answered with a question.
struct GoesOn<'a> {
    responses: BTreeMap<&'a str, Value>,
    state: Option<Sensitive<String>>,
}

/// How often a server may want the same call again without asking anything.
const ROUNDS_MAX: usize = 4;

impl Exchange for Inner {
    fn timeout_ms(&self) -> Option<u64> {
        self.file.timeout_ms
    }

    async fn exchange(
        &self,
        ready: &Ready,
        arguments: &Arc<Arguments>,
        context: &Context,
        until: Instant,
    ) -> Result<Success, NoAnswer> {
        let headers = self.pinned(ready)?;
        let given = context.session.input.given.as_deref();
        let mut goes_on = GoesOn {
            responses: given.map(input::responses).unwrap_or_default(),
            state: given.and_then(|given| given.asked.expose().state.clone()),
        };
        for _ in 0..ROUNDS_MAX {
            let answer = self.ask(&ready.link, (arguments, &goes_on), context, headers, until);
            match result::read(&answer.await?, self.server.name()) {
                Ok(success) => return Ok(success),
                Err(NotDone::Failed(failure)) => return Err(failure.into()),
                Err(NotDone::Again(state)) => {
                    goes_on = GoesOn {
                        responses: BTreeMap::new(),
                        state: Some(Sensitive(state)),
                    };
                }
            }
        }
        // Its word for a call that it could have carried out.
        let problem = "the server asks for the same call again and again";
        Err(Failure::new(FailureKind::Transient, problem).into())
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
        (arguments, goes_on): (&Arc<Arguments>, &GoesOn<'_>),
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
        if context.session.input.can_ask && meta.capabilities.is_some() {
            meta.capabilities = Some(Capabilities::asking());
        }
        let params = CallParams {
            name: &self.file.tool,
            arguments,
            input_responses: goes_on.responses.clone(),
            request_state: goes_on.state.as_ref().map(|state| state.expose().as_str()),
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
