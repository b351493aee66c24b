//! Writes out the parts that Gemini's schema has no keyword for: references, `allOf`, and the keywords beside `anyOf`. Knows which of two
//! rules is the stricter one, if there is one.

use super::{Conversion, INLINED_MAX};
use crate::dialect::kinds::kinds_of;
use serde_json::{Map, Value, json};
use windlass_contract::reference;
use windlass_contract::wording::pointer;

impl Conversion<'_, '_> {
    /// The schema with its references and `allOf` replaced by the schemas that they name. `None` for a reference that leads to itself,
    /// which is an error.
    pub(super) fn inline(
        &mut self,
        object: &Map<String, Value>,
        place: &str,
    ) -> Option<Map<String, Value>> {
        self.inlined += 1;
        if self.inlined > INLINED_MAX {
            // Reported once; the remaining subschemas are cut off silently.
            if self.inlined == INLINED_MAX + 1 {
                self.notes.error(
                    place,
                    format!("with its references written out, the schema has over {INLINED_MAX} subschemas"),
                    "refer to less; Gemini's native schema has no references",
                );
            }
            return None;
        }
        let mut merged = object.clone();
        if let Some(Value::String(reference)) = merged.remove("$ref") {
            if reference == "#" || reference::leads_to_itself(self.root, &reference) {
                self.notes.error(
                    &pointer(place, "$ref"),
                    format!("the schema refers to itself through `{reference}`, which Gemini's native schema cannot express"),
                    "unroll it to the depth that you need",
                );
                return None;
            }
            let target = reference::resolve(self.root, &reference)?
                .as_object()?
                .clone();
            let target = self.inline(&target, place)?;
            self.merge(&mut merged, &target, place);
        }
        if let Some(Value::Array(parts)) = merged.remove("allOf") {
            for part in parts.iter().filter_map(Value::as_object) {
                let part = self.inline(part, place)?;
                self.merge(&mut merged, &part, place);
            }
        }
        Some(merged)
    }

    /// Adds the rules of `other` to `schema`, so that both hold. Where they disagree the stricter rule counts; where neither is stricter,
    /// the schema's own.
    pub(super) fn merge(
        &mut self,
        schema: &mut Map<String, Value>,
        other: &Map<String, Value>,
        place: &str,
    ) {
        for (keyword, value) in other {
            // Both types have to allow a value; if they have none in common, the schema's own types stay.
            if keyword == "type"
                && schema.contains_key(keyword)
                && narrow_kinds(schema, &kinds_of(other))
            {
                continue;
            }
            let Some(mine) = schema.get_mut(keyword) else {
                schema.insert(keyword.clone(), value.clone());
                continue;
            };
            if mine == value {
                continue;
            }
            match (keyword.as_str(), mine, value) {
                ("properties", Value::Object(mine), Value::Object(theirs)) => {
                    for (name, property) in theirs {
                        let here = pointer(&pointer(place, keyword), name);
                        match (mine.get_mut(name), property) {
                            (Some(Value::Object(mine)), Value::Object(property)) => {
                                self.merge(mine, property, &here);
                            }
                            // `false` is the strictest schema, and `true` has no rule.
                            (Some(mine), property) => {
                                if property == &Value::Bool(false) || mine == &Value::Bool(true) {
                                    *mine = property.clone();
                                }
                            }
                            (None, _) => {
                                mine.insert(name.clone(), property.clone());
                            }
                        }
                    }
                }
                ("required", Value::Array(mine), Value::Array(theirs)) => {
                    let missing: Vec<Value> = theirs
                        .iter()
                        .filter(|name| !mine.contains(name))
                        .cloned()
                        .collect();
                    mine.extend(missing);
                }
                ("enum", Value::Array(mine), Value::Array(theirs)) => {
                    mine.retain(|choice| theirs.contains(choice));
                }
                (name, mine, theirs) if is_stricter(name, theirs, mine) => *mine = theirs.clone(),
                (name, mine, theirs) if is_stricter(name, mine, theirs) => {}
                ("description" | "title" | "default" | "examples" | "$defs", _, _) => {}
                _ => self
                    .notes
                    .dropped(&format!("{keyword} twice for one value"), place),
            }
        }
    }
}

/// Whether the first bound is the stricter one.
fn is_stricter(keyword: &str, bound: &Value, other: &Value) -> bool {
    let (Some(bound), Some(other)) = (bound.as_f64(), other.as_f64()) else {
        return keyword == "additionalProperties" && bound == &Value::Bool(false)
            || keyword == "uniqueItems" && bound == &Value::Bool(true);
    };
    match keyword {
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties"
        | "minContains" => bound > other,
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties"
        | "maxContains" => bound < other,
        _ => false,
    }
}

pub(super) fn without(object: &Map<String, Value>, keywords: &[&str]) -> Map<String, Value> {
    let mut object = object.clone();
    object.retain(|keyword, _| !keywords.contains(&keyword.as_str()));
    object
}

/// Keeps the types of a branch that its siblings allow, too; `false` if none is left.
pub(super) fn narrow_kinds(branch: &mut Map<String, Value>, kinds: &[&str]) -> bool {
    if kinds.is_empty() {
        return true;
    }
    let own = kinds_of(branch);
    let both: Vec<&str> = if own.is_empty() {
        kinds.to_vec()
    } else {
        let is_shared =
            |kind: &str| kinds.contains(&kind) || (kind == "integer" && kinds.contains(&"number"));
        let mut both: Vec<&str> = own.iter().copied().filter(|kind| is_shared(kind)).collect();
        // A number that must be whole as well becomes an integer.
        if own.contains(&"number") && kinds.contains(&"integer") && !both.contains(&"integer") {
            both.push("integer");
        }
        both
    };
    let narrowed = match both.as_slice() {
        [] => return false,
        [only] => json!(only),
        several => json!(several),
    };
    branch.insert("type".to_owned(), narrowed);
    true
}

/// Whether a schema allows `null` and nothing else.
pub(super) fn is_null_alone(schema: &Map<String, Value>) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
        || schema.get("const") == Some(&Value::Null)
        || schema
            .get("enum")
            .and_then(Value::as_array)
            .is_some_and(|choices| !choices.is_empty() && choices.iter().all(Value::is_null))
}
