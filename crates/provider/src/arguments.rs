//! The arguments of a call in every provider's form: an object, or a string that holds one. Reads strictly: faults are reported,
//! never guessed at and never repaired.

use windlass_contract::arguments::Arguments;
use windlass_contract::json;
use windlass_session::model::ArgumentsProblem;

/// Reads arguments that are a JSON value: an object, or a string that holds one. `null` means no arguments.
pub(crate) fn read_arguments(text: &str) -> Result<Arguments, ArgumentsProblem> {
    match text.as_bytes().first() {
        Some(b'{') => read_object(text),
        Some(b'n') => Ok(Arguments::none()),
        Some(b'"') => {
            let inner: String = serde_json::from_str(text)
                .map_err(|_| ArgumentsProblem("the arguments are no valid text".to_owned()))?;
            read_arguments_text(&inner)
        }
        _ => Err(no_object()),
    }
}

/// Reads the text of an object. A blank text means no arguments, and so does `null`, which servers write for a call without
/// arguments. A text within the text is no object, and its meaning would be a guess.
pub(crate) fn read_arguments_text(text: &str) -> Result<Arguments, ArgumentsProblem> {
    match text.trim_start().as_bytes().first() {
        Some(b'{') => read_object(text),
        Some(b'n') if text.trim() == "null" => Ok(Arguments::none()),
        Some(_) => Err(no_object()),
        None => Ok(Arguments::none()),
    }
}

fn no_object() -> ArgumentsProblem {
    ArgumentsProblem("the arguments must be a JSON object".to_owned())
}

fn read_object(text: &str) -> Result<Arguments, ArgumentsProblem> {
    json::read(text)
        .map_err(|error| ArgumentsProblem(format!("the arguments are no valid JSON: {error}")))
}
