//! The defaults that a schema declares, and putting them where a value leaves them out. Knows no other keyword.

use crate::arguments::{Arguments, Kind, Place, order};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// The defaults of one object schema and of what lies inside it, sorted by name.
#[derive(Debug, Default)]
pub(super) struct Defaults {
    own: Vec<(String, Arc<str>, Value)>,
    inner: Vec<(String, Defaults)>,
    items: Option<Box<Defaults>>,
    /// What the first call left out, of the outermost object. Most others leave out the same, and share the list.
    usual: OnceLock<Arc<[Arc<str>]>>,
}

/// The pointers of defaults that were filled in: a list of its own only where it differs from the usual one.
struct Applied<'d> {
    usual: &'d [Arc<str>],
    /// So many are those that the usual list begins with.
    alike: usize,
    own: Vec<Arc<str>>,
}

impl Applied<'_> {
    fn push(&mut self, pointer: &Arc<str>) {
        let is_usual = self.own.is_empty()
            && self
                .usual
                .get(self.alike)
                .is_some_and(|usual| Arc::ptr_eq(usual, pointer));
        if is_usual {
            self.alike += 1;
            return;
        }
        if self.own.is_empty() {
            self.own.extend_from_slice(&self.usual[..self.alike]);
        }
        self.own.push(pointer.clone());
    }
}

impl Defaults {
    pub(super) fn of(schema: &Value) -> Self {
        Self::inside(schema, "")
    }

    /// Fills them in and returns their pointers.
    pub(super) fn apply(&self, arguments: &mut Arguments) -> Arc<[Arc<str>]> {
        let usual = self.usual.get();
        let mut applied = Applied {
            usual: usual.map_or(&[], |usual| usual),
            alike: 0,
            own: Vec::new(),
        };
        self.apply_to_object(arguments, None, &mut applied);
        let Applied { alike, own, .. } = applied;
        match usual {
            Some(usual) if own.is_empty() && alike == usual.len() => usual.clone(),
            Some(usual) if own.is_empty() => usual[..alike].into(),
            Some(_) => own.into(),
            None if own.is_empty() => Arc::default(),
            None => {
                let own: Arc<[Arc<str>]> = own.into();
                // Another session may have been faster; then this list is its call's own.
                let _ = self.usual.set(own.clone());
                own
            }
        }
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
        applied: &mut Applied<'_>,
    ) {
        let mut gaps = arguments.gaps(object);
        for (name, pointer, default) in &self.own {
            if gaps.fill(name, default) {
                applied.push(pointer);
            }
        }
        let mut inner = self.inner.iter().peekable();
        let mut next = arguments.first_of(object);
        while let Some(place) = next {
            let (name, behind) = arguments.member(place);
            while inner
                .next_if(|(inside, _)| order(inside.as_bytes(), name).is_lt())
                .is_some()
            {}
            if let Some((_, inside)) = inner.next_if(|(inside, _)| inside.as_bytes() == name) {
                inside.apply_to(arguments, place, applied);
            }
            next = behind;
        }
    }

    fn apply_to(&self, arguments: &mut Arguments, place: Place, applied: &mut Applied<'_>) {
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
