//! Steps 5 and 6: arguments are completed with their defaults, checked against the whole schema, and clamped. What comes
//! out always satisfies the schema.

use serde_json::{Map, Number, Value, json};
use std::sync::Arc;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::kind::Category;
use windlass_tool::registry::Tool;
use windlass_tool::validate::Violation;

/// How many violations the message itself names; all of them are in the details.
const VIOLATIONS_NAMED: usize = 3;

/// Arguments with their defaults and clamps, and what those changed: from two that are equal, equal ones were given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Completed {
    pub(crate) arguments: Arc<Map<String, Value>>,
    pub(crate) defaults_applied: Arc<[Arc<str>]>,
    pub(crate) clamped: Option<Clamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clamp {
    pub(crate) argument: Arc<str>,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// Completes the arguments, and says whether they satisfied the schema before they were clamped.
pub(crate) fn complete(
    tool: &Tool,
    mut arguments: Map<String, Value>,
    top_k_max: i64,
) -> (Completed, Result<(), CallError>) {
    let defaults_applied = tool.parameters.apply_defaults(&mut arguments);
    let violations = tool.parameters.argument_violations(&arguments);
    let verdict = if violations.is_empty() {
        Ok(())
    } else {
        Err(refusal(&violations))
    };
    arguments.values_mut().for_each(settle_integers);
    let clamped = clamp(tool, &mut arguments, top_k_max);
    let completed = Completed {
        arguments: Arc::new(arguments),
        defaults_applied: defaults_applied.into(),
        clamped,
    };
    (completed, verdict)
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
    let allowed: Vec<&str> = violations
        .iter()
        .flat_map(|violation| &violation.allowed)
        .map(String::as_str)
        .collect();
    if allowed.is_empty() {
        error
    } else {
        error.with_suggestion(format!(
            "The names that are allowed: {}.",
            allowed.join(", ")
        ))
    }
}

/// JSON knows one kind of number; `3.0` is the integer 3, for handlers and for every comparison of arguments.
fn settle_integers(value: &mut Value) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => {
            let whole = number
                .as_f64()
                .filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT);
            if let Some(integer) = whole.and_then(|float| format!("{float:.0}").parse::<i64>().ok())
            {
                *number = Number::from(integer);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle_integers),
        Value::Object(map) => map.values_mut().for_each(settle_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn clamp(tool: &Tool, arguments: &mut Map<String, Value>, top_k_max: i64) -> Option<Clamp> {
    if tool.category != Category::Retrieval {
        return None;
    }
    let top_k = arguments.get_mut("top_k")?;
    let from = top_k.as_i64().filter(|from| *from > top_k_max)?;
    *top_k = Value::from(top_k_max);
    Some(Clamp {
        argument: "top_k".into(),
        from,
        to: top_k_max,
    })
}
