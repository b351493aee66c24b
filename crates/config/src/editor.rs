//! The JSON Schema of `windlass.toml`, made of the keys, for editors. Rules between keys are not in it.

use super::key::{Key, Kind, is_name};
use super::overlay::EDITOR_SCHEMA;
use serde_json::{Map, Value, json};

/// It accepts every file that is taken.
pub fn schema() -> Value {
    let mut root = table();
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "windlass.toml".into();
    root["properties"][EDITOR_SCHEMA] = json!({
        "type": "string",
        "description": "Where this schema is, for editors.",
    });
    for key in super::keys() {
        let (name, tables) = key
            .path
            .rsplit_once('.')
            .map_or((key.path.as_str(), Vec::new()), |(tables, name)| {
                (name, tables.split('.').collect())
            });
        let table = tables.into_iter().fold(&mut root, member);
        *member(table, name) = of_key(&key);
    }
    root
}

fn table() -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": {} })
}

/// The schema of a member, which is a table until it gets another type. A name in capitals stands for every name of the user's.
fn member<'v>(of: &'v mut Value, name: &str) -> &'v mut Value {
    if is_name(name) {
        if !of["additionalProperties"].is_object() {
            of["additionalProperties"] = table();
        }
        return &mut of["additionalProperties"];
    }
    let members = of["properties"].as_object_mut();
    let members: &mut Map<String, Value> = members.expect("a table has properties");
    members.entry(name).or_insert_with(table)
}

fn of_key(key: &Key) -> Value {
    let text = match key.choices {
        [] => json!({ "type": "string" }),
        choices => json!({ "enum": choices }),
    };
    let mut schema = match key.kind {
        Kind::Text => text,
        Kind::Whole => json!({ "type": "integer" }),
        Kind::Fraction => json!({ "type": "number" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::List => json!({ "type": "array", "items": text }),
        Kind::Plain => json!({ "type": ["string", "number", "boolean", "array"] }),
    };
    if let Some((least, greatest)) = key.bounds {
        schema["minimum"] = least.into();
        schema["maximum"] = greatest.into();
    }
    let meaning = key.meaning.split_whitespace().collect::<Vec<_>>().join(" ");
    schema["description"] = format!("{meaning} Takes {}.", key.takes).into();
    if let Some(default) = &key.default {
        schema["default"] = serde_json::to_value(default).expect("a default is plain");
    }
    schema
}
