//! One HTTP request over a socket of its own, as text, so that nothing between hides what the server sends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl HttpAnswer {
    /// Reads a whole answer.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let answer = String::from_utf8_lossy(bytes);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
            without_chunks(body)
        } else {
            body.to_owned()
        };
        Self {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body,
        }
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Sends a request with these headers and reads the answer to its end.
pub(crate) fn request(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> HttpAnswer {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        text.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    HttpAnswer::parse(&bytes)
}

/// Posts a body and reads the answer to its end.
pub(crate) fn post(address: &str, path: &str, body: &[u8]) -> HttpAnswer {
    post_with(address, path, &[], body)
}

pub(crate) fn post_with(
    address: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> HttpAnswer {
    let mut text = format!(
        "POST {path} HTTP/1.1\r\nConnection: close\r\nHost: {address}\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    // A server that refuses a long body may not read it to its end.
    let _ = stream.write_all(body);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    HttpAnswer::parse(&bytes)
}

/// The next answer on a connection that goes on; `None` where the server has ended it.
pub(crate) fn answer_on(socket: &mut BufReader<TcpStream>) -> Option<HttpAnswer> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if !matches!(socket.read_line(&mut head), Ok(read) if read > 0) {
            return None;
        }
    }
    let mut answer = HttpAnswer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.trim_end().to_owned(),
        body: String::new(),
    };
    if let Some(length) = answer.header("content-length") {
        let mut body = vec![0; length.parse().unwrap()];
        socket.read_exact(&mut body).unwrap();
        answer.body = String::from_utf8(body).unwrap();
        return Some(answer);
    }
    let mut chunks = String::new();
    while !chunks.ends_with("0\r\n\r\n") {
        assert_ne!(socket.read_line(&mut chunks).unwrap(), 0, "it is cut off");
    }
    answer.body = without_chunks(&chunks);
    Some(answer)
}

fn without_chunks(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
        if size == 0 {
            break;
        }
    }
    whole
}

pub(crate) fn get(address: &str, path: &str) -> HttpAnswer {
    request(address, "GET", path, &[])
}
