//! Bodies of requests to the text endpoints that are none, and what their senders are told.

use crate::chat::{chat, echo, user};
use crate::support::http::post;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_chat_is_refused_in_words() {
    let chat = chat(echo, &[("text.request_bytes_max", "100000")]).await;
    let long = json!({"message": "x".repeat(200_000)}).to_string();
    let role = json!({"messages": [{"id": "a", "role": "wizard", "parts": []}]}).to_string();
    let nobody = json!({"messages": [{"id": "a", "role": "assistant", "parts": []}]}).to_string();
    let blank = json!({"messages": [user("a", "  ")]}).to_string();
    let picture = json!({"messages": [{"id": "a", "role": "user", "parts": [
        {"type": "text", "text": "See."}, {"type": "file", "mediaType": "image/png", "url": "https://example.org/a.png"}
    ]}]})
    .to_string();
    for (body, status, problem) in [
        ("", 400, "the body is not what useChat sends: it is empty"),
        ("{", 400, "the body is not what useChat sends: EOF"),
        (
            "[\"c\", \"ada\", \"Hello.\"]",
            400,
            "the body is not what useChat sends: it is JSON, but no object",
        ),
        (
            "\"hi\"",
            400,
            "the body is not what useChat sends: it is JSON, but no object",
        ),
        (
            "{\"messages\": [5]}",
            400,
            "the body is not what useChat sends: invalid type: integer `5`, expected a message",
        ),
        ("{}", 400, "there is no message of the user"),
        (role.as_str(), 400, "a message has a role"),
        (nobody.as_str(), 400, "the last message is the assistant's"),
        (blank.as_str(), 400, "the message is empty"),
        (picture.as_str(), 400, "a picture must come as a data: URL"),
        (r#"{"id": "", "message": "x"}"#, 400, "an id must have"),
        (long.as_str(), 413, "the body is longer than 100000 bytes"),
    ] {
        let answer = post(&chat.address, "/api/chat", body.as_bytes());
        let said: Value = serde_json::from_str(&answer.body).unwrap();
        let message = said["error"]["message"].as_str().unwrap();
        assert_eq!(answer.status, status, "{body:.40}: {message}");
        assert!(message.starts_with(problem), "{body:.40}: {message}");
    }
    assert!(chat.model.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_of_openais_protocol_is_refused_in_its_form() {
    let chat = chat(echo, &[]).await;
    let says = |role: &str, content: Value| json!({"role": role, "content": content});
    let asks = says("user", json!("Who?"));
    for (body, problem) in [
        (
            json!([]),
            "the body is no request of this protocol: it is JSON, but no object",
        ),
        (
            json!({}),
            "the body is no request of this protocol: missing field `messages`",
        ),
        (
            json!({"messages": [5]}),
            "the body is no request of this protocol: invalid type: integer `5`, expected a message",
        ),
        (json!({"messages": []}), "there is no message of the user"),
        (
            json!({"messages": [says("assistant", json!("Hello."))]}),
            "there is no message of the user",
        ),
        (
            json!({"messages": [says("wizard", json!("x")), asks]}),
            "a message has a role",
        ),
        (
            json!({"messages": [says("user", json!(5))]}),
            "a message's content is neither",
        ),
        (
            json!({"messages": [says("user", json!(" "))]}),
            "the user's last message is empty",
        ),
        (
            json!({"n": 2, "messages": [asks]}),
            "this server gives one answer",
        ),
        (
            json!({"stream_options": 1, "messages": [asks]}),
            "the body is no request of this protocol: invalid type: integer `1`, expected an object of options",
        ),
    ] {
        let answer = post(
            &chat.address,
            "/v1/chat/completions",
            body.to_string().as_bytes(),
        );
        let said: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(answer.status, 400, "{body}: {said}");
        assert_eq!(said["error"]["type"], "invalid_request_error", "{body}");
        let message = said["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(problem), "{body}: {message}");
    }
    assert!(chat.model.seen().is_empty());
}
