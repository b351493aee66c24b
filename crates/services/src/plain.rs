//! Strangers' texts without parts that could be read as something else: markup, character references, invisible characters. Knows
//! no service.

use windlass_contract::characters::{is_ignorable, steers};

/// Characters of a character reference between `&` and `;`.
const REFERENCE_MAX: usize = 10;

/// A text in one line, without tags of HTML, with its character references read, of at most so many characters.
pub(crate) fn plain(text: &str, characters_max: usize) -> String {
    let text = without_tags(&with_references_read(text));
    let mut line = String::new();
    let mut count = 0;
    for word in text.split(|letter: char| letter.is_whitespace() || steers(letter)) {
        let mut shown = word.chars().filter(|letter| !is_ignorable(*letter));
        let Some(first) = shown.next() else {
            continue;
        };
        let blank = (count > 0).then_some(' ');
        for letter in blank.into_iter().chain([first]).chain(shown) {
            if count == characters_max {
                line.pop();
                line.push('…');
                return line;
            }
            line.push(letter);
            count += 1;
        }
    }
    line
}

/// A `<` that no tag begins stays: `a < b` is no markup.
fn without_tags(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        kept.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let begins_tag = behind.starts_with(|letter: char| {
            letter.is_ascii_alphabetic() || matches!(letter, '/' | '!' | '?')
        });
        rest = match (begins_tag, behind.find('>')) {
            (true, Some(end)) => &behind[end + 1..],
            // A tag that was cut off is no text either.
            (true, None) => "",
            (false, _) => {
                kept.push('<');
                behind
            }
        };
    }
    kept.push_str(rest);
    kept
}

fn with_references_read(text: &str) -> String {
    let mut read = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        read.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let name = behind
            .bytes()
            .take(REFERENCE_MAX + 1)
            .position(|byte| byte == b';');
        match name.and_then(|end| Some((character(&behind[..end])?, end))) {
            Some((letter, end)) => {
                read.push(letter);
                rest = &behind[end + 1..];
            }
            None => {
                read.push('&');
                rest = behind;
            }
        }
    }
    read.push_str(rest);
    read
}

/// The character of an HTML reference: by its number, or by one of the names that escaping makes.
fn character(name: &str) -> Option<char> {
    let number = match name.strip_prefix('#') {
        Some(digits) => match digits.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => digits.parse().ok()?,
        },
        None => {
            return Some(match name {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                "nbsp" => ' ',
                _ => return None,
            });
        }
    };
    char::from_u32(number)
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn strangers_texts_are_one_line_without_markup() {
        for (given, expected) in [
            ("The <strong>Fram</strong>", "The Fram"),
            ("Tom &amp; Jerry&#x27;s &#39;a&#39;", "Tom & Jerry's 'a'"),
            ("&lt;script&gt;alert(1)&lt;/script&gt;", "alert(1)"),
            ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
            ("a < b > c, 1<2", "a < b > c, 1<2"),
            ("cut <a href=\"x", "cut"),
            ("<!-- note -->x<?php y ?>z", "xz"),
            ("one\n\n two\t\u{2028}three", "one two three"),
            ("hid\u{200B}den\u{E0041} \u{E0042}", "hidden"),
            (
                "&unknown; &; & &#xFFFFFFFFF; &#;",
                "&unknown; &; & &#xFFFFFFFFF; &#;",
            ),
            ("", ""),
        ] {
            assert_eq!(plain(given, 100), expected, "{given:?}");
        }
        assert_eq!(plain("four", 4), "four");
        assert_eq!(plain("fours", 4), "fou…");
        assert_eq!(plain(&"ä b ".repeat(100_000), 5), "ä b …");
    }
}
