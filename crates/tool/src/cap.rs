//! Cuts a value to a size that a model may read. Knows whole values and how long they are when written, and nothing of
//! what they mean.

use serde_json::Value;

/// How long a value is when written, in characters.
fn written_length(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.iter().filter(|byte| (**byte & 0xC0) != 0x80).count();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("counting cannot fail");
    count.0
}

/// The most bytes that a value can take when written, which is much cheaper to know than how many it does take: most
/// results are so short that no byte of them needs to be looked at.
fn written_bytes_max(value: &Value) -> usize {
    /// An integer of 64 bits has 20 digits at most, the shortest form of a double 17 and their trimmings.
    const NUMBER: usize = 25;
    /// An escape takes six bytes at most for one.
    fn text(text: &str) -> usize {
        2 + text.len() * 6
    }
    match value {
        Value::Null | Value::Bool(_) => "false".len(),
        Value::Number(_) => NUMBER,
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

/// Shortens a value to about `characters_max` written characters, by dropping whole list items from the end and by
/// cutting the ends of strings; what comes out is always a whole value, with words for what was cut. `None` where the
/// value is short enough as it is.
pub(crate) fn cap(value: &Value, characters_max: usize) -> Option<(Value, String)> {
    if written_bytes_max(value) <= characters_max || written_length(value) <= characters_max {
        return None;
    }
    let mut cut = value.clone();
    let (mut items_dropped, mut strings_cut) = (0_usize, 0_usize);
    // Items first: the last item of the longest list goes until the rest fits or no list has more than one item.
    while written_length(&cut) > characters_max {
        let Some(list) = longest_list(&mut cut) else {
            break;
        };
        list.pop();
        items_dropped += 1;
    }
    let mut limit = characters_max / 2;
    while written_length(&cut) > characters_max && limit >= 8 {
        strings_cut = 0;
        cut_strings(&mut cut, limit, &mut strings_cut);
        limit /= 2;
    }
    let mut cut = if written_length(&cut) > characters_max {
        Value::Null
    } else {
        cut
    };
    let words = match (items_dropped, strings_cut, cut.is_null()) {
        (_, _, true) => {
            cut = Value::Null;
            "the result was too long to show".to_owned()
        }
        (items, 0, false) => format!("{items} list items were left out for length"),
        (0, strings, false) => format!("{strings} texts were cut for length"),
        (items, strings, false) => {
            format!("{items} list items were left out and {strings} texts were cut for length")
        }
    };
    Some((cut, words))
}

/// The list with the most written characters that still has more than one item.
fn longest_list(value: &mut Value) -> Option<&mut Vec<Value>> {
    fn find(value: &Value, path: &mut Vec<usize>, best: &mut Option<(usize, Vec<usize>)>) {
        let children: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(map) => map.values().collect(),
            _ => return,
        };
        if matches!(value, Value::Array(items) if items.len() > 1) {
            let length = written_length(value);
            if best.as_ref().is_none_or(|(longest, _)| length > *longest) {
                *best = Some((length, path.clone()));
            }
        }
        for (index, child) in children.into_iter().enumerate() {
            path.push(index);
            find(child, path, best);
            path.pop();
        }
    }
    let mut best = None;
    find(value, &mut Vec::new(), &mut best);
    let (_, path) = best?;
    let mut place = value;
    for index in path {
        place = match place {
            Value::Array(items) => items.get_mut(index)?,
            Value::Object(map) => map.values_mut().nth(index)?,
            _ => return None,
        };
    }
    place.as_array_mut()
}

fn cut_strings(value: &mut Value, characters_max: usize, count: &mut usize) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(characters_max) {
                text.truncate(end);
                text.push('…');
                *count += 1;
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| cut_strings(item, characters_max, count)),
        Value::Object(map) => map
            .values_mut()
            .for_each(|item| cut_strings(item, characters_max, count)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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

        for (value, characters) in [
            (json!([1, 2]), 5),
            (json!({"text": "ééééé"}), 16),
            (json!("\u{1}\"\\\n"), 14),
            (json!([u64::MAX, i64::MIN, 1e-300, null, false]), 61),
        ] {
            assert_eq!(written_length(&value), characters, "{value}");
            assert_eq!(cap(&value, characters), None, "{value}");
            assert!(cap(&value, characters - 1).is_some(), "{value}");
            assert!(
                written_bytes_max(&value) >= value.to_string().len(),
                "{value}"
            );
        }
    }
}
