//! A server over streamable HTTP: one POST a request, answered with one message or with a stream that ends in one. Owns its headers and,
//! in the older revision, its session; knows no tool.

use super::headers::written;
use super::link::{AskError, Asked, UnansweredEnd};
use super::message::{Revision, Told, is_not_carried_out, served, told};
use super::users::UserToken;
use crate::worker::wire::{self, Incoming};
use serde_json::value::RawValue;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use windlass_contract::handler::{
    AnswerWatcher, Context, FetchError, Http, HttpAnswer, HttpRequest, Redirects,
};
use windlass_contract::sensitive::Sensitive;
use windlass_provider::sse::{Item, Limits, Splitter};

const SESSION: &str = "Mcp-Session-Id";
/// Characters of a session's id; the standard asks for visible ASCII.
const SESSION_BYTES_MAX: usize = 1_024;
/// How long it may take to say that nobody waits any more.
const CANCEL_TIME: Duration = Duration::from_secs(5);
/// Requests of a server that are answered while one of ours waits for its answer.
const REQUESTS_MAX: usize = 32;
/// How long an answer to such a request may take.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// How a server over HTTP is reached.
#[derive(Clone)]
pub(super) struct HttpKit {
    pub(super) url: String,
    pub(super) way: Arc<dyn Http>,
    /// Headers that prove who asks.
    pub(super) headers: Vec<(String, Sensitive<String>)>,
    /// The user's access token, if the connection belongs to a user.
    pub(super) token: UserToken,
    pub(super) message_bytes_max: usize,
    /// Called when the server's list of tools has changed.
    pub(super) on_change: Arc<dyn Fn() + Send + Sync>,
}

/// A server, and its session where it has given one.
pub(super) struct HttpWire {
    kit: HttpKit,
    session: Mutex<Option<String>>,
}

/// A call of the older revision, whose server is told that nobody waits for it. In the newer one the end of the connection says so.
struct Cancelling<'a> {
    wire: &'a HttpWire,
    revision: &'a Revision,
    id: u64,
    is_over: bool,
}

impl Drop for Cancelling<'_> {
    fn drop(&mut self) {
        if self.is_over || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{}}}}}",
            self.id
        );
        let request = self.wire.request(
            line.into_bytes(),
            Some(self.revision),
            Vec::new(),
            CANCEL_TIME,
        );
        // Whether it arrives changes nothing here.
        tokio::spawn(self.wire.kit.way.fetch(request));
    }
}

/// How requests of a server are answered that stand before its answer to ours. The revision without sessions has none.
struct Answering {
    kit: HttpKit,
    revision: Option<Revision>,
    session: Option<String>,
    answered: AtomicUsize,
}

impl Answering {
    /// `begun` is the session that the answer opens in which the request stands, where it opens one.
    fn answer(&self, id: &RawValue, method: &str, begun: Option<&str>) {
        let is_over = self.answered.fetch_add(1, Ordering::Relaxed) >= REQUESTS_MAX;
        if is_over
            || self.revision == Some(Revision::Stateless)
            || tokio::runtime::Handle::try_current().is_err()
        {
            return;
        }
        let request = self.kit.request(
            wire::answer(id, &served(method)),
            self.revision.as_ref(),
            begun.or(self.session.as_deref()),
            Vec::new(),
            ANSWER_TIME,
        );
        // A server that does not get it asks again, or breaks off.
        tokio::spawn(self.kit.way.fetch(request));
    }
}

impl HttpKit {
    fn request(
        &self,
        body: Vec<u8>,
        revision: Option<&Revision>,
        session: Option<&str>,
        headers: Vec<(String, String)>,
        time: Duration,
    ) -> HttpRequest {
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut all = vec![
            own("content-type", "application/json"),
            own("accept", "application/json, text/event-stream"),
        ];
        if let Some(revision) = revision {
            all.push(own("MCP-Protocol-Version", revision.version()));
        }
        if let Some(session) = session {
            all.push(own(SESSION, session));
        }
        all.extend(headers);
        let secret = self.headers.iter();
        all.extend(secret.map(|(name, value)| (name.clone(), value.expose().clone())));
        if let Some(token) = self.token.get() {
            all.push(own("authorization", &format!("Bearer {}", token.expose())));
        }
        HttpRequest {
            method: "POST".to_owned(),
            url: self.url.clone(),
            headers: all,
            body,
            timeout_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            redirects: Redirects::Keep,
        }
    }
}

impl HttpWire {
    pub(super) fn new(kit: HttpKit) -> Self {
        Self {
            kit,
            session: Mutex::default(),
        }
    }

    fn session(&self) -> MutexGuard<'_, Option<String>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(
        &self,
        body: Vec<u8>,
        revision: Option<&Revision>,
        headers: Vec<(String, String)>,
        time: Duration,
    ) -> HttpRequest {
        let session = self.session().clone();
        self.kit
            .request(body, revision, session.as_deref(), headers, time)
    }

    /// A message without an answer.
    pub(super) async fn tell(
        &self,
        text: Vec<u8>,
        revision: &Revision,
        time: Duration,
    ) -> Result<(), String> {
        let request = self.request(text, Some(revision), Vec::new(), time);
        let answer = self.kit.way.fetch(request).await;
        let answer = answer.map_err(|error| error.to_string())?;
        match answer.status {
            200..=299 => Ok(()),
            status => Err(format!("the server answered {status}")),
        }
    }

    /// `revision` is `None` as long as it is not settled.
    pub(super) async fn ask(
        &self,
        asked: Asked,
        revision: Option<&Revision>,
    ) -> Result<Box<RawValue>, AskError> {
        let left = asked.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(AskError::NotSent("the call's time is up".to_owned()));
        }
        let body = asked.text();
        let session = self.session().clone();
        let had_session = session.is_some();
        let mut headers = asked.headers;
        if revision == Some(&Revision::Stateless) {
            headers.push(("Mcp-Method".to_owned(), written(asked.method)));
        }
        let request = self.request(body, revision, headers, left);
        let (sender, mut found) = oneshot::channel();
        let reader = Arc::new(AnswerReader {
            id: asked.id,
            context: asked.context,
            message_bytes_max: self.kit.message_bytes_max,
            on_change: self.kit.on_change.clone(),
            answering: Answering {
                kit: self.kit.clone(),
                revision: revision.cloned(),
                session,
                answered: AtomicUsize::new(0),
            },
            state: Mutex::new(Reading {
                stream: None,
                session: None,
                found: Some(sender),
            }),
        });
        let mut cancelling = revision
            .filter(|revision| {
                asked.end == UnansweredEnd::Cancelled && **revision != Revision::Stateless
            })
            .map(|revision| Cancelling {
                wire: self,
                revision,
                id: asked.id,
                is_over: false,
            });
        let mut fetching = self.kit.way.fetch_watched(request, reader.clone());
        let answered = tokio::select! {
            biased;
            Ok(answer) = &mut found => answer,
            fetched = &mut fetching => {
                reader.finish();
                match found.try_recv() {
                    Ok(answer) => answer,
                    Err(_) => read(asked.id, fetched, had_session),
                }
            }
        };
        if asked.method == "initialize" {
            *self.session() = reader.reading().session.take();
        }
        if let (Some(cancelling), false) =
            (&mut cancelling, matches!(answered, Err(AskError::Lost(_))))
        {
            cancelling.is_over = true;
        }
        answered
    }
}

/// The outcome of a request whose answer was no stream, or a stream without the answer in it.
fn read(
    id: u64,
    fetched: Result<HttpAnswer, FetchError>,
    had_session: bool,
) -> Result<Box<RawValue>, AskError> {
    let answer = match fetched {
        Ok(answer) => answer,
        Err(FetchError::Refused(problem) | FetchError::Unreachable(problem)) => {
            return Err(AskError::NotSent(problem));
        }
        Err(FetchError::Unanswered(problem)) => return Err(AskError::Lost(problem)),
    };
    let body = answer.body.as_deref().unwrap_or_default();
    match answer.status {
        200..=299 => {}
        404 if had_session => return Err(AskError::SessionOver),
        // Some servers say it so.
        400 if had_session && names_session(body) => return Err(AskError::SessionOver),
        400..=499 => {
            let refusal = match wire::read(body) {
                Ok(Incoming::Answer(_, Err(error))) => Some(error),
                Ok(_) | Err(_) => None,
            };
            return Err(match refusal {
                Some(error) if is_not_carried_out(error.code) => AskError::Refused(error),
                Some(_) | None => AskError::Status(Box::new(answer)),
            });
        }
        _ => return Err(AskError::Status(Box::new(answer))),
    }
    if let Err(incomplete) = &answer.body {
        return Err(AskError::Lost(incomplete.problem.clone()));
    }
    match wire::read(body) {
        Ok(Incoming::Answer(of, answer)) if of == Some(id) => {
            answer.map(ToOwned::to_owned).map_err(AskError::Refused)
        }
        Ok(_) => Err(AskError::Lost(
            "the server answered another request than it was asked".to_owned(),
        )),
        Err(_) => Err(AskError::Lost(
            "the server's answer holds no message".to_owned(),
        )),
    }
}

fn names_session(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    text.contains("session")
}

/// Reads an answer that comes in a stream, for the message that answers the request.
struct AnswerReader {
    id: u64,
    context: Option<Context>,
    message_bytes_max: usize,
    on_change: Arc<dyn Fn() + Send + Sync>,
    answering: Answering,
    state: Mutex<Reading>,
}

type FoundAnswer = Result<Box<RawValue>, AskError>;

struct Reading {
    /// Splits an answer that is a stream of events.
    stream: Option<Splitter>,
    /// The id of the session that the server has opened.
    session: Option<String>,
    found: Option<oneshot::Sender<FoundAnswer>>,
}

impl AnswerWatcher for AnswerReader {
    fn headers(&self, headers: &[(String, String)]) {
        let mut headers = headers.iter();
        let session = headers.find(|(name, _)| name.eq_ignore_ascii_case(SESSION));
        let fits = |session: &&(String, String)| {
            (1..=SESSION_BYTES_MAX).contains(&session.1.len())
                && session.1.bytes().all(|byte| byte.is_ascii_graphic())
        };
        self.reading().session = session.filter(fits).map(|(_, session)| session.clone());
    }

    fn began(&self, status: u16, content_type: Option<&str>) {
        let kind = content_type.unwrap_or_default().split(';').next();
        let is_stream = (200..=299).contains(&status)
            && kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"));
        let limits = Limits {
            line_bytes_max: self.message_bytes_max,
            event_bytes_max: self.message_bytes_max,
        };
        self.reading().stream = is_stream.then(|| Splitter::new(limits));
    }

    fn came(&self, bytes: &[u8]) {
        let mut reading = self.reading();
        let Reading {
            stream,
            session,
            found,
        } = &mut *reading;
        let Some(splitter) = stream else {
            return;
        };
        let mut take = |item: Item<'_>| {
            if let Item::Event { data, .. } = item
                && let Some(answer) = self.take(data, session.as_deref())
                && let Some(found) = found.take()
            {
                let _ = found.send(answer);
            }
        };
        if let Err(too_long) = splitter.push(bytes, &mut take) {
            *stream = None;
            if let Some(found) = found.take() {
                let _ = found.send(Err(AskError::Lost(too_long.to_string())));
            }
        }
    }
}

impl AnswerReader {
    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what stands before the end of a stream without its blank line.
    fn finish(&self) {
        let mut reading = self.reading();
        let Some(splitter) = reading.stream.take() else {
            return;
        };
        let mut last = None;
        let session = reading.session.clone();
        let finished = splitter.finish(&mut |item: Item<'_>| {
            if let Item::Event { data, .. } = item {
                last = self.take(data, session.as_deref()).or(last.take());
            }
        });
        if let (Ok(()), Some(answer), Some(found)) = (finished, last, reading.found.take()) {
            let _ = found.send(answer);
        }
    }

    /// The outcome that one message holds; `None` for every message that is not the answer. `session` is the session that this answer
    /// opens.
    fn take(&self, data: &[u8], session: Option<&str>) -> Option<FoundAnswer> {
        match wire::read(data).ok()? {
            Incoming::Answer(id, answer) if id == Some(self.id) => {
                Some(answer.map(ToOwned::to_owned).map_err(AskError::Refused))
            }
            Incoming::Notification(method, params) => {
                match told(&method, params)? {
                    Told::Progress(progress) if progress.request() == self.id => {
                        if let Some(context) = &self.context {
                            progress.tell(context);
                        }
                    }
                    Told::Progress(_) => {}
                    Told::ToolsChanged => (self.on_change)(),
                }
                None
            }
            Incoming::Request(id, method, _) => {
                self.answering.answer(id, &method, session);
                None
            }
            Incoming::Answer(..) => None,
        }
    }
}
