//! The ledger's part of a call: the request, the ledger's reply and its consequences, the user's answers to approval requests, and the
//! log's news of effects and requests.

use super::asking::given_input;
use super::open::{Call, Origin, Phase};
use super::{Calls, deduplicated, give_back, spend};
use crate::answers::CallAnswer;
use crate::approvals::{UserAnswer, refuse_token};
use crate::client::{RevokeWay, asked_input};
use crate::deadlines::Deadline;
use crate::dialogue::{Asker, Dialogue};
use crate::event::{DuplicateRule, Resolution, SessionEvent};
use crate::facts::{CallFacts, CallRequest, Delivered, DeliveryKey};
use crate::io::{AnswerRequest, News, Output, RateCharge, StoreProblem};
use crate::ledger;
use crate::policy::{
    BLOCKING_TOOL, ConsentReason, EffectRun, Judged, Settled, confirm, consent, not_available,
    refused_approval,
};
use crate::turn::Charge;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::condition::{Facts, Given};
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::id::{CallNumber, EffectId};
use windlass_contract::input::{InputAction, SentInput};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_contract::template;
use windlass_store::command::{
    AnswerVerdict, OpenQuestion, Refusal, Reply, Request, RequestOrigin, Run, WithdrawnQuestion,
};
use windlass_store::{
    Effect, EffectState, Nonce, Question, QuestionNumber, QuestionState, StandingApproval,
};

/// The consent that a call's tool asks for, over its canonical arguments and the present facts.
pub(super) fn consent_of(call: &CallFacts, dialogue: &Dialogue) -> Option<Arc<ConsentReason>> {
    let facts = Facts {
        arguments: Some(call.arguments().expose()),
        ..dialogue.step.facts()
    };
    consent::judge(call.tool(), &facts).map(Arc::new)
}

// The ledger is asked, and replies.
impl Calls {
    pub(super) fn request(&mut self, mut call: Box<Call>, dialogue: &mut Dialogue) {
        let minted = dialogue.step.mint();
        call.consent = consent_of(&call.facts, dialogue);
        let request = self.request_of(&call, &minted, dialogue);
        self.send_request(call, request, dialogue);
    }

    pub(super) fn send_request(
        &mut self,
        mut call: Box<Call>,
        request: Request,
        dialogue: &mut Dialogue,
    ) {
        let (nonce, effect_id) = (request.nonce, request.effect_id.clone());
        dialogue.step.push(Output::Request {
            call: call.number(),
            request: Box::new(request),
        });
        await_decision(&mut call, nonce, effect_id, dialogue);
        self.open.open(call);
    }

    pub(super) fn request_of(
        &self,
        call: &Call,
        (nonce, effect_id): &(Nonce, EffectId),
        dialogue: &Dialogue,
    ) -> Request {
        let tool = call.tool();
        let needs_consent = consent::is_needed(call.consent.as_deref());
        let preview = tool.confirmation_preview.as_ref();
        let arguments = call.arguments();
        let preview = preview.map(|preview| template::render(preview, arguments));
        // A block is of one session.
        let of_session = |meant: String| match tool.id.as_str() == BLOCKING_TOOL {
            true => format!("{} {meant}", dialogue.step.config.session_id),
            false => meant,
        };
        Request {
            nonce: *nonce,
            effect_id: effect_id.clone(),
            leg: dialogue.step.config.leg(),
            call: call.number().0,
            tool: ledger::tool_facts(tool),
            arguments: Sensitive(arguments.to_text()),
            effect_arguments: Sensitive(of_session(tool.effect_arguments(arguments))),
            near_arguments: Sensitive(of_session(tool.near_arguments(arguments))),
            origin: request_origin(call, dialogue),
            onset: call.onset,
            may_run: call.refusal.is_none() && call.may_begin(),
            needs_consent,
            because: call.consent.as_deref().and_then(ConsentReason::words),
            clock: tool
                .is_available_by_time()
                .then(|| dialogue.step.config.given.clock.clone()),
            standing_values: match needs_consent {
                true => consent::standing_values(tool, arguments),
                false => None,
            },
            ignores_external_content: tool.is_exempt_from_external_content_rule(),
            can_ask: self.can_ask(dialogue),
            mode: dialogue.step.config.mode,
            preview: Sensitive(preview.unwrap_or_default()),
            lease_ms: ledger::lease_ms(tool),
            question_ms: ledger::question_ms(&dialogue.step),
            intent: ledger::intent(
                (call.number(), call.delivered().parent()),
                call.turn(),
                false,
                &dialogue.step,
            ),
            input: None,
        }
    }

    /// Whether there is a client to ask, and room for another open request.
    pub(super) fn can_ask(&self, dialogue: &Dialogue) -> bool {
        let open = self.approvals.open().count();
        dialogue.step.config.can_ask && open < dialogue.step.limits().open_confirmations_max
    }

    pub(crate) fn on_decided(
        &mut self,
        number: CallNumber,
        reply: Result<Box<Reply>, StoreProblem>,
        dialogue: &mut Dialogue,
    ) {
        if self.approvals.has_pending_answer(number) {
            dialogue.step.clear(Deadline::Store(number));
            let reply = reply.ok().map(|reply| *reply);
            return self.approvals.on_answer_reply(number, reply, dialogue);
        }
        let waits = |phase: &Phase| matches!(phase, Phase::Deciding { .. });
        let Some(mut call) = self.open.take_in(number, waits) else {
            return;
        };
        dialogue.step.clear(Deadline::Store(number));
        let reply = match reply {
            Ok(reply) => *reply,
            Err(problem) => return self.store_failed(call, &problem, dialogue),
        };
        call.phase = Phase::Admission;
        if let Some(asking) = call.asking.take() {
            return self.on_input_decided(call, *asking, reply, dialogue);
        }
        if call.failed.is_some() && !(call.nesting().is_some() && matches!(reply, Reply::Attach(_)))
        {
            return self.on_retry_decided(call, reply, dialogue);
        }
        if let Some(nesting) = call.nesting().cloned()
            && !matches!(reply, Reply::Run(_))
        {
            return self.on_nested_decided(call, &nesting, reply, dialogue);
        }
        let turn = dialogue.turns.last_number();
        match reply {
            Reply::Run(run) => self.on_run(call, *run, dialogue),
            Reply::Attach(effect) => self.attach(call, &effect, dialogue),
            reply if call.is_approved() => self.end_approved(call, reply, dialogue),
            Reply::Ask(asked) => self.ask(call, *asked, dialogue),
            Reply::Replay(effect) => {
                let settled = ledger::replayed_with_note(&effect, turn, &dialogue.step);
                self.note_accepted(&effect.effect_id, call.call_request(), &settled.response);
                let rule = DuplicateRule::SameEffectFinished;
                self.answer_known(call, settled, rule, dialogue);
                dialogue
                    .answers
                    .forget_notice(Some(&effect.effect_id), None);
            }
            Reply::Unknown(effect) => {
                let error = confirm::unknown(call.tool(), &effect);
                let settled = known_error(&call, error, Some(effect.effect_id.clone()), dialogue);
                let rule = DuplicateRule::SameEffectFinished;
                self.answer_known(call, settled, rule, dialogue);
            }
            Reply::Denied(question) => {
                let error = confirm::denied(call.tool().id.as_str(), &question);
                let settled = known_error(&call, error, None, dialogue);
                let rule = DuplicateRule::SameEffectDenied;
                self.answer_known(call, settled, rule, dialogue);
                dialogue.answers.forget_notice(None, Some(question.number));
            }
            Reply::Conflict => {
                let batch = call.delivered().batch;
                give_back(&mut call, dialogue);
                self.record_conflict(call.call_request(), dialogue);
                self.decide_next(batch, dialogue);
            }
            Reply::Refused(refusal) => self.on_refused(call, refusal, dialogue),
            reply => self.undecided(call, &reply, dialogue),
        }
    }

    pub(super) fn undecided(&mut self, call: Box<Call>, reply: &Reply, dialogue: &mut Dialogue) {
        let problem = format!("the ledger did not decide: {}", name_of(reply));
        self.store_failed(call, &StoreProblem { problem }, dialogue);
    }

    pub(super) fn on_refused(
        &mut self,
        mut call: Box<Call>,
        refusal: Refusal,
        dialogue: &mut Dialogue,
    ) {
        if call.is_stopped_by_user {
            return self.cancel(call, None, dialogue);
        }
        let id = call.tool().id.clone();
        let error = match refusal {
            Refusal::NotAllowed => call.refusal.take().unwrap_or_else(|| {
                CallError::new(ErrorType::BudgetExceeded, format!("{id} may not run now"))
            }),
            Refusal::NobodyToAsk if self.approvals.open().next().is_some() => {
                confirm::too_many(call.tool())
            }
            Refusal::NobodyToAsk => confirm::nobody(call.tool()),
            Refusal::NestedConsent => {
                let message = format!("{id} runs only after the user has confirmed it");
                CallError::new(ErrorType::Permanent, message)
            }
            Refusal::Full => CallError::new(
                ErrorType::BudgetExceeded,
                format!("{id} was not started: this conversation has changed too much today"),
            ),
            Refusal::TooManyTasks { of, most } => confirm::too_many_tasks(call.tool(), of, most),
            Refusal::TooManyQuestions => confirm::too_many(call.tool()),
            Refusal::TooLong => CallError::new(
                ErrorType::Validation,
                format!(
                    "the arguments of {id} are too long to ask the user about: use shorter ones"
                ),
            ),
            Refusal::Abandoned => CallError::new(
                ErrorType::Transient,
                format!("{id} was not started: the store answered too late"),
            ),
        };
        self.refuse_call(call, error, Charge::Already, dialogue);
    }

    /// No effect starts without the ledger.
    fn store_failed(
        &mut self,
        mut call: Box<Call>,
        problem: &StoreProblem,
        dialogue: &mut Dialogue,
    ) {
        let message = format!(
            "{} was not started: the store does not answer",
            call.tool().id
        );
        dialogue.step.event(SessionEvent::HandlerProblem {
            call: call.number(),
            tool: call.tool().id.clone(),
            problem: problem.to_string(),
        });
        if call.failed.is_some() {
            return self.leave_as_failed(call, dialogue);
        }
        if let Some(asking) = call.asking.take() {
            return self.end_unasked(call, asking.run, dialogue);
        }
        let error = CallError::new(ErrorType::Transient, message);
        give_back(&mut call, dialogue);
        self.settle(call, Judged::failure(error), None, dialogue);
    }

    /// The store has not answered in time.
    pub(crate) fn on_store_timeout(&mut self, number: CallNumber, dialogue: &mut Dialogue) {
        self.approvals.give_up(number, dialogue);
        let waits = |phase: &Phase| matches!(phase, Phase::Deciding { .. } | Phase::Recording(_));
        let Some(call) = self.open.take_in(number, waits) else {
            return;
        };
        let Phase::Deciding { nonce, effect_id } = &call.phase else {
            return self.unacknowledged(call, dialogue);
        };
        let (nonce, effect_id) = (*nonce, effect_id.clone());
        let question = call.question().map(|question| question.number);
        dialogue.step.push(Output::Abandon {
            nonce,
            effect_id,
            question,
        });
        let problem = "it has not answered in time".to_owned();
        self.store_failed(call, &StoreProblem { problem }, dialogue);
    }

    /// The attempt belongs to this call.
    pub(super) fn on_run(&mut self, mut call: Box<Call>, run: Run, dialogue: &mut Dialogue) {
        match run.standing {
            Some(given) if call.is_approved() => {
                self.standing.given(call.number(), *given, dialogue)
            }
            Some(standing) => call.consent = Some(consent::covered_by(&standing)),
            None => {}
        }
        let question = call.question().map(|question| question.number);
        let effect_run = run.effect_id.map(|effect_id| EffectRun {
            effect_id,
            attempt: run.attempt,
            lease_end_unix_ms: run.lease_end_unix_ms,
            question,
        });
        if let (Some(number), Some(run)) = (question, &effect_run) {
            self.approvals.approved(number, Some(run.effect_id.clone()));
            // A notice about an earlier run does not apply to this one.
            dialogue.answers.forget_notice(Some(&run.effect_id), None);
        }
        if !call.may_begin() {
            // The run that was to go on may have done something before it asked.
            return match (call.given(), effect_run) {
                (Some(_), Some(run)) => self.end_unasked(call, Some(run), dialogue),
                (_, effect_run) => self.cancel(call, effect_run, dialogue),
            };
        }
        // The attempt is known to have ended, and somebody may have been told so.
        if std::mem::take(&mut call.is_over) {
            call.phase = Phase::Admission;
            return match call.is_approved() {
                true => self.send_approval(call, dialogue),
                false => self.request(call, dialogue),
            };
        }
        // A further attempt has no cost of its own.
        if call.has_begun() {
            return self.start(call, effect_run, dialogue);
        }
        if let Some(limit) = call.tool().rate_limit {
            dialogue.step.push(Output::CheckRate {
                call: call.number(),
                tool: call.tool().id.clone(),
                limit,
                charge: RateCharge::Note,
            });
        }
        dialogue
            .turns
            .runs(&call.facts, &dialogue.step.limits().turn);
        if call.is_approved() {
            let is_no = call
                .given()
                .is_some_and(|given| given.action != InputAction::Accept);
            dialogue.step.event(SessionEvent::ConfirmationResolved {
                call: Some(call.number()),
                resolution: match is_no {
                    true => Resolution::Declined,
                    false => Resolution::Approved,
                },
            });
        }
        self.start(call, effect_run, dialogue);
    }

    /// Another attempt at the same effect is running: the call waits for its end.
    pub(super) fn attach(&mut self, mut call: Box<Call>, effect: &Effect, dialogue: &mut Dialogue) {
        if call.is_taken_back {
            return self.cancel(call, None, dialogue);
        }
        give_back(&mut call, dialogue);
        let (batch, turn) = (call.delivered().batch, call.turn());
        if !call.is_approved() && !std::mem::replace(&mut call.has_waited, true) {
            dialogue.turns.repeated(turn);
            deduplicated(
                &call.call_request(),
                DuplicateRule::SameEffectRunning,
                dialogue,
            );
        }
        await_lease(call.number(), effect, dialogue);
        await_patience(&call, effect, dialogue);
        call.phase = Phase::Attached(effect.effect_id.clone());
        self.open.open(call);
        self.decide_next(batch, dialogue);
        dialogue.wind_up(turn);
    }

    /// The effect that a call waits for has ended, or its lease has.
    pub(crate) fn ask_again(&mut self, number: CallNumber, dialogue: &mut Dialogue) {
        let waits = |phase: &Phase| matches!(phase, Phase::Attached(_));
        let Some(mut call) = self.open.take_in(number, waits) else {
            return;
        };
        dialogue.step.clear(Deadline::Lease(number));
        // Another call of this session waits for its next attempt at the effect: the end of that call is awaited.
        let is_to_be_tried_again = |other: &Call| {
            matches!(other.phase, Phase::BackingOff) && other.effect_id() == call.effect_id()
        };
        if self.open.iter().any(is_to_be_tried_again) {
            return self.open.open(call);
        }
        dialogue.step.clear(Deadline::Wait(number));
        call.phase = Phase::Admission;
        if call.is_approved() {
            return self.send_approval(call, dialogue);
        }
        // The charge was given back while the call waited. A call that does not start any more costs nothing.
        if call.refusal.is_none() && call.may_begin() {
            call.refusal = spend(&mut call, dialogue).err();
        }
        self.request(call, dialogue);
    }

    /// The user is asked; the model is answered at once.
    fn ask(&mut self, mut call: Box<Call>, asked: OpenQuestion, dialogue: &mut Dialogue) {
        if !call.may_begin() {
            self.withdraw(asked, dialogue);
            return self.cancel(call, None, dialogue);
        }
        let OpenQuestion {
            question,
            is_repeated,
            replaced,
            ..
        } = asked;
        for number in replaced {
            self.approvals.replaced(number, dialogue);
        }
        let question = self.approvals.newest(question);
        // The request has ended since the ledger answered.
        if question.state != QuestionState::Open {
            return self.request(call, dialogue);
        }
        self.approvals.extend(&question, dialogue);
        call.consent = consent::asked_because(call.consent.as_ref(), &question.hazards);
        let is_other = *question.arguments.expose() != call.arguments().to_text();
        let error = match (asked_input(&question), is_other) {
            (Some(asked), _) => confirm::asked_input(call.tool(), &asked.expose().from),
            (None, true) => confirm::required_already(call.tool(), &question),
            (None, false) => {
                confirm::required(call.tool(), &question.hazards, call.consent.as_deref())
            }
        };
        // A request that another session of the conversation put is new to this session's client.
        if is_repeated && self.approvals.is_asked(question.number) {
            let settled = known_error(&call, error, None, dialogue);
            let rule = DuplicateRule::SameEffectAsked;
            return self.answer_known(call, settled, rule, dialogue);
        }
        // The client knows the approval request by the number of this call.
        call.refusal = None;
        let call_request = match is_other {
            true => ledger::call_request_of(&question, call.number(), call.turn(), &dialogue.step),
            false => call.call_request(),
        };
        self.refuse_call(call, error, Charge::Already, dialogue);
        self.put(&question, call_request, dialogue);
    }

    /// The ledger asks the user about a call that is not wanted any more. An earlier request goes on. A session that ends withdraws
    /// none: the next session may show it already.
    pub(super) fn withdraw(&mut self, asked: OpenQuestion, dialogue: &mut Dialogue) {
        let OpenQuestion {
            question,
            is_repeated,
            replaced,
            ..
        } = asked;
        for number in replaced {
            self.approvals.replaced(number, dialogue);
        }
        let last_entry = question.last_entry;
        let question = self.approvals.newest(question);
        self.approvals.extend(&question, dialogue);
        if !is_repeated && dialogue.ending.is_running() {
            dialogue.step.push(Output::Withdraw(vec![WithdrawnQuestion {
                question: question.number,
                last_entry,
            }]));
        }
    }

    /// Puts a request before the client. If another session had asked it, this session takes it over.
    pub(super) fn put(
        &mut self,
        question: &Question,
        call_request: CallRequest,
        dialogue: &mut Dialogue,
    ) {
        match question.leg == dialogue.step.config.session_id {
            true => self.approvals.ask(question, call_request, dialogue),
            false => self.approvals.take_over(question, call_request, dialogue),
        }
    }

    /// The user is asked about a call that has run before, and failed.
    pub(super) fn show_question(
        &mut self,
        call: &Call,
        asked: OpenQuestion,
        dialogue: &mut Dialogue,
    ) {
        for number in asked.replaced {
            self.approvals.replaced(number, dialogue);
        }
        let question = asked.question;
        if !(asked.is_repeated && self.approvals.is_asked(question.number)) {
            self.approvals.ask(&question, call.call_request(), dialogue);
        }
    }

    /// Answers a call, and the deliveries that joined it, from the ledger's record. It costs nothing but a repeat.
    pub(super) fn answer_known(
        &mut self,
        mut call: Box<Call>,
        settled: Settled,
        rule: DuplicateRule,
        dialogue: &mut Dialogue,
    ) {
        give_back(&mut call, dialogue);
        let (call_request, is_spoken) = (call.call_request(), call.spoken);
        match call.has_waited {
            true => self.answer_again(&call_request, &settled, is_spoken, dialogue),
            false => self.replay(&call_request, &settled, is_spoken, rule, dialogue),
        }
        for (call_request, rule) in &call.attached {
            self.replay(call_request, &settled, true, *rule, dialogue);
        }
        self.call_ended(call_request.batch, dialogue);
    }
}

// The user answers approval requests.
impl Calls {
    pub(crate) fn on_answered(
        &mut self,
        question: Option<Box<Question>>,
        (answer, sent): (UserAnswer, SentInput),
        dialogue: &mut Dialogue,
    ) {
        let Some(question) = question else {
            return refuse_token(dialogue);
        };
        let input = match given_input(&question, &answer, &sent) {
            Ok(input) => input.map(Arc::new),
            Err(error) => return self.approvals.refuse(&question, error, dialogue),
        };
        // A run that asks the user something goes on by every answer: its service hears a no, too, and says what came of the call.
        let is_approval = matches!(answer, UserAnswer::Approved { .. }) || input.is_some();
        let refuse = |message: String| CallError::new(ErrorType::Transient, message);
        // Nothing begins in a session that is over.
        if !dialogue.ending.is_running() {
            let error = refuse("this session has ended; send the answer again".to_owned());
            return self.approvals.refuse(&question, error, dialogue);
        }
        // Clicks on one button have one answer.
        if is_approval && self.open.click(question.number) {
            return;
        }
        let open = self.open.approved() + self.approvals.pending();
        if open >= dialogue.step.limits().open_confirmations_max {
            let error = refuse(format!(
                "{open} answers are being carried out; send this one again"
            ));
            return self.approvals.refuse(&question, error, dialogue);
        }
        let config = &dialogue.step.config;
        let registry = &config.registry;
        let tool = registry.of_record(question.tool.as_str(), &question.tool_version);
        let tool = tool.filter(|_| is_approval);
        let consents = tool.filter(|_| input.is_none());
        if let Some(error) = consents.and_then(|tool| refused_approval(tool, &config.rights)) {
            return self.approvals.refuse(&question, error, dialogue);
        }
        // An approver for others is another user than the one to whom the tool has to be available.
        let of_user = tool.filter(|tool| tool.permissions.approver_roles.is_empty());
        // The clock is that of the session that asked, wherever the answer comes from.
        let given = Given {
            clock: question
                .clock
                .clone()
                .unwrap_or_else(|| config.given.clock.clone()),
            values: config.given.values.clone(),
        };
        let facts = Facts {
            mode: question.mode,
            given: &given,
            ..dialogue.step.facts()
        };
        if let Some(error) = of_user.and_then(|tool| not_available(tool, &facts)) {
            return self.approvals.refuse(&question, error, dialogue);
        }
        // Every gate that may have changed is checked again.
        let turn = dialogue.turns.last_number();
        let facts = match is_approval {
            true => self.facts_of(&question, turn, dialogue),
            false => None,
        };
        match facts {
            Some(facts) => {
                let consent =
                    consent::asked_before(&question, ledger::shown_tool(&question, &dialogue.step));
                let remember = matches!(answer, UserAnswer::Approved { remember: true });
                let origin = Origin::Approval {
                    question,
                    clicks: 0,
                    remember,
                    given: input,
                };
                let mut call = Box::new(Call::new(facts, origin, false));
                call.consent = consent;
                self.check_rate(call, dialogue);
            }
            // The ledger replies to such an approval that its tool is not the one that was approved.
            None => self.approvals.answer(question, answer, turn, dialogue),
        }
    }

    /// The call that runs if the approval counts: the arguments and the version of the tool that were shown, whichever version the
    /// session has. `None` if that version is gone, is not for this mode, or would not take the arguments any more.
    fn facts_of(
        &self,
        question: &Question,
        turn: u64,
        dialogue: &mut Dialogue,
    ) -> Option<Arc<CallFacts>> {
        let tool = dialogue.step.config.registry.as_shown(
            question.tool.as_str(),
            &question.tool_version,
            question.handler_hash.as_deref(),
        )?;
        if !tool.allows(question.mode) {
            return None;
        }
        let known = self.approvals.call_asked(question.number);
        let known = known.filter(|call| self.open.get(*call).is_none());
        let number = known.unwrap_or_else(|| dialogue.step.next_call());
        match ledger::call_request_of(question, number, turn, &dialogue.step) {
            CallRequest::Valid(facts) => Some(facts),
            CallRequest::Invalid(_) | CallRequest::Unexamined(_) => None,
        }
    }

    /// Tells the ledger that the user has approved, and whether the call may run.
    pub(super) fn send_approval(&mut self, mut call: Box<Call>, dialogue: &mut Dialogue) {
        let (nonce, effect_id) = dialogue.step.mint();
        let Some(question) = call.question().map(|question| question.number) else {
            return;
        };
        let remember = match &call.origin {
            Origin::Approval {
                question,
                remember: true,
                ..
            } => ledger::new_standing(question, call.tool(), &dialogue.step),
            Origin::Approval { .. } | Origin::Model | Origin::Handler(_) => None,
        };
        let (number, may_run) = (call.number(), call.refusal.is_none());
        let approval = ledger::approval(
            Some(call.tool()),
            (number, call.turn()),
            (may_run, remember),
            &dialogue.step,
        );
        dialogue.step.push(Output::Answer {
            call: number,
            question,
            answer: Box::new(AnswerRequest {
                nonce,
                effect_id: effect_id.clone(),
                verdict: AnswerVerdict::Approved(Box::new(approval)),
                again: call.failed_run().map(|run| run.attempt),
            }),
        });
        await_decision(&mut call, nonce, effect_id, dialogue);
        self.open.open(call);
    }

    /// An approval led to something else than a run of its own.
    fn end_approved(&mut self, call: Box<Call>, reply: Reply, dialogue: &mut Dialogue) {
        let Origin::Approval {
            question, clicks, ..
        } = call.origin
        else {
            return;
        };
        match (reply, call.refusal) {
            (Reply::Refused(Refusal::NotAllowed), Some(error)) => {
                let refused = (CallRequest::Valid(call.facts), error);
                self.approvals.not_now(&question, clicks, refused, dialogue);
            }
            (reply, _) => {
                self.approvals
                    .tell_reply(&question, clicks, reply, dialogue);
            }
        }
    }
}

// The news of the log.
impl Calls {
    pub(crate) fn on_news(&mut self, news: News, dialogue: &mut Dialogue) {
        match news {
            News::Effect(effect) => self.on_effect_news(&effect, dialogue),
            News::Question(question) => {
                let is_running = self.open.answers(question.number);
                self.approvals.on_question(&question, is_running, dialogue);
            }
            News::Asked(request) => {
                let call_request = self.approvals.call_request_asked(request.question);
                let asker = Asker {
                    call: call_request.map_or(CallNumber(0), |call_request| call_request.number),
                    tool: call_request
                        .and_then(CallRequest::tool)
                        .map(|tool| tool.id.clone()),
                };
                dialogue.apply_intents(&asker, &request.intents);
            }
            News::TicketReply(reply) => dialogue.on_ticket_reply(&reply),
            News::State { kept, own } => dialogue.learn_values(&kept, own),
            News::CancelRequested(effect_id) => self.on_cancel_requested(&effect_id, dialogue),
            News::Standing(news) => self.standing.learn(*news, dialogue),
        }
    }

    fn on_effect_news(&mut self, effect: &Effect, dialogue: &mut Dialogue) {
        self.correct_failed(effect, dialogue);
        let waiting = self.open.attached_to(&effect.effect_id);
        if effect.state == EffectState::Running {
            for number in waiting {
                await_lease(number, effect, dialogue);
            }
            return;
        }
        for number in waiting {
            self.ask_again(number, dialogue);
        }
        self.open.note_over(effect.newest_attempt().nonce);
        correct_untold(effect, dialogue);
        let mut is_told = self.on_accepted_end(effect, dialogue);
        // The outcome of this session's own run is told when it is stored.
        if !self.open.runs(&effect.effect_id) {
            is_told |= self.approvals.on_effect(effect, dialogue);
            // Any session that runs tells a task's end, whichever session asked for the task.
            let is_task = effect.task.is_some() && !effect.is_heard;
            if is_task && !is_told && dialogue.ending.is_running() {
                let call_request =
                    undelivered_outcome(effect, dialogue.turns.last_number(), dialogue)
                        .call_request;
                self.tell_known_end(effect, call_request, dialogue);
            }
        }
    }

    pub(crate) fn on_began_with_standing(
        &mut self,
        standing: Vec<StandingApproval>,
        dialogue: &mut Dialogue,
    ) {
        self.standing.restore(standing, dialogue);
    }

    pub(crate) fn show_standing(&self, dialogue: &mut Dialogue) {
        self.standing.show(dialogue);
    }

    pub(crate) fn on_revoked(&mut self, approval: QuestionNumber, dialogue: &mut Dialogue) {
        self.standing.revoke(approval, RevokeWay::Socket, dialogue);
    }

    pub(crate) fn on_standing_expired(
        &mut self,
        approval: QuestionNumber,
        dialogue: &mut Dialogue,
    ) {
        self.standing.expired(approval, dialogue);
    }

    pub(crate) fn standing_ends(&mut self, dialogue: &mut Dialogue) {
        self.standing.session_ended(dialogue);
    }

    /// Takes up the conversation's state when the session begins: requests that the user may still answer, which are shown again under a
    /// number that the client knows or that is new here, and ends that no model has heard of.
    pub(crate) fn on_began(
        &mut self,
        questions: Vec<Question>,
        (unheard, unheard_questions): (Vec<Effect>, Vec<Question>),
        dialogue: &mut Dialogue,
    ) {
        let turn = dialogue.turns.last_number();
        let calls = numbers_of(&questions, dialogue);
        for (question, call) in questions.into_iter().zip(calls) {
            let call_request = ledger::call_request_of(&question, call, turn, &dialogue.step);
            self.put(&question, call_request, dialogue);
        }
        for effect in unheard {
            let approved = unheard_questions.iter().find(|question| {
                question.state == QuestionState::Approved
                    && question.leg == dialogue.step.config.session_id
                    && question.effect_id.as_ref() == Some(&effect.effect_id)
            });
            match approved {
                Some(question) => {
                    self.approvals
                        .on_earlier_approval(question, &effect, dialogue);
                }
                None => {
                    let answer = undelivered_outcome(&effect, turn, dialogue);
                    dialogue.keep_late(answer);
                }
            }
        }
        for question in unheard_questions {
            self.approvals.on_unheard_denial(&question, dialogue);
        }
    }
}

/// The answer about an effect whose end no model has heard. This session's model is told it, unless it asks before.
pub(super) fn undelivered_outcome(
    effect: &Effect,
    turn: u64,
    dialogue: &mut Dialogue,
) -> CallAnswer {
    let settled = ledger::settled_of(effect, turn, &dialogue.step);
    let config = &dialogue.step.config;
    let registry = &config.registry;
    let tool = registry.of_record(effect.tool.as_str(), &effect.tool_version);
    let scheduling = tool.and_then(|tool| {
        let is_ok = settled.response.is_ok();
        config.scheduling(tool, config.blocks(tool), None, is_ok)
    });
    let call_request = CallRequest::unreadable(Delivered {
        number: dialogue.step.next_call(),
        batch: 0,
        key: DeliveryKey::Effect(effect.effect_id.clone()).into(),
        unstable_id: None,
        name: effect.tool.clone().into(),
        turn,
        generation: 0,
    });
    CallAnswer {
        call_request,
        settled,
        scheduling,
    }
}

/// Corrects undelivered answers about an effect to its present state.
pub(super) fn correct_untold(effect: &Effect, dialogue: &mut Dialogue) {
    if effect.state != EffectState::Running {
        let turn = dialogue.turns.last_number();
        dialogue
            .answers
            .correct(&ledger::settled_of(effect, turn, &dialogue.step));
    }
}

/// The numbers under which a beginning session shows these requests. Each has the number of its call, unless two legs have used the same
/// number, by which a client could not tell the requests apart. A request of this session's own keeps its number.
fn numbers_of(questions: &[Question], dialogue: &mut Dialogue) -> Vec<CallNumber> {
    let session = dialogue.step.config.session_id.clone();
    let mut taken = BTreeMap::new();
    for question in questions {
        dialogue.step.number_after(CallNumber(question.call));
        let owner = taken.entry(question.call).or_insert(question.number);
        if question.leg == session {
            *owner = question.number;
        }
    }
    let shown = questions.iter();
    shown
        .map(|question| match taken.get(&question.call) {
            Some(owner) if *owner == question.number => CallNumber(question.call),
            _ => dialogue.step.next_call(),
        })
        .collect()
}

/// Waits for the ledger, and for the handler's look-up that may come first.
fn await_decision(call: &mut Call, nonce: Nonce, effect_id: EffectId, dialogue: &mut Dialogue) {
    let lookup_ms = match call.tool().handler.outcome_lookup().is_some() {
        true => call.tool().lookup_ms(),
        false => 0,
    };
    let patience = dialogue
        .step
        .limits()
        .reserve_timeout_ms
        .saturating_add(lookup_ms);
    let deadline = Deadline::Store(call.number());
    dialogue
        .step
        .set_deadline(deadline, Duration::from_millis(patience));
    call.phase = Phase::Deciding { nonce, effect_id };
}

pub(super) fn await_lease(number: CallNumber, effect: &Effect, dialogue: &mut Dialogue) {
    let lease_end = effect.newest_attempt().lease_end_unix_ms;
    let left_ms = lease_end.saturating_sub(dialogue.step.unix_ms());
    // A moment more, so that the lease is over by the store's clock, too.
    let left = Duration::from_millis(left_ms.saturating_add(100));
    dialogue.step.set_deadline(Deadline::Lease(number), left);
}

/// The patience for a running effect counts from its beginning, not from now.
fn await_patience(call: &Call, effect: &Effect, dialogue: &mut Dialogue) {
    let Some(wait_ms) = call.wait_ms(&dialogue.step.config) else {
        return;
    };
    let lease_end = effect.newest_attempt().lease_end_unix_ms;
    let begun_unix_ms = lease_end.saturating_sub(ledger::lease_ms(call.tool()));
    let waited_ms = dialogue.step.unix_ms().saturating_sub(begun_unix_ms);
    let left = Duration::from_millis(wait_ms.saturating_sub(waited_ms));
    let deadline = Deadline::Wait(call.number());
    dialogue.step.set_deadline(deadline, left);
}

/// The origin of a request to the ledger.
fn request_origin(call: &Call, dialogue: &Dialogue) -> RequestOrigin {
    match call.nesting().and_then(|nesting| nesting.change.clone()) {
        Some((parent, ordinal)) => RequestOrigin::Handler { parent, ordinal },
        None => RequestOrigin::Model {
            delivery: delivery_id(call.delivered(), dialogue),
            generation: generation(call.delivered(), dialogue),
        },
    }
}

/// In text mode some servers restart their ids with each request.
fn delivery_id(delivered: &Delivered, dialogue: &Dialogue) -> String {
    match dialogue.step.config.mode {
        Mode::Voice => delivered.key.to_string(),
        Mode::Text => {
            let Delivered {
                turn, generation, ..
            } = delivered;
            format!("{turn}/{generation}/{}", *delivered.key)
        }
    }
}

/// The number of the connection over which a model asks. A model by voice may lose its calls with a connection. A process that goes on
/// with the session does not know the numbers before it, so its own begin behind them.
fn generation(delivered: &Delivered, dialogue: &Dialogue) -> u64 {
    dialogue.step.config.numbers_of_epochs_before()
        + match dialogue.step.config.mode {
            Mode::Voice => delivered.generation,
            // Each request to a text model holds all its earlier calls.
            Mode::Text => 0,
        }
}

/// The ledger's reply to a call, in the form of an error.
pub(super) fn known_error(
    call: &Call,
    error: CallError,
    effect_id: Option<EffectId>,
    dialogue: &Dialogue,
) -> Settled {
    Settled {
        effect_id,
        ..Settled::refusal(dialogue.step.failed(call.tool(), error), call.turn())
    }
}

/// The kind of a reply that decides nothing, for the log.
fn name_of(reply: &Reply) -> &'static str {
    match reply {
        Reply::Gone => "another process speaks for this session",
        Reply::Foreign => "the conversation is another user's",
        Reply::Crowded(_) => "who began the conversation has as many as its share",
        Reply::Missing => "it has no such effect",
        _ => "an unexpected reply",
    }
}
