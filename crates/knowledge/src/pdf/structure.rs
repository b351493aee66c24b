//! Follows the tables of a PDF file that say where its objects are, before the library does. Knows what it would do with them.
//!
//! These are unpacked before anybody is asked, room is made for whatever they say, and a stream's length is looked for
//! wherever they lead, which may be the stream itself. Only what is read here as the library reads it is let through.

use super::Refusal;
use super::inflate::{check_rows, find, inflated_bytes};
use pdf_extract::content::Content;
use pdf_extract::{Dictionary, Object, Stream};
use std::collections::HashSet;

/// Bytes of one table once it is unpacked, and its entries.
const TABLE_BYTES_MAX: usize = 16 * 1024 * 1024;
const ENTRIES_MAX: i64 = 1_000_000;
/// Tables of a file, one for each time that it was added to.
const TABLES_MAX: usize = 256;
const FIELD_BYTES_MAX: i64 = 8;
const DICTIONARY_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a remark between a name and its value.
const REMARK_BYTES_MAX: usize = 1024;

/// Refuses tables that the library could not read in little memory, and lengths that are not plain numbers.
pub(super) fn check(file: &[u8]) -> Result<(), Refusal> {
    let file = &file[find(file, b"%PDF-").unwrap_or_default()..];
    let mut tables = Tables {
        file,
        lengths: named_lengths(file)?,
        bytes_left: TABLE_BYTES_MAX,
        entries_left: ENTRIES_MAX,
    };
    let mut places = vec![first_place(file).ok_or(Refusal::Damaged)?];
    let mut seen = HashSet::new();
    while let Some(place) = places.pop() {
        if !seen.insert(place) {
            continue;
        }
        if seen.len() > TABLES_MAX {
            return Err(Refusal::TooDeep);
        }
        let part = file.get(place..).ok_or(Refusal::Damaged)?;
        let dictionary = match part.strip_prefix(b"xref") {
            Some(table) => tables.plain(table)?,
            None => tables.packed(part)?,
        };
        // What is encrypted with an empty password the library would decrypt and unpack by itself, without a limit.
        if dictionary.has(b"Encrypt") {
            return Err(Refusal::Encrypted);
        }
        for key in [b"Prev".as_slice(), b"XRefStm"] {
            if let Ok(place) = dictionary.get(key).and_then(Object::as_i64) {
                places.push(usize::try_from(place).map_err(|_| Refusal::Damaged)?);
            }
        }
    }
    Ok(())
}

struct Tables<'a> {
    file: &'a [u8],
    /// Numbers of the objects that say how long a stream is.
    lengths: HashSet<u32>,
    /// What all tables together may still take: places may lead into one table over and over.
    bytes_left: usize,
    entries_left: i64,
}

impl Tables<'_> {
    fn take_bytes(&mut self, bytes: usize) -> Result<(), Refusal> {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.ok_or(Refusal::TooLarge)?;
        Ok(())
    }

    fn take_entries(&mut self, entries: i64) -> Result<(), Refusal> {
        self.entries_left = self.entries_left.saturating_sub(entries.max(0));
        match self.entries_left < 0 {
            true => Err(Refusal::TooLarge),
            false => Ok(()),
        }
    }

    /// A table that is written out, after its first word.
    fn plain(&mut self, table: &[u8]) -> Result<Dictionary, Refusal> {
        const TRAILER: &[u8] = b"trailer";
        let end = find(table, TRAILER).ok_or(Refusal::Damaged)?;
        self.take_bytes(end)?;
        let text = str::from_utf8(&table[..end]).map_err(|_| Refusal::Damaged)?;
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let number = |word: &str| word.parse::<u32>().map_err(|_| Refusal::Damaged);
        let mut rest = words.as_slice();
        let mut id = 0_u32;
        loop {
            rest = match rest {
                [] => break,
                [offset, _, "n", rest @ ..] => {
                    self.take_entries(1)?;
                    self.entry(id, Some(number(offset)?))?;
                    id = id.checked_add(1).ok_or(Refusal::Damaged)?;
                    rest
                }
                [_, _, "f", rest @ ..] => {
                    self.take_entries(1)?;
                    id = id.checked_add(1).ok_or(Refusal::Damaged)?;
                    rest
                }
                [start, count, rest @ ..] => {
                    number(count)?;
                    id = number(start)?;
                    rest
                }
                [_] => return Err(Refusal::Damaged),
            };
        }
        let after = &table[end + TRAILER.len()..];
        let (dictionary, _) = dictionary(after, "startxref").ok_or(Refusal::Damaged)?;
        Ok(dictionary)
    }

    /// A table that is a stream.
    fn packed(&mut self, part: &[u8]) -> Result<Dictionary, Refusal> {
        let after = head(part).ok_or(Refusal::Damaged)?;
        let (dictionary, data) = dictionary(after, "stream").ok_or(Refusal::Damaged)?;
        let length = dictionary.get(b"Length").and_then(Object::as_i64);
        let length = length.map_err(|_| Refusal::Damaged)?;
        let length = usize::try_from(length).map_err(|_| Refusal::Damaged)?;
        let data = line_after(data).ok_or(Refusal::Damaged)?;
        let data = data.get(..length).ok_or(Refusal::Damaged)?;
        let stream = Stream::new(dictionary.clone(), data.to_vec());
        match stream.filters().unwrap_or_default().as_slice() {
            [] => self.take_bytes(length)?,
            [b"FlateDecode"] => {
                check_rows(dictionary.get(b"DecodeParms").ok())?;
                let bytes = inflated_bytes(data, self.bytes_left).ok_or(Refusal::TooLarge)?;
                self.take_bytes(bytes)?;
            }
            // No program packs its tables so.
            _ => return Err(Refusal::Damaged),
        }
        let content = stream
            .decompressed_content()
            .map_err(|_| Refusal::Damaged)?;
        self.entries(&dictionary, &content)?;
        Ok(dictionary)
    }

    fn entries(&mut self, dictionary: &Dictionary, content: &[u8]) -> Result<(), Refusal> {
        let widths = numbers(dictionary, b"W").ok_or(Refusal::Damaged)?;
        let (kind, place, more) = match widths.as_slice() {
            [kind, place, more, ..] => (width(*kind)?, width(*place)?, width(*more)?),
            _ => return Err(Refusal::Damaged),
        };
        let size = dictionary.get(b"Size").and_then(Object::as_i64);
        let size = size.map_err(|_| Refusal::Damaged)?;
        let sections = numbers(dictionary, b"Index").unwrap_or_else(|| vec![0, size]);
        let mut rest = content;
        for section in sections.chunks_exact(2) {
            self.take_entries(section[1])?;
            for number in 0..section[1] {
                let Some((entry, others)) = rest.split_at_checked(kind + place + more) else {
                    // The library stops as well.
                    return Ok(());
                };
                rest = others;
                let (first, others) = entry.split_at(kind);
                let id = u32::try_from(section[0].saturating_add(number));
                let id = id.map_err(|_| Refusal::Damaged)?;
                match (kind, value(first)) {
                    (0, _) | (_, 1) => self.entry(id, Some(value(&others[..place])))?,
                    (_, 2) => self.entry(id, None)?,
                    // The library takes no bytes but the first for what it does not know.
                    (_, 0) => {}
                    _ => return Err(Refusal::Damaged),
                }
            }
        }
        Ok(())
    }

    /// Checks where an object is, `None` for one that lies in a stream.
    fn entry(&self, id: u32, place: Option<u32>) -> Result<(), Refusal> {
        if !self.lengths.contains(&id) {
            return Ok(());
        }
        let place = place.ok_or(Refusal::TooDeep)?;
        let part = usize::try_from(place).ok();
        let Some(part) = part.and_then(|place| self.file.get(place..)) else {
            return Ok(());
        };
        match head(part).and_then(<[u8]>::first) {
            Some(first) if first.is_ascii_digit() => Ok(()),
            _ => Err(Refusal::TooDeep),
        }
    }
}

fn width(bytes: i64) -> Result<usize, Refusal> {
    match usize::try_from(bytes) {
        Ok(width) if bytes <= FIELD_BYTES_MAX => Ok(width),
        _ => Err(Refusal::Damaged),
    }
}

/// A number as the library reads it: of a longer one its end.
fn value(bytes: &[u8]) -> u32 {
    let shifted = |value: u32, byte: &u8| (value << 8) | u32::from(*byte);
    bytes.iter().fold(0, shifted)
}

fn numbers(dictionary: &Dictionary, key: &[u8]) -> Option<Vec<i64>> {
    let numbers = dictionary.get(key).ok()?.as_array().ok()?;
    numbers.iter().map(|number| number.as_i64().ok()).collect()
}

/// The place that the end of a file names.
fn first_place(file: &[u8]) -> Option<usize> {
    const TAIL_BYTES: usize = 512;
    const WORD: &[u8] = b"startxref";
    let tail = file.len().saturating_sub(TAIL_BYTES);
    let end = tail + file[tail..].windows(5).rposition(|part| part == b"%%EOF")?;
    let before = &file[end.saturating_sub(25)..end];
    let start = before.windows(WORD.len()).rposition(|part| part == WORD)?;
    digits(before[start + WORD.len()..].trim_ascii_start()).map(|(place, _)| place)
}

/// What follows `1 0 obj`.
fn head(part: &[u8]) -> Option<&[u8]> {
    let (_, rest) = digits::<u32>(part.trim_ascii_start())?;
    let (_, rest) = digits::<u32>(rest.trim_ascii_start())?;
    let rest = rest.trim_ascii_start().strip_prefix(b"obj")?;
    Some(rest.trim_ascii_start())
}

fn digits<T: std::str::FromStr>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit());
    let (number, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    Some((str::from_utf8(number).ok()?.parse().ok()?, rest))
}

/// The dictionary that some bytes begin with, and what follows the word after it. The library reads it, as it would read the
/// operands of what is drawn.
fn dictionary<'a>(bytes: &'a [u8], word: &str) -> Option<(Dictionary, &'a [u8])> {
    const WORDS_MAX: usize = 8;
    let bytes = bytes.trim_ascii_start();
    let mut end = 0;
    for _ in 0..WORDS_MAX {
        end += find(&bytes[end..], word.as_bytes())? + word.len();
        if end > DICTIONARY_BYTES_MAX {
            return None;
        }
        let mut read = Content::decode(&bytes[..end]).ok()?.operations;
        let only = read.pop().filter(|_| read.is_empty());
        let Some(mut only) = only.filter(|only| only.operator == word) else {
            continue;
        };
        return match (only.operands.pop(), only.operands.as_slice()) {
            (Some(Object::Dictionary(dictionary)), []) => Some((dictionary, &bytes[end..])),
            _ => None,
        };
    }
    None
}

/// What follows the end of a line.
fn line_after(bytes: &[u8]) -> Option<&[u8]> {
    let start = bytes
        .iter()
        .position(|byte| !matches!(byte, b' ' | b'\t'))?;
    let bytes = &bytes[start..];
    let ends: [&[u8]; 3] = [b"\r\n", b"\n", b"\r"];
    ends.iter().find_map(|end| bytes.strip_prefix(*end))
}

/// The objects that some stream may name as its length, wherever in the file that looks so.
fn named_lengths(file: &[u8]) -> Result<HashSet<u32>, Refusal> {
    let mut named = HashSet::new();
    let mut rest = file;
    while let Some(place) = rest.iter().position(|byte| *byte == b'/') {
        rest = &rest[place + 1..];
        if let Some(after) = after_name(rest, b"Length") {
            named.extend(reference(after)?);
        }
    }
    Ok(named)
}

/// The object of `1 0 R`.
fn reference(bytes: &[u8]) -> Result<Option<u32>, Refusal> {
    let Some((id, after)) = digits(after_space(bytes)?) else {
        return Ok(None);
    };
    let Some((_, after)) = digits::<u32>(after_space(after)?) else {
        return Ok(None);
    };
    Ok(after_space(after)?.starts_with(b"R").then_some(id))
}

/// What follows a name, whose letters may be written as `#41`.
fn after_name<'a>(mut bytes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    for letter in name {
        bytes = match bytes {
            [b'#', high, low, rest @ ..]
                if digit(*high)? * 16 + digit(*low)? == u32::from(*letter) =>
            {
                rest
            }
            [first, rest @ ..] if first == letter => rest,
            _ => return None,
        };
    }
    Some(bytes)
}

/// What follows blanks and remarks.
fn after_space(mut bytes: &[u8]) -> Result<&[u8], Refusal> {
    let mut left = REMARK_BYTES_MAX;
    loop {
        let is_blank = |byte: &u8| b" \t\n\r\0\x0c".contains(byte);
        let taken = match bytes.first() {
            Some(first) if is_blank(first) => 1,
            Some(b'%') => bytes
                .iter()
                .take(left + 1)
                .take_while(|byte| !b"\r\n".contains(byte))
                .count(),
            _ => return Ok(bytes),
        };
        left = left.checked_sub(taken).ok_or(Refusal::Damaged)?;
        bytes = &bytes[taken..];
    }
}
