//! Step 9: a model that goes round in circles is told so instead of being served again.

use serde_json::{Map, Value};
use std::sync::Arc;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::id::ToolId;

/// The contract's section 13: the third identical call, the next call after two empty results.
const SAME_CALLS_MAX: usize = 2;
const EMPTY_RESULTS_MAX: u32 = 2;

/// Calls and empty results remembered per turn. Budgets keep turns far below it; tools that cost no budget must not
/// grow it without end.
const ENTRIES_MAX: usize = 64;

/// What one turn's calls have been.
#[derive(Debug, Default)]
pub(crate) struct LoopHistory {
    calls: Vec<(ToolId, Arc<Map<String, Value>>)>,
    empty: Vec<(ToolId, u32)>,
}

impl LoopHistory {
    pub(crate) fn check(
        &self,
        tool: &ToolId,
        arguments: &Map<String, Value>,
    ) -> Result<(), CallError> {
        let same = self
            .calls
            .iter()
            .filter(|(id, seen)| id == tool && **seen == *arguments)
            .count();
        if same >= SAME_CALLS_MAX || self.calls.len() >= ENTRIES_MAX {
            return Err(CallError::new(
                ErrorType::LoopDetected,
                format!(
                    "{tool} was already called {same} times with the same arguments in this turn"
                ),
            )
            .with_suggestion(
                "Use the results you have, ask for something else, or answer the user.",
            ));
        }
        let empty = self
            .empty
            .iter()
            .find(|(id, _)| id == tool)
            .map_or(0, |(_, count)| *count);
        if empty >= EMPTY_RESULTS_MAX {
            return Err(CallError::new(
                ErrorType::LoopDetected,
                format!("{tool} has returned nothing {empty} times in this turn"),
            )
            .with_suggestion(
                "What you look for is probably not there. Say so, or ask the user for other words.",
            ));
        }
        Ok(())
    }

    /// How often a tool was called.
    pub(crate) fn count(&self, tool: &ToolId) -> usize {
        self.calls.iter().filter(|(id, _)| id == tool).count()
    }

    pub(crate) fn called(&mut self, tool: &ToolId, arguments: &Arc<Map<String, Value>>) {
        self.calls.push((tool.clone(), arguments.clone()));
    }

    pub(crate) fn returned_nothing(&mut self, tool: &ToolId) {
        match self.empty.iter_mut().find(|(id, _)| id == tool) {
            Some((_, count)) => *count += 1,
            None => self.empty.push((tool.clone(), 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn arguments(query: &str) -> Arc<Map<String, Value>> {
        Arc::new(json!({ "query": query }).as_object().unwrap().clone())
    }

    #[test]
    fn the_third_identical_call_and_the_call_after_two_empty_results_are_loops() {
        let tool = ToolId::parse("kb_search").unwrap();
        let other = ToolId::parse("kb_get").unwrap();
        let mut history = LoopHistory::default();
        for _ in 0..2 {
            assert!(history.check(&tool, &arguments("fram")).is_ok());
            history.called(&tool, &arguments("fram"));
        }
        let error = history.check(&tool, &arguments("fram")).unwrap_err();
        assert_eq!(error.error_type, ErrorType::LoopDetected);
        assert!(history.check(&tool, &arguments("maud")).is_ok());
        assert!(history.check(&other, &arguments("fram")).is_ok());

        history.returned_nothing(&tool);
        assert!(history.check(&tool, &arguments("maud")).is_ok());
        history.returned_nothing(&tool);
        assert!(history.check(&tool, &arguments("maud")).is_err());
        assert!(history.check(&other, &arguments("fram")).is_ok());
    }
}
