//! The ways out of the machine: through which proxy each kind of connection goes, and whose certificates it believes. Each test says
//! how the network is for its process.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use windlass_contract::handler::{
    CapabilityFuture, FetchError, Http, HttpAnswer, HttpRequest, Redirects,
};
use windlass_runtime::codec::lost_reason;
use windlass_runtime::fetch::{Endpoint, FetchLimits, Fetcher, Places, Resolver, WayOut};
use windlass_runtime::transport::http::{HttpClient, HttpError, HttpLimits};
use windlass_runtime::transport::network::{Network, NetworkSettings};
use windlass_runtime::transport::websocket::{
    ConnectError, MessageLimits, SocketLimits, Target, connect,
};
use windlass_session::model::LostReason;

const SOCKET: SocketLimits = SocketLimits {
    messages: MessageLimits {
        text_bytes_max: 1_000,
        binary_bytes_max: 1_000,
    },
    queued_audio_bytes_max: 1_000,
    queued_bytes_max: 1_000,
};

const FETCH: FetchLimits = FetchLimits {
    timeout: Duration::from_secs(5),
    body_bytes_max: 1_000,
    proxy_resolves_names: false,
};

/// What a proxy is asked first on each connection, without what proves who asks, and whether that was right.
type Asked = Arc<Mutex<Vec<String>>>;

async fn head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8(read).unwrap())
}

/// A proxy that lets in who shows `user:p@ss`, and serves every place itself: what is tunnelled as well as what is passed on.
async fn proxy() -> (u16, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Asked::default();
    let kept = asked.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(pass(stream, kept.clone()));
        }
    });
    (port, asked)
}

async fn pass(mut stream: TcpStream, asked: Asked) -> io::Result<()> {
    let first = head(&mut stream).await?;
    let line = first.lines().next().unwrap().to_owned();
    asked.lock().unwrap().push(line.clone());
    let is_let_in = first
        .to_ascii_lowercase()
        .contains("proxy-authorization: basic dxnlcjpwqhnz");
    if !is_let_in {
        let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
        return stream.write_all(refusal.as_bytes()).await;
    }
    if line.starts_with("CONNECT ") {
        stream
            .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            .await?;
        // Nobody behind the tunnel speaks TLS.
        if line.contains(":443 ") {
            return stream.write_all(b"no TLS").await;
        }
        let inner = head(&mut stream).await?;
        assert!(!inner.to_ascii_lowercase().contains("proxy-authorization"));
        asked
            .lock()
            .unwrap()
            .push(inner.lines().next().unwrap().to_owned());
    }
    serve_one(&mut stream).await
}

async fn serve_one(stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    stream.write_all(answer.as_bytes()).await?;
    stream.flush().await
}

fn set_up(variables: &[(&str, String)], ca_file: Option<PathBuf>) {
    let variables: BTreeMap<OsString, OsString> = variables
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let mut settings = NetworkSettings::of_variables(&variables);
    settings.ca_file = ca_file;
    Network::set_up(settings);
}

async fn posted(url: &str) -> Result<u16, HttpError> {
    let client = HttpClient::new(url, Vec::new(), HttpLimits::default()).unwrap();
    Ok(client.post("/v1", "{}".into()).await?.status)
}

async fn upgraded(url: &str) -> ConnectError {
    let target = Target {
        url: url.to_owned(),
        headers: Vec::new(),
    };
    let connected = connect(&target, SOCKET, Duration::from_secs(20)).await;
    connected.err().expect("nobody here upgrades")
}

/// Every name is at one address.
struct At(Option<IpAddr>);

impl Resolver for At {
    fn resolve(&self, _: &str, port: u16) -> CapabilityFuture<io::Result<Vec<SocketAddr>>> {
        let found = self.0.map(|address| vec![SocketAddr::new(address, port)]);
        Box::pin(std::future::ready(
            found.ok_or_else(|| io::Error::other("no DNS here")),
        ))
    }
}

async fn fetched(
    places: Places,
    limits: FetchLimits,
    address: Option<&str>,
    url: &str,
) -> Result<HttpAnswer, FetchError> {
    let names = At(address.map(|address| address.parse().unwrap()));
    let fetcher = Fetcher::new(places, limits, Arc::new(names));
    let request = HttpRequest {
        method: "GET".to_owned(),
        url: url.to_owned(),
        headers: vec![("Proxy-Authorization".to_owned(), "Basic stolen".to_owned())],
        body: Vec::new(),
        timeout_ms: 5_000,
        redirects: Redirects::Follow,
    };
    WayOut(fetcher).fetch(request).await
}

fn listed(place: &str) -> Places {
    Places::listed([place.parse::<Endpoint>().unwrap()])
}

fn through(port: u16, credentials: &str) -> Vec<(&'static str, String)> {
    let url = format!("http://{credentials}127.0.0.1:{port}");
    vec![
        ("HTTP_PROXY", url.clone()),
        ("https_proxy", url),
        ("NO_PROXY", "inside.example,10.0.0.0/8".to_owned()),
    ]
}

#[tokio::test]
async fn models_are_reached_through_the_proxy_over_http_and_over_websocket() {
    let (port, asked) = proxy().await;
    set_up(&through(port, "user:p%40ss@"), None);
    assert_eq!(posted("http://models.invalid:8000/api").await.unwrap(), 200);
    // The tunnel leads to somebody who speaks no TLS.
    let secure = posted("https://models.invalid/api").await.unwrap_err();
    assert!(!secure.to_string().contains("p%40ss"), "{secure}");
    let refused = upgraded("ws://live.invalid/session").await;
    assert!(
        matches!(refused, ConnectError::Refused { status: 200, .. }),
        "{refused}"
    );
    let _ = upgraded("wss://live.invalid/session").await;
    let seen = asked.lock().unwrap().clone();
    let expected = [
        "POST http://models.invalid:8000/api/v1 HTTP/1.1",
        "CONNECT models.invalid:443 HTTP/1.1",
        "CONNECT live.invalid:80 HTTP/1.1",
        "GET /session HTTP/1.1",
        "CONNECT live.invalid:443 HTTP/1.1",
    ];
    assert_eq!(seen, expected);
    // Past the proxy: what is inside, and this machine.
    let inside = posted("http://inside.example.invalid:1/").await;
    assert!(inside.is_ok(), "a name that only looks like one inside");
    for url in [
        "http://inside.example:1/",
        "http://127.0.0.1:1/",
        "http://localhost:1/",
    ] {
        let _ = posted(url).await;
    }
    assert_eq!(asked.lock().unwrap().len(), expected.len() + 1);
}

#[tokio::test]
async fn a_proxy_that_is_down_or_wants_credentials_is_named_with_the_cure() {
    let (port, _) = proxy().await;
    for credentials in ["", "user:wrong@"] {
        set_up(&through(port, credentials), None);
        for error in [
            posted("http://models.invalid/")
                .await
                .unwrap_err()
                .to_string(),
            posted("https://models.invalid/")
                .await
                .unwrap_err()
                .to_string(),
            upgraded("ws://models.invalid/").await.to_string(),
        ] {
            assert!(
                error.starts_with(&format!("the proxy 127.0.0.1:{port} ("))
                    && error.contains("407")
                    && error.contains("write them into that variable")
                    && !error.contains("wrong"),
                "{error}"
            );
        }
        let refused = upgraded("wss://models.invalid/").await;
        assert!(refused.is_lasting());
        assert!(matches!(lost_reason(&refused), LostReason::NoWay { .. }));
    }
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    set_up(&through(port, "user:hunter2@"), None);
    let down = upgraded("wss://models.invalid/").await;
    let expected = format!(
        "the proxy 127.0.0.1:{port} (https_proxy) gives no way to models.invalid: 127.0.0.1:{port} cannot be reached"
    );
    assert!(down.to_string().starts_with(&expected), "{down}");
    assert!(!down.is_lasting(), "it may come back");
    assert!(matches!(lost_reason(&down), LostReason::Network { .. }));
}

#[tokio::test]
async fn tools_reach_no_private_address_through_a_proxy_either() {
    let (port, asked) = proxy().await;
    set_up(&through(port, "user:p%40ss@"), None);
    let by_proxy = FetchLimits {
        proxy_resolves_names: true,
        ..FETCH
    };
    let url = "http://shop.invalid/a";
    let found = fetched(listed("shop.invalid"), FETCH, Some("10.1.2.3"), url).await;
    assert!(
        matches!(&found, Err(FetchError::Refused(text)) if text.contains("private network")),
        "{found:?}"
    );
    let found = fetched(listed("shop.invalid"), FETCH, None, url).await;
    assert!(
        matches!(&found, Err(FetchError::Unreachable(text)) if text.contains("set handlers.proxy_resolves_names")),
        "{found:?}"
    );
    assert_eq!(*asked.lock().unwrap(), [""; 0]);
    // The address that was judged is the one that is asked for, so that the proxy looks nothing up.
    let found = fetched(listed("shop.invalid"), FETCH, Some("93.184.216.34"), url).await;
    assert_eq!(found.unwrap().status, 200);
    // Where the operator says so, the proxy does; a literal address is judged all the same.
    let found = fetched(listed("shop.invalid"), by_proxy, None, url).await;
    assert_eq!(found.unwrap().status, 200);
    let literal = "http://169.254.169.254/latest";
    let found = fetched(Places::listed([]), by_proxy, None, literal).await;
    assert!(matches!(found, Err(FetchError::Refused(_))), "{found:?}");
    // The author of a tool chose its place.
    let named = Places::Named("hooks.invalid:80".parse().unwrap());
    let found = fetched(named, FETCH, None, "http://hooks.invalid/b").await;
    assert_eq!(found.unwrap().status, 200);
    assert_eq!(
        *asked.lock().unwrap(),
        [
            "CONNECT 93.184.216.34:80 HTTP/1.1",
            "GET /a HTTP/1.1",
            "CONNECT shop.invalid:80 HTTP/1.1",
            "GET /a HTTP/1.1",
            "GET http://hooks.invalid/b HTTP/1.1",
        ]
    );
}

fn certificate(name: &str) -> PathBuf {
    let knowledge = Path::new(env!("CARGO_MANIFEST_DIR")).join("../knowledge");
    knowledge.join("tests/it/postgres/certificates").join(name)
}

/// A server at `localhost` whose certificate an authority has signed that nobody else knows.
async fn private_server() -> u16 {
    let chain = vec![CertificateDer::from_pem_file(certificate("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(certificate("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                head(&mut stream).await?;
                serve_one(&mut stream).await
            });
        }
    });
    port
}

#[tokio::test]
async fn an_authority_of_ones_own_is_believed_on_every_way_once_it_is_named() {
    let port = private_server().await;
    let secure = format!("https://localhost:{port}");
    let live = format!("wss://localhost:{port}");
    let place = || listed(&format!("localhost:{port}"));
    let here = Some("127.0.0.1");
    set_up(&[], None);
    let unknown = posted(&secure).await.unwrap_err().to_string();
    assert!(unknown.contains("tls.ca_file"), "{unknown}");
    let unknown = upgraded(&live).await;
    assert!(unknown.is_lasting() && matches!(lost_reason(&unknown), LostReason::NoWay { .. }));
    let unknown = fetched(place(), FETCH, here, &secure).await;
    assert!(
        matches!(unknown, Err(FetchError::Unreachable(_))),
        "{unknown:?}"
    );
    let authority = certificate("authority.pem");
    let by_variable = authority.display().to_string();
    for (variables, ca_file) in [
        (vec![], Some(authority)),
        (vec![("SSL_CERT_FILE", by_variable)], None),
    ] {
        set_up(&variables, ca_file);
        // The head has an empty body, as this server reads no other.
        assert_eq!(posted(&secure).await.unwrap(), 200);
        let refused = upgraded(&live).await;
        assert!(
            matches!(refused, ConnectError::Refused { status: 200, .. }),
            "{refused}"
        );
        assert_eq!(
            fetched(place(), FETCH, here, &secure).await.unwrap().status,
            200
        );
    }
}
