//! The limits on a client's time: for the body of its request, for reading the answer, and for a whole request. Knows no route and no
//! share.

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use std::any::Any;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// The deadlines of a connection over HTTP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// The time for the head of a request, and for the pause before it.
    pub(crate) head: Duration,
    /// The time for a whole body.
    pub(crate) body: Duration,
    /// Between two pieces of a body.
    pub(crate) body_idle: Duration,
    /// The time within which a client has to take some of the waiting bytes.
    pub(crate) write: Duration,
    /// The time from the head of a request to the end of its answer.
    pub(crate) request: Duration,
}

/// Why a body was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooSlow {
    #[error("the body of the request came too slowly")]
    Body,
    #[error("the request took longer than server.request_seconds")]
    Request,
}

impl TooSlow {
    /// Whether an error comes of a body that was given up.
    pub(crate) fn is(error: &(dyn Error + 'static)) -> bool {
        let mut error = Some(error);
        while let Some(inner) = error {
            if inner.is::<Self>() {
                return true;
            }
            error = inner.source();
        }
        false
    }
}

/// A deadline that costs nothing until something is waited for.
#[derive(Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    fn poll(&mut self, context: &mut Context<'_>, until: impl FnOnce() -> Instant) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(until())));
        sleep.as_mut().poll(context)
    }

    fn disarm(&mut self) {
        self.0 = None;
    }
}

/// The socket of a client that has to read its answer in time.
pub(crate) struct PatientStream {
    stream: TcpStream,
    write: Duration,
    alarm: Alarm,
}

impl PatientStream {
    pub(crate) fn new(stream: TcpStream, write: Duration) -> Self {
        Self {
            stream,
            write,
            alarm: Alarm::default(),
        }
    }

    pub(crate) fn into_inner(self) -> TcpStream {
        self.stream
    }

    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.alarm.disarm();
            return written;
        }
        let write = self.write;
        ready!(self.alarm.poll(context, || Instant::now() + write));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for PatientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PatientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The body of a request, which has to come.
pub(super) struct ComingBody {
    body: Incoming,
    idle: Duration,
    until: Instant,
    alarm: Alarm,
}

impl ComingBody {
    pub(super) fn new(body: Incoming, patience: Patience) -> Self {
        Self {
            body,
            idle: patience.body_idle,
            until: Instant::now() + patience.body,
            alarm: Alarm::default(),
        }
    }
}

impl HttpBody for ComingBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.alarm.disarm();
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let (idle, until) = (self.idle, self.until);
        ready!(
            self.alarm
                .poll(context, || until.min(Instant::now() + idle))
        );
        Poll::Ready(Some(Err(TooSlow::Body.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Holdings that are released once an answer has been sent. They travel in the answer's extensions.
#[derive(Clone)]
pub(super) struct WhileAnswering {
    _held: Arc<dyn Any + Send + Sync>,
}

impl WhileAnswering {
    pub(super) fn hold(held: impl Any + Send + Sync) -> Self {
        Self {
            _held: Arc::new(held),
        }
    }
}

/// The body of an answer, which ends with its request's time.
pub(super) struct EndingBody {
    body: Body,
    until: Instant,
    alarm: Alarm,
    _held: Option<WhileAnswering>,
}

impl EndingBody {
    pub(super) fn new(body: Body, until: Instant, held: Option<WhileAnswering>) -> Self {
        Self {
            body,
            until,
            alarm: Alarm::default(),
            _held: held,
        }
    }
}

impl HttpBody for EndingBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let until = self.until;
        ready!(self.alarm.poll(context, || until));
        Poll::Ready(Some(Err(TooSlow::Request.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
