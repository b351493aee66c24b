//! The arguments of a call as every provider writes them: an object, or a string that holds one. Read strictly; what is
//! wrong is said, never guessed at and never repaired.

use serde_json::Value;
use windlass_session::model::ArgumentsProblem;
use windlass_tool::arguments::Arguments;
use windlass_tool::json;

/// Reads arguments that are a JSON value: an object, or a string that holds one. `null` means none are given.
pub(crate) fn read_arguments(text: &str) -> Result<Arguments, ArgumentsProblem> {
    match text.as_bytes().first() {
        Some(b'{') => read_object(text),
        Some(b'n') => Ok(Arguments::none()),
        Some(b'"') => {
            let inner: String = serde_json::from_str(text)
                .map_err(|_| ArgumentsProblem("the arguments are no valid text".to_owned()))?;
            read_arguments_text(&inner)
        }
        _ => Err(ArgumentsProblem(
            "the arguments must be a JSON object".to_owned(),
        )),
    }
}

/// Reads the text of an object. Nothing but space means none are given; a text in the text, or `null`, is no object, and
/// what it was to mean would be a guess.
pub(crate) fn read_arguments_text(text: &str) -> Result<Arguments, ArgumentsProblem> {
    if text.trim().is_empty() {
        return Ok(Arguments::none());
    }
    read_object(text)
}

fn read_object(text: &str) -> Result<Arguments, ArgumentsProblem> {
    match json::parse(text.as_bytes()) {
        Ok(Value::Object(map)) => Ok(map.into()),
        Ok(_) => Err(ArgumentsProblem(
            "the arguments must be a JSON object".to_owned(),
        )),
        Err(error) => Err(ArgumentsProblem(format!(
            "the arguments are no valid JSON: {error}"
        ))),
    }
}
