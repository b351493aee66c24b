//! The wording of messages about names and values from outside. Knows no rule and no tool.

use serde_json::Value;

/// An outside text for a message of ours: at most 60 characters, controls escaped.
pub fn brief(text: &str) -> String {
    const CHARACTERS_MAX: usize = 60;
    let mut out: String = text
        .chars()
        .take(CHARACTERS_MAX)
        .flat_map(|character| {
            let escape = character.is_control();
            escape
                .then(|| character.escape_default())
                .into_iter()
                .flatten()
                .chain((!escape).then_some(character))
        })
        .collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        out.push('…');
    }
    out
}

/// The kind of a value, in words that fit after "is".
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The JSON pointer of a member.
pub fn pointer(parent: &str, name: &str) -> String {
    format!("{parent}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The name nearest to an unknown one, if any is near.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_ascii_lowercase();
    names
        .map(|known| (edit_distance(&lower, &known.to_ascii_lowercase()), known))
        .filter(|(distance, known)| *distance <= 1 + known.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Levenshtein's distance in bytes. Names are cut to 64 bytes, which suffices to show that they differ much.
pub fn edit_distance(left: &str, right: &str) -> usize {
    let left = &left.as_bytes()[..left.len().min(64)];
    let right = &right.as_bytes()[..right.len().min(64)];
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, left_byte) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, right_byte) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(left_byte != right_byte);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::edit_distance;

    #[test]
    fn edit_distances() {
        for (left, right, distance) in [
            ("", "", 0),
            ("kb_serch", "kb_search", 1),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edit_distance(left, right), distance);
        }
    }
}
