//! Questions of tools' services to the user in the course of a call: the run ends with the question, the ledger keeps it, and the answer
//! begins the next run. The model hears that the user is asked, and never answers. Knows no protocol.

use super::Calls;
use super::open::{Asking, Call, Concluded};
use crate::approvals::UserAnswer;
use crate::client::asked_input;
use crate::dialogue::Dialogue;
use crate::facts::CallRequest;
use crate::policy::{EffectRun, Judged, confirm, outcome_unknown};
use std::collections::BTreeMap;
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::input::{GivenInput, InputAction, InputRequest, SentInput};
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{OpenQuestion, Reply, Request};
use windlass_store::{Question, QuestionInput};

/// Characters of a service's words where no form is shown.
const WORDS_MAX: usize = 1_000;

impl Calls {
    /// Whether a run that ends with a question to the user gets its answer. A handler that calls another tool waits for it, and a task
    /// goes on when nobody is there.
    pub(super) fn can_ask_input(&self, call: &Call, dialogue: &Dialogue) -> bool {
        dialogue.step.config.can_ask_input
            && call.nesting().is_none()
            && !call.tool().runs_in_background()
            && self.can_ask(dialogue)
    }

    /// The run has come to a question of its service's.
    pub(super) fn ask_input(
        &mut self,
        mut call: Box<Call>,
        asked: InputRequest,
        run: Option<EffectRun>,
        dialogue: &mut Dialogue,
    ) {
        let Ok(text) = serde_json::to_string(&asked) else {
            return self.end_unasked(call, run, dialogue);
        };
        let minted = dialogue.step.mint();
        let of_run = run.as_ref().map(|run| (run.effect_id.clone(), run.attempt));
        let request = Request {
            may_run: true,
            needs_consent: false,
            because: None,
            standing_values: None,
            preview: Sensitive(asked.words().chars().take(WORDS_MAX).collect()),
            input: Some(Box::new(QuestionInput {
                asked: Sensitive(text),
                run: of_run,
            })),
            ..self.request_of(&call, &minted, dialogue)
        };
        call.asking = Some(Box::new(Asking {
            from: asked.from,
            run,
        }));
        self.send_request(call, request, dialogue);
    }

    pub(super) fn on_input_decided(
        &mut self,
        call: Box<Call>,
        asking: Asking,
        reply: Reply,
        dialogue: &mut Dialogue,
    ) {
        let Reply::Ask(asked) = reply else {
            return self.end_unasked(call, asking.run, dialogue);
        };
        if !call.may_begin() {
            self.withdraw(*asked, dialogue);
            return self.end_unasked(call, asking.run, dialogue);
        }
        let error = confirm::asked_input(call.tool(), &asking.from);
        let concluded = Concluded {
            response: dialogue.step.failed(call.tool(), error),
            run: None,
            scheduling: None,
            problem: None,
            are_values_set: true,
            asks: Some(asked),
        };
        self.conclude(call, concluded, dialogue);
    }

    /// Shows a request in place of those that it replaces.
    pub(super) fn put_in_place(
        &mut self,
        asked: OpenQuestion,
        call_request: CallRequest,
        dialogue: &mut Dialogue,
    ) {
        for number in asked.replaced {
            self.approvals.replaced(number, dialogue);
        }
        self.put(&asked.question, call_request, dialogue);
    }

    /// Ends a call whose question is not put to the user. The outcome of a run with an effect is unknown.
    pub(super) fn end_unasked(
        &mut self,
        call: Box<Call>,
        run: Option<EffectRun>,
        dialogue: &mut Dialogue,
    ) {
        let error = match run {
            Some(_) => outcome_unknown(call.tool()),
            None => confirm::cannot_ask_input(call.tool()),
        };
        self.settle(call, Judged::failure(error), run, dialogue);
    }
}

/// The user's input for the service that asks; `None` for a request for consent.
///
/// # Errors
///
/// The part that does not fit, for the client. The request stays open.
pub(super) fn given_input(
    question: &Question,
    answer: &UserAnswer,
    sent: &SentInput,
) -> Result<Option<GivenInput>, CallError> {
    let Some(asked) = asked_input(question) else {
        return Ok(None);
    };
    let action = match answer {
        UserAnswer::Approved { .. } => InputAction::Accept,
        UserAnswer::Denied(_) if sent.is_cancelled => InputAction::Cancel,
        UserAnswer::Denied(_) => InputAction::Decline,
    };
    let content = match action {
        InputAction::Accept => {
            let content = sent.content.as_ref().map(Sensitive::expose);
            asked.expose().accepted(content).map_err(|problem| {
                let mut error = CallError::new(
                    ErrorType::Validation,
                    format!("{problem}; correct it, and send the answer again"),
                );
                error.retryable = true;
                error
            })?
        }
        InputAction::Decline | InputAction::Cancel => BTreeMap::new(),
    };
    Ok(Some(GivenInput {
        asked,
        action,
        content: Sensitive(content),
    }))
}
