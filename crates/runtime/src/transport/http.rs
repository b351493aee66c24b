//! A client of one HTTP/1.1 server: posts a body and hands over what comes back piece by piece, on connections that are
//! kept for the next request. Owns addresses, headers, patience and limits; never shows a header's value, because keys
//! travel there. Knows nothing of what is posted.

use super::Stream;
use super::websocket::{Address, ConnectError, open};
use http::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Uri};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long each stage of a request may take, and how much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    pub connect_timeout: Duration,
    /// From the request to the head of its answer.
    pub head_timeout: Duration,
    /// Between two pieces of a body.
    pub idle_timeout: Duration,
    /// Connections that wait for a next request.
    pub kept_connections_max: usize,
    /// How long they wait.
    pub kept_for: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(120),
            idle_timeout: Duration::from_secs(60),
            kept_connections_max: 512,
            kept_for: Duration::from_secs(50),
        }
    }
}

/// Room for the head of an answer.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a body that are handed over as one piece, where so many are there. A frame may be longer.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// Why there is no answer, or no more of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{host} did not answer the request properly: {problem}")]
    Broken { host: String, problem: String },
    #[error("{host} said nothing for {} s", .after.as_secs())]
    Silent { host: String, after: Duration },
    #[error("the path {path:?} cannot be asked for")]
    Path { path: String },
}

/// One server, with the headers that every request to it carries.
pub struct HttpClient {
    address: Address,
    headers: HeaderMap,
    limits: HttpLimits,
    kept: Mutex<Vec<Kept>>,
}

struct Kept {
    line: Line,
    since: Instant,
}

/// A connection. Its own future is polled by whoever waits for an answer on it, so that it needs no task of its own.
struct Line {
    sender: SendRequest<Posted>,
    connection: Pin<Box<Connection>>,
    is_over: bool,
}

/// A request that was not answered.
struct Unanswered {
    /// The request, where nothing of it was written.
    request: Option<Request<Posted>>,
    error: HttpError,
}

type Connection = http1::Connection<TokioIo<Box<dyn Stream>>, Posted>;

impl fmt::Debug for HttpClient {
    /// Without headers: they may hold keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HttpClient({})", self.address.host_header)
    }
}

/// The head of an answer, and the way to its body.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: AnswerBody,
}

/// The pieces of an answer's body, as they come.
pub struct AnswerBody {
    client: Arc<HttpClient>,
    line: Option<Line>,
    incoming: Incoming,
    /// How it has ended, where bytes came together with the end that are not taken yet.
    ended: Option<Option<hyper::Error>>,
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AnswerBody({})", self.client.address.host_header)
    }
}

impl HttpClient {
    /// A client of the server at an `http://` or `https://` URL, whose path stands before that of every request.
    ///
    /// # Errors
    ///
    /// A URL of another scheme, or without a host.
    pub fn new(
        url: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
        limits: HttpLimits,
    ) -> Result<Arc<Self>, ConnectError> {
        let address = Address::of_schemes(url, ["http", "https"])?;
        let mut all = HeaderMap::with_capacity(headers.len() + 2);
        let host = HeaderValue::from_str(&address.host_header);
        all.insert(HOST, host.expect("an authority is fit for a header"));
        all.extend(headers);
        Ok(Arc::new(Self {
            address,
            headers: all,
            limits,
            kept: Mutex::new(Vec::new()),
        }))
    }

    /// Posts a body to a path beneath the client's own and waits for the head of the answer.
    ///
    /// # Errors
    ///
    /// No connection, no answer within its time, or one that is no HTTP.
    pub async fn post(self: &Arc<Self>, path: &str, body: Bytes) -> Result<Answer, HttpError> {
        let mut request = self.request(path, body)?;
        if let Some(line) = self.take_kept().await {
            match self.ask(line, request).await {
                Ok(answer) => return Ok(answer),
                // The server had left before anything of the request was written, so that it cannot be served twice.
                Err(Unanswered {
                    request: Some(unwritten),
                    ..
                }) => request = unwritten,
                Err(Unanswered { error, .. }) => return Err(error),
            }
        }
        let line = self.connect().await?;
        let answer = self.ask(line, request).await;
        answer.map_err(|unanswered| unanswered.error)
    }

    async fn connect(&self) -> Result<Line, HttpError> {
        let after = self.limits.connect_timeout;
        let opening = async {
            let stream = open(&self.address).await?;
            http1::Builder::new()
                .max_buf_size(HEAD_BYTES_MAX)
                .handshake(TokioIo::new(stream))
                .await
                .map_err(|error| self.broken(&error))
        };
        let opened = timeout(after, opening).await.map_err(|_| {
            let host = self.address.host.clone();
            HttpError::Connect(ConnectError::Timeout { host, after })
        })?;
        let (sender, connection) = opened?;
        Ok(Line {
            sender,
            connection: Box::pin(connection),
            is_over: false,
        })
    }

    async fn ask(
        self: &Arc<Self>,
        mut line: Line,
        request: Request<Posted>,
    ) -> Result<Answer, Unanswered> {
        let mut sending = std::pin::pin!(line.sender.try_send_request(request));
        let (connection, is_over) = (&mut line.connection, &mut line.is_over);
        let head = poll_fn(|context| {
            if let Poll::Ready(head) = sending.as_mut().poll(context) {
                return Poll::Ready(head);
            }
            if !*is_over && connection.as_mut().poll(context).is_ready() {
                *is_over = true;
            }
            sending.as_mut().poll(context)
        });
        let head = match timeout(self.limits.head_timeout, head).await {
            Ok(head) => head.map_err(|mut refused| Unanswered {
                request: refused.take_message(),
                error: self.broken(refused.error()),
            })?,
            Err(_) => {
                return Err(Unanswered {
                    request: None,
                    error: self.silent(self.limits.head_timeout),
                });
            }
        };
        let (head, incoming) = head.into_parts();
        Ok(Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: AnswerBody {
                client: self.clone(),
                line: Some(line),
                incoming,
                ended: None,
            },
        })
    }

    fn request(&self, path: &str, body: Bytes) -> Result<Request<Posted>, HttpError> {
        let whole = format!("{}{path}", self.address.path.trim_end_matches('/'));
        let uri: Uri = whole.parse().map_err(|_| HttpError::Path {
            path: whole.clone(),
        })?;
        let length = body.len();
        let mut request = Request::new(Posted(Some(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        request.headers_mut().clone_from(&self.headers);
        request.headers_mut().insert(CONTENT_LENGTH, length.into());
        Ok(request)
    }

    /// A kept connection that is still good.
    async fn take_kept(&self) -> Option<Line> {
        loop {
            let kept = self.lock().pop()?;
            if kept.since.elapsed() > self.limits.kept_for {
                // The others have waited for longer.
                self.lock().clear();
                return None;
            }
            let mut line = kept.line;
            let is_ready = poll_fn(|context| {
                // Whoever reads nothing does not learn that the server has left.
                let is_over = line.connection.as_mut().poll(context).is_ready();
                Poll::Ready(!is_over && line.sender.is_ready())
            });
            if is_ready.await {
                return Some(line);
            }
        }
    }

    fn keep(&self, line: Line) {
        let mut kept = self.lock();
        if kept.len() < self.limits.kept_connections_max {
            kept.push(Kept {
                line,
                since: Instant::now(),
            });
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broken(&self, error: &hyper::Error) -> HttpError {
        HttpError::Broken {
            host: self.address.host.clone(),
            problem: error.to_string(),
        }
    }

    fn silent(&self, after: Duration) -> HttpError {
        HttpError::Silent {
            host: self.address.host.clone(),
            after,
        }
    }
}

impl AnswerBody {
    /// The next piece, with what has come behind it already; `None` at the body's end. May be dropped while it waits, and
    /// asked again.
    ///
    /// # Errors
    ///
    /// The connection broke, or nothing came for too long. Nothing comes after that.
    pub async fn next(&mut self) -> Option<Result<Bytes, HttpError>> {
        let after = self.client.limits.idle_timeout;
        let Ok(piece) = timeout(after, poll_fn(|context| self.poll_piece(context))).await else {
            self.line = None;
            return Some(Err(self.client.silent(after)));
        };
        match piece {
            Some(Ok(bytes)) => Some(Ok(bytes)),
            Some(Err(error)) => {
                self.line = None;
                Some(Err(self.client.broken(&error)))
            }
            None => {
                self.give_back().await;
                None
            }
        }
    }

    /// Reads all of a body that is not worth more than so many bytes.
    pub async fn read_up_to(mut self, bytes_max: usize) -> Vec<u8> {
        let mut read = Vec::new();
        while let Some(Ok(bytes)) = self.next().await {
            let room = bytes_max - read.len();
            read.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if bytes.len() >= room {
                break;
            }
        }
        read
    }

    /// All frames that are there, as one piece: servers send each word in a frame of its own, and looking after each by itself
    /// costs more than reading it. How it ends after some bytes is seen the next time.
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        let mut piece = Bytes::new();
        let mut more = Vec::new();
        while piece.len().max(more.len()) < PIECE_BYTES_MAX {
            let frame = match self.ended.take() {
                Some(ended) => Poll::Ready(ended.map(Err)),
                None => self.poll_frame(context),
            };
            match frame {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) if piece.is_empty() => piece = bytes,
                    Ok(bytes) => {
                        if more.is_empty() {
                            more.extend_from_slice(&piece);
                        }
                        more.extend_from_slice(&bytes);
                    }
                    // Trailers say nothing here.
                    Err(_) => {}
                },
                Poll::Pending if piece.is_empty() => return Poll::Pending,
                Poll::Ready(ended) if piece.is_empty() => {
                    return Poll::Ready(ended.map(|ended| ended.map(|_| Bytes::new())));
                }
                Poll::Pending => break,
                Poll::Ready(ended) => {
                    self.ended = Some(ended.and_then(Result::err));
                    break;
                }
            }
        }
        let piece = match more.is_empty() {
            true => piece,
            false => Bytes::from(more),
        };
        Poll::Ready(Some(Ok(piece)))
    }

    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(context) {
            return Poll::Ready(frame);
        }
        if let Some(line) = &mut self.line
            && !line.is_over
            && line.connection.as_mut().poll(context).is_ready()
        {
            line.is_over = true;
        }
        Pin::new(&mut self.incoming).poll_frame(context)
    }

    /// The connection has done its work and waits for the next request.
    async fn give_back(&mut self) {
        let Some(mut line) = self.line.take().filter(|line| !line.is_over) else {
            return;
        };
        let is_ready = poll_fn(|context| {
            let is_over = line.connection.as_mut().poll(context).is_ready();
            Poll::Ready(!is_over && line.sender.is_ready())
        });
        if is_ready.await {
            self.client.keep(line);
        }
    }
}

/// A body that is there as a whole.
struct Posted(Option<Bytes>);

impl HttpBody for Posted {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
