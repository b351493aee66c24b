//! Step 10: a tool that needs the user's consent does not run without it, whatever the model says.

use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::registry::Tool;

/// No grant can exist yet, so every call of such a tool stops here. A token in the arguments is an unknown argument and
/// was refused as one before.
pub(crate) fn check(tool: &Tool) -> Result<(), CallError> {
    if tool.requires_confirmation {
        return Err(CallError::new(
            ErrorType::ConfirmationRequired,
            format!("{} runs only after the user has confirmed it", tool.id),
        ));
    }
    Ok(())
}
