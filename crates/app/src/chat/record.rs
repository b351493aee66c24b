//! What one turn wrote for its client, kept so that a client that asks again gets the same. Knows bytes, who still reads them,
//! and which events are pieces of one text.

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
    /// Its turn is being given up, so that nobody hears the answer here any more.
    is_given_up: bool,
}

/// How an event with a piece of a text goes on after the text's name, and how it ends, as the turn's stream writes it.
const PIECE: (&str, &str, &str) = (
    "data: {\"type\":\"text-delta\",\"id\":\"",
    "\",\"delta\":\"",
    "\"}",
);
const EVENT_END: &str = "\n\n";

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
        Arc::new(Self {
            written: Mutex::new(Written {
                bytes,
                is_over: true,
                ..Written::default()
            }),
            changes: watch::Sender::new(()),
        })
    }

    /// What was written so far, as it is kept; `None` where it is longer than so many bytes.
    pub(crate) fn kept(&self, bytes_max: usize) -> Option<String> {
        let written = self.lock();
        let kept = joined(std::str::from_utf8(&written.bytes).ok()?);
        (kept.len() <= bytes_max).then_some(kept)
    }

    pub(crate) fn reader(self: &Arc<Self>) -> TurnReader {
        self.reader_while(&self.lock())
    }

    /// The same if its turn is not being given up. A client that comes in time keeps it from that.
    pub(crate) fn join(self: &Arc<Self>) -> Option<TurnReader> {
        let written = self.lock();
        (!written.is_given_up).then(|| self.reader_while(&written))
    }

    /// Nothing is joined meanwhile, nor once there is a reader: it knows how far it has read.
    fn reader_while(self: &Arc<Self>, _written: &Written) -> TurnReader {
        TurnReader {
            record: self.clone(),
            position: 0,
            changes: self.changes.subscribe(),
        }
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
    fn shrink(&mut self) {
        if self.is_over
            && let Ok(text) = std::str::from_utf8(&self.bytes)
        {
            self.bytes = joined(text).into_bytes();
        }
    }
}

/// The same answer with each text in one piece: a model's answer comes word by word, and each word's event is longer than the
/// word.
fn joined(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut open: Option<&str> = None;
    for event in text.split_inclusive(EVENT_END) {
        let piece = event.strip_suffix(EVENT_END).and_then(piece);
        match (open, piece) {
            (Some(name), Some((of, words))) if name == of => joined += words,
            (_, Some((of, words))) => {
                close(&mut joined, open);
                let (start, middle, _) = PIECE;
                joined.extend([start, of, middle, words]);
                open = Some(of);
            }
            (_, None) => {
                close(&mut joined, open.take());
                joined += event;
            }
        }
    }
    close(&mut joined, open);
    joined.shrink_to_fit();
    joined
}

/// Ends the event of the text that is open.
fn close(joined: &mut String, open: Option<&str>) {
    if open.is_some() {
        joined.extend([PIECE.2, EVENT_END]);
    }
}

/// The text that an event is a piece of, and the words, as JSON has them within quotes.
fn piece(event: &str) -> Option<(&str, &str)> {
    let (start, middle, end) = PIECE;
    let piece = event.strip_prefix(start)?.strip_suffix(end)?;
    piece.split_once(middle)
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

    #[test]
    fn only_pieces_of_one_text_that_follow_each_other_are_joined() {
        let quoted = delta("text-1", r#"\"}\n\ndata: {\"type\":\"text-delta\"\"#);
        let other = "data: {\"type\":\"reasoning-delta\",\"id\":\"text-1\",\"delta\":\"x\"}\n\n";
        let check = |events: &[&str], kept: &[&str]| {
            assert_eq!(joined(&events.concat()), kept.concat());
        };
        let (one, two) = (delta("text-1", "one "), delta("text-1", "two"));
        let (of_other, both) = (delta("text-2", "x"), delta("text-1", "one two"));
        check(&[], &[]);
        check(&[&one, &two], &[&both]);
        check(&[&one, &of_other, &two], &[&one, &of_other, &two]);
        check(&[&one, other, other, &two], &[&one, other, other, &two]);
        check(
            &[&one, &two, TEXT_START, &one, &two],
            &[&both, TEXT_START, &both],
        );
        let joined_quote = delta(
            "text-1",
            &format!("one {}", piece(quoted.trim_end()).unwrap().1),
        );
        check(&[&one, &quoted], &[&joined_quote]);
        // What is cut off, or has no form that we write, stays as it is.
        check(&[&one, one.trim_end()], &[&one, one.trim_end()]);
        check(&["data: x", "\n\n\n\n"], &["data: x", "\n\n\n\n"]);
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
