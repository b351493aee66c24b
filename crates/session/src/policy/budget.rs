//! Step 8: the hard budgets of a turn. They count calls, not time, and nothing loosens them.

use super::loop_guard::LoopHistory;
use crate::event::TurnSummary;
use crate::limits::TurnLimits;
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::kind::{Category, Mode};
use windlass_contract::registry::Tool;

/// The tool that blocks a user, once a session (`docs/policies.md`, "Limits that are not a turn's").
pub(crate) const BLOCKING_TOOL: &str = "ignore_user";

pub(crate) fn check(
    spent: &TurnSummary,
    limits: &TurnLimits,
    mode: Mode,
    category: Category,
) -> Result<(), CallError> {
    if spent.calls >= limits.calls_max {
        return Err(CallError::new(
            ErrorType::BudgetExceeded,
            format!(
                "no more than {} tool calls in one {} turn",
                limits.calls_max,
                mode.as_str()
            ),
        ));
    }
    if category == Category::Retrieval && spent.retrieval_calls >= limits.retrieval_calls_max {
        return Err(CallError::new(
            ErrorType::BudgetExceeded,
            format!(
                "no more than {} retrieval calls in one {} turn",
                limits.retrieval_calls_max,
                mode.as_str()
            ),
        ));
    }
    Ok(())
}

/// The caps of tools that may change something although external content is in the model's context: one block a session, one ticket a
/// turn (`docs/policies.md`, "Limits that are not a turn's").
pub(crate) fn check_cap(
    tool: &Tool,
    blocks_in_session: u32,
    history: &LoopHistory,
) -> Result<(), CallError> {
    let refused = |span| {
        Err(CallError::new(
            ErrorType::BudgetExceeded,
            format!("{} runs once a {span}", tool.id),
        ))
    };
    match tool.id.as_str() {
        BLOCKING_TOOL if blocks_in_session >= 1 => refused("session"),
        "escalate" if history.count(&tool.id) >= 1 => refused("turn"),
        _ => Ok(()),
    }
}
