//! The Model Context Protocol over standard input and output: a message a line. Its client is the program that started this one, and its
//! end is the end of what that writes. Knows no method but those that concern the connection.

use super::message::{ClientCapabilities, Elicitation, Message, Request, read};
use super::reply::{Failure, INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, Revision, result};
use super::{Exchange, Leaving, McpHost, McpSession, OpenRequests, Peer, agreed, initialized};
use crate::mcp::message::STATELESS;
use serde_json::Value;
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Messages that wait to be read, and to be written.
const WAITING_MAX: usize = 64;

/// How long what was asked before the end of the input has for its answers.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// How long what was taken back has for its end, and what is said for being written.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);

/// One line of the client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    TooLong,
}

/// The lines that come on standard input, read by a thread of its own until there are no more.
pub(crate) fn input(bytes_max: usize) -> io::Result<mpsc::Receiver<Line>> {
    let (sender, lines) = mpsc::channel(WAITING_MAX);
    let reading = move || {
        let mut input = io::stdin().lock();
        while let Ok(Some(line)) = next_line(&mut input, bytes_max) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new()
        .name("mcp input".to_owned())
        .spawn(reading)?;
    Ok(lines)
}

/// A sender of messages to standard output, which a thread of its own writes, and a receiver that ends once all are written.
pub(crate) fn output() -> io::Result<(mpsc::Sender<Value>, oneshot::Receiver<()>)> {
    let (sender, mut messages) = mpsc::channel::<Value>(WAITING_MAX);
    let (writes, written) = oneshot::channel::<()>();
    let writing = move || {
        // The end of the thread drops it, and so reports that all is written.
        let _writes = writes;
        let mut output = io::stdout().lock();
        while let Some(message) = messages.blocking_recv() {
            // A client that does not read any more is gone, which its input says as well.
            if writeln!(output, "{message}")
                .and_then(|()| output.flush())
                .is_err()
            {
                break;
            }
        }
    };
    std::thread::Builder::new()
        .name("mcp output".to_owned())
        .spawn(writing)?;
    Ok((sender, written))
}

/// The next line without its end; `None` where there are no more.
fn next_line(input: &mut impl BufRead, bytes_max: usize) -> io::Result<Option<Line>> {
    loop {
        let mut line = Vec::new();
        let limit = bytes_max as u64 + 1;
        let read = input.by_ref().take(limit).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        if line.last() != Some(&b'\n') && line.len() > bytes_max {
            skip_line(input)?;
            return Ok(Some(Line::TooLong));
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            return Ok(Some(Line::Whole(text.to_vec())));
        }
    }
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let waiting = input.fill_buf()?;
        let (used, is_over) = match waiting.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (waiting.len(), waiting.is_empty()),
        };
        input.consume(used);
        if is_over {
            return Ok(());
        }
    }
}

/// One client.
struct Connection {
    host: Arc<McpHost>,
    peer: Peer,
    outlet: mpsc::Sender<Value>,
    open: Arc<OpenRequests>,
    /// After its handshake, if it had one.
    session: Option<Arc<McpSession>>,
    running: JoinSet<()>,
}

/// Answers messages until the input ends, or `ends`. Requests from before the end of the input are answered, unless they take too long; a
/// change that has begun is finished. A client that reads nothing does not delay the end.
pub(crate) async fn serve(
    host: Arc<McpHost>,
    peer: Peer,
    mut lines: mpsc::Receiver<Line>,
    outlet: mpsc::Sender<Value>,
    ends: impl Future<Output = ()>,
) {
    let mut connection = Connection {
        host,
        peer,
        outlet,
        open: Arc::default(),
        session: None,
        running: JoinSet::new(),
    };
    let mut ends = std::pin::pin!(ends);
    loop {
        let line = tokio::select! {
            biased;
            () = ends.as_mut() => break,
            line = lines.recv() => line,
        };
        let Some(line) = line else {
            let answered = connection.last_answers();
            tokio::select! {
                biased;
                () = ends.as_mut() => {}
                // Requests that are not answered by then are given up.
                _ = tokio::time::timeout(LAST_ANSWERS, answered) => {}
            }
            break;
        };
        tokio::select! {
            biased;
            () = ends.as_mut() => break,
            () = connection.take(line) => {}
        }
        while connection.running.try_join_next().is_some() {}
    }
    connection.open.cancel_all();
    let answered = async { while connection.running.join_next().await.is_some() {} };
    // A change that has begun is waited for with the rest of the server.
    let _ = tokio::time::timeout(LAST_WORDS, answered).await;
    connection.running.detach_all();
}

impl Connection {
    /// Waits for the answers to what was asked.
    async fn last_answers(&mut self) {
        if let Some(session) = &self.session {
            session.hears_nothing_more();
        }
        while self.running.join_next().await.is_some() {}
    }

    async fn take(&mut self, line: Line) {
        let message = match line {
            Line::Whole(bytes) => read(&bytes),
            Line::TooLong => Err(Failure::new(
                PARSE_ERROR,
                "the message is longer than mcp_server.message_bytes_max",
            )),
        };
        match message {
            Err(failure) => self.say(failure.to_message(None)).await,
            Ok(Message::Request(request)) => self.take_request(request).await,
            Ok(Message::Notification(said)) => {
                if said.method == "notifications/cancelled" {
                    self.open.cancel(&said.params);
                }
            }
            Ok(Message::Answer(answer)) => {
                // An answer without a request is ignored.
                let _ = self
                    .session
                    .as_ref()
                    .map(|session| session.answered(answer));
            }
        }
    }

    async fn take_request(&mut self, request: Request) {
        let refuse = |failure: Failure| failure.to_message(Some(&request.id));
        let (revision, client) = match (request.meta.version.as_deref(), &self.session) {
            (Some(STATELESS), _) => match request.declared() {
                Ok(client) => (Revision::Stateless, client),
                Err(failure) => return self.say(refuse(failure)).await,
            },
            (Some(other), _) => return self.say(refuse(super::unsupported(other))).await,
            (None, _) if request.method == "initialize" => {
                return self.begin_session(&request).await;
            }
            (None, Some(session)) => (
                Revision::Handshake,
                ClientCapabilities::from(session.elicitation),
            ),
            (None, None) => {
                let failure = Failure::new(
                    INVALID_REQUEST,
                    "begin with initialize, or name the version of the protocol in _meta",
                );
                return self.say(refuse(failure)).await;
            }
        };
        let is_call = request.method == "tools/call";
        let permit = is_call.then(|| self.host.admit());
        let (leaving, left) = Leaving::new();
        let is_admitted = !matches!(permit, Some(None));
        if !is_admitted || self.open.open(&request.id, &leaving).is_none() {
            let problem = "a request of this id is open, or as many are as this server takes";
            return self
                .say(refuse(Failure::new(INTERNAL_ERROR, problem)))
                .await;
        }
        let exchange = Exchange {
            revision,
            client,
            outlet: self.outlet.clone(),
            session: self.session.clone(),
            left: left.clone(),
        };
        let (host, peer) = (self.host.clone(), self.peer.clone());
        let (open, outlet) = (self.open.clone(), self.outlet.clone());
        self.running.spawn(async move {
            let answered = host.answer(&peer, exchange, &request).await;
            // A request that was cancelled gets no answer.
            let is_left = *left.borrow();
            let message = match answered {
                Some(Ok(value)) => Some(result(&request.id, value)),
                Some(Err(failure)) => Some(failure.to_message(Some(&request.id))),
                None => None,
            };
            // A client may use the id again as soon as it has read the answer.
            open.close(&request.id);
            if let Some(message) = message.filter(|_| !is_left) {
                // The client may have left. A client that does not read keeps its permit until it reads.
                let _ = outlet.send(message).await;
            }
            drop((permit, leaving));
        });
    }

    async fn begin_session(&mut self, request: &Request) {
        let version = agreed(&request.params);
        let capabilities = request.params.get("capabilities");
        let elicitation = capabilities.map(Elicitation::of).unwrap_or_default();
        let session = McpSession::new(&self.peer.caller, elicitation);
        self.session = Some(Arc::new(session));
        self.say(result(&request.id, initialized(version))).await;
    }

    async fn say(&self, message: Value) {
        // Without a reader there is nobody to tell.
        let _ = self.outlet.send(message).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_left_out_and_the_next_one_is_read() {
        let lines = |text: &str, bytes_max: usize| {
            let mut input = io::Cursor::new(text.to_owned());
            let mut lines = Vec::new();
            while let Some(line) = next_line(&mut input, bytes_max).unwrap() {
                lines.push(match line {
                    Line::Whole(bytes) => String::from_utf8(bytes).unwrap(),
                    Line::TooLong => "too long".to_owned(),
                });
            }
            lines.join(" ")
        };
        assert_eq!(lines("ab\ncd\r\n\n \nef", 4), "ab cd ef");
        assert_eq!(lines("abcd\nab\n", 4), "abcd ab");
        assert_eq!(lines("abcde\nab\n", 4), "too long ab");
        assert_eq!(lines("abcdefghijkl", 4), "too long");
        assert_eq!(lines("", 4), "");
    }
}
