//! Opening a WebSocket as a client: name, TCP, TLS, upgrade, each with its own error. Owns addresses and headers; never
//! shows a URL's query or a header's value, because keys travel there.

use super::frame::Role;
use super::refusal;
use super::socket::{Socket, SocketLimits};
use crate::transport::Stream;
use crate::transport::network::{Network, Proxy};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode, Uri};
use rustls::pki_types::ServerName;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::handshake::client::{Response, generate_key};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::handshake::machine::TryParse;
use windlass_contract::sensitive::Sensitive;

/// Bytes of the longest answer to an upgrade that is read.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// The address of a connection, and its headers.
#[derive(Clone)]
pub struct Target {
    /// `ws://` or `wss://`.
    pub url: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl fmt::Debug for Target {
    /// Leaves out the query and the headers: both may hold keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.url.split(['?', '#']).next().unwrap_or_default();
        write!(formatter, "Target({shown})")
    }
}

/// The reason why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error("the address is no {}:// or {}:// URL: {problem}", .schemes[0], .schemes[1])]
    Address {
        schemes: [&'static str; 2],
        problem: String,
    },
    #[error("{host} cannot be found: {problem}")]
    Name { host: String, problem: String },
    #[error("{host}:{port} cannot be reached: {problem}")]
    Unreachable {
        host: String,
        port: u16,
        problem: String,
    },
    #[error("no trusted connection to {host}: {problem}")]
    Tls { host: String, problem: String },
    #[error("the proxy {proxy} gives no way to {host}: {problem}")]
    Proxy {
        /// The proxy without its credentials, with the variable that names it.
        proxy: String,
        host: String,
        problem: String,
    },
    #[error("the proxy {proxy} refuses the way to {host} with HTTP status {status}{}", proxy_cure(*.status))]
    ProxyRefused {
        proxy: String,
        host: String,
        status: u16,
    },
    #[error("{host} refused the upgrade with HTTP status {status}")]
    Refused {
        host: String,
        status: u16,
        /// The server's explanation, as far as it was read. It may quote a key.
        body: Sensitive<Vec<u8>>,
    },
    #[error("{host} did not answer the upgrade properly: {problem}")]
    Upgrade { host: String, problem: String },
    #[error("{host} did not answer within {} s", .after.as_secs())]
    Timeout { host: String, after: Duration },
}

impl ConnectError {
    /// Whether another attempt would fail in the same way until something is changed: the connection is refused over a working
    /// network.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Tls { .. } => true,
            // Statuses for slowness and for too many requests are no verdict on the request.
            Self::ProxyRefused { status, .. } => {
                (400..500).contains(status) && !matches!(status, 408 | 429)
            }
            Self::Address { .. }
            | Self::Name { .. }
            | Self::Unreachable { .. }
            | Self::Proxy { .. }
            | Self::Refused { .. }
            | Self::Upgrade { .. }
            | Self::Timeout { .. } => false,
        }
    }
}

/// The status by which a proxy asks for credentials.
pub(in crate::transport) const PROXY_WANTS_CREDENTIALS: u16 = 407;

fn proxy_cure(status: u16) -> &'static str {
    match status {
        PROXY_WANTS_CREDENTIALS => {
            ": it wants credentials, or others; write them into that variable, as http://USER:PASSWORD@HOST:PORT"
        }
        _ => "",
    }
}

/// The address of a server, from its URL.
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_secure: bool,
    pub(crate) authority: String,
    pub(in crate::transport) path: String,
}

/// Connects and upgrades. Everything together may take `timeout`.
pub async fn connect(
    target: &Target,
    limits: SocketLimits,
    timeout: Duration,
) -> Result<Socket, ConnectError> {
    let address = Address::parse(&target.url)?;
    let deadline = Instant::now() + timeout;
    let asking = async {
        let stream = open(&address).await?;
        ask(&address, &target.headers, stream).await
    };
    match timeout_at(deadline, asking).await {
        Ok(answered) => answered?.socket(address.host, limits, deadline).await,
        Err(_) => Err(ConnectError::Timeout {
            host: address.host,
            after: timeout,
        }),
    }
}

/// A server that has answered the upgrade.
struct Answered {
    stream: Box<dyn Stream>,
    /// The key of the answered request.
    key: String,
    response: Response,
    /// Bytes that came behind the head.
    behind: Vec<u8>,
}

/// Opens the byte stream to the server itself: name or proxy, TCP, and TLS if the address wants it.
async fn open(address: &Address) -> Result<Box<dyn Stream>, ConnectError> {
    match address.proxy()? {
        Some(proxy) => open_through(&proxy, address, &address.host).await,
        None => open_directly(address).await,
    }
}

/// The same without a proxy.
pub(in crate::transport) async fn open_directly(
    address: &Address,
) -> Result<Box<dyn Stream>, ConnectError> {
    let found = tokio::net::lookup_host((address.host.as_str(), address.port))
        .await
        .map_err(|error| ConnectError::Name {
            host: address.host.clone(),
            problem: error.to_string(),
        })?;
    open_at(address, found).await
}

/// The same at addresses that the caller has resolved.
pub(crate) async fn open_at(
    address: &Address,
    found: impl IntoIterator<Item = SocketAddr>,
) -> Result<Box<dyn Stream>, ConnectError> {
    let tcp = open_tcp(address, found).await?;
    secured(address, Box::new(tcp)).await
}

/// Opens a tunnel through a proxy. `target` is the server's name, or an address of it that the caller has resolved.
pub(crate) async fn open_through(
    proxy: &Proxy,
    address: &Address,
    target: &str,
) -> Result<Box<dyn Stream>, ConnectError> {
    let mut stream = open_proxy(proxy, address).await?;
    let refuse = |problem: String| no_way(proxy, address, problem);
    let target = match target.contains(':') {
        true => format!("[{target}]:{}", address.port),
        false => format!("{target}:{}", address.port),
    };
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
    if let Some(authorization) = &proxy.authorization {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(authorization.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    let broken = |error: std::io::Error| refuse(error.to_string());
    stream.write_all(&request).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let (response, behind) = read_head(&mut *stream).await.map_err(refuse)?;
    if !response.status().is_success() {
        return Err(proxy_refused(proxy, address, response.status().as_u16()));
    }
    // Servers of every protocol here wait for the client to send first.
    if !behind.is_empty() {
        return Err(refuse("it says more than was asked".to_owned()));
    }
    secured(address, stream).await
}

/// Opens the connection to a proxy, for requests to it.
pub(in crate::transport) async fn open_proxy(
    proxy: &Proxy,
    address: &Address,
) -> Result<Box<dyn Stream>, ConnectError> {
    open_directly(&proxy.address)
        .await
        .map_err(|error| no_way(proxy, address, error.to_string()))
}

fn no_way(proxy: &Proxy, address: &Address, problem: String) -> ConnectError {
    ConnectError::Proxy {
        proxy: proxy.shown(),
        host: address.host.clone(),
        problem,
    }
}

pub(in crate::transport) fn proxy_refused(
    proxy: &Proxy,
    address: &Address,
    status: u16,
) -> ConnectError {
    ConnectError::ProxyRefused {
        proxy: proxy.shown(),
        host: address.host.clone(),
        status,
    }
}

async fn secured(
    address: &Address,
    stream: Box<dyn Stream>,
) -> Result<Box<dyn Stream>, ConnectError> {
    Ok(match address.is_secure {
        true => Box::new(open_tls(address, stream).await?),
        false => stream,
    })
}

impl Address {
    pub(in crate::transport) fn scheme(&self) -> http::uri::Scheme {
        match self.is_secure {
            true => http::uri::Scheme::HTTPS,
            false => http::uri::Scheme::HTTP,
        }
    }

    /// The proxy of the address, if it is not reached directly.
    pub(crate) fn proxy(&self) -> Result<Option<Arc<Proxy>>, ConnectError> {
        let network = Network::of_process().map_err(|error| ConnectError::Tls {
            host: self.host.clone(),
            problem: error.to_string(),
        })?;
        Ok(network.proxy(&self.host, self.port, self.is_secure))
    }

    fn parse(url: &str) -> Result<Self, ConnectError> {
        Self::of_schemes(url, ["ws", "wss"])
    }

    /// The address of a URL with one of two schemes, for plain and for secure connections.
    pub(crate) fn of_schemes(url: &str, schemes: [&'static str; 2]) -> Result<Self, ConnectError> {
        let refuse = |problem: &str| ConnectError::Address {
            schemes,
            problem: problem.to_owned(),
        };
        let [plain, secure] = schemes;
        let uri: Uri = url
            .parse()
            .map_err(|error: http::uri::InvalidUri| refuse(&error.to_string()))?;
        let (is_secure, usual_port) = match uri.scheme_str() {
            Some(scheme) if scheme == plain => (false, 80),
            Some(scheme) if scheme == secure => (true, 443),
            Some(_) => return Err(refuse("the scheme is another one")),
            None => return Err(refuse("it has no scheme")),
        };
        let authority = uri
            .authority()
            .map(|authority| authority.as_str())
            .filter(|authority| !authority.contains('@'))
            .ok_or_else(|| refuse("it has no host, or a user before the host"))?;
        let host = uri.host().unwrap_or_default();
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(usual_port),
            is_secure,
            authority: authority.to_owned(),
            path: uri
                .path_and_query()
                .map_or("/", |path| path.as_str())
                .to_owned(),
        })
    }
}

async fn open_tcp(
    address: &Address,
    found: impl IntoIterator<Item = SocketAddr>,
) -> Result<TcpStream, ConnectError> {
    let mut problem = "the name has no address".to_owned();
    for candidate in found {
        match TcpStream::connect(candidate).await {
            Ok(stream) => {
                // Audio must not wait for an acknowledgement of the frame before it.
                if let Err(error) = stream.set_nodelay(true) {
                    problem = error.to_string();
                    continue;
                }
                return Ok(stream);
            }
            Err(error) => problem = error.to_string(),
        }
    }
    Err(ConnectError::Unreachable {
        host: address.host.clone(),
        port: address.port,
        problem,
    })
}

async fn open_tls(
    address: &Address,
    stream: Box<dyn Stream>,
) -> Result<tokio_rustls::client::TlsStream<Box<dyn Stream>>, ConnectError> {
    let refuse = |problem: String| ConnectError::Tls {
        host: address.host.clone(),
        problem,
    };
    let name =
        ServerName::try_from(address.host.clone()).map_err(|error| refuse(error.to_string()))?;
    let network = Network::of_process().map_err(|error| refuse(error.to_string()))?;
    let connected = TlsConnector::from(network.tls())
        .connect(name, stream)
        .await;
    connected.map_err(|error| {
        let judged = error.get_ref().and_then(|inner| inner.downcast_ref());
        match judged {
            Some(judged) if !is_of_moment(judged) => refuse(tls_problem(judged)),
            // The network or the server broke; no certificate was judged.
            Some(_) | None => ConnectError::Unreachable {
                host: address.host.clone(),
                port: address.port,
                problem: error.to_string(),
            },
        }
    })
}

/// Whether the error may pass. A failing server sends an alert, too.
fn is_of_moment(error: &rustls::Error) -> bool {
    use rustls::{AlertDescription, Error};
    matches!(error, Error::AlertReceived(AlertDescription::InternalError))
}

/// The text for operators, with the fix if it is theirs.
fn tls_problem(error: &rustls::Error) -> String {
    use rustls::{CertificateError, Error};
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => format!(
            "{error}; if that authority is your own, or a proxy signs anew, name its certificate with tls.ca_file"
        ),
        _ => error.to_string(),
    }
}

/// Asks for the upgrade and reads the head of the answer.
async fn ask(
    address: &Address,
    headers: &[(HeaderName, HeaderValue)],
    mut stream: Box<dyn Stream>,
) -> Result<Answered, ConnectError> {
    let refuse = |problem: String| ConnectError::Upgrade {
        host: address.host.clone(),
        problem,
    };
    let key = generate_key();
    let request = upgrade_request(address, headers, &key);
    let broken = |error: std::io::Error| refuse(error.to_string());
    stream.write_all(&request).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let (response, behind) = read_head(&mut *stream).await.map_err(refuse)?;
    Ok(Answered {
        stream,
        key,
        response,
        behind,
    })
}

/// The head of an answer, and the bytes behind it.
async fn read_head(stream: &mut dyn Stream) -> Result<(Response, Vec<u8>), String> {
    let mut bytes = Vec::with_capacity(1_024);
    loop {
        let read = stream.read_buf(&mut bytes).await;
        if read.map_err(|error| error.to_string())? == 0 {
            return Err("the connection ended".to_owned());
        }
        let parsed = Response::try_parse(&bytes).map_err(|error| error.to_string())?;
        if let Some((used, response)) = parsed {
            bytes.drain(..used);
            return Ok((response, bytes));
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err("the answer is too long".to_owned());
        }
    }
}

impl Answered {
    /// The socket if the server has upgraded; otherwise the reason, before the deadline.
    async fn socket(
        mut self,
        host: String,
        limits: SocketLimits,
        deadline: Instant,
    ) -> Result<Socket, ConnectError> {
        let (status, headers) = (self.response.status(), self.response.headers());
        if status != StatusCode::SWITCHING_PROTOCOLS {
            let body = refusal::read(&mut *self.stream, self.behind, headers, deadline).await;
            return Err(ConnectError::Refused {
                host,
                status: status.as_u16(),
                body,
            });
        }
        let refuse = |problem: String| ConnectError::Upgrade { host, problem };
        if let Err(problem) = check_upgrade(headers, &self.key) {
            return Err(refuse(problem.to_owned()));
        }
        Socket::new(self.stream, Role::Client, limits, self.behind)
            .map_err(|error| refuse(error.to_string()))
    }
}

fn upgrade_request(address: &Address, headers: &[(HeaderName, HeaderValue)], key: &str) -> Vec<u8> {
    let mut request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n",
        address.path, address.authority
    )
    .into_bytes();
    for (name, value) in headers {
        request.extend_from_slice(name.as_str().as_bytes());
        request.extend_from_slice(b": ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request
}

/// The checks of RFC 6455, section 4.1, on the server's answer.
fn check_upgrade(headers: &HeaderMap, key: &str) -> Result<(), &'static str> {
    let names = |name: HeaderName, word: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|item| item.trim().eq_ignore_ascii_case(word))
    };
    if !names(http::header::UPGRADE, "websocket") || !names(http::header::CONNECTION, "upgrade") {
        return Err("the answer is no upgrade to WebSocket");
    }
    let accepted = headers.get(http::header::SEC_WEBSOCKET_ACCEPT);
    if accepted.is_none_or(|value| value.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes())
    {
        return Err("the answer belongs to another request");
    }
    if headers.contains_key(http::header::SEC_WEBSOCKET_EXTENSIONS) {
        return Err("the answer has an extension that nobody asked for");
    }
    Ok(())
}
