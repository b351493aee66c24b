//! What one turn wrote for its client, kept so that whoever asks again gets the same. Knows bytes, and who still reads them.

use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use windlass_runtime::text::ui_stream::Outlet;

/// How long a reader hears nothing before it is sent a comment, so that nothing between takes the connection for dead.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEP_ALIVE: &[u8] = b": still here\n\n";

/// One turn's answer, as far as it has come.
#[derive(Debug)]
pub(crate) struct TurnRecord {
    written: Mutex<Written>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Written {
    bytes: Vec<u8>,
    is_over: bool,
}

/// The end at which a turn writes. The record is over when it is dropped.
#[derive(Debug)]
pub(crate) struct TurnWriter(Arc<TurnRecord>);

/// Reads a record from its beginning.
#[derive(Debug)]
pub(crate) struct TurnReader {
    record: Arc<TurnRecord>,
    position: usize,
    changes: watch::Receiver<()>,
}

impl TurnRecord {
    /// A record that a turn writes and its client reads.
    pub(crate) fn new() -> (Arc<Self>, TurnWriter) {
        let record = Arc::new(Self {
            written: Mutex::default(),
            changes: watch::Sender::new(()),
        });
        (record.clone(), TurnWriter(record))
    }

    /// The record of a turn that is long over.
    pub(crate) fn of(bytes: Vec<u8>) -> Arc<Self> {
        let written = Written {
            bytes,
            is_over: true,
        };
        Arc::new(Self {
            written: Mutex::new(written),
            changes: watch::Sender::new(()),
        })
    }

    /// What was written so far; `None` where it is longer than so many bytes.
    pub(crate) fn text(&self, bytes_max: usize) -> Option<String> {
        let written = self.lock();
        let is_short = written.bytes.len() <= bytes_max;
        is_short.then(|| String::from_utf8_lossy(&written.bytes).into_owned())
    }

    pub(crate) fn reader(self: &Arc<Self>) -> TurnReader {
        TurnReader {
            record: self.clone(),
            position: 0,
            changes: self.changes.subscribe(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes.len()
    }

    pub(crate) fn has_readers(&self) -> bool {
        self.changes.receiver_count() > 0
    }

    /// Waits until nobody reads any more.
    pub(crate) async fn abandoned(&self) {
        self.changes.closed().await;
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outlet for TurnWriter {
    fn send(&mut self, bytes: &mut Vec<u8>) {
        self.0.lock().bytes.append(bytes);
        self.0.changes.send_replace(());
    }
}

impl Drop for TurnWriter {
    fn drop(&mut self) {
        let mut written = self.0.lock();
        written.is_over = true;
        written.bytes.shrink_to_fit();
        drop(written);
        self.0.changes.send_replace(());
    }
}

impl TurnReader {
    /// What came since the last time; `None` where nothing more comes.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            {
                let written = self.record.lock();
                if written.bytes.len() > self.position {
                    let news = Bytes::copy_from_slice(&written.bytes[self.position..]);
                    self.position = written.bytes.len();
                    return Some(news);
                }
                if written.is_over {
                    return None;
                }
            }
            match tokio::time::timeout(KEEP_ALIVE_AFTER, self.changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) => return Some(Bytes::from_static(KEEP_ALIVE)),
            }
        }
    }
}
