//! The short way for calls that are written as they should be: each byte is read once. Knows one shape and leaves every
//! other, and all that is wrong with any, to the general decoder.

use crate::spelling::tokens;
use std::sync::Arc;
use windlass_session::model::IncomingCall;
use windlass_tool::json_reader::Reader;

/// What stands before the list of calls.
const BEFORE_CALLS: [&[u8]; 6] = [
    b"{",
    br#""toolCall""#,
    b":",
    b"{",
    br#""functionCalls""#,
    b":",
];

/// The calls of a frame that holds nothing else, where each has an id, a name and an object of arguments. `None` says
/// only that the general decoder has to look. Names share the text of the last one where they are the same.
pub(super) fn only_calls(
    frame: &str,
    last_name: &mut Option<Arc<str>>,
) -> Option<Vec<IncomingCall>> {
    let list = tokens(frame.as_bytes(), &BEFORE_CALLS)?;
    let mut reader = Reader::new(&frame[frame.len() - list.len()..]);
    let mut calls = Vec::with_capacity(1);
    reader.array(|reader| {
        calls.push(call(reader, last_name)?);
        Some(())
    })?;
    reader.token(b'}')?;
    reader.token(b'}')?;
    reader.end()?;
    Some(calls)
}

fn call(reader: &mut Reader<'_>, last_name: &mut Option<Arc<str>>) -> Option<IncomingCall> {
    let (mut id, mut name, mut arguments) = (None, None, None);
    reader.object(|reader, member| {
        let is_new = match member {
            "id" => id.replace(reader.text()?).is_none(),
            "name" => name.replace(reader.text()?).is_none(),
            "args" => arguments.replace(reader.arguments()?).is_none(),
            _ => false,
        };
        is_new.then_some(())
    })?;
    let id = id.filter(|id| !id.is_empty())?;
    let name = name.filter(|name| !name.is_empty())?;
    Some(IncomingCall {
        id: Some(id.into()),
        name: Some(shared(name, last_name)),
        arguments: Ok(arguments?),
    })
}

fn shared(name: &str, last_name: &mut Option<Arc<str>>) -> Arc<str> {
    match last_name {
        Some(last) if **last == *name => last.clone(),
        Some(_) | None => last_name.insert(name.into()).clone(),
    }
}
