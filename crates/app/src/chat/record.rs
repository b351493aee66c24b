//! What one turn wrote for its client, kept so that a client that asks again gets the same. Knows bytes, and who still reads them.

use bytes::Bytes;
use std::borrow::Cow;
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
    /// Its turn is being given up, so that nobody hears the answer here any more.
    is_given_up: bool,
    /// The bytes are those that [`packed`] makes.
    is_packed: bool,
}

/// What nearly every event of a long answer begins with, each with the one character that stands for it while nobody reads:
/// most of an answer is said again with each word. No stream has these characters, as JSON escapes them.
const PACKED: [(&str, &str); 2] = [
    (
        "\"}\n\ndata: {\"type\":\"text-delta\",\"id\":\"text-",
        "\u{1}",
    ),
    ("\",\"delta\":\"", "\u{2}"),
];

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
        let mut written = Written {
            bytes,
            is_over: true,
            ..Written::default()
        };
        written.pack();
        Arc::new(Self {
            written: Mutex::new(written),
            changes: watch::Sender::new(()),
        })
    }

    /// What was written so far; `None` where it is longer than so many bytes.
    pub(crate) fn text(&self, bytes_max: usize) -> Option<String> {
        let written = self.lock();
        let bytes = written.plain();
        let is_short = bytes.len() <= bytes_max;
        is_short.then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn reader(self: &Arc<Self>) -> TurnReader {
        TurnReader {
            record: self.clone(),
            position: 0,
            changes: self.changes.subscribe(),
        }
    }

    /// The same if its turn is not being given up. A client that comes in time keeps it from that.
    pub(crate) fn join(self: &Arc<Self>) -> Option<TurnReader> {
        let written = self.lock();
        (!written.is_given_up).then(|| self.reader())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes.len()
    }

    pub(crate) fn has_readers(&self) -> bool {
        self.changes.receiver_count() > 0
    }

    /// Waits until nobody reads any more. From then on nobody can.
    pub(crate) async fn abandoned(&self) {
        loop {
            self.changes.closed().await;
            let mut written = self.lock();
            if !self.has_readers() {
                written.is_given_up = true;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Written {
    /// Takes less room, where nothing follows and nobody reads.
    fn pack(&mut self) {
        if !self.is_over || self.is_packed {
            return;
        }
        match std::str::from_utf8(&self.bytes).ok().and_then(packed) {
            Some(packed) => {
                self.bytes = packed;
                self.is_packed = true;
            }
            None => self.bytes.shrink_to_fit(),
        }
    }

    /// As it was written.
    fn plain(&self) -> Cow<'_, [u8]> {
        if !self.is_packed {
            return Cow::Borrowed(&self.bytes);
        }
        Cow::Owned(unpacked(&String::from_utf8_lossy(&self.bytes)))
    }
}

/// `None` where the text has a character that stands for something else.
fn packed(text: &str) -> Option<Vec<u8>> {
    if PACKED.iter().any(|(_, short)| text.contains(short)) {
        return None;
    }
    let mut packed = text.to_owned();
    for (long, short) in PACKED {
        packed = packed.replace(long, short);
    }
    let mut packed = packed.into_bytes();
    packed.shrink_to_fit();
    Some(packed)
}

fn unpacked(text: &str) -> Vec<u8> {
    let mut unpacked = text.to_owned();
    for (long, short) in PACKED {
        unpacked = unpacked.replace(short, long);
    }
    unpacked.into_bytes()
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
            written.pack();
        }
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
                let bytes = written.plain();
                if bytes.len() > self.position {
                    let news = Bytes::copy_from_slice(&bytes[self.position..]);
                    self.position = bytes.len();
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
        // Its own end of the channel counts until it is dropped, too.
        if self.record.changes.receiver_count() <= 1 {
            self.record.lock().pack();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Vec<u8> {
        let mut answer = "data: {\"type\":\"text-start\",\"id\":\"text-1\"}\n\n".to_owned();
        for number in 0..60 {
            answer += &format!(
                "data: {{\"type\":\"text-delta\",\"id\":\"text-1\",\"delta\":\"word{number} \"}}\n\n"
            );
        }
        answer += "data: {\"type\":\"text-delta\",\"id\":\"text-1\",\"delta\":\"\\u0001\\\"}\\n\\ndata\"}\n\n";
        answer.into_bytes()
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
    async fn an_answer_that_nobody_reads_takes_little_room_and_is_read_again_as_it_was() {
        let (record, mut writer) = TurnRecord::new();
        let mut first = record.reader();
        let (early, late) = (answer()[..100].to_vec(), answer()[100..].to_vec());
        writer.send(&mut early.clone());
        assert_eq!(first.next().await.unwrap(), early);
        writer.send(&mut late.clone());
        drop(writer);
        assert_eq!(record.bytes(), answer().len(), "it is read");
        assert_eq!(first.next().await.unwrap(), late);
        drop(first);
        assert!(record.bytes() < answer().len() / 4, "{}", record.bytes());
        assert_eq!(read(&record).await, answer());
        assert_eq!(record.text(answer().len()).unwrap().as_bytes(), answer());
        assert_eq!(record.text(answer().len() - 1), None);
        let restored = TurnRecord::of(answer());
        assert!(restored.bytes() < answer().len() / 4);
        assert_eq!(read(&restored).await, answer());
    }

    #[tokio::test]
    async fn what_cannot_be_packed_is_kept_as_it_is() {
        for odd in [&b"a \x01 b \x02"[..], b"\xFF\xFE"] {
            let record = TurnRecord::of(odd.to_vec());
            assert_eq!(read(&record).await, odd);
        }
    }
}
