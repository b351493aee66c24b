//! Tools that are made of OpenAPI descriptions, and parts that are left out with a reason.

use super::*;
use crate::{Code, ToolDirectory};
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

fn handler(tool: &ToolDirectory) -> &Value {
    match &tool.code {
        Code::Declared(handler) => handler,
        Code::Script(script) => panic!("{script}"),
    }
}

fn only_tool(paths: Value) -> ToolDirectory {
    let mut imported = imported(paths);
    assert_eq!(imported.left_out, []);
    assert_eq!(imported.tools.len(), 1);
    imported.tools.remove(0)
}

#[test]
fn a_default_does_not_begin_a_body_that_may_be_left_out() {
    for (is_required, default) in [(false, None), (true, Some(&json!("new")))] {
        let tool = only_tool(json!({ "/orders": { "post": {
            "operationId": "addOrder",
            "requestBody": { "required": is_required, "content": { "application/json": { "schema": {
                "type": "object", "required": ["status"],
                "properties": { "status": { "type": "string", "default": "new" } },
            } } } },
            "responses": { "200": { "description": "x" } },
        } } }));
        let status = &tool.schema["parameters"]["properties"]["status"];
        assert_eq!(status.get("default"), default, "{status}");
        if !is_required {
            assert_eq!(status["description"], "Default: \"new\".");
        }
    }
}

#[test]
fn a_path_cannot_lengthen_the_host() {
    let imported = imported(json!({ ".evil.example/x": { "get": {
        "operationId": "x", "responses": { "200": { "description": "x" } },
    } } }));
    assert_eq!(imported.tools, []);
    assert_eq!(
        imported.left_out[0].reason,
        "its path does not begin with /"
    );
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
        *handler(&tool),
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
                    "page_size": { "type": "integer", "description": "How many. Default: 10." },
                    "query_order_id": { "type": "string" },
                },
            },
        })
    );
    assert_eq!(
        tool.notes,
        [
            "the optional header X-Trace is left out",
            "set the secret SHOP_KEY to the key: the variable WINDLASS_SECRET_SHOP_KEY, and secrets.SHOP_KEY.hosts = [\"eu.shop.example\"] in the configuration, if that host is to have it"
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
        handler(&tool)["body"],
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
        handler(&tool)["body"],
        json!({ "item": "{item}", "count": "{count}", "note": "{note}" })
    );
    assert_eq!(
        handler(&tool)["headers"]["content-type"],
        "application/x-www-form-urlencoded"
    );
    let tool = only_tool(body(
        "application/json",
        json!({ "type": "array", "items": { "type": "string" } }),
    ));
    assert_eq!(handler(&tool)["body"], "{body}");
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
            json!({ "parameters": [{ "name": "f", "in": "query", "required": true, "content": { "application/xml": {} } }] }),
            "its parameter f is application/xml within text",
        ),
        (
            json!({ "parameters": [{ "name": "f", "in": "query", "required": true, "schema": { "type": "array", "items": { "type": "object" } } }] }),
            "for which the style form has no form",
        ),
        (
            json!({ "parameters": [{ "name": "f", "in": "query", "required": true, "style": "odd", "schema": { "type": "array" } }] }),
            "has the style odd",
        ),
        (
            json!({ "parameters": [{ "name": "f", "in": "header", "required": true, "schema": { "type": "object" } }] }),
            "is an object, which no header can hold",
        ),
        (
            json!({ "servers": [{ "url": "https://{tenant}.shop.example" }] }),
            "has no value for tenant",
        ),
        (
            json!({ "servers": [{ "url": "ftp://shop.example" }] }),
            "its server has no whole address",
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
            "its body is multipart/form-data, not JSON, a form or text",
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
    check(
        &description(one.clone()),
        &tag,
        "with the tag bad; the tags are Good",
    );
    let mut relative = description(one.clone());
    relative["servers"] = json!([{ "url": "/api/v3" }]);
    check(&relative, &all, "--base-url https://HOST/api/v3");
    relative["servers"] = json!([{ "url": "https://{tenant}.example/" }]);
    check(&relative, &all, "has no value for tenant");
    relative["servers"] = json!([]);
    check(
        &relative,
        &all,
        "it has none; say the address with --base-url",
    );
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
fn an_operation_goes_to_its_own_server_and_the_host_of_its_secret_is_said() {
    let login = json!([{ "login": [] }]);
    let document = description(json!({
        "/a": {
            "servers": [{ "url": "/upload" }],
            "get": { "operationId": "path" },
            "post": { "operationId": "own", "security": login, "servers": [{ "url": "https://evil.example/{v}", "variables": { "v": { "default": "x" } } }] },
            "put": { "operationId": "relative", "servers": [{ "url": "v2/" }] },
        },
        "/b": { "get": { "operationId": "main", "security": login } },
    }));
    let urls = |choice: &Choice| -> Vec<String> {
        let imported = import(&document, choice).unwrap();
        let mut urls: Vec<String> = imported
            .tools
            .iter()
            .map(|tool| handler(tool)["url"].as_str().unwrap().to_owned())
            .collect();
        urls.sort();
        urls
    };
    assert_eq!(
        urls(&Choice::default()),
        [
            "https://eu.shop.example/upload/a",
            "https://eu.shop.example/v1/b",
            "https://eu.shop.example/v1/v2/a",
            "https://evil.example/x/a",
        ]
    );
    let imported = import(&document, &Choice::default()).unwrap();
    let notes = |id: &str| {
        let tool = imported.tools.iter().find(|tool| tool.id == id).unwrap();
        tool.notes.join("\n")
    };
    assert!(notes("own").contains("it goes to a server of its own, evil.example"));
    assert!(notes("own").contains("secrets.LOGIN.hosts = [\"evil.example\"]"));
    assert!(notes("main").contains("secrets.LOGIN.hosts = [\"eu.shop.example\"]"));
    assert_eq!(notes("path"), "");
    // The author's address replaces every server, so that no request goes past it.
    let moved = Choice {
        base_url: Some("http://127.0.0.1:9/x/".to_owned()),
        ..Choice::default()
    };
    assert_eq!(
        urls(&moved),
        ["a", "a", "a", "b"].map(|path| format!("http://127.0.0.1:9/x/{path}"))
    );
    // With servers of their own, operations need none of the description.
    let mut alone = document.clone();
    alone["servers"] = json!([]);
    alone["paths"]["/b"]["get"]["servers"] = json!([{ "url": "https://own.example" }]);
    alone["paths"]["/a"] = json!({});
    assert_eq!(import(&alone, &Choice::default()).unwrap().tools.len(), 1);
}

#[test]
fn a_path_may_have_a_fragment_and_a_query() {
    let tool = only_tool(json!({ "/orders?view=all#list": { "get": {} } }));
    assert_eq!(
        handler(&tool)["url"],
        "https://eu.shop.example/v1/orders?view=all"
    );
}

#[test]
fn what_cannot_be_sent_is_noted_where_it_is_optional() {
    let note = |operation: Value| {
        let mut tool = only_tool(json!({ "/orders": { "post": operation } }));
        assert_eq!(tool.notes.len(), 1, "{:?}", tool.notes);
        tool.notes.remove(0)
    };
    assert_eq!(
        note(json!({ "requestBody": { "content": { "application/octet-stream": {} } } })),
        "the optional body is left out: it is application/octet-stream, not JSON, a form or text"
    );
    let nested = json!({ "type": "array", "items": { "type": "object" } });
    assert_eq!(
        note(json!({ "parameters": [{ "name": "f", "in": "query", "schema": nested }] })),
        "the optional parameter f is left out: it has lists or objects inside one another, for which the style form has no form"
    );
    let long = "x".repeat(2_000);
    assert_eq!(
        note(json!({ "description": long })),
        "the description is cut to 1000 characters"
    );
    assert_eq!(
        note(
            json!({ "parameters": [{ "name": "f", "in": "query", "description": long, "schema": {} }] })
        ),
        "a description is cut to 500 characters"
    );
    let members: Map<String, Value> = (0..65)
        .map(|number| (format!("m{number}"), json!({})))
        .collect();
    let schema = json!({ "type": "object", "properties": members });
    assert!(
        note(json!({ "requestBody": { "content": { "application/json": { "schema": schema } } } }))
            .contains("65 members, and 64 can be arguments")
    );
    // A form without members is no form, and no request of this method has a body.
    let empty = json!({ "content": { "application/x-www-form-urlencoded": { "encoding": {}, "schema": { "type": "object", "properties": {} } } } });
    assert_eq!(
        only_tool(json!({ "/orders": { "get": { "requestBody": empty } } })).notes,
        [""; 0]
    );
    let filled = json!({ "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Part" } } } });
    let tool = only_tool(json!({ "/orders": { "get": { "requestBody": filled } } }));
    assert!(
        tool.notes
            .iter()
            .any(|note| note.contains("goes with a GET request"))
    );
    assert_eq!(handler(&tool).get("body"), None);
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
