//! Compiled JSON Schemas: the only place that names the validator crate, behind functions that are not generic, so that
//! its code is generated once.

use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// A schema that was compiled, and the defaults it declares.
pub struct Validator {
    compiled: jsonschema::Validator,
    defaults: Defaults,
}

impl fmt::Debug for Validator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Validator")
    }
}

/// One way in which a value breaks its schema.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// JSON pointer into the value.
    pub pointer: String,
    pub message: String,
    /// The names that are allowed, where a name is not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// JSON pointer into the schema.
    pub pointer: String,
    pub message: String,
}

/// The defaults of one object schema and of what lies inside it.
#[derive(Debug, Default)]
struct Defaults {
    own: Vec<(String, Arc<str>, Value)>,
    inner: Vec<(String, Defaults)>,
    items: Option<Box<Defaults>>,
}

impl Validator {
    /// Compiles a JSON Schema 2020-12 document. Formats are asserted, references stay inside the document, and patterns
    /// run in linear time.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let compiled = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            .with_pattern_options(jsonschema::PatternOptions::regex())
            .offline()
            .build(schema)
            .map_err(|error| SchemaError {
                pointer: error.instance_path().to_string(),
                message: error.to_string(),
            })?;
        Ok(Self {
            compiled,
            defaults: Defaults::of(schema, ""),
        })
    }

    /// Fills in the defaults that the arguments leave out and returns their JSON pointers.
    pub fn apply_defaults(&self, arguments: &mut Map<String, Value>) -> Vec<Arc<str>> {
        let mut applied = Vec::new();
        self.defaults.apply(arguments, &mut applied);
        applied
    }

    /// Every way in which the value breaks the schema, by pointer and then message; empty where it does not.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        if self.compiled.is_valid(value) {
            return Vec::new();
        }
        let mut violations: Vec<Violation> = self
            .compiled
            .iter_errors(value)
            .map(|error| describe(&error))
            .collect();
        violations.sort_by(|left, right| {
            (&left.pointer, &left.message).cmp(&(&right.pointer, &right.message))
        });
        violations.dedup();
        violations
    }

    pub fn is_valid(&self, value: &Value) -> bool {
        self.compiled.is_valid(value)
    }
}

fn describe(error: &jsonschema::ValidationError<'_>) -> Violation {
    Violation {
        pointer: error.instance_path().to_string(),
        message: error.to_string(),
        allowed: Vec::new(),
    }
}

impl Defaults {
    fn of(schema: &Value, pointer: &str) -> Self {
        let mut defaults = Self::default();
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                let inner_pointer =
                    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                if let Some(default) = property.get("default") {
                    defaults.own.push((
                        name.clone(),
                        inner_pointer.as_str().into(),
                        default.clone(),
                    ));
                }
                let inner = Self::of(property, &inner_pointer);
                if !inner.is_empty() {
                    defaults.inner.push((name.clone(), inner));
                }
            }
        }
        if let Some(items) = schema.get("items") {
            let inner = Self::of(items, &format!("{pointer}/*"));
            defaults.items = (!inner.is_empty()).then(|| Box::new(inner));
        }
        defaults
    }

    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.inner.is_empty() && self.items.is_none()
    }

    fn apply(&self, object: &mut Map<String, Value>, applied: &mut Vec<Arc<str>>) {
        for (name, pointer, default) in &self.own {
            if !object.contains_key(name) {
                object.insert(name.clone(), default.clone());
                applied.push(pointer.clone());
            }
        }
        for (name, inner) in &self.inner {
            if let Some(value) = object.get_mut(name) {
                inner.apply_to(value, applied);
            }
        }
    }

    fn apply_to(&self, value: &mut Value, applied: &mut Vec<Arc<str>>) {
        match value {
            Value::Object(object) => self.apply(object, applied),
            Value::Array(items) => {
                if let Some(inner) = &self.items {
                    items
                        .iter_mut()
                        .for_each(|item| inner.apply_to(item, applied));
                }
            }
            _ => {}
        }
    }
}
