//! `describe_tool`: returns a tool's guide, for prompts that hold summaries in place of guides. Knows the guides that it
//! was given and nothing of the registry they come from.

use crate::arguments::read;
use crate::outcome::{Outcome, ready};
use serde::Deserialize;
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Execution, Handler, Invocation, Placement, Report, Success};
use windlass_contract::wording::edit_distance;

/// The tool's `schema.json`. It has no directory, since it is declared only to sessions whose prompt holds summaries.
pub const SCHEMA: &str = include_str!("describe_tool/schema.json");

/// The tool's `guide.md`.
pub const GUIDE: &str = include_str!("describe_tool/guide.md");

/// A handler that describes the tools whose guides are given, by tool id.
pub fn describe_tool(guides: Arc<BTreeMap<String, String>>) -> Arc<dyn Handler> {
    Arc::new(Describer { guides })
}

struct Describer {
    guides: Arc<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    tool_id: Cow<'a, str>,
}

impl Handler for Describer {
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn execute(&self, invocation: Invocation) -> Execution {
        ready(self.describe(&invocation))
    }
}

impl Describer {
    fn describe(&self, invocation: &Invocation) -> Outcome {
        let arguments: Arguments<'_> = read(&invocation.arguments)?;
        let tool_id = &*arguments.tool_id;
        match self.guides.get(tool_id) {
            Some(guide) => Ok(Success::new(json!({"tool_id": tool_id, "guide": guide}))),
            None => Err(self.unknown(tool_id)),
        }
    }

    fn unknown(&self, tool_id: &str) -> Box<Report> {
        let nearest = self
            .guides
            .keys()
            .min_by_key(|known| edit_distance(known, tool_id));
        Box::new(Report {
            suggestion: nearest.map(|nearest| format!("The nearest name is {nearest}.")),
            ..Report::new(
                FailureKind::NotFound,
                format!("there is no tool {tool_id:?}"),
            )
        })
    }
}
