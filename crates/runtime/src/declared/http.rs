//! Handlers of kind `http`: one request a call, and one to look up the outcome of an effect.

use super::pieces::fetch_in_pieces;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_compile::handler_file::{
    Answered, Filling, HttpHandler, HttpTemplate, Rendered, Unrenderable, unanswered,
};
use windlass_contract::arguments::Arguments;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    ConnectionError, Context, Execution, Failure, FetchError, Finding, Handler, Http, HttpAnswer,
    HttpRequest, IDEMPOTENCY_KEY, Invocation, Lookup, LookupInvocation, OutcomeLookup, Placement,
    Redirects, downstream_key,
};
use windlass_contract::sensitive::Sensitive;

/// The status of a service that refuses a request's token and has done nothing.
const UNAUTHORIZED: u16 = 401;

pub(super) fn handler(
    file: HttpHandler,
    secrets: BTreeMap<String, String>,
    way: Arc<dyn Http>,
    lookup_way: Arc<dyn Http>,
) -> Arc<dyn Handler> {
    Arc::new(HttpFile(Arc::new(Inner {
        file,
        secrets,
        way,
        lookup_way,
    })))
}

struct HttpFile(Arc<Inner>);

struct Inner {
    file: HttpHandler,
    secrets: BTreeMap<String, String>,
    way: Arc<dyn Http>,
    lookup_way: Arc<dyn Http>,
}

impl Inner {
    fn render(
        &self,
        template: &HttpTemplate,
        arguments: &Arguments,
        context: &Context,
    ) -> Result<Rendered, Unrenderable> {
        let effect_id = context.effect_id.as_ref();
        let key = effect_id.map(downstream_key);
        template.render(&Filling {
            arguments,
            secrets: &self.secrets,
            state: &context.session.values,
            effect_id: effect_id.map(|id| id.as_str()),
            key: key.as_deref(),
        })
    }

    fn request(&self, rendered: Rendered, context: &Context) -> HttpRequest {
        let Rendered {
            method,
            url,
            headers,
            body,
        } = rendered;
        HttpRequest {
            method,
            url,
            headers,
            body,
            timeout_ms: self
                .file
                .timeout_ms
                .unwrap_or(u64::MAX)
                .min(context.left_ms()),
            redirects: Redirects::Keep,
        }
    }
}

/// The reason why a request of a call has no answer.
enum Unsent {
    Fetch(FetchError),
    Connection(ConnectionError),
}

impl Inner {
    /// One request, with the access token of the caller's connection if the file names one. A service that refuses the token has
    /// done nothing, so it is asked once more with a new token.
    async fn ask<F>(
        &self,
        request: HttpRequest,
        context: &Context,
        fetch: impl Fn(HttpRequest) -> F,
    ) -> Result<HttpAnswer, Unsent>
    where
        F: Future<Output = Result<HttpAnswer, FetchError>>,
    {
        let Some(connection) = &self.file.connection else {
            return fetch(request).await.map_err(Unsent::Fetch);
        };
        let connections = context.capabilities.connections();
        let mut rejected = None;
        for _ in 0..2 {
            let token = connections.token(context.token_request(connection, rejected));
            let token = token.await.map_err(Unsent::Connection)?;
            let mut request = with_token(request.clone(), &token);
            request.timeout_ms = request.timeout_ms.min(context.left_ms());
            if request.timeout_ms == 0 {
                let late = FetchError::Refused("the call's time is up".to_owned());
                return Err(Unsent::Fetch(late));
            }
            let answer = fetch(request).await.map_err(Unsent::Fetch)?;
            if answer.status != UNAUTHORIZED {
                return Ok(answer);
            }
            rejected = Some(token);
        }
        let refused = connections.refused(context.token_request(connection, None));
        Err(Unsent::Connection(refused))
    }
}

fn with_token(mut request: HttpRequest, token: &Sensitive<String>) -> HttpRequest {
    let bearer = format!("Bearer {}", token.expose());
    request.headers.push(("Authorization".to_owned(), bearer));
    request
}

impl Handler for HttpFile {
    fn execute(&self, invocation: Invocation) -> Execution {
        let Invocation { arguments, context } = invocation;
        let inner = self.0.clone();
        let template = &inner.file.request;
        let rendered = match inner.render(template, &arguments, &context) {
            Ok(rendered) => rendered,
            Err(error) => {
                let failure = Failure::new(FailureKind::Validation, error.to_string());
                return Execution::Ready(Err(failure));
            }
        };
        let mut request = inner.request(rendered, &context);
        if request.timeout_ms == 0 {
            let late = FetchError::Refused("the call's time is up".to_owned());
            return Execution::Ready(Err(unanswered(&late).into()));
        }
        if let Some(effect_id) = &context.effect_id {
            let named = inner.file.idempotency_header.as_deref();
            let header = named.unwrap_or(IDEMPOTENCY_KEY);
            if request.header(header).is_none() {
                let key = downstream_key(effect_id);
                request.headers.push((header.to_owned(), key));
            }
        }
        Execution::Pending(Box::pin(async move {
            let fetch = |request| fetch_in_pieces(inner.way.as_ref(), request, &context);
            match inner.ask(request, &context, fetch).await {
                Ok(answer) => Answered {
                    template: &inner.file.request,
                    answer: &answer,
                    writes: context.may_change(),
                }
                .result(),
                Err(Unsent::Fetch(error)) => {
                    tracing::warn!(tool = %context.tool.id, %error, "a request of a tool failed");
                    Err(unanswered(&error).into())
                }
                Err(Unsent::Connection(error)) => {
                    tracing::info!(tool = %context.tool.id, %error, "a tool was not run for its user");
                    Err(error.into())
                }
            }
        }))
    }

    /// The handler computes for microseconds, and then waits for the network.
    fn placement(&self) -> Placement {
        Placement::Elsewhere
    }

    fn outcome_lookup(&self) -> Option<&dyn OutcomeLookup> {
        self.0
            .file
            .lookup
            .is_some()
            .then_some(self as &dyn OutcomeLookup)
    }
}

impl OutcomeLookup for HttpFile {
    fn look_up(&self, invocation: LookupInvocation) -> Lookup {
        let LookupInvocation {
            effect_id: _,
            arguments,
            context,
        } = invocation;
        let inner = self.0.clone();
        Lookup::Pending(Box::pin(async move {
            let Some(template) = &inner.file.lookup else {
                return Finding::Unknown;
            };
            let Ok(rendered) = inner.render(template, &arguments, &context) else {
                return Finding::Unknown;
            };
            let request = inner.request(rendered, &context);
            let fetch = |request| inner.lookup_way.fetch(request);
            match inner.ask(request, &context, fetch).await {
                Ok(answer) => Answered {
                    template,
                    answer: &answer,
                    writes: true,
                }
                .finding(),
                Err(Unsent::Fetch(error)) => {
                    tracing::warn!(tool = %context.tool.id, %error, "a lookup of a tool failed");
                    Finding::Unknown
                }
                Err(Unsent::Connection(error)) => {
                    tracing::warn!(tool = %context.tool.id, %error, "a lookup of a tool failed");
                    Finding::Unknown
                }
            }
        }))
    }
}
