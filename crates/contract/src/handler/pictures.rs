//! Pictures that a handler wrote into its answer in base64: as data URIs, and as content blocks in the form of MCP. They are taken out of
//! the data, so that no model reads base64. Does not know where pictures are kept.

use super::{ContentPart, Loss, Success};
use crate::data::Data;
use memchr::memmem;
use serde_json::{Map, Value};
use std::mem;

/// The most pictures of one answer that are shown.
const SHOWN_MAX: usize = 8;
/// The mark before the base64 of a data URI, in upper or lower case.
const BASE64: &str = ";base64,";
const SCHEME: &str = "data:";
/// The most characters in the head of a data URI.
const HEAD_MAX: usize = 256;
/// The fewest characters of base64 within a longer text that count as a file.
const WITHIN_MIN: usize = 64;
/// The most characters of a type that are shown.
const TYPE_MAX: usize = 64;

/// The type of a picture that models and browsers show, by its first bytes.
pub fn picture_type(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some("image/png");
    }
    if bytes.starts_with(b"\xff\xd8\xff") {
        return Some("image/jpeg");
    }
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    is_webp.then_some("image/webp")
}

/// Whether an answer may hold base64 that must be taken out. `false` is certain.
pub fn may_hold_pictures(success: &Success) -> bool {
    let is_data = |part: &ContentPart| {
        let ContentPart::Image { url, .. } = part;
        head_of(url).is_some()
    };
    success.content.iter().any(is_data) || success.data.as_ref().is_some_and(may_hold)
}

fn may_hold(data: &Data) -> bool {
    let Some(text) = data.text() else {
        return holds(data);
    };
    let bytes = text.get().as_bytes();
    let signs = ["\"image\"", "\"audio\"", "\"base64\"", "\"blob\""];
    let has = |sign: &&str| memmem::find(bytes, sign.as_bytes()).is_some();
    mark_in(bytes).is_some() || signs.iter().any(has)
}

/// The position of the first base64 mark.
fn mark_in(bytes: &[u8]) -> Option<usize> {
    let (word, end) = BASE64.split_at(5);
    memmem::find_iter(bytes, end.as_bytes()).find_map(|at| {
        let start = at.checked_sub(word.len())?;
        let is_mark = bytes[start..at].eq_ignore_ascii_case(word.as_bytes());
        is_mark.then_some(start)
    })
}

fn holds(value: &Value) -> bool {
    match value {
        Value::String(text) => mark_in(text.as_bytes()).is_some(),
        Value::Array(values) => values.iter().any(holds),
        Value::Object(members) => block_of(members).is_some() || members.values().any(holds),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Replaces all base64 of files in an answer by words: the kind of file, and whether it is shown. `keep` gets the base64 of each picture,
/// and returns the part that shows it, if it could be kept.
pub fn take_pictures(success: &mut Success, keep: &mut dyn FnMut(&str) -> Option<ContentPart>) {
    let mut taker = Taker {
        keep,
        shown: Vec::new(),
        room: SHOWN_MAX,
    };
    let mut lost = None;
    for part in mem::take(&mut success.content) {
        let ContentPart::Image { url, .. } = &part;
        match head_of(url) {
            None => taker.shown.push(part),
            Some((mime_type, base64)) => {
                let (words, is_shown) = taker.take(mime_type, base64);
                lost = (!is_shown).then_some(words).or(lost);
            }
        }
    }
    if let Some(data) = success.data.as_mut().filter(|data| may_hold(data)) {
        let mut value = Value::clone(data);
        if taker.replace(&mut value) {
            *data = value.into();
        }
    }
    success.content = taker.shown;
    if let Some(words) = lost {
        *success = mem::take(success).with_loss(Loss::replaced(words));
    }
}

struct Taker<'k> {
    keep: &'k mut dyn FnMut(&str) -> Option<ContentPart>,
    shown: Vec<ContentPart>,
    room: usize,
}

impl Taker<'_> {
    /// The words in place of a file, and whether it is shown.
    fn take(&mut self, mime_type: &str, base64: &str) -> (String, bool) {
        let is_picture = mime_type.starts_with("image/");
        let kept = match is_picture && self.room > 0 {
            true => (self.keep)(base64),
            false => None,
        };
        let noun = if is_picture { "picture" } else { "file" };
        let name: String = mime_type
            .chars()
            .filter(|letter| letter.is_ascii_alphanumeric() || "/.+-".contains(*letter))
            .take(TYPE_MAX)
            .collect();
        let kilobytes = (base64.len() / 4 * 3).div_ceil(1_000);
        let fate = match kept.is_some() {
            true => "shown to the user",
            false => "not shown",
        };
        let is_shown = kept.is_some();
        if let Some(part) = kept.filter(|part| !self.shown.contains(part)) {
            self.room -= 1;
            self.shown.push(part);
        }
        (format!("[{noun} {name}, {kilobytes} kB, {fate}]"), is_shown)
    }

    /// Whether any file was replaced.
    fn replace(&mut self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.replaced(text) {
                Some(shown) => {
                    *text = shown;
                    true
                }
                None => false,
            },
            Value::Array(values) => {
                let mut is_changed = false;
                for value in values {
                    is_changed |= self.replace(value);
                }
                is_changed
            }
            Value::Object(members) => {
                let block = block_of(members);
                let block = block.map(|(member, mime_type, base64)| {
                    let (words, _) = self.take(mime_type, base64);
                    (member, words)
                });
                let mut is_changed = block.is_some();
                if let Some((member, words)) = block {
                    members.insert(member.to_owned(), words.into());
                }
                for value in members.values_mut() {
                    is_changed |= self.replace(value);
                }
                is_changed
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// The text with each of its data URIs replaced by words; `None` where it holds none.
    fn replaced(&mut self, text: &str) -> Option<String> {
        if let Some((mime_type, base64)) = head_of(text) {
            return Some(self.take(mime_type, base64).0);
        }
        let (mut shown, mut rest) = (String::new(), text);
        let mut is_changed = false;
        while let Some(at) = mark_in(rest.as_bytes()) {
            let (head, behind) = rest.split_at(at);
            let body = &behind[BASE64.len()..];
            let length = base64_length(body);
            let begin = scheme_in(head).filter(|begin| is_head(&head[*begin..]));
            match begin.filter(|_| length >= WITHIN_MIN) {
                Some(begin) => {
                    let mime_type = type_in(&head[begin + SCHEME.len()..]);
                    shown.push_str(&head[..begin]);
                    shown.push_str(&self.take(mime_type, &body[..length]).0);
                    is_changed = true;
                }
                None => shown.push_str(&rest[..at + BASE64.len() + length]),
            }
            rest = &body[length..];
        }
        shown.push_str(rest);
        is_changed.then_some(shown)
    }
}

/// The type and base64 of a text that is one data URI, valid or not.
fn head_of(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let begins = text.get(..SCHEME.len());
    let begins = begins.is_some_and(|begins| begins.eq_ignore_ascii_case(SCHEME));
    let end = text.bytes().take(HEAD_MAX).position(|byte| byte == b',')?;
    let head = &text[..end];
    let marked = head.len().checked_sub(BASE64.len() - 1)?;
    let is_marked = head
        .get(marked..)
        .is_some_and(|mark| mark.eq_ignore_ascii_case(&BASE64[..BASE64.len() - 1]));
    let base64 = &text[end + 1..];
    if !begins || !is_marked || base64.contains(' ') {
        return None;
    }
    Some((type_in(&head[SCHEME.len()..]), base64))
}

/// The position where the last data URI may begin.
fn scheme_in(head: &str) -> Option<usize> {
    let colons = head.rmatch_indices(':').map(|(at, colon)| at + colon.len());
    let mut begins = colons.filter_map(|end| end.checked_sub(SCHEME.len()).map(|at| (at, end)));
    let is_scheme = |&(at, end): &(usize, usize)| {
        let name = head.get(at..end);
        name.is_some_and(|name| name.eq_ignore_ascii_case(SCHEME))
    };
    begins.find(is_scheme).map(|(at, _)| at)
}

/// Whether a text can be the head of a data URI inside a longer text.
fn is_head(head: &str) -> bool {
    head.len() <= HEAD_MAX && head.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The type in the head of a data URI.
fn type_in(head: &str) -> &str {
    let (mime_type, _) = head.split_once(';').unwrap_or((head, ""));
    match mime_type {
        "" => "text/plain",
        mime_type => mime_type,
    }
}

/// The length in bytes of the base64 at the beginning of a text, across line breaks.
fn base64_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut length = 0;
    loop {
        length += bytes[length..]
            .iter()
            .take_while(|byte| is_base64(**byte))
            .count();
        // Padding ends the base64.
        if bytes[..length].ends_with(b"=") {
            return length;
        }
        let line_end = bytes[length..]
            .iter()
            .take_while(|byte| b"\r\n".contains(byte))
            .count();
        let line = &bytes[length + line_end..];
        let is_wrapped = line.iter().take_while(|byte| is_base64(**byte)).count() >= WITHIN_MIN;
        if line_end == 0 || line_end > 2 || length == 0 || !is_wrapped {
            return length;
        }
        length += line_end;
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte)
}

/// The member of a content block that holds a file in base64, with the file's type and the base64: `image`, `audio` and embedded
/// resources of MCP, and picture sources of other services.
fn block_of(members: &Map<String, Value>) -> Option<(&'static str, &str, &str)> {
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let mime_type = ["mimeType", "mime_type", "media_type", "mediaType"]
        .iter()
        .find_map(|name| text(name));
    let is_whole = |base64: &str| base64.len() >= WITHIN_MIN && base64.bytes().all(is_base64);
    if let (Some(mime_type), Some(blob)) = (mime_type, text("blob").filter(|blob| is_whole(blob))) {
        return Some(("blob", mime_type, blob));
    }
    let data = text("data").filter(|data| head_of(data).is_none())?;
    match (text("type")?, mime_type) {
        // An address or words are no base64; neither is a broken picture.
        ("image", Some(mime_type)) if !data.contains([' ', ':']) => Some(("data", mime_type, data)),
        ("image", None) if is_whole(data) => Some(("data", "image/*", data)),
        ("audio" | "base64", Some(mime_type)) if is_whole(data) => Some(("data", mime_type, data)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Takes out all pictures, and keeps the base64 that begins like a PNG.
    fn taken(data: &Value, content: Vec<ContentPart>) -> (Value, usize, Option<String>) {
        let mut results = [Data::from(data.clone()), Data::of(data).unwrap()].map(|data| {
            let mut success = Success {
                content: content.clone(),
                ..Success::new(data)
            };
            let mut number = 0;
            take_pictures(&mut success, &mut |base64| {
                number += 1;
                base64.starts_with("iVBOR").then(|| ContentPart::Image {
                    mime_type: "image/png".to_owned(),
                    url: format!("/pictures/{number}"),
                })
            });
            let data = success.data.map(|data| Value::clone(&data));
            let words = success.loss.map(|loss| loss.words);
            (data.unwrap(), success.content.len(), words)
        });
        assert_eq!(results[0], results[1], "as a tree and as text");
        mem::take(&mut results[0])
    }

    const PNG: &str = "iVBORw0KGgoQUVSTUVWXWFlaiVBORw0KGgoQUVSTUVWXWFlaiVBORw0KGgoQUVSTUVWXWFla";

    #[test]
    fn base64_of_files_becomes_words_wherever_it_stands_and_other_texts_stay() {
        let uri = |mime_type: &str| format!("data:{mime_type};base64,{PNG}");
        let png = "[picture image/png, 1 kB, shown to the user]";
        let lost = "[picture image/png, 1 kB, not shown]";
        let broken = format!("data:image/png;base64,@@@{PNG}");
        for (given, expected, shown) in [
            (json!(uri("image/png")), json!(png), 1),
            (json!(format!("\n{}\n", uri("image/png"))), json!(png), 1),
            (json!(uri("image/png;name=a.png")), json!(png), 1),
            (json!(format!("DATA:image/png;BASE64,{PNG}")), json!(png), 1),
            (
                json!(format!("See Data:image/png;Base64,{PNG} 64,")),
                json!(format!("See {png} 64,")),
                1,
            ),
            (
                json!({"charts": [{"name": "a", "src": uri("image/png")}, 7]}),
                json!({"charts": [{"name": "a", "src": png}, 7]}),
                1,
            ),
            (json!(broken), json!(lost), 0),
            (
                json!(format!(
                    "See ![a]({}) and {}.",
                    uri("image/png"),
                    uri("image/png")
                )),
                json!(format!("See ![a]({png}) and {png}.")),
                2,
            ),
            (
                json!(uri("application/pdf")),
                json!("[file application/pdf, 1 kB, not shown]"),
                0,
            ),
            (
                json!(format!("data:;base64,{PNG}")),
                json!("[file text/plain, 1 kB, not shown]"),
                0,
            ),
            (
                json!({"content": [{"type": "text", "text": "Here."}, {"type": "image", "data": PNG, "mimeType": "image/png"}]}),
                json!({"content": [{"type": "text", "text": "Here."}, {"type": "image", "data": png, "mimeType": "image/png"}]}),
                1,
            ),
            (
                json!({"type": "image", "data": "@@broken@@", "mimeType": "image/png"}),
                json!({"type": "image", "data": lost, "mimeType": "image/png"}),
                0,
            ),
            (
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}),
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}}),
                1,
            ),
            (
                json!({"type": "audio", "data": PNG, "mimeType": "audio/wav"}),
                json!({"type": "audio", "data": "[file audio/wav, 1 kB, not shown]", "mimeType": "audio/wav"}),
                0,
            ),
            (
                json!({"type": "resource", "resource": {"uri": "file:///a", "mimeType": "image/png", "blob": PNG}}),
                json!({"type": "resource", "resource": {"uri": "file:///a", "mimeType": "image/png", "blob": png}}),
                1,
            ),
            (
                json!({"image_url": {"url": uri("image/png")}}),
                json!({"image_url": {"url": png}}),
                1,
            ),
        ] {
            assert_eq!(
                taken(&given, Vec::new()),
                (expected, shown, None),
                "{given}"
            );
        }
        for stays in [
            json!("data:image/png;base64, is how a picture begins"),
            json!("data:image/svg+xml;utf8,<svg/>"),
            json!("a text about data: and ;base64,AAAA"),
            json!({"type": "image", "data": "https://shop.example/a.png", "mimeType": "image/png"}),
            json!({"type": "image", "data": "two words", "mimeType": "image/png"}),
            json!({"type": "audio", "data": "short", "mimeType": "audio/wav"}),
            json!({"data": PNG, "blob": 7}),
            json!(["image", "base64", null, 1.50]),
        ] {
            assert_eq!(taken(&stays, Vec::new()), (stays.clone(), 0, None));
        }
    }

    #[test]
    fn what_is_shown_is_bounded_in_number_and_words_in_length() {
        let uri = format!("data:image/png;base64,{PNG}");
        let (data, shown, _) = taken(&json!(vec![uri; 10]), Vec::new());
        assert_eq!(shown, SHOWN_MAX);
        assert!(data[9].as_str().unwrap().contains("not shown"));
        let large = format!(
            "data:image/x-{};base64,{}",
            "y".repeat(200),
            "A".repeat(50 << 20)
        );
        let (data, shown, _) = taken(&json!(large), Vec::new());
        let words = data.as_str().unwrap();
        assert!(
            words.ends_with(", 39322 kB, not shown]") && words.len() < 110,
            "{words}"
        );
        assert_eq!(shown, 0);
    }

    #[test]
    fn a_content_part_may_hold_its_picture_and_says_so_where_it_is_lost() {
        let part = |text: &str| serde_json::from_str::<ContentPart>(text);
        let block = format!(r#"{{"type":"image","data":"{PNG}","mimeType":"image/png"}}"#);
        let broken = r#"{"type":"image","data":"@@","mimeType":"image/png"}"#;
        let elsewhere =
            r#"{"type":"image","url":"https://shop.example/a.png","mimeType":"image/png"}"#;
        for (text, shown, words) in [
            (block.as_str(), 1, None),
            (broken, 0, Some("[picture image/png, 0 kB, not shown]")),
            (elsewhere, 1, None),
        ] {
            let (data, parts, lost) = taken(&json!(1), vec![part(text).unwrap()]);
            assert_eq!(
                (data, parts, lost.as_deref()),
                (json!(1), shown, words),
                "{text}"
            );
        }
        assert!(part(r#"{"type":"image","mimeType":"image/png"}"#).is_err());
    }

    #[test]
    fn a_picture_is_known_by_its_first_bytes() {
        for (bytes, expected) in [
            (b"\x89PNG\r\n\x1a\nrest".as_slice(), Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"RIFF....WEBPVP8 ", Some("image/webp")),
            (b"RIFF....WAVE", None),
            (b"<svg>", None),
            (b"", None),
        ] {
            assert_eq!(picture_type(bytes), expected, "{bytes:?}");
        }
    }
}
