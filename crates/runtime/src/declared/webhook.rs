//! Handlers of kind `webhook`: one signed message a call, answered with a ToolResponse.

use super::signature::SigningKey;
use serde::Serialize;
use std::sync::Arc;
use windlass_tool::arguments::Arguments;
use windlass_tool::handler::{
    Cause, Context, ContextForm, Execution, Failure, FetchError, Handler, HandlerResult, Http,
    HttpAnswer, HttpRequest, IDEMPOTENCY_KEY, Invocation, Placement, Redirects, downstream_key,
    read_response,
};
use windlass_tool::handler_file::{Webhook, status_failure, unanswered};

pub(super) fn handler(file: Webhook, key: SigningKey, way: Arc<dyn Http>) -> Arc<dyn Handler> {
    Arc::new(WebhookFile { file, key, way })
}

struct WebhookFile {
    file: Webhook,
    key: SigningKey,
    way: Arc<dyn Http>,
}

#[derive(Serialize)]
struct Message<'a> {
    args: &'a Arguments,
    context: ContextForm<'a>,
}

impl WebhookFile {
    fn request(&self, arguments: &Arguments, context: &Context) -> Result<HttpRequest, String> {
        let message = Message {
            args: arguments,
            context: ContextForm::of(context),
        };
        let body = serde_json::to_vec(&message)
            .map_err(|error| format!("the arguments are no JSON: {error}"))?;
        let key = context.effect_id.as_ref().map(downstream_key);
        // The receiver knows a message that comes again by its id.
        let id = match &key {
            Some(key) => format!("msg_{key}"),
            None => format!(
                "msg_{}_{}_{}",
                context.caller.session_id, context.call.call, context.call.attempt
            ),
        };
        let seconds = context.world.now_unix_ms() / 1_000;
        let signature = self.key.sign(&id, seconds, &body);
        let mut headers = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("webhook-id".to_owned(), id),
            ("webhook-timestamp".to_owned(), seconds.to_string()),
            ("webhook-signature".to_owned(), signature),
        ];
        headers.extend(key.map(|key| (IDEMPOTENCY_KEY.to_owned(), key)));
        Ok(HttpRequest {
            method: "POST".to_owned(),
            url: self.file.url.clone(),
            headers,
            body,
            timeout_ms: self
                .file
                .timeout_ms
                .unwrap_or(u64::MAX)
                .min(context.left_ms()),
            redirects: Redirects::Keep,
        })
    }
}

impl Handler for WebhookFile {
    /// It computes for microseconds, and then waits for the network.
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn execute(&self, invocation: Invocation) -> Execution {
        let Invocation { arguments, context } = invocation;
        let request = match self.request(&arguments, &context) {
            Ok(request) if request.timeout_ms > 0 => request,
            Ok(_) => {
                let late = FetchError::Refused("the call's time is up".to_owned());
                return Execution::Ready(Err(unanswered(&late).into()));
            }
            Err(problem) => return Execution::Ready(Err(broken(problem))),
        };
        let way = self.way.clone();
        Execution::Pending(Box::pin(async move {
            match way.fetch(request).await {
                Ok(answer) => answered(&answer),
                Err(error) => {
                    tracing::warn!(tool = %context.tool.id, %error, "a webhook was not answered");
                    Err(unanswered(&error).into())
                }
            }
        }))
    }
}

fn answered(answer: &HttpAnswer) -> HandlerResult {
    match answer.status {
        200 => read_response(&answer.body),
        status @ 201..=299 => Err(broken(format!(
            "the service answered {status}, and not 200 with a ToolResponse"
        ))),
        _ => Err(status_failure(answer).into()),
    }
}

fn broken(problem: String) -> Failure {
    Failure {
        cause: Cause::Broken(problem),
        intents: Vec::new(),
    }
}
