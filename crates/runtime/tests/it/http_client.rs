//! The client of models' servers: what is sent again on connections that are kept, and what is not, and how long it waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use windlass_runtime::transport::http::{HttpClient, HttpError, HttpLimits};
use windlass_runtime::transport::websocket::ConnectError;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Answers the first request of each connection, reads the second, and leaves without an answer to it.
async fn serve(mut stream: TcpStream, requests: Arc<AtomicUsize>) -> std::io::Result<()> {
    for number in 0..2 {
        let mut read = Vec::new();
        while !read.ends_with(b"body") {
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        }
        requests.fetch_add(1, Ordering::SeqCst);
        if number == 0 {
            stream.write_all(ANSWER).await?;
        }
    }
    Ok(())
}

async fn ask(client: &Arc<HttpClient>) -> Result<Vec<u8>, HttpError> {
    let answer = client.post("/", "body".into()).await?;
    Ok(answer.body.read_up_to(100).await)
}

#[tokio::test]
async fn what_was_written_on_a_kept_connection_is_not_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, counted.clone()));
        }
    });
    let client = HttpClient::new(&url, Vec::new(), HttpLimits::default()).unwrap();
    assert_eq!(ask(&client).await.unwrap(), b"ok");
    let broken = ask(&client).await.unwrap_err();
    assert!(matches!(broken, HttpError::Broken { .. }), "{broken}");
    assert_eq!(requests.load(Ordering::SeqCst), 2, "nothing came twice");
    // The next request has a connection of its own.
    assert_eq!(ask(&client).await.unwrap(), b"ok");
}

/// What a client comes to whose server answers every connection with these bytes, and then says nothing more.
async fn check(scheme: &str, answer: &'static [u8]) -> (String, Option<HttpError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("{scheme}://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        stream.write_all(answer).await.unwrap();
        std::future::pending::<()>().await;
    });
    let client = HttpClient::new(&url, Vec::new(), HttpLimits::default()).unwrap();
    let mut read = Vec::new();
    let asked = client.post("/", "body".into()).await;
    let error = async {
        let mut body = asked?.body;
        while let Some(piece) = body.next().await {
            read.extend_from_slice(&piece?);
        }
        Ok(())
    };
    let error = error.await.err();
    served.abort();
    (String::from_utf8(read).unwrap(), error)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_properly_is_given_up_in_time() {
    let host = || "127.0.0.1".to_owned();
    let silent = |seconds| HttpError::Silent {
        host: host(),
        after: Duration::from_secs(seconds),
    };
    let limits = HttpLimits::default();
    assert_eq!(limits.head_timeout, Duration::from_secs(120));
    assert_eq!(limits.idle_timeout, Duration::from_secs(60));
    for (answer, read, expected) in [
        (&b""[..], "", Some(silent(120))),
        (b"HTTP/1.1 200 OK\r\n", "", Some(silent(120))),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
            "ok",
            Some(silent(60)),
        ),
        (ANSWER, "ok", None),
    ] {
        let came_to = check("http", answer).await;
        assert_eq!(came_to, (read.to_owned(), expected));
    }
    let (_, broken) = check("http", b"no HTTP\r\n\r\n").await;
    assert!(
        matches!(&broken, Some(HttpError::Broken { problem, .. }) if problem.contains("HTTP")),
        "{broken:?}"
    );
    // What stands in the way of a connection is told as it is.
    let after = limits.connect_timeout;
    let timeout = ConnectError::Timeout {
        host: host(),
        after,
    };
    let (_, silent) = check("https", b"").await;
    assert_eq!(silent, Some(HttpError::Connect(timeout)));
    let (_, untrusted) = check("https", b"no TLS").await;
    assert!(
        matches!(
            untrusted,
            Some(HttpError::Connect(ConnectError::Tls { .. }))
        ),
        "{untrusted:?}"
    );
}
