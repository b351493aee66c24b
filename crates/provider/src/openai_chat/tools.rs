//! The tools of a request as text, joined once for every session of one registry and mode.

use serde_json::value::RawValue;
use std::sync::Arc;
use windlass_contract::registry::Tool;

/// Declarations, ready to be copied into a request. Make it once and share it.
#[derive(Clone, Debug, Default)]
pub struct DeclaredTools(Option<Arc<RawValue>>);

impl DeclaredTools {
    pub fn new<'t>(tools: impl IntoIterator<Item = &'t Arc<Tool>>) -> Self {
        let mut text = String::from("[");
        for tool in tools {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(tool.declarations.openai.get());
        }
        if text.len() == 1 {
            return Self(None);
        }
        text.push(']');
        let text = RawValue::from_string(text).expect("declarations are JSON, joined as JSON");
        Self(Some(text.into()))
    }

    /// The declarations as they are sent, for estimating their share of the context; empty without tools.
    pub fn text(&self) -> &str {
        self.0.as_ref().map_or("", |text| text.get())
    }

    pub(super) fn raw(&self) -> Option<&RawValue> {
        self.0.as_deref()
    }
}
