//! Where in a JSON text a pointer leads. Knows no schema; the text has been parsed before and is taken to be valid.

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// From 1.
    pub(crate) line: usize,
    /// From 1, in bytes.
    pub(crate) column: usize,
}

/// The place of the value that a JSON pointer names: of its key where it is a member of an object, else of its first
/// byte. A pointer that leads past what is there stops at the last place that exists. `None` for an empty text.
pub(crate) fn locate(text: &str, pointer: &str) -> Option<Position> {
    let mut scanner = Scanner {
        bytes: text.as_bytes(),
        at: 0,
    };
    scanner.skip_space();
    scanner.peek()?;
    let mut place = scanner.at;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        match scanner.enter(&token) {
            Some(child) => place = child,
            None => break,
        }
    }
    Some(position(text.as_bytes(), place))
}

/// The line and column of a byte.
fn position(bytes: &[u8], at: usize) -> Position {
    let before = &bytes[..at.min(bytes.len())];
    let line_start = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1);
    Position {
        line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
        column: 1 + before.len() - line_start,
    }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self
            .peek()
            .is_some_and(|byte| byte.is_ascii_whitespace() || byte == b',' || byte == b':')
        {
            self.at += 1;
        }
    }

    /// Goes to the value of a member or item of the value at hand, and returns where it is said to be: at its key for
    /// a member, at itself for an item.
    fn enter(&mut self, token: &str) -> Option<usize> {
        match self.peek()? {
            b'{' => self.enter_object(token),
            b'[' => self.enter_array(token.parse().ok()?),
            _ => None,
        }
    }

    fn enter_object(&mut self, token: &str) -> Option<usize> {
        self.at += 1;
        loop {
            self.skip_space();
            if self.peek()? != b'"' {
                return None;
            }
            let key_start = self.at;
            self.skip_string();
            let key = serde_json::from_slice::<String>(self.bytes.get(key_start..self.at)?).ok()?;
            self.skip_space();
            if key == token {
                return Some(key_start);
            }
            self.skip_value()?;
        }
    }

    fn enter_array(&mut self, index: usize) -> Option<usize> {
        self.at += 1;
        for _ in 0..index {
            self.skip_space();
            self.skip_value()?;
        }
        self.skip_space();
        (self.peek()? != b']').then_some(self.at)
    }

    fn skip_string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += match byte {
                b'\\' => 2,
                _ => 1,
            };
            if byte == b'"' {
                return;
            }
        }
    }

    fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => self.skip_string(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                byte if depth == 0
                    && !byte.is_ascii_whitespace()
                    && byte != b','
                    && byte != b':' =>
                {
                    self.skip_literal();
                }
                _ => {
                    self.at += 1;
                    continue;
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn skip_literal(&mut self) {
        while self.peek().is_some_and(|byte| {
            !byte.is_ascii_whitespace() && !matches!(byte, b',' | b']' | b'}' | b':')
        }) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::locate;

    #[test]
    fn a_pointer_is_found_at_its_key_or_its_item() {
        let text = "{\n  \"a\": [1, {\"x\\\"~/\": true}, [\"]\", 2]],\n  \"b\": {\"c\": null}\n}";
        for (pointer, line, column) in [
            ("", 1, 1),
            ("/a", 2, 3),
            ("/a/0", 2, 9),
            ("/a/1", 2, 12),
            ("/a/1/x\"~0~1", 2, 13),
            ("/a/2", 2, 29),
            ("/a/2/1", 2, 35),
            ("/b", 3, 3),
            ("/b/c", 3, 9),
            ("/b/missing/deeper", 3, 3),
            ("/a/9", 2, 3),
        ] {
            let place = locate(text, pointer).unwrap();
            assert_eq!((place.line, place.column), (line, column), "{pointer}");
        }
        assert_eq!(locate("", "/a"), None);
    }
}
