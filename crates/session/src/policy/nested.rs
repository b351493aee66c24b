//! Tools that handlers may call: how deep, and what a nested call may do (`docs/policies.md`, "Calls that tools make"). The user is not
//! asked about such a call: the user was asked about its parent.

use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::id::ToolId;
use windlass_contract::registry::Tool;

/// The depth of calls below that of a model or an approval.
const DEPTH_MAX: usize = 3;

/// The calling call.
pub(crate) struct Caller<'a> {
    pub(crate) tool: &'a Tool,
    /// The tools of the calls above, the caller's last.
    pub(crate) above: &'a [ToolId],
    /// The call has an effect, so that the ledger knows its changes by it.
    pub(crate) has_effect: bool,
}

/// The called tool.
pub(crate) struct Called<'a> {
    pub(crate) tool: &'a Tool,
    /// The ledger would decide about the call.
    pub(crate) is_change: bool,
    /// The user would have to be asked.
    pub(crate) asks: bool,
}

/// Whether the handler of a call may call this tool.
pub(crate) fn check(caller: &Caller<'_>, called: &Called<'_>) -> Result<(), CallError> {
    let Called {
        tool,
        is_change,
        asks,
    } = *called;
    let (id, of) = (&tool.id, &caller.tool.id);
    let refused = |message| Err(CallError::new(ErrorType::Permanent, message));
    if caller.above.contains(id) {
        return refused(format!(
            "{of} may not call {id}, on whose behalf it runs: that would not end"
        ));
    }
    if caller.above.len() > DEPTH_MAX {
        return refused(format!(
            "{of} may not call {id}: no more than {DEPTH_MAX} calls stand below one another"
        ));
    }
    if asks {
        return refused(format!(
            "{of} may not call {id}, which runs only after the user has confirmed it: a model has to call it"
        ));
    }
    if tool.side_effects > caller.tool.side_effects || (is_change && !caller.has_effect) {
        return refused(format!(
            "{of} may not call {id}, which does more than {of} says of itself: sideEffects of {of} has to say as much"
        ));
    }
    Ok(())
}
