//! The text that one turn wrote for its client, kept so that a client that asks again gets the same. Knows bytes, and who still reads
//! them.

use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use windlass_runtime::text::ui_stream::{Outlet, condensed};

/// How long a reader hears nothing before it is sent a comment, so that nothing between takes the connection for dead.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEP_ALIVE: &[u8] = b": still here\n\n";

/// One turn's answer, as far as it has come.
#[derive(Debug)]
pub(crate) struct TurnRecord {
    written: Mutex<Written>,
    changes: watch::Sender<()>,
    stopped: Notify,
}

#[derive(Debug, Default)]
struct Written {
    bytes: Vec<u8>,
    is_over: bool,
    /// Its turn is being given up, so the answer can no longer be heard here.
    is_given_up: bool,
    /// The number of readers so far.
    readers: u64,
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
            stopped: Notify::new(),
        });
        (record.clone(), TurnWriter(record))
    }

    /// The record of a turn that is long over.
    pub(crate) fn of(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self {
            written: Mutex::new(Written {
                bytes,
                is_over: true,
                ..Written::default()
            }),
            changes: watch::Sender::new(()),
            stopped: Notify::new(),
        })
    }

    /// The text that was written so far, without pieces of results. `None` where it is longer than so many bytes.
    pub(crate) fn kept(&self, bytes_max: usize) -> Option<String> {
        let written = self.lock();
        let kept = condensed(std::str::from_utf8(&written.bytes).ok()?);
        (kept.len() <= bytes_max).then_some(kept)
    }

    pub(crate) fn reader(self: &Arc<Self>) -> TurnReader {
        self.reader_while(&mut self.lock())
    }

    /// The same unless its turn is being given up. A client that comes in time prevents that.
    pub(crate) fn join(self: &Arc<Self>) -> Option<TurnReader> {
        let mut written = self.lock();
        (!written.is_given_up).then(|| self.reader_while(&mut written))
    }

    /// The lock is held, and a record with a reader is not shrunk, because the reader's position counts its bytes.
    fn reader_while(self: &Arc<Self>, written: &mut Written) -> TurnReader {
        written.readers += 1;
        TurnReader {
            record: self.clone(),
            position: 0,
            changes: self.changes.subscribe(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes.len()
    }

    pub(crate) fn has_readers(&self) -> bool {
        self.changes.receiver_count() > 0
    }

    /// Waits until it is stopped, or has had no reader for so long. After that it takes no reader.
    pub(crate) async fn abandoned(&self, patience: Duration) {
        tokio::select! {
            () = self.stopped.notified() => {}
            () = self.left_alone(patience) => {}
        }
    }

    async fn left_alone(&self, patience: Duration) {
        loop {
            self.changes.closed().await;
            let readers = self.lock().readers;
            if !patience.is_zero() {
                tokio::time::sleep(patience).await;
            }
            let mut written = self.lock();
            // A reader who came and went in between restarts the wait.
            if !self.has_readers() && written.readers == readers {
                written.is_given_up = true;
                return;
            }
        }
    }

    /// Gives its turn up, also while clients read.
    pub(crate) fn stop(&self) {
        self.lock().is_given_up = true;
        self.stopped.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Written {
    /// Frees spare memory, if the turn is over and has no readers.
    fn shrink(&mut self) {
        if self.is_over
            && let Ok(text) = std::str::from_utf8(&self.bytes)
        {
            self.bytes = condensed(text).into_bytes();
        }
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
        if !self.0.has_readers() {
            written.shrink();
        }
        drop(written);
        self.0.changes.send_replace(());
    }
}

impl TurnReader {
    /// The text since the last call; `None` at the end of the turn.
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

impl Drop for TurnReader {
    fn drop(&mut self) {
        let mut written = self.record.lock();
        // Its own end of the channel counts until it is dropped, too.
        if self.record.changes.receiver_count() <= 1 {
            written.shrink();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT_START: &str = "data: {\"type\":\"text-start\",\"id\":\"text-1\"}\n\n";

    fn delta(id: &str, words: &str) -> String {
        format!("data: {{\"type\":\"text-delta\",\"id\":\"{id}\",\"delta\":\"{words}\"}}\n\n")
    }

    fn answer() -> Vec<u8> {
        let words = (0..60).map(|number| delta("text-1", &format!("word{number} ")));
        (TEXT_START.to_owned() + &words.collect::<String>()).into_bytes()
    }

    fn answer_in_one_piece() -> Vec<u8> {
        let words: String = (0..60).map(|number| format!("word{number} ")).collect();
        (TEXT_START.to_owned() + &delta("text-1", &words)).into_bytes()
    }

    async fn read(record: &Arc<TurnRecord>) -> Vec<u8> {
        let mut reader = record.reader();
        let mut read = Vec::new();
        while let Some(piece) = reader.next().await {
            read.extend_from_slice(&piece);
        }
        read
    }

    #[tokio::test]
    async fn an_answer_that_nobody_reads_takes_little_room_and_is_read_again_in_one_piece() {
        let (record, mut writer) = TurnRecord::new();
        let mut first = record.reader();
        let (early, late) = (answer()[..100].to_vec(), answer()[100..].to_vec());
        writer.send(&mut early.clone());
        assert_eq!(first.next().await.unwrap(), early);
        writer.send(&mut late.clone());
        drop(writer);
        assert_eq!(record.bytes(), answer().len(), "it is read");
        assert_eq!(first.next().await.unwrap(), late);
        let mut second = record.reader();
        drop(first);
        assert_eq!(second.next().await.unwrap(), answer());
        drop(second);
        let kept = answer_in_one_piece();
        assert_eq!(record.bytes(), kept.len());
        assert_eq!(read(&record).await, kept);
        assert_eq!(record.kept(kept.len()).unwrap().as_bytes(), kept);
        assert_eq!(record.kept(kept.len() - 1), None);
        let restored = TurnRecord::of(kept.clone());
        assert_eq!(read(&restored).await, kept);
    }

    #[tokio::test]
    async fn pieces_of_results_are_for_those_who_read_and_are_not_kept() {
        let result = |more: &str| {
            let call =
                "data: {\"type\":\"tool-output-available\",\"toolCallId\":\"call-1\",\"output\":";
            format!("{call}\"x\",\"dynamic\":true{more}}}\n\n")
        };
        let whole = result("");
        let written = result(",\"preliminary\":true").repeat(50) + &whole;
        let (record, mut writer) = TurnRecord::new();
        let mut reader = record.reader();
        writer.send(&mut written.clone().into_bytes());
        // They take no room of the bytes that are kept.
        assert_eq!(record.kept(whole.len()), Some(whole.clone()));
        drop(writer);
        assert_eq!(reader.next().await.unwrap(), written);
        drop(reader);
        assert_eq!(record.bytes(), whole.len());
        assert_eq!(read(&record).await, whole.into_bytes());
    }

    #[tokio::test]
    async fn what_is_no_text_is_kept_as_it_is() {
        let (record, mut writer) = TurnRecord::new();
        writer.send(&mut b"\xFF\xFE".to_vec());
        drop(writer);
        assert_eq!(read(&record).await, b"\xFF\xFE");
        assert_eq!(record.kept(100), None);
    }
}
