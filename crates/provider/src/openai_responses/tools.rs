//! The tools of a request as text, joined once for every session of one registry and mode.

use crate::provider_tools::{ProviderTool, beside};
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use windlass_contract::registry::Tool;

/// Declarations, ready to be copied into a request. Make it once and share it.
#[derive(Clone, Debug, Default)]
pub struct DeclaredTools(Option<Arc<RawValue>>);

/// Turns the service's strict mode off. By default it tries to make a schema strict, and an optional parameter becomes one that
/// may be null.
#[derive(Serialize)]
struct Lenient<'a> {
    #[serde(flatten)]
    declaration: &'a serde_json::Map<String, serde_json::Value>,
    strict: bool,
}

impl DeclaredTools {
    pub fn new<'t>(tools: impl IntoIterator<Item = &'t Arc<Tool>>) -> Self {
        let declarations: Vec<String> = tools
            .into_iter()
            .map(|tool| {
                // The form is flat, as in Realtime.
                let text = tool.declarations.openai_realtime.get();
                let declaration =
                    serde_json::from_str(text).expect("a declaration is a JSON object");
                let lenient = Lenient {
                    declaration: &declaration,
                    strict: false,
                };
                serde_json::to_string(&lenient).expect("JSON values always serialize")
            })
            .collect();
        if declarations.is_empty() {
            return Self(None);
        }
        let text = RawValue::from_string(format!("[{}]", declarations.join(",")))
            .expect("declarations are JSON, joined as JSON");
        Self(Some(text.into()))
    }

    /// Adds the provider's own tools.
    pub fn beside(self, own: &[ProviderTool]) -> Self {
        Self(beside(self.0, own, ProviderTool::declaration))
    }

    /// The declarations as they are sent, for estimating their share of the context; empty without tools.
    pub fn text(&self) -> &str {
        self.0.as_ref().map_or("", |text| text.get())
    }

    pub(super) fn raw(&self) -> Option<&RawValue> {
        self.0.as_deref()
    }
}
