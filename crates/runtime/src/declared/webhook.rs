//! Handlers of kind `webhook`: one signed message a call. The answer is a ToolResponse at once or, for a call with an effect, a
//! promise of a signed message with the outcome.

use super::pieces::fetch_in_pieces;
use super::signature::SigningKey;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use windlass_compile::handler_file::{Webhook, status_failure, unanswered};
use windlass_contract::arguments::Arguments;
use windlass_contract::handler::{
    Callback, CallbackRefused, Callbacks, Cause, Context, ContextForm, Execution, Failure,
    FetchError, Handler, HandlerResult, Http, HttpAnswer, HttpRequest, IDEMPOTENCY_KEY,
    IncompleteBody, Invocation, Loss, Placement, Redirects, Success, downstream_key, glance, mend,
    read_response,
};
use windlass_contract::id::EffectId;

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
        // The receiver recognises a repeated message by its id.
        let id = match &key {
            Some(key) => format!("msg_{key}"),
            None => format!(
                "msg_{}_{}_{}",
                context.caller.session_id, context.call.call, context.call.attempt
            ),
        };
        let seconds = context.capabilities.now_unix_ms() / 1_000;
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
    fn callbacks(&self) -> Option<&dyn Callbacks> {
        Some(self)
    }

    /// The handler computes for microseconds, and then waits for the network.
    fn placement(&self) -> Placement {
        Placement::Elsewhere
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
            match fetch_in_pieces(way.as_ref(), request, &context).await {
                Ok(answer) => answered(&answer, &context),
                Err(error) => {
                    tracing::warn!(tool = %context.tool.id, %error, "a webhook was not answered");
                    Err(unanswered(&error).into())
                }
            }
        }))
    }
}

fn answered(answer: &HttpAnswer, context: &Context) -> HandlerResult {
    let body = match &answer.body {
        Ok(body) => body,
        Err(incomplete) if answer.status == 200 => return cut_off(incomplete),
        Err(_) => return Err(status_failure(answer, context.may_change()).into()),
    };
    match (answer.status, &context.effect_id) {
        (200, _) => read_response(body),
        (202, Some(effect_id)) => {
            accepted(body, effect_id, context.capabilities.now_unix_ms()).map_err(broken)
        }
        (202, None) => Err(broken(
            "the service answered 202, which it may do for tools that write or are background alone".to_owned(),
        )),
        (status @ 201..=299, _) => Err(broken(format!(
            "the service answered {status}, and not 200 with a ToolResponse"
        ))),
        (_, _) => Err(status_failure(answer, context.may_change()).into()),
    }
}

/// Reads an answer that was cut off. Its beginning may say that the call worked; otherwise the service did not answer.
fn cut_off(incomplete: &IncompleteBody) -> HandlerResult {
    let problem = incomplete.problem.clone();
    match glance(mend(&incomplete.beginning).text.as_bytes()).ok {
        Some(true) => Ok(Success::default().with_loss(Loss::breach(problem))),
        Some(false) | None => Err(unanswered(&FetchError::Unanswered(problem)).into()),
    }
}

#[derive(Deserialize)]
struct Promise {
    /// Milliseconds since the Unix epoch.
    until: f64,
}

fn accepted(body: &[u8], effect_id: &EffectId, now_unix_ms: u64) -> Result<Success, String> {
    let promise: Promise = serde_json::from_slice(body).map_err(|_| {
        "the service answered 202 without { \"until\": milliseconds since 1970 }".to_owned()
    })?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float that is none of the type becomes its nearest"
    )]
    let until_unix_ms = promise.until as u64;
    if until_unix_ms <= now_unix_ms {
        return Err("the service answered 202 with a time `until` that is over".to_owned());
    }
    Ok(Success {
        accepted_until_unix_ms: Some(until_unix_ms),
        ..Success::new(json!({ "status": "accepted", "backgroundTaskId": effect_id }))
    })
}

/// A ToolResponse that names its effect, so that it cannot count for another one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedEffect {
    effect_id: Option<String>,
}

impl Callbacks for WebhookFile {
    fn read(
        &self,
        effect_id: &EffectId,
        message: &Callback<'_>,
    ) -> Result<HandlerResult, CallbackRefused> {
        self.key
            .verify(message.signature, message.body, message.now_unix_ms / 1_000)
            .map_err(|refusal| CallbackRefused::Unsigned(refusal.to_string()))?;
        let named: NamedEffect = serde_json::from_str(&mend(message.body).text)
            .map_err(|_| CallbackRefused::Unfit("the body is no JSON object".to_owned()))?;
        if named.effect_id.as_deref() != Some(effect_id.as_str()) {
            let problem = "the body's effectId is not the effect of the address";
            return Err(CallbackRefused::Unfit(problem.to_owned()));
        }
        match read_response(message.body) {
            Err(Failure {
                cause: Cause::Broken(problem),
                ..
            }) => Err(CallbackRefused::Unfit(problem)),
            result => Ok(result),
        }
    }
}

fn broken(problem: String) -> Failure {
    Failure {
        cause: Cause::Broken(problem),
        intents: Vec::new(),
    }
}
