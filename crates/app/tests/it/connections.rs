//! Connections that carry several requests: cut anywhere, many at once, with bodies that nobody reads.

use crate::chat::{chat, echo, words};
use crate::support::http::{HttpAnswer, answer_on};
use serde_json::json;
use std::io::{BufReader, Write};
use std::net::TcpStream;

struct Line {
    socket: BufReader<TcpStream>,
}

impl Line {
    fn to(address: &str) -> Self {
        let socket = BufReader::new(TcpStream::connect(address).unwrap());
        Self { socket }
    }

    fn write(&mut self, text: &str) {
        self.socket.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// The next answer; `None` where the server has ended the connection.
    fn answer(&mut self) -> Option<HttpAnswer> {
        answer_on(&mut self.socket)
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_on_one_connection_are_answered_however_they_are_cut() {
    let chat = chat(echo, &[]).await;
    let mut line = Line::to(&chat.address);
    let body = json!({"id": "c", "message": "Who?"}).to_string();
    let post = format!(
        "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (health, ready) = (get("/health"), get("/ready"));
    for cut in [0, 1, 20, ready.len() - 1, ready.len()] {
        line.write(&format!("{health}{}", &ready[..cut]));
        assert_eq!(line.answer().unwrap().body, "up\n", "cut at {cut}");
        line.write(&format!("{}{post}{health}", &ready[cut..]));
        assert_eq!(line.answer().unwrap().body, "ready\n", "cut at {cut}");
        assert_eq!(words(&line.answer().unwrap()), "It is me.");
        assert_eq!(line.answer().unwrap().body, "up\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_nobody_reads_is_never_taken_for_a_request() {
    let chat = chat(echo, &[]).await;
    let hidden = get("/metrics");
    for sent in [hidden.len(), 0, 10] {
        let mut line = Line::to(&chat.address);
        line.write(&format!(
            "POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}",
            hidden.len(),
            &hidden[..sent]
        ));
        assert_eq!(line.answer().unwrap().status, 405, "{sent} bytes sent");
        // A server that has ended the connection takes no more.
        let rest = format!("{}{}", &hidden[sent..], get("/health"));
        let _ = line.socket.get_mut().write_all(rest.as_bytes());
        // The connection is over, or goes on behind the body.
        if let Some(next) = line.answer() {
            assert_eq!(next.body, "up\n", "{sent} bytes sent");
        }
    }
}
