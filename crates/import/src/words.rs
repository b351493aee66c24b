//! Names and texts of a source as tools may have them: ids, and descriptions in one line.

use std::collections::BTreeSet;

/// The longest id of a tool.
pub(super) const ID_CHARACTERS_MAX: usize = 63;

/// Small letters, digits and single underscores.
pub(super) fn snake_case(name: &str) -> String {
    let mut made = String::new();
    let mut before: Option<char> = None;
    for character in name.chars() {
        if character.is_ascii_alphanumeric() {
            let begins_word = character.is_ascii_uppercase()
                && before
                    .is_some_and(|before| before.is_ascii_lowercase() || before.is_ascii_digit());
            if begins_word {
                made.push('_');
            }
            made.push(character.to_ascii_lowercase());
        } else if !made.is_empty() && !made.ends_with('_') {
            made.push('_');
        }
        before = Some(character);
    }
    cut(&made, ID_CHARACTERS_MAX)
}

/// The same for the id of a tool, which begins with a letter.
pub fn tool_id(name: &str) -> String {
    let name = snake_case(name);
    match name.bytes().next() {
        Some(first) if first.is_ascii_lowercase() => name,
        _ => cut(&format!("call_{name}"), ID_CHARACTERS_MAX),
    }
}

fn cut(name: &str, characters_max: usize) -> String {
    let name: String = name.chars().take(characters_max).collect();
    name.trim_end_matches('_').to_owned()
}

/// The id, or the id with a number behind it.
pub(super) fn unique(id: String, taken: &mut BTreeSet<String>) -> String {
    let mut number = 1;
    let mut candidate = id.clone();
    while !taken.insert(candidate.clone()) {
        number += 1;
        let ending = format!("_{number}");
        candidate = format!("{}{ending}", cut(&id, ID_CHARACTERS_MAX - ending.len()));
    }
    candidate
}

/// Text of a source in one line, and no longer than so many characters.
pub(super) fn one_line(text: &str, characters_max: usize) -> String {
    let words: Vec<&str> = text
        .split(|character: char| character.is_whitespace() || character.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    match line.char_indices().nth(characters_max) {
        None => line,
        Some(_) => {
            let kept: String = line
                .chars()
                .take(characters_max.saturating_sub(1))
                .collect();
            format!("{}…", kept.trim_end())
        }
    }
}

pub(super) fn brief(text: &str) -> String {
    one_line(text, 80)
}

/// Text that makes no heading and no code of a guide.
pub(super) fn plain(text: &str) -> String {
    text.replace(['`', '#'], " ").trim().to_owned()
}
