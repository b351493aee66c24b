//! The approval requests that this session has put to its client, and answers that need no run: the updates to client and model about
//! them. Everything else of a request is the ledger's. Knows no token and no call.

use crate::answers::Notice;
use crate::client::{ClientUpdate, ConfirmationQuestion, REPLACED, because_of, input, warning};
use crate::deadlines::Deadline;
use crate::dialogue::Dialogue;
use crate::event::{CallRecord, ConsentReason, Resolution, SessionEvent};
use crate::facts::CallRequest;
use crate::io::{AnswerRequest, Output};
use crate::ledger;
use crate::policy::{Settled, confirm, consent};
use crate::projection::result_text;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::envelope::{Outcome, ToolResponse};
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::id::{CallNumber, EffectId, ToolId};
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{AnswerVerdict, Refusal, Reply};
use windlass_store::{Effect, EffectState, Nonce, Question, QuestionNumber, QuestionState};

/// An approval request whose end was not told to the client.
#[derive(Clone, Debug)]
struct AskedQuestion {
    number: QuestionNumber,
    tool: ToolId,
    /// The request's call, under the number that the client knows. It is recorded if nothing comes of the request.
    call_request: CallRequest,
    /// Why the user is asked, for the audit.
    consent: Option<Arc<ConsentReason>>,
    /// The effect that its approval began, once that is known.
    effect_id: Option<EffectId>,
    /// Why an approval of it did not count yet.
    refused: Option<ErrorType>,
    expires_at_unix_ms: u64,
    /// It is no request for consent: a service asks the user something.
    is_input: bool,
    /// Another session, which is gone, has asked it, or this session's model has asked for it, too: this session is told its outcome.
    is_taken_over: bool,
}

/// An answer of the user's that the ledger is asked about, and for which nothing can run.
#[derive(Debug)]
struct PendingAnswer {
    /// The number under which the ledger replies.
    number: CallNumber,
    question: Box<Question>,
    nonce: Nonce,
    effect_id: EffectId,
    is_approval: bool,
}

/// The number of requests that one session shows its client. The oldest is forgotten here, and stays in the ledger.
pub(crate) const ASKED_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Approvals {
    asked: Vec<AskedQuestion>,
    pending: Vec<PendingAnswer>,
    /// The newest rows of requests that are not shown, from the log. The ledger's reply to a call that asked for one may come later and
    /// hold an older row.
    known: VecDeque<Question>,
}

/// The number of rows of requests that are not shown.
const KNOWN_MAX: usize = 16;

// Requests that the client is shown.
impl Approvals {
    /// Puts a request before the client. Records of its call have the number by which the client knows it.
    pub(crate) fn ask(
        &mut self,
        question: &Question,
        call_request: CallRequest,
        dialogue: &mut Dialogue,
    ) {
        let call = call_request.number;
        self.keep(AskedQuestion {
            number: question.number,
            tool: question.tool.clone(),
            call_request,
            consent: asked_before(question, dialogue),
            effect_id: None,
            refused: None,
            expires_at_unix_ms: question.expires_at_unix_ms,
            is_input: question.input.is_some(),
            is_taken_over: false,
        });
        dialogue.step.event(SessionEvent::ConfirmationRequested {
            call,
            tool: question.tool.clone(),
            because: because_of(question, ledger::shown_tool(question, &dialogue.step)),
            expires_at_unix_ms: question.expires_at_unix_ms,
        });
        show(question, call, dialogue);
    }

    /// The newest row of a request: the log's, if that is newer than the one in the ledger's reply.
    pub(crate) fn newest(&self, question: Question) -> Question {
        let newer = self.known.iter().find(|known| {
            known.number == question.number && known.last_entry > question.last_entry
        });
        newer.cloned().unwrap_or(question)
    }

    fn keep_in_mind(&mut self, question: &Question) {
        self.known.retain(|known| known.number != question.number);
        if self.known.len() >= KNOWN_MAX {
            self.known.pop_front();
        }
        self.known.push_back(question.clone());
    }

    /// The same for a request that this session takes over.
    pub(crate) fn take_over(
        &mut self,
        question: &Question,
        call_request: CallRequest,
        dialogue: &mut Dialogue,
    ) {
        self.ask(question, call_request, dialogue);
        if let Some(asked) = self.get_mut(question.number) {
            asked.is_taken_over = true;
        }
    }

    /// Whether this session is told the outcome of a request: it asked it, or has taken it over.
    pub(crate) fn asks(&self, question: &Question, dialogue: &Dialogue) -> bool {
        let is_taken_over = |asked: &AskedQuestion| asked.is_taken_over;
        question.leg == dialogue.step.config.session_id
            || self.get(question.number).is_some_and(is_taken_over)
    }

    /// A request waits for longer than was shown, or waits again: the client is told its end.
    pub(crate) fn extend(&mut self, question: &Question, dialogue: &mut Dialogue) {
        let Some(asked) = self.get_mut(question.number) else {
            return;
        };
        let is_as_shown =
            asked.expires_at_unix_ms == question.expires_at_unix_ms && asked.effect_id.is_none();
        if is_as_shown {
            return;
        }
        asked.expires_at_unix_ms = question.expires_at_unix_ms;
        asked.effect_id = None;
        let call = asked.call_request.number;
        show(question, call, dialogue);
    }

    /// Another request replaces this one, which is not shown any more.
    pub(crate) fn replaced(&mut self, number: QuestionNumber, dialogue: &mut Dialogue) {
        let Some(asked) = self.forget(number, dialogue) else {
            return;
        };
        let call = asked.call_request.number;
        resolved(call, Resolution::Replaced, dialogue);
        let message = "another request takes the place of this one";
        let error = CallError::new(ErrorType::ConfirmationExpired, message)
            .with_details(serde_json::json!({ "reason": REPLACED }));
        let response = dialogue.step.failed_by_name(asked.tool.as_str(), error);
        tell(Some(call), &response, dialogue);
    }
}

/// Shows a request, or its new end.
fn show(question: &Question, call: CallNumber, dialogue: &mut Dialogue) {
    let left_ms = question
        .expires_at_unix_ms
        .saturating_sub(dialogue.step.unix_ms());
    let left = Duration::from_millis(left_ms);
    dialogue
        .step
        .set_deadline(Deadline::Question(question.number), left);
    let preview = question.preview.expose();
    let arguments = ledger::arguments_of(question.arguments.expose());
    let asked = ConfirmationQuestion {
        call,
        question: question.number,
        tool: question.tool.clone(),
        arguments: Sensitive(Arc::new(arguments)),
        preview: (!preview.is_empty()).then(|| question.preview.clone()),
        warning: warning(question),
        because: because_of(question, ledger::shown_tool(question, &dialogue.step)),
        remember: ledger::remember_offer(question, &dialogue.step),
        input: input(question),
        expires_at_unix_ms: question.expires_at_unix_ms,
    };
    dialogue
        .step
        .tell_client(ClientUpdate::ConfirmationRequest(Box::new(asked)));
}

// The requests that are shown.
impl Approvals {
    fn keep(&mut self, asked: AskedQuestion) {
        self.asked.retain(|known| known.number != asked.number);
        if self.asked.len() >= ASKED_MAX {
            self.asked.remove(0);
        }
        self.asked.push(asked);
    }

    fn get(&self, number: QuestionNumber) -> Option<&AskedQuestion> {
        self.asked.iter().find(|asked| asked.number == number)
    }

    fn get_mut(&mut self, number: QuestionNumber) -> Option<&mut AskedQuestion> {
        self.asked.iter_mut().find(|asked| asked.number == number)
    }

    fn take(&mut self, number: QuestionNumber) -> Option<AskedQuestion> {
        let index = self.asked.iter().position(|asked| asked.number == number)?;
        Some(self.asked.remove(index))
    }

    fn forget(&mut self, number: QuestionNumber, dialogue: &mut Dialogue) -> Option<AskedQuestion> {
        dialogue.step.clear(Deadline::Question(number));
        self.take(number)
    }

    pub(crate) fn is_asked(&self, number: QuestionNumber) -> bool {
        self.get(number).is_some()
    }

    /// The call of a request, if the client was shown it.
    pub(crate) fn call_request_asked(&self, number: QuestionNumber) -> Option<&CallRequest> {
        self.get(number).map(|asked| &asked.call_request)
    }

    /// The number of a request's call, if the client was shown it.
    pub(crate) fn call_asked(&self, number: QuestionNumber) -> Option<CallNumber> {
        self.get(number).map(|asked| asked.call_request.number)
    }

    /// The number of a request's call, as this session's client knows it.
    fn call_of(&self, question: &Question) -> CallNumber {
        let asked = self.call_asked(question.number);
        asked.unwrap_or(CallNumber(question.call))
    }

    /// The request was approved, and began this effect if it is known yet.
    pub(crate) fn approved(&mut self, number: QuestionNumber, effect_id: Option<EffectId>) {
        if let Some(asked) = self.get_mut(number) {
            asked.effect_id = effect_id;
        }
    }

    /// The calls of requests without an answer, as far as this session knows.
    pub(crate) fn open(&self) -> impl Iterator<Item = CallNumber> {
        let open = self.asked.iter().filter(|asked| asked.effect_id.is_none());
        open.map(|asked| asked.call_request.number)
    }

    pub(crate) fn len(&self) -> usize {
        self.asked.len() + self.pending.len()
    }

    /// The number of answers that the ledger has not taken yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The user has not answered in time.
    pub(crate) fn expired(&mut self, number: QuestionNumber, dialogue: &mut Dialogue) {
        let is_open = |asked: &AskedQuestion| asked.effect_id.is_none();
        // The end of an approved request is still to be told.
        if !self.get(number).is_some_and(is_open) {
            return;
        }
        let Some(asked) = self.take(number) else {
            return;
        };
        let message = "the user did not answer in time";
        let error = CallError::new(ErrorType::ConfirmationExpired, message);
        resolved(asked.call_request.number, Resolution::Expired, dialogue);
        let response = dialogue.step.failed_by_name(asked.tool.as_str(), error);
        let call = asked.call_request.number;
        let record = record(asked.call_request, &response).because(asked.consent);
        dialogue.step.event(SessionEvent::CallRejected(record));
        tell(Some(call), &response, dialogue);
    }
}

/// The user's answer. A reason never approves.
#[derive(Clone, Debug)]
pub(crate) enum UserAnswer {
    Approved {
        /// The user wants the approval to stand for calls with the same values.
        remember: bool,
    },
    Denied(Option<Sensitive<String>>),
}

// Answers and their results.
impl Approvals {
    /// Tells the ledger an answer for which nothing can run: a denial, or an approval of a tool that is gone.
    pub(crate) fn answer(
        &mut self,
        question: Box<Question>,
        answer: UserAnswer,
        turn: u64,
        dialogue: &mut Dialogue,
    ) {
        let (nonce, effect_id) = dialogue.step.mint();
        let number = dialogue.step.next_call();
        let is_approval = matches!(answer, UserAnswer::Approved { .. });
        let verdict = match answer {
            UserAnswer::Denied(reason) => AnswerVerdict::Denied { reason },
            UserAnswer::Approved { .. } => {
                let approval =
                    ledger::approval(None, (number, turn), (false, None), &dialogue.step);
                AnswerVerdict::Approved(Box::new(approval))
            }
        };
        let patience = Duration::from_millis(dialogue.step.limits().reserve_timeout_ms);
        dialogue
            .step
            .set_deadline(Deadline::Store(number), patience);
        dialogue.step.push(Output::Answer {
            call: number,
            question: question.number,
            answer: Box::new(AnswerRequest {
                nonce,
                effect_id: effect_id.clone(),
                verdict,
                again: None,
            }),
        });
        self.pending.push(PendingAnswer {
            number,
            question,
            nonce,
            effect_id,
            is_approval,
        });
    }

    /// Whether the ledger is to reply under this number about an answer for which nothing can run.
    pub(crate) fn has_pending_answer(&self, number: CallNumber) -> bool {
        self.pending.iter().any(|pending| pending.number == number)
    }

    /// The ledger has taken an answer for which nothing runs; `None` if it could not be stored, or came too late.
    pub(crate) fn on_answer_reply(
        &mut self,
        number: CallNumber,
        reply: Option<Reply>,
        dialogue: &mut Dialogue,
    ) {
        let index = self.pending.iter().position(|one| one.number == number);
        let Some(pending) = index.map(|index| self.pending.remove(index)) else {
            return;
        };
        let question = pending.question;
        match reply {
            Some(Reply::Denied(denied)) if !pending.is_approval => {
                resolved(self.call_of(&question), Resolution::Declined, dialogue);
                let error = confirm::denied(question.tool.as_str(), &denied);
                let response = dialogue.step.failed_by_name(question.tool.as_str(), error);
                self.record_denial(&question, (pending.number, &response), dialogue);
                tell(Some(self.call_of(&question)), &response, dialogue);
                self.tell_of_denial(&denied, dialogue);
            }
            Some(reply) => self.tell_reply(&question, 0, reply, dialogue),
            None => {
                let what = match pending.is_approval {
                    true => "your approval",
                    false => "your denial",
                };
                let message = format!("{what} could not be stored; send it again");
                let error = CallError::new(ErrorType::Transient, message);
                self.refuse(&question, error, dialogue);
            }
        }
    }

    /// The ledger has not replied in time: an effect that it may have begun counts as not begun.
    pub(crate) fn give_up(&mut self, number: CallNumber, dialogue: &mut Dialogue) {
        if let Some(pending) = self.pending.iter().find(|one| one.number == number) {
            dialogue.step.push(Output::Abandon {
                nonce: pending.nonce,
                effect_id: pending.effect_id.clone(),
                question: Some(pending.question.number),
            });
            self.on_answer_reply(number, None, dialogue);
        }
    }

    /// An approval does not count now. The client is told once, however often it comes too soon.
    pub(crate) fn not_now(
        &mut self,
        question: &Question,
        clicks: u32,
        (call_request, error): (CallRequest, CallError),
        dialogue: &mut Dialogue,
    ) {
        let reason = error.error_type;
        let is_news = self
            .get_mut(question.number)
            .is_none_or(|asked| asked.refused.replace(reason) != Some(reason));
        if is_news {
            let response = dialogue
                .step
                .failed_by_name(question.tool.as_str(), error.clone());
            let record = record(call_request, &response).because(asked_before(question, dialogue));
            dialogue.step.event(SessionEvent::CallRejected(record));
        }
        self.tell_result(question, clicks, (error, Resolution::Refused), dialogue);
    }

    /// Tells the client the ledger's reply to an answer, once and then once for each further click.
    pub(crate) fn tell_reply(
        &mut self,
        question: &Question,
        clicks: u32,
        reply: Reply,
        dialogue: &mut Dialogue,
    ) {
        let tool = question.tool.as_str();
        let turn = dialogue.turns.last_number();
        let (error_type, message) = match reply {
            Reply::Replay(effect) | Reply::Unknown(effect) => {
                let settled = ledger::settled_of(&effect, turn, &dialogue.step);
                self.tell_clicks(question, clicks, &settled.response, dialogue);
                return self.end(question, &settled, dialogue);
            }
            Reply::Denied(denied) => {
                let error = confirm::denied(tool, &denied);
                return self.tell_result(question, clicks, (error, Resolution::Refused), dialogue);
            }
            Reply::Ask(asked) => {
                self.forget(question.number, dialogue);
                let asked = asked.question;
                // Another session's number may be that of a call of this one.
                let call = match asked.leg == dialogue.step.config.session_id {
                    true => CallNumber(asked.call),
                    false => dialogue.step.next_call(),
                };
                self.ask(
                    &asked,
                    ledger::call_request_of(&asked, call, turn, &dialogue.step),
                    dialogue,
                );
                let told = question.hazards.external_content;
                let what = match asked.hazards.external_content && !told {
                    // The new request of a tool that always asks does not say it.
                    true => "text that others wrote has come into the conversation",
                    false => "something has changed",
                };
                (
                    ErrorType::ConfirmationRequired,
                    format!("{what} since you were asked about {tool}: see the new question"),
                )
            }
            Reply::Changed(_) => {
                self.forget(question.number, dialogue);
                (
                    ErrorType::ConfirmationExpired,
                    format!(
                        "{tool} has changed since you were asked, so that this approval does not count; ask for it again"
                    ),
                )
            }
            Reply::Attach(_) => (
                ErrorType::Conflict,
                format!("{tool} was approved before, and is running"),
            ),
            Reply::Answered => (
                ErrorType::ConfirmationExpired,
                format!("this approval of {tool} was used before"),
            ),
            Reply::Refused(Refusal::Full) => (
                ErrorType::BudgetExceeded,
                format!("{tool} was not started: this conversation has changed too much today"),
            ),
            Reply::Refused(Refusal::TooManyTasks { of, most }) => (
                ErrorType::BudgetExceeded,
                confirm::so_many_tasks(tool, of, most),
            ),
            Reply::Refused(Refusal::TooManyQuestions) => (
                ErrorType::ConfirmationRequired,
                "too many questions wait for you already; answer those first".to_owned(),
            ),
            Reply::Refused(_) => (
                ErrorType::Transient,
                "the store answered too late; send the answer again".to_owned(),
            ),
            _ => (ErrorType::ConfirmationExpired, NOT_VALID.to_owned()),
        };
        let error = CallError::new(error_type, message);
        self.tell_result(question, clicks, (error, Resolution::Refused), dialogue);
    }

    /// Tells the model of this session the outcome of a request of its own, unless it has heard it.
    pub(crate) fn end(&mut self, question: &Question, settled: &Settled, dialogue: &mut Dialogue) {
        let is_asker = self.asks(question, dialogue);
        let asked = self.forget(question.number, dialogue);
        let is_told = asked.is_none() && question.leg == dialogue.step.config.session_id;
        // It asks something further, and the model knows that the user is asked.
        let is_asking = settled.response.error_type() == Some(ErrorType::ConfirmationRequired);
        if is_asking || is_told || !is_asker || !dialogue.ending.is_running() {
            return;
        }
        let turn = asked.map_or_else(
            || dialogue.turns.last_number(),
            |asked| asked.call_request.turn,
        );
        let asked = (question.number, question.input.is_some());
        notify_of_approved(asked, &question.tool, turn, settled, dialogue);
    }

    /// Tells the client an outcome, once and then once for each further click.
    pub(crate) fn tell_clicks(
        &self,
        question: &Question,
        clicks: u32,
        response: &Arc<ToolResponse>,
        dialogue: &mut Dialogue,
    ) {
        let call = self.call_of(question);
        for _ in 0..=clicks {
            tell(Some(call), response, dialogue);
        }
    }

    fn tell_result(
        &self,
        question: &Question,
        clicks: u32,
        (error, resolution): (CallError, Resolution),
        dialogue: &mut Dialogue,
    ) {
        resolved(self.call_of(question), resolution, dialogue);
        let response = dialogue.step.failed_by_name(question.tool.as_str(), error);
        self.tell_clicks(question, clicks, &response, dialogue);
    }

    /// An answer does not count, and the ledger was not asked.
    pub(crate) fn refuse(&self, question: &Question, error: CallError, dialogue: &mut Dialogue) {
        self.tell_result(question, 0, (error, Resolution::Refused), dialogue);
    }

    /// Records a denial as the end of the request's call. An earlier denial has its record.
    fn record_denial(
        &self,
        question: &Question,
        (number, response): (CallNumber, &Arc<ToolResponse>),
        dialogue: &mut Dialogue,
    ) {
        let is_others = question.leg != dialogue.step.config.session_id;
        let call_request = match self.get(question.number) {
            Some(asked) => asked.call_request.clone(),
            None if is_others && question.state == QuestionState::Open => ledger::call_request_of(
                question,
                number,
                dialogue.turns.last_number(),
                &dialogue.step,
            ),
            None => return,
        };
        let record = record(call_request, response).because(asked_before(question, dialogue));
        dialogue.step.event(SessionEvent::CallRejected(record));
    }
}

// Entries of the log about requests.
impl Approvals {
    /// An effect has ended. If a request of this session was approved another way, this is its outcome. Returns whether it was told.
    pub(crate) fn on_effect(&mut self, effect: &Effect, dialogue: &mut Dialogue) -> bool {
        let is_of = |asked: &&AskedQuestion| asked.effect_id.as_ref() == Some(&effect.effect_id);
        let asked = self.asked.iter().find(is_of).map(|asked| asked.number);
        let Some(number) = asked.or(effect.newest_attempt().question) else {
            return false;
        };
        // The same approval may try a failed effect again.
        let asked = match effect.state {
            EffectState::NotDone => self.get(number).cloned(),
            EffectState::Running | EffectState::Done | EffectState::Unknown => {
                self.forget(number, dialogue)
            }
        };
        let Some(asked) = asked else {
            return false;
        };
        let settled = ledger::settled_of(effect, dialogue.turns.last_number(), &dialogue.step);
        tell(Some(asked.call_request.number), &settled.response, dialogue);
        let of = (number, asked.is_input);
        notify_of_approved(of, &asked.tool, asked.call_request.turn, &settled, dialogue);
        true
    }

    /// A request was answered or closed; `is_running` if a call of this session runs by its approval.
    pub(crate) fn on_question(
        &mut self,
        question: &Question,
        is_running: bool,
        dialogue: &mut Dialogue,
    ) {
        if !self.is_asked(question.number) {
            return self.keep_in_mind(question);
        }
        match question.state {
            QuestionState::Open => self.extend(question, dialogue),
            QuestionState::Approved => {
                dialogue.step.clear(Deadline::Question(question.number));
                self.approved(question.number, question.effect_id.clone());
                if question.effect_id.is_none() && !is_running {
                    self.tell_of_approved_read(question, dialogue);
                }
            }
            QuestionState::Denied => {
                resolved(self.call_of(question), Resolution::Declined, dialogue);
                self.tell_client_of_denial(question, dialogue);
                self.tell_of_denial(question, dialogue);
            }
            QuestionState::Closed => {
                let (error_type, message) = match question.effect_id {
                    Some(_) => (
                        ErrorType::Conflict,
                        "this was done meanwhile, and nothing more is asked",
                    ),
                    None => (
                        ErrorType::ConfirmationExpired,
                        "the question is not open any more",
                    ),
                };
                let error = CallError::new(error_type, message);
                self.tell_result(question, 0, (error, Resolution::Withdrawn), dialogue);
                self.forget(question.number, dialogue);
            }
        }
    }

    /// A request about a tool that changes nothing was approved elsewhere: its result was told there, and is kept nowhere.
    fn tell_of_approved_read(&mut self, question: &Question, dialogue: &mut Dialogue) {
        let Some(asked) = self.forget(question.number, dialogue) else {
            return;
        };
        let tool = asked.tool.as_str();
        let response = ToolResponse {
            outcome: Outcome::Success {
                data: None,
                content: Vec::new(),
            },
            intents: Vec::new(),
            meta: dialogue.step.meta_by_name(tool),
        };
        tell(
            Some(asked.call_request.number),
            &Arc::new(response),
            dialogue,
        );
        let text = format!(
            "The user approved the call of {tool} elsewhere, and its result was shown there. Nobody has it any more."
        );
        let notice = Notice {
            turn: asked.call_request.turn,
            effect_id: None,
            question: Some(question.number),
            text,
            is_logged: false,
        };
        dialogue.notify(notice);
    }

    /// A request of this session was approved, and this session has not reported the outcome.
    pub(crate) fn on_earlier_approval(
        &self,
        question: &Question,
        effect: &Effect,
        dialogue: &mut Dialogue,
    ) {
        let turn = dialogue.turns.last_number();
        let settled = ledger::settled_of(effect, turn, &dialogue.step);
        tell(Some(self.call_of(question)), &settled.response, dialogue);
        let asked = (question.number, question.input.is_some());
        notify_of_approved(asked, &question.tool, turn, &settled, dialogue);
    }

    /// A request from before the session was denied, and no model has heard so. This session's model is told, also where another session
    /// had asked.
    pub(crate) fn on_unheard_denial(&mut self, question: &Question, dialogue: &mut Dialogue) {
        if question.state == QuestionState::Denied {
            self.tell_client_of_denial(question, dialogue);
            let asked = self.forget(question.number, dialogue);
            notify_of_denial(question, asked, dialogue);
        }
    }

    fn tell_client_of_denial(&self, question: &Question, dialogue: &mut Dialogue) {
        let error = confirm::denied(question.tool.as_str(), question);
        let response = dialogue.step.failed_by_name(question.tool.as_str(), error);
        tell(Some(self.call_of(question)), &response, dialogue);
    }

    /// Tells the model of the session that asked of the user's denial.
    fn tell_of_denial(&mut self, question: &Question, dialogue: &mut Dialogue) {
        let is_asker = self.asks(question, dialogue);
        let asked = self.forget(question.number, dialogue);
        if !is_asker {
            return;
        }
        notify_of_denial(question, asked, dialogue);
    }
}

/// Tells the model that the user has denied a request.
fn notify_of_denial(question: &Question, asked: Option<AskedQuestion>, dialogue: &mut Dialogue) {
    let text = format!(
        "The user was asked whether {} may run with {} and said no{}. It has not run. Do not call it again unless the user asks for it.",
        question.tool,
        confirm::shown(&question.arguments),
        confirm::because(question)
    );
    let notice = Notice {
        turn: asked.map_or_else(
            || dialogue.turns.last_number(),
            |asked| asked.call_request.turn,
        ),
        effect_id: None,
        question: Some(question.number),
        text,
        is_logged: false,
    };
    dialogue.notify(notice);
}

/// Why the user was asked, for the audit.
fn asked_before(question: &Question, dialogue: &Dialogue) -> Option<Arc<ConsentReason>> {
    consent::asked_before(question, ledger::shown_tool(question, &dialogue.step))
}

const NOT_VALID: &str = "this approval is not valid, or not valid any more";

/// The token is unknown: nothing runs, and a stranger learns nothing.
pub(crate) fn refuse_token(dialogue: &mut Dialogue) {
    let error = CallError::new(ErrorType::ConfirmationExpired, NOT_VALID);
    dialogue.step.event(SessionEvent::ConfirmationResolved {
        call: None,
        resolution: Resolution::Refused,
    });
    let response = dialogue.step.failed_by_name("confirm", error);
    tell(None, &response, dialogue);
}

fn tell(call: Option<CallNumber>, response: &Arc<ToolResponse>, dialogue: &mut Dialogue) {
    dialogue.step.tell_client(ClientUpdate::ConfirmationResult {
        call,
        response: Sensitive(response.clone()),
    });
}

/// The request is resolved for this session's client.
fn resolved(call: CallNumber, resolution: Resolution, dialogue: &mut Dialogue) {
    dialogue.step.event(SessionEvent::ConfirmationResolved {
        call: Some(call),
        resolution,
    });
}

fn record(call_request: CallRequest, response: &Arc<ToolResponse>) -> CallRecord {
    CallRecord::new(call_request, response, None)
}

/// Tells the model the outcome of an approval.
fn notify_of_approved(
    (question, is_input): (QuestionNumber, bool),
    tool: &ToolId,
    turn: u64,
    settled: &Settled,
    dialogue: &mut Dialogue,
) {
    let result = result_text(settled, dialogue.step.limits().projection_characters_max);
    let did = match is_input {
        true => "answered what the service of",
        false => "approved the call of",
    };
    let tool = match is_input {
        true => format!("{tool} asked"),
        false => tool.to_string(),
    };
    let text = match settled.response.error_type() {
        None if settled.response.meta.accepted_until.is_some() => {
            format!("The user {did} {tool}, and it was accepted and is at work: {result}")
        }
        None => {
            format!("The user {did} {tool}, and it has run. Its result: {result}")
        }
        Some(ErrorType::OutcomeUnknown) => {
            format!("The user {did} {tool}, and nobody knows whether it has happened: {result}")
        }
        Some(_) => format!("The user {did} {tool}. It did not work: {result}"),
    };
    dialogue.note_external(settled);
    let notice = Notice {
        turn,
        effect_id: settled.effect_id.clone(),
        question: Some(question),
        text,
        is_logged: false,
    };
    dialogue.notify(notice);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::SessionStep;
    use crate::time::Timestamp;
    use windlass_contract::id::{SessionId, UserId};
    use windlass_contract::kind::Mode;
    use windlass_store::{EffectKey, EntryNumber, Hazards};

    fn question(number: u32) -> Question {
        Question {
            number: QuestionNumber(number),
            tool: ToolId::parse("order").unwrap(),
            tool_version: "1.0.0".into(),
            handler_hash: None,
            key: EffectKey([0; 32]),
            near: EffectKey([0; 32]),
            arguments: Sensitive("{}".to_owned()),
            preview: Sensitive(String::new()),
            hazards: Hazards::default(),
            because: None,
            clock: None,
            mode: Mode::Voice,
            user_id: UserId::new("u-1"),
            leg: SessionId::new("s-1"),
            call: u64::from(number),
            generation: 1,
            onset: None,
            nonce: Nonce([0; 16]),
            state: QuestionState::Open,
            reason: None,
            effect_id: None,
            last_entry: EntryNumber(1),
            is_heard: false,
            input: None,
            asked_at_unix_ms: 1_000,
            expires_at_unix_ms: 61_000,
        }
    }

    fn asked(numbers: std::ops::RangeInclusive<u32>) -> (Approvals, Dialogue) {
        let mut dialogue = Dialogue::new(SessionStep::for_tests());
        let mut approvals = Approvals::default();
        for number in numbers {
            let question = question(number);
            let call = CallNumber(u64::from(number));
            let call_request = ledger::call_request_of(&question, call, 1, &dialogue.step);
            approvals.ask(&question, call_request, &mut dialogue);
        }
        (approvals, dialogue)
    }

    #[test]
    fn a_request_is_shown_until_its_time_is_over_and_the_oldest_make_room() {
        let (mut approvals, mut dialogue) = asked(1..=1);
        let shown = ["ConfirmationRequested", "ConfirmationRequest"];
        assert_eq!(dialogue.step.take_names(), shown);
        approvals.expired(QuestionNumber(1), &mut dialogue);
        assert_eq!(
            dialogue.step.take_names(),
            ["ConfirmationResolved", "CallRejected", "ConfirmationResult"]
        );
        approvals.expired(QuestionNumber(1), &mut dialogue);
        assert!(dialogue.step.take_names().is_empty(), "it has ended");
        let (approvals, _) = asked(1..=100);
        assert_eq!(approvals.open().count(), ASKED_MAX);
        assert!(!approvals.is_asked(QuestionNumber(1)));
    }

    #[test]
    fn an_approval_is_refused_anew_for_another_reason_alone() {
        let (mut approvals, mut dialogue) = asked(1..=1);
        let mut is_recorded = |reason| {
            let (question, error) = (question(1), CallError::new(reason, "not now"));
            let call_request = ledger::call_request_of(&question, CallNumber(1), 1, &dialogue.step);
            dialogue.step.take_names();
            approvals.not_now(&question, 0, (call_request, error), &mut dialogue);
            dialogue
                .step
                .take_names()
                .contains(&"CallRejected".to_owned())
        };
        assert!(is_recorded(ErrorType::RateLimit));
        assert!(!is_recorded(ErrorType::RateLimit));
        assert!(is_recorded(ErrorType::BudgetExceeded));
    }

    #[test]
    fn a_request_is_shown_with_its_new_end_and_once() {
        let (mut approvals, mut dialogue) = asked(1..=1);
        dialogue.step.take_names();
        let longer = Question {
            expires_at_unix_ms: 90_000,
            ..question(1)
        };
        approvals.extend(&longer, &mut dialogue);
        assert_eq!(dialogue.step.take_names(), ["ConfirmationRequest"]);
        approvals.extend(&longer, &mut dialogue);
        assert!(dialogue.step.take_names().is_empty());
        // By the session's time, which begins at 1,000.
        assert_eq!(
            dialogue.step.deadlines.next(),
            Some(Timestamp::from_millis(89_000))
        );
        // An approval of it came too late for the store.
        approvals.approved(QuestionNumber(1), Some(EffectId::new("e-1")));
        approvals.extend(&longer, &mut dialogue);
        assert_eq!(dialogue.step.take_names(), ["ConfirmationRequest"]);
        assert_eq!(approvals.open().count(), 1);
    }

    #[test]
    fn a_late_answer_of_the_ledger_does_not_undo_what_the_log_has_told() {
        let (mut approvals, mut dialogue) = asked(1..=1);
        dialogue.step.take_names();
        let row = |number, last_entry, state| Question {
            state,
            last_entry: EntryNumber(last_entry),
            ..question(number)
        };
        for number in 2..20 {
            let closed = row(number, 100, QuestionState::Closed);
            approvals.on_question(&closed, false, &mut dialogue);
        }
        assert!(
            dialogue.step.take_names().is_empty(),
            "the client knows none"
        );
        let state = |number, last_entry| {
            let answered = row(number, last_entry, QuestionState::Open);
            approvals.newest(answered).state
        };
        assert_eq!(state(19, 99), QuestionState::Closed);
        assert_eq!(state(19, 101), QuestionState::Open, "the answer is newer");
        assert_eq!(
            state(2, 99),
            QuestionState::Open,
            "only the newest are kept"
        );
    }

    #[test]
    fn a_request_that_is_replaced_is_closed_before_the_next_is_shown() {
        let (mut approvals, mut dialogue) = asked(1..=1);
        dialogue.step.take_names();
        approvals.replaced(QuestionNumber(1), &mut dialogue);
        approvals.replaced(QuestionNumber(1), &mut dialogue);
        assert_eq!(
            dialogue.step.take_names(),
            ["ConfirmationResolved", "ConfirmationResult"]
        );
        assert!(!approvals.is_asked(QuestionNumber(1)));
    }

    #[test]
    fn a_denial_that_is_not_stored_in_time_is_asked_for_again() {
        let mut dialogue = Dialogue::new(SessionStep::for_tests());
        let mut approvals = Approvals::default();
        approvals.answer(
            Box::new(question(1)),
            UserAnswer::Denied(None),
            1,
            &mut dialogue,
        );
        assert_eq!(dialogue.step.take_names(), ["Answer"]);
        let number = CallNumber(1);
        assert!(approvals.has_pending_answer(number));
        assert!(dialogue.step.deadlines.is_set(Deadline::Store(number)));
        approvals.give_up(number, &mut dialogue);
        assert_eq!(
            dialogue.step.take_names(),
            ["Abandon", "ConfirmationResolved", "ConfirmationResult"]
        );
        assert_eq!(approvals.pending(), 0);
    }
}
