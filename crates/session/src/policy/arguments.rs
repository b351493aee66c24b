//! Steps 5 and 6: a null without a meaning is left out, arguments are completed with their defaults, checked against the whole schema,
//! and clamped. The result always satisfies the schema.

use crate::facts::{Clamp, Completed};
use serde_json::json;
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::kind::Category;
use windlass_contract::number;
use windlass_contract::registry::Tool;
use windlass_contract::sensitive::Sensitive;
use windlass_contract::validate::Violation;

/// The number of violations that the message itself names; all of them are in the details.
const VIOLATIONS_NAMED: usize = 3;

/// Completes the arguments, and says whether they satisfied the schema before they were clamped.
pub(crate) fn complete(
    tool: &Tool,
    mut arguments: Arguments,
    top_k_max: i64,
) -> (Completed, Result<(), CallError>) {
    // No huge number is ever computed with.
    let nulls_left_out = match number::unbearable(&arguments) {
        Some(_) => Arc::default(),
        None => tool.parameters.leave_out_nulls(&mut arguments),
    };
    let defaults_applied = tool.parameters.apply_defaults(&mut arguments);
    let verdict = judge(tool, &arguments);
    let clamped = clamp(tool, &mut arguments, top_k_max);
    let completed = Completed {
        arguments: Sensitive(Arc::new(arguments)),
        defaults_applied,
        nulls_left_out,
        clamped,
    };
    (completed, verdict)
}

/// Whether the arguments satisfy the schema, and reach the handler as they were written.
pub(crate) fn judge(tool: &Tool, arguments: &Arguments) -> Result<(), CallError> {
    // First, so that no huge number is ever computed with.
    if let Some((pointer, message)) = number::unbearable(arguments) {
        return Err(refusal(&[violation(pointer, message)]));
    }
    let violations = tool.parameters.argument_violations(arguments);
    if !violations.is_empty() {
        return Err(refusal(&violations));
    }
    match number::changed(arguments, tool.handler.numbers()) {
        Some(pointer) => Err(refusal(&[violation(pointer, CHANGED.to_owned())])),
        None => Ok(()),
    }
}

/// The refusal of a number that would run with another value than the one shown.
const CHANGED: &str = "the handler's language would change this number, because it has doubles only: declare the argument as a \
                       string in the tool's schema.json";

fn violation(pointer: String, message: String) -> Violation {
    Violation {
        pointer,
        message,
        allowed: Vec::new(),
    }
}

fn refusal(violations: &[Violation]) -> CallError {
    let named: Vec<String> = violations
        .iter()
        .take(VIOLATIONS_NAMED)
        .map(|violation| {
            let place = if violation.pointer.is_empty() {
                "arguments"
            } else {
                &violation.pointer
            };
            format!("{place}: {}", violation.message)
        })
        .collect();
    let rest = violations.len().saturating_sub(VIOLATIONS_NAMED);
    let more = if rest > 0 {
        format!("; and {rest} more")
    } else {
        String::new()
    };
    let error = CallError::new(ErrorType::Validation, format!("{}{more}", named.join("; ")))
        .with_details(json!({ "errors": violations }));
    let mut allowed: Vec<&str> = Vec::new();
    for name in violations.iter().flat_map(|violation| &violation.allowed) {
        if !allowed.contains(&name.as_str()) {
            allowed.push(name);
        }
    }
    if allowed.is_empty() {
        error
    } else {
        error.with_suggestion(format!(
            "The names that are allowed: {}.",
            allowed.join(", ")
        ))
    }
}

fn clamp(tool: &Tool, arguments: &mut Arguments, top_k_max: i64) -> Option<Clamp> {
    if tool.category != Category::Retrieval {
        return None;
    }
    let from = arguments
        .integer("top_k")
        .filter(|from| *from > top_k_max)?;
    arguments.replace_integer("top_k", top_k_max);
    Some(Clamp {
        argument: "top_k".into(),
        from,
        to: top_k_max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_allowed_are_told_once() {
        let unknown = |name: &str, allowed: [&str; 2]| Violation {
            pointer: format!("/{name}"),
            message: format!("there is no argument named `{name}`"),
            allowed: allowed.map(str::to_owned).to_vec(),
        };
        let error = refusal(&[
            unknown("x", ["limit", "query"]),
            unknown("y", ["limit", "query"]),
            unknown("z", ["lang", "limit"]),
        ]);
        assert_eq!(
            error.suggestion.as_deref(),
            Some("The names that are allowed: limit, query, lang.")
        );
    }
}
