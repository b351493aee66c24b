//! The cause and the place of an error in an author's source. Reads the stacks that the engine writes; knows no engine.

use std::fmt;

/// Files whose frames are ours, and of no use to an author.
const OWN_FILES: [&str; 3] = ["windlass:core", "windlass:web", "windlass:locale"];
/// Frames of the stack that an error brings along.
const FRAMES_MAX: usize = 4;
/// Bytes of an error's own message; the rest is cut.
const MESSAGE_BYTES_MAX: usize = 2_048;

/// A line of a file, both from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourcePosition {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The positions of a stack that are in an author's files, the innermost first.
pub(crate) fn places(stack: &str) -> impl Iterator<Item = SourcePosition> {
    stack.lines().filter_map(|frame| {
        let frame = frame.trim().strip_prefix("at ")?;
        // `name (file:line:column)`, or without a name.
        let place = match frame.rsplit_once(" (") {
            Some((_, place)) => place.strip_suffix(')')?,
            None => frame,
        };
        let (rest, column) = place.rsplit_once(':')?;
        let (file, line) = rest.rsplit_once(':')?;
        let place = SourcePosition {
            file: file.to_owned(),
            line: line.parse().ok()?,
            column: column.parse().ok()?,
        };
        (!OWN_FILES.contains(&file)).then_some(place)
    })
}

/// One line about an error, for the log: the place, the message, and the lines that the error came through.
pub(crate) fn describe(message: &str, stack: &str) -> String {
    let message = cut(message, MESSAGE_BYTES_MAX);
    let mut places = places(stack).take(FRAMES_MAX);
    let Some(first) = places.next() else {
        return message.to_owned();
    };
    let mut text = format!("{first}: {message}");
    for place in places {
        text.push_str(&format!(", from {place}"));
    }
    text
}

/// A text's beginning, in whole characters.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_by_the_lines_of_its_author() {
        let stack = "    at inner (a/handler.js:3:9)\n    at <anonymous> (windlass:core:9:1)\n    at a/lib.js:7:1\n    at native\n";
        assert_eq!(
            describe("TypeError: no", stack),
            "a/handler.js:3:9: TypeError: no, from a/lib.js:7:1"
        );
        assert_eq!(describe("threw a string", ""), "threw a string");
    }
}
