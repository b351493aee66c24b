//! The tool that a model probably meant by a name that no tool has.

use std::sync::Arc;
use windlass_compile::compile_embedded;
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::registry::Registry;

struct Silent;

impl Handler for Silent {
    fn execute(&self, _: Invocation) -> Execution {
        Execution::Ready(Ok(Success::default()))
    }
}

#[test]
fn the_nearest_tool_is_found_behind_capitals_and_namespaces() {
    let tool = |id: &str| {
        let schema = format!(
            r#"{{"toolId": "{id}", "version": "1.0.0", "description": "x", "category": "utility",
            "sideEffects": "none", "idempotent": true, "requiresConfirmation": false, "allowedModes": ["text"],
            "latencyBudgetMs": 100, "parameters": {{"type": "object", "additionalProperties": false}}}}"#
        );
        compile_embedded(&schema, "# A\n\nDoes.\n", Arc::new(Silent)).unwrap()
    };
    let registry = Registry::new("1", None, vec![tool("kb_get"), tool("kb_search")]);
    for (name, expected) in [
        ("kb_serch", Some("kb_search")),
        ("KB_GET", Some("kb_get")),
        ("functions.kb_get", Some("kb_get")),
        ("default_api:kb-search", Some("kb_search")),
        ("tools/KbGet", Some("kb_get")),
        ("order_pizza", None),
        ("functions.", None),
        ("", None),
    ] {
        let nearest = registry.nearest(name, |_| true).map(|id| id.as_str());
        assert_eq!(nearest, expected, "{name}");
    }
}
