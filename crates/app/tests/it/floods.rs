//! What one address and one user can take of the server: their share, and nothing of anybody else's. Floods come from addresses of
//! their own on this machine, bounded in number.

use crate::chat::{chat, echo, words};
use crate::support::http::{HttpAnswer, post_with};
use crate::support::program::{Running, command, folders};
use crate::support::voice_client::VoiceClient;
use crate::voice::server;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// The last byte of an address of this machine, from which somebody asks.
pub(crate) type From = u8;

pub(crate) async fn connected(address: &str, from: From) -> TcpStream {
    let address: SocketAddr = address.parse().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, from], 0).into()).unwrap();
    socket.connect(address).await.unwrap()
}

/// What the server says to a text until it ends the connection.
pub(crate) async fn said(address: &str, from: From, text: &str) -> String {
    let mut client = connected(address, from).await;
    // A server that refuses the connection may not take the request.
    let _ = client.write_all(text.as_bytes()).await;
    rest(client).await
}

async fn rest(mut client: TcpStream) -> String {
    let mut said = Vec::new();
    let _ = client.read_to_end(&mut said).await;
    String::from_utf8_lossy(&said).into_owned()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

pub(crate) fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    )
}

pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_say_half_of_what_they_want_shut_nobody_out() {
    let data = tempfile::tempdir().unwrap();
    let keys = [
        ("server.body_idle_seconds", "1"),
        ("server.head_seconds", "2"),
        ("server.connections_max", "1000"),
        ("shares.address.connections_max", "200"),
    ];
    let (_server, address) = server(data.path(), &keys).await;
    let body = format!("{}{{", head("/api/chat", 100));
    for begun in ["", "GET /health HTTP/1.1\r\nHost:", body.as_str()] {
        // Five times the server's places. One address gets a fifth of those.
        let (mut held, mut refused) = (Vec::new(), 0);
        for number in 0..1_000 {
            let mut client = connected(&address, 2).await;
            let _ = client.write_all(begun.as_bytes()).await;
            match number < 200 {
                true => held.push(client),
                false => refused += u32::from(rest(client).await.contains("Retry-After: 5")),
            }
            if number % 250 == 0 {
                let others = said(&address, 3, &get("/health")).await;
                assert_eq!(status(&others), "200", "{begun:?}");
            }
        }
        // Not every refused connection is given time to read why.
        assert!(refused > 100, "{refused} for {begun:?}");
        // The server ends them by itself, and the address has its places back.
        for client in held {
            let said = rest(client).await;
            assert!(matches!(status(&said), "none" | "408"), "{said}");
        }
        let again = said(&address, 2, &get("/health")).await;
        assert_eq!(status(&again), "200", "{begun:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_connections_of_one_address_leave_the_others_their_places() {
    let data = tempfile::tempdir().unwrap();
    let keys = [
        ("server.connections_max", "200"),
        ("shares.address.connections_max", "50"),
    ];
    let (_server, address) = server(data.path(), &keys).await;
    let mut held = Vec::new();
    for number in 0..10_000 {
        let client = connected(&address, 2).await;
        if held.len() < 100 {
            held.push(client);
        }
        if number % 1_000 == 0 {
            let others = said(&address, 3, &get("/health")).await;
            assert_eq!(status(&others), "200", "after {number}");
        }
    }
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_a_share_are_told_when_to_come_back_and_others_are_served() {
    let data = tempfile::tempdir().unwrap();
    let keys = [("shares.address.requests_per_minute_max", "20")];
    let (_server, address) = server(data.path(), &keys).await;
    let mut answers = Vec::new();
    for _ in 0..200 {
        answers.push(said(&address, 2, &get("/api/info")).await);
    }
    let served = answers.iter().filter(|answer| status(answer) == "200");
    // What comes back with time may be a few more.
    assert!((20..60).contains(&served.count()));
    let refused = answers.iter().find(|answer| status(answer) == "429");
    let refused = refused.unwrap().to_lowercase();
    assert!(refused.contains("retry-after: "), "{refused}");
    // A page that is refused can read it.
    let of_page =
        get("/api/info").replace("Connection:", "Origin: http://page.example\r\nConnection:");
    let told = loop {
        let answer = said(&address, 2, &of_page).await;
        // What comes back with time may let one in.
        if status(&answer) == "429" {
            break answer.to_lowercase();
        }
    };
    assert!(
        told.contains("access-control-allow-origin: http://page.example"),
        "{told}"
    );
    assert_eq!(status(&said(&address, 3, &get("/api/info")).await), "200");
}

fn cookie(address: &str) -> String {
    let hello = json!({"message": "Hello."}).to_string();
    let met = post_with(address, "/api/chat", &[], hello.as_bytes());
    let cookie = met.header("set-cookie").unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_a_share_of_turns_and_of_sessions() {
    let keys = [
        ("shares.user.turns_per_minute_max", "3"),
        ("shares.user.sessions_max", "1"),
    ];
    let chat = chat(echo, &keys).await;
    let (ada, bob) = (cookie(&chat.address), cookie(&chat.address));
    let ask = |cookie: &str, path: &str| -> HttpAnswer {
        let body = match path {
            "/api/chat" => json!({"message": "Who?"}),
            _ => json!({"messages": [{"role": "user", "content": "Who?"}]}),
        };
        let headers = [("Cookie", cookie)];
        post_with(&chat.address, path, &headers, body.to_string().as_bytes())
    };
    for _ in 0..3 {
        assert_eq!(words(&ask(&ada, "/api/chat")), "It is me.");
    }
    for path in ["/api/chat", "/v1/chat/completions"] {
        let refused = ask(&ada, path);
        assert_eq!(refused.status, 429, "{path}");
        let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=20).contains(&seconds), "{seconds}");
        assert!(refused.body.contains("\"overloaded\""), "{}", refused.body);
    }
    assert_eq!(ask(&bob, "/api/chat").status, 200);

    let start = async |cookie: &str| {
        let headers = [("Cookie", cookie)];
        let mut client = VoiceClient::connect(&chat.address, &headers).await.unwrap();
        client.send(json!({"type": "start"})).await;
        let answer: Value = client.answer_to_start().await;
        (client, answer)
    };
    let (_first, answer) = start(&ada).await;
    assert_eq!(answer["type"], "started");
    let (mut second, answer) = start(&ada).await;
    assert_eq!(answer["code"], "overloaded", "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("come back"));
    assert_eq!(second.expect_close().await, 1013);
    let (_others, answer) = start(&bob).await;
    assert_eq!(answer["type"], "started");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_one_address_are_held_to_a_share_of_the_memory() {
    let keys = [("shares.address.body_bytes_max", "100000")];
    let chat = chat(echo, &keys).await;
    let begun = format!("{}{}", head("/api/chat", 200_000), " ".repeat(90_000));
    let message = json!({"message": "Who?"}).to_string();
    let body = format!("{message}{}", " ".repeat(20_000 - message.len()));
    let request = format!("{}{body}", head("/api/chat", body.len()));
    let half = loop {
        // There is room for one of the two, and either may come first: the one that comes second is refused.
        let mut half = connected(&chat.address, 2).await;
        half.write_all(begun.as_bytes()).await.unwrap();
        let said = said(&chat.address, 2, &request).await;
        if status(&said) == "429" {
            assert!(said.to_lowercase().contains("retry-after: 5"), "{said}");
            break half;
        }
        assert_eq!(status(&said), "200");
    };
    let others = said(&chat.address, 3, &request).await;
    assert_eq!(status(&others), "200", "{others}");
    drop(half);
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_headers_queries_and_cookies_cost_their_sender_an_answer() {
    let data = tempfile::tempdir().unwrap();
    let (_server, address) = server(data.path(), &[]).await;
    let flood = |line: &str, times: usize| line.repeat(times);
    let cookies = format!("Cookie: {}\r\n", flood("windlass_client=a.b; ", 600));
    for (what, request, expected) in [
        (
            "headers",
            format!(
                "GET /health HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
                flood("X: y\r\n", 200)
            ),
            "431",
        ),
        (
            "bytes",
            format!(
                "GET /health HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
                flood("y", 20_000)
            ),
            "431",
        ),
        (
            "query",
            format!(
                "GET /health?{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
                flood("a=b&", 10_000)
            ),
            "431",
        ),
        (
            "cookies",
            format!(
                "GET /api/conversations/c HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{cookies}\r\n"
            ),
            "404",
        ),
        (
            "hosts",
            format!(
                "GET /health HTTP/1.1\r\n{}Connection: close\r\n\r\n",
                flood("Host: localhost\r\n", 3)
            ),
            "421",
        ),
    ] {
        let answer = said(&address, 2, &request).await;
        assert_eq!(status(&answer), expected, "{what}: {answer}");
    }
    assert_eq!(status(&said(&address, 2, &get("/health")).await), "200");
}

/// Bytes of memory that a process has.
fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1_024
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_at_ten_times_the_limits_leaves_other_sessions_and_the_memory_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path());
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--provider", "demo"])
        .args(["--text-provider", "demo"])
        .args(folders(&folder.path().join("data")))
        .env("WINDLASS_SHARES_ADDRESS_CONNECTIONS_MAX", "40")
        .env("WINDLASS_SHARES_ADDRESS_REQUESTS_PER_MINUTE_MAX", "200")
        .env("WINDLASS_SHARES_ADDRESS_BODY_BYTES_MAX", "1000000")
        .env("WINDLASS_SERVER_CONNECTIONS_MAX", "400");
    let mut running = Running::start(&mut command);
    let address = running.address();
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    client.say("Who designed the ship Fram?").await;
    client.expect("turn_complete").await;
    let before = memory(running.id());

    let flood = tokio::spawn({
        let address = address.clone();
        async move {
            let mut held = Vec::new();
            for number in 0..400 {
                let mut client = connected(&address, 2).await;
                // Bodies that are announced at length and begun.
                let begun = format!("{}{}", head("/api/chat", 5 << 20), "x".repeat(100_000));
                let _ = client.write_all(begun.as_bytes()).await;
                held.push(client);
                for _ in 0..5 {
                    said(&address, 3, &get("/api/info")).await;
                }
                if number % 10 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            held
        }
    });
    let mut turns = 0;
    while !flood.is_finished() || turns < 5 {
        client.say("Thank you").await;
        client.expect("turn_complete").await;
        turns += 1;
    }
    let held = flood.await.unwrap();
    let after = memory(running.id());
    assert!(after < before + (64 << 20), "{before} bytes, then {after}");
    drop(held);
    assert_eq!(status(&said(&address, 4, &get("/health")).await), "200");
}
