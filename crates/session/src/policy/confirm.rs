//! The words to the model about a call that needs the user's consent, and the warnings to the user. Knows no tokens, and not when to
//! ask: the ledger decides that.

use super::consent::ConsentReason;
use super::outcome::outcome_unknown;
use serde_json::Value;
use std::borrow::Cow;
use windlass_contract::envelope::rfc3339;
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::registry::Tool;
use windlass_contract::sensitive::Sensitive;
use windlass_store::{Certainty, Earlier, Effect, Hazards, PartyKind, Question};

/// The user is being asked, for this reason.
pub(crate) fn required(
    tool: &Tool,
    hazards: &Hazards,
    reason: Option<&ConsentReason>,
) -> CallError {
    let id = &tool.id;
    let Some(earlier) = hazards.earlier.last() else {
        let because = match reason {
            Some(ConsentReason::ExternalContent) => {
                ", because this conversation holds text that others wrote"
            }
            _ => "",
        };
        let message = format!("{id} runs only after the user has confirmed it{because}");
        return CallError::new(ErrorType::ConfirmationRequired, message);
    };
    let message = match earlier.certainty {
        Certainty::Done => format!(
            "{id} was done before, {}. It was not done again: the user is being asked whether to do it once more",
            when_and_what(earlier)
        ),
        Certainty::MayHaveHappened => format!(
            "{id} was begun before, {}, and nobody knows whether it happened. The user is being asked whether to do it again",
            when_and_what(earlier)
        ),
    };
    CallError::new(ErrorType::ConfirmationRequired, message).with_suggestion(match earlier.certainty
    {
        Certainty::Done => "Tell the user that it is done already, and that they can confirm to have it done once more.",
        Certainty::MayHaveHappened => "Do not say that it was done, or that it was not.",
    })
}

/// The user is being asked about the same effect already, with other arguments.
pub(crate) fn required_already(tool: &Tool, question: &Question) -> CallError {
    let message = format!(
        "the user is being asked already whether {} may run with {}, and is asked nothing further before that is answered",
        tool.id,
        shown(&question.arguments)
    );
    CallError::new(ErrorType::ConfirmationRequired, message).with_suggestion(
        "Nothing has been done yet. Wait for the user's answer to what is being asked.",
    )
}

/// The service of a tool asks the user something, and the call goes on by the answer.
pub(crate) fn asked_input(tool: &Tool, from: &str) -> CallError {
    let message = format!(
        "{} goes on once the user has answered what {from} asks, in a form or by a link that is shown to them",
        tool.id
    );
    CallError::new(ErrorType::ConfirmationRequired, message).with_suggestion(
        "Say that the page, or the app, shows what is asked, and that it waits for the answer there. Never answer for the user, and do not call the tool again.",
    )
}

/// The same, and nobody can be asked.
pub(crate) fn cannot_ask_input(tool: &Tool) -> CallError {
    CallError::new(
        ErrorType::Permanent,
        format!(
            "{} needs an answer of the user's to what its service asks, and nobody can be asked here",
            tool.id
        ),
    )
}

/// The user has denied the call.
pub(crate) fn denied(tool: &str, question: &Question) -> CallError {
    let message = format!(
        "the user was asked whether {tool} may run with {} and said no{}",
        shown(&question.arguments),
        because(question)
    );
    CallError::new(ErrorType::ConfirmationDeclined, message)
        .with_suggestion("It has not run. Do not call it again unless the user asks for it.")
}

/// The reason of a denial, quoted, so that the user's words are not taken for this program's.
pub(crate) fn because(question: &Question) -> String {
    match &question.reason {
        Some(reason) => format!(
            ", with this reason in the user's own words: {}",
            Value::from(reason.expose().as_str())
        ),
        None => String::new(),
    }
}

/// The user cannot be asked: enough approval requests are open.
pub(crate) fn too_many(tool: &Tool) -> CallError {
    CallError::new(
        ErrorType::ConfirmationRequired,
        format!(
            "{} cannot be asked for now: too many questions wait for the user already",
            tool.id
        ),
    )
    .with_suggestion("Nothing was done. Say that the questions that wait for an answer come first.")
}

/// No further task is begun.
pub(crate) fn too_many_tasks(tool: &Tool, of: PartyKind, most: usize) -> CallError {
    let message = so_many_tasks(tool.id.as_str(), of, most);
    CallError::new(ErrorType::BudgetExceeded, message).with_suggestion(
        "Say that it can begin once one of the others has ended, or has been cancelled.",
    )
}

/// The same for people.
pub(crate) fn so_many_tasks(tool: &str, of: PartyKind, most: usize) -> String {
    format!(
        "{tool} was not started: {most} tasks of this {} run already, and no more begin until one of them has ended",
        of.as_str()
    )
}

/// The user cannot be asked: there is no client.
pub(crate) fn nobody(tool: &Tool) -> CallError {
    CallError::new(
        ErrorType::ConfirmationRequired,
        format!(
            "{} runs only after a user has confirmed it, and nobody can be asked here",
            tool.id
        ),
    )
    .with_suggestion("Nothing was done. Say that this cannot be done here, and do not try again.")
}

/// The effect's outcome is unknown, and the handler cannot be asked.
pub(crate) fn unknown(tool: &Tool, effect: &Effect) -> CallError {
    let mut error = outcome_unknown(tool);
    let at = rfc3339(effect.begun_at_unix_ms);
    error.message = format!(
        "{}, at {at} with {}",
        error.message,
        shown(&effect.arguments)
    );
    error.with_suggestion(
        "Do not say that it was done, or that it was not, and do not call it again.",
    )
}

/// The note for the model beside a result that is told again.
pub(crate) fn replay_note(effect: &Effect) -> String {
    format!(
        "This was done before, at {}, with {}. Nothing further was done now.",
        rfc3339(effect.changed_at_unix_ms),
        shown(&effect.arguments)
    )
}

fn when_and_what(earlier: &Earlier) -> String {
    format!(
        "at {} with {}",
        rfc3339(earlier.at_unix_ms),
        shown(&earlier.arguments)
    )
}

/// Arguments as a model reads them beside their outcome. Long ones are cut to their beginning.
pub(crate) fn shown(arguments: &Sensitive<String>) -> Cow<'_, str> {
    const BYTES_MAX: usize = 400;
    let text = arguments.expose();
    match text.len() <= BYTES_MAX {
        true => text.into(),
        false => format!("{}…", &text[..text.floor_char_boundary(BYTES_MAX)]).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_arguments_are_shown_by_their_beginning() {
        let long = Sensitive("é".repeat(1_000));
        assert_eq!(shown(&long).chars().count(), 201);
        assert_eq!(shown(&Sensitive("{}".to_owned())), "{}");
    }
}
