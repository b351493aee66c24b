//! Where the user is: what the model reads of date and hour on each way in, and zones that do not exist.

use crate::chat::{chat, user};
use crate::support::http::post;
use crate::support::model_server::Says;
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};

fn instruction(asked: &Value) -> String {
    asked["messages"][0]["content"].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_reads_the_hour_where_the_user_is_or_that_it_is_the_servers() {
    let chat = chat(|_| Says::Words("Hello."), &[]).await;
    let long = "Europe/".repeat(2_000);
    let hello = [json!({"role": "user", "content": "Hello."})];
    for (path, member) in [
        ("/api/chat", "timeZone"),
        ("/v1/chat/completions", "time_zone"),
    ] {
        for (zone, expected) in [
            (
                json!("Asia/Tokyo"),
                "Asia/Tokyo, UTC+09:00; the user's time zone",
            ),
            (
                json!(""),
                "; the server's time zone; the user's is not known",
            ),
            (
                Value::Null,
                "; the server's time zone; the user's is not known",
            ),
        ] {
            let mut body = match path {
                "/api/chat" => json!({"messages": [user("u", "Hello.")]}),
                _ => json!({"model": "any", "messages": hello}),
            };
            body[member] = zone;
            let answer = post(&chat.address, path, body.to_string().as_bytes());
            assert_eq!(answer.status, 200, "{}", answer.body);
            let seen = chat.model.seen();
            let read = instruction(seen.last().unwrap());
            assert!(read.contains(expected), "{path} {body}: {read}");
        }
        for zone in ["Europe/Atlantis", "../../etc/passwd", long.as_str()] {
            let mut body = json!({"model": "any", "messages": [user("u", "Hello.")]});
            if path != "/api/chat" {
                body["messages"] = json!(hello);
            }
            body[member] = json!(zone);
            let asked_before = chat.model.seen().len();
            let answer = post(&chat.address, path, body.to_string().as_bytes());
            let expected = format!("{member}: there is no time zone ");
            assert_eq!(answer.status, 400, "{}", answer.body);
            assert!(
                answer.body.contains(&expected) && answer.body.len() < 1_000,
                "{}",
                answer.body
            );
            assert_eq!(chat.model.seen().len(), asked_before);
        }
    }
    for zone in ["Europe/Atlantis", "../../etc/passwd"] {
        let mut client = VoiceClient::connect(&chat.address, &[]).await.unwrap();
        client
            .send(json!({"type": "start", "timeZone": zone}))
            .await;
        let refusal = client.expect("error").await;
        assert_eq!(refusal["code"], "bad_message");
        let said = refusal["message"].as_str().unwrap();
        assert!(
            said.starts_with("timeZone: there is no time zone "),
            "{said}"
        );
    }
    let start = json!({"type": "start", "timeZone": "Asia/Tokyo"});
    let (_client, started) = VoiceClient::start(&chat.address, start).await;
    assert_eq!(started["type"], "started");
}
