//! The way out of these tests: one request a connection, on the thread that asks.

use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use windlass_contract::handler::{
    CapabilityFuture, FetchError, Http, HttpAnswer, HttpRequest, IncompleteBody,
};

pub(crate) struct Client;

impl Http for Client {
    fn fetch(&self, request: HttpRequest) -> CapabilityFuture<Result<HttpAnswer, FetchError>> {
        Box::pin(std::future::ready(fetch(&request)))
    }
}

/// What a future comes to that waits for nothing but this client.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits for something else than the service"),
    }
}

fn fetch(request: &HttpRequest) -> Result<HttpAnswer, FetchError> {
    let rest = request.url.strip_prefix("http://");
    let rest = rest.ok_or_else(|| FetchError::Refused("it is no http".into()))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream =
        TcpStream::connect(host).map_err(|error| FetchError::Unreachable(error.to_string()))?;
    stream
        .set_read_timeout(Some(Duration::from_millis(request.timeout_ms)))
        .unwrap();
    let mut head = format!(
        "{} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n",
        request.method,
        request.body.len()
    );
    for (name, value) in &request.headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"\r\n").unwrap();
    stream.write_all(&request.body).unwrap();
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes)
        && error.kind() != ErrorKind::ConnectionReset
    {
        return Err(FetchError::Unanswered(error.to_string()));
    }
    let unanswered = || FetchError::Unanswered("the connection ended without an answer".into());
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.ok_or_else(unanswered)?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let body = bytes[end + 4..].to_vec();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let status = status.and_then(|status| status.parse().ok());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut answer = HttpAnswer {
        status: status.ok_or_else(unanswered)?,
        url: request.url.clone(),
        headers,
        body: Ok(Vec::new()),
    };
    let length = answer.header("Content-Length").unwrap().parse::<usize>();
    answer.body = match body.len() < length.unwrap() {
        true => Err(IncompleteBody {
            beginning: body,
            problem: "the answer broke off".into(),
        }),
        false => Ok(body),
    };
    Ok(answer)
}
