//! One WebSocket over a byte stream: reads lend out messages from a buffer that the thread shares, writes go through a
//! bounded queue that can throw audio away. Knows no message's meaning.

use super::frame::{self, Decoder, FrameError, Message, MessageLimits, Opcode, Role};
use crate::transport::{Stream, buffers};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::time::Instant;

/// Bytes of one read, and so the most that a message may lack before its buffer grows.
const READ_BYTES: usize = 16 * 1024;

/// Limits of everything in a socket that could grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketLimits {
    pub messages: MessageLimits,
    /// Bytes that may wait to be sent before audio is dropped.
    pub queued_audio_bytes_max: usize,
    /// Bytes that may wait to be sent before the socket counts as stuck.
    pub queued_bytes_max: usize,
}

/// The socket's queue is full, so its peer is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer takes nothing, and what waits for it is over the limit")]
pub struct QueueFull;

/// The reason why nothing more can be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SocketLost {
    #[error("the peer closed the connection without saying so")]
    Ended,
    #[error(transparent)]
    Network(#[from] io::Error),
}

pub struct Socket {
    stream: Box<dyn Stream>,
    /// `None` while a [`Reading`] is lent out.
    decoder: Option<Decoder>,
    /// Bytes that were read and are no whole message yet.
    partial: Vec<u8>,
    outgoing: Outgoing,
    masks: Option<MaskKeys>,
    limits: SocketLimits,
    stalled_since: Option<Instant>,
}

/// The result of one read: messages until they run out.
pub struct Reading {
    buffer: Vec<u8>,
    position: usize,
    decoder: Decoder,
}

impl Reading {
    /// The next whole message, or `None` if more must be read first.
    pub fn next_message(&mut self) -> Result<Option<Message<'_>>, FrameError> {
        self.decoder.next(&mut self.buffer, &mut self.position)
    }
}

impl Socket {
    /// Takes over a stream whose upgrade is done. `already_read` holds the bytes behind the upgrade.
    pub fn new(
        stream: Box<dyn Stream>,
        role: Role,
        limits: SocketLimits,
        already_read: Vec<u8>,
    ) -> io::Result<Self> {
        let masks = match role {
            Role::Client => Some(MaskKeys::seeded()?),
            Role::Server => None,
        };
        Ok(Self {
            stream,
            decoder: Some(Decoder::new(role, limits.messages)),
            partial: already_read,
            outgoing: Outgoing::default(),
            masks,
            limits,
            stalled_since: None,
        })
    }

    /// Waits for bytes and lends them out as messages. Give the reading back with [`Socket::finish`].
    pub fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<Reading, SocketLost>> {
        let mut buffer = std::mem::take(&mut self.partial);
        if buffer.capacity() == 0 {
            buffer = buffers::take();
        }
        if buffer.capacity() - buffer.len() < READ_BYTES / 4 {
            buffer.reserve(READ_BYTES);
        }
        let read = pin!(self.stream.read_buf(&mut buffer)).poll(context);
        let outcome = match read {
            Poll::Pending => {
                self.keep(buffer, 0);
                return Poll::Pending;
            }
            Poll::Ready(Ok(0)) => Err(SocketLost::Ended),
            Poll::Ready(Ok(_)) => Ok(()),
            Poll::Ready(Err(error)) => Err(SocketLost::Network(error)),
        };
        Poll::Ready(outcome.map(|()| self.lend(buffer)))
    }

    /// The bytes behind the upgrade, if there are any. Ask once, before the first read.
    pub fn already_read(&mut self) -> Option<Reading> {
        let buffer = std::mem::take(&mut self.partial);
        (!buffer.is_empty()).then(|| self.lend(buffer))
    }

    fn lend(&mut self, buffer: Vec<u8>) -> Reading {
        Reading {
            buffer,
            position: 0,
            decoder: self
                .decoder
                .take()
                .expect("a reading is finished before the next read"),
        }
    }

    /// Takes a reading back, with its bytes that are no whole message yet.
    pub fn finish(&mut self, reading: Reading) {
        self.decoder = Some(reading.decoder);
        self.keep(reading.buffer, reading.position);
    }

    fn keep(&mut self, mut buffer: Vec<u8>, used: usize) {
        if used == buffer.len() {
            buffers::give(buffer);
            return;
        }
        buffer.drain(..used);
        self.partial = buffer;
    }

    /// Queues one text message, written by `write` in its place.
    pub fn send_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), QueueFull> {
        self.send(Opcode::Text, write)
    }

    /// Answers a ping.
    pub fn send_pong(&mut self, payload: &[u8]) -> Result<(), QueueFull> {
        self.send(Opcode::Pong, |bytes| bytes.extend_from_slice(payload))
    }

    pub fn send_ping(&mut self) -> Result<(), QueueFull> {
        self.send(Opcode::Ping, |_| {})
    }

    /// Queues our close frame; a reason is cut to what a control frame holds.
    pub fn send_close(&mut self, code: u16, reason: &str) -> Result<(), QueueFull> {
        let end = reason.floor_char_boundary(123);
        self.send(Opcode::Close, |bytes| {
            bytes.extend_from_slice(&code.to_be_bytes());
            bytes.extend_from_slice(&reason.as_bytes()[..end]);
        })
    }

    fn send(&mut self, opcode: Opcode, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), QueueFull> {
        if self.outgoing.waiting_bytes() > self.limits.queued_bytes_max {
            return Err(QueueFull);
        }
        let mask = self.masks.as_mut().map(MaskKeys::next);
        self.outgoing.append(opcode, mask, false, write);
        Ok(())
    }

    /// Queues one frame of audio. Returns false if it was dropped because too much waits already.
    #[must_use]
    pub fn send_audio(&mut self, form: AudioForm, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        if self.outgoing.waiting_bytes() > self.limits.queued_audio_bytes_max {
            return false;
        }
        let opcode = match form {
            AudioForm::Binary => Opcode::Binary,
            AudioForm::Text => Opcode::Text,
        };
        let mask = self.masks.as_mut().map(MaskKeys::next);
        self.outgoing.append(opcode, mask, true, write);
        true
    }

    /// Drops waiting audio that has not begun to leave. Returns the number of frames.
    pub fn discard_audio(&mut self) -> usize {
        self.outgoing.discard_audio()
    }

    /// Writes the queue. Ready when nothing waits any more.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outgoing.waiting_bytes() == 0 {
            return Poll::Ready(Ok(()));
        }
        let stream = Pin::new(&mut *self.stream);
        let (written, outcome) = self.outgoing.poll_write(stream, context);
        self.stalled_since = match (&outcome, written) {
            (Poll::Ready(_), _) => None,
            (Poll::Pending, 0) => self.stalled_since.or_else(|| Some(Instant::now())),
            (Poll::Pending, _) => Some(Instant::now()),
        };
        if ready!(outcome)? {
            return Pin::new(&mut *self.stream).poll_flush(context);
        }
        Poll::Ready(Ok(()))
    }

    /// The stream beneath, for a simulated peer that does not keep to whole frames. The queue is lost.
    pub fn into_stream(self) -> Box<dyn Stream> {
        self.stream
    }

    /// The time since which the peer has taken nothing of the queue.
    pub fn stalled_since(&self) -> Option<Instant> {
        self.stalled_since
    }

    /// Whether so much waits already that audio is dropped, and so should other dispensable messages be.
    pub fn is_congested(&self) -> bool {
        self.outgoing.waiting_bytes() > self.limits.queued_audio_bytes_max
    }

    pub fn has_waiting(&self) -> bool {
        self.outgoing.waiting_bytes() > 0
    }
}

/// The kind of message for audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AudioForm {
    Binary,
    Text,
}

/// Frames that wait to be written, end to end.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
    frames: Vec<QueuedFrame>,
}

#[derive(Clone, Copy)]
struct QueuedFrame {
    end: usize,
    is_audio: bool,
}

impl Outgoing {
    fn waiting_bytes(&self) -> usize {
        self.bytes.len() - self.written
    }

    fn append(
        &mut self,
        opcode: Opcode,
        mask: Option<[u8; 4]>,
        is_audio: bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.bytes.capacity() == 0 {
            self.bytes = buffers::take();
        }
        frame::append(&mut self.bytes, opcode, mask, write);
        self.frames.push(QueuedFrame {
            end: self.bytes.len(),
            is_audio,
        });
    }

    /// Writes. Returns the bytes that left in this call, and whether all have left.
    fn poll_write(
        &mut self,
        mut stream: Pin<&mut dyn Stream>,
        context: &mut Context<'_>,
    ) -> (usize, Poll<io::Result<bool>>) {
        let before = self.written;
        while self.written < self.bytes.len() {
            let rest = &self.bytes[self.written..];
            match AsyncWrite::poll_write(stream.as_mut(), context, rest) {
                Poll::Ready(Ok(0)) => {
                    let error = io::Error::from(io::ErrorKind::WriteZero);
                    return (self.written - before, Poll::Ready(Err(error)));
                }
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => {
                    return (self.written - before, Poll::Ready(Err(error)));
                }
                Poll::Pending => {
                    let count = self.written - before;
                    self.forget_written();
                    return (count, Poll::Pending);
                }
            }
        }
        let count = self.written - before;
        buffers::give(std::mem::take(&mut self.bytes));
        self.frames.clear();
        self.written = 0;
        (count, Poll::Ready(Ok(true)))
    }

    /// Frees the memory of sent bytes, once that is worth moving the rest.
    fn forget_written(&mut self) {
        if self.written < self.bytes.len() / 2 {
            return;
        }
        let kept_from = self
            .frames
            .iter()
            .map(|frame| frame.end)
            .take_while(|end| *end <= self.written)
            .last()
            .unwrap_or(0);
        self.frames.retain(|frame| frame.end > kept_from);
        for frame in &mut self.frames {
            frame.end -= kept_from;
        }
        self.bytes.drain(..kept_from);
        self.written -= kept_from;
    }

    fn discard_audio(&mut self) -> usize {
        let (mut start, mut kept_end, mut discarded) = (0, 0, 0);
        let (bytes, written) = (&mut self.bytes, self.written);
        self.frames.retain_mut(|frame| {
            let (from, to) = (start, frame.end);
            start = to;
            // A frame that has begun to leave must be finished, or the peer loses its place.
            if frame.is_audio && from >= written {
                discarded += 1;
                return false;
            }
            bytes.copy_within(from..to, kept_end);
            kept_end += to - from;
            frame.end = kept_end;
            true
        });
        self.bytes.truncate(kept_end);
        discarded
    }
}

/// Masking keys of one connection. They protect intermediaries from chosen bytes, so the peer must not foresee them (RFC 6455,
/// section 10.3). They are no secret afterwards: a seeded sequence is enough and costs no system call.
struct MaskKeys(u64);

impl MaskKeys {
    fn seeded() -> io::Result<Self> {
        getrandom::u64()
            .map(Self)
            .map_err(|error| io::Error::other(format!("the system gives no randomness: {error}")))
    }

    /// The next key, by Vigna's SplitMix64.
    fn next(&mut self) -> [u8; 4] {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let [a, b, c, d, ..] = (mixed ^ (mixed >> 31)).to_be_bytes();
        [a, b, c, d]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    const LIMITS: SocketLimits = SocketLimits {
        messages: MessageLimits {
            text_bytes_max: 100,
            binary_bytes_max: 100,
        },
        queued_audio_bytes_max: 60,
        queued_bytes_max: 100,
    };

    /// A socket whose stream holds this many bytes, and the stream's other end.
    fn socket(stream_bytes: usize) -> (Socket, tokio::io::DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(stream_bytes);
        let socket = Socket::new(Box::new(ours), Role::Server, LIMITS, Vec::new()).unwrap();
        (socket, theirs)
    }

    fn flush(socket: &mut Socket) -> Poll<io::Result<()>> {
        socket.poll_flush(&mut Context::from_waker(std::task::Waker::noop()))
    }

    /// All messages that have left, once the queue is empty.
    async fn received(socket: &mut Socket, mut stream: tokio::io::DuplexStream) -> Vec<String> {
        let (mut bytes, mut chunk) = (Vec::new(), [0; 64]);
        loop {
            let is_done = flush(socket).is_ready();
            let count = stream.read(&mut chunk).await.unwrap();
            bytes.extend_from_slice(&chunk[..count]);
            if is_done {
                break;
            }
        }
        let mut decoder = Decoder::new(Role::Client, LIMITS.messages);
        let (mut position, mut messages) = (0, Vec::new());
        while let Some(message) = decoder.next(&mut bytes, &mut position).unwrap() {
            messages.push(match message {
                Message::Text(text) => String::from_utf8_lossy(&text).into_owned(),
                Message::Binary(audio) => format!("audio {}", audio[0]),
                other => format!("{other:?}"),
            });
        }
        messages
    }

    fn speak(socket: &mut Socket, number: u8) -> bool {
        socket.send_audio(AudioForm::Binary, |bytes| {
            bytes.extend_from_slice(&[number; 20])
        })
    }

    fn say(socket: &mut Socket, text: &str) -> Result<(), QueueFull> {
        socket.send_text(|bytes| bytes.extend_from_slice(text.as_bytes()))
    }

    #[tokio::test]
    async fn discarding_keeps_words_and_the_frame_that_has_begun_to_leave() {
        let (mut socket, stream) = socket(8);
        assert!(speak(&mut socket, 1));
        say(&mut socket, "one").unwrap();
        assert!(speak(&mut socket, 2));
        assert!(flush(&mut socket).is_pending());
        assert_eq!(socket.discard_audio(), 1);
        say(&mut socket, "two").unwrap();
        let messages = received(&mut socket, stream).await;
        assert_eq!(messages, ["audio 1", "one", "two"]);
    }

    #[tokio::test]
    async fn discarding_before_anything_has_left_keeps_no_audio() {
        let (mut socket, stream) = socket(8);
        assert!(speak(&mut socket, 1));
        say(&mut socket, "one").unwrap();
        assert_eq!(socket.discard_audio(), 1);
        assert_eq!(received(&mut socket, stream).await, ["one"]);
    }

    #[tokio::test]
    async fn a_full_queue_drops_audio_first_and_refuses_words_in_the_end() {
        let (mut socket, stream) = socket(8);
        let taken = (0..9).filter(|number| speak(&mut socket, *number)).count();
        assert_eq!(taken, 3);
        let said = (0..9).filter(|_| say(&mut socket, "0123456789").is_ok());
        assert_eq!(said.count(), 3);
        assert!(flush(&mut socket).is_pending());
        assert!(socket.stalled_since().is_some());
        assert_eq!(received(&mut socket, stream).await.len(), 6);
        assert!(speak(&mut socket, 1), "an empty queue takes audio again");
    }

    #[tokio::test]
    async fn a_stream_that_trickles_is_read_whole_and_an_ended_one_is_lost() {
        let (mut socket, mut stream) = socket(64);
        let mut context = Context::from_waker(std::task::Waker::noop());
        for byte in b"\x89\x81\0\0\0\0!" {
            stream.write_all(&[*byte]).await.unwrap();
            let Poll::Ready(Ok(mut reading)) = socket.poll_read(&mut context) else {
                panic!("a byte is there");
            };
            let message = reading.next_message().unwrap();
            if *byte == b'!' {
                assert_eq!(message, Some(Message::Ping(b"!")));
            } else {
                assert_eq!(message, None);
            }
            socket.finish(reading);
        }
        drop(stream);
        let lost = socket.poll_read(&mut context);
        assert!(matches!(lost, Poll::Ready(Err(SocketLost::Ended))));
    }
}
