//! A schema of OpenAPI 3.0 or 3.1 as JSON Schema 2020-12 with nothing but what a tool's schema may hold: references written
//! out, older spellings modernised, and what only a server needs left out.

use super::{brief, one_line, resolve};
use serde_json::{Map, Value, json};
use windlass_tool::validate::{FORMATS, Validator};

/// How deep schemas are followed. The compiler takes 16 levels; the arguments themselves are one.
const DEPTH_MAX: usize = 15;
const DESCRIPTION_CHARACTERS_MAX: usize = 500;
/// How many subschemas one operation may have: no reference can multiply them without end.
const SUBSCHEMAS_MAX: usize = 2_000;

/// Keywords that are taken over as they are.
const PLAIN: [&str; 18] = [
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maximum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minimum",
    "minItems",
    "minLength",
    "minProperties",
    "multipleOf",
    "uniqueItems",
    "dependentRequired",
    "minContains",
    "maxContains",
    "deprecated",
];

/// Converts the schemas of one operation.
pub(super) struct Converter<'d> {
    document: &'d Value,
    /// The references that are being written out.
    stack: Vec<String>,
    count: usize,
    pub(super) notes: Vec<String>,
}

impl<'d> Converter<'d> {
    pub(super) fn new(document: &'d Value) -> Self {
        Self {
            document,
            stack: Vec::new(),
            count: 0,
            notes: Vec::new(),
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The schema of a value that is sent. An error says why no tool can have it.
    pub(super) fn convert(&mut self, schema: &Value) -> Result<Value, String> {
        self.at(schema, 0)
    }

    fn at(&mut self, schema: &Value, depth: usize) -> Result<Value, String> {
        self.count += 1;
        if self.count > SUBSCHEMAS_MAX {
            return Err(format!("its schemas have over {SUBSCHEMAS_MAX} parts"));
        }
        let Some(object) = schema.as_object() else {
            return Ok(match schema {
                Value::Bool(allows) => Value::Bool(*allows),
                _ => json!({}),
            });
        };
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            return self.referred(object, reference, depth);
        }
        if depth >= DEPTH_MAX {
            self.note(format!(
                "schemas deeper than {DEPTH_MAX} levels take any value"
            ));
            return Ok(json!({}));
        }
        let mut made = Map::new();
        self.texts(object, &mut made);
        self.kind(object, &mut made);
        self.bounds(object, &mut made);
        self.parts(object, &mut made, depth)?;
        self.pattern_and_default(object, &mut made);
        Ok(Value::Object(made))
    }

    fn referred(
        &mut self,
        object: &Map<String, Value>,
        reference: &str,
        depth: usize,
    ) -> Result<Value, String> {
        let own = object.get("description").and_then(Value::as_str);
        if self.stack.iter().any(|known| known == reference) {
            let name = reference.rsplit('/').next().unwrap_or(reference);
            self.note(format!(
                "{} contains itself; what it contains takes any value",
                brief(name)
            ));
            let text = own.map_or_else(|| format!("A further {}", brief(name)), str::to_owned);
            return Ok(json!({ "description": one_line(&text, DESCRIPTION_CHARACTERS_MAX) }));
        }
        let target = resolve(self.document, reference)?;
        self.stack.push(reference.to_owned());
        let made = self.at(target, depth);
        self.stack.pop();
        let mut made = made?;
        // In 3.1 what stands beside a reference counts; a description is what is put there.
        if let (Some(own), Some(made)) = (own, made.as_object_mut()) {
            made.insert(
                "description".to_owned(),
                one_line(own, DESCRIPTION_CHARACTERS_MAX).into(),
            );
        }
        Ok(made)
    }

    fn texts(&self, object: &Map<String, Value>, made: &mut Map<String, Value>) {
        let text = ["description", "title"]
            .iter()
            .find_map(|name| object.get(*name).and_then(Value::as_str));
        if let Some(text) = text {
            let text = one_line(text, DESCRIPTION_CHARACTERS_MAX);
            made.insert("description".to_owned(), text.into());
        }
    }

    /// The type, with the 3.0 spelling of what may be null.
    fn kind(&self, object: &Map<String, Value>, made: &mut Map<String, Value>) {
        let is_nullable = object.get("nullable") == Some(&Value::Bool(true));
        let kind = match object.get("type") {
            Some(kind) => Some(kind.clone()),
            None if object.contains_key("properties") => Some("object".into()),
            None if object.contains_key("items") => Some("array".into()),
            None => None,
        };
        let kind = match kind {
            Some(Value::String(kind)) if is_nullable => Some(json!([kind, "null"])),
            kind => kind,
        };
        if let Some(kind) = kind {
            made.insert("type".to_owned(), kind);
        }
        if let Some(format) = object.get("format").and_then(Value::as_str)
            && FORMATS.contains(&format)
        {
            made.insert("format".to_owned(), format.into());
        }
    }

    fn bounds(&self, object: &Map<String, Value>, made: &mut Map<String, Value>) {
        for name in PLAIN {
            if let Some(value) = object.get(name) {
                made.insert(name.to_owned(), value.clone());
            }
        }
        // OpenAPI 3.0 has a flag beside the bound where JSON Schema has the bound itself.
        for (flag, bound) in [
            ("exclusiveMinimum", "minimum"),
            ("exclusiveMaximum", "maximum"),
        ] {
            if let Some(Value::Bool(is_exclusive)) = object.get(flag) {
                made.remove(flag);
                if *is_exclusive && let Some(value) = made.remove(bound) {
                    made.insert(flag.to_owned(), value);
                }
            }
        }
        // `null` has to be in the list for a value that may be null.
        let is_nullable = object.get("nullable") == Some(&Value::Bool(true));
        if let Some(Value::Array(values)) = made.get_mut("enum")
            && is_nullable
            && !values.contains(&Value::Null)
        {
            values.push(Value::Null);
        }
    }

    fn parts(
        &mut self,
        object: &Map<String, Value>,
        made: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        let mut left_out = Vec::new();
        if let Some(properties) = object.get("properties").and_then(Value::as_object) {
            let mut kept = Map::new();
            for (name, schema) in properties {
                if self.is_read_only(schema) {
                    left_out.push(name.as_str());
                    continue;
                }
                kept.insert(name.clone(), self.at(schema, depth + 1)?);
            }
            made.insert("properties".to_owned(), Value::Object(kept));
        }
        if let Some(required) = object.get("required").and_then(Value::as_array) {
            let properties = object.get("properties");
            let kept: Vec<&Value> = required
                .iter()
                .filter(|name| {
                    name.as_str().is_some_and(|name| {
                        let is_property =
                            properties.is_none_or(|properties| properties.get(name).is_some());
                        is_property && !left_out.contains(&name)
                    })
                })
                .collect();
            if !kept.is_empty() && properties.is_some() {
                made.insert("required".to_owned(), json!(kept));
            }
        }
        for name in [
            "items",
            "additionalProperties",
            "not",
            "propertyNames",
            "contains",
        ] {
            if let Some(schema) = object.get(name) {
                made.insert(name.to_owned(), self.at(schema, depth + 1)?);
            }
        }
        for name in ["allOf", "anyOf", "oneOf", "prefixItems"] {
            if let Some(schemas) = object.get(name).and_then(Value::as_array) {
                let schemas: Result<Vec<Value>, String> = schemas
                    .iter()
                    .map(|schema| self.at(schema, depth + 1))
                    .collect();
                made.insert(name.to_owned(), Value::Array(schemas?));
            }
        }
        Ok(())
    }

    fn is_read_only(&self, schema: &Value) -> bool {
        let target = match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => resolve(self.document, reference).unwrap_or(schema),
            None => schema,
        };
        [schema, target]
            .iter()
            .any(|schema| schema.get("readOnly") == Some(&Value::Bool(true)))
    }

    /// Both are kept only where a tool's schema may have them.
    fn pattern_and_default(&mut self, object: &Map<String, Value>, made: &mut Map<String, Value>) {
        if let Some(pattern) = object.get("pattern").and_then(Value::as_str) {
            match Validator::compile(&json!({ "type": "string", "pattern": pattern })) {
                Ok(_) => {
                    made.insert("pattern".to_owned(), pattern.into());
                }
                Err(_) => self.note(format!(
                    "the pattern {} cannot run in linear time and is left out",
                    brief(pattern)
                )),
            }
        }
        if let Some(default) = object.get("default") {
            let fits = Validator::compile(&Value::Object(made.clone()))
                .is_ok_and(|validator| validator.is_valid(default));
            match fits {
                true => {
                    made.insert("default".to_owned(), default.clone());
                }
                false => self.note(format!(
                    "the default {} breaks its own schema and is left out",
                    brief(&default.to_string())
                )),
            }
        }
    }
}

/// An object's schema with the parts of its `allOf` put together, where each is a plain object; else as it is.
pub(super) fn merged(schema: Value) -> Value {
    let Some(parts) = schema.get("allOf").and_then(Value::as_array) else {
        return schema;
    };
    let mut whole = schema.as_object().cloned().unwrap_or_default();
    whole.remove("allOf");
    let mut properties = take_object(&mut whole, "properties");
    let mut required = take_list(&mut whole, "required");
    for part in parts {
        let Value::Object(mut part) = merged(part.clone()) else {
            return schema;
        };
        for (name, property) in take_object(&mut part, "properties") {
            properties.entry(name).or_insert(property);
        }
        required.extend(take_list(&mut part, "required"));
        part.remove("description");
        part.remove("type");
        if !part.is_empty() {
            return schema;
        }
    }
    whole.insert("type".to_owned(), "object".into());
    whole.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        required.sort_by_key(ToString::to_string);
        required.dedup();
        whole.insert("required".to_owned(), Value::Array(required));
    }
    Value::Object(whole)
}

fn take_object(schema: &mut Map<String, Value>, name: &str) -> Map<String, Value> {
    match schema.remove(name) {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

fn take_list(schema: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    match schema.remove(name) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}
