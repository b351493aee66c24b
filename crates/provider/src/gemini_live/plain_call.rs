//! The short way for calls that are written as they should be: each byte is read once. Knows one shape and leaves every
//! other, and all that is wrong with any, to the general decoder.

use crate::spelling::tokens;
use windlass_session::model::IncomingCall;
use windlass_tool::json_reader::Reader;

/// The calls of a frame that holds nothing else, where each has an id, a name and an object of arguments. `None` says
/// only that the general decoder has to look.
pub(super) fn only_calls(frame: &str) -> Option<Vec<IncomingCall>> {
    tokens(frame.as_bytes(), &[b"{", br#""toolCall""#])?;
    let mut reader = Reader::new(frame);
    let mut calls = None;
    reader.object(|reader, name| {
        // What is there twice makes the message invalid.
        (name == "toolCall" && calls.is_none()).then_some(())?;
        calls = Some(calls_of(reader)?);
        Some(())
    })?;
    reader.end()?;
    calls
}

fn calls_of(reader: &mut Reader<'_>) -> Option<Vec<IncomingCall>> {
    let mut calls = None;
    reader.object(|reader, name| {
        (name == "functionCalls" && calls.is_none()).then_some(())?;
        let mut list = Vec::with_capacity(1);
        reader.array(|reader| {
            list.push(call(reader)?);
            Some(())
        })?;
        calls = Some(list);
        Some(())
    })?;
    calls
}

fn call(reader: &mut Reader<'_>) -> Option<IncomingCall> {
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
        name: Some(name.into()),
        arguments: Ok(arguments?),
    })
}
