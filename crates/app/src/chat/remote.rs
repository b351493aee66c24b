//! Calls of other programs, which bring no model and no message: each is a session of one turn in a conversation of its own, under
//! its caller's identity. The conversation is named by what makes two calls the same, so that the ledger recognises one that comes
//! again. Knows no protocol.

use super::answers::{KnownKey, key_entry, known_key};
use super::approved::ApprovedCall;
use super::conversation::Message;
use super::owner::ConversationOwner;
use super::remote_keys::RunningKey;
use super::{ChatHost, ChatRefusal, broken, refuse_blocked, unavailable};
use crate::capabilities::at_user;
use crate::clock::{self, UserZone};
use crate::toolbox::ModeTools;
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::sync::watch;
use windlass_contract::arguments::Arguments;
use windlass_contract::condition::{Facts, Given};
use windlass_contract::envelope::project;
use windlass_contract::id::{CallNumber, ConversationId};
use windlass_contract::kind::{Mode, Reach};
use windlass_contract::registry::Tool;
use windlass_provider::profile;
use windlass_runtime::caller::Caller;
use windlass_runtime::client_key::{ClientKey, Purpose};
use windlass_runtime::direct::{
    DirectRequest, RemoteAnswer, RemoteEnd, RemoteRequest, TellProgress, call_remote,
};
use windlass_runtime::ids;
use windlass_session::model::IncomingCall;
use windlass_session::session::SessionConfig;
use windlass_store::command::OpenQuestion;
use windlass_store::{
    Beginner, Conversation, ConversationRef, EntryNumber, Epoch, Question, QuestionNumber,
    QuestionState,
};

/// The beginning of these conversations' ids.
const PREFIX: &str = "mcp-";

/// Whether a conversation has calls of other programs: no model of this server's speaks in it.
pub(crate) fn is_remote(conversation: &ConversationId) -> bool {
    conversation.as_str().starts_with(PREFIX)
}

/// One call.
pub(crate) struct RemoteCall {
    pub(crate) caller: Caller,
    pub(crate) beginner: Beginner,
    pub(crate) tool: Arc<Tool>,
    pub(crate) arguments: Arguments,
    /// By what its sender knows it when it sends it again, and the hash of what it asks for.
    pub(crate) key: Option<Message>,
    /// The request for an approval that a person has been shown for it, and its conversation.
    pub(crate) asked: Option<(ConversationId, QuestionNumber)>,
    /// Whether there is a way to ask a person.
    pub(crate) can_ask: bool,
    pub(crate) rules: RemoteRules,
    pub(crate) progress: Option<TellProgress>,
    /// Whether a task is answered as soon as it runs.
    pub(crate) takes_tasks: bool,
}

/// The configuration's rules for these calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteRules {
    /// Milliseconds within which the same change, asked for again without a key, is a call that was lost.
    pub(crate) repeat_ms: u64,
    /// The model behind a call counts as one that has read what others wrote.
    pub(crate) assumes_external_content: bool,
}

/// The tools that a caller is offered, and what the choice was made by.
pub(crate) struct Offer {
    pub(crate) tools: Arc<ModeTools>,
    given: Given,
    unix_ms: u64,
}

impl ChatHost {
    /// The tools of a caller, judged for this moment.
    pub(crate) fn offer(&self, caller: &Caller) -> Offer {
        let toolbox = self.toolbox.load_full();
        let kit = toolbox.of(Mode::Text);
        let zone = UserZone::of_name(caller.zone.as_deref());
        let unix_ms = clock::now_unix_ms();
        let given = kit.given(zone.as_ref());
        let (user_id, _) = self.capabilities.of_user(caller, None);
        let tools = kit.offered_to(&Facts {
            rights: &caller.rights,
            user_id: user_id.as_str(),
            tenant: caller.tenant.as_str(),
            mode: Mode::Text,
            unix_ms,
            given: &given,
            arguments: None,
        });
        Offer {
            tools,
            given,
            unix_ms,
        }
    }

    /// Runs a call to its end in its conversation, also where `left` says that nobody waits for it any more. A task that its caller takes
    /// runs on after the answer.
    pub(crate) async fn call_remote(
        &self,
        signer: &ClientKey,
        offer: &Offer,
        call: RemoteCall,
        mut left: watch::Receiver<bool>,
    ) -> Result<(ConversationRef, RemoteEnd), ChatRefusal> {
        let counted = self.completing.begin();
        let caller = &call.caller;
        let (user_id, capabilities) = self.capabilities.of_user(caller, None);
        refuse_blocked(&user_id, capabilities.as_ref())?;
        let whose = ConversationOwner::begun_by(caller, Some(&user_id));
        let id = match &call.asked {
            Some((id, _)) => id.clone(),
            None => conversation_of(signer, &whose, &call).map_err(|error| broken(&error))?,
        };
        let reference = whose.reference(&caller.tenant, &id);
        let known = self.known_remote(&reference)?;
        if known.is_none() {
            self.refuse_crowded(&caller.tenant, &call.beginner)?;
        }
        let mut entries = Vec::new();
        // Until the log has the key, memory does.
        let mut running_key: Option<RunningKey> = None;
        if let Some(key) = &call.key {
            let claimed = self.remote_keys.claim(&reference, key.content);
            running_key = Some(claimed.ok_or(ChatRefusal::KeyReused)?);
            let store = self.conversations.store();
            match known_key(&reference, store, key).map_err(unavailable)? {
                KnownKey::Conflict => return Err(ChatRefusal::KeyReused),
                KnownKey::Same => {}
                KnownKey::New => entries.push(key_entry(key)),
            }
        }
        if let Some(number) = self.answered_request(&call, &reference, known.as_ref())? {
            let told = self.end_of_approved(
                &reference,
                ApprovedCall {
                    number,
                    tool: &call.tool,
                    takes_tasks: call.takes_tasks,
                },
            );
            let end = tokio::select! {
                end = told => end?,
                _ = left.wait_for(|has_left| *has_left) => Some(RemoteEnd::GivenUp),
            };
            if let Some(end) = end {
                return Ok((reference, end));
            }
        }
        let is_quiet_since = |known: &Conversation| {
            offer.unix_ms.saturating_sub(known.used_at_unix_ms) >= call.rules.repeat_ms
        };
        let zone = UserZone::of_name(caller.zone.as_deref());
        let tool = &call.tool;
        let (client_id, rights) = (caller.client_id.clone(), caller.rights.clone());
        let validity = caller.validity.clone();
        let request = RemoteRequest {
            direct: DirectRequest {
                session: SessionConfig {
                    session_id: ids::session_id().map_err(|error| broken(&error))?,
                    epoch: Epoch(1),
                    tenant: caller.tenant.clone(),
                    user_id,
                    rights,
                    given: offer.given.clone(),
                    conversation_id: id,
                    mode: Mode::Text,
                    registry: offer.tools.registry.clone(),
                    limits: self.limits.clone(),
                    profile: Arc::new(profile::openai_chat("", "").profile.model),
                    model: Arc::default(),
                    estimate: None,
                    started_unix_ms: offer.unix_ms,
                    history: Vec::new(),
                    last_call: last_call(self, &reference)?,
                    can_ask: call.can_ask,
                    can_ask_input: false,
                    pending_request: None,
                },
                client_id,
                capabilities: at_user(capabilities, zone, None),
                shared: self.shared.clone(),
            },
            conversation: reference.clone(),
            beginner: call.beginner,
            after: known
                .as_ref()
                .map_or(EntryNumber(0), |known| known.last_entry),
            entries,
            is_later: call.key.is_none()
                && call.asked.is_none()
                && known.as_ref().is_some_and(is_quiet_since),
            has_external_content: call.rules.assumes_external_content && tool.writes(),
            progress: call.progress,
            takes_tasks: call.takes_tasks,
        };
        let incoming = IncomingCall {
            id: None,
            name: Some(tool.id.as_str().into()),
            arguments: Ok(call.arguments),
        };
        let left = async move {
            tokio::select! {
                // An error means that nobody waits.
                _ = left.wait_for(|has_left| *has_left) => {}
                () = validity.over() => {}
            }
        };
        let (end, running) = call_remote(request, incoming, left).await;
        match running {
            Some(running) => drop(tokio::spawn(async move {
                running.run().await;
                drop((counted, running_key));
            })),
            None => drop((counted, running_key)),
        }
        Ok((reference, end))
    }

    /// The request for an approval that a person has answered, and for whose outcome the program comes back with this call.
    fn answered_request(
        &self,
        call: &RemoteCall,
        place: &ConversationRef,
        known: Option<&Conversation>,
    ) -> Result<Option<QuestionNumber>, ChatRefusal> {
        let tool = &call.tool;
        let number = match (&call.asked, known) {
            (Some((_, number)), _) => *number,
            // The ledger recognises a change that is not repeatable.
            (None, Some(known)) if tool.repeatable || !tool.writes() => known.last_question,
            (None, _) => return Ok(None),
        };
        let Some((question, None)) = self.remote_question(place, number)? else {
            return Ok(None);
        };
        // Without a state or a key, a call that comes after the outcome was told is another one.
        let is_meant = call.asked.is_some()
            || ((call.key.is_some() || !question.is_heard) && is_call_of(&question, call));
        Ok((is_meant && question.state == QuestionState::Approved).then_some(number))
    }

    /// How an approved call ended; `None` where the ledger has to judge the call anew.
    async fn end_of_approved(
        &self,
        place: &ConversationRef,
        approved: ApprovedCall<'_>,
    ) -> Result<Option<RemoteEnd>, ChatRefusal> {
        let ended = self.outcome_of_approval(place, approved).await?;
        let Some(mut response) = ended else {
            return Ok(None);
        };
        response.intents.clear();
        response.meta.idempotent_cache_hit = true;
        let characters_max = self.limits.projection_characters_max;
        let is_external = approved.tool.reach == Reach::External;
        let told = project(&response, is_external, characters_max);
        // The end of a task that runs is told later.
        if !(approved.takes_tasks && response.meta.preliminary) {
            self.told_remote(place, approved.number).await;
        }
        Ok(Some(RemoteEnd::Answered(RemoteAnswer {
            response: Arc::new(response),
            told: Some(told),
        })))
    }

    fn known_remote(
        &self,
        reference: &ConversationRef,
    ) -> Result<Option<Conversation>, ChatRefusal> {
        let ConversationRef {
            tenant,
            conversation_id,
            ..
        } = reference;
        let known = self.conversations.known(tenant, conversation_id);
        let known = known.map_err(unavailable)?;
        match known {
            Some(known) if known.user_id != reference.user_id => Err(ChatRefusal::Foreign),
            known => Ok(known),
        }
    }

    /// The conversation of a request for an approval, as the caller would have it.
    pub(crate) fn remote_place(&self, caller: &Caller, id: &ConversationId) -> ConversationRef {
        let (user_id, _) = self.capabilities.of_user(caller, None);
        let whose = ConversationOwner::begun_by(caller, Some(&user_id));
        whose.reference(&caller.tenant, id)
    }

    /// A request for an approval, with its token as long as it waits for an answer; `None` where there is none of this number.
    pub(crate) fn remote_question(
        &self,
        place: &ConversationRef,
        number: QuestionNumber,
    ) -> Result<Option<(Question, Option<OpenQuestion>)>, ChatRefusal> {
        let store = self.conversations.store();
        let question = store.question_of_number(place, number);
        let Some(question) = question.map_err(unavailable)? else {
            return Ok(None);
        };
        let open = store.open_questions(place).map_err(unavailable)?;
        let open = open.into_iter().find(|open| open.question.number == number);
        Ok(Some((question, open)))
    }

    /// The newest request that waits in a conversation.
    pub(crate) fn newest_remote_question(
        &self,
        place: &ConversationRef,
    ) -> Result<Option<OpenQuestion>, ChatRefusal> {
        let store = self.conversations.store();
        let open = store.open_questions(place).map_err(unavailable)?;
        Ok(open.into_iter().max_by_key(|open| open.question.number))
    }

    /// A conversation of these calls, by its id alone, for a page that has nothing else.
    pub(crate) fn remote_conversation(
        &self,
        caller: &Caller,
        id: &ConversationId,
    ) -> Result<Option<(ConversationOwner, ConversationRef)>, ChatRefusal> {
        if !is_remote(id) {
            return Ok(None);
        }
        let known = self.conversations.known(&caller.tenant, id);
        let known = known.map_err(unavailable)?;
        Ok(known.map(|known| {
            let whose = ConversationOwner::of(&known.user_id);
            let reference = whose.reference(&caller.tenant, id);
            (whose, reference)
        }))
    }
}

/// Whether a request for an approval in the conversation of this call is about the call. The conversation is named by the key, or by the
/// arguments: by all of them, unless the tool says that some do not count. The shown arguments may be more, by defaults.
fn is_call_of(question: &Question, call: &RemoteCall) -> bool {
    let tool = &call.tool;
    let is_shown = || {
        let shown = serde_json::from_str::<Map<String, Value>>(question.arguments.expose());
        let shown = shown.unwrap_or_default();
        let called = call.arguments.to_value();
        let mut called = called.as_object().into_iter().flatten();
        called.all(|(name, value)| shown.get(name) == Some(value))
    };
    question.tool == tool.id && (call.key.is_some() || tool.effect_key.is_empty() || is_shown())
}

/// The highest call number of the open requests for an approval in the conversation; a new call gets a higher one.
fn last_call(host: &ChatHost, reference: &ConversationRef) -> Result<CallNumber, ChatRefusal> {
    let open = host.conversations.store().open_questions(reference);
    let open = open.map_err(unavailable)?;
    let numbers = open.iter().map(|open| open.question.call);
    Ok(CallNumber(numbers.max().unwrap_or_default()))
}

/// The conversation that decides about a call. A call that changes something, needs an approval or runs in the background has the
/// conversation of its key, or else of its effect arguments. Every other call has its own.
fn conversation_of(
    signer: &ClientKey,
    whose: &ConversationOwner,
    call: &RemoteCall,
) -> Result<ConversationId, ids::NoRandomness> {
    let tool = &call.tool;
    if !tool.writes() && !tool.requires_confirmation && !tool.runs_in_background() {
        return Ok(ConversationId::new(format!(
            "{PREFIX}{}",
            ids::random_hex()?
        )));
    }
    let tenant = call.caller.tenant.as_str();
    let user = whose.ledger_user();
    let named = match &call.key {
        Some(key) => serde_json::json!(["key", tenant, user.as_str(), key.id]),
        None => {
            let meant = tool.effect_arguments(&call.arguments);
            serde_json::json!(["change", tenant, user.as_str(), tool.id.as_str(), meant])
        }
    };
    // Signed, so that nobody begins a conversation that somebody else's call would be in.
    let name = signer.sign(Purpose::RemoteCall, &named.to_string());
    Ok(ConversationId::new(format!("{PREFIX}{}", &name[..32])))
}
