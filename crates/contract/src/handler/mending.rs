//! Reads answers that are no sound JSON: replaces the parts that JSON cannot hold, and reads the facts at the beginning of a text whose
//! rest cannot be read. Knows no handler.

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// Words that other languages write where JSON has no number.
const NO_NUMBERS: [&[u8]; 9] = [
    b"NaN",
    b"nan",
    b"-nan",
    b"Infinity",
    b"+Infinity",
    b"-Infinity",
    b"inf",
    b"-inf",
    b"undefined",
];

/// A text in which every part that JSON cannot hold was replaced.
#[derive(Debug, PartialEq)]
pub struct Mended {
    pub text: String,
    /// The number of replaced characters and numbers.
    pub replaced: usize,
}

impl Mended {
    /// Words for the model about the replacements.
    pub fn words(&self) -> Option<String> {
        (self.replaced > 0).then(|| {
            format!(
                "{} characters or numbers that JSON cannot hold were replaced",
                self.replaced
            )
        })
    }
}

/// Replaces half characters and bytes that are no UTF-8 by U+FFFD, and invalid numbers by null, and escapes control characters. Other
/// errors stay.
pub fn mend(text: &[u8]) -> Mended {
    let mut replaced = 0;
    let mut sound = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        sound.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            sound.push(char::REPLACEMENT_CHARACTER);
            replaced += 1;
        }
    }
    let mut mended = Mended {
        text: String::with_capacity(sound.len()),
        replaced,
    };
    let mut rest = sound.as_str();
    while let Some(quote) = rest.find('"') {
        mended.add_between(&rest[..quote]);
        mended.text.push('"');
        rest = mended.add_string(&rest[quote + 1..]);
    }
    mended.add_between(rest);
    mended
}

impl Mended {
    /// Adds text between strings.
    fn add_between(&mut self, text: &str) {
        let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || "+-._".contains(letter);
        let mut rest = text;
        while let Some(start) = rest.find(is_of_word) {
            self.text.push_str(&rest[..start]);
            let word = &rest[start..];
            let end = word.find(|letter| !is_of_word(letter));
            let (word, behind) = word.split_at(end.unwrap_or(word.len()));
            match NO_NUMBERS.contains(&word.as_bytes()) {
                true => {
                    self.text.push_str("null");
                    self.replaced += 1;
                }
                false => self.text.push_str(word),
            }
            rest = behind;
        }
        self.text.push_str(rest);
    }

    /// Adds the rest of a string with its end, and returns the text behind it.
    fn add_string<'a>(&mut self, text: &'a str) -> &'a str {
        let mut letters = text.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.text.push('"');
                    return &text[at + 1..];
                }
                '\\' => match unit(&text[at..]) {
                    Some(0xd800..0xdc00)
                        if matches!(text.get(at + 6..).and_then(unit), Some(0xdc00..0xe000)) =>
                    {
                        self.text.push_str(&text[at..at + 12]);
                        letters.nth(10);
                    }
                    Some(0xd800..0xe000) => {
                        self.text.push(char::REPLACEMENT_CHARACTER);
                        self.replaced += 1;
                        letters.nth(4);
                    }
                    Some(_) | None => {
                        self.text.push('\\');
                        self.text.extend(letters.next().map(|(_, escaped)| escaped));
                    }
                },
                '\0'..' ' => {
                    let escaped = format!("\\u{:04x}", u32::from(letter));
                    self.text.push_str(&escaped);
                }
                letter => self.text.push(letter),
            }
        }
        ""
    }
}

/// The number of an escape `\uXXXX` at the beginning of a text.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

/// The facts at the beginning of an answer, or of a message of JSON-RPC, whose rest cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// Whether it is a message of JSON-RPC.
    pub is_message: bool,
    /// The number of the call that a message belongs to: its `id`, or for a request `call` of its parameters.
    pub call: Option<u64>,
    /// `ok` of the outermost object, or of its `result`.
    pub ok: Option<bool>,
}

/// Reads as far as possible.
pub fn glance(text: &[u8]) -> Glance {
    let mut seen = Seen::default();
    // An error says that the rest cannot be read.
    drop(
        Members(&mut seen, Place::Outermost)
            .deserialize(&mut serde_json::Deserializer::from_slice(text)),
    );
    Glance {
        is_message: seen.names_version || (seen.has_id && (seen.answers || seen.is_request)),
        call: if seen.is_request { seen.call } else { seen.id },
        ok: seen.ok,
    }
}

#[derive(Default)]
struct Seen {
    names_version: bool,
    is_request: bool,
    answers: bool,
    has_id: bool,
    id: Option<u64>,
    call: Option<u64>,
    ok: Option<bool>,
}

/// Reads the members of an object, and of its `result` and `params`.
struct Members<'a>(&'a mut Seen, Place);

#[derive(Clone, Copy)]
enum Place {
    Outermost,
    Result,
    Params,
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            let seen = &mut *self.0;
            match (self.1, name.as_str()) {
                (Place::Outermost, "id") => {
                    seen.has_id = true;
                    seen.id = members.next_value::<Value>()?.as_u64();
                }
                (Place::Params, "call") => seen.call = members.next_value::<Value>()?.as_u64(),
                (Place::Outermost | Place::Result, "ok") => {
                    seen.ok = members.next_value::<Value>()?.as_bool();
                }
                (Place::Outermost, "result") => {
                    seen.answers = true;
                    members.next_value_seed(Members(seen, Place::Result))?;
                }
                (Place::Outermost, "params") => {
                    members.next_value_seed(Members(seen, Place::Params))?;
                }
                (place, other) => {
                    if let Place::Outermost = place {
                        seen.names_version |= other == "jsonrpc";
                        seen.is_request |= other == "method";
                        seen.answers |= other == "error";
                    }
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expected: &str, replaced: usize) {
        let mended = mend(text);
        let expected = Mended {
            text: expected.to_owned(),
            replaced,
        };
        assert_eq!(mended, expected, "{}", String::from_utf8_lossy(text));
    }

    #[test]
    fn what_json_cannot_hold_is_replaced_and_all_else_stays() {
        for sound in [
            r#"{"a": [1.5e-3, true, null, "NaN", "\ud83d\ude00 \\ud83d \" \n"], "b\\": {}}"#,
            "",
            "{\"a\": ",
            "\"\\",
        ] {
            check(sound.as_bytes(), sound, 0);
        }
        check(
            br#"[NaN, -Infinity,"NaN",Infinity]"#,
            r#"[null, null,"NaN",null]"#,
            3,
        );
        check(
            br#"["\ud83d", "\ude00x"]"#,
            "[\"\u{fffd}\", \"\u{fffd}x\"]",
            2,
        );
        check(
            br#"["\ud83d\ud83d\ude00"]"#,
            "[\"\u{fffd}\\ud83d\\ude00\"]",
            1,
        );
        check(
            br#"["\ud83d\u0041\u0000"]"#,
            "[\"\u{fffd}\\u0041\\u0000\"]",
            1,
        );
        check(
            b"[\"\xff\xfe\", \"a\tb\"]",
            "[\"\u{fffd}\u{fffd}\", \"a\\u0009b\"]",
            2,
        );
    }

    #[test]
    fn the_beginning_of_a_message_says_what_it_says() {
        for (text, is_message, call, ok) in [
            (
                r#"{"id":7,"result":{"ok":true,"data":"#,
                true,
                Some(7),
                Some(true),
            ),
            (
                r#"{"result":{"data":[{"id":1,"ok":false}],"ok":true},"id":7}"#,
                true,
                Some(7),
                Some(true),
            ),
            (
                r#"{"id":9,"method":"kb.get","params":{"call":7,"id":"a","#,
                true,
                Some(7),
                None,
            ),
            (r#"{"jsonrpc":"2.0","id":"x","result":"#, true, None, None),
            (
                r#"{"id":"x","method":"m","params":{"call":3,"#,
                true,
                Some(3),
                None,
            ),
            (r#"{"level":30,"id":7,"msg":"#, false, Some(7), None),
            (r#"{"ok":false,"error":"#, false, None, Some(false)),
            (r#"{"data":{"ok":true}"#, false, None, None),
            ("[1]", false, None, None),
            ("", false, None, None),
        ] {
            let expected = Glance {
                is_message,
                call,
                ok,
            };
            assert_eq!(glance(text.as_bytes()), expected, "{text}");
        }
    }
}
