//! Reads JSON text in one pass, for the few shapes that come often. Knows no position and no cause: where a text is not
//! plainly good, the general parser has to look.

use crate::arguments::Arguments;
use crate::json::{Strict, plain_length};
use serde_json::Value;
use std::ops::Range;

/// Values inside values. The general parser allows more.
pub(crate) const DEPTH_MAX: usize = 32;

/// A place in a text. Every method skips white space, reads one thing, and moves on; `None` means that somebody else has
/// to read the text from its start.
#[derive(Debug)]
pub struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// One byte of punctuation.
    pub fn token(&mut self, token: u8) -> Option<()> {
        (self.peek()? == token).then(|| self.at += 1)
    }

    /// A string that needs no unescaping, as it stands in the text.
    pub fn text(&mut self) -> Option<&'t str> {
        let text = self.text;
        self.span().map(|span| &text[span])
    }

    /// Where such a string stands.
    #[inline]
    pub(crate) fn span(&mut self) -> Option<Range<usize>> {
        self.token(b'"')?;
        let bytes = self.text.as_bytes();
        let start = self.at;
        let end = start + plain_length(&bytes[start..]);
        (bytes.get(end) == Some(&b'"')).then(|| {
            self.at = end + 1;
            start..end
        })
    }

    /// An object; `member` is called behind each name and has to read the value. Says nothing of names that are there
    /// twice.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &'t str) -> Option<()>,
    ) -> Option<()> {
        self.token(b'{')?;
        let mut is_first = true;
        while self.goes_on(b'}', !std::mem::take(&mut is_first))? {
            let name = self.text()?;
            self.token(b':')?;
            member(self, name)?;
        }
        Some(())
    }

    /// An array; `item` has to read each value.
    pub fn array(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.token(b'[')?;
        let mut is_first = true;
        while self.goes_on(b']', !std::mem::take(&mut is_first))? {
            item(self)?;
        }
        Some(())
    }

    /// Whether a member or an item follows in what `end` closes. Where others came `before`, there has to be a comma.
    pub(crate) fn goes_on(&mut self, end: u8, before: bool) -> Option<bool> {
        if self.peek()? == end {
            self.at += 1;
            return Some(false);
        }
        if before {
            self.token(b',')?;
        }
        Some(true)
    }

    /// An object without names that are there twice.
    pub fn arguments(&mut self) -> Option<Arguments> {
        Arguments::read_from(self)
    }

    /// The end of the text.
    pub fn end(&mut self) -> Option<()> {
        self.peek().is_none().then_some(())
    }

    /// Behind white space, in bytes.
    pub(crate) fn position(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// What was not read yet.
    pub(crate) fn rest(&mut self) -> &'t str {
        self.peek();
        &self.text[self.at..]
    }

    /// A number, `true`, `false` or `null`.
    pub(crate) fn scalar(&mut self) -> Option<Value> {
        let word = self.scalar_text()?;
        match word.as_bytes() {
            b"true" => Some(Value::Bool(true)),
            b"false" => Some(Value::Bool(false)),
            b"null" => Some(Value::Null),
            [digit @ b'0'..=b'9'] => Some(Value::from(digit - b'0')),
            // Ten digits more would still be an integer of 64 bits.
            [b'1'..=b'9', digits @ ..]
                if digits.len() < 9 && digits.iter().all(u8::is_ascii_digit) =>
            {
                word.parse().ok().map(|number: u64| Value::from(number))
            }
            _ => serde_json::from_str::<Strict>(word)
                .ok()
                .map(|strict| strict.0),
        }
    }

    /// What looks like a number or a word.
    fn scalar_text(&mut self) -> Option<&'t str> {
        let rest = &self.text[self.at..];
        let length = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
            .count();
        self.at += length;
        (length > 0).then(|| &rest[..length])
    }

    /// The next byte that is no white space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use serde_json::json;

    fn read(text: &str) -> Option<Value> {
        let mut reader = Reader::new(text);
        let arguments = reader.arguments()?;
        reader.end()?;
        Some(arguments.to_value())
    }

    #[test]
    fn what_is_read_is_what_the_general_parser_reads() {
        for text in [
            "{}",
            " { } ",
            r#"{"a":1,"b":[true,false,null],"c":{"d":"é 😀","e":[]},"":""}"#,
            "{\n\t\"a\" : -1 ,\r\n \"b\" : [ 1.5 , 2e3 , 3.0, 123456789, 1234567890, 18446744073709551615, 0, -0 ] }",
            r#"{"long":"abcdefghijklmnopqrstuvwxyz 0123456789"}"#,
        ] {
            assert_eq!(read(text), json::parse(text.as_bytes()).ok(), "{text}");
            assert!(read(text).is_some(), "{text}");
        }
    }

    #[test]
    fn what_is_not_plainly_good_is_left_to_the_general_parser() {
        let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
        for text in [
            "",
            "{",
            "[]",
            "{}}",
            "{} x",
            "{a:1}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{,}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":01}"#,
            r#"{"a":1.}"#,
            r#"{"a":+1}"#,
            r#"{"a":tru}"#,
            r#"{"a":1e999}"#,
            r#"{"a":[1,]}"#,
            r#"{"a":[1 2]}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":{"b":1,"b":2}}"#,
            r#"{"a":"\n"}"#,
            "{\"a\":\"\n\"}",
            "{\"a\":\"\u{0}\"}",
            r#"{"a\u0062":1}"#,
            r#"{"a":"b}"#,
            "\u{feff}{}",
            &deep,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn no_damage_makes_it_read_what_is_not_there() {
        let text = json!({"query": "who built \"Fram\"?", "n": [1, -2.5, {"deep": [null, true]}], "é": "ß"}).to_string();
        let texts = [text.clone(), text.replace("\\\"", "'")];
        for text in texts {
            for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                let (before, after) = text.split_at(at);
                let shortened = after
                    .chars()
                    .next()
                    .map_or("", |first| &after[first.len_utf8()..]);
                let mut damaged = vec![before.to_owned(), format!("{before}{shortened}")];
                damaged.extend(
                    "\"{}[],:0e-\\ \u{1}é"
                        .chars()
                        .map(|extra| format!("{before}{extra}{after}")),
                );
                for text in damaged {
                    let found = read(&text);
                    assert!(
                        found.is_none() || found == json::parse(text.as_bytes()).ok(),
                        "{text}"
                    );
                }
            }
        }
    }
}
