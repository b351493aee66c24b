//! Accepts connections, bounded in number, in all and for each address, and has hyper serve HTTP/1 on each within its deadlines.
//! Knows no route.

use super::patience::{ComingBody, EndingBody, Patience, PatientStream, WhileAnswering};
use super::peer::peer;
use super::rare_line::RareLine;
use crate::access::SocketPeer;
use axum::Router;
use axum::body::Body;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};
use windlass_runtime::shares::{Held, Holding, Party, Shares};

/// How long nothing is accepted after the system refused a connection, as it does when it has no more descriptors.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_millis(100);
/// Refused connections that are given time to read why; of more the socket is closed at once.
const REFUSALS_MAX: usize = 64;
/// That time.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of a refused request that are read, so that its sender gets to the answer.
const REFUSED_BYTES_MAX: u64 = 64 * 1024;

static REFUSED: RareLine = RareLine::new();

/// How many connections there may be, and how long everything may take on them.
#[derive(Clone)]
pub(crate) struct ListenerLimits {
    pub(crate) connections_max: usize,
    /// Bytes of the head of one request. hyper itself takes no more than 100 headers.
    pub(crate) head_bytes_max: usize,
    pub(crate) patience: Patience,
    /// Proxies: a connection of theirs carries many clients.
    pub(crate) proxies: Arc<BTreeSet<IpAddr>>,
    /// The shares of one address; `None` where all connections come from this machine.
    pub(crate) shares: Option<Arc<Shares>>,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            connections_max: 4_096,
            head_bytes_max: 16 * 1024,
            patience: Patience {
                head: Duration::from_secs(15),
                body: Duration::from_secs(60),
                body_idle: Duration::from_secs(10),
                write: Duration::from_secs(30),
                request: Duration::from_secs(900),
            },
            proxies: Arc::default(),
            shares: None,
        }
    }
}

/// A connection's place among those that the server holds, in the extensions of each of its requests. A connection that changes to
/// another protocol counts for as long as its place is held.
#[derive(Clone)]
pub(crate) struct ConnectionSlot {
    _of_all: Arc<OwnedSemaphorePermit>,
    _of_address: Option<Arc<Holding>>,
}

/// Why there is no place for a connection.
enum Full {
    Server,
    Address,
}

/// The places of one listener.
struct Places {
    limits: ListenerLimits,
    all: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
}

impl Places {
    fn enter(&self, address: IpAddr) -> Result<ConnectionSlot, Full> {
        let limits = &self.limits;
        let of_address = match &limits.shares {
            Some(shares) if !limits.proxies.contains(&address.to_canonical()) => {
                let party = [Party::address(address)];
                let held = shares.hold(&party, Held::Connections, 1);
                Some(Arc::new(held.map_err(|_| Full::Address)?))
            }
            _ => None,
        };
        let of_all = self.all.clone().try_acquire_owned();
        Ok(ConnectionSlot {
            _of_all: Arc::new(of_all.map_err(|_| Full::Server)?),
            _of_address: of_address,
        })
    }

    /// Tells a client why it is not served, and when to come back, without reading its request.
    fn refuse(&self, stream: TcpStream, full: &Full) {
        if let Some(left_out) = REFUSED.due() {
            let all = matches!(full, Full::Server);
            tracing::warn!(
                all,
                left_out,
                "a connection was refused: there is no place for it"
            );
        }
        // If there is no time for the answer, the end of the connection says enough.
        let Ok(permit) = self.refusals.clone().try_acquire_owned() else {
            return;
        };
        let answer = refusal(full);
        tokio::spawn(async move {
            let _ = timeout(REFUSAL_TIMEOUT, say_and_close(stream, &answer)).await;
            drop(permit);
        });
    }
}

fn refusal(full: &Full) -> String {
    let (status, seconds, problem) = match full {
        Full::Server => (
            "503 Service Unavailable",
            1,
            "the server has as many connections as it can hold; come back in 1 s",
        ),
        Full::Address => (
            "429 Too Many Requests",
            5,
            "this address has used up its share of connections here; come back in 5 s",
        ),
    };
    let body = format!(r#"{{"error":{{"code":"overloaded","message":"{problem}"}}}}"#);
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nRetry-After: {seconds}\r\n\
         Access-Control-Allow-Origin: *\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn say_and_close(mut stream: TcpStream, answer: &str) {
    if stream.write_all(answer.as_bytes()).await.is_err() || stream.shutdown().await.is_err() {
        return;
    }
    // A socket that is closed with unread bytes in it discards the answer.
    let mut rest = stream.take(REFUSED_BYTES_MAX);
    let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
    let _ = rest.get_mut().read(&mut []).await;
}

/// Serves until `shutdown` turns true; then takes no more connections and lets the open ones finish their request.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ListenerLimits,
    mut shutdown: watch::Receiver<bool>,
) {
    let places = Places {
        all: Arc::new(Semaphore::new(
            limits.connections_max.min(Semaphore::MAX_PERMITS),
        )),
        refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
        limits,
    };
    loop {
        let accepted = tokio::select! {
            () = over(&mut shutdown) => return,
            accepted = accept(&listener) => accepted,
        };
        match accepted {
            Ok((stream, address)) => match places.enter(address.ip()) {
                Ok(place) => {
                    let served = Served {
                        place,
                        address: address.ip(),
                        limits: places.limits.clone(),
                        router: TowerToHyperService::new(router.clone()),
                    };
                    tokio::spawn(served.serve(stream, shutdown.clone()));
                }
                Err(full) => places.refuse(stream, &full),
            },
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE_AFTER_REFUSAL).await;
            }
        }
    }
}

/// Waits until the value is true, or the sender is gone.
async fn over(shutdown: &mut watch::Receiver<bool>) {
    // Whether it was said or the sender is gone: it is over either way.
    let _ = shutdown.wait_for(|over| *over).await;
}

async fn accept(listener: &TcpListener) -> std::io::Result<(TcpStream, SocketAddr)> {
    let (stream, address) = listener.accept().await?;
    // Audio must not wait for the acknowledgement of the frame before it.
    stream.set_nodelay(true)?;
    Ok((stream, address))
}

/// A connection that has a place.
#[derive(Clone)]
struct Served {
    place: ConnectionSlot,
    address: IpAddr,
    limits: ListenerLimits,
    router: TowerToHyperService<Router>,
}

impl Served {
    async fn serve(self, stream: TcpStream, mut shutdown: watch::Receiver<bool>) {
        let limits = self.limits.clone();
        let service = service_fn(move |request: Request<Incoming>| self.clone().answer(request));
        let stream = PatientStream::new(stream, limits.patience.write);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.patience.head)
            .max_buf_size(limits.head_bytes_max)
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

    async fn answer(
        self,
        mut request: Request<Incoming>,
    ) -> Result<Response<EndingBody>, Infallible> {
        let patience = self.limits.patience;
        let until = Instant::now() + patience.request;
        let peer = peer(self.address, &self.limits.proxies, request.headers());
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(SocketPeer(self.address));
        request.extensions_mut().insert(self.place);
        let request = request.map(|body| ComingBody::new(body, patience));
        let answered = timeout_at(until, self.router.call(request)).await;
        let mut response = answered.map_or_else(|_| took_too_long(), |Ok(response)| response);
        let held: Option<WhileAnswering> = response.extensions_mut().remove();
        Ok(response.map(|body| EndingBody::new(body, until, held)))
    }
}

fn took_too_long() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::patience::TooSlow;
    use axum::routing::{get, post};
    use bytes::Bytes;
    use futures_util::{Stream, stream};
    use tokio::net::TcpSocket;
    use tokio::sync::Notify;
    use tokio::task::JoinHandle;
    use windlass_runtime::shares::{Share, ShareLimits};

    struct Served {
        address: SocketAddr,
        /// The signal that lets `/slow` answer.
        gate: Arc<Notify>,
        shutdown: watch::Sender<bool>,
        accepting: JoinHandle<()>,
    }

    async fn served() -> Served {
        served_within(ListenerLimits {
            connections_max: 8,
            ..ListenerLimits::default()
        })
        .await
    }

    async fn served_within(limits: ListenerLimits) -> Served {
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
            .route("/slow", get(slow))
            .route("/endless", get(async || Body::from_stream(endless())))
            .route("/body", post(async |body: Body| read(body).await));
        Served {
            address,
            gate,
            shutdown,
            accepting: tokio::spawn(serve(listener, router, limits, is_over)),
        }
    }

    /// More than anybody reads.
    fn endless() -> impl Stream<Item = Result<Bytes, Infallible>> {
        stream::repeat_with(|| Ok(Bytes::from_static(&[0; 65_536])))
    }

    async fn read(body: Body) -> &'static str {
        match axum::body::to_bytes(body, 1_000_000).await {
            Ok(_) => "read",
            Err(error) if TooSlow::is(&error) => "too slow",
            Err(_) => "broken",
        }
    }

    async fn sent(address: SocketAddr, text: &str) -> TcpStream {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(text.as_bytes()).await.unwrap();
        client
    }

    /// The server's text until it ends the connection.
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

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_ends_in_time() {
        let served = served().await;
        let head =
            "POST /body HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 100\r\n\r\n";
        let began = Instant::now();
        let said = rest(sent(served.address, &format!("{head}x")).await).await;
        assert!(said.ends_with("too slow"), "{said}");
        assert_eq!(began.elapsed().as_secs(), 10);
        // A body that comes byte by byte ends, too.
        let (began, mut client) = (Instant::now(), sent(served.address, head).await);
        for _ in 0..12 {
            if client.write_all(b"x").await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(6)).await;
        }
        let said = rest(client).await;
        assert!(said.ends_with("too slow"), "{said}");
        assert!(began.elapsed().as_secs() >= 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_loses_its_connection() {
        let served = served_within(ListenerLimits {
            connections_max: 1,
            ..ListenerLimits::default()
        })
        .await;
        let began = Instant::now();
        let slow = sent(
            served.address,
            "GET /endless HTTP/1.1\r\nHost: here\r\n\r\n",
        )
        .await;
        // The one place is free again once the connection is over.
        loop {
            let said = rest(sent(served.address, &closing(QUICK)).await).await;
            if said.contains("200 OK") {
                break;
            }
            assert!(
                said.contains("503") && said.contains("Retry-After: 1"),
                "{said}"
            );
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!((30..=40).contains(&began.elapsed().as_secs()));
        drop(slow);
    }

    fn closing(request: &str) -> String {
        request.replacen("\r\n", "\r\nConnection: close\r\n", 1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_ends_with_its_time_whatever_answers_it() {
        let served = served().await;
        let began = Instant::now();
        let said = rest(
            sent(
                served.address,
                &closing("GET /slow HTTP/1.1\r\nHost: here\r\n\r\n"),
            )
            .await,
        )
        .await;
        assert!(said.starts_with("HTTP/1.1 504"), "{said}");
        assert_eq!(began.elapsed().as_secs(), 900);
    }

    #[tokio::test]
    async fn one_address_has_its_share_of_the_places_and_no_more() {
        let share = Share {
            connections_max: 5,
            sessions_max: 1,
            turn_bytes_max: u64::MAX,
            body_bytes_max: 1,
            requests_per_minute_max: 1,
            turns_per_minute_max: 1,
            frames_per_second_max: 1,
            frame_bytes_per_second_max: 1,
        };
        let limits = ShareLimits {
            address: share,
            user: share,
            tenant: share,
            turn_bytes_max: u64::MAX,
        };
        let proxy: IpAddr = [127, 0, 0, 9].into();
        let served = served_within(ListenerLimits {
            connections_max: 100,
            proxies: Arc::new([proxy].into()),
            shares: Some(Shares::new(limits)),
            ..ListenerLimits::default()
        })
        .await;
        let from = async |last: u8| {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, last], 0).into()).unwrap();
            let mut client = socket.connect(served.address).await.unwrap();
            let _ = client.write_all(closing(QUICK).as_bytes()).await;
            client
        };
        let mut held = Vec::new();
        for _ in 0..5 {
            held.push(TcpStream::connect(served.address).await.unwrap());
        }
        let said = rest(from(1).await).await;
        assert!(
            said.starts_with("HTTP/1.1 429") && said.contains("Retry-After: 5"),
            "{said}"
        );
        // Others are served, and so are callers behind a proxy.
        for last in [2, 9, 9, 9, 9, 9, 9, 9] {
            let said = rest(from(last).await).await;
            assert!(said.ends_with("quick"), "{last}: {said}");
        }
        drop(held);
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
