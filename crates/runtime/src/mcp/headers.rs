//! Arguments that a server of the stateless revision wants in headers as well (`x-mcp-header` in a schema), and how any text is
//! written in a header. Knows no connection.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

const ANNOTATION: &str = "x-mcp-header";
/// The prefix of headers that are made of arguments.
const PREFIX: &str = "Mcp-Param-";
/// Headers of one tool.
const HEADERS_MAX: usize = 32;
/// The largest integer up to which a double holds every integer.
const INTEGER_MAX: i64 = (1 << 53) - 1;

/// An argument that goes into a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeaderPlace {
    /// The whole name of the header.
    name: String,
    /// The members that lead to the argument.
    path: Vec<String>,
}

/// A schema whose annotations break the rules. Such a tool counts as not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misplaced;

/// The places that a tool's input schema names.
pub(super) fn places(schema: &Value) -> Result<Vec<HeaderPlace>, Misplaced> {
    let mut places = Vec::new();
    gather(schema, &mut Vec::new(), true, &mut places)?;
    let names: BTreeSet<String> = places
        .iter()
        .map(|place| place.name.to_ascii_lowercase())
        .collect();
    match names.len() == places.len() && places.len() <= HEADERS_MAX {
        true => Ok(places),
        false => Err(Misplaced),
    }
}

/// `is_reached` says whether only members of `properties` lead here.
fn gather(
    schema: &Value,
    path: &mut Vec<String>,
    is_reached: bool,
    places: &mut Vec<HeaderPlace>,
) -> Result<(), Misplaced> {
    match schema {
        Value::Array(items) => {
            for item in items {
                gather(item, path, false, places)?;
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    (ANNOTATION, value) => places.push(place(value, members, path, is_reached)?),
                    ("properties", Value::Object(properties)) => {
                        for (name, schema) in properties {
                            path.push(name.clone());
                            let gathered = gather(schema, path, is_reached, places);
                            path.pop();
                            gathered?;
                        }
                    }
                    // Values, and no schemas.
                    ("default" | "examples" | "enum" | "const", _) => {}
                    (_, value) => gather(value, path, false, places)?,
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn place(
    name: &Value,
    schema: &Map<String, Value>,
    path: &[String],
    is_reached: bool,
) -> Result<HeaderPlace, Misplaced> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let name = name
        .as_str()
        .filter(|name| (1..=100).contains(&name.len()) && name.bytes().all(fits));
    let is_primitive = schema
        .get("type")
        .and_then(Value::as_str)
        .is_some_and(|kind| matches!(kind, "integer" | "string" | "boolean"));
    match name {
        Some(name) if is_primitive && is_reached && !path.is_empty() => Ok(HeaderPlace {
            name: format!("{PREFIX}{name}"),
            path: path.to_vec(),
        }),
        _ => Err(Misplaced),
    }
}

/// The headers of a call. An argument that is left out, or null, has none.
pub(super) fn of_arguments(
    places: &[HeaderPlace],
    arguments: &Map<String, Value>,
) -> Vec<(String, String)> {
    let headers = places.iter().filter_map(|place| {
        let (first, rest) = place.path.split_first()?;
        let mut value = arguments.get(first)?;
        for name in rest {
            value = value.get(name)?;
        }
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(flag) => flag.to_string(),
            Value::Number(number) => {
                let integer = number.as_i64()?;
                (-INTEGER_MAX..=INTEGER_MAX)
                    .contains(&integer)
                    .then(|| integer.to_string())?
            }
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some((place.name.clone(), written(&text)))
    });
    headers.collect()
}

/// A text as the value of a header: itself, or in base64 where a header cannot hold it.
pub(super) fn written(text: &str) -> String {
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t'));
    let is_trimmed = text.trim_matches([' ', '\t']).len() == text.len();
    let looks_encoded = text.starts_with("=?base64?") && text.ends_with("?=");
    match is_plain && is_trimmed && !looks_encoded {
        true => text.to_owned(),
        false => format!(
            "=?base64?{}?=",
            base64_simd::STANDARD.encode_to_string(text)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: &Value, arguments: &Value, expected: Result<&[(&str, &str)], Misplaced>) {
        let empty = Map::new();
        let arguments = arguments.as_object().unwrap_or(&empty);
        let found = places(schema).map(|places| of_arguments(&places, arguments));
        let expected = expected.map(|headers| {
            let headers = headers.iter();
            headers
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect::<Vec<_>>()
        });
        assert_eq!(found, expected, "{schema}");
    }

    fn region(annotation: &Value) -> Value {
        json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": annotation}}})
    }

    #[test]
    fn arguments_go_into_the_headers_that_their_schemas_name() {
        let schema = region(&json!("Region"));
        for (value, expected) in [
            (json!({"region": "us-west1"}), Some("us-west1")),
            (json!({"region": "Käse"}), Some("=?base64?S8Okc2U=?=")),
            (
                json!({"region": " padded "}),
                Some("=?base64?IHBhZGRlZCA=?="),
            ),
            (
                json!({"region": "a\r\nb: c"}),
                Some("=?base64?YQ0KYjogYw==?="),
            ),
            (
                json!({"region": "=?base64?x?="}),
                Some("=?base64?PT9iYXNlNjQ/eD89?="),
            ),
            (json!({"region": null}), None),
            (json!({}), None),
        ] {
            let header = expected.map(|expected| ("Mcp-Param-Region", expected));
            check(&schema, &value, Ok(header.as_slice()));
        }
        let nested = json!({"properties": {"a": {"properties": {"b": {"type": "integer", "x-mcp-header": "B"}}}}});
        check(
            &nested,
            &json!({"a": {"b": -7}}),
            Ok(&[("Mcp-Param-B", "-7")]),
        );
        check(
            &nested,
            &json!({"a": {"b": 9_007_199_254_740_993_i64}}),
            Ok(&[]),
        );
    }

    #[test]
    fn a_schema_that_names_headers_against_the_rules_is_refused() {
        let nothing = json!({});
        for schema in [
            region(&json!("")),
            region(&json!("a b")),
            region(&json!("a\r\nb")),
            region(&json!(7)),
            json!({"properties": {"n": {"type": "number", "x-mcp-header": "N"}}}),
            json!({"properties": {"n": {"type": "array", "items": {"type": "string", "x-mcp-header": "N"}}}}),
            json!({"anyOf": [{"properties": {"n": {"type": "string", "x-mcp-header": "N"}}}]}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "N"}, "b": {"type": "string", "x-mcp-header": "n"}}}),
            json!({"type": "string", "x-mcp-header": "N"}),
        ] {
            check(&schema, &nothing, Err(Misplaced));
        }
        // An argument may have that name.
        check(
            &json!({"properties": {"x-mcp-header": {"type": "number"}}, "examples": [{"x-mcp-header": "N"}]}),
            &nothing,
            Ok(&[]),
        );
    }
}
