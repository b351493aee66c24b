//! The way out for tools: where it leads and where not, whatever a name resolves to and a redirect says.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use windlass_contract::handler::{
    CapabilityFuture, FetchError, Http, HttpAnswer, HttpRequest, Redirects,
};
use windlass_runtime::fetch::{Endpoint, FetchLimits, Fetcher, Places, Resolver, WayOut};

const LIMITS: FetchLimits = FetchLimits {
    timeout: Duration::from_secs(5),
    body_bytes_max: 1_000,
    proxy_resolves_names: false,
};

/// Names as a test has them: each look-up takes the next address, and the last one stays.
#[derive(Default)]
struct Names {
    addresses: Vec<Vec<IpAddr>>,
    lookups: AtomicUsize,
}

impl Resolver for Names {
    fn resolve(&self, host: &str, port: u16) -> CapabilityFuture<io::Result<Vec<SocketAddr>>> {
        let index = self.lookups.fetch_add(1, Ordering::SeqCst);
        let own = host.parse().map(|address| vec![address]).ok();
        let next = || self.addresses[index.min(self.addresses.len() - 1)].clone();
        let found = own.unwrap_or_else(next);
        let found = found
            .into_iter()
            .map(|address| SocketAddr::new(address, port));
        let found: Vec<SocketAddr> = found.collect();
        Box::pin(std::future::ready(Ok(found)))
    }
}

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34));

struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

/// Answers each request with these bytes, `PORT` in them being its own port, and closes the connection.
async fn server(answer: impl Into<String>) -> Server {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = requests.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut read = Vec::new();
            while !read.windows(4).any(|end| end == b"\r\n\r\n") {
                if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                    break;
                }
            }
            let request = String::from_utf8_lossy(&read).into_owned();
            let is_second = request.starts_with("GET /second");
            kept.lock().unwrap().push(request);
            let answer = match is_second {
                true => "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nsecond"
                    .to_owned(),
                false => answer.replace("PORT", &port.to_string()),
            };
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    Server { port, requests }
}

const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

fn get(url: impl Into<String>) -> HttpRequest {
    HttpRequest {
        method: "GET".to_owned(),
        url: url.into(),
        headers: vec![("Authorization".to_owned(), "Bearer key".to_owned())],
        body: Vec::new(),
        timeout_ms: 5_000,
        redirects: Redirects::Follow,
    }
}

async fn fetch(
    listed: &[String],
    names: Arc<Names>,
    request: HttpRequest,
) -> Result<HttpAnswer, FetchError> {
    let places = listed
        .iter()
        .map(|place| place.parse::<Endpoint>().unwrap());
    let fetcher = Fetcher::new(Places::listed(places), LIMITS, names);
    WayOut(fetcher).fetch(request).await
}

#[tokio::test]
async fn only_listed_places_at_public_or_listed_addresses_are_asked() {
    let server = server(OK).await;
    let port = server.port;
    let at = |addresses: &[IpAddr]| {
        Arc::new(Names {
            addresses: vec![addresses.to_vec()],
            ..Names::default()
        })
    };
    let here = format!("127.0.0.1:{port}");
    let name = format!("shop.example:{port}");
    for (listed, addresses, url, expected) in [
        (
            vec![],
            vec![HERE],
            format!("http://{here}/"),
            Err("is no place that tools may ask"),
        ),
        (
            vec![here.clone()],
            vec![HERE],
            format!("http://{here}/"),
            Ok(()),
        ),
        (
            vec!["127.0.0.1".to_owned()],
            vec![HERE],
            format!("http://{here}/"),
            Err("is no place"),
        ),
        (
            vec![format!("localhost:{port}")],
            vec![HERE],
            format!("http://localhost:{port}/"),
            Ok(()),
        ),
        (
            vec![name.clone()],
            vec![HERE],
            format!("http://{name}/"),
            Err("is at 127.0.0.1, which is this machine"),
        ),
        (
            vec![name.clone()],
            vec![PUBLIC, HERE],
            format!("http://{name}/"),
            Err("is at 127.0.0.1"),
        ),
        (
            vec![name.clone(), here.clone()],
            vec![HERE],
            format!("http://{name}/"),
            Ok(()),
        ),
        (
            vec![here.clone()],
            vec![HERE],
            format!("http://me@{here}/"),
            Err("names no user"),
        ),
        (
            vec![here.clone()],
            vec![HERE],
            format!("ftp://{here}/"),
            Err("begins with http"),
        ),
        (
            vec![here.clone()],
            vec![HERE],
            "http://".to_owned(),
            Err("this is no URL"),
        ),
        (
            vec![here.clone()],
            vec![HERE],
            format!("http://2130706433:{port}/"),
            Err("is no place"),
        ),
    ] {
        let answer = fetch(&listed, at(&addresses), get(&*url)).await;
        match (answer, expected) {
            (Ok(answer), Ok(())) => assert_eq!(answer.body.unwrap(), b"ok", "{url}"),
            (Err(FetchError::Refused(problem)), Err(expected)) => {
                assert!(problem.contains(expected), "{url}: {problem}");
            }
            (answer, _) => panic!("{listed:?} {url}: {answer:?}"),
        }
    }
    assert_eq!(server.requests.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_name_that_changes_between_look_up_and_connection_changes_nothing() {
    let server = server(OK).await;
    let name = format!("shop.example:{}", server.port);
    // The next look-up would say that the name is at a private address now.
    let private = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    let names = Arc::new(Names {
        addresses: vec![vec![HERE], vec![private]],
        ..Names::default()
    });
    let listed = [name.clone(), format!("127.0.0.1:{}", server.port)];
    let answer = fetch(&listed, names.clone(), get(format!("http://{name}/"))).await;
    assert_eq!(answer.unwrap().body.unwrap(), b"ok");
    assert_eq!(names.lookups.load(Ordering::SeqCst), 1);
    let refused = fetch(&listed, names, get(format!("http://{name}/"))).await;
    assert!(
        matches!(refused, Err(FetchError::Refused(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_redirect_leads_to_listed_places_alone_and_only_where_it_is_followed() {
    for (answer, redirects, expected) in [
        (
            "HTTP/1.1 302 X\r\nConnection: close\r\nContent-Length: 0\r\nLocation: /second\r\n\r\n",
            Redirects::Follow,
            Ok("second"),
        ),
        (
            "HTTP/1.1 302 X\r\nConnection: close\r\nContent-Length: 0\r\nLocation: /second\r\n\r\n",
            Redirects::Keep,
            Ok(""),
        ),
        (
            "HTTP/1.1 302 X\r\nConnection: close\r\nContent-Length: 0\r\nLocation: http://169.254.169.254/x\r\n\r\n",
            Redirects::Follow,
            Err("169.254.169.254 is no place"),
        ),
        (
            "HTTP/1.1 307 X\r\nConnection: close\r\nContent-Length: 0\r\nLocation: file:///etc/passwd\r\n\r\n",
            Redirects::Follow,
            Err("this is no URL"),
        ),
        (
            "HTTP/1.1 308 X\r\nConnection: close\r\nContent-Length: 0\r\nLocation: /again\r\n\r\n",
            Redirects::Follow,
            Err("redirects without an end"),
        ),
    ] {
        let server = server(answer).await;
        let here = format!("127.0.0.1:{}", server.port);
        let request = HttpRequest {
            redirects,
            ..get(format!("http://{here}/first"))
        };
        let names = Arc::new(Names::default());
        match (fetch(&[here], names, request).await, expected) {
            (Ok(answer), Ok(body)) => assert_eq!(answer.body.unwrap(), body.as_bytes()),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "{error}");
            }
            (answer, _) => panic!("{answer:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_too_long_too_late_or_no_answer_is_an_error_that_says_so() {
    let long = format!(
        "HTTP/1.1 201 OK\r\nContent-Length: 1001\r\n\r\n{}",
        "x".repeat(1_001)
    );
    for (answer, beginning, expected) in [
        (long.as_str(), 1_000, "longer than 1000 bytes"),
        (
            "HTTP/1.1 201 OK\r\nContent-Length: 9\r\n\r\nbroken",
            6,
            "broke off",
        ),
    ] {
        let server = server(answer).await;
        let here = format!("127.0.0.1:{}", server.port);
        let asked = get(format!("http://{here}/"));
        let answer = fetch(std::slice::from_ref(&here), Arc::default(), asked).await;
        // The status says what became of the request.
        let answer = answer.unwrap();
        assert_eq!(answer.status, 201);
        let incomplete = answer.body.unwrap_err();
        assert_eq!(incomplete.beginning.len(), beginning);
        assert!(incomplete.problem.contains(expected), "{incomplete:?}");
    }
    let server = server("nonsense\r\n\r\n").await;
    let here = format!("127.0.0.1:{}", server.port);
    let asked = get(format!("http://{here}/"));
    let error = fetch(std::slice::from_ref(&here), Arc::default(), asked).await;
    let error = error.unwrap_err();
    assert!(matches!(error, FetchError::Unanswered(_)), "{error:?}");
    assert!(error.to_string().contains("invalid HTTP"), "{error}");
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = format!("127.0.0.1:{}", silent.local_addr().unwrap().port());
    let request = HttpRequest {
        timeout_ms: 20,
        ..get(format!("http://{here}/"))
    };
    let error = fetch(std::slice::from_ref(&here), Arc::default(), request)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("within 20 ms"), "{error}");
    drop(silent);
    let error = fetch(
        std::slice::from_ref(&here),
        Arc::default(),
        get(format!("http://{here}/")),
    )
    .await
    .unwrap_err();
    assert!(matches!(error, FetchError::Unreachable(_)), "{error:?}");
}

#[tokio::test]
async fn headers_that_are_none_or_of_the_connection_are_not_sent() {
    let server = server(OK).await;
    let here = format!("127.0.0.1:{}", server.port);
    let with = |name: &str, value: &str| HttpRequest {
        headers: vec![(name.to_owned(), value.to_owned())],
        ..get(format!("http://{here}/"))
    };
    for (name, value) in [("X-A", "a\r\nX-B: b"), ("X A", "a"), ("", "a")] {
        let refused = fetch(
            std::slice::from_ref(&here),
            Arc::default(),
            with(name, value),
        )
        .await;
        assert!(
            matches!(refused, Err(FetchError::Refused(_))),
            "{refused:?}"
        );
    }
    let refused = HttpRequest {
        method: "CONNECT".to_owned(),
        ..with("X-A", "a")
    };
    let refused = fetch(std::slice::from_ref(&here), Arc::default(), refused).await;
    assert!(
        matches!(refused, Err(FetchError::Refused(_))),
        "{refused:?}"
    );
    fetch(
        std::slice::from_ref(&here),
        Arc::default(),
        with("Host", "other.example"),
    )
    .await
    .unwrap();
    let requests = server.requests.lock().unwrap();
    let [request] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert!(
        request
            .to_ascii_lowercase()
            .contains(&format!("host: {here}\r\n")),
        "{request}"
    );
    assert!(!request.contains("other.example"), "{request}");
}
