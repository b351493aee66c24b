//! Handlers of kind `http`: one request a call, and one that asks what became of an effect.

use super::pieces::fetch_in_pieces;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_tool::arguments::Arguments;
use windlass_tool::error::FailureKind;
use windlass_tool::handler::{
    Context, Execution, Failure, FetchError, Finding, Handler, Http, HttpRequest, IDEMPOTENCY_KEY,
    Invocation, Lookup, LookupInvocation, OutcomeLookup, Placement, Redirects, downstream_key,
};
use windlass_tool::handler_file::{
    Answered, Filling, HttpHandler, HttpTemplate, Rendered, Unrenderable, unanswered,
};

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
            match fetch_in_pieces(inner.way.as_ref(), request, &context).await {
                Ok(answer) => Answered {
                    template: &inner.file.request,
                    answer: &answer,
                    writes: context.may_change(),
                }
                .result(),
                Err(error) => {
                    tracing::warn!(tool = %context.tool.id, %error, "a request of a tool failed");
                    Err(unanswered(&error).into())
                }
            }
        }))
    }

    /// It computes for microseconds, and then waits for the network.
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
            match inner.lookup_way.fetch(request).await {
                Ok(answer) => Answered {
                    template,
                    answer: &answer,
                    writes: true,
                }
                .finding(),
                Err(error) => {
                    tracing::warn!(tool = %context.tool.id, %error, "a lookup of a tool failed");
                    Finding::Unknown
                }
            }
        }))
    }
}
