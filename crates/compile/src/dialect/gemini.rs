//! Declarations for Gemini: its own `Schema`, a subset of OpenAPI 3.0 with upper-case types in which an unknown keyword
//! fails the whole request, and JSON Schema passed through. Does not know which model takes which form.
//! Source of the subset: <https://ai.google.dev/api/caching#Schema>.

mod merge;
mod words;

use super::Notes;
use super::kinds::{
    belongs_to_other_type, is_of_kind, kind_by_keywords, kinds_of, kinds_of_choices,
};
use crate::manifest::schema::is_keyword;
use merge::{is_null_alone, narrow_kinds, without};
use serde_json::{Map, Number, Value, json};
use windlass_contract::wording::pointer;

/// Keywords with the same meaning in both.
const SAME: [&str; 11] = [
    "title",
    "default",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "pattern",
];
/// The most subschemas after references are written out: a few that refer to each other make millions.
const INLINED_MAX: usize = 4_000;
/// The formats that every model accepts.
const FORMATS: [&str; 1] = ["date-time"];
/// Keywords that Gemini does not take beside `anyOf`.
const BESIDE: [&str; 3] = ["default", "examples", "title"];
/// Keywords for readers of the schema; the model does not need them.
const SILENT: [&str; 5] = ["$anchor", "$comment", "$defs", "$id", "$schema"];

pub(super) fn schema_passed_through(id: &str, description: &str, parameters: &Value) -> Value {
    json!({"name": id, "description": description, "parametersJsonSchema": parameters})
}

pub(super) fn native(id: &str, description: &str, parameters: Option<Value>) -> Value {
    let mut declaration = json!({"name": id, "description": description});
    if let Some(parameters) = parameters {
        declaration["parameters"] = parameters;
    }
    declaration
}

/// The parameters in Gemini's `Schema`; `None` for a tool that takes none, whose declaration leaves them out.
pub(super) fn parameters(root: &Value, notes: &mut Notes) -> Option<Value> {
    let mut conversion = Conversion {
        root,
        notes,
        inlined: 0,
    };
    let schema = conversion.schema(root, "/parameters")?;
    let has_properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .is_some_and(|properties| !properties.is_empty());
    has_properties.then_some(Value::Object(schema))
}

struct Conversion<'s, 'n> {
    root: &'s Value,
    notes: &'n mut Notes,
    inlined: usize,
}

/// The parts of a converted schema.
#[derive(Default)]
struct Draft {
    schema: Map<String, Value>,
    /// Sentences for the description: facts that the model needs and the schema cannot say.
    remarks: Vec<String>,
    nullable: bool,
}

impl Conversion<'_, '_> {
    /// `None` for a schema that allows nothing.
    fn schema(&mut self, schema: &Value, place: &str) -> Option<Map<String, Value>> {
        let any = Map::new();
        let object = match schema {
            Value::Object(object) => object,
            Value::Bool(true) => &any,
            _ => return None,
        };
        let Some(object) = self.inline(object, place) else {
            return Some(Map::from_iter([("type".to_owned(), json!("OBJECT"))]));
        };
        Some(self.object(&object, place))
    }

    fn object(&mut self, object: &Map<String, Value>, place: &str) -> Map<String, Value> {
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = object.get(keyword) {
                return self.branched(object, keyword, branches, place);
            }
        }
        let kinds = kinds_of(object);
        let kinds = if kinds.is_empty() {
            kinds_of_choices(object)
        } else {
            kinds
        };
        let named: Vec<&str> = kinds
            .iter()
            .copied()
            .filter(|kind| *kind != "null")
            .collect();
        let mut draft = Draft {
            nullable: kinds.contains(&"null") && !named.is_empty(),
            ..Draft::default()
        };
        match named.as_slice() {
            [] => {
                let kind = if kinds.contains(&"null") {
                    Some("null")
                } else {
                    kind_by_keywords(object)
                };
                if kind.is_none() {
                    self.notes.dropped("a value of any type", place);
                    draft.remarks.push("Any JSON value is allowed.".to_owned());
                }
                self.keywords(object, kind.unwrap_or("string"), place, &mut draft);
            }
            [kind] => self.keywords(object, kind, place, &mut draft),
            several => {
                let converted = several.iter().map(|kind| {
                    let mut branch = Draft::default();
                    self.keywords(&without(object, &BESIDE), kind, place, &mut branch);
                    Value::Object(branch.finish(None))
                });
                let converted: Vec<Value> = converted.collect();
                draft.schema.insert("anyOf".to_owned(), converted.into());
                self.beside_any_of(object, place, &mut draft);
            }
        }
        draft.finish(object.get("description").and_then(Value::as_str))
    }

    /// `anyOf` or `oneOf`: beside `anyOf` Gemini takes a description and nothing else, so each branch gets all the keywords beside them.
    fn branched(
        &mut self,
        object: &Map<String, Value>,
        keyword: &str,
        branches: &[Value],
        place: &str,
    ) -> Map<String, Value> {
        let kinds = kinds_of(object);
        let mut shared = without(object, &BESIDE);
        for gone in [keyword, "type", "description"].into_iter().chain(SILENT) {
            shared.remove(gone);
        }
        let mut draft = Draft::default();
        let mut converted = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            let here = format!("{place}/{keyword}/{index}");
            let own = match branch {
                Value::Object(branch) => self.inline(branch, &here),
                Value::Bool(true) => Some(Map::new()),
                _ => None,
            };
            if let Some(mut own) = own
                && narrow_kinds(&mut own, &kinds)
            {
                if is_null_alone(&own) {
                    draft.nullable = true;
                } else {
                    self.merge(&mut own, &shared, &here);
                    converted.push(Value::Object(self.object(&own, &here)));
                }
            }
        }
        match converted.as_mut_slice() {
            [Value::Object(only)] => {
                draft.schema = std::mem::take(only);
                // The branch's own description comes after the description of the whole.
                if let Some(Value::String(said)) = draft.schema.remove("description") {
                    draft.remarks.push(said);
                }
                for keyword in ["title", "default"] {
                    if let Some(value) = object.get(keyword) {
                        draft.schema.insert(keyword.to_owned(), value.clone());
                    }
                }
                if let Some(example) = first_example(object) {
                    draft.schema.insert("example".to_owned(), example.clone());
                }
            }
            [] => {
                draft.schema.insert("type".to_owned(), json!("NULL"));
            }
            _ => {
                draft.schema.insert("anyOf".to_owned(), converted.into());
                self.beside_any_of(object, place, &mut draft);
            }
        }
        draft.finish(object.get("description").and_then(Value::as_str))
    }

    /// Says in words the keywords that Gemini does not take beside `anyOf`.
    fn beside_any_of(&mut self, object: &Map<String, Value>, place: &str, draft: &mut Draft) {
        for keyword in BESIDE {
            if let Some(value) = object.get(keyword) {
                self.notes
                    .dropped(&format!("{keyword} beside anyOf"), &pointer(place, keyword));
                draft.remarks.extend(words::remark(keyword, value, object));
            }
        }
    }

    /// Adds the keywords of a schema that has one type.
    fn keywords(
        &mut self,
        object: &Map<String, Value>,
        kind: &str,
        place: &str,
        draft: &mut Draft,
    ) {
        draft
            .schema
            .insert("type".to_owned(), json!(kind.to_ascii_uppercase()));
        for (keyword, value) in object {
            let name = keyword.as_str();
            if name == "anyOf"
                || name == "oneOf"
                || name == "type"
                || name == "description"
                || SILENT.contains(&name)
            {
                continue;
            }
            if belongs_to_other_type(name, kind) {
                continue;
            }
            if SAME.contains(&name) {
                draft.schema.insert(keyword.clone(), value.clone());
            } else {
                self.keyword(name, value, (kind, object), place, draft);
            }
        }
        if kind == "array" && !draft.schema.contains_key("items") {
            let items = self.object(&Map::new(), place);
            draft.schema.insert("items".to_owned(), items.into());
        }
    }

    /// Adds one keyword of a schema of this kind.
    fn keyword(
        &mut self,
        name: &str,
        value: &Value,
        (kind, object): (&str, &Map<String, Value>),
        place: &str,
        draft: &mut Draft,
    ) {
        let here = pointer(place, name);
        match name {
            "properties" => self.properties(value, &here, draft),
            "required" => {
                draft.schema.insert(name.to_owned(), value.clone());
            }
            "items" => {
                if let Some(items) = self.schema(value, &here) {
                    draft.schema.insert(name.to_owned(), items.into());
                }
            }
            "prefixItems" => self.prefix_items(value, object, &here, draft),
            "enum" | "const" => self.choices(name, value, (kind, object), &here, draft),
            "format"
                if value
                    .as_str()
                    .is_some_and(|format| FORMATS.contains(&format)) =>
            {
                draft.schema.insert(name.to_owned(), value.clone());
            }
            "exclusiveMinimum" | "exclusiveMaximum" => {
                self.exclusive(name, value, kind, &here, draft)
            }
            "examples" => {
                if let Some(example) = first_example(object) {
                    draft.schema.insert("example".to_owned(), example.clone());
                }
            }
            // Every tool refuses arguments that it does not name, and models send none, so the model need not be told.
            "additionalProperties" if value.is_boolean() => {}
            // An unknown keyword cannot be put into words, and is reported as an error elsewhere.
            unknown if !is_keyword(unknown) => {}
            _ => {
                self.notes.dropped(name, &here);
                // A quoted schema cannot hold references.
                let written_out = (name == "additionalProperties")
                    .then(|| self.inline(value.as_object()?, &here))
                    .flatten()
                    .map(Value::Object);
                let value = written_out.as_ref().unwrap_or(value);
                draft.remarks.extend(words::remark(name, value, object));
            }
        }
    }

    fn properties(&mut self, value: &Value, here: &str, draft: &mut Draft) {
        let mut properties = Map::new();
        for (name, property) in value.as_object().into_iter().flatten() {
            let place = pointer(here, name);
            if !is_parameter_name(name) {
                self.notes.dropped("a parameter of such a name", &place);
                draft.remarks.push(words::unnameable(name, property));
                continue;
            }
            if let Some(schema) = self.schema(property, &place) {
                properties.insert(name.clone(), schema.into());
            }
        }
        if properties.is_empty() {
            // Gemini refuses the whole request for an empty list. It takes an object without a list.
            return self.notes.dropped("properties without any", here);
        }
        draft
            .schema
            .insert("properties".to_owned(), properties.into());
    }

    fn prefix_items(
        &mut self,
        value: &Value,
        object: &Map<String, Value>,
        here: &str,
        draft: &mut Draft,
    ) {
        self.notes.dropped("prefixItems", here);
        draft
            .remarks
            .extend(words::remark("prefixItems", value, object));
        // `items` describes the items after these, and was converted before.
        let mut distinct: Vec<Value> = draft.schema.remove("items").into_iter().collect();
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            if let Some(schema) = self.schema(item, &format!("{here}/{index}")) {
                let schema = Value::Object(schema);
                if !distinct.contains(&schema) {
                    distinct.push(schema);
                }
            }
        }
        let items = match distinct.len() {
            0 => return,
            1 => distinct.remove(0),
            _ => json!({"anyOf": distinct}),
        };
        draft.schema.insert("items".to_owned(), items);
    }

    /// `enum` and `const`: Gemini knows them for texts alone, so other choices are put into words.
    fn choices(
        &mut self,
        name: &str,
        value: &Value,
        (kind, object): (&str, &Map<String, Value>),
        here: &str,
        draft: &mut Draft,
    ) {
        let choices = match value {
            Value::Array(choices) if name == "enum" => choices.as_slice(),
            single => std::slice::from_ref(single),
        };
        // `null` among the choices counts where the type, if given, allows it too.
        let kinds = kinds_of(object);
        draft.nullable |= choices.contains(&Value::Null)
            && kind != "null"
            && (kinds.is_empty() || kinds.contains(&"null"));
        // A choice of another type is left out; where several types are allowed, each branch keeps its own choices.
        let choices: Vec<&Value> = choices
            .iter()
            .filter(|choice| is_of_kind(choice, kind))
            .collect();
        // Gemini refuses the whole request if a choice is the empty text.
        let is_text = |choice: &&&Value| choice.as_str() != Some("");
        let texts: Vec<&&Value> = choices.iter().filter(is_text).collect();
        if kind == "string" && !texts.is_empty() {
            if texts.len() < choices.len() {
                self.notes
                    .dropped(&format!("an empty text in {name}"), here);
                draft
                    .remarks
                    .push("May be the empty text \"\", too.".to_owned());
            }
            draft.schema.insert("enum".to_owned(), json!(texts));
        } else if !choices.is_empty() {
            self.notes.dropped(name, here);
            let texts: Vec<String> = choices.iter().map(ToString::to_string).collect();
            draft.remarks.push(match texts.as_slice() {
                [only] => format!("Always {only}."),
                several => format!("One of {}.", several.join(", ")),
            });
        }
    }

    fn exclusive(&mut self, name: &str, value: &Value, kind: &str, here: &str, draft: &mut Draft) {
        let Some(bound) = value.as_f64() else {
            return;
        };
        let (inclusive, word, step) = if name == "exclusiveMinimum" {
            ("minimum", "more", 1.0)
        } else {
            ("maximum", "less", -1.0)
        };
        let nearest = if kind == "integer" {
            // The first whole number beyond the bound.
            if step > 0.0 {
                bound.floor() + 1.0
            } else {
                bound.ceil() - 1.0
            }
        } else {
            self.notes.dropped(name, here);
            draft
                .remarks
                .push(format!("Has to be {word} than {value}."));
            bound
        };
        let tighter = draft
            .schema
            .get(inclusive)
            .and_then(Value::as_f64)
            .is_some_and(|other| {
                if step > 0.0 {
                    other > nearest
                } else {
                    other < nearest
                }
            });
        if !tighter && let Some(number) = number(nearest) {
            draft.schema.insert(inclusive.to_owned(), number.into());
        }
    }
}

impl Draft {
    fn finish(mut self, description: Option<&str>) -> Map<String, Value> {
        if self.nullable {
            self.schema.insert("nullable".to_owned(), json!(true));
        }
        // A required name that is no property would fail the request.
        let known = self
            .schema
            .get("properties")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        if let Some(Value::Array(required)) = self.schema.get_mut("required") {
            required.retain(|name| name.as_str().is_some_and(|name| known.contains_key(name)));
            if required.is_empty() {
                self.schema.remove("required");
            }
        }
        let mut sentences: Vec<&str> = description.into_iter().collect();
        sentences.extend(self.remarks.iter().map(String::as_str));
        if !sentences.is_empty() {
            self.schema.insert(
                "description".to_owned(),
                json!(words::join_sentences(&sentences)),
            );
        }
        self.schema
    }
}

/// Source: error texts of the service; <https://ai.google.dev/api/caching#FunctionDeclaration>.
fn is_parameter_name(name: &str) -> bool {
    name.len() <= 64
        && name
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn number(float: f64) -> Option<Number> {
    let number = Number::from_f64(float)?;
    Some(windlass_contract::number::integer(&number).map_or(number, Number::from))
}

fn first_example(object: &Map<String, Value>) -> Option<&Value> {
    object.get("examples")?.as_array()?.first()
}
