//! Step 10: what needs the user's consent does not run without it, whatever the model says. Knows when to ask and what is
//! said meanwhile; nothing of tokens.

use super::outcome::outcome_unknown;
use crate::calls::Earlier;
use windlass_tool::envelope::rfc3339;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::registry::Tool;

/// What the model is answered where the user has to be asked first; `None` where the call may run. A token in the arguments
/// is an unknown argument and was refused as one before.
///
/// While text that others wrote is in the model's context, that text may be what asks for a change, so that changes need
/// a grant then (`docs/policies.md`, "Confirmation"); the tools that are exempt are capped instead. What may have happened already does
/// not happen again without the user's word (section 11, D6).
pub(crate) fn demand(
    tool: &Tool,
    external_in_context: bool,
    earlier: Option<&Earlier>,
) -> Option<CallError> {
    if earlier.is_some_and(Earlier::is_unknown) {
        let error = outcome_unknown(tool).with_suggestion(
            "The user is being asked whether to do it again. Do not say that it was done, or that it was not.",
        );
        return Some(error);
    }
    if tool.requires_confirmation {
        return Some(required(tool));
    }
    (external_in_context && minds_reading(tool)).then(|| {
        CallError::new(
            ErrorType::ConfirmationRequired,
            format!(
                "{} runs only after the user has confirmed it, because this conversation holds text that others wrote",
                tool.id
            ),
        )
    })
}

/// Whether the tool needs a grant where text that others wrote is in the model's context.
pub(crate) fn minds_reading(tool: &Tool) -> bool {
    tool.writes() && !tool.is_exempt_from_external_content_rule()
}

pub(crate) fn required(tool: &Tool) -> CallError {
    CallError::new(
        ErrorType::ConfirmationRequired,
        format!("{} runs only after the user has confirmed it", tool.id),
    )
}

/// The user has answered with no.
pub(crate) fn declined() -> CallError {
    CallError::new(
        ErrorType::ConfirmationDeclined,
        "the user was asked and said no",
    )
}

/// The user cannot be asked: questions enough are open.
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

/// The user cannot be asked: nobody is there who could be, as no question may wait.
pub(crate) fn nobody(tool: &Tool, earlier: Option<&Earlier>) -> CallError {
    if earlier.is_some_and(Earlier::is_unknown) {
        return outcome_unknown(tool);
    }
    CallError::new(
        ErrorType::ConfirmationRequired,
        format!(
            "{} runs only after a user has confirmed it, and nobody can be asked here",
            tool.id
        ),
    )
    .with_suggestion("Nothing was done. Say that this cannot be done here, and do not try again.")
}

/// What the user should know of an earlier wish of the same kind.
pub(crate) fn warning(earlier: &Earlier) -> String {
    if earlier.is_unknown() {
        return "This was begun before, and nobody knows whether it happened. If you approve it, it may happen a second time."
            .to_owned();
    }
    let at = rfc3339(earlier.settled.response.meta.timestamp);
    format!("The same was done before, at {at}. If you approve it, it is done once more.")
}
