//! What the server answers over HTTP, on a server of the library.

use crate::support::config;
use crate::support::http::{get, request};
use serde_json::Value;
use std::fs;
use windlass_app::server::{Server, Setup, start};

async fn server(data: &std::path::Path) -> (Server, String) {
    let server = start(Setup {
        config: config(data, &[]),
        handlers: windlass_handlers::builtin(),
        watch: false,
    })
    .await
    .unwrap();
    let address = server.address().to_string();
    (server, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_whole_typed_and_fenced_in() {
    let data = tempfile::tempdir().unwrap();
    let (_server, address) = server(data.path()).await;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/ui");
    for folder in ["", "/vendor"] {
        for entry in fs::read_dir(format!("{root}{folder}")).unwrap() {
            let file = entry.unwrap().path();
            if file.is_dir() {
                continue;
            }
            let path = format!("{folder}/{}", file.file_name().unwrap().to_str().unwrap());
            let answer = get(&address, &path);
            let content = fs::read_to_string(file).unwrap();
            assert_eq!((answer.status, answer.body), (200, content), "{path}");
        }
    }
    for (path, content_type, cache) in [
        ("/", "text/html; charset=utf-8", "no-store"),
        ("/index.html", "text/html; charset=utf-8", "no-store"),
        ("/app.js", "text/javascript; charset=utf-8", "no-cache"),
        ("/style.css", "text/css; charset=utf-8", "no-cache"),
        ("/icon.svg", "image/svg+xml", "no-cache"),
        (
            "/vendor/LICENSES.txt",
            "text/plain; charset=utf-8",
            "no-cache",
        ),
    ] {
        let answer = get(&address, path);
        assert_eq!(answer.header("content-type"), Some(content_type), "{path}");
        assert_eq!(answer.header("cache-control"), Some(cache), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(
            answer.header("content-security-policy"),
            Some(&*format!(
                "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                 object-src 'none'; connect-src 'self' ws://{address} wss://{address}"
            ))
        );
        let tag = answer.header("etag").unwrap();
        let known = request(&address, "GET", path, &[("If-None-Match", tag)]);
        assert_eq!((known.status, known.body.as_str()), (304, ""), "{path}");
        let head = request(&address, "HEAD", path, &[]);
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_said_in_a_line() {
    let data = tempfile::tempdir().unwrap();
    let (_server, address) = server(data.path()).await;
    for (method, path, status) in [
        ("GET", "/nothing", 404),
        ("GET", "/../Cargo.toml", 404),
        ("GET", "/%2e%2e/Cargo.toml", 404),
        ("POST", "/", 405),
        ("POST", "/voice", 405),
        ("GET", "/voice", 400),
        ("DELETE", "/health", 405),
        ("POST", "/metrics", 405),
        ("PUT", "/ready", 405),
        ("GET", "/api/chat", 405),
        ("PATCH", "/v1/chat/completions", 405),
        ("GET", "/assets/nothing", 404),
        ("GET", "/assets/..%2f..%2fCargo.toml", 404),
    ] {
        let answer = request(&address, method, path, &[]);
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.body.lines().count(), 1, "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_readiness_facts_and_metrics_are_told() {
    let data = tempfile::tempdir().unwrap();
    let (_server, address) = server(data.path()).await;
    assert_eq!(get(&address, "/health").status, 200);
    assert_eq!(get(&address, "/ready").status, 200);
    let info: Value = serde_json::from_str(&get(&address, "/api/info").body).unwrap();
    assert_eq!(
        (&info["name"], &info["demo"]),
        (&"Windlass".into(), &true.into())
    );
    assert_eq!(info["provider"], "demo");
    // No tool of the demo's is for writing alone, so that what is typed begins a voice session.
    assert_eq!(info["text"]["typed"], false);
    assert!((1..=8).contains(&info["suggestions"].as_array().unwrap().len()));
    for (accept, content_type) in [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/html,application/json", "application/json"),
        ("text/plain", "text/plain; version=0.0.4; charset=utf-8"),
        (
            "application/openmetrics-text; version=1.0.0, text/plain;q=0.5",
            "text/plain; version=0.0.4; charset=utf-8",
        ),
    ] {
        let answer = request(&address, "GET", "/metrics", &[("Accept", accept)]);
        assert_eq!(
            answer.header("content-type"),
            Some(content_type),
            "{accept}"
        );
        if content_type == "application/json" {
            let metrics: Value = serde_json::from_str(&answer.body).unwrap();
            assert!(metrics["context"].is_object(), "{metrics}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_models_questions_are_offered_only_with_the_records_that_answer_them() {
    let (data, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = start(Setup {
        config: config(
            data.path(),
            &[("folders.knowledge", &own.path().display().to_string())],
        ),
        handlers: windlass_handlers::builtin(),
        watch: false,
    })
    .await
    .unwrap();
    let info = get(&server.address().to_string(), "/api/info").body;
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["demo"], true);
    // What the guides of tools give as examples stands in their place.
    let offered = info["suggestions"].as_array().unwrap();
    assert!(!offered.is_empty());
    for own in windlass_sim::demo::SUGGESTIONS {
        assert!(!offered.iter().any(|text| text == own), "{own}");
    }
}

/// What a browser sends to open `/voice`, besides its Origin.
const UPGRADE: [(&str, &str); 3] = [
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_origin_may_not_open_a_session() {
    let data = tempfile::tempdir().unwrap();
    let (_server, address) = server(data.path()).await;
    let port = address.rsplit(':').next().unwrap();
    let rebound = format!("evil.example:{port}");
    let rebound_origin = format!("http://{rebound}");
    for (headers, status, code) in [
        (
            vec![("Origin", "https://evil.example")],
            403,
            "foreign_origin",
        ),
        (vec![("Origin", "null")], 403, "foreign_origin"),
        (
            vec![
                ("Host", rebound.as_str()),
                ("Origin", rebound_origin.as_str()),
            ],
            421,
            "foreign_host",
        ),
    ] {
        // "Connection: close" is what the test's client sends, so the token stands beside it.
        let mut all = UPGRADE.to_vec();
        all.push(("Connection", "upgrade"));
        all.extend(&headers);
        let answer = request(&address, "GET", "/voice", &all);
        assert_eq!(answer.status, status, "{headers:?}");
        let said: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(said["error"]["code"], code, "{headers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_bound_to_this_machine_gets_nothing_under_any_address() {
    let data = tempfile::tempdir().unwrap();
    let (_server, address) = server(data.path()).await;
    let port = address.rsplit(':').next().unwrap();
    let rebound = format!("evil.example:{port}");
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/app.js"),
        ("GET", "/api/info"),
        ("GET", "/metrics"),
        ("GET", "/health"),
        ("GET", "/api/conversations/c"),
        ("GET", "/assets/x"),
        ("GET", "/nothing"),
        ("POST", "/api/chat"),
        ("OPTIONS", "/api/chat"),
    ] {
        let answer = request(&address, method, path, &[("Host", &rebound)]);
        assert_eq!(answer.status, 421, "{method} {path}");
        assert!(answer.body.contains("server.allowed_hosts"), "{path}");
    }
    for host in ["localhost", "127.0.0.1:1", "[::1]:8080"] {
        let answer = request(&address, "GET", "/health", &[("Host", host)]);
        assert_eq!(answer.status, 200, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_says_what_a_browser_may_do_with_it() {
    let data = tempfile::tempdir().unwrap();
    let (_server, address) = server(data.path()).await;
    let evil = ("Origin", "https://evil.example");
    for (method, path, headers) in [
        ("GET", "/", &[][..]),
        ("GET", "/app.js", &[]),
        ("GET", "/api/info", &[]),
        ("GET", "/nothing", &[]),
        ("GET", "/api/chat", &[]),
        ("GET", "/voice", &[]),
        ("GET", "/api/info", &[evil]),
        ("GET", "/api/info", &[("Host", "evil.example")]),
    ] {
        let answer = request(&address, method, path, headers);
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path} {headers:?}");
        }
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("frame-ancestors 'none'"), "{path} {policy}");
        let mut sources = policy.split([' ', ';']);
        let is_wildcard = |source: &str| source.contains('*') || source.ends_with(':');
        assert!(!sources.any(is_wildcard), "{path} {policy}");
    }
    let page = request(&address, "GET", "/", &[("Host", "localhost:80")]);
    let policy = page.header("content-security-policy").unwrap();
    let own = "connect-src 'self' ws://localhost:80 wss://localhost:80";
    assert!(policy.ends_with(own), "{policy}");
}
