//! Each row of the conversion to Gemini's schema, and what the declarations look like.

use super::*;
use expect_test::{Expect, expect};
use serde_json::{Map, json};

/// The Gemini form of one property, and the notes about it.
fn check(property: Value, expected: Expect) {
    let root = json!({"type": "object", "properties": {"p": property}, "$defs": {
        "word": {"type": "string", "description": "One word.", "maxLength": 9},
        "tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}},
    }});
    let mut notes = Notes::default();
    let converted = gemini::parameters(&root, &mut notes);
    let mut text =
        converted.map_or_else(String::new, |schema| schema["properties"]["p"].to_string());
    for (keyword, (place, count)) in &notes.dropped {
        text.push_str(&format!("\nnote {keyword} {place} {count}"));
    }
    for (place, message, _) in &notes.errors {
        text.push_str(&format!("\nerror {place} {message}"));
    }
    expected.assert_eq(&text);
}

#[test]
fn gemini_types_and_null() {
    check(
        json!({"type": "integer", "minimum": 1}),
        expect![[r#"{"minimum":1,"type":"INTEGER"}"#]],
    );
    check(
        json!({"type": ["string", "null"], "minLength": 1}),
        expect![[r#"{"minLength":1,"nullable":true,"type":"STRING"}"#]],
    );
    check(
        json!({"type": ["string", "integer", "null"], "minLength": 1, "maximum": 3, "description": "Either"}),
        expect![[
            r#"{"anyOf":[{"minLength":1,"type":"STRING"},{"maximum":3,"type":"INTEGER"}],"description":"Either","nullable":true}"#
        ]],
    );
    check(json!({"type": "null"}), expect![[r#"{"type":"NULL"}"#]]);
    check(json!({}), expect![[r#"{"type":"STRING"}"#]]);
    check(json!(true), expect![[r#"{"type":"STRING"}"#]]);
    check(
        json!({"type": "array"}),
        expect![[r#"{"items":{"type":"STRING"},"type":"ARRAY"}"#]],
    );
}

#[test]
fn gemini_choices() {
    check(
        json!({"enum": ["a", "b", null]}),
        expect![[r#"{"enum":["a","b"],"nullable":true,"type":"STRING"}"#]],
    );
    check(
        json!({"const": "a"}),
        expect![[r#"{"enum":["a"],"type":"STRING"}"#]],
    );
    check(
        json!({"type": "integer", "enum": [1, 2], "description": "How many"}),
        expect![[r#"
            {"description":"How many. One of 1, 2.","type":"INTEGER"}
            note enum /parameters/properties/p/enum 1"#]],
    );
    check(
        json!({"const": true}),
        expect![[r#"
            {"description":"Always true.","type":"BOOLEAN"}
            note const /parameters/properties/p/const 1"#]],
    );
}

#[test]
fn gemini_combinators_and_references() {
    check(
        json!({"oneOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a", "b"]}, {"type": "null"}]}),
        expect![[
            r#"{"anyOf":[{"type":"STRING"},{"properties":{"a":{"type":"NUMBER"}},"required":["a"],"type":"OBJECT"}],"nullable":true}"#
        ]],
    );
    check(
        json!({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}], "description": "Maybe"}),
        expect![[r#"{"description":"Maybe","maxLength":3,"nullable":true,"type":"STRING"}"#]],
    );
    check(
        json!({"allOf": [{"$ref": "#/$defs/word"}, {"minLength": 2}], "description": "Mine."}),
        expect![[r#"{"description":"Mine.","maxLength":9,"minLength":2,"type":"STRING"}"#]],
    );
    check(
        json!({"type": "array", "items": {"$ref": "#/$defs/word"}}),
        expect![[
            r#"{"items":{"description":"One word.","maxLength":9,"type":"STRING"},"type":"ARRAY"}"#
        ]],
    );
    check(
        json!({"$ref": "#/$defs/tree"}),
        expect![[r##"
            {"properties":{"left":{"type":"OBJECT"}},"type":"OBJECT"}
            error /parameters/properties/p/properties/left/$ref the schema refers to itself through `#/$defs/tree`, which Gemini's native schema cannot express"##]],
    );
}

#[test]
fn gemini_says_in_words_what_it_has_no_keyword_for() {
    check(
        json!({"type": "string", "format": "email", "pattern": "@x"}),
        expect![[r#"
            {"description":"Format: email.","pattern":"@x","type":"STRING"}
            note format /parameters/properties/p/format 1"#]],
    );
    check(
        json!({"type": "string", "format": "date-time"}),
        expect![[r#"{"format":"date-time","type":"STRING"}"#]],
    );
    check(
        json!({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9.5, "multipleOf": 5}),
        expect![[r#"
            {"description":"Has to be a multiple of 5.","maximum":9,"minimum":1,"type":"INTEGER"}
            note multipleOf /parameters/properties/p/multipleOf 1"#]],
    );
    check(
        json!({"type": "number", "exclusiveMinimum": 0.5, "description": "Share"}),
        expect![[r#"
            {"description":"Share. Has to be more than 0.5.","minimum":0.5,"type":"NUMBER"}
            note exclusiveMinimum /parameters/properties/p/exclusiveMinimum 1"#]],
    );
    check(
        json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true, "contains": {"const": "a"}}),
        expect![[r#"
            {"description":"No item twice.","items":{"type":"STRING"},"type":"ARRAY"}
            note contains /parameters/properties/p/contains 1
            note uniqueItems /parameters/properties/p/uniqueItems 1"#]],
    );
    check(
        json!({"type": "object", "properties": {"not-a-name": {"type": "string"}, "gone": false}, "additionalProperties": {"type": "string"}}),
        expect![[r#"
            {"description":"Other members are allowed too.","properties":{"not-a-name":{"type":"STRING"}},"type":"OBJECT"}
            note additionalProperties /parameters/properties/p/additionalProperties 1
            error /parameters/properties/p/properties/not-a-name Gemini takes no parameter of this name"#]],
    );
}

#[test]
fn a_tool_without_arguments_is_declared_to_gemini_without_parameters() {
    let root = json!({"type": "object", "additionalProperties": false});
    assert_eq!(gemini::parameters(&root, &mut Notes::default()), None);
    assert_eq!(
        gemini::native("a", "b", None),
        json!({"name": "a", "description": "b"})
    );
}

#[test]
fn openai_gets_the_schema_as_it_is_but_arrays_have_items() {
    let root = json!({"type": "object", "additionalProperties": false, "properties": {
        "a": {"type": "array"}, "b": {"type": "string", "pattern": "x"},
    }});
    let mut notes = Notes::default();
    assert_eq!(
        openai::parameters(&root, &mut notes),
        json!({"type": "object", "additionalProperties": false, "properties": {
            "a": {"type": "array", "items": {}}, "b": {"type": "string", "pattern": "x"},
        }})
    );
    assert!(notes.errors.is_empty());
    openai::parameters(&json!({"type": "object", "anyOf": []}), &mut notes);
    assert_eq!(notes.errors.len(), 1);
}

#[test]
fn references_that_multiply_are_refused_in_time() {
    let mut definitions = Map::new();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(
            format!("d{level}"),
            json!({"type": "object", "properties": {"a": next, "b": next}}),
        );
    }
    definitions.insert("d40".to_owned(), json!({"type": "string"}));
    let root = json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
    let mut notes = Notes::default();
    gemini::parameters(&root, &mut notes);
    assert_eq!(notes.errors.len(), 1);
}
