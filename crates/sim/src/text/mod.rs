//! Text models over HTTP as a pure function: from a request and the model's plan to an answer. Knows no socket and no clock; each request
//! holds its conversation, so the server remembers none.

mod gemini;
mod interactions;
mod openai;
mod openai_messages;
mod openai_refusal;
mod openai_rules;
pub(crate) mod plan;
mod responses;

use crate::runner::Options;
use crate::script::HttpFailure;

/// A request as it came.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub method: &'a str,
    /// The path without the query.
    pub path: &'a str,
    pub query: &'a str,
    /// Headers with names in lower case.
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
}

impl Request<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.query.split('&');
        parameters.find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix('='))
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    /// The pieces in their order; a body of one piece has a known length.
    pub body: Vec<Piece>,
}

/// A part of an answer's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Bytes(Vec<u8>),
    WaitMs(u64),
    /// These bytes repeated until the client disconnects.
    Endless(Vec<u8>),
    /// The connection breaks.
    Cut,
}

/// The simulated service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `POST …/chat/completions` and `POST …/responses`.
    ChatCompletions,
    /// `POST …:generateContent`, `…:streamGenerateContent` and `…/interactions`.
    Gemini,
}

/// The most bytes of a request's body that are read; the services take images of some megabytes.
pub const BODY_BYTES_MAX: usize = 32 << 20;

/// A simulated text service.
#[derive(Clone, Debug)]
pub struct Server {
    protocol: Protocol,
    options: Options,
    answers: u64,
}

impl Server {
    pub fn new(protocol: Protocol, options: Options) -> Self {
        Self {
            protocol,
            options,
            answers: 0,
        }
    }

    /// Answers one request. Equal requests in the same order get equal answers.
    pub fn answer(&mut self, request: &Request<'_>) -> HttpAnswer {
        self.answers += 1;
        match self.protocol {
            Protocol::ChatCompletions => openai::answer(request, &self.options, self.answers),
            Protocol::Gemini if interactions::is_asked(request) => {
                interactions::answer(request, &self.options, self.answers)
            }
            Protocol::Gemini => gemini::answer(request, &self.options, self.answers),
        }
    }
}

fn json_answer(status: u16, body: &serde_json::Value) -> HttpAnswer {
    HttpAnswer {
        status,
        headers: vec![("content-type", "application/json".to_owned())],
        body: vec![Piece::Bytes(body.to_string().into_bytes())],
    }
}

/// A page, like from a proxy.
fn page(status: u16) -> HttpAnswer {
    let html = format!("<!DOCTYPE html>\n<html><title>{status}</title><h1>{status}</h1></html>\n");
    HttpAnswer {
        status,
        headers: vec![("content-type", "text/html; charset=utf-8".to_owned())],
        body: vec![Piece::Bytes(html.into_bytes())],
    }
}

/// The answer of a script's failure, with the service's own body.
fn failed(failure: &HttpFailure, body: &serde_json::Value) -> HttpAnswer {
    let mut answer = if failure.html {
        page(failure.status)
    } else {
        json_answer(failure.status, body)
    };
    if let Some(seconds) = failure.retry_after {
        answer.headers.push(("retry-after", seconds.to_string()));
    }
    answer
}

/// Events of a stream, each with its `data:`.
#[derive(Debug, Default)]
struct Stream {
    pieces: Vec<Piece>,
}

impl Stream {
    fn push(&mut self, value: &serde_json::Value) {
        self.bytes(format!("data: {value}\n\n").into_bytes());
    }

    fn bytes(&mut self, bytes: Vec<u8>) {
        self.pieces.push(Piece::Bytes(bytes));
    }

    /// Sends the first half of an event, and breaks the connection.
    fn half(&mut self, value: &serde_json::Value) {
        let mut event = format!("data: {value}\n\n").into_bytes();
        event.truncate(event.len() / 2);
        self.bytes(event);
        self.pieces.push(Piece::Cut);
    }

    fn answer(self) -> HttpAnswer {
        HttpAnswer {
            status: 200,
            headers: vec![("content-type", "text/event-stream".to_owned())],
            body: self.pieces,
        }
    }
}

/// An event whose text ends within a letter: the first half of an `é` replaces `mark`.
fn half_a_letter(value: &serde_json::Value, mark: &str) -> Vec<u8> {
    half_a_letter_of(&format!("data: {value}\n\n"), mark)
}

fn half_a_letter_of(text: &str, mark: &str) -> Vec<u8> {
    match text.split_once(mark) {
        Some((before, behind)) => [before.as_bytes(), &[0xc3], behind.as_bytes()].concat(),
        None => text.as_bytes().to_vec(),
    }
}
