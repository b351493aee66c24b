//! Finds the unreadable rows of a CSV file, whose quotes do not end properly or whose bytes are no text, and removes them, so that each
//! bad row costs only itself. Knows nothing of columns.

use crate::front_matter::Fault;
use std::borrow::Cow;

/// A file whose bad rows are replaced by as many empty lines.
pub(crate) struct Rows<'a> {
    pub(crate) text: Cow<'a, str>,
    /// The faults of the removed rows, in their order.
    pub(crate) faults: Vec<Fault>,
}

pub(crate) fn good_rows(bytes: &[u8]) -> Rows<'_> {
    let mut kept: Vec<u8> = Vec::new();
    let mut faults = Vec::new();
    let (mut start, mut kept_to, mut line) = (0, 0, 1);
    while start < bytes.len() {
        let rest = &bytes[start..];
        let (form, row_bytes) = row(rest);
        let row = &rest[..row_bytes];
        let fault = match form {
            Form::Good if std::str::from_utf8(row).is_ok() => None,
            Form::Good => Some((row_bytes, "the row is not UTF-8: save the file as UTF-8")),
            Form::Unclosed => Some((
                line_bytes(rest),
                "a cell of the row opens a quote that nothing closes: close it, or double it within quotes",
            )),
            Form::GoesOn => Some((
                line_bytes(rest),
                "a cell of the row goes on behind its closing quote: double the quotes within it",
            )),
        };
        let bytes_read = match fault {
            None => row_bytes,
            Some((bytes_out, message)) => {
                faults.push(Fault::new(Some(line), message));
                kept.extend_from_slice(&bytes[kept_to..start]);
                kept_to = start + bytes_out;
                kept.extend(std::iter::repeat_n(b'\n', line_ends(&rest[..bytes_out])));
                bytes_out
            }
        };
        line += line_ends(&rest[..bytes_read]);
        start += bytes_read;
    }
    let text = match faults.is_empty() {
        true => String::from_utf8_lossy(bytes),
        false => {
            kept.extend_from_slice(&bytes[kept_to..]);
            Cow::Owned(String::from_utf8_lossy(&kept).into_owned())
        }
    };
    Rows { text, faults }
}

enum Form {
    Good,
    /// A quote is open at the end of the file.
    Unclosed,
    /// Text follows a closing quote within its cell.
    GoesOn,
}

/// The form of the row at the beginning of some bytes, and its length with its end.
fn row(bytes: &[u8]) -> (Form, usize) {
    let mut at = 0;
    loop {
        if bytes.get(at) == Some(&b'"') {
            match behind_quotes(bytes, at + 1) {
                None => return (Form::Unclosed, bytes.len()),
                Some(behind) => at = behind,
            }
            let blanks = bytes[at..].iter().take_while(|byte| **byte == b' ');
            at += blanks.count();
            if !matches!(bytes.get(at), None | Some(b',' | b'\n' | b'\r')) {
                return (Form::GoesOn, at);
            }
        }
        let ends = |byte: &u8| matches!(byte, b',' | b'\n' | b'\r');
        match bytes[at..].iter().position(ends) {
            None => return (Form::Good, bytes.len()),
            Some(place) => at += place + 1,
        }
        if bytes[at - 1] != b',' {
            return (Form::Good, at);
        }
    }
}

/// The end of a quoted cell that begins before `at`; two quotes inside it stand for one.
fn behind_quotes(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += bytes[at..].iter().position(|byte| *byte == b'"')? + 1;
        match bytes.get(at) {
            Some(b'"') => at += 1,
            Some(_) | None => return Some(at),
        }
    }
}

/// The bytes of the first line with its end. Reading goes on there after an unclosed quote, and no later row is read in vain to the end
/// of the file: only pairs of quotes follow.
fn line_bytes(bytes: &[u8]) -> usize {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    end.map_or(bytes.len(), |end| end + 1)
}

fn line_ends(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}
