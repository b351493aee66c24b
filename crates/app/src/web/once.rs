//! Answers to completions under a client's idempotency key: one turn for a key, however often the request comes. Owns the answers
//! that are being written and the newest that are whole; knows neither a session nor a model's protocol.

use super::chat::events;
use crate::chat::record::{TurnReader, TurnRecord, TurnWriter};
use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt;
use http::response::Parts;
use http::{HeaderMap, Response, StatusCode};
use memchr::memmem;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use windlass_runtime::text::ui_stream::Outlet;

/// Whole answers that are kept.
const ANSWERS_MAX: usize = 1_000;
/// Bytes of their bodies, all together.
const BYTES_MAX: usize = 16 << 20;

/// How a failure in the middle of a stream begins. No text of a model reads like this, because its quotes are escaped.
const STREAMED_ERROR: &[u8] = b"data: {\"error\":";

/// The hash of a key and its caller, or of a body.
type Digest = [u8; 32];

/// A request that may come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The hash of the key and its caller.
    pub(super) name: Digest,
    /// The hash of the body.
    pub(super) body: Digest,
}

/// The answers by the names of their requests.
#[derive(Debug, Default)]
pub(crate) struct Answers(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    by_name: HashMap<Digest, Answer>,
    /// The complete answers, oldest first, with their bytes.
    whole: VecDeque<(Digest, usize)>,
    whole_bytes: usize,
}

#[derive(Clone, Debug)]
struct Answer {
    body: Digest,
    head: watch::Receiver<Option<Head>>,
    record: Arc<TurnRecord>,
}

#[derive(Clone, Debug)]
struct Head {
    status: StatusCode,
    headers: HeaderMap,
}

/// The state of a request's answer.
pub(super) enum Found {
    /// It is new, and its answer is to be written here.
    New(Writing),
    Known(Reading),
    /// The key came before with another body.
    Reused,
}

/// An answer that a client waits for.
pub(super) struct Reading {
    head: watch::Receiver<Option<Head>>,
    reader: TurnReader,
}

/// The end at which an answer is written. A failure is not kept: who asks again then has it tried again.
pub(super) struct Writing {
    answers: Arc<Mutex<Kept>>,
    name: Digest,
    head: watch::Sender<Option<Head>>,
    record: Arc<TurnRecord>,
    writer: TurnWriter,
    is_kept: bool,
}

impl Answers {
    pub(super) fn find(&self, asked: Asked) -> Found {
        let mut kept = lock(&self.0);
        if let Some(answer) = kept.by_name.get(&asked.name) {
            return match answer.body == asked.body {
                true => Found::Known(answer.reading()),
                false => Found::Reused,
            };
        }
        let (record, writer) = TurnRecord::new();
        let (head, headed) = watch::channel(None);
        let answer = Answer {
            body: asked.body,
            head: headed,
            record: record.clone(),
        };
        kept.by_name.insert(asked.name, answer);
        Found::New(Writing {
            answers: self.0.clone(),
            name: asked.name,
            head,
            record,
            writer,
            is_kept: false,
        })
    }
}

impl Answer {
    fn reading(&self) -> Reading {
        Reading {
            head: self.head.clone(),
            reader: self.record.reader(),
        }
    }
}

impl Writing {
    /// The reader for the client that asked first.
    pub(super) fn reading(&self) -> Reading {
        Reading {
            head: self.head.subscribe(),
            reader: self.record.reader(),
        }
    }

    /// Writes an answer down as it comes. The turn behind it runs to its end, because its reader here never leaves.
    pub(super) async fn write(mut self, answer: Response<Body>) {
        let (
            Parts {
                status, headers, ..
            },
            body,
        ) = answer.into_parts();
        self.head.send_replace(Some(Head { status, headers }));
        let mut pieces: BodyDataStream = body.into_data_stream();
        let mut has_failed = !status.is_success();
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) => {
                    has_failed |= memmem::find(&piece, STREAMED_ERROR).is_some();
                    self.writer.send(&mut piece.to_vec());
                }
                Err(_) => has_failed = true,
            }
        }
        if !has_failed {
            lock(&self.answers).keep(self.name, self.record.bytes());
            self.is_kept = true;
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.is_kept {
            lock(&self.answers).by_name.remove(&self.name);
        }
    }
}

impl Kept {
    fn keep(&mut self, name: Digest, bytes: usize) {
        self.whole.push_back((name, bytes));
        self.whole_bytes += bytes;
        while self.whole.len() > ANSWERS_MAX || self.whole_bytes > BYTES_MAX {
            let Some((name, bytes)) = self.whole.pop_front() else {
                return;
            };
            self.whole_bytes -= bytes;
            self.by_name.remove(&name);
        }
    }
}

impl Reading {
    /// The answer as its first client gets it. `None` where its writer broke.
    pub(super) async fn response(mut self) -> Option<Response<Body>> {
        let head = self.head.wait_for(Option::is_some).await.ok()?.clone()?;
        let mut response = events(self.reader);
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        Some(response)
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
