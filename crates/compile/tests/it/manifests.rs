//! Every rule on the fields of a `schema.json`, and what the author is told who breaks it.

use crate::fixture::{Folder, manifest_with};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

fn check(changes: Value, expected: Expect) {
    let folder = Folder::new();
    folder.tool("some-tool", &manifest_with(changes));
    expected.assert_eq(&folder.problems());
}

/// The schema of one parameter, and the problems it makes.
fn check_parameter(schema: Value, expected: Expect) {
    check(json!({"/parameters/properties/p": schema}), expected);
}

#[test]
fn fields_have_their_types() {
    check(
        json!({
            "/toolId": "Some-Tool", "/version": "1", "/description": "", "/category": "magic", "/sideEffects": 1,
            "/idempotent": "yes", "/requiresConfirmation": null, "/allowedModes": [], "/latencyBudgetMs": 0,
            "/parameters": [], "/timeoutMs": 86_400_001, "/behavior": "async", "/scheduling": "later",
            "/onInterrupt": "stop", "/reach": "far", "/responseSchema": "x", "/confirmation": {"prevue": "x"},
            "/rateLimit": {"calls": 0, "windowMs": 1}, "/sensitive": ["/nothing"], "/status": 5,
        }),
        expect![[r#"
            tools/some-tool/schema.json:2:3: error: `allowedModes` is empty (write ["text"], ["voice"] or ["text", "voice"])
            tools/some-tool/schema.json:3:3: error: `behavior` is `async`, which it cannot be (write one of blocking, non_blocking, background)
            tools/some-tool/schema.json:4:3: error: `category` is `magic`, which it cannot be (write one of retrieval, action, utility)
            tools/some-tool/schema.json:5:3: error: `confirmation` is not an object with one text, `preview` (write {"preview": "Create {title}"}, with arguments in braces)
            tools/some-tool/schema.json:8:3: error: `description` is empty (write a text of 1 to 1024 characters)
            tools/some-tool/schema.json:9:3: error: `idempotent` is a string, not a boolean (write true or false)
            tools/some-tool/schema.json:10:3: error: `latencyBudgetMs` is 0, not a positive integer (write a whole number of milliseconds above 0)
            tools/some-tool/schema.json:11:3: error: `onInterrupt` is `stop`, which it cannot be (write one of finish, cancel)
            tools/some-tool/schema.json:12:3: error: `parameters` is an array, not an object (write a JSON Schema with "type": "object" and "additionalProperties": false)
            tools/some-tool/schema.json:13:3: error: `rateLimit` is not an object with the positive integers `calls` and `windowMs` (write {"calls": 10, "windowMs": 60000}, both above 0)
            tools/some-tool/schema.json:17:3: error: `reach` is `far`, which it cannot be (write one of internal, external)
            tools/some-tool/schema.json:18:3: error: `responseSchema` is a string, not an object (write a JSON Schema of the data that a success brings)
            tools/some-tool/schema.json:19:3: error: `scheduling` is `later`, which it cannot be (write one of interrupt, when_idle, silent)
            tools/some-tool/schema.json:21:5: error: `/nothing` names no parameter (write JSON pointers to parameters, such as ["/attendees"])
            tools/some-tool/schema.json:23:3: error: `sideEffects` is a number, not a string (write one of none, read_only, writes)
            tools/some-tool/schema.json:24:3: error: `status` is a number, not a string (write a text of 1 to 500 characters)
            tools/some-tool/schema.json:25:3: error: `timeoutMs` is 86400001 (write 1000 to 60000 milliseconds, up to 600000 where the tool writes or is non_blocking, or up to 86400000 where it is background)
            tools/some-tool/schema.json:26:3: error: `toolId` is `Some-Tool`, which is no tool id (write lower-case letters, digits and underscores, a letter first, 63 at most)
            tools/some-tool/schema.json:27:3: error: `version` is `1`, which is no semantic version (write a semantic version such as 1.0.0)"#]],
    );
    check(
        json!({"/description": "x".repeat(1_025), "/allowedModes": ["text", "text"]}),
        expect![[r#"
            tools/some-tool/schema.json:2:3: error: `allowedModes` names a mode twice (write ["text"], ["voice"] or ["text", "voice"])
            tools/some-tool/schema.json:7:3: error: `description` is 1025 characters long (write a text of 1 to 1024 characters)"#]],
    );
    check(
        json!({"/parameters/type": "array", "/parameters/additionalProperties": true}),
        expect![[r#"
            tools/some-tool/schema.json:11:5: error: `parameters` does not say "additionalProperties": false (unknown arguments are always refused; write "additionalProperties": false)
            tools/some-tool/schema.json:28:5: error: `parameters` does not say "type": "object" (arguments are always an object; write "type": "object")"#]],
    );
}

/// What is taken for a tool of which the file says only what it has to: the safe thing.
fn check_defaults(side_effects: &str, expected: Value) {
    let folder = Folder::new();
    let parameters = json!({"type": "object", "additionalProperties": false, "properties": {}});
    let short = json!({
        "description": "Does it.", "sideEffects": side_effects, "parameters": parameters,
    });
    folder.tool("some-tool", &short);
    let compilation = folder.compile();
    assert_eq!(folder.problems(), "");
    let (id, defaults) = compilation.defaults.first_key_value().unwrap();
    let taken: serde_json::Map<String, Value> = defaults
        .iter()
        .map(|default| (default.field.to_owned(), default.value.clone()))
        .collect();
    assert_eq!((id.as_str(), json!(taken)), ("some_tool", expected));
    // Written out, they are the same tool, and the artifact has them.
    let mut long = short.as_object().unwrap().clone();
    long.extend(taken.clone());
    let written = Folder::new();
    written.tool("some-tool", &Value::Object(long));
    let (left_out, written) = (compilation.artifact.unwrap(), written.compile());
    assert!(written.defaults.is_empty());
    assert_eq!(left_out.version(), written.artifact.unwrap().version());
    let kept: Value = serde_json::from_slice(&left_out.to_json()).unwrap();
    for (field, value) in &taken {
        assert_eq!(&kept["tools"][0][field], value, "{field}");
    }
}

#[test]
fn a_tool_needs_three_fields_and_the_others_have_safe_defaults() {
    let harmless = json!({
        "toolId": "some_tool", "version": "1.0.0", "category": "utility", "idempotent": true,
        "requiresConfirmation": false, "allowedModes": ["text", "voice"], "latencyBudgetMs": 1_000,
    });
    check_defaults("none", harmless.clone());
    check_defaults("read_only", harmless);
    check_defaults(
        "writes",
        json!({
            "toolId": "some_tool", "version": "1.0.0", "category": "action", "idempotent": false,
            "requiresConfirmation": true, "allowedModes": ["text", "voice"], "latencyBudgetMs": 1_000,
        }),
    );
    let folder = Folder::new();
    folder.tool("some-tool", &json!({}));
    let problems = folder.problems();
    for part in [
        "the field `description` is missing",
        "the field `parameters` is missing",
        "the field `sideEffects` is missing",
    ] {
        assert!(problems.contains(part), "{part} in {problems}");
    }
    assert_eq!(problems.lines().count(), 3, "{problems}");
}

/// A tool that writes is asked about before each call unless its file says otherwise, so that it cannot be repeatable.
#[test]
fn a_default_is_held_against_the_rules() {
    let folder = Folder::new();
    folder.tool(
        "some-tool",
        &manifest_with(json!({
            "/sideEffects": "writes", "/requiresConfirmation": null, "/idempotent": null, "/repeatable": true,
        })),
    );
    let problems = folder.problems();
    assert!(
        problems.contains("a tool that asks the user before each call cannot be repeatable"),
        "{problems}"
    );
}

#[test]
fn unknown_fields_name_the_nearest_known_one() {
    check(
        json!({"/latencyBudget": 5, "/catgory": "action", "/zzz": 1}),
        expect![[r#"
            tools/some-tool/schema.json:7:3: error: there is no field `catgory` (did you mean `category`?)
            tools/some-tool/schema.json:10:3: error: there is no field `latencyBudget` (did you mean `latencyBudgetMs`?)
            tools/some-tool/schema.json:36:3: error: there is no field `zzz` (remove it; the fields are toolId, version, description, category, sideEffects, idempotent, requiresConfirmation, remember, allowedModes, latencyBudgetMs, parameters, timeoutMs, behavior, scheduling, onInterrupt, reach, responseSchema, confirmation, rateLimit, permissions, availability, effectKey, repeatable, sensitive, status, state)"#]],
    );
}

#[test]
fn permissions_name_roles() {
    for permissions in [
        json!(["staff"]),
        json!({"role": ["staff"]}),
        json!({"roles": []}),
        json!({"approverRoles": []}),
        json!({"roles": ["two words"]}),
        json!({"requiresAuth": "yes"}),
    ] {
        let folder = Folder::new();
        folder.tool(
            "some-tool",
            &manifest_with(json!({"/permissions": permissions})),
        );
        let problems = folder.problems();
        assert!(
            problems.lines().count() == 1 && problems.contains("`permissions`"),
            "{permissions} {problems:?}"
        );
    }
    check(
        json!({"/permissions": {"approverRoles": ["manager"]}}),
        expect![[r#"
            tools/some-tool/schema.json:31:5: warning: `approverRoles` means little on a tool that runs without an approval (write "requiresConfirmation": true, or remove it)"#]],
    );
    check(
        json!({"/requiresConfirmation": true, "/permissions": {"approverRoles": ["manager"]}}),
        expect![[""]],
    );
}

#[test]
fn optional_fields_are_taken_when_they_are_right() {
    check(
        json!({
            "/timeoutMs": 5_000, "/behavior": "non_blocking", "/scheduling": "silent", "/onInterrupt": "cancel",
            "/reach": "external", "/responseSchema": {"type": "object"}, "/sensitive": ["/title", "/attendees/0"],
            "/confirmation": {"preview": "Create {title} with {attendees.length} guests"},
            "/permissions": {"requiresAuth": true, "roles": ["staff", "app:Admin"]},
            "/rateLimit": {"calls": 3, "windowMs": 1_000}, "/status": "Creating for {attendees.length}",
        }),
        expect![""],
    );
}

#[test]
fn values_of_the_conversation_are_declared_with_their_schemas() {
    check(
        json!({"/state": {"basket": {"type": "array", "items": {"type": "string"}}, "Total_2": {"type": "number"}}}),
        expect![""],
    );
    for none in [json!([]), json!({})] {
        check(
            json!({ "/state": none }),
            expect![[
                r#"tools/some-tool/schema.json:32:3: error: `state` is not an object that names values (write a JSON Schema for each value, such as {"basket": {"type": "array", "items": {"type": "string"}}})"#
            ]],
        );
    }
    check(
        json!({"/state": {"2nd": {}}}),
        expect![
            "tools/some-tool/schema.json:33:5: error: `2nd` is no name of a value (begin it with a letter; letters, digits and _ follow, 63 characters at most)"
        ],
    );
    check(
        json!({"/state": {"basket": "array"}}),
        expect![[
            r#"tools/some-tool/schema.json:33:5: error: the value's schema is a string, not an object (write a JSON Schema for each value, such as {"basket": {"type": "array", "items": {"type": "string"}}})"#
        ]],
    );
    let many: serde_json::Map<String, Value> = (0..17)
        .map(|number| (format!("v{number}"), json!({"type": "number"})))
        .collect();
    check(
        json!({ "/state": many }),
        expect![
            "tools/some-tool/schema.json:32:3: error: `state` names 17 values (name 16 at most; one value may be an object)"
        ],
    );
}

#[test]
fn fields_agree_with_each_other() {
    check(
        json!({"/category": "retrieval", "/idempotent": false, "/sideEffects": "writes", "/repeatable": false}),
        expect![[r#"
            tools/some-tool/schema.json:8:3: error: a retrieval tool has to be idempotent (write true, or choose another category)
            tools/some-tool/schema.json:32:3: error: a retrieval tool cannot write (write "none" or "read_only", or choose another category)"#]],
    );
    check(
        json!({"/sideEffects": "writes", "/onInterrupt": "cancel", "/repeatable": false}),
        expect![[
            r#"tools/some-tool/schema.json:10:3: error: a tool that writes cannot be cancelled half-way (write "finish", or leave it out)"#
        ]],
    );
    check(
        json!({"/scheduling": "silent"}),
        expect![[
            r#"tools/some-tool/schema.json:31:3: error: `scheduling` means nothing without "behavior": "non_blocking" or "background" (remove it, or make the tool non_blocking or background)"#
        ]],
    );
    check(
        json!({"/sideEffects": "writes", "/category": "action", "/repeatable": false}),
        expect![
            "tools/some-tool/schema.json:31:3: warning: this action writes without asking the user (write true, unless the user would expect it to just happen)"
        ],
    );
    // Twice by mistake harms nobody, its author says.
    check(
        json!({"/sideEffects": "writes", "/category": "action", "/repeatable": true}),
        expect![""],
    );
}

#[test]
fn only_what_nobody_waits_for_may_take_minutes() {
    check(
        json!({"/timeoutMs": 60_001}),
        expect![
            "tools/some-tool/schema.json:32:3: error: `timeoutMs` is 60001, which is longer than the 60000 that this tool may take (write 1000 to 60000 milliseconds, up to 600000 where the tool writes or is non_blocking, or up to 86400000 where it is background)"
        ],
    );
    check(
        json!({"/timeoutMs": 600_000, "/behavior": "non_blocking"}),
        expect![[""]],
    );
    check(
        json!({"/timeoutMs": 600_000, "/sideEffects": "writes", "/category": "action", "/requiresConfirmation": true}),
        expect![[""]],
    );
    check(
        json!({"/timeoutMs": 86_400_000, "/behavior": "background"}),
        expect![[""]],
    );
    check(
        json!({"/timeoutMs": 600_001, "/behavior": "non_blocking"}),
        expect![
            "tools/some-tool/schema.json:33:3: error: `timeoutMs` is 600001, which is longer than the 600000 that this tool may take (write 1000 to 60000 milliseconds, up to 600000 where the tool writes or is non_blocking, or up to 86400000 where it is background)"
        ],
    );
}

#[test]
fn templates_name_parameters() {
    check(
        json!({"/confirmation": {"preview": " "}}),
        expect![[
            r#"tools/some-tool/schema.json:8:5: error: the preview is empty (say what the user is asked to approve, such as "Create {title}", or leave `confirmation` out)"#
        ]],
    );
    check(
        json!({"/confirmation": {"preview": "Create {titel}"}, "/status": "For {title.length} {"}),
        expect![[r#"
            tools/some-tool/schema.json:8:5: error: the template names `titel`, which is no parameter (put names of parameters in braces, such as {title}, or {attendees.length} for how many there are)
            tools/some-tool/schema.json:35:3: error: the template has a brace without its other half (put names of parameters in braces, such as {title}, or {attendees.length} for how many there are)"#]],
    );
}

#[test]
fn a_tool_that_is_confirmed_has_no_parameter_that_says_so() {
    let nested = json!({"type": "object", "properties": {"isConfirmed": {"type": "boolean"}}});
    check(
        json!({
            "/requiresConfirmation": true, "/parameters/properties/confirmation_token": {"type": "string"},
            "/parameters/properties/confirmation_email": {"type": "string"}, "/parameters/properties/options": nested,
        }),
        expect![[r#"
            tools/some-tool/schema.json:23:7: error: the parameter `confirmation_token` looks like a confirmation, and only the user can confirm (remove it or give it another name; the user is asked by the runtime, and the handler runs only after a yes)
            tools/some-tool/schema.json:28:11: error: the parameter `isConfirmed` looks like a confirmation, and only the user can confirm (remove it or give it another name; the user is asked by the runtime, and the handler runs only after a yes)"#]],
    );
    check(
        json!({"/parameters/properties/confirmed": {"type": "boolean"}}),
        expect![""],
    );
}

#[test]
fn top_k_has_a_default_and_survives_clamping() {
    let with =
        |top_k: Value| json!({"/category": "retrieval", "/parameters/properties/top_k": top_k});
    check(
        with(json!({"type": "integer", "minimum": 1, "maximum": 10, "default": 5})),
        expect![""],
    );
    check(
        with(json!({"type": "integer", "maximum": 2, "default": 2})),
        expect![""],
    );
    // What other parameters have to be there is no matter of this one.
    for (keyword, others) in [
        ("/parameters/$ref", json!("#/$defs/titled")),
        ("/parameters/minProperties", json!(2)),
    ] {
        let mut changes = with(json!({"type": "integer", "minimum": 1, "default": 5}));
        changes["/parameters/$defs"] = json!({"titled": {"required": ["title"]}});
        changes[keyword] = others;
        check(changes, expect![""]);
    }
    check(
        with(json!({"type": "integer", "minimum": 4})),
        expect![[r#"
        tools/some-tool/schema.json:24:7: error: a retrieval tool's `top_k` needs a default (add one, such as "default": 5)
        tools/some-tool/schema.json:25:9: error: `top_k` may not go below 4, but voice clamps it to 3 (write a minimum of 3 or less)"#]],
    );
    check(
        with(json!({"type": "integer", "multipleOf": 5, "default": 5})),
        expect![
            "tools/some-tool/schema.json:24:7: error: `top_k` can be clamped to 3, which its schema does not allow (let the schema allow 3, or nothing above it)"
        ],
    );
}

#[test]
fn schemas_say_only_what_json_schema_knows() {
    check_parameter(
        json!({"type": "strng"}),
        expect![
            "tools/some-tool/schema.json:21:9: error: there is no type `strng` (did you mean `string`?)"
        ],
    );
    check_parameter(
        json!({"type": "string", "maxLenght": 5, "zzz": 1}),
        expect![[r#"
            tools/some-tool/schema.json:21:9: error: JSON Schema has no keyword `maxLenght` (did you mean `maxLength`?)
            tools/some-tool/schema.json:23:9: error: JSON Schema has no keyword `zzz` (remove it; it would check nothing)"#]],
    );
    // A format that nobody checks is a note.
    let folder = Folder::new();
    folder.tool(
        "some-tool",
        &manifest_with(json!({"/parameters/properties/p": {"type": "string", "format": "e-mail"}, "/parameters/properties/q": {"type": "integer", "format": "int64"}})),
    );
    assert_eq!(folder.problems(), "");
    let notes: Vec<String> = folder
        .compile()
        .problems
        .iter()
        .filter(|problem| problem.message.contains("is not checked"))
        .map(|problem| format!("{} ({})", problem.message, problem.cure))
        .collect();
    assert_eq!(
        notes,
        [
            "the format `e-mail` is not checked (did you mean `email`?)",
            "the format `int64` is not checked (nothing to do; models read it all the same)"
        ]
    );
    check_parameter(
        json!({"type": "string", "maxLength": "5"}),
        expect![
            "tools/some-tool/schema.json:21:9: error: this is not JSON Schema 2020-12: must be an integer: write it without quotes (correct the keyword's value)"
        ],
    );
    check_parameter(
        json!({"$schema": "http://json-schema.org/draft-07/schema#"}),
        expect![
            "tools/some-tool/schema.json:21:9: error: `$schema` is `http://json-schema.org/draft-07/schema#` (write https://json-schema.org/draft/2020-12/schema, or leave it out)"
        ],
    );
    check_parameter(
        json!({"$dynamicRef": "#x"}),
        expect![
            "tools/some-tool/schema.json:21:9: error: `$dynamicRef` is not supported (use $ref and $defs)"
        ],
    );
}

#[test]
fn references_stay_in_the_document_and_end() {
    check_parameter(
        json!({"$ref": "https://example.org/schema.json"}),
        expect![
            "tools/some-tool/schema.json:21:9: error: `$ref` leads out of the document, to `https://example.org/schema.json` (copy what it names into $defs and refer to it as #/$defs/name)"
        ],
    );
    check_parameter(
        json!({"$ref": "other.json#/a"}),
        expect![
            "tools/some-tool/schema.json:21:9: error: `$ref` leads out of the document, to `other.json#/a` (copy what it names into $defs and refer to it as #/$defs/name)"
        ],
    );
    check_parameter(
        json!({"$ref": "#/$defs/missing"}),
        expect![
            "tools/some-tool/schema.json:21:9: error: `$ref` leads to `#/$defs/missing`, where there is no schema (correct it; the document is what stands under this field, so #/$defs/name is in its own $defs)"
        ],
    );
    check_parameter(json!({"$ref": "#/properties/title"}), expect![""]);
    for no_schema in [
        "#/properties",
        "#/properties/p/default",
        "#/properties/p/examples/0",
    ] {
        let parameter = json!({"$ref": no_schema, "default": {"typo": "integer"}, "examples": [{"minLenght": 3}]});
        let folder = Folder::new();
        folder.tool(
            "some-tool",
            &manifest_with(json!({"/parameters/properties/p": parameter})),
        );
        let expected = format!("`$ref` leads to `{no_schema}`, where there is no schema");
        assert!(folder.problems().contains(&expected), "{no_schema}");
    }
    // What is named more than once is not named by itself.
    for shared in [
        json!({"allOf": [{"$ref": "#/$defs/base"}, {"$ref": "#/$defs/base"}]}),
        json!({"allOf": [{"$ref": "#/$defs/left"}, {"$ref": "#/$defs/right"}]}),
        json!({"$ref": "#/$defs/base", "anyOf": [{"$ref": "#/$defs/base"}, {"type": "string"}]}),
        json!({"$ref": "#/$defs/base", "properties": {"inner": {"$ref": "#/$defs/base"}}}),
    ] {
        check(
            json!({
                "/parameters/$defs": {
                    "base": {"properties": {"id": {"type": "string"}}},
                    "left": {"$ref": "#/$defs/base", "minProperties": 1},
                    "right": {"allOf": [{"$ref": "#/$defs/base"}], "maxProperties": 5},
                },
                "/parameters/properties/p": shared,
            }),
            expect![""],
        );
    }
    check(
        json!({
            "/parameters/$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}}},
            "/parameters/properties/p": {"$ref": "#/$defs/tree"},
        }),
        expect![
            "tools/some-tool/schema.json:31:9: error: the schema refers to itself through `#/$defs/tree`, which Gemini's native schema cannot express (unroll it to the depth that you need)"
        ],
    );
}

#[test]
fn patterns_run_in_linear_time() {
    check_parameter(
        json!({"type": "string", "pattern": "^(?=a)b"}),
        expect![
            "tools/some-tool/schema.json:21:9: error: the pattern `^(?=a)b` cannot be used: it looks around or refers back (write one that runs in linear time: without look-around and back-references)"
        ],
    );
    check_parameter(
        json!({"type": "string", "pattern": "(a)\\1"}),
        expect![[
            r#"tools/some-tool/schema.json:21:9: error: the pattern `(a)\1` cannot be used: it looks around or refers back (write one that runs in linear time: without look-around and back-references)"#
        ]],
    );
    check_parameter(
        json!({"type": "string", "pattern": "("}),
        expect![
            "tools/some-tool/schema.json:21:9: error: the pattern `(` cannot be used: it is no regular expression (correct it)"
        ],
    );
    check_parameter(
        json!({"type": "string", "pattern": "((a{1000}){1000}){1000}"}),
        expect![
            "tools/some-tool/schema.json:21:9: error: the pattern `((a{1000}){1000}){1000}` cannot be used: it is too large a regular expression once it is compiled (repeat large sets of characters with * or +, and say with maxLength how long a text may be)"
        ],
    );
    check_parameter(
        json!({"type": "object", "patternProperties": {"(?!x)": {}}}),
        expect![
            "tools/some-tool/schema.json:22:11: error: the pattern `(?!x)` cannot be used: it looks around or refers back (write one that runs in linear time: without look-around and back-references)"
        ],
    );
}

#[test]
fn patterns_take_no_more_than_a_moment_to_compile() {
    let patterns = |count: usize, pattern: &dyn Fn(usize) -> String| {
        let one = |number| {
            (
                format!("p{number}"),
                json!({"type": "string", "pattern": pattern(number)}),
            )
        };
        let properties: serde_json::Map<_, _> = (10..10 + count).map(one).collect();
        json!({"type": "object", "properties": properties})
    };
    let large = |number| format!("^\\p{{L}}{{1,200}}x{number}$");
    // Each can be used, and all together cannot.
    check_parameter(patterns(2, &large), expect![""]);
    check_parameter(
        patterns(100, &large),
        expect![[
            r#"tools/some-tool/schema.json:31:13: error: the patterns of this schema up to `^\p{L}{1,200}x101$` take over 20971520 bytes once they are compiled; those behind it were not looked at (repeat large sets of characters with * or +, and say with maxLength how long a text may be)"#
        ]],
    );
    // The same for those that never can.
    let too_large = |number| format!("^\\p{{L}}{{1,2000}}x{number}$");
    check_parameter(
        patterns(100, &too_large),
        expect![[r#"
            tools/some-tool/schema.json:23:13: error: the pattern `^\p{L}{1,2000}x10$` cannot be used: it is too large a regular expression once it is compiled (repeat large sets of characters with * or +, and say with maxLength how long a text may be)
            tools/some-tool/schema.json:27:13: error: the pattern `^\p{L}{1,2000}x100$` cannot be used: it is too large a regular expression once it is compiled (repeat large sets of characters with * or +, and say with maxLength how long a text may be)
            tools/some-tool/schema.json:31:13: error: the patterns of this schema up to `^\p{L}{1,2000}x101$` take over 20971520 bytes once they are compiled; those behind it were not looked at (repeat large sets of characters with * or +, and say with maxLength how long a text may be)"#]],
    );
    // One that comes again is compiled once, and small ones may be as many as a schema has room for.
    check_parameter(patterns(100, &|_| large(0)), expect![""]);
    check_parameter(
        patterns(900, &|number| format!("^[a-z]{{1,64}}{number}$")),
        expect![""],
    );
    check_parameter(
        patterns(100, &|number| format!("^[\\p{{L}} '-]+{number}$")),
        expect![""],
    );
}

#[test]
fn defaults_satisfy_their_schemas() {
    check_parameter(
        json!({"type": "integer", "minimum": 1, "default": 0}),
        expect![
            "tools/some-tool/schema.json:21:9: error: the default breaks its own schema: must be 1 or more (correct the default or the schema)"
        ],
    );
    check_parameter(
        json!({"type": "object", "default": {}, "properties": {"a": {"enum": ["x"], "default": "y"}}}),
        expect![[
            r#"tools/some-tool/schema.json:24:13: error: the default breaks its own schema: must be one of "x" (correct the default or the schema)"#
        ]],
    );
    check(
        json!({
            "/parameters/$defs": {"small": {"type": "integer", "maximum": 3}},
            "/parameters/properties/p": {"$ref": "#/$defs/small", "default": 3},
            "/parameters/properties/q": {"$ref": "#/$defs/small", "default": 4},
        }),
        expect![
            "tools/some-tool/schema.json:32:9: error: the default breaks its own schema: must be 3 or less (correct the default or the schema)"
        ],
    );
    // Each is judged, whatever stands in the way of another.
    check(
        json!({
            "/parameters/$defs": {"small": {"type": "integer", "maximum": 3}},
            "/parameters/items": {"type": "string"},
            "/parameters/properties/p": {"$ref": "#/$defs/small", "default": 4},
            "/parameters/properties/q": {"$ref": "#/items", "default": "x"},
            "/parameters/properties/r": {"$ref": "#/$defs/small", "default": 2},
            "/parameters/properties/s": {"$ref": "#/$defs/small", "default": 5},
        }),
        expect![[r#"
            tools/some-tool/schema.json:31:9: error: the default breaks its own schema: must be 3 or less (correct the default or the schema)
            tools/some-tool/schema.json:35:9: error: the default cannot be checked: Pointer '/items' does not exist (put what its schema refers to under $defs)
            tools/some-tool/schema.json:43:9: error: the default breaks its own schema: must be 3 or less (correct the default or the schema)"#]],
    );
}

#[test]
fn schemas_have_limits() {
    let mut deep = json!({"type": "string"});
    for _ in 0..20 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    check_parameter(
        deep,
        expect![
            "tools/some-tool/schema.json:50:67: error: schemas are nested over 16 deep (flatten the arguments; models lose track of deep ones)"
        ],
    );
    let many: Value = (0..2_001)
        .map(|n| (format!("p{n}"), json!({})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    check_parameter(
        json!({"type": "object", "properties": many}),
        expect![
            "tools/some-tool/schema.json:2018:11: error: there are over 2000 subschemas (make the schema simpler)"
        ],
    );
    check_parameter(
        json!({"type": "string", "description": "x".repeat(65_536)}),
        expect![
            "tools/some-tool/schema.json:10:3: error: the schema is 65771 bytes long (keep it within 65536 bytes; a model reads all of it in every session)"
        ],
    );
}

#[test]
fn what_openai_refuses_is_an_error_and_a_name_that_gemini_refuses_is_none() {
    check(
        json!({"/parameters/anyOf": [{"required": ["title"]}]}),
        expect![
            "tools/some-tool/schema.json:12:5: error: OpenAI refuses `anyOf` at the top of a tool's parameters (move it into a property, or check it in the handler)"
        ],
    );
    check(
        json!({"/parameters/properties/not-a-name": {"type": "string"}}),
        expect![[""]],
    );
}

#[test]
fn words_of_other_dialects_are_told_what_to_write() {
    check(
        json!({
            "/parameters/definitions": {"word": {"type": "string"}},
            "/parameters/properties/p": {"type": "integer", "nullable": true, "default": null},
        }),
        expect![[r#"
            tools/some-tool/schema.json:12:5: error: JSON Schema has no keyword `definitions` (rename it to `$defs`, and refer to it as #/$defs/name)
            tools/some-tool/schema.json:26:9: error: the default breaks its own schema: must be an integer (remove the default, or add "null" to the types)
            tools/some-tool/schema.json:27:9: error: JSON Schema has no keyword `nullable` (write "type": ["integer", "null"] in its place)"#]],
    );
}

#[test]
fn what_is_required_is_a_property() {
    for (changes, expected) in [
        (json!({"/parameters/required": ["titel"]}), "`titel`"),
        (
            json!({"/parameters/properties/p": {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}}),
            "`b`",
        ),
        (
            json!({"/parameters/$defs": {"named": {"required": ["name"]}}, "/parameters/properties/p": {"$ref": "#/$defs/named"}}),
            "`name`",
        ),
    ] {
        let folder = Folder::new();
        folder.tool("some-tool", &manifest_with(changes));
        let problems = folder.problems();
        let expected = format!("error: {expected} is required and is no property (add it to");
        assert_eq!(problems.matches(&expected).count(), 1, "{problems}");
        assert_eq!(problems.lines().count(), 1, "{problems}");
    }
    for sound in [
        json!({"type": "object", "required": ["a"], "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "required": ["a"], "patternProperties": {"^a": {"type": "string"}}}),
        json!({"type": "object", "required": ["a"], "oneOf": [{"properties": {"a": {"type": "string"}}}, {"not": {"required": ["a"]}}]}),
        json!({"type": "object", "allOf": [{"required": ["a"]}, {"properties": {"a": {"type": "string"}}}]}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "if": {"required": ["a"]}, "then": {"minProperties": 1}}),
        json!({"allOf": [{"$ref": "#/$defs/named"}], "properties": {"name": {"type": "string"}}}),
    ] {
        check(
            json!({"/parameters/$defs": {"named": {"required": ["name"]}}, "/parameters/properties/p": sound}),
            expect![""],
        );
    }
}

#[test]
fn a_built_in_handler_is_given_only_what_it_reads() {
    let check = |parameters: Value, expected: Expect| {
        let mut folder = Folder::new();
        let reads = json!({"required": ["query", "count"], "properties": {
            "query": {"type": "string"},
            "count": {"type": "integer"},
            "share": {"type": "number"},
            "filters": {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}},
            "fields": {"type": "array", "items": {"enum": ["url", "text"]}},
        }});
        let id = windlass_contract::id::ToolId::parse("some_tool").unwrap();
        folder.builtin.insert(id, Some(reads));
        let mut changes = parameters;
        changes["/parameters/required"] = json!(["query"]);
        folder.tool("some-tool", &manifest_with(changes));
        std::fs::remove_file(folder.tools().join("some-tool/handler.js")).unwrap();
        expected.assert_eq(&folder.problems());
    };
    check(
        json!({"/parameters/properties": {
            "query": {"type": "string", "maxLength": 9},
            "count": {"$ref": "#/$defs/count"},
            "share": {"type": "integer"},
            "filters": {"type": "object", "properties": {"tags": {"type": "array", "items": {"enum": ["a", "b"]}}}},
            "fields": {"type": "array", "items": {"const": "url"}},
        }, "/parameters/$defs": {"count": {"type": "integer", "default": 3}}}),
        expect![""],
    );
    check(
        json!({"/parameters/properties": {"query": {"type": "string"}}}),
        expect![[
            r#"tools/some-tool/schema.json:10:3: error: the built-in handler of `some_tool` needs `count`, which is no parameter (add it: "count": {"type":"integer"})"#
        ]],
    );
    check(
        json!({"/parameters/properties": {
            "query": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "count": {"type": "number"},
            "share": {"enum": [1, 2.5, "all"]},
            "filters": {"type": "object", "properties": {"tags": {"type": "array"}, "colour": {"type": "string"}}},
            "fields": {"type": "array", "items": {"type": "string", "enum": ["url", "size"]}},
            "extra": {"type": "boolean"},
        }}),
        expect![[r#"
            tools/some-tool/schema.json:13:7: error: the built-in handler of `some_tool` needs `count`, which a call may leave out (add it to `required`, or give it a default)
            tools/some-tool/schema.json:13:7: error: this allows number, and the built-in handler of `some_tool` reads integer (write "type": "integer")
            tools/some-tool/schema.json:16:7: error: the built-in handler of `some_tool` does not read `extra` (remove it; the handler reads count, fields, filters, query, share)
            tools/some-tool/schema.json:20:9: error: this allows "size", which the built-in handler of `some_tool` does not know (write an `enum` of some of "url", "text")
            tools/some-tool/schema.json:31:11: error: the built-in handler of `some_tool` does not read `colour` (remove it; the handler reads tags)
            tools/some-tool/schema.json:34:11: error: this allows any type, and the built-in handler of `some_tool` reads string (write "type": "string")
            tools/some-tool/schema.json:40:7: error: this allows null, and the built-in handler of `some_tool` reads string (write "type": "string")
            tools/some-tool/schema.json:50:7: error: this allows string, and the built-in handler of `some_tool` reads number (write "type": "number")"#]],
    );
}
