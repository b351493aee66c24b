//! The sound of a name as a short key that all spellings of one sound share. Knows no dictionary.
//!
//! The rules are those of the Cologne phonetics (H. J. Postel, "Die Kölner Phonetik", IBM-Nachrichten 19, 1969), which
//! were made for Germanic names: letters of one sound get one digit, repeated digits become one, vowels count at the
//! beginning only.

/// The key of a word of ASCII letters in lower case; other signs are silent.
pub(crate) fn key(word: &str) -> String {
    let letters: Vec<u8> = word
        .bytes()
        .filter(|byte| byte.is_ascii_lowercase())
        .collect();
    let mut key = String::with_capacity(letters.len());
    let mut last = None;
    for (place, letter) in letters.iter().enumerate() {
        let before = place.checked_sub(1).map(|place| letters[place]);
        let after = letters.get(place + 1).copied();
        for digit in digits(*letter, before, after).bytes() {
            if last != Some(digit) && (digit != b'0' || key.is_empty()) {
                key.push(char::from(digit));
            }
            last = Some(digit);
        }
    }
    key
}

fn digits(letter: u8, before: Option<u8>, after: Option<u8>) -> &'static str {
    let is_before = |letters: &[u8]| after.is_some_and(|after| letters.contains(&after));
    let is_after = |letters: &[u8]| before.is_some_and(|before| letters.contains(&before));
    match letter {
        b'a' | b'e' | b'i' | b'j' | b'o' | b'u' | b'y' => "0",
        b'b' => "1",
        b'p' if is_before(b"h") => "3",
        b'p' => "1",
        b'd' | b't' if is_before(b"csz") => "8",
        b'd' | b't' => "2",
        b'f' | b'v' | b'w' => "3",
        b'g' | b'k' | b'q' => "4",
        b'c' if before.is_none() && is_before(b"ahkloqrux") => "4",
        b'c' if before.is_some() && is_before(b"ahkoqux") && !is_after(b"sz") => "4",
        b'c' => "8",
        b'x' if is_after(b"ckq") => "8",
        b'x' => "48",
        b'l' => "5",
        b'm' | b'n' => "6",
        b'r' => "7",
        b's' | b'z' => "8",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_sound_share_a_key() {
        for (word, expected) in [
            ("mueller", "657"),
            ("wikipedia", "3412"),
            ("breschnew", "17863"),
            ("amundsen", "06686"),
            ("amunson", "06686"),
            ("hjalmar", "0567"),
            ("yalmar", "0567"),
            ("fridtjof", "3723"),
            ("freetyoff", "3723"),
            ("xaver", "4837"),
            ("", ""),
            ("船", ""),
        ] {
            assert_eq!(key(word), expected, "{word}");
        }
    }
}
