//! The rules of `effectKey` and `repeatable`: the arguments that identify an effect, and whether a second request is a second effect.
//! Knows nothing of recorded effects.

use super::Readable;
use crate::problem::{Report, Severity};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use windlass_contract::kind::SideEffects;
use windlass_contract::reference;
use windlass_contract::reference::unescaped;
use windlass_contract::registry::STEERING_TOOLS;
use windlass_contract::wording::{brief, nearest, pointer};

/// The deepest nesting of schemas that is followed: a schema that refers to itself has no end.
const DEPTH_MAX: usize = 64;

/// Checks each rule whose fields could be read. `object` is the file's JSON.
pub(super) fn check(
    manifest: &Readable,
    object: &Map<String, Value>,
    is_built_in: impl Fn(&str) -> bool,
    report: &mut Report<'_>,
) {
    let writes = manifest.side_effects == Some(SideEffects::Writes);
    for field in ["effectKey", "repeatable"] {
        if manifest.side_effects.is_some() && !writes && object.contains_key(field) {
            report.error(
                &format!("/{field}"),
                format!("`{field}` means nothing for a tool that does not write"),
                "remove it, or write \"sideEffects\": \"writes\"",
            );
        }
    }
    if manifest.repeatable == Some(true) && manifest.requires_confirmation == Some(true) {
        report.error(
            "/repeatable",
            "a tool that asks the user before each call cannot be repeatable",
            "remove it, or write \"requiresConfirmation\": false",
        );
    }
    let mut seen = BTreeSet::new();
    for (index, named) in manifest.effect_key.iter().enumerate() {
        let place = format!("/effectKey/{index}");
        if seen.insert(named) {
            check_pointer(named, manifest.parameters.as_ref(), &place, report);
        } else {
            let message = format!("`{}` is there twice", brief(named));
            report.error(&place, message, "write it once");
        }
    }
    let is_steering = manifest.tool_id.as_ref().is_some_and(|id| {
        let id = id.as_str();
        STEERING_TOOLS.contains(&id) && is_built_in(id)
    });
    let says_neither = !object.contains_key("effectKey") && !object.contains_key("repeatable");
    if writes && manifest.requires_confirmation == Some(false) && says_neither && !is_steering {
        warn_of_free_text(manifest.parameters.as_ref(), report);
    }
}

/// Checks a pointer; without readable parameters only its form.
fn check_pointer(named: &str, parameters: Option<&Value>, place: &str, report: &mut Report<'_>) {
    let shown = brief(named);
    let Some(segments) = segments_of(named) else {
        report.error(
            place,
            format!("`{shown}` is not a JSON pointer to an argument"),
            "write a slash and the argument's name, such as \"/title\", with ~1 for a slash and ~0 for a tilde in the name",
        );
        return;
    };
    let Some(parameters) = parameters else {
        return;
    };
    let root = reference::parts(parameters, &[parameters]);
    let argument = segments[0].as_str();
    if !is_declared(&root, argument) {
        let declared = root.iter().filter_map(|part| part.get("properties"));
        let names = declared.filter_map(Value::as_object).flat_map(Map::keys);
        let cure = nearest(argument, names.map(String::as_str)).map_or_else(
            || "name a required argument of `parameters`, such as \"/title\"".to_owned(),
            |near| format!("did you mean \"{}\"?", pointer("", near)),
        );
        report.error(place, format!("`{shown}` names no argument"), cure);
    } else if segments.len() > 1 {
        report.error(
            place,
            format!("`{shown}` points into the argument `{}`", brief(argument)),
            format!("name the whole argument: \"{}\"", pointer("", argument)),
        );
    } else if !is_required(&root, argument) {
        report.error(
            place,
            format!("`{shown}` names an optional argument, which calls may leave out"),
            "add it to `required` of the parameters, or take it off the list",
        );
    }
}

/// The names in a JSON pointer: one or more. `None` if it is malformed.
pub(super) fn segments_of(pointer: &str) -> Option<Vec<String>> {
    let escapes_are_known = pointer.split('~').skip(1).all(|rest| {
        let escaped = rest.chars().next();
        matches!(escaped, Some('0' | '1'))
    });
    let segments = pointer.strip_prefix('/').filter(|_| escapes_are_known)?;
    Some(segments.split('/').map(unescaped).collect())
}

pub(super) fn is_declared(root: &[&Map<String, Value>], argument: &str) -> bool {
    let mut declared = root.iter().filter_map(|part| part.get("properties"));
    declared.any(|properties| properties.get(argument).is_some())
}

pub(super) fn is_required(root: &[&Map<String, Value>], argument: &str) -> bool {
    let lists = root.iter().filter_map(|part| part.get("required"));
    let mut required = lists.filter_map(Value::as_array).flatten();
    required.any(|name| name.as_str() == Some(argument))
}

/// Warns of free text: a model words it differently each time, so a repeated request looks like another effect.
fn warn_of_free_text(parameters: Option<&Value>, report: &mut Report<'_>) {
    let Some(root) = parameters else {
        return;
    };
    let declared = reference::parts(root, &[root])
        .into_iter()
        .filter_map(|part| part.get("properties")?.as_object())
        .flatten();
    let mut search = FreeText {
        root,
        seen: Vec::new(),
    };
    for (name, schema) in declared {
        if search.is_in(schema, false, 0) {
            report.at_pointer(
                Severity::Warning,
                &pointer("/parameters/properties", name),
                format!(
                    "the argument `{}` takes free text, so the same change in other words counts as another one",
                    brief(name)
                ),
                "name in `effectKey` the arguments that say which effect is meant; or write \"repeatable\": true where twice harms nobody, false where other words mean another effect",
            );
            return;
        }
    }
}

/// Searches for free text in a schema: a string that no `enum`, `const`, `format` or `pattern` narrows.
struct FreeText<'s> {
    root: &'s Value,
    /// The visited schemas without free text, so that none is visited twice.
    seen: Vec<(&'s Value, bool)>,
}

impl<'s> FreeText<'s> {
    /// Whether a value of this schema is or holds free text. `is_string` tells that a schema around it, for the same value, is a string.
    fn is_in(&mut self, schema: &'s Value, is_string: bool, depth: usize) -> bool {
        const NARROWING: [&str; 4] = ["const", "enum", "format", "pattern"];
        let is_same = |seen: &(&Value, bool)| std::ptr::eq(seen.0, schema) && seen.1 == is_string;
        if depth > DEPTH_MAX || self.seen.iter().any(is_same) {
            return false;
        }
        self.seen.push((schema, is_string));
        let parts = reference::parts(self.root, &[schema]);
        let says = |keyword: &&str| parts.iter().any(|part| part.contains_key(*keyword));
        if NARROWING.iter().any(says) {
            return false;
        }
        let mut types = parts.iter().filter_map(|part| part.get("type")).peekable();
        let is_string = match types.peek() {
            None => is_string,
            Some(_) => types.any(names_string),
        };
        let lists = |keyword: &'static str| {
            let lists = parts.iter().filter_map(move |part| part.get(keyword));
            lists.filter_map(Value::as_array).flatten()
        };
        let mut branches = lists("anyOf").chain(lists("oneOf")).peekable();
        let is_free = match branches.peek() {
            None => is_string,
            Some(_) => branches.any(|branch| self.is_in(branch, is_string, depth + 1)),
        };
        let inner = |keyword: &'static str| parts.iter().filter_map(move |part| part.get(keyword));
        is_free
            || inner("properties")
                .filter_map(Value::as_object)
                .flat_map(Map::values)
                .chain(inner("items"))
                .chain(inner("additionalProperties"))
                .chain(lists("prefixItems"))
                .any(|member| self.is_in(member, false, depth + 1))
    }
}

/// Whether the value of `type` allows strings.
fn names_string(kind: &Value) -> bool {
    match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "string"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            kind == "string"
        }
    }
}
