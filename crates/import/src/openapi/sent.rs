//! The requests of a description's tools: compiled, with validated arguments, up to the request. Nothing is sent.

use super::{Choice, import, parse};
use crate::folder;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use windlass_compile::artifact::{DeclaredTool, FileLoader, Loaders};
use windlass_compile::handler_file::{Filling, HandlerFile, HttpHandler, Permissions, Rendered};
use windlass_compile::problem::Severity;
use windlass_compile::{Builtin, Source, Vocabularies, compile};
use windlass_contract::arguments::Arguments;
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::validate::Validator;

/// The outcome of one call.
enum Outcome {
    Sent(Box<Rendered>),
    Invalid,
    LeftOut(String),
}

/// The tools of a description.
struct Tools {
    handlers: BTreeMap<String, HttpHandler>,
    schemas: BTreeMap<String, Value>,
    left_out: BTreeMap<String, String>,
    notes: BTreeMap<String, Vec<String>>,
}

#[derive(Default)]
struct Keep(Mutex<BTreeMap<String, HttpHandler>>);

struct Nothing;

impl Handler for Nothing {
    fn execute(&self, _: Invocation) -> Execution {
        Execution::Ready(Ok(Success::default()))
    }
}

impl FileLoader for Keep {
    fn load(&self, declared: DeclaredTool<'_>) -> Result<Arc<dyn Handler>, String> {
        if let HandlerFile::Http(http) = declared.file {
            let id = declared.tool.as_str().to_owned();
            self.0.lock().unwrap().insert(id, *http);
        }
        Ok(Arc::new(Nothing))
    }
}

impl Tools {
    fn of(text: &str) -> Self {
        let document = parse(text).unwrap();
        let imported = import(&document, &Choice::default()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut permissions = Permissions::default();
        for tool in &imported.tools {
            folder::write(directory.path(), &imported.source, tool).unwrap();
            for secret in &tool.secrets {
                permissions.secrets.insert(
                    secret.clone(),
                    BTreeSet::from(["127.0.0.1:9999".to_owned()]),
                );
            }
        }
        let compilation = compile(&Source {
            tools: directory.path(),
            artifact: &directory.path().join("tool_registry.json"),
            builtin: &Builtin::new(),
            build_timestamp: "",
            vocabularies: &Vocabularies::new(),
            values: windlass_contract::condition::Values::none(),
            permissions: &permissions,
            judge: None,
        });
        let errors: Vec<String> = compilation
            .problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .map(ToString::to_string)
            .collect();
        assert_eq!(errors, [""; 0]);
        let keep = Keep::default();
        let loaders = Loaders {
            scripts: None,
            files: Some(&keep),
        };
        let artifact = compilation.artifact.unwrap();
        artifact
            .into_registry(&BTreeMap::new(), loaders, &BTreeMap::new())
            .unwrap();
        let origins: BTreeMap<String, String> = super::operations(&document)
            .unwrap()
            .iter()
            .map(|operation| (operation.origin(), operation.tool_id()))
            .collect();
        let tools = imported.tools.iter();
        Self {
            handlers: keep.0.into_inner().unwrap(),
            schemas: tools
                .clone()
                .map(|tool| (tool.id.clone(), tool.schema["parameters"].clone()))
                .collect(),
            notes: tools
                .map(|tool| (tool.id.clone(), tool.notes.clone()))
                .collect(),
            left_out: imported
                .left_out
                .into_iter()
                .map(|left_out| (origins[&left_out.origin].clone(), left_out.reason))
                .collect(),
        }
    }

    fn call(&self, tool: &str, arguments: Value) -> Outcome {
        if let Some(reason) = self.left_out.get(tool) {
            return Outcome::LeftOut(reason.clone());
        }
        let validator = Validator::compile(&self.schemas[tool]).unwrap();
        let mut arguments: Arguments = serde_json::from_value(arguments).unwrap();
        validator.apply_defaults(&mut arguments);
        if !validator.argument_violations(&arguments).is_empty() {
            return Outcome::Invalid;
        }
        let names = ["BASIC", "BEARER", "KEYH", "KEYQ"];
        let secrets = names.map(|name| (name.to_owned(), "geheim".to_owned()));
        let filling = Filling {
            arguments: &arguments,
            secrets: &BTreeMap::from(secrets),
            state: &windlass_contract::handler::StateValues::default(),
            effect_id: Some("e-1"),
            key: Some("k-1"),
        };
        match self.handlers[tool].request.render(&filling) {
            Ok(rendered) => Outcome::Sent(Box::new(rendered)),
            Err(error) => panic!("{tool}: {error}"),
        }
    }

    fn sent(&self, tool: &str, arguments: Value) -> Rendered {
        match self.call(tool, arguments) {
            Outcome::Sent(rendered) => *rendered,
            Outcome::Invalid => panic!("{tool}: the arguments are invalid"),
            Outcome::LeftOut(reason) => panic!("{tool}: {reason}"),
        }
    }
}

fn body(rendered: &Rendered) -> Value {
    serde_json::from_slice(&rendered.body).unwrap_or(Value::Null)
}

fn header<'r>(rendered: &'r Rendered, name: &str) -> Option<&'r str> {
    let mut headers = rendered.headers.iter();
    let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                rest = after;
            }
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// A description or list that lies beside the repository.
fn case(name: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/cases")
        .join(name);
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        eprintln!(
            "there is no {}, so nothing was tried with it",
            path.display()
        );
    }
    text
}

/// Whether a call had the outcome that a line of the expectations names.
fn holds(expected: &str, outcome: &Outcome, tool: &str, tools: &Tools) -> bool {
    let rendered = match (outcome, expected) {
        (Outcome::Invalid, expected) => return expected == "VALIDATION",
        (Outcome::LeftOut(reason), "left out" | "cookie" | "digest") => {
            return !reason.is_empty() && (expected == "left out" || reason.contains(expected));
        }
        (Outcome::LeftOut(_), _) => return false,
        (Outcome::Sent(rendered), _) => rendered,
    };
    let address = rendered.url.trim_start_matches("http://127.0.0.1:9999");
    let query = address.split_once('?').map(|(_, query)| query);
    let has_header =
        |name: &str| header(rendered, name).is_some_and(|value| value.contains("geheim"));
    let text = String::from_utf8_lossy(&rendered.body);
    match expected {
        "no query" => query.is_none(),
        "-" => header(rendered, "if-match").is_none(),
        "body" => !rendered.body.is_empty(),
        "a body or a note" => {
            !rendered.body.is_empty() || tools.notes[tool].iter().any(|note| note.contains("body"))
        }
        "notion-version 2022-06-28" => header(rendered, "notion-version") == Some("2022-06-28"),
        "basic" => header(rendered, "authorization") == Some("Basic geheim"),
        "bearer" => header(rendered, "authorization") == Some("Bearer geheim"),
        "x-key" => has_header("x-key"),
        "both" => has_header("x-key") && has_header("authorization"),
        "none" => rendered.headers.is_empty() && query.is_none(),
        "key=" => query.is_some_and(|query| query == "key=geheim"),
        "filter[state],page.size,$top,ids[]" => expected
            .split(',')
            .all(|name| query.is_some_and(|query| decoded(query).contains(&format!("{name}=")))),
        "/base/p5/U/x?user-id=Q" => address == expected,
        _ if expected.starts_with('/') => {
            address == expected || decoded(address) == decoded(expected)
        }
        _ if expected.starts_with("x-") => expected.split(", ").all(|pair| {
            let (name, value) = pair.split_once(": ").unwrap();
            header(rendered, name) == Some(value)
        }),
        _ if expected.starts_with("ct ") => {
            let mut parts = expected.splitn(3, ' ').skip(1);
            let kind = parts.next().unwrap();
            header(rendered, "content-type").is_some_and(|found| found.contains(kind))
                && parts.next().is_none_or(|body| text == body)
        }
        _ if expected.starts_with('{') || expected.starts_with('[') => {
            text == expected && header(rendered, "content-type") == Some("application/json")
        }
        "s=a/b?c%26d" => query == Some(expected),
        // Pairs of a query or a form; the last one may go on.
        pairs => {
            let found = query.map_or_else(|| text.into_owned(), str::to_owned);
            let found: Vec<String> = found.split('&').map(decoded).collect();
            pairs.split('&').map(decoded).all(|pair| {
                found.iter().any(|found| {
                    *found == pair || (pair.ends_with('=') && found.starts_with(&pair))
                })
            })
        }
    }
}

#[test]
fn every_style_of_a_description_is_sent_as_it_is_meant() {
    let (Some(styles), Some(expected)) = (case("styles.yaml"), case("styles-expected.tsv")) else {
        return;
    };
    let tools = Tools::of(&styles.replace("PORT", "9999"));
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in expected.lines().filter(|line| !line.starts_with('#')) {
        let [tool, arguments, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let arguments = match (tool, arguments) {
            ("q_names", _) => {
                json!({ "filter_state": "s", "page_size": 1, "top": 1, "query_top": 1, "ids": [1] })
            }
            ("p_item_level", _) => json!({ "user_id": "U", "query_user_id": "Q" }),
            (_, arguments) => serde_json::from_str(arguments).unwrap(),
        };
        let arguments = match tool {
            // Only the existing ones.
            "q_names" => {
                let properties = tools.schemas[tool]["properties"].as_object().unwrap();
                let given = arguments.as_object().unwrap().clone();
                given
                    .into_iter()
                    .filter(|(name, _)| properties.contains_key(name))
                    .collect()
            }
            _ => arguments,
        };
        count += 1;
        let outcome = tools.call(tool, arguments);
        if !holds(expected, &outcome, tool, &tools) {
            let shown = match &outcome {
                Outcome::Sent(sent) => format!(
                    "{} {} {:?} {}",
                    sent.method,
                    sent.url,
                    sent.headers,
                    String::from_utf8_lossy(&sent.body)
                ),
                Outcome::Invalid => "invalid".to_owned(),
                Outcome::LeftOut(reason) => format!("left out: {reason}"),
            };
            wrong.push(format!("{tool}: {expected} is {shown}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert_eq!(count, 49);
}

#[test]
fn a_default_that_nobody_asked_for_is_not_sent() {
    if let Some(text) = case("patch-defaults.yaml") {
        let tools = Tools::of(&text);
        let sent = tools.sent("update_repo", json!({ "repo": "r", "description": "d" }));
        assert_eq!(body(&sent), json!({ "description": "d" }));
    }
    let member = |needs: Value| {
        json!({ "type": "object", "required": needs, "properties": {
        "name": { "type": "string" },
        "private": { "type": "boolean", "default": false },
        "options": { "type": "object", "required": ["mode"], "properties": {
            "mode": { "type": "string", "default": "fast" },
            "deep": { "type": "integer", "default": 3 },
        } },
    } })
    };
    let document = |method: &str, needs: Value| {
        json!({
            "openapi": "3.0.3", "info": { "title": "Shop" }, "servers": [{ "url": "http://127.0.0.1:9999" }],
            "paths": { "/shop": { method: {
                "operationId": "change",
                "parameters": [
                    { "name": "page", "in": "query", "schema": { "type": "integer", "default": 2 } },
                    { "name": "size", "in": "query", "required": true, "schema": { "type": "integer", "default": 9, "description": "How many." } },
                ],
                "requestBody": { "required": true, "content": { "application/json": { "schema": member(needs) } } },
            } } },
        })
        .to_string()
    };
    for method in ["post", "put", "patch", "delete"] {
        let tools = Tools::of(&document(method, json!([])));
        let sent = tools.sent("change", json!({ "options": {} }));
        assert_eq!(
            body(&sent),
            json!({ "options": { "mode": "fast" } }),
            "{method}"
        );
        assert_eq!(sent.url, "http://127.0.0.1:9999/shop?size=9", "{method}");
        let tools = Tools::of(&document(method, json!(["private"])));
        let sent = tools.sent("change", json!({}));
        assert_eq!(
            body(&sent),
            json!({ "private": false }),
            "the operation requires it"
        );
    }
    let tools = Tools::of(&document("patch", json!([])));
    let properties = &tools.schemas["change"]["properties"];
    assert_eq!(
        properties["private"],
        json!({ "type": "boolean", "description": "Default: false." })
    );
    assert_eq!(properties["page"]["description"], "Default: 2.");
    assert_eq!(
        properties["size"],
        json!({ "type": "integer", "default": 9, "description": "How many." })
    );
}

#[test]
fn a_body_that_is_left_out_is_not_sent_as_null() {
    let document = json!({
        "openapi": "3.0.3", "info": { "title": "Shop" }, "servers": [{ "url": "http://127.0.0.1:9999" }],
        "paths": { "/shop": { "post": { "operationId": "order", "requestBody": { "content": {
            "application/json": { "schema": { "type": "array", "items": { "type": "integer" } } } } } } } },
    });
    let tools = Tools::of(&document.to_string());
    let sent = tools.sent("order", json!({}));
    assert_eq!((sent.body.len(), header(&sent, "content-type")), (0, None));
    let sent = tools.sent("order", json!({ "body": [1] }));
    assert_eq!(sent.body, b"[1]");
}

/// Forms of objects without an encoding are JSON within text, and lists under `deepObject` have brackets.
#[test]
fn nested_forms_are_sent_in_brackets_or_as_json() {
    let form = |encoding: Value| {
        let document = json!({
            "openapi": "3.0.3", "info": { "title": "Shop" }, "servers": [{ "url": "http://127.0.0.1:9999" }],
            "paths": { "/shop": { "post": { "operationId": "order", "requestBody": { "content": {
                "application/x-www-form-urlencoded": { "encoding": encoding, "schema": { "type": "object", "properties": {
                    "items": { "type": "array", "items": { "type": "object", "properties": { "price": { "type": "string" } } } },
                    "metadata": { "anyOf": [{ "type": "object", "additionalProperties": { "type": "string" } }, { "type": "string", "enum": [""] }] },
                } } } } } } } },
        });
        Tools::of(&document.to_string())
    };
    let arguments =
        json!({ "items": [{ "price": "p" }, { "price": "q" }], "metadata": { "k": "v" } });
    let deep = json!({ "style": "deepObject", "explode": true });
    let tools = form(json!({ "items": deep, "metadata": deep }));
    let text = |sent: Rendered| decoded(&String::from_utf8(sent.body).unwrap());
    assert_eq!(
        text(tools.sent("order", arguments.clone())),
        "items[0][price]=p&items[1][price]=q&metadata[k]=v"
    );
    assert_eq!(
        text(tools.sent("order", json!({ "metadata": "" }))),
        "metadata="
    );
    let tools = form(json!({}));
    assert_eq!(
        text(tools.sent("order", arguments)),
        r#"items=[{"price":"p"},{"price":"q"}]&metadata={"k":"v"}"#
    );
}

/// Gemini refuses a request with one tool whose names it cannot take, and with it the tools beside it.
#[test]
fn names_that_no_provider_takes_are_sent_and_asked_for_by_others() {
    let long = "x".repeat(70);
    let names = [
        "filter[state]".to_owned(),
        "filter.state".to_owned(),
        "$top".to_owned(),
        "@type".to_owned(),
        "1st".to_owned(),
        "gr\u{f6}\u{df}e".to_owned(),
        "--".to_owned(),
        format!("{long}a"),
        format!("{long}b"),
        format!("1{long}"),
        format!("1{long}b"),
    ];
    let parameters = names
        .iter()
        .map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string" } }));
    let members: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| (name.clone(), json!({ "type": "string" })))
        .collect();
    let document = json!({
        "openapi": "3.0.3", "info": { "title": "Shop" }, "servers": [{ "url": "http://127.0.0.1:9999" }],
        "paths": { "/shop": { "post": {
            "operationId": format!("{long}$[1]"),
            "parameters": parameters.collect::<Vec<_>>(),
            "requestBody": { "content": { "application/json": { "schema": { "type": "object", "properties": members } } } },
        } } },
    });
    let tools = Tools::of(&document.to_string());
    let (id, schema) = tools.schemas.first_key_value().unwrap();
    let is_name = |name: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        name.len() <= 64 && name.as_bytes()[0].is_ascii_alphabetic() && name.bytes().all(fits)
    };
    let arguments: serde_json::Map<String, Value> = schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .map(|argument| (argument.clone(), argument.as_str().into()))
        .collect();
    assert_eq!(arguments.len(), 2 * names.len());
    assert!(
        is_name(id) && arguments.keys().all(|argument| is_name(argument)),
        "{arguments:?}"
    );
    let sent = tools.sent(id, arguments.clone().into());
    let (_, query) = sent.url.split_once('?').unwrap();
    let mut asked: BTreeMap<String, String> = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect();
    let of_body: BTreeMap<String, String> = serde_json::from_slice(&sent.body).unwrap();
    let known: BTreeSet<&String> = names.iter().collect();
    for sent in [&asked, &of_body] {
        assert_eq!(sent.keys().collect::<BTreeSet<_>>(), known);
    }
    asked.extend(
        of_body
            .into_iter()
            .map(|(name, value)| (format!("body {name}"), value)),
    );
    assert_eq!(
        asked.values().collect::<BTreeSet<_>>().len(),
        arguments.len()
    );
}
