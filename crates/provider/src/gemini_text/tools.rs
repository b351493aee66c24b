//! The tools of a request as text, joined once for every session of one registry, mode and model.

use crate::provider_tools::{ProviderTool, beside};
use serde_json::value::RawValue;
use std::sync::Arc;
use windlass_contract::registry::Tool;
use windlass_session::model::{DeclarationForm, ModelProfile};

const OPENING: &str = r#"[{"functionDeclarations":["#;
const CLOSING: &str = "]}]";

/// Declarations, ready to be copied into a request. Make it once and share it.
#[derive(Clone, Debug, Default)]
pub struct DeclaredTools {
    list: Option<Arc<RawValue>>,
    /// Whether the list holds both functions and tools of the provider.
    is_mixed: bool,
}

impl DeclaredTools {
    pub fn new<'t>(tools: impl IntoIterator<Item = &'t Arc<Tool>>, profile: &ModelProfile) -> Self {
        let mut text = String::from(OPENING);
        for tool in tools {
            let declaration = match profile.declaration {
                DeclarationForm::GeminiJson => &tool.declarations.gemini_json,
                // The declaration forms of other providers do not apply here.
                DeclarationForm::GeminiNative
                | DeclarationForm::Openai
                | DeclarationForm::OpenaiRealtime => &tool.declarations.gemini_native,
            };
            if text.len() > OPENING.len() {
                text.push(',');
            }
            text.push_str(declaration.get());
        }
        if text.len() == OPENING.len() {
            return Self::default();
        }
        text.push_str(CLOSING);
        let text = RawValue::from_string(text).expect("declarations are JSON, joined as JSON");
        Self {
            list: Some(text.into()),
            is_mixed: false,
        }
    }

    /// Adds the provider's own tools.
    pub fn beside(self, own: &[ProviderTool]) -> Self {
        Self {
            is_mixed: self.list.is_some() && !own.is_empty(),
            list: beside(self.list, own, ProviderTool::declaration),
        }
    }

    /// The declarations as they are sent, for estimating their share of the context; empty without tools.
    pub fn text(&self) -> &str {
        self.list.as_ref().map_or("", |text| text.get())
    }

    pub(super) fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    pub(super) fn raw(&self) -> Option<&RawValue> {
        self.list.as_deref()
    }
}
