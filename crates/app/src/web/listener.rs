//! Accepts connections, bounded in number and patience, and has hyper serve HTTP/1 on each. Knows no route.

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Room for the head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long a client may take to send the head of a request, and how long a connection may stay without one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// How long nothing is accepted after the system refused a connection, as it does when it has no more descriptors.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// A connection's place among those that the server holds, in the extensions of each of its requests. A connection that becomes
/// another protocol's is counted for as long as somebody has its place.
pub(crate) type Place = Arc<OwnedSemaphorePermit>;

/// Serves until `shutdown` turns true; then takes no more connections and lets the open ones finish their request.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    mut shutdown: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS)));
    loop {
        let accepted = tokio::select! {
            () = over(&mut shutdown) => return,
            accepted = accept(&listener, &places) => accepted,
        };
        match accepted {
            Ok((stream, place)) => {
                tokio::spawn(serve_one(stream, place, router.clone(), shutdown.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE_AFTER_REFUSAL).await;
            }
        }
    }
}

/// Waits until the value is true, or nobody is left to say so.
async fn over(shutdown: &mut watch::Receiver<bool>) {
    // Whether it was said or the sender is gone: it is over either way.
    let _ = shutdown.wait_for(|over| *over).await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, Place)> {
    let place = places
        .clone()
        .acquire_owned()
        .await
        .map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // Audio must not wait for the acknowledgement of the frame before it.
    stream.set_nodelay(true)?;
    Ok((stream, Arc::new(place)))
}

async fn serve_one(
    stream: TcpStream,
    place: Place,
    router: Router,
    mut shutdown: watch::Receiver<bool>,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(place.clone());
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = over(&mut shutdown) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    struct Served {
        address: SocketAddr,
        /// Lets `/slow` answer.
        gate: Arc<Notify>,
        shutdown: watch::Sender<bool>,
        accepting: JoinHandle<()>,
    }

    async fn served() -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, gate) = (listener.local_addr().unwrap(), Arc::new(Notify::new()));
        let (shutdown, is_over) = watch::channel(false);
        let passes = gate.clone();
        let slow = async move || {
            passes.notified().await;
            "slow"
        };
        let router = Router::new()
            .route("/quick", get(async || "quick"))
            .route("/slow", get(slow));
        Served {
            address,
            gate,
            shutdown,
            accepting: tokio::spawn(serve(listener, router, 8, is_over)),
        }
    }

    async fn sent(address: SocketAddr, text: &str) -> TcpStream {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(text.as_bytes()).await.unwrap();
        client
    }

    /// What the server says until it ends the connection.
    async fn rest(mut client: TcpStream) -> String {
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        said
    }

    const QUICK: &str = "GET /quick HTTP/1.1\r\nHost: here\r\n\r\n";

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_whole_head_ends_in_time() {
        let served = served().await;
        let long = format!("GET /quick HTTP/1.1\r\nX: {}", "x".repeat(20_000));
        for (text, status, seconds) in [
            ("", None, 15),
            ("GET /quick HTTP/1.1\r\nHost:", None, 15),
            (QUICK, Some("200"), 15),
            (&format!("{QUICK}GET /"), Some("200"), 15),
            (&long, Some("431"), 0),
        ] {
            let began = Instant::now();
            let said = rest(sent(served.address, text).await).await;
            assert_eq!(said.split(' ').nth(1), status, "{text:.40}: {said}");
            assert_eq!(began.elapsed().as_secs(), seconds, "{text:.40}: {said}");
        }
    }

    #[tokio::test]
    async fn a_server_that_ends_finishes_what_it_has_begun() {
        let served = served().await;
        let (idle, mut asked) = (
            sent(served.address, "").await,
            sent(served.address, QUICK).await,
        );
        let mut answer = [0; 16];
        asked.read_exact(&mut answer).await.unwrap();
        let slow = "GET /slow HTTP/1.1\r\nHost: here\r\n\r\n";
        let slow = sent(served.address, &format!("{slow}{QUICK}")).await;
        // The request has arrived when a later connection has had its answer.
        let mut later = sent(served.address, QUICK).await;
        later.read_exact(&mut answer).await.unwrap();
        served.shutdown.send_replace(true);
        served.accepting.await.unwrap();
        assert!(TcpStream::connect(served.address).await.is_err());
        assert_eq!(rest(idle).await, "");
        assert!(rest(asked).await.ends_with("quick"));
        served.gate.notify_one();
        let said = rest(slow).await;
        assert!(said.ends_with("slow"), "{said}");
    }
}
