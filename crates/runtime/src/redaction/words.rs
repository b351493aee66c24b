//! Texts of others (panics, providers, tools, strangers) on their way to a log or a client: without keys, and without characters
//! that would break a line or turn it around.

use regex::{Captures, Regex};
use std::borrow::Cow;
use std::sync::{LazyLock, PoisonError, RwLock};
use windlass_contract::characters::steers;
use windlass_contract::sensitive::Sensitive;

/// Replaces a secret.
const LEFT_OUT: &str = "(secret)";
/// Bytes of a secret of this process that is looked for; a shorter one would be found in many words.
const OWN_BYTES_MIN: usize = 6;
/// Secrets of this process that are kept.
const OWN_MAX: usize = 64;

/// The secrets in this process's configuration. They belong to the process, as its log does.
static OWN: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// The forms of keys and passwords anywhere in a text. In an assignment and an address, the text before the secret stays.
static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    let patterns = [
        // Well-known keys and tokens by their prefixes.
        r"\b(?:sk|pk|rk|wk|whsec|ghp|gho|ghs|github_pat|glpat|xox[abprs])[-_][A-Za-z0-9_\-]{12,}",
        r"\bAIza[A-Za-z0-9_\-]{20,}",
        r"\bya29\.[A-Za-z0-9_\-.]{16,}",
        r"\bauth_tokens/[A-Za-z0-9_\-]{6,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]*",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
        // Values of headers and assignments.
        r"(?P<scheme>(?i:bearer|basic)\s+)[A-Za-z0-9+/_\-.=~]{6,}",
        r#"(?P<name>(?i:[a-z0-9_\-]*(?:api[_\-]?key|access[_\-]?key|token|secret|passw(?:or)?d|passphrase|credential|signature|cookie|authorization))\\?["']?\s*[:=]\s*\\?["']?)(?:[^\s"'&,;\\}\])]{4,})"#,
        r"(?P<user>[a-z][a-z0-9+.\-]*://[^\s:/@]*:)[^\s@/]+(?P<at>@)",
    ];
    Regex::new(&patterns.join("|")).expect("the patterns above are regular expressions")
});

/// Has a secret recognised in every text from now on.
pub fn remember(secret: &Sensitive<String>) {
    let secret = secret.expose().trim();
    let mut own = OWN.write().unwrap_or_else(PoisonError::into_inner);
    let is_known = own.iter().any(|known| known == secret);
    if secret.len() >= OWN_BYTES_MIN && !is_known && own.len() < OWN_MAX {
        own.push(secret.to_owned());
    }
}

/// The words without keys, tokens and passwords.
pub fn without_secrets(words: &str) -> Cow<'_, str> {
    let mut words = Cow::Borrowed(words);
    for own in &*OWN.read().unwrap_or_else(PoisonError::into_inner) {
        if words.contains(own.as_str()) {
            words = Cow::Owned(words.replace(own.as_str(), LEFT_OUT));
        }
    }
    if !PATTERN.is_match(&words) {
        return words;
    }
    let masked = PATTERN.replace_all(&words, |found: &Captures<'_>| {
        let part = |name| found.name(name).map_or("", |part| part.as_str());
        let (scheme, name, user) = (part("scheme"), part("name"), part("user"));
        format!("{scheme}{name}{user}{LEFT_OUT}{}", part("at"))
    });
    Cow::Owned(masked.into_owned())
}

/// A line of the log without secrets, and with every character escaped that would break it, steer a terminal or turn it around.
/// The colours of a log on a terminal stay.
pub fn for_log(line: &str) -> String {
    let line = without_secrets(line);
    let mut shown = String::with_capacity(line.len());
    let mut rest = &*line;
    while let Some(character) = rest.chars().next() {
        let length = match colour(rest) {
            Some(length) => {
                shown.push_str(&rest[..length]);
                length
            }
            None => {
                match steers(character) {
                    // The escape is valid in JSON too, unlike other forms with a backslash.
                    true => shown.push_str(&format!("\\u{:04x}", u32::from(character))),
                    false => shown.push(character),
                }
                character.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    shown
}

/// Bytes of the colour sequence at a text's beginning, if there is one.
fn colour(text: &str) -> Option<usize> {
    let behind = text.strip_prefix("\u{1b}[")?;
    let digits = behind
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b';');
    let digits = digits.count();
    (digits <= 8 && behind[digits..].starts_with('m')).then_some(digits + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str, shown: &str) {
        assert_eq!(without_secrets(words), shown, "{words}");
    }

    #[test]
    fn what_looks_like_a_key_is_left_out_and_what_stands_beside_it_stays() {
        check(
            "the key sk-abcdefghijklmnop1234 is bad",
            "the key (secret) is bad",
        );
        check("AIzaSyA1234567890abcdefghijk-lm!", "(secret)!");
        check(
            "Authorization: Bearer abc.def-123456",
            "Authorization: (secret) abc.def-123456",
        );
        check(
            "sent Bearer abc.def-123456 there",
            "sent Bearer (secret) there",
        );
        check(
            "?key=1&api_key=abc123456&x=1",
            "?key=1&api_key=(secret)&x=1",
        );
        check(
            r#"{"password": "hunter2hunter2", "a": 1}"#,
            r#"{"password": "(secret)", "a": 1}"#,
        );
        check(
            r#"{\"client_secret\":\"abcdefgh\"}"#,
            r#"{\"client_secret\":\"(secret)\"}"#,
        );
        check(
            "postgres://me:pass@host/db",
            "postgres://me:(secret)@host/db",
        );
        check("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", "(secret)");
        check(
            "a token is missing, and tokens: 12",
            "a token is missing, and tokens: 12",
        );
        check("https://example.org/a?b=c", "https://example.org/a?b=c");
    }

    #[test]
    fn a_secret_of_this_process_is_found_in_whatever_form_it_has() {
        check("it is correct-horse now", "it is correct-horse now");
        remember(&Sensitive("correct-horse".to_owned()));
        check("it is correct-horse now", "it is (secret) now");
    }

    #[test]
    fn no_line_of_the_log_breaks_steers_or_turns_around() {
        for (line, shown) in [
            ("plain: \u{e4} \u{1f6a2}", "plain: \u{e4} \u{1f6a2}"),
            ("one\ntwo\r\0\u{7}", "one\\u000atwo\\u000d\\u0000\\u0007"),
            ("\u{202e}evil\u{2066}", "\\u202eevil\\u2066"),
            ("\u{1b}[31mred\u{1b}[0m", "\u{1b}[31mred\u{1b}[0m"),
            ("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007"),
            ("\u{1b}[2J", "\\u001b[2J"),
            ("\u{9b}31m", "\\u009b31m"),
        ] {
            assert_eq!(for_log(line), shown, "{line:?}");
        }
    }
}
