//! Reads from a schema how values are compared: the formats of its texts, in all its parts.

use super::{Compared, Format, KeySpec};
use crate::arguments::Arguments;
use crate::reference;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The deepest nesting that is searched: a schema that refers to itself has no end.
const DEPTH_MAX: usize = 16;
/// The most schemas that are searched; values beyond are compared as text.
const SCHEMAS_MAX: usize = 2_000;

pub(super) fn spec(root: &Value, names: &[impl AsRef<str>], defaults: &Arguments) -> KeySpec {
    let mut search = Search {
        root,
        left: SCHEMAS_MAX,
    };
    let properties = properties(&search.applying(&[root]));
    let is_whole = names.is_empty();
    let mut named: Vec<String> = match is_whole {
        true => properties.keys().map(|name| (*name).to_owned()).collect(),
        false => names.iter().map(|name| name.as_ref().to_owned()).collect(),
    };
    named.sort_unstable();
    let mut compared = BTreeMap::new();
    for name in &named {
        let schemas = properties.get(name.as_str()).map_or(&[][..], Vec::as_slice);
        let of_argument = search.compared(schemas, 0);
        if of_argument != Compared::default() {
            compared.insert(name.clone(), of_argument);
        }
    }
    let mut defaults = defaults.to_map();
    defaults.retain(|name, _| is_whole && named.contains(name));
    KeySpec {
        names: named,
        is_whole,
        defaults,
        compared,
    }
}

struct Search<'s> {
    root: &'s Value,
    left: usize,
}

impl<'s> Search<'s> {
    fn compared(&mut self, schemas: &[&'s Value], depth: usize) -> Compared {
        if depth > DEPTH_MAX {
            return Compared::default();
        }
        let parts = self.applying(schemas);
        let mut formats: BTreeSet<Format> = BTreeSet::new();
        for part in &parts {
            formats.extend(
                part.get("format")
                    .and_then(Value::as_str)
                    .and_then(format_of),
            );
        }
        let mut members = BTreeMap::new();
        for (name, schemas) in properties(&parts) {
            let member = self.compared(&schemas, depth + 1);
            if member != Compared::default() {
                members.insert(name.to_owned(), member);
            }
        }
        let of_items = |keyword: &str| {
            parts
                .iter()
                .filter_map(|part| part.get(keyword))
                .collect::<Vec<_>>()
        };
        let mut items = of_items("items");
        items.extend(
            of_items("prefixItems")
                .into_iter()
                .filter_map(Value::as_array)
                .flatten(),
        );
        let items = match items.is_empty() {
            true => Compared::default(),
            false => self.compared(&items, depth + 1),
        };
        Compared {
            formats: formats.into_iter().collect(),
            members,
            items: (items != Compared::default()).then(|| Box::new(items)),
        }
    }

    /// All schemas that hold, or may hold, for a value with these schemas.
    fn applying(&mut self, schemas: &[&'s Value]) -> Vec<&'s Map<String, Value>> {
        const BRANCH_LISTS: [&str; 2] = ["anyOf", "oneOf"];
        const BRANCHES: [&str; 2] = ["then", "else"];
        let mut found: Vec<&'s Map<String, Value>> = Vec::new();
        let mut next: Vec<&'s Value> = schemas.to_vec();
        while !next.is_empty() && self.left > 0 {
            let mut branches = Vec::new();
            for part in reference::parts(self.root, &next) {
                if self.left == 0 || found.iter().any(|known| std::ptr::eq(*known, part)) {
                    continue;
                }
                self.left -= 1;
                found.push(part);
                let lists = BRANCH_LISTS
                    .iter()
                    .filter_map(|keyword| part.get(*keyword)?.as_array());
                branches.extend(lists.flatten());
                branches.extend(BRANCHES.iter().filter_map(|keyword| part.get(*keyword)));
            }
            next = branches;
        }
        found
    }
}

fn properties<'s>(parts: &[&'s Map<String, Value>]) -> BTreeMap<&'s str, Vec<&'s Value>> {
    let mut properties: BTreeMap<&'s str, Vec<&'s Value>> = BTreeMap::new();
    for part in parts {
        let here = part.get("properties").and_then(Value::as_object);
        for (name, schema) in here.into_iter().flatten() {
            properties.entry(name).or_default().push(schema);
        }
    }
    properties
}

/// The format by its name. Formats with one spelling for each value are compared like any text.
fn format_of(name: &str) -> Option<Format> {
    match name {
        "date-time" => Some(Format::DateTime),
        "date" => Some(Format::Date),
        "time" => Some(Format::Time),
        "uuid" => Some(Format::Uuid),
        "email" | "idn-email" => Some(Format::Email),
        "uri" | "uri-reference" | "iri" | "iri-reference" => Some(Format::Uri),
        "hostname" | "idn-hostname" | "ipv6" => Some(Format::Host),
        _ => None,
    }
}
