//! The defaults that a schema declares, and putting them where a value leaves them out. Knows no other keyword.

use serde_json::{Map, Value};
use std::sync::Arc;

/// The defaults of one object schema and of what lies inside it.
#[derive(Debug, Default)]
pub(super) struct Defaults {
    own: Vec<(String, Arc<str>, Value)>,
    inner: Vec<(String, Defaults)>,
    items: Option<Box<Defaults>>,
}

impl Defaults {
    pub(super) fn of(schema: &Value) -> Self {
        Self::inside(schema, "")
    }

    /// Fills them in and returns their pointers.
    pub(super) fn apply(&self, object: &mut Map<String, Value>) -> Vec<Arc<str>> {
        let mut applied = Vec::new();
        self.apply_to_object(object, &mut applied);
        applied
    }

    fn inside(schema: &Value, pointer: &str) -> Self {
        let mut defaults = Self::default();
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                let inner_pointer = crate::manifest::pointer(pointer, name);
                let inner = Self::inside(property, &inner_pointer);
                if !inner.is_empty() {
                    defaults.inner.push((name.clone(), inner));
                }
                if let Some(default) = property.get("default") {
                    defaults
                        .own
                        .push((name.clone(), inner_pointer.into(), default.clone()));
                }
            }
        }
        if let Some(items) = schema.get("items") {
            let inner = Self::inside(items, &format!("{pointer}/*"));
            defaults.items = (!inner.is_empty()).then(|| Box::new(inner));
        }
        defaults
    }

    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.inner.is_empty() && self.items.is_none()
    }

    fn apply_to_object(&self, object: &mut Map<String, Value>, applied: &mut Vec<Arc<str>>) {
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
            Value::Object(object) => self.apply_to_object(object, applied),
            Value::Array(items) => {
                if let Some(inner) = &self.items {
                    items
                        .iter_mut()
                        .for_each(|item| inner.apply_to(item, applied));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}
