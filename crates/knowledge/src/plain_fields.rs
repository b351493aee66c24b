//! Reads the usual front matter without a YAML reader: lines of `name: value`, whose value is text, a quoted text, a small number or a
//! list of these in brackets. Knows nothing else of YAML, and returns `None` for anything unusual, which the YAML reader then reads.

use serde_json::{Map, Value};

/// Words with a meaning in some YAML reader, in any case.
const MEANINGFUL: [&str; 12] = [
    "false", "inf", "infinity", "n", "nan", "no", "null", "off", "on", "true", "y", "yes",
];
/// The most letters of a field's name; YAML has a limit, too.
const NAME_MAX: usize = 64;
/// The most digits of a number that all readers read alike.
const DIGITS_MAX: usize = 9;

/// The fields of front matter with its opening line; `None` for all but the plainest.
pub(crate) fn read(front: &str) -> Option<Map<String, Value>> {
    let lines = front.strip_prefix("---\n")?;
    let mut fields = Map::new();
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ")?;
        let is_name = name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.len() <= NAME_MAX
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            && !MEANINGFUL.contains(&name);
        let value = match is_name {
            true => field(value.trim_matches(' '))?,
            false => return None,
        };
        // A repeated name is a mistake to be reported.
        if fields.insert(name.to_owned(), value).is_some() {
            return None;
        }
    }
    (!fields.is_empty()).then_some(fields)
}

fn field(text: &str) -> Option<Value> {
    let Some(list) = text.strip_prefix('[') else {
        return one(text, ValuePosition::Line);
    };
    let list = list.strip_suffix(']')?.trim_matches(' ');
    if list.is_empty() {
        return Some(Value::Array(Vec::new()));
    }
    let items = list
        .split(',')
        .map(|item| one(item.trim_matches(' '), ValuePosition::List));
    items.collect::<Option<Vec<_>>>().map(Value::Array)
}

/// The position of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValuePosition {
    Line,
    List,
}

fn one(text: &str, place: ValuePosition) -> Option<Value> {
    if let Some(quoted) = text.strip_prefix('"') {
        let quoted = quoted.strip_suffix('"')?;
        return quoted.chars().all(is_quoted).then(|| quoted.into());
    }
    let first = text.chars().next()?;
    match first.is_ascii_digit() {
        true if is_date(text) => Some(text.into()),
        true => number(text),
        false if first.is_alphabetic() && is_plain(text, place) => Some(text.into()),
        false => None,
    }
}

/// Whether a quoted text may hold the letter: not the closing mark or an escape.
fn is_quoted(letter: char) -> bool {
    letter.is_alphanumeric() || ((' '..='~').contains(&letter) && !matches!(letter, '"' | '\\'))
}

fn is_plain(text: &str, place: ValuePosition) -> bool {
    // A colon is an ordinary letter unless a space or nothing follows it.
    let has_mark = text.contains(": ") || text.ends_with(':');
    let is_letter = |letter: char| match letter {
        ' ' | '.' | ';' | '(' | ')' | '\'' | '/' | '-' | '_' | '+' | '!' => true,
        ':' | ',' | '?' | '=' | '&' | '%' => place == ValuePosition::Line,
        _ => letter.is_alphanumeric(),
    };
    !has_mark
        && text.chars().all(is_letter)
        && !MEANINGFUL
            .iter()
            .any(|word| word.eq_ignore_ascii_case(text))
}

/// A day, which YAML reads as text.
fn is_date(text: &str) -> bool {
    let is_of_form = |(place, byte): (usize, u8)| match place {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    text.len() == 10 && text.bytes().enumerate().all(is_of_form)
}

/// Reads a number. Some readers give leading zeros another meaning.
fn number(text: &str) -> Option<Value> {
    let is_small = text.len() <= DIGITS_MAX && (text == "0" || !text.starts_with('0'));
    let is_number = is_small && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        .then(|| text.parse::<u64>().ok())?
        .map(Value::from)
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::front_matter::yaml;
    use serde_json::{Value, json};

    #[test]
    fn usual_front_matter_is_read() {
        let front = "---\nid: doc:hull\ntitle: \"Fram's hull: how thick\"\naliases: [hull, \"the, hull\", Colón]\n\n\
                     tags: [ ]\nurl: https://host/a?b=c&d\nlast_updated: 2026-11-02\nsteam_hp: 220\n";
        assert_eq!(
            read(front),
            None,
            "a comma between quotes is not looked for"
        );
        let front = front.replace("the, hull", "the hull: oak");
        let fields = json!({
            "id": "doc:hull", "title": "Fram's hull: how thick", "aliases": ["hull", "the hull: oak", "Colón"],
            "tags": [], "url": "https://host/a?b=c&d", "last_updated": "2026-11-02", "steam_hp": 220
        });
        assert_eq!(read(&front).map(Value::Object), Some(fields));
    }

    /// Pieces of random front matter, harmless ones and ones with a meaning in YAML.
    const PIECES: &[&str] = &[
        "a",
        "B",
        "word",
        "two words",
        "Ærø",
        "東京",
        "\u{301}",
        "0",
        "7",
        "007",
        "1892",
        "12345678901",
        "1e5",
        "0x1f",
        "1_000",
        "1.5",
        ".5",
        "2024-05-31",
        "2024-05-31T18:00:00Z",
        "12:30",
        "true",
        "True",
        "no",
        "Off",
        "y",
        "null",
        "~",
        "NaN",
        ".inf",
        "inf",
        "Infinity",
        "-",
        "--",
        "---",
        "...",
        "- ",
        "?",
        "? ",
        ":",
        ": ",
        "::",
        " :",
        "#",
        " #",
        "a#b",
        "&",
        "&a ",
        "*a",
        "!",
        "!!str ",
        "%",
        "@",
        "`",
        "|",
        ">",
        "|-",
        "'",
        "''",
        "\"",
        "\"\"",
        "\\",
        "\\n",
        "\"q\"",
        "'q'",
        "[",
        "]",
        "[]",
        "{",
        "}",
        "{}",
        ",",
        ", ",
        ";",
        "(",
        ")",
        "/",
        "=",
        "<<",
        "+",
        "_",
        " ",
        "  ",
        "\t",
        "\r",
        "\u{a0}",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\u{0}",
        "\u{7f}",
        "http://h/a?b=c",
        "\n",
        "\n ",
        "\n- ",
        "\nname: ",
        "\nb: ",
        "\nB: ",
        "\nname:",
        "\n\n",
        "\n# c",
        "\n---\n",
        "\"a\": ",
        "[a, b]",
        "[a, \"b c\", 1]",
        "[a,b]",
        "[a, ]",
        "[,]",
        "[[a]]",
        "[a: b]",
        "[a:b]",
        "{a: b}",
    ];

    #[test]
    fn what_is_read_here_is_what_a_reader_of_all_yaml_reads() {
        let mut state = 1_u64;
        let mut chance = move |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let (mut read_here, mut with_lists) = (0, 0);
        for _ in 0..200_000 {
            let mut front = "---\n".to_owned();
            for name in ["a", "list", "title"].iter().take(1 + chance(3)) {
                front.push_str(name);
                front.push_str(": ");
                for _ in 0..1 + chance(4) {
                    front.push_str(PIECES[chance(PIECES.len())]);
                }
                front.push('\n');
            }
            if let Some(fields) = read(&front) {
                read_here += 1;
                with_lists += usize::from(fields.values().any(Value::is_array));
                assert_eq!(yaml(&front), Ok(Value::Object(fields)), "{front:?}");
            }
        }
        assert!(
            read_here > 2_000 && with_lists > 200,
            "{read_here} {with_lists}"
        );
    }

    /// Tests each pair of pieces, so that no combination is left to chance.
    #[test]
    fn no_two_pieces_mean_another_thing_here() {
        for first in PIECES {
            for second in PIECES {
                for front in [
                    format!("---\na: {first}{second}\n"),
                    format!("---\na: [{first}{second}]\n"),
                    format!("---\na: [b, {first}{second}, c]\n"),
                    format!("---\na: x{first}{second}\n"),
                    format!("---\na: \"{first}{second}\"\n"),
                    format!("---\n{first}{second}: b\n"),
                ] {
                    if let Some(fields) = read(&front) {
                        assert_eq!(yaml(&front), Ok(Value::Object(fields)), "{front:?}");
                    }
                }
            }
        }
    }
}
