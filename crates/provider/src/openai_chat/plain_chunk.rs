//! The two shapes of nearly all chunks of a stream: one choice that adds words, or one that adds a piece of a call's arguments.
//! Knows these shapes exactly and leaves every other to the general decoder; knows nothing of the whole answer.

use std::borrow::Cow;

/// The content that a plain chunk adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plain<'a> {
    /// Words, possibly empty.
    Words(Cow<'a, str>),
    /// A piece of arguments for the call that the index stands for.
    Arguments { index: u64, piece: Cow<'a, str> },
}

/// Reads the plain chunks of one stream. Most servers write the same text around each piece, so everything but the piece is
/// compared with the chunk before and not parsed again.
#[derive(Debug, Default)]
pub(super) struct PlainChunks(Option<Around>);

/// The text before and after the piece of the latest chunk. The quotes of the piece belong to it.
#[derive(Debug)]
struct Around {
    before: String,
    after: String,
    /// The index of the call that the piece was added to; `None` for words.
    index: Option<u64>,
}

impl PlainChunks {
    /// Reads a chunk that adds one piece and holds nothing else that matters. `None` says only that the general decoder has to
    /// read it, for whatever reason: nothing is an error here.
    pub(super) fn read<'a>(&mut self, text: &'a str) -> Option<Plain<'a>> {
        if let Some(plain) = self.0.as_ref().and_then(|around| around.read(text)) {
            return Some(plain);
        }
        let plain = plain(text)?;
        if let Some(around) = Around::of(text, &plain) {
            self.0 = Some(around);
        }
        Some(plain)
    }
}

impl Around {
    /// `None` if the piece is not a literal part of the text.
    fn of(text: &str, plain: &Plain<'_>) -> Option<Self> {
        let (piece, index) = match plain {
            Plain::Words(words) => (words, None),
            Plain::Arguments { index, piece } => (piece, Some(*index)),
        };
        let Cow::Borrowed(piece) = piece else {
            return None;
        };
        let from = piece.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
        Some(Self {
            before: text.get(..from)?.to_owned(),
            after: text.get(from + piece.len()..)?.to_owned(),
            index,
        })
    }

    fn read<'a>(&self, text: &'a str) -> Option<Plain<'a>> {
        let piece = text.strip_prefix(&*self.before)?;
        let piece = piece.strip_suffix(&*self.after)?;
        let has_end = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
        let piece = match piece.as_bytes().iter().any(has_end) {
            false => Cow::Borrowed(piece),
            // The piece has the same place in the same chunk only if it is one string up to the last quote.
            true => {
                let from = self.before.len() - 1;
                let quoted = text.get(from..from + piece.len() + 2)?;
                Cow::Owned(serde_json::from_str(quoted).ok()?)
            }
        };
        Some(match self.index {
            None => Plain::Words(piece),
            Some(index) => Plain::Arguments { index, piece },
        })
    }
}

fn plain(text: &str) -> Option<Plain<'_>> {
    let mut reader = ChunkReader { text, at: 0 };
    let (mut adds, mut has_choices) = (None, false);
    reader.object(&mut |reader, key| match key {
        "choices" => {
            if std::mem::replace(&mut has_choices, true) {
                return None;
            }
            reader.expect(b'[')?;
            adds = Some(choice(reader)?);
            reader.expect(b']')
        }
        "usage" | "error" | "detail" => reader.null(),
        _ => reader.skip(),
    })?;
    reader.blank();
    if reader.at < text.len() {
        return None;
    }
    adds
}

fn choice<'a>(reader: &mut ChunkReader<'a>) -> Option<Plain<'a>> {
    let (mut adds, mut has_index, mut has_reason) = (None, false, false);
    reader.object(&mut |reader, key| match key {
        "index" if !std::mem::replace(&mut has_index, true) => {
            (reader.number()? == 0).then_some(())
        }
        "delta" if adds.is_none() => {
            adds = Some(delta(reader)?);
            Some(())
        }
        "finish_reason" if !std::mem::replace(&mut has_reason, true) => reader.null(),
        "index" | "delta" | "finish_reason" | "message" => None,
        _ => reader.skip(),
    })?;
    adds
}

fn delta<'a>(reader: &mut ChunkReader<'a>) -> Option<Plain<'a>> {
    let mut adds = None;
    let mut seen = 0_u8;
    // The general decoder judges a repeated key.
    let mut is_first = |bit: u8| {
        let is_first = seen & bit == 0;
        seen |= bit;
        is_first.then_some(())
    };
    reader.object(&mut |reader, key| match key {
        "content" => {
            is_first(1)?;
            if reader.null().is_some() {
                return Some(());
            }
            let words = Plain::Words(reader.words()?);
            adds.replace(words).is_none().then_some(())
        }
        "tool_calls" => {
            is_first(2)?;
            if reader.null().is_some() {
                return Some(());
            }
            reader.expect(b'[')?;
            let piece = call_piece(reader)?;
            reader.expect(b']')?;
            adds.replace(piece).is_none().then_some(())
        }
        "refusal" => {
            is_first(4)?;
            reader.null()
        }
        "reasoning_content" => {
            is_first(8)?;
            reader.null()
        }
        "function_call" => {
            is_first(16)?;
            reader.null()
        }
        "extra_content" | "reasoning_details" => {
            is_first(if key == "extra_content" { 32 } else { 64 })?;
            reader.null()
        }
        _ => reader.skip(),
    })?;
    adds
}

fn call_piece<'a>(reader: &mut ChunkReader<'a>) -> Option<Plain<'a>> {
    let (mut index, mut piece) = (None, None);
    reader.object(&mut |reader, key| match key {
        "index" => index.replace(reader.number()?).is_none().then_some(()),
        "function" if piece.is_none() => reader.object(&mut |reader, key| match key {
            "arguments" => piece.replace(reader.words()?).is_none().then_some(()),
            _ => None,
        }),
        _ => None,
    })?;
    Some(Plain::Arguments {
        index: index?,
        piece: piece?,
    })
}

/// Reads JSON of the plainest kind, and gives up at anything else.
struct ChunkReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> ChunkReader<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn blank(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.rest().first() {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.blank();
        let is_next = self.rest().first() == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }

    fn literal(&mut self, literal: &str) -> Option<()> {
        self.blank();
        let is_next = self.rest().starts_with(literal.as_bytes());
        self.at += if is_next { literal.len() } else { 0 };
        is_next.then_some(())
    }

    fn null(&mut self) -> Option<()> {
        self.literal("null")
    }

    /// A whole number without a sign.
    fn number(&mut self) -> Option<u64> {
        self.blank();
        let rest = self.rest();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let begins_with_zero = digits > 1 && rest[0] == b'0';
        if digits == 0 || digits > 18 || begins_with_zero {
            return None;
        }
        let value = rest[..digits]
            .iter()
            .fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
        self.at += digits;
        Some(value)
    }

    /// A string without escapes, with its quotes.
    fn string(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let length = self
            .rest()
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))?;
        if self.rest()[length] != b'"' {
            return None;
        }
        let string = &self.text[self.at..self.at + length];
        self.at += length + 1;
        Some(string)
    }

    /// A string, escaped or not.
    fn words(&mut self) -> Option<Cow<'a, str>> {
        self.blank();
        let from = self.at;
        if let Some(string) = self.string() {
            return Some(Cow::Borrowed(string));
        }
        self.at = from;
        self.expect(b'"')?;
        loop {
            let at = memchr::memchr2(b'"', b'\\', self.rest())?;
            let is_end = self.rest()[at] == b'"';
            // The sign after a backslash never ends the string.
            self.at += at + if is_end { 1 } else { 2 };
            if self.at > self.text.len() {
                return None;
            }
            if is_end {
                let escaped = self.text.get(from..self.at)?;
                return serde_json::from_str(escaped).ok().map(Cow::Owned);
            }
        }
    }

    /// Skips a value that holds no other.
    fn skip(&mut self) -> Option<()> {
        self.blank();
        match self.rest().first()? {
            b'"' => self.string().map(|_| ()),
            b'n' => self.null(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'0'..=b'9' => self.number().map(|_| ()),
            _ => None,
        }
    }

    fn object(&mut self, field: &mut dyn FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.expect(b'{')?;
        if self.take(b'}') {
            return Some(());
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            field(self, key)?;
            if !self.take(b',') {
                return self.expect(b'}');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Option<Plain<'_>> {
        Some(Plain::Words(text.into()))
    }

    fn piece(index: u64, piece: &str) -> Option<Plain<'_>> {
        let piece = piece.into();
        Some(Plain::Arguments { index, piece })
    }

    #[test]
    fn what_adds_one_thing_takes_the_short_way() {
        for (chunk, expected) in [
            (
                r#"{"id":"c","object":"chat.completion.chunk","created":1780000000,"model":"m","service_tier":"default","choices":[{"index":0,"delta":{"content":"Hé "},"logprobs":null,"finish_reason":null}],"usage":null}"#,
                words("Hé "),
            ),
            (
                " { \"choices\" : [ { \"delta\" : { \"role\" : \"assistant\" , \"content\" : \"\" , \"refusal\" : null } } ] } ",
                words(""),
            ),
            (
                r#"{"choices":[{"delta":{"content":"a \"b\"\n\u00e9\\"}}]}"#,
                words("a \"b\"\né\\"),
            ),
            (
                r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"q"}}]}}]}"#,
                piece(1, "{\"q"),
            ),
            (
                r#"{"choices":[{"delta":{"content":null,"tool_calls":[{"function":{"arguments":""},"index":0}]}}],"x":true}"#,
                piece(0, ""),
            ),
        ] {
            assert_eq!(plain(chunk), expected, "{chunk}");
        }
    }

    #[test]
    fn what_stood_around_the_piece_before_changes_nothing() {
        let words = |words: &str, after: &str| {
            format!(
                r#"{{"id":"c","choices":[{{"index":0,"delta":{{"content":"{words}"}}{after}}}]}}"#
            )
        };
        let call = |index: u64, piece: &str| {
            format!(
                r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{index},"function":{{"arguments":"{piece}"}}}}]}}}}]}}"#
            )
        };
        let pieces = [
            "",
            "Hé ",
            r#"a \"b\"\n\u00e9\\"#,
            r#"a","content":"b"#,
            r#"a"},"finish_reason":"stop","x":{"y":""#,
            r"a\",
            r"\q",
            "a\u{1}b",
            r#"""#,
        ];
        let mut chunks: Vec<String> = Vec::new();
        for piece in pieces {
            chunks.push(words(piece, ""));
            chunks.push(words(piece, r#","finish_reason":null"#));
            chunks.push(words(piece, r#","finish_reason":"stop""#));
            chunks.push(call(0, piece));
            chunks.push(call(1, piece));
        }
        let mut taken = 0;
        for before in &chunks {
            for chunk in &chunks {
                let mut reader = PlainChunks::default();
                assert_eq!(reader.read(before), plain(before), "{before}");
                let around = reader.0.as_ref();
                taken += usize::from(around.is_some_and(|around| around.read(chunk).is_some()));
                assert_eq!(reader.read(chunk), plain(chunk), "{before} {chunk}");
            }
        }
        assert!(taken > 20, "{taken}");
    }

    #[test]
    fn everything_else_is_for_the_general_decoder() {
        for chunk in [
            "",
            "{",
            "[]",
            "null",
            "{}",
            r#"{"choices":[]}"#,
            r#"{"choices":[{"index":0,"delta":{}}]}"#,
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
            // Other fields that matter beside the words.
            r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"total_tokens":1}}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],"error":{"message":"no"}}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],"detail":"no"}"#,
            r#"{"choices":[{"delta":{"content":"a","refusal":"b"}}]}"#,
            r#"{"choices":[{"delta":{"content":"a","reasoning_content":"b"}}]}"#,
            r#"{"choices":[{"delta":{"content":"a","extra_content":{"google":{}}}}]}"#,
            r#"{"choices":[{"delta":{"content":"a","tool_calls":[{"index":0,"function":{"arguments":"b"}}]}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}"#,
            r#"{"choices":[{"message":{"content":"a"}}]}"#,
            // A call that begins, or that differs from OpenAI's form.
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"b","arguments":""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"b"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":{}}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"a"}},{"index":1,"function":{"arguments":"b"}}]}}]}"#,
            // The same key twice.
            r#"{"choices":[{"delta":{"content":"a","content":"b"}}]}"#,
            r#"{"choices":[{"delta":{"content":"a"},"delta":{"content":"b"}}]}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],"choices":[{"delta":{"content":"b"}}]}"#,
            r#"{"choices":[{"index":0,"index":0,"delta":{"content":"a"}}]}"#,
            // Invalid JSON.
            r#"{"choices":[{"delta":{"content":"a"}}]}}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],}"#,
            r#"{"choices":[{"delta":{"content":"a"}}] "x":1}"#,
            r#"{"choices":[{"delta":{"content":"\q"}}]}"#,
            r#"{"choices":[{"delta":{"content":"\ud800"}}]}"#,
            "{\"choices\":[{\"delta\":{\"content\":\"a\nb\"}}]}",
            "{\"choices\":[{\"delta\":{\"content\":\"a\\",
            r#"{"choices":[{"delta":{"content":"a"}}],"created":01}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],"created":1.5}"#,
        ] {
            assert_eq!(plain(chunk), None, "{chunk}");
        }
    }
}
