//! The description of the server's own interface says what the router has: every route, every method, and what is answered.

use crate::chat::{chat, echo};
use crate::support::http::{get, request};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

const ROUTER: &str = include_str!("../../src/web/mod.rs");

/// The paths of all routes, as the source of the router names them.
fn routes() -> BTreeSet<String> {
    let router = ROUTER.split_once("Router::new()").unwrap().1;
    let router = router.split_once(".fallback(ui::serve)").unwrap().0;
    let mut paths = BTreeSet::new();
    for route in router.split(".route(").skip(1) {
        let path = route.split('"').nth(1).unwrap();
        paths.insert(path.replace("{*", "{"));
    }
    paths
}

fn paths_of(document: &Value) -> &Map<String, Value> {
    document["paths"].as_object().unwrap()
}

/// Every reference of a document.
fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str().filter(|_| name == "$ref") {
                    Some(reference) => found.push(reference),
                    None => references(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_interface_is_described_route_by_route_and_method_by_method() {
    let chat = chat(echo, &[]).await;
    let answer = get(&chat.address, "/api/openapi.json");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let document: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let described: BTreeSet<String> = paths_of(&document).keys().cloned().collect();
    assert_eq!(described, routes());

    for (path, operations) in paths_of(&document) {
        let address = path.replace("{id}", "x").replace("{digest}", "x");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let is_described = operations.get(method.to_lowercase()).is_some();
            let status = request(&chat.address, method, &address, &[]).status;
            assert_eq!(status != 405, is_described, "{method} {path}: {status}");
        }
        for (method, operation) in operations.as_object().unwrap() {
            let parameters = operation["parameters"].as_array();
            let named = parameters.into_iter().flatten();
            let in_path = named.filter(|one| one["in"] == "path").count();
            assert_eq!(in_path, path.matches('{').count(), "{method} {path}");
            assert!(operation["responses"].is_object(), "{method} {path}");
        }
    }
    let mut found = Vec::new();
    references(&document, &mut found);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_has_the_names_that_others_give_it() {
    let chat = chat(echo, &[]).await;
    for (path, body) in [
        ("/health", "up\n"),
        ("/healthz", "up\n"),
        ("/ready", "ready\n"),
        ("/readyz", "ready\n"),
    ] {
        let answer = get(&chat.address, path);
        assert_eq!((answer.status, answer.body.as_str()), (200, body), "{path}");
    }
    chat.close().await;
}
