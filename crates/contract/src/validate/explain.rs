//! Turns the validator crate's errors into violations that a model can act on. The caller's values are never repeated, except for names,
//! which are shortened.

use super::{Violation, formats};
use crate::reference;
use crate::wording::{brief, pointer};
use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::Value;

/// The longest message, in characters.
const MESSAGE_CHARACTERS_MAX: usize = 120;
/// The longest list of allowed values that is spelt out, in characters.
const CHOICES_CHARACTERS_MAX: usize = 400;
/// The most violations that are listed: models do not correct more at a time.
const VIOLATIONS_MAX: usize = 50;

pub(super) fn violations<'e>(
    schema: &Value,
    errors: impl Iterator<Item = ValidationError<'e>>,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for error in errors {
        describe(schema, &error, &mut violations);
        if violations.len() >= VIOLATIONS_MAX {
            break;
        }
    }
    violations.truncate(VIOLATIONS_MAX);
    violations.sort_by(|left, right| {
        (&left.pointer, &left.message).cmp(&(&right.pointer, &right.message))
    });
    violations.dedup();
    violations
}

fn describe(schema: &Value, error: &ValidationError<'_>, violations: &mut Vec<Violation>) {
    let place = error.instance_path().to_string();
    if let Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } =
        error.kind()
    {
        let allowed = allowed_names(schema, &error.schema_path().to_string());
        violations.extend(unexpected.iter().map(|name| Violation {
            pointer: pointer(&place, &brief(name)),
            message: format!("there is no argument named `{}`", brief(name)),
            allowed: allowed.clone(),
        }));
        return;
    }
    if let Kind::Required { property } = error.kind() {
        let name = property.as_str().unwrap_or_default();
        violations.push(Violation {
            pointer: pointer(&place, name),
            message: format!("`{}` is required", brief(name)),
            allowed: Vec::new(),
        });
        return;
    }
    violations.push(Violation {
        pointer: place,
        message: message(error.kind(), error.instance()),
        allowed: Vec::new(),
    });
}

fn message(kind: &Kind, value: &Value) -> String {
    match kind {
        Kind::Type { kind } => match unquoted_form(kind, value) {
            Some(cure) => format!("must be {}: write {cure}", types(kind)),
            None => format!("must be {}", types(kind)),
        },
        Kind::Format { format }
            if *format == "date-time" && value.as_str().is_some_and(formats::lacks_offset) =>
        {
            "must be a valid date-time: its offset is missing; end it with one such as +01:00, or with Z for UTC".to_owned()
        }
        Kind::Enum { options } => choices(options),
        Kind::Constant { expected_value } => {
            format!("must be {}", shorten(&expected_value.to_string()))
        }
        Kind::Format { format } => format!("must be a valid {format}"),
        Kind::Pattern { pattern } => shorten(&format!("must match the pattern {pattern}")),
        Kind::MinLength { limit } => format!("must be at least {limit} characters long"),
        Kind::MaxLength { limit } => format!("must be at most {limit} characters long"),
        Kind::MinItems { limit } => format!("must have at least {limit} items"),
        Kind::MaxItems { limit } => format!("must have at most {limit} items"),
        Kind::MinProperties { limit } => format!("must have at least {limit} members"),
        Kind::MaxProperties { limit } => format!("must have at most {limit} members"),
        Kind::Minimum { limit } => format!("must be {limit} or more"),
        Kind::Maximum { limit } => format!("must be {limit} or less"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::UniqueItems => "must not have the same item twice".to_owned(),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
            "has none of the forms that are allowed here".to_owned()
        }
        Kind::OneOfMultipleValid { .. } => {
            "has several of the forms that exclude each other here".to_owned()
        }
        Kind::Not { .. } => "has a form that is excluded here".to_owned(),
        Kind::FalseSchema => "is not allowed here".to_owned(),
        Kind::Contains => "lacks an item that has to be there".to_owned(),
        Kind::PropertyNames { .. } => "has a member whose name is not allowed".to_owned(),
        Kind::AdditionalItems { limit } => format!("must have at most {limit} items"),
        Kind::UnevaluatedItems { .. } => "has items that are not allowed".to_owned(),
        other => format!("does not satisfy `{}`", other.keyword()),
    }
}

/// The right form for a value of this type that was sent inside a text; an example, never the value.
fn unquoted_form(kind: &TypeKind, value: &Value) -> Option<&'static str> {
    let inner: Value = serde_json::from_str(value.as_str()?.trim()).ok()?;
    let takes = |name: &str| match kind {
        TypeKind::Single(single) => single.to_string() == name,
        TypeKind::Multiple(several) => several.iter().any(|one| one.to_string() == name),
    };
    match inner {
        Value::Array(items) if takes("array") => Some(match items.first() {
            Some(Value::Number(_)) => "[1], not a string",
            Some(Value::Object(_)) => "[{\"a\": 1}], not a string",
            _ => "[\"a\"], not a string",
        }),
        Value::Object(_) if takes("object") => Some("{\"a\": 1}, not a string"),
        Value::Number(_) if takes("number") || takes("integer") => Some("it without quotes"),
        Value::Bool(_) if takes("boolean") => Some("it without quotes"),
        _ => None,
    }
}

fn types(kind: &TypeKind) -> String {
    let with_article = |name: &str| match name {
        "null" => "null".to_owned(),
        "array" | "integer" | "object" => format!("an {name}"),
        _ => format!("a {name}"),
    };
    match kind {
        TypeKind::Single(name) => with_article(&name.to_string()),
        TypeKind::Multiple(names) => {
            let names: Vec<String> = names
                .iter()
                .map(|name| with_article(&name.to_string()))
                .collect();
            names.join(" or ")
        }
    }
}

fn choices(options: &Value) -> String {
    let mut text = String::from("must be one of ");
    for (index, option) in options.as_array().into_iter().flatten().enumerate() {
        if text.len() > CHOICES_CHARACTERS_MAX {
            text.push_str(", …");
            break;
        }
        if index > 0 {
            text.push_str(", ");
        }
        text.push_str(&shorten(&option.to_string()));
    }
    text
}

/// The names that an object allows; the schema path leads to its `additionalProperties`.
fn allowed_names(root: &Value, schema_path: &str) -> Vec<String> {
    let mut place = root;
    let mut tokens: Vec<&str> = schema_path.split('/').skip(1).collect();
    tokens.pop();
    for token in tokens {
        let token = token.replace("~1", "/").replace("~0", "~");
        let next = match place {
            Value::Object(object) => object.get(&token),
            Value::Array(items) => token
                .parse::<usize>()
                .ok()
                .and_then(|index| items.get(index)),
            _ => None,
        };
        let Some(next) = next else {
            return Vec::new();
        };
        place = match next.as_str().filter(|_| token == "$ref") {
            Some(reference) => reference::resolve(root, reference).unwrap_or(next),
            None => next,
        };
    }
    place
        .get("properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default()
}

/// The text, cut to the length of a message.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
