//! The tools of a request as text, joined once for every session of one registry and mode.

use crate::provider_tools::{ProviderTool, beside};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;
use windlass_contract::registry::Tool;

/// Declarations, ready to be copied into a request. Make it once and share it.
#[derive(Clone, Debug, Default)]
pub struct DeclaredTools {
    list: Option<Arc<RawValue>>,
    /// Whether there are functions among them, and not the service's own tools alone.
    has_functions: bool,
}

/// The same words and the same schema as in `generateContent`, under other names.
#[derive(Deserialize)]
struct Passed<'a> {
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "parametersJsonSchema")]
    parameters: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Function<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a RawValue>,
}

impl DeclaredTools {
    pub fn new<'t>(tools: impl IntoIterator<Item = &'t Arc<Tool>>) -> Self {
        let declarations: Vec<String> = tools
            .into_iter()
            .map(|tool| {
                let text = tool.declarations.gemini_json.get();
                let passed: Passed<'_> =
                    serde_json::from_str(text).expect("a declaration is an object with a name");
                let function = Function {
                    kind: "function",
                    name: passed.name,
                    description: passed.description,
                    parameters: passed.parameters,
                };
                serde_json::to_string(&function).expect("JSON values always serialize")
            })
            .collect();
        if declarations.is_empty() {
            return Self::default();
        }
        let text = RawValue::from_string(format!("[{}]", declarations.join(",")))
            .expect("declarations are JSON, joined as JSON");
        Self {
            list: Some(text.into()),
            has_functions: true,
        }
    }

    /// Adds the provider's own tools.
    pub fn beside(self, own: &[ProviderTool]) -> Self {
        Self {
            list: beside(self.list, own, ProviderTool::typed_declaration),
            ..self
        }
    }

    /// The declarations as they are sent, for estimating their share of the context; empty without tools.
    pub fn text(&self) -> &str {
        self.list.as_ref().map_or("", |text| text.get())
    }

    pub(super) fn has_functions(&self) -> bool {
        self.has_functions
    }

    pub(super) fn raw(&self) -> Option<&RawValue> {
        self.list.as_deref()
    }
}
