//! Compares a tool's schema with the arguments that its built-in handler reads: an argument that the schema allows and the handler
//! refuses would fail in every call. Knows no handler.

use crate::dialect::kinds::{kinds_of, kinds_of_choices};
use crate::manifest::schema::TYPES;
use crate::problem::Report;
use serde_json::{Map, Value};
use windlass_contract::id::ToolId;
use windlass_contract::reference;
use windlass_contract::wording::{brief, pointer};

/// The deepest nesting of alternatives that is compared: a schema that refers to itself has no end.
const DEPTH_MAX: usize = 16;

/// Reports each place where the schema allows a value that the handler refuses.
pub(super) fn compare(id: &ToolId, reads: &Value, parameters: &Value, report: &mut Report<'_>) {
    let mut comparison = Comparison {
        id,
        root: parameters,
        report,
    };
    comparison.value(&[parameters], reads, "/parameters");
}

struct Comparison<'s, 'r, 't> {
    id: &'s ToolId,
    root: &'s Value,
    report: &'r mut Report<'t>,
}

impl<'s> Comparison<'s, '_, '_> {
    /// One value, by the schemas that hold for it.
    fn value(&mut self, schemas: &[&'s Value], reads: &Value, place: &str) {
        let parts = reference::parts(self.root, schemas);
        let Some(reads) = reads.as_object() else {
            return;
        };
        self.kinds(schemas, reads, place);
        if let Some(known) = reads.get("enum").and_then(Value::as_array) {
            self.choices(&parts, known, place);
        }
        if let Some(known) = reads.get("properties").and_then(Value::as_object) {
            self.members(&parts, reads, known, place);
        }
        if let Some(item) = reads.get("items") {
            let items: Vec<&Value> = parts.iter().filter_map(|part| part.get("items")).collect();
            self.value(&items, item, &pointer(place, "items"));
        }
    }

    fn kinds(&mut self, schemas: &[&'s Value], reads: &Map<String, Value>, place: &str) {
        let served = kinds_of(reads);
        if served.is_empty() {
            return;
        }
        let allowed = kinds(self.root, schemas, 0);
        let is_served = |kind: &&str| {
            served.contains(kind) || (*kind == "integer" && served.contains(&"number"))
        };
        let beyond: Vec<&str> = allowed
            .iter()
            .copied()
            .filter(|kind| !is_served(kind))
            .collect();
        if beyond.is_empty() {
            return;
        }
        let lets_through = match allowed.len() == TYPES.len() {
            true => "any type".to_owned(),
            false => beyond.join(" and "),
        };
        let served = served.join(" or ");
        self.report.error(
            place,
            format!(
                "this allows {lets_through}, and the built-in handler of `{}` reads {served}",
                self.id
            ),
            format!("write \"type\": {}", reads["type"]),
        );
    }

    fn choices(&mut self, parts: &[&'s Map<String, Value>], known: &[Value], place: &str) {
        let allowed = parts.iter().find_map(|part| match part.get("const") {
            Some(only) => Some(std::slice::from_ref(only)),
            None => Some(part.get("enum")?.as_array()?.as_slice()),
        });
        let message = match allowed {
            None => format!(
                "this allows every value, and the built-in handler of `{}` knows a few",
                self.id
            ),
            Some(allowed) => match allowed.iter().find(|choice| !known.contains(choice)) {
                None => return,
                Some(unknown) => format!(
                    "this allows {}, which the built-in handler of `{}` does not know",
                    brief(&unknown.to_string()),
                    self.id
                ),
            },
        };
        let known: Vec<String> = known.iter().map(ToString::to_string).collect();
        let cure = format!("write an `enum` of some of {}", known.join(", "));
        self.report.error(place, message, cure);
    }

    fn members(
        &mut self,
        parts: &[&'s Map<String, Value>],
        reads: &Map<String, Value>,
        known: &Map<String, Value>,
        place: &str,
    ) {
        let properties = || {
            let all = parts.iter().filter_map(|part| part.get("properties"));
            all.filter_map(Value::as_object).flatten()
        };
        let place_of = |name: &str| pointer(&pointer(place, "properties"), name);
        for (name, _) in properties().filter(|(name, _)| !known.contains_key(*name)) {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            self.report.error(
                &place_of(name),
                format!(
                    "the built-in handler of `{}` does not read `{}`",
                    self.id,
                    brief(name)
                ),
                format!("remove it; the handler reads {}", names.join(", ")),
            );
        }
        let is_listed = |list: Option<&Value>, name: &str| {
            let names = list.and_then(Value::as_array).into_iter().flatten();
            names.filter_map(Value::as_str).any(|listed| listed == name)
        };
        for (name, reads_there) in known {
            let schemas: Vec<&Value> = properties()
                .filter(|(other, _)| *other == name)
                .map(|(_, schema)| schema)
                .collect();
            let is_sure = parts
                .iter()
                .any(|part| is_listed(part.get("required"), name))
                || reference::parts(self.root, &schemas)
                    .iter()
                    .any(|part| part.contains_key("default"));
            let needs = is_listed(reads.get("required"), name);
            if schemas.is_empty() {
                if needs {
                    self.report.error(
                        place,
                        format!(
                            "the built-in handler of `{}` needs `{name}`, which is no parameter",
                            self.id
                        ),
                        format!("add it: \"{name}\": {reads_there}"),
                    );
                }
                continue;
            }
            let here = place_of(name);
            if needs && !is_sure {
                self.report.error(
                    &here,
                    format!(
                        "the built-in handler of `{}` needs `{name}`, which a call may leave out",
                        self.id
                    ),
                    "add it to `required`, or give it a default",
                );
            }
            self.value(&schemas, reads_there, &here);
        }
    }
}

/// The types that values with these schemas may have.
fn kinds(root: &Value, schemas: &[&Value], depth: usize) -> Vec<&'static str> {
    let mut kinds = TYPES.to_vec();
    if depth > DEPTH_MAX {
        return kinds;
    }
    for part in reference::parts(root, schemas) {
        let mut keep = |allowed: &[&str]| {
            kinds.retain(|kind| {
                allowed.contains(kind) || (*kind == "integer" && allowed.contains(&"number"))
            });
        };
        if part.contains_key("type") {
            keep(&kinds_of(part));
        }
        if part.contains_key("enum") || part.contains_key("const") {
            keep(&kinds_of_choices(part));
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = part.get(keyword) {
                let allowed: Vec<&str> = branches
                    .iter()
                    .flat_map(|branch| self::kinds(root, &[branch], depth + 1))
                    .collect();
                keep(&allowed);
            }
        }
    }
    kinds
}
