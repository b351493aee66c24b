//! The tools of a request as text, joined once for every session of one registry, mode and model.

use serde_json::value::RawValue;
use std::sync::Arc;
use windlass_session::model::{DeclarationForm, ModelProfile};
use windlass_tool::registry::Tool;

const OPENING: &str = r#"[{"functionDeclarations":["#;
const CLOSING: &str = "]}]";

/// Declarations, ready to be copied into a request. Make it once and share it.
#[derive(Clone, Debug, Default)]
pub struct DeclaredTools(Option<Arc<RawValue>>);

impl DeclaredTools {
    pub fn new<'t>(tools: impl IntoIterator<Item = &'t Arc<Tool>>, profile: &ModelProfile) -> Self {
        let mut text = String::from(OPENING);
        for tool in tools {
            let declaration = match profile.declaration {
                DeclarationForm::GeminiJson => &tool.declarations.gemini_json,
                // The forms of other providers mean nothing to this one.
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
            return Self(None);
        }
        text.push_str(CLOSING);
        let text = RawValue::from_string(text).expect("declarations are JSON, joined as JSON");
        Self(Some(text.into()))
    }

    /// The declarations as they are sent, for reckoning how much context they take; empty without tools.
    pub fn text(&self) -> &str {
        self.0.as_ref().map_or("", |text| text.get())
    }

    pub(super) fn raw(&self) -> Option<&RawValue> {
        self.0.as_deref()
    }
}
