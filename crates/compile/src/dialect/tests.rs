//! Each row of the conversion to Gemini's schema, and the form of the declarations.

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
    // An unknown keyword is an error elsewhere, and is not put into words.
    check(
        json!({"type": "string", "minLenght": 1}),
        expect![[r#"{"type":"STRING"}"#]],
    );
    check(
        json!({}),
        expect![[r#"
        {"description":"Any JSON value is allowed.","type":"STRING"}
        note a value of any type /parameters/properties/p 1"#]],
    );
    check(
        json!(true),
        expect![[r#"
        {"description":"Any JSON value is allowed.","type":"STRING"}
        note a value of any type /parameters/properties/p 1"#]],
    );
    check(
        json!({"description": "What was found", "default": 1}),
        expect![[r#"
            {"default":1,"description":"What was found. Any JSON value is allowed.","type":"STRING"}
            note a value of any type /parameters/properties/p 1"#]],
    );
    check(
        json!({"type": "array"}),
        expect![[r#"
        {"items":{"description":"Any JSON value is allowed.","type":"STRING"},"type":"ARRAY"}
        note a value of any type /parameters/properties/p 1"#]],
    );
    check(
        json!({"type": "array", "items": {}}),
        expect![[r#"
        {"items":{"description":"Any JSON value is allowed.","type":"STRING"},"type":"ARRAY"}
        note a value of any type /parameters/properties/p/items 1"#]],
    );
    check(
        json!({"minLength": 1}),
        expect![[r#"{"minLength":1,"type":"STRING"}"#]],
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
        json!({"enum": ["", "a"], "description": "A letter"}),
        expect![[r#"
            {"description":"A letter. May be the empty text \"\", too.","enum":["a"],"type":"STRING"}
            note an empty text in enum /parameters/properties/p/enum 1"#]],
    );
    check(
        json!({"const": ""}),
        expect![[r#"
            {"description":"Always \"\".","type":"STRING"}
            note const /parameters/properties/p/const 1"#]],
    );
    check(
        json!({"type": "object", "properties": {}}),
        expect![[r#"
            {"type":"OBJECT"}
            note properties without any /parameters/properties/p/properties 1"#]],
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
        json!({"description": "Rows", "anyOf": [{"type": "integer", "enum": [1, 2]}, {"type": "null"}]}),
        expect![[r#"
            {"description":"Rows. One of 1, 2.","nullable":true,"type":"INTEGER"}
            note enum /parameters/properties/p/anyOf/0/enum 1"#]],
    );
    check(
        json!({"allOf": [{"type": ["integer", "string"]}, {"type": ["number", "null"], "minimum": 2}]}),
        expect![[r#"{"minimum":2,"type":"INTEGER"}"#]],
    );
    check(
        json!({"allOf": [{"type": "string"}, {"type": "integer"}]}),
        expect![[r#"
            {"type":"STRING"}
            note type twice for one value /parameters/properties/p 1"#]],
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
        expect![[r#"
            {"type":"OBJECT"}
            error /parameters/properties/p/$ref the schema refers to itself through `#/$defs/tree`, which Gemini's native schema cannot express"#]],
    );
}

#[test]
fn gemini_has_each_branch_say_what_stands_beside_the_branches() {
    // An object that must have one of two members.
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "description": "Either."}),
        expect![[
            r#"{"anyOf":[{"properties":{"a":{"type":"STRING"},"b":{"type":"INTEGER"}},"required":["a"],"type":"OBJECT"},{"properties":{"a":{"type":"STRING"},"b":{"type":"INTEGER"}},"required":["b"],"type":"OBJECT"}],"description":"Either."}"#
        ]],
    );
    // Variants of one object; a member of both gets the rules of both.
    check(
        json!({"type": "object", "properties": {"kind": {"type": "string", "maxLength": 9}, "n": {"type": "integer", "minimum": 1}}, "required": ["kind"], "oneOf": [{"properties": {"kind": {"const": "x"}, "n": {"minimum": 5}}}, {"properties": {"kind": {"const": "y"}}, "required": ["n"]}, {"type": "string"}]}),
        expect![[
            r#"{"anyOf":[{"properties":{"kind":{"enum":["x"],"maxLength":9,"type":"STRING"},"n":{"minimum":5,"type":"INTEGER"}},"required":["kind"],"type":"OBJECT"},{"properties":{"kind":{"enum":["y"],"maxLength":9,"type":"STRING"},"n":{"minimum":1,"type":"INTEGER"}},"required":["n","kind"],"type":"OBJECT"}]}"#
        ]],
    );
    check(
        json!({"type": ["string", "null"], "maxLength": 5, "anyOf": [{"pattern": "^a"}, {"minLength": 2}, {"type": "null"}]}),
        expect![[
            r#"{"anyOf":[{"maxLength":5,"nullable":true,"pattern":"^a","type":"STRING"},{"maxLength":5,"minLength":2,"nullable":true,"type":"STRING"}],"nullable":true}"#
        ]],
    );
    check(
        json!({"anyOf": [{"type": "string"}, {"type": "integer"}], "oneOf": [{"minLength": 2}, {"minimum": 2}]}),
        expect![[
            r#"{"anyOf":[{"anyOf":[{"minLength":2,"type":"STRING"},{"type":"STRING"}]},{"anyOf":[{"type":"INTEGER"},{"minimum":2,"type":"INTEGER"}]}]}"#
        ]],
    );
    check(
        json!({"anyOf": [{"$ref": "#/$defs/word"}, {"type": "integer"}], "default": "x", "examples": [1], "title": "Word or number"}),
        expect![[r#"
            {"anyOf":[{"description":"One word.","maxLength":9,"type":"STRING"},{"type":"INTEGER"}],"description":"\"x\" if it is left out. For example 1."}
            note default beside anyOf /parameters/properties/p/default 1
            note examples beside anyOf /parameters/properties/p/examples 1
            note title beside anyOf /parameters/properties/p/title 1"#]],
    );
    check(
        json!({"anyOf": [{"$ref": "#/$defs/word"}, {"type": "null"}], "default": null, "examples": ["x"]}),
        expect![[
            r#"{"default":null,"description":"One word.","example":"x","maxLength":9,"nullable":true,"type":"STRING"}"#
        ]],
    );
    check(
        json!({"type": ["string", "integer"], "default": 3, "minimum": 1}),
        expect![[r#"
            {"anyOf":[{"type":"STRING"},{"minimum":1,"type":"INTEGER"}],"description":"3 if it is left out."}
            note default beside anyOf /parameters/properties/p/default 1"#]],
    );
}

#[test]
fn gemini_keeps_every_value_of_a_choice_that_has_several_types() {
    check(
        json!({"enum": ["a", 1, 2, null]}),
        expect![[r#"
        {"anyOf":[{"enum":["a"],"nullable":true,"type":"STRING"},{"description":"One of 1, 2.","nullable":true,"type":"INTEGER"}],"nullable":true}
        note enum /parameters/properties/p/enum 1"#]],
    );
    check(
        json!({"type": ["string", "integer"], "enum": ["a", 1]}),
        expect![[r#"
            {"anyOf":[{"enum":["a"],"type":"STRING"},{"description":"Always 1.","type":"INTEGER"}]}
            note enum /parameters/properties/p/enum 1"#]],
    );
    check(
        json!({"type": "string", "enum": ["a", 1, null]}),
        expect![[r#"{"enum":["a"],"type":"STRING"}"#]],
    );
    check(
        json!({"const": null}),
        expect![[r#"
        {"description":"Always null.","type":"NULL"}
        note const /parameters/properties/p/const 1"#]],
    );
}

#[test]
fn gemini_is_told_conditions_in_words() {
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "dependentRequired": {"a": ["b"]}, "patternProperties": {"^x-": {"type": "string"}}, "not": {"required": ["b"]}}),
        expect![[r#"
            {"description":"`a` needs b. Must not match {\"required\":[\"b\"]}. A member whose name matches `^x-` has to match {\"type\":\"string\"}.","properties":{"a":{"type":"STRING"},"b":{"type":"STRING"}},"type":"OBJECT"}
            note dependentRequired /parameters/properties/p/dependentRequired 1
            note not /parameters/properties/p/not 1
            note patternProperties /parameters/properties/p/patternProperties 1"#]],
    );
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "if": {"required": ["a"]}, "then": {"minProperties": 2}, "else": {"maxProperties": 1}}),
        expect![[r#"
            {"description":"If it matches {\"required\":[\"a\"]}, it has to match {\"minProperties\":2}; else {\"maxProperties\":1}.","properties":{"a":{"type":"STRING"}},"type":"OBJECT"}
            note else /parameters/properties/p/else 1
            note if /parameters/properties/p/if 1
            note then /parameters/properties/p/then 1"#]],
    );
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "if": {"required": ["a"]}, "else": {"maxProperties": 1}}),
        expect![[r#"
            {"description":"If it matches {\"required\":[\"a\"]} it may be anything; else it has to match {\"maxProperties\":1}.","properties":{"a":{"type":"STRING"}},"type":"OBJECT"}
            note else /parameters/properties/p/else 1
            note if /parameters/properties/p/if 1"#]],
    );
    check(
        json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false}),
        expect![[r#"
            {"description":"The items match, in this order, [{\"type\":\"string\"},{\"type\":\"integer\"}], and no more.","items":{"anyOf":[{"type":"STRING"},{"type":"INTEGER"}]},"type":"ARRAY"}
            note prefixItems /parameters/properties/p/prefixItems 1"#]],
    );
    check(
        json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}, "contains": {"const": 3}, "minContains": 2}),
        expect![[r#"
            {"description":"At least 2 of the items match {\"const\":3}. The items match, in this order, [{\"type\":\"string\"}].","items":{"anyOf":[{"type":"INTEGER"},{"type":"STRING"}]},"type":"ARRAY"}
            note contains /parameters/properties/p/contains 1
            note minContains /parameters/properties/p/minContains 1
            note prefixItems /parameters/properties/p/prefixItems 1"#]],
    );
    check(
        json!({"type": "string", "not": {"enum": ["x".repeat(400)]}, "contentEncoding": "base64"}),
        expect![[r#"
            {"description":"Encoded as base64. Not every value of this form is allowed.","type":"STRING"}
            note contentEncoding /parameters/properties/p/contentEncoding 1
            note not /parameters/properties/p/not 1"#]],
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
            {"description":"At least 1 of the items match {\"const\":\"a\"}. No item twice.","items":{"type":"STRING"},"type":"ARRAY"}
            note contains /parameters/properties/p/contains 1
            note uniqueItems /parameters/properties/p/uniqueItems 1"#]],
    );
    check(
        json!({"type": "object", "properties": {"not-a-name": {"type": "string"}, "gone": false}, "additionalProperties": {"type": "string"}}),
        expect![[r#"
            {"description":"Members of other names are allowed, each matching {\"type\":\"string\"}. There is also a member `not-a-name`, which matches {\"type\":\"string\"}.","type":"OBJECT"}
            note a parameter of such a name /parameters/properties/p/properties/not-a-name 1
            note additionalProperties /parameters/properties/p/additionalProperties 1
            note properties without any /parameters/properties/p/properties 1"#]],
    );
    check(
        json!({"type": "object", "additionalProperties": {"$ref": "#/$defs/word"}}),
        expect![[r#"
            {"description":"Members of other names are allowed, each matching {\"description\":\"One word.\",\"maxLength\":9,\"type\":\"string\"}.","type":"OBJECT"}
            note additionalProperties /parameters/properties/p/additionalProperties 1"#]],
    );
    check(
        json!({"type": "object", "additionalProperties": {"enum": ["x".repeat(400)]}}),
        expect![[r#"
            {"description":"Members of other names are allowed.","type":"OBJECT"}
            note additionalProperties /parameters/properties/p/additionalProperties 1"#]],
    );
    // A keyword of every schema counts as no loss.
    check(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}),
        expect![[r#"{"properties":{"a":{"type":"STRING"}},"type":"OBJECT"}"#]],
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
