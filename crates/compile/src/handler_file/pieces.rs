//! Answers in pieces: NDJSON, and server-sent events. The last piece is the answer, and earlier pieces are shown while the call runs.
//! Knows no socket.

use serde::de::IgnoredAny;
use serde_json::Value;
use windlass_contract::json;

/// The form in which an answer is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceForm {
    /// One JSON value a line.
    Lines,
    /// `data:` of server-sent events (WHATWG HTML, "Server-sent events").
    Events,
}

/// The mark that ends a stream of events at many services. It has no content.
const DONE: &[u8] = b"[DONE]";

/// Reads pieces from an answer as it arrives.
#[derive(Debug)]
pub struct PieceReader {
    form: PieceForm,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// The data of the current event; `None` where it has none yet.
    event: Option<Vec<u8>>,
    /// The newest piece. It is the answer unless another piece follows.
    newest: Option<Vec<u8>>,
}

impl PieceReader {
    /// A reader for an answer of this `Content-Type`; `None` for an answer that comes as a whole.
    pub fn of(content_type: Option<&str>) -> Option<Self> {
        let kind = content_type?.split(';').next()?.trim().to_ascii_lowercase();
        let form = match kind.as_str() {
            "text/event-stream" => PieceForm::Events,
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => PieceForm::Lines,
            _ => return None,
        };
        Some(Self {
            form,
            line: Vec::new(),
            event: None,
            newest: None,
        })
    }

    /// Takes bytes as they arrive, and gives away each piece that is not the answer.
    pub fn read(&mut self, mut bytes: &[u8], give: &mut dyn FnMut(Value)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            self.take_line(line.strip_suffix(b"\r").unwrap_or(&line), give);
        }
        self.line.extend_from_slice(bytes);
    }

    /// The answer once the stream has ended: its last piece. `None` without any piece, and where the stream ends within one: a connection
    /// that is closed early looks like the end of an answer without a length.
    pub fn answer(mut self, give: &mut dyn FnMut(Value)) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        let mut has_no_end = self.take_line(&line, give);
        // An event without an end still counts: many services leave out the empty line after the last event.
        has_no_end |= self.take_line(b"", give);
        // A value that was cut off is no JSON.
        let is_whole = |piece: &Vec<u8>| serde_json::from_slice::<IgnoredAny>(piece).is_ok();
        self.newest.filter(|last| !has_no_end || is_whole(last))
    }

    /// Takes one line; whether it ends a piece.
    fn take_line(&mut self, line: &[u8], give: &mut dyn FnMut(Value)) -> bool {
        match self.form {
            PieceForm::Lines => self.take_piece(line.trim_ascii().to_vec(), give),
            PieceForm::Events if line.is_empty() => {
                let event = self.event.take();
                self.take_piece(event.unwrap_or_default(), give)
            }
            PieceForm::Events => {
                let Some(data) = line.strip_prefix(b"data:") else {
                    return false;
                };
                let data = data.strip_prefix(b" ").unwrap_or(data);
                match &mut self.event {
                    Some(event) => {
                        event.push(b'\n');
                        event.extend_from_slice(data);
                    }
                    event => *event = Some(data.to_vec()),
                }
                false
            }
        }
    }

    /// Whether the text is a piece.
    fn take_piece(&mut self, piece: Vec<u8>, give: &mut dyn FnMut(Value)) -> bool {
        if piece.is_empty() || piece == DONE {
            return false;
        }
        if let Some(before) = self.newest.replace(piece) {
            give(shown(&before));
        }
        true
    }
}

/// A piece as it is shown: as JSON, or else as text.
fn shown(piece: &[u8]) -> Value {
    json::parse(piece).unwrap_or_else(|_| String::from_utf8_lossy(piece).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The pieces and the answer of a body that arrives in parts of `part` bytes.
    fn read(kind: &str, body: &str, part: usize) -> (Vec<Value>, Option<String>) {
        let mut reader = PieceReader::of(Some(kind)).unwrap();
        let mut pieces = Vec::new();
        let mut give = |piece: Value| pieces.push(piece);
        for part in body.as_bytes().chunks(part) {
            reader.read(part, &mut give);
        }
        let answer = reader.answer(&mut give);
        (
            pieces,
            answer.map(|answer| String::from_utf8(answer).unwrap()),
        )
    }

    #[test]
    fn the_last_piece_is_the_answer_however_the_body_is_cut() {
        let lines = "application/x-ndjson; charset=utf-8";
        let events = "text/event-stream";
        for (kind, body, pieces, answer) in [
            (lines, "{\"a\":1}", vec![], "{\"a\":1}"),
            (
                lines,
                "1\n\n \"é\"\r\n{\"a\":1}\n",
                vec![json!(1), json!("é")],
                "{\"a\":1}",
            ),
            (lines, "no json\n2\n", vec![json!("no json")], "2"),
            (
                events,
                "data: 1\n\ndata: {\"a\":1}\n\n",
                vec![json!(1)],
                "{\"a\":1}",
            ),
            (
                events,
                "data: 1\n\ndata: {\"a\":1}\n\ndata: [DONE]\n\n",
                vec![json!(1)],
                "{\"a\":1}",
            ),
            (
                events,
                ": still here\n\nid: 4\nevent: piece\ndata: [1,\ndata:2]\n\ndata: 3",
                vec![json!([1, 2])],
                "3",
            ),
            // A piece with its end counts, whatever follows.
            (events, "data: no json\n\n: still", vec![], "no json"),
            (lines, "no json\n  ", vec![], "no json"),
        ] {
            check(kind, body, &pieces, Some(answer));
        }
    }

    #[test]
    fn a_stream_that_ends_without_a_whole_piece_has_no_answer() {
        let (lines, events) = ("application/x-ndjson", "text/event-stream");
        for (kind, body, pieces) in [
            (lines, "", vec![]),
            (lines, "\n\n", vec![]),
            (lines, "{\"a\":", vec![]),
            (lines, "1\n{\"a\":{\"b\":2}", vec![json!(1)]),
            (lines, "1\n\"tw", vec![json!(1)]),
            (events, "nothing\n\n", vec![]),
            (events, "data: [DONE]\n\n", vec![]),
            (events, "data: 1\n\ndata: {\"a\":\n", vec![json!(1)]),
            (events, "data: 1\n\ndata: {\"a\"", vec![json!(1)]),
        ] {
            check(kind, body, &pieces, None);
        }
    }

    fn check(kind: &str, body: &str, pieces: &[Value], answer: Option<&str>) {
        for part in [1, 2, 3, 1_000] {
            let (given, last) = read(kind, body, part);
            assert_eq!(
                (given.as_slice(), last.as_deref()),
                (pieces, answer),
                "{body:?} {part}"
            );
        }
    }

    #[test]
    fn every_other_answer_comes_as_a_whole() {
        for kind in [None, Some("application/json"), Some("text/plain"), Some("")] {
            assert!(PieceReader::of(kind).is_none(), "{kind:?}");
        }
    }
}
