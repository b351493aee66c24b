//! `handler.json`: what is wrong with one is said with its place and a cure, and what a good one makes of arguments and answers.

use crate::fixture::{Folder, GUIDE, manifest};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use windlass_compile::artifact::{Artifact, DeclaredTool, FileLoader, Loaders, write_artifact};
use windlass_compile::handler_file::{
    Answered, Filling, HandlerFile, HttpHandler, Permissions, unanswered,
};
use windlass_compile::problem::Severity;
use windlass_contract::arguments::Arguments;
use windlass_contract::handler::{
    Cause, Execution, FetchError, Finding, Handler, HttpAnswer, Invocation, StateValues, Success,
};

/// A folder with one tool whose handler is this file.
fn folder(side_effects: &str, text: &str) -> Folder {
    let mut folder = Folder::new();
    let hosts: BTreeSet<String> = ["a.example", "localhost:9000"].map(str::to_owned).into();
    folder.permissions = Permissions {
        processes: true,
        secrets: ["SHOP_KEY", "HOOK"]
            .map(|name| (name.to_owned(), hosts.clone()))
            .into(),
        connections: [("shop".to_owned(), hosts)].into(),
        ..Permissions::default()
    };
    let mut schema = manifest("some_tool");
    schema["sideEffects"] = side_effects.into();
    if side_effects == "writes" {
        schema["repeatable"] = false.into();
    }
    schema["parameters"] = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["id"],
        "properties": {
            "id": {"type": "string"},
            "note": {"type": "string"},
            "count": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "size": {"type": "string", "default": "large"},
            "parts": {"type": "array", "items": {"type": "string"}, "default": []},
            "who": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        },
    });
    schema["state"] = json!({"basket": {"type": "array"}, "total": {"type": "number"}});
    folder
        .file("some-tool/schema.json", schema.to_string())
        .file("some-tool/guide.md", GUIDE)
        .file("some-tool/handler.json", text);
    folder
}

fn check(side_effects: &str, text: &str, expected: Expect) {
    expected.assert_eq(&folder(side_effects, text).problems());
}

#[test]
fn good_files_have_no_problems_and_a_kind_in_the_artifact() {
    for (kind, text) in [
        (
            "http",
            r#"{"kind": "http", "method": "get", "url": "https://a.example/o/{id}?q={size}"}"#,
        ),
        (
            "webhook",
            r#"{"kind": "webhook", "url": "http://localhost:9000/hook", "secret": "{secret:HOOK}"}"#,
        ),
        (
            "process",
            r#"{"kind": "process", "command": ["node", "handler.mjs"], "concurrency": 2, "timeoutMs": 500}"#,
        ),
    ] {
        let folder = folder("none", text);
        // A program of the author's own beside the file is none of our business.
        folder.file("some-tool/handler.mjs", "");
        assert_eq!(folder.problems(), "", "{text}");
        let artifact = folder.compile().artifact.unwrap();
        write_artifact(&artifact, &folder.artifact()).unwrap();
        let written: Value = serde_json::from_slice(&artifact.to_json()).unwrap();
        let handler = &written["tools"][0]["handler"];
        assert_eq!(
            (&handler["kind"], &handler["path"]),
            (&json!(kind), &json!("tools/some-tool/handler.json"))
        );
        assert_eq!(
            Artifact::load(&folder.artifact()).unwrap().version(),
            artifact.version()
        );
        folder.file("some-tool/handler.json", text.replace('}', " }"));
        let error = Artifact::load(&folder.artifact()).unwrap_err();
        assert!(error.to_string().contains("was changed after"), "{error}");
    }
}

#[test]
fn only_a_connection_that_may_go_there_stands_in_a_file() {
    let file = |url: &str, connection: &str, more: &str| {
        format!(
            r#"{{"kind": "http", "method": "GET", "url": "{url}", "connection": "{connection}"{more}}}"#
        )
    };
    let lookup = |url: &str| format!(r#", "lookup": {{"method": "GET", "url": "{url}"}}"#);
    let at = "https://a.example/o";
    for (side_effects, text, expected) in [
        ("none", file(at, "shop", ""), None),
        (
            "writes",
            file(at, "shop", &lookup("http://localhost:9000/o")),
            None,
        ),
        (
            "none",
            file(at, "desk", ""),
            Some("there is no connection `desk`"),
        ),
        (
            "none",
            file("https://b.example/o", "shop", ""),
            Some("access tokens of the connection `shop` may not go to b.example"),
        ),
        (
            "writes",
            file(at, "shop", &lookup("https://b.example/o")),
            Some("access tokens of the connection `shop` may not go to b.example"),
        ),
        (
            "none",
            file(
                at,
                "shop",
                r#", "headers": {"authorization": "Basic eA=="}"#,
            ),
            Some("the connection writes this header itself"),
        ),
    ] {
        let problems = folder(side_effects, &text).problems();
        match expected {
            None => assert_eq!(problems, "", "{text}"),
            Some(expected) => assert!(problems.contains(expected), "{text}: {problems}"),
        }
    }
}

#[test]
fn a_file_wins_over_a_built_in_handler_and_a_note_says_so() {
    let mut folder = folder(
        "none",
        r#"{"kind": "http", "method": "GET", "url": "https://a.example/"}"#,
    );
    folder.build_in("some_tool");
    let compilation = folder.compile();
    assert_eq!(compilation.count(Severity::Error), 0);
    let notes: Vec<&str> = compilation
        .problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    assert_eq!(
        notes,
        ["this handler takes the place of the built-in one of `some_tool`"]
    );
}

#[test]
fn a_mapping_that_calls_an_uncertain_answer_definite_is_pointed_at() {
    check(
        "writes",
        r#"{"kind": "http", "method": "POST", "url": "https://a.example/o", "errors": {
  "404": "CONFLICT",
  "418": {"type": "PERMANENT", "notDone": true},
  "5xx": {"type": "PERMANENT", "notDone": true},
  "502": "CONFLICT",
  "303": {"type": "PERMANENT", "notdone": true, "notDone": 1}
}}"#,
        expect![[r#"
            tools/some-tool/handler.json:4:3: warning: `notDone` says of 5xx that nothing was done, and a service may answer so after it has done its work (leave `notDone` out, unless the service promises that it did nothing: a call that is repeated may do the same twice)
            tools/some-tool/handler.json:6:32: error: there is no member `notdone` here (did you mean `notDone`?)
            tools/some-tool/handler.json:6:49: error: `notDone` is a number, not true or false (write true or false)"#]],
    );
}

#[test]
fn a_value_of_the_conversation_is_named_as_it_is_written_and_where_it_is_known() {
    check(
        "writes",
        r#"{"kind": "http", "method": "POST", "url": "https://a.example/{state:}/x",
  "query": {"a": "{State:basket}", "b": "{state: total}", "c": "{{State:basket}}"},
  "headers": {"X-Key": "Bearer {Secret:SHOP_KEY}"},
  "body": {"basket": "{state:basket }"},
  "lookup": {"method": "GET", "url": "https://a.example/o", "query": {"b": "{state:basket}"}}
}"#,
        expect![[r#"
            tools/some-tool/handler.json:1:36: error: '{' cannot stand in an address (percent-encode it, or leave it out)
            tools/some-tool/handler.json:1:36: error: `{state:}` is no place, and would be sent as it stands (write {state:NAME}; {{state:}} writes the braces themselves)
            tools/some-tool/handler.json:2:13: error: `{State:basket}` is no place, and would be sent as it stands (write {state:basket}; {{State:basket}} writes the braces themselves)
            tools/some-tool/handler.json:2:36: error: `{state: total}` is no place, and would be sent as it stands (write {state:total}; {{state: total}} writes the braces themselves)
            tools/some-tool/handler.json:3:15: error: `{Secret:SHOP_KEY}` is no place, and would be sent as it stands (write {secret:SHOP_KEY}; {{Secret:SHOP_KEY}} writes the braces themselves)
            tools/some-tool/handler.json:4:12: error: `{state:basket }` is no place, and would be sent as it stands (write {state:basket}; {{state:basket }} writes the braces themselves)
            tools/some-tool/handler.json:5:71: error: `{state:basket}` stands in a lookup, which is given no value of the conversation (leave it out; a lookup has the arguments, {effectId} and {key})"#]],
    );
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_a_cure() {
    check(
        "none",
        "{",
        expect![[
            r#"tools/some-tool/handler.json:1:1: error: this is not valid JSON: EOF while parsing an object (correct the JSON; comments and trailing commas are not part of it)"#
        ]],
    );
    check(
        "none",
        "[]",
        expect![[
            r#"tools/some-tool/handler.json:1:1: error: handler.json holds an array, not an object (write an object with `kind` and its members)"#
        ]],
    );
    check(
        "none",
        r#"{"kind": "soap"}"#,
        expect![[
            r#"tools/some-tool/handler.json:1:2: error: `kind` is none of the kinds of handlers (write "kind": "http", "webhook", "process", "mcp" or "mcp_resource")"#
        ]],
    );
    check(
        "none",
        r#"{
  "kind": "http", "method": "FETCH", "url": "https://{host}/x", "querry": {},
  "headers": {"Host": "x", "Authorization": "Bearer {secret:NONE}"},
  "body": {"a": "{nothing}", "b": "to {note}", "c": "{note}", "d": "{{note}}", "e": "{who.name}!"},
  "errors": {"200": "NOT_FOUND", "404": "GONE"}, "lookup": {"method": "GET", "url": "https://a.example/{key}"},
  "timeoutMs": 90000
}"#,
        expect![[r#"
            tools/some-tool/handler.json:2:19: error: `method` is `FETCH`, which it cannot be (write one of GET, HEAD, POST, PUT, PATCH, DELETE)
            tools/some-tool/handler.json:2:38: error: scheme, host and port have no places: no call may choose where it goes (write the host as it is, and a tool for each host)
            tools/some-tool/handler.json:2:65: error: there is no member `querry` here (did you mean `query`?)
            tools/some-tool/handler.json:3:15: error: the header `Host` belongs to the connection, and is written there (leave it out)
            tools/some-tool/handler.json:3:28: error: there is no secret `NONE` (set the environment variable WINDLASS_SECRET_NONE, and `secrets.NONE.hosts = ["api.example.com"]` in the configuration)
            tools/some-tool/handler.json:4:12: error: `{nothing}` names no parameter of the tool (the parameters are count, id, note, parts, size, tags, who)
            tools/some-tool/handler.json:4:30: error: `{note}` may be missing in a call, and nothing could stand here then (make the parameter required, give it a default, or let it be the whole of a query value, a header or a body's member)
            tools/some-tool/handler.json:4:80: error: `{who.name}` may be missing in a call, and nothing could stand here then (make the parameter required, give it a default, or let it be the whole of a query value, a header or a body's member)
            tools/some-tool/handler.json:5:14: error: `200` is no status of an error (write one such as 404, or 5xx for all that begin so)
            tools/some-tool/handler.json:5:34: error: this is no type of error that a handler may report (write VALIDATION, NOT_FOUND, TRANSIENT, PERMANENT, RATE_LIMIT, AUTH or CONFLICT)
            tools/some-tool/handler.json:5:50: error: `lookup` is for tools whose `sideEffects` is `writes`, and this one's is not (remove it, or correct `sideEffects` in schema.json)
            tools/some-tool/handler.json:5:78: error: this names an effect, and a tool has one only where its `sideEffects` is `writes` (leave it out, or correct `sideEffects` in schema.json)
            tools/some-tool/handler.json:6:3: error: `timeoutMs` is no time within that of the tool, 8000 ms (write a whole number from 1 to 8000, or raise `timeoutMs` in schema.json)"#]],
    );
    for (url, expected) in [
        (
            "ftp://a.example/",
            "the address does not begin with http:// or https://",
        ),
        ("https://", "the address has no proper host and port"),
        (
            "https://a.example:0/",
            "the address has no proper host and port",
        ),
        (
            "https://me:pw@a.example/",
            "the address names a user before its host",
        ),
        (
            "https://a.example{id}",
            "scheme, host and port have no places",
        ),
        ("https://a.example/x#y", "the address has a fragment"),
        ("https://a.example/x y", "' ' cannot stand in an address"),
        ("https://a.example/../x", "the path has a step such as `..`"),
        (
            "https://a.example/{note}",
            "`{note}` may be missing in a call",
        ),
    ] {
        let text = json!({"kind": "http", "method": "GET", "url": url}).to_string();
        let problems = folder("none", &text).problems();
        assert!(problems.contains(expected), "{url}: {problems}");
    }
    check(
        "none",
        r#"{"kind": "webhook", "url": "https://a.example/{id}", "secret": "whsec_abc"}"#,
        expect![[r#"
            tools/some-tool/handler.json:1:21: error: the address of a webhook has no places; the arguments are in its body (write the address as it is)
            tools/some-tool/handler.json:1:54: error: a secret is named here and never written down (write "secret": "{secret:SHOP_WEBHOOK}")"#]],
    );
    check(
        "none",
        r#"{"kind": "http", "method": "GET", "url": "https://evil.example/{id}", "headers": {"a": "{secret:SHOP_KEY}"}}"#,
        expect![[
            r#"tools/some-tool/handler.json:1:83: error: the secret `SHOP_KEY` may not go to evil.example (add "evil.example" to `secrets.SHOP_KEY.hosts` in the configuration, if that host is to have it)"#
        ]],
    );
    check(
        "none",
        r#"{"kind": "process", "command": [], "concurrency": 0}"#,
        expect![[r#"
            tools/some-tool/handler.json:1:21: error: `command` is no program with its arguments (write the program and its arguments, such as ["node", "handler.mjs"])
            tools/some-tool/handler.json:1:36: error: `concurrency` is no number of calls (write a whole number from 1 to 64)"#]],
    );
    let mut unallowed = folder("none", r#"{"kind": "process", "command": ["node"]}"#);
    unallowed.permissions.processes = false;
    expect!["tools/some-tool/handler.json:1:2: error: this runs a program of the tool's author, which the configuration does not allow (set `handlers.processes = true` where you trust it with the rights of the server's user, or begin the directory's name with _ to leave the tool out)"].assert_eq(&unallowed.problems());
}

/// Keeps what it is asked to load.
#[derive(Default)]
struct Keep(Mutex<Option<HandlerFile>>);

struct Nothing;

impl Handler for Nothing {
    fn execute(&self, _: Invocation) -> Execution {
        Execution::Ready(Ok(Success::default()))
    }
}

impl FileLoader for Keep {
    fn load(&self, declared: DeclaredTool<'_>) -> Result<Arc<dyn Handler>, String> {
        *self.0.lock().unwrap() = Some(declared.file);
        Ok(Arc::new(Nothing))
    }
}

fn http(file: &Value) -> HttpHandler {
    let folder = folder("writes", &file.to_string());
    assert_eq!(folder.problems().replace('\n', ""), "", "{file}");
    let keep = Keep::default();
    let loaders = Loaders {
        scripts: None,
        files: Some(&keep),
    };
    let artifact = folder.compile().artifact.unwrap();
    artifact
        .into_registry(&BTreeMap::new(), loaders, &BTreeMap::new())
        .unwrap();
    match keep.0.into_inner().unwrap() {
        Some(HandlerFile::Http(http)) => *http,
        other => panic!("{other:?}"),
    }
}

/// The request, a line each for method and address, headers, and body.
fn rendered(file: &Value, arguments: Value) -> String {
    let arguments: Arguments = serde_json::from_value(arguments).unwrap();
    let secrets = BTreeMap::from([("SHOP_KEY".to_owned(), "s e/cret".to_owned())]);
    let basket = ("basket".into(), json!(["tea", "salt"]));
    let state = StateValues::new([basket].into());
    let filling = Filling {
        arguments: &arguments,
        secrets: &secrets,
        state: &state,
        effect_id: Some("e-1"),
        key: Some("k-1"),
    };
    match http(file).request.render(&filling) {
        Ok(request) => {
            let headers: Vec<String> = request
                .headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .collect();
            let body = String::from_utf8(request.body).unwrap();
            format!(
                "{} {} [{}] {body}",
                request.method,
                request.url,
                headers.join(", ")
            )
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn arguments_stand_in_addresses_encoded_and_in_bodies_with_their_types() {
    let url = |url: &str| json!({"kind": "http", "method": "GET", "url": url});
    for (file, arguments, expected) in [
        (
            url("https://a.example"),
            json!({"id": "x"}),
            "GET https://a.example/ [] ",
        ),
        (
            url("https://a.example/o/{id}"),
            json!({"id": "a b/c?d#e&f=g"}),
            "GET https://a.example/o/a%20b%2Fc%3Fd%23e%26f%3Dg [] ",
        ),
        (
            url("https://a.example/o/{id}"),
            json!({"id": "@evil.example"}),
            "GET https://a.example/o/%40evil.example [] ",
        ),
        (
            url("https://a.example/o/{id}"),
            json!({"id": "a\r\nHost: b"}),
            "GET https://a.example/o/a%0D%0AHost%3A%20b [] ",
        ),
        (
            url("https://a.example/o/{id}"),
            json!({"id": "../x"}),
            "GET https://a.example/o/..%2Fx [] ",
        ),
        (
            url("https://a.example/o/{id}"),
            json!({"id": "%2e%2e"}),
            "GET https://a.example/o/%252e%252e [] ",
        ),
        (
            url("https://a.example/o/{id}/x"),
            json!({"id": ".."}),
            "the address cannot be made of these arguments: a part of its path would be empty, or a step to another path",
        ),
        (
            url("https://a.example/o/{id}"),
            json!({"id": ""}),
            "the address cannot be made of these arguments: a part of its path would be empty, or a step to another path",
        ),
        (
            url("https://a.example/o/{id}?x=1"),
            json!({"id": "."}),
            "the address cannot be made of these arguments: a part of its path would be empty, or a step to another path",
        ),
        (
            url("https://a.example/o?q={id}&k={secret:SHOP_KEY}"),
            json!({"id": ""}),
            "GET https://a.example/o?q=&k=s%20e%2Fcret [] ",
        ),
        (
            json!({"kind": "http", "method": "GET", "url": "https://a.example/o?v=1", "query": {"n": "{count}", "q": "{note}", "t": "{tags}", "s": "is {id}"}}),
            json!({"id": "x", "count": 3, "tags": ["a", "b&c"]}),
            "GET https://a.example/o?v=1&n=3&s=is%20x&t=a&t=b%26c [] ",
        ),
        (
            json!({"kind": "http", "method": "POST", "url": "https://a.example/o", "headers": {"X-Note": "{note}", "X-Key": "Bearer {secret:SHOP_KEY}"},
                "body": {"id": "{id}", "n": "{count}", "note": "{note}", "tags": "{tags}", "in": ["{note}", "{count}", 1, null], "text": "{id} of {size} {{id}}", "effect": "{effectId}/{key}"}}),
            json!({"id": "7", "count": 3, "tags": ["a"], "size": "big"}),
            r#"POST https://a.example/o [X-Key: Bearer s e/cret, content-type: application/json] {"effect":"e-1/k-1","id":"7","in":[3,1,null],"n":3,"tags":["a"],"text":"7 of big {id}"}"#,
        ),
        (
            json!({"kind": "http", "method": "POST", "url": "https://a.example/o", "headers": {"X-Note": "{note}"}}),
            json!({"id": "7", "note": "a\r\nX-Evil: 1"}),
            "a header cannot be made of these arguments: it may hold visible ASCII characters alone",
        ),
        (
            json!({"kind": "http", "method": "POST", "url": "https://a.example/o", "headers": {"Content-Type": "application/x-www-form-urlencoded"},
                "body": {"id": "{id}", "tags[]": "{tags}", "note": "{note}"}}),
            json!({"id": "a b", "tags": ["x", "y"]}),
            "POST https://a.example/o [Content-Type: application/x-www-form-urlencoded] id=a%20b&tags%5B%5D=x&tags%5B%5D=y",
        ),
        (
            json!({"kind": "http", "method": "POST", "url": "https://a.example/o", "query": {"b": "{state:basket}", "t": "{state:total}"},
                "body": {"basket": "{state:basket}", "total": "{state:total}"}}),
            json!({"id": "7"}),
            r#"POST https://a.example/o?b=tea&b=salt [content-type: application/json] {"basket":["tea","salt"]}"#,
        ),
        (
            json!({"kind": "http", "method": "POST", "url": "https://a.example/o", "headers": {"Content-Type": "text/plain"}, "body": "order {id}"}),
            json!({"id": "a b"}),
            "POST https://a.example/o [Content-Type: text/plain] order a b",
        ),
        (
            json!({"kind": "http", "method": "POST", "url": "https://a.example/o", "headers": {"Content-Type": "text/plain"}, "body": "{note}"}),
            json!({"id": "7"}),
            "POST https://a.example/o [] ",
        ),
        (
            json!({"kind": "http", "method": "POST", "url": "https://a.example/o", "body": "{who}"}),
            json!({"id": "7"}),
            "POST https://a.example/o [] ",
        ),
        (
            json!({"kind": "http", "method": "POST", "url": "https://a.example/o", "headers": {"X-Tags": "{tags}"}}),
            json!({"id": "7", "tags": ["a", "b"]}),
            "POST https://a.example/o [X-Tags: a,b] ",
        ),
    ] {
        assert_eq!(rendered(&file, arguments), expected, "{file}");
    }
}

#[test]
fn lists_and_objects_are_written_in_the_style_that_is_named() {
    let query = |value: Value| json!({"kind": "http", "method": "GET", "url": "https://a.example/o", "query": {"q": value}});
    let path = |place: &str| json!({"kind": "http", "method": "GET", "url": format!("https://a.example/{place}")});
    let arguments =
        json!({"id": "x", "parts": ["a", "b c"], "who": {"name": "n&m", "age": 3, "none": null}});
    for (file, expected) in [
        (query(json!({"value": "{parts}"})), "o?q=a&q=b%20c"),
        (
            query(json!({"value": "{parts}", "explode": false})),
            "o?q=a,b%20c",
        ),
        (
            query(json!({"value": "{parts}", "style": "spaceDelimited"})),
            "o?q=a%20b%20c",
        ),
        (
            query(json!({"value": "{parts}", "style": "pipeDelimited"})),
            "o?q=a%7Cb%20c",
        ),
        (
            query(json!({"value": "{parts}", "style": "deepObject"})),
            "o?q%5B%5D=a&q%5B%5D=b%20c",
        ),
        (
            query(json!({"value": "{parts}", "style": "json"})),
            "o?q=%5B%22a%22%2C%22b%20c%22%5D",
        ),
        (query(json!({"value": "{who}"})), "o?age=3&name=n%26m"),
        (
            query(json!({"value": "{who}", "explode": false})),
            "o?q=age,3,name,n%26m",
        ),
        (
            query(json!({"value": "{who}", "style": "deepObject"})),
            "o?q%5Bage%5D=3&q%5Bname%5D=n%26m",
        ),
        (
            query(json!({"value": "{note}", "style": "deepObject"})),
            "o",
        ),
        (path("{parts}"), "a,b%20c"),
        (path("{parts*}"), "a,b%20c"),
        (path("{.id}"), ".x"),
        (path("{.parts*}"), ".a.b%20c"),
        (path("{;id}"), ";id=x"),
        (path("{;parts}"), ";parts=a,b%20c"),
        (path("{;parts*}"), ";parts=a;parts=b%20c"),
    ] {
        let expected = format!("GET https://a.example/{expected} [] ");
        assert_eq!(rendered(&file, arguments.clone()), expected, "{file}");
    }
    let reserved = query(json!({"value": "{note}", "allowReserved": true}));
    assert_eq!(
        rendered(&reserved, json!({"id": "x", "note": "a/b?c&d=e#f+g"})),
        "GET https://a.example/o?q=a/b?c%26d%3De%23f%2Bg [] "
    );
    for (place, id) in [("{.id}", "."), ("x/{id*}", ".."), ("{id}.{size}", "")] {
        let size = if place.contains("size") { "" } else { "large" };
        assert_eq!(
            rendered(&path(place), json!({"id": id, "size": size})),
            "the address cannot be made of these arguments: a part of its path would be empty, or a step to another path"
        );
    }
    for (value, expected) in [
        (
            json!({"value": "is {id}"}),
            "a value with a style is one argument",
        ),
        (json!({"style": "form"}), "`value` is missing"),
        (
            json!({"value": "{tags}", "style": "comma"}),
            "there is no style `comma`",
        ),
        (
            json!({"value": "{tags}", "explde": true}),
            "did you mean `explode`?",
        ),
        (
            json!({"value": "{tags}", "explode": 1}),
            "not true or false",
        ),
    ] {
        let problems = folder("none", &query(value).to_string()).problems();
        assert!(problems.contains(expected), "{expected}: {problems}");
    }
    let header = json!({"kind": "http", "method": "GET", "url": "https://a.example/", "headers": {"x": {"value": "{id}"}}});
    let problems = folder("none", &header.to_string()).problems();
    assert!(problems.contains("not a text"), "{problems}");
}

#[test]
fn an_answer_is_read_as_the_file_says() {
    let file = http(&json!({
        "kind": "http", "method": "POST", "url": "https://a.example/o", "result": "/order",
        "errors": {"404": "CONFLICT", "4xx": "PERMANENT"},
        "lookup": {"method": "GET", "url": "https://a.example/o?key={key}", "result": "/0"}
    }));
    let plain = http(&json!({"kind": "http", "method": "POST", "url": "https://a.example/o"}));
    let answer = |status: u16, body: &str| HttpAnswer {
        status,
        url: String::new(),
        headers: vec![("retry-after".to_owned(), "7".to_owned())],
        body: Ok(body.as_bytes().to_vec()),
    };
    let shown = |file: &HttpHandler, status, body| {
        let answer = answer(status, body);
        let template = &file.request;
        match (Answered {
            template,
            answer: &answer,
            writes: true,
        })
        .result()
        {
            Ok(success) => format!("{:?}", success.data.map(|data| data.to_string())),
            Err(failure) => match failure.cause {
                Cause::Reported(report) => format!(
                    "{:?} {:?} {}",
                    report.kind, report.retry_after_ms, report.message
                ),
                Cause::Broken(problem) => problem,
            },
        }
    };
    for (file, status, body, expected) in [
        (&file, 200, r#"{"order": {"n": 1}}"#, r#"Some("{\"n\":1}")"#),
        (&file, 201, r#"{"other": 1}"#, "None"),
        (&plain, 204, " ", "None"),
        (&plain, 200, "plain", r#"Some("\"plain\"")"#),
        (&file, 404, "", "Conflict None the service answered 404"),
        (&file, 422, "", "Permanent None the service answered 422"),
        (
            &plain,
            400,
            r#"{"error": {"message": "no such size"}}"#,
            "Validation None the service answered 400: no such size",
        ),
        (
            &plain,
            422,
            r#"{"detail": "x"}"#,
            "Validation None the service answered 422: x",
        ),
        (&plain, 401, "", "Auth None the service answered 401"),
        (&plain, 403, "", "Auth None the service answered 403"),
        (&plain, 404, "", "NotFound None the service answered 404"),
        (&plain, 409, "", "Conflict None the service answered 409"),
        (
            &plain,
            429,
            "",
            "RateLimit Some(7000) the service answered 429",
        ),
        (&plain, 500, "", "Transient None the service answered 500"),
        (
            &plain,
            503,
            "",
            "Transient Some(7000) the service answered 503",
        ),
        (&plain, 302, "", "Permanent None the service answered 302"),
        (&plain, 418, "", "Permanent None the service answered 418"),
    ] {
        assert_eq!(shown(file, status, body), expected);
    }
    let lookup = file.lookup.as_ref().unwrap();
    for (status, body, expected) in [
        (
            200,
            r#"[{"n": 1}]"#,
            Finding::Happened(Box::new(Success::new(json!({"n": 1})))),
        ),
        (200, "[]", Finding::NotHappened),
        (404, "", Finding::NotHappened),
        (500, "", Finding::Unknown),
        (302, "", Finding::Unknown),
    ] {
        let answer = answer(status, body);
        assert_eq!(
            (Answered {
                template: lookup,
                answer: &answer,
                writes: true
            })
            .finding(),
            expected
        );
    }
    for (error, partial) in [
        (FetchError::Refused(String::new()), Some(false)),
        (FetchError::Unreachable(String::new()), Some(false)),
        (FetchError::Unanswered(String::new()), None),
    ] {
        assert_eq!(unanswered(&error).partial_side_effects, partial);
    }
}
