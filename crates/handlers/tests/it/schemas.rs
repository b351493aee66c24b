//! What the tool directories declare, against what the source documents give and what their guides show.

use crate::bench::{schema, tool_file};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use windlass_compile::handler_file::Permissions;
use windlass_compile::problem::Severity;
use windlass_compile::{Source, builtin, compile, compile_embedded};
use windlass_contract::validate::Validator;

const TOOLS: [&str; 23] = [
    "calendar_cancel_event",
    "calendar_create_event",
    "calendar_get_availability",
    "calendar_list_events",
    "calendar_move_event",
    "cancel_task",
    "end_voice_session",
    "escalate",
    "extract_contacts",
    "format_datetime",
    "get_context",
    "get_task",
    "ignore_user",
    "image_draft_prompt",
    "image_generate",
    "kb_get",
    "kb_search",
    "list_tasks",
    "query_tool_memory",
    "rank_results",
    "send_image",
    "start_voice_session",
    "web_search",
];

#[test]
fn every_built_in_handler_has_its_directory_and_every_directory_its_handler() {
    let handlers = windlass_handlers::builtin();
    let ids: Vec<&str> = handlers.keys().map(|id| id.as_str()).collect();
    assert_eq!(ids, TOOLS);
    for tool in TOOLS {
        assert_eq!(schema(tool)["toolId"], *tool);
    }
}

fn check(tool: &str, expected: &[(&str, Value)]) {
    let schema = schema(tool);
    for (pointer, value) in expected {
        assert_eq!(schema.pointer(pointer), Some(value), "{tool}{pointer}");
    }
}

fn property_names(tool: &str, pointer: &str) -> Vec<String> {
    let schema = schema(tool);
    let properties = schema.pointer(pointer).unwrap().as_object().unwrap();
    let mut names: Vec<String> = properties.keys().cloned().collect();
    names.sort();
    names
}

#[test]
fn metadata_is_that_of_the_tool_selection_matrix() {
    for (tool, category, side_effects, idempotent, modes, latency_budget_ms) in [
        (
            "kb_search",
            "retrieval",
            "read_only",
            true,
            json!(["text", "voice"]),
            800,
        ),
        (
            "kb_get",
            "retrieval",
            "read_only",
            true,
            json!(["text", "voice"]),
            500,
        ),
        (
            "ignore_user",
            "action",
            "writes",
            false,
            json!(["text", "voice"]),
            1000,
        ),
        (
            "start_voice_session",
            "utility",
            "writes",
            false,
            json!(["text"]),
            500,
        ),
        // The document that its parameters come from says that it has no side effects; ending a session is one.
        (
            "end_voice_session",
            "utility",
            "writes",
            false,
            json!(["voice"]),
            500,
        ),
        (
            "image_draft_prompt",
            "action",
            "read_only",
            true,
            json!(["text"]),
            1500,
        ),
        (
            "image_generate",
            "action",
            "writes",
            false,
            json!(["text"]),
            5000,
        ),
        (
            "extract_contacts",
            "utility",
            "none",
            true,
            json!(["text"]),
            200,
        ),
        (
            "format_datetime",
            "utility",
            "none",
            true,
            json!(["text", "voice"]),
            200,
        ),
        (
            "get_context",
            "utility",
            "none",
            true,
            json!(["text", "voice"]),
            200,
        ),
        (
            "query_tool_memory",
            "utility",
            "read_only",
            true,
            json!(["text", "voice"]),
            300,
        ),
        (
            "get_task",
            "utility",
            "read_only",
            true,
            json!(["text", "voice"]),
            300,
        ),
        (
            "list_tasks",
            "utility",
            "read_only",
            true,
            json!(["text", "voice"]),
            300,
        ),
        (
            "cancel_task",
            "action",
            "writes",
            true,
            json!(["text", "voice"]),
            500,
        ),
        (
            "escalate",
            "action",
            "writes",
            false,
            json!(["text", "voice"]),
            1000,
        ),
        (
            "rank_results",
            "utility",
            "none",
            true,
            json!(["text", "voice"]),
            200,
        ),
    ] {
        check(
            tool,
            &[
                ("/category", json!(category)),
                ("/sideEffects", json!(side_effects)),
                ("/idempotent", json!(idempotent)),
                ("/requiresConfirmation", json!(false)),
                ("/allowedModes", modes),
                ("/latencyBudgetMs", json!(latency_budget_ms)),
                ("/parameters/additionalProperties", json!(false)),
            ],
        );
    }
}

#[test]
fn kb_search_takes_the_parameters_of_the_source_documents() {
    check(
        "kb_search",
        &[
            ("/reach", json!("external")),
            ("/parameters/required", json!(["query"])),
            ("/parameters/properties/query/minLength", json!(1)),
            ("/parameters/properties/query/maxLength", json!(200)),
            // The namespaces are those of the knowledge base that is served.
            ("/parameters/properties/namespace/enum", json!(["public"])),
            ("/parameters/properties/namespace/default", json!("public")),
            (
                "/parameters/properties/filters/additionalProperties",
                json!(false),
            ),
            (
                "/parameters/properties/filters/properties/type/enum",
                json!(["project", "person", "process", "link", "doc"]),
            ),
            (
                "/parameters/properties/filters/properties/tags/maxItems",
                json!(5),
            ),
            (
                "/parameters/properties/filters/properties/tags/items/minLength",
                json!(1),
            ),
            (
                "/parameters/properties/filters/properties/date_range/properties/start/format",
                json!("date-time"),
            ),
            (
                "/parameters/properties/filters/properties/date_range/properties/end/format",
                json!("date-time"),
            ),
            ("/parameters/properties/top_k/type", json!("integer")),
            ("/parameters/properties/top_k/minimum", json!(1)),
            ("/parameters/properties/top_k/maximum", json!(10)),
            ("/parameters/properties/top_k/default", json!(5)),
            (
                "/parameters/properties/return_fields/items/enum",
                json!(["snippet", "full_text", "metadata", "sources", "url"]),
            ),
            (
                "/parameters/properties/return_fields/uniqueItems",
                json!(true),
            ),
            (
                "/parameters/properties/include_snippets/default",
                json!(true),
            ),
        ],
    );
    assert_eq!(
        property_names("kb_search", "/parameters/properties"),
        [
            "filters",
            "include_snippets",
            "namespace",
            "query",
            "return_fields",
            "top_k"
        ]
    );
    assert_eq!(
        property_names("kb_search", "/parameters/properties/filters/properties"),
        ["date_range", "tags", "type"]
    );
}

#[test]
fn kb_get_requires_an_id_and_shares_the_namespaces_of_kb_search() {
    check(
        "kb_get",
        &[
            ("/reach", json!("external")),
            ("/parameters/required", json!(["id"])),
            (
                "/parameters/properties/namespace/enum",
                schema("kb_search")["parameters"]["properties"]["namespace"]["enum"].clone(),
            ),
        ],
    );
    assert_eq!(
        property_names("kb_get", "/parameters/properties"),
        ["id", "namespace", "return_fields"]
    );
}

#[test]
fn ignore_user_takes_the_parameters_of_the_source_documents() {
    check(
        "ignore_user",
        &[
            (
                "/parameters/required",
                json!(["duration_seconds", "farewell_message"]),
            ),
            (
                "/parameters/properties/duration_seconds/type",
                json!("number"),
            ),
            ("/parameters/properties/duration_seconds/minimum", json!(30)),
            (
                "/parameters/properties/duration_seconds/maximum",
                json!(86400),
            ),
            (
                "/parameters/properties/farewell_message/maxLength",
                json!(200),
            ),
        ],
    );
    assert_eq!(
        property_names("ignore_user", "/parameters/properties"),
        ["duration_seconds", "farewell_message"]
    );
}

#[test]
fn the_session_tools_take_optional_parameters_only() {
    check(
        "start_voice_session",
        &[
            ("/parameters/required", json!([])),
            (
                "/parameters/properties/pending_request/maxLength",
                json!(500),
            ),
            ("/parameters/properties/pending_request/default", json!("")),
        ],
    );
    check(
        "end_voice_session",
        &[
            ("/parameters/required", json!([])),
            (
                "/parameters/properties/reason/default",
                json!("user_requested"),
            ),
        ],
    );
    assert_eq!(
        property_names("end_voice_session", "/parameters/properties"),
        ["closing_message", "reason", "text_response"]
    );
}

#[test]
fn the_calendar_takes_the_parameters_of_the_source_documents() {
    let instant = json!("date-time");
    check(
        "calendar_get_availability",
        &[
            ("/category", json!("retrieval")),
            ("/sideEffects", json!("read_only")),
            ("/allowedModes", json!(["text", "voice"])),
            ("/latencyBudgetMs", json!(1500)),
            ("/parameters/required", json!(["start_date", "end_date"])),
            ("/parameters/properties/start_date/format", instant.clone()),
            (
                "/parameters/properties/calendars/items/enum",
                json!(["primary", "team", "personal"]),
            ),
            (
                "/parameters/properties/calendars/default",
                json!(["primary"]),
            ),
            (
                "/parameters/properties/include_details/default",
                json!(false),
            ),
            (
                "/parameters/properties/min_duration_minutes/minimum",
                json!(15),
            ),
            (
                "/parameters/properties/min_duration_minutes/maximum",
                json!(480),
            ),
            (
                "/parameters/properties/min_duration_minutes/default",
                json!(30),
            ),
        ],
    );
    check(
        "calendar_create_event",
        &[
            ("/category", json!("action")),
            ("/sideEffects", json!("writes")),
            ("/idempotent", json!(false)),
            ("/requiresConfirmation", json!(true)),
            ("/allowedModes", json!(["text"])),
            ("/latencyBudgetMs", json!(3000)),
            ("/effectKey", json!(["/start_time", "/attendees"])),
            (
                "/parameters/required",
                json!(["title", "start_time", "end_time", "attendees"]),
            ),
            ("/parameters/properties/title/maxLength", json!(200)),
            ("/parameters/properties/end_time/format", instant),
            (
                "/parameters/properties/attendees/items/format",
                json!("email"),
            ),
            ("/parameters/properties/attendees/minItems", json!(1)),
            ("/parameters/properties/attendees/maxItems", json!(50)),
            ("/parameters/properties/description/maxLength", json!(2000)),
            (
                "/parameters/properties/include_zoom_link/default",
                json!(true),
            ),
        ],
    );
    for tool in [
        "calendar_create_event",
        "calendar_move_event",
        "calendar_cancel_event",
    ] {
        check(
            tool,
            &[
                ("/requiresConfirmation", json!(true)),
                ("/allowedModes", json!(["text"])),
            ],
        );
    }
    check("calendar_list_events", &[("/reach", json!("external"))]);
}

#[test]
fn pictures_and_the_web_take_the_parameters_of_the_source_documents() {
    check(
        "send_image",
        &[
            ("/parameters/required", json!(["image_url"])),
            ("/parameters/properties/image_url/type", json!("string")),
            ("/parameters/properties/caption/type", json!("string")),
        ],
    );
    check(
        "image_generate",
        &[
            ("/behavior", json!("non_blocking")),
            ("/parameters/required", json!(["prompt"])),
            ("/parameters/properties/count/default", json!(1)),
        ],
    );
    check(
        "web_search",
        &[
            ("/category", json!("retrieval")),
            ("/sideEffects", json!("read_only")),
            ("/reach", json!("external")),
            ("/allowedModes", json!(["text", "voice"])),
            ("/parameters/required", json!(["query"])),
        ],
    );
}

#[test]
fn the_compiler_finds_no_fault_with_the_tool_directories() {
    let usual = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools");
    compile_without_fault(&usual);
    compile_without_fault(&usual.join("_optional"));
}

fn compile_without_fault(tools: &Path) {
    let builtin = builtin(&windlass_handlers::builtin());
    let compilation = compile(&Source {
        tools,
        artifact: &tools.join("tool_registry.json"),
        builtin: &builtin,
        build_timestamp: "2026-01-01T00:00:00Z",
        vocabularies: &BTreeMap::new(),
        values: windlass_contract::condition::Values::none(),
        permissions: &Permissions::default(),
        judge: None,
    });
    // A warning would be printed at each start of a project that has the tool, and nobody but us can do anything about it.
    let errors: Vec<String> = compilation
        .problems
        .iter()
        .filter(|problem| problem.severity != Severity::Note)
        .map(|problem| format!("{problem:?}"))
        .collect();
    assert_eq!(errors, [] as [String; 0]);
    assert!(compilation.artifact.is_some());
}

/// What a guide must have: a title, a summary of at most 250 characters, its sections, and examples that are true.
fn check_guide(schema: &Value, guide: &str) {
    let tool = schema["toolId"].as_str().unwrap();
    let lines: Vec<&str> = guide
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    assert_eq!(lines[0], format!("# {tool}"));
    assert!(lines[1].chars().count() <= 250, "{tool}");
    for section in ["## Parameters", "## Examples", "## Watch Out"] {
        assert!(lines.contains(&section), "{tool} has no {section}");
    }
    let validator = Validator::compile(&schema["parameters"]).unwrap();
    let examples: Vec<&str> = guide
        .split("```json\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(!examples.is_empty(), "{tool}");
    for example in examples {
        let arguments = windlass_contract::json::parse(example.as_bytes()).unwrap();
        assert_eq!(validator.violations(&arguments), [], "{tool}: {example}");
    }
    for name in schema["parameters"]["properties"]
        .as_object()
        .unwrap()
        .keys()
    {
        assert!(
            guide.contains(&format!("- `{name}`")),
            "{tool} does not explain {name}"
        );
    }
}

#[test]
fn guides_explain_every_parameter_and_show_only_valid_examples() {
    for tool in TOOLS {
        let guide = std::fs::read_to_string(tool_file(tool, "guide.md")).unwrap();
        check_guide(&schema(tool), &guide);
    }
    let describe_tool =
        windlass_contract::json::parse(windlass_handlers::describe_tool::SCHEMA.as_bytes());
    check_guide(
        &describe_tool.unwrap(),
        windlass_handlers::describe_tool::GUIDE,
    );
}

#[test]
fn status_phrases_name_only_parameters_that_are_always_there() {
    for (tool, phrase) in [
        ("kb_search", "Searching for {query}"),
        ("kb_get", "Reading {id}"),
    ] {
        check(tool, &[("/status", json!(phrase))]);
    }
}

#[test]
fn a_schema_that_its_handler_cannot_serve_is_refused() {
    for (tool, change, problem) in [
        (
            "kb-search",
            ("/properties/top_k/default", None),
            "needs `top_k`, which a call may leave out",
        ),
        (
            "kb-search",
            ("/properties/top_k/type", Some(json!("number"))),
            "allows number",
        ),
        (
            "kb-search",
            (
                "/properties/filters/properties/tags/items/type",
                Some(json!(["string", "null"])),
            ),
            "allows null",
        ),
        (
            "kb-get",
            (
                "/properties/return_fields/items/enum",
                Some(json!(["url", "size"])),
            ),
            "allows \"size\"",
        ),
        (
            "kb-get",
            ("/properties/record", Some(json!({"type": "string"}))),
            "does not read `record`",
        ),
        (
            "ignore-user",
            (
                "/properties/duration_seconds/type",
                Some(json!(["number", "string"])),
            ),
            "allows string",
        ),
        (
            "end-voice-session",
            ("/properties/reason", None),
            "needs `reason`, which is no parameter",
        ),
        (
            "start-voice-session",
            ("/properties/pending_request/default", None),
            "which a call may leave out",
        ),
    ] {
        let id = tool.replace('-', "_");
        let mut manifest = schema(&id);
        let (parent, name) = change.0.rsplit_once('/').unwrap();
        let parent = manifest["parameters"].pointer_mut(parent).unwrap();
        match change.1 {
            Some(value) => parent[name] = value,
            None => {
                parent.as_object_mut().unwrap().remove(name).unwrap();
            }
        }
        let handler = windlass_handlers::builtin()[id.as_str()].clone();
        let found = compile_embedded(
            &manifest.to_string(),
            "# A tool\n\nDoes one thing.\n",
            handler,
        );
        let found = found.err().unwrap();
        assert!(
            found.iter().any(|found| found.message.contains(problem)),
            "{problem}: {found:?}"
        );
    }
}
