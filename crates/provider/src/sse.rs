//! Server-sent events cut out of a byte stream, however the network cut it. Knows the framing and its limits; knows no provider
//! and does not read an event's contents.
//!
//! The format is that of the WHATWG HTML standard, section 9.2, read more leniently in two points that real servers make
//! necessary: an event at the end of the stream counts without its blank line, and text that is no field at all (a bare JSON
//! error in the middle of a stream, an HTML page) is handed on instead of being ignored.

use memchr::memchr2;

/// Limits of one stream's pending bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub line_bytes_max: usize,
    /// Bytes of all data lines of one event.
    pub event_bytes_max: usize,
}

impl Limits {
    /// Limits for events of one line, as all providers send them.
    pub(crate) fn of_line(bytes_max: usize) -> Self {
        Self {
            line_bytes_max: bytes_max,
            event_bytes_max: bytes_max,
        }
    }
}

/// The stream holds a piece beyond the limits. The rest of it cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLong {
    #[error(
        "a line of the provider's stream is longer than {bytes_max} bytes: it is no stream of events, or it never ends"
    )]
    Line { bytes_max: usize },
    #[error(
        "an event of the provider's stream is longer than {bytes_max} bytes: it is no stream of events, or it never ends"
    )]
    Event { bytes_max: usize },
}

/// One item of the stream. The bytes need be no UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// The data lines of one event, joined by line feeds, and the event's name, if it has one.
    Event { name: &'a [u8], data: &'a [u8] },
    /// Lines that are no fields, joined by line feeds.
    Bare(&'a [u8]),
}

/// Splits one stream. Comments, ids and retry times are dropped, as are events without data.
#[derive(Debug)]
pub struct Splitter {
    limits: Limits,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    bare: Vec<u8>,
    /// Whether the last byte was a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    started: bool,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Splitter {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            bare: Vec::new(),
            after_return: false,
            started: false,
        }
    }

    /// Takes the next bytes and hands on every item that they complete.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        on_item: &mut impl FnMut(Item<'_>),
    ) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', bytes) else {
                self.check_line(bytes.len())?;
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.check_line(end)?;
            self.after_return = bytes[end] == b'\r';
            if self.line.is_empty() {
                self.take_line(&bytes[..end], on_item)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                let taken = self.take_line(&line, on_item);
                line.clear();
                self.line = line;
                taken?;
            }
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// Ends the stream: hands on the rest, an unfinished line included. The reader finds out whether the line is whole.
    pub fn finish(mut self, on_item: &mut impl FnMut(Item<'_>)) -> Result<(), TooLong> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, on_item)?;
        }
        self.dispatch(on_item);
        Ok(())
    }

    fn check_line(&self, more: usize) -> Result<(), TooLong> {
        let bytes_max = self.limits.line_bytes_max;
        if self.line.len() + more > bytes_max {
            return Err(TooLong::Line { bytes_max });
        }
        Ok(())
    }

    fn take_line(
        &mut self,
        line: &[u8],
        on_item: &mut impl FnMut(Item<'_>),
    ) -> Result<(), TooLong> {
        let line = if std::mem::replace(&mut self.started, true) {
            line
        } else {
            line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
        };
        if line.is_empty() {
            self.dispatch(on_item);
            return Ok(());
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.check_event(self.data.len() + value.len())?;
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            b"" | b"id" | b"retry" => {}
            _ => {
                self.check_event(self.bare.len() + line.len())?;
                if !self.bare.is_empty() {
                    self.bare.push(b'\n');
                }
                self.bare.extend_from_slice(line);
            }
        }
        Ok(())
    }

    fn check_event(&self, bytes: usize) -> Result<(), TooLong> {
        let bytes_max = self.limits.event_bytes_max;
        if bytes > bytes_max {
            return Err(TooLong::Event { bytes_max });
        }
        Ok(())
    }

    fn dispatch(&mut self, on_item: &mut impl FnMut(Item<'_>)) {
        if self.has_data {
            on_item(Item::Event {
                name: &self.name,
                data: &self.data,
            });
        }
        if !self.bare.is_empty() {
            on_item(Item::Bare(&self.bare));
        }
        self.has_data = false;
        self.data.clear();
        self.name.clear();
        self.bare.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The items of a stream that is cut at the given places: `name|data`, or `bare:text`.
    fn split(pieces: &[&[u8]], limits: Limits) -> Result<Vec<String>, TooLong> {
        let mut items = Vec::new();
        let mut on_item = |item: Item<'_>| {
            items.push(match item {
                Item::Event { name, data } => format!(
                    "{}|{}",
                    String::from_utf8_lossy(name),
                    String::from_utf8_lossy(data)
                ),
                Item::Bare(text) => format!("bare:{}", String::from_utf8_lossy(text)),
            });
        };
        let mut splitter = Splitter::new(limits);
        for piece in pieces {
            splitter.push(piece, &mut on_item)?;
        }
        splitter.finish(&mut on_item)?;
        Ok(items)
    }

    #[test]
    fn events_are_the_same_however_the_stream_is_cut() {
        for (stream, items) in [
            ("data: a\n\ndata: b\n\n", &["|a", "|b"][..]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", &["|a", "|b"]),
            ("data: a\r\rdata: b\r\r", &["|a", "|b"]),
            ("data: a\r\n\ndata: b\n\r\n", &["|a", "|b"]),
            ("data: one\ndata:two\n\n", &["|one\ntwo"]),
            ("data:\ndata:\n\n", &["|\n"]),
            ("data\n\n", &["|"]),
            ("event: error\nid: 7\nretry: 3\ndata: {}\n\n", &["error|{}"]),
            ("event: lonely\n\ndata: x\n\n", &["|x"]),
            (": OPENROUTER PROCESSING\n\n:\n\ndata: x\n\n", &["|x"]),
            ("\n\n\n", &[]),
            ("", &[]),
            ("data: [DONE]", &["|[DONE]"]),
            ("data: a\n", &["|a"]),
            ("\u{feff}data: a\n\n", &["|a"]),
            ("data: żółw 🐢\n\n", &["|żółw 🐢"]),
            (
                "data: a\n\n{\n  \"error\": {\"code\": 503}\n}\n",
                &["|a", "bare:{\n  \"error\": {\"code\": 503}\n}"],
            ),
            (
                "<html>\n<p>no</p>\n\n</html>",
                &["bare:<html>\n<p>no</p>", "bare:</html>"],
            ),
            ("data: a\n{\"b\":1}\n\n", &["|a", "bare:{\"b\":1}"]),
        ] {
            let bytes = stream.as_bytes();
            let whole = split(&[bytes], Limits::of_line(1_000)).unwrap();
            assert_eq!(whole, items, "{stream:?}");
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                    assert_eq!(
                        split(&pieces, Limits::of_line(1_000)).unwrap(),
                        items,
                        "{stream:?} cut at {first} and {second}"
                    );
                }
            }
        }
    }

    #[test]
    fn nothing_grows_past_its_limit() {
        let limits = Limits {
            line_bytes_max: 10,
            event_bytes_max: 12,
        };
        let line = Err(TooLong::Line { bytes_max: 10 });
        let event = Err(TooLong::Event { bytes_max: 12 });
        for (pieces, outcome) in [
            (&["data: 1234\n\n"][..], Ok(vec!["|1234".to_owned()])),
            (&["data: 12345\n\n"], line.clone()),
            (&["data: 12", "345"], line.clone()),
            (
                &["data: 1234\n", "data: 1234\n", "data: 1234\n"],
                event.clone(),
            ),
            (&["{\"a\": 1,\n", "\"b\": 1}\n"], event.clone()),
            (&[":12345678901"], line.clone()),
        ] {
            let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
            assert_eq!(split(&pieces, limits), outcome, "{pieces:?}");
        }
    }
}
