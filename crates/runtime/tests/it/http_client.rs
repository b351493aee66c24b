//! The client of models' servers on connections that are kept: what is sent again, and what is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use windlass_runtime::transport::http::{HttpClient, HttpError, HttpLimits};

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
