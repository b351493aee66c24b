//! A person's approval of a call: how its client asks for it, or where it is given, and the way of the answer, which is that of every other
//! answer to such a request. Knows no ledger.

use super::asking::{REQUEST, Said, ShownRequest, form, link, said, shown_request};
use super::calls::{Called, refused};
use super::message::Elicitation;
use super::reply::{Failure, Revision, failed};
use super::state::AskedBefore;
use super::{APPROVALS, Exchange, McpHost, Peer};
use crate::chat::conversation::Confirmation;
use crate::chat::{ChatRefusal, GivenAnswer};
use crate::clock;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::sync::watch;
use windlass_config::ApprovalPlace;
use windlass_contract::envelope::project;
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::registry::Tool;
use windlass_runtime::direct::RemoteAnswer;
use windlass_store::command::OpenQuestion;
use windlass_store::{ConversationRef, QuestionNumber};

/// How often it is looked whether a person has answered on the page.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// How long a client that comes back waits for that.
const PAGE_PATIENCE: Duration = Duration::from_secs(25);

/// How a person can be asked.
pub(super) enum Way {
    Form,
    Url(String),
    /// The model is told where, if there is a place.
    Told(Option<String>),
}

impl McpHost {
    /// How a person is asked about a call of this client. The operator may have ruled that the page alone asks.
    pub(super) fn way(&self, peer: &Peer, exchange: &Exchange) -> Way {
        let Elicitation { form, url } = exchange.client.elicitation;
        match (&peer.page, self.approvals) {
            (_, ApprovalPlace::Client) if form => Way::Form,
            (Some(page), _) if url => Way::Url(page.clone()),
            (page, _) => Way::Told(page.clone()),
        }
    }

    /// The call waits for a person.
    pub(super) async fn ask(
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
    pub(super) async fn resume(
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
        if response.meta.preliminary && call.tool.runs_in_background() {
            // The task runs: the call itself gets its handle, or waits for its end.
            let asked = Some((place.conversation_id, open.question.number));
            return Box::pin(self.run(Called { asked, ..call })).await;
        }
        self.chat.told_remote(&place, open.question.number).await;
        let told = project(&response, call.is_external(), self.told_characters_max);
        let answer = RemoteAnswer {
            response,
            told: Some(told),
        };
        self.answered(&call, &answer).await.map(Some)
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
