//! A client of one HTTP/1.1 server: gets, or posts a body, and passes the answer on piece by piece. hyper-util keeps the
//! connections for the next request. Owns headers, timeouts and limits; never shows a header's value, because keys travel there.
//! Knows nothing of the bodies.

use super::Stream;
use super::network::Proxy;
use super::websocket::{
    Address, ConnectError, PROXY_WANTS_CREDENTIALS, open_directly, open_proxy, open_through,
    proxy_refused,
};
use futures_util::FutureExt;
use http::header::{HeaderName, HeaderValue, PROXY_AUTHORIZATION};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::error::Error as _;
use std::fmt;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tower_service::Service;

/// Timeouts of a request's stages, and limits of kept connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    pub connect_timeout: Duration,
    /// From the request to the head of its answer, with the connecting if that is needed.
    pub head_timeout: Duration,
    /// Between two pieces of a body.
    pub idle_timeout: Duration,
    /// Connections that wait for a next request.
    pub kept_connections_max: usize,
    /// The time for which they wait.
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

/// Bytes for the head of an answer.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a body's rest that are read to keep its connection. A longer or later rest costs a new connection.
const REST_BYTES_MAX: usize = 1_024;
const REST_PATIENCE: Duration = Duration::from_secs(2);

/// The reason why there is no answer, or no more of it.
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
    address: Arc<Address>,
    headers: HeaderMap,
    limits: HttpLimits,
    /// The client. It sends a request again only if nothing of it was written, so that no request is served twice.
    client: Client<Connector, Full<Bytes>>,
}

impl fmt::Debug for HttpClient {
    /// Leaves the headers out: they may hold keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HttpClient({})", self.address.authority)
    }
}

/// The head of an answer, and the way to its body.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: AnswerBody,
}

/// The pieces of an answer's body, as they come.
#[derive(Debug)]
pub struct AnswerBody {
    incoming: Incoming,
    client: Arc<HttpClient>,
}

impl HttpClient {
    /// Whether a header of every request is a secret.
    pub(crate) fn sends_key(&self) -> bool {
        self.headers.values().any(HeaderValue::is_sensitive)
    }

    /// A client of the server at an `http://` or `https://` URL, whose path precedes that of every request.
    ///
    /// # Errors
    ///
    /// A URL of another scheme, or without a host.
    pub fn new(
        url: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
        limits: HttpLimits,
    ) -> Result<Arc<Self>, ConnectError> {
        let address = Arc::new(Address::of_schemes(url, ["http", "https"])?);
        let connector = Connector {
            address: address.clone(),
            patience: limits.connect_timeout,
        };
        let client = Client::builder(TokioExecutor::new())
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .pool_max_idle_per_host(limits.kept_connections_max)
            .pool_idle_timeout(limits.kept_for)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Arc::new(Self {
            address,
            headers: headers.into_iter().collect(),
            limits,
            client,
        }))
    }

    /// Posts a body to a path beneath the client's own and waits for the head of the answer.
    ///
    /// # Errors
    ///
    /// There is no connection, no answer in time, or an answer that is no HTTP.
    pub async fn post(
        self: &Arc<Self>,
        path: &str,
        body: Bytes,
    ) -> Result<HttpResponse, HttpError> {
        self.ask(Method::POST, path, body).await
    }

    /// Gets a path beneath the client's own and waits for the head of the answer.
    ///
    /// # Errors
    ///
    /// The errors of [`HttpClient::post`].
    pub async fn get(self: &Arc<Self>, path: &str) -> Result<HttpResponse, HttpError> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    async fn ask(
        self: &Arc<Self>,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<HttpResponse, HttpError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri(path)?;
        request.headers_mut().clone_from(&self.headers);
        let forwarding = forwarding(&self.address)?;
        if let Some(authorization) = forwarding
            .as_ref()
            .and_then(|proxy| proxy.authorization.as_ref())
        {
            request
                .headers_mut()
                .insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        let after = self.limits.head_timeout;
        let (head, incoming) = timeout(after, self.client.request(request))
            .await
            .map_err(|_| self.silent(after))?
            .map_err(|error| self.failed(&error))?
            .into_parts();
        if let Some(proxy) = &forwarding
            && head.status.as_u16() == PROXY_WANTS_CREDENTIALS
        {
            return Err(proxy_refused(proxy, &self.address, PROXY_WANTS_CREDENTIALS).into());
        }
        Ok(HttpResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body: AnswerBody {
                incoming,
                client: self.clone(),
            },
        })
    }

    fn uri(&self, path: &str) -> Result<Uri, HttpError> {
        let whole = format!("{}{path}", self.address.path.trim_end_matches('/'));
        let uri = Uri::builder()
            .scheme(self.address.scheme())
            .authority(self.address.authority.as_str())
            .path_and_query(whole.as_str())
            .build();
        uri.map_err(|_| HttpError::Path { path: whole })
    }

    fn failed(&self, error: &Error) -> HttpError {
        let cause = error.source();
        match cause.and_then(|cause| cause.downcast_ref::<ConnectError>()) {
            Some(error) => HttpError::Connect(error.clone()),
            None => self.broken(cause.map_or_else(|| error.to_string(), ToString::to_string)),
        }
    }

    fn broken(&self, problem: String) -> HttpError {
        HttpError::Broken {
            host: self.address.host.clone(),
            problem,
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
    /// The next piece; `None` at the body's end. The future may be dropped while it waits, and the method called again.
    ///
    /// # Errors
    ///
    /// The connection broke, or nothing came for too long.
    pub async fn next(&mut self) -> Option<Result<Bytes, HttpError>> {
        let after = self.client.limits.idle_timeout;
        loop {
            // A ready piece is taken without a timer.
            let frame = match self.incoming.frame().now_or_never() {
                Some(frame) => frame,
                None => match timeout(after, self.incoming.frame()).await {
                    Ok(frame) => frame,
                    Err(_) => return Some(Err(self.client.silent(after))),
                },
            };
            match frame?.map(|frame| frame.into_data()) {
                Ok(Ok(bytes)) => return Some(Ok(bytes)),
                // Trailers have no meaning here.
                Ok(Err(_)) => {}
                Err(error) => return Some(Err(self.client.broken(error.to_string()))),
            }
        }
    }

    /// Reads a body up to `bytes_max` bytes.
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

    /// Reads the rest of a body that is of no interest, in a task of its own, so that its connection serves the next request.
    pub fn leave(self) {
        tokio::spawn(timeout(REST_PATIENCE, self.read_up_to(REST_BYTES_MAX)));
    }
}

/// Opens connections to the one server.
#[derive(Clone)]
struct Connector {
    address: Arc<Address>,
    patience: Duration,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Opened>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _server: Uri) -> Self::Future {
        let Self { address, patience } = self.clone();
        Box::pin(async move {
            match timeout(patience, open(&address)).await {
                Ok(opened) => opened.map(TokioIo::new),
                Err(_) => Err(ConnectError::Timeout {
                    host: address.host.clone(),
                    after: patience,
                }),
            }
        })
    }
}

/// The proxy that gets the requests themselves: the one for plain connections.
pub(crate) fn forwarding(address: &Address) -> Result<Option<Arc<Proxy>>, ConnectError> {
    match address.is_secure {
        true => Ok(None),
        false => address.proxy(),
    }
}

/// Opens a connection for requests: to the server, or to a proxy that passes them on.
pub(crate) async fn open(address: &Address) -> Result<Opened, ConnectError> {
    let Some(proxy) = address.proxy()? else {
        return open_directly(address).await.map(Opened::to_server);
    };
    match address.is_secure {
        true => open_through(&proxy, address, &address.host)
            .await
            .map(Opened::to_server),
        false => Ok(Opened {
            stream: open_proxy(&proxy, address).await?,
            is_forwarded: true,
        }),
    }
}

/// A connection for requests.
pub(crate) struct Opened {
    stream: Box<dyn Stream>,
    /// Whether a proxy reads the requests, so that each has to name its server.
    is_forwarded: bool,
}

impl Opened {
    pub(crate) fn to_server(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            is_forwarded: false,
        }
    }
}

impl Connection for Opened {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_forwarded)
    }
}

impl AsyncRead for Opened {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Opened {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
