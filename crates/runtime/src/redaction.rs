//! What of a call's arguments may be shown: all but what the tool's manifest marks as sensitive. Knows no log and no client.

use serde_json::{Map, Value};
use std::borrow::Cow;
use windlass_tool::arguments::Arguments;

/// The arguments without those that the JSON pointers name. A `*` in a pointer stands for every key or item.
pub(crate) fn without_sensitive<'a>(
    arguments: &'a Arguments,
    sensitive: &[String],
) -> Cow<'a, Arguments> {
    if sensitive.is_empty() {
        return Cow::Borrowed(arguments);
    }
    let mut visible = arguments.to_map();
    for pointer in sensitive {
        let tokens: Vec<String> = pointer
            .split('/')
            .skip(1)
            .map(|token| token.replace("~1", "/").replace("~0", "~"))
            .collect();
        remove_from_map(&mut visible, &tokens);
    }
    Cow::Owned(visible.into())
}

fn remove_from_map(map: &mut Map<String, Value>, tokens: &[String]) {
    let Some((first, rest)) = tokens.split_first() else {
        // The empty pointer names the whole of the arguments.
        map.clear();
        return;
    };
    match (first.as_str(), rest) {
        ("*", []) => map.clear(),
        ("*", _) => map
            .values_mut()
            .for_each(|value| remove_from_value(value, rest)),
        (name, []) => {
            map.remove(name);
        }
        (name, _) => {
            if let Some(value) = map.get_mut(name) {
                remove_from_value(value, rest);
            }
        }
    }
}

fn remove_from_value(value: &mut Value, tokens: &[String]) {
    let items = match value {
        Value::Object(map) => return remove_from_map(map, tokens),
        Value::Array(items) => items,
        _ => return,
    };
    let Some((first, rest)) = tokens.split_first() else {
        return;
    };
    let named: Box<dyn Iterator<Item = &mut Value>> = if first == "*" {
        Box::new(items.iter_mut())
    } else {
        let index = first.parse::<usize>().ok();
        Box::new(index.and_then(|index| items.get_mut(index)).into_iter())
    };
    for item in named {
        if rest.is_empty() {
            // Removing the item would move its neighbours.
            *item = Value::Null;
        } else {
            remove_from_value(item, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sensitive_arguments_are_left_out_wherever_they_lie() {
        let arguments = json!({
            "title": "Tea", "pin": 1, "a/b": 2,
            "card": {"number": 3, "name": "Ada"},
            "guests": [{"mail": "x", "name": "Bob"}, {"mail": "y"}], "codes": [7, 8]
        });
        let arguments = arguments.as_object().unwrap();
        let given = Arguments::from(arguments.clone());
        for (pointers, expected) in [
            (vec![], arguments.clone()),
            (
                vec![
                    "/pin",
                    "/a~1b",
                    "/card/number",
                    "/guests/*/mail",
                    "/codes/1",
                    "/none/x",
                ],
                json!({
                    "title": "Tea", "card": {"name": "Ada"},
                    "guests": [{"name": "Bob"}, {}], "codes": [7, null]
                })
                .as_object()
                .unwrap()
                .clone(),
            ),
            (vec![""], Map::new()),
            (vec!["/*"], Map::new()),
        ] {
            let pointers: Vec<String> = pointers.into_iter().map(str::to_owned).collect();
            assert_eq!(
                without_sensitive(&given, &pointers).to_map(),
                expected,
                "{pointers:?}"
            );
        }
    }
}
