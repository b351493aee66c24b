//! Facts that a model needs and Gemini's schema cannot say, as sentences for a description. Models read JSON Schema, so a rule that is
//! too long for a sentence is quoted.

use serde_json::{Map, Value};

/// The longest schema that is quoted, in characters; a longer one is only mentioned.
const QUOTE_CHARACTERS_MAX: usize = 300;

pub(super) fn join_sentences(sentences: &[&str]) -> String {
    let mut text = String::new();
    for sentence in sentences {
        if !text.is_empty() {
            text.push_str(if text.ends_with(['.', '!', '?', ':']) {
                " "
            } else {
                ". "
            });
        }
        text.push_str(sentence.trim());
    }
    text
}

/// The sentence about a keyword that is left out, and about the keywords that belong to it in the same schema.
pub(super) fn remark(name: &str, value: &Value, object: &Map<String, Value>) -> Option<String> {
    match name {
        "format" => Some(format!("Format: {}.", value.as_str()?)),
        "multipleOf" => Some(format!("Has to be a multiple of {value}.")),
        "uniqueItems" => (value == &Value::Bool(true)).then(|| "No item twice.".to_owned()),
        "additionalProperties" => Some(match quoted(value).filter(|text| text != "{}") {
            Some(schema) => format!("Members of other names are allowed, each matching {schema}."),
            None => "Members of other names are allowed.".to_owned(),
        }),
        "contentEncoding" => Some(format!("Encoded as {}.", value.as_str()?)),
        "contentMediaType" => Some(format!("Holds {}.", value.as_str()?)),
        "default" => Some(format!("{} if it is left out.", quoted(value)?)),
        "examples" => Some(format!(
            "For example {}.",
            quoted(value.as_array()?.first()?)?
        )),
        "not" => Some(match quoted(value) {
            Some(schema) => format!("Must not match {schema}."),
            None => "Not every value of this form is allowed.".to_owned(),
        }),
        "if" => condition(value, object),
        "contains" => contains(value, object),
        "dependentRequired" => required_with(value),
        "dependentSchemas" => members(value, "Where `{}` is given, it all has to match"),
        "patternProperties" => members(value, "A member whose name matches `{}` has to match"),
        "propertyNames" => quoted(value).map(|schema| format!("Names of members match {schema}.")),
        "prefixItems" => in_order(value, object),
        _ => None,
    }
}

/// The sentence about a member whose name the provider does not take.
pub(super) fn unnameable(name: &str, schema: &Value) -> String {
    match quoted(schema).filter(|text| text != "{}" && !text.contains("\"$ref\"")) {
        Some(schema) => format!("There is also a member `{name}`, which matches {schema}."),
        None => format!("There is also a member `{name}`."),
    }
}

fn quoted(value: &Value) -> Option<String> {
    let text = value.to_string();
    (text.chars().count() <= QUOTE_CHARACTERS_MAX).then_some(text)
}

fn condition(value: &Value, object: &Map<String, Value>) -> Option<String> {
    let (then, otherwise) = (object.get("then"), object.get("else"));
    if then.is_none() && otherwise.is_none() {
        return None;
    }
    let sentence = || {
        let mut text = format!("If it matches {}", quoted(value)?);
        if let Some(then) = then {
            text.push_str(&format!(", it has to match {}", quoted(then)?));
        }
        if let Some(otherwise) = otherwise {
            let joint = if then.is_some() {
                "; else"
            } else {
                " it may be anything; else it has to match"
            };
            text.push_str(&format!("{joint} {}", quoted(otherwise)?));
        }
        Some(text + ".")
    };
    sentence().or_else(|| Some("What is allowed depends on what else is given.".to_owned()))
}

fn contains(value: &Value, object: &Map<String, Value>) -> Option<String> {
    let least = object
        .get("minContains")
        .map_or_else(|| "1".to_owned(), Value::to_string);
    let most = object
        .get("maxContains")
        .map_or_else(String::new, |most| format!(" and at most {most}"));
    let schema = quoted(value)?;
    Some(format!(
        "At least {least}{most} of the items match {schema}."
    ))
}

fn required_with(value: &Value) -> Option<String> {
    let sentences: Vec<String> = value
        .as_object()?
        .iter()
        .filter_map(|(name, needed)| {
            let needed: Vec<&str> = needed
                .as_array()?
                .iter()
                .filter_map(Value::as_str)
                .collect();
            (!needed.is_empty()).then(|| format!("`{name}` needs {}.", needed.join(", ")))
        })
        .collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// One sentence for each member; `{}` in `sentence` stands for the member's name.
fn members(value: &Value, sentence: &str) -> Option<String> {
    let sentences: Vec<String> = value
        .as_object()?
        .iter()
        .filter_map(|(name, schema)| {
            let schema = quoted(schema)?;
            Some(format!("{} {schema}.", sentence.replace("{}", name)))
        })
        .collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn in_order(value: &Value, object: &Map<String, Value>) -> Option<String> {
    let rest = match object.get("items") {
        Some(Value::Bool(false)) => ", and no more",
        Some(_) | None => "",
    };
    match quoted(value) {
        Some(schemas) => Some(format!("The items match, in this order, {schemas}{rest}.")),
        None => Some(format!("The order of the items counts{rest}.")),
    }
}
