//! Opening connections, over real sockets, against peers that answer as they should and as they should not.

use futures_util::{SinkExt, StreamExt};
use std::future::poll_fn;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite;
use windlass_runtime::transport::websocket::{
    ConnectError, Message, MessageLimits, Socket, SocketLimits, Target, connect,
};

const LIMITS: SocketLimits = SocketLimits {
    messages: MessageLimits {
        text_bytes_max: 1 << 20,
        binary_bytes_max: 1 << 20,
    },
    queued_audio_bytes_max: 1 << 20,
    queued_bytes_max: 1 << 20,
};

/// The error of connecting to a server that reads one request and answers with these bytes.
async fn refused(answer: &'static str) -> ConnectError {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4_096];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(answer.as_bytes()).await;
    });
    let target = Target {
        url: format!("ws://{address}/live?key=secret"),
        headers: Vec::new(),
    };
    connect(&target, LIMITS, Duration::from_secs(20))
        .await
        .err()
        .expect("the server refuses")
}

#[tokio::test]
async fn an_upgrade_that_is_refused_says_how() {
    for (answer, status) in [
        ("HTTP/1.1 401 Unauthorized\r\n\r\n", 401),
        ("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno", 403),
        ("HTTP/1.1 429 Too Many Requests\r\n\r\n", 429),
        ("HTTP/1.1 200 OK\r\n\r\n", 200),
    ] {
        let error = refused(answer).await;
        let host = "127.0.0.1".to_owned();
        assert_eq!(error, ConnectError::Refused { host, status });
    }
}

#[tokio::test]
async fn an_answer_that_is_no_upgrade_is_named() {
    for answer in [
        "",
        "hello there\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
    ] {
        let error = refused(answer).await;
        assert!(matches!(error, ConnectError::Upgrade { .. }), "{error}");
        assert!(!error.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn an_address_that_leads_nowhere_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    for (url, expected) in [
        (
            "http://localhost/".to_owned(),
            "the address is no ws:// or wss:// URL",
        ),
        (
            "localhost:1".to_owned(),
            "the address is no ws:// or wss:// URL",
        ),
        (
            "ws://user:key@localhost/".to_owned(),
            "the address is no ws:// or wss:// URL",
        ),
        ("ws://".to_owned(), "the address is no ws:// or wss:// URL"),
        (
            "ws://nowhere.invalid/".to_owned(),
            "nowhere.invalid cannot be found",
        ),
        (format!("ws://{closed}/"), "127.0.0.1:"),
    ] {
        let target = Target {
            url: url.clone(),
            headers: Vec::new(),
        };
        let error = connect(&target, LIMITS, Duration::from_secs(20))
            .await
            .err()
            .expect("nobody is there");
        let text = error.to_string();
        assert!(text.starts_with(expected), "{url}: {text}");
        assert!(!text.contains("key@"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_costs_no_more_than_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target {
        url: format!("ws://{}/", listener.local_addr().unwrap()),
        headers: Vec::new(),
    };
    let after = Duration::from_secs(10);
    let error = connect(&target, LIMITS, after).await.err();
    let host = "127.0.0.1".to_owned();
    assert_eq!(error, Some(ConnectError::Timeout { host, after }));
}

/// Reads one text message.
async fn read(socket: &mut Socket) -> String {
    loop {
        let mut reading = poll_fn(|context| socket.poll_read(context)).await.unwrap();
        let text = match reading.next_message().unwrap() {
            Some(Message::Text(text)) => Some(String::from_utf8_lossy(&text).into_owned()),
            _ => None,
        };
        socket.finish(reading);
        if let Some(text) = text {
            return text;
        }
    }
}

#[tokio::test]
async fn messages_of_every_size_pass_to_another_implementation_and_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut server = tokio_tungstenite::accept_async(stream).await.unwrap();
        while let Some(Ok(message)) = server.next().await {
            if let tungstenite::Message::Text(text) = message {
                server.send(tungstenite::Message::Text(text)).await.unwrap();
            }
        }
    });
    let target = Target {
        url,
        headers: Vec::new(),
    };
    let mut socket = connect(&target, LIMITS, Duration::from_secs(20))
        .await
        .unwrap();
    for size in [0, 1, 125, 126, 4_096, 65_535, 65_536, 300_000] {
        let text = "é".repeat(size / 2) + &"x".repeat(size % 2);
        socket
            .send_text(|bytes| bytes.extend_from_slice(text.as_bytes()))
            .unwrap();
        poll_fn(|context| socket.poll_flush(context)).await.unwrap();
        assert_eq!(read(&mut socket).await, text, "{size}");
    }
}

#[test]
fn a_target_prints_neither_its_query_nor_its_headers() {
    let target = Target {
        url: "wss://host/path?key=secret".into(),
        headers: Vec::new(),
    };
    assert_eq!(format!("{target:?}"), "Target(wss://host/path)");
}
