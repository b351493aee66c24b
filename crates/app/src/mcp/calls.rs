//! `tools/call`: one call from its parameters to its result. A call that needs a person's approval asks its client for it, or says where
//! it is given, and an answer that comes back takes the way of every other answer to such a request.

use super::asking::{REQUEST, Said, ShownRequest, form, link, said, shown_request};
use super::message::{Elicitation, Request};
use super::reply::{
    Failure, Revision, called, failed, members, notification, picture, picture_link,
};
use super::state::{AskedBefore, Refused, digest};
use super::{APPROVALS, Exchange, McpHost, Peer};
use crate::chat::conversation::{Confirmation, Message};
use crate::chat::remote::{Offer, RemoteCall};
use crate::chat::{ChatRefusal, GivenAnswer};
use crate::clock;
use base64_simd::STANDARD;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use windlass_config::ApprovalPlace;
use windlass_runtime::direct::{RemoteAnswer, RemoteEnd, TellProgress};
use windlass_runtime::ids;
use windlass_store::command::OpenQuestion;
use windlass_store::{ConversationRef, QuestionNumber};
use windlass_tool::arguments::Arguments;
use windlass_tool::content::ContentPart;
use windlass_tool::envelope::{Outcome, project};
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::handler::Capabilities;
use windlass_tool::id::ConversationId;
use windlass_tool::json::hex;
use windlass_tool::kind::Reach;
use windlass_tool::registry::{EXEMPT_FROM_EXTERNAL_CONTENT_RULE, Tool};

/// Tools about a conversation. Another program has none.
const OF_CONVERSATIONS: [&str; 3] = ["describe_tool", "get_context", "query_tool_memory"];
/// How often it is looked whether a person has answered on the page.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// How long a client that comes back waits for that.
const PAGE_PATIENCE: Duration = Duration::from_secs(25);

/// Whether a tool can be offered to other programs.
pub(super) fn is_for_programs(tool: &Tool) -> bool {
    let id = tool.id.as_str();
    !OF_CONVERSATIONS.contains(&id) && !EXEMPT_FROM_EXTERNAL_CONTENT_RULE.contains(&id)
}

/// A call that has been read.
struct Called<'a> {
    peer: &'a Peer,
    exchange: Exchange,
    offer: Offer,
    tool: Arc<Tool>,
    arguments: Arguments,
    /// The hash of the call, which its signed state names.
    digest: String,
    key: Option<String>,
    progress: Option<Value>,
    /// The request that a person was shown, and its conversation.
    asked: Option<(ConversationId, QuestionNumber)>,
}

impl Called<'_> {
    fn is_external(&self) -> bool {
        self.tool.reach == Reach::External
    }

    fn revision(&self) -> Revision {
        self.exchange.revision
    }
}

/// How a person can be asked.
enum Way {
    Form,
    Url(String),
    /// The model is told where, if there is a place.
    Told(Option<String>),
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
    async fn run(&self, call: Called<'_>) -> Result<Option<Value>, Failure> {
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
            RemoteEnd::Answered(answer) => Ok(Some(self.shown(&call, &answer).await)),
            RemoteEnd::Asked { question, .. } => {
                self.ask(call, place, question.question, way).await
            }
        }
    }

    /// How a person is asked about a call of this client. The operator may have ruled that the page alone asks.
    fn way(&self, peer: &Peer, exchange: &Exchange) -> Way {
        let Elicitation { form, url } = exchange.elicitation;
        match (&peer.page, self.approvals) {
            (_, ApprovalPlace::Client) if form => Way::Form,
            (Some(page), _) if url => Way::Url(page.clone()),
            (page, _) => Way::Told(page.clone()),
        }
    }

    /// The call waits for a person.
    async fn ask(
        &self,
        call: Called<'_>,
        place: ConversationRef,
        number: QuestionNumber,
        way: Way,
    ) -> Result<Option<Value>, Failure> {
        let revision = call.revision();
        let found = self.chat.remote_question(&place, number);
        let open = match found {
            Ok(Some((_, Some(open)))) => open,
            // It was answered in between.
            Ok(_) => return Ok(Some(failed(revision, &undecided(&call.tool)))),
            Err(refusal) => return refused(revision, refusal).map(Some),
        };
        let shown = shown_request(&open.question);
        let url = |page: &str| format!("{page}{APPROVALS}{}", place.conversation_id);
        let asked = match &way {
            Way::Form => form(&shown),
            Way::Url(page) => link(&shown, &url(page)),
            Way::Told(page) => {
                let url = page.as_deref().map(url);
                let error = told_where(&call.tool, &shown, url.as_deref());
                return Ok(Some(failed(revision, &error)));
            }
        };
        if revision == Revision::Stateless {
            return Ok(Some(self.input_required(&call, &place, &open, asked)));
        }
        let Some(answer) = wait_for_client(&call.exchange, asked, &open).await else {
            return Ok(match *call.exchange.left.borrow() {
                true => None,
                false => Some(failed(revision, &undecided(&call.tool))),
            });
        };
        match said(&answer) {
            Said::Approved if matches!(way, Way::Form) => {
                self.confirm(call, place, &open, true).await
            }
            Said::Denied => self.confirm(call, place, &open, false).await,
            Said::Opened if matches!(way, Way::Url(_)) => {
                let until = open_for(&open);
                if !self.answered_on_page(&call, &place, number, until).await {
                    return Ok(Some(failed(revision, &undecided(&call.tool))));
                }
                Box::pin(self.run(Called {
                    asked: Some((place.conversation_id.clone(), number)),
                    ..call
                }))
                .await
            }
            Said::Approved | Said::Opened | Said::Nothing => {
                Ok(Some(failed(revision, &undecided(&call.tool))))
            }
        }
    }

    /// The client is to ask, and to send the call again with the answer.
    fn input_required(
        &self,
        call: &Called<'_>,
        place: &ConversationRef,
        open: &OpenQuestion,
        asked: Value,
    ) -> Value {
        let state = self.states.sign(
            &call.peer.caller,
            &call.digest,
            &AskedBefore {
                conversation: place.conversation_id.clone(),
                question: open.question.number,
                expires_at_unix_ms: open.question.expires_at_unix_ms,
            },
        );
        json!({
            "resultType": "input_required",
            "inputRequests": {REQUEST: {"method": "elicitation/create", "params": asked}},
            "requestState": state,
        })
    }

    /// The client comes back with what its user has said.
    async fn resume(
        &self,
        call: Called<'_>,
        asked: AskedBefore,
        answer: Option<&Map<String, Value>>,
    ) -> Result<Option<Value>, Failure> {
        let revision = call.revision();
        let place = self
            .chat
            .remote_place(&call.peer.caller, &asked.conversation);
        let found = match self.chat.remote_question(&place, asked.question) {
            Ok(found) => found,
            Err(refusal) => return refused(revision, refusal).map(Some),
        };
        let call = Called {
            asked: Some((asked.conversation, asked.question)),
            ..call
        };
        let open = match found {
            None => {
                return Err(Failure::params(
                    "what this requestState was for is not known any more",
                ));
            }
            // The call itself tells the outcome of the answer that was given.
            Some((_, None)) => return self.run(call).await,
            Some((_, Some(open))) => open,
        };
        let way = self.way(call.peer, &call.exchange);
        match (answer.map(said), &way) {
            (Some(Said::Approved), Way::Form) => self.confirm(call, place, &open, true).await,
            (Some(Said::Denied), _) => self.confirm(call, place, &open, false).await,
            (Some(Said::Opened), Way::Url(_)) => {
                let patience = PAGE_PATIENCE.min(open_for(&open));
                let number = open.question.number;
                match self.answered_on_page(&call, &place, number, patience).await {
                    true => self.run(call).await,
                    false => self.ask(call, place, number, way).await,
                }
            }
            (Some(Said::Nothing), _) => Ok(Some(failed(revision, &undecided(&call.tool)))),
            // It was asked for, and is not there.
            _ => self.ask(call, place, open.question.number, way).await,
        }
    }

    /// Gives the user's answer, as every client gives one.
    async fn confirm(
        &self,
        call: Called<'_>,
        place: ConversationRef,
        open: &OpenQuestion,
        approved: bool,
    ) -> Result<Option<Value>, Failure> {
        let revision = call.revision();
        let given = GivenAnswer {
            conversation: place.conversation_id.clone(),
            token: open.token.text(),
            approved,
            reason: None,
            remember: false,
            input: None,
            key: None,
            user: None,
            zone: None,
        };
        let mut left = call.exchange.left.clone();
        let confirmed = tokio::select! {
            confirmed = self.chat.confirm(&call.peer.caller, given) => confirmed,
            _ = left.wait_for(|has_left| *has_left) => return Ok(None),
        };
        let Confirmation {
            response,
            asked_anew,
            ..
        } = match confirmed {
            Ok(confirmation) => confirmation,
            Err(ChatRefusal::Unknown) => self.chat.nothing_confirmed(),
            Err(refusal) => return refused(revision, refusal).map(Some),
        };
        if asked_anew.is_some()
            && let Ok(Some(newer)) = self.chat.newest_remote_question(&place)
            && newer.question.number != open.question.number
        {
            let way = self.way(call.peer, &call.exchange);
            return Box::pin(self.ask(call, place, newer.question.number, way)).await;
        }
        self.chat.told_remote(&place, open.question.number).await;
        let told = project(&response, call.is_external(), self.told_characters_max);
        let answer = RemoteAnswer {
            response,
            told: Some(told),
        };
        Ok(Some(self.shown(&call, &answer).await))
    }

    /// The outcome of a call. Pictures that are kept here come with it, as far as a message may hold them: the client may be unable to
    /// fetch them.
    async fn shown(&self, call: &Called<'_>, answer: &RemoteAnswer) -> Value {
        let parts = match &answer.response.outcome {
            Outcome::Success { content, .. } => content.as_slice(),
            Outcome::Failure(_) => &[],
        };
        let reader = self.reader(&call.peer.caller);
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
                    let origin = call.peer.page.as_deref().filter(|_| url.starts_with('/'));
                    picture_link(mime_type, &format!("{}{url}", origin.unwrap_or_default()))
                }
            });
        }
        called(call.revision(), answer, &call.tool, pictures)
    }

    /// Whether a person has answered on the page, within a time.
    async fn answered_on_page(
        &self,
        call: &Called<'_>,
        place: &ConversationRef,
        number: QuestionNumber,
        patience: Duration,
    ) -> bool {
        let answered = async {
            loop {
                match self.chat.remote_question(place, number) {
                    Ok(Some((_, Some(_)))) => tokio::time::sleep(LOOK_PAUSE).await,
                    Ok(_) => return true,
                    Err(_) => return false,
                }
            }
        };
        let mut left: watch::Receiver<bool> = call.exchange.left.clone();
        tokio::select! {
            answered = tokio::time::timeout(patience, answered) => answered.unwrap_or(false),
            _ = left.wait_for(|has_left| *has_left) => false,
        }
    }
}

/// Asks the client over the stream of its request, as sessions with a handshake do. `None` where nothing came back in time.
async fn wait_for_client(
    exchange: &Exchange,
    mut asked: Value,
    open: &OpenQuestion,
) -> Option<Map<String, Value>> {
    let session = exchange.session.as_ref()?;
    let (id, answered) = session.asks();
    match asked["mode"].as_str() {
        Some("url") => asked["elicitationId"] = id.to_value(),
        // Older clients know forms alone, and no word for them.
        _ => drop(asked.as_object_mut().map(|asked| asked.remove("mode"))),
    }
    let request = json!({
        "jsonrpc": "2.0", "id": id.to_value(), "method": "elicitation/create", "params": asked,
    });
    exchange.outlet.send(request).await.ok()?;
    let mut left = exchange.left.clone();
    tokio::select! {
        answer = tokio::time::timeout(open_for(open), answered) => answer.ok()?.ok()?,
        _ = left.wait_for(|has_left| *has_left) => None,
    }
}

/// For how long a request still waits.
fn open_for(open: &OpenQuestion) -> Duration {
    let left = open.question.expires_at_unix_ms;
    Duration::from_millis(left.saturating_sub(clock::now_unix_ms()))
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

/// The user was asked, and has not said anything.
fn undecided(tool: &Tool) -> CallError {
    let message = format!("{} was not approved: nobody has answered", tool.id);
    CallError::new(ErrorType::ConfirmationRequired, message)
        .with_suggestion("Nothing was done. Ask the user whether it is still wanted.")
}

/// The error for a client that cannot ask its user.
fn told_where(tool: &Tool, shown: &ShownRequest, url: Option<&str>) -> CallError {
    let message = format!("{} runs only after a person has approved it", tool.id);
    let error = CallError::new(ErrorType::ConfirmationRequired, message);
    let done = match &shown.warning {
        None => "Nothing has been done yet.".to_owned(),
        // "Nothing has been done" is uncertain or wrong with regard to an earlier call.
        Some(warning) => format!("This call has done nothing. The user is warned: {warning}"),
    };
    match url {
        Some(url) => error
            .with_suggestion(format!(
                "{done} Ask the user to approve it at {url}, and then send the same call again for its result."
            ))
            .with_details(json!({"approveAt": url})),
        None => error.with_suggestion(format!("{done} Say that nobody can be asked here.")),
    }
}

/// A call that never began.
fn refused(revision: Revision, refusal: ChatRefusal) -> Result<Value, Failure> {
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
