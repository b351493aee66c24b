//! A server that gives one prepared answer for each request, and a small client over `TcpStream` that is the capability `Http`.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use windlass_contract::handler::{
    CapabilityFuture, FetchError, Http, HttpAnswer, HttpRequest, IncompleteBody, Redirects,
};
use windlass_contract::sensitive::Sensitive;
use windlass_services::Endpoint;

pub(crate) const KEY: &str = "the-key";
/// Bytes of an answer that the client reads.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// What the server sends, byte by byte; nothing where it hangs up.
pub(crate) struct Reply(Vec<u8>);

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::with(status, &[], body.to_string().as_bytes())
    }

    pub(crate) fn with(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Self {
        Self::of_length(status, headers, body, body.len())
    }

    /// An answer that breaks off before the length that it says.
    pub(crate) fn truncated(status: u16, body: &Value) -> Self {
        let body = body.to_string();
        Self::of_length(status, &[], &body.as_bytes()[..body.len() / 2], body.len())
    }

    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    fn of_length(status: u16, headers: &[(&str, &str)], body: &[u8], length: usize) -> Self {
        let mut reply = format!("HTTP/1.1 {status} Any\r\nContent-Length: {length}\r\n");
        for (name, value) in headers {
            reply.push_str(&format!("{name}: {value}\r\n"));
        }
        reply.push_str("Connection: close\r\n\r\n");
        let mut reply = reply.into_bytes();
        reply.extend_from_slice(body);
        Self(reply)
    }
}

/// What the server was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn has(&self, header: &str) -> bool {
        self.head.lines().any(|line| line == header)
    }
}

pub(crate) struct Server {
    address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub(crate) fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let record = asked.clone();
        thread::spawn(move || {
            for reply in replies {
                let Ok((mut stream, _)) = listener.accept() else {
                    return;
                };
                record.lock().unwrap().push(read_request(&mut stream));
                let _ = stream.write_all(&reply.0);
            }
        });
        Self { address, asked }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint {
            address: self.address.clone(),
            key: Some(Sensitive(KEY.to_owned())),
        }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// A port of this machine at which nobody listens.
pub(crate) fn nowhere() -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    Endpoint { address, key: None }
}

fn read_request(stream: &mut TcpStream) -> Asked {
    let mut read = Vec::new();
    let (head, length) = loop {
        if let Some((head, _)) = split(&read) {
            let head = String::from_utf8(head.to_vec()).unwrap();
            let length = header(&head, "content-length").map_or(0, |value| value.parse().unwrap());
            break (head, length);
        }
        read_some(stream, &mut read);
    };
    while split(&read).unwrap().1.len() < length {
        read_some(stream, &mut read);
    }
    Asked {
        line: head.lines().next().unwrap().to_owned(),
        body: serde_json::from_slice(split(&read).unwrap().1).unwrap_or_default(),
        head,
    }
}

fn read_some(stream: &mut TcpStream, read: &mut Vec<u8>) {
    let mut piece = [0; 4_096];
    let count = stream.read(&mut piece).unwrap();
    assert_ne!(count, 0, "a request ends as it says");
    read.extend_from_slice(&piece[..count]);
}

fn split(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = message.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    Some((&message[..end], &message[end + 4..]))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let (_, value) = lines.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(value)
}

/// Asks one server at a time, and waits.
pub(crate) struct Client;

impl Http for Client {
    fn fetch(&self, request: HttpRequest) -> CapabilityFuture<Result<HttpAnswer, FetchError>> {
        assert_eq!(
            request.redirects,
            Redirects::Keep,
            "a key goes nowhere else"
        );
        assert!(request.timeout_ms > 0);
        Box::pin(std::future::ready(fetch(&request)))
    }
}

fn fetch(request: &HttpRequest) -> Result<HttpAnswer, FetchError> {
    let rest = request.url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_at(rest.find('/').unwrap());
    let stream = TcpStream::connect(host);
    let mut stream = stream.map_err(|error| FetchError::Unreachable(error.to_string()))?;
    let mut text = format!("{} {path} HTTP/1.1\r\nhost: {host}\r\n", request.method);
    for (name, value) in &request.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n", request.body.len()));
    let mut message = text.into_bytes();
    message.extend_from_slice(&request.body);
    stream.write_all(&message).unwrap();
    let mut read = Vec::new();
    // A server that hangs up may reset the connection.
    let _ = stream.read_to_end(&mut read);
    let Some((head, body)) = split(&read) else {
        return Err(FetchError::Unanswered("there was no answer".to_owned()));
    };
    let head = String::from_utf8(head.to_vec()).unwrap();
    let length: usize = header(&head, "content-length").unwrap().parse().unwrap();
    let incomplete = |problem: &str| IncompleteBody {
        beginning: body[..body.len().min(BODY_BYTES_MAX)].to_vec(),
        problem: problem.to_owned(),
    };
    Ok(HttpAnswer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        url: request.url.clone(),
        headers: head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect(),
        body: match body.len() {
            count if count > BODY_BYTES_MAX => Err(incomplete("the answer is too long")),
            count if count < length => Err(incomplete("the answer broke off")),
            _ => Ok(body.to_vec()),
        },
    })
}

/// The value of a future that waits for nothing: the client has waited already.
pub(crate) fn now<T>(mut future: CapabilityFuture<T>) -> T {
    match Pin::as_mut(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("there is nothing to wait for"),
    }
}
