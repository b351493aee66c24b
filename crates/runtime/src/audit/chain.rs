//! The chain that ties the audit's records together: each carries a SHA-256 over the one before it and itself. Knows
//! lines of text; no file and no event.

use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use windlass_contract::json::{self, canonical, hex};

/// A record's place in the chain: 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link(String);

/// Bytes of every record's end: `"hash":"`, the link, `"}` and a line feed.
pub(super) const TAIL_LENGTH: usize = 75;

impl Link {
    /// The link before the first record of all.
    pub fn genesis() -> Self {
        Self("0".repeat(64))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_link = text.len() == 64
            && text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        is_link.then(|| Self(text.to_owned()))
    }

    /// The link of the record whose last bytes these are.
    pub(super) fn of_tail(tail: &[u8]) -> Option<Self> {
        let tail = std::str::from_utf8(tail).ok()?;
        let link = tail.strip_prefix("\"hash\":\"")?.strip_suffix("\"}\n")?;
        Self::parse(link)
    }

    /// SHA-256 over the digits of the link before and the canonical JSON of the record without its own two fields.
    fn after(previous: &Self, body: &[u8]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(previous.0.as_bytes());
        hasher.update(body);
        Self(hex(&<[u8; 32]>::from(hasher.finalize())))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Appends a record to a text, as one line: its canonical JSON followed by its two links. Returns the record's link.
pub(super) fn append(text: &mut Vec<u8>, body: &Value, previous: &Link) -> Link {
    let body = canonical(body);
    let link = Link::after(previous, &body);
    write(text, &body, previous, &link);
    link
}

fn write(text: &mut Vec<u8>, body: &[u8], previous: &Link, link: &Link) {
    // The body is an object with fields of ours: it ends in a brace and is not empty.
    text.extend_from_slice(&body[..body.len() - 1]);
    for (name, link) in [("previousHash", previous), ("hash", link)] {
        text.extend_from_slice(format!(",\"{name}\":\"{}\"", link.0).as_bytes());
    }
    text.extend_from_slice(b"}\n");
}

/// A line that was read back.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) fields: Map<String, Value>,
    pub(super) previous: Link,
    pub(super) link: Link,
    /// Whether the line is byte for byte the one that was written under its link.
    pub(super) is_intact: bool,
}

/// Whether a file's first line is that of an audit: a record, or the beginning of an unfinished one.
pub(super) fn begins(line: &[u8]) -> bool {
    let is_torn = line.starts_with(b"{")
        && line.last() != Some(&b'\n')
        && serde_json::from_slice::<IgnoredAny>(line).is_err_and(|error| error.is_eof());
    is_torn || read(line).is_some()
}

/// Reads a line, with its line feed. `None` if it is no record at all.
pub(super) fn read(line: &[u8]) -> Option<Record> {
    let Ok(Value::Object(mut fields)) = json::parse(line) else {
        return None;
    };
    let mut take = |name: &str| match fields.remove(name) {
        Some(Value::String(text)) => Link::parse(&text),
        _ => None,
    };
    let (previous, link) = (take("previousHash")?, take("hash")?);
    if fields.is_empty() {
        return None;
    }
    let body = canonical(&Value::Object(fields.clone()));
    let mut written = Vec::with_capacity(line.len());
    write(&mut written, &body, &previous, &link);
    let is_intact = written == line && Link::after(&previous, &body) == link;
    Some(Record {
        fields,
        previous,
        link,
        is_intact,
    })
}
