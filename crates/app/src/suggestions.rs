//! The questions that the page offers in an empty conversation: those of the demo's knowledge base where it is served, otherwise one
//! for each tool that only reads. Knows no session.

use crate::knowledge::LiveKnowledge;
use crate::provider::Choice;
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_contract::handler::{GetRequest, Knowledge};
use windlass_contract::id::UserId;
use windlass_contract::registry::{Registry, Tool};
use windlass_contract::rights::Rights;
use windlass_sim::demo;

const SUGGESTIONS_MAX: usize = 6;
/// A longer example is not offered: people would not click it.
const CHARACTERS_MAX: usize = 120;

/// Only the records of the demo's knowledge base answer the demo's own questions.
pub(crate) async fn suggestions(
    choice: Choice,
    knowledge: &LiveKnowledge,
    registry: &Registry,
) -> Vec<String> {
    if choice != Choice::Demo {
        return of_tools(registry);
    }
    let record = GetRequest {
        id: demo::RECORD.to_owned(),
        namespace: None,
        reader: UserId::new("anonymous").into(),
    };
    match knowledge.get(record).await {
        Ok(Ok(_)) => demo::SUGGESTIONS.iter().map(|&text| text.into()).collect(),
        // It follows the examples of guides, too.
        _ => of_tools(registry),
    }
}

/// The first example of each tool that everybody may use and that changes nothing: a click is no order.
fn of_tools(registry: &Registry) -> Vec<String> {
    let harmless = |tool: &&Arc<Tool>| {
        let is_for_all = tool.permissions.allow(&Rights::Anonymous) && tool.availability.is_none();
        !tool.writes() && is_for_all
    };
    let tools = registry.tools().filter(harmless);
    distinct(tools.filter_map(|tool| first_example(&tool.documentation)))
}

/// The first of them, each once: two tools may give the same example.
fn distinct(examples: impl Iterator<Item = String>) -> Vec<String> {
    let mut known = BTreeSet::new();
    let new = examples.filter(|example| known.insert(example.trim().to_lowercase()));
    new.take(SUGGESTIONS_MAX).collect()
}

/// The user's words in the first example of a guide: a line that is bold and in quotation marks.
fn first_example(documentation: &str) -> Option<String> {
    let said = documentation.lines().find_map(|line| {
        let bold = line.trim().strip_prefix("**")?.strip_suffix("**")?;
        bold.strip_prefix(['"', '“'])?.strip_suffix(['"', '”'])
    })?;
    let is_short = !said.is_empty() && said.chars().count() <= CHARACTERS_MAX;
    is_short.then(|| said.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_of_two_tools_is_offered_once() {
        let examples = ["Who?", "What?", "who? ", "Where?"];
        let offered = distinct(examples.into_iter().map(str::to_owned));
        assert_eq!(offered, ["Who?", "What?", "Where?"]);
        let many = (0..10).map(|number| format!("{}?", number / 2));
        assert_eq!(distinct(many), ["0?", "1?", "2?", "3?", "4?"]);
    }

    #[test]
    fn an_example_is_a_bold_line_in_quotation_marks() {
        let long = format!("**\"{}\"**", "x".repeat(200));
        for (guide, expected) in [
            (
                "# a\n\n**Note**\n\n**\"Who?\"**\n\n**\"What?\"**",
                Some("Who?"),
            ),
            ("**“Where is it?”**", Some("Where is it?")),
            ("\"Who?\"\n**Who?**\n**\"Who?**", None),
            ("**\"\"**", None),
            (&long, None),
            ("", None),
        ] {
            assert_eq!(first_example(guide).as_deref(), expected, "{guide}");
        }
    }
}
