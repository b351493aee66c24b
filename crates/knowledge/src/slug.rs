//! Makes parts of ids and words from people's texts: names of files and folders, questions. Knows no record.

use crate::hash;
use crate::record;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The hex digits that replace the characters that an id cannot hold.
const DIGITS: usize = 8;

/// The name part of an id, made of consecutive texts. Accents are left out. A text that loses distinguishing characters, or is longer
/// than `bytes_max`, ends in digits of its hash: two names stay two ids.
pub(crate) fn slug(parts: &[&str], bytes_max: usize) -> String {
    let mut slug = String::new();
    let mut is_whole = true;
    for part in parts {
        is_whole &= push(part, &mut slug);
        slug.push('_');
    }
    let trimmed = slug.trim_matches('_');
    if is_whole && !trimmed.is_empty() && trimmed.len() <= bytes_max {
        return trimmed.to_owned();
    }
    let bytes: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    let digits = hash::hex(&hash::sha256(&bytes)[..DIGITS / 2]);
    let room = bytes_max.saturating_sub(DIGITS + 1).min(trimmed.len());
    match trimmed[..room].trim_end_matches('_') {
        "" => digits,
        start => format!("{start}_{digits}"),
    }
}

/// A folder's name as a type, if it can be one.
pub(crate) fn word(name: &str) -> Option<String> {
    let mut word = String::new();
    push(name, &mut word);
    let word = word.trim_matches('_');
    record::is_word(word).then(|| word.to_owned())
}

/// Whether no distinguishing character was left out.
fn push(text: &str, slug: &mut String) -> bool {
    let mut is_whole = true;
    // Marks between words form one gap with the spaces around them.
    let mut is_in_gap = false;
    for letter in text.nfkd().filter(|letter| !is_combining_mark(*letter)) {
        let is_gap = match letter {
            'a'..='z' | '0'..='9' => {
                slug.push(letter);
                false
            }
            'A'..='Z' => {
                slug.push(letter.to_ascii_lowercase());
                false
            }
            ' ' | '-' | '_' | '.' => {
                if !is_in_gap {
                    slug.push('_');
                }
                is_in_gap
            }
            '+' | '#' | '@' | '%' | '=' | '~' | '$' | '^' | '*' | '<' | '>' | '|' => {
                is_whole = false;
                true
            }
            other => {
                is_whole &= !other.is_alphanumeric();
                true
            }
        };
        if is_gap && !is_in_gap && !slug.ends_with('_') {
            slug.push('_');
        }
        is_in_gap = is_gap;
    }
    is_whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parts: &[&str], expected: &str) {
        assert_eq!(slug(parts, 60), expected, "{parts:?}");
    }

    #[test]
    fn a_name_is_written_in_the_letters_of_an_id() {
        check(&["Ada-Lovelace"], "ada_lovelace");
        check(&["2024", "x y"], "2024_x_y");
        check(&["a--b"], "a__b");
        check(&["_draft_"], "draft");
        check(&["Café Håkon"], "cafe_hakon");
        check(&["When do you open? (Sundays)"], "when_do_you_open_sundays");
        check(&["Q&A"], "q_a");
        check(&["don’t"], "don_t");
    }

    #[test]
    fn names_that_an_id_cannot_tell_apart_end_in_digits() {
        for (first, second, start) in [
            ("C++", "C#", "c_"),
            ("日本", "中国", ""),
            ("smørbrød", "smårbrød", "sm"),
            (&"a".repeat(99), &"a".repeat(98), "aaa"),
            ("-", "--", ""),
        ] {
            let [first, second] = [first, second].map(|name| slug(&[name], 60));
            assert_ne!(first, second);
            for slug in [first, second] {
                assert!(slug.starts_with(start) && slug.len() <= 60, "{slug}");
                let digits = &slug[slug.len() - DIGITS..];
                assert!(
                    digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
                    "{slug}"
                );
            }
        }
    }

    #[test]
    fn a_folder_names_a_type_where_it_can() {
        for (name, expected) in [
            ("Getting-Started", Some("getting_started")),
            ("api.v2", Some("api_v2")),
            ("Vidéos", Some("videos")),
            ("2024", None),
            ("日本", None),
            ("", None),
        ] {
            assert_eq!(word(name).as_deref(), expected, "{name}");
        }
    }
}
