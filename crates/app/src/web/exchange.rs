//! Requests and answers on one connection, until it rests or becomes another protocol's. Gives the room of the HTTP machine
//! back as soon as the connection rests: most connections do nothing most of the time. Knows no route.

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// Room for the head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A connection between two requests: its socket, and what was read of the next one already.
pub(super) struct Resting {
    pub(super) stream: TcpStream,
    pub(super) already_read: Bytes,
    /// Its place among the connections that the server holds.
    pub(super) place: OwnedSemaphorePermit,
}

/// How far the request and its answer have come.
#[derive(Default)]
struct Marks {
    /// The request was read to its end.
    is_received: AtomicBool,
    /// The answer was written to its end.
    is_answered: AtomicBool,
    /// Everything that was written has left.
    is_flushed: AtomicBool,
    /// Who waits for the connection to become another protocol's.
    upgrade: Mutex<Option<oneshot::Sender<Raw>>>,
}

/// A socket that is no HTTP any more, and what was read of it already.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    pub(crate) already_read: Vec<u8>,
    /// Its place among the connections that the server holds, for as long as it is to be counted there.
    pub(crate) place: OwnedSemaphorePermit,
}

/// In a request's extensions: the way to the socket beneath it.
#[derive(Clone)]
struct Beneath(Arc<Marks>);

/// The socket beneath a request, once the answer has said that the protocol changes. Nothing comes where the connection ends
/// before.
pub(crate) fn upgraded<B>(request: &mut Request<B>) -> oneshot::Receiver<Raw> {
    let (sender, receiver) = oneshot::channel();
    if let Some(Beneath(marks)) = request.extensions_mut().remove() {
        *marks.upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
    }
    receiver
}

/// Serves requests until the connection rests; `None` where it has ended. `over` is ready when the server ends: then the
/// request that is being answered is the last. In memory of its own, so that a connection that rests is without it.
pub(super) fn serve<'a, S, F, B>(
    resting: Resting,
    service: &'a S,
    head_timeout: Duration,
    over: impl Future<Output = ()> + Send + 'a,
) -> Pin<Box<dyn Future<Output = Option<Resting>> + Send + 'a>>
where
    S: Fn(Request<Received>) -> F + Sync,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    Box::pin(serve_here(resting, service, head_timeout, over))
}

async fn serve_here<S, F, B>(
    resting: Resting,
    service: &S,
    head_timeout: Duration,
    over: impl Future<Output = ()>,
) -> Option<Resting>
where
    S: Fn(Request<Received>) -> F,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let marks = Arc::new(Marks::default());
    let seen = &marks;
    let service = service_fn(move |request: Request<Incoming>| {
        let response = service(seen.begin(request));
        let marks = seen.clone();
        Box::pin(async move {
            let answer = response.await.map(|body| Answer { body, marks });
            Ok::<_, Infallible>(answer)
        })
    });
    let socket = Socket::new(resting, marks.clone());
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(socket, service);
    let ended_or_rests = poll_fn(|context| match connection.poll_without_shutdown(context) {
        Poll::Pending if marks.is_at_rest() => Poll::Ready(None),
        progress => progress.map(Some),
    });
    let ended = tokio::select! {
        ended = ended_or_rests => ended,
        () = over => {
            Pin::new(&mut connection).graceful_shutdown();
            Some(poll_fn(|context| connection.poll_without_shutdown(context)).await)
        }
    };
    let (ended, rests) = match ended {
        Some(ended) => (ended, false),
        None => {
            Pin::new(&mut connection).graceful_shutdown();
            // One that rests ends at once and without a word to the client; another ends for good when it has done its work.
            let ending = poll_fn(|context| Poll::Ready(connection.poll_without_shutdown(context)));
            match ending.await {
                Poll::Ready(ended) => (ended, true),
                Poll::Pending => {
                    let ending = poll_fn(|context| connection.poll_without_shutdown(context));
                    (ending.await, false)
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
        return None;
    }
    let parts = connection.into_parts();
    let resting = parts.io.rest(parts.read_buf);
    if rests {
        return Some(resting);
    }
    part_from(resting, marks.take_upgrade()).await;
    None
}

/// A connection that is no HTTP any more: it goes to whoever asked for it, or ends.
async fn part_from(resting: Resting, wanted: Option<oneshot::Sender<Raw>>) {
    let Resting {
        mut stream,
        already_read,
        place,
    } = resting;
    match wanted {
        // Whoever asked for it may have left.
        Some(wanted) => drop(wanted.send(Raw {
            stream,
            already_read: already_read.to_vec(),
            place,
        })),
        // The client may be gone already.
        None => drop(tokio::io::AsyncWriteExt::shutdown(&mut stream).await),
    }
}

impl Marks {
    /// Hands a request on, whose end and whose answer's end are noted.
    fn begin(self: &Arc<Self>, request: Request<Incoming>) -> Request<Received> {
        self.is_answered.store(false, Ordering::Relaxed);
        self.writes();
        let is_received = request.body().is_end_stream();
        self.is_received.store(is_received, Ordering::Relaxed);
        let mut request = request.map(|body| Received {
            body,
            marks: self.clone(),
        });
        request.extensions_mut().insert(Beneath(self.clone()));
        request
    }

    fn writes(&self) {
        self.is_flushed.store(false, Ordering::Relaxed);
    }

    /// Nothing of a request and nothing of an answer is under way. A body that nobody has read to its end does not count as
    /// received, so that its rest cannot be taken for a request.
    fn is_at_rest(&self) -> bool {
        [&self.is_received, &self.is_answered, &self.is_flushed]
            .iter()
            .all(|mark| mark.load(Ordering::Relaxed))
    }

    fn take_upgrade(&self) -> Option<oneshot::Sender<Raw>> {
        let mut wanted = self.upgrade.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.take()
    }
}

/// The body of a request.
pub(crate) struct Received {
    body: Incoming,
    marks: Arc<Marks>,
}

impl Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.marks.is_received.store(true, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, which is dropped when all of it was taken.
struct Answer<B> {
    body: B,
    marks: Arc<Marks>,
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Answer<B> {
    fn drop(&mut self) {
        self.marks.is_answered.store(true, Ordering::Relaxed);
    }
}

/// A socket, before whose bytes come those that were read already.
struct Socket {
    stream: TokioIo<TcpStream>,
    already_read: Bytes,
    place: OwnedSemaphorePermit,
    marks: Arc<Marks>,
}

impl Socket {
    fn new(resting: Resting, marks: Arc<Marks>) -> Self {
        Self {
            stream: TokioIo::new(resting.stream),
            already_read: resting.already_read,
            place: resting.place,
            marks,
        }
    }

    fn rest(self, read: Bytes) -> Resting {
        let mut already_read = BytesMut::from(&read[..]);
        already_read.extend_from_slice(&self.already_read);
        Resting {
            stream: self.stream.into_inner(),
            already_read: already_read.freeze(),
            place: self.place,
        }
    }
}

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.already_read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, room);
        }
        let count = self.already_read.len().min(room.remaining());
        room.put_slice(&self.already_read.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.marks.writes();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.marks.is_flushed.store(true, Ordering::Relaxed);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.marks.writes();
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }
}
