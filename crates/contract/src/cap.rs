//! Cuts a value to a size that a model may read. Knows whole values and their written length, and not their meaning.

use serde_json::{Map, Value};

/// The fewest characters that a cut string keeps: a shorter rest would say nothing.
const TEXT_MIN: usize = 8;

/// The cut of a value: the items kept of each list, and the characters kept of each string.
#[derive(Clone, Copy)]
struct Cut {
    items_max: usize,
    text_max: usize,
}

/// The strongest cut of lists and texts.
const SHORTEST: Cut = Cut {
    items_max: 1,
    text_max: TEXT_MIN,
};

impl Cut {
    const NOTHING: Self = Self {
        items_max: usize::MAX,
        text_max: usize::MAX,
    };

    /// Whether the cut value fits in so many written characters. The check stops at the limit, so a huge value costs no more than a long
    /// one.
    fn fits(self, value: &Value, characters_max: usize) -> bool {
        self.spend(value, characters_max).is_some()
    }

    /// Subtracts the cut value's written length from `characters`; `None` where it does not fit.
    fn spend(self, value: &Value, characters: usize) -> Option<usize> {
        match value {
            Value::Null | Value::Bool(true) => characters.checked_sub(4),
            Value::Bool(false) => characters.checked_sub(5),
            Value::Number(number) => characters.checked_sub(number.as_str().len()),
            Value::String(text) => {
                let kept = self.text(text);
                let mark = usize::from(kept.len() < text.len());
                spend_text(kept, characters.checked_sub(mark)?)
            }
            Value::Array(items) => {
                let count = items.len().min(self.items_max);
                let mut left = characters.checked_sub(2 + count.saturating_sub(1))?;
                for item in &items[..count] {
                    left = self.spend(item, left)?;
                }
                Some(left)
            }
            Value::Object(map) => {
                let mut left = characters.checked_sub(2 + map.len().saturating_sub(1))?;
                for (key, item) in map {
                    left = spend_text(key, left)?.checked_sub(1)?;
                    left = self.of_field(key, item).spend(item, left)?;
                }
                Some(left)
            }
        }
    }

    /// The cut for a field of an object. An id that is cut names nothing, so it stays whole.
    fn of_field(self, name: &str, value: &Value) -> Self {
        const ID_BYTES_MAX: usize = 256;
        let is_id = name == "id" && value.as_str().is_some_and(|id| id.len() <= ID_BYTES_MAX);
        match is_id {
            true => Self {
                text_max: usize::MAX,
                ..self
            },
            false => self,
        }
    }

    fn text(self, text: &str) -> &str {
        if text.len() <= self.text_max {
            return text;
        }
        let end = text.char_indices().nth(self.text_max);
        end.map_or(text, |(end, _)| &text[..end])
    }

    /// A copy of the value after the cut; counts the parts left out.
    fn copy(self, value: &Value, left_out: &mut LeftOut) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => {
                let mut kept = self.text(text).to_owned();
                if kept.len() < text.len() {
                    kept.push('…');
                    left_out.texts += 1;
                }
                Value::String(kept)
            }
            Value::Array(items) => {
                let count = items.len().min(self.items_max);
                left_out.items += items.len() - count;
                let kept = items[..count].iter();
                kept.map(|item| self.copy(item, left_out)).collect()
            }
            Value::Object(map) => map
                .iter()
                .map(|(key, item)| {
                    let kept = self.of_field(key, item).copy(item, left_out);
                    (key.clone(), kept)
                })
                .collect(),
        }
    }
}

/// Subtracts a text's written length, with its quotes and escapes, from `characters`; `None` where it does not fit.
pub(crate) fn spend_text(text: &str, characters: usize) -> Option<usize> {
    let mut left = characters.checked_sub(2)?;
    for character in text.chars() {
        left = left.checked_sub(written_characters(character))?;
    }
    Some(left)
}

fn written_characters(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..'\u{20}' => 6,
        _ => 1,
    }
}

/// The beginning of a text that is longer than `characters_max` when written, with the mark of a cut; empty where the rest would say
/// nothing. Its buffer does not keep the size of the whole text.
pub(crate) fn beginning(text: &str, characters_max: usize) -> String {
    // Quotes and the mark take three.
    let Some(mut left) = characters_max
        .checked_sub(3)
        .filter(|left| *left >= TEXT_MIN)
    else {
        return String::new();
    };
    let mut fits = |character: char| {
        left.checked_sub(written_characters(character))
            .map(|rest| left = rest)
            .is_some()
    };
    let end = text.char_indices().find(|(_, character)| !fits(*character));
    let end = end.map_or(text.len(), |(end, _)| end);
    let mut kept = String::with_capacity(end + '…'.len_utf8());
    kept.push_str(&text[..end]);
    kept.push('…');
    kept
}

/// Subtracts a value's written length from `characters`; 0 where the value is longer.
pub(crate) fn room_after(value: &Value, characters: usize) -> usize {
    Cut::NOTHING.spend(value, characters).unwrap_or(0)
}

#[derive(Default)]
pub(crate) struct LeftOut {
    pub(crate) fields: usize,
    pub(crate) items: usize,
    pub(crate) texts: usize,
}

impl LeftOut {
    pub(crate) fn is_nothing(&self) -> bool {
        self.fields + self.items + self.texts == 0
    }

    pub(crate) fn words(&self) -> String {
        let parts = [
            (self.fields, "fields were left out"),
            (self.items, "list items were left out"),
            (self.texts, "texts were cut"),
        ];
        let said = parts.iter().filter(|(count, _)| *count > 0);
        let said: Vec<String> = said
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        format!("{} for length", said.join(" and "))
    }
}

/// The most bytes that a value can take when written. It is much cheaper than the exact length, and most results are so short that it
/// decides alone.
fn written_bytes_max(value: &Value) -> usize {
    /// An escape takes six bytes at most for one.
    fn text(text: &str) -> usize {
        2 + text.len() * 6
    }
    match value {
        Value::Null | Value::Bool(_) => "false".len(),
        Value::Number(number) => number.as_str().len(),
        Value::String(string) => text(string),
        Value::Array(items) => {
            2 + items
                .iter()
                .map(|item| 1 + written_bytes_max(item))
                .sum::<usize>()
        }
        Value::Object(map) => {
            2 + map
                .iter()
                .map(|(key, item)| 2 + text(key) + written_bytes_max(item))
                .sum::<usize>()
        }
    }
}

/// Whether a value takes more than `characters_max` characters when written.
pub(crate) fn is_long(value: &Value, characters_max: usize) -> bool {
    written_bytes_max(value) > characters_max && !Cut::NOTHING.fits(value, characters_max)
}

/// Shortens a value to so many written characters. Whole items are dropped from the ends of lists, then the ends of strings are cut, then
/// fields are left out. The result is always a whole value, with words for the cuts. `None` where the value is short enough as it is.
pub(crate) fn cap(value: &Value, characters_max: usize) -> Option<(Value, String)> {
    if !is_long(value, characters_max) {
        return None;
    }
    let mut left_out = LeftOut::default();
    let mut room = characters_max;
    let short = match cut_to(value, characters_max) {
        Some(cut) => Some(cut.copy(value, &mut left_out)),
        None => squeeze(value, SHORTEST, &mut room, &mut left_out),
    };
    Some(match short {
        Some(short) => (short, left_out.words()),
        None => (Value::Null, "the result was too long to show".to_owned()),
    })
}

/// Keeps as much of a value as fits where its structure alone is too long: of an object the fields that fit, plain fields before nested
/// ones. `None` where nothing fits.
fn squeeze(
    value: &Value,
    shortest: Cut,
    room: &mut usize,
    left_out: &mut LeftOut,
) -> Option<Value> {
    if let Some(left) = shortest.spend(value, *room) {
        *room = left;
        return Some(shortest.copy(value, left_out));
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        Value::Array(items) => {
            *room = room.checked_sub(2)?;
            let first = items
                .first()
                .and_then(|item| squeeze(item, SHORTEST, room, left_out));
            left_out.items += items.len() - usize::from(first.is_some());
            Some(first.into_iter().collect())
        }
        Value::Object(map) => {
            *room = room.checked_sub(2)?;
            let kept = squeeze_fields(map, room, left_out);
            left_out.fields += map.len() - kept.len();
            Some(Value::Object(kept))
        }
    }
}

fn squeeze_fields(
    map: &Map<String, Value>,
    room: &mut usize,
    left_out: &mut LeftOut,
) -> Map<String, Value> {
    let holds_others = |value: &Value| value.is_object() || value.is_array();
    let mut kept = Map::new();
    for pass in [false, true] {
        let fields = map.iter().filter(|(_, item)| holds_others(item) == pass);
        for (key, item) in fields {
            let comma = usize::from(!kept.is_empty());
            let left = room.checked_sub(comma + 1);
            let Some(mut left) = left.and_then(|left| spend_text(key, left)) else {
                continue;
            };
            if let Some(short) = squeeze(item, SHORTEST.of_field(key, item), &mut left, left_out) {
                *room = left;
                kept.insert(key.clone(), short);
            }
        }
    }
    kept
}

/// Finds the mildest cut that fits. All lists are cut to the same number of items; where one item each is too much, ends of strings are
/// cut, too.
fn cut_to(value: &Value, characters_max: usize) -> Option<Cut> {
    let of_items = |items_max| Cut {
        items_max,
        ..Cut::NOTHING
    };
    if of_items(1).fits(value, characters_max) {
        // One item fits, and a list of more items than characters cannot fit.
        let (mut fitting, mut too_many) = (1, characters_max.max(2));
        while too_many - fitting > 1 {
            let middle = fitting + (too_many - fitting) / 2;
            match of_items(middle).fits(value, characters_max) {
                true => fitting = middle,
                false => too_many = middle,
            }
        }
        return Some(of_items(fitting));
    }
    // The longest strings are cut first and no further than needed, so that names and ids stay whole beside a long text.
    let of_texts = |text_max| Cut {
        items_max: 1,
        text_max,
    };
    if !of_texts(TEXT_MIN).fits(value, characters_max) {
        return None;
    }
    let (mut fitting, mut too_long) = (TEXT_MIN, characters_max.max(TEXT_MIN + 1));
    while too_long - fitting > 1 {
        let middle = fitting + (too_long - fitting) / 2;
        match of_texts(middle).fits(value, characters_max) {
            true => fitting = middle,
            false => too_long = middle,
        }
    }
    Some(of_texts(fitting))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written_length(value: &Value) -> usize {
        value.to_string().chars().count()
    }

    #[test]
    fn huge_values_are_cut_as_short_ones_are() {
        let list = || json!((0..200).map(|n| json!([n, "x"])).collect::<Vec<_>>());
        let lists: Map<String, Value> = (0..20_000).map(|n| (format!("{n}"), list())).collect();
        let (cut, words) = cap(&Value::Object(lists), 4_000).unwrap();
        assert!((3_900..=4_000).contains(&written_length(&cut)), "{cut}");
        let kept = cut.as_object().unwrap();
        assert!(words.starts_with(&format!("{} fields were left out", 20_000 - kept.len())));
        let (cut, _) = cap(&json!({"rows": vec![list(); 5_000]}), 4_000).unwrap();
        assert!((3_000..=4_000).contains(&written_length(&cut)), "{cut}");
    }

    #[test]
    fn a_cap_too_small_for_the_structure_leaves_fields_out_and_says_so() {
        let record = json!({
            "details": {"a": 1, "b": {"c": ["x".repeat(99), 2]}, "long": "x".repeat(99)},
            "id": "a-1",
            "rows": [{"n": 1}, {"n": 2}],
            "title": "A title that is long"
        });
        for (characters_max, cut, words) in [
            (
                75,
                json!({"details": {"a": 1, "long": "xxxxxxxx…"}, "id": "a-1", "title": "A title …"}),
                "2 fields were left out and 2 texts were cut for length",
            ),
            (
                34,
                json!({"id": "a-1", "title": "A title …"}),
                "2 fields were left out and 1 texts were cut for length",
            ),
            (
                14,
                json!({"id": "a-1"}),
                "3 fields were left out for length",
            ),
            (2, json!({}), "4 fields were left out for length"),
            (1, json!(null), "the result was too long to show"),
        ] {
            assert_eq!(cap(&record, characters_max), Some((cut, words.to_owned())));
        }
        let list = json!([{"text": "long enough", "n": 1}, 2]);
        let (cut, words) = cap(&list, 9).unwrap();
        assert_eq!(cut, json!([{"n": 1}]));
        assert_eq!(
            words,
            "1 fields were left out and 1 list items were left out for length"
        );
    }

    #[test]
    fn capping_drops_items_before_it_cuts_words_and_always_leaves_json() {
        let value = json!({"results": (0..50).map(|n| json!({"id": n, "text": "x".repeat(50)})).collect::<Vec<_>>()});
        let (cut, words) = cap(&value, 500).unwrap();
        assert!(written_length(&cut) <= 500);
        assert!(cut["results"].as_array().unwrap().len() >= 5, "{cut}");
        assert_eq!(
            words,
            format!(
                "{} list items were left out for length",
                50 - cut["results"].as_array().unwrap().len()
            )
        );

        let (cut, words) = cap(&json!({"body": "é".repeat(9_000)}), 1_000).unwrap();
        assert!(written_length(&cut) <= 1_000 && cut["body"].as_str().unwrap().ends_with('…'));
        assert_eq!(words, "1 texts were cut for length");

        // A long text is cut before an id is.
        let id = "a-record-with-a-rather-long-id";
        let record =
            json!({"id": id, "text": "x".repeat(2_000), "title": "A title of some length"});
        let (cut, _) = cap(&record, 150).unwrap();
        assert_eq!(
            (&cut["id"], &cut["title"]),
            (&record["id"], &record["title"])
        );
        assert!((140..=150).contains(&written_length(&cut)), "{cut}");

        // The id stays whole or is left out, however short the texts around it get.
        let (cut, _) = cap(&record, 78).unwrap();
        assert_eq!(
            cut,
            json!({"id": id, "text": cut["text"], "title": cut["title"]})
        );
        assert!(cut["title"].as_str().unwrap().ends_with('…'), "{cut}");
        let (cut, _) = cap(&record, 45).unwrap();
        assert_eq!(cut, json!({"id": id}));
        let (cut, _) = cap(&record, 30).unwrap();
        assert_eq!(cut.get("id"), None, "{cut}");

        for (value, characters) in [
            (json!([1, 2]), 5),
            (json!({"text": "ééééé"}), 16),
            (json!("\u{1}\"\\\n"), 14),
            (json!([u64::MAX, i64::MIN, 1e-300, null, false]), 61),
        ] {
            assert_eq!(written_length(&value), characters, "{value}");
            assert_eq!(Cut::NOTHING.spend(&value, characters), Some(0), "{value}");
            assert_eq!(cap(&value, characters), None, "{value}");
            assert!(cap(&value, characters - 1).is_some(), "{value}");
            assert!(
                written_bytes_max(&value) >= value.to_string().len(),
                "{value}"
            );
        }
    }
}
