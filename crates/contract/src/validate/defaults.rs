//! The defaults that a schema declares, and filling them in where a value lacks them. Knows no other keyword.

use crate::arguments::Arguments;
use crate::reference;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The defaults of an object schema and of the schemas inside it, sorted by name.
#[derive(Debug, Default)]
pub(super) struct Defaults {
    /// Name, pointer and default. Pointers count from the item of the list around, if there is one.
    own: Vec<(String, Arc<str>, Value)>,
    inner: Vec<(String, Defaults)>,
    /// For a list: its pointer, counted in the same way, and the defaults of its items.
    items: Option<(Arc<str>, Box<Defaults>)>,
}

/// The deepest nesting that is searched: a schema that refers to itself has no end.
const DEPTH_MAX: usize = 64;
/// The most subschemas that are searched with references written out: as many as the compiler allows.
const SCHEMAS_MAX: usize = 4_000;

/// Gathers the defaults of a document.
struct Search<'s> {
    root: &'s Value,
    /// The subschemas that may still be searched.
    left: usize,
}

impl<'s> Search<'s> {
    /// The defaults inside a value of these schemas: a schema's own default precedes a referred one.
    fn inside(&mut self, schemas: &[&'s Value], pointer: &str, depth: usize) -> Defaults {
        let mut defaults = Defaults::default();
        let parts = reference::parts(self.root, schemas);
        if depth > DEPTH_MAX || parts.len() > self.left {
            return defaults;
        }
        self.left -= parts.len();
        let mut properties: BTreeMap<&'s str, Vec<&'s Value>> = BTreeMap::new();
        for part in &parts {
            let here = part.get("properties").and_then(Value::as_object);
            for (name, property) in here.into_iter().flatten() {
                properties.entry(name).or_default().push(property);
            }
        }
        for (name, schemas) in properties {
            let inner_pointer = crate::wording::pointer(pointer, name);
            let inner = self.inside(&schemas, &inner_pointer, depth + 1);
            if !inner.is_empty() {
                defaults.inner.push((name.to_owned(), inner));
            }
            let default = reference::parts(self.root, &schemas)
                .into_iter()
                .find_map(|part| part.get("default"));
            if let Some(default) = default.cloned() {
                defaults
                    .own
                    .push((name.to_owned(), inner_pointer.into(), default));
            }
        }
        let items: Vec<&Value> = parts.iter().filter_map(|part| part.get("items")).collect();
        if !items.is_empty() {
            let inner = self.inside(&items, "", depth + 1);
            defaults.items = (!inner.is_empty()).then(|| (pointer.into(), Box::new(inner)));
        }
        defaults
    }
}

impl Defaults {
    pub(super) fn of(schema: &Value) -> Self {
        let mut search = Search {
            root: schema,
            left: SCHEMAS_MAX,
        };
        search.inside(&[schema], "", 0)
    }

    /// Fills in the defaults and returns their pointers.
    pub(super) fn apply(&self, arguments: &mut Arguments) -> Arc<[Arc<str>]> {
        let mut applied = Vec::new();
        self.apply_to(arguments.as_value_mut(), "", &mut applied);
        applied.into()
    }

    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.inner.is_empty() && self.items.is_none()
    }

    /// `item` is the pointer of the current list item.
    fn apply_to(&self, value: &mut Value, item: &str, applied: &mut Vec<Arc<str>>) {
        match (value, &self.items) {
            (Value::Object(object), _) => {
                for (name, pointer, default) in &self.own {
                    if !object.contains_key(name) {
                        object.insert(name.clone(), default.clone());
                        applied.push(match item {
                            "" => pointer.clone(),
                            _ => format!("{item}{pointer}").into(),
                        });
                    }
                }
                for (name, inside) in &self.inner {
                    if let Some(value) = object.get_mut(name) {
                        inside.apply_to(value, item, applied);
                    }
                }
            }
            (Value::Array(items), Some((pointer, inner))) => {
                for (index, value) in items.iter_mut().enumerate() {
                    inner.apply_to(value, &format!("{item}{pointer}/{index}"), applied);
                }
            }
            _ => {}
        }
    }
}
