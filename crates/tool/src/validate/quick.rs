//! The quick judge: for the keywords that tools use most it knows valid values at a glance, without allocating. It says
//! either "surely valid" or "ask the validator crate", never "invalid"; so a keyword that it does not know costs time
//! and nothing else.

use super::formats;
use super::pattern::Pattern;
use serde_json::{Map, Number, Value};

/// Integers up to here are exact as floating-point numbers.
const EXACT: u64 = 1 << 53;

/// One schema. The parts for values of other types than the schema allows are never looked at.
#[derive(Debug, Default)]
pub(super) struct Quick {
    /// There is something here that the quick judge does not know.
    unsure: bool,
    types: Types,
    /// `enum` or `const`.
    choices: Option<Vec<Value>>,
    text: Option<Box<Text>>,
    number: Option<Box<Range>>,
    object: Option<Box<Object>>,
    array: Option<Box<Array>>,
    any_of: Vec<Quick>,
    all_of: Vec<Quick>,
}

/// The types that a schema names; all of them where it names none.
#[derive(Clone, Copy, Debug)]
struct Types(u8);

impl Types {
    const NULL: u8 = 1;
    const BOOLEAN: u8 = 2;
    const INTEGER: u8 = 4;
    const NUMBER: u8 = 8 | Self::INTEGER;
    const STRING: u8 = 16;
    const ARRAY: u8 = 32;
    const OBJECT: u8 = 64;

    fn named(name: &str) -> Option<u8> {
        match name {
            "null" => Some(Self::NULL),
            "boolean" => Some(Self::BOOLEAN),
            "integer" => Some(Self::INTEGER),
            "number" => Some(Self::NUMBER),
            "string" => Some(Self::STRING),
            "array" => Some(Self::ARRAY),
            "object" => Some(Self::OBJECT),
            _ => None,
        }
    }

    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(name) => Self::named(name).map(Self),
            Value::Array(names) => names
                .iter()
                .try_fold(0, |types, name| Some(types | Self::named(name.as_str()?)?))
                .map(Self),
            _ => None,
        }
    }

    fn allow(self, kind: u8) -> bool {
        self.0 & kind == kind
    }
}

impl Default for Types {
    fn default() -> Self {
        Self(u8::MAX)
    }
}

#[derive(Debug, Default)]
struct Text {
    characters_min: usize,
    characters_max: Option<usize>,
    format: Option<formats::Check>,
    pattern: Option<Pattern>,
}

#[derive(Debug, Default)]
struct Range {
    minimum: Option<f64>,
    maximum: Option<f64>,
    above: Option<f64>,
    below: Option<f64>,
    multiple_of: Option<u64>,
}

#[derive(Debug, Default)]
struct Object {
    /// Sorted by name.
    properties: Vec<Property>,
    required_count: usize,
    /// A name is required that is no property.
    required_unknown: bool,
    others: Others,
    members_min: usize,
    members_max: Option<usize>,
}

#[derive(Debug, Default)]
enum Others {
    #[default]
    Allowed,
    Refused,
    Checked(Quick),
}

#[derive(Debug)]
struct Property {
    name: Box<str>,
    required: bool,
    schema: Quick,
}

#[derive(Debug, Default)]
struct Array {
    items: Option<Quick>,
    items_min: usize,
    items_max: Option<usize>,
    unique: bool,
}

impl Quick {
    pub(super) fn of(schema: &Value) -> Self {
        let mut quick = Self::default();
        match schema {
            Value::Bool(true) => {}
            Value::Object(object) => object
                .iter()
                .for_each(|(keyword, value)| quick.unsure |= quick.read(keyword, value).is_none()),
            _ => quick.unsure = true,
        }
        if let Some(object) = quick.object.as_mut() {
            object.settle(schema);
        }
        quick
    }

    /// `None` where the keyword, or its value, is beyond the quick judge.
    fn read(&mut self, keyword: &str, value: &Value) -> Option<()> {
        match keyword {
            "title" | "description" | "default" | "examples" | "deprecated" | "readOnly"
            | "writeOnly" | "$comment" | "$defs" | "$schema" => {}
            "type" => self.types = Types::of(value)?,
            "enum" | "const" if self.choices.is_some() => return None,
            "enum" => self.choices = Some(value.as_array()?.clone()),
            "const" => self.choices = Some(vec![value.clone()]),
            "anyOf" => self.any_of = value.as_array()?.iter().map(Self::of).collect(),
            "allOf" => self.all_of = value.as_array()?.iter().map(Self::of).collect(),
            "minLength" => self.text().characters_min = size(value)?,
            "maxLength" => self.text().characters_max = Some(size(value)?),
            "format" => self.text().format = Some(formats::check_of(value.as_str()?)?),
            "pattern" => self.text().pattern = Some(Pattern::of(value.as_str()?)?),
            "minimum" => self.number().minimum = Some(exact(value.as_number()?)?),
            "maximum" => self.number().maximum = Some(exact(value.as_number()?)?),
            "exclusiveMinimum" => self.number().above = Some(exact(value.as_number()?)?),
            "exclusiveMaximum" => self.number().below = Some(exact(value.as_number()?)?),
            "multipleOf" => self.number().multiple_of = Some(value.as_u64().filter(|n| *n > 0)?),
            "minItems" => self.array().items_min = size(value)?,
            "maxItems" => self.array().items_max = Some(size(value)?),
            "items" => self.array().items = Some(Self::of(value)),
            "uniqueItems" => self.array().unique = value.as_bool()?,
            "properties" => {
                let properties = value.as_object()?;
                self.object().properties = properties.iter().map(Property::of).collect();
            }
            "required" => {
                value.as_array()?;
                self.object();
            }
            "minProperties" => self.object().members_min = size(value)?,
            "maxProperties" => self.object().members_max = Some(size(value)?),
            "additionalProperties" => {
                self.object().others = match value {
                    Value::Bool(true) => Others::Allowed,
                    Value::Bool(false) => Others::Refused,
                    schema => Others::Checked(Self::of(schema)),
                };
            }
            _ => return None,
        }
        Some(())
    }

    fn text(&mut self) -> &mut Text {
        self.text.get_or_insert_default()
    }

    fn number(&mut self) -> &mut Range {
        self.number.get_or_insert_default()
    }

    fn object(&mut self) -> &mut Object {
        self.object.get_or_insert_default()
    }

    fn array(&mut self) -> &mut Array {
        self.array.get_or_insert_default()
    }

    /// Whether the value is plainly valid. `false` means only that somebody else has to look.
    pub(super) fn surely_allows(&self, value: &Value) -> bool {
        let right_kind = match value {
            Value::Object(members) => return self.surely_allows_object(members),
            Value::Null => self.types.allow(Types::NULL),
            Value::Bool(_) => self.types.allow(Types::BOOLEAN),
            Value::Number(number) => {
                let kind = if number.is_f64() {
                    Types::NUMBER
                } else {
                    Types::INTEGER
                };
                self.types.allow(kind)
                    && self
                        .number
                        .as_ref()
                        .is_none_or(|range| range.surely_allows(number))
            }
            Value::String(text) => {
                self.types.allow(Types::STRING)
                    && self
                        .text
                        .as_ref()
                        .is_none_or(|rules| rules.surely_allows(text))
            }
            Value::Array(items) => {
                self.types.allow(Types::ARRAY)
                    && self
                        .array
                        .as_ref()
                        .is_none_or(|rules| rules.surely_allows(items))
            }
        };
        right_kind
            && self.branches_allow(|branch| branch.surely_allows(value))
            && self.choices_have(value)
    }

    /// Where objects are listed one by one, with `enum` or `const`, the validator crate has to look.
    pub(super) fn surely_allows_object(&self, members: &Map<String, Value>) -> bool {
        self.types.allow(Types::OBJECT)
            && self.choices.is_none()
            && self
                .object
                .as_ref()
                .is_none_or(|rules| rules.surely_allows(members))
            && self.branches_allow(|branch| branch.surely_allows_object(members))
    }

    fn branches_allow(&self, allows: impl Fn(&Self) -> bool) -> bool {
        !self.unsure
            && (self.any_of.is_empty() || self.any_of.iter().any(&allows))
            && self.all_of.iter().all(&allows)
    }

    fn choices_have(&self, value: &Value) -> bool {
        self.choices
            .as_ref()
            .is_none_or(|choices| choices.contains(value))
    }
}

impl Text {
    fn surely_allows(&self, text: &str) -> bool {
        // A character takes one to four bytes, so most lengths need no counting.
        let long_enough = self.characters_min <= text.len().div_ceil(4)
            || self.characters_min <= text.chars().count();
        let short_enough = self
            .characters_max
            .is_none_or(|most| text.len() <= most || text.chars().count() <= most);
        long_enough
            && short_enough
            && self.format.is_none_or(|check| check(text))
            && self
                .pattern
                .as_ref()
                .is_none_or(|pattern| pattern.matches(text))
    }
}

impl Range {
    fn surely_allows(&self, number: &Number) -> bool {
        let Some(value) = exact(number) else {
            return false;
        };
        let multiple = self.multiple_of.is_none_or(|divisor| {
            number
                .as_i64()
                .is_some_and(|integer| integer.unsigned_abs() % divisor == 0)
        });
        multiple
            && self.minimum.is_none_or(|least| value >= least)
            && self.maximum.is_none_or(|most| value <= most)
            && self.above.is_none_or(|bound| value > bound)
            && self.below.is_none_or(|bound| value < bound)
    }
}

impl Property {
    fn of((name, schema): (&String, &Value)) -> Self {
        Self {
            name: name.as_str().into(),
            required: false,
            schema: Quick::of(schema),
        }
    }
}

impl Object {
    /// Marks the required properties, now that all of them are known.
    fn settle(&mut self, schema: &Value) {
        self.properties
            .sort_by(|left, right| left.name.cmp(&right.name));
        for name in schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            match name.as_str().and_then(|name| self.position(name)) {
                Some(index) => self.properties[index].required = true,
                None => self.required_unknown = true,
            }
        }
        self.required_count = self
            .properties
            .iter()
            .filter(|property| property.required)
            .count();
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.properties
            .binary_search_by(|property| property.name.as_ref().cmp(name))
            .ok()
    }

    fn surely_allows(&self, members: &Map<String, Value>) -> bool {
        let mut required_missing = self.required_count;
        let count = members.len();
        // Members come in the order of the properties, so each is looked for right behind the one before.
        let mut next = 0;
        for (name, value) in members {
            let found = self.properties[next..]
                .iter()
                .position(|property| *property.name == **name)
                .map(|offset| next + offset);
            match (found, &self.others) {
                (Some(index), _) => {
                    next = index + 1;
                    let property = &self.properties[index];
                    required_missing -= usize::from(property.required);
                    if !property.schema.surely_allows(value) {
                        return false;
                    }
                }
                (None, Others::Allowed) => {}
                (None, Others::Refused) => return false,
                (None, Others::Checked(schema)) => {
                    if !schema.surely_allows(value) {
                        return false;
                    }
                }
            }
        }
        required_missing == 0
            && !self.required_unknown
            && count >= self.members_min
            && self.members_max.is_none_or(|most| count <= most)
    }
}

impl Array {
    fn surely_allows(&self, items: &[Value]) -> bool {
        items.len() >= self.items_min
            && self.items_max.is_none_or(|most| items.len() <= most)
            && self
                .items
                .as_ref()
                .is_none_or(|schema| items.iter().all(|item| schema.surely_allows(item)))
            && (!self.unique || are_surely_unique(items))
    }
}

/// Looks at each pair of a short list of texts. Numbers have more than one spelling, and long lists want a set: both are
/// the validator crate's.
fn are_surely_unique(items: &[Value]) -> bool {
    const LENGTH_MAX: usize = 16;
    items.len() <= LENGTH_MAX
        && items
            .iter()
            .enumerate()
            .all(|(index, item)| item.is_string() && !items[..index].contains(item))
}

fn size(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|size| usize::try_from(size).ok())
}

/// The number, where floating point holds it exactly.
fn exact(number: &Number) -> Option<f64> {
    if let Some(integer) = number.as_i64()
        && integer.unsigned_abs() > EXACT
    {
        return None;
    }
    if number.is_u64() && number.as_u64().is_some_and(|integer| integer > EXACT) {
        return None;
    }
    number.as_f64()
}
