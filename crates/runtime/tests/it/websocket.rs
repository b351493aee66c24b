//! Opening connections, over real sockets, against peers that answer as they should and as they should not.

use futures_util::{SinkExt, StreamExt};
use std::future::poll_fn;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite;
use windlass_runtime::codec::lost_reason;
use windlass_runtime::transport::websocket::{
    ConnectError, Message, MessageLimits, Socket, SocketLimits, Target, connect,
};
use windlass_session::model::LostReason;

const LIMITS: SocketLimits = SocketLimits {
    messages: MessageLimits {
        text_bytes_max: 1 << 20,
        binary_bytes_max: 1 << 20,
    },
    queued_audio_bytes_max: 1 << 20,
    queued_bytes_max: 1 << 20,
};

/// The error of connecting to a server that reads one request and answers with these pieces, each after the one before.
async fn refused_in(pieces: Vec<String>, is_left_open: bool) -> ConnectError {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut request = [0; 4_096];
        let _ = stream.read(&mut request).await;
        for piece in pieces {
            let _ = stream.write_all(piece.as_bytes()).await;
            tokio::task::yield_now().await;
        }
        is_left_open.then_some(stream)
    });
    let target = Target {
        url: format!("ws://{address}/live?key=secret"),
        headers: Vec::new(),
    };
    let error = connect(&target, LIMITS, Duration::from_secs(20))
        .await
        .err()
        .expect("the server refuses");
    // The server's side of the connection has to live for as long as the client's.
    drop(server.await);
    error
}

async fn refused(answer: &str) -> ConnectError {
    refused_in(vec![answer.to_owned()], false).await
}

#[tokio::test]
async fn an_upgrade_that_is_refused_says_how() {
    for (answer, status, said) in [
        ("HTTP/1.1 401 Unauthorized\r\n\r\n", 401, ""),
        (
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno!",
            403,
            "no",
        ),
        ("HTTP/1.1 429 Too Many Requests\r\n\r\nlater", 429, "later"),
        ("HTTP/1.1 200 OK\r\n\r\n", 200, ""),
    ] {
        let error = refused(answer).await;
        let host = "127.0.0.1".to_owned();
        let body = said.as_bytes().to_vec().into();
        assert_eq!(error, ConnectError::Refused { host, status, body });
    }
}

/// What Google answers where the key is wrong.
const KEY_NOT_VALID: &str = r#"{
  "error": {
    "code": 400,
    "message": "API key not valid. Please pass a valid API key.",
    "status": "INVALID_ARGUMENT",
    "details": [
      {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com"
      }
    ]
  }
}"#;

#[tokio::test]
async fn a_key_that_is_refused_as_a_bad_request_is_known_as_that() {
    let head = "HTTP/1.1 400 Bad Request\r\n";
    let length = format!("{head}content-length: {}\r\n\r\n", KEY_NOT_VALID.len());
    let (first, second) = KEY_NOT_VALID.split_at(40);
    let chunks = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:x}\r\n",
        first.len(),
        second.len()
    );
    for (pieces, is_left_open) in [
        (vec![format!("{length}{KEY_NOT_VALID}")], true),
        (vec![length, first.to_owned(), second.to_owned()], true),
        (
            vec![
                chunks,
                second.to_owned(),
                "\r\n0\r\n".to_owned(),
                "\r\n".to_owned(),
            ],
            true,
        ),
        (vec![format!("{head}\r\n{first}"), second.to_owned()], false),
    ] {
        let error = refused_in(pieces.clone(), is_left_open).await;
        assert_eq!(lost_reason(&error), LostReason::Unauthorized, "{pieces:?}");
        assert!(!format!("{error} {error:?}").contains("API"), "{error:?}");
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
