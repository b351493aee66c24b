//! The quick judge beside the slow one, defaults, and what violations say.

use super::*;
use serde_json::{Map, json};

fn bench_schema() -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["query"], "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 5},
        "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
        "sort": {"type": "string", "enum": ["relevance", "newest"], "default": "relevance"},
        "filters": {"$ref": "#/$defs/filters"},
    }, "$defs": {"filters": {"type": "object", "additionalProperties": false, "properties": {
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2, "uniqueItems": true},
        "when": {"type": "string", "format": "date-time"},
        "code": {"type": "string", "pattern": "^[a-z]+$"},
    }}}})
}

#[test]
fn every_violation_has_its_pointer_and_says_what_is_asked_for() {
    let validator = Validator::compile(&bench_schema()).unwrap();
    let violations = validator.violations(&json!({
        "limit": 0.5, "sort": "secret-value-of-the-user", "topk": 3,
        "filters": {"tags": ["a", "a", "b"], "when": "tomorrow", "code": "A1", "x/y": 1},
    }));
    let lines: Vec<String> = violations
        .iter()
        .map(|violation| {
            format!(
                "{} {} {:?}",
                violation.pointer, violation.message, violation.allowed
            )
        })
        .collect();
    expect_test::expect![[r#"
        /filters/code must match the pattern ^[a-z]+$ []
        /filters/tags must have at most 2 items []
        /filters/tags must not have the same item twice []
        /filters/when must be a valid date-time []
        /filters/x~1y there is no argument named `x/y` ["code", "tags", "when"]
        /limit must be 1 or more []
        /limit must be an integer []
        /query `query` is required []
        /sort must be one of "relevance", "newest" []
        /topk there is no argument named `topk` ["filters", "limit", "query", "sort"]"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn violations_neither_repeat_values_nor_grow_with_them() {
    let validator = Validator::compile(&bench_schema()).unwrap();
    let huge = "x".repeat(100_000);
    let mut arguments = json!({"query": huge, "sort": huge});
    for index in 0..1_000 {
        arguments[format!("{huge}{index}")] = Value::Null;
    }
    let text = serde_json::to_string(&validator.violations(&arguments)).unwrap();
    assert!(text.len() < 20_000, "{}", text.len());
    assert!(!text.contains(&"x".repeat(130)));
}

#[test]
fn a_whole_number_is_an_integer_however_it_is_written() {
    let validator = Validator::compile(&bench_schema()).unwrap();
    for (text, valid) in [
        ("3", true),
        ("3.0", true),
        ("30e-1", true),
        ("3.5", false),
        ("\"3\"", false),
    ] {
        let arguments = format!("{{\"query\":\"a\",\"limit\":{text}}}");
        let plain: Value = serde_json::from_str(&arguments).unwrap();
        assert_eq!(validator.is_valid(&plain), valid, "{text}");
        let strict = crate::json::parse(arguments.as_bytes()).unwrap();
        assert_eq!(validator.is_valid(&strict), valid, "{text}");
        assert_eq!(strict["limit"].as_i64().is_some(), valid, "{text}");
    }
}

#[test]
fn defaults_fill_gaps_at_every_depth_and_say_where() {
    let validator = Validator::compile(&json!({"type": "object", "properties": {
        "limit": {"type": "integer", "default": 10},
        "filters": {"type": "object", "default": {}, "properties": {
            "lang": {"type": "string", "default": "en"},
        }},
        "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"default": 1}}}},
    }}))
    .unwrap();
    let arguments = json!({"list": [{}, {"n": 2}, 3]});
    let mut arguments = Arguments::from(arguments.as_object().unwrap().clone());
    let applied = validator.apply_defaults(&mut arguments);
    assert_eq!(
        arguments.to_value(),
        json!({"limit": 10, "filters": {"lang": "en"}, "list": [{"n": 1}, {"n": 2}, 3]})
    );
    let applied: Vec<&str> = applied.iter().map(AsRef::as_ref).collect();
    assert_eq!(
        applied,
        ["/filters", "/limit", "/filters/lang", "/list/0/n"]
    );
}

#[test]
fn defaults_in_lists_are_named_by_their_place_in_every_call() {
    let validator = Validator::compile(&json!({"properties": {
        "rows": {"items": {"properties": {"n": {"default": 1}, "cells": {"items": {"properties": {"m": {"default": 2}}}}}}},
        "z": {"default": 3},
    }}))
    .unwrap();
    for (given, expected) in [
        (
            json!({"rows": [{}, {"n": 1, "cells": [{"m": 1}, {}]}]}),
            vec!["/z", "/rows/0/n", "/rows/1/cells/1/m"],
        ),
        (json!({"rows": [{"n": 1}, {}]}), vec!["/z", "/rows/1/n"]),
        (json!({"rows": [{"n": 1}]}), vec!["/z"]),
        (
            json!({"rows": [{}, {"n": 1, "cells": [{"m": 1}, {}]}]}),
            vec!["/z", "/rows/0/n", "/rows/1/cells/1/m"],
        ),
    ] {
        let mut arguments = Arguments::from(given.as_object().unwrap().clone());
        let applied = validator.apply_defaults(&mut arguments);
        let applied: Vec<&str> = applied.iter().map(AsRef::as_ref).collect();
        assert_eq!(applied, expected, "{given}");
    }
}

#[test]
fn defaults_are_found_behind_references_and_an_own_one_goes_first() {
    let validator = Validator::compile(&json!({"type": "object", "properties": {
        "a": {"$ref": "#/$defs/k"},
        "b": {"$ref": "#/$defs/k", "default": 4},
        "c": {"allOf": [{"type": "integer"}, {"$ref": "#/$defs/k"}]},
        "d": {"$ref": "#/$defs/object"},
        "e": {"anyOf": [{"type": "integer", "default": 1}]},
    }, "$defs": {
        "k": {"type": "integer", "default": 2},
        "object": {"type": "object", "properties": {"inner": {"$ref": "#/$defs/k"}}},
    }}))
    .unwrap();
    let mut arguments = Arguments::from(json!({"d": {}}).as_object().unwrap().clone());
    let applied = validator.apply_defaults(&mut arguments);
    assert_eq!(
        arguments.to_value(),
        json!({"a": 2, "b": 4, "c": 2, "d": {"inner": 2}})
    );
    assert_eq!(applied.len(), 4);
}

#[test]
fn references_without_end_have_defaults_that_end() {
    let validator = Validator::compile(&json!({"$ref": "#/$defs/tree", "$defs": {"tree": {"properties": {
        "n": {"default": 1}, "left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"},
    }}}}))
    .unwrap();
    let mut arguments = Arguments::from(json!({"left": {}}).as_object().unwrap().clone());
    validator.apply_defaults(&mut arguments);
    assert_eq!(arguments.to_value(), json!({"n": 1, "left": {"n": 1}}));
}

#[test]
fn international_names_are_formats_of_their_own() {
    let valid = |format: &str, text: &str| {
        Validator::compile(&json!({"type": "string", "format": format}))
            .unwrap()
            .is_valid(&json!(text))
    };
    for (format, text, expected) in [
        ("idn-email", "frå@örebro.example", true),
        ("idn-email", "a@x.org", true),
        ("idn-email", "a b@x.org", false),
        ("idn-email", "nobody", false),
        ("idn-email", "@x.org", false),
        ("idn-hostname", "пример.example", true),
        ("idn-hostname", "-x.example", false),
        ("idn-hostname", "a..b", false),
        ("idn-hostname", "a b", false),
        ("idn-hostname", "a\u{200b}b.example", false),
        // A joiner belongs behind the sign that it joins.
        ("idn-hostname", "a\u{200d}b.example", false),
        ("idn-hostname", "example.", false),
        ("idn-hostname", "пример.", false),
        ("idn-hostname", "ab--cd.example", false),
        ("idn-hostname", "a·b.example", false),
        ("idn-hostname", "l·l.example", true),
        ("idn-email", "a\u{202e}b@x.org", false),
    ] {
        assert_eq!(valid(format, text), expected, "{format} {text}");
    }
}

#[test]
fn each_call_is_told_its_own_defaults_whatever_calls_before_left_out() {
    let validator = Validator::compile(&json!({"properties": {
        "a": {"default": 1}, "b": {"default": 2}, "c": {"default": 3},
    }}))
    .unwrap();
    for (given, applied) in [
        (json!({"b": 0}), vec!["/a", "/c"]),
        (json!({"b": 0}), vec!["/a", "/c"]),
        (json!({}), vec!["/a", "/b", "/c"]),
        (json!({"c": 0}), vec!["/a", "/b"]),
        (json!({"b": 0, "c": 0}), vec!["/a"]),
        (json!({"a": 0, "b": 0}), vec!["/c"]),
        (json!({"a": 0, "b": 0, "c": 0}), vec![]),
    ] {
        let mut arguments = Arguments::from(given.as_object().unwrap().clone());
        let found = validator.apply_defaults(&mut arguments);
        let found: Vec<&str> = found.iter().map(AsRef::as_ref).collect();
        assert_eq!(found, applied, "{given}");
    }
}

#[test]
fn a_trusted_schema_that_does_not_compile_refuses_instead_of_panicking() {
    let validator = Validator::trusting(Arc::new(json!({"type": "string", "pattern": "(?=a)"})));
    assert_eq!(validator.violations(&json!("a")).len(), 1);
    assert!(!validator.is_valid(&json!("a")));
}

/// A small deterministic source of choices, so that a failure is found again.
struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

const TEXTS: [&str; 36] = [
    "",
    "a",
    "ab",
    "abc",
    "é",
    "日本語",
    "2026-02-28T10:00:00Z",
    "2026-02-29T10:00:00Z",
    "2024-02-29",
    "2026-13-01",
    "2026-01-31",
    "2026-04-31",
    "23:59:60Z",
    "12:00:00.5+01:00",
    "12:00:00+24:00",
    "a@b.org",
    "a..b@c.org",
    "a@b",
    "a@-b.org",
    "A-1",
    "a-9",
    "12",
    "1.2",
    "a b",
    "https://x.org/a?b=c",
    "https://",
    "http://a_b",
    "http://x.org/\u{e9}",
    "urn:x",
    "00000000-0000-0000-0000-00000000000A",
    "00000000-0000-0000-0000-00000000000g",
    "a\nb",
    "]",
    "^",
    "0-9",
    "9",
];

fn any_value(choices: &mut Choices, depth: usize) -> Value {
    match choices.below(if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => Value::Bool(choices.below(2) == 0),
        2 => choices
            .pick(&[
                json!(0),
                json!(1),
                json!(-1),
                json!(3),
                json!(7),
                json!(u64::MAX),
                json!(i64::MIN),
                json!(9_007_199_254_740_993_u64),
            ])
            .clone(),
        3 => choices
            .pick(&[
                json!(0.0),
                json!(0.5),
                json!(3.0),
                json!(-2.5),
                json!(1e300),
                json!(7.0),
            ])
            .clone(),
        4 | 5 => Value::String((*choices.pick(&TEXTS)).to_owned()),
        6 => (0..choices.below(4))
            .map(|_| any_value(choices, depth - 1))
            .collect(),
        _ => (0..choices.below(4))
            .map(|_| {
                (
                    (*choices.pick(&["a", "b", "c", "d"])).to_owned(),
                    any_value(choices, depth - 1),
                )
            })
            .collect::<Map<String, Value>>()
            .into(),
    }
}

fn any_schema(choices: &mut Choices, depth: usize) -> Value {
    let mut schema = Map::new();
    for _ in 0..choices.below(4) {
        let (keyword, value) = match choices.below(if depth > 0 { 3 } else { 2 }) {
            0 | 1 => any_assertion(choices),
            _ => any_applicator(choices, depth - 1),
        };
        schema.insert(keyword.to_owned(), value);
    }
    Value::Object(schema)
}

/// A keyword that judges a value itself.
#[rustfmt::skip]
fn any_assertion(choices: &mut Choices) -> (&'static str, Value) {
    let small = json!(choices.below(4));
    match choices.below(17) {
        0 => ("type", json!(choices.pick(&["string", "integer", "number", "object", "array", "null", "boolean"]))),
        1 => ("type", json!(choices.pick(&[["string", "null"], ["integer", "string"], ["object", "array"]]))),
        2 => ("minLength", small),
        3 => ("maxLength", small),
        4 => ("format", json!(choices.pick(&["date", "time", "date-time", "email", "uuid", "uri", "ipv4", "hostname"]))),
        5 => ("pattern", json!(choices.pick(&[
            "^[a-z]+$", "^\\d+$", "[0-9-]", "a|b", "^a.c$", "[\\d\\-]x?", "^[^]]", "\\w", "]", "[a&&b]",
            "^(ab)?c{0,2}$", "é", "[]^]",
        ]))),
        6 => ("minimum", choices.pick(&[json!(1), json!(0.5), json!(9_007_199_254_740_992_u64)]).clone()),
        7 => ("maximum", choices.pick(&[json!(5), json!(2.5), json!(-1)]).clone()),
        8 => ("exclusiveMinimum", json!(0)),
        9 => ("exclusiveMaximum", json!(7)),
        10 => ("multipleOf", choices.pick(&[json!(2), json!(0.5), json!(3)]).clone()),
        11 => ("enum", json!([any_value(choices, 1), any_value(choices, 1), 3, "a"])),
        12 => ("const", any_value(choices, 1)),
        13 => ("minItems", small),
        14 => choices.pick(&[("maxItems", small), ("uniqueItems", json!(true))]).clone(),
        15 => ("minProperties", small),
        _ => ("required", json!(choices.pick(&[vec!["a"], vec!["a", "b"], vec![], vec!["z"]]))),
    }
}

/// A keyword that applies other schemas.
fn any_applicator(choices: &mut Choices, depth: usize) -> (&'static str, Value) {
    let one = any_schema(choices, depth);
    let other = any_schema(choices, depth);
    match choices.below(8) {
        0..=2 => ("properties", json!({"a": one, "b": other, "c": true})),
        3 => ("additionalProperties", json!(false)),
        4 => ("additionalProperties", one),
        5 => ("items", one),
        6 => ("anyOf", json!([one, other])),
        _ => choices
            .pick(&[("allOf", json!([one])), ("not", other)])
            .clone(),
    }
}

#[test]
fn the_quick_judge_and_the_thorough_one_agree_on_200_000_values() {
    let mut choices = Choices(7);
    let (mut quick_yes, mut thorough_yes) = (0, 0);
    for _ in 0..4_000 {
        let schema = any_schema(&mut choices, 2);
        let validator = Validator::trusting(Arc::new(schema.clone()));
        let thorough = validator.thorough().unwrap();
        for _ in 0..50 {
            let value = any_value(&mut choices, 2);
            let quick = validator.quick.surely_allows(&value);
            let valid = thorough.is_valid(&value);
            assert!(valid || !quick, "schema {schema}\nvalue {value}");
            assert_eq!(
                validator.is_valid(&value),
                valid,
                "schema {schema}\nvalue {value}"
            );
            if let Value::Object(map) = &value {
                let arguments = Arguments::from(map.clone());
                let valid = thorough.is_valid(&arguments.to_value());
                let passes = validator.argument_violations(&arguments).is_empty();
                assert_eq!(passes, valid, "schema {schema}\narguments {value}");
            }
            quick_yes += usize::from(quick);
            thorough_yes += usize::from(valid);
        }
    }
    // A judge that is never sure would be right as well.
    assert!(
        quick_yes * 10 > thorough_yes * 8,
        "{quick_yes} of {thorough_yes}"
    );
}
