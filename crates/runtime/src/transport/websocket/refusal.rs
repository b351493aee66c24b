//! The body of an answer that refuses an upgrade, as far as it helps to explain the refusal. Owns the limits of its size and its
//! time; does not know its meaning, and prints nothing of it, because servers quote keys.

use crate::transport::Stream;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout_at};
use windlass_contract::sensitive::Sensitive;

/// Bytes that are read, the framing of chunks included; the errors of the providers are shorter.
const BYTES_MAX: usize = 4 * 1024;
/// Time for a body after its head. The refusal is known already, and another attempt may wait for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The mark of a body's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    /// The end of the connection.
    Ended,
}

impl Framing {
    fn of(headers: &HeaderMap) -> Self {
        if headers.contains_key(TRANSFER_ENCODING) {
            return Self::Chunked;
        }
        let length = headers.get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.trim().parse().ok());
        length.map_or(Self::Ended, Self::Length)
    }

    /// The body as far as it has come, and whether it is complete.
    fn body(self, bytes: &[u8]) -> (Vec<u8>, bool) {
        match self {
            Self::Length(length) => {
                let body = &bytes[..bytes.len().min(length)];
                (body.to_vec(), body.len() == length)
            }
            Self::Chunked => chunks(bytes),
            Self::Ended => (bytes.to_vec(), false),
        }
    }
}

/// The body behind a head: the bytes that have come already, and further ones until the body is complete, its limit is reached,
/// or it takes too long. Never later than the deadline. An unfinished body is returned as far as it came.
pub(super) async fn read(
    stream: &mut dyn Stream,
    mut bytes: Vec<u8>,
    headers: &HeaderMap,
    deadline: Instant,
) -> Sensitive<Vec<u8>> {
    let framing = Framing::of(headers);
    let reading = async {
        while bytes.len() < BYTES_MAX && !framing.body(&bytes).1 {
            if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
                break;
            }
        }
    };
    let is_in_time = timeout_at(deadline.min(Instant::now() + PATIENCE), reading).await;
    if is_in_time.is_err() {
        tracing::debug!("the body of a refused upgrade did not come as a whole");
    }
    bytes.truncate(BYTES_MAX);
    Sensitive(framing.body(&bytes).0)
}

/// The content of chunks as far as they have come, and whether it is complete (RFC 9112, section 7.1).
fn chunks(bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut content = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    loop {
        let Some(line_end) = rest.windows(2).position(|pair| pair == b"\r\n") else {
            return (content, false);
        };
        let line = str::from_utf8(&rest[..line_end]).unwrap_or_default();
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = match usize::from_str_radix(size, 16) {
            Ok(size @ 1..) => size,
            // The last chunk, or no chunk at all: there is nothing more to read.
            Ok(0) | Err(_) => return (content, true),
        };
        let data = &rest[line_end + 2..];
        content.extend_from_slice(&data[..data.len().min(size)]);
        match data.get(size.saturating_add(2)..) {
            Some(behind) => rest = behind,
            None => return (content, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use tokio::io::AsyncWriteExt;

    #[test]
    fn the_content_of_chunks_is_read_as_far_as_it_has_come() {
        for (bytes, content, is_whole) in [
            ("5\r\nwords\r\n0\r\n\r\n", "words", true),
            ("2;name=value\r\nwo\r\n3\r\nrds\r\n0\r\n\r\n", "words", true),
            ("A\r\n0123456789\r\n", "0123456789", false),
            ("5\r\nwor", "wor", false),
            ("5\r\nwords", "words", false),
            ("5", "", false),
            ("", "", false),
            ("no size\r\nwords", "", true),
            ("ffffffffffffffff\r\nwords", "words", false),
            ("fffffffffffffffff\r\nwords", "", true),
            ("\r\nwords", "", true),
        ] {
            let read = chunks(bytes.as_bytes());
            assert_eq!(read, (content.as_bytes().to_vec(), is_whole), "{bytes:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_is_read_for_so_long_and_so_far() {
        let length = HeaderMap::from_iter([(CONTENT_LENGTH, HeaderValue::from_static("9"))]);
        let (seconds, endless) = (Duration::from_secs(1), "x".repeat(BYTES_MAX + 1));
        for (headers, sent, time_left, read_bytes, took) in [
            (&length, "later", 10 * seconds, 5, PATIENCE),
            (&length, "later", seconds, 5, seconds),
            (&length, "later and more", seconds, 9, Duration::ZERO),
            (
                &HeaderMap::new(),
                &endless,
                seconds,
                BYTES_MAX,
                Duration::ZERO,
            ),
        ] {
            let (mut stream, mut server) = tokio::io::duplex(2 * BYTES_MAX);
            server.write_all(sent.as_bytes()).await.unwrap();
            let begun = Instant::now();
            let body = read(&mut stream, Vec::new(), headers, begun + time_left).await;
            assert_eq!((body.expose().len(), begun.elapsed()), (read_bytes, took));
        }
    }
}
