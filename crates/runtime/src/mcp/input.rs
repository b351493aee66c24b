//! A server's questions to the user before a call goes on, read within bounds, and the user's answer in the protocol's form. Knows no
//! connection.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use windlass_contract::characters::{is_ignorable, steers};
use windlass_contract::input::{
    ASKS_MAX, AskKind, FIELDS_MAX, FieldKind, GivenInput, InputAction, InputAsk, InputField,
    InputOption, InputRequest, NAME_MAX, OPTIONS_MAX, TextFormat, WORDS_MAX,
};
use windlass_contract::sensitive::Sensitive;

/// Bytes of what a server wants back with the answer.
const STATE_BYTES_MAX: usize = 32 * 1_024;
const NO_FORM: &str = "the server asks for more than a form can hold";
/// Bytes of a link.
const LINK_BYTES_MAX: usize = 2_048;

/// The input that a server wants before it goes on.
#[derive(Debug)]
pub(super) enum Wanted {
    /// The same request again with this state, and nothing from the user.
    Again(String),
    Input(Box<Sensitive<InputRequest>>),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputRequired {
    #[serde(default)]
    input_requests: Map<String, Value>,
    #[serde(default)]
    request_state: Option<String>,
}

#[derive(Deserialize)]
struct ServerRequest {
    method: String,
    #[serde(default)]
    params: Elicitation,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Elicitation {
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    requested_schema: Option<Value>,
    #[serde(default)]
    url: Option<String>,
}

impl InputRequired {
    /// # Errors
    ///
    /// The reason why the server's question cannot be answered here.
    pub(super) fn wanted(self, server: &str) -> Result<Wanted, &'static str> {
        if let Some(state) = &self.request_state
            && state.len() > STATE_BYTES_MAX
        {
            return Err("the server wants more back with the answer than is kept");
        }
        if self.input_requests.is_empty() {
            return match self.request_state {
                Some(state) => Ok(Wanted::Again(state)),
                None => Err("the server asks for nothing, and does not go on"),
            };
        }
        if self.input_requests.len() > ASKS_MAX {
            return Err("the server asks too many questions at once");
        }
        let asks = self.input_requests.into_iter();
        let asks: Result<Vec<InputAsk>, _> = asks.map(|(key, asked)| ask(key, asked)).collect();
        Ok(Wanted::Input(Box::new(Sensitive(InputRequest {
            from: server.to_owned(),
            asks: asks?,
            state: self.request_state.map(Sensitive),
        }))))
    }
}

fn ask(key: String, asked: Value) -> Result<InputAsk, &'static str> {
    let asked: ServerRequest =
        serde_json::from_value(asked).map_err(|_| "the server asks what cannot be read")?;
    if asked.method != "elicitation/create" {
        return Err("the server asks for something else than an answer of the user's");
    }
    let asked = asked.params;
    let kind = match asked.mode.as_deref() {
        None | Some("form") => AskKind::Form(form(asked.requested_schema.as_ref())?),
        Some("url") => AskKind::Link(link(asked.url)?),
        Some(_) => return Err("the server asks in a way that is not known here"),
    };
    Ok(InputAsk {
        key: name(key)?,
        message: words(&asked.message, WORDS_MAX),
        kind,
    })
}

/// A server's words, with nothing in them that could hide or reorder the rest.
fn words(text: &str, most: usize) -> String {
    let kept =
        |character: &char| *character == '\n' || !(steers(*character) || is_ignorable(*character));
    text.trim().chars().filter(kept).take(most).collect()
}

/// A name that goes back to the server as it is.
fn name(name: String) -> Result<String, &'static str> {
    let fits = !name.is_empty()
        && name.chars().count() <= NAME_MAX
        && !name
            .chars()
            .any(|character| steers(character) || is_ignorable(character));
    match fits {
        true => Ok(name),
        false => Err("the server names a field as no form can show it"),
    }
}

/// An address that a user may be shown: encrypted, or on this machine, and without a name before the host that hides it.
fn link(link: Option<String>) -> Result<String, &'static str> {
    const NO_LINK: &str = "the server sends its user to an address that is not shown";
    let link = link.filter(|link| link.len() <= LINK_BYTES_MAX);
    let link = link.ok_or(NO_LINK)?;
    let (scheme, rest) = link.split_once("://").ok_or(NO_LINK)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let place = &rest[..end];
    let host = place.split(':').next().unwrap_or_default();
    let is_here = matches!(host, "localhost" | "127.0.0.1") || place.starts_with("[::1]");
    let is_place = !place.is_empty() && !place.contains(['@', '\\']);
    let fits = link.bytes().all(|byte| byte.is_ascii_graphic())
        && is_place
        && (scheme == "https" || (scheme == "http" && is_here));
    match fits {
        true => Ok(link),
        false => Err(NO_LINK),
    }
}

fn form(schema: Option<&Value>) -> Result<Vec<InputField>, &'static str> {
    let schema = schema.and_then(Value::as_object).ok_or(NO_FORM)?;
    let nothing = Map::new();
    let properties = match schema.get("properties") {
        None => &nothing,
        Some(properties) => properties.as_object().ok_or(NO_FORM)?,
    };
    if properties.len() > FIELDS_MAX {
        return Err(NO_FORM);
    }
    let required = schema.get("required").and_then(Value::as_array);
    let fields = properties.iter().map(|(key, value)| {
        let schema = value.as_object().ok_or(NO_FORM)?;
        let mut required = required.into_iter().flatten();
        let text = |member: &str, most: usize| {
            let text = schema.get(member).and_then(Value::as_str)?;
            Some(words(text, most)).filter(|text| !text.is_empty())
        };
        let mut field = InputField {
            name: name(key.clone())?,
            title: text("title", NAME_MAX),
            description: text("description", WORDS_MAX),
            required: required.any(|name| name == key.as_str()),
            kind: kind(schema)?,
            default: None,
        };
        let default = schema.get("default").cloned();
        field.default = default.filter(|default| field.check(default).is_ok());
        Ok(field)
    });
    fields.collect()
}

/// The kind of a flat field.
fn kind(schema: &Map<String, Value>) -> Result<FieldKind, &'static str> {
    let count = |member: &str| schema.get(member).and_then(Value::as_u64);
    let number = |member: &str| match schema.get(member) {
        Some(Value::Number(number)) => Some(number.clone()),
        _ => None,
    };
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => Ok(match options(schema)? {
            Some(options) => FieldKind::Choice(options),
            None => FieldKind::Text {
                min: count("minLength"),
                max: count("maxLength"),
                // A format that nobody here knows says nothing.
                format: schema.get("format").and_then(format_of),
            },
        }),
        Some(kind @ ("number" | "integer")) => Ok(FieldKind::Number {
            is_whole: kind == "integer",
            min: number("minimum"),
            max: number("maximum"),
        }),
        Some("boolean") => Ok(FieldKind::Flag),
        Some("array") => {
            let items = schema.get("items").and_then(Value::as_object);
            Ok(FieldKind::Choices {
                options: options(items.ok_or(NO_FORM)?)?.ok_or(NO_FORM)?,
                min: count("minItems"),
                max: count("maxItems"),
            })
        }
        _ => Err(NO_FORM),
    }
}

fn format_of(format: &Value) -> Option<TextFormat> {
    serde_json::from_value(format.clone()).ok()
}

/// The values that a field offers; `None` where it offers none.
fn options(schema: &Map<String, Value>) -> Result<Option<Vec<InputOption>>, &'static str> {
    let titled = ["oneOf", "anyOf"].iter().find_map(|name| schema.get(*name));
    let (list, titles) = match (schema.get("enum"), titled) {
        (Some(list), _) => (list, schema.get("enumNames")),
        (None, Some(list)) => (list, None),
        (None, None) => return Ok(None),
    };
    let list = list.as_array().filter(|list| !list.is_empty());
    let list = list.filter(|list| list.len() <= OPTIONS_MAX);
    let options = list
        .ok_or(NO_FORM)?
        .iter()
        .enumerate()
        .map(|(index, item)| {
            let (value, title) = match item {
                Value::String(value) => (Some(value), titles.and_then(|titles| titles.get(index))),
                item => match item.get("const") {
                    Some(Value::String(value)) => (Some(value), item.get("title")),
                    _ => (None, None),
                },
            };
            let title = title.and_then(Value::as_str);
            Ok(InputOption {
                value: name(value.ok_or(NO_FORM)?.clone())?,
                title: title.map(|title| words(title, NAME_MAX)),
            })
        });
    options.collect::<Result<_, _>>().map(Some)
}

/// The user's answers, by the server's keys.
pub(super) fn responses(given: &GivenInput) -> BTreeMap<&str, Value> {
    let asks = given.asked.expose().asks.iter();
    let responses = asks.map(|ask| {
        let response = match (given.action, &ask.kind) {
            (InputAction::Accept, AskKind::Form(_)) => {
                let content = given.content.expose().get(&ask.key);
                json!({ "action": "accept", "content": content.cloned().unwrap_or_default() })
            }
            (InputAction::Accept, AskKind::Link(_)) => json!({ "action": "accept" }),
            (InputAction::Decline, _) => json!({ "action": "decline" }),
            (InputAction::Cancel, _) => json!({ "action": "cancel" }),
        };
        (ask.key.as_str(), response)
    });
    responses.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The questions that are shown for a server's request, or the reason why none is.
    fn check(required: &Value, expected: &str) {
        let read: InputRequired = serde_json::from_value(required.clone()).expect("it is one");
        let shown = match read.wanted("shop") {
            Ok(Wanted::Again(state)) => format!("again {state}"),
            Ok(Wanted::Input(input)) => {
                let input = input.into_inner();
                let state = input.state.as_ref().map_or("", |state| state.expose());
                format!("{state} {}", input.shown()["asks"])
            }
            Err(problem) => problem.to_owned(),
        };
        assert_eq!(shown, expected, "{required}");
    }

    fn asks(params: &Value) -> Value {
        json!({"inputRequests": {"k": {"method": "elicitation/create", "params": params}}, "requestState": "s"})
    }

    fn fields(properties: &Value) -> Value {
        asks(&json!({"message": "Hi", "requestedSchema": {
            "type": "object", "properties": properties, "required": ["a"]}}))
    }

    #[test]
    fn forms_and_links_are_read_as_they_are_shown() {
        check(&json!({"requestState": "s"}), "again s");
        check(
            &fields(
                &json!({"a": {"type": "string", "title": "A\u{202e}", "minLength": 1, "format": "email"}}),
            ),
            r#"s [{"form":[{"format":"email","minLength":1,"name":"a","required":true,"title":"A","type":"text"}],"key":"k","message":"Hi"}]"#,
        );
        check(
            &fields(&json!({"b": {"type": "integer", "minimum": 1, "default": 0}})),
            r#"s [{"form":[{"minimum":1,"name":"b","required":false,"type":"integer"}],"key":"k","message":"Hi"}]"#,
        );
        check(
            &fields(&json!({"a": {"type": "string", "enum": ["x", "y"], "default": "y"}})),
            r#"s [{"form":[{"default":"y","name":"a","options":[{"title":"x","value":"x"},{"title":"y","value":"y"}],"required":true,"type":"choice"}],"key":"k","message":"Hi"}]"#,
        );
        check(
            &fields(
                &json!({"a": {"type": "array", "maxItems": 1, "items": {"anyOf": [{"const": "x", "title": "X"}]}}}),
            ),
            r#"s [{"form":[{"maxItems":1,"name":"a","options":[{"title":"X","value":"x"}],"required":true,"type":"choices"}],"key":"k","message":"Hi"}]"#,
        );
        check(
            &asks(&json!({"mode": "url", "message": "Pay", "url": "https://pay.example/a"})),
            r#"s [{"host":"pay.example","key":"k","link":"https://pay.example/a","message":"Pay"}]"#,
        );
    }

    #[test]
    fn what_cannot_be_shown_is_not_asked() {
        const NO_LINK: &str = "the server sends its user to an address that is not shown";
        for schema in [
            json!({"a": {"type": "object"}}),
            json!({"a": {"type": "array", "items": {"type": "string"}}}),
            json!({"a": {"type": "string", "enum": []}}),
            json!({"a": {"type": "string", "enum": [1]}}),
            json!({"a": "text"}),
            json!({"a": {}}),
        ] {
            check(&fields(&schema), NO_FORM);
        }
        let many: Map<String, Value> = (0..100)
            .map(|number| (format!("f{number}"), json!({"type": "boolean"})))
            .collect();
        check(&fields(&many.into()), NO_FORM);
        for url in [
            "javascript:alert(1)",
            "http://pay.example/",
            "https://pay.example@evil.example/",
            "https:///a",
            "https://pay.example/\u{202e}",
            "https://päy.example/",
            "",
        ] {
            check(
                &asks(&json!({"mode": "url", "message": "Pay", "url": url})),
                NO_LINK,
            );
        }
        check(&asks(&json!({"mode": "url", "message": "Pay"})), NO_LINK);
        check(
            &asks(&json!({"mode": "voice"})),
            "the server asks in a way that is not known here",
        );
        check(
            &json!({"inputRequests": {"k": {"method": "sampling/createMessage"}}}),
            "the server asks for something else than an answer of the user's",
        );
        check(
            &json!({}),
            "the server asks for nothing, and does not go on",
        );
        check(
            &json!({"requestState": "s".repeat(40_000)}),
            "the server wants more back with the answer than is kept",
        );
        check(
            &fields(&json!({"a\u{202e}b": {"type": "boolean"}})),
            "the server names a field as no form can show it",
        );
    }
}
