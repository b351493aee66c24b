//! Asking the user: a call that needs consent is answered at once and never parked; what the user says later runs it, once,
//! with the arguments that were shown. Knows no token, only its hash.

use super::call_input::failure;
use super::restored::tell_client;
use super::{Charge, Session};
use crate::calls::{Call, Earlier, Phase};
use crate::client::{ClientUpdate, ConfirmationQuestion};
use crate::confirmations::{Confirmation, ConfirmationState, Question};
use crate::deadlines::Deadline;
use crate::event::{Resolution, SessionEvent};
use crate::io::{ConfirmationRequest, Output, Proposed, RateCharge, ReservationRefusal, TokenHash};
use crate::policy::{Effect, EffectState, Settled, confirm};
use crate::session::settlement::call_record;
use crate::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use windlass_tool::envelope::{Outcome, ToolResponse};
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::id::CallNumber;
use windlass_tool::sensitive::Sensitive;
use windlass_tool::template;

impl Session {
    /// Step 10: has the question stored. The call is answered when it is.
    pub(crate) fn ask(&mut self, mut call: Box<Call>, out: &mut Vec<Output>) {
        // One that was approved in vain is put anew, under a new token in place of its own.
        let replaced = call
            .fingerprint
            .and_then(|fingerprint| self.confirmations.open_like(&fingerprint))
            .map(|question| (question.token_hash, question.effect_id.clone()));
        // Those that are being stored will be open, too.
        let asked = self.confirmations.open_count() + self.calls.proposing();
        let asked = asked - usize::from(replaced.is_some());
        let asked_max = self.config.limits.open_confirmations_max;
        if asked >= asked_max && !has_bug!(self, AsksWithoutLimit) {
            let error = match asked_max {
                0 => confirm::nobody(call.tool(), call.earlier.as_deref()),
                _ => confirm::too_many(call.tool()),
            };
            return self.refuse_call(call, error, Charge::Already, out);
        }
        call.phase = Phase::Proposing;
        let number = call.number();
        let (replaces, effect_id) = replaced.unzip();
        call.kept_effect = effect_id.or(call.kept_effect);
        let request = Box::new(self.request(&call, replaces));
        out.push(Output::RequestConfirmation(request));
        let patience = Duration::from_millis(self.config.limits.reserve_timeout_ms);
        self.deadlines
            .set(Deadline::Store(number), self.now + patience);
        self.calls.open(call);
    }

    fn request(&self, call: &Call, replaces: Option<TokenHash>) -> ConfirmationRequest {
        ConfirmationRequest {
            call: call.number(),
            effect_id: call.kept_effect.clone(),
            tool: call.tool().id.clone(),
            tool_version: call.tool().version.clone(),
            fingerprint: call.fingerprint.unwrap_or_default(),
            arguments: call.facts.arguments().clone(),
            preview: Sensitive(preview(call)),
            says_unknown: call.earlier.as_deref().is_some_and(Earlier::is_unknown),
            valid_for: Duration::from_secs(self.config.limits.confirmation_seconds),
            replaces,
        }
    }

    pub(super) fn on_proposed(
        &mut self,
        number: CallNumber,
        outcome: Result<Proposed, ReservationRefusal>,
        out: &mut Vec<Output>,
    ) {
        let Some(call) = self.calls.take_in(number, Phase::Proposing) else {
            return self.on_renewed(number, outcome, out);
        };
        self.deadlines.clear(Deadline::Store(number));
        if outcome.is_ok() {
            self.drop_replaced(&call, out);
        }
        match outcome {
            Ok(proposed) if !call.is_taken_back => self.asked(*call, proposed, out),
            Ok(Proposed { token_hash, .. }) => {
                out.push(Output::WithdrawConfirmation { token_hash });
                self.cancel_unstarted(call, out);
            }
            Err(refusal) => self.on_reservation_refused(call, refusal, out),
        }
    }

    /// The question is stored: the model is answered, and the user is asked.
    fn asked(&mut self, mut call: Call, proposed: Proposed, out: &mut Vec<Output>) {
        let Proposed {
            effect_id,
            token_hash,
            expires_at_unix_ms,
        } = proposed;
        let number = call.number();
        call.kept_effect = Some(effect_id.clone());
        let error = confirm::demand(
            call.tool(),
            self.external_in_context,
            call.earlier.as_deref(),
        )
        .unwrap_or_else(|| confirm::required(call.tool()));
        let fingerprint = call.fingerprint.unwrap_or_default();
        let waiting = call.for_consent();
        let settled = self.refuse_all(call, error, Charge::Already, out);
        self.deliveries.remember_effect(
            fingerprint,
            Effect {
                effect_id: Some(effect_id.clone()),
                wish: self.turns.wish(),
                state: EffectState::Asked(settled),
            },
        );
        out.push(Output::Event(SessionEvent::ConfirmationRequested {
            call: number,
            tool: waiting.tool().id.clone(),
            expires_at_unix_ms,
        }));
        out.push(Output::SendClient(question(
            &waiting,
            token_hash,
            expires_at_unix_ms,
        )));
        self.reserve_next(waiting.delivered().batch, out);
        let expires_at = self.expire_later(number);
        self.confirmations.open(Confirmation {
            question: Question {
                call: number,
                token_hash,
                effect_id,
                expires_at,
            },
            state: ConfirmationState::Open(Box::new(waiting)),
        });
    }

    fn expire_later(&mut self, number: CallNumber) -> Timestamp {
        let expires_at = self.now + Duration::from_secs(self.config.limits.confirmation_seconds);
        if !has_bug!(self, AsksForEver) {
            self.deadlines
                .set(Deadline::Confirmation(number), expires_at);
        }
        expires_at
    }

    /// A client that comes back knows none of the tokens: every open question gets a new one.
    pub(super) fn renew_confirmations(&mut self, out: &mut Vec<Output>) {
        let requests: Vec<ConfirmationRequest> = self
            .confirmations
            .iter_open()
            .map(|(entry, call)| {
                let mut request = self.request(call, Some(entry.question.token_hash));
                request.effect_id = Some(entry.question.effect_id.clone());
                request
            })
            .collect();
        let requests = requests.into_iter().map(Box::new);
        out.extend(requests.map(Output::RequestConfirmation));
    }

    fn on_renewed(
        &mut self,
        number: CallNumber,
        outcome: Result<Proposed, ReservationRefusal>,
        out: &mut Vec<Output>,
    ) {
        let Ok(proposed) = outcome else {
            return;
        };
        let expires_at = self.expire_later(number);
        let Some(entry) = self
            .confirmations
            .by_call(number)
            .filter(|entry| entry.is_open())
        else {
            self.deadlines.clear(Deadline::Confirmation(number));
            return self.close_renewed(number, proposed.token_hash, out);
        };
        entry.question.token_hash = proposed.token_hash;
        entry.question.expires_at = expires_at;
        if let ConfirmationState::Open(call) = &entry.state {
            out.push(Output::SendClient(question(
                call,
                proposed.token_hash,
                proposed.expires_at_unix_ms,
            )));
        }
    }

    /// The client's answer. Whatever token it has, it gets one result for it.
    pub(super) fn on_confirm(
        &mut self,
        token_hash: TokenHash,
        approved: bool,
        out: &mut Vec<Output>,
    ) {
        let now = self.now;
        let Some(entry) = self.confirmations.by_token(&token_hash) else {
            return self.seek_approval(token_hash, approved, out);
        };
        let call = entry.question.call;
        if now >= entry.question.expires_at {
            if !approved && !matches!(entry.state, ConfirmationState::Running { .. }) {
                // The time of another session's clock, to which the same token may come, need not be up.
                out.push(Output::DeclineConfirmation { token_hash });
            }
            return self.refuse_token(Some(call), out);
        }
        match &entry.state {
            ConfirmationState::Open(_) if approved => self.approve(call, out),
            ConfirmationState::Open(_) => self.decline(call, out),
            ConfirmationState::Declined(declined) if declined.untold.is_none() => {
                self.tell_declined_again(call, out);
            }
            ConfirmationState::Running { .. } | ConfirmationState::Declined(_) => {
                if let ConfirmationState::Running { is_refused, .. } = &mut entry.state {
                    *is_refused |= !approved;
                }
                if !entry.join() {
                    self.refuse_token(Some(call), out);
                }
            }
            ConfirmationState::Elsewhere { .. } => self.await_effect(call, out),
            ConfirmationState::Resolved(response) => {
                tell_client(call, response.clone(), out);
            }
        }
    }

    /// A token that does not count: nothing runs, and a stranger learns nothing.
    pub(super) fn refuse_token(&mut self, call: Option<CallNumber>, out: &mut Vec<Output>) {
        let error = CallError::new(
            ErrorType::ConfirmationExpired,
            "this approval is not valid, or not valid any more",
        );
        self.refuse_answer(call, error, out);
    }

    pub(super) fn refuse_answer(
        &mut self,
        call: Option<CallNumber>,
        error: CallError,
        out: &mut Vec<Output>,
    ) {
        let response = self.response_without_tool("confirm", error);
        let resolution = Resolution::Refused;
        out.push(Output::Event(SessionEvent::ConfirmationResolved {
            call,
            resolution,
        }));
        out.push(Output::SendClient(ClientUpdate::ConfirmationResult {
            call,
            response: Sensitive(response),
        }));
    }

    /// The user said yes: everything that may have changed is checked again, and the call runs outside all budgets.
    fn approve(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        self.deadlines.clear(Deadline::Confirmation(number));
        let Some(entry) = self.confirmations.by_call(number) else {
            return;
        };
        if self.calls.at(&entry.question.effect_id).is_some() {
            return self.await_run_beside(number, out);
        }
        let running = ConfirmationState::Running {
            askers: 1,
            is_refused: false,
        };
        let state = std::mem::replace(&mut entry.state, running);
        let ConfirmationState::Open(mut call) = state else {
            return;
        };
        call.grant = Some(entry.question.token_hash);
        call.kept_effect = Some(entry.question.effect_id.clone());
        out.push(Output::Event(SessionEvent::ConfirmationResolved {
            call: Some(number),
            resolution: Resolution::Approved,
        }));
        if let Some(effect) = call
            .fingerprint
            .and_then(|fingerprint| self.deliveries.effect(&fingerprint))
        {
            let is_its = effect.effect_id == call.kept_effect;
            if let Some(done) = effect.state.done().filter(|_| is_its) {
                return self.adopt(call, done, out);
            }
            effect.state = EffectState::Open(number);
        }
        match self.check_again(&call) {
            Ok(()) if std::mem::take(&mut call.is_charged) => self.pass_rate(call, out),
            Ok(()) => self.check_rate(call, RateCharge::Charge, out),
            Err(error) => self.settle(call, failure(error, None), out),
        }
    }

    fn check_again(&self, call: &Call) -> Result<(), CallError> {
        let id = &call.tool().id;
        let current = self.config.registry.get(id.as_str());
        if current.is_none_or(|tool| tool.version != call.tool().version) {
            let message = format!("{id} is not the tool any more that was shown");
            return Err(CallError::new(ErrorType::NotFound, message));
        }
        if !call.tool().allows(self.config.mode) {
            let message = format!("{id} is not for {} sessions", self.config.mode.as_str());
            return Err(CallError::new(ErrorType::ModeRestricted, message));
        }
        let violations = call.tool().parameters.argument_violations(call.arguments());
        if !violations.is_empty() {
            let message = format!("the arguments do not satisfy {id} any more");
            return Err(CallError::new(ErrorType::Validation, message));
        }
        Ok(())
    }

    pub(super) fn on_confirmation_expired(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        let error = CallError::new(
            ErrorType::ConfirmationExpired,
            "the user did not answer in time",
        );
        self.close_question(number, error, Resolution::Expired, out);
    }

    /// A question that nobody will answer.
    pub(super) fn close_question(
        &mut self,
        number: CallNumber,
        error: CallError,
        resolution: Resolution,
        out: &mut Vec<Output>,
    ) {
        self.deadlines.clear(Deadline::Confirmation(number));
        let Some((mut call, question)) = self.confirmations.take_open(number) else {
            return;
        };
        let response = self.refusal_of(&call, error);
        self.confirmations.open(Confirmation {
            state: ConfirmationState::Resolved(response.clone()),
            question,
        });
        call.kept_effect = None;
        out.push(Output::Event(SessionEvent::ConfirmationResolved {
            call: Some(number),
            resolution,
        }));
        let record = call_record(call.slot(), &response);
        out.push(Output::Event(SessionEvent::CallRejected(record)));
        tell_client(number, response, out);
        self.restore_asked_effect(&call);
    }

    /// What a question ends with that nobody has approved.
    pub(super) fn refusal_of(&self, call: &Call, error: CallError) -> Arc<ToolResponse> {
        Arc::new(ToolResponse {
            outcome: Outcome::Failure(error.into()),
            intents: Vec::new(),
            meta: self.meta_of(call.tool()),
        })
    }

    /// The provider took a call back that waits for the user.
    pub(super) fn withdraw_of(&mut self, id: &str, generation: u64, out: &mut Vec<Output>) {
        let number = self
            .confirmations
            .iter_open()
            .find(|(_, call)| call.delivered().is_under(id, generation))
            .map(|(entry, _)| entry.question.call);
        if let Some(number) = number {
            self.withdraw(number, out);
        }
    }

    /// Nobody may approve any more.
    pub(super) fn withdraw_all(&mut self, out: &mut Vec<Output>) {
        let open: Vec<CallNumber> = self
            .confirmations
            .iter_open()
            .map(|(entry, _)| entry.question.call)
            .collect();
        for number in open {
            self.withdraw(number, out);
        }
    }

    pub(super) fn withdraw(&mut self, number: CallNumber, out: &mut Vec<Output>) {
        if let Some(entry) = self.confirmations.by_call(number) {
            let token_hash = entry.question.token_hash;
            out.push(Output::WithdrawConfirmation { token_hash });
        }
        let error = CallError::new(ErrorType::Cancelled, "the call was taken back");
        self.close_question(number, error, Resolution::Withdrawn, out);
    }

    /// What came of an approved call goes to everybody who approved it, and to the model.
    pub(super) fn resolve_approved(
        &mut self,
        call: &Call,
        settled: &Settled,
        out: &mut Vec<Output>,
    ) {
        let response = settled.response.clone();
        let is_open_again = self.opens_again(call, &response);
        if call.effect_id.is_none()
            && !is_open_again
            && let Some(token_hash) = call.grant
        {
            // It was never reserved, so that the token is still good in the store.
            out.push(Output::WithdrawConfirmation { token_hash });
        }
        let Some(entry) = self.confirmations.by_call(call.number()) else {
            return;
        };
        let is_refused = entry.is_refused();
        let next = match is_open_again {
            true => ConfirmationState::Open(Box::new(call.after_vain_approval(&response))),
            false => ConfirmationState::Resolved(response.clone()),
        };
        self.answer_askers(call.number(), &response, next, out);
        if is_open_again {
            self.wait_again(call, out);
        }
        if is_open_again && is_refused {
            self.decline(call.number(), out);
        }
        // What the model was to hear meanwhile, on another connection, is not so any more.
        let late = &mut self.connection.late;
        late.retain(|late| late.slot.number != call.number() || late.settled.is_outcome);
        if call.attached.is_empty() {
            self.notify_approved(call, settled, out);
        }
    }
}

/// What the user reads: from the canonical arguments, never from a model's words.
fn preview(call: &Call) -> String {
    match &call.tool().confirmation_preview {
        Some(template) => template::render(template, call.arguments()),
        None => format!("Run {}", call.tool().id),
    }
}

fn question(call: &Call, token_hash: TokenHash, expires_at_unix_ms: u64) -> ClientUpdate {
    ClientUpdate::ConfirmationRequest(Box::new(ConfirmationQuestion {
        call: call.number(),
        token_hash,
        tool: call.tool().id.clone(),
        arguments: call.facts.arguments().clone(),
        preview: Sensitive(preview(call)),
        warning: call.earlier.as_deref().map(confirm::warning),
        expires_at_unix_ms,
    }))
}
