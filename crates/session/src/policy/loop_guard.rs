//! Step 9: a model that repeats itself is told so instead of being served again.

use crate::facts::CallFacts;
use crate::hash::BuildQuickHasher;
use crate::limits::TurnLimits;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::id::ToolId;
use windlass_contract::registry::DESCRIBE_TOOL;
use windlass_contract::sensitive::Sensitive;

/// The third identical call and the next call after two empty results are refused (`docs/policies.md`, "Loops").
const SAME_CALLS_MAX: usize = 2;
const EMPTY_RESULTS_MAX: u32 = 2;

/// The number of calls remembered per turn, or the turn's budget if that is more. Only calls that cost no budget can exceed it; the
/// oldest of them are forgotten.
const ENTRIES_MIN: usize = 64;

fn entries_max(limits: &TurnLimits) -> usize {
    usize::try_from(limits.calls_max).map_or(usize::MAX, |calls_max| calls_max.max(ENTRIES_MIN))
}

/// The calls of one turn.
#[derive(Debug, Default)]
pub(crate) struct LoopHistory {
    calls: Vec<Seen>,
    empty: Vec<(ToolId, u32)>,
}

/// Arguments of a call, as others are given them.
type SavedArguments = Sensitive<Arc<Arguments>>;

/// The saved form of the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedLoops {
    calls: Vec<(ToolId, SavedArguments)>,
    empty: Vec<(ToolId, u32)>,
}

impl SavedLoops {
    pub(crate) fn tools(&self) -> impl Iterator<Item = &ToolId> {
        self.calls.iter().map(|(tool, _)| tool)
    }

    pub(crate) fn note(&mut self, tool: ToolId, arguments: SavedArguments) {
        self.calls.push((tool, arguments));
    }

    pub(crate) fn arguments_mut(&mut self) -> impl Iterator<Item = (&ToolId, &mut SavedArguments)> {
        self.calls
            .iter_mut()
            .map(|(tool, arguments)| (&*tool, arguments))
    }
}

/// One call as the guard remembers it.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Tells most other arguments without a look at all of them.
    sketch: u64,
    call: SeenCall,
}

#[derive(Debug)]
enum SeenCall {
    Called(Arc<CallFacts>),
    /// A call of the session before this one, whose process has ended.
    Saved(ToolId, SavedArguments),
}

impl Seen {
    pub(crate) fn of(facts: &Arc<CallFacts>) -> Self {
        Self {
            sketch: sketch(facts.arguments().expose()),
            call: SeenCall::Called(facts.clone()),
        }
    }

    fn saved(tool: ToolId, arguments: SavedArguments) -> Self {
        Self {
            sketch: sketch(arguments.expose()),
            call: SeenCall::Saved(tool, arguments),
        }
    }

    fn tool(&self) -> &ToolId {
        match &self.call {
            SeenCall::Called(facts) => &facts.tool().id,
            SeenCall::Saved(tool, _) => tool,
        }
    }

    fn arguments(&self) -> &SavedArguments {
        match &self.call {
            SeenCall::Called(facts) => facts.arguments(),
            SeenCall::Saved(_, arguments) => arguments,
        }
    }

    fn is_same_as(&self, other: &Self) -> bool {
        self.sketch == other.sketch
            && self.tool() == other.tool()
            && self.arguments() == other.arguments()
    }
}

/// A hash of the top level, where calls differ most; equal for equal arguments, and the same on every run.
fn sketch(arguments: &Arguments) -> u64 {
    let mut hasher = BuildQuickHasher::default().build_hasher();
    arguments.hash_top(&mut hasher);
    hasher.finish()
}

impl LoopHistory {
    pub(crate) fn check(&self, call: &Seen) -> Result<(), CallError> {
        let tool = call.tool();
        let same = self
            .calls
            .iter()
            .filter(|seen| seen.is_same_as(call))
            .count();
        if same >= SAME_CALLS_MAX {
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
        self.calls.iter().filter(|seen| seen.tool() == tool).count()
    }

    pub(crate) fn called(&mut self, call: Seen, limits: &TurnLimits) {
        if self.calls.len() >= entries_max(limits) {
            let mut calls = self.calls.iter();
            let free = calls.position(|seen| seen.tool().as_str() == DESCRIBE_TOOL);
            self.calls.remove(free.unwrap_or(0));
        }
        self.calls.push(call);
    }

    /// The history of a new turn, in the memory of a discarded one.
    pub(crate) fn renewed(mut self) -> Self {
        self.calls.clear();
        self.empty.clear();
        self
    }

    /// The calls and the empty results, in their order.
    pub(crate) fn saved(&self) -> SavedLoops {
        let calls = self.calls.iter();
        SavedLoops {
            calls: calls
                .map(|seen| (seen.tool().clone(), seen.arguments().clone()))
                .collect(),
            empty: self.empty.clone(),
        }
    }

    pub(crate) fn restored(saved: SavedLoops, limits: &TurnLimits) -> Self {
        let forgotten = saved.calls.len().saturating_sub(entries_max(limits));
        let calls = saved.calls.into_iter().skip(forgotten);
        Self {
            calls: calls
                .map(|(tool, arguments)| Seen::saved(tool, arguments))
                .collect(),
            empty: saved.empty,
        }
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

    fn call(tool: &ToolId, query: &str) -> Seen {
        let arguments = json!({ "query": query }).as_object().unwrap().clone();
        Seen::saved(tool.clone(), Sensitive(Arc::new(arguments.into())))
    }

    #[test]
    fn the_third_identical_call_and_the_call_after_two_empty_results_are_loops() {
        let tool = ToolId::parse("kb_search").unwrap();
        let other = ToolId::parse("kb_get").unwrap();
        let mut history = LoopHistory::default();
        for _ in 0..2 {
            assert!(history.check(&call(&tool, "fram")).is_ok());
            history.called(call(&tool, "fram"), &TurnLimits::default());
        }
        let error = history.check(&call(&tool, "fram")).unwrap_err();
        assert_eq!(error.error_type, ErrorType::LoopDetected);
        assert!(history.check(&call(&tool, "maud")).is_ok());
        assert!(history.check(&call(&other, "fram")).is_ok());

        history.returned_nothing(&tool);
        assert!(history.check(&call(&tool, "maud")).is_ok());
        history.returned_nothing(&tool);
        assert!(history.check(&call(&tool, "maud")).is_err());
        assert!(history.check(&call(&other, "fram")).is_ok());
    }

    #[test]
    fn an_equal_sketch_alone_makes_no_loop() {
        let tool = ToolId::parse("kb_search").unwrap();
        let mut history = LoopHistory::default();
        let forged = call(&tool, "maud").sketch;
        for _ in 0..2 {
            let other = Seen {
                sketch: forged,
                ..call(&tool, "fram")
            };
            history.called(other, &TurnLimits::default());
        }
        assert!(history.check(&call(&tool, "maud")).is_ok());
    }

    #[test]
    fn what_costs_no_budget_is_forgotten_first_and_nothing_is_a_loop_because_much_was_called() {
        let limits = TurnLimits {
            calls_max: 70,
            ..TurnLimits::default()
        };
        let (free, tool) = (DESCRIBE_TOOL, "kb_search");
        let (free, tool) = (ToolId::parse(free).unwrap(), ToolId::parse(tool).unwrap());
        let mut history = LoopHistory::default();
        history.called(call(&free, "kb_get"), &limits);
        for number in 0..70 {
            let distinct = call(&tool, &number.to_string());
            assert!(history.check(&distinct).is_ok(), "{number}");
            history.called(distinct, &limits);
        }
        assert_eq!((history.count(&free), history.count(&tool)), (0, 70));
        let restored = LoopHistory::restored(history.saved(), &TurnLimits::default());
        assert_eq!(restored.count(&tool), ENTRIES_MIN);
        assert!(
            restored
                .calls
                .iter()
                .any(|seen| seen.is_same_as(&call(&tool, "69")))
        );
    }
}
