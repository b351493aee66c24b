//! Which rows of a CSV file can be read: finds those whose quotes do not end as they should or whose bytes are no text, and
//! takes them out, so that each costs itself alone. Knows nothing of columns.

use crate::front_matter::Fault;
use std::borrow::Cow;

/// A file without its bad rows, in whose place there are as many empty lines.
pub(crate) struct Rows<'a> {
    pub(crate) text: Cow<'a, str>,
    /// What was taken out, in its order.
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
    /// Something stands between a closing quote and the end of its cell.
    GoesOn,
}

/// The form of the row that some bytes begin with, and its length with its end.
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

/// Where a quoted cell ends that begins before `at`; two quotes are one within it.
fn behind_quotes(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += bytes[at..].iter().position(|byte| *byte == b'"')? + 1;
        match bytes.get(at) {
            Some(b'"') => at += 1,
            Some(_) | None => return Some(at),
        }
    }
}

/// Bytes up to the end of the first line. No row that is read on from there is read to the end of the file in vain again:
/// a quote that nothing closes leaves only quotes in pairs behind it.
fn line_bytes(bytes: &[u8]) -> usize {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    end.map_or(bytes.len(), |end| end + 1)
}

fn line_ends(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}
