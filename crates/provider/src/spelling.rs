//! JSON whose spelling is known beforehand, token by token: the short way around a parser. Knows no message.

/// The rest of a frame behind these tokens, with any white space before each.
#[inline]
pub(crate) fn tokens<'f>(frame: &'f [u8], expected: &[&[u8]]) -> Option<&'f [u8]> {
    expected
        .iter()
        .try_fold(frame, |rest, expected| token(rest, expected))
}

/// The rest of a frame behind this token, with any white space before it.
#[inline]
pub(crate) fn token<'f>(frame: &'f [u8], expected: &[u8]) -> Option<&'f [u8]> {
    blank(frame).strip_prefix(expected)
}

/// The rest of a frame behind JSON's white space.
#[inline]
pub(crate) fn blank(mut frame: &[u8]) -> &[u8] {
    while let [b' ' | b'\n' | b'\r' | b'\t', rest @ ..] = frame {
        frame = rest;
    }
    frame
}

/// The string without escapes that comes next, and the text behind it.
#[inline]
pub(crate) fn plain_string(frame: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = token(frame, b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    let (value, rest) = rest.split_at(end);
    Some((value, rest.strip_prefix(b"\"")?))
}
