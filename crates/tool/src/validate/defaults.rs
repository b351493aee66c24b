//! The defaults that a schema declares, and putting them where a value leaves them out. Knows no other keyword.

use crate::arguments::{Arguments, Kind, Place};
use serde_json::Value;
use std::sync::Arc;

/// The defaults of one object schema and of what lies inside it, sorted by name.
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
    pub(super) fn apply(&self, arguments: &mut Arguments) -> Vec<Arc<str>> {
        let mut applied = Vec::new();
        self.apply_to_object(arguments, None, &mut applied);
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

    fn apply_to_object(
        &self,
        arguments: &mut Arguments,
        object: Option<Place>,
        applied: &mut Vec<Arc<str>>,
    ) {
        let mut gaps = arguments.gaps(object);
        for (name, pointer, default) in &self.own {
            if gaps.fill(name, default) {
                applied.push(pointer.clone());
            }
        }
        let mut inner = self.inner.iter().peekable();
        let mut next = arguments.first_of(object);
        while let Some(place) = next {
            let (name, behind) = arguments.member(place);
            while inner
                .next_if(|(inside, _)| inside.as_bytes() < name)
                .is_some()
            {}
            if let Some((_, inside)) = inner.next_if(|(inside, _)| inside.as_bytes() == name) {
                inside.apply_to(arguments, place, applied);
            }
            next = behind;
        }
    }

    fn apply_to(&self, arguments: &mut Arguments, place: Place, applied: &mut Vec<Arc<str>>) {
        match arguments.kind(place) {
            Kind::Object => self.apply_to_object(arguments, Some(place), applied),
            Kind::Array => {
                let Some(inner) = &self.items else { return };
                let mut next = arguments.first_of(Some(place));
                while let Some(item) = next {
                    inner.apply_to(arguments, item, applied);
                    next = arguments.member(item).1;
                }
            }
            Kind::Scalar => {}
        }
    }
}
