//! Step 10: what needs the user's consent does not run without it, whatever the model says.

use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::registry::Tool;

/// Whether the call may run without asking. No grant can exist yet, so every call that needs one stops here; a token in
/// the arguments is an unknown argument and was refused as one before.
///
/// While text that others wrote is in the model's context, that text may be what asks for a change, so that changes need
/// a grant then (contract section 20); the tools that are exempt are capped instead.
pub(crate) fn check(tool: &Tool, external_in_context: bool) -> Result<(), CallError> {
    let refused = |reason: String| Err(CallError::new(ErrorType::ConfirmationRequired, reason));
    if tool.requires_confirmation {
        return refused(format!(
            "{} runs only after the user has confirmed it",
            tool.id
        ));
    }
    if external_in_context && tool.writes() && !tool.is_exempt_from_external_content_rule() {
        return refused(format!(
            "{} runs only after the user has confirmed it, because this conversation holds text that others wrote",
            tool.id
        ));
    }
    Ok(())
}
