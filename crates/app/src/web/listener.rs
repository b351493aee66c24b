//! Accepts connections and serves HTTP/1 on them, bounded in number and patience. Knows no route.

use super::exchange::{self, Received, Resting};
use bytes::Bytes;
use http::{Request, Response};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// How long a client may take to send the head of a request, and how long a connection may stay without one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// How long nothing is accepted after the system refused a connection, as it does when it has no more descriptors.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// Serves until `shutdown` turns true; then takes no more connections and lets the open ones finish their request.
pub(crate) async fn serve<S, F, B>(
    listener: TcpListener,
    service: S,
    connections_max: usize,
    mut shutdown: watch::Receiver<bool>,
) where
    S: Fn(Request<Received>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: hyper::body::Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let places = Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS)));
    loop {
        let accepted = tokio::select! {
            () = over(&mut shutdown) => return,
            accepted = accept(&listener, &places) => accepted,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE_AFTER_REFUSAL).await;
                continue;
            }
        };
        let (service, shutdown) = (service.clone(), shutdown.clone());
        tokio::spawn(async move {
            let resting = Resting {
                stream,
                already_read: Bytes::new(),
                place,
            };
            serve_one(resting, service, shutdown).await;
        });
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
) -> std::io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = places
        .clone()
        .acquire_owned()
        .await
        .map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // Audio must not wait for the acknowledgement of the frame before it.
    stream.set_nodelay(true)?;
    Ok((stream, place))
}

async fn serve_one<S, F, B>(resting: Resting, service: S, mut shutdown: watch::Receiver<bool>)
where
    S: Fn(Request<Received>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: hyper::body::Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut next = Some(resting);
    while let Some(resting) = next {
        if resting.already_read.is_empty() && !wakes(&resting.stream, &mut shutdown).await {
            return;
        }
        next = exchange::serve(resting, &service, HEAD_TIMEOUT, over(&mut shutdown)).await;
    }
}

/// Waits for the next request without room for it; false where none comes in time, or the server ends.
async fn wakes(stream: &TcpStream, shutdown: &mut watch::Receiver<bool>) -> bool {
    let mut byte = [0];
    tokio::select! {
        biased;
        () = over(shutdown) => false,
        // A socket that has just been accepted may be called readable without being so; the byte stays where it is.
        looked = tokio::time::timeout(HEAD_TIMEOUT, stream.peek(&mut byte)) => matches!(looked, Ok(Ok(_))),
    }
}
