//! The lines of a process's output, each within a bound. Knows no message.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// Reads an output line by line.
pub(crate) struct Lines<R> {
    output: BufReader<R>,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    pub(crate) bytes_max: usize,
}

pub(crate) enum Line {
    /// A whole line; [`Lines::take`] returns it.
    Whole,
    /// A line beyond the limit; [`Lines::take`] returns its beginning.
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(output: R, bytes_max: usize) -> Self {
        Self {
            output: BufReader::with_capacity(READ_BYTES, output),
            line: Vec::new(),
            bytes_max,
        }
    }

    /// The future may be dropped while it waits, and the method called again.
    pub(crate) async fn next(&mut self) -> Line {
        loop {
            let Ok(piece) = self.output.fill_buf().await else {
                return Line::End;
            };
            if piece.is_empty() {
                return Line::End;
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let part = &piece[..end.unwrap_or(piece.len())];
            if self.line.len() + part.len() > self.bytes_max {
                return Line::TooLong;
            }
            self.line.extend_from_slice(part);
            let used = end.map_or(piece.len(), |end| end + 1);
            self.output.consume(used);
            if end.is_some() {
                return Line::Whole;
            }
        }
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.line)
    }

    /// Keeps the memory of a line for the next one, unless it is unusually much.
    pub(crate) fn give_back(&mut self, mut line: Vec<u8>) {
        line.clear();
        if line.capacity() > READ_BYTES {
            line.shrink_to(READ_BYTES);
        }
        self.line = line;
    }
}
