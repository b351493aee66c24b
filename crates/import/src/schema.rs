//! A schema of OpenAPI or of another's tool as JSON Schema 2020-12 with only the parts that a tool's schema may hold: references
//! written out, older spellings modernised, and parts for servers left out. A default stays where the source requires the member.
//! Everywhere else it becomes a description: a filled-in default would be sent like an argument that the model gave.

use super::words::{brief, one_line};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use windlass_contract::validate::Validator;

/// How deep schemas are followed. The compiler takes 16 levels; the arguments themselves are one.
const DEPTH_MAX: usize = 15;
const DESCRIPTION_CHARACTERS_MAX: usize = 500;
/// A default is quoted up to this length.
const DEFAULT_CHARACTERS_MAX: usize = 100;
/// How many subschemas one operation may have: no reference can multiply them without end.
const SUBSCHEMAS_MAX: usize = 2_000;

/// Formats that say how wide a number is: its type and bounds say all that a model needs.
const NUMBER_FORMATS: [&str; 8] = [
    "int8", "int16", "int32", "int64", "uint32", "uint64", "float", "double",
];

/// The type that a keyword's value must have.
#[derive(Clone, Copy, PartialEq)]
enum Plain {
    Any,
    List,
    Object,
    Flag,
    Number,
    Count,
}

/// Keywords that are taken over as they are.
const PLAIN: [(&str, Plain); 18] = [
    ("const", Plain::Any),
    ("enum", Plain::List),
    ("exclusiveMaximum", Plain::Number),
    ("exclusiveMinimum", Plain::Number),
    ("maximum", Plain::Number),
    ("maxItems", Plain::Count),
    ("maxLength", Plain::Count),
    ("maxProperties", Plain::Count),
    ("minimum", Plain::Number),
    ("minItems", Plain::Count),
    ("minLength", Plain::Count),
    ("minProperties", Plain::Count),
    ("multipleOf", Plain::Number),
    ("uniqueItems", Plain::Flag),
    ("dependentRequired", Plain::Object),
    ("minContains", Plain::Count),
    ("maxContains", Plain::Count),
    ("deprecated", Plain::Flag),
];

impl Plain {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::List => value.as_array().is_some_and(|items| !items.is_empty()),
            Self::Object => value.is_object(),
            Self::Flag => value.is_boolean(),
            Self::Number => value.is_number(),
            Self::Count => value.is_u64(),
        }
    }
}

/// Whether the source requires a value. Only then is its default an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    Optional,
}

impl Need {
    pub(super) fn of(is_required: bool) -> Self {
        match is_required {
            true => Self::Required,
            false => Self::Optional,
        }
    }
}

/// Converts the schemas of one operation or tool.
pub(super) struct Converter<'d> {
    document: &'d Value,
    /// The references that are being written out.
    stack: Vec<String>,
    count: usize,
    /// Descriptions that were too long.
    cut: usize,
    notes: Vec<String>,
}

impl<'d> Converter<'d> {
    pub(super) fn new(document: &'d Value) -> Self {
        Self {
            document,
            stack: Vec::new(),
            count: 0,
            cut: 0,
            notes: Vec::new(),
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The parts that could not be taken over as they were.
    pub(super) fn notes(mut self) -> Vec<String> {
        if self.cut > 0 {
            self.notes.push(format!(
                "{} cut to {DESCRIPTION_CHARACTERS_MAX} characters",
                match self.cut {
                    1 => "a description is".to_owned(),
                    count => format!("{count} descriptions are"),
                }
            ));
        }
        self.notes
    }

    /// The schema of a value that is sent, with a description that goes before its own. An error says why no tool can have it.
    pub(super) fn convert(
        &mut self,
        schema: &Value,
        need: Need,
        description: Option<&str>,
    ) -> Result<Value, String> {
        self.at(schema, 0, need, description)
    }

    fn at(
        &mut self,
        schema: &Value,
        depth: usize,
        need: Need,
        description: Option<&str>,
    ) -> Result<Value, String> {
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
            return self.referred(object, reference, depth, need, description);
        }
        if depth >= DEPTH_MAX {
            self.note(format!(
                "schemas deeper than {DEPTH_MAX} levels take any value"
            ));
            return Ok(json!({}));
        }
        let mut made = Map::new();
        self.texts(object, description, &mut made);
        self.kind(object, &mut made);
        self.bounds(object, &mut made);
        self.parts(object, &mut made, depth, need)?;
        self.pattern(object, &mut made);
        if let Some(default) = object.get("default") {
            self.default(default, need, &mut made);
        }
        Ok(Value::Object(made))
    }

    fn referred(
        &mut self,
        object: &Map<String, Value>,
        reference: &str,
        depth: usize,
        need: Need,
        description: Option<&str>,
    ) -> Result<Value, String> {
        // In 3.1 the members beside a reference count; only a description and a default are common there.
        let own = object.get("description").and_then(Value::as_str);
        let own = description.or(own);
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
        let made = self.at(target, depth, need, own);
        self.stack.pop();
        let mut made = made?;
        if let (Some(default), Some(made)) = (object.get("default"), made.as_object_mut()) {
            self.default(default, need, made);
        }
        Ok(made)
    }

    fn texts(
        &mut self,
        object: &Map<String, Value>,
        description: Option<&str>,
        made: &mut Map<String, Value>,
    ) {
        let own = ["description", "title"]
            .iter()
            .find_map(|name| object.get(*name).and_then(Value::as_str));
        let texts = [description, own].into_iter().flatten();
        if let Some(text) = texts.map(str::trim).find(|text| !text.is_empty()) {
            let line = one_line(text, DESCRIPTION_CHARACTERS_MAX);
            self.cut += usize::from(line.ends_with('…') && !text.ends_with('…'));
            made.insert("description".to_owned(), line.into());
        }
    }

    /// The type, and the 3.0 spelling of a nullable one.
    fn kind(&self, object: &Map<String, Value>, made: &mut Map<String, Value>) {
        let is_nullable = object.get("nullable") == Some(&Value::Bool(true));
        let kind = match object.get("type") {
            Some(Value::String(kind)) => known_type(kind),
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
            && !NUMBER_FORMATS.contains(&format)
        {
            made.insert("format".to_owned(), format.into());
        }
    }

    fn bounds(&mut self, object: &Map<String, Value>, made: &mut Map<String, Value>) {
        for (name, kind) in PLAIN {
            let Some(value) = object.get(name) else {
                continue;
            };
            if kind.fits(value) {
                made.insert(name.to_owned(), value.clone());
            } else if !value.is_boolean() {
                self.note(format!(
                    "the keyword {name} has the value {}, which it cannot have, and is left out",
                    brief(&value.to_string())
                ));
            }
        }
        // OpenAPI 3.0 has a flag beside the bound where JSON Schema has the bound itself.
        for (flag, bound) in [
            ("exclusiveMinimum", "minimum"),
            ("exclusiveMaximum", "maximum"),
        ] {
            if object.get(flag) == Some(&Value::Bool(true))
                && let Some(value) = made.remove(bound)
            {
                made.insert(flag.to_owned(), value);
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
        need: Need,
    ) -> Result<(), String> {
        let properties = object.get("properties").and_then(Value::as_object);
        let listed = object.get("required").and_then(Value::as_array);
        let mut required: BTreeSet<&str> = listed
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        // The third draft of JSON Schema has a flag at the member itself.
        let flagged = properties
            .into_iter()
            .flatten()
            .filter_map(|(name, member)| {
                (member.get("required") == Some(&Value::Bool(true))).then_some(name.as_str())
            });
        required.extend(flagged);
        if let Some(properties) = properties {
            let mut kept = Map::new();
            for (name, schema) in properties {
                if self.is_read_only(schema) {
                    required.remove(name.as_str());
                    continue;
                }
                let need = Need::of(required.contains(name.as_str()));
                kept.insert(name.clone(), self.at(schema, depth + 1, need, None)?);
            }
            required.retain(|name| properties.contains_key(*name));
            if !required.is_empty() {
                made.insert("required".to_owned(), json!(required));
            }
            made.insert("properties".to_owned(), Value::Object(kept));
        }
        for name in [
            "items",
            "additionalProperties",
            "not",
            "propertyNames",
            "contains",
            "if",
            "then",
            "else",
        ] {
            if let Some(schema) = object.get(name) {
                made.insert(
                    name.to_owned(),
                    self.at(schema, depth + 1, Need::Optional, None)?,
                );
            }
        }
        for name in ["allOf", "anyOf", "oneOf", "prefixItems"] {
            if let Some(schemas) = object.get(name).and_then(Value::as_array) {
                let need = match name {
                    "allOf" => need,
                    _ => Need::Optional,
                };
                let schemas: Result<Vec<Value>, String> = schemas
                    .iter()
                    .map(|schema| self.at(schema, depth + 1, need, None))
                    .collect();
                made.insert(name.to_owned(), Value::Array(schemas?));
            }
        }
        if let Some(schemas) = object.get("patternProperties").and_then(Value::as_object) {
            let mut kept = Map::new();
            for (pattern, schema) in schemas {
                if self.is_linear(pattern) {
                    let schema = self.at(schema, depth + 1, Need::Optional, None)?;
                    kept.insert(pattern.clone(), schema);
                }
            }
            made.insert("patternProperties".to_owned(), Value::Object(kept));
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

    fn pattern(&mut self, object: &Map<String, Value>, made: &mut Map<String, Value>) {
        if let Some(pattern) = object.get("pattern").and_then(Value::as_str)
            && self.is_linear(pattern)
        {
            made.insert("pattern".to_owned(), pattern.into());
        }
    }

    /// Whether a tool's schema may have the pattern; a note says that it may not.
    fn is_linear(&mut self, pattern: &str) -> bool {
        let is_linear =
            Validator::compile(&json!({ "type": "string", "pattern": pattern })).is_ok();
        if !is_linear {
            self.note(format!(
                "the pattern {} cannot run in linear time and is left out",
                brief(pattern)
            ));
        }
        is_linear
    }

    /// A default is kept only where a tool's schema may have it, and where the source requires the value.
    fn default(&mut self, default: &Value, need: Need, made: &mut Map<String, Value>) {
        if need == Need::Optional {
            return describe_default(default, made);
        }
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

/// The schema of a value with its default as a description: the value's holder may itself be left out.
pub(super) fn described(mut schema: Value) -> Value {
    if let Some(made) = schema.as_object_mut()
        && let Some(default) = made.remove("default")
    {
        describe_default(&default, made);
    }
    schema
}

/// Describes the default to the model, where the description does not.
fn describe_default(default: &Value, made: &mut Map<String, Value>) {
    let said = made.get("description").and_then(Value::as_str);
    let said = said.unwrap_or_default().trim_end();
    if said.to_ascii_lowercase().contains("default") || default.is_null() {
        return;
    }
    let default = one_line(&default.to_string(), DEFAULT_CHARACTERS_MAX);
    let between = match said {
        "" => "",
        said if said.ends_with(['.', '!', '?', '…']) => " ",
        _ => ". ",
    };
    let text = format!("{said}{between}Default: {default}.");
    made.insert("description".to_owned(), text.into());
}

/// JSON Schema's name of a type that has other names elsewhere; `None` for a name that says nothing.
fn known_type(name: &str) -> Option<Value> {
    let lower = name.to_ascii_lowercase();
    Some(Value::from(match lower.as_str() {
        "dict" | "map" | "hashmap" => "object",
        "float" | "double" | "decimal" => "number",
        "str" | "text" | "char" => "string",
        "int" | "long" | "short" | "byte" => "integer",
        "bool" => "boolean",
        "list" | "tuple" | "arraylist" | "set" => "array",
        "any" | "" => return None,
        "array" | "boolean" | "integer" | "null" | "number" | "object" | "string" => &lower,
        _ => name,
    }))
}

/// The target of a reference within the document.
pub(super) fn resolve<'d>(document: &'d Value, reference: &str) -> Result<&'d Value, String> {
    let Some(pointer) = reference.strip_prefix('#') else {
        return Err(format!(
            "it refers to another file ({}); bundle the description into one file first",
            brief(reference)
        ));
    };
    document
        .pointer(&pointer.replace("%7B", "{").replace("%7D", "}"))
        .ok_or_else(|| format!("{} leads nowhere", brief(reference)))
}

/// The value itself, or the target of its `$ref`.
pub(super) fn followed<'d>(document: &'d Value, value: &'d Value) -> Result<&'d Value, String> {
    const STEPS_MAX: usize = 16;
    let mut value = value;
    for _ in 0..STEPS_MAX {
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => value = resolve(document, reference)?,
            None => return Ok(value),
        }
    }
    Err("its references go round in a circle".to_owned())
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
