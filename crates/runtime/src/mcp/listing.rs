//! A server's lists, read page by page within bounds, and which of its tools are imported. Knows no call.

use super::headers::{self, HeaderPlace};
use super::link::{AskError, Asked, Link};
use super::message::{Revision, object};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use tokio::time::Instant;
use windlass_compile::handler_file::DefinitionHash;

/// Tools that are read of one server, and the pages that they come in.
const TOOLS_MAX: usize = 10_000;
const PAGES_MAX: usize = 200;
/// Bytes of what leads to the next page.
const CURSOR_BYTES_MAX: usize = 8_192;

#[derive(Debug, Serialize)]
struct PageRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
    #[serde(rename = "_meta")]
    meta: super::message::Meta<'static>,
}

/// Why a list is none.
#[derive(Debug)]
pub(super) enum ListError {
    Asking(AskError),
    Unreadable(&'static str),
}

impl ListError {
    pub(super) fn for_log(&self) -> String {
        let problem = match self {
            Self::Asking(error) => error.for_log(),
            Self::Unreadable(problem) => (*problem).to_owned(),
        };
        format!("its tools cannot be listed: {problem}")
    }
}

/// Gives every definition of a tool that the server lists.
pub(super) async fn list(
    link: &Link,
    until: Instant,
    give: &mut (dyn FnMut(&str, Map<String, Value>) + Send),
) -> Result<(), ListError> {
    let is_whole = pages(link, until, &TOOLS, TOOLS_MAX, &mut |definition| {
        if let Some(name) = definition.get("name").and_then(Value::as_str) {
            let name = name.to_owned();
            give(&name, definition);
        }
    })
    .await?;
    match is_whole {
        true => Ok(()),
        false => Err(ListError::Unreadable("there are more than 10,000")),
    }
}

/// A list of a server.
pub(super) struct List {
    pub(super) method: &'static str,
    /// The member of a page that holds its items.
    pub(super) member: &'static str,
}

const TOOLS: List = List {
    method: "tools/list",
    member: "tools",
};

/// Gives the objects of a list, page by page; `false` where it has more than `items_max`.
pub(super) async fn pages(
    link: &Link,
    until: Instant,
    list: &List,
    items_max: usize,
    give: &mut (dyn FnMut(Map<String, Value>) + Send),
) -> Result<bool, ListError> {
    let mut cursor: Option<String> = None;
    let mut count = 0;
    for _ in 0..PAGES_MAX {
        let params = PageRequest {
            cursor: cursor.as_deref(),
            meta: link.revision.meta(),
        };
        let asked = Asked::new(link.next_id(), list.method, &params, until);
        let answer = link.ask(asked.map_err(ListError::Asking)?).await;
        let answer = answer.map_err(ListError::Asking)?;
        let page: Option<Map<String, Value>> = object(&answer);
        let mut page = page.ok_or(NO_LIST)?;
        let Some(Value::Array(items)) = page.remove(list.member) else {
            return Err(NO_LIST);
        };
        for item in items {
            if count >= items_max {
                return Ok(false);
            }
            count += 1;
            if let Value::Object(item) = item {
                give(item);
            }
        }
        let next = match page.remove("nextCursor") {
            None | Some(Value::Null) => None,
            Some(Value::String(next)) => Some(next),
            Some(_) => return Err(NO_LIST),
        };
        match next.filter(|next| !next.is_empty()) {
            None => return Ok(true),
            Some(next) if next.len() > CURSOR_BYTES_MAX => {
                return Err(ListError::Unreadable(
                    "what leads to the next page is too long",
                ));
            }
            Some(next) if cursor.as_ref() == Some(&next) => {
                return Err(ListError::Unreadable("a page leads to itself"));
            }
            Some(next) => cursor = Some(next),
        }
    }
    Err(ListError::Unreadable("there are more than 200 pages"))
}

const NO_LIST: ListError = ListError::Unreadable("an answer is no list");

/// A server's entries under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Once {
        definition: DefinitionHash,
        headers: Vec<HeaderPlace>,
    },
    /// Two entries share the name: it is open which one a call would run.
    Twice,
    /// The entry names headers against the rules, and counts as not listed.
    Misplaced,
}

/// The tools among those of a server that are imported here.
pub(super) type ListedTools = BTreeMap<String, Listed>;

pub(super) async fn wanted(
    link: &Link,
    until: Instant,
    is_wanted: &(dyn Fn(&str) -> bool + Send + Sync),
) -> Result<ListedTools, ListError> {
    let mut tools = ListedTools::new();
    let has_headers = link.revision == Revision::Stateless && !link.is_process();
    list(link, until, &mut |name, definition| {
        if !is_wanted(name) {
            return;
        }
        let nothing = Value::Null;
        let schema = definition.get("inputSchema").unwrap_or(&nothing);
        let headers = match has_headers {
            true => headers::places(schema),
            false => Ok(Vec::new()),
        };
        let listed = match (tools.contains_key(name), headers) {
            (true, _) => Listed::Twice,
            (false, Err(_)) => Listed::Misplaced,
            (false, Ok(headers)) => Listed::Once {
                definition: DefinitionHash::of(&definition),
                headers,
            },
        };
        tools.insert(name.to_owned(), listed);
    })
    .await?;
    Ok(tools)
}
