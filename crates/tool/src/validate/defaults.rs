//! The defaults that a schema declares, and putting them where a value leaves them out. Knows no other keyword.

use crate::arguments::Arguments;
use crate::json::settle;
use crate::manifest::reference;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The defaults of one object schema and of what lies inside it, sorted by name.
#[derive(Debug, Default)]
pub(super) struct Defaults {
    own: Vec<(String, Arc<str>, Value)>,
    inner: Vec<(String, Defaults)>,
    /// Of a list: its pointer, counted from the item of the list around it where there is one, and what its items have.
    items: Option<(Arc<str>, Box<Defaults>)>,
    /// What the first call left out, of the outermost object. Most others leave out the same, and share the list.
    usual: OnceLock<Arc<[Arc<str>]>>,
}

/// The pointers of defaults that were filled in: a list of its own only where it differs from the usual one.
struct Applied<'d> {
    usual: &'d [Arc<str>],
    /// So many are those that the usual list begins with.
    alike: usize,
    own: Vec<Arc<str>>,
    /// The lists that we are in, and at which item.
    within: Vec<(Arc<str>, usize)>,
}

impl Applied<'_> {
    fn push(&mut self, pointer: &Arc<str>) {
        let is_usual = self.within.is_empty()
            && self.own.is_empty()
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
        if self.within.is_empty() {
            self.own.push(pointer.clone());
            return;
        }
        let mut whole = String::new();
        for (list, item) in &self.within {
            whole.push_str(&format!("{list}/{item}"));
        }
        whole.push_str(pointer);
        self.own.push(whole.into());
    }
}

/// Values are looked into so deep: a schema that refers to itself has no end.
const DEPTH_MAX: usize = 64;
/// So many subschemas are looked at once references are written out, which is as many as the compiler lets pass.
const SCHEMAS_MAX: usize = 4_000;

/// Gathers the defaults of a document.
struct Search<'s> {
    root: &'s Value,
    /// So many subschemas may still be looked at.
    left: usize,
}

impl<'s> Search<'s> {
    /// The defaults inside of a value with these schemas: an own one goes before one that is referred to.
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
            let inner_pointer = crate::manifest::pointer(pointer, name);
            let inner = self.inside(&schemas, &inner_pointer, depth + 1);
            if !inner.is_empty() {
                defaults.inner.push((name.to_owned(), inner));
            }
            let default = reference::parts(self.root, &schemas)
                .into_iter()
                .find_map(|part| part.get("default"));
            if let Some(mut default) = default.cloned() {
                settle(&mut default);
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

    /// Fills them in and returns their pointers.
    pub(super) fn apply(&self, arguments: &mut Arguments) -> Arc<[Arc<str>]> {
        let usual = self.usual.get();
        let mut applied = Applied {
            usual: usual.map_or(&[], |usual| usual),
            alike: 0,
            own: Vec::new(),
            within: Vec::new(),
        };
        self.apply_to_object(arguments.as_map_mut(), &mut applied);
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

    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.inner.is_empty() && self.items.is_none()
    }

    fn apply_to_object(&self, object: &mut Map<String, Value>, applied: &mut Applied<'_>) {
        for (name, pointer, default) in &self.own {
            if !object.contains_key(name) {
                object.insert(name.clone(), default.clone());
                applied.push(pointer);
            }
        }
        for (name, inside) in &self.inner {
            if let Some(value) = object.get_mut(name) {
                inside.apply_to(value, applied);
            }
        }
    }

    fn apply_to(&self, value: &mut Value, applied: &mut Applied<'_>) {
        match (value, &self.items) {
            (Value::Object(object), _) => self.apply_to_object(object, applied),
            (Value::Array(items), Some((pointer, inner))) => {
                applied.within.push((pointer.clone(), 0));
                for item in items {
                    inner.apply_to(item, applied);
                    if let Some((_, index)) = applied.within.last_mut() {
                        *index += 1;
                    }
                }
                applied.within.pop();
            }
            _ => {}
        }
    }
}
