//! What is made of OpenAPI descriptions, and what is left out with a reason.

use super::*;
use serde_json::json;
use std::path::Path;

fn description(paths: Value) -> Value {
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Shop" },
        "servers": [{ "url": "https://{region}.shop.example/v1/", "variables": { "region": { "default": "eu" } } }],
        "paths": paths,
        "components": {
            "schemas": {
                "Part": { "type": "object", "properties": {
                    "name": { "type": "string", "nullable": true },
                    "parts": { "type": "array", "items": { "$ref": "#/components/schemas/Part" } },
                } },
                "Order": { "type": "object", "required": ["id", "item"], "properties": {
                    "id": { "type": "string", "readOnly": true },
                    "item": { "type": "string", "pattern": "^[a-z]+(?=x)", "default": 3 },
                    "count": { "type": "integer", "format": "int32", "minimum": 0, "exclusiveMinimum": true, "x-hint": 1 },
                } },
            },
            "securitySchemes": {
                "shopKey": { "type": "apiKey", "in": "header", "name": "X-Key" },
                "cookie": { "type": "apiKey", "in": "cookie", "name": "session" },
                "login": { "type": "http", "scheme": "bearer" },
            },
        },
    })
}

fn imported(paths: Value) -> Imported {
    import(&description(paths), &Choice::default()).unwrap()
}

fn only_tool(paths: Value) -> ToolDirectory {
    let mut imported = imported(paths);
    assert_eq!(imported.left_out, []);
    assert_eq!(imported.tools.len(), 1);
    imported.tools.remove(0)
}

#[test]
fn an_operation_that_reads_is_a_retrieval_tool_over_http() {
    let tool = only_tool(json!({ "/orders/{order-id}/parts": {
        "parameters": [{ "name": "order-id", "in": "path", "required": true, "schema": { "type": "string" } }],
        "get": {
            "operationId": "listOrderParts", "summary": "List parts", "description": "All parts\n# of one order.",
            "security": [{ "cookie": [] }, { "shopKey": [] }],
            "parameters": [
                { "name": "page[size]", "in": "query", "description": "How many", "schema": { "type": "integer", "default": 10 } },
                { "name": "order-id", "in": "query", "schema": { "type": "string" } },
                { "name": "X-Trace", "in": "header", "schema": { "type": "string" } },
                { "name": "Authorization", "in": "header", "required": true, "schema": { "type": "string" } },
            ],
        },
    } }));
    assert_eq!(
        (tool.id.as_str(), tool.name().as_str()),
        ("list_order_parts", "list-order-parts")
    );
    assert_eq!(
        tool.handler,
        json!({
            "kind": "http",
            "method": "GET",
            "url": "https://eu.shop.example/v1/orders/{order_id}/parts",
            "query": { "page[size]": "{page_size}", "order-id": "{query_order_id}" },
            "headers": { "X-Key": "{secret:SHOP_KEY}" },
        })
    );
    assert_eq!(
        tool.schema,
        json!({
            "toolId": "list_order_parts",
            "version": "1.0.0",
            "description": "List parts. All parts # of one order.",
            "category": "retrieval",
            "sideEffects": "read_only",
            "idempotent": true,
            "requiresConfirmation": false,
            "allowedModes": ["text", "voice"],
            "latencyBudgetMs": 1500,
            "reach": "external",
            "parameters": {
                "type": "object",
                "additionalProperties": false,
                "required": ["order_id"],
                "properties": {
                    "order_id": { "type": "string" },
                    "page_size": { "type": "integer", "default": 10, "description": "How many" },
                    "query_order_id": { "type": "string" },
                },
            },
        })
    );
    assert_eq!(
        tool.notes,
        [
            "the optional header X-Trace is left out",
            "set the secret SHOP_KEY to the key: the variable WINDLASS_SECRET_SHOP_KEY, and the service's host in secrets.SHOP_KEY.hosts of the configuration"
        ]
    );
    // No text of the description makes a heading.
    assert_eq!(
        tool.guide.matches('#').count(),
        "# id".matches('#').count() + 2
    );
}

#[test]
fn an_operation_that_writes_asks_until_somebody_has_reviewed_it() {
    for (method, is_idempotent) in [
        ("post", false),
        ("put", true),
        ("patch", false),
        ("delete", true),
    ] {
        let tool = only_tool(json!({ "/orders": { method: { "operationId": "order" } } }));
        let facts = [
            "category",
            "sideEffects",
            "idempotent",
            "requiresConfirmation",
        ]
        .map(|name| tool.schema[name].clone());
        assert_eq!(
            facts,
            [
                json!("action"),
                json!("writes"),
                json!(is_idempotent),
                json!(true)
            ],
            "{method}"
        );
    }
}

#[test]
fn members_of_a_body_become_arguments() {
    let body = |kind: &str, schema: Value| json!({ "/orders": { "post": { "requestBody": { "required": true, "content": { kind: { "schema": schema } } } } } });
    let tool = only_tool(body(
        "application/json",
        json!({ "$ref": "#/components/schemas/Order" }),
    ));
    assert_eq!(tool.id, "post_orders");
    assert_eq!(
        tool.handler["body"],
        json!({ "item": "{item}", "count": "{count}" })
    );
    assert_eq!(tool.schema["parameters"]["required"], json!(["item"]));
    assert_eq!(
        tool.schema["parameters"]["properties"],
        json!({
            "item": { "type": "string" },
            "count": { "type": "integer", "exclusiveMinimum": 0 },
        })
    );
    assert_eq!(tool.notes.len(), 2, "{:?}", tool.notes);
    let whole = json!({ "allOf": [{ "$ref": "#/components/schemas/Order" }, { "type": "object", "properties": { "note": { "type": "string" } } }] });
    let tool = only_tool(body("application/x-www-form-urlencoded", whole));
    assert_eq!(
        tool.handler["body"],
        json!({ "item": "{item}", "count": "{count}", "note": "{note}" })
    );
    assert_eq!(
        tool.handler["headers"]["content-type"],
        "application/x-www-form-urlencoded"
    );
    let tool = only_tool(body(
        "application/json",
        json!({ "type": "array", "items": { "type": "string" } }),
    ));
    assert_eq!(tool.handler["body"], "{body}");
}

#[test]
fn a_schema_that_contains_itself_ends_and_says_so() {
    let tool = only_tool(
        json!({ "/parts": { "post": { "requestBody": { "content": { "application/json": {
        "schema": { "$ref": "#/components/schemas/Part" } } } } } } }),
    );
    let properties = &tool.schema["parameters"]["properties"];
    assert_eq!(properties["name"], json!({ "type": ["string", "null"] }));
    assert_eq!(
        properties["parts"]["items"],
        json!({ "description": "A further Part" })
    );
    assert_eq!(
        tool.notes,
        ["Part contains itself; what it contains takes any value"]
    );
}

#[test]
fn an_operation_that_can_be_no_tool_is_left_out_with_its_reason() {
    for (operation, reason) in [
        (
            json!({ "parameters": [{ "$ref": "other.yaml#/x" }] }),
            "another file",
        ),
        (
            json!({ "parameters": [{ "$ref": "#/components/none" }] }),
            "leads nowhere",
        ),
        (
            json!({ "parameters": [{ "in": "query" }] }),
            "without a name",
        ),
        (
            json!({ "parameters": [{ "name": "s", "in": "cookie", "required": true }] }),
            "is in cookie",
        ),
        (
            json!({ "parameters": [{ "name": "f", "in": "query", "content": {} }] }),
            "JSON within text",
        ),
        (
            json!({ "security": [{ "cookie": [] }] }),
            "cannot be put into a request",
        ),
        (
            json!({ "security": [{ "unknown": [] }] }),
            "is not declared",
        ),
        (
            json!({ "responses": { "200": { "content": { "image/png": {} } } } }),
            "answers with image/png",
        ),
        (
            json!({ "requestBody": { "required": true, "content": { "multipart/form-data": {} } } }),
            "its body is multipart",
        ),
    ] {
        let imported =
            imported(json!({ "/orders": { "post": operation }, "/fine": { "get": {} } }));
        let [left_out] = imported.left_out.as_slice() else {
            panic!("{operation}: {:?}", imported.left_out);
        };
        assert!(left_out.reason.contains(reason), "{}", left_out.reason);
        assert_eq!(imported.tools.len(), 1);
    }
    let imported = imported(json!({ "/orders/{id}": { "get": {} } }));
    assert_eq!(
        imported.left_out[0].reason,
        "its path names id, which is no parameter"
    );
}

#[test]
fn a_document_that_cannot_be_imported_says_why() {
    let check = |document: &Value, choice: &Choice, expected: &str| {
        let error = import(document, choice).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let all = Choice::default();
    check(&json!({ "swagger": "2.0" }), &all, "OpenAPI 2.0");
    check(&json!({ "openapi": "3.2.0" }), &all, "OpenAPI 3.2.0");
    check(&json!({}), &all, "is missing");
    check(&json!([]), &all, "is missing");
    check(&description(json!({})), &all, "no operation");
    let many: Map<String, Value> = (0..5_000)
        .map(|number| (format!("/{number}"), json!({ "get": {} })))
        .collect();
    check(&description(Value::Object(many)), &all, "5000 operations");
    let one = json!({ "/a": { "get": { "tags": ["Good"] } } });
    let only = |name: &str| Choice {
        only: vec![name.to_owned()],
        ..Choice::default()
    };
    check(
        &description(one.clone()),
        &only("other"),
        "there is no operation other; there are get_a",
    );
    let tag = Choice {
        tags: vec!["bad".to_owned()],
        ..Choice::default()
    };
    check(&description(one.clone()), &tag, "with the tag bad");
    for url in [
        "/relative",
        "ftp://x",
        "https://",
        "https://u@h",
        "https://h/{a}",
        "https://h/?q",
        "https://h\nx",
    ] {
        let choice = Choice {
            base_url: Some(url.to_owned()),
            ..Choice::default()
        };
        check(&description(one.clone()), &choice, "--base-url");
    }
    assert!(matches!(parse("{"), Err(DocumentError::Syntax(_))));
    assert!(matches!(parse("a: [1"), Err(DocumentError::Syntax(_))));
}

#[test]
fn ids_are_unique_and_valid() {
    let imported = imported(json!({
        "/a": { "get": { "operationId": "getIt" }, "post": { "operationId": "get-it" } },
        "/b": { "get": { "operationId": "2nd" }, "put": { "operationId": format!("long{}", "x".repeat(100)) } },
    }));
    let ids: Vec<&str> = imported.tools.iter().map(|tool| tool.id.as_str()).collect();
    let long = format!("long{}", "x".repeat(59));
    assert_eq!(ids, ["get_it", "get_it_2", "call_2nd", long.as_str()]);
}

/// Public descriptions, which lie beside the repository.
#[test]
fn public_descriptions_become_tools() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/openapi");
    if !folder.exists() {
        eprintln!(
            "there is no {}, so no public description was imported",
            folder.display()
        );
        return;
    }
    for (file, tools, left_out) in [
        ("museum-3.1.yaml", 7, 1),
        ("twilio-voice-v1-3.0.yaml", 32, 0),
        ("twilio-sync-v1-3.0.yaml", 48, 0),
    ] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let imported = import(&parse(&text).unwrap(), &Choice::default()).unwrap();
        let counts = (imported.tools.len(), imported.left_out.len());
        assert_eq!(counts, (tools, left_out), "{file}: {:?}", imported.left_out);
    }
}
