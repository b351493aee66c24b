//! The body of an operation: which of its media types is sent, and which parts of it a model fills in.

use super::Operation;
use super::operation::Request;
use super::style::{Shape, Style, as_json};
use crate::schema::{Converter, Need, described, followed, merged};
use crate::words::brief;
use serde_json::{Map, Value, json};

/// How many members of a body become arguments of the tool; a larger body is one argument.
const MEMBERS_MAX: usize = 64;
const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
/// Methods that send no body.
const WITHOUT_BODY: [&str; 2] = ["get", "head"];

/// How a body is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Urlencoded,
    Text,
}

/// Adds the body to the request. If an optional body cannot be sent, it is left out with a note.
pub(super) fn add(
    document: &Value,
    operation: &Operation<'_>,
    converter: &mut Converter<'_>,
    request: &mut Request,
) -> Result<(), String> {
    let Some(body) = operation.value.get("requestBody") else {
        return Ok(());
    };
    let body = followed(document, body)?;
    let need = Need::of(body.get("required") == Some(&Value::Bool(true)));
    let content = body.get("content").and_then(Value::as_object);
    let Some(content) = content.filter(|content| !content.is_empty()) else {
        return Ok(());
    };
    let left_out = match chosen(content) {
        None => {
            let kinds: Vec<String> = content.keys().map(|kind| brief(kind)).collect();
            format!("is {}, not JSON, a form or text", kinds.join(", "))
        }
        Some((form, kind, media)) => {
            let schema = match media.get("schema") {
                Some(schema) => merged(converter.convert(schema, need, None)?),
                None => json!({}),
            };
            let sends_nothing = form == Form::Urlencoded && has_no_members(&schema);
            if sends_nothing {
                return Ok(());
            }
            if !WITHOUT_BODY.contains(&operation.method) {
                let media = Media { form, kind, media };
                return fill_in(&media, schema, need, request);
            }
            format!(
                "goes with a {} request, which has none",
                operation.method.to_ascii_uppercase()
            )
        }
    };
    match need {
        Need::Required => Err(format!("its body {left_out}")),
        Need::Optional => {
            request
                .notes
                .push(format!("the optional body is left out: it {left_out}"));
            Ok(())
        }
    }
}

struct Media<'d> {
    form: Form,
    /// The media type's name in the description.
    kind: &'d str,
    media: &'d Value,
}

/// The media type that is sent: JSON before forms, and forms before text.
fn chosen(content: &Map<String, Value>) -> Option<(Form, &str, &Value)> {
    let found = |form: Form, is_fit: &dyn Fn(&str) -> bool| {
        content
            .iter()
            .find(|(kind, _)| is_fit(&essence(kind)))
            .map(|(kind, media)| (form, kind.as_str(), media))
    };
    found(Form::Json, &|kind| kind == JSON)
        .or_else(|| found(Form::Json, &|kind| kind.ends_with("+json")))
        .or_else(|| found(Form::Json, &|kind| matches!(kind, "*/*" | "application/*")))
        .or_else(|| found(Form::Urlencoded, &|kind| kind == FORM))
        .or_else(|| found(Form::Text, &|kind| kind.starts_with("text/")))
}

/// A media type without its parameters.
fn essence(kind: &str) -> String {
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

pub(super) fn is_json(kind: &str) -> bool {
    let kind = essence(kind);
    kind == JSON || kind.ends_with("+json")
}

/// A form whose schema names nothing: some descriptions give one to every operation.
fn has_no_members(schema: &Value) -> bool {
    let members = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    members.is_none_or(Map::is_empty) && others.is_none_or(|others| !others.is_object())
}

fn fill_in(
    media: &Media<'_>,
    schema: Value,
    need: Need,
    request: &mut Request,
) -> Result<(), String> {
    let content_type = match media.form {
        Form::Json => Some(essence(media.kind)).filter(|kind| kind.ends_with("+json")),
        Form::Urlencoded => Some(FORM.to_owned()),
        Form::Text if media.kind.contains('*') => Some("text/plain".to_owned()),
        Form::Text => Some(essence(media.kind)),
    };
    if let Some(content_type) = content_type {
        request
            .headers
            .insert("content-type".to_owned(), content_type.into());
    }
    let members = match media.form {
        Form::Json | Form::Urlencoded => plain_members(&schema),
        Form::Text => None,
    };
    if let Some(members) = members.filter(|members| members.len() > MEMBERS_MAX)
        && media.form == Form::Json
    {
        request.notes.push(format!(
            "its body has {} members, and {MEMBERS_MAX} can be arguments of their own: all of it is one argument",
            members.len()
        ));
    }
    let members =
        members.filter(|members| members.len() <= MEMBERS_MAX || media.form == Form::Urlencoded);
    let Some(members) = members else {
        if media.form == Form::Urlencoded {
            return Err("its form is no plain object".to_owned());
        }
        let argument = request.argument("body", "request", schema, need);
        request.body = Some(format!("{{{argument}}}").into());
        return Ok(());
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &String| {
        let mut required = required.into_iter().flatten();
        required.any(|known| known == name)
    };
    let mut template = Map::new();
    for (name, member) in members {
        // A body that may be left out is not begun by a default.
        let member = match need {
            Need::Required => member.clone(),
            Need::Optional => described(member.clone()),
        };
        let member_need = Need::of(is_required(name));
        let argument = request.argument(name, "body", member.clone(), member_need);
        let value = match media.form {
            Form::Json | Form::Text => format!("{{{argument}}}").into(),
            Form::Urlencoded => member_of_form(media.media, name, &argument, &member)
                .map_err(|problem| format!("its member {} {problem}", brief(name)))?,
        };
        template.insert(name.clone(), value);
    }
    request.body = Some(Value::Object(template));
    Ok(())
}

/// A member of a form, in the style that `encoding` names. Without one, an object is JSON within text.
/// Source: <https://spec.openapis.org/oas/v3.0.3#encoding-object>.
fn member_of_form(
    media: &Value,
    name: &str,
    argument: &str,
    member: &Value,
) -> Result<Value, String> {
    let encoding = media.get("encoding").and_then(|all| all.get(name));
    let names_style = encoding.is_some_and(|encoding| {
        encoding.get("style").is_some() || encoding.get("explode").is_some()
    });
    let shape = Shape::of(member);
    if !names_style && (shape.object || shape.nested) {
        return Ok(as_json(argument));
    }
    Style::of(encoding.unwrap_or(&Value::Null), "form").value(argument, member)
}

/// The members of a schema that says nothing about its object but which members it has.
fn plain_members(schema: &Value) -> Option<&Map<String, Value>> {
    const KNOWN: [&str; 5] = [
        "type",
        "properties",
        "required",
        "description",
        "additionalProperties",
    ];
    let object = schema.as_object()?;
    let is_object = object.get("type").is_none_or(|kind| kind == "object");
    let is_plain = object.keys().all(|name| KNOWN.contains(&name.as_str()));
    let is_open = object
        .get("additionalProperties")
        .is_some_and(Value::is_object);
    let members = object.get("properties")?.as_object()?;
    (is_object && is_plain && !is_open && !members.is_empty()).then_some(members)
}
