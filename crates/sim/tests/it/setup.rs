//! What a setup may say, and how it is refused.

use crate::dialogue::{
    AT_ONCE, Dialogue, Do, EXTENDED, FLASH, LIVE, NATIVE, ON_VERTEX, check_setup, content, gemini,
    scripted, setup_of, setup_with, text, vertex,
};
use serde_json::{Value, json};

fn check(model: &str, fields: Value, expected: &str) {
    let upgrade = if model.starts_with("publishers") {
        vertex()
    } else {
        gemini()
    };
    check_setup(
        AT_ONCE,
        &upgrade,
        &setup_with(model, fields),
        &[],
        &[expected],
    );
}

fn tool(fields: Value) -> Value {
    let mut function = fields;
    if function.get("name").is_none() {
        function["name"] = json!("f");
    }
    json!({"tools": [{"functionDeclarations": [function]}]})
}

#[test]
fn setup_is_answered_first_and_with_nothing_but_itself() {
    check(LIVE, json!({}), "ready");
    check(
        ON_VERTEX,
        json!({}),
        "ready 00000000-0000-4000-8000-000000000001",
    );
}

#[test]
fn snake_case_is_read_at_every_level_and_mixed() {
    let setup = json!({"setup": {
        "model": LIVE,
        "generation_config": {"response_modalities": ["AUDIO"], "speech_config": {"voice_config": {"prebuilt_voice_config": {"voice_name": "Puck"}}, "languageCode": "en-US"}},
        "system_instruction": {"parts": [{"text": "Be brief."}], "role": "user"},
        "tools": [{"googleSearch": {}}, {"function_declarations": [{"name": "f", "parameters_json_schema": {"type": "object", "additionalProperties": false}}]}],
        "realtimeInputConfig": {"automatic_activity_detection": {"silence_duration_ms": 300, "prefixPaddingMs": "20"}},
        "contextWindowCompression": {"trigger_tokens": "25600", "sliding_window": {"target_tokens": 12800}},
        "session_resumption": {}, "output_audio_transcription": {}, "historyConfig": {"initial_history_in_client_content": false},
    }});
    let spoken = [
        "says: The script has no answer to this.",
        "generated",
        "turn over",
        "handle",
    ];
    let steps = [
        Do::Send(
            json!({"client_content": {"turns": [{"parts": [{"text": "hi"}], "role": "user"}], "turn_complete": true}}),
        ),
        Do::Send(
            json!({"realtime_input": {"audio": {"data": "--__AA==", "mime_type": "audio/pcm;rate=16000"}}}),
        ),
    ];
    check_setup(
        AT_ONCE,
        &gemini(),
        &setup,
        &steps,
        &[&["ready", "handle", "no handle"][..], &spoken].concat(),
    );
}

#[test]
fn an_unknown_field_closes_with_its_name_and_place() {
    for (fields, reason) in [
        (
            json!({"responseModalities": ["AUDIO"]}),
            "Unknown name \"responseModalities\" at 'setup': Cannot find field.",
        ),
        (
            json!({"toolConfig": {}}),
            "Unknown name \"toolConfig\" at 'setup': Cannot find field.",
        ),
        (
            json!({"generationConfig": {"responseSchema": {}}}),
            "Unknown name \"responseSchema\" at 'setup.generation_config': Cannot find field.",
        ),
        (
            json!({"explicitVadSignal": true}),
            "Unknown name \"explicitVadSignal\" at 'setup': Cannot find field.",
        ),
    ] {
        check(
            LIVE,
            fields,
            &format!("closed 1007 Invalid JSON payload received. {reason}"),
        );
    }
    check(
        ON_VERTEX,
        json!({"explicitVadSignal": true}),
        "ready 00000000-0000-4000-8000-000000000001",
    );
}

#[test]
fn a_value_of_the_wrong_type_closes() {
    for (fields, place) in [
        (
            json!({"generationConfig": {"temperature": "hot"}}),
            "'setup.generation_config.temperature' (TYPE_DOUBLE)",
        ),
        (json!({"tools": {}}), "'setup.tools' (LIST)"),
        (
            json!({"generationConfig": 5}),
            "'setup.generation_config' (MESSAGE)",
        ),
        (
            json!({"contextWindowCompression": {"triggerTokens": "many"}}),
            "'setup.context_window_compression.trigger_tokens' (TYPE_INT64)",
        ),
        (
            json!({"realtimeInputConfig": {"activityHandling": "MAYBE"}}),
            "'setup.realtime_input_config.activity_handling' (TYPE_ENUM)",
        ),
    ] {
        check(
            LIVE,
            fields,
            &format!("closed 1007 Invalid value at {place}"),
        );
    }
}

const ARGUMENT: &str = "closed 1007 Request contains an invalid argument.";

#[test]
fn no_model_writes_text() {
    for model in [NATIVE, FLASH, LIVE, EXTENDED] {
        check(
            model,
            json!({"generationConfig": {"responseModalities": ["TEXT"]}}),
            "closed 1007 The requested combination of response modalities (TEXT) is not supported by the model",
        );
    }
}

#[test]
fn a_model_nobody_knows_is_not_found() {
    let gone = "is not found for API version v1beta, or is not supported for bidiGenerateContent.";
    check(
        "models/gemini-x",
        json!({}),
        &format!("closed 1008 models/gemini-x {gone}"),
    );
    check(
        "publishers/google/models/gemini-x",
        json!({}),
        "closed 1008 Publisher Model `publishers/google/models/gemini-x` was not found.",
    );
}

#[test]
fn thinking_is_set_as_the_model_has_it() {
    let thinking = |config: Value| json!({"generationConfig": {"thinkingConfig": config}});
    let no_level = "closed 1007 Thinking level is not supported for this model";
    let no_budget = "closed 1007 Thinking budget is not supported for this model";
    for (model, config, expected) in [
        (LIVE, json!({"thinkingLevel": "LOW"}), no_level),
        (LIVE, json!({"includeThoughts": true}), "ready"),
        (NATIVE, json!({"thinkingLevel": "LOW"}), no_level),
        (NATIVE, json!({"thinkingBudget": 0}), "ready"),
        (FLASH, json!({"thinkingLevel": "MINIMAL"}), "ready"),
        (EXTENDED, json!({"thinkingLevel": "HIGH"}), "ready"),
        (EXTENDED, json!({"thinkingLevel": "MINIMAL"}), no_level),
        (EXTENDED, json!({"thinkingBudget": 0}), no_budget),
    ] {
        check(model, thinking(config), expected);
    }
}

#[test]
fn a_model_refuses_what_it_does_not_have() {
    let proactive = |flag: bool| json!({"proactivity": {"proactiveAudio": flag}});
    let history = || json!({"historyConfig": {"initialHistoryInClientContent": true}});
    let code = || json!({"tools": [{"codeExecution": {}}]});
    let compression = json!({"triggerTokens": 10, "slidingWindow": {"targetTokens": "10"}});
    let no_code = "closed 1007 Code Execution tool is not supported for this model";
    let no_blocking = "closed 1007 Blocking function calling is not supported for this model";
    for (model, fields, expected) in [
        (LIVE, proactive(false), ARGUMENT),
        (LIVE, proactive(true), "ready"),
        (
            LIVE,
            json!({"generationConfig": {"enableAffectiveDialog": true}}),
            ARGUMENT,
        ),
        (LIVE, history(), "ready"),
        (NATIVE, history(), ARGUMENT),
        (NATIVE, code(), no_code),
        (FLASH, code(), "ready"),
        (
            LIVE,
            json!({"contextWindowCompression": compression}),
            ARGUMENT,
        ),
        (EXTENDED, tool(json!({"behavior": "BLOCKING"})), no_blocking),
        (FLASH, tool(json!({"behavior": "NON_BLOCKING"})), "ready"),
    ] {
        check(model, fields, expected);
    }
}

#[test]
fn a_declaration_keeps_to_the_schema_subset() {
    let schema = |schema: Value| tool(json!({"parameters": schema}));
    let unknown = |name: &str| {
        format!("closed 1007 Invalid JSON payload received. Unknown name \"{name}\" at '")
    };
    let object = |property: Value| json!({"type": "OBJECT", "properties": {"p": property}});
    for (fields, expected) in [
        (schema(json!({"type": "OBJECT", "properties": {}})), "ready".to_owned()),
        (schema(object(json!({"type": "string", "enum": ["a"], "format": "enum", "nullable": true}))), "ready".to_owned()),
        (schema(object(json!({"any_of": [{"type": "INTEGER", "minimum": 1}, {"type": "STRING", "max_length": "9"}]}))), "ready".to_owned()),
        (schema(json!({"type": "OBJECT", "additionalProperties": false})), unknown("additionalProperties")),
        (schema(json!({"$schema": "x", "type": "OBJECT"})), unknown("$schema")),
        (schema(object(json!({"const": "a"}))), unknown("const")),
        (schema(object(json!({"type": "INTEGER", "exclusiveMinimum": 0}))), unknown("exclusiveMinimum")),
        (schema(object(json!({"type": "ARRAY"}))), "closed 1007 setup.tools[0].function_declarations[0].parameters.properties[p].items: missing field.".to_owned()),
        (schema(object(json!({"type": ["STRING"]}))), "closed 1007 Invalid value at 'setup.tools[0].function_declarations[0].parameters.properties.p.type' (TYPE_STRING)".to_owned()),
        (schema(object(json!({"type": "THING"}))), "closed 1007 Invalid value at 'setup.tools[0]".to_owned()),
        (schema(object(json!({"type": "STRING", "format": "uri"}))), "closed 1007 setup.tools[0].function_declarations[0].parameters.properties[p].format: unsupported format".to_owned()),
        (schema(json!({"type": "OBJECT", "required": ["q"]})), "closed 1007 setup.tools[0].function_declarations[0].parameters.required: property is not defined".to_owned()),
        (tool(json!({"parameters": {}, "parametersJsonSchema": {}})), "closed 1007 Only one of 'parameters' and".to_owned()),
        (tool(json!({"parametersJsonSchema": {"$schema": "x", "const": 1}})), "ready".to_owned()),
        (tool(json!({"name": "9lives"})), "closed 1007 Invalid function name".to_owned()),
        (tool(json!({"name": "a".repeat(65)})), "closed 1007 Invalid function name".to_owned()),
        (json!({"tools": [{"functionDeclarations": [{"name": "f"}]}, {"functionDeclarations": [{"name": "f"}]}]}), "closed 1007 Duplicate function declaration found: f".to_owned()),
    ] {
        let mut dialogue = Dialogue::connect(scripted(AT_ONCE), &gemini()).unwrap();
        dialogue.act(&Do::Send(setup_with(LIVE, fields.clone())));
        assert!(dialogue.lines[0].starts_with(&expected), "{fields}\n{:?}\n{expected}", dialogue.lines);
    }
    let mut deep = json!({"type": "STRING"});
    for _ in 0..40 {
        deep = json!({"type": "ARRAY", "items": deep});
    }
    check(
        LIVE,
        schema(object(deep)),
        "closed 1007 The specified schema exceeds the maximum allowed nesting depth.",
    );
}

#[test]
fn nothing_is_said_before_the_setup_and_there_is_no_second_one() {
    let argument = "closed 1007 Request contains an invalid argument.";
    for first in [
        json!({"realtimeInput": {"text": "hi"}}),
        json!({"toolResponse": {}}),
        json!({}),
        json!({"setup": {"model": LIVE}, "clientContent": {}}),
    ] {
        check_setup(AT_ONCE, &gemini(), &first, &[], &[argument]);
    }
    check_setup(
        AT_ONCE,
        &gemini(),
        &setup_of(LIVE),
        &[Do::Send(setup_of(LIVE))],
        &["ready", argument],
    );
}

#[test]
fn what_is_no_message_closes_with_1007_at_any_time() {
    let parse = "closed 1007 Invalid JSON payload received. Parse error.";
    let cases: [(&'static [u8], &str); 7] = [
        (b"", parse),
        (b"hello", parse),
        (b"{\"setup\":", parse),
        (b"\xff\xfe", parse),
        (b"[]", "closed 1007 Invalid value at '' (MESSAGE)"),
        (
            b"{\"hello\":{}}",
            "closed 1007 Invalid JSON payload received. Unknown name \"hello\": Cannot find field.",
        ),
        (
            b"{\"toolResponse\":{},\"tool_response\":{}}",
            "closed 1007 Invalid JSON payload received. Field 'tool_response' is set twice.",
        ),
    ];
    for (bytes, expected) in cases {
        let mut dialogue = Dialogue::connect(scripted(AT_ONCE), &gemini()).unwrap();
        dialogue.act(&Do::Bytes(bytes));
        assert_eq!(dialogue.lines, [expected]);
        // What comes after the end does nothing.
        dialogue.act(&Do::Send(setup_of(LIVE)));
        assert_eq!(dialogue.lines, [expected]);
        check_setup(
            AT_ONCE,
            &gemini(),
            &setup_of(LIVE),
            &[Do::Bytes(bytes)],
            &["ready", expected],
        );
    }
    check_setup(
        AT_ONCE,
        &gemini(),
        &setup_of(LIVE),
        &[Do::Send(json!({"clientContent": {}, "toolResponse": {}}))],
        &[
            "ready",
            "closed 1007 Invalid value (oneof), oneof field 'message_type' is already set.",
        ],
    );
}

#[test]
fn input_of_odd_shape_is_refused() {
    let argument = "Request contains an invalid argument.";
    for (message, reason) in [
        (json!({"realtimeInput": {}}), argument),
        (
            json!({"realtimeInput": {"audio": {"data": "AAA", "mimeType": "audio/opus"}}}),
            argument,
        ),
        (
            json!({"realtimeInput": {"audio": {"data": "*", "mimeType": "audio/pcm"}}}),
            "Invalid value at 'realtime_input.audio.data' (TYPE_BYTES), Base64 decoding failed.",
        ),
        (
            json!({"realtimeInput": {"activityStart": {}}}),
            "Explicit activity control is not supported when automatic activity detection is enabled.",
        ),
        (
            json!({"clientContent": {"turns": [{"role": "system", "parts": [{"text": "x"}]}]}}),
            "Please use a valid role: user, model.",
        ),
        (
            json!({"clientContent": {"turns": [{"parts": [{"functionCall": {}}]}]}}),
            argument,
        ),
        (json!({"toolResponse": {}}), argument),
    ] {
        check_setup(
            AT_ONCE,
            &gemini(),
            &setup_of(LIVE),
            &[Do::Send(message)],
            &["ready", &format!("closed 1007 {reason}")],
        );
    }
}

#[test]
fn half_a_sample_is_left_out() {
    let audio =
        json!({"realtimeInput": {"audio": {"data": "AAAA", "mimeType": "audio/pcm;rate=16000"}}});
    check_setup(
        AT_ONCE,
        &gemini(),
        &setup_of(LIVE),
        &[Do::Send(audio)],
        &["ready"],
    );
}

#[test]
fn tools_and_instruction_can_be_replaced_on_models_that_take_an_update() {
    let script = format!(
        "{AT_ONCE}exchanges:\n- when: any\n  do:\n  - call: {{name: either}}\n  - expect_response\n  - say: done\n"
    );
    let update = |tools: Value| {
        Do::Send(
            json!({"contextUpdate": {"tools": tools, "systemInstruction": {"parts": [{"text": "x"}]}}}),
        )
    };
    let blocking =
        json!({"tools": [{"functionDeclarations": [{"name": "either", "behavior": "BLOCKING"}]}]});
    // Undeclared behaviour does not block on this model, so that the turn ends at once; after the update it blocks.
    check_setup(
        &script,
        &gemini(),
        &setup_of(LIVE),
        &[text("a")],
        &["ready", "call either {}", "turn over"],
    );
    check_setup(
        &script,
        &gemini(),
        &setup_of(LIVE),
        &[update(blocking), content("a")],
        &["ready", "call either {}"],
    );
    check_setup(
        &script,
        &gemini(),
        &setup_of(LIVE),
        &[update(json!({}))],
        &["ready"],
    );
    check_setup(
        &script,
        &gemini(),
        &setup_of(NATIVE),
        &[update(json!({}))],
        &[
            "ready",
            "closed 1007 Context update is not supported for this model",
        ],
    );
}
