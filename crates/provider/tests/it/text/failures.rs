//! Answers that say that a request failed: every status and every form of the body.

use serde_json::{Value, json};
use std::time::Duration;
use windlass_provider::failure::{Failure, FailureClass, ResponseHead};
use windlass_provider::{gemini_text, openai_chat};

fn head(status: u16) -> ResponseHead<'static> {
    ResponseHead {
        status,
        ..ResponseHead::default()
    }
}

fn openai(status: u16, body: &Value) -> Failure {
    openai_chat::failure(&head(status), body.to_string().as_bytes())
}

fn gemini(status: u16, body: &Value) -> Failure {
    gemini_text::failure(&head(status), body.to_string().as_bytes())
}

#[test]
fn every_status_has_its_class_and_says_whether_to_try_again() {
    for (status, class, by_openai, by_gemini) in [
        (400, FailureClass::InvalidRequest, false, false),
        (401, FailureClass::Auth, false, false),
        (402, FailureClass::QuotaExhausted, false, false),
        (403, FailureClass::Auth, false, false),
        (404, FailureClass::NotFound, false, false),
        (408, FailureClass::Timeout, true, true),
        (409, FailureClass::Conflict, true, false),
        (413, FailureClass::InvalidRequest, false, false),
        (422, FailureClass::InvalidRequest, false, false),
        (429, FailureClass::RateLimited, true, true),
        (499, FailureClass::Cancelled, false, false),
        (500, FailureClass::ServerFault, true, true),
        (502, FailureClass::ServerFault, true, true),
        (503, FailureClass::Overloaded, true, true),
        (504, FailureClass::Timeout, true, true),
        (529, FailureClass::Overloaded, true, false),
        (302, FailureClass::InvalidRequest, false, false),
    ] {
        for body in [json!({}), json!({"error": {"message": "m"}}), json!(null)] {
            let failure = openai(status, &body);
            assert_eq!(
                (failure.class, failure.retryable),
                (class, by_openai),
                "{status} {body}"
            );
            let failure = gemini(status, &body);
            assert_eq!(
                (failure.class, failure.retryable),
                (class, by_gemini),
                "{status} {body}"
            );
            assert_eq!(failure.status, Some(status));
        }
    }
}

#[test]
fn bodies_are_read_in_every_form_that_servers_give_them() {
    let cases = [
        (
            openai(
                401,
                &json!({"error": {"message": "Incorrect API key provided: sk-abcdef.", "type": "invalid_request_error",
                "param": null, "code": "invalid_api_key"}}),
            ),
            FailureClass::Auth,
            Some("invalid_api_key"),
            "Incorrect API key provided: [hidden].",
        ),
        (
            openai(
                429,
                &json!({"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}),
            ),
            FailureClass::QuotaExhausted,
            Some("insufficient_quota"),
            "You exceeded your current quota.",
        ),
        (
            openai(
                400,
                &json!([{"error": {"code": 400, "message": "Bad.", "status": "INVALID_ARGUMENT"}}]),
            ),
            FailureClass::InvalidRequest,
            Some("INVALID_ARGUMENT"),
            "Bad.",
        ),
        (
            openai(
                400,
                &json!({"error": {"message": "This model's maximum context length is 10 tokens.", "code": "context_length_exceeded"}}),
            ),
            FailureClass::ContextTooLong,
            Some("context_length_exceeded"),
            "This model's maximum context length is 10 tokens.",
        ),
        (
            openai(
                422,
                &json!({"object": "error", "message": {"detail": [{"loc": ["body", "stream_options"]}]}, "type": "invalid_request_error"}),
            ),
            FailureClass::InvalidRequest,
            Some("invalid_request_error"),
            "{\"detail\":[{\"loc\":[\"body\",\"stream_options\"]}]}",
        ),
        (
            openai(404, &json!({"error": "model 'x' not found"})),
            FailureClass::NotFound,
            None,
            "model 'x' not found",
        ),
        (
            openai(500, &json!({"detail": "Internal\nServer Error"})),
            FailureClass::ServerFault,
            None,
            "Internal Server Error",
        ),
        (
            gemini(
                400,
                &json!({"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT",
                "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}}),
            ),
            FailureClass::Auth,
            Some("API_KEY_INVALID"),
            "API key not valid.",
        ),
        (
            gemini(
                400,
                &json!({"error": {"code": 400, "status": "INVALID_ARGUMENT",
                "message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}}),
            ),
            FailureClass::ContextTooLong,
            Some("INVALID_ARGUMENT"),
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        ),
        (
            openai_chat::failure(&head(502), b"<html>hunter2</html>"),
            FailureClass::ServerFault,
            None,
            "the answer holds no error in JSON",
        ),
        (
            openai_chat::failure(&head(503), b"\xff\xfe"),
            FailureClass::Overloaded,
            None,
            "the answer holds no error in JSON",
        ),
    ];
    for (failure, class, code, message) in cases {
        assert_eq!(
            (
                failure.class,
                failure.code.as_deref(),
                failure.message.as_str()
            ),
            (class, code, message)
        );
    }
}

#[test]
fn a_field_that_a_server_objects_to_is_named() {
    let failure = openai(
        400,
        &json!({"error": {"message": "Unknown parameter.", "param": "prompt_cache_key", "code": "unknown_parameter"}}),
    );
    assert_eq!(failure.param.as_deref(), Some("prompt_cache_key"));
    assert_eq!(
        failure.to_string(),
        "the provider refused the request (status 400) [unknown_parameter]: Unknown parameter."
    );
}

#[test]
fn the_server_says_when_to_come_back_and_whether() {
    let quota = json!({"error": {"code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]}});
    assert_eq!(
        gemini(429, &quota).retry_after,
        Some(Duration::from_secs(7))
    );
    for (retry_after_ms, retry_after, should_retry, wait, retryable) in [
        (None, Some("3"), None, Some(3_000), true),
        (Some("50"), Some("3"), None, Some(50), true),
        (None, None, Some("false"), Some(7_000), false),
        (None, Some("never"), Some("maybe"), Some(7_000), true),
    ] {
        let head = ResponseHead {
            status: 429,
            should_retry,
            retry_after_ms,
            retry_after,
            now_unix_seconds: 0,
        };
        let failure = openai_chat::failure(&head, quota.to_string().as_bytes());
        assert_eq!(
            (failure.retry_after, failure.retryable),
            (wait.map(Duration::from_millis), retryable)
        );
    }
    let stubborn = ResponseHead {
        should_retry: Some("true"),
        ..head(400)
    };
    assert!(openai_chat::failure(&stubborn, b"{}").retryable);
}

#[test]
fn a_long_message_is_cut() {
    let failure = openai(
        400,
        &json!({"error": {"message": "é ".repeat(10_000), "param": "p".repeat(10_000), "code": "c ".repeat(10_000)}}),
    );
    assert!(failure.message.chars().count() <= 301);
    assert!(failure.param.unwrap().len() <= 130 && failure.code.unwrap().len() <= 130);
}

/// Each vendor's own way to refuse a key, and to miss one: status and body.
#[test]
fn a_key_that_any_vendor_refuses_is_known_as_one() {
    let google = |code: u16, status: &str, message: &str, reason: &str| {
        json!({"error": {"code": code, "message": message, "status": status,
            "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]}})
    };
    let openai_error = |message: &str, kind: &str, code: Value| json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
    for (vendor, status, body) in [
        (
            "OpenAI",
            401,
            openai_error(
                "Incorrect API key provided: sk-a.",
                "invalid_request_error",
                json!("invalid_api_key"),
            ),
        ),
        (
            "OpenAI, none",
            401,
            openai_error(
                "You didn't provide an API key.",
                "invalid_request_error",
                Value::Null,
            ),
        ),
        (
            "OpenAI, of another project",
            403,
            openai_error(
                "Project does not have access.",
                "invalid_request_error",
                json!("model_not_found"),
            ),
        ),
        (
            "Gemini",
            400,
            google(
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.",
                "API_KEY_INVALID",
            ),
        ),
        (
            "Gemini, expired",
            400,
            google(
                400,
                "INVALID_ARGUMENT",
                "API key expired. Please renew the API key.",
                "API_KEY_INVALID",
            ),
        ),
        (
            "Gemini, none",
            403,
            google(
                403,
                "PERMISSION_DENIED",
                "Method doesn't allow unregistered callers.",
                "",
            ),
        ),
        (
            "Vertex",
            401,
            google(
                401,
                "UNAUTHENTICATED",
                "Request had invalid authentication credentials.",
                "ACCESS_TOKEN_EXPIRED",
            ),
        ),
        (
            "Gemini as OpenAI",
            400,
            json!([google(
                400,
                "INVALID_ARGUMENT",
                "API key not valid.",
                "API_KEY_INVALID"
            )]),
        ),
        (
            "xAI",
            400,
            json!({"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***. You can obtain an API key from https://console.x.ai."}),
        ),
        (
            "xAI, newer",
            400,
            json!({"code": "invalid-argument", "error": "Incorrect API key provided. You can obtain an API key from https://console.x.ai."}),
        ),
        (
            "Azure",
            401,
            json!({"error": {"code": "401", "message": "Access denied due to invalid subscription key or wrong API endpoint."}}),
        ),
        (
            "OpenRouter, none",
            401,
            json!({"error": {"message": "No cookie auth credentials found", "code": 401}}),
        ),
        (
            "OpenRouter",
            401,
            json!({"error": {"message": "User not found.", "code": 401}}),
        ),
        (
            "Groq",
            401,
            openai_error(
                "Invalid API Key",
                "invalid_request_error",
                json!("invalid_api_key"),
            ),
        ),
        ("Mistral", 401, json!({"detail": "Unauthorized"})),
        (
            "DeepSeek",
            401,
            openai_error(
                "Authentication Fails, Your api key: ****de99 is invalid",
                "authentication_error",
                json!("invalid_request_error"),
            ),
        ),
        ("a proxy", 401, json!("Unauthorized")),
    ] {
        let (text, failures) = (
            body.to_string(),
            [openai(status, &body), gemini(status, &body)],
        );
        for failure in failures {
            assert_eq!(
                (failure.class, failure.retryable),
                (FailureClass::Auth, false),
                "{vendor}"
            );
        }
        // The same body refuses the upgrade to a live connection.
        let class = FailureClass::of_refusal(status, text.as_bytes());
        assert_eq!(class, FailureClass::Auth, "{vendor}");
    }
    // Within a stream there is no status of its own.
    for error in [
        json!({"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}}),
        json!({"error": {"message": "Authentication Fails", "type": "authentication_error"}}),
        json!({"error": {"code": 401, "message": "User not found."}}),
        google(401, "UNAUTHENTICATED", "no", ""),
    ] {
        let stream = format!("data: {error}\n\n");
        let (_, answer) = super::decode_chat(stream.as_bytes());
        let windlass_provider::answer::Ending::Failed(failure) = answer.ending else {
            panic!("{error}");
        };
        assert_eq!(failure.class, FailureClass::Auth, "{error}");
    }
}
