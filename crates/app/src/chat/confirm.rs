//! Answers to questions that come without a stream: given in a turn of the chat if no turn runs, and in a session of their own otherwise.
//! Equal answers at the same time count once, and all senders get the outcome. Knows no HTTP.

use super::answers::{KnownKey, confirmation, confirmation_entry, key_entry, recall_key};
use super::conversation::{AnswerClaim, Confirmation, Conversation, Delivery, Message};
use super::delivery::question_of;
use super::owner::ConversationOwner;
use super::remote::is_remote;
use super::session_cache::{SessionMaker, SessionRequest};
use super::{ChatHost, ChatRefusal, approval_of, broken, refuse_blocked, unavailable};
use crate::clock::UserZone;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::oneshot;
use windlass_contract::envelope::{ToolResponse, rfc3339};
use windlass_contract::error::ErrorType;
use windlass_contract::id::{CallNumber, ConversationId};
use windlass_contract::input::SentInput;
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::caller::Caller;
use windlass_runtime::client_protocol::offer_json;
use windlass_runtime::text::{
    Confirmed, Consent, Past, TextSettings, TurnEnd, TurnInput, TurnSink,
};
use windlass_session::client::{ClientUpdate, ConfirmationQuestion, ErrorCode};
use windlass_session::event::SessionEvent;
use windlass_store::{ConversationRef, NewEntry, Question, QuestionNumber, Token};

/// The user's answer to a question, and by what it is known when it comes again.
pub(crate) struct GivenAnswer {
    pub(crate) conversation: ConversationId,
    pub(crate) token: Sensitive<String>,
    pub(crate) approved: bool,
    pub(crate) reason: Option<Sensitive<String>>,
    /// Whether an approval is to stand for calls with the same values.
    pub(crate) remember: bool,
    /// The user's input for the service of a tool that asks for it.
    pub(crate) input: Option<SentInput>,
    /// The client's idempotency key.
    pub(crate) key: Option<Message>,
    /// The user for whom the caller says it speaks.
    pub(crate) user: Option<String>,
    /// Where the user lives, if the client says.
    pub(crate) zone: Option<UserZone>,
}

impl ChatHost {
    /// The outcome of an answer to a question. The model goes on with it in its own time.
    pub(crate) async fn confirm(
        self: &Arc<Self>,
        caller: &Caller,
        given: GivenAnswer,
    ) -> Result<Confirmation, ChatRefusal> {
        let store = self.conversations.store();
        let id = &given.conversation;
        // A client with a foreign token learns nothing, not even who is blocked.
        let caller = &caller.speaking_for(given.user.as_deref());
        let tenant = &caller.tenant;
        let known = self.conversations.known(tenant, id).map_err(unavailable)?;
        let known = known.ok_or(ChatRefusal::Unknown)?;
        let whose = ConversationOwner::of(&known.user_id);
        let reference = whose.reference(tenant, id);
        let own = question_of(&reference, &whose, store, caller, None, &given.token);
        let (question, is_own) = match own.map_err(unavailable)? {
            Some(question) => (question, true),
            None => (self.to_approve(&reference, caller, &given.token)?, false),
        };
        let (own, capabilities) = self.capabilities.of_user(caller, None);
        refuse_blocked(&own, capabilities.as_ref())?;
        let client_id = whose.owner.as_ref().unwrap_or(&caller.client_id).clone();
        let mut maker = self.maker(caller, &own, client_id, &whose)?;
        maker.zone = given.zone.clone().or(maker.zone);
        let conversation = match self.conversations.get(tenant, id) {
            Some(held) => held,
            None => self.conversations.hold(tenant, id, whose, Vec::new()),
        };
        if let Some(key) = &given.key {
            let known = recall_key(&conversation, store, key).map_err(unavailable)?;
            if known == KnownKey::Conflict || !conversation.note_key(key) {
                return Err(ChatRefusal::KeyReused);
            }
        }
        let recorded = confirmation(
            &conversation.reference,
            store,
            question.number,
            given.approved,
        );
        let recorded = recorded.map_err(unavailable)?;
        if let Some(response) =
            recorded.and_then(|recorded| serde_json::from_value::<ToolResponse>(recorded).ok())
        {
            return Ok(Confirmation::recorded(response));
        }
        let mut outcome = match conversation.claim_answer(question.number, given.approved) {
            AnswerClaim::Joined(outcome) => outcome,
            AnswerClaim::First(teller) => {
                let outcome = teller.subscribe();
                let host = self.clone();
                // The answer is given to its end, also if its client has left.
                tokio::spawn(async move {
                    let confirmation = host
                        .give(conversation, maker, question, given, is_own)
                        .await;
                    if let Some(confirmation) = confirmation {
                        teller.send_replace(Some(confirmation));
                    }
                });
                outcome
            }
        };
        let known = outcome.wait_for(Option::is_some).await;
        let known = known.map_err(|_| ChatRefusal::Busy)?;
        known.clone().ok_or(ChatRefusal::Busy)
    }

    /// The question of a token that somebody else was asked, where its tool names the roles that approve, and the caller has
    /// one of them.
    pub(crate) fn to_approve(
        &self,
        reference: &ConversationRef,
        caller: &Caller,
        token: &Sensitive<String>,
    ) -> Result<Question, ChatRefusal> {
        let token = Token::parse(token.expose()).ok_or(ChatRefusal::Unknown)?;
        let question = self.conversations.store().question(reference, &token);
        let question = question.map_err(unavailable)?.ok_or(ChatRefusal::Unknown)?;
        let toolbox = self.toolbox.load();
        let registry = &toolbox.of(question.mode).all().registry;
        let tool = registry.of_record(question.tool.as_str(), &question.tool_version);
        let is_approver = tool.is_some_and(|tool| {
            let roles = &tool.permissions.approver_roles;
            caller.rights.have_one_of(roles)
        });
        // Only the user of the call answers a service's question.
        let is_theirs = is_approver && question.input.is_none();
        is_theirs.then_some(question).ok_or(ChatRefusal::Unknown)
    }

    /// The confirmation for a token that is not valid.
    pub(crate) fn nothing_confirmed(&self) -> Confirmation {
        Confirmation {
            response: self.not_valid(),
            asked_anew: None,
            is_final: false,
            is_open: false,
        }
    }

    /// `None` where nothing came of it.
    async fn give(
        self: &Arc<Self>,
        conversation: Arc<Conversation>,
        maker: SessionMaker,
        question: Question,
        given: GivenAnswer,
        is_own: bool,
    ) -> Option<Confirmation> {
        let consent = Consent {
            token: given.token,
            approved: given.approved,
            reason: given.reason,
            // An approval over MCP is for one call.
            remember: given.remember
                && is_own
                && !is_remote(&conversation.reference.conversation_id),
            input: given.input,
        };
        // A turn has the rights of its user, and not those of an approver. A turn that runs already gets the answer by the log.
        let has_model = self.has_model() && !is_remote(&conversation.reference.conversation_id);
        if is_own && question.mode == Mode::Text && !conversation.is_busy() && has_model {
            let delivery = Delivery {
                message: Some(approval_of(&[question.number])),
                key: given.key,
                again: false,
                waits: true,
                is_resumable: false,
            };
            let (teller, answered) = oneshot::channel();
            let input = TurnInput::Confirm(vec![consent]);
            let begun = self.begin_turn(conversation, maker, delivery, input, Some(teller));
            begun.ok()?;
            return answered.await.ok();
        }
        let apart = Apart {
            question,
            consent,
            key: given.key,
        };
        match self.give_apart(&conversation, maker, apart).await {
            Ok(confirmation) => confirmation,
            Err(refusal) => {
                tracing::error!(?refusal, "an answer to a question could not be taken");
                None
            }
        }
    }

    /// Gives an answer in a session of its own, which does nothing else. The session that asked hears of it by the log.
    async fn give_apart(
        self: &Arc<Self>,
        conversation: &Arc<Conversation>,
        maker: SessionMaker,
        apart: Apart,
    ) -> Result<Option<Confirmation>, ChatRefusal> {
        let counted = self.completing.begin();
        let id = &conversation.reference.conversation_id;
        let tenant = &conversation.reference.tenant;
        let known = self.conversations.known(tenant, id).map_err(unavailable)?;
        let read_to = known.map(|known| known.last_entry).unwrap_or_default();
        let mode = apart.question.mode;
        let toolbox = self.toolbox.load_full();
        let mut past = Past::of_answer(CallNumber(apart.question.call), read_to);
        if toolbox.of(mode).all().registry.keeps_state() {
            let ledger = &*self.shared.ledger;
            let read = past.with_state(ledger, &conversation.reference);
            past = read.map_err(unavailable)?;
        }
        let request = SessionRequest {
            maker,
            reference: conversation.reference.clone(),
            mode,
            limits: match mode {
                Mode::Text => self.limits.clone(),
                Mode::Voice => self.voice_limits.clone(),
            },
            settings: Arc::new(TextSettings {
                models: Vec::new(),
                summary_model: None,
                limits: self.settings.limits,
            }),
            history: Vec::new(),
            past,
            can_ask: true,
            can_ask_input: !is_remote(id),
        };
        let begun = self.held_session(request, &toolbox, toolbox.of(mode));
        let mut session = begun.map_err(|error| broken(&error))?;
        conversation.note_session(session.call_stopper());
        let mut sink = AnswerSink {
            mode,
            confirmation: None,
            asked_anew: None,
            has_effect: false,
        };
        let approved = apart.consent.approved;
        let mut never = std::pin::pin!(std::future::pending());
        let input = TurnInput::Confirm(vec![apart.consent]);
        session.turn(input, "", &mut sink, never.as_mut()).await;
        let mut entries: Vec<NewEntry> = apart.key.iter().map(key_entry).collect();
        if let Some(confirmation) = &sink.confirmation {
            let question = apart.question.number;
            // The ledger knows the outcome of an effect.
            let kept = match is_remote(id) {
                true => confirmation.whole_entry(question, approved, self.entry_bytes_max),
                false => confirmation.entry(question, approved, self.entry_bytes_max),
            };
            entries.extend(kept.filter(|_| !sink.has_effect));
        }
        if !entries.is_empty() {
            session.append(entries);
            // A client that sends the same answer again finds it.
            self.keep(conversation).await;
        }
        let (conversations, conversation) = (self.conversations.clone(), conversation.clone());
        let ending = conversation.ending();
        tokio::spawn(async move {
            session.end().await;
            drop((ending, counted));
            conversations.comes_to_rest(&conversation);
        });
        Ok(sink.confirmation)
    }
}

struct Apart {
    question: Question,
    consent: Consent,
    key: Option<Message>,
}

impl Confirmation {
    /// A turn's report on an answer, with the question that replaced the one that was answered.
    pub(super) fn of(confirmed: &Confirmed<'_>, asked_anew: Option<Value>) -> Self {
        let response = confirmed.response;
        let is_settled =
            response.is_ok() || response.error_type() == Some(ErrorType::ConfirmationDeclined);
        Self {
            is_final: is_settled
                && !confirmed.is_open
                && response.meta.recorded != Some(false)
                && response.meta.accepted_until.is_none(),
            response: response.clone(),
            asked_anew,
            is_open: confirmed.is_open,
        }
    }

    fn recorded(response: ToolResponse) -> Self {
        Self {
            response: Arc::new(response),
            asked_anew: None,
            is_final: true,
            is_open: false,
        }
    }

    /// The entry that keeps it for a client that sends the same answer again, if it is final.
    pub(super) fn entry(
        &self,
        question: QuestionNumber,
        approved: bool,
        entry_bytes_max: usize,
    ) -> Option<NewEntry> {
        let is_kept = self.is_final && self.response.is_ok();
        let response = serde_json::to_value(&*self.response).ok();
        let response = response.filter(|_| is_kept)?;
        confirmation_entry(question, approved, &response, entry_bytes_max)
    }

    /// The same for a program that comes back for what its user has answered elsewhere: it hears of failures as well.
    fn whole_entry(
        &self,
        question: QuestionNumber,
        approved: bool,
        entry_bytes_max: usize,
    ) -> Option<NewEntry> {
        let is_over = !self.is_open && self.asked_anew.is_none();
        let response = serde_json::to_value(&*self.response).ok();
        let response = response.filter(|_| is_over)?;
        confirmation_entry(question, approved, &response, entry_bytes_max)
    }
}

/// Hears what comes of one answer.
struct AnswerSink {
    mode: Mode,
    confirmation: Option<Confirmation>,
    asked_anew: Option<Value>,
    /// The ledger knows what was done.
    has_effect: bool,
}

impl TurnSink for AnswerSink {
    fn step(&mut self) {}
    fn client(&mut self, _update: &ClientUpdate) {}

    fn confirmed(&mut self, confirmed: &Confirmed<'_>) {
        self.confirmation = Some(Confirmation::of(confirmed, self.asked_anew.take()));
    }

    fn event(&mut self, event: &SessionEvent) {
        if let SessionEvent::CallFinished(record) = event
            && record.parent().is_none()
        {
            self.has_effect |= record.effect_id.is_some();
        }
    }

    fn asks(&mut self, question: &ConfirmationQuestion, token: &Sensitive<String>) {
        self.asked_anew = Some(asked_json(question, token, self.mode));
    }

    fn failed(&mut self, _code: ErrorCode, _message: &str) {}
    fn finished(&mut self, _end: &TurnEnd) {}
    fn flush(&mut self) {}
}

/// A question as clients are told of it outside a stream.
pub(super) fn asked_json(
    question: &ConfirmationQuestion,
    token: &Sensitive<String>,
    mode: Mode,
) -> Value {
    let mut asked = json!({
        "callId": question.call.to_string(),
        "token": token.expose(),
        "tool": question.tool.as_str(),
        "args": question.arguments.expose().to_value(),
        "preview": question.preview.as_ref().map(Sensitive::expose),
        "expiresAt": rfc3339(question.expires_at_unix_ms),
        "mode": mode.as_str(),
    });
    if let Some(warning) = &question.warning {
        asked["warning"] = warning.as_str().into();
    }
    if let Some(because) = &question.because {
        asked["because"] = because.as_str().into();
    }
    if let Some(offer) = &question.remember {
        asked["remember"] = offer_json(offer);
    }
    if let Some(input) = &question.input {
        asked["input"] = input.expose().clone();
    }
    asked
}
