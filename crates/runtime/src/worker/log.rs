//! A worker's standard error, line by line into the log: cut, bounded in number, and without arguments of calls and secrets.
//! Knows no message.

use super::Shared;
use crate::redaction::Secrets;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::time::Instant;

/// Bytes of a line that are kept.
const LINE_BYTES_MAX: usize = 4_096;
/// Lines at once, and the time after which one more is free.
const LINES_MAX: u32 = 100;
const LINE_EVERY: Duration = Duration::from_millis(100);

/// The number of lines that may still be written.
pub(crate) struct LineLimit {
    free: u32,
    since: Instant,
    dropped: u64,
}

impl LineLimit {
    pub(crate) fn new() -> Self {
        Self {
            free: LINES_MAX,
            since: Instant::now(),
            dropped: 0,
        }
    }

    /// The number of lines that were left out before this one; `None` if this one is left out, too.
    pub(crate) fn take(&mut self) -> Option<u64> {
        let freed = self.since.elapsed().as_millis() / LINE_EVERY.as_millis();
        let freed = u32::try_from(freed).unwrap_or(LINES_MAX);
        if freed > 0 {
            self.free = self.free.saturating_add(freed).min(LINES_MAX);
            self.since = Instant::now();
        }
        if self.free == 0 {
            self.dropped += 1;
            return None;
        }
        self.free -= 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

/// Reads a child's standard error to its end.
pub(super) async fn read(shared: Arc<Shared>, number: u64, errors: impl AsyncRead + Unpin) {
    let mut limit = LineLimit::new();
    each_line(errors, |line| write(&shared, number, &mut limit, line)).await;
}

/// Passes on every line of a stream, each cut to [`LINE_BYTES_MAX`].
pub(crate) async fn each_line(errors: impl AsyncRead + Unpin, mut give: impl FnMut(&[u8])) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    while let Ok(piece) = errors.fill_buf().await {
        if piece.is_empty() {
            break;
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let part = &piece[..end.unwrap_or(piece.len())];
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = end.map_or(piece.len(), |end| end + 1);
        errors.consume(used);
        if end.is_some() {
            give(&line);
            line.clear();
        }
    }
    give(&line);
}

/// The words of a child without secrets, and without the arguments of its calls.
pub(super) fn without_calls(shared: &Shared, number: u64, words: &str) -> String {
    let mut of_calls = Secrets::default();
    let everything = [String::new()];
    for arguments in shared.pool().arguments(number) {
        of_calls.add(&arguments, &everything);
    }
    let given = shared.given.lock().unwrap_or_else(PoisonError::into_inner);
    let given = Secrets::of(given.iter().cloned().collect());
    of_calls.without_words(&given.without(&shared.secrets.without(words)))
}

fn write(shared: &Shared, number: u64, limit: &mut LineLimit, line: &[u8]) {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    if text.is_empty() {
        return;
    }
    let Some(left_out) = limit.take() else {
        return;
    };
    let text = without_calls(shared, number, text);
    let text = text.escape_debug();
    tracing::info!(worker = %shared.name, process = number, left_out, "{text}");
}
