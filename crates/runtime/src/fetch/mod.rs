//! Outbound HTTP for tools. Owns the way out: only to listed hosts, at addresses that were checked before the connection, within
//! limits of size and time. Knows no tool.

mod places;

use crate::transport::Stream;
use crate::transport::http::{Opened, forwarding, open};
use crate::transport::network::Proxy;
use crate::transport::websocket::{Address, ConnectError, open_at, open_through};
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderName, HeaderValue, LOCATION,
    PROXY_AUTHORIZATION,
};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
pub use places::{Endpoint, Places, UnfitPlace};
use places::{address_refusal, resolved_against};
use std::error::Error as _;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;
use windlass_contract::handler::{
    AnswerWatcher, CapabilityFuture, FetchError, Http, HttpAnswer, HttpRequest, IncompleteBody,
    Redirects,
};

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes for the head of an answer.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Addresses of one name for which a proxy is asked.
const PROXIED_ADDRESSES_MAX: usize = 3;
const KEPT_CONNECTIONS_MAX: usize = 16;
const KEPT_FOR: Duration = Duration::from_secs(20);

/// Limits of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    pub timeout: Duration,
    /// Bytes of an answer's body.
    pub body_bytes_max: usize,
    /// Whether a proxy resolves listed names. It then has to keep requests from addresses that are not public.
    pub proxy_resolves_names: bool,
}

/// Resolves names to addresses. Tests bring their own.
pub trait Resolver: Send + Sync {
    fn resolve(&self, host: &str, port: u16) -> CapabilityFuture<std::io::Result<Vec<SocketAddr>>>;
}

/// The system's resolver.
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, host: &str, port: u16) -> CapabilityFuture<std::io::Result<Vec<SocketAddr>>> {
        let host = host.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, port)).await?;
            Ok(found.collect())
        })
    }
}

/// The way out to some places.
pub struct Fetcher {
    places: Arc<Places>,
    limits: FetchLimits,
    /// The client. It sends a request again only if nothing of it was written, so that no request is served twice.
    client: Client<Connector, Full<Bytes>>,
}

impl Fetcher {
    pub fn new(places: Places, limits: FetchLimits, resolver: Arc<dyn Resolver>) -> Arc<Self> {
        let places = Arc::new(places);
        let connector = Connector {
            places: places.clone(),
            resolver,
            proxy_resolves_names: limits.proxy_resolves_names,
        };
        let client = Client::builder(TokioExecutor::new())
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .pool_max_idle_per_host(KEPT_CONNECTIONS_MAX)
            .pool_idle_timeout(KEPT_FOR)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Arc::new(Self {
            places,
            limits,
            client,
        })
    }

    async fn fetch_whole(
        &self,
        request: HttpRequest,
        within: &Within,
        watcher: Option<&dyn AnswerWatcher>,
    ) -> Result<HttpAnswer, FetchError> {
        let HttpRequest {
            method,
            url,
            headers,
            body,
            timeout_ms: _,
            redirects,
        } = request;
        let mut asked = PendingRequest {
            method: method_of(&method)?,
            uri: self.uri(&url)?,
            headers: headers_of(&headers)?,
            body: body.into(),
        };
        let is_change = !matches!(asked.method, Method::GET | Method::HEAD | Method::OPTIONS);
        // The first host has done its part, whatever becomes of the redirects.
        let on_the_way = |error: FetchError, hop: usize| match is_change && hop > 0 {
            true => FetchError::Unanswered(error.to_string()),
            false => error,
        };
        for hop in 0..=REDIRECTS_MAX {
            let answer = self.ask(&asked, within, watcher).await;
            let answer = answer.map_err(|error| on_the_way(error, hop))?;
            let target = match redirects {
                Redirects::Follow => redirect(&answer),
                Redirects::Keep => None,
            };
            let Some(target) = target else {
                return Ok(answer);
            };
            let uri = self.led_to(&asked, &target);
            let uri = uri.map_err(|error| on_the_way(error, hop + 1))?;
            asked.follow(answer.status, uri);
        }
        Err(FetchError::Unanswered(
            "the service redirects without an end".to_owned(),
        ))
    }

    fn led_to(&self, asked: &PendingRequest, target: &str) -> Result<Uri, FetchError> {
        let uri = self.uri(&resolved_against(&asked.uri, target))?;
        match (asked.uri.scheme_str(), uri.scheme_str()) {
            (Some("https"), Some("http")) => Err(refused("a redirect leads from https to http")),
            _ => Ok(uri),
        }
    }

    /// A URL that requests may go to.
    fn uri(&self, url: &str) -> Result<Uri, FetchError> {
        let without_fragment = url.split('#').next().unwrap_or_default();
        let uri: Uri = without_fragment
            .parse()
            .map_err(|error| refused(format!("this is no URL: {error}")))?;
        let place = Endpoint::of(&uri).ok_or_else(|| {
            refused("a URL begins with http:// or https:// and a host, and names no user")
        })?;
        match self.places.has(&place) {
            true => Ok(uri),
            false => Err(refused(format!(
                "{place} is no place that tools may ask; list it in `handlers.allow_fetch`, or with --allow-fetch {place}"
            ))),
        }
    }

    async fn ask(
        &self,
        asked: &PendingRequest,
        within: &Within,
        watcher: Option<&dyn AnswerWatcher>,
    ) -> Result<HttpAnswer, FetchError> {
        let mut request = Request::new(Full::new(asked.body.clone()));
        *request.method_mut() = asked.method.clone();
        *request.uri_mut() = asked.uri.clone();
        *request.headers_mut() = asked.headers.clone();
        if let Some(authorization) = self.forwarding(&asked.uri)? {
            request
                .headers_mut()
                .insert(PROXY_AUTHORIZATION, authorization);
        }
        let answered = timeout_at(within.until, self.client.request(request)).await;
        let answered = answered.map_err(|_| FetchError::Unanswered(within.too_late()))?;
        let (head, body) = answered.map_err(|error| failed(&error))?.into_parts();
        let headers = head.headers.iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.as_str().to_owned(), value.into_owned())
        });
        let headers: Vec<(String, String)> = headers.collect();
        if let Some(watcher) = watcher {
            watcher.headers(&headers);
            let content_type = head.headers.get(CONTENT_TYPE);
            let content_type = content_type.and_then(|value| value.to_str().ok());
            watcher.began(head.status.as_u16(), content_type);
        }
        let body = whole(body, self.limits.body_bytes_max, within, watcher).await;
        Ok(HttpAnswer {
            status: head.status.as_u16(),
            url: asked.uri.to_string(),
            headers,
            body,
        })
    }
}

impl Fetcher {
    /// The credentials for a proxy that passes the request itself on.
    fn forwarding(&self, uri: &Uri) -> Result<Option<HeaderValue>, FetchError> {
        if let Places::Listed(_) = *self.places {
            return Ok(None);
        }
        let unreachable = |error: ConnectError| FetchError::Unreachable(error.to_string());
        let address =
            Address::of_schemes(&uri.to_string(), ["http", "https"]).map_err(unreachable)?;
        let proxy = forwarding(&address).map_err(unreachable)?;
        Ok(proxy.and_then(|proxy| proxy.authorization.clone()))
    }
}

/// The time of one request, with all its redirects.
struct Within {
    time: Duration,
    until: Instant,
}

impl Within {
    fn too_late(&self) -> String {
        format!(
            "there was no whole answer within {} ms",
            self.time.as_millis()
        )
    }
}

async fn whole(
    mut body: Incoming,
    bytes_max: usize,
    within: &Within,
    watcher: Option<&dyn AnswerWatcher>,
) -> Result<Vec<u8>, IncompleteBody> {
    let mut read = Vec::new();
    let problem = loop {
        let frame = match timeout_at(within.until, body.frame()).await {
            Ok(None) => return Ok(read),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => break format!("the answer broke off: {error}"),
            Err(_) => break within.too_late(),
        };
        let Some(data) = frame.data_ref() else {
            continue;
        };
        let room = bytes_max - read.len();
        let taken = &data[..data.len().min(room)];
        read.extend_from_slice(taken);
        if let Some(watcher) = watcher {
            watcher.came(taken);
        }
        if data.len() > room {
            break format!("the answer is longer than {bytes_max} bytes");
        }
    };
    Err(IncompleteBody {
        beginning: read,
        problem,
    })
}

/// A way out, in the form for tools.
pub struct WayOut(pub Arc<Fetcher>);

impl WayOut {
    fn begin(
        &self,
        request: HttpRequest,
        watcher: Option<Arc<dyn AnswerWatcher>>,
    ) -> CapabilityFuture<Result<HttpAnswer, FetchError>> {
        let fetcher = self.0.clone();
        let time = Duration::from_millis(request.timeout_ms).min(fetcher.limits.timeout);
        Box::pin(async move {
            let until = Instant::now() + time;
            let within = Within { time, until };
            fetcher
                .fetch_whole(request, &within, watcher.as_deref())
                .await
        })
    }
}

impl Http for WayOut {
    fn fetch(&self, request: HttpRequest) -> CapabilityFuture<Result<HttpAnswer, FetchError>> {
        self.begin(request, None)
    }

    fn fetch_watched(
        &self,
        request: HttpRequest,
        watcher: Arc<dyn AnswerWatcher>,
    ) -> CapabilityFuture<Result<HttpAnswer, FetchError>> {
        self.begin(request, Some(watcher))
    }
}

/// A request on its way.
struct PendingRequest {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

impl PendingRequest {
    /// Follows a redirect as browsers do: a posted request becomes a GET at the new place, unless the answer says to send it
    /// there. Credentials go to no other host.
    fn follow(&mut self, status: u16, uri: Uri) {
        let becomes_get = match status {
            303 => self.method != Method::HEAD,
            301 | 302 => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = Bytes::new();
            self.headers.remove(CONTENT_TYPE);
        }
        if uri.authority() != self.uri.authority() {
            for name in [AUTHORIZATION, COOKIE] {
                self.headers.remove(name);
            }
        }
        self.uri = uri;
    }
}

fn redirect(answer: &HttpAnswer) -> Option<String> {
    let is_redirect = matches!(answer.status, 301 | 302 | 303 | 307 | 308);
    let target = is_redirect.then(|| answer.header(LOCATION.as_str()))?;
    target.map(str::to_owned)
}

fn refused(problem: impl Into<String>) -> FetchError {
    FetchError::Refused(problem.into())
}

fn method_of(method: &str) -> Result<Method, FetchError> {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    let upper = method.to_ascii_uppercase();
    match known.contains(&upper.as_str()) {
        true => Ok(Method::from_bytes(upper.as_bytes()).unwrap_or(Method::GET)),
        false => Err(refused(format!("a method is one of {}", known.join(", ")))),
    }
}

/// Headers of the connection, which a caller may not set.
const OF_CONNECTION: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authorization",
    "proxy-connection",
];

fn headers_of(headers: &[(String, String)]) -> Result<HeaderMap, FetchError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let shown: String = name.chars().take(60).collect();
        let header: HeaderName = name
            .parse()
            .map_err(|_| refused(format!("{shown:?} is no name of a header")))?;
        if OF_CONNECTION.contains(&header.as_str()) {
            continue;
        }
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            refused(format!(
                "the header {header} has a value that no header may have"
            ))
        })?;
        value.set_sensitive(true);
        map.append(header, value);
    }
    // Answers are requested uncompressed, because nothing here decompresses them.
    map.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if !map.contains_key(http::header::USER_AGENT) {
        let agent = concat!("windlass/", env!("CARGO_PKG_VERSION"));
        map.insert(http::header::USER_AGENT, HeaderValue::from_static(agent));
    }
    Ok(map)
}

fn failed(error: &hyper_util::client::legacy::Error) -> FetchError {
    let cause = error.source();
    match cause.and_then(|cause| cause.downcast_ref::<Unconnected>()) {
        Some(Unconnected::Refused(problem)) => refused(problem.clone()),
        Some(Unconnected::Failed(error)) => FetchError::Unreachable(error.to_string()),
        None if error.is_connect() => FetchError::Unreachable(error.to_string()),
        None => {
            FetchError::Unanswered(cause.map_or_else(|| error.to_string(), ToString::to_string))
        }
    }
}

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
enum Unconnected {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Failed(#[from] ConnectError),
}

/// Looks a name up once, judges every address of it, and connects to one of them, itself or through a proxy.
#[derive(Clone)]
struct Connector {
    places: Arc<Places>,
    resolver: Arc<dyn Resolver>,
    proxy_resolves_names: bool,
}

impl Connector {
    async fn connect(self, uri: Uri) -> Result<Opened, Unconnected> {
        let address = Address::of_schemes(&uri.to_string(), ["http", "https"])?;
        let place = Endpoint::of(&uri)
            .ok_or_else(|| Unconnected::Refused("the URL has no host".to_owned()))?;
        let proxy = address.proxy()?;
        match (&*self.places, &proxy) {
            // No address is judged here: the author chose the place.
            (Places::Named(_), Some(_)) => return Ok(open(&address).await?),
            (Places::Listed(_), Some(proxy)) if self.proxy_resolves_names => {
                if let Ok(literal) = address.host.parse() {
                    self.judge(&place, literal)?;
                }
                let stream = open_through(proxy, &address, &address.host).await?;
                return Ok(Opened::to_server(stream));
            }
            (Places::Named(_) | Places::Listed(_), _) => {}
        }
        let failed = |problem: String| ConnectError::Name {
            host: address.host.clone(),
            problem: match &proxy {
                None => problem,
                Some(proxy) => format!(
                    "{problem}; where only the proxy {} finds names, set handlers.proxy_resolves_names",
                    proxy.shown()
                ),
            },
        };
        let found = self
            .resolver
            .resolve(&address.host, place.port())
            .await
            .map_err(|error| failed(error.to_string()))?;
        if found.is_empty() {
            return Err(failed("the name has no address".to_owned()).into());
        }
        for found in &found {
            self.judge(&place, found.ip())?;
        }
        let stream = match proxy {
            None => open_at(&address, found).await?,
            Some(proxy) => through(&proxy, &address, &found).await?,
        };
        Ok(Opened::to_server(stream))
    }

    fn judge(&self, place: &Endpoint, address: IpAddr) -> Result<(), Unconnected> {
        match address_refusal(&self.places, place, address) {
            Some(refusal) => Err(Unconnected::Refused(refusal)),
            None => Ok(()),
        }
    }
}

/// Connects through a proxy to a judged address. By name, the proxy would look it up again and might reach another address.
async fn through(
    proxy: &Proxy,
    address: &Address,
    found: &[SocketAddr],
) -> Result<Box<dyn Stream>, ConnectError> {
    let mut last = None;
    for found in found.iter().take(PROXIED_ADDRESSES_MAX) {
        match open_through(proxy, address, &found.ip().to_string()).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| ConnectError::Name {
        host: address.host.clone(),
        problem: "the name has no address".to_owned(),
    }))
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Opened>;
    type Error = Unconnected;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Unconnected>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Unconnected>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or_default().to_owned();
            let connected = timeout(CONNECT_TIMEOUT, connector.connect(uri)).await;
            let connected = connected.unwrap_or_else(|_| {
                let after = CONNECT_TIMEOUT;
                Err(ConnectError::Timeout { host, after }.into())
            });
            connected.map(TokioIo::new)
        })
    }
}
