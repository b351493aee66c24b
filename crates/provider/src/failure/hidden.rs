//! A server's words made fit for a log: on one line, not too long, and without text that looks like a credential. Servers quote
//! the key that they refuse. Knows no key; goes by the look of keys.

/// Prefixes of known services' keys.
const KEY_PREFIXES: [&str; 10] = [
    "sk-",
    "sk_",
    "AIza",
    "ek_",
    "ya29",
    "gsk_",
    "xai-",
    "hf_",
    "auth_tokens",
    "Bearer",
];
const HIDDEN: &str = "[hidden]";

/// Text with control characters and credentials taken out, and cut to so many characters.
pub(super) fn printable(text: &str, characters_max: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(characters_max * 4));
    let mut rest = text;
    let mut after_bearer = false;
    while let Some(letter) = rest.chars().next() {
        let word_bytes = rest
            .find(|letter: char| !is_of_word(letter))
            .unwrap_or(rest.len());
        if word_bytes == 0 {
            shown.push(if is_shown(letter) { letter } else { ' ' });
            rest = &rest[letter.len_utf8()..];
        } else {
            let (word, behind) = rest.split_at(word_bytes);
            if after_bearer || is_secret(word) {
                shown.push_str(HIDDEN);
            } else {
                shown.push_str(word);
            }
            after_bearer = word.eq_ignore_ascii_case("bearer");
            rest = behind;
        }
        if shown.len() > characters_max * 4 {
            break;
        }
    }
    if let Some((end, _)) = shown.char_indices().nth(characters_max) {
        shown.truncate(end);
        shown.push('…');
    }
    shown.trim().to_owned()
}

/// Stars stand in keys that a server has half hidden itself.
fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '*')
}

/// Control characters break lines, and bidirectional ones turn them around.
fn is_shown(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_secret(word: &str) -> bool {
    let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    let digit = has(u8::is_ascii_digit);
    let begins_like_a_key = KEY_PREFIXES
        .iter()
        .any(|prefix| word.starts_with(prefix) && word.len() > prefix.len() + 2);
    let is_mixed =
        word.len() >= 20 && digit && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let is_plain_and_long =
        word.len() >= 32 && digit && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    begins_like_a_key || is_mixed || is_plain_and_long
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn what_looks_like_a_key_is_hidden_and_names_stay() {
        for (text, shown) in [
            (
                "Incorrect API key provided: sk-proj-ab12*****wxyz. See the site.",
                "Incorrect API key provided: [hidden]. See the site.",
            ),
            (
                "key AIzaSyA-1234567890abcdefghijklmnopqrstu is bad",
                "key [hidden] is bad",
            ),
            (
                "authorization: Bearer abc.def",
                "authorization: Bearer [hidden].def",
            ),
            ("azure 0123456789abcdef0123456789abcdef", "azure [hidden]"),
            (
                "models/gemini-2.5-flash-native-audio-preview-12-2025 is not found",
                "models/gemini-2.5-flash-native-audio-preview-12-2025 is not found",
            ),
            (
                "Invalid schema for function 'kb_search'",
                "Invalid schema for function 'kb_search'",
            ),
            ("two\nlines\u{202e}\u{0007}", "two lines"),
            ("", ""),
        ] {
            assert_eq!(printable(text, 300), shown, "{text:?}");
        }
        assert_eq!(printable(&"é ".repeat(200), 5), "é é é…");
    }
}
