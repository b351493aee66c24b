//! Step 8: the hard budgets of a turn. They count calls, not time, and nothing loosens them.

use crate::event::TurnSummary;
use crate::limits::TurnLimits;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::kind::{Category, Mode};

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
