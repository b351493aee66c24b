//! The addresses of each backend, and the refusals.

use super::*;

fn developer_api() -> Backend {
    Backend::DeveloperApi { version: None }
}

fn vertex(location: &str) -> Backend {
    Backend::Vertex {
        location: location.to_owned(),
        project: Some("p-1".to_owned()),
        version: None,
    }
}

fn key() -> Credentials {
    Credentials::ApiKey(Sensitive("key-1".to_owned()))
}

fn token(text: &str) -> Credentials {
    Credentials::EphemeralToken(Sensitive(text.to_owned()))
}

fn bearer() -> Credentials {
    Credentials::Bearer {
        token: Sensitive("ya29.x".to_owned()),
        quota_project: Some("payer".to_owned()),
    }
}

#[test]
fn each_backend_has_its_address_and_its_header() {
    for (backend, credentials, url, headers) in [
        (
            developer_api(),
            key(),
            "wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent",
            vec![("x-goog-api-key", "key-1")],
        ),
        (
            Backend::DeveloperApi {
                version: Some("v1".to_owned()),
            },
            key(),
            "wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1.GenerativeService.BidiGenerateContent",
            vec![("x-goog-api-key", "key-1")],
        ),
        (
            developer_api(),
            token("auth_tokens/abc"),
            "wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContentConstrained",
            vec![("authorization", "Token auth_tokens/abc")],
        ),
        (
            developer_api(),
            token("abc"),
            "wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContentConstrained",
            vec![("authorization", "Token auth_tokens/abc")],
        ),
        (
            vertex("europe-west4"),
            bearer(),
            "wss://europe-west4-aiplatform.googleapis.com/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent",
            vec![
                ("authorization", "Bearer ya29.x"),
                ("x-goog-user-project", "payer"),
            ],
        ),
        (
            vertex("global"),
            key(),
            "wss://aiplatform.googleapis.com/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent",
            vec![("x-goog-api-key", "key-1")],
        ),
    ] {
        let address = backend.address(Some(&credentials), None).unwrap();
        assert_eq!(address.url, url);
        let sent: Vec<_> = address
            .headers
            .iter()
            .map(|(name, value)| (*name, value.expose().as_str()))
            .collect();
        assert_eq!(sent, headers);
    }
}

#[test]
fn a_base_url_replaces_the_host_and_slashes_never_double() {
    const METHOD: &str =
        "ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent";
    for (base_url, url) in [
        ("ws://127.0.0.1:9", format!("ws://127.0.0.1:9/{METHOD}")),
        ("ws://127.0.0.1:9/", format!("ws://127.0.0.1:9/{METHOD}")),
        ("http://[::1]:9//", format!("ws://[::1]:9/{METHOD}")),
        ("https://proxy/a//b/", format!("wss://proxy/a/b/{METHOD}")),
        (
            "wss://proxy//x/LlmBidiService/BidiGenerateContent",
            "wss://proxy/x/LlmBidiService/BidiGenerateContent".to_owned(),
        ),
    ] {
        let address = developer_api().address(None, Some(base_url)).unwrap();
        assert_eq!((address.url, address.headers), (url, vec![]), "{base_url}");
    }
}

#[test]
fn what_is_no_address_is_refused_without_showing_a_secret() {
    for base_url in [
        "127.0.0.1:9",
        "ftp://host",
        "ws://",
        "ws:///path",
        "ws://user:hunter2@host",
        "user:hunter2@host",
        "ws://host/?key=hunter2",
        "ws://host\r\nx: y",
    ] {
        let error = developer_api().address(None, Some(base_url)).unwrap_err();
        assert!(matches!(error, AddressError::BadUrl { .. }), "{base_url}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn credentials_that_do_not_fit_are_refused() {
    for (backend, credentials, error) in [
        (developer_api(), None, AddressError::NoCredentials),
        (
            vertex("global"),
            Some(token("abc")),
            AddressError::TokenOnVertex,
        ),
        (
            developer_api(),
            Some(Credentials::ApiKey(Sensitive(String::new()))),
            AddressError::BadCredentials { kind: "API key" },
        ),
        (
            developer_api(),
            Some(token("a\r\nhost: b")),
            AddressError::BadCredentials {
                kind: "ephemeral token",
            },
        ),
        (
            vertex("evil.example/"),
            Some(bearer()),
            AddressError::BadPart {
                part: "location",
                value: "evil.example/".to_owned(),
                allowed: "hyphens",
            },
        ),
    ] {
        assert_eq!(backend.address(credentials.as_ref(), None), Err(error));
    }
}

#[test]
fn debug_output_holds_no_secret() {
    let address = developer_api().address(Some(&key()), None).unwrap();
    let text = format!("{address:?} {:?} {:?} {:?}", key(), token("abc"), bearer());
    for secret in ["key-1", "abc", "ya29"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn a_model_has_a_resource_name_on_each_backend() {
    let express = Backend::Vertex {
        location: "global".to_owned(),
        project: None,
        version: None,
    };
    for (backend, model, name) in [
        (developer_api(), "gemini-3.8-live", "models/gemini-3.8-live"),
        (
            developer_api(),
            "models/gemini-3.8-live",
            "models/gemini-3.8-live",
        ),
        (
            vertex("global"),
            "gemini-3.8-live",
            "projects/p-1/locations/global/publishers/google/models/gemini-3.8-live",
        ),
        (
            express.clone(),
            "models/gemini-3.8-live",
            "publishers/google/models/gemini-3.8-live",
        ),
        (
            express,
            "publishers/google/models/x",
            "publishers/google/models/x",
        ),
    ] {
        assert_eq!(backend.model_name(model), name);
    }
}
