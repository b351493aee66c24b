//! The short way for calls that are written as they should be: each byte is read once. Knows one shape and leaves every
//! other, and all that is wrong with any, to the general decoder.

use crate::spelling::tokens;
use serde::Deserialize;
use std::sync::Arc;
use windlass_session::model::IncomingCall;
use windlass_tool::arguments::Arguments;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame<'a> {
    #[serde(borrow, rename = "toolCall")]
    tool_call: ToolCall<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolCall<'a> {
    #[serde(borrow, rename = "functionCalls")]
    function_calls: Vec<Call<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call<'a> {
    id: &'a str,
    name: &'a str,
    args: Arguments,
}

/// The calls of a frame that holds nothing else, where each has an id, a name and an object of arguments. `None` says
/// only that the general decoder has to look. Names share the text of the last one where they are the same.
pub(super) fn only_calls(
    frame: &str,
    last_name: &mut Option<Arc<str>>,
) -> Option<Vec<IncomingCall>> {
    tokens(frame.as_bytes(), &[b"{", br#""toolCall""#])?;
    let Frame { tool_call } = serde_json::from_str(frame).ok()?;
    let calls = tool_call.function_calls;
    if calls
        .iter()
        .any(|call| call.id.is_empty() || call.name.is_empty())
    {
        return None;
    }
    let calls = calls.into_iter().map(|call| IncomingCall {
        id: Some(call.id.into()),
        name: Some(shared(call.name, last_name)),
        arguments: Ok(call.args),
    });
    Some(calls.collect())
}

fn shared(name: &str, last_name: &mut Option<Arc<str>>) -> Arc<str> {
    match last_name {
        Some(last) if **last == *name => last.clone(),
        Some(_) | None => last_name.insert(name.into()).clone(),
    }
}
