//! Step 12: a handler's result is judged by its tool's declaration and becomes the one outcome of its call.

use std::sync::Arc;
use windlass_contract::data::Data;
use windlass_contract::envelope::{Outcome, ToolResponse};
use windlass_contract::error::{CallError, ErrorType, FailureKind};
use windlass_contract::excess;
use windlass_contract::handler::{Cause, Failure, HandlerResult, Report, Success};
use windlass_contract::input::InputRequest;
use windlass_contract::intent::Intent;
use windlass_contract::kind::Scheduling;
use windlass_contract::registry::Tool;
use windlass_contract::sensitive::Sensitive;
use windlass_store::AttemptOutcome;

pub(crate) struct Judged {
    pub(crate) outcome: Outcome,
    pub(crate) intents: Vec<Intent>,
    pub(crate) scheduling: Option<Scheduling>,
    /// The time until which a service reports the end of the change that it has accepted.
    pub(crate) accepted_until_unix_ms: Option<u64>,
    /// The parts left out of a result that was too long, in words.
    pub(crate) cut: Option<Arc<str>>,
    /// Text for the log, which a client or a model must not read.
    pub(crate) problem: Option<String>,
    /// The questions of the tool's service to the user, before the call goes on.
    pub(crate) input: Option<Box<Sensitive<InputRequest>>>,
}

impl Judged {
    /// An attempt that failed, or that never ran.
    pub(crate) fn failure(error: CallError) -> Self {
        Self {
            outcome: Outcome::Failure(error.into()),
            intents: Vec::new(),
            scheduling: None,
            accepted_until_unix_ms: None,
            cut: None,
            problem: None,
            input: None,
        }
    }
}

/// Characters of a broken handler's message that the log takes.
const PROBLEM_CHARACTERS_MAX: usize = 4_000;

/// Judges a result. A result longer than `characters_max` is cut to its beginning: it is remembered for repeats, recorded, and told.
pub(crate) fn judge(tool: &Arc<Tool>, result: HandlerResult, characters_max: usize) -> Judged {
    match result {
        Ok(success) => judge_success(tool, success, characters_max),
        Err(Failure { cause, intents }) => {
            let (mut error, problem, input) = match cause {
                Cause::Reported(mut report) => {
                    let input = report.input.take();
                    (reported(tool, *report), None, input)
                }
                Cause::Broken(problem) => (
                    broken(tool),
                    Some(excess::beginning(problem, PROBLEM_CHARACTERS_MAX)),
                    None,
                ),
            };
            let cut = excess::shorten_error(&mut error, characters_max);
            let judged = Judged {
                outcome: Outcome::Failure(error.into()),
                intents,
                scheduling: None,
                accepted_until_unix_ms: None,
                cut: None,
                problem,
                input,
            };
            judged.cut_to(tool, characters_max, (None, cut))
        }
    }
}

impl Judged {
    /// Shortens contents and intents, and notes everything that was lost or cut.
    fn cut_to(
        mut self,
        tool: &Tool,
        characters_max: usize,
        (lost, cut): (Option<String>, Option<String>),
    ) -> Self {
        let of_content = match &mut self.outcome {
            Outcome::Success { content, .. } => excess::shorten_content(content, characters_max),
            Outcome::Failure(_) => None,
        };
        let of_intents = excess::shorten_intents(&mut self.intents, characters_max);
        let words: Vec<String> = [cut, of_content, of_intents]
            .into_iter()
            .flatten()
            .collect();
        let cut = (!words.is_empty()).then(|| words.join(", and "));
        if let Some(cut) = &cut {
            // The break itself matters more than the length of its message.
            self.problem.get_or_insert_with(|| {
                format!(
                    "the result of {} is over {characters_max} characters long: {cut}",
                    tool.id
                )
            });
        }
        self.cut = match (lost, cut) {
            (Some(lost), Some(cut)) => Some(format!("{lost}, and {cut}").into()),
            (lost, cut) => lost.or(cut).map(Into::into),
        };
        self
    }
}

fn judge_success(tool: &Arc<Tool>, success: Success, characters_max: usize) -> Judged {
    let Success {
        data,
        content,
        intents,
        scheduling,
        accepted_until_unix_ms,
        loss,
    } = success;
    let breach = match loss.as_ref().and_then(|loss| loss.breach.as_deref()) {
        Some(problem) => Some(format!("the result of {} was lost: {problem}", tool.id)),
        // An accepted change has no result yet that could break the contract.
        None if accepted_until_unix_ms.is_none() && breaks_schema(tool, data.as_ref()) => Some(
            format!("the result of {} breaks its responseSchema", tool.id),
        ),
        None => None,
    };
    let breach = breach.map(|breach| excess::beginning(breach, PROBLEM_CHARACTERS_MAX));
    let is_kept = |data: &Data| loss.is_some() && !breaks_schema(tool, Some(data));
    let (outcome, accepted_until_unix_ms) = match &breach {
        None => (Outcome::Success { data, content }, accepted_until_unix_ms),
        // A change that was made stays made: it loses its details, not its success.
        Some(_) if tool.writes() => {
            let outcome = Outcome::Success {
                data: data.filter(is_kept),
                content: if loss.is_some() { content } else { Vec::new() },
            };
            (outcome, None)
        }
        Some(_) => (Outcome::Failure(broken(tool).into()), None),
    };
    let mut judged = Judged {
        outcome,
        intents,
        scheduling,
        accepted_until_unix_ms,
        cut: None,
        problem: breach,
        input: None,
    };
    let (mut lost, mut cut) = (None, None);
    if let Outcome::Success { data, .. } = &mut judged.outcome {
        lost = loss.map(|loss| loss.words);
        let shortened = data
            .as_ref()
            .and_then(|data| data.shortened(characters_max));
        if let Some((shortened, words)) = shortened {
            *data = Some(shortened);
            cut = Some(words);
        }
    }
    judged.cut_to(tool, characters_max, (lost, cut))
}

fn breaks_schema(tool: &Tool, data: Option<&Data>) -> bool {
    let Some(schema) = &tool.response else {
        return false;
    };
    match data {
        Some(data) => !schema.is_valid(data),
        None => !schema.is_valid(&serde_json::Value::Null),
    }
}

fn reported(tool: &Tool, report: Report) -> CallError {
    let may_have_worked = match report.partial_side_effects {
        Some(partial) => partial,
        None => report.kind == FailureKind::Transient,
    };
    if tool.writes() && may_have_worked {
        return outcome_unknown(tool);
    }
    let error_type = ErrorType::from(report.kind);
    let retryable = match report.kind {
        FailureKind::Transient | FailureKind::RateLimit => report.retryable.unwrap_or(true),
        FailureKind::Auth | FailureKind::Conflict => report.retryable.unwrap_or(false),
        FailureKind::Validation
        | FailureKind::NotFound
        | FailureKind::SessionInactive
        | FailureKind::SessionActive
        | FailureKind::Permanent => false,
    };
    CallError {
        retryable,
        partial_side_effects: report.partial_side_effects.filter(|partial| *partial),
        suggestion: report.suggestion,
        details: report.details,
        retry_after_ms: report.retry_after_ms,
        max_retries: report.max_retries,
        idempotency_required: report.idempotency_required,
        ..CallError::new(error_type, report.message)
    }
}

/// The error for model and client about a broken handler, without its internals.
fn broken(tool: &Tool) -> CallError {
    if tool.writes() {
        outcome_unknown(tool)
    } else {
        CallError::new(ErrorType::Internal, format!("{} failed inside", tool.id))
    }
}

/// The outcome of an attempt, by its call's answer.
pub(crate) fn outcome_of(response: &ToolResponse) -> AttemptOutcome {
    match response.error_type() {
        None => match response.meta.accepted_until {
            Some(until_unix_ms) => AttemptOutcome::Accepted { until_unix_ms },
            None => AttemptOutcome::Succeeded,
        },
        Some(ErrorType::OutcomeUnknown) => AttemptOutcome::Unknown,
        Some(_) => AttemptOutcome::Failed,
    }
}

pub(crate) fn outcome_unknown(tool: &Tool) -> CallError {
    CallError::new(
        ErrorType::OutcomeUnknown,
        format!("{} was started, and how it ended is not known", tool.id),
    )
}

/// The error of a timeout.
pub(crate) fn timed_out(tool: &Tool) -> CallError {
    if tool.writes() {
        outcome_unknown(tool)
    } else {
        CallError::new(
            ErrorType::Transient,
            format!("{} did not answer within {} ms", tool.id, tool.timeout_ms),
        )
    }
}
