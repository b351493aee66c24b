//! One function call on the wire, read so that none is ever lost: a model's mistake makes a call with a problem, which can be
//! answered. Never guesses and never repairs.

use crate::arguments::read_arguments;
use crate::log::{Arguments, Call, Opaque};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;
use windlass_session::model::{ArgumentsProblem, IncomingCall};

#[derive(Deserialize)]
struct FunctionCall<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    /// Vertex can stream arguments in pieces to clients that ask for it; we never ask.
    #[serde(borrow, default, alias = "partial_args", rename = "partialArgs")]
    partial_args: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "will_continue", rename = "willContinue")]
    will_continue: Option<&'a RawValue>,
}

/// Reads a call for the log and for the core. `None` if its arguments are too long.
pub(super) fn read(
    call: &RawValue,
    signature: Option<Opaque>,
    arguments_bytes_max: usize,
) -> Option<(Call, IncomingCall)> {
    let (id, name, text, arguments) = match serde_json::from_str::<FunctionCall<'_>>(call.get()) {
        Ok(wire) => {
            let text = wire.args.map_or("{}", RawValue::get);
            let is_in_pieces = wire.partial_args.is_some()
                || wire.will_continue.is_some_and(|flag| flag.get() == "true");
            let arguments = if is_in_pieces {
                let problem = "the arguments came in pieces, which was not asked for";
                Err(ArgumentsProblem(problem.to_owned()))
            } else {
                read_arguments(text)
            };
            (text_of(wire.id), text_of(wire.name), text, arguments)
        }
        Err(_) => {
            let loose: Map<String, Value> = serde_json::from_str(call.get()).unwrap_or_default();
            let text = |key: &str| {
                let text = loose.get(key).and_then(Value::as_str);
                text.filter(|text| !text.is_empty()).map(Arc::from)
            };
            let problem =
                ArgumentsProblem("the call is no JSON object, or has a key twice".to_owned());
            (text("id"), text("name"), "", Err(problem))
        }
    };
    if text.len() > arguments_bytes_max {
        return None;
    }
    let logged = Call {
        id: id.clone(),
        name: name.clone().unwrap_or_default(),
        arguments: arguments
            .as_ref()
            .ok()
            .map(|map| Arguments::from_parsed(text, map)),
        opaque: signature,
    };
    let incoming = IncomingCall {
        id,
        name,
        arguments,
    };
    Some((logged, incoming))
}

/// A string, or something else that counts as absent.
fn text_of(value: Option<&RawValue>) -> Option<Arc<str>> {
    let text: String = serde_json::from_str(value?.get()).ok()?;
    (!text.is_empty()).then(|| text.into())
}
