//! Blocks of users where the server is killed: what its client was told of holds in the next process, under each of the names
//! that the user had.

use crate::support::http::post_with;
use crate::support::program::{Running, command, folders};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::path::Path;

/// The moment between the words and the disk is short, so that one attempt shows little.
const KILLS: u32 = 4;

fn serve(folder: &Path) -> (Running, String) {
    let mut command = command(folder);
    command
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(folders(&folder.join("data")));
    let mut server = Running::start(&mut command);
    let address = server.address();
    (server, address)
}

/// The id that the server gives to a browser that has none.
fn cookie(address: &str) -> String {
    let origin = format!("http://{address}");
    let hello = json!({"message": "Hello."}).to_string();
    let headers = [("Origin", origin.as_str())];
    let met = post_with(address, "/api/chat", &headers, hello.as_bytes());
    let cookie = met.header("set-cookie").unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

/// What a session that such a client wants begins with.
async fn told(address: &str, cookie: Option<&str>, user: &str) -> Value {
    let headers: Vec<(&str, &str)> = cookie.iter().map(|cookie| ("Cookie", *cookie)).collect();
    let mut client = VoiceClient::connect(address, &headers).await.unwrap();
    client.send(json!({"type": "start", "userId": user})).await;
    client.expect("timeout").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_the_client_was_told_of_outlasts_a_kill_under_both_names() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, mut address) = serve(folder.path());
    for round in 0..KILLS {
        let user = format!("rude-{round}");
        let cookie = cookie(&address);
        let headers = [("Cookie", cookie.as_str())];
        let mut client = VoiceClient::connect(&address, &headers).await.unwrap();
        client.send(json!({"type": "start", "userId": user})).await;
        client.expect("started").await;
        client
            .say("call ignore_user {\"duration_seconds\": 3600, \"farewell_message\": \"Enough.\"}")
            .await;
        let block = client.expect("timeout").await;
        server.kill();
        (server, address) = serve(folder.path());
        for (cookie, user) in [(None, user.as_str()), (Some(cookie.as_str()), "kind")] {
            let told = told(&address, cookie, user).await;
            assert_eq!(told["timeoutUntil"], block["timeoutUntil"], "{user}");
            assert_eq!(told["farewellMessage"], "Enough.");
        }
        // A program that speaks for its user by name gets no further.
        for (user, status) in [(user.as_str(), 403), ("kind", 200)] {
            let body = json!({"model": "any", "user": user,
                "messages": [{"role": "user", "content": "Hello."}]});
            let answer = post_with(
                &address,
                "/v1/chat/completions",
                &[],
                body.to_string().as_bytes(),
            );
            assert_eq!(answer.status, status, "{user}: {}", answer.body);
        }
    }
    server.kill();
}
