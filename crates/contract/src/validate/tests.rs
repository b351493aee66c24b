//! Formats, defaults, and the texts of violations.

use super::*;
use serde_json::json;

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
fn mail_addresses_instants_and_web_addresses_have_their_formats() {
    for (format, good, bad) in [
        ("email", "ada@example.org", "ada.example.org"),
        ("date-time", "2026-11-20T18:25:43Z", "2026-11-20 at six"),
        ("uri", "https://example.org/a?b=c", "example org"),
    ] {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"value": {"type": "string", "format": format}}},
        }});
        let validator = Validator::compile(&schema).unwrap();
        let arguments = |value: &str| json!({"a": {"value": value}});
        assert!(validator.violations(&arguments(good)).is_empty(), "{good}");
        let violations = validator.violations(&arguments(bad));
        assert_eq!(violations.len(), 1, "{bad}");
        assert_eq!(violations[0].pointer.to_string(), "/a/value", "{bad}");
        assert!(!violations[0].message.contains(bad), "{bad}");
    }
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
        let integer = strict["limit"].as_number().and_then(crate::number::integer);
        assert_eq!(integer.is_some(), valid, "{text}");
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
        // A joiner has to follow the sign that it joins.
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

#[test]
fn a_value_that_came_quoted_or_without_its_offset_is_told_the_form_that_was_meant() {
    let schema = json!({"type": "object", "properties": {
        "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": ["array", "null"]},
        "count": {"type": "integer"},
        "open": {"type": "boolean"},
        "when": {"type": "string", "format": "date-time"},
    }});
    let validator = Validator::compile(&schema).unwrap();
    for (arguments, message) in [
        (
            json!({"tags": "[\"secret\"]"}),
            "must be an array: write [\"a\"], not a string",
        ),
        (
            json!({"numbers": "[7]"}),
            "must be null or an array: write [1], not a string",
        ),
        (
            json!({"count": "7"}),
            "must be an integer: write it without quotes",
        ),
        (
            json!({"open": "false"}),
            "must be a boolean: write it without quotes",
        ),
        (json!({"count": "seven"}), "must be an integer"),
        (json!({"tags": "secret"}), "must be an array"),
        (
            json!({"when": "2026-11-28T10:00:00"}),
            "must be a valid date-time: its offset is missing; end it with one such as +01:00, or with Z for UTC",
        ),
        (json!({"when": "tomorrow"}), "must be a valid date-time"),
    ] {
        let violations = validator.violations(&arguments);
        assert_eq!(violations.len(), 1, "{arguments}");
        assert_eq!(violations[0].message, message, "{arguments}");
    }
}

#[test]
fn a_null_counts_as_left_out_where_it_may_be_left_out_and_is_not_allowed() {
    let schema = json!({"type": "object", "required": ["id"], "properties": {
        "id": {"type": "string"},
        "note": {"type": "string"},
        "a/b": {"$ref": "#/$defs/text"},
        "may": {"type": ["string", "null"]},
        "list": {"type": "array", "items": {"type": "string"}},
        "inner": {"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}, "y": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
    }, "$defs": {"text": {"type": "string"}}});
    let validator = Validator::compile(&schema).unwrap();
    for (given, left, taken) in [
        (
            json!({"id": "1", "note": null, "a/b": null}),
            json!({"id": "1"}),
            vec!["/a~1b", "/note"],
        ),
        (
            json!({"id": "1", "may": null}),
            json!({"id": "1", "may": null}),
            vec![],
        ),
        (json!({"id": null}), json!({"id": null}), vec![]),
        (
            json!({"id": "1", "list": [null]}),
            json!({"id": "1", "list": [null]}),
            vec![],
        ),
        (
            json!({"id": "1", "inner": {"x": null, "y": null}}),
            json!({"id": "1", "inner": {"x": null}}),
            vec!["/inner/y"],
        ),
    ] {
        let mut arguments = Arguments::from(given.as_object().unwrap().clone());
        let found = validator.leave_out_nulls(&mut arguments);
        assert_eq!(arguments.to_value(), left, "{given}");
        assert_eq!(
            found.iter().map(|one| &**one).collect::<Vec<_>>(),
            taken,
            "{given}"
        );
    }
}
