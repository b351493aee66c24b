//! Tools whose files are part of the program: compiled by the same rules as directories, one at a time. Knows no folder.

use super::handled;
use crate::artifact::{Entry, HandlerCode, tool};
use crate::manifest::Named;
use crate::problem::{Problem, Report, Severity};
use crate::{dialect, guide, manifest};
use std::sync::Arc;
use windlass_contract::condition::Values;
use windlass_contract::handler::Handler;
use windlass_contract::registry::Tool;
use windlass_contract::validate::Validator;

/// The replacement for a directory's name. It gives no tool an id.
const BUILT_IN: &str = "(built in)";

/// Makes a tool of the texts of its `schema.json` and its `guide.md`.
///
/// # Errors
///
/// All problems of the two texts, if one of them is an error.
pub fn compile_embedded(
    schema: &str,
    guide: &str,
    handler: Arc<dyn Handler>,
) -> Result<Tool, Vec<Problem>> {
    let mut report = Report::new(BUILT_IN, "schema.json", schema);
    let named = Named {
        tool: BUILT_IN,
        version: None,
    };
    let readable = manifest::read(schema, named, |_| true, &mut report);
    let schema = readable.parameters.as_ref();
    manifest::conditions::check(&readable, schema, Values::none(), &mut report);
    if let (Some(id), Some(parameters), Some(reads)) =
        (&readable.tool_id, &readable.parameters, handler.reads())
    {
        handled::compare(id, &reads, parameters, &mut report);
    }
    let declarations = dialect::declare(&readable, &mut report);
    let mut problems = report.into_problems();
    let parameters = readable
        .parameters
        .as_ref()
        .and_then(|parameters| Validator::compile(parameters).ok());
    let mut report = Report::new(BUILT_IN, "guide.md", "");
    let guide = guide::read(guide, parameters.as_ref(), &mut report);
    problems.extend(report.into_problems());
    let is_sound = problems
        .iter()
        .all(|problem| problem.severity != Severity::Error);
    match (readable.whole(), declarations, guide) {
        (Some(manifest), Some(declarations), Some(guide)) if is_sound => {
            let entry = Entry {
                manifest,
                declarations,
                guide,
                handler: HandlerCode::Builtin,
                is_beside: false,
            };
            Ok(tool(entry, handler))
        }
        _ => Err(problems),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_contract::handler::{Execution, Invocation, Success};

    struct Silent;

    impl Handler for Silent {
        fn execute(&self, _: Invocation) -> Execution {
            Execution::Ready(Ok(Success::default()))
        }
    }

    const SCHEMA: &str = r#"{
        "toolId": "describe", "version": "1.0.0", "description": "Describes.", "category": "utility",
        "sideEffects": "none", "idempotent": true, "requiresConfirmation": false, "allowedModes": ["text"],
        "latencyBudgetMs": 100,
        "parameters": {"type": "object", "additionalProperties": false, "properties": {}}
    }"#;

    #[test]
    fn texts_of_the_program_are_compiled_by_the_rules_for_directories() {
        let tool =
            compile_embedded(SCHEMA, "# Describe\n\nDescribes.\n", Arc::new(Silent)).unwrap();
        assert_eq!(
            (tool.id.as_str(), tool.summary.as_str()),
            ("describe", "Describes.")
        );
        let wrong = SCHEMA.replace("\"utility\"", "\"gadget\"");
        let problems = compile_embedded(&wrong, "Describes.\n", Arc::new(Silent)).unwrap_err();
        assert!(
            problems
                .iter()
                .any(|problem| problem.message.contains("gadget")),
            "{problems:?}"
        );
    }
}
