//! The arguments of a call as every provider writes them: an object, or a string that holds one. Read strictly; what is
//! wrong is said, never guessed at and never repaired.

use serde_json::{Map, Value};
use windlass_session::model::ArgumentsProblem;
use windlass_tool::json;

/// Reads arguments that are an object, or a string that holds one. None at all means none are given.
pub(crate) fn read_arguments(text: &str) -> Result<Map<String, Value>, ArgumentsProblem> {
    match text.as_bytes().first() {
        Some(b'{') => read_object(text),
        Some(b'n') => Ok(Map::new()),
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

/// Reads the text of an object. None at all means none are given.
pub(crate) fn read_arguments_text(text: &str) -> Result<Map<String, Value>, ArgumentsProblem> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    read_object(text)
}

fn read_object(text: &str) -> Result<Map<String, Value>, ArgumentsProblem> {
    // What is known to be text is read faster than bytes; the slower reader says what is wrong with the rest.
    if let Ok(json::Strict(Value::Object(map))) = serde_json::from_str(text) {
        return Ok(map);
    }
    match json::parse(text.as_bytes()) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(ArgumentsProblem(
            "the arguments must be a JSON object".to_owned(),
        )),
        Err(error) => Err(ArgumentsProblem(format!(
            "the arguments are no valid JSON: {error}"
        ))),
    }
}
