//! The rules for a tool's JSON Schemas beyond the meta-schema: known keywords and formats, references that stay inside,
//! patterns that run in linear time, sizes, and defaults that keep their own promise. Knows nothing of providers.

use super::patterns::{Patterns, Refusal};
use crate::problem::{NOTHING_TO_DO, Report, Severity};
use serde_json::{Map, Value};
use windlass_contract::reference::{
    SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS, default_of, parts, resolve,
};
use windlass_contract::validate::{self, BadPattern, SchemaError, Validator, Violation};
use windlass_contract::wording::{brief, nearest, pointer};

const NESTING_MAX: usize = 16;
const SUBSCHEMAS_MAX: usize = 2_000;
const BYTES_MAX: usize = 64 * 1024;
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

pub(crate) const TYPES: [&str; 7] = [
    "array", "boolean", "integer", "null", "number", "object", "string",
];

/// Keywords whose subschemas apply to the same value as the schema around them.
const SAME_VALUE: [&str; 8] = [
    "allOf",
    "anyOf",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "oneOf",
    "then",
];
/// The other keywords of JSON Schema 2020-12.
/// Source: <https://json-schema.org/draft/2020-12/json-schema-validation> and its core document.
const OTHER_KEYWORDS: &[&str] = &[
    "$anchor",
    "$comment",
    "$id",
    "$ref",
    "$schema",
    "const",
    "contentEncoding",
    "contentMediaType",
    "default",
    "dependentRequired",
    "deprecated",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxContains",
    "maximum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minContains",
    "minimum",
    "minItems",
    "minLength",
    "minProperties",
    "multipleOf",
    "pattern",
    "readOnly",
    "required",
    "title",
    "type",
    "uniqueItems",
    "writeOnly",
    // Known, and refused: with them a reference's meaning depends on the schema that uses it.
    "$dynamicAnchor",
    "$dynamicRef",
];

fn keywords() -> impl Iterator<Item = &'static str> {
    SCHEMA_MAPS
        .into_iter()
        .chain(SCHEMA_LISTS)
        .chain(SCHEMAS)
        .chain(OTHER_KEYWORDS.iter().copied())
}

/// Whether JSON Schema has such a keyword, supported or not.
pub(crate) fn is_keyword(name: &str) -> bool {
    keywords().any(|keyword| keyword == name)
}

/// Reports all problems of a schema that lies at `base` in its file. `false` where the schema, or its patterns, are too large to be
/// compiled.
pub(super) fn check(root: &Value, base: &str, report: &mut Report<'_>) -> bool {
    let bytes = serde_json::to_vec(root).map_or(usize::MAX, |text| text.len());
    if bytes > BYTES_MAX {
        report.error(
            base,
            format!("the schema is {bytes} bytes long"),
            format!("keep it within {BYTES_MAX} bytes; a model reads all of it in every session"),
        );
        return false;
    }
    let mut walk = Walk {
        root,
        report,
        count: 0,
        is_cut: false,
        seen: Vec::new(),
        references: Vec::new(),
        wrong: Vec::new(),
        defaults: Vec::new(),
        patterns: Patterns::default(),
    };
    walk.schema(root, base.to_owned(), 1, Some(&[]));
    walk.check_references();
    let (wrong, defaults) = (walk.wrong, walk.defaults);
    if !walk.patterns.are_known() {
        return false;
    }
    check_meaning(root, base, wrong, &defaults, report);
    true
}

/// The checks that only the validator can make: keywords have values of their kinds, everything compiles, and the defaults satisfy their
/// schemas. `wrong` are the places that were reported already; the validator would only repeat these in other words.
fn check_meaning(
    root: &Value,
    base: &str,
    mut wrong: Vec<String>,
    defaults: &[(String, &Value)],
    report: &mut Report<'_>,
) {
    for violation in validate::meta_violations(root) {
        let place = format!("{base}{}", violation.pointer);
        if wrong.iter().any(|known| lies_in(&place, known)) {
            continue;
        }
        report.error(
            &place,
            format!("this is not JSON Schema 2020-12: {}", violation.message),
            "correct the keyword's value",
        );
        wrong.push(place);
    }
    if wrong.is_empty()
        && let Err(error) = Validator::compile(root)
    {
        let place = format!("{base}{}", error.pointer);
        report.error(
            &place,
            format!("the schema does not compile: {}", error.message),
            "correct it",
        );
        wrong.push(place);
    }
    check_defaults(root, defaults, wrong.is_empty(), report);
}

fn lies_in(place: &str, outer: &str) -> bool {
    place
        .strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

struct Walk<'s, 'r, 't> {
    root: &'s Value,
    report: &'r mut Report<'t>,
    count: usize,
    /// Whether subschemas were skipped, because they lie too deep or are too many.
    is_cut: bool,
    /// The visited schemas.
    seen: Vec<&'s Value>,
    /// References into the document, and their places.
    references: Vec<(&'s str, String)>,
    /// The places that were reported.
    wrong: Vec<String>,
    /// The subschemas that have a default or inherit one, by their place in the file.
    defaults: Vec<(String, &'s Value)>,
    patterns: Patterns<'s>,
}

impl<'s> Walk<'s, '_, '_> {
    fn error(&mut self, place: &str, message: String, cure: impl Into<String>) {
        self.wrong.push(place.to_owned());
        self.report.error(place, message, cure);
    }

    /// `around` are the schemas that apply to the same value and contain this one; `None` where they are known only at the references to
    /// it.
    fn schema(
        &mut self,
        schema: &'s Value,
        place: String,
        depth: usize,
        around: Option<&[&'s Value]>,
    ) {
        self.seen.push(schema);
        // Boolean schemas such as `"additionalProperties": false` are not counted.
        if schema.is_boolean() {
            return;
        }
        self.count += 1;
        if self.count == SUBSCHEMAS_MAX + 1 {
            let message = format!("there are over {SUBSCHEMAS_MAX} subschemas");
            self.error(&place, message, "make the schema simpler");
        }
        if depth > NESTING_MAX {
            let message = format!("schemas are nested over {NESTING_MAX} deep");
            self.error(
                &place,
                message,
                "flatten the arguments; models lose track of deep ones",
            );
        }
        if self.count > SUBSCHEMAS_MAX || depth > NESTING_MAX {
            self.is_cut = true;
            return;
        }
        let Some(object) = schema.as_object() else {
            // The meta-schema reports a value that is no object.
            return;
        };
        self.keywords(object, &place, depth);
        // An inherited default without further rules is judged at its own place.
        let narrows =
            object.len() > 1 && (object.contains_key("$ref") || object.contains_key("allOf"));
        if object.contains_key("default") || (narrows && default_of(self.root, schema).is_some()) {
            self.defaults.push((place.clone(), schema));
        }
        let together = around.map(|around| [around, &[schema]].concat());
        if let Some(together) = &together {
            self.required(object, together, &place);
        }
        for (keyword, value) in object {
            let here = pointer(&place, keyword);
            let name = keyword.as_str();
            let around = match name {
                "$defs" => None,
                _ if SAME_VALUE.contains(&name) => together.as_deref(),
                _ => Some(&[][..]),
            };
            if SCHEMA_MAPS.contains(&name) {
                for (member, inner) in value.as_object().into_iter().flatten() {
                    self.schema(inner, pointer(&here, member), depth + 1, around);
                }
            } else if SCHEMA_LISTS.contains(&name) {
                for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
                    self.schema(inner, format!("{here}/{index}"), depth + 1, around);
                }
            } else if SCHEMAS.contains(&name) {
                self.schema(value, here, depth + 1, around);
            }
        }
    }

    /// A required name has to be a property, of this schema or of another one for the same value: otherwise no call could satisfy the
    /// schema where other members are refused, and a model would not know what to send.
    fn required(&mut self, object: &'s Map<String, Value>, together: &[&'s Value], place: &str) {
        let reference = object.get("$ref").and_then(Value::as_str);
        let target = reference.and_then(|reference| resolve(self.root, reference));
        let behind = parts(self.root, target.as_slice());
        let required = |part: &'s Map<String, Value>| {
            let names = part.get("required").and_then(Value::as_array);
            names.into_iter().flatten().filter_map(Value::as_str)
        };
        let own = required(object).map(|name| (name, "required"));
        let names: Vec<(&str, &str)> = own
            .chain(
                behind
                    .into_iter()
                    .flat_map(required)
                    .map(|name| (name, "$ref")),
            )
            .collect();
        if names.is_empty() {
            return;
        }
        let mut speaking = Vec::new();
        for schema in together {
            gather_speaking(self.root, schema, &mut speaking);
        }
        let is_open = speaking.iter().any(|schema| {
            let others = ["additionalProperties", "unevaluatedProperties"];
            schema.contains_key("patternProperties")
                || others.iter().any(|keyword| {
                    schema
                        .get(*keyword)
                        .is_some_and(|others| others != &Value::Bool(false))
                })
        });
        let is_property = |name: &str| {
            let mut properties = speaking
                .iter()
                .filter_map(|schema| schema.get("properties"));
            properties.any(|properties| properties.get(name).is_some())
        };
        for (name, keyword) in names {
            if !is_open && !is_property(name) {
                self.error(
                    &pointer(place, keyword),
                    format!("`{}` is required and is no property", brief(name)),
                    "add it to `properties`, or take it off the list `required`",
                );
            }
        }
    }

    fn keywords(&mut self, object: &'s Map<String, Value>, place: &str, depth: usize) {
        for (keyword, value) in object {
            let here = pointer(place, keyword);
            match (keyword.as_str(), value.as_str()) {
                ("$schema", Some(dialect)) if dialect.trim_end_matches('#') != DIALECT => {
                    let message = format!("`$schema` is `{}`", brief(dialect));
                    self.error(&here, message, format!("write {DIALECT}, or leave it out"));
                }
                ("$dynamicRef" | "$dynamicAnchor", _) => {
                    let message = format!("`{keyword}` is not supported");
                    self.error(&here, message, "use $ref and $defs");
                }
                ("$id", _) if depth > 1 => {
                    let message = "an `$id` inside a schema changes what its references mean";
                    self.error(&here, message.to_owned(), "remove it");
                }
                ("type", Some(name)) if !TYPES.contains(&name) => {
                    let cure = nearest(name, TYPES.into_iter()).map_or_else(
                        || format!("use one of {}", TYPES.join(", ")),
                        |near| format!("did you mean `{near}`?"),
                    );
                    self.error(&here, format!("there is no type `{}`", brief(name)), cure);
                }
                ("$ref", Some(reference)) => self.reference(reference, &here),
                ("format", Some(format)) if !validate::FORMATS.contains(&format) => {
                    let cure = match nearest(format, validate::FORMATS.into_iter()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("{NOTHING_TO_DO} models read it all the same"),
                    };
                    self.report.at_pointer(
                        Severity::Note,
                        &here,
                        format!("the format `{}` is not checked", brief(format)),
                        cure,
                    );
                }
                ("pattern", Some(pattern)) => self.pattern(pattern, &here),
                ("patternProperties", _) => {
                    for name in value.as_object().into_iter().flat_map(Map::keys) {
                        self.pattern(name, &pointer(&here, name));
                    }
                }
                (known, _) if is_keyword(known) => {}
                (unknown, _) => {
                    let cure = cure_of(unknown, object);
                    let message = format!("JSON Schema has no keyword `{}`", brief(unknown));
                    self.error(&here, message, cure);
                }
            }
        }
    }

    fn reference(&mut self, reference: &'s str, here: &str) {
        if !reference.starts_with('#') {
            let message = format!(
                "`$ref` leads out of the document, to `{}`",
                brief(reference)
            );
            self.error(
                here,
                message,
                "copy what it names into $defs and refer to it as #/$defs/name",
            );
        } else {
            self.references.push((reference, here.to_owned()));
        }
    }

    /// A reference has to name a place of a schema that was judged as one: no list of properties, and no default.
    fn check_references(&mut self) {
        for (reference, here) in std::mem::take(&mut self.references) {
            let is_schema = |target: &Value| {
                self.is_cut || self.seen.iter().any(|seen| std::ptr::eq(*seen, target))
            };
            if !resolve(self.root, reference).is_some_and(is_schema) {
                let message = format!(
                    "`$ref` leads to `{}`, where there is no schema",
                    brief(reference)
                );
                self.error(&here, message, "correct it; the document is what stands under this field, so #/$defs/name is in its own $defs");
            }
        }
    }

    fn pattern(&mut self, pattern: &'s str, here: &str) {
        const SMALLER: &str = "repeat large sets of characters with * or +, and say with maxLength how long a text may be";
        let shown = brief(pattern);
        let (message, cure) = match self.patterns.judge(pattern) {
            Ok(()) => return,
            Err(Refusal::Bad(bad)) => (
                format!("the pattern `{shown}` cannot be used: {bad}"),
                match bad {
                    BadPattern::LooksAround => {
                        "write one that runs in linear time: without look-around and back-references"
                    }
                    BadPattern::NoExpression => "correct it",
                    BadPattern::TooLarge => SMALLER,
                },
            ),
            Err(Refusal::TooMany { bytes_max }) => (
                format!(
                    "the patterns of this schema up to `{shown}` take over {bytes_max} bytes once they are compiled; those \
                     behind it were not looked at"
                ),
                SMALLER,
            ),
        };
        self.error(here, message, cure);
    }
}

/// The cure for an unknown keyword: one of another dialect, or a misspelt one.
fn cure_of(unknown: &str, object: &Map<String, Value>) -> String {
    match unknown {
        "definitions" => "rename it to `$defs`, and refer to it as #/$defs/name".to_owned(),
        "nullable" => {
            let kind = object.get("type").and_then(Value::as_str);
            let kind = kind.filter(|kind| TYPES.contains(kind)).unwrap_or("string");
            format!("write \"type\": [\"{kind}\", \"null\"] in its place")
        }
        _ => nearest(unknown, keywords()).map_or_else(
            || "remove it; it would check nothing".to_owned(),
            |near| format!("did you mean `{near}`?"),
        ),
    }
}

/// Gathers this schema and the ones that it applies to the same value, behind references and in alternatives.
fn gather_speaking<'s>(
    root: &'s Value,
    schema: &'s Value,
    found: &mut Vec<&'s Map<String, Value>>,
) {
    let Some(object) = schema.as_object() else {
        return;
    };
    if found.len() > SUBSCHEMAS_MAX || found.iter().any(|known| std::ptr::eq(*known, object)) {
        return;
    }
    found.push(object);
    let reference = object.get("$ref").and_then(Value::as_str);
    if let Some(target) = reference.and_then(|reference| resolve(root, reference)) {
        gather_speaking(root, target, found);
    }
    for keyword in SAME_VALUE {
        match object.get(keyword) {
            Some(Value::Array(schemas)) => {
                for schema in schemas {
                    gather_speaking(root, schema, found);
                }
            }
            Some(Value::Object(schemas)) if keyword == "dependentSchemas" => {
                for schema in schemas.values() {
                    gather_speaking(root, schema, found);
                }
            }
            Some(schema) => gather_speaking(root, schema, found),
            None => {}
        }
    }
}

/// `is_sound` tells that the whole schema has no other problem.
fn check_defaults(
    root: &Value,
    defaults: &[(String, &Value)],
    is_sound: bool,
    report: &mut Report<'_>,
) {
    let judged = defaults.iter().filter_map(|(place, schema)| {
        let default = default_of(root, schema)?;
        Some(Judged {
            place,
            schema,
            default,
        })
    });
    let (referring, plain): (Vec<_>, Vec<_>) =
        judged.partition(|judged| judged.schema.to_string().contains("\"$ref\""));
    for judged in plain {
        match Validator::compile(judged.schema) {
            Ok(validator) => judged.report(validator.violations(judged.default).first(), report),
            Err(error) if is_sound => judged.report_unknown(&error, report),
            // The problem that prevents the check has been reported.
            Err(_) => {}
        }
    }
    check_referring(root, &referring, is_sound, report);
}

/// Judges defaults whose schemas hold references. These count from the root, so the subschemas become `prefixItems` of a copy of the
/// root, and the defaults become one array. All are judged at once, because the referred schemas are compiled with them.
fn check_referring(root: &Value, defaults: &[Judged<'_>], is_sound: bool, report: &mut Report<'_>) {
    let Some(first) = defaults.first() else {
        return;
    };
    let whole = root.to_string();
    let mut copy = Map::new();
    for keyword in SCHEMA_MAPS {
        // Definitions without a reference are left out: their problems do not concern these defaults.
        let is_meant = whole.contains(&format!("\"#/{keyword}/")) || whole.contains("\"$anchor\"");
        if let Some(schemas) = root.get(keyword).filter(|_| is_meant) {
            copy.insert(keyword.to_owned(), schemas.clone());
        }
    }
    let schemas = defaults.iter().map(|judged| judged.schema.clone());
    copy.insert("prefixItems".to_owned(), schemas.collect());
    match Validator::compile(&Value::Object(copy)) {
        Ok(validator) => {
            let values = defaults.iter().map(|judged| judged.default.clone());
            let violations = validator.violations(&values.collect());
            for (index, judged) in defaults.iter().enumerate() {
                let here = format!("/{index}");
                let mut own = violations.iter();
                let own = own.find(|violation| lies_in(&violation.pointer, &here));
                judged.report(own, report);
            }
        }
        // One of them prevents the check of the others.
        Err(_) if defaults.len() > 1 => {
            let (some, others) = defaults.split_at(defaults.len() / 2);
            check_referring(root, some, is_sound, report);
            check_referring(root, others, is_sound, report);
        }
        Err(error) if is_sound => first.report_unknown(&error, report),
        // The problem that prevents the check has been reported.
        Err(_) => {}
    }
}

/// A default, and the subschema that it has to satisfy.
struct Judged<'s> {
    place: &'s str,
    schema: &'s Value,
    default: &'s Value,
}

impl Judged<'_> {
    fn report(&self, violation: Option<&Violation>, report: &mut Report<'_>) {
        if let Some(violation) = violation {
            let cure = match self.default {
                Value::Null => "remove the default, or add \"null\" to the types",
                _ => "correct the default or the schema",
            };
            report.error(
                &pointer(self.place, "default"),
                format!("the default breaks its own schema: {}", violation.message),
                cure,
            );
        }
    }

    fn report_unknown(&self, error: &SchemaError, report: &mut Report<'_>) {
        report.error(
            &pointer(self.place, "default"),
            format!("the default cannot be checked: {}", error.message),
            "put what its schema refers to under $defs",
        );
    }
}
