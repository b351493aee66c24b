//! Blocks: what a client was told of holds in the next process, under each name that it gives itself, and for nobody who has not
//! proven to be the same.

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
async fn told(address: &str, cookie: &str, user: &str) -> Value {
    let headers = [("Cookie", cookie)];
    let mut client = VoiceClient::connect(address, &headers).await.unwrap();
    client.send(json!({"type": "start", "userId": user})).await;
    client.expect("timeout").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_outlasts_a_kill_under_every_name_and_is_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, mut address) = serve(folder.path());
    for round in 0..KILLS {
        let user = format!("rude-{round}");
        let (cookie, victims) = (cookie(&address), cookie(&address));
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
        for user in [user.as_str(), "kind"] {
            let told = told(&address, &cookie, user).await;
            assert_eq!(told["timeoutUntil"], block["timeoutUntil"], "{user}");
            assert_eq!(told["farewellMessage"], "Enough.");
        }
        // A claimed name proves nothing, so that nobody is shut out by another client that claimed their name.
        for (cookie, status) in [(&cookie, 403), (&victims, 200)] {
            let body = json!({"model": "any", "user": user,
                "messages": [{"role": "user", "content": "Hello."}]});
            let answer = post_with(
                &address,
                "/v1/chat/completions",
                &[("Cookie", cookie.as_str())],
                body.to_string().as_bytes(),
            );
            assert_eq!(answer.status, status, "{}", answer.body);
        }
        let victims = [("Cookie", victims.as_str())];
        let mut client = VoiceClient::connect(&address, &victims).await.unwrap();
        client.send(json!({"type": "start", "userId": user})).await;
        client.expect("started").await;
    }
    server.kill();
}
