//! The tools that a provider runs itself, beside our functions: their names in the configuration and on the wire. A model's
//! profile names the tools that it takes.

use crate::message::{List, Text};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;
use windlass_session::client::Citation;
use windlass_session::model::ModelEvent;

/// A tool of the provider's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderTool {
    /// Gemini searches the web.
    GoogleSearch,
    /// Gemini writes and runs Python.
    CodeExecution,
    /// Responses searches the web.
    WebSearch,
    /// Responses writes and runs Python.
    CodeInterpreter,
}

impl ProviderTool {
    /// The tool's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::GoogleSearch => "google_search",
            Self::CodeExecution => "code_execution",
            Self::WebSearch => "web_search",
            Self::CodeInterpreter => "code_interpreter",
        }
    }

    /// The tool's element in a request's list of tools, in the provider's usual protocol.
    pub(crate) fn declaration(self) -> &'static str {
        match self {
            Self::GoogleSearch => r#"{"googleSearch":{}}"#,
            Self::CodeExecution => r#"{"codeExecution":{}}"#,
            Self::WebSearch => r#"{"type":"web_search"}"#,
            Self::CodeInterpreter => r#"{"type":"code_interpreter","container":{"type":"auto"}}"#,
        }
    }

    /// The element for a protocol whose elements all name their type. For Gemini's tools that is Interactions alone.
    pub(crate) fn typed_declaration(self) -> &'static str {
        match self {
            Self::GoogleSearch => r#"{"type":"google_search"}"#,
            Self::CodeExecution => r#"{"type":"code_execution"}"#,
            Self::WebSearch | Self::CodeInterpreter => self.declaration(),
        }
    }
}

/// A list of tools with the provider's own at its end.
pub(crate) fn beside(
    list: Option<Arc<RawValue>>,
    own: &[ProviderTool],
    declaration: fn(ProviderTool) -> &'static str,
) -> Option<Arc<RawValue>> {
    if own.is_empty() {
        return list;
    }
    let list = list.as_ref().and_then(|list| list.get().strip_suffix(']'));
    let first = list.map(str::to_owned);
    let own = own.iter().map(|tool| declaration(*tool).to_owned());
    let parts: Vec<String> = first.into_iter().chain(own).collect();
    let opening = if list.is_some() { "" } else { "[" };
    let text = format!("{opening}{}]", parts.join(","));
    let text = RawValue::from_string(text).expect("declarations are JSON, joined as JSON");
    Some(text.into())
}

/// The event for the core about content that the provider's own tools gave the model.
pub(crate) fn external_content(sources: Vec<Citation>) -> ModelEvent {
    ModelEvent::ExternalContent {
        sources: sources.into(),
    }
}

/// Most sources of one message; the core keeps fewer.
pub(crate) const SOURCES_MAX: usize = 64;
const ADDRESS_BYTES_MAX: usize = 2_048;
const TITLE_BYTES_MAX: usize = 256;

/// A page that an answer rests on. `None` if its address is not one that a browser should open.
pub(crate) fn source(address: &str, title: Option<&str>) -> Option<Citation> {
    let is_web = address.starts_with("https://") || address.starts_with("http://");
    let is_sound = |byte: u8| byte.is_ascii_graphic();
    if !is_web || address.len() > ADDRESS_BYTES_MAX || !address.bytes().all(is_sound) {
        return None;
    }
    let title = title.unwrap_or_default().trim();
    let title = match title {
        "" => address,
        title => title,
    };
    Some(Citation {
        id: address.to_owned(),
        title: title[..title.floor_char_boundary(TITLE_BYTES_MAX)].to_owned(),
        url: Some(address.to_owned()),
    })
}

crate::message::message! {
    /// Gemini's list of the pages that an answer rests on. It may be present and empty.
    Grounding<'a> {
        chunks: List<Chunk<'a>> = "groundingChunks" or "grounding_chunks",
        queries: List<Text<'a>> = "webSearchQueries" or "web_search_queries",
    }
    skips others
}

crate::message::message! {
    Chunk<'a> {
        web: Page<'a> = "web",
    }
    skips others
}

crate::message::message! {
    Page<'a> {
        uri: Text<'a> = "uri",
        title: Text<'a> = "title",
    }
    skips others
}

impl Grounding<'_> {
    /// `None` if nothing was searched.
    pub(crate) fn event(&self) -> Option<ModelEvent> {
        let chunks = self.chunks.as_ref().map_or(&[][..], |list| &list.items);
        let has_searched = self
            .queries
            .as_ref()
            .is_some_and(|queries| !queries.items.is_empty());
        if chunks.is_empty() && !has_searched {
            return None;
        }
        let pages = chunks.iter().filter_map(|chunk| chunk.web.as_ref());
        let sources = pages.filter_map(|page| {
            let title = page.title.as_ref().map(|title| &*title.0);
            source(&page.uri.as_ref()?.0, title)
        });
        Some(external_content(sources.take(SOURCES_MAX).collect()))
    }
}
