//! `tools/call`: one call from its parameters to its result. Knows no rule about effects, and leaves a person's approval to `approvals`.

use super::approvals::Way;
use super::asking::REQUEST;
use super::message::Request;
use super::reply::{
    Declared, Failure, Revision, called, failed, members, notification, picture, picture_link,
};
use super::state::{Refused, digest};
use super::{Exchange, McpHost, Peer};
use crate::chat::ChatRefusal;
use crate::chat::conversation::Message;
use crate::chat::remote::{Offer, RemoteCall};
use crate::clock;
use base64_simd::STANDARD;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;
use windlass_contract::arguments::Arguments;
use windlass_contract::content::ContentPart;
use windlass_contract::envelope::Outcome;
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::handler::Capabilities;
use windlass_contract::id::ConversationId;
use windlass_contract::json::hex;
use windlass_contract::kind::Reach;
use windlass_contract::registry::{EXEMPT_FROM_EXTERNAL_CONTENT_RULE, Tool};
use windlass_runtime::direct::{RemoteAnswer, RemoteEnd, TellProgress};
use windlass_runtime::ids;
use windlass_store::QuestionNumber;

/// Tools about a conversation. Another program has none.
const OF_CONVERSATIONS: [&str; 3] = ["describe_tool", "get_context", "query_tool_memory"];

/// Whether a tool can be offered to other programs.
pub(super) fn is_for_programs(tool: &Tool) -> bool {
    let id = tool.id.as_str();
    !OF_CONVERSATIONS.contains(&id) && !EXEMPT_FROM_EXTERNAL_CONTENT_RULE.contains(&id)
}

/// A call that has been read.
pub(super) struct Called<'a> {
    pub(super) peer: &'a Peer,
    pub(super) exchange: Exchange,
    pub(super) offer: Offer,
    pub(super) tool: Arc<Tool>,
    pub(super) arguments: Arguments,
    /// The hash of the call, which its signed state names.
    pub(super) digest: String,
    pub(super) key: Option<String>,
    pub(super) progress: Option<Value>,
    /// The request that a person was shown, and its conversation.
    pub(super) asked: Option<(ConversationId, QuestionNumber)>,
}

impl Called<'_> {
    pub(super) fn is_external(&self) -> bool {
        self.tool.reach == Reach::External
    }

    /// Whether the client takes the handle of a task.
    pub(super) fn takes_tasks(&self) -> bool {
        self.exchange.client.tasks && self.tool.runs_in_background()
    }

    pub(super) fn revision(&self) -> Revision {
        self.exchange.revision
    }
}

impl McpHost {
    pub(super) async fn call(
        &self,
        peer: &Peer,
        exchange: Exchange,
        request: &Request,
    ) -> Result<Option<Value>, Failure> {
        let params = &request.params;
        let name = params.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| Failure::params("name is missing, or no text"))?;
        let arguments: Arguments = match params.get("arguments") {
            None | Some(Value::Null) => Arguments::none(),
            Some(Value::Object(arguments)) => arguments.clone().into(),
            Some(_) => return Err(Failure::params("arguments is no object")),
        };
        let offer = self.chat.offer(&peer.caller);
        let registry = &offer.tools.registry;
        let tool = registry.get(name).filter(|tool| is_for_programs(tool));
        let Some(tool) = tool.cloned() else {
            return Err(unknown_tool(name, &offer));
        };
        let call = Called {
            peer,
            digest: digest(name, &arguments),
            key: request.meta.key.clone(),
            progress: request.meta.progress.as_ref().map(|token| token.to_value()),
            asked: None,
            exchange,
            offer,
            tool,
            arguments,
        };
        let state = params.get("requestState");
        match (call.revision(), state) {
            (Revision::Stateless, Some(state)) => {
                let state = state.as_str().ok_or(Refused::Foreign);
                let caller = &peer.caller;
                let asked = state.and_then(|state| {
                    self.states
                        .read(state, caller, &call.digest, clock::now_unix_ms())
                });
                let asked = asked.map_err(|refused| Failure::params(refused.to_string()))?;
                let answers = params.get("inputResponses");
                let answer = answers.and_then(|answers| answers.get(REQUEST)?.as_object());
                self.resume(call, asked, answer).await
            }
            _ => self.run(call).await,
        }
    }

    /// Takes the call down the one path.
    pub(super) async fn run(&self, call: Called<'_>) -> Result<Option<Value>, Failure> {
        let way = self.way(call.peer, &call.exchange);
        let revision = call.revision();
        let key = call.key.as_ref().map(|key| Message {
            id: format!("idempotency:{}", hex(&ids::digest(key.as_bytes()))),
            content: Some(ids::digest(call.digest.as_bytes())),
        });
        let progress = call.progress.clone();
        let progress = progress.map(|token| tell_progress(call.exchange.outlet.clone(), token));
        let remote = RemoteCall {
            caller: call.peer.caller.clone(),
            beginner: call.peer.beginner.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            key,
            asked: call.asked.clone(),
            can_ask: !matches!(way, Way::Told(None)),
            rules: self.rules,
            progress,
            takes_tasks: call.takes_tasks(),
        };
        let left = call.exchange.left.clone();
        let ended = self
            .chat
            .call_remote(&self.states.0, &call.offer, remote, left);
        // In a box, because a session is large, and the future is moved.
        let (place, end) = match Box::pin(ended).await {
            Ok(ended) => ended,
            Err(refusal) => return refused(revision, refusal).map(Some),
        };
        match end {
            RemoteEnd::GivenUp => Ok(None),
            RemoteEnd::Answered(answer) => self.answered(&call, &answer).await.map(Some),
            RemoteEnd::Asked { question, .. } => {
                self.ask(call, place, question.question, way).await
            }
        }
    }

    /// The outcome of a call, or the handle of the task that it has begun.
    pub(super) async fn answered(
        &self,
        call: &Called<'_>,
        answer: &RemoteAnswer,
    ) -> Result<Value, Failure> {
        let task = answer.response.meta.background_task_id.as_deref();
        if let Some(id) = task.filter(|_| call.takes_tasks()) {
            return self.handle_of(call.peer, id).await;
        }
        let declared = Declared::by(&call.tool);
        let revision = call.revision();
        Ok(self.shown(call.peer, revision, declared, answer).await)
    }

    /// The outcome of a call. Pictures that are kept here come with it, as far as a message may hold them: the client may be unable to
    /// fetch them.
    pub(super) async fn shown(
        &self,
        peer: &Peer,
        revision: Revision,
        declared: Declared<'_>,
        answer: &RemoteAnswer,
    ) -> Value {
        let parts = match &answer.response.outcome {
            Outcome::Success { content, .. } => content.as_slice(),
            Outcome::Failure(_) => &[],
        };
        let reader = self.reader(&peer.caller);
        let limits = self.chat.picture_limits;
        let mut room = limits.bytes_max;
        let mut pictures = Vec::new();
        for part in parts.iter().take(limits.images_max) {
            let ContentPart::Image { mime_type, url } = part;
            let in_place = url.strip_prefix("data:");
            if let Some((_, data)) = in_place.and_then(|rest| rest.split_once(";base64,")) {
                pictures.push(picture(mime_type, data));
                continue;
            }
            let kept = self.chat.capabilities.picture(url, &reader, room).await;
            pictures.push(match kept {
                Some(bytes) => {
                    room = room.saturating_sub(bytes.len());
                    picture(mime_type, &STANDARD.encode_to_string(bytes))
                }
                None => {
                    let origin = peer.page.as_deref().filter(|_| url.starts_with('/'));
                    picture_link(mime_type, &format!("{}{url}", origin.unwrap_or_default()))
                }
            });
        }
        called(revision, answer, declared, pictures)
    }
}

/// Tells a client the progress of its call. A client that reads too slowly misses some of it.
fn tell_progress(outlet: mpsc::Sender<Value>, token: Value) -> TellProgress {
    let mut last = None;
    let mut has_fractions = false;
    Box::new(move |message: &str, fraction: Option<f64>| {
        has_fractions |= fraction.is_some();
        let progress = match fraction {
            Some(fraction) => fraction,
            // There is no number for it that would lie between the others.
            None if has_fractions => return,
            None => last.unwrap_or(0.0) + 1.0,
        };
        // A first word at the very beginning is one, too.
        if last.is_some_and(|last| progress <= last) {
            return;
        }
        last = Some(progress);
        let mut params = members(json!({"progressToken": token, "progress": progress}));
        if has_fractions {
            params.insert("total".to_owned(), 1.0.into());
        }
        if !message.is_empty() {
            params.insert("message".to_owned(), message.into());
        }
        let _ = outlet.try_send(notification("notifications/progress", params.into()));
    })
}

fn unknown_tool(name: &str, offer: &Offer) -> Failure {
    let failure = Failure::params("there is no tool of this name");
    let offered = |tool: &Tool| {
        is_for_programs(tool) && offer.tools.offered().any(|known| known.id == tool.id)
    };
    match offer.tools.registry.nearest(name, offered) {
        Some(nearest) => failure.with_data(json!({"nearest": nearest.as_str()})),
        None => failure,
    }
}

/// A call that never began.
pub(super) fn refused(revision: Revision, refusal: ChatRefusal) -> Result<Value, Failure> {
    let error = match refusal {
        ChatRefusal::Blocked(block) => CallError::new(
            ErrorType::Auth,
            format!("this user is not served now: {}", block.farewell_message),
        ),
        ChatRefusal::KeyReused => CallError::new(
            ErrorType::Conflict,
            "this idempotency key came before with another call",
        )
        .with_suggestion("Nothing was done. Use one key for one call."),
        ChatRefusal::Crowded(problem) => CallError::new(ErrorType::RateLimit, problem),
        ChatRefusal::Busy => {
            CallError::new(ErrorType::Transient, "the server has too much to do now")
        }
        ChatRefusal::Foreign | ChatRefusal::Unknown | ChatRefusal::Internal => {
            return Err(Failure::internal());
        }
    };
    Ok(failed(revision, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the progress that a client is told for these fractions, in their order.
    fn check(fractions: &[Option<f64>], expected: &[f64]) {
        let (outlet, mut told) = mpsc::channel(fractions.len());
        let mut tell = tell_progress(outlet, json!("token"));
        for fraction in fractions {
            tell("", *fraction);
        }
        let told = std::iter::from_fn(|| told.try_recv().ok());
        let told: Vec<f64> = told
            .filter_map(|notification| notification["params"]["progress"].as_f64())
            .collect();
        assert_eq!(told, expected, "{fractions:?}");
    }

    #[test]
    fn progress_only_grows_and_may_begin_at_nothing() {
        check(&[Some(0.0), Some(0.5), Some(1.0)], &[0.0, 0.5, 1.0]);
        check(&[Some(0.0), Some(0.0), Some(0.5), Some(0.2)], &[0.0, 0.5]);
        check(&[None, None], &[1.0, 2.0]);
        check(&[Some(0.5), None], &[0.5]);
    }
}
