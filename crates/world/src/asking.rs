//! Services that ask the user something in the course of a call: before they act or afterwards, once more, in vain, or for ever. A service
//! believes the answer that it gets; the judge knows the user's, and holds each run that goes on against it.

use crate::count::{Fault, State};
use crate::executor::Attempt;
use crate::judge::Rule;
use crate::shown::ShownRequest;
use crate::slot::Live;
use crate::tools::Edition;
use crate::world::World;
use serde_json::json;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Failure, HandlerResult, Report as FailureReport};
use windlass_contract::id::{CallRef, EffectId};
use windlass_contract::input::{
    AskKind, FieldKind, GivenInput, InputAction, InputAsk, InputField, InputRequest, SentInput,
};
use windlass_contract::sensitive::Sensitive;
use windlass_store::{AttemptNumber, Question, QuestionNumber};

/// The key of the one question of a service, and the one field of its form.
const KEY: &str = "k";
const FIELD: &str = "seat";

/// A question of a service's, which its state names.
#[derive(Clone, Debug)]
pub(crate) struct ServiceQuestion {
    conversation: usize,
    tool: String,
    edition: Option<Edition>,
    /// The attempt that asked.
    run: Option<(EffectId, AttemptNumber)>,
    /// The request that the ledger has made of it.
    number: Option<QuestionNumber>,
    is_form: bool,
    /// The answers that its user has sent: what was decided, and what the form says.
    answers: Vec<(InputAction, Option<String>)>,
}

/// An answer of the user's to what a service asks.
#[derive(Clone, Debug)]
pub(crate) struct InputAnswer {
    pub(crate) sent: SentInput,
    /// It is an answer that the form takes.
    pub(crate) fits: bool,
}

impl World {
    /// The result of an attempt that comes to a question.
    pub(crate) fn question_of_service(&mut self, live: &Live, call: CallRef) -> HandlerResult {
        let Some(attempt) = live.running.get(&call) else {
            return self.certain_failure();
        };
        self.fault(match &attempt.given {
            Some(_) => Fault::ServiceAskedAgain,
            None => Fault::ServiceAsked,
        });
        self.fault_if(!attempt.can_ask, Fault::ServiceAskedInVain);
        let state = self.mint("state");
        let is_form = !self.random.one_in(3);
        let field = InputField {
            name: FIELD.to_owned(),
            title: None,
            description: None,
            required: true,
            kind: FieldKind::Text {
                min: None,
                max: Some(100),
                format: None,
            },
            default: None,
        };
        let asked = InputRequest {
            from: "desk".to_owned(),
            asks: vec![InputAsk {
                key: KEY.to_owned(),
                message: "Which seat?".to_owned(),
                kind: match is_form {
                    true => AskKind::Form(vec![field]),
                    false => AskKind::Link("https://desk.example/seat".to_owned()),
                },
            }],
            state: Some(Sensitive(state.clone())),
        };
        let question = ServiceQuestion {
            conversation: self.slots[live.slot].conversation,
            tool: attempt.tool.id.as_str().to_owned(),
            edition: Edition::of(&attempt.tool),
            run: attempt
                .run
                .as_ref()
                .map(|run| (run.effect_id.clone(), run.attempt)),
            number: None,
            is_form,
            answers: Vec::new(),
        };
        self.judge.service_questions.insert(state, question);
        Err(Failure::from(FailureReport {
            // As the runtime reports such an answer: the service may have acted before it asked.
            partial_side_effects: Some(true),
            input: Some(Box::new(Sensitive(asked))),
            ..FailureReport::new(FailureKind::Permanent, "the desk asks the user")
        }))
    }

    /// The end of an attempt that goes on by an answer, if the answer decides it: the service has acted already, or does not act.
    pub(crate) fn end_by_answer(
        &mut self,
        attempt: &Attempt,
        acted: bool,
    ) -> Option<HandlerResult> {
        let given = attempt.given.as_deref()?;
        if acted {
            return Some(match self.random.one_in(4) {
                true => self.doubt(),
                false => self.success(),
            });
        }
        match given.action {
            InputAction::Accept => None,
            InputAction::Decline | InputAction::Cancel => Some(self.certain_failure()),
        }
    }

    /// What a user sends for a request that a service's question stands in; `None` for a request for consent.
    pub(crate) fn input_answer(
        &mut self,
        token: &ShownRequest,
        approved: bool,
    ) -> Option<InputAnswer> {
        let is_form = self.service_question_of(token)?.is_form;
        let is_left_out = is_form && self.random.one_in(6);
        let is_cancelled = !approved && self.random.one_in(2);
        let seat = self.mint("seat");
        let content = match (approved, is_form, is_left_out) {
            (true, true, false) => Some(json!({ KEY: { FIELD: seat } })),
            (true, true, true) => match self.random.below(3) {
                0 => None,
                1 => Some(json!({ KEY: { FIELD: 7 } })),
                _ => Some(json!({ KEY: {}, "other": { FIELD: seat } })),
            },
            (true, false, _) | (false, _, _) => None,
        };
        let fits = !approved || !is_left_out;
        self.fault_if(!fits, Fault::InputDoesNotFit);
        self.fault_if(is_cancelled, Fault::InputCancelled);
        self.fault_if(!approved && !is_cancelled, Fault::InputDeclined);
        Some(InputAnswer {
            sent: SentInput {
                content: content.map(Sensitive),
                is_cancelled,
            },
            fits,
        })
    }

    /// The user has sent an answer that fits.
    pub(crate) fn note_input(&mut self, token: &ShownRequest, approved: bool, sent: &SentInput) {
        let action = match (approved, sent.is_cancelled) {
            (true, _) => InputAction::Accept,
            (false, true) => InputAction::Cancel,
            (false, false) => InputAction::Decline,
        };
        let content = sent.content.as_ref();
        let seat = content.and_then(|content| {
            let seat = content.expose().get(KEY)?.get(FIELD)?.as_str()?;
            Some(seat.to_owned())
        });
        let question = self.question_of(token.conversation, token.question);
        let state = question.as_ref().and_then(state_of);
        let known = state.and_then(|state| self.judge.service_questions.get_mut(&state));
        if let Some(known) = known {
            known.answers.push((action, seat));
        }
    }

    fn service_question_of(&self, token: &ShownRequest) -> Option<&ServiceQuestion> {
        let question = self.question_of(token.conversation, token.question)?;
        let state = state_of(&question)?;
        self.judge.service_questions.get(&state)
    }

    /// The edition of the tool that has asked, if a service asks.
    pub(crate) fn edition_of_service(&self, question: &Question) -> Option<Edition> {
        let state = state_of(question)?;
        self.judge.service_questions.get(&state)?.edition
    }

    /// The ledger asks what a service wants to know.
    pub(crate) fn note_asked_by_service(&mut self, question: &Question) {
        let state = state_of(question);
        let known = state.and_then(|state| self.judge.service_questions.get_mut(&state));
        if let Some(known) = known {
            known.number = Some(question.number);
        }
    }

    /// The request that an attempt goes on by.
    pub(crate) fn question_of_answer(&self, attempt: &Attempt) -> Option<QuestionNumber> {
        let state = attempt.given.as_ref()?.asked.expose().state.as_ref()?;
        self.judge.service_questions.get(state.expose())?.number
    }

    /// A run goes on by an answer. It has to be one that the user of that question has sent, to the run that asked.
    pub(crate) fn judge_given(
        &mut self,
        conversation: usize,
        attempt: &Attempt,
        given: &GivenInput,
        what: &str,
    ) {
        self.report.counts.state(match given.action {
            InputAction::Accept => State::WentOnByInput,
            InputAction::Decline | InputAction::Cancel => State::WentOnByRefusal,
        });
        let state = given.asked.expose().state.as_ref();
        let state = state.map(|state| state.expose().as_str());
        let known = state.and_then(|state| self.judge.service_questions.get(state));
        let content = given.content.expose();
        let seat = content.get(KEY).and_then(|form| form.get(FIELD)?.as_str());
        let is_answered = known.is_some_and(|known| {
            let of_run = known.run.as_ref().map(|(effect_id, _)| effect_id);
            let effect_id = attempt.run.as_ref().map(|run| &run.effect_id);
            let is_later = known.run.as_ref().zip(attempt.run.as_ref());
            let is_later = is_later.is_none_or(|((_, asked), run)| run.attempt > *asked);
            let mut answers = known.answers.iter();
            known.conversation == conversation
                && known.tool == attempt.tool.id.as_str()
                && known.edition == Edition::of(&attempt.tool)
                && of_run == effect_id
                && is_later
                && answers.any(|(action, said)| *action == given.action && said.as_deref() == seat)
        });
        if !is_answered {
            let what = format!("{known:?} goes on by {given:?}: {what}");
            self.broken(Rule::AServiceHearsItsUser, what);
        }
    }
}

/// The state of the service that asks in a request.
fn state_of(question: &Question) -> Option<String> {
    let asked = question.input.as_ref()?;
    let asked: InputRequest = serde_json::from_str(asked.asked.expose()).ok()?;
    asked.state.map(Sensitive::into_inner)
}
