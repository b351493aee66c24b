//! Texts in the form in which they are compared. Knows no schema.

use super::{Format, instant};
use crate::characters::is_ignorable;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The text in canonical composition, without invisible characters, trimmed, and with single blanks.
pub(super) fn exact_text(text: &str) -> String {
    let is_plain = text.is_ascii()
        && !text.bytes().any(|byte| byte.is_ascii_control())
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && !text.contains("  ");
    match is_plain {
        true => text.to_owned(),
        false => with_single_blanks(
            text.chars()
                .filter(|character| !is_left_out(*character))
                .nfc(),
        ),
    }
}

/// The text without case, width and accents. An exact text and its near form give the same result.
pub fn near_text(text: &str) -> String {
    let folded = |text: &str| -> String {
        let bare = text
            .nfkd()
            .filter(|character| !is_combining_mark(*character) && !is_left_out(*character));
        // Upper case first, so that letters with one capital become equal, such as both small sigmas.
        bare.flat_map(char::to_uppercase)
            .flat_map(char::to_lowercase)
            .collect()
    };
    // Folding can produce marks and letters that fold again.
    let once = folded(&exact_text(text));
    with_single_blanks(folded(&once).chars())
}

fn with_single_blanks(characters: impl Iterator<Item = char>) -> String {
    let mut text = String::new();
    let mut is_blank_due = false;
    for character in characters {
        if is_blank(character) {
            is_blank_due = !text.is_empty();
            continue;
        }
        if std::mem::take(&mut is_blank_due) {
            text.push(' ');
        }
        text.push(character);
    }
    text
}

fn is_left_out(character: char) -> bool {
    (character.is_control() && !is_blank(character)) || is_ignorable(character)
}

fn is_blank(character: char) -> bool {
    // A Braille cell without dots shows as a blank.
    character.is_whitespace() || character == '\u{2800}'
}

/// A text of a format in its one spelling; `None` for a text that does not have the format.
pub(super) fn of_format(format: Format, text: &str) -> Option<String> {
    match format {
        Format::DateTime => instant::utc(text),
        Format::Date => is_shaped(text, "dddd-dd-dd").then(|| text.to_owned()),
        Format::Time => {
            let is_time = text
                .get(..8)
                .is_some_and(|start| is_shaped(start, "dd:dd:dd"));
            is_time.then(|| text.to_lowercase())
        }
        Format::Uuid => {
            is_shaped(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx").then(|| text.to_lowercase())
        }
        Format::Email => {
            let (local, host) = text
                .rsplit_once('@')
                .filter(|(_, host)| !host.contains(' '))?;
            Some(format!("{local}@{}", host.to_lowercase()))
        }
        Format::Uri => {
            let (scheme, rest) = text.split_once("://")?;
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            let (user, host) = match authority.rsplit_once('@') {
                Some((user, host)) => (format!("{user}@"), host),
                None => (String::new(), authority),
            };
            let (scheme, host) = (scheme.to_lowercase(), host.to_lowercase());
            Some(format!("{scheme}://{user}{host}{path}"))
        }
        Format::Host => (!text.contains(' ')).then(|| text.to_lowercase()),
    }
}

/// Whether a text has a shape: `d` for a digit, `x` for a hexadecimal one.
fn is_shaped(text: &str, shape: &str) -> bool {
    text.len() == shape.len()
        && text
            .bytes()
            .zip(shape.bytes())
            .all(|(byte, wanted)| match wanted {
                b'd' => byte.is_ascii_digit(),
                b'x' => byte.is_ascii_hexdigit(),
                other => byte == other,
            })
}
