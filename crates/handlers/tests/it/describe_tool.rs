//! Guides on demand.

use crate::bench::{Bench, CallOutcome, admitted, check_response, reported};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_contract::error::FailureKind;
use windlass_contract::kind::Mode;
use windlass_handlers::describe_tool::SCHEMA;

fn describe(guides: &[(&str, &str)], tool_id: &str) -> CallOutcome {
    let guides: BTreeMap<String, String> = guides
        .iter()
        .map(|(id, guide)| ((*id).to_owned(), (*guide).to_owned()))
        .collect();
    let handler = windlass_handlers::describe_tool(Arc::new(guides));
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let arguments = admitted(&schema, json!({"tool_id": tool_id}));
    let result = Bench::new(Mode::Voice).execute(&*handler, "describe_tool", arguments);
    check_response(&schema, &result);
    result
}

#[test]
fn a_known_tool_is_described_by_its_whole_guide() {
    let success = describe(
        &[("kb_get", "# kb_get\nFetches."), ("kb_search", "x")],
        "kb_get",
    );
    assert_eq!(
        success.unwrap().data.unwrap(),
        json!({"tool_id": "kb_get", "guide": "# kb_get\nFetches."})
    );
}

#[test]
fn an_unknown_tool_is_answered_with_the_nearest_name() {
    let guides = [("ignore_user", "x"), ("kb_get", "x"), ("kb_search", "x")];
    let report = reported(*describe(&guides, "kb_serch").unwrap_err());
    assert_eq!(report.kind, FailureKind::NotFound);
    assert!(report.suggestion.unwrap().contains("kb_search"));
    let report = reported(*describe(&[], "kb_serch").unwrap_err());
    assert_eq!(report.suggestion, None);
}
